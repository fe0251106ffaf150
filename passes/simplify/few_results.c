/* Convolutions to few features, as the last of a network or the gradient of the first: a tile of the product has few
 * columns, and for each of its rows the whole window is read once more. Two neighbours of a result along each dimension
 * of positions become features of one, whose windows overlap by all but one position:
 *
 *   convolution(x, w), window={size=4x4}, 64 -> 12 features
 *   ->  positions(convolution(x, v), window={size=5x5 stride=2x2}), 64 -> 48 features
 *
 * where v holds w four times, each with zeros on another side: 25 positions are read for four results instead of 64. More
 * zeros fill it up to 64 features: cuDNN takes half the time of 48 (108 and 199 us measured on an H100), tiles as long; by
 * mma.sync, and with sums in tensor memory, 48 take three quarters.
 *
 * The zeros meet numbers that a window does not reach: an infinite one or NaN makes NaN of the results beside its own. */
#include "ir/base/divide.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/kind.h"
#include "passes/simplify/convolutions.h"

enum {
    TOGETHER = 2, /* neighbours along a dimension */
    MOST_RESULTS = 16,
    FULL_TILE = 64, /* features of which tiles are made, not of two of half the size */
    LEAST_FEATURES = 32,
    LEAST_WINDOW = 3,
    MOST_SPATIAL = 2,
    MOST_DIMS = 2 * MOST_SPATIAL + 2
};

/* Read forwards: a library has no strides for one that is read backwards. */
static Instruction *forward_filter(Rewriter *r, const Instruction *conv)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(conv);
    Instruction *x = conv->operands[1];
    int64_t dims[MOST_SPATIAL];
    uint32_t n = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        for (uint32_t i = 0; i < w->rank; i++) {
            if (l->rhs_spatial[i] == d && w->dims[i].reversal)
                dims[n++] = d;
        }
    }
    if (n == 0)
        return x;
    x = rw_unary(r, OP_REVERSE, x->shape, x);
    inst_set_ints(x, ATTR_DIMENSIONS, dims, n);
    return x;
}

static Instruction *padded_filter(Rewriter *r, const Instruction *conv,
                                  Instruction *filter, uint32_t neighbour)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(conv);
    PaddingDim dims[MOST_SPATIAL + 2] = {0};
    for (uint32_t i = 0; i < w->rank; i++) {
        uint32_t at = neighbour >> (w->rank - 1 - i) & 1;
        dims[l->rhs_spatial[i]] = (PaddingDim){.low = at, .high = TOGETHER - 1 - at};
    }
    return convolution_padded(r, filter, dims);
}

/* The neighbours stand before the features, the first of which are phases: each goes before the phases of its own
 * dimension. */
static Instruction *with_phases(Rewriter *r, Instruction *x, int64_t at, uint32_t spatial,
                                const int64_t *phases)
{
    const Shape *s = x->shape;
    int64_t split[MOST_DIMS] = {1}, order[MOST_DIMS] = {0}, remaining = s->dims[at];
    uint32_t last = 2 * spatial + 1;
    for (int64_t d = 0; d < at; d++)
        split[0] *= s->dims[d];
    for (uint32_t i = 0; i < spatial; i++) {
        split[1 + i] = TOGETHER;
        split[1 + spatial + i] = phases[i];
        order[1 + 2 * i] = 1 + i;
        order[2 + 2 * i] = 1 + spatial + i;
        remaining /= TOGETHER * phases[i];
    }
    for (uint32_t d = (uint32_t)at + 1; d < s->rank; d++)
        remaining *= s->dims[d];
    split[last] = remaining;
    order[last] = last;
    return convolution_regrouped(r, x, last + 1, split, order, s->rank, s->dims);
}

/* The filter for each neighbour, side by side along the features of the result. */
static Instruction *filters(Rewriter *r, const Instruction *conv, uint32_t neighbours,
                            const int64_t *phases)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    Instruction *all[1 << MOST_SPATIAL], *filter = forward_filter(r, conv);
    for (uint32_t i = 0; i < neighbours; i++)
        all[i] = padded_filter(r, conv, filter, i);
    int64_t sizes[MOST_SPATIAL + 2];
    const Shape *s = all[0]->shape;
    for (uint32_t d = 0; d < s->rank; d++)
        sizes[d] = s->dims[d] * (d == l->rhs_output ? neighbours : 1);
    Instruction *c =
        computation_add(conv->parent, OP_CONCATENATE,
                        rw_shape(r, s->dtype, s->rank, sizes), neighbours, all, NULL);
    inst_set_ints(c, ATTR_DIMENSIONS, &l->rhs_output, 1);
    return with_phases(r, c, l->rhs_output, l->spatial_rank, phases);
}

static Instruction *convolved(Rewriter *r, Instruction *conv, uint32_t neighbours,
                              const int64_t *phases)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Window *old = inst_window(conv);
    WindowDim *dims = ARENA_ARRAY(r->m->arena, WindowDim, old->rank);
    int64_t sizes[MOST_SPATIAL + 2];
    for (uint32_t d = 0; d < conv->shape->rank; d++)
        sizes[d] = conv->shape->dims[d];
    Instruction *operands[] = {conv->operands[0], filters(r, conv, neighbours, phases)};
    sizes[l->out_feature] = operands[1]->shape->dims[l->rhs_output];
    for (uint32_t i = 0; i < old->rank; i++) {
        int64_t *results = &sizes[l->out_spatial[i]],
                image = conv->operands[0]->shape->dims[l->lhs_spatial[i]];
        *results = ceil_div(*results, TOGETHER);
        dims[i] = old->dims[i];
        dims[i].size += TOGETHER - 1;
        dims[i].stride = TOGETHER;
        dims[i].reversal = false;
        dims[i].pad_high =
            (*results - 1) * TOGETHER + dims[i].size - dims[i].pad_low - image;
    }
    Window *window = ARENA_NEW(r->m->arena, Window);
    *window = (Window){old->rank, dims};
    Instruction *c = rw_like(
        r, conv, rw_shape(r, conv->shape->dtype, conv->shape->rank, sizes), 2, operands);
    inst_set(c, (Attr){.id = ATTR_WINDOW, .window = window});
    return c;
}

/* wide_convolution takes it as it is, and nothing beside it multiplies whole tiles faster. */
static bool is_taken(const Rewriter *r, const Instruction *conv)
{
    const Target *t = r->cx->target;
    bool makes_tiles = target_has(t, FEATURE_WGMMA) || target_has(t, FEATURE_TCGEN05);
    return (!makes_tiles || target_has(t, FEATURE_TENSOR_MEMORY)) &&
           wide_convolution_takes(conv, t);
}

/* Its features filled up to a tile, where they are most of one. */
static Instruction *in_full_tile(Rewriter *r, Instruction *conv)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Shape *s = conv->shape;
    int64_t sizes[MOST_SPATIAL + 2], features = s->dims[l->out_feature];
    if (features <= FULL_TILE / 2 || features >= FULL_TILE || is_taken(r, conv))
        return conv;
    for (uint32_t d = 0; d < s->rank; d++)
        sizes[d] = d == l->out_feature ? FULL_TILE : s->dims[d];
    PaddingDim more[MOST_SPATIAL + 2] = {0};
    more[l->rhs_output].high = FULL_TILE - features;
    Instruction *operands[] = {conv->operands[0],
                               convolution_padded(r, conv->operands[1], more)};
    return rw_like(r, conv, rw_shape(r, s->dtype, s->rank, sizes), 2, operands);
}

/* Those features of x that are some of the result's; the others fill a tile up. */
static Instruction *without_filling(Rewriter *r, const Instruction *conv, Instruction *x)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    int64_t used[MOST_SPATIAL + 2];
    SliceDim cut[MOST_SPATIAL + 2];
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        used[d] = d == l->out_feature ? conv->shape->dims[d] << l->spatial_rank
                                      : x->shape->dims[d];
        cut[d] = (SliceDim){.start = 0, .limit = used[d], .stride = 1};
    }
    return rw_slice(r, rw_shape(r, x->shape->dtype, x->shape->rank, used), x, cut);
}

/* The neighbours and phases leave the features for their positions; those behind the last one go. */
static Instruction *as_positions(Rewriter *r, const Instruction *conv, Instruction *x,
                                 const int64_t *phases)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    uint32_t spatial = l->spatial_rank, n = 0, rank = conv->shape->rank;
    int64_t split[MOST_DIMS], order[MOST_DIMS], joined[MOST_SPATIAL + 2],
        at[MOST_SPATIAL + 2], sizes[MOST_SPATIAL + 2];
    SliceDim cut[MOST_SPATIAL + 2];
    x = without_filling(r, conv, x);
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = conv->shape->dims[d];
        for (uint32_t i = 0; d == l->out_feature && i < spatial; i++) {
            split[n++] = TOGETHER * phases[i];
            sizes[d] /= phases[i];
        }
        at[d] = n;
        split[n++] = d == l->out_feature ? sizes[d] : x->shape->dims[d];
    }
    n = 0;
    for (uint32_t d = 0; d < rank; d++) {
        order[n++] = at[d];
        joined[d] = split[at[d]];
        for (uint32_t i = 0; i < spatial; i++) {
            if (l->out_spatial[i] != d)
                continue;
            order[n++] = at[l->out_feature] - spatial + i;
            joined[d] *= TOGETHER * phases[i];
            sizes[d] *= phases[i];
        }
        cut[d] = (SliceDim){.start = 0, .limit = sizes[d], .stride = 1};
    }
    x = convolution_regrouped(r, x, n, split, order, rank, joined);
    return rw_slice(r, rw_shape(r, x->shape->dtype, rank, sizes), x, cut);
}

static bool is_one_by_one(const WindowDim *d)
{
    return d->stride == 1 && d->window_dilation == 1 && d->base_dilation == 1 &&
           d->size >= LEAST_WINDOW;
}

Instruction *convolution_few_results(Rewriter *r, Instruction *conv,
                                     const int64_t *phases)
{
    ConvolutionShape shape;
    if (!convolution_is_dense_half(r, conv, &shape))
        return NULL;
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(conv);
    if (w->rank == 0 || w->rank > MOST_SPATIAL || w->rank != l->spatial_rank ||
        conv->shape->dims[l->out_feature] > MOST_RESULTS ||
        conv->operands[0]->shape->dims[l->lhs_feature] < LEAST_FEATURES)
        return NULL;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (!is_one_by_one(&w->dims[i]) ||
            conv->shape->dims[l->out_spatial[i]] < w->dims[i].size)
            return NULL;
    }
    Instruction *c = in_full_tile(r, convolved(r, conv, 1U << w->rank, phases));
    return as_positions(r, conv, c, phases);
}

static Instruction *few_results(Rewriter *r, Instruction *conv)
{
    static const int64_t none[MOST_SPATIAL] = {1, 1};
    Instruction *x = convolution_few_results(r, conv, none);
    return x != NULL ? rw_in_layout(r, conv->shape, x) : NULL;
}

const Rule rules_few_results[] = {
    {OP_CONVOLUTION, "few_results", few_results},
    {0},
};
