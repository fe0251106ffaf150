/* Convolutions as other operations: rules by the kind of convolution, and what they share. */
#ifndef GXC_PASSES_SIMPLIFY_CONVOLUTIONS_H
#define GXC_PASSES_SIMPLIFY_CONVOLUTIONS_H

#include "ir/kernel/convolution.h"
#include "passes/simplify/rewrite.h"

extern const Rule rules_depthwise[], rules_phases[], rules_few_results[],
    rules_whole_windows[];

/* Of a convolution to few features, neighbours of the result as features; NULL: it is none. The result with its first
 * features, so many for each dimension of positions, in their positions: phases of strides. */
Instruction *convolution_few_results(Rewriter *r, Instruction *conv,
                                     const int64_t *phases);

/* x with its dimensions cut apart (split, of rank), put into another order, and joined again (joined, of n). */
Instruction *convolution_regrouped(Rewriter *r, Instruction *x, uint32_t rank,
                                   const int64_t *split, const int64_t *order, uint32_t n,
                                   const int64_t *joined);

/* Of static shapes, 16-bit floats and one group, and as large as those that a library makes: worth another form. */
bool convolution_is_dense_half(const Rewriter *r, const Instruction *conv,
                               ConvolutionShape *out);

/* A pad with zeros; dims has an entry for each dimension. */
Instruction *convolution_padded(Rewriter *r, Instruction *x, const PaddingDim *dims);

#endif
