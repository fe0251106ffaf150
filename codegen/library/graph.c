/* Graphs of what is marked for cuDNN. A graph says what is computed by tensors and operations;
 * runtime/library/graph_build.c makes the library's own form of it. See graph.h. */
#include "codegen/library/graph.h"

#include <float.h>
#include <string.h>

#include "ir/base/bug.h"
#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/library.h"
#include "ir/kernel/norm.h"
#include "ir/kernel/norm_gradient.h"

enum { ALIGNMENT = 16 }; /* that libgxrt asks of the caller's buffers */

typedef struct Builder {
    PlanBuilder *plan;
    PlanGraph graph;
    GraphOperands *operands;
} Builder;

static uint32_t library_type(DType t)
{
    switch (t) {
#define DATA_TYPE(name, value, dtype, text, bits)                                        \
    case DT_##dtype:                                                                     \
        return name;
        CUDNN_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
    default:
        bug("cuDNN has no type %s", dtype_info[t].name);
    }
}

/* The number of the tensor in the graph. */
static uint32_t add_tensor(Builder *b, const PlanGraphTensor *t)
{
    plan_add_graph_tensors(b->plan, t, 1);
    return b->graph.tensor_count++;
}

static uint32_t add_leaf(Builder *b, PlanGraphTensor t, const Instruction *value,
                         size_t leaf, uint16_t access)
{
    GraphOperand *o = &b->operands->data[b->operands->count++];
    *o = (GraphOperand){.value = value, .leaf = leaf, .access = access};
    t.storage = PLAN_GRAPH_STORED;
    return add_tensor(b, &t);
}

static uint32_t add_stored(Builder *b, PlanGraphTensor t, const Instruction *value,
                           uint16_t access)
{
    return add_leaf(b, t, value, 0, access);
}

/* Between two operations: f32, of the sizes of another one. */
static uint32_t add_virtual(Builder *b, PlanGraphTensor t)
{
    t.type = CUDNN_DATA_FLOAT;
    t.storage = PLAN_GRAPH_VIRTUAL;
    return add_tensor(b, &t);
}

static void add_operation(Builder *b, PlanGraphOperation op)
{
    plan_add_graph_operations(b->plan, &op, 1);
    b->graph.operation_count++;
}

static PlanGraphOperation operation(PlanGraphKind kind, uint32_t mode, uint32_t compute)
{
    PlanGraphOperation op = {.kind = kind, .mode = mode, .compute = compute};
    memset(op.tensors, 0xff, sizeof op.tensors);
    return op;
}

static void add_pointwise(Builder *b, uint32_t mode, uint32_t x, uint32_t second,
                          uint32_t y)
{
    PlanGraphOperation op = operation(PLAN_GRAPH_POINTWISE, mode, CUDNN_DATA_FLOAT);
    op.tensors[GRAPH_SLOT(POINTWISE, X)] = x;
    op.tensors[GRAPH_SLOT(POINTWISE, B)] = second;
    op.tensors[GRAPH_SLOT(POINTWISE, Y)] = y;
    add_operation(b, op);
}

/* -- convolutions ------------------------------------------------------------------------------ */

static PlanGraphTensor convolution_tensor(const ConvolutionArray *a, uint32_t spatial)
{
    PlanGraphTensor t = {
        .type = library_type(a->type), .rank = spatial + 2, .alignment = ALIGNMENT};
    memcpy(t.dims, a->dims, t.rank * sizeof *t.dims);
    memcpy(t.strides, a->strides, t.rank * sizeof *t.strides);
    return t;
}

/* A vector along the second dimension of the result. */
static PlanGraphTensor bias_tensor(PlanGraphTensor result)
{
    for (uint32_t d = 0; d < result.rank; d++) {
        if (d != 1)
            result.dims[d] = 1;
        result.strides[d] = d == 1 ? 1 : result.dims[1];
    }
    return result;
}

/* A number that the library gets with the call, as an array of so many dimensions. */
static uint32_t add_number(Builder *b, uint32_t rank, uint32_t type, uint64_t bits)
{
    PlanGraphTensor t = {.type = type,
                         .rank = rank,
                         .storage = PLAN_GRAPH_SCALAR,
                         .alignment = ALIGNMENT,
                         .value = bits};
    for (uint32_t d = 0; d < rank; d++)
        t.dims[d] = t.strides[d] = 1;
    return add_tensor(b, &t);
}

/* max(x, 0) + 0 * tanh(x): the library's own maximum and relu may make 0 of what is no number, of which tanh is none
 * either; of infinities it is 1 and -1. */
static void add_relu(Builder *b, PlanGraphTensor like, uint32_t x, uint32_t y)
{
    uint32_t zero = add_number(b, like.rank, CUDNN_DATA_FLOAT, 0),
             positive = add_virtual(b, like), bounded = add_virtual(b, like),
             nothing = add_virtual(b, like);
    add_pointwise(b, CUDNN_POINTWISE_MAX, x, zero, positive);
    add_pointwise(b, CUDNN_POINTWISE_TANH_FWD, x, PLAN_NONE, bounded);
    add_pointwise(b, CUDNN_POINTWISE_MUL, bounded, zero, nothing);
    add_pointwise(b, CUDNN_POINTWISE_ADD, positive, nothing, y);
}

/* What the library does to a convolution's result, in an order that it has kernels for. */
static void add_epilogue(Builder *b, const ConvolutionCall *call, PlanGraphTensor result,
                         uint32_t made, const Instruction *inst)
{
    struct {
        uint32_t mode, second;
    } steps[3];
    uint32_t n = 0;
    if (call->scale != NULL) {
        steps[n].mode = CUDNN_POINTWISE_MUL;
        steps[n++].second = add_stored(b, bias_tensor(result), call->scale, PLAN_READ);
    }
    if (call->addend != NULL) {
        steps[n].mode = CUDNN_POINTWISE_ADD;
        steps[n++].second = add_stored(b, result, call->addend, PLAN_READ);
    }
    if (call->bias != NULL) {
        steps[n].mode = CUDNN_POINTWISE_ADD;
        steps[n++].second = add_stored(b, bias_tensor(result), call->bias, PLAN_READ);
    }
    for (uint32_t i = 0; i < n; i++) {
        bool is_last = i + 1 == n && !call->has_relu;
        uint32_t to =
            is_last ? add_stored(b, result, inst, PLAN_WRITE) : add_virtual(b, result);
        add_pointwise(b, steps[i].mode, made, steps[i].second, to);
        made = to;
    }
    if (call->has_relu)
        add_relu(b, result, made, add_stored(b, result, inst, PLAN_WRITE));
}

static void describe_convolution(Builder *b, const Instruction *inst,
                                 const ConvolutionCall *call)
{
    static const PlanGraphKind kinds[] = {
        [CONVOLUTION_FORWARD] = PLAN_GRAPH_CONVOLUTION_FORWARD,
        [CONVOLUTION_DATA] = PLAN_GRAPH_CONVOLUTION_DATA,
        [CONVOLUTION_FILTER] = PLAN_GRAPH_CONVOLUTION_FILTER};
    /* of the three slots x, w, y: which operand each is, 2 is the result */
    static const unsigned char roles[][3] = {[CONVOLUTION_FORWARD] = {0, 1, 2},
                                             [CONVOLUTION_DATA] = {2, 1, 0},
                                             [CONVOLUTION_FILTER] = {0, 2, 1}};
    ConvolutionShape s;
    if (!convolution_shape(call->conv, &s))
        bug("%s cannot be made by cuDNN", inst->name);
    convolution_settle(&s);
    const ConvolutionArray *arrays[3] = {&s.x, &s.w, &s.y};
    const Instruction *values[3] = {call->lhs, call->rhs, inst};
    bool has_epilogue = call->scale != NULL || call->addend != NULL ||
                        call->bias != NULL || call->has_relu;
    PlanGraphOperation op = operation(
        kinds[s.kind], s.is_flipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
        CUDNN_DATA_FLOAT);
    PlanGraphTensor result = {0};
    for (uint32_t slot = 0; slot < 3; slot++) {
        PlanGraphTensor t = convolution_tensor(arrays[slot], s.spatial);
        bool is_result = roles[s.kind][slot] == 2;
        if (is_result)
            result = t;
        op.tensors[slot] = is_result && has_epilogue
                               ? add_virtual(b, t)
                               : add_stored(b, t, values[roles[s.kind][slot]],
                                            is_result ? PLAN_WRITE : PLAN_READ);
    }
    for (uint32_t d = 0; d < s.spatial; d++) {
        op.numbers[d] = s.before[d];
        op.numbers[3 + d] = s.behind[d];
        op.numbers[6 + d] = s.stride[d];
        op.numbers[9 + d] = s.dilation[d];
    }
    add_operation(b, op);
    if (has_epilogue) {
        uint32_t made = op.tensors[s.kind == CONVOLUTION_FORWARD ? 2
                                   : s.kind == CONVOLUTION_DATA  ? 0
                                                                 : 1];
        add_epilogue(b, call, result, made, inst);
    }
}

/* -- attentions -------------------------------------------------------------------------------- */

static PlanGraphTensor attention_leaf(const AttentionArray *a, size_t leaf)
{
    PlanGraphTensor t = {.type = library_type(shape_leaf(a->base->shape, leaf)->dtype),
                         .rank = ATTENTION_RANK,
                         .alignment = ALIGNMENT};
    memcpy(t.dims, a->dims, sizeof a->dims);
    memcpy(t.strides, a->strides, sizeof a->strides);
    return t;
}

static PlanGraphTensor attention_tensor(const AttentionArray *a)
{
    return attention_leaf(a, 0);
}

static uint32_t add_float(Builder *b, double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return add_number(b, ATTENTION_RANK, CUDNN_DATA_FLOAT, bits);
}

/* Scale, cap, bias and band, in the slots that an attention and its gradient have in common. */
static void add_scores(Builder *b, const Attention *a, PlanGraphOperation *op)
{
    const AttentionBand *band = &a->band;
    if (a->scale != 1)
        op->tensors[GRAPH_SLOT(ATTENTION, SCALE)] = add_float(b, a->scale);
    if (a->cap != 0)
        op->tensors[GRAPH_SLOT(ATTENTION, CAP)] = add_float(b, a->cap);
    if (a->bias.base != NULL)
        op->tensors[GRAPH_SLOT(ATTENTION, BIAS)] =
            add_stored(b, attention_tensor(&a->bias), a->bias.base, PLAN_READ);
    if (band->rows == 0)
        return;
    op->tensors[GRAPH_SLOT(ATTENTION, FILL)] = add_float(b, -FLT_MAX);
    op->numbers[0] = band->has_right;
    if (band->has_right && band->right != 0)
        op->tensors[GRAPH_SLOT(ATTENTION, RIGHT)] =
            add_number(b, ATTENTION_RANK, CUDNN_DATA_INT32, (uint64_t)band->right);
    if (band->has_left)
        op->tensors[GRAPH_SLOT(ATTENTION, LEFT)] = add_float(b, (double)band->left);
}

static void describe_attention(Builder *b, const Attention *a)
{
    PlanGraphOperation op = operation(PLAN_GRAPH_ATTENTION, 0, CUDNN_DATA_FLOAT);
    const AttentionArray *arrays[] = {&a->q, &a->k, &a->v};
    for (uint32_t slot = 0; slot < 3; slot++)
        op.tensors[slot] =
            add_stored(b, attention_tensor(arrays[slot]), arrays[slot]->base, PLAN_READ);
    add_scores(b, a, &op);
    op.tensors[GRAPH_SLOT(ATTENTION, O)] =
        add_stored(b, attention_tensor(&a->o), a->o.base, PLAN_WRITE);
    if (a->statistics.base != NULL)
        op.tensors[GRAPH_SLOT(ATTENTION, STATS)] = add_leaf(
            b, attention_leaf(&a->statistics, 1), a->statistics.base, 1, PLAN_WRITE);
    add_operation(b, op);
}

/* A number for each row, between kernels of the graph. */
static uint32_t add_row_sums(Builder *b, PlanGraphTensor rows)
{
    const int64_t *dims = rows.dims;
    rows.storage = PLAN_GRAPH_SCRATCH;
    rows.strides[ATTENTION_BATCH] = dims[ATTENTION_HEADS] * dims[ATTENTION_POSITIONS];
    rows.strides[ATTENTION_HEADS] = dims[ATTENTION_POSITIONS];
    rows.strides[ATTENTION_POSITIONS] = rows.strides[ATTENTION_DEPTH] = 1;
    b->graph.scratch_bytes = b->graph.workspace_bytes = plan_graph_tensor_bytes(&rows);
    return add_tensor(b, &rows);
}

static void describe_gradient(Builder *b, const AttentionGradientCall *call)
{
    const Attention *a = &call->attention;
    const PlanGraphTensor rows = attention_tensor(&a->statistics);
    PlanGraphOperation op = operation(PLAN_GRAPH_ATTENTION_GRADIENT, 0, CUDNN_DATA_FLOAT);
    const struct {
        int slot;
        const AttentionArray *array;
    } read[] = {{GRAPH_SLOT(ATTENTION_GRADIENT, Q), &a->q},
                {GRAPH_SLOT(ATTENTION_GRADIENT, K), &a->k},
                {GRAPH_SLOT(ATTENTION_GRADIENT, V), &a->v},
                {GRAPH_SLOT(ATTENTION_GRADIENT, O), &call->result},
                {GRAPH_SLOT(ATTENTION_GRADIENT, STATS), &a->statistics},
                {GRAPH_SLOT(ATTENTION_GRADIENT, D_O), &a->o}};
    const struct {
        int slot;
        const AttentionArray *array;
        size_t leaf;
    } made[] = {{GRAPH_SLOT(ATTENTION_GRADIENT, DQ), &call->dq, call->dq_leaf},
                {GRAPH_SLOT(ATTENTION_GRADIENT, DK), &call->dk, call->dk_leaf},
                {GRAPH_SLOT(ATTENTION_GRADIENT, DV), &call->dv, call->dv_leaf}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        op.tensors[read[i].slot] = add_stored(b, attention_tensor(read[i].array),
                                              read[i].array->base, PLAN_READ);
    add_scores(b, a, &op);
    op.tensors[GRAPH_SLOT(ATTENTION_GRADIENT, ONE)] = add_float(b, 1);
    op.tensors[GRAPH_SLOT(ATTENTION_GRADIENT, ROW_SUMS)] = add_row_sums(b, rows);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        op.tensors[made[i].slot] =
            add_leaf(b, attention_leaf(made[i].array, made[i].leaf), made[i].array->base,
                     made[i].leaf, PLAN_WRITE);
    add_operation(b, op);
}

/* -- norms ------------------------------------------------------------------------------------- */

/* A matrix as images of one position: their features are what is normalised. */
static PlanGraphTensor norm_tensor(DType t, int64_t rows, int64_t columns)
{
    return (PlanGraphTensor){.type = library_type(t),
                             .rank = 4,
                             .alignment = ALIGNMENT,
                             .dims = {rows, columns, 1, 1},
                             .strides = {columns, 1, columns, columns}};
}

static uint32_t add_vector(Builder *b, const Instruction *value, int64_t columns)
{
    return add_stored(b, norm_tensor(value->shape->dtype, 1, columns), value, PLAN_READ);
}

static void describe_norm(Builder *b, const Instruction *inst, const NormCall *call)
{
    const Norm *n = &call->norm;
    DType t = n->x->shape->dtype;
    PlanGraphOperation op =
        operation(PLAN_GRAPH_NORM, n->mean != NULL ? CUDNN_LAYER_NORM : CUDNN_RMS_NORM,
                  CUDNN_DATA_FLOAT);
    op.tensors[GRAPH_SLOT(NORM, X)] =
        add_stored(b, norm_tensor(t, n->rows, n->columns), n->x, PLAN_READ);
    op.tensors[GRAPH_SLOT(NORM, SCALE)] = add_vector(b, n->scale, n->columns);
    if (n->bias != NULL)
        op.tensors[GRAPH_SLOT(NORM, BIAS)] = add_vector(b, n->bias, n->columns);
    op.tensors[GRAPH_SLOT(NORM, EPSILON)] = add_float(b, n->epsilon);
    op.tensors[GRAPH_SLOT(NORM, Y)] =
        add_leaf(b, norm_tensor(t, n->rows, n->columns), inst, 0, PLAN_WRITE);
    size_t leaf = 1;
    if (call->has_statistics && n->mean != NULL)
        op.tensors[GRAPH_SLOT(NORM, MEAN)] =
            add_leaf(b, norm_tensor(DT_F32, n->rows, 1), inst, leaf++, PLAN_WRITE);
    if (call->has_statistics)
        op.tensors[GRAPH_SLOT(NORM, INVERSE_DEVIATION)] =
            add_leaf(b, norm_tensor(DT_F32, n->rows, 1), inst, leaf, PLAN_WRITE);
    add_operation(b, op);
}

static void describe_norm_gradient(Builder *b, const Instruction *inst,
                                   const NormGradientCall *call)
{
    const NormGradient *g = &call->gradient;
    const PlanGraphTensor x = norm_tensor(g->shape->dtype, g->rows, g->columns),
                          row = norm_tensor(DT_F32, g->rows, 1),
                          column = norm_tensor(DT_F32, 1, g->columns);
    PlanGraphOperation op =
        operation(PLAN_GRAPH_NORM_GRADIENT,
                  g->mean != NULL ? CUDNN_LAYER_NORM : CUDNN_RMS_NORM, CUDNN_DATA_FLOAT);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, X)] = add_stored(b, x, g->x, PLAN_READ);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, SCALE)] = add_vector(b, g->scale, g->columns);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, DY)] = add_stored(b, x, g->dy, PLAN_READ);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, INVERSE_DEVIATION)] =
        add_stored(b, row, g->inverse, PLAN_READ);
    if (g->mean != NULL)
        op.tensors[GRAPH_SLOT(NORM_GRADIENT, MEAN)] =
            add_stored(b, row, g->mean, PLAN_READ);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, DX)] = add_leaf(b, x, inst, 0, PLAN_WRITE);
    op.tensors[GRAPH_SLOT(NORM_GRADIENT, DSCALE)] =
        add_leaf(b, column, inst, 1, PLAN_WRITE);
    if (call->has_bias)
        op.tensors[GRAPH_SLOT(NORM_GRADIENT, DBIAS)] =
            add_leaf(b, column, inst, 2, PLAN_WRITE);
    add_operation(b, op);
}

/* -- block-scaled products ------------------------------------------------------------------------ */

/* [batch, rows, columns] where `m` is row-major, or its matrices transposed. */
static PlanGraphTensor matrix_tensor(const Shape *m, bool is_transposed)
{
    const int64_t rows = m->dims[m->rank - 2], columns = m->dims[m->rank - 1];
    PlanGraphTensor t = {.type = library_type(m->dtype),
                         .rank = 3,
                         .alignment = ALIGNMENT,
                         .dims = {m->rank == 3 ? m->dims[0] : 1, rows, columns},
                         .strides = {rows * columns, columns, 1}};
    if (is_transposed) {
        t.dims[1] = columns;
        t.dims[2] = rows;
        t.strides[1] = 1;
        t.strides[2] = columns;
    }
    return t;
}

/* A factor times its scales, which lie in tiles. */
static uint32_t add_dequantized(Builder *b, const Instruction *inst, uint32_t side)
{
    const Instruction *x = inst->operands[side], *scale = inst->operands[2 + side];
    PlanGraphTensor values = matrix_tensor(x->shape, side == 1);
    PlanGraphTensor scales = matrix_tensor(scale->shape, side == 1);
    uint32_t last = x->shape->rank - 1;
    PlanGraphOperation op = operation(PLAN_GRAPH_DEQUANTIZE, 0, CUDNN_DATA_FLOAT);
    scales.reordering = CUDNN_TENSOR_REORDERING_F8_128x4;
    op.numbers[0] = x->shape->dims[last] / scale->shape->dims[last];
    op.tensors[GRAPH_SLOT(DEQUANTIZE, X)] = add_stored(b, values, x, PLAN_READ);
    op.tensors[GRAPH_SLOT(DEQUANTIZE, SCALE)] = add_stored(b, scales, scale, PLAN_READ);
    op.tensors[GRAPH_SLOT(DEQUANTIZE, Y)] = add_virtual(b, values);
    add_operation(b, op);
    return op.tensors[GRAPH_SLOT(DEQUANTIZE, Y)];
}

static void describe_block_scaled(Builder *b, const Instruction *inst)
{
    PlanGraphOperation op = operation(PLAN_GRAPH_MATMUL, 0, CUDNN_DATA_FLOAT);
    PlanGraphTensor result = matrix_tensor(inst->shape, false);
    op.tensors[GRAPH_SLOT(MATMUL, A)] = add_dequantized(b, inst, 0);
    op.tensors[GRAPH_SLOT(MATMUL, B)] = add_dequantized(b, inst, 1);
    bool has_factor = inst->operand_count == 5;
    uint32_t made =
        has_factor ? add_virtual(b, result) : add_stored(b, result, inst, PLAN_WRITE);
    op.tensors[GRAPH_SLOT(MATMUL, C)] = made;
    add_operation(b, op);
    if (!has_factor)
        return;
    PlanGraphTensor factor = {.type = CUDNN_DATA_FLOAT,
                              .rank = 3,
                              .alignment = ALIGNMENT,
                              .dims = {1, 1, 1},
                              .strides = {1, 1, 1}};
    uint32_t second = add_stored(b, factor, inst->operands[4], PLAN_READ);
    add_pointwise(b, CUDNN_POINTWISE_MUL, made, second,
                  add_stored(b, result, inst, PLAN_WRITE));
}

/* Only f32 can be rounded to less, where the program allows it. Attentions are compiled for each graph; without, scores would lie in memory. */
static uint32_t flags_of(const Instruction *inst, const Instruction *conv, uint32_t flags)
{
    uint32_t without = conv == NULL ? PLAN_GRAPH_PRECOMPILED : 0;
    bool is_full =
        inst->operands[0]->shape->dtype == DT_F32 && conv != NULL &&
        inst_int(conv, ATTR_ALGORITHM, ALGORITHM_UNSET) != ALGORITHM_TF32_TF32_F32;
    if (!is_full)
        without |= PLAN_GRAPH_FULL_F32;
    return flags & ~without;
}

bool graph_describe(PlanBuilder *b, const Instruction *inst, uint32_t flags,
                    GraphOperands *out)
{
    ConvolutionCall call;
    NormCall norm;
    NormGradientCall norm_gradient;
    Attention attention;
    AttentionGradientCall gradient;
    out->count = 0;
    if (!library_is_graph(inst))
        return false;
    bool is_convolution = convolution_call_of(inst, &call);
    Builder builder = {
        .plan = b,
        .graph = {.name = plan_string(b, inst->name),
                  .flags = flags_of(inst, is_convolution ? call.conv : NULL, flags),
                  .tensors = b->graph_tensors_count,
                  .operations = b->graph_operations_count},
        .operands = out};
    if (is_convolution)
        describe_convolution(&builder, inst, &call);
    else if (block_scaled_is_graph(inst))
        describe_block_scaled(&builder, inst);
    else if (norm_call_of(inst, &norm))
        describe_norm(&builder, inst, &norm);
    else if (norm_gradient_call_of(inst, &norm_gradient))
        describe_norm_gradient(&builder, inst, &norm_gradient);
    else if (attention_call_of(inst, &attention))
        describe_attention(&builder, &attention);
    else if (attention_gradient_call_of(inst, &gradient))
        describe_gradient(&builder, &gradient);
    plan_add_graphs(b, &builder.graph, 1);
    return true;
}
