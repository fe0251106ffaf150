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
#include "passes/simplify/carry.h"
#include "passes/simplify/remade.h"
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
        return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) &&
               shape_is_scalar(inst->shape);
    }
}

/* It has no bytes of its own: its reader computes it. */
static bool is_free(const Instruction *inst)
{
    return inst->op == OP_BROADCAST || inst->op == OP_IOTA;
}

static bool is_worth(Instruction *inst)
{
    int64_t inputs = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *from = inst->operands[i];
        if (shape_is_array(from->shape) && !is_free(from))
            inputs += shape_bytes(from->shape);
    }
    Remade remade;
    return !is_cheap(inst) && shape_bytes(inst->shape) <= inputs &&
           !remade_find(inst, &remade);
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
        if (at->op == OP_GET_TUPLE_ELEMENT &&
            at->operands[0] == loop->body->parameters[0]) {
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

static void carry(Loop *loop, uint32_t count, Instruction *const *values, Arena *scratch)
{
    uint32_t inside = loop->body->instruction_count;
    Instruction **outside = ARENA_ARRAY(scratch, Instruction *, inside);
    Instruction **inits = ARENA_ARRAY(scratch, Instruction *, count);
    Instruction **reads = ARENA_ARRAY(scratch, Instruction *, count);
    Instruction **forward =
        ARENA_ARRAY(scratch, Instruction *, (size_t)inside + 2u * count + 2);
    for (uint32_t i = 0; i < count; i++)
        inits[i] = moved(loop, values[i], outside, scratch);
    carry_values(loop, count, inits, reads, scratch);
    for (uint32_t i = 0; i < count; i++)
        forward[values[i]->id] = reads[i];
    computation_replace(loop->body, forward);
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
    if (count == 0 || count > 256 || !carry_is_possible(loop))
        return false;
    carry(loop, count, values, scratch);
    return true;
}

bool pass_hoist(Module *m, PassContext *cx)
{
    return carry_each_loop(m, hoist, cx);
}
