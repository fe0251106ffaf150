/* The evaluator of block-scaled custom calls (ir/kernel/block_scaled.h). */
#ifndef GXC_IR_EVAL_BLOCK_SCALED_H
#define GXC_IR_EVAL_BLOCK_SCALED_H

#include "ir/eval/call.h"

/* False: the custom call is none of them. */
bool eval_block_scaled(EvalCall *call);

#endif
