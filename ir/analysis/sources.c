/* What values are made of. See sources.h. */
#include "ir/analysis/sources.h"

#define SMALL 16 /* an array with so many times fewer elements is read for nothing */

bool inst_is_cheap(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE) && !op_is(inst->op, OPF_EXPENSIVE);
}

bool sources_see_through(const Instruction *inst)
{
    return inst->op == OP_BROADCAST || inst->op == OP_BITCAST || inst->op == OP_RESHAPE;
}

bool sources_have(const Sources *s, const Instruction *inst)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->list[i] == inst)
            return true;
    }
    return false;
}

void sources_add(Sources *s, const Instruction *inst)
{
    if (s->count < SOURCES_MOST && !sources_have(s, inst))
        s->list[s->count++] = inst;
}

void sources_find(Sources *s, const Instruction *inst, int64_t elements)
{
    if (sources_see_through(inst)) {
        sources_find(s, inst->operands[0], elements);
        return;
    }
    if (!shape_is_array(inst->shape) || shape_elements(inst->shape) <= elements / SMALL)
        return;
    if (s->looked == SOURCES_LOOKS || !inst_is_cheap(inst)) {
        sources_add(s, inst);
        return;
    }
    s->looked++;
    for (uint32_t k = 0; k < inst->operand_count; k++)
        sources_find(s, inst->operands[k], elements);
}
