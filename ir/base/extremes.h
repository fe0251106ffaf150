/* The smaller and the larger of two numbers. */
#ifndef GXC_IR_BASE_EXTREMES_H
#define GXC_IR_BASE_EXTREMES_H

#include <stdint.h>

static inline double smaller(double x, double y)
{
    return x < y ? x : y;
}

static inline double larger(double x, double y)
{
    return x > y ? x : y;
}

static inline int64_t smaller_int(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t larger_int(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

#endif
