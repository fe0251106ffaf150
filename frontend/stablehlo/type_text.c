/* Types as text: what the lexer gives as one token, and what bytecode may hold as text. */
#include <stdlib.h>
#include <string.h>

#include "frontend/stablehlo/mlir.h"
#include "ir/dtype.h"

enum { MAX_RANK = 64 };

typedef struct Cursor {
    Arena *arena;
    Intern *intern;
    const char *at, *end;
} Cursor;

static void skip_space(Cursor *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool take(Cursor *c, const char *word)
{
    skip_space(c);
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A size without a sign; false: none, or too large. */
static bool take_size(Cursor *c, int64_t *out)
{
    skip_space(c);
    const char *from = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (*c->at - '0');
    }
    *out = value;
    return c->at != from;
}

static bool take_int(Cursor *c, int64_t *out)
{
    bool negative = take(c, "-");
    if (!take_size(c, out))
        return false;
    *out = negative ? -*out : *out;
    return true;
}

static bool take_double(Cursor *c, double *out)
{
    skip_space(c);
    const char *from = c->at;
    while (c->at < c->end && *c->at != '\0' && strchr("0123456789+-.eE", *c->at) != NULL)
        c->at++;
    return number_parse_double(from, (size_t)(c->at - from), out);
}

/* The name of an element type. */
static size_t take_word(Cursor *c, const char **word)
{
    skip_space(c);
    *word = c->at;
    while (c->at < c->end &&
           ((*c->at >= '0' && *c->at <= '9') || (*c->at >= 'a' && *c->at <= 'z') ||
            (*c->at >= 'A' && *c->at <= 'Z')))
        c->at++;
    return (size_t)(c->at - *word);
}

static bool take_dtype(Cursor *c, DType *out, bool *is_index)
{
    const char *word;
    size_t length = take_word(c, &word);
    *out = mlir_dtype(word, length, is_index);
    return *out != DT_INVALID;
}

/* -- quantised elements -------------------------------------------------------------------- */

/* i8<-127:127>, i8, ui8, and u8 as MLIR prints it */
static bool take_storage(Cursor *c, Quantized *q)
{
    bool is_index = false;
    const char *word;
    size_t length = take_word(c, &word);
    if (length == 0 || word[0] != 'u' || !dtype_from_name(word, length, &q->storage))
        q->storage = mlir_dtype(word, length, &is_index);
    int64_t least, most;
    if (is_index || !mlir_storage_range(q->storage, &least, &most))
        return false;
    q->min = least;
    q->max = most;
    if (!take(c, "<"))
        return true;
    return take_int(c, &q->min) && take(c, ":") && take_int(c, &q->max) && take(c, ">") &&
           q->min >= least && q->max <= most && q->min < q->max;
}

/* 0.5, 0.5:3 */
static bool take_scale(Cursor *c, double *scale, int64_t *zero_point)
{
    *zero_point = 0;
    return take_double(c, scale) && *scale > 0 &&
           (!take(c, ":") || take_int(c, zero_point));
}

static bool take_scales(Cursor *c, Quantized *q)
{
    size_t most = (size_t)(c->end - c->at);
    double *scales = ARENA_ARRAY(c->arena, double, most);
    int64_t *zero_points = ARENA_ARRAY(c->arena, int64_t, most);
    q->scales = scales;
    q->zero_points = zero_points;
    if (q->axis < 0) {
        q->count = 1;
        return take_scale(c, scales, zero_points);
    }
    if (!take(c, "{"))
        return false;
    do {
        if (!take_scale(c, &scales[q->count], &zero_points[q->count]))
            return false;
        q->count++;
    } while (take(c, ","));
    return take(c, "}");
}

/* i8:f32, 0.5:3 or i8:f32:1, {0.5, 0.25:3} */
static const Quantized *take_quantized(Cursor *c)
{
    Quantized *q = ARENA_NEW(c->arena, Quantized);
    bool is_index;
    q->axis = -1;
    if (!take_storage(c, q) || !take(c, ":") ||
        !take_dtype(c, &q->expressed, &is_index) || !dtype_is_float(q->expressed))
        return NULL;
    if (take(c, ":") && (!take_size(c, &q->axis) || q->axis >= MAX_RANK))
        return NULL;
    return take(c, ",") && take_scales(c, q) ? q : NULL;
}

/* -- types --------------------------------------------------------------------------------- */

static const MlirType *take_element(Cursor *c)
{
    DType t;
    bool is_index;
    if (take(c, "complex<")) {
        if (!take_dtype(c, &t, &is_index) || (t != DT_F32 && t != DT_F64) ||
            !take(c, ">"))
            return NULL;
        return mlir_element(c->arena, c->intern, t == DT_F32 ? DT_C64 : DT_C128, false);
    }
    if (take(c, "!quant.uniform<")) {
        const Quantized *q = take_quantized(c);
        return q != NULL && take(c, ">") ? mlir_quantized(c->arena, c->intern, q) : NULL;
    }
    if (!take_dtype(c, &t, &is_index))
        return NULL;
    return mlir_element(c->arena, c->intern, t, is_index);
}

/* Sizes with an 'x' behind each; -1: too many, or too large. */
static int take_dims(Cursor *c, int64_t *dims)
{
    int rank = 0;
    for (;; rank++) {
        const char *from = c->at;
        int64_t size;
        if (take(c, "?"))
            size = DIM_UNBOUNDED;
        else if (!take_size(c, &size))
            return c->at == from || *from == ' ' ? rank : -1;
        if (rank == MAX_RANK || !take(c, "x"))
            return -1;
        dims[rank] = size;
    }
}

/* The bounds that the encoding `#stablehlo.bounds<5, ?>`, or the older type_extensions, gives. */
static bool take_bounds(Cursor *c, int rank, int64_t *bounds)
{
    bool list = take(c, "#stablehlo.type_extensions<bounds") ||
                take(c, "#mhlo.type_extensions<bounds");
    if (list ? !take(c, "=") || !take(c, "[") : !take(c, "#stablehlo.bounds<"))
        return false;
    for (int i = 0; i < rank; i++) {
        if (i != 0 && !take(c, ","))
            return false;
        if (take(c, "?"))
            bounds[i] = DIM_UNBOUNDED;
        else if (!take_size(c, &bounds[i]))
            return false;
    }
    return (!list || take(c, "]")) && take(c, ">");
}

static const MlirType *take_tensor(Cursor *c)
{
    int64_t dims[MAX_RANK], bounds[MAX_RANK];
    int rank = take_dims(c, dims);
    if (rank < 0)
        return NULL;
    const MlirType *element = take_element(c);
    if (element == NULL)
        return NULL;
    bool bounded = take(c, ",");
    if (bounded && !take_bounds(c, rank, bounds))
        return NULL;
    return take(c, ">") ? mlir_tensor(c->arena, c->intern, element, (uint32_t)rank, dims,
                                      bounded ? bounds : NULL)
                        : NULL;
}

const MlirType *mlir_parse_type(Arena *a, Intern *t, const char *text, size_t length)
{
    Cursor c = {.arena = a, .intern = t, .at = text, .end = text + length};
    const MlirType *type = NULL;
    if (take(&c, "tensor<"))
        type = take_tensor(&c);
    else if (take(&c, "!stablehlo.token") || take(&c, "!mhlo.token"))
        type = mlir_token(a, t);
    else
        type = take_element(&c);
    skip_space(&c);
    return c.at == c.end ? type : NULL;
}
