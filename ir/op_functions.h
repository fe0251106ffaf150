/* Prototypes of the functions that the rows of ops.def name: infer_x, eval_x, index_x. */
#ifndef GXC_IR_OP_FUNCTIONS_H
#define GXC_IR_OP_FUNCTIONS_H

#include "ir/op.h"

#define OP(id, name, arity, infer, eval, index, flags, attributes, doc)                  \
    InferFn infer_##infer;                                                               \
    EvalFn eval_##eval;                                                                  \
    IndexFn index_##index;
#include "ir/ops.def"

#endif
