/* Asynchronous pairs of a computation. */
#ifndef GXC_PASSES_COLLECTIVES_ASYNC_PAIR_H
#define GXC_PASSES_COLLECTIVES_ASYNC_PAIR_H

#include "ir/module.h"

/* A computation of this name, on the thread of `inst`, that does what `inst` does with its
 * operands as parameters. */
Computation *pair_outline(const Instruction *inst, const char *name);

/* In `comp`: async-start of `work` on operands, named NAME.start, and its async-done, NAME.done,
 * which is returned. Attributes and control edges are the caller's to add. */
Instruction *pair_make(Computation *comp, Computation *work, uint32_t count,
                       Instruction *const *operands, const char *name);

#endif
