/* Open addressing, linear probing, at most half full. */
#include "ir/eval/pointer_map.h"

static size_t slot_of(const PointerMap *map, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 20) & (map->capacity - 1);
    while (map->keys[i] != NULL && map->keys[i] != key)
        i = (i + 1) & (map->capacity - 1);
    return i;
}

void *pointer_map_get(const PointerMap *map, const void *key)
{
    return map->capacity == 0 ? NULL : map->values[slot_of(map, key)];
}

static void grow(PointerMap *map, Arena *a)
{
    PointerMap old = *map;
    map->capacity = old.capacity == 0 ? 16 : 2 * old.capacity;
    map->keys = ARENA_ARRAY(a, const void *, map->capacity);
    map->values = ARENA_ARRAY(a, void *, map->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.keys[i] == NULL)
            continue;
        size_t to = slot_of(map, old.keys[i]);
        map->keys[to] = old.keys[i];
        map->values[to] = old.values[i];
    }
}

void pointer_map_set(PointerMap *map, Arena *a, const void *key, void *value)
{
    if (2 * (map->used + 1) > map->capacity)
        grow(map, a);
    size_t i = slot_of(map, key);
    if (map->keys[i] == NULL)
        map->used++;
    map->keys[i] = key;
    map->values[i] = value;
}
