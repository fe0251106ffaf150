/* Executable graphs. A launch is one operation of a stream, which runs the graph's nodes in an
 * order that their dependencies allow: as captured, or (lazy) the other way round, so that a
 * missing dependency shows. */
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/graph.h"
#include "runtime/emu/steps.h"

/* What an executable graph runs instead of its graph's own work, by the numbers of nodes. Launches
 * that are queued keep the table of their time. */
typedef struct Table {
    unsigned users;
    uint32_t count;
    Work **works;
    CUgraph *children;
} Table;

struct CUgraphExec_st {
    CUgraph graph;
    Table *table;
};

static void table_release(Table *t)
{
    if (t == NULL || --t->users != 0)
        return;
    for (uint32_t i = 0; i < t->count; i++) {
        work_release(t->works[i]);
        graph_release(t->children[i]);
    }
    free(t->works);
    free(t->children);
    free(t);
}

/* `from` NULL: a table that replaces nothing. */
static Table *table_create(uint32_t count, const Table *from)
{
    Table *t = calloc(1, sizeof *t);
    Work **works = calloc((size_t)count + 1, sizeof(Work *));
    CUgraph *children = calloc((size_t)count + 1, sizeof(CUgraph));
    if (t == NULL || works == NULL || children == NULL) {
        free(t);
        free(works);
        free(children);
        return NULL;
    }
    *t = (Table){.users = 1, .count = count, .works = works, .children = children};
    for (uint32_t i = 0; from != NULL && i < count; i++) {
        works[i] = from->works[i];
        children[i] = from->children[i];
        if (works[i] != NULL)
            works[i]->users++;
        if (children[i] != NULL)
            children[i]->users++;
    }
    return t;
}

/* --- running --------------------------------------------------------------------------------- */

static bool graph_run(const struct CUgraph_st *g, const Table *t, Finding *out);

/* A loop whose body is empty, or does not end it, has an end, too. */
static bool loop_run(const struct CUgraphNode_st *n, const Table *t, Finding *out)
{
    while (n->condition->value != 0) {
        if (!steps_take(1, "a loop of a graph", out) || !graph_run(n->inner, t, out))
            return false;
    }
    return true;
}

/* t NULL: the node's own. */
static bool node_run(const struct CUgraphNode_st *n, const Table *t, Finding *out)
{
    if (!steps_take(1, "a graph", out))
        return false;
    if (n->kind == NODE_WORK) {
        const Work *w = t != NULL && t->works[n->number] ? t->works[n->number] : n->work;
        Operation *op = w->operation;
        return (op->bind == NULL || op->bind(op, out)) && op->run(op, out);
    }
    if (n->kind == NODE_CHILD) {
        bool replaced = t != NULL && t->children[n->number] != NULL;
        return graph_run(replaced ? t->children[n->number] : n->inner, NULL, out);
    }
    if (n->kind == NODE_IF)
        return n->condition->value == 0 || graph_run(n->inner, t, out);
    return loop_run(n, t, out);
}

/* The last node that nothing not yet run comes before; the graph is in order, so there is one. */
static size_t ready_last(const struct CUgraph_st *g, const bool *done)
{
    for (size_t i = g->count; i-- > 0;) {
        const struct CUgraphNode_st *n = g->nodes[i];
        bool is_ready = !done[i];
        for (size_t k = 0; k < n->before_count && is_ready; k++)
            is_ready = done[n->before[k]->index];
        if (is_ready)
            return i;
    }
    return 0;
}

/* Nodes in an order as late as possible: quadratic, which is for tests. */
static bool graph_run_late(const struct CUgraph_st *g, const Table *t, Finding *out)
{
    bool *done = calloc(g->count + 1, sizeof *done);
    if (done == NULL) {
        finding_set(out, FINDING_MEMORY, "cuGraphLaunch: no memory");
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < g->count && ok; i++) {
        size_t next = ready_last(g, done);
        ok = node_run(g->nodes[next], t, out);
        done[next] = true;
    }
    free(done);
    return ok;
}

static bool graph_run(const struct CUgraph_st *g, const Table *t, Finding *out)
{
    if (emu_config()->schedule == SCHEDULE_LAZY)
        return graph_run_late(g, t, out);
    for (size_t i = 0; i < g->count; i++)
        if (!node_run(g->nodes[i], t, out))
            return false;
    return true;
}

typedef struct GraphLaunch {
    Operation operation;
    CUgraph graph;
    Table *table;
} GraphLaunch;

static bool launch_run(Operation *op, Finding *out)
{
    const GraphLaunch *l = (const GraphLaunch *)(const void *)op;
    return graph_run(l->graph, l->table, out);
}

static void launch_destroy(Operation *op) /* under emu_lock */
{
    GraphLaunch *l = (GraphLaunch *)(void *)op;
    graph_release(l->graph);
    table_release(l->table);
    free(l);
}

/* --- the driver's functions ------------------------------------------------------------------ */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g,
                                     unsigned long long flags)
{
    CUresult r = emu_enter("cuGraphInstantiateWithFlags", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || g == NULL || flags != 0 || g->root != g)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "cuGraphInstantiateWithFlags: no whole graph, or flags");
    *out = NULL;
    pthread_mutex_lock(&emu_lock);
    if (g->is_open || (g->is_instantiated && g->condition_count != 0)) {
        r = emu_refuse(CUDA_ERROR_INVALID_VALUE,
                       "a graph that is captured, or has conditional nodes and is "
                       "instantiated, cannot be instantiated");
    } else {
        CUgraphExec e = calloc(1, sizeof *e);
        Table *t = table_create(g->numbers, NULL);
        if (e == NULL || t == NULL) {
            free(e);
            table_release(t);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            *e = (struct CUgraphExec_st){g, t};
            g->users++;
            g->is_instantiated = true;
            *out = e;
        }
    }
    pthread_mutex_unlock(&emu_lock);
    return r;
}

/* The table that may be changed: one that no queued launch uses. */
static Table *table_own(CUgraphExec e)
{
    if (e->table->users > 1) {
        Table *t = table_create(e->table->count, e->table);
        if (t == NULL)
            return NULL;
        table_release(e->table);
        e->table = t;
    }
    return e->table;
}

static CUresult set_child(Table *t, const struct CUgraphNode_st *n,
                          const CUgraphNodeParams *p)
{
    CUgraph child = p->graph.graph;
    if (p->type != CU_GRAPH_NODE_TYPE_GRAPH || child == NULL ||
        child->count != n->inner->count || child->condition_count != 0)
        return emu_refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                          "a child graph becomes one of other nodes");
    child->users++;
    child->is_instantiated = true;
    graph_release(t->children[n->number]);
    t->children[n->number] = child;
    return CUDA_SUCCESS;
}

static CUresult set_work(Table *t, const struct CUgraphNode_st *n,
                         const CUgraphNodeParams *p)
{
    const Operation *old = n->work->operation;
    Operation *op = NULL;
    if (old->again == NULL)
        return emu_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "this node of a graph takes no other parameters");
    CUresult r = old->again(old, p, &op);
    Work *w = r == CUDA_SUCCESS ? work_create(op) : NULL;
    if (w == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    work_release(t->works[n->number]);
    t->works[n->number] = w;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p)
{
    CUresult r = emu_enter("cuGraphExecNodeSetParams", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (e == NULL || n == NULL || p == NULL || n->graph->root != e->graph ||
        !graph_params_fit(p))
        return emu_refuse(
            CUDA_ERROR_INVALID_VALUE,
            "cuGraphExecNodeSetParams: no node of this graph, or parameters");
    pthread_mutex_lock(&emu_lock);
    Table *t = table_own(e);
    if (t == NULL)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (n->kind == NODE_WORK)
        r = set_work(t, n, p);
    else if (n->kind == NODE_CHILD)
        r = set_child(t, n, p);
    else
        r = emu_refuse(CUDA_ERROR_INVALID_VALUE,
                       "a conditional node takes no other parameters");
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuGraphLaunch(CUgraphExec e, CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("cuGraphLaunch", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (e == NULL || e->graph->context != c)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "cuGraphLaunch: no graph of this context");
    GraphLaunch *l = calloc(1, sizeof *l);
    if (l == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->operation = (Operation){.run = launch_run, .destroy = launch_destroy};
    l->graph = e->graph;
    l->table = e->table;
    pthread_mutex_lock(&emu_lock);
    l->graph->users++;
    l->table->users++;
    pthread_mutex_unlock(&emu_lock);
    return queue_submit(c, stream, &l->operation);
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
    CUresult r = emu_enter("cuGraphExecDestroy", NULL);
    if (e == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&emu_lock);
    table_release(e->table);
    graph_release(e->graph);
    pthread_mutex_unlock(&emu_lock);
    free(e);
    return r;
}
