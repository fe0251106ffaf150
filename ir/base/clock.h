/* The system's clocks in seconds. Waits and measurements go by seconds_now(), which no change of the date moves. */
#ifndef GXC_IR_BASE_CLOCK_H
#define GXC_IR_BASE_CLOCK_H

#include <time.h>

static inline double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double seconds_now(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

#endif
