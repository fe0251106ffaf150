/* Loop-invariant code motion: what a body computes from invariant values only is computed once,
 * before the loop, and carried through it unchanged.
 *
 *   body: t.0 is passed on unchanged, u = transpose(t.0), ...
 *     =>  before: u = transpose(init.0); body: reads u as one more carried value
 *
 * Needs: pass_loops (constants are inside already). Keeps: everything. Breaks: nothing.
 * Only what costs a kernel of its own and is no larger than what it is made of: a broadcast that
 * every trip makes again inside a fusion costs less than reading it from memory.
 * Ends: each change removes instructions from a body. Carried values that cost nothing to make
 * are left by the cost rule, so nothing is moved twice. */
#include <string.h>

#include "ir/analysis/loop.h"
#include "passes/simplify/simplify.h"

static bool may_move(const Instruction *inst)
{
    if (op_is(inst->op, OPF_EFFECT | OPF_COLLECTIVE | OPF_CONTROL | OPF_BOUNDARY |
                            OPF_RANDOM | OPF_ASYNC_START | OPF_ASYNC_DONE))
        return false;
    return inst->control_count == 0 && shape_is_array(inst->shape) &&
           !inst->shape->dynamic && inst->op != OP_PARAMETER &&
           inst->op != OP_ASYNC_UPDATE;
}

/* Made again for less than a read from memory, or the operand under another name. */
static bool is_cheap(const Instruction *inst)
{
    switch (inst->op) {
    case OP_CONSTANT:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_BITCAST_CONVERT:
    case OP_GET_TUPLE_ELEMENT:
    case OP_SLICE:
        return true;
    default:
        return shape_is_scalar(inst->shape);
    }
}

static bool is_worth(const Instruction *inst)
{
    int64_t inputs = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *from = inst->operands[i];
        if (shape_is_array(from->shape) && from->op != OP_BROADCAST)
            inputs += shape_bytes(from->shape);
    }
    return !is_cheap(inst) && shape_bytes(inst->shape) <= inputs;
}

/* Marks the instructions of the body that invariant elements and constants determine. */
static bool *find_invariant(const Loop *loop, Instruction **order, uint32_t n,
                            Arena *scratch)
{
    const Computation *body = loop->body;
    bool *invariant = ARENA_ARRAY(scratch, bool, body->instruction_count);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = order[i];
        if (inst->op == OP_GET_TUPLE_ELEMENT &&
            inst->operands[0] == body->parameters[0]) {
            invariant[inst->id] =
                loop_is_invariant(loop, (uint32_t)inst_int(inst, ATTR_INDEX, 0));
            continue;
        }
        bool all = may_move(inst);
        for (uint32_t k = 0; all && k < inst->operand_count; k++)
            all = invariant[inst->operands[k]->id];
        invariant[inst->id] = all;
    }
    return invariant;
}

/* The value of an invariant instruction of the body, computed before the loop. Operands come
 * before it in `order`, so they are asked for from a stack. */
static Instruction *moved(const Loop *loop, Instruction *inst, Instruction **outside,
                          Arena *scratch)
{
    Computation *comp = loop->inst->parent;
    Instruction **stack = ARENA_ARRAY(scratch, Instruction *,
                                      (size_t)loop->body->instruction_count * 2 + 1);
    size_t top = 0;
    stack[top++] = inst;
    while (top > 0) {
        Instruction *at = stack[top - 1];
        bool ready = true;
        if (at->op == OP_GET_TUPLE_ELEMENT) {
            outside[at->id] = loop->init->operands[inst_int(at, ATTR_INDEX, 0)];
            top--;
            continue;
        }
        for (uint32_t k = 0; ready && k < at->operand_count; k++)
            if (!outside[at->operands[k]->id]) {
                stack[top++] = at->operands[k];
                ready = false;
            }
        if (!ready)
            continue;
        Instruction **operands = ARENA_ARRAY(scratch, Instruction *, at->operand_count);
        for (uint32_t k = 0; k < at->operand_count; k++)
            operands[k] = outside[at->operands[k]->id];
        outside[at->id] =
            computation_add_like(comp, at, at->shape, at->operand_count, operands);
        top--;
    }
    return outside[inst->id];
}

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

static void carry(Loop *loop, uint32_t count, Instruction *const *values, Arena *scratch)
{
    Module *m = loop->inst->parent->module;
    Instruction **outside =
        ARENA_ARRAY(scratch, Instruction *, loop->body->instruction_count);
    Instruction **inits = ARENA_ARRAY(scratch, Instruction *, count);
    Instruction **reads = ARENA_ARRAY(scratch, Instruction *, count);
    const Shape **shapes =
        ARENA_ARRAY(scratch, const Shape *, (size_t)loop->count + count);
    memcpy(shapes, loop->inst->shape->elements, loop->count * sizeof *shapes);
    for (uint32_t i = 0; i < count; i++) {
        inits[i] = moved(loop, values[i], outside, scratch);
        shapes[loop->count + i] = values[i]->shape;
    }
    const Shape *shape = shape_tuple(m->intern, loop->count + count, shapes);
    Instruction **forward = ARENA_ARRAY(
        scratch, Instruction *, (size_t)loop->body->instruction_count + count + 1);
    Instruction *p = loop->body->parameters[0];
    for (uint32_t i = 0; i < count; i++) {
        reads[i] = computation_add(loop->body, OP_GET_TUPLE_ELEMENT, values[i]->shape, 1,
                                   &p, NULL);
        inst_set_int(reads[i], ATTR_INDEX, (int64_t)loop->count + i);
        forward[values[i]->id] = reads[i];
    }
    computation_replace(loop->body, forward);
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

static bool is_used_by_element(const Instruction *inst)
{
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

static bool hoist(Loop *loop, Arena *scratch)
{
    uint32_t n, count = 0;
    Instruction **order = computation_post_order(loop->body, scratch, &n);
    bool *invariant = find_invariant(loop, order, n, scratch);
    bool *wanted = ARENA_ARRAY(scratch, bool, loop->body->instruction_count);
    Instruction **values = ARENA_ARRAY(scratch, Instruction *, n);
    for (uint32_t i = n; i-- > 0;) {
        Instruction *inst = order[i];
        bool inside = !invariant[inst->id]; /* it stays in the body */
        if (invariant[inst->id] && wanted[inst->id]) {
            if (is_worth(inst))
                values[count++] = inst;
            else
                inside = true;
        }
        for (uint32_t k = 0; inside && k < inst->operand_count; k++)
            wanted[inst->operands[k]->id] = true;
    }
    if (count == 0 || count > 256 || !is_used_by_element(loop->inst))
        return false;
    carry(loop, count, values, scratch);
    return true;
}

bool pass_hoist(Module *m, PassContext *cx)
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
                here |= hoist(&loop, cx->scratch);
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
