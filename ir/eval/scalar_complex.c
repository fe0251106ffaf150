/* Row kernels of c64 and c128. Sums and products are the plain formulas in the component type,
 * as kernels compute them; division and functions of c64 are computed in double. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "ir/eval/scalar_table.h"

typedef double complex Complex;

#define LOOP1(type, name, re, im)                                                        \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0];                                                  \
        type *restrict r = out;                                                          \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[2 * i], y = a[2 * i + 1];                                         \
            r[2 * i] = re;                                                               \
            r[2 * i + 1] = im;                                                           \
        }                                                                                \
    }
#define LOOP2(type, name, re, im)                                                        \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0], *restrict b = in[1];                             \
        type *restrict r = out;                                                          \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[2 * i], y = a[2 * i + 1], u = b[2 * i], v = b[2 * i + 1];         \
            type p = re, q = im;                                                         \
            r[2 * i] = p == p ? p : (type)NAN;                                           \
            r[2 * i + 1] = q == q ? q : (type)NAN;                                       \
        }                                                                                \
    }
#define PART(type, name, expression)                                                     \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0];                                                  \
        type *restrict r = out;                                                          \
        (void)k;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                 \
            type x = a[2 * i], y = a[2 * i + 1];                                         \
            (void)x;                                                                     \
            (void)y;                                                                     \
            r[i] = expression;                                                           \
        }                                                                                \
    }
#define COMPARE(type, name)                                                              \
    static void name(void *out, const void *const *in, size_t n, const ScalarKernel *k)  \
    {                                                                                    \
        const type *restrict a = in[0], *restrict b = in[1];                             \
        uint8_t *restrict r = out;                                                       \
        uint8_t differ = k->direction == DIRECTION_NE;                                   \
        for (size_t i = 0; i < n; i++) {                                                 \
            bool equal = a[2 * i] == b[2 * i] && a[2 * i + 1] == b[2 * i + 1];           \
            r[i] = equal ^ differ;                                                       \
        }                                                                                \
    }

#define KERNELS(type, id)                                                                \
    LOOP2(type, add_##id, x + u, y + v)                                                  \
    LOOP2(type, subtract_##id, x - u, y - v)                                             \
    LOOP2(type, multiply_##id, x *u - y * v, x * v + y * u)                              \
    LOOP1(type, negate_##id, -x, -y)                                                     \
    PART(type, abs_##id, (type)hypot((double)x, (double)y))                              \
    PART(type, real_##id, x)                                                             \
    PART(type, imag_##id, y)                                                             \
    COMPARE(type, compare_##id)

KERNELS(float, c64)
KERNELS(double, c128)

/* --- Functions --- */

static Complex make(double re, double im)
{
    double pair[2] = {re, im};
    Complex z;
    memcpy(&z, pair, sizeof z);
    return z;
}

static Complex divide(Complex a, Complex b)
{
    return a / b;
}

static Complex power(Complex base, Complex exponent)
{
    double re = creal(exponent), im = cimag(exponent);
    if (base != 0)
        return cpow(base, exponent);
    if (im == 0 && re >= 0)
        return re == 0;
    return make(NAN, NAN);
}

/* The angle of (b, a), continued: -i log((b + i a) / sqrt(a^2 + b^2)). */
static Complex angle(Complex a, Complex b)
{
    Complex ratio = (b + make(-cimag(a), creal(a))) / csqrt(a * a + b * b);
    Complex l = clog(ratio);
    return make(cimag(l), -creal(l));
}

static Complex exponential_minus_one(Complex z)
{
    double x = creal(z), y = cimag(z), half = sin(y / 2);
    double re = expm1(x) * cos(y) - 2 * half * half;
    double im = y == 0 ? y : exp(x) * sin(y);
    return make(y == 0 ? expm1(x) : re, im);
}

static Complex log_plus_one(Complex z)
{
    double x = creal(z), y = cimag(z);
    double re = fabs(x) < 0.5 && fabs(y) < 0.5 ? log1p(x * (2 + x) + y * y) / 2
                                               : log(hypot(1 + x, y));
    return make(re, atan2(y, 1 + x));
}

static Complex logistic(Complex z)
{
    return 1 / (1 + cexp(-z));
}

static Complex inverse_root(Complex z)
{
    return 1 / csqrt(z);
}

static Complex direction(Complex z)
{
    double size = cabs(z);
    return size == 0 ? z : make(creal(z) / size, cimag(z) / size);
}

typedef Complex Function1(Complex);
typedef Complex Function2(Complex, Complex);

static Function1 *const functions1[OP_COUNT] = {
    [OP_SIGN] = direction,
    [OP_SQRT] = csqrt,
    [OP_RSQRT] = inverse_root,
    [OP_EXPONENTIAL] = cexp,
    [OP_EXPONENTIAL_MINUS_ONE] = exponential_minus_one,
    [OP_LOG] = clog,
    [OP_LOG_PLUS_ONE] = log_plus_one,
    [OP_LOGISTIC] = logistic,
    [OP_SINE] = csin,
    [OP_COSINE] = ccos,
    [OP_TAN] = ctan,
    [OP_ASIN] = casin,
    [OP_ACOS] = cacos,
    [OP_SINH] = csinh,
    [OP_COSH] = ccosh,
    [OP_TANH] = ctanh,
    [OP_ASINH] = casinh,
    [OP_ACOSH] = cacosh,
    [OP_ATANH] = catanh,
};
static Function2 *const functions2[OP_COUNT] = {
    [OP_DIVIDE] = divide,
    [OP_POWER] = power,
    [OP_ATAN2] = angle,
};

static void apply1(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    Function1 *f = functions1[k->op];
    const char *a = in[0];
    char *r = out;
    size_t step = dtype_storage_bytes(k->in);
    for (size_t i = 0; i < n; i++) {
        double x[2];
        number_get_complex(k->in, a + i * step, x);
        Complex z = f(make(x[0], x[1]));
        double re = creal(z), im = cimag(z);
        number_set_complex(k->in, r + i * step, re == re ? re : (double)NAN,
                           im == im ? im : (double)NAN);
    }
}

static void apply2(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    Function2 *f = functions2[k->op];
    const char *a = in[0], *b = in[1];
    char *r = out;
    size_t step = dtype_storage_bytes(k->in);
    for (size_t i = 0; i < n; i++) {
        double x[2], y[2];
        number_get_complex(k->in, a + i * step, x);
        number_get_complex(k->in, b + i * step, y);
        Complex z = f(make(x[0], x[1]), make(y[0], y[1]));
        double re = creal(z), im = cimag(z);
        number_set_complex(k->in, r + i * step, re == re ? re : (double)NAN,
                           im == im ? im : (double)NAN);
    }
}

ElementsFn *rows_complex(OpCode op, DType t)
{
    if (t != DT_C64 && t != DT_C128)
        return NULL;
    if (functions1[op] != NULL)
        return apply1;
    if (functions2[op] != NULL)
        return apply2;
    switch (op) {
    case OP_ADD:
        return t == DT_C64 ? add_c64 : add_c128;
    case OP_SUBTRACT:
        return t == DT_C64 ? subtract_c64 : subtract_c128;
    case OP_MULTIPLY:
        return t == DT_C64 ? multiply_c64 : multiply_c128;
    case OP_NEGATE:
        return t == DT_C64 ? negate_c64 : negate_c128;
    case OP_ABS:
        return t == DT_C64 ? abs_c64 : abs_c128;
    case OP_REAL:
        return t == DT_C64 ? real_c64 : real_c128;
    case OP_IMAG:
        return t == DT_C64 ? imag_c64 : imag_c128;
    case OP_COMPARE:
        return t == DT_C64 ? compare_c64 : compare_c128;
    default:
        return NULL;
    }
}
