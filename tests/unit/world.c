/* Who the ranks are: from the variables of each launcher, from ours, or from nothing. */
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
#include <pthread.h>

#include "runtime/collective/store.h"
#include "runtime/run/session.h"
#include "tests/unit/shared/ranks.h"

static void clear(void)
{
    static const char *const names[] = {
        "GXRT_RANK", "GXRT_WORLD_SIZE", "GXRT_STORE",           "GXRT_SECRET",
        "RANK",      "WORLD_SIZE",      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",  "PMI_SIZE",        "SLURM_PROCID",         "SLURM_NTASKS",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void expect(uint32_t rank, uint32_t size)
{
    gxrt_world *world;
    assert_int_equal(gxrt_world_from_environment(&world), GXRT_OK);
    assert_int_equal(gxrt_world_rank(world), rank);
    assert_int_equal(gxrt_world_size(world), size);
    gxrt_world_destroy(world);
}

static void expect_error(const char *says)
{
    gxrt_world *world;
    assert_int_equal(gxrt_world_from_environment(&world), GXRT_INVALID_ARGUMENT);
    if (!strstr(gxrt_last_error(), says))
        fail_msg("%s", gxrt_last_error());
}

static void test_launchers(void **state)
{
    static const char *const launchers[][2] = {
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"PMI_RANK", "PMI_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"RANK", "WORLD_SIZE"},
        {"GXRT_RANK", "GXRT_WORLD_SIZE"}};
    (void)state;
    clear();
    expect(0, 1);
    for (uint32_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        char text[2][4] = {{(char)('1' + i), 0}, {'1', (char)('0' + i), 0}};
        setenv(launchers[i][0], text[0], 1);
        if (i + 1 < sizeof launchers / sizeof *launchers)
            expect(i, i ? 9 + i : 1); /* the one before: half of a pair says nothing */
        setenv(launchers[i][1], text[1], 1);
        expect(i + 1, 10 + i); /* each is more explicit than those before it */
    }
    clear();
}

static void test_local_ranks(void **state)
{
    static const char *const variables[][3] = {
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
        {"GXRT_RANK", "GXRT_WORLD_SIZE", "GXRT_LOCAL_RANK"}};
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        for (uint32_t is_known = 0; is_known < 2; is_known++) {
            clear();
            setenv(variables[i][0], "9", 1);
            setenv(variables[i][1], "16", 1);
            if (is_known)
                setenv(variables[i][2], "1", 1);
            gxrt_world *world;
            assert_int_equal(gxrt_world_from_environment(&world), GXRT_OK);
            assert_int_equal(world->local_rank, is_known ? 1 : 9);
            gxrt_world_destroy(world);
            unsetenv(variables[i][2]);
        }
    }
    clear();
}

/* Without a launcher a rank is told by its number among all. */
static void test_no_launcher(void **state)
{
    (void)state;
    gxrt_world *world;
    assert_int_equal(gxrt_world_create(3, 5, NULL, &world), GXRT_OK);
    assert_int_equal(world->local_rank, 3);
    gxrt_world_destroy(world);
}

static void test_wrong(void **state)
{
    (void)state;
    clear();
    setenv("GXRT_RANK", "0", 1);
    expect_error("GXRT_RANK=0 and GXRT_WORLD_SIZE= (set by GXRT_RANK) are no numbers");
    setenv("GXRT_WORLD_SIZE", "two", 1);
    expect_error("GXRT_WORLD_SIZE=two");
    static const char *const sizes[] = {"-2", "2x", " 2", "4294967296",
                                        "99999999999999999999"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        setenv("GXRT_WORLD_SIZE", sizes[i], 1);
        expect_error("are no numbers");
    }
    setenv("GXRT_WORLD_SIZE", "2", 1);
    setenv("GXRT_RANK", "2", 1);
    expect_error("rank 2 of a world of 2 ranks");
    setenv("GXRT_RANK", "1", 1);
    setenv("GXRT_LOCAL_RANK", "first", 1);
    expect_error("GXRT_LOCAL_RANK=first (set by GXRT_RANK) is no number");
    unsetenv("GXRT_LOCAL_RANK");
    setenv("GXRT_STORE", "tcp:29500", 1);
    expect_error("or tcp://HOST:PORT");
    setenv("GXRT_STORE", "bogus://", 1);
    expect_error("the store \"bogus://\": give file:FOLDER");
    assert_int_not_equal(access("bogus:", F_OK), 0);
    setenv("GXRT_STORE", "tcp://host", 1);
    setenv("GXRT_SECRET", "s", 1);
    expect_error("expected tcp://HOST:PORT");
    setenv("GXRT_STORE", "tcp://host:29500",
           1); /* nobody is there, and nobody has asked yet */
    expect(1, 2);
    clear();
}

/* --- gathering ------------------------------------------------------------------------------- */

enum { RANKS = 3, ROUNDS = 2, MOST = 2 * STORE_MOST_VALUE + 5 };

static const size_t sizes[RANKS] = {MOST, 0, STORE_MOST_VALUE};

static char byte_of(uint32_t rank, size_t i, int round)
{
    return (char)(i * 7 + i / 251 + rank * 31 + (size_t)round);
}

typedef struct Gather {
    uint32_t next;
    int round, wrong;
} Gather;

static void take(void *user, uint32_t rank, const void *bytes, size_t size)
{
    Gather *g = user;
    g->wrong += rank != g->next++ || size != sizes[rank];
    for (size_t i = 0; i < size && !g->wrong; i++)
        g->wrong = ((const char *)bytes)[i] != byte_of(rank, i, g->round);
}

static char folder[64];

static void *gather_as(void *argument)
{
    uint32_t rank = (uint32_t)(uintptr_t)argument;
    gxrt_world *world;
    char *bytes = malloc(MOST);
    gxrt_status st = gxrt_world_create(rank, RANKS, folder, &world);
    intptr_t wrong = st != GXRT_OK;
    for (int round = 0; round < ROUNDS && !wrong; round++) {
        Gather g = {.round = round};
        for (size_t i = 0; i < sizes[rank]; i++)
            bytes[i] = byte_of(rank, i, round);
        st = gxrt_world_gather(world, bytes, sizes[rank], 20, take, &g);
        wrong = st != GXRT_OK || g.wrong || g.next != RANKS;
    }
    if (st != GXRT_OK)
        fprintf(stderr, "rank %u: %s\n", rank, gxrt_last_error());
    gxrt_world_destroy(world);
    free(bytes);
    return (void *)wrong;
}

/* All ranks get what all have, in pieces, and what they give next is not taken for what they gave before. */
static void test_gather(void **state)
{
    (void)state;
    pthread_t threads[RANKS];
    snprintf(folder, sizeof folder, "file:/tmp/gxc-gather-%ld", (long)getpid());
    for (uintptr_t i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, gather_as, (void *)i), 0);
    for (int i = 0; i < RANKS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    Gather g = {0};
    gxrt_world *world;
    assert_int_equal(gxrt_world_gather(NULL, "", 0, 1, NULL, &g), GXRT_INVALID_ARGUMENT);
    assert_int_equal(gxrt_world_gather(NULL, NULL, 1, 1, take, &g),
                     GXRT_INVALID_ARGUMENT);
    assert_int_equal(g.next, 0);
    assert_int_equal(gxrt_world_create(1, 2, NULL, &world), GXRT_OK);
    assert_int_equal(gxrt_world_gather(world, "", 0, 1, take, &g), GXRT_INVALID_ARGUMENT);
    assert_non_null(strstr(gxrt_last_error(), "a world of 2 ranks has no store"));
    gxrt_world_destroy(world);
}

/* Others that do not come are named, and nothing is taken of what has come. */
static void test_gather_alone(void **state)
{
    (void)state;
    char store[] = "file:/tmp/gxc-gather-XXXXXX";
    Gather g = {0};
    gxrt_world *world;
    char *path = store + strlen("file:");
    assert_non_null(mkdtemp(path));
    assert_int_equal(gxrt_world_create(1, 2, store, &world), GXRT_OK);
    assert_int_equal(gxrt_world_gather(world, "x", 1, 0, take, &g), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "gather-0-0-0"));
    assert_int_equal(g.next, 0);
    gxrt_world_destroy(world); /* with the folder */
}

/* --- forks ----------------------------------------------------------------------------------- */

static gxrt_world *pair[2];

static void take_nothing(void *user, uint32_t rank, const void *bytes, size_t size)
{
    (void)user, (void)rank, (void)bytes, (void)size;
}

static void *gather_in_pair(void *world)
{
    gxrt_status st = gxrt_world_gather(world, "x", 1, 20, take_nothing, NULL);
    return (void *)(uintptr_t)st;
}

static void gather_both(void)
{
    pthread_t thread;
    void *st;
    assert_int_equal(pthread_create(&thread, NULL, gather_in_pair, pair[1]), 0);
    assert_null(gather_in_pair(pair[0]));
    pthread_join(thread, &st);
    assert_null(st);
}

/* A child does not wait for the threads of its parent, has no part in its worlds, and leaves their stores as they are. */
static void fork_with(const char *store)
{
    int status;
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_int_equal(gxrt_world_create(rank, 2, store, &pair[rank]), GXRT_OK);
    gather_both();
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        gxrt_status st = gxrt_world_gather(pair[0], "x", 1, 0, take_nothing, NULL);
        gxrt_world_destroy(pair[1]);
        gxrt_world_destroy(pair[0]);
        _exit(st == GXRT_INVALID_ARGUMENT ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gather_both();
    gxrt_world_destroy(pair[1]);
    gxrt_world_destroy(pair[0]);
}

static void test_fork(void **state)
{
    (void)state;
    char store[64];
    snprintf(store, sizeof store, "file:/tmp/gxc-fork-%ld", (long)getpid());
    fork_with(store);
    snprintf(store, sizeof store, "tcp://127.0.0.1:%u", free_port());
    fork_with(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),   cmocka_unit_test(test_local_ranks),
        cmocka_unit_test(test_no_launcher), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_gather),      cmocka_unit_test(test_gather_alone),
        cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
