/* The driver's graphs: captured work, conditions, changed nodes, launches. */
#include <string.h>

#include "tests/fuzz/emulator/told.h"

enum { STEPS = 6 };

typedef struct Capture {
    CUgraph graph;
    CUgraphNode nodes[STEPS]; /* after each step the last one of the stream */
    CUgraphExec exec;
    CUstream others[STEPS], other; /* one for each step, the one of this step */
    CUevent fork, join;
} Capture;

static CUgraphNode last_node(CUstream s, CUgraph *graph)
{
    CUstreamCaptureStatus status = 0;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    cuuint64_t id = 0;
    DONE(cuStreamGetCaptureInfo_v3(s, told(1) ? &status : NULL, &id, graph, &nodes, NULL,
                                   &count));
    return count != 0 && nodes != NULL ? nodes[0] : NULL;
}

static CUgraphNodeParams fill_params(const Told *t, CUcontext context)
{
    CUgraphNodeParams p = {.type = (int)told(CU_GRAPH_NODE_TYPE_MEMSET)};
    p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = told_address(t->memory),
                                            .value = 3,
                                            .elementSize = (unsigned)told(4),
                                            .width = (size_t)told(2),
                                            .height = (size_t)told(1),
                                            .pitch = (size_t)told(0),
                                            .ctx = context};
    return p;
}

static CUgraphNodeParams copy_params(const Told *t)
{
    CUgraphNodeParams p = {.type = (int)told(CU_GRAPH_NODE_TYPE_MEMCPY)};
    p.memcpy.copyCtx = t->context;
    p.memcpy.copyParams =
        (CUDA_MEMCPY3D){.srcMemoryType = (int)told(CU_MEMORYTYPE_DEVICE),
                        .srcDevice = told_address(t->memory),
                        .dstMemoryType = (int)told(CU_MEMORYTYPE_DEVICE),
                        .dstDevice = told_address(t->memory + 8192),
                        .srcXInBytes = (size_t)told(0),
                        .WidthInBytes = (size_t)told(64),
                        .Height = (size_t)told(1),
                        .Depth = (size_t)told(1)};
    return p;
}

/* What follows in the stream follows the node. */
static void go_on(const Told *t, CUgraph graph, CUgraphNodeParams *p)
{
    CUstreamCaptureStatus status = 0;
    CUgraphNode node = NULL;
    const CUgraphNode *before = NULL;
    size_t count = 0;
    DONE(
        cuStreamGetCaptureInfo_v3(t->stream, &status, NULL, NULL, &before, NULL, &count));
    count = told(1) ? count : 0;
    if (DONE(cuGraphAddNode_v2(told(1) ? &node : NULL, graph, before, NULL, count, p)))
        DONE(cuStreamUpdateCaptureDependencies_v2(
            t->stream, &node, NULL, (size_t)told(1) % 2,
            (unsigned)told(CU_STREAM_SET_CAPTURE_DEPENDENCIES)));
}

/* A body that runs while, or if, the first byte of the memory says so. */
static void add_condition(const Told *t, Capture *c)
{
    CUgraphConditionalHandle handle = 0;
    CUgraph graph = NULL, body = NULL;
    bool is_loop = told_choice(2);
    last_node(t->stream, &graph);
    DONE(cuMemsetD32Async(t->memory, 0, 1, t->stream));
    if (!DONE(cuGraphConditionalHandleCreate(told(1) ? &handle : NULL,
                                             told(1) ? graph : NULL, t->context,
                                             (unsigned)told(0), (unsigned)told(0))))
        return;
    DONE(gxemuSetCondition(handle, told_address(t->memory), (size_t)told(is_loop ? 1 : 4),
                           (int)told(0), (int)told(2), t->stream));
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    p.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
        .handle = (CUgraphConditionalHandle)told((int64_t)handle),
        .type = (int)told(is_loop ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF),
        .size = (unsigned)told(1),
        .ctx = t->context};
    go_on(t, graph, &p);
    if (p.conditional.phGraph_out == NULL ||
        !DONE(cuStreamBeginCaptureToGraph(c->other, p.conditional.phGraph_out[0], NULL,
                                          NULL, 0,
                                          (int)told(CU_STREAM_CAPTURE_MODE_RELAXED))))
        return;
    DONE(cuMemsetD8Async(t->memory, 1, 4, c->other));
    DONE(gxemuSetCondition(handle, t->memory, 1, 0, 2, c->other));
    DONE(cuStreamEndCapture(c->other, told(1) ? &body : NULL));
}

/* A graph within the graph. */
static void add_graph(const Told *t, Capture *c)
{
    CUgraph graph = NULL, inner = NULL;
    if (!DONE(cuStreamBeginCapture_v2(c->other, CU_STREAM_CAPTURE_MODE_RELAXED)))
        return;
    DONE(cuMemsetD8Async(t->memory + 256, 1, 4, c->other));
    if (!DONE(cuStreamEndCapture(c->other, &inner)))
        return;
    last_node(t->stream, &graph);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    p.graph = (CUDA_CHILD_GRAPH_NODE_PARAMS){told(1) ? inner : graph, (int)told(0)};
    go_on(t, graph, &p);
    DONE(cuGraphDestroy(inner));
}

static void add_step(const Told *t, Capture *c, unsigned what)
{
    switch (what) {
    case 0:
        DONE(cuMemsetD32Async(t->memory + 64, 1, (size_t)told(4), t->stream));
        break;
    case 1:
        DONE(cuMemcpyDtoDAsync_v2(t->memory + 4096, t->memory, (size_t)told(64),
                                  t->stream));
        break;
    case 2: /* another stream beside it */
        DONE(cuEventRecord(c->fork, t->stream));
        DONE(cuStreamWaitEvent(c->other, c->fork, 0));
        DONE(cuMemsetD8Async(t->memory + 128, 1, 4, c->other));
        if (told(1) != 0) {
            DONE(cuEventRecord(c->join, c->other));
            DONE(cuStreamWaitEvent(t->stream, c->join, 0));
        }
        break;
    case 3:
        add_condition(t, c);
        break;
    case 4:
        add_graph(t, c);
        break;
    default: /* what cannot be captured */
        if (told(0))
            cuStreamSynchronize(t->stream);
        if (told(0))
            cuEventQuery(c->fork);
        if (told(0))
            cuMemFree_v2(t->memory);
    }
}

static void run(const Told *t, Capture *c)
{
    if (!DONE(cuGraphInstantiateWithFlags(told(1) ? &c->exec : NULL,
                                          told(1) ? c->graph : NULL,
                                          (unsigned long long)told(0))))
        return;
    DONE(cuGraphLaunch(told(1) ? c->exec : NULL, t->stream));
    for (int i = 0; i < STEPS; i++) {
        int what = (int)told(0);
        if (what == 0 || c->nodes[i] == NULL)
            continue;
        CUgraphNodeParams p = what % 2 ? fill_params(t, t->context) : copy_params(t);
        DONE(cuGraphExecNodeSetParams(told(1) ? c->exec : NULL, c->nodes[i],
                                      told(1) ? &p : NULL));
    }
    DONE(cuGraphLaunch(c->exec, told(1) ? t->stream : c->other));
    DONE(cuStreamSynchronize(t->stream));
}

void tell_captures(const Told *t)
{
    Capture c = {0};
    for (int i = 0; i < STEPS; i++)
        DONE(cuStreamCreateWithPriority(&c.others[i], CU_STREAM_NON_BLOCKING, 0));
    DONE(cuEventCreate(&c.fork, CU_EVENT_DISABLE_TIMING));
    DONE(cuEventCreate(&c.join, CU_EVENT_DISABLE_TIMING));
    if (c.fork != NULL && c.join != NULL &&
        DONE(cuStreamBeginCapture_v2(t->stream,
                                     (int)told(CU_STREAM_CAPTURE_MODE_RELAXED)))) {
        for (int i = 0; i < STEPS; i++) {
            c.other = c.others[i];
            add_step(t, &c, told_choice(6));
            c.nodes[i] = last_node(t->stream, NULL);
        }
        if (DONE(cuStreamEndCapture(t->stream, told(1) ? &c.graph : NULL)) &&
            c.graph != NULL)
            run(t, &c);
    }
    told_calm();
    if (c.exec != NULL)
        DONE(cuGraphExecDestroy(c.exec));
    if (c.graph != NULL)
        DONE(cuGraphDestroy(c.graph));
    if (c.fork != NULL)
        DONE(cuEventDestroy_v2(c.fork));
    if (c.join != NULL)
        DONE(cuEventDestroy_v2(c.join));
    for (int i = 0; i < STEPS; i++) {
        if (c.others[i] != NULL)
            DONE(cuStreamDestroy_v2(c.others[i]));
    }
}
