/* See convolution.h. */
#include "ir/kernel/convolution.h"

#include "ir/attribute/config.h"
#include "ir/kernel/activation.h"

static const char library[] = "cudnn";

enum { FIRST = 0, SECOND = 1, POSITIONS = 2 }; /* dimensions of a ConvolutionArray */

/* -- arrays ------------------------------------------------------------------------------------ */

/* The array with its dimensions named: first (image, or output of a filter), second (feature, or
 * input), positions. */
static ConvolutionArray array_of(const Shape *s, int64_t first, int64_t second,
                                 const int64_t *positions, uint32_t count)
{
    int64_t strides[CONVOLUTION_RANK];
    ConvolutionArray a = {.type = s->dtype};
    uint32_t at = POSITIONS;
    shape_strides(s, strides);
    a.dims[FIRST] = s->dims[first];
    a.strides[FIRST] = strides[first];
    a.dims[SECOND] = s->dims[second];
    a.strides[SECOND] = strides[second];
    if (count == 1) { /* a line is a plane of height 1 */
        a.dims[at] = 1;
        a.strides[at++] = strides[positions[0]] * s->dims[positions[0]];
    }
    for (uint32_t i = 0; i < count; i++) {
        a.dims[at] = s->dims[positions[i]];
        a.strides[at++] = strides[positions[i]];
    }
    return a;
}

static const DimLabels *labels_of(const Instruction *conv)
{
    return inst_attr(conv, ATTR_DIM_LABELS)->labels;
}

/* -- kinds ------------------------------------------------------------------------------------- */

static bool any_base_dilation(const Window *w)
{
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i].base_dilation != 1)
            return true;
    }
    return false;
}

/* All positions, or none, are read backwards; a size of 1 is both. */
static bool read_reversal(const Window *w, bool *out)
{
    bool some = false, all = true;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i].size == 1)
            continue;
        some |= w->dims[i].reversal;
        all &= w->dims[i].reversal;
    }
    *out = some;
    return !some || all;
}

/* A gradient by the filter slides one array over another that is nearly as large: the kernel has more
 * positions than the result. */
static bool looks_like_filter_gradient(const Instruction *conv)
{
    const Window *w = inst_window(conv);
    const DimLabels *l = labels_of(conv);
    int64_t kernel = 1, result = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        kernel *= w->dims[i].size;
        result *= conv->shape->dims[l->out_spatial[i]];
    }
    return kernel > result;
}

static ConvolutionKind kind_of(const Instruction *conv, bool is_reversed)
{
    int64_t feature_groups = inst_int(conv, ATTR_FEATURE_GROUP_COUNT, 1);
    if (any_base_dilation(inst_window(conv)))
        return CONVOLUTION_DATA;
    if (inst_int(conv, ATTR_BATCH_GROUP_COUNT, 1) > 1 ||
        (feature_groups == 1 && !is_reversed && looks_like_filter_gradient(conv)))
        return CONVOLUTION_FILTER;
    return is_reversed && feature_groups == 1 ? CONVOLUTION_DATA : CONVOLUTION_FORWARD;
}

/* What is missing behind so that the forward convolution has y positions. A whole stride of values does;
 * false: none of them is an addition, or the last window begins behind all of x, which cuDNN does not take. */
static bool find_behind(int64_t x, int64_t w, int64_t y, int64_t before, int64_t stride,
                        int64_t dilation, int64_t *out)
{
    int64_t least = (y - 1) * stride + (w - 1) * dilation + 1 - x - before;
    *out = least > 0 ? least : 0;
    return least > -stride && (y - 1) * stride - before < x;
}

/* One dimension of positions, as forward convolutions are described. */
static bool read_window(const WindowDim *d, ConvolutionShape *s, uint32_t at)
{
    int64_t x = s->x.dims[POSITIONS + at], w = s->w.dims[POSITIONS + at];
    int64_t y = s->y.dims[POSITIONS + at];
    switch (s->kind) {
    case CONVOLUTION_FORWARD:
        s->before[at] = d->pad_low;
        s->stride[at] = d->stride;
        s->dilation[at] = d->window_dilation;
        break;
    case CONVOLUTION_DATA:
        s->before[at] = d->window_dilation * (w - 1) - d->pad_low;
        s->stride[at] = d->base_dilation;
        s->dilation[at] = d->window_dilation;
        if (d->stride != 1)
            return false;
        break;
    case CONVOLUTION_FILTER:
        s->before[at] = d->pad_low;
        s->stride[at] = d->window_dilation;
        s->dilation[at] = d->stride;
        if (d->base_dilation != 1)
            return false;
        break;
    }
    return s->before[at] >= 0 && find_behind(x, w, y, s->before[at], s->stride[at],
                                             s->dilation[at], &s->behind[at]);
}

static void name_arrays(const Instruction *conv, ConvolutionShape *out)
{
    const DimLabels *l = labels_of(conv);
    const Shape *lhs = conv->operands[0]->shape, *rhs = conv->operands[1]->shape;
    uint32_t n = l->spatial_rank;
    switch (out->kind) {
    case CONVOLUTION_FORWARD:
        out->x = array_of(lhs, l->lhs_batch, l->lhs_feature, l->lhs_spatial, n);
        out->w = array_of(rhs, l->rhs_output, l->rhs_input, l->rhs_spatial, n);
        out->y = array_of(conv->shape, l->out_batch, l->out_feature, l->out_spatial, n);
        break;
    case CONVOLUTION_DATA:
        out->y = array_of(lhs, l->lhs_batch, l->lhs_feature, l->lhs_spatial, n);
        out->w = array_of(rhs, l->rhs_input, l->rhs_output, l->rhs_spatial, n);
        out->x = array_of(conv->shape, l->out_batch, l->out_feature, l->out_spatial, n);
        break;
    case CONVOLUTION_FILTER:
        out->x = array_of(lhs, l->lhs_feature, l->lhs_batch, l->lhs_spatial, n);
        out->y = array_of(rhs, l->rhs_input, l->rhs_output, l->rhs_spatial, n);
        out->w = array_of(conv->shape, l->out_feature, l->out_batch, l->out_spatial, n);
        break;
    }
}

/* Sizes that a plan may have. */
static bool is_small(const ConvolutionShape *s)
{
    const ConvolutionArray *arrays[3] = {&s->x, &s->w, &s->y};
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t d = 0; d < CONVOLUTION_RANK; d++) {
            if (arrays[i]->dims[d] > CONVOLUTION_MOST)
                return false;
        }
    }
    for (uint32_t d = 0; d < s->spatial; d++) {
        if (s->before[d] > CONVOLUTION_MOST || s->behind[d] > CONVOLUTION_MOST ||
            s->stride[d] > CONVOLUTION_MOST || s->dilation[d] > CONVOLUTION_MOST)
            return false;
    }
    return true;
}

bool convolution_shape(const Instruction *conv, ConvolutionShape *out)
{
    const Window *w = inst_window(conv);
    uint32_t n = labels_of(conv)->spatial_rank;
    bool is_reversed;
    if (n < 1 || n > CONVOLUTION_SPATIAL || w->rank != n ||
        shape_elements(conv->shape) == 0 || inst_has(conv, ATTR_SPARSITY_CONFIG) ||
        !read_reversal(w, &is_reversed))
        return false;
    *out =
        (ConvolutionShape){.kind = kind_of(conv, is_reversed), .spatial = n == 1 ? 2 : n};
    /* the gradient by the data reads the filter backwards where the convolution does not */
    out->is_flipped = is_reversed != (out->kind == CONVOLUTION_DATA);
    if (out->kind == CONVOLUTION_FILTER && is_reversed)
        return false;
    /* groups of a gradient by the data have the filter in another order */
    if (out->kind == CONVOLUTION_DATA && inst_int(conv, ATTR_FEATURE_GROUP_COUNT, 1) != 1)
        return false;
    name_arrays(conv, out);
    if (n == 1)
        out->stride[0] = out->dilation[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_window(&w->dims[i], out, n == 1 ? 1 : i))
            return false;
    }
    return is_small(out) && shape_elements(conv->operands[0]->shape) != 0 &&
           shape_elements(conv->operands[1]->shape) != 0;
}

/* -- orders ------------------------------------------------------------------------------------- */

static void dims_in_order(uint32_t spatial, ConvolutionOrder order,
                          uint32_t out[CONVOLUTION_RANK])
{
    uint32_t n = 0;
    out[n++] = FIRST;
    if (order == CONVOLUTION_FEATURES_FIRST)
        out[n++] = SECOND;
    for (uint32_t d = 0; d < spatial; d++)
        out[n++] = POSITIONS + d;
    if (order == CONVOLUTION_FEATURES_LAST)
        out[n++] = SECOND;
}

/* The array with the strides of an order; false: it lies otherwise. */
static bool in_order(ConvolutionArray *a, uint32_t spatial, ConvolutionOrder order)
{
    uint32_t dims[CONVOLUTION_RANK];
    int64_t stride = 1;
    dims_in_order(spatial, order, dims);
    for (uint32_t i = spatial + POSITIONS; i-- > 0;) {
        uint32_t d = dims[i];
        if (a->dims[d] != 1 && a->strides[d] != stride)
            return false;
        a->strides[d] = stride;
        stride *= a->dims[d];
    }
    return true;
}

static bool has_order(ConvolutionArray a, uint32_t spatial, ConvolutionOrder order)
{
    return in_order(&a, spatial, order);
}

ConvolutionOrder convolution_order(const ConvolutionShape *s, bool *filter_has_it)
{
    static const ConvolutionOrder orders[] = {CONVOLUTION_FEATURES_LAST,
                                              CONVOLUTION_FEATURES_FIRST};
    ConvolutionOrder found = CONVOLUTION_MIXED;
    *filter_has_it = false;
    for (uint32_t i = 0; i < 2 && !*filter_has_it; i++) {
        if (!has_order(s->x, s->spatial, orders[i]) ||
            !has_order(s->y, s->spatial, orders[i]))
            continue;
        *filter_has_it = has_order(s->w, s->spatial, orders[i]);
        if (found == CONVOLUTION_MIXED || *filter_has_it)
            found = orders[i];
    }
    return found;
}

void convolution_filter_order(const ConvolutionShape *s, ConvolutionOrder order,
                              uint32_t out[CONVOLUTION_RANK])
{
    dims_in_order(s->spatial, order, out);
}

bool convolution_order_fits(const ConvolutionShape *s)
{
    bool filter_has_it;
    return convolution_order(s, &filter_has_it) != CONVOLUTION_MIXED &&
           (filter_has_it || s->kind != CONVOLUTION_FILTER);
}

void convolution_settle(ConvolutionShape *s)
{
    bool filter_has_it;
    ConvolutionArray *arrays[3] = {&s->x, &s->w, &s->y};
    ConvolutionOrder order = convolution_order(s, &filter_has_it);
    for (uint32_t i = 0; i < 3 && filter_has_it; i++)
        in_order(arrays[i], s->spatial, order);
}

/* -- calls -------------------------------------------------------------------------------------- */

bool convolution_has_types(const Instruction *conv)
{
    DType a = conv->operands[0]->shape->dtype, b = conv->operands[1]->shape->dtype;
    DType d = conv->shape->dtype;
    return a == b && (dtype_is_half(a) || a == DT_F32) && d == a;
}

bool convolution_bias_fits(const Instruction *conv, const Instruction *broadcast)
{
    Ints dims = inst_ints(broadcast, ATTR_DIMENSIONS);
    return broadcast->operands[0]->shape->dtype == conv->shape->dtype &&
           dims.count == 1 && dims.data[0] == labels_of(conv)->out_feature;
}

static bool is_marked(const Instruction *inst)
{
    return config_is(inst, CONFIG_LIBRARY, library);
}

static const Instruction *outside(const Instruction *fusion, const Instruction *inside)
{
    return inside->op == OP_PARAMETER ? fusion->operands[inside->parameter] : NULL;
}

/* Takes a maximum with 0 off the top. */
static const Instruction *take_relu(const Instruction *x, ConvolutionCall *out)
{
    ActivationForm f = activation_of(x);
    out->has_relu = f.activation == ACTIVATION_RELU;
    return out->has_relu ? f.argument : x;
}

/* Takes one addition off the top; NULL: what is added does not fit. */
static const Instruction *take_sum(const Instruction *fusion, const Instruction *x,
                                   const Instruction **broadcast, ConvolutionCall *out)
{
    OpCode other = x->operands[1]->op;
    uint32_t sum = other == OP_CONVOLUTION || other == OP_ADD || other == OP_MULTIPLY;
    const Instruction *added = x->operands[!sum], **to = &out->addend;
    if (added->op == OP_BROADCAST) {
        to = &out->bias;
        *broadcast = added;
        added = added->operands[0];
    }
    if (*to != NULL)
        return NULL;
    *to = outside(fusion, added);
    return *to != NULL ? x->operands[sum] : NULL;
}

/* Takes the product with a vector off a convolution; NULL: it is another product. */
static const Instruction *take_scale(const Instruction *fusion, const Instruction *x,
                                     ConvolutionCall *out)
{
    uint32_t at = x->operands[1]->op == OP_CONVOLUTION;
    const Instruction *conv = x->operands[at], *by = x->operands[!at];
    if (conv->op != OP_CONVOLUTION || by->op != OP_BROADCAST ||
        !convolution_bias_fits(conv, by))
        return NULL;
    out->scale = outside(fusion, by->operands[0]);
    return out->scale != NULL ? conv : NULL;
}

static bool fusion_call(const Instruction *fusion, ConvolutionCall *out)
{
    const Instruction *x = inst_called(fusion, 0)->root, *broadcast = NULL;
    x = take_relu(x, out);
    while (x != NULL && x->op == OP_ADD)
        x = take_sum(fusion, x, &broadcast, out);
    if (x != NULL && x->op == OP_MULTIPLY)
        x = take_scale(fusion, x, out);
    if (x == NULL || x->op != OP_CONVOLUTION)
        return false;
    out->conv = x;
    out->lhs = outside(fusion, x->operands[0]);
    out->rhs = outside(fusion, x->operands[1]);
    return out->lhs != NULL && out->rhs != NULL &&
           (broadcast == NULL || convolution_bias_fits(x, broadcast)) &&
           (out->addend == NULL || out->addend->shape == x->shape) &&
           shape_layouts_equal(fusion->shape, x->shape);
}

int64_t convolution_work(const ConvolutionShape *s)
{
    int64_t work = s->w.dims[0] * s->w.dims[1] * s->y.dims[0];
    for (uint32_t d = 2; d < s->spatial + 2; d++) {
        if (work > INT64_MAX / (s->w.dims[d] * s->y.dims[d] + 1))
            return INT64_MAX;
        work *= s->w.dims[d] * s->y.dims[d];
    }
    return work;
}

/* cuDNN takes it as it is. */
static bool is_taken(const Instruction *conv)
{
    ConvolutionShape s;
    bool filter_has_it;
    return convolution_has_types(conv) && convolution_shape(conv, &s) &&
           convolution_order(&s, &filter_has_it) != CONVOLUTION_MIXED && filter_has_it;
}

bool convolution_call_of(const Instruction *inst, ConvolutionCall *out)
{
    if ((inst->op != OP_CONVOLUTION && inst->op != OP_FUSION) || !is_marked(inst))
        return false;
    *out = (ConvolutionCall){.conv = inst};
    if (inst->op == OP_FUSION && !fusion_call(inst, out))
        return false;
    if (inst->op == OP_CONVOLUTION) {
        out->lhs = inst->operands[0];
        out->rhs = inst->operands[1];
    }
    return is_taken(out->conv);
}

bool convolution_is_library(const Instruction *inst)
{
    ConvolutionCall unused;
    return convolution_call_of(inst, &unused);
}

void convolution_set_library(Instruction *inst)
{
    config_set_word(inst, CONFIG_LIBRARY, library);
}

void convolution_unset_library(Instruction *inst)
{
    config_remove(inst, CONFIG_LIBRARY);
}

static const char *turned_text(Arena *a, const char *old, Ints order)
{
    char *text = ARENA_ARRAY(a, char, (size_t)order.count + 1);
    for (uint32_t d = 0; d < order.count; d++)
        text[d] = old[order.data[d]];
    return text;
}

static const int64_t *turned_dims(Arena *a, const int64_t *old, uint32_t count,
                                  Ints order)
{
    int64_t *dims = ARENA_ARRAY(a, int64_t, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        dims[i] = ints_find(order, old[i]);
    return dims;
}

const DimLabels *convolution_turn_filter(Arena *a, const DimLabels *old, Ints order)
{
    DimLabels *l = ARENA_NEW(a, DimLabels);
    *l = *old;
    l->rhs_input = ints_find(order, old->rhs_input);
    l->rhs_output = ints_find(order, old->rhs_output);
    l->rhs_spatial = turned_dims(a, old->rhs_spatial, old->spatial_rank, order);
    l->rhs_text = turned_text(a, old->rhs_text, order);
    return l;
}

const DimLabels *convolution_turn_result(Arena *a, const DimLabels *old, Ints order)
{
    DimLabels *l = ARENA_NEW(a, DimLabels);
    *l = *old;
    l->out_batch = ints_find(order, old->out_batch);
    l->out_feature = ints_find(order, old->out_feature);
    l->out_spatial = turned_dims(a, old->out_spatial, old->spatial_rank, order);
    l->out_text = turned_text(a, old->out_text, order);
    return l;
}
