/* Which convolutions are left to cuDNN. */
#ifndef GXC_PASSES_LIBRARY_CONVOLUTIONS_H
#define GXC_PASSES_LIBRARY_CONVOLUTIONS_H

#include "passes/pass.h"

/* It may be one of cuDNN's, and is large enough. */
bool convolution_is_worth_it(const Instruction *inst, const PassContext *cx);

#endif
