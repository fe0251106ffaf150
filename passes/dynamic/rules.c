/* What each operation does with arrays of dynamic size: the rules of static-shapes, in the terms
 * of the evaluator. Operations that only look at single elements need no mask: what lies beyond
 * the sizes stays beyond them. */
#include <string.h>

#include "passes/dynamic/sized.h"

/* -- small numbers ------------------------------------------------------------------------------ */

static const Shape *s32(Statics *st)
{
    return shape_scalar(st->r.m->intern, DT_S32);
}

static Instruction *number(Statics *st, int64_t value)
{
    return rw_splat_int(&st->r, s32(st), value);
}

static Instruction *op2(Statics *st, OpCode op, Instruction *a, Instruction *b)
{
    return rw_binary(&st->r, op, a->shape, a, b);
}

static Instruction *compare(Statics *st, Instruction *a, int64_t direction,
                            Instruction *b)
{
    return rw_compare(&st->r, a, b, direction);
}

static Instruction *select3(Statics *st, Instruction *p, Instruction *t, Instruction *f)
{
    Instruction *operands[3] = {p, t, f};
    return rw_add(&st->r, OP_SELECT, t->shape, 3, operands);
}

static Instruction *splat(Statics *st, const Shape *s, Instruction *scalar)
{
    return rw_broadcast(&st->r, s, scalar, 0, NULL);
}

Instruction **sized_scratch(Statics *st, uint32_t n)
{
    return ARENA_ARRAY(st->r.scratch, Instruction *, n + 1u);
}

static Instruction *index_along(Statics *st, const Shape *s, uint32_t d, DType t)
{
    Instruction *i =
        rw_add(&st->r, OP_IOTA, shape_with_dtype(st->r.m->intern, s, t), 0, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, d);
    return i;
}

/* -- masks --------------------------------------------------------------------------------------- */

Instruction *sized_mask(Statics *st, const Sized *x, const Ints *dims)
{
    const Shape *s = x->inst->shape;
    Instruction *all = NULL;
    for (uint32_t d = 0; d < s->rank; d++) {
        if (!sized_has(x, d) || (dims != NULL && !ints_contain(*dims, d)))
            continue;
        /* sizes are s32, what lies beyond them need not be */
        DType t = s->dims[d] > INT32_MAX ? DT_S64 : DT_S32;
        Instruction *i = index_along(st, s, d, t);
        Instruction *size =
            rw_convert(&st->r, shape_scalar(st->r.m->intern, t), x->sizes[d]);
        Instruction *m = compare(st, i, DIRECTION_LT, splat(st, i->shape, size));
        all = all == NULL ? m : op2(st, OP_AND, all, m);
    }
    return all;
}

Instruction *sized_masked(Statics *st, const Sized *x, const Ints *dims,
                          Instruction *fill)
{
    Instruction *mask = sized_mask(st, x, dims);
    return mask == NULL ? x->inst
                        : select3(st, mask, x->inst, splat(st, x->inst->shape, fill));
}

Instruction *sized_zero(Statics *st, const Shape *s)
{
    const Shape *scalar = shape_scalar(st->r.m->intern, s->dtype);
    return rw_constant(&st->r, literal_create(st->r.m->arena, scalar));
}

static const Shape *bounds(Statics *st, const Instruction *inst)
{
    return dynamic_bounds(st->r.m->intern, inst->shape);
}

Instruction *sized_element(Statics *st, Instruction *all, uint32_t k)
{
    return shape_is_tuple(all->shape) ? rw_element(&st->r, all, k) : all;
}

Instruction *sized_again(Statics *st, const Instruction *inst, Sized *const *x)
{
    Instruction **operands = sized_scratch(st, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = x[i]->inst;
    return rw_like(&st->r, inst, bounds(st, inst), inst->operand_count, operands);
}

/* -- sizes themselves ------------------------------------------------------------------------------ */

Instruction *sized_within(Statics *st, Instruction *size, int64_t bound)
{
    int64_t known = size->op == OP_CONSTANT ? literal_int(size->literal, 0) : -1;
    if (known >= 0 && known <= bound)
        return size;
    Instruction *most = number(st, bound < INT32_MAX ? bound : INT32_MAX);
    Instruction *limits[3] = {number(st, 0), size, most};
    return rw_add(&st->r, OP_CLAMP, s32(st), 3, limits);
}

static bool set_dimension_size(Statics *st, const Instruction *inst, Sized *const *x,
                               Sized *out)
{
    uint32_t rank = x[0]->inst->shape->rank;
    out->inst = x[0]->inst;
    out->sizes = sized_scratch(st, rank);
    for (uint32_t d = 0; d < rank; d++)
        out->sizes[d] = sized_has(x[0], d) ? x[0]->sizes[d] : NULL;
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    int64_t bound = x[0]->inst->shape->dims[d];
    Instruction *size = x[1]->inst;
    bool is_whole = size->op == OP_CONSTANT && literal_int(size->literal, 0) == bound;
    out->sizes[d] = is_whole ? NULL : sized_within(st, size, bound);
    return true;
}

static bool get_dimension_size(Statics *st, const Instruction *inst, Sized *const *x,
                               Sized *out)
{
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    out->inst = rw_convert(&st->r, bounds(st, inst), sized_size(st, x[0], (uint32_t)d));
    return true;
}

static bool pad_to_static(Statics *st, const Instruction *inst, Sized *const *x,
                          Sized *out)
{
    uint32_t rank = x[0]->inst->shape->rank;
    if (inst->operand_count != 1 || shape_leaf_count(inst->shape) != rank + 1)
        return false;
    out[0].inst = sized_masked(st, x[0], NULL, sized_zero(st, x[0]->inst->shape));
    for (uint32_t d = 0; d < rank; d++)
        out[d + 1].inst = sized_size(st, x[0], d);
    return true;
}

static bool slice_to_dynamic(Statics *st, const Instruction *inst, Sized *const *x,
                             Sized *out)
{
    uint32_t rank = inst->shape->rank;
    const bool *dynamic = inst->shape->dynamic;
    if (!custom_call_is_slice_to_dynamic(inst))
        return false;
    out->inst = x[0]->inst;
    out->sizes = sized_scratch(st, rank);
    for (uint32_t d = 0; d < rank; d++)
        out->sizes[d] = dynamic != NULL && dynamic[d]
                            ? sized_within(st, x[d + 1]->inst, inst->shape->dims[d])
                            : NULL;
    return true;
}

/* -- element by element --------------------------------------------------------------------------- */

/* Where operands differ, size 1 stands for all sizes. */
static Instruction *join_size(Statics *st, Instruction *sum, Instruction *size,
                              int64_t bound)
{
    if (sum == NULL || sum == size)
        return size;
    Instruction *open = op2(st, OP_OR, compare(st, sum, DIRECTION_EQ, number(st, bound)),
                            compare(st, sum, DIRECTION_EQ, number(st, 1)));
    Instruction *less = compare(st, size, DIRECTION_LT, number(st, bound));
    return select3(st, op2(st, OP_AND, less, open), size, sum);
}

/* The only element of dimension d repeated where the result has more. */
static Instruction *stretched(Statics *st, Instruction *x, uint32_t d, Instruction *size,
                              Instruction *wanted)
{
    const Shape *s = x->shape;
    SliceDim *first = ARENA_ARRAY(st->r.scratch, SliceDim, s->rank);
    int64_t *dims = ARENA_ARRAY(st->r.scratch, int64_t, s->rank);
    int64_t *others = ARENA_ARRAY(st->r.scratch, int64_t, s->rank);
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->rank; k++) {
        first[k] = (SliceDim){0, k == d ? 1 : s->dims[k], 1};
        if (k == d)
            continue;
        dims[n] = s->dims[k];
        others[n++] = k;
    }
    const Shape *others_shape = rw_shape(&st->r, s->dtype, n, dims);
    for (uint32_t k = 0; k < s->rank; k++)
        dims[k] = first[k].limit;
    Instruction *one =
        rw_slice(&st->r, rw_shape(&st->r, s->dtype, s->rank, dims), x, first);
    Instruction *all =
        rw_broadcast(&st->r, s, rw_reshape(&st->r, others_shape, one), n, others);
    Instruction *p = op2(st, OP_AND, compare(st, size, DIRECTION_EQ, number(st, 1)),
                         compare(st, wanted, DIRECTION_GT, number(st, 1)));
    p = splat(st, shape_with_dtype(st->r.m->intern, s, DT_PRED), p);
    return select3(st, p, all, x);
}

static bool elementwise(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t rank = inst->shape->rank;
    Instruction **operands = sized_scratch(st, inst->operand_count);
    out->sizes = sized_scratch(st, rank);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        operands[i] = x[i]->inst;
        for (uint32_t d = 0; d < rank && x[i]->inst->shape->rank == rank; d++) {
            if (sized_has(x[i], d))
                out->sizes[d] =
                    join_size(st, out->sizes[d], x[i]->sizes[d], inst->shape->dims[d]);
        }
    }
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        for (uint32_t d = 0; d < rank && x[i]->inst->shape->rank == rank; d++) {
            if (sized_has(x[i], d) && x[i]->sizes[d] != out->sizes[d] &&
                inst->shape->dims[d] > 0)
                operands[i] =
                    stretched(st, operands[i], d, x[i]->sizes[d], out->sizes[d]);
        }
    }
    out->inst = rw_like(&st->r, inst, bounds(st, inst), inst->operand_count, operands);
    return true;
}

/* -- moves ----------------------------------------------------------------------------------------- */

static bool broadcast(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    out->inst = sized_again(st, inst, x);
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t i = 0; i < dims.count; i++)
        out->sizes[dims.data[i]] = sized_has(x[0], i) ? x[0]->sizes[i] : NULL;
    return true;
}

static bool transpose(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    out->inst = sized_again(st, inst, x);
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t i = 0; i < dims.count; i++)
        out->sizes[i] =
            sized_has(x[0], (uint32_t)dims.data[i]) ? x[0]->sizes[dims.data[i]] : NULL;
    return true;
}

/* Elements start, start + stride, ... below min(size, limit). */
static bool slice(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const SliceSpec *spec = inst_attr(inst, ATTR_SLICE)->slice;
    out->inst = sized_again(st, inst, x);
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t d = 0; d < spec->rank; d++) {
        const SliceDim *s = &spec->dims[d];
        if (!sized_has(x[0], d) || inst->shape->dynamic == NULL ||
            !inst->shape->dynamic[d])
            continue;
        Instruction *end = op2(st, OP_MINIMUM, x[0]->sizes[d], number(st, s->limit));
        Instruction *n = op2(st, OP_ADD, end, number(st, s->stride - 1 - s->start));
        n = op2(st, OP_DIVIDE, n, number(st, s->stride));
        out->sizes[d] = op2(st, OP_MAXIMUM, n, number(st, 0));
    }
    return true;
}

static Instruction *pad(Statics *st, Instruction *x, Instruction *fill,
                        const PaddingDim *dims, const Shape *s)
{
    Padding *padding = ARENA_NEW(st->r.m->arena, Padding);
    *padding =
        (Padding){s->rank, arena_copy(st->r.m->arena, dims, s->rank * sizeof *dims)};
    Instruction *p = rw_binary(&st->r, OP_PAD, s, x, fill);
    inst_set(p, (Attr){.id = ATTR_PADDING, .padding = padding});
    return p;
}

/* What was turned round lies at the end of the bounds; it is brought to the start. */
static Instruction *moved_down(Statics *st, Instruction *x, uint32_t d, Instruction *size)
{
    const Shape *s = x->shape;
    PaddingDim *more = ARENA_ARRAY(st->r.scratch, PaddingDim, s->rank);
    int64_t *dims = ARENA_ARRAY(st->r.scratch, int64_t, s->rank);
    memcpy(dims, s->dims, s->rank * sizeof *dims);
    more[d].high = s->dims[d];
    dims[d] *= 2;
    Instruction *wide =
        pad(st, x, sized_zero(st, s), more, rw_shape(&st->r, s->dtype, s->rank, dims));
    Instruction **operands = sized_scratch(st, s->rank + 1);
    operands[0] = wide;
    for (uint32_t k = 0; k < s->rank; k++)
        operands[k + 1] =
            k == d ? op2(st, OP_SUBTRACT, number(st, s->dims[d]), size) : number(st, 0);
    Instruction *part = rw_add(&st->r, OP_DYNAMIC_SLICE, s, s->rank + 1, operands);
    inst_set_ints(part, ATTR_DYNAMIC_SLICE_SIZES, s->dims, s->rank);
    return part;
}

static bool reverse(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    out->inst = sized_again(st, inst, x);
    out->sizes = x[0]->sizes;
    for (uint32_t i = 0; i < dims.count; i++) {
        uint32_t d = (uint32_t)dims.data[i];
        if (sized_has(x[0], d))
            out->inst = moved_down(st, out->inst, d, x[0]->sizes[d]);
    }
    return true;
}

static bool pad_rule(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const Padding *p = inst_attr(inst, ATTR_PADDING)->padding;
    Instruction *fill = x[1]->inst;
    if (fill->shape->dtype != x[0]->inst->shape->dtype)
        return false;
    out->inst =
        pad(st, sized_masked(st, x[0], NULL, fill), fill, p->dims, bounds(st, inst));
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t d = 0; d < p->rank; d++) {
        if (!sized_has(x[0], d))
            continue;
        Instruction *size = x[0]->sizes[d];
        Instruction *gaps =
            op2(st, OP_MAXIMUM, op2(st, OP_SUBTRACT, size, number(st, 1)), number(st, 0));
        gaps = op2(st, OP_MULTIPLY, gaps, number(st, p->dims[d].interior));
        size = op2(st, OP_ADD, op2(st, OP_ADD, size, gaps),
                   number(st, p->dims[d].low + p->dims[d].high));
        out->sizes[d] = op2(st, OP_MAXIMUM, size, number(st, 0));
    }
    return true;
}

/* Operands one behind the other's last element: each is written over what lies beyond. */
static Instruction *packed(Statics *st, const Instruction *inst, Sized *const *x,
                           uint32_t d, Instruction **out_size)
{
    const Shape *s = bounds(st, inst);
    Instruction *sum = rw_splat(&st->r, s, 0), *at = number(st, 0);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction **operands = sized_scratch(st, s->rank + 2);
        operands[0] = sum;
        operands[1] = rw_in_type(&st->r, x[i]->inst, s->dtype);
        for (uint32_t k = 0; k < s->rank; k++)
            operands[k + 2] = k == d ? at : number(st, 0);
        sum = rw_add(&st->r, OP_DYNAMIC_UPDATE_SLICE, s, s->rank + 2, operands);
        at = op2(st, OP_ADD, at, sized_size(st, x[i], d));
    }
    *out_size = at;
    return sum;
}

static bool concatenate(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t d = (uint32_t)inst_ints(inst, ATTR_DIMENSIONS).data[0];
    bool along = false;
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t k = 0; k < inst->shape->rank; k++)
        out->sizes[k] = sized_has(x[0], k) ? x[0]->sizes[k] : NULL;
    out->sizes[d] = NULL;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        along |= sized_has(x[i], d);
    out->inst = along ? packed(st, inst, x, d, &out->sizes[d]) : sized_again(st, inst, x);
    return true;
}

static bool dynamic_slice(Statics *st, const Instruction *inst, Sized *const *x,
                          Sized *out)
{
    out->inst = sized_again(st, inst, x);
    return true;
}

/* Only what lies within the update's sizes is written. */
static bool dynamic_update_slice(Statics *st, const Instruction *inst, Sized *const *x,
                                 Sized *out)
{
    Instruction *mask = sized_mask(st, x[1], NULL);
    Sized update = *x[1];
    Sized **operands = ARENA_ARRAY(st->r.scratch, Sized *, inst->operand_count + 1u);
    memcpy(operands, x, inst->operand_count * sizeof *operands);
    if (mask != NULL) {
        Instruction **starts = sized_scratch(st, inst->operand_count);
        starts[0] = x[0]->inst;
        for (uint32_t i = 2; i < inst->operand_count; i++)
            starts[i - 1] = x[i]->inst;
        Instruction *old = rw_add(&st->r, OP_DYNAMIC_SLICE, update.inst->shape,
                                  inst->operand_count - 1, starts);
        inst_set_ints(old, ATTR_DYNAMIC_SLICE_SIZES, update.inst->shape->dims,
                      update.inst->shape->rank);
        update.inst = select3(st, mask, update.inst, old);
        operands[1] = &update;
    }
    out->inst = sized_again(st, inst, operands);
    out->sizes = x[0]->sizes;
    return true;
}

/* -- contractions ------------------------------------------------------------------------------------ */

static const AttrId batches[2] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
static const AttrId sums[2] = {ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};

/* Batch dimensions, then what is kept of each side. */
static Instruction **product_sizes(Statics *st, const Instruction *inst, Sized *const *x)
{
    Instruction **sizes = sized_scratch(st, inst->shape->rank);
    uint32_t at = 0;
    for (uint32_t side = 0; side < 2; side++) {
        Ints batch = inst_ints(inst, batches[side]), sum = inst_ints(inst, sums[side]);
        for (uint32_t i = 0; i < batch.count && side == 0; i++, at++)
            sizes[at] = sized_has(x[0], (uint32_t)batch.data[i])
                            ? x[0]->sizes[batch.data[i]]
                            : NULL;
        for (uint32_t d = 0; d < x[side]->inst->shape->rank; d++) {
            if (!ints_contain(batch, d) && !ints_contain(sum, d))
                sizes[at++] = sized_has(x[side], d) ? x[side]->sizes[d] : NULL;
        }
    }
    return sizes;
}

static bool dot(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    if (inst->operand_count != 2)
        return false;
    Sized both[2] = {*x[0], *x[1]};
    Sized *operands[2] = {&both[0], &both[1]};
    out->sizes = product_sizes(st, inst, x);
    for (uint32_t side = 0; side < 2; side++) {
        Ints sum = inst_ints(inst, sums[side]);
        both[side].inst =
            sized_masked(st, x[side], &sum, sized_zero(st, x[side]->inst->shape));
    }
    /* beyond the other side's size there are zeros, but perhaps none to multiply with */
    Ints left = inst_ints(inst, sums[0]), right = inst_ints(inst, sums[1]);
    for (uint32_t i = 0; i < left.count; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t own = (uint32_t)(side ? right : left).data[i],
                     other = (uint32_t)(side ? left : right).data[i];
            if (sized_has(x[side], own) || !sized_has(x[!side], other))
                continue;
            Sized cut = both[side];
            cut.sizes = sized_scratch(st, cut.inst->shape->rank);
            cut.sizes[own] = x[!side]->sizes[other];
            both[side].inst =
                sized_masked(st, &cut, NULL, sized_zero(st, cut.inst->shape));
        }
    }
    out->inst = sized_again(st, inst, operands);
    return true;
}

/* Groups have sizes of their own; what follows the last one belongs to none. */
static bool ragged_dot(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Ints groups = inst_ints(inst, ATTR_RHS_GROUP_DIMS);
    Ints ragged = inst_ints(inst, ATTR_LHS_RAGGED_DIMS),
         batch = inst_ints(inst, batches[0]);
    Sized both[2] = {*x[0], *x[1]};
    Sized *operands[3] = {&both[0], &both[1], x[2]};
    uint32_t at = 0;
    if (x[2]->sizes != NULL)
        return false;
    out->sizes = sized_scratch(st, inst->shape->rank);
    if (ragged.count == 1 && ints_find(inst_ints(inst, sums[0]), ragged.data[0]) >= 0)
        at = 1; /* a sum for each group */
    for (uint32_t i = 0; i < batch.count; i++, at++)
        out->sizes[at] =
            sized_has(x[0], (uint32_t)batch.data[i]) ? x[0]->sizes[batch.data[i]] : NULL;
    for (uint32_t side = 0; side < 2; side++) {
        Ints own = inst_ints(inst, batches[side]), sum = inst_ints(inst, sums[side]);
        both[side].inst =
            sized_masked(st, x[side], &sum, sized_zero(st, x[side]->inst->shape));
        for (uint32_t d = 0; d < x[side]->inst->shape->rank; d++) {
            bool is_group = side == 1 && ints_find(groups, d) >= 0;
            if (is_group && sized_has(x[1], d))
                return false;
            if (!is_group && ints_find(own, d) < 0 && ints_find(sum, d) < 0)
                out->sizes[at++] = sized_has(x[side], d) ? x[side]->sizes[d] : NULL;
        }
    }
    out->inst = sized_again(st, inst, operands);
    return true;
}

/* Sums are of whole blocks. */
static bool scaled_dot(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Ints sum = inst_ints(inst, sums[i % 2]);
        for (uint32_t k = 0; k < sum.count; k++) {
            if (sized_has(x[i], (uint32_t)sum.data[k]))
                return false;
        }
    }
    out->inst = sized_again(st, inst, x);
    out->sizes = product_sizes(st, inst, x);
    return true;
}

/* Where the widths differ, there is a last dimension of what makes up one element. */
static bool bitcast_convert(Statics *st, const Instruction *inst, Sized *const *x,
                            Sized *out)
{
    uint32_t rank = x[0]->inst->shape->rank;
    if (rank > inst->shape->rank && sized_has(x[0], rank - 1))
        return false;
    out->inst = sized_again(st, inst, x);
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t d = 0; d < rank && d < inst->shape->rank; d++)
        out->sizes[d] = sized_has(x[0], d) ? x[0]->sizes[d] : NULL;
    return true;
}

/* The dimension of a collective's operands that is put together or divided, -1: none is. */
static int64_t divided_dimension(const Instruction *inst)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    return dims.count > 0 ? dims.data[0] : -1;
}

/* Sizes are the same on all devices of a group, and stay. */
static bool collective(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    int64_t divided = divided_dimension(inst);
    if (inst->op == OP_ALL_TO_ALL && divided < 0)
        return false; /* each device gets another operand */
    for (uint32_t k = 0; divided >= 0 && k < inst->operand_count; k++) {
        if (sized_has(x[k], (uint32_t)divided))
            return false;
    }
    Instruction *all = sized_again(st, inst, x);
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        out[k].inst = sized_element(st, all, k);
        out[k].sizes = x[k]->sizes;
    }
    return true;
}

/* A result that is declared dynamic though nothing says its size: it has that of its bounds. */
static bool whole(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (x[i]->sizes != NULL)
            return false;
    }
    Instruction *all = sized_again(st, inst, x);
    for (uint32_t k = 0; k < shape_leaf_count(inst->shape); k++)
        out[k].inst = sized_element(st, all, k);
    return true;
}

SizedRule *sized_rule(const Instruction *inst)
{
    static const struct {
        OpCode op;
        SizedRule *rule;
    } rules[] = {
        {OP_SET_DIMENSION_SIZE, set_dimension_size},
        {OP_GET_DIMENSION_SIZE, get_dimension_size},
        {OP_BROADCAST, broadcast},
        {OP_TRANSPOSE, transpose},
        {OP_SLICE, slice},
        {OP_REVERSE, reverse},
        {OP_PAD, pad_rule},
        {OP_CONCATENATE, concatenate},
        {OP_DYNAMIC_SLICE, dynamic_slice},
        {OP_DYNAMIC_UPDATE_SLICE, dynamic_update_slice},
        {OP_DOT, dot},
        {OP_REDUCE, sized_reduce},
        {OP_REDUCE_WINDOW, sized_reduce_window},
        {OP_SORT, sized_sort},
        {OP_GATHER, sized_gather},
        {OP_SCATTER, sized_scatter},
        {OP_RESHAPE, sized_reshape},
        {OP_DYNAMIC_RESHAPE, sized_dynamic_reshape},
        {OP_ALL_GATHER, collective},
        {OP_ALL_REDUCE, collective},
        {OP_ALL_TO_ALL, collective},
        {OP_BITCAST, sized_bitcast},
        {OP_COLLECTIVE_BROADCAST, collective},
        {OP_COLLECTIVE_PERMUTE, collective},
        {OP_REDUCE_SCATTER, collective},
        {OP_BATCH_NORM_GRAD, sized_batch_norm},
        {OP_BATCH_NORM_INFERENCE, sized_batch_norm},
        {OP_BATCH_NORM_TRAINING, sized_batch_norm},
        {OP_BITCAST_CONVERT, bitcast_convert},
        {OP_CHOLESKY, sized_cholesky},
        {OP_CONVOLUTION, sized_convolution},
        {OP_FFT, sized_fft},
        {OP_RAGGED_DOT, ragged_dot},
        {OP_SCALED_DOT, scaled_dot},
        {OP_SCAN, sized_scan},
        {OP_SELECT_AND_SCATTER, sized_select_and_scatter},
        {OP_TOPK, sized_topk},
        {OP_TRIANGULAR_SOLVE, sized_triangular_solve},
        {OP_IOTA, whole},
        {OP_RNG, whole},
        {OP_RNG_BIT_GENERATOR, whole},
        {OP_CONSTANT, NULL},
    };
    if (custom_call_has_target(inst, "PadToStatic"))
        return pad_to_static;
    if (custom_call_has_target(inst, "SliceToDynamic"))
        return slice_to_dynamic;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].op == inst->op)
            return rules[i].rule;
    }
    return op_is(inst->op, OPF_ELEMENTWISE) ? elementwise : NULL;
}
