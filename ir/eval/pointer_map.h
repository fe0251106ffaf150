/* A map from pointers to pointers that grows in an arena; nothing iterates over it. */
#ifndef GXC_IR_EVAL_POINTER_MAP_H
#define GXC_IR_EVAL_POINTER_MAP_H

#include "ir/base/arena.h"

typedef struct PointerMap {
    const void **keys;
    void **values;
    size_t capacity, used; /* capacity: 0 or a power of two */
} PointerMap;

void *pointer_map_get(const PointerMap *map, const void *key); /* NULL if absent */
void pointer_map_set(PointerMap *map, Arena *a, const void *key, void *value);

#endif
