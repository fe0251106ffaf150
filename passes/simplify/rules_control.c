/* Rules of conditional and while.
 *
 * Measure: number of control operations; a call that is left is inlined by pass_inline. */
#include "ir/analysis/loop.h"
#include "passes/simplify/rewrite.h"

enum { /* what conditional_select takes */
       BRANCH_COUNT = 4,
       BRANCH_INSTRUCTIONS = 24,
       BRANCH_ELEMENTS = 4096
};

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

/* conditional of convert(p), two branches -> conditional of p */
static Instruction *conditional_pred(Rewriter *r, Instruction *inst)
{
    Instruction *index = inst->operands[0];
    if (index->op != OP_CONVERT || index->operands[0]->shape->dtype != DT_PRED ||
        inst_called_count(inst) != 2 || !inst_has(inst, ATTR_BRANCH_COMPUTATIONS))
        return NULL;
    Instruction *operands[3] = {index->operands[0], inst->operands[2], inst->operands[1]};
    Computation *when_false = inst_called(inst, 0), *when_true = inst_called(inst, 1);
    Instruction *by = rw_like(r, inst, inst->shape, 3, operands);
    inst_unset(by, ATTR_BRANCH_COMPUTATIONS);
    inst_set_computation(by, ATTR_TRUE_COMPUTATION, when_true);
    inst_set_computation(by, ATTR_FALSE_COMPUTATION, when_false);
    return by;
}

/* Small enough that computing it is cheaper than asking whether to. */
static bool is_cheap_branch(const Computation *branch)
{
    if (branch->instruction_count > BRANCH_INSTRUCTIONS)
        return false;
    for (const Instruction *inst = inst_first(branch); inst; inst = inst_next(inst)) {
        bool hands_on = inst->op == OP_PARAMETER || inst->op == OP_TUPLE ||
                        (inst->op == OP_GET_TUPLE_ELEMENT && shape_is_tuple(inst->shape));
        if (hands_on)
            continue;
        bool simple = op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_BROADCAST ||
                      inst->op == OP_RESHAPE || inst->op == OP_SLICE ||
                      inst->op == OP_IOTA || inst->op == OP_TRANSPOSE ||
                      inst->op == OP_REDUCE || inst->op == OP_CONSTANT ||
                      inst->op == OP_GET_TUPLE_ELEMENT;
        int64_t n;
        if (!simple || inst->control_count > 0 || !shape_is_array(inst->shape) ||
            !shape_element_count(inst->shape, &n) || n > BRANCH_ELEMENTS)
            return false;
    }
    return true;
}

static bool holds_arrays(const Shape *s)
{
    if (shape_is_array(s))
        return !s->dynamic;
    for (uint32_t i = 0; shape_is_tuple(s) && i < s->rank; i++)
        if (!rw_is_static(s->elements[i]))
            return false;
    return shape_is_tuple(s) && s->rank > 0;
}

static Instruction *selected(Rewriter *r, Instruction *p, Instruction *a, Instruction *b)
{
    Instruction *operands[3] = {p, a, b};
    if (shape_is_array(a->shape))
        return rw_add(r, OP_SELECT, a->shape, 3, operands);
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, a->shape->rank);
    for (uint32_t i = 0; i < a->shape->rank; i++) {
        operands[1] = rw_element(r, a, i);
        operands[2] = rw_element(r, b, i);
        parts[i] = rw_add(r, OP_SELECT, a->shape->elements[i], 3, operands);
    }
    return rw_add(r, OP_TUPLE, a->shape, a->shape->rank, parts);
}

/* conditional of small branches without effects -> all of them, and a select */
static Instruction *conditional_select(Rewriter *r, Instruction *inst)
{
    uint32_t n = inst_called_count(inst);
    if (n > BRANCH_COUNT || !holds_arrays(inst->shape))
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        const Computation *branch = inst_called(inst, i);
        if (!is_cheap_branch(branch) || branch->root->shape != inst->shape)
            return NULL;
    }
    Instruction *index = inst->operands[0], *by = NULL;
    for (uint32_t i = n; i-- > 0;) { /* an index out of range takes the last branch */
        Instruction *call = rw_unary(r, OP_CALL, inst->shape, inst->operands[i + 1]);
        inst_set_computation(call, ATTR_TO_APPLY, inst_called(inst, i));
        if (!by) {
            by = call;
            continue;
        }
        Instruction *chosen = index;
        if (index->shape->dtype != DT_PRED) {
            chosen = rw_compare(r, index, rw_splat_int(r, index->shape, i), DIRECTION_EQ);
        }
        by = selected(r, chosen, call, by);
    }
    return by;
}

/* while whose condition is constantly false -> its operand */
static Instruction *while_never(Rewriter *r, Instruction *inst)
{
    (void)r;
    const Computation *condition = inst_attr(inst, ATTR_CONDITION)->computations.data[0];
    if (!rw_is_splat(condition->root, 0.0) || !computation_is_pure(condition))
        return NULL;
    return rw_as(inst, inst->operands[0]);
}

const Rule rules_control[] = {
    {OP_CONDITIONAL, "conditional_constant", conditional_constant},
    {OP_CONDITIONAL, "conditional_pred", conditional_pred},
    {OP_CONDITIONAL, "conditional_select", conditional_select},
    {OP_WHILE, "while_never", while_never},
    {0},
};
