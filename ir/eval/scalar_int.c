/* Row kernels of integers and pred. Sums and products are computed in an unsigned type, where
 * wrapping around is defined. */
#include <limits.h>

#include "ir/eval/scalar_table.h"

/* Division: by zero gives -1 (all ones), of the lowest by -1 the lowest; remainder: by zero
 * the dividend, of the lowest by -1 zero. Power with a negative exponent: 1 / x^n, towards 0. */
#define SIGNED_DIVIDE(x, y) ((y) == 0 ? -1 : (y) == -1 ? (T)(0 - (W)(x)) : (x) / (y))
#define SIGNED_REMAINDER(x, y) ((y) == 0 ? (x) : (y) == -1 ? 0 : (x) % (y))
#define UNSIGNED_DIVIDE(x, y) ((y) == 0 ? ~(W)0 : (W)((x) / (y)))
#define UNSIGNED_REMAINDER(x, y) ((y) == 0 ? (x) : (x) % (y))

static uint64_t power_unsigned(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static uint64_t power_signed(int64_t base, int64_t exponent)
{
    if (exponent >= 0)
        return power_unsigned((uint64_t)base, (uint64_t)exponent);
    if (base == 1 || (base == -1 && exponent % 2 == 0))
        return 1;
    return base == -1 ? ~(uint64_t)0 : 0;
}

static unsigned popcount(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)(x * 0x0101010101010101 >> 56);
}

static unsigned leading_zeros(uint64_t x, unsigned width)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        x |= x >> shift;
    return width - popcount(x);
}

static uint64_t high_unsigned(uint64_t a, uint64_t b)
{
    uint64_t al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32);
    uint64_t other = al * bh + (middle & 0xffffffff);
    return ah * bh + (middle >> 32) + (other >> 32);
}

static int64_t high_signed(int64_t a, int64_t b)
{
    uint64_t high = high_unsigned((uint64_t)a, (uint64_t)b);
    high -= a < 0 ? (uint64_t)b : 0;
    high -= b < 0 ? (uint64_t)a : 0;
    return (int64_t)high;
}

#define LOOP1(name, expression)                                                          \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const T *restrict a = in[0];                                                     \
        T *restrict r = out;                                                             \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            T x = a[i];                                                                  \
            r[i] = (T)(expression);                                                      \
        }                                                                                \
    }
#define LOOP2(name, expression)                                                          \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const T *restrict a = in[0], *restrict b = in[1];                                \
        T *restrict r = out;                                                             \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            T x = a[i], y = b[i];                                                        \
            r[i] = (T)(expression);                                                      \
        }                                                                                \
    }
#define CLAMP(name)                                                                      \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const T *restrict low = in[0], *restrict a = in[1], *restrict high = in[2];      \
        T *restrict r = out;                                                             \
        size_t low_step = !(k->single & 1), step = !(k->single & 2);                     \
        size_t high_step = !(k->single & 4);                                             \
        for (size_t i = 0; i < n; i++) {                                                 \
            T x = a[i * step], l = low[i * low_step], h = high[i * high_step];           \
            x = x < l ? l : x;                                                           \
            r[i] = x > h ? h : x;                                                        \
        }                                                                                \
    }
#define COMPARE_CASE(direction, operator)                                                \
    case direction:                                                                      \
        for (size_t i = 0; i < n; i++)                                                   \
            r[i] = a[i] operator b[i];                                                   \
        break;
#define COMPARE(name)                                                                    \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const T *restrict a = in[0], *restrict b = in[1];                                \
        uint8_t *restrict r = out;                                                       \
        switch (k->direction) {                                                          \
            COMPARE_CASE(DIRECTION_EQ, ==)                                               \
            COMPARE_CASE(DIRECTION_NE, !=)                                               \
            COMPARE_CASE(DIRECTION_GE, >=)                                               \
            COMPARE_CASE(DIRECTION_GT, >)                                                \
            COMPARE_CASE(DIRECTION_LE, <=)                                               \
            COMPARE_CASE(DIRECTION_LT, <)                                                \
        }                                                                                \
    }

/* In what follows T is the element type, U the unsigned type of its width, W the unsigned type
 * it is computed in, and `id` tells the functions of the types apart. */
#define COMMON(id, width)                                                                \
    LOOP2(add_##id, (W)x + (W)y)                                                         \
    LOOP2(subtract_##id, (W)x - (W)y)                                                    \
    LOOP2(multiply_##id, (W)x *(W)y)                                                     \
    LOOP2(and_##id, x &y)                                                                \
    LOOP2(or_##id, x | y)                                                                \
    LOOP2(xor_##id, x ^ y)                                                               \
    LOOP2(maximum_##id, x > y ? x : y)                                                   \
    LOOP2(minimum_##id, x < y ? x : y)                                                   \
    LOOP2(shift_left_##id, (U)y < (width) ? (W)x << ((unsigned)y & ((width)-1)) : 0)     \
    LOOP2(shift_right_logical_##id,                                                      \
          (U)y < (width) ? (U)x >> ((unsigned)y & ((width)-1)) : 0)                      \
    LOOP1(negate_##id, 0 - (W)x)                                                         \
    LOOP1(not_##id, ~x)                                                                  \
    LOOP1(popcnt_##id, popcount((U)x))                                                   \
    LOOP1(count_leading_zeros_##id, leading_zeros((U)x, width))                          \
    CLAMP(clamp_##id)                                                                    \
    COMPARE(compare_##id)

#define SIGNED(id, width)                                                                \
    COMMON(id, width)                                                                    \
    LOOP2(divide_##id, SIGNED_DIVIDE(x, y))                                              \
    LOOP2(remainder_##id, SIGNED_REMAINDER(x, y))                                        \
    LOOP2(power_##id, power_signed(x, y))                                                \
    LOOP2(shift_right_arithmetic_##id, x >> ((U)y < (width) ? (unsigned)y : (width)-1))  \
    LOOP2(mulhi_##id,                                                                    \
          (width) < 64 ? (int64_t)x * (int64_t)y >> ((width)&63) : high_signed(x, y))    \
    LOOP1(abs_##id, x < 0 ? 0 - (W)x : (W)x)                                             \
    LOOP1(sign_##id, (x > 0) - (x < 0))

#define UNSIGNED(id, width)                                                              \
    COMMON(id, width)                                                                    \
    LOOP2(divide_##id, UNSIGNED_DIVIDE(x, y))                                            \
    LOOP2(remainder_##id, UNSIGNED_REMAINDER(x, y))                                      \
    LOOP2(power_##id, power_unsigned(x, y))                                              \
    LOOP2(shift_right_arithmetic_##id, sign_shift(x, y, width))                          \
    LOOP2(mulhi_##id, (width) < 64 ? (uint64_t)x * (uint64_t)y >> ((width)&63)           \
                                   : high_unsigned(x, y))                                \
    LOOP1(abs_##id, x)                                                                   \
    LOOP1(sign_##id, x != 0)

/* Arithmetic shift of an unsigned number: its highest bit is the sign. */
static uint64_t sign_shift(uint64_t x, uint64_t y, unsigned width)
{
    uint64_t top = (uint64_t)1 << (width - 1);
    int64_t extended = (int64_t)((x ^ top) - top);
    return (uint64_t)(extended >> (y < width ? y : width - 1));
}

#define TABLE(id)                                                                        \
    static ElementsFn *const table_##id[OP_COUNT] = {                                    \
        [OP_ADD] = add_##id,                                                             \
        [OP_SUBTRACT] = subtract_##id,                                                   \
        [OP_MULTIPLY] = multiply_##id,                                                   \
        [OP_DIVIDE] = divide_##id,                                                       \
        [OP_REMAINDER] = remainder_##id,                                                 \
        [OP_POWER] = power_##id,                                                         \
        [OP_MULHI] = mulhi_##id,                                                         \
        [OP_AND] = and_##id,                                                             \
        [OP_OR] = or_##id,                                                               \
        [OP_XOR] = xor_##id,                                                             \
        [OP_MAXIMUM] = maximum_##id,                                                     \
        [OP_MINIMUM] = minimum_##id,                                                     \
        [OP_SHIFT_LEFT] = shift_left_##id,                                               \
        [OP_SHIFT_RIGHT_LOGICAL] = shift_right_logical_##id,                             \
        [OP_SHIFT_RIGHT_ARITHMETIC] = shift_right_arithmetic_##id,                       \
        [OP_NEGATE] = negate_##id,                                                       \
        [OP_NOT] = not_##id,                                                             \
        [OP_ABS] = abs_##id,                                                             \
        [OP_SIGN] = sign_##id,                                                           \
        [OP_POPCNT] = popcnt_##id,                                                       \
        [OP_COUNT_LEADING_ZEROS] = count_leading_zeros_##id,                             \
        [OP_CLAMP] = clamp_##id,                                                         \
        [OP_COMPARE] = compare_##id,                                                     \
    };

#define T int8_t
#define U uint8_t
#define W uint32_t
SIGNED(s8, 8)
TABLE(s8)
#undef T
#define T uint8_t
UNSIGNED(u8, 8)
TABLE(u8)
#undef T
#undef U
#define T int16_t
#define U uint16_t
SIGNED(s16, 16)
TABLE(s16)
#undef T
#define T uint16_t
UNSIGNED(u16, 16)
TABLE(u16)
#undef T
#undef U
#define T int32_t
#define U uint32_t
SIGNED(s32, 32)
TABLE(s32)
#undef T
#define T uint32_t
UNSIGNED(u32, 32)
TABLE(u32)
#undef T
#undef U
#undef W
#define T int64_t
#define U uint64_t
#define W uint64_t
SIGNED(s64, 64)
TABLE(s64)
#undef T
#define T uint64_t
UNSIGNED(u64, 64)
TABLE(u64)
#undef T
#undef U
#undef W

ElementsFn *rows_int(OpCode op, DType t)
{
    switch (t) {
    case DT_S8:
        return table_s8[op];
    case DT_S16:
        return table_s16[op];
    case DT_S32:
        return table_s32[op];
    case DT_S64:
        return table_s64[op];
    case DT_U8:
        return table_u8[op];
    case DT_U16:
        return table_u16[op];
    case DT_U32:
        return table_u32[op];
    case DT_U64:
        return table_u64[op];
    default:
        return NULL;
    }
}

/* pred: 0 or 1 in a byte; addition is "or", multiplication "and". */
static void not_pred(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    const uint8_t *restrict a = in[0];
    uint8_t *restrict r = out;
    (void)k;
    for (size_t i = 0; i < n; i++)
        r[i] = a[i] == 0;
}

ElementsFn *rows_pred(OpCode op)
{
    switch (op) {
    case OP_ADD:
    case OP_OR:
    case OP_MAXIMUM:
        return or_u8;
    case OP_MULTIPLY:
    case OP_AND:
    case OP_MINIMUM:
        return and_u8;
    case OP_XOR:
        return xor_u8;
    case OP_NOT:
        return not_pred;
    case OP_CLAMP:
        return clamp_u8;
    case OP_COMPARE:
        return compare_u8;
    default:
        return NULL;
    }
}
