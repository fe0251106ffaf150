/* Graphs by cuDNN: plans are made ready with the session, from their serialised form where it is
 * of this version of the library, else from the graph. A call passes addresses; the pack that
 * holds them is made again only when one of them has changed. */
#include <stdlib.h>
#include <string.h>

#include "runtime/library/graph_build.h"
#include "runtime/run/annotate.h"
#include "runtime/run/session.h"

/* A graph of the plan on one device. */
struct Graph {
    GraphBuild build; /* owns the plan */
    GraphChoice choice;
    CUdeviceptr
        own_workspace; /* where the plan's is too small for what was chosen here; else 0 */
    cudnnBackendDescriptor_t pack;
    uint32_t count; /* of tensors with an address */
    int64_t ids[PLAN_GRAPH_MOST_TENSORS];
    void *addresses[PLAN_GRAPH_MOST_TENSORS]; /* in the pack */
    void *workspace;
};

static uint64_t library_bytes(const PlanGraph *g)
{
    return g->workspace_bytes - g->scratch_bytes;
}

static gxrt_status load_error(const Device *d, const PlanGraph *g, const char *why)
{
    const Plan *p = d->session->plan;
    return status_set(
        GXRT_UNSUPPORTED,
        "cuDNN %zu cannot do the graph of HLO instruction %s (%s) on device %u: %s; the "
        "program was compiled with cuDNN %u: install that version or a newer one, or "
        "compile with --libraries=cublaslt",
        d->session->cudnn->version(), plan_text(p, g->name),
        plan_graph_kind(p->graph_operations[g->operations].kind), d->number, why,
        p->info->min_cudnn > g->cudnn_version ? p->info->min_cudnn : g->cudnn_version);
}

/* The tuner's configuration for this version of the library; PLAN_NONE: there is none. */
static uint32_t tuned_number(const Device *d, const PlanGraph *g)
{
    const Plan *p = d->session->plan;
    for (uint32_t i = 0; i < p->choices_count; i++) {
        const PlanChoice *c = &p->choices[i];
        if (&p->graphs[c->graph] == g && c->version == d->session->cudnn->version()) {
            return c->configuration;
        }
    }
    return PLAN_NONE;
}

/* From the serialised plan, if this library may have written it. */
static bool load_plan(const Device *d, const PlanGraph *g, Graph *out)
{
    const gxrt_session *s = d->session;
    GraphDevice at = {.handle = d->cudnn};
    out->build.dnn = s->cudnn;
    if (g->plan_bytes == 0 || s->cudnn->version() != g->cudnn_version) {
        return false;
    }
    if (graph_build_load(&out->build, &at, s->plan->graph_plans + g->plan, g->plan_bytes,
                         &out->choice)) {
        return true;
    }
    session_log(s, 1,
                "the plan that cuDNN %u made of %s does not load (%s): it is made again",
                g->cudnn_version, plan_text(s->plan, g->name), out->build.error);
    graph_build_destroy(&out->build);
    memset(&out->build, 0, sizeof out->build);
    out->build.dnn = s->cudnn;
    return false;
}

/* From the graph: first what fits the plan's workspace, then what has more of its own. */
static bool make_plan(const Device *d, const PlanGraph *g, Graph *out)
{
    const Plan *p = d->session->plan;
    GraphDevice at = {.handle = d->cudnn};
    if (!graph_build(&out->build, p, g, &at)) {
        return false;
    }
    uint32_t number = tuned_number(d, g);
    if (number != PLAN_NONE &&
        graph_build_choose_number(&out->build, g, &at, library_bytes(g), number,
                                  &out->choice)) {
        return true;
    }
    if (number != PLAN_NONE) {
        session_log(d->session, 1,
                    "cuDNN %zu has no configuration %u for %s: its first is used",
                    d->session->cudnn->version(), number, plan_text(p, g->name));
    }
    if (graph_build_choose(&out->build, g, &at, library_bytes(g), &out->choice)) {
        return true;
    }
    out->build.status = CUDNN_STATUS_SUCCESS;
    return graph_build_choose(&out->build, g, &at, UINT64_MAX - 1, &out->choice);
}

static gxrt_status make_ready(Device *d, const PlanGraph *g, Graph *out)
{
    const CudaApi *cuda = d->session->cuda;
    bool is_tuned = tuned_number(d, g) != PLAN_NONE;
    out->build.dnn = d->session->cudnn;
    if ((is_tuned || !load_plan(d, g, out)) && !make_plan(d, g, out)) {
        return load_error(d, g, out->build.error);
    }
    if (out->choice.workspace_bytes > library_bytes(g)) {
        CUresult r =
            cuda->mem_alloc(&out->own_workspace, (size_t)out->choice.workspace_bytes);
        if (r != CUDA_SUCCESS) {
            out->own_workspace = 0;
            return device_error(d, "cuMemAlloc", r, "gxrt_session_create");
        }
    }
    return GXRT_OK;
}

gxrt_status graphs_create(Device *d)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    if (p->graphs_count == 0) {
        return GXRT_OK;
    }
    d->graphs = calloc(p->graphs_count, sizeof *d->graphs);
    if (!d->graphs) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    cudnnStatus_t r = s->cudnn->create(&d->cudnn);
    if (r != CUDNN_STATUS_SUCCESS) {
        return status_set(GXRT_DEVICE_FAILED, "cudnnCreate: %s on device %u",
                          s->cudnn->text(r), d->number);
    }
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < p->graphs_count && st == GXRT_OK; i++) {
        d->graphs[i] = calloc(1, sizeof *d->graphs[i]);
        st = d->graphs[i]
                 ? make_ready(d, &p->graphs[i], d->graphs[i])
                 : status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    return st;
}

void graphs_destroy(Device *d)
{
    const CudnnApi *dnn = d->session->cudnn;
    for (uint32_t i = 0; d->graphs && i < d->session->plan->graphs_count; i++) {
        Graph *g = d->graphs[i];
        if (!g) {
            continue;
        }
        if (g->pack) {
            dnn->unmake(g->pack);
        }
        if (g->build.dnn) {
            graph_build_destroy(&g->build);
        }
        if (g->own_workspace) {
            d->session->cuda->mem_free(g->own_workspace);
        }
        free(g);
    }
    if (d->cudnn) {
        dnn->destroy(d->cudnn);
    }
    free(d->graphs);
}

static cudnnStatus_t make_pack(const CudnnApi *dnn, Graph *g)
{
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t r = dnn->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    r = r ? r
          : dnn->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->count,
                     g->ids);
    r = r ? r
          : dnn->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                     g->count, g->addresses);
    r = r ? r
          : dnn->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                     &g->workspace);
    r = r ? r : dnn->finalize(pack);
    if (r != CUDNN_STATUS_SUCCESS && pack) {
        dnn->unmake(pack);
        pack = NULL;
    }
    g->pack = pack;
    return r;
}

/* Of an arg of the command; slots: where it is instead, or NULL. */
static void *address_of(const Device *d, const PlanCommand *c, uint32_t arg,
                        const uint64_t *slots)
{
    const PlanArg *a = &d->session->plan->args[c->args + arg];
    if (a->tag != PLAN_ARG_SLICE) {
        return NULL;
    }
    return (void *)(uintptr_t)(slots ? slots[arg] : slice_address(d, a->index));
}

/* Where the tensors are now. */
static uint32_t find_addresses(const Device *d, const PlanCommand *c,
                               const uint64_t *slots, CUstream stream, int64_t *ids,
                               void **addresses, void **workspace)
{
    const Plan *p = d->session->plan;
    const PlanGraph *g = &p->graphs[c->index];
    char *memory = address_of(d, c, c->arg_count - 1, slots);
    uint32_t n = 0, arg = 0;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const PlanGraphTensor *t = &p->graph_tensors[g->tensors + i];
        ids[n] = (int64_t)i + 1;
        switch ((PlanGraphStorage)t->storage) {
        case PLAN_GRAPH_STORED:
            addresses[n] = address_of(d, c, arg, slots);
            const PlanArg *a = &p->args[c->args + arg++];
            if (a->access & PLAN_WRITE) {
                annotate_written(stream, addresses[n], p->slices[a->index].bytes);
            }
            n++;
            break;
        case PLAN_GRAPH_SCALAR: /* cuDNN reads it when it queues the work */
            addresses[n++] = (void *)(uintptr_t)&t->value;
            break;
        case PLAN_GRAPH_SCRATCH:
            addresses[n++] = memory + t->value;
            break;
        case PLAN_GRAPH_VIRTUAL:
        case PLAN_GRAPH_STORAGES:
            break;
        }
    }
    *workspace = memory ? memory + g->scratch_bytes : NULL;
    return n;
}

static cudnnStatus_t queue(Device *d, const PlanCommand *c, Graph *g,
                           const GraphChoice *choice, const uint64_t *slots,
                           CUstream stream)
{
    const CudnnApi *dnn = d->session->cudnn;
    int64_t ids[PLAN_GRAPH_MOST_TENSORS];
    void *addresses[PLAN_GRAPH_MOST_TENSORS];
    void *workspace;
    uint32_t count = find_addresses(d, c, slots, stream, ids, addresses, &workspace);
    if (g->own_workspace) {
        workspace = (void *)(uintptr_t)g->own_workspace;
    }
    bool is_same = g->pack && workspace == g->workspace &&
                   memcmp(addresses, g->addresses, count * sizeof *addresses) == 0;
    if (!is_same) {
        if (g->pack) {
            dnn->unmake(g->pack);
        }
        g->count = count;
        g->workspace = workspace;
        memcpy(g->ids, ids, count * sizeof *ids);
        memcpy(g->addresses, addresses, count * sizeof *addresses);
        cudnnStatus_t r = make_pack(dnn, g);
        if (r != CUDNN_STATUS_SUCCESS) {
            return r;
        }
    }
    cudnnStatus_t r = dnn->set_stream(d->cudnn, stream);
    return r ? r : dnn->execute(d->cudnn, choice->plan, g->pack);
}

/* Owns the plans; its own pack is for the tuner's memory. */
struct GraphTrials {
    Graph graph;
    GraphChoice choices[GRAPH_TRIALS_MOST];
};

gxrt_status graph_trials_make(Device *d, uint32_t graph, GraphTrials **out,
                              uint32_t *count, uint32_t *own)
{
    const Plan *p = d->session->plan;
    const PlanGraph *g = &p->graphs[graph];
    GraphDevice at = {.handle = d->cudnn};
    GraphTrials *t = *out = calloc(1, sizeof *t);
    *count = *own = 0;
    if (!t) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    t->graph.build.dnn = d->session->cudnn;
    if (!graph_build(&t->graph.build, p, g, &at)) {
        return load_error(d, g, t->graph.build.error);
    }
    *count = graph_build_choices(&t->graph.build, g, &at, library_bytes(g), t->choices,
                                 GRAPH_TRIALS_MOST);
    for (uint32_t i = 0; i < *count; i++) {
        *own = t->choices[i].number == d->graphs[graph]->choice.number ? i : *own;
    }
    return GXRT_OK;
}

void graph_trials_destroy(const Device *d, GraphTrials *t)
{
    if (t && t->graph.pack) {
        d->session->cudnn->unmake(t->graph.pack);
    }
    if (t) {
        graph_build_destroy(&t->graph.build);
    }
    free(t);
}

void graph_trial_describe(const GraphTrials *t, uint32_t i, uint32_t *number,
                          uint64_t *workspace_bytes)
{
    *number = t->choices[i].number;
    *workspace_bytes = t->choices[i].workspace_bytes;
}

const char *graph_trial_queue(Device *d, const PlanCommand *c, GraphTrials *t, uint32_t i,
                              const uint64_t *slots, CUstream stream)
{
    cudnnStatus_t r = queue(d, c, &t->graph, &t->choices[i], slots, stream);
    return r ? d->session->cudnn->text(r) : NULL;
}

gxrt_status run_graph(Device *d, const PlanCommand *c, CUstream stream)
{
    char words[256] = "";
    Graph *g = d->graphs[c->index];
    cudnnStatus_t r = queue(d, c, g, &g->choice, NULL, stream);
    if (r == CUDNN_STATUS_SUCCESS) {
        return GXRT_OK;
    }
    d->session->failed = d->session->failed || d->phase == CAPTURE_OFF;
    d->session->cudnn->last_error(words, sizeof words);
    char said[512];
    snprintf(said, sizeof said, "cudnnBackendExecute: %s%s%s", d->session->cudnn->text(r),
             words[0] ? ": " : "", words);
    return library_error(d, c, said);
}
