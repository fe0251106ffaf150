/* Cost model: how many seconds an instruction takes, from the numbers of the device's data sheet
 * (targets.def), the arrays' sizes and the groups of devices. For comparing orders of execution:
 * caches, and kernels that are better or worse than others, are left out.
 *
 *   kernel     start + the longer of arithmetic / peak and bytes / memory bandwidth
 *   collective start + messages * latency + bytes that a device sends / link bandwidth;
 *              a group that spans more devices than the links join goes over the network */
#ifndef GXC_IR_KERNEL_WORK_H
#define GXC_IR_KERNEL_WORK_H

#include "ir/analysis/target.h"
#include "ir/module.h"

typedef struct CostModel CostModel;

/* Programs called by others are summed up here: computations must stand callees first. Both
 * outlive the model, which lives in `a`. Linear in the module. */
CostModel *cost_create(const Module *m, const Target *t, Arena *a);

/* Seconds that the instruction keeps the device busy: a kernel, a copy, a call or loop with all
 * that it does (a loop of unknown length: one step). 0 for what is free, for dones and updates,
 * and for all that cost_transfer counts. */
double cost_compute(CostModel *c, const Instruction *inst);
/* Seconds that a collective, or the collective that a start begins, needs from its own start to
 * its end; 0 if it is none. */
double cost_transfer(CostModel *c, const Instruction *inst);
/* Seconds of what an asynchronous start begins, collective or not. */
double cost_started(CostModel *c, const Instruction *start);

/* It takes no time at all: an alias, a parameter, a constant, a token. */
bool cost_is_free(const Instruction *inst);
/* A collective: plain, or started. */
bool cost_is_transfer(const Instruction *inst);
/* The collective that an asynchronous start begins: itself, or the root of what it calls. NULL:
 * it begins something else. */
const Instruction *cost_started_collective(const Instruction *start);

#endif
