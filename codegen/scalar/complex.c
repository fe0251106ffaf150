/* Complex numbers: arithmetic, and functions by formulas that keep their accuracy near branch
 * points and for large numbers, in the component type. W. Kahan, "Branch cuts for complex
 * elementary functions" (1987). */
#include "codegen/scalar/scalar.h"

#include <math.h>

static const double HALF_PI = 1.5707963267948966, LOG_TWO = 0.6931471805599453;

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

static LLVMValueRef is_nan(Kernel *k, LLVMValueRef x)
{
    return f_compare(k, LLVMRealUNO, x, x);
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

/* The plain formula, as in the evaluator: of infinities it is NaN. Where products beyond the range cancel, one that is
 * contracted gives infinity and not NaN. */
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

/* What brings x, the largest of some numbers, into a range in which their products and squares stay: a power of two. */
static LLVMValueRef moderate_scale(Kernel *k, LLVMValueRef x)
{
    bool wide = is_f64(x);
    LLVMValueRef high = f_number(x, wide ? 0x1p500 : 0x1p60);
    LLVMValueRef low = f_number(x, wide ? 0x1p-500 : 0x1p-60);
    LLVMValueRef is_small = f_compare(k, LLVMRealOLT, x, low);
    LLVMValueRef up =
        choose(k, is_small, f_number(x, wide ? 0x1p574 : 0x1p88), f_number(x, 1));
    return choose(k, f_compare(k, LLVMRealOGT, x, high),
                  f_number(x, wide ? 0x1p-524 : 0x1p-68), up);
}

static Pair times_real(Kernel *k, Pair z, LLVMValueRef factor)
{
    return (Pair){f_mul(k, z.re, factor), f_mul(k, z.im, factor)};
}

static Pair over_real(Kernel *k, Pair z, LLVMValueRef divisor)
{
    return (Pair){f_div(k, z.re, divisor), f_div(k, z.im, divisor)};
}

/* Of the larger part; NaN counts only if both are. */
static LLVMValueRef largest(Kernel *k, Pair z)
{
    return f_intrinsic2(k, "maxnum", f_abs(k, z.re), f_abs(k, z.im));
}

static LLVMValueRef square(Kernel *k, Pair z)
{
    return f_add(k, f_mul(k, z.re, z.re), f_mul(k, z.im, z.im));
}

static Pair conjugate_product(Kernel *k, Pair a, Pair b)
{
    return (Pair){f_add(k, f_mul(k, a.re, b.re), f_mul(k, a.im, b.im)),
                  f_sub(k, f_mul(k, a.im, b.re), f_mul(k, a.re, b.im))};
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

/* As C's annex G: a zero divisor gives infinities, an infinite one zeros, an infinite dividend infinities. The divisor is
 * scaled to about 1, the dividend only where products with it would leave the range. */
LLVMValueRef complex_divide(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair a = operand(c, 0), b = operand(c, 1);
    LLVMValueRef most = largest(k, a), most_b = largest(k, b), one = f_number(most, 1);
    LLVMValueRef far = f_number(most, is_f64(most) ? 0x1p512 : 0x1p64);
    LLVMValueRef less = f_number(most, is_f64(most) ? 0x1p-512 : 0x1p-64);
    LLVMValueRef is_large = f_compare(k, LLVMRealOGT, most, far);
    LLVMValueRef is_small = f_compare(k, LLVMRealOLT, most, less);
    LLVMValueRef by_inf = is_infinite(k, most_b), scale = inverse_scale(k, most_b);
    LLVMValueRef down = choose(k, is_small, less, one),
                 up = choose(k, is_large, far, one);
    Pair n = times_real(k, a, choose(k, is_large, less, choose(k, is_small, far, one)));
    Pair s = choose_pair(k, by_inf, boxed(k, b), times_real(k, b, scale));
    LLVMValueRef size = square(k, s);
    Pair r = over_real(k, conjugate_product(k, n, s), size);
    down = choose(k, by_inf, f_number(most, 0), f_mul(k, scale, down));
    r = times_real(k, times_real(k, r, down), up);

    LLVMValueRef inf = f_number(most, (double)INFINITY);
    Pair over_zero = times_real(k, a, f_copysign(k, inf, b.re));
    r = choose_pair(k, is_equal(k, size, 0), over_zero, r);
    Pair infinite = times_real(k, conjugate_product(k, boxed(k, a), b), inf);
    LLVMValueRef is_inf =
        both(k, is_infinite(k, most),
             LLVMBuildNot(k->builder, either(k, by_inf, is_equal(k, size, 0)), ""));
    return result(c, choose_pair(k, is_inf, infinite, r));
}

/* By the conjugate, which keeps the sign of a part that is 0. */
static Pair reciprocal(Kernel *k, Pair z)
{
    LLVMValueRef most = largest(k, z), scale = inverse_scale(k, most);
    LLVMValueRef zero = f_number(most, 0), inf = f_number(most, (double)INFINITY);
    Pair s = times_real(k, z, scale), conjugate = {s.re, f_neg(k, s.im)};
    Pair r = times_real(k, over_real(k, conjugate, square(k, s)), scale);
    Pair none = {f_copysign(k, zero, z.re), f_copysign(k, zero, f_neg(k, z.im))};
    r.re = choose(k, is_equal(k, most, 0), inf, r.re);
    return choose_pair(k, is_infinite(k, most), none, r);
}

LLVMValueRef complex_abs(const ScalarCall *c)
{
    return hypotenuse(c->k, operand(c, 0));
}

LLVMValueRef complex_sign(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    Pair s = times_real(k, z, inverse_scale(k, largest(k, z)));
    LLVMValueRef size = f_intrinsic(k, "sqrt", square(k, s));
    Pair unit = over_real(k, s, size);
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
    LLVMValueRef x = z.re, y = z.im, one = f_number(x, 1), most = largest(k, z);
    bool wide = is_f64(x);
    LLVMValueRef above = f_number(x, wide ? 0x1p1020 : 0x1p124);
    LLVMValueRef below = f_number(x, wide ? 0x1p-900 : 0x1p-100);
    LLVMValueRef is_huge = f_compare(k, LLVMRealOGT, most, above);
    LLVMValueRef is_tiny = f_compare(k, LLVMRealOLT, most, below);
    LLVMValueRef up = choose(k, is_tiny, f_number(x, wide ? 0x1p108 : 0x1p48), one);
    LLVMValueRef down = choose(k, is_tiny, f_number(x, wide ? 0x1p-54 : 0x1p-24), one);
    Pair s = times_real(k, z, choose(k, is_huge, f_number(x, 0.0625), up));
    LLVMValueRef t = f_add(k, f_abs(k, s.re), hypotenuse(k, s));
    t = f_intrinsic(k, "sqrt", scaled(k, t, 0.5));
    t = f_mul(k, t, choose(k, is_huge, f_number(x, 4), down));
    LLVMValueRef small = f_div(k, f_abs(k, y), scaled(k, t, 2));
    LLVMValueRef is_right = f_compare(k, LLVMRealOGE, x, f_number(x, 0));
    Pair r = {choose(k, is_right, t, small), choose(k, is_right, small, t)};
    r.im = f_copysign(k, r.im, y);
    Pair origin = {f_number(x, 0), y}, infinite = {f_number(x, (double)INFINITY), y};
    r = choose_pair(k, is_equal(k, most, 0), origin, r);
    LLVMValueRef is_lost = f_compare(k, LLVMRealUNO, x, y);
    Pair lost = {f_add(k, x, y), f_add(k, x, y)};
    r = choose_pair(k, both(k, is_lost, LLVMBuildNot(k->builder, is_infinite(k, x), "")),
                    lost, r);
    return choose_pair(k, is_infinite(k, y), infinite, r);
}

/* cos y, but 1 where that is no number and x infinite: infinite parts stay so, and those of e^-inf 0. */
static LLVMValueRef cosine_beside(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef cosine = scalar_math(k, "cos", y);
    LLVMValueRef is_lost = both(k, is_infinite(k, x), is_nan(k, cosine));
    return choose(k, is_lost, f_number(x, 1), cosine);
}

static Pair exponential(Kernel *k, Pair z)
{
    LLVMValueRef half =
        scalar_math(k, "exp", scaled(k, z.re, 0.5)); /* no early overflow */
    LLVMValueRef re = f_mul(k, half, cosine_beside(k, z.re, z.im));
    LLVMValueRef sine = scalar_math(k, "sin", z.im);
    LLVMValueRef vanishes = is_equal(k, z.re, (double)-INFINITY);
    sine = choose(k, both(k, vanishes, is_nan(k, sine)), f_number(sine, 0), sine);
    LLVMValueRef im = times_or_zero(k, half, times_or_zero(k, half, sine));
    return (Pair){f_mul(k, re, half), im};
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
    return result(c, reciprocal(c->k, square_root(c->k, operand(c, 0))));
}

LLVMValueRef complex_exponential(const ScalarCall *c)
{
    return result(c, exponential(c->k, operand(c, 0)));
}

/* e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2); of a large e^x, or none, nothing cancels. */
LLVMValueRef complex_exponential_minus_one(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0), e = exponential(k, z);
    LLVMValueRef half = scalar_math(k, "sin", scaled(k, z.im, 0.5));
    LLVMValueRef grown = scalar_math(k, "expm1", z.re);
    LLVMValueRef re = f_sub(k, f_mul(k, grown, scalar_math(k, "cos", z.im)),
                            scaled(k, f_mul(k, half, half), 2));
    re = choose(k, is_equal(k, z.im, 0), grown, re);
    LLVMValueRef limit = f_number(re, is_f64(re) ? 40 : 20);
    LLVMValueRef is_far = f_compare(k, LLVMRealOGT, f_abs(k, z.re), limit);
    return result(c, (Pair){choose(k, is_far, plus(k, e.re, -1), re), e.im});
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

/* 1 / (1 + e^-z) = e^z / (1 + e^z), of which one's exponential does not overflow. 1 + e^x cos y = (e^x - 1) cos y + 2 c^2,
 * c = cos(y / 2), cancels nothing near a pole. Of infinite x, y does not matter. */
LLVMValueRef complex_logistic(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    LLVMValueRef zero = f_number(z.re, 0), one = f_number(z.re, 1);
    LLVMValueRef is_left = f_compare(k, LLVMRealOLT, z.re, zero);
    Pair w = choose_pair(k, is_left, z, negative(k, z));
    LLVMValueRef half = scaled(k, w.im, 0.5);
    LLVMValueRef cosine = cosine_beside(k, w.re, half),
                 sine = scalar_math(k, "sin", half);
    sine = choose(k, both(k, is_infinite(k, w.re), is_nan(k, sine)), zero, sine);
    LLVMValueRef twice = scaled(k, f_mul(k, cosine, cosine), 2);
    Pair turn = {plus(k, twice, -1), scaled(k, f_mul(k, sine, cosine), 2)};
    Pair e = times_real(k, turn, scalar_math(k, "exp", w.re));
    LLVMValueRef lost = scalar_math(k, "expm1", w.re);
    Pair sum = {f_add(k, f_mul(k, lost, turn.re), twice), e.im};
    Pair n = choose_pair(k, is_left, e, (Pair){one, zero});
    Pair r = conjugate_product(k, n, sum);
    r.im = choose(k, is_left, r.im, f_neg(k, sum.im)); /* keeps the sign of 0 */
    return result(c, over_real(k, r, square(k, sum)));
}

/* z^0 = 1, 0^w = 0 for real w > 0 and NaN for others, else z^w = e^(w log z). A real w multiplies each part: 0 times an
 * infinite one would be NaN. */
LLVMValueRef complex_power(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0), w = operand(c, 1), l = logarithm(k, z);
    LLVMValueRef zero = f_number(z.re, 0), one = f_number(z.re, 1);
    LLVMValueRef nan = f_number(z.re, (double)NAN), is_real = is_equal(k, w.im, 0);
    Pair r = exponential(
        k, choose_pair(k, is_real, times_real(k, l, w.re), multiply(k, w, l)));
    LLVMValueRef is_positive = both(k, is_real, f_compare(k, LLVMRealOGT, w.re, zero));
    LLVMValueRef of_zero = choose(k, is_positive, zero, nan);
    LLVMValueRef is_zero = both(k, is_equal(k, z.re, 0), is_equal(k, z.im, 0));
    r = choose_pair(k, is_zero, (Pair){of_zero, of_zero}, r);
    LLVMValueRef is_one = both(k, is_real, is_equal(k, w.re, 0));
    return result(c, choose_pair(k, is_one, (Pair){one, zero}, r));
}

/* -- hyperbolic and trigonometric functions: f(z) = g(i z) / i -- */

/* cosh x and sinh x over growth^2, which is 1 but for a large |x|: their products with what is small need not overflow,
 * and those with 0 are 0. */
typedef struct Hyperbolic {
    LLVMValueRef c, s, growth;
} Hyperbolic;

/* cosh x where sinh x = s, which is cheaper than the function. */
static LLVMValueRef cosine_of_sine(Kernel *k, LLVMValueRef s)
{
    return f_intrinsic(k, "sqrt", plus(k, f_mul(k, s, s), 1));
}

static Hyperbolic hyperbolic(Kernel *k, LLVMValueRef x)
{
    LLVMValueRef limit = f_number(x, is_f64(x) ? 709 : 88), size = f_abs(k, x);
    LLVMValueRef near = f_intrinsic2(k, "minimum", size, limit);
    LLVMValueRef rest = scaled(k, f_sub(k, size, near), 0.5);
    LLVMValueRef growth = scalar_math(k, "exp", f_intrinsic2(k, "minnum", rest, limit));
    LLVMValueRef sine = scalar_math(k, "sinh", f_copysign(k, near, x));
    LLVMValueRef magnitude = f_abs(k, sine), root = cosine_of_sine(k, sine);
    LLVMValueRef is_large = f_compare(k, LLVMRealOGT, magnitude, f_number(x, 0x1p32));
    return (Hyperbolic){choose(k, is_large, magnitude, root), sine, growth};
}

static Pair grown(Kernel *k, Pair z, const Hyperbolic *h)
{
    return times_real(k, times_real(k, z, h->growth), h->growth);
}

/* x y, but 0 where one of them is that and the other NaN. */
static LLVMValueRef product_or_zero(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef zero = choose(k, is_equal(k, x, 0), x, y), r = f_mul(k, x, y);
    return choose(k, both(k, is_nan(k, r), is_equal(k, zero, 0)), zero, r);
}

static Pair hyperbolic_sine(Kernel *k, Pair z)
{
    Hyperbolic h = hyperbolic(k, z.re);
    Pair r = {product_or_zero(k, cosine_beside(k, z.re, z.im), h.s),
              times_or_zero(k, h.c, scalar_math(k, "sin", z.im))};
    return grown(k, r, &h);
}

static Pair hyperbolic_cosine(Kernel *k, Pair z)
{
    Hyperbolic h = hyperbolic(k, z.re);
    Pair r = {f_mul(k, h.c, cosine_beside(k, z.re, z.im)),
              product_or_zero(k, h.s, scalar_math(k, "sin", z.im))};
    return grown(k, r, &h);
}

/* With t = tan y, s = sinh x, b = 1 + t^2: (b s cosh x + i t) / (1 + b s^2). Beyond the limit
 * the real part is 1 and the imaginary part vanishes, whatever y is. */
static Pair hyperbolic_tangent(Kernel *k, Pair z)
{
    LLVMValueRef limit = f_number(z.re, is_f64(z.re) ? 40 : 20);
    LLVMValueRef x = f_intrinsic2(k, "minimum", f_abs(k, z.re), limit);
    x = f_copysign(k, x, z.re);
    LLVMValueRef t = scalar_math(k, "tan", z.im), s = scalar_math(k, "sinh", x);
    LLVMValueRef is_lost = both(k, is_infinite(k, z.re), is_nan(k, t));
    t = choose(k, is_lost, f_number(t, 0), t);
    LLVMValueRef b = plus(k, f_mul(k, t, t), 1);
    LLVMValueRef bs = f_mul(k, b, s), size = plus(k, f_mul(k, bs, s), 1);
    LLVMValueRef re = f_div(k, f_mul(k, bs, cosine_of_sine(k, s)), size);
    return (Pair){choose(k, is_equal(k, z.re, 0), z.re, re),
                  choose(k, is_equal(k, z.im, 0), z.im, f_div(k, t, size))};
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

/* z, divided by a power of two where it is so large that 1 vanishes beside it, and what that takes from log |z|. An infinite
 * part counts as 1, others then as 0. */
typedef struct Near {
    Pair z;
    LLVMValueRef taken;
} Near;

static Near nearer(Kernel *k, Pair z)
{
    bool wide = is_f64(z.re);
    LLVMValueRef most = largest(k, z), is_inf = is_infinite(k, most);
    LLVMValueRef limit = f_number(most, wide ? 0x1p1000 : 0x1p100);
    LLVMValueRef is_far = f_compare(k, LLVMRealOGT, most, limit);
    LLVMValueRef one = f_number(most, 1), zero = f_number(most, 0);
    LLVMValueRef taken = f_number(most, (wide ? 900 : 80) * LOG_TWO);
    Pair far = times_real(k, boxed(k, z), limit);
    Pair r = times_real(
        k, z, choose(k, is_far, f_number(most, wide ? 0x1p-900 : 0x1p-80), one));
    LLVMValueRef inf = f_number(most, (double)INFINITY);
    return (Near){choose_pair(k, is_inf, far, r),
                  choose(k, is_inf, inf, choose(k, is_far, taken, zero))};
}

/* asinh x of what is nearer. */
static LLVMValueRef arc_beyond(Kernel *k, LLVMValueRef x, LLVMValueRef taken)
{
    return f_add(k, scalar_math(k, "asinh", x), f_copysign(k, taken, x));
}

/* The angle where a part of z is NaN: `known` for a real part of 0. */
static LLVMValueRef angle_or_nan(Kernel *k, Pair z, LLVMValueRef angle,
                                 LLVMValueRef known)
{
    LLVMValueRef nan = f_number(angle, (double)NAN);
    LLVMValueRef lost = choose(k, is_equal(k, z.re, 0), known, nan);
    return choose(k, f_compare(k, LLVMRealUNO, z.re, z.im), lost, angle);
}

static Pair arc_sine(Kernel *k, Pair z)
{
    Near n = nearer(k, z);
    Pair m = square_root(k, one_minus(k, n.z)), p = square_root(k, one_plus(k, n.z));
    LLVMValueRef across = f_sub(k, f_mul(k, m.re, p.re), f_mul(k, m.im, p.im));
    LLVMValueRef along = f_sub(k, f_mul(k, m.re, p.im), f_mul(k, m.im, p.re));
    LLVMValueRef angle = scalar_math2(k, "atan2", n.z.re, across);
    return (Pair){angle_or_nan(k, z, angle, z.re), arc_beyond(k, along, n.taken)};
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
    Near n = nearer(k, z);
    Pair m = square_root(k, one_minus(k, n.z)), p = square_root(k, one_plus(k, n.z));
    LLVMValueRef along = f_sub(k, f_mul(k, p.re, m.im), f_mul(k, p.im, m.re));
    LLVMValueRef angle = scaled(k, scalar_math2(k, "atan2", m.re, p.re), 2);
    angle = angle_or_nan(k, z, angle, f_number(angle, HALF_PI));
    return result(c, (Pair){angle, arc_beyond(k, along, n.taken)});
}

LLVMValueRef complex_acosh(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    Near n = nearer(k, z);
    Pair less = {plus(k, n.z.re, -1), n.z.im};
    Pair m = square_root(k, less), p = square_root(k, one_plus(k, n.z));
    LLVMValueRef along = f_add(k, f_mul(k, m.re, p.re), f_mul(k, m.im, p.im));
    LLVMValueRef angle = scaled(k, scalar_math2(k, "atan2", m.im, p.re), 2);
    angle = angle_or_nan(k, z, angle, f_number(angle, HALF_PI));
    return result(c, (Pair){arc_beyond(k, along, n.taken), angle});
}

/* Real part: log1p(4 x / ((1 - x)^2 + y^2)) / 4 for x >= 0, and odd, log(2 / y) / 2 where the sum vanishes; imaginary part:
 * half the angle of ((1 - x)(1 + x) - y^2, 2 y). 2 y stays finite: its angle with an infinite y^2 is to be pi. */
LLVMValueRef complex_atanh(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair z = operand(c, 0);
    bool is_wide = is_f64(z.re);
    LLVMValueRef limit = f_number(z.re, is_wide ? 0x1p500 : 0x1p60);
    LLVMValueRef x = f_intrinsic2(k, "minimum", f_abs(k, z.re), limit);
    LLVMValueRef less = f_sub(k, f_number(x, 1), x);
    LLVMValueRef most = f_number(x, is_wide ? 0x1p1000 : 0x1p120);
    LLVMValueRef y =
        f_copysign(k, f_intrinsic2(k, "minimum", f_abs(k, z.im), most), z.im);
    LLVMValueRef square = f_mul(k, y, y);
    LLVMValueRef size = f_add(k, f_mul(k, less, less), square);
    LLVMValueRef least = f_number(x, is_wide ? 0x1p-1000 : 0x1p-120);
    LLVMValueRef is_pole = f_compare(k, LLVMRealOLT, size, least);
    LLVMValueRef two = f_number(x, is_wide ? 0x1p-199 : 0x1p-29); /* over 2^taken */
    LLVMValueRef re = f_div(k, choose(k, is_pole, two, scaled(k, x, 4)),
                            choose(k, is_pole, f_abs(k, y), size));
    re = scaled(k, scalar_math(k, "log1p", re), 0.25);
    double taken = (is_wide ? 200 : 30) * LOG_TWO;
    LLVMValueRef of_pole = scaled(k, plus(k, scaled(k, re, 4), taken), 0.5);
    re = choose(k, is_pole, of_pole, re);
    LLVMValueRef across = f_sub(k, f_mul(k, less, plus(k, x, 1)), square);
    LLVMValueRef im = scaled(k, scalar_math2(k, "atan2", scaled(k, y, 2), across), 0.5);

    LLVMValueRef is_lost = f_compare(k, LLVMRealUNO, z.re, z.im);
    LLVMValueRef by_y = both(k, is_lost, is_infinite(k, z.im));
    LLVMValueRef by_x = either(k, is_equal(k, z.re, 0), is_infinite(k, z.re));
    re = choose(k, either(k, by_y, both(k, is_lost, by_x)), f_number(x, 0), re);
    im = choose(k, by_y, f_copysign(k, f_number(x, HALF_PI), z.im), im);
    return result(c, (Pair){f_copysign(k, re, z.re), im});
}

/* The angle w of (b, a), continued: log((b + i a) / sqrt(a^2 + b^2)) / i. With s = sqrt(a^2 + b^2), cos w = b / s and sin
 * w = a / s. Of p = b + i a and q = b - i a, |e^(i w)|^2 = |p| / |q|, |p|^2 - |q|^2 = 4 cross, and p q = a^2 + b^2, whose
 * imaginary part is also 2 (x y + u v): the sum with the smaller terms loses less. Infinite parts count as 1 and others
 * then as 0, as in atan2 of real numbers. */
LLVMValueRef complex_atan2(const ScalarCall *c)
{
    Kernel *k = c->k;
    Pair a = operand(c, 0), b = operand(c, 1);
    LLVMValueRef is_lost = either(k, f_compare(k, LLVMRealUNO, a.re, a.im),
                                  f_compare(k, LLVMRealUNO, b.re, b.im));
    LLVMValueRef most = f_intrinsic2(k, "maxnum", largest(k, a), largest(k, b));
    LLVMValueRef is_inf = is_infinite(k, most), scale = moderate_scale(k, most);
    a = choose_pair(k, is_inf, boxed(k, a), times_real(k, a, scale));
    b = choose_pair(k, is_inf, boxed(k, b), times_real(k, b, scale));
    Pair p = {f_sub(k, b.re, a.im), f_add(k, b.im, a.re)};
    Pair q = {f_add(k, b.re, a.im), f_sub(k, b.im, a.re)};
    Pair product = multiply(k, p, q);
    LLVMValueRef terms[] = {f_mul(k, p.re, q.im), f_mul(k, p.im, q.re),
                            f_mul(k, a.re, a.im), f_mul(k, b.re, b.im)};
    LLVMValueRef sizes[4];
    for (unsigned i = 0; i < 4; i++)
        sizes[i] = f_abs(k, terms[i]);
    LLVMValueRef loses_less = f_compare(k, LLVMRealOLE, f_add(k, sizes[2], sizes[3]),
                                        f_add(k, sizes[0], sizes[1]));
    LLVMValueRef twice = scaled(k, f_add(k, terms[2], terms[3]), 2);
    product.im = choose(k, loses_less, twice, product.im);
    Pair s = square_root(k, product);
    LLVMValueRef re = scalar_math2(k, "atan2", conjugate_product(k, a, s).re,
                                   conjugate_product(k, b, s).re);

    LLVMValueRef cross = f_sub(k, f_mul(k, b.im, a.re), f_mul(k, b.re, a.im));
    LLVMValueRef p_size = hypotenuse(k, p), q_size = hypotenuse(k, q);
    LLVMValueRef least = f_intrinsic2(k, "minnum", p_size, q_size);
    LLVMValueRef other = f_intrinsic2(k, "maxnum", p_size, q_size);
    LLVMValueRef wide =
        f_sub(k, scalar_math(k, "log", other), scalar_math(k, "log", least));
    LLVMValueRef near = f_div(k, f_div(k, f_abs(k, cross), least), least);
    near = scaled(k, scalar_math(k, "log1p", scaled(k, near, 4)), 0.5);
    LLVMValueRef is_wide = f_compare(k, LLVMRealOLT, least, scaled(k, other, 0x1p-20));
    LLVMValueRef im = scaled(k, choose(k, is_wide, wide, near), 0.5);
    im = choose(k, f_compare(k, LLVMRealOGT, cross, f_number(im, 0)), f_neg(k, im), im);
    LLVMValueRef nan = f_number(im, (double)NAN);
    return result(c, choose_pair(k, either(k, is_lost, is_nan(k, im)), (Pair){nan, nan},
                                 (Pair){re, im}));
}
