/* Shape rules of contractions: dot, ragged-dot, scaled-dot, convolution (9.1, 9.3, 9.9). */
#include "ir/infer/rules.h"

typedef struct DotDims {
    Ints lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
} DotDims;

static DotDims dot_dims(const Instruction *inst)
{
    return (DotDims){
        inst_ints(inst, ATTR_LHS_BATCH_DIMS), inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS),
        inst_ints(inst, ATTR_RHS_BATCH_DIMS), inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS)};
}

/* Batch and contracting dimensions of one side: in range, none twice. */
static bool want_side(InferContext *cx, const Instruction *inst, bool is_lhs, Ints batch,
                      Ints contracting, const Shape *s)
{
    if (!infer_want_dims(cx, inst, is_lhs ? "lhs_batch_dims" : "rhs_batch_dims", batch,
                         s->rank, false) ||
        !infer_want_dims(cx, inst,
                         is_lhs ? "lhs_contracting_dims" : "rhs_contracting_dims",
                         contracting, s->rank, false))
        return false;
    for (uint32_t i = 0; i < batch.count; i++)
        if (ints_contain(contracting, batch.data[i])) {
            infer_error(
                cx, inst, "dimension %lld of %s, %s, is batch and contracting dimension",
                (long long)batch.data[i], is_lhs ? "lhs" : "rhs", infer_text(cx, s));
            return false;
        }
    return true;
}

static bool want_pairs(InferContext *cx, const Instruction *inst, const char *what,
                       Ints lhs, Ints rhs, const Shape *a, const Shape *b)
{
    if (lhs.count != rhs.count) {
        infer_error(cx, inst, "lhs_%s=%s and rhs_%s=%s must have equally many entries",
                    what, infer_ints_text(cx, lhs), what, infer_ints_text(cx, rhs));
        return false;
    }
    for (uint32_t i = 0; i < lhs.count; i++)
        if (!infer_same_size(a->dims[lhs.data[i]], b->dims[rhs.data[i]])) {
            infer_error(
                cx, inst,
                "%s: dimension %lld of lhs, %s, and dimension %lld of rhs, %s, must "
                "have equal sizes",
                what, (long long)lhs.data[i], infer_text(cx, a), (long long)rhs.data[i],
                infer_text(cx, b));
            return false;
        }
    return true;
}

static bool want_dot(InferContext *cx, const Instruction *inst, DotDims d)
{
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    return want_side(cx, inst, true, d.lhs_batch, d.lhs_contracting, a) &&
           want_side(cx, inst, false, d.rhs_batch, d.rhs_contracting, b) &&
           want_pairs(cx, inst, "batch_dims", d.lhs_batch, d.rhs_batch, a, b) &&
           want_pairs(cx, inst, "contracting_dims", d.lhs_contracting, d.rhs_contracting,
                      a, b);
}

/* Declared element type, or the higher precision of both. */
static DType product_type(const Instruction *inst, DType a, DType b)
{
    if (inst->shape && shape_is_array(inst->shape))
        return inst->shape->dtype;
    return infer_binary_dtype(a, b);
}

static const Shape *dot_shape(InferContext *cx, const Instruction *inst, DotDims d)
{
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    int64_t stack[INFER_STACK];
    uint32_t rank = 0;
    int64_t *dims = infer_dims_array(cx, stack, a->rank + b->rank);
    bool *dynamic =
        a->dynamic || b->dynamic ? ARENA_ARRAY(cx->arena, bool, a->rank + b->rank) : NULL;
    for (uint32_t i = 0; i < d.lhs_batch.count; i++) {
        if (dynamic && a->dynamic)
            dynamic[rank] = a->dynamic[d.lhs_batch.data[i]];
        dims[rank++] = a->dims[d.lhs_batch.data[i]];
    }
    for (uint32_t i = 0; i < a->rank; i++)
        if (!ints_contain(d.lhs_batch, i) && !ints_contain(d.lhs_contracting, i)) {
            if (dynamic && a->dynamic)
                dynamic[rank] = a->dynamic[i];
            dims[rank++] = a->dims[i];
        }
    for (uint32_t i = 0; i < b->rank; i++)
        if (!ints_contain(d.rhs_batch, i) && !ints_contain(d.rhs_contracting, i)) {
            if (dynamic && b->dynamic)
                dynamic[rank] = b->dynamic[i];
            dims[rank++] = b->dims[i];
        }
    return infer_array(cx, inst, product_type(inst, a->dtype, b->dtype), rank, dims,
                       dynamic);
}

const Shape *infer_dot(InferContext *cx, const Instruction *inst)
{
    if (inst->operand_count != 2)
        return infer_error(cx, inst, "expects 2 operands, but has %u operands",
                           inst->operand_count);
    DotDims d = dot_dims(inst);
    if (!infer_want_arrays(cx, inst, 0, 2) || !want_dot(cx, inst, d))
        return NULL;
    return dot_shape(cx, inst, d);
}

/* A scale divides its operand dimension by dimension; a scalar of bf16 is none. */
static bool want_scale(InferContext *cx, const Instruction *inst, uint32_t i)
{
    const Shape *s = operand(inst, i), *scale = operand(inst, i + 2);
    if (scale->rank == 0 && s->rank != 0 && scale->dtype != DT_BF16) {
        infer_error(cx, inst,
                    "operand %u without a scale needs bf16[] in its place, found %s", i,
                    infer_text(cx, scale));
        return false;
    }
    if (scale->rank == 0)
        return true;
    bool fits = scale->rank == s->rank;
    for (uint32_t k = 0; fits && k < s->rank; k++)
        fits = scale->dims[k] > 0 ? s->dims[k] % scale->dims[k] == 0 : s->dims[k] == 0;
    if (!fits)
        infer_error(cx, inst, "scale %s does not divide operand %u, %s",
                    infer_text(cx, scale), i, infer_text(cx, s));
    return fits;
}

const Shape *infer_scaled_dot(InferContext *cx, const Instruction *inst)
{
    DotDims d = dot_dims(inst);
    if (!infer_want_arrays(cx, inst, 0, 4) || !want_dot(cx, inst, d) ||
        !want_scale(cx, inst, 0) || !want_scale(cx, inst, 1))
        return NULL;
    if (operand(inst, 2)->rank == 0 && operand(inst, 3)->rank == 0)
        return infer_error(cx, inst, "neither operand is scaled, found scales %s and %s",
                           infer_text(cx, operand(inst, 2)),
                           infer_text(cx, operand(inst, 3)));
    if (d.lhs_contracting.count != 1)
        return infer_error(cx, inst, "expects one contracting dimension, but has %s",
                           infer_ints_text(cx, d.lhs_contracting));
    return dot_shape(cx, inst, d);
}

/* The dimensions of lhs that the sizes of groups may depend on: batch dimensions, then those of
 * the ragged one's kind, as far as they come before it. */
static Ints group_prefix(InferContext *cx, DotDims d, int64_t ragged, uint32_t rank)
{
    int64_t *dims = ARENA_ARRAY(cx->arena, int64_t, rank);
    uint32_t n = 0;
    for (uint32_t i = 0; i < d.lhs_batch.count && d.lhs_batch.data[i] != ragged; i++)
        dims[n++] = d.lhs_batch.data[i];
    bool contracting = ints_contain(d.lhs_contracting, ragged);
    for (uint32_t i = 0; contracting && d.lhs_contracting.data[i] != ragged; i++)
        dims[n++] = d.lhs_contracting.data[i];
    bool free = !contracting && !ints_contain(d.lhs_batch, ragged);
    for (int64_t i = 0; free && i < ragged; i++)
        if (!ints_contain(d.lhs_batch, i) && !ints_contain(d.lhs_contracting, i))
            dims[n++] = i;
    return (Ints){.data = dims, .count = n};
}

/* The sizes of groups: [g], or with the dimensions before the ragged one, [prefix..., g]. */
static int64_t group_count(InferContext *cx, const Instruction *inst, DotDims d,
                           int64_t ragged)
{
    const Shape *a = operand(inst, 0), *sizes = operand(inst, 2);
    if (!dtype_is_integer(sizes->dtype) || sizes->rank == 0) {
        infer_error(cx, inst,
                    "group sizes must be integral and of rank 1 at least, but are %s",
                    infer_text(cx, sizes));
        return -1;
    }
    Ints prefix = group_prefix(cx, d, ragged, a->rank);
    bool fits = sizes->rank == 1 || sizes->rank == prefix.count + 1;
    for (uint32_t i = 0; fits && i + 1 < sizes->rank; i++)
        fits = infer_same_size(sizes->dims[i], a->dims[prefix.data[i]]);
    if (!fits) {
        infer_error(cx, inst,
                    "group sizes must have one dimension, or those of dimensions %s of "
                    "lhs, %s, before it, but are %s",
                    infer_ints_text(cx, prefix), infer_text(cx, a),
                    infer_text(cx, sizes));
        return -1;
    }
    return sizes->dims[sizes->rank - 1];
}

const Shape *infer_ragged_dot(InferContext *cx, const Instruction *inst)
{
    DotDims d = dot_dims(inst);
    Ints ragged = inst_ints(inst, ATTR_LHS_RAGGED_DIMS);
    Ints group = inst_ints(inst, ATTR_RHS_GROUP_DIMS);
    if (!infer_want_arrays(cx, inst, 0, 3) || !want_dot(cx, inst, d))
        return NULL;
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    if (ragged.count != 1)
        return infer_error(cx, inst, "expects exactly one ragged dimension, but has %s",
                           infer_ints_text(cx, ragged));
    if (!infer_want_dims(cx, inst, "lhs_ragged_dims", ragged, a->rank, false) ||
        !infer_want_dims(cx, inst, "rhs_group_dims", group, b->rank, false))
        return NULL;
    for (uint32_t i = 0; i < group.count; i++)
        if (ints_contain(d.rhs_batch, group.data[i]) ||
            ints_contain(d.rhs_contracting, group.data[i]))
            return infer_error(cx, inst,
                               "group dimension %lld is batch or contracting dimension",
                               (long long)group.data[i]);
    int64_t groups = group_count(cx, inst, d, ragged.data[0]);
    if (groups == -1)
        return NULL;
    bool contracting = ints_contain(d.lhs_contracting, ragged.data[0]);
    bool free = !contracting && !ints_contain(d.lhs_batch, ragged.data[0]);
    if (group.count != (free ? 1u : 0u))
        return infer_error(cx, inst, "rhs_group_dims=%s must have %s entry",
                           infer_ints_text(cx, group), free ? "one" : "no");
    if (free && !infer_same_size(b->dims[group.data[0]], groups))
        return infer_error(
            cx, inst,
            "the group dimension of rhs, %s, must have the size of the group "
            "sizes, %s",
            infer_text(cx, b), infer_text(cx, operand(inst, 2)));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, a->rank + b->rank + 1);
    uint32_t rank = 0;
    if (contracting)
        dims[rank++] = groups;
    for (uint32_t i = 0; i < d.lhs_batch.count; i++)
        dims[rank++] = a->dims[d.lhs_batch.data[i]];
    for (uint32_t i = 0; i < a->rank; i++)
        if (!ints_contain(d.lhs_batch, i) && !ints_contain(d.lhs_contracting, i))
            dims[rank++] = a->dims[i];
    for (uint32_t i = 0; i < b->rank; i++)
        if (!ints_contain(d.rhs_batch, i) && !ints_contain(d.rhs_contracting, i) &&
            !ints_contain(group, i))
            dims[rank++] = b->dims[i];
    return infer_array(cx, inst, product_type(inst, a->dtype, b->dtype), rank, dims,
                       NULL);
}

/* The dimensions named by a part of dim_labels are a permutation of 0 .. rank - 1. */
static bool want_labels(InferContext *cx, const Instruction *inst, const char *part,
                        int64_t first, int64_t second, const int64_t *spatial,
                        uint32_t count)
{
    int64_t *all = ARENA_ARRAY(cx->arena, int64_t, count + 2);
    all[0] = first;
    all[1] = second;
    for (uint32_t i = 0; i < count; i++)
        all[i + 2] = spatial[i];
    return infer_want_dims(cx, inst, part, (Ints){.data = all, .count = count + 2},
                           count + 2, false);
}

static const Shape *wrong_features(InferContext *cx, const Instruction *inst,
                                   const char *what)
{
    return infer_error(
        cx, inst, "%s: lhs %s, rhs %s, feature_group_count=%lld, batch_group_count=%lld",
        what, infer_text(cx, operand(inst, 0)), infer_text(cx, operand(inst, 1)),
        (long long)inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1),
        (long long)inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1));
}

static bool want_convolution(InferContext *cx, const Instruction *inst,
                             const DimLabels *l)
{
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    const Window *w = inst_window(inst);
    uint32_t spatial = l->spatial_rank, window_rank = w ? w->rank : 0;
    if (a->rank != spatial + 2 || b->rank != spatial + 2 || window_rank != spatial) {
        infer_error(
            cx, inst,
            "dim_labels have %u spatial dimensions, the window %u, but lhs is %s and "
            "rhs is %s",
            spatial, window_rank, infer_text(cx, a), infer_text(cx, b));
        return false;
    }
    int64_t features = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batches = inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1);
    if (features < 1 || batches < 1 || (features > 1 && batches > 1)) {
        wrong_features(cx, inst, "group counts must be positive, and one of them 1");
        return false;
    }
    return want_labels(cx, inst, "dim_labels of lhs", l->lhs_batch, l->lhs_feature,
                       l->lhs_spatial, spatial) &&
           want_labels(cx, inst, "dim_labels of rhs", l->rhs_input, l->rhs_output,
                       l->rhs_spatial, spatial) &&
           want_labels(cx, inst, "dim_labels of the result", l->out_batch, l->out_feature,
                       l->out_spatial, spatial);
}

/* A sparse operand is the tuple of its values and their positions: the declared shape holds. */
static bool is_sparse(const Instruction *inst)
{
    return inst_has(inst, ATTR_SPARSITY_CONFIG) && inst->shape &&
           (shape_is_tuple(operand(inst, 0)) || shape_is_tuple(operand(inst, 1)));
}

/* Of a spatial dimension of the result; -1: there is no shape yet. Text may declare what the forward rule gives, of
 * gradients too (9.9). */
static int64_t declared_size(const Instruction *inst, const DimLabels *l, uint32_t i)
{
    const Shape *s = inst->shape;
    return s != NULL && shape_is_array(s) && s->rank == operand(inst, 0)->rank
               ? s->dims[l->out_spatial[i]]
               : -1;
}

const Shape *infer_convolution(InferContext *cx, const Instruction *inst)
{
    if (is_sparse(inst))
        return inst->shape;
    if (!infer_want_arrays(cx, inst, 0, 2))
        return NULL;
    const DimLabels *l = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    if (!want_convolution(cx, inst, l))
        return NULL;
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    const Window *w = inst_window(inst);
    int64_t feature_groups = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batch_groups = inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1);
    int64_t in_features = a->dims[l->lhs_feature], kernel_in = b->dims[l->rhs_input];
    int64_t kernel_out = b->dims[l->rhs_output], batch = a->dims[l->lhs_batch];
    const Attr *sparsity = inst_attr(inst, ATTR_SPARSITY_CONFIG);
    if (sparsity && sparsity->sparsity->rhs.present && sparsity->sparsity->rhs.n > 0 &&
        sparsity->sparsity->rhs.dimension == l->rhs_input)
        kernel_in *= sparsity->sparsity->rhs.m / sparsity->sparsity->rhs.n;
    if (in_features != DIM_UNBOUNDED && kernel_in != DIM_UNBOUNDED &&
        (in_features % feature_groups != 0 || in_features / feature_groups != kernel_in))
        return wrong_features(
            cx, inst, "input features must be feature groups times kernel features");
    if (kernel_out != DIM_UNBOUNDED &&
        (kernel_out % feature_groups != 0 || kernel_out % batch_groups != 0))
        return wrong_features(cx, inst,
                              "groups must divide the output features of the kernel");
    if (batch != DIM_UNBOUNDED && batch % batch_groups != 0)
        return wrong_features(cx, inst, "batch groups must divide the batch");
    bool is_gradient = inst_int(inst, ATTR_CONVOLUTION_KIND, CONVOLUTION_KIND_UNSET) ==
                       CONVOLUTION_KIND_DGRAD;
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, a->rank);
    dims[l->out_batch] = batch == DIM_UNBOUNDED ? batch : batch / batch_groups;
    dims[l->out_feature] = kernel_out;
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        int64_t size = a->dims[l->lhs_spatial[i]];
        if (!infer_same_size(w->dims[i].size, b->dims[l->rhs_spatial[i]]))
            return infer_error(
                cx, inst,
                "window size %lld of spatial dimension %u is not that of the "
                "kernel, %s",
                (long long)w->dims[i].size, i, infer_text(cx, b));
        WindowDim dim = w->dims[i];
        if (is_gradient && dim.size > 0 && !infer_image_gradient(&w->dims[i], &dim))
            return infer_error(cx, inst, "the window's sizes overflow");
        int64_t out =
            size == DIM_UNBOUNDED ? size : infer_window_size(cx, inst, size, &dim);
        int64_t declared = declared_size(inst, l, i);
        if (is_gradient && declared != -1 && out != DIM_UNBOUNDED && declared != out)
            out = infer_window_size(cx, inst, size, &w->dims[i]);
        if (out == -1)
            return NULL;
        dims[l->out_spatial[i]] = out;
    }
    return infer_array(cx, inst, product_type(inst, a->dtype, b->dtype), a->rank, dims,
                       NULL);
}

bool infer_is_compressed(const Instruction *convolution)
{
    if (!inst_has(convolution, ATTR_SPARSITY_CONFIG))
        return false;
    const Shape *x = convolution->operands[0]->shape,
                *k = convolution->operands[1]->shape;
    if (!shape_is_array(x) || !shape_is_array(k))
        return true;
    const DimLabels *l = inst_attr(convolution, ATTR_DIM_LABELS)->labels;
    int64_t groups = inst_int(convolution, ATTR_FEATURE_GROUP_COUNT, 1);
    return k->dims[l->rhs_input] * groups != x->dims[l->lhs_feature];
}

bool infer_is_gradient(const Instruction *convolution)
{
    return inst_int(convolution, ATTR_CONVOLUTION_KIND, CONVOLUTION_KIND_UNSET) >
           CONVOLUTION_KIND_FPROP;
}

bool infer_image_gradient(const WindowDim *of, WindowDim *out)
{
    int64_t reach;
    *out = *of;
    out->stride = 1;
    out->reversal = !of->reversal;
    return !__builtin_mul_overflow(of->base_dilation, of->stride, &out->base_dilation) &&
           !__builtin_mul_overflow(of->size - 1, of->window_dilation, &reach) &&
           !__builtin_sub_overflow(reach, of->pad_low, &out->pad_low) &&
           !__builtin_sub_overflow(reach, of->pad_high, &out->pad_high);
}
