/* Control edges that contradict one another. */
#ifndef GXC_PASSES_COLLECTIVES_ASYNC_CYCLES_H
#define GXC_PASSES_COLLECTIVES_ASYNC_CYCLES_H

#include "ir/module.h"

/* Where two instructions became one, what was to run between them would have to run before and
 * behind it. Drops control edges until none is part of a cycle; needs that there is none of
 * operands alone. */
void computation_break_cycles(Computation *comp, Arena *scratch);

#endif
