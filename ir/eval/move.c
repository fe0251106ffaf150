/* Opcodes that only move elements: one strided copy each. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/dense.h"
#include "ir/eval/dynamic.h"
#include "ir/eval/strided.h"

static void copy(EvalCall *call, uint32_t rank, const int64_t *dims, const Value *to,
                 int64_t to_offset, const int64_t *to_strides, const Value *from,
                 int64_t from_offset, const int64_t *from_strides)
{
    int64_t size = (int64_t)value_element_bytes(to);
    strided_copy(
        (size_t)size, rank, dims, (char *)to->data + to_offset * size, to_strides,
        (const char *)eval_data_as(call, from, to->shape->dtype) + from_offset * size,
        from_strides);
}

static void check_rank(EvalCall *call)
{
    if (call->inst->shape->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    for (uint32_t i = 0; i < call->inst->operand_count; i++)
        if (call->operands[i]->shape->rank > EVAL_RANK_MAX)
            eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
}

void eval_broadcast(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t in[EVAL_RANK_MAX], from[EVAL_RANK_MAX] = {0}, to[EVAL_RANK_MAX];
    strides_row_major(x->shape->rank, x->shape->dims, in);
    strides_row_major(v->shape->rank, v->shape->dims, to);
    Ints dims = inst_ints(call->inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        from[dims.data[i]] = in[i];
        if (x->sizes != NULL)
            value_set_size(v, (uint32_t)dims.data[i], x->sizes[i]);
    }
    copy(call, v->shape->rank, v->shape->dims, v, 0, to, x, 0, from);
}

/* Row-major order does not change: the data is shared. */
static Value *same_data(EvalCall *call, Value *x, const Shape *shape)
{
    Value *v = value_tuple(&call->eval->heap, shape_token(eval_intern(call)));
    v->shape = shape;
    v->count = x->count;
    v->data = x->data;
    v->bytes = x->bytes;
    return v;
}

/* The operand's elements under another shape of as many bytes, without a copy where nobody else
 * needs them. */
static Value *eval_reinterpret(EvalCall *call, uint32_t operand, const Shape *shape)
{
    Value *x = call->operands[operand];
    if (x->owned == NULL &&
        x->data != NULL) { /* borrowed from a literal, which outlives all */
        Value *v = same_data(call, x, shape);
        v->bytes = 0;
        return v;
    }
    Value *own = eval_take(call, operand);
    Value *v = same_data(call, own, shape);
    v->owned = own->owned;
    own->owned = NULL;
    own->bytes = 0;
    if (own ==
        x) /* taken from the operand: what is left of it is released by the frame */
        own->data = NULL;
    value_release(own);
    return v;
}

void eval_reshape(EvalCall *call)
{
    const Value *x = call->operands[0];
    if (x->sizes != NULL) {
        dynamic_reshape(call);
    } else if (x->shape->dtype != call->inst->shape->dtype) {
        Value *v = eval_result(call); /* programs may mix float types */
        number_convert(v->shape->dtype, v->data, x->shape->dtype, x->data,
                       (size_t)v->count);
    } else {
        call->result = eval_reinterpret(call, 0, call->inst->shape);
    }
}

void eval_transpose(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t in[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    strides_row_major(x->shape->rank, x->shape->dims, in);
    strides_row_major(v->shape->rank, v->shape->dims, to);
    Ints dims = inst_ints(call->inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        from[i] = in[dims.data[i]];
        if (x->sizes != NULL)
            value_set_size(v, i, x->sizes[dims.data[i]]);
    }
    copy(call, v->shape->rank, v->shape->dims, v, 0, to, x, 0, from);
}

void eval_slice(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    const SliceSpec *spec = inst_attr(call->inst, ATTR_SLICE)->slice;
    int64_t in[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX], offset = 0;
    strides_row_major(x->shape->rank, x->shape->dims, in);
    strides_row_major(v->shape->rank, v->shape->dims, to);
    for (uint32_t d = 0; d < spec->rank; d++) {
        const SliceDim *s = &spec->dims[d];
        offset += s->start * in[d];
        from[d] = in[d] * s->stride;
        if (x->sizes != NULL && x->sizes[d] < x->shape->dims[d]) {
            int64_t limit = x->sizes[d] < s->limit ? x->sizes[d] : s->limit;
            int64_t n =
                limit <= s->start ? 0 : (limit - s->start + s->stride - 1) / s->stride;
            if (v->shape->dynamic != NULL && v->shape->dynamic[d])
                value_set_size(v, d, n);
        }
    }
    copy(call, v->shape->rank, v->shape->dims, v, 0, to, x, offset, from);
}

void eval_reverse(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX], offset = 0;
    strides_row_major(v->shape->rank, v->shape->dims, to);
    memcpy(from, to, sizeof from);
    Ints dims = inst_ints(call->inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t d = dims.data[i];
        /* the valid part of a dynamic dimension is turned round where it lies */
        offset += (value_size(x, (uint32_t)d) - 1) * to[d];
        from[d] = -to[d];
    }
    value_copy_sizes(v, x);
    if (x->sizes == NULL) {
        copy(call, v->shape->rank, v->shape->dims, v, 0, to, x, offset, from);
        return;
    }
    memset(v->data, 0, v->bytes);
    copy(call, v->shape->rank, x->sizes, v, 0, to, x, offset, from);
}

void eval_pad(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0], *fill = call->operands[1];
    Value *v = eval_result(call);
    const Padding *padding = inst_attr(call->inst, ATTR_PADDING)->padding;
    strided_fill(value_element_bytes(v), v->data,
                 eval_data_as(call, fill, v->shape->dtype), v->count);
    uint32_t rank = v->shape->rank;
    int64_t in[EVAL_RANK_MAX], out[EVAL_RANK_MAX], dims[EVAL_RANK_MAX];
    int64_t from_offset = 0, to_offset = 0;
    strides_row_major(rank, x->shape->dims, in);
    strides_row_major(rank, v->shape->dims, out);
    for (uint32_t d = 0; d < rank; d++) {
        /* Elements first .. last of the operand land inside the result. */
        const PaddingDim *p = &padding->dims[d];
        int64_t step = p->interior + 1, size = value_size(x, d);
        int64_t first = p->low < 0 ? (-p->low + step - 1) / step : 0;
        int64_t extent = v->shape->dims[d] - 1 - p->low;
        int64_t last = extent < 0 ? -1 : extent / step;
        last = last > size - 1 ? size - 1 : last;
        dims[d] = last < first ? 0 : last - first + 1;
        from_offset += first * in[d];
        to_offset += (p->low + first * step) * out[d];
        if (size != x->shape->dims[d]) {
            int64_t padded =
                p->low + p->high + size + (size > 0 ? size - 1 : 0) * p->interior;
            value_set_size(v, d, padded < 0 ? 0 : padded);
        }
        out[d] *= step;
    }
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] == 0)
            return;
    copy(call, rank, dims, v, to_offset, out, x, from_offset, in);
}

void eval_concatenate(EvalCall *call)
{
    check_rank(call);
    Value *v = eval_result(call);
    memset(v->data, 0, v->bytes); /* behind dynamic sizes, where a program may look */
    int64_t d = inst_ints(call->inst, ATTR_DIMENSIONS).data[0], at = 0;
    bool is_dynamic = false;
    int64_t to[EVAL_RANK_MAX], from[EVAL_RANK_MAX], dims[EVAL_RANK_MAX];
    strides_row_major(v->shape->rank, v->shape->dims, to);
    for (uint32_t i = 0; i < call->inst->operand_count; i++) {
        const Value *x = call->operands[i];
        strides_row_major(x->shape->rank, x->shape->dims, from);
        memcpy(dims, x->shape->dims, x->shape->rank * sizeof *dims);
        dims[d] = value_size(x, (uint32_t)d);
        copy(call, v->shape->rank, dims, v, at * to[d], to, x, 0, from);
        at += dims[d];
        is_dynamic = is_dynamic || x->sizes != NULL;
        if (i == 0)
            for (uint32_t k = 0; k < x->shape->rank; k++)
                if (k != d && x->sizes != NULL)
                    value_set_size(v, k, x->sizes[k]);
    }
    if (is_dynamic)
        value_set_size(v, (uint32_t)d, at);
}

void eval_iota(EvalCall *call)
{
    check_rank(call);
    Value *v = eval_result(call);
    int64_t d = inst_int(call->inst, ATTR_IOTA_DIMENSION, 0), n = v->shape->dims[d];
    if (v->count == 0)
        return;
    int64_t *counts = eval_temp(call, (size_t)n, sizeof *counts);
    for (int64_t i = 0; i < n; i++)
        counts[i] = i;
    void *row = eval_temp(call, (size_t)n, value_element_bytes(v));
    number_convert(v->shape->dtype, row, DT_S64, counts, (size_t)n);
    int64_t from[EVAL_RANK_MAX] = {0}, to[EVAL_RANK_MAX];
    strides_row_major(v->shape->rank, v->shape->dims, to);
    from[d] = 1;
    strided_copy(value_element_bytes(v), v->shape->rank, v->shape->dims, v->data, to, row,
                 from);
}

/* Start indices of operands[first...], as one vector or as scalars, clamped so that a slice
 * of sizes lies inside x. */
static int64_t clamped_offset(EvalCall *call, uint32_t first, const Value *x,
                              const int64_t *sizes, const int64_t *strides)
{
    uint32_t rank = x->shape->rank;
    bool vector =
        call->inst->operand_count == first + 1 && call->operands[first]->shape->rank == 1;
    if (!vector && call->inst->operand_count != first + rank)
        eval_fail(call, "%u start indices for an array of %u dimensions",
                  call->inst->operand_count - first, rank);
    int64_t offset = 0;
    for (uint32_t d = 0; d < rank; d++) {
        const Value *index = call->operands[vector ? first : first + d];
        int64_t i = value_int(index, vector ? d : 0), most = x->shape->dims[d] - sizes[d];
        if (index->shape->dtype == DT_U64 && i < 0)
            i = most;
        i = i > most ? most : i;
        offset += (i < 0 ? 0 : i) * strides[d];
    }
    return offset;
}

void eval_dynamic_slice(EvalCall *call)
{
    check_rank(call);
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    strides_row_major(x->shape->rank, x->shape->dims, from);
    strides_row_major(v->shape->rank, v->shape->dims, to);
    int64_t offset = clamped_offset(call, 1, x, v->shape->dims, from);
    copy(call, v->shape->rank, v->shape->dims, v, 0, to, x, offset, from);
}

void eval_dynamic_update_slice(EvalCall *call)
{
    check_rank(call);
    const Value *update = call->operands[1];
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    strides_row_major(update->shape->rank, update->shape->dims, from);
    strides_row_major(update->shape->rank, call->operands[0]->shape->dims, to);
    int64_t offset = clamped_offset(call, 2, call->operands[0], update->shape->dims, to);
    Value *v = call->result = eval_take(call, 0);
    const int64_t *dims = update->sizes != NULL ? update->sizes : update->shape->dims;
    copy(call, update->shape->rank, dims, v, offset, to, update, 0, from);
}

/* -- bitcasts ----------------------------------------------------------------------- */

static bool is_row_major(const Shape *s)
{
    int64_t row[EVAL_RANK_MAX], own[EVAL_RANK_MAX];
    strides_row_major(s->rank, s->dims, row);
    shape_strides(s, own);
    for (uint32_t d = 0; d < s->rank; d++)
        if (s->dims[d] != 1 && row[d] != own[d])
            return false;
    return true;
}

/* The bytes in memory stay: logical -> physical by the operand's layout, other element type
 * of other width, physical -> logical by the result's. Sub-byte elements are packed. */
void eval_bitcast(EvalCall *call)
{
    const Shape *from = call->inst->operands[0]->shape, *to = call->inst->shape;
    if (!shape_is_array(from) || !shape_is_array(to)) {
        eval_forward(call);
        return;
    }
    if (dense_has_sizes(call)) {
        dynamic_bitcast(call);
        return;
    }
    check_rank(call);
    Value *x = call->operands[0];
    if (shape_elements(from) == x->count && shape_elements(to) == x->count &&
        from->dtype == to->dtype && is_row_major(from) && is_row_major(to)) {
        call->result = eval_reinterpret(call, 0, to);
        return;
    }
    int64_t logical[EVAL_RANK_MAX], physical[EVAL_RANK_MAX];
    size_t in = value_element_bytes(x), out = dtype_info[to->dtype].storage;
    size_t count = (size_t)shape_elements(to);
    char *bytes = eval_temp(call, (size_t)x->count, in);
    strides_row_major(from->rank, from->dims, logical);
    shape_strides(from, physical);
    strided_copy(in, from->rank, from->dims, bytes, physical, x->data, logical);
    if (from->dtype != to->dtype &&
        (dtype_info[from->dtype].bits < 8 || dtype_info[to->dtype].bits < 8)) {
        size_t packed_in = number_packed_bytes(from->dtype, (size_t)x->count);
        size_t packed_out = number_packed_bytes(to->dtype, count);
        char *packed =
            eval_temp(call, packed_in > packed_out ? packed_in : packed_out, 1);
        number_pack(from->dtype, packed, bytes, (size_t)x->count);
        if (packed_in != packed_out)
            eval_fail(call, "the shapes have different sizes in bytes");
        bytes = eval_temp(call, count, out);
        number_unpack(to->dtype, bytes, packed, count);
    } else if ((size_t)x->count * in != count * out) {
        eval_fail(call, "the shapes have different sizes in bytes");
    }
    Value *v = eval_result(call);
    strides_row_major(to->rank, to->dims, logical);
    shape_strides(to, physical);
    strided_copy(out, to->rank, to->dims, v->data, logical, bytes, physical);
}

/* Row-major data, so a dimension that appears or vanishes is the fastest. */
void eval_bitcast_convert(EvalCall *call)
{
    const Value *x = call->operands[0];
    DType from = x->shape->dtype, to = call->inst->shape->dtype;
    if (dtype_info[from].bits >= 8 && dtype_info[to].bits >= 8) {
        Value *v = call->result = eval_reinterpret(call, 0, call->inst->shape);
        v->count = shape_elements(v->shape);
        return;
    }
    Value *v = eval_result(call);
    size_t packed_in = number_packed_bytes(from, (size_t)x->count);
    size_t packed_out = number_packed_bytes(to, (size_t)v->count);
    char *packed = eval_temp(call, packed_in > packed_out ? packed_in : packed_out, 1);
    number_pack(from, packed, x->data, (size_t)x->count);
    number_unpack(to, v->data, packed, (size_t)v->count);
}
