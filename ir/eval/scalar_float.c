/* Row kernels of f32 and f64. f32's transcendental functions are computed in double. */
#include <math.h>
#include <string.h>

#include "ir/eval/scalar_table.h"

/* A NaN made by arithmetic has the sign and payload that the CPU likes; give it one form. */
#define CANONICAL(type, r) ((r) == (r) ? (r) : (type)NAN)

#define LOOP1(type, name, expression)                                                    \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0];                                                  \
        type *restrict to = out;                                                         \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[i];                                                               \
            type r = (type)(expression);                                                 \
            to[i] = CANONICAL(type, r);                                                  \
        }                                                                                \
    }
#define LOOP2(type, name, expression)                                                    \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0], *restrict b = in[1];                             \
        type *restrict to = out;                                                         \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[i], y = b[i];                                                     \
            type r = (type)(expression);                                                 \
            to[i] = CANONICAL(type, r);                                                  \
        }                                                                                \
    }

/* max(-0, +0) = +0 and min(+0, -0) = -0; NaN wins. */
#define LARGER(x, y) ((x) > (y) || (x) != (x) || ((x) == (y) && !signbit(x)) ? (x) : (y))
#define SMALLER(x, y) ((x) < (y) || (x) != (x) || ((x) == (y) && signbit(x)) ? (x) : (y))

#define CLAMP(type, name)                                                                \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict low = in[0], *restrict a = in[1], *restrict high = in[2];   \
        type *restrict r = out;                                                          \
        size_t low_step = !(k->single & 1), step = !(k->single & 2);                     \
        size_t high_step = !(k->single & 4);                                             \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[i * step], l = low[i * low_step], h = high[i * high_step];        \
            type m = LARGER(x, l);                                                       \
            r[i] = SMALLER(m, h);                                                        \
        }                                                                                \
    }
#define COMPARE_CASE(direction, operator, left, right)                                   \
    case direction:                                                                      \
        for (size_t i = 0; i < n; i++)                                                   \
            r[i] = left operator right;                                                  \
        break;
#define COMPARE_ALL(left, right)                                                         \
    switch (k->direction) {                                                              \
        COMPARE_CASE(DIRECTION_EQ, ==, left, right)                                      \
        COMPARE_CASE(DIRECTION_NE, !=, left, right)                                      \
        COMPARE_CASE(DIRECTION_GE, >=, left, right)                                      \
        COMPARE_CASE(DIRECTION_GT, >, left, right)                                       \
        COMPARE_CASE(DIRECTION_LE, <=, left, right)                                      \
        COMPARE_CASE(DIRECTION_LT, <, left, right)                                       \
    }
#define COMPARE(type, name, key)                                                         \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0], *restrict b = in[1];                             \
        uint8_t *restrict r = out;                                                       \
        if (k->total_order)                                                              \
            COMPARE_ALL(key(a[i]), key(b[i]))                                            \
        else                                                                             \
            COMPARE_ALL(a[i], b[i])                                                      \
    }

/* -NaN < -inf < ... < -0 < +0 < ... < inf < NaN */
static int32_t total_key_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static int64_t total_key_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* Only the sign changes, NaN keeps its payload. */
static void abs_f32(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    const uint32_t *restrict a = in[0];
    uint32_t *restrict r = out;
    (void)k;
    for (size_t i = 0; i < n; i++)
        r[i] = a[i] & 0x7fffffff;
}

static void abs_f64(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    const uint64_t *restrict a = in[0];
    uint64_t *restrict r = out;
    (void)k;
    for (size_t i = 0; i < n; i++)
        r[i] = a[i] & INT64_MAX;
}

static void negate_f32(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    const uint32_t *restrict a = in[0];
    uint32_t *restrict r = out;
    (void)k;
    for (size_t i = 0; i < n; i++)
        r[i] = a[i] ^ (uint32_t)1 << 31;
}

static void negate_f64(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    const uint64_t *restrict a = in[0];
    uint64_t *restrict r = out;
    (void)k;
    for (size_t i = 0; i < n; i++)
        r[i] = a[i] ^ (uint64_t)1 << 63;
}

static double logistic(double x)
{
    double e = exp(-fabs(x)); /* never overflows, and keeps what is small */
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* Halfway cases to even, in the current (nearest) rounding mode. */
#define EVEN_f32(x) rintf(x)
#define EVEN_f64(x) rint(x)
#define FLOOR_f32(x) floorf(x)
#define FLOOR_f64(x) floor(x)
#define CEIL_f32(x) ceilf(x)
#define CEIL_f64(x) ceil(x)
#define AWAY_f32(x) roundf(x)
#define AWAY_f64(x) round(x)
#define ROOT_f32(x) sqrtf(x)
#define ROOT_f64(x) sqrt(x)
#define MODULO_f32(x, y) fmodf(x, y)
#define MODULO_f64(x, y) fmod(x, y)

#define KERNELS(type, id)                                                                \
    LOOP2(type, add_##id, x + y)                                                         \
    LOOP2(type, subtract_##id, x - y)                                                    \
    LOOP2(type, multiply_##id, x *y)                                                     \
    LOOP2(type, divide_##id, x / y)                                                      \
    LOOP2(type, remainder_##id, MODULO_##id(x, y))                                       \
    LOOP2(type, maximum_##id, LARGER(x, y))                                              \
    LOOP2(type, minimum_##id, SMALLER(x, y))                                             \
    LOOP2(type, power_##id, pow((double)x, (double)y))                                   \
    LOOP2(type, atan2_##id, atan2((double)x, (double)y))                                 \
    LOOP1(type, sign_##id, x > 0 ? 1 : x < 0 ? -1 : x)                                   \
    LOOP1(type, floor_##id, FLOOR_##id(x))                                               \
    LOOP1(type, ceil_##id, CEIL_##id(x))                                                 \
    LOOP1(type, round_nearest_afz_##id, AWAY_##id(x))                                    \
    LOOP1(type, round_nearest_even_##id, EVEN_##id(x))                                   \
    LOOP1(type, sqrt_##id, ROOT_##id(x))                                                 \
    LOOP1(type, rsqrt_##id, 1 / sqrt((double)x))                                         \
    LOOP1(type, cbrt_##id, cbrt((double)x))                                              \
    LOOP1(type, exponential_##id, exp((double)x))                                        \
    LOOP1(type, exponential_minus_one_##id, expm1((double)x))                            \
    LOOP1(type, log_##id, log((double)x))                                                \
    LOOP1(type, log_plus_one_##id, log1p((double)x))                                     \
    LOOP1(type, logistic_##id, logistic((double)x))                                      \
    LOOP1(type, sine_##id, sin((double)x))                                               \
    LOOP1(type, cosine_##id, cos((double)x))                                             \
    LOOP1(type, tan_##id, tan((double)x))                                                \
    LOOP1(type, asin_##id, asin((double)x))                                              \
    LOOP1(type, acos_##id, acos((double)x))                                              \
    LOOP1(type, sinh_##id, sinh((double)x))                                              \
    LOOP1(type, cosh_##id, cosh((double)x))                                              \
    LOOP1(type, tanh_##id, tanh((double)x))                                              \
    LOOP1(type, asinh_##id, asinh((double)x))                                            \
    LOOP1(type, acosh_##id, acosh((double)x))                                            \
    LOOP1(type, atanh_##id, atanh((double)x))                                            \
    LOOP1(type, erf_##id, erf((double)x))                                                \
    CLAMP(type, clamp_##id)                                                              \
    COMPARE(type, compare_##id, total_key_##id)                                          \
    static void is_finite_##id(void *out, const void *const *in, size_t n,               \
                               const ScalarKernel *k)                                    \
    {                                                                                    \
        const type *restrict a = in[0];                                                  \
        uint8_t *restrict r = out;                                                       \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++)                                                   \
            r[i] = a[i] - a[i] == 0;                                                     \
    }

KERNELS(float, f32)
KERNELS(double, f64)

#define TABLE(id)                                                                        \
    static ElementsFn *const table_##id[OP_COUNT] = {                                    \
        [OP_ADD] = add_##id,                                                             \
        [OP_SUBTRACT] = subtract_##id,                                                   \
        [OP_MULTIPLY] = multiply_##id,                                                   \
        [OP_DIVIDE] = divide_##id,                                                       \
        [OP_REMAINDER] = remainder_##id,                                                 \
        [OP_MAXIMUM] = maximum_##id,                                                     \
        [OP_MINIMUM] = minimum_##id,                                                     \
        [OP_POWER] = power_##id,                                                         \
        [OP_ATAN2] = atan2_##id,                                                         \
        [OP_ABS] = abs_##id,                                                             \
        [OP_NEGATE] = negate_##id,                                                       \
        [OP_SIGN] = sign_##id,                                                           \
        [OP_FLOOR] = floor_##id,                                                         \
        [OP_CEIL] = ceil_##id,                                                           \
        [OP_ROUND_NEAREST_AFZ] = round_nearest_afz_##id,                                 \
        [OP_ROUND_NEAREST_EVEN] = round_nearest_even_##id,                               \
        [OP_SQRT] = sqrt_##id,                                                           \
        [OP_RSQRT] = rsqrt_##id,                                                         \
        [OP_CBRT] = cbrt_##id,                                                           \
        [OP_EXPONENTIAL] = exponential_##id,                                             \
        [OP_EXPONENTIAL_MINUS_ONE] = exponential_minus_one_##id,                         \
        [OP_LOG] = log_##id,                                                             \
        [OP_LOG_PLUS_ONE] = log_plus_one_##id,                                           \
        [OP_LOGISTIC] = logistic_##id,                                                   \
        [OP_SINE] = sine_##id,                                                           \
        [OP_COSINE] = cosine_##id,                                                       \
        [OP_TAN] = tan_##id,                                                             \
        [OP_ASIN] = asin_##id,                                                           \
        [OP_ACOS] = acos_##id,                                                           \
        [OP_SINH] = sinh_##id,                                                           \
        [OP_COSH] = cosh_##id,                                                           \
        [OP_TANH] = tanh_##id,                                                           \
        [OP_ASINH] = asinh_##id,                                                         \
        [OP_ACOSH] = acosh_##id,                                                         \
        [OP_ATANH] = atanh_##id,                                                         \
        [OP_ERF] = erf_##id,                                                             \
        [OP_CLAMP] = clamp_##id,                                                         \
        [OP_COMPARE] = compare_##id,                                                     \
        [OP_IS_FINITE] = is_finite_##id,                                                 \
    };

TABLE(f32)
TABLE(f64)

ElementsFn *rows_float(OpCode op, DType t)
{
    return t == DT_F32 ? table_f32[op] : t == DT_F64 ? table_f64[op] : NULL;
}
