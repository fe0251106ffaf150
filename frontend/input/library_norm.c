/* cuDNN's layer norms as XLA calls them, __cudnn$norm, read as what they mean. All dimensions of x but the first are
 * normalised; scale and bias have one element for each position among those.
 *
 *   (y, [mean, inverse], workspace) = forward(x, scale, bias)
 *   (dx, dscale, dbias, workspace) = backward(x, scale, dy, mean, inverse)
 *
 * n = (x - mean) * inverse, y = n * scale + bias, inverse = 1 / sqrt(variance + epsilon). */
#include <string.h>

#include "frontend/input/library_call.h"

typedef struct Norm {
    Call *c;
    Rewriter *r;
    Instruction *x, *scale;       /* f32: x as it is, the scale in each row */
    const Shape *shape, *row;     /* f32, of x and of numbers of rows */
    const Shape *column;          /* of the scale */
    int64_t dims[CALL_MOST_RANK]; /* 0, 1, ... */
    int64_t columns;
} Norm;

static Instruction *binary(const Norm *n, OpCode op, Instruction *a, Instruction *b)
{
    return rw_binary(n->r, op, a->shape, a, b);
}

/* -- operands ------------------------------------------------------------------------------------ */

static Instruction *take_floats(Norm *n, const char *what)
{
    Instruction *x = n->c->trouble == NULL ? call_take(n->c, what) : NULL;
    if (x == NULL)
        return NULL;
    if (rw_is_static(x->shape) &&
        (x->shape->dtype == DT_F32 || dtype_is_half(x->shape->dtype)))
        return call_as(n->c, x, DT_F32);
    call_fail(n->c,
              arena_printf(n->r->m->arena, "%s is no array of f32, f16 or bf16", what));
    return NULL;
}

/* One element for each position of a row, in all rows. */
static Instruction *take_columns(Norm *n, const char *what)
{
    Instruction *v = take_floats(n, what);
    if (v == NULL)
        return NULL;
    bool fits = v->shape->rank == n->shape->rank && v->shape->dims[0] == 1;
    for (uint32_t d = 1; d < n->shape->rank && fits; d++)
        fits = v->shape->dims[d] == n->shape->dims[d];
    if (!fits) {
        call_fail(n->c, arena_printf(n->r->m->arena, "%s does not fit its x", what));
        return NULL;
    }
    n->column = v->shape;
    v = rw_reshape(n->r, rw_shape(n->r, DT_F32, n->shape->rank - 1, n->shape->dims + 1),
                   v);
    return rw_broadcast(n->r, n->shape, v, n->shape->rank - 1, n->dims + 1);
}

/* A number for each row, in all its elements. */
static Instruction *in_row(const Norm *n, Instruction *v)
{
    return rw_broadcast(n->r, n->shape, v, 1, n->dims);
}

static Instruction *take_rows(Norm *n, const char *what)
{
    Instruction *v = take_floats(n, what);
    if (v == NULL)
        return NULL;
    bool fits = v->shape->rank == n->shape->rank && v->shape->dims[0] == n->row->dims[0];
    for (uint32_t d = 1; d < n->shape->rank && fits; d++)
        fits = v->shape->dims[d] == 1;
    if (fits)
        return in_row(n, rw_reshape(n->r, n->row, v));
    call_fail(n->c, arena_printf(n->r->m->arena, "%s does not fit its x", what));
    return NULL;
}

static bool take_norm(Norm *n)
{
    Instruction *x = take_floats(n, "x");
    if (x == NULL)
        return false;
    if (x->shape->rank < 2 || x->shape->rank > CALL_MOST_RANK ||
        shape_elements(x->shape) == 0)
        return call_fail(n->c, "its x has no rows, no columns or too many dimensions");
    n->x = x;
    n->shape = rw_shape(n->r, DT_F32, x->shape->rank, x->shape->dims);
    n->row = rw_shape(n->r, DT_F32, 1, x->shape->dims);
    n->columns = shape_elements(x->shape) / x->shape->dims[0];
    for (uint32_t d = 0; d < CALL_MOST_RANK; d++)
        n->dims[d] = d;
    n->scale = take_columns(n, "its scale");
    return n->scale != NULL && (shape_is_tuple(n->c->inst->shape) ||
                                call_fail(n->c, "its result is no tuple"));
}

/* -- results --------------------------------------------------------------------------------------- */

static Instruction *mean_of_rows(const Norm *n, Instruction *x)
{
    Instruction *sum = rw_sum(n->r, n->row, x, n->shape->rank - 1, n->dims + 1);
    return call_times(n->c, sum, 1 / (double)n->columns);
}

/* A number of each row, with dimensions of size 1 behind it. */
static Instruction *as_rows(const Norm *n, Instruction *v)
{
    int64_t dims[CALL_MOST_RANK];
    for (uint32_t d = 0; d < n->shape->rank; d++)
        dims[d] = d == 0 ? n->shape->dims[0] : 1;
    return rw_reshape(n->r, rw_shape(n->r, DT_F32, n->shape->rank, dims), v);
}

static Instruction *sum_of_rows(const Norm *n, Instruction *x)
{
    const Shape *s = rw_shape(n->r, DT_F32, n->shape->rank - 1, n->shape->dims + 1);
    return rw_reshape(n->r, n->column, rw_sum(n->r, s, x, 1, n->dims));
}

static Instruction *forward(Norm *n, bool keeps_statistics)
{
    double epsilon = call_number(n->c, "epsilon", 0);
    Instruction *bias = take_columns(n, "its bias");
    if (bias == NULL)
        return NULL;
    Instruction *made[4], *mean = mean_of_rows(n, n->x);
    Instruction *centred = binary(n, OP_SUBTRACT, n->x, in_row(n, mean));
    Instruction *variance = mean_of_rows(n, binary(n, OP_MULTIPLY, centred, centred));
    Instruction *inverse =
        rw_unary(n->r, OP_RSQRT, n->row,
                 binary(n, OP_ADD, variance, rw_splat(n->r, n->row, epsilon)));
    Instruction *y = binary(n, OP_MULTIPLY, centred, in_row(n, inverse));
    made[0] = binary(n, OP_ADD, binary(n, OP_MULTIPLY, y, n->scale), bias);
    made[1] = as_rows(n, mean);
    made[2] = as_rows(n, inverse);
    return call_results(n->c, made, keeps_statistics ? 3 : 1);
}

static Instruction *backward(Norm *n)
{
    Instruction *dy = take_floats(n, "the result's gradient");
    if (dy != NULL && !shape_same_dims(dy->shape, n->shape))
        call_fail(n->c, "its result's gradient does not fit its x");
    Instruction *mean = take_rows(n, "its mean"),
                *inverse = take_rows(n, "its inverse deviation");
    if (n->c->trouble != NULL)
        return NULL;
    Instruction *made[4];
    Instruction *y = binary(n, OP_MULTIPLY, binary(n, OP_SUBTRACT, n->x, mean), inverse);
    Instruction *g = binary(n, OP_MULTIPLY, dy, n->scale);
    Instruction *along = mean_of_rows(n, binary(n, OP_MULTIPLY, g, y));
    Instruction *dx = binary(n, OP_SUBTRACT, g, in_row(n, mean_of_rows(n, g)));
    dx = binary(n, OP_SUBTRACT, dx, binary(n, OP_MULTIPLY, y, in_row(n, along)));
    made[0] = binary(n, OP_MULTIPLY, dx, inverse);
    made[1] = sum_of_rows(n, binary(n, OP_MULTIPLY, dy, y));
    made[2] = sum_of_rows(n, dy);
    return call_results(n->c, made, 3);
}

/* What is not said is a norm that keeps nothing. */
Instruction *call_read_norm(Call *c)
{
    Norm n = {.c = c, .r = &c->r};
    const char *kind = call_word(c, "kind", "LAYER_FWD_INFER");
    bool trains = strcmp(kind, "LAYER_FWD_TRAIN") == 0,
         is_gradient = strcmp(kind, "LAYER_BWD") == 0;
    if (call_is_word(c, "kind") && !trains && !is_gradient &&
        strcmp(kind, "LAYER_FWD_INFER") != 0)
        call_fail(c, arena_printf(c->r.m->arena, "its kind \"%s\" is not known", kind));
    if (c->trouble != NULL || !take_norm(&n))
        return NULL;
    return is_gradient ? backward(&n) : forward(&n, trains);
}
