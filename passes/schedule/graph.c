/* See graph.h. */
#include "passes/schedule/graph.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/custom_call/custom_call.h"
#include "passes/schedule/in_place.h"

void edges_add(Arena *a, Edges *e, uint32_t x)
{
    e->list = arena_grow(a, e->list, &e->capacity, (size_t)e->count + 1, sizeof x);
    e->list[e->count++] = x;
}

static void add_edge(Graph *s, uint32_t first, uint32_t then)
{
    edges_add(s->scratch, &s->after[first], then);
    edges_add(s->scratch, &s->before[then], first);
    s->waiting[then]++;
}

/* All that `from` leads to by `edges`, itself too, among the ranks first .. last; false: more than
 * may be looked at. */
static bool find_reached(Graph *s, const Edges *edges, uint32_t from, uint32_t first,
                         uint32_t last, Edges *found)
{
    found->count = 0;
    s->search++;
    edges_add(s->scratch, found, from);
    for (uint32_t at = 0; at < found->count; at++) {
        const Edges *next = &edges[found->list[at]];
        for (uint32_t i = 0; i < next->count; i++) {
            uint32_t x = next->list[i];
            if (s->stamp[x] == s->search || s->rank[x] < first || s->rank[x] > last)
                continue;
            s->stamp[x] = s->search;
            edges_add(s->scratch, found, x);
        }
        s->steps += next->count + 1;
        if (s->steps > s->most_steps)
            return false;
    }
    return true;
}

typedef struct Ranked {
    uint32_t rank, x;
} Ranked;

static int by_rank(const void *a, const void *b)
{
    const Ranked *p = a, *q = b;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

/* What leads to an edge's beginning, in its order, and then what its end leads to share the ranks that
 * they have. */
static void rank_anew(Graph *s)
{
    uint32_t n = s->leading.count + s->led.count;
    Ranked *list = ARENA_ARRAY(s->scratch, Ranked, n);
    uint32_t *ranks = ARENA_ARRAY(s->scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        bool leads = i < s->leading.count;
        uint32_t x = leads ? s->leading.list[i] : s->led.list[i - s->leading.count];
        list[i] = (Ranked){s->rank[x], x};
    }
    qsort(list, s->leading.count, sizeof *list, by_rank);
    qsort(list + s->leading.count, s->led.count, sizeof *list, by_rank);
    for (uint32_t i = 0, k = s->leading.count, at = 0; at < n; at++) {
        bool first = k == n || (i < s->leading.count && list[i].rank < list[k].rank);
        ranks[at] = list[first ? i++ : k++].rank;
    }
    for (uint32_t at = 0; at < n; at++)
        s->rank[list[at].x] = ranks[at];
}

/* x, and what stands together with it. */
static void reach(Graph *s, uint32_t x, Edges *found)
{
    if (s->stamp[x] == s->search)
        return;
    const Edges alone = {&x, 1, 1};
    const Edges *all = s->group[x] != 0 ? &s->members[s->group[x] - 1] : &alone;
    for (uint32_t i = 0; i < all->count; i++) {
        s->stamp[all->list[i]] = s->search;
        edges_add(s->scratch, found, all->list[i]);
    }
}

/* With the edge something would have to come between two members of a scheduling group (or finding that out costs
 * too much). Ranks say nothing of groups. */
static bool parts_group(Graph *s, uint32_t first, uint32_t then)
{
    if (s->group == NULL || (s->group[first] != 0 && s->group[first] == s->group[then]))
        return false;
    s->led.count = 0;
    s->search++;
    reach(s, then, &s->led);
    for (uint32_t at = 0; at < s->led.count; at++) {
        const Edges *next = &s->after[s->led.list[at]];
        for (uint32_t i = 0; i < next->count; i++)
            reach(s, next->list[i], &s->led);
        s->steps += next->count + 1;
        if (s->steps > s->most_steps)
            return true;
    }
    return s->stamp[first] == s->search;
}

/* An edge, unless it would close a circle (or finding that out costs too much): false. Ranks are a
 * topological order of what is there (Pearce and Kelly 2006). */
static bool try_edge(Graph *s, uint32_t first, uint32_t then)
{
    if (parts_group(s, first, then))
        return false;
    uint32_t low = s->rank[then], high = s->rank[first];
    if (low < high) {
        if (!find_reached(s, s->after, then, low, high, &s->led) ||
            s->stamp[first] == s->search ||
            !find_reached(s, s->before, first, low, high, &s->leading))
            return false;
        rank_anew(s);
    }
    add_edge(s, first, then);
    return true;
}

/* -- values ----------------------------------------------------------------------------------- */

static bool does_something(const Instruction *inst)
{
    return alias_defines(inst) || op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE);
}

/* A new buffer is there when something is written to it. */
static bool is_made_here(ValueSource v)
{
    return v.inst->op != OP_PARAMETER && v.inst->op != OP_CONSTANT &&
           !custom_call_is_new_buffer(v.inst);
}

static uint32_t leaf_of(const Graph *s, ValueSource v)
{
    return s->first_leaf[v.inst->id] + (uint32_t)v.leaf;
}

static void number_leaves(Graph *s)
{
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        s->first_leaf[i] = leaves;
        leaves += (uint32_t)shape_leaf_count(s->comp->instructions[i]->shape);
    }
    s->leaf_count = leaves;
    s->bytes = ARENA_ARRAY(s->scratch, int64_t, leaves);
    s->buffer = ARENA_ARRAY(s->scratch, uint32_t, leaves);
    s->readers = ARENA_ARRAY(s->scratch, uint32_t, leaves);
    s->last_reader = ARENA_ARRAY(s->scratch, uint32_t, leaves);
    s->reading = ARENA_ARRAY(s->scratch, Edges, leaves);
    for (uint32_t p = 0; p < leaves; p++)
        s->buffer[p] = p;
}

/* Instruction i reads all of `value`. */
static void add_sources(Graph *s, uint32_t i, Instruction *value)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(value->shape); leaf++) {
        uint32_t id = leaf_of(s, value_source(value, leaf));
        if (s->last_reader[id] == i + 1)
            continue;
        s->last_reader[id] = i + 1;
        edges_add(s->scratch, &s->sources[i], id);
        edges_add(s->scratch, &s->reading[id], i);
    }
}

static void find_sources(Graph *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count && does_something(inst); k++)
            add_sources(s, i, inst->operands[k]);
        /* what was started reads until it is done */
        const Instruction *start = inst->operand_count > 0 ? inst->operands[0] : NULL;
        for (uint32_t k = 0; op_is(inst->op, OPF_ASYNC_DONE) && k < start->operand_count;
             k++)
            add_sources(s, i, start->operands[k]);
        /* and has its temporaries; the start's own first leaf stands for them */
        if (inst->op == OP_ASYNC_DONE)
            edges_add(s->scratch, &s->sources[i], s->first_leaf[start->id]);
    }
}

static void find_bytes(Graph *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->comp->instructions[i];
        bool is_ours = (alias_defines(inst) || op_is(inst->op, OPF_CONTROL)) &&
                       is_made_here((ValueSource){s->comp->instructions[i], 0}) &&
                       (s->slices == NULL || loop_slice_of(s->slices, inst) == NULL);
        /* the first leaves of a start are its operands */
        bool starts = op_is(inst->op, OPF_ASYNC_START) && inst->op != OP_COPY_START;
        size_t leaves = shape_leaf_count(inst->shape);
        for (size_t leaf = starts ? async_result_leaf(inst) : 0; leaf < leaves && is_ours;
             leaf++)
            s->bytes[s->first_leaf[i] + leaf] =
                shape_bytes(shape_leaf(inst->shape, leaf));
        if (inst->op == OP_ASYNC_START)
            s->bytes[s->first_leaf[i]] = s->called[inst_called(inst, 0)->id];
    }
}

/* -- edges ------------------------------------------------------------------------------------ */

/* Everyone else reads `value` before `writer` writes over it, if that is possible; false: the value
 * has to be copied. */
static bool read_before(Graph *s, ValueSource value, const Instruction *writer,
                        bool is_carried)
{
    const Edges *reading = &s->reading[leaf_of(s, value)];
    bool possible = true;
    for (uint32_t r = 0; r < reading->count; r++) {
        uint32_t i = reading->list[r];
        const Instruction *inst = s->comp->instructions[i];
        if (inst == writer)
            continue;
        /* rather a copy than no overlap */
        bool overlaps = is_carried && op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE);
        possible &= !overlaps && try_edge(s, i, writer->id);
    }
    return possible;
}

/* The value lies where `from` does, if that may be written: it is made here, or it is an argument
 * whose next value ends up there. */
static void share_buffer(Graph *s, uint32_t id, ValueSource from, const bool *is_chain)
{
    if (!is_made_here(from) && !is_chain[leaf_of(s, from)])
        return;
    s->buffer[id] = s->buffer[leaf_of(s, from)];
    s->bytes[id] = 0;
}

static void visit_update(Graph *s, Instruction *inst, const bool *is_chain)
{
    size_t leaves = shape_leaf_count(inst->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        ValueSource from;
        if (in_place_operand((ValueSource){inst, leaf}, &from) &&
            read_before(s, from, inst, false))
            share_buffer(s, s->first_leaf[inst->id] + (uint32_t)leaf, from, is_chain);
    }
}

/* A loop's values lie where its initial ones do, if nobody else wants those. */
static void visit_loop(Graph *s, const Instruction *loop, const bool *is_chain)
{
    size_t leaves = shape_leaf_count(loop->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        uint32_t id = s->first_leaf[loop->id] + (uint32_t)leaf;
        if (loop_hands_on(loop, leaf)) {
            s->bytes[id] = 0;
            continue;
        }
        ValueSource from = value_source(loop->operands[0], leaf);
        if (read_before(s, from, loop, false))
            share_buffer(s, id, from, is_chain);
    }
}

static void add_edges_of_updates(Graph *s, const bool *is_chain)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Instruction *inst = s->comp->instructions[i];
        if (inst->op == OP_FUSION || inst->op == OP_CUSTOM_CALL ||
            inst->op == OP_ASYNC_START)
            visit_update(s, inst, is_chain);
        else if (inst->op == OP_WHILE)
            visit_loop(s, inst, is_chain);
    }
}

/* Leaves of parameters whose next value is made in place of them. */
static bool *find_chains(Graph *s, const ValueSource *presents)
{
    bool *is_chain = ARENA_ARRAY(s->scratch, bool, s->leaf_count);
    for (size_t leaf = 0; leaf < shape_leaf_count(s->comp->root->shape); leaf++) {
        ValueSource next = value_source(s->comp->root, leaf);
        if (presents[leaf].inst != NULL &&
            value_source_is(in_place_origin(next, true), presents[leaf]))
            is_chain[leaf_of(s, presents[leaf])] = true;
    }
    return is_chain;
}

/* The results: those of a loop's body lie where the present values do, others where the caller says. */
static void add_edges_of_carried(Graph *s, const ValueSource *presents)
{
    size_t leaves = shape_leaf_count(s->comp->root->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        ValueSource present = presents[leaf], next = value_source(s->comp->root, leaf);
        bool follows = is_made_here(next);
        if (present.inst != NULL && follows)
            follows = !op_is(next.inst->op, OPF_ASYNC_START) &&
                      read_before(s, present, next.inst, true);
        if (follows)
            s->bytes[s->buffer[leaf_of(s, next)]] = 0;
    }
}

/* What is read, by buffers: each once. */
static void count_readers(Graph *s)
{
    memset(s->last_reader, 0, s->leaf_count * sizeof *s->last_reader);
    memset(s->reading, 0, s->leaf_count * sizeof *s->reading);
    for (uint32_t i = 0; i < s->count; i++) {
        Edges *sources = &s->sources[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < sources->count; k++) {
            uint32_t buffer = s->buffer[sources->list[k]];
            if (s->last_reader[buffer] == i + 1)
                continue;
            s->last_reader[buffer] = i + 1;
            sources->list[kept++] = buffer;
            edges_add(s->scratch, &s->reading[buffer], i);
            s->readers[buffer]++;
        }
        sources->count = kept;
    }
    for (size_t leaf = 0; leaf < shape_leaf_count(s->comp->root->shape); leaf++)
        s->readers[graph_buffer(s, s->comp->root, leaf)] += 2;
}

void graph_make(Graph *s)
{
    const Computation *comp = s->comp;
    s->count = comp->instruction_count;
    size_t n = s->count;
    s->after = ARENA_ARRAY(s->scratch, Edges, n);
    s->sources = ARENA_ARRAY(s->scratch, Edges, n);
    s->waiting = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->first_leaf = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->stamp = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->before = ARENA_ARRAY(s->scratch, Edges, n);
    s->rank = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->steps = 0;
    s->led = s->leading = (Edges){0};
    for (uint32_t i = 0; i < s->count; i++) {
        s->rank[i] = i;
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count; k++)
            add_edge(s, inst->operands[k]->id, i);
        for (uint32_t k = 0; k < inst->control_count; k++)
            add_edge(s, inst->control[k]->id, i);
    }
    number_leaves(s);
    find_sources(s);
    find_bytes(s);
    const ValueSource *presents = carried_presents(comp, s->is_body, s->scratch);
    add_edges_of_updates(s, find_chains(s, presents));
    add_edges_of_carried(s, presents);
    count_readers(s);
}

/* -- memory ------------------------------------------------------------------------------------ */

int64_t graph_bytes_made(const Graph *s, uint32_t i)
{
    const Instruction *inst = s->comp->instructions[i];
    int64_t n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        n += s->bytes[s->first_leaf[i] + leaf];
    return n;
}

int64_t graph_bytes_freed(const Graph *s, uint32_t i, const uint32_t *readers)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < s->sources[i].count; k++)
        n += readers[s->sources[i].list[k]] == 1 ? s->bytes[s->sources[i].list[k]] : 0;
    return n;
}

int64_t graph_bytes_unread(const Graph *s, uint32_t i)
{
    int64_t n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s->comp->instructions[i]->shape);
         leaf++) {
        uint32_t id = s->first_leaf[i] + (uint32_t)leaf;
        n += s->readers[id] == 0 ? s->bytes[id] : 0;
    }
    return n;
}

int64_t graph_bytes_inside(const Graph *s, const Instruction *inst)
{
    int64_t most = 0;
    for (uint32_t c = 0; op_is(inst->op, OPF_CONTROL) && c < inst_called_count(inst);
         c++) {
        int64_t n = s->called[inst_called(inst, c)->id];
        most = n > most ? n : most;
    }
    return most;
}

uint32_t graph_buffer(const Graph *s, Instruction *value, size_t leaf)
{
    return s->buffer[leaf_of(s, value_source(value, leaf))];
}

void graph_revive(const Graph *s, Instruction *value, size_t leaf, bool *is_live,
                  int64_t *live)
{
    uint32_t id = graph_buffer(s, value, leaf);
    *live += is_live[id] ? 0 : s->bytes[id];
    is_live[id] = true;
}
