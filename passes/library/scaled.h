/* What the rules about scaled dots share. */
#ifndef GXC_PASSES_LIBRARY_SCALED_H
#define GXC_PASSES_LIBRARY_SCALED_H

#include "passes/simplify/rewrite.h"

/* The array cut or padded with zero bits to these sizes. e8m0 has no zero, its zero bits are
 * 2^-127. */
Instruction *scaled_resize(Rewriter *r, Instruction *x, const int64_t *sizes);

RuleFn split_scaled_dot; /* sums along k in several blocks at once */

#endif
