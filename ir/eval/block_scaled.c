/* What block-scaled custom calls mean. Products of a value and its scale are exact in f64, and so
 * are the sums of a dot as far as f64 goes; the result is rounded once. */
#include "ir/eval/block_scaled.h"

#include <math.h>
#include <string.h>

#include "ir/eval/gemm.h"
#include "ir/kernel/block_scaled.h"
#include "ir/number/number.h"

static double *as_f64(EvalCall *call, const Value *v)
{
    double *out = eval_temp(call, (size_t)v->count, sizeof *out);
    number_convert(DT_F64, out, v->shape->dtype, v->data, (size_t)v->count);
    return out;
}

static void *element_at(const Value *v, int64_t i)
{
    return (char *)v->data + i * (int64_t)value_element_bytes(v);
}

/* -- quantize, dequantize ---------------------------------------------------------------------- */

/* Values of f32 and narrower are divided in f32. */
static double divide(double a, double b, bool is_wide)
{
    return is_wide ? a / b : (double)((float)a / (float)b);
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = isnan(most) || fabs(x[i]) <= most ? most : fabs(x[i]);
    return most;
}

/* The scale is at least the least positive number of its type: then zeros stay zeros. */
static void quantize(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *result = eval_result(call), *q = result->elements[0], *s = result->elements[1];
    DType qt = q->shape->dtype, st = s->shape->dtype;
    bool is_wide = x->shape->dtype == DT_F64;
    double *values = as_f64(call, x);
    double power = ldexp(1, ilogb(number_max_finite(qt)));
    double least = number_least_positive(st);
    int64_t block = s->count == 0 ? 0 : x->count / s->count;
    for (int64_t i = 0; i < s->count; i++) {
        double scale = divide(largest(values + i * block, block), power, is_wide);
        scale = scale < least ? least : scale;
        number_store(st, element_at(s, i), number_from_double(st, scale));
        scale = number_get_double(st, element_at(s, i));
        for (int64_t k = i * block; k < (i + 1) * block; k++)
            number_store(qt, element_at(q, k),
                         number_from_double(qt, divide(values[k], scale, is_wide)));
    }
}

static void dequantize(EvalCall *call)
{
    const Value *q = call->operands[0], *s = call->operands[1];
    Value *y = eval_result(call);
    DType t = y->shape->dtype;
    Value *wide_q = eval_array(call, y->shape);
    Value *wide_s = eval_array(call, shape_with_dtype(eval_intern(call), s->shape, t));
    number_convert(t, wide_q->data, q->shape->dtype, q->data, (size_t)q->count);
    number_convert(t, wide_s->data, s->shape->dtype, s->data, (size_t)s->count);
    int64_t block = s->count == 0 ? 0 : q->count / s->count;
    for (int64_t i = 0; i < y->count; i++) {
        double product = number_get_double(t, element_at(wide_q, i)) *
                         number_get_double(t, element_at(wide_s, i / block));
        number_store(t, element_at(y, i), number_from_double(t, product));
    }
    value_release(wide_q);
    value_release(wide_s);
}

/* -- dot ------------------------------------------------------------------------------------------ */

/* One side of one batch: `out` is [rows, k], or [k, rows] if it is transposed. */
static void scale_side(const double *x, const double *scale, int64_t batch, int64_t rows,
                       const BlockScaledDot *d, const Shape *scale_shape, bool is_tiled,
                       bool transpose, double *out)
{
    int64_t scale_rows = 0, columns = 0;
    if (scale != NULL) {
        scale_rows = scale_shape->dims[scale_shape->rank - 2];
        columns = scale_shape->dims[scale_shape->rank - 1];
        scale += batch * scale_rows * columns;
    }
    x += batch * rows * d->k;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < d->k; k++) {
            double factor = 1;
            if (scale != NULL && is_tiled) /* no sign, as tensor cores read them */
                factor = fabs(scale[block_scaled_offset(columns, i, k / d->block)]);
            else if (scale != NULL)
                factor = scale[i * columns + k / d->block];
            out[transpose ? k * rows + i : i * d->k + k] = x[i * d->k + k] * factor;
        }
    }
}

static void dot(EvalCall *call, bool is_tiled)
{
    BlockScaledDot d;
    const char *error = block_scaled_check(call->inst, call->scratch, &d);
    if (error != NULL)
        eval_fail(call, "%s", error);
    Value *out = eval_result(call), **in = call->operands;
    double *x[4] = {NULL}, factor = 1;
    for (int i = 0; i < 4; i++)
        if (i < 3 || d.has_rhs_scale)
            x[i] = as_f64(call, in[i]);
    if (d.has_factor)
        factor = number_get_double(in[4]->shape->dtype, in[4]->data);
    double *a = eval_temp(call, (size_t)(d.m * d.k), sizeof *a);
    double *b = eval_temp(call, (size_t)(d.n * d.k), sizeof *b);
    double *c = eval_temp(call, (size_t)(d.m * d.n), sizeof *c);
    DType t = out->shape->dtype;
    for (int64_t i = 0; i < d.batch; i++) {
        scale_side(x[0], x[2], i, d.m, &d, in[2]->shape, is_tiled, false, a);
        scale_side(x[1], x[3], i, d.n, &d, x[3] ? in[3]->shape : NULL, is_tiled, true, b);
        memset(c, 0, (size_t)(d.m * d.n) * sizeof *c);
        gemm(call, DT_F64, d.m, d.n, d.k, a, b, c);
        for (int64_t k = 0; k < d.m * d.n; k++)
            c[k] *= factor;
        number_convert(t, element_at(out, i * d.m * d.n), DT_F64, c, (size_t)(d.m * d.n));
    }
}

bool eval_block_scaled(EvalCall *call)
{
    switch (block_op(call->inst)) {
    case BLOCK_NONE:
        return false;
    case BLOCK_QUANTIZE:
        quantize(call);
        return true;
    case BLOCK_DEQUANTIZE:
        dequantize(call);
        return true;
    case BLOCK_DOT:
        dot(call, false);
        return true;
    case BLOCK_MATMUL:
        dot(call, true);
        return true;
    }
    return false;
}
