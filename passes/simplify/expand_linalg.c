/* Expansion of cholesky and triangular-solve: loops over the columns.
 *
 *   cholesky:          l[:, i] = a[:, i] / sqrt(a[i, i]);  a -= l[:, i] l[:, i]^H
 *   triangular-solve:  x[i, :] = x[i, :] / m[i, i];  x -= m[:, i] x[i, :] for the rows to come
 *
 * Types of less than 32 bits are computed in f32. The other cases - the upper triangle, op(a),
 * a on the right - are the same after transposing and conjugating. */
#include "passes/simplify/expand.h"

/* What a loop over i = 0 .. n - 1 carries: i, an array that is read, an array that is made. */
typedef struct Columns {
    Module *m;
    Rewriter r; /* of the computation that is being made */
    uint32_t rank;
    int64_t n;
    const Shape *index, *read, *made, *state;
    Instruction *i, *zero; /* in the body */
} Columns;

static const Shape *part_shape(Columns *c, const Shape *s, int64_t rows, int64_t columns)
{
    int64_t *dims = ARENA_ARRAY(c->r.scratch, int64_t, s->rank);
    for (uint32_t k = 0; k + 2 < s->rank; k++)
        dims[k] = s->dims[k];
    dims[s->rank - 2] = rows;
    dims[s->rank - 1] = columns;
    return rw_shape(&c->r, s->dtype, s->rank, dims);
}

static Instruction *element(Rewriter *r, Instruction *tuple, uint32_t i)
{
    Instruction *e = rw_unary(r, OP_GET_TUPLE_ELEMENT, tuple->shape->elements[i], tuple);
    inst_set_int(e, ATTR_INDEX, i);
    return e;
}

/* The part of x that begins at (row, column); NULL: at 0. */
static Instruction *part(Columns *c, Instruction *x, const Shape *s, Instruction *row,
                         Instruction *column)
{
    Instruction **operands = ARENA_ARRAY(c->r.scratch, Instruction *, c->rank + 1);
    operands[0] = x;
    for (uint32_t k = 1; k <= c->rank; k++)
        operands[k] = c->zero;
    if (row)
        operands[c->rank - 1] = row;
    if (column)
        operands[c->rank] = column;
    Instruction *slice = rw_add(&c->r, OP_DYNAMIC_SLICE, s, c->rank + 1, operands);
    inst_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, s->dims, s->rank);
    return slice;
}

static Instruction *with_part(Columns *c, Instruction *x, Instruction *by,
                              Instruction *row, Instruction *column)
{
    Instruction **operands = ARENA_ARRAY(c->r.scratch, Instruction *, c->rank + 2);
    operands[0] = x;
    operands[1] = by;
    for (uint32_t k = 2; k <= c->rank + 1; k++)
        operands[k] = c->zero;
    if (row)
        operands[c->rank] = row;
    if (column)
        operands[c->rank + 1] = column;
    return rw_add(&c->r, OP_DYNAMIC_UPDATE_SLICE, x->shape, c->rank + 2, operands);
}

/* x, of size 1 in rows or columns or both, repeated to the sizes of s. */
static Instruction *repeated(Columns *c, Instruction *x, const Shape *s)
{
    Rewriter *r = &c->r;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, c->rank);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, c->rank);
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->rank; k++) {
        if (k + 2 >= c->rank && x->shape->dims[k] == 1)
            continue;
        sizes[n] = x->shape->dims[k];
        dims[n++] = k;
    }
    const Shape *whole = rw_shape(r, x->shape->dtype, s->rank, s->dims);
    return rw_broadcast(
        r, whole, rw_reshape(r, rw_shape(r, x->shape->dtype, n, sizes), x), n, dims);
}

static Instruction *compare_rows(Columns *c, const Shape *s, int64_t direction)
{
    Rewriter *r = &c->r;
    const Shape *index = rw_shape(r, DT_S32, s->rank, s->dims);
    Instruction *rows = rw_add(r, OP_IOTA, index, 0, NULL);
    inst_set_int(rows, ATTR_IOTA_DIMENSION, (int64_t)s->rank - 2);
    Instruction *by = rw_binary(r, OP_COMPARE, rw_shape(r, DT_PRED, s->rank, s->dims),
                                rows, rw_broadcast(r, index, c->i, 0, NULL));
    inst_set_int(by, ATTR_DIRECTION, direction);
    return by;
}

static Instruction *select(Columns *c, Instruction *p, Instruction *a, Instruction *b)
{
    Instruction *operands[3] = {p, a, b};
    return rw_add(&c->r, OP_SELECT, a->shape, 3, operands);
}

static DType real_type(DType t)
{
    return t == DT_C64 ? DT_F32 : t == DT_C128 ? DT_F64 : t;
}

static Instruction *conjugate(Rewriter *r, Instruction *x)
{
    const Shape *s = x->shape;
    if (!dtype_is_complex(s->dtype))
        return x;
    const Shape *real = rw_shape(r, real_type(s->dtype), s->rank, s->dims);
    Instruction *im = rw_unary(r, OP_NEGATE, real, rw_unary(r, OP_IMAG, real, x));
    return rw_binary(r, OP_COMPLEX, s, rw_unary(r, OP_REAL, real, x), im);
}

static Instruction *transposed(Rewriter *r, Instruction *x)
{
    uint32_t rank = x->shape->rank;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t k = 0; k < rank; k++) {
        order[k] = k + 2 < rank ? k : (int64_t)(2 * rank - 3 - k);
        dims[k] = x->shape->dims[order[k]];
    }
    return rw_transpose(r, rw_shape(r, x->shape->dtype, rank, dims), x, order);
}

/* -- the loop ---------------------------------------------------------------------------- */

static Columns columns_make(Rewriter *r, Instruction *read, Instruction *made)
{
    Columns c = {
        .m = r->m, .rank = read->shape->rank, .read = read->shape, .made = made->shape};
    c.r = (Rewriter){.m = r->m, .scratch = r->scratch};
    c.n = read->shape->dims[c.rank - 1];
    c.index = shape_scalar(r->m->intern, DT_S32);
    const Shape *all[3] = {c.index, c.read, c.made};
    c.state = shape_tuple(r->m->intern, 3, all);
    return c;
}

static Computation *condition(Columns *c)
{
    Computation *comp = module_add_computation(c->m, "columns_condition");
    c->r.comp = comp;
    Instruction *state = computation_add_parameter(comp, 0, c->state, NULL);
    comp->root = rw_binary(&c->r, OP_COMPARE, shape_scalar(c->m->intern, DT_PRED),
                           element(&c->r, state, 0), rw_splat_int(&c->r, c->index, c->n));
    inst_set_int(comp->root, ATTR_DIRECTION, DIRECTION_LT);
    return comp;
}

/* Begins the body: read and made are its values; c->i counts up, or down. */
static Instruction *body_begin(Columns *c, bool forward, Instruction **read,
                               Instruction **made)
{
    Computation *comp = module_add_computation(c->m, "columns_body");
    c->r.comp = comp;
    Instruction *state = computation_add_parameter(comp, 0, c->state, NULL);
    Instruction *count = element(&c->r, state, 0);
    c->zero = rw_splat_int(&c->r, c->index, 0);
    c->i = count;
    if (!forward)
        c->i = rw_binary(&c->r, OP_SUBTRACT, c->index,
                         rw_splat_int(&c->r, c->index, c->n - 1), count);
    *read = element(&c->r, state, 1);
    *made = element(&c->r, state, 2);
    return count;
}

static Computation *body_end(Columns *c, Instruction *count, Instruction *read,
                             Instruction *made)
{
    Instruction *next =
        rw_binary(&c->r, OP_ADD, c->index, count, rw_splat_int(&c->r, c->index, 1));
    Instruction *all[3] = {next, read, made};
    c->r.comp->root = rw_add(&c->r, OP_TUPLE, c->state, 3, all);
    return c->r.comp;
}

static Instruction *run(Rewriter *r, Columns *c, Computation *body, Instruction *read,
                        Instruction *made)
{
    Instruction *all[3] = {rw_splat_int(r, c->index, 0), read, made};
    Instruction *loop =
        rw_unary(r, OP_WHILE, c->state, rw_add(r, OP_TUPLE, c->state, 3, all));
    inst_set_computation(loop, ATTR_CONDITION, condition(c));
    inst_set_computation(loop, ATTR_BODY, body);
    return element(r, loop, 2);
}

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
    const Shape *real = rw_shape(r, real_type(one->dtype), one->rank, one->dims);
    Instruction *d = part(c, a, one, c->i, c->i);
    if (dtype_is_complex(one->dtype))
        d = rw_unary(r, OP_REAL, real, d);
    Instruction *positive =
        rw_binary(r, OP_COMPARE, rw_shape(r, DT_PRED, one->rank, one->dims), d,
                  rw_splat(r, real, 0.0));
    inst_set_int(positive, ATTR_DIRECTION, DIRECTION_GT);
    Instruction *root = rw_unary(r, OP_SQRT, real, d);
    Instruction *zero = rw_splat(r, real, 0.0);
    root = select(c, positive, root, rw_binary(r, OP_DIVIDE, real, zero, zero));
    return dtype_is_complex(one->dtype) ? rw_binary(r, OP_COMPLEX, one, root, zero)
                                        : root;
}

static Instruction *cholesky(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || rw_is_zero_size(s))
        return NULL;
    bool lower = inst_bool(inst, ATTR_LOWER);
    Instruction *a = widened(r, inst->operands[0]);
    if (!lower)
        a = conjugate(r, transposed(r, a));
    Instruction *zeros = rw_splat(r, rw_shape(r, a->shape->dtype, s->rank, s->dims), 0.0);
    Columns c = columns_make(r, a, zeros);
    const Shape *column = part_shape(&c, c.read, c.n, 1),
                *one = part_shape(&c, c.read, 1, 1);
    Instruction *left, *l;
    Instruction *count = body_begin(&c, true, &left, &l);
    Instruction *root = repeated(&c, pivot(&c, left, one), column);
    Instruction *below =
        rw_binary(&c.r, OP_DIVIDE, column, part(&c, left, column, NULL, c.i), root);
    Instruction *col = select(&c, compare_rows(&c, column, DIRECTION_GT), below,
                              rw_splat(&c.r, column, 0.0));
    col = select(&c, compare_rows(&c, column, DIRECTION_EQ), root, col);
    Instruction *row = transposed(&c.r, conjugate(&c.r, col));
    Instruction *product = rw_binary(&c.r, OP_MULTIPLY, c.read, repeated(&c, col, c.read),
                                     repeated(&c, row, c.read));
    Instruction *rest = rw_binary(&c.r, OP_SUBTRACT, c.read, left, product);
    Computation *body = body_end(&c, count, rest, with_part(&c, l, col, NULL, c.i));
    Instruction *result = run(r, &c, body, a, zeros);
    if (!lower)
        result = conjugate(r, transposed(r, result));
    return narrowed(r, s, result);
}

/* -- triangular-solve -------------------------------------------------------------------------- */

static Instruction *triangular_solve(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || rw_is_zero_size(s) || !rw_is_static(inst->operands[0]->shape))
        return NULL;
    int64_t op = inst_int(inst, ATTR_TRANSPOSE_A, TRANSPOSE_NO);
    bool left = inst_bool(inst, ATTR_LEFT_SIDE);
    bool turned = (op == TRANSPOSE_YES || op == TRANSPOSE_ADJOINT) != !left;
    bool forward = inst_bool(inst, ATTR_LOWER) != turned;
    Instruction *m = widened(r, inst->operands[0]), *b = widened(r, inst->operands[1]);
    if (op == TRANSPOSE_ADJOINT)
        m = conjugate(r, m);
    if (turned)
        m = transposed(r, m);
    if (!left)
        b = transposed(r, b); /* x op(a) = b is op(a)^T x^T = b^T */
    Columns c = columns_make(r, m, b);
    const Shape *column = part_shape(&c, c.read, c.n, 1),
                *one = part_shape(&c, c.read, 1, 1);
    const Shape *row = part_shape(&c, c.made, 1, c.made->dims[c.rank - 1]);
    Instruction *matrix, *x;
    Instruction *count = body_begin(&c, forward, &matrix, &x);
    Instruction *solved = part(&c, x, row, c.i, NULL);
    if (!inst_bool(inst, ATTR_UNIT_DIAGONAL))
        solved = rw_binary(&c.r, OP_DIVIDE, row, solved,
                           repeated(&c, part(&c, matrix, one, c.i, c.i), row));
    Instruction *col = part(&c, matrix, column, NULL, c.i);
    Instruction *product = rw_binary(&c.r, OP_MULTIPLY, c.made, repeated(&c, col, c.made),
                                     repeated(&c, solved, c.made));
    Instruction *to_come =
        compare_rows(&c, c.made, forward ? DIRECTION_GT : DIRECTION_LT);
    Instruction *rest = rw_binary(&c.r, OP_SUBTRACT, c.made, x, product);
    Instruction *next = with_part(&c, select(&c, to_come, rest, x), solved, c.i, NULL);
    Instruction *result = run(r, &c, body_end(&c, count, matrix, next), m, b);
    return narrowed(r, s, left ? result : transposed(r, result));
}

const Rule rules_expand_linalg[] = {
    {OP_CHOLESKY, "cholesky", cholesky},
    {OP_TRIANGULAR_SOLVE, "triangular_solve", triangular_solve},
    {0},
};
