/* Literals: element access, comparison and the printed form. */
#include "ir/literal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ir/intern.h"

typedef struct {
    Arena *arena;
    Intern *intern;
} Fixture;

static int set_up(void **state)
{
    static Fixture f;
    f.arena = arena_create();
    f.intern = intern_create(f.arena);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    arena_destroy(f->arena);
    return 0;
}

/* An array filled with first, first + 1, ... */
static Literal *counting(Fixture *f, DType t, uint32_t rank, const int64_t *dims,
                         int64_t first)
{
    const Shape *s = shape_array(f->intern, t, rank, dims, NULL, NULL);
    Literal *l = literal_create(f->arena, s);
    for (int64_t i = 0; i < l->count; i++)
        literal_set_int(l, i, first + i);
    return l;
}

static void expect(Fixture *f, const Literal *l, const char *text)
{
    assert_string_equal(literal_text(f->arena, l), text);
}

static void test_print(void **state)
{
    Fixture *f = *state;
    expect(f, counting(f, DT_S32, 0, NULL, 42), "42");
    expect(f, counting(f, DT_S32, 1, (int64_t[]){3}, -1), "{-1, 0, 1}");
    expect(f, counting(f, DT_S32, 1, (int64_t[]){1}, 7), "{7}");
    expect(f, counting(f, DT_F32, 1, (int64_t[]){0}, 0), "{}");
    expect(f, counting(f, DT_F32, 2, (int64_t[]){2, 0}, 0), "{ {}, {} }");
    expect(f, counting(f, DT_F32, 2, (int64_t[]){0, 2}, 0), "{  }");
    expect(f, counting(f, DT_BF16, 2, (int64_t[]){2, 2}, 1), "{ { 1, 2 }, { 3, 4 } }");
    expect(f, counting(f, DT_U8, 3, (int64_t[]){2, 1, 1}, 1), "{ { {1} }, { {2} } }");
    expect(f, counting(f, DT_F32, 4, (int64_t[]){2, 2, 2, 1}, 1),
           "{ { /*i0=0*/ { /*i1=0*/ {1}, {2} }, { /*i1=1*/ {3}, {4} } }, "
           "{ /*i0=1*/ { /*i1=0*/ {5}, {6} }, { /*i1=1*/ {7}, {8} } } }");
    expect(f, counting(f, DT_PRED, 0, NULL, 1), "true");
    expect(f, counting(f, DT_PRED, 1, (int64_t[]){2}, 0), "{0, 1}");
    Literal *c = counting(f, DT_C64, 1, (int64_t[]){2}, 1);
    literal_set_complex(c, 1, 0.5, -0.0);
    expect(f, c, "{(1, 0), (0.5, -0)}");
}

static void test_tuple(void **state)
{
    Fixture *f = *state;
    const Shape *scalar = shape_scalar(f->intern, DT_S4);
    const Shape *parts[] = {
        scalar, shape_array(f->intern, DT_F16, 1, (int64_t[]){2}, NULL, NULL)};
    Literal *l = literal_create(f->arena, shape_tuple(f->intern, 2, parts));
    literal_set_int(l->elements[0], 0, -3);
    literal_set_double(l->elements[1], 1, 0.5);
    expect(f, l, "( -3, {0, 0.5} )");
    Literal *copy = literal_copy(f->arena, l);
    assert_true(literal_equal(l, copy));
    literal_set_int(copy->elements[0], 0, 2);
    assert_false(literal_equal(l, copy));
    assert_int_equal(literal_int(l->elements[0], 0), -3);
    assert_int_equal(literal_bits(l->elements[0], 0), 13);
    l->elements[1]->elided = true;
    assert_true(literal_has_elided(l));
    assert_false(literal_has_elided(copy));
    expect(f, l, "( -3, {...} )");
}

static void test_is_all(void **state)
{
    Fixture *f = *state;
    const Shape *s = shape_array(f->intern, DT_F32, 1, (int64_t[]){3}, NULL, NULL);
    Literal *l = literal_create(f->arena, s);
    assert_true(literal_is_all(l, 0));
    assert_false(literal_is_all(l, -0.0));
    literal_set_double(l, 2, -0.0);
    assert_false(literal_is_all(l, 0));
    assert_false(literal_is_all(l, (double)NAN));
    Literal *n = counting(f, DT_S64, 0, NULL, (1ll << 53) + 1);
    assert_false(literal_is_all(n, 0x1p53));
    assert_true(literal_is_all(counting(f, DT_U4, 0, NULL, 15), 15));
    assert_false(literal_is_all(counting(f, DT_U4, 0, NULL, 15), 31));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_tuple),
        cmocka_unit_test(test_is_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
