/* LAPACK's custom calls in the evaluator. */
#ifndef GXC_IR_EVAL_LINALG_H
#define GXC_IR_EVAL_LINALG_H

#include "ir/custom_call.h"
#include "ir/eval/call.h"

void eval_lapack(EvalCall *call, const LapackCall *how);

#endif
