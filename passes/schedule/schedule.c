/* Fixes the order of execution: a topological order of each computation, stable in the order
 * that the instructions have.
 *
 * Needs: fused. Keeps: everything. Yields: is_scheduled. Ends: one sweep. */
#include "passes/schedule/schedule.h"

bool pass_schedule(Module *m, PassContext *cx)
{
    (void)cx;
    if (m->config.is_scheduled)
        return false;
    module_sort(m);
    m->config.is_scheduled = true;
    return true;
}
