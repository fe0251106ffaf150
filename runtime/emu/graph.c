/* See graph.h. */
#include "runtime/emu/graph.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/emu/allocation.h"

static Condition *conditions; /* all, under emu_lock */

Work *work_create(Operation *op)
{
    Work *w = malloc(sizeof *w);
    if (w == NULL) {
        operation_destroy(op);
        return NULL;
    }
    *w = (Work){.operation = op, .users = 1};
    return w;
}

void work_release(Work *w)
{
    if (w == NULL || --w->users != 0)
        return;
    operation_destroy(w->operation);
    free(w);
}

CUgraph graph_create(CUcontext context)
{
    CUgraph g = calloc(1, sizeof *g);
    if (g == NULL)
        return NULL;
    g->users = 1;
    g->context = context;
    g->root = g;
    return g;
}

static void condition_destroy(Condition *c)
{
    for (Condition **p = &conditions; *p != NULL; p = &(*p)->next) {
        if (*p == c) {
            *p = c->next;
            break;
        }
    }
    free(c);
}

void graph_release(CUgraph g)
{
    if (g == NULL || --g->users != 0)
        return;
    for (size_t i = 0; i < g->count; i++) {
        CUgraphNode n = g->nodes[i];
        work_release(n->work);
        graph_release(n->inner);
        free(n->before);
        free(n);
    }
    for (size_t i = 0; i < g->condition_count; i++)
        condition_destroy(g->conditions[i]);
    free(g->conditions);
    free(g->nodes);
    free(g);
}

CUgraphNode graph_add_node(CUgraph g, NodeKind kind, const CUgraphNode *before,
                           size_t count)
{
    if (g->count == g->capacity) {
        size_t capacity = g->capacity ? 2 * g->capacity : 16;
        CUgraphNode *larger = realloc(g->nodes, capacity * sizeof *larger);
        if (larger == NULL)
            return NULL;
        g->nodes = larger;
        g->capacity = capacity;
    }
    CUgraphNode n = calloc(1, sizeof *n);
    CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
    if (n == NULL || copy == NULL) {
        free(n);
        free(copy);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        copy[i] = before[i];
        copy[i]->is_followed = true;
    }
    *n = (struct CUgraphNode_st){.graph = g,
                                 .index = (uint32_t)g->count,
                                 .number = g->root->numbers++,
                                 .kind = kind,
                                 .before = copy,
                                 .before_count = count};
    g->nodes[g->count++] = n;
    return n;
}

/* --- conditions ------------------------------------------------------------------------------ */

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                        CUcontext context, unsigned value, unsigned flags)
{
    CUresult r = emu_enter("cuGraphConditionalHandleCreate", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || graph == NULL || context != graph->context || flags != 0)
        return emu_refuse(
            CUDA_ERROR_INVALID_VALUE,
            "cuGraphConditionalHandleCreate: no graph of this context, or flags");
    pthread_mutex_lock(&emu_lock);
    CUgraph root = graph->root;
    Condition *c = calloc(1, sizeof *c);
    Condition **larger =
        realloc(root->conditions, (root->condition_count + 1) * sizeof(Condition *));
    if (larger != NULL)
        root->conditions = larger;
    if (c == NULL || larger == NULL) {
        free(c);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        *c = (Condition){.next = conditions, .value = value};
        conditions = c;
        root->conditions[root->condition_count++] = c;
        *out = (uintptr_t)c;
    }
    pthread_mutex_unlock(&emu_lock);
    return r;
}

static Condition *condition_find(CUgraphConditionalHandle handle)
{
    for (Condition *c = conditions; c != NULL; c = c->next)
        if ((uintptr_t)c == handle)
            return c;
    return NULL;
}

typedef struct SetCondition {
    Operation operation;
    Condition *condition;
    CUdeviceptr selector;
    size_t bytes;
    int branch, branches;
} SetCondition;

static bool condition_run(Operation *op, Finding *out)
{
    const SetCondition *s = (const SetCondition *)(const void *)op;
    int32_t number = 0;
    uint64_t first = 0;
    Allocation *a = allocation_find(s->selector, s->bytes, "a graph's selector", out);
    if (a == NULL)
        return false;
    if (!shadow_is_written(&a->shadow, s->selector - a->base, s->bytes, &first)) {
        finding_set(
            out, FINDING_UNINITIALISED,
            "uninitialised: a graph branches by %zu bytes at 0x%llx, which nobody "
            "wrote",
            s->bytes, s->selector);
        return false;
    }
    memcpy(&number, (const void *)(uintptr_t)s->selector, s->bytes);
    int chosen = number;
    if (s->bytes == 1)
        chosen = number != 0 ? 0 : 1;
    else if (number < 0 || number >= s->branches)
        chosen = s->branches - 1;
    s->condition->value = chosen == s->branch;
    return true;
}

CUresult gxemuSetCondition(CUgraphConditionalHandle handle, CUdeviceptr selector,
                           size_t bytes, int branch, int branches, CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("gxemuSetCondition", &c);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&emu_lock);
    Condition *condition = condition_find(handle);
    const Captured *captured = queue_captured(c, stream);
    bool fits = condition != NULL && captured != NULL && captured->graph != NULL &&
                (bytes == 1 || bytes == 4) && branch >= 0 && branch < branches;
    pthread_mutex_unlock(&emu_lock);
    if (!fits)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "gxemuSetCondition: no condition, no captured stream, or a "
                          "selector of %zu bytes",
                          bytes);
    SetCondition *s = calloc(1, sizeof *s);
    if (s == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *s = (SetCondition){.operation = {.run = condition_run},
                        .condition = condition,
                        .selector = selector,
                        .bytes = bytes,
                        .branch = branch,
                        .branches = branches};
    return queue_submit(c, stream, &s->operation);
}

/* --- nodes ----------------------------------------------------------------------------------- */

static CUresult add_conditional(CUgraph g, const CUgraphNode *after, size_t count,
                                CUDA_CONDITIONAL_NODE_PARAMS *p, CUgraphNode *out)
{
    Condition *c = condition_find(p->handle);
    if (c == NULL || c->has_node || p->size != 1 || p->ctx != g->context ||
        (p->type != CU_GRAPH_COND_TYPE_IF && p->type != CU_GRAPH_COND_TYPE_WHILE))
        return emu_refuse(
            CUDA_ERROR_INVALID_VALUE,
            "a conditional node needs a condition of its own, one body, and "
            "to be an if or a while");
    CUgraph body = graph_create(g->context);
    if (body == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    body->root = g->root;
    NodeKind kind = p->type == CU_GRAPH_COND_TYPE_IF ? NODE_IF : NODE_WHILE;
    CUgraphNode n = graph_add_node(g, kind, after, count);
    if (n == NULL) {
        graph_release(body);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->has_node = true;
    n->condition = c;
    n->inner = body;
    static _Thread_local CUgraph bodies[1]; /* CUDA's array lives as long as the node */
    bodies[0] = body;
    p->phGraph_out = bodies;
    *out = n;
    return CUDA_SUCCESS;
}

static bool is_child(CUgraph child, CUgraph g)
{
    return child != NULL && child != g && child->root == child && !child->is_open &&
           child->context == g->context && child->condition_count == 0;
}

static CUresult add_child(CUgraph g, const CUgraphNode *after, size_t count,
                          const CUDA_CHILD_GRAPH_NODE_PARAMS *p, CUgraphNode *out)
{
    if (!is_child(p->graph, g) || p->ownership != 0)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "a child graph is a whole graph without conditional nodes");
    CUgraphNode n = graph_add_node(g, NODE_CHILD, after, count);
    if (n == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->inner = p->graph; /* shared instead of copied: nobody changes it any more */
    p->graph->is_instantiated = true;
    p->graph->users++;
    *out = n;
    return CUDA_SUCCESS;
}

static size_t member_bytes(int type)
{
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sizeof(CUDA_MEMCPY_NODE_PARAMS);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
    default:
        return sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
    }
}

bool graph_params_fit(const CUgraphNodeParams *p)
{
    const unsigned char *bytes = (const unsigned char *)p->reserved1;
    int64_t used = p->reserved0[0] | p->reserved0[1] | p->reserved0[2] | p->reserved2;
    for (size_t i = member_bytes(p->type); i < sizeof p->reserved1; i++)
        used |= bytes[i];
    return used == 0;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count,
                           CUgraphNodeParams *params)
{
    CUresult r = emu_enter("cuGraphAddNode_v2", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || g == NULL || params == NULL || edges != NULL ||
        (after == NULL && count != 0) || g->root->is_instantiated ||
        !graph_params_fit(params))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "cuGraphAddNode: an argument");
    for (size_t i = 0; i < count; i++)
        if (after[i] == NULL || after[i]->graph != g)
            return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                              "cuGraphAddNode: a node of another graph");
    pthread_mutex_lock(&emu_lock);
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        r = add_conditional(g, after, count, &params->conditional, out);
    else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        r = add_child(g, after, count, &params->graph, out);
    else
        r = emu_refuse(CUDA_ERROR_NOT_SUPPORTED,
                       "the emulator adds no nodes of type %d: capture them",
                       params->type);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuGraphDestroy(CUgraph g)
{
    CUresult r = emu_enter("cuGraphDestroy", NULL);
    if (g == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&emu_lock);
    graph_release(g);
    pthread_mutex_unlock(&emu_lock);
    return r;
}
