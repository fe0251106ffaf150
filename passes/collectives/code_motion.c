/* All-reduces that only feed accumulators of a loop are done once, after the loop.
 *
 *   body (p) { s = all-reduce(g), to_apply=add   a' = add(p#1, s)   ROOT (.., a') }
 *   w = while((.., A))   r = w#1
 *   ->  body (p) { a' = add(p#1, g)   ROOT (.., a') }
 *       w = while((.., 0))   r = add(all-reduce(w#1), A)
 *
 * Sums commute with what is linear and the same on all devices of the group: between the
 * all-reduce and the addition there may be widening conversions, reshapes, transposes, slices,
 * broadcasts, multiplication by a replicated value, select(replicated, x, 0). The accumulator
 * may also be a slice of one that is written back to the same, replicated place. Nobody else
 * may look at it, in body or condition.
 *
 * The same for results that are only stored, one step's beside the other's:
 *
 *   body { s = all-reduce(x)  b' = dynamic-update-slice(p#1, s, i, 0)   ROOT (i + 1, b') }
 *   ->  body stores x; after the loop  r = all-reduce(w#1[0:n])
 *
 * where i counts from 0 by 1 to a known n, every step writes a place of its own (its index is
 * i or n - 1 - i, the others are constants), and all of it is no larger than a limit: more
 * would not be there early enough for anybody. Any reduction: each element is reduced as before.
 *
 * Loops inside loops: callees come first and the result has the form again that the outer
 * loop asks for, so one sweep hoists through all of them.
 *
 * Needs: nothing. Keeps: values, up to the order of additions. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"

enum { CHAIN_MOST = 64, REPLICATED_DEPTH = 64 };

/* An accumulator: element `index` of the loop. */
typedef struct Accumulator {
    uint32_t index;
    Instruction *reduce; /* the all-reduce whose operand it is to take */
    Instruction *update; /* what stores it, if it is stored and not added */
    uint32_t dimension;  /* of the update: the one that counts steps */
} Accumulator;

typedef struct Motion {
    Module *m;
    Arena *scratch;
    Computation *body, *condition;
    Computation *caller;
    Instruction *loop;
    int64_t trips, most_bytes; /* -1: not known; limit of stored results */
    Uses uses;                 /* of the body */
    Accumulator *found;
    uint32_t count;
    uint8_t *replicated; /* by element: 0 not asked, 1 assumed or known, 2 not */
    bool *read_by_condition;
    Instruction **element; /* by element: its get-tuple-element, if there is just one */
} Motion;

/* -- the loop ---------------------------------------------------------------------------- */

static uint32_t user_count(const Motion *c, const Instruction *inst)
{
    return c->uses.start[inst->id + 1] - c->uses.start[inst->id];
}

static Instruction *user(const Motion *c, const Instruction *inst, uint32_t i)
{
    return c->uses.list[c->uses.start[inst->id] + i];
}

/* Elements of the parameter; false if it is used as a whole. */
static bool find_elements(Motion *c)
{
    const Instruction *p = c->body->parameters[0];
    uint32_t n = p->shape->rank;
    c->element = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    c->replicated = ARENA_ARRAY(c->scratch, uint8_t, (size_t)n + 1);
    c->read_by_condition = ARENA_ARRAY(c->scratch, bool, (size_t)n + 1);
    bool *twice = ARENA_ARRAY(c->scratch, bool, (size_t)n + 1);
    for (uint32_t i = 0; i < user_count(c, p); i++) {
        Instruction *e = user(c, p, i);
        if (e->op != OP_GET_TUPLE_ELEMENT)
            return false;
        uint32_t k = (uint32_t)inst_int(e, ATTR_INDEX, 0);
        twice[k] |= c->element[k] != NULL;
        c->element[k] = e;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (twice[k])
            c->element[k] = NULL;
    }
    const Instruction *q = c->condition->parameters[0];
    for (uint32_t i = 0; i < c->condition->instruction_count; i++) {
        const Instruction *inst = c->condition->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++) {
            if (inst->operands[k] != q)
                continue;
            if (inst->op != OP_GET_TUPLE_ELEMENT)
                return false;
            c->read_by_condition[inst_int(inst, ATTR_INDEX, 0)] = true;
        }
    }
    return c->body->root->op == OP_TUPLE;
}

/* -- replicated values ------------------------------------------------------------------------ */

static bool is_replicated(Motion *c, const Instruction *inst, int depth);

/* The same on all devices in every iteration: its first value is a constant and each next one
 * is made of such. Assumed while it is being proved. */
static bool is_element_replicated(Motion *c, uint32_t i, int depth)
{
    if (c->replicated[i] != 0)
        return c->replicated[i] == 1;
    c->replicated[i] = 1;
    const Instruction *init = c->loop->operands[0], *next = c->body->root->operands[i];
    bool known = init->op == OP_TUPLE;
    const Instruction *first = known ? init->operands[i] : NULL;
    while (known && (first->op == OP_BROADCAST || first->op == OP_RESHAPE ||
                     first->op == OP_COPY || first->op == OP_CONVERT))
        first = first->operands[0];
    known = known && (first->op == OP_CONSTANT || first->op == OP_IOTA) &&
            is_replicated(c, next, depth + 1);
    if (!known)
        c->replicated[i] = 2;
    return known;
}

static bool is_replicated(Motion *c, const Instruction *inst, int depth)
{
    if (depth > REPLICATED_DEPTH)
        return false;
    if (inst->op == OP_CONSTANT || inst->op == OP_IOTA)
        return true;
    if (inst->op == OP_GET_TUPLE_ELEMENT && inst->operands[0] == c->body->parameters[0])
        return is_element_replicated(c, (uint32_t)inst_int(inst, ATTR_INDEX, 0), depth);
    bool pure = op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) ||
                inst->op == OP_BROADCAST || inst->op == OP_REDUCE ||
                inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_TUPLE;
    if (!pure || op_is(inst->op, OPF_RANDOM | OPF_EFFECT) || inst->operand_count == 0)
        return false;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!is_replicated(c, inst->operands[i], depth + 1))
            return false;
    }
    return true;
}

/* -- the pattern ------------------------------------------------------------------------------- */

static bool is_zero(const Instruction *inst)
{
    return inst_is_constant_scalar(inst, 0);
}

/* A float that holds all values of the other. */
static bool widens(const Shape *from, const Shape *to)
{
    return dtype_is_float(from->dtype) && dtype_is_float(to->dtype) &&
           dtype_higher_precision(from->dtype, to->dtype) == to->dtype;
}

/* `inst` is linear in operand x and does the same on all devices. */
static bool is_linear(Motion *c, const Instruction *inst, const Instruction *x)
{
    switch (inst->op) {
    case OP_CONVERT:
        return widens(x->shape, inst->shape);
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_BROADCAST:
    case OP_COPY:
    case OP_NEGATE:
        return true;
    case OP_BITCAST:
        return x->shape->dtype == inst->shape->dtype;
    case OP_MULTIPLY: {
        const Instruction *other = inst->operands[inst->operands[0] == x];
        return other != x && is_replicated(c, other, 0);
    }
    case OP_SELECT: {
        bool first = inst->operands[1] == x;
        const Instruction *other = inst->operands[first ? 2 : 1];
        return inst->operands[0] != x && other != x && is_zero(other) &&
               is_replicated(c, inst->operands[0], 0);
    }
    default:
        return false;
    }
}

/* The only user of `inst` is the root, at position i: element `acc` is of the same number. */
static bool is_next_of(const Motion *c, const Instruction *inst, const Instruction *acc,
                       uint32_t i)
{
    return user_count(c, inst) == 1 && user(c, inst, 0) == c->body->root &&
           c->body->root->operands[i] == inst && acc == c->element[i];
}

static bool same_indices(const Instruction *slice, const Instruction *update)
{
    for (uint32_t i = 1; i < slice->operand_count; i++) {
        if (slice->operands[i] != update->operands[i + 1])
            return false;
    }
    return true;
}

/* add(x, acc) is the next value of acc, or of the slice of it that acc is. */
static bool is_accumulation(Motion *c, Instruction *add, const Instruction *x,
                            uint32_t *out)
{
    Instruction *acc = add->operands[add->operands[0] == x], *last = add;
    if (acc == x)
        return false;
    uint32_t looks = 1;
    if (acc->op == OP_DYNAMIC_SLICE) {
        if (user_count(c, add) != 1 || user_count(c, acc) != 1)
            return false;
        last = user(c, add, 0);
        if (last->op != OP_DYNAMIC_UPDATE_SLICE || last->operands[1] != add ||
            last->operands[0] != acc->operands[0] || !same_indices(acc, last))
            return false;
        for (uint32_t i = 1; i < acc->operand_count; i++) {
            if (!is_replicated(c, acc->operands[i], 0))
                return false;
        }
        acc = acc->operands[0];
        looks = 2;
    }
    if (acc->op != OP_GET_TUPLE_ELEMENT || acc->operands[0] != c->body->parameters[0])
        return false;
    *out = (uint32_t)inst_int(acc, ATTR_INDEX, 0);
    return is_next_of(c, last, acc, *out) && user_count(c, acc) == looks &&
           !c->read_by_condition[*out];
}

/* All users of x, through linear ones, add it to accumulators: those are appended. */
static bool only_accumulates(Motion *c, Instruction *reduce, Instruction *x, int depth)
{
    if (user_count(c, x) == 0 || depth > CHAIN_MOST || x == c->body->root)
        return false;
    for (uint32_t i = 0; i < user_count(c, x); i++) {
        Instruction *next = user(c, x, i);
        uint32_t index;
        if (next->control_count != 0)
            return false;
        if (next->op == OP_ADD && is_accumulation(c, next, x, &index)) {
            for (uint32_t k = 0; k < c->count; k++) {
                if (c->found[k].index == index)
                    return false; /* two sums in one accumulator: one addition is left */
            }
            c->found[c->count++] = (Accumulator){.index = index, .reduce = reduce};
        } else if (!is_linear(c, next, x) ||
                   !only_accumulates(c, reduce, next, depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool may_hoist(const Instruction *inst)
{
    return inst->op == OP_ALL_REDUCE && inst->operand_count == 1 &&
           shape_is_array(inst->shape) && inst->control_count == 0 &&
           !inst_bool(inst, ATTR_CONSTRAIN_LAYOUT) &&
           collective_reduction(inst_called(inst, 0)) != OP_COUNT &&
           inst_called(inst, 0)->root->shape->dtype == inst->shape->dtype;
}

static bool is_sum(const Instruction *inst)
{
    return collective_reduction(inst_called(inst, 0)) == OP_ADD;
}

/* -- stored results ---------------------------------------------------------------------------- */

static bool is_int(const Instruction *inst, int64_t value)
{
    return inst->op == OP_CONSTANT && inst->shape->rank == 0 &&
           dtype_is_integer(inst->shape->dtype) && literal_int(inst->literal, 0) == value;
}

/* Element i counts 0, 1, 2, ... */
static bool is_counter(const Motion *c, const Instruction *inst)
{
    if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0] != c->body->parameters[0] ||
        c->loop->operands[0]->op != OP_TUPLE)
        return false;
    uint32_t i = (uint32_t)inst_int(inst, ATTR_INDEX, 0);
    const Instruction *next = c->body->root->operands[i];
    if (!is_int(c->loop->operands[0]->operands[i], 0) || next->op != OP_ADD)
        return false;
    const Instruction *a = next->operands[0], *b = next->operands[1];
    return (a == inst && is_int(b, 1)) || (b == inst && is_int(a, 1));
}

/* n - 1 - i: the places are taken from the back. */
static bool is_backwards(const Motion *c, const Instruction *inst)
{
    return inst->op == OP_SUBTRACT && is_int(inst->operands[0], c->trips - 1) &&
           is_counter(c, inst->operands[1]);
}

/* One index counts steps, along a dimension in which the update has size 1; the others are
 * constants, with room for the update: no two steps write the same element. */
static bool writes_apart(const Motion *c, const Instruction *update, uint32_t *out)
{
    const Shape *s = update->shape, *u = update->operands[1]->shape;
    uint32_t counters = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        const Instruction *index = update->operands[2 + d];
        if (is_counter(c, index) || is_backwards(c, index)) {
            counters++;
            *out = d;
            if (u->dims[d] != 1 || c->trips > s->dims[d])
                return false;
        } else if (index->op != OP_CONSTANT || literal_int(index->literal, 0) < 0 ||
                   literal_int(index->literal, 0) + u->dims[d] > s->dims[d]) {
            return false;
        }
    }
    return counters == 1;
}

/* The all-reduce, reshaped or widened, is stored into an element that nobody else looks at. */
static bool only_stored(Motion *c, Instruction *reduce)
{
    Instruction *x = reduce, *next = NULL;
    for (int depth = 0; depth < CHAIN_MOST && user_count(c, x) == 1; depth++, x = next) {
        next = user(c, x, 0);
        bool goes_on = next->op == OP_RESHAPE ||
                       (next->op == OP_CONVERT && widens(x->shape, next->shape));
        if (!goes_on || next->control_count != 0)
            break;
    }
    if (next == NULL || next->op != OP_DYNAMIC_UPDATE_SLICE || next->operands[1] != x ||
        next->control_count != 0 || user_count(c, x) != 1)
        return false;
    const Instruction *present = next->operands[0];
    if (present->op != OP_GET_TUPLE_ELEMENT ||
        present->operands[0] != c->body->parameters[0])
        return false;
    Accumulator a = {.index = (uint32_t)inst_int(present, ATTR_INDEX, 0),
                     .reduce = reduce,
                     .update = next};
    if (!is_next_of(c, next, present, a.index) || user_count(c, present) != 1 ||
        c->read_by_condition[a.index] || !writes_apart(c, next, &a.dimension) ||
        shape_bytes(reduce->shape) > c->most_bytes / c->trips)
        return false;
    c->found[c->count++] = a;
    return true;
}

/* -- the rewrite --------------------------------------------------------------------------------- */

static Computation *add_of(Motion *c, DType t)
{
    Computation *comp = module_add_computation(c->m, "add");
    const Shape *s = shape_scalar(c->m->intern, t);
    Instruction *args[2] = {computation_add_parameter(comp, 0, s, NULL),
                            computation_add_parameter(comp, 1, s, NULL)};
    comp->root = computation_add(comp, OP_ADD, s, 2, args, NULL);
    return comp;
}

static Instruction *take_element(Instruction *tuple, uint32_t i)
{
    Instruction *e = computation_add(tuple->parent, OP_GET_TUPLE_ELEMENT,
                                     tuple->shape->elements[i], 1, &tuple, NULL);
    inst_set_int(e, ATTR_INDEX, i);
    return e;
}

/* The initial values one by one. */
static Instruction **initial_values(Motion *c)
{
    Instruction *init = c->loop->operands[0];
    uint32_t n = init->shape->rank;
    Instruction **values = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] = init->op == OP_TUPLE ? init->operands[i] : take_element(init, i);
    return values;
}

static Instruction *zeros(Motion *c, const Shape *s)
{
    Instruction *zero = computation_add_scalar(c->caller, s->dtype, 0);
    if (s->rank == 0)
        return zero;
    Instruction *b = computation_add(c->caller, OP_BROADCAST, s, 1, &zero, NULL);
    inst_set_ints(b, ATTR_DIMENSIONS, NULL, 0);
    return b;
}

/* The all-reduce of what the loop gives, plus what the accumulator began with. */
static Instruction *reduce_after(Motion *c, const Accumulator *a, Instruction *local,
                                 Instruction *first)
{
    Instruction *sum = computation_add(c->caller, OP_ALL_REDUCE, local->shape, 1, &local,
                                       a->reduce->name);
    for (uint32_t i = 0; i < a->reduce->attr_count; i++)
        inst_set(sum, a->reduce->attrs[i]);
    inst_unset(sum, ATTR_SHARDING);
    sum->span = a->reduce->span;
    if (a->reduce->shape->dtype != local->shape->dtype)
        inst_set_computation(sum, ATTR_TO_APPLY, add_of(c, local->shape->dtype));
    if (is_zero(first))
        return sum;
    Instruction *operands[2] = {sum, first};
    return computation_add(c->caller, OP_ADD, local->shape, 2, operands, NULL);
}

/* The stored results of all steps, reduced, in their places. */
static Instruction *reduce_stored(Motion *c, const Accumulator *a, Instruction *local)
{
    const Shape *s = local->shape, *u = a->update->operands[1]->shape;
    Arena *arena = c->m->arena;
    SliceDim *dims = ARENA_ARRAY(arena, SliceDim, (size_t)s->rank + 1);
    int64_t *sizes = ARENA_ARRAY(c->scratch, int64_t, (size_t)s->rank + 1);
    for (uint32_t d = 0; d < s->rank; d++) {
        const Instruction *index = a->update->operands[2 + d];
        int64_t first = d == a->dimension ? 0 : literal_int(index->literal, 0);
        sizes[d] = d == a->dimension ? c->trips : u->dims[d];
        dims[d] = (SliceDim){first, first + sizes[d], 1};
    }
    const Shape *region = shape_with_dims(c->m->intern, s, s->rank, sizes);
    bool whole = shape_same_dims(region, s);
    SliceSpec *spec = ARENA_NEW(arena, SliceSpec);
    *spec = (SliceSpec){s->rank, dims};
    Instruction *part = local;
    if (!whole) {
        part = computation_add(c->caller, OP_SLICE, region, 1, &part, NULL);
        inst_set(part, (Attr){.id = ATTR_SLICE, .slice = spec});
    }
    DType own = a->reduce->shape->dtype;
    const Shape *reduced = shape_with_dtype(c->m->intern, part->shape, own);
    const Shape *stored = part->shape;
    if (own != s->dtype)
        part = computation_add(c->caller, OP_CONVERT, reduced, 1, &part, NULL);
    Instruction *sum =
        computation_add(c->caller, OP_ALL_REDUCE, reduced, 1, &part, a->reduce->name);
    for (uint32_t i = 0; i < a->reduce->attr_count; i++)
        inst_set(sum, a->reduce->attrs[i]);
    inst_unset(sum, ATTR_SHARDING);
    sum->span = a->reduce->span;
    if (own != s->dtype)
        sum = computation_add(c->caller, OP_CONVERT, stored, 1, &sum, NULL);
    if (whole)
        return sum;
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, (size_t)s->rank + 2);
    operands[0] = local;
    operands[1] = sum;
    for (uint32_t d = 0; d < s->rank; d++)
        operands[2 + d] =
            computation_add_scalar(c->caller, DT_S32, (double)dims[d].start);
    return computation_add(c->caller, OP_DYNAMIC_UPDATE_SLICE, s, s->rank + 2, operands,
                           NULL);
}

/* Users of the loop, those before id `made`, get the new values: get-tuple-elements one by one,
 * others a new tuple. */
static void replace_results(Motion *c, Instruction **values, uint32_t made)
{
    Computation *comp = c->caller;
    uint32_t n = c->loop->shape->rank;
    Instruction **forward = ARENA_ARRAY(c->scratch, Instruction *, (size_t)made + 1);
    Instruction *tuple = NULL;
    for (uint32_t i = 0; i < made; i++) {
        Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++) {
            if (inst->operands[k] != c->loop)
                continue;
            if (inst->op == OP_GET_TUPLE_ELEMENT) {
                Instruction *value = values[inst_int(inst, ATTR_INDEX, 0)];
                forward[i] = value != inst ? value : NULL;
                continue;
            }
            if (tuple == NULL)
                tuple = computation_add(comp, OP_TUPLE, c->loop->shape, n, values, NULL);
            inst->operands[k] = tuple;
        }
    }
    if (comp->root == c->loop)
        comp->root = computation_add(comp, OP_TUPLE, c->loop->shape, n, values, NULL);
    Instruction **all =
        ARENA_ARRAY(c->scratch, Instruction *, (size_t)comp->instruction_count + 1);
    memcpy(all, forward, made * sizeof *all);
    computation_replace(comp, all);
    for (uint32_t i = 0; i < made; i++) {
        if (all[i] != NULL)
            computation_remove(comp, comp->instructions[i]);
    }
}

static void remove_if_unused(Computation *comp, Instruction *inst)
{
    bool used = comp->root == inst;
    for (uint32_t i = 0; i < comp->instruction_count && !used; i++) {
        const Instruction *other = comp->instructions[i];
        for (uint32_t k = 0; other != NULL && k < other->operand_count; k++)
            used |= other->operands[k] == inst;
        for (uint32_t k = 0; other != NULL && k < other->control_count; k++)
            used |= other->control[k] == inst;
    }
    if (!used)
        computation_remove(comp, inst);
}

static void rewrite(Motion *c)
{
    Instruction *old_init = c->loop->operands[0];
    Instruction **first = initial_values(c);
    uint32_t n = c->loop->shape->rank, made = c->caller->instruction_count;
    Instruction **init = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    Instruction **values = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    memcpy(init, first, n * sizeof *init);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->found[i].update == NULL)
            init[c->found[i].index] =
                zeros(c, c->loop->shape->elements[c->found[i].index]);
    }
    const Shape *shape = c->loop->operands[0]->shape;
    c->loop->operands[0] = computation_add(c->caller, OP_TUPLE, shape, n, init, NULL);
    for (uint32_t i = 0; i < n; i++)
        values[i] = take_element(c->loop, i);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t k = c->found[i].index;
        values[k] = c->found[i].update != NULL
                        ? reduce_stored(c, &c->found[i], values[k])
                        : reduce_after(c, &c->found[i], values[k], first[k]);
    }
    replace_results(c, values, made);
    if (old_init->op ==
        OP_TUPLE) /* it would keep accumulators of an outer loop in sight */
        remove_if_unused(c->caller, old_init);
    Instruction **forward =
        ARENA_ARRAY(c->scratch, Instruction *, (size_t)c->body->instruction_count + 1);
    for (uint32_t i = 0; i < c->count; i++)
        forward[c->found[i].reduce->id] = c->found[i].reduce->operands[0];
    computation_replace(c->body, forward);
    for (uint32_t i = 0; i < c->body->instruction_count; i++) {
        if (forward[i] != NULL)
            computation_remove(c->body, c->body->instructions[i]);
    }
    computation_sort(c->caller);
    computation_sort(c->body);
}

/* -- the pass ------------------------------------------------------------------------------------ */

static bool visit_loop(Module *m, PassContext *cx, Instruction *loop)
{
    Arena *scratch = cx->scratch;
    Motion c = {.m = m,
                .scratch = scratch,
                .loop = loop,
                .trips = loop_known_trip_count(loop),
                .most_bytes = cx->settings->all_reduce_dus_code_motion_max_bytes,
                .caller = loop->parent,
                .condition = inst_called(loop, 0),
                .body = inst_called(loop, 1)};
    bool any = false;
    for (uint32_t i = 0; i < c.body->instruction_count; i++)
        any |= c.body->instructions[i] != NULL && may_hoist(c.body->instructions[i]);
    if (!any || !shape_is_tuple(loop->shape))
        return false;
    c.uses = uses_compute(c.body, scratch);
    c.found = ARENA_ARRAY(scratch, Accumulator, (size_t)c.body->root->operand_count + 1);
    if (!find_elements(&c))
        return false;
    for (uint32_t i = 0; i < c.body->instruction_count; i++) {
        Instruction *inst = c.body->instructions[i];
        uint32_t before = c.count;
        if (inst == NULL || !may_hoist(inst))
            continue;
        if (is_sum(inst) && only_accumulates(&c, inst, inst, 0))
            continue;
        c.count = before;
        if (c.trips > 0)
            only_stored(&c, inst);
    }
    if (c.count == 0)
        return false;
    rewrite(&c);
    return true;
}

bool pass_all_reduce_code_motion(Module *m, PassContext *cx)
{
    bool changed = false;
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    uint32_t computations = m->computation_count;
    for (uint32_t k = 0; k < computations; k++) {
        Computation *comp = m->computations[k];
        uint32_t count = comp == NULL ? 0 : comp->instruction_count;
        Instruction **loops = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + 1);
        uint32_t n = 0;
        for (uint32_t i = 0; i < count; i++) {
            Instruction *inst = comp->instructions[i];
            if (inst != NULL && inst->op == OP_WHILE &&
                calls[inst_called(inst, 1)->id] == 1)
                loops[n++] = inst;
        }
        for (uint32_t i = 0; i < n; i++)
            changed |= visit_loop(m, cx, loops[i]);
    }
    if (changed)
        module_sort(m);
    return changed;
}
