/* The system's clocks in seconds. Waits and measurements go by seconds_now(), which no change of the date moves. */
#ifndef GXC_IR_BASE_CLOCK_H
#define GXC_IR_BASE_CLOCK_H

#include <pthread.h>
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

/* Until the condition is signalled, for so many seconds at most. */
static inline void condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  double seconds)
{
    double end = clock_seconds(CLOCK_REALTIME) + seconds;
    struct timespec t = {.tv_sec = (time_t)end};
    t.tv_nsec = (long)(1e9 * (end - (double)t.tv_sec));
    pthread_cond_timedwait(condition, mutex, &t);
}

#endif
