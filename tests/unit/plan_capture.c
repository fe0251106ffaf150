/* Which plans can be one CUDA graph, of how many nodes, and why others cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

/* Slices of the plan being made. */
static uint32_t in, out, flag, selector, on_host, moving;

static void begin(Maker *m)
{
    maker_init(m);
    in = maker_value(m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    out = maker_value(m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t temp = maker_allocation(m, PLAN_TEMP, 0, 64);
    flag = maker_slice(m, temp, 0, 1);
    selector = maker_slice(m, temp, 4, 4);
    uint32_t host = maker_allocation(m, PLAN_TEMP, 0, 64);
    m->b.allocations[host].colour = PLAN_HOST_MEMORY;
    on_host = maker_slice(m, host, 0, 16);
    moving = maker_slice(m, temp, 16, 16);
}

static uint32_t open_loop(Maker *m, int64_t trips, uint32_t condition, uint32_t body)
{
    const PlanLoop loop = {.trip_count = trips,
                           .counter = 0,
                           .condition_commands = condition,
                           .body_commands = body};
    const PlanArg predicate = reads(flag);
    return maker_command(m, PLAN_WHILE, plan_add_loops(&m->b, &loop, 1), &predicate, 1);
}

static uint32_t open_choice(Maker *m, uint32_t first, uint32_t second)
{
    const PlanArg arg = reads(selector);
    uint32_t branches = plan_add_refs(&m->b, (uint32_t[]){first, second}, 2);
    uint32_t c = maker_command(m, PLAN_CONDITIONAL, branches, &arg, 1);
    m->b.commands[c].count = 2;
    return c;
}

static void add(Maker *m)
{
    maker_add(m, in, out, 4, immediate(1));
}

static void add_copy(Maker *m, uint32_t from)
{
    const PlanArg both[] = {writes(out), reads(from)};
    maker_command(m, PLAN_COPY, 0, both, 2);
}

/* Each loop has a counter. The plan is done with. */
static PlanCapture capture(Maker *m)
{
    Plan p;
    m->b.info[0].counter_count = m->b.loops_count;
    void *bytes = read_plan(&m->b, &p);
    PlanCapture c = plan_capture(&p);
    free(bytes);
    plan_builder_deinit(&m->b);
    return c;
}

static void expect(Maker *m, uint64_t nodes, uint64_t conditionals)
{
    PlanCapture c = capture(m);
    if (c.refused)
        fail_msg("refused: %s", c.refused);
    assert_int_equal(c.nodes, nodes);
    assert_int_equal(c.conditionals, conditionals);
}

static void expect_not(Maker *m, const char *says)
{
    PlanCapture c = capture(m);
    if (c.refused == NULL || strstr(c.refused, says) == NULL)
        fail_msg("'%s' lacks '%s'", c.refused ? c.refused : "", says);
}

static void test_nodes(void **state)
{
    Maker m;
    (void)state;
    begin(&m);
    expect(&m, 0, 0);
    begin(&m);
    add(&m);
    add_copy(&m, on_host);
    expect(&m, 2, 0);
    for (int64_t trips = 0; trips < 4;
         trips++) { /* two nodes, the second three times as often */
        begin(&m);
        uint32_t outer = open_loop(&m, trips, 0, 3);
        add(&m);
        uint32_t inner = open_loop(&m, 3, 0, 1);
        add(&m);
        plan_close(&m.b, inner);
        plan_close(&m.b, outer);
        add(&m);
        expect(&m, (uint64_t)trips * 4 + 1, 0);
    }
}

static void test_conditionals(void **state)
{
    Maker m;
    (void)state;
    begin(&m); /* a branch of a loop that the device ends, in a loop of two trips */
    uint32_t outer = open_loop(&m, 2, 0, 6);
    uint32_t loop = open_loop(&m, -1, 1, 4);
    m.b.loops[1].counter = PLAN_NONE;
    add(&m);
    uint32_t choice = open_choice(&m, 1, 1);
    add(&m);
    add(&m);
    plan_close(&m.b, choice);
    add(&m);
    plan_close(&m.b, loop);
    plan_close(&m.b, outer);
    expect(&m, 2 * 6, 2);
}

static void test_most_nodes(void **state)
{
    enum { MOST = PLAN_CAPTURE_MOST_NODES };
    static const struct {
        int64_t outer, inner;
        bool fits;
    } cases[] = {{MOST, 1, true},
                 {MOST + 1, 1, false},
                 {1, MOST, true},
                 {1, MOST + 1, false},
                 {2, MOST / 2, true},
                 {2, MOST / 2 + 1, false},
                 {INT64_MAX, INT64_MAX, false},
                 {0, INT64_MAX, true},
                 {INT64_C(1) << 32, INT64_C(1) << 32, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Maker m;
        begin(&m);
        uint32_t outer = open_loop(&m, cases[i].outer, 0, 2);
        uint32_t inner = open_loop(&m, cases[i].inner, 0, 1);
        add(&m);
        plan_close(&m.b, inner);
        plan_close(&m.b, outer);
        if (cases[i].fits)
            expect(&m,
                   (uint64_t)(cases[i].outer * cases[i].inner * (cases[i].outer != 0)),
                   0);
        else
            expect_not(&m, "too many nodes");
    }
}

static void test_refusals(void **state)
{
    static const char iteration[] = "addresses depend on the iteration of a loop";
    Maker m;
    (void)state;
    begin(&m);
    const PlanArg buffer = reads(in);
    maker_command(&m, PLAN_HOST_CALL, plan_string(&m.b, "f"), &buffer, 1);
    expect_not(&m, "it calls functions of the host");
    begin(&m);
    const PlanClique none = {.name = 0};
    const PlanCollective op = {.clique = plan_add_cliques(&m.b, &none, 1),
                               .reduction = PLAN_REDUCE_SUM,
                               .dtypes = PLAN_NONE};
    const PlanArg both[] = {reads(in), writes(out)};
    maker_command(&m, PLAN_COLLECTIVE, plan_add_collectives(&m.b, &op, 1), both, 2);
    expect_not(&m, "it has collectives");
    for (int used = 0; used < 2;
         used++) { /* a counter that an address asks for, or none does */
        for (int64_t trips = -1; trips <= 1; trips++) {
            begin(&m);
            uint32_t loop = open_loop(&m, trips, trips < 0, 1);
            if (trips < 0)
                add(&m);
            add_copy(&m, moving);
            plan_close(&m.b, loop);
            plan_add_loops(&m.b, NULL, 1); /* so there is a second counter */
            const PlanTerm term = {.counter = used ? 0 : 1};
            m.b.slices[moving].terms = plan_add_terms(&m.b, &term, 1);
            m.b.slices[moving].term_count = 1;
            if (used && trips < 0)
                expect_not(&m, iteration);
            else
                expect(&m, trips < 0 ? 3 : (uint64_t)trips, trips < 0);
        }
    }
}

/* What the device chooses cannot touch memory of the host, anywhere in it; a loop of known trips can. */
static void test_host(void **state)
{
    Maker m;
    (void)state;
    for (int host = 0; host < 2; host++) {
        begin(&m);
        uint32_t choice = open_choice(&m, 2, 0);
        uint32_t loop = open_loop(&m, 2, 0, 1);
        add_copy(&m, host ? on_host : in);
        plan_close(&m.b, loop);
        plan_close(&m.b, choice);
        if (host)
            expect_not(&m, "touches memory of the host");
        else
            expect(&m, 3, 1);
    }
    begin(&m); /* behind it */
    uint32_t choice = open_choice(&m, 1, 0);
    add(&m);
    plan_close(&m.b, choice);
    add_copy(&m, on_host);
    expect(&m, 3, 1);
    begin(&m);
    uint32_t loop = open_loop(&m, 2, 0, 1);
    add_copy(&m, on_host);
    plan_close(&m.b, loop);
    expect(&m, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),      cmocka_unit_test(test_conditionals),
        cmocka_unit_test(test_most_nodes), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
