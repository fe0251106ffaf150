/* The checker of plans: what is ordered passes, and every kind of race is named. Each plan here
 * is a few commands on three streams over one temporary allocation of 64 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"

enum { SLICES = 4 }; /* slice i: bytes [16 i, 16 i + 16) */

typedef struct Maker {
    PlanBuilder b;
    uint32_t clique;
} Maker;

static void begin(Maker *m)
{
    plan_builder_init(&m->b);
    m->b.info[0].target = plan_string(&m->b, "sm_90a");
    m->b.info[0].sm = 90;
    m->b.info[0].suffix = 'a';
    m->b.info[0].partitions = 2;
    plan_add_streams(
        &m->b, (PlanStream[]){{PLAN_STREAM_COMPUTE, 0}, {PLAN_STREAM_COLLECTIVE, 1}}, 2);
    PlanAllocation a = {.kind = PLAN_TEMP, .alignment = 256, .bytes = 16 * SLICES};
    uint32_t temp = plan_add_allocations(&m->b, &a, 1);
    for (uint32_t i = 0; i < SLICES; i++)
        plan_add_slices(
            &m->b, &(PlanSlice){.allocation = temp, .offset = 16 * i, .bytes = 16}, 1);
    PlanClique c = {.name = plan_string(&m->b, "all"),
                    .mode = PLAN_FLATTENED_ID,
                    .group_count = 1,
                    .groups = plan_add_numbers(&m->b, (int64_t[]){2, 0, 1}, 3),
                    .number_count = 3};
    m->clique = plan_add_cliques(&m->b, &c, 1);
}

static uint32_t command(Maker *m, uint32_t kind, const char *name, uint32_t stream,
                        uint32_t index, const PlanArg *args, uint32_t count)
{
    PlanCommand c = {.kind = (uint16_t)kind,
                     .name = plan_string(&m->b, name),
                     .stream = stream,
                     .signal = PLAN_NONE,
                     .index = index};
    return plan_command(&m->b, &c, args, count);
}

/* Copies slice `from` to slice `to`. */
static uint32_t copy(Maker *m, const char *name, uint32_t stream, uint32_t to,
                     uint32_t from)
{
    PlanArg args[2] = {{PLAN_ARG_SLICE, PLAN_WRITE, to, 0},
                       {PLAN_ARG_SLICE, PLAN_READ, from, 0}};
    return command(m, PLAN_COPY, name, stream, 0, args, 2);
}

static uint32_t reduce(Maker *m, const char *name, uint32_t stream, uint32_t to,
                       uint32_t from)
{
    PlanCollective op = {.kind = PLAN_ALL_REDUCE,
                         .reduction = PLAN_REDUCE_SUM,
                         .dtype = plan_string(&m->b, "f32"),
                         .clique = m->clique,
                         .dtypes = PLAN_NONE};
    PlanArg args[2] = {{PLAN_ARG_SLICE, PLAN_READ, from, 0},
                       {PLAN_ARG_SLICE, PLAN_WRITE, to, 0}};
    return command(m, PLAN_COLLECTIVE, name, stream, plan_add_collectives(&m->b, &op, 1),
                   args, 2);
}

static void start(Maker *m, uint32_t slot)
{
    if (slot >= m->b.info[0].async_count)
        m->b.info[0].async_count = slot + 1;
    command(m, PLAN_ASYNC_START, "start", 0, slot, NULL, 0);
}

static void close_last(Maker *m, uint32_t kind)
{
    for (uint32_t i = m->b.commands_count; i-- > 0;) {
        if (m->b.commands[i].kind == kind && m->b.commands[i].subtree == 1) {
            plan_close(&m->b, i);
            return;
        }
    }
}

/* A region on `stream` that copies, between start and the done that the caller adds. */
static void started_copy(Maker *m, const char *name, uint32_t slot, uint32_t stream,
                         uint32_t to, uint32_t from)
{
    start(m, slot);
    copy(m, name, stream, to, from);
    close_last(m, PLAN_ASYNC_START);
}

static void done(Maker *m, uint32_t slot)
{
    command(m, PLAN_ASYNC_DONE, "done", 0, slot, NULL, 0);
}

/* What the checker says: "" if the plan is in order. */
static const char *verdict(Maker *m)
{
    static char error[512];
    Plan p;
    error[0] = 0;
    void *bytes = read_plan(&m->b, &p);
    plan_builder_deinit(&m->b);
    bool ok = plan_check(&p, error, sizeof error);
    assert_int_equal(ok, error[0] == 0);
    free(bytes);
    return error;
}

static void expect_race(Maker *m, const char *one, const char *other)
{
    const char *said = verdict(m);
    if (!strstr(said, one) || !strstr(said, other) || !strstr(said, "nothing says which"))
        fail_msg("expected a race of %s and %s: %s", one, other, said);
}

static void expect_order(Maker *m)
{
    const char *said = verdict(m);
    if (said[0])
        fail_msg("%s", said);
}

/* rows: collectives.H3: a done waits for its start's work; the parent goes on beside it. */
static void test_pairs(void **state)
{
    (void)state;
    Maker m;
    begin(&m);
    copy(&m, "before", 0, 0, 3);
    started_copy(&m, "inside", 0, 1, 1, 0);
    copy(&m, "beside", 0, 2, 0); /* both read slice 0 */
    done(&m, 0);
    copy(&m, "after", 0, 0, 1);
    expect_order(&m);
}

/* The first of a thousand commands of one stream is remembered as the last one is. */
static void test_many(void **state)
{
    enum { MANY = 1000 };
    (void)state;
    for (int races = 0; races < 2; races++) {
        Maker m;
        begin(&m);
        start(&m, 0);
        copy(&m, "first", 1, 1, 0);
        for (int i = 0; i < MANY; i++)
            copy(&m, "later", 1, 2, 0);
        close_last(&m, PLAN_ASYNC_START);
        copy(&m, "beside", 0, races ? 1 : 3, 0);
        done(&m, 0);
        if (races)
            expect_race(&m, "first", "beside");
        else
            expect_order(&m);
    }
}

/* rows: collectives.M4 (edge: operands, results and temporaries of a region belong to it until
 * its done, on any stream) */
static void test_reuse(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        Maker m;
        begin(&m);
        started_copy(&m, "inside", 0, 1, 1, 0);
        if (i == 0)
            copy(&m, "overwrites", 0, 0, 3);
        else if (i == 1)
            copy(&m, "reads", 0, 3, 1);
        else
            started_copy(&m, "elsewhere", 1, 2, 1, 3);
        done(&m, 0);
        expect_race(&m, "inside", i == 0 ? "overwrites" : i == 1 ? "reads" : "elsewhere");
    }
}

/* rows: collectives.M4 (edge: two regions at once may share what both only read, and write
 * their own) */
static void test_two_regions(void **state)
{
    (void)state;
    Maker m;
    begin(&m);
    started_copy(&m, "one", 0, 1, 1, 0);
    started_copy(&m, "two", 1, 2, 2, 0);
    done(&m, 0);
    done(&m, 1);
    copy(&m, "after", 0, 0, 1);
    expect_order(&m);
}

/* rows: collectives.H3 (edge: a done waits for its own start only, not for the stream) */
static void test_own_start(void **state)
{
    (void)state;
    Maker m;
    begin(&m);
    started_copy(&m, "one", 0, 1, 1, 0);
    started_copy(&m, "two", 1, 1, 2, 0);
    done(&m, 0);
    copy(&m, "reads.one", 0, 3, 1);
    copy(&m, "reads.two", 0, 3, 2);
    done(&m, 1);
    expect_race(&m, "two", "reads.two");
}

/* Two streams are the fewest that can race; one cannot. */
static void test_two_streams(void **state)
{
    (void)state;
    for (uint32_t other = 0; other <= 1; other++) {
        Maker m;
        begin(&m);
        m.b.streams_count = 1 + other;
        copy(&m, "one", 0, 1, 0);
        copy(&m, "two", other, 1, 3);
        if (other)
            expect_race(&m, "one", "two");
        else
            expect_order(&m);
    }
}

/* A start without commands orders its own stream only. */
static void test_empty_start(void **state)
{
    (void)state;
    Maker m;
    begin(&m);
    copy(&m, "writes", 0, 1, 0);
    start(&m, 0);
    copy(&m, "reads", 1, 2, 1);
    done(&m, 0);
    expect_race(&m, "writes", "reads");
}

/* Slices that move with a loop are all the bytes that they may be, forwards or backwards. */
static void test_terms(void **state)
{
    static const struct {
        int64_t low, high, stride;
        uint32_t offset, other; /* the first byte; a slice that another stream writes */
        bool races;
    } cases[] = {
        {0, 1, 16, 0, 1, true},    {0, 1, 16, 0, 2, false},   {1, 1, 16, 0, 0, false},
        {0, 1, -16, 16, 0, true},  {0, 1, -16, 32, 0, false}, {-1, 0, 16, 32, 1, true},
        {-1, 0, 16, 32, 0, false}, {0, 1, 0, 16, 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Maker m;
        begin(&m);
        PlanLoop l = {.trip_count = 2, .counter = 0, .body_commands = 1};
        m.b.info[0].counter_count = 1;
        uint32_t loop =
            command(&m, PLAN_WHILE, "loop", 0, plan_add_loops(&m.b, &l, 1), NULL, 0);
        PlanTerm t = {.scale = 1,
                      .low = cases[i].low,
                      .high = cases[i].high,
                      .stride = cases[i].stride};
        PlanSlice moves = {.offset = cases[i].offset,
                           .bytes = 16,
                           .terms = plan_add_terms(&m.b, &t, 1),
                           .term_count = 1};
        copy(&m, "moves", 0, plan_add_slices(&m.b, &moves, 1), 3);
        plan_close(&m.b, loop);
        copy(&m, "other", 1, cases[i].other, 3);
        if (cases[i].races)
            expect_race(&m, "moves", "other");
        else
            expect_order(&m);
    }
}

static void test_signals(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        Maker m;
        begin(&m);
        uint32_t a = copy(&m, "gives", 1, 1, 0);
        m.b.info[0].signal_count = 1;
        m.b.commands[a].signal = 0;
        a = copy(&m, "takes", 0, 2, 1);
        if (waits) {
            m.b.commands[a].waits = plan_add_refs(&m.b, (uint32_t[]){0}, 1);
            m.b.commands[a].wait_count = 1;
            expect_order(&m);
        } else {
            expect_race(&m, "gives", "takes");
        }
    }
}

/* One iteration runs beside the one before it: the start of the second overwrites what the
 * first, not waited for, still reads. */
static void test_loop(void **state)
{
    (void)state;
    for (int trips = 0; trips < 3; trips++) {
        Maker m;
        begin(&m);
        PlanLoop l = {.trip_count = trips, .counter = PLAN_NONE};
        uint32_t loop =
            command(&m, PLAN_WHILE, "loop", 0, plan_add_loops(&m.b, &l, 1), NULL, 0);
        copy(&m, "first", 0, 0, 3);
        started_copy(&m, "carried", 0, 1, 1, 0);
        plan_close(&m.b, loop);
        m.b.loops[0].body_commands = m.b.commands_count - 1;
        if (trips < 2)
            expect_order(&m);
        else
            expect_race(&m, "first", "carried");
    }
}

/* What a call has inside is walked in its place. */
static void test_call(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        Maker m;
        begin(&m);
        uint32_t call = command(&m, PLAN_CALL, "call", 0, 0, NULL, 0);
        started_copy(&m, "inside", 0, 1, 1, 0);
        plan_close(&m.b, call);
        if (waits)
            done(&m, 0);
        copy(&m, "behind", 0, 2, 1);
        if (waits)
            expect_order(&m);
        else
            expect_race(&m, "inside", "behind");
    }
}

/* Of a conditional one branch runs: branches do not race with each other, but with what is
 * around them. */
static void test_conditional(void **state)
{
    (void)state;
    for (int waited = 0; waited < 2; waited++) {
        Maker m;
        begin(&m);
        PlanAllocation a = {.kind = PLAN_TEMP, .alignment = 256, .bytes = 4};
        PlanSlice s = {.allocation = plan_add_allocations(&m.b, &a, 1), .bytes = 4};
        PlanArg selector = {PLAN_ARG_SLICE, PLAN_READ, plan_add_slices(&m.b, &s, 1), 0};
        uint32_t c = command(&m, PLAN_CONDITIONAL, "choice", 0, 0, &selector, 1);
        started_copy(&m, "left", 0, 1, 1, 0);
        if (waited)
            done(&m, 0);
        uint32_t first = m.b.commands_count - 1;
        started_copy(&m, "right", 1, 2, 1, 0);
        done(&m, 1);
        uint32_t counts[2] = {first, m.b.commands_count - 1 - first};
        m.b.commands[c].index = plan_add_refs(&m.b, counts, 2);
        m.b.commands[c].count = 2;
        plan_close(&m.b, c);
        copy(&m, "after", 0, 2, 1);
        if (waited)
            expect_order(&m);
        else
            expect_race(&m, "left", "after");
    }
}

/* rows: collectives.H1 (edge: one communicator on two streams: its calls come in the order of
 * the plan, on all ranks) */
static void test_one_communicator(void **state)
{
    (void)state;
    for (uint32_t same = 0; same < 2; same++) {
        Maker m;
        begin(&m);
        PlanClique other = m.b.cliques[0];
        other.groups = plan_add_numbers(&m.b, (int64_t[]){2, 0, 1}, 3);
        plan_add_cliques(&m.b, &other, 1);
        start(&m, 0);
        reduce(&m, "sum.1", 1, 1, 0);
        close_last(&m, PLAN_ASYNC_START);
        m.clique = same ? 0 : 1;
        start(&m, 1);
        reduce(&m, "sum.2", 2, 2, 1);
        close_last(&m, PLAN_ASYNC_START);
        done(&m, 1);
        if (same)
            expect_order(&m);
        else
            expect_race(&m, "sum.1", "sum.2");
    }
}

/* What a loop asks each time is ordered, too: its condition, and the copy of its predicate. */
static void test_condition(void **state)
{
    (void)state;
    for (uint32_t writes = 0; writes < SLICES; writes++) { /* slice 2: nobody else's */
        Maker m;
        begin(&m);
        started_copy(&m, "side", 0, 1, 3, 1);
        PlanLoop loop = {.trip_count = -1,
                         .counter = PLAN_NONE,
                         .condition_commands = 1,
                         .body_commands = 1};
        PlanSlice byte = m.b.slices[2];
        byte.bytes = 1;
        PlanArg predicate = {PLAN_ARG_SLICE, PLAN_READ, plan_add_slices(&m.b, &byte, 1),
                             0};
        uint32_t w = command(&m, PLAN_WHILE, "while", 0, plan_add_loops(&m.b, &loop, 1),
                             &predicate, 1);
        copy(&m, "condition", 0, writes, 0);
        copy(&m, "body", 0, 0, 2);
        plan_close(&m.b, w);
        done(&m, 0);
        if (writes == 1 || writes == 3)
            expect_race(&m, "side", "condition");
        else
            expect_order(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_condition),   cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_many),        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_two_regions), cmocka_unit_test(test_own_start),
        cmocka_unit_test(test_signals),     cmocka_unit_test(test_two_streams),
        cmocka_unit_test(test_empty_start), cmocka_unit_test(test_terms),
        cmocka_unit_test(test_loop),        cmocka_unit_test(test_call),
        cmocka_unit_test(test_conditional), cmocka_unit_test(test_one_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
