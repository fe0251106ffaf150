/* What an async-update or async-done and its start know of each other, written in sugar (build_async.c) or in full
 * (section 9.6). */
#include <string.h>

#include "frontend/hlo/parser.h"

bool async_is_shape(const Shape *s)
{
    return s != NULL && shape_is_tuple(s) && s->rank >= 2 &&
           shape_is_tuple(s->elements[0]);
}

const Instruction *async_start_of(const Instruction *inst)
{
    while (inst->op == OP_ASYNC_UPDATE && inst->operand_count != 0)
        inst = inst->operands[0];
    return inst->op == OP_ASYNC_START ? inst : NULL;
}

void async_bind(Parser *p, Computation *comp, const Shape *inputs, const Shape *result)
{
    Instruction *root = comp->root;
    uint32_t old = comp->parameter_count, count = inputs != NULL ? inputs->rank : old;
    for (uint32_t i = 0; inputs != NULL && i < old && i < count; i++)
        comp->parameters[i]->shape = inputs->elements[i];
    root->shape = result;
    if (count <= old)
        return;
    Instruction **parameters = ARENA_ARRAY(p->arena, Instruction *, count);
    Instruction **all = ARENA_ARRAY(p->arena, Instruction *, count + 1u);
    for (uint32_t i = 0; i < old; i++)
        parameters[i] = comp->parameters[i];
    for (uint32_t i = old; i < count; i++) {
        parameters[i] =
            computation_append(comp, OP_PARAMETER, inputs->elements[i], 0, NULL);
        parameters[i]->name = "async_param";
        parameters[i]->span = root->span;
        parameters[i]->parameter = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        all[i] = parameters[i];
        all[i]->id = i;
    }
    all[count] = root;
    root->id = count;
    root->operands = parameters;
    root->operand_count = count;
    comp->parameters = arena_copy(p->arena, parameters, count * sizeof(Instruction *));
    comp->parameter_count = count;
    comp->instructions = all;
    comp->instruction_count = count + 1;
    comp->instruction_capacity = count + 1;
}

bool async_rules(Parser *p, Instruction *inst)
{
    const Instruction *start =
        inst->operand_count != 0 ? async_start_of(inst->operands[0]) : NULL;
    if (start == NULL) {
        diag_error(
            p->diag, inst->span,
            "%s expects the result of async-start or async-update as its first operand",
            op_info[inst->op].name);
        return false;
    }
    /* an update in full after a start by sugar */
    Computation *comp = inst_called(start, 0);
    if (inst->op == OP_ASYNC_UPDATE && comp->is_async_wrapped &&
        async_is_shape(inst->shape) &&
        inst->shape->elements[0]->rank > comp->parameter_count)
        async_bind(p, comp, inst->shape->elements[0], inst->shape->elements[1]);
    const Attr *calls = inst_attr(inst, ATTR_CALLS);
    if (calls != NULL && calls->computations.data[0] != inst_called(start, 0)) {
        diag_error(p->diag, calls->span, "%s does not call what its start %s calls: %s",
                   op_info[inst->op].name, start->name, inst_called(start, 0)->name);
        return false;
    }
    inst_unset(inst, ATTR_CALLS);
    const Attr *thread = inst_attr(inst, ATTR_ASYNC_EXECUTION_THREAD);
    Bytes started = inst_bytes(start, ATTR_ASYNC_EXECUTION_THREAD);
    const char *expected = started.length != 0 ? started.data : "main";
    if (thread != NULL && strcmp(thread->bytes.data, expected) != 0) {
        diag_error(p->diag, thread->span,
                   "%s runs on thread \"%s\", but its start %s on thread \"%s\"",
                   op_info[inst->op].name, thread->bytes.data, start->name, expected);
        return false;
    }
    inst_unset(inst, ATTR_ASYNC_EXECUTION_THREAD);
    return true;
}
