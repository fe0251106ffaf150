/* The gradient of an attention with respect to its scores, found by algebra in whatever way it is written: with weights
 * p = e / l, e the exponentials, l their sums, and g = do v' the gradient with respect to the weights, some value is
 *
 *   factor * p * (g - sum over columns of p * g)
 *
 * What follows it - masks, scales, the derivative of a cap - is no matter here. Nor does this know kernels. */
#ifndef GXC_IR_KERNEL_ATTENTION_GRADIENT_H
#define GXC_IR_KERNEL_ATTENTION_GRADIENT_H

#include "ir/kernel/attention.h"

typedef struct AttentionGradient {
    const Instruction *core; /* that value: of the exponentials' shape */
    double factor;
    const Instruction *products;     /* the dot do v' */
    uint32_t do_side;                /* its operand do */
    uint32_t column;                 /* dimension of the exponentials */
    int64_t product_dims[VIEW_RANK]; /* of the products, for each of the exponentials' */
    int64_t do_dims
        [VIEW_RANK]; /* of do, for each of the result of the attention's second dot */
    int64_t row_dims
        [VIEW_RANK]; /* of that result, for each of the exponentials' but the column */
} AttentionGradient;

/* Of an attention whose weights are of the exponentials' shape; false: there is none in its computation, or
 * it reads another v. */
bool attention_gradient_match(const Attention *a, AttentionGradient *out);

#endif
