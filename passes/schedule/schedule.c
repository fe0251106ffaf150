/* Fixes the order of execution.
 *
 *   u = f(p)  v = in_place_update(p)      (p dies here)
 *   ->  u first: afterwards p's buffer holds v, and no copy is needed
 *
 * Where something is asynchronous it starts as early as its operands are there, and is waited
 * for as late as possible. Otherwise two orders are made of each computation and the one that
 * needs less memory is taken: the order that the instructions have, and one that prefers at each
 * step what frees most. All keep operands and control predecessors first, and read a value that
 * is replaced in place - by an update, or by the next step of a loop or the donated result -
 * before that happens, where this is possible at all.
 *
 * Needs: fused. Keeps: everything. Yields: is_scheduled. Ends: one sweep. */
#include "passes/schedule/schedule.h"

#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/analysis/emitter.h"

#define GREEDY_MOST 4096     /* instructions; longer computations keep their order */
#define PATH_STEPS (1 << 24) /* of searches for paths, in one computation */

typedef struct Edges {
    uint32_t *list;
    uint32_t count;
    size_t capacity;
} Edges;

typedef struct Schedule {
    Arena *scratch;
    Computation *comp;
    bool is_body;
    uint32_t count;
    Edges *after;      /* [count] what must come after it, each once or more often */
    uint32_t *waiting; /* [count] how many edges lead to it */
    uint32_t *place;   /* [count] number of leaf 0 */
    int64_t *bytes;    /* [places] of values made here; 0: not ours */
    Edges *sources;    /* [count] places that it reads */
    Edges *reading;    /* [places] what reads it */
    uint32_t *readers; /* [places] instructions that read it; the root counts twice */
    int64_t *called;   /* [computations] bytes that run inside a call of it */
    uint32_t *stamp;   /* [count] of the search that has seen it */
    uint32_t *rank; /* [count] of what is ready the lowest goes first; NULL: all equal */
    uint32_t search, steps;
} Schedule;

static void add(Schedule *s, Edges *e, uint32_t x)
{
    e->list =
        arena_grow(s->scratch, e->list, &e->capacity, (size_t)e->count + 1, sizeof x);
    e->list[e->count++] = x;
}

static void add_edge(Schedule *s, uint32_t first, uint32_t then)
{
    add(s, &s->after[first], then);
    s->waiting[then]++;
}

/* Depth first on a stack of its own; gives up, with true, when all searches together cost too
 * much. */
static bool has_path(Schedule *s, uint32_t from, uint32_t to)
{
    Edges stack = {0};
    s->search++;
    add(s, &stack, from);
    while (stack.count != 0) {
        uint32_t x = stack.list[--stack.count];
        if (x == to || ++s->steps > PATH_STEPS)
            return true;
        if (s->stamp[x] == s->search)
            continue;
        s->stamp[x] = s->search;
        for (uint32_t i = 0; i < s->after[x].count; i++)
            add(s, &stack, s->after[x].list[i]);
    }
    return false;
}

/* -- edges ------------------------------------------------------------------------------------ */

static bool does_something(const Instruction *inst)
{
    return alias_defines(inst) || op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE);
}

/* Everyone else reads `value` before `writer` writes over it, if that is possible. */
static void read_before(Schedule *s, ValueSource value, const Instruction *writer,
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

static void add_edges_of_updates(Schedule *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->comp->instructions[i];
        EmitterKind kind = inst->op == OP_FUSION ? emitter_of(inst) : EMITTER_COUNT;
        uint32_t leaves = kind != EMITTER_COUNT ? emitter_result_count(inst) : 0;
        for (uint32_t leaf = 0; leaf < leaves; leaf++) {
            int64_t operand = emitter_in_place(inst, kind, leaf);
            if (operand >= 0)
                read_before(s, value_source(inst->operands[operand], 0), inst, false);
        }
    }
}

static void add_edges_of_carried(Schedule *s)
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
static void add_sources(Schedule *s, uint32_t i, Instruction *value)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(value->shape); leaf++) {
        ValueSource v = value_source(value, leaf);
        uint32_t place = s->place[v.inst->id] + (uint32_t)v.leaf;
        bool known = false;
        for (uint32_t j = 0; j < s->sources[i].count && !known; j++)
            known = s->sources[i].list[j] == place;
        if (known)
            continue;
        add(s, &s->sources[i], place);
        add(s, &s->reading[place], i);
        s->readers[place]++;
    }
}

static void find_sources(Schedule *s)
{
    const Computation *comp = s->comp;
    uint32_t places = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        s->place[i] = places;
        places += (uint32_t)shape_leaf_count(comp->instructions[i]->shape);
    }
    s->bytes = ARENA_ARRAY(s->scratch, int64_t, (size_t)places + 1);
    s->readers = ARENA_ARRAY(s->scratch, uint32_t, (size_t)places + 1);
    s->reading = ARENA_ARRAY(s->scratch, Edges, (size_t)places + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = comp->instructions[i];
        size_t leaves = shape_leaf_count(inst->shape);
        bool is_ours =
            alias_defines(inst) && inst->op != OP_PARAMETER && inst->op != OP_CONSTANT;
        for (size_t leaf = 0; leaf < leaves && is_ours; leaf++)
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

static void make_graph(Schedule *s)
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

/* -- orders -------------------------------------------------------------------------------------- */

/* Bytes that appear when the instruction runs, and those that nobody needs afterwards. */
static int64_t bytes_made(const Schedule *s, uint32_t i)
{
    const Instruction *inst = s->comp->instructions[i];
    int64_t n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        n += s->bytes[s->place[i] + leaf];
    return n;
}

static int64_t bytes_freed(const Schedule *s, uint32_t i, const uint32_t *readers)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < s->sources[i].count; k++)
        n += readers[s->sources[i].list[k]] == 1 ? s->bytes[s->sources[i].list[k]] : 0;
    return n;
}

static int64_t bytes_inside(const Schedule *s, const Instruction *inst)
{
    int64_t most = 0;
    for (uint32_t c = 0; op_is(inst->op, OPF_CONTROL) && c < inst_called_count(inst);
         c++) {
        int64_t n = s->called[inst_called(inst, c)->id];
        most = n > most ? n : most;
    }
    return most;
}

/* Place in the order among what is ready. */
static uint64_t key(const Schedule *s, uint32_t x)
{
    return s->rank == NULL ? x : (uint64_t)s->rank[x] << 32 | x;
}

/* Communication beside computation: what a start needs and the starts first, dones when there is
 * nothing else to do. False: nothing is asynchronous here. */
static bool rank_by_overlap(Schedule *s)
{
    enum { NEEDED, OTHER, LAST };
    s->rank = ARENA_ARRAY(s->scratch, uint32_t, (size_t)s->count + 1);
    bool any = false;
    for (uint32_t i = s->count; i-- > 0;) { /* users come after what they use */
        const Instruction *inst = s->comp->instructions[i];
        bool starts = op_is(inst->op, OPF_ASYNC_START);
        bool needed = starts;
        any |= starts;
        for (uint32_t k = 0; k < s->after[i].count && !needed; k++)
            needed =
                s->after[i].list[k] > i && s->rank[s->after[i].list[k]] == NEEDED &&
                !op_is(s->comp->instructions[s->after[i].list[k]]->op, OPF_ASYNC_DONE);
        s->rank[i] = op_is(inst->op, OPF_ASYNC_DONE) ? LAST : needed ? NEEDED : OTHER;
    }
    if (!any)
        s->rank = NULL;
    return any;
}

/* A topological order: the ready instruction of the lowest key, or the one that frees most.
 * Returns the most bytes that live at one time. */
static int64_t make_order(const Schedule *s, bool greedy, uint32_t *order)
{
    Arena *a = s->scratch;
    size_t places =
        s->count == 0 ? 0
                      : s->place[s->count - 1] +
                            shape_leaf_count(s->comp->instructions[s->count - 1]->shape);
    uint32_t *waiting = ARENA_ARRAY(a, uint32_t, (size_t)s->count + 1);
    uint32_t *readers = ARENA_ARRAY(a, uint32_t, places + 1);
    uint32_t *ready = ARENA_ARRAY(a, uint32_t, (size_t)s->count + 1);
    memcpy(waiting, s->waiting, s->count * sizeof *waiting);
    memcpy(readers, s->readers, places * sizeof *readers);
    uint32_t ready_count = 0;
    int64_t live = 0, most = 0;
    /* ready is a heap of numbers; the greedy order looks at all of it */
    for (uint32_t i = 0; i < s->count; i++) {
        if (waiting[i] != 0)
            continue;
        uint32_t up = ready_count++;
        for (; up > 0 && key(s, ready[(up - 1) / 2]) > key(s, i); up = (up - 1) / 2)
            ready[up] = ready[(up - 1) / 2];
        ready[up] = i;
    }
    for (uint32_t done = 0; done < s->count; done++) {
        uint32_t best = 0;
        int64_t best_gain = INT64_MIN;
        for (uint32_t i = 0; i < ready_count && greedy; i++) {
            uint32_t x = ready[i];
            int64_t gain = bytes_freed(s, x, readers) - bytes_made(s, x);
            if (gain > best_gain || (gain == best_gain && x < ready[best])) {
                best = i;
                best_gain = gain;
            }
        }
        uint32_t x = ready[best];
        /* take it out of the heap: the last one goes down from its place, or up */
        uint32_t last = ready[--ready_count], at = best;
        while (at > 0 && ready_count > at && key(s, ready[(at - 1) / 2]) > key(s, last)) {
            ready[at] = ready[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        for (;;) {
            uint32_t child = 2 * at + 1;
            if (child >= ready_count)
                break;
            child += child + 1 < ready_count &&
                     key(s, ready[child + 1]) < key(s, ready[child]);
            if (key(s, ready[child]) >= key(s, last))
                break;
            ready[at] = ready[child];
            at = child;
        }
        if (ready_count != 0)
            ready[at] = last;
        order[done] = x;
        live += bytes_made(s, x);
        int64_t now = live + bytes_inside(s, s->comp->instructions[x]);
        most = now > most ? now : most;
        live -= bytes_freed(s, x, readers);
        for (uint32_t k = 0; k < s->sources[x].count; k++)
            readers[s->sources[x].list[k]]--;
        for (uint32_t k = 0; k < s->after[x].count; k++) {
            uint32_t y = s->after[x].list[k];
            if (--waiting[y] != 0)
                continue;
            uint32_t up = ready_count++;
            for (; up > 0 && key(s, ready[(up - 1) / 2]) > key(s, y); up = (up - 1) / 2)
                ready[up] = ready[(up - 1) / 2];
            ready[up] = y;
        }
    }
    return most;
}

static void take_order(Schedule *s, const uint32_t *order)
{
    Computation *comp = s->comp;
    Instruction **old =
        arena_copy(s->scratch, comp->instructions, s->count * sizeof *old);
    for (uint32_t i = 0; i < s->count; i++)
        comp->instructions[i] = old[order[i]];
    computation_compact(comp);
}

static void schedule_computation(Schedule *s)
{
    computation_sort(s->comp);
    if (s->comp->instruction_count == 0)
        return;
    make_graph(s);
    uint32_t *order = ARENA_ARRAY(s->scratch, uint32_t, s->count);
    s->rank = NULL;
    bool overlaps = rank_by_overlap(s);
    int64_t most = make_order(s, false, order);
    if (!overlaps && s->count <= GREEDY_MOST) {
        uint32_t *other = ARENA_ARRAY(s->scratch, uint32_t, s->count);
        int64_t most_greedy = make_order(s, true, other);
        if (most_greedy < most) {
            most = most_greedy;
            order = other;
        }
    }
    s->called[s->comp->id] = most;
    take_order(s, order);
}

bool pass_schedule(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    module_sort(m);
    Schedule s = {.scratch = cx->scratch};
    const bool *is_program = module_programs(m, cx->scratch);
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    s.called = ARENA_ARRAY(cx->scratch, int64_t, (size_t)m->computation_count + 1);
    for (uint32_t c = 0; c < m->computation_count; c++) {
        if (!is_program[c])
            continue;
        s.comp = m->computations[c];
        s.is_body = is_body[c];
        schedule_computation(&s);
    }
    m->config.is_scheduled = true;
    return true;
}
