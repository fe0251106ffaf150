/* Attentions and their gradients as cuDNN's engines know them: the operations of a fixed pattern,
 * which NVIDIA's cudnn-frontend writes down. Order, types and virtual tensors are part of it. */
#include <string.h>

#include "runtime/library/graph_build.h"

enum { F32 = CUDNN_DATA_FLOAT, S32 = CUDNN_DATA_INT32, PRED = CUDNN_DATA_BOOLEAN };
enum { ROWS = 2, COLUMNS = 3 }; /* dimensions of scores */

/* One operation of the plan, and the sizes that all of its tensors follow from. */
typedef struct Attention {
    GraphBuild *b;
    const PlanGraphTensor *tensors; /* of the graph */
    const uint32_t *ports;          /* PLAN_NONE, or a tensor */
    const int64_t *numbers;
    int64_t scores[4], rows[4]; /* sizes: [batch, heads, rows, columns], [.., rows, 1] */
    uint32_t type;              /* of q */
} Attention;

static Attention describe(GraphBuild *b, const Plan *p, const PlanGraph *g,
                          const PlanGraphOperation *op)
{
    const PlanGraphTensor *tensors = p->graph_tensors + g->tensors;
    const PlanGraphTensor *q = &tensors[op->tensors[GRAPH_SLOT(ATTENTION, Q)]];
    const PlanGraphTensor *k = &tensors[op->tensors[GRAPH_SLOT(ATTENTION, K)]];
    return (Attention){.b = b,
                       .tensors = tensors,
                       .ports = op->tensors,
                       .numbers = op->numbers,
                       .scores = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]},
                       .rows = {q->dims[0], q->dims[1], q->dims[2], 1},
                       .type = q->type};
}

static cudnnBackendDescriptor_t at(const Attention *a, int slot)
{
    return a->ports[slot] == PLAN_NONE ? NULL : a->b->tensors[a->ports[slot]];
}

/* The tensor of a slot with its last two dimensions exchanged, under the same id. */
static cudnnBackendDescriptor_t transposed(const Attention *a, int slot)
{
    PlanGraphTensor t = a->tensors[a->ports[slot]];
    int64_t size = t.dims[2], stride = t.strides[2];
    t.dims[2] = t.dims[3];
    t.strides[2] = t.strides[3];
    t.dims[3] = size;
    t.strides[3] = stride;
    return graph_build_tensor(a->b, &t, (int64_t)a->ports[slot] + 1);
}

static cudnnBackendDescriptor_t unary(const Attention *a, int mode,
                                      cudnnBackendDescriptor_t x, const int64_t *dims)
{
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, F32, dims, NULL);
    graph_build_pointwise(a->b, mode, F32, GRAPH_NO_AXIS, x, NULL, NULL, y);
    return y;
}

/* x where there is no second operand. */
static cudnnBackendDescriptor_t binary(const Attention *a, int mode,
                                       cudnnBackendDescriptor_t x,
                                       cudnnBackendDescriptor_t second)
{
    if (second == NULL) {
        return x;
    }
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, F32, a->scores, NULL);
    graph_build_pointwise(a->b, mode, F32, GRAPH_NO_AXIS, x, second, NULL, y);
    return y;
}

static cudnnBackendDescriptor_t index_along(const Attention *a,
                                            cudnnBackendDescriptor_t x, int axis)
{
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, S32, a->scores, NULL);
    graph_build_pointwise(a->b, CUDNN_POINTWISE_GEN_INDEX, F32, axis, x, NULL, NULL, y);
    return y;
}

static cudnnBackendDescriptor_t shifted(const Attention *a,
                                        cudnnBackendDescriptor_t index, int slot)
{
    if (a->ports[slot] == PLAN_NONE) {
        return index;
    }
    uint32_t type = a->tensors[a->ports[slot]].type;
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, type, a->scores, NULL);
    graph_build_pointwise(a->b, CUDNN_POINTWISE_ADD, type, COLUMNS, index, at(a, slot),
                          NULL, y);
    return y;
}

static cudnnBackendDescriptor_t selected(const Attention *a, cudnnBackendDescriptor_t x,
                                         int comparison, cudnnBackendDescriptor_t left,
                                         cudnnBackendDescriptor_t right)
{
    cudnnBackendDescriptor_t mask = graph_build_intermediate(a->b, PRED, a->scores, NULL);
    graph_build_pointwise(a->b, comparison, PRED, GRAPH_NO_AXIS, left, right, NULL, mask);
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, F32, a->scores, NULL);
    graph_build_pointwise(a->b, CUDNN_POINTWISE_BINARY_SELECT, F32, GRAPH_NO_AXIS, x,
                          at(a, GRAPH_SLOT(ATTENTION, FILL)), mask, y);
    return y;
}

/* Slots up to LEFT are the same in the gradient. */
static cudnnBackendDescriptor_t masked(const Attention *a, cudnnBackendDescriptor_t x)
{
    if (a->numbers[0] == 1) {
        cudnnBackendDescriptor_t row = index_along(a, x, ROWS);
        cudnnBackendDescriptor_t column = index_along(a, x, COLUMNS);
        row = shifted(a, row, GRAPH_SLOT(ATTENTION, RIGHT));
        x = selected(a, x, CUDNN_POINTWISE_CMP_GE, row, column);
    }
    if (a->ports[GRAPH_SLOT(ATTENTION, LEFT)] != PLAN_NONE) {
        cudnnBackendDescriptor_t row = index_along(a, x, ROWS);
        cudnnBackendDescriptor_t column = index_along(a, x, COLUMNS);
        column = shifted(a, column, GRAPH_SLOT(ATTENTION, LEFT));
        x = selected(a, x, CUDNN_POINTWISE_CMP_GT, column, row);
    }
    return x;
}

/* q k', scaled, capped and with the bias. */
static cudnnBackendDescriptor_t scores(const Attention *a)
{
    cudnnBackendDescriptor_t x = graph_build_intermediate(a->b, F32, a->scores, NULL);
    graph_build_matmul(a->b, F32, at(a, GRAPH_SLOT(ATTENTION, Q)),
                       transposed(a, GRAPH_SLOT(ATTENTION, K)), x);
    x = binary(a, CUDNN_POINTWISE_MUL, x, at(a, GRAPH_SLOT(ATTENTION, SCALE)));
    cudnnBackendDescriptor_t cap = at(a, GRAPH_SLOT(ATTENTION, CAP));
    if (cap != NULL) {
        x = binary(a, CUDNN_POINTWISE_DIV, x, cap);
        x = unary(a, CUDNN_POINTWISE_TANH_FWD, x, a->scores);
        x = binary(a, CUDNN_POINTWISE_MUL, x, cap);
    }
    return binary(a, CUDNN_POINTWISE_ADD, x, at(a, GRAPH_SLOT(ATTENTION, BIAS)));
}

void graph_build_attention(GraphBuild *b, const Plan *p, const PlanGraph *g,
                           const PlanGraphOperation *op)
{
    Attention a = describe(b, p, g, op);
    cudnnBackendDescriptor_t x = masked(&a, scores(&a));
    cudnnBackendDescriptor_t largest = graph_build_intermediate(b, F32, a.rows, NULL);
    graph_build_reduction(b, CUDNN_REDUCE_TENSOR_MAX, F32, x, largest);
    x = binary(&a, CUDNN_POINTWISE_SUB, x, largest);
    cudnnBackendDescriptor_t e = unary(&a, CUDNN_POINTWISE_EXP, x, a.scores);
    cudnnBackendDescriptor_t sum = graph_build_intermediate(b, F32, a.rows, NULL);
    graph_build_reduction(b, CUDNN_REDUCE_TENSOR_ADD, F32, e, sum);
    cudnnBackendDescriptor_t log = unary(&a, CUDNN_POINTWISE_LOG, sum, a.rows);
    cudnnBackendDescriptor_t stats = at(&a, GRAPH_SLOT(ATTENTION, STATS));
    if (stats == NULL) { /* the pattern has them, wanted or not */
        stats = graph_build_intermediate(b, F32, a.rows, NULL);
    }
    graph_build_pointwise(b, CUDNN_POINTWISE_ADD, F32, GRAPH_NO_AXIS, largest, log, NULL,
                          stats);
    cudnnBackendDescriptor_t weights =
        graph_build_intermediate(b, a.type, a.scores, NULL);
    graph_build_pointwise(b, CUDNN_POINTWISE_DIV, F32, GRAPH_NO_AXIS, e, sum, NULL,
                          weights);
    graph_build_matmul(b, F32, weights, at(&a, GRAPH_SLOT(ATTENTION, V)),
                       at(&a, GRAPH_SLOT(ATTENTION, O)));
}

/* x [batch, heads, rows, columns] as [.., columns, rows], in q's type. */
static cudnnBackendDescriptor_t turned(const Attention *a, cudnnBackendDescriptor_t x)
{
    const int64_t *s = a->scores;
    const int64_t dims[4] = {s[0], s[1], s[3], s[2]};
    const uint64_t plane = (uint64_t)s[2] * (uint64_t)s[3]; /* may wrap, as others' */
    const int64_t strides[4] = {(int64_t)((uint64_t)s[1] * plane), (int64_t)plane, 1,
                                s[3]};
    cudnnBackendDescriptor_t y = graph_build_intermediate(a->b, a->type, dims, strides);
    graph_build_reshape(a->b, x, y);
    return y;
}

/* The gradient of k or v, which several heads may share: out = sum over them of left' second. */
static void shared_gradient(const Attention *a, cudnnBackendDescriptor_t left, int second,
                            int out)
{
    const PlanGraphTensor *t = &a->tensors[a->ports[out]];
    if (t->dims[1] == a->scores[1]) {
        graph_build_matmul(a->b, F32, left, at(a, second), at(a, out));
        return;
    }
    const int64_t dims[4] = {t->dims[0], a->scores[1], t->dims[2], t->dims[3]};
    cudnnBackendDescriptor_t all = graph_build_intermediate(a->b, a->type, dims, NULL);
    graph_build_matmul(a->b, F32, left, at(a, second), all);
    graph_build_reduction(a->b, CUDNN_REDUCE_TENSOR_ADD, F32, all, at(a, out));
}

/* sums of rows of d_o * o. */
static cudnnBackendDescriptor_t row_sums(const Attention *a)
{
    const PlanGraphTensor *o = &a->tensors[a->ports[GRAPH_SLOT(ATTENTION_GRADIENT, O)]];
    cudnnBackendDescriptor_t product = graph_build_intermediate(a->b, F32, o->dims, NULL);
    graph_build_pointwise(a->b, CUDNN_POINTWISE_MUL, F32, GRAPH_NO_AXIS,
                          at(a, GRAPH_SLOT(ATTENTION_GRADIENT, D_O)),
                          at(a, GRAPH_SLOT(ATTENTION_GRADIENT, O)), NULL, product);
    cudnnBackendDescriptor_t sum = graph_build_intermediate(a->b, F32, a->rows, NULL);
    graph_build_reduction(a->b, CUDNN_REDUCE_TENSOR_ADD, F32, product, sum);
    cudnnBackendDescriptor_t out = at(a, GRAPH_SLOT(ATTENTION_GRADIENT, ROW_SUMS));
    graph_build_pointwise(a->b, CUDNN_POINTWISE_MUL, F32, GRAPH_NO_AXIS, sum,
                          at(a, GRAPH_SLOT(ATTENTION_GRADIENT, ONE)), NULL, out);
    return out;
}

/* dq = x k, by way of dq_sums where those are. */
static void query_gradient(const Attention *a, cudnnBackendDescriptor_t x,
                           cudnnBackendDescriptor_t turned_k)
{
    const PlanGraphTensor *k = &a->tensors[a->ports[GRAPH_SLOT(ATTENTION_GRADIENT, K)]];
    cudnnBackendDescriptor_t sums = at(a, GRAPH_SLOT(ATTENTION_GRADIENT, DQ_SUMS));
    cudnnBackendDescriptor_t dq = at(a, GRAPH_SLOT(ATTENTION_GRADIENT, DQ));
    cudnnBackendDescriptor_t again =
        graph_build_intermediate(a->b, a->type, k->dims, k->strides);
    graph_build_reshape(a->b, turned_k, again);
    graph_build_matmul(a->b, F32, x, again, sums != NULL ? sums : dq);
    if (sums != NULL) {
        graph_build_pointwise(a->b, CUDNN_POINTWISE_IDENTITY, F32, GRAPH_NO_AXIS, sums,
                              NULL, NULL, dq);
    }
}

void graph_build_attention_gradient(GraphBuild *b, const Plan *p, const PlanGraph *g,
                                    const PlanGraphOperation *op)
{
    Attention a = describe(b, p, g, op);
    cudnnBackendDescriptor_t sums = row_sums(&a);
    cudnnBackendDescriptor_t turned_k = transposed(&a, GRAPH_SLOT(ATTENTION_GRADIENT, K));
    cudnnBackendDescriptor_t x = graph_build_intermediate(b, F32, a.scores, NULL);
    graph_build_matmul(b, F32, at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, Q)), turned_k, x);
    cudnnBackendDescriptor_t scale = at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, SCALE));
    x = binary(&a, CUDNN_POINTWISE_MUL, x, scale);
    x = binary(&a, CUDNN_POINTWISE_ADD, x, at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, BIAS)));
    x = binary(&a, CUDNN_POINTWISE_SUB, x, at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, STATS)));
    cudnnBackendDescriptor_t weights =
        unary(&a, CUDNN_POINTWISE_EXP, masked(&a, x), a.scores);
    shared_gradient(&a, turned(&a, weights), GRAPH_SLOT(ATTENTION_GRADIENT, D_O),
                    GRAPH_SLOT(ATTENTION_GRADIENT, DV));
    x = graph_build_intermediate(b, F32, a.scores, NULL);
    graph_build_matmul(b, F32, at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, D_O)),
                       transposed(&a, GRAPH_SLOT(ATTENTION_GRADIENT, V)), x);
    x = binary(&a, CUDNN_POINTWISE_SUB, x, sums);
    x = binary(&a, CUDNN_POINTWISE_MUL, x, weights);
    if (at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, DBIAS)) != NULL) {
        graph_build_reduction(b, CUDNN_REDUCE_TENSOR_ADD, F32, x,
                              at(&a, GRAPH_SLOT(ATTENTION_GRADIENT, DBIAS)));
    }
    x = binary(&a, CUDNN_POINTWISE_MUL, x, scale);
    shared_gradient(&a, turned(&a, x), GRAPH_SLOT(ATTENTION_GRADIENT, Q),
                    GRAPH_SLOT(ATTENTION_GRADIENT, DK));
    query_gradient(&a, x, turned_k);
}
