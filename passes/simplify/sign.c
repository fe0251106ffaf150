/* What is known of a float's sign from how it is made. See sign.h. */
#include "passes/simplify/sign.h"

#include <math.h>

#include "passes/simplify/rewrite.h"

/* Instructions that one question may look at: sums of sums have many paths. */
enum { LOOKS_MOST = 64 };

/* A constant none of whose numbers is below 0 or -0. */
static bool has_no_sign(const Instruction *inst)
{
    const Literal *l = inst->literal;
    int64_t count;
    if (l == NULL || l->elided || !shape_element_count(inst->shape, &count))
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (signbit(literal_double(l, i)))
            return false;
    }
    return true;
}

static bool is_not_negative(const Instruction *inst, uint32_t *looks);

/* All operands are. */
static bool are_not_negative(const Instruction *inst, uint32_t *looks)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!is_not_negative(inst->operands[i], looks))
            return false;
    }
    return true;
}

/* NaN, or at least one of them: the greater of +0 and -0 is +0. */
static bool is_any_not_negative(const Instruction *inst, uint32_t *looks)
{
    return is_not_negative(inst->operands[0], looks) ||
           is_not_negative(inst->operands[1], looks);
}

/* A sum or an extremum of such numbers, from such a number; the greatest of one number or more, whatever it begins from. */
static bool is_reduced(const Instruction *inst, uint32_t *looks)
{
    if (inst->operand_count != 2)
        return false;
    OpCode op = rw_reducer_op(inst_called(inst, 0));
    if (op == OP_MAXIMUM && rw_is_static(inst->operands[0]->shape) &&
        !rw_is_zero_size(inst->operands[0]->shape))
        return is_any_not_negative(inst, looks);
    return (op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM) &&
           are_not_negative(inst, looks);
}

/* One of a tuple that is known. */
static bool is_picked(const Instruction *inst, uint32_t *looks)
{
    const Instruction *tuple = inst->operands[0];
    int64_t index = inst_int(inst, ATTR_INDEX, 0);
    while (tuple->op == OP_OPT_BARRIER)
        tuple = tuple->operands[0];
    return tuple->op == OP_TUPLE && is_not_negative(tuple->operands[index], looks);
}

/* Formats without NaN have -0 in its place: what a conversion or 0 / 0 may make. */
static bool may_lose_nan(const Instruction *inst)
{
    const DTypeInfo *from = &dtype_info[inst->operands[0]->shape->dtype];
    return dtype_info[inst->shape->dtype].special == SPECIAL_FINITE &&
           (inst->op == OP_DIVIDE ||
            (from->class == DTC_FLOAT && from->special != SPECIAL_FINITE));
}

static bool is_not_negative(const Instruction *inst, uint32_t *looks)
{
    if (++*looks > LOOKS_MOST || !shape_is_array(inst->shape))
        return false;
    DType t = inst->shape->dtype;
    if (t == DT_PRED || (dtype_is_integer(t) && !dtype_is_signed(t)))
        return true;
    if (t == DT_F8E8M0FNU)
        return true;
    if (!dtype_is_float(t))
        return false;
    switch (inst->op) {
    case OP_ABS:
    case OP_EXPONENTIAL:
    case OP_LOGISTIC:
        return true;
    case OP_CONSTANT:
        return has_no_sign(inst);
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_COPY:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_GATHER:
    case OP_REVERSE:
    case OP_OPT_BARRIER:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_POWER: /* whatever the exponent is */
        return is_not_negative(inst->operands[0], looks);
    case OP_CONVERT:
        return !may_lose_nan(inst) && is_not_negative(inst->operands[0], looks);
    case OP_BITCAST:
        return inst->operands[0]->shape->dtype == t &&
               is_not_negative(inst->operands[0], looks);
    case OP_MULTIPLY:
        return inst->operands[0] == inst->operands[1] || are_not_negative(inst, looks);
    case OP_DIVIDE:
        return !may_lose_nan(inst) && are_not_negative(inst, looks);
    case OP_ADD:
    case OP_MINIMUM:
    case OP_PAD:
    case OP_CONCATENATE:
        return are_not_negative(inst, looks);
    case OP_MAXIMUM:
        return is_any_not_negative(inst, looks);
    case OP_CLAMP: /* the lesser of the last and the greater of the others */
        return is_not_negative(inst->operands[2], looks) &&
               is_any_not_negative(inst, looks);
    case OP_SELECT:
        return is_not_negative(inst->operands[1], looks) &&
               is_not_negative(inst->operands[2], looks);
    case OP_GET_TUPLE_ELEMENT:
        return is_picked(inst, looks);
    case OP_REDUCE:
        return is_reduced(inst, looks);
    default:
        return false;
    }
}

bool value_is_not_negative(const Instruction *inst)
{
    uint32_t looks = 0;
    return is_not_negative(inst, &looks);
}
