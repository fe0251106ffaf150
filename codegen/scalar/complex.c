/* Complex numbers: arithmetic, and functions by formulas that keep their accuracy near branch
 * points and for large numbers, in the component type. W. Kahan, "Branch cuts for complex
 * elementary functions" (1987). */
#include "codegen/scalar/scalar.h"

#include <math.h>

typedef struct Pair {
    LLVMValueRef re, im;
} Pair;

LLVMValueRef complex_make(Kernel *k, LLVMValueRef re, LLVMValueRef im)
{
    LLVMTypeRef parts[] = {LLVMTypeOf(re), LLVMTypeOf(im)};
    LLVMTypeRef type = LLVMStructTypeInContext(k->context, parts, 2, 0);
    LLVMValueRef v = LLVMBuildInsertValue(k->builder, LLVMGetUndef(type), re, 0, "");
    return LLVMBuildInsertValue(k->builder, v, im, 1, "");
}

static Pair operand(const ScalarCall *c, unsigned i)
{
    return (Pair){LLVMBuildExtractValue(c->k->builder, c->x[i], 0, ""),
                  LLVMBuildExtractValue(c->k->builder, c->x[i], 1, "")};
}

static LLVMValueRef result(const ScalarCall *c, Pair z)
{
    return complex_make(c->k, z.re, z.im);
}

/* -- small steps -- */

static LLVMValueRef scaled(Kernel *k, LLVMValueRef x, double factor)
{
    return f_mul(k, x, f_number(x, factor));
}

static LLVMValueRef plus(Kernel *k, LLVMValueRef x, double number)
{
    return f_add(k, x, f_number(x, number));
}

static LLVMValueRef is_equal(Kernel *k, LLVMValueRef x, double number)
{
    return f_compare(k, LLVMRealOEQ, x, f_number(x, number));
}

static LLVMValueRef is_infinite(Kernel *k, LLVMValueRef x)
{
    return is_equal(k, f_abs(k, x), (double)INFINITY);
}

static LLVMValueRef either(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildOr(k->builder, a, b, "");
}

static LLVMValueRef both(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildAnd(k->builder, a, b, "");
}

/* factor * x, but x itself where it is 0, also if the factor is infinite. */
static LLVMValueRef times_or_zero(Kernel *k, LLVMValueRef factor, LLVMValueRef x)
{
    return choose(k, is_equal(k, x, 0), x, f_mul(k, factor, x));
}

static LLVMValueRef hypotenuse(Kernel *k, Pair z)
{
    return scalar_math2(k, "hypot", z.re, z.im);
}

static Pair negative(Kernel *k, Pair z)
{
    return (Pair){f_neg(k, z.re), f_neg(k, z.im)};
}

static Pair times_i(Kernel *k, Pair z)
{
    return (Pair){f_neg(k, z.im), z.re};
}

static Pair over_i(Kernel *k, Pair z)
{
    return (Pair){z.im, f_neg(k, z.re)};
}

/* 1 + z and 1 - z keep the sign of the imaginary part, on which the branch depends. */
static Pair one_plus(Kernel *k, Pair z)
{
    return (Pair){plus(k, z.re, 1), z.im};
}

static Pair one_minus(Kernel *k, Pair z)
{
    return (Pair){f_sub(k, f_number(z.re, 1), z.re), f_neg(k, z.im)};
}

/* -- arithmetic -- */

LLVMValueRef complex_add(const ScalarCall *c)
{
    Pair a = operand(c, 0), b = operand(c, 1);
    return result(c, (Pair){f_add(c->k, a.re, b.re), f_add(c->k, a.im, b.im)});
}

LLVMValueRef complex_subtract(const ScalarCall *c)
{
    Pair a = operand(c, 0), b = operand(c, 1);
    return result(c, (Pair){f_sub(c->k, a.re, b.re), f_sub(c->k, a.im, b.im)});
}

static Pair multiply(Kernel *k, Pair a, Pair b)
{
    return (Pair){f_sub(k, f_mul(k, a.re, b.re), f_mul(k, a.im, b.im)),
                  f_add(k, f_mul(k, a.re, b.im), f_mul(k, a.im, b.re))};
}

LLVMValueRef complex_multiply(const ScalarCall *c)
{
    return result(c, multiply(c->k, operand(c, 0), operand(c, 1)));
}

LLVMValueRef complex_negate(const ScalarCall *c)
{
    return result(c, negative(c->k, operand(c, 0)));
}

/* A power of two near 1 / x, for x >= 0. */
static LLVMValueRef inverse_scale(Kernel *k, LLVMValueRef x)
{
    LLVMBuilderRef b = k->builder;
    bool wide = is_f64(x);
    unsigned mantissa = wide ? 52 : 23;
    uint64_t bias = wide ? 1023 : 127;
    LLVMTypeRef type = gx_int_type(k, wide ? 64 : 32);
    LLVMValueRef bits = LLVMBuildBitCast(b, x, type, "");
    LLVMValueRef shift = LLVMConstInt(type, mantissa, 0);
    LLVMValueRef exponent = LLVMBuildLShr(b, bits, shift, "");
    exponent = LLVMBuildSub(b, LLVMConstInt(type, 2 * bias, 0), exponent, "");
    exponent = f_intrinsic2(k, "smax", exponent, LLVMConstInt(type, 1, 0));
    return LLVMBuildBitCast(b, LLVMBuildShl(b, exponent, shift, ""), LLVMTypeOf(x), "");
}

/* a conj(b), each part times `factor`. */
static Pair conjugate_product(Kernel *k, Pair a, Pair b, LLVMValueRef factor)
{
    LLVMValueRef re = f_add(k, f_mul(k, a.re, b.re), f_mul(k, a.im, b.im));
    LLVMValueRef im = f_sub(k, f_mul(k, a.im, b.re), f_mul(k, a.re, b.im));
    return (Pair){f_mul(k, re, factor), f_mul(k, im, factor)};
}

/* An infinite part becomes 1, a finite one 0, with its sign. */
static Pair boxed(Kernel *k, Pair z)
{
    Pair r;
    LLVMValueRef one = f_number(z.re, 1), zero = f_number(z.re, 0);
    r.re = f_copysign(k, choose(k, is_infinite(k, z.re), one, zero), z.re);
    r.im = f_copysign(k, choose(k, is_infinite(k, z.im), one, zero), z.im);
    return r;
}

static Pair choose_pair(Kernel *k, LLVMValueRef condition, Pair a, Pair b)
{
    return (Pair){choose(k, condition, a.re, b.re), choose(k, condition, a.im, b.im)};
}

/* As C's annex G: a zero divisor gives infinities, an infinite one zeros, an infinite dividend
 * infinities, where the formula gives only NaN. */
static Pair divide(Kernel *k, Pair a, Pair b)
{
    LLVMValueRef inf = f_number(a.re, (double)INFINITY), zero = f_number(a.re, 0);
    LLVMValueRef scale =
        inverse_scale(k, f_intrinsic2(k, "maxnum", f_abs(k, b.re), f_abs(k, b.im)));
    Pair s = {f_mul(k, b.re, scale), f_mul(k, b.im, scale)};
    LLVMValueRef size = f_add(k, f_mul(k, s.re, s.re), f_mul(k, s.im, s.im));
    LLVMValueRef one = f_number(a.re, 1);
    Pair r = conjugate_product(k, a, s, one);
    r = (Pair){f_mul(k, f_div(k, r.re, size), scale),
               f_mul(k, f_div(k, r.im, size), scale)};

    LLVMValueRef is_lost = both(k, f_compare(k, LLVMRealUNO, r.re, r.re),
                                f_compare(k, LLVMRealUNO, r.im, r.im));
    LLVMValueRef a_inf = either(k, is_infinite(k, a.re), is_infinite(k, a.im));
    LLVMValueRef b_inf = either(k, is_infinite(k, b.re), is_infinite(k, b.im));
    LLVMValueRef b_number = f_compare(k, LLVMRealORD, b.re, b.im);
    LLVMValueRef a_number = f_compare(k, LLVMRealORD, a.re, a.im);
    LLVMValueRef by_zero = both(k, is_equal(k, b.re, 0), is_equal(k, b.im, 0));
    LLVMValueRef signed_inf = f_copysign(k, inf, b.re);
    Pair infinite = conjugate_product(k, boxed(k, a), b, inf);
    Pair vanished = conjugate_product(k, a, boxed(k, b), zero);
    LLVMValueRef not_b_inf = LLVMBuildNot(k->builder, b_inf, "");
    LLVMValueRef not_a_inf = LLVMBuildNot(k->builder, a_inf, "");
    Pair other =
        choose_pair(k, both(k, b_inf, both(k, not_a_inf, a_number)), vanished, r);
    other = choose_pair(k, both(k, a_inf, both(k, not_b_inf, b_number)), infinite, other);
    Pair over_zero = {f_mul(k, signed_inf, a.re), f_mul(k, signed_inf, a.im)};
    other = choose_pair(k, by_zero, over_zero, other);
    return choose_pair(k, is_lost, other, r);
}

LLVMValueRef complex_divide(const ScalarCall *c)
{
    return result(c, divide(c->k, operand(c, 0), operand(c, 1)));
}

LLVMValueRef complex_abs(const ScalarCall *c)
{
    return hypotenuse(c->k, operand(c, 0));
}

LLVMValueRef complex_sign(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    LLVMValueRef size = hypotenuse(k, z);
    Pair unit = {f_div(k, z.re, size), f_div(k, z.im, size)};
    return result(c, choose_pair(k, is_equal(k, size, 0), z, unit));
}

LLVMValueRef complex_real(const ScalarCall *c)
{
    return operand(c, 0).re;
}

LLVMValueRef complex_imag(const ScalarCall *c)
{
    return operand(c, 0).im;
}

LLVMValueRef complex_compare(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair a = operand(c, 0), b = operand(c, 1);
    LLVMValueRef equal = both(k, f_compare(k, LLVMRealOEQ, a.re, b.re),
                              f_compare(k, LLVMRealOEQ, a.im, b.im));
    bool is_equality = inst_int(c->inst, ATTR_DIRECTION, 0) == DIRECTION_EQ;
    return is_equality ? equal : LLVMBuildNot(k->builder, equal, "");
}

/* -- roots, exponentials, logarithms -- */

/* t = sqrt((|x| + |z|) / 2) is the larger part, |y| / 2t the other. */
static Pair square_root(Kernel *k, Pair z)
{
    LLVMValueRef x = z.re, y = z.im, one = f_number(x, 1);
    LLVMValueRef largest = f_intrinsic2(k, "maxnum", f_abs(k, x), f_abs(k, y));
    LLVMValueRef limit = f_number(x, is_f64(x) ? 0x1p1020 : 0x1p124);
    LLVMValueRef is_huge = f_compare(k, LLVMRealOGT, largest, limit);
    LLVMValueRef scale = choose(k, is_huge, f_number(x, 0.0625), one);
    Pair s = {f_mul(k, x, scale), f_mul(k, y, scale)};
    LLVMValueRef t = f_add(k, f_abs(k, s.re), hypotenuse(k, s));
    t = f_intrinsic(k, "sqrt", scaled(k, t, 0.5));
    t = f_mul(k, t, choose(k, is_huge, f_number(x, 4), one));
    LLVMValueRef small = f_div(k, f_abs(k, y), scaled(k, t, 2));
    LLVMValueRef is_right = f_compare(k, LLVMRealOGE, x, f_number(x, 0));
    Pair r = {choose(k, is_right, t, small), choose(k, is_right, small, t)};
    r.im = f_copysign(k, r.im, y);
    Pair origin = {f_number(x, 0), y}, infinite = {f_number(x, (double)INFINITY), y};
    r = choose_pair(k, is_equal(k, largest, 0), origin, r);
    LLVMValueRef is_nan = f_compare(k, LLVMRealUNO, x, y);
    Pair lost = {f_add(k, x, y), f_add(k, x, y)};
    r = choose_pair(k, both(k, is_nan, LLVMBuildNot(k->builder, is_infinite(k, x), "")),
                    lost, r);
    return choose_pair(k, is_infinite(k, y), infinite, r);
}

static Pair exponential(Kernel *k, Pair z)
{
    LLVMValueRef half =
        scalar_math(k, "exp", scaled(k, z.re, 0.5)); /* no early overflow */
    LLVMValueRef re = f_mul(k, f_mul(k, half, scalar_math(k, "cos", z.im)), half);
    LLVMValueRef im = times_or_zero(k, half, scalar_math(k, "sin", z.im));
    im = times_or_zero(k, half, im);
    LLVMValueRef vanishes = is_equal(k, half, 0), zero = f_number(z.re, 0);
    return (Pair){choose(k, vanishes, zero, re), choose(k, vanishes, zero, im)};
}

/* log of |z|: of the larger part, and of sqrt(1 + ratio^2). */
static LLVMValueRef log_size(Kernel *k, Pair z)
{
    LLVMValueRef x = f_abs(k, z.re), y = f_abs(k, z.im);
    LLVMValueRef larger = f_intrinsic2(k, "maxnum", x, y);
    LLVMValueRef smaller = f_intrinsic2(k, "minimum", x, y);
    LLVMValueRef ratio = f_div(k, smaller, larger);
    LLVMValueRef plain = either(k, is_equal(k, smaller, 0), is_infinite(k, larger));
    ratio = choose(k, plain, f_number(x, 0), ratio);
    LLVMValueRef correction = scalar_math(k, "log1p", f_mul(k, ratio, ratio));
    return f_add(k, scalar_math(k, "log", larger), scaled(k, correction, 0.5));
}

static Pair logarithm(Kernel *k, Pair z)
{
    return (Pair){log_size(k, z), scalar_math2(k, "atan2", z.im, z.re)};
}

LLVMValueRef complex_sqrt(const ScalarCall *c)
{
    return result(c, square_root(c->k, operand(c, 0)));
}

LLVMValueRef complex_rsqrt(const ScalarCall *c)
{
    Pair root = square_root(c->k, operand(c, 0));
    Pair one = {f_number(root.re, 1), f_number(root.re, 0)};
    return result(c, divide(c->k, one, root));
}

LLVMValueRef complex_exponential(const ScalarCall *c)
{
    return result(c, exponential(c->k, operand(c, 0)));
}

/* e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2) */
LLVMValueRef complex_exponential_minus_one(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    LLVMValueRef half = scalar_math(k, "sin", scaled(k, z.im, 0.5));
    LLVMValueRef grown = scalar_math(k, "expm1", z.re);
    LLVMValueRef re = f_sub(k, f_mul(k, grown, scalar_math(k, "cos", z.im)),
                            scaled(k, f_mul(k, half, half), 2));
    Pair r = {choose(k, is_equal(k, z.im, 0), grown, re), exponential(k, z).im};
    return result(c, r);
}

LLVMValueRef complex_log(const ScalarCall *c)
{
    return result(c, logarithm(c->k, operand(c, 0)));
}

/* |1 + z|^2 - 1 = x (2 + x) + y^2 */
LLVMValueRef complex_log_plus_one(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0), one = one_plus(k, z);
    LLVMValueRef square =
        f_add(k, f_mul(k, z.re, plus(k, z.re, 2)), f_mul(k, z.im, z.im));
    LLVMValueRef near = scaled(k, scalar_math(k, "log1p", square), 0.5);
    LLVMValueRef half = f_number(z.re, 0.5);
    LLVMValueRef is_near = both(k, f_compare(k, LLVMRealOLT, f_abs(k, z.re), half),
                                f_compare(k, LLVMRealOLT, f_abs(k, z.im), half));
    Pair r = logarithm(k, one);
    r.re = choose(k, is_near, near, r.re);
    return result(c, r);
}

LLVMValueRef complex_logistic(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = exponential(k, negative(k, operand(c, 0)));
    Pair one = {f_number(z.re, 1), f_number(z.re, 0)};
    return result(c, divide(k, one, one_plus(k, z)));
}

/* 0^0 = 1, 0^w = 0 for real w > 0 and NaN for others, else z^w = e^(w log z). */
LLVMValueRef complex_power(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0), w = operand(c, 1);
    Pair r = exponential(k, multiply(k, w, logarithm(k, z)));
    LLVMValueRef zero = f_number(z.re, 0), one = f_number(z.re, 1);
    LLVMValueRef is_zero = both(k, is_equal(k, z.re, 0), is_equal(k, z.im, 0));
    LLVMValueRef is_real =
        both(k, is_equal(k, w.im, 0), f_compare(k, LLVMRealOGE, w.re, zero));
    LLVMValueRef nan = f_number(z.re, (double)NAN);
    Pair simple = {choose(k, is_equal(k, w.re, 0), one, zero), zero};
    simple = choose_pair(k, is_real, simple, (Pair){nan, nan});
    return result(c, choose_pair(k, is_zero, simple, r));
}

/* -- hyperbolic and trigonometric functions: f(z) = g(i z) / i -- */

static Pair hyperbolic_sine(Kernel *k, Pair z)
{
    LLVMValueRef c = scalar_math(k, "cosh", z.re), s = scalar_math(k, "sinh", z.re);
    return (Pair){times_or_zero(k, scalar_math(k, "cos", z.im), s),
                  times_or_zero(k, c, scalar_math(k, "sin", z.im))};
}

static Pair hyperbolic_cosine(Kernel *k, Pair z)
{
    LLVMValueRef c = scalar_math(k, "cosh", z.re), s = scalar_math(k, "sinh", z.re);
    LLVMValueRef im = times_or_zero(k, s, scalar_math(k, "sin", z.im));
    im = choose(k, is_equal(k, s, 0), f_number(s, 0), im);
    return (Pair){f_mul(k, c, scalar_math(k, "cos", z.im)), im};
}

/* With t = tan y, s = sinh x, b = 1 + t^2: (b s cosh x + i t) / (1 + b s^2). Beyond the limit
 * the real part is 1 and the imaginary part vanishes. */
static Pair hyperbolic_tangent(Kernel *k, Pair z)
{
    LLVMValueRef limit = f_number(z.re, is_f64(z.re) ? 40 : 20);
    LLVMValueRef x = f_intrinsic2(k, "minimum", f_abs(k, z.re), limit);
    x = f_copysign(k, x, z.re);
    LLVMValueRef t = scalar_math(k, "tan", z.im), s = scalar_math(k, "sinh", x);
    LLVMValueRef b = plus(k, f_mul(k, t, t), 1);
    LLVMValueRef bs = f_mul(k, b, s), size = plus(k, f_mul(k, bs, s), 1);
    LLVMValueRef re = f_div(k, f_mul(k, bs, scalar_math(k, "cosh", x)), size);
    return (Pair){re, f_div(k, t, size)};
}

LLVMValueRef complex_sinh(const ScalarCall *c)
{
    return result(c, hyperbolic_sine(c->k, operand(c, 0)));
}

LLVMValueRef complex_cosh(const ScalarCall *c)
{
    return result(c, hyperbolic_cosine(c->k, operand(c, 0)));
}

LLVMValueRef complex_tanh(const ScalarCall *c)
{
    return result(c, hyperbolic_tangent(c->k, operand(c, 0)));
}

LLVMValueRef complex_sine(const ScalarCall *c)
{
    Pair r = hyperbolic_sine(c->k, times_i(c->k, operand(c, 0)));
    return result(c, over_i(c->k, r));
}

LLVMValueRef complex_cosine(const ScalarCall *c)
{
    return result(c, hyperbolic_cosine(c->k, times_i(c->k, operand(c, 0))));
}

LLVMValueRef complex_tan(const ScalarCall *c)
{
    Pair r = hyperbolic_tangent(c->k, times_i(c->k, operand(c, 0)));
    return result(c, over_i(c->k, r));
}

/* -- their inverses -- */

static Pair arc_sine(Kernel *k, Pair z)
{
    Pair m = square_root(k, one_minus(k, z)), p = square_root(k, one_plus(k, z));
    LLVMValueRef across = f_sub(k, f_mul(k, m.re, p.re), f_mul(k, m.im, p.im));
    LLVMValueRef along = f_sub(k, f_mul(k, m.re, p.im), f_mul(k, m.im, p.re));
    return (Pair){scalar_math2(k, "atan2", z.re, across), scalar_math(k, "asinh", along)};
}

LLVMValueRef complex_asin(const ScalarCall *c)
{
    return result(c, arc_sine(c->k, operand(c, 0)));
}

LLVMValueRef complex_asinh(const ScalarCall *c)
{
    Pair r = arc_sine(c->k, times_i(c->k, operand(c, 0)));
    return result(c, over_i(c->k, r));
}

LLVMValueRef complex_acos(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    Pair m = square_root(k, one_minus(k, z)), p = square_root(k, one_plus(k, z));
    LLVMValueRef along = f_sub(k, f_mul(k, p.re, m.im), f_mul(k, p.im, m.re));
    Pair r = {scaled(k, scalar_math2(k, "atan2", m.re, p.re), 2),
              scalar_math(k, "asinh", along)};
    return result(c, r);
}

LLVMValueRef complex_acosh(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0), less = {plus(k, z.re, -1), z.im};
    Pair m = square_root(k, less), p = square_root(k, one_plus(k, z));
    LLVMValueRef along = f_add(k, f_mul(k, m.re, p.re), f_mul(k, m.im, p.im));
    Pair r = {scalar_math(k, "asinh", along),
              scaled(k, scalar_math2(k, "atan2", m.im, p.re), 2)};
    return result(c, r);
}

/* Real part: log1p(4 x / ((1 - x)^2 + y^2)) / 4 for x >= 0, and odd; imaginary part: half the
 * angle of ((1 - x)(1 + x) - y^2, 2 y). 2 y stays finite: its angle with an infinite y^2 is to be pi. */
LLVMValueRef complex_atanh(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    LLVMValueRef limit = f_number(z.re, is_f64(z.re) ? 0x1p500 : 0x1p60);
    LLVMValueRef x = f_intrinsic2(k, "minimum", f_abs(k, z.re), limit);
    LLVMValueRef less = f_sub(k, f_number(x, 1), x);
    LLVMValueRef most = f_number(x, is_f64(x) ? 0x1p1000 : 0x1p120);
    LLVMValueRef y =
        f_copysign(k, f_intrinsic2(k, "minimum", f_abs(k, z.im), most), z.im);
    LLVMValueRef square = f_mul(k, y, y);
    LLVMValueRef size = f_add(k, f_mul(k, less, less), square);
    LLVMValueRef re = f_div(k, scaled(k, x, 4), size);
    re = scaled(k, scalar_math(k, "log1p", re), 0.25);
    LLVMValueRef across = f_sub(k, f_mul(k, less, plus(k, x, 1)), square);
    LLVMValueRef im = scalar_math2(k, "atan2", scaled(k, y, 2), across);
    return result(c, (Pair){f_copysign(k, re, z.re), scaled(k, im, 0.5)});
}

/* The angle of (b, a), continued: log((b + i a) / sqrt(a^2 + b^2)) / i */
LLVMValueRef complex_atan2(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair a = operand(c, 0), b = operand(c, 1);
    Pair aa = multiply(k, a, a), bb = multiply(k, b, b);
    Pair sum = {f_add(k, aa.re, bb.re), f_add(k, aa.im, bb.im)}, ia = times_i(k, a);
    Pair along = {f_add(k, b.re, ia.re), f_add(k, b.im, ia.im)};
    Pair ratio = divide(k, along, square_root(k, sum));
    return result(c, over_i(k, logarithm(k, ratio)));
}
