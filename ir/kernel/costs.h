/* The numbers of costs.def. */
#ifndef GXC_IR_KERNEL_COSTS_H
#define GXC_IR_KERNEL_COSTS_H

#include "ir/module.h"

typedef struct Costs {
#define COST(name, value, doc) double name;
#include "ir/kernel/costs.def"
} Costs;
extern const Costs costs;

/* Instructions of one element by the unit that executes them. */
typedef struct OpCost {
    double alu, fma, imul, mufu, f64;
    double
        tensor; /* cycles of a multiprocessor's tensor cores for a warp's instruction */
    double cycles; /* from an operand to the result */
} OpCost;

/* Of an elementwise operation whose operands have this type. */
OpCost op_cost(OpCode op, DType type);
/* Of a conversion. */
OpCost convert_cost(DType from, DType to);

#endif
