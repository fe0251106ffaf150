/* Emulated NCCL: N ranks as threads of one process and as processes; results of every
 * collective, splits, groups of messages, disagreeing ranks, a lost rank. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/emu/config.h"
#include "runtime/emu/gxemu.h"

#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t symbol parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#include "runtime/library/nccl.def"

enum { RANKS = 4, COUNT = 100000, MOST_TEXT = 2000 };

typedef struct Rank {
    int rank;
    ncclUniqueId id;
    const char *(*body)(struct Rank *); /* NULL, or what is wrong */
    const char *wrong;
    CUstream stream;
    ncclComm_t comm;
    CUdeviceptr send, receive;
    float *host;
    char text[MOST_TEXT];
    pthread_t thread;
} Rank;

/* These run on threads of their own, where cmocka's assertions do not work. */
#define CHECK(condition)                                                                 \
    if (!(condition))                                                                    \
    return #condition

static const char *fill(Rank *r, size_t count)
{
    for (size_t i = 0; i < count; i++)
        r->host[i] = (float)((size_t)r->rank * 10 + i % 13);
    CHECK(cuMemcpyHtoDAsync_v2(r->send, r->host, count * 4, r->stream) == 0);
    return NULL;
}

static const char *fetch(Rank *r, size_t count)
{
    CHECK(cuMemcpyDtoHAsync_v2(r->host, r->receive, count * 4, r->stream) == 0);
    CHECK(cuStreamSynchronize(r->stream) == 0);
    return NULL;
}

static void *send_of(Rank *r)
{
    return (void *)(uintptr_t)r->send;
}

static void *receive_of(Rank *r)
{
    return (void *)(uintptr_t)r->receive;
}

static float value_of(int rank, size_t i)
{
    return (float)((size_t)rank * 10 + i % 13);
}

static const char *body_all_reduce(Rank *r)
{
    const char *wrong = fill(r, COUNT);
    CHECK(ncclAllReduce(send_of(r), receive_of(r), COUNT, ncclFloat32, ncclSum, r->comm,
                        r->stream) == 0);
    wrong = wrong != NULL ? wrong : fetch(r, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(r->host[i] == 60.0F + 4.0F * (float)(i % 13));
    return wrong;
}

static atomic_bool has_asked;

/* Rank 0 asks for its stream before the others come: it is told at once that they have not. */
static const char *body_query(Rank *r)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    const char *wrong = fill(r, COUNT);
    CHECK(cuStreamSynchronize(r->stream) == 0);
    for (int i = 0; r->rank != 0 && i < 5000 && !has_asked; i++)
        nanosleep(&millisecond, NULL);
    bool came_late = r->rank == 0 || has_asked;
    CHECK(ncclAllReduce(send_of(r), receive_of(r), COUNT, ncclFloat32, ncclSum, r->comm,
                        r->stream) == 0);
    for (int i = 0; r->rank == 0 && i < 20; i++)
        CHECK(cuStreamQuery(r->stream) == CUDA_ERROR_NOT_READY);
    has_asked = true;
    wrong = wrong != NULL ? wrong : fetch(r, COUNT);
    CHECK(came_late);
    return wrong;
}

static const char *body_gather_scatter(Rank *r)
{
    const char *wrong = fill(r, 1000);
    CHECK(ncclAllGather(send_of(r), receive_of(r), 1000, ncclFloat32, r->comm,
                        r->stream) == 0);
    wrong = wrong != NULL ? wrong : fetch(r, 1000 * RANKS);
    for (size_t i = 0; i < 1000 * RANKS; i++)
        CHECK(r->host[i] == value_of((int)(i / 1000), i % 1000));
    wrong = wrong != NULL ? wrong : fill(r, 1000 * RANKS);
    CHECK(ncclReduceScatter(send_of(r), receive_of(r), 1000, ncclFloat32, ncclMax,
                            r->comm, r->stream) == 0);
    wrong = wrong != NULL ? wrong : fetch(r, 1000);
    for (size_t i = 0; i < 1000; i++)
        CHECK(r->host[i] == value_of(RANKS - 1, (size_t)r->rank * 1000 + i));
    CHECK(ncclBroadcast(send_of(r), receive_of(r), 500, ncclFloat32, 2, r->comm,
                        r->stream) == 0);
    wrong = wrong != NULL ? wrong : fetch(r, 500);
    for (size_t i = 0; i < 500; i++)
        CHECK(r->host[i] == value_of(2, i));
    return wrong;
}

/* A ring: everybody sends to the next rank and receives from the one before. */
static const char *body_ring(Rank *r)
{
    const char *wrong = fill(r, COUNT);
    CHECK(ncclGroupStart() == 0);
    CHECK(ncclSend(send_of(r), COUNT, ncclFloat32, (r->rank + 1) % RANKS, r->comm,
                   r->stream) == 0);
    CHECK(ncclRecv(receive_of(r), COUNT, ncclFloat32, (r->rank + RANKS - 1) % RANKS,
                   r->comm, r->stream) == 0);
    CHECK(ncclGroupEnd() == 0);
    wrong = wrong != NULL ? wrong : fetch(r, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(r->host[i] == value_of((r->rank + RANKS - 1) % RANKS, i));
    return wrong;
}

/* Even and odd ranks; rank 3 stays out. Keys turn the order round. */
static const char *body_split(Rank *r)
{
    ncclComm_t part = NULL;
    int colour = r->rank == 3 ? -1 : r->rank % 2;
    const char *wrong = fill(r, 8);
    CHECK(ncclCommSplit(r->comm, colour, -r->rank, &part, NULL) == 0);
    CHECK((part == NULL) == (r->rank == 3));
    if (part == NULL)
        return NULL;
    CHECK(ncclAllGather(send_of(r), receive_of(r), 1, ncclFloat32, part, r->stream) == 0);
    wrong = wrong != NULL ? wrong : fetch(r, 1);
    CHECK(r->host[0] == (colour == 0 ? 20.0F : 10.0F));
    CHECK(ncclCommDestroy(part) == 0);
    return wrong;
}

static const char *body_disagree(Rank *r)
{
    const char *wrong = fill(r, 8);
    size_t count = r->rank == 2 ? 7 : 8;
    CHECK(wrong == NULL);
    ncclAllReduce(send_of(r), receive_of(r), count, ncclFloat32, ncclSum, r->comm,
                  r->stream);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_ERROR_ASSERT);
    CHECK(gxemuGetLastError(r->text, MOST_TEXT) == 0);
    CHECK(
        strcmp(
            r->text,
            "the ranks of a communicator disagree: call 1 of rank 0 is all-reduce (sum) "
            "of 8 f32, call 1 of rank 2 is all-reduce (sum) of 7 f32") == 0);
    return NULL;
}

/* Rank 1 never makes its second call; the others abort after a while, as a watchdog does. */
static const char *body_lost(Rank *r)
{
    struct timespec t = {.tv_nsec = 50000000};
    const char *wrong = body_all_reduce(r);
    CHECK(wrong == NULL);
    CHECK(ncclAllReduce(send_of(r), receive_of(r), 8, ncclFloat32, ncclSum, r->comm,
                        r->stream) == 0);
    nanosleep(&t, NULL);
    CHECK(cuStreamQuery(r->stream) == CUDA_ERROR_NOT_READY);
    CHECK(ncclCommAbort(r->comm) == 0);
    r->comm = NULL;
    CHECK(cuStreamSynchronize(r->stream) == 0);
    return NULL;
}

static const char *rank_body(Rank *r)
{
    CUcontext context;
    r->host = malloc((size_t)COUNT * 4);
    CHECK(r->host != NULL);
    CHECK(cuDevicePrimaryCtxRetain(&context, r->rank) == 0);
    CHECK(cuCtxPushCurrent_v2(context) == 0);
    CHECK(cuStreamCreateWithPriority(&r->stream, CU_STREAM_NON_BLOCKING, 0) == 0);
    CHECK(cuMemAlloc_v2(&r->send, (size_t)COUNT * 4) == 0);
    CHECK(cuMemAlloc_v2(&r->receive, (size_t)COUNT * 4) == 0);
    CHECK(ncclCommInitRankConfig(&r->comm, RANKS, r->id, r->rank, NULL) == 0);
    const char *wrong = r->body(r);
    if (r->comm != NULL)
        CHECK(ncclCommDestroy(r->comm) == 0);
    CHECK(cuDevicePrimaryCtxRelease_v2(r->rank) == 0);
    CHECK(cuCtxPopCurrent_v2(NULL) == 0);
    free(r->host);
    return wrong;
}

static void *rank_thread(void *argument)
{
    Rank *r = argument;
    r->wrong = rank_body(r);
    return NULL;
}

static void config_set(Schedule schedule)
{
    *emu_config() = (EmuConfig){.devices = RANKS,
                                .major = 9,
                                .memory = 1 << 30,
                                .streams = 64,
                                .schedule = schedule,
                                .shadow = true};
    assert_int_equal(cuInit(0), 0);
}

static void run_threads(const char *(*body)(Rank *))
{
    Rank ranks[RANKS] = {0};
    ncclUniqueId id;
    assert_int_equal(ncclGetUniqueId(&id), 0);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (Rank){.rank = i, .id = id, .body = body};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_thread, &ranks[i]),
                         0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].wrong != NULL)
            fail_msg("rank %d: %s %s", i, ranks[i].wrong, ranks[i].text);
}

static void run_processes(const char *(*body)(Rank *))
{
    pid_t children[RANKS];
    ncclUniqueId id;
    assert_int_equal(ncclGetUniqueId(&id), 0);
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            Rank r = {.rank = i, .id = id, .body = body};
            const char *wrong = rank_body(&r);
            if (wrong != NULL)
                fprintf(stderr, "rank %d: %s %s\n", i, wrong, r.text);
            _exit(wrong != NULL);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static const char *(*const bodies[])(Rank *) = {body_all_reduce, body_gather_scatter,
                                                body_ring, body_split};

static void test_results(void **state)
{
    (void)state;
    for (int schedule = 0; schedule < 3; schedule++) {
        config_set((Schedule)schedule);
        for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
            run_threads(bodies[i]);
    }
}

static void test_processes(void **state)
{
    (void)state;
    config_set(SCHEDULE_EAGER);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        run_processes(bodies[i]);
}

static void test_query(void **state)
{
    (void)state;
    static const Schedule schedules[] = {SCHEDULE_EAGER, SCHEDULE_THREADS, SCHEDULE_LAZY};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        config_set(schedules[i]);
        has_asked = false;
        run_threads(body_query);
    }
}

static void test_disagree(void **state)
{
    (void)state;
    config_set(SCHEDULE_EAGER);
    run_threads(body_disagree);
    run_processes(body_disagree);
    run_threads(body_all_reduce); /* the next world works */
}

static void test_lost(void **state)
{
    (void)state;
    config_set(SCHEDULE_EAGER);
    emu_config()->lose_rank = 1;
    emu_config()->lose_call = 2;
    run_threads(body_lost);
    emu_config()->lose_call = 0;
    run_threads(body_all_reduce);
}

/* A communicator that its owner gives up within the group that makes it. */
static void test_given_up(void **state)
{
    (void)state;
    CUcontext context;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    config_set(SCHEDULE_EAGER);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(ncclGetUniqueId(&id), 0);
    assert_int_equal(ncclGroupStart(), 0);
    assert_int_equal(ncclCommInitRankConfig(&comm, RANKS, id, 0, NULL), 0);
    assert_int_equal(ncclCommAbort(comm), 0);
    assert_int_equal(ncclGroupEnd(), 6); /* ncclRemoteError */
    assert_int_equal(cuCtxPopCurrent_v2(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    run_threads(body_all_reduce);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),  cmocka_unit_test(test_processes),
        cmocka_unit_test(test_disagree), cmocka_unit_test(test_lost),
        cmocka_unit_test(test_given_up), cmocka_unit_test(test_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
