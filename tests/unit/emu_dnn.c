/* cuDNN's backend interface on the emulator: an addition with a broadcast operand, and what happens
 * when descriptors, packs or addresses are not as the library wants them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/library/cudnn_types.h"
#include "tests/unit/shared/emulator.h"

#define CUDNN_FUNCTION(name, symbol, parameters) cudnnStatus_t symbol parameters;
#define CUDNN_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#define CUDNN_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#define CUDNN_VOID_FUNCTION(name, symbol, parameters) void symbol parameters;
#include "runtime/library/cudnn.def"

typedef cudnnBackendDescriptor_t Descriptor;

enum { ROWS = 3, COLUMNS = 5, ELEMENTS = ROWS * COLUMNS };

static Descriptor make(int type)
{
    Descriptor d = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(type, &d), 0);
    return d;
}

static void set(Descriptor d, int attribute, int type, int64_t count,
                const void *elements)
{
    assert_int_equal(cudnnBackendSetAttribute(d, attribute, type, count, elements), 0);
}

static void set_int(Descriptor d, int attribute, int type, int32_t value)
{
    set(d, attribute, type, 1, &value);
}

static Descriptor tensor(int64_t id, int64_t rows)
{
    Descriptor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t dims[2] = {rows, COLUMNS}, strides[2] = {COLUMNS, 1}, alignment = 16;
    set_int(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    assert_int_equal(cudnnBackendFinalize(d), 0);
    return d;
}

/* y = f(x, b) in rows, or f(x) where b is NULL; the status of the graph that holds it. */
static int pointwise(int mode, Descriptor x, Descriptor b, Descriptor y, Descriptor *out)
{
    Descriptor p = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_int(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    set_int(p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    assert_int_equal(cudnnBackendFinalize(p), 0);
    Descriptor op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    int type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, type, 1, (void *)&p);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, type, 1, (void *)&x);
    if (b != NULL)
        set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, type, 1, (void *)&b);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, type, 1, (void *)&y);
    assert_int_equal(cudnnBackendFinalize(op), 0);
    *out = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(*out, CUDNN_ATTR_OPERATIONGRAPH_OPS, type, 1, (void *)&op);
    int status = cudnnBackendFinalize(*out);
    cudnnBackendDestroyDescriptor(p);
    cudnnBackendDestroyDescriptor(op);
    return status;
}

static int add(Descriptor x, Descriptor b, Descriptor y, Descriptor *out)
{
    return pointwise(CUDNN_POINTWISE_ADD, x, b, y, out);
}

static Descriptor plan_of(Descriptor graph)
{
    Descriptor h = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    Descriptor c = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    int64_t count = 0, bytes = -1;
    set(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, type, 1, (void *)&graph);
    set_int(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    assert_int_equal(cudnnBackendFinalize(h), 0);
    assert_int_equal(cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, type, 1,
                                              &count, (void *)&c),
                     0);
    assert_true(count >= 1);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, type, 1, (void *)&c);
    assert_int_equal(cudnnBackendFinalize(plan), 0);
    assert_int_equal(cudnnBackendGetAttribute(plan,
                                              CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, &count, &bytes),
                     0);
    assert_int_equal(bytes, 0);
    cudnnBackendDestroyDescriptor(h);
    cudnnBackendDestroyDescriptor(c);
    return plan;
}

static Descriptor pack_of(int64_t count, const int64_t *ids, void *const *addresses)
{
    Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void *none = NULL;
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
        addresses);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &none);
    assert_int_equal(cudnnBackendFinalize(pack), 0);
    return pack;
}

/* Memory of the device: x, b, y, in this order. */
static CUdeviceptr memory[3];
static cudnnHandle_t handle;

static int start(void **state)
{
    CUcontext context;
    float x[ELEMENTS], b[COLUMNS];
    (void)state;
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)i;
    for (int i = 0; i < COLUMNS; i++)
        b[i] = (float)(100 * i);
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
           cuCtxPushCurrent_v2(context) || cuMemAlloc_v2(&memory[0], sizeof x) ||
           cuMemAlloc_v2(&memory[1], sizeof b) || cuMemAlloc_v2(&memory[2], sizeof x) ||
           cuMemcpyHtoDAsync_v2(memory[0], x, sizeof x, NULL) ||
           cuMemcpyHtoDAsync_v2(memory[1], b, sizeof b, NULL) || cudnnCreate(&handle);
}

static void test_add(void **state)
{
    (void)state;
    Descriptor graph, all[3] = {tensor(1, ROWS), tensor(2, 1), tensor(3, ROWS)};
    float y[ELEMENTS];
    assert_int_equal(add(all[0], all[1], all[2], &graph), 0);
    Descriptor plan = plan_of(graph);
    int64_t ids[3] = {3, 1, 2};
    void *addresses[3] = {(void *)(uintptr_t)memory[2], (void *)(uintptr_t)memory[0],
                          (void *)(uintptr_t)memory[1]};
    Descriptor pack = pack_of(3, ids, addresses);
    assert_int_equal(cudnnSetStream(handle, NULL), 0);
    assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(y, memory[2], sizeof y, NULL), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(y[i] == (float)(i + 100 * (i % COLUMNS)));
    Descriptor few = pack_of(2, ids, addresses);
    assert_int_equal(cudnnBackendExecute(handle, plan, few), CUDNN_STATUS_BAD_PARAM);
    assert_non_null(strstr(emulator_said(), "no address in the pack"));
    assert_int_equal(cudnnBackendExecute(handle, graph, pack),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    Descriptor gone[] = {graph, all[0], all[1], all[2], plan, pack, few};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
}

/* Both forms of gelu: by the error function, and by tanh, which is 0.8411920 of 1. */
static void test_gelu(void **state)
{
    (void)state;
    static const int modes[] = {CUDNN_POINTWISE_GELU_FWD,
                                CUDNN_POINTWISE_GELU_APPROX_TANH_FWD};
    static const float of_one[] = {0.8413447F, 0.8411920F};
    for (int i = 0; i < 2; i++) {
        Descriptor graph, all[2] = {tensor(1, ROWS), tensor(2, ROWS)};
        float y[ELEMENTS];
        assert_int_equal(pointwise(modes[i], all[0], NULL, all[1], &graph), 0);
        Descriptor plan = plan_of(graph);
        int64_t ids[2] = {1, 2};
        void *addresses[2] = {(void *)(uintptr_t)memory[0], (void *)(uintptr_t)memory[2]};
        Descriptor pack = pack_of(2, ids, addresses);
        assert_int_equal(cudnnSetStream(handle, NULL), 0);
        assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
        assert_int_equal(cuMemcpyDtoHAsync_v2(y, memory[2], sizeof y, NULL), 0);
        assert_int_equal(cuCtxSynchronize(), 0);
        assert_true(y[0] == 0 && y[14] == 14);
        assert_true(y[1] - of_one[i] < 1e-6F && of_one[i] - y[1] < 1e-6F);
        Descriptor gone[] = {graph, all[0], all[1], plan, pack};
        for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
            cudnnBackendDestroyDescriptor(gone[k]);
    }
}

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_SUCCESS),
                        "CUDNN_STATUS_SUCCESS");
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED),
                        "CUDNN_STATUS_NOT_SUPPORTED");
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM),
                        "CUDNN_STATUS_BAD_PARAM");
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_EXECUTION_FAILED),
                        "CUDNN_STATUS_EXECUTION_FAILED");
    assert_string_equal(cudnnGetErrorString(4321), "cudnnStatus_t 4321");
}

static void test_descriptors(void **state)
{
    (void)state;
    Descriptor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR), graph;
    int64_t one = 1;
    char text[200];
    assert_int_equal(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                              CUDNN_TYPE_FLOAT, 1, &one),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(cudnnBackendSetAttribute(d, CUDNN_ATTR_POINTWISE_MODE,
                                              CUDNN_TYPE_POINTWISE_MODE, 1, &one),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_int_equal(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                              CUDNN_TYPE_INT64, 2, &one),
                     CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    assert_int_equal(cudnnBackendFinalize(d), CUDNN_STATUS_BAD_PARAM);
    cudnnGetLastErrorString(text, sizeof text);
    assert_string_equal(text, "a needed attribute was not set");
    Descriptor op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    assert_int_equal(cudnnBackendSetAttribute(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                              (void *)&d),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    /* sizes that do not fit, and one id for two tensors */
    Descriptor x = tensor(1, ROWS), b = tensor(2, 2), y = tensor(3, ROWS),
               twice = tensor(1, 1);
    assert_int_equal(add(x, b, y, &graph), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    cudnnBackendDestroyDescriptor(graph);
    assert_int_equal(add(x, twice, y, &graph), CUDNN_STATUS_BAD_PARAM);
    assert_non_null(strstr(emulator_said(), "the same unique id"));
    assert_int_equal(cudnnBackendSetAttribute(x, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                              CUDNN_TYPE_INT64, 1, &one),
                     CUDNN_STATUS_BAD_PARAM);
    Descriptor gone[] = {graph, d, op, x, b, y, twice};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
}

/* A descriptor of another kind where one that comes of a graph is wanted. */
static void test_kinds(void **state)
{
    (void)state;
    Descriptor x = tensor(1, ROWS), none = NULL;
    Descriptor h = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    int64_t count = 0;
    set(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, type, 1, (void *)&x);
    set_int(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    assert_int_equal(cudnnBackendFinalize(h), CUDNN_STATUS_BAD_PARAM);
    assert_non_null(strstr(emulator_said(), "a descriptor of another kind"));
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, type, 1, (void *)&x);
    assert_int_equal(cudnnBackendFinalize(plan), CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < 2; i++) /* room that is none, and a tensor that has no engine */
        assert_int_equal(cudnnBackendGetAttribute(x, CUDNN_ATTR_ENGINECFG_ENGINE, type, 1,
                                                  &count, (void *)(i == 0 ? &none : &x)),
                         CUDNN_STATUS_BAD_PARAM);
    Descriptor gone[] = {x, h, plan};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
}

/* The status of a graph y = sqrt(x), in which `attribute` of x is another one. */
static int with(int attribute, int type, int64_t count, const int64_t *elements)
{
    Descriptor graph, y = tensor(2, ROWS), x = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t dims[2] = {ROWS, COLUMNS}, strides[2] = {COLUMNS, 1}, id = 1, alignment = 16;
    set_int(x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, dims);
    set(x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    set(x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(x, attribute, type, count, elements); /* the last one counts */
    assert_int_equal(cudnnBackendFinalize(x), 0);
    int status = pointwise(CUDNN_POINTWISE_SQRT, x, NULL, y, &graph);
    Descriptor gone[] = {graph, x, y};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
    return status;
}

/* Tensors whose offsets would wrap, that have no room, or that nobody makes. */
static void test_tensors(void **state)
{
    (void)state;
    int64_t far[2] = {INT64_C(1) << 61, 1}, one = 1;
    int64_t tiles = CUDNN_TENSOR_REORDERING_F8_128x4;
    assert_int_equal(with(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one), 0);
    assert_int_equal(with(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2, far),
                     CUDNN_STATUS_BAD_PARAM);
    assert_non_null(strstr(emulator_said(), "size or stride that cannot be"));
    assert_int_equal(with(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &one),
                     CUDNN_STATUS_BAD_PARAM);
    assert_non_null(strstr(emulator_said(), "by value has more than one"));
    assert_int_equal(with(CUDNN_ATTR_TENSOR_REORDERING_MODE,
                          CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &tiles),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(with(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &one),
                     CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    assert_non_null(strstr(emulator_said(), "no operation before it makes"));
}

/* Captured once, launched twice. */
static void test_captured(void **state)
{
    (void)state;
    Descriptor graph, all[3] = {tensor(1, ROWS), tensor(2, 1), tensor(3, ROWS)};
    CUstream stream;
    CUgraph captured;
    CUgraphExec exec;
    assert_int_equal(add(all[0], all[1], all[2], &graph), 0);
    Descriptor plan = plan_of(graph);
    int64_t ids[3] = {1, 2, 3};
    void *addresses[3] = {(void *)(uintptr_t)memory[0], (void *)(uintptr_t)memory[1],
                          (void *)(uintptr_t)memory[2]};
    Descriptor pack = pack_of(3, ids, addresses);
    ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    assert_int_equal(cudnnSetStream(handle, stream), 0);
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
    ok(cuStreamEndCapture(stream, &captured));
    ok(cuGraphInstantiateWithFlags(&exec, captured, 0));
    for (int launch = 0; launch < 2; launch++) {
        float y[ELEMENTS];
        ok(cuMemsetD8Async(memory[2], 0, sizeof y, stream));
        ok(cuGraphLaunch(exec, stream));
        ok(cuMemcpyDtoHAsync_v2(y, memory[2], sizeof y, stream));
        ok(cuStreamSynchronize(stream));
        for (int i = 0; i < ELEMENTS; i++)
            assert_true(y[i] == (float)(i + 100 * (i % COLUMNS)));
    }
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(captured));
    assert_int_equal(cudnnSetStream(handle, NULL), 0);
    ok(cuStreamDestroy_v2(stream));
    Descriptor gone[] = {graph, all[0], all[1], all[2], plan, pack};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
}

/* The last test: what is found fails the context. */
static void test_address(void **state)
{
    (void)state;
    Descriptor graph, all[3] = {tensor(1, ROWS), tensor(2, 1), tensor(3, ROWS)};
    assert_int_equal(add(all[0], all[1], all[2], &graph), 0);
    Descriptor plan = plan_of(graph);
    int64_t ids[3] = {1, 2, 3};
    void *addresses[3] = {(void *)(uintptr_t)memory[0],
                          (void *)(uintptr_t)(memory[1] + 4),
                          (void *)(uintptr_t)memory[2]};
    Descriptor pack = pack_of(3, ids, addresses);
    int status = cudnnBackendExecute(handle, plan, pack);
    assert_true(status != 0 || cuCtxSynchronize() != 0);
    assert_non_null(strstr(emulator_said(), "tensor 2"));
    Descriptor gone[] = {graph, all[0], all[1], all[2], plan, pack};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cudnnBackendDestroyDescriptor(gone[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add),      cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_texts),    cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_kinds),    cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_captured), cmocka_unit_test(test_address)};
    return cmocka_run_group_tests(tests, start, NULL);
}
