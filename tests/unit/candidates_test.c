/* Who makes a product: the candidates of dots and their modelled times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/kernel/candidates.h"
#include "tests/unit/shared/module.h"

typedef struct Fixture {
    Arena *arena;
    Target target;
    KnownUses uses;
} Fixture;

static int setup(void **state)
{
    static Fixture f;
    f = (Fixture){.arena = arena_create()};
    assert_true(target_find("h100", &f.target));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    arena_destroy(f->arena);
    return 0;
}

/* The entry's root, a dot; finds who reads what. */
static const Instruction *dot(Fixture *f, const char *entry)
{
    Module *m = parse_module(f->arena, entry);
    f->uses = (KnownUses){uses_compute(m->entry, f->arena), m->entry->instruction_count};
    return m->entry->root;
}

#define SUMS ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define PRODUCT(type, result, m, n, k)                                                   \
    "HloModule m\nENTRY e { x = " type "[" m "," k "]{1,0} parameter(0) w = " type "[" k \
    "," n "]{1,0} parameter(1) ROOT d = " result "[" m "," n "]{1,0} dot(x, w)" SUMS     \
    " }"

static void large_products_are_the_librarys(void **state)
{
    Fixture *f = *state;
    Candidates c;
    const Instruction *d = dot(f, PRODUCT("bf16", "bf16", "4096", "4096", "4096"));
    candidates_find(d, &f->uses, &f->target, NULL, &c);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.list[0].maker, CANDIDATE_LIBRARY);
    assert_string_equal(c.list[0].name, "cublaslt");
    assert_int_equal(c.list[1].maker, CANDIDATE_TILE);
    assert_int_equal(c.list[2].maker, CANDIDATE_PLAIN);
    /* without tensor cores an H100 is much slower */
    assert_true(c.list[2].seconds > 5 * c.list[1].seconds);
    assert_false(candidates_worth_asking(d, &f->uses, &f->target, 0.8));
}

static void not_everything_has_all(void **state)
{
    Fixture *f = *state;
    Candidates c;
    const Instruction *d = dot(f, PRODUCT("s8", "s32", "512", "512", "512"));
    candidates_find(d, NULL, &f->target, NULL, &c);
    assert_null(candidates_by(&c, CANDIDATE_LIBRARY));
    assert_int_equal(c.list[0].maker, CANDIDATE_TILE);
    d = dot(f, PRODUCT("f32", "f32", "512", "512", "512"));
    candidates_find(d, NULL, &f->target, NULL, &c);
    assert_null(candidates_by(&c, CANDIDATE_TILE));
    assert_non_null(candidates_by(&c, CANDIDATE_LIBRARY));
    assert_non_null(candidates_by(&c, CANDIDATE_PLAIN));
    f->target.tiles = TILES_NONE;
    d = dot(f, PRODUCT("bf16", "bf16", "512", "512", "512"));
    candidates_find(d, NULL, &f->target, NULL, &c);
    assert_null(candidates_by(&c, CANDIDATE_TILE));
    candidates_find(d->operands[0], NULL, &f->target, NULL, &c);
    assert_int_equal(c.count, 0);
}

/* What is known of a product is said of equal ones only. */
static void equal_products_are_asked_once(void **state)
{
    static const char *const texts[] = {
        PRODUCT("bf16", "bf16", "512", "512", "512"),
        PRODUCT("bf16", "bf16", "512", "512", "1024"),
        PRODUCT("f16", "f16", "512", "512", "512"),
        PRODUCT("bf16", "f32", "512", "512", "512"),
        PRODUCT("bf16", "bf16", "512", "512", "512"),
    };
    Fixture *f = *state;
    CandidateMemo *memo = candidate_memo_create(f->arena);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Candidates alone, known;
        const Instruction *d = dot(f, texts[i]);
        candidates_find(d, &f->uses, &f->target, NULL, &alone);
        candidates_find(d, &f->uses, &f->target, memo, &known);
        assert_int_equal(known.count, alone.count);
        for (uint32_t k = 0; k < alone.count; k++) {
            assert_int_equal(known.list[k].maker, alone.list[k].maker);
            assert_int_equal(known.list[k].kind, alone.list[k].kind);
            assert_string_equal(known.list[k].name, alone.list[k].name);
            assert_true(known.list[k].seconds == alone.list[k].seconds);
        }
    }
    assert_int_equal(candidate_memo_count(memo), 4);
}

/* A library wants operands in memory; a kernel widens its own. */
static void narrow_operands_are_widened_in_kernels(void **state)
{
    Fixture *f = *state;
    Candidates c;
    const Instruction *d =
        dot(f, "HloModule m\nENTRY e { x = bf16[16,4096]{1,0} parameter(0)\n"
               "w = s8[4096,8192]{1,0} parameter(1) c = bf16[4096,8192]{1,0} convert(w)\n"
               "ROOT d = bf16[16,8192]{1,0} dot(x, c)" SUMS " }");
    assert_true(candidates_worth_asking(d, &f->uses, &f->target, 0.8));
    candidates_find(d, &f->uses, &f->target, NULL, &c);
    assert_int_equal(c.list[0].maker, CANDIDATE_TILE);
    const Candidate *library = candidates_by(&c, CANDIDATE_LIBRARY);
    assert_non_null(library);
    /* 32 MiB read and 64 written, 64 read again */
    double bytes = 5 * 33554432.0, seconds = bytes / 3.352e12;
    double widened = library->seconds;
    assert_true(widened > seconds);
    assert_true(c.list[0].seconds < widened / 2);
    candidates_find(d, NULL, &f->target, NULL, &c); /* where the operand is there */
    assert_true(candidates_by(&c, CANDIDATE_LIBRARY)->seconds < widened);
}

/* What reads more than it makes gains nothing in a product's kernel. */
static void wide_operands_stay_outside(void **state)
{
    Fixture *f = *state;
    Candidates with, without;
    const Instruction *d = dot(
        f, "HloModule m\nENTRY e { x = bf16[1024,4096]{1,0} parameter(0)\n"
           "s = f32[4096,1024]{1,0} parameter(1) c = bf16[4096,1024]{1,0} convert(s)\n"
           "ROOT d = bf16[1024,1024]{1,0} dot(x, c)" SUMS " }");
    candidates_find(d, &f->uses, &f->target, NULL, &with);
    candidates_find(d, NULL, &f->target, NULL, &without);
    assert_int_equal(with.count, without.count);
    for (uint32_t i = 0; i < with.count; i++) {
        assert_int_equal(with.list[i].maker, without.list[i].maker);
        assert_true(with.list[i].seconds == without.list[i].seconds);
    }
}

#define BEHIND(more)                                                                     \
    "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1)\n"                 \
    "ROOT s = f32[] add(a, b) }\n"                                                       \
    "ENTRY e { x = f32[256,256]{1,0} parameter(0) y = f32[256,256]{1,0} parameter(1)\n"  \
    "d = f32[256,256]{1,0} dot(x, y)" SUMS ", algorithm=dot_tf32_tf32_f32\n" more " }"

/* How much longer the library takes with what stands behind the product. */
static double behind_library(Fixture *f, const char *entry)
{
    Candidates with, without;
    const Instruction *product = dot(f, entry);
    while (product->op != OP_DOT)
        product = product->operands[0];
    candidates_find(product, &f->uses, &f->target, NULL, &with);
    candidates_find(product, NULL, &f->target, NULL, &without);
    assert_true(candidates_by(&with, CANDIDATE_TILE)->seconds ==
                candidates_by(&without, CANDIDATE_TILE)->seconds);
    return candidates_by(&with, CANDIDATE_LIBRARY)->seconds -
           candidates_by(&without, CANDIDATE_LIBRARY)->seconds;
}

/* What is made of the result and stored takes a kernel behind a library's call. */
static void results_are_turned_in_kernels(void **state)
{
    Fixture *f = *state;
    double turned =
        behind_library(f, BEHIND("t = f32[256,256]{1,0} tanh(d)\n"
                                 "ROOT u = f32[256,256]{1,0} multiply(t, d)"));
    assert_true(turned > 1.5e-6 && turned < 3e-6);
    /* more is stored, the library adds, or another kernel reads it anyway */
    assert_true(behind_library(f, BEHIND("t = f32[256,256]{1,0} tanh(d)\n"
                                         "ROOT u = (f32[256,256]{1,0}, "
                                         "f32[256,256]{1,0}) tuple(d, t)")) == 0);
    assert_true(behind_library(f, BEHIND("ROOT t = f32[256,256]{1,0} add(d, x)")) == 0);
    assert_true(behind_library(f, BEHIND("t = f32[256,256]{1,0} tanh(d)\n"
                                         "z = f32[] constant(0)\n"
                                         "ROOT u = f32[256]{0} reduce(t, z), "
                                         "dimensions={1}, to_apply=add")) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_products_are_the_librarys, setup, teardown),
        cmocka_unit_test_setup_teardown(not_everything_has_all, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_products_are_asked_once, setup, teardown),
        cmocka_unit_test_setup_teardown(narrow_operands_are_widened_in_kernels, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(wide_operands_stay_outside, setup, teardown),
        cmocka_unit_test_setup_teardown(results_are_turned_in_kernels, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
