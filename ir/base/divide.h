/* Quotients of integers, rounded one way; b is positive, and nothing overflows that fits. Common divisors. */
#ifndef GXC_IR_BASE_DIVIDE_H
#define GXC_IR_BASE_DIVIDE_H

#include <stdint.h>

static inline int64_t ceil_div(int64_t a, int64_t b) /* towards more */
{
    return a / b + (a % b > 0);
}

static inline int64_t floor_div(int64_t a, int64_t b) /* towards less */
{
    return a / b - (a % b < 0);
}

/* The least multiple of `step` that is not below n. */
static inline int64_t round_up(int64_t n, int64_t step)
{
    return ceil_div(n, step) * step;
}

static inline int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

#endif
