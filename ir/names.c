/* See names.h. Two hash tables: numbers in use by (root, number), next counter by root. */
#include "ir/names.h"

#include <stdbool.h>
#include <string.h>

enum { RUN = 8 }; /* numbers in a row lie in a row: they are taken in order */

typedef struct Entry {
    const char *root; /* interned; NULL: free slot */
    uint64_t number;
    uint64_t next; /* counters only */
} Entry;

typedef struct Set {
    Entry *slots;
    size_t capacity, count;
} Set;

struct Names {
    Arena *arena;
    Intern *texts;
    Set used;     /* keyed by (root, number) */
    Set counters; /* keyed by (root, 0) */
};

Names *names_create(Arena *a, Intern *texts)
{
    Names *n = ARENA_NEW(a, Names);
    n->arena = a;
    n->texts = texts;
    return n;
}

static size_t entry_hash(const char *root, uint64_t number)
{
    uint64_t h = (uint64_t)(uintptr_t)root / 16 * UINT64_C(0x9e3779b97f4a7c15);
    h ^= number * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (size_t)(h ^ (h >> 29));
}

static Entry *set_slot(Entry *slots, size_t capacity, const char *root, uint64_t number)
{
    size_t at = (entry_hash(root, number / RUN) * RUN + number % RUN) & (capacity - 1);
    while (slots[at].root != NULL &&
           (slots[at].root != root || slots[at].number != number))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

/* The entry, made if it is new. */
static Entry *set_entry(Names *n, Set *set, const char *root, uint64_t number,
                        bool *is_new)
{
    if (set->count * 2 >= set->capacity) {
        size_t capacity = set->capacity == 0 ? 64 : set->capacity * 2;
        Entry *slots = ARENA_ARRAY(n->arena, Entry, capacity);
        for (size_t i = 0; i < set->capacity; i++) {
            const Entry *e = &set->slots[i];
            if (e->root != NULL)
                *set_slot(slots, capacity, e->root, e->number) = *e;
        }
        set->slots = slots;
        set->capacity = capacity;
    }
    Entry *e = set_slot(set->slots, set->capacity, root, number);
    *is_new = e->root == NULL;
    if (*is_new) {
        e->root = root;
        e->number = number;
        set->count++;
    }
    return e;
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
static const char *numbered(Names *n, const char *root, size_t length, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    char *text = arena_alloc(n->arena, length + count + 2);
    memcpy(text, root, length);
    text[length++] = '.';
    while (count != 0)
        text[length++] = digits[--count];
    return intern_owned(n->texts, text, length);
}

const char *names_take(Names *n, const char *wanted)
{
    size_t length = strlen(wanted), root_length = length;
    uint64_t number = 0;
    split_number(wanted, length, &root_length, &number);
    const char *root = intern_text(n->texts, wanted, root_length);
    bool is_new;
    set_entry(n, &n->used, root, number, &is_new);
    if (is_new)
        return intern_text(n->texts, wanted, length);
    bool first;
    Entry *counter = set_entry(n, &n->counters, root, 0, &first);
    do
        set_entry(n, &n->used, root, counter->next++, &is_new);
    while (!is_new);
    return numbered(n, root, root_length, counter->next - 1);
}
