/* More values that a loop carries and leaves as they are. */
#ifndef GXC_PASSES_SIMPLIFY_CARRY_H
#define GXC_PASSES_SIMPLIFY_CARRY_H

#include "ir/analysis/loop.h"
#include "passes/pass.h"

/* The loop's result may become a longer tuple: only its elements are read. */
bool carry_is_possible(const Loop *loop);
/* The loop carries `count` values from outside, behind those that it has; reads[] are what the body
 * reads them by. The loop's description stays as it was. */
void carry_values(Loop *loop, uint32_t count, Instruction *const *inits,
                  Instruction **reads, Arena *scratch);

/* Applies `change` to every loop of a plain form whose computations nobody else calls, and tidies up: what a
 * pass that is made of such changes does. */
bool carry_each_loop(Module *m, bool (*change)(Loop *loop, Arena *scratch),
                     PassContext *cx);

#endif
