/* Scheduling: passes that fix the order of execution. */
#ifndef GXC_PASSES_SCHEDULE_SCHEDULE_H
#define GXC_PASSES_SCHEDULE_SCHEDULE_H

#include "passes/pass.h"

PassFn pass_schedule;       /* an order of execution */
PassFn pass_copy_insertion; /* copies where buffers must be shared */

#endif
