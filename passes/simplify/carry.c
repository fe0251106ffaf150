/* See carry.h. */
#include "passes/simplify/carry.h"

#include <string.h>

#include "passes/simplify/simplify.h"

static Instruction *longer_tuple(Instruction *tuple, const Shape *shape, uint32_t more,
                                 Instruction *const *elements)
{
    uint32_t n = tuple->operand_count;
    Instruction **operands =
        ARENA_ARRAY(tuple->parent->module->arena, Instruction *, (size_t)n + more);
    memcpy(operands, tuple->operands, n * sizeof *operands);
    memcpy(operands + n, elements, more * sizeof *operands);
    Instruction *t =
        computation_add(tuple->parent, OP_TUPLE, shape, n + more, operands, NULL);
    t->span = tuple->span;
    return t;
}

void carry_values(Loop *loop, uint32_t count, Instruction *const *inits,
                  Instruction **reads, Arena *scratch)
{
    Module *m = loop->inst->parent->module;
    const Shape **shapes =
        ARENA_ARRAY(scratch, const Shape *, (size_t)loop->count + count);
    memcpy(shapes, loop->inst->shape->elements, loop->count * sizeof *shapes);
    for (uint32_t i = 0; i < count; i++)
        shapes[loop->count + i] = inits[i]->shape;
    const Shape *shape = shape_tuple(m->intern, loop->count + count, shapes);
    Instruction *p = loop->body->parameters[0];
    for (uint32_t i = 0; i < count; i++) {
        reads[i] = computation_add(loop->body, OP_GET_TUPLE_ELEMENT, inits[i]->shape, 1,
                                   &p, NULL);
        inst_set_int(reads[i], ATTR_INDEX, (int64_t)loop->count + i);
    }
    loop->body->root = longer_tuple(loop->body->root, shape, count, reads);
    loop->inst->operands[0] = longer_tuple(loop->init, shape, count, inits);
    loop->inst->shape = shape;
    Computation *both[2] = {loop->condition, loop->body};
    for (int k = 0; k < 2; k++)
        both[k]->parameters[0]->shape = shape;
    Instruction *carriers[3] = {loop->inst, both[0]->parameters[0],
                                both[1]->parameters[0]};
    for (int k = 0; k < 3; k++) {
        inst_unset(carriers[k], ATTR_SHARDING);
        inst_unset(carriers[k], ATTR_ORIGIN);
        inst_unset(carriers[k], ATTR_PARAMETER_REPLICATION);
    }
}

bool carry_is_possible(const Loop *loop)
{
    const Instruction *inst = loop->inst;
    const Computation *comp = inst->parent;
    if (comp->root == inst)
        return false;
    for (const Instruction *user = inst_first(comp); user; user = inst_next(user)) {
        for (uint32_t k = 0; k < user->operand_count; k++)
            if (user->operands[k] == inst && user->op != OP_GET_TUPLE_ELEMENT)
                return false;
    }
    return true;
}

bool carry_each_loop(Module *m, bool (*change)(Loop *loop, Arena *scratch),
                     PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    bool changed = false;
    uint32_t *calls = module_call_counts(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        bool here = false;
        uint32_t count = comp->instruction_count;
        for (uint32_t i = 0; i < count; i++) {
            Instruction *inst = comp->instructions[i];
            Loop loop;
            if (inst && inst->op == OP_WHILE && loop_analyse(inst, &loop) &&
                calls[loop.body->id] == 1 && calls[loop.condition->id] == 1)
                here |= change(&loop, cx->scratch);
        }
        if (here)
            computation_sort(comp);
        changed |= here;
    }
    if (changed) {
        pass_dce(m, cx);
        module_sort(m);
    }
    return changed;
}
