/* Orders of execution that need little memory. See memory.c. */
#ifndef GXC_PASSES_SCHEDULE_MEMORY_H
#define GXC_PASSES_SCHEDULE_MEMORY_H

#include "passes/schedule/graph.h"

/* A topological order: of what is ready, the instruction of the lowest rank. */
void rank_order(const Graph *g, const double *rank, uint32_t *order);
/* The order that needs least memory of several. Returns the most bytes that live at one time. */
int64_t memory_order(const Graph *g, uint32_t *order);
/* The most bytes that live at one time in an order. */
int64_t order_bytes(const Graph *g, const uint32_t *order);

#endif
