/* The constants of an artefact. */
#ifndef GXC_CODEGEN_PLAN_CONSTANT_POOL_H
#define GXC_CODEGEN_PLAN_CONSTANT_POOL_H

#include "ir/base/arena.h"

/* Contents of .gxc.const: constants of all variants, equal ones once. */
typedef struct ConstantPool {
    Arena *arena;
    unsigned char *data;
    size_t size, capacity;
    struct PoolEntry {
        uint64_t hash, offset, bytes;
    } * entries;
    size_t entry_count, entry_capacity;
} ConstantPool;

/* Offset of these bytes in the pool; added if they are new. */
uint64_t constant_pool_add(ConstantPool *p, const void *data, size_t bytes);

#endif
