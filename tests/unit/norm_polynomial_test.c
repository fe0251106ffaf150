/* Polynomials that gradients of norms are known by: sums, products, sums over rows; what is not the same is not equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/kernel/norm_polynomial.h"

static Poly add(Poly a, Poly b, double factor)
{
    assert_true(poly_add(&a, &b, factor, &a));
    return a;
}

static Poly times(Poly a, Poly b)
{
    assert_true(poly_multiply(&a, &b, &a));
    return a;
}

static Poly sum(Poly a, int64_t columns)
{
    assert_true(poly_sum(&a, columns, &a));
    return a;
}

static bool is_equal(Poly a, Poly b)
{
    return poly_equal(&a, &b);
}

static void test_forms(void **state)
{
    const Poly x = poly_atom(POLY_X, 1), dy = poly_atom(POLY_DY, 1);
    const Poly mean = poly_atom(POLY_MEAN, 1);
    (void)state;
    const Poly product = times(add(x, mean, 1), add(x, mean, -1));
    assert_true(is_equal(product, add(times(x, x), times(mean, mean), -1)));
    assert_false(is_equal(product, add(times(x, x), times(mean, mean), 1)));
    assert_false(is_equal(times(x, dy), times(x, x)));
    assert_false(is_equal(x, times(x, poly_number(1.001))));
    assert_true(is_equal(x, times(x, poly_number(1 + 1e-7))));
    assert_false(is_equal(x, poly_number(0)));
}

/* The sum of (x - mean) is nothing where the mean is the sum over as many columns. */
static void test_sums(void **state)
{
    const Poly x = poly_atom(POLY_X, 1), scale = poly_atom(POLY_SCALE, 1);
    const Poly root = poly_atom(POLY_ROOT, -1);
    (void)state;
    const Poly mean = times(sum(x, 48), poly_number((float)1 / 48));
    assert_true(is_equal(sum(add(x, mean, -1), 48), poly_number(0)));
    assert_false(is_equal(sum(add(x, mean, -1), 49), poly_number(0)));
    assert_true(is_equal(sum(times(scale, root), 48), times(sum(scale, 48), root)));
    assert_false(is_equal(sum(times(scale, x), 48), times(sum(scale, 48), sum(x, 48))));
    assert_true(is_equal(sum(root, 48), times(root, poly_number(48))));
    assert_true(poly_is_of_rows(&mean));
    assert_false(poly_is_of_rows(&x));
}

static void test_roots(void **state)
{
    const Poly root = poly_atom(POLY_ROOT, -1), variance = poly_atom(POLY_ROOT, 2);
    Poly out;
    (void)state;
    assert_true(poly_divide(&root, &variance, &out));
    assert_true(is_equal(out, times(root, times(root, root))));
    const Poly four = poly_number(4), x = poly_atom(POLY_X, 1);
    assert_true(poly_divide(&x, &four, &out));
    assert_true(is_equal(out, times(x, poly_number(0.25))));
    assert_false(poly_divide(&root, &x, &out)); /* by an element */
    const Poly both = add(x, four, 1), none = poly_number(0);
    assert_false(poly_divide(&x, &both, &out));
    assert_false(poly_divide(&x, &none, &out));
}

static void test_limits(void **state)
{
    const Poly x = poly_atom(POLY_X, 1), huge = poly_number(1e308);
    Poly out = poly_number(1), power = x;
    (void)state;
    const Poly infinite = times(huge, huge), no_number = add(infinite, infinite, -1);
    assert_false(is_equal(no_number, poly_number(0)));
    assert_false(is_equal(infinite, infinite));
    const Poly cube = times(x, times(x, x));
    assert_false(poly_sum(&cube, 8, &out));
    for (int i = 0; i < 11; i++)
        power = times(power, x);
    assert_false(poly_multiply(&power, &x, &out)); /* the 13th */
    /* all products of powers of three atoms: more terms than there may be */
    const Poly all[] = {x, poly_atom(POLY_DY, 1), poly_atom(POLY_MEAN, 1)};
    Poly terms = poly_number(1);
    bool fits = true;
    for (int i = 0; i < 9 && fits; i++) {
        const Poly two = add(poly_number(1), all[i % 3], 1);
        fits = poly_multiply(&terms, &two, &terms);
    }
    assert_false(fits);
    assert_true(terms.count <= POLY_TERMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_roots), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
