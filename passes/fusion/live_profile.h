/* How many bytes live at each position of an order of execution, and whether kernels can become one
 * without more of them at the worst position. See live_profile.c. */
#ifndef GXC_PASSES_FUSION_LIVE_PROFILE_H
#define GXC_PASSES_FUSION_LIVE_PROFILE_H

#include "passes/schedule/graph.h"

typedef struct LiveProfile LiveProfile;

/* Of an order of the graph's instructions; made in the graph's scratch memory. */
LiveProfile *live_profile_create(const Graph *g, const uint32_t *order);
/* Instruction b becomes one kernel with instruction a and all that a was joined with: the one that comes first
 * waits for the other one, and what follows it waits, too; or b comes as early as a. False, and nothing has
 * changed: either would need too much memory. */
bool live_profile_join(LiveProfile *p, uint32_t a, uint32_t b);
/* The last join did not take place. */
void live_profile_undo(LiveProfile *p);
/* Where an instruction stands now: equal numbers in the order of the graph. */
uint32_t live_profile_slot(const LiveProfile *p, uint32_t instruction);

#endif
