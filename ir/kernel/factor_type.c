/* See factor_type.h. */
#include "ir/kernel/factor_type.h"

#include <math.h>

#include "ir/kernel/element.h"
#include "ir/kernel/ragged.h"
#include "ir/kernel/tensor_core.h"

enum {
    LEAST_ELEMENTS = 64,
    TF32_DIGITS = 11,
    MOST_DEPTH = 16 /* instructions that are looked through */
};

/* Of the type's numbers. */
static int32_t digits_of_type(DType t)
{
    const DTypeInfo *x = &dtype_info[t];
    switch (x->class) {
    case DTC_PRED:
        return 1;
    case DTC_SINT:
    case DTC_UINT:
        return x->bits;
    case DTC_FLOAT:
        return x->special == SPECIAL_E8M0 ? 1 : x->mantissa_bits + 1;
    default:
        return INT32_MAX;
    }
}

static int32_t digits_of_double(double x)
{
    int exponent, digits = 0;
    for (x = isfinite(x) ? frexp(fabs(x), &exponent) : 0; x != 0; digits++)
        x = 2 * x - (x >= 0.5);
    return digits;
}

static int32_t digits_of_constant(const Instruction *inst)
{
    const Literal *l = inst->literal;
    if (l->elided || l->count != 1 || !dtype_is_float(inst->shape->dtype))
        return INT32_MAX;
    return digits_of_double(literal_double(l, 0));
}

static int32_t at_most(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t digits_of(const Instruction *inst, uint32_t depth);

/* The most of operands [first, end). */
static int32_t digits_of_some(const Instruction *inst, uint32_t first, uint32_t end,
                              uint32_t depth)
{
    int32_t most = 0;
    for (uint32_t i = first; i < end; i++) {
        int32_t own = digits_of(inst->operands[i], depth);
        most = own > most ? own : most;
    }
    return most;
}

/* A number of few digits may become one of many: -1 the greatest of an unsigned type, what is too large the greatest of
 * an integer type. */
static bool may_wrap(const Instruction *inst)
{
    DType to = inst->shape->dtype, from = inst->operands[0]->shape->dtype;
    if (dtype_info[to].class != DTC_UINT && dtype_info[to].class != DTC_SINT)
        return false;
    if (inst->op == OP_NEGATE)
        return dtype_is_unsigned(to);
    return inst->op == OP_CONVERT &&
           (dtype_is_float(from) ||
            (dtype_info[from].class == DTC_SINT && dtype_is_unsigned(to)));
}

/* What rounding leaves has no more digits than the type, and no more than there were before. */
static int32_t digits_of_operation(const Instruction *inst, uint32_t depth)
{
    if (inst->operand_count == 1 && may_wrap(inst))
        return INT32_MAX;
    switch (inst->op) {
    case OP_CONSTANT:
        return digits_of_constant(inst);
    case OP_BITCAST:
        if (inst->operands[0]->shape->dtype != inst->shape->dtype)
            return INT32_MAX;
        return digits_of(inst->operands[0], depth);
    case OP_ABS:
    case OP_NEGATE:
    case OP_CONVERT:
    case OP_BROADCAST:
    case OP_COPY:
    case OP_DYNAMIC_SLICE:
    case OP_GATHER:
    case OP_RESHAPE:
    case OP_REVERSE:
    case OP_SLICE:
    case OP_TRANSPOSE:
        return digits_of(inst->operands[0], depth);
    case OP_MULTIPLY: {
        int32_t x = digits_of(inst->operands[0], depth),
                y = digits_of(inst->operands[1], depth);
        return x < 64 && y < 64 ? x + y : INT32_MAX;
    }
    case OP_SELECT:
        return digits_of_some(inst, 1, 3, depth);
    case OP_CONCATENATE:
    case OP_PAD:
        return digits_of_some(inst, 0, inst->operand_count, depth);
    default:
        return INT32_MAX;
    }
}

/* How many binary digits the significands of a value's numbers have at most, as far as what it is made of shows:
 * dequantised numbers have few, whatever their type. */
static int32_t digits_of(const Instruction *inst, uint32_t depth)
{
    int32_t of_type = digits_of_type(inst->shape->dtype);
    if (depth == MOST_DEPTH || of_type == INT32_MAX || of_type <= 1)
        return of_type;
    return at_most(of_type, digits_of_operation(inst, depth + 1));
}

static int32_t held_digits(DType t)
{
    return t == DT_F32 ? TF32_DIGITS : digits_of_type(t);
}

/* Every number of the value is one of `type`, or as near to 0 as the types' common smallest ones. */
static bool is_exact_in(const Instruction *value, DType type, uint32_t depth)
{
    DType t = value->shape->dtype;
    const DTypeInfo *x = &dtype_info[t];
    bool is_float = x->class == DTC_FLOAT;
    if (is_float &&
        (x->special == SPECIAL_E8M0 || x->exponent_bits > dtype_info[type].exponent_bits))
        return false;
    return digits_of(value, depth) <= held_digits(type);
}

bool dot_allows_tf32(const Instruction *hero)
{
    return inst_int(hero, ATTR_ALGORITHM, ALGORITHM_UNSET) == ALGORITHM_TF32_TF32_F32;
}

static bool is_held(const Instruction *hero, const Instruction *value, DType type,
                    uint32_t depth)
{
    bool is_rounded =
        value->shape->dtype == DT_F32 && type == DT_F32 && dot_allows_tf32(hero);
    return is_rounded || is_exact_in(value, type, depth);
}

/* The type of a byte that holds all numbers of both, which are integers; DT_INVALID: there is none. */
static DType bytes_of_integers(DType x, DType y)
{
    const DTypeInfo *a = &dtype_info[x], *b = &dtype_info[y];
    if (a->bits > 8 || b->bits > 8)
        return DT_INVALID;
    if (a->class == DTC_UINT && b->class == DTC_UINT)
        return DT_U8;
    bool is_high =
        (a->class == DTC_UINT && a->bits == 8) || (b->class == DTC_UINT && b->bits == 8);
    return is_high ? DT_INVALID : DT_S8;
}

/* Numbers of less than a byte are multiplied as bytes: tiles in shared memory have whole ones. depth: MOST_DEPTH, what
 * makes the operands is not looked at. */
static bool find_factor(const Instruction *hero, const Target *t, uint32_t depth,
                        DType *factor)
{
    static const DType floats[] = {DT_BF16, DT_F16, DT_F32};
    const Instruction *const *values = (const Instruction *const *)hero->operands;
    DType x = values[0]->shape->dtype, y = values[1]->shape->dtype,
          sum = contract_accumulator(hero);
    *factor = DT_INVALID;
    if (t == NULL || t->tiles == TILES_NONE)
        return false;
    bool has_f32 = x == DT_F32 || y == DT_F32;
    bool is_packed = dtype_info[x].bits < 8 || dtype_info[y].bits < 8;
    if (!has_f32 && !is_packed && tensor_core_find(x, y, sum, t, UINT32_MAX) != NULL)
        return true;
    if (sum == DT_S32 && is_packed) {
        *factor = bytes_of_integers(x, y);
        return *factor != DT_INVALID &&
               tensor_core_find(*factor, *factor, sum, t, UINT32_MAX) != NULL;
    }
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        *factor = floats[i];
        if (is_held(hero, values[0], floats[i], depth) &&
            is_held(hero, values[1], floats[i], depth) &&
            tensor_core_find(*factor, *factor, sum, t, UINT32_MAX) != NULL)
            return true;
    }
    return false;
}

bool factor_type_find(const Instruction *hero, const Target *t, DType *factor)
{
    return find_factor(hero, t, 0, factor);
}

/* Its kernel may get the operands from others, and then sees no more than their types. */
bool ragged_dot_has_kernel(const Instruction *inst, const Target *t)
{
    RaggedForm form;
    DType factor;
    return ragged_form(inst, &form) && shape_elements(inst->shape) >= LEAST_ELEMENTS &&
           find_factor(inst, t, MOST_DEPTH, &factor);
}
