/* The attributes of one operation that is made of several. */
#ifndef GXC_PASSES_COLLECTIVES_COMBINE_MERGED_ATTRIBUTES_H
#define GXC_PASSES_COLLECTIVES_COMBINE_MERGED_ATTRIBUTES_H

#include "ir/module.h"

/* Gives `to`, which has the attributes of the first member, what the others have besides:
 * their names, source lines and frontend attributes (values of one key joined by commas), the
 * mark of what a partitioner made, and the control predecessors of all. */
void merge_attributes(Instruction *to, Instruction *const *members, uint32_t count);

#endif
