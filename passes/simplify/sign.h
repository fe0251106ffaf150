/* What is known of a float's sign from how it is made. */
#ifndef GXC_PASSES_SIMPLIFY_SIGN_H
#define GXC_PASSES_SIMPLIFY_SIGN_H

#include "ir/module.h"

/* Each element is NaN or has no sign: it is neither below 0 nor -0. False: it may be either. */
bool value_is_not_negative(const Instruction *inst);

#endif
