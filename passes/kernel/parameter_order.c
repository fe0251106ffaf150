/* Fusions take their operands in the order in which their computations first read them, so that kernels are equal
 * whatever order fusion met their operands in.
 *
 *   f { x = parameter(1)  n = negate(x)  y = parameter(0)  r = add(n, y) }    fusion(b, a), calls=f
 *   =>  f { x = parameter(0)  n = negate(x)  y = parameter(1)  r = add(n, y) }    fusion(a, b), calls=f
 *
 * Where a radix sort keeps its counts is said by the parameter's number: kernels by digit stay.
 *
 * Needs: computations in the order in which they are printed. Keeps: values, and which operands results share. */
#include <string.h>

#include "ir/kernel/kind.h"
#include "passes/kernel/kernel.h"

/* By the number that parameters have, the number that they get; false: nothing changes. */
static bool find_numbers(const Computation *comp, uint32_t *number)
{
    uint32_t next = 0;
    bool changed = false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER)
            continue;
        changed |= inst->parameter != next;
        number[inst->parameter] = next++;
    }
    return changed;
}

static void renumber(Computation *comp, const uint32_t *number)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER)
            continue;
        inst->parameter = number[inst->parameter];
        comp->parameters[inst->parameter] = inst;
    }
}

static void renumber_shared(Instruction *fusion, const uint32_t *number)
{
    const Attr *attr = inst_attr(fusion, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    if (attr == NULL)
        return;
    Arena *a = fusion->parent->module->arena;
    const Aliasing *was = attr->aliasing;
    AliasEntry *entries = arena_copy(a, was->entries, was->count * sizeof *entries);
    for (uint32_t i = 0; i < was->count; i++)
        entries[i].operand = number[entries[i].operand];
    Aliasing *aliasing = ARENA_NEW(a, Aliasing);
    *aliasing = (Aliasing){was->count, entries};
    inst_set(fusion, (Attr){.id = ATTR_OUTPUT_TO_OPERAND_ALIASING, .aliasing = aliasing});
}

static bool order_parameters(Instruction *fusion, Arena *scratch)
{
    Computation *comp = inst_called(fusion, 0);
    uint32_t n = fusion->operand_count;
    uint32_t *number = ARENA_ARRAY(scratch, uint32_t, (size_t)n + 1);
    if (kernel_kind_of(fusion) == KERNEL_COUNT || kernel_is(fusion, KERNEL_BY_DIGIT) ||
        !find_numbers(comp, number))
        return false;
    renumber(comp, number);
    Instruction **operands = ARENA_ARRAY(scratch, Instruction *, n);
    for (uint32_t i = 0; i < n; i++)
        operands[number[i]] = fusion->operands[i];
    memcpy(fusion->operands, operands, n * sizeof *operands);
    renumber_shared(fusion, number);
    return true;
}

/* Computations that several fusions call stay as they are. */
bool order_all_parameters(Module *m, Arena *scratch)
{
    const uint32_t *calls = module_call_counts(m, scratch);
    Computations programs = module_programs(m, scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        Computation *comp = programs.data[c];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_FUSION && calls[inst_called(inst, 0)->id] == 1)
                changed |= order_parameters(inst, scratch);
        }
    }
    return changed;
}
