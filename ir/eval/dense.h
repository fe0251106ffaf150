/* Operations that take arrays of dynamic size for arrays of just those sizes. */
#ifndef GXC_IR_EVAL_DENSE_H
#define GXC_IR_EVAL_DENSE_H

#include "ir/eval/call.h"

/* An operand of the call has other sizes than its bounds. */
bool dense_has_sizes(const EvalCall *call);
/* The operation on arrays that have only the elements that are there; the result gets its sizes from what
 * the rules of the opcode make of theirs. Of opcodes that end in one phase. */
void dense_run(EvalCall *call, EvalFn *fn);

#endif
