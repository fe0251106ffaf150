/* Merging one instruction, or fusion, into a fusion that reads it. See fusion.h. */
#include <string.h>

#include "ir/bug.h"
#include "passes/fusion/fusion.h"

/* The parameter of the fused computation for an operand, added where the fusion has none. */
static Instruction *parameter_for(Instruction *fusion, Instruction *operand)
{
    Computation *comp = inst_called(fusion, 0);
    for (uint32_t i = 0; i < fusion->operand_count; i++) {
        if (fusion->operands[i] == operand)
            return comp->parameters[i];
    }
    Arena *a = comp->module->arena;
    Instruction **grown =
        ARENA_ARRAY(a, Instruction *, (size_t)fusion->operand_count + 1);
    if (fusion->operand_count != 0)
        memcpy(grown, fusion->operands, fusion->operand_count * sizeof *grown);
    grown[fusion->operand_count] = operand;
    fusion->operands = grown;
    return computation_add_parameter(comp, fusion->operand_count++, operand->shape, NULL);
}

/* The instruction of the fused computation that does the same; NULL: none. */
static Instruction *same_inside(Computation *comp, const Instruction *inst,
                                Instruction *const *operands)
{
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        Instruction *have = comp->instructions[i];
        if (have == NULL || have->op != inst->op || have->shape != inst->shape ||
            have->operand_count != inst->operand_count || have->op == OP_PARAMETER)
            continue;
        bool same = true;
        for (uint32_t k = 0; k < inst->operand_count && same; k++)
            same = have->operands[k] == operands[k];
        if (same && inst_same_operation(have, inst))
            return have;
    }
    return NULL;
}

static Instruction *clone_into(Instruction *fusion, Instruction *inst,
                               Instruction *const *operands)
{
    Computation *comp = inst_called(fusion, 0);
    Instruction *have = same_inside(comp, inst, operands);
    return have != NULL ? have
                        : computation_add_like(comp, inst, inst->shape,
                                               inst->operand_count, operands);
}

static Instruction *inner_of_operand(Instruction *fusion, Instruction *operand)
{
    bool inline_constant = operand->op == OP_CONSTANT && operand->shape->rank == 0;
    if (inline_constant)
        return computation_add_constant(inst_called(fusion, 0), operand->literal, NULL);
    return parameter_for(fusion, operand);
}

/* The value inside the fusion of an operand of what is brought in: a result of the fusion
 * itself, or a parameter. */
static Instruction *value_inside(Instruction *fusion, const FusionLeaves *own,
                                 Instruction *operand)
{
    for (uint32_t i = 0; own != NULL && i < own->count; i++) {
        if (own->users_see[i] == operand)
            return own->inside[i];
    }
    return inner_of_operand(fusion, operand);
}

/* The producer's code inside the fusion: its result there. */
static Instruction *bring_in(Instruction *fusion, const FusionLeaves *own,
                             Instruction *producer, Arena *a)
{
    if (producer->op != OP_FUSION) {
        Instruction **operands =
            ARENA_ARRAY(a, Instruction *, (size_t)producer->operand_count + 1);
        for (uint32_t i = 0; i < producer->operand_count; i++)
            operands[i] = value_inside(fusion, own, producer->operands[i]);
        return clone_into(fusion, producer, operands);
    }
    Computation *comp = inst_called(producer, 0);
    computation_compact(comp);
    uint32_t count;
    Instruction **order = computation_post_order(comp, a, &count);
    Instruction **map =
        ARENA_ARRAY(a, Instruction *, (size_t)comp->instruction_count + 1);
    uint32_t most = 0; /* one operand may be read many times */
    for (uint32_t i = 0; i < count; i++)
        most = order[i]->operand_count > most ? order[i]->operand_count : most;
    Instruction **operands = ARENA_ARRAY(a, Instruction *, (size_t)most + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = order[i];
        if (inst->op == OP_PARAMETER) {
            map[inst->id] =
                value_inside(fusion, own, producer->operands[inst->parameter]);
            continue;
        }
        for (uint32_t k = 0; k < inst->operand_count; k++)
            operands[k] = map[inst->operands[k]->id];
        map[inst->id] = clone_into(fusion, inst, operands);
    }
    return map[comp->root->id];
}

/* Drops operand and parameter number `number`. */
static void drop_parameter(Instruction *fusion, uint32_t number)
{
    Computation *comp = inst_called(fusion, 0);
    computation_remove(comp, comp->parameters[number]);
    for (uint32_t i = number; i + 1 < fusion->operand_count; i++) {
        fusion->operands[i] = fusion->operands[i + 1];
        comp->parameters[i] = comp->parameters[i + 1];
        comp->parameters[i]->parameter = i;
    }
    fusion->operand_count--;
    comp->parameter_count--;
}

void fusion_merge(Instruction *fusion, Instruction *producer, Arena *scratch)
{
    Computation *comp = inst_called(fusion, 0);
    Instruction *result = bring_in(fusion, NULL, producer, scratch);
    for (uint32_t i = fusion->operand_count; i-- > 0;) {
        if (fusion->operands[i] != producer)
            continue;
        computation_replace_one(comp, comp->parameters[i], result);
        drop_parameter(fusion, i);
    }
    computation_compact(comp);
}

Instruction *fusion_bring_in(Instruction *fusion, const FusionLeaves *own,
                             Instruction *other, Arena *scratch)
{
    return bring_in(fusion, own, other, scratch);
}

void fusion_set_results(Instruction *fusion, Instruction *const *inside, uint32_t count)
{
    Computation *comp = inst_called(fusion, 0);
    Module *m = comp->module;
    if (comp->root->op == OP_TUPLE)
        computation_remove(comp, comp->root);
    comp->root = inside[0];
    if (count == 1)
        return;
    const Shape **shapes = ARENA_ARRAY(m->arena, const Shape *, count);
    for (uint32_t i = 0; i < count; i++)
        shapes[i] = inside[i]->shape;
    comp->root = computation_add(comp, OP_TUPLE, shape_tuple(m->intern, count, shapes),
                                 count, inside, NULL);
}

void fusion_drop_unread(Instruction *fusion, Arena *scratch)
{
    Computation *comp = inst_called(fusion, 0);
    computation_compact(comp);
    uint32_t count = comp->instruction_count, top = 0;
    bool *live = ARENA_ARRAY(scratch, bool, count);
    Instruction **stack = ARENA_ARRAY(scratch, Instruction *, count);
    live[comp->root->id] = true;
    stack[top++] = comp->root;
    while (top > 0) {
        const Instruction *inst = stack[--top];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            Instruction *o = inst->operands[k];
            if (!live[o->id])
                stack[top++] = o;
            live[o->id] = true;
        }
    }
    for (uint32_t i = comp->parameter_count; i-- > 0;) {
        if (!live[comp->parameters[i]->id])
            drop_parameter(fusion, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst != NULL && !live[i] && inst->op != OP_PARAMETER)
            computation_remove(comp, inst);
    }
    computation_compact(comp);
}
