/* Measuring the kernels that may stand in place of a launch's. */
#ifndef GXC_RUNTIME_RUN_TUNE_H
#define GXC_RUNTIME_RUN_TUNE_H

#include "runtime/run/session.h"

/* What a device does while an execution is a tuner's. */
typedef struct Tune {
    const gxrt_tuner *tuner;
    bool *is_done; /* by tunable */
} Tune;

/* If a tunable of the plan is this command, and it was not measured before: does that, with the operands of this
 * moment, and leaves all memory as it was. */
gxrt_status tune_command(Device *d, const PlanCommand *c);

#endif
