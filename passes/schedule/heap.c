/* See heap.h. */
#include "passes/schedule/heap.h"

static bool is_before(const Heap *h, uint32_t a, uint32_t b)
{
    if (h->key[a] != h->key[b])
        return h->key[a] < h->key[b];
    return h->position == NULL ? a < b : h->position[a] < h->position[b];
}

static void set(Heap *h, uint32_t at, uint32_t x)
{
    h->list[at] = x;
    if (h->where != NULL)
        h->where[x] = at + 1;
}

/* Moves x from the free position `at` to where it belongs above it. */
static uint32_t rise(Heap *h, uint32_t at, uint32_t x)
{
    for (; at > 0 && is_before(h, x, h->list[(at - 1) / 2]); at = (at - 1) / 2)
        set(h, at, h->list[(at - 1) / 2]);
    set(h, at, x);
    return at;
}

void heap_track(Heap *h, uint32_t count)
{
    h->where = ARENA_ARRAY(h->arena, uint32_t, count);
}

void heap_raise(Heap *h, uint32_t x)
{
    rise(h, h->where[x] - 1, x);
}

void heap_put(Heap *h, uint32_t x)
{
    h->list = arena_grow(h->arena, h->list, &h->capacity, (size_t)h->count + 1, sizeof x);
    rise(h, h->count++, x);
}

uint32_t heap_take(Heap *h, uint32_t at)
{
    uint32_t taken = h->list[at], last = h->list[--h->count];
    if (h->where != NULL)
        h->where[taken] = 0;
    if (at == h->count)
        return taken;
    at = rise(h, at, last);
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= h->count)
            break;
        child += child + 1 < h->count && is_before(h, h->list[child + 1], h->list[child]);
        if (!is_before(h, h->list[child], last))
            break;
        set(h, at, h->list[child]);
        at = child;
    }
    set(h, at, last);
    return taken;
}
