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

static Instruction *clone_into(Instruction *fusion, Instruction *inst,
                               Instruction *const *operands)
{
    return computation_add_like(inst_called(fusion, 0), inst, inst->shape,
                                inst->operand_count, operands);
}

static Instruction *inner_of_operand(Instruction *fusion, Instruction *operand)
{
    bool inline_constant = operand->op == OP_CONSTANT && operand->shape->rank == 0;
    if (inline_constant)
        return computation_add_constant(inst_called(fusion, 0), operand->literal, NULL);
    return parameter_for(fusion, operand);
}

/* The producer's code inside the fusion: its result there. */
static Instruction *bring_in(Instruction *fusion, Instruction *producer)
{
    Arena *a = fusion->parent->module->arena;
    if (producer->op != OP_FUSION) {
        Instruction **operands =
            ARENA_ARRAY(a, Instruction *, (size_t)producer->operand_count + 1);
        for (uint32_t i = 0; i < producer->operand_count; i++)
            operands[i] = inner_of_operand(fusion, producer->operands[i]);
        return clone_into(fusion, producer, operands);
    }
    Computation *comp = inst_called(producer, 0);
    computation_compact(comp);
    uint32_t count;
    Instruction **order = computation_post_order(comp, a, &count);
    Instruction **map =
        ARENA_ARRAY(a, Instruction *, (size_t)comp->instruction_count + 1);
    Instruction **operands =
        ARENA_ARRAY(a, Instruction *, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = order[i];
        if (inst->op == OP_PARAMETER) {
            map[inst->id] = parameter_for(fusion, producer->operands[inst->parameter]);
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

void fusion_merge(Instruction *fusion, Instruction *producer)
{
    Computation *comp = inst_called(fusion, 0);
    Instruction *result = bring_in(fusion, producer);
    for (uint32_t i = fusion->operand_count; i-- > 0;) {
        if (fusion->operands[i] != producer)
            continue;
        computation_replace_one(comp, comp->parameters[i], result);
        drop_parameter(fusion, i);
    }
    computation_compact(comp);
}
