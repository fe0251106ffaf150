/* The kind of memory that each alias set needs: ordinary device memory (0) or memory for
 * collectives (1), which NCCL allocates and has registered, so that it can use it without
 * copies of its own. */
#ifndef GXC_IR_ANALYSIS_MEMORY_COLOUR_H
#define GXC_IR_ANALYSIS_MEMORY_COLOUR_H

#include "ir/analysis/alias.h"

enum { MEMORY_DEVICE = 0, MEMORY_COLLECTIVE = 1, MEMORY_HOST = 5 };

/* One "index:space" of the attributes operands_memory_spaces and results_memory_spaces. */
typedef struct MemorySpace {
    uint32_t index;
    uint32_t space;
} MemorySpace;

/* Reads "{0:1, 2:5}"; false if the text is something else. The list is made in `a`. */
bool memory_spaces_read(const char *text, Arena *a, MemorySpace **out, uint32_t *count);

/* By alias set: the space that a layout, an attribute or, where `collectives`, the operands and
 * results of the collectives ask for. NULL after a message: one set is asked to be in two, or
 * an attribute cannot be read. Made in `a`. */
const uint32_t *memory_colours(const Module *m, const AliasSets *sets, bool collectives,
                               Arena *a);

#endif
