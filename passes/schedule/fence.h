/* Fences that keep memory low where latency is hidden. See fence.c. */
#ifndef GXC_PASSES_SCHEDULE_FENCE_H
#define GXC_PASSES_SCHEDULE_FENCE_H

#include "passes/schedule/graph.h"

/* The part of each instruction, from 0, in an order `base`: nothing of a part is to come before anything
 * of an earlier one. Returns how many parts there are. */
uint32_t fence_parts(const Graph *g, const uint32_t *base, int64_t threshold,
                     uint32_t *part);

#endif
