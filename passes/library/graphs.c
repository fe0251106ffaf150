/* See graphs.h. */
#include "passes/library/graphs.h"

#include "passes/fusion/fusion.h"
#include "passes/simplify/simplify.h"

bool graphs_make(Module *m, PassContext *cx, GraphVisit *visit)
{
    bool changed = false, wrapped = false;
    if (cx->graphs == NULL)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(programs.data[c], cx, &wrapped);
    if (!wrapped)
        return false;
    if (changed)
        module_sort(m);
    changed |= pass_dce(m, cx); /* what cuDNN could not do */
    module_remove_dead_computations(m);
    fusion_name_all(m);
    return changed;
}
