/* Conversions between element types, by class: pred, integers, floats, complex. */
#include "codegen/scalar/scalar.h"

ScalarFn scalar_convert, scalar_select;

/* -- floats -- */

static bool is_small(DType t)
{
    return dtype_info[t].bits <= 8;
}

LLVMValueRef scalar_widen(Kernel *k, LLVMValueRef value, DType from)
{
    if (from == DT_F32 || from == DT_F64)
        return value;
    if (is_small(from))
        return scalar_decode(k, value, from);
    return LLVMBuildFPExt(k->builder, value, emit_type(k, DT_F32), "");
}

/* A product that is rounded to another type is no part of a contraction behind that: it is made anew without
 * the flag (LLVM-C takes none away), lest LLVM multiplies in the narrower type and contracts that. */
static LLVMValueRef uncontracted(Kernel *k, LLVMValueRef value)
{
    if (!LLVMIsAInstruction(value) || LLVMGetInstructionOpcode(value) != LLVMFMul)
        return value;
    return LLVMBuildFMul(k->builder, LLVMGetOperand(value, 0), LLVMGetOperand(value, 1),
                         "");
}

static LLVMValueRef scalar_narrow(Kernel *k, LLVMValueRef value, DType to)
{
    LLVMTypeRef type = emit_type(k, to);
    if (LLVMTypeOf(value) == type)
        return value;
    if (is_small(to))
        return scalar_encode(k, value, to);
    if (to == DT_F64)
        return LLVMBuildFPExt(k->builder, value, type, "");
    return LLVMBuildFPTrunc(k->builder, uncontracted(k, value), type, "");
}

/* -- integers to floats -- */

/* A 64-bit integer with its low bits replaced by one that says whether any was set, if it has
 * more bits than an f64: then the conversions to f64 and on to a narrower type round once. */
static LLVMValueRef sticky(Kernel *k, LLVMValueRef x, bool is_signed)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef mask = i_number(x, 0x7ff), zero = i_number(x, 0);
    LLVMValueRef low = LLVMBuildAnd(b, x, mask, "");
    LLVMValueRef any = i_compare(k, LLVMIntNE, low, zero);
    LLVMValueRef high = LLVMBuildAnd(b, x, LLVMConstNot(mask), "");
    LLVMValueRef odd = LLVMBuildOr(b, high, choose(k, any, i_number(x, 0x800), zero), "");
    LLVMValueRef limit = i_number(x, INT64_C(1) << 53), size = x;
    if (is_signed)
        size = f_intrinsic2(k, "abs", x, LLVMConstInt(gx_int_type(k, 1), 0, 0));
    return choose(k, i_compare(k, LLVMIntUGE, size, limit), odd, x);
}

/* Of at most eight bits: they become the last digits of 2^23, of which that is taken away again. Conversions
 * are slow (CUDA C++ Programming Guide, "Arithmetic Instructions": 16 or 64 a cycle); this is none. A signed number is
 * counted from its least one. */
static LLVMValueRef small_to_float(Kernel *k, LLVMValueRef x, DType from)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef word = gx_int_type(k, 32);
    uint32_t least =
        dtype_is_signed(from) ? UINT32_C(1) << (dtype_info[from].bits - 1) : 0;
    const uint32_t one = 0x4b000000; /* 2^23 */
    x = LLVMBuildZExt(b, x, word, "");
    x = LLVMBuildXor(b, x, gx_i32(k, one | least), "");
    x = LLVMBuildBitCast(b, x, emit_type(k, DT_F32), "");
    return gx_float_op(k, LLVMFSub, x, f_number(x, 8388608.0 + least));
}

/* What is above f32's 24 bits is beyond the range of most narrow types; bf16 and e8m0, whose
 * range it is within, go through f64. */
static LLVMValueRef int_to_float(Kernel *k, LLVMValueRef x, DType from, DType to)
{
    bool is_signed = dtype_is_signed(from);
    unsigned width = dtype_info[from].bits;
    if (width <= 8 && width > 1 && to != DT_F64)
        return scalar_narrow(k, small_to_float(k, x, from), to);
    bool has_range = to == DT_BF16 || to == DT_F8E8M0FNU;
    DType through = to == DT_F64 || (has_range && width > 16) ? DT_F64 : DT_F32;
    if (has_range && width == 64)
        x = sticky(k, x, is_signed);
    LLVMTypeRef type = emit_type(k, through);
    LLVMValueRef r = is_signed ? LLVMBuildSIToFP(k->builder, x, type, "")
                               : LLVMBuildUIToFP(k->builder, x, type, "");
    return scalar_narrow(k, r, to);
}

/* -- any to any -- */

static LLVMValueRef to_pred(Kernel *k, LLVMValueRef x, DType from)
{
    if (dtype_is_float(from)) {
        x = scalar_widen(k, x, from);
        return f_compare(k, LLVMRealUNE, x, f_number(x, 0));
    }
    return i_compare(k, LLVMIntNE, x, i_number(x, 0));
}

static LLVMValueRef to_int(Kernel *k, LLVMValueRef x, DType from, DType to)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = emit_type(k, to);
    if (dtype_is_float(from))
        return gx_float_to_int(k, scalar_widen(k, x, from), type, dtype_is_signed(to));
    unsigned width = i_width(x), wanted = LLVMGetIntTypeWidth(type);
    if (width == wanted)
        return x;
    if (width > wanted)
        return LLVMBuildTrunc(b, x, type, "");
    return dtype_is_signed(from) ? LLVMBuildSExt(b, x, type, "")
                                 : LLVMBuildZExt(b, x, type, "");
}

static LLVMValueRef to_float(Kernel *k, LLVMValueRef x, DType from, DType to)
{
    if (dtype_is_float(from))
        return scalar_narrow(k, scalar_widen(k, x, from), to);
    return int_to_float(k, x, from, to);
}

static LLVMValueRef to_complex(Kernel *k, LLVMValueRef x, DType from, DType to)
{
    LLVMBuilderRef b = k->builder;
    DType part = number_component(to), from_part = number_component(from);
    if (!dtype_is_complex(from)) {
        LLVMValueRef re = scalar_convert_value(k, x, from, part);
        return complex_make(k, re, emit_number(k, part, 0));
    }
    LLVMValueRef re = LLVMBuildExtractValue(b, x, 0, "");
    LLVMValueRef im = LLVMBuildExtractValue(b, x, 1, "");
    return complex_make(k, scalar_convert_value(k, re, from_part, part),
                        scalar_convert_value(k, im, from_part, part));
}

LLVMValueRef scalar_convert_value(Kernel *k, LLVMValueRef value, DType from, DType to)
{
    LLVMBuilderRef b = k->builder;
    if (from == to)
        return value;
    if (dtype_is_complex(to))
        return to_complex(k, value, from, to);
    if (dtype_is_complex(from)) {
        DType part = number_component(from);
        LLVMValueRef re = LLVMBuildExtractValue(b, value, 0, "");
        if (to != DT_PRED)
            return scalar_convert_value(k, re, part, to);
        LLVMValueRef im = LLVMBuildExtractValue(b, value, 1, "");
        return LLVMBuildOr(b, to_pred(k, re, part), to_pred(k, im, part), "");
    }
    if (to == DT_PRED)
        return to_pred(k, value, from);
    return dtype_is_float(to) ? to_float(k, value, from, to) : to_int(k, value, from, to);
}

/* Neighbours in pairs: a narrow type's instruction converts two numbers. */
static bool is_paired(DType from, DType to)
{
    return dtype_is_float(from) && dtype_is_float(to) && from != to &&
           (is_small(from) || is_small(to));
}

void scalar_convert_lanes(Kernel *k, DType from, DType to, uint32_t lanes,
                          const LLVMValueRef *in, LLVMValueRef *out)
{
    uint32_t v = 0;
    for (; is_paired(from, to) && v + 2 <= lanes; v += 2) {
        LLVMValueRef wide[2];
        if (is_small(from))
            scalar_decode_pair(k, from, in + v, wide);
        else
            for (uint32_t i = 0; i < 2; i++)
                wide[i] = scalar_widen(k, in[v + i], from);
        if (is_small(to))
            scalar_encode_pair(k, to, wide, out + v);
        else
            for (uint32_t i = 0; i < 2; i++)
                out[v + i] = scalar_narrow(k, wide[i], to);
    }
    for (; v < lanes; v++)
        out[v] = scalar_convert_value(k, in[v], from, to);
}

LLVMValueRef scalar_convert(Kernel *k, const Instruction *inst,
                            const LLVMValueRef *operands)
{
    DType from = inst->operands[0]->shape->dtype, to = inst->shape->dtype;
    if (!dtype_is_array(from) || !dtype_is_array(to))
        scalar_unsupported(inst);
    return scalar_convert_value(k, operands[0], from, to);
}

/* Only moves: the value chosen keeps its bits. */
LLVMValueRef scalar_select(Kernel *k, const Instruction *inst,
                           const LLVMValueRef *operands)
{
    LLVMBuilderRef b = k->builder;
    DType t = inst->shape->dtype;
    LLVMValueRef x[2], parts[2];
    for (unsigned i = 0; i < 2; i++)
        x[i] = scalar_convert_value(k, operands[i + 1],
                                    inst->operands[i + 1]->shape->dtype, t);
    if (!dtype_is_complex(t))
        return choose(k, operands[0], x[0], x[1]);
    for (unsigned i = 0; i < 2; i++)
        parts[i] = choose(k, operands[0], LLVMBuildExtractValue(b, x[0], i, ""),
                          LLVMBuildExtractValue(b, x[1], i, ""));
    return complex_make(k, parts[0], parts[1]);
}
