/* cuDNN's convolutions as XLA calls them, __cudnn$conv..., and their gradients, read as what they mean.
 *
 *   act(scale * x w + side_scale * side + bias) = forward(x, w, [bias], [side])
 *   dx = image gradient(d_result, w), dw = filter gradient(x, d_result), each times scale */
#include <string.h>

#include "frontend/input/library_call.h"

/* -- convolutions -------------------------------------------------------------------------------- */

static Instruction *make_convolution(Call *c, DType t)
{
    static const AttrId kept[] = {ATTR_WINDOW, ATTR_DIM_LABELS, ATTR_FEATURE_GROUP_COUNT,
                                  ATTR_BATCH_GROUP_COUNT, ATTR_OPERAND_PRECISION};
    Instruction *sides[2] = {call_take(c, "a factor"), NULL};
    sides[1] = c->trouble == NULL ? call_take(c, "a factor") : NULL;
    /* It does not say what it convolves. */
    c->is_left = c->trouble == NULL && inst_attr(c->inst, ATTR_DIM_LABELS) == NULL;
    if (c->trouble != NULL || c->is_left)
        return NULL;
    Instruction *conv = rw_add(&c->r, OP_CONVOLUTION,
                               shape_with_dtype(c->r.m->intern, c->shape, t), 2, sides);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const Attr *a = inst_attr(c->inst, kept[i]);
        if (a != NULL)
            inst_set(conv, *a);
    }
    return conv;
}

/* -- activations ---------------------------------------------------------------------------------- */

static Instruction *identity(Call *c, Instruction *x)
{
    (void)c;
    return x;
}

static Instruction *relu6(Call *c, Instruction *x)
{
    Rewriter *r = &c->r;
    x = call_relu(c, x);
    return rw_binary(r, OP_MINIMUM, x->shape, x, rw_splat(r, x->shape, 6));
}

static Instruction *sigmoid(Call *c, Instruction *x)
{
    return rw_unary(&c->r, OP_LOGISTIC, x->shape, x);
}

static Instruction *hyperbolic_tangent(Call *c, Instruction *x)
{
    return rw_unary(&c->r, OP_TANH, x->shape, x);
}

/* x where it is above zero, else y. */
static Instruction *where_positive(Call *c, Instruction *x, Instruction *y)
{
    Rewriter *r = &c->r;
    Instruction *is_positive = rw_compare(r, x, rw_splat(r, x->shape, 0), DIRECTION_GT);
    return rw_add(r, OP_SELECT, x->shape, 3, (Instruction *[]){is_positive, x, y});
}

static Instruction *elu(Call *c, Instruction *x)
{
    return where_positive(c, x, rw_unary(&c->r, OP_EXPONENTIAL_MINUS_ONE, x->shape, x));
}

static Instruction *leaky_relu(Call *c, Instruction *x)
{
    return where_positive(c, x, call_times(c, x, call_number(c, "leakyrelu_alpha", 0)));
}

/* By their names in the configuration, or their numbers there. */
static const struct Activation {
    const char *name, *number;
    Instruction *(*apply)(Call *c, Instruction *x);
    bool takes_integers;
} activations[] = {
    {"kNone", "0", identity, true},
    {"kSigmoid", "1", sigmoid, false},
    {"kRelu", "2", call_relu, true},
    {"kRelu6", "3", relu6, true},
    {"kTanh", "5", hyperbolic_tangent, false},
    {"kElu", "7", elu, false},
    {"kLeakyRelu", "8", leaky_relu, false},
};

/* NULL: not known, as the call's trouble says. */
static const struct Activation *activation_of(Call *c)
{
    json_t *value = json_object_get(c->config, "activation_mode");
    const char *name = call_word(c, "activation_mode", "kNone");
    if (value != NULL && !json_is_string(value) && !json_is_integer(value) &&
        !json_is_null(value)) {
        call_fail(c, "its activation_mode is no name and no number of one");
        return NULL;
    }
    if (json_is_integer(value))
        name = arena_printf(c->r.m->arena, "%lld", (long long)json_integer_value(value));
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const struct Activation *a = &activations[i];
        if (strcmp(a->name, name) != 0 && strcmp(a->number, name) != 0)
            continue;
        DType t = c->shape->dtype;
        if (dtype_is_float(t) || a->apply == identity ||
            (a->takes_integers && dtype_is_integer(t)))
            return a;
        c->is_unsupported |= c->trouble == NULL;
        call_fail(c, arena_printf(c->r.m->arena, "%s of %s", a->name, dtype_name(t)));
        return NULL;
    }
    call_fail(
        c, arena_printf(c->r.m->arena, "its activation_mode \"%s\" is not known", name));
    return NULL;
}

/* cuDNN computes what becomes narrow integers in f32, and stores the nearest that there is. */
static bool is_saturated(DType t)
{
    return dtype_is_integer(t) && dtype_info[t].bits < 32;
}

/* That sums of narrow results are exact in: products of floats are no integers. */
static DType exact_type(const Call *c)
{
    bool is_integer = true;
    for (uint32_t i = 0; i < 2 && i < c->inst->operand_count; i++)
        is_integer &= dtype_is_integer(c->inst->operands[i]->shape->dtype);
    return is_integer ? DT_S32 : DT_F32;
}

static Instruction *saturated(Call *c, Instruction *x)
{
    DType t = c->shape->dtype;
    unsigned bits = dtype_info[t].bits;
    double least = dtype_is_signed(t) ? -(double)(INT64_C(1) << (bits - 1)) : 0;
    double most = least + (double)(INT64_C(1) << bits) - 1;
    return call_clamped(c, rw_unary(&c->r, OP_ROUND_NEAREST_EVEN, x->shape, x), least,
                        most);
}

/* act(scale * x w + side_scale * side + bias); the operands are x, w, bias, side. */
static Instruction *convolution(Call *c, bool has_bias)
{
    double scale = call_number(c, "conv_result_scale", 1),
           side = call_number(c, "side_input_scale", 0);
    const struct Activation *act = activation_of(c);
    if (c->trouble != NULL)
        return NULL;
    bool is_plain = scale == 1 && !has_bias && act->apply == identity,
         is_narrow = is_saturated(c->shape->dtype);
    Instruction *x = make_convolution(c, is_narrow  ? exact_type(c)
                                         : is_plain ? c->shape->dtype
                                                    : call_wide(c));
    if (x == NULL)
        return NULL;
    x = call_times(c, is_narrow ? call_as(c, x, DT_F32) : x, scale);
    if (has_bias)
        x = call_plus_vector(c, x,
                             inst_attr(c->inst, ATTR_DIM_LABELS)->labels->out_feature);
    if (x != NULL && side != 0)
        x = call_plus_matrix(c, x, side, call_take_matrix(c));
    if (x == NULL)
        return NULL;
    x = act->apply(c, x);
    return call_as(c, is_narrow ? saturated(c, x) : x, c->shape->dtype);
}

Instruction *call_read_convolution(Call *c)
{
    return convolution(c, false);
}

Instruction *call_read_bias_convolution(Call *c)
{
    return convolution(c, true);
}

/* -- gradients of convolutions --------------------------------------------------------------------- */

/* So that no sum or product of two overflows. */
static bool is_moderate(int64_t x)
{
    return x > -(INT64_C(1) << 30) && x < INT64_C(1) << 30;
}

static bool is_moderate_dim(const WindowDim *w)
{
    return w->size > 0 && w->stride > 0 && w->window_dilation > 0 &&
           is_moderate(w->size) && is_moderate(w->stride) &&
           is_moderate(w->window_dilation) && is_moderate(w->pad_low);
}

/* Labels and window of the convolution whose gradient it is. */
static const DimLabels *forward_labels(Call *c, const Window **window)
{
    const Attr *labels = inst_attr(c->inst, ATTR_DIM_LABELS),
               *of = inst_attr(c->inst, ATTR_WINDOW);
    if (labels == NULL || of == NULL || c->inst->operand_count < 2 ||
        of->window->rank != labels->labels->spatial_rank) {
        c->trouble = "it has no dim_labels, window or operands";
        return NULL;
    }
    const Shape *const shapes[3] = {c->inst->operands[0]->shape,
                                    c->inst->operands[1]->shape, c->shape};
    for (uint32_t i = 0; i < 3; i++) {
        if (!shape_is_array(shapes[i]) || shapes[i]->rank != of->window->rank + 2)
            c->trouble = "its arrays have other dimensions than its dim_labels";
        for (uint32_t d = 0; c->trouble == NULL && d < shapes[i]->rank; d++) {
            if (!is_moderate(shapes[i]->dims[d]))
                c->trouble = "its arrays are too large";
        }
    }
    for (uint32_t d = 0; d < of->window->rank; d++) {
        const WindowDim *w = &of->window->dims[d];
        if (w->reversal || w->base_dilation != 1)
            c->trouble = "its window is reversed, or dilates the image";
        else if (!is_moderate_dim(w))
            c->trouble = "its window is too large, or has sizes below 1";
    }
    *window = of->window;
    return c->trouble == NULL ? labels->labels : NULL;
}

/* Labels with other letters: each of `from` becomes that of `to`. */
static const char *relabelled(Call *c, const char *text, const char *from, const char *to)
{
    char *out = arena_printf(c->r.m->arena, "%s", text);
    for (char *at = out; *at != '\0'; at++) {
        const char *found = strchr(from, *at);
        *at = found != NULL ? to[found - from] : *at;
    }
    return out;
}

static void set_form(Call *c, Instruction *conv, const DimLabels *labels,
                     const WindowDim *dims)
{
    Arena *a = c->r.m->arena;
    DimLabels *l = ARENA_NEW(a, DimLabels);
    Window *w = ARENA_NEW(a, Window);
    *l = *labels;
    *w = (Window){labels->spatial_rank,
                  arena_copy(a, dims, labels->spatial_rank * sizeof *dims)};
    inst_set(conv, (Attr){.id = ATTR_DIM_LABELS, .labels = l});
    inst_set(conv, (Attr){.id = ATTR_WINDOW, .window = w});
}

static Instruction *gradient(Call *c, const DimLabels *labels, const WindowDim *dims)
{
    double scale = call_number(c, "conv_result_scale", 1);
    const struct Activation *act = activation_of(c);
    if (call_number(c, "side_input_scale", 0) != 0 ||
        (act != NULL && act->apply != identity))
        call_fail(c, "it is a gradient, but has an activation or a side input");
    else if (inst_int(c->inst, ATTR_BATCH_GROUP_COUNT, 1) != 1)
        call_fail(c, "it is a gradient, but has a batch_group_count");
    Instruction *sides[2] = {call_take(c, "a factor"), NULL};
    sides[1] = c->trouble == NULL ? call_take(c, "a factor") : NULL; /* in this order */
    if (c->trouble != NULL)
        return NULL;
    DType t = scale == 1 ? c->shape->dtype : call_wide(c);
    Instruction *conv = rw_add(&c->r, OP_CONVOLUTION,
                               shape_with_dtype(c->r.m->intern, c->shape, t), 2, sides);
    const Attr *precision = inst_attr(c->inst, ATTR_OPERAND_PRECISION);
    if (precision != NULL)
        inst_set(conv, *precision);
    set_form(c, conv, labels, dims);
    return conv;
}

static Instruction *scaled(Call *c, Instruction *conv)
{
    return conv == NULL
               ? NULL
               : call_as(c, call_times(c, conv, call_number(c, "conv_result_scale", 1)),
                         c->shape->dtype);
}

/* The filter with inputs and outputs of each group exchanged: [inputs / groups, outputs] becomes
 * [inputs, outputs / groups], at the places that they had. NULL: trouble says why. */
static Instruction *turned_filter(Call *c, Instruction *w, const DimLabels *l,
                                  int64_t groups)
{
    int64_t apart[CALL_MOST_RANK + 1], order[CALL_MOST_RANK + 1], own[CALL_MOST_RANK],
        at[CALL_MOST_RANK];
    uint32_t rank = w->shape->rank, n = 0;
    if (groups < 1 || !is_moderate(groups) || !rw_is_static(w->shape) ||
        w->shape->dims[l->rhs_output] % groups != 0) {
        c->trouble = "its groups of features do not divide the outputs of its filter";
        return NULL;
    }
    for (uint32_t d = 0; d < rank; d++) {
        bool is_output = d == l->rhs_output;
        own[d] = w->shape->dims[d] / (is_output ? groups : 1);
        if (is_output)
            apart[n++] = groups;
        at[d] = n;
        apart[n++] = own[d];
    }
    n = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (d == l->rhs_input)
            order[n++] = at[l->rhs_output] - 1; /* the groups */
        order[n++] = at[d];
    }
    own[l->rhs_input] *= groups;
    DType t = w->shape->dtype;
    w = rw_reshape(&c->r, rw_shape(&c->r, t, rank + 1, apart), w);
    return rw_reshape(&c->r, rw_shape(&c->r, t, rank, own), rw_in_order(&c->r, w, order));
}

/* That of the image: the result's gradient, spread by the strides, with the filter the other way round. */
Instruction *call_read_image_gradient(Call *c)
{
    const Window *w;
    const DimLabels *l = forward_labels(c, &w);
    WindowDim dims[CALL_MOST_RANK];
    if (l == NULL)
        return NULL;
    for (uint32_t d = 0; d < w->rank; d++) {
        const WindowDim *of = &w->dims[d];
        int64_t image = c->shape->dims[l->lhs_spatial[d]];
        int64_t made = c->inst->operands[0]->shape->dims[l->out_spatial[d]];
        int64_t reach = (of->size - 1) * of->window_dilation;
        int64_t low = reach - of->pad_low;
        dims[d] =
            (WindowDim){.size = of->size,
                        .stride = 1,
                        .pad_low = low,
                        .pad_high = image - 1 + reach - (made - 1) * of->stride - low,
                        .base_dilation = of->stride,
                        .window_dilation = of->window_dilation,
                        .reversal = true};
    }
    const DimLabels labels = {.spatial_rank = l->spatial_rank,
                              .lhs_batch = l->out_batch,
                              .lhs_feature = l->out_feature,
                              .rhs_input = l->rhs_output,
                              .rhs_output = l->rhs_input,
                              .out_batch = l->lhs_batch,
                              .out_feature = l->lhs_feature,
                              .lhs_spatial = l->out_spatial,
                              .rhs_spatial = l->rhs_spatial,
                              .out_spatial = l->lhs_spatial,
                              .lhs_text = l->out_text,
                              .rhs_text = relabelled(c, l->rhs_text, "io", "oi"),
                              .out_text = l->lhs_text};
    Instruction *conv = gradient(c, &labels, dims);
    int64_t groups = inst_int(c->inst, ATTR_FEATURE_GROUP_COUNT, 1);
    if (conv != NULL && groups != 1) {
        Instruction *turned = turned_filter(c, conv->operands[1], l, groups);
        if (turned == NULL)
            return NULL;
        conv->operands[1] = turned;
        inst_set_int(conv, ATTR_FEATURE_GROUP_COUNT, groups);
    }
    return scaled(c, conv);
}

/* That of the filter: the image under the result's gradient, summed over the batch. */
Instruction *call_read_filter_gradient(Call *c)
{
    const Window *w;
    const DimLabels *l = forward_labels(c, &w);
    WindowDim dims[CALL_MOST_RANK];
    if (l == NULL)
        return NULL;
    for (uint32_t d = 0; d < w->rank; d++) {
        const WindowDim *of = &w->dims[d];
        int64_t image = c->inst->operands[0]->shape->dims[l->lhs_spatial[d]];
        int64_t made = c->inst->operands[1]->shape->dims[l->out_spatial[d]];
        int64_t reach = (made - 1) * of->stride;
        dims[d] = (WindowDim){.size = made,
                              .stride = of->window_dilation,
                              .pad_low = of->pad_low,
                              .pad_high = (of->size - 1) * of->window_dilation + reach +
                                          1 - image - of->pad_low,
                              .base_dilation = 1,
                              .window_dilation = of->stride};
    }
    const DimLabels labels = {.spatial_rank = l->spatial_rank,
                              .lhs_batch = l->lhs_feature,
                              .lhs_feature = l->lhs_batch,
                              .rhs_input = l->out_batch,
                              .rhs_output = l->out_feature,
                              .out_batch = l->rhs_input,
                              .out_feature = l->rhs_output,
                              .lhs_spatial = l->lhs_spatial,
                              .rhs_spatial = l->out_spatial,
                              .out_spatial = l->rhs_spatial,
                              .lhs_text = relabelled(c, l->lhs_text, "bf", "fb"),
                              .rhs_text = relabelled(c, l->out_text, "bf", "io"),
                              .out_text = relabelled(c, l->rhs_text, "io", "bf")};
    Instruction *conv = gradient(c, &labels, dims);
    int64_t groups = inst_int(c->inst, ATTR_FEATURE_GROUP_COUNT, 1);
    if (conv != NULL && groups != 1)
        inst_set_int(conv, ATTR_BATCH_GROUP_COUNT, groups);
    return scaled(c, conv);
}
