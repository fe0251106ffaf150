/* See library_calls.h. */
#include "frontend/input/library_calls.h"

#include <string.h>

#include "frontend/input/library_call.h"
#include "ir/attribute/config.h"
#include "ir/custom_call/custom_call.h"
#include "ir/number/number.h"

/* -- the configuration ----------------------------------------------------------------------------- */

double call_number(Call *c, const char *key, double missing)
{
    json_t *value = json_object_get(c->config, key);
    if (value != NULL && !json_is_number(value))
        c->trouble = arena_printf(c->r.m->arena, "its \"%s\" is no number", key);
    return json_is_number(value) ? json_number_value(value) : missing;
}

const char *call_word(const Call *c, const char *key, const char *missing)
{
    const char *word = json_string_value(json_object_get(c->config, key));
    return word != NULL ? word : missing;
}

/* Integers of 64 bits are strings in this JSON. */
static bool integer_of(const json_t *value, int64_t *out)
{
    const char *text = json_string_value(value);
    *out = json_integer_value(value);
    if (text == NULL)
        return json_is_integer(value);
    bool fits = strlen(text) == 1 && text[0] >= '0' && text[0] < '0' + CALL_MOST_RANK;
    *out = fits ? text[0] - '0' : -1;
    return fits;
}

bool call_dims(Call *c, json_t *numbers, const char *key, int64_t *out, uint32_t *count)
{
    json_t *list = json_object_get(numbers, key);
    size_t n = json_array_size(list);
    *count = (uint32_t)n;
    if (!json_is_object(numbers) || (list != NULL && !json_is_array(list)) ||
        n > CALL_MOST_RANK) {
        c->trouble =
            "its \"dot_dimension_numbers\" are missing or no lists of dimensions";
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!integer_of(json_array_get(list, i), &out[i])) {
            c->trouble = arena_printf(c->r.m->arena, "its \"%s\" are no dimensions", key);
            return false;
        }
    }
    return true;
}

/* Dimensions by the name that the JSON has for them, as an attribute of the dot. */
static void set_dims(Call *c, Instruction *dot, const char *key, AttrId attribute)
{
    int64_t dims[CALL_MOST_RANK];
    uint32_t n;
    json_t *numbers = json_object_get(c->config, "dot_dimension_numbers");
    if (call_dims(c, numbers, key, dims, &n) && n != 0)
        inst_set_ints(dot, attribute, dims, n);
}

static void set_precision(Call *c, Instruction *product)
{
    static const char *const words[] = {[PRECISION_DEFAULT] = "DEFAULT",
                                        [PRECISION_HIGH] = "HIGH",
                                        [PRECISION_HIGHEST] = "HIGHEST"};
    json_t *list = json_object_get(json_object_get(c->config, "precision_config"),
                                   "operand_precision");
    int64_t precision[2] = {PRECISION_DEFAULT, PRECISION_DEFAULT};
    for (size_t i = 0; i < 2 && i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        for (int64_t w = PRECISION_HIGH; word != NULL && w <= PRECISION_HIGHEST; w++) {
            if (strcmp(word, words[w]) == 0)
                precision[i] = w;
        }
    }
    if (precision[0] != PRECISION_DEFAULT || precision[1] != PRECISION_DEFAULT)
        inst_set_ints(product, ATTR_OPERAND_PRECISION, precision, 2);
}

/* -- building ------------------------------------------------------------------------------------ */

/* The next operand; NULL: there is none. */
Instruction *call_take(Call *c, const char *what)
{
    if (c->next < c->inst->operand_count)
        return c->inst->operands[c->next++];
    c->trouble = arena_printf(c->r.m->arena, "it has no operand %u, %s", c->next, what);
    return NULL;
}

static const Shape *with_type(Call *c, const Shape *s, DType t)
{
    return shape_with_dtype(c->r.m->intern, s, t);
}

/* In the type that sums are made in. */
static DType wide(const Call *c)
{
    DType t = c->shape->dtype;
    return dtype_is_float(t) && dtype_info[t].bits < 32 ? DT_F32 : t;
}

Instruction *call_as(Call *c, Instruction *x, DType t)
{
    return x->shape->dtype == t ? x : rw_convert(&c->r, with_type(c, x->shape, t), x);
}

Instruction *call_times(Call *c, Instruction *x, double factor)
{
    return factor == 1 ? x
                       : rw_binary(&c->r, OP_MULTIPLY, x->shape, x,
                                   rw_splat(&c->r, x->shape, factor));
}

Instruction *call_results(Call *c, Instruction **made, uint32_t count)
{
    const Shape *s = c->inst->shape;
    bool fits = s->rank == count + 1 && shape_is_array(s->elements[count]) &&
                dtype_is_integer(s->elements[count]->dtype);
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = shape_is_array(s->elements[i]) && dtype_is_float(s->elements[i]->dtype) &&
               shape_same_dims(s->elements[i], made[i]->shape);
        if (fits)
            made[i] = rw_in_layout(&c->r, s->elements[i],
                                   call_as(c, made[i], s->elements[i]->dtype));
    }
    if (!fits) {
        c->trouble = "its results are not those of its operands, and a workspace";
        return NULL;
    }
    made[count] = rw_splat_int(&c->r, s->elements[count], 0);
    return rw_add(&c->r, OP_TUPLE, s, count + 1, made);
}

static Instruction *take_matrix(Call *c)
{
    return call_take(c, "a matrix that is added");
}

/* x + factor * y, an operand of its shape. */
static Instruction *plus_matrix(Call *c, Instruction *x, double factor, Instruction *y)
{
    if (y == NULL)
        return NULL;
    if (!shape_is_array(y->shape) || !shape_same_dims(y->shape, x->shape)) {
        c->trouble = "the matrix that is added has another shape than the result";
        return NULL;
    }
    y = call_times(c, call_as(c, y, x->shape->dtype), factor);
    return rw_binary(&c->r, OP_ADD, x->shape, x, y);
}

/* x + a vector along dimension `dim`. */
static Instruction *plus_vector(Call *c, Instruction *x, int64_t dim)
{
    Instruction *y = call_take(c, "a bias");
    if (y == NULL)
        return NULL;
    if (dim >= x->shape->rank || !shape_is_array(y->shape) || y->shape->rank != 1 ||
        y->shape->dims[0] != x->shape->dims[dim]) {
        c->trouble = "its bias is no vector of the result's size";
        return NULL;
    }
    y = rw_broadcast(&c->r, x->shape, call_as(c, y, x->shape->dtype), 1, &dim);
    return rw_binary(&c->r, OP_ADD, x->shape, x, y);
}

static Instruction *relu(Call *c, Instruction *x)
{
    return rw_binary(&c->r, OP_MAXIMUM, x->shape, x, rw_splat(&c->r, x->shape, 0));
}

/* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static Instruction *gelu(Call *c, Instruction *x)
{
    Rewriter *r = &c->r;
    const Shape *s = x->shape;
    Instruction *cube =
        rw_binary(r, OP_MULTIPLY, s, x, rw_binary(r, OP_MULTIPLY, s, x, x));
    Instruction *inner = rw_binary(r, OP_ADD, s, x, call_times(c, cube, 0.044715));
    inner = rw_unary(r, OP_TANH, s, call_times(c, inner, 0.7978845608028654));
    Instruction *outer = rw_binary(r, OP_ADD, s, inner, rw_splat(r, s, 1));
    return rw_binary(r, OP_MULTIPLY, s, call_times(c, x, 0.5), outer);
}

/* -- products ------------------------------------------------------------------------------------ */

/* What follows the product: a bias along the last dimension, and a function; what that is taken of may be a result, too. */
static const struct Epilogue {
    const char *name;
    bool has_bias, has_relu, has_gelu, keeps_input;
} epilogues[] = {
    {.name = "DEFAULT"},
    {"BIAS", .has_bias = true},
    {"RELU", .has_relu = true},
    {"GELU", .has_gelu = true},
    {"GELU_AUX", .has_gelu = true, .keeps_input = true},
    {"BIAS_RELU", .has_bias = true, .has_relu = true},
    {"BIASRELU", .has_bias = true, .has_relu = true},
    {"BIAS_GELU", .has_bias = true, .has_gelu = true},
    {"BIASGELU", .has_bias = true, .has_gelu = true},
    {"BIAS_GELU_AUX", .has_bias = true, .has_gelu = true, .keeps_input = true}};

static const struct Epilogue *epilogue_of(Call *c)
{
    const char *name = call_word(c, "epilogue", "DEFAULT");
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++) {
        if (strcmp(name, epilogues[i].name) == 0)
            return &epilogues[i];
    }
    c->trouble = arena_printf(c->r.m->arena, "its epilogue \"%s\" is not known", name);
    return NULL;
}

static Instruction *make_dot(Call *c, DType t)
{
    Instruction *sides[2] = {call_take(c, "a factor"), NULL};
    sides[1] = c->trouble == NULL ? call_take(c, "a factor") : NULL;
    if (c->trouble != NULL)
        return NULL;
    Instruction *dot = rw_add(&c->r, OP_DOT, with_type(c, c->shape, t), 2, sides);
    set_dims(c, dot, "lhs_contracting_dimensions", ATTR_LHS_CONTRACTING_DIMS);
    set_dims(c, dot, "rhs_contracting_dimensions", ATTR_RHS_CONTRACTING_DIMS);
    set_dims(c, dot, "lhs_batch_dimensions", ATTR_LHS_BATCH_DIMS);
    set_dims(c, dot, "rhs_batch_dimensions", ATTR_RHS_BATCH_DIMS);
    set_precision(c, dot);
    return c->trouble == NULL ? dot : NULL;
}

/* x times the next operand, one number. */
static Instruction *times_scale(Call *c, Instruction *x)
{
    Instruction *scale = x != NULL ? call_take(c, "a scale") : NULL;
    if (scale == NULL)
        return NULL;
    if (!shape_is_array(scale->shape) || scale->shape->rank != 0 ||
        scale->shape->dtype != DT_F32) {
        c->trouble = "its scale of a factor is no f32[]";
        return NULL;
    }
    return rw_binary(&c->r, OP_MULTIPLY, x->shape, x,
                     rw_broadcast(&c->r, x->shape, scale, 0, NULL));
}

/* act(alpha * lhs rhs + beta * c + bias), not rounded yet; the product times as many scales, operands behind c. */
static Instruction *wide_product(Call *c, uint32_t scales)
{
    double alpha = call_number(c, "alpha_real", 1), beta = call_number(c, "beta", 0);
    const struct Epilogue *e = epilogue_of(c);
    if (c->trouble == NULL && call_number(c, "alpha_imag", 0) != 0)
        c->trouble = "its \"alpha_imag\" is not 0";
    if (c->trouble != NULL)
        return NULL;
    bool is_plain = alpha == 1 && beta == 0 && !e->has_bias && !e->has_relu &&
                    !e->has_gelu && scales == 0;
    Instruction *x = make_dot(c, is_plain ? c->shape->dtype : wide(c));
    Instruction *matrix = x != NULL && beta != 0 ? take_matrix(c) : NULL;
    for (uint32_t i = 0; i < scales; i++)
        x = times_scale(c, x);
    x = x != NULL ? call_times(c, x, alpha) : NULL;
    if (x != NULL && beta != 0)
        x = plus_matrix(c, x, beta, matrix);
    if (x != NULL && e->has_bias)
        x = plus_vector(c, x, (int64_t)c->shape->rank - 1);
    if (x == NULL)
        return NULL;
    if (e->keeps_input)
        c->second = x;
    return e->has_relu ? relu(c, x) : e->has_gelu ? gelu(c, x) : x;
}

static Instruction *read_product(Call *c)
{
    Instruction *x = wide_product(c, 0);
    return x != NULL ? call_as(c, x, c->shape->dtype) : NULL;
}

/* The largest size of an element. */
static Instruction *largest(Call *c, Instruction *x)
{
    Rewriter *r = &c->r;
    const Shape *s = shape_scalar(r->m->intern, DT_F32);
    int64_t dims[CALL_MOST_RANK];
    for (uint32_t d = 0; d < x->shape->rank; d++)
        dims[d] = d;
    Instruction *reduce =
        rw_binary(r, OP_REDUCE, s, rw_unary(r, OP_ABS, x->shape, x), rw_splat(r, s, 0));
    inst_set_ints(reduce, ATTR_DIMENSIONS, dims, x->shape->rank);
    inst_set_computation(reduce, ATTR_TO_APPLY,
                         module_add_reducer(r->m, OP_MAXIMUM, DT_F32));
    return reduce;
}

/* Times a scale, if there is one, and to the largest number of f8 where it would leave its range. */
static Instruction *narrowed(Call *c, Instruction *x)
{
    double most = number_max_finite(c->shape->dtype);
    if (c->next < c->inst->operand_count)
        x = times_scale(c, x);
    if (x == NULL)
        return NULL;
    Instruction *sides[3] = {rw_splat(&c->r, x->shape, -most), x,
                             rw_splat(&c->r, x->shape, most)};
    return call_as(c, rw_add(&c->r, OP_CLAMP, x->shape, 3, sides), c->shape->dtype);
}

/* Of f8, each factor times a number. A result of f8 may have a scale of its own, the last operand; the second result is then the
 * largest size of what is scaled. */
static Instruction *read_f8_product(Call *c)
{
    DType t = c->shape->dtype;
    bool is_narrow = dtype_is_float(t) && dtype_info[t].bits == 8;
    if (!dtype_is_float(t) || (!is_narrow && dtype_info[t].bits < 16)) {
        c->trouble = arena_printf(c->r.m->arena,
                                  "its result of %s is not read: f8, bf16, f16 or f32 is",
                                  dtype_name(t));
        return NULL;
    }
    Instruction *x = wide_product(c, 2);
    if (x == NULL || !is_narrow)
        return x != NULL ? call_as(c, x, t) : NULL;
    if (c->second == NULL && shape_leaf_count(c->inst->shape) == 3)
        c->second = largest(c, x);
    return narrowed(c, x);
}

/* -- convolutions -------------------------------------------------------------------------------- */

static Instruction *make_convolution(Call *c, DType t)
{
    static const AttrId kept[] = {ATTR_WINDOW, ATTR_DIM_LABELS, ATTR_FEATURE_GROUP_COUNT,
                                  ATTR_BATCH_GROUP_COUNT, ATTR_OPERAND_PRECISION};
    Instruction *sides[2] = {call_take(c, "a factor"), NULL};
    sides[1] = c->trouble == NULL ? call_take(c, "a factor") : NULL;
    if (c->trouble == NULL && inst_attr(c->inst, ATTR_DIM_LABELS) == NULL)
        c->trouble = "it has no dim_labels";
    if (c->trouble != NULL)
        return NULL;
    Instruction *conv =
        rw_add(&c->r, OP_CONVOLUTION, with_type(c, c->shape, t), 2, sides);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const Attr *a = inst_attr(c->inst, kept[i]);
        if (a != NULL)
            inst_set(conv, *a);
    }
    return conv;
}

/* act(scale * x w + side_scale * side + bias); the operands are x, w, bias, side. */
static Instruction *convolution(Call *c, bool has_bias)
{
    double scale = call_number(c, "conv_result_scale", 1),
           side = call_number(c, "side_input_scale", 0);
    const char *act = call_word(c, "activation_mode", "kNone");
    bool has_relu = strcmp(act, "kRelu") == 0;
    if (c->trouble == NULL && !has_relu && strcmp(act, "kNone") != 0)
        c->trouble =
            arena_printf(c->r.m->arena, "its activation_mode \"%s\" is not known", act);
    if (c->trouble != NULL)
        return NULL;
    bool is_plain = scale == 1 && !has_bias && !has_relu;
    Instruction *x = make_convolution(c, is_plain ? c->shape->dtype : wide(c));
    if (x == NULL)
        return NULL;
    x = call_times(c, x, scale);
    if (has_bias)
        x = plus_vector(c, x, inst_attr(c->inst, ATTR_DIM_LABELS)->labels->out_feature);
    if (x != NULL && side != 0)
        x = plus_matrix(c, x, side, take_matrix(c));
    if (x == NULL)
        return NULL;
    return call_as(c, has_relu ? relu(c, x) : x, c->shape->dtype);
}

static Instruction *read_convolution(Call *c)
{
    return convolution(c, false);
}

static Instruction *read_bias_convolution(Call *c)
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
    Instruction *sides[2] = {call_take(c, "a factor"), call_take(c, "a factor")};
    if (c->trouble != NULL)
        return NULL;
    DType t = scale == 1 ? c->shape->dtype : wide(c);
    Instruction *conv =
        rw_add(&c->r, OP_CONVOLUTION, with_type(c, c->shape, t), 2, sides);
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

/* That of the image: the result's gradient, spread by the strides, with the filter the other way round. */
static Instruction *read_image_gradient(Call *c)
{
    const Window *w;
    const DimLabels *l = forward_labels(c, &w);
    WindowDim dims[CALL_MOST_RANK];
    if (l != NULL && inst_int(c->inst, ATTR_FEATURE_GROUP_COUNT, 1) != 1)
        c->trouble = "it has groups of features, which are not read";
    if (c->trouble != NULL)
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
    return scaled(c, gradient(c, &labels, dims));
}

/* That of the filter: the image under the result's gradient, summed over the batch. */
static Instruction *read_filter_gradient(Call *c)
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

/* -- calls --------------------------------------------------------------------------------------- */

static const struct Callee {
    const char *name, *config;
    CallReadFn *read;
    bool needs_config;
    bool is_whole; /* the function makes all results */
} targets[] = {
    {"__cublas$gemm", "gemm_backend_config", read_product, true, false},
    {"__cublas$lt$matmul", "gemm_backend_config", read_product, true, false},
    {"__cublas$lt$matmul$f8", "gemm_backend_config", read_f8_product, true, false},
    {"__cudnn$convForward", "cudnn_conv_backend_config", read_convolution, false, false},
    {"__cudnn$convBackwardInput", "cudnn_conv_backend_config", read_image_gradient, false,
     false},
    {"__cudnn$convBackwardFilter", "cudnn_conv_backend_config", read_filter_gradient,
     false, false},
    {"__cudnn$convBiasActivationForward", "cudnn_conv_backend_config",
     read_bias_convolution, false, false},
    {"__cudnn$fmhaSoftmax", "cudnn_fmha_backend_config", call_read_attention, true, true},
    {"__cudnn$fmhaSoftmaxBackward", "cudnn_fmha_backend_config",
     call_read_attention_gradient, true, true},
    {"__cudnn$fmhaScaleBiasSoftmax", "cudnn_fmha_backend_config",
     call_read_attention_bias, true, true},
    {"__cudnn$fmhaScaleBiasSoftmaxBackward", "cudnn_fmha_backend_config",
     call_read_attention_gradient_bias, true, true},
    {"__cudnn$norm", "cudnn_norm_backend_config", call_read_norm, true, true},
};

static const struct Callee *target_of(const Instruction *inst)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (custom_call_has_target(inst, targets[i].name))
            return &targets[i];
    }
    return NULL;
}

/* The result, or both, and zeros for what was the library's workspace. */
static Instruction *with_workspace(Call *c, Instruction *result)
{
    const Shape *s = c->inst->shape;
    if (shape_is_array(s))
        return result;
    uint32_t last = (uint32_t)shape_leaf_count(s) - 1;
    Instruction *leaves[3] = {result};
    if (last == 2)
        leaves[1] = rw_in_layout(&c->r, shape_leaf(s, 1),
                                 call_as(c, c->second, shape_leaf(s, 1)->dtype));
    leaves[last] = rw_splat_int(&c->r, shape_leaf(s, last), 0);
    return rw_add(&c->r, OP_TUPLE, s, last + 1, leaves);
}

/* A second result is one that the call has. */
static bool has_second(Call *c)
{
    const Shape *s = c->inst->shape;
    if (shape_is_array(s) || shape_leaf_count(s) == 2)
        return true;
    if (c->second == NULL)
        c->trouble = "it has a second result that its configuration does not";
    else if (!shape_is_array(shape_leaf(s, 1)) ||
             !shape_same_dims(shape_leaf(s, 1), c->second->shape) ||
             !dtype_is_float(shape_leaf(s, 1)->dtype))
        c->trouble = "its second result has another shape than the configuration says";
    return c->trouble == NULL;
}

static bool has_form(Call *c)
{
    const Shape *s = c->inst->shape;
    size_t n = shape_leaf_count(s);
    bool has_workspace = !shape_is_array(s) && (n == 2 || n == 3) && s->rank == n &&
                         dtype_is_integer(shape_leaf(s, n - 1)->dtype);
    for (size_t i = 0; i < n && has_workspace; i++)
        has_workspace = shape_is_array(s->elements[i]);
    if (!shape_is_array(s) && !has_workspace)
        c->trouble = "its result is not one or two arrays, or those and a workspace";
    else if (c->shape->rank == 0 || c->shape->rank > CALL_MOST_RANK)
        c->trouble = "its result has no dimensions, or too many";
    return c->trouble == NULL;
}

/* The call itself where it does not say what it multiplies; NULL after a message. */
static Instruction *read_call(Instruction *inst, const struct Callee *target,
                              Arena *scratch)
{
    Module *m = inst->parent->module;
    Bytes text = config_text(inst);
    Call c = {.r = {.m = m, .comp = inst->parent, .scratch = scratch, .at = inst},
              .inst = inst,
              .shape =
                  shape_leaf_count(inst->shape) != 0 ? shape_leaf(inst->shape, 0) : NULL};
    json_t *root = text.length != 0 ? json_loadb(text.data, text.length, 0, NULL) : NULL;
    c.config = json_object_get(root, target->config);
    Instruction *result = NULL;
    if (target->needs_config && !json_is_object(c.config)) {
        json_decref(root);
        return inst;
    }
    if (text.length != 0 && root == NULL)
        c.trouble = "its backend_config is no JSON";
    else if (c.shape == NULL)
        c.trouble = "its result is an empty tuple";
    else if (target->is_whole || has_form(&c))
        result = target->read(&c);
    if (result != NULL && c.trouble == NULL && c.next != inst->operand_count)
        c.trouble = arena_printf(m->arena, "it has %u operands, of which %u are read",
                                 inst->operand_count, c.next);
    if (result != NULL && c.trouble == NULL && !target->is_whole)
        has_second(&c);
    json_decref(root);
    if (c.is_left)
        return inst;
    if (c.trouble != NULL) {
        diag_error(m->diag, inst->span, "%s: %s", target->name, c.trouble);
        return NULL;
    }
    return target->is_whole ? result : with_workspace(&c, result);
}

static bool read_in(Computation *comp, Arena *scratch)
{
    bool is_good = true, changed = false;
    uint32_t count = comp->instruction_count;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        const struct Callee *target = inst != NULL ? target_of(inst) : NULL;
        if (target == NULL)
            continue;
        Instruction *result = read_call(inst, target, scratch);
        is_good &= result != NULL;
        if (result == NULL || result == inst)
            continue;
        computation_replace_one(comp, inst, result);
        computation_remove(comp, inst);
        changed = true;
    }
    if (changed && is_good)
        computation_sort(comp);
    return is_good;
}

bool library_calls_read(Module *m, Arena *scratch)
{
    bool is_good = true;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        is_good &= read_in(comp, scratch);
    return is_good;
}
