/* libgxrt on libgxemu: a plan with a launch and a loop, its kernel made by codegen, runs on
 * emulated devices, one and two; what the emulator finds comes back as gxrt's error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "runtime/gxrt.h"
#include "runtime/plan/plan.h"
#include "tests/unit/shared/artefact.h"

enum { COUNT = 1000, BYTES = COUNT * 4, THREADS = 128, TRIPS = 3 };

/* out[i] = in[i] + 1, as codegen's emitters write it. */
static const void *kernel_make(Arena *a, size_t *out_bytes)
{
    static const KernelArg args[] = {{.align = 4, .bytes = BYTES},
                                     {.align = 4, .bytes = BYTES}};
    static const uint32_t block[3] = {THREADS, 1, 1};
    static const uint32_t grid[3] = {(COUNT + THREADS - 1) / THREADS, 1, 1};
    const char *error = NULL;
    Cuda cuda;
    if (!cuda_find(a, NULL, ASSEMBLER_ANY, &cuda, &error))
        fail_msg("%s", error);
    Libdevice *device = libdevice_open(a, cuda.libdevice, &error);
    assert_non_null(device);
    Backend *backend = backend_create(a, device);
    Kernel *k =
        kernel_create(a, backend_module(backend), "add_one", args, 2, block, grid);
    LLVMTypeRef f32 = LLVMFloatTypeInContext(k->context);
    LLVMBuilderRef b = k->builder;
    k->at = "add.1";
    LLVMValueRef first = LLVMBuildMul(b, gx_ctaid(k, 0), gx_i32(k, THREADS), "");
    LLVMValueRef i = LLVMBuildAdd(b, first, gx_tid(k, 0), "");
    GxIf s;
    gx_if_begin(k, &s, LLVMBuildICmp(b, LLVMIntULT, i, gx_i32(k, COUNT), ""));
    LLVMValueRef at = LLVMBuildMul(b, i, gx_i32(k, 4), "");
    LLVMValueRef x = gx_load(k, 0, at, f32, 4);
    gx_store(k, 1, at, LLVMBuildFAdd(b, x, LLVMConstReal(f32, 1), ""), 4);
    gx_if_end(k, &s, NULL, 0, NULL);
    kernel_finish(k);
    const void *object = backend_host_object(backend, &k, 1, 90, out_bytes);
    void *copy = arena_copy(a, object, *out_bytes);
    backend_destroy(backend);
    libdevice_close(device);
    return copy;
}

static uint32_t slice_add(PlanBuilder *b, PlanAllocationKind kind, uint64_t bytes)
{
    PlanAllocation a = {.kind = (uint32_t)kind, .alignment = 16, .bytes = BYTES};
    PlanSlice s = {.allocation = plan_add_allocations(b, &a, 1), .bytes = bytes};
    return plan_add_slices(b, &s, 1);
}

static PlanValue value_make(PlanBuilder *b, uint32_t slice)
{
    return (PlanValue){.name = plan_string(b, "x"),
                       .dtype = plan_string(b, "f32"),
                       .element_bits = 32,
                       .rank = 1,
                       .dims = plan_add_numbers(b, (int64_t[]){COUNT, 0}, 2),
                       .slice = slice,
                       .alias = PLAN_NONE,
                       .size_of = PLAN_NONE,
                       .bytes = BYTES};
}

static uint32_t launch_add(PlanBuilder *b, uint32_t from, uint32_t to)
{
    PlanArg args[] = {{.tag = PLAN_ARG_SLICE, .access = PLAN_READ, .index = from},
                      {.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE, .index = to}};
    PlanCommand c = {
        .kind = PLAN_LAUNCH, .name = plan_string(b, "fusion.1"), .signal = PLAN_NONE};
    return plan_command(b, &c, args, 2);
}

/* x + 1, then TRIPS times + 1 in place. `launched_bytes`: of the slices that the launches say;
 * less than BYTES is a mistake that the emulator has to find. */
static void plan_make(PlanBuilder *b, uint64_t launched_bytes)
{
    plan_builder_init(b);
    b->info[0].module = plan_string(b, "test");
    b->info[0].target = plan_string(b, "sm_90a");
    b->info[0].sm = 90;
    b->info[0].suffix = 'a';
    b->info[0].min_driver = 12080;
    PlanKernel k = {.name = plan_string(b, "add_one"),
                    .grid = {(COUNT + THREADS - 1) / THREADS, 1, 1},
                    .block = {THREADS, 1, 1},
                    .cluster = {1, 1, 1},
                    .parameter_count = 2};
    plan_add_kernels(b, &k, 1);
    uint32_t in = slice_add(b, PLAN_ARGUMENT, BYTES),
             out = slice_add(b, PLAN_RESULT, BYTES);
    PlanValue argument = value_make(b, in), result = value_make(b, out);
    plan_add_arguments(b, &argument, 1);
    plan_add_results(b, &result, 1);
    PlanSlice part = {.allocation = b->slices[out].allocation, .bytes = launched_bytes};
    uint32_t launched = plan_add_slices(b, &part, 1);
    launch_add(b, in, launched);
    PlanLoop loop = {.trip_count = TRIPS, .counter = PLAN_NONE, .body_commands = 1};
    PlanCommand c = {.kind = PLAN_WHILE,
                     .name = plan_string(b, "while.1"),
                     .signal = PLAN_NONE,
                     .index = plan_add_loops(b, &loop, 1)};
    uint32_t open = plan_command(b, &c, NULL, 0);
    launch_add(b, launched, launched);
    plan_close(b, open);
}

static void *file_make(uint64_t launched_bytes, size_t *out_bytes)
{
    PlanBuilder b;
    plan_make(&b, launched_bytes);
    Arena *a = arena_create();
    PlanElfSection emu = {PLAN_ELF_EMU, NULL, 0};
    emu.bytes = kernel_make(a, &emu.size);
    void *file = artefact_make(&b, &emu, 1, out_bytes);
    arena_destroy(a);
    return file;
}

/* The folder of libgxemu.so: this program is build/tests/unit/x. */
static const char *library_folder(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 20);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/../..");
    return path;
}

static void ok(gxrt_status status)
{
    if (status != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
}

typedef struct Fixture {
    void *file;
    gxrt_program *program;
    gxrt_session *session;
    gxrt_buffer arguments[2], results[2];
    gxrt_run runs[2];
} Fixture;

static void fixture_init(Fixture *f, uint64_t launched_bytes, uint32_t devices)
{
    static float values[COUNT];
    size_t bytes;
    memset(f, 0, sizeof *f);
    f->file = file_make(launched_bytes, &bytes);
    ok(gxrt_program_open_memory(f->file, bytes, &f->program));
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .library_path = library_folder(),
                                    .replicas = devices};
    ok(gxrt_session_create(f->program, &options, &f->session));
    for (uint32_t d = 0; d < devices; d++) {
        f->arguments[d] =
            (gxrt_buffer){.struct_size = sizeof(gxrt_buffer), .bytes = BYTES};
        f->results[d] = f->arguments[d];
        ok(gxrt_allocate(f->session, d, BYTES, &f->arguments[d].data));
        ok(gxrt_allocate(f->session, d, BYTES, &f->results[d].data));
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(i + (int)d * 5);
        ok(gxrt_copy_to_device(f->session, d, f->arguments[d].data, values, BYTES));
        f->runs[d] = (gxrt_run){.struct_size = sizeof(gxrt_run),
                                .arguments = &f->arguments[d],
                                .argument_count = 1,
                                .results = &f->results[d],
                                .result_count = 1};
    }
}

static void fixture_deinit(Fixture *f, uint32_t devices)
{
    for (uint32_t d = 0; d < devices; d++) {
        gxrt_free(f->session, d, f->arguments[d].data);
        gxrt_free(f->session, d, f->results[d].data);
    }
    gxrt_session_destroy(f->session);
    gxrt_program_destroy(f->program);
    free(f->file);
}

static void test_run(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++) {
        static float values[COUNT];
        Fixture f;
        fixture_init(&f, BYTES, devices);
        for (int repeat = 0; repeat < 3; repeat++)
            ok(gxrt_execute(f.session, devices, f.runs));
        for (uint32_t d = 0; d < devices; d++) {
            ok(gxrt_copy_to_host(f.session, d, values, f.results[d].data, BYTES));
            for (int i = 0; i < COUNT; i++)
                assert_true(values[i] == (float)(i + (int)d * 5 + 1 + TRIPS));
        }
        fixture_deinit(&f, devices);
    }
}

/* The file's code runs in this process only for callers that ask for it. */
static void test_native_is_asked_for(void **state)
{
    (void)state;
    size_t bytes;
    void *file = file_make(BYTES, &bytes);
    gxrt_program *program;
    gxrt_session *session = NULL;
    ok(gxrt_program_open_memory(file, bytes, &program));
    gxrt_session_options options = {
        .struct_size = sizeof options, .device = "emu", .library_path = library_folder()};
    assert_int_equal(gxrt_session_create(program, &options, &session),
                     GXRT_INVALID_ARGUMENT);
    assert_null(session);
    assert_non_null(strstr(gxrt_last_error(), "set allow_native"));
    /* callers compiled against a header without the field ask for nothing */
    options.allow_native = 1;
    options.struct_size = offsetof(gxrt_session_options, allow_native);
    assert_int_equal(gxrt_session_create(program, &options, &session),
                     GXRT_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    ok(gxrt_session_create(program, &options, &session));
    gxrt_session_destroy(session);
    gxrt_program_destroy(program);
    free(file);
}

static void test_finding(void **state)
{
    (void)state;
    Fixture f;
    fixture_init(&f, 3600, 1);
    gxrt_status status = gxrt_execute(f.session, 1, f.runs);
    if (status == GXRT_OK)
        status = gxrt_synchronize(f.session, 0);
    assert_int_equal(status, GXRT_DEVICE_FAILED);
    static const char words[] =
        "instruction add.1 (site 0), thread (4,0,0) of block (7,0,0) "
        "writes 4 bytes at byte 3600 of argument 1";
    if (strstr(gxrt_last_error(), words) == NULL)
        fail_msg("'%s' lacks '%s'", gxrt_last_error(), words);
    fixture_deinit(&f, 1);
    test_run(state); /* the next session works */
}

int main(void)
{
    setenv("GXEMU_SHADOW", "1", 1);
    setenv("GXEMU_RACE", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_native_is_asked_for),
        cmocka_unit_test(test_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
