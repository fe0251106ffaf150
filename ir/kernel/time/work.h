/* The model of time: how long an instruction of a program keeps the device busy, from the numbers of its
 * data sheet (targets.def) and of costs.def, the arrays' sizes and the groups of devices. One for
 * fusion, configuration, schedules and reports; measured times never enter it.
 *
 *   kernel     start + the longest of its units, memories and waits (kernel_work.h, kernel_time.h)
 *   library    the same of its tiles and waves
 *   collective start + messages * latency + bytes that a device sends / link bandwidth;
 *              a group that spans more devices than the links join goes over the network */
#ifndef GXC_IR_KERNEL_TIME_WORK_H
#define GXC_IR_KERNEL_TIME_WORK_H

#include "ir/analysis/target.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/module.h"

typedef struct CostModel CostModel;

/* Programs called by others are summed up here: computations must stand callees first. Both
 * outlive the model, which lives in `a`. Each kernel is looked at when it is asked for, once. */
CostModel *cost_create(const Module *m, const Target *t, Arena *a);
/* For single kernels, copies and transfers: nothing is summed up, so cost_program and what calls others are 0. */
CostModel *cost_create_alone(const Module *m, const Target *t, Arena *a);

/* Seconds that the instruction keeps the device busy: a kernel, a copy, a call or loop with all
 * that it does (a loop of unknown length: one step). 0 for what is free, for dones and updates,
 * and for all that cost_transfer counts. */
double cost_compute(CostModel *c, const Instruction *inst);
/* The same of a kernel, a library's call, a copy, with what bounds it. Seconds 0: it is none of these. */
KernelTime cost_kernel(CostModel *c, const Instruction *inst);
/* The same of a fusion whose design is there, of which nothing is wrong. */
struct KernelDesign;
KernelTime cost_designed(const CostModel *c, const struct KernelDesign *d);
/* Of all that a program called by others does. */
double cost_program(const CostModel *c, const Computation *comp);
/* The first of the computations that a control operation runs: a loop that is known to run n times computes no
 * condition. */
uint32_t cost_first_called(const Instruction *inst);
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

/* Seconds of a collective by itself (transfer_time.c). Lists of devices lie in `scratch`. */
double transfer_seconds(const Instruction *inst, const GpuModel *device, Arena *scratch);

#endif
