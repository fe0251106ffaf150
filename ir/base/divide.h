/* Quotients of integers, rounded one way; b is positive, and nothing overflows that fits. */
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

#endif
