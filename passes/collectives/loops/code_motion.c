/* Reductions that only feed accumulators of a loop are done once, after the loop.
 *
 *   body (p) { s = all-reduce(g), to_apply=add   a' = add(p#1, s)   ROOT (.., a') }
 *   w = while((.., A))   r = w#1
 *   ->  body (p) { a' = add(p#1, g)   ROOT (.., a') }
 *       w = while((.., 0))   r = add(all-reduce(w#1), A)
 *
 * Sums commute with what is linear and the same on all devices of the group: between the
 * all-reduce and the addition there may be widening conversions, reshapes, transposes, slices,
 * broadcasts, multiplication by a replicated value, select(replicated, x, 0), and the parts of
 * an all-reduce of several operands. The accumulator may also be a slice of one that is written
 * back to the same, replicated position. Nobody else may look at it, in body or condition.
 *
 * A reduce-scatter, where the setting asks for it: the accumulator then has the size of what is
 * scattered, and so has all that lies between; what does not stretch stays in the loop.
 *
 * Results that are only stored: code_motion_stored.c.
 *
 * A reduction stays where its accumulators, whole, are more to send than it sends in all steps:
 * a broadcast between them may multiply the bytes.
 *
 * Loops inside loops: callees come first and the result has the form again that the outer
 * loop asks for, so one sweep hoists through all of them.
 *
 * Needs: nothing. Keeps: values, up to the order of additions. Ends: one sweep. */
#include "passes/collectives/loops/code_motion.h"

#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "ir/analysis/replicated.h"
#include "passes/settings.h"

enum {
    CHAIN_MOST = 64,
    START_BYTES =
        1 << 20 /* a collective's start takes as long as sending so many bytes */
};

/* -- the loop ---------------------------------------------------------------------------- */

Instruction *motion_user(const Motion *c, const Instruction *inst, uint32_t i)
{
    return c->uses.list[c->uses.start[inst->id] + i];
}

/* Elements of the parameter; false if it is used as a whole. */
static bool find_elements(Motion *c)
{
    const Instruction *p = c->body->parameters[0];
    uint32_t n = p->shape->rank;
    c->element = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    c->read_by_condition = ARENA_ARRAY(c->scratch, bool, (size_t)n + 1);
    bool *twice = ARENA_ARRAY(c->scratch, bool, (size_t)n + 1);
    for (uint32_t i = 0; i < uses_count(&c->uses, p); i++) {
        Instruction *e = motion_user(c, p, i);
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
    for (const Instruction *inst = inst_first(c->condition); inst;
         inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (inst->operands[k] != q)
                continue;
            if (inst->op != OP_GET_TUPLE_ELEMENT)
                return false;
            c->read_by_condition[inst_int(inst, ATTR_INDEX, 0)] = true;
        }
    }
    return c->body->root->op == OP_TUPLE;
}

/* -- the pattern ------------------------------------------------------------------------------- */

/* The same on all devices that reduce together, in every iteration. */
static bool is_replicated(Motion *c, const Instruction *reduce, const Instruction *inst)
{
    if (c->replicated == NULL || c->replicated_for != reduce)
        c->replicated = replicated_in_loop(c->scratch, c->loop, reduce);
    c->replicated_for = reduce;
    return c->replicated[inst->id];
}

static bool is_zero(const Instruction *inst)
{
    return inst_is_constant_scalar(inst, 0);
}

bool motion_widens(const Shape *from, const Shape *to)
{
    DType a = from->dtype, b = to->dtype;
    if (dtype_is_float(a) && dtype_is_float(b))
        return dtype_info[b].mantissa_bits >= dtype_info[a].mantissa_bits &&
               dtype_info[b].exponent_bits >= dtype_info[a].exponent_bits;
    if (!dtype_is_integer(a) || !dtype_is_integer(b))
        return a == b;
    uint32_t bits = dtype_info[a].bits, more = dtype_info[b].bits;
    return dtype_is_signed(a) == dtype_is_signed(b) ? more >= bits
                                                    : dtype_is_signed(b) && more > bits;
}

/* `inst` is linear in operand x and does the same on all devices. */
static bool is_linear(Motion *c, const Instruction *reduce, const Instruction *inst,
                      const Instruction *x)
{
    switch (inst->op) {
    case OP_CONVERT:
        return dtype_is_float(x->shape->dtype) && motion_widens(x->shape, inst->shape);
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
        return other != x && is_replicated(c, reduce, other);
    }
    case OP_SELECT: {
        bool first = inst->operands[1] == x;
        const Instruction *other = inst->operands[first ? 2 : 1];
        return inst->operands[0] != x && other != x && is_zero(other) &&
               is_replicated(c, reduce, inst->operands[0]);
    }
    default:
        return false;
    }
}

bool motion_is_next_of(const Motion *c, const Instruction *inst, const Instruction *acc,
                       uint32_t i)
{
    return uses_count(&c->uses, inst) == 1 && motion_user(c, inst, 0) == c->body->root &&
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

/* add(x, acc), or subtract(acc, x), is the next value of acc, or of the slice of it that acc
 * is. */
static bool is_accumulation(Motion *c, const Instruction *reduce, Instruction *add,
                            const Instruction *x, uint32_t *out)
{
    bool adds = add->op == OP_ADD || (add->op == OP_SUBTRACT && add->operands[1] == x);
    Instruction *acc = adds ? add->operands[add->operands[0] == x] : NULL, *last = add;
    if (acc == NULL || acc == x)
        return false;
    uint32_t looks = 1;
    if (acc->op == OP_DYNAMIC_SLICE) {
        if (uses_count(&c->uses, add) != 1 || uses_count(&c->uses, acc) != 1)
            return false;
        last = motion_user(c, add, 0);
        if (last->op != OP_DYNAMIC_UPDATE_SLICE || last->operands[1] != add ||
            last->operands[0] != acc->operands[0] || !same_indices(acc, last))
            return false;
        for (uint32_t i = 1; i < acc->operand_count; i++) {
            if (!is_replicated(c, reduce, acc->operands[i]))
                return false;
        }
        acc = acc->operands[0];
        looks = 2;
    }
    if (acc->op != OP_GET_TUPLE_ELEMENT || acc->operands[0] != c->body->parameters[0])
        return false;
    *out = (uint32_t)inst_int(acc, ATTR_INDEX, 0);
    return motion_is_next_of(c, last, acc, *out) && uses_count(&c->uses, acc) == looks &&
           !c->read_by_condition[*out];
}

/* No element takes two sums: one addition is left of each. */
static bool append(Motion *c, Accumulator a)
{
    if (c->taken[a.index])
        return false;
    c->taken[a.index] = true;
    c->found[c->count++] = a;
    return true;
}

static void drop_since(Motion *c, uint32_t count)
{
    while (c->count > count)
        c->taken[c->found[--c->count].index] = false;
}

/* All users of x, through linear ones, add it to accumulators: those are appended. */
static bool only_accumulates(Motion *c, Instruction *reduce, Instruction *given,
                             Instruction *x, int depth)
{
    if (uses_count(&c->uses, x) == 0 || depth > CHAIN_MOST || x == c->body->root)
        return false;
    for (uint32_t i = 0; i < uses_count(&c->uses, x); i++) {
        Instruction *next = motion_user(c, x, i);
        Accumulator a = {.reduce = reduce, .given = given, .added = x->shape};
        if (next->control_count != 0)
            return false;
        bool ends = is_accumulation(c, reduce, next, x, &a.index);
        bool fits = ends ? append(c, a)
                         : is_linear(c, reduce, next, x) &&
                               only_accumulates(c, reduce, given, next, depth + 1);
        if (!fits)
            return false;
    }
    return true;
}

/* -- scattered sums ------------------------------------------------------------------------------ */

/* A scalar spread over all dimensions: it can be spread over larger ones. */
static bool is_spread(const Instruction *inst)
{
    return inst->op == OP_BROADCAST && inst->operands[0]->shape->rank == 0;
}

/* `inst` means the same on all of what is scattered along *d of x; *d: of its result. */
static bool stretches(Motion *c, const Instruction *reduce, const Instruction *inst,
                      const Instruction *x, uint32_t *d)
{
    switch (inst->op) {
    case OP_COPY:
    case OP_NEGATE:
        return true;
    case OP_TRANSPOSE: {
        Ints order = inst_ints(inst, ATTR_DIMENSIONS);
        uint32_t at = 0;
        while (order.data[at] != *d)
            at++;
        *d = at;
        return true;
    }
    case OP_MULTIPLY:
        return is_linear(c, reduce, inst, x) &&
               is_spread(inst->operands[inst->operands[0] == x]);
    case OP_SELECT:
        return is_linear(c, reduce, inst, x) && inst->operands[0]->shape->rank == 0 &&
               is_spread(inst->operands[inst->operands[1] == x ? 2 : 1]);
    default:
        return false;
    }
}

static const Shape *stretched(const Motion *c, const Shape *s, uint32_t d, int64_t size)
{
    int64_t *dims = arena_copy(c->scratch, s->dims, s->rank * sizeof *dims);
    dims[d] = size;
    return shape_with_dims(c->m->intern, s, s->rank, dims);
}

/* Every use of the reduce-scatter is one chain that ends in an accumulator. */
static bool only_scatters(Motion *c, Instruction *reduce)
{
    Instruction *given = reduce->operands[0], *x = reduce;
    uint32_t d = (uint32_t)inst_ints(reduce, ATTR_DIMENSIONS).data[0];
    int64_t size = given->shape->dims[d];
    for (int depth = 0; depth < CHAIN_MOST && uses_count(&c->uses, x) == 1; depth++) {
        Instruction *next = motion_user(c, x, 0);
        Accumulator a = {.reduce = reduce, .given = given, .dimension = d};
        if (next->control_count != 0 || next->shape->dynamic != NULL)
            return false;
        if (is_accumulation(c, reduce, next, x, &a.index)) {
            a.whole = stretched(c, next->shape, d, size);
            return next->operands[next->operands[0] == x]->op == OP_GET_TUPLE_ELEMENT &&
                   append(c, a);
        }
        if (!stretches(c, reduce, next, x, &d))
            return false;
        x = next;
    }
    return false;
}

/* Gives the chain from the reduce-scatter to its accumulator the size of what is scattered. */
static void stretch(Motion *c, const Accumulator *a)
{
    Instruction *x = a->reduce;
    uint32_t d = (uint32_t)inst_ints(a->reduce, ATTR_DIMENSIONS).data[0];
    int64_t size = a->given->shape->dims[d];
    for (;;) {
        Instruction *next = motion_user(c, x, 0);
        if (next->op == OP_TRANSPOSE)
            stretches(c, a->reduce, next, x, &d);
        next->shape = stretched(c, next->shape, d, size);
        if (next->op == OP_ADD || next->op == OP_SUBTRACT)
            break;
        for (uint32_t k = 0; k < next->operand_count; k++) {
            Instruction *other = next->operands[k];
            if (other == x || other->shape->rank == 0)
                continue;
            next->operands[k] =
                computation_add_like(c->body, other, next->shape, 1, other->operands);
        }
        x = next;
    }
    c->element[a->index]->shape = a->whole;
}

/* Makes scattered elements of the loop whole. The shape of its initial value. */
static const Shape *stretch_all(Motion *c)
{
    const Shape *s = c->loop->shape;
    const Shape **elements =
        arena_copy(c->scratch, s->elements, s->rank * sizeof *elements);
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const Accumulator *a = &c->found[i];
        if (a->whole == NULL)
            continue;
        stretch(c, a);
        elements[a->index] = a->whole;
        any = true;
    }
    if (!any)
        return c->loop->operands[0]->shape;
    const Shape *shape = shape_tuple(c->m->intern, s->rank, elements);
    c->loop->shape = c->body->root->shape = shape;
    c->body->parameters[0]->shape = c->condition->parameters[0]->shape = shape;
    return shape;
}

/* -- which reductions ------------------------------------------------------------------------------ */

static bool may_hoist(const Motion *c, const Instruction *inst)
{
    bool wanted = inst->op == OP_ALL_REDUCE ||
                  (inst->op == OP_REDUCE_SCATTER && c->scatters &&
                   inst->operand_count == 1 && inst->operands[0]->shape->dynamic == NULL);
    return wanted && inst->control_count == 0 &&
           !inst_bool(inst, ATTR_CONSTRAIN_LAYOUT) &&
           collective_reduction(inst_called(inst, 0)) != OP_COUNT;
}

static bool is_sum(const Instruction *inst)
{
    return collective_reduction(inst_called(inst, 0)) == OP_ADD;
}

/* Result `x` of `reduce`, given `given`. */
static bool find_result(Motion *c, Instruction *reduce, Instruction *given,
                        Instruction *x)
{
    uint32_t before = c->count;
    if (inst_called(reduce, 0)->root->shape->dtype != given->shape->dtype)
        return false;
    if (is_sum(reduce) && only_accumulates(c, reduce, given, x, 0))
        return true;
    drop_since(c, before);
    return motion_find_stored(c, reduce, given, x);
}

/* After the loop the whole accumulators are reduced: no more may be sent than in all steps. Of
 * a loop of unknown length, what one step adds is compared with what one step reduces. */
static bool pays(const Motion *c, const Instruction *reduce, uint32_t first)
{
    uint64_t steps = c->trips >= 0 ? (uint64_t)c->trips : 1;
    uint64_t before = START_BYTES, after = 0;
    for (uint32_t i = 0; i < reduce->operand_count; i++)
        before += (uint64_t)shape_bytes(reduce->operands[i]->shape);
    for (uint32_t i = first; i < c->count; i++) {
        const Accumulator *a = &c->found[i];
        const Shape *s = a->whole != NULL ? a->whole
                         : c->trips >= 0  ? c->loop->shape->elements[a->index]
                                          : a->added;
        after += a->update != NULL ? 0 : (uint64_t)shape_bytes(s);
    }
    return steps == 0 || after / steps <= before;
}

/* Appends the accumulators of all results of `reduce`, or none. */
static void find(Motion *c, Instruction *reduce)
{
    uint32_t before = c->count;
    bool all = true;
    if (reduce->op == OP_REDUCE_SCATTER) {
        all = is_sum(reduce) &&
              inst_called(reduce, 0)->root->shape->dtype == reduce->shape->dtype &&
              only_scatters(c, reduce);
    } else if (shape_is_array(reduce->shape)) {
        all = find_result(c, reduce, reduce->operands[0], reduce);
    } else {
        for (uint32_t i = 0; all && i < uses_count(&c->uses, reduce); i++) {
            Instruction *part = motion_user(c, reduce, i);
            all = part->op == OP_GET_TUPLE_ELEMENT && part->control_count == 0 &&
                  find_result(c, reduce, reduce->operands[inst_int(part, ATTR_INDEX, 0)],
                              part);
        }
        all = all && reduce != c->body->root;
    }
    if (!all || !pays(c, reduce, before))
        drop_since(c, before);
}

/* -- the rewrite --------------------------------------------------------------------------------- */

/* The initial values one by one. */
static Instruction **initial_values(Motion *c)
{
    Instruction *init = c->loop->operands[0];
    uint32_t n = init->shape->rank;
    Instruction **values = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] =
            init->op == OP_TUPLE ? init->operands[i] : computation_add_element(init, i);
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

Instruction *motion_reduce(Motion *c, const Accumulator *a, const Shape *s,
                           Instruction *operand)
{
    Instruction *made =
        computation_add(c->caller, a->reduce->op, s, 1, &operand, a->reduce->name);
    for (uint32_t i = 0; i < a->reduce->attr_count; i++)
        inst_set(made, a->reduce->attrs[i]);
    inst_unset(made, ATTR_SHARDING);
    made->span = a->reduce->span;
    if (a->given->shape->dtype != s->dtype)
        inst_set_computation(made, ATTR_TO_APPLY, module_add_adder(c->m, s->dtype));
    return made;
}

/* The reduction of what the loop gives, plus what the accumulator began with. */
static Instruction *reduce_after(Motion *c, const Accumulator *a, Instruction *local,
                                 Instruction *first)
{
    Instruction *sum = motion_reduce(c, a, first->shape, local);
    if (a->whole != NULL)
        inst_set_ints(sum, ATTR_DIMENSIONS, &(int64_t){a->dimension}, 1);
    if (is_zero(first))
        return sum;
    Instruction *operands[2] = {sum, first};
    return computation_add(c->caller, OP_ADD, first->shape, 2, operands, NULL);
}

/* Users of the loop, those before id `made`, get the new values: get-tuple-elements one by one,
 * others a new tuple. */
static void replace_results(Motion *c, Instruction **values, const Shape *shape,
                            uint32_t made)
{
    Computation *comp = c->caller;
    uint32_t n = shape->rank;
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
                tuple = computation_add(comp, OP_TUPLE, shape, n, values, NULL);
            inst->operands[k] = tuple;
        }
    }
    if (comp->root == c->loop)
        comp->root = computation_add(comp, OP_TUPLE, shape, n, values, NULL);
    computation_substitute(comp, forward, made);
}

static void remove_if_unused(Computation *comp, Instruction *inst)
{
    bool used = comp->root == inst;
    for (const Instruction *other = inst_first(comp); other && !used;
         other = inst_next(other)) {
        for (uint32_t k = 0; k < other->operand_count; k++)
            used |= other->operands[k] == inst;
        for (uint32_t k = 0; k < other->control_count; k++)
            used |= other->control[k] == inst;
    }
    if (!used)
        computation_remove(comp, inst);
}

/* In the body: each reduction's results are what it was given. */
static void take_given(Motion *c)
{
    Computation *body = c->body;
    Instruction **forward =
        ARENA_ARRAY(c->scratch, Instruction *, (size_t)body->instruction_count + 1);
    for (uint32_t i = 0; i < c->count; i++) {
        Instruction *reduce = c->found[i].reduce;
        if (shape_is_array(reduce->shape)) {
            forward[reduce->id] = c->found[i].given;
            continue;
        }
        forward[reduce->id] = reduce->operands[0]; /* for who only waits for it */
        for (uint32_t k = 0; k < uses_count(&c->uses, reduce); k++) {
            Instruction *part = motion_user(c, reduce, k);
            forward[part->id] = reduce->operands[inst_int(part, ATTR_INDEX, 0)];
        }
    }
    computation_substitute(body, forward, body->instruction_count);
    computation_sort(body);
}

/* The loop begins with zeros where it adds up what is reduced later. */
static void set_init(Motion *c, Instruction *const *first, const Shape *shape)
{
    uint32_t n = shape->rank;
    Instruction **init = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    memcpy(init, first, n * sizeof *init);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t k = c->found[i].index;
        if (c->found[i].update == NULL)
            init[k] = zeros(c, shape->elements[k]);
    }
    c->loop->operands[0] = computation_add(c->caller, OP_TUPLE, shape, n, init, NULL);
}

static void rewrite(Motion *c)
{
    Instruction *old_init = c->loop->operands[0];
    const Shape *old_shape = c->loop->shape;
    Instruction **first = initial_values(c);
    uint32_t n = c->loop->shape->rank, made = c->caller->instruction_count;
    Instruction **values = ARENA_ARRAY(c->scratch, Instruction *, (size_t)n + 1);
    set_init(c, first, stretch_all(c));
    for (uint32_t i = 0; i < n; i++)
        values[i] = computation_add_element(c->loop, i);
    for (uint32_t i = 0; i < c->count; i++) {
        const Accumulator *a = &c->found[i];
        values[a->index] = a->update != NULL
                               ? motion_reduce_stored(c, a, values[a->index])
                               : reduce_after(c, a, values[a->index], first[a->index]);
    }
    replace_results(c, values, old_shape, made);
    if (old_init->op ==
        OP_TUPLE) /* it would keep accumulators of an outer loop in sight */
        remove_if_unused(c->caller, old_init);
    take_given(c);
    computation_sort(c->caller);
}

/* -- the pass ------------------------------------------------------------------------------------ */

static void note(PassCounts *counts, const Motion *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const Accumulator *a = &c->found[i];
        counts->collectives_hoisted += i == 0 || c->found[i - 1].reduce != a->reduce;
        counts->bytes_hoisted += shape_bytes(a->given->shape);
    }
}

static bool visit_loop(Module *m, PassContext *cx, Instruction *loop)
{
    Arena *scratch = cx->scratch;
    Motion c = {.m = m,
                .scratch = scratch,
                .loop = loop,
                .trips = loop_known_trip_count(loop),
                .most_bytes = cx->settings->all_reduce_dus_code_motion_max_bytes,
                .scatters = cx->settings->reduce_scatter_code_motion != 0,
                .caller = loop->parent,
                .condition = inst_called(loop, 0),
                .body = inst_called(loop, 1)};
    uint32_t count = c.body->instruction_count;
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        any |= c.body->instructions[i] != NULL && may_hoist(&c, c.body->instructions[i]);
    if (!any || !shape_is_tuple(loop->shape))
        return false;
    c.uses = uses_compute(c.body, scratch);
    c.found = ARENA_ARRAY(scratch, Accumulator, (size_t)loop->shape->rank + 1);
    c.taken = ARENA_ARRAY(scratch, bool, (size_t)loop->shape->rank + 1);
    if (!find_elements(&c))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (c.body->instructions[i] != NULL && may_hoist(&c, c.body->instructions[i]))
            find(&c, c.body->instructions[i]);
    }
    if (c.count == 0)
        return false;
    note(&cx->counts, &c);
    rewrite(&c);
    return true;
}

bool pass_all_reduce_code_motion(Module *m, PassContext *cx)
{
    if (!cx->settings->all_reduce_code_motion)
        return false;
    bool changed = false;
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    uint32_t computations = m->computation_count;
    for (Computation *comp = comp_first(m); comp && comp->id < computations;
         comp = comp_next(comp)) {
        Instruction **loops =
            ARENA_ARRAY(cx->scratch, Instruction *, comp->instruction_count);
        uint32_t n = 0;
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_WHILE && calls[inst_called(inst, 0)->id] == 1 &&
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
