/* One pool for the process, made when first needed. While one launch has the helpers, others
 * run on their own threads alone. See workers.h. */
#include "runtime/emu/workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/emu/config.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    void (*body)(void *);
    void *argument;
    int helpers; /* that were made */
    int wanted;  /* that may still join */
    int active;
    bool is_busy;
} pool;

static void *helper_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (pool.wanted == 0)
            pthread_cond_wait(&changed, &lock);
        pool.wanted--;
        pool.active++;
        pthread_mutex_unlock(&lock);
        pool.body(pool.argument);
        pthread_mutex_lock(&lock);
        if (--pool.active == 0)
            pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void helpers_make(int count)
{
    pthread_t thread;
    while (pool.helpers < count &&
           pthread_create(&thread, NULL, helper_thread, NULL) == 0) {
        pthread_detach(thread);
        pool.helpers++;
    }
}

void workers_run(void (*body)(void *), void *argument)
{
    int count = emu_config()->workers - 1;
    pthread_mutex_lock(&lock);
    bool alone = pool.is_busy || count <= 0;
    if (!alone) {
        helpers_make(count);
        pool.body = body;
        pool.argument = argument;
        pool.wanted = count < pool.helpers ? count : pool.helpers;
        pool.is_busy = true;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    body(argument);
    if (alone)
        return;
    pthread_mutex_lock(&lock);
    pool.wanted = 0;
    while (pool.active != 0)
        pthread_cond_wait(&changed, &lock);
    pool.is_busy = false;
    pthread_mutex_unlock(&lock);
}
