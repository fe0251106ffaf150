/* Values of the evaluator. */
#include "ir/eval/value.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/bug.h"

static Value *value_create(ValueHeap *heap, const Shape *shape, uint32_t elements)
{
    Value *v = calloc(1, sizeof *v + elements * sizeof(Value *));
    if (v == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while evaluating");
    v->heap = heap;
    v->shape = shape;
    v->references = 1;
    v->next = heap->first;
    if (heap->first != NULL)
        heap->first->previous = v;
    heap->first = v;
    return v;
}

/* Counted against the limit. */
static void *heap_allocate(ValueHeap *heap, size_t bytes, bool zero)
{
    if (bytes > heap->limit - heap->bytes)
        escape_throw(
            ESCAPE_MEMORY,
            "evaluation needs more than %zu MiB of memory at once: %zu MiB are in use, "
            "%zu bytes more are asked for",
            heap->limit >> 20, heap->bytes >> 20, bytes);
    void *data = zero ? calloc(1, bytes + 16) : malloc(bytes + 16);
    if (data == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    heap->bytes += bytes;
    return data;
}

static void value_allocate(Value *v, bool zero)
{
    int64_t count = shape_elements(v->shape);
    size_t each = dtype_info[v->shape->dtype].storage;
    if ((uint64_t)count > (SIZE_MAX / 4) / (each ? each : 1))
        escape_throw(ESCAPE_MEMORY, "an array of %lld elements is too large",
                     (long long)count);
    v->data = v->owned = heap_allocate(v->heap, (size_t)count * each, zero);
    v->bytes = (size_t)count * each;
    v->count = count;
}

Value *value_array(ValueHeap *heap, const Shape *shape)
{
    Value *v = value_create(heap, shape, 0);
    value_allocate(v, false);
    return v;
}

Value *value_tuple(ValueHeap *heap, const Shape *shape)
{
    return value_create(heap, shape, shape->rank);
}

Value *value_token(ValueHeap *heap, const Shape *shape)
{
    return value_create(heap, shape, 0);
}

Value *value_zero(ValueHeap *heap, const Shape *shape)
{
    if (shape_is_array(shape)) {
        Value *v = value_create(heap, shape, 0);
        value_allocate(v, true);
        return v;
    }
    if (shape->dtype == DT_BUFFER)
        return value_zero(heap, shape->elements[0]);
    if (shape->dtype != DT_TUPLE)
        return value_token(heap, shape);
    Value *v = value_tuple(heap, shape);
    for (uint32_t i = 0; i < shape->rank; i++)
        v->elements[i] = value_zero(heap, shape->elements[i]);
    return v;
}

Value *value_borrow(ValueHeap *heap, const Literal *l)
{
    if (shape_is_array(l->shape)) {
        Value *v = value_create(heap, l->shape, 0);
        v->count = l->count;
        v->data = l->data;
        return v;
    }
    if (l->shape->dtype != DT_TUPLE)
        return value_token(heap, l->shape);
    Value *v = value_tuple(heap, l->shape);
    for (uint32_t i = 0; i < l->shape->rank; i++)
        v->elements[i] = value_borrow(heap, l->elements[i]);
    return v;
}

Value *value_retain(Value *v)
{
    v->references++;
    return v;
}

static void value_free(Value *v)
{
    v->heap->bytes -= v->bytes;
    if (v->previous != NULL)
        v->previous->next = v->next;
    else
        v->heap->first = v->next;
    if (v->next != NULL)
        v->next->previous = v->previous;
    free(v->owned);
    free(v->sizes);
    free(v);
}

void value_release(Value *v)
{
    if (v == NULL || --v->references > 0)
        return;
    if (v->shape->dtype == DT_TUPLE)
        for (uint32_t i = 0; i < v->shape->rank; i++)
            value_release(v->elements[i]);
    value_free(v);
}

/* 32 bytes, so that what follows is aligned like malloc's. */
struct Temp {
    struct Temp *below;
    size_t bytes;
    size_t reserved[2];
};

void *value_heap_temp(ValueHeap *heap, size_t bytes)
{
    struct Temp *t = heap_allocate(heap, bytes + sizeof *t, false);
    t->below = heap->temps;
    t->bytes = bytes + sizeof *t;
    heap->temps = t;
    return t + 1;
}

struct Temp *value_heap_mark(const ValueHeap *heap)
{
    return heap->temps;
}

void value_heap_release(ValueHeap *heap, struct Temp *mark)
{
    while (heap->temps != mark) {
        struct Temp *t = heap->temps;
        heap->temps = t->below;
        heap->bytes -= t->bytes;
        free(t);
    }
}

void value_heap_clear(ValueHeap *heap)
{
    value_heap_release(heap, NULL);
    while (heap->first != NULL)
        value_free(heap->first);
}

int64_t value_size(const Value *v, uint32_t dimension)
{
    return v->sizes != NULL ? v->sizes[dimension] : v->shape->dims[dimension];
}

void value_set_size(Value *v, uint32_t dimension, int64_t size)
{
    if (v->sizes == NULL) {
        if (size == v->shape->dims[dimension])
            return;
        v->sizes = malloc((v->shape->rank + 1) * sizeof *v->sizes);
        if (v->sizes == NULL)
            escape_throw(ESCAPE_MEMORY, "out of memory while evaluating");
        memcpy(v->sizes, v->shape->dims, v->shape->rank * sizeof *v->sizes);
    }
    v->sizes[dimension] = size;
}

void value_copy_sizes(Value *to, const Value *from)
{
    if (from->sizes == NULL)
        return;
    for (uint32_t i = 0; i < from->shape->rank; i++)
        value_set_size(to, i, from->sizes[i]);
}

size_t value_element_bytes(const Value *v)
{
    return dtype_info[v->shape->dtype].storage;
}

Literal *value_literal(Arena *a, const Value *v)
{
    Literal *l = ARENA_NEW(a, Literal);
    l->shape = v->shape;
    if (shape_is_array(v->shape)) {
        l->count = v->count;
        l->data = arena_copy(a, v->data, (size_t)v->count * value_element_bytes(v));
    } else if (v->shape->dtype == DT_TUPLE) {
        l->elements = ARENA_ARRAY(a, Literal *, v->shape->rank);
        for (uint32_t i = 0; i < v->shape->rank; i++)
            l->elements[i] = value_literal(a, v->elements[i]);
    }
    return l;
}

int64_t value_int(const Value *v, int64_t index)
{
    const char *data = v->data;
    return number_get_int(v->shape->dtype, data + (size_t)index * value_element_bytes(v));
}
