/* Convolutions as other operations: rules by the kind of convolution, and what they share. */
#ifndef GXC_PASSES_SIMPLIFY_CONVOLUTIONS_H
#define GXC_PASSES_SIMPLIFY_CONVOLUTIONS_H

#include "passes/simplify/rewrite.h"

extern const Rule rules_depthwise[], rules_phases[], rules_few_results[];

/* A pad with zeros; dims has an entry for each dimension. */
Instruction *convolution_padded(Rewriter *r, Instruction *x, const PaddingDim *dims);

#endif
