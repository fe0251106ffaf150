/* Element-wise reduction across ranks, as NCCL's kernels have it (its reduce_kernel.h): maximum and minimum lose NaN
 * (fmaxf, __hmax), and what is too large for 8 bits becomes the largest finite number (__nv_fp8_e4m3 of a half). */
#include <math.h>

#include "runtime/emu/collective.h"

enum { BLOCK = 256 };

static double reduce_double(ReduceKind op, double a, double b)
{
    switch (op) {
    case REDUCE_SUM:
    case REDUCE_AVG:
        return a + b;
    case REDUCE_PROD:
        return a * b;
    case REDUCE_MAX:
        return fmax(a, b);
    case REDUCE_MIN:
        return fmin(a, b);
    }
    return a;
}

static uint64_t reduce_int(ReduceKind op, bool is_signed, uint64_t a, uint64_t b)
{
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case REDUCE_SUM:
    case REDUCE_AVG:
        return a + b;
    case REDUCE_PROD:
        return a * b;
    case REDUCE_MAX:
        return less ? b : a;
    case REDUCE_MIN:
        return less ? a : b;
    }
    return a;
}

static void reduce_floats(DType t, ReduceKind op, const unsigned char *const *inputs,
                          uint32_t ranks, size_t first, size_t count, unsigned char *out)
{
    double sum[BLOCK];
    size_t bytes = dtype_info[t].storage;
    for (size_t i = 0; i < count; i++)
        sum[i] = number_get_double(t, inputs[0] + (first + i) * bytes);
    for (uint32_t r = 1; r < ranks; r++)
        for (size_t i = 0; i < count; i++)
            sum[i] = reduce_double(op, sum[i],
                                   number_get_double(t, inputs[r] + (first + i) * bytes));
    double most = dtype_info[t].bits == 8 ? number_max_finite(t) : INFINITY;
    for (size_t i = 0; i < count; i++) {
        double value = op == REDUCE_AVG ? sum[i] / (double)ranks : sum[i];
        number_set_double(t, out + (first + i) * bytes,
                          fabs(value) > most ? copysign(most, value) : value);
    }
}

static void reduce_ints(DType t, ReduceKind op, const unsigned char *const *inputs,
                        uint32_t ranks, size_t first, size_t count, unsigned char *out)
{
    size_t bytes = dtype_info[t].storage;
    bool is_signed = dtype_info[t].class == DTC_SINT;
    for (size_t i = 0; i < count; i++) {
        size_t at = (first + i) * bytes;
        uint64_t value = (uint64_t)number_get_int(t, inputs[0] + at);
        for (uint32_t r = 1; r < ranks; r++)
            value = reduce_int(op, is_signed, value,
                               (uint64_t)number_get_int(t, inputs[r] + at));
        if (op == REDUCE_AVG)
            value =
                is_signed ? (uint64_t)((int64_t)value / (int64_t)ranks) : value / ranks;
        number_store(t, out + at, value);
    }
}

void collective_reduce(DType t, ReduceKind op, const unsigned char *const *inputs,
                       uint32_t ranks, size_t count, unsigned char *out)
{
    bool is_float = dtype_info[t].class == DTC_FLOAT;
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        if (is_float)
            reduce_floats(t, op, inputs, ranks, first, n, out);
        else
            reduce_ints(t, op, inputs, ranks, first, n, out);
    }
}
