/* The numbers of costs.def. */
#ifndef GXC_IR_KERNEL_TIME_COSTS_H
#define GXC_IR_KERNEL_TIME_COSTS_H

#include "ir/analysis/target.h"
#include "ir/module.h"

typedef struct Costs {
#define COST(name, value, doc) double name;
#include "ir/kernel/time/costs.def"
} Costs;
extern const Costs costs;

/* Instructions of one element by the unit that executes them. */
typedef struct OpCost {
    double alu, fma, imul, mufu, f64;
    double
        tensor; /* cycles of a multiprocessor's tensor cores for a warp's instruction */
    double cycles; /* from an operand to the result */
    double add;    /* of 32-bit integers: by the unit of integer products, too */
} OpCost;

/* Of an elementwise operation whose operands have this type. */
OpCost op_cost(OpCode op, DType type);
/* Of a conversion. */
OpCost convert_cost(DType from, DType to);
/* By all units but the tensor cores. */
double cost_issued(OpCost c);

/* Seconds of a device that only moves so many bytes. */
double cost_seconds_of_bytes(const GpuModel *device, double bytes);

/* -- for passes that weigh one kernel against two: whole numbers ----------------------------------- */

/* Instructions of a thread for one element of the operation; 0 of what only moves: whoever reads its result loads
 * an element, too. */
int64_t cost_instructions(const Instruction *inst);
/* Picoseconds of a device that is busy with nothing else: to execute so many of them, to move so many bytes, to
 * start a kernel. */
int64_t cost_ps_of_instructions(const GpuModel *device, int64_t instructions);
int64_t cost_ps_of_bytes(const GpuModel *device, int64_t bytes);
int64_t cost_ps_of_launch(void);

#endif
