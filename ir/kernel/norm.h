/* Layer and RMS norms over the last dimensions of an array, and those that cuDNN makes: fusions
 * that are marked for it.
 *
 *   y = (x - mean(x)) * rsqrt(variance(x) + epsilon) * scale + bias      layer norm
 *   y = x * rsqrt(mean(x * x) + epsilon) * scale + bias                  RMS norm
 *
 * in any order of the factors, with or without the bias, with or without conversions of x, scale
 * and bias to f32 and of y from it. */
#ifndef GXC_IR_KERNEL_NORM_H
#define GXC_IR_KERNEL_NORM_H

#include "ir/module.h"

typedef struct Norm {
    const Instruction *x, *scale;
    const Instruction *bias;    /* NULL: none */
    const Instruction *mean;    /* of each row; NULL: an RMS norm */
    const Instruction *inverse; /* of each row: 1 / sqrt(variance + epsilon) */
    int64_t rows, columns;
    double epsilon;
} Norm;

/* The norm that `last` is. Scale and bias are vectors of `columns` elements, in row-major order. */
bool norm_match(const Instruction *last, Norm *out);

/* Which result of a norm with statistics `inst` is, in a shape of as many elements: 1 and 2 are the mean and the inverse
 * deviation, of an RMS norm that is 1; 0: neither. */
uint32_t norm_statistic(const Norm *norm, const Instruction *inst);

/* A norm that cuDNN makes; arrays are operands of the fusion. What is marked is believed only where it can be kept.
 * Results are y, and where the fusion has several, what it keeps of each row: the mean, unless it is an RMS norm, and the
 * inverse deviation. */
typedef struct NormCall {
    Norm norm;
    bool has_statistics;
} NormCall;
bool norm_call_of(const Instruction *inst, NormCall *out);
bool norm_is_library(const Instruction *inst);
void norm_set_library(Instruction *fusion);

/* cuDNN has kernels for these types at all. */
bool norm_has_types(const Norm *norm, const Instruction *last);

#endif
