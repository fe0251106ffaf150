/* A fusion as it is before something is tried with it. See fusion.h. */
#include <string.h>

#include "passes/fusion/fusion.h"

/* An instruction with what its arrays held: operands, then control predecessors. */
typedef struct SavedInstruction {
    Instruction *inst;
    Instruction was;
    Instruction **held;
} SavedInstruction;

struct SavedFusion {
    SavedInstruction fusion;
    Computation *comp, was;
    Instruction **parameters;
    SavedInstruction *instructions; /* [was.instruction_count]; inst NULL: was none */
};

static void copy_pointers(Instruction **to, Instruction *const *from, uint32_t count)
{
    if (count != 0)
        memcpy(to, from, count * sizeof *to);
}

static uint32_t held_count(const Instruction *inst)
{
    return inst == NULL ? 0 : inst->operand_count + inst->control_count;
}

/* The arrays' copies begin at *held, which moves behind them. */
static void save(SavedInstruction *to, Instruction *inst, Instruction ***held)
{
    if (inst == NULL)
        return;
    to->inst = inst;
    to->was = *inst;
    to->held = *held;
    copy_pointers(to->held, inst->operands, inst->operand_count);
    copy_pointers(to->held + inst->operand_count, inst->control, inst->control_count);
    *held += held_count(inst);
}

static void restore(const SavedInstruction *saved)
{
    if (saved->inst == NULL)
        return;
    const Instruction *was = &saved->was;
    *saved->inst = *was;
    copy_pointers(was->operands, saved->held, was->operand_count);
    copy_pointers(was->control, saved->held + was->operand_count, was->control_count);
}

SavedFusion *fusion_save(Instruction *fusion, Arena *a)
{
    SavedFusion *s = ARENA_NEW(a, SavedFusion);
    s->comp = inst_called(fusion, 0);
    s->was = *s->comp;
    size_t held = held_count(fusion);
    for (uint32_t i = 0; i < s->was.instruction_count; i++)
        held += held_count(s->comp->instructions[i]);
    Instruction **at = ARENA_ARRAY(a, Instruction *, held);
    save(&s->fusion, fusion, &at);
    s->parameters =
        arena_copy(a, s->was.parameters, s->was.parameter_count * sizeof *s->parameters);
    s->instructions = ARENA_ARRAY(a, SavedInstruction, s->was.instruction_count);
    for (uint32_t i = 0; i < s->was.instruction_count; i++)
        save(&s->instructions[i], s->comp->instructions[i], &at);
    return s;
}

void fusion_restore(const SavedFusion *s)
{
    restore(&s->fusion);
    Instruction **list =
        s->comp->instructions; /* the one of then may be too small and gone */
    size_t capacity = s->comp->instruction_capacity;
    *s->comp = s->was;
    s->comp->instructions = list;
    s->comp->instruction_capacity = capacity;
    copy_pointers(s->was.parameters, s->parameters, s->was.parameter_count);
    for (uint32_t i = 0; i < s->was.instruction_count; i++) {
        s->comp->instructions[i] = s->instructions[i].inst;
        restore(&s->instructions[i]);
    }
}
