/* Eigenvalues of Hermitian matrices and singular values by Jacobi's rotations, in HLO: loops of sweeps over all pairs of
 * columns, half of the columns with the other half at a time, as in a tournament.
 *
 *   syevd:  (p q) = columns i and n/2 + i;  a = j^H a j, v = v j, j the rotations that make a[p, q] zero
 *   gesvd:  a = a j, v = v j, j the rotations that make columns p and q orthogonal (Hestenes, 1958)
 *
 * after which the columns move on by one position. Sweeps end where nothing is left to do, or at SWEEPS_MOST. Matrices are
 * [batch, rows, columns] here; of v (and of a for gesvd) the transpose is kept, so that a rotation is of whole rows.
 * Signs of vectors are chosen as the evaluator chooses them (ir/eval/jacobi.c). */
#include <math.h>

#include "ir/number/number.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

#define SWEEPS_MOST 40

/* -- words ------------------------------------------------------------------------------------ */

static Instruction *real_splat(Rewriter *r, const Shape *like, double value)
{
    return rw_splat(r, rw_shape(r, number_component(like->dtype), like->rank, like->dims),
                    value);
}

static Instruction *multiply(Rewriter *r, Instruction *a, Instruction *b)
{
    return rw_binary(r, OP_MULTIPLY, a->shape, a, b);
}

/* x, a number for each row or each column of s, for all elements of it. */
static Instruction *along(Rewriter *r, const Shape *s, Instruction *x, bool rows)
{
    int64_t dims[2] = {0, rows ? 1 : 2};
    return rw_broadcast(r, rw_shape(r, x->shape->dtype, 3, s->dims), x, 2, dims);
}

/* x, a number for each matrix, for s: of rank 2 or 3. */
static Instruction *for_all(Rewriter *r, const Shape *s, Instruction *x)
{
    int64_t batch = 0;
    return rw_broadcast(r, rw_shape(r, x->shape->dtype, s->rank, s->dims), x, 1, &batch);
}

/* Real x as a number of type t. */
static Instruction *of_type(Rewriter *r, DType t, Instruction *x)
{
    if (!dtype_is_complex(t))
        return x;
    return rw_binary(r, OP_COMPLEX, rw_shape(r, t, x->shape->rank, x->shape->dims), x,
                     rw_splat(r, x->shape, 0));
}

/* |x|^2 */
static Instruction *squares(Rewriter *r, Instruction *x)
{
    return matrix_squares(r, x, number_component(x->shape->dtype));
}

static Instruction *sum_of_rows(Rewriter *r, Instruction *x)
{
    const Shape *s = rw_shape(r, x->shape->dtype, 2, x->shape->dims);
    return rw_sum(r, s, x, 1, (int64_t[]){2});
}

static Instruction *sum_of_matrix(Rewriter *r, Instruction *x)
{
    const Shape *s = rw_shape(r, x->shape->dtype, 1, x->shape->dims);
    return rw_sum(r, s, x, 2, (int64_t[]){1, 2});
}

static Instruction *is_diagonal(Rewriter *r, const Shape *s)
{
    return matrix_unit(r, rw_shape(r, DT_PRED, 3, s->dims));
}

/* Elements (i, i). */
static Instruction *diagonal(Rewriter *r, Instruction *x)
{
    Instruction *only =
        matrix_select(r, is_diagonal(r, x->shape), x, rw_splat(r, x->shape, 0));
    return sum_of_rows(r, only);
}

static Instruction *any_of(Rewriter *r, Instruction *p)
{
    Instruction *no = rw_splat_int(r, shape_scalar(r->m->intern, DT_PRED), 0);
    return matrix_reduced(r, OP_OR, p, no, 1, (int64_t[]){0});
}

static double epsilon(DType t)
{
    return number_component(t) == DT_F32 ? 0x1p-23 : 0x1p-52;
}

/* Of matrix x by rows, [batch, rows, columns]. */
static Instruction *batched(Rewriter *r, Instruction *x)
{
    const Shape *s = x->shape;
    int64_t dims[3] = {1, s->dims[s->rank - 2], s->dims[s->rank - 1]};
    for (uint32_t i = 0; i + 2 < s->rank; i++)
        dims[0] *= s->dims[i];
    return rw_reshape(r, rw_shape(r, s->dtype, 3, dims), matrix_by_rows(r, x));
}

/* -- rotations -------------------------------------------------------------------------------- */

/* Columns p and q become c p - conj(s) q and s p + c q: for each pair, of the matrix's type. */
typedef struct Rotation {
    Instruction *c, *s, *conjugate;
} Rotation;

/* Those that make p, x; x^H, q diagonal. */
static Rotation rotation_of(Rewriter *r, Instruction *p, Instruction *q, Instruction *x)
{
    const Shape *s = p->shape;
    Instruction *one = rw_splat(r, s, 1), *zero = rw_splat(r, s, 0);
    Instruction *size = rw_unary(r, OP_ABS, s, x);
    Instruction *is_none = rw_compare(r, size, zero, DIRECTION_EQ);
    Instruction *u = rw_binary(r, OP_DIVIDE, s, rw_binary(r, OP_SUBTRACT, s, q, p),
                               rw_binary(r, OP_ADD, s, size, size));
    Instruction *root =
        rw_unary(r, OP_SQRT, s, rw_binary(r, OP_ADD, s, one, multiply(r, u, u)));
    Instruction *sign =
        matrix_select(r, rw_compare(r, u, zero, DIRECTION_LT), rw_splat(r, s, -1), one);
    Instruction *t = rw_binary(r, OP_DIVIDE, s, sign,
                               rw_binary(r, OP_ADD, s, rw_unary(r, OP_ABS, s, u), root));
    Instruction *c = rw_binary(
        r, OP_DIVIDE, s, one,
        rw_unary(r, OP_SQRT, s, rw_binary(r, OP_ADD, s, one, multiply(r, t, t))));
    Instruction *by = rw_binary(r, OP_DIVIDE, s, multiply(r, c, t), size);
    c = matrix_select(r, is_none, one, c);
    by = matrix_select(r, is_none, zero, by);
    DType type = x->shape->dtype;
    Rotation out = {.c = of_type(r, type, c), .s = multiply(r, x, of_type(r, type, by))};
    out.conjugate = matrix_conjugate(r, out.s);
    return out;
}

/* Halves p and q become c p - minus q and plus p + c q. */
static void rotate(Rewriter *r, Instruction **p, Instruction **q, bool rows,
                   Instruction *c, Instruction *minus, Instruction *plus)
{
    const Shape *s = (*p)->shape;
    Instruction *a = *p, *b = *q;
    c = along(r, s, c, rows);
    *p = rw_binary(r, OP_SUBTRACT, s, multiply(r, c, a),
                   multiply(r, along(r, s, minus, rows), b));
    *q = rw_binary(r, OP_ADD, s, multiply(r, along(r, s, plus, rows), a),
                   multiply(r, c, b));
}

static Instruction *cut(Rewriter *r, Instruction *x, bool rows, int64_t first,
                        int64_t count)
{
    const Shape *s = x->shape;
    return rows ? matrix_part(r, x, first, count, 0, s->dims[2])
                : matrix_part(r, x, 0, s->dims[1], first, count);
}

/* Halves a and b one behind the other, each row, or column, but the first one position on: a to the right, then b to the
 * left. After as many times as there are rows less one, each has its position again, and has met all others. */
static Instruction *moved_on(Rewriter *r, Instruction *a, Instruction *b, bool rows)
{
    int64_t h = a->shape->dims[rows ? 1 : 2];
    if (h == 1)
        return matrix_joined(r, a, b, rows);
    Instruction *x = matrix_joined(r, cut(r, a, rows, 0, 1), cut(r, b, rows, 0, 1), rows);
    if (h > 2)
        x = matrix_joined(r, x, cut(r, a, rows, 1, h - 2), rows);
    x = matrix_joined(r, x, cut(r, b, rows, 1, h - 1), rows);
    return matrix_joined(r, x, cut(r, a, rows, h - 1, 1), rows);
}

static void halve(Rewriter *r, Instruction *x, bool rows, Instruction **a,
                  Instruction **b)
{
    int64_t h = x->shape->dims[rows ? 1 : 2] / 2;
    *a = cut(r, x, rows, 0, h);
    *b = cut(r, x, rows, h, h);
}

/* -- vectors in order ------------------------------------------------------------------------- */

/* Numbers of the values in their order: s32[batch, n]; the values themselves in that order. */
static Instruction *order_of(Rewriter *r, Instruction **values, int64_t direction)
{
    const Shape *s = (*values)->shape,
                *numbers = shape_with_dtype(r->m->intern, s, DT_S32);
    Instruction *position = rw_add(r, OP_IOTA, numbers, 0, NULL);
    inst_set_int(position, ATTR_IOTA_DIMENSION, 1);
    Computation *by = module_add_computation(r->m, "columns_order");
    const Shape *value = shape_scalar(r->m->intern, s->dtype),
                *index = shape_scalar(r->m->intern, DT_S32);
    Instruction *pair[2] = {computation_add_parameter(by, 0, value, NULL),
                            computation_add_parameter(by, 1, value, NULL)};
    computation_add_parameter(by, 2, index, NULL);
    computation_add_parameter(by, 3, index, NULL);
    by->root = computation_add(by, OP_COMPARE, shape_scalar(r->m->intern, DT_PRED), 2,
                               pair, NULL);
    inst_set_int(by->root, ATTR_DIRECTION, direction);
    Instruction *both[2] = {*values, position};
    Instruction *sort =
        rw_add(r, OP_SORT, shape_tuple(r->m->intern, 2, (const Shape *[2]){s, numbers}),
               2, both);
    inst_set_ints(sort, ATTR_DIMENSIONS, (int64_t[]){1}, 1);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
    inst_set_computation(sort, ATTR_TO_APPLY, by);
    *values = rw_element(r, sort, 0);
    return rw_element(r, sort, 1);
}

/* Rows of each matrix by number. */
static Instruction *rows_in_order(Rewriter *r, Instruction *x, Instruction *order)
{
    const Shape *s = x->shape, *numbers = order->shape;
    int64_t all = s->dims[0] * s->dims[1];
    Instruction *matrix = rw_add(r, OP_IOTA, numbers, 0, NULL);
    inst_set_int(matrix, ATTR_IOTA_DIMENSION, 0);
    Instruction *at =
        rw_binary(r, OP_ADD, numbers, order,
                  multiply(r, matrix, rw_splat_int(r, numbers, s->dims[1])));
    at = rw_reshape(r, rw_shape(r, DT_S32, 1, &all), at);
    Instruction *flat =
        rw_reshape(r, rw_shape(r, s->dtype, 2, (int64_t[]){all, s->dims[2]}), x);
    return rw_reshape(r, s, rw_rows(r, flat, at));
}

Instruction *expand_phases(Rewriter *r, Instruction *x)
{
    const Shape *s = x->shape, *wide = rw_shape(r, DT_F64, 1, (int64_t[]){s->dims[2]});
    DType real = number_component(s->dtype);
    Instruction *i = rw_add(r, OP_IOTA, wide, 0, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, 0);
    i = rw_binary(r, OP_ADD, wide, i, rw_splat(r, wide, 1));
    i = multiply(r, i, rw_splat(r, wide, 0.6180339887498949));
    i = rw_binary(r, OP_SUBTRACT, wide, i, rw_unary(r, OP_FLOOR, wide, i));
    i = rw_binary(r, OP_ADD, wide, i, rw_splat(r, wide, 0.5));
    Instruction *vector = rw_convert(r, rw_shape(r, real, 1, wide->dims), i);
    vector = of_type(r, s->dtype, vector);
    Instruction *each = multiply(r, x, rw_broadcast(r, s, vector, 1, (int64_t[]){2}));
    Instruction *sum = sum_of_rows(r, each);
    const Shape *parts = rw_shape(r, real, 2, s->dims);
    Instruction *size = rw_unary(r, OP_ABS, parts, sum), *zero = rw_splat(r, parts, 0);
    Instruction *is_some = rw_compare(r, size, zero, DIRECTION_GT);
    Instruction *by = rw_binary(r, OP_DIVIDE, sum->shape, matrix_conjugate(r, sum),
                                of_type(r, s->dtype, size));
    return matrix_select(r, is_some, by, rw_splat(r, sum->shape, 1));
}

/* What a matrix is divided by where its squares could be too large or too small for the type, else 1. */
static Instruction *scale_of(Rewriter *r, Instruction *a)
{
    bool single = epsilon(a->shape->dtype) == 0x1p-23;
    double largest = single ? 1e12 : 1e120;
    Instruction *re = matrix_real(r, a), *im = matrix_imag(r, a);
    re = rw_unary(r, OP_ABS, re->shape, re);
    if (im != NULL)
        re = rw_binary(r, OP_MAXIMUM, re->shape, re, rw_unary(r, OP_ABS, im->shape, im));
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, re->shape->dtype), 0);
    Instruction *most = matrix_reduced(r, OP_MAXIMUM, re, zero, 2, (int64_t[]){1, 2});
    const Shape *s = most->shape;
    Instruction *infinity = rw_splat(r, s, HUGE_VAL);
    Instruction *is_small =
        matrix_both(r, rw_compare(r, most, rw_splat(r, s, 0), DIRECTION_GT),
                    rw_compare(r, most, rw_splat(r, s, 1 / largest), DIRECTION_LT));
    Instruction *is_large =
        matrix_both(r, rw_compare(r, most, rw_splat(r, s, largest), DIRECTION_GT),
                    rw_compare(r, most, infinity, DIRECTION_LT));
    Instruction *scales = rw_binary(r, OP_OR, is_small->shape, is_small, is_large);
    return matrix_select(r, scales, most, rw_splat(r, s, 1));
}

static Instruction *divided(Rewriter *r, Instruction *a, Instruction *by)
{
    return rw_binary(r, OP_DIVIDE, a->shape, a,
                     of_type(r, a->shape->dtype, for_all(r, a->shape, by)));
}

/* With a row or column more where there is an odd number of them. */
static Instruction *evened(Rewriter *r, Instruction *a, uint32_t dimension)
{
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, a->shape->dtype), 0);
    return rw_fill_up(r, a, zero, dimension, a->shape->dims[dimension] % 2);
}

/* info of so many matrices: `value` where they are bad. */
static Instruction *info_where(Rewriter *r, const Shape *info, Instruction *is_bad,
                               int64_t value)
{
    const Shape *s = rw_shape(r, DT_S32, 1, is_bad->shape->dims);
    Instruction *made =
        matrix_select(r, is_bad, rw_splat_int(r, s, value), rw_splat_int(r, s, 0));
    return matrix_given_as(r, info, made);
}

/* -- eigenvalues ------------------------------------------------------------------------------ */

static Instruction *without_diagonal(Rewriter *r, Instruction *x)
{
    return matrix_select(r, is_diagonal(r, x->shape), rw_splat(r, x->shape, 0), x);
}

/* arrays: a, and v transposed */
static void eigen_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *top, *bottom, *part[2][2], *row[2];
    halve(r, arrays[0], true, &top, &bottom);
    for (int i = 0; i < 2; i++)
        halve(r, i == 0 ? top : bottom, false, &part[i][0], &part[i][1]);
    Rotation by =
        rotation_of(r, matrix_real(r, diagonal(r, part[0][0])),
                    matrix_real(r, diagonal(r, part[1][1])), diagonal(r, part[0][1]));
    for (int i = 0; i < 2; i++)
        rotate(r, &part[0][i], &part[1][i], true, by.c, by.s, by.conjugate);
    for (int i = 0; i < 2; i++) {
        rotate(r, &part[i][0], &part[i][1], false, by.c, by.conjugate, by.s);
        part[i][1 - i] = without_diagonal(r, part[i][1 - i]);
        row[i] = moved_on(r, part[i][0], part[i][1], false);
    }
    arrays[0] = moved_on(r, row[0], row[1], true);
    halve(r, arrays[1], true, &top, &bottom);
    rotate(r, &top, &bottom, true, by.c, by.conjugate, by.s);
    arrays[1] = moved_on(r, top, bottom, true);
}

/* Of each matrix, whether what is outside the diagonal is more (less or equal) than its size lets pass. */
static Instruction *compare_outside(Rewriter *r, Instruction *a, int64_t direction)
{
    double e = epsilon(a->shape->dtype);
    Instruction *all = sum_of_matrix(r, squares(r, a));
    Instruction *off = sum_of_matrix(r, squares(r, without_diagonal(r, a)));
    return rw_compare(r, off, multiply(r, all, rw_splat(r, all->shape, e * e)),
                      direction);
}

/* arrays: a, v transposed, whether there is more to do */
static void eigen_sweep(Columns *c, const void *user, Instruction **arrays)
{
    Rewriter *r = &c->r;
    int64_t n = arrays[0]->shape->dims[1];
    Instruction *loop = columns_loop(r, n - 1, true, 2, arrays, eigen_step, user);
    arrays[0] = columns_result(r, loop, 0);
    arrays[1] = columns_result(r, loop, 1);
    arrays[2] = any_of(r, compare_outside(r, arrays[0], DIRECTION_GT));
}

Instruction *expand_syevd(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *out = inst->shape->elements;
    Instruction *a = matrix_hermitian(r, batched(r, inst->operands[0]), how->lower);
    int64_t n = a->shape->dims[1];
    Instruction *scale = scale_of(r, a);
    a = evened(r, evened(r, divided(r, a, scale), 1), 2);
    Instruction *arrays[3] = {a, matrix_unit(r, a->shape),
                              any_of(r, compare_outside(r, a, DIRECTION_GT))};
    Instruction *loop = columns_loop_while(r, SWEEPS_MOST, 3, arrays, eigen_sweep, NULL);
    a = columns_result(r, loop, 0);
    Instruction *is_bad = compare_outside(r, a, DIRECTION_LE);
    is_bad = rw_unary(r, OP_NOT, is_bad->shape, is_bad);
    Instruction *w = matrix_real(r, diagonal(r, matrix_part(r, a, 0, n, 0, n)));
    Instruction *v = matrix_part(r, columns_result(r, loop, 1), 0, n, 0, n);
    v = rows_in_order(r, v, order_of(r, &w, DIRECTION_LT));
    v = multiply(r, v, along(r, v->shape, expand_phases(r, v), true));
    Instruction *parts[3] = {
        matrix_given_as(r, out[0], matrix_transposed(r, v)),
        matrix_given_as(r, out[1], multiply(r, w, for_all(r, w->shape, scale))),
        info_where(r, out[2], is_bad, n + 1)};
    return rw_add(r, OP_TUPLE, inst->shape, 3, parts);
}

/* -- singular values -------------------------------------------------------------------------- */

/* How many columns of a row of gesvd's array are of the matrix; behind them are v's. */
typedef struct Singular {
    int64_t length;
    double least; /* that columns are orthogonal to: the cosine of their angle */
} Singular;

/* arrays: columns of a and v as rows; the most that was not orthogonal so far */
static void singular_step(Columns *c, const void *user, Instruction **arrays)
{
    const Singular *how = user;
    Rewriter *r = &c->r;
    Instruction *top, *bottom;
    halve(r, arrays[0], true, &top, &bottom);
    Instruction *x = cut(r, top, false, 0, how->length),
                *y = cut(r, bottom, false, 0, how->length);
    Instruction *p = sum_of_rows(r, squares(r, x)), *q = sum_of_rows(r, squares(r, y));
    Instruction *inner = sum_of_rows(r, multiply(r, matrix_conjugate(r, x), y));
    const Shape *s = p->shape;
    Instruction *size = rw_unary(r, OP_ABS, s, inner);
    Instruction *both =
        multiply(r, rw_unary(r, OP_SQRT, s, p), rw_unary(r, OP_SQRT, s, q));
    Instruction *is_done =
        rw_compare(r, size, multiply(r, both, rw_splat(r, s, how->least)), DIRECTION_LE);
    inner = matrix_select(r, is_done, rw_splat(r, inner->shape, 0), inner);
    Rotation by = rotation_of(r, p, q, inner);
    rotate(r, &top, &bottom, true, by.c, by.conjugate, by.s);
    arrays[0] = moved_on(r, top, bottom, true);
    Instruction *is_none = rw_compare(r, both, rw_splat(r, s, 0), DIRECTION_EQ);
    Instruction *angle = matrix_select(r, is_none, rw_splat(r, s, 0),
                                       rw_binary(r, OP_DIVIDE, s, size, both));
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, s->dtype), 0);
    angle = matrix_reduced(r, OP_MAXIMUM, angle, zero, 1, (int64_t[]){1});
    arrays[1] = rw_binary(r, OP_MAXIMUM, angle->shape, arrays[1], angle);
}

/* arrays: as above, and whether there is more to do */
static void singular_sweep(Columns *c, const void *user, Instruction **arrays)
{
    const Singular *how = user;
    Rewriter *r = &c->r;
    int64_t n = arrays[0]->shape->dims[1];
    Instruction *start[2] = {arrays[0], rw_splat(r, arrays[1]->shape, 0)};
    Instruction *loop = columns_loop(r, n - 1, true, 2, start, singular_step, user);
    arrays[0] = columns_result(r, loop, 0);
    arrays[1] = columns_result(r, loop, 1);
    arrays[2] =
        any_of(r, rw_compare(r, arrays[1], rw_splat(r, arrays[1]->shape, how->least),
                             DIRECTION_GT));
}

/* What is known of a matrix with as many rows as columns or more. */
typedef struct Decomposed {
    Instruction *w, *v, *s, *is_bad; /* u s, and v, the values */
} Decomposed;

/* x: its transpose. */
static Decomposed decompose(Rewriter *r, Instruction *x)
{
    int64_t n = x->shape->dims[1], length = x->shape->dims[2];
    Singular how = {length, epsilon(x->shape->dtype) * sqrt((double)length)};
    Instruction *scale = scale_of(r, x);
    Instruction *unit = matrix_unit(r, matrix_sized(r, x->shape, n, n));
    x = evened(r, matrix_joined(r, divided(r, x, scale), unit, false), 1);
    Instruction *worst =
        real_splat(r, rw_shape(r, x->shape->dtype, 1, x->shape->dims), n > 1);
    Instruction *arrays[3] = {
        x, worst, rw_splat_int(r, shape_scalar(r->m->intern, DT_PRED), n > 1)};
    Instruction *loop =
        columns_loop_while(r, SWEEPS_MOST, 3, arrays, singular_sweep, &how);
    x = matrix_part(r, columns_result(r, loop, 0), 0, n, 0, length + n);
    worst = columns_result(r, loop, 1);
    Decomposed out;
    out.is_bad = rw_compare(r, worst, rw_splat(r, worst->shape, how.least), DIRECTION_LE);
    out.is_bad = rw_unary(r, OP_NOT, out.is_bad->shape, out.is_bad);
    Instruction *norms = sum_of_rows(r, squares(r, cut(r, x, false, 0, length)));
    norms = rw_unary(r, OP_SQRT, norms->shape, norms);
    x = rows_in_order(r, x, order_of(r, &norms, DIRECTION_GT));
    Instruction *by = expand_phases(r, cut(r, x, false, 0, length));
    x = multiply(r, x, along(r, x->shape, by, true));
    out.s = multiply(r, norms, for_all(r, norms->shape, scale));
    out.w = matrix_transposed(r, cut(r, x, false, 0, length));
    out.v = matrix_transposed(r, cut(r, x, false, length, n));
    return out;
}

/* u of u s, of so many columns, by reflections: also where s is 0, or there are more columns. */
static Instruction *left_vectors(Rewriter *r, Instruction *w, int64_t columns)
{
    int64_t rows = w->shape->dims[1], n = w->shape->dims[2];
    Instruction *t, *v = expand_qr(r, w, n, &t);
    Instruction *d = matrix_real(r, diagonal(r, matrix_part(r, v, 0, n, 0, n)));
    Instruction *one = rw_splat(r, d->shape, 1);
    Instruction *is_negative = rw_compare(r, d, rw_splat(r, d->shape, 0), DIRECTION_LT);
    Instruction *sign = matrix_select(r, is_negative, rw_splat(r, d->shape, -1), one);
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, v->shape->dtype), 0);
    sign =
        rw_fill_up(r, sign, rw_splat(r, shape_scalar(r->m->intern, d->shape->dtype), 1),
                   1, columns - n);
    v = rw_fill_up(r, v, zero, 2, columns - n);
    const Shape *factors =
        rw_shape(r, w->shape->dtype, 2, (int64_t[]){w->shape->dims[0], n});
    Instruction *q = expand_reflections(r, v, rw_reshape(r, factors, t));
    const Shape *s = matrix_sized(r, w->shape, rows, columns);
    return multiply(r, q, along(r, s, of_type(r, s->dtype, sign), false));
}

Instruction *expand_gesvd(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *out = inst->shape->elements;
    uint32_t of_u = how->kind == LAPACK_GESVD_T ? 3 : 2, of_v = 5 - of_u;
    bool wants_v = how->kind == LAPACK_GESVDJ;
    Instruction *a = batched(r, inst->operands[0]);
    bool is_wide = a->shape->dims[1] < a->shape->dims[2];
    /* of a^H where there are more columns, which changes u and v */
    Decomposed d =
        decompose(r, is_wide ? matrix_conjugate(r, a) : matrix_transposed(r, a));
    Instruction *parts[5] = {inst->operands[0]};
    parts[0] = matrix_given_as(r, out[0], parts[0]);
    parts[1] = matrix_given_as(r, out[1], d.s);
    parts[2] = rw_splat(r, out[2], 0);
    parts[3] = rw_splat(r, out[3], 0);
    parts[4] = info_where(r, out[4], d.is_bad, 1);
    if (how->has_vectors) {
        const Shape *left = out[is_wide ? of_v : of_u];
        int64_t columns = left->dims[left->rank - (is_wide && !wants_v ? 2 : 1)];
        Instruction *longer = left_vectors(r, d.w, columns);
        Instruction *u = is_wide ? d.v : longer, *v = is_wide ? longer : d.v;
        if (!wants_v)
            v = matrix_conjugate(r, matrix_transposed(r, v));
        parts[of_u] = matrix_given_as(r, out[of_u], u);
        parts[of_v] = matrix_given_as(r, out[of_v], v);
    }
    return rw_add(r, OP_TUPLE, inst->shape, 5, parts);
}
