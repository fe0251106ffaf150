/* Executions as one launch of a CUDA graph. The second execution records it: the walk of
 * execute.c queues to streams that are captured. Later ones launch it; if buffers have moved,
 * another walk sets the addresses of the nodes that they are in. Whatever the driver refuses,
 * the plain walk does: graphs only save time. */
#include "runtime/run/capture.h"

#include <stdlib.h>
#include <string.h>

CUresult capture_end_of(const Device *d, CUstream stream, CaptureEnd *out)
{
    CUstreamCaptureStatus status = 0;
    *out = (CaptureEnd){.graph = NULL};
    CUresult r = d->session->cuda->capture_info(stream, &status, NULL, &out->graph,
                                                &out->nodes, NULL, &out->count);
    if (r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    return r;
}

CUresult capture_add(const Device *d, CUstream stream, CUgraphNodeParams *params,
                     CUgraphNode *out)
{
    const CudaApi *cuda = d->session->cuda;
    CaptureEnd end;
    CUresult r = capture_end_of(d, stream, &end);
    if (r == CUDA_SUCCESS) {
        r = cuda->graph_add(out, end.graph, end.nodes, NULL, end.count, params);
    }
    if (r == CUDA_SUCCESS) {
        r = cuda->capture_update(stream, out, NULL, 1,
                                 CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    }
    return r;
}

bool capture_has_moved(const Device *d, const PlanCommand *c)
{
    const Plan *p = d->session->plan;
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        if (a->tag == PLAN_ARG_SLICE) {
            uint32_t in = p->slices[a->index].allocation;
            if (d->capture->base[in] != d->base[in]) {
                return true;
            }
        }
    }
    return false;
}

/* --- recording ---------------------------------------------------------------------------- */

/* Column `node` of commands.def: the parameters of the command's node, with the buffers of this execution.
 * *works: whether it has something to do. A library's call becomes a child graph, which the caller destroys:
 * which nodes it has is the library's affair. */
typedef gxrt_status NodeFn(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                           bool *works);
static NodeFn node_none, node_launch, node_copy, node_fill, node_child;

static NodeFn *const node_of[PLAN_COMMAND_KINDS] = {
#define COMMAND(id, name, counts, read, print, subject, order, refusal, node, run)       \
    [PLAN_##id] = node_##node,
#include "runtime/plan/commands.def"
};

static bool is_library_call(const PlanCommand *c)
{
    return node_of[c->kind] == node_child;
}

/* *child: the nodes of c by themselves. */
static gxrt_status record_call(Device *d, const PlanCommand *c, CUgraph *child)
{
    const CudaApi *cuda = d->session->cuda;
    CUstream side = d->capture->side;
    *child = NULL;
    CUresult r = cuda->capture_begin(side, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (r != CUDA_SUCCESS) {
        return command_error(d, c, "cuStreamBeginCapture", r);
    }
    gxrt_status st = run_command(d, c, side);
    r = cuda->capture_end(side, child);
    return st != GXRT_OK || r == CUDA_SUCCESS
               ? st
               : command_error(d, c, "cuStreamEndCapture", r);
}

CUgraphNodeParams capture_params(int type)
{
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = type;
    return params;
}

static CUgraphNodeParams child_params(CUgraph child)
{
    CUgraphNodeParams params = capture_params(CU_GRAPH_NODE_TYPE_GRAPH);
    params.graph.graph = child;
    return params;
}

static gxrt_status record_library(Device *d, const PlanCommand *c, CUstream stream,
                                  CUgraphNode *out)
{
    CUgraph child;
    gxrt_status st = record_call(d, c, &child);
    if (st == GXRT_OK) {
        CUgraphNodeParams params = child_params(child);
        CUresult r = capture_add(d, stream, &params, out);
        st = r == CUDA_SUCCESS ? st : command_error(d, c, "cuGraphAddNode", r);
    }
    if (child) {
        d->session->cuda->graph_destroy(child); /* the node has a copy */
    }
    return st;
}

/* *out: the last node of the stream if there is one and no other, else NULL. */
static gxrt_status last_node(Device *d, const PlanCommand *c, CUgraphNode *out)
{
    CaptureEnd end;
    CUresult r = capture_end_of(d, d->streams[c->stream], &end);
    *out = r == CUDA_SUCCESS && end.count == 1 ? end.nodes[0] : NULL;
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuStreamGetCaptureInfo", r);
}

static gxrt_status keep_node(Device *d, CUgraphNode node)
{
    Capture *k = d->capture;
    if (k->node_count == k->node_capacity) {
        size_t capacity = k->node_capacity ? 2 * k->node_capacity : 64;
        CUgraphNode *larger = realloc(k->nodes, capacity * sizeof *larger);
        if (!larger) {
            return status_set(GXRT_OUT_OF_MEMORY, "no memory for a graph");
        }
        k->nodes = larger;
        k->node_capacity = capacity;
    }
    k->nodes[k->node_count++] = node;
    return GXRT_OK;
}

static gxrt_status record_leaf(Device *d, const PlanCommand *c)
{
    CUstream stream = d->streams[c->stream];
    CUgraphNode before = NULL, node = NULL;
    gxrt_status st;
    if (is_library_call(c)) {
        st = record_library(d, c, stream, &node);
    } else {
        st = last_node(d, c, &before);
        st = st == GXRT_OK ? run_command(d, c, stream) : st;
        st = st == GXRT_OK ? last_node(d, c, &node) : st;
        node = node == before ? NULL : node;
    }
    return st == GXRT_OK && plan_command_works(c->kind) ? keep_node(d, node) : st;
}

/* --- updating ----------------------------------------------------------------------------- */

static gxrt_status node_none(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                             bool *works)
{
    (void)d;
    (void)c;
    (void)out;
    *works = false;
    return GXRT_OK;
}

static gxrt_status node_child(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                              bool *works)
{
    CUgraph child;
    gxrt_status st = record_call(d, c, &child);
    *out = child_params(child);
    *works = true;
    return st;
}

static gxrt_status node_launch(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                               bool *works)
{
    const CUlaunchConfig *l = launch_prepare(d, c);
    *out = capture_params(CU_GRAPH_NODE_TYPE_KERNEL);
    out->kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = d->functions[c->index],
                                               .gridDimX = l->gridDimX,
                                               .gridDimY = l->gridDimY,
                                               .gridDimZ = l->gridDimZ,
                                               .blockDimX = l->blockDimX,
                                               .blockDimY = l->blockDimY,
                                               .blockDimZ = l->blockDimZ,
                                               .sharedMemBytes = l->sharedMemBytes,
                                               .kernelParams = d->parameters + c->args,
                                               .ctx = d->context};
    *works = true;
    return GXRT_OK;
}

static gxrt_status node_copy(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                             bool *works)
{
    const Plan *p = d->session->plan;
    const PlanArg *args = p->args + c->args;
    int type = is_device_copy(p, c) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
    CUDA_MEMCPY3D m = {.srcMemoryType = type,
                       .srcDevice = slice_address(d, args[1].index),
                       .dstMemoryType = type,
                       .dstDevice = slice_address(d, args[0].index),
                       .WidthInBytes = p->slices[args[0].index].bytes,
                       .Height = 1,
                       .Depth = 1};
    if (m.srcDevice == m.dstDevice) {
        m.WidthInBytes = 0;
    }
    *out = capture_params(CU_GRAPH_NODE_TYPE_MEMCPY);
    out->memcpy = (CUDA_MEMCPY_NODE_PARAMS){.copyCtx = d->context, .copyParams = m};
    *works = m.WidthInBytes != 0;
    return GXRT_OK;
}

static gxrt_status node_fill(Device *d, const PlanCommand *c, CUgraphNodeParams *out,
                             bool *works)
{
    const Plan *p = d->session->plan;
    const PlanArg *args = p->args + c->args;
    *out = capture_params(CU_GRAPH_NODE_TYPE_MEMSET);
    out->memset =
        (CUDA_MEMSET_NODE_PARAMS_v2){.dst = slice_address(d, args[0].index),
                                     .value = fill_pattern(d, &args[1]),
                                     .elementSize = c->count,
                                     .width = p->slices[args[0].index].bytes / c->count,
                                     .height = 1,
                                     .ctx = d->context};
    *works = out->memset.width != 0;
    return GXRT_OK;
}

static gxrt_status update_leaf(Device *d, const PlanCommand *c)
{
    Capture *k = d->capture;
    CUgraphNodeParams params;
    if (!plan_command_works(c->kind)) {
        return GXRT_OK;
    }
    CUgraphNode node = k->nodes[k->next++];
    if (!capture_has_moved(d, c)) {
        return GXRT_OK;
    }
    bool works;
    gxrt_status st = node_of[c->kind](d, c, &params, &works);
    CUresult r = CUDA_SUCCESS;
    if (st == GXRT_OK && works != (node != NULL)) {
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    } else if (st == GXRT_OK && node) {
        r = d->session->cuda->exec_set(k->exec, node, &params);
    }
    if (is_library_call(c) && params.graph.graph) {
        d->session->cuda->graph_destroy(params.graph.graph);
    }
    return r == CUDA_SUCCESS ? st : command_error(d, c, "cuGraphExecNodeSetParams", r);
}

gxrt_status capture_leaf(Device *d, const PlanCommand *c)
{
    return d->phase == CAPTURE_UPDATES ? update_leaf(d, c) : record_leaf(d, c);
}

gxrt_status capture_step(Device *d, const PlanCommand *c, Frame *f)
{
    const Plan *p = d->session->plan;
    bool decides =
        plan_regions(c) == PLAN_REGIONS_BRANCHES ||
        (plan_regions(c) == PLAN_REGIONS_LOOP && p->loops[c->index].trip_count < 0);
    return decides ? condition_step(d, c, f) : step_command(d, c, f);
}

/* --- one execution ------------------------------------------------------------------------ */

static void discard(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    Capture *k = d->capture;
    if (k->exec) {
        cuda->exec_destroy(k->exec);
    }
    if (k->graph) {
        cuda->graph_destroy(k->graph);
    }
    k->exec = NULL;
    k->graph = NULL;
    k->node_count = 0;
}

/* From now on the device walks its plan. */
static void refuse(Device *d, const char *why)
{
    session_log(d->session, 1, "device %u runs without a graph: %s", d->number, why);
    discard(d);
    d->capture->is_refused = true;
}

/* Signals of a capture cannot be waited for outside it, nor those of before in it: a walk that
 * leaves out a branch would wait for what that branch gave last. All streams start behind them. */
static void forget_signals(Device *d)
{
    for (uint32_t i = 0; i < d->session->plan->info->signal_count; i++) {
        d->signal_stream[i] = PLAN_NONE;
    }
}

static void enter_phase(Device *d, CapturePhase phase)
{
    Capture *k = d->capture;
    forget_signals(d);
    d->phase = phase;
    k->next = 0;
    k->depth = 0;
    k->handle_count = 0;
}

static void keep_base(Device *d)
{
    Capture *k = d->capture;
    memcpy(k->base, d->base, d->session->plan->allocations_count * sizeof *k->base);
    k->is_stale = false;
}

static gxrt_status record_walk(Device *d)
{
    Capture *k = d->capture;
    const CudaApi *cuda = d->session->cuda;
    CUresult r = cuda->capture_begin(k->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (r != CUDA_SUCCESS) {
        return device_error(d, "cuStreamBeginCapture", r, "making a graph");
    }
    gxrt_status st = fork_streams(d, 0);
    st = st == GXRT_OK ? walk_run(d) : st;
    condition_abandon(d);
    st = st == GXRT_OK ? join_streams(d, 0) : st;
    r = cuda->capture_end(k->stream, &k->graph);
    const char *call = "cuStreamEndCapture";
    if (st == GXRT_OK && r == CUDA_SUCCESS) {
        call = "cuGraphInstantiate";
        r = cuda->graph_instantiate(&k->exec, k->graph, 0);
    }
    return st != GXRT_OK || r == CUDA_SUCCESS
               ? st
               : device_error(d, call, r, "making a graph");
}

static gxrt_status record(Device *d)
{
    Capture *k = d->capture;
    uint32_t count = d->session->plan->streams_count;
    discard(d);
    memcpy(k->streams, d->streams, count * sizeof *k->streams);
    for (uint32_t i = 0; i < count; i++) {
        d->streams[i] = i == 0 || d->is_lacking[i] ? k->stream : d->streams[i];
    }
    enter_phase(d, CAPTURE_RECORDS);
    gxrt_status st = record_walk(d);
    enter_phase(d, CAPTURE_OFF);
    memcpy(d->streams, k->streams, count * sizeof *k->streams);
    keep_base(d);
    return st;
}

static gxrt_status update(Device *d)
{
    enter_phase(d, CAPTURE_UPDATES);
    gxrt_status st = walk_run(d);
    enter_phase(d, CAPTURE_OFF);
    keep_base(d);
    return st;
}

/* The driver may lack memory for a graph that it has made; what has failed before stays failed. */
static gxrt_status launch_graph(Device *d, bool *done)
{
    const CudaApi *cuda = d->session->cuda;
    Capture *k = d->capture;
    CUresult r = cuda->exec_launch(k->exec, d->streams[0]);
    *done = r == CUDA_SUCCESS;
    if (*done) {
        return GXRT_OK;
    }
    CUresult stream = cuda->stream_query(d->streams[0]);
    if (stream != CUDA_SUCCESS && stream != CUDA_ERROR_NOT_READY) {
        return device_error(d, "cuGraphLaunch", r, "gxrt_execute");
    }
    refuse(d, "cuGraphLaunch fails");
    return GXRT_OK;
}

gxrt_status capture_execute(Device *d, bool moved, bool *done)
{
    Capture *k = d->capture;
    *done = false;
    k->is_stale |= moved;
    if (k->is_refused || d->executions == 0 || d->profiling) {
        return GXRT_OK; /* the first execution loads what a capture could not */
    }
    if (k->exec && k->is_stale && update(d) != GXRT_OK) {
        discard(d);
    }
    if (!k->exec && record(d) != GXRT_OK) {
        refuse(d, gxrt_last_error());
        return GXRT_OK;
    }
    return launch_graph(d, done);
}

/* --- a session's ------------------------------------------------------------------------------ */

static bool make_tables(Device *d)
{
    const Plan *p = d->session->plan;
    Capture *k = d->capture = calloc(1, sizeof *k);
    if (!k) {
        return false;
    }
    k->streams = calloc(p->streams_count, sizeof *k->streams);
    k->base = calloc((size_t)p->allocations_count + 1, sizeof *k->base);
    return k->streams && k->base;
}

static bool has_graphs(const CudaApi *cuda)
{
    return true
#define CUDA_GRAPH_FUNCTION(name, symbol, parameters) &&cuda->name
#include "runtime/library/cuda.def"
        ;
}

gxrt_status capture_create(Device *d)
{
    const gxrt_session *s = d->session;
    PlanCapture able = plan_capture(s->plan);
    if (!s->options.graphs) {
        return GXRT_OK;
    }
    if (!has_graphs(s->cuda) || able.refused) {
        session_log(s, 0, "device %u runs without a graph: %s", d->number,
                    able.refused ? able.refused : "the driver is older than CUDA 12.4");
        return GXRT_OK;
    }
    if (!make_tables(d)) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    Capture *k = d->capture;
    CUresult r = s->cuda->stream_create(&k->stream, CU_STREAM_NON_BLOCKING, 0);
    r = r == CUDA_SUCCESS ? s->cuda->stream_create(&k->side, CU_STREAM_NON_BLOCKING, 0)
                          : r;
    if (r != CUDA_SUCCESS) {
        return device_error(d, "cuStreamCreate", r, "gxrt_session_create");
    }
    if (able.conditionals && condition_create(d) != CUDA_SUCCESS) {
        session_log(s, 1,
                    "device %u runs without a graph: the driver does not load the kernel "
                    "that sets conditions",
                    d->number);
        k->is_refused = true;
    }
    return GXRT_OK;
}

void capture_destroy(Device *d)
{
    Capture *k = d->capture;
    if (!k) {
        return;
    }
    const CudaApi *cuda = d->session->cuda;
    discard(d);
    condition_destroy(d);
    if (k->side) {
        cuda->stream_destroy(k->side);
    }
    if (k->stream) {
        cuda->stream_destroy(k->stream);
    }
    free(k->nodes);
    free(k->base);
    free(k->streams);
    free(k);
    d->capture = NULL;
}
