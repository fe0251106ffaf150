/* Nodes of cuDNN graphs, each computed by itself in the order of the graph. See dnn.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/dnn.h"
#include "runtime/emu/element.h"

int64_t dnn_elements(const DnnTensor *t)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        n *= t->dims[d];
    return n;
}

/* Tiles of 128 rows and 4 columns in each batch: see tiled_offset. */
static uint64_t tiled_bytes(const DnnTensor *t)
{
    uint32_t column = t->strides[t->rank - 1] == 1 ? t->rank - 1 : t->rank - 2;
    uint32_t row = column == t->rank - 1 ? t->rank - 2 : t->rank - 1;
    uint64_t tiles = (uint64_t)((t->dims[column] + 3) / 4 * ((t->dims[row] + 127) / 128));
    for (uint32_t d = 0; d + 2 < t->rank; d++)
        tiles *= (uint64_t)t->dims[d];
    return tiles * 512;
}

uint64_t dnn_bytes(const DnnTensor *t)
{
    int64_t last = 0;
    if (t->is_tiled)
        return tiled_bytes(t);
    for (uint32_t d = 0; d < t->rank; d++)
        last += (t->dims[d] - 1) * t->strides[d];
    return ((uint64_t)last + 1) * dtype_info[t->type].bits / 8 +
           (dtype_info[t->type].bits < 8 && last % 2 == 0);
}

const DnnTensor *dnn_tensor(const DnnRun *run, const DnnNode *n, int port)
{
    return n->ports[port] == DNN_NONE ? NULL : &run->program->tensors[n->ports[port]];
}

const double *dnn_input(const DnnRun *run, const DnnNode *n, int port)
{
    return n->ports[port] == DNN_NONE ? NULL : run->values[n->ports[port]];
}

double *dnn_output(const DnnRun *run, const DnnNode *n, int port)
{
    return n->ports[port] == DNN_NONE ? NULL : run->values[n->ports[port]];
}

/* -- memory ------------------------------------------------------------------------------- */

/* The next index of `dims`, the last one fastest. False after the last. */
static bool next_index(uint32_t rank, const int64_t *dims, int64_t *index)
{
    for (uint32_t d = rank; d-- > 0;) {
        if (++index[d] < dims[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static int64_t offset_of(uint32_t rank, const int64_t *index, const int64_t *strides)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < rank; d++)
        offset += index[d] * strides[d];
    return offset;
}

/* Where the scale at an index lies: rows of the last two dimensions but one in tiles of 128, columns in
 * tiles of 4. The dimension along which scales count is the one with stride 1. */
static int64_t tiled_offset(const DnnTensor *t, const int64_t *index)
{
    uint32_t column = t->strides[t->rank - 1] == 1 ? t->rank - 1 : t->rank - 2;
    uint32_t row = column == t->rank - 1 ? t->rank - 2 : t->rank - 1;
    int64_t columns = (t->dims[column] + 3) / 4, rows = (t->dims[row] + 127) / 128;
    int64_t batch = 0;
    for (uint32_t d = 0; d + 2 < t->rank; d++)
        batch = batch * t->dims[d] + index[d];
    int64_t r = index[row], c = index[column];
    int64_t tile = (batch * rows + r / 128) * columns + c / 4;
    return tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4;
}

static double load_element(const DnnTensor *t, const unsigned char *data, int64_t at)
{
    if (dtype_info[t->type].bits == 4) {
        unsigned char code = (unsigned char)(data[at / 2] >> at % 2 * 4 & 15);
        return element_get(t->type, &code);
    }
    return element_get(t->type, data + at * dtype_info[t->type].storage);
}

static void load(const DnnTensor *t, const unsigned char *data, double *out)
{
    int64_t index[DNN_RANK] = {0};
    do {
        int64_t at =
            t->is_tiled ? tiled_offset(t, index) : offset_of(t->rank, index, t->strides);
        *out++ = load_element(t, data, at);
    } while (next_index(t->rank, t->dims, index));
}

static void store(const DnnTensor *t, const double *values, unsigned char *data)
{
    int64_t index[DNN_RANK] = {0};
    do {
        int64_t at = offset_of(t->rank, index, t->strides);
        element_set(t->type, data + at * dtype_info[t->type].storage, *values++);
    } while (next_index(t->rank, t->dims, index));
}

static void round_to_type(const DnnTensor *t, double *values)
{
    unsigned char element[8];
    int64_t n = dnn_elements(t);
    for (int64_t i = 0; i < n && t->type != DT_F64; i++) {
        if (t->type == DT_F32) {
            values[i] = (double)(float)values[i];
            continue;
        }
        element_set(t->type, element, values[i]);
        values[i] = element_get(t->type, element);
    }
}

/* -- pointwise ----------------------------------------------------------------------------- */

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static bool pointwise_known(int mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_MIN:
    case CUDNN_POINTWISE_MAX:
    case CUDNN_POINTWISE_SQRT:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_NEG:
    case CUDNN_POINTWISE_RSQRT:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_RELU_FWD:
    case CUDNN_POINTWISE_TANH_FWD:
    case CUDNN_POINTWISE_SIGMOID_FWD:
    case CUDNN_POINTWISE_GELU_FWD:
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
    case CUDNN_POINTWISE_CMP_GT:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_GEN_INDEX:
    case CUDNN_POINTWISE_BINARY_SELECT:
        return true;
    default:
        return false;
    }
}

static bool takes_two(int mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_MIN:
    case CUDNN_POINTWISE_MAX:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_CMP_GT:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_BINARY_SELECT:
        return true;
    default:
        return false;
    }
}

static double apply_two(int mode, double x, double b)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_MIN:
        return fmin(x, b);
    case CUDNN_POINTWISE_MAX:
        return fmax(x, b);
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    default:
        return x;
    }
}

static double apply_one(int mode, double x)
{
    switch (mode) {
    case CUDNN_POINTWISE_SQRT:
        return sqrt(x);
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_NEG:
        return -x;
    case CUDNN_POINTWISE_RSQRT:
        return 1 / sqrt(x);
    case CUDNN_POINTWISE_RELU_FWD:
        return x > 0 ? x : 0; /* also of NaN */
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1 / (1 + exp(-x));
    case CUDNN_POINTWISE_GELU_FWD:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return gelu_tanh(x);
    default:
        return x;
    }
}

/* Row-major strides of t; 0 where it is broadcast. */
static void broadcast_strides(const DnnTensor *t, int64_t *out)
{
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        out[d] = t->dims[d] == 1 ? 0 : stride;
        stride *= t->dims[d];
    }
}

static bool compute_pointwise(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *y = dnn_tensor(run, n, DNN_Y);
    static const int ports[3] = {DNN_X, DNN_B, DNN_T};
    const double *in[3];
    int64_t strides[3][DNN_RANK] = {{0}}, index[DNN_RANK] = {0};
    double *out = dnn_output(run, n, DNN_Y);
    for (int i = 0; i < 3; i++) {
        in[i] = dnn_input(run, n, ports[i]);
        if (in[i] != NULL)
            broadcast_strides(dnn_tensor(run, n, ports[i]), strides[i]);
    }
    do {
        if (n->mode == CUDNN_POINTWISE_GEN_INDEX) {
            *out++ = (double)index[n->axis];
            continue;
        }
        double x = in[0][offset_of(y->rank, index, strides[0])];
        double b = in[1] != NULL ? in[1][offset_of(y->rank, index, strides[1])] : 0;
        if (n->mode == CUDNN_POINTWISE_BINARY_SELECT)
            *out++ = in[2][offset_of(y->rank, index, strides[2])] != 0 ? x : b;
        else
            *out++ =
                takes_two(n->mode) ? apply_two(n->mode, x, b) : apply_one(n->mode, x);
    } while (next_index(y->rank, y->dims, index));
    return true;
}

/* -- products, sums, moves ------------------------------------------------------------------ */

static void round_factors(const DnnRun *run, const DnnTensor *t, double *x, int64_t n)
{
    for (int64_t i = 0; run->program->rounds_tf32 && t->type == DT_F32 && i < n; i++)
        x[i] = (double)element_round_tf32((float)x[i]);
}

/* c[rows][columns] = a b, a row of b at a time. */
static void multiply(const double *a, const double *b, double *c, int64_t rows, int64_t k,
                     int64_t columns)
{
    memset(c, 0, (size_t)(rows * columns) * sizeof *c);
    for (int64_t r = 0; r < rows; r++, c += columns)
        for (int64_t i = 0; i < k; i++) {
            double factor = *a++;
            for (int64_t j = 0; j < columns; j++)
                c[j] += factor * b[i * columns + j];
        }
}

/* Dimensions before the last two: those of b may divide those of c, then several neighbours share
 * one. */
static int64_t shared_batch(const DnnTensor *b, const DnnTensor *c, const int64_t *index)
{
    int64_t batch = 0;
    for (uint32_t d = 0; d + 2 < c->rank; d++)
        batch = batch * b->dims[d] + index[d] / (c->dims[d] / b->dims[d]);
    return batch;
}

static double *copy_rounded(const DnnRun *run, const DnnNode *n, int port)
{
    const DnnTensor *t = dnn_tensor(run, n, port);
    int64_t count = dnn_elements(t);
    double *copy = malloc((size_t)count * sizeof *copy);
    if (copy == NULL)
        return NULL;
    memcpy(copy, dnn_input(run, n, port), (size_t)count * sizeof *copy);
    round_factors(run, t, copy, count);
    return copy;
}

static bool compute_matmul(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *a = dnn_tensor(run, n, DNN_X), *b = dnn_tensor(run, n, DNN_B);
    const DnnTensor *c = dnn_tensor(run, n, DNN_Y);
    double *left = copy_rounded(run, n, DNN_X), *right = copy_rounded(run, n, DNN_B);
    double *out = dnn_output(run, n, DNN_Y);
    int64_t index[DNN_RANK] = {0}, rows = c->dims[c->rank - 2],
            columns = c->dims[c->rank - 1];
    int64_t k = a->dims[a->rank - 1];
    bool ok = left != NULL && right != NULL;
    if (ok)
        do {
            multiply(left + shared_batch(a, c, index) * rows * k,
                     right + shared_batch(b, c, index) * k * columns, out, rows, k,
                     columns);
            out += rows * columns;
        } while (next_index(c->rank - 2, c->dims, index));
    free(left);
    free(right);
    return ok;
}

/* Neighbours of x along a dimension come together where y has fewer. */
static bool compute_reduction(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *x = dnn_tensor(run, n, DNN_X), *y = dnn_tensor(run, n, DNN_Y);
    const double *in = dnn_input(run, n, DNN_X);
    double *out = dnn_output(run, n, DNN_Y);
    bool is_max = n->mode == CUDNN_REDUCE_TENSOR_MAX;
    int64_t count = dnn_elements(y), index[DNN_RANK] = {0};
    for (int64_t i = 0; i < count; i++)
        out[i] = is_max ? -INFINITY : 0;
    do {
        int64_t at = 0;
        for (uint32_t d = 0; d < x->rank; d++)
            at = at * y->dims[d] + index[d] / (x->dims[d] / y->dims[d]);
        double value = *in++;
        out[at] = is_max ? fmax(out[at], value) : out[at] + value;
    } while (next_index(x->rank, x->dims, index));
    return true;
}

/* The same memory by other sizes and strides. */
static bool compute_reshape(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *x = dnn_tensor(run, n, DNN_X), *y = dnn_tensor(run, n, DNN_Y);
    const double *in = dnn_input(run, n, DNN_X);
    double *out = dnn_output(run, n, DNN_Y);
    uint64_t elements = dnn_bytes(x) * 8 / dtype_info[x->type].bits;
    double *memory = calloc(elements, sizeof *memory);
    int64_t index[DNN_RANK] = {0};
    if (memory == NULL)
        return false;
    do
        memory[offset_of(x->rank, index, x->strides)] = *in++;
    while (next_index(x->rank, x->dims, index));
    do {
        int64_t at = offset_of(y->rank, index, y->strides);
        *out++ = (uint64_t)at < elements ? memory[at] : 0;
    } while (next_index(y->rank, y->dims, index));
    free(memory);
    return true;
}

/* One scale for a block of elements along each dimension that has more of them. */
static bool compute_dequantize(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *x = dnn_tensor(run, n, DNN_X), *s = dnn_tensor(run, n, DNN_SCALE);
    const double *in = dnn_input(run, n, DNN_X), *scales = dnn_input(run, n, DNN_SCALE);
    double *out = dnn_output(run, n, DNN_Y);
    int64_t index[DNN_RANK] = {0};
    do {
        int64_t at = 0;
        for (uint32_t d = 0; d < x->rank; d++) {
            int64_t i = s->dims[d] < x->dims[d] ? index[d] / n->block : index[d];
            at = at * s->dims[d] + i;
        }
        *out++ = *in++ * scales[at];
    } while (next_index(x->rank, x->dims, index));
    return true;
}

/* -- what can be computed ------------------------------------------------------------------- */

static bool same_dims(const DnnTensor *a, const DnnTensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* Each size of `small` divides that of `large`; broadcast: or is 1. */
static bool divides(const DnnTensor *small, const DnnTensor *large, uint32_t rank)
{
    bool fits = small->rank == large->rank;
    for (uint32_t d = 0; fits && d < rank; d++)
        fits = large->dims[d] % small->dims[d] == 0;
    return fits;
}

static bool is_broadcast(const DnnTensor *small, const DnnTensor *large)
{
    bool fits = small->rank == large->rank;
    for (uint32_t d = 0; fits && d < large->rank; d++)
        fits = small->dims[d] == 1 || small->dims[d] == large->dims[d];
    return fits;
}

static const char *check_pointwise(const DnnNode *n, const DnnTensor *x,
                                   const DnnTensor *b, const DnnTensor *t,
                                   const DnnTensor *y)
{
    if (!pointwise_known(n->mode))
        return "the emulator does not have this pointwise mode";
    if (x == NULL || !is_broadcast(x, y) || (b != NULL) != takes_two(n->mode) ||
        (b != NULL && !is_broadcast(b, y)) ||
        (t != NULL) != (n->mode == CUDNN_POINTWISE_BINARY_SELECT) ||
        (t != NULL && !is_broadcast(t, y)))
        return "the operands of a pointwise operation do not fit its result";
    if (n->mode == CUDNN_POINTWISE_GEN_INDEX && (n->axis < 0 || n->axis >= y->rank))
        return "an index along a dimension that is not there";
    return NULL;
}

/* As many positions as the library documents: y's size follows from the others. */
static bool positions_fit(const DnnNode *n, uint32_t d, int64_t x, int64_t w, int64_t y)
{
    if (n->stride[d] < 1 || n->stride[d] > INT32_MAX || n->dilation[d] < 1 ||
        n->dilation[d] > INT32_MAX || n->before[d] < 0 || n->before[d] > INT32_MAX ||
        n->behind[d] < 0 || n->behind[d] > INT32_MAX)
        return false;
    int64_t span = x + n->before[d] + n->behind[d] - (w - 1) * n->dilation[d];
    return span >= 1 && (span - 1) / n->stride[d] + 1 == y;
}

static const char *check_convolution(const DnnNode *n, const DnnTensor *x,
                                     const DnnTensor *w, const DnnTensor *y)
{
    bool fits = w != NULL && x->rank >= 3 && x->rank == w->rank && x->rank == y->rank &&
                n->spatial == x->rank - 2 && x->dims[0] == y->dims[0] &&
                y->dims[1] == w->dims[0] && x->dims[1] % w->dims[1] == 0 &&
                w->dims[0] % (x->dims[1] / w->dims[1]) == 0;
    for (uint32_t d = 0; fits && d < n->spatial; d++)
        fits = positions_fit(n, d, x->dims[d + 2], w->dims[d + 2], y->dims[d + 2]);
    return fits ? NULL : "the sizes of a convolution do not fit each other";
}

static const char *check_norm(const DnnNode *n, const DnnTensor *const *t)
{
    int64_t rows = 0, columns = 0;
    bool is_gradient = n->kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
    bool fits = t[DNN_SCALE] != NULL && t[DNN_T] != NULL &&
                same_dims(t[DNN_X], t[DNN_Y]) && is_broadcast(t[DNN_SCALE], t[DNN_X]) &&
                dnn_norm_split(t[DNN_X], t[DNN_SCALE], &rows, &columns) &&
                (n->mode == CUDNN_LAYER_NORM || n->mode == CUDNN_RMS_NORM);
    fits = fits && (is_gradient ? t[DNN_DEVIATION] != NULL && t[DNN_B] != NULL &&
                                      same_dims(t[DNN_X], t[DNN_T]) &&
                                      dnn_elements(t[DNN_B]) == columns
                                : dnn_elements(t[DNN_T]) == 1);
    for (int port = DNN_MEAN; fits && port <= DNN_DEVIATION; port++)
        fits = t[port] == NULL || dnn_elements(t[port]) == rows;
    fits = fits && (t[DNN_BIAS] == NULL || dnn_elements(t[DNN_BIAS]) == columns);
    return fits ? NULL : "the tensors of a norm do not fit each other";
}

static bool scales_fit(const DnnTensor *x, const DnnTensor *scales, int64_t block)
{
    bool fits = block >= 1 && scales->rank == x->rank;
    for (uint32_t d = 0; fits && d < x->rank; d++)
        fits =
            scales->dims[d] >= x->dims[d] || scales->dims[d] > (x->dims[d] - 1) / block;
    return fits;
}

static const char *check_node(const DnnProgram *p, const DnnNode *n)
{
    const DnnTensor *t[DNN_PORTS];
    for (int i = 0; i < DNN_PORTS; i++)
        t[i] = n->ports[i] == DNN_NONE ? NULL : &p->tensors[n->ports[i]];
    const DnnTensor *x = t[DNN_X], *y = t[DNN_Y], *b = t[DNN_B];
    if (x == NULL || y == NULL)
        return "an operation lacks its tensors";
    switch (n->kind) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return check_pointwise(n, x, b, t[DNN_T], y);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return check_convolution(n, x, b, y);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
        uint32_t r = y->rank;
        bool fits = b != NULL && r >= 2 && x->rank == r && b->rank == r &&
                    divides(x, y, r - 2) && divides(b, y, r - 2) &&
                    x->dims[r - 2] == y->dims[r - 2] &&
                    b->dims[r - 1] == y->dims[r - 1] && x->dims[r - 1] == b->dims[r - 2];
        return fits ? NULL : "the sizes of a product do not fit each other";
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        if (n->mode != CUDNN_REDUCE_TENSOR_ADD && n->mode != CUDNN_REDUCE_TENSOR_MAX)
            return "the emulator does not have this reduction";
        return divides(y, x, x->rank) ? NULL : "the sizes of a reduction do not fit";
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        if (x->is_tiled || y->is_tiled) /* its strides do not say where an element lies */
            return "a reshape of what lies in tiles";
        return dnn_elements(x) == dnn_elements(y) ? NULL : "a reshape to another size";
    case CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR:
        return t[DNN_SCALE] != NULL && same_dims(x, y) &&
                       scales_fit(x, t[DNN_SCALE], n->block)
                   ? NULL
                   : "the scales of blocks do not fit what they scale";
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return check_norm(n, t);
    default:
        return "the emulator does not have this operation";
    }
}

static bool is_output(const DnnNode *n, int port)
{
    if (n->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return port == DNN_X;
    if (n->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
        return port == DNN_W;
    if (n->kind == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
        return port == DNN_Y || port == DNN_MEAN || port == DNN_DEVIATION;
    if (n->kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        return port == DNN_Y || port == DNN_B || port == DNN_BIAS;
    return port == DNN_Y;
}

/* What a node reads is there: given by the caller, or made by a node before it. */
static const char *check_uses(const DnnProgram *p, const DnnNode *n, bool *is_made)
{
    for (int port = 0; port < DNN_PORTS; port++) {
        const DnnTensor *t =
            n->ports[port] == DNN_NONE ? NULL : &p->tensors[n->ports[port]];
        if (t == NULL)
            continue;
        if (!is_output(n, port)) {
            if ((t->is_virtual || t->is_written) && !is_made[n->ports[port]])
                return "an operation reads a tensor that no operation before it makes";
        } else if (t->is_scalar || t->is_tiled || dtype_info[t->type].bits < 8) {
            return "the emulator makes no tensors that are passed by value, in tiles, or "
                   "of types below 8 bits";
        }
    }
    for (int port = 0; port < DNN_PORTS; port++)
        if (n->ports[port] != DNN_NONE && is_output(n, port))
            is_made[n->ports[port]] = true;
    return NULL;
}

bool dnn_check(const DnnProgram *p, const char **out_why)
{
    bool is_made[DNN_TENSORS] = {false};
    *out_why = NULL;
    for (uint32_t i = 0; i < p->node_count && *out_why == NULL; i++) {
        *out_why = check_node(p, &p->nodes[i]);
        if (*out_why == NULL)
            *out_why = check_uses(p, &p->nodes[i], is_made);
    }
    return *out_why == NULL;
}

/* -- the walk ------------------------------------------------------------------------------- */

static DnnCompute *compute_of(cudnnBackendDescriptorType_t kind)
{
    switch (kind) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return compute_pointwise;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return compute_matmul;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return compute_reduction;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return compute_reshape;
    case CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR:
        return compute_dequantize;
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return dnn_norm;
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return dnn_norm_gradient;
    default:
        return dnn_convolution;
    }
}

/* Room for what the node makes; values of what it reads. */
static bool prepare(DnnRun *run, const DnnNode *n)
{
    for (int port = 0; port < DNN_PORTS; port++) {
        int32_t i = n->ports[port];
        if (i == DNN_NONE || run->values[i] != NULL)
            continue;
        const DnnTensor *t = &run->program->tensors[i];
        run->values[i] = malloc((size_t)dnn_elements(t) * sizeof(double));
        if (run->values[i] == NULL)
            return false;
        if (!t->is_virtual && !t->is_written)
            load(t, run->data[i], run->values[i]);
    }
    return true;
}

void dnn_mark_uses(DnnProgram *p)
{
    for (uint32_t i = 0; i < p->node_count; i++)
        for (int port = 0; port < DNN_PORTS; port++) {
            const DnnNode *n = &p->nodes[i];
            if (n->ports[port] == DNN_NONE)
                continue;
            DnnTensor *t = &p->tensors[n->ports[port]];
            t->is_written |= is_output(n, port);
            t->is_read |= !is_output(n, port);
        }
}

static void finish(DnnRun *run, const DnnNode *n)
{
    for (int port = 0; port < DNN_PORTS; port++) {
        int32_t i = n->ports[port];
        if (i == DNN_NONE || !is_output(n, port))
            continue;
        const DnnTensor *t = &run->program->tensors[i];
        round_to_type(t, run->values[i]);
        if (!t->is_virtual)
            store(t, run->values[i], run->data[i]);
    }
}

bool dnn_compute(DnnRun *run)
{
    const DnnProgram *p = run->program;
    bool ok = true;
    for (uint32_t i = 0; i < p->node_count && ok; i++) {
        const DnnNode *n = &p->nodes[i];
        ok = prepare(run, n) && compute_of(n->kind)(run, n);
        if (ok)
            finish(run, n);
    }
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        free(run->values[i]);
        run->values[i] = NULL; /* a graph of the driver runs it again */
    }
    return ok;
}
