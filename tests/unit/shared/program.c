/* See program.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

void maker_init(Maker *m)
{
    plan_builder_init(&m->b);
    m->b.info[0].module = plan_string(&m->b, "test");
    m->b.info[0].target = plan_string(&m->b, "sm_90a");
    m->b.info[0].sm = 90;
    m->b.info[0].suffix = 'a';
    m->b.info[0].min_driver = 12080;
    PlanKernel k = {.name = plan_string(&m->b, "add"),
                    .grid = {1, 1, 1},
                    .block = {32, 1, 1},
                    .cluster = {1, 1, 1},
                    .parameter_count = 4};
    m->add = plan_add_kernels(&m->b, &k, 1);
    k.name = plan_string(&m->b, "less");
    k.parameter_count = 3;
    m->less = plan_add_kernels(&m->b, &k, 1);
}

uint32_t maker_slice(Maker *m, uint32_t allocation, uint64_t offset, uint64_t bytes)
{
    PlanSlice s = {.allocation = allocation, .offset = offset, .bytes = bytes};
    return plan_add_slices(&m->b, &s, 1);
}

uint32_t maker_allocation(Maker *m, uint32_t kind, uint32_t index, uint64_t bytes)
{
    PlanAllocation a = {.kind = kind, .index = index, .alignment = 16, .bytes = bytes};
    return plan_add_allocations(&m->b, &a, 1);
}

/* An s32[n] argument or result; returns its slice. */
uint32_t maker_value(Maker *m, bool result, int64_t n, uint32_t alias,
                     uint32_t alias_kind)
{
    uint32_t index = result ? m->b.results_count : m->b.arguments_count;
    uint64_t bytes = (uint64_t)n * 4;
    PlanValue v = {.name = plan_string(&m->b, "v"),
                   .dtype = plan_string(&m->b, "s32"),
                   .element_bits = 32,
                   .rank = 1,
                   .dims = plan_add_numbers(&m->b, (int64_t[]){n, 0}, 2),
                   .alias = alias,
                   .alias_kind = alias_kind,
                   .size_of = PLAN_NONE,
                   .bytes = bytes};
    v.slice = result && alias != PLAN_NONE
                  ? m->b.arguments[alias].slice
                  : maker_slice(m,
                                maker_allocation(m, result ? PLAN_RESULT : PLAN_ARGUMENT,
                                                 index, bytes),
                                0, bytes);
    if (result)
        plan_add_results(&m->b, &v, 1);
    else
        plan_add_arguments(&m->b, &v, 1);
    return v.slice;
}

PlanMatmul square_product(uint32_t n)
{
    const PlanMatrix matrix = {.type = CUDA_R_32F, .rows = n, .columns = n, .ld = n};
    return (PlanMatmul){.a = matrix,
                        .b = matrix,
                        .c = matrix,
                        .d = matrix,
                        .batch = 1,
                        .compute = CUBLAS_COMPUTE_32F,
                        .scale_type = CUDA_R_32F,
                        .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                        .alpha = 1,
                        .alignment = 16};
}

PlanArg reads(uint32_t s)
{
    return (PlanArg){.tag = PLAN_ARG_SLICE, .access = PLAN_READ, .index = s};
}

PlanArg writes(uint32_t s)
{
    return (PlanArg){.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE, .index = s};
}

PlanArg immediate(uint64_t n)
{
    return (PlanArg){.tag = PLAN_ARG_IMMEDIATE, .value = n};
}

uint32_t maker_command(Maker *m, uint32_t kind, uint32_t index, const PlanArg *args,
                       uint32_t count)
{
    PlanCommand c = {.kind = (uint16_t)kind,
                     .name = plan_string(&m->b, "instruction"),
                     .signal = PLAN_NONE,
                     .index = index};
    return plan_command(&m->b, &c, args, count);
}

uint32_t maker_add(Maker *m, uint32_t in, uint32_t out, uint64_t n, PlanArg what)
{
    PlanArg args[4] = {reads(in), writes(out), immediate(n), what};
    return maker_command(m, PLAN_LAUNCH, m->add, args, 4);
}

void *artefact(Maker *m, const void *constants, size_t constant_bytes, size_t *out_size)
{
    PlanElfSection section = {PLAN_ELF_CONST, constants, constant_bytes};
    m->b.info[0].constant_bytes = constant_bytes;
    return artefact_make(&m->b, &section, 1, out_size);
}

Program open_program(Maker *m, const void *constants, size_t bytes)
{
    Program p;
    size_t size;
    p.file = artefact(m, constants, bytes, &size);
    if (gxrt_program_open_memory(p.file, size, &p.program) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    return p;
}

void close_program(Program *p)
{
    gxrt_program_destroy(p->program);
    free(p->file);
    assert_int_equal(fake_live, 0);
}

/* Runs on one device: arguments and results are s32 arrays; result i takes the buffer of
 * argument shared[i] if that is not -1. */
gxrt_status run_program(gxrt_session *s, size_t n, int32_t *const *in,
                        const size_t *in_count, size_t results, int32_t *const *out,
                        const size_t *out_count, const int *shared)
{
    gxrt_buffer a[4] = {{0}};
    gxrt_buffer r[4] = {{0}};
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < n && st == GXRT_OK; i++) {
        a[i] = (gxrt_buffer){.struct_size = sizeof *a, .bytes = 4 * in_count[i]};
        st = gxrt_allocate(s, 0, a[i].bytes, &a[i].data);
        if (st == GXRT_OK)
            st = gxrt_copy_to_device(s, 0, a[i].data, in[i], a[i].bytes);
    }
    for (size_t i = 0; i < results && st == GXRT_OK; i++) {
        r[i] = (gxrt_buffer){.struct_size = sizeof *r, .bytes = 4 * out_count[i]};
        if (shared && shared[i] >= 0)
            r[i].data = a[shared[i]].data;
        else
            st = gxrt_allocate(s, 0, r[i].bytes, &r[i].data);
    }
    gxrt_run runs = {.struct_size = sizeof runs,
                     .arguments = a,
                     .argument_count = n,
                     .results = r,
                     .result_count = results};
    if (st == GXRT_OK)
        st = gxrt_execute(s, 1, &runs);
    for (size_t i = 0; i < results && st == GXRT_OK; i++)
        st = gxrt_copy_to_host(s, 0, out[i], r[i].data, r[i].bytes);
    for (size_t i = 0; i < n && st == GXRT_OK; i++)
        st = gxrt_copy_to_host(s, 0, in[i], a[i].data, a[i].bytes);
    int stop = fake_fail_at; /* giving back never fails on its own account */
    fake_fail_at = 0;
    for (size_t i = 0; i < n; i++)
        gxrt_free(s, 0, a[i].data);
    for (size_t i = 0; i < results; i++) {
        if (!shared || shared[i] < 0)
            gxrt_free(s, 0, r[i].data);
    }
    fake_fail_at = stop;
    return st;
}

gxrt_session *open_session(const Program *p)
{
    gxrt_session *s;
    fake_calls = 0;
    if (session_create(p->program, NULL, &fake_api, NULL, NULL, &s) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    fake_log[0] = 0;
    return s;
}

/* in s32[4], constant s32[4] -> in + constant's neighbour ... : a loop over the 3 layers of a
 * stacked s32[3,4] argument: each + 10; and a fill. */
Program loop_program(void)
{
    static const int32_t constants[4] = {1, 2, 3, 4};
    Maker m;
    maker_init(&m);
    m.b.info[0].counter_count = 1;
    uint32_t stacked = maker_value(&m, false, 12, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(&m, true, 12, PLAN_NONE, PLAN_ALIAS_NONE);
    PlanAllocation c = {.kind = PLAN_CONSTANT, .alignment = 256, .bytes = 16};
    uint32_t constant = maker_slice(&m, plan_add_allocations(&m.b, &c, 1), 0, 16);
    (void)constant;
    PlanTerm term = {.scale = 1, .high = 2, .stride = 16};
    uint32_t t = plan_add_terms(&m.b, &term, 1);
    PlanSlice in_layer = {.allocation = m.b.slices[stacked].allocation,
                          .terms = t,
                          .term_count = 1,
                          .bytes = 16};
    PlanSlice out_layer = in_layer;
    out_layer.allocation = m.b.slices[out].allocation;
    uint32_t from = plan_add_slices(&m.b, &in_layer, 1);
    uint32_t to = plan_add_slices(&m.b, &out_layer, 1);
    PlanLoop loop = {.trip_count = 3, .counter = 0, .body_commands = 1};
    plan_add_loops(&m.b, &loop, 1);
    uint32_t w = maker_command(&m, PLAN_WHILE, 0, NULL, 0);
    maker_add(&m, from, to, 4, immediate(10));
    plan_close(&m.b, w);
    uint32_t last = maker_slice(&m, m.b.slices[out].allocation, 44, 4);
    uint32_t second =
        maker_slice(&m, constant ? m.b.slices[constant].allocation : 0, 4, 4);
    PlanArg copy[2] = {writes(last), reads(second)};
    maker_command(&m, PLAN_COPY, 0, copy, 2);
    uint32_t first = maker_slice(&m, m.b.slices[out].allocation, 0, 4);
    PlanArg fill[2] = {writes(first), immediate(77)};
    PlanCommand f = {.kind = PLAN_FILL, .signal = PLAN_NONE, .count = 4};
    plan_command(&m.b, &f, fill, 2);
    return open_program(&m, constants, sizeof constants);
}

/* out = in + 5, by a kernel that has an image of 7 blocks, too. */
Program image_program(bool is_damaged)
{
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE),
             out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(&m, in, out, 1, immediate(5));
    size_t bytes, size;
    Maker other;
    maker_init(&other);
    void *image = artefact(&other, NULL, 0, &bytes);
    ((unsigned char *)image)[60] = 2; /* as the fake driver wants it */
    PlanImage record = {.kernel = m.add, .blocks = 7, .threads = 256, .bytes = bytes};
    plan_hash(image, bytes, record.hash);
    record.hash[0] ^= is_damaged;
    plan_add_images(&m.b, &record, 1);
    PlanElfSection section = {PLAN_ELF_IMAGES, image, bytes};
    Program p = {.file = artefact_make(&m.b, &section, 1, &size)};
    free(image);
    assert_int_equal(gxrt_program_open_memory(p.file, size, &p.program), GXRT_OK);
    return p;
}

/* Puts a record's bytes behind the other images'. */
static void add_image(Maker *m, char *images, size_t *size, PlanImage record,
                      const void *bytes)
{
    record.offset = *size;
    plan_hash(bytes, record.bytes, record.hash);
    memcpy(images + *size, bytes, record.bytes);
    *size += (record.bytes + 15) / 16 * 16;
    plan_add_images(&m->b, &record, 1);
}

void *portable_file(const char *ptx, size_t ptx_bytes, size_t *out_size)
{
    Maker m, other;
    maker_init(&m);
    m.b.info[0].sm = 80;
    m.b.info[0].suffix = 0;
    m.b.info[0].target = plan_string(&m.b, "sm_80");
    uint32_t in = maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE),
             out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(&m, in, out, 1, immediate(5));
    size_t cubin_bytes, size = 0;
    maker_init(&other);
    unsigned char *cubin = artefact(&other, NULL, 0, &cubin_bytes);
    cubin[60] = 2; /* as the fake driver wants it */
    char *images = calloc(1, cubin_bytes + ptx_bytes + 64);
    PlanImage code = {.kernel = m.add, .blocks = 7, .bytes = cubin_bytes};
    add_image(&m, images, &size, code, cubin);
    PlanImage tile = {.kernel = m.add,
                      .kind = PLAN_IMAGE_TILEIR,
                      .blocks = 9,
                      .bytes = sizeof PLAN_TILEIR_MAGIC};
    add_image(&m, images, &size, tile, PLAN_TILEIR_MAGIC);
    PlanImage text = {.kernel = PLAN_NONE, .kind = PLAN_IMAGE_PTX, .bytes = ptx_bytes};
    add_image(&m, images, &size, text, ptx);
    PlanElfSection section = {PLAN_ELF_IMAGES, images, size};
    void *file = artefact_make(&m.b, &section, 1, out_size);
    free(cubin);
    free(images);
    return file;
}

Program trips_program(int64_t trips)
{
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 1, 0, PLAN_ALIAS_MUST);
    maker_value(&m, true, 1, 0, PLAN_ALIAS_MUST);
    const PlanLoop loop = {.trip_count = trips, .counter = PLAN_NONE, .body_commands = 1};
    uint32_t open =
        maker_command(&m, PLAN_WHILE, plan_add_loops(&m.b, &loop, 1), NULL, 0);
    maker_add(&m, in, in, 1, immediate(10));
    plan_close(&m.b, open);
    return open_program(&m, "", 0);
}

/* do { x += 1 } while (x < limit), by a predicate on the device; then switch (x). */
Program predicate_program(void)
{
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 1, 0, PLAN_ALIAS_MAY);
    maker_value(&m, true, 1, 0, PLAN_ALIAS_MAY);
    uint32_t out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t temp = maker_allocation(&m, PLAN_TEMP, 0, 512);
    uint32_t flag = maker_slice(&m, temp, 256, 1);
    PlanLoop loop = {.trip_count = -1,
                     .counter = PLAN_NONE,
                     .condition_commands = 1,
                     .body_commands = 1};
    plan_add_loops(&m.b, &loop, 1);
    PlanArg predicate = reads(flag);
    uint32_t w = maker_command(&m, PLAN_WHILE, 0, &predicate, 1);
    PlanArg less[3] = {reads(in), writes(flag), immediate(5)};
    maker_command(&m, PLAN_LAUNCH, m.less, less, 3);
    maker_add(&m, in, in, 1, immediate(1));
    plan_close(&m.b, w);
    uint32_t branches = plan_add_refs(&m.b, (uint32_t[]){1, 0, 2}, 3);
    PlanCommand c = {
        .kind = PLAN_CONDITIONAL, .signal = PLAN_NONE, .index = branches, .count = 3};
    PlanArg selector = reads(in);
    uint32_t conditional = plan_command(&m.b, &c, &selector, 1);
    maker_add(&m, in, out, 1, immediate(100));
    maker_add(&m, in, out, 1, immediate(200));
    maker_add(&m, out, out, 1, immediate(200));
    plan_close(&m.b, conditional);
    return open_program(&m, "", 0);
}

int accept_results(void *user, const char *dtype, const void *wanted, const void *found,
                   size_t bytes)
{
    (void)user, (void)dtype, (void)wanted, (void)found, (void)bytes;
    return 1;
}

void ignore_trial(void *user, const gxrt_trial *trial)
{
    (void)user, (void)trial;
}
