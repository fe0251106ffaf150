/* Walking the command tree of a plan in the order of its commands: which of them are open, and in which of
 * their regions. */
#ifndef GXC_RUNTIME_PLAN_WALK_H
#define GXC_RUNTIME_PLAN_WALK_H

#include <stdbool.h>

#include "runtime/plan/plan.h"

/* A command whose children are being visited: its current region ends before command `end`. */
typedef struct PlanFrame {
    uint32_t command;
    uint32_t region;
    uint32_t end;
} PlanFrame;

typedef struct PlanWalk {
    const Plan *plan;
    PlanFrame open[PLAN_MAX_DEPTH];
    size_t depth;
} PlanWalk;

/* Before command i, until false: closes what has ended; true if the next region of the innermost open command
 * begins, which may be empty. */
bool plan_walk_next_region(PlanWalk *w, uint32_t i);
/* Command i has children: its first region begins. depth < PLAN_MAX_DEPTH. */
void plan_walk_open(PlanWalk *w, uint32_t i);

#endif
