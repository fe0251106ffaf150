/* dot, ragged-dot, scaled-dot: operands are brought to [batch, rows, contracted] and
 * [batch, contracted, columns], one batch element at a time, and multiplied by gemm. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/gemm.h"
#include "ir/eval/scalar.h"
#include "ir/eval/strided.h"

/* An array, or a part of one. */
typedef struct View {
    const char *data;
    DType dtype;
    uint32_t rank;
    int64_t dims[EVAL_RANK_MAX], strides[EVAL_RANK_MAX];
} View;

/* The dimensions of an operand by their part in a product, each list in the result's order. */
typedef struct Side {
    const char *data;
    DType dtype;
    uint32_t rank, batch_rank;
    int64_t dims[EVAL_RANK_MAX], strides[EVAL_RANK_MAX];
    int64_t batch, free, sum; /* elements */
} Side;

static void view_make(EvalCall *call, View *v, DType t, const void *data, const Shape *s)
{
    if (s->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    v->data = data;
    v->dtype = t;
    v->rank = s->rank;
    for (uint32_t d = 0; d < s->rank; d++)
        v->dims[d] = s->dims[d];
    strides_row_major(s->rank, s->dims, v->strides);
}

static void view_narrow(View *v, int64_t d, int64_t first, int64_t size)
{
    v->data += first * v->strides[d] * (int64_t)dtype_info[v->dtype].storage;
    v->dims[d] = size;
}

static void side_add(Side *s, const View *v, int64_t d, int64_t *product)
{
    s->dims[s->rank] = v->dims[d];
    s->strides[s->rank++] = v->strides[d];
    *product *= v->dims[d];
}

/* left: free before summed dimensions; right: the other way round. */
static void side_make(Side *s, const View *v, Ints batch, Ints sum, Ints without,
                      bool left)
{
    s->data = v->data;
    s->dtype = v->dtype;
    s->rank = 0;
    s->batch = s->free = s->sum = 1;
    for (uint32_t i = 0; i < batch.count; i++)
        side_add(s, v, batch.data[i], &s->batch);
    s->batch_rank = batch.count;
    for (uint32_t part = 0; part < 2; part++) {
        if ((part == 0) != left) {
            for (uint32_t i = 0; i < sum.count; i++)
                side_add(s, v, sum.data[i], &s->sum);
            continue;
        }
        for (uint32_t d = 0; d < v->rank; d++)
            if (!ints_contain(batch, d) && !ints_contain(sum, d) &&
                !ints_contain(without, d))
                side_add(s, v, d, &s->free);
    }
}

/* The matrix of one batch element, in type t. */
static void side_matrix(const Side *s, const int64_t *batch, DType t, void *raw,
                        void *out)
{
    size_t size = dtype_info[s->dtype].storage;
    int64_t offset = 0, to[EVAL_RANK_MAX];
    for (uint32_t i = 0; i < s->batch_rank; i++)
        offset += batch[i] * s->strides[i];
    uint32_t rank = s->rank - s->batch_rank;
    strides_row_major(rank, s->dims + s->batch_rank, to);
    strided_copy(size, rank, s->dims + s->batch_rank, raw, to,
                 s->data + offset * (int64_t)size, s->strides + s->batch_rank);
    number_convert(t, out, s->dtype, raw, (size_t)(s->free * s->sum));
}

/* out: [batch, left free, right free], row-major, of type to; t: what it is summed in. */
static void multiply(EvalCall *call, const Side *l, const Side *r, DType t, DType to,
                     void *out)
{
    int64_t m = l->free, n = r->free, k = l->sum, at = 0;
    if (l->sum != r->sum || l->batch != r->batch)
        eval_fail(call, "the operands' dimensions do not fit");
    if (l->batch * m * n == 0)
        return;
    size_t each = dtype_info[t].storage;
    void *raw_a = eval_temp(call, (size_t)(m * k), dtype_info[l->dtype].storage);
    void *raw_b = eval_temp(call, (size_t)(k * n), dtype_info[r->dtype].storage);
    void *a = eval_temp(call, (size_t)(m * k), each),
         *b = eval_temp(call, (size_t)(k * n), each);
    void *c = eval_temp(call, (size_t)(m * n), each);
    int64_t index[EVAL_RANK_MAX] = {0};
    do {
        struct Temp *mark = value_heap_mark(&call->eval->heap);
        side_matrix(l, index, t, raw_a, a);
        side_matrix(r, index, t, raw_b, b);
        memset(c, 0, (size_t)(m * n) * each);
        gemm(call, t, m, n, k, a, b, c);
        number_convert(to, (char *)out + at * (int64_t)dtype_info[to].storage, t, c,
                       (size_t)(m * n));
        at += m * n;
        value_heap_release(&call->eval->heap, mark);
    } while (index_next(l->batch_rank, l->dims, index));
}

static void dot_views(EvalCall *call, const View *x, const View *y)
{
    const Instruction *inst = call->inst;
    const Ints none = {NULL, 0};
    Side l, r;
    side_make(&l, x, inst_ints(inst, ATTR_LHS_BATCH_DIMS),
              inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS), none, true);
    side_make(&r, y, inst_ints(inst, ATTR_RHS_BATCH_DIMS),
              inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS), none, false);
    Value *v = eval_result(call);
    if (v->count != l.batch * l.free * r.free)
        eval_fail(call, "the result's shape does not fit the operands");
    multiply(call, &l, &r, gemm_type(x->dtype, y->dtype, v->shape->dtype),
             v->shape->dtype, v->data);
}

/* Run-time sizes of the result: batch, free dimensions of the left, of the right side. */
static void dot_sizes(EvalCall *call)
{
    uint32_t at = 0;
    for (uint32_t side = 0; side < 2; side++) {
        const Value *x = call->operands[side];
        Ints batch =
            inst_ints(call->inst, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
        Ints sum = inst_ints(call->inst, side == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                                   : ATTR_RHS_CONTRACTING_DIMS);
        for (uint32_t i = 0; i < batch.count && side == 0; i++)
            value_set_size(call->result, at++, value_size(x, (uint32_t)batch.data[i]));
        for (uint32_t d = 0; d < x->shape->rank; d++)
            if (!ints_contain(batch, d) && !ints_contain(sum, d))
                value_set_size(call->result, at++, value_size(x, d));
    }
}

void eval_dot(EvalCall *call)
{
    if (call->inst->operand_count != 2)
        eval_unsupported(call, "%u operands", call->inst->operand_count);
    const Value *x = call->operands[0], *y = call->operands[1];
    View l, r;
    view_make(call, &l, x->shape->dtype, x->data, x->shape);
    view_make(call, &r, y->shape->dtype, y->data, y->shape);
    Ints sum = inst_ints(call->inst, ATTR_LHS_CONTRACTING_DIMS);
    Ints other = inst_ints(call->inst, ATTR_RHS_CONTRACTING_DIMS);
    for (uint32_t i = 0; i < sum.count && (x->sizes || y->sizes); i++) {
        int64_t a = value_size(x, (uint32_t)sum.data[i]),
                b = value_size(y, (uint32_t)other.data[i]);
        view_narrow(&l, sum.data[i], 0, a < b ? a : b);
        view_narrow(&r, other.data[i], 0, a < b ? a : b);
    }
    dot_views(call, &l, &r);
    dot_sizes(call);
}

/* -- scaled-dot --------------------------------------------------------------------- */

/* Each element times the scale of its block, exact in f64; a scalar stands for no scale. */
static double *scaled(EvalCall *call, const Value *x, const Value *scale)
{
    uint32_t rank = x->shape->rank;
    double *out = eval_temp(call, (size_t)x->count, sizeof *out);
    double *factor = eval_temp(call, (size_t)scale->count, sizeof *factor);
    number_convert(DT_F64, out, x->shape->dtype, x->data, (size_t)x->count);
    number_convert(DT_F64, factor, scale->shape->dtype, scale->data,
                   (size_t)scale->count);
    int64_t strides[EVAL_RANK_MAX], index[EVAL_RANK_MAX] = {0};
    if (rank > EVAL_RANK_MAX || (scale->shape->rank != 0 && scale->shape->rank != rank))
        eval_fail(call, "operand and scale have different ranks");
    strides_row_major(scale->shape->rank, scale->shape->dims, strides);
    for (int64_t i = 0; i < x->count && scale->shape->rank != 0; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < scale->shape->rank; d++)
            at += index[d] / (x->shape->dims[d] / scale->shape->dims[d]) * strides[d];
        out[i] *= factor[at];
        index_next(rank, x->shape->dims, index);
    }
    return out;
}

void eval_scaled_dot(EvalCall *call)
{
    View l, r;
    view_make(call, &l, DT_F64, scaled(call, call->operands[0], call->operands[2]),
              call->operands[0]->shape);
    view_make(call, &r, DT_F64, scaled(call, call->operands[1], call->operands[3]),
              call->operands[1]->shape);
    dot_views(call, &l, &r);
}

/* -- ragged-dot ---------------------------------------------------------------------
 *
 * The ragged dimension of the left side is cut into groups. Where it is
 *   free: group i is multiplied by matrix i of the right side,
 *   contracted: each group gives a result of its own,
 *   batch: groups say nothing, it is a dot.
 * Sizes may depend on earlier dimensions, then each index of those is a problem of its own. */

typedef enum { RAGGED_FREE, RAGGED_SUMMED } RaggedMode;

typedef struct Ragged {
    const Instruction *inst;
    RaggedMode mode;
    int64_t dim;          /* ragged dimension of the left side */
    uint32_t prefix_rank; /* left dimensions that sizes depend on */
    int64_t prefix[EVAL_RANK_MAX], prefix_dims[EVAL_RANK_MAX];
    Ints lhs_batch, lhs_sum, rhs_batch, rhs_sum, rhs_group;
    View lhs, rhs, out; /* out: f64 or another type of gemm_type */
    char *sums;         /* what out shows */
} Ragged;

/* The result's dimension that a free or batch dimension of the left side becomes. */
static int64_t result_dim(const Ragged *g, int64_t d)
{
    int64_t first = g->mode == RAGGED_SUMMED ? 1 : 0, at = ints_find(g->lhs_batch, d);
    if (at >= 0)
        return first + at;
    at = first + g->lhs_batch.count;
    for (int64_t k = 0; k < d; k++)
        at += !ints_contain(g->lhs_batch, k) && !ints_contain(g->lhs_sum, k);
    return at;
}

/* Takes part of dimension d of the left side and of what belongs to it. */
static void ragged_narrow(const Ragged *g, View *l, View *r, View *out, int64_t d,
                          int64_t first, int64_t size)
{
    view_narrow(l, d, first, size);
    int64_t batch = ints_find(g->lhs_batch, d), sum = ints_find(g->lhs_sum, d);
    if (batch >= 0)
        view_narrow(r, g->rhs_batch.data[batch], first, size);
    if (sum >= 0)
        view_narrow(r, g->rhs_sum.data[sum], first, size);
    else
        view_narrow(out, result_dim(g, d), first, size);
}

/* out += the product of one group. */
static void ragged_group(EvalCall *call, const Ragged *g, const View *l, const View *r,
                         const View *out)
{
    Side left, right;
    const Ints none = {NULL, 0};
    side_make(&left, l, g->lhs_batch, g->lhs_sum, none, true);
    side_make(&right, r, g->rhs_batch, g->rhs_sum, g->rhs_group, false);
    size_t n = (size_t)(left.batch * left.free * right.free);
    size_t size = dtype_info[out->dtype].storage;
    if (n == 0 || left.sum == 0)
        return;
    ScalarKernel add;
    if (!scalar_kernel(OP_ADD, out->dtype, out->dtype, false, &add))
        eval_unsupported(call, "sums of %s", dtype_name(out->dtype));
    void *product = eval_temp(call, n, size), *before = eval_temp(call, n, size);
    void *sum = eval_temp(call, n, size);
    multiply(call, &left, &right, out->dtype, out->dtype, product);
    int64_t dense[EVAL_RANK_MAX];
    strides_row_major(out->rank, out->dims, dense);
    strided_copy(size, out->rank, out->dims, before, dense, out->data, out->strides);
    const void *in[2] = {before, product};
    add.run(sum, in, n, &add);
    size_t offset = (size_t)(out->data - g->out.data);
    strided_copy(size, out->rank, out->dims, g->sums + offset, out->strides, sum, dense);
}

static void ragged_prefix(EvalCall *call, Ragged *g, const Shape *sizes)
{
    g->prefix_rank = sizes->rank - 1;
    uint32_t at = 0;
    for (uint32_t i = 0; i < g->lhs_batch.count && at < g->prefix_rank; i++)
        if (g->lhs_batch.data[i] != g->dim)
            g->prefix[at++] = g->lhs_batch.data[i];
    for (uint32_t i = 0; g->mode == RAGGED_SUMMED && i < g->lhs_sum.count; i++)
        if (at < g->prefix_rank && g->lhs_sum.data[i] != g->dim)
            g->prefix[at++] = g->lhs_sum.data[i];
    for (int64_t d = 0; g->mode == RAGGED_FREE && d < g->dim; d++)
        if (at < g->prefix_rank && !ints_contain(g->lhs_batch, d) &&
            !ints_contain(g->lhs_sum, d))
            g->prefix[at++] = d;
    if (at != g->prefix_rank)
        eval_fail(call, "group sizes of %u dimensions do not fit", sizes->rank);
    for (uint32_t i = 0; i < at; i++) {
        g->prefix_dims[i] = sizes->dims[i];
        if (sizes->dims[i] != g->lhs.dims[g->prefix[i]])
            eval_fail(call, "group sizes do not fit dimension %lld",
                      (long long)g->prefix[i]);
    }
}

static void ragged_run(EvalCall *call, Ragged *g, const Value *sizes)
{
    int64_t groups = sizes->shape->dims[g->prefix_rank], index[EVAL_RANK_MAX] = {0},
            at = 0;
    do {
        int64_t start = 0, limit = g->lhs.dims[g->dim];
        for (int64_t i = 0; i < groups; i++) {
            int64_t size = value_int(sizes, at++);
            size = size < 0 ? 0 : size > limit - start ? limit - start : size;
            View l = g->lhs, r = g->rhs, out = g->out;
            for (uint32_t p = 0; p < g->prefix_rank; p++)
                ragged_narrow(g, &l, &r, &out, g->prefix[p], index[p], 1);
            ragged_narrow(g, &l, &r, &out, g->dim, start, size);
            if (g->mode == RAGGED_FREE && g->rhs_group.count == 1)
                view_narrow(&r, g->rhs_group.data[0], i, 1);
            if (g->mode == RAGGED_SUMMED)
                view_narrow(&out, 0, i, 1);
            struct Temp *mark = value_heap_mark(&call->eval->heap);
            ragged_group(call, g, &l, &r, &out);
            value_heap_release(&call->eval->heap, mark);
            start += size;
        }
    } while (index_next(g->prefix_rank, g->prefix_dims, index));
}

void eval_ragged_dot(EvalCall *call)
{
    const Instruction *inst = call->inst;
    const Value *x = call->operands[0], *y = call->operands[1],
                *sizes = call->operands[2];
    Ints ragged = inst_ints(inst, ATTR_LHS_RAGGED_DIMS);
    if (ragged.count != 1 || sizes->shape->rank == 0)
        eval_fail(call, "exactly one dimension must be ragged");
    Ragged *g = ARENA_NEW(call->scratch, Ragged);
    g->inst = inst;
    g->dim = ragged.data[0];
    g->lhs_batch = inst_ints(inst, ATTR_LHS_BATCH_DIMS);
    g->lhs_sum = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
    g->rhs_batch = inst_ints(inst, ATTR_RHS_BATCH_DIMS);
    g->rhs_sum = inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS);
    g->rhs_group = inst_ints(inst, ATTR_RHS_GROUP_DIMS);
    g->mode = ints_contain(g->lhs_sum, g->dim) ? RAGGED_SUMMED : RAGGED_FREE;
    DType t = gemm_type(x->shape->dtype, y->shape->dtype, inst->shape->dtype);
    view_make(call, &g->lhs, x->shape->dtype, x->data, x->shape);
    view_make(call, &g->rhs, y->shape->dtype, y->data, y->shape);
    if (ints_contain(g->lhs_batch, g->dim)) {
        dot_views(call, &g->lhs, &g->rhs);
        return;
    }
    ragged_prefix(call, g, sizes->shape);
    Value *sums = value_zero(&call->eval->heap,
                             shape_with_dtype(eval_intern(call), inst->shape, t));
    g->sums = sums->data;
    view_make(call, &g->out, t, sums->data, sums->shape);
    ragged_run(call, g, sizes);
    Value *v = eval_result(call);
    number_convert(v->shape->dtype, v->data, t, sums->data, (size_t)v->count);
    value_release(sums);
}
