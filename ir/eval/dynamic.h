/* Arrays with run-time sizes. */
#ifndef GXC_IR_EVAL_DYNAMIC_H
#define GXC_IR_EVAL_DYNAMIC_H

#include "ir/eval/call.h"

/* reshape of an operand that has run-time sizes. */
void dynamic_reshape(EvalCall *call);
/* bitcast of one: dimensions keep their sizes, and elements their positions. */
void dynamic_bitcast(EvalCall *call);
/* The elements of x, which has run-time sizes, with `fill` beyond them. */
void dynamic_fill(const Value *x, const void *fill, void *out);
/* Custom calls: array of dynamic size -> (the array at its bounds, zero beyond its sizes, a size
 * for each dimension), and back. */
void pad_to_static(EvalCall *call);
void slice_to_dynamic(EvalCall *call);

#endif
