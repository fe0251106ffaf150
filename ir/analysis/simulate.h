/* Plays a scheduled module on a clock: one stream of kernels, one of collectives, in the order of
 * the schedule. How much communication the kernels have to wait for is the measure of a schedule;
 * the seconds are the model's (ir/kernel/time/work.h). */
#ifndef GXC_IR_ANALYSIS_SIMULATE_H
#define GXC_IR_ANALYSIS_SIMULATE_H

#include "ir/kernel/time/work.h"

/* Seconds of one run of the program. */
typedef struct Simulation {
    double step;          /* from the start to the end */
    double compute;       /* kernels and copies */
    double communication; /* collectives, overlapped or not */
    double exposed;       /* of it: while kernels wait */
} Simulation;

/* Loops run as often as is known, those of unknown length once; of a conditional's branches the
 * longest one is taken. Computations must stand callees first. `a` is scratch. */
Simulation simulate(const Module *m, CostModel *cost, Arena *a);

#endif
