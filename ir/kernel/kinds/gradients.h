/* What gradients by the filter of convolutions have in common: row_gradient.c and tap_gradient.c. */
#ifndef GXC_IR_KERNEL_KINDS_GRADIENTS_H
#define GXC_IR_KERNEL_KINDS_GRADIENTS_H

#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/plans.h"

/* The second operand, or what it is made of: groups of features [image, y, x, group, feature] as one dimension. *is_turned:
 * groups are the slowest in memory. NULL: neither. */
const Instruction *gradient_in_memory(const Instruction *hero, bool *is_turned);
GradientPlan gradient_plan_of(const Instruction *hero, bool is_turned);
/* Of the convolution: types, orders of dimensions, the window; whole tiles of features. */
const char *gradient_hero_illegal(const Instruction *hero);
/* The target has what the kind needs, and nothing stands against the convolution. */
bool gradient_fits(const Instruction *conv, const Target *t, uint32_t needed,
                   HeroIllegalFn *sizes);
/* The same of a fusion; `sizes`: what else the kind asks. */
const char *gradient_illegal(FusionFacts *f, KernelKind kind, HeroIllegalFn *sizes);

#endif
