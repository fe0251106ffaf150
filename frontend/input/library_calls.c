/* See library_calls.h. */
#include "frontend/input/library_calls.h"

#include <math.h>
#include <string.h>

#include "frontend/input/library_call.h"
#include "ir/attribute/config.h"
#include "ir/custom_call/custom_call.h"
#include "ir/number/number.h"

bool call_fail(Call *c, const char *trouble)
{
    if (c->trouble == NULL)
        c->trouble = trouble;
    return false;
}

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

/* A number stands for a name in this JSON, too: to take what is missing for it would compute something else. */
bool call_is_word(Call *c, const char *key)
{
    const json_t *value = json_object_get(c->config, key);
    if (value == NULL || json_is_string(value) || json_is_null(value))
        return true;
    c->is_unsupported |= c->trouble == NULL;
    return call_fail(c, arena_printf(c->r.m->arena, "its \"%s\" is no name", key));
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
        c->trouble = arena_printf(c->r.m->arena,
                                  "its \"%s\" are missing or no list of dimensions", key);
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
        const json_t *entry = json_array_get(list, i);
        const char *word = json_string_value(entry);
        for (int64_t w = PRECISION_HIGH; w <= PRECISION_HIGHEST; w++) {
            if (word != NULL ? strcmp(word, words[w]) == 0
                             : json_is_integer(entry) && json_integer_value(entry) == w)
                precision[i] = w; /* a number stands for a name in this JSON, too */
        }
    }
    if (precision[0] != PRECISION_DEFAULT || precision[1] != PRECISION_DEFAULT)
        inst_set_ints(product, ATTR_OPERAND_PRECISION, precision, 2);
}

/* "ALG_DOT_F32_F32_F32", as the JSON has it: HLO's word in capitals, behind ALG_. What is computed depends on it. */
static void set_algorithm(Call *c, Instruction *product)
{
    static const char prefix[] = "ALG_";
    const json_t *value =
        json_object_get(json_object_get(c->config, "precision_config"), "algorithm");
    const char *word = json_string_value(value);
    size_t start = sizeof prefix - 1;
    int64_t algorithm = ALGORITHM_UNSET;
    if (value == NULL || json_is_null(value))
        return;
    if (word == NULL || strncmp(word, prefix, start) != 0 ||
        !attr_enum_find(ATTR_ALGORITHM, word + start, strlen(word + start), &algorithm)) {
        c->is_unsupported |= c->trouble == NULL;
        call_fail(c, arena_printf(c->r.m->arena, "its algorithm \"%s\"",
                                  word != NULL ? word : "that is no name"));
    } else if (algorithm != ALGORITHM_UNSET) {
        inst_set_int(product, ATTR_ALGORITHM, algorithm);
    }
}

/* -- building ------------------------------------------------------------------------------------ */

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

DType call_wide(const Call *c)
{
    DType t = c->shape->dtype;
    return dtype_is_float(t) && dtype_info[t].bits < 32 ? DT_F32 : t;
}

Instruction *call_as(Call *c, Instruction *x, DType t)
{
    return x->shape->dtype == t ? x : rw_convert(&c->r, with_type(c, x->shape, t), x);
}

Instruction *call_clamped(Call *c, Instruction *x, double least, double most)
{
    Instruction *sides[3] = {rw_splat(&c->r, x->shape, least), x,
                             rw_splat(&c->r, x->shape, most)};
    return rw_add(&c->r, OP_CLAMP, x->shape, 3, sides);
}

Instruction *call_times(Call *c, Instruction *x, double factor)
{
    DType t = x->shape->dtype;
    if (dtype_is_integer(t) && (factor != trunc(factor) || fabs(factor) > INT32_MAX)) {
        c->is_unsupported |= c->trouble == NULL;
        call_fail(c, arena_printf(c->r.m->arena, "a result of %s times %g", dtype_name(t),
                                  factor));
        return x;
    }
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

Instruction *call_take_matrix(Call *c)
{
    return call_take(c, "a matrix that is added");
}

Instruction *call_plus_matrix(Call *c, Instruction *x, double factor, Instruction *y)
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

Instruction *call_plus_vector(Call *c, Instruction *x, int64_t dim)
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

Instruction *call_relu(Call *c, Instruction *x)
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
    if (!call_is_word(c, "epilogue"))
        return NULL;
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
    set_algorithm(c, dot);
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

static Instruction *times_complex(Call *c, Instruction *x, double re, double im)
{
    Rewriter *r = &c->r;
    const Shape *s = shape_scalar(r->m->intern, x->shape->dtype);
    Literal *l = literal_create(r->m->arena, s);
    literal_set_complex(l, 0, re, im);
    Instruction *factor = rw_broadcast(r, x->shape, rw_constant(r, l), 0, NULL);
    return rw_binary(r, OP_MULTIPLY, x->shape, x, factor);
}

/* act(alpha * lhs rhs + beta * c + bias), not rounded yet; the product times as many scales, operands behind c. */
static Instruction *wide_product(Call *c, uint32_t scales)
{
    double alpha = call_number(c, "alpha_real", 1), beta = call_number(c, "beta", 0);
    double imaginary = call_number(c, "alpha_imag", 0);
    const struct Epilogue *e = epilogue_of(c);
    if (imaginary != 0 && !dtype_is_complex(c->shape->dtype))
        call_fail(c, "its \"alpha_imag\" is not 0, but its result is not complex");
    if (c->trouble != NULL)
        return NULL;
    bool is_plain = alpha == 1 && beta == 0 && !e->has_bias && !e->has_relu &&
                    !e->has_gelu && scales == 0;
    Instruction *x = make_dot(c, is_plain ? c->shape->dtype : call_wide(c));
    Instruction *matrix = x != NULL && beta != 0 ? call_take_matrix(c) : NULL;
    for (uint32_t i = 0; i < scales; i++)
        x = times_scale(c, x);
    if (x != NULL)
        x = imaginary != 0 ? times_complex(c, x, alpha, imaginary)
                           : call_times(c, x, alpha);
    if (x != NULL && beta != 0)
        x = call_plus_matrix(c, x, beta, matrix);
    if (x != NULL && e->has_bias)
        x = call_plus_vector(c, x, (int64_t)c->shape->rank - 1);
    if (x == NULL)
        return NULL;
    if (e->keeps_input)
        c->second = x;
    return e->has_relu ? call_relu(c, x) : e->has_gelu ? gelu(c, x) : x;
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
    return call_as(c, call_clamped(c, x, -most, most), c->shape->dtype);
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
    {"__cudnn$convForward", "cudnn_conv_backend_config", call_read_convolution, false,
     false},
    {"__cudnn$convBackwardInput", "cudnn_conv_backend_config", call_read_image_gradient,
     false, false},
    {"__cudnn$convBackwardFilter", "cudnn_conv_backend_config", call_read_filter_gradient,
     false, false},
    {"__cudnn$convBiasActivationForward", "cudnn_conv_backend_config",
     call_read_bias_convolution, false, false},
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
        c->trouble = "its result is no array, nor one or two arrays and a workspace";
    else if (c->shape->rank == 0 || c->shape->rank > CALL_MOST_RANK)
        c->trouble = "its result has no dimensions, or too many";
    return c->trouble == NULL;
}

/* The object with the call's configuration; older programs have it without the object around it. NULL: there is none. */
static json_t *config_in(json_t *root, const struct Callee *target)
{
    json_t *inner = json_object_get(root, target->config);
    bool is_flat = inner == NULL && (!target->needs_config ||
                                     json_object_get(root, "dot_dimension_numbers"));
    return is_flat ? root : inner;
}

/* The call itself where it does not say what it multiplies; NULL after a message. */
static Instruction *read_call(Instruction *inst, const struct Callee *target,
                              Arena *scratch)
{
    Module *m = inst->parent->module;
    Bytes json = config_json(inst, scratch);
    Call c = {.r = {.m = m, .comp = inst->parent, .scratch = scratch, .at = inst},
              .inst = inst,
              .shape =
                  shape_leaf_count(inst->shape) != 0 ? shape_leaf(inst->shape, 0) : NULL};
    json_error_t error;
    json_t *root =
        json.length != 0 ? json_loadb(json.data, json.length, 0, &error) : NULL;
    c.config = config_in(root, target);
    Instruction *result = NULL;
    if (json.length != 0 && root == NULL)
        c.trouble =
            arena_printf(m->arena, "its backend_config is no JSON: %s", error.text);
    else if (target->needs_config && !json_is_object(c.config))
        c.is_left = true;
    else if (c.config != NULL && !json_is_object(c.config) && !json_is_null(c.config))
        c.trouble = arena_printf(m->arena, "its \"%s\" is no object", target->config);
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
        void (*report)(Diag *, Span, const char *, ...) =
            c.is_unsupported ? diag_unsupported : diag_error;
        report(m->diag, inst->span, "%s: %s", target->name, c.trouble);
        return NULL;
    }
    return target->is_whole ? result : with_workspace(&c, result);
}

static bool read_in(Computation *comp, Arena *scratch)
{
    bool is_good = true;
    uint32_t count = comp->instruction_count;
    Instruction **results = NULL; /* [count] of the calls; NULL: there are none */
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        const struct Callee *target = inst != NULL ? target_of(inst) : NULL;
        if (target == NULL)
            continue;
        uint32_t first = comp->instruction_count;
        Instruction *result = read_call(inst, target, scratch);
        is_good &= result != NULL;
        if (result == NULL || result == inst)
            continue;
        for (uint32_t k = first; k < comp->instruction_count; k++)
            inst_add_controls(comp->instructions[k], inst); /* as the call did */
        if (results == NULL)
            results = ARENA_ARRAY(scratch, Instruction *, count);
        results[i] = result;
    }
    if (results == NULL || !is_good)
        return is_good;
    computation_substitute(comp, results, count);
    computation_sort(comp);
    return true;
}

bool library_calls_read(Module *m, Arena *scratch)
{
    bool is_good = true;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        is_good &= read_in(comp, scratch);
    return is_good;
}
