/* See pair.h. */
#include "passes/collectives/async/pair.h"

Computation *pair_outline(const Instruction *inst, const char *name)
{
    Module *m = inst->parent->module;
    Computation *comp = module_add_computation(m, name);
    comp->execution_thread = inst->parent->execution_thread;
    Instruction **operands =
        ARENA_ARRAY(m->arena, Instruction *, (size_t)inst->operand_count + 1);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = computation_add_parameter(comp, i, inst->operands[i]->shape, NULL);
    comp->root =
        computation_add_like(comp, inst, inst->shape, inst->operand_count, operands);
    return comp;
}

Instruction *pair_make(Computation *comp, Computation *work, uint32_t count,
                       Instruction *const *operands, const char *name)
{
    Module *m = comp->module;
    const Shape **shapes = ARENA_ARRAY(m->arena, const Shape *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        shapes[i] = operands[i]->shape;
    const Shape *parts[2] = {shape_tuple(m->intern, count, shapes), work->root->shape};
    Instruction *start =
        computation_add(comp, OP_ASYNC_START, shape_tuple(m->intern, 2, parts), count,
                        operands, arena_printf(m->arena, "%s.start", name));
    Instruction *done = computation_add(comp, OP_ASYNC_DONE, work->root->shape, 1, &start,
                                        arena_printf(m->arena, "%s.done", name));
    inst_set_computation(start, ATTR_CALLS, work);
    return done;
}
