/* Processes that were forked from one that uses devices. CUDA does not work in them, and the threads of a
 * session, or of the emulator, are not there: what would wait for ever, or crash, is refused. */
#include "runtime/run/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/run/status.h"

static atomic_uint generation = 1; /* of this process: one more than its parent's */
static atomic_uint used_in; /* the generation that used devices first; 0: none has */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void count_child(void)
{
    atomic_fetch_add(&generation, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_child);
}

unsigned fork_generation(void)
{
    pthread_once(&once, watch_forks);
    return atomic_load(&generation);
}

gxrt_status fork_check(unsigned made_in, const char *function)
{
    return made_in == fork_generation()
               ? GXRT_OK
               : status_set(
                     GXRT_INVALID_ARGUMENT,
                     "%s: this process was forked from the one that made the session or "
                     "world, whose devices and threads it does not have",
                     function);
}

gxrt_status fork_use_devices(void)
{
    unsigned mine = fork_generation(), first = 0;
    if (atomic_compare_exchange_strong(&used_in, &first, mine) || first == mine) {
        return GXRT_OK;
    }
    return status_set(
        GXRT_INVALID_ARGUMENT,
        "gxrt_session_create: this process was forked from one that has used "
        "its devices: fork before that, or start a new program (exec; in "
        "Python the start method \"spawn\")");
}
