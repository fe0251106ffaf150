/* Offsets of values in memory: of small programs every number, as text; of random ones what must hold of any: each
 * value lives from its definition to its last use, and no two that live at once share bytes. Also the check that
 * says so itself, of offsets that are wrong by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/plan/buffers.h"
#include "ir/analysis/memory_colour.h"
#include "ir/base/bug.h"
#include "ir/base/text.h"
#include "runtime/plan/plan.h"
#include "tests/unit/shared/module.h"
#include "tests/unit/shared/random.h"

/* Kernels of 65536 bytes and of one element less, each of which may write where it reads. */
#define NEGATE(name, n)                                                                  \
    name " { x = f32[" n "] parameter(0) ROOT r = f32[" n "] negate(x) }\n"
#define ADD(name, n)                                                                     \
    name " { x = f32[" n "] parameter(0) y = f32[" n "] parameter(1) ROOT r = f32[" n    \
         "] add(x, y) }\n"
#define LOOP ", kind=kLoop, backend_config={\"emitter\":\"loop\"}, calls="
#define SUM                                                                              \
    "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }\n"

typedef struct Fixture {
    Arena *arena;
    Module *module;
    Buffers *buffers;
} Fixture;

static void make(Fixture *f, const char *text)
{
    f->arena = arena_create();
    f->module = parse_module(f->arena, text);
    const AliasSets *sets = alias_sets_create(f->module, f->arena);
    const uint32_t *colours = memory_colours(f->module, sets, false, f->arena);
    assert_non_null(colours);
    f->buffers = buffers_assign(f->module, sets, loop_slices_create(f->module, f->arena),
                                colours, f->arena);
}

static const char *listing(const Fixture *f)
{
    static const char *const kinds[] = {"none", "argument", "result", "constant", "temp"};
    const Buffers *b = f->buffers;
    Text t;
    text_init(&t, f->arena);
    for (uint32_t i = 0; i < b->set_count; i++) {
        const Buffer *s = &b->sets[i];
        text_printf(&t, "%s: %s", s->owner ? s->owner->name : "-", kinds[s->kind]);
        if (s->kind != BUFFER_TEMP)
            text_printf(&t, " %u", s->index);
        text_printf(&t, ", %llu", (unsigned long long)s->bytes);
        if (s->live)
            text_printf(&t, ", time %u-%u", s->begin, s->end);
        if (s->last != s->end)
            text_printf(&t, " to %u", s->last);
        if (s->kind == BUFFER_TEMP)
            text_printf(&t, ", at %u:%llu", s->colour, (unsigned long long)s->offset);
        if (s->holder != i)
            text_printf(&t, " of %s", b->sets[s->holder].owner->name);
        text_printf(&t, "\n");
    }
    for (uint32_t i = 0; i < b->argument_count; i++)
        text_printf(&t, "%s%u", i ? " " : "arguments ", b->argument_sets[i]);
    for (uint32_t i = 0; i < b->result_count; i++)
        text_printf(&t, "%s%u", i ? " " : "; results ", b->result_sets[i]);
    text_printf(&t, "\nsteps");
    for (uint32_t at = 1; at < b->end; at++)
        text_printf(&t, " %s", b->steps[at - 1]->name);
    text_printf(&t, "\nbytes");
    for (uint32_t c = 0; c < BUFFER_COLOURS; c++)
        text_printf(&t, " %llu", (unsigned long long)b->temp_bytes[c]);
    return t.data;
}

static void small_programs(void **state)
{
    static const struct {
        const char *what, *text, *expected;
    } rows[] = {
#define PROGRAM(what, text, expected) {what, text, expected},
#include "shared/buffer_programs.def"
#undef PROGRAM
    };
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fixture f;
        make(&f, rows[i].text);
        const char *found = listing(&f);
        if (strcmp(found, rows[i].expected) != 0) {
            print_error("%s:\n%s\n-- expected:\n%s\n", rows[i].what, found,
                        rows[i].expected);
            wrong++;
        }
        buffers_check(f.buffers, f.arena);
        arena_destroy(f.arena);
    }
    assert_int_equal(wrong, 0);
}

/* -- values that stand for themselves ------------------------------------------------------- */

enum { VALUES_MOST = 24, RANDOM_PROGRAMS = 300 };

/* Value i is defined at time i + 1 and last read at last[i], which is later but for values that nobody reads. */
typedef struct Flat {
    uint32_t count;
    uint32_t bytes[VALUES_MOST], last[VALUES_MOST], colour[VALUES_MOST];
} Flat;

/* Calls of nobody knows what: each makes a value and reads any others. The result, at count + 1, is no
 * temporary value. */
static const char *flat_text(Arena *a, const Flat *v)
{
    static const char *const spaces[] = {"", ":S(1)", ":S(5)"};
    Text t;
    text_init(&t, a);
    text_printf(&t, "ENTRY e {\n");
    for (uint32_t i = 0; i <= v->count; i++) {
        const char *comma = "";
        bool is_result = i == v->count;
        text_printf(&t, " %sv%u = u8[%u]{0%s} custom-call(", is_result ? "ROOT " : "", i,
                    is_result ? 1 : v->bytes[i], spaces[is_result ? 0 : v->colour[i]]);
        for (uint32_t k = 0; k < i; k++) {
            if (v->last[k] == i + 1) {
                text_printf(&t, "%sv%u", comma, k);
                comma = ", ";
            }
        }
        text_printf(&t, "), custom_call_target=\"f\"\n");
    }
    text_printf(&t, "}\n");
    return t.data;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* The set of value i: a flat program's sets are in the order of its values. */
static const Buffer *value(const Fixture *f, uint32_t i)
{
    const Buffer *s = &f->buffers->sets[i];
    char name[16];
    snprintf(name, sizeof name, "v%u", i);
    assert_string_equal(s->owner->name, name);
    return s;
}

/* Each order is the best of the four for some program, and values of less than a hundred-and-twenty-eighth of the
 * largest do not choose. */
static void orders_of_packing(void **state)
{
    static const struct {
        const char *what;
        Flat flat;
        uint32_t at[VALUES_MOST];
        uint32_t bytes;
    } rows[] = {
#define PACKING(what, ...) {what, __VA_ARGS__},
#include "shared/buffer_packings.def"
#undef PACKING
    };
    (void)state;
    uint32_t wrong = 0;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        Fixture f;
        Arena *a = arena_create();
        make(&f, flat_text(a, &rows[r].flat));
        bool good = f.buffers->temp_bytes[0] == rows[r].bytes;
        for (uint32_t i = 0; i < rows[r].flat.count; i++)
            good = good && value(&f, i)->offset == rows[r].at[i];
        if (!good) {
            print_error("%s: expected %u bytes\n%s\n", rows[r].what, rows[r].bytes,
                        listing(&f));
            wrong++;
        }
        arena_destroy(f.arena);
        arena_destroy(a);
    }
    assert_int_equal(wrong, 0);
}

static Flat random_flat(uint32_t seed)
{
    Flat v = {.count = next_random(&seed) % VALUES_MOST + 1};
    bool coloured = next_random(&seed) % 4 == 0;
    for (uint32_t i = 0; i < v.count; i++) {
        uint32_t most = next_random(&seed) % 3 == 0 ? 5000 : 600;
        v.bytes[i] = next_random(&seed) % most;
        v.last[i] = i + 1 + next_random(&seed) % (v.count + 1 - i);
        v.colour[i] = coloured ? next_random(&seed) % 3 : 0;
    }
    return v;
}

/* Bytes of one colour: what lives at once at the most, and all. */
static void bounds(const Flat *v, uint32_t colour, uint64_t *least, uint64_t *most)
{
    *least = *most = 0;
    for (uint32_t time = 1; time <= v->count + 1; time++) {
        uint64_t now = 0;
        for (uint32_t i = 0; i < v->count; i++) {
            if (v->colour[i] == colour && i + 1 <= time && time <= v->last[i])
                now += aligned(v->bytes[i]);
        }
        *least = now > *least ? now : *least;
    }
    for (uint32_t i = 0; i < v->count; i++)
        *most += v->colour[i] == colour ? aligned(v->bytes[i]) : 0;
}

static void check_values(const Fixture *f, const Flat *v)
{
    static const uint32_t colours[] = {PLAN_DEVICE_MEMORY, PLAN_COLLECTIVE_MEMORY,
                                       PLAN_HOST_MEMORY};
    uint64_t ends[BUFFER_COLOURS] = {0};
    for (uint32_t i = 0; i < v->count; i++) {
        const Buffer *s = value(f, i);
        assert_int_equal(s->kind, BUFFER_TEMP);
        assert_int_equal(s->bytes, v->bytes[i]);
        assert_int_equal(s->begin, i + 1);
        assert_int_equal(s->end, v->last[i]);
        assert_int_equal(s->last, v->last[i]);
        assert_int_equal(s->colour, colours[v->colour[i]]);
        assert_int_equal(s->offset % 128, 0);
        assert_true(s->bytes != 0 || s->offset == 0);
        if (s->bytes != 0 && s->offset + aligned(s->bytes) > ends[s->colour])
            ends[s->colour] = s->offset + aligned(s->bytes);
        for (uint32_t k = 0; k < i; k++) {
            const Buffer *o = value(f, k);
            if (o->colour == s->colour && v->last[k] > i && s->bytes && o->bytes)
                assert_true(s->offset >= o->offset + o->bytes ||
                            o->offset >= s->offset + s->bytes);
        }
    }
    for (uint32_t c = 0; c < BUFFER_COLOURS; c++) {
        uint64_t least, most;
        bounds(v, c, &least, &most);
        uint64_t bytes = f->buffers->temp_bytes[colours[c]];
        assert_int_equal(bytes, ends[colours[c]]);
        assert_in_range(bytes, least, most);
    }
}

static void random_values_are_apart(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < RANDOM_PROGRAMS; seed++) {
        Flat v = random_flat(seed);
        Fixture f;
        Arena *a = arena_create();
        make(&f, flat_text(a, &v));
        check_values(&f, &v);
        buffers_check(f.buffers, a);
        arena_destroy(f.arena);
        arena_destroy(a);
    }
}

/* -- what is wrong -------------------------------------------------------------------------- */

static void refused(const char *what, const char *text, const char *message,
                    const char *at)
{
    Fixture f = {0};
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        make(&f, text);
    escape_pop(&e);
    if (e.kind != (message ? ESCAPE_UNSUPPORTED : ESCAPE_NONE))
        fail_msg("%s: %d", what, (int)e.kind);
    if (message != NULL)
        assert_string_equal(e.message, message);
    if (at != NULL)
        assert_ptr_equal(text + e.at.begin, strstr(text, at));
    arena_destroy(f.arena);
}

static void what_needs_a_copy(void **state)
{
#define WITHOUT " without a copy, which the pass copy-insertion makes"
#define ONE_LOOP                                                                         \
    "cond { s = f32[4] parameter(0) ROOT r = pred[] custom-call(s), "                    \
    "custom_call_target=\"f\" }\n"                                                       \
    "body { s = f32[4] parameter(0) ROOT c = f32[4] constant({...}) }\n"
    static const struct {
        const char *what, *text, *message, *at;
    } rows[] = {
        {"two results",
         "ENTRY e { p = f32[4] parameter(0) a = f32[4] sine(p) b = f32[4] cosine(p) "
         "ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, a) }",
         "the same buffer for two results of t" WITHOUT, "t = (f32"},
        {"a constant as a result",
         "ENTRY e { p = f32[4] parameter(0) c = f32[4] constant({...}) "
         "ROOT t = (f32[4]) tuple(c) }",
         "a written or returned constant c" WITHOUT, "c = f32"},
        {"a constant in an argument's memory",
         ONE_LOOP
         "ENTRY e { p = f32[4] parameter(0) w = f32[4] while(p), condition=cond, "
         "body=body ROOT r = f32[4] sine(w) }",
         "a written or returned constant c" WITHOUT, "c = f32"},
        {"two constants",
         ONE_LOOP "ENTRY e { d = f32[4] constant({...}) w = f32[4] while(d), "
                  "condition=cond, body=body ROOT r = f32[4] sine(w) }",
         NULL, NULL},
        {"two arguments",
         "yes { ROOT x = f32[4] parameter(0) } no { ROOT x = f32[4] parameter(0) }\n"
         "ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1) c = pred[] "
         "parameter(2) "
         "b = f32[4] conditional(c, p, q), true_computation=yes, false_computation=no "
         "ROOT r = f32[4] sine(b) }",
         "another argument's buffer for q" WITHOUT, "q = f32"},
        {"an argument as a result",
         "ENTRY e { p = f32[4] parameter(0) a = f32[4] sine(p) "
         "ROOT t = (f32[4], f32[4]) tuple(a, p) }",
         "an argument as a result of t" WITHOUT, "t = (f32"},
        {"another's alias",
         "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n"
         "ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1) "
         "ROOT t = (f32[4], f32[4]) tuple(p, q) }",
         "an argument as a result of t" WITHOUT, "t = (f32"},
        {"two aliases",
         "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, "
         "may-alias) }\n"
         "ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1) "
         "ROOT t = (f32[4], f32[4]) tuple(q, p) }",
         NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].what, rows[i].text, rows[i].message, rows[i].at);
}

/* That many computations inside of each other, the entry among them. */
static const char *nested(Arena *a, uint32_t depth)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "n1 { x = f32[] parameter(0) ROOT r = f32[] sine(x) }\n");
    for (uint32_t i = 2; i < depth; i++)
        text_printf(
            &t, "n%u { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=n%u }\n",
            i, i - 1);
    text_printf(&t,
                "ENTRY e { p = f32[] parameter(0) a = f32[] call(p), to_apply=n%u "
                "b = f32[] call(a), to_apply=n%u ROOT r = f32[] sine(b) }",
                depth - 1, depth - 1);
    return t.data;
}

static void depth_of_calls(void **state)
{
    (void)state;
    Arena *a = arena_create();
    refused("1000", nested(a, 1000), NULL, NULL);
    refused("1001", nested(a, 1001), "computations nested more than 1000 deep", "n1 {");
    arena_destroy(a);
}

/* Names of the two that buffers_check finds to share bytes; NULL: none. */
static const char *found_wrong(Arena *a, Buffer *sets, uint32_t count)
{
    Buffers b = {.sets = sets, .set_count = count};
    Instruction owners[4] = {{.name = "x"}, {.name = "y"}, {.name = "z"}, {.name = "u"}};
    for (uint32_t i = 0; i < count; i++) {
        sets[i].owner = &owners[i];
        b.end = sets[i].end > b.end ? sets[i].end : b.end;
    }
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        buffers_check(&b, a);
    escape_pop(&e);
    if (e.kind == ESCAPE_NONE)
        return NULL;
    assert_int_equal(e.kind, ESCAPE_BUG);
    return arena_printf(a, "%s", e.message);
}

static void shared_bytes_are_found(void **state)
{
#define SHARE(x, y) "the buffers of " x " and " y " share bytes while both are live"
#define OFFSET(first, last, at, size)                                                    \
    {                                                                                    \
        .kind = BUFFER_TEMP, .begin = first, .end = last, .offset = at, .bytes = size    \
    }
    struct {
        const char *what, *message;
        uint32_t count;
        Buffer sets[4];
    } rows[] = {
        {"same offset, apart in time",
         NULL,
         2,
         {OFFSET(2, 4, 128, 128), OFFSET(5, 7, 128, 128)}},
        {"one time in common",
         SHARE("x", "y"),
         2,
         {OFFSET(2, 5, 128, 128), OFFSET(5, 7, 128, 128)}},
        {"the later one first",
         SHARE("y", "x"),
         2,
         {OFFSET(5, 7, 128, 128), OFFSET(2, 5, 128, 128)}},
        {"the later one first, apart",
         NULL,
         2,
         {OFFSET(5, 7, 128, 128), OFFSET(2, 4, 128, 128)}},
        {"end to end", NULL, 2, {OFFSET(2, 5, 128, 128), OFFSET(2, 5, 256, 128)}},
        {"begin to end", NULL, 2, {OFFSET(2, 5, 128, 128), OFFSET(2, 5, 0, 128)}},
        {"one byte at the end",
         SHARE("x", "y"),
         2,
         {OFFSET(2, 5, 128, 129), OFFSET(2, 5, 256, 128)}},
        {"one byte at the begin",
         SHARE("x", "y"),
         2,
         {OFFSET(2, 5, 128, 128), OFFSET(2, 5, 0, 129)}},
        {"inside", SHARE("x", "y"), 2, {OFFSET(1, 9, 0, 1024), OFFSET(3, 3, 512, 1)}},
        {"without bytes", NULL, 2, {OFFSET(1, 9, 0, 1024), OFFSET(3, 3, 512, 0)}},
        {"without bytes, the first",
         NULL,
         2,
         {OFFSET(1, 9, 512, 0), OFFSET(3, 3, 0, 1024)}},
        {"the last of four",
         SHARE("x", "u"),
         4,
         {OFFSET(1, 9, 0, 128), OFFSET(2, 3, 128, 128), OFFSET(4, 9, 256, 128),
          OFFSET(9, 9, 0, 1)}},
        {"the last but one",
         SHARE("z", "u"),
         4,
         {OFFSET(1, 9, 0, 128), OFFSET(2, 3, 128, 128), OFFSET(4, 9, 256, 128),
          OFFSET(9, 9, 383, 1)}},
        {"one that has ended",
         NULL,
         4,
         {OFFSET(1, 9, 0, 128), OFFSET(2, 3, 128, 128), OFFSET(4, 9, 256, 128),
          OFFSET(9, 9, 128, 1)}},
        {"time nought", SHARE("x", "y"), 2, {OFFSET(0, 0, 0, 1), OFFSET(0, 1, 0, 1)}},
        {"time nought to two",
         SHARE("y", "z"),
         3,
         {OFFSET(0, 9, 0, 1), OFFSET(1, 9, 1, 1), OFFSET(2, 9, 1, 1)}},
    };
    (void)state;
    Arena *a = arena_create();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *message = found_wrong(a, rows[i].sets, rows[i].count);
        if ((message == NULL) != (rows[i].message == NULL) ||
            (message && strcmp(message, rows[i].message) != 0))
            fail_msg("%s: %s", rows[i].what, message ? message : "nothing found");
    }
    Buffer other[] = {OFFSET(1, 9, 0, 128), OFFSET(1, 9, 0, 128)};
    other[1].colour = 1;
    assert_null(found_wrong(a, other, 2));
    other[1].colour = 0;
    other[1].kind = BUFFER_RESULT;
    assert_null(found_wrong(a, other, 2));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_programs),
        cmocka_unit_test(orders_of_packing),
        cmocka_unit_test(random_values_are_apart),
        cmocka_unit_test(what_needs_a_copy),
        cmocka_unit_test(depth_of_calls),
        cmocka_unit_test(shared_bytes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
