/* The emulator through the functions of cuda.def, with kernels that LLVM compiles here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "codegen/build/archive.h"
#include "runtime/emu/config.h"
#include "runtime/emu/context.h"
#include "runtime/emu/object.h"
#include "tests/unit/shared/emulator.h"

enum { COUNT = 1024, THREADS = 128 };

/* extents and args are arrays of 8-byte slots. add_one: argument 1 = argument 0 + 1, with the
 * bounds check that codegen writes; a table in read-only data and calls of libm and of the
 * run-time library make relocations of every kind. */
static const char ir[] =
    "@table = private unnamed_addr constant [4 x float] [float 1.0, float 2.0, float "
    "3.0, "
    "float 4.0]\n"
    "@fns = private unnamed_addr constant [2 x ptr] [ptr @one, ptr @two]\n"
    "declare void @gxemu_access(ptr, i32, i64, i32, i32, i32, i32)\n"
    "declare float @fmaf(float, float, float)\n"
    "define internal float @one(float %x) noinline { ret float %x }\n"
    "define internal float @two(float %x) noinline { %r = fmul float %x, 2.0\n ret float "
    "%r }\n"
    "define internal void @check(ptr %b, i32 %arg, i64 %off, i32 %kind) noinline {\n"
    "  %ep = getelementptr i8, ptr %b, i64 72\n"
    "  %e = load ptr, ptr %ep\n"
    "  %slot = getelementptr i64, ptr %e, i32 %arg\n"
    "  %extent = load i64, ptr %slot\n"
    "  %end = add i64 %off, 4\n"
    "  %bad = icmp ugt i64 %end, %extent\n"
    "  br i1 %bad, label %report, label %fine\n"
    "fine:\n"
    "  %cp = getelementptr i8, ptr %b, i64 48\n"
    "  %c = load i32, ptr %cp\n"
    "  %on = icmp ne i32 %c, 0\n"
    "  br i1 %on, label %report, label %done\n"
    "report:\n"
    "  call void @gxemu_access(ptr %b, i32 %arg, i64 %off, i32 4, i32 4, i32 %arg, i32 "
    "%kind)\n"
    "  br label %done\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "define void @add_one(ptr %b, ptr %args) {\n"
    "  %tid = load i32, ptr %b\n"
    "  %cta_p = getelementptr i8, ptr %b, i64 24\n"
    "  %cta = load i32, ptr %cta_p\n"
    "  %base = mul i32 %cta, 128\n"
    "  %i = add i32 %base, %tid\n"
    "  %w = zext i32 %i to i64\n"
    "  %off = mul i64 %w, 4\n"
    "  call void @check(ptr %b, i32 0, i64 %off, i32 0)\n"
    "  call void @check(ptr %b, i32 1, i64 %off, i32 1)\n"
    "  %in = load ptr, ptr %args\n"
    "  %out_p = getelementptr ptr, ptr %args, i64 1\n"
    "  %out = load ptr, ptr %out_p\n"
    "  %src = getelementptr i8, ptr %in, i64 %off\n"
    "  %dst = getelementptr i8, ptr %out, i64 %off\n"
    "  %x = load float, ptr %src\n"
    "  %k = and i32 %i, 3\n"
    "  %tp = getelementptr float, ptr @table, i32 %k\n"
    "  %t = load float, ptr %tp\n"
    "  %d = fdiv float %t, %t\n"
    "  %fp = getelementptr ptr, ptr @fns, i64 0\n"
    "  %f = load volatile ptr, ptr %fp\n"
    "  %y = call float %f(float %d)\n"
    "  %h = fptrunc float %y to half\n"
    "  %g = fpext half %h to float\n"
    "  %bf = fptrunc float %g to bfloat\n"
    "  %bg = fpext bfloat %bf to float\n"
    "  %r = call float @fmaf(float %x, float 1.0, float %bg)\n"
    "  store float %r, ptr %dst\n"
    "  ret void\n"
    "}\n"
    "define void @calls_strange(ptr %b, ptr %args) {\n"
    "  ret void\n"
    "}\n"
    "@add_one.sites = constant <{ [3 x i32], [14 x i8] }>\n"
    "  <{ [3 x i32] [i32 2, i32 12, i32 20], [14 x i8] c\"param.1\\00add.2\\00\" }>\n";

static LLVMMemoryBufferRef compile(const char *text)
{
    char *error = NULL;
    LLVMModuleRef m = NULL;
    LLVMTargetRef target = NULL;
    LLVMMemoryBufferRef out = NULL;
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMContextRef cx = LLVMContextCreate();
    LLVMMemoryBufferRef in =
        LLVMCreateMemoryBufferWithMemoryRange(text, strlen(text), "k", 1);
    if (LLVMParseIRInContext(cx, in, &m, &error))
        fail_msg("%s", error);
    char *triple = LLVMGetDefaultTargetTriple();
    assert_false(LLVMGetTargetFromTriple(triple, &target, &error));
    LLVMTargetMachineRef tm =
        LLVMCreateTargetMachine(target, triple, "", "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelSmall);
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, m, LLVMObjectFile, &error, &out))
        fail_msg("%s", error);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetMachine(tm);
    LLVMDisposeModule(m);
    LLVMContextDispose(cx);
    return out;
}

typedef struct Fixture {
    CUcontext context;
    CUmodule module;
    CUfunction add_one;
    CUstream stream;
    CUdeviceptr in, out;
    float values[COUNT];
    GxemuParameter parameters[2];
    GxemuLaunch launch;
} Fixture;

static int setup(void **state)
{
    static const GxemuKernel kernel = {.name = "add_one", .parameter_count = 2};
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *emu_config() = (EmuConfig){.devices = 2,
                                .major = 9,
                                .memory = 1 << 24,
                                .streams = 64,
                                .driver_version = 13000,
                                .shadow = true};
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&f->context, 0));
    ok(cuCtxPushCurrent_v2(f->context));
    LLVMMemoryBufferRef object = compile(ir);
    ok(gxemuModuleLoad(&f->module, LLVMGetBufferStart(object), LLVMGetBufferSize(object),
                       &kernel, 1));
    LLVMDisposeMemoryBuffer(object);
    ok(cuModuleGetFunction(&f->add_one, f->module, "add_one"));
    ok(cuStreamCreateWithPriority(&f->stream, CU_STREAM_NON_BLOCKING, 0));
    ok(cuMemAlloc_v2(&f->in, sizeof f->values));
    ok(cuMemAlloc_v2(&f->out, sizeof f->values));
    for (int i = 0; i < COUNT; i++)
        f->values[i] = (float)i;
    f->parameters[0] = (GxemuParameter){GXEMU_POINTER, 1, sizeof f->values};
    f->parameters[1] = (GxemuParameter){GXEMU_POINTER, 2, sizeof f->values};
    f->launch = (GxemuLaunch){"fusion.7", f->parameters, 2};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    CUresult failed = cuModuleUnload(f->module);
    assert_int_equal(cuMemFree_v2(f->in), failed);
    assert_int_equal(cuMemFree_v2(f->out), failed);
    assert_int_equal(cuStreamDestroy_v2(f->stream), failed);
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    free(f);
    return 0;
}

static CUresult launch(Fixture *f, CUdeviceptr in, CUdeviceptr out)
{
    void *slots[] = {&in, &out};
    CUlaunchConfig config = {.gridDimX = COUNT / THREADS,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = THREADS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = f->stream};
    return gxemuLaunchKernel(&config, f->add_one, slots, &f->launch);
}

/* Every function of the tables, so that a missing one is a link error. */
static void test_tables(void **state)
{
    (void)state;
    void (*functions[])(void) = {
#define CUDA_FUNCTION(name, symbol, parameters) (void (*)(void)) symbol,
#define EMU_API_FUNCTION(name, symbol, parameters) (void (*)(void)) symbol,
#include "runtime/library/cuda.def"
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        assert_true(functions[i] != NULL);
}

static void run_once(Fixture *f)
{
    float result[COUNT];
    ok(cuMemcpyHtoDAsync_v2(f->in, f->values, sizeof f->values, f->stream));
    ok(launch(f, f->in, f->out));
    ok(cuMemcpyDtoHAsync_v2(result, f->out, sizeof result, f->stream));
    ok(cuStreamSynchronize(f->stream));
    for (int i = 0; i < COUNT; i++)
        assert_true(result[i] == f->values[i] + 1.0F);
}

static void test_run(void **state)
{
    for (int schedule = 0; schedule < 3; schedule++) {
        emu_config()->schedule = (Schedule)schedule;
        for (int checks = 0; checks < 2; checks++) {
            emu_config()->race = checks != 0;
            run_once(*state);
        }
    }
}

static void test_slice(void **state)
{
    Fixture *f = *state;
    ok(cuMemcpyHtoDAsync_v2(f->in, f->values, sizeof f->values, f->stream));
    f->parameters[1].bytes = 4000;
    EXPECT(
        launch(f, f->in, f->out), CUDA_ERROR_ILLEGAL_ADDRESS,
        "kernel fusion.7, instruction add.2 (site 1), thread (104,0,0) of block (7,0,0) "
        "writes 4 bytes at byte 4000 of argument 1");
    EXPECT(cuStreamSynchronize(f->stream), CUDA_ERROR_ILLEGAL_ADDRESS, "byte 4000");
}

static void test_unwritten(void **state)
{
    Fixture *f = *state;
    ok(cuMemsetD8Async(f->in, 0, 1000, f->stream));
    EXPECT(launch(f, f->in, f->out), CUDA_ERROR_ASSERT,
           "thread (122,0,0) of block (1,0,0) reads 4 bytes at byte 1000 of argument 0");
}

static void test_read_only(void **state)
{
    Fixture *f = *state;
    ok(cuMemsetD8Async(f->in, 0, sizeof f->values, f->stream));
    f->parameters[1].access = 1;
    EXPECT(launch(f, f->in, f->out), CUDA_ERROR_ILLEGAL_ADDRESS, "write to an input");
}

static void test_bad_pointers(void **state)
{
    Fixture *f = *state;
    CUdeviceptr dead;
    ok(cuMemAlloc_v2(&dead, sizeof f->values));
    ok(cuMemFree_v2(dead));
    EXPECT(cuMemFree_v2(dead), CUDA_ERROR_INVALID_VALUE, "freed twice");
    EXPECT(launch(f, dead, f->out), CUDA_ERROR_ILLEGAL_ADDRESS, "which was freed");
    EXPECT(launch(f, f->in, 64), CUDA_ERROR_ILLEGAL_ADDRESS,
           "not the memory of any device");
    EXPECT(launch(f, f->in + 4, f->out), CUDA_ERROR_ILLEGAL_ADDRESS,
           "which has 4096 bytes");
    EXPECT(cuMemAlloc_v2(&dead, 1 << 25), CUDA_ERROR_OUT_OF_MEMORY, "do not fit");
}

/* Without the wait, the lazy schedule reads before the copy that another stream has to make. */
static void test_missing_wait(void **state)
{
    Fixture *f = *state;
    emu_config()->schedule = SCHEDULE_LAZY;
    for (int waits = 1; waits >= 0; waits--) {
        CUstream other;
        CUevent event;
        float result[COUNT];
        ok(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
        ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        ok(gxemuMemUndefine(f->in, sizeof f->values, f->stream));
        ok(cuStreamSynchronize(f->stream));
        ok(cuMemcpyHtoDAsync_v2(f->in, f->values, sizeof f->values, other));
        ok(cuEventRecord(event, other));
        if (waits)
            ok(cuStreamWaitEvent(f->stream, event, 0));
        ok(launch(f, f->in, f->out));
        CUresult r = cuMemcpyDtoHAsync_v2(result, f->out, sizeof result, f->stream);
        if (waits)
            ok(r);
        else
            EXPECT(r, CUDA_ERROR_ASSERT, "uninitialised");
        cuStreamDestroy_v2(other);
        cuEventDestroy_v2(event);
    }
}

static void test_failing_call(void **state)
{
    Fixture *f = *state;
    CUdeviceptr p;
    emu_config()->fail_call = 2;
    snprintf(emu_config()->fail_name, sizeof emu_config()->fail_name, "cuMemAlloc_v2");
    ok(cuMemAlloc_v2(&p, 4));
    ok(cuMemFree_v2(p));
    EXPECT(cuMemAlloc_v2(&p, 4), CUDA_ERROR_OUT_OF_MEMORY, "GXEMU_FAIL_CALL");
    CUevent event; /* is gone all the same: nobody can ask again */
    emu_config()->fail_call = 1;
    snprintf(emu_config()->fail_name, sizeof emu_config()->fail_name,
             "cuEventDestroy_v2");
    ok(cuEventCreate(&event, 0));
    EXPECT(cuEventDestroy_v2(event), CUDA_ERROR_UNKNOWN, "GXEMU_FAIL_CALL");
    size_t before, after, total; /* so is memory */
    ok(cuMemGetInfo_v2(&before, &total));
    emu_config()->fail_call = 1;
    snprintf(emu_config()->fail_name, sizeof emu_config()->fail_name, "cuMemFree_v2");
    ok(cuMemAlloc_v2(&p, 4096));
    EXPECT(cuMemFree_v2(p), CUDA_ERROR_UNKNOWN, "GXEMU_FAIL_CALL");
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
    emu_config()->fail_call = 1; /* and a context, which was retained twice here */
    snprintf(emu_config()->fail_name, sizeof emu_config()->fail_name,
             "cuDevicePrimaryCtxRelease_v2");
    CUcontext again;
    ok(cuDevicePrimaryCtxRetain(&again, 0));
    unsigned retained = again->retained;
    EXPECT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_UNKNOWN, "GXEMU_FAIL_CALL");
    assert_int_equal(again->retained, retained - 1);
    emu_config()->fail_name[0] = '\0';
    emu_config()->fail_call = 0;
    run_once(f);
}

/* Every truncation and many flipped bits: refused or loaded, never a crash. */
static void test_damaged(void **state)
{
    (void)state;
    char reason[OBJECT_REASON_BYTES];
    LLVMMemoryBufferRef object = compile(ir);
    size_t bytes = LLVMGetBufferSize(object);
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    for (size_t n = 0; n < bytes; n += 7) {
        memcpy(copy, LLVMGetBufferStart(object), n);
        object_unload(object_load(copy, n, reason));
    }
    for (size_t bit = 0; bit < bytes * 8; bit += 3) {
        memcpy(copy, LLVMGetBufferStart(object), bytes);
        copy[bit / 8] ^= (unsigned char)(1U << bit % 8);
        object_unload(object_load(copy, bytes, reason));
    }
    free(copy);
    LLVMDisposeMemoryBuffer(object);
}

static char *archive_of(LLVMMemoryBufferRef first, LLVMMemoryBufferRef second,
                        size_t *out_bytes)
{
    Arena *a = arena_create();
    const ArchiveMember members[] = {
        {LLVMGetBufferStart(first), LLVMGetBufferSize(first)},
        {LLVMGetBufferStart(second), LLVMGetBufferSize(second)}};
    const void *data = archive_make(a, members, 2, out_bytes);
    char *copy = malloc(*out_bytes);
    assert_non_null(copy);
    memcpy(copy, data, *out_bytes);
    arena_destroy(a);
    return copy;
}

/* Kernels of all members are found; every truncation and a damaged header are refused. */
static void test_archive(void **state)
{
    (void)state;
    char reason[OBJECT_REASON_BYTES] = "";
    LLVMMemoryBufferRef first = compile(ir);
    LLVMMemoryBufferRef second =
        compile("define void @k(ptr %b, ptr %a) { ret void }\n"
                "@k.sites = constant [4 x i8] zeroinitializer\n");
    size_t bytes, data_bytes = 0;
    char *archive = archive_of(first, second, &bytes);
    Object *o = object_load(archive, bytes, reason);
    if (o == NULL)
        fail_msg("%s", reason);
    assert_non_null(object_kernel(o, "add_one"));
    assert_non_null(object_kernel(o, "k"));
    assert_null(object_kernel(o, "k.sites"));
    assert_non_null(object_data(o, "k.sites", &data_bytes));
    assert_int_equal(data_bytes, 4);
    object_unload(o);
    size_t whole = 8 + 60 + ((LLVMGetBufferSize(first) + 1) & ~(size_t)1);
    for (size_t n = 9; n < bytes - 1; n += 5)
        if (n != whole) /* an archive of the first member */
            assert_null(object_load(archive, n, reason));
    for (size_t i = 8; i < 68; i++) {
        archive[i] ^= 0x40;
        object_unload(object_load(archive, bytes, reason));
        archive[i] ^= 0x40;
    }
    memset(archive + 56, '9', 10);
    assert_null(object_load(archive, bytes, reason));
    assert_non_null(strstr(reason, "its member at byte 8 is damaged"));
    free(archive);
    LLVMDisposeMemoryBuffer(first);
    LLVMDisposeMemoryBuffer(second);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"declare void @system(ptr)\n"
         "define void @k(ptr %b) { call void @system(ptr %b)\n ret void }\n",
         "it calls system, which the emulator does not have"},
        {"@counter = global i32 7\n"
         "define void @k(ptr %b) { store i32 1, ptr @counter\n ret void }\n",
         "is writable; kernels keep no data of their own"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[OBJECT_REASON_BYTES] = "";
        LLVMMemoryBufferRef object = compile(cases[i].text);
        assert_null(
            object_load(LLVMGetBufferStart(object), LLVMGetBufferSize(object), reason));
        if (strstr(reason, cases[i].reason) == NULL)
            fail_msg("'%s' lacks '%s'", reason, cases[i].reason);
        LLVMDisposeMemoryBuffer(object);
    }
}

static CUresult add_body(Fixture *f, CUgraph graph, unsigned char past, CUgraph *body)
{
    CUgraphNode node;
    CUgraphNodeParams params;
    CUgraphConditionalHandle handle;
    ok(cuGraphConditionalHandleCreate(&handle, graph, f->context, 0, 0));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
        .handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = f->context};
    ((unsigned char *)params.reserved1)[sizeof params.conditional] = past;
    CUresult r = cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params);
    *body = r == CUDA_SUCCESS ? params.conditional.phGraph_out[0] : NULL;
    return r;
}

/* As the driver: bytes past a node's parameters are zero. The emulator's own limit: neither a
 * graph nor a body of it takes nodes once it is instantiated. */
static void test_graph_nodes(void **state)
{
    Fixture *f = *state;
    CUgraph graph, body, other;
    CUgraphExec exec;
    ok(cuStreamBeginCapture_v2(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(launch(f, f->in, f->out));
    ok(cuStreamEndCapture(f->stream, &graph));
    assert_int_equal(add_body(f, graph, 1, &body), CUDA_ERROR_INVALID_VALUE);
    ok(add_body(f, graph, 0, &body));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_int_equal(add_body(f, graph, 0, &other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(add_body(f, body, 0, &other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBeginCaptureToGraph(f->stream, body, NULL, NULL, 0,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void test_damaged_sites(void **state)
{
    Fixture *f = *state;
    static const char *const cases[] = {
        "@k.sites = constant [2 x i8] zeroinitializer\n",
        "@k.sites = constant [1 x i32] [i32 1]\n",
        "@k.sites = constant [3 x i32] [i32 -1, i32 12, i32 12]\n",
        "@k.sites = constant [2 x i32] [i32 1, i32 8]\n",
        "@k.sites = constant <{ i32, i32, [2 x i8] }> <{ i32 1, i32 8, [2 x i8] c\"ab\" "
        "}>\n",
    };
    static const GxemuKernel kernel = {.name = "k"}, data = {.name = "k.sites"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "define void @k(ptr %%b, ptr %%a) { ret void }\n%s",
                 cases[i]);
        LLVMMemoryBufferRef object = compile(text);
        const char *start = LLVMGetBufferStart(object);
        CUmodule m;
        EXPECT(gxemuModuleLoad(&m, start, LLVMGetBufferSize(object), &kernel, 1),
               CUDA_ERROR_INVALID_IMAGE, "kernel k");
        EXPECT(gxemuModuleLoad(&m, start, LLVMGetBufferSize(object), &data, 1),
               CUDA_ERROR_INVALID_IMAGE, "has no kernel k.sites");
        LLVMDisposeMemoryBuffer(object);
    }
    run_once(f);
}

int main(void)
{
#define DRIVER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),   DRIVER_TEST(test_run),
        DRIVER_TEST(test_slice),         DRIVER_TEST(test_unwritten),
        DRIVER_TEST(test_read_only),     DRIVER_TEST(test_bad_pointers),
        DRIVER_TEST(test_missing_wait),  DRIVER_TEST(test_failing_call),
        cmocka_unit_test(test_damaged),  cmocka_unit_test(test_refused),
        DRIVER_TEST(test_damaged_sites), DRIVER_TEST(test_graph_nodes),
        cmocka_unit_test(test_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
