/* A pool for one list of tasks. See tasks.h. */
#define _DEFAULT_SOURCE /* _SC_NPROCESSORS_ONLN */
#include "codegen/build/tasks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/bug.h"

/* LLVM's recursions are deep; some systems give threads much less than the first one. */
enum { WORKERS_MOST = 64, STACK_BYTES = 8 << 20 };

typedef struct Pool {
    TaskFn *run;
    void *user;
    size_t tasks;
    atomic_size_t next;
    atomic_bool has_failed;
    pthread_mutex_t mutex; /* for what follows */
    size_t failed;         /* the first task in order that threw */
    EscapeKind kind;
    Span at;
    char message[sizeof((Escape *)0)->message];
} Pool;

typedef struct Worker {
    Pool *pool;
    uint32_t number;
} Worker;

uint32_t tasks_workers(uint32_t jobs, size_t tasks)
{
    long n = jobs != 0 ? (long)jobs : sysconf(_SC_NPROCESSORS_ONLN);
    n = n < 1 ? 1 : n > WORKERS_MOST ? WORKERS_MOST : n;
    return tasks < (size_t)n ? (tasks == 0 ? 1 : (uint32_t)tasks) : (uint32_t)n;
}

static void note_failure(Pool *p, size_t task, const Escape *e)
{
    pthread_mutex_lock(&p->mutex);
    if (!atomic_load(&p->has_failed) || task < p->failed) {
        p->failed = task;
        p->kind = e->kind;
        p->at = e->at;
        memcpy(p->message, e->message, sizeof p->message);
        atomic_store(&p->has_failed, true);
    }
    pthread_mutex_unlock(&p->mutex);
}

static void *work(void *user)
{
    const Worker *w = user;
    Pool *p = w->pool;
    while (!atomic_load(&p->has_failed)) {
        /* every task before one that throws was taken before it, and ends */
        size_t task = atomic_fetch_add(&p->next, 1);
        if (task >= p->tasks)
            break;
        Escape e;
        escape_push(&e);
        if (setjmp(e.target) == 0)
            p->run(p->user, w->number, task);
        escape_pop(&e);
        if (e.kind != ESCAPE_NONE)
            note_failure(p, task, &e);
    }
    return NULL;
}

/* Starts the others, as many as the system allows. */
static uint32_t start_threads(Worker *workers, uint32_t count, pthread_t *threads)
{
    pthread_attr_t attributes;
    uint32_t started = 0;
    if (count > 1 && pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        while (started + 1 < count && pthread_create(&threads[started], &attributes, work,
                                                     &workers[started + 1]) == 0)
            started++;
        pthread_attr_destroy(&attributes);
    }
    return started;
}

void tasks_run(uint32_t count, size_t tasks, TaskFn *run, void *user)
{
    Pool p = {.run = run, .user = user, .tasks = tasks};
    Worker workers[WORKERS_MOST];
    pthread_t threads[WORKERS_MOST];
    pthread_mutex_init(&p.mutex, NULL);
    for (uint32_t i = 0; i < count; i++)
        workers[i] = (Worker){&p, i};
    uint32_t started = start_threads(workers, count, threads);
    work(&workers[0]);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&p.mutex);
    if (!atomic_load(&p.has_failed))
        return;
    escape_innermost()->at = p.at;
    escape_throw(p.kind, "%s", p.message);
}
