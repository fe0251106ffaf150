/* Batch normalisation in f64. Arrays are walked as [outer][feature][inner]. */
#include <math.h>
#include <string.h>

#include "ir/eval/call.h"

typedef struct Batch {
    int64_t outer, features, inner;
    double count; /* elements of one feature */
    const double *x;
} Batch;

static double *as_double(EvalCall *call, const Value *x)
{
    double *out = eval_temp(call, (size_t)x->count, sizeof *out);
    number_convert(DT_F64, out, x->shape->dtype, x->data, (size_t)x->count);
    return out;
}

static void store(Value *v, const double *x)
{
    number_convert(v->shape->dtype, v->data, DT_F64, x, (size_t)v->count);
}

static Batch batch_make(EvalCall *call)
{
    const Value *x = call->operands[0];
    int64_t feature = inst_int(call->inst, ATTR_FEATURE_INDEX, 0);
    Batch b = {.outer = 1, .features = x->shape->dims[feature], .inner = 1};
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        b.outer *= d < feature ? x->shape->dims[d] : 1;
        b.inner *= d > feature ? x->shape->dims[d] : 1;
    }
    b.count = (double)(b.outer * b.inner);
    b.x = as_double(call, x);
    return b;
}

/* sum over a feature of (x - shift) * (y != NULL ? y : x - shift). */
static double feature_sum(const Batch *b, int64_t f, double shift, const double *y)
{
    double sum = 0;
    for (int64_t o = 0; o < b->outer; o++)
        for (int64_t i = 0; i < b->inner; i++) {
            int64_t at = (o * b->features + f) * b->inner + i;
            double x = b->x[at] - shift;
            sum += x * (y != NULL ? y[at] : x);
        }
    return sum;
}

static double plain_sum(const Batch *b, int64_t f, const double *x)
{
    double sum = 0;
    for (int64_t o = 0; o < b->outer; o++)
        for (int64_t i = 0; i < b->inner; i++)
            sum += x[(o * b->features + f) * b->inner + i];
    return sum;
}

/* out = (x - mean) / sqrt(variance + epsilon) * scale + offset */
static void normalise(EvalCall *call, const Batch *b, const double *mean,
                      const double *variance, Value *v)
{
    double epsilon = inst_float(call->inst, ATTR_EPSILON, 0);
    const double *scale = as_double(call, call->operands[1]);
    const double *offset = as_double(call, call->operands[2]);
    double *out = eval_temp(call, (size_t)v->count, sizeof *out);
    for (int64_t at = 0; at < v->count; at++) {
        int64_t f = at / b->inner % b->features;
        out[at] =
            (b->x[at] - mean[f]) / sqrt(variance[f] + epsilon) * scale[f] + offset[f];
    }
    store(v, out);
}

void eval_batch_norm_inference(EvalCall *call)
{
    Batch b = batch_make(call);
    Value *v = eval_result(call);
    normalise(call, &b, as_double(call, call->operands[3]),
              as_double(call, call->operands[4]), v);
}

void eval_batch_norm_training(EvalCall *call)
{
    Batch b = batch_make(call);
    Value *v = eval_result(call);
    double *mean = eval_temp(call, (size_t)b.features, sizeof *mean);
    double *variance = eval_temp(call, (size_t)b.features, sizeof *variance);
    for (int64_t f = 0; f < b.features; f++) {
        mean[f] = plain_sum(&b, f, b.x) / b.count;
        variance[f] = feature_sum(&b, f, mean[f], NULL) / b.count;
    }
    normalise(call, &b, mean, variance, v->elements[0]);
    store(v->elements[1], mean);
    store(v->elements[2], variance);
}

void eval_batch_norm_grad(EvalCall *call)
{
    Batch b = batch_make(call);
    Value *v = eval_result(call);
    double epsilon = inst_float(call->inst, ATTR_EPSILON, 0);
    const double *scale = as_double(call, call->operands[1]);
    const double *mean = as_double(call, call->operands[2]);
    const double *variance = as_double(call, call->operands[3]);
    const double *dy = as_double(call, call->operands[4]);
    size_t features = (size_t)b.features;
    double *dscale = eval_temp(call, features, sizeof *dscale);
    double *doffset = eval_temp(call, features, sizeof *doffset);
    double *dx = eval_temp(call, (size_t)v->elements[0]->count, sizeof *dx);
    for (int64_t f = 0; f < b.features; f++) {
        doffset[f] = plain_sum(&b, f, dy);
        dscale[f] = feature_sum(&b, f, mean[f], dy) / sqrt(variance[f] + epsilon);
    }
    for (int64_t at = 0; at < v->elements[0]->count; at++) {
        int64_t f = at / b.inner % b.features;
        double r = 1 / sqrt(variance[f] + epsilon), hat = (b.x[at] - mean[f]) * r;
        dx[at] =
            scale[f] * r * (dy[at] - doffset[f] / b.count - hat * dscale[f] / b.count);
    }
    store(v->elements[0], dx);
    store(v->elements[1], dscale);
    store(v->elements[2], doffset);
}
