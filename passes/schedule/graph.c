/* See graph.h. */
#include "passes/schedule/graph.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/kernel/kind.h"

#define PATH_STEPS (1 << 24) /* of searches for paths, in one computation */

void edges_add(Arena *a, Edges *e, uint32_t x)
{
    e->list = arena_grow(a, e->list, &e->capacity, (size_t)e->count + 1, sizeof x);
    e->list[e->count++] = x;
}

static void add_edge(Graph *s, uint32_t first, uint32_t then)
{
    edges_add(s->scratch, &s->after[first], then);
    s->waiting[then]++;
}

/* Depth first on a stack of its own; gives up, with true, when all searches together cost too
 * much. */
static bool has_path(Graph *s, uint32_t from, uint32_t to)
{
    Edges *stack = &s->stack;
    s->search++;
    stack->count = 0;
    edges_add(s->scratch, stack, from);
    while (stack->count != 0) {
        uint32_t x = stack->list[--stack->count];
        if (x == to || ++s->steps > PATH_STEPS)
            return true;
        if (s->stamp[x] == s->search)
            continue;
        s->stamp[x] = s->search;
        for (uint32_t i = 0; i < s->after[x].count; i++)
            edges_add(s->scratch, stack, s->after[x].list[i]);
    }
    return false;
}

/* -- edges ------------------------------------------------------------------------------------ */

static bool does_something(const Instruction *inst)
{
    return alias_defines(inst) || op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE);
}

/* Everyone else reads `value` before `writer` writes over it, if that is possible. */
static void read_before(Graph *s, ValueSource value, const Instruction *writer,
                        bool is_carried)
{
    uint32_t place = s->place[value.inst->id] + (uint32_t)value.leaf;
    for (uint32_t r = 0; r < s->reading[place].count; r++) {
        uint32_t i = s->reading[place].list[r];
        const Instruction *inst = s->comp->instructions[i];
        if (is_carried && op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE))
            continue; /* rather a copy than no overlap */
        if (inst != writer && !has_path(s, writer->id, i))
            add_edge(s, i, writer->id);
    }
}

static void add_edges_of_updates(Graph *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->comp->instructions[i];
        KernelKind kind = inst->op == OP_FUSION ? kernel_kind_of(inst) : KERNEL_COUNT;
        uint32_t leaves = kind != KERNEL_COUNT ? fusion_result_count(inst) : 0;
        for (uint32_t leaf = 0; leaf < leaves; leaf++) {
            int64_t operand = kernel_in_place(inst, kind, leaf);
            if (operand >= 0)
                read_before(s, value_source(inst->operands[operand], 0), inst, false);
        }
    }
}

static void add_edges_of_carried(Graph *s)
{
    size_t leaves = shape_leaf_count(s->comp->root->shape);
    const ValueSource *presents = carried_presents(s->comp, s->is_body, s->scratch);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        ValueSource present = presents[leaf], next = value_source(s->comp->root, leaf);
        if (present.inst != NULL && next.inst->op != OP_PARAMETER &&
            next.inst->op != OP_CONSTANT && !op_is(next.inst->op, OPF_ASYNC_START))
            read_before(s, present, next.inst, true);
    }
}

/* Instruction i reads all of `value`. */
static void add_sources(Graph *s, uint32_t i, Instruction *value)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(value->shape); leaf++) {
        ValueSource v = value_source(value, leaf);
        uint32_t place = s->place[v.inst->id] + (uint32_t)v.leaf;
        if (s->last_reader[place] == i + 1)
            continue;
        s->last_reader[place] = i + 1;
        edges_add(s->scratch, &s->sources[i], place);
        edges_add(s->scratch, &s->reading[place], i);
        s->readers[place]++;
    }
}

static void find_sources(Graph *s)
{
    const Computation *comp = s->comp;
    uint32_t places = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        s->place[i] = places;
        places += (uint32_t)shape_leaf_count(comp->instructions[i]->shape);
    }
    s->place_count = places;
    s->bytes = ARENA_ARRAY(s->scratch, int64_t, (size_t)places + 1);
    s->readers = ARENA_ARRAY(s->scratch, uint32_t, (size_t)places + 1);
    s->last_reader = ARENA_ARRAY(s->scratch, uint32_t, (size_t)places + 1);
    s->reading = ARENA_ARRAY(s->scratch, Edges, (size_t)places + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = comp->instructions[i];
        size_t leaves = shape_leaf_count(inst->shape);
        bool is_ours =
            alias_defines(inst) && inst->op != OP_PARAMETER && inst->op != OP_CONSTANT;
        /* the first leaves of a start are its operands */
        bool starts = op_is(inst->op, OPF_ASYNC_START) && inst->op != OP_COPY_START;
        size_t first = starts ? async_result_leaf(inst) : 0;
        for (size_t leaf = first; leaf < leaves && is_ours; leaf++)
            s->bytes[s->place[i] + leaf] = shape_bytes(shape_leaf(inst->shape, leaf));
        for (uint32_t k = 0; k < inst->operand_count && does_something(inst); k++)
            add_sources(s, i, inst->operands[k]);
        /* what was started reads until it is done */
        const Instruction *start = inst->operand_count > 0 ? inst->operands[0] : NULL;
        for (uint32_t k = 0; op_is(inst->op, OPF_ASYNC_DONE) && k < start->operand_count;
             k++)
            add_sources(s, i, start->operands[k]);
    }
    for (size_t leaf = 0; leaf < shape_leaf_count(comp->root->shape); leaf++) {
        ValueSource v = value_source(comp->root, leaf);
        s->readers[s->place[v.inst->id] + v.leaf] += 2;
    }
}

void graph_make(Graph *s)
{
    const Computation *comp = s->comp;
    s->count = comp->instruction_count;
    size_t n = (size_t)s->count + 1;
    s->after = ARENA_ARRAY(s->scratch, Edges, n);
    s->sources = ARENA_ARRAY(s->scratch, Edges, n);
    s->waiting = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->place = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->stamp = ARENA_ARRAY(s->scratch, uint32_t, n);
    s->search = s->steps = 0;
    s->stack = (Edges){0};
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count; k++)
            add_edge(s, inst->operands[k]->id, i);
        for (uint32_t k = 0; k < inst->control_count; k++)
            add_edge(s, inst->control[k]->id, i);
    }
    find_sources(s);
    add_edges_of_updates(s);
    add_edges_of_carried(s);
}

/* -- memory ------------------------------------------------------------------------------------ */

int64_t graph_bytes_made(const Graph *s, uint32_t i)
{
    const Instruction *inst = s->comp->instructions[i];
    int64_t n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        n += s->bytes[s->place[i] + leaf];
    return n;
}

int64_t graph_bytes_freed(const Graph *s, uint32_t i, const uint32_t *readers)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < s->sources[i].count; k++)
        n += readers[s->sources[i].list[k]] == 1 ? s->bytes[s->sources[i].list[k]] : 0;
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

void graph_revive(const Graph *s, Instruction *value, size_t leaf, bool *is_live,
                  int64_t *live)
{
    ValueSource v = value_source(value, leaf);
    uint32_t place = s->place[v.inst->id] + (uint32_t)v.leaf;
    *live += is_live[place] ? 0 : s->bytes[place];
    is_live[place] = true;
}
