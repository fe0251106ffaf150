/* Integers and pred: everything wraps around, nothing traps, no shift is undefined. */
#include "codegen/scalar/scalar.h"

LLVMValueRef pred_or(const ScalarCall *c)
{
    return LLVMBuildOr(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef pred_and(const ScalarCall *c)
{
    return LLVMBuildAnd(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_and(const ScalarCall *c)
{
    return LLVMBuildAnd(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_or(const ScalarCall *c)
{
    return LLVMBuildOr(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_xor(const ScalarCall *c)
{
    return LLVMBuildXor(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_not(const ScalarCall *c)
{
    return LLVMBuildNot(c->k->builder, c->x[0], "");
}

LLVMValueRef int_add(const ScalarCall *c)
{
    return LLVMBuildAdd(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_subtract(const ScalarCall *c)
{
    return LLVMBuildSub(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_multiply(const ScalarCall *c)
{
    return LLVMBuildMul(c->k->builder, c->x[0], c->x[1], "");
}

LLVMValueRef int_negate(const ScalarCall *c)
{
    return LLVMBuildNeg(c->k->builder, c->x[0], "");
}

/* -- division: x / 0 = -1, x % 0 = x, lowest / -1 = lowest, lowest % -1 = 0 -- */

/* i1: y is 0 or, of signed numbers, -1; *divisor: then 1, else y. */
static LLVMValueRef is_special_divisor(const ScalarCall *c, LLVMValueRef *divisor)
{
    Kernel *k = c->k;
    LLVMValueRef y = c->x[1], one = i_number(y, 1), special;
    if (dtype_is_signed(c->type))
        special = i_compare(k, LLVMIntULT, LLVMBuildAdd(k->builder, y, one, ""),
                            LLVMConstInt(LLVMTypeOf(y), 2, 0));
    else
        special = i_compare(k, LLVMIntEQ, y, i_number(y, 0));
    *divisor = choose(k, special, one, y);
    return special;
}

LLVMValueRef int_divide(const ScalarCall *c)
{
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef x = c->x[0], y = c->x[1], divisor, ones = i_number(x, -1);
    LLVMValueRef special = is_special_divisor(c, &divisor);
    if (!dtype_is_signed(c->type))
        return choose(k, special, ones, LLVMBuildUDiv(b, x, divisor, ""));
    LLVMValueRef is_zero = i_compare(k, LLVMIntEQ, y, i_number(y, 0));
    LLVMValueRef instead = choose(k, is_zero, ones, LLVMBuildNeg(b, x, ""));
    return choose(k, special, instead, LLVMBuildSDiv(b, x, divisor, ""));
}

LLVMValueRef int_remainder(const ScalarCall *c)
{
    Kernel *k = c->k;
    LLVMValueRef x = c->x[0], y = c->x[1], divisor, r;
    is_special_divisor(c, &divisor);
    r = dtype_is_signed(c->type) ? LLVMBuildSRem(k->builder, x, divisor, "")
                                 : LLVMBuildURem(k->builder, x, divisor, "");
    return choose(k, i_compare(k, LLVMIntEQ, y, i_number(y, 0)), x, r);
}

/* -- power -- */

static LLVMValueRef power_constant(Kernel *k, LLVMValueRef base, uint64_t exponent)
{
    LLVMValueRef r = NULL;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            r = r == NULL ? base : LLVMBuildMul(k->builder, r, base, "");
        if (exponent > 1)
            base = LLVMBuildMul(k->builder, base, base, "");
    }
    return r == NULL ? i_number(base, 1) : r;
}

/* for (r = 1; exponent != 0; exponent >>= 1, base *= base) if (exponent & 1) r *= base; */
static LLVMValueRef power_loop(Kernel *k, LLVMValueRef base, LLVMValueRef exponent)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = LLVMTypeOf(base);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), header = gx_block(k, "power");
    LLVMBasicBlockRef body = gx_block(k, "square"), exit = gx_block(k, "raised");
    LLVMBuildBr(b, header);
    LLVMPositionBuilderAtEnd(b, header);
    LLVMValueRef start[] = {i_number(base, 1), base, exponent}, phi[3], next[3];
    for (unsigned i = 0; i < 3; i++) {
        phi[i] = LLVMBuildPhi(b, type, "");
        LLVMAddIncoming(phi[i], &start[i], &before, 1);
    }
    LLVMValueRef zero = i_number(base, 0), one = start[0];
    LLVMBuildCondBr(b, i_compare(k, LLVMIntNE, phi[2], zero), body, exit);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef bit = LLVMBuildAnd(b, phi[2], one, "");
    LLVMValueRef factor = choose(k, i_compare(k, LLVMIntNE, bit, zero), phi[1], one);
    next[0] = LLVMBuildMul(b, phi[0], factor, "");
    next[1] = LLVMBuildMul(b, phi[1], phi[1], "");
    next[2] = LLVMBuildLShr(b, phi[2], one, "");
    for (unsigned i = 0; i < 3; i++)
        LLVMAddIncoming(phi[i], &next[i], &body, 1);
    LLVMBuildBr(b, header);
    LLVMPositionBuilderAtEnd(b, exit);
    return phi[0];
}

/* A negative exponent: 1 / x^n towards 0, so only 1 and -1 give anything. */
static LLVMValueRef power_negative(Kernel *k, LLVMValueRef base, LLVMValueRef exponent)
{
    LLVMValueRef one = i_number(base, 1), minus = i_number(base, -1);
    LLVMValueRef zero = i_number(base, 0);
    LLVMValueRef odd = LLVMBuildAnd(k->builder, exponent, one, "");
    LLVMValueRef sign = choose(k, i_compare(k, LLVMIntNE, odd, zero), minus, one);
    LLVMValueRef r = choose(k, i_compare(k, LLVMIntEQ, base, minus), sign, zero);
    return choose(k, i_compare(k, LLVMIntEQ, base, one), one, r);
}

LLVMValueRef int_power(const ScalarCall *c)
{
    Kernel *k = c->k;
    LLVMValueRef base = c->x[0], exponent = c->x[1];
    bool is_signed = dtype_is_signed(c->type);
    if (LLVMIsAConstantInt(exponent)) {
        if (is_signed && LLVMConstIntGetSExtValue(exponent) < 0)
            return power_negative(k, base, exponent);
        return power_constant(k, base, LLVMConstIntGetZExtValue(exponent));
    }
    if (!is_signed)
        return power_loop(k, base, exponent);
    LLVMValueRef zero = i_number(base, 0);
    LLVMValueRef is_negative = i_compare(k, LLVMIntSLT, exponent, zero);
    LLVMValueRef r = power_loop(k, base, choose(k, is_negative, zero, exponent));
    return choose(k, is_negative, power_negative(k, base, exponent), r);
}

/* -- the rest -- */

LLVMValueRef int_mulhi(const ScalarCall *c)
{
    LLVMBuilderRef b = c->k->builder;
    unsigned width = i_width(c->x[0]);
    LLVMTypeRef type = LLVMTypeOf(c->x[0]), wide = gx_int_type(c->k, 2 * width);
    LLVMOpcode extend = dtype_is_signed(c->type) ? LLVMSExt : LLVMZExt;
    LLVMValueRef x = LLVMBuildCast(b, extend, c->x[0], wide, "");
    LLVMValueRef y = LLVMBuildCast(b, extend, c->x[1], wide, "");
    LLVMValueRef product = LLVMBuildMul(b, x, y, "");
    product = LLVMBuildLShr(b, product, LLVMConstInt(wide, width, 0), "");
    return LLVMBuildTrunc(b, product, type, "");
}

static LLVMValueRef larger(const ScalarCall *c, LLVMValueRef a, LLVMValueRef b)
{
    return f_intrinsic2(c->k, dtype_is_signed(c->type) ? "smax" : "umax", a, b);
}

static LLVMValueRef smaller(const ScalarCall *c, LLVMValueRef a, LLVMValueRef b)
{
    return f_intrinsic2(c->k, dtype_is_signed(c->type) ? "smin" : "umin", a, b);
}

LLVMValueRef int_maximum(const ScalarCall *c)
{
    return larger(c, c->x[0], c->x[1]);
}

LLVMValueRef int_minimum(const ScalarCall *c)
{
    return smaller(c, c->x[0], c->x[1]);
}

LLVMValueRef int_clamp(const ScalarCall *c)
{
    return smaller(c, larger(c, c->x[1], c->x[0]), c->x[2]);
}

LLVMValueRef int_abs(const ScalarCall *c)
{
    if (!dtype_is_signed(c->type))
        return c->x[0];
    LLVMValueRef wrap = LLVMConstInt(gx_int_type(c->k, 1), 0, 0);
    return f_intrinsic2(c->k, "abs", c->x[0], wrap);
}

/* The sign bit everywhere, or 1 where the number is not 0. */
LLVMValueRef int_sign(const ScalarCall *c)
{
    LLVMBuilderRef b = c->k->builder;
    LLVMValueRef x = c->x[0];
    LLVMValueRef some = i_compare(c->k, LLVMIntNE, x, i_number(x, 0));
    some = LLVMBuildZExt(b, some, LLVMTypeOf(x), "");
    if (!dtype_is_signed(c->type))
        return some;
    LLVMValueRef last = LLVMConstInt(LLVMTypeOf(x), i_width(x) - 1, 0);
    return LLVMBuildOr(b, LLVMBuildAShr(b, x, last, ""), some, "");
}

LLVMValueRef int_popcnt(const ScalarCall *c)
{
    return f_intrinsic(c->k, "ctpop", c->x[0]);
}

LLVMValueRef int_count_leading_zeros(const ScalarCall *c)
{
    LLVMValueRef zero_is_fine = LLVMConstInt(gx_int_type(c->k, 1), 0, 0);
    return f_intrinsic2(c->k, "ctlz", c->x[0], zero_is_fine);
}

/* i1: y, as an unsigned number, is below the width. */
static LLVMValueRef is_below_width(const ScalarCall *c)
{
    LLVMValueRef y = c->x[1];
    return i_compare(c->k, LLVMIntULT, y, LLVMConstInt(LLVMTypeOf(y), i_width(y), 0));
}

/* The amount for a shift whose result counts only if it is below the width. The NVPTX back end takes a shift and the choice
 * after it for one instruction, which clamps: but of 64 bits of an amount that instruction reads 32. */
static LLVMValueRef shift_amount(const ScalarCall *c)
{
    LLVMValueRef y = c->x[1];
    uint64_t width = i_width(y);
    return width < 64
               ? y
               : f_intrinsic2(c->k, "umin", y, LLVMConstInt(LLVMTypeOf(y), width - 1, 0));
}

LLVMValueRef int_shift_left(const ScalarCall *c)
{
    LLVMValueRef r = LLVMBuildShl(c->k->builder, c->x[0], shift_amount(c), "");
    return choose(c->k, is_below_width(c), r, i_number(c->x[0], 0));
}

LLVMValueRef int_shift_right_logical(const ScalarCall *c)
{
    LLVMValueRef r = LLVMBuildLShr(c->k->builder, c->x[0], shift_amount(c), "");
    return choose(c->k, is_below_width(c), r, i_number(c->x[0], 0));
}

LLVMValueRef int_shift_right_arithmetic(const ScalarCall *c)
{
    LLVMValueRef y = c->x[1];
    LLVMValueRef last = LLVMConstInt(LLVMTypeOf(y), i_width(y) - 1, 0);
    return LLVMBuildAShr(c->k->builder, c->x[0], f_intrinsic2(c->k, "umin", y, last), "");
}

LLVMValueRef int_compare(const ScalarCall *c)
{
    bool is_signed = dtype_is_signed(c->type);
    LLVMIntPredicate p = LLVMIntEQ;
    switch (inst_int(c->inst, ATTR_DIRECTION, 0)) {
    case DIRECTION_NE:
        p = LLVMIntNE;
        break;
    case DIRECTION_GE:
        p = is_signed ? LLVMIntSGE : LLVMIntUGE;
        break;
    case DIRECTION_GT:
        p = is_signed ? LLVMIntSGT : LLVMIntUGT;
        break;
    case DIRECTION_LE:
        p = is_signed ? LLVMIntSLE : LLVMIntULE;
        break;
    case DIRECTION_LT:
        p = is_signed ? LLVMIntSLT : LLVMIntULT;
        break;
    }
    return i_compare(c->k, p, c->x[0], c->x[1]);
}
