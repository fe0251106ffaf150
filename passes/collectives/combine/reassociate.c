/* One collective of two whose results are combined: a rule of collective-merges.
 *
 *   add(all-reduce(x), all-reduce(y))                    -> all-reduce(add(x, y))
 *   f(all-gather(x), all-gather(y))                      -> all-gather(f(x, y)), f elementwise
 *   add(pad(all-reduce(x)), convert(all-reduce(y)))      -> all-reduce(add(pad(x), convert(y)))
 *   add(ds(all-reduce(x), i), ds(all-reduce(y), i))      -> ds(all-reduce(add(x, y)), i)
 *
 * Reductions work on each element by itself, so what only moves elements may as well come before
 * them; so may a pad with the reduction's identity, and a conversion that keeps the values of a
 * float: then the sum is taken in the wider type. No more bytes may travel than before. */
#include "ir/analysis/collective.h"
#include "passes/collectives/combine/merges.h"
#include "passes/collectives/loops/code_motion.h"
#include "passes/settings.h"

enum { CHAIN_MOST = 16 };

static bool same_dimension(const Instruction *a, const Instruction *b)
{
    return inst_ints(a, ATTR_DIMENSIONS).data[0] == inst_ints(b, ATTR_DIMENSIONS).data[0];
}

static OpCode reduction_of(const Instruction *inst)
{
    return collective_reduction(inst_called(inst, 0));
}

/* The value that the reduction leaves as it is, or any where equal values reduce to themselves. */
static bool is_identity(OpCode reduction, const Instruction *value)
{
    switch (reduction) {
    case OP_ADD:
        return inst_is_constant_scalar(value, 0);
    case OP_MULTIPLY:
        return inst_is_constant_scalar(value, 1);
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_AND:
    case OP_OR:
        return value->op == OP_CONSTANT;
    default:
        return false;
    }
}

/* The reduction of f(x) is f of the reduction of x. */
static bool commutes(const Sweep *s, const Instruction *f, OpCode reduction)
{
    if (f->shape->dynamic != NULL)
        return false;
    switch (f->op) {
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_TRANSPOSE:
    case OP_COPY:
        return true;
    case OP_PAD:
        return is_identity(reduction, f->operands[1]);
    case OP_CONVERT:
        return s->settings->reassociate_converted_all_reduce &&
               dtype_is_float(f->shape->dtype) &&
               dtype_is_float(f->operands[0]->shape->dtype) &&
               motion_widens(f->operands[0]->shape, f->shape);
    default:
        return false;
    }
}

/* The all-reduce by `reduction` that x is made of alone; NULL: none. */
static Instruction *find_reduce(const Sweep *s, Instruction *x, OpCode reduction)
{
    for (int depth = 0; depth < CHAIN_MOST && x->control_count == 0; depth++) {
        if (!sweep_is_used_once(s, x))
            return NULL;
        if (x->op == OP_ALL_REDUCE)
            return sweep_is_plain(x) && sweep_reduces_in_its_type(x) &&
                           reduction_of(x) == reduction
                       ? x
                       : NULL;
        if (!commutes(s, x, reduction))
            return NULL;
        x = x->operands[0];
    }
    return NULL;
}

/* x without the reduction in its chain. */
static Instruction *without(Sweep *s, Instruction *x, const Instruction *reduce)
{
    if (x == reduce)
        return x->operands[0];
    Instruction **operands =
        arena_copy(s->scratch, x->operands, x->operand_count * sizeof *operands);
    operands[0] = without(s, x->operands[0], reduce);
    return computation_add_like(s->comp, x, x->shape, x->operand_count, operands);
}

/* `inst`, on x[0] and x[1], and the collective of it that stands for `a` and `b`. */
static Instruction *merged(Sweep *s, const Instruction *inst, Instruction *const x[2],
                           Instruction *a, Instruction *b, const Shape *shape)
{
    const Shape *inner_shape = shape_with_dtype(s->m->intern, x[0]->shape, shape->dtype);
    Instruction *inner = computation_add_like(s->comp, inst, inner_shape, 2, x);
    Instruction *made = computation_add_like(s->comp, a, shape, 1, &inner);
    Instruction *members[2] = {a, b};
    if (op_is(a->op, OPF_COLLECTIVE) && a->op != OP_ALL_GATHER &&
        shape->dtype != a->shape->dtype)
        inst_set_computation(made, ATTR_TO_APPLY,
                             module_add_reducer(s->m, reduction_of(a), shape->dtype));
    inst_unset(made, ATTR_SHARDING);
    merge_attributes(made, members, 2);
    return made;
}

/* The operands themselves are the collectives. */
static bool are_pair(const Sweep *s, const Instruction *inst, const Instruction *a,
                     const Instruction *b)
{
    if (a == b || a->op != b->op || !sweep_is_plain(a) || !sweep_is_plain(b) ||
        !sweep_is_used_once(s, a) || !sweep_is_used_once(s, b) ||
        !merges_same_group(s, a, b) || a->operands[0]->shape != b->operands[0]->shape ||
        a->shape != b->shape)
        return false;
    if (a->op == OP_ALL_GATHER)
        return same_dimension(a, b);
    return a->op == OP_REDUCE_SCATTER && sweep_reduces_in_its_type(a) &&
           sweep_reduces_in_its_type(b) && reduction_of(a) == reduction_of(b) &&
           inst->op == inst_called(a, 0)->root->op && reduction_of(a) != OP_COUNT &&
           same_dimension(a, b);
}

/* A value of this op may be the all-reduce of such values: 'or' of pred is maximum, too. */
static OpCode reduction_by(const Instruction *inst)
{
    bool is_pred = inst->shape->dtype == DT_PRED;
    switch (inst->op) {
    case OP_AND:
        return is_pred ? OP_MINIMUM : OP_AND;
    case OP_OR:
        return is_pred ? OP_MAXIMUM : OP_OR;
    case OP_ADD:
        return is_pred ? OP_MAXIMUM : OP_ADD;
    case OP_MULTIPLY:
        return is_pred ? OP_MINIMUM : OP_MULTIPLY;
    default:
        return inst->op;
    }
}

static int64_t bytes_of(const Instruction *inst)
{
    return shape_bytes(inst->shape);
}

static Instruction *merge_reduces(Sweep *s, Instruction *inst)
{
    OpCode reduction = reduction_by(inst);
    Instruction *x = inst->operands[0], *y = inst->operands[1];
    Instruction *a = find_reduce(s, x, reduction), *b = find_reduce(s, y, reduction);
    if (a == NULL || b == NULL || a == b || !merges_same_group(s, a, b) ||
        inst->shape->dynamic != NULL || bytes_of(inst) > bytes_of(a) + bytes_of(b))
        return NULL;
    Instruction *operands[2] = {without(s, x, a), without(s, y, b)};
    return merged(s, inst, operands, a, b, inst->shape);
}

static bool same_part(const Instruction *a, const Instruction *b)
{
    for (uint32_t i = 1; i < a->operand_count; i++) {
        if (a->operands[i] != b->operands[i])
            return false;
    }
    return a->shape == b->shape && a->operands[0]->shape == b->operands[0]->shape;
}

/* Both take the same part of a reduction. */
static Instruction *merge_parts(Sweep *s, Instruction *inst)
{
    Instruction *x = inst->operands[0], *y = inst->operands[1];
    if (x->op != OP_DYNAMIC_SLICE || y->op != OP_DYNAMIC_SLICE || x == y ||
        x->control_count != 0 || y->control_count != 0 || !sweep_is_used_once(s, x) ||
        !sweep_is_used_once(s, y) || !same_part(x, y))
        return NULL;
    OpCode reduction = reduction_by(inst);
    Instruction *a = find_reduce(s, x->operands[0], reduction);
    Instruction *b = find_reduce(s, y->operands[0], reduction);
    if (a == NULL || b == NULL || a == b || !merges_same_group(s, a, b) ||
        bytes_of(x->operands[0]) > bytes_of(a) + bytes_of(b))
        return NULL;
    Instruction *operands[2] = {without(s, x->operands[0], a),
                                without(s, y->operands[0], b)};
    Instruction **part =
        arena_copy(s->scratch, x->operands, x->operand_count * sizeof *part);
    part[0] = merged(s, inst, operands, a, b, x->operands[0]->shape);
    return computation_add_like(s->comp, x, inst->shape, x->operand_count, part);
}

Instruction *merge_reassociated(Sweep *s, Instruction *inst)
{
    if (inst->operand_count != 2 || inst->control_count != 0 ||
        !op_is(inst->op, OPF_ELEMENTWISE) || op_is(inst->op, OPF_RANDOM | OPF_EFFECT))
        return NULL;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (are_pair(s, inst, a, b)) {
        Instruction *x[2] = {a->operands[0], b->operands[0]};
        return merged(s, inst, x, a, b, inst->shape);
    }
    Instruction *made = merge_reduces(s, inst);
    return made != NULL ? made : merge_parts(s, inst);
}
