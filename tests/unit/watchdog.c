/* What the watchdog of a session says and does, on four fake devices whose streams stop where a test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ir/base/clock.h"
#include "runtime/collective/collective.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/fake_world.h"
#include "tests/unit/shared/program.h"

static char warning[1024]; /* the last */
static atomic_int warnings;

static void keep_log(void *user, int level, const char *text)
{
    (void)user;
    if (level > 1)
        return;
    snprintf(warning, sizeof warning, "%s", text);
    warnings++;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* `count` all-reduces of all devices on the caller's stream. */
static void open_reduces(FakeWorld *w, int count, double timeout)
{
    Maker m;
    const gxrt_session_options options = {
        .struct_size = sizeof options, .timeout_seconds = timeout, .log = keep_log};
    world_begin(&m);
    uint32_t all = world_clique_of_all(&m);
    for (int i = 0; i < count; i++)
        world_collective(&m, PLAN_ALL_REDUCE, all, 4, 4);
    world_open(w, &m, &options);
    warnings = 0;
    memset(fake_device_records, 0, sizeof fake_device_records);
}

/* Lets all streams go on, and ends what the watchdog has aborted. */
static void close_failed(FakeWorld *w)
{
    memset(fake_stops, 0, sizeof fake_stops);
    world_end(w, FAKE_RANKS);
}

/* Waits until the watchdog has struck, and says so on every device. */
static void await_strike(FakeWorld *w, const char *report)
{
    gxrt_status st = GXRT_OK;
    for (int i = 0; i < 4000 && st == GXRT_OK; i++) {
        pause_briefly();
        st = gxrt_synchronize(w->session, 0);
    }
    assert_int_equal(st, GXRT_WORLD_FAILED);
    assert_string_equal(gxrt_last_error(), report);
    assert_int_equal(gxrt_synchronize(w->session, 3), GXRT_WORLD_FAILED);
    assert_true(w->session->failed); /* nobody waits for others any more */
    assert_int_equal(gxrt_execute(w->session, FAKE_RANKS, w->runs), GXRT_WORLD_FAILED);
}

#define FIRST "all-reduce instruction (command 0)"
#define SECOND "all-reduce instruction (command 1)"
#define THIRD "all-reduce instruction (command 2)"
#define FOURSOME " among devices 0, 1, 2, 3"
#define THE_END "; the communicators were aborted: end or restart all ranks"

/* Device 1 waits in the second of three collectives, since device 2 has not come to the first: that one is named.
 * It is warned of once, when half of the time is over. */
static void test_report(void **state)
{
    static const char late[] = "device 2: " FIRST FOURSOME;
    static const char states[] =
        "; device 0: has nothing queued, last done: " THIRD "; device 1: waits in " SECOND
        ", 1 more behind it up to " THIRD ", last done: " FIRST
        "; device 2: has not reached " FIRST ", 2 more behind it up to " THIRD
        ", last done: none yet; device 3: waits in " THIRD ", last done: " SECOND;
    (void)state;
    char text[2048];
    FakeWorld w = {0};
    open_reduces(&w, 3, 1);
    fake_nccl_talks = true;
    fake_stops[1] = 4; /* it reaches, does, reaches */
    fake_stops[2] = 1;
    fake_stops[3] = 6;
    world_run(&w);
    snprintf(text, sizeof text,
             "%s was not done within 1 s (NCCL: rank 2 of 4)%s" THE_END, late, states);
    await_strike(&w, text);
    snprintf(text, sizeof text,
             "%s is not done after 0.5 s, waiting 0.5 s more (NCCL: rank 2 of 4)%s", late,
             states);
    assert_string_equal(warning, text);
    assert_int_equal(warnings, 1);
    fake_nccl_talks = false;
    close_failed(&w);
}

/* The first device may be the one that all wait for. */
static void test_first_is_furthest(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 2, 1);
    fake_stops[0] = 1;
    fake_stops[1] = 4;
    world_run(&w);
    await_strike(&w,
                 "device 0: " FIRST FOURSOME " was not done within 1 s"
                 "; device 0: has not reached " FIRST ", 1 more behind it up to " SECOND
                 ", last done: none yet; device 1: waits in " SECOND ", last done: " FIRST
                 "; device 2: has nothing queued, last done: " SECOND
                 "; device 3: has nothing queued, last done: " SECOND THE_END);
    close_failed(&w);
}

/* Before a stream has come to a collective, kernels may take their time. */
static void test_not_reached(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 1, 0.2);
    for (int d = 0; d < FAKE_RANKS; d++)
        fake_stops[d] = 1;
    world_run(&w);
    for (int i = 0; i < 200; i++)
        pause_briefly();
    assert_int_equal(gxrt_synchronize(w.session, 0), GXRT_OK);
    assert_int_equal(warnings, 0);
    for (int d = 0; d < FAKE_RANKS; d++)
        __atomic_store_n(&fake_stops[d], 0, __ATOMIC_SEQ_CST);
    world_close(&w);
}

/* A wait that ends in time is only warned of; so is the next. */
static void test_warned_again(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 1, 2);
    for (int i = 1; i <= 2; i++) {
        __atomic_store_n(&fake_stops[1], 2 * i, __ATOMIC_SEQ_CST);
        double start = seconds_now();
        world_run(&w);
        for (int k = 0; k < 4000 && warnings < i; k++)
            pause_briefly();
        assert_int_equal(warnings, i);
        assert_true(seconds_now() - start > 0.7); /* one look is less than 0.2 s behind */
        assert_non_null(strstr(warning, "device 1: waits in " FIRST));
    }
    __atomic_store_n(&fake_stops[1], 0, __ATOMIC_SEQ_CST);
    world_close(&w);
    assert_int_equal(warnings, 2);
}

static gxrt_session *held;

/* Device 1 comes when all is over. */
static void hold(void)
{
    while (fake_current == 1 && !held->devices[1].is_aborted)
        pause_briefly();
}

/* In the first run host code waits for all devices; a device that does not come is the one without a wait. */
static void test_host_waits(void **state)
{
#define WAITS "waiting for the other local devices at " FIRST ", last done: " FIRST
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 1, 1);
    held = w.session;
    fake_on_record = hold;
    assert_int_equal(gxrt_execute(w.session, FAKE_RANKS, w.runs), GXRT_WORLD_FAILED);
    fake_on_record = NULL;
    assert_string_equal(
        gxrt_last_error(),
        "device 0: waiting for the other local devices was not done within 1 s"
        "; device 0: " WAITS "; device 1: has nothing queued, last done: none yet"
        "; device 2: " WAITS "; device 3: " WAITS THE_END);
    assert_int_equal(warnings, 1);
    close_failed(&w);
}

/* What the transport finds by itself ends all waiting, long before the time is over. */
static void test_broken(void **state)
{
#define IDLE " has nothing queued, last done: " FIRST
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 1, 1000);
    world_run(&w);
    __atomic_store_n(&fake_nccl_broken, 2, __ATOMIC_SEQ_CST);
    await_strike(&w, "device 2: waiting has failed: the fake NCCL's error"
                     "; device 0:" IDLE "; device 1:" IDLE "; device 2:" IDLE
                     "; device 3:" IDLE THE_END);
    assert_int_equal(warnings, 0);
    fake_nccl_broken = -1;
    close_failed(&w);
}

static int rooms; /* that device 1 has waited for */

static void make_room(void)
{
    if (fake_current == 1) {
        rooms++;
        __atomic_store_n(&fake_stops[1], 0, __ATOMIC_SEQ_CST);
    }
}

/* Of collectives on their way 64 are noted; for the next one the host waits for the oldest. */
static void test_many_on_their_way(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_reduces(&w, 1, 1000);
    fake_stops[1] = 2;
    fake_on_synchronize = make_room;
    for (int i = 0; i < 65; i++) {
        assert_int_equal(rooms, 0);
        world_run(&w);
    }
    assert_int_equal(rooms, 1);
    fake_on_synchronize = NULL;
    world_close(&w);
}

static gxrt_session *ordering;
static char waits[FAKE_RANKS][256];

static size_t stream_number(CUstream stream)
{
    const Device *d = &ordering->devices[fake_current];
    size_t i = 0;
    while (i < ordering->plan->streams_count && d->streams[i] != stream)
        i++;
    return i;
}

static void keep_wait(CUstream stream, CUstream recorded)
{
    char *text = waits[fake_current];
    size_t at = strlen(text);
    snprintf(text + at, sizeof waits[0] - at, "%zu<%zu ", stream_number(stream),
             stream_number(recorded));
}

/* Calls on one communicator wait for each other where their streams are two. */
static void test_streams(void **state)
{
    static const uint32_t streams[] = {1, 2, 2, 1};
    (void)state;
    Maker m;
    FakeWorld w = {0};
    world_begin(&m);
    PlanStream stream = {.kind = PLAN_STREAM_COLLECTIVE};
    plan_add_streams(&m.b, &stream, 1);
    plan_add_streams(&m.b, &stream, 1);
    uint32_t all = world_clique_of_all(&m);
    for (uint32_t i = 0; i < 4; i++) {
        world_collective(&m, PLAN_ALL_REDUCE, all, 4, 4);
        m.b.commands[i].stream = streams[i];
    }
    world_open(&w, &m, NULL);
    ordering = w.session;
    fake_on_wait = keep_wait;
    for (int i = 0; i < 2; i++) {
        memset(waits, 0, sizeof waits);
        world_run(&w);
        for (int d = 0; d < FAKE_RANKS; d++)
            assert_string_equal(waits[d], "1<0 2<0 2<1 1<2 0<1 0<2 ");
    }
    fake_on_wait = NULL;
    world_close(&w);
}

static void stop_device(int stops)
{
    __atomic_store_n(&fake_stops[1], stops, __ATOMIC_SEQ_CST);
}

/* Device 1 does not end its all-reduce, and is late. */
static void open_late(FakeWorld *w)
{
    Maker m;
    const gxrt_session_options options = {
        .struct_size = sizeof options, .timeout_seconds = 1000, .max_seconds = 0.02};
    world_begin(&m);
    world_collective(&m, PLAN_ALL_REDUCE, world_clique_of_all(&m), 4, 4);
    world_open(w, &m, &options);
    memset(fake_device_records, 0, sizeof fake_device_records);
    stop_device(2);
    world_run(w);
    assert_int_equal(gxrt_synchronize(w->session, 1), GXRT_DEVICE_FAILED);
}

/* A session that is kept since a device is late has no watchdog any more, which would work on what the caller destroys
 * next; destroyed again when the device is done, it is gone. */
static void test_kept(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_late(&w);
    gxrt_session_destroy(w.session);
    assert_null(w.session->watchdog);
    assert_int_equal(fake_comms, 0);
    close_failed(&w);
}

static void end_waiting(void)
{
    stop_device(0);
}

/* A device that waits for others only is done when its communicator is aborted: then nothing is kept. */
static void test_not_kept(void **state)
{
    (void)state;
    FakeWorld w = {0};
    open_late(&w);
    stop_device(0);
    for (int i = 0; i < 4; i++) { /* memory in use would be kept */
        gxrt_free(w.session, 1, w.arguments[1][i].data);
        gxrt_free(w.session, 1, w.results[1][i].data);
        w.arguments[1][i].data = w.results[1][i].data = NULL;
    }
    stop_device(2);
    fake_on_abort = end_waiting;
    world_end(&w, FAKE_RANKS);
    fake_on_abort = NULL;
}

static bool has_tried; /* kernels on device 0 */

static void try_kernels(void)
{
    if (fake_current == 0 && !has_tried) {
        has_tried = true;
        nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
    }
}

/* While device 0 tries kernels, the others wait for it longer than for anything else. */
static void test_tuning(void **state)
{
    (void)state;
    const gxrt_tuner tuner = {
        .struct_size = sizeof tuner, .agree = accept_results, .trial = ignore_trial};
    FakeWorld w = {0};
    open_reduces(&w, 1, 0.2);
    fake_on_record = try_kernels;
    if (gxrt_tune(w.session, FAKE_RANKS, w.runs, &tuner) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    fake_on_record = NULL;
    assert_true(has_tried);
    assert_int_equal(warnings, 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report),      cmocka_unit_test(test_first_is_furthest),
        cmocka_unit_test(test_not_reached), cmocka_unit_test(test_warned_again),
        cmocka_unit_test(test_host_waits),  cmocka_unit_test(test_broken),
        cmocka_unit_test(test_streams),     cmocka_unit_test(test_many_on_their_way),
        cmocka_unit_test(test_kept),        cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_tuning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
