/* Opcodes that make, read and keep run-time sizes. The elements of such an array lie at the
 * bounds of its shape; what lies beyond the sizes is never read. */
#include "ir/eval/dynamic.h"

#include <string.h>

#include "ir/eval/strided.h"

/* A dynamic dimension that keeps its size and the number of elements before it keeps its run-time
 * size. False: some dimension does not. */
static bool keep_sizes(const Value *x, Value *v)
{
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        if (x->sizes[d] == x->shape->dims[d])
            continue;
        int64_t before = 1, product = 1;
        for (uint32_t k = 0; k < d; k++)
            before *= x->shape->dims[k];
        uint32_t at = 0;
        while (at < v->shape->rank && product < before)
            product *= v->shape->dims[at++];
        while (at < v->shape->rank && v->shape->dims[at] == 1 && x->shape->dims[d] != 1)
            at++;
        if (at == v->shape->rank || product != before ||
            v->shape->dims[at] != x->shape->dims[d])
            return false;
        value_set_size(v, at, x->sizes[d]);
    }
    return true;
}

/* The one dimension of the result whose size follows from the others. */
static uint32_t free_dimension(EvalCall *call)
{
    const Shape *s = call->inst->shape;
    int64_t inferred = inst_int(call->inst, ATTR_INFERRED_DIMENSION, -1);
    uint32_t found = s->rank, count = 0;
    if (inferred >= 0 && inferred < s->rank)
        return (uint32_t)inferred;
    for (uint32_t d = 0; s->dynamic != NULL && d < s->rank; d++) {
        if (!s->dynamic[d])
            continue;
        found = d;
        count++;
    }
    if (count != 1)
        eval_unsupported(call, "a reshape that splits or merges dynamic dimensions");
    return found;
}

void dynamic_reshape(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = value_zero(&call->eval->heap, call->inst->shape);
    call->result = v;
    if (x->shape->rank > EVAL_RANK_MAX || v->shape->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    if (keep_sizes(x, v)) {
        memcpy(v->data, x->data, v->bytes);
        return;
    }
    uint32_t free = free_dimension(call);
    int64_t total = 1, others = 1;
    for (uint32_t d = 0; d < x->shape->rank; d++)
        total *= x->sizes[d];
    for (uint32_t d = 0; d < v->shape->rank; d++)
        others *= d == free ? 1 : v->shape->dims[d];
    if (others == 0 || total % others != 0 || total / others > v->shape->dims[free])
        eval_fail(call, "%lld elements do not fit the result", (long long)total);
    for (uint32_t d = 0; d < v->shape->rank; d++)
        value_set_size(v, d, d == free ? total / others : v->shape->dims[d]);
    if (v->sizes == NULL || total == 0)
        return;
    int64_t strides[EVAL_RANK_MAX], dense[EVAL_RANK_MAX];
    size_t size = value_element_bytes(x);
    void *packed = eval_temp(call, (size_t)total, size);
    strides_row_major(x->shape->rank, x->shape->dims, strides);
    strides_row_major(x->shape->rank, x->sizes, dense);
    strided_copy(size, x->shape->rank, x->sizes, packed, dense, x->data, strides);
    strides_row_major(v->shape->rank, v->shape->dims, strides);
    strides_row_major(v->shape->rank, v->sizes, dense);
    strided_copy(size, v->shape->rank, v->sizes, v->data, strides, packed, dense);
}

void eval_dynamic_reshape(EvalCall *call)
{
    const Value *x = call->operands[0];
    if (x->sizes != NULL)
        eval_unsupported(call, "an operand with dynamic dimensions");
    int64_t elements = 1;
    for (uint32_t i = 1; i < call->inst->operand_count; i++)
        elements *= value_int(call->operands[i], 0);
    if (elements != x->count)
        eval_unsupported(call, "sizes whose product is not the operand's element count");
    Value *v = call->result = eval_reinterpret(call, 0, call->inst->shape);
    for (uint32_t i = 1; i < call->inst->operand_count; i++)
        value_set_size(v, i - 1, value_int(call->operands[i], 0));
}

void eval_set_dimension_size(EvalCall *call)
{
    int64_t d = inst_ints(call->inst, ATTR_DIMENSIONS).data[0];
    int64_t size = value_int(call->operands[1], 0), bound = call->inst->shape->dims[d];
    if (size < 0 || size > bound)
        eval_fail(call, "size %lld of dimension %lld is not between 0 and %lld",
                  (long long)size, (long long)d, (long long)bound);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    memcpy(v->data, x->data, v->bytes);
    value_copy_sizes(v, x);
    value_set_size(v, (uint32_t)d, size);
}

void eval_get_dimension_size(EvalCall *call)
{
    const Value *x = call->operands[0];
    int64_t d = inst_ints(call->inst, ATTR_DIMENSIONS).data[0];
    int64_t size = value_size(x, (uint32_t)d);
    Value *v = eval_result(call);
    number_set_int(v->shape->dtype, v->data, size);
}
