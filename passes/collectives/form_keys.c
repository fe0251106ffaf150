/* Floats as integers of the same order, for the maxima and minima that HLO has: NaN if there is one. NCCL's of floats lose
 * NaN (fmaxf, __hmax in its reduce_kernel.h), its integers compare as they are.
 *
 *   bits = s32 bitcast-convert(x)      key = bits ^ (bits >> 31 & 0x7fffffff)      NaN: the largest key (least: of minima)
 *
 * The way back is the same, of which the largest and the least key become a NaN by themselves. */
#include "passes/collectives/form.h"

/* The type whose bits are keys: what is narrower than 32 bits is widened first, as NCCL compares no integers of 16. */
static DType wide_of(DType t)
{
    return t == DT_F64 ? DT_F64 : DT_F32;
}

DType form_key_type(DType t)
{
    return wide_of(t) == DT_F64 ? DT_S64 : DT_S32;
}

static Instruction *binary(Form *f, OpCode op, Instruction *x, Instruction *y)
{
    Instruction *operands[2] = {x, y};
    return computation_add(f->comp, op, x->shape, 2, operands, NULL);
}

static Instruction *everywhere(Form *f, const Shape *s, int64_t value)
{
    Literal *l = literal_create(f->m->arena, shape_scalar(f->m->intern, s->dtype));
    literal_set_int(l, 0, value);
    Instruction *all =
        form_unary(OP_BROADCAST, s, computation_add_constant(f->comp, l, NULL));
    inst_set_ints(all, ATTR_DIMENSIONS, NULL, 0);
    return all;
}

/* Negative numbers the other way round: from bits to keys, and back. */
static Instruction *turn_negative(Form *f, Instruction *bits)
{
    bool is_long = bits->shape->dtype == DT_S64;
    Instruction *sign = binary(f, OP_SHIFT_RIGHT_ARITHMETIC, bits,
                               everywhere(f, bits->shape, is_long ? 63 : 31));
    Instruction *rest =
        everywhere(f, bits->shape, is_long ? INT64_MAX : (int64_t)INT32_MAX);
    return binary(f, OP_XOR, bits, binary(f, OP_AND, sign, rest));
}

Instruction *form_to_keys(Form *f, Instruction *x, OpCode op)
{
    x = form_convert(f, x, wide_of(x->shape->dtype));
    bool is_long = x->shape->dtype == DT_F64, is_maximum = op == OP_MAXIMUM;
    const Shape *keys =
        shape_with_dtype(f->m->intern, x->shape, form_key_type(x->shape->dtype));
    const Shape *masks = shape_with_dtype(f->m->intern, x->shape, DT_PRED);
    Instruction *key = turn_negative(f, form_unary(OP_BITCAST_CONVERT, keys, x));
    Instruction *sides[2] = {x, x};
    Instruction *is_nan = computation_add(f->comp, OP_COMPARE, masks, 2, sides, NULL);
    inst_set_int(is_nan, ATTR_DIRECTION, DIRECTION_NE);
    int64_t extreme = is_long ? (is_maximum ? INT64_MAX : INT64_MIN)
                              : (is_maximum ? INT32_MAX : INT32_MIN);
    Instruction *choice[3] = {is_nan, everywhere(f, keys, extreme), key};
    return computation_add(f->comp, OP_SELECT, keys, 3, choice, NULL);
}

Instruction *form_from_keys(Form *f, Instruction *keys, DType t)
{
    const Shape *s = shape_with_dtype(f->m->intern, keys->shape, wide_of(t));
    Instruction *x = form_unary(OP_BITCAST_CONVERT, s, turn_negative(f, keys));
    return form_convert(f, x, t);
}
