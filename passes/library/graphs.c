/* See graphs.h. */
#include "passes/library/graphs.h"

#include "passes/fusion/fusion.h"
#include "passes/simplify/simplify.h"

GraphScope graphs_scope(Computation *comp, PassContext *cx)
{
    GraphScope s = {.comp = comp, .scratch = cx->scratch};
    computation_compact(comp);
    s.uses = uses_compute(comp, cx->scratch);
    s.order = computation_post_order(comp, cx->scratch, &s.order_count);
    s.count = comp->instruction_count;
    return s;
}

static void mark(const Instruction *inst, bool *is_known)
{
    if (is_known[inst->id])
        return;
    is_known[inst->id] = true;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        mark(inst->operands[i], is_known);
}

bool *graphs_inside(const GraphScope *s, const Instruction *last,
                    const Instruction *const *arrays, uint32_t array_count)
{
    bool *inside = ARENA_ARRAY(s->scratch, bool, s->count);
    for (uint32_t i = 0; i < array_count; i++) {
        if (arrays[i] != NULL)
            inside[arrays[i]->id] = true;
    }
    mark(last, inside);
    for (uint32_t i = 0; i < array_count; i++) {
        if (arrays[i] != NULL)
            inside[arrays[i]->id] = false;
    }
    return inside;
}

bool graphs_is_read_outside(const GraphScope *s, const Instruction *inst,
                            const bool *inside)
{
    if (inst == s->comp->root)
        return true;
    for (uint32_t u = s->uses.start[inst->id]; u < s->uses.start[inst->id + 1]; u++) {
        if (!inside[s->uses.list[u]->id])
            return true;
    }
    return false;
}

Instruction *graphs_wrap(const GraphScope *s, Instruction *root, const bool *inside)
{
    uint32_t spare = 0;
    Instruction *fusion = fusion_wrap(root);
    for (uint32_t i = s->order_count; i-- > 0;) {
        Instruction *inst = s->order[i];
        if (inside[inst->id] && inst != root &&
            (inst->op != OP_CONSTANT || inst->shape->rank != 0))
            fusion_merge(fusion, inst, false, &spare, s->scratch);
    }
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    return fusion;
}

bool graphs_make(Module *m, PassContext *cx, GraphVisit *visit)
{
    bool changed = false, wrapped = false;
    if (cx->graphs == NULL)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(programs.data[c], cx, &wrapped);
    if (!wrapped)
        return false;
    if (changed)
        module_sort(m);
    changed |= pass_dce(m, cx); /* what cuDNN could not do */
    module_remove_dead_computations(m);
    fusion_name_all(m);
    return changed;
}
