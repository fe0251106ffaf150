/* Loops: how often they run, and which of the values that they carry are needed.
 *
 *   while(t), condition: t.0 < 5, body: t.0 + 1, with t.0 = 0 at first
 *     =>  backend_config={"known_trip_count":{"n":"5"},...}; none or one trip: no loop at all
 *   a value that the body passes on unchanged  =>  read from outside; a constant or iota: inside, too
 *   a value that nothing needs                 =>  not carried any more
 *
 * Needs: nothing. Keeps: the order of effects. Breaks: nothing; pass_dce removes what is left.
 * Ends: each change removes a carried value, a loop, or a missing trip count. */

#include "ir/analysis/loop.h"
#include "ir/attribute/config.h"
#include "passes/simplify/simplify.h"

enum {
    UNROLL_TRIPS = 8,
    UNROLL_INSTRUCTIONS = 640, /* of all trips together: what one kernel takes well */
};

static Computation *called(const Instruction *inst, AttrId id)
{
    return inst_attr(inst, id)->computations.data[0];
}

static bool annotate_trips(Instruction *inst, const Induction *v)
{
    if (!config_is_open(inst) || config_has(inst, CONFIG_TRIP_COUNT))
        return false;
    loop_set_induction(inst, v);
    return true;
}

/* -- carried values -------------------------------------------------------------------- */

/* How often each computation is called, of those there were when the pass began. */
typedef struct CallCounts {
    uint32_t *of;
    uint32_t count;
} CallCounts;

/* A copy of the instruction is about to be made: its callees get one more caller. */
static void count_calls_again(const Instruction *inst, CallCounts calls)
{
    for (uint32_t k = 0; inst && k < inst_called_count(inst); k++)
        if (inst_called(inst, k)->id < calls.count)
            calls.of[inst_called(inst, k)->id]++;
}

/* A loop shares its computations with no other caller before they are changed. */
static void own_computations(Loop *loop, CallCounts calls)
{
    static const AttrId ids[2] = {ATTR_CONDITION, ATTR_BODY};
    for (int k = 0; k < 2; k++) {
        Computation *comp = called(loop->inst, ids[k]);
        if (calls.of[comp->id] < 2)
            continue;
        calls.of[comp->id]--;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            count_calls_again(inst, calls);
        inst_set_computation(loop->inst, ids[k], computation_clone(comp, NULL));
    }
    loop->condition = called(loop->inst, ATTR_CONDITION);
    loop->body = called(loop->inst, ATTR_BODY);
}

/* A value that costs less to make in every trip than to read: a small constant, a splat, or an iota. */
static bool is_cheap_value(const Instruction *inst)
{
    if (inst->op == OP_IOTA)
        return inst->control_count == 0 && !shape_is_dynamic(inst->shape);
    if (inst->op == OP_BROADCAST)
        inst = inst->operands[0]->op == OP_CONSTANT &&
                       shape_is_scalar(inst->operands[0]->shape)
                   ? inst->operands[0]
                   : inst;
    return inst->op == OP_CONSTANT && inst->literal && shape_is_array(inst->shape) &&
           !inst->literal->elided && inst->literal->count <= 16;
}

static Instruction *value_again(Computation *comp, const Instruction *value)
{
    if (value->op == OP_CONSTANT)
        return computation_add_constant(comp, value->literal, NULL);
    if (value->op == OP_IOTA)
        return computation_add_like(comp, value, value->shape, 0, NULL);
    Instruction *scalar =
        computation_add_constant(comp, value->operands[0]->literal, NULL);
    return computation_add_like(comp, value, value->shape, 1, &scalar);
}

/* Reads of invariant elements that are cheap values become those values; the root, which
 * passes them on, stays. */
static bool sink_into(Computation *comp, const Loop *loop, const bool *cheap,
                      Arena *scratch)
{
    uint32_t n = comp->instruction_count;
    Instruction **by = ARENA_ARRAY(scratch, Instruction *, n);
    bool changed = false;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; inst && inst != comp->root && k < inst->operand_count; k++) {
            Instruction *read = inst->operands[k];
            int64_t element = read->id < n ? loop_element(comp, read) : -1;
            if (element < 0 || !cheap[element] ||
                loop->init->operands[element]->shape != read->shape)
                continue;
            if (!by[read->id])
                by[read->id] = value_again(comp, loop->init->operands[element]);
            inst->operands[k] = by[read->id];
            changed = true;
        }
    }
    if (changed)
        computation_sort(comp);
    return changed;
}

static bool sink_constants(Loop *loop, Arena *scratch)
{
    bool *cheap = ARENA_ARRAY(scratch, bool, loop->count), any = false;
    for (uint32_t i = 0; i < loop->count; i++) {
        cheap[i] = loop_is_invariant(loop, i) && is_cheap_value(loop->init->operands[i]);
        any |= cheap[i];
    }
    if (!any)
        return false;
    bool changed = sink_into(loop->condition, loop, cheap, scratch);
    return sink_into(loop->body, loop, cheap, scratch) || changed;
}

/* Marks, once each, what is read by instructions that are needed. */
typedef struct Marker {
    const Computation *comp;
    bool *live;          /* by id */
    Instruction **stack; /* live ones whose operands are still to be marked */
    uint32_t top;
} Marker;

static Marker marker_create(const Computation *comp, Arena *scratch)
{
    size_t count = (size_t)comp->instruction_count + 1;
    return (Marker){.comp = comp,
                    .live = ARENA_ARRAY(scratch, bool, count),
                    .stack = ARENA_ARRAY(scratch, Instruction *, count)};
}

static void marker_push(Marker *mark, Instruction *inst)
{
    if (mark->live[inst->id])
        return;
    mark->live[inst->id] = true;
    mark->stack[mark->top++] = inst;
}

static void marker_push_effects(Marker *mark, const Effects *has_effect)
{
    for (Instruction *inst = inst_first(mark->comp); inst; inst = inst_next(inst)) {
        if (!simplify_is_pure(inst, has_effect))
            marker_push(mark, inst);
    }
}

/* A live instruction whose operands are now marked; NULL when all are. */
static Instruction *marker_next(Marker *mark)
{
    if (mark->top == 0)
        return NULL;
    Instruction *inst = mark->stack[--mark->top];
    for (uint32_t k = 0; k < inst->operand_count; k++)
        marker_push(mark, inst->operands[k]);
    for (uint32_t k = 0; k < inst->control_count; k++)
        marker_push(mark, inst->control[k]);
    return inst;
}

/* Elements whose value the program needs: used behind the loop, by the condition, by an
 * effect, or for the next value of a needed one. */
static void find_needed(const Loop *loop, const bool *used, const Effects *has_effect,
                        bool *needed, Arena *scratch)
{
    Marker condition = marker_create(loop->condition, scratch),
           body = marker_create(loop->body, scratch);
    Instruction *const *next = loop->body->root->operands;
    marker_push(&condition, loop->condition->root);
    marker_push_effects(&condition, has_effect);
    for (Instruction *inst; (inst = marker_next(&condition)) != NULL;) {
        int64_t element = loop_element(loop->condition, inst);
        if (element >= 0)
            needed[element] = true;
    }
    marker_push_effects(&body, has_effect);
    for (uint32_t i = 0; i < loop->count; i++) {
        needed[i] |= used[i];
        if (needed[i])
            marker_push(&body, next[i]);
    }
    for (Instruction *inst; (inst = marker_next(&body)) != NULL;) {
        int64_t element = loop_element(loop->body, inst);
        if (element >= 0) {
            needed[element] = true;
            marker_push(&body, next[element]);
        }
    }
}

/* Elements of the result that are read behind the loop; false if it is used as a whole. */
static bool find_used(const Loop *loop, Uses uses, bool *used)
{
    const Instruction *inst = loop->inst;
    if (inst->parent->root == inst)
        return false;
    for (uint32_t i = uses.start[inst->id]; i < uses.start[inst->id + 1]; i++) {
        if (uses.list[i]->op != OP_GET_TUPLE_ELEMENT)
            return false;
        used[inst_int(uses.list[i], ATTR_INDEX, 0)] = true;
    }
    return true;
}

static const Shape *kept_shape(const Loop *loop, const bool *keep)
{
    const Shape **shapes =
        ARENA_ARRAY(loop->inst->parent->module->arena, const Shape *, loop->count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->count; i++)
        if (keep[i])
            shapes[n++] = loop->inst->shape->elements[i];
    return shape_tuple(loop->inst->parent->module->intern, n, shapes);
}

/* Element numbers of the reads of `tuple` after the removal. */
static void renumber(Computation *comp, const Instruction *tuple, const bool *keep,
                     const uint32_t *position)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0] != tuple)
            continue;
        int64_t index = inst_int(inst, ATTR_INDEX, 0);
        if (keep[index])
            inst_set_int(inst, ATTR_INDEX, position[index]);
        else
            computation_remove(comp, inst);
    }
}

/* Removes the instructions that only the dropped elements needed. */
static void drop_unneeded(Computation *comp, const Effects *has_effect, Arena *scratch)
{
    Marker mark = marker_create(comp, scratch);
    marker_push(&mark, comp->root);
    marker_push_effects(&mark, has_effect);
    while (marker_next(&mark) != NULL)
        continue;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!mark.live[inst->id] && inst->op != OP_PARAMETER)
            computation_remove(comp, inst);
    }
}

static Instruction *kept_tuple(Instruction *tuple, const Shape *shape, const bool *keep)
{
    Instruction **operands =
        ARENA_ARRAY(tuple->parent->module->arena, Instruction *, tuple->operand_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < tuple->operand_count; i++)
        if (keep[i])
            operands[n++] = tuple->operands[i];
    Instruction *t = computation_add(tuple->parent, OP_TUPLE, shape, n, operands, NULL);
    t->span = tuple->span;
    return t;
}

static void remove_elements(Loop *loop, const bool *keep, const Effects *has_effect,
                            Arena *scratch)
{
    uint32_t *position = ARENA_ARRAY(scratch, uint32_t, loop->count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        position[i] = n;
        n += keep[i];
    }
    const Shape *shape = kept_shape(loop, keep);
    loop->body->root = kept_tuple(loop->body->root, shape, keep);
    drop_unneeded(loop->body, has_effect, scratch);
    drop_unneeded(loop->condition, has_effect, scratch);
    Computation *both[2] = {loop->condition, loop->body};
    for (int k = 0; k < 2; k++) {
        renumber(both[k], both[k]->parameters[0], keep, position);
        both[k]->parameters[0]->shape = shape;
        inst_forget_shape_facts(both[k]->parameters[0]);
        computation_sort(both[k]);
    }
    Instruction *inst = loop->inst;
    inst->operands[0] = kept_tuple(loop->init, shape, keep);
    renumber(inst->parent, inst, keep, position);
    inst->shape = shape;
    inst_forget_shape_facts(inst);
    if (config_has(inst, CONFIG_LOOP_INDEX))
        loop_forget_induction(inst); /* it may have moved */
}

/* Reads of an invariant element behind the loop become what went into it, but for those that others wait for: they wait for
 * the loop. */
static bool bypass_invariants(const Loop *loop, Instruction **forward, Arena *scratch)
{
    Computation *comp = loop->inst->parent;
    const bool *is_awaited = simplify_awaited(comp, scratch);
    bool changed = false;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0] != loop->inst)
            continue;
        int64_t index = inst_int(inst, ATTR_INDEX, 0);
        Instruction *init = loop->init->operands[index];
        if (loop_is_invariant(loop, (uint32_t)index) && init->shape == inst->shape &&
            !forward[inst->id] && inst->control_count == 0 &&
            (is_awaited == NULL || !is_awaited[inst->id])) {
            forward[inst->id] = init;
            changed = true;
        }
    }
    return changed;
}

/* A body that becomes a part of one kernel: it only computes element by element, moves, and reads
 * at an index, as the binary search for a single number does. */
static bool is_one_kernel(const Computation *body)
{
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (inst->op == OP_PARAMETER || inst->op == OP_CONSTANT || inst->op == OP_TUPLE ||
            inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_IOTA)
            continue;
        bool simple = op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_BROADCAST ||
                      inst->op == OP_RESHAPE || inst->op == OP_SLICE ||
                      inst->op == OP_DYNAMIC_SLICE;
        if (!simple || inst->control_count > 0)
            return false;
    }
    return true;
}

/* No trip: the initial values. One, or a few of a small body: calls of the body one after the
 * other, which are inlined next. */
static bool unroll(const Loop *loop, int64_t trip_count)
{
    Instruction *inst = loop->inst;
    Computation *comp = inst->parent;
    bool small = trip_count <= UNROLL_TRIPS &&
                 trip_count * loop->body->instruction_count <= UNROLL_INSTRUCTIONS;
    if (trip_count > 1 && (!small || !is_one_kernel(loop->body)))
        return false;
    if (loop->init->shape != inst->shape || loop->body->root->shape != inst->shape)
        return false;
    if (trip_count == 0 && inst->control_count > 0)
        return false; /* what waits for it waits for what it waits for */
    Instruction *by = loop->init;
    for (int64_t i = 0; i < trip_count; i++) {
        by = computation_add(comp, OP_CALL, inst->shape, 1, &by, NULL);
        inst_set_computation(by, ATTR_TO_APPLY, loop->body);
        by->span = inst->span;
        by->control = i == 0 ? inst->control : NULL;
        by->control_count = i == 0 ? inst->control_count : 0;
    }
    computation_replace_one(comp, inst, by);
    computation_remove(comp, inst);
    return true;
}

/* Drops the values that nothing needs. */
static bool drop_elements(Loop *loop, const Effects *has_effect, Arena *scratch)
{
    bool *used = ARENA_ARRAY(scratch, bool, loop->count);
    bool *needed = ARENA_ARRAY(scratch, bool, loop->count);
    if (!find_used(loop, uses_compute(loop->inst->parent, scratch), used))
        return false;
    find_needed(loop, used, has_effect, needed, scratch);
    for (uint32_t i = 0; i < loop->count; i++)
        if (!needed[i]) {
            remove_elements(loop, needed, has_effect, scratch);
            return true;
        }
    return false;
}

static bool simplify_loop(Loop *loop, CallCounts calls, const Effects *has_effect,
                          Arena *scratch)
{
    Computation *comp = loop->inst->parent;
    Induction v;
    if (loop_induction(loop, &v) && unroll(loop, v.trips))
        return true;
    own_computations(loop, calls);
    bool changed = sink_constants(loop, scratch);
    Instruction **forward = ARENA_ARRAY(scratch, Instruction *, comp->instruction_count);
    if (bypass_invariants(loop, forward, scratch)) {
        computation_replace(comp, forward);
        changed = true;
    }
    changed |= drop_elements(loop, has_effect, scratch);
    if (loop_analyse(loop->inst, loop) && loop_induction(loop, &v))
        changed |= annotate_trips(loop->inst, &v);
    return changed;
}

/* Counts that the text claims are another compiler's: they may be wrong for these arguments,
 * or hold for a loop that was changed since. Only what follows from the loop itself stays. */
bool pass_trip_counts(Module *m, PassContext *cx)
{
    (void)cx;
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            Loop loop;
            Induction v;
            if (inst->op != OP_WHILE)
                continue;
            if (config_has(inst, CONFIG_TRIP_COUNT)) {
                loop_forget_induction(inst);
                changed = true;
            }
            if (loop_analyse(inst, &loop) && loop_induction(&loop, &v))
                changed |= annotate_trips(inst, &v);
        }
    }
    return changed;
}

bool pass_loops(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    bool changed = false;
    uint32_t computations = m->computation_count;
    CallCounts calls = {module_call_counts(m, cx->scratch), computations};
    const Effects *has_effect = simplify_effects(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp && comp->id < computations;
         comp = comp_next(comp)) {
        bool here = false;
        for (uint32_t i = 0; i < comp->instruction_count; i++) {
            Instruction *inst = comp->instructions[i]; /* unrolling sorts */
            Loop loop;
            if (inst && inst->op == OP_WHILE && inst->id == i &&
                loop_analyse(inst, &loop) && loop.condition->id < computations &&
                loop.body->id < computations)
                here |= simplify_loop(&loop, calls, has_effect, cx->scratch);
        }
        if (here)
            computation_sort(comp);
        changed |= here;
    }
    if (changed)
        module_sort(m);
    return changed;
}
