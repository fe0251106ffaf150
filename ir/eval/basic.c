/* Values in and out: parameters, constants, tuples, tokens, ids of devices, and what passes
 * its operand on. Also the helpers of call.h that make values. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/run.h"
#include "ir/eval/strided.h"

/* -- helpers ------------------------------------------------------------------------ */

Value *eval_array(EvalCall *call, const Shape *shape)
{
    return value_array(&call->eval->heap, shape);
}

static Value *make_result(EvalCall *call, const Shape *shape)
{
    if (shape_is_array(shape))
        return value_array(&call->eval->heap, shape);
    if (shape->dtype == DT_BUFFER)
        return make_result(call, shape->elements[0]);
    if (shape->dtype != DT_TUPLE)
        return value_token(&call->eval->heap, shape);
    Value *v = value_tuple(&call->eval->heap, shape);
    for (uint32_t i = 0; i < shape->rank; i++)
        v->elements[i] = make_result(call, shape->elements[i]);
    return v;
}

Value *eval_result(EvalCall *call)
{
    return call->result = make_result(call, call->inst->shape);
}

/* The instruction is the value's last reader, and reads it by this operand only. */
static bool dies_here(const EvalCall *call, uint32_t operand)
{
    const Frame *f = call->frame;
    uint32_t id = call->inst->operands[operand]->id;
    for (uint32_t i = 0; i < call->inst->operand_count; i++)
        if (i != operand && call->inst->operands[i]->id == id)
            return false;
    for (uint32_t i = f->plan->dead_start[f->next]; i < f->plan->dead_start[f->next + 1];
         i++)
        if (f->plan->dead[i] == id)
            return true;
    return false;
}

Value *eval_take(EvalCall *call, uint32_t operand)
{
    Value *v = call->operands[operand];
    if (v->references == 1 && v->owned != NULL && dies_here(call, operand))
        return value_retain(v);
    Value *copy = eval_array(call, v->shape);
    memcpy(copy->data, v->data, (size_t)v->count * value_element_bytes(v));
    value_copy_sizes(copy, v);
    return copy;
}

const void *eval_data_as(EvalCall *call, const Value *x, DType t)
{
    if (x->shape->dtype == t)
        return x->data;
    void *out = eval_temp(call, (size_t)x->count, dtype_info[t].storage);
    number_convert(t, out, x->shape->dtype, x->data, (size_t)x->count);
    return out;
}

void *eval_temp(EvalCall *call, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        escape_throw(ESCAPE_MEMORY, "evaluation needs too much memory");
    return value_heap_temp(&call->eval->heap, count * size);
}

/* -- opcodes ------------------------------------------------------------------------ */

void eval_parameter(EvalCall *call)
{
    Frame *f = call->frame;
    int64_t number = call->inst->parameter;
    if (number < 0 || number >= f->argument_count)
        eval_fail(call, "there is no argument %lld", (long long)number);
    Value *v = f->arguments[number];
    if (v == NULL) /* two parameter instructions of one number */
        eval_fail(call, "argument %lld is read twice", (long long)number);
    f->arguments[number] = NULL; /* moved: it dies with its last use */
    call->result = v;
}

void eval_constant(EvalCall *call)
{
    const Literal *l = call->inst->literal;
    if (literal_has_elided(l))
        eval_fail(call,
                  "the text holds {...} in place of this constant's value: print the "
                  "program with its large constants (JAX: as_hlo_text(True), XLA_FLAGS: "
                  "--xla_dump_large_constants, HloPrintOptions: print_large_constants)");
    call->result = value_borrow(&call->eval->heap, l);
}

void eval_tuple(EvalCall *call)
{
    Value *v = value_tuple(&call->eval->heap, call->inst->shape);
    for (uint32_t i = 0; i < call->inst->operand_count; i++)
        v->elements[i] = value_retain(call->operands[i]);
    call->result = v;
}

void eval_get_tuple_element(EvalCall *call)
{
    int64_t index = inst_int(call->inst, ATTR_INDEX, 0);
    const Value *v = call->operands[0];
    if (v->shape->dtype != DT_TUPLE || index < 0 || index >= v->shape->rank ||
        v->elements[index] == NULL)
        eval_fail(call, "there is no element %lld", (long long)index);
    call->result = value_retain(v->elements[index]);
}

Value *eval_as(EvalCall *call, Value *x, const Shape *shape)
{
    DType from = x->shape->dtype, to = shape->dtype;
    if (shape_compatible(x->shape, shape))
        return value_retain(x);
    if (shape_is_tuple(shape)) {
        Value *v = value_tuple(&call->eval->heap, shape);
        for (uint32_t i = 0; i < shape->rank; i++)
            v->elements[i] = eval_as(call, x->elements[i], shape->elements[i]);
        return v;
    }
    if (!dtype_is_float(from) || !dtype_is_float(to))
        return value_retain(x);
    Value *v = eval_array(call, shape_with_dtype(eval_intern(call), x->shape, to));
    for (uint32_t d = 0; x->sizes != NULL && d < v->shape->rank; d++)
        value_set_size(v, d, x->sizes[d]);
    number_convert(to, v->data, from, x->data, (size_t)x->count);
    return v;
}

void eval_forward(EvalCall *call)
{
    call->result = eval_as(call, call->operands[0], call->inst->shape);
}

void eval_token(EvalCall *call)
{
    call->result = value_token(&call->eval->heap, call->inst->shape);
}

void eval_device_id(EvalCall *call)
{
    Value *v = eval_result(call);
    bool replica = call->inst->op == OP_REPLICA_ID;
    number_set_int(v->shape->dtype, v->data,
                   replica ? call->device->replica : call->device->partition);
}

void eval_copy_start(EvalCall *call)
{
    Value *v = value_tuple(&call->eval->heap, call->inst->shape);
    for (uint32_t i = 0; i < call->inst->shape->rank; i++)
        v->elements[i] =
            i < 2 ? value_retain(call->operands[0])
                  : value_zero(&call->eval->heap, call->inst->shape->elements[i]);
    call->result = v;
}

void eval_copy_done(EvalCall *call)
{
    call->result = value_retain(call->operands[0]->elements[0]);
}
