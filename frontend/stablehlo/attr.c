/* Asking attributes of MLIR, and the elements of dense ones. */
#include <stdlib.h>
#include <string.h>

#include "frontend/stablehlo/mlir.h"
#include "ir/dtype.h"

const MlirAttr *mlir_find(MlirDict dict, const char *name)
{
    for (uint32_t i = 0; i < dict.count; i++)
        if (dict.entries[i].name != NULL && strcmp(dict.entries[i].name, name) == 0)
            return dict.entries[i].value;
    return NULL;
}

bool mlir_is_text(const MlirAttr *a, const char *text)
{
    return a != NULL &&
           (a->kind == MLIR_STRING || a->kind == MLIR_WORD || a->kind == MLIR_SYMBOL) &&
           strcmp(a->text.data, text) == 0;
}

/* Names are interned: equal ones are one pointer. */
static MlirEntry *alias_slot(MlirEntry *table, uint32_t capacity, const char *name)
{
    uint32_t at = (uint32_t)((uintptr_t)name >> 4) * 2654435761u & (capacity - 1);
    while (table[at].name != NULL && table[at].name != name)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

void mlir_set_aliases(MlirFile *file, size_t count, const MlirEntry *aliases)
{
    uint32_t capacity = 16;
    while (capacity / 2 < count)
        capacity *= 2;
    file->aliases = ARENA_ARRAY(file->arena, MlirEntry, capacity);
    file->alias_capacity = capacity;
    for (size_t i = 0; i < count; i++)
        *alias_slot(file->aliases, capacity, aliases[i].name) = aliases[i];
}

const MlirAttr *mlir_resolve(const MlirFile *file, const MlirAttr *a)
{
    for (int depth = 0; a != NULL && a->kind == MLIR_ALIAS; depth++)
        a = file->alias_capacity != 0 && depth < MLIR_DEPTH
                ? alias_slot(file->aliases, file->alias_capacity, a->text.data)->value
                : NULL;
    return a;
}

/* -- dense elements as text ---------------------------------------------------------------- */

typedef struct Elements {
    const MlirFile *file;
    Arena *arena;
    Literal *literal;
    const char *at, *end;
    uint32_t begin; /* of the text in the source */
    const char *text;
    int64_t filled;
} Elements;

static bool fail(const Elements *e, const char *at, const char *message)
{
    uint32_t begin = e->begin + (uint32_t)(at - e->text);
    Span span = {begin, begin + (at < e->end)};
    diag_error(e->file->diag, e->file->is_text ? span : (Span){0, 0}, "%s", message);
    return false;
}

static void skip_space(Elements *e)
{
    while (e->at < e->end &&
           (*e->at == ' ' || *e->at == '\n' || *e->at == '\t' || *e->at == '\r'))
        e->at++;
}

static bool take_char(Elements *e, char wanted)
{
    skip_space(e);
    if (e->at == e->end || *e->at != wanted)
        return false;
    e->at++;
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 0x7F800000: the bits of a float, the value of an integer. */
static bool take_bits(Elements *e, DType t, void *out)
{
    const char *from = e->at;
    uint64_t bits = 0;
    size_t digits = 0;
    for (e->at += 2; e->at < e->end && hex_value(*e->at) >= 0; e->at++, digits++)
        bits = bits << 4 | (uint64_t)hex_value(*e->at);
    if (digits == 0 || digits > 16 ||
        (dtype_info[t].bits < 64 && bits >> dtype_info[t].bits != 0))
        return fail(e, from, "this hexadecimal number does not fit its type");
    number_store(t, out, bits);
    return true;
}

static bool take_number(Elements *e, DType t, void *out)
{
    skip_space(e);
    const char *from = e->at;
    if (e->end - from > 2 && from[0] == '0' && from[1] == 'x')
        return take_bits(e, t, out);
    while (e->at < e->end && *e->at != '\0' && strchr(",]) \n\t\r", *e->at) == NULL)
        e->at++;
    const char *number = from < e->at && *from == '+' ? from + 1 : from;
    if (dtype_is_float(t) && memchr(from, '.', (size_t)(e->at - from)) == NULL)
        return fail(e, from, "a float is written with a '.', or as 0x and its bits");
    NumberStatus st = number_parse(t, number, (size_t)(e->at - number), out);
    if (st == NUMBER_RANGE && dtype_is_integer(t)) { /* i8 may be written as 0 to 255 */
        int64_t wide;
        unsigned bits = dtype_info[t].bits;
        if (number_parse(DT_S64, number, (size_t)(e->at - number), &wide) == NUMBER_OK &&
            wide >= -(INT64_C(1) << (bits - 1)) && wide >> bits == 0) {
            number_set_int(t, out, wide);
            return true;
        }
    }
    if (st == NUMBER_OK)
        return true;
    char message[256];
    number_status_text(st, t, from, (size_t)(e->at - from), message, sizeof message);
    return fail(e, from, message);
}

/* A number, true, or (re, im). */
static bool take_scalar(Elements *e)
{
    DType t = e->literal->shape->dtype;
    size_t bytes = dtype_storage_bytes(t);
    if (e->filled >= e->literal->count)
        return fail(e, e->at, "there are more elements than the type has");
    char *out = (char *)e->literal->data + (size_t)e->filled++ * bytes;
    if (!dtype_is_complex(t))
        return take_number(e, t, out);
    DType part = number_component(t);
    if (!take_char(e, '('))
        return fail(e, e->at, "expects (real, imaginary)");
    if (!take_number(e, part, out))
        return false;
    if (!take_char(e, ',') || !take_number(e, part, out + bytes / 2) ||
        !take_char(e, ')'))
        return fail(e, e->at, "expects (real, imaginary)");
    return true;
}

static bool take_elements(Elements *e, uint32_t dimension)
{
    const Shape *s = e->literal->shape;
    if (dimension == s->rank)
        return take_scalar(e);
    if (!take_char(e, '['))
        return fail(e, e->at, "expects '[': the elements do not have the type's rank");
    for (int64_t i = 0; i < s->dims[dimension]; i++) {
        if ((i != 0 && !take_char(e, ',')) || !take_elements(e, dimension + 1))
            return i != 0 ? fail(e, e->at, "the elements are fewer than the type says")
                          : false;
    }
    if (!take_char(e, ']'))
        return fail(e, e->at, "expects ']': the elements are more than the type says");
    return true;
}

static void spread(Literal *l)
{
    size_t bytes = dtype_storage_bytes(l->shape->dtype);
    char *data = l->data;
    size_t done = bytes, all = bytes * (size_t)l->count;
    while (done < all) {
        size_t more = done < all - done ? done : all - done;
        memcpy(data + done, data, more);
        done += more;
    }
}

/* "0x0000803F00000040": the elements' bytes. */
static bool take_hex_string(Elements *e)
{
    const char *from = e->at;
    const char *quote = memchr(from + 1, '"', (size_t)(e->end - from - 1));
    if (quote == NULL || quote - from < 3 || from[1] != '0' || from[2] != 'x')
        return fail(e, from, "expects \"0x...\"");
    size_t length = (size_t)(quote - from - 3) / 2;
    char *bytes = arena_alloc(e->arena, length + 1);
    for (size_t i = 0; i < length; i++) {
        int high = hex_value(from[3 + 2 * i]), low = hex_value(from[4 + 2 * i]);
        if (high < 0 || low < 0)
            return fail(e, from + 3 + 2 * i, "expects a hexadecimal digit");
        bytes[i] = (char)(high * 16 + low);
    }
    Literal *l = mlir_literal_of_bytes(e->arena, e->literal->shape, bytes, length);
    if (l == NULL)
        return fail(e, from, "the number of bytes is not that of the type");
    e->literal = l;
    e->at = quote + 1;
    e->filled = l->count;
    return true;
}

static bool take_dense(Elements *e)
{
    skip_space(e);
    if (e->at < e->end && *e->at == '"')
        return take_hex_string(e);
    if (e->at < e->end && strncmp(e->at, "__elided__", 10) == 0) {
        e->literal->elided = true;
        e->at += 10;
        return true;
    }
    if (e->at == e->end)
        return e->literal->count == 0 ||
               fail(e, e->at, "dense<> without elements: the type has some");
    if (e->literal->shape->rank != 0 && *e->at == '[')
        return take_elements(e, 0);
    if (e->literal->count == 0) {
        e->at = e->end;
        return true;
    }
    if (!take_scalar(e))
        return false;
    spread(e->literal);
    return true;
}

/* -- dense attributes ---------------------------------------------------------------------- */

static const Literal *resource_literal(const MlirFile *file, Arena *a,
                                       const MlirAttr *dense, const Shape *shape)
{
    const char *from = dense->text.data + strlen("dense_resource<");
    size_t length = (size_t)(dense->text.data + dense->text.length - 1 - from);
    for (uint32_t i = 0; i < file->resource_count; i++) {
        const MlirResource *r = &file->resources[i];
        if (strlen(r->name) != length || memcmp(r->name, from, length) != 0)
            continue;
        Literal *l = mlir_literal_of_bytes(a, shape, r->data.data, r->data.length);
        if (l == NULL)
            diag_error(file->diag, dense->span,
                       "resource %s has %zu bytes: not those of %s", r->name,
                       r->data.length, mlir_type_text(a, dense->type));
        return l;
    }
    if (length == strlen("__elided__") && memcmp(from, "__elided__", length) == 0) {
        Literal *l = ARENA_NEW(a, Literal);
        l->shape = shape;
        l->elided = true;
        shape_element_count(shape, &l->count);
        return l;
    }
    diag_error(file->diag, dense->span, "there is no resource %.*s in this file",
               (int)(length < 64 ? length : 64), from);
    return NULL;
}

/* array<i64: 1, 2>: as long as it is. */
static const Literal *array_literal(const MlirFile *file, Arena *a, const MlirAttr *dense)
{
    const char *from = dense->text.data + strlen("array<");
    const char *end = dense->text.data + dense->text.length - 1;
    const char *colon = memchr(from, ':', (size_t)(end - from));
    const char *type_end = colon != NULL ? colon : end;
    while (type_end > from && type_end[-1] == ' ')
        type_end--;
    bool is_index;
    DType t = mlir_dtype(from, (size_t)(type_end - from), &is_index);
    if (t == DT_INVALID) {
        diag_error(file->diag, dense->span, "expects array<TYPE: element, ...>");
        return NULL;
    }
    int64_t count = colon != NULL;
    for (const char *s = type_end; s < end; s++)
        count += *s == ',';
    Elements e = {.file = file,
                  .arena = a,
                  .at = colon != NULL ? colon + 1 : end,
                  .end = end,
                  .begin = dense->span.begin,
                  .text = dense->text.data};
    e.literal = literal_create(a, shape_array(file->intern, t, 1, &count, NULL, NULL));
    for (int64_t i = 0; i < count; i++)
        if ((i != 0 && !take_char(&e, ',')) || !take_scalar(&e))
            return NULL;
    skip_space(&e);
    if (e.at != end)
        return fail(&e, e.at, "expects ',' or '>'"), NULL;
    return e.literal;
}

const Literal *mlir_literal(const MlirFile *file, Arena *a, const MlirAttr *dense)
{
    if (dense->is_source && strncmp(dense->text.data, "array<", 6) == 0)
        return array_literal(file, a, dense);
    const MlirType *type = dense->type;
    int64_t count;
    if (type == NULL || type->kind != MLIR_TENSOR || shape_is_dynamic(type->shape) ||
        !shape_element_count(type->shape, &count) || count > INT64_MAX / 16 / 2) {
        diag_error(file->diag, dense->span,
                   "elements have the type of a tensor of known size%s%s",
                   type != NULL ? ", not " : "",
                   type != NULL ? mlir_type_text(a, type) : "");
        return NULL;
    }
    if (!file->is_text) {
        Literal *l =
            mlir_literal_of_bytes(a, type->shape, dense->text.data, dense->text.length);
        if (l == NULL)
            diag_error(file->diag, dense->span, "%zu bytes are not the elements of %s",
                       dense->text.length, mlir_type_text(a, type));
        return l;
    }
    if (strncmp(dense->text.data, "dense_resource<", 15) == 0)
        return resource_literal(file, a, dense, type->shape);
    const char *from = dense->text.data + strlen("dense<");
    Elements e = {.file = file,
                  .arena = a,
                  .at = from,
                  .end = dense->text.data + dense->text.length - 1,
                  .begin = dense->span.begin,
                  .text = dense->text.data};
    e.literal = literal_create(a, type->shape);
    if (!take_dense(&e))
        return NULL;
    skip_space(&e);
    if (e.at != e.end)
        return fail(&e, e.at, "expects '>'"), NULL;
    return e.literal;
}

/* One element that stands for all of several. */
static bool is_splat(const MlirAttr *dense)
{
    size_t bytes = dtype_storage_bytes(dense->type->shape->dtype);
    if (!dense->is_source)
        return dense->text.length == bytes;
    if (strncmp(dense->text.data, "dense<", 6) != 0)
        return false;
    const char *from = dense->text.data + 6;
    while (*from == ' ')
        from++;
    return *from != '[' && *from != '"' && *from != '>' && *from != '_';
}

const Literal *mlir_splat(const MlirFile *file, Arena *a, const MlirAttr *dense)
{
    const MlirType *type = dense->type;
    int64_t count;
    if (type == NULL || type->kind != MLIR_TENSOR || type->shape->rank == 0 ||
        shape_is_dynamic(type->shape) || !shape_element_count(type->shape, &count) ||
        count < 2 || (!dense->is_source && type->shape->dtype == DT_PRED && count <= 8) ||
        !is_splat(dense))
        return NULL;
    MlirType scalar = *type;
    scalar.shape = shape_scalar(file->intern, type->shape->dtype);
    MlirAttr element = *dense;
    element.type = &scalar;
    return mlir_literal(file, a, &element);
}

/* -- bytes --------------------------------------------------------------------------------- */

static bool unpack_pred(Literal *l, const char *data, size_t length)
{
    unsigned char *out = l->data;
    size_t count = (size_t)l->count;
    if (length == 1 && count > 8) { /* splat: all bits of the byte */
        memset(out, data[0] != 0, count);
        return true;
    }
    if (length == (count + 7) / 8 && (length != count || count == 1)) {
        for (size_t i = 0; i < count; i++)
            out[i] = (unsigned char)data[i / 8] >> i % 8 & 1;
        return true;
    }
    if (length != count && length != 1)
        return false;
    for (size_t i = 0; i < count; i++)
        out[i] = data[length == 1 ? 0 : i] != 0;
    return true;
}

Literal *mlir_literal_of_bytes(Arena *a, const Shape *shape, const char *data,
                               size_t length)
{
    DType t = shape->dtype;
    size_t bytes = dtype_storage_bytes(t);
    int64_t count;
    if (!shape_element_count(shape, &count) || (count != 0 && length == 0))
        return NULL;
    if (length != (size_t)count * bytes && length != bytes && t != DT_PRED)
        return NULL;
    Literal *l = literal_create(a, shape);
    if (t == DT_PRED)
        return unpack_pred(l, data, length) ? l : NULL;
    if (count == 0)
        return l;
    memcpy(l->data, data, length);
    if (dtype_is_sub_byte(t)) /* the upper bits may be anything */
        for (size_t i = 0; i < length; i++)
            number_store(t, (char *)l->data + i, (unsigned char)data[i]);
    if (length != (size_t)count * bytes)
        spread(l);
    return l;
}
