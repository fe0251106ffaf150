/* Row kernels: specials of every opcode, wrap-around, types computed through wider ones, and
 * the exact versions against libm's. */
#include "ir/eval/scalar.h"

#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define INF (double)INFINITY
#define QNAN (double)NAN

static ScalarKernel kernel(OpCode op, DType in, DType out, bool exact)
{
    ScalarKernel k;
    assert_true(scalar_kernel(op, in, out, exact, &k));
    return k;
}

static bool same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

typedef struct {
    OpCode op;
    DType type;
    double a, b, want;
} Row;

static double apply(const ScalarKernel *k, double a, double b)
{
    char x[16] = {0}, y[16] = {0}, r[16] = {0};
    const void *in[3] = {x, y, NULL};
    number_set_double(k->in, x, a);
    number_set_double(k->in, y, b);
    k->run(r, in, 1, k);
    return number_get_double(k->out, r);
}

static void check_rows(const Row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (int exact = 0; exact < 2; exact++) {
            ScalarKernel k = kernel(rows[i].op, rows[i].type, rows[i].type, exact);
            double got = apply(&k, rows[i].a, rows[i].b);
            if (!same(got, rows[i].want))
                fail_msg("row %zu, exact %d: got %.17g, want %.17g", i, exact, got,
                         rows[i].want);
        }
    }
}

static void test_float(void **state)
{
    (void)state;
    static const Row rows[] = {
        {OP_ADD, DT_F32, 1, 2, 3},
        {OP_ADD, DT_F32, INF, -INF, QNAN},
        {OP_SUBTRACT, DT_F64, 1, 3, -2},
        {OP_MULTIPLY, DT_F32, 0x1p100, 0x1p100, INF},
        {OP_MULTIPLY, DT_F32, 0x1p-100, 0x1p-49, 0x1p-149},
        {OP_DIVIDE, DT_F32, 1, -0.0, -INF},
        {OP_DIVIDE, DT_F32, 0, 0, QNAN},
        {OP_REMAINDER, DT_F32, -5, 3, -2},
        {OP_REMAINDER, DT_F32, 5, INF, 5},
        {OP_REMAINDER, DT_F32, 5, 0, QNAN},
        {OP_MAXIMUM, DT_F32, -0.0, 0.0, 0.0},
        {OP_MAXIMUM, DT_F32, 0.0, -0.0, 0.0},
        {OP_MINIMUM, DT_F32, 0.0, -0.0, -0.0},
        {OP_MINIMUM, DT_F32, -0.0, 0.0, -0.0},
        {OP_MAXIMUM, DT_F32, QNAN, 1, QNAN},
        {OP_MAXIMUM, DT_F32, 1, QNAN, QNAN},
        {OP_MINIMUM, DT_F64, QNAN, 1, QNAN},
        {OP_MINIMUM, DT_F64, 1, QNAN, QNAN},
        {OP_MAXIMUM, DT_BF16, -2, INF, INF},
        {OP_ABS, DT_F32, -0.0, 0, 0},
        {OP_NEGATE, DT_F32, 0, 0, -0.0},
        {OP_NEGATE, DT_F8E4M3FNUZ, 0, 0, 0},
        {OP_SIGN, DT_F32, -0.0, 0, -0.0},
        {OP_SIGN, DT_F32, QNAN, 0, QNAN},
        {OP_SIGN, DT_F32, -INF, 0, -1},
        {OP_FLOOR, DT_F32, -0.5, 0, -1},
        {OP_CEIL, DT_F32, -0.5, 0, -0.0},
        {OP_ROUND_NEAREST_AFZ, DT_F32, 2.5, 0, 3},
        {OP_ROUND_NEAREST_AFZ, DT_F32, -0.5, 0, -1},
        {OP_ROUND_NEAREST_EVEN, DT_F32, 2.5, 0, 2},
        {OP_ROUND_NEAREST_EVEN, DT_F64, -0.5, 0, -0.0},
        {OP_SQRT, DT_F32, -1, 0, QNAN},
        {OP_SQRT, DT_F32, -0.0, 0, -0.0},
        {OP_RSQRT, DT_F32, -0.0, 0, -INF},
        {OP_RSQRT, DT_F32, 0, 0, INF},
        {OP_RSQRT, DT_F32, 0.25, 0, 2},
        {OP_CBRT, DT_F32, -27, 0, -3},
        {OP_EXPONENTIAL, DT_F32, 89, 0, INF},
        {OP_EXPONENTIAL, DT_F32, -INF, 0, 0},
        {OP_EXPONENTIAL, DT_F32, 0, 0, 1},
        {OP_EXPONENTIAL, DT_F32, -103.5, 0, 0x1p-149},
        {OP_EXPONENTIAL_MINUS_ONE, DT_F32, -0.0, 0, -0.0},
        {OP_EXPONENTIAL_MINUS_ONE, DT_F64, -INF, 0, -1},
        {OP_LOG, DT_F32, 0, 0, -INF},
        {OP_LOG, DT_F32, -1, 0, QNAN},
        {OP_LOG, DT_F32, 1, 0, 0},
        {OP_LOG_PLUS_ONE, DT_F32, -1, 0, -INF},
        {OP_LOG_PLUS_ONE, DT_F32, -0.0, 0, -0.0},
        {OP_LOGISTIC, DT_F32, 0, 0, 0.5},
        {OP_LOGISTIC, DT_F32, -INF, 0, 0},
        {OP_LOGISTIC, DT_F64, 40, 0, 1},
        {OP_SINE, DT_F32, -0.0, 0, -0.0},
        {OP_SINE, DT_F32, INF, 0, QNAN},
        {OP_COSINE, DT_F32, 0, 0, 1},
        {OP_TAN, DT_F32, 0, 0, 0},
        {OP_ASIN, DT_F32, 2, 0, QNAN},
        {OP_ACOS, DT_F32, 1, 0, 0},
        {OP_SINH, DT_F32, -INF, 0, -INF},
        {OP_COSH, DT_F32, -INF, 0, INF},
        {OP_TANH, DT_F32, INF, 0, 1},
        {OP_ASINH, DT_F32, -0.0, 0, -0.0},
        {OP_ACOSH, DT_F32, 0.5, 0, QNAN},
        {OP_ACOSH, DT_F32, 1, 0, 0},
        {OP_ATANH, DT_F32, -1, 0, -INF},
        {OP_ERF, DT_F32, INF, 0, 1},
        {OP_ERF, DT_F32, -0.0, 0, -0.0},
        {OP_ATAN2, DT_F32, 0, -0.0, (double)(float)3.14159265358979323846},
        {OP_ATAN2, DT_F32, -0.0, 0, -0.0},
        {OP_POWER, DT_F32, 1, QNAN, 1},
        {OP_POWER, DT_F32, QNAN, 0, 1},
        {OP_POWER, DT_F32, -2, 3, -8},
        {OP_POWER, DT_F32, -2, 0.5, QNAN},
        {OP_POWER, DT_F32, -0.0, -1, -INF},
        {OP_POWER, DT_F32, -1, INF, 1},
        {OP_ADD, DT_F16, 2048, 1, 2048},
        {OP_ADD, DT_F16, 65504, 16, INF},
        {OP_MULTIPLY, DT_F8E4M3FN, 448, 2, QNAN},
        {OP_ADD, DT_F8E5M2, 57344, 57344, INF},
        {OP_ADD, DT_F4E2M1FN, 4, 6, 6},
        {OP_REAL, DT_BF16, -2.5, 0, -2.5},
        {OP_IMAG, DT_F32, -2.5, 0, 0},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void test_nan_form(void **state)
{
    (void)state;
    ScalarKernel k = kernel(OP_SUBTRACT, DT_F32, DT_F32, false);
    float inf[1] = {INFINITY};
    uint32_t r;
    k.run(&r, (const void *[]){inf, inf}, 1, &k);
    assert_int_equal(r, 0x7fc00000);
    k = kernel(OP_NEGATE, DT_F32, DT_F32, false);
    k.run(&r, (const void *[]){&r}, 1, &k);
    assert_int_equal(r, 0xffc00000);
    /* a sign that changes leaves the payload, of every width */
    static const DType halves[] = {DT_F16, DT_BF16};
    for (size_t i = 0; i < 2; i++) {
        uint16_t nan = 0xffd3, out;
        k = kernel(OP_NEGATE, halves[i], halves[i], false);
        k.run(&out, (const void *[]){&nan}, 1, &k);
        assert_int_equal(out, 0x7fd3);
        k = kernel(OP_ABS, halves[i], halves[i], false);
        k.run(&out, (const void *[]){&nan}, 1, &k);
        assert_int_equal(out, 0x7fd3);
    }
}

static void test_int(void **state)
{
    (void)state;
    static const Row rows[] = {
        {OP_ADD, DT_S8, 127, 1, -128},
        {OP_SUBTRACT, DT_U8, 0, 1, 255},
        {OP_MULTIPLY, DT_S32, 65536, 65536, 0},
        {OP_MULTIPLY, DT_U16, 65535, 65535, 1},
        {OP_ADD, DT_S4, 7, 1, -8},
        {OP_MULTIPLY, DT_U4, 7, 7, 1},
        {OP_NEGATE, DT_S64, -0x1p63, 0, -0x1p63},
        {OP_ABS, DT_S8, -128, 0, -128},
        {OP_ABS, DT_S4, -8, 0, -8},
        {OP_DIVIDE, DT_S32, 7, 0, -1},
        {OP_DIVIDE, DT_U8, 7, 0, 255},
        {OP_DIVIDE, DT_U4, 7, 0, 15},
        {OP_DIVIDE, DT_S32, -0x1p31, -1, -0x1p31},
        {OP_DIVIDE, DT_S64, -0x1p63, -1, -0x1p63},
        {OP_DIVIDE, DT_S8, -7, 2, -3},
        {OP_REMAINDER, DT_S32, -7, 2, -1},
        {OP_REMAINDER, DT_S32, 7, 0, 7},
        {OP_REMAINDER, DT_S8, -128, -1, 0},
        {OP_REMAINDER, DT_U32, 7, 0, 7},
        {OP_POWER, DT_S32, 3, 4, 81},
        {OP_POWER, DT_S32, -1, -3, -1},
        {OP_POWER, DT_S32, 2, -1, 0},
        {OP_POWER, DT_S32, 0, 0, 1},
        {OP_POWER, DT_U8, 2, 8, 0},
        {OP_MAXIMUM, DT_S32, -1, 1, 1},
        {OP_MAXIMUM, DT_U8, 255, 1, 255},
        {OP_MINIMUM, DT_S4, -8, 7, -8},
        {OP_SIGN, DT_S16, -5, 0, -1},
        {OP_AND, DT_U8, 12, 10, 8},
        {OP_OR, DT_U8, 12, 10, 14},
        {OP_XOR, DT_U8, 12, 10, 6},
        {OP_NOT, DT_U8, 1, 0, 254},
        {OP_NOT, DT_U4, 1, 0, 14},
        {OP_NOT, DT_S4, 1, 0, -2},
        {OP_SHIFT_LEFT, DT_S32, 1, 31, -0x1p31},
        {OP_SHIFT_LEFT, DT_S32, 1, 32, 0},
        {OP_SHIFT_LEFT, DT_S32, 1, -1, 0},
        {OP_SHIFT_LEFT, DT_S4, 3, 2, -4},
        {OP_SHIFT_LEFT, DT_S4, 3, 4, 0},
        {OP_SHIFT_RIGHT_LOGICAL, DT_S32, -1, 28, 15},
        {OP_SHIFT_RIGHT_LOGICAL, DT_S8, -1, 8, 0},
        {OP_SHIFT_RIGHT_LOGICAL, DT_S4, -1, 1, 7},
        {OP_SHIFT_RIGHT_LOGICAL, DT_S4, -1, 0, -1},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_S32, -8, 1, -4},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_S32, -8, 99, -1},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_S32, 8, -1, 0},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_U8, 128, 1, 192},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_S4, -8, 5, -1},
        {OP_SHIFT_RIGHT_ARITHMETIC, DT_U4, 8, 1, 12},
        {OP_POPCNT, DT_S8, -1, 0, 8},
        {OP_POPCNT, DT_S4, -1, 0, 4},
        {OP_POPCNT, DT_U64, 0x1p63, 0, 1},
        {OP_COUNT_LEADING_ZEROS, DT_U32, 0, 0, 32},
        {OP_COUNT_LEADING_ZEROS, DT_S8, 1, 0, 7},
        {OP_COUNT_LEADING_ZEROS, DT_S64, -1, 0, 0},
        {OP_COUNT_LEADING_ZEROS, DT_U4, 1, 0, 3},
        {OP_MULHI, DT_S8, -128, 127, -64},
        {OP_MULHI, DT_U32, 0xffffffff, 0xffffffff, 0xfffffffe},
        {OP_MULHI, DT_U64, 0x1p63, 6, 3},
        {OP_MULHI, DT_S64, -0x1p62, 8, -2},
        {OP_MULHI, DT_S64, -1, 1, -1},
        {OP_MULHI, DT_U4, 15, 15, 14},
        {OP_ADD, DT_PRED, 1, 1, 1},
        {OP_MULTIPLY, DT_PRED, 1, 0, 0},
        {OP_XOR, DT_PRED, 1, 1, 0},
        {OP_NOT, DT_PRED, 1, 0, 0},
        {OP_MAXIMUM, DT_PRED, 1, 0, 1},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static bool compared(DType t, int64_t direction, bool total, double a, double b)
{
    ScalarKernel k = kernel(OP_COMPARE, t, DT_PRED, false);
    k.direction = direction;
    k.total_order = total;
    return apply(&k, a, b) != 0;
}

static void test_compare(void **state)
{
    (void)state;
    static const DType types[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_F8E5M2};
    static const double order[] = {-QNAN, -INF, -1, -0.0, 0.0, 1, INF, QNAN};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                double a = order[i], b = order[j];
                DType type = types[t];
                assert_int_equal(compared(type, DIRECTION_LT, true, a, b), i < j);
                assert_int_equal(compared(type, DIRECTION_GE, true, a, b), i >= j);
                assert_int_equal(compared(type, DIRECTION_EQ, true, a, b), i == j);
                assert_int_equal(compared(type, DIRECTION_EQ, false, a, b), a == b);
                assert_int_equal(compared(type, DIRECTION_NE, false, a, b), a != b);
                assert_int_equal(compared(type, DIRECTION_GE, false, a, b), a >= b);
                assert_int_equal(compared(type, DIRECTION_GT, false, a, b), a > b);
                assert_int_equal(compared(type, DIRECTION_LE, false, a, b), a <= b);
                assert_int_equal(compared(type, DIRECTION_LT, false, a, b), a < b);
            }
    assert_true(compared(DT_S8, DIRECTION_LT, false, -1, 1));
    assert_true(compared(DT_U8, DIRECTION_GT, false, 255, 1));
    assert_true(compared(DT_S4, DIRECTION_LT, false, -8, 7));
    assert_true(compared(DT_PRED, DIRECTION_NE, false, 1, 0));
    assert_true(compared(DT_C64, DIRECTION_EQ, false, 2, 2));
    assert_true(compared(DT_C128, DIRECTION_NE, false, QNAN, QNAN));
}

static void test_clamp_select(void **state)
{
    (void)state;
    float low[1] = {-1}, x[5] = {-3, 0.5f, 9, NAN, -0.0f}, high[1] = {2}, r[5];
    ScalarKernel k = kernel(OP_CLAMP, DT_F32, DT_F32, false);
    k.single = 1 | 4;
    k.run(r, (const void *[]){low, x, high}, 5, &k);
    assert_true(r[0] == -1 && r[1] == 0.5f && r[2] == 2 && isnan(r[3]) && r[4] == 0);
    float bad[1] = {NAN};
    k.run(r, (const void *[]){low, x, bad}, 5, &k);
    assert_true(isnan(r[0]) && isnan(r[4]));
    uint16_t half[5], half_low, half_high, half_result[5];
    number_convert(DT_F16, half, DT_F32, x, 5);
    number_convert(DT_F16, &half_low, DT_F32, low, 1);
    number_convert(DT_F16, &half_high, DT_F32, high, 1);
    k = kernel(OP_CLAMP, DT_F16, DT_F16, false);
    k.single = 1 | 4;
    k.run(half_result, (const void *[]){&half_low, half, &half_high}, 5, &k);
    number_convert(DT_F32, r, DT_F16, half_result, 5);
    assert_true(r[0] == -1 && r[2] == 2 && isnan(r[3]));
    int8_t four[3] = {-8, 0, 7}, bottom = -2, top = 3, clamped[3];
    k = kernel(OP_CLAMP, DT_S4, DT_S4, false);
    k.single = 1 | 4;
    k.run(clamped, (const void *[]){&bottom, four, &top}, 3, &k);
    assert_true(clamped[0] == -2 && clamped[1] == 0 && clamped[2] == 3);
    static const DType types[] = {DT_PRED, DT_F16, DT_S32, DT_C64, DT_C128, DT_S4};
    for (size_t t = 0; t < 6; t++) {
        char a[32] = {0}, b[32] = {0}, out[32];
        uint8_t which[2] = {1, 0};
        size_t step = dtype_storage_bytes(types[t]);
        memset(a, 1, 2 * step);
        memset(b, 0, 2 * step);
        k = kernel(OP_SELECT, types[t], types[t], false);
        k.run(out, (const void *[]){which, a, b}, 2, &k);
        assert_memory_equal(out, a, step);
        assert_memory_equal(out + step, b, step);
        k.single = 1;
        k.run(out, (const void *[]){which, a, b}, 2, &k);
        assert_memory_equal(out, a, 2 * step);
    }
}

static void test_bitcast(void **state)
{
    (void)state;
    float one[2] = {1, -2};
    uint32_t bits[2];
    ScalarKernel k = kernel(OP_BITCAST_CONVERT, DT_F32, DT_U32, false);
    k.run(bits, (const void *[]){one}, 2, &k);
    assert_int_equal(bits[0], 0x3f800000);
    uint8_t bytes[8];
    k = kernel(OP_BITCAST_CONVERT, DT_F32, DT_U8, false);
    k.run(bytes, (const void *[]){one}, 2, &k);
    assert_int_equal(bytes[3], 0x3f);
    int8_t nibbles[4];
    uint8_t pair[2] = {0x1f, 0x82}, back[2];
    k = kernel(OP_BITCAST_CONVERT, DT_U8, DT_S4, false);
    k.run(nibbles, (const void *[]){pair}, 2, &k);
    assert_true(nibbles[0] == -1 && nibbles[1] == 1 && nibbles[2] == 2 &&
                nibbles[3] == -8);
    k = kernel(OP_BITCAST_CONVERT, DT_S4, DT_U8, false);
    k.run(back, (const void *[]){nibbles}, 4, &k);
    assert_memory_equal(back, pair, 2);
}

static double reduced(DType t, double x, int exponent_bits, int mantissa_bits)
{
    ScalarKernel k = kernel(OP_REDUCE_PRECISION, t, t, false);
    k.exponent_bits = exponent_bits;
    k.mantissa_bits = mantissa_bits;
    return apply(&k, x, 0);
}

static void test_reduce_precision(void **state)
{
    (void)state;
    for (double x = 1e-7; x < 1e6;
         x *= 1.37) { /* bf16 and normal f16 are special cases */
        double single = (double)(float)x;
        double want = number_to_double(DT_BF16, number_from_double(DT_BF16, single));
        assert_true(same(reduced(DT_F32, -single, 8, 7), -want));
        want = number_to_double(DT_F16, number_from_double(DT_F16, single));
        if (x > 0x1p-14)
            assert_true(same(reduced(DT_F32, single, 5, 10), want));
    }
    assert_true(same(reduced(DT_F32, 65520, 5, 10), INF));
    assert_true(same(reduced(DT_F32, -0x1p-15, 5, 10), -0.0));
    assert_true(same(reduced(DT_F32, 0x1p-14, 5, 10), 0x1p-14));
    assert_true(same(reduced(DT_F32, 0x1p-149, 8, 23), 0x1p-149));
    assert_true(same(reduced(DT_F32, QNAN, 5, 1), QNAN));
    assert_true(same(reduced(DT_F32, QNAN, 5, 0), INF)); /* no bit says what is none */
    assert_true(same(reduced(DT_F32, INF, 2, 2), INF));
    assert_true(same(reduced(DT_F64, 1.75, 11, 0), 2));
    assert_true(same(reduced(DT_F16, 0x1p-20, 5, 10), 0x1p-20));
    assert_true(same(reduced(DT_BF16, 3.140625, 8, 2), 3));
}

static void test_stochastic(void **state)
{
    (void)state;
    ScalarKernel k = kernel(OP_STOCHASTIC_CONVERT, DT_F32, DT_S8, false);
    float x[6] = {2.25f, 2.25f, -2.25f, 1000, NAN, -1000};
    uint32_t random[6] = {0x3fffffff, 0x40000000, 0, 0, 0, 0};
    int8_t r[6];
    k.run(r, (const void *[]){x, random}, 6, &k);
    assert_true(r[0] == 3 && r[1] == 2 && r[2] == -3 && r[3] == 127 && r[4] == 0 &&
                r[5] == -128);
}

static void expect_complex(OpCode op, double complex a, double complex b,
                           double complex want)
{
    for (int t = 0; t < 2; t++) {
        DType type = t ? DT_C128 : DT_C64;
        char x[16], y[16], r[16];
        double got[2];
        number_set_complex(type, x, creal(a), cimag(a));
        number_set_complex(type, y, creal(b), cimag(b));
        ScalarKernel k = kernel(op, type, type, false);
        k.run(r, (const void *[]){x, y}, 1, &k);
        number_get_complex(type, r, got);
        double tolerance = (t ? 1e-14 : 1e-6) * (1 + cabs(want));
        assert_true(fabs(got[0] - creal(want)) <= tolerance);
        assert_true(fabs(got[1] - cimag(want)) <= tolerance);
    }
}

static void test_complex(void **state)
{
    (void)state;
    const double complex i = _Complex_I, z = 0.5 - 0.25 * i, w = -1.5 + 2 * i;
    expect_complex(OP_ADD, z, w, z + w);
    expect_complex(OP_SUBTRACT, z, w, z - w);
    expect_complex(OP_MULTIPLY, z, w, z * w);
    expect_complex(OP_DIVIDE, z, w, z / w);
    expect_complex(OP_NEGATE, z, 0, -z);
    expect_complex(OP_POWER, z, w, cpow(z, w));
    expect_complex(OP_POWER, 0, 0, 1);
    expect_complex(OP_POWER, 0, 2, 0);
    expect_complex(OP_EXPONENTIAL, z, 0, cexp(z));
    expect_complex(OP_EXPONENTIAL_MINUS_ONE, z, 0, cexp(z) - 1);
    expect_complex(OP_LOG, w, 0, clog(w));
    expect_complex(OP_LOG_PLUS_ONE, z, 0, clog(1 + z));
    expect_complex(OP_LOG_PLUS_ONE, w, 0, clog(1 + w));
    expect_complex(OP_SQRT, w, 0, csqrt(w));
    expect_complex(OP_RSQRT, w, 0, 1 / csqrt(w));
    expect_complex(OP_LOGISTIC, z, 0, 1 / (1 + cexp(-z)));
    expect_complex(OP_SIGN, 3 - 4 * i, 0, 0.6 - 0.8 * i);
    expect_complex(OP_SIGN, 0, 0, 0);
    expect_complex(OP_TANH, z, 0, ctanh(z));
    expect_complex(OP_ATAN2, 1, -1, 3.14159265358979323846 * 3 / 4);
    ScalarKernel k = kernel(OP_ABS, DT_C64, DT_F32, true);
    float pair[2] = {3, -4}, size, parts[2];
    k.run(&size, (const void *[]){pair}, 1, &k);
    assert_true(size == 5);
    k = kernel(OP_IMAG, DT_C64, DT_F32, false);
    k.run(&size, (const void *[]){pair}, 1, &k);
    assert_true(size == -4);
    k = kernel(OP_COMPLEX, DT_F32, DT_C64, false);
    k.run(parts, (const void *[]){&pair[1], &pair[0]}, 1, &k);
    assert_true(parts[0] == -4 && parts[1] == 3);
}

/* The exact kernels against libm's, which err by less than a unit in the last place. */
static void test_exact(void **state)
{
    (void)state;
    static const OpCode ops[] = {OP_CBRT,   OP_EXPONENTIAL,  OP_EXPONENTIAL_MINUS_ONE,
                                 OP_LOG,    OP_LOG_PLUS_ONE, OP_SINE,
                                 OP_COSINE, OP_TAN,          OP_ASIN,
                                 OP_ACOS,   OP_SINH,         OP_COSH,
                                 OP_TANH,   OP_ASINH,        OP_ACOSH,
                                 OP_ERF,    OP_ATANH,        OP_LOGISTIC,
                                 OP_RSQRT,  OP_POWER,        OP_ATAN2};
    static const DType types[] = {DT_F32, DT_F64, DT_BF16};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t t = 0; t < 3; t++) {
            ScalarKernel fast = kernel(ops[o], types[t], types[t], false);
            ScalarKernel exact = kernel(ops[o], types[t], types[t], true);
            for (double x = -4; x < 4; x += 0.0713) {
                double a = apply(&fast, x, 1.375), b = apply(&exact, x, 1.375);
                double unit = ldexp(1, -dtype_info[types[t]].mantissa_bits + 2);
                assert_true(isnan(a) == isnan(b));
                assert_true(isnan(a) || fabs(a - b) <= unit * fabs(b));
            }
        }
}

static void test_undefined(void **state)
{
    (void)state;
    ScalarKernel k;
    assert_false(scalar_kernel(OP_ADD, DT_F32, DT_F64, false, &k));
    assert_false(scalar_kernel(OP_TUPLE, DT_F32, DT_F32, false, &k));
    assert_false(scalar_kernel(OP_POPCNT, DT_F32, DT_F32, false, &k));
    assert_false(scalar_kernel(OP_EXPONENTIAL, DT_S32, DT_S32, false, &k));
    assert_false(scalar_kernel(OP_EXPONENTIAL, DT_C64, DT_C64, true, &k));
    assert_false(scalar_kernel(OP_ADD, DT_TOKEN, DT_TOKEN, false, &k));
    assert_false(scalar_kernel(OP_COMPLEX, DT_F32, DT_C128, false, &k));
}

/* Rows longer than a block, of every type that is computed in blocks. */
static void test_long_rows(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint8_t a[N], b[N], r[N];
    for (int i = 0; i < N; i++) {
        a[i] = (uint8_t)(i * 7 % 16);
        b[i] = (uint8_t)(i * 11 % 16);
    }
    static const DType types[] = {DT_U4, DT_F4E2M1FN, DT_F8E4M3FN};
    for (size_t t = 0; t < 3; t++) {
        ScalarKernel k = kernel(OP_MAXIMUM, types[t], types[t], false);
        k.run(r, (const void *[]){a, b}, N, &k);
        for (int i = 0; i < N; i++) {
            double x = number_get_double(types[t], &a[i]),
                   y = number_get_double(types[t], &b[i]);
            assert_true(number_get_double(types[t], &r[i]) == fmax(x, y));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float),
        cmocka_unit_test(test_nan_form),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_clamp_select),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_reduce_precision),
        cmocka_unit_test(test_stochastic),
        cmocka_unit_test(test_complex),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_undefined),
        cmocka_unit_test(test_long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
