/* convolution: for each group and each image, the elements under the kernel are laid out as
 * the rows of a matrix, which is multiplied by the kernel. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/gemm.h"
#include "ir/eval/strided.h"
#include "ir/eval/window.h"
#include "ir/infer/infer.h"

/* A dimension number is counted among all dimensions; strides are those of the row-major
 * arrays. */
typedef struct Conv {
    const DimLabels *labels;
    uint32_t spatial;
    const WindowDim *window;
    DType type;             /* accumulated in */
    const char *x, *kernel; /* in that type */
    const Shape *x_shape, *kernel_shape, *out_shape;
    int64_t x_strides[EVAL_RANK_MAX], kernel_strides[EVAL_RANK_MAX],
        out_strides[EVAL_RANK_MAX];
    int64_t positions[EVAL_RANK_MAX], position_count; /* of the kernel */
    int64_t outs[EVAL_RANK_MAX], out_count;           /* spatial sizes of the result */
    int64_t in_features, out_features;                /* of one group */
    char *patches, *weights, *sums; /* [out_count, positions * in], [.., out], [..] */
} Conv;

static void make_patches(Conv *c, int64_t image, int64_t feature)
{
    size_t size = dtype_info[c->type].storage;
    int64_t columns = c->position_count * c->in_features;
    memset(c->patches, 0, (size_t)(c->out_count * columns) * size);
    int64_t position[EVAL_RANK_MAX] = {0}, number = 0, dense[EVAL_RANK_MAX];
    strides_row_major(c->spatial, c->outs, dense);
    do {
        int64_t dims[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
        int64_t in = image * c->x_strides[c->labels->lhs_batch] +
                     feature * c->x_strides[c->labels->lhs_feature];
        int64_t out = number++ * c->in_features;
        bool any = true;
        for (uint32_t d = 0; d < c->spatial; d++) {
            int64_t own = c->labels->lhs_spatial[d];
            WindowRange r = window_range(&c->window[d], c->x_shape->dims[own], c->outs[d],
                                         position[d]);
            any = any && r.count > 0;
            dims[d] = r.count;
            in += r.in_first * c->x_strides[own];
            from[d] = r.in_step * c->x_strides[own];
            out += r.first * dense[d] * columns;
            to[d] = r.step * dense[d] * columns;
        }
        dims[c->spatial] = c->in_features;
        from[c->spatial] = c->x_strides[c->labels->lhs_feature];
        to[c->spatial] = 1;
        if (any)
            strided_copy(size, c->spatial + 1, dims, c->patches + out * (int64_t)size, to,
                         c->x + in * (int64_t)size, from);
    } while (index_next(c->spatial, c->positions, position));
}

/* [positions][in features][out features] of one group. */
static void make_weights(Conv *c, int64_t feature)
{
    size_t size = dtype_info[c->type].storage;
    int64_t dims[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    int64_t in = feature * c->kernel_strides[c->labels->rhs_output];
    for (uint32_t d = 0; d < c->spatial; d++) {
        int64_t own = c->labels->rhs_spatial[d];
        dims[d] = c->positions[d];
        from[d] = c->kernel_strides[own];
        if (c->window[d].reversal) {
            in += (c->positions[d] - 1) * from[d];
            from[d] = -from[d];
        }
    }
    dims[c->spatial] = c->in_features;
    from[c->spatial] = c->kernel_strides[c->labels->rhs_input];
    dims[c->spatial + 1] = c->out_features;
    from[c->spatial + 1] = c->kernel_strides[c->labels->rhs_output];
    strides_row_major(c->spatial + 2, dims, to);
    strided_copy(size, c->spatial + 2, dims, c->weights, to,
                 c->kernel + in * (int64_t)size, from);
}

static void store(const Conv *c, Value *v, const void *row, int64_t image,
                  int64_t feature)
{
    int64_t dims[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    size_t size = value_element_bytes(v);
    int64_t out = image * c->out_strides[c->labels->out_batch] +
                  feature * c->out_strides[c->labels->out_feature];
    for (uint32_t d = 0; d < c->spatial; d++) {
        dims[d] = c->outs[d];
        to[d] = c->out_strides[c->labels->out_spatial[d]];
    }
    dims[c->spatial] = c->out_features;
    to[c->spatial] = c->out_strides[c->labels->out_feature];
    strides_row_major(c->spatial + 1, dims, from);
    strided_copy(size, c->spatial + 1, dims, (char *)v->data + out * (int64_t)size, to,
                 row, from);
}

static void conv_make(EvalCall *call, Conv *c, const Value *v)
{
    const Value *x = call->operands[0], *kernel = call->operands[1];
    const Window *w = inst_window(call->inst);
    c->labels = inst_attr(call->inst, ATTR_DIM_LABELS)->labels;
    c->spatial = c->labels->spatial_rank;
    if (x->shape->rank > EVAL_RANK_MAX - 2)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX - 2);
    if (x->shape->rank != c->spatial + 2 || w->rank != c->spatial)
        eval_unsupported(call, "operands with dimensions that have no label");
    c->window = w->dims;
    c->type = gemm_type(x->shape->dtype, kernel->shape->dtype, v->shape->dtype);
    c->x = eval_data_as(call, x, c->type);
    c->kernel = eval_data_as(call, kernel, c->type);
    c->x_shape = x->shape;
    c->kernel_shape = kernel->shape;
    c->out_shape = v->shape;
    strides_row_major(x->shape->rank, x->shape->dims, c->x_strides);
    strides_row_major(kernel->shape->rank, kernel->shape->dims, c->kernel_strides);
    strides_row_major(v->shape->rank, v->shape->dims, c->out_strides);
    c->position_count = c->out_count = 1;
    for (uint32_t d = 0; d < c->spatial; d++) {
        c->positions[d] = kernel->shape->dims[c->labels->rhs_spatial[d]];
        c->outs[d] = v->shape->dims[c->labels->out_spatial[d]];
        c->position_count *= c->positions[d];
        c->out_count *= c->outs[d];
    }
    c->in_features = kernel->shape->dims[c->labels->rhs_input];
}

void eval_convolution(EvalCall *call)
{
    if (infer_is_compressed(call->inst))
        eval_unsupported(call, "structured sparsity");
    if (infer_is_gradient(call->inst))
        eval_unsupported(call, "a gradient (convolution_kind)");
    Value *v = eval_result(call);
    Conv *c = ARENA_NEW(call->scratch, Conv);
    conv_make(call, c, v);
    int64_t feature_groups = inst_int(call->inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batch_groups = inst_int(call->inst, ATTR_BATCH_GROUP_COUNT, 1);
    int64_t groups = feature_groups * batch_groups;
    int64_t images = v->shape->dims[c->labels->out_batch];
    c->out_features = v->shape->dims[c->labels->out_feature] / groups;
    size_t size = dtype_info[c->type].storage;
    int64_t depth = c->position_count * c->in_features;
    size_t results = (size_t)(c->out_count * c->out_features);
    c->patches = eval_temp(call, (size_t)(c->out_count * depth), size);
    c->weights = eval_temp(call, (size_t)(depth * c->out_features), size);
    c->sums = eval_temp(call, results, size);
    char *row = eval_temp(call, results, value_element_bytes(v));
    if (v->count == 0)
        return;
    for (int64_t g = 0; g < groups; g++) {
        if (depth != 0)
            make_weights(c, g * c->out_features);
        for (int64_t i = 0; i < images; i++) {
            struct Temp *mark = value_heap_mark(&call->eval->heap);
            int64_t image = batch_groups > 1 ? g * images + i : i;
            if (depth != 0)
                make_patches(c, image, feature_groups > 1 ? g * c->in_features : 0);
            memset(c->sums, 0, results * size);
            gemm(call, c->type, c->out_count, c->out_features, depth, c->patches,
                 c->weights, c->sums);
            number_convert(v->shape->dtype, row, c->type, c->sums, results);
            store(c, v, row, i, g * c->out_features);
            value_heap_release(&call->eval->heap, mark);
        }
    }
}
