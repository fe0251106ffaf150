/* Descriptors: which attributes each type takes, setting, finalizing, asking. Types, counts and
 * whether they are finalized are checked as cuDNN documents it. */
#include "runtime/emu/dnn_descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/emu/config.h"

enum { ONE = 1, SOME = DNN_RANK, MANY = 1 << 20, NEEDED = 1 };

typedef struct Row {
    int descriptor, attribute, type, most; /* elements */
    int flags;
} Row;

#define D(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define A(name) CUDNN_ATTR_##name
#define T(name) CUDNN_TYPE_##name
/* clang-format off */
static const Row rows[] = {
    {D(TENSOR), A(TENSOR_DATA_TYPE),       T(DATA_TYPE), ONE, NEEDED},
    {D(TENSOR), A(TENSOR_DIMENSIONS),      T(INT64), SOME, NEEDED},
    {D(TENSOR), A(TENSOR_STRIDES),         T(INT64), SOME, NEEDED},
    {D(TENSOR), A(TENSOR_UNIQUE_ID),       T(INT64), ONE, NEEDED},
    {D(TENSOR), A(TENSOR_BYTE_ALIGNMENT),  T(INT64), ONE, NEEDED},
    {D(TENSOR), A(TENSOR_IS_VIRTUAL),      T(BOOLEAN), ONE, 0},
    {D(TENSOR), A(TENSOR_IS_BY_VALUE),     T(BOOLEAN), ONE, 0},
    {D(TENSOR), A(TENSOR_REORDERING_MODE), T(TENSOR_REORDERING_MODE), ONE, 0},
    {D(POINTWISE), A(POINTWISE_MODE),      T(POINTWISE_MODE), ONE, NEEDED},
    {D(POINTWISE), A(POINTWISE_MATH_PREC), T(DATA_TYPE), ONE, NEEDED},
    {D(POINTWISE), A(POINTWISE_AXIS),      T(INT64), ONE, 0},
    {D(CONVOLUTION), A(CONVOLUTION_COMP_TYPE),      T(DATA_TYPE), ONE, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_CONV_MODE),      T(CONVOLUTION_MODE), ONE, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_SPATIAL_DIMS),   T(INT64), ONE, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_PRE_PADDINGS),   T(INT64), SOME, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_POST_PADDINGS),  T(INT64), SOME, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_FILTER_STRIDES), T(INT64), SOME, NEEDED},
    {D(CONVOLUTION), A(CONVOLUTION_DILATIONS),      T(INT64), SOME, NEEDED},
    {D(MATMUL), A(MATMUL_COMP_TYPE), T(DATA_TYPE), ONE, NEEDED},
    {D(REDUCTION), A(REDUCTION_OPERATOR),  T(REDUCTION_OPERATOR_TYPE), ONE, NEEDED},
    {D(REDUCTION), A(REDUCTION_COMP_TYPE), T(DATA_TYPE), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_ALPHA),     T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_BETA),      T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_CONV_DESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_X),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_W),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_FORWARD), A(OPERATION_CONVOLUTION_FORWARD_Y),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_ALPHA),     T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_BETA),      T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_DX),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_W),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(OPERATION_CONVOLUTION_BWD_DATA_DY),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),     T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_BETA),      T(FLOAT), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_X),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_DW),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(OPERATION_CONVOLUTION_BWD_FILTER_DY),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_PW_DESCRIPTOR), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_XDESC),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_BDESC),         T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_TDESC),         T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_YDESC),         T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_ADESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_BDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_CDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_DESC),  T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_XDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_YDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_DESC),  T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_RESHAPE), A(OPERATION_RESHAPE_XDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_RESHAPE), A(OPERATION_RESHAPE_YDESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), A(OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC),      T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), A(OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), A(OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC),      T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), A(OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC),  T(DATA_TYPE), ONE, NEEDED},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), A(OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE), T(INT32), SOME, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_MODE),              T(NORM_MODE), ONE, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_PHASE),             T(NORM_FWD_PHASE), ONE, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_XDESC),             T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_MEAN_DESC),         T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_INV_VARIANCE_DESC), T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_SCALE_DESC),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_BIAS_DESC),         T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_EPSILON_DESC),      T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_FORWARD), A(OPERATION_NORM_FWD_YDESC),             T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_MODE),              T(NORM_MODE), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_XDESC),             T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_MEAN_DESC),         T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_INV_VARIANCE_DESC), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_DYDESC),            T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_SCALE_DESC),        T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_DSCALE_DESC),       T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_DBIAS_DESC),        T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(OPERATION_NORM_BACKWARD), A(OPERATION_NORM_BWD_DXDESC),            T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(OPERATIONGRAPH), A(OPERATIONGRAPH_HANDLE), T(HANDLE), ONE, 0},
    {D(OPERATIONGRAPH), A(OPERATIONGRAPH_OPS),    T(BACKEND_DESCRIPTOR), DNN_NODES, NEEDED},
    {D(ENGINEHEUR), A(ENGINEHEUR_OPERATION_GRAPH), T(BACKEND_DESCRIPTOR), ONE, NEEDED},
    {D(ENGINEHEUR), A(ENGINEHEUR_MODE),            T(HEUR_MODE), ONE, NEEDED},
    {D(ENGINEHEUR), A(ENGINEHEUR_DEVICEPROP),      T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(ENGINECFG), 0, 0, 0, 0},
    {D(ENGINE), 0, 0, 0, 0},
    {D(DEVICEPROP), A(DEVICEPROP_JSON_REPRESENTATION), T(CHAR), MANY, NEEDED},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_HANDLE),              T(HANDLE), ONE, 0},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_ENGINE_CONFIG),       T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_DEVICEPROP),          T(BACKEND_DESCRIPTOR), ONE, 0},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_JSON_REPRESENTATION), T(CHAR), MANY, 0},
    {D(VARIANT_PACK), A(VARIANT_PACK_UNIQUE_IDS),    T(INT64), DNN_TENSORS, NEEDED},
    {D(VARIANT_PACK), A(VARIANT_PACK_DATA_POINTERS), T(VOID_PTR), DNN_TENSORS, NEEDED},
    {D(VARIANT_PACK), A(VARIANT_PACK_WORKSPACE),     T(VOID_PTR), ONE, NEEDED},
};
/* clang-format on */
#undef D
#undef A
#undef T

static const Row *row_of(int descriptor, int attribute)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].descriptor == descriptor &&
            (attribute == -1 || (rows[i].attribute == attribute && rows[i].most != 0)))
            return &rows[i];
    return NULL;
}

static size_t element_bytes(int type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    case CUDNN_TYPE_INT64:
        return 8;
    default:
        return 4;
    }
}

DnnDescriptor *dnn_descriptor_create(int type)
{
    DnnDescriptor *d = row_of(type, -1) != NULL ? calloc(1, sizeof *d) : NULL;
    if (d != NULL)
        d->type = type;
    return d;
}

void dnn_descriptor_destroy(DnnDescriptor *d)
{
    while (d != NULL && d->attributes != NULL) {
        DnnAttribute *next = d->attributes->next;
        free(d->attributes);
        d->attributes = next;
    }
    if (d != NULL)
        free(d->program);
    free(d);
}

const DnnAttribute *dnn_attribute(const DnnDescriptor *d, int id)
{
    const DnnAttribute *a = d->attributes;
    while (a != NULL && a->id != id)
        a = a->next;
    return a;
}

static bool are_final(const void *elements, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const DnnDescriptor *d;
        memcpy(&d, (const char *)elements + i * (int64_t)sizeof(void *), sizeof(void *));
        if (d == NULL || !d->is_final)
            return false;
    }
    return true;
}

cudnnStatus_t dnn_descriptor_set(DnnDescriptor *d, int attribute, int type, int64_t count,
                                 const void *elements)
{
    if (d == NULL || elements == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an argument is NULL");
    if (d->is_final)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
    const Row *row = row_of(d->type, attribute);
    if (row == NULL)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                          "this descriptor does not have the attribute");
    if (row->type != type)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                          "the attribute is of another type");
    if (count < 1 || count > row->most)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
                          "the attribute has another number of elements");
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !are_final(elements, count))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                          "a descriptor that is not finalized is set in another one");
    size_t bytes = (size_t)count * element_bytes(type);
    DnnAttribute *a = malloc(sizeof *a + bytes);
    if (a == NULL)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *a = (DnnAttribute){
        .next = d->attributes, .id = attribute, .type = type, .count = count};
    memcpy(a->data, elements, bytes);
    d->attributes = a;
    return CUDNN_STATUS_SUCCESS;
}

static const DnnDescriptor *descriptor_in(const DnnDescriptor *d, int attribute)
{
    const DnnAttribute *a = dnn_attribute(d, attribute);
    const DnnDescriptor *out = NULL;
    if (a != NULL)
        memcpy(&out, a->data, sizeof(void *));
    return out;
}

/* -- finalizing ------------------------------------------------------------------------------ */

static cudnnStatus_t take_program(DnnDescriptor *d, const DnnDescriptor *from)
{
    if (from == NULL || from->program == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM,
                          "a descriptor of another kind is given for a graph or what is "
                          "made of one");
    free(d->program); /* it may be finalized again */
    d->program = malloc(sizeof *d->program);
    if (d->program == NULL)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *d->program = *from->program;
    d->program->rounds_tf32 = from->program->rounds_tf32 && !from->is_exact;
    d->is_exact = from->is_exact;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_graph(DnnDescriptor *d)
{
    free(d->program); /* it may be finalized again, after a refusal, too */
    d->program = calloc(1, sizeof *d->program);
    return d->program == NULL ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                              : dnn_program_make(d, d->program);
}

static cudnnStatus_t finalize_plan(DnnDescriptor *d)
{
    const DnnDescriptor *configuration =
        descriptor_in(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (configuration != NULL)
        return take_program(d, configuration);
    return dnn_refuse(CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
                      "the emulator does not read serialised plans");
}

static cudnnStatus_t finalize_kind(DnnDescriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return finalize_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return take_program(d, descriptor_in(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return finalize_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return dnn_attribute(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count ==
                       dnn_attribute(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count
                   ? CUDNN_STATUS_SUCCESS
                   : dnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                "the pack has more ids than addresses, or fewer");
    default:
        return CUDNN_STATUS_SUCCESS;
    }
}

cudnnStatus_t dnn_descriptor_finalize(DnnDescriptor *d)
{
    if (d == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is NULL");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].descriptor == d->type && (rows[i].flags & NEEDED) &&
            dnn_attribute(d, rows[i].attribute) == NULL)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a needed attribute was not set");
    cudnnStatus_t status = finalize_kind(d);
    d->is_final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* -- asking ---------------------------------------------------------------------------------- */

/* Two configurations: with TF32, and without it. */
enum { CONFIGURATIONS = 2 };

static cudnnStatus_t get_configurations(const DnnDescriptor *d, int64_t requested,
                                        int64_t *count, void *elements)
{
    const DnnAttribute *mode = dnn_attribute(d, CUDNN_ATTR_ENGINEHEUR_MODE);
    int32_t value;
    memcpy(&value, mode->data, sizeof value);
    *count = value == CUDNN_HEUR_MODE_A ? CONFIGURATIONS : 0;
    if (elements == NULL)
        return CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < *count && i < requested; i++) {
        DnnDescriptor *out;
        memcpy(&out, (char *)elements + i * (int64_t)sizeof(void *), sizeof(void *));
        if (out == NULL || out->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no room for a configuration");
        free(out->program);
        cudnnStatus_t status = take_program(out, d);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
        out->is_exact = i == 1;
        out->is_final = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

uint64_t dnn_workspace_bytes(const DnnDescriptor *plan)
{
    uint64_t bytes = (uint64_t)emu_config()->cudnn_workspace;
    return plan->is_exact ? bytes / 2 : bytes;
}

static cudnnStatus_t get_number(int64_t value, int64_t *count, void *elements)
{
    *count = 1;
    if (elements != NULL)
        memcpy(elements, &value, sizeof value);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t dnn_descriptor_get(const DnnDescriptor *d, int attribute, int type,
                                 int64_t requested, int64_t *count, void *elements)
{
    if (d == NULL || count == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an argument is NULL");
    if (!d->is_final)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                          "the descriptor is not finalized");
    if (attribute == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
        d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
        type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return get_configurations(d, requested, count, elements);
    if (attribute == CUDNN_ATTR_ENGINECFG_ENGINE &&
        type == CUDNN_TYPE_BACKEND_DESCRIPTOR && elements != NULL) {
        DnnDescriptor *engine;
        memcpy(&engine, elements, sizeof(void *));
        if (d->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || engine == NULL ||
            engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no room for an engine");
        engine->is_exact = d->is_exact;
        engine->is_final = true;
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    if (attribute == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
        type == CUDNN_TYPE_NUMERICAL_NOTE) {
        int32_t note = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        *count = !d->is_exact;
        if (*count == 1 && requested > 0 && elements != NULL)
            memcpy(elements, &note, sizeof note);
        return CUDNN_STATUS_SUCCESS;
    }
    if (attribute == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    }
    if (attribute == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64)
        return get_number((int64_t)dnn_workspace_bytes(d), count, elements);
    return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                      "the emulator does not know this attribute");
}
