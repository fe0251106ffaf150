/* Expansion of cholesky and triangular-solve to those of matrices that have kernels (ir/kernel/kinds/triangle.h), by
 * halves, and products:
 *
 *   cholesky:          columns 0 … h - 1, l11 over l21, l21 = a21 l11^-H;  then those of a22 - l21 l21^H
 *   triangular-solve:  x1 = m11^-1 b1;  x2 = m22^-1 (b2 - m21 x1), and the like for the other cases
 *
 * The diagonal's matrices of a large one are inverted all at once where that is no more than a wave of blocks; then the
 * chain has only products (Du Croz and Higham, "Stability of Methods for Matrix Inversion", 1992). Of 64 rows that is as
 * accurate as to solve with them. Where b is not finite, or a is singular, rows of the same diagonal matrix that stand
 * before may be NaN, too; so may be those of a diagonal matrix whose inverse has elements above the type's largest
 * number (a unit triangle with -5 below its diagonal, of 64 rows), though x itself has none.
 *
 * The first half is a whole number of the largest matrices with a kernel, so that few kernels differ. Types of less
 * than 32 bits are computed in f32. The upper triangle's factor is the conjugate transpose of the lower one's. */
#include "ir/kernel/kinds/triangle.h"
#include "ir/kernel/rules.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

static Instruction *widened(Rewriter *r, Instruction *x)
{
    DType t = dtype_info[x->shape->dtype].bits < 32 ? DT_F32 : x->shape->dtype;
    return rw_convert(r, rw_shape(r, t, x->shape->rank, x->shape->dims), x);
}

static Instruction *narrowed(Rewriter *r, const Shape *s, Instruction *x)
{
    x = rw_convert(r, rw_shape(r, s->dtype, s->rank, s->dims), x);
    return rw_in_layout(r, s, x);
}

/* -- products ------------------------------------------------------------------------------------ */

/* a - b c; b and c are transposed before, if so said. */
static Instruction *without_product(Rewriter *r, Instruction *a, Instruction *b,
                                    bool b_turned, Instruction *c, bool c_turned)
{
    return rw_binary(r, OP_SUBTRACT, a->shape, a,
                     matrix_dot(r, b, b_turned, c, c_turned));
}

/* The size of the first half of n > most rows. */
static int64_t half_of(int64_t n, int64_t most)
{
    return (n / most + 1) / 2 * most;
}

/* -- inverses of the diagonal ---------------------------------------------------------------------- */

/* The inverses of the first diagonal matrices of the largest size with a kernel: [..., count, most, most]. */
typedef struct Inverses {
    Instruction *all; /* NULL: there are none */
    int64_t count;
} Inverses;

/* Shape s of matrices with one more dimension before theirs. */
static const Shape *with_count(Rewriter *r, const Shape *s, int64_t count, int64_t size)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u);
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        dims[d] = s->dims[d];
    dims[s->rank - 2] = count;
    dims[s->rank - 1] = dims[s->rank] = size;
    return rw_shape(r, s->dtype, s->rank + 1, dims);
}

/* What solves for all columns of the unit matrix takes one wave, and so no longer than a solve in the chain. */
static bool is_one_wave(const Rewriter *r, const Shape *s, int64_t count)
{
    int64_t matrices = count;
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        matrices *= s->dims[d];
    return matrices <= (int64_t)target_multiprocessors(r->cx->target);
}

static Inverses inverses(Rewriter *r, const Instruction *solve, Instruction *a)
{
    const Shape *s = a->shape;
    int64_t size = triangle_most(s->dtype), count = s->dims[s->rank - 1] / size;
    int64_t dim = (int64_t)s->rank - 2;
    if (count < 2 || !is_one_wave(r, s, count))
        return (Inverses){0};
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        parts[i] = rw_reshape(r, with_count(r, s, 1, size),
                              matrix_part(r, a, i * size, size, i * size, size));
    const Shape *all = with_count(r, s, count, size);
    Instruction *both[2] = {rw_add(r, OP_CONCATENATE, all, (uint32_t)count, parts),
                            matrix_unit(r, all)};
    inst_set_ints(both[0], ATTR_DIMENSIONS, &dim, 1);
    Instruction *x = rw_like(r, solve, all, 2, both);
    inst_set_int(x, ATTR_LEFT_SIDE, true);
    inst_set_int(x, ATTR_TRANSPOSE_A, TRANSPOSE_NO);
    return (Inverses){x, count};
}

/* op(inverse number i) b, or b times it: what a solve with that diagonal matrix gives. */
static Instruction *by_inverse(Rewriter *r, const Inverses *from, int64_t i,
                               const Substitution *how, Instruction *b)
{
    const Shape *all = from->all->shape;
    int64_t size = all->dims[all->rank - 1];
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, all->rank);
    for (uint32_t d = 0; d < all->rank; d++)
        dims[d] = (SliceDim){0, all->dims[d], 1};
    dims[all->rank - 3] = (SliceDim){i, i + 1, 1};
    Instruction *x = rw_slice(r, with_count(r, b->shape, 1, size), from->all, dims);
    x = rw_reshape(r, matrix_sized(r, b->shape, size, size), x);
    if (how->is_conjugate)
        x = matrix_conjugate(r, x);
    bool is_op = how->is_turned == how->is_left;
    return how->is_left ? matrix_dot(r, x, is_op, b, false)
                        : matrix_dot(r, b, false, x, is_op);
}

/* -- triangular-solve ---------------------------------------------------------------------------- */

/* With the attributes of `like`, a triangular-solve. `first_matrix`: how many of the diagonal's matrices stand before a. */
static Instruction *solved(Rewriter *r, const Instruction *like, const Inverses *inverse,
                           int64_t first_matrix, Instruction *a, Instruction *b)
{
    const Shape *s = b->shape;
    int64_t n = a->shape->dims[a->shape->rank - 1], most = triangle_most(s->dtype);
    Instruction *both[2] = {a, b};
    Substitution how = substitution_of(like);
    if (n <= most && first_matrix < inverse->count)
        return by_inverse(r, inverse, first_matrix, &how, b);
    if (n <= most)
        return rw_like(r, like, s, 2, both);
    int64_t h = half_of(n, most), rows = s->dims[s->rank - 2],
            columns = s->dims[s->rank - 1];
    Instruction *diagonal[2] = {matrix_part(r, a, 0, h, 0, h),
                                matrix_part(r, a, h, n - h, h, n - h)};
    Instruction *right[2];
    for (int i = 0; i < 2; i++) {
        int64_t at = i == 0 ? 0 : h, size = i == 0 ? h : n - h;
        right[i] = how.is_left ? matrix_part(r, b, at, size, 0, columns)
                               : matrix_part(r, b, 0, rows, at, size);
    }
    int first = how.is_forward ? 0 : 1, second = 1 - first;
    /* of a itself: below the diagonal if it is the lower triangle */
    Instruction *off = how.is_forward != how.is_turned
                           ? matrix_part(r, a, h, n - h, 0, h)
                           : matrix_part(r, a, 0, h, h, n - h);
    if (how.is_conjugate)
        off = matrix_conjugate(r, off);
    Instruction *x[2];
    int64_t from[2] = {first_matrix, first_matrix + h / most};
    x[first] = solved(r, like, inverse, from[first], diagonal[first], right[first]);
    bool is_op = how.is_turned == how.is_left; /* op(a) is a transpose */
    Instruction *trailing =
        how.is_left ? without_product(r, right[second], off, is_op, x[first], false)
                    : without_product(r, right[second], x[first], false, off, is_op);
    x[second] = solved(r, like, inverse, from[second], diagonal[second], trailing);
    return matrix_joined(r, x[0], x[1], how.is_left);
}

static Instruction *triangular_solve(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape, *a = inst->operands[0]->shape;
    if (!rw_is_static(s) || !rw_is_static(a))
        return NULL;
    if (rw_is_zero_size(s))
        return rw_splat(r, s, 0.0);
    int64_t n = a->dims[a->rank - 1];
    if (n <= triangle_most(s->dtype))
        return NULL;
    Instruction *both[2] = {widened(r, inst->operands[0]), widened(r, inst->operands[1])};
    Inverses inverse = inverses(r, inst, both[0]);
    return narrowed(r, s, solved(r, inst, &inverse, 0, both[0], both[1]));
}

/* -- cholesky -------------------------------------------------------------------------------------- */

/* l of x l^H = b, lower */
static Instruction *solved_by_factor(Rewriter *r, Instruction *l, Instruction *b)
{
    Instruction *both[2] = {l, b};
    Instruction *like = rw_add(r, OP_TRIANGULAR_SOLVE, b->shape, 2, both);
    inst_set_int(like, ATTR_LEFT_SIDE, false);
    inst_set_int(like, ATTR_LOWER, true);
    inst_set_int(like, ATTR_UNIT_DIAGONAL, false);
    inst_set_int(like, ATTR_TRANSPOSE_A,
                 dtype_is_complex(b->shape->dtype) ? TRANSPOSE_ADJOINT : TRANSPOSE_YES);
    return solved(r, like, &(Inverses){0}, 0, l, b);
}

/* The factor's columns of which a, of as many rows or more, has what is left of the matrix: their diagonal is at the
 * top. One solve makes all rows below a kernel's triangle. */
static Instruction *factor_columns(Rewriter *r, Instruction *a)
{
    const Shape *s = a->shape;
    int64_t rows = s->dims[s->rank - 2], n = s->dims[s->rank - 1],
            most = triangle_most(s->dtype);
    if (n <= most) {
        Instruction *top = matrix_part(r, a, 0, n, 0, n);
        Instruction *l = rw_unary(r, OP_CHOLESKY, top->shape, top);
        inst_set_int(l, ATTR_LOWER, true);
        if (rows == n)
            return l;
        Instruction *below = matrix_part(r, a, n, rows - n, 0, n);
        return matrix_joined(r, l, solved_by_factor(r, l, below), true);
    }
    int64_t h = half_of(n, most);
    Instruction *left = factor_columns(r, matrix_part(r, a, 0, rows, 0, h));
    Instruction *below = matrix_part(r, left, h, rows - h, 0, h),
                *beside = matrix_part(r, left, h, n - h, 0, h);
    Instruction *trailing =
        without_product(r, matrix_part(r, a, h, rows - h, h, n - h), below, false,
                        matrix_conjugate(r, beside), true);
    Instruction *zero = rw_splat(r, matrix_sized(r, s, h, n - h), 0.0);
    Instruction *right = matrix_joined(r, zero, factor_columns(r, trailing), true);
    return matrix_joined(r, left, right, false);
}

static Instruction *cholesky(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s))
        return NULL;
    if (rw_is_zero_size(s))
        return rw_splat(r, s, 0.0);
    bool lower = inst_bool(inst, ATTR_LOWER);
    if (lower && s->dims[s->rank - 1] <= triangle_most(s->dtype))
        return NULL;
    Instruction *a = widened(r, inst->operands[0]);
    if (!lower)
        a = matrix_conjugate(r, matrix_transposed(r, a));
    Instruction *l = factor_columns(r, a);
    if (!lower)
        l = matrix_conjugate(r, matrix_transposed(r, l));
    return narrowed(r, s, l);
}

/* -- updates of a factor --------------------------------------------------------------------------- */

/* arrays: r, and w as a row: rows k of both are rotated so that w[k] is 0 */
static void update_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    const Shape *s = arrays[1]->shape, *one = columns_shape(c, s, 1, 1);
    Instruction *row = columns_part(c, arrays[0], s, c->i, NULL), *w = arrays[1];
    Instruction *x = columns_part(c, row, one, NULL, c->i),
                *y = columns_part(c, w, one, NULL, c->i);
    Instruction *is_none = rw_compare(r, y, rw_splat(r, one, 0), DIRECTION_EQ);
    Instruction *most = rw_binary(r, OP_MAXIMUM, one, rw_unary(r, OP_ABS, one, x),
                                  rw_unary(r, OP_ABS, one, y));
    x = rw_binary(r, OP_DIVIDE, one, x, most);
    y = rw_binary(r, OP_DIVIDE, one, y, most);
    Instruction *size =
        rw_unary(r, OP_SQRT, one,
                 rw_binary(r, OP_ADD, one, matrix_squares(r, x, one->dtype),
                           matrix_squares(r, y, one->dtype)));
    x = matrix_select(r, is_none, rw_splat(r, one, 1),
                      rw_binary(r, OP_DIVIDE, one, x, size));
    y = matrix_select(r, is_none, rw_splat(r, one, 0),
                      rw_binary(r, OP_DIVIDE, one, y, size));
    Instruction *made = rw_binary(r, OP_ADD, s, columns_product(c, x, row, s),
                                  columns_product(c, y, w, s));
    arrays[0] = columns_with_part(c, arrays[0], made, c->i, NULL);
    arrays[1] = rw_binary(r, OP_SUBTRACT, s, columns_product(c, x, w, s),
                          columns_product(c, y, row, s));
}

Instruction *expand_cholesky_update(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    Instruction *a = matrix_by_rows(r, inst->operands[0]);
    int64_t n = a->shape->dims[a->shape->rank - 1];
    Instruction *arrays[2] = {a, rw_reshape(r, matrix_sized(r, a->shape, 1, n),
                                            matrix_by_rows(r, inst->operands[1]))};
    Instruction *loop = columns_loop(r, n, true, 2, arrays, update_step, NULL);
    for (uint32_t i = 0; i < 2; i++)
        arrays[i] =
            matrix_given_as(r, inst->shape->elements[i], columns_result(r, loop, i));
    return rw_add(r, OP_TUPLE, inst->shape, 2, arrays);
}

const Rule rules_expand_linalg[] = {
    {OP_CHOLESKY, "cholesky", cholesky},
    {OP_TRIANGULAR_SOLVE, "triangular_solve", triangular_solve},
    {0},
};
