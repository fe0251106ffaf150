/* Graphs of cuDNN: one operation or two, of each kind, from descriptors to execution. */
#include <stdlib.h>
#include <string.h>

#include "runtime/library/cudnn_types.h"
#include "tests/fuzz/emulator/told.h"

#define CUDNN_FUNCTION(name, symbol, parameters) cudnnStatus_t symbol parameters;
#define CUDNN_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#define CUDNN_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#define CUDNN_VOID_FUNCTION(name, symbol, parameters) void symbol parameters;
#include "runtime/library/cudnn.def"

enum {
    RANK = 4,
    TENSORS = 16,
    MADE = 32,
    PORTS = 8,
    PIECE = TOLD_MEMORY / TENSORS,
    SIZE_MOST = 1 << 12
};

typedef cudnnBackendDescriptor_t Descriptor;

/* What an operation is made of: attributes of its tensors, and their sizes. */
typedef struct Port {
    int attribute;
    int64_t dims[RANK];
} Port;

typedef struct Form {
    int operation;
    int described_by; /* attribute of its description, 0: none */
    int description;  /* kind of that */
    Port ports[PORTS];
} Form;

#define D(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define A(name) CUDNN_ATTR_OPERATION_##name
/* clang-format off */
#define IMAGE {1, 4, 5, 5}
#define KERNEL {6, 2, 3, 3}
#define RESULT {1, 6, 5, 5}
#define ROWS {2, 3, 4, 8}
#define ROW {1, 1, 1, 8}
#define EACH {2, 3, 4, 1}
#define ONE {1, 1, 1, 1}
static const Form forms[] = {
    {D(OPERATION_POINTWISE), A(POINTWISE_PW_DESCRIPTOR), D(POINTWISE),
     {{A(POINTWISE_XDESC), ROWS}, {A(POINTWISE_BDESC), ROW}, {A(POINTWISE_YDESC), ROWS}}},
    {D(OPERATION_POINTWISE), A(POINTWISE_PW_DESCRIPTOR), D(POINTWISE),
     {{A(POINTWISE_XDESC), ROWS}, {A(POINTWISE_YDESC), ROWS}}},
    {D(OPERATION_POINTWISE), A(POINTWISE_PW_DESCRIPTOR), D(POINTWISE),
     {{A(POINTWISE_XDESC), ROWS}, {A(POINTWISE_BDESC), EACH}, {A(POINTWISE_TDESC), ROW}, {A(POINTWISE_YDESC), ROWS}}},
    {D(OPERATION_MATMUL), A(MATMUL_DESC), D(MATMUL),
     {{A(MATMUL_ADESC), {2, 4, 3, 8}}, {A(MATMUL_BDESC), {2, 2, 8, 5}}, {A(MATMUL_CDESC), {2, 4, 3, 5}}}},
    {D(OPERATION_REDUCTION), A(REDUCTION_DESC), D(REDUCTION),
     {{A(REDUCTION_XDESC), ROWS}, {A(REDUCTION_YDESC), EACH}}},
    {D(OPERATION_RESHAPE), 0, 0, {{A(RESHAPE_XDESC), ROWS}, {A(RESHAPE_YDESC), {2, 12, 2, 4}}}},
    {D(OPERATION_CONVOLUTION_FORWARD), A(CONVOLUTION_FORWARD_CONV_DESC), D(CONVOLUTION),
     {{A(CONVOLUTION_FORWARD_X), IMAGE}, {A(CONVOLUTION_FORWARD_W), KERNEL}, {A(CONVOLUTION_FORWARD_Y), RESULT}}},
    {D(OPERATION_CONVOLUTION_BACKWARD_DATA), A(CONVOLUTION_BWD_DATA_CONV_DESC), D(CONVOLUTION),
     {{A(CONVOLUTION_BWD_DATA_DY), RESULT}, {A(CONVOLUTION_BWD_DATA_W), KERNEL}, {A(CONVOLUTION_BWD_DATA_DX), IMAGE}}},
    {D(OPERATION_CONVOLUTION_BACKWARD_FILTER), A(CONVOLUTION_BWD_FILTER_CONV_DESC), D(CONVOLUTION),
     {{A(CONVOLUTION_BWD_FILTER_X), IMAGE}, {A(CONVOLUTION_BWD_FILTER_DY), RESULT}, {A(CONVOLUTION_BWD_FILTER_DW), KERNEL}}},
    {D(OPERATION_BLOCK_SCALE_DEQUANTIZE), 0, 0,
     {{A(BLOCK_SCALE_DEQUANTIZE_XDESC), {1, 1, 4, 32}}, {A(BLOCK_SCALE_DEQUANTIZE_SCALE_DESC), {1, 1, 4, 2}},
      {A(BLOCK_SCALE_DEQUANTIZE_YDESC), {1, 1, 4, 32}}}},
    {D(OPERATION_NORM_FORWARD), 0, 0,
     {{A(NORM_FWD_XDESC), ROWS}, {A(NORM_FWD_SCALE_DESC), ROW}, {A(NORM_FWD_EPSILON_DESC), ONE}, {A(NORM_FWD_YDESC), ROWS},
      {A(NORM_FWD_BIAS_DESC), ROW}, {A(NORM_FWD_MEAN_DESC), EACH}, {A(NORM_FWD_INV_VARIANCE_DESC), EACH}}},
    {D(OPERATION_NORM_BACKWARD), 0, 0,
     {{A(NORM_BWD_XDESC), ROWS}, {A(NORM_BWD_DYDESC), ROWS}, {A(NORM_BWD_SCALE_DESC), ROW}, {A(NORM_BWD_INV_VARIANCE_DESC), EACH},
      {A(NORM_BWD_DXDESC), ROWS}, {A(NORM_BWD_DSCALE_DESC), ROW}, {A(NORM_BWD_MEAN_DESC), EACH}, {A(NORM_BWD_DBIAS_DESC), ROW}}},
};
/* clang-format on */
#undef A

/* All descriptors of an input, and what the tensors are bound to. */
static struct {
    Descriptor made[MADE];
    size_t count;
    int64_t ids[TENSORS];
    void *data[TENSORS];
    size_t tensors;
} all;

static Descriptor make(int kind)
{
    Descriptor d = NULL;
    if (all.count < MADE && DONE(cudnnBackendCreateDescriptor((int)told(kind), &d)))
        all.made[all.count++] = d;
    return d;
}

static void set(Descriptor d, int attribute, int type, int64_t count,
                const void *elements)
{
    int64_t told_count = told(count);
    DONE(cudnnBackendSetAttribute(d, (int)told(attribute), (int)told(type),
                                  told_count < count ? told_count : count, elements));
}

static void set_number(Descriptor d, int attribute, int type, int64_t number)
{
    int64_t value = told(number); /* little-endian: of any width */
    set(d, attribute, type, 1, &value);
}

static void set_descriptor(Descriptor d, int attribute, Descriptor value)
{
    value = told(0) == 0 ? value : all.made[(size_t)told(1) % MADE];
    set(d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, (void *)&value);
}

/* --- operations ---------------------------------------------------------------------------- */

static Descriptor make_tensor(const Told *t, const int64_t *sizes, int type,
                              bool is_first)
{
    static const int64_t orders[][RANK] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
    const int64_t *order = orders[told_choice(2)];
    int64_t dims[2 * RANK], strides[2 * RANK], stride = 1;
    bool is_virtual = !is_first && told(0), is_scalar = told(0);
    for (int i = 0; i < RANK; i++) {
        dims[i] = is_virtual ? sizes[i] : told(sizes[i]);
        /* strides of 0 take no memory, but what is computed of them does */
        dims[i] = dims[i] > SIZE_MOST && dims[i] != INT64_MAX ? SIZE_MOST : dims[i];
    }
    for (int i = RANK; i-- > 0;) {
        strides[order[i]] = told(stride);
        stride *= sizes[order[i]];
    }
    Descriptor d = make(D(TENSOR));
    size_t number = all.tensors++ % TENSORS;
    int64_t id = told((int64_t)number);
    set_number(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, RANK, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, RANK, strides);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set_number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 16);
    set_number(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    set_number(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, is_scalar);
    set_number(d, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE,
               CUDNN_TENSOR_REORDERING_NONE);
    DONE(cudnnBackendFinalize(d));
    all.ids[number] = told((int64_t)number);
    void *data = (void *)(uintptr_t)(t->memory + number * PIECE);
    all.data[number] =
        is_scalar ? data : told_pointer(data); /* of the host: it is there */
    return d;
}

static void describe_convolution(Descriptor d)
{
    int64_t ones[2] = {told(1), told(1)}, before[2] = {told(1), told(1)};
    set_number(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
               CUDNN_DATA_FLOAT);
    set_number(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
               told_choice(2) ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION);
    set_number(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 2);
    set(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, ones);
    set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
}

static int pointwise_mode(const Form *f)
{
    static const int two[] = {CUDNN_POINTWISE_ADD,    CUDNN_POINTWISE_MUL,
                              CUDNN_POINTWISE_MIN,    CUDNN_POINTWISE_MAX,
                              CUDNN_POINTWISE_DIV,    CUDNN_POINTWISE_SUB,
                              CUDNN_POINTWISE_CMP_GT, CUDNN_POINTWISE_CMP_GE};
    static const int one[] = {CUDNN_POINTWISE_SQRT,
                              CUDNN_POINTWISE_EXP,
                              CUDNN_POINTWISE_LOG,
                              CUDNN_POINTWISE_NEG,
                              CUDNN_POINTWISE_RSQRT,
                              CUDNN_POINTWISE_IDENTITY,
                              CUDNN_POINTWISE_RELU_FWD,
                              CUDNN_POINTWISE_TANH_FWD,
                              CUDNN_POINTWISE_SIGMOID_FWD,
                              CUDNN_POINTWISE_GELU_FWD,
                              CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
                              CUDNN_POINTWISE_GEN_INDEX};
    if (f == &forms[0])
        return two[told_choice(sizeof two / sizeof *two)];
    return f == &forms[1] ? one[told_choice(sizeof one / sizeof *one)]
                          : CUDNN_POINTWISE_BINARY_SELECT;
}

static Descriptor describe(const Form *f)
{
    Descriptor d = make(f->description);
    switch (f->description) {
    case D(POINTWISE):
        set_number(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                   pointwise_mode(f));
        set_number(d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                   CUDNN_DATA_FLOAT);
        set_number(d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, told_choice(RANK));
        break;
    case D(CONVOLUTION):
        describe_convolution(d);
        break;
    case D(MATMUL):
        set_number(d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                   CUDNN_DATA_FLOAT);
        break;
    default:
        set_number(d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
                   told_choice(2) ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD);
        set_number(d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                   CUDNN_DATA_FLOAT);
    }
    DONE(cudnnBackendFinalize(d));
    return d;
}

/* What an operation says of itself, without a description. */
static void set_more(Descriptor d, int operation)
{
    static const int alphas[][2] = {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    float one = 1, zero = 0;
    int norm = told_choice(2) ? CUDNN_RMS_NORM : CUDNN_LAYER_NORM, which = -1;
    switch (operation) {
    case D(OPERATION_CONVOLUTION_FORWARD):
    case D(OPERATION_CONVOLUTION_BACKWARD_DATA):
    case D(OPERATION_CONVOLUTION_BACKWARD_FILTER):
        which = operation == D(OPERATION_CONVOLUTION_FORWARD)         ? 0
                : operation == D(OPERATION_CONVOLUTION_BACKWARD_DATA) ? 1
                                                                      : 2;
        set(d, alphas[which][0], CUDNN_TYPE_FLOAT, 1, &one);
        set(d, alphas[which][1], CUDNN_TYPE_FLOAT, 1, &zero);
        break;
    case D(OPERATION_NORM_FORWARD):
        set_number(d, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, norm);
        set_number(d, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
                   CUDNN_NORM_FWD_TRAINING);
        break;
    case D(OPERATION_NORM_BACKWARD):
        set_number(d, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, norm);
        break;
    case D(OPERATION_BLOCK_SCALE_DEQUANTIZE):
        set_number(d, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC,
                   CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
        set_number(d, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE,
                   CUDNN_TYPE_INT32, 16);
        break;
    default:
        break;
    }
}

static Descriptor make_operation(const Told *t, const Form *f)
{
    static const int types[] = {
        CUDNN_DATA_FLOAT,    CUDNN_DATA_HALF,  CUDNN_DATA_BFLOAT16,
        CUDNN_DATA_FP8_E4M3, CUDNN_DATA_INT8,  CUDNN_DATA_DOUBLE,
        CUDNN_DATA_INT32,    CUDNN_DATA_INT64, CUDNN_DATA_BOOLEAN};
    Descriptor tensors[PORTS], described = f->described_by ? describe(f) : NULL;
    int type = types[told_choice(sizeof types / sizeof *types)];
    int ports = 0;
    for (; ports < PORTS && f->ports[ports].attribute != 0; ports++)
        tensors[ports] = make_tensor(t, f->ports[ports].dims, type, ports == 0);
    Descriptor d = make(f->operation);
    if (described != NULL)
        set_descriptor(d, f->described_by, described);
    for (int i = 0; i < ports; i++) {
        if (told(1) != 0)
            set_descriptor(d, f->ports[i].attribute, tensors[i]);
    }
    set_more(d, f->operation);
    DONE(cudnnBackendFinalize(d));
    return d;
}

/* --- execution ----------------------------------------------------------------------------- */

static Descriptor make_plan(Descriptor graph, cudnnHandle_t handle)
{
    Descriptor h = make(D(ENGINEHEUR)), c = make(D(ENGINECFG)), engine = make(D(ENGINE)),
               plan = make(D(EXECUTION_PLAN));
    int type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    int64_t count = 0, bytes = 0;
    int32_t note = 0;
    set_descriptor(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set_number(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    DONE(cudnnBackendFinalize(h));
    c = told(0) == 0 ? c : engine;
    DONE(cudnnBackendGetAttribute(h, (int)told(CUDNN_ATTR_ENGINEHEUR_RESULTS), type,
                                  told(1) != 0, &count, (void *)&c));
    Descriptor asked = told(0) == 0 ? engine : all.made[(size_t)told(1) % MADE];
    DONE(cudnnBackendGetAttribute(c, CUDNN_ATTR_ENGINECFG_ENGINE, type, 1, &count,
                                  (void *)&asked));
    DONE(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  (int)told(CUDNN_TYPE_NUMERICAL_NOTE), 1, &count,
                                  &note));
    DONE(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                  CUDNN_TYPE_BEHAVIOR_NOTE, 1, &count, &note));
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, (void *)&handle);
    if (told(1) != 0)
        set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, c);
    DONE(cudnnBackendFinalize(plan));
    DONE(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                  CUDNN_TYPE_INT64, 1, &count, &bytes));
    return plan;
}

static void execute(const Told *t, Descriptor graph, cudnnHandle_t handle)
{
    Descriptor plan = make_plan(graph, handle), pack = make(D(VARIANT_PACK));
    void *workspace = told_pointer((void *)(uintptr_t)(t->memory + TOLD_MEMORY - 256));
    int64_t tensors = (int64_t)(all.tensors < TENSORS ? all.tensors : TENSORS);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, tensors, all.ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, tensors,
        all.data);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
        (void *)&workspace);
    DONE(cudnnBackendFinalize(pack));
    DONE(cudnnBackendExecute(told(1) ? handle : NULL, told(1) ? plan : NULL,
                             told(1) ? pack : NULL));
    DONE(cuStreamSynchronize(t->stream));
}

void tell_graphs(const Told *t)
{
    cudnnHandle_t handle = NULL;
    Descriptor operations[2];
    char text[100];
    if (!DONE(cudnnCreate(&handle)))
        return;
    DONE(cudnnSetStream(told(1) ? handle : NULL, t->stream));
    int64_t count = 1 + told_choice(2);
    for (int64_t i = 0; i < count; i++)
        operations[i] =
            make_operation(t, &forms[told_choice(sizeof forms / sizeof *forms)]);
    Descriptor graph = make(D(OPERATIONGRAPH));
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, (void *)&handle);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
        (void *)operations);
    cudnnGetErrorString(cudnnBackendFinalize(graph));
    cudnnGetLastErrorString(text, sizeof text);
    execute(t, graph, handle);
    for (size_t i = 0; i < all.count; i++)
        cudnnBackendDestroyDescriptor(all.made[i]);
    memset(&all, 0, sizeof all);
    cudnnDestroy(handle);
}
