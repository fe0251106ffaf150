/* Transcendental functions of f32 and f64 through MPFR, for constant folding: libm's last bit
 * differs from CPU to CPU. Values are computed with 160 bits - no double needs more than about
 * 120 to be told from a tie (Lefevre and Muller) - and rounded once by the final conversion,
 * which handles denormals. */
#include <math.h>
#include <mpfr.h>

#include "ir/eval/scalar_table.h"

enum { PRECISION = 160 };

typedef int Function1(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
typedef int Function2(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

static int logistic(mpfr_ptr r, mpfr_srcptr x, mpfr_rnd_t mode)
{
    mpfr_neg(r, x, mode);
    mpfr_exp(r, r, mode);
    mpfr_add_ui(r, r, 1, mode);
    return mpfr_ui_div(r, 1, r, mode);
}

static int inverse_root(mpfr_ptr r, mpfr_srcptr x, mpfr_rnd_t mode)
{
    if (mpfr_zero_p(x)) { /* 1 / sqrt(-0) is -inf here, +inf in MPFR */
        mpfr_set_inf(r, mpfr_signbit(x) ? -1 : 1);
        return 0;
    }
    return mpfr_rec_sqrt(r, x, mode);
}

static Function1 *const functions1[OP_COUNT] = {
    [OP_RSQRT] = inverse_root,   [OP_CBRT] = mpfr_cbrt,
    [OP_EXPONENTIAL] = mpfr_exp, [OP_EXPONENTIAL_MINUS_ONE] = mpfr_expm1,
    [OP_LOG] = mpfr_log,         [OP_LOG_PLUS_ONE] = mpfr_log1p,
    [OP_LOGISTIC] = logistic,    [OP_SINE] = mpfr_sin,
    [OP_COSINE] = mpfr_cos,      [OP_TAN] = mpfr_tan,
    [OP_ASIN] = mpfr_asin,       [OP_ACOS] = mpfr_acos,
    [OP_SINH] = mpfr_sinh,       [OP_COSH] = mpfr_cosh,
    [OP_TANH] = mpfr_tanh,       [OP_ASINH] = mpfr_asinh,
    [OP_ACOSH] = mpfr_acosh,     [OP_ATANH] = mpfr_atanh,
    [OP_ERF] = mpfr_erf,
};
static Function2 *const functions2[OP_COUNT] = {
    [OP_POWER] = mpfr_pow,
    [OP_ATAN2] = mpfr_atan2,
};

/* mpfr_get_flt and _d round to the type, denormals and overflow included. */
static void store(void *to, DType t, mpfr_srcptr x)
{
    if (t == DT_F32) {
        float *r = to;
        *r = mpfr_nan_p(x) ? (float)NAN : mpfr_get_flt(x, MPFR_RNDN);
    } else {
        double *r = to;
        *r = mpfr_nan_p(x) ? (double)NAN : mpfr_get_d(x, MPFR_RNDN);
    }
}

static void apply(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    Function1 *f1 = functions1[k->op];
    Function2 *f2 = functions2[k->op];
    size_t step = dtype_storage_bytes(k->inner == NULL ? k->in : DT_F32);
    DType t = step == sizeof(float) ? DT_F32 : DT_F64;
    mpfr_t x, y, r;
    mpfr_inits2(PRECISION, x, y, r, (mpfr_ptr)0);
    for (size_t i = 0; i < n; i++) {
        mpfr_set_d(x, number_get_double(t, (const char *)in[0] + i * step), MPFR_RNDN);
        if (f1 != NULL) {
            f1(r, x, MPFR_RNDN);
        } else {
            mpfr_set_d(y, number_get_double(t, (const char *)in[1] + i * step),
                       MPFR_RNDN);
            f2(r, x, y, MPFR_RNDN);
        }
        store((char *)out + i * step, t, r);
    }
    mpfr_clears(x, y, r, (mpfr_ptr)0);
    mpfr_free_cache(); /* per thread; nothing else would free it */
}

static void apply_abs(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    DType part = number_component(k->in);
    size_t step = dtype_storage_bytes(part);
    mpfr_t x, y, r;
    mpfr_inits2(PRECISION, x, y, r, (mpfr_ptr)0);
    for (size_t i = 0; i < n; i++) {
        double pair[2];
        number_get_complex(k->in, (const char *)in[0] + 2 * i * step, pair);
        mpfr_set_d(x, pair[0], MPFR_RNDN);
        mpfr_set_d(y, pair[1], MPFR_RNDN);
        mpfr_hypot(r, x, y, MPFR_RNDN);
        store((char *)out + i * step, part, r);
    }
    mpfr_clears(x, y, r, (mpfr_ptr)0);
    mpfr_free_cache();
}

ElementsFn *rows_exact(OpCode op, DType t)
{
    if (op == OP_ABS && (t == DT_C64 || t == DT_C128))
        return apply_abs;
    if (t != DT_F32 && t != DT_F64)
        return NULL;
    return functions1[op] != NULL || functions2[op] != NULL ? apply : NULL;
}
