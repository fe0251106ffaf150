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

static inline struct timespec timespec_of(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    return t;
}

/* What is left until `end`, by seconds_now(); 0 when it is over, at most some days. */
static inline struct timespec time_until(double end)
{
    double left = end - seconds_now();
    return timespec_of(left < 0 ? 0 : left > 1e6 ? 1e6 : left);
}

static inline void sleep_seconds(double seconds)
{
    struct timespec t = timespec_of(seconds);
    nanosleep(&t, NULL);
}

/* Until the condition is signalled, for so many seconds at most. */
static inline void condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  double seconds)
{
    struct timespec t = timespec_of(clock_seconds(CLOCK_REALTIME) + seconds);
    pthread_cond_timedwait(condition, mutex, &t);
}

#endif
