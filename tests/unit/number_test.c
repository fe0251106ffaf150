/* Number formats: every code of the formats up to 16 bits against a decoder written from the
 * formats' definition, rounding at and beside every midpoint, limits, conversions, text. */
#include "ir/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const DType formats[] = {
    DT_F4E2M1FN, DT_F6E2M3FN,   DT_F6E3M2FN,      DT_F8E3M4,     DT_F8E4M3, DT_F8E4M3FN,
    DT_F8E5M2,   DT_F8E5M2FNUZ, DT_F8E4M3B11FNUZ, DT_F8E4M3FNUZ, DT_F16,    DT_BF16,
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The value of a code from the definition; NaN and infinity included. */
static double reference(DType t, unsigned code)
{
    const DTypeInfo *f = &dtype_info[t];
    unsigned width = f->bits, m_bits = f->mantissa_bits;
    unsigned mantissa = code & ((1u << m_bits) - 1);
    unsigned last = (1u << f->exponent_bits) - 1;
    unsigned exponent = code >> m_bits & last;
    bool negative = code >> (width - 1);
    if (f->special == SPECIAL_IEEE && exponent == last)
        return mantissa ? (double)NAN : negative ? -(double)INFINITY : (double)INFINITY;
    if (f->special == SPECIAL_FN && exponent == last && mantissa == (1u << m_bits) - 1)
        return (double)NAN;
    if (f->special == SPECIAL_FNUZ && code == 1u << (width - 1))
        return (double)NAN;
    double x = exponent == 0 ? ldexp(mantissa, 1 - f->bias - (int)m_bits)
                             : ldexp(mantissa + (1u << m_bits),
                                     (int)exponent - f->bias - (int)m_bits);
    return negative ? -x : x;
}

static void test_decode(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        DType t = formats[k];
        for (unsigned code = 0; code < 1u << dtype_info[t].bits; code++) {
            double want = reference(t, code), got = number_to_double(t, code);
            assert_int_equal(isnan(want) != 0, isnan(got) != 0);
            assert_int_equal(signbit(got) != 0, code >> (dtype_info[t].bits - 1));
            if (isnan(want))
                continue;
            assert_true(want == got);
            assert_true((float)want == number_to_float(t, code));
            assert_int_equal(number_from_double(t, got), code);
            assert_int_equal(number_from_float(t, (float)got), code);
        }
    }
}

/* Between two neighbours a < b of one sign: what is nearer wins, the midpoint goes to the even
 * code. `code` is a's, magnitudes only. */
static void check_between(DType t, unsigned code, double a, double b)
{
    double middle = a + (b - a) / 2;
    unsigned even = code & 1 ? code + 1 : code;
    assert_int_equal(number_from_double(t, middle), even);
    assert_int_equal(number_from_double(t, nextafter(middle, 0)), code);
    assert_int_equal(number_from_double(t, nextafter(middle, (double)INFINITY)),
                     code + 1);
    unsigned sign = 1u << (dtype_info[t].bits - 1);
    unsigned negative =
        dtype_info[t].special == SPECIAL_FNUZ && even == 0 ? 0 : even | sign;
    assert_int_equal(number_from_double(t, -middle), negative);
    if ((float)middle == middle)
        assert_int_equal(number_from_float(t, (float)middle), even);
}

static void test_round(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        DType t = formats[k];
        for (unsigned code = 0; code + 1 < 1u << (dtype_info[t].bits - 1); code++) {
            double a = reference(t, code), b = reference(t, code + 1);
            if (isfinite(a) && isfinite(b))
                check_between(t, code, a, b);
        }
    }
}

static void test_overflow(void **state)
{
    (void)state;
    static const struct {
        DType type;
        double fits, beyond; /* fits is rounded to the largest number, beyond is not */
        unsigned largest, over;
    } rows[] = {
        {DT_F8E4M3FN, 464, 464.001, 0x7e, 0x7f},
        {DT_F8E5M2, 61439.99, 61440, 0x7b, 0x7c},
        {DT_F8E4M3, 247.99, 248, 0x77, 0x78},
        {DT_F8E3M4, 15.749, 15.75, 0x6f, 0x70},
        {DT_F8E4M3FNUZ, 247.99, 248, 0x7f, 0x80},
        {DT_F8E5M2FNUZ, 61439.99, 61440, 0x7f, 0x80},
        {DT_F8E4M3B11FNUZ, 30.99, 31, 0x7f, 0x80},
        {DT_F4E2M1FN, 6.999, 7, 7, 7},
        {DT_F6E2M3FN, 7.749, 7.75, 31, 31},
        {DT_F6E3M2FN, 29.99, 30, 31, 31},
        {DT_F16, 65519.99, 65520, 0x7bff, 0x7c00},
        {DT_BF16, 0x1.feffffp127, 0x1.ffp127, 0x7f7f, 0x7f80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DType t = rows[i].type;
        assert_int_equal(number_from_double(t, rows[i].fits), rows[i].largest);
        assert_int_equal(number_from_double(t, rows[i].beyond), rows[i].over);
        assert_int_equal(number_from_double(t, 1e300), rows[i].over);
        assert_int_equal(number_from_double(t, (double)INFINITY), rows[i].over);
        assert_true(number_fits(t, rows[i].fits));
        assert_int_equal(number_fits(t, rows[i].beyond),
                         dtype_info[t].special == SPECIAL_FINITE);
        assert_true(number_fits(t, (double)INFINITY));
        assert_true(number_max_finite(t) == number_to_double(t, rows[i].largest));
    }
    assert_int_equal(number_from_double(DT_F8E4M3FN, -1e9), 0xff);
    assert_int_equal(number_from_double(DT_F8E4M3FN, -0.0), 0x80);
    assert_int_equal(number_from_double(DT_F8E4M3FNUZ, -0.0), 0);
    assert_int_equal(number_from_double(DT_F4E2M1FN, (double)NAN), 8);
    assert_int_equal(number_from_double(DT_F4E2M1FN, -100), 15);
    assert_int_equal(number_from_double(DT_F8E5M2, (double)NAN), 0x7e);
    assert_int_equal(number_from_double(DT_F16, -(double)NAN), 0xfe00);
    assert_int_equal(number_float_to_bf16(-(float)NAN), 0xffc0);
    assert_int_equal(number_from_double(DT_F64, 1.0), 0x3ff0000000000000);
}

static void test_one_rounding(void **state)
{
    (void)state;
    /* Through f32 these would become ties and go the other way. */
    assert_int_equal(number_from_double(DT_BF16, 0x1.0100000001p0), 0x3f81);
    assert_int_equal(number_from_double(DT_F16, 0x1.0020000001p0), 0x3c01);
    assert_int_equal(number_from_double(DT_F8E4M3FN, 0x1.1000000001p0), 0x39);
    assert_int_equal(number_from_int(DT_BF16, (1ll << 62) + (1ll << 54) + 1), 0x5e81);
    assert_int_equal(number_from_uint(DT_BF16, (3ull << 62) + (1ull << 55) + 1), 0x5f41);
    assert_int_equal(number_from_int(DT_F16, -65519), 0xfbff);
    assert_int_equal(number_from_int(DT_F16, 65520), 0x7c00);
}

static void test_float_fast_paths(void **state)
{
    (void)state;
    uint32_t x = 12345;
    for (int i = 0; i < 2000000; i++) {
        x = x * 1664525u + 1013904223u;
        uint32_t bits = x ^ x >> 15;
        float value;
        memcpy(&value, &bits, sizeof value);
        assert_int_equal(number_float_to_f16(value),
                         number_from_double(DT_F16, (double)value));
        assert_int_equal(number_float_to_bf16(value),
                         number_from_double(DT_BF16, (double)value));
    }
}

static void test_e8m0(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 255; code++) {
        double x = ldexp(1, (int)code - 127);
        assert_true(number_to_double(DT_F8E8M0FNU, code) == x);
        assert_true((double)number_to_float(DT_F8E8M0FNU, code) == x);
        assert_int_equal(number_from_double(DT_F8E8M0FNU, x), code);
        if (code > 1) {
            assert_int_equal(number_from_double(DT_F8E8M0FNU, 1.49 * x), code);
            assert_int_equal(number_from_double(DT_F8E8M0FNU, 1.5 * x), code + 1);
        }
    }
    assert_true(isnan(number_to_double(DT_F8E8M0FNU, 255)));
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 3), 0x81);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x0.800002p-126), 1);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x1p-140), 0);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x1.7ffffep127), 254);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0x1.8p127), 255);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, 0), 255);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, -1), 255);
    assert_int_equal(number_from_double(DT_F8E8M0FNU, (double)INFINITY), 255);
}

static int64_t convert_one(DType to, DType from, double value)
{
    char in[16] = {0}, out[16] = {0};
    number_set_double(from, in, value);
    number_convert(to, out, from, in, 1);
    return number_get_int(to, out);
}

static void test_convert(void **state)
{
    (void)state;
    assert_int_equal(convert_one(DT_S32, DT_F32, 3e9), INT32_MAX);
    assert_int_equal(convert_one(DT_S32, DT_F32, -3e9), INT32_MIN);
    assert_int_equal(convert_one(DT_S32, DT_F32, (double)NAN), 0);
    assert_int_equal(convert_one(DT_S32, DT_F32, -1.9), -1);
    assert_int_equal(convert_one(DT_S64, DT_F64, 1e30), INT64_MAX);
    assert_int_equal(convert_one(DT_S64, DT_F64, -1e30), INT64_MIN);
    assert_int_equal(convert_one(DT_U64, DT_F64, 1e30), -1);
    assert_int_equal(convert_one(DT_U64, DT_F64, 0x1p63), INT64_MIN);
    assert_int_equal(convert_one(DT_U8, DT_F16, -5), 0);
    assert_int_equal(convert_one(DT_U8, DT_BF16, 300), 255);
    assert_int_equal(convert_one(DT_S8, DT_F8E5M2, (double)INFINITY), 127);
    assert_int_equal(convert_one(DT_S8, DT_S32, 200), -56);
    assert_int_equal(convert_one(DT_U32, DT_S8, -1), 0xffffffff);
    assert_int_equal(convert_one(DT_S4, DT_S32, 9), -7);
    assert_int_equal(convert_one(DT_U2, DT_S32, 7), 3);
    assert_int_equal(convert_one(DT_S1, DT_S32, 1), -1);
    assert_int_equal(convert_one(DT_PRED, DT_F32, 0.25), 1);
    assert_int_equal(convert_one(DT_PRED, DT_F32, (double)NAN), 1);
    assert_int_equal(convert_one(DT_PRED, DT_S32, 256), 1);
    assert_int_equal(convert_one(DT_F32, DT_PRED, 1), 1);
    assert_int_equal(convert_one(DT_C64, DT_S32, 7), 7);
    assert_int_equal(convert_one(DT_S32, DT_C128, 7.5), 7);
    uint64_t big = UINT64_MAX;
    float f;
    number_convert(DT_F32, &f, DT_U64, &big, 1);
    assert_true(f == 0x1p64f);
    float many[1000], back[1000];
    uint16_t half[1000];
    for (int i = 0; i < 1000; i++)
        many[i] = (float)(i - 500) / 8;
    number_convert(DT_F16, half, DT_F32, many, 1000);
    number_convert(DT_F32, back, DT_F16, half, 1000);
    assert_memory_equal(many, back, sizeof many);
    double pair[2] = {1.5, -2.25}, got[2];
    float single[2];
    number_convert(DT_C64, single, DT_C128, pair, 1);
    number_get_complex(DT_C64, single, got);
    assert_true(got[0] == 1.5 && got[1] == -2.25);
    double imaginary[2] = {0, 1};
    uint8_t truth;
    number_convert(DT_PRED, &truth, DT_C128, imaginary, 1);
    assert_int_equal(truth, 1);
}

static void test_limits(void **state)
{
    (void)state;
    int8_t s = 0;
    number_lowest(DT_S4, &s);
    assert_int_equal(s, -8);
    number_highest(DT_S4, &s);
    assert_int_equal(s, 7);
    uint64_t u = 0;
    number_highest(DT_U64, &u);
    assert_true(u == UINT64_MAX);
    float f;
    number_lowest(DT_F32, &f);
    assert_true(isinf(f) && f < 0);
    uint8_t code;
    number_lowest(DT_F8E4M3FN, &code);
    assert_int_equal(code, 0xfe);
    number_lowest(DT_F8E8M0FNU, &code);
    assert_int_equal(code, 0);
}

/* An integer becomes the float that the machine's own conversion makes of it: rounded once. */
static void expect_float_of(int64_t value)
{
    union {
        float f;
        uint32_t bits;
    } single = {.f = (float)value};
    union {
        double d;
        uint64_t bits;
    } wide = {.d = (double)value};
    assert_int_equal(number_from_int(DT_F32, value), single.bits);
    assert_true(number_from_int(DT_F64, value) == wide.bits);
}

static void test_from_int(void **state)
{
    (void)state;
    for (int k = 9; k < 63; k++) { /* beside the middle of two neighbours of bf16 */
        int64_t power = (int64_t)1 << k, half = power >> 8;
        for (int64_t beside = -1; beside <= 1; beside++) {
            double nearest = (double)(beside > 0 ? power + 2 * half : power);
            uint64_t bits = number_from_int(DT_BF16, power + half + beside);
            assert_true(number_to_double(DT_BF16, bits) == nearest);
            bits = number_from_int(DT_BF16, -power - half - beside);
            assert_true(number_to_double(DT_BF16, bits) == -nearest);
        }
    }
    for (int k = 24; k < 63; k++) {
        int64_t power = (int64_t)1 << k, half = power >> 24;
        for (int64_t odd = 1; odd <= 3; odd += 2) {
            for (int64_t beside = -1; beside <= 1; beside++) {
                expect_float_of(power + odd * half + beside);
                expect_float_of(-power - odd * half + beside);
            }
        }
    }
}

/* Each type's limits as doubles, and as elements: infinities where it has them. */
static void test_limits_of_types(void **state)
{
    static const struct {
        DType type;
        double least, most;
        bool infinite;
    } rows[] = {
        {DT_PRED, 0, 1, false},
        {DT_S8, -128, 127, false},
        {DT_U8, 0, 255, false},
        {DT_S1, -1, 0, false},
        {DT_U1, 0, 1, false},
        {DT_S32, -0x1p31, 0x1p31 - 1, false},
        {DT_U32, 0, 0x1p32 - 1, false},
        {DT_S64, -0x1p63, 0x1p63, false},
        {DT_U64, 0, 0x1p64, false},
        {DT_F16, -65504, 65504, true},
        {DT_F8E5M2, -57344, 57344, true},
        {DT_F8E4M3FN, -448, 448, false},
        {DT_F4E2M1FN, -6, 6, false},
        {DT_F8E8M0FNU, 0x1p-127, 0x1p127, false},
        {DT_C64, -0x1.fffffep127, 0x1.fffffep127, true},
        {DT_C128, -0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DType t = rows[i].type;
        uint64_t element[2] = {0};
        assert_true(number_min_finite(t) == rows[i].least);
        assert_true(number_max_finite(t) == rows[i].most);
        number_lowest(t, element);
        assert_true(number_get_double(t, element) ==
                    (rows[i].infinite ? -(double)INFINITY : rows[i].least));
        memset(element, 0, sizeof element);
        number_highest(t, element);
        assert_true(number_get_double(t, element) ==
                    (rows[i].infinite ? (double)INFINITY : rows[i].most));
    }
    double pair[2];
    float imaginary[2] = {0};
    number_lowest(DT_C64, imaginary);
    number_get_complex(DT_C64, imaginary, pair);
    assert_true(isinf(pair[1]) && pair[1] < 0);
}

static void test_set_int(void **state)
{
    static const struct {
        DType type;
        int64_t value;
        double got;
    } rows[] = {
        {DT_PRED, 0, 0},   {DT_PRED, 1, 1},  {DT_PRED, 2, 1},      {DT_PRED, -256, 1},
        {DT_S8, 200, -56}, {DT_U8, -1, 255}, {DT_C64, -7, -7},     {DT_C128, 9, 9},
        {DT_F16, 3, 3},    {DT_S4, 9, -7},   {DT_U64, -1, 0x1p64},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t element[2] = {UINT64_MAX, UINT64_MAX};
        number_set_int(rows[i].type, element, rows[i].value);
        assert_true(number_get_double(rows[i].type, element) == rows[i].got);
        double pair[2] = {0};
        if (dtype_info[rows[i].type].class == DTC_COMPLEX)
            number_get_complex(rows[i].type, element, pair);
        assert_true(pair[1] == 0);
    }
}

/* Of bytes that end where the text does, for the sanitizer. */
static NumberStatus parse(DType t, const char *text, size_t length, void *element)
{
    char *copy = malloc(length + 1);
    memcpy(copy + 1, text, length);
    NumberStatus st = number_parse(t, copy + 1, length, element);
    free(copy);
    return st;
}

static void expect_text(DType t, const char *text, const char *printed)
{
    char element[16] = {0}, out[NUMBER_TEXT_MAX];
    NumberStatus st = parse(t, text, strlen(text), element);
    if (printed == NULL) {
        assert_int_not_equal(st, NUMBER_OK);
        number_status_text(st, t, text, strlen(text), out, sizeof out);
        assert_true(strlen(out) > 10);
        return;
    }
    assert_int_equal(st, NUMBER_OK);
    size_t length = number_print(t, element, true, out);
    assert_string_equal(out, printed);
    assert_int_equal(length, strlen(out));
}

static void test_text(void **state)
{
    (void)state;
    static const struct {
        DType type;
        const char *text, *printed; /* NULL: an error */
    } rows[] = {
        {DT_F32, "1", "1"},
        {DT_F32, "1.0", "1"},
        {DT_F32, "-0", "-0"},
        {DT_F32, "-0.0", "-0"},
        {DT_F32, "0.1", "0.1"},
        {DT_F32, "1e10", "1e+10"},
        {DT_F32, "123456", "123456"},
        {DT_F32, "1234567", "1234567"},
        {DT_F32, "0.693115234", "0.693115234"},
        {DT_F32, "1e-5", "1e-05"},
        {DT_F32, "0.0001", "0.0001"},
        {DT_F32, "3.40282347e+38", "3.40282347e+38"},
        {DT_F32, "3.5e38", NULL},
        {DT_F32, "1e-50", "0"},
        {DT_F32, "1e400", NULL},
        {DT_F32, "inf", "inf"},
        {DT_F32, "-inf", "-inf"},
        {DT_F32, "nan", "nan"},
        {DT_F32, "-nan", "-nan"},
        {DT_F32, "nan(0x1)", "nan(0x1)"},
        {DT_F32, "nan(0x400000)", "nan"},
        {DT_F32, "nan(0x800000)", NULL},
        {DT_F32, "nan(0x0)", NULL},
        {DT_F32, "nan(0x)", NULL},
        {DT_F32, "nanx", NULL},
        {DT_F32, "nan()", NULL},
        {DT_F32, "nan(0x1", NULL},
        {DT_F32, "nan(0xg)", NULL},
        {DT_F32, "nan(0xaB)", "nan(0xab)"},
        {DT_F32, "nan(0x10000000000000001)", NULL},
        {DT_F32, "1e", NULL},
        {DT_F32, "1e+", NULL},
        {DT_F32, "1E+2", "100"},
        {DT_F32, ".", NULL},
        {DT_F32, "1x", NULL},
        {DT_F32, "true", NULL},
        {DT_F32, "x", NULL},
        {DT_F32, "0.693147182", "0.693147182"},
        {DT_F32, "0e100", "0"},
        {DT_F32, "-0e100", "-0"},
        {DT_F32, "", NULL},
        {DT_F32, "-", NULL},
        {DT_S32, "0", "0"},
        {DT_S64, "-18446744073709551615", NULL},
        {DT_BF16, "-1e5", "-9.984e+04"},
        {DT_F64, "0.1", "0.1"},
        {DT_F64, "0.3333333333333333", "0.33333333333333331"},
        {DT_F64, "1e308", "1e+308"},
        {DT_F64, "4.9e-324", "4.94065645841247e-324"},
        {DT_F64, "123456789012345678", "1.2345678901234568e+17"},
        {DT_F64, "-nan(0x7ffffffffffff)", "-nan(0x7ffffffffffff)"},
        {DT_F16, "65519", "65504"},
        {DT_F16, "65520", NULL},
        {DT_F16, "0.1", "0.099976"},
        {DT_F16, "nan(0x3)", "nan(0x3)"},
        {DT_BF16, "3.14159", "3.141"},
        {DT_BF16, "1e5", "9.984e+04"},
        {DT_F8E4M3FN, "448", "448"},
        {DT_F8E4M3FN, "464", "448"},
        {DT_F8E4M3FN, "465", NULL},
        {DT_F8E4M3FN, "inf", "nan"},
        {DT_F8E4M3FN, "nan(0x1)", NULL},
        {DT_F8E4M3FNUZ, "nan", "-nan"},
        {DT_F8E5M2, "100", "96"},
        {DT_F8E5M2, "57344", "5.7e+04"},
        {DT_F8E5M2, "nan(0x3)", "nan(0x3)"},
        {DT_F4E2M1FN, "-6", "-6"},
        {DT_F4E2M1FN, "7", "6"},
        {DT_F8E8M0FNU, "5.87747e-39", "5.9e-39"},
        {DT_F8E8M0FNU, "nan", "nan"},
        {DT_F8E8M0FNU, "-1", NULL},
        {DT_S8, "-128", "-128"},
        {DT_S8, "128", NULL},
        {DT_S8, "1.0", NULL},
        {DT_S8, "nan", NULL},
        {DT_S4, "-8", "-8"},
        {DT_S4, "8", NULL},
        {DT_U4, "15", "15"},
        {DT_S1, "-1", "-1"},
        {DT_S1, "1", NULL},
        {DT_U1, "1", "1"},
        {DT_U32, "-1", NULL},
        {DT_U32, "4294967295", "4294967295"},
        {DT_U32, "4294967296", NULL},
        {DT_S64, "-9223372036854775808", "-9223372036854775808"},
        {DT_S64, "9223372036854775807", "9223372036854775807"},
        {DT_S64, "18446744073709551615", "-1"}, /* a pattern of 64 bits */
        {DT_S64, "9223372036854775808", "-9223372036854775808"},
        {DT_S32, "18446744073709551615", "-1"},
        {DT_S32, "9223372036854775808", NULL},
        {DT_U64, "18446744073709551615", "18446744073709551615"},
        {DT_U64, "18446744073709551616", NULL},
        {DT_U64, "-1", "18446744073709551615"},
        {DT_U64, "-9223372036854775808", "9223372036854775808"},
        {DT_U64, "-9223372036854775809", NULL},
        {DT_U32, "-0", "0"},
        {DT_U8, "256", NULL},
        {DT_S32, "-", NULL},
        {DT_S32, "", NULL},
        {DT_S32, "18446744071562067967", NULL},
        {DT_S32, "18446744071562067968", "-2147483648"},
        {DT_PRED, "true", "true"},
        {DT_PRED, "false", "false"},
        {DT_PRED, "2", "true"},
        {DT_PRED, "0", "false"},
        {DT_PRED, "0.5", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_text(rows[i].type, rows[i].text, rows[i].printed);
    float pair[2] = {1.5f, -0.0f};
    char out[NUMBER_TEXT_MAX];
    number_print(DT_C64, pair, true, out);
    assert_string_equal(out, "(1.5, -0)");
    number_set_double(DT_C64, pair, -2);
    number_print(DT_C64, pair, true, out);
    assert_string_equal(out, "(-2, 0)");
    uint8_t one = 1;
    number_print(DT_PRED, &one, false, out);
    assert_string_equal(out, "1");
}

static void test_status(void **state)
{
    static const struct {
        DType type;
        const char *text;
        NumberStatus status;
    } rows[] = {
        {DT_F32, "nan(0x)", NUMBER_SYNTAX},
        {DT_F32, "nan(0x1", NUMBER_SYNTAX},
        {DT_F32, "nan(1)", NUMBER_SYNTAX},
        {DT_F32, "nan(0xg)", NUMBER_SYNTAX},
        {DT_F32, "nan(0x1)x", NUMBER_SYNTAX},
        {DT_F32, "nan(0x0)", NUMBER_PAYLOAD},
        {DT_F32, "nan(0x800000)", NUMBER_PAYLOAD},
        {DT_F64, "nan(0x10000000000000001)", NUMBER_PAYLOAD},
        {DT_F64, "nan(0xfffffffffffff)", NUMBER_OK},
        {DT_F64, "nan(0x10000000000000)", NUMBER_PAYLOAD},
        {DT_F8E4M3FN, "nan(0x1)", NUMBER_NO_PAYLOAD},
        {DT_F8E4M3FN, "465", NUMBER_RANGE},
        {DT_F32, "3.5e38", NUMBER_RANGE},
        {DT_F64, "1e400", NUMBER_RANGE_DOUBLE},
        {DT_F64, "-1e99999999999", NUMBER_RANGE_DOUBLE},
        {DT_F64, "1e-99999999999", NUMBER_OK},
        {DT_F32, "", NUMBER_SYNTAX},
        {DT_F32, "-", NUMBER_SYNTAX},
        {DT_F32, "infx", NUMBER_SYNTAX},
        {DT_F32, "na", NUMBER_SYNTAX},
        {DT_F32, "true", NUMBER_NOT_BOOL},
        {DT_S32, "false", NUMBER_NOT_BOOL},
        {DT_S32, "", NUMBER_SYNTAX},
        {DT_S32, "-", NUMBER_SYNTAX},
        {DT_S32, "1.0", NUMBER_NOT_INTEGER},
        {DT_S8, "128", NUMBER_RANGE},
        {DT_S8, "-129", NUMBER_RANGE},
        {DT_S64, "-9223372036854775809", NUMBER_RANGE},
        {DT_S64, "99999999999999999999", NUMBER_RANGE},
        {DT_PRED, "0.5", NUMBER_NOT_BOOL},
        {DT_PRED, "x", NUMBER_NOT_BOOL},
        {DT_PRED, "-", NUMBER_SYNTAX},
        {DT_C64, "1", NUMBER_SYNTAX},
        {DT_TUPLE, "1", NUMBER_SYNTAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char element[16] = {0};
        NumberStatus st =
            parse(rows[i].type, rows[i].text, strlen(rows[i].text), element);
        if (st != rows[i].status)
            fail_msg("%s: status %d, not %d", rows[i].text, (int)st, (int)rows[i].status);
    }
    static const char *const truths[] = {"true", "2", "-1", "18446744073709551615"};
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        uint8_t truth = 0xa5;
        assert_int_equal(parse(DT_PRED, truths[i], strlen(truths[i]), &truth), NUMBER_OK);
        assert_int_equal(truth, 1);
    }
    float x = 0; /* a text ends where its length says */
    assert_int_equal(parse(DT_F32, "1.5e3", 1, &x), NUMBER_OK);
    assert_true(x == 1);
    assert_int_equal(parse(DT_F32, "1.5e3", 3, &x), NUMBER_OK);
    assert_true(x == 1.5f);
    assert_int_equal(parse(DT_F32, "1.5e3", 2, &x), NUMBER_OK);
    assert_true(x == 1);
}

/* Each status, in full. */
static void test_status_words(void **state)
{
    static const struct {
        NumberStatus status;
        DType type;
        const char *text, *says;
    } rows[] = {
        {NUMBER_OK, DT_S8, "1", "no error"},
        {NUMBER_SYNTAX, DT_F8E4M3B11FNUZ, "x",
         "expects a value of type F8E4M3B11FNUZ, but sees 'x'"},
        {NUMBER_NOT_INTEGER, DT_U4, "x", "expects integer for primitive type: U4"},
        {NUMBER_NOT_BOOL, DT_PRED, "x",
         "expects 'true', 'false' or an integer for primitive type: PRED"},
        {NUMBER_NOT_BOOL, DT_S8, "true",
         "'true' and 'false' are no values of primitive type: S8"},
        {NUMBER_RANGE, DT_BF16, "1e39",
         "value 1e39 is out of range for literal's primitive type BF16, namely "
         "[-3.38953e+38, 3.38953e+38]."},
        {NUMBER_RANGE, DT_U32, "-1",
         "value -1 is out of range for literal's primitive type U32, namely [0, "
         "4294967295]."},
        {NUMBER_RANGE_DOUBLE, DT_F32, "1e400",
         "Constant is out of range for double (+/-1.79769e+308) and so is unparsable."},
        {NUMBER_NO_PAYLOAD, DT_F8E4M3FN, "nan(0x1)",
         "a NaN of primitive type F8E4M3FN has no payload"},
        {NUMBER_PAYLOAD, DT_F32, "nan(0x0)",
         "the payload of a NaN of primitive type F32 has 1 to 23 bits"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[256];
        number_status_text(rows[i].status, rows[i].type, rows[i].text,
                           strlen(rows[i].text), out, sizeof out);
        assert_string_equal(out, rows[i].says);
    }
}

static void test_status_text(void **state)
{
    (void)state;
    char out[256];
    number_status_text(NUMBER_RANGE, DT_S8, "300", 3, out, sizeof out);
    assert_string_equal(
        out,
        "value 300 is out of range for literal's primitive type S8, namely [-128, 127].");
    number_status_text(NUMBER_NOT_INTEGER, DT_S32, "1.5", 3, out, sizeof out);
    assert_string_equal(out, "expects integer for primitive type: S32");
    char text[62], quoted[80];
    memset(text, 'x', 61);
    text[61] = '\0';
    snprintf(quoted, sizeof quoted, "'%.60s'", text);
    number_status_text(NUMBER_SYNTAX, DT_S32, text, 60, out, sizeof out);
    assert_non_null(strstr(out, quoted));
    snprintf(quoted, sizeof quoted, "'%.60s...'", text);
    number_status_text(NUMBER_SYNTAX, DT_S32, text, 61, out, sizeof out);
    assert_non_null(strstr(out, quoted));
}

/* Whatever is printed reads back as the same code, for every code of 16 bits and less. */
static void test_text_round_trip(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        DType t = formats[k];
        for (unsigned code = 0; code < 1u << dtype_info[t].bits; code++) {
            uint16_t element = 0, again = 0;
            char out[NUMBER_TEXT_MAX];
            number_store(t, &element, code);
            size_t length = number_print(t, &element, true, out);
            assert_int_equal(number_parse(t, out, length, &again), NUMBER_OK);
            assert_int_equal(again, element);
        }
    }
}

static void test_long_decimals(void **state)
{
    (void)state;
    char text[2000] = "0.";
    double x;
    memset(text + 2, '0', 1500);
    strcpy(text + 1502, "1e1500");
    assert_true(number_parse_double(text, strlen(text), &x) && x == 0.1);
    /* 1 + 2^-53 is a tie; one more digit far behind decides. */
    strcpy(text, "1.00000000000000011102230246251565404236316680908203125");
    assert_true(number_parse_double(text, strlen(text), &x) && x == 1);
    size_t length = strlen(text);
    memset(text + length, '0', 1000);
    strcpy(text + length + 1000, "1");
    assert_true(number_parse_double(text, strlen(text), &x) && x == 1 + 0x1p-52);
    text[length + 1000] = '\0'; /* without it, the tie goes to the even one */
    assert_true(number_parse_double(text, strlen(text), &x) && x == 1);
    memset(text, '0', 1000); /* digits that are not kept count, too */
    text[0] = '2';
    strcpy(text + 1000, "e-999");
    assert_true(number_parse_double(text, strlen(text), &x) && x == 2);
    assert_false(number_parse_double("1e", 2, &x));
    assert_false(number_parse_double(".", 1, &x));
    assert_true(number_parse_double("1e-99999999999999999999", 23, &x) && x == 0);
}

static void test_packing(void **state)
{
    (void)state;
    int8_t values[5] = {1, -2, 7, -8, 3}, back[5];
    uint8_t packed[3];
    assert_int_equal(number_packed_bytes(DT_S4, 5), 3);
    assert_int_equal(number_packed_bytes(DT_S2, 5), 2);
    assert_int_equal(number_packed_bytes(DT_F32, 5), 20);
    number_pack(DT_S4, packed, values, 5);
    assert_int_equal(packed[0], 0xe1);
    assert_int_equal(packed[1], 0x87);
    assert_int_equal(packed[2], 0x03);
    number_unpack(DT_S4, back, packed, 5);
    assert_memory_equal(values, back, 5);
    uint8_t twos[5] = {3, 0, 1, 2, 1}, again[5];
    number_pack(DT_U2, packed, twos, 5);
    assert_int_equal(packed[0], 0x93);
    assert_int_equal(packed[1], 0x01);
    number_unpack(DT_U2, again, packed, 5);
    assert_memory_equal(twos, again, 5);
}

static void test_dtype(void **state)
{
    (void)state;
    DType t;
    assert_true(dtype_from_name("f8e4m3fn", 8, &t) && t == DT_F8E4M3FN);
    assert_true(dtype_from_name("f8e4m3fnuz", 6, &t) && t == DT_F8E4M3);
    assert_false(dtype_from_name("tuple", 5, &t));
    assert_false(dtype_from_name("f3", 2, &t));
    assert_true(dtype_from_proto(16, &t) && t == DT_BF16);
    assert_false(dtype_from_proto(0, &t));
    assert_int_equal(dtype_higher_precision(DT_BF16, DT_F16), DT_BF16);
    assert_int_equal(dtype_higher_precision(DT_S32, DT_F8E4M3), DT_F8E4M3);
    assert_int_equal(dtype_higher_precision(DT_U32, DT_S32), DT_S32);
    assert_int_equal(dtype_higher_precision(DT_C64, DT_F64), DT_C64);
    assert_true(number_tolerance(DT_S32).rtol == 0);
    assert_true(number_tolerance(DT_F8E4M3FN).rtol == 0.125);
    assert_true(number_tolerance(DT_C64).rtol == number_tolerance(DT_F32).rtol);
    assert_true(number_tolerance(DT_C128).rtol == number_tolerance(DT_F64).rtol);
    assert_true(number_tolerance(DT_PRED).atol == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_one_rounding),
        cmocka_unit_test(test_float_fast_paths),
        cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_of_types),
        cmocka_unit_test(test_from_int),
        cmocka_unit_test(test_set_int),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_words),
        cmocka_unit_test(test_status_text),
        cmocka_unit_test(test_text_round_trip),
        cmocka_unit_test(test_long_decimals),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
