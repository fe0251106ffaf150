/* What the emulated driver refuses, function by function, as a driver does; and graphs within graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/shared/emulator.h"

static CUcontext context;
static CUstream stream;
static CUdeviceptr memory; /* 64 bytes */

static int setup(void **state)
{
    (void)state;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxPushCurrent_v2(context));
    ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    ok(cuMemAlloc_v2(&memory, 64));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ok(cuMemFree_v2(memory));
    ok(cuStreamDestroy_v2(stream));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

#define REFUSED(call, code, words) EXPECT(call, CUDA_ERROR_##code, words)

static void test_memory(void **state)
{
    (void)state;
    CUdeviceptr p = 0;
    size_t bytes = 0, total = 0;
    int device = -1;
    REFUSED(cuMemAlloc_v2(&p, 0), INVALID_VALUE, "an allocation of 0 bytes");
    REFUSED(cuMemAlloc_v2(NULL, 4), INVALID_VALUE, NULL);
    REFUSED(cuMemHostAlloc(NULL, 4, 0), INVALID_VALUE, NULL);
    REFUSED(cuMemAlloc_v2(&p, SIZE_MAX / 2), OUT_OF_MEMORY, NULL);
    REFUSED(cuMemFree_v2(memory + 4), INVALID_VALUE, NULL);
    REFUSED(cuMemGetInfo_v2(NULL, &total), INVALID_VALUE, NULL);
    ok(cuMemGetInfo_v2(&bytes, &total));
    assert_true(bytes <= total && total - bytes >= 64);
    size_t before = bytes;
    ok(cuMemAlloc_v2(&p, 4096));
    ok(cuMemGetInfo_v2(&bytes, &total));
    assert_int_equal(before - bytes, 4096);
    ok(cuMemFree_v2(p));
    REFUSED(cuPointerGetAttribute(&device, 1, memory), INVALID_VALUE,
            "does not know pointer attribute 1");
    REFUSED(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 16),
            INVALID_VALUE, "the pointer");
    ok(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    assert_int_equal(device, 0);
}

static void test_copies(void **state)
{
    (void)state;
    uint16_t got[4] = {0};
    char host[64] = "";
    REFUSED(cuMemsetD32Async(memory + 2, 1, 1, stream), INVALID_VALUE, "is not aligned");
    REFUSED(cuMemsetD16Async(memory + 1, 1, 1, stream), INVALID_VALUE, "is not aligned");
    REFUSED(cuMemsetD8Async(memory, 1, 65, stream), ILLEGAL_ADDRESS, "a fill");
    REFUSED(cuMemcpyHtoDAsync_v2(memory, host, 65, stream), ILLEGAL_ADDRESS, NULL);
    REFUSED(cuMemcpyDtoHAsync_v2(host, memory + 60, 8, stream), ILLEGAL_ADDRESS, NULL);
    REFUSED(cuMemcpyDtoDAsync_v2(memory, 16, 8, stream), ILLEGAL_ADDRESS,
            "source of a copy");
    REFUSED(cuMemcpyDtoDAsync_v2(16, memory, 8, stream), ILLEGAL_ADDRESS,
            "target of a copy");
    ok(cuMemsetD16Async(memory, 0x1234, 3, stream));
    ok(cuMemsetD16Async(memory + 6, 7, 1, stream));
    ok(cuMemcpyDtoHAsync_v2(got, memory, sizeof got, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(got[0], 0x1234);
    assert_int_equal(got[2], 0x1234);
    assert_int_equal(got[3], 7);
}

static void test_modules(void **state)
{
    (void)state;
    CUmodule module = (CUmodule)&module;
    CUfunction function;
    const char image[16] = "no object";
    GxemuKernel kernel = {.name = "k"};
    REFUSED(cuModuleLoadData(&module, image), INVALID_IMAGE, "runs host objects");
    assert_null(module);
    REFUSED(cuModuleLoadDataEx(&module, image, 0, NULL, NULL), INVALID_IMAGE,
            "runs host objects");
    REFUSED(gxemuModuleLoad(NULL, image, sizeof image, &kernel, 1), INVALID_VALUE, NULL);
    REFUSED(gxemuModuleLoad(&module, image, sizeof image, NULL, 1), INVALID_VALUE, NULL);
    REFUSED(gxemuModuleLoad(&module, image, sizeof image, &kernel, 1), INVALID_IMAGE,
            "cannot be loaded");
    REFUSED(cuModuleUnload(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuModuleGetFunction(&function, NULL, "k"), INVALID_VALUE, NULL);
    REFUSED(cuFuncSetAttribute(NULL, 0, 0), INVALID_HANDLE, NULL);
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1};
    void *extra[1] = {NULL};
    REFUSED(cuLaunchKernelEx(&config, NULL, NULL, extra), INVALID_VALUE,
            "`extra` is not supported");
    REFUSED(cuLaunchKernelEx(&config, NULL, NULL, NULL), INVALID_VALUE,
            "an argument is NULL");
}

static void test_streams_events(void **state)
{
    (void)state;
    CUstream other;
    CUevent event;
    float time = 0;
    CUstream wild = (CUstream)(uintptr_t)&other;
    REFUSED(cuStreamCreateWithPriority(NULL, 0, 0), INVALID_VALUE, "flags");
    REFUSED(cuStreamCreateWithPriority(&other, 64, 0), INVALID_VALUE, "flags 0x40");
    REFUSED(cuStreamDestroy_v2(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuStreamDestroy_v2(wild), INVALID_HANDLE, NULL);
    REFUSED(cuStreamQuery(wild), INVALID_HANDLE, NULL);
    REFUSED(cuStreamSynchronize(wild), INVALID_HANDLE, NULL);
    REFUSED(cuMemsetD8Async(memory, 0, 1, wild), INVALID_HANDLE,
            "not one of this context");
    REFUSED(cuEventCreate(NULL, 0), INVALID_VALUE, NULL);
    REFUSED(cuEventRecord(NULL, stream), INVALID_HANDLE, NULL);
    REFUSED(cuEventQuery(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuEventSynchronize(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuEventDestroy_v2(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuStreamWaitEvent(stream, NULL, 0), INVALID_HANDLE, NULL);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    REFUSED(cuEventElapsedTime(&time, event, event), INVALID_HANDLE, NULL);
    ok(cuEventDestroy_v2(event));
    CUstreamCaptureMode mode = 77;
    REFUSED(cuThreadExchangeStreamCaptureMode(&mode), INVALID_VALUE, NULL);
}

static CUgraphNodeParams child_of(CUgraph graph)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_GRAPH,
                               .graph = {.graph = graph}};
}

/* A graph that fills four bytes with this value. */
static CUgraph filling(unsigned value)
{
    CUgraph graph;
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemsetD32Async(memory, value, 1, stream));
    ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

static uint32_t launched(CUgraphExec exec)
{
    uint32_t got = 0;
    ok(cuGraphLaunch(exec, stream));
    ok(cuMemcpyDtoHAsync_v2(&got, memory, 4, stream));
    ok(cuStreamSynchronize(stream));
    return got;
}

static CUgraph empty_graph(void)
{
    CUgraph graph;
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

/* A node that is a whole graph runs it, and becomes another one; the graph that was given may go. */
static void test_child(void **state)
{
    (void)state;
    CUgraph outer = empty_graph(), first = filling(5), second = filling(9);
    CUgraphNode node, other;
    CUgraphExec exec;
    CUgraphNodeParams p = child_of(first), self = child_of(outer), none = child_of(NULL);
    REFUSED(cuGraphAddNode_v2(&node, outer, NULL, NULL, 0, &self), INVALID_VALUE,
            "a child graph is a whole graph");
    REFUSED(cuGraphAddNode_v2(&node, outer, NULL, NULL, 0, &none), INVALID_VALUE,
            "a child graph is a whole graph");
    REFUSED(cuGraphAddNode_v2(&node, outer, NULL, NULL, 1, &p), INVALID_VALUE,
            "an argument");
    ok(cuGraphAddNode_v2(&node, outer, NULL, NULL, 0, &p));
    CUgraphNodeParams fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                              .memset = {.dst = memory, .elementSize = 4}};
    REFUSED(cuGraphAddNode_v2(&other, outer, &node, NULL, 1, &fill), NOT_SUPPORTED,
            "capture them");
    REFUSED(cuGraphAddNode_v2(&other, second, &node, NULL, 1, &p), INVALID_VALUE,
            "a node of another graph");
    ok(cuGraphInstantiateWithFlags(&exec, outer, 0));
    ok(cuGraphDestroy(first));
    assert_int_equal(launched(exec), 5);
    p = child_of(second);
    ok(cuGraphExecNodeSetParams(exec, node, &p));
    ok(cuGraphDestroy(second));
    assert_int_equal(launched(exec), 9);
    p = child_of(outer);
    p.graph.graph = NULL;
    REFUSED(cuGraphExecNodeSetParams(exec, node, &p), GRAPH_EXEC_UPDATE_FAILURE,
            "a child graph becomes one of other nodes");
    REFUSED(cuGraphExecNodeSetParams(exec, NULL, &p), INVALID_VALUE, "no node");
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(outer));
}

static void test_graphs(void **state)
{
    (void)state;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    REFUSED(cuGraphInstantiateWithFlags(&exec, NULL, 0), INVALID_VALUE, NULL);
    REFUSED(cuGraphLaunch(NULL, stream), INVALID_VALUE, "no graph of this context");
    REFUSED(cuGraphDestroy(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuGraphExecDestroy(NULL), INVALID_HANDLE, NULL);
    REFUSED(cuGraphConditionalHandleCreate(&handle, NULL, context, 0, 0), INVALID_VALUE,
            "no graph of this context");
    CUgraph graph = empty_graph();
    REFUSED(cuGraphConditionalHandleCreate(&handle, graph, context, 0, 8), INVALID_VALUE,
            "or flags");
    REFUSED(gxemuSetCondition(12345, memory, 1, 0, 2, stream), INVALID_VALUE,
            "no condition");
    CUgraphNode node;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                           .conditional = {.handle = 12345, .size = 1, .ctx = context}};
    REFUSED(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p), INVALID_VALUE,
            "needs a condition of its own");
    ok(cuGraphDestroy(graph));
}

static void test_contexts(void **state)
{
    (void)state;
    CUcontext other;
    CUdevice device;
    int number;
    REFUSED(cuDeviceGet(&device, 99), INVALID_DEVICE, NULL);
    size_t bytes = 0, free_bytes, total;
    ok(cuDeviceTotalMem_v2(&bytes, 0));
    ok(cuMemGetInfo_v2(&free_bytes, &total));
    assert_true(bytes == total);
    REFUSED(cuDevicePrimaryCtxRetain(&other, 99), INVALID_DEVICE, NULL);
    REFUSED(cuDevicePrimaryCtxRelease_v2(99), INVALID_DEVICE, NULL);
    ok(cuDriverGetVersion(&number));
    assert_int_equal(number, 13000);
    REFUSED(cuDriverGetVersion(NULL), INVALID_VALUE, NULL);
    ok(cuCtxPopCurrent_v2(NULL));
    REFUSED(cuCtxSynchronize(), INVALID_CONTEXT, NULL);
    REFUSED(cuMemsetD8Async(memory, 0, 1, NULL), INVALID_CONTEXT, NULL);
    REFUSED(cuCtxPopCurrent_v2(&other), INVALID_CONTEXT, NULL);
    ok(cuCtxPushCurrent_v2(context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_copies),
        cmocka_unit_test(test_modules),  cmocka_unit_test(test_streams_events),
        cmocka_unit_test(test_child),    cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_contexts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
