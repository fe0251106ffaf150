/* Initial values that nobody reads: an array that a loop fills piece by piece need not hold anything before.
 *
 *   z = f32[32,8] broadcast(0)     body: s = dynamic-update-slice(s, x, i, 0), with i = 0, 1, ... 31
 *   ->  z = f32[32,8] custom-call(), custom_call_target="AllocateBuffer"
 *
 * What a scan stacks, and the gradients of what it reads, begin as zeros by the text: the bytes are neither
 * written nor, until the loop runs, there. Only where the loop is known to write every element, and reads none.
 *
 * Needs: laid out. Keeps: what anybody reads. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/loop.h"
#include "ir/analysis/loop_slice.h"
#include "passes/memory/memory.h"
#include "passes/simplify/simplify.h"

static bool visit(Instruction *inst, PassContext *cx)
{
    Loop loop;
    if (!loop_analyse(inst, &loop))
        return false;
    bool changed = false;
    for (uint32_t i = 0; i < loop.count; i++) {
        const Instruction *init = loop.init->operands[i];
        if (init->op != OP_BROADCAST || !loop_fills(inst, i))
            continue;
        Instruction *memory = computation_add(inst->parent, OP_CUSTOM_CALL, init->shape,
                                              0, NULL, init->name);
        inst_set_bytes(memory, ATTR_CUSTOM_CALL_TARGET, "AllocateBuffer",
                       strlen("AllocateBuffer"));
        memory->span = init->span;
        if (!changed)
            inst->operands[0] = loop.init =
                computation_add_like(inst->parent, loop.init, loop.init->shape,
                                     loop.init->operand_count, loop.init->operands);
        loop.init->operands[i] = memory;
        cx->counts.unread_values++;
        changed = true;
    }
    return changed;
}

bool pass_unread_values(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    bool changed = false;
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        Computation *comp = programs.data[c];
        uint32_t count = comp->instruction_count;
        for (uint32_t i = 0; i < count; i++) {
            Instruction *inst = comp->instructions[i];
            if (inst != NULL && inst->op == OP_WHILE &&
                calls[inst_called(inst, 1)->id] == 1)
                changed |= visit(inst, cx);
        }
    }
    if (changed) {
        pass_dce(m, cx);
        module_sort(m);
    }
    return changed;
}
