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
    {OP_SORT, "sort_one", sort_one},
    {0},
};
