/* Numbers for tests of random programs: the same on every machine. */
#ifndef GXC_TESTS_UNIT_SHARED_RANDOM_H
#define GXC_TESTS_UNIT_SHARED_RANDOM_H

#include <stdint.h>

/* 24 bits: the low ones of such a generator repeat soon. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
