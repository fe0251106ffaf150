/* A heap of instruction numbers: the lowest key first, of equal ones the one of the lowest position. */
#ifndef GXC_PASSES_SCHEDULE_HEAP_H
#define GXC_PASSES_SCHEDULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"

typedef struct Heap {
    uint32_t *list;
    uint32_t count;
    size_t capacity;
    const double *key;        /* by number: may only fall while it is in the heap */
    const uint32_t *position; /* the same; NULL: the number itself */
    uint32_t *where;          /* by number: its entry + 1, 0: none; NULL: nobody asks */
    Arena *arena;
} Heap;

static inline Heap heap_make(Arena *a, const double *key, const uint32_t *position)
{
    return (Heap){.key = key, .position = position, .arena = a};
}

/* For heap_has and heap_raise: numbers are below `count`. The heap is empty. */
void heap_track(Heap *h, uint32_t count);
static inline bool heap_has(const Heap *h, uint32_t x)
{
    return h->where[x] != 0;
}
/* The key of x, which is in the heap, has fallen. */
void heap_raise(Heap *h, uint32_t x);
void heap_put(Heap *h, uint32_t x);
/* Takes out the entry list[at]; 0: the lowest. The heap is not empty. */
uint32_t heap_take(Heap *h, uint32_t at);

#endif
