/* Expansion of cholesky and triangular-solve: loops over the columns.
 *
 *   cholesky:          l[:, i] = a[:, i] / sqrt(a[i, i]);  a -= l[:, i] l[:, i]^H
 *   triangular-solve:  x[i, :] = x[i, :] / m[i, i];  x -= m[:, i] x[i, :] for the rows to come
 *
 * Types of less than 32 bits are computed in f32. The other cases - the upper triangle, op(a),
 * a on the right - are the same after transposing and conjugating. */
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
    return x->shape == s ? x : rw_unary(r, OP_COPY, s, x); /* another layout */
}

/* -- cholesky -------------------------------------------------------------------------------- */

/* sqrt of the diagonal element, NaN where it is not positive: the matrix is not definite. */
static Instruction *pivot(Columns *c, Instruction *a, const Shape *one)
{
    Rewriter *r = &c->r;
    Instruction *d = matrix_real(r, columns_part(c, a, one, c->i, c->i));
    const Shape *real = d->shape;
    Instruction *positive = matrix_compare(r, d, rw_splat(r, real, 0.0), DIRECTION_GT);
    Instruction *root = rw_unary(r, OP_SQRT, real, d);
    Instruction *zero = rw_splat(r, real, 0.0);
    root =
        matrix_select(&c->r, positive, root, rw_binary(r, OP_DIVIDE, real, zero, zero));
    return dtype_is_complex(one->dtype) ? rw_binary(r, OP_COMPLEX, one, root, zero)
                                        : root;
}

/* arrays: what is left of the matrix, and its factor */
static void cholesky_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    const Shape *s = arrays[0]->shape, *column = columns_shape(c, s, c->n, 1),
                *one = columns_shape(c, s, 1, 1);
    Instruction *left = arrays[0];
    Instruction *root = columns_repeated(c, pivot(c, left, one), column);
    Instruction *below =
        rw_binary(r, OP_DIVIDE, column, columns_part(c, left, column, NULL, c->i), root);
    Instruction *col = matrix_select(r, columns_compare(c, column, true, DIRECTION_GT),
                                     below, rw_splat(r, column, 0.0));
    col = matrix_select(r, columns_compare(c, column, true, DIRECTION_EQ), root, col);
    Instruction *row = matrix_transposed(r, matrix_conjugate(r, col));
    Instruction *product = rw_binary(r, OP_MULTIPLY, s, columns_repeated(c, col, s),
                                     columns_repeated(c, row, s));
    arrays[0] = rw_binary(r, OP_SUBTRACT, s, left, product);
    arrays[1] = columns_with_part(c, arrays[1], col, NULL, c->i);
}

static Instruction *cholesky(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || rw_is_zero_size(s))
        return NULL;
    bool lower = inst_bool(inst, ATTR_LOWER);
    Instruction *a = widened(r, inst->operands[0]);
    if (!lower)
        a = matrix_conjugate(r, matrix_transposed(r, a));
    Instruction *zeros = rw_splat(r, rw_shape(r, a->shape->dtype, s->rank, s->dims), 0.0);
    Instruction *loop = columns_loop(r, s->dims[s->rank - 1], true, 2,
                                     (Instruction *[]){a, zeros}, cholesky_step, NULL);
    Instruction *result = columns_result(r, loop, 1);
    if (!lower)
        result = matrix_conjugate(r, matrix_transposed(r, result));
    return narrowed(r, s, result);
}

/* -- triangular-solve -------------------------------------------------------------------------- */

typedef struct Solve {
    bool forward, is_unit; /* by rows from the first on; ones on the diagonal */
} Solve;

/* arrays: the matrix, and the right side, whose rows become those of the solution */
static void solve_step(Columns *c, const void *user, Instruction **arrays)
{
    const Solve *how = user;
    Rewriter *r = &c->r;
    Instruction *matrix = arrays[0], *x = arrays[1];
    const Shape *s = x->shape, *column = columns_shape(c, matrix->shape, c->n, 1),
                *one = columns_shape(c, matrix->shape, 1, 1),
                *row = columns_shape(c, s, 1, s->dims[c->rank - 1]);
    Instruction *solved = columns_part(c, x, row, c->i, NULL);
    if (!how->is_unit)
        solved =
            rw_binary(r, OP_DIVIDE, row, solved,
                      columns_repeated(c, columns_part(c, matrix, one, c->i, c->i), row));
    Instruction *col = columns_part(c, matrix, column, NULL, c->i);
    Instruction *product = rw_binary(r, OP_MULTIPLY, s, columns_repeated(c, col, s),
                                     columns_repeated(c, solved, s));
    Instruction *to_come =
        columns_compare(c, s, true, how->forward ? DIRECTION_GT : DIRECTION_LT);
    Instruction *rest = rw_binary(r, OP_SUBTRACT, s, x, product);
    rest = matrix_select(r, to_come, rest, x);
    arrays[1] = columns_with_part(c, rest, solved, c->i, NULL);
}

static Instruction *triangular_solve(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || rw_is_zero_size(s) || !rw_is_static(inst->operands[0]->shape))
        return NULL;
    int64_t op = inst_int(inst, ATTR_TRANSPOSE_A, TRANSPOSE_NO);
    bool left = inst_bool(inst, ATTR_LEFT_SIDE);
    bool turned = (op == TRANSPOSE_YES || op == TRANSPOSE_ADJOINT) != !left;
    Solve how = {.forward = inst_bool(inst, ATTR_LOWER) != turned,
                 .is_unit = inst_bool(inst, ATTR_UNIT_DIAGONAL)};
    Instruction *m = widened(r, inst->operands[0]), *b = widened(r, inst->operands[1]);
    if (op == TRANSPOSE_ADJOINT)
        m = matrix_conjugate(r, m);
    if (turned)
        m = matrix_transposed(r, m);
    if (!left)
        b = matrix_transposed(r, b); /* x op(a) = b is op(a)^T x^T = b^T */
    Instruction *loop = columns_loop(r, m->shape->dims[s->rank - 1], how.forward, 2,
                                     (Instruction *[]){m, b}, solve_step, &how);
    Instruction *result = columns_result(r, loop, 1);
    return narrowed(r, s, left ? result : matrix_transposed(r, result));
}

const Rule rules_expand_linalg[] = {
    {OP_CHOLESKY, "cholesky", cholesky},
    {OP_TRIANGULAR_SOLVE, "triangular_solve", triangular_solve},
    {0},
};
