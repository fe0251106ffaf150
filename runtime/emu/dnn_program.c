/* The operations of a graph, from their descriptors, as the nodes of a program. A tensor is known
 * by its unique id; tensors with one id must be the same. See dnn.h. */
#include <string.h>

#include "runtime/emu/dnn_descriptor.h"

static void get(const DnnDescriptor *d, int attribute, void *out, size_t bytes)
{
    const DnnAttribute *a = dnn_attribute(d, attribute);
    if (a != NULL)
        memcpy(out, a->data, bytes);
}

static int get_int(const DnnDescriptor *d, int attribute)
{
    int32_t value = 0;
    get(d, attribute, &value, sizeof value);
    return value;
}

static int64_t get_long(const DnnDescriptor *d, int attribute)
{
    int64_t value = 0;
    get(d, attribute, &value, sizeof value);
    return value;
}

static bool get_bool(const DnnDescriptor *d, int attribute)
{
    unsigned char value = 0; /* a caller's bool may be any byte */
    get(d, attribute, &value, sizeof value);
    return value != 0;
}

static const DnnDescriptor *get_descriptor(const DnnDescriptor *d, int attribute)
{
    const DnnDescriptor *value = NULL;
    get(d, attribute, (void *)&value, sizeof(void *));
    return value;
}

static DType type_find(int type)
{
    switch (type) {
#define DATA_TYPE(name, value, dtype, text, bits)                                        \
    case name:                                                                           \
        return DT_##dtype;
        CUDNN_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
    default:
        return DT_INVALID;
    }
}

static const int64_t LAST_MOST = INT64_C(1) << 40;

/* -- tensors --------------------------------------------------------------------------------- */

static const char *read_tensor(const DnnDescriptor *d, DnnTensor *out)
{
    const DnnAttribute *dims = dnn_attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const DnnAttribute *strides = dnn_attribute(d, CUDNN_ATTR_TENSOR_STRIDES);
    int64_t alignment = get_long(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), elements = 1;
    *out = (DnnTensor){.id = get_long(d, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                       .type = type_find(get_int(d, CUDNN_ATTR_TENSOR_DATA_TYPE)),
                       .rank = (uint32_t)dims->count,
                       .is_virtual = get_bool(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL),
                       .is_scalar = get_bool(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE),
                       .is_tiled = get_int(d, CUDNN_ATTR_TENSOR_REORDERING_MODE) ==
                                   CUDNN_TENSOR_REORDERING_F8_128x4,
                       .alignment = (uint32_t)alignment};
    if (strides->count != dims->count)
        return "a tensor has more sizes than strides, or fewer";
    memcpy(out->dims, dims->data, (size_t)dims->count * sizeof(int64_t));
    memcpy(out->strides, strides->data, (size_t)dims->count * sizeof(int64_t));
    int64_t last = 0; /* its last element */
    for (uint32_t i = 0; i < out->rank; i++) {
        if (out->dims[i] < 1 || out->strides[i] < 0 ||
            out->dims[i] > INT32_MAX / elements ||
            out->strides[i] > (LAST_MOST - last) / out->dims[i])
            return "a tensor has a size or stride that cannot be";
        elements *= out->dims[i];
        last += (out->dims[i] - 1) * out->strides[i];
    }
    if (out->type == DT_INVALID)
        return "the emulator does not have this type of tensor";
    if (out->is_scalar && elements != 1)
        return "a tensor that is passed by value has more than one";
    if (out->is_tiled && (out->rank < 2 || dtype_info[out->type].bits != 8))
        return "only bytes along two dimensions lie in tiles";
    if (alignment < 1 || alignment > 1024 || (alignment & (alignment - 1)) != 0)
        return "a tensor has an alignment that is no power of two";
    return NULL;
}

/* Sizes may be told in another order where an operation wants them so. */
static bool is_same(const DnnTensor *a, const DnnTensor *b)
{
    return a->type == b->type && a->rank == b->rank && a->is_virtual == b->is_virtual &&
           a->is_scalar == b->is_scalar &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* The number of a tensor in the program; the first descriptor of an id adds it. */
static const char *add_tensor(DnnProgram *p, const DnnDescriptor *d, int32_t *out)
{
    DnnTensor t;
    *out = DNN_NONE;
    if (d == NULL)
        return NULL;
    if (d->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        return "an operation is given something else for a tensor";
    const char *why = read_tensor(d, &t);
    for (uint32_t i = 0; i < p->tensor_count && why == NULL; i++) {
        if (p->tensors[i].id != t.id)
            continue;
        if (!is_same(&p->tensors[i], &t))
            return "two tensors have the same unique id";
        *out = (int32_t)i;
        return NULL;
    }
    if (why == NULL && p->tensor_count == DNN_TENSORS)
        why = "the emulator does not have graphs of so many tensors";
    if (why == NULL) {
        *out = (int32_t)p->tensor_count;
        p->tensors[p->tensor_count++] = t;
    }
    return why;
}

/* -- nodes ----------------------------------------------------------------------------------- */

typedef struct PortRow {
    int descriptor, attribute, port;
} PortRow;

#define D(name) CUDNN_BACKEND_OPERATION_##name##_DESCRIPTOR
#define A(name) CUDNN_ATTR_OPERATION_##name
/* clang-format off */
static const PortRow port_rows[] = {
    {D(CONVOLUTION_FORWARD), A(CONVOLUTION_FORWARD_X), DNN_X},
    {D(CONVOLUTION_FORWARD), A(CONVOLUTION_FORWARD_W), DNN_W},
    {D(CONVOLUTION_FORWARD), A(CONVOLUTION_FORWARD_Y), DNN_Y},
    {D(CONVOLUTION_BACKWARD_DATA), A(CONVOLUTION_BWD_DATA_DX), DNN_X},
    {D(CONVOLUTION_BACKWARD_DATA), A(CONVOLUTION_BWD_DATA_W),  DNN_W},
    {D(CONVOLUTION_BACKWARD_DATA), A(CONVOLUTION_BWD_DATA_DY), DNN_Y},
    {D(CONVOLUTION_BACKWARD_FILTER), A(CONVOLUTION_BWD_FILTER_X),  DNN_X},
    {D(CONVOLUTION_BACKWARD_FILTER), A(CONVOLUTION_BWD_FILTER_DW), DNN_W},
    {D(CONVOLUTION_BACKWARD_FILTER), A(CONVOLUTION_BWD_FILTER_DY), DNN_Y},
    {D(POINTWISE), A(POINTWISE_XDESC), DNN_X},
    {D(POINTWISE), A(POINTWISE_BDESC), DNN_B},
    {D(POINTWISE), A(POINTWISE_TDESC), DNN_T},
    {D(POINTWISE), A(POINTWISE_YDESC), DNN_Y},
    {D(MATMUL), A(MATMUL_ADESC), DNN_X},
    {D(MATMUL), A(MATMUL_BDESC), DNN_B},
    {D(MATMUL), A(MATMUL_CDESC), DNN_Y},
    {D(REDUCTION), A(REDUCTION_XDESC), DNN_X},
    {D(REDUCTION), A(REDUCTION_YDESC), DNN_Y},
    {D(RESHAPE), A(RESHAPE_XDESC), DNN_X},
    {D(RESHAPE), A(RESHAPE_YDESC), DNN_Y},
    {D(BLOCK_SCALE_DEQUANTIZE), A(BLOCK_SCALE_DEQUANTIZE_XDESC),      DNN_X},
    {D(BLOCK_SCALE_DEQUANTIZE), A(BLOCK_SCALE_DEQUANTIZE_SCALE_DESC), DNN_SCALE},
    {D(BLOCK_SCALE_DEQUANTIZE), A(BLOCK_SCALE_DEQUANTIZE_YDESC),      DNN_Y},
    {D(NORM_FORWARD), A(NORM_FWD_XDESC),             DNN_X},
    {D(NORM_FORWARD), A(NORM_FWD_SCALE_DESC),        DNN_SCALE},
    {D(NORM_FORWARD), A(NORM_FWD_BIAS_DESC),         DNN_BIAS},
    {D(NORM_FORWARD), A(NORM_FWD_EPSILON_DESC),      DNN_T},
    {D(NORM_FORWARD), A(NORM_FWD_MEAN_DESC),         DNN_MEAN},
    {D(NORM_FORWARD), A(NORM_FWD_INV_VARIANCE_DESC), DNN_DEVIATION},
    {D(NORM_FORWARD), A(NORM_FWD_YDESC),             DNN_Y},
    {D(NORM_BACKWARD), A(NORM_BWD_XDESC),             DNN_X},
    {D(NORM_BACKWARD), A(NORM_BWD_DYDESC),            DNN_T},
    {D(NORM_BACKWARD), A(NORM_BWD_SCALE_DESC),        DNN_SCALE},
    {D(NORM_BACKWARD), A(NORM_BWD_MEAN_DESC),         DNN_MEAN},
    {D(NORM_BACKWARD), A(NORM_BWD_INV_VARIANCE_DESC), DNN_DEVIATION},
    {D(NORM_BACKWARD), A(NORM_BWD_DXDESC),            DNN_Y},
    {D(NORM_BACKWARD), A(NORM_BWD_DSCALE_DESC),       DNN_B},
    {D(NORM_BACKWARD), A(NORM_BWD_DBIAS_DESC),        DNN_BIAS},
};
/* clang-format on */

/* Where an operation's own description stands, if it has one. */
static const PortRow descriptions[] = {
    {D(CONVOLUTION_FORWARD), A(CONVOLUTION_FORWARD_CONV_DESC), 0},
    {D(CONVOLUTION_BACKWARD_DATA), A(CONVOLUTION_BWD_DATA_CONV_DESC), 0},
    {D(CONVOLUTION_BACKWARD_FILTER), A(CONVOLUTION_BWD_FILTER_CONV_DESC), 0},
    {D(POINTWISE), A(POINTWISE_PW_DESCRIPTOR), 0},
    {D(REDUCTION), A(REDUCTION_DESC), 0},
};
#undef D
#undef A

static const char *read_convolution(const DnnDescriptor *c, DnnNode *n)
{
    static const int lists[] = {
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS};
    int64_t spatial = get_long(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    for (int i = 0; i < 4; i++)
        if (spatial < 1 || dnn_attribute(c, lists[i])->count != spatial)
            return "a convolution has lists of different lengths";
    size_t bytes = (size_t)spatial * sizeof(int64_t);
    n->spatial = (uint32_t)spatial;
    n->mode = get_int(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
    n->compute = type_find(get_int(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
    get(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, n->before, bytes);
    get(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, n->behind, bytes);
    get(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, n->stride, bytes);
    get(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, n->dilation, bytes);
    return NULL;
}

static const char *read_description(const DnnDescriptor *op, DnnNode *n)
{
    const DnnDescriptor *d = NULL;
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
        if (descriptions[i].descriptor == op->type)
            d = get_descriptor(op, descriptions[i].attribute);
    switch (d == NULL ? -1 : d->type) {
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return read_convolution(d, n);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        n->mode = get_int(d, CUDNN_ATTR_POINTWISE_MODE);
        n->axis = get_long(d, CUDNN_ATTR_POINTWISE_AXIS);
        n->compute = type_find(get_int(d, CUDNN_ATTR_POINTWISE_MATH_PREC));
        break;
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        n->mode = get_int(d, CUDNN_ATTR_REDUCTION_OPERATOR);
        break;
    default:
        n->block = get_int(op, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE);
        n->mode = op->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                      ? get_int(op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE)
                      : get_int(op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
    }
    return NULL;
}

static const char *add_node(DnnProgram *p, const DnnDescriptor *op)
{
    DnnNode *n = &p->nodes[p->node_count++];
    n->kind = op->type;
    const char *why = read_description(op, n);
    for (int i = 0; i < DNN_PORTS; i++)
        n->ports[i] = DNN_NONE;
    for (size_t i = 0; i < sizeof port_rows / sizeof *port_rows && why == NULL; i++)
        if (port_rows[i].descriptor == op->type)
            why = add_tensor(p, get_descriptor(op, port_rows[i].attribute),
                             &n->ports[port_rows[i].port]);
    return why;
}

cudnnStatus_t dnn_program_make(const DnnDescriptor *graph, DnnProgram *out)
{
    const DnnAttribute *ops = dnn_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const char *why = NULL;
    for (int64_t i = 0; i < ops->count && why == NULL; i++) {
        const DnnDescriptor *op;
        memcpy(&op, ops->data + i * (int64_t)sizeof(void *), sizeof(void *));
        why = add_node(out, op);
    }
    if (why != NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, why);
    out->rounds_tf32 = true;
    dnn_mark_uses(out);
    return dnn_check(out, &why)
               ? CUDNN_STATUS_SUCCESS
               : dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, why);
}
