/* Floats: f32 and f64, in which all narrower ones are computed, rounded once. */
#include "codegen/scalar/scalar.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ir/base/bug.h"

LLVMValueRef scalar_math2(Kernel *k, const char *name, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef args[] = {x, y};
    const char *full = is_f64(x) ? name : arena_printf(k->arena, "%sf", name);
    return gx_libdevice(k, full, args, y == NULL ? 1 : 2);
}

LLVMValueRef scalar_math(Kernel *k, const char *name, LLVMValueRef x)
{
    return scalar_math2(k, name, x, NULL);
}

const char *scalar_function_name(OpCode op)
{
    static const char *const names[OP_COUNT] = {
        [OP_POWER] = "pow",       [OP_ATAN2] = "atan2",
        [OP_CBRT] = "cbrt",       [OP_ERF] = "erf",
        [OP_EXPONENTIAL] = "exp", [OP_EXPONENTIAL_MINUS_ONE] = "expm1",
        [OP_LOG] = "log",         [OP_LOG_PLUS_ONE] = "log1p",
        [OP_SINE] = "sin",        [OP_COSINE] = "cos",
        [OP_TAN] = "tan",         [OP_ASIN] = "asin",
        [OP_ACOS] = "acos",       [OP_SINH] = "sinh",
        [OP_COSH] = "cosh",       [OP_TANH] = "tanh",
        [OP_ASINH] = "asinh",     [OP_ACOSH] = "acosh",
        [OP_ATANH] = "atanh",
    };
    return names[op];
}

LLVMValueRef real_function(const ScalarCall *c)
{
    const char *name = scalar_function_name(c->inst->op);
    if (name == NULL)
        bug("no function of libdevice computes %s", op_info[c->inst->op].name);
    return scalar_math2(c->k, name, c->x[0], c->x[1]);
}

/* -- arithmetic -- */

LLVMValueRef real_add(const ScalarCall *c)
{
    return f_add(c->k, c->x[0], c->x[1]);
}

LLVMValueRef real_subtract(const ScalarCall *c)
{
    return f_sub(c->k, c->x[0], c->x[1]);
}

LLVMValueRef real_multiply(const ScalarCall *c)
{
    return f_mul(c->k, c->x[0], c->x[1]);
}

/* A constant that x / c may be x * (1 / c) for, with what that product leaves of x added: no power of two, for which
 * LLVM has a product, and of a size that keeps the reciprocal and products with it in range. */
static bool is_plain_divisor(LLVMValueRef c, double *value)
{
    if (!LLVMIsAConstantFP(c))
        return false;
    LLVMBool is_inexact;
    int exponent;
    *value = LLVMConstRealGetDouble(c, &is_inexact);
    double half = frexp(*value, &exponent);
    return isfinite(*value) && fabs(half) != 0.5 && abs(exponent) < 60 && *value != 0;
}

static LLVMValueRef reciprocal(LLVMValueRef like, double c)
{
    return f_number(like, is_f64(like) ? 1 / c : (double)(1 / (float)c));
}

/* The nearest to x of -limit .. limit; one of them for NaN. */
static LLVMValueRef within(Kernel *k, LLVMValueRef x, double limit)
{
    LLVMValueRef above = f_intrinsic2(k, "maxnum", x, f_number(x, -limit));
    return f_intrinsic2(k, "minnum", above, f_number(x, limit));
}

/* The quotient's first guess q misses x by c q - x, which an fma has exactly, and another one takes 1 / c times that
 * away: the rounded quotient (P. Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990), but
 * for |x| < 2^-100, where what is missed may be less than the least denormal. The sign of a zero stays: what is missed is
 * +0 then. Infinity has NaN missed, and is its own quotient. A guess may be infinite where the quotient is none if c makes
 * x larger: the greatest number, which is as near, stands for it, and misses infinitely much of infinity. To halve x
 * instead would round what is denormal. */
static LLVMValueRef divide_by_constant(Kernel *k, LLVMValueRef x, double c)
{
    bool makes_larger = fabs(c) < 1;
    LLVMValueRef y = c < 0 ? f_neg(k, x) : x;
    LLVMValueRef once = reciprocal(x, fabs(c)), q = f_mul(k, y, once);
    if (makes_larger)
        q = within(k, q, is_f64(x) ? DBL_MAX : (double)FLT_MAX);
    LLVMValueRef missed[] = {f_number(x, fabs(c)), q, f_neg(k, y)};
    LLVMValueRef better[] = {gx_intrinsic(k, "fma", missed, 3), f_neg(k, once), q};
    LLVMValueRef exact = gx_intrinsic(k, "fma", better, 3);
    if (makes_larger)
        return exact;
    return choose(k, f_compare(k, LLVMRealUNO, exact, exact), q, exact);
}

/* A quotient of bf16 numbers is no nearer than 2^-17 of itself to where its rounding to bf16 changes, so that one
 * of f32 that is off by 2^-22 becomes the same bf16; but for denormals, which may be the next. */
LLVMValueRef real_divide(const ScalarCall *c)
{
    LLVMValueRef x = c->x[0], y = c->x[1];
    bool is_short = c->inst->shape->dtype == DT_BF16;
    double divisor;
    if (is_plain_divisor(y, &divisor))
        return is_short ? f_mul(c->k, x, reciprocal(x, divisor))
                        : divide_by_constant(c->k, x, divisor);
    if (is_short && !LLVMIsConstant(y))
        return gx_near_quotient(c->k, x, y);
    return f_div(c->k, x, y);
}

/* Exact; the sign of x. */
LLVMValueRef real_remainder(const ScalarCall *c)
{
    return scalar_math2(c->k, "fmod", c->x[0], c->x[1]);
}

/* NaN wins, -0 < +0. */
LLVMValueRef real_maximum(const ScalarCall *c)
{
    return f_intrinsic2(c->k, "maximum", c->x[0], c->x[1]);
}

LLVMValueRef real_minimum(const ScalarCall *c)
{
    return f_intrinsic2(c->k, "minimum", c->x[0], c->x[1]);
}

LLVMValueRef real_clamp(const ScalarCall *c)
{
    LLVMValueRef above = f_intrinsic2(c->k, "maximum", c->x[1], c->x[0]);
    return f_intrinsic2(c->k, "minimum", above, c->x[2]);
}

LLVMValueRef real_negate(const ScalarCall *c)
{
    return f_neg(c->k, c->x[0]);
}

LLVMValueRef real_abs(const ScalarCall *c)
{
    return f_abs(c->k, c->x[0]);
}

/* -1, 1; zeros and NaN stay what they are. */
LLVMValueRef real_sign(const ScalarCall *c)
{
    LLVMValueRef x = c->x[0];
    LLVMValueRef some = f_compare(c->k, LLVMRealONE, x, f_number(x, 0));
    return choose(c->k, some, f_copysign(c->k, f_number(x, 1), x), x);
}

LLVMValueRef real_floor(const ScalarCall *c)
{
    return f_intrinsic(c->k, "floor", c->x[0]);
}

LLVMValueRef real_ceil(const ScalarCall *c)
{
    return f_intrinsic(c->k, "ceil", c->x[0]);
}

LLVMValueRef real_round_nearest_even(const ScalarCall *c)
{
    return f_intrinsic(c->k, "roundeven", c->x[0]);
}

/* trunc(x), and 1 with x's sign added if |x - trunc(x)|, which is exact, is at least 1/2. */
LLVMValueRef real_round_nearest_afz(const ScalarCall *c)
{
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef x = c->x[0], whole = f_intrinsic(k, "trunc", x);
    LLVMValueRef fraction = f_abs(k, LLVMBuildFSub(b, x, whole, ""));
    LLVMValueRef up = f_compare(k, LLVMRealOGE, fraction, f_number(x, 0.5));
    LLVMValueRef step = choose(k, up, f_number(x, 1), f_number(x, 0));
    return LLVMBuildFAdd(b, whole, f_copysign(k, step, x), "");
}

/* The root of a bf16 number is no nearer than 2^-18 of itself to where its rounding to bf16 changes, so that one of f32
 * that is off by 2^-22 becomes the same bf16. */
LLVMValueRef real_sqrt(const ScalarCall *c)
{
    return c->inst->shape->dtype == DT_BF16 ? gx_near_root(c->k, c->x[0])
                                            : f_intrinsic(c->k, "sqrt", c->x[0]);
}

/* One instruction for f32: libdevice's function is no more, and need not be read for it. */
LLVMValueRef real_rsqrt(const ScalarCall *c)
{
    return is_f64(c->x[0]) ? scalar_math(c->k, "rsqrt", c->x[0])
                           : gx_reciprocal_root(c->k, c->x[0]);
}

/* By e^-|x|: e^-x would be infinite, and its quotient 0, where the result is denormal. A reciprocal of f64 and a product
 * are cheaper than a quotient. */
LLVMValueRef real_logistic(const ScalarCall *c)
{
    Kernel *k = c->k;
    LLVMValueRef x = c->x[0], one = f_number(x, 1);
    LLVMValueRef e = scalar_math(k, "exp", f_neg(k, f_abs(k, x)));
    LLVMValueRef is_negative = f_compare(k, LLVMRealOLT, x, f_number(x, 0));
    LLVMValueRef above = choose(k, is_negative, e, one), below = f_add(k, one, e);
    return is_f64(x) ? f_mul(k, above, f_div(k, one, below))
                     : gx_near_quotient(k, above, below);
}

/* -- questions -- */

LLVMValueRef real_is_finite(const ScalarCall *c)
{
    LLVMValueRef infinity = f_number(c->x[0], (double)INFINITY);
    return f_compare(c->k, LLVMRealOLT, f_abs(c->k, c->x[0]), infinity);
}

LLVMValueRef scalar_total_key(Kernel *k, LLVMValueRef x, DType t)
{
    LLVMBuilderRef b = k->builder;
    if (dtype_info[t].bits == 6) {
        x = scalar_widen(k, x, t);
        t = DT_F32;
    }
    const DTypeInfo *f = &dtype_info[t];
    LLVMTypeRef type = gx_int_type(k, f->bits);
    LLVMValueRef bits = LLVMBuildBitCast(b, x, type, "");
    LLVMValueRef lowest = LLVMConstInt(type, (uint64_t)1 << (f->bits - 1), 0);
    LLVMValueRef all = LLVMConstInt(type, f->bits - 1, 0), one = i_number(bits, 1);
    if (f->special == SPECIAL_E8M0)
        return LLVMBuildXor(b, bits, lowest, "");
    LLVMValueRef signs = LLVMBuildAShr(b, bits, all, "");
    LLVMValueRef key = LLVMBuildXor(b, bits, LLVMBuildLShr(b, signs, one, ""), "");
    if (f->special ==
        SPECIAL_FNUZ) { /* there is no -0: its position is free, NaN is below all */
        key = LLVMBuildSub(b, key, signs, "");
        key = choose(k, i_compare(k, LLVMIntEQ, bits, lowest), lowest, key);
    }
    return key;
}

static LLVMValueRef compare_total(const ScalarCall *c)
{
    ScalarCall keys = *c;
    const Instruction *const *from = (const Instruction *const *)c->inst->operands;
    DType a = from[0]->shape->dtype, b = from[1]->shape->dtype;
    keys.type = DT_S64; /* any signed type */
    for (unsigned i = 0; i < 2; i++)
        keys.x[i] = scalar_total_key(c->k, a == b ? c->operands[i] : c->x[i],
                                     a == b ? a : c->type);
    return int_compare(&keys);
}

LLVMValueRef real_compare(const ScalarCall *c)
{
    LLVMRealPredicate p = LLVMRealOEQ;
    if (inst_int(c->inst, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER)
        return compare_total(c);
    switch (inst_int(c->inst, ATTR_DIRECTION, 0)) {
    case DIRECTION_NE:
        p = LLVMRealUNE;
        break;
    case DIRECTION_GE:
        p = LLVMRealOGE;
        break;
    case DIRECTION_GT:
        p = LLVMRealOGT;
        break;
    case DIRECTION_LE:
        p = LLVMRealOLE;
        break;
    case DIRECTION_LT:
        p = LLVMRealOLT;
        break;
    }
    return f_compare(c->k, p, c->x[0], c->x[1]);
}

/* -- parts -- */

LLVMValueRef real_same(const ScalarCall *c)
{
    return c->x[0];
}

LLVMValueRef real_zero(const ScalarCall *c)
{
    return LLVMConstNull(emit_type(c->k, c->inst->shape->dtype));
}

LLVMValueRef real_complex(const ScalarCall *c)
{
    return complex_make(c->k, c->x[0], c->x[1]);
}
