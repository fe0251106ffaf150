/* Opcodes that run computations as programs: each pushes a frame and is called again. */
#include "ir/eval/call.h"

enum { START, CONDITION, BODY, DONE };

void eval_call(EvalCall *call)
{
    if (call->phase == DONE) {
        call->result = call->returned;
        return;
    }
    eval_push(call, inst_called(call->inst, 0), call->inst->operand_count, call->operands,
              DONE);
}

void eval_fusion(EvalCall *call)
{
    if (call->phase == DONE) {
        call->result = call->returned;
        return;
    }
    const Computation *comp = inst_called(call->inst, 0);
    uint32_t n =
        call->inst->operand_count; /* operands behind the last parameter are not read */
    eval_push(call, comp, n < comp->parameter_count ? n : comp->parameter_count,
              call->operands, DONE);
}

/* The element of the parameter that inst is; -1: it is another value. */
static int64_t element_of_parameter(const Instruction *inst)
{
    if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0]->op != OP_PARAMETER)
        return -1;
    return inst_int(inst, ATTR_INDEX, 0);
}

static bool is_invariant(const Computation *body, int64_t element)
{
    const Instruction *root = body->root;
    return root->op == OP_TUPLE && element < root->operand_count &&
           element_of_parameter(root->operands[element]) == element;
}

/* Reads the condition nothing that the body changes? Then a loop that is entered never ends. */
static bool never_ends(const Computation *condition, const Computation *body)
{
    for (const Instruction *inst = inst_first(condition); inst; inst = inst_next(inst)) {
        if (inst->op == OP_PARAMETER)
            continue;
        if (op_is(inst->op, OPF_EFFECT | OPF_COLLECTIVE | OPF_RANDOM) ||
            inst_called_count(inst) > 0)
            return false;
        int64_t element = element_of_parameter(inst);
        if (element >= 0 && !is_invariant(body, element))
            return false;
        for (uint32_t k = 0; element < 0 && k < inst->operand_count; k++)
            if (inst->operands[k]->op == OP_PARAMETER)
                return false;
    }
    return condition->root->op != OP_PARAMETER;
}

void eval_while(EvalCall *call)
{
    const Computation *condition =
        inst_attr(call->inst, ATTR_CONDITION)->computations.data[0];
    const Computation *body = inst_attr(call->inst, ATTR_BODY)->computations.data[0];
    if (call->phase == CONDITION) {
        bool goes_on = value_int(call->returned, 0) != 0;
        value_release(call->returned);
        Value *state = call->state;
        call->state = NULL;
        if (!goes_on) {
            call->result = state;
            return;
        }
        if (state->references > 1 && never_ends(condition, body)) /* first round */
            eval_fail(
                call,
                "the loop never ends: its condition '%s' holds and depends on nothing "
                "that its body changes",
                condition->name);
        eval_push(call, body, 1, &state, BODY);
        value_release(state); /* the frame holds it: the body may update it in place */
        return;
    }
    call->state = call->phase == START ? value_retain(call->operands[0]) : call->returned;
    eval_push(call, condition, 1, &call->state, CONDITION);
}

void eval_conditional(EvalCall *call)
{
    if (call->phase == DONE) {
        call->result = call->returned;
        return;
    }
    int64_t branches = inst_called_count(call->inst), branch;
    const Value *index = call->operands[0];
    if (index->shape->dtype == DT_PRED) {
        branch = value_int(index, 0) != 0 ? 0 : 1;
    } else {
        branch = value_int(index, 0);
        if (branch < 0 || branch >= branches)
            branch = branches - 1;
    }
    if (branch >= branches || branch + 1 >= call->inst->operand_count)
        eval_fail(call, "there is no branch %lld", (long long)branch);
    eval_push(call, inst_called(call->inst, (uint32_t)branch), 1,
              &call->operands[branch + 1], DONE);
}

/* -- asynchronous computations --------------------------------------------------------
 *
 * The value of a start or update is the tuple of its shape. Element 0 holds the operands
 * bound so far. The computation runs where the last operand is bound, at the latest in
 * async-done; element 1 holds its result from then on. */

static const Computation *async_computation(const Instruction *inst)
{
    while (inst->op != OP_ASYNC_START && inst->operand_count > 0 &&
           !inst_has(inst, ATTR_CALLS))
        inst = inst->operands[0];
    return inst_called(inst, 0);
}

/* A tuple as deep as the instruction's shape, with the operands bound. */
static Value *async_bind(EvalCall *call, const Value *before, uint32_t first)
{
    const Shape *shape = call->inst->shape;
    const Shape *bound = shape->elements[0];
    ValueHeap *heap = &call->eval->heap;
    Value *v = value_tuple(heap, shape);
    v->elements[0] = value_tuple(heap, bound);
    for (uint32_t i = 2; i < shape->rank; i++)
        v->elements[i] = value_zero(heap, shape->elements[i]);
    uint32_t old = before != NULL ? before->elements[0]->shape->rank : 0;
    for (uint32_t i = 0; i < bound->rank; i++) {
        uint32_t mine = i - old + first;
        if (i < old && before != NULL)
            v->elements[0]->elements[i] = value_retain(before->elements[0]->elements[i]);
        else if (mine < call->inst->operand_count)
            v->elements[0]->elements[i] = value_retain(call->operands[mine]);
        else
            eval_fail(call, "its shape holds more operands than are bound");
    }
    if (before != NULL && before->elements[1] != NULL)
        v->elements[1] = value_retain(before->elements[1]);
    return v;
}

/* state is the bound tuple: runs the computation if all is there and it has not run. */
static void async_run(EvalCall *call)
{
    const Computation *comp = async_computation(call->inst);
    Value *bound = call->state->elements[0];
    if (call->state->elements[1] == NULL && bound->shape->rank == comp->parameter_count) {
        eval_push(call, comp, bound->shape->rank, bound->elements, DONE);
        return;
    }
    call->result = call->state;
    call->state = NULL;
}

static void async_finish(EvalCall *call)
{
    value_release(call->state->elements[1]);
    call->state->elements[1] = call->returned;
    call->result = call->state;
    call->state = NULL;
}

void eval_async_start(EvalCall *call)
{
    if (call->phase == DONE) {
        async_finish(call);
        return;
    }
    call->state = async_bind(call, NULL, 0);
    async_run(call);
}

void eval_async_update(EvalCall *call)
{
    if (call->phase == DONE) {
        async_finish(call);
        return;
    }
    call->state = async_bind(call, call->operands[0], 1);
    async_run(call);
}

void eval_async_done(EvalCall *call)
{
    if (call->phase == DONE) {
        call->result = call->returned;
        return;
    }
    const Value *v = call->operands[0];
    if (v->elements[1] != NULL) {
        call->result = value_retain(v->elements[1]);
        return;
    }
    const Value *bound = v->elements[0];
    eval_push(call, async_computation(call->inst), bound->shape->rank, bound->elements,
              DONE);
}
