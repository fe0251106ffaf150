/* Factorisations of matrices as LAPACK makes them, for its calls by name: loops over the columns.
 *
 *   lu:  row i and the row p >= i with the largest |a[p, i]| change places;
 *        a[j, i] /= a[i, i];  a[j, k] -= a[j, i] a[i, k] for the rows j and columns k to come
 *   qr:  a = h a, h = 1 - t v v^H, so that a[j, i] is 0 for the rows j to come; v takes their place
 *   the product of the h: q = h q, the last first, from the unit matrix */
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

/* In the default layout. */
static Instruction *by_rows(Rewriter *r, Instruction *x)
{
    return rw_convert(r, rw_shape(r, x->shape->dtype, x->shape->rank, x->shape->dims), x);
}

/* One for each of `count` steps, as a column of s. */
static const Shape *for_steps(Rewriter *r, const Shape *s, DType t, int64_t count)
{
    int64_t *dims = arena_copy(r->scratch, s->dims, s->rank * sizeof *dims);
    dims[s->rank - 2] = count;
    dims[s->rank - 1] = 1;
    return rw_shape(r, t, s->rank, dims);
}

static Instruction *product(Columns *c, Instruction *a, Instruction *b, const Shape *s)
{
    return rw_binary(&c->r, OP_MULTIPLY, s, columns_repeated(c, a, s),
                     columns_repeated(c, b, s));
}

static Instruction *both(Columns *c, Instruction *a, Instruction *b)
{
    return rw_binary(&c->r, OP_AND, a->shape, a, b);
}

/* -- lu --------------------------------------------------------------------------------------- */

/* The row from i on with the largest element of the column, by |re| + |im|, the first of several; i
 * where one is NaN. */
static Instruction *pivot_row(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    Instruction *im = matrix_imag(r, column);
    Instruction *size = matrix_real(r, column);
    const Shape *real = size->shape;
    size = rw_unary(r, OP_ABS, real, size);
    if (im != NULL)
        size = rw_binary(r, OP_ADD, real, size, rw_unary(r, OP_ABS, real, im));
    size = matrix_select(r, columns_compare(c, real, true, DIRECTION_GE), size,
                         rw_splat(r, real, -1));
    Instruction *least = rw_splat(r, shape_scalar(c->m->intern, real->dtype), -1);
    Instruction *most = columns_reduced(c, size, OP_MAXIMUM, least);
    Instruction *is_most =
        matrix_compare(r, size, columns_repeated(c, most, real), DIRECTION_EQ);
    Instruction *rows = columns_numbers(c, real, true);
    Instruction *none = rw_splat_int(r, c->index, real->dims[c->rank - 2]);
    Instruction *first = columns_reduced(
        c, matrix_select(r, is_most, rows, rw_broadcast(r, rows->shape, none, 0, NULL)),
        OP_MINIMUM, none);
    Instruction *own = rw_broadcast(r, first->shape, c->i, 0, NULL);
    Instruction *is_found = matrix_compare(
        r, first, rw_broadcast(r, first->shape, none, 0, NULL), DIRECTION_LT);
    return matrix_select(r, is_found, first, own);
}

/* a with rows i and p exchanged, and row i of it. */
static Instruction *exchanged(Columns *c, Instruction *a, Instruction *p,
                              Instruction **out_row)
{
    Rewriter *r = &c->r;
    const Shape *s = a->shape;
    Instruction *rows = columns_numbers(c, s, true);
    Instruction *is_p =
        matrix_compare(r, rows, columns_repeated(c, p, rows->shape), DIRECTION_EQ);
    Instruction *minus_zero = rw_splat(r, shape_scalar(c->m->intern, s->dtype), -0.0);
    if (dtype_is_complex(s->dtype)) {
        const Shape *part = shape_scalar(c->m->intern, matrix_real_type(s->dtype));
        Instruction *zero = rw_splat(r, part, -0.0);
        minus_zero = rw_binary(r, OP_COMPLEX, minus_zero->shape, zero, zero);
    }
    Instruction *only =
        matrix_select(r, is_p, a, rw_broadcast(r, s, minus_zero, 0, NULL));
    Instruction *row = columns_reduced(c, only, OP_ADD, minus_zero);
    Instruction *old = columns_part(c, a, row->shape, c->i, NULL);
    *out_row = row;
    a = matrix_select(r, is_p, columns_repeated(c, old, s), a);
    return matrix_select(r, columns_compare(c, s, true, DIRECTION_EQ),
                         columns_repeated(c, row, s), a);
}

static void lu_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    const Shape *s = arrays[0]->shape;
    const Shape *column = columns_shape(c, s, s->dims[c->rank - 2], 1),
                *one = columns_shape(c, s, 1, 1);
    Instruction *p = pivot_row(c, columns_part(c, arrays[0], column, NULL, c->i));
    Instruction *row, *a = exchanged(c, arrays[0], p, &row);
    Instruction *pivot = columns_part(c, row, one, NULL, c->i);
    Instruction *old = columns_part(c, a, column, NULL, c->i);
    Instruction *by = columns_repeated(c, pivot, column);
    Instruction *is_divided =
        both(c, columns_compare(c, column, true, DIRECTION_GT),
             matrix_compare(r, by, rw_splat(r, column, 0), DIRECTION_NE));
    Instruction *l =
        matrix_select(r, is_divided, rw_binary(r, OP_DIVIDE, column, old, by), old);
    Instruction *to_come = both(c, columns_compare(c, s, true, DIRECTION_GT),
                                columns_compare(c, s, false, DIRECTION_GT));
    Instruction *rest = rw_binary(r, OP_SUBTRACT, s, a, product(c, l, row, s));
    a = matrix_select(r, to_come, rest, a);
    arrays[0] = columns_with_part(c, a, l, NULL, c->i);
    Instruction *number = rw_binary(r, OP_ADD, p->shape, p, rw_splat_int(r, p->shape, 1));
    arrays[1] = columns_with_part(c, arrays[1], number, c->i, NULL);
}

Instruction *expand_lu(Rewriter *r, Instruction *a, int64_t steps,
                       Instruction **out_pivots)
{
    const Shape *s = a->shape;
    Instruction *arrays[2] = {by_rows(r, a),
                              rw_splat_int(r, for_steps(r, s, DT_S32, steps), 0)};
    Instruction *loop = columns_loop(r, steps, true, 2, arrays, lu_step, NULL);
    *out_pivots = columns_result(r, loop, 1);
    return columns_result(r, loop, 0);
}

/* -- qr --------------------------------------------------------------------------------------- */

/* What a step makes of its column: the diagonal element, v and t. */
typedef struct Reflection {
    Instruction *diagonal, *v, *t;
} Reflection;

/* Of a real part and an imaginary one, or none. */
static Instruction *number(Rewriter *r, const Shape *s, Instruction *re, Instruction *im)
{
    return dtype_is_complex(s->dtype) ? rw_binary(r, OP_COMPLEX, s, re, im) : re;
}

/* The length of the rows of a column from i on, but for row i: in f64, where squares of f32 fit. */
static Instruction *squares_below(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    Instruction *re = matrix_real(r, column), *im = matrix_imag(r, column);
    const Shape *wide = rw_shape(r, DT_F64, c->rank, column->shape->dims);
    re = rw_convert(r, wide, re);
    Instruction *sum = rw_binary(r, OP_MULTIPLY, wide, re, re);
    if (im != NULL) {
        im = rw_convert(r, wide, im);
        sum = rw_binary(r, OP_ADD, wide, sum, rw_binary(r, OP_MULTIPLY, wide, im, im));
    }
    sum = matrix_select(r, columns_compare(c, wide, true, DIRECTION_GT), sum,
                        rw_splat(r, wide, 0));
    return columns_reduced(c, sum, OP_ADD,
                           rw_splat(r, shape_scalar(c->m->intern, DT_F64), 0));
}

/* What of a column is v: all below row i; 1 in row i, 0 above, where the column holds other things. */
static Instruction *reflector(Columns *c, Instruction *column)
{
    Rewriter *r = &c->r;
    const Shape *s = column->shape;
    Instruction *below = matrix_select(r, columns_compare(c, s, true, DIRECTION_GT),
                                       column, rw_splat(r, s, 0));
    return matrix_select(r, columns_compare(c, s, true, DIRECTION_EQ), rw_splat(r, s, 1),
                         below);
}

/* h that makes the column zero below row i: none, t = 0, where it is already. */
static Reflection reflection(Columns *c, Instruction *column)
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
    Instruction *is_done = matrix_compare(r, below, rw_splat(r, wide, 0), DIRECTION_EQ);
    zero = rw_splat(r, wide, 0);
    if (im != NULL) {
        y = rw_convert(r, wide, im);
        sum = rw_binary(r, OP_ADD, wide, sum, rw_binary(r, OP_MULTIPLY, wide, y, y));
        is_done = both(c, is_done, matrix_compare(r, y, zero, DIRECTION_EQ));
    }
    Instruction *size = rw_unary(r, OP_SQRT, wide, sum);
    Instruction *beta = matrix_select(r, matrix_compare(r, x, zero, DIRECTION_LT), size,
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
    h.v = reflector(c, matrix_select(r, is_none, rw_splat(r, s, 0), h.v));
    return h;
}

/* a - t v (v^H a) */
static Instruction *reflected(Columns *c, Instruction *a, Instruction *v, Instruction *t)
{
    Rewriter *r = &c->r;
    const Shape *s = a->shape;
    Instruction *zero = rw_splat(r, shape_scalar(c->m->intern, s->dtype), 0);
    Instruction *each =
        rw_binary(r, OP_MULTIPLY, s, columns_repeated(c, matrix_conjugate(r, v), s), a);
    Instruction *row = columns_reduced(c, each, OP_ADD, zero);
    row = product(c, t, row, row->shape);
    return rw_binary(r, OP_SUBTRACT, s, a, product(c, v, row, s));
}

static void qr_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *a = arrays[0];
    const Shape *s = a->shape, *column = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Instruction *old = columns_part(c, a, column, NULL, c->i);
    Reflection h = reflection(c, old);
    Instruction *rest = reflected(c, a, h.v, matrix_conjugate(r, h.t));
    a = matrix_select(r, columns_compare(c, s, false, DIRECTION_GT), rest, a);
    Instruction *own =
        matrix_select(r, columns_compare(c, column, true, DIRECTION_GT), h.v, old);
    own = matrix_select(r, columns_compare(c, column, true, DIRECTION_EQ),
                        columns_repeated(c, h.diagonal, column), own);
    arrays[0] = columns_with_part(c, a, own, NULL, c->i);
    arrays[1] = columns_with_part(c, arrays[1], h.t, c->i, NULL);
}

Instruction *expand_qr(Rewriter *r, Instruction *a, int64_t steps, Instruction **out_t)
{
    const Shape *s = a->shape;
    Instruction *arrays[2] = {by_rows(r, a),
                              rw_splat(r, for_steps(r, s, s->dtype, steps), 0)};
    Instruction *loop = columns_loop(r, steps, true, 2, arrays, qr_step, NULL);
    *out_t = columns_result(r, loop, 1);
    return columns_result(r, loop, 0);
}

/* -- the product of reflections --------------------------------------------------------------- */

static Instruction *unit_matrix(Rewriter *r, const Shape *s)
{
    Instruction *at[2];
    for (uint32_t i = 0; i < 2; i++) {
        at[i] = rw_add(r, OP_IOTA, rw_shape(r, DT_S32, s->rank, s->dims), 0, NULL);
        inst_set_int(at[i], ATTR_IOTA_DIMENSION, (int64_t)s->rank - 2 + i);
    }
    return rw_convert(r, rw_shape(r, s->dtype, s->rank, s->dims),
                      matrix_compare(r, at[0], at[1], DIRECTION_EQ));
}

static void product_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    const Shape *s = arrays[2]->shape,
                *column = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Instruction *v = reflector(c, columns_part(c, arrays[0], column, NULL, c->i));
    Instruction *t = columns_part(c, arrays[1], columns_shape(c, s, 1, 1), c->i, NULL);
    arrays[2] = reflected(c, arrays[2], v, t);
}

Instruction *expand_reflections(Rewriter *r, Instruction *v, Instruction *t)
{
    int64_t steps = t->shape->dims[t->shape->rank - 1];
    const Shape *s = v->shape;
    if (steps == 0)
        return unit_matrix(r, s);
    t = rw_reshape(r, for_steps(r, s, s->dtype, steps), by_rows(r, t));
    Instruction *arrays[3] = {by_rows(r, v), t, unit_matrix(r, s)};
    Instruction *loop = columns_loop(r, steps, false, 3, arrays, product_step, NULL);
    return columns_result(r, loop, 2);
}
