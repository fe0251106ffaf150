/* Calls of linear algebra by name (ir/custom_call/lapack.def) as the operations that they stand for.
 *
 *   (l, info) = custom-call(a), target lapack_spotrf_ffi  ->  l = cholesky(a), info from l's diagonal
 *   x = custom-call(a, b), target lapack_strsm_ffi        ->  x = triangular-solve(a, b)
 *   factorisations, eigenvalues, systems                  ->  loops of expand_factor.c and its neighbours */
#include <math.h>

#include "ir/kernel/solver.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

/* Row k of n counts n - k where something in it is bad, else 0: the most, c, tells the first of them. Info is
 * n - c + 1, and 0 where c is. */
Instruction *expand_first_bad(Rewriter *r, Instruction *is_bad, const Shape *info)
{
    Instruction *rows = matrix_numbers(r, is_bad->shape, true);
    const Shape *counts = rows->shape;
    int64_t row = (int64_t)counts->rank - 2, n = counts->dims[row];
    Instruction *left =
        rw_binary(r, OP_SUBTRACT, counts, rw_splat_int(r, counts, n), rows);
    Instruction *count = matrix_select(r, is_bad, left, rw_splat_int(r, counts, 0));
    Instruction *most = matrix_reduced(
        r, OP_MAXIMUM, count, rw_splat_int(r, shape_scalar(r->m->intern, DT_S32), 0), 2,
        (int64_t[]){row, row + 1});
    Instruction *zero = rw_splat_int(r, most->shape, 0);
    Instruction *number =
        rw_binary(r, OP_SUBTRACT, most->shape, rw_splat_int(r, most->shape, n + 1), most);
    Instruction *is_none = rw_compare(r, most, zero, DIRECTION_EQ);
    return matrix_given_as(r, info, matrix_select(r, is_none, zero, number));
}

Instruction *expand_info(Rewriter *r, Instruction *factors, const Shape *info,
                         int64_t direction)
{
    Instruction *pivot = direction == DIRECTION_GT ? matrix_real(r, factors) : factors;
    Instruction *good = rw_compare(r, pivot, rw_splat(r, pivot->shape, 0), direction);
    Instruction *bad = rw_unary(r, OP_NOT, good->shape, good);
    return expand_first_bad(r, matrix_both(r, bad, matrix_unit(r, bad->shape)), info);
}

Instruction *expand_potrf(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *s = inst->shape->elements;
    Instruction *l = rw_unary(r, OP_CHOLESKY, s[0], inst->operands[0]);
    inst_set_int(l, ATTR_LOWER, how->lower);
    Instruction *parts[2] = {l, expand_info(r, l, s[1], DIRECTION_GT)};
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

Instruction *expand_trsm(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    Instruction *x = rw_add(r, OP_TRIANGULAR_SOLVE, inst->shape, 2, inst->operands);
    inst_set_int(x, ATTR_LEFT_SIDE, how->left);
    inst_set_int(x, ATTR_LOWER, how->lower);
    inst_set_int(x, ATTR_UNIT_DIAGONAL, how->unit_diagonal);
    inst_set_int(x, ATTR_TRANSPOSE_A, how->transpose);
    return x;
}

Instruction *expand_syrk(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    Instruction *a = matrix_by_rows(r, inst->operands[0]),
                *c = matrix_by_rows(r, inst->operands[1]);
    const Shape *s = c->shape;
    Instruction *factor[2];
    for (int i = 0; i < 2; i++)
        factor[i] = rw_broadcast(r, s, inst->operands[2 + i], 0, NULL);
    Instruction *product =
        rw_binary(r, OP_MULTIPLY, s, factor[0], matrix_dot(r, a, false, a, true));
    c = rw_binary(r, OP_MULTIPLY, s, factor[1], c);
    return matrix_given_as(r, inst->shape, rw_binary(r, OP_ADD, s, product, c));
}

/* -- permutations ----------------------------------------------------------------------------- */

/* arrays: the order, a column; the pivots, counted from 0. Those beyond the end change nothing. */
static void pivot_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    const Shape *s = arrays[0]->shape, *one = columns_shape(c, s, 1, 1);
    Instruction *p = columns_part(c, arrays[1], one, c->i, NULL);
    Instruction *is_p = rw_compare(r, matrix_numbers(r, s, true),
                                   columns_repeated(c, p, s), DIRECTION_EQ);
    Instruction *none = rw_splat_int(r, s, -1);
    Instruction *of_p =
        columns_reduced(c, matrix_select(r, is_p, arrays[0], none), OP_MAXIMUM,
                        rw_splat_int(r, shape_scalar(c->m->intern, DT_S32), -1));
    Instruction *of_i = columns_part(c, arrays[0], one, c->i, NULL);
    Instruction *is_none = rw_compare(r, of_p, rw_splat_int(r, one, 0), DIRECTION_LT);
    Instruction *x = matrix_select(r, is_p, columns_repeated(c, of_i, s), arrays[0]);
    arrays[0] =
        columns_with_part(c, x, matrix_select(r, is_none, of_i, of_p), c->i, NULL);
}

/* As many columns as the array has elements in its last dimension, of one element each. */
static Instruction *as_column(Rewriter *r, Instruction *x)
{
    const Shape *s = x->shape;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = s->dims[d];
    dims[s->rank] = 1;
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank + 1, dims), matrix_by_rows(r, x));
}

Instruction *expand_pivots(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    Instruction *pivots = as_column(r, inst->operands[0]);
    int64_t steps = pivots->shape->dims[pivots->shape->rank - 2],
            n = inst->shape->dims[inst->shape->rank - 1];
    const Shape *s = matrix_sized(r, pivots->shape, n, 1);
    Instruction *arrays[2] = {matrix_numbers(r, s, true), pivots};
    Instruction *loop = columns_loop(r, steps, true, 2, arrays, pivot_step, NULL);
    return matrix_given_as(r, inst->shape, columns_result(r, loop, 0));
}

/* -- systems of sparse matrices --------------------------------------------------------------- */

/* Of each element, where it lies in the matrix by rows; -1: nowhere. Rows begin at `begins`. */
static Instruction *positions(Rewriter *r, Instruction *columns, Instruction *begins)
{
    int64_t count = columns->shape->dims[0], n = begins->shape->dims[0] - 1;
    const Shape *each = columns->shape,
                *all = rw_shape(r, DT_S32, 2, (int64_t[]){count, n + 1});
    Instruction *is_begun = rw_compare(r, rw_broadcast(r, all, begins, 1, (int64_t[]){1}),
                                       matrix_numbers(r, all, true), DIRECTION_LE);
    Instruction *row = rw_sum(r, each, rw_convert(r, all, is_begun), 1, (int64_t[]){1});
    row = rw_binary(r, OP_SUBTRACT, each, row, rw_splat_int(r, each, 1));
    Instruction *zero = rw_splat_int(r, each, 0), *end = rw_splat_int(r, each, n);
    Instruction *is_there = matrix_both(r, rw_compare(r, row, zero, DIRECTION_GE),
                                        rw_compare(r, row, end, DIRECTION_LT));
    is_there = matrix_both(r, is_there, rw_compare(r, columns, zero, DIRECTION_GE));
    is_there = matrix_both(r, is_there, rw_compare(r, columns, end, DIRECTION_LT));
    Instruction *at =
        rw_binary(r, OP_ADD, each, columns, rw_binary(r, OP_MULTIPLY, each, row, end));
    return matrix_select(r, is_there, at, rw_splat_int(r, each, -1));
}

static Instruction *dense(Rewriter *r, Instruction *x, Instruction *at, int64_t n)
{
    DType t = x->shape->dtype;
    const Shape *flat = rw_shape(r, t, 1, (int64_t[]){n * n});
    Instruction *operands[3] = {rw_splat(r, flat, 0), at, x};
    Instruction *a = rw_add(r, OP_SCATTER, flat, 3, operands);
    inst_set_ints(a, ATTR_UPDATE_WINDOW_DIMS, NULL, 0);
    inst_set_ints(a, ATTR_INSERTED_WINDOW_DIMS, &(int64_t){0}, 1);
    inst_set_ints(a, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &(int64_t){0}, 1);
    inst_set_int(a, ATTR_INDEX_VECTOR_DIM, 1);
    inst_set_computation(a, ATTR_TO_APPLY, module_add_adder(r->m, t));
    return rw_reshape(r, rw_shape(r, t, 2, (int64_t[]){n, n}), a);
}

/* lu of a and b side by side makes l^-1 p b of b. */
Instruction *expand_csrlsvqr(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    int64_t n = inst->shape->dims[0];
    Instruction *x = matrix_by_rows(r, inst->operands[0]),
                *b = as_column(r, inst->operands[3]), *pivots;
    Instruction *at = positions(r, inst->operands[1], inst->operands[2]);
    Instruction *both = matrix_joined(r, dense(r, x, at, n), b, false);
    both = expand_lu(r, both, n, &pivots);
    Instruction *operands[2] = {matrix_part(r, both, 0, n, 0, n),
                                matrix_part(r, both, 0, n, n, 1)};
    x = rw_add(r, OP_TRIANGULAR_SOLVE, operands[1]->shape, 2, operands);
    inst_set_int(x, ATTR_LEFT_SIDE, true);
    inst_set_int(x, ATTR_LOWER, false);
    inst_set_int(x, ATTR_UNIT_DIAGONAL, false);
    inst_set_int(x, ATTR_TRANSPOSE_A, TRANSPOSE_NO);
    return matrix_given_as(r, inst->shape, x);
}

/* -- random bits ------------------------------------------------------------------------------ */

static Instruction *rotated(Rewriter *r, Instruction *x, int64_t by)
{
    const Shape *s = x->shape;
    Instruction *up = rw_binary(r, OP_SHIFT_LEFT, s, x, rw_splat_int(r, s, by));
    Instruction *down =
        rw_binary(r, OP_SHIFT_RIGHT_LOGICAL, s, x, rw_splat_int(r, s, 32 - by));
    return rw_binary(r, OP_OR, s, up, down);
}

Instruction *expand_threefry(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    (void)how;
    static const int64_t by[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const Shape *s = rw_shape(r, DT_U32, inst->operands[0]->shape->rank,
                              inst->operands[0]->shape->dims);
    Instruction *key[3], *x[2];
    for (int i = 0; i < 2; i++) {
        key[i] = matrix_by_rows(r, inst->operands[i]);
        x[i] = rw_binary(r, OP_ADD, s, matrix_by_rows(r, inst->operands[2 + i]), key[i]);
    }
    key[2] = rw_binary(r, OP_XOR, s, rw_binary(r, OP_XOR, s, key[0], key[1]),
                       rw_splat_int(r, s, 0x1bd11bda));
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x[0] = rw_binary(r, OP_ADD, s, x[0], x[1]);
            x[1] = rw_binary(r, OP_XOR, s, rotated(r, x[1], by[group % 2][i]), x[0]);
        }
        x[0] = rw_binary(r, OP_ADD, s, x[0], key[(group + 1) % 3]);
        x[1] = rw_binary(r, OP_ADD, s, x[1], key[(group + 2) % 3]);
        x[1] = rw_binary(r, OP_ADD, s, x[1], rw_splat_int(r, s, group + 1));
    }
    for (int i = 0; i < 2; i++)
        x[i] = matrix_given_as(r, inst->shape->elements[i], x[i]);
    return rw_add(r, OP_TUPLE, inst->shape, 2, x);
}

/* -- the rule --------------------------------------------------------------------------------- */

/* 1, 2, ... along the last dimension: columns of which none was longer. */
static Instruction *numbered(Rewriter *r, const Shape *s)
{
    Instruction *x = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(x, ATTR_IOTA_DIMENSION, (int64_t)s->rank - 1);
    return rw_binary(r, OP_ADD, s, x, rw_splat_int(r, s, 1));
}

/* Of matrices without elements: info is 0; no reflections leave c as it is, columns without rows their order, and of a
 * matrix of zeros there is no inverse. Nothing else has elements. */
static Instruction *of_nothing(Rewriter *r, Instruction *inst, LapackKind kind)
{
    const Shape *s = inst->shape;
    if (kind == LAPACK_ORMQR)
        return matrix_given_as(r, s, matrix_by_rows(r, inst->operands[2]));
    if (!shape_is_tuple(s))
        return rw_splat(r, s, kind == LAPACK_CSRLSVQR ? (double)NAN : 0);
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        parts[i] = kind == LAPACK_GEQP3 && i == 1 ? numbered(r, s->elements[i])
                                                  : rw_splat(r, s->elements[i], 0);
    return rw_add(r, OP_TUPLE, s, s->rank, parts);
}

static Instruction *lapack(Rewriter *r, Instruction *inst)
{
    static Instruction *(*const kinds[])(Rewriter *, Instruction *,
                                         const LapackCall *) = {
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    [LAPACK_##id] = expand_##function,
#include "ir/custom_call/lapack.def"
    };
    LapackCall how;
    if (!custom_call_lapack(inst, &how) || solver_is_library(inst))
        return NULL;
    bool is_empty = rw_is_zero_size(inst->operands[0]->shape);
    if (is_empty && how.kind != LAPACK_PIVOTS && how.kind != LAPACK_SYRK)
        return of_nothing(r, inst, how.kind);
    return kinds[how.kind](r, inst, &how);
}

const Rule rules_expand_lapack[] = {
    {OP_CUSTOM_CALL, "lapack", lapack},
    {0},
};
