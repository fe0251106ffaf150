/* Graphs of the emulator through the functions of cuda.def: what a capture keeps, in which order it
 * runs, what changes it, and what is refused. Fills and copies stand for all operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/emu/config.h"
#include "runtime/emu/steps.h"
#include "tests/unit/shared/emulator.h"

typedef struct Fixture {
    CUcontext context;
    CUstream a, b;
    CUevent fork, join;
    CUdeviceptr x, y; /* four bytes each */
} Fixture;

static int setup(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&f->context, 0));
    ok(cuCtxPushCurrent_v2(f->context));
    ok(cuStreamCreateWithPriority(&f->a, CU_STREAM_NON_BLOCKING, 0));
    ok(cuStreamCreateWithPriority(&f->b, CU_STREAM_NON_BLOCKING, 0));
    ok(cuEventCreate(&f->fork, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&f->join, CU_EVENT_DISABLE_TIMING));
    ok(cuMemAlloc_v2(&f->x, 4));
    ok(cuMemAlloc_v2(&f->y, 4));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    ok(cuMemFree_v2(f->x));
    ok(cuMemFree_v2(f->y));
    ok(cuEventDestroy_v2(f->fork));
    ok(cuEventDestroy_v2(f->join));
    ok(cuStreamDestroy_v2(f->a));
    ok(cuStreamDestroy_v2(f->b));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    free(f);
    return 0;
}

static uint32_t value_of(Fixture *f, CUdeviceptr at)
{
    uint32_t value = 0;
    ok(cuMemcpyDtoHAsync_v2(&value, at, sizeof value, f->a));
    ok(cuStreamSynchronize(f->a));
    return value;
}

static void begin(Fixture *f)
{
    ok(cuStreamBeginCapture_v2(f->a, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraphNode last_node(CUstream s)
{
    CUstreamCaptureStatus status = 0;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    ok(cuStreamGetCaptureInfo_v3(s, &status, NULL, NULL, &nodes, NULL, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(count, 1);
    return nodes[0];
}

static CUgraphNodeParams fill(CUdeviceptr at, unsigned value)
{
    return (CUgraphNodeParams){
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .memset = {.dst = at, .value = value, .elementSize = 4, .width = 1, .height = 1}};
}

/* x = 1 on a; y = 2 on b, after it; x = y on a, after that. */
static CUgraph capture_two(Fixture *f, CUgraphNode *fill_of_y)
{
    CUgraph graph;
    begin(f);
    ok(cuMemsetD32Async(f->x, 1, 1, f->a));
    ok(cuEventRecord(f->fork, f->a));
    ok(cuStreamWaitEvent(f->b, f->fork, 0));
    ok(cuMemsetD32Async(f->y, 2, 1, f->b));
    *fill_of_y = last_node(f->b);
    ok(cuEventRecord(f->join, f->b));
    ok(cuStreamWaitEvent(f->a, f->join, 0));
    ok(cuMemcpyDtoDAsync_v2(f->x, f->y, 4, f->a));
    ok(cuStreamEndCapture(f->a, &graph));
    assert_non_null(graph);
    return graph;
}

static void test_capture(void **state)
{
    Fixture *f = *state;
    CUgraphNode node;
    CUgraphExec exec;
    ok(cuMemsetD32Async(f->x, 7, 1, f->a));
    CUgraph graph = capture_two(f, &node);
    assert_int_equal(value_of(f, f->x), 7); /* nothing has run */
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, f->b));
    ok(cuStreamSynchronize(f->b));
    assert_int_equal(value_of(f, f->x), 2);
    CUgraphNodeParams params = fill(f->y, 5);
    ok(cuGraphExecNodeSetParams(exec, node, &params));
    ok(cuGraphDestroy(graph)); /* the executable one lives on */
    ok(cuGraphLaunch(exec, f->a));
    ok(cuGraphLaunch(exec, f->a));
    assert_int_equal(value_of(f, f->x), 5);
    ok(cuGraphExecDestroy(exec));
}

/* A launch that is queued keeps the parameters of its time. */
static void test_set_while_queued(void **state)
{
    Fixture *f = *state;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph = capture_two(f, &node);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, f->a));
    ok(cuMemcpyDtoDAsync_v2(f->y, f->x, 4, f->a));
    CUgraphNodeParams params = fill(f->y, 9);
    ok(cuGraphExecNodeSetParams(exec, node, &params));
    assert_int_equal(value_of(f, f->y), 2);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void test_wrong_params(void **state)
{
    Fixture *f = *state;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph = capture_two(f, &node);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUgraphNodeParams copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNodeParams outside = fill(f->y + 4, 1), odd = fill(f->y + 1, 1);
    CUgraphNodeParams long_one = fill(f->y, 1);
    long_one.memset.width = SIZE_MAX / 2;
    assert_int_equal(cuGraphExecNodeSetParams(exec, node, &copy),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_not_equal(cuGraphExecNodeSetParams(exec, node, &outside), CUDA_SUCCESS);
    assert_int_equal(cuGraphExecNodeSetParams(exec, node, &odd),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExecNodeSetParams(exec, node, &long_one),
                     CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

/* while (x) x = 0, and: if (y) y = 3. */
static void test_conditions(void **state)
{
    Fixture *f = *state;
    CUgraph graph = NULL, whole = NULL, body = NULL;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphConditionalHandle handles[2];
    CUstreamCaptureStatus status;
    begin(f);
    ok(cuStreamGetCaptureInfo_v3(f->a, &status, NULL, &graph, NULL, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        CUdeviceptr at = i == 0 ? f->x : f->y;
        ok(cuGraphConditionalHandleCreate(&handles[i], graph, f->context, 0, 0));
        ok(gxemuSetCondition(handles[i], at, 1, 0, 2, f->a));
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                               .conditional = {.handle = handles[i],
                                               .type = i == 0 ? CU_GRAPH_COND_TYPE_WHILE
                                                              : CU_GRAPH_COND_TYPE_IF,
                                               .size = 1,
                                               .ctx = f->context}};
        CUgraphNode before = last_node(f->a);
        ok(cuGraphAddNode_v2(&node, graph, &before, NULL, 1, &p));
        ok(cuStreamUpdateCaptureDependencies_v2(f->a, &node, NULL, 1,
                                                CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        ok(cuStreamBeginCaptureToGraph(f->b, p.conditional.phGraph_out[0], NULL, NULL, 0,
                                       CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(cuMemsetD32Async(at, i == 0 ? 0 : 3, 1, f->b));
        ok(gxemuSetCondition(handles[i], at, 1, 0, 2, f->b));
        ok(cuStreamEndCapture(f->b, &body));
        p.conditional.handle = handles[i]; /* a condition is for one node */
        assert_int_equal(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p),
                         CUDA_ERROR_INVALID_VALUE);
    }
    ok(cuStreamEndCapture(f->a, &whole));
    assert_ptr_equal(whole, graph);
    ok(cuGraphInstantiateWithFlags(&exec, whole, 0));
    ok(cuMemsetD32Async(f->x, 4, 1, f->a));
    ok(cuMemsetD32Async(f->y, 0, 1, f->a));
    ok(cuGraphLaunch(exec, f->a));
    assert_int_equal(value_of(f, f->x), 0);
    assert_int_equal(value_of(f, f->y), 0);
    ok(cuMemsetD32Async(f->y, 1, 1, f->a));
    ok(cuGraphLaunch(exec, f->a));
    assert_int_equal(value_of(f, f->y), 3);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(whole));
}

static void test_refused(void **state)
{
    Fixture *f = *state;
    CUgraph graph;
    assert_int_equal(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(f->a, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    ok(cuEventRecord(f->fork, f->b));
    begin(f);
    assert_int_equal(cuStreamBeginCapture_v2(f->a, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamSynchronize(f->a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamWaitEvent(f->a, f->fork, 0),
                     CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ok(cuMemsetD32Async(f->x, 1, 1, f->a));
    ok(cuEventRecord(f->fork, f->a));
    assert_int_equal(cuEventSynchronize(f->fork), CUDA_ERROR_CAPTURED_EVENT);
    ok(cuStreamWaitEvent(f->b, f->fork, 0));
    ok(cuMemsetD32Async(f->y, 1, 1, f->b));
    assert_int_equal(cuStreamEndCapture(f->a, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_null(graph);
    assert_int_equal(cuStreamWaitEvent(f->b, f->fork, 0), CUDA_ERROR_CAPTURED_EVENT);
    ok(cuMemsetD32Async(f->x, 6, 1, f->b)); /* neither stream is captured any more */
    ok(cuStreamSynchronize(f->b));
    assert_int_equal(value_of(f, f->x), 6);
}

/* A graph whose memory is gone says so instead of touching it. */
static void test_freed(void **state)
{
    Fixture *f = *state;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr x = f->x;
    ok(cuMemAlloc_v2(&f->x, 4));
    CUgraph graph = capture_two(f, &node);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuMemFree_v2(f->x));
    f->x = x;
    CUresult r = cuGraphLaunch(exec, f->a);
    r = r == CUDA_SUCCESS ? cuStreamSynchronize(f->a) : r;
    assert_int_not_equal(r, CUDA_SUCCESS);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
}

/* while (1); */
static void test_endless(void **state)
{
    Fixture *f = *state;
    CUgraph graph = NULL, body = NULL;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    CUstreamCaptureStatus status;
    begin(f);
    ok(cuStreamGetCaptureInfo_v3(f->a, &status, NULL, &graph, NULL, NULL, NULL));
    ok(cuGraphConditionalHandleCreate(&handle, graph, f->context, 0, 0));
    ok(gxemuSetCondition(handle, f->x, 1, 0, 2, f->a));
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                           .conditional = {.handle = handle,
                                           .type = CU_GRAPH_COND_TYPE_WHILE,
                                           .size = 1,
                                           .ctx = f->context}};
    CUgraphNode before = last_node(f->a);
    ok(cuGraphAddNode_v2(&node, graph, &before, NULL, 1, &p));
    ok(cuStreamUpdateCaptureDependencies_v2(f->a, &node, NULL, 1,
                                            CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    ok(cuStreamBeginCaptureToGraph(f->b, p.conditional.phGraph_out[0], NULL, NULL, 0,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuStreamEndCapture(f->b, &body));
    ok(cuStreamEndCapture(f->a, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuMemsetD32Async(f->x, 1, 1, f->a));
    ok(cuStreamSynchronize(f->a));
    uint64_t most = emu_config()->steps;
    emu_config()->steps = steps_taken() + 1000;
    CUresult r = cuGraphLaunch(exec, f->a);
    EXPECT(r == CUDA_SUCCESS ? cuStreamSynchronize(f->a) : r, CUDA_ERROR_LAUNCH_FAILED,
           "a loop of a graph: it would be more than the");
    emu_config()->steps = most;
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
}

/* The context has failed: nothing is left that could be checked. */
static int teardown_failed(void **state)
{
    Fixture *f = *state;
    cuMemFree_v2(f->x);
    cuMemFree_v2(f->y);
    cuEventDestroy_v2(f->fork);
    cuEventDestroy_v2(f->join);
    cuStreamDestroy_v2(f->a);
    cuStreamDestroy_v2(f->b);
    cuCtxPopCurrent_v2(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    free(f);
    return 0;
}

int main(void)
{
#define GRAPH_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        GRAPH_TEST(test_capture),
        GRAPH_TEST(test_set_while_queued),
        GRAPH_TEST(test_wrong_params),
        GRAPH_TEST(test_conditions),
        GRAPH_TEST(test_refused),
        cmocka_unit_test_setup_teardown(test_freed, setup, teardown_failed),
        cmocka_unit_test_setup_teardown(test_endless, setup, teardown_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
