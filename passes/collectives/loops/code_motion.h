/* What the files of all-reduce-code-motion and code-motion-setup share. */
#ifndef GXC_PASSES_COLLECTIVES_LOOPS_CODE_MOTION_H
#define GXC_PASSES_COLLECTIVES_LOOPS_CODE_MOTION_H

#include "passes/collectives/collectives.h"

/* An element of the loop that takes what a reduction is given instead of what it gives. */
typedef struct Accumulator {
    uint32_t index;
    Instruction *reduce;
    Instruction *given;  /* the operand of `reduce` that it takes */
    Instruction *update; /* what stores it, if it is stored and not added */
    const Shape *added;  /* what one step adds; stored: NULL */
    uint32_t dimension;  /* stored: the one that counts steps; scattered: the one cut */
    const Shape *whole;  /* scattered: the element before it is cut */
    const int64_t
        *first; /* stored: where the region of all steps begins, and its sizes */
    const int64_t *sizes;
} Accumulator;

typedef struct Motion {
    Module *m;
    Arena *scratch;
    Computation *body, *condition;
    Computation *caller;
    Instruction *loop;
    int64_t trips, most_bytes; /* -1: not known; limit of stored results */
    bool scatters;             /* reduce-scatters are moved as well */
    Uses uses;                 /* of the body */
    Accumulator *found;
    uint32_t count;
    bool *taken; /* by element: it is one of those found */
    bool *read_by_condition;
    Instruction **element; /* by element: its get-tuple-element, if there is just one */
    const bool
        *replicated; /* by id, for the groups of this reduction; NULL: not known yet */
    const Instruction *replicated_for;
} Motion;

Instruction *motion_user(const Motion *c, const Instruction *inst, uint32_t i);
/* The only user of `inst` is the root, at the position of the element `acc`. */
bool motion_is_next_of(const Motion *c, const Instruction *inst, const Instruction *acc,
                       uint32_t i);
/* An integer or float of type `to` for every value of type `from`, also below zero. */
bool motion_widens(const Shape *from, const Shape *to);
/* The collective of `a` after the loop, on `operand`. */
Instruction *motion_reduce(Motion *c, const Accumulator *a, const Shape *s,
                           Instruction *operand);

/* -- results that are only stored (code_motion_stored.c) -- */

/* All uses of x, a result of `reduce` that was given `given`, store it step by step: appends
 * the accumulator. */
bool motion_find_stored(Motion *c, Instruction *reduce, Instruction *given,
                        Instruction *x);
/* After the loop: the stored results of all steps, reduced, at their offsets in `local`. */
Instruction *motion_reduce_stored(Motion *c, const Accumulator *a, Instruction *local);

#endif
