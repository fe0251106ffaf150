/* Row kernels of c64 and c128. Sums and products are the plain formulas in the component type,
 * as kernels compute them, so that a product may overflow on the way, and of infinities is NaN; division and
 * functions of c64 are computed in double. Infinities, NaN and the signs of zeros are as annex G of C has them. */
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

static Complex times(Complex a, Complex b)
{
    double x = creal(a), y = cimag(a), u = creal(b), v = cimag(b);
    return make(x * u - y * v, x * v + y * u);
}

static Complex times_real(Complex z, double factor)
{
    return make(creal(z) * factor, cimag(z) * factor);
}

static double largest_part(Complex z)
{
    return fmax(fabs(creal(z)), fabs(cimag(z)));
}

static Complex scaled(Complex z, int exponent)
{
    return make(scalbn(creal(z), exponent), scalbn(cimag(z), exponent));
}

/* Divides z by the power of two that leaves its larger part in 1 .. 2: sums of squares neither
 * overflow nor vanish then. 0, infinities and NaN stay. */
static Complex normalized(Complex z, int *out_exponent)
{
    double most = largest_part(z);
    *out_exponent = most > 0 && isfinite(most) ? ilogb(most) : 0;
    return scaled(z, -*out_exponent);
}

/* An infinite part becomes 1, any other 0, with its sign. */
static Complex boxed(Complex z)
{
    return make(copysign(isinf(creal(z)), creal(z)), copysign(isinf(cimag(z)), cimag(z)));
}

/* Annex G of C: infinity by a number is infinite, a number by infinity zero, by zero infinite. Not the compiler's own
 * division, which overflows for large c128 and differs from CPU to CPU. */
static Complex divide(Complex a, Complex b)
{
    int up, down;
    bool is_infinite = isinf(largest_part(a)), by_infinite = isinf(largest_part(b));
    if (b == 0)
        return times_real(a, copysign(INFINITY, creal(b)));
    if (is_infinite && !by_infinite)
        return times_real(times(boxed(a), conj(b)), INFINITY);
    a = normalized(a, &up);
    b = normalized(by_infinite ? boxed(b) : b, &down);
    double size = creal(b) * creal(b) + cimag(b) * cimag(b);
    Complex r = times(a, conj(b));
    r = scaled(make(creal(r) / size, cimag(r) / size), up - down);
    return by_infinite ? times_real(r, 0) : r;
}

/* By the conjugate, which keeps the sign of a part that is 0. */
static Complex reciprocal(Complex z)
{
    int exponent;
    double most = largest_part(z); /* of a number and NaN the number */
    if (isinf(most))
        return make(copysign(0, creal(z)), copysign(0, -cimag(z)));
    if (isnan(creal(z)) || isnan(cimag(z)))
        return make(NAN, NAN);
    if (most == 0)
        return make(INFINITY, NAN);
    z = normalized(z, &exponent);
    double size = creal(z) * creal(z) + cimag(z) * cimag(z);
    return scaled(make(creal(z) / size, -cimag(z) / size), -exponent);
}

/* z^0 is 1, also for no numbers; 0^w 0 for real w > 0, NaN for others. A real w multiplies each part of log z: 0 times
 * an infinite one would be NaN. */
static Complex power(Complex base, Complex exponent)
{
    double re = creal(exponent), im = cimag(exponent);
    if (re == 0 && im == 0)
        return 1;
    if (base == 0)
        return im == 0 && re > 0 ? 0 : make(NAN, NAN);
    Complex l = clog(base);
    return cexp(im == 0 ? make(re * creal(l), re * cimag(l)) : times(exponent, l));
}

/* The angle w of (b, a), continued: -i log((b + i a) / sqrt(a^2 + b^2)). With s = sqrt(a^2 + b^2), cos w = b / s and sin
 * w = a / s. Of p = b + i a and q = b - i a, |e^(i w)|^2 = |p| / |q|, |p|^2 - |q|^2 = 4 cross, and p q = a^2 + b^2, whose
 * imaginary part is also 2 (x y + u v): the sum with the smaller terms loses less. Infinite parts count as 1 and others
 * then as 0, as in atan2 of real numbers. */
static Complex angle(Complex a, Complex b)
{
    double most = fmax(largest_part(a), largest_part(b));
    if (a != a || b != b || most == 0)
        return make(NAN, NAN);
    int exponent = most > 0x1p500 ? -524 : most < 0x1p-500 ? 574 : 0;
    a = isinf(most) ? boxed(a) : scaled(a, exponent);
    b = isinf(most) ? boxed(b) : scaled(b, exponent);
    double x = creal(a), y = cimag(a), u = creal(b), v = cimag(b);
    Complex p = make(u - y, v + x), q = make(u + y, v - x), square = times(p, q);
    double terms = fabs(creal(p) * cimag(q)) + fabs(cimag(p) * creal(q));
    if (fabs(x * y) + fabs(u * v) <= terms)
        square = make(creal(square), 2 * (x * y + u * v));
    Complex s = csqrt(square);
    double re = creal(a) * creal(s) + cimag(a) * cimag(s);
    re = atan2(re, u * creal(s) + v * cimag(s));
    double least = fmin(cabs(p), cabs(q)), other = fmax(cabs(p), cabs(q));
    double cross = v * x - u * y;
    double im = least < other * 0x1p-20 ? (log(other) - log(least)) / 2
                                        : log1p(4 * (fabs(cross) / least / least)) / 4;
    return make(re, cross > 0 ? -im : im);
}

/* e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2); the 1 vanishes beside a large e^x, and e^x beside the 1. */
static Complex exponential_minus_one(Complex z)
{
    double x = creal(z), y = cimag(z), half = sin(y / 2);
    Complex e = cexp(z);
    if (fabs(x) > 40)
        return make(creal(e) - 1, cimag(e));
    return make(y == 0 ? expm1(x) : expm1(x) * cos(y) - 2 * half * half,
                y == 0 ? y : cimag(e));
}

static Complex log_plus_one(Complex z)
{
    double x = creal(z), y = cimag(z);
    Complex l = clog(make(1 + x, y));
    if (fabs(x) < 0.5 && fabs(y) < 0.5)
        return make(log1p(x * (2 + x) + y * y) / 2, cimag(l));
    return l;
}

/* 1 / (1 + e^-z) = e^z / (1 + e^z), of which one's exponential does not overflow; 1 + e^x cos y = (e^x - 1) cos y + 2
 * cos^2(y / 2) keeps what is small near a pole. */
static Complex logistic(Complex z)
{
    bool is_left = creal(z) < 0;
    Complex w = is_left ? z : -z, e = cexp(w);
    double half = cos(cimag(w) / 2),
           re = expm1(creal(w)) * cos(cimag(w)) + 2 * half * half;
    re = isfinite(re) ? re : 1 + creal(e);
    Complex sum = make(re, cimag(e));
    return is_left ? divide(e, sum) : reciprocal(sum);
}

static Complex inverse_root(Complex z)
{
    return reciprocal(csqrt(z));
}

/* Odd also where C leaves the sign of an infinite part open. */
static Complex hyperbolic_sine(Complex z)
{
    Complex r = csinh(z);
    return isinf(creal(r)) && isnan(cimag(r)) ? make(creal(z), NAN) : r;
}

/* sinh(i z) / i */
static Complex sine(Complex z)
{
    Complex r = hyperbolic_sine(make(-cimag(z), creal(z)));
    return make(cimag(r), -creal(r));
}

static Complex direction(Complex z)
{
    int exponent;
    z = normalized(z, &exponent);
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
    [OP_SINE] = sine,
    [OP_COSINE] = ccos,
    [OP_TAN] = ctan,
    [OP_ASIN] = casin,
    [OP_ACOS] = cacos,
    [OP_SINH] = hyperbolic_sine,
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
