/* Fixes the order of execution.
 *
 *   u = f(p)  v = in_place_update(p)      (p dies here)
 *   ->  u first: afterwards p's buffer holds v, and no copy is needed
 *
 *   s = all-reduce-start(a)  d = all-reduce-done(s)  f = fusion(b)
 *   ->  s  f  d: the fusion runs while the devices talk
 *
 * Orders that need little memory are made of each computation (memory.c). Where something is
 * asynchronous, latency.c makes another one from the best of them; without (--latency-hiding=0, below
 * -O2) starts come as early as their operands are there, and dones as late as possible: in the order of
 * the instructions, or in the best of those if that needs less memory.
 *
 * Needs: fused. Keeps: everything; notes each instruction's name as its scheduling_name. Yields:
 * is_scheduled. Ends: one sweep. */
#include "passes/schedule/schedule.h"

#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/kernel/time/work.h"
#include "passes/schedule/graph.h"
#include "passes/schedule/groups.h"
#include "passes/schedule/latency.h"
#include "passes/schedule/memory.h"
#include "passes/settings.h"

typedef struct Scheduler {
    Graph graph;
    PassContext *cx;
    CostModel *cost;
    LatencyLimits limits;
    LatencyUse *use; /* [computations] what runs beside the program inside */
} Scheduler;

/* -- orders -------------------------------------------------------------------------------------- */

/* Communication beside computation: what a start needs and the starts first, dones when there is
 * nothing else to do. */
static void rank_by_overlap(const Graph *s, double *rank)
{
    enum { NEEDED, OTHER, LAST };
    for (uint32_t i = s->count; i-- > 0;) { /* users come after what they use */
        const Instruction *inst = s->comp->instructions[i];
        bool starts = op_is(inst->op, OPF_ASYNC_START);
        bool needed = starts;
        for (uint32_t k = 0; k < s->after[i].count && !needed; k++)
            needed =
                s->after[i].list[k] > i && rank[s->after[i].list[k]] == NEEDED &&
                !op_is(s->comp->instructions[s->after[i].list[k]]->op, OPF_ASYNC_DONE);
        rank[i] = op_is(inst->op, OPF_ASYNC_DONE) ? LAST : needed ? NEEDED : OTHER;
    }
}

/* The positions in `order`, but for starts, which come as early as their operands do, and dones, which come
 * right before their first reader. */
static void rank_apart(const Graph *g, const uint32_t *order, double *rank)
{
    for (uint32_t at = 0; at < g->count; at++)
        rank[order[at]] = at;
    for (uint32_t at = 0; at < g->count; at++) {
        uint32_t x = order[at];
        const Edges *before = &g->before[x];
        if (!op_is(g->comp->instructions[x]->op, OPF_ASYNC_START))
            continue;
        double last = -1;
        for (uint32_t k = 0; k < before->count; k++)
            last = rank[before->list[k]] > last ? rank[before->list[k]] : last;
        rank[x] = last + 0.25;
    }
    for (uint32_t at = g->count; at-- > 0;) {
        uint32_t x = order[at];
        const Edges *after = &g->after[x];
        if (!op_is(g->comp->instructions[x]->op, OPF_ASYNC_DONE))
            continue;
        double first = g->count;
        for (uint32_t k = 0; k < after->count; k++)
            first = rank[after->list[k]] < first ? rank[after->list[k]] : first;
        rank[x] = first - 0.5;
    }
}

/* Starts early, dones late: in the order of the instructions, or in one of little memory if that
 * needs less all the same. */
static int64_t spread_order(const Graph *g, uint32_t *order)
{
    double *rank = ARENA_ARRAY(g->scratch, double, (size_t)g->count + 1);
    uint32_t *other = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->count + 1);
    rank_by_overlap(g, rank);
    rank_order(g, rank, order);
    int64_t most = order_bytes(g, order);
    memory_order(g, other);
    rank_apart(g, other, rank);
    rank_order(g, rank, other);
    int64_t bytes = order_bytes(g, other);
    if (bytes >= most)
        return most;
    memcpy(order, other, g->count * sizeof *order);
    return bytes;
}

static bool has_async(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (op_is(inst->op, OPF_ASYNC_START))
            return true;
    }
    return false;
}

/* -- the pass ------------------------------------------------------------------------------------ */

static void take_order(const Graph *g, const uint32_t *order)
{
    Computation *comp = g->comp;
    Instruction **old =
        arena_copy(g->scratch, comp->instructions, g->count * sizeof *old);
    for (uint32_t i = 0; i < g->count; i++)
        comp->instructions[i] = old[order[i]];
    computation_compact(comp);
}

/* An order that hides latency, if it fits into memory or the plain one does not do better. */
static int64_t hide_latency(Scheduler *s, int64_t most, uint32_t *order)
{
    const Graph *g = &s->graph;
    LatencyLimits limits = s->limits;
    int64_t reruns = s->cx->settings->scheduler_memory_reruns, best = INT64_MAX;
    uint32_t *made = ARENA_ARRAY(g->scratch, uint32_t, g->count);
    uint32_t *kept = ARENA_ARRAY(g->scratch, uint32_t, g->count);
    LatencyUse use;
    for (int64_t i = 0; i == 0 || (i <= reruns && best > s->limits.memory); i++) {
        int64_t n = latency_order(g, s->cost, &limits, s->use, order, made, &use);
        if (n < best) {
            best = n;
            s->use[g->comp->id] = use;
            memcpy(kept, made, g->count * sizeof *kept);
        }
        limits.memory -= limits.memory / 10 + 1;
    }
    if (best > s->limits.memory && most < best) {
        s->cx->counts.schedules_out_of_memory++;
        return most;
    }
    memcpy(order, kept, g->count * sizeof *order);
    s->cx->counts.schedules_hiding_latency++;
    return best;
}

/* Groups matter where latency.c keeps them together. */
static void find_groups(Scheduler *s)
{
    Graph *g = &s->graph;
    uint32_t n = g->comp->instruction_count, count = 0;
    uint32_t *group = ARENA_ARRAY(g->scratch, uint32_t, (size_t)n + 1);
    const char *const *names;
    if (s->cost != NULL && has_async(g->comp))
        count = groups_number(g->comp, g->scratch, group, &names);
    g->group = count != 0 ? group : NULL;
    g->members = ARENA_ARRAY(g->scratch, Edges, (size_t)count + 1);
    for (uint32_t i = 0; i < n && count != 0; i++) {
        if (group[i] != 0)
            edges_add(g->scratch, &g->members[group[i] - 1], i);
    }
}

static void schedule_computation(Scheduler *s)
{
    Graph *g = &s->graph;
    computation_sort(g->comp);
    if (g->comp->instruction_count == 0)
        return;
    find_groups(s);
    graph_make(g);
    bool overlaps = has_async(g->comp);
    bool hides = s->cost != NULL;
    uint32_t *order = ARENA_ARRAY(g->scratch, uint32_t, g->count);
    int64_t most = overlaps && !hides ? spread_order(g, order) : memory_order(g, order);
    if (overlaps && hides)
        most = hide_latency(s, most, order);
    g->called[g->comp->id] = most;
    take_order(g, order);
}

static int64_t entry_bytes(const Module *m)
{
    const Instruction *root = m->entry->root;
    int64_t n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(root->shape); leaf++)
        n += shape_bytes(shape_leaf(root->shape, leaf));
    for (uint32_t i = 0; i < m->config.input_output_alias.count; i++)
        n -= shape_bytes(
            shape_leaf(root->shape,
                       alias_index_leaf(root->shape,
                                        m->config.input_output_alias.entries[i].output)));
    for (uint32_t p = 0; p < m->entry->parameter_count; p++) {
        const Shape *s = m->entry->parameters[p]->shape;
        for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
            n += shape_bytes(shape_leaf(s, leaf));
    }
    return n;
}

static void set_limits(Scheduler *s, const Module *m)
{
    const PassSettings *set = s->cx->settings;
    s->limits = (LatencyLimits){
        .most = {[RESOURCE_COLLECTIVE] = (uint32_t)set->parallel_collective_overlap_limit,
                 [RESOURCE_COMPUTE] = (uint32_t)set->async_compute_limit,
                 [RESOURCE_COPY] = UINT32_MAX},
        .starts_early = set->collective_start_early != 0 &&
                        set->parallel_collective_overlap_limit > 1,
        .shared_ranks = set->num_communication_streams > 1,
        .memory = set->scheduler_memory_limit_bytes};
    if (s->limits.memory == 0) {
        int64_t memory = (int64_t)s->cx->target->device->memory_gib << 30;
        s->limits.memory = memory / 100 * 76 - entry_bytes(m);
    }
    s->limits.fencing = set->scheduler_memory_fencing_bytes;
    if (s->limits.fencing == 0)
        s->limits.fencing = s->limits.memory > 0 ? s->limits.memory / 100 : 0;
}

/* The name that profiles, traces and errors call an instruction by, however it is renamed. */
static void note_names(Computation *comp)
{
    Arena *a = comp->module->arena;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_CONSTANT || inst->op == OP_PARAMETER)
            continue;
        const Attr *old = inst_attr(inst, ATTR_METADATA);
        Metadata *metadata = ARENA_NEW(a, Metadata);
        if (old != NULL)
            *metadata = *old->metadata;
        metadata->scheduling_name = (Bytes){inst->name, strlen(inst->name)};
        inst_set(inst, (Attr){.id = ATTR_METADATA, .metadata = metadata});
    }
}

bool pass_schedule(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    module_sort(m);
    Scheduler s = {.graph = {.scratch = cx->scratch, .most_steps = GRAPH_STEPS},
                   .cx = cx};
    Computations programs = module_programs(m, cx->scratch);
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    s.graph.called = ARENA_ARRAY(cx->scratch, int64_t, (size_t)m->computation_count + 1);
    s.graph.slices = loop_slices_create(m, cx->scratch);
    s.use = ARENA_ARRAY(cx->scratch, LatencyUse, (size_t)m->computation_count + 1);
    bool any = false;
    for (uint32_t c = 0; c < programs.count; c++)
        any |= has_async(programs.data[c]);
    if (any && cx->settings->latency_hiding && cx->opt_level >= 2)
        s.cost = cost_create(m, cx->target, cx->scratch);
    set_limits(&s, m);
    for (uint32_t c = 0; c < programs.count; c++) {
        s.graph.comp = programs.data[c];
        s.graph.is_body = is_body[s.graph.comp->id];
        schedule_computation(&s);
        note_names(s.graph.comp);
    }
    m->config.is_scheduled = true;
    return true;
}
