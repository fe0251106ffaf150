/* The k largest elements of rows, for the opcode and for the custom call of that name. */
#ifndef GXC_IR_EVAL_TOPK_H
#define GXC_IR_EVAL_TOPK_H

#include "ir/eval/call.h"

/* Values and positions of the k largest (else smallest) elements of each row of the last
 * dimension, in order, equal ones by position; floats in total order. k is the last dimension
 * of both results. */
void topk_rows(EvalCall *call, const Value *x, bool largest, Value *values,
               Value *positions);

#endif
