/* Dead code: instructions that neither the root nor an effect needs, computations that nothing
 * calls.
 *
 *   a = f32[] add(x, y)
 *   ROOT b = f32[] negate(x)      =>      ROOT b = f32[] negate(x)
 *
 * Needs: nothing. Keeps: order, levels. Breaks: ids (computations are compacted).
 * Parameters stay. One backward walk per computation; callees come first, so what a loop or
 * a branch does inside is known. */
#include "passes/simplify/simplify.h"

static bool effects_of(const Effects *e, const Computation *comp)
{
    return comp->id >= e->count || e->of[comp->id];
}

bool simplify_is_pure(const Instruction *inst, const Effects *has_effect)
{
    if (inst->attr_count == 0)
        return !op_is(inst->op, OPF_EFFECT);
    if (op_is(inst->op, OPF_EFFECT) || inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
        return false;
    uint32_t calls = inst_called_count(inst);
    for (uint32_t i = 0; i < calls; i++)
        if (effects_of(has_effect, inst_called(inst, i)))
            return false;
    return true;
}

Effects *simplify_effects(const Module *m, Arena *scratch)
{
    Effects *has_effect = ARENA_NEW(scratch, Effects);
    has_effect->of = ARENA_ARRAY(scratch, bool, m->computation_count);
    has_effect->count = m->computation_count;
    for (uint32_t c = 0; c < m->computation_count; c++) {
        const Computation *comp = m->computations[c];
        for (uint32_t i = 0; comp && i < comp->instruction_count; i++)
            if (comp->instructions[i] &&
                !simplify_is_pure(comp->instructions[i], has_effect))
                has_effect->of[c] = true;
    }
    return has_effect;
}

typedef struct Mark {
    bool *live;
    Instruction **stack;
    uint32_t top;
} Mark;

static void mark(Mark *k, Instruction *inst)
{
    if (k->live[inst->id])
        return;
    k->live[inst->id] = true;
    k->stack[k->top++] = inst;
}

static bool remove_dead(Computation *comp, const Effects *has_effect, Arena *scratch)
{
    uint32_t n = comp->instruction_count;
    Mark k = {ARENA_ARRAY(scratch, bool, n), ARENA_ARRAY(scratch, Instruction *, n), 0};
    mark(&k, comp->root);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst && (inst->op == OP_PARAMETER || !simplify_is_pure(inst, has_effect)))
            mark(&k, inst);
    }
    while (k.top > 0) {
        Instruction *inst = k.stack[--k.top];
        for (uint32_t i = 0; i < inst->operand_count; i++)
            mark(&k, inst->operands[i]);
        for (uint32_t i = 0; i < inst->control_count; i++)
            mark(&k, inst->control[i]);
    }
    bool changed = false;
    for (uint32_t i = 0; i < n; i++)
        if (comp->instructions[i] && !k.live[i]) {
            computation_remove(comp, comp->instructions[i]);
            changed = true;
        }
    computation_compact(comp);
    return changed;
}

bool pass_dce(Module *m, PassContext *cx)
{
    bool changed = false;
    const Effects *has_effect = simplify_effects(m, cx->scratch);
    for (uint32_t c = 0; c < m->computation_count; c++)
        if (m->computations[c])
            changed |= remove_dead(m->computations[c], has_effect, cx->scratch);
    uint32_t before = m->computation_count;
    module_remove_dead_computations(m);
    return changed || m->computation_count != before;
}
