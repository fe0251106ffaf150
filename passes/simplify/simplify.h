/* The simplification passes: what makes a module smaller without knowing the target. */
#ifndef GXC_PASSES_SIMPLIFY_SIMPLIFY_H
#define GXC_PASSES_SIMPLIFY_SIMPLIFY_H

#include "passes/pass.h"

PassFn pass_inline;          /* calls and maps */
PassFn pass_dce;             /* unused instructions and computations */
PassFn pass_cse;             /* equal instructions, equal computations */
PassFn pass_fold;            /* constant operands */
PassFn pass_algebra;         /* rules over a few instructions (rewrite.h) */
PassFn pass_expand;          /* composed operations: batch-norm, topk, ... */
PassFn pass_convolutions;    /* those that other operations do better */
PassFn pass_mixed_precision; /* operands of several float types */
PassFn pass_random;          /* rng; what draws from the device's state in its order */
PassFn pass_loops;           /* while: trip counts, dead and invariant values */
PassFn pass_trip_counts;     /* of while, derived anew */
PassFn pass_flatten;         /* no two callers share a body or branch */
PassFn pass_hoist;           /* while: invariant code moves out */
PassFn pass_sink;            /* while: transpositions of what is only sliced move in */
PassFn pass_masks;           /* gradients of a relu ask its result, not its operand */
PassFn pass_simplify;        /* all of the above to a fixpoint */

/* Which computations have effects, themselves or by what they call; those made since count as
 * if they had. */
typedef struct Effects {
    bool *of; /* by Computation.id */
    uint32_t count;
} Effects;

/* True if the instruction's value is all that matters of it: without users it may go. */
bool simplify_is_pure(const Instruction *inst, const Effects *has_effect);
Effects *simplify_effects(const Module *m, Arena *scratch);
/* By id: which instructions others have as control predecessors; NULL: none. */
bool *simplify_awaited(const Computation *comp, Arena *scratch);

#endif
