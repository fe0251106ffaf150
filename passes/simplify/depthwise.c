/* Depthwise convolutions: each feature has a filter of its own, so that nothing is summed over features and tensor
 * cores have nothing to do. Written as sums of shifted arrays they are elementwise: fused with what stands around
 * them, read in wide accesses, and rows that were just read stay in L1 (ir/kernel/kinds/stencil.c).
 *
 *   convolution(x, w), feature_group_count=features  ->  sum over taps p of slice(pad(x)) at p * w[p]
 *   convolution(x, y), batch_group_count=features    ->  for each tap p: reduce(slice(pad(x)) at p * y)
 */
#include "passes/simplify/convolutions.h"

enum { MOST_TAPS = 64 }; /* of a filter: each is code */

typedef struct Depthwise {
    Rewriter *r;
    Instruction *conv;
    const DimLabels *labels;
    const Window *window;
    Instruction *padded; /* the left operand with zeros around and between */
    DType type;          /* summed in */
    int64_t features, taps;
    int64_t *sizes, *tap; /* of the filter, by spatial dimension; where it is looked at */
    int64_t *first, *step, *count; /* of the padded array, what meets that tap */
} Depthwise;

static bool has_types(const Instruction *conv)
{
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s = conv->operands[i]->shape;
        if (!rw_is_static(s) || rw_is_zero_size(s) || !dtype_is_float(s->dtype) ||
            dtype_info[s->dtype].bits < 16)
            return false;
    }
    return rw_is_static(conv->shape) && !rw_is_zero_size(conv->shape) &&
           dtype_is_float(conv->shape->dtype) && !inst_has(conv, ATTR_SPARSITY_CONFIG);
}

static void begin(Depthwise *w, Rewriter *r, Instruction *conv)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    *w = (Depthwise){.r = r, .conv = conv, .labels = l, .window = inst_window(conv)};
    int64_t **lists[] = {&w->sizes, &w->tap, &w->first, &w->step, &w->count};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = ARENA_ARRAY(r->scratch, int64_t, l->spatial_rank + 1u);
    DType t = dtype_higher_precision(conv->operands[0]->shape->dtype,
                                     conv->operands[1]->shape->dtype);
    w->type = t == DT_F64 || conv->shape->dtype == DT_F64 ? DT_F64 : DT_F32;
}

/* Few enough to be written down one by one. */
static bool count_taps(Depthwise *w)
{
    w->taps = 1;
    for (uint32_t i = 0; i < w->labels->spatial_rank; i++) {
        if (w->sizes[i] > MOST_TAPS)
            return false;
        w->taps *= w->sizes[i];
        if (w->taps > MOST_TAPS)
            return false;
    }
    return true;
}

static void pad(Depthwise *w)
{
    Instruction *x = w->conv->operands[0];
    PaddingDim *dims = ARENA_ARRAY(w->r->scratch, PaddingDim, x->shape->rank);
    for (uint32_t i = 0; i < w->window->rank; i++) {
        const WindowDim *d = &w->window->dims[i];
        dims[w->labels->lhs_spatial[i]] = (PaddingDim){
            .low = d->pad_low, .high = d->pad_high, .interior = d->base_dilation - 1};
    }
    w->padded = convolution_padded(w->r, x, dims);
}

/* The next tap of the filter, the last dimension fastest. */
static void next_tap(Depthwise *w)
{
    for (uint32_t i = w->labels->spatial_rank; i-- > 0;) {
        if (++w->tap[i] < w->sizes[i])
            return;
        w->tap[i] = 0;
    }
}

/* In the type of the sums. */
static Instruction *widened(const Depthwise *w, Instruction *x)
{
    return rw_in_type(w->r, x, w->type);
}

static Instruction *window_at(const Depthwise *w)
{
    const Shape *s = w->padded->shape;
    SliceDim *dims = ARENA_ARRAY(w->r->scratch, SliceDim, s->rank);
    int64_t *sizes = ARENA_ARRAY(w->r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++) {
        dims[d] = (SliceDim){.start = 0, .limit = s->dims[d], .stride = 1};
        sizes[d] = s->dims[d];
    }
    for (uint32_t i = 0; i < w->labels->spatial_rank; i++) {
        int64_t d = w->labels->lhs_spatial[i];
        dims[d] = (SliceDim){.start = w->first[i],
                             .limit = w->first[i] + (w->count[i] - 1) * w->step[i] + 1,
                             .stride = w->step[i]};
        sizes[d] = w->count[i];
    }
    const Shape *part = rw_shape(w->r, s->dtype, s->rank, sizes);
    return widened(w, rw_slice(w->r, part, w->padded, dims));
}

/* -- forward, and the gradient by the data ---------------------------------------------------------- */

/* The filter's numbers at the tap: one for each feature. */
static Instruction *weights_at(const Depthwise *w)
{
    Instruction *filter = w->conv->operands[1];
    const Shape *s = filter->shape;
    SliceDim *dims = ARENA_ARRAY(w->r->scratch, SliceDim, s->rank);
    int64_t *sizes = ARENA_ARRAY(w->r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++) {
        dims[d] = (SliceDim){.start = 0, .limit = 1, .stride = 1};
        sizes[d] = 1;
    }
    dims[w->labels->rhs_output].limit = w->features;
    sizes[w->labels->rhs_output] = w->features;
    for (uint32_t i = 0; i < w->labels->spatial_rank; i++) {
        int64_t at =
            w->window->dims[i].reversal ? w->sizes[i] - 1 - w->tap[i] : w->tap[i];
        dims[w->labels->rhs_spatial[i]] =
            (SliceDim){.start = at, .limit = at + 1, .stride = 1};
    }
    const Shape *part = rw_shape(w->r, s->dtype, s->rank, sizes),
                *vector = rw_shape(w->r, s->dtype, 1, &w->features);
    return widened(w, rw_reshape(w->r, vector, rw_slice(w->r, part, filter, dims)));
}

/* The left operand and the result have their dimensions in the same order. */
static bool keeps_order(const DimLabels *l)
{
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        if (l->lhs_spatial[i] != l->out_spatial[i])
            return false;
    }
    return l->lhs_batch == l->out_batch && l->lhs_feature == l->out_feature;
}

static Instruction *depthwise_data(Rewriter *r, Instruction *conv)
{
    Depthwise w;
    begin(&w, r, conv);
    w.features = inst_int(conv, ATTR_FEATURE_GROUP_COUNT, 1);
    if (w.features == 1 || !has_types(conv) || !keeps_order(w.labels) ||
        conv->operands[0]->shape->dims[w.labels->lhs_feature] != w.features ||
        conv->shape->dims[w.labels->out_feature] != w.features)
        return NULL;
    for (uint32_t i = 0; i < w.window->rank; i++) {
        w.sizes[i] = w.window->dims[i].size;
        w.step[i] = w.window->dims[i].stride;
        w.count[i] = conv->shape->dims[w.labels->out_spatial[i]];
    }
    if (!count_taps(&w))
        return NULL;
    pad(&w);
    const Shape *wide = shape_with_dtype(r->m->intern, conv->shape, w.type);
    Instruction *sum = NULL;
    for (int64_t n = 0; n < w.taps; n++, next_tap(&w)) {
        for (uint32_t i = 0; i < w.window->rank; i++)
            w.first[i] = w.tap[i] * w.window->dims[i].window_dilation;
        Instruction *weights =
            rw_broadcast(r, wide, weights_at(&w), 1, &w.labels->out_feature);
        Instruction *term = rw_binary(r, OP_MULTIPLY, wide, window_at(&w), weights);
        sum = sum == NULL ? term : rw_binary(r, OP_ADD, wide, sum, term);
    }
    return rw_convert(r, conv->shape, sum);
}

/* -- the gradient by the filter ----------------------------------------------------------------------- */

/* x and y have their dimensions in the same order: x's batch are the features, its features what is summed. */
static bool pairs_up(const DimLabels *l)
{
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        if (l->lhs_spatial[i] != l->rhs_spatial[i])
            return false;
    }
    return l->lhs_batch == l->rhs_output && l->lhs_feature == l->rhs_input;
}

/* [taps, features] as the result has it: features along its out_feature. */
static Instruction *filter_of(const Depthwise *w, Instruction *sums)
{
    const DimLabels *l = w->labels;
    const Shape *s = w->conv->shape;
    int64_t *sizes = ARENA_ARRAY(w->r->scratch, int64_t, s->rank),
            *order = ARENA_ARRAY(w->r->scratch, int64_t, s->rank);
    uint32_t spatial =
        l->spatial_rank; /* the order of dims: taps, batch of 1, features */
    for (uint32_t i = 0; i < spatial; i++) {
        sizes[i] = w->sizes[i];
        order[l->out_spatial[i]] = i;
    }
    sizes[spatial] = 1;
    order[l->out_batch] = spatial;
    sizes[spatial + 1] = w->features;
    order[l->out_feature] = spatial + 1;
    sums = rw_reshape(w->r, rw_shape(w->r, s->dtype, s->rank, sizes), sums);
    return rw_transpose(w->r, s, sums, order);
}

static Instruction *depthwise_filter(Rewriter *r, Instruction *conv)
{
    Depthwise w;
    begin(&w, r, conv);
    w.features = inst_int(conv, ATTR_BATCH_GROUP_COUNT, 1);
    const Shape *y = conv->operands[1]->shape;
    if (w.features == 1 || !has_types(conv) || !pairs_up(w.labels) ||
        conv->operands[0]->shape->dims[w.labels->lhs_batch] != w.features ||
        conv->shape->dims[w.labels->out_feature] != w.features)
        return NULL;
    int64_t *summed = ARENA_ARRAY(r->scratch, int64_t, w.window->rank + 1u);
    for (uint32_t i = 0; i < w.window->rank; i++) {
        if (w.window->dims[i].reversal)
            return NULL;
        w.sizes[i] = conv->shape->dims[w.labels->out_spatial[i]];
        w.step[i] = w.window->dims[i].window_dilation;
        w.count[i] = w.window->dims[i].size;
        summed[i] = w.labels->rhs_spatial[i];
    }
    summed[w.window->rank] = w.labels->rhs_input;
    if (!count_taps(&w))
        return NULL;
    pad(&w);
    const Shape *wide = shape_with_dtype(r->m->intern, y, w.type),
                *vector = rw_shape(r, w.type, 1, &w.features),
                *row = rw_shape(r, w.type, 2, (int64_t[]){1, w.features});
    Instruction **rows = ARENA_ARRAY(r->scratch, Instruction *, (size_t)w.taps);
    for (int64_t n = 0; n < w.taps; n++, next_tap(&w)) {
        for (uint32_t i = 0; i < w.window->rank; i++)
            w.first[i] = w.tap[i] * w.window->dims[i].stride;
        Instruction *terms = rw_binary(r, OP_MULTIPLY, wide, window_at(&w),
                                       widened(&w, conv->operands[1]));
        Instruction *sum = rw_sum(r, vector, terms, w.window->rank + 1u, summed);
        rows[n] = rw_reshape(r, row, sum);
    }
    const Shape *all = rw_shape(r, w.type, 2, (int64_t[]){w.taps, w.features});
    Instruction *sums = rw_add(r, OP_CONCATENATE, all, (uint32_t)w.taps, rows);
    inst_set_ints(sums, ATTR_DIMENSIONS, (int64_t[]){0}, 1);
    sums = rw_convert(r, rw_shape(r, conv->shape->dtype, 2, all->dims), sums);
    return filter_of(&w, sums);
}

const Rule rules_depthwise[] = {
    {OP_CONVOLUTION, "depthwise_data", depthwise_data},
    {OP_CONVOLUTION, "depthwise_filter", depthwise_filter},
    {0},
};
