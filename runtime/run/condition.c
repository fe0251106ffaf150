/* Loops and branches that the device decides, as conditional nodes of a graph: a kernel of one
 * thread reads the predicate or selector and sets the condition, so that the host reads nothing
 * back. The commands of a body are captured into its graph one after the other. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/capture.h"
#include "runtime/run/condition.h"

CUresult condition_create(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    Capture *k = d->capture;
    if (cuda->emulated) {
        return CUDA_SUCCESS;
    }
    CUresult r = cuda->module_load(&k->module, condition_ptx);
    return r == CUDA_SUCCESS
               ? cuda->module_function(&k->setter, k->module, CONDITION_KERNEL)
               : r;
}

void condition_destroy(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    Capture *k = d->capture;
    for (size_t i = 0; i < PLAN_MAX_DEPTH; i++) {
        if (k->bodies[i].stream) {
            cuda->stream_destroy(k->bodies[i].stream);
        }
        free(k->bodies[i].outer);
    }
    if (k->module) {
        cuda->module_unload(k->module);
    }
    free(k->handles);
}

/* --- conditions --------------------------------------------------------------------------- */

static gxrt_status make_handle(Device *d, const PlanCommand *c,
                               CUgraphConditionalHandle *out)
{
    CaptureEnd end;
    CUresult r = capture_end_of(d, d->streams[c->stream], &end);
    if (r == CUDA_SUCCESS) {
        r = d->session->cuda->graph_condition(out, end.graph, d->context, 0, 0);
    }
    return r == CUDA_SUCCESS ? GXRT_OK
                             : command_error(d, c, "cuGraphConditionalHandleCreate", r);
}

/* Sets the condition to whether the command's selector chooses `branch`. */
static gxrt_status set_condition(Device *d, const PlanCommand *c,
                                 CUgraphConditionalHandle handle, uint32_t branch,
                                 uint32_t branches)
{
    const gxrt_session *s = d->session;
    uint32_t slice = s->plan->args[c->args].index;
    uint32_t bytes = (uint32_t)s->plan->slices[slice].bytes;
    CUdeviceptr selector = slice_address(d, slice);
    CUstream stream = d->streams[c->stream];
    CUresult r;
    if (s->cuda->emulated) {
        r = s->cuda->emu_condition(handle, selector, bytes, (int)branch, (int)branches,
                                   stream);
    } else {
        void *parameters[] = {&handle, &selector, &bytes, &branch, &branches};
        CUlaunchConfig config = {.gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = stream};
        r = s->cuda->launch(&config, d->capture->setter, parameters, NULL);
    }
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuLaunchKernelEx", r);
}

/* --- bodies ------------------------------------------------------------------------------- */

static CUresult make_body(Device *d, CapturedBody *b)
{
    uint32_t count = d->session->plan->streams_count;
    b->outer = b->outer ? b->outer : calloc(count, sizeof *b->outer);
    if (!b->outer) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return b->stream
               ? CUDA_SUCCESS
               : d->session->cuda->stream_create(&b->stream, CU_STREAM_NON_BLOCKING, 0);
}

/* Adds the node, behind all that was queued before; what is queued from now on is its body. */
static gxrt_status open_body(Device *d, const PlanCommand *c,
                             CUgraphConditionalHandle handle, int type)
{
    const gxrt_session *s = d->session;
    CapturedBody *b = &d->capture->bodies[d->capture->depth];
    CUgraphNode node;
    CUgraphNodeParams params = capture_params(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    params.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
        .handle = handle, .type = type, .size = 1, .ctx = d->context};
    CUresult r = make_body(d, b);
    if (r != CUDA_SUCCESS) {
        return command_error(d, c, "cuStreamCreate", r);
    }
    gxrt_status st = join_streams(d, c->stream);
    if (st != GXRT_OK) {
        return st;
    }
    r = capture_add(d, d->streams[c->stream], &params, &node);
    if (r != CUDA_SUCCESS) {
        return command_error(d, c, "cuGraphAddNode", r);
    }
    r = s->cuda->capture_begin_to(b->stream, params.conditional.phGraph_out[0], NULL,
                                  NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (r != CUDA_SUCCESS) {
        return command_error(d, c, "cuStreamBeginCaptureToGraph", r);
    }
    b->handle = handle;
    d->capture->depth++;
    memcpy(b->outer, d->streams, s->plan->streams_count * sizeof *b->outer);
    for (uint32_t i = 0; i < s->plan->streams_count; i++) {
        d->streams[i] = b->stream;
    }
    return GXRT_OK;
}

/* Every stream is behind the node now, and so behind the signals that its body gave. */
static void forget_signals(Device *d, const PlanCommand *c)
{
    for (uint32_t i = 1; i < c->subtree; i++) {
        if (c[i].signal != PLAN_NONE) {
            d->signal_stream[c[i].signal] = PLAN_NONE;
        }
    }
}

static gxrt_status close_body(Device *d, const PlanCommand *c)
{
    const gxrt_session *s = d->session;
    const CapturedBody *b = &d->capture->bodies[--d->capture->depth];
    CUgraph body = NULL;
    CUresult r = s->cuda->capture_end(b->stream, &body);
    memcpy(d->streams, b->outer, s->plan->streams_count * sizeof *b->outer);
    if (r != CUDA_SUCCESS) {
        return command_error(d, c, "cuStreamEndCapture", r);
    }
    forget_signals(d, c);
    return fork_streams(d, c->stream);
}

void condition_abandon(Device *d)
{
    Capture *k = d->capture;
    while (k->depth) {
        const CapturedBody *b = &k->bodies[--k->depth];
        CUgraph body = NULL;
        d->session->cuda->capture_end(b->stream, &body);
        memcpy(d->streams, b->outer, d->session->plan->streams_count * sizeof *b->outer);
    }
}

/* --- steps -------------------------------------------------------------------------------- */

/* The condition is computed before the node and again at the end of each iteration. */
static gxrt_status record_while(Device *d, const PlanCommand *c, Frame *f)
{
    gxrt_status st = GXRT_OK;
    if (f->region == PLAN_NONE) {
        f->region = PLAN_LOOP_CONDITION;
        f->iteration = 0;
    } else if (f->region == PLAN_LOOP_BODY) {
        f->region = PLAN_LOOP_CONDITION;
    } else if (f->iteration++ == 0) {
        CUgraphConditionalHandle handle = 0;
        st = make_handle(d, c, &handle);
        st = st == GXRT_OK ? set_condition(d, c, handle, 0, 2) : st;
        st = st == GXRT_OK ? open_body(d, c, handle, CU_GRAPH_COND_TYPE_WHILE) : st;
        f->region = PLAN_LOOP_BODY;
    } else {
        st = set_condition(d, c, d->capture->bodies[d->capture->depth - 1].handle, 0, 2);
        st = st == GXRT_OK ? close_body(d, c) : st;
        f->region = PLAN_NONE;
    }
    return st;
}

/* All conditions are set before the first branch, which may reuse the selector's memory. */
static gxrt_status set_branches(Device *d, const PlanCommand *c)
{
    Capture *k = d->capture;
    size_t needed = k->handle_count + c->count;
    if (needed > k->handle_capacity) {
        CUgraphConditionalHandle *larger =
            realloc(k->handles, 2 * needed * sizeof *larger);
        if (!larger) {
            return status_set(GXRT_OUT_OF_MEMORY, "no memory for a graph");
        }
        k->handles = larger;
        k->handle_capacity = 2 * needed;
    }
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < c->count && st == GXRT_OK; i++) {
        CUgraphConditionalHandle *handle = &k->handles[k->handle_count++];
        st = make_handle(d, c, handle);
        st = st == GXRT_OK ? set_condition(d, c, *handle, i, c->count) : st;
    }
    return st;
}

/* Each branch is a node of its own. */
static gxrt_status record_conditional(Device *d, const PlanCommand *c, Frame *f)
{
    Capture *k = d->capture;
    bool at_start = f->region == PLAN_NONE;
    gxrt_status st = at_start ? set_branches(d, c) : close_body(d, c);
    uint32_t next = at_start ? 0 : f->region + 1;
    f->region = PLAN_NONE;
    if (st == GXRT_OK && next == c->count) {
        k->handle_count -= c->count;
    } else if (st == GXRT_OK) {
        f->region = next;
        st = open_body(d, c, k->handles[k->handle_count - c->count + next],
                       CU_GRAPH_COND_TYPE_IF);
    }
    return st;
}

/* The same regions in the same order. */
static gxrt_status update_step(Device *d, const PlanCommand *c, Frame *f)
{
    if (capture_has_moved(d, c)) { /* the kernel that reads it is no node of a command */
        return command_error(d, c, "cuGraphExecNodeSetParams",
                             CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
    if (plan_regions(c) == PLAN_REGIONS_BRANCHES) {
        f->region = f->region == PLAN_NONE ? 0 : f->region + 1;
        f->region = f->region == c->count ? PLAN_NONE : f->region;
    } else if (f->region == PLAN_LOOP_BODY) {
        f->region = PLAN_LOOP_CONDITION;
    } else if (f->region == PLAN_NONE) {
        f->region = PLAN_LOOP_CONDITION;
        f->iteration = 0;
    } else {
        f->region = f->iteration++ == 0 ? PLAN_LOOP_BODY : PLAN_NONE;
    }
    return GXRT_OK;
}

gxrt_status condition_step(Device *d, const PlanCommand *c, Frame *f)
{
    if (d->phase == CAPTURE_UPDATES) {
        return update_step(d, c, f);
    }
    return plan_regions(c) == PLAN_REGIONS_LOOP ? record_while(d, c, f)
                                                : record_conditional(d, c, f);
}
