/* convert() of arrays from each type to each, against what the language says of one element; and limits, stores and
 * packing of each type. */
#include "ir/number/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 600, WIDEST = 16, UNTOUCHED = 0xa5 };

static bool is_number(DType t)
{
    return dtype_info[t].class != DTC_OTHER;
}

/* The bits of a type's element that is no pair. */
static uint64_t mask_of(DType t)
{
    return ~UINT64_C(0) >> (64 - dtype_info[t].bits);
}

/* Element i of those that are converted: of floats also NaN, infinities and what no integer holds. */
static void set_element(DType t, void *element, size_t i)
{
    static const double values[] = {
        0,    1,     -1,      1.5,   -1.9, 127,    128,     -128,   -129, 100,    255,
        256,  -0.25, 2e9,     3e9,   -3e9, 0x1p31, -0x1p31, 1e10,   1e19, 0x1p63, -1e19,
        1e30, -1e30, 0x1p-40, 65504, 7,    -8,     15,      0x1p64, 3,    -2};
    enum { VALUES = sizeof values / sizeof *values };
    size_t k = i % (VALUES + 3);
    double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    double x = k < VALUES ? values[k] : special[k - VALUES];
    bool is_integer = dtype_info[t].class == DTC_SINT || dtype_info[t].class == DTC_UINT;
    if (dtype_info[t].class == DTC_COMPLEX)
        number_set_complex(t, element, x, i % 3 ? 0 : (double)i);
    else if (is_integer && i % 2)
        number_set_int(t, element, (int64_t)(i * i * UINT64_C(0x9e3779b97f4a7c15)));
    else
        number_set_double(t, element, x);
}

/* The integer of type t that is nearest to x on the side of zero; 0 of a NaN. */
static uint64_t truncated(DType t, double x)
{
    bool is_signed = dtype_info[t].class == DTC_SINT;
    double above = ldexp(1, dtype_info[t].bits - is_signed);
    uint64_t most = mask_of(t) >> is_signed;
    if (isnan(x))
        return 0;
    if (x >= above)
        return most;
    if (x < 0)
        return !is_signed ? 0 : x <= -above ? ~most : (uint64_t)(int64_t)x;
    return (uint64_t)x;
}

/* One element that is not complex. */
static uint64_t converted(DType to, DType from, const void *element)
{
    DTypeClass class = dtype_info[from].class;
    double x = number_get_double(from, element);
    if (dtype_info[to].class == DTC_PRED)
        return class == DTC_FLOAT ? x != 0 : number_load(from, element) != 0;
    if (dtype_info[to].class == DTC_FLOAT && class == DTC_FLOAT)
        return number_from_double(to, x);
    if (dtype_info[to].class == DTC_FLOAT)
        return class == DTC_UINT ? number_from_uint(to, number_load(from, element))
                                 : number_from_int(to, number_get_int(from, element));
    uint64_t bits =
        class == DTC_FLOAT ? truncated(to, x) : (uint64_t)number_get_int(from, element);
    return bits & mask_of(to);
}

static uint64_t low_bits(DType t, const void *element)
{
    return number_load(t, element) & mask_of(t);
}

static void expect_one(DType to, const unsigned char *got, DType from,
                       const unsigned char *in)
{
    DType part = number_component(to);
    uint64_t want = converted(part, number_component(from), in);
    bool is_nan =
        dtype_info[part].class == DTC_FLOAT && isnan(number_to_double(part, want));
    if (is_nan ? !number_is_nan(part, got) : low_bits(part, got) != want)
        fail_msg("%s of %s %.17g: %llx, not %llx", dtype_info[to].name,
                 dtype_info[from].name, number_get_double(from, in),
                 (unsigned long long)low_bits(part, got), (unsigned long long)want);
}

static void expect_element(DType to, const unsigned char *got, DType from,
                           const unsigned char *in)
{
    bool was_complex = dtype_info[from].class == DTC_COMPLEX;
    if (to == DT_PRED && was_complex) {
        double pair[2];
        number_get_complex(from, in, pair);
        assert_int_equal(*got, pair[0] != 0 || pair[1] != 0);
        return;
    }
    expect_one(to, got, from, in);
    if (dtype_info[to].class != DTC_COMPLEX)
        return;
    size_t half = dtype_info[to].storage / 2;
    if (was_complex)
        expect_one(to, got + half, from, in + dtype_info[from].storage / 2);
    else
        assert_true(number_get_double(number_component(to), got + half) == 0);
}

static void expect_converted(DType to, DType from, size_t n)
{
    static unsigned char in[MOST * WIDEST], out[(MOST + 1) * WIDEST];
    size_t from_size = dtype_info[from].storage, to_size = dtype_info[to].storage;
    memset(in, 0, sizeof in);
    for (size_t i = 0; i < n; i++)
        set_element(from, in + i * from_size, i);
    memset(out, UNTOUCHED, sizeof out);
    number_convert(to, out, from, in, n);
    for (size_t i = 0; i < n; i++)
        expect_element(to, out + i * to_size, from, in + i * from_size);
    assert_int_equal(out[n * to_size], UNTOUCHED);
}

static void test_pairs(void **state)
{
    static const size_t counts[] = {1, 255, 256, 257, MOST};
    (void)state;
    for (DType from = 0; from < DT_COUNT; from++) {
        for (DType to = 0; to < DT_COUNT && is_number(from); to++) {
            for (size_t i = 0; i < sizeof counts / sizeof *counts && is_number(to); i++)
                expect_converted(to, from, counts[i]);
        }
    }
}

static void test_saturate(void **state)
{
    (void)state;
    for (DType t = 0; t < DT_COUNT; t++) {
        if (dtype_info[t].class != DTC_SINT && dtype_info[t].class != DTC_UINT)
            continue;
        int bits = dtype_info[t].bits;
        for (int k = -2; k <= bits; k++) {
            for (int beside = -1; beside <= 1; beside++) {
                double x = nextafter(ldexp(1, k), beside * 1e300);
                x = beside ? x : ldexp(1, k);
                uint64_t mask = mask_of(t);
                assert_true((number_saturate(t, x) & mask) == (truncated(t, x) & mask));
                assert_true((number_saturate(t, -x) & mask) == (truncated(t, -x) & mask));
            }
        }
    }
}

/* Bits above a type's own are neither kept nor read. */
static void test_store(void **state)
{
    static const struct {
        DType type;
        uint64_t bits;
        unsigned stored;
    } rows[] = {
        {DT_U1, 3, 1},
        {DT_U2, 7, 3},
        {DT_U4, 0xff, 0xf},
        {DT_U4, 0x1f, 0xf},
        {DT_S4, 7, 7},
        {DT_S4, 8, 0xf8},
        {DT_S4, 0x17, 7},
        {DT_S2, 2, 0xfe},
        {DT_S1, 1, 0xff},
        {DT_S1, 2, 0},
        {DT_S8, 0x180, 0x80},
        {DT_U8, 0x1ff, 0xff},
        {DT_F4E2M1FN, 0x1f, 0xf},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char bytes[2] = {0, UNTOUCHED};
        number_store(rows[i].type, bytes, rows[i].bits);
        assert_int_equal(bytes[0], rows[i].stored);
        assert_int_equal(bytes[1], UNTOUCHED);
    }
    assert_true(number_to_double(DT_F8E8M0FNU, 0x17f) == 1);
    uint8_t truth = UNTOUCHED;
    number_highest(DT_PRED, &truth);
    assert_int_equal(truth, 1);
}

/* What is no number has no value. */
static void test_no_number(void **state)
{
    char out[NUMBER_TEXT_MAX] = "x", element[WIDEST] = {1, 1, 1, 1};
    (void)state;
    assert_true(number_get_double(DT_TUPLE, element) == 0);
    assert_int_equal(number_get_int(DT_TUPLE, element), 0);
    assert_true(number_max_finite(DT_TUPLE) == 0);
    assert_true(number_min_finite(DT_TUPLE) == 0);
    assert_int_equal(number_print(DT_TUPLE, element, true, out), 0);
    assert_string_equal(out, "");
    assert_int_equal(number_from_double(DT_S32, 7), 0);
    assert_true(number_to_double(DT_S32, 7) == 0);
    assert_int_equal(number_from_int(DT_BF16, 0), 0); /* not -0 */
    assert_int_equal(number_from_uint(DT_BF16, 0), 0);
}

static void test_is_nan(void **state)
{
    static const struct {
        double re, im;
        bool is_nan;
    } rows[] = {{0, 0, false},
                {(double)NAN, 0, true},
                {0, (double)NAN, true},
                {(double)INFINITY, -(double)INFINITY, false}};
    char element[WIDEST];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        number_set_complex(DT_C64, element, rows[i].re, rows[i].im);
        assert_int_equal(number_is_nan(DT_C64, element), rows[i].is_nan);
        number_set_complex(DT_C128, element, rows[i].re, rows[i].im);
        assert_int_equal(number_is_nan(DT_C128, element), rows[i].is_nan);
        number_set_double(DT_BF16, element, rows[i].re);
        assert_int_equal(number_is_nan(DT_BF16, element), isnan(rows[i].re));
    }
    memset(element, 0xff, sizeof element);
    assert_false(number_is_nan(DT_S32, element));
    assert_false(number_is_nan(DT_PRED, element));
    assert_true(number_is_nan(DT_F32, element));
}

static void test_fits(void **state)
{
    static const struct {
        DType type;
        double value;
        bool fits;
    } rows[] = {
        {DT_F8E8M0FNU, (double)INFINITY, true},
        {DT_F8E8M0FNU, (double)NAN, true},
        {DT_F8E8M0FNU, 0x1.7p127, true},
        {DT_F8E8M0FNU, 0x1.8p127, false},
        {DT_F8E8M0FNU, -1, false},
        {DT_F8E8M0FNU, 0, false},
        {DT_F8E8M0FNU, 0x1p-130, true},
        {DT_F32, 0x1.fffffep127, true},
        {DT_F32, 0x1p128, false},
        {DT_F32, (double)INFINITY, true},
        {DT_F64, 1e308, true},
        {DT_F16, (double)NAN, true},
        {DT_F16, 65520, false},
        {DT_F16, -65519, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (number_fits(rows[i].type, rows[i].value) != rows[i].fits)
            fail_msg("%s %g", dtype_info[rows[i].type].name, rows[i].value);
    }
    assert_true(number_least_positive(DT_F8E8M0FNU) == 0x1p-127);
    assert_true(number_least_positive(DT_F16) == 0x1p-24);
    assert_true(number_least_positive(DT_F64) == 0x1p-1074);
}

/* Packed and back, of each type of less than a byte, by as many bits as there are; the rest of the last byte is 0. */
static void test_packed(void **state)
{
    (void)state;
    for (DType t = 0; t < DT_COUNT; t++) {
        size_t bits = dtype_info[t].bits;
        if (!is_number(t) || bits >= 8 || t == DT_PRED)
            continue;
        bool is_packed = bits == 1 || bits == 2 || bits == 4;
        for (size_t n = 0; n <= 17; n++) {
            unsigned char from[17], packed[18], back[18];
            memset(packed, UNTOUCHED, sizeof packed);
            memset(back, UNTOUCHED, sizeof back);
            for (size_t i = 0; i < n; i++)
                number_store(t, from + i, i * 5 + 3);
            size_t bytes = number_packed_bytes(t, n);
            assert_int_equal(bytes, is_packed ? n * bits / 8 + (n * bits % 8 != 0) : n);
            number_pack(t, packed, from, n);
            number_unpack(t, back, packed, n);
            assert_memory_equal(back, from, n);
            assert_int_equal(back[n], UNTOUCHED);
            assert_int_equal(packed[bytes], UNTOUCHED);
            if (is_packed && n * bits % 8)
                assert_int_equal(packed[bytes - 1] >> n * bits % 8, 0);
        }
    }
}

static void test_tolerance(void **state)
{
    static const struct {
        DType type;
        double rtol, atol;
    } rows[] = {
        {DT_F64, 1e-9, 1e-11},
        {DT_F32, 1e-4, 1e-5},
        {DT_F16, 4e-3, 1e-3},
        {DT_BF16, 3.2e-2, 8e-3},
        {DT_C64, 1e-4, 1e-5},
        {DT_C128, 1e-9, 1e-11},
        {DT_F8E5M2, 0.25, 0.03125},
        {DT_F8E4M3FN, 0.125, 0.015625},
        {DT_S8, 0, 0},
        {DT_U64, 0, 0},
        {DT_PRED, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tolerance got = number_tolerance(rows[i].type);
        assert_true(got.rtol == rows[i].rtol && got.atol == rows[i].atol);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_saturate),
        cmocka_unit_test(test_store),  cmocka_unit_test(test_no_number),
        cmocka_unit_test(test_is_nan), cmocka_unit_test(test_fits),
        cmocka_unit_test(test_packed), cmocka_unit_test(test_tolerance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
