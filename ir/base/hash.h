/* A hash of short texts, for tables in memory only: it is stored nowhere. FNV-1a (Fowler, Noll, Vo). */
#ifndef GXC_IR_BASE_HASH_H
#define GXC_IR_BASE_HASH_H

#include <stdint.h>

static inline uint32_t hash_text(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

#endif
