/* The plan: written, read back, printed; and refused when it is damaged in any byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/limits.h"

static uint32_t add_value(PlanBuilder *b, bool result, const char *name, uint32_t alias)
{
    uint32_t index = result ? b->results_count : b->arguments_count;
    PlanValue v = {.name = plan_string(b, name),
                   .dtype = plan_string(b, "f32"),
                   .element_bits = 32,
                   .rank = 2,
                   .dims = plan_add_numbers(b, (int64_t[]){4, 8, 1, 0}, 4),
                   .alias = alias,
                   .alias_kind = alias == PLAN_NONE ? PLAN_ALIAS_NONE : PLAN_ALIAS_MAY,
                   .size_of = PLAN_NONE,
                   .bytes = 128};
    if (result && alias != PLAN_NONE) {
        v.slice = b->arguments[alias].slice;
        return plan_add_results(b, &v, 1);
    }
    PlanAllocation a = {.kind = result ? PLAN_RESULT : PLAN_ARGUMENT,
                        .index = index,
                        .alignment = 16,
                        .bytes = 128};
    v.slice = plan_add_slices(
        b, &(PlanSlice){.allocation = plan_add_allocations(b, &a, 1), .bytes = 128}, 1);
    return result ? plan_add_results(b, &v, 1) : plan_add_arguments(b, &v, 1);
}

static PlanArg slice_arg(uint32_t slice, uint16_t access)
{
    return (PlanArg){.tag = PLAN_ARG_SLICE, .access = access, .index = slice};
}

static uint32_t add_command(PlanBuilder *b, uint32_t kind, uint32_t index,
                            const char *name, const PlanArg *args, uint32_t count)
{
    PlanCommand c = {.kind = (uint16_t)kind,
                     .name = plan_string(b, name),
                     .signal = PLAN_NONE,
                     .index = index};
    return plan_command(b, &c, args, count);
}

/* Two arguments (one donated to result 0), a second result, a loop with stacked layers, a
 * conditional, a launch, a copy, a fill, a clique with an all-reduce. */
static void build(PlanBuilder *b)
{
    plan_builder_init(b);
    PlanInfo *info = &b->info[0];
    info->module = plan_string(b, "jit_f");
    info->target = plan_string(b, "sm_90a");
    info->sm = 90;
    info->suffix = 'a';
    info->min_driver = 12080;
    info->partitions = 2;
    info->counter_count = 1;
    info->signal_count = 1;
    info->constant_bytes = 64;
    add_value(b, false, "x", 0);
    add_value(b, false, "y", PLAN_NONE);
    add_value(b, true, "0", 0);
    add_value(b, true, "1", PLAN_NONE);
    PlanAllocation temp = {.kind = PLAN_TEMP, .alignment = 256, .bytes = 1024};
    uint32_t t = plan_add_allocations(b, &temp, 1);
    PlanAllocation constant = {.kind = PLAN_CONSTANT,
                               .alignment = 256,
                               .bytes = 64,
                               .name = plan_string(b, "c.1")};
    plan_add_allocations(b, &constant, 1);
    PlanTerm term = {.scale = 1, .low = 0, .high = 6, .stride = 128};
    PlanSlice layer = {.allocation = t,
                       .terms = plan_add_terms(b, &term, 1),
                       .term_count = 1,
                       .offset = 128,
                       .bytes = 128};
    uint32_t stacked = plan_add_slices(b, &layer, 1);
    uint32_t flag = plan_add_slices(b, &(PlanSlice){.allocation = t, .bytes = 1}, 1);
    PlanKernel k = {.name = plan_string(b, "fusion_1"),
                    .grid = {4, 1, 1},
                    .block = {128, 1, 1},
                    .cluster = {1, 1, 1},
                    .parameter_count = 2};
    plan_add_kernels(b, &k, 1);
    PlanLoop loop = {.trip_count = 7, .body_commands = 1};
    plan_add_loops(b, &loop, 1);
    uint32_t w = add_command(b, PLAN_WHILE, 0, "while.1", NULL, 0);
    PlanArg args[2] = {slice_arg(stacked, PLAN_READ),
                       slice_arg(0, PLAN_READ | PLAN_WRITE)};
    add_command(b, PLAN_LAUNCH, 0, "fusion.1", args, 2);
    plan_close(b, w);
    PlanArg selector = slice_arg(flag, PLAN_READ);
    uint32_t branches = plan_add_refs(b, (uint32_t[]){1, 0}, 2);
    PlanCommand c = {.kind = PLAN_CONDITIONAL,
                     .name = plan_string(b, "conditional.1"),
                     .signal = 0,
                     .index = branches,
                     .count = 2};
    uint32_t conditional = plan_command(b, &c, &selector, 1);
    PlanArg copy[2] = {slice_arg(2, PLAN_WRITE), slice_arg(1, PLAN_READ)};
    add_command(b, PLAN_COPY, 0, "copy.1", copy, 2);
    plan_close(b, conditional);
    PlanArg fill[2] = {slice_arg(2, PLAN_WRITE), {.tag = PLAN_ARG_IMMEDIATE, .value = 0}};
    PlanCommand f = {.kind = PLAN_FILL,
                     .wait_count = 1,
                     .waits = plan_add_refs(b, (uint32_t[]){0}, 1),
                     .signal = PLAN_NONE,
                     .count = 4};
    plan_command(b, &f, fill, 2);
    PlanClique clique = {.name = plan_string(b, "all"),
                         .mode = PLAN_FLATTENED_ID,
                         .group_count = 1,
                         .groups = plan_add_numbers(b, (int64_t[]){2, 0, 1}, 3),
                         .number_count = 3};
    plan_add_cliques(b, &clique, 1);
    PlanCollective all = {.kind = PLAN_ALL_REDUCE,
                          .reduction = PLAN_REDUCE_SUM,
                          .dtype = plan_string(b, "f32"),
                          .dtypes = PLAN_NONE,
                          .channel = 3};
    plan_add_collectives(b, &all, 1);
    PlanArg reduce[2] = {slice_arg(0, PLAN_READ), slice_arg(2, PLAN_WRITE)};
    add_command(b, PLAN_COLLECTIVE, 0, "all-reduce.1", reduce, 2);
}

/* The same with what a run does not need. */
static void build_described(PlanBuilder *b)
{
    build(b);
    PlanOrigin origin = {
        .source = {plan_string(b, "jit(f)/add"), plan_string(b, "f.py"), 7, 0},
        .modelled = 1000};
    for (uint32_t i = 0; i < b->commands_count; i++) {
        plan_add_origins(b, &origin, 1);
    }
    plan_add_steps(b, (uint32_t[]){plan_string(b, "while.1")}, 1);
    PlanBuffer buffer = {.name = plan_string(b, "fusion.1"),
                         .allocation = 3,
                         .offset = 128,
                         .bytes = 896,
                         .source = origin.source};
    plan_add_buffers(b, &buffer, 1);
}

/* Other code for the kernel, and other kernels for its launch. */
static void add_choices(PlanBuilder *b)
{
    PlanImage images[] = {
        {.kernel = 0,
         .kind = PLAN_IMAGE_CUBIN,
         .blocks = 7,
         .threads = 256,
         .registers = 40,
         .shared_bytes = 512,
         .bytes = 100},
        {.kernel = 0, .kind = PLAN_IMAGE_TILEIR, .blocks = 9, .offset = 112, .bytes = 8},
        {.kernel = PLAN_NONE, .kind = PLAN_IMAGE_PTX, .offset = 128, .bytes = 30}};
    plan_add_images(b, images, 3);
    PlanCandidate c = {.kind = plan_string(b, "loop"),
                       .config = plan_string(b, "block=128"),
                       .modelled = 1234};
    PlanTunable t = {.command = 1,
                     .key = plan_string(b, "a key"),
                     .candidates = plan_add_candidates(b, &c, 1),
                     .candidate_count = 1,
                     .dtypes = plan_add_refs(
                         b, (uint32_t[]){plan_string(b, ""), plan_string(b, "f32")}, 2)};
    plan_add_tunables(b, &t, 1);
}

static void *bytes_of(PlanBuilder *b, size_t *size)
{
    void *bytes;
    assert_true(plan_write(b, &bytes, size));
    plan_builder_deinit(b);
    return bytes;
}

static void test_round_trip(void **state)
{
    (void)state;
    PlanBuilder b;
    build(&b);
    assert_int_equal(plan_string(&b, "jit_f"), b.info[0].module);
    size_t size;
    void *bytes = bytes_of(&b, &size);
    Plan p;
    char error[256] = "";
    if (!plan_read(&p, bytes, size, error, sizeof error)) {
        fail_msg("%s", error);
    }
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    plan_print(&p, out);
    fclose(out);
    assert_non_null(strstr(text, "argument 0 x f32[4,8]{1,0} bytes=128 may-alias=0\n"));
    assert_non_null(strstr(text, "while trip=7 counter=i0()  ; while.1\n body:\n"));
    assert_non_null(strstr(text, "  launch fusion_1(r:a3[128+clamp(i0*1+0,0,6)*128,128], "
                                 "rw:a0[0,128])  ; fusion.1\n"));
    assert_non_null(strstr(text, "conditional(r:a3[0,1]) signal=0  ; conditional.1\n"));
    assert_non_null(strstr(text, "fill pattern=4(w:a2[0,128], 0x0) wait=0\n"));
    assert_non_null(strstr(text, "collective all-reduce sum f32 c0 channel=3("));
    PlanCounts n = plan_counts(&p);
    assert_int_equal(n.launches, 1);
    assert_int_equal(n.copies, 2);
    assert_int_equal(n.collectives, 1);
    assert_int_equal(n.bytes_accessed, 7 * 3 * 128 + 256 + 128 + 256);
    PlanSizes s = plan_sizes(&p);
    assert_int_equal(s.peak, 256 + 256 - 128 + 64 + 1024);
    free(text);
    free(bytes);
}

static void test_choices(void **state)
{
    (void)state;
    PlanBuilder b;
    size_t size, length;
    Plan p;
    char error[256] = "", *text;
    build(&b);
    add_choices(&b);
    void *bytes = bytes_of(&b, &size);
    if (!plan_read(&p, bytes, size, error, sizeof error))
        fail_msg("%s", error);
    FILE *out = open_memstream(&text, &length);
    plan_print(&p, out);
    fclose(out);
    assert_non_null(strstr(text, "image of fusion_1: cubin blocks=7 threads=256 "
                                 "registers=40 shared=512 bytes=100\n"
                                 "image of fusion_1: Tile IR blocks=9 bytes=8\n"
                                 "image of all kernels: PTX bytes=30\n"));
    assert_non_null(strstr(text, "tunable fusion.1 key=a key\n"
                                 "  fusion_1 loop block=128 1234 ps\n"));
    free(text);
    free(bytes);
}

static void test_damage(void **state)
{
    (void)state;
    PlanBuilder b;
    build(&b);
    size_t size;
    unsigned char *bytes = bytes_of(&b, &size);
    Plan p;
    for (size_t n = 0; n < size;
         n++) { /* a buffer of just that size, for the sanitizer */
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, bytes, n);
        char error[256] = "";
        assert_false(plan_read(&p, cut, n, error, sizeof error));
        assert_true(strlen(error) > 10);
        free(cut);
    }
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        char error[256] = "";
        bool ok = plan_read(&p, bytes, size, error, sizeof error);
        assert_true(ok || strlen(error) > 10); /* padding between sections may change */
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(bytes);
}

/* What nobody needs to run a plan: still, no index may lead out of it. */
static void test_description(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 7; wrong++) {
        PlanBuilder b;
        build_described(&b);
        switch (wrong) {
        case 1:
            b.origins_count--;
            break;
        case 2:
            b.origins[2].source.file = b.strings_count;
            break;
        case 3:
            b.steps[0] = b.strings_count;
            break;
        case 4:
            b.buffers[0].last = 1;
            break;
        case 5:
            b.buffers[0].bytes = 897;
            break;
        case 6:
            b.buffers[0].allocation = b.allocations_count;
            break;
        default:
            break;
        }
        Plan p;
        char error[256] = "";
        size_t size;
        void *bytes = bytes_of(&b, &size);
        assert_int_equal(plan_read(&p, bytes, size, error, sizeof error), wrong == 0);
        free(bytes);
    }
}

/* Wrong contents under right hashes: what a fuzzer that knows the format would write. Every
 * 32-bit word of every section is set to values that overflow; nothing may crash. */
static void test_wrong_contents(void **state)
{
    (void)state;
    static const uint32_t values[] = {0,          1,          7,         0x7fffffff,
                                      0x80000000, 0xfffffffe, 0xffffffff};
    PlanBuilder b;
    build_described(&b);
    char *data[PLAN_SECTION_COUNT];
    size_t size[PLAN_SECTION_COUNT];
    size_t refused = 0;
#define PLAN_SECTION(id, name, Record)                                                   \
    data[PLAN_SECTION_##id] = (char *)b.name;                                            \
    size[PLAN_SECTION_##id] = b.name##_count * sizeof(Record);
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    for (int s = 0; s < PLAN_SECTION_COUNT; s++) {
        for (size_t at = 0; at + 4 <= size[s]; at += 4) {
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                uint32_t old;
                memcpy(&old, data[s] + at, 4);
                memcpy(data[s] + at, &values[v], 4);
                void *bytes;
                size_t total;
                assert_true(plan_write(&b, &bytes, &total));
                Plan p;
                char error[256] = "";
                if (plan_read(&p, bytes, total, error, sizeof error)) {
                    FILE *out = fopen("/dev/null", "w");
                    plan_print(&p, out);
                    fclose(out);
                    plan_counts(&p);
                } else {
                    assert_true(strlen(error) > 10);
                    refused++;
                }
                free(bytes);
                memcpy(data[s] + at, &old, 4);
            }
        }
    }
    assert_true(refused > 500);
    plan_builder_deinit(&b);
}

/* Of a plan that is done with. */
static const char *refusal(PlanBuilder *b)
{
    const char *why = plan_refusal(b);
    assert_non_null(why);
    plan_builder_deinit(b);
    return why;
}

static void test_messages(void **state)
{
    (void)state;
    PlanBuilder b;
    build(&b);
    b.commands[1].kind = 99;
    assert_non_null(strstr(refusal(&b), "needs a newer libgxrt"));
    build(&b);
    b.args[0].tag = 77;
    assert_non_null(strstr(refusal(&b), "needs a newer libgxrt"));
    build(&b);
    b.kernels[0].block[0] = 2048;
    assert_non_null(
        strstr(refusal(&b), "kernel fusion_1 of the plan is beyond the limits"));
    build(&b);
    b.terms[0].high = 7;
    assert_non_null(strstr(refusal(&b), "leaves its allocation"));
    build(&b);
    b.results[0].alias = 1;
    assert_non_null(strstr(refusal(&b), "alias that does not agree"));
    build(&b);
    b.commands[1].arg_count = 1;
    assert_non_null(
        strstr(refusal(&b), "command 1 (fusion.1) of the plan is damaged: a launch"));
    build(&b);
    b.args[1].index = 1; /* argument y is not donated */
    assert_non_null(strstr(refusal(&b), "may not be written"));
    build(&b);
    b.collectives[0].kind = PLAN_ALL_GATHER; /* of two devices: its result is larger */
    assert_non_null(strstr(refusal(&b), "whose operand and result do not fit"));
    build(&b);
    b.args[b.args_count - 1].access = PLAN_READ;
    assert_non_null(strstr(refusal(&b), "whose operand and result do not fit"));
    build(&b);
    PlanArg buffer = {.tag = PLAN_ARG_IMMEDIATE, .value = 1};
    add_command(&b, PLAN_HOST_CALL, plan_string(&b, "f"), "custom-call.1", &buffer, 1);
    assert_non_null(strstr(refusal(&b), "a buffer that is no slice"));
}

enum { SCALES_A = 3, SCALES_B, FACTORS, MORE, SLICES };

/* One block-scaled product, 128 x 128 x 128, with slices 0 ... 6: A, B, D, scales, factors, and
 * one that is not used. */
static void build_scaled(PlanBuilder *b)
{
    static const uint64_t bytes[SLICES] = {16384, 16384, 65536, 512, 512, 8, 0};
    plan_builder_init(b);
    PlanInfo *info = &b->info[0];
    info->module = plan_string(b, "scaled");
    info->target = plan_string(b, "sm_100a");
    info->sm = 100;
    info->replicas = info->partitions = 1;
    PlanAllocation memory = {.kind = PLAN_TEMP, .bytes = 1 << 20, .alignment = 256};
    uint32_t allocation = plan_add_allocations(b, &memory, 1);
    uint64_t offset = 0;
    for (int i = 0; i < SLICES; i++, offset += 65536) {
        PlanSlice s = {.allocation = allocation, .offset = offset, .bytes = bytes[i]};
        plan_add_slices(b, &s, 1);
    }
    PlanMatrix in = {.type = 28,
                     .rows = 128,
                     .columns = 128,
                     .ld = 128,
                     .batch_stride = 16384,
                     .scale_mode = 2};
    PlanMatrix out = in;
    out.type = out.scale_mode = 0;
    PlanMatmul m = {.a = in,
                    .b = in,
                    .c = out,
                    .d = out,
                    .batch = 1,
                    .compute = 68,
                    .epilogue = 1,
                    .alpha = 1,
                    .alignment = 16,
                    .device_factors = 1};
    m.a.transpose = 1;
    PlanArg args[PLAN_MATMUL_ARGS] = {
        [PLAN_MATMUL_A] = slice_arg(0, PLAN_READ),
        [PLAN_MATMUL_B] = slice_arg(1, PLAN_READ),
        [PLAN_MATMUL_D] = slice_arg(2, PLAN_WRITE),
        [PLAN_MATMUL_SCALE_A] = slice_arg(SCALES_A, PLAN_READ),
        [PLAN_MATMUL_SCALE_B] = slice_arg(SCALES_B, PLAN_READ),
        [PLAN_MATMUL_FACTORS] = slice_arg(FACTORS, PLAN_READ)};
    add_command(b, PLAN_MATMUL, plan_add_matmuls(b, &m, 1), "d", args, PLAN_MATMUL_AUX);
}

/* rows: codegen.B9 (edge: scales or factors that leave their slices) */
static void test_scales(void **state)
{
    (void)state;
    static const char wrong[] = "whose scales leave their slices";
    PlanBuilder b;
    build_scaled(&b);
    expect_read(&b);
    plan_builder_deinit(&b);
    build_scaled(&b);
    b.slices[SCALES_A].bytes = 511; /* a tile has 512 */
    assert_non_null(strstr(refusal(&b), wrong));
    build_scaled(&b);
    b.matmuls[0].b.scale_mode = 1; /* 8 scales in place of 4: two tiles */
    assert_non_null(strstr(refusal(&b), wrong));
    build_scaled(&b);
    b.args[PLAN_MATMUL_SCALE_B].tag = PLAN_ARG_NONE;
    assert_non_null(strstr(refusal(&b), wrong));
    build_scaled(&b);
    b.slices[FACTORS].bytes = 4; /* alpha without beta */
    assert_non_null(strstr(refusal(&b), wrong));
    build_scaled(&b);
    b.matmuls[0].device_factors = 0;
    assert_non_null(strstr(refusal(&b), wrong));
    build_scaled(&b);
    b.args[PLAN_MATMUL_FACTORS].tag = PLAN_ARG_NONE;
    assert_non_null(strstr(refusal(&b), wrong));
}

/* Scales of f32 lie in their slices, on both sides of one product whose columns lie along k. */
static void test_wide_scales(void **state)
{
    (void)state;
    static const struct {
        uint32_t a, b;
        uint64_t bytes_a, bytes_b;
        const char *wrong; /* NULL: nothing */
    } rows[] = {{3, 3, 512, 512, NULL},
                {3, 3, 512, 511, "whose scales leave their slices"},
                {4, 4, 512, 512, NULL},
                {4, 4, 511, 512, "whose scales leave their slices"},
                {4, 5, 512, 16, NULL},
                {5, 4, 15, 512, "whose scales leave their slices"},
                {3, 4, 512, 512, "matrix product 0 of the plan is damaged"},
                {3, 0, 512, 512, "matrix product 0 of the plan is damaged"},
                {0, 5, 512, 512, "matrix product 0 of the plan is damaged"},
                {6, 6, 512, 512, "a matrix with scales of mode 6"}};
    PlanBuilder b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        build_scaled(&b);
        b.matmuls[0].a.scale_mode = rows[i].a;
        b.matmuls[0].b.scale_mode = rows[i].b;
        b.slices[SCALES_A].bytes = rows[i].bytes_a;
        b.slices[SCALES_B].bytes = rows[i].bytes_b;
        if (rows[i].wrong == NULL) {
            expect_read(&b);
            plan_builder_deinit(&b);
        } else {
            assert_non_null(strstr(refusal(&b), rows[i].wrong));
        }
    }
    build_scaled(&b);
    b.matmuls[0].a.scale_mode = b.matmuls[0].b.scale_mode = 3;
    b.matmuls[0].b.transpose = 1; /* its scales would be of other lines */
    assert_non_null(strstr(refusal(&b), "is damaged"));
}

/* A bias is read, and each row of D has one; sums of a factor are written; without the epilogue there is none. */
static void test_bias(void **state)
{
    (void)state;
    static const struct {
        uint32_t epilogue;
        uint16_t access; /* 0: no bias */
        uint64_t bytes;
        bool is_right;
    } rows[] = {{CUBLASLT_EPILOGUE_BIAS, PLAN_READ, 128 * 4, true},
                {CUBLASLT_EPILOGUE_BIAS, PLAN_READ, 128 * 4 - 1, false},
                {CUBLASLT_EPILOGUE_BIAS, PLAN_WRITE, 128 * 4, false},
                {CUBLASLT_EPILOGUE_BIAS, 0, 0, false},
                {CUBLASLT_EPILOGUE_BGRADA, PLAN_WRITE, 128 * 4, true},
                {CUBLASLT_EPILOGUE_BGRADB, PLAN_WRITE, 128 * 4, true},
                {CUBLASLT_EPILOGUE_BGRADB, PLAN_WRITE, 128 * 4 - 1, false},
                {CUBLASLT_EPILOGUE_BGRADA, PLAN_READ, 128 * 4, false},
                {CUBLASLT_EPILOGUE_BGRADA, 0, 0, false},
                {CUBLASLT_EPILOGUE_DEFAULT, PLAN_READ, 128 * 4, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        PlanBuilder b;
        build_scaled(&b);
        b.matmuls[0].epilogue = rows[i].epilogue;
        b.slices[MORE].bytes = rows[i].bytes;
        if (rows[i].access) {
            b.args[PLAN_MATMUL_BIAS] = slice_arg(MORE, rows[i].access);
        }
        if (rows[i].is_right) {
            expect_read(&b);
            plan_builder_deinit(&b);
        } else {
            assert_non_null(strstr(refusal(&b), "whose bias leaves"));
        }
    }
}

/* Numbers of cuBLASLt that the reader cannot bound are for a newer one; sizes must agree. */
static void test_matmul_kinds(void **state)
{
    (void)state;
    PlanBuilder b;
    build_scaled(&b);
    b.matmuls[0].epilogue = 5;
    assert_non_null(strstr(refusal(&b), "epilogue 5: it needs a newer libgxrt"));
    build_scaled(&b);
    b.matmuls[0].a.type = 6; /* complex, of 2 x 16 bits */
    assert_non_null(strstr(refusal(&b), "a matrix of type 6: it needs a newer"));
    build_scaled(&b);
    b.matmuls[0].d.scale_mode = 1;
    assert_non_null(strstr(refusal(&b), "scales of mode 1: it needs a newer"));
    build_scaled(&b);
    b.matmuls[0].a.rows = 64; /* k of B is 128 */
    assert_non_null(strstr(refusal(&b), "matrix product 0 of the plan is damaged"));
    build_scaled(&b);
    b.matmuls[0].c.columns = 1;
    assert_non_null(strstr(refusal(&b), "matrix product 0 of the plan is damaged"));
    build_scaled(&b); /* one that no command names is made, too */
    PlanMatmul unused = b.matmuls[0];
    unused.a.transpose = 3;
    plan_add_matmuls(&b, &unused, 1);
    assert_non_null(strstr(refusal(&b), "matrix product 1 of the plan is damaged"));
    build_scaled(&b);
    b.matmuls[0].scale_type = 4; /* complex */
    assert_non_null(strstr(refusal(&b), "factors of type 4: it needs a newer"));
    build_scaled(&b); /* sizes that overflow to little */
    b.matmuls[0].a.batch_stride = INT64_MAX;
    b.matmuls[0].batch = 3;
    assert_non_null(strstr(refusal(&b), "whose matrices leave their slices"));
}

/* What a hostile file could reach beyond, table by table. */
static void test_bounds(void **state)
{
    (void)state;
    PlanBuilder b;
    build(
        &b); /* a second, larger allocation "of argument 0": nobody would give it an address */
    PlanAllocation twin = b.allocations[0];
    twin.bytes = 1 << 20;
    plan_add_allocations(&b, &twin, 1);
    assert_non_null(strstr(refusal(&b), "belongs to no argument or result"));
    build(&b);
    b.info[0].flags = UINT32_C(1) << 31;
    assert_non_null(strstr(refusal(&b), ": it needs a newer libgxrt"));
    build(&b); /* joined with a collective behind the loop that it ends */
    b.collectives[0].flags = PLAN_COLLECTIVE_JOINED;
    b.commands[1] = b.commands[b.commands_count - 1];
    b.commands[2] = b.commands[1];
    assert_non_null(strstr(refusal(&b), "a collective joined with nothing"));
    build(&b); /* into 128 bytes, of which a device alone would copy 1 */
    b.collectives[0].kind = PLAN_COLLECTIVE_PERMUTE;
    b.args[b.args_count - 2].index = 4;
    assert_non_null(strstr(refusal(&b), "whose operand and result do not fit"));
    build(&b); /* a gather of groups of nobody: both devices are alone */
    b.collectives[0].kind = PLAN_ALL_GATHER;
    b.cliques[0].group_count = b.cliques[0].number_count = 0;
    b.args[b.args_count - 1].index = 3;
    b.args[b.args_count - 2].index = 4;
    assert_non_null(strstr(refusal(&b), "whose operand and result do not fit"));
    build(&b); /* a gather of groups of one */
    b.collectives[0].kind = PLAN_ALL_GATHER;
    b.cliques[0].group_count = 2;
    b.cliques[0].number_count = 4;
    b.cliques[0].groups = plan_add_numbers(&b, (int64_t[]){1, 0, 1, 1}, 4);
    b.args[b.args_count - 1].index = 3;
    b.args[b.args_count - 2].index = 4;
    assert_non_null(strstr(refusal(&b), "whose operand and result do not fit"));
    build(&b);
    PlanArg buffers[PLAN_MAX_HOST_BUFFERS + 1];
    for (int i = 0; i <= PLAN_MAX_HOST_BUFFERS; i++) {
        buffers[i] = slice_arg(1, PLAN_READ);
    }
    add_command(&b, PLAN_HOST_CALL, plan_string(&b, "f"), "call", buffers,
                PLAN_MAX_HOST_BUFFERS + 1);
    assert_non_null(strstr(refusal(&b), "whose buffers are 257: it needs a newer"));
    build(&b); /* two terms, the first alone would leave the allocation: they do not */
    static const PlanTerm terms[2] = {{.low = -64, .high = -64, .stride = 1},
                                      {.low = 64, .high = 64, .stride = 1}};
    PlanSlice s = {.allocation = 2,
                   .terms = plan_add_terms(&b, terms, 2),
                   .term_count = 2,
                   .bytes = 128};
    plan_add_slices(&b, &s, 1);
    expect_read(&b);
    plan_builder_deinit(&b);
}

static void test_formats(void **state)
{
    (void)state;
    for (int change = -1; change <= 1; change += 2) {
        PlanBuilder b;
        Plan p;
        char error[256];
        size_t size;
        build(&b);
        void *bytes = bytes_of(&b, &size);
        ((PlanHeader *)bytes)->major = (uint16_t)(PLAN_MAJOR + change);
        assert_false(plan_read(&p, bytes, size, error, sizeof error));
        assert_non_null(
            strstr(error, change < 0 ? "of an older gxc" : "needs a newer libgxrt"));
        free(bytes);
    }
}

/* Commands in one another; the last one has no children. */
static void build_nested(PlanBuilder *b, uint32_t count)
{
    build(b);
    uint32_t first = b->commands_count;
    for (uint32_t i = 0; i < count; i++) {
        add_command(b, PLAN_CALL, 0, "call", NULL, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        plan_close(b, first + i);
    }
}

static void test_depth(void **state)
{
    (void)state;
    PlanBuilder b;
    build_nested(&b, PLAN_MAX_DEPTH + 1);
    expect_read(&b);
    plan_builder_deinit(&b);
    build_nested(&b, PLAN_MAX_DEPTH + 2);
    assert_non_null(strstr(refusal(&b), "nested more than 64 deep"));
}

static void test_elf(void **state)
{
    (void)state;
    FILE *f = fopen("/proc/self/exe", "rb"); /* any ELF file will do */
    size_t room = 1 << 20;
    char *file = malloc(room);
    size_t size = 0;
    for (size_t n; (n = fread(file + size, 1, room - size, f)) > 0;) {
        size += n;
        if (size == room) {
            file = realloc(file, room *= 2);
        }
    }
    fclose(f);
    PlanElfSection add[2] = {{".gxc.plan", "12345678", 8}, {".gxc.const", "abc", 3}};
    void *out;
    size_t out_size;
    const char *error = NULL;
    assert_true(plan_elf_append(file, size, add, 2, &out, &out_size, &error));
    PlanElfSection found;
    assert_true(plan_elf_find(out, out_size, ".gxc.plan", &found));
    assert_int_equal(found.size, 8);
    assert_memory_equal(found.bytes, "12345678", 8);
    assert_int_equal(((const char *)found.bytes - (const char *)out) % 256, 0);
    assert_true(plan_elf_find(out, out_size, ".gxc.const", &found));
    assert_true(plan_elf_find(out, out_size, ".text", &found));
    assert_false(plan_elf_find(out, out_size, ".gxc.plan.1", &found));
    assert_false(plan_elf_find(file, size, ".gxc.plan", &found));
    memcpy(out, file, 64); /* the original header gives the pristine file */
    assert_memory_equal(out, file, size);
    free(out);
    out = file;
    assert_false(plan_elf_append("not an ELF file", 15, add, 2, &out, &out_size, &error));
    assert_null(out);
    assert_non_null(error);
    free(file);
}

static void test_elf_damage(void **state)
{
    (void)state;
    /* a header, one name table, one section, then .gxc.plan appended: all small */
    unsigned char elf[EMPTY_ELF_BYTES];
    empty_elf(elf);
    PlanElfSection add = {".gxc.plan", "12345678", 8};
    PlanElfSection found;
    void *out;
    size_t size;
    const char *error;
    assert_true(plan_elf_append(elf, sizeof elf, &add, 1, &out, &size, &error));
    assert_true(plan_elf_find(out, size, ".gxc.plan", &found));
    for (size_t n = 0; n < size; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, out, n);
        assert_false(plan_elf_find(cut, n, ".gxc.plan", &found));
        free(cut);
    }
    unsigned char *bytes = out;
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (plan_elf_find(bytes, size, ".gxc.plan", &found)) {
            assert_true((const unsigned char *)found.bytes + found.size <= bytes + size);
        }
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(out);
}

static void test_million(void **state)
{
    (void)state;
    PlanBuilder b;
    build(&b);
    PlanArg args[2] = {slice_arg(1, PLAN_READ), slice_arg(0, PLAN_WRITE)};
    for (int i = 0; i < 1000000; i++) {
        add_command(&b, PLAN_LAUNCH, 0, "fusion.1", args, 2);
    }
    Plan p;
    void *bytes = read_plan(&b, &p);
    plan_builder_deinit(&b);
    assert_int_equal(plan_counts(&p).launches, 1000001);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_wrong_contents),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_elf),
        cmocka_unit_test(test_elf_damage),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_wide_scales),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_matmul_kinds),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
