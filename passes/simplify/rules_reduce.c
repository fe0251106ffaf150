/* Rules of reduce, reduce-window and sort.
 *
 * Measure: number of operations, then their weight (sort > reduce > elementwise), then
 * operands. Floats are not added in another order than the evaluator's unless it is the
 * order of a value with itself. */
#include "passes/simplify/rewrite.h"

#include <string.h>

static Computation *reducer(const Instruction *inst)
{
    return inst_attr(inst, ATTR_TO_APPLY)->computations.data[0];
}

static bool is_plain(const Instruction *inst)
{
    return inst->operand_count == 2 && rw_is_static(inst->shape) &&
           rw_is_static(inst->operands[0]->shape) &&
           inst->shape->dtype == inst->operands[0]->shape->dtype &&
           inst->shape->dtype == inst->operands[1]->shape->dtype;
}

static int64_t reduced_count(const Instruction *inst)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    int64_t n = 1;
    for (uint32_t i = 0; i < dims.count; i++)
        n *= inst->operands[0]->shape->dims[dims.data[i]]; /* <= elements: no overflow */
    return n;
}

/* reduce of nothing -> the initial value */
static Instruction *reduce_empty(Rewriter *r, Instruction *inst)
{
    if (!is_plain(inst) || reduced_count(inst) != 0)
        return NULL;
    return rw_broadcast(r, inst->shape, inst->operands[1], 0, NULL);
}

/* reduce over one element -> op(init, x) */
static Instruction *reduce_one(Rewriter *r, Instruction *inst)
{
    if (!is_plain(inst) || reduced_count(inst) != 1 || rw_is_zero_size(inst->shape))
        return NULL;
    OpCode op = rw_reducer_op(reducer(inst));
    if (op == OP_COUNT || reducer(inst)->root->attr_count > 1)
        return NULL;
    Instruction *x = rw_reshape(r, inst->shape, inst->operands[0]);
    Instruction *init = rw_broadcast(r, inst->shape, inst->operands[1], 0, NULL);
    Instruction *operands[2] = {init, x};
    return rw_like(r, reducer(inst)->root, inst->shape, 2, operands);
}

/* A value that does not change what the operation gives: op(x, x) = x. */
static bool is_idempotent(OpCode op)
{
    return op == OP_MAXIMUM || op == OP_MINIMUM || op == OP_AND || op == OP_OR;
}

/* reduce(broadcast(x)) over broadcast dimensions, by max, min, and, or -> op(init, x) */
static Instruction *reduce_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (!is_plain(inst) || b->op != OP_BROADCAST || reduced_count(inst) == 0 ||
        !rw_is_static(b->operands[0]->shape))
        return NULL;
    OpCode op = rw_reducer_op(reducer(inst));
    if (op == OP_COUNT || !is_idempotent(op))
        return NULL;
    Ints reduced = inst_ints(inst, ATTR_DIMENSIONS), dims = inst_ints(b, ATTR_DIMENSIONS);
    int64_t *position = ARENA_ARRAY(r->scratch, int64_t, b->shape->rank);
    int64_t next = 0;
    for (uint32_t i = 0; i < b->shape->rank; i++)
        position[i] = ints_contain(reduced, i) ? -1 : next++;
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    for (uint32_t i = 0; i < dims.count; i++) {
        kept[i] = position[dims.data[i]];
        if (kept[i] < 0)
            return NULL;
    }
    Instruction *x = rw_broadcast(r, inst->shape, b->operands[0], dims.count, kept);
    Instruction *init = rw_broadcast(r, inst->shape, inst->operands[1], 0, NULL);
    return rw_binary(r, op, inst->shape, init, x);
}

/* reduce(transpose(x)) -> reduce(x), where neither kept nor reduced dimensions change order */
static Instruction *reduce_transpose(Rewriter *r, Instruction *inst)
{
    Instruction *t = inst->operands[0];
    if (!is_plain(inst) || t->op != OP_TRANSPOSE)
        return NULL;
    Ints p = inst_ints(t, ATTR_DIMENSIONS), reduced = inst_ints(inst, ATTR_DIMENSIONS);
    int64_t last[2] = {-1, -1};
    for (uint32_t i = 0; i < p.count; i++) {
        bool gone = ints_contain(reduced, i);
        if (p.data[i] < last[gone])
            return NULL;
        last[gone] = p.data[i];
    }
    Instruction *operands[2] = {t->operands[0], inst->operands[1]};
    Instruction *by = rw_like(r, inst, inst->shape, 2, operands);
    inst_set_ints(by, ATTR_DIMENSIONS, rw_through(r, p, reduced), reduced.count);
    return by;
}

/* reduce(reshape(x)) where the reshape only adds dimensions of size 1 -> reduce(x) */
static Instruction *reduce_reshape(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (!is_plain(inst) || a->op != OP_RESHAPE || rw_is_zero_size(a->shape) ||
        !rw_is_static(a->operands[0]->shape))
        return NULL;
    const Shape *from = a->operands[0]->shape, *to = a->shape;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    if (from->rank >= to->rank || !rw_same_but_ones(from, to))
        return NULL;
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dims[i] == 1)
            return NULL;
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, from->rank);
    uint32_t k = 0, n = 0, rank = 0;
    for (uint32_t i = 0; i < to->rank; i++) {
        if (to->dims[i] == 1)
            continue;
        if (ints_contain(dims, i))
            kept[n++] = k;
        else
            sizes[rank++] = to->dims[i];
        k++;
    }
    if (n == 0)
        return NULL;
    const Shape *s = rw_shape(r, inst->shape->dtype, rank, sizes);
    if (rank == inst->shape->rank)
        s = inst->shape;
    Instruction *operands[2] = {a->operands[0], inst->operands[1]};
    Instruction *by = rw_like(r, inst, s, 2, operands);
    inst_set_ints(by, ATTR_DIMENSIONS, kept, n);
    return rw_reshape(r, inst->shape, by);
}

/* reduce-window by windows of one element, without padding -> op(init, x) */
static Instruction *reduce_window_one(Rewriter *r, Instruction *inst)
{
    if (!is_plain(inst) || rw_is_zero_size(inst->shape) ||
        inst->operands[0]->shape != inst->shape)
        return NULL;
    const Window *w = inst_window(inst);
    for (uint32_t i = 0; i < w->rank; i++)
        if (w->dims[i].size != 1 || w->dims[i].stride != 1 || w->dims[i].pad_low != 0 ||
            w->dims[i].pad_high != 0 || w->dims[i].base_dilation != 1)
            return NULL;
    OpCode op = rw_reducer_op(reducer(inst));
    if (op == OP_COUNT || reducer(inst)->root->attr_count > 1)
        return NULL;
    Instruction *operands[2] = {rw_broadcast(r, inst->shape, inst->operands[1], 0, NULL),
                                inst->operands[0]};
    return rw_like(r, reducer(inst)->root, inst->shape, 2, operands);
}

/* Windows that end some elements before each (begin behind it), as exclusive sums have -> cumulative ones, moved on
 *
 *   reduce-window(x, init), window={size=n pad=n_0}
 *     =>  pad(reduce-window(x, init), init), padding=1_0, where the inner one has window={size=n pad=(n-1)_0} */
static Instruction *reduce_window_moved(Rewriter *r, Instruction *inst)
{
    if (!is_plain(inst) || rw_is_zero_size(inst->shape) ||
        rw_is_zero_size(inst->operands[0]->shape))
        return NULL;
    const Shape *s = inst->operands[0]->shape;
    const Window *w = inst_window(inst);
    PaddingDim *dims = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
    int64_t along = -1;
    bool from_end = false;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowDim *d = &w->dims[i];
        int64_t n = s->dims[i];
        if (d->stride != 1 || d->base_dilation != 1 || d->window_dilation != 1)
            return NULL;
        if (d->size == 1 && d->pad_low == 0 && d->pad_high == 0)
            continue;
        bool is_after = d->pad_low >= n && d->pad_high <= 0 && d->pad_high > -n,
             is_before = d->pad_high >= n && d->pad_low <= 0 && d->pad_low > -n;
        if (along >= 0 || d->size != n || (!is_after && !is_before))
            return NULL;
        along = i;
        from_end = is_before;
        dims[i].low = is_after ? d->pad_low - (n - 1) : d->pad_low;
        dims[i].high = is_before ? d->pad_high - (n - 1) : d->pad_high;
    }
    if (along < 0)
        return NULL;
    const Shape *scanned = shape_with_dims(r->m->intern, inst->shape, s->rank, s->dims);
    Instruction *scan = rw_like(r, inst, scanned, 2, inst->operands);
    rw_set_cumulative(r, scan, along, from_end);
    Padding *padding = ARENA_NEW(r->m->arena, Padding);
    *padding = (Padding){s->rank, dims};
    Instruction *pad = rw_binary(r, OP_PAD, inst->shape, scan, inst->operands[1]);
    inst_set(pad, (Attr){.id = ATTR_PADDING, .padding = padding});
    return pad;
}

/* The initial value changes nothing by joining again, nor do partial results round. */
static bool joins_again(const Instruction *inst)
{
    DType t = inst->shape->dtype;
    switch (rw_reducer_op(reducer(inst))) {
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
        return true;
    case OP_ADD:
        return inst_is_constant_scalar(inst->operands[1], 0) &&
               (!dtype_is_float(t) || dtype_info[t].bits >= 32);
    default:
        return false;
    }
}

/* Large windows in several dimensions, as of summed areas: in one of them, then in the others. Each element then takes as
 * many steps as the sides of its window are long, not their product. */
static Instruction *reduce_window_apart(Rewriter *r, Instruction *inst)
{
    enum { LEAST_WINDOW = 256 };
    if (!is_plain(inst) || rw_is_zero_size(inst->shape) ||
        rw_is_zero_size(inst->operands[0]->shape) || !joins_again(inst))
        return NULL;
    const Window *w = inst_window(inst);
    uint32_t rank = w->rank, wide = 0, at = rank;
    int64_t elements = 1;
    for (uint32_t i = rank; i-- > 0;) {
        if (w->dims[i].size == 1)
            continue;
        wide++;
        at = i;
        if (elements < LEAST_WINDOW)
            elements *= w->dims[i].size < LEAST_WINDOW ? w->dims[i].size : LEAST_WINDOW;
    }
    if (wide < 2 || elements < LEAST_WINDOW)
        return NULL;
    WindowDim *parts[2];
    for (uint32_t k = 0; k < 2; k++) {
        parts[k] = ARENA_ARRAY(r->m->arena, WindowDim, rank);
        for (uint32_t i = 0; i < rank; i++)
            parts[k][i] = (i == at) == (k == 0) ? w->dims[i]
                                                : (WindowDim){.size = 1,
                                                              .stride = 1,
                                                              .base_dilation = 1,
                                                              .window_dilation = 1};
    }
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == at ? inst->shape->dims[i] : inst->operands[0]->shape->dims[i];
    const Shape *s = shape_with_dims(r->m->intern, inst->shape, rank, dims);
    Instruction *x = inst->operands[0];
    int64_t between; /* padding makes one side long before the other one gets short */
    if (!shape_element_count(s, &between) ||
        between / 2 > shape_elements(x->shape) / 2 + shape_elements(inst->shape) / 2 + 1)
        return NULL;
    for (uint32_t k = 0; k < 2; k++) {
        Window *part = ARENA_NEW(r->m->arena, Window);
        *part = (Window){rank, parts[k]};
        x = rw_like(r, inst, k == 0 ? s : inst->shape, 2,
                    (Instruction *[]){x, inst->operands[1]});
        inst_set(x, (Attr){.id = ATTR_WINDOW, .window = part});
    }
    return x;
}

/* sort along a dimension of size 0 or 1 -> the operands */
static Instruction *sort_one(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->operands[0]->shape;
    if (!rw_is_static(s) || s->dims[inst_ints(inst, ATTR_DIMENSIONS).data[0]] > 1)
        return NULL;
    if (inst->operand_count == 1)
        return rw_as(inst, inst->operands[0]);
    return rw_add(r, OP_TUPLE, inst->shape, inst->operand_count, inst->operands);
}

const Rule rules_reduce[] = {
    {OP_REDUCE, "reduce_empty", reduce_empty},
    {OP_REDUCE, "reduce_one", reduce_one},
    {OP_REDUCE, "reduce_broadcast", reduce_broadcast},
    {OP_REDUCE, "reduce_transpose", reduce_transpose},
    {OP_REDUCE, "reduce_reshape", reduce_reshape},
    {OP_REDUCE_WINDOW, "reduce_window_one", reduce_window_one},
    {OP_REDUCE_WINDOW, "reduce_window_moved", reduce_window_moved},
    {OP_REDUCE_WINDOW, "reduce_window_apart", reduce_window_apart},
    {OP_SORT, "sort_one", sort_one},
    {0},
};
