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

/* The elements that are there, in row-major order, to the positions that are there. */
static void copy_packed(EvalCall *call, const Value *x, Value *v)
{
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX], total = 1;
    int64_t strides[EVAL_RANK_MAX], dense[EVAL_RANK_MAX];
    size_t size = value_element_bytes(x);
    for (uint32_t d = 0; d < x->shape->rank; d++)
        total *= from[d] = value_size(x, d);
    for (uint32_t d = 0; d < v->shape->rank; d++)
        to[d] = value_size(v, d);
    void *packed = eval_temp(call, (size_t)total, size);
    strides_row_major(x->shape->rank, x->shape->dims, strides);
    strides_row_major(x->shape->rank, from, dense);
    strided_copy(size, x->shape->rank, from, packed, dense, x->data, strides);
    strides_row_major(v->shape->rank, v->shape->dims, strides);
    strides_row_major(v->shape->rank, to, dense);
    strided_copy(size, v->shape->rank, to, v->data, strides, packed, dense);
}

static int64_t present_count(const Value *v)
{
    int64_t total = 1;
    for (uint32_t d = 0; d < v->shape->rank; d++)
        total *= value_size(v, d);
    return total;
}

static Value *reshape_result(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = value_zero(&call->eval->heap, call->inst->shape);
    call->result = v;
    if (x->shape->rank > EVAL_RANK_MAX || v->shape->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    return v;
}

void dynamic_reshape(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = reshape_result(call);
    if (keep_sizes(x, v)) {
        memcpy(v->data, x->data, v->bytes);
        return;
    }
    uint32_t free = free_dimension(call);
    int64_t total = present_count(x), others = 1;
    for (uint32_t d = 0; d < v->shape->rank; d++)
        others *= d == free ? 1 : v->shape->dims[d];
    if (others == 0 || total % others != 0 || total / others > v->shape->dims[free])
        eval_fail(call, "%lld elements do not fit the result", (long long)total);
    for (uint32_t d = 0; d < v->shape->rank; d++)
        value_set_size(v, d, d == free ? total / others : v->shape->dims[d]);
    copy_packed(call, x, v);
}

void dynamic_bitcast(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = reshape_result(call);
    if (x->shape->dtype != v->shape->dtype || !shape_is_row_major(x->shape) ||
        !shape_is_row_major(v->shape) || !keep_sizes(x, v))
        eval_unsupported(call, "an operand of dynamic size that changes more than ones");
    memcpy(v->data, x->data, v->bytes);
}

void eval_dynamic_reshape(EvalCall *call)
{
    Value *v = reshape_result(call);
    for (uint32_t i = 1; i < call->inst->operand_count; i++) {
        int64_t size = value_int(call->operands[i], 0);
        if (size < 0 || size > v->shape->dims[i - 1])
            eval_fail(call, "size %lld of dimension %u is not between 0 and %lld",
                      (long long)size, i - 1, (long long)v->shape->dims[i - 1]);
        value_set_size(v, i - 1, size);
    }
    if (present_count(v) != present_count(call->operands[0]))
        eval_fail(call, "%lld elements become %lld",
                  (long long)present_count(call->operands[0]),
                  (long long)present_count(v));
    copy_packed(call, call->operands[0], v);
}

void dynamic_fill(const Value *x, const void *fill, void *out)
{
    int64_t strides[EVAL_RANK_MAX];
    strides_row_major(x->shape->rank, x->shape->dims, strides);
    strided_fill(value_element_bytes(x), out, fill, x->count);
    strided_copy(value_element_bytes(x), x->shape->rank, x->sizes, out, strides, x->data,
                 strides);
}

void pad_to_static(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = eval_result(call), *array = v->elements[0];
    uint32_t rank = x->shape->rank;
    if (rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    int64_t sizes[EVAL_RANK_MAX], strides[EVAL_RANK_MAX];
    strides_row_major(rank, x->shape->dims, strides);
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = value_size(x, d);
        number_set_int(v->elements[d + 1]->shape->dtype, v->elements[d + 1]->data,
                       sizes[d]);
    }
    memset(array->data, 0, array->bytes);
    strided_copy(value_element_bytes(x), rank, sizes, array->data, strides, x->data,
                 strides);
}

void slice_to_dynamic(EvalCall *call)
{
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    if (call->inst->operand_count != x->shape->rank + 1 || v->count != x->count)
        eval_unsupported(call,
                         "another form than an array and a size for each dimension");
    memcpy(v->data, x->data, v->bytes);
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        int64_t size = value_int(call->operands[d + 1], 0);
        if (size < 0 || size > x->shape->dims[d])
            eval_fail(call, "size %lld of dimension %u is not between 0 and %lld",
                      (long long)size, d, (long long)x->shape->dims[d]);
        if (v->shape->dynamic != NULL && v->shape->dynamic[d])
            value_set_size(v, d, size);
    }
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
