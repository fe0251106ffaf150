/* Orders that need little memory: what they count, against what lives in fact, and how they choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/parse.h"
#include "ir/text.h"
#include "passes/schedule/memory.h"

#define KB INT64_C(1024)

typedef struct Fixture {
    Arena *arena;
    Module *module;
    Graph graph;
    uint32_t *order;
} Fixture;

static void setup(Fixture *f, const char *text)
{
    f->arena = arena_create();
    f->module = hlo_parse(f->arena, diag_create(f->arena, "test", text, strlen(text)));
    assert_non_null(f->module);
}

/* The graph of a computation, with nothing inside the ones that it calls. */
static void make_graph(Fixture *f, Computation *comp, bool is_body)
{
    computation_sort(comp);
    f->graph = (Graph){.scratch = f->arena, .comp = comp, .is_body = is_body};
    f->graph.called =
        ARENA_ARRAY(f->arena, int64_t, (size_t)f->module->computation_count + 1);
    graph_make(&f->graph);
    f->order = ARENA_ARRAY(f->arena, uint32_t, (size_t)f->graph.count + 1);
}

static void assert_is_order(const Fixture *f)
{
    const Graph *g = &f->graph;
    uint32_t *place = ARENA_ARRAY(f->arena, uint32_t, (size_t)g->count + 1);
    for (uint32_t at = 0; at < g->count; at++)
        place[f->order[at]] = at + 1;
    for (uint32_t x = 0; x < g->count; x++) {
        assert_true(place[x] != 0);
        for (uint32_t k = 0; k < g->after[x].count; k++)
            assert_true(place[x] < place[g->after[x].list[k]]);
    }
}

/* Of all that is ready, by a look at each: what frees most less what it makes. */
static int64_t greedy_by_hand(const Fixture *f)
{
    const Graph *g = &f->graph;
    Arena *a = f->arena;
    uint32_t *waiting = arena_copy(a, g->waiting, (g->count + 1) * sizeof *waiting);
    uint32_t *readers = arena_copy(a, g->readers, (g->place_count + 1) * sizeof *readers);
    bool *is_done = ARENA_ARRAY(a, bool, (size_t)g->count + 1);
    uint32_t *order = ARENA_ARRAY(a, uint32_t, (size_t)g->count + 1);
    for (uint32_t at = 0; at < g->count; at++) {
        uint32_t best = UINT32_MAX;
        int64_t best_gain = 0;
        for (uint32_t x = 0; x < g->count; x++) {
            if (is_done[x] || waiting[x] != 0)
                continue;
            int64_t gain = graph_bytes_freed(g, x, readers) + graph_bytes_unread(g, x) -
                           graph_bytes_made(g, x);
            if (best == UINT32_MAX || gain > best_gain) {
                best = x;
                best_gain = gain;
            }
        }
        is_done[best] = true;
        order[at] = best;
        for (uint32_t k = 0; k < g->sources[best].count; k++)
            readers[g->sources[best].list[k]]--;
        for (uint32_t k = 0; k < g->after[best].count; k++)
            waiting[g->after[best].list[k]]--;
    }
    return order_bytes(g, order);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const char *random_program(Arena *a, uint32_t seed)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "HloModule r\nENTRY main {\n p = f32[] parameter(0)\n");
    for (uint32_t i = 0; i < 60; i++) {
        if (i < 4 || next_random(&seed) % 3 == 0)
            text_printf(&t, " b%u = f32[%u] broadcast(p), dimensions={}\n", i,
                        next_random(&seed) % 4096);
        else
            text_printf(
                &t, " b%u = f32[%u] custom-call(b%u, b%u), custom_call_target=\"f\"\n", i,
                next_random(&seed) % 4096, next_random(&seed) % i,
                next_random(&seed) % i);
    }
    text_printf(&t, " ROOT r = (f32[]) tuple(p)\n}\n");
    return t.data;
}

/* rows: codegen.10.2 */
static void random_programs_are_as_good_as_by_hand(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        Fixture f;
        Arena *a = arena_create();
        setup(&f, random_program(a, seed));
        make_graph(&f, f.module->entry, false);
        int64_t most = memory_order(&f.graph, f.order);
        assert_is_order(&f);
        assert_int_equal(most, order_bytes(&f.graph, f.order));
        uint32_t *given = ARENA_ARRAY(a, uint32_t, (size_t)f.graph.count + 1);
        for (uint32_t i = 0; i < f.graph.count; i++)
            given[i] = i;
        assert_true(most <= order_bytes(&f.graph, given));
        assert_true(most <= greedy_by_hand(&f));
        arena_destroy(f.arena);
        arena_destroy(a);
    }
}

/* All arrays are made before any is used, thousands of instructions away. */
static void long_programs_are_ordered(void **state)
{
    (void)state;
    enum { ARRAYS = 3000 };
    Fixture f;
    Arena *a = arena_create();
    Text t;
    text_init(&t, a);
    text_printf(&t, "HloModule long\nENTRY main {\n p = f32[] parameter(0)\n");
    for (int i = 0; i < ARRAYS; i++)
        text_printf(&t, " a%d = f32[1024] broadcast(p), dimensions={}\n", i);
    for (int i = 0; i < ARRAYS; i++)
        text_printf(&t, " v%d = f32[1] custom-call(a%d), custom_call_target=\"f\"\n", i,
                    i);
    text_printf(&t, " ROOT r = (f32[]) tuple(p)\n}\n");
    setup(&f, t.data);
    make_graph(&f, f.module->entry, false);
    assert_int_equal(memory_order(&f.graph, f.order), 4 * KB + 4);
    assert_is_order(&f);
    arena_destroy(f.arena);
    arena_destroy(a);
}

/* What a loop carries, and what is written in place, has one buffer from the beginning to the end. */
static void buffers_count_once(void **state)
{
    (void)state;
    Fixture f;
    setup(&f,
          "HloModule loop\n"
          "update { a = f32[1024] parameter(0) u = f32[1] parameter(1) i = s32[] "
          "parameter(2) ROOT r = f32[1024] dynamic-update-slice(a, u, i) }\n"
          "next { i = s32[] parameter(0) one = s32[] constant(1) ROOT n = s32[] add(i, "
          "one) }\n"
          "cond { p = (s32[], f32[1024], f32[1]) parameter(0) i = s32[] "
          "get-tuple-element(p), index=0 n = s32[] constant(9) ROOT l = pred[] "
          "compare(i, n), direction=LT }\n"
          "body { p = (s32[], f32[1024], f32[1]) parameter(0)\n"
          " i = s32[] get-tuple-element(p), index=0\n"
          " a = f32[1024] get-tuple-element(p), index=1\n"
          " u = f32[1] get-tuple-element(p), index=2\n"
          " b = f32[1024] fusion(a, u, i), kind=kLoop, calls=update, "
          "backend_config={\"emitter\":\"update_slice\"}\n"
          " n = s32[] fusion(i), kind=kLoop, calls=next, "
          "backend_config={\"emitter\":\"loop\"}\n"
          " ROOT r = tuple(n, b, u) }\n"
          "ENTRY main { z = s32[] parameter(0) x = f32[] parameter(1)\n"
          " a = f32[1024] broadcast(x), dimensions={}\n"
          " u = f32[1] broadcast(x), dimensions={}\n"
          " t = tuple(z, a, u)\n"
          " w = (s32[], f32[1024], f32[1]) while(t), condition=cond, body=body\n"
          " c = f32[1024] get-tuple-element(w), index=1\n"
          " ROOT s = f32[1024] custom-call(c), custom_call_target=\"f\" }\n");
    const Computation *entry = f.module->entry;
    const Instruction *loop = inst_first(entry);
    while (loop->op != OP_WHILE)
        loop = inst_next(loop);
    make_graph(&f, inst_called(loop, 1), true);
    assert_int_equal(memory_order(&f.graph, f.order), 0);
    make_graph(&f, f.module->entry, false);
    /* the array, the slice and the counter; the result has memory of the caller's */
    assert_int_equal(memory_order(&f.graph, f.order), 4 * KB + 4 + 4);
    arena_destroy(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_are_as_good_as_by_hand),
        cmocka_unit_test(long_programs_are_ordered),
        cmocka_unit_test(buffers_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
