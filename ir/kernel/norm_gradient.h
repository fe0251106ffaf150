/* Gradients of layer and RMS norms, and those that cuDNN makes: fusions that are marked for it.
 *
 *   n = (x - mean) * inverse,  g = dy * scale
 *   dx = inverse * (g - mean of g - n * mean of (g * n))     an RMS norm has neither of the means of x and g
 *   dscale = sum over rows of dy * n,  dbias = sum over rows of dy
 *
 * They are known by what they compute, not by how they are put together: as polynomials (norm_polynomial.h). */
#ifndef GXC_IR_KERNEL_NORM_GRADIENT_H
#define GXC_IR_KERNEL_NORM_GRADIENT_H

#include "ir/module.h"

typedef struct NormGradient {
    const Instruction *x, *scale, *dy; /* in the types that they have in memory */
    const Instruction *mean;           /* of each row; NULL: of an RMS norm */
    const Instruction *inverse;
    const Shape *shape; /* of x */
    uint32_t row_rank;  /* dimensions of rows: the first ones */
    int64_t rows, columns;
} NormGradient;

/* What rows have in common, of an inverse deviation: all but scale and dy. */
bool norm_gradient_statistics(const Instruction *inverse, NormGradient *out);

/* What instructions of one computation are as polynomials, by id: made when asked for. */
typedef struct NormExpansion NormExpansion;
/* is_opaque: of mean and inverse nothing is known. */
NormExpansion *norm_expand(const NormGradient *g, bool is_opaque, Arena *a);
bool norm_is_dx(NormExpansion *e, const Instruction *inst); /* f32 */
bool norm_is_dscale(NormExpansion *e, const Instruction *inst);
bool norm_is_dbias(NormExpansion *e, const Instruction *inst);

/* Operands of a fusion that cuDNN makes; RMS norms have no mean. */
enum {
    NORM_GRADIENT_X,
    NORM_GRADIENT_SCALE,
    NORM_GRADIENT_DY,
    NORM_GRADIENT_INVERSE,
    NORM_GRADIENT_MEAN,
    NORM_GRADIENT_OPERANDS
};

/* A gradient that cuDNN makes: a fusion whose results are dx, dscale and (has_bias) dbias. What is marked is believed
 * only where it can be kept. */
typedef struct NormGradientCall {
    NormGradient gradient;
    bool has_bias;
} NormGradientCall;
bool norm_gradient_call_of(const Instruction *inst, NormGradientCall *out);
bool norm_gradient_is_library(const Instruction *inst);
/* cuDNN has kernels for these types at all. */
bool norm_gradient_has_types(const NormGradient *g, DType dx);

#endif
