/* Factorisations of matrices as LAPACK makes them, for its calls by name: loops over the columns.
 *
 *   lu:  row i and the row p >= i with the largest |a[p, i]| are swapped;
 *        a[j, i] /= a[i, i];  a[j, k] -= a[j, i] a[i, k] for the rows j and columns k to come
 *   qr:  a = h a, h = 1 - t v v^H, so that a[j, i] is 0 for the rows j to come; v takes their place
 *   the product of the h: q = h q, the last first, from the unit matrix
 *   qr with pivots: the longest of the columns to come is swapped with column i before each step */
#include "ir/number/number.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"
#include "passes/simplify/reflections.h"

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
        rw_compare(r, size, columns_repeated(c, most, real), DIRECTION_EQ);
    Instruction *rows = columns_numbers(c, real, true);
    Instruction *none = rw_splat_int(r, c->index, real->dims[c->rank - 2]);
    Instruction *first = columns_reduced(
        c, matrix_select(r, is_most, rows, rw_broadcast(r, rows->shape, none, 0, NULL)),
        OP_MINIMUM, none);
    Instruction *own = rw_broadcast(r, first->shape, c->i, 0, NULL);
    Instruction *is_found =
        rw_compare(r, first, rw_broadcast(r, first->shape, none, 0, NULL), DIRECTION_LT);
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
        rw_compare(r, rows, columns_repeated(c, p, rows->shape), DIRECTION_EQ);
    Instruction *minus_zero = rw_splat(r, shape_scalar(c->m->intern, s->dtype), -0.0);
    if (dtype_is_complex(s->dtype)) {
        const Shape *part = shape_scalar(c->m->intern, number_component(s->dtype));
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
        matrix_both(&c->r, columns_compare(c, column, true, DIRECTION_GT),
                    rw_compare(r, by, rw_splat(r, column, 0), DIRECTION_NE));
    Instruction *l =
        matrix_select(r, is_divided, rw_binary(r, OP_DIVIDE, column, old, by), old);
    Instruction *to_come = matrix_both(&c->r, columns_compare(c, s, true, DIRECTION_GT),
                                       columns_compare(c, s, false, DIRECTION_GT));
    Instruction *trailing =
        rw_binary(r, OP_SUBTRACT, s, a, columns_product(c, l, row, s));
    a = matrix_select(r, to_come, trailing, a);
    arrays[0] = columns_with_part(c, a, l, NULL, c->i);
    Instruction *number = rw_binary(r, OP_ADD, p->shape, p, rw_splat_int(r, p->shape, 1));
    arrays[1] = columns_with_part(c, arrays[1], number, c->i, NULL);
}

Instruction *expand_lu(Rewriter *r, Instruction *a, int64_t steps,
                       Instruction **out_pivots)
{
    const Shape *s = a->shape;
    Instruction *arrays[2] = {matrix_by_rows(r, a),
                              rw_splat_int(r, matrix_for_steps(r, s, DT_S32, steps), 0)};
    Instruction *loop = columns_loop(r, steps, true, 2, arrays, lu_step, NULL);
    *out_pivots = columns_result(r, loop, 1);
    return columns_result(r, loop, 0);
}

/* -- qr --------------------------------------------------------------------------------------- */

static void qr_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *a = arrays[0];
    const Shape *s = a->shape, *column = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Instruction *old = columns_part(c, a, column, NULL, c->i);
    Reflection h = reflection_of(c, old);
    Instruction *trailing = reflection_apply(c, a, h.v, matrix_conjugate(r, h.t));
    a = matrix_select(r, columns_compare(c, s, false, DIRECTION_GT), trailing, a);
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
    Instruction *arrays[2] = {matrix_by_rows(r, a),
                              rw_splat(r, matrix_for_steps(r, s, s->dtype, steps), 0)};
    Instruction *loop = columns_loop(r, steps, true, 2, arrays, qr_step, NULL);
    *out_t = columns_result(r, loop, 1);
    return columns_result(r, loop, 0);
}

/* -- products of reflections ------------------------------------------------------------------- */

/* user: whether h^H is wanted */
static void product_step(Columns *c, const void *user, Instruction **arrays)
{
    const bool *adjoint = user;
    const Shape *s = arrays[2]->shape,
                *column = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Instruction *v = reflection_vector(c, columns_part(c, arrays[0], column, NULL, c->i));
    Instruction *t = columns_part(c, arrays[1], columns_shape(c, s, 1, 1), c->i, NULL);
    arrays[2] =
        reflection_apply(c, arrays[2], v, *adjoint ? matrix_conjugate(&c->r, t) : t);
}

/* h0 h1 .. x, or (h0 h1 ..)^H x */
static Instruction *multiplied(Rewriter *r, Instruction *v, Instruction *t,
                               Instruction *x, bool adjoint)
{
    int64_t steps = t->shape->dims[t->shape->rank - 1];
    if (steps == 0)
        return x;
    t = rw_reshape(r, matrix_for_steps(r, v->shape, t->shape->dtype, steps),
                   matrix_by_rows(r, t));
    Instruction *arrays[3] = {matrix_by_rows(r, v), t, x};
    Instruction *loop =
        columns_loop(r, steps, adjoint, 3, arrays, product_step, &adjoint);
    return columns_result(r, loop, 2);
}

Instruction *expand_reflections(Rewriter *r, Instruction *v, Instruction *t)
{
    return multiplied(r, v, t, matrix_unit(r, v->shape), false);
}

/* -- qr with pivots --------------------------------------------------------------------------- */

/* x with columns i and p exchanged. */
static Instruction *with_columns_exchanged(Columns *c, Instruction *x, Instruction *p)
{
    Rewriter *r = &c->r;
    const Shape *s = x->shape, *one = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Instruction *numbers = matrix_numbers(r, s, false);
    Instruction *is_p =
        rw_compare(r, numbers, columns_repeated(c, p, numbers->shape), DIRECTION_EQ);
    Instruction *first = rw_splat(r, shape_scalar(c->m->intern, s->dtype), 0);
    Instruction *only = matrix_select(r, is_p, x, rw_splat(r, s, 0));
    int64_t last = (int64_t)c->rank - 1;
    Instruction *of_p =
        rw_reshape(r, one, matrix_reduced(r, OP_ADD, only, first, 1, &last));
    Instruction *of_i = columns_part(c, x, one, NULL, c->i);
    x = matrix_select(r, is_p, columns_repeated(c, of_i, s), x);
    return columns_with_part(c, x, of_p, NULL, c->i);
}

/* The longest of the columns from i on, by their rows from i on, the first of several; i where that many are fixed, or
 * nothing is longer than NaN. */
static Instruction *longest_column(Columns *c, Instruction *a, Instruction *fixed)
{
    Rewriter *r = &c->r;
    Instruction *sum = matrix_squares(r, a, DT_F64);
    const Shape *wide = sum->shape;
    Instruction *zero = rw_splat(r, shape_scalar(c->m->intern, DT_F64), 0);
    sum = matrix_select(r, columns_compare(c, wide, true, DIRECTION_GE), sum,
                        rw_splat(r, wide, 0));
    sum = columns_reduced(c, sum, OP_ADD, zero);
    const Shape *real =
        rw_shape(r, number_component(a->shape->dtype), c->rank, sum->shape->dims);
    sum = rw_convert(r, real, sum);
    Instruction *counts =
        matrix_both(r, columns_compare(c, real, false, DIRECTION_GE),
                    rw_compare(r, sum, rw_splat(r, real, 0), DIRECTION_GE));
    sum = matrix_select(r, counts, sum, rw_splat(r, real, -1));
    int64_t last = (int64_t)c->rank - 1, n = real->dims[last];
    const Shape *one = columns_shape(c, real, 1, 1),
                *index = rw_shape(r, DT_S32, c->rank, one->dims);
    Instruction *least = rw_splat(r, shape_scalar(c->m->intern, real->dtype), -1);
    Instruction *most =
        rw_reshape(r, one, matrix_reduced(r, OP_MAXIMUM, sum, least, 1, &last));
    Instruction *numbers = matrix_numbers(r, real, false);
    Instruction *none = rw_splat_int(r, numbers->shape, n);
    Instruction *is_most =
        rw_compare(r, sum, columns_repeated(c, most, real), DIRECTION_EQ);
    Instruction *at =
        matrix_reduced(r, OP_MINIMUM, matrix_select(r, is_most, numbers, none),
                       rw_splat_int(r, c->index, n), 1, &last);
    Instruction *own = rw_broadcast(r, index, c->i, 0, NULL);
    Instruction *is_free =
        matrix_both(r, rw_compare(r, own, fixed, DIRECTION_GE),
                    rw_compare(r, most, rw_splat(r, one, 0), DIRECTION_GE));
    return matrix_select(r, is_free, rw_reshape(r, index, at), own);
}

/* arrays: a, the order, t, how many columns are fixed */
static void pivoted_step(Columns *c, const void *user, Instruction **arrays)
{
    Instruction *p = longest_column(c, arrays[0], arrays[3]);
    Instruction *qr[2] = {with_columns_exchanged(c, arrays[0], p), arrays[2]};
    arrays[1] = with_columns_exchanged(c, arrays[1], p);
    qr_step(c, user, qr);
    arrays[0] = qr[0];
    arrays[2] = qr[1];
}

/* arrays: a, the order, how many columns are fixed, which ones */
static void fixing_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    const Shape *s = arrays[2]->shape;
    Instruction *own = rw_broadcast(r, s, c->i, 0, NULL), *zero = rw_splat_int(r, s, 0);
    Instruction *is_fixed =
        rw_compare(r, columns_part(c, arrays[3], s, NULL, c->i), zero, DIRECTION_NE);
    Instruction *p = matrix_select(r, is_fixed, arrays[2], own);
    arrays[0] = with_columns_exchanged(c, arrays[0], p);
    arrays[1] = with_columns_exchanged(c, arrays[1], p);
    Instruction *more = rw_convert(r, s, is_fixed);
    arrays[2] = rw_binary(r, OP_ADD, s, arrays[2], more);
}

Instruction *expand_geqp3(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    const Shape *const *out = inst->shape->elements;
    Instruction *a = matrix_by_rows(r, inst->operands[0]), *given = inst->operands[1];
    const Shape *s = a->shape;
    int64_t n = s->dims[s->rank - 1], steps = out[2]->dims[out[2]->rank - 1];
    const Shape *row = rw_shape(r, DT_S32, s->rank, matrix_sized(r, s, 1, n)->dims),
                *one = rw_shape(r, DT_S32, s->rank, matrix_sized(r, s, 1, 1)->dims);
    Instruction *order =
        rw_binary(r, OP_ADD, row, matrix_numbers(r, row, false), rw_splat_int(r, row, 1));
    Instruction *fixed = rw_splat_int(r, one, 0);
    if (!rw_is_splat(given, 0)) {
        given = rw_reshape(r, row, matrix_by_rows(r, given));
        Instruction *arrays[4] = {a, order, fixed, given};
        Instruction *loop = columns_loop(r, n, true, 4, arrays, fixing_step, NULL);
        a = columns_result(r, loop, 0);
        order = columns_result(r, loop, 1);
        fixed = columns_result(r, loop, 2);
    }
    Instruction *t = rw_splat(r, matrix_for_steps(r, s, s->dtype, steps), 0);
    Instruction *arrays[4] = {a, order, t, fixed};
    Instruction *loop = columns_loop(r, steps, true, 4, arrays, pivoted_step, NULL);
    Instruction *parts[3];
    for (uint32_t i = 0; i < 3; i++)
        parts[i] = matrix_given_as(r, out[i], columns_result(r, loop, i));
    return rw_add(r, OP_TUPLE, inst->shape, 3, parts);
}

/* -- the calls -------------------------------------------------------------------------------- */

Instruction *expand_getrf(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    const Shape *const *s = inst->shape->elements;
    Instruction *pivots,
        *made = expand_lu(r, inst->operands[0], s[1]->dims[s[1]->rank - 1], &pivots);
    Instruction *parts[3] = {matrix_given_as(r, s[0], made),
                             matrix_given_as(r, s[1], pivots),
                             expand_info(r, made, s[2], DIRECTION_NE)};
    return rw_add(r, OP_TUPLE, inst->shape, 3, parts);
}

Instruction *expand_geqrf(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    const Shape *const *s = inst->shape->elements;
    Instruction *t,
        *made = expand_qr(r, inst->operands[0], s[1]->dims[s[1]->rank - 1], &t);
    Instruction *parts[2] = {matrix_given_as(r, s[0], made), matrix_given_as(r, s[1], t)};
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

Instruction *expand_orgqr(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    Instruction *q = expand_reflections(r, inst->operands[0], inst->operands[1]);
    return matrix_given_as(r, inst->shape, q);
}

/* c q is (q^H c^H)^H */
Instruction *expand_ormqr(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    Instruction *x = matrix_by_rows(r, inst->operands[2]);
    bool adjoint = how->transpose == TRANSPOSE_ADJOINT;
    if (!how->left)
        x = matrix_conjugate(r, matrix_transposed(r, x));
    x = multiplied(r, inst->operands[0], inst->operands[1], x, adjoint == how->left);
    if (!how->left)
        x = matrix_conjugate(r, matrix_transposed(r, x));
    return matrix_given_as(r, inst->shape, x);
}
