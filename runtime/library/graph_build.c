/* Descriptors of cuDNN's backend interface for a plan's graph. See graph_build.h. */
#include "runtime/library/graph_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_OWN_ID = 1000, MOST_CONFIGURATIONS = 64, MOST_TRIES = 10 };

/* --- calls -------------------------------------------------------------------------------- */

static void check(GraphBuild *b, const char *call, cudnnStatus_t status)
{
    char words[256] = "";
    if (b->status != CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_SUCCESS) {
        return;
    }
    b->status = status;
    b->dnn->last_error(words, sizeof words);
    snprintf(b->error, sizeof b->error, "%s: %s%s%s", call, b->dnn->text(status),
             words[0] ? ": " : "", words);
}

cudnnBackendDescriptor_t graph_build_make(GraphBuild *b,
                                          cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (b->status != CUDNN_STATUS_SUCCESS) {
        return NULL;
    }
    if (b->made_count == GRAPH_BUILD_DESCRIPTORS) {
        check(b, "more descriptors than a graph may have",
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
        return NULL;
    }
    check(b, "cudnnBackendCreateDescriptor", b->dnn->make(type, &d));
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->made[b->made_count++] = d;
    }
    return d;
}

void graph_build_set(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute, int type,
                     int64_t count, const void *elements)
{
    char call[64];
    if (b->status == CUDNN_STATUS_SUCCESS) {
        snprintf(call, sizeof call, "cudnnBackendSetAttribute(%d)", attribute);
        check(b, call, b->dnn->set(d, attribute, type, count, elements));
    }
}

void graph_build_set_descriptor(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute,
                                cudnnBackendDescriptor_t value)
{
    if (value != NULL) {
        graph_build_set(b, d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
    }
}

static void set_long(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute,
                     int64_t value)
{
    graph_build_set(b, d, attribute, CUDNN_TYPE_INT64, 1, &value);
}

/* Of one of the library's enums. */
static void set_enum(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute, int type,
                     uint32_t value)
{
    graph_build_set(b, d, attribute, type, 1, &value);
}

static void set_float(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute,
                      float value)
{
    graph_build_set(b, d, attribute, CUDNN_TYPE_FLOAT, 1, &value);
}

void graph_build_finalize(GraphBuild *b, cudnnBackendDescriptor_t d)
{
    if (b->status == CUDNN_STATUS_SUCCESS) {
        check(b, "cudnnBackendFinalize", b->dnn->finalize(d));
    }
}

void graph_build_add_operation(GraphBuild *b, cudnnBackendDescriptor_t d)
{
    graph_build_finalize(b, d);
    if (b->status != CUDNN_STATUS_SUCCESS) {
        return;
    }
    if (b->operation_count == GRAPH_BUILD_OPERATIONS) {
        check(b, "more operations than a graph may have",
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
        return;
    }
    b->operations[b->operation_count++] = d;
}

/* --- tensors ------------------------------------------------------------------------------ */

cudnnBackendDescriptor_t graph_build_tensor(GraphBuild *b, const PlanGraphTensor *t,
                                            int64_t id)
{
    cudnnBackendDescriptor_t d = graph_build_make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bool yes = true;
    set_enum(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, t->type);
    graph_build_set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank,
                    t->dims);
    graph_build_set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank,
                    t->strides);
    set_long(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_long(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t->alignment);
    if (t->storage == PLAN_GRAPH_VIRTUAL) {
        graph_build_set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    if (t->storage == PLAN_GRAPH_SCALAR) {
        graph_build_set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    if (t->reordering != CUDNN_TENSOR_REORDERING_NONE) {
        set_enum(b, d, CUDNN_ATTR_TENSOR_REORDERING_MODE,
                 CUDNN_TYPE_TENSOR_REORDERING_MODE, t->reordering);
    }
    graph_build_finalize(b, d);
    return d;
}

cudnnBackendDescriptor_t graph_build_intermediate(GraphBuild *b, uint32_t type,
                                                  const int64_t dims[4],
                                                  const int64_t *strides)
{
    PlanGraphTensor t = {
        .type = type, .rank = 4, .storage = PLAN_GRAPH_VIRTUAL, .alignment = 16};
    uint64_t stride = 1; /* a damaged plan's may wrap: the library checks its sizes */
    for (int d = 3; d >= 0; d--) {
        t.dims[d] = dims[d];
        t.strides[d] = strides != NULL ? strides[d] : (int64_t)stride;
        stride *= (uint64_t)dims[d];
    }
    return graph_build_tensor(b, &t, b->next_id++);
}

/* --- operations --------------------------------------------------------------------------- */

/* An operation with its tensors, each under the attribute that the library gives the slot; the end
 * of the list is 0. */
static void set_ports(GraphBuild *b, cudnnBackendDescriptor_t d,
                      const PlanGraphOperation *op, const int *attributes)
{
    for (uint32_t slot = 0; attributes[slot] != 0; slot++) {
        if (op->tensors[slot] != PLAN_NONE) {
            graph_build_set_descriptor(b, d, attributes[slot],
                                       b->tensors[op->tensors[slot]]);
        }
    }
}

typedef struct ConvolutionAttributes {
    int type, description, alpha, beta;
    int ports[4]; /* x, w, y */
} ConvolutionAttributes;

static const ConvolutionAttributes convolutions[] = {
    [PLAN_GRAPH_CONVOLUTION_FORWARD] =
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
    [PLAN_GRAPH_CONVOLUTION_DATA] =
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}},
    [PLAN_GRAPH_CONVOLUTION_FILTER] =
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}},
};

static void add_convolution(GraphBuild *b, const PlanGraphOperation *op, int64_t spatial)
{
    const ConvolutionAttributes *at = &convolutions[op->kind];
    cudnnBackendDescriptor_t c =
        graph_build_make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_long(b, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spatial);
    set_enum(b, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, op->compute);
    set_enum(b, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             op->mode);
    static const int numbers[4] = {
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS};
    for (int i = 0; i < 4; i++) {
        graph_build_set(b, c, numbers[i], CUDNN_TYPE_INT64, spatial, op->numbers + 3 * i);
    }
    graph_build_finalize(b, c);
    cudnnBackendDescriptor_t d = graph_build_make(b, at->type);
    set_ports(b, d, op, at->ports);
    graph_build_set_descriptor(b, d, at->description, c);
    set_float(b, d, at->alpha, 1);
    set_float(b, d, at->beta, 0);
    graph_build_add_operation(b, d);
}

void graph_build_pointwise(GraphBuild *b, int mode, uint32_t compute, int64_t axis,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t second,
                           cudnnBackendDescriptor_t third, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t p = graph_build_make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_enum(b, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, (uint32_t)mode);
    set_enum(b, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
    if (axis != GRAPH_NO_AXIS) {
        set_long(b, p, CUDNN_ATTR_POINTWISE_AXIS, axis);
    }
    graph_build_finalize(b, p);
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, third);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    graph_build_add_operation(b, d);
}

void graph_build_matmul(GraphBuild *b, uint32_t compute, cudnnBackendDescriptor_t a,
                        cudnnBackendDescriptor_t second, cudnnBackendDescriptor_t c)
{
    cudnnBackendDescriptor_t m = graph_build_make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_enum(b, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute);
    graph_build_finalize(b, m);
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, second);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    graph_build_add_operation(b, d);
}

void graph_build_reduction(GraphBuild *b, int operator, uint32_t compute,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t r = graph_build_make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_enum(b, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
             (uint32_t) operator);
    set_enum(b, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute);
    graph_build_finalize(b, r);
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    graph_build_add_operation(b, d);
}

void graph_build_reshape(GraphBuild *b, cudnnBackendDescriptor_t x,
                         cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    graph_build_set_descriptor(b, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    graph_build_add_operation(b, d);
}

static void add_dequantize(GraphBuild *b, const PlanGraphOperation *op)
{
    static const int ports[] = {CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC,
                                CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC,
                                CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, 0};
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR);
    int32_t block = (int32_t)op->numbers[0];
    set_ports(b, d, op, ports);
    set_enum(b, d, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC,
             CUDNN_TYPE_DATA_TYPE, op->compute);
    graph_build_set(b, d, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE,
                    CUDNN_TYPE_INT32, 1, &block);
    graph_build_add_operation(b, d);
}

static void add_norm(GraphBuild *b, const PlanGraphOperation *op)
{
    static const int ports[] = {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                                0};
    bool trains = op->tensors[GRAPH_SLOT(NORM, INVERSE_DEVIATION)] != PLAN_NONE;
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    set_enum(b, d, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, op->mode);
    set_enum(b, d, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
             trains ? CUDNN_NORM_FWD_TRAINING : CUDNN_NORM_FWD_INFERENCE);
    set_ports(b, d, op, ports);
    graph_build_add_operation(b, d);
}

static void add_norm_gradient(GraphBuild *b, const PlanGraphOperation *op)
{
    static const int ports[] = {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
                                CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
                                0};
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    set_enum(b, d, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, op->mode);
    set_ports(b, d, op, ports);
    graph_build_add_operation(b, d);
}

static cudnnBackendDescriptor_t tensor_at(const GraphBuild *b,
                                          const PlanGraphOperation *op, int slot)
{
    return op->tensors[slot] == PLAN_NONE ? NULL : b->tensors[op->tensors[slot]];
}

static void add_plan_operation(GraphBuild *b, const Plan *p, const PlanGraph *g,
                               const PlanGraphOperation *op)
{
    switch ((PlanGraphKind)op->kind) {
    case PLAN_GRAPH_CONVOLUTION_FORWARD:
    case PLAN_GRAPH_CONVOLUTION_DATA:
    case PLAN_GRAPH_CONVOLUTION_FILTER:
        add_convolution(b, op, p->graph_tensors[g->tensors + op->tensors[0]].rank - 2);
        break;
    case PLAN_GRAPH_POINTWISE:
        graph_build_pointwise(b, (int)op->mode, op->compute, GRAPH_NO_AXIS,
                              tensor_at(b, op, GRAPH_SLOT(POINTWISE, X)),
                              tensor_at(b, op, GRAPH_SLOT(POINTWISE, B)), NULL,
                              tensor_at(b, op, GRAPH_SLOT(POINTWISE, Y)));
        break;
    case PLAN_GRAPH_MATMUL:
        graph_build_matmul(b, op->compute, tensor_at(b, op, GRAPH_SLOT(MATMUL, A)),
                           tensor_at(b, op, GRAPH_SLOT(MATMUL, B)),
                           tensor_at(b, op, GRAPH_SLOT(MATMUL, C)));
        break;
    case PLAN_GRAPH_DEQUANTIZE:
        add_dequantize(b, op);
        break;
    case PLAN_GRAPH_ATTENTION:
        graph_build_attention(b, p, g, op);
        break;
    case PLAN_GRAPH_ATTENTION_GRADIENT:
        graph_build_attention_gradient(b, p, g, op);
        break;
    case PLAN_GRAPH_NORM:
        add_norm(b, op);
        break;
    case PLAN_GRAPH_NORM_GRADIENT:
        add_norm_gradient(b, op);
        break;
    case PLAN_GRAPH_KINDS:
        break;
    }
}

bool graph_build(GraphBuild *b, const Plan *p, const PlanGraph *g, const GraphDevice *at)
{
    b->next_id = FIRST_OWN_ID;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        b->tensors[i] = graph_build_tensor(b, &p->graph_tensors[g->tensors + i], i + 1);
    }
    for (uint32_t i = 0; i < g->operation_count; i++) {
        add_plan_operation(b, p, g, &p->graph_operations[g->operations + i]);
    }
    b->graph = graph_build_make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph_build_set(b, b->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                    CUDNN_TYPE_BACKEND_DESCRIPTOR, b->operation_count, b->operations);
    if (at->handle != NULL) {
        graph_build_set(b, b->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                        1, &at->handle);
    }
    graph_build_finalize(b, b->graph);
    return b->status == CUDNN_STATUS_SUCCESS;
}

cudnnBackendDescriptor_t graph_build_describe_device(GraphBuild *b, const char *json)
{
    cudnnBackendDescriptor_t d = graph_build_make(b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    graph_build_set(b, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    (int64_t)strlen(json) + 1, json);
    graph_build_finalize(b, d);
    return d;
}

void graph_build_destroy(GraphBuild *b)
{
    while (b->made_count > 0) {
        b->dnn->unmake(b->made[--b->made_count]);
    }
}

/* --- plans -------------------------------------------------------------------------------- */

/* What kernels of an engine do to the numbers, as bits by note. */
static uint32_t engine_notes(GraphBuild *b, cudnnBackendDescriptor_t configuration,
                             int attribute, int type)
{
    int32_t notes[16];
    int64_t count = 0;
    uint32_t bits = 0;
    cudnnBackendDescriptor_t engine;
    if (b->dnn->make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != 0) {
        return 0;
    }
    bool known = b->dnn->get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) == 0 &&
                 b->dnn->get(engine, attribute, type, 16, &count, notes) == 0;
    for (int64_t i = 0; known && i < count && i < 16; i++) {
        bits |= notes[i] >= 0 && notes[i] < 32 ? UINT32_C(1) << notes[i] : 0;
    }
    b->dnn->unmake(engine);
    return bits;
}

/* Results are to be the same in each run, and sums as exact as the types that they are computed in. */
static bool is_allowed(GraphBuild *b, const PlanGraph *g,
                       cudnnBackendDescriptor_t configuration)
{
    uint32_t refused = 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC |
                       1U << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                       1U << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
                       1U << CUDNN_NUMERICAL_NOTE_FFT |
                       1U << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                       1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                       1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                       1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (g->flags & PLAN_GRAPH_FULL_F32) {
        refused |= 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    }
    if (engine_notes(b, configuration, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                     CUDNN_TYPE_NUMERICAL_NOTE) &
        refused) {
        return false;
    }
    return !(g->flags & PLAN_GRAPH_PRECOMPILED) ||
           !(engine_notes(b, configuration, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                          CUDNN_TYPE_BEHAVIOR_NOTE) &
             1U << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

static uint64_t workspace_of(const CudnnApi *dnn, cudnnBackendDescriptor_t d)
{
    int64_t bytes = -1, count = 0;
    bool known = dnn->get(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                          1, &count, &bytes) == 0;
    return known && bytes >= 0 ? (uint64_t)bytes : UINT64_MAX;
}

static void set_device(GraphBuild *b, cudnnBackendDescriptor_t plan,
                       const GraphDevice *at)
{
    if (at->handle != NULL) {
        graph_build_set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                        &at->handle);
    } else {
        graph_build_set_descriptor(b, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                   at->properties);
    }
}

/* A plan of one configuration; what fails there is not the graph's failure. */
static bool try_configuration(GraphBuild *b, const GraphDevice *at,
                              cudnnBackendDescriptor_t configuration,
                              uint64_t workspace_most, GraphChoice *out)
{
    cudnnBackendDescriptor_t plan =
        graph_build_make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    graph_build_set_descriptor(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                               configuration);
    set_device(b, plan, at);
    if (b->status != CUDNN_STATUS_SUCCESS || b->dnn->finalize(plan) != 0) {
        return false;
    }
    uint64_t bytes = workspace_of(b->dnn, plan);
    if (bytes > workspace_most) {
        return false;
    }
    out->plan = plan;
    out->workspace_bytes = bytes;
    return true;
}

/* The ranked configurations of a mode that the library can do on this device. */
static uint32_t ask_heuristics(GraphBuild *b, const GraphDevice *at, int mode,
                               cudnnBackendDescriptor_t *out)
{
    int64_t count = 0;
    cudnnBackendDescriptor_t h = graph_build_make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    graph_build_set_descriptor(b, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, b->graph);
    set_enum(b, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, (uint32_t)mode);
    if (at->handle == NULL) {
        graph_build_set_descriptor(b, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                   at->properties);
    }
    if (b->status != CUDNN_STATUS_SUCCESS || b->dnn->finalize(h) != 0 ||
        b->dnn->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                    &count, NULL) != 0) {
        return 0; /* a graph that no engine of this mode takes */
    }
    int64_t capacity = count < MOST_CONFIGURATIONS ? count : MOST_CONFIGURATIONS;
    for (int64_t i = 0; i < capacity; i++) {
        out[i] = graph_build_make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (b->status != CUDNN_STATUS_SUCCESS || capacity <= 0 ||
        b->dnn->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    capacity, &count, out) != 0) {
        return 0;
    }
    return (uint32_t)(count < capacity ? count : capacity);
}

/* Which configurations are tried: all, or one by its number. */
typedef struct Search {
    uint64_t workspace_most;
    uint32_t number; /* PLAN_NONE: all */
    uint32_t most;   /* plans that are wanted */
} Search;

static uint32_t search(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                       const Search *s, GraphChoice *out)
{
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t found[MOST_CONFIGURATIONS];
    uint32_t tries = 0, number = 0, made = 0, configurations = 0;
    *out = (GraphChoice){0};
    for (int m = 0; m < 2 && tries < MOST_TRIES && made < s->most; m++) {
        uint32_t count = ask_heuristics(b, at, modes[m], found);
        configurations += count;
        for (uint32_t i = 0; i < count && tries < MOST_TRIES && made < s->most; i++) {
            if (!is_allowed(b, g, found[i])) {
                continue;
            }
            bool is_wanted = s->number == PLAN_NONE || s->number == number;
            GraphChoice c = {.number = number++};
            tries += is_wanted;
            if (is_wanted && try_configuration(b, at, found[i], s->workspace_most, &c)) {
                out[made++] = c;
            }
        }
    }
    out->configurations = configurations;
    return made;
}

uint32_t graph_build_choices(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                             uint64_t workspace_most, GraphChoice *out, uint32_t most)
{
    const Search s = {workspace_most, PLAN_NONE, most};
    return search(b, g, at, &s, out);
}

bool graph_build_choose_number(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                               uint64_t workspace_most, uint32_t number, GraphChoice *out)
{
    const Search s = {workspace_most, number, 1};
    return search(b, g, at, &s, out) == 1;
}

bool graph_build_choose(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                        uint64_t workspace_most, GraphChoice *out)
{
    if (graph_build_choices(b, g, at, workspace_most, out, 1) == 1) {
        return true;
    }
    if (b->status == CUDNN_STATUS_SUCCESS) {
        snprintf(b->error, sizeof b->error,
                 "none of its %u configurations can be used here", out->configurations);
        b->status = CUDNN_STATUS_NOT_SUPPORTED;
    }
    return false;
}

bool graph_build_load(GraphBuild *b, const GraphDevice *at, const char *plan,
                      uint64_t bytes, GraphChoice *out)
{
    *out = (GraphChoice){0};
    cudnnBackendDescriptor_t d =
        graph_build_make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_device(b, d, at);
    graph_build_set(b, d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    (int64_t)bytes, plan);
    graph_build_finalize(b, d);
    out->plan = d;
    out->workspace_bytes =
        b->status == CUDNN_STATUS_SUCCESS ? workspace_of(b->dnn, d) : 0;
    return b->status == CUDNN_STATUS_SUCCESS && out->workspace_bytes != UINT64_MAX;
}
