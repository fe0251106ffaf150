/* Schedules of random programs: an order that may be, no more in flight than allowed, no more memory
 * than there is, and less waiting than without the model of time. Also the model's own numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/simulate.h"
#include "ir/base/text.h"
#include "ir/kernel/time/work.h"
#include "ir/verify/verify.h"
#include "passes/schedule/schedule.h"
#include "passes/settings.h"
#include "tests/unit/shared/module.h"
#include "tests/unit/shared/random.h"

#define ARRAY "f32[512,512]"
#define ARRAY_BYTES (512 * 512 * 4)
enum { PROGRAMS = 20, STEPS = 60 };

typedef struct Fixture {
    Arena *arena, *scratch;
    Target target;
    PassSettings settings;
    PassContext cx;
} Fixture;

static void setup(Fixture *f)
{
    f->arena = arena_create();
    f->scratch = arena_create();
    assert_true(target_find("h100", &f->target));
    settings_init(&f->settings);
    f->settings.level = 2;
    f->cx = (PassContext){.scratch = f->scratch,
                          .target = &f->target,
                          .settings = &f->settings,
                          .opt_level = 2};
}

static void teardown(Fixture *f)
{
    arena_destroy(f->scratch);
    arena_destroy(f->arena);
}

/* STEPS kernels and collectives, each of one of the last few values. */
static const char *random_program(Arena *a, uint32_t seed)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "HloModule random, replica_count=8\n"
                    "add { a = f32[] parameter(0) b = f32[] parameter(1) "
                    "ROOT r = f32[] add(a, b) }\n"
                    "ENTRY main {\n v0 = " ARRAY " parameter(0)\n");
    for (uint32_t i = 1; i <= STEPS; i++) {
        uint32_t back = next_random(&seed) % (i < 6 ? i : 6) + 1, from = i - back;
        switch (next_random(&seed) % 5) {
        case 0:
            text_printf(&t,
                        " q%u = " ARRAY " all-reduce-start(v%u), replica_groups={}, "
                        "to_apply=add\n v%u = " ARRAY " all-reduce-done(q%u)\n",
                        i, from, i, i);
            break;
        case 1:
            text_printf(&t,
                        " q%u = (" ARRAY ", " ARRAY ") collective-permute-start(v%u), "
                        "source_target_pairs={{0,1},{1,0}}\n"
                        " v%u = " ARRAY " collective-permute-done(q%u)\n",
                        i, from, i, i);
            break;
        case 2:
            text_printf(&t,
                        " v%u = " ARRAY " dot(v%u, v%u), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n",
                        i, from, i - 1);
            break;
        default:
            text_printf(&t, " v%u = " ARRAY " add(v%u, v%u)\n", i, from, i - 1);
            break;
        }
    }
    text_printf(&t, " ROOT t = (" ARRAY ", " ARRAY ") tuple(v%d, v%d)\n}\n", STEPS,
                STEPS - 1);
    return t.data;
}

static Module *parse(Fixture *f, const char *text)
{
    Module *m = parse_module(f->arena, text);
    assert_true(module_verify(m, LEVEL_WELL_FORMED, f->scratch));
    return m;
}

static Module *scheduled(Fixture *f, const char *text)
{
    Module *m = parse(f, text);
    assert_true(pass_schedule(m, &f->cx));
    arena_reset(f->scratch);
    assert_true(module_verify(m, LEVEL_WELL_FORMED, f->scratch)); /* the order, too */
    return m;
}

static uint32_t most_in_flight(const Module *m)
{
    uint32_t now = 0, most = 0;
    for (uint32_t i = 0; i < m->entry->instruction_count; i++) {
        OpCode op = m->entry->instructions[i]->op;
        now += op_is(op, OPF_ASYNC_START);
        now -= op_is(op, OPF_ASYNC_DONE);
        most = now > most ? now : most;
    }
    return most;
}

static uint32_t position_of_done(const Computation *comp, const Instruction *start)
{
    uint32_t i = start->id;
    while (comp->instructions[i]->operand_count == 0 ||
           comp->instructions[i]->operands[0] != start)
        i++;
    return i;
}

/* The last position where a value is read; by what was started it is until the done. */
static uint32_t last_read(const Computation *comp, const Instruction *value)
{
    uint32_t last = value->id;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (inst->operands[k] != value)
                continue;
            uint32_t at = inst->op == OP_TUPLE ? comp->instruction_count : i;
            if (op_is(inst->op, OPF_ASYNC_START))
                at = position_of_done(comp, inst);
            if (op_is(inst->op, OPF_ASYNC_DONE))
                at = last_read(comp, inst);
            last = at > last ? at : last;
        }
    }
    return last;
}

/* It has memory of the caller's. */
static bool is_result(const Computation *comp, const Instruction *value)
{
    bool is = false;
    for (uint32_t k = 0; k < comp->root->operand_count; k++) {
        const Instruction *result = comp->root->operands[k];
        is |= result == value ||
              (op_is(result->op, OPF_ASYNC_DONE) && result->operands[0] == value);
    }
    return is;
}

/* Arrays that live together at most, parameter and results aside. A done's value is its start's. */
static int64_t most_live(const Module *m)
{
    const Computation *comp = m->entry;
    int64_t most = 0;
    for (uint32_t now = 0; now < comp->instruction_count; now++) {
        int64_t n = 0;
        for (uint32_t i = 0; i <= now; i++) {
            const Instruction *inst = comp->instructions[i];
            if (inst->op == OP_PARAMETER || inst->op == OP_TUPLE ||
                op_is(inst->op, OPF_ASYNC_DONE) || is_result(comp, inst))
                continue;
            n += last_read(comp, inst) >= now;
        }
        most = n > most ? n : most;
    }
    return most * ARRAY_BYTES;
}

static Simulation played(Fixture *f, const Module *m)
{
    return simulate(m, cost_create(m, &f->target, f->scratch), f->scratch);
}

/* rows: collectives.E0 */
static void random_programs_keep_limits(void **state)
{
    (void)state;
    double hidden = 0, plain = 0;
    for (uint32_t seed = 1; seed <= PROGRAMS; seed++) {
        Fixture f;
        setup(&f);
        const char *text = random_program(f.arena, seed);
        f.settings.latency_hiding = 0;
        Module *without = scheduled(&f, text);
        f.settings.latency_hiding = 1;
        for (int64_t limit = 1; limit <= 3; limit++) {
            f.settings.parallel_collective_overlap_limit = limit;
            Module *m = scheduled(&f, text);
            assert_true(most_in_flight(m) <= limit);
            if (limit != 1)
                continue;
            hidden += played(&f, m).exposed;
            plain += played(&f, without).exposed;
        }
        teardown(&f);
    }
    assert_true(plain > 0);
    assert_true(hidden < plain);
}

/* rows: collectives.E0 */
static void memory_is_kept(void **state)
{
    (void)state;
    uint32_t pressed = 0;
    for (uint32_t seed = 1; seed <= PROGRAMS; seed++) {
        Fixture f;
        setup(&f);
        const char *text = random_program(f.arena, seed);
        Module *roomy = scheduled(&f, text);
        f.settings.scheduler_memory_limit_bytes = 1;
        Module *least = scheduled(&f, text);
        f.settings.scheduler_memory_reruns = 30;
        int64_t most = most_live(roomy), minimum = most_live(least);
        assert_true(minimum <= most);
        for (int64_t limit = minimum; limit < most; limit += ARRAY_BYTES) {
            f.settings.scheduler_memory_limit_bytes = limit;
            assert_true(most_live(scheduled(&f, text)) <= limit);
            pressed++;
        }
        teardown(&f);
    }
    assert_true(pressed > 0);
}

/* rows: collectives.E2 */
static void early_starts_wait_less(void **state)
{
    (void)state;
    double early = 0, late = 0;
    for (uint32_t seed = 1; seed <= PROGRAMS; seed++) {
        Fixture f;
        setup(&f);
        const char *text = random_program(f.arena, seed);
        f.settings.parallel_collective_overlap_limit = 4;
        late += played(&f, scheduled(&f, text)).exposed;
        f.settings.collective_start_early = 1;
        early += played(&f, scheduled(&f, text)).exposed;
        teardown(&f);
    }
    assert_true(early <= late * (1 + 1e-9));
}

static const Instruction *groups(Fixture *f, const char *attribute)
{
    const char *text = arena_printf(
        f->arena,
        "HloModule m, replica_count=8\n"
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
        "ENTRY main { p = f32[4] parameter(0) ROOT r = f32[4] %s }\n",
        attribute);
    return parse(f, text)->entry->root;
}

static int64_t shared(Fixture *f, const char *a, const char *b)
{
    static const char form[] = "all-reduce(p), to_apply=add, replica_groups=%s";
    static const char pairs[] = "collective-permute(p), source_target_pairs=%s";
    const Instruction *x = groups(
        f, arena_printf(f->arena, *a == 'p' ? pairs : form, *a == 'p' ? a + 1 : a));
    const Instruction *y = groups(
        f, arena_printf(f->arena, *b == 'p' ? pairs : form, *b == 'p' ? b + 1 : b));
    return collective_shared_devices(f->scratch, x, y);
}

/* rows: collectives.E3 */
static void devices_in_common(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
#define GRID "{{0,1,2,3},{4,5,6,7}}"
    assert_int_equal(shared(&f, GRID, "{{0,4},{1,5},{2,6},{3,7}}"), 1);
    assert_int_equal(shared(&f, "{{0,1},{2,3},{4,5},{6,7}}", GRID), 2);
    assert_int_equal(shared(&f, GRID, GRID), 4);
    assert_int_equal(shared(&f, "{}", GRID), 8); /* nobody knows */
    assert_int_equal(shared(&f, GRID, "{}"), 8);
    assert_int_equal(shared(&f, "p{{0,1},{1,2}}", "p{{2,3},{3,4}}"), 1);
    assert_int_equal(shared(&f, "p{{0,1},{1,2}}", "p{{1,0},{2,3}}"), 2);
    assert_int_equal(shared(&f, "p{{0,1},{1,2}}", "p{{5,6}}"),
                     1); /* alone, device by device */
    assert_int_equal(shared(&f, "p{{0,4}}", GRID), 1);
    assert_int_equal(shared(&f, "p{{0,3}}", GRID), 2);
#undef GRID
    teardown(&f);
}

static double microseconds(Fixture *f, const char *attribute)
{
    const Instruction *inst = groups(f, attribute);
    CostModel *c = cost_create(inst->parent->module, &f->target, f->scratch);
    return 1e6 * (cost_transfer(c, inst) + cost_compute(c, inst));
}

/* 4 us to start, 1 us a message over links and 5 us over the network. */
static void costs_of_collectives(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    double ring = microseconds(&f, "all-reduce(p), to_apply=add, replica_groups={}");
    double two = microseconds(
        &f, "all-reduce(p), to_apply=add, replica_groups={{0,1},{2,3},{4,5},{6,7}}");
    double one = microseconds(
        &f,
        "all-reduce(p), to_apply=add, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}");
    double step = microseconds(&f, "collective-permute(p), source_target_pairs={{0,1}}");
    assert_true(ring > 18 && ring < 18.01);
    assert_true(two > 6 && two < 6.01);
    assert_true(one > 3.99 && one < 4.01);
    assert_true(step > 5 && step < 5.01);
    assert_true(microseconds(&f, "negate(p)") < 2.01);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_keep_limits),
        cmocka_unit_test(memory_is_kept),
        cmocka_unit_test(early_starts_wait_less),
        cmocka_unit_test(devices_in_common),
        cmocka_unit_test(costs_of_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
