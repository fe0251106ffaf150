/* Literals: making, comparing, element access, and the printed form of the language. */
#include "ir/literal.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/text.h"

Literal *literal_create(Arena *a, const Shape *shape)
{
    Literal *l = ARENA_NEW(a, Literal);
    l->shape = shape;
    if (shape_is_tuple(shape)) {
        l->elements = ARENA_ARRAY(a, Literal *, shape->rank);
        for (uint32_t i = 0; i < shape->rank; i++)
            l->elements[i] = literal_create(a, shape->elements[i]);
    } else if (shape_is_array(shape)) {
        l->count = shape_elements(shape);
        l->data = arena_array(a, (size_t)l->count, dtype_storage_bytes(shape->dtype));
    }
    return l;
}

Literal *literal_copy(Arena *a, const Literal *l)
{
    Literal *copy = ARENA_NEW(a, Literal);
    *copy = *l;
    if (l->elements != NULL) {
        copy->elements = ARENA_ARRAY(a, Literal *, l->shape->rank);
        for (uint32_t i = 0; i < l->shape->rank; i++)
            copy->elements[i] = literal_copy(a, l->elements[i]);
    }
    if (l->data != NULL)
        copy->data = arena_copy(a, l->data, literal_bytes(l));
    return copy;
}

size_t literal_bytes(const Literal *l)
{
    return (size_t)l->count * dtype_storage_bytes(l->shape->dtype);
}

bool literal_equal(const Literal *a, const Literal *b)
{
    if (a == b)
        return true;
    if (a->elided || b->elided || !shape_compatible(a->shape, b->shape))
        return false;
    if (shape_is_tuple(a->shape)) {
        for (uint32_t i = 0; i < a->shape->rank; i++)
            if (!literal_equal(a->elements[i], b->elements[i]))
                return false;
        return true;
    }
    return a->count == 0 || memcmp(a->data, b->data, literal_bytes(a)) == 0;
}

bool literal_is_all(const Literal *l, double value)
{
    if (!shape_is_array(l->shape) || l->elided)
        return false;
    DType t = l->shape->dtype;
    char wanted[16] = {0};
    number_set_double(t, wanted, value);
    double held = number_get_double(t, wanted);
    if (held != value) /* not representable, or NaN */
        return false;
    size_t size = dtype_storage_bytes(t);
    const char *data = l->data;
    for (int64_t i = 0; i < l->count; i++)
        if (memcmp(data + (size_t)i * size, wanted, size) != 0)
            return false;
    return true;
}

bool literal_has_elided(const Literal *l)
{
    if (l->elided)
        return true;
    for (uint32_t i = 0; l->elements != NULL && i < l->shape->rank; i++)
        if (literal_has_elided(l->elements[i]))
            return true;
    return false;
}

/* --- Elements --- */

static void *element_at(const Literal *l, int64_t index)
{
    if (index < 0 || index >= l->count || l->data == NULL)
        bug("literal element %lld of %lld", (long long)index, (long long)l->count);
    return (char *)l->data + (size_t)index * dtype_storage_bytes(l->shape->dtype);
}

int64_t literal_int(const Literal *l, int64_t index)
{
    return number_get_int(l->shape->dtype, element_at(l, index));
}

double literal_double(const Literal *l, int64_t index)
{
    return number_get_double(l->shape->dtype, element_at(l, index));
}

uint64_t literal_bits(const Literal *l, int64_t index)
{
    return number_load(l->shape->dtype, element_at(l, index));
}

void literal_set_int(Literal *l, int64_t index, int64_t value)
{
    number_set_int(l->shape->dtype, element_at(l, index), value);
}

void literal_set_double(Literal *l, int64_t index, double value)
{
    number_set_double(l->shape->dtype, element_at(l, index), value);
}

void literal_set_complex(Literal *l, int64_t index, double re, double im)
{
    number_set_complex(l->shape->dtype, element_at(l, index), re, im);
}

/* --- Text --- */

static void print_element(Text *t, const Literal *l, int64_t index)
{
    text_reserve(t, NUMBER_TEXT_MAX);
    t->length += number_print(l->shape->dtype, element_at(l, index), l->shape->rank == 0,
                              t->data + t->length);
    t->data[t->length] = '\0';
}

/* The last dimension: `{1, 2}` alone, `{ 1, 2 }` inside others, `{1}` and `{}` always tight. */
static void print_row(Text *t, const Literal *l, int64_t first)
{
    int64_t size = l->shape->dims[l->shape->rank - 1];
    bool spaced = l->shape->rank > 1 && size > 1;
    text_string(t, spaced ? "{ " : "{");
    for (int64_t i = 0; i < size; i++) {
        if (i > 0)
            text_string(t, ", ");
        print_element(t, l, first + i);
    }
    text_string(t, spaced ? " }" : "}");
}

/* Level `depth` of the array, whose elements start at `first`; it is number `number` in its
 * parent. Depth is limited by the rank. */
static void print_level(Text *t, const Literal *l, uint32_t depth, int64_t number,
                        int64_t first)
{
    const Shape *s = l->shape;
    if (depth + 1 == s->rank) {
        print_row(t, l, first);
        return;
    }
    bool is_numbered = s->rank > 3 && depth > 0;
    int64_t size = s->dims[depth], stride = 1;
    for (uint32_t i = depth + 1; i < s->rank; i++)
        stride *= s->dims[i];
    text_string(t, "{");
    if (is_numbered)
        text_printf(t, " /*i%u=%lld*/", depth - 1, (long long)number);
    text_string(t, size > 0 || !is_numbered ? " " : "");
    for (int64_t i = 0; i < size; i++) {
        if (i > 0)
            text_string(t, ", ");
        print_level(t, l, depth + 1, i, first + i * stride);
    }
    text_string(t, " }");
}

void literal_print(Text *t, const Literal *l)
{
    if (l->elided) {
        text_string(t, "{...}");
    } else if (shape_is_tuple(l->shape)) {
        text_string(t, l->shape->rank == 0 ? "(" : "( ");
        for (uint32_t i = 0; i < l->shape->rank; i++) {
            if (i > 0)
                text_string(t, ", ");
            literal_print(t, l->elements[i]);
        }
        text_string(t, l->shape->rank == 0 ? ")" : " )");
    } else if (l->shape->rank == 0) {
        print_element(t, l, 0);
    } else {
        print_level(t, l, 0, 0, 0);
    }
}

const char *literal_text(Arena *a, const Literal *l)
{
    Text t;
    text_init(&t, a);
    literal_print(&t, l);
    return t.data;
}

/* -- device memory ------------------------------------------------------------------- */

/* Copies elements in physical order; `logical` walks the literal by the layout's strides. */
static void copy_physical(const Literal *l, const Shape *shape, unsigned char *out)
{
    uint32_t rank = shape->rank;
    size_t bytes = dtype_storage_bytes(shape->dtype);
    const unsigned char *data = l->data;
    Arena *scratch = arena_scratch();
    int64_t *stride =
        ARENA_ARRAY(scratch, int64_t, (size_t)rank + 1); /* logical, by dimension */
    int64_t *at = ARENA_ARRAY(scratch, int64_t, (size_t)rank + 1);
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0;) {
        stride[d] = step;
        step *= shape->dims[d];
    }
    int64_t logical = 0;
    for (int64_t i = 0; i < l->count; i++) {
        memcpy(out + (size_t)i * bytes, data + (size_t)logical * bytes, bytes);
        for (uint32_t k = 0; k < rank; k++) {
            int64_t d = shape->layout->minor_to_major[k];
            logical += stride[d];
            if (++at[d] < shape->dims[d])
                break;
            logical -= stride[d] * shape->dims[d];
            at[d] = 0;
        }
    }
    arena_destroy(scratch);
}

void literal_to_device(const Literal *l, const Shape *shape, void *out)
{
    if (l->count == 0)
        return;
    if (!dtype_is_sub_byte(shape->dtype)) {
        copy_physical(l, shape, out);
        return;
    }
    Arena *scratch = arena_scratch();
    unsigned char *ordered = ARENA_ARRAY(scratch, unsigned char, (size_t)l->count);
    copy_physical(l, shape, ordered);
    number_pack(shape->dtype, out, ordered, (size_t)l->count);
    arena_destroy(scratch);
}
