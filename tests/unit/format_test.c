/* The small float formats against a table of their own: every code of every format, every f16 and
 * bf16 number and what lies beside every midpoint, rounded by search in the sorted list of the
 * format's numbers. Nothing here reads ir/dtypes.def. */
#include "ir/number/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef enum { INF, NO_INF, UNSIGNED_ZERO, FINITE } Special;

typedef struct Format {
    DType type;
    int exponent, mantissa, bias;
    double max, min_normal, min_subnormal;
    Special special;
    unsigned infinity, nan; /* codes of +infinity and of the NaN that conversions make */
    double overflow;        /* the least number that rounds beyond max */
    double to_zero;         /* the largest number that rounds to 0 */
} Format;

static const Format formats[] = {
    {DT_F4E2M1FN, 2, 1, 1, 6, 1, 0.5, FINITE, 0, 0x8, 7, 0.25},
    {DT_F6E2M3FN, 2, 3, 1, 7.5, 1, 0.125, FINITE, 0, 0x20, 7.75, 0x1p-4},
    {DT_F6E3M2FN, 3, 2, 3, 28, 0.25, 0.0625, FINITE, 0, 0x20, 30, 0x1p-5},
    {DT_F8E3M4, 3, 4, 3, 15.5, 0.25, 0x1p-6, INF, 0x70, 0x78, 15.75, 0x1p-7},
    {DT_F8E4M3, 4, 3, 7, 240, 0x1p-6, 0x1p-9, INF, 0x78, 0x7c, 248, 0x1p-10},
    {DT_F8E4M3FN, 4, 3, 7, 448, 0x1p-6, 0x1p-9, NO_INF, 0, 0x7f, 0x1.d000000000001p8,
     0x1p-10},
    {DT_F8E4M3B11FNUZ, 4, 3, 11, 30, 0x1p-10, 0x1p-13, UNSIGNED_ZERO, 0, 0x80, 31,
     0x1p-14},
    {DT_F8E4M3FNUZ, 4, 3, 8, 240, 0x1p-7, 0x1p-10, UNSIGNED_ZERO, 0, 0x80, 248, 0x1p-11},
    {DT_F8E5M2, 5, 2, 15, 57344, 0x1p-14, 0x1p-16, INF, 0x7c, 0x7e, 61440, 0x1p-17},
    {DT_F8E5M2FNUZ, 5, 2, 16, 57344, 0x1p-15, 0x1p-17, UNSIGNED_ZERO, 0, 0x80, 61440,
     0x1p-18},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static unsigned sign_code(const Format *f)
{
    return 1u << (f->exponent + f->mantissa);
}

/* The number of a code without sign, whatever it means. */
static double magnitude(const Format *f, unsigned code)
{
    unsigned top = 1u << f->mantissa;
    unsigned e = code / top, m = code % top;
    return e == 0 ? ldexp(m, 1 - f->bias - f->mantissa)
                  : ldexp(top + m, (int)e - f->bias - f->mantissa);
}

/* The largest code without sign that is a finite number, by search. */
static unsigned largest(const Format *f)
{
    unsigned code = 0;
    while (magnitude(f, code) < f->max)
        code++;
    return code;
}

static double number_of(const Format *f, unsigned code)
{
    unsigned sign = sign_code(f), plain = code % sign;
    bool negative = code >= sign;
    if (f->special == UNSIGNED_ZERO && code == sign)
        return (double)NAN;
    if (f->special == INF && plain == f->infinity)
        return negative ? -(double)INFINITY : (double)INFINITY;
    if (plain > largest(f))
        return (double)NAN;
    return negative ? -magnitude(f, plain) : magnitude(f, plain);
}

/* The code nearest to x, halfway cases to the even one. */
static unsigned round_search(const Format *f, double x)
{
    unsigned sign = signbit(x) ? sign_code(f) : 0;
    double a = fabs(x);
    if (isnan(x))
        return f->special == UNSIGNED_ZERO || f->special == FINITE ? f->nan
                                                                   : sign | f->nan;
    if (a >= f->overflow) {
        unsigned beyond = f->special == FINITE ? largest(f)
                          : f->special == INF  ? f->infinity
                                               : f->nan;
        return f->special == UNSIGNED_ZERO ? beyond : sign | beyond;
    }
    unsigned low = 0, high = largest(f);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (magnitude(f, middle) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = a - magnitude(f, low), above = magnitude(f, high) - a;
    unsigned code = below < above   ? low
                    : above < below ? high
                    : low % 2 == 0  ? low
                                    : high;
    if (f->special == UNSIGNED_ZERO && code == 0)
        return 0;
    return sign | code;
}

/* rows: codegen.F1 codegen.F3 */
static void test_limits(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        const Format *f = &formats[k];
        unsigned top = 1u << f->mantissa;
        assert_true(number_max_finite(f->type) == f->max);
        assert_true(number_to_double(f->type, top) == f->min_normal);
        assert_true(number_to_double(f->type, 1) == f->min_subnormal);
        assert_int_equal(number_from_double(f->type, f->to_zero), 0);
        assert_int_equal(number_from_double(f->type, nextafter(f->to_zero, 1)), 1);
        assert_int_equal(number_from_double(f->type, nextafter(f->overflow, 0)),
                         largest(f));
    }
}

/* rows: codegen.F1 codegen.F3 */
static void test_every_code(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        const Format *f = &formats[k];
        for (unsigned code = 0; code < 2 * sign_code(f); code++) {
            double want = number_of(f, code), got = number_to_double(f->type, code);
            float single = number_to_float(f->type, code);
            assert_int_equal(isnan(got) != 0, isnan(want) != 0);
            assert_int_equal(isnan(single) != 0, isnan(want) != 0);
            if (isnan(want))
                continue;
            assert_memory_equal(&want, &got, sizeof want);
            assert_true((double)single == want);
            assert_int_equal(number_from_double(f->type, want), code);
        }
    }
}

static void check_number(double x)
{
    for (int k = 0; k < FORMATS; k++) {
        const Format *f = &formats[k];
        assert_int_equal(number_from_double(f->type, x), round_search(f, x));
        if ((double)(float)x == x || isnan(x))
            assert_int_equal(number_from_float(f->type, (float)x), round_search(f, x));
    }
}

/* Every number of both 16-bit formats, in one array as kernels convert them.
 * rows: codegen.F3 (edge: exhaustive over f16 and bf16) */
static void test_every_half(void **state)
{
    (void)state;
    static const DType wide[2] = {DT_F16, DT_BF16};
    static uint16_t in[1 << 16];
    static uint8_t out[1 << 16];
    for (unsigned i = 0; i < 1 << 16; i++)
        in[i] = (uint16_t)i;
    for (int w = 0; w < 2; w++) {
        for (int k = 0; k < FORMATS; k++) {
            const Format *f = &formats[k];
            number_convert(f->type, out, wide[w], in, 1 << 16);
            for (unsigned i = 0; i < 1 << 16; i++) {
                /* both are upper halves of wider formats, decoded by the C compiler's own */
                double x;
                if (wide[w] == DT_BF16) {
                    uint32_t bits = (uint32_t)i << 16;
                    float single;
                    memcpy(&single, &bits, 4);
                    x = (double)single;
                } else {
                    unsigned e = i >> 10 & 31, m = i & 1023;
                    x = e == 31  ? (m != 0 ? (double)NAN : (double)INFINITY)
                        : e == 0 ? ldexp(m, -24)
                                 : ldexp(1024 + m, (int)e - 25);
                    x = copysign(x, i >> 15 ? -1.0 : 1.0);
                }
                unsigned mask = 2 * sign_code(f) - 1;
                assert_int_equal(out[i] & mask, round_search(f, x));
            }
        }
    }
}

/* rows: codegen.F3 (edge: f64 is rounded once, not through f32) */
static void test_midpoints(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        const Format *f = &formats[k];
        for (unsigned code = 0; code < largest(f); code++) {
            double middle = (magnitude(f, code) + magnitude(f, code + 1)) / 2;
            for (int side = -1; side <= 1; side++) {
                double d = side == 0 ? middle : nextafter(middle, side * 1e300);
                float s = nextafterf((float)middle, (float)side * 1e30F);
                check_number(d);
                check_number(-d);
                check_number((double)(side == 0 ? (float)middle : s));
            }
        }
    }
    check_number(0x1.1000000000001p0); /* f32 would make it a tie */
    check_number(0x1.2ffffffffffffp0);
    check_number(-0.0);
    check_number((double)NAN);
    check_number(-(double)NAN);
    check_number((double)INFINITY);
    check_number(-(double)INFINITY);
    check_number(0x1p-1074);
    check_number(0x1.fffffep127);
    check_number(-0x1.fffffep127);
}

/* Between all pairs: f8 -> f8 is the number rounded once.
 * rows: codegen.F3 (edge: f8 to f8; infinity of e5m2 in e3m4) */
static void test_pairs(void **state)
{
    (void)state;
    for (int a = 0; a < FORMATS; a++) {
        for (int b = 0; b < FORMATS; b++) {
            const Format *from = &formats[a], *to = &formats[b];
            unsigned n = 2 * sign_code(from), mask = 2 * sign_code(to) - 1;
            uint8_t in[256], out[256];
            for (unsigned i = 0; i < n; i++)
                in[i] = (uint8_t)i;
            number_convert(to->type, out, from->type, in, n);
            for (unsigned i = 0; i < n; i++) {
                double x = number_of(from, i);
                if (a == b) /* a copy: NaN keeps its bits */
                    assert_int_equal(out[i], i);
                else if (!isnan(x))
                    assert_int_equal(out[i] & mask, round_search(to, x));
                else
                    assert_int_equal(out[i] & mask & ~sign_code(to),
                                     to->nan & ~sign_code(to));
            }
        }
    }
}

/* rows: codegen.F1 (edge: ties, saturation, NaN is -0, -0 kept) */
static void test_f4_points(void **state)
{
    (void)state;
    static const double points[][2] = {
        {0.25, 0},
        {0x1.000002p-2, 0.5},
        {0.75, 1},
        {0x1.7ffffep-1, 0.5},
        {1.25, 1},
        {1.75, 2},
        {2.5, 2},
        {3.5, 4},
        {5, 4},
        {7, 6},
        {1e9, 6},
        {0x1.fffffep127, 6},
        {-0.25, -0.},
        {-5, -4},
        {-0x1.8p127, -6},
        {(double)INFINITY, 6},
        {-0.0, -0.0},
        {(double)NAN, -0.0},
        {-(double)INFINITY, -6},
    };
    static const double codes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        uint64_t code = number_from_double(DT_F4E2M1FN, points[i][0]);
        double got = number_to_double(DT_F4E2M1FN, code);
        assert_memory_equal(&got, &points[i][1], sizeof got);
        assert_int_equal(number_from_float(DT_F4E2M1FN, (float)points[i][0]), code);
    }
    for (unsigned i = 0; i < 8; i++) {
        assert_true(number_to_double(DT_F4E2M1FN, i) == codes[i]);
        assert_true(number_to_double(DT_F4E2M1FN, i + 8) == -codes[i]);
    }
}

/* The integers of the format's definition. */
static unsigned e8m0_of_bits(uint32_t bits)
{
    int32_t b = (int32_t)bits;
    if (b <= 0 || b >= 0x7f400000)
        return 0xff;
    return b <= 0x00400000 ? 0 : (unsigned)(b + 0x00400000) >> 23;
}

static void check_e8m0(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    assert_int_equal(number_from_float(DT_F8E8M0FNU, x), e8m0_of_bits(bits));
    assert_int_equal(number_from_double(DT_F8E8M0FNU, (double)x), e8m0_of_bits(bits));
}

/* rows: codegen.F2 (edge: ties up, subnormals, no zero, no sign, 2^127 x 1.5 is NaN) */
static void test_e8m0(void **state)
{
    (void)state;
    static const uint32_t mantissas[] = {0,        1,        0x3eb852, 0x3fffff,
                                         0x400000, 0x400001, 0x4147ae, 0x7fffff};
    for (uint32_t e = 0; e < 512; e++) /* all exponents, both signs */
        for (size_t m = 0; m < sizeof mantissas / sizeof *mantissas; m++)
            check_e8m0(e << 23 | mantissas[m]);
    for (uint32_t code = 0; code < 256; code++) {
        float got = number_to_float(DT_F8E8M0FNU, code);
        uint32_t bits, want = code == 255 ? 0x7fc00000
                              : code == 0 ? 0x400000
                                          : code << 23;
        memcpy(&bits, &got, 4);
        assert_int_equal(bits, want);
        uint8_t byte = (uint8_t)code;
        uint16_t narrow;
        number_convert(DT_BF16, &narrow, DT_F8E8M0FNU, &byte, 1);
        assert_int_equal(narrow, want >> 16);
        number_convert(DT_F16, &narrow, DT_F8E8M0FNU, &byte, 1);
        int e = (int)code - 127;
        unsigned half = code == 255 ? 0x7e00
                        : e > 15    ? 0x7c00
                        : e >= -14  ? (unsigned)(e + 15) << 10
                        : e >= -24  ? 1u << (e + 24)
                                    : 0;
        assert_int_equal(narrow, half);
        assert_true(code == 255 || number_to_double(DT_F8E8M0FNU, code) == ldexp(1, e));
    }
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 3), 0x81);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 6), 0x82);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x0.800002p-126), 1);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x1.7ffffep127), 254);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x1.8p127), 255);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, -1), 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_every_half), cmocka_unit_test(test_midpoints),
        cmocka_unit_test(test_pairs),      cmocka_unit_test(test_f4_points),
        cmocka_unit_test(test_e8m0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
