/* Shape rules of operations that move, select or make elements: broadcast, slices, pad,
 * concatenate, gather, ... (sections 9.1 - 9.4, 9.10 of the language). */
#include "ir/infer/rules.h"

const Shape *infer_same(InferContext *cx, const Instruction *inst)
{
    (void)cx;
    return operand(inst, 0);
}

/* The verifier compares sizes and bytes where layouts count; otherwise anything goes. */
const Shape *infer_bitcast(InferContext *cx, const Instruction *inst)
{
    return infer_want_shape(cx, inst) ? inst->shape : NULL;
}

/* Same width: same sizes. To a narrower type: a last dimension of the ratio is appended; to
 * a wider one: it is dropped. */
const Shape *infer_bitcast_convert(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1) || !infer_want_array_shape(cx, inst))
        return NULL;
    const Shape *s = operand(inst, 0);
    DType to = inst->shape->dtype;
    int64_t from_bits = dtype_info[s->dtype].bits, to_bits = dtype_info[to].bits;
    if (dtype_is_complex(s->dtype) != dtype_is_complex(to))
        return infer_error(cx, inst,
                           "cannot turn %s into %s: one is complex, one is real",
                           infer_text(cx, s), infer_text(cx, inst->shape));
    if (from_bits == to_bits)
        return infer_with_dtype(cx, s, to);
    if ((from_bits > to_bits ? from_bits % to_bits : to_bits % from_bits) != 0)
        return infer_error(cx, inst, "the width of %s is no multiple of that of %s",
                           dtype_name(from_bits > to_bits ? s->dtype : to),
                           dtype_name(from_bits > to_bits ? to : s->dtype));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank + 1);
    bool *dynamic = s->dynamic ? ARENA_ARRAY(cx->arena, bool, s->rank + 1) : NULL;
    for (uint32_t i = 0; i < s->rank; i++) {
        dims[i] = s->dims[i];
        if (dynamic)
            dynamic[i] = s->dynamic[i];
    }
    if (from_bits > to_bits) {
        dims[s->rank] = from_bits / to_bits;
        return infer_array(cx, inst, to, s->rank + 1, dims, dynamic);
    }
    if (s->rank == 0 || s->dims[s->rank - 1] != to_bits / from_bits)
        return infer_error(
            cx, inst, "%s cannot become %s: its last dimension must be %lld",
            infer_text(cx, s), dtype_name(to), (long long)(to_bits / from_bits));
    return infer_array(cx, inst, to, s->rank - 1, dims, dynamic);
}

const Shape *infer_broadcast(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0), *r = inst->shape;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    if (!r && s->rank == 0 && dims.count == 0)
        return s;
    if (!infer_want_array_shape(cx, inst))
        return NULL;
    if (!infer_same_type(s->dtype, r->dtype))
        return infer_error(cx, inst,
                           "element types differ: the operand is %s, the result %s",
                           infer_text(cx, s), infer_text(cx, r));
    if (dims.count != s->rank)
        return infer_error(cx, inst,
                           "dimensions=%s must have one entry for each dimension of the "
                           "operand, %s",
                           infer_ints_text(cx, dims), infer_text(cx, s));
    if (!infer_want_dims(cx, inst, "dimensions", dims, r->rank, false))
        return NULL;
    for (uint32_t i = 0; i < s->rank; i++)
        if (!infer_same_size(s->dims[i], r->dims[dims.data[i]]))
            return infer_error(
                cx, inst,
                "dimension %u of the operand, %s, must have the size of dimension "
                "%lld of the result, %s",
                i, infer_text(cx, s), (long long)dims.data[i], infer_text(cx, r));
    return infer_array(cx, inst, s->dtype, r->rank, r->dims, r->dynamic);
}

const Shape *infer_reshape(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1) || !infer_want_array_shape(cx, inst))
        return NULL;
    const Shape *s = operand(inst, 0), *r = inst->shape;
    if (!infer_same_type(s->dtype, r->dtype))
        return infer_error(cx, inst,
                           "element types differ: the operand is %s, the result %s",
                           infer_text(cx, s), infer_text(cx, r));
    int64_t from, to;
    if (shape_element_count(s, &from) && shape_element_count(r, &to) && from != to)
        return infer_error(
            cx, inst, "the operand, %s, has %lld elements, but the result, %s, has %lld",
            infer_text(cx, s), (long long)from, infer_text(cx, r), (long long)to);
    int64_t inferred = inst_int(inst, ATTR_INFERRED_DIMENSION, -1);
    if (inferred < -1 || inferred >= r->rank)
        return infer_error(cx, inst, "inferred_dimension=%lld is not a dimension of %s",
                           (long long)inferred, infer_text(cx, r));
    return infer_array(cx, inst, s->dtype, r->rank, r->dims, r->dynamic);
}

const Shape *infer_dynamic_reshape(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 1) || !infer_want_array_shape(cx, inst) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    const Shape *s = operand(inst, 0), *r = inst->shape;
    if (inst->operand_count != r->rank + 1)
        return infer_error(cx, inst, "expects a size for each of the %u dimensions of %s",
                           r->rank, infer_text(cx, r));
    for (uint32_t i = 1; i < inst->operand_count; i++)
        if (operand(inst, i)->dtype != DT_S32 || operand(inst, i)->rank != 0)
            return infer_error(cx, inst, "operand %u must be s32[], but is %s", i,
                               infer_text(cx, operand(inst, i)));
    int64_t from, to;
    if (s->dtype != r->dtype ||
        (shape_element_count(s, &from) && shape_element_count(r, &to) && from != to))
        return infer_error(cx, inst, "%s cannot be reshaped to %s", infer_text(cx, s),
                           infer_text(cx, r));
    return r;
}

const Shape *infer_transpose(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    Ints permutation = inst_ints(inst, ATTR_DIMENSIONS);
    if (permutation.count != s->rank)
        return infer_error(cx, inst,
                           "dimensions=%s is no permutation of the dimensions of %s",
                           infer_ints_text(cx, permutation), infer_text(cx, s));
    if (!infer_want_dims(cx, inst, "dimensions", permutation, s->rank, false))
        return NULL;
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank);
    bool *dynamic = s->dynamic ? ARENA_ARRAY(cx->arena, bool, s->rank) : NULL;
    for (uint32_t i = 0; i < s->rank; i++) {
        dims[i] = s->dims[permutation.data[i]];
        if (dynamic)
            dynamic[i] = s->dynamic[permutation.data[i]];
    }
    return infer_array(cx, inst, s->dtype, s->rank, dims, dynamic);
}

const Shape *infer_reverse(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    return infer_want_dims(cx, inst, "dimensions", dims, s->rank, false) ? s : NULL;
}

const Shape *infer_iota(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_array_shape(cx, inst))
        return NULL;
    const Shape *r = inst->shape;
    int64_t d = inst_int(inst, ATTR_IOTA_DIMENSION, -1);
    if (r->dtype == DT_PRED)
        return infer_error(cx, inst, "iota cannot give %s", infer_text(cx, r));
    if (d < 0 || d >= r->rank)
        return infer_error(cx, inst, "iota_dimension=%lld is not a dimension of %s",
                           (long long)d, infer_text(cx, r));
    return r;
}

const Shape *infer_slice(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    const SliceSpec *spec = inst_attr(inst, ATTR_SLICE)->slice;
    if (spec->rank != s->rank)
        return infer_error(cx, inst, "slice has %u ranges, but the operand is %s",
                           spec->rank, infer_text(cx, s));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank);
    for (uint32_t i = 0; i < s->rank; i++) {
        SliceDim d = spec->dims[i];
        int64_t size = s->dims[i];
        if (d.start < 0 || d.start > d.limit || d.stride < 1 ||
            (size != DIM_UNBOUNDED && d.limit > size))
            return infer_error(cx, inst,
                               "range [%lld:%lld:%lld] does not fit dimension %u of %s",
                               (long long)d.start, (long long)d.limit,
                               (long long)d.stride, i, infer_text(cx, s));
        dims[i] = (d.limit - d.start) / d.stride + ((d.limit - d.start) % d.stride != 0);
    }
    return infer_array(cx, inst, s->dtype, s->rank, dims, s->dynamic);
}

/* Start indices from operand `first` on: one rank-1 operand, or a scalar per dimension. */
static bool want_indices(InferContext *cx, const Instruction *inst, uint32_t first,
                         const Shape *s)
{
    uint32_t count = inst->operand_count - first;
    if (!infer_want_arrays(cx, inst, first, inst->operand_count))
        return false;
    if (count == 1 && operand(inst, first)->rank == 1) {
        const Shape *index = operand(inst, first);
        if (index->dims[0] == s->rank && dtype_is_integer(index->dtype))
            return true;
        infer_error(cx, inst, "expects %u integral start indices for %s, but has %s",
                    s->rank, infer_text(cx, s), infer_text(cx, index));
        return false;
    }
    if (count != s->rank) {
        infer_error(cx, inst, "expects %u start indices for %s, but has %u", s->rank,
                    infer_text(cx, s), count);
        return false;
    }
    for (uint32_t i = first; i < inst->operand_count; i++) {
        const Shape *index = operand(inst, i);
        if (index->rank == 0 && dtype_is_integer(index->dtype) &&
            index->dtype == operand(inst, first)->dtype)
            continue;
        infer_error(
            cx, inst,
            "start indices must be scalars of one integral type, but operand %u is %s "
            "and operand %u is %s",
            first, infer_text(cx, operand(inst, first)), i, infer_text(cx, index));
        return false;
    }
    return true;
}

/* Sketches give a slice of one element as a scalar. */
static bool is_one_element(const Shape *s, DType dtype, Ints sizes)
{
    for (uint32_t i = 0; i < sizes.count; i++)
        if (sizes.data[i] != 1)
            return false;
    return s && shape_is_scalar(s) && s->dtype == dtype;
}

const Shape *infer_dynamic_slice(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 1) || !infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    if (!want_indices(cx, inst, 1, s))
        return NULL;
    Ints sizes = inst_ints(inst, ATTR_DYNAMIC_SLICE_SIZES);
    if (sizes.count != s->rank)
        return infer_error(cx, inst, "dynamic_slice_sizes=%s does not fit %s",
                           infer_ints_text(cx, sizes), infer_text(cx, s));
    for (uint32_t i = 0; i < s->rank; i++)
        if (sizes.data[i] < 0 ||
            (s->dims[i] != DIM_UNBOUNDED && sizes.data[i] > s->dims[i]))
            return infer_error(cx, inst,
                               "a slice of size %lld does not fit dimension %u of %s",
                               (long long)sizes.data[i], i, infer_text(cx, s));
    if (cx->sketch && is_one_element(inst->shape, s->dtype, sizes))
        return inst->shape;
    return infer_array(cx, inst, s->dtype, s->rank, sizes.data, NULL);
}

const Shape *infer_dynamic_update_slice(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 2))
        return NULL;
    const Shape *whole = operand(inst, 0), *s = whole;
    if (s->dtype == DT_BUFFER)
        s = s->elements[0];
    if (!shape_is_array(s))
        return infer_error(cx, inst, "operand 0 must be an array or a buffer, but is %s",
                           infer_text(cx, whole));
    if (!infer_want_arrays(cx, inst, 1, 2) || !want_indices(cx, inst, 2, s))
        return NULL;
    const Shape *u = operand(inst, 1);
    if (u->rank != s->rank || !infer_same_type(u->dtype, s->dtype))
        return infer_error(
            cx, inst,
            "the update must have rank and element type of operand 0, but they "
            "are %s and %s",
            infer_text(cx, u), infer_text(cx, whole));
    for (uint32_t i = 0; i < s->rank; i++)
        if (u->dims[i] > s->dims[i] && s->dims[i] != DIM_UNBOUNDED)
            return infer_error(cx, inst,
                               "the update, %s, is larger than %s in dimension %u",
                               infer_text(cx, u), infer_text(cx, whole), i);
    return whole;
}

const Shape *infer_concatenate(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 1) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    const Shape *first = operand(inst, 0);
    int64_t along = infer_one_dim(cx, inst, first);
    if (along < 0)
        return NULL;
    DType dtype = first->dtype;
    int64_t sum = 0, stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, first->rank);
    bool *dynamic = NULL;
    for (uint32_t i = 0; i < first->rank; i++)
        dims[i] = first->dims[i];
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = operand(inst, i);
        bool fits = s->rank == first->rank && infer_same_type(s->dtype, first->dtype);
        for (uint32_t k = 0; fits && k < s->rank; k++)
            fits = k == along || infer_same_size(s->dims[k], first->dims[k]);
        if (!fits)
            return infer_error(
                cx, inst,
                "operands must agree but for dimension %lld, but operand 0 is %s "
                "and operand %u is %s",
                (long long)along, infer_text(cx, first), i, infer_text(cx, s));
        dtype = infer_binary_dtype(dtype, s->dtype);
        for (uint32_t k = 0; k < s->rank; k++)
            if (k != along && dims[k] == DIM_UNBOUNDED)
                dims[k] = s->dims[k];
        int64_t size = s->dims[along];
        if (size == DIM_UNBOUNDED || sum == DIM_UNBOUNDED)
            sum = DIM_UNBOUNDED;
        else if (size > INT64_MAX - sum)
            return infer_error(cx, inst, "the result has too many elements");
        else
            sum += size;
        if (s->dynamic && !dynamic)
            dynamic = ARENA_ARRAY(cx->arena, bool, s->rank);
        for (uint32_t k = 0; s->dynamic && k < s->rank; k++)
            dynamic[k] |= s->dynamic[k];
    }
    dims[along] = sum;
    return infer_array(cx, inst, dtype, first->rank, dims, dynamic);
}

/* low + high + size + (size - 1) * interior; -1 if it is negative or too large. */
static int64_t padded_size(int64_t size, PaddingDim p)
{
    const int64_t limit = INT64_MAX / 8;
    if (p.low < -limit || p.low > limit || p.high < -limit || p.high > limit ||
        size > limit)
        return -1;
    int64_t gaps = size > 0 ? size - 1 : 0;
    if (gaps > 0 && p.interior > limit / gaps)
        return -1;
    return p.low + p.high + size + gaps * p.interior;
}

const Shape *infer_pad(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 2))
        return NULL;
    const Shape *s = operand(inst, 0), *value = operand(inst, 1);
    const Padding *padding = inst_attr(inst, ATTR_PADDING)->padding;
    if (value->rank != 0 || !infer_same_type(s->dtype, value->dtype))
        return infer_error(cx, inst,
                           "the padding value must be a scalar of %s, but is %s",
                           dtype_name(s->dtype), infer_text(cx, value));
    if (padding->rank != s->rank)
        return infer_error(cx, inst, "padding has %u dimensions, but the operand is %s",
                           padding->rank, infer_text(cx, s));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank);
    for (uint32_t i = 0; i < s->rank; i++) {
        PaddingDim p = padding->dims[i];
        if (p.interior < 0)
            return infer_error(cx, inst,
                               "interior padding %lld of dimension %u is negative",
                               (long long)p.interior, i);
        dims[i] =
            s->dims[i] == DIM_UNBOUNDED ? DIM_UNBOUNDED : padded_size(s->dims[i], p);
        if (dims[i] < 0 && dims[i] != DIM_UNBOUNDED)
            return infer_error(
                cx, inst, "padding %lld_%lld_%lld gives dimension %u of %s no valid size",
                (long long)p.low, (long long)p.high, (long long)p.interior, i,
                infer_text(cx, s));
    }
    return infer_array(cx, inst, infer_binary_dtype(s->dtype, value->dtype), s->rank,
                       dims, s->dynamic);
}

const Shape *infer_get_dimension_size(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL; /* the language bounds the dimension nowhere: no rule for what is read */
    if (!cx->sketch && infer_one_dim(cx, inst, operand(inst, 0)) < 0)
        return NULL;
    const Shape *r = inst->shape; /* s32; XLA's own tests have s64, too */
    return r && shape_is_scalar(r) && r->dtype == DT_S64
               ? r
               : shape_scalar(cx->intern, DT_S32);
}

const Shape *infer_set_dimension_size(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 2))
        return NULL;
    const Shape *s = operand(inst, 0), *size = operand(inst, 1);
    int64_t d = infer_one_dim(cx, inst, s);
    if (d < 0)
        return NULL;
    if (size->rank != 0 || size->dtype != DT_S32)
        return infer_error(cx, inst, "the size must be s32[], but is %s",
                           infer_text(cx, size));
    bool *dynamic = ARENA_ARRAY(cx->arena, bool, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        dynamic[i] = i == d || (s->dynamic && s->dynamic[i]);
    return shape_array(cx->intern, s->dtype, s->rank, s->dims, dynamic, s->layout);
}
