/* Collectives of a session on emulated devices: right numbers in one process and in several,
 * and an error that says who is late when one does not come. Each test is a process of its
 * own, because the emulator reads its environment once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/shared/emulated.h"
#include "tests/unit/shared/ranks.h"

static int one_process(int argument)
{
    (void)argument;
    return run_all(NULL, 20, 10, false) || run_all(NULL, 1, 10, false);
}

static void test_one_process(void **state)
{
    (void)state;
    expect_exit(one_process, 0, NULL);
}

static void *one_session(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)run_all(NULL, 20, 20, false);
}

static int two_sessions(int argument)
{
    (void)argument;
    setenv("GXEMU_DELAY", "3:500", 1);
    setenv("GXEMU_SCHEDULE", "threads", 1);
    pthread_t threads[2];
    int wrong = 0;
    for (int i = 0; i < 2; i++)
        wrong |= pthread_create(&threads[i], NULL, one_session, NULL);
    for (int i = 0; i < 2 && !wrong; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong |= result != NULL;
    }
    return wrong;
}

/* rows: collectives.H3 (edge: two executions at once: each has its own events)
 * rows: collectives.J1 (edge: two sessions beside each other, with their own communicators) */
static void test_two_sessions(void **state)
{
    (void)state;
    expect_exit(two_sessions, 0, NULL);
}

static int delayed(int argument)
{
    (void)argument;
    setenv("GXEMU_DELAY", "7:3000", 1);
    setenv("GXEMU_SCHEDULE", "threads", 1);
    return run_all(NULL, 3, 20, false);
}

static void test_random_delays(void **state)
{
    (void)state;
    expect_exit(delayed, 0, NULL);
}

static int lost(int argument)
{
    (void)argument;
    setenv("GXEMU_LOSE_RANK", "2:2", 1);
    return run_all(NULL, 1, 1, false);
}

static void test_lost_rank(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(child_finish(child_start(lost, 0), text, sizeof text), 1);
    if (!strstr(text, "world failed") ||
        !strstr(text, "rank 2 of this communicator did not come") ||
        !strstr(text, "was not done within 1 s"))
        fail_msg("%s", text);
}

static int old_library(int argument)
{
    (void)argument;
    setenv("GXEMU_NCCL_VERSION", "22203", 1);
    return run_all(NULL, 1, 1, false);
}

static void test_old_library(void **state)
{
    (void)state;
    expect_exit(old_library, 1, "NCCL 2.22 is too old: install NCCL 2.27 or newer");
}

/* Rank `argument` of two processes with two devices each; 10 and more: another program. */
static char store[64];

static int one_of_two(int argument)
{
    gxrt_world *world;
    if (gxrt_world_create((uint32_t)argument % 10, 2, store, &world) != GXRT_OK) {
        fprintf(stderr, "%s\n", gxrt_last_error());
        return 2;
    }
    int wrong = run_all(world, 3, 4, argument >= 10);
    if (!wrong)
        wrong = run_all(world, 1, 4, false);
    gxrt_world_destroy(world);
    return wrong;
}

static void two_processes_at(int a, int b, int code, const char *says)
{
    char text[2][4096];
    Child first = child_start(one_of_two, a);
    Child second = child_start(one_of_two, b);
    int got[2];
    got[0] = child_finish(first, text[0], sizeof text[0]);
    got[1] = child_finish(second, text[1], sizeof text[1]);
    if (got[0] != code || got[1] != code || (says && !strstr(text[0], says)))
        fail_msg("exit %d: %s\nexit %d: %s", got[0], text[0], got[1], text[1]);
}

static void two_processes(int a, int b, int code, const char *says)
{
    snprintf(store, sizeof store, "/tmp/gxc-store-test-%ld", (long)getpid());
    two_processes_at(a, b, code, says);
    assert_int_not_equal(access(store, F_OK), 0); /* nothing is left */
}

static void test_two_processes(void **state)
{
    (void)state;
    two_processes(0, 1, 0, NULL);
}

static void test_two_processes_tcp(void **state)
{
    (void)state;
    snprintf(store, sizeof store, "tcp://secret@127.0.0.1:%u", free_port());
    two_processes_at(0, 1, 0, NULL);
}

static int one_of_four(int argument)
{
    gxrt_world *world;
    if (gxrt_world_create((uint32_t)argument, 4, store, &world) != GXRT_OK) {
        fprintf(stderr, "%s\n", gxrt_last_error());
        return 2;
    }
    int wrong = run_all(world, 1, 4, false);
    gxrt_world_destroy(world);
    return wrong;
}

/* Of more than two only rank 0 makes the world's id, and all others read it. */
static void test_four_processes(void **state)
{
    enum { RANKS = 4 };
    (void)state;
    char text[4096];
    Child child[RANKS];
    snprintf(store, sizeof store, "/tmp/gxc-store-test-%ld", (long)getpid());
    for (int i = 0; i < RANKS; i++)
        child[i] = child_start(one_of_four, i);
    for (int i = 0; i < RANKS; i++) {
        int code = child_finish(child[i], text, sizeof text);
        if (code != 0)
            fail_msg("rank %d, exit %d: %s", i, code, text);
    }
}

static void test_other_program(void **state)
{
    (void)state;
    two_processes(0, 11, 1, "rank 1 runs another program than rank 0");
}

static void test_missing_process(void **state)
{
    (void)state;
    char text[4096];
    snprintf(store, sizeof store, "/tmp/gxc-store-test-%ld", (long)getpid());
    assert_int_equal(child_finish(child_start(one_of_two, 0), text, sizeof text), 1);
    if (!strstr(text, "rank 1 of 2 did not come within 4 s"))
        fail_msg("%s", text);
    assert_int_not_equal(access(store, F_OK), 0); /* nothing is left */
}

static int no_store(int argument)
{
    (void)argument;
    gxrt_world *world;
    gxrt_world_create(0, 2, NULL, &world);
    int wrong = run_all(world, 1, 1, false);
    gxrt_world_destroy(world);
    return wrong;
}

static void test_no_store(void **state)
{
    (void)state;
    expect_exit(
        no_store, 1,
        "needs a store: set GXRT_STORE=file:FOLDER, a folder that all ranks share, or "
        "GXRT_STORE=tcp:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_one_process),       cmocka_unit_test(test_two_sessions),
        cmocka_unit_test(test_random_delays),     cmocka_unit_test(test_lost_rank),
        cmocka_unit_test(test_old_library),       cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_two_processes_tcp), cmocka_unit_test(test_four_processes),
        cmocka_unit_test(test_other_program),     cmocka_unit_test(test_missing_process),
        cmocka_unit_test(test_no_store),
    };
    return cmocka_run_group_tests(tests, find_emulator, NULL);
}
