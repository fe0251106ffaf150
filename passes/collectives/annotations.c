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

static bool is_annotation(const Instruction *inst)
{
    return custom_call_is_marker(inst) && inst->operand_count == 1 &&
           shape_compatible(inst->shape, inst->operands[0]->shape);
}

static bool visit(Computation *comp, Arena *scratch)
{
    uint32_t count = comp->instruction_count;
    Instruction **forward = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL || !is_annotation(inst))
            continue;
        forward[i] = inst->operands[0];
        changed = true;
    }
    if (!changed)
        return false;
    computation_supersede(comp, forward, count);
    return true;
}

bool pass_annotations(Module *m, PassContext *cx)
{
    if (module_unpartitioned(m) != NULL)
        return false;
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        changed |= visit(comp, cx->scratch);
    }
    if (changed)
        module_sort(m);
    return changed;
}
