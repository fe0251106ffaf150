/* What the files of the pass collective-merges share. */
#ifndef GXC_PASSES_COLLECTIVES_COMBINE_MERGES_H
#define GXC_PASSES_COLLECTIVES_COMBINE_MERGES_H

#include "passes/collectives/combine/merged_attributes.h"
#include "passes/collectives/combine/sweep.h"

/* The same devices, in the same groups; and the program does not keep them apart. */
bool merges_same_group(const Sweep *s, const Instruction *a, const Instruction *b);

/* f(collective(x), collective(y)) -> collective(f(x, y)); NULL: it is nothing like that.
 * (reassociate.c) */
Instruction *merge_reassociated(Sweep *s, Instruction *inst);

#endif
