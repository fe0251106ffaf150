/* See constant_pool.h. */
#include "codegen/plan/constant_pool.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/plan/plan.h"

uint64_t constant_pool_add(ConstantPool *p, const void *data, size_t bytes)
{
    uint64_t hash = XXH3_64bits(data, bytes);
    for (size_t i = 0; i < p->entry_count; i++) {
        if (p->entries[i].hash == hash && p->entries[i].bytes == bytes &&
            memcmp(p->data + p->entries[i].offset, data, bytes) == 0)
            return p->entries[i].offset;
    }
    size_t at = (p->size + PLAN_CONSTANT_ALIGNMENT - 1) / PLAN_CONSTANT_ALIGNMENT *
                PLAN_CONSTANT_ALIGNMENT;
    p->data = arena_grow(p->arena, p->data, &p->capacity, at + bytes, 1);
    if (bytes != 0)
        memcpy(p->data + at, data, bytes);
    p->size = at + bytes;
    p->entries = arena_grow(p->arena, p->entries, &p->entry_capacity, p->entry_count + 1,
                            sizeof *p->entries);
    p->entries[p->entry_count++] = (struct PoolEntry){hash, at, bytes};
    return at;
}
