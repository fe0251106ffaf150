/* JAX's calls of LAPACK for the CPU as the operations that they stand for.
 *
 *   (l, info) = custom-call(a), target lapack_spotrf_ffi  ->  l = cholesky(a), info from l's diagonal
 *   x = custom-call(a, b), target lapack_strsm_ffi        ->  x = triangular-solve(a, b)
 *   getrf, geqrf, orgqr                                   ->  the loops of expand_factor.c */
#include "ir/custom_call.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

static Computation *larger(Rewriter *r)
{
    Computation *comp = module_add_computation(r->m, "larger");
    const Shape *s = shape_scalar(r->m->intern, DT_S32);
    Instruction *pair[2] = {computation_add_parameter(comp, 0, s, NULL),
                            computation_add_parameter(comp, 1, s, NULL)};
    comp->root = computation_add(comp, OP_MAXIMUM, s, 2, pair, NULL);
    return comp;
}

static Instruction *index_along(Rewriter *r, const Shape *s, int64_t dimension)
{
    Instruction *i = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, dimension);
    return i;
}

/* Pivot k of n that is not positive (not other than 0) counts n - k, all else 0: the most, c, tells the
 * first of them. Info is n - c + 1, and 0 where c is. */
static Instruction *info_of(Rewriter *r, Instruction *l, const Shape *info,
                            int64_t direction)
{
    const Shape *s = l->shape;
    int64_t row = (int64_t)s->rank - 2, n = s->dims[row];
    const Shape *counts = rw_shape(r, DT_S32, s->rank, s->dims);
    Instruction *rows = index_along(r, counts, row),
                *columns = index_along(r, counts, row + 1);
    Instruction *pivot = direction == DIRECTION_GT ? matrix_real(r, l) : l;
    Instruction *good = matrix_compare(r, pivot, rw_splat(r, pivot->shape, 0), direction);
    Instruction *none = rw_splat_int(r, counts, 0);
    Instruction *left =
        rw_binary(r, OP_SUBTRACT, counts, rw_splat_int(r, counts, n), rows);
    Instruction *count = matrix_select(r, matrix_compare(r, rows, columns, DIRECTION_EQ),
                                       matrix_select(r, good, none, left), none);
    Instruction *most = rw_binary(r, OP_REDUCE, info, count,
                                  rw_splat_int(r, shape_scalar(r->m->intern, DT_S32), 0));
    inst_set_ints(most, ATTR_DIMENSIONS, (int64_t[]){row, row + 1}, 2);
    inst_set_computation(most, ATTR_TO_APPLY, larger(r));
    Instruction *zero = rw_splat_int(r, info, 0);
    Instruction *order =
        rw_binary(r, OP_SUBTRACT, info, rw_splat_int(r, info, n + 1), most);
    return matrix_select(r, matrix_compare(r, most, zero, DIRECTION_EQ), zero, order);
}

static Instruction *triangular_solve(Rewriter *r, Instruction *inst,
                                     const LapackCall *how)
{
    Instruction *x = rw_add(r, OP_TRIANGULAR_SOLVE, inst->shape, 2, inst->operands);
    inst_set_int(x, ATTR_LEFT_SIDE, how->left);
    inst_set_int(x, ATTR_LOWER, how->lower);
    inst_set_int(x, ATTR_UNIT_DIAGONAL, how->unit_diagonal);
    inst_set_int(x, ATTR_TRANSPOSE_A, how->transpose);
    return x;
}

/* What was made by rows, in the layout and of the dimensions that are wanted. */
static Instruction *given_as(Rewriter *r, const Shape *s, Instruction *x)
{
    x = rw_reshape(r, rw_shape(r, s->dtype, s->rank, s->dims), x);
    return x->shape == s ? x : rw_unary(r, OP_COPY, s, x);
}

static Instruction *factors(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *s = inst->shape->elements;
    Instruction *a = inst->operands[0], *parts[3], *second = NULL, *made;
    if (how->kind == LAPACK_POTRF) {
        Instruction *l = rw_unary(r, OP_CHOLESKY, s[0], a);
        inst_set_int(l, ATTR_LOWER, how->lower);
        parts[0] = l;
        parts[1] = info_of(r, l, s[1], DIRECTION_GT);
        return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
    }
    int64_t steps = s[1]->dims[s[1]->rank - 1];
    if (how->kind == LAPACK_GETRF)
        made = expand_lu(r, a, steps, &second);
    else
        made = expand_qr(r, a, steps, &second);
    parts[0] = given_as(r, s[0], made);
    parts[1] = given_as(r, s[1], second);
    if (how->kind == LAPACK_GETRF)
        parts[2] = info_of(r, made, s[2], DIRECTION_NE);
    return rw_add(r, OP_TUPLE, inst->shape, inst->shape->rank, parts);
}

/* Of matrices without elements: info is 0, nothing else has elements. */
static Instruction *of_nothing(Rewriter *r, const Shape *s)
{
    if (!shape_is_tuple(s))
        return rw_splat(r, s, 0);
    Instruction *parts[3];
    for (uint32_t i = 0; i < s->rank; i++)
        parts[i] = rw_splat(r, s->elements[i], 0);
    return rw_add(r, OP_TUPLE, s, s->rank, parts);
}

static Instruction *lapack(Rewriter *r, Instruction *inst)
{
    LapackCall how;
    if (!custom_call_lapack(inst, &how))
        return NULL;
    if (rw_is_zero_size(inst->operands[0]->shape))
        return of_nothing(r, inst->shape);
    switch (how.kind) {
    case LAPACK_TRSM:
        return triangular_solve(r, inst, &how);
    case LAPACK_ORGQR:
        return given_as(r, inst->shape,
                        expand_reflections(r, inst->operands[0], inst->operands[1]));
    case LAPACK_POTRF:
    case LAPACK_GETRF:
    case LAPACK_GEQRF:
        break;
    }
    return factors(r, inst, &how);
}

const Rule rules_expand_lapack[] = {
    {OP_CUSTOM_CALL, "lapack", lapack},
    {0},
};
