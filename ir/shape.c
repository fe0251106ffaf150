/* Makers of shapes and questions about them. See shape.h. */
#include "ir/shape.h"

#include <inttypes.h>
#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/text.h"
#include "ir/intern.h"

/* Ranks above this are refused by the front end; it bounds local arrays. */
#define SMALL_RANK 64

const Layout *layout_default(Intern *t, uint32_t rank)
{
    int64_t small[SMALL_RANK];
    int64_t *order =
        rank <= SMALL_RANK ? small : ARENA_ARRAY(intern_arena(t), int64_t, rank);
    for (uint32_t i = 0; i < rank; i++)
        order[i] = (int64_t)rank - 1 - i;
    return intern_layout(t, &(Layout){.rank = rank,
                                      .minor_to_major = order,
                                      .tail_padding_alignment = 1,
                                      .index_type = DT_INVALID,
                                      .pointer_type = DT_INVALID});
}

const Shape *shape_array(Intern *t, DType dtype, uint32_t rank, const int64_t *dims,
                         const bool *dynamic, const Layout *layout)
{
    if (layout == NULL)
        layout = layout_default(t, rank);
    return intern_shape(t, &(Shape){.dtype = dtype,
                                    .rank = rank,
                                    .dims = dims,
                                    .dynamic = dynamic,
                                    .layout = layout});
}

const Shape *shape_scalar(Intern *t, DType dtype)
{
    return shape_array(t, dtype, 0, NULL, NULL, NULL);
}

const Shape *shape_tuple(Intern *t, uint32_t count, const Shape *const *elements)
{
    static const Shape *const none[1];
    return intern_shape(t, &(Shape){.dtype = DT_TUPLE,
                                    .rank = count,
                                    .elements = count == 0 ? none : elements});
}

const Shape *shape_buffer(Intern *t, const Shape *array)
{
    return intern_shape(t, &(Shape){.dtype = DT_BUFFER, .rank = 1, .elements = &array});
}

const Shape *shape_token(Intern *t)
{
    return intern_shape(t, &(Shape){.dtype = DT_TOKEN});
}

const Shape *shape_opaque(Intern *t)
{
    return intern_shape(t, &(Shape){.dtype = DT_OPAQUE});
}

const Shape *shape_with_layout(Intern *t, const Shape *array, const Layout *layout)
{
    Shape s = *array;
    s.layout = layout;
    return intern_shape(t, &s);
}

const Shape *shape_with_dtype(Intern *t, const Shape *array, DType dtype)
{
    Shape s = *array;
    s.dtype = dtype;
    if (s.layout != NULL && s.layout->element_bits != 0) {
        Layout l = *s.layout; /* E(n) belongs to the old type */
        l.element_bits = 0;
        s.layout = intern_layout(t, &l);
    }
    return intern_shape(t, &s);
}

const Shape *shape_with_dims(Intern *t, const Shape *array, uint32_t rank,
                             const int64_t *dims)
{
    return shape_array(t, array->dtype, rank, dims, NULL, NULL);
}

bool shape_is_array(const Shape *s)
{
    return s->layout != NULL;
}

bool shape_is_tuple(const Shape *s)
{
    return s->dtype == DT_TUPLE;
}

bool shape_is_scalar(const Shape *s)
{
    return shape_is_array(s) && s->rank == 0;
}

bool shape_is_unbounded(const Shape *s)
{
    bool any = false;
    for (uint32_t i = 0; s->elements != NULL && i < s->rank && !any; i++)
        any = shape_is_unbounded(s->elements[i]);
    for (uint32_t i = 0; s->dynamic != NULL && i < s->rank && !any; i++)
        any = s->dims[i] == DIM_UNBOUNDED;
    return any;
}

bool shape_is_dynamic(const Shape *s)
{
    if (s->dynamic != NULL)
        return true;
    if (s->elements != NULL) {
        for (uint32_t i = 0; i < s->rank; i++) {
            if (shape_is_dynamic(s->elements[i]))
                return true;
        }
    }
    return false;
}

bool layout_is_default(const Layout *l)
{
    if (l->tile_count != 0 || l->split_count != 0 || l->tail_padding_alignment != 1 ||
        l->element_bits != 0 || l->memory_space != 0 || l->metadata_prefix_bytes != 0 ||
        l->index_type != DT_INVALID || l->pointer_type != DT_INVALID)
        return false;
    for (uint32_t i = 0; i < l->rank; i++) {
        if (l->minor_to_major[i] != (int64_t)l->rank - 1 - i)
            return false;
    }
    return true;
}

bool shape_element_count(const Shape *s, int64_t *out)
{
    int64_t n = 1;
    bool zero = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0)
            return false;
        zero |= s->dims[i] == 0;
    }
    for (uint32_t i = 0; i < s->rank && !zero; i++) {
        if (__builtin_mul_overflow(n, s->dims[i], &n))
            return false;
    }
    *out = zero ? 0 : n;
    return true;
}

int64_t shape_elements(const Shape *s)
{
    int64_t n;
    if (!shape_is_array(s) || !shape_element_count(s, &n))
        bug("shape_elements: the shape has no element count");
    return n;
}

bool shape_byte_count(const Shape *s, int64_t *out)
{
    int64_t count, bits;
    if (!shape_is_array(s) || !shape_element_count(s, &count) ||
        __builtin_mul_overflow(count, (int64_t)dtype_info[s->dtype].bits, &bits))
        return false;
    *out = bits / 8 + (bits % 8 != 0);
    return true;
}

int64_t shape_bytes(const Shape *s)
{
    int64_t bytes = 0;
    if (shape_is_array(s) && !shape_byte_count(s, &bytes))
        bug("shape_bytes: the size overflows");
    return bytes;
}

size_t shape_leaf_count(const Shape *s)
{
    return shape_is_tuple(s) ? s->first_leaf[s->rank] : 1;
}

uint32_t shape_leaf_element(const Shape *tuple, size_t leaf, size_t *out_leaf)
{
    uint32_t low = 0, high = tuple->rank; /* the first leaf of `low` is not behind it */
    if (leaf >= tuple->first_leaf[tuple->rank])
        bug("shape_leaf_element: no such leaf");
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tuple->first_leaf[middle] <= leaf)
            low = middle;
        else
            high = middle;
    }
    *out_leaf = leaf - tuple->first_leaf[low];
    return low;
}

const Shape *shape_leaf(const Shape *s, size_t leaf)
{
    while (shape_is_tuple(s))
        s = s->elements[shape_leaf_element(s, leaf, &leaf)];
    return s;
}

static bool same_structure(const Shape *a, const Shape *b, bool types, bool any_float)
{
    if (a == b)
        return true;
    bool arrays = shape_is_array(a);
    if (arrays != shape_is_array(b) || a->rank != b->rank)
        return false;
    bool type_free =
        arrays &&
        (!types || (any_float && dtype_is_float(a->dtype) && dtype_is_float(b->dtype)));
    if (a->dtype != b->dtype && !type_free)
        return false;
    if (a->elements != NULL) {
        for (uint32_t i = 0; i < a->rank; i++) {
            if (!same_structure(a->elements[i], b->elements[i], types, any_float))
                return false;
        }
        return true;
    }
    return a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

bool shape_compatible(const Shape *a, const Shape *b)
{
    return same_structure(a, b, true, false);
}

bool shape_fp_compatible(const Shape *a, const Shape *b)
{
    return same_structure(a, b, true, true);
}

bool shape_same_dims(const Shape *a, const Shape *b)
{
    return same_structure(a, b, false, false);
}

bool shape_is_row_major(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->layout->minor_to_major[i] != (int64_t)s->rank - 1 - i)
            return false;
    }
    return true;
}

void shape_strides(const Shape *s, int64_t *out)
{
    int64_t stride = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i];
        out[d] = stride;
        stride *= s->dims[d];
    }
}

bool shape_layouts_equal(const Shape *a, const Shape *b)
{
    if (a == b)
        return true;
    if (a->rank != b->rank || shape_is_array(a) != shape_is_array(b))
        return false;
    if (a->elements != NULL && b->elements != NULL) {
        for (uint32_t i = 0; i < a->rank; i++) {
            if (!shape_layouts_equal(a->elements[i], b->elements[i]))
                return false;
        }
        return true;
    }
    if (a->layout == NULL || a->layout == b->layout || a->rank == 0)
        return true;
    return memcmp(a->layout->minor_to_major, b->layout->minor_to_major,
                  a->rank * sizeof(int64_t)) == 0;
}

/* -- text -------------------------------------------------------------------------- */

static void add_list(Text *t, const int64_t *data, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0)
            text_char(t, ',');
        if (data[i] == TILE_COMBINE)
            text_char(t, '*');
        else
            text_int(t, data[i]);
    }
}

static void add_property(Text *t, const char *letter, int64_t value)
{
    text_string(t, letter);
    text_char(t, '(');
    text_int(t, value);
    text_char(t, ')');
}

/* The properties behind the colon, in grammar order, defaults left out. */
static void add_properties(Text *t, const Layout *l)
{
    if (l->tile_count != 0)
        text_char(t, 'T');
    for (uint32_t i = 0; i < l->tile_count; i++) {
        text_char(t, '(');
        add_list(t, l->tiles[i].dims, l->tiles[i].rank);
        text_char(t, ')');
    }
    if (l->tail_padding_alignment != 1)
        add_property(t, "L", l->tail_padding_alignment);
    if (l->index_type != DT_INVALID)
        text_printf(t, "#(%s)", dtype_name(l->index_type));
    if (l->pointer_type != DT_INVALID)
        text_printf(t, "*(%s)", dtype_name(l->pointer_type));
    if (l->element_bits != 0)
        add_property(t, "E", l->element_bits);
    if (l->memory_space != 0)
        add_property(t, "S", l->memory_space);
    if (l->split_count != 0)
        text_string(t, "SC");
    for (uint32_t i = 0; i < l->split_count; i++) {
        text_char(t, '(');
        text_int(t, l->splits[i].dimension);
        text_char(t, ':');
        add_list(t, l->splits[i].indices, l->splits[i].count);
        text_char(t, ')');
    }
    if (l->metadata_prefix_bytes != 0)
        add_property(t, "M", l->metadata_prefix_bytes);
}

static void add_layout(Text *t, const Layout *l)
{
    Layout plain = *l;
    plain.minor_to_major = NULL;
    plain.rank = 0;
    bool properties = !layout_is_default(&plain);
    if (l->rank == 0 && !properties)
        return;
    text_char(t, '{');
    add_list(t, l->minor_to_major, l->rank);
    if (properties) {
        text_char(t, ':');
        add_properties(t, l);
    }
    text_char(t, '}');
}

static void add_dims(Text *t, const Shape *s)
{
    text_char(t, '[');
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != 0)
            text_char(t, ',');
        if (s->dims[i] == DIM_UNBOUNDED) {
            text_char(t, '?');
            continue;
        }
        if (s->dynamic != NULL && s->dynamic[i])
            text_string(t, "<=");
        text_int(t, s->dims[i]);
    }
    text_char(t, ']');
}

void shape_print(Text *t, const Shape *s, bool layouts)
{
    if (s->dtype == DT_TUPLE) {
        text_char(t, '(');
        for (uint32_t i = 0; i < s->rank; i++) {
            if (i != 0)
                text_string(t, ", ");
            if (i != 0 && i % 5 == 0)
                text_printf(t, "/*index=%u*/", i);
            shape_print(t, s->elements[i], layouts);
        }
        text_char(t, ')');
    } else if (s->dtype == DT_BUFFER) {
        text_string(t, "b(");
        shape_print(t, s->elements[0], layouts);
        text_char(t, ')');
    } else {
        text_string(t, dtype_name(s->dtype));
        add_dims(t, s);
        if (layouts && s->layout != NULL)
            add_layout(t, s->layout);
    }
}

const char *shape_text(Arena *a, const Shape *s, bool layouts)
{
    Text t;
    text_init(&t, a);
    shape_print(&t, s, layouts);
    return t.data;
}

const char *shape_leaf_path(Arena *a, const Shape *s, size_t leaf)
{
    const char *path = "";
    while (shape_is_tuple(s)) {
        uint32_t i = shape_leaf_element(s, leaf, &leaf);
        path = arena_printf(a, "%s%s%u", path, *path == '\0' ? "" : ".", i);
        s = s->elements[i];
    }
    return *path == '\0' ? "0" : path;
}
