/* Scheduling: passes that fix the order of execution. */
#ifndef GXC_PASSES_SCHEDULE_SCHEDULE_H
#define GXC_PASSES_SCHEDULE_SCHEDULE_H

#include "passes/pass.h"

PassFn pass_fused_groups;      /* scheduling groups of what fusions hold become theirs */
PassFn pass_scheduling_groups; /* no groups but those that a schedule can keep */
PassFn pass_schedule;          /* an order of execution */
PassFn pass_copy_insertion;    /* copies where buffers must be shared */

#endif
