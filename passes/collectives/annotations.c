/* Calls that only say where a value should lie become the value itself.
 *
 *   y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]0,1}  =>  x
 *
 * Sharding means something to a partitioner, which has run already: a module for one partition
 * needs none, and a partitioned one says what each partition does. A module for several
 * partitions that never asks which one it is, and has shardings, keeps its calls, so that
 * codegen can say that it was not partitioned.
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. */
#include "ir/custom_call.h"
#include "passes/collectives/collectives.h"

static bool is_annotation(const Instruction *inst)
{
    return custom_call_is_marker(inst) && inst->operand_count == 1 &&
           shape_compatible(inst->shape, inst->operands[0]->shape);
}

/* It has no partitions, or was written for each of them: it asks for its number or talks. */
static bool is_partitioned(const Module *m)
{
    if (m->config.num_partitions <= 1)
        return true;
    for (uint32_t c = 0; c < m->computation_count; c++) {
        const Computation *comp = m->computations[c];
        for (uint32_t i = 0; comp != NULL && i < comp->instruction_count; i++) {
            const Instruction *inst = comp->instructions[i];
            if (inst != NULL &&
                (inst->op == OP_PARTITION_ID || op_is(inst->op, OPF_COLLECTIVE)))
                return true;
        }
    }
    return false;
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
    computation_replace(comp, forward);
    for (uint32_t i = 0; i < count; i++) {
        if (forward[i] != NULL)
            computation_remove(comp, comp->instructions[i]);
    }
    return true;
}

bool pass_annotations(Module *m, PassContext *cx)
{
    if (!is_partitioned(m))
        return false;
    bool changed = false;
    for (uint32_t c = 0; c < m->computation_count; c++) {
        if (m->computations[c] != NULL)
            changed |= visit(m->computations[c], cx->scratch);
    }
    if (changed)
        module_sort(m);
    return changed;
}
