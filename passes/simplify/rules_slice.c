/* Rules of slice, pad, concatenate, dynamic-slice, dynamic-update-slice, gather.
 *
 * Measure: number of operations, then their weight (gather > dynamic-slice > slice,
 * concatenate > pad), then operands. */
#include <string.h>

#include "ir/kernel/kind.h"
#include "passes/simplify/rewrite.h"

static const SliceSpec *slice_of(const Instruction *inst)
{
    return inst_attr(inst, ATTR_SLICE)->slice;
}

/* slice of everything -> x */
static Instruction *slice_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    return slice_is_first(slice_of(inst)) ? rw_as(inst, inst->operands[0]) : NULL;
}

/* slice(slice(x)) -> slice(x) */
static Instruction *slice_slice(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (a->op != OP_SLICE)
        return NULL;
    const SliceSpec *outer = slice_of(inst), *inner = slice_of(a);
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, outer->rank);
    for (uint32_t i = 0; i < outer->rank; i++) {
        SliceDim x = inner->dims[i], y = outer->dims[i];
        int64_t count = inst->shape->dims[i];
        if (x.stride > INT32_MAX || y.stride > INT32_MAX)
            return NULL;
        dims[i].stride = x.stride * y.stride;
        if (count == 0) /* where the outer one starts may lie behind x */
            continue;
        dims[i].start = x.start + y.start * x.stride;
        dims[i].limit = dims[i].start + (count - 1) * dims[i].stride + 1;
    }
    return rw_slice(r, inst->shape, a->operands[0], dims);
}

/* slice(broadcast(x)) -> broadcast(slice(x)) */
static Instruction *slice_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (b->op != OP_BROADCAST || !rw_is_static(inst->shape) ||
        !rw_is_static(b->operands[0]->shape))
        return NULL;
    Instruction *x = b->operands[0];
    Ints dims = inst_ints(b, ATTR_DIMENSIONS);
    const SliceSpec *s = slice_of(inst);
    SliceDim *part = ARENA_ARRAY(r->scratch, SliceDim, dims.count);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    bool whole = true;
    for (uint32_t i = 0; i < dims.count; i++) {
        part[i] = s->dims[dims.data[i]];
        sizes[i] = inst->shape->dims[dims.data[i]];
        whole &= sizes[i] == x->shape->dims[i] && part[i].stride == 1;
    }
    if (!whole)
        x = rw_slice(r, rw_shape(r, x->shape->dtype, dims.count, sizes), x, part);
    return rw_broadcast(r, inst->shape, x, dims.count, dims.data);
}

/* slice(concatenate(.., x, ..)) that lies within x -> slice(x) */
static Instruction *slice_concatenate(Rewriter *r, Instruction *inst)
{
    Instruction *c = inst->operands[0];
    if (c->op != OP_CONCATENATE || rw_is_zero_size(inst->shape))
        return NULL;
    const SliceSpec *s = slice_of(inst);
    int64_t d = inst_ints(c, ATTR_DIMENSIONS).data[0], at = 0;
    for (uint32_t i = 0; i < c->operand_count; i++) {
        Instruction *x = c->operands[i];
        int64_t size = x->shape->dims[d];
        if (s->dims[d].start >= at && s->dims[d].limit <= at + size &&
            rw_is_static(x->shape)) {
            SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
            memcpy(dims, s->dims, s->rank * sizeof *dims);
            dims[d].start -= at;
            dims[d].limit -= at;
            return rw_slice(r, inst->shape, x, dims);
        }
        at += size;
    }
    return NULL;
}

/* slice(pad(x)) that lies within x -> slice(x), no interior padding where it is cut */
static Instruction *slice_pad(Rewriter *r, Instruction *inst)
{
    Instruction *p = inst->operands[0];
    if (p->op != OP_PAD || rw_is_zero_size(inst->shape) || !rw_is_static(p->shape))
        return NULL;
    const Padding *padding = inst_attr(p, ATTR_PADDING)->padding;
    const SliceSpec *s = slice_of(inst);
    const Shape *x = p->operands[0]->shape;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    for (uint32_t i = 0; i < s->rank; i++) {
        PaddingDim pad = padding->dims[i];
        dims[i] = s->dims[i];
        dims[i].start -= pad.low;
        dims[i].limit -= pad.low;
        if (pad.interior != 0 || dims[i].start < 0 || dims[i].limit > x->dims[i])
            return NULL;
    }
    return rw_slice(r, inst->shape, p->operands[0], dims);
}

/* Made of iotas and scalars only, one node for each way there, at most *left of them. */
static bool is_of_numbers(const Instruction *x, uint32_t *left)
{
    if (!rw_is_static(x->shape) || !shape_is_row_major(x->shape) || (*left)-- == 0)
        return false;
    if (x->shape->rank == 0)
        return true;
    if (x->op == OP_IOTA)
        return x->shape->dtype == DT_S32 || x->shape->dtype == DT_S64;
    if (x->op == OP_RESHAPE ? !rw_same_but_ones(x->shape, x->operands[0]->shape)
                            : x->op != OP_BROADCAST && (!op_is(x->op, OPF_ELEMENTWISE) ||
                                                        op_is(x->op, OPF_RANDOM)))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        const Instruction *y = x->operands[i];
        if ((op_is(x->op, OPF_ELEMENTWISE) && !shape_same_dims(x->shape, y->shape)) ||
            !is_of_numbers(y, left))
            return false;
    }
    return x->control_count == 0;
}

static int64_t part_size(SliceDim d)
{
    return (d.limit - d.start + d.stride - 1) / d.stride;
}

static const Shape *part_shape(Rewriter *r, const Shape *of, const SliceDim *part)
{
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, (size_t)of->rank + 1);
    for (uint32_t i = 0; i < of->rank; i++)
        sizes[i] = part_size(part[i]);
    return rw_shape(r, of->dtype, of->rank, sizes);
}

/* iota * stride + start */
static Instruction *iota_part(Rewriter *r, const Instruction *iota, const Shape *s,
                              const SliceDim *part)
{
    int64_t dim = inst_int(iota, ATTR_IOTA_DIMENSION, 0);
    Instruction *x = rw_like(r, iota, s, 0, NULL);
    if (part[dim].stride != 1)
        x = rw_binary(r, OP_MULTIPLY, s, x, rw_splat_int(r, s, part[dim].stride));
    if (part[dim].start != 0)
        x = rw_binary(r, OP_ADD, s, x, rw_splat_int(r, s, part[dim].start));
    return x;
}

/* Which part of a reshape's or broadcast's operand `part` of its result is. */
static const SliceDim *operand_part(Rewriter *r, const Instruction *x,
                                    const SliceDim *part)
{
    const Shape *from = x->operands[0]->shape;
    SliceDim *out = ARENA_ARRAY(r->scratch, SliceDim, (size_t)from->rank + 1);
    Ints dims = inst_ints(x, ATTR_DIMENSIONS);
    for (uint32_t i = 0, to = 0; i < from->rank; i++) {
        out[i] = (SliceDim){0, 1, 1};
        if (x->op == OP_BROADCAST) {
            out[i] = part[dims.data[i]];
        } else if (from->dims[i] != 1) {
            while (x->shape->dims[to] == 1)
                to++;
            out[i] = part[to++];
        }
    }
    return out;
}

static Instruction *part_of_numbers(Rewriter *r, Instruction *x, const SliceDim *part)
{
    const Shape *s = part_shape(r, x->shape, part);
    if (s == x->shape)
        return x;
    if (x->op == OP_IOTA)
        return iota_part(r, x, s, part);
    if (x->op == OP_RESHAPE || x->op == OP_BROADCAST)
        return rw_like(r, x, s, 1,
                       &(Instruction *){
                           part_of_numbers(r, x->operands[0], operand_part(r, x, part))});
    Instruction **operands =
        ARENA_ARRAY(r->scratch, Instruction *, (size_t)x->operand_count + 1);
    for (uint32_t i = 0; i < x->operand_count; i++)
        operands[i] = part_of_numbers(r, x->operands[i], part);
    return rw_like(r, x, s, x->operand_count, operands);
}

/* slice of what iotas and scalars make -> the same of smaller ones: masks cut out of a larger one are seen as bands */
static Instruction *slice_numbers(Rewriter *r, Instruction *inst)
{
    uint32_t left = 24;
    if (rw_is_zero_size(inst->shape) || !is_of_numbers(inst->operands[0], &left))
        return NULL;
    return rw_as(inst, part_of_numbers(r, inst->operands[0], slice_of(inst)->dims));
}

/* pad by nothing -> x; pad of an empty array -> broadcast of the value; a value all over x */
static Instruction *pad_nothing(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0], *value = inst->operands[1];
    const Padding *p = inst_attr(inst, ATTR_PADDING)->padding;
    if (!rw_is_static(x->shape) || !rw_is_static(inst->shape))
        return NULL;
    if (rw_is_zero_size(x->shape))
        return rw_broadcast(r, inst->shape, value, 0, NULL);
    const Literal *a = rw_splat_of(x), *b = rw_splat_of(value);
    if (a && b && a->shape->dtype == b->shape->dtype && literal_equal(a, b))
        return rw_broadcast(r, inst->shape, value, 0, NULL);
    for (uint32_t i = 0; i < p->rank; i++)
        if (p->dims[i].low != 0 || p->dims[i].high != 0 ||
            (p->dims[i].interior != 0 && x->shape->dims[i] > 1))
            return NULL;
    return rw_as(inst, x);
}

/* pad that only cuts -> slice */
static Instruction *pad_cut(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    const Padding *p = inst_attr(inst, ATTR_PADDING)->padding;
    if (!rw_is_static(x->shape) || x->shape->dtype != inst->shape->dtype)
        return NULL;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, p->rank);
    for (uint32_t i = 0; i < p->rank; i++) {
        PaddingDim d = p->dims[i];
        if (d.low > 0 || d.high > 0 || d.interior != 0)
            return NULL;
        dims[i] = (SliceDim){-d.low, x->shape->dims[i] + d.high, 1};
    }
    return rw_slice(r, inst->shape, x, dims);
}

static Instruction *concatenated(Rewriter *r, Instruction *inst, uint32_t n,
                                 Instruction *const *operands)
{
    if (n == 1)
        return rw_as(inst, operands[0]);
    return rw_like(r, inst, inst->shape, n, operands);
}

/* concatenate(x) -> x; without empty operands; of concatenations -> one */
static Instruction *concatenate_flat(Rewriter *r, Instruction *inst)
{
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    uint32_t n = 0, total = 0;
    bool changed = inst->operand_count == 1;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction *x = inst->operands[i];
        bool nested =
            x->op == OP_CONCATENATE && inst_ints(x, ATTR_DIMENSIONS).data[0] == d;
        changed |= nested || x->shape->dims[d] == 0;
        total += nested ? x->operand_count : 1;
    }
    if (!changed || !rw_is_static(inst->shape) || rw_is_zero_size(inst->shape) ||
        total > KERNEL_MOST_ARRAYS)
        return NULL;
    Instruction **flat = ARENA_ARRAY(r->scratch, Instruction *, total);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction *x = inst->operands[i];
        if (x->shape->dims[d] == 0)
            continue;
        if (x->op != OP_CONCATENATE || inst_ints(x, ATTR_DIMENSIONS).data[0] != d) {
            flat[n++] = x;
            continue;
        }
        for (uint32_t k = 0; k < x->operand_count; k++)
            flat[n++] = x->operands[k];
    }
    if (n == inst->operand_count && n > 1)
        return NULL;
    return concatenated(r, inst, n, flat);
}

/* Slices a and b of one array, b going on where a ends along dimension d. */
static bool is_continued(const Instruction *a, const Instruction *b, int64_t d)
{
    if (a->op != OP_SLICE || b->op != OP_SLICE || a->operands[0] != b->operands[0])
        return false;
    const SliceSpec *x = slice_of(a), *y = slice_of(b);
    for (uint32_t i = 0; i < x->rank; i++) {
        SliceDim p = x->dims[i], q = y->dims[i];
        if (p.stride != q.stride || (i == d ? p.stride != 1 || p.limit != q.start
                                            : p.start != q.start || p.limit != q.limit))
            return false;
    }
    return true;
}

/* Slices first .. last - 1 of the operands, each going on where the one before ends, as one. */
static Instruction *joined(Rewriter *r, Instruction *inst, uint32_t first, uint32_t last,
                           int64_t d)
{
    Instruction *a = inst->operands[first], *b = inst->operands[last - 1];
    uint32_t rank = a->shape->rank;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, rank);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank);
    memcpy(dims, slice_of(a)->dims, rank * sizeof *dims);
    memcpy(sizes, a->shape->dims, rank * sizeof *sizes);
    dims[d].limit = slice_of(b)->dims[d].limit;
    sizes[d] = dims[d].limit - dims[d].start;
    bool all = last - first == inst->operand_count;
    return rw_slice(r, all ? inst->shape : rw_shape(r, a->shape->dtype, rank, sizes),
                    a->operands[0], dims);
}

/* concatenate(slice(x, [a:b]), slice(x, [b:c])) -> slice(x, [a:c]) */
static Instruction *concatenate_slices(Rewriter *r, Instruction *inst)
{
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, inst->operand_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < inst->operand_count;) {
        uint32_t last = i + 1;
        while (last < inst->operand_count &&
               is_continued(inst->operands[last - 1], inst->operands[last], d))
            last++;
        operands[n++] = last - i > 1 ? joined(r, inst, i, last, d) : inst->operands[i];
        i = last;
    }
    return n < inst->operand_count ? concatenated(r, inst, n, operands) : NULL;
}

/* concatenate of one splat -> splat */
static Instruction *concatenate_splats(Rewriter *r, Instruction *inst)
{
    const Literal *first = rw_splat_of(inst->operands[0]);
    if (!first || !rw_is_static(inst->shape))
        return NULL;
    for (uint32_t i = 1; i < inst->operand_count; i++) {
        const Literal *l = rw_splat_of(inst->operands[i]);
        if (!l || l->shape->dtype != first->shape->dtype || !literal_equal(l, first))
            return NULL;
    }
    return rw_broadcast(r, inst->shape, rw_constant(r, first), 0, NULL);
}

/* -- dynamic slices ----------------------------------------------------------------------- */

/* Start index i of a dynamic-slice or -update-slice, whose index operands begin at `first`,
 * clamped; false if it is no constant. */
static bool constant_start(const Instruction *inst, uint32_t first, uint32_t i,
                           int64_t size, int64_t part, int64_t *out)
{
    bool vector =
        inst->operand_count == first + 1 && inst->operands[first]->shape->rank == 1;
    const Instruction *index = inst->operands[vector ? first : first + i];
    const Literal *l =
        index->op == OP_CONSTANT && index->literal && !index->literal->elided
            ? index->literal
            : NULL;
    int64_t limit = size - part, start = 0;
    if (limit == 0) {
        *out = 0;
        return true;
    }
    if (!l) {
        l = rw_splat_of(index);
        if (!l)
            return false;
        vector = false;
    }
    start = literal_int(l, vector ? i : 0);
    if (dtype_is_unsigned(l->shape->dtype) && start < 0)
        start = limit; /* beyond INT64_MAX */
    *out = start < 0 ? 0 : start > limit ? limit : start;
    return true;
}

/* dynamic-slice at constant (or clamped to zero) indices -> slice */
static Instruction *dynamic_slice_constant(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    if (!rw_is_static(x->shape) || !rw_is_static(inst->shape))
        return NULL;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, x->shape->rank);
    for (uint32_t i = 0; i < x->shape->rank; i++) {
        int64_t start, size = x->shape->dims[i], part = inst->shape->dims[i];
        if (!constant_start(inst, 1, i, size, part, &start))
            return NULL;
        dims[i] = (SliceDim){start, start + part, 1};
    }
    if (x->shape == inst->shape)
        return x;
    return rw_slice(r, inst->shape, x, dims);
}

/* dynamic-slice(broadcast(x)) of broadcast dimensions only -> broadcast(x) */
static Instruction *dynamic_slice_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (b->op != OP_BROADCAST || !rw_is_static(inst->shape))
        return NULL;
    Ints dims = inst_ints(b, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++)
        if (inst->shape->dims[dims.data[i]] != b->shape->dims[dims.data[i]])
            return NULL;
    return rw_broadcast(r, inst->shape, b->operands[0], dims.count, dims.data);
}

/* dynamic-update-slice of everything -> the update; of nothing -> the operand */
static Instruction *dynamic_update_all(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *x = inst->operands[0], *update = inst->operands[1];
    if (!rw_is_static(x->shape) || !rw_is_static(update->shape))
        return NULL;
    if (rw_is_zero_size(update->shape))
        return rw_as(inst, x);
    return rw_as(inst, update);
}

/* dynamic-update-slice(x, dynamic-slice(x, i), i) -> x */
static Instruction *dynamic_update_same(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *x = inst->operands[0], *update = inst->operands[1];
    if (update->op != OP_DYNAMIC_SLICE || update->operands[0] != x ||
        update->operand_count != inst->operand_count - 1)
        return NULL;
    for (uint32_t i = 2; i < inst->operand_count; i++)
        if (inst->operands[i] != update->operands[i - 1])
            return NULL;
    return rw_as(inst, x);
}

/* -- gather and scatter ----------------------------------------------------------------- */

/* The i-th component of the only index vector, as a scalar. */
static Instruction *index_component(Rewriter *r, Instruction *indices, int64_t vector_dim,
                                    uint32_t i)
{
    const Shape *s = indices->shape;
    const Shape *scalar = shape_scalar(r->m->intern, s->dtype);
    if (vector_dim == s->rank)
        return rw_reshape(r, scalar, indices);
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    int64_t *ones = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    for (uint32_t k = 0; k < s->rank; k++) {
        dims[k] = (SliceDim){0, 1, 1};
        ones[k] = 1;
    }
    dims[vector_dim] = (SliceDim){i, (int64_t)i + 1, 1};
    Instruction *one =
        s->dims[vector_dim] == 1
            ? indices
            : rw_slice(r, rw_shape(r, s->dtype, s->rank, ones), indices, dims);
    return rw_reshape(r, scalar, one);
}

/* gather by one index vector -> reshape(dynamic-slice): both clamp in the same way */
static Instruction *gather_one(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0], *indices = inst->operands[1];
    int64_t vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    Ints map = inst_ints(inst, ATTR_START_INDEX_MAP),
         sizes = inst_ints(inst, ATTR_SLICE_SIZES);
    if (!rw_is_static(x->shape) || !rw_is_static(indices->shape) ||
        inst_ints(inst, ATTR_OPERAND_BATCHING_DIMS).count > 0)
        return NULL;
    for (uint32_t i = 0; i < indices->shape->rank; i++)
        if (i != vector_dim && indices->shape->dims[i] != 1)
            return NULL;
    if (rw_is_zero_size(inst->shape) || x->shape->rank == 0)
        return NULL;
    uint32_t rank = x->shape->rank;
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, (size_t)rank + 1);
    operands[0] = x;
    for (uint32_t i = 0; i < map.count; i++)
        operands[map.data[i] + 1] = index_component(r, indices, vector_dim, i);
    for (uint32_t i = 0; i < rank; i++)
        if (!operands[i + 1])
            operands[i + 1] =
                rw_splat_int(r, shape_scalar(r->m->intern, indices->shape->dtype), 0);
    Instruction *slice =
        rw_add(r, OP_DYNAMIC_SLICE, rw_shape(r, x->shape->dtype, rank, sizes.data),
               rank + 1, operands);
    inst_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, sizes.data, sizes.count);
    return rw_reshape(r, inst->shape, slice);
}

const Rule rules_slice[] = {
    {OP_SLICE, "slice_nothing", slice_nothing},
    {OP_SLICE, "slice_slice", slice_slice},
    {OP_SLICE, "slice_broadcast", slice_broadcast},
    {OP_SLICE, "slice_concatenate", slice_concatenate},
    {OP_SLICE, "slice_pad", slice_pad},
    {OP_SLICE, "slice_numbers", slice_numbers},
    {OP_PAD, "pad_nothing", pad_nothing},
    {OP_PAD, "pad_cut", pad_cut},
    {OP_CONCATENATE, "concatenate_splats", concatenate_splats},
    {OP_CONCATENATE, "concatenate_flat", concatenate_flat},
    {OP_CONCATENATE, "concatenate_slices", concatenate_slices},
    {OP_DYNAMIC_SLICE, "dynamic_slice_constant", dynamic_slice_constant},
    {OP_DYNAMIC_SLICE, "dynamic_slice_broadcast", dynamic_slice_broadcast},
    {OP_DYNAMIC_UPDATE_SLICE, "dynamic_update_all", dynamic_update_all},
    {OP_DYNAMIC_UPDATE_SLICE, "dynamic_update_same", dynamic_update_same},
    {OP_GATHER, "gather_one", gather_one},
    {0},
};
