/* Rules of whole softmaxes.
 *
 * Measure: concatenations and slices. */
#include "passes/simplify/rewrite.h"

/* A softmax along `dim` of what a concatenation joins to rows, the other operand one element each. */
typedef struct JoinedSoftmax {
    Instruction *weights, *exponentials, *joined, *maxima, *sums;
    Instruction *rows, *ones; /* that were joined */
    uint32_t dim;
} JoinedSoftmax;

/* The reduction along `dim` that is repeated along it; NULL: it is another one. */
static Instruction *repeated_reduction(Instruction *x, const Instruction *of, OpCode op,
                                       uint32_t dim)
{
    if (x->op != OP_BROADCAST || x->operands[0]->op != OP_REDUCE)
        return NULL;
    Instruction *reduction = x->operands[0];
    Ints over = inst_ints(reduction, ATTR_DIMENSIONS),
         dims = inst_ints(x, ATTR_DIMENSIONS);
    if (reduction->operand_count != 2 || reduction->operands[0] != of ||
        over.count != 1 || over.data[0] != dim ||
        rw_reducer_op(inst_called(reduction, 0)) != op)
        return NULL;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] != i + (i >= dim))
            return NULL;
    }
    return reduction;
}

static bool match_joined(Instruction *weights, JoinedSoftmax *s)
{
    *s = (JoinedSoftmax){.weights = weights};
    if (weights->op != OP_DIVIDE || weights->operands[0]->op != OP_EXPONENTIAL)
        return false;
    s->exponentials = weights->operands[0];
    Instruction *less = s->exponentials->operands[0];
    if (less->op != OP_SUBTRACT || less->operands[0]->op != OP_CONCATENATE ||
        less->operands[0]->operand_count != 2)
        return false;
    s->joined = less->operands[0];
    s->dim = (uint32_t)inst_ints(s->joined, ATTR_DIMENSIONS).data[0];
    s->maxima = repeated_reduction(less->operands[1], s->joined, OP_MAXIMUM, s->dim);
    s->sums = repeated_reduction(weights->operands[1], s->exponentials, OP_ADD, s->dim);
    return s->maxima != NULL && s->sums != NULL;
}

/* Which operand of the concatenation the slice is all of, the other one having one element a row; -1: neither. */
static int64_t taken_operand(const Instruction *slice, const JoinedSoftmax *s)
{
    const SliceSpec *spec = inst_attr(slice, ATTR_SLICE)->slice;
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *x = s->joined->operands[i], *one = s->joined->operands[!i];
        bool is_all = x->shape == slice->shape && one->shape->dims[s->dim] == 1 &&
                      rw_is_static(x->shape) && spec->dims[s->dim].start == i;
        for (uint32_t d = 0; d < spec->rank; d++)
            is_all = is_all && spec->dims[d].stride == 1;
        if (is_all)
            return i;
    }
    return -1;
}

/* A row's values over the slice. */
static Instruction *over_rows(Rewriter *r, const Instruction *slice, Instruction *x,
                              uint32_t dim)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)x->shape->rank + 1);
    for (uint32_t i = 0; i < x->shape->rank; i++)
        dims[i] = i + (i >= dim);
    return rw_broadcast(r, slice->shape, x, x->shape->rank, dims);
}

/* slice(softmax(concatenate(x, y))) of x -> exp(x - m) / (sum(exp(x - m)) + exp(y - m)), m = max(max(x), y): y, a sink
 * of each row, needs no column. */
static Instruction *slice_softmax(Rewriter *r, Instruction *inst)
{
    JoinedSoftmax s;
    if (!match_joined(inst->operands[0], &s))
        return NULL;
    const Uses *uses = rw_uses(r); /* it says what r->known is */
    if (s.weights->id >= r->known || uses_only(uses, s.weights) != inst)
        return NULL;
    int64_t taken = taken_operand(inst, &s);
    if (taken < 0)
        return NULL;
    Instruction *x = s.joined->operands[taken],
                *sink = rw_reshape(r, s.maxima->shape, s.joined->operands[!taken]);
    Instruction *most = rw_like(r, s.maxima, s.maxima->shape, 2,
                                (Instruction *[]){x, s.maxima->operands[1]});
    most = rw_binary(r, OP_MAXIMUM, s.maxima->shape, most, sink);
    Instruction *e =
        rw_binary(r, OP_SUBTRACT, inst->shape, x, over_rows(r, inst, most, s.dim));
    e = rw_unary(r, OP_EXPONENTIAL, inst->shape, e);
    Instruction *sums = rw_like(r, s.sums, s.sums->shape, 2,
                                (Instruction *[]){e, s.sums->operands[1]}),
                *own = rw_binary(r, OP_SUBTRACT, s.maxima->shape, sink, most);
    own = rw_unary(r, OP_EXPONENTIAL, s.maxima->shape, own);
    sums = rw_binary(r, OP_ADD, s.sums->shape, sums, own);
    return rw_binary(r, OP_DIVIDE, inst->shape, e, over_rows(r, inst, sums, s.dim));
}

const Rule rules_softmax[] = {
    {OP_SLICE, "slice_softmax", slice_softmax},
    {0},
};
