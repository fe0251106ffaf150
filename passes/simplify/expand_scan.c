/* Expansion of scan: cumulative windows where it is of that form (scan_as_window.c), else a while loop over the
 * scanned dimension.
 *
 *   (ys, c) = scan(xs, c0), dimensions={d}, num_carries=1, to_apply=f
 *     =>  i = 0, ys = zeros, c = c0
 *         while (i < n) { (y, c) = f(xs[i], c);  ys[i] = y;  i = i + 1 }
 *
 * The scanned inputs are carried unchanged, so they are read where they lie. A scan in reverse
 * counts the same way and reads and writes at n - 1 - i. */
#include "passes/simplify/expand.h"

typedef struct Scan {
    Rewriter *r;
    Module *m;
    Instruction *inst;
    Computation *step; /* f: inputs, then carries -> outputs, then carries */
    uint32_t inputs, outputs, carries;
    int64_t d, n;
    const Shape *index;   /* s32[] */
    const Shape *state;   /* (i, inputs, outputs, carries) */
    const Shape **leaves; /* of the state */
    uint32_t leaf_count;
} Scan;

static const Shape *result_leaf(const Scan *s, uint32_t i)
{
    const Shape *all = s->inst->shape;
    return shape_is_tuple(all) ? all->elements[i] : all;
}

static Instruction *integer(Computation *comp, const Shape *shape, int64_t value)
{
    Literal *l = literal_create(comp->module->arena, shape);
    literal_set_int(l, 0, value);
    return computation_add_constant(comp, l, NULL);
}

static Computation *make_condition(const Scan *s)
{
    Computation *comp = module_add_computation(s->m, "scan_condition");
    Instruction *state = computation_add_parameter(comp, 0, s->state, NULL);
    Instruction *pair[2] = {computation_add_element(state, 0),
                            integer(comp, s->index, s->n)};
    comp->root = computation_add(comp, OP_COMPARE, shape_scalar(s->m->intern, DT_PRED), 2,
                                 pair, NULL);
    inst_set_int(comp->root, ATTR_DIRECTION, DIRECTION_LT);
    return comp;
}

/* Operands of a dynamic slice or update at position `at` of dimension d. */
static uint32_t add_starts(const Scan *s, Computation *comp, uint32_t rank,
                           Instruction *at, Instruction **out)
{
    Instruction *zero = integer(comp, s->index, 0);
    for (uint32_t i = 0; i < rank; i++)
        out[i] = (int64_t)i == s->d ? at : zero;
    return rank;
}

static const Shape *slab(const Scan *s, const Shape *whole)
{
    int64_t *dims = ARENA_ARRAY(s->r->scratch, int64_t, (size_t)whole->rank + 1);
    for (uint32_t i = 0; i < whole->rank; i++)
        dims[i] = (int64_t)i == s->d ? 1 : whole->dims[i];
    return shape_array(s->m->intern, whole->dtype, whole->rank, dims, NULL, NULL);
}

/* xs[at], without the scanned dimension. */
static Instruction *take(const Scan *s, Computation *comp, Instruction *whole,
                         Instruction *at, const Shape *wanted)
{
    uint32_t rank = whole->shape->rank;
    Instruction **operands = ARENA_ARRAY(s->r->scratch, Instruction *, (size_t)rank + 1);
    operands[0] = whole;
    add_starts(s, comp, rank, at, operands + 1);
    const Shape *part = slab(s, whole->shape);
    Instruction *slice =
        computation_add(comp, OP_DYNAMIC_SLICE, part, rank + 1, operands, NULL);
    inst_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, part->dims, rank);
    return computation_add(comp, OP_RESHAPE, wanted, 1, &slice, NULL);
}

/* ys with y at `at`. */
static Instruction *put(const Scan *s, Computation *comp, Instruction *whole,
                        Instruction *y, Instruction *at)
{
    uint32_t rank = whole->shape->rank;
    Instruction **operands = ARENA_ARRAY(s->r->scratch, Instruction *, (size_t)rank + 2);
    operands[0] = whole;
    operands[1] = computation_add(comp, OP_RESHAPE, slab(s, whole->shape), 1, &y, NULL);
    add_starts(s, comp, rank, at, operands + 2);
    return computation_add(comp, OP_DYNAMIC_UPDATE_SLICE, whole->shape, rank + 2,
                           operands, NULL);
}

static Computation *make_body(const Scan *s)
{
    Computation *comp = module_add_computation(s->m, "scan_body");
    Instruction *state = computation_add_parameter(comp, 0, s->state, NULL);
    Instruction **next = ARENA_ARRAY(s->r->scratch, Instruction *, s->leaf_count);
    Instruction **given = ARENA_ARRAY(s->r->scratch, Instruction *, s->leaf_count);
    Instruction *i = computation_add_element(state, 0), *at = i;
    if (inst_bool(s->inst, ATTR_IS_REVERSE)) {
        Instruction *pair[2] = {integer(comp, s->index, s->n - 1), i};
        at = computation_add(comp, OP_SUBTRACT, s->index, 2, pair, NULL);
    }
    uint32_t first_output = 1 + s->inputs, first_carry = first_output + s->outputs;
    for (uint32_t k = 0; k < s->inputs; k++) {
        next[1 + k] = computation_add_element(state, 1 + k);
        given[k] = take(s, comp, next[1 + k], at, s->step->parameters[k]->shape);
    }
    for (uint32_t k = 0; k < s->carries; k++)
        given[s->inputs + k] = computation_add_element(state, first_carry + k);
    Instruction *call = computation_add(comp, OP_CALL, s->step->root->shape,
                                        s->inputs + s->carries, given, NULL);
    inst_set_computation(call, ATTR_TO_APPLY, s->step);
    bool tuple = shape_is_tuple(call->shape);
    for (uint32_t k = 0; k < s->outputs + s->carries; k++) {
        Instruction *value = tuple ? computation_add_element(call, k) : call;
        next[first_output + k] =
            k < s->outputs
                ? put(s, comp, computation_add_element(state, first_output + k), value,
                      at)
                : value;
    }
    Instruction *pair[2] = {i, integer(comp, s->index, 1)};
    next[0] = computation_add(comp, OP_ADD, s->index, 2, pair, NULL);
    comp->root = computation_add(comp, OP_TUPLE, s->state, s->leaf_count, next, NULL);
    return comp;
}

static Instruction *make_loop(Scan *s)
{
    Rewriter *r = s->r;
    Instruction **init = ARENA_ARRAY(r->scratch, Instruction *, s->leaf_count);
    init[0] = rw_splat_int(r, s->index, 0);
    for (uint32_t k = 0; k < s->inputs; k++)
        init[1 + k] = s->inst->operands[k];
    for (uint32_t k = 0; k < s->outputs; k++)
        init[1 + s->inputs + k] = rw_splat(r, result_leaf(s, k), 0);
    for (uint32_t k = 0; k < s->carries; k++)
        init[1 + s->inputs + s->outputs + k] = s->inst->operands[s->inputs + k];
    Instruction *tuple = rw_add(r, OP_TUPLE, s->state, s->leaf_count, init);
    Instruction *loop = rw_unary(r, OP_WHILE, s->state, tuple);
    inst_set_computation(loop, ATTR_CONDITION, make_condition(s));
    inst_set_computation(loop, ATTR_BODY, make_body(s));
    return loop;
}

static bool fits(const Scan *s)
{
    for (uint32_t i = 0; i < s->leaf_count; i++) {
        if (!rw_is_static(s->leaves[i]))
            return false;
    }
    for (uint32_t k = 0; k < s->carries; k++) { /* a carry keeps its shape */
        const Shape *c = s->inst->operands[s->inputs + k]->shape;
        if (!shape_compatible(c, result_leaf(s, s->outputs + k)))
            return false;
    }
    return s->n <= INT32_MAX;
}

static Instruction *scan(Rewriter *r, Instruction *inst)
{
    Scan s = {.r = r, .m = r->m, .inst = inst, .step = inst_called(inst, 0)};
    s.carries = (uint32_t)inst_int(inst, ATTR_NUM_CARRIES, 0);
    s.inputs = inst->operand_count - s.carries;
    s.outputs = (shape_is_tuple(inst->shape) ? inst->shape->rank : 1) - s.carries;
    s.d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    if (s.inputs + s.outputs == 0)
        return NULL;
    Instruction *windows = scan_as_window(r, inst);
    if (windows != NULL)
        return windows;
    s.n = s.inputs > 0 ? inst->operands[0]->shape->dims[s.d]
                       : result_leaf(&s, 0)->dims[s.d];
    s.index = shape_scalar(r->m->intern, DT_S32);
    s.leaf_count = 1 + s.inputs + s.outputs + s.carries;
    s.leaves = ARENA_ARRAY(r->scratch, const Shape *, s.leaf_count);
    s.leaves[0] = s.index;
    for (uint32_t k = 0; k < s.inputs; k++)
        s.leaves[1 + k] = inst->operands[k]->shape;
    for (uint32_t k = 0; k < s.outputs; k++)
        s.leaves[1 + s.inputs + k] = result_leaf(&s, k);
    for (uint32_t k = 0; k < s.carries; k++)
        s.leaves[1 + s.inputs + s.outputs + k] = inst->operands[s.inputs + k]->shape;
    if (!fits(&s))
        return NULL;
    s.state = shape_tuple(r->m->intern, s.leaf_count, s.leaves);
    uint32_t given = s.outputs + s.carries;
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, given);
    Instruction *loop = s.n > 0 ? make_loop(&s) : NULL;
    if (loop != NULL) /* its function may draw random numbers */
        inst_add_controls(loop, inst);
    for (uint32_t k = 0; loop == NULL && k < given; k++) /* no step at all */
        parts[k] = k < s.outputs ? rw_splat(r, result_leaf(&s, k), 0)
                                 : inst->operands[s.inputs + k - s.outputs];
    for (uint32_t k = 0; loop != NULL && k < given; k++)
        parts[k] = rw_element(r, loop, 1 + s.inputs + k);
    return shape_is_tuple(inst->shape) ? rw_add(r, OP_TUPLE, inst->shape, given, parts)
                                       : parts[0];
}

/* map of a function that has no meaning on arrays (inlining takes the others): element by element,
 *   m = map(x, y), to_apply=f  =>  reshape(scan(reshape(x), reshape(y)), to_apply=f) */
static Instruction *map(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || inst->operand_count == 0)
        return NULL;
    static const int64_t first = 0;
    int64_t n = shape_elements(s);
    Instruction **flat = ARENA_ARRAY(r->scratch, Instruction *, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        flat[i] = rw_reshape(r, rw_shape(r, inst->operands[i]->shape->dtype, 1, &n),
                             inst->operands[i]);
    Instruction *all =
        rw_add(r, OP_SCAN, rw_shape(r, s->dtype, 1, &n), inst->operand_count, flat);
    inst_set_computation(all, ATTR_TO_APPLY, inst_called(inst, 0));
    inst_set_ints(all, ATTR_DIMENSIONS, &first, 1);
    inst_set_int(all, ATTR_NUM_CARRIES, 0);
    inst_add_controls(all, inst);
    return rw_reshape(r, s, all);
}

const Rule rules_expand_scan[] = {
    {OP_SCAN, "scan", scan},
    {OP_MAP, "map", map},
    {0},
};
