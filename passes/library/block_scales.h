/* Dots of f8 with a scale for each block along their sums, which cuBLASLt multiplies with on some GPUs. */
#ifndef GXC_PASSES_LIBRARY_BLOCK_SCALES_H
#define GXC_PASSES_LIBRARY_BLOCK_SCALES_H

#include "passes/library/choice.h"

/* Targets with FEATURE_F8_ROW_SCALES only. What stands for the dot of dequantised factors, or the scaled-dot, and for the conversion behind it, *replaced; NULL: it
 * stays as it is. */
Instruction *block_scaled_product(const LibraryChoice *choice, PassContext *cx,
                                  Instruction *dot, Instruction **replaced);

#endif
