/* List scheduling that hides latency: see latency.c. */
#ifndef GXC_PASSES_SCHEDULE_LATENCY_H
#define GXC_PASSES_SCHEDULE_LATENCY_H

#include "ir/kernel/time/work.h"
#include "passes/schedule/graph.h"

/* What runs beside the program, each kind on streams of its own. */
typedef enum {
    RESOURCE_COLLECTIVE,
    RESOURCE_COMPUTE, /* asynchronous computations */
    RESOURCE_COPY,
    RESOURCE_COUNT
} Resource;

typedef struct LatencyLimits {
    uint32_t most[RESOURCE_COUNT]; /* in flight together */
    bool
        starts_early; /* with room for several collectives: all start as early as they can */
    bool
        shared_ranks; /* collectives with two devices in common are not in flight together */
    int64_t fencing; /* bytes that may begin to live between two fences; -1: no fences */
    int64_t memory;  /* bytes that should not be exceeded */
} LatencyLimits;

typedef struct LatencyUse {
    uint32_t most[RESOURCE_COUNT]; /* in flight together inside a computation */
} LatencyUse;

/* `base`: an order of the computation's instructions, kept where time has no opinion; `called`:
 * by computation, of those that this one calls. Fills `order`, and `out_use` for this one; returns the
 * most bytes that live at one time. */
int64_t latency_order(const Graph *g, CostModel *cost, const LatencyLimits *limits,
                      const LatencyUse *called, const uint32_t *base, uint32_t *order,
                      LatencyUse *out_use);

#endif
