/* Interning by open-addressing hash tables. Entries are found by hash and full comparison;
 * nothing depends on their order in the table. See intern.h. */
#include "ir/intern.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/base/bug.h"

typedef struct Slot {
    uint64_t hash;
    const void *value; /* NULL: free */
} Slot;

typedef struct Table {
    Slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} Table;

struct Intern {
    Arena *arena;
    Table texts, layouts, shapes;
};

typedef bool SameFn(const void *a, const void *b);

Intern *intern_create(Arena *a)
{
    Intern *t = ARENA_NEW(a, Intern);
    t->arena = a;
    return t;
}

Arena *intern_arena(const Intern *t)
{
    return t->arena;
}

static void table_grow(Intern *t, Table *table)
{
    size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    Slot *slots = ARENA_ARRAY(t->arena, Slot, capacity);
    for (size_t i = 0; i < table->capacity; i++) {
        Slot s = table->slots[i];
        if (s.value == NULL)
            continue;
        size_t at = s.hash & (capacity - 1);
        while (slots[at].value != NULL)
            at = (at + 1) & (capacity - 1);
        slots[at] = s;
    }
    table->slots = slots;
    table->capacity = capacity;
}

/* The slot of an equal value, or the free slot where it belongs. */
static Slot *table_find(Intern *t, Table *table, uint64_t hash, const void *key,
                        SameFn *same)
{
    if (table->count * 4 >= table->capacity * 3)
        table_grow(t, table);
    size_t mask = table->capacity - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        Slot *s = &table->slots[at];
        if (s->value == NULL || (s->hash == hash && same(s->value, key)))
            return s;
    }
}

static void slot_fill(Table *table, Slot *s, uint64_t hash, const void *value)
{
    s->hash = hash;
    s->value = value;
    table->count++;
}

/* -- text -------------------------------------------------------------------------- */

typedef struct TextKey {
    const char *data;
    size_t length;
} TextKey;

static bool text_same(const void *stored, const void *key)
{
    const char *text = stored;
    const TextKey *k = key;
    return strncmp(text, k->data, k->length) == 0 && text[k->length] == '\0';
}

const char *intern_text(Intern *t, const char *data, size_t length)
{
    TextKey key = {data, length};
    uint64_t hash = XXH3_64bits(data, length);
    Slot *s = table_find(t, &t->texts, hash, &key, text_same);
    if (s->value == NULL)
        slot_fill(&t->texts, s, hash, arena_text(t->arena, data, length));
    return s->value;
}

const char *intern_string(Intern *t, const char *text)
{
    return intern_text(t, text, strlen(text));
}

/* -- layouts ----------------------------------------------------------------------- */

static bool ints_same(const int64_t *a, const int64_t *b, uint32_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

static bool layout_same(const void *stored, const void *key)
{
    const Layout *a = stored, *b = key;
    if (a->rank != b->rank || a->tile_count != b->tile_count ||
        a->split_count != b->split_count ||
        a->tail_padding_alignment != b->tail_padding_alignment ||
        a->element_bits != b->element_bits || a->memory_space != b->memory_space ||
        a->metadata_prefix_bytes != b->metadata_prefix_bytes ||
        a->index_type != b->index_type || a->pointer_type != b->pointer_type ||
        !ints_same(a->minor_to_major, b->minor_to_major, a->rank))
        return false;
    for (uint32_t i = 0; i < a->tile_count; i++) {
        if (a->tiles[i].rank != b->tiles[i].rank ||
            !ints_same(a->tiles[i].dims, b->tiles[i].dims, a->tiles[i].rank))
            return false;
    }
    for (uint32_t i = 0; i < a->split_count; i++) {
        const SplitConfig *p = &a->splits[i], *q = &b->splits[i];
        if (p->dimension != q->dimension || p->count != q->count ||
            !ints_same(p->indices, q->indices, p->count))
            return false;
    }
    return true;
}

static uint64_t hash_ints(uint64_t seed, const int64_t *data, uint32_t count)
{
    return count == 0 ? seed : XXH3_64bits_withSeed(data, count * sizeof *data, seed);
}

static uint64_t layout_hash(const Layout *l)
{
    int64_t fields[] = {l->rank,
                        l->tile_count,
                        l->split_count,
                        l->tail_padding_alignment,
                        l->element_bits,
                        l->memory_space,
                        l->index_type,
                        l->pointer_type,
                        l->metadata_prefix_bytes};
    uint64_t h = hash_ints(1, fields, sizeof fields / sizeof *fields);
    h = hash_ints(h, l->minor_to_major, l->rank);
    for (uint32_t i = 0; i < l->tile_count; i++)
        h = hash_ints(h, l->tiles[i].dims, l->tiles[i].rank);
    for (uint32_t i = 0; i < l->split_count; i++)
        h = hash_ints(h + (uint64_t)l->splits[i].dimension, l->splits[i].indices,
                      l->splits[i].count);
    return h;
}

static const int64_t *copy_ints(Arena *a, const int64_t *data, uint32_t count)
{
    return count == 0 ? NULL : arena_copy(a, data, count * sizeof *data);
}

const Layout *intern_layout(Intern *t, const Layout *layout)
{
    uint64_t hash = layout_hash(layout);
    Slot *s = table_find(t, &t->layouts, hash, layout, layout_same);
    if (s->value != NULL)
        return s->value;
    Arena *a = t->arena;
    Layout *l = arena_copy(a, layout, sizeof *layout);
    l->minor_to_major = copy_ints(a, layout->minor_to_major, layout->rank);
    if (l->tile_count != 0) {
        Tile *tiles = arena_copy(a, layout->tiles, layout->tile_count * sizeof *tiles);
        for (uint32_t i = 0; i < l->tile_count; i++)
            tiles[i].dims = copy_ints(a, tiles[i].dims, tiles[i].rank);
        l->tiles = tiles;
    }
    if (l->split_count != 0) {
        SplitConfig *splits =
            arena_copy(a, layout->splits, layout->split_count * sizeof *splits);
        for (uint32_t i = 0; i < l->split_count; i++)
            splits[i].indices = copy_ints(a, splits[i].indices, splits[i].count);
        l->splits = splits;
    }
    slot_fill(&t->layouts, s, hash, l);
    return l;
}

/* -- shapes ------------------------------------------------------------------------ */

static bool shape_same(const void *stored, const void *key)
{
    const Shape *a = stored, *b = key;
    if (a->dtype != b->dtype || a->rank != b->rank || a->layout != b->layout)
        return false;
    if ((a->elements == NULL) != (b->elements == NULL) ||
        (a->dynamic == NULL) != (b->dynamic == NULL))
        return false;
    if (a->elements != NULL)
        return memcmp(a->elements, b->elements, a->rank * sizeof *a->elements) == 0;
    if (a->dynamic != NULL && memcmp(a->dynamic, b->dynamic, a->rank) != 0)
        return false;
    return ints_same(a->dims, b->dims, a->rank);
}

static uint64_t shape_hash(const Shape *s)
{
    uint64_t h = (uint64_t)s->dtype * 31 + s->rank + (uint64_t)(uintptr_t)s->layout;
    if (s->rank == 0)
        return XXH3_64bits(&h, sizeof h);
    if (s->elements != NULL)
        return XXH3_64bits_withSeed(s->elements, s->rank * sizeof *s->elements, h);
    if (s->dynamic != NULL)
        h = XXH3_64bits_withSeed(s->dynamic, s->rank, h);
    return hash_ints(h, s->dims, s->rank);
}

static const size_t *count_leaves(Arena *a, const Shape *tuple)
{
    size_t *first = ARENA_ARRAY(a, size_t, (size_t)tuple->rank + 1);
    for (uint32_t i = 0; i < tuple->rank; i++)
        first[i + 1] = first[i] + shape_leaf_count(tuple->elements[i]);
    return first;
}

const Shape *intern_shape(Intern *t, const Shape *shape)
{
    Shape key = *shape;
    if (key.dynamic != NULL) { /* an array of false is stored as NULL */
        bool any = false;
        for (uint32_t i = 0; i < key.rank; i++)
            any |= key.dynamic[i];
        if (!any)
            key.dynamic = NULL;
    }
    uint64_t hash = shape_hash(&key);
    Slot *s = table_find(t, &t->shapes, hash, &key, shape_same);
    if (s->value != NULL)
        return s->value;
    Arena *a = t->arena;
    Shape *copy = arena_copy(a, &key, sizeof key);
    copy->first_leaf = key.dtype == DT_TUPLE ? count_leaves(a, &key) : NULL;
    copy->has_buffer = key.dtype == DT_BUFFER;
    for (uint32_t i = 0; key.dtype == DT_TUPLE && i < key.rank; i++)
        copy->has_buffer |= key.elements[i]->has_buffer;
    if (key.elements != NULL)
        copy->elements = arena_copy(a, key.elements, key.rank * sizeof *key.elements);
    else
        copy->dims = copy_ints(a, key.dims, key.rank);
    if (key.dynamic != NULL)
        copy->dynamic = arena_copy(a, key.dynamic, key.rank);
    slot_fill(&t->shapes, s, hash, copy);
    return copy;
}
