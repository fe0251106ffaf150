/* Sessions on a table of fake CUDA functions: device memory is malloc's, kernels are C
 * functions, everything runs at once. Any call can be told to fail: then nothing may leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/select.h"
#include "runtime/session.h"

/* --- the fake driver ---------------------------------------------------------------------- */

static int calls, fail_at; /* fail_at 0: none */
static int live;           /* contexts, modules, streams, events, memory */
static int sm = 90, driver = 13000;
static char call_log[4096];

static bool fails(void)
{
    return __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == fail_at;
}

static void note(const char *format, ...)
{
    size_t at = strlen(call_log);
    va_list args;
    va_start(args, format);
    vsnprintf(call_log + at, sizeof call_log - at, format, args);
    va_end(args);
}

static void count_live(int change)
{
    __atomic_add_fetch(&live, change, __ATOMIC_SEQ_CST);
}

static CUresult fake_init(unsigned flags)
{
    (void)flags;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_driver_version(int *version)
{
    *version = driver;
    return CUDA_SUCCESS;
}

static CUresult fake_text(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_UNKNOWN ? "the fake failure" : "some error";
    return CUDA_SUCCESS;
}

static CUresult fake_device_count(int *count)
{
    *count = 4;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_name(char *name, int length, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_attribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    *value =
        attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? sm / 10 : sm % 10;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static _Thread_local int current = -1;

static CUresult fake_context_retain(CUcontext *context, CUdevice device)
{
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    *context = (CUcontext)(uintptr_t)(device + 1);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_context_release(CUdevice device)
{
    (void)device;
    count_live(-1);
    return CUDA_SUCCESS;
}

static CUresult fake_context_push(CUcontext context)
{
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    assert_int_equal(current, -1);
    current = (int)(uintptr_t)context - 1;
    return CUDA_SUCCESS;
}

static CUresult fake_context_pop(CUcontext *context)
{
    *context = NULL;
    current = -1;
    return CUDA_SUCCESS;
}

static CUresult fake_synchronize(void)
{
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_priorities(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_object(void **out)
{
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    *out = malloc(1);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_forget(void *object)
{
    free(object);
    count_live(-1);
    return CUDA_SUCCESS;
}

static CUresult fake_module_load(CUmodule *module, const void *image)
{
    assert_memory_equal((const char *)image + 1, "ELF", 3);
    assert_int_equal(((const unsigned char *)image)[60],
                     2); /* sections of the original */
    void *object = NULL;
    CUresult r = fake_object(&object);
    *module = object;
    return r;
}

static CUresult fake_module_unload(CUmodule module)
{
    return fake_forget(module);
}

static CUresult fake_function_set(CUfunction function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_mem_alloc(CUdeviceptr *out, size_t bytes)
{
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* a header that tells the device, and alignment to 256 */
    char *p = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
    *(int *)(void *)p = current;
    *out = (CUdeviceptr)(uintptr_t)(p + 256);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_mem_free(CUdeviceptr pointer)
{
    return fake_forget((void *)(uintptr_t)(pointer - 256));
}

static CUresult fake_mem_info(size_t *free_bytes, size_t *total)
{
    *free_bytes = 5;
    *total = 10;
    return CUDA_SUCCESS;
}

static char host_variable;

static CUresult fake_pointer_attribute(void *data, int attribute, CUdeviceptr pointer)
{
    (void)attribute;
    if (pointer == ((uintptr_t)&host_variable & ~(uintptr_t)255))
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)data = *(int *)(uintptr_t)(pointer - 256);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = malloc(bytes);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_copy_to_device(CUdeviceptr to, const void *from, size_t bytes,
                                    CUstream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_copy_to_host(void *to, CUdeviceptr from, size_t bytes,
                                  CUstream stream)
{
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                    CUstream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_8(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)to, value, n);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_16(CUdeviceptr to, unsigned short value, size_t n,
                            CUstream stream)
{
    (void)stream;
    for (size_t i = 0; i < n; i++)
        ((unsigned short *)(uintptr_t)to)[i] = value;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_32(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
    (void)stream;
    for (size_t i = 0; i < n; i++)
        ((unsigned *)(uintptr_t)to)[i] = value;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_create(CUstream *out, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    void *object = NULL;
    CUresult r = fake_object(&object);
    *out = object;
    return r;
}

static CUresult fake_stream_destroy(CUstream stream)
{
    return fake_forget(stream);
}

static CUresult fake_stream_call(CUstream stream)
{
    (void)stream;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_wait(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    note("wait ");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_event_create(CUevent *out, unsigned flags)
{
    (void)flags;
    void *object = NULL;
    CUresult r = fake_object(&object);
    *out = object;
    return r;
}

static CUresult fake_event_destroy(CUevent event)
{
    return fake_forget(event);
}

static CUresult fake_event_record(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    note("record ");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_event_synchronize(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult fake_event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
    (void)start;
    (void)end;
    *milliseconds = 1;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_encode(CUtensorMap *out, int data_type, cuuint32_t rank,
                            void *address, const cuuint64_t *sizes,
                            const cuuint64_t *strides, const cuuint32_t *box,
                            const cuuint32_t *element_strides, int interleave,
                            int swizzle, int l2_promotion, int oob_fill)
{
    (void)data_type;
    (void)rank;
    (void)sizes;
    (void)strides;
    (void)box;
    (void)element_strides;
    (void)interleave;
    (void)swizzle;
    (void)l2_promotion;
    (void)oob_fill;
    out->opaque[0] = (uintptr_t)address;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Kernels. Each parameter is an 8-byte slot. */
static void add_kernel(void **p) /* in, out, n, number */
{
    const int32_t *in = *(int32_t **)p[0];
    int32_t *out = *(int32_t **)p[1];
    for (uint64_t i = 0; i < *(uint64_t *)p[2]; i++)
        out[i] = in[i] + (int32_t) * (uint64_t *)p[3];
}

static void less_kernel(void **p) /* in, out, limit: out = in[0] < limit */
{
    *(*(uint8_t **)p[1]) = (*(int32_t **)p[0])[0] < (int32_t) * (uint64_t *)p[2];
}

static const struct {
    const char *name;
    void (*run)(void **);
} kernels[] = {{"add", add_kernel}, {"less", less_kernel}};

static CUresult fake_module_function(CUfunction *function, CUmodule module,
                                     const char *name)
{
    (void)module;
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            *function = (CUfunction)(uintptr_t)(i + 1);
    }
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_launch(const CUlaunchConfig *config, CUfunction function,
                            void **parameters, void **extra)
{
    (void)config;
    (void)extra;
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(current, -1);
    kernels[(uintptr_t)function - 1].run(parameters);
    note("%s ", kernels[(uintptr_t)function - 1].name);
    return CUDA_SUCCESS;
}

static const CudaApi fake = {
    .init = fake_init,
    .driver_version = fake_driver_version,
    .error_name = fake_text,
    .error_string = fake_text,
    .device_count = fake_device_count,
    .device_get = fake_device_get,
    .device_name = fake_device_name,
    .device_attribute = fake_device_attribute,
    .context_retain = fake_context_retain,
    .context_release = fake_context_release,
    .context_push = fake_context_push,
    .context_pop = fake_context_pop,
    .context_synchronize = fake_synchronize,
    .stream_priorities = fake_stream_priorities,
    .module_load = fake_module_load,
    .module_unload = fake_module_unload,
    .module_function = fake_module_function,
    .function_set = fake_function_set,
    .launch = fake_launch,
    .mem_alloc = fake_mem_alloc,
    .mem_free = fake_mem_free,
    .mem_info = fake_mem_info,
    .pointer_attribute = fake_pointer_attribute,
    .host_alloc = fake_host_alloc,
    .host_free = fake_forget,
    .copy_to_device = fake_copy_to_device,
    .copy_to_host = fake_copy_to_host,
    .copy_on_device = fake_copy_on_device,
    .set_8 = fake_set_8,
    .set_16 = fake_set_16,
    .set_32 = fake_set_32,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_synchronize = fake_stream_call,
    .stream_query = fake_stream_call,
    .stream_wait = fake_stream_wait,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_query = fake_event_synchronize,
    .event_synchronize = fake_event_synchronize,
    .event_elapsed = fake_event_elapsed,
    .tensor_map_encode = fake_encode,
};

/* --- programs ----------------------------------------------------------------------------- */

typedef struct Maker {
    PlanBuilder b;
    uint32_t add, less; /* kernels */
} Maker;

static void maker_init(Maker *m)
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

static uint32_t slice(Maker *m, uint32_t allocation, uint64_t offset, uint64_t bytes)
{
    PlanSlice s = {.allocation = allocation, .offset = offset, .bytes = bytes};
    return plan_add_slices(&m->b, &s, 1);
}

static uint32_t allocation(Maker *m, uint32_t kind, uint32_t index, uint64_t bytes)
{
    PlanAllocation a = {.kind = kind, .index = index, .alignment = 16, .bytes = bytes};
    return plan_add_allocations(&m->b, &a, 1);
}

/* An s32[n] argument or result; returns its slice. */
static uint32_t value(Maker *m, bool result, int64_t n, uint32_t alias,
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
    v.slice =
        result && alias != PLAN_NONE
            ? m->b.arguments[alias].slice
            : slice(m, allocation(m, result ? PLAN_RESULT : PLAN_ARGUMENT, index, bytes),
                    0, bytes);
    if (result)
        plan_add_results(&m->b, &v, 1);
    else
        plan_add_arguments(&m->b, &v, 1);
    return v.slice;
}

static PlanArg reads(uint32_t s)
{
    return (PlanArg){.tag = PLAN_ARG_SLICE, .access = PLAN_READ, .index = s};
}

static PlanArg writes(uint32_t s)
{
    return (PlanArg){.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE, .index = s};
}

static PlanArg number(uint64_t n)
{
    return (PlanArg){.tag = PLAN_ARG_IMMEDIATE, .value = n};
}

static uint32_t command(Maker *m, uint32_t kind, uint32_t index, const PlanArg *args,
                        uint32_t count)
{
    PlanCommand c = {.kind = (uint16_t)kind,
                     .name = plan_string(&m->b, "instruction"),
                     .signal = PLAN_NONE,
                     .index = index};
    return plan_command(&m->b, &c, args, count);
}

static uint32_t add(Maker *m, uint32_t in, uint32_t out, uint64_t n, PlanArg what)
{
    PlanArg args[4] = {reads(in), writes(out), number(n), what};
    return command(m, PLAN_LAUNCH, m->add, args, 4);
}

/* The bytes of an artefact around the plan; `cubin` is an ELF file with a name table. */
static void *artefact(Maker *m, const void *constants, size_t constant_bytes,
                      size_t *out_size)
{
    unsigned char elf[64 + 2 * 64 + 16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    const uint64_t table = 64;
    const uint64_t names_at = 192;
    const uint64_t names_size = 1;
    memcpy(elf + 40, &table, 8);
    elf[58] = 64;
    elf[60] = 2;
    elf[62] = 1;
    memcpy(elf + 128 + 24, &names_at, 8);
    memcpy(elf + 128 + 32, &names_size, 8);
    memcpy(m->b.info[0].elf_header, elf, 64);
    m->b.info[0].cubin_bytes = sizeof elf;
    m->b.info[0].constant_bytes = constant_bytes;
    plan_hash(constants, constant_bytes, m->b.info[0].constant_hash);
    PlanElfSection sections[2] = {{PLAN_ELF_PLAN, NULL, 0},
                                  {PLAN_ELF_CONST, constants, constant_bytes}};
    void *plan;
    void *file;
    const char *error;
    assert_true(plan_write(&m->b, &plan, &sections[0].size));
    sections[0].bytes = plan;
    assert_true(plan_elf_append(elf, sizeof elf, sections, 2, &file, out_size, &error));
    free(plan);
    plan_builder_deinit(&m->b);
    return file;
}

typedef struct Program {
    void *file;
    gxrt_program *program;
} Program;

static Program open_program(Maker *m, const void *constants, size_t bytes)
{
    Program p;
    size_t size;
    p.file = artefact(m, constants, bytes, &size);
    if (gxrt_program_open_memory(p.file, size, &p.program) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    return p;
}

static void close_program(Program *p)
{
    gxrt_program_destroy(p->program);
    free(p->file);
    assert_int_equal(live, 0);
}

/* Runs on one device: arguments and results are s32 arrays; result i takes the buffer of
 * argument shared[i] if that is not -1. */
static gxrt_status run(gxrt_session *s, size_t n, int32_t *const *in,
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
    int stop = fail_at; /* giving back never fails on its own account */
    fail_at = 0;
    for (size_t i = 0; i < n; i++)
        gxrt_free(s, 0, a[i].data);
    for (size_t i = 0; i < results; i++) {
        if (!shared || shared[i] < 0)
            gxrt_free(s, 0, r[i].data);
    }
    fail_at = stop;
    return st;
}

static gxrt_session *open_session(const Program *p)
{
    gxrt_session *s;
    calls = 0;
    if (session_create(p->program, NULL, &fake, NULL, &s) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    call_log[0] = 0;
    return s;
}

/* in s32[4], constant s32[4] -> in + constant's neighbour ... : a loop over the 3 layers of a
 * stacked s32[3,4] argument: out = sum of layers, each + 10 x iteration; and a fill. */
static Program loop_program(void)
{
    static const int32_t constants[4] = {1, 2, 3, 4};
    Maker m;
    maker_init(&m);
    m.b.info[0].counter_count = 1;
    uint32_t stacked = value(&m, false, 12, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = value(&m, true, 12, PLAN_NONE, PLAN_ALIAS_NONE);
    PlanAllocation c = {.kind = PLAN_CONSTANT, .alignment = 256, .bytes = 16};
    uint32_t constant = slice(&m, plan_add_allocations(&m.b, &c, 1), 0, 16);
    (void)constant;
    PlanTerm term = {.scale = 1, .high = 2, .stride = 16};
    uint32_t t = plan_add_terms(&m.b, &term, 1);
    PlanTerm ten = {.scale = 1, .high = 100, .stride = 10};
    uint32_t by_ten = plan_add_terms(&m.b, &ten, 1);
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
    uint32_t w = command(&m, PLAN_WHILE, 0, NULL, 0);
    add(&m, from, to, 4, (PlanArg){.tag = PLAN_ARG_COUNTER, .index = by_ten});
    plan_close(&m.b, w);
    uint32_t last = slice(&m, m.b.slices[out].allocation, 44, 4);
    uint32_t second = slice(&m, constant ? m.b.slices[constant].allocation : 0, 4, 4);
    PlanArg copy[2] = {writes(last), reads(second)};
    command(&m, PLAN_COPY, 0, copy, 2);
    uint32_t first = slice(&m, m.b.slices[out].allocation, 0, 4);
    PlanArg fill[2] = {writes(first), number(77)};
    PlanCommand f = {.kind = PLAN_FILL, .signal = PLAN_NONE, .count = 4};
    plan_command(&m.b, &f, fill, 2);
    return open_program(&m, constants, sizeof constants);
}

static gxrt_status run_loop(gxrt_session *s, int32_t out[12])
{
    int32_t in[12];
    for (int i = 0; i < 12; i++)
        in[i] = i;
    const size_t twelve = 12;
    return run(s, 1, (int32_t *[]){in}, &twelve, 1, &out, &twelve, NULL);
}

static void test_loop(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    int32_t out[12];
    assert_int_equal(run_loop(s, out), GXRT_OK);
    const int32_t want[12] = {77, 1, 2, 3, 14, 15, 16, 17, 28, 29, 30, 2};
    assert_memory_equal(out, want, sizeof want);
    assert_string_equal(call_log, "add add add ");
    gxrt_session_destroy(s);
    close_program(&p);
}

/* do { x += 1 } while (x < limit), by a predicate on the device; then switch (x). */
static Program predicate_program(void)
{
    Maker m;
    maker_init(&m);
    uint32_t in = value(&m, false, 1, 0, PLAN_ALIAS_MAY);
    value(&m, true, 1, 0, PLAN_ALIAS_MAY);
    uint32_t out = value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t temp = allocation(&m, PLAN_TEMP, 0, 512);
    uint32_t flag = slice(&m, temp, 256, 1);
    PlanLoop loop = {.trip_count = -1,
                     .counter = PLAN_NONE,
                     .condition_commands = 1,
                     .body_commands = 1};
    plan_add_loops(&m.b, &loop, 1);
    PlanArg predicate = reads(flag);
    uint32_t w = command(&m, PLAN_WHILE, 0, &predicate, 1);
    PlanArg less[3] = {reads(in), writes(flag), number(5)};
    command(&m, PLAN_LAUNCH, m.less, less, 3);
    add(&m, in, in, 1, number(1));
    plan_close(&m.b, w);
    uint32_t branches = plan_add_refs(&m.b, (uint32_t[]){1, 0, 2}, 3);
    PlanCommand c = {
        .kind = PLAN_CONDITIONAL, .signal = PLAN_NONE, .index = branches, .count = 3};
    PlanArg selector = reads(in);
    uint32_t conditional = plan_command(&m.b, &c, &selector, 1);
    add(&m, in, out, 1, number(100));
    add(&m, in, out, 1, number(200));
    add(&m, out, out, 1, number(200));
    plan_close(&m.b, conditional);
    return open_program(&m, "", 0);
}

static void test_predicate(void **state)
{
    (void)state;
    Program p = predicate_program();
    gxrt_session *s = open_session(&p);
    int32_t x = 2;
    int32_t out[2] = {0, 0};
    const size_t one[2] = {1, 1};
    int32_t *in[1] = {&x};
    int32_t *outs[2] = {&out[0], &out[1]};
    assert_int_equal(run(s, 1, in, one, 2, outs, one, NULL), GXRT_OK);
    assert_int_equal(out[0], 5);   /* the loop */
    assert_int_equal(out[1], 405); /* 5 is no branch: the last one */
    assert_int_equal(x, 2);        /* not donated, so kept */
    const int shared[2] = {0, -1};
    assert_int_equal(run(s, 1, in, one, 2, outs, one, shared), GXRT_OK);
    assert_int_equal(x, 5);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Every call fails once, in opening, running and closing: an error with text, and no leak. */
static void fail_every_call(Program (*make)(void), gxrt_status (*use)(gxrt_session *))
{
    Program p = make();
    int n = 1;
    for (bool failed = true; failed; n++) {
        gxrt_session *s = NULL;
        calls = 0;
        fail_at = n;
        gxrt_session_options options = {.struct_size = sizeof options};
        gxrt_status st = session_create(p.program, &options, &fake, NULL, &s);
        if (st == GXRT_OK)
            st = use(s);
        failed = calls >= n;
        if (st != GXRT_OK)
            assert_true(strlen(gxrt_last_error()) > 10);
        gxrt_session_destroy(s);
        assert_int_equal(live, 0);
        assert_int_equal(current, -1);
    }
    fail_at = 0;
    assert_true(n > 20);
    close_program(&p);
}

static gxrt_status use_loop(gxrt_session *s)
{
    int32_t out[12];
    return run_loop(s, out);
}

static gxrt_status use_predicate(gxrt_session *s)
{
    int32_t x = 2;
    int32_t out[2];
    const size_t one[2] = {1, 1};
    return run(s, 1, (int32_t *[]){&x}, one, 2, (int32_t *[]){&out[0], &out[1]}, one,
               NULL);
}

/* Stream 1 adds to the argument asynchronously while stream 0 adds too; slot 0 joins them. */
static Program stream_program(void)
{
    Maker m;
    maker_init(&m);
    m.b.info[0].signal_count = 1;
    m.b.info[0].async_count = 1;
    plan_add_streams(&m.b, &(PlanStream){.kind = PLAN_STREAM_COLLECTIVE, .priority = 1},
                     1);
    uint32_t in = value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t a = value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t b = value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t start = command(&m, PLAN_ASYNC_START, 0, NULL, 0);
    uint32_t child = add(&m, in, a, 4, number(1));
    m.b.commands[child].stream = 1;
    plan_close(&m.b, start);
    add(&m, in, b, 4, number(2));
    command(&m, PLAN_ASYNC_DONE, 0, NULL, 0);
    uint32_t giver = add(&m, a, a, 4, number(3));
    m.b.commands[giver].signal = 0;
    uint32_t taker = add(&m, b, b, 4, number(4));
    m.b.commands[taker].stream = 1;
    m.b.commands[taker].waits = plan_add_refs(&m.b, (uint32_t[]){0}, 1);
    m.b.commands[taker].wait_count = 1;
    return open_program(&m, "", 0);
}

static gxrt_status use_streams(gxrt_session *s)
{
    int32_t in[4] = {0};
    int32_t a[4];
    int32_t b[4];
    const size_t four[2] = {4, 4};
    gxrt_status st =
        run(s, 1, (int32_t *[]){in}, four, 2, (int32_t *[]){a, b}, four, NULL);
    if (st == GXRT_OK) {
        assert_int_equal(a[0], 4);
        assert_int_equal(b[0], 6);
    }
    return st;
}

static void test_streams(void **state)
{
    (void)state;
    Program p = stream_program();
    gxrt_session *s = open_session(&p);
    assert_int_equal(use_streams(s), GXRT_OK);
    assert_string_equal(call_log,
                        "record wait "     /* fork */
                        "record wait add " /* async start: stream 1 waits for stream 0 */
                        "record add "      /* started; main goes on */
                        "wait "            /* done */
                        "add record "      /* gives the signal */
                        "wait add "        /* takes it */
                        "record wait ");   /* join */
    gxrt_session_destroy(s);
    close_program(&p);
}

static void test_fail_every_call(void **state)
{
    (void)state;
    fail_every_call(loop_program, use_loop);
    fail_every_call(predicate_program, use_predicate);
    fail_every_call(stream_program, use_streams);
}

static void test_arguments(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    gxrt_buffer a = {.struct_size = sizeof a, .bytes = 48};
    gxrt_buffer r = a;
    assert_int_equal(gxrt_allocate(s, 0, 48, &a.data), GXRT_OK);
    assert_int_equal(gxrt_allocate(s, 0, 48, &r.data), GXRT_OK);
    gxrt_run job = {.struct_size = sizeof job,
                    .arguments = &a,
                    .argument_count = 1,
                    .results = &r,
                    .result_count = 1};
    struct {
        const char *want;
        gxrt_buffer argument, result;
        size_t count;
    } wrong[] = {
        {"0 arguments and 1 results were given; test takes 1 and gives 1", a, r, 0},
        {"has 44 bytes, 48 are needed", {sizeof a, a.data, 44, NULL, NULL, 0}, r, 1},
        {"must be aligned to 16",
         {sizeof a, (char *)a.data + 4, 48, NULL, NULL, 0},
         r,
         1},
        {"the buffer holds f32", {sizeof a, a.data, 48, "f32", NULL, 0}, r, 1},
        {"has rank 0, not 1", {sizeof a, a.data, 48, "s32", (int64_t[]){12}, 0}, r, 1},
        {"dimension 0 of the buffer is 13",
         {sizeof a, a.data, 48, NULL, (int64_t[]){13}, 1},
         r,
         1},
        {"struct_size", {0, a.data, 48, NULL, NULL, 0}, r, 1},
        {"argument 0 and result 0 overlap", a, {sizeof a, a.data, 48, NULL, NULL, 0}, 1},
        {"is no device memory",
         {sizeof a, (void *)((uintptr_t)&host_variable & ~(uintptr_t)255), 48, NULL, NULL,
          0},
         r,
         1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job.arguments = &wrong[i].argument;
        job.results = &wrong[i].result;
        job.argument_count = wrong[i].count;
        call_log[0] = 0;
        assert_int_equal(gxrt_execute(s, 1, &job), GXRT_INVALID_ARGUMENT);
        if (!strstr(gxrt_last_error(), wrong[i].want))
            fail_msg("%s", gxrt_last_error());
        assert_string_equal(call_log, "");
    }
    assert_int_equal(gxrt_execute(s, 2, &job), GXRT_INVALID_ARGUMENT);
    job.arguments = &a;
    job.results = &r;
    job.argument_count = 1;
    int before = calls;
    assert_int_equal(gxrt_execute(s, 1, &job), GXRT_OK);
    int first = calls - before;
    before = calls;
    assert_int_equal(gxrt_execute(s, 1, &job), GXRT_OK);
    assert_int_equal(calls - before,
                     first - 2); /* the two pointers are not asked for again */
    gxrt_free(s, 0, a.data);
    gxrt_free(s, 0, r.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

static const char *refusal(Maker *m, gxrt_status want)
{
    Program p = open_program(m, "", 0);
    gxrt_session *s;
    assert_int_equal(session_create(p.program, NULL, &fake, NULL, &s), want);
    assert_null(s);
    close_program(&p);
    return gxrt_last_error();
}

static void test_refusals(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    sm = 89;
    assert_string_equal(
        refusal(&m, GXRT_WRONG_DEVICE),
        "the program holds sm_90a, this is sm_89 (Fake GPU): compile with "
        "--target=sm_89");
    sm = 90;
    maker_init(&m);
    driver = 12020;
    assert_string_equal(
        refusal(&m, GXRT_WRONG_DEVICE),
        "the program needs a driver for CUDA 12.8 or newer; this one is for "
        "CUDA 12.2: update NVIDIA's driver");
    driver = 13000;
    maker_init(&m);
    m.b.info[0].replicas = 8;
    assert_non_null(strstr(refusal(&m, GXRT_WRONG_DEVICE), "needs 8 devices"));
    maker_init(&m);
    m.b.info[0].flags = PLAN_ELIDED;
    PlanAllocation c = {.kind = PLAN_CONSTANT,
                        .alignment = 256,
                        .name = plan_string(&m.b, "constant.7"),
                        .elided = 1};
    plan_add_allocations(&m.b, &c, 1);
    assert_non_null(
        strstr(refusal(&m, GXRT_INVALID_FILE), "constant constant.7 as {...}"));
}

static void test_select(void **state)
{
    (void)state;
    const PlanInfo a = {.sm = 90, .suffix = 'a'};
    const PlanInfo plain = {.sm = 80};
    const PlanInfo family = {.sm = 100, .suffix = 'f'};
    assert_true(select_fits(&a, 90));
    assert_false(select_fits(&a, 100));
    assert_true(select_fits(&plain, 86));
    assert_false(select_fits(&plain, 75));
    assert_false(select_fits(&plain, 90));
    assert_true(select_fits(&family, 103));
    assert_false(select_fits(&family, 120));
}

/* Two replicas: each device adds its own replica id. */
static void test_replicas(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    add(&m, in, out, 4, (PlanArg){.tag = PLAN_ARG_REPLICA});
    Program p = open_program(&m, "", 0);
    gxrt_session *s;
    gxrt_session_options options = {.struct_size = sizeof options, .replicas = 3};
    assert_int_equal(session_create(p.program, &options, &fake, NULL, &s), GXRT_OK);
    gxrt_buffer a[3];
    gxrt_buffer r[3];
    gxrt_run runs[3];
    for (size_t d = 0; d < 3; d++) {
        a[d] = r[d] = (gxrt_buffer){.struct_size = sizeof *a, .bytes = 16};
        assert_int_equal(gxrt_allocate(s, d, 16, &a[d].data), GXRT_OK);
        assert_int_equal(gxrt_allocate(s, d, 16, &r[d].data), GXRT_OK);
        const int32_t x[4] = {10, 20, 30, 40};
        assert_int_equal(gxrt_copy_to_device(s, d, a[d].data, x, 16), GXRT_OK);
        runs[d] = (gxrt_run){sizeof *runs, NULL, &a[d], 1, &r[d], 1};
    }
    for (int times = 0; times < 100; times++)
        assert_int_equal(gxrt_execute(s, 3, runs), GXRT_OK);
    for (size_t d = 0; d < 3; d++) {
        int32_t y[4];
        assert_int_equal(gxrt_copy_to_host(s, d, y, r[d].data, 16), GXRT_OK);
        assert_int_equal(y[3], 40 + (int32_t)d);
    }
    runs[1].arguments = &a[2];
    assert_int_equal(gxrt_execute(s, 3, runs), GXRT_INVALID_ARGUMENT);
    assert_non_null(strstr(gxrt_last_error(), "is on CUDA device 2, the run on 1"));
    for (size_t d = 0; d < 3; d++) {
        gxrt_free(s, d, a[d].data);
        gxrt_free(s, d, r[d].data);
    }
    gxrt_session_destroy(s);
    close_program(&p);
}

static void count_event(void *user, const gxrt_event *e)
{
    assert_string_equal(e->name, e->kind[0] == 'f' ? "" : "instruction");
    ++*(int *)user;
}

static void test_profile(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    gxrt_buffer a = {.struct_size = sizeof a, .bytes = 48};
    gxrt_buffer r = a;
    gxrt_run job = {sizeof job, NULL, &a, 1, &r, 1};
    int events = 0;
    assert_int_equal(gxrt_allocate(s, 0, 48, &a.data), GXRT_OK);
    assert_int_equal(gxrt_allocate(s, 0, 48, &r.data), GXRT_OK);
    memset(a.data, 0, 48);
    assert_int_equal(gxrt_profile(s, 1, &job, count_event, &events), GXRT_OK);
    assert_int_equal(events, 5); /* three launches, a copy, a fill */
    gxrt_free(s, 0, a.data);
    gxrt_free(s, 0, r.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

static int32_t *host_call_seen;

static int host_function(void *user, void *stream, size_t count, void *const *buffers,
                         const uint64_t *bytes)
{
    (void)stream;
    assert_int_equal(count, 2);
    assert_int_equal(bytes[1], 16);
    host_call_seen = buffers[0];
    memcpy(buffers[1], buffers[0], 16);
    return *(int *)user;
}

static void test_host_call(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    PlanArg args[2] = {reads(in), writes(out)};
    command(&m, PLAN_HOST_CALL, plan_string(&m.b, "mine"), args, 2);
    Program p = open_program(&m, "", 0);
    int answer = 0;
    gxrt_host_call h = {sizeof h, "mine", host_function, &answer};
    gxrt_session_options options = {
        .struct_size = sizeof options, .host_calls = &h, .host_call_count = 1};
    gxrt_session *s;
    assert_int_equal(session_create(p.program, &options, &fake, NULL, &s), GXRT_OK);
    int32_t x[4] = {1, 2, 3, 4};
    int32_t y[4];
    const size_t four = 4;
    assert_int_equal(run(s, 1, (int32_t *[]){x}, &four, 1, (int32_t *[]){y}, &four, NULL),
                     GXRT_OK);
    assert_int_equal(y[3], 4);
    answer = 7;
    assert_int_equal(run(s, 1, (int32_t *[]){x}, &four, 1, (int32_t *[]){y}, &four, NULL),
                     GXRT_HOST_CALL_FAILED);
    assert_non_null(
        strstr(gxrt_last_error(), "mine of HLO instruction instruction returned 7"));
    gxrt_session_destroy(s);
    close_program(&p);
}

/* A file that is cut off anywhere, or foreign, is refused with a text. */
static void test_files(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    add(&m, value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE),
        value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE), 4, number(1));
    size_t size;
    unsigned char *file = artefact(&m, "0123", 4, &size);
    gxrt_program *program;
    for (size_t n = 0; n < size; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, file, n);
        assert_int_not_equal(gxrt_program_open_memory(cut, n, &program), GXRT_OK);
        assert_null(program);
        assert_true(strlen(gxrt_last_error()) > 10);
        free(cut);
    }
    for (size_t bit = 0; bit < size * 8; bit += 3) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (gxrt_program_open_memory(file, size, &program) == GXRT_OK)
            gxrt_program_destroy(program);
        else
            assert_true(strlen(gxrt_last_error()) > 10);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(gxrt_program_open("/nonexistent", &program), GXRT_INVALID_FILE);
    assert_int_equal(gxrt_program_open("/tmp", &program), GXRT_INVALID_FILE);
    assert_int_equal(gxrt_program_open("/proc/self/exe", &program), GXRT_INVALID_FILE);
    assert_non_null(strstr(gxrt_last_error(), "no plan of gxc inside"));
    free(file);
}

static void test_queries(void **state)
{
    (void)state;
    Program p = predicate_program();
    gxrt_program_info info = {.struct_size = sizeof info};
    assert_int_equal(gxrt_program_get_info(p.program, &info), GXRT_OK);
    assert_int_equal(info.argument_count, 1);
    assert_int_equal(info.result_count, 2);
    gxrt_value_info v = {.struct_size = sizeof v};
    assert_int_equal(gxrt_program_get_argument(p.program, 0, &v), GXRT_OK);
    assert_string_equal(v.dtype, "s32");
    assert_int_equal(v.alias, 0);
    assert_int_equal(gxrt_program_get_result(p.program, 1, &v), GXRT_OK);
    assert_int_equal(v.alias, -1);
    assert_int_equal(gxrt_program_get_result(p.program, 2, &v), GXRT_INVALID_ARGUMENT);
    gxrt_program_info old = {.struct_size = offsetof(gxrt_program_info, gxc_version)};
    assert_int_equal(gxrt_program_get_info(p.program, &old), GXRT_OK);
    assert_string_equal(old.module, "test");
    assert_null(old.gxc_version);
    gxrt_variant_info variant = {.struct_size = sizeof variant};
    assert_int_equal(gxrt_program_get_variant(p.program, 0, &variant), GXRT_OK);
    assert_int_equal(variant.launch_count, 5);
    assert_int_equal(variant.temp_bytes, 512);
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),      cmocka_unit_test(test_predicate),
        cmocka_unit_test(test_streams),   cmocka_unit_test(test_fail_every_call),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_select),    cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_profile),   cmocka_unit_test(test_host_call),
        cmocka_unit_test(test_files),     cmocka_unit_test(test_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
