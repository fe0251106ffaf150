/* See fft_butterfly.h. */
#include "codegen/kernel/fft_butterfly.h"

#include "codegen/scalar/scalar.h"
#include "ir/base/bug.h"
#include "ir/kernel/kinds/fft.h"

static const double PI = 3.14159265358979323846;

FftValue fft_add(Kernel *k, FftValue a, FftValue b)
{
    return (FftValue){f_add(k, a.re, b.re), f_add(k, a.im, b.im)};
}

FftValue fft_subtract(Kernel *k, FftValue a, FftValue b)
{
    return (FftValue){f_sub(k, a.re, b.re), f_sub(k, a.im, b.im)};
}

static LLVMValueRef fma3(Kernel *k, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef args[3] = {a, b, c};
    return gx_intrinsic(k, "fma", args, 3);
}

FftValue fft_multiply(Kernel *k, FftValue a, FftValue b)
{
    LLVMValueRef cross = f_neg(k, f_mul(k, a.im, b.im));
    return (FftValue){fma3(k, a.re, b.re, cross),
                      fma3(k, a.re, b.im, f_mul(k, a.im, b.re))};
}

FftValue fft_conjugate(Kernel *k, FftValue a)
{
    return (FftValue){a.re, f_neg(k, a.im)};
}

FftValue fft_times_i(Kernel *k, FftValue a)
{
    return (FftValue){f_neg(k, a.im), a.re};
}

/* -- powers of two ------------------------------------------------------------------------------- */

static void transform_2(Kernel *k, FftValue *x, FftValue *y)
{
    FftValue a = *x;
    *x = fft_add(k, a, *y);
    *y = fft_subtract(k, a, *y);
}

static void transform_4(Kernel *k, bool is_inverse, FftValue *a, FftValue *b, FftValue *c,
                        FftValue *d)
{
    FftValue even = fft_add(k, *a, *c), odd = fft_subtract(k, *a, *c);
    FftValue sum = fft_add(k, *b, *d), turned = fft_times_i(k, fft_subtract(k, *b, *d));
    *a = fft_add(k, even, sum);
    *c = fft_subtract(k, even, sum);
    *b = is_inverse ? fft_add(k, odd, turned) : fft_subtract(k, odd, turned);
    *d = is_inverse ? fft_subtract(k, odd, turned) : fft_add(k, odd, turned);
}

/* x e^(-2 pi i at / 16) */
static FftValue turned(Kernel *k, bool is_inverse, FftValue x, uint32_t at)
{
    static const double cosine[5] = {1, 0.923879532511286756128, 0.707106781186547524401,
                                     0.382683432365089771728, 0};
    for (; at >= 4; at -= 4) { /* a quarter: -i, or i */
        x = fft_times_i(k, x);
        if (!is_inverse)
            x = (FftValue){f_neg(k, x.re), f_neg(k, x.im)};
    }
    if (at == 0)
        return x;
    LLVMValueRef c = f_number(x.re, cosine[at]), s = f_number(x.re, cosine[4 - at]);
    if (at == 2) { /* both are the same */
        LLVMValueRef sum = f_add(k, x.re, x.im), difference = f_sub(k, x.im, x.re);
        if (is_inverse)
            return (FftValue){f_neg(k, f_mul(k, difference, c)), f_mul(k, sum, c)};
        return (FftValue){f_mul(k, sum, c), f_mul(k, difference, c)};
    }
    return fft_multiply(k, x, (FftValue){c, is_inverse ? s : f_neg(k, s)});
}

/* a columns of 4, or 2, then rows of 4: x[4 p + q] to x[r + a s]. */
static void transform_of_fours(Kernel *k, bool is_inverse, uint32_t a, FftValue *x)
{
    FftValue y[FFT_LARGEST_RADIX];
    for (uint32_t q = 0; q < 4; q++) {
        if (a == 2)
            transform_2(k, &x[q], &x[4 + q]);
        else
            transform_4(k, is_inverse, &x[q], &x[4 + q], &x[8 + q], &x[12 + q]);
        for (uint32_t r = 0; r < a; r++)
            y[4 * r + q] = turned(k, is_inverse, x[4 * r + q], q * r * (4 / a));
    }
    for (uint32_t r = 0; r < a; r++) {
        transform_4(k, is_inverse, &y[4 * r], &y[4 * r + 1], &y[4 * r + 2],
                    &y[4 * r + 3]);
        for (uint32_t s = 0; s < 4; s++)
            x[r + a * s] = y[4 * r + s];
    }
}

/* -- odd primes ---------------------------------------------------------------------------------- */

/* Cosine and sine of 2 pi / p, 4 pi / p, …, for each prime p; the first of p stands at first_root[p]. */
static const double roots[][2] = {
    /* 3 */ {-0.5, 0.866025403784438646764},
    /* 5 */ {0.309016994374947424102, 0.951056516295153572116},
    {-0.809016994374947424102, 0.587785252292473129169},
    /* 7 */ {0.623489801858733530525, 0.781831482468029808708},
    {-0.222520933956314404289, 0.974927912181823607018},
    {-0.900968867902419126236, 0.433883739117558120476},
    /* 11 */ {0.841253532831181168862, 0.540640817455597582108},
    {0.415415013001886425529, 0.909631995354518371412},
    {-0.142314838273285140444, 0.989821441880932732376},
    {-0.654860733945285064057, 0.755749574354258283774},
    {-0.95949297361449738989, 0.281732556841429697711},
    /* 13 */ {0.8854560256532098959, 0.464723172043768545656},
    {0.568064746731155802512, 0.82298386589365639458},
    {0.120536680255323053349, 0.992708874098053992801},
    {-0.35460488704253562597, 0.93501624268541482344},
    {-0.748510748171101098635, 0.663122658240795202377},
    {-0.970941817426052027157, 0.239315664287557767149},
};
static const uint8_t first_root[] = {[3] = 0, [5] = 1, [7] = 3, [11] = 6, [13] = 11};

/* x[j] and x[p - j] go together: their sum with the cosines, their difference with the sines. */
static void transform_prime(Kernel *k, bool is_inverse, uint32_t p, const FftValue *x,
                            FftValue *y)
{
    FftValue sum[FFT_LARGEST_RADIX], difference[FFT_LARGEST_RADIX];
    y[0] = x[0];
    uint32_t half = (p - 1) / 2;
    for (uint32_t j = 1; j <= half; j++) {
        sum[j] = fft_add(k, x[j], x[p - j]);
        difference[j] = fft_subtract(k, x[j], x[p - j]);
        y[0] = fft_add(k, y[0], sum[j]);
    }
    for (uint32_t i = 1; i <= half; i++) {
        FftValue even = x[0], odd = {NULL, NULL};
        for (uint32_t j = 1; j <= half; j++) {
            uint32_t at = i * j % p;
            bool is_mirrored = at > half;
            const double *root = roots[first_root[p] + (is_mirrored ? p - at : at) - 1];
            LLVMValueRef c = f_number(x[0].re, root[0]);
            LLVMValueRef s = f_number(x[0].re, is_mirrored ? -root[1] : root[1]);
            FftValue d = difference[j];
            even = (FftValue){fma3(k, sum[j].re, c, even.re),
                              fma3(k, sum[j].im, c, even.im)};
            odd = j == 1 ? (FftValue){f_mul(k, d.re, s), f_mul(k, d.im, s)}
                         : (FftValue){fma3(k, d.re, s, odd.re), fma3(k, d.im, s, odd.im)};
        }
        odd = fft_times_i(k, odd);
        FftValue plus = fft_add(k, even, odd), minus = fft_subtract(k, even, odd);
        y[i] = is_inverse ? plus : minus;
        y[p - i] = is_inverse ? minus : plus;
    }
}

void fft_small(Kernel *k, bool is_inverse, uint32_t radix, FftValue *x)
{
    FftValue y[FFT_LARGEST_RADIX];
    switch (radix) {
    case 2:
        transform_2(k, &x[0], &x[1]);
        return;
    case 4:
        transform_4(k, is_inverse, &x[0], &x[1], &x[2], &x[3]);
        return;
    case 8:
    case 16:
        transform_of_fours(k, is_inverse, radix / 4, x);
        return;
    default:
        break;
    }
    transform_prime(k, is_inverse, radix, x, y);
    for (uint32_t i = 0; i < radix; i++)
        x[i] = y[i];
}

/* -- roots --------------------------------------------------------------------------------------- */

static LLVMValueRef polynomial(Kernel *k, LLVMValueRef x, FftPolynomial p)
{
    LLVMValueRef sum = f_number(x, p.c[0]);
    for (uint32_t i = 1; i < p.count; i++)
        sum = fma3(k, sum, x, f_number(x, p.c[i]));
    return sum;
}

/* e^(i x), |x| <= pi / 4 */
static FftValue near_one(Kernel *k, LLVMValueRef x, DType part)
{
    LLVMValueRef square = f_mul(k, x, x);
    LLVMValueRef s = polynomial(k, square, fft_sine(part)),
                 c = polynomial(k, square, fft_cosine(part));
    LLVMValueRef remainder = fma3(k, square, f_number(x, -0.5), f_number(x, 1));
    return (FftValue){fma3(k, f_mul(k, square, square), c, remainder),
                      fma3(k, f_mul(k, square, x), s, x)};
}

/* e^(i x) times i^quarter, quarter an i32. */
static FftValue with_quarters(Kernel *k, FftValue v, LLVMValueRef quarter)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef bit = gx_int_type(k, 1);
    LLVMValueRef is_odd = LLVMBuildTrunc(b, quarter, bit, "");
    LLVMValueRef up = LLVMBuildAdd(b, quarter, gx_i32(k, 1), "");
    LLVMValueRef one = gx_i32(k, 1);
    LLVMValueRef re_minus = LLVMBuildTrunc(b, LLVMBuildLShr(b, up, one, ""), bit, "");
    LLVMValueRef im_minus =
        LLVMBuildTrunc(b, LLVMBuildLShr(b, quarter, one, ""), bit, "");
    LLVMValueRef re = LLVMBuildSelect(b, is_odd, v.im, v.re, "");
    LLVMValueRef im = LLVMBuildSelect(b, is_odd, v.re, v.im, "");
    return (FftValue){LLVMBuildSelect(b, re_minus, f_neg(k, re), re, ""),
                      LLVMBuildSelect(b, im_minus, f_neg(k, im), im, "")};
}

FftValue fft_root(Kernel *k, DType part, bool is_inverse, LLVMValueRef at, int64_t most,
                  int64_t n)
{
    LLVMBuilderRef b = k->builder;
    bool is_wide = part == DT_F64;
    LLVMTypeRef type = emit_type(k, part);
    LLVMValueRef quarter = NULL, remainder = LLVMBuildShl(b, at, gx_i32(k, 2), "");
    if (16 * n > INT32_MAX)
        bug("roots of %lld", (long long)n);
    if (8 * most > n) { /* to the nearest quarter */
        LLVMValueRef twice = LLVMBuildShl(b, remainder, gx_i32(k, 1), "");
        twice = LLVMBuildAdd(b, twice, gx_i32(k, (uint32_t)n), "");
        quarter = LLVMBuildUDiv(b, twice, gx_i32(k, (uint32_t)(2 * n)), "");
        remainder = LLVMBuildSub(
            b, remainder, LLVMBuildMul(b, quarter, gx_i32(k, (uint32_t)n), ""), "");
    }
    double unit = PI / 2 / (double)n, high = is_wide ? unit : (double)(float)unit;
    LLVMValueRef x = LLVMBuildSIToFP(b, remainder, type, "");
    LLVMValueRef low = f_mul(k, x, f_number(x, unit - high));
    x = is_wide ? f_mul(k, x, f_number(x, unit)) : fma3(k, x, f_number(x, high), low);
    FftValue v = near_one(k, x, part);
    if (quarter != NULL)
        v = with_quarters(k, v, quarter);
    return is_inverse ? v : fft_conjugate(k, v);
}
