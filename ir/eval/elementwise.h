/* The kernel of an elementwise instruction, for eval_elementwise and for batch programs. */
#ifndef GXC_IR_EVAL_ELEMENTWISE_H
#define GXC_IR_EVAL_ELEMENTWISE_H

#include "ir/eval/scalar.h"
#include "ir/module.h"

typedef struct ElementwiseKernel {
    ScalarKernel kernel;
    DType operand[3]; /* type that each operand must be converted to first */
    DType result;     /* type that it gives; to be converted to the instruction's */
} ElementwiseKernel;

/* False: no kernel (ir/eval/scalar.h). `single` operands are left to the caller. */
bool elementwise_kernel(const Instruction *inst, bool exact, ElementwiseKernel *out);

#endif
