/* Operations on the bits of numbers: bitcast-convert, reduce-precision, stochastic-convert. */
#include "codegen/scalar/scalar.h"
#include "ir/base/bug.h"

ScalarFn scalar_bitcast_convert, scalar_reduce_precision, scalar_stochastic_convert;

/* -- bitcast-convert -- */

LLVMValueRef scalar_to_bits(Kernel *k, LLVMValueRef x, DType t)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = gx_int_type(k, dtype_info[t].bits);
    if (t == DT_PRED)
        return LLVMBuildZExt(b, x, type, "");
    if (!dtype_is_complex(t))
        return LLVMBuildBitCast(b, x, type, "");
    DType part = number_component(t);
    LLVMValueRef re = scalar_to_bits(k, LLVMBuildExtractValue(b, x, 0, ""), part);
    LLVMValueRef im = scalar_to_bits(k, LLVMBuildExtractValue(b, x, 1, ""), part);
    LLVMValueRef shift = LLVMConstInt(type, dtype_info[part].bits, 0);
    im = LLVMBuildShl(b, LLVMBuildZExt(b, im, type, ""), shift, "");
    return LLVMBuildOr(b, LLVMBuildZExt(b, re, type, ""), im, "");
}

LLVMValueRef scalar_from_bits(Kernel *k, LLVMValueRef x, DType t)
{
    LLVMBuilderRef b = k->builder;
    if (t == DT_PRED)
        return i_compare(k, LLVMIntNE, x, i_number(x, 0));
    if (!dtype_is_complex(t))
        return LLVMBuildBitCast(b, x, emit_type(k, t), "");
    DType part = number_component(t);
    LLVMTypeRef half = gx_int_type(k, dtype_info[part].bits);
    LLVMValueRef shift = LLVMConstInt(LLVMTypeOf(x), dtype_info[part].bits, 0);
    LLVMValueRef high = LLVMBuildTrunc(b, LLVMBuildLShr(b, x, shift, ""), half, "");
    LLVMValueRef low = LLVMBuildTrunc(b, x, half, "");
    return complex_make(k, scalar_from_bits(k, low, part),
                        scalar_from_bits(k, high, part));
}

LLVMValueRef scalar_bitcast_convert(Kernel *k, const Instruction *inst,
                                    const LLVMValueRef *operands)
{
    DType from = inst->operands[0]->shape->dtype, to = inst->shape->dtype;
    if (from == to)
        return operands[0];
    if (dtype_info[from].bits != dtype_info[to].bits || dtype_info[to].bits == 6)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "%s: bitcast-convert between %s and %s, whose widths "
                     "differ, inside a kernel",
                     inst->name, dtype_name(from), dtype_name(to));
    return scalar_from_bits(k, scalar_to_bits(k, operands[0], from), to);
}

/* -- reduce-precision -- */

/* Rounds to nearest even on the bits; what then has too large an exponent is infinity, too
 * small a one zero. NaN stays; without mantissa bits there is none, and it becomes infinity. */
LLVMValueRef scalar_reduce_precision(Kernel *k, const Instruction *inst,
                                     const LLVMValueRef *operands)
{
    DType t = inst->operands[0]->shape->dtype;
    const DTypeInfo *f = &dtype_info[t];
    if (f->class != DTC_FLOAT || f->special != SPECIAL_IEEE)
        scalar_unsupported(inst);
    int64_t exponent_bits = inst_int(inst, ATTR_EXPONENT_BITS, f->exponent_bits);
    int64_t mantissa_bits = inst_int(inst, ATTR_MANTISSA_BITS, f->mantissa_bits);
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = gx_int_type(k, f->bits);
    unsigned m = f->mantissa_bits, e = f->exponent_bits;
    uint64_t top = (uint64_t)1 << (m + e), infinity = (((uint64_t)1 << e) - 1) << m;
    LLVMValueRef x = LLVMBuildBitCast(b, operands[0], type, "");
    LLVMValueRef sign = LLVMBuildAnd(b, x, LLVMConstInt(type, top, 0), "");
    LLVMValueRef size = LLVMBuildAnd(b, x, LLVMConstInt(type, top - 1, 0), "");
    LLVMValueRef inf = LLVMConstInt(type, infinity, 0);
    LLVMValueRef is_nan = i_compare(k, LLVMIntUGT, size, inf);
    if (mantissa_bits < m) {
        unsigned drop = m - (unsigned)mantissa_bits;
        uint64_t half = ((uint64_t)1 << (drop - 1)) - 1;
        uint64_t keep = (2 * top - 1) & ~(((uint64_t)1 << drop) - 1);
        LLVMValueRef last = LLVMBuildLShr(b, size, LLVMConstInt(type, drop, 0), "");
        last = LLVMBuildAnd(b, last, LLVMConstInt(type, 1, 0), "");
        size = LLVMBuildAdd(b, size, LLVMConstInt(type, half, 0), "");
        size = LLVMBuildAnd(b, LLVMBuildAdd(b, size, last, ""),
                            LLVMConstInt(type, keep, 0), "");
    }
    if (exponent_bits < e) {
        uint64_t bias = ((uint64_t)1 << (e - 1)) - 1;
        uint64_t reduced = ((uint64_t)1 << (exponent_bits - 1)) - 1;
        LLVMValueRef high = LLVMConstInt(type, (bias + reduced + 1) << m, 0);
        LLVMValueRef low = LLVMConstInt(type, (bias - reduced + 1) << m, 0);
        size = choose(k, i_compare(k, LLVMIntUGE, size, high), inf, size);
        size = choose(k, i_compare(k, LLVMIntULT, size, low), LLVMConstInt(type, 0, 0),
                      size);
    }
    LLVMValueRef r =
        choose(k, is_nan, mantissa_bits > 0 ? x : inf, LLVMBuildOr(b, size, sign, ""));
    return LLVMBuildBitCast(b, r, emit_type(k, t), "");
}

/* -- stochastic-convert -- */

/* Away from zero if the random bits, as a fraction, are below the number's fraction. */
LLVMValueRef scalar_stochastic_convert(Kernel *k, const Instruction *inst,
                                       const LLVMValueRef *operands)
{
    DType from = inst->operands[0]->shape->dtype, to = inst->shape->dtype;
    DType random_type = inst->operands[1]->shape->dtype;
    if (!dtype_is_float(from) || !dtype_is_integer(to) ||
        !dtype_is_unsigned(random_type) ||
        dtype_info[random_type].bits != dtype_info[from].bits)
        scalar_unsupported(inst);
    LLVMBuilderRef b = k->builder;
    unsigned bits = dtype_info[from].bits;
    LLVMTypeRef type = gx_int_type(k, bits <= 32 ? 32 : 64);
    LLVMValueRef x = scalar_widen(k, operands[0], from);
    LLVMValueRef magnitude = f_abs(k, x), whole = f_intrinsic(k, "trunc", magnitude);
    LLVMValueRef scale = f_number(x, bits == 64 ? 0x1p64 : (double)(UINT64_C(1) << bits));
    LLVMValueRef fraction = LLVMBuildFSub(b, magnitude, whole, "");
    fraction = LLVMBuildFMul(b, fraction, scale, "");
    fraction = gx_float_to_int(k, fraction, type, false);
    LLVMValueRef random = operands[1];
    if (bits < 32)
        random = LLVMBuildZExt(b, random, type, "");
    LLVMValueRef up = i_compare(k, LLVMIntULT, random, fraction);
    LLVMValueRef more = LLVMBuildFAdd(b, whole, f_number(x, 1), "");
    whole = f_copysign(k, choose(k, up, more, whole), x);
    /* whole + 1 of an f32 is exact: it has a fraction, so it is below 2^24 */
    return gx_float_to_int(k, whole, emit_type(k, to), dtype_is_signed(to));
}
