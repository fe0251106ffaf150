/* Calls that only say where a value should lie become the value itself.
 *
 *   y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]0,1}  =>  x
 *
 * Sharding means something to a partitioner, which has run already: a module for one partition
 * needs none, and a partitioned one says what each partition does. One that was not partitioned
 * (ir/analysis/partition.h), which is refused before it is compiled or run, keeps its calls.
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. */
#include "ir/analysis/partition.h"
#include "ir/custom_call.h"
#include "passes/collectives/collectives.h"

static Instruction *annotated(Instruction *inst, void *context)
{
    (void)context;
    bool is_annotation = custom_call_is_marker(inst) && inst->operand_count == 1 &&
                         shape_compatible(inst->shape, inst->operands[0]->shape);
    return is_annotation ? inst->operands[0] : NULL;
}

bool pass_annotations(Module *m, PassContext *cx)
{
    if (module_unpartitioned(m) != NULL)
        return false;
    uint32_t n = 0;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        n += computation_replace_each(comp, annotated, NULL, cx->scratch);
    if (n != 0)
        module_sort(m);
    return n != 0;
}
