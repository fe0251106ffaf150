/* JAX's calls of LAPACK for the CPU as the operations that they stand for.
 *
 *   (l, info) = custom-call(a), target lapack_spotrf_ffi  ->  l = cholesky(a), info from l's diagonal
 *   x = custom-call(a, b), target lapack_strsm_ffi        ->  x = triangular-solve(a, b) */
#include "ir/custom_call.h"
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

static Instruction *compare(Rewriter *r, Instruction *a, Instruction *b,
                            int64_t direction)
{
    const Shape *s = rw_shape(r, DT_PRED, a->shape->rank, a->shape->dims);
    Instruction *c = rw_binary(r, OP_COMPARE, s, a, b);
    inst_set_int(c, ATTR_DIRECTION, direction);
    return c;
}

static Instruction *select(Rewriter *r, Instruction *p, Instruction *a, Instruction *b)
{
    Instruction *operands[3] = {p, a, b};
    return rw_add(r, OP_SELECT, a->shape, 3, operands);
}

static Instruction *index_along(Rewriter *r, const Shape *s, int64_t dimension)
{
    Instruction *i = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, dimension);
    return i;
}

/* Pivot k of n that is not positive counts n - k, all else 0: the most, c, tells the first of them.
 * Info is n - c + 1, and 0 where c is. */
static Instruction *info_of(Rewriter *r, Instruction *l, const Shape *info)
{
    const Shape *s = l->shape;
    DType t = s->dtype;
    DType real = t == DT_C64 ? DT_F32 : t == DT_C128 ? DT_F64 : t;
    int64_t row = (int64_t)s->rank - 2, n = s->dims[row];
    const Shape *counts = rw_shape(r, DT_S32, s->rank, s->dims),
                *pivots = rw_shape(r, real, s->rank, s->dims);
    Instruction *rows = index_along(r, counts, row),
                *columns = index_along(r, counts, row + 1);
    Instruction *pivot = dtype_is_complex(t) ? rw_unary(r, OP_REAL, pivots, l) : l;
    Instruction *good = compare(r, pivot, rw_splat(r, pivots, 0), DIRECTION_GT);
    Instruction *none = rw_splat_int(r, counts, 0);
    Instruction *left =
        rw_binary(r, OP_SUBTRACT, counts, rw_splat_int(r, counts, n), rows);
    Instruction *count = select(r, compare(r, rows, columns, DIRECTION_EQ),
                                select(r, good, none, left), none);
    Instruction *most = rw_binary(r, OP_REDUCE, info, count,
                                  rw_splat_int(r, shape_scalar(r->m->intern, DT_S32), 0));
    inst_set_ints(most, ATTR_DIMENSIONS, (int64_t[]){row, row + 1}, 2);
    inst_set_computation(most, ATTR_TO_APPLY, larger(r));
    Instruction *zero = rw_splat_int(r, info, 0);
    Instruction *order =
        rw_binary(r, OP_SUBTRACT, info, rw_splat_int(r, info, n + 1), most);
    return select(r, compare(r, most, zero, DIRECTION_EQ), zero, order);
}

static Instruction *lapack(Rewriter *r, Instruction *inst)
{
    LapackCall how;
    if (!custom_call_lapack(inst, &how))
        return NULL;
    if (how.op == OP_TRIANGULAR_SOLVE) {
        Instruction *x = rw_add(r, OP_TRIANGULAR_SOLVE, inst->shape, 2, inst->operands);
        inst_set_int(x, ATTR_LEFT_SIDE, how.left);
        inst_set_int(x, ATTR_LOWER, how.lower);
        inst_set_int(x, ATTR_UNIT_DIAGONAL, how.unit_diagonal);
        inst_set_int(x, ATTR_TRANSPOSE_A, how.transpose);
        return x;
    }
    Instruction *l =
        rw_unary(r, OP_CHOLESKY, inst->shape->elements[0], inst->operands[0]);
    inst_set_int(l, ATTR_LOWER, how.lower);
    Instruction *parts[2] = {l, info_of(r, l, inst->shape->elements[1])};
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

const Rule rules_expand_lapack[] = {
    {OP_CUSTOM_CALL, "lapack", lapack},
    {0},
};
