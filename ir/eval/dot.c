/* dot, ragged-dot, scaled-dot: operands are brought to [batch, rows, contracted] and
 * [batch, contracted, columns], one batch element at a time, and multiplied by gemm. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/gemm.h"
#include "ir/eval/strided.h"

/* The dimensions of an operand by their part in a product, each list in the result's order. */
typedef struct Side {
    const Value *x;
    uint32_t rank; /* of the permuted operand */
    int64_t dims[EVAL_RANK_MAX], strides[EVAL_RANK_MAX];
    uint32_t batch_rank, free_rank, sum_rank;
    int64_t batch, free, sum; /* elements */
} Side;

static bool contains(Ints list, int64_t d)
{
    for (uint32_t i = 0; i < list.count; i++)
        if (list.data[i] == d)
            return true;
    return false;
}

static void side_add(Side *s, const int64_t *strides, int64_t d, int64_t *product)
{
    s->dims[s->rank] = s->x->shape->dims[d];
    s->strides[s->rank++] = strides[d];
    *product *= s->x->shape->dims[d];
}

/* left: free before summed dimensions; right: the other way round. */
static void side_make(EvalCall *call, Side *s, const Value *x, Ints batch, Ints sum,
                      bool left)
{
    if (x->shape->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    memset(s, 0, sizeof *s);
    s->x = x;
    s->batch = s->free = s->sum = 1;
    int64_t strides[EVAL_RANK_MAX];
    strides_row_major(x->shape->rank, x->shape->dims, strides);
    for (uint32_t i = 0; i < batch.count; i++)
        side_add(s, strides, batch.data[i], &s->batch);
    s->batch_rank = batch.count;
    for (uint32_t part = 0; part < 2; part++) {
        if ((part == 0) != left) {
            for (uint32_t i = 0; i < sum.count; i++)
                side_add(s, strides, sum.data[i], &s->sum);
        } else {
            for (uint32_t d = 0; d < x->shape->rank; d++)
                if (!contains(batch, d) && !contains(sum, d))
                    side_add(s, strides, d, &s->free);
        }
    }
}

/* The matrix of one batch element, in type t. */
static void side_matrix(EvalCall *call, const Side *s, const int64_t *batch, DType t,
                        void *raw, void *out)
{
    (void)call;
    size_t size = value_element_bytes(s->x);
    int64_t offset = 0, to[EVAL_RANK_MAX];
    for (uint32_t i = 0; i < s->batch_rank; i++)
        offset += batch[i] * s->strides[i];
    uint32_t rank = s->rank - s->batch_rank;
    strides_row_major(rank, s->dims + s->batch_rank, to);
    strided_copy(size, rank, s->dims + s->batch_rank, raw, to,
                 (const char *)s->x->data + offset * (int64_t)size,
                 s->strides + s->batch_rank);
    number_convert(t, out, s->x->shape->dtype, raw, (size_t)(s->free * s->sum));
}

static void dot_into(EvalCall *call, const Side *l, const Side *r, Value *v)
{
    if (l->sum != r->sum || l->batch != r->batch)
        eval_fail(call, "the operands' dimensions do not fit");
    int64_t m = l->free, n = r->free, k = l->sum;
    if (v->count != l->batch * m * n)
        eval_fail(call, "the result's shape does not fit the operands");
    DType t = gemm_type(l->x->shape->dtype, r->x->shape->dtype, v->shape->dtype);
    size_t each = dtype_info[t].storage;
    void *raw_a = eval_temp(call, (size_t)(m * k), value_element_bytes(l->x));
    void *raw_b = eval_temp(call, (size_t)(k * n), value_element_bytes(r->x));
    void *a = eval_temp(call, (size_t)(m * k), each),
         *b = eval_temp(call, (size_t)(k * n), each);
    void *c = eval_temp(call, (size_t)(m * n), each);
    int64_t index[EVAL_RANK_MAX] = {0}, at = 0;
    if (v->count == 0)
        return;
    do {
        struct Temp *mark = value_heap_mark(&call->eval->heap);
        side_matrix(call, l, index, t, raw_a, a);
        side_matrix(call, r, index, t, raw_b, b);
        memset(c, 0, (size_t)(m * n) * each);
        gemm(call, t, m, n, k, a, b, c);
        number_convert(v->shape->dtype,
                       (char *)v->data + at * (int64_t)value_element_bytes(v), t, c,
                       (size_t)(m * n));
        at += m * n;
        value_heap_release(&call->eval->heap, mark);
    } while (index_next(l->batch_rank, l->dims, index));
}

void eval_dot(EvalCall *call)
{
    const Instruction *inst = call->inst;
    if (inst->operand_count != 2)
        eval_unsupported(call, "%u operands", inst->operand_count);
    Side l, r;
    side_make(call, &l, call->operands[0], inst_ints(inst, ATTR_LHS_BATCH_DIMS),
              inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS), true);
    side_make(call, &r, call->operands[1], inst_ints(inst, ATTR_RHS_BATCH_DIMS),
              inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS), false);
    Value *v = eval_result(call);
    dot_into(call, &l, &r, v);
}
