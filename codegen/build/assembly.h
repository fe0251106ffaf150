/* A piece of a program to cubins: one, or several where some of its kernels are assembled otherwise than the rest. */
#ifndef GXC_CODEGEN_BUILD_ASSEMBLY_H
#define GXC_CODEGEN_BUILD_ASSEMBLY_H

#include "codegen/build/kernel_cache.h"

typedef struct Assembly {
    const Build *build;
    const KernelCache *cache;
    Arena *arena;     /* of what is made */
    uint32_t threads; /* of an assembler */
    /* what came of it */
    Cubin *parts;
    size_t part_count;
    const char *error; /* NULL: none */
    bool is_lost;      /* another time there may be none */
    const char **warnings;
    size_t warning_count, warning_capacity;
    double seconds, wall; /* as in Build */
    CacheCounts counts;
    int cache_error;
} Assembly;

/* Of kernels [first, first + count), whose text is `ptx`; their codes are there. */
void assembly_run(Assembly *x, size_t first, size_t count, const char *ptx);

/* One text of kernels [first, first + count). */
const char *assembly_join(Arena *a, const Build *b, size_t first, size_t count);

#endif
