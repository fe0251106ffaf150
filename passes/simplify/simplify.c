/* The simplification passes in turn until none of them changes anything.
 *
 * Needs: nothing. Keeps: the entry's signature and layouts. Yields: LEVEL_OPTIMISED.
 * Ends because each pass lowers its own measure and none raises another's for ever; SIMPLIFY_ROUNDS
 * bounds it all the same: a round that changes nothing is the usual end. */
#include "passes/simplify/simplify.h"

enum { SIMPLIFY_ROUNDS = 8 };

bool pass_simplify(Module *m, PassContext *cx)
{
    static PassFn *const passes[] = {pass_inline,  pass_dce, pass_fold,
                                     pass_algebra, pass_cse, pass_loops,
                                     pass_sink,    pass_dce, pass_hoist};
    bool changed = false, again = true;
    for (int round = 0; again && round < SIMPLIFY_ROUNDS; round++) {
        again = false;
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
            again |= pass_run(passes[i], m, cx);
        module_sort(m);
        changed |= again;
    }
    return changed;
}
