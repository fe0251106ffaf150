/* A fusion as it is before something is tried with it. See fusion.h. */
#include <string.h>

#include "passes/fusion/fusion.h"

/* An instruction with what its arrays held. */
typedef struct SavedInstruction {
    Instruction *inst;
    Instruction was;
    Instruction **operands, **control;
} SavedInstruction;

struct SavedFusion {
    SavedInstruction fusion;
    Computation *comp, was;
    Instruction **parameters;
    SavedInstruction *instructions; /* [was.instruction_count]; inst NULL: was none */
};

static SavedInstruction save(Instruction *inst, Arena *a)
{
    if (inst == NULL)
        return (SavedInstruction){.inst = NULL};
    return (SavedInstruction){
        inst, *inst,
        arena_copy(a, inst->operands, inst->operand_count * sizeof *inst->operands),
        arena_copy(a, inst->control, inst->control_count * sizeof *inst->control)};
}

static void put_back(Instruction **array, Instruction *const *was, uint32_t count)
{
    if (count != 0)
        memcpy(array, was, count * sizeof *was);
}

static void restore(const SavedInstruction *saved)
{
    if (saved->inst == NULL)
        return;
    *saved->inst = saved->was;
    put_back(saved->was.operands, saved->operands, saved->was.operand_count);
    put_back(saved->was.control, saved->control, saved->was.control_count);
}

SavedFusion *fusion_save(Instruction *fusion, Arena *a)
{
    SavedFusion *s = ARENA_NEW(a, SavedFusion);
    s->fusion = save(fusion, a);
    s->comp = inst_called(fusion, 0);
    s->was = *s->comp;
    s->parameters =
        arena_copy(a, s->was.parameters, s->was.parameter_count * sizeof *s->parameters);
    s->instructions = ARENA_ARRAY(a, SavedInstruction, s->was.instruction_count);
    for (uint32_t i = 0; i < s->was.instruction_count; i++)
        s->instructions[i] = save(s->comp->instructions[i], a);
    return s;
}

void fusion_restore(const SavedFusion *s)
{
    restore(&s->fusion);
    *s->comp = s->was;
    put_back(s->was.parameters, s->parameters, s->was.parameter_count);
    for (uint32_t i = 0; i < s->was.instruction_count; i++) {
        s->comp->instructions[i] = s->instructions[i].inst;
        restore(&s->instructions[i]);
    }
}
