/* Shapes, layouts and literals as messages of HloModuleProto. */
#include <string.h>

#include "frontend/proto/writer.h"
#include "ir/dtype.h"

static void put_layout(Writer *w, Text *t, const Layout *l)
{
    Text m = writer_message(w);
    wire_ints(&m, 1, l->minor_to_major, l->rank);
    for (uint32_t i = 0; i < l->tile_count; i++) {
        Text tile = writer_message(w);
        wire_ints(&tile, 1, l->tiles[i].dims, l->tiles[i].rank);
        wire_message(&m, 6, &tile);
    }
    if (l->element_bits != 0)
        wire_int(&m, 7, l->element_bits);
    if (l->memory_space != 0)
        wire_int(&m, 8, l->memory_space);
    if (l->index_type != DT_INVALID)
        wire_int(&m, 11, dtype_info[l->index_type].proto);
    if (l->pointer_type != DT_INVALID)
        wire_int(&m, 12, dtype_info[l->pointer_type].proto);
    if (l->metadata_prefix_bytes != 0)
        wire_int(&m, 15, l->metadata_prefix_bytes);
    wire_int(&m, 16, l->tail_padding_alignment);
    for (uint32_t i = 0; i < l->split_count; i++) {
        Text split = writer_message(w);
        if (l->splits[i].dimension != 0)
            wire_int(&split, 1, l->splits[i].dimension);
        wire_ints(&split, 2, l->splits[i].indices, l->splits[i].count);
        wire_message(&m, 17, &split);
    }
    wire_message(t, 5, &m);
}

static int64_t type_number(const Shape *s)
{
    if (s->dtype == DT_TUPLE)
        return 13;
    if (s->dtype == DT_BUFFER)
        return 34;
    int64_t number = dtype_info[s->dtype].proto;
    return number != 0 ? number : PROTO_DTYPE + (int64_t)s->dtype;
}

void writer_put_shape(Writer *w, Text *t, uint32_t field, const Shape *s)
{
    Text m = writer_message(w);
    wire_int(&m, 2, type_number(s));
    if (shape_is_array(s)) {
        wire_ints(&m, 3, s->dims, s->rank);
        put_layout(w, &m, s->layout);
        int64_t *dynamic = ARENA_ARRAY(w->arena, int64_t, s->rank);
        for (uint32_t i = 0; i < s->rank; i++)
            dynamic[i] = s->dynamic != NULL && s->dynamic[i];
        wire_ints(&m, 6, dynamic, s->rank);
    } else if (s->elements != NULL) {
        for (uint32_t i = 0; i < s->rank; i++)
            writer_put_shape(w, &m, 4, s->elements[i]);
    }
    wire_message(t, field, &m);
}

static void put_elements(Writer *w, Text *t, const Literal *l)
{
    DType dtype = l->shape->dtype;
    uint32_t field = proto_literal_field(dtype);
    size_t size = dtype_info[dtype].storage, count = (size_t)l->count;
    Text data = writer_message(w);
    bool varints =
        dtype == DT_S32 || dtype == DT_S64 || dtype == DT_U32 || dtype == DT_U64;
    if (varints || dtype_is_sub_byte(dtype)) {
        text_reserve(&data, count * 2);
        uint64_t mask =
            dtype_is_sub_byte(dtype) ? (1u << dtype_info[dtype].bits) - 1 : ~UINT64_C(0);
        for (size_t i = 0; i < count; i++) {
            uint64_t value = (uint64_t)literal_int(l, (int64_t)i);
            if (varints)
                wire_varint(&data, value);
            else
                text_char(&data, (char)(literal_bits(l, (int64_t)i) & mask));
        }
        wire_message(t, field, &data);
        return;
    }
    wire_bytes(t, field, l->data, count * size); /* little-endian, as in memory */
}

bool writer_takes_literal(const Literal *l)
{
    if (!shape_is_tuple(l->shape))
        return !l->elided && proto_literal_field(l->shape->dtype) != 0;
    for (uint32_t i = 0; i < l->shape->rank; i++) {
        if (!writer_takes_literal(l->elements[i]))
            return false;
    }
    return true;
}

/* Data in the order of the layout, which the format wants; ours is row-major. */
static void *in_layout_order(Writer *w, const Literal *l)
{
    const Shape *s = l->shape;
    size_t size = dtype_info[s->dtype].storage;
    int64_t *strides = ARENA_ARRAY(w->arena, int64_t, s->rank), stride = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        strides[s->layout->minor_to_major[i]] = stride;
        stride *= s->dims[s->layout->minor_to_major[i]];
    }
    char *to = ARENA_ARRAY(w->arena, char, (size_t)l->count *size);
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = 0, remaining = i;
        for (uint32_t d = s->rank; d-- > 0; remaining /= s->dims[d])
            at += remaining % s->dims[d] * strides[d];
        memcpy(to + (size_t)at * size, (const char *)l->data + (size_t)i * size, size);
    }
    return to;
}

void writer_put_literal(Writer *w, Text *t, uint32_t field, const Literal *l)
{
    Text m = writer_message(w);
    Layout unpacked;
    Shape shape = *l->shape;
    if (shape.layout !=
        NULL) { /* XLA's literals are not packed, whatever the instruction is */
        unpacked = *shape.layout;
        unpacked.element_bits = 0;
        shape.layout = &unpacked;
    }
    writer_put_shape(w, &m, 1, &shape);
    if (shape_is_tuple(l->shape)) {
        for (uint32_t i = 0; i < l->shape->rank; i++)
            writer_put_literal(w, &m, 10, l->elements[i]);
    } else if (l->count != 0) {
        Literal ordered = *l;
        if (l->shape->rank > 1 && !layout_is_default(l->shape->layout))
            ordered.data = in_layout_order(w, l);
        put_elements(w, &m, &ordered);
    }
    wire_message(t, field, &m);
}
