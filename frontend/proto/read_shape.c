/* Shapes, layouts and literals of HloModuleProto as text. */
#include <string.h>

#include "frontend/proto/reader.h"
#include "ir/dtype.h"
#include "ir/print/value.h"

#define EMPTY_LITERAL_MAX (1 << 20)
#define LITERAL_MAX (INT64_C(1) << 27) /* elements: they become text */

/* -- shapes ------------------------------------------------------------------------------ */

/* DT_INVALID: none of ours */
static DType reader_dtype(int64_t number)
{
    DType t = DT_INVALID;
    if (number >= PROTO_DTYPE && number < PROTO_DTYPE + (int64_t)DT_TUPLE)
        return (DType)(number - PROTO_DTYPE);
    return dtype_from_proto(number, &t) ? t : DT_INVALID;
}

void reader_put_list(Text *t, Ints ints)
{
    for (uint32_t i = 0; i < ints.count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, ints.data[i]);
    }
}

static void put_tiles(Reader *r, Message layout)
{
    Text *t = &r->t;
    bool first = true;
    for (size_t i = 0; i < layout.count; i++) {
        if (layout.fields[i].number != 6)
            continue;
        Ints dims = message_ints(r, message_scan(r, layout.fields[i].bytes), 1);
        text_string(t, first ? "T(" : "(");
        first = false;
        for (uint32_t k = 0; k < dims.count; k++) {
            text_string(t, k == 0 ? "" : ",");
            if (dims.data[k] == TILE_COMBINE)
                text_char(t, '*');
            else
                text_int(t, dims.data[k]);
        }
        text_char(t, ')');
    }
}

static void put_number_property(Text *t, const char *letter, int64_t value)
{
    if (value != 0)
        text_printf(t, "%s(%lld)", letter, (long long)value);
}

static void put_layout(Reader *r, Message layout)
{
    Text *t = &r->t;
    size_t start = t->length;
    text_char(t, '{');
    reader_put_list(t, message_ints(r, layout, 1));
    text_char(t, ':');
    size_t empty = t->length;
    put_tiles(r, layout);
    int64_t tail = message_int(layout, 16);
    put_number_property(t, "L", tail == 1 ? 0 : tail);
    if (reader_dtype(message_int(layout, 11)) != DT_INVALID)
        text_printf(t, "#(%s)", dtype_name(reader_dtype(message_int(layout, 11))));
    if (reader_dtype(message_int(layout, 12)) != DT_INVALID)
        text_printf(t, "*(%s)", dtype_name(reader_dtype(message_int(layout, 12))));
    put_number_property(t, "E", message_int(layout, 7));
    put_number_property(t, "S", message_int(layout, 8));
    bool first = true;
    for (size_t i = 0; i < layout.count; i++) {
        if (layout.fields[i].number != 17)
            continue;
        Message split = message_scan(r, layout.fields[i].bytes);
        text_printf(t, "%s(%lld:", first ? "SC" : "", (long long)message_int(split, 1));
        reader_put_list(t, message_ints(r, split, 2));
        text_char(t, ')');
        first = false;
    }
    put_number_property(t, "M", message_int(layout, 15));
    if (t->length == empty)
        t->length--; /* the colon */
    text_char(t, '}');
    if (t->length == start + 2)
        t->length = start; /* {} */
}

void reader_put_shape(Reader *r, Message shape)
{
    Text *t = &r->t;
    int64_t type = message_int(shape, 2);
    if (++r->depth > PROTO_DEPTH) {
        reader_trouble(r, "maximum recursion depth exceeded");
    } else if (type == 13 || type == 34) {
        text_string(t, type == 13 ? "(" : "b(");
        bool first = true;
        for (size_t i = 0; i < shape.count; i++) {
            if (shape.fields[i].number != 4)
                continue;
            text_string(t, first ? "" : ", ");
            first = false;
            reader_put_shape(r, message_scan(r, shape.fields[i].bytes));
        }
        text_char(t, ')');
    } else if (reader_dtype(type) == DT_INVALID) {
        reader_trouble(r, "a shape has an unknown element type");
    } else {
        Ints dims = message_ints(r, shape, 3), dynamic = message_ints(r, shape, 6);
        text_string(t, dtype_name(reader_dtype(type)));
        text_char(t, '[');
        for (uint32_t i = 0; i < dims.count; i++) {
            text_string(t, i == 0 ? "" : ",");
            if (dims.data[i] == DIM_UNBOUNDED) {
                text_char(t, '?');
                continue;
            }
            text_string(t, i < dynamic.count && dynamic.data[i] != 0 ? "<=" : "");
            text_int(t, dims.data[i]);
        }
        text_char(t, ']');
        if (message_find(shape, 5) != NULL)
            put_layout(r, message_part(r, shape, 5));
    }
    r->depth--;
}

/* -- literals ------------------------------------------------------------------------------ */

typedef struct Elements {
    DType type;
    Bytes raw;    /* fixed-width data */
    Ints varints; /* or numbers */
    size_t size;  /* bytes of an element in raw; 0: varints */
    int64_t count;
} Elements;

static bool take_elements(Reader *r, Message literal, DType type, Elements *out)
{
    uint32_t field = proto_literal_field(type);
    bool varints = type == DT_S32 || type == DT_S64 || type == DT_U32 || type == DT_U64;
    *out = (Elements){.type = type};
    if (varints) {
        out->varints = message_ints(r, literal, field);
        out->count = out->varints.count;
        return true;
    }
    out->raw = message_bytes(literal, field);
    out->size = dtype_info[type].storage;
    if (out->size == 0 || out->raw.length % out->size != 0)
        return reader_trouble(r, "a literal's data is damaged");
    out->count = (int64_t)(out->raw.length / out->size);
    return true;
}

static void put_element(Reader *r, const Elements *e, int64_t i)
{
    char element[16], text[NUMBER_TEXT_MAX];
    if (e->size == 0) {
        number_store(e->type, element, (uint64_t)e->varints.data[i]);
    } else {
        memcpy(element, e->raw.data + (size_t)i * e->size, e->size);
        if (dtype_is_sub_byte(e->type)) /* sign-extended in storage */
            number_store(e->type, element, (unsigned char)element[0]);
    }
    text_add(&r->t, text, number_print(e->type, element, true, text));
}

/* Braces of an array without elements: {} at the dimension of size 0. */
static void put_empty(Reader *r, Ints dims, uint32_t at)
{
    text_char(&r->t, '{');
    for (int64_t i = 0; i < dims.data[at]; i++) {
        text_string(&r->t, i == 0 ? "" : ",");
        put_empty(r, dims, at + 1);
    }
    text_char(&r->t, '}');
}

/* How far apart neighbours along each dimension are in the data, which has the order of the
 * shape's layout. Without one it is row-major. */
static int64_t *data_strides(Reader *r, Message shape, Ints dims)
{
    Ints order = message_ints(r, message_part(r, shape, 5), 1);
    int64_t *strides = ARENA_ARRAY(r->a, int64_t, dims.count), stride = 1;
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t d = order.count == dims.count ? order.data[i] : dims.count - 1 - i;
        if (d < 0 || d >= dims.count || strides[d] != 0) {
            reader_trouble(r, "the layout of a literal is no order of its dimensions");
            return strides;
        }
        strides[d] = stride;
        stride *= dims.data[d];
    }
    return strides;
}

static void put_array_literal(Reader *r, Message literal, Message shape)
{
    Ints dims = message_ints(r, shape, 3);
    Elements e;
    int64_t count = 1, outer = 1;
    bool empty = false;
    for (uint32_t i = 0; i < dims.count; i++) {
        empty = empty || dims.data[i] == 0;
        if (dims.data[i] < 0 ||
            (dims.data[i] != 0 && count > LITERAL_MAX / dims.data[i])) {
            reader_trouble(r, "a literal is too large");
            return;
        }
        outer = empty ? outer : outer * dims.data[i];
        count *= dims.data[i];
    }
    if (reader_dtype(message_int(shape, 2)) == DT_INVALID ||
        !take_elements(r, literal, reader_dtype(message_int(shape, 2)), &e))
        return;
    if (e.count != count || (empty && outer > EMPTY_LITERAL_MAX)) {
        reader_trouble(r, "a literal does not have the elements of its shape");
        return;
    }
    if (count == 0) {
        put_empty(r, dims, 0);
        return;
    }
    const int64_t *strides = data_strides(r, shape, dims);
    for (int64_t i = 0; i < count && r->trouble == NULL; i++) {
        int64_t inner = count, at = 0;
        text_string(&r->t, i == 0 ? "" : ",");
        for (uint32_t d = 0; d < dims.count; d++) {
            if (i % inner == 0)
                text_char(&r->t, '{');
            inner /= dims.data[d];
            at += i / inner % dims.data[d] * strides[d];
        }
        put_element(r, &e, at);
        inner = 1;
        for (uint32_t d = dims.count; d-- > 0;) {
            inner *= dims.data[d];
            if ((i + 1) % inner == 0)
                text_char(&r->t, '}');
        }
    }
}

void reader_put_literal(Reader *r, Message literal, bool typed)
{
    Message shape = message_part(r, literal, 1);
    if (++r->depth > PROTO_DEPTH) {
        reader_trouble(r, "maximum recursion depth exceeded");
    } else if (message_int(shape, 2) == 13) {
        text_char(&r->t, '(');
        bool first = true;
        for (size_t i = 0; i < literal.count; i++) {
            if (literal.fields[i].number != 10)
                continue;
            text_string(&r->t, first ? "" : ", ");
            first = false;
            reader_put_literal(r, message_scan(r, literal.fields[i].bytes), typed);
        }
        text_char(&r->t, ')');
    } else {
        if (typed)
            reader_put_shape(r, shape);
        text_string(&r->t, typed ? " " : "");
        put_array_literal(r, literal, shape);
    }
    r->depth--;
}
