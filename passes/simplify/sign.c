/* What is known of a float's sign from how it is made. See sign.h. */
#include "passes/simplify/sign.h"

#include <math.h>

#include "passes/simplify/rewrite.h"

/* Instructions that one question may look at: sums of sums have many paths. */
enum { LOOKS_MOST = 64 };

/* A constant of one number, which is neither below 0 nor -0. */
static bool has_no_sign(const Instruction *inst)
{
    const Literal *l = rw_splat_of(inst);
    return l != NULL && !signbit(literal_double(l, 0));
}

static bool is_not_negative(const Instruction *inst, uint32_t *looks);

static bool are_not_negative(const Instruction *inst, uint32_t *looks)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!is_not_negative(inst->operands[i], looks))
            return false;
    }
    return true;
}

/* A sum or an extremum of such numbers, from such a number. */
static bool is_reduced(const Instruction *inst, uint32_t *looks)
{
    if (inst->operand_count != 2)
        return false;
    OpCode op = rw_reducer_op(inst_called(inst, 0));
    return (op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM) &&
           are_not_negative(inst, looks);
}

static bool is_not_negative(const Instruction *inst, uint32_t *looks)
{
    if (++*looks > LOOKS_MOST || !shape_is_array(inst->shape))
        return false;
    DType t = inst->shape->dtype;
    if (t == DT_PRED || (dtype_is_integer(t) && !dtype_is_signed(t)))
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
    case OP_CONVERT:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_POWER: /* whatever the exponent is */
        return is_not_negative(inst->operands[0], looks);
    case OP_MULTIPLY:
        return inst->operands[0] == inst->operands[1] || are_not_negative(inst, looks);
    case OP_ADD:
    case OP_DIVIDE:
    case OP_MAXIMUM:
    case OP_MINIMUM:
        return are_not_negative(inst, looks);
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
