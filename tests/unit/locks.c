/* Locks of the runtime: what is waited for under a lock is waited for by its owner, and what was made goes. This
 * program's own functions take the place of the C library's, and call them. */
#define _GNU_SOURCE /* RTLD_NEXT, gettid */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/collective/store.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/fake_world.h"
#include "tests/unit/shared/ranks.h"

static atomic_int mutexes, conditions; /* that live */
static atomic_int threads;             /* to be joined */
static atomic_int foreign; /* waits and unlocks of who does not have the lock */
static atomic_int waits;

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        abort();
    return function;
}

int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    int (*real)(pthread_mutex_t *, const pthread_mutexattr_t *);
    *(void **)&real = next("pthread_mutex_init");
    int error = real(m, a);
    mutexes += error == 0;
    return error;
}

int pthread_mutex_destroy(pthread_mutex_t *m)
{
    int (*real)(pthread_mutex_t *);
    *(void **)&real = next("pthread_mutex_destroy");
    mutexes--;
    return real(m);
}

int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *a)
{
    int (*real)(pthread_cond_t *, const pthread_condattr_t *);
    *(void **)&real = next("pthread_cond_init");
    int error = real(c, a);
    conditions += error == 0;
    return error;
}

int pthread_cond_destroy(pthread_cond_t *c)
{
    int (*real)(pthread_cond_t *);
    *(void **)&real = next("pthread_cond_destroy");
    conditions--;
    return real(c);
}

/* glibc notes who has a lock. */
static void need_lock(const pthread_mutex_t *m)
{
    foreign += m->__data.__owner != gettid();
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    int (*real)(pthread_mutex_t *);
    *(void **)&real = next("pthread_mutex_unlock");
    need_lock(m);
    return real(m);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*start)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = next("pthread_create");
    int state = PTHREAD_CREATE_JOINABLE;
    if (a)
        pthread_attr_getdetachstate(a, &state);
    int error = real(t, a, start, argument);
    threads += error == 0 && state == PTHREAD_CREATE_JOINABLE;
    return error;
}

int pthread_join(pthread_t t, void **result)
{
    int (*real)(pthread_t, void **);
    *(void **)&real = next("pthread_join");
    threads--;
    return real(t, result);
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *);
    *(void **)&real = next("pthread_cond_wait");
    need_lock(m);
    waits++;
    return real(c, m);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                           const struct timespec *t)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    *(void **)&real = next("pthread_cond_timedwait");
    need_lock(m);
    waits++;
    return real(c, m, t);
}

static void assert_clean(void)
{
    assert_int_equal(mutexes, 0);
    assert_int_equal(conditions, 0);
    assert_int_equal(threads, 0);
    assert_int_equal(foreign, 0);
}

/* Threads of devices, rendezvous, the watchdog. */
static void test_session(void **state)
{
    (void)state;
    for (int collectives = 0; collectives <= 2; collectives++) {
        Maker m;
        FakeWorld w = {0};
        world_begin(&m);
        uint32_t all = world_clique_of_all(&m);
        for (int i = 0; i < collectives; i++)
            world_collective(&m, PLAN_ALL_REDUCE, all, 4, 4);
        world_open(&w, &m, NULL);
        for (int i = 0; i < 3; i++)
            world_run(&w);
        assert_true(mutexes > 0 && conditions > 0);
        world_close(&w);
        assert_clean();
    }
    assert_true(waits > 0);
}

static char address[64];
static Program pair;

/* A session of one device of two. */
static gxrt_status one_device(uint32_t rank)
{
    gxrt_session_options options = {.struct_size = sizeof options};
    gxrt_session *s = NULL;
    gxrt_status st = gxrt_world_create(rank, 2, address, &options.world);
    if (st == GXRT_OK)
        st = session_create(pair.program, &options, &fake_api, NULL, &fake_nccl, &s);
    gxrt_session_destroy(s);
    gxrt_world_destroy(options.world);
    return st;
}

static void test_processes(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    m.b.info[0].partitions = 2;
    uint32_t both = world_clique(&m, 1, (int64_t[]){2, 0, 1}, 3);
    world_collective(&m, PLAN_ALL_REDUCE, both, 4, 4);
    pair = open_program(&m, "", 0);
    snprintf(address, sizeof address, "file:/tmp/gxc-locks-%ld", (long)getpid());
    run_ranks(2, one_device);
    close_program(&pair);
    assert_clean();
}

/* Both kinds of stores, with a guest who waits. */
static void test_store(void **state)
{
    (void)state;
    for (int port = 20000 + getpid() % 10000, tcp = 0; tcp <= 1; port++) {
        Store *server;
        StoreGuest guest = {.address = address, .key = "late"};
        uint32_t value = 7;
        if (tcp)
            snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
        else
            snprintf(address, sizeof address, "file:/tmp/gxc-locks-%ld", (long)getpid());
        gxrt_status opened = store_open(address, 0, 2, &server);
        if (opened != GXRT_OK && tcp)
            continue; /* the port is taken */
        assert_int_equal(opened, GXRT_OK);
        guest_start(&guest);
        assert_int_equal(store_put(server, "late", &value, sizeof value, 10), GXRT_OK);
        assert_int_equal(store_get(server, "never", &value, sizeof value, 0.05),
                         GXRT_WORLD_FAILED);
        assert_int_equal(guest_join(&guest), GXRT_OK);
        assert_int_equal(guest.value, value);
        store_close(server);
        tcp++;
    }
    assert_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
