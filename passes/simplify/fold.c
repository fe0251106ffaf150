/* Constant folding: an instruction whose operands are constants becomes a constant, by the
 * reference evaluator.
 *
 *   a = s32[] constant(2)
 *   b = s32[] constant(3)
 *   c = s32[] add(a, b)      =>      c = s32[] constant(5)
 *
 * Needs: nothing. Keeps: order. Breaks: nothing; pass_dce removes what is left over.
 * Never makes a program larger: the result has no more elements than the operands together,
 * or FOLD_SMALL. One sweep in topological order. */
#include <string.h>

#include "ir/eval/eval.h"
#include "passes/simplify/simplify.h"

enum {
    FOLD_SMALL = 16, /* elements of a result that may be larger than its operands */
    FOLD_ELEMENTS = 1 << 20, /* of any value on the way */
    FOLD_STEPS = 100000      /* instructions run, those of called computations included */
};

/* One that waits is kept: who waits for what is folded of it waits for what it waits for. */
static bool is_known(const Instruction *inst)
{
    return inst->op == OP_CONSTANT && inst->literal && shape_is_array(inst->shape) &&
           !literal_has_elided(inst->literal) && inst->control_count == 0;
}

/* One value everywhere: its plain form, which algebra would make of a constant again. A small one
 * is folded where it is read, if what reads it is. */
static bool is_splat(const Instruction *inst)
{
    return inst->op == OP_BROADCAST && inst->operands[0]->shape->rank == 0 &&
           is_known(inst->operands[0]) && !inst->shape->dynamic &&
           inst->control_count == 0;
}

/* The text of a constant has braces around all rows, also around those without elements. */
static bool has_many_empty_rows(const Shape *s)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < s->rank && s->dims[i] != 0 && rows <= FOLD_SMALL; i++)
        rows *= s->dims[i] <= FOLD_SMALL ? s->dims[i] : FOLD_SMALL + 1;
    return rows > FOLD_SMALL;
}

static bool is_foldable(const Instruction *inst)
{
    if (inst->operand_count == 0 || is_splat(inst) || !shape_is_array(inst->shape) ||
        inst->shape->dynamic || inst->control_count > 0)
        return false;
    if (op_is(inst->op,
              OPF_EFFECT | OPF_COLLECTIVE | OPF_CONTROL | OPF_BOUNDARY | OPF_RANDOM))
        return false;
    int64_t inputs = 0, outputs;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *operand = inst->operands[i];
        int64_t elements;
        if ((!is_known(operand) && !is_splat(operand)) ||
            !shape_element_count(operand->shape, &elements) ||
            (!is_known(operand) && elements > FOLD_SMALL))
            return false;
        inputs += elements;
    }
    return shape_element_count(inst->shape, &outputs) &&
           (outputs > 0 || !has_many_empty_rows(inst->shape)) &&
           (outputs <= FOLD_SMALL || outputs <= inputs) && outputs <= FOLD_ELEMENTS;
}

static Instruction *value_of(Instruction *inst)
{
    Module *m = inst->parent->module;
    const Literal *value = evaluate_constant(m->arena, inst, FOLD_ELEMENTS, FOLD_STEPS);
    if (!value || !shape_compatible(value->shape, inst->shape))
        return NULL;
    Literal *l = arena_copy(m->arena, value, sizeof *value);
    l->shape = inst->shape;
    return computation_add_constant(inst->parent, l, NULL);
}

/* The constant; NULL, and it is as before, if it takes too long. */
static Instruction *fold(Instruction *inst, Arena *scratch)
{
    Instruction **operands =
        arena_copy(scratch, inst->operands, inst->operand_count * sizeof *operands);
    uint32_t count = inst->parent->instruction_count;
    bool ok = true;
    for (uint32_t i = 0; ok && i < inst->operand_count; i++) {
        if (is_splat(operands[i]))
            inst->operands[i] = value_of(operands[i]);
        ok = inst->operands[i] != NULL;
    }
    Instruction *constant = ok ? value_of(inst) : NULL;
    memcpy(inst->operands, operands, inst->operand_count * sizeof *operands);
    if (constant == NULL)
        computation_remove_from(inst->parent, count);
    return constant;
}

static bool fold_constants(Computation *comp, Arena *scratch)
{
    uint32_t n;
    bool any = false; /* else what it makes foldable is not, either */
    for (const Instruction *inst = inst_first(comp); inst && !any; inst = inst_next(inst))
        any = is_foldable(inst);
    if (!any)
        return false;
    Instruction **order = computation_post_order(comp, scratch, &n);
    uint32_t old_count = comp->instruction_count;
    Instruction **forward = ARENA_ARRAY(scratch, Instruction *, old_count);
    bool changed = false;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        for (uint32_t k = 0; k < inst->operand_count; k++)
            if (inst->operands[k]->id < old_count && forward[inst->operands[k]->id])
                inst->operands[k] = forward[inst->operands[k]->id];
        Instruction *constant = is_foldable(inst) ? fold(inst, scratch) : NULL;
        if (constant) {
            forward[inst->id] = constant;
            changed = true;
        }
    }
    if (changed) {
        computation_substitute(comp, forward, old_count);
        if (!comp->module->config.is_scheduled)
            computation_sort(comp);
    }
    return changed;
}

bool pass_fold(Module *m, PassContext *cx)
{
    bool changed = false;
    if (m->config.is_scheduled)
        return false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        if (!comp->is_fused)
            changed |= fold_constants(comp, cx->scratch);
    if (changed)
        pass_dce(m, cx);
    return changed;
}
