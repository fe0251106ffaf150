/* What a loop whose number of rounds is known need not do: carry a counter that only its condition asks for.
 *
 *   body (p) { i = p#0  next = fusion(i), of add(i, 1)  ...  ROOT (next, ...) }      nobody else reads i or p#0
 *
 * The condition is not evaluated, so no kernel has to make `next`. The module keeps it: that is what the loop
 * means. */
#ifndef GXC_IR_ANALYSIS_LOOP_IDLE_H
#define GXC_IR_ANALYSIS_LOOP_IDLE_H

#include "ir/analysis/loop_slice.h"

typedef struct LoopIdle LoopIdle;

/* Of a module that is laid out and fused; linear in its size. */
const LoopIdle *loop_idle_create(const Module *m, const LoopSlices *slices, Arena *a);
/* A kernel that makes a number that nobody needs when the program runs. */
bool loop_idle_has(const LoopIdle *idle, const Instruction *inst);

#endif
