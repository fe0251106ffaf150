/* The gradient of an attention with respect to its scores, found by algebra in whatever way it is written: with weights
 * p = e / l, e the exponentials, l their sums, and g = do v' the gradient with respect to the weights, some value is
 *
 *   factor * p * (g - sum over columns of p * g)
 *
 * or, where the output is divided behind its dot, the same as e * (g' - sum over the depth of do * o / l), with
 * g' = (do / l) v'. What follows it - masks, scales, the derivative of a cap - is no matter here. Where the maximum takes
 * part in the gradient, what comes by it is 0: the sum of that value over the columns. Nor does this know kernels. */
#ifndef GXC_IR_KERNEL_ATTENTION_ATTENTION_GRADIENT_H
#define GXC_IR_KERNEL_ATTENTION_ATTENTION_GRADIENT_H

#include "ir/kernel/attention/attention.h"

enum { ATTENTION_CORES = 8 };

typedef struct AttentionGradient {
    uint32_t core_count; /* several where one is made of another */
    const Instruction
        *cores[ATTENTION_CORES]; /* such values: of the exponentials' shape */
    double factors[ATTENTION_CORES];
    const Instruction *products; /* the dot do v' */
    uint32_t do_side;            /* its operand do */
    /* Where the output is divided by l behind its dot, the products are of do / l, and do; else NULL. */
    const Instruction *over_sums, *whole;
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
