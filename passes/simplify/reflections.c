/* See reflections.h. */
#include "passes/simplify/reflections.h"

/* Of a real part and an imaginary one, or none. */
static Instruction *number(Rewriter *r, const Shape *s, Instruction *re, Instruction *im)
{
    return dtype_is_complex(s->dtype) ? rw_binary(r, OP_COMPLEX, s, re, im) : re;
}

/* The length of the rows of a column from i on, but for row i: in f64, where squares of f32 fit. */
static Instruction *squares_below(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    Instruction *sum = matrix_squares(r, column, DT_F64);
    const Shape *wide = sum->shape;
    sum = matrix_select(r, columns_compare(c, wide, true, DIRECTION_GT), sum,
                        rw_splat(r, wide, 0));
    return columns_reduced(c, sum, OP_ADD,
                           rw_splat(r, shape_scalar(c->m->intern, DT_F64), 0));
}

Instruction *reflection_vector(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    const Shape *s = column->shape;
    Instruction *below = matrix_select(r, columns_compare(c, s, true, DIRECTION_GT),
                                       column, rw_splat(r, s, 0));
    return matrix_select(r, columns_compare(c, s, true, DIRECTION_EQ), rw_splat(r, s, 1),
                         below);
}

Reflection reflection_of(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    const Shape *one = columns_shape(c, column->shape, 1, 1);
    Instruction *alpha = columns_part(c, column, one, c->i, NULL), *zero;
    Instruction *re = matrix_real(r, alpha), *im = matrix_imag(r, alpha);
    const Shape *real = re->shape, *wide = rw_shape(r, DT_F64, c->rank, one->dims);
    Instruction *below = squares_below(c, column);
    Instruction *x = rw_convert(r, wide, re), *y = NULL;
    Instruction *sum =
        rw_binary(r, OP_ADD, wide, below, rw_binary(r, OP_MULTIPLY, wide, x, x));
    Instruction *is_done = rw_compare(r, below, rw_splat(r, wide, 0), DIRECTION_EQ);
    zero = rw_splat(r, wide, 0);
    if (im != NULL) {
        y = rw_convert(r, wide, im);
        sum = rw_binary(r, OP_ADD, wide, sum, rw_binary(r, OP_MULTIPLY, wide, y, y));
        is_done = matrix_both(r, is_done, rw_compare(r, y, zero, DIRECTION_EQ));
    }
    Instruction *size = rw_unary(r, OP_SQRT, wide, sum);
    Instruction *beta = matrix_select(r, rw_compare(r, x, zero, DIRECTION_LT), size,
                                      rw_unary(r, OP_NEGATE, wide, size));
    Instruction *t =
        rw_binary(r, OP_DIVIDE, wide, rw_binary(r, OP_SUBTRACT, wide, beta, x), beta);
    t = rw_convert(r, real, matrix_select(r, is_done, zero, t));
    Instruction *ti = NULL, *none = rw_splat(r, real, 0);
    if (im != NULL) {
        ti = rw_binary(r, OP_DIVIDE, wide, rw_unary(r, OP_NEGATE, wide, y), beta);
        ti = rw_convert(r, real, matrix_select(r, is_done, zero, ti));
    }
    beta = rw_convert(r, real, matrix_select(r, is_done, x, beta));
    Reflection h = {.diagonal = number(r, one, beta, none), .t = number(r, one, t, ti)};
    const Shape *s = column->shape;
    Instruction *by = rw_binary(r, OP_SUBTRACT, one, alpha, h.diagonal);
    h.v = rw_binary(r, OP_DIVIDE, s, column, columns_repeated(c, by, s));
    Instruction *is_none =
        columns_repeated(c, is_done, rw_shape(r, DT_PRED, c->rank, s->dims));
    h.v = reflection_vector(c, matrix_select(r, is_none, rw_splat(r, s, 0), h.v));
    return h;
}

Instruction *reflection_apply(Columns *c, Instruction *a, Instruction *v, Instruction *t)
{
    Rewriter *r = &c->r;
    const Shape *s = a->shape;
    Instruction *zero = rw_splat(r, shape_scalar(c->m->intern, s->dtype), 0);
    Instruction *each =
        rw_binary(r, OP_MULTIPLY, s, columns_repeated(c, matrix_conjugate(r, v), s), a);
    Instruction *row = columns_reduced(c, each, OP_ADD, zero);
    row = columns_product(c, t, row, row->shape);
    return rw_binary(r, OP_SUBTRACT, s, a, columns_product(c, v, row, s));
}
