/* Tridiagonal matrices in HLO, as LAPACK's calls by name have them: made of Hermitian ones, and systems of them.
 *
 *   sytrd:  a = h^H a h for reflections h that make column i zero below row i + 1
 *   gtsv:   lu with pivots: row i + 1, or row i if its element is the larger one, less a multiple of the other; then x
 *           from the last row to the first */
#include "ir/number/number.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"
#include "passes/simplify/reflections.h"

/* -- sytrd ------------------------------------------------------------------------------------ */

/* What is of the rows after i. */
static Instruction *below(Columns *c, Instruction *x)
{
    Rewriter *r = &c->r;
    return matrix_select(r, columns_compare(c, x->shape, true, DIRECTION_GT), x,
                         rw_splat(r, x->shape, 0));
}

/* arrays: a, t. With p = t a v and w = p - conj(t) (v^H p) / 2 v, h^H a h is a - v w^H - w v^H. */
static void tridiagonal_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *a = arrays[0], *zero;
    const Shape *s = a->shape, *column = columns_shape(c, s, s->dims[c->rank - 2], 1);
    Columns next = *c;
    next.i = rw_binary(r, OP_ADD, c->index, c->i, rw_splat_int(r, c->index, 1));
    Instruction *old = columns_part(c, a, column, NULL, c->i);
    Reflection h = reflection_of(&next, old);
    int64_t last = (int64_t)c->rank - 1;
    zero = rw_splat(r, shape_scalar(c->m->intern, s->dtype), 0);
    Instruction *av = columns_product(c, a, matrix_transposed(r, h.v), s);
    av = rw_reshape(r, column, matrix_reduced(r, OP_ADD, av, zero, 1, &last));
    Instruction *p = below(c, columns_product(c, h.t, av, column));
    Instruction *inner = rw_binary(r, OP_MULTIPLY, column, matrix_conjugate(r, h.v), p);
    inner = columns_reduced(c, inner, OP_ADD, zero);
    inner = rw_binary(r, OP_MULTIPLY, inner->shape, inner, matrix_conjugate(r, h.t));
    inner =
        rw_binary(r, OP_MULTIPLY, inner->shape, inner, rw_splat(r, inner->shape, 0.5));
    Instruction *w =
        rw_binary(r, OP_SUBTRACT, column, p, columns_product(c, inner, h.v, column));
    Instruction *v_h = matrix_conjugate(r, matrix_transposed(r, h.v)),
                *w_h = matrix_conjugate(r, matrix_transposed(r, w));
    a = rw_binary(r, OP_SUBTRACT, s, a, columns_product(c, h.v, w_h, s));
    a = rw_binary(r, OP_SUBTRACT, s, a, columns_product(c, w, v_h, s));
    Instruction *own =
        matrix_select(r, columns_compare(&next, column, true, DIRECTION_GT), h.v, old);
    own = matrix_select(r, columns_compare(&next, column, true, DIRECTION_EQ),
                        columns_repeated(c, h.diagonal, column), own);
    arrays[0] = columns_with_part(c, a, own, NULL, c->i);
    arrays[1] = columns_with_part(c, arrays[1], h.t, c->i, NULL);
}

/* Read from the end, along the last so many dimensions. */
static Instruction *reversed(Rewriter *r, Instruction *x, uint32_t count)
{
    int64_t dims[2] = {(int64_t)x->shape->rank - 1, (int64_t)x->shape->rank - 2};
    Instruction *out = rw_unary(r, OP_REVERSE, x->shape, x);
    inst_set_ints(out, ATTR_DIMENSIONS, dims, count);
    return out;
}

/* Elements (i + down, i) of x, in the shape that is wanted. */
static Instruction *diagonal(Rewriter *r, Instruction *x, int64_t down, const Shape *s)
{
    int64_t n = x->shape->dims[x->shape->rank - 1], last = (int64_t)x->shape->rank - 1;
    x = matrix_part(r, x, down, n - down, 0, n - down);
    Instruction *is_on =
        matrix_unit(r, rw_shape(r, DT_PRED, x->shape->rank, x->shape->dims));
    x = matrix_select(r, is_on, x, rw_splat(r, x->shape, 0));
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, x->shape->dtype), 0);
    x = matrix_reduced(r, OP_ADD, x, zero, 1, &last);
    x = dtype_is_complex(s->dtype) ? x : matrix_real(r, x);
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank, s->dims), x);
}

Instruction *expand_sytrd(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *out = inst->shape->elements;
    Instruction *given = matrix_by_rows(r, inst->operands[0]);
    const Shape *s = given->shape;
    int64_t n = s->dims[s->rank - 1];
    Instruction *a = matrix_hermitian(r, given, how->lower), *parts[5], *t;
    a = how->lower ? a : reversed(r, a, 2);
    t = rw_splat(r, matrix_for_steps(r, s, s->dtype, n - 1), 0);
    if (n > 1) {
        Instruction *arrays[2] = {a, t};
        Instruction *loop =
            columns_loop(r, n - 1, true, 2, arrays, tridiagonal_step, NULL);
        a = columns_result(r, loop, 0);
        t = columns_result(r, loop, 1);
    }
    parts[1] = diagonal(r, a, 0, out[1]);
    parts[2] = n > 1 ? diagonal(r, a, 1, out[2]) : rw_splat(r, out[2], 0);
    parts[3] = rw_reshape(r, rw_shape(r, s->dtype, out[3]->rank, out[3]->dims), t);
    if (!how->lower) {
        a = reversed(r, a, 2);
        for (int i = 1; i < 4; i++)
            parts[i] = reversed(r, parts[i], 1);
    }
    Instruction *is_made =
        rw_compare(r, matrix_numbers(r, s, true), matrix_numbers(r, s, false),
                   how->lower ? DIRECTION_GE : DIRECTION_LE);
    parts[0] = matrix_select(r, is_made, a, given);
    parts[4] = rw_splat_int(r, out[4], 0);
    for (uint32_t i = 0; i < 5; i++)
        parts[i] = matrix_given_as(r, out[i], parts[i]);
    return rw_add(r, OP_TUPLE, inst->shape, 5, parts);
}

/* -- gtsv ------------------------------------------------------------------------------------- */

/* Columns of a row of the array that elimination goes through: its element below the diagonal, the one of the diagonal,
 * two above it, then b. */
#define BAND 4

static Instruction *magnitude(Rewriter *r, Instruction *x)
{
    return matrix_squares(r, x, number_component(x->shape->dtype));
}

static Instruction *columns_of(Rewriter *r, Instruction *row, int64_t from, int64_t to)
{
    return matrix_part(r, row, 0, 1, from, to - from);
}

static void eliminate_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *m = arrays[0];
    int64_t width = m->shape->dims[c->rank - 1];
    const Shape *one = columns_shape(c, m->shape, 1, width);
    Instruction *after =
        rw_binary(r, OP_ADD, c->index, c->i, rw_splat_int(r, c->index, 1));
    Instruction *high = columns_part(c, m, one, c->i, NULL),
                *low = columns_part(c, m, one, after, NULL);
    /* both from column i of the matrix on */
    Instruction *nothing = rw_splat(r, columns_shape(c, m->shape, 1, 1), 0);
    high = columns_of(r, high, 1, width);
    low = matrix_joined(r, columns_of(r, low, 0, 3), columns_of(r, low, BAND, width),
                        false);
    Instruction *changes =
        rw_compare(r, magnitude(r, columns_of(r, low, 0, 1)),
                   magnitude(r, columns_of(r, high, 0, 1)), DIRECTION_GT);
    const Shape *preds = rw_shape(r, DT_PRED, c->rank, high->shape->dims);
    changes = columns_repeated(c, changes, preds);
    Instruction *first = matrix_select(r, changes, low, high),
                *second = matrix_select(r, changes, high, low);
    Instruction *l = rw_binary(r, OP_DIVIDE, nothing->shape, columns_of(r, second, 0, 1),
                               columns_of(r, first, 0, 1));
    second = rw_binary(r, OP_SUBTRACT, second->shape, second,
                       columns_product(c, l, first, second->shape));
    first = matrix_joined(r, nothing, first, false);
    second = matrix_joined(
        r, matrix_joined(r, nothing, columns_of(r, second, 1, 3), false),
        matrix_joined(r, nothing, columns_of(r, second, BAND - 1, width - 1), false),
        false);
    m = columns_with_part(c, m, first, c->i, NULL);
    arrays[0] = columns_with_part(c, m, second, after, NULL);
}

/* arrays: the array; x, with two rows of zeros behind it */
static void substitute_step(Columns *c, const void *user, Instruction **arrays)
{
    (void)user;
    Rewriter *r = &c->r;
    Instruction *m = arrays[0], *x = arrays[1];
    int64_t width = m->shape->dims[c->rank - 1];
    Instruction *row =
        columns_part(c, m, columns_shape(c, m->shape, 1, width), c->i, NULL);
    const Shape *s = columns_shape(c, m->shape, 1, width - BAND);
    Instruction *sum = columns_of(r, row, BAND, width);
    for (int64_t k = 1; k < 3; k++) {
        Instruction *at =
            rw_binary(r, OP_ADD, c->index, c->i, rw_splat_int(r, c->index, k));
        Instruction *by = columns_of(r, row, k + 1, k + 2);
        sum = rw_binary(r, OP_SUBTRACT, s, sum,
                        columns_product(c, by, columns_part(c, x, s, at, NULL), s));
    }
    sum =
        rw_binary(r, OP_DIVIDE, s, sum, columns_repeated(c, columns_of(r, row, 1, 2), s));
    arrays[1] = columns_with_part(c, x, sum, c->i, NULL);
}

/* The array of the system, by rows. */
static Instruction *system_of(Rewriter *r, Instruction *inst)
{
    Instruction *b = matrix_by_rows(r, inst->operands[3]), *m = NULL;
    const Shape *s = b->shape;
    int64_t n = s->dims[s->rank - 2];
    for (int i = 0; i < 3; i++) {
        const Shape *column = matrix_sized(r, s, n, 1);
        Instruction *x = rw_reshape(r, column, matrix_by_rows(r, inst->operands[i]));
        if (i == 2) { /* nothing is above the last element of the diagonal */
            Instruction *rows = matrix_numbers(r, column, true);
            Instruction *is_last =
                rw_compare(r, rows, rw_splat_int(r, rows->shape, n - 1), DIRECTION_EQ);
            x = matrix_select(r, is_last, rw_splat(r, column, 0), x);
        }
        m = m == NULL ? x : matrix_joined(r, m, x, false);
    }
    m = matrix_joined(r, m, rw_splat(r, matrix_sized(r, s, n, 1), 0), false);
    return matrix_joined(r, m, b, false);
}

/* The number of the first row whose pivot is 0, or 0. */
static Instruction *info_of_band(Rewriter *r, Instruction *m, const Shape *info)
{
    int64_t n = m->shape->dims[m->shape->rank - 2];
    Instruction *d = matrix_part(r, m, 0, n, 1, 1);
    Instruction *is_zero = rw_compare(r, d, rw_splat(r, d->shape, 0), DIRECTION_EQ);
    return expand_first_bad(r, is_zero, info);
}

Instruction *expand_gtsv(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    Instruction *m = system_of(r, inst);
    const Shape *s = m->shape;
    int64_t n = s->dims[s->rank - 2], columns = s->dims[s->rank - 1] - BAND;
    if (columns == 0)
        return NULL;
    if (n > 1) {
        Instruction *loop = columns_loop(r, n - 1, true, 1, &m, eliminate_step, NULL);
        m = columns_result(r, loop, 0);
    }
    Instruction *arrays[2] = {m, rw_splat(r, matrix_sized(r, s, n + 2, columns), 0)};
    Instruction *loop = columns_loop(r, n, false, 2, arrays, substitute_step, NULL);
    Instruction *x = matrix_part(r, columns_result(r, loop, 1), 0, n, 0, columns);
    if (how->kind == LAPACK_GTSV2)
        return matrix_given_as(r, inst->shape, x);
    Instruction *parts[5];
    const Shape *const *out = inst->shape->elements;
    for (uint32_t i = 0; i < 3; i++)
        parts[i] = matrix_given_as(r, out[i], matrix_by_rows(r, inst->operands[i]));
    parts[3] = matrix_given_as(r, out[3], x);
    parts[4] = info_of_band(r, m, out[4]);
    return rw_add(r, OP_TUPLE, inst->shape, 5, parts);
}
