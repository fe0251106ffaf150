/* What emulated kernels call by name: conversions of 16-bit floats, in the low bits of a float's register, and
 * integers of 128 bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/emu/object.h"

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;

static uintptr_t find(const char *name)
{
    uintptr_t at = export_find(name);
    if (at == 0)
        fail_msg("there is no %s", name);
    return at;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t low_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)bits;
}

typedef struct Number {
    double value;
    uint16_t half, bfloat;
} Number;

static void test_floats(void **state)
{
    (void)state;
    static const Number numbers[] = {{0, 0, 0},
                                     {1, 0x3C00, 0x3F80},
                                     {-2.5, 0xC100, 0xC020},
                                     {0.099975586, 0x2E66, 0x3DCD},
                                     {INFINITY, 0x7C00, 0x7F80}};
    float (*to_half)(float) = (float (*)(float))find("__truncsfhf2");
    float (*to_half_wide)(double) = (float (*)(double))find("__truncdfhf2");
    float (*to_bfloat)(float) = (float (*)(float))find("__truncsfbf2");
    float (*to_bfloat_wide)(double) = (float (*)(double))find("__truncdfbf2");
    float (*of_half)(float) = (float (*)(float))find("__extendhfsf2");
    double (*of_half_wide)(float) = (double (*)(float))find("__extendhfdf2");
    float (*of_bfloat)(float) = (float (*)(float))find("__extendbfsf2");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const Number *n = &numbers[i];
        assert_int_equal(low_bits(to_half((float)n->value)), n->half);
        assert_int_equal(low_bits(to_half_wide(n->value)), n->half);
        assert_int_equal(low_bits(to_bfloat((float)n->value)), n->bfloat);
        assert_int_equal(low_bits(to_bfloat_wide(n->value)), n->bfloat);
        double half = of_half_wide(of_bits(n->half));
        double bfloat = (double)of_bfloat(of_bits(n->bfloat));
        assert_true((double)of_half(of_bits(n->half)) == half);
        assert_true(half == n->value || fabs(half - n->value) < 1e-4);
        assert_true(bfloat == n->value || fabs(bfloat - n->value) < 1e-3);
    }
}

static void test_wide(void **state)
{
    (void)state;
    typedef Wide (*Binary)(Wide, Wide);
    typedef WideUnsigned (*BinaryUnsigned)(WideUnsigned, WideUnsigned);
    Wide a = ((Wide)INT64_C(0x0123456789ABCDEF) << 64) + 12345;
    Wide b = -((Wide)1 << 65) - 7;
    Wide quotient = ((Binary)find("__divti3"))(a, b);
    Wide rest = ((Binary)find("__modti3"))(a, b);
    assert_true(quotient == -(Wide)INT64_C(0x0091A2B3C4D5E6F7));
    assert_true(((Binary)find("__multi3"))(quotient, b) + rest == a);
    assert_true(rest >= 0 && rest < -b);
    WideUnsigned most = ~(WideUnsigned)0;
    assert_true(((BinaryUnsigned)find("__udivti3"))(most, (WideUnsigned)1 << 100) ==
                ((WideUnsigned)1 << 28) - 1);
    assert_true(((BinaryUnsigned)find("__umodti3"))(most, 10) == 5);
}

static void test_unknown(void **state)
{
    (void)state;
    double (*fma_of)(double, double, double) =
        (double (*)(double, double, double))find("fma");
    assert_true(fma_of(2, 3, 4) == 10);
    assert_true(export_find("system") == 0);
    assert_true(export_find("") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats),
                                       cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
