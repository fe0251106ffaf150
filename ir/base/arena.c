/* Arenas: a list of blocks that grow geometrically up to BLOCK_MOST; large allocations get
 * a block of their own, behind the current one, so that the current block goes on filling.
 * Small blocks are zeroed as they are used: most arenas live for one function and need little.
 * The largest are mapped by themselves: they are zeroed already and go back at once. (Huge pages
 * were tried: a tenth faster with much free memory, slower where the system has to find them.) */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "ir/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/bug.h"

#ifndef ARENA_BLOCK_FIRST /* a test build makes this tiny so that blocks change often */
#define ARENA_BLOCK_FIRST 4096
#endif
#define ARENA_BLOCK_SMALL (1 << 16)  /* from here on the system has zeroed pages for us */
#define ARENA_BLOCK_MAPPED (1 << 21) /* from here on we map them, header included */
#define ARENA_BLOCK_FILLED (1 << 25) /* up to here all pages come at once */
#define ARENA_BLOCK_MOST (ARENA_BLOCK_MAPPED - sizeof(Block))
#define ARENA_LARGE ARENA_BLOCK_SMALL /* what is worth looking for to give it back */
#define ARENA_ALIGN 16

typedef struct Block {
    struct Block *next;
    size_t size; /* usable bytes behind the header */
    size_t used;
    size_t is_zero; /* what is not used holds zeros; a size_t keeps the data aligned */
} Block;

struct Arena {
    Block *current;
    size_t next_size;
    size_t bytes;
    Escape *owner; /* scratch: the escape that destroys it, in whose list it is */
    Arena *previous, *next;
};

_Static_assert(sizeof(Block) % ARENA_ALIGN == 0, "block data must stay aligned");

static unsigned char *block_data(Block *b)
{
    return (unsigned char *)(b + 1);
}

static bool is_mapped(size_t size)
{
    return size >= ARENA_BLOCK_MOST;
}

static void *map_block(size_t bytes)
{
    int now = bytes <= ARENA_BLOCK_FILLED ? MAP_POPULATE : 0;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | now,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static Block *block_create(Arena *a, size_t size)
{
    if (size > SIZE_MAX - sizeof(Block) - (size_t)ARENA_BLOCK_MAPPED)
        escape_throw(ESCAPE_MEMORY, "an allocation of %zu bytes is too large", size);
    bool is_zero = size >= ARENA_BLOCK_SMALL;
    size_t bytes = sizeof(Block) + size;
    Block *b = is_mapped(size) ? map_block(bytes)
               : is_zero       ? calloc(1, bytes)
                               : malloc(bytes);
    if (b == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory: cannot allocate %zu bytes", size);
    *b = (Block){.size = size, .is_zero = is_zero};
    a->bytes += sizeof(Block) + size;
    return b;
}

static void *block_take(Block *b, size_t bytes)
{
    void *p = block_data(b) + b->used;
    b->used += bytes;
    return b->is_zero ? p : memset(p, 0, bytes);
}

Arena *arena_create(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (a == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory: cannot create an arena");
    a->next_size = ARENA_BLOCK_FIRST;
    return a;
}

static void block_free(Block *b)
{
    if (is_mapped(b->size))
        munmap(b, sizeof(Block) + b->size);
    else
        free(b);
}

static void blocks_free(Block *b)
{
    while (b != NULL) {
        Block *next = b->next;
        block_free(b);
        b = next;
    }
}

Arena *arena_scratch(void)
{
    Arena *a = arena_create();
    a->owner = escape_innermost();
    if (a->owner != NULL) {
        a->next = a->owner->scratch;
        if (a->next != NULL)
            a->next->previous = a;
        a->owner->scratch = a;
    }
    return a;
}

static void leave_owner(Arena *a)
{
    if (a->owner == NULL)
        return;
    if (a->previous != NULL)
        a->previous->next = a->next;
    else
        a->owner->scratch = a->next;
    if (a->next != NULL)
        a->next->previous = a->previous;
}

void arena_destroy(Arena *a)
{
    if (a == NULL)
        return;
    leave_owner(a);
    blocks_free(a->current);
    free(a);
}

void arena_reset(Arena *a)
{
    Block *keep = a->current;
    if (keep == NULL)
        return;
    blocks_free(keep->next);
    keep->next = NULL;
    keep->is_zero = false;
    keep->used = 0;
    a->bytes = sizeof(Block) + keep->size;
}

Arena *arena_move(Arena *a)
{
    Arena *to = arena_scratch();
    to->current = a->current;
    to->bytes = a->bytes;
    a->current = NULL;
    a->bytes = 0;
    a->next_size = ARENA_BLOCK_FIRST;
    return to;
}

static size_t round_up(size_t bytes)
{
    if (bytes > SIZE_MAX - ARENA_ALIGN)
        escape_throw(ESCAPE_MEMORY, "an allocation of %zu bytes is too large", bytes);
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* Takes the block that holds just this allocation out of the list; NULL: there is none. */
static Block *block_remove(Arena *a, const void *p, size_t bytes)
{
    if (bytes < ARENA_LARGE)
        return NULL;
    size_t rounded = round_up(bytes);
    for (Block **at = &a->current; *at != NULL; at = &(*at)->next) {
        Block *b = *at;
        if (block_data(b) != p || b->size != rounded)
            continue;
        *at = b->next;
        a->bytes -= sizeof(Block) + b->size;
        return b;
    }
    return NULL;
}

void arena_drop(Arena *a, void *p, size_t bytes)
{
    Block *b = block_remove(a, p, bytes);
    if (b != NULL)
        block_free(b);
}

bool arena_hand_over(Arena *from, Arena *to, const void *p, size_t bytes)
{
    Block *b = block_remove(from, p, bytes);
    if (b == NULL)
        return false;
    to->bytes += sizeof(Block) + b->size;
    Block **position = to->current == NULL ? &to->current : &to->current->next;
    b->next = *position;
    *position = b;
    return true;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    size_t rounded = round_up(bytes);
    Block *b = a->current;
    if (b == NULL || rounded > b->size - b->used) {
        if (b != NULL && rounded > a->next_size / 4) {
            Block *own = block_create(a, rounded);
            own->next = b->next;
            b->next = own;
            return block_take(own, rounded);
        }
        size_t size = rounded > a->next_size ? rounded : a->next_size;
        b = block_create(a, size);
        b->next = a->current;
        a->current = b;
        a->next_size =
            a->next_size < ARENA_BLOCK_MOST / 4 ? a->next_size * 2 : ARENA_BLOCK_MOST;
    }
    return block_take(b, rounded);
}

void *arena_array(Arena *a, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        escape_throw(ESCAPE_MEMORY, "an array of %zu elements is too large", count);
    return arena_alloc(a, count * size);
}

void *arena_copy(Arena *a, const void *data, size_t bytes)
{
    void *p = arena_alloc(a, bytes);
    if (bytes != 0)
        memcpy(p, data, bytes);
    return p;
}

char *arena_text(Arena *a, const char *data, size_t length)
{
    char *p = arena_alloc(a, length + 1);
    if (length != 0)
        memcpy(p, data, length);
    return p;
}

void *arena_take(Arena *a, void *data, size_t bytes)
{
    void *volatile copy = NULL;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0 && data != NULL)
        copy = arena_copy(a, data, bytes);
    escape_pop(&e);
    free(data);
    if (e.kind != ESCAPE_NONE)
        escape_throw(e.kind, "%s", e.message);
    return copy;
}

char *arena_take_text(Arena *a, char *text)
{
    return arena_take(a, text, text == NULL ? 0 : strlen(text) + 1);
}

char *arena_vprintf(Arena *a, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        escape_throw(ESCAPE_MEMORY, "a message cannot be formatted");
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, format, args);
    return p;
}

char *arena_printf(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *p = arena_vprintf(a, format, args);
    va_end(args);
    return p;
}

size_t arena_bytes(const Arena *a)
{
    return a->bytes;
}

void *arena_grow(Arena *a, void *array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return array;
    size_t grown = *capacity < 8 ? 8 : *capacity * 2;
    if (grown < needed)
        grown = needed;
    void *p = arena_array(a, grown, size);
    if (*capacity != 0)
        memcpy(p, array, *capacity * size);
    arena_drop(a, array, *capacity * size);
    *capacity = grown;
    return p;
}
