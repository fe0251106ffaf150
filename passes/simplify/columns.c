/* See columns.h. */
#include "passes/simplify/columns.h"
#include "ir/number/number.h"

const Shape *columns_shape(Columns *c, const Shape *s, int64_t rows, int64_t columns)
{
    return matrix_sized(&c->r, s, rows, columns);
}

Instruction *columns_part(Columns *c, Instruction *x, const Shape *s, Instruction *row,
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

Instruction *columns_with_part(Columns *c, Instruction *x, Instruction *by,
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

Instruction *columns_repeated(Columns *c, Instruction *x, const Shape *s)
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

Instruction *columns_numbers(Columns *c, const Shape *s, bool rows)
{
    return matrix_numbers(&c->r, s, rows);
}

Instruction *columns_compare(Columns *c, const Shape *s, bool rows, int64_t direction)
{
    Instruction *numbers = columns_numbers(c, s, rows);
    Instruction *step = rw_broadcast(&c->r, numbers->shape, c->i, 0, NULL);
    return rw_compare(&c->r, numbers, step, direction);
}

Instruction *columns_reduced(Columns *c, Instruction *x, OpCode op, Instruction *first)
{
    const Shape *one = columns_shape(c, x->shape, 1, x->shape->dims[c->rank - 1]);
    int64_t row = c->rank - 2;
    return rw_reshape(&c->r, one, matrix_reduced(&c->r, op, x, first, 1, &row));
}

Instruction *columns_product(Columns *c, Instruction *a, Instruction *b, const Shape *s)
{
    return rw_binary(&c->r, OP_MULTIPLY, s, columns_repeated(c, a, s),
                     columns_repeated(c, b, s));
}

/* -- matrices --------------------------------------------------------------------------------- */

Instruction *matrix_select(Rewriter *r, Instruction *p, Instruction *a, Instruction *b)
{
    Instruction *operands[3] = {p, a, b};
    return rw_add(r, OP_SELECT, a->shape, 3, operands);
}

Instruction *matrix_both(Rewriter *r, Instruction *a, Instruction *b)
{
    return rw_binary(r, OP_AND, a->shape, a, b);
}

static Instruction *real_part(Rewriter *r, OpCode op, Instruction *x)
{
    DType t = number_component(x->shape->dtype);
    return rw_unary(r, op, rw_shape(r, t, x->shape->rank, x->shape->dims), x);
}

Instruction *matrix_real(Rewriter *r, Instruction *x)
{
    return dtype_is_complex(x->shape->dtype) ? real_part(r, OP_REAL, x) : x;
}

Instruction *matrix_imag(Rewriter *r, Instruction *x)
{
    return dtype_is_complex(x->shape->dtype) ? real_part(r, OP_IMAG, x) : NULL;
}

Instruction *matrix_conjugate(Rewriter *r, Instruction *x)
{
    Instruction *im = matrix_imag(r, x);
    if (im == NULL)
        return x;
    im = rw_unary(r, OP_NEGATE, im->shape, im);
    return rw_binary(r, OP_COMPLEX, x->shape, matrix_real(r, x), im);
}

Instruction *matrix_squares(Rewriter *r, Instruction *x, DType t)
{
    const Shape *s = rw_shape(r, t, x->shape->rank, x->shape->dims);
    Instruction *re = rw_convert(r, s, matrix_real(r, x)), *im = matrix_imag(r, x);
    Instruction *sum = rw_binary(r, OP_MULTIPLY, s, re, re);
    if (im == NULL)
        return sum;
    im = rw_convert(r, s, im);
    return rw_binary(r, OP_ADD, s, sum, rw_binary(r, OP_MULTIPLY, s, im, im));
}

Instruction *matrix_transposed(Rewriter *r, Instruction *x)
{
    uint32_t rank = x->shape->rank;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t k = 0; k < rank; k++)
        order[k] = k + 2 < rank ? k : (int64_t)(2 * rank - 3 - k);
    return rw_in_order(r, x, order);
}

const Shape *matrix_sized(Rewriter *r, const Shape *s, int64_t rows, int64_t columns)
{
    int64_t *dims = arena_copy(r->scratch, s->dims, s->rank * sizeof *dims);
    dims[s->rank - 2] = rows;
    dims[s->rank - 1] = columns;
    return rw_shape(r, s->dtype, s->rank, dims);
}

Instruction *matrix_part(Rewriter *r, Instruction *a, int64_t y, int64_t rows, int64_t x,
                         int64_t columns)
{
    const Shape *s = a->shape;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        dims[d] = (SliceDim){0, s->dims[d], 1};
    dims[s->rank - 2] = (SliceDim){y, y + rows, 1};
    dims[s->rank - 1] = (SliceDim){x, x + columns, 1};
    return rw_slice(r, matrix_sized(r, s, rows, columns), a, dims);
}

Instruction *matrix_joined(Rewriter *r, Instruction *a, Instruction *b, bool above)
{
    const Shape *s = a->shape;
    int64_t d = (int64_t)s->rank - (above ? 2 : 1);
    int64_t *dims = arena_copy(r->scratch, s->dims, s->rank * sizeof *dims);
    dims[d] += b->shape->dims[d];
    Instruction *both[2] = {a, b};
    Instruction *c =
        rw_add(r, OP_CONCATENATE, rw_shape(r, s->dtype, s->rank, dims), 2, both);
    inst_set_ints(c, ATTR_DIMENSIONS, &d, 1);
    return c;
}

Instruction *matrix_dot(Rewriter *r, Instruction *b, bool b_turned, Instruction *c,
                        bool c_turned)
{
    static const int64_t highest[2] = {PRECISION_HIGHEST, PRECISION_HIGHEST};
    uint32_t rank = b->shape->rank;
    int64_t *batch = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t last = (int64_t)rank - 1, of_b = b_turned ? last - 1 : last,
            of_c = c_turned ? last : last - 1;
    for (uint32_t d = 0; d + 2 < rank; d++)
        batch[d] = d;
    const Shape *s = matrix_sized(r, b->shape, b->shape->dims[2 * last - 1 - of_b],
                                  c->shape->dims[2 * last - 1 - of_c]);
    Instruction *dot = rw_binary(r, OP_DOT, s, b, c);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, &of_b, 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, &of_c, 1);
    if (rank > 2) {
        inst_set_ints(dot, ATTR_LHS_BATCH_DIMS, batch, rank - 2);
        inst_set_ints(dot, ATTR_RHS_BATCH_DIMS, batch, rank - 2);
    }
    inst_set_ints(dot, ATTR_OPERAND_PRECISION, highest, 2);
    return dot;
}

Instruction *matrix_numbers(Rewriter *r, const Shape *s, bool rows)
{
    Instruction *numbers =
        rw_add(r, OP_IOTA, rw_shape(r, DT_S32, s->rank, s->dims), 0, NULL);
    inst_set_int(numbers, ATTR_IOTA_DIMENSION, (int64_t)s->rank - (rows ? 2 : 1));
    return numbers;
}

Instruction *matrix_unit(Rewriter *r, const Shape *s)
{
    Instruction *is_one = rw_compare(r, matrix_numbers(r, s, true),
                                     matrix_numbers(r, s, false), DIRECTION_EQ);
    return rw_convert(r, rw_shape(r, s->dtype, s->rank, s->dims), is_one);
}

Instruction *matrix_hermitian(Rewriter *r, Instruction *a, bool lower)
{
    const Shape *s = a->shape;
    Instruction *row = matrix_numbers(r, s, true), *column = matrix_numbers(r, s, false);
    Instruction *is_given =
        rw_compare(r, row, column, lower ? DIRECTION_GT : DIRECTION_LT);
    Instruction *is_own = rw_compare(r, row, column, DIRECTION_EQ), *own = a;
    Instruction *other = matrix_conjugate(r, matrix_transposed(r, a));
    if (dtype_is_complex(s->dtype)) {
        own = matrix_real(r, a);
        own = rw_binary(r, OP_COMPLEX, s, own, rw_splat(r, own->shape, 0));
    }
    return matrix_select(r, is_own, own, matrix_select(r, is_given, a, other));
}

Instruction *matrix_by_rows(Rewriter *r, Instruction *x)
{
    return rw_convert(r, rw_shape(r, x->shape->dtype, x->shape->rank, x->shape->dims), x);
}

Instruction *matrix_given_as(Rewriter *r, const Shape *s, Instruction *x)
{
    x = rw_reshape(r, rw_shape(r, s->dtype, s->rank, s->dims), x);
    return rw_in_layout(r, s, x);
}

const Shape *matrix_for_steps(Rewriter *r, const Shape *s, DType t, int64_t count)
{
    return rw_shape(r, t, s->rank, matrix_sized(r, s, count, 1)->dims);
}

Instruction *matrix_reduced(Rewriter *r, OpCode op, Instruction *x, Instruction *first,
                            uint32_t count, const int64_t *dims)
{
    int64_t *left = ARENA_ARRAY(r->scratch, int64_t, x->shape->rank);
    uint32_t n = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        bool goes = false;
        for (uint32_t i = 0; i < count; i++)
            goes = goes || dims[i] == d;
        if (!goes)
            left[n++] = x->shape->dims[d];
    }
    Instruction *all =
        rw_binary(r, OP_REDUCE, rw_shape(r, x->shape->dtype, n, left), x, first);
    inst_set_ints(all, ATTR_DIMENSIONS, dims, count);
    inst_set_computation(all, ATTR_TO_APPLY,
                         module_add_reducer(r->m, op, x->shape->dtype));
    return all;
}

/* -- the loop ---------------------------------------------------------------------------- */

static Columns make(Rewriter *r, int64_t n, uint32_t count, Instruction *const *arrays)
{
    Columns c = {.m = r->m, .rank = arrays[0]->shape->rank, .n = n, .count = count};
    c.r = (Rewriter){.m = r->m, .scratch = r->scratch};
    c.index = shape_scalar(r->m->intern, DT_S32);
    const Shape *all[COLUMNS_MOST + 1] = {c.index};
    for (uint32_t k = 0; k < count; k++)
        all[k + 1] = arrays[k]->shape;
    c.state = shape_tuple(r->m->intern, count + 1, all);
    return c;
}

static Computation *condition(Columns *c)
{
    Computation *comp = module_add_computation(c->m, "columns_condition");
    c->r.comp = comp;
    Instruction *state = computation_add_parameter(comp, 0, c->state, NULL);
    comp->root =
        rw_binary(&c->r, OP_COMPARE, shape_scalar(c->m->intern, DT_PRED),
                  rw_element(&c->r, state, 0), rw_splat_int(&c->r, c->index, c->n));
    inst_set_int(comp->root, ATTR_DIRECTION, DIRECTION_LT);
    if (c->is_while)
        comp->root = rw_binary(&c->r, OP_AND, comp->root->shape, comp->root,
                               rw_element(&c->r, state, c->count));
    return comp;
}

/* Begins the body; gives what counts its steps. */
static Instruction *begin(Columns *c, bool forward, Instruction **arrays)
{
    Computation *comp = module_add_computation(c->m, "columns_body");
    c->r.comp = comp;
    Instruction *state = computation_add_parameter(comp, 0, c->state, NULL);
    Instruction *steps = rw_element(&c->r, state, 0);
    c->zero = rw_splat_int(&c->r, c->index, 0);
    c->i = steps;
    if (!forward)
        c->i = rw_binary(&c->r, OP_SUBTRACT, c->index,
                         rw_splat_int(&c->r, c->index, c->n - 1), steps);
    for (uint32_t k = 0; k < c->count; k++)
        arrays[k] = rw_element(&c->r, state, k + 1);
    return steps;
}

/* What the loop carries. */
static Instruction *state_of(Rewriter *r, const Columns *c, Instruction *step,
                             Instruction *const *arrays)
{
    Instruction *all[COLUMNS_MOST + 1] = {step};
    for (uint32_t k = 0; k < c->count; k++)
        all[k + 1] = arrays[k];
    return rw_add(r, OP_TUPLE, c->state, c->count + 1, all);
}

static Computation *end(Columns *c, Instruction *steps, Instruction *const *arrays)
{
    Instruction *next =
        rw_binary(&c->r, OP_ADD, c->index, steps, rw_splat_int(&c->r, c->index, 1));
    c->r.comp->root = state_of(&c->r, c, next, arrays);
    return c->r.comp;
}

static Instruction *make_loop(Rewriter *r, Columns *c, bool forward,
                              Instruction *const *arrays, ColumnsStep *step,
                              const void *user)
{
    Instruction *now[COLUMNS_MOST], *steps = begin(c, forward, now);
    step(c, user, now);
    Computation *body = end(c, steps, now);
    Instruction *first = state_of(r, c, rw_splat_int(r, c->index, 0), arrays);
    Instruction *loop = rw_unary(r, OP_WHILE, c->state, first);
    inst_set_computation(loop, ATTR_CONDITION, condition(c));
    inst_set_computation(loop, ATTR_BODY, body);
    return loop;
}

Instruction *columns_loop(Rewriter *r, int64_t n, bool forward, uint32_t count,
                          Instruction *const *arrays, ColumnsStep *step, const void *user)
{
    Columns c = make(r, n, count, arrays);
    return make_loop(r, &c, forward, arrays, step, user);
}

Instruction *columns_loop_while(Rewriter *r, int64_t n, uint32_t count,
                                Instruction *const *arrays, ColumnsStep *step,
                                const void *user)
{
    Columns c = make(r, n, count, arrays);
    c.is_while = true;
    return make_loop(r, &c, true, arrays, step, user);
}

Instruction *columns_result(Rewriter *r, Instruction *loop, uint32_t k)
{
    return rw_element(r, loop, k + 1);
}
