/* What the passes over loops share: a while over a tuple whose condition and body read single
 * elements only. */
#ifndef GXC_PASSES_SIMPLIFY_LOOPS_H
#define GXC_PASSES_SIMPLIFY_LOOPS_H

#include "ir/module.h"

typedef struct Loop {
    Instruction *inst; /* the while */
    Instruction *init; /* its operand, a tuple instruction */
    Computation *condition, *body;
    uint32_t count; /* of carried values */
} Loop;

/* False: the loop has another form. */
bool loop_analyse(Instruction *inst, Loop *out);
/* The body passes element i on as it is. */
bool loop_is_invariant(const Loop *loop, uint32_t i);

#endif
