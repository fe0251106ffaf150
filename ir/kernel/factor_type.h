/* The type that the factors of a product are brought to for tensor cores: one that holds all numbers that they can
 * be, so that the products are what they are without tensor cores. */
#ifndef GXC_IR_KERNEL_FACTOR_TYPE_H
#define GXC_IR_KERNEL_FACTOR_TYPE_H

#include "ir/analysis/target.h"
#include "ir/module.h"

/* The type for a dot, ragged dot or convolution on the target, *factor (DT_INVALID: they stay as they are); false: it has no
 * tensor core that multiplies them exactly. */
bool factor_type_find(const Instruction *hero, const Target *t, DType *factor);

/* Whether a product's factors may lose digits to tf32: the program says so. */
bool dot_allows_tf32(const Instruction *hero);

/* Whether a ragged-dot is a kernel on the target: sums of some length on its tensor cores. */
bool ragged_dot_has_kernel(const Instruction *inst, const Target *t);

#endif
