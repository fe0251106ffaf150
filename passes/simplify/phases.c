/* Strided convolutions of images with few features, as the first of a network are: tensor cores sum over blocks of
 * features, most of which would be zeros. The positions of an image that lie within one stride become its features, and
 * what is left is a convolution without strides; so do its gradients. From 3 features by a stride of 2 in two
 * dimensions to 64, 7x7 becomes 4x4 from 12: the same sums, and zeros.
 *
 *   convolution(x, w), window={size=7x7 stride=2x2}          ->  convolution(phases(x), phases(w)), window={size=4x4}
 *   convolution(y, w), window={size=7x7 lhs_dilate=2x2}      ->  positions(convolution(y, phases(w))), window={size=4x4}
 *   convolution(x, y), window={... rhs_dilate=2x2}           ->  positions(convolution(phases(x), y))
 *
 * where phases(x)[b, i, j, (p, q, f)] = x[b, 2i + p, 2j + q, f], and positions is its inverse.
 *
 * The zeros that fill a filter up to whole strides meet numbers that it does not reach: an infinite one or NaN makes
 * NaN of results beside its own.
 *
 * Images that wide_convolution reads by rows of windows (ir/kernel/kinds/wide_rows.c) are left as they are. */
#include "ir/base/divide.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/kind.h"
#include "passes/simplify/convolutions.h"

enum { FEW_FEATURES = 8, MOST_SPATIAL = 3, MOST_DIMS = 2 * MOST_SPATIAL + 2 };

/* A dimension of positions in which a convolution has a stride, or what its gradient has for it. */
typedef struct Side {
    int64_t stride;
    int64_t window;      /* positions of the filter */
    int64_t low;         /* zeros before the image; by the data: before the gradient */
    int64_t image, outs; /* positions of the image with few features, and of the other */
    int64_t steps;       /* strides that a window reaches over: the new window */
} Side;

typedef struct Phased {
    Rewriter *r;
    Instruction *conv;
    ConvolutionKind kind;
    const DimLabels *labels;
    uint32_t spatial;
    Side side[MOST_SPATIAL];
    int64_t phases; /* positions within the strides */
} Phased;

/* -- arrays ------------------------------------------------------------------------------------------ */

/* The dimensions of an array in the order: first, positions, second. */
static Instruction *ordered(Rewriter *r, Instruction *x, int64_t first,
                            const int64_t *spatial, int64_t second)
{
    uint32_t rank = x->shape->rank;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t i = 0; i < rank; i++)
        order[i] = i == 0 ? first : i + 1 == rank ? second : spatial[i - 1];
    return rw_in_order(r, x, order);
}

/* [first, positions * stride ..., second] -> [first, positions ..., strides * second] */
static Instruction *to_phases(const Phased *p, Instruction *x)
{
    const Shape *s = x->shape;
    uint32_t n = p->spatial, rank = 2 * n + 2;
    int64_t split[MOST_DIMS], order[MOST_DIMS], joined[MOST_SPATIAL + 2];
    split[0] = joined[0] = s->dims[0];
    split[rank - 1] = s->dims[n + 1];
    order[0] = 0;
    order[rank - 1] = rank - 1;
    joined[n + 1] = s->dims[n + 1] * p->phases;
    for (uint32_t i = 0; i < n; i++) {
        split[2 * i + 1] = joined[i + 1] = s->dims[i + 1] / p->side[i].stride;
        split[2 * i + 2] = p->side[i].stride;
        order[i + 1] = 2 * i + 1;
        order[i + 1 + n] = 2 * i + 2;
    }
    return convolution_regrouped(p->r, x, rank, split, order, n + 2, joined);
}

/* The inverse: [first, positions ..., strides * second] -> [first, positions * stride ..., second] */
static Instruction *to_positions(const Phased *p, Instruction *x)
{
    const Shape *s = x->shape;
    uint32_t n = p->spatial, rank = 2 * n + 2;
    int64_t split[MOST_DIMS], order[MOST_DIMS], joined[MOST_SPATIAL + 2];
    split[0] = joined[0] = s->dims[0];
    split[rank - 1] = joined[n + 1] = s->dims[n + 1] / p->phases;
    order[0] = 0;
    order[rank - 1] = rank - 1;
    for (uint32_t i = 0; i < n; i++) {
        split[i + 1] = s->dims[i + 1];
        split[i + 1 + n] = p->side[i].stride;
        order[2 * i + 1] = i + 1;
        order[2 * i + 2] = i + 1 + n;
        joined[i + 1] = s->dims[i + 1] * p->side[i].stride;
    }
    return convolution_regrouped(p->r, x, rank, split, order, n + 2, joined);
}

/* x in the order that it has here, with `low` zeros before its positions and as many behind as make `size` of them. */
static Instruction *resized(const Phased *p, Instruction *x, const int64_t *low,
                            const int64_t *size)
{
    PaddingDim *dims = ARENA_ARRAY(p->r->scratch, PaddingDim, p->spatial + 2u);
    for (uint32_t i = 0; i < p->spatial; i++)
        dims[i + 1] =
            (PaddingDim){.low = low[i], .high = size[i] - low[i] - x->shape->dims[i + 1]};
    return convolution_padded(p->r, x, dims);
}

/* -- the new convolution ----------------------------------------------------------------------------- */

/* Each array has its positions between its two other dimensions, as the letters say. */
static const DimLabels *labels_of(const Phased *p)
{
    static const char *const middle[MOST_SPATIAL] = {"0", "01", "012"};
    Arena *a = p->r->m->arena;
    const char *spatial = middle[p->spatial - 1];
    bool is_filter = p->kind == CONVOLUTION_FILTER, is_data = p->kind == CONVOLUTION_DATA;
    int64_t last = p->spatial + 1, *dims = ARENA_ARRAY(a, int64_t, p->spatial);
    for (uint32_t i = 0; i < p->spatial; i++)
        dims[i] = i + 1;
    DimLabels *l = ARENA_NEW(a, DimLabels);
    const char *image = arena_printf(a, is_filter ? "f%sb" : "b%sf", spatial);
    *l = (DimLabels){.spatial_rank = p->spatial,
                     .lhs_batch = is_filter ? last : 0,
                     .lhs_feature = is_filter ? 0 : last,
                     .rhs_input = is_filter || is_data ? 0 : last,
                     .rhs_output = is_filter || is_data ? last : 0,
                     .out_batch = is_filter ? last : 0,
                     .out_feature = is_filter ? 0 : last,
                     .lhs_spatial = dims,
                     .rhs_spatial = dims,
                     .out_spatial = dims,
                     .lhs_text = image,
                     .rhs_text =
                         arena_printf(a, is_filter || is_data ? "i%so" : "o%si", spatial),
                     .out_text = image};
    return l;
}

/* Without strides; its result has `sizes` positions. */
static Instruction *convolved(const Phased *p, Instruction *lhs, Instruction *rhs,
                              const WindowDim *dims, const int64_t *sizes)
{
    Rewriter *r = p->r;
    int64_t all[MOST_SPATIAL + 2];
    const DimLabels *l = labels_of(p);
    for (uint32_t i = 0; i < p->spatial; i++)
        all[i + 1] = sizes[i];
    all[l->out_batch] = lhs->shape->dims[l->lhs_batch];
    all[l->out_feature] = rhs->shape->dims[l->rhs_output];
    const Shape *s = rw_shape(r, p->conv->shape->dtype, p->spatial + 2, all);
    Instruction *c = rw_like(r, p->conv, s, 2, (Instruction *[]){lhs, rhs});
    Window *window = ARENA_NEW(r->m->arena, Window);
    *window =
        (Window){p->spatial, arena_copy(r->m->arena, dims, p->spatial * sizeof *dims)};
    inst_set(c, (Attr){.id = ATTR_WINDOW, .window = window});
    inst_set(c, (Attr){.id = ATTR_DIM_LABELS, .labels = l});
    return c;
}

/* In the order of the result that is replaced; positions behind its last one go. */
static Instruction *as_result(const Phased *p, Instruction *x)
{
    Rewriter *r = p->r;
    const Shape *s = p->conv->shape;
    const DimLabels *l = p->labels;
    bool is_filter = p->kind == CONVOLUTION_FILTER;
    int64_t order[MOST_SPATIAL + 2], sizes[MOST_SPATIAL + 2];
    SliceDim cut[MOST_SPATIAL + 2];
    order[is_filter ? l->out_feature : l->out_batch] = 0;
    order[is_filter ? l->out_batch : l->out_feature] = p->spatial + 1;
    for (uint32_t i = 0; i < p->spatial; i++)
        order[l->out_spatial[i]] = i + 1;
    for (uint32_t d = 0; d < s->rank; d++) {
        sizes[order[d]] = s->dims[d];
        cut[order[d]] = (SliceDim){.start = 0, .limit = s->dims[d], .stride = 1};
    }
    x = rw_slice(r, rw_shape(r, s->dtype, s->rank, sizes), x, cut);
    return rw_transpose(r, s, x, order);
}

/* What a window reaches over, in whole strides. `first` and `second`: of the image's dimensions. */
static Instruction *phased_image(const Phased *p, int64_t first, int64_t second)
{
    int64_t low[MOST_SPATIAL], size[MOST_SPATIAL];
    for (uint32_t i = 0; i < p->spatial; i++) {
        low[i] = p->side[i].low;
        size[i] = (p->side[i].outs - 1 + p->side[i].steps) * p->side[i].stride;
    }
    Instruction *x =
        ordered(p->r, p->conv->operands[0], first, p->labels->lhs_spatial, second);
    return to_phases(p, resized(p, x, low, size));
}

static Instruction *forward(const Phased *p)
{
    const DimLabels *l = p->labels;
    WindowDim window[MOST_SPATIAL];
    int64_t low[MOST_SPATIAL] = {0}, size[MOST_SPATIAL], outs[MOST_SPATIAL];
    for (uint32_t i = 0; i < p->spatial; i++) {
        const Side *s = &p->side[i];
        size[i] = s->steps * s->stride;
        outs[i] = s->outs;
        window[i] = (WindowDim){
            .size = s->steps, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    }
    Instruction *w =
        ordered(p->r, p->conv->operands[1], l->rhs_output, l->rhs_spatial, l->rhs_input);
    w = to_phases(p, resized(p, w, low, size));
    Instruction *x = phased_image(p, l->lhs_batch, l->lhs_feature);
    return as_result(p, convolved(p, x, w, window, outs));
}

static Instruction *by_filter(const Phased *p)
{
    const DimLabels *l = p->labels;
    WindowDim window[MOST_SPATIAL];
    int64_t steps[MOST_SPATIAL];
    for (uint32_t i = 0; i < p->spatial; i++) {
        const Side *s = &p->side[i];
        steps[i] = s->steps;
        window[i] = (WindowDim){
            .size = s->outs, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    }
    Instruction *x = phased_image(p, l->lhs_feature, l->lhs_batch);
    Instruction *y =
        ordered(p->r, p->conv->operands[1], l->rhs_input, l->rhs_spatial, l->rhs_output);
    return as_result(p, to_positions(p, convolved(p, x, y, window, steps)));
}

/* Position stride * i + q of the image meets position stride * (m - i) + low - q of the filter for each m of the
 * gradient: in phase q every stride-th one of them, from the last to the first. The filter is laid backwards, so that
 * they lie as the phases do, and read backwards. */
static Instruction *by_data(const Phased *p)
{
    Rewriter *r = p->r;
    const DimLabels *l = p->labels;
    WindowDim window[MOST_SPATIAL];
    int64_t low[MOST_SPATIAL], size[MOST_SPATIAL], strides[MOST_SPATIAL],
        spatial[MOST_SPATIAL];
    for (uint32_t i = 0; i < p->spatial; i++) {
        const Side *s = &p->side[i];
        int64_t before = floor_div(s->low, s->stride), left = s->low - before * s->stride;
        int64_t steps = ceil_div(s->window + s->stride - 1 - left, s->stride);
        size[i] = steps * s->stride;
        low[i] = size[i] - s->window - (s->stride - 1 - left);
        strides[i] = ceil_div(s->image, s->stride);
        window[i] = (WindowDim){.size = steps,
                                .stride = 1,
                                .pad_low = before,
                                .pad_high = strides[i] + steps - 1 - before - s->outs,
                                .base_dilation = 1,
                                .window_dilation = 1,
                                .reversal = true};
        spatial[i] = i + 1;
    }
    Instruction *w =
        ordered(r, p->conv->operands[1], l->rhs_input, l->rhs_spatial, l->rhs_output);
    w = rw_unary(r, OP_REVERSE, w->shape, w);
    inst_set_ints(w, ATTR_DIMENSIONS, spatial, p->spatial);
    w = to_phases(p, resized(p, w, low, size));
    Instruction *y =
        ordered(r, p->conv->operands[0], l->lhs_batch, l->lhs_spatial, l->lhs_feature);
    Instruction *c = convolved(p, y, w, window, strides);
    int64_t phases[MOST_SPATIAL];
    for (uint32_t i = 0; i < p->spatial; i++)
        phases[i] = p->side[i].stride;
    Instruction *x = convolution_few_results(r, c, phases);
    return as_result(p, x != NULL ? x : to_positions(p, c));
}

/* -- which ------------------------------------------------------------------------------------------- */

/* Has nothing but strides of its kind in it, and the window leaves out no position. */
static bool find_side(const Phased *p, uint32_t i, Side *out)
{
    const WindowDim *d = &inst_window(p->conv)->dims[i];
    const DimLabels *l = p->labels;
    int64_t lhs = p->conv->operands[0]->shape->dims[l->lhs_spatial[i]],
            result = p->conv->shape->dims[l->out_spatial[i]];
    *out = (Side){.low = d->pad_low, .image = lhs, .window = d->size, .outs = result};
    switch (p->kind) {
    case CONVOLUTION_FORWARD:
        out->stride = d->stride;
        break;
    case CONVOLUTION_FILTER:
        out->stride = d->window_dilation;
        out->window = result;
        out->outs = d->size;
        break;
    case CONVOLUTION_DATA:
        out->stride = d->base_dilation;
        out->image = result;
        out->outs = lhs;
        break;
    }
    out->steps = ceil_div(out->window, out->stride);
    return !d->reversal && out->window >= out->stride &&
           d->stride * d->window_dilation * d->base_dilation == out->stride;
}

static int64_t few_of(const Phased *p)
{
    const DimLabels *l = p->labels;
    const Shape *lhs = p->conv->operands[0]->shape;
    return p->kind == CONVOLUTION_FORWARD  ? lhs->dims[l->lhs_feature]
           : p->kind == CONVOLUTION_FILTER ? lhs->dims[l->lhs_batch]
                                           : p->conv->shape->dims[l->out_feature];
}

static Instruction *phases(Rewriter *r, Instruction *conv)
{
    ConvolutionShape shape;
    if (!convolution_is_dense_half(r, conv, &shape))
        return NULL;
    Phased p = {.r = r,
                .conv = conv,
                .kind = shape.kind,
                .labels = inst_attr(conv, ATTR_DIM_LABELS)->labels,
                .phases = 1};
    p.spatial = p.labels->spatial_rank;
    if (p.spatial == 0 || p.spatial > MOST_SPATIAL || few_of(&p) > FEW_FEATURES)
        return NULL;
    for (uint32_t i = 0; i < p.spatial; i++) {
        if (!find_side(&p, i, &p.side[i]))
            return NULL;
        p.phases *= p.side[i].stride;
    }
    if (p.phases == 1 || wide_convolution_takes_rows(conv, r->cx->target) ||
        row_gradient_fits(conv, r->cx->target))
        return NULL;
    return p.kind == CONVOLUTION_FORWARD  ? forward(&p)
           : p.kind == CONVOLUTION_FILTER ? by_filter(&p)
                                          : by_data(&p);
}

const Rule rules_phases[] = {
    {OP_CONVOLUTION, "phases", phases},
    {0},
};
