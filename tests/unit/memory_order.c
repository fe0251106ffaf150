/* Orders that need little memory: what they count, against what lives in fact, and how they choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/text.h"
#include "passes/schedule/fence.h"
#include "passes/schedule/heap.h"
#include "passes/schedule/memory.h"
#include "tests/unit/shared/module.h"
#include "tests/unit/shared/random.h"

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
    f->module = parse_module(f->arena, text);
}

/* The graph of a computation, with so many bytes inside each one that it calls. */
static void make_graph(Fixture *f, Computation *comp, bool is_body, int64_t inside)
{
    computation_sort(comp);
    f->graph = (Graph){
        .scratch = f->arena, .comp = comp, .is_body = is_body, .most_steps = GRAPH_STEPS};
    f->graph.called =
        ARENA_ARRAY(f->arena, int64_t, (size_t)f->module->computation_count + 1);
    for (uint32_t i = 0; i < f->module->computation_count; i++)
        f->graph.called[i] = inside;
    f->graph.slices = loop_slices_create(f->module, f->arena);
    graph_make(&f->graph);
    f->order = ARENA_ARRAY(f->arena, uint32_t, (size_t)f->graph.count + 1);
}

static void assert_is_order(const Fixture *f)
{
    const Graph *g = &f->graph;
    uint32_t *position = ARENA_ARRAY(f->arena, uint32_t, (size_t)g->count + 1);
    for (uint32_t at = 0; at < g->count; at++)
        position[f->order[at]] = at + 1;
    for (uint32_t x = 0; x < g->count; x++) {
        assert_true(position[x] != 0);
        for (uint32_t k = 0; k < g->after[x].count; k++)
            assert_true(position[x] < position[g->after[x].list[k]]);
    }
}

/* Of all that is ready, by a look at each: what frees most less what it makes. */
static void greedy_by_hand(const Fixture *f, uint32_t *order)
{
    const Graph *g = &f->graph;
    Arena *a = f->arena;
    uint32_t *waiting = arena_copy(a, g->waiting, g->count * sizeof *waiting);
    uint32_t *readers = arena_copy(a, g->readers, g->leaf_count * sizeof *readers);
    bool *is_done = ARENA_ARRAY(a, bool, (size_t)g->count + 1);
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
}

/* From the last one on, of all whose users are scheduled: what begins to live by its reads, less what it made. */
static void backwards_by_hand(const Fixture *f, uint32_t *order)
{
    const Graph *g = &f->graph;
    bool *is_live = ARENA_ARRAY(f->arena, bool, (size_t)g->leaf_count + 1);
    bool *is_done = ARENA_ARRAY(f->arena, bool, (size_t)g->count + 1);
    for (uint32_t at = g->count; at-- > 0;) {
        uint32_t best = UINT32_MAX;
        int64_t least = INT64_MAX;
        for (uint32_t x = g->count; x-- > 0;) {
            bool is_ready = !is_done[x];
            for (uint32_t k = 0; k < g->after[x].count; k++)
                is_ready = is_ready && is_done[g->after[x].list[k]];
            int64_t bytes = graph_bytes_unread(g, x) - graph_bytes_made(g, x);
            for (uint32_t k = 0; k < g->sources[x].count; k++) {
                uint32_t buffer = g->sources[x].list[k];
                bytes += is_live[buffer] ? 0 : g->bytes[buffer];
            }
            if (is_ready && bytes < least) {
                best = x;
                least = bytes;
            }
        }
        is_done[best] = true;
        order[at] = best;
        for (uint32_t k = 0; k < g->sources[best].count; k++)
            is_live[g->sources[best].list[k]] = true;
    }
}

static const char *random_program(Arena *a, uint32_t seed)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "HloModule r\nENTRY main {\n p = f32[] parameter(0)\n");
    for (uint32_t i = 0; i < 60; i++) {
        if (i < 4 || next_random(&seed) % 3 == 0)
            text_printf(&t, " b%u = f32[%u] custom-call(%s), custom_call_target=\"f\"\n",
                        i, next_random(&seed) % 4096, next_random(&seed) % 2 ? "p" : "");
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
    uint32_t taken[3] = {0};
    for (uint32_t seed = 1; seed <= 60; seed++) {
        Fixture f;
        Arena *a = arena_create();
        setup(&f, random_program(a, seed));
        make_graph(&f, f.module->entry, false, 0);
        const Graph *g = &f.graph;
        int64_t most = memory_order(g, f.order);
        assert_is_order(&f);
        uint32_t *by_hand[3], best = 0;
        for (uint32_t k = 0; k < 3; k++)
            by_hand[k] = ARENA_ARRAY(a, uint32_t, (size_t)g->count + 1);
        for (uint32_t i = 0; i < g->count; i++)
            by_hand[0][i] = i;
        greedy_by_hand(&f, by_hand[1]);
        backwards_by_hand(&f, by_hand[2]);
        for (uint32_t k = 1; k < 3; k++)
            best = order_bytes(g, by_hand[k]) < order_bytes(g, by_hand[best]) ? k : best;
        assert_int_equal(most, order_bytes(g, by_hand[best]));
        assert_memory_equal(f.order, by_hand[best], g->count * sizeof *f.order);
        taken[best]++;
        arena_destroy(f.arena);
        arena_destroy(a);
    }
    assert_true(taken[1] > 5 && taken[2] > 5);
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
    make_graph(&f, f.module->entry, false, 0);
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
    make_graph(&f, inst_called(loop, 1), true, 0);
    assert_int_equal(memory_order(&f.graph, f.order), 0);
    make_graph(&f, f.module->entry, false, 0);
    /* the array, the slice and the counter; the result has memory of the caller's */
    assert_int_equal(memory_order(&f.graph, f.order), 4 * KB + 4 + 4);
    arena_destroy(f.arena);
}

/* -- graphs as text ---------------------------------------------------------------------------- */

/* The value that a leaf is of, ".leaf" from the second on. */
static void put_leaf(Text *t, const Graph *g, uint32_t id)
{
    uint32_t i = g->count - 1;
    while (g->first_leaf[i] > id)
        i--;
    text_printf(t, " %s", g->comp->instructions[i]->name);
    if (id != g->first_leaf[i])
        text_printf(t, ".%u", id - g->first_leaf[i]);
}

static void put_instruction(Text *t, const Graph *g, uint32_t i)
{
    const Instruction *inst = g->comp->instructions[i];
    text_printf(t, "%s", inst->name);
    for (uint32_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
        uint32_t id = g->first_leaf[i] + leaf;
        text_printf(t, "%s %lld", leaf ? "," : ":", (long long)g->bytes[id]);
        if (g->buffer[id] != id) {
            text_printf(t, " in");
            put_leaf(t, g, g->buffer[id]);
        } else if (g->readers[id] != 0) {
            text_printf(t, "*%u", g->readers[id]);
        }
    }
    for (uint32_t k = 0; k < g->sources[i].count; k++) {
        text_printf(t, "%s", k ? "" : "; reads");
        put_leaf(t, g, g->sources[i].list[k]);
    }
    for (uint32_t k = 0; k < g->after[i].count; k++)
        text_printf(t, "%s %s", k ? "" : "; before",
                    g->comp->instructions[g->after[i].list[k]]->name);
    text_printf(t, "\n");
}

/* Every number of a graph, the order that needs little memory and what it needs, and the parts into which a fence of
 * that many bytes cuts the instructions as they stand. */
static const char *graph_listing(const Fixture *f, int64_t fence)
{
    const Graph *g = &f->graph;
    Text t;
    text_init(&t, f->arena);
    for (uint32_t i = 0; i < g->count; i++)
        put_instruction(&t, g, i);
    int64_t most = memory_order(g, f->order);
    text_printf(&t, "%lld bytes", (long long)most);
    assert_is_order(f);
    assert_int_equal(order_bytes(g, f->order), most);
    for (uint32_t at = 0; at < g->count; at++)
        text_printf(&t, " %s", g->comp->instructions[f->order[at]]->name);
    uint32_t *base = ARENA_ARRAY(f->arena, uint32_t, g->count);
    uint32_t *part = ARENA_ARRAY(f->arena, uint32_t, g->count);
    for (uint32_t i = 0; i < g->count; i++)
        base[i] = i;
    text_printf(&t, "\n%u parts", fence_parts(g, base, fence, part));
    for (uint32_t i = 0; i < g->count; i++)
        text_printf(&t, " %u", part[i]);
    return t.data;
}

static Computation *called(const Module *m, const char *name)
{
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (strcmp(comp->name, name) == 0)
            return comp;
    }
    return m->entry;
}

static void small_graphs(void **state)
{
    static const struct {
        const char *what, *text, *comp; /* of this one */
        bool is_body;
        int64_t fence;
        const char *expected;
    } rows[] = {
#define GRAPH(what, text, ...) {what, text, __VA_ARGS__},
#include "shared/schedule_graphs.def"
#undef GRAPH
    };
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fixture f;
        setup(&f, rows[i].text);
        make_graph(&f, called(f.module, rows[i].comp), rows[i].is_body, 1000);
        const char *found = graph_listing(&f, rows[i].fence);
        if (strcmp(found, rows[i].expected) != 0) {
            print_error("%s:\n%s\n-- expected:\n%s\n", rows[i].what, found,
                        rows[i].expected);
            wrong++;
        }
        arena_destroy(f.arena);
    }
    assert_int_equal(wrong, 0);
}

/* -- updates in place --------------------------------------------------------------------------- */

enum { UPDATE_PROGRAMS = 200, UPDATE_STEPS = 24 };

/* Each step reads two values; every other one is written where the first of them lies. */
static const char *program_of_updates(Arena *a, uint32_t seed)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "ENTRY e {\n v0 = u8[256] custom-call(), custom_call_target=\"f\"\n");
    for (uint32_t i = 1; i <= UPDATE_STEPS; i++) {
        uint32_t random = next_random(&seed), back = i < 5 ? i : 5,
                 x = i - 1 - random % back, y = i - 1 - (random >> 8) % back;
        text_printf(
            &t, " %sv%u = u8[256] custom-call(v%u, v%u), custom_call_target=\"f\"%s\n",
            i == UPDATE_STEPS ? "ROOT " : "", i, x, y,
            (random >> 20) % 2 ? ", output_to_operand_aliasing={{}: (0, {})}" : "");
    }
    text_printf(&t, "}\n");
    return t.data;
}

/* Whether edges lead from x to y. */
static bool leads_to(const Graph *g, uint32_t x, uint32_t y, bool *seen)
{
    if (x == y)
        return true;
    if (seen[x])
        return false;
    seen[x] = true;
    for (uint32_t k = 0; k < g->after[x].count; k++) {
        if (leads_to(g, g->after[x].list[k], y, seen))
            return true;
    }
    return false;
}

/* A value is updated where it lies exactly if all others can read it before. */
static void updates_wait_for_readers(void **state)
{
    (void)state;
    uint32_t in_place = 0, copied = 0;
    for (uint32_t seed = 0; seed < UPDATE_PROGRAMS; seed++) {
        Fixture f;
        Arena *a = arena_create();
        setup(&f, program_of_updates(a, seed));
        make_graph(&f, f.module->entry, false, 0);
        const Graph *g = &f.graph;
        for (uint32_t x = 0; x < g->count; x++) {
            for (uint32_t k = 0; k < g->after[x].count; k++)
                assert_true(g->rank[x] < g->rank[g->after[x].list[k]]);
        }
        for (uint32_t x = 0; x < g->count; x++) {
            const Instruction *inst = g->comp->instructions[x];
            if (inst_attr(inst, ATTR_OUTPUT_TO_OPERAND_ALIASING) == NULL)
                continue;
            bool is_late = false;
            for (uint32_t y = 0; y < g->count; y++) {
                const Instruction *reader = g->comp->instructions[y];
                for (uint32_t k = 0; y != x && k < reader->operand_count; k++) {
                    bool *seen = ARENA_ARRAY(a, bool, g->count);
                    is_late |= reader->operands[k] == inst->operands[0] &&
                               !leads_to(g, y, x, seen);
                }
            }
            assert_int_equal(g->buffer[x] == x, is_late);
            in_place += !is_late;
            copied += is_late;
        }
        memory_order(g, f.order);
        assert_is_order(&f);
        arena_destroy(f.arena);
        arena_destroy(a);
    }
    assert_true(in_place > 100 && copied > 100);
}

/* That c, which stands behind it, may come before v is found in four steps: v with one reader, c with one operand,
 * neither of them between the two. With fewer v is no update in place; each computation has its own. */
static void searches_end(void **state)
{
    (void)state;
    for (uint32_t most = 0; most < 6; most++) {
        Fixture f;
        setup(&f,
              "ENTRY e { q = f32[8] parameter(0) a = f32[64] custom-call(q), "
              "custom_call_target=\"f\" v = f32[64] custom-call(a, q), "
              "custom_call_target=\"f\", output_to_operand_aliasing={{}: (0, {})} c = "
              "f32[8] custom-call(a), custom_call_target=\"f\" ROOT t = (f32[8], "
              "f32[64]) tuple(c, v) }");
        make_graph(&f, f.module->entry, false, 0);
        Graph *g = &f.graph;
        g->most_steps = most;
        for (int i = 0; i < 3; i++) {
            graph_make(g);
            assert_int_equal(g->buffer[2], most < 4 ? 2 : 1);
        }
        arena_destroy(f.arena);
    }
}

/* -- heaps -------------------------------------------------------------------------------------- */

enum { HEAP_ENTRIES = 40, HEAP_STEPS = 4000 };

static bool comes_first(const Heap *h, uint32_t x, uint32_t y)
{
    if (h->key[x] < h->key[y] || h->key[x] > h->key[y])
        return h->key[x] < h->key[y];
    return h->position ? h->position[x] < h->position[y] : x < y;
}

/* Numbers come and go, keys fall, all at random; the lowest is always the one that a look at each finds. */
static void heaps_give_the_lowest(void **state)
{
    (void)state;
    for (uint32_t form = 0; form < 4; form++) {
        Arena *a = arena_create();
        double key[HEAP_ENTRIES];
        uint32_t position[HEAP_ENTRIES], seed = form, inside = 0;
        bool has[HEAP_ENTRIES] = {false};
        for (uint32_t x = 0; x < HEAP_ENTRIES; x++)
            position[x] = (x * 17 + 5) % HEAP_ENTRIES;
        Heap h = heap_make(a, key, form & 1 ? position : NULL);
        if (form & 2)
            heap_track(&h, HEAP_ENTRIES);
        for (uint32_t step = 0; step < HEAP_STEPS; step++) {
            uint32_t random = next_random(&seed), x = random % HEAP_ENTRIES,
                     what = (random >> 16) % 8;
            if (!has[x] && what < 5) {
                key[x] = (random >> 8) % 7;
                heap_put(&h, x);
                has[x] = true;
                inside++;
            } else if (has[x] && (form & 2) && what < 4) {
                key[x] -= what;
                heap_raise(&h, x);
            } else if (inside != 0) {
                uint32_t at = what == 7 ? (random >> 4) % inside : 0, taken = h.list[at];
                assert_int_equal(heap_take(&h, at), taken);
                for (uint32_t y = 0; at == 0 && y < HEAP_ENTRIES; y++)
                    assert_true(!has[y] || y == taken || comes_first(&h, taken, y));
                assert_true(has[taken]);
                has[taken] = false;
                inside--;
            }
            assert_int_equal(h.count, inside);
            for (uint32_t y = 0; (form & 2) && y < HEAP_ENTRIES; y++) {
                assert_int_equal(heap_has(&h, y), has[y]);
                assert_true(!has[y] || h.list[h.where[y] - 1] == y);
            }
        }
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_are_as_good_as_by_hand),
        cmocka_unit_test(long_programs_are_ordered),
        cmocka_unit_test(buffers_count_once),
        cmocka_unit_test(small_graphs),
        cmocka_unit_test(updates_wait_for_readers),
        cmocka_unit_test(searches_end),
        cmocka_unit_test(heaps_give_the_lowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
