/* Rules of conditional and while.
 *
 * Measure: number of control operations; a call that is left is inlined by pass_inline. */
#include "passes/simplify/rewrite.h"

/* conditional of a constant -> call of the branch */
static Instruction *conditional_constant(Rewriter *r, Instruction *inst)
{
    const Literal *l = rw_splat_of(inst->operands[0]);
    if (!l)
        return NULL;
    int64_t branches = inst_called_count(inst), index = literal_int(l, 0);
    if (l->shape->dtype == DT_PRED)
        index = index != 0 ? 0 : 1;
    else if (index < 0 || index >= branches)
        index = branches - 1;
    Computation *callee = inst_called(inst, (uint32_t)index);
    if (callee->root->shape != inst->shape)
        return NULL;
    Instruction *call = rw_unary(r, OP_CALL, inst->shape, inst->operands[index + 1]);
    inst_set_computation(call, ATTR_TO_APPLY, callee);
    return call;
}

/* while whose condition is constantly false -> its operand */
static Instruction *while_never(Rewriter *r, Instruction *inst)
{
    (void)r;
    const Computation *condition = inst_attr(inst, ATTR_CONDITION)->computations.data[0];
    if (!rw_is_splat(condition->root, 0.0))
        return NULL;
    return rw_as(inst, inst->operands[0]);
}

const Rule rules_control[] = {
    {OP_CONDITIONAL, "conditional_constant", conditional_constant},
    {OP_WHILE, "while_never", while_never},
    {0},
};
