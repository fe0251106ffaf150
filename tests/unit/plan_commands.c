/* Commands of every kind, each number of them at its last good value and at the first bad one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { N = 4, ROW = 16, TEMP_BYTES = 4096 };

/* What make() makes, by number. */
enum {
    LAUNCH,
    CHOICE,
    CHOICE_COPY,
    CHOICE_FILL,
    LOOP,
    LOOP_CONDITION,
    LOOP_BODY,
    START,
    SUM,
    OTHER_SUM,
    DONE,
    HOST_CALL,
    CALL,
    CALL_COPY,
    WAITING,
    GATHER,
    SCATTER,
    PERMUTE,
    ALONE,
    COMMANDS
};
/* What add_cliques() makes. */
enum { ALL_DEVICES, EACH_DEVICE, FIRST_DEVICE };

/* Slices of some commands, the first argument of each command, and sizes of tables. */
static uint32_t selector, flag, copied, filled, half, donated, constant, next_row;
static uint32_t args[COMMANDS], groups, pairs, waits, branches, dtypes;
static PlanBuilder sizes; /* only the counts */

static uint32_t row(Maker *m, uint64_t bytes)
{
    uint32_t s = maker_slice(m, 0, next_row, bytes);
    next_row += 32;
    return s;
}

static uint32_t add(Maker *m, uint32_t kind, uint32_t index, uint32_t one, uint32_t other)
{
    const PlanArg both[] = {writes(one), reads(other)};
    return maker_command(m, kind, index, both, 2);
}

static uint32_t add_fill(Maker *m, uint32_t slice, uint32_t pattern)
{
    const PlanArg both[] = {writes(slice), immediate(0)};
    uint32_t fill = maker_command(m, PLAN_FILL, 0, both, 2);
    m->b.commands[fill].count = pattern;
    return fill;
}

static uint32_t add_collective(Maker *m, PlanCollectiveKind kind, uint32_t clique,
                               uint32_t from, uint32_t to)
{
    const PlanCollective op = {.kind = kind,
                               .reduction = PLAN_REDUCE_SUM,
                               .dtype = plan_string(&m->b, "s32"),
                               .clique = clique,
                               .dtypes = PLAN_NONE};
    const PlanArg both[] = {reads(from), writes(to)};
    return maker_command(m, PLAN_COLLECTIVE, plan_add_collectives(&m->b, &op, 1), both,
                         2);
}

/* Of both devices, after a group of none; of each device alone; of the first device. */
static void add_cliques(Maker *m)
{
    static const int64_t numbers[] = {0, 2, 0, 1, 1, 0, 1, 1, 1, 0};
    groups = plan_add_numbers(&m->b, numbers, 10);
    const PlanClique cliques[] = {
        {.group_count = 2, .groups = groups, .number_count = 4},
        {.group_count = 2, .groups = groups + 4, .number_count = 4},
        {.group_count = 1, .groups = groups + 8, .number_count = 2}};
    plan_add_cliques(&m->b, cliques, 3);
}

static void add_control(Maker *m)
{
    PlanBuilder *b = &m->b;
    PlanArg arg = reads(selector);
    branches = plan_add_refs(b, (uint32_t[]){1, 1}, 2);
    uint32_t choice = maker_command(m, PLAN_CONDITIONAL, branches, &arg, 1);
    b->commands[choice].count = 2;
    copied = row(m, ROW);
    add(m, PLAN_COPY, 0, copied, row(m, ROW));
    add_fill(m, filled = row(m, ROW), 4);
    plan_close(b, choice);
    const PlanLoop loop = {
        .trip_count = -1, .counter = 0, .condition_commands = 1, .body_commands = 1};
    arg = reads(flag);
    uint32_t open = maker_command(m, PLAN_WHILE, plan_add_loops(b, &loop, 1), &arg, 1);
    add_fill(m, flag, 1);
    add_fill(m, donated, 2);
    plan_close(b, open);
}

static void add_pair(Maker *m)
{
    PlanBuilder *b = &m->b;
    uint32_t open = maker_command(m, PLAN_ASYNC_START, 0, NULL, 0);
    uint32_t sum =
        add_collective(m, PLAN_ALL_REDUCE, EACH_DEVICE, row(m, ROW), row(m, ROW));
    b->collectives[0].flags = PLAN_COLLECTIVE_JOINED;
    b->collectives[0].dtypes = dtypes = plan_add_refs(b, (uint32_t[]){0}, 1);
    uint32_t other =
        add_collective(m, PLAN_ALL_REDUCE, EACH_DEVICE, row(m, ROW), row(m, ROW));
    b->commands[sum].stream = b->commands[other].stream = 1;
    plan_close(b, open);
    maker_command(m, PLAN_ASYNC_DONE, 0, NULL, 0);
}

static void add_calls(Maker *m)
{
    PlanBuilder *b = &m->b;
    const PlanArg buffers[] = {reads(row(m, ROW)), writes(row(m, ROW))};
    maker_command(m, PLAN_HOST_CALL, plan_string(b, "f"), buffers, 2);
    uint32_t call = maker_command(m, PLAN_CALL, 0, NULL, 0);
    add(m, PLAN_COPY, 0, row(m, ROW), row(m, ROW));
    plan_close(b, call);
    uint32_t waiting = add_fill(m, constant, 4);
    b->commands[waiting].waits = waits = plan_add_refs(b, (uint32_t[]){0}, 1);
    b->commands[waiting].wait_count = 1;
}

static void add_collectives(Maker *m)
{
    PlanBuilder *b = &m->b;
    half = row(m, ROW / 2);
    add_collective(m, PLAN_ALL_GATHER, ALL_DEVICES, half, row(m, ROW));
    add_collective(m, PLAN_REDUCE_SCATTER, ALL_DEVICES, row(m, ROW), half);
    add_collective(m, PLAN_COLLECTIVE_PERMUTE, ALL_DEVICES, row(m, ROW), row(m, ROW));
    PlanCollective *permute = &b->collectives[b->collectives_count - 1];
    permute->pairs = pairs = plan_add_numbers(b, (int64_t[]){0, 1, 1, 0}, 4);
    permute->pair_count = 2;
    add_collective(m, PLAN_ALL_GATHER, FIRST_DEVICE, row(m, ROW), row(m, ROW));
}

static void add_memory(Maker *m)
{
    PlanBuilder *b = &m->b;
    next_row = 0;
    maker_allocation(m, PLAN_TEMP, 0, TEMP_BYTES);
    b->info[0].constant_bytes = 256;
    const PlanAllocation a = {.kind = PLAN_CONSTANT, .alignment = 256, .bytes = ROW};
    constant = maker_slice(m, plan_add_allocations(b, &a, 1), 0, 0);
    uint32_t in = maker_value(m, false, N, PLAN_NONE, PLAN_ALIAS_NONE);
    donated = maker_value(m, false, N, PLAN_NONE, PLAN_ALIAS_NONE);
    b->arguments[1].donated = 1;
    uint32_t out = maker_value(m, true, N, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(m, in, out, N, (PlanArg){.tag = PLAN_ARG_PARTITION});
    b->commands[LAUNCH].signal = 0;
    selector = row(m, 4);
    flag = row(m, 1);
}

static void make(PlanBuilder *out)
{
    Maker m;
    maker_init(&m);
    PlanInfo *info = &m.b.info[0];
    info->partitions = 2;
    info->signal_count = info->async_count = info->counter_count = 1;
    plan_add_streams(&m.b, &(PlanStream){PLAN_STREAM_COLLECTIVE, 1}, 1);
    add_cliques(&m);
    add_memory(&m);
    add_control(&m);
    add_pair(&m);
    add_calls(&m);
    add_collectives(&m);
    assert_int_equal(m.b.commands_count, COMMANDS);
    for (int i = 0; i < COMMANDS; i++)
        args[i] = m.b.commands[i].args;
    sizes = *out = m.b;
}

#define COMMAND(i, member) AT(commands, PlanCommand, i, member)
#define ARG(command, i, member) AT(args, PlanArg, args[command] + (i), member)

static void test_records(void **state)
{
    static const char record[] = "a damaged record", wait[] = "a wait for a signal",
                      slice[] = "a slice that is not there, or may not be written";
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {COMMAND(WAITING, kind), PLAN_FILL, PLAN_COMMAND_KINDS, "a command of kind 13"},
        {COMMAND(WAITING, name), sizes.strings_count - 1, sizes.strings_count, record},
        {COMMAND(SUM, stream), 1, 2, record},
        {COMMAND(WAITING, waits), waits, sizes.refs_count, record},
        {COMMAND(WAITING, wait_count), 0, UINT16_MAX, record},
        {COMMAND(ALONE, args), args[PERMUTE], sizes.args_count, record},
        {COMMAND(ALONE, args), args[PERMUTE], sizes.args_count - 1, record},
        {COMMAND(LAUNCH, subtree), 1, 0, record},
        {COMMAND(LAUNCH, subtree), 1, 2, record},
        {COMMAND(LAUNCH, signal), 0, PLAN_NONE, wait},
        {COMMAND(CALL, signal), 0, 1, "a signal slot that is not there"},
        {AT(info, PlanInfo, 0, signal_count), 1, 0, "a signal slot that is not there"},
        {NUMBER(refs, uint32_t, waits), 0, 1, wait},
        {ARG(LAUNCH, 3, tag), PLAN_ARG_REPLICA, PLAN_ARG_TAGS, "an argument tag 5"},
        {ARG(LAUNCH, 3, tag), PLAN_ARG_NONE, PLAN_ARG_TAGS + 1, "an argument tag 6"},
        {ARG(LAUNCH, 1, access), 3, 4, slice},
        {ARG(LAUNCH, 0, access), PLAN_READ, PLAN_READ | PLAN_WRITE, slice},
        {ARG(LAUNCH, 0, index), sizes.slices_count - 1, sizes.slices_count, slice},
        {AT(arguments, PlanValue, 1, donated), 1, 0, slice},
        {AT(slices, PlanSlice, constant, bytes), 0, 4, slice},
        {AT(streams, PlanStream, 1, kind), PLAN_STREAM_COLLECTIVE, PLAN_STREAM_KINDS,
         "a stream of kind 2"},
    };
    CHECK_LIMITS(make, limits);
}

static void test_copies(void **state)
{
    static const char copy[] = "a copy whose sides", fill[] = "a fill without";
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {COMMAND(CHOICE_COPY, arg_count), 2, 1, copy},
        {COMMAND(CHOICE_COPY, arg_count), 2, 3, copy},
        {ARG(CHOICE_COPY, 0, access), PLAN_WRITE | PLAN_READ, PLAN_READ, copy},
        {ARG(CHOICE_COPY, 1, access), PLAN_WRITE | PLAN_READ, PLAN_WRITE, copy},
        {ARG(CHOICE_COPY, 1, tag), PLAN_ARG_SLICE, PLAN_ARG_IMMEDIATE, copy},
        {AT(slices, PlanSlice, copied, bytes), ROW, ROW - 1, copy},
        {AT(slices, PlanSlice, copied, bytes), ROW, ROW + 1, copy},
        {ARG(CHOICE_FILL, 0, access), PLAN_WRITE, PLAN_READ, fill},
        {ARG(CHOICE_FILL, 0, tag), PLAN_ARG_SLICE, PLAN_ARG_NONE, fill},
        {ARG(CHOICE_FILL, 1, tag), PLAN_ARG_PARTITION, PLAN_ARG_NONE, fill},
        {ARG(CHOICE_FILL, 1, tag), PLAN_ARG_REPLICA, PLAN_ARG_SLICE, fill},
        {AT(slices, PlanSlice, filled, bytes), ROW - 4, ROW - 2, fill},
        {COMMAND(LOOP_BODY, count), 2, 0, fill},
        {COMMAND(LOOP_BODY, count), 4, 3, fill},
        {COMMAND(LOOP_CONDITION, count), 1, 2, fill},
    };
    CHECK_LIMITS(make, limits);
}

static void test_control(void **state)
{
    static const char choice[] = "a conditional without its selector or branches",
                      parts[] = "a conditional whose branches do not add up",
                      kinds[] = "whose selector is neither pred nor s32",
                      predicate[] = "a loop without its predicate",
                      adds[] = "a loop whose parts do not add up",
                      slot[] = "an async slot that is not there",
                      done[] = "an async done without its start";
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {COMMAND(CHOICE, arg_count), 1, 0, choice},
        {COMMAND(CHOICE, count), 2, 0, choice},
        {COMMAND(CHOICE, count), 2, 1, parts},
        {COMMAND(CHOICE, count), 2, UINT32_MAX, choice},
        {COMMAND(CHOICE, index), branches, sizes.refs_count - 1, choice},
        {ARG(CHOICE, 0, access), 3, PLAN_WRITE, choice},
        {ARG(CHOICE, 0, tag), PLAN_ARG_SLICE, PLAN_ARG_IMMEDIATE, choice},
        {AT(slices, PlanSlice, selector, bytes), 4, 5, kinds},
        {AT(slices, PlanSlice, selector, bytes), 4, 3, kinds},
        {AT(slices, PlanSlice, selector, bytes), 1, 2, kinds},
        {AT(slices, PlanSlice, selector, bytes), 1, 0, kinds},
        {NUMBER(refs, uint32_t, branches), 1, 2, parts},
        {NUMBER(refs, uint32_t, branches + 1), 1, 0, parts},
        {COMMAND(LOOP, index), 0, 1, "a loop without its record"},
        {COMMAND(LOOP, arg_count), 1, 0, predicate},
        {ARG(LOOP, 0, access), 3, PLAN_WRITE, predicate},
        {ARG(LOOP, 0, index), flag, selector, predicate},
        {AT(loops, PlanLoop, 0, condition_commands), 1, 0, adds},
        {AT(loops, PlanLoop, 0, condition_commands), 1, 2, adds},
        {AT(loops, PlanLoop, 0, body_commands), 1, UINT32_MAX, adds},
        {COMMAND(START, index), 0, 1, slot},
        {AT(info, PlanInfo, 0, async_count), 1, 0, slot},
        {COMMAND(START, kind), PLAN_ASYNC_START, PLAN_CALL, done},
        {COMMAND(DONE, index), 0, 1, done},
        {COMMAND(CALL, subtree), 2, COMMANDS - CALL + 1, "leaves its parent"},
    };
    CHECK_LIMITS(make, limits);
}

static void test_host_calls(void **state)
{
    static const char name[] = "a host call without a name";
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {COMMAND(HOST_CALL, index), sizes.strings_count - 2, sizes.strings_count, name},
        {COMMAND(HOST_CALL, index), sizes.strings_count - 2, 0, name},
        {COMMAND(HOST_CALL, count), sizes.strings_count - 1, sizes.strings_count, name},
        {ARG(HOST_CALL, 0, tag), PLAN_ARG_SLICE, PLAN_ARG_IMMEDIATE, "no slice"},
        {ARG(HOST_CALL, 1, tag), PLAN_ARG_SLICE, PLAN_ARG_NONE, "no slice"},
    };
    CHECK_LIMITS(make, limits);
    for (uint32_t more = 0; more <= 1; more++) {
        PlanBuilder b;
        PlanArg buffers[PLAN_MAX_HOST_BUFFERS + 1];
        make(&b);
        for (int i = 0; i <= PLAN_MAX_HOST_BUFFERS; i++)
            buffers[i] = reads(copied);
        PlanCommand call = {
            .kind = PLAN_HOST_CALL, .signal = PLAN_NONE, .index = plan_string(&b, "f")};
        plan_command(&b, &call, buffers, PLAN_MAX_HOST_BUFFERS + more);
        expect_verdict(&b, "more", more,
                       more ? "a host call whose buffers are 257" : NULL);
        plan_builder_deinit(&b);
    }
}

#define OP(i, member) AT(collectives, PlanCollective, i, member)
enum { OP_SUM, OP_OTHER, OP_GATHER, OP_SCATTER, OP_PERMUTE, OP_ALONE, OPS };

static void test_collectives(void **state)
{
    static const char kind[] = "a collective of kind, reduction or flags",
                      record[] = "collective 4 of the plan is damaged",
                      device[] =
                          "collective 4 of the plan names a device that is not there",
                      types[] = "a collective without its types",
                      fit[] = "a collective whose operand and result do not fit",
                      operands[] = "a collective without its record or operands",
                      joined[] = "a collective joined with nothing";
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {OP(OP_PERMUTE, kind), PLAN_BROADCAST, PLAN_COLLECTIVE_KINDS, kind},
        {OP(OP_PERMUTE, reduction), PLAN_REDUCTIONS - 1, PLAN_REDUCTIONS, kind},
        {OP(OP_PERMUTE, flags), PLAN_COLLECTIVE_TUPLE,
         (PLAN_COLLECTIVE_TUPLE | PLAN_COLLECTIVE_JOINED) + 1, kind},
        {OP(OP_SUM, flags), PLAN_COLLECTIVE_TUPLE | PLAN_COLLECTIVE_JOINED, 4, kind},
        {OP(OP_PERMUTE, dtype), sizes.strings_count - 1, sizes.strings_count, record},
        {OP(OP_PERMUTE, clique), FIRST_DEVICE, FIRST_DEVICE + 1, record},
        {OP(OP_PERMUTE, pair_count), 1, 3, record},
        {OP(OP_PERMUTE, pairs), pairs, pairs + 1, record},
        {NUMBER(numbers, int64_t, pairs), 1, 2, device},
        {NUMBER(numbers, int64_t, pairs + 1), 0, (uint64_t)-1, device},
        {NUMBER(numbers, int64_t, pairs + 3), 1, 2, device},
        {OP(OP_SUM, dtypes), dtypes, sizes.refs_count, types},
        {NUMBER(refs, uint32_t, dtypes), sizes.strings_count - 1, sizes.strings_count,
         "a collective with a damaged type"},
        {COMMAND(PERMUTE, index), OP_PERMUTE, OPS, operands},
        {COMMAND(PERMUTE, arg_count), 2, 1, operands},
        {ARG(PERMUTE, 0, tag), PLAN_ARG_SLICE, PLAN_ARG_IMMEDIATE, "that is no slice"},
        {ARG(PERMUTE, 1, tag), PLAN_ARG_SLICE, PLAN_ARG_REPLICA, "that is no slice"},
        {ARG(PERMUTE, 0, tag), PLAN_ARG_SLICE, PLAN_ARG_NONE, fit},
        {ARG(PERMUTE, 1, tag), PLAN_ARG_SLICE, PLAN_ARG_NONE, fit},
        {ARG(PERMUTE, 0, access), 3, PLAN_WRITE, fit},
        {ARG(PERMUTE, 1, access), 3, PLAN_READ, fit},
        {AT(slices, PlanSlice, half, bytes), 8, 7, fit},
        {AT(slices, PlanSlice, half, bytes), 8, 9, fit},
        {ARG(ALONE, 0, index), copied, half, fit},
        {ARG(SCATTER, 1, index), half, copied, fit},
        {COMMAND(OTHER_SUM, stream), 1, 0, joined},
        {COMMAND(OTHER_SUM, kind), PLAN_COLLECTIVE, PLAN_COPY, joined},
        {COMMAND(OTHER_SUM, index), OP_OTHER, OPS, joined},
        {COMMAND(OTHER_SUM, wait_count), 0, 1, joined},
        {OP(OP_OTHER, clique), EACH_DEVICE, ALL_DEVICES, joined},
    };
    CHECK_LIMITS(make, limits);
}

/* A run of a table that two records name: reading a plan takes no more than linear time. */
static void test_shared(void **state)
{
    (void)state;
    expect_made(make);
    const Limit limits[] = {
        {COMMAND(ALONE, wait_count), 0, 1, "waits that are shared"},
        {COMMAND(PERMUTE, arg_count), 2, 4, "arguments that are shared"},
        {OP(OP_ALONE, dtypes), PLAN_NONE, dtypes, "a collective that shares its types"},
        {OP(OP_ALONE, pair_count), 0, 4, "collective 5 of the plan shares its pairs"},
    };
    CHECK_LIMITS(make, limits);
    PlanBuilder b;
    make(&b);
    const PlanCommand choice = {
        .kind = PLAN_CONDITIONAL, .signal = PLAN_NONE, .index = branches, .count = 2};
    const PlanArg arg = reads(selector);
    plan_command(&b, &choice, &arg, 1);
    expect_refused(&b, "a conditional that shares its branches");
    plan_builder_deinit(&b);
    make(&b);
    const PlanClique clique = b.cliques[0];
    for (int i = 0; i < 3; i++) /* more than there are numbers of any kind */
        plan_add_cliques(&b, &clique, 1);
    expect_refused(&b, "of the plan shares its groups");
    plan_builder_deinit(&b);
}

/* Nothing of a collective need be there: it then only waits for the others. */
static void test_no_operand(void **state)
{
    PlanBuilder b;
    (void)state;
    make(&b);
    b.args[args[PERMUTE]].tag = b.args[args[PERMUTE] + 1].tag = PLAN_ARG_NONE;
    expect_read(&b);
    plan_builder_deinit(&b);
}

static void test_cliques(void **state)
{
    static const char all[] = "clique 0 of the plan is damaged",
                      each[] = "clique 1 of the plan is damaged";
    (void)state;
    expect_made(make);
#define CLIQUE(i, member) AT(cliques, PlanClique, i, member)
#define GROUP(i) NUMBER(numbers, int64_t, groups + (i))
    const Limit limits[] = {
        {CLIQUE(0, name), sizes.strings_count - 1, sizes.strings_count, all},
        {CLIQUE(0, mode), PLAN_GROUP_MODES - 1, PLAN_GROUP_MODES, all},
        {CLIQUE(0, groups), groups, sizes.numbers_count - 3, all},
        {CLIQUE(0, number_count), 4, UINT32_MAX, all},
        {CLIQUE(0, number_count), 4, 3, all},
        {CLIQUE(0, number_count), 4, 5, all},
        {CLIQUE(1, group_count), 2, 1, each},
        {CLIQUE(1, group_count), 2, 3, each},
        {GROUP(0), 0, (uint64_t)-1, all},
        {GROUP(1), 2, 3, all},
        {GROUP(1), 2, 1, all},
        {GROUP(2), 0, (uint64_t)-1, all},
        {GROUP(2), 0, 2, all},
        {GROUP(2), 0, 1, all},
        {GROUP(7), 1, 0, each},
        {GROUP(7), 1, 2, each},
    };
    CHECK_LIMITS(make, limits);
}

/* Bytes of each kind of command, of a loop in a branch in a loop; the larger branch counts. */
static void test_counts(void **state)
{
    Plan p;
    PlanBuilder b;
    (void)state;
    make(&b);
    b.args[args[CHOICE_COPY]].value = 4; /* of 16 bytes */
    b.loops[0].trip_count = 3;
    void *bytes = read_plan(&b, &p);
    PlanCounts c = plan_counts(&p);
    assert_int_equal(c.launches, 1);
    assert_int_equal(c.copies, 6);
    assert_int_equal(c.collectives, 6);
    assert_int_equal(c.host_calls, 1);
    assert_int_equal(c.control, 5);
    uint64_t rest =
        2 * ROW + 2 * 2 * ROW + 2 * ROW + 2 * ROW + 2 * (ROW + ROW / 2) + 2 * 2 * ROW;
    assert_int_equal(c.bytes_accessed, rest + (4 + ROW) + ROW + 3 * (1 + ROW));
    assert_int_equal(c.bytes_accessed_once, rest + (4 + ROW) + (1 + ROW));
    free(bytes);
    plan_builder_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),     cmocka_unit_test(test_copies),
        cmocka_unit_test(test_control),     cmocka_unit_test(test_host_calls),
        cmocka_unit_test(test_collectives), cmocka_unit_test(test_no_operand),
        cmocka_unit_test(test_cliques),     cmocka_unit_test(test_counts),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
