/* See capture.h. */
#include "runtime/emu/capture.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/emu/graph.h"

void captured_clear(Captured *c)
{
    graph_release(c->graph);
    free(c->last);
    *c = (Captured){.graph = NULL};
}

static CUresult captured_set(Captured *c, CUgraph graph, const CUgraphNode *last,
                             size_t count)
{
    CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (count != 0)
        memcpy(copy, last, count * sizeof(CUgraphNode));
    graph->users++;
    captured_clear(c);
    *c = (Captured){.graph = graph, .last = copy, .count = count};
    return CUDA_SUCCESS;
}

CUresult captured_copy(Captured *to, const Captured *from)
{
    return captured_set(to, from->graph, from->last, from->count);
}

CUresult captured_add(Captured *c, Operation *op)
{
    if (op->may_block) {
        operation_destroy(op);
        return emu_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                          "the emulator captures no collectives");
    }
    Work *work = work_create(op);
    if (work == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphNode node = graph_add_node(c->graph, NODE_WORK, c->last, c->count);
    if (node == NULL) {
        work_release(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->work = work;
    return captured_set(c, c->graph, &node, 1);
}

static bool has_node(const Captured *c, CUgraphNode node)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->last[i] == node)
            return true;
    return false;
}

CUresult captured_join(Captured *stream, const Captured *event)
{
    if (event->graph == NULL)
        return emu_refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                          "a stream that is captured waits for an event that is not");
    if (!event->graph->is_open)
        return emu_refuse(CUDA_ERROR_CAPTURED_EVENT,
                          "a stream waits for an event of a capture that has ended");
    if (stream->graph == NULL)
        return captured_copy(stream, event);
    if (stream->graph != event->graph)
        return emu_refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                          "a stream waits for an event of another capture");
    size_t count = stream->count;
    CUgraphNode *all = malloc((count + event->count + 1) * sizeof *all);
    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (count != 0)
        memcpy(all, stream->last, count * sizeof *all);
    for (size_t i = 0; i < event->count; i++)
        if (!has_node(stream, event->last[i]))
            all[count++] = event->last[i];
    CUresult r = captured_set(stream, stream->graph, all, count);
    free(all);
    return r;
}

/* The stream is captured into `graph`, after these nodes of it. */
static CUresult begin(CUcontext c, CUstream handle, CUgraph graph,
                      const CUgraphNode *after, size_t count)
{
    Captured *stream = queue_captured(c, handle);
    if (stream == NULL)
        return emu_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                          "the default stream cannot be captured");
    if (stream->graph != NULL || graph->is_open || graph->root->is_instantiated)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "the stream is captured already, or the graph is in use");
    CUresult r = captured_set(stream, graph, after, count);
    graph->is_open = r == CUDA_SUCCESS;
    return r;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamBeginCapture_v2", &c);
    if (r != CUDA_SUCCESS || mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&emu_lock);
    CUgraph graph = graph_create(c);
    r = graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : begin(c, stream, graph, NULL, 0);
    graph_release(graph); /* the capture holds it */
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamBeginCaptureToGraph", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (graph == NULL || edges != NULL || mode < 0 ||
        mode > CU_STREAM_CAPTURE_MODE_RELAXED || (after == NULL && count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (after[i] == NULL || after[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&emu_lock);
    r = begin(c, stream, graph, after, count);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

/* Every node that nothing follows is among the stream's last ones: all forks have come back. */
static bool is_joined(const Captured *c)
{
    for (size_t i = 0; i < c->graph->count; i++)
        if (!c->graph->nodes[i]->is_followed && !has_node(c, c->graph->nodes[i]))
            return false;
    return true;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamEndCapture", &c);
    if (r != CUDA_SUCCESS || out == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    pthread_mutex_lock(&emu_lock);
    Captured *stream = queue_captured(c, handle);
    if (stream == NULL || stream->graph == NULL) {
        pthread_mutex_unlock(&emu_lock);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    CUgraph graph = stream->graph;
    if (!is_joined(stream))
        r = emu_refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                       "a stream that the capture took in was not joined again");
    graph->users++;
    graph->is_open = false;
    queue_end_capture(c, graph);
    if (graph->root != graph) /* the conditional node holds it */
        graph->users--;
    if (r == CUDA_SUCCESS)
        *out = graph;
    else if (graph->root == graph)
        graph_release(graph);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
                                   cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **after,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamGetCaptureInfo_v3", &c);
    if (r != CUDA_SUCCESS || status == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&emu_lock);
    const Captured *stream = queue_captured(c, handle);
    bool is_captured = stream != NULL && stream->graph != NULL;
    *status = is_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : 0;
    if (is_captured && id != NULL)
        *id = (uintptr_t)stream->graph;
    if (is_captured && graph != NULL)
        *graph = stream->graph;
    if (is_captured && after != NULL)
        *after = stream->last;
    if (is_captured && count != NULL)
        *count = stream->count;
    if (edges != NULL)
        *edges = NULL;
    pthread_mutex_unlock(&emu_lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *after,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned flags)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamUpdateCaptureDependencies_v2", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (edges != NULL || (after == NULL && count != 0) ||
        flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "the emulator only sets dependencies of captures");
    pthread_mutex_lock(&emu_lock);
    Captured *stream = queue_captured(c, handle);
    r = CUDA_ERROR_INVALID_VALUE;
    if (stream != NULL && stream->graph != NULL) {
        r = CUDA_SUCCESS;
        for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
            if (after[i] == NULL || after[i]->graph != stream->graph)
                r = CUDA_ERROR_INVALID_VALUE;
        r = r == CUDA_SUCCESS ? captured_set(stream, stream->graph, after, count) : r;
    }
    pthread_mutex_unlock(&emu_lock);
    return r;
}
