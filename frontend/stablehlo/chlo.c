/* CHLO's broadcasting forms, and its operations that are a few of HLO's. Special functions: special.c. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "frontend/stablehlo/math.h"
#include "ir/dtype.h"

/* -- broadcasting operands ------------------------------------------------------------------ */

/* Dimension i of an operand is one of the result: the last ones, or those that are given. */
static Instruction *spread(Converter *c, Instruction *inst, const Shape *like,
                           const Ints *given)
{
    const Shape *s = inst->shape;
    const Shape *to =
        shape_array(c->intern, s->dtype, like->rank, like->dims, like->dynamic, NULL);
    if (s == to)
        return inst;
    if (!shape_is_array(s) || s->rank > like->rank)
        return convert_error(c, "%s cannot be broadcast to %s",
                             shape_text(c->scratch, s, false),
                             shape_text(c->scratch, to, false));
    if (given != NULL && given->count == s->rank && s->rank != like->rank)
        return broadcast_in_dim(c, inst, to, *given);
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = like->rank - s->rank + i;
    return broadcast_in_dim(c, inst, to, (Ints){dims, s->rank});
}

/* The sizes of the result, which its type may leave open. */
static const Shape *common_shape(Converter *c, const MlirOp *op)
{
    const Shape *said = result_shape(op, 0);
    if (!shape_is_unbounded(said))
        return said;
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, said->rank + 1u);
    for (uint32_t i = 0; i < said->rank; i++)
        dims[i] = 1;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const Shape *s = operand_of(op, k)->shape;
        for (uint32_t i = 0; shape_is_array(s) && s->rank <= said->rank && i < s->rank;
             i++)
            if (s->dims[i] != 1)
                dims[said->rank - s->rank + i] = s->dims[i];
    }
    return shape_sized(c, said, said->rank, dims);
}

/* The operands, spread; NULL after a message. */
static Instruction **spread_operands(Converter *c, const MlirOp *op, const Shape *shape)
{
    Ints given;
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    if (!attr_ints(c, op, NULL, "broadcast_dimensions", &given))
        return NULL;
    bool has = ask(c, op, NULL, "broadcast_dimensions") != NULL;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        operands[i] =
            make_finish(c, spread(c, operand_of(op, i), shape, has ? &given : NULL));
        if (operands[i] == NULL)
            return NULL;
    }
    return operands;
}

void convert_chlo_broadcast(Converter *c, const MlirOp *op, const OpRow *row)
{
    const Shape *shape = common_shape(c, op);
    Instruction **operands = spread_operands(c, op, shape);
    if (operands == NULL)
        return;
    Instruction *inst = make(c, row->op, shape, op->operand_count, operands);
    if (set_row_attrs(c, op, row, inst))
        bind(c, op, make_finish(c, inst));
}

void convert_chlo_broadcast_select(Converter *c, const MlirOp *op, const OpRow *row)
{
    convert_chlo_broadcast(c, op, row);
}

static void spread_binary(Converter *c, const MlirOp *op, BinaryMathFn *function)
{
    Instruction **operands = spread_operands(c, op, common_shape(c, op));
    if (operands != NULL)
        bind(c, op, math_binary(c, operands[0], operands[1], function));
}

void convert_chlo_broadcast_zeta(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    spread_binary(c, op, math_zeta);
}

void convert_chlo_broadcast_polygamma(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    spread_binary(c, op, math_polygamma);
}

void convert_chlo_broadcast_next_after(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction **operands = spread_operands(c, op, common_shape(c, op));
    if (operands != NULL)
        bind(c, op, math_next_after(c, operands[0], operands[1]));
}

/* -- a few operations of HLO ----------------------------------------------------------------- */

void convert_chlo_atan(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *x = operand_of(op, 0);
    if (!shape_is_array(x->shape))
        return;
    if (!dtype_is_complex(x->shape->dtype)) {
        Instruction *one = make_splat(c, x->shape, 1);
        bind(c, op, make_finish(c, make2(c, OP_ATAN2, result_shape(op, 0), x, one)));
        return;
    }
    /* atan x = -i atanh(i x): with x = a + b i, i x = -b + a i */
    DType part = number_component(x->shape->dtype);
    const Shape *s = shape_with_dtype(c->intern, x->shape, part);
    Instruction *re = make1(c, OP_REAL, s, x), *im = make1(c, OP_IMAG, s, x);
    Instruction *ix = make2(c, OP_COMPLEX, x->shape, make1(c, OP_NEGATE, s, im), re);
    Instruction *y = make1(c, OP_ATANH, x->shape, ix);
    re = make1(c, OP_REAL, s, y);
    im = make1(c, OP_IMAG, s, y);
    bind(c, op, make2(c, OP_COMPLEX, x->shape, im, make1(c, OP_NEGATE, s, re)));
}

void convert_chlo_conj(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *x = operand_of(op, 0);
    if (!shape_is_array(x->shape) || !dtype_is_complex(x->shape->dtype)) {
        op->results[0].inst = x;
        return;
    }
    const Shape *s =
        shape_with_dtype(c->intern, x->shape, number_component(x->shape->dtype));
    Instruction *im = make1(c, OP_NEGATE, s, make1(c, OP_IMAG, s, x));
    bind(c, op, make2(c, OP_COMPLEX, x->shape, make1(c, OP_REAL, s, x), im));
}

void convert_chlo_square(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *x = operand_of(op, 0);
    bind(c, op, make_finish(c, make2(c, OP_MULTIPLY, result_shape(op, 0), x, x)));
}

void convert_chlo_constant_like(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const MlirAttr *value = ask(c, op, NULL, "value");
    const Shape *like = operand_of(op, 0)->shape;
    if (!shape_is_array(like) || value == NULL ||
        (value->kind != MLIR_INT && value->kind != MLIR_FLOAT &&
         value->kind != MLIR_BOOL)) {
        convert_error(c, "constant_like has a number, value");
        return;
    }
    DType t = result_shape(op, 0)->dtype;
    Instruction *scalar = value->kind == MLIR_FLOAT ? make_scalar(c, t, value->f)
                          : dtype_is_complex(t) || dtype_is_float(t)
                              ? make_scalar(c, t, (double)value->i)
                              : make_int_scalar(c, t, value->i);
    bind(c, op, make_broadcast(c, scalar, like));
}

static void compare_infinity(Converter *c, const MlirOp *op, Instruction *x,
                             double infinity)
{
    if (x == NULL || !shape_is_array(x->shape) || !dtype_is_float(x->shape->dtype)) {
        convert_error(c, "%s is of floats", op->name);
        return;
    }
    const Shape *s = shape_with_dtype(c->intern, x->shape, DT_PRED);
    Instruction *inst = make2(c, OP_COMPARE, s, x, make_splat(c, x->shape, infinity));
    inst_set_int(inst, ATTR_DIRECTION, DIRECTION_EQ);
    bind(c, op, make_finish(c, inst));
}

void convert_chlo_is_inf(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *x = operand_of(op, 0);
    compare_infinity(c, op, make1(c, OP_ABS, x->shape, x), (double)INFINITY);
}

void convert_chlo_is_pos_inf(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    compare_infinity(c, op, operand_of(op, 0), (double)INFINITY);
}

void convert_chlo_is_neg_inf(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    compare_infinity(c, op, operand_of(op, 0), -(double)INFINITY);
}

/* -- special functions ----------------------------------------------------------------------- */

#define UNARY(name)                                                                      \
    void convert_chlo_##name(Converter *c, const MlirOp *op, const OpRow *row)           \
    {                                                                                    \
        (void)row;                                                                       \
        bind(c, op, math_unary(c, operand_of(op, 0), math_##name));                      \
    }
UNARY(bessel_i1e)
UNARY(digamma)
UNARY(erf_inv)
UNARY(erfc)
UNARY(lgamma)
#undef UNARY

void convert_chlo_zeta(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    bind(c, op, math_binary(c, operand_of(op, 0), operand_of(op, 1), math_zeta));
}

void convert_chlo_polygamma(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    bind(c, op, math_binary(c, operand_of(op, 0), operand_of(op, 1), math_polygamma));
}

void convert_chlo_next_after(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    bind(c, op, math_next_after(c, operand_of(op, 0), operand_of(op, 1)));
}
