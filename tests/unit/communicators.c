/* Communicators and calls of NCCL, as a fake NCCL sees them: four devices in one process. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/collective/collective.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/fake_world.h"
#include "tests/unit/shared/ranks.h"

static void expect_log(size_t device, const char *want)
{
    assert_string_equal(fake_nccl_log[device], want);
}

/* Events stand around every collective, however far the host is ahead of the watchdog, which looks
 * at them from time to time: one that went unnoted could hang without an end.
 * rows: collectives.N1 (edge: many collectives are queued at once) */
static void test_all_are_noted(void **state)
{
    enum { TIMES = 500 };
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 8, 8);
    world_open(&w, &m, NULL);
    fake_records = 0;
    for (int i = 0; i < TIMES; i++)
        world_run(&w);
    assert_int_equal(fake_records, 2 * TIMES * FAKE_RANKS);
    world_close(&w);
    assert_true(fake_relaxed > 0); /* the caller may capture while the watchdog asks */
}

/* rows: collectives.J1 (communicators are made once, for all cliques in the plan's order, on all
 * devices alike; runs make none)
 * rows: collectives.J2 (one world communicator, made by all devices at once, not blocking) */
static void test_cliques(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    uint32_t halves = world_clique(&m, 2, (int64_t[]){2, 0, 1, 2, 2, 3}, 6);
    world_collective(&m, PLAN_ALL_REDUCE, halves, 4, 4);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 8, 8);
    world_open(&w, &m, NULL);
    expect_log(0, "init 0 of 4 share=1; split 0 key 0 share=1; ");
    expect_log(1, "init 1 of 4 share=1; split 0 key 1 share=1; ");
    expect_log(2, "init 2 of 4 share=1; split 1 key 0 share=1; ");
    expect_log(3, "init 3 of 4 share=1; split 1 key 1 share=1; ");
    assert_int_equal(fake_comms, 8);
    memset(fake_nccl_log, 0, sizeof fake_nccl_log);
    for (int i = 0; i < 20; i++)
        world_run(&w);
    for (size_t d = 0; d < FAKE_RANKS; d++) {
        char *at = fake_nccl_log[d];
        for (int i = 0; i < 20; i++) {
            static const char calls[] = "all-reduce 4 type 2 op 0 of 2; "
                                        "all-reduce 8 type 2 op 0 of 4; ";
            assert_memory_equal(at, calls, strlen(calls));
            at += strlen(calls);
        }
        assert_int_equal(*at, 0);
    }
    world_close(&w);
}

/* rows: collectives.J3 (edge: no groups, groups that leave devices out, groups in another order;
 * every rank of the parent takes part, or the fake NCCL fails) */
static void test_splits(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4,
                     4); /* the whole world: no split */
    world_open(&w, &m, NULL);
    expect_log(3, "init 3 of 4 share=1; ");
    world_close(&w);
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique(&m, 1, (int64_t[]){2, 0, 1}, 3), 4,
                     4);
    world_open(&w, &m, NULL);
    expect_log(1, "init 1 of 4 share=1; split 0 key 1 share=1; ");
    expect_log(2, "init 2 of 4 share=1; split -1 key 0 share=1; ");
    expect_log(3, "init 3 of 4 share=1; split -1 key 0 share=1; ");
    world_run(&w);
    assert_null(strstr(fake_nccl_log[2], "all-reduce"));
    world_close(&w);
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE,
                     world_clique(&m, 3, (int64_t[]){2, 1, 0, 1, 2, 1, 3}, 7), 4, 4);
    world_open(&w, &m, NULL);
    expect_log(0, "init 0 of 4 share=1; split 0 key 1 share=1; ");
    expect_log(1, "init 1 of 4 share=1; split 0 key 0 share=1; ");
    expect_log(
        2, "init 2 of 4 share=1; split -1 key 0 share=1; "); /* groups of one need none */
    world_close(&w);
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE,
                     world_clique(&m, 4, (int64_t[]){1, 0, 1, 1, 1, 2, 1, 3}, 8), 4, 4);
    world_open(&w, &m, NULL);
    expect_log(0, "init 0 of 4 share=1; ");
    world_run(&w); /* copies */
    world_close(&w);
}

/* rows: collectives.B7 (edge: joined commands are one NCCL group, others one each) */
static void test_joined(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        Maker m;
        FakeWorld w = {0};
        world_begin(&m);
        uint32_t everybody = world_clique_of_all(&m);
        world_collective(&m, PLAN_ALL_REDUCE, everybody, 4, 4);
        world_collective(&m, PLAN_ALL_GATHER, everybody, 2, 8);
        /* a launch of kernel 0 is not joined, as collective 0 is */
        maker_add(&m, maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE),
                  maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE), 4, immediate(1));
        world_collective(&m, PLAN_ALL_REDUCE, everybody, 8, 8);
        m.b.collectives[0].flags = joined ? PLAN_COLLECTIVE_JOINED : 0;
        world_open(&w, &m, NULL);
        memset(fake_nccl_log, 0, sizeof fake_nccl_log);
        memset(fake_nccl_groups, 0, sizeof fake_nccl_groups);
        world_run(&w);
        for (size_t d = 0; d < FAKE_RANKS; d++) {
            expect_log(d, "all-reduce 4 type 2 op 0 of 4; all-gather 2 type 2 of 4; "
                          "all-reduce 8 type 2 op 0 of 4; ");
            assert_int_equal(fake_nccl_groups[d], joined ? 2 : 3);
        }
        world_close(&w);
    }
}

/* rows: collectives.J4 (edge: the flag wins; below 2.28, other GPUs and send/receive: NCCL's) */
static void test_channels(void **state)
{
    (void)state;
    assert_int_equal(nccl_channels(90, 22800, 0), INT_MIN);
    assert_int_equal(nccl_channels(100, 22700, 0), INT_MIN);
    assert_int_equal(nccl_channels(100, 22800, 0), 32);
    assert_int_equal(nccl_channels(103, 22907, 0), 32);
    assert_int_equal(nccl_channels(100, 22800, 16), 16);
    assert_int_equal(nccl_channels(90, 22700, 16), 16);
    assert_int_equal(nccl_channels(120, 22800, 0), INT_MIN);
    Maker m;
    FakeWorld w = {0};
    gxrt_session_options options = {.struct_size = sizeof options, .max_channels = 8};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique(&m, 1, (int64_t[]){2, 0, 1}, 3), 4,
                     4);
    world_open(&w, &m, &options);
    expect_log(0, "init 0 of 4 channels=8 share=1; split 0 key 0 channels=8 share=1; ");
    world_close(&w);
    fake_sm = 100;
    fake_nccl_version = 22800;
    world_begin(&m);
    m.b.info[0].sm = 100;
    m.b.info[0].target = plan_string(&m.b, "sm_100a");
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4, 4);
    world_open(&w, &m, NULL);
    expect_log(0, "init 0 of 4 channels=32 share=1; ");
    world_close(&w);
    fake_sm = 90;
    fake_nccl_version = 22707;
}

static int32_t first_of(FakeWorld *w, size_t device, size_t result)
{
    int32_t x;
    memcpy(&x, w->results[device][result].data, sizeof x);
    return x;
}

/* rows: collectives.J8 (edge: a device without a target only receives, one without a source only
 * sends and gets zeros; all-to-all is a send and a receive for each rank) */
static void test_calls(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    uint32_t on = world_clique_of_all(&m);
    world_collective(&m, PLAN_ALL_GATHER, on, 2, 8);
    world_collective(&m, PLAN_REDUCE_SCATTER, on, 8, 2)->reduction = PLAN_REDUCE_MAX;
    PlanCollective *permute = world_collective(&m, PLAN_COLLECTIVE_PERMUTE, on, 2, 2);
    permute->pair_count = 2;
    permute->pairs = plan_add_numbers(&m.b, (int64_t[]){0, 1, 1, 2}, 4);
    world_collective(&m, PLAN_ALL_TO_ALL, on, 4, 4);
    world_open(&w, &m, NULL);
    memset(fake_nccl_log, 0, sizeof fake_nccl_log);
    world_run(&w);
#define BEFORE "all-gather 2 type 2 of 4; reduce-scatter 2 type 2 op 2 of 4; "
#define BEHIND                                                                           \
    "send 1 type 2 to 0; receive 1 type 2 from 0; send 1 type 2 to 1; "                  \
    "receive 1 type 2 from 1; send 1 type 2 to 2; receive 1 type 2 from 2; "             \
    "send 1 type 2 to 3; receive 1 type 2 from 3; "
    expect_log(0, BEFORE "send 2 type 2 to 1; " BEHIND);
    expect_log(1, BEFORE "receive 2 type 2 from 0; send 2 type 2 to 2; " BEHIND);
    expect_log(2, BEFORE "receive 2 type 2 from 1; " BEHIND);
    expect_log(3, BEFORE BEHIND);
    assert_int_equal(first_of(&w, 0, 2), 0);
    assert_int_equal(first_of(&w, 1, 2), 0x5a5a5a5a); /* the fake NCCL moves nothing */
    assert_int_equal(first_of(&w, 3, 2), 0);
    world_close(&w);
}

/* What has no bytes lies nowhere, and is sent all the same: the others wait for it. */
static void test_empty(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    PlanCollective op = {.kind = PLAN_COLLECTIVE_PERMUTE,
                         .dtype = plan_string(&m.b, "s32"),
                         .clique = world_clique_of_all(&m),
                         .pairs = plan_add_numbers(&m.b, (int64_t[]){0, 1}, 2),
                         .pair_count = 1,
                         .dtypes = PLAN_NONE};
    const PlanArg args[2] = {{.tag = PLAN_ARG_NONE}, {.tag = PLAN_ARG_NONE}};
    maker_command(&m, PLAN_COLLECTIVE, plan_add_collectives(&m.b, &op, 1), args, 2);
    world_open(&w, &m, NULL);
    memset(fake_nccl_log, 0, sizeof fake_nccl_log);
    world_run(&w);
    expect_log(0, "send 0 type 2 to 1; ");
    expect_log(1, "receive 0 type 2 from 0; ");
    expect_log(2, "");
    world_close(&w);
}

/* Buffer k of a tuple is for rank k, and comes from it. */
static void test_tuple(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    PlanCollective op = {.kind = PLAN_ALL_TO_ALL,
                         .flags = PLAN_COLLECTIVE_TUPLE,
                         .dtype = plan_string(&m.b, "s32"),
                         .clique = world_clique_of_all(&m),
                         .dtypes = PLAN_NONE};
    PlanArg args[2 * FAKE_RANKS];
    for (int k = 0; k < FAKE_RANKS; k++) {
        args[2 * k] = reads(maker_value(&m, false, k + 1, PLAN_NONE, PLAN_ALIAS_NONE));
        args[2 * k + 1] =
            writes(maker_value(&m, true, k + 1, PLAN_NONE, PLAN_ALIAS_NONE));
    }
    maker_command(&m, PLAN_COLLECTIVE, plan_add_collectives(&m.b, &op, 1), args,
                  2 * FAKE_RANKS);
    world_open(&w, &m, NULL);
    memset(fake_nccl_log, 0, sizeof fake_nccl_log);
    world_run(&w);
    for (size_t d = 0; d < FAKE_RANKS; d++)
        expect_log(d, "send 1 type 2 to 0; receive 1 type 2 from 0; "
                      "send 2 type 2 to 1; receive 2 type 2 from 1; "
                      "send 3 type 2 to 2; receive 3 type 2 from 2; "
                      "send 4 type 2 to 3; receive 4 type 2 from 3; ");
    world_close(&w);
}

/* rows: collectives.M1 (memory of colour 1 comes from NCCL and is registered once with each
 * communicator; other memory is not) */
static void test_memory(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    PlanAllocation a = {.kind = PLAN_TEMP, .alignment = 256, .bytes = 512, .colour = 1};
    plan_add_allocations(&m.b, &a, 1);
    a = (PlanAllocation){.kind = PLAN_TEMP, .alignment = 256, .bytes = 256};
    plan_add_allocations(&m.b, &a, 1);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique(&m, 1, (int64_t[]){2, 0, 1}, 3), 4,
                     4);
    world_open(&w, &m, NULL);
    assert_non_null(strstr(fake_nccl_log[0], "memory 512; "));
    assert_non_null(strstr(fake_nccl_log[0],
                           "init 0 of 4 share=1; split 0 key 0 share=1; "
                           "register 512 of 2; "));
    assert_null(strstr(fake_nccl_log[2], "register"));
    assert_null(strstr(fake_nccl_log[0], "memory 256"));
    world_run(&w);
    world_close(&w); /* and nothing is held */
}

static uint64_t rounds(const FakeWorld *w)
{
    uint64_t n = 0;
    const gxrt_session *s = w->session;
    for (size_t i = 0; i < s->plan->cliques_count * s->device_count; i++)
        n += s->rendezvous[i].rounds;
    return n;
}

/* rows: collectives.J9 (local devices meet before and after each collective of the first run)
 * rows: collectives.N1 (edge: later runs do not meet; a new session does)
 * rows: collectives.N2 (two groups of two meet each for itself; 100 times over) */
static void test_rendezvous(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        Maker m;
        FakeWorld w = {0};
        world_begin(&m);
        uint32_t halves = world_clique(&m, 2, (int64_t[]){2, 0, 1, 2, 2, 3}, 6);
        world_collective(&m, PLAN_ALL_REDUCE, halves, 4, 4);
        world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 8, 8);
        world_open(&w, &m, NULL);
        assert_int_equal(rounds(&w), 0);
        for (int k = 0; k < 5; k++) {
            world_run(&w);
            assert_int_equal(rounds(&w), 2 * 2 + 2);
        }
        world_close(&w);
    }
}

/* In a branch that the first run has not taken: its first run meets, and only that. */
static void test_late_rendezvous(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    PlanArg selector = reads(maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE));
    uint32_t open = maker_command(
        &m, PLAN_CONDITIONAL, plan_add_refs(&m.b, (uint32_t[]){1, 0}, 2), &selector, 1);
    m.b.commands[open].count = 2;
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4, 4);
    plan_close(&m.b, open);
    world_open(&w, &m, NULL);
    static const int32_t taken[] = {1, 0, 0, 1, 0};
    static const uint64_t met[] = {0, 2, 2, 2, 2};
    for (int run = 0; run < 5; run++) {
        for (int d = 0; d < FAKE_RANKS; d++)
            memcpy(w.arguments[d][0].data, &taken[run], sizeof *taken);
        world_run(&w);
        assert_int_equal(rounds(&w), met[run]);
    }
    world_close(&w);
}

static gxrt_session *failing;

/* Device 0 goes ahead; the others come when their communicators are aborted. */
static void come_late(void)
{
    for (int i = 0; i < 500 && fake_current > 0; i++) {
        if (failing->devices[fake_current].is_aborted)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* A call has failed on one device, and the watchdog has aborted: nobody calls NCCL again. */
static void test_late_device(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4, 4);
    world_open(&w, &m, NULL);
    world_run(&w);
    int before[FAKE_RANKS];
    memcpy(before, fake_nccl_groups, sizeof before);
    failing = w.session;
    fake_on_record = come_late;
    fake_nccl_failing = 0;
    assert_int_equal(gxrt_execute(w.session, FAKE_RANKS, w.runs), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "the fake NCCL's error"));
    assert_int_equal(fake_nccl_groups[0], before[0] + 1);
    for (int d = 1; d < FAKE_RANKS; d++)
        assert_int_equal(fake_nccl_groups[d], before[d]);
    fake_on_record = NULL;
    fake_nccl_failing = -1;
    world_end(&w, FAKE_RANKS);
}

/* The communicators of groups share the resources of the world's, which its own configuration says: the abort of
 * one, which waits for the device, would not return while a kernel of another one waits there. */
static void test_abort_of_all(void **state)
{
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE,
                     world_clique(&m, 2, (int64_t[]){2, 0, 1, 2, 2, 3}, 6), 4, 4);
    world_collective(&m, PLAN_ALL_REDUCE,
                     world_clique(&m, 2, (int64_t[]){2, 0, 2, 2, 1, 3}, 6), 4, 4);
    world_open(&w, &m, NULL);
    assert_int_equal(fake_comms, 3 * FAKE_RANKS);
    world_run(&w);
    fake_nccl_failing = 0;
    assert_int_equal(gxrt_execute(w.session, FAKE_RANKS, w.runs), GXRT_WORLD_FAILED);
    fake_nccl_failing = -1;
    world_end(&w, 3 * FAKE_RANKS);
}

/* rows: collectives.J2 (edge: NCCL too old) */
static void test_old(void **state)
{
    (void)state;
    Maker m;
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4, 4);
    Program p = open_program(&m, "", 0);
    gxrt_session *s;
    fake_nccl_version = 22605;
    assert_int_equal(session_create(p.program, NULL, &fake_api, NULL, &fake_nccl, &s),
                     GXRT_MISSING_LIBRARY);
    assert_string_equal(gxrt_last_error(),
                        "NCCL 2.26 is too old: install NCCL 2.27 or newer");
    fake_nccl_version = 22707;
    close_program(&p);
}

/* rows: collectives.J5 (every type, moved and reduced, before and from sm_90 on) */
static void test_types(void **state)
{
    static const struct {
        const char *dtype;
        uint32_t sm;
        int moved, reduced; /* -1: not possible */
        size_t bytes;
    } rows[] = {
        {"pred", 90, ncclUint8, ncclUint8, 1},
        {"s8", 90, ncclInt8, ncclInt8, 1},
        {"u8", 90, ncclUint8, ncclUint8, 1},
        {"s16", 90, ncclFloat16, -1, 2},
        {"u16", 90, ncclFloat16, -1, 2},
        {"s32", 90, ncclInt32, ncclInt32, 4},
        {"u32", 90, ncclUint32, ncclUint32, 4},
        {"s64", 90, ncclInt64, ncclInt64, 8},
        {"u64", 90, ncclUint64, ncclUint64, 8},
        {"f16", 90, ncclFloat16, ncclFloat16, 2},
        {"bf16", 90, ncclBfloat16, ncclBfloat16, 2},
        {"f32", 90, ncclFloat32, ncclFloat32, 4},
        {"f64", 90, ncclFloat64, ncclFloat64, 8},
        {"c64", 90, ncclFloat32, ncclFloat32, 4},
        {"c128", 90, ncclFloat64, ncclFloat64, 8},
        {"f8e4m3fn", 80, ncclInt8, -1, 1},
        {"f8e4m3fn", 90, ncclFloat8e4m3, ncclFloat8e4m3, 1},
        {"f8e5m2", 89, ncclInt8, -1, 1},
        {"f8e5m2", 100, ncclFloat8e5m2, ncclFloat8e5m2, 1},
        {"f8e5m2fnuz", 90, ncclInt8, -1, 1},
        {"f8e4m3fnuz", 90, ncclInt8, -1, 1},
        {"f8e8m0fnu", 90, ncclInt8, -1, 1},
        {"s4", 90, -1, -1, 0},
        {"token", 90, -1, -1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TransportType sum = {.type = -1}, none = {.type = -1};
        bool reduces =
            transport_nccl.resolve(rows[i].dtype, PLAN_REDUCE_SUM, rows[i].sm, &sum);
        bool moves =
            transport_nccl.resolve(rows[i].dtype, PLAN_REDUCE_NONE, rows[i].sm, &none);
        assert_int_equal(moves, rows[i].moved >= 0);
        assert_int_equal(none.type, rows[i].moved);
        assert_int_equal(none.bytes, rows[i].bytes);
        assert_int_equal(reduces, rows[i].reduced >= 0);
        assert_int_equal(sum.type, rows[i].reduced);
    }
    TransportType unused;
    assert_true(transport_nccl.resolve("f64", PLAN_REDUCE_PRODUCT, 90, &unused));
    assert_false(transport_nccl.resolve("c128", PLAN_REDUCE_PRODUCT, 90, &unused));
}

static int fail_host_call(void *user, void *stream, size_t count, void *const *buffers,
                          const uint64_t *bytes)
{
    (void)user, (void)stream, (void)count, (void)buffers, (void)bytes;
    return 1;
}

static gxrt_program *program_of_two;
static char store_of_two[64];

/* The first run fails by its host call, and the session refuses the second. */
static bool fails_once(gxrt_session *s)
{
    gxrt_buffer b[2];
    for (int i = 0; i < 2; i++) {
        b[i] = (gxrt_buffer){.struct_size = sizeof *b, .bytes = 16};
        gxrt_allocate(s, 0, b[i].bytes, &b[i].data);
    }
    const gxrt_run run = {sizeof run, NULL, b, 1, b + 1, 1};
    bool ok = gxrt_execute(s, 1, &run) == GXRT_HOST_CALL_FAILED &&
              gxrt_execute(s, 1, &run) == GXRT_DEVICE_FAILED;
    for (int i = 0; i < 2; i++)
        gxrt_free(s, 0, b[i].data);
    return ok;
}

static gxrt_status run_one_of_two(uint32_t rank)
{
    const gxrt_host_call h = {sizeof h, "mine", fail_host_call, NULL, NULL};
    gxrt_world *world;
    gxrt_session *s = NULL;
    gxrt_status st = gxrt_world_create(rank, 2, store_of_two, &world);
    const gxrt_session_options options = {.struct_size = sizeof options,
                                          .host_calls = &h,
                                          .host_call_count = 1,
                                          .world = world};
    st = st == GXRT_OK
             ? session_create(program_of_two, &options, &fake_api, NULL, &fake_nccl, &s)
             : st;
    if (st == GXRT_OK && !fails_once(s))
        st = GXRT_HOST_CALL_FAILED;
    gxrt_session_destroy(s);
    gxrt_world_destroy(world);
    return st;
}

/* Each rank has one device. After a failed host call its next collective may meet another one of the other rank's:
 * the session has failed. */
static void test_failed_host_call(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    m.b.info[0].partitions = 2;
    world_collective(&m, PLAN_ALL_REDUCE, world_clique(&m, 1, (int64_t[]){2, 0, 1}, 3), 4,
                     4);
    maker_command(&m, PLAN_HOST_CALL, plan_string(&m.b, "mine"), NULL, 0);
    Program p = open_program(&m, "", 0);
    program_of_two = p.program;
    snprintf(store_of_two, sizeof store_of_two, "file:/tmp/gxc-communicators-%ld",
             (long)getpid());
    run_ranks(2, run_one_of_two);
    close_program(&p);
    assert_int_equal(fake_comms, 0);
    fake_nccl_lonely = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_noted),   cmocka_unit_test(test_cliques),
        cmocka_unit_test(test_splits),          cmocka_unit_test(test_joined),
        cmocka_unit_test(test_channels),        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_tuple),           cmocka_unit_test(test_empty),
        cmocka_unit_test(test_rendezvous),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_late_rendezvous), cmocka_unit_test(test_late_device),
        cmocka_unit_test(test_abort_of_all),    cmocka_unit_test(test_old),
        cmocka_unit_test(test_types),           cmocka_unit_test(test_failed_host_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
