/* Arrays with run-time sizes. */
#ifndef GXC_IR_EVAL_DYNAMIC_H
#define GXC_IR_EVAL_DYNAMIC_H

#include "ir/eval/call.h"

/* reshape of an operand that has run-time sizes. */
void dynamic_reshape(EvalCall *call);

#endif
