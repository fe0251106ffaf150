/* See in_place.h. */
#include "passes/schedule/in_place.h"

#include "ir/analysis/alias.h"
#include "ir/kernel/kind.h"

/* What this leaf of a custom call's result lies in; false: a buffer of its own. */
static bool declared_source(const Instruction *call, size_t leaf, ValueSource *source)
{
    const Attr *attr = inst_attr(call, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    for (uint32_t i = 0; attr != NULL && i < attr->aliasing->count; i++) {
        const AliasEntry *e = &attr->aliasing->entries[i];
        Instruction *operand = call->operands[e->operand];
        if (alias_index_leaf(call->shape, e->output) != leaf)
            continue;
        *source = value_source(operand, alias_index_leaf(operand->shape, e->input));
        return true;
    }
    return false;
}

bool in_place_argument(const Computation *comp, size_t leaf, ValueSource *out)
{
    ValueSource result = value_source(comp->root, leaf);
    *out = in_place_origin(result, true);
    return out->inst->op == OP_PARAMETER && !value_source_is(*out, result);
}

/* What a computation beside the program updates in place lies where its operand does. */
static bool started_source(const Instruction *start, size_t leaf, ValueSource *source)
{
    size_t first = async_result_leaf(start);
    ValueSource argument;
    if (leaf < first ||
        !in_place_argument(inst_called(start, 0), leaf - first, &argument))
        return false;
    *source = value_source(start->operands[argument.inst->parameter], argument.leaf);
    return true;
}

bool in_place_operand(ValueSource value, ValueSource *out)
{
    const Instruction *inst = value.inst;
    if (inst->op == OP_CUSTOM_CALL)
        return declared_source(inst, value.leaf, out);
    if (inst->op == OP_ASYNC_START)
        return started_source(inst, value.leaf, out);
    KernelKind kind = inst->op == OP_FUSION ? kernel_kind_of(inst) : KERNEL_COUNT;
    if (kind == KERNEL_COUNT)
        return false;
    int64_t operand = kernel_in_place(inst, kind, (uint32_t)value.leaf);
    if (operand >= 0)
        *out = value_source(inst->operands[operand], 0);
    return operand >= 0;
}

ValueSource in_place_origin(ValueSource value, bool through_loops)
{
    for (;;) {
        if (in_place_operand(value, &value))
            continue;
        if (!through_loops || value.inst->op != OP_WHILE)
            return value;
        value = value_source(value.inst->operands[0], value.leaf);
    }
}
