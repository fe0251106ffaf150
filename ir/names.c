/* See names.h. Two hash tables: the roots, and the numbers in use by (root, number). */
#include "ir/names.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { RUN = 8 }; /* numbers in a row lie in a row: they are taken in order */

typedef struct Root {
    const char *text; /* in the first name that had it */
    size_t length;
    bool is_used;  /* the root itself is a name */
    uint64_t next; /* the number to try next */
} Root;

typedef struct RootSlot {
    uint64_t hash;
    Root *root; /* NULL: free */
} RootSlot;

typedef struct Used {
    const Root *root; /* NULL: free */
    uint64_t number;
} Used;

struct Names {
    Arena *arena;
    RootSlot *roots;
    size_t root_capacity, root_count;
    Used *used;
    size_t used_capacity, used_count;
};

Names *names_create(Arena *a)
{
    Names *n = ARENA_NEW(a, Names);
    n->arena = a;
    return n;
}

static RootSlot *root_slot(RootSlot *slots, size_t capacity, const char *text,
                           size_t length, uint64_t hash)
{
    size_t at = hash & (capacity - 1);
    while (slots[at].root != NULL &&
           (slots[at].hash != hash || slots[at].root->length != length ||
            memcmp(slots[at].root->text, text, length) != 0))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

/* The root of this spelling; a new one points to `text`. */
static Root *root_get(Names *n, const char *text, size_t length)
{
    if (n->root_count * 2 >= n->root_capacity) {
        size_t capacity = n->root_capacity == 0 ? 64 : n->root_capacity * 2;
        RootSlot *grown = ARENA_ARRAY(n->arena, RootSlot, capacity);
        for (size_t i = 0; i < n->root_capacity; i++) {
            const RootSlot *s = &n->roots[i];
            if (s->root != NULL)
                *root_slot(grown, capacity, s->root->text, s->root->length, s->hash) = *s;
        }
        n->roots = grown;
        n->root_capacity = capacity;
    }
    uint64_t hash = XXH3_64bits(text, length);
    RootSlot *slot = root_slot(n->roots, n->root_capacity, text, length, hash);
    if (slot->root == NULL) {
        Root *root = ARENA_NEW(n->arena, Root);
        *root = (Root){.text = text, .length = length};
        *slot = (RootSlot){hash, root};
        n->root_count++;
    }
    return slot->root;
}

static Used *used_slot(Used *slots, size_t capacity, const Root *root, uint64_t number)
{
    uint64_t hash = (uint64_t)(uintptr_t)root / 16 * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= number / RUN * UINT64_C(0xc2b2ae3d27d4eb4f);
    hash ^= hash >> 29;
    size_t at = (size_t)(hash * RUN + number % RUN) & (capacity - 1);
    while (slots[at].root != NULL &&
           (slots[at].root != root || slots[at].number != number))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

void names_reserve(Names *n, size_t count)
{
    size_t capacity = n->used_capacity == 0 ? 64 : n->used_capacity;
    while (capacity / 2 <= n->used_count + count)
        capacity *= 2;
    if (capacity == n->used_capacity)
        return;
    Used *grown = ARENA_ARRAY(n->arena, Used, capacity);
    for (size_t i = 0; i < n->used_capacity; i++) {
        const Used *u = &n->used[i];
        if (u->root != NULL)
            *used_slot(grown, capacity, u->root, u->number) = *u;
    }
    n->used = grown;
    n->used_capacity = capacity;
}

/* False if it was in use. */
static bool use(Names *n, Root *root, uint64_t number)
{
    if (number == 0) {
        bool was_used = root->is_used;
        root->is_used = true;
        return !was_used;
    }
    if (n->used_count * 2 >= n->used_capacity)
        names_reserve(n, 1);
    Used *u = used_slot(n->used, n->used_capacity, root, number);
    if (u->root != NULL)
        return false;
    *u = (Used){root, number};
    n->used_count++;
    return true;
}

/* Splits "x.12" into its root's length and number; false if there is no such suffix. */
static bool split_number(const char *name, size_t length, size_t *root_length,
                         uint64_t *number)
{
    size_t at = length;
    uint64_t value = 0, scale = 1;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && length - at < 18) {
        value += scale * (uint64_t)(name[at - 1] - '0');
        scale *= 10;
        at--;
    }
    if (at == length || at < 2 || name[at - 1] != '.')
        return false;
    *root_length = at - 1;
    *number = value;
    return true;
}

/* "root.number" */
static const char *numbered(Names *n, const Root *root, uint64_t number)
{
    char digits[20];
    size_t count = 0, length = root->length;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    char *text = arena_alloc(n->arena, length + count + 2);
    memcpy(text, root->text, length);
    text[length++] = '.';
    while (count != 0)
        text[length++] = digits[--count];
    return text;
}

static const char *give(Names *n, const char *wanted, bool keep)
{
    size_t length = strlen(wanted), root_length = length;
    uint64_t number = 0;
    split_number(wanted, length, &root_length, &number);
    Root *root = root_get(n, wanted, root_length);
    if (!use(n, root, number)) {
        while (!use(n, root, root->next))
            root->next++;
        return numbered(n, root, root->next++);
    }
    if (keep)
        return wanted;
    const char *copy = arena_text(n->arena, wanted, length);
    if (root->text == wanted)
        root->text = copy;
    return copy;
}

const char *names_take(Names *n, const char *wanted)
{
    return give(n, wanted, false);
}

const char *names_keep(Names *n, const char *wanted)
{
    return give(n, wanted, true);
}
