/* Floats of 8 bits and less, by integer arithmetic that is generic over the formats of
 * dtypes.def, and where the GPU has it by an instruction (gx_encode_pair). In what follows E and M are the small format's exponent and mantissa bits. */
#include "codegen/scalar/scalar.h"

/* Of the IEEE format that the number is in, or comes from: f32 or f64. */
typedef struct Wide {
    LLVMTypeRef ints, floats;
    unsigned bits, mantissa;
    int bias;
} Wide;

static Wide wide_of(Kernel *k, bool is_double)
{
    return is_double ? (Wide){gx_int_type(k, 64), emit_type(k, DT_F64), 64, 52, 1023}
                     : (Wide){gx_int_type(k, 32), emit_type(k, DT_F32), 32, 23, 127};
}

static LLVMValueRef number(const Wide *w, uint64_t value)
{
    return LLVMConstInt(w->ints, w->bits == 64 ? value : value & UINT32_MAX, 0);
}

/* The bits of 2^exponent. */
static uint64_t power_of_two(const Wide *w, int exponent)
{
    return (uint64_t)(exponent + w->bias) << w->mantissa;
}

/* The largest code without sign that is a finite number. */
static uint64_t finite_limit(const DTypeInfo *f)
{
    uint64_t all = ((uint64_t)1 << (f->exponent_bits + f->mantissa_bits)) - 1;
    if (f->special == SPECIAL_IEEE)
        return all - ((uint64_t)1 << f->mantissa_bits);
    return f->special == SPECIAL_FN ? all - 1 : all;
}

static uint64_t sign_of(const DTypeInfo *f)
{
    return (uint64_t)1 << (f->exponent_bits + f->mantissa_bits);
}

/* -- e8m0 -- */

static LLVMValueRef decode_e8m0(Kernel *k, LLVMValueRef code)
{
    Wide w = wide_of(k, false);
    LLVMBuilderRef b = k->builder;
    LLVMValueRef u = LLVMBuildZExt(b, code, w.ints, "");
    LLVMValueRef bits = LLVMBuildShl(b, u, number(&w, 23), "");
    LLVMValueRef is_zero = i_compare(k, LLVMIntEQ, u, number(&w, 0));
    LLVMValueRef is_nan = i_compare(k, LLVMIntEQ, u, number(&w, 0xff));
    bits = choose(k, is_zero, number(&w, 0x00400000), bits); /* 2^-127 is denormal */
    bits = choose(k, is_nan, number(&w, 0x7fc00000), bits);
    return LLVMBuildBitCast(b, bits, w.floats, "");
}

/* Adding half a unit to the bits rounds to a power of two, halfway cases up. */
static LLVMValueRef encode_e8m0(Kernel *k, LLVMValueRef value)
{
    Wide w = wide_of(k, is_f64(value));
    LLVMBuilderRef b = k->builder;
    bool is_double = w.bits == 64;
    uint64_t half = (uint64_t)1 << (w.mantissa - 1);
    uint64_t least = is_double ? power_of_two(&w, -127) : 0x00400000;
    LLVMValueRef u = LLVMBuildBitCast(b, value, w.ints, "");
    LLVMValueRef r = LLVMBuildAdd(b, u, number(&w, half), "");
    r = LLVMBuildLShr(b, r, number(&w, w.mantissa), "");
    r = LLVMBuildSub(b, r, number(&w, (uint64_t)(w.bias - 127)), "");
    if (is_double) /* f32 is denormal there, which rounds up by itself */
        r = f_intrinsic2(k, "umax", r, number(&w, 1));
    LLVMValueRef is_least = i_compare(k, LLVMIntULE, u, number(&w, least));
    r = choose(k, is_least, number(&w, 0), r);
    /* zero, and as unsigned numbers all negative ones, infinity and NaN */
    LLVMValueRef limit = number(&w, power_of_two(&w, 127) + half - 1);
    LLVMValueRef below = LLVMBuildSub(b, u, number(&w, 1), "");
    LLVMValueRef is_nan = i_compare(k, LLVMIntUGE, below, limit);
    r = choose(k, is_nan, number(&w, 0xff), r);
    return LLVMBuildTrunc(b, r, gx_int_type(k, 8), "");
}

/* -- decoding -- */

/* e5m2 is the upper half of an f16. */
static LLVMValueRef decode_e5m2(Kernel *k, LLVMValueRef code)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i16 = gx_int_type(k, 16);
    LLVMValueRef u = LLVMBuildZExt(b, code, i16, "");
    u = LLVMBuildShl(b, u, LLVMConstInt(i16, 8, 0), "");
    u = LLVMBuildBitCast(b, u, emit_type(k, DT_F16), "");
    return LLVMBuildFPExt(b, u, emit_type(k, DT_F32), "");
}

/* Exponent and mantissa put where f32 has them are the number times 2^(bias - 127), also where
 * it is denormal: one multiplication is left. */
static LLVMValueRef decode_plain(Kernel *k, LLVMValueRef code, DType from)
{
    const DTypeInfo *f = &dtype_info[from];
    if (f->special == SPECIAL_E8M0)
        return decode_e8m0(k, code);
    if (from == DT_F8E5M2)
        return decode_e5m2(k, code);
    LLVMBuilderRef b = k->builder;
    Wide w = wide_of(k, false);
    unsigned width = 1u + f->exponent_bits + f->mantissa_bits;
    uint64_t limit = finite_limit(f);
    LLVMValueRef u = LLVMBuildZExt(b, code, w.ints, "");
    LLVMValueRef size = LLVMBuildAnd(b, u, number(&w, sign_of(f) - 1), "");
    LLVMValueRef sign = LLVMBuildAnd(b, u, number(&w, sign_of(f)), "");
    sign = LLVMBuildShl(b, sign, number(&w, 32 - width), "");
    LLVMValueRef x = LLVMBuildShl(b, size, number(&w, 23u - f->mantissa_bits), "");
    LLVMValueRef scale = number(&w, power_of_two(&w, 127 - f->bias));
    x = LLVMBuildFMul(b, LLVMBuildBitCast(b, x, w.floats, ""),
                      LLVMConstBitCast(scale, w.floats), "");
    x = LLVMBuildBitCast(b, x, w.ints, "");
    LLVMValueRef nan = number(&w, 0x7fc00000);
    if (f->special == SPECIAL_IEEE) {
        LLVMValueRef is_inf = i_compare(k, LLVMIntEQ, size, number(&w, limit + 1));
        LLVMValueRef special = choose(k, is_inf, number(&w, 0x7f800000), nan);
        x = choose(k, i_compare(k, LLVMIntUGT, size, number(&w, limit)), special, x);
    } else if (f->special == SPECIAL_FN) {
        x = choose(k, i_compare(k, LLVMIntUGT, size, number(&w, limit)), nan, x);
    } else if (f->special == SPECIAL_FNUZ) {
        x = choose(k, i_compare(k, LLVMIntEQ, u, number(&w, sign_of(f))), nan, x);
    }
    return LLVMBuildBitCast(b, LLVMBuildOr(b, x, sign, ""), w.floats, "");
}

/* -- encoding -- */

/* The code of a number's magnitude, rounded to nearest even; of one that is too large, or no
 * number, something that is too large. Normal results: the exponent is rebased and the bits
 * rounded, a carry raising the exponent. Denormal ones: the sum with a power of two, whose last
 * bit is the format's least number, rounds by itself. */
static LLVMValueRef round_magnitude(Kernel *k, const Wide *w, const DTypeInfo *f,
                                    LLVMValueRef magnitude)
{
    LLVMBuilderRef b = k->builder;
    unsigned shift = w->mantissa - f->mantissa_bits;
    int least = 1 - f->bias; /* exponent of the least normal number */
    LLVMValueRef drop = number(w, shift);
    LLVMValueRef last = LLVMBuildLShr(b, magnitude, drop, "");
    last = LLVMBuildAnd(b, last, number(w, 1), "");
    uint64_t bias = ((uint64_t)(w->bias - f->bias) << w->mantissa);
    uint64_t half = ((uint64_t)1 << (shift - 1)) - 1;
    LLVMValueRef normal = LLVMBuildAdd(b, magnitude, number(w, half - bias), "");
    normal = LLVMBuildLShr(b, LLVMBuildAdd(b, normal, last, ""), drop, "");

    uint64_t magic = power_of_two(w, least + (int)shift);
    LLVMValueRef sum = LLVMBuildFAdd(b, LLVMBuildBitCast(b, magnitude, w->floats, ""),
                                     LLVMConstBitCast(number(w, magic), w->floats), "");
    LLVMValueRef denormal = LLVMBuildBitCast(b, sum, w->ints, "");
    denormal = LLVMBuildSub(b, denormal, number(w, magic), "");
    LLVMValueRef is_denormal =
        i_compare(k, LLVMIntULT, magnitude, number(w, power_of_two(w, least)));
    return choose(k, is_denormal, denormal, normal);
}

static LLVMValueRef encode_plain(Kernel *k, LLVMValueRef value, DType to)
{
    const DTypeInfo *f = &dtype_info[to];
    if (f->special == SPECIAL_E8M0)
        return encode_e8m0(k, value);
    LLVMBuilderRef b = k->builder;
    Wide w = wide_of(k, is_f64(value));
    unsigned width = 1u + f->exponent_bits + f->mantissa_bits;
    uint64_t limit = finite_limit(f), infinity = power_of_two(&w, w.bias + 1);
    LLVMValueRef u = LLVMBuildBitCast(b, value, w.ints, "");
    LLVMValueRef top = number(&w, (uint64_t)1 << (w.bits - 1));
    LLVMValueRef magnitude = LLVMBuildAnd(b, u, LLVMConstNot(top), "");
    LLVMValueRef sign = LLVMBuildAnd(b, u, top, "");
    sign = LLVMBuildLShr(b, sign, number(&w, w.bits - width), "");
    LLVMValueRef code = round_magnitude(k, &w, f, magnitude);
    LLVMValueRef too_large = i_compare(k, LLVMIntUGT, code, number(&w, limit));
    LLVMValueRef is_nan = i_compare(k, LLVMIntUGT, magnitude, number(&w, infinity));
    LLVMTypeRef type = emit_type(k, to);
    switch (f->special) {
    case SPECIAL_IEEE: {
        uint64_t inf = limit + 1, nan = inf | (uint64_t)1 << (f->mantissa_bits - 1);
        LLVMValueRef special = choose(k, is_nan, number(&w, nan), number(&w, inf));
        code = choose(k, too_large, special, code);
        break;
    }
    case SPECIAL_FN:
        code = choose(k, too_large, number(&w, limit + 1), code);
        break;
    case SPECIAL_FINITE: /* NaN: -0 */
        code = choose(k, too_large, number(&w, limit), code);
        code = choose(k, is_nan, number(&w, sign_of(f)), LLVMBuildOr(b, code, sign, ""));
        return LLVMBuildTrunc(b, code, type, "");
    case SPECIAL_FNUZ: { /* no negative zero */
        LLVMValueRef is_zero = i_compare(k, LLVMIntEQ, code, number(&w, 0));
        LLVMValueRef with_sign = LLVMBuildOr(b, code, sign, "");
        code = choose(k, is_zero, code, with_sign);
        code = choose(k, too_large, number(&w, sign_of(f)), code);
        return LLVMBuildTrunc(b, code, type, "");
    }
    case SPECIAL_E8M0:
    case SPECIAL_NONE:
        break;
    }
    return LLVMBuildTrunc(b, LLVMBuildOr(b, code, sign, ""), type, "");
}

/* -- pairs -- */

/* Whether some GPU converts this format in hardware. */
static bool narrow_of(DType t, GxNarrow *out)
{
    switch (t) {
    case DT_F8E4M3FN:
        *out = GX_E4M3;
        return true;
    case DT_F8E5M2:
        *out = GX_E5M2;
        return true;
    case DT_F4E2M1FN:
        *out = GX_E2M1;
        return true;
    case DT_F8E8M0FNU:
        *out = GX_E8M0;
        return true;
    default:
        return false;
    }
}

/* Two codes in an i16, the first in the low bits. */
static LLVMValueRef codes_join(Kernel *k, DType t, const LLVMValueRef code[2])
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i16 = gx_int_type(k, 16);
    LLVMValueRef low = LLVMBuildZExt(b, code[0], i16, "");
    LLVMValueRef high = LLVMBuildZExt(b, code[1], i16, "");
    LLVMValueRef width = LLVMConstInt(i16, dtype_info[t].bits, 0);
    return LLVMBuildOr(b, low, LLVMBuildShl(b, high, width, ""), "");
}

void scalar_encode_pair(Kernel *k, DType to, const LLVMValueRef value[2],
                        LLVMValueRef out[2])
{
    LLVMBuilderRef b = k->builder;
    GxNarrow format;
    for (int i = 0; i < 2; i++)
        out[i] = encode_plain(k, value[i], to);
    if (is_f64(value[0]) || !narrow_of(to, &format) || format == GX_E8M0)
        return;
    LLVMValueRef both =
        gx_encode_pair(k, format, value[0], value[1], codes_join(k, to, out));
    LLVMValueRef width = LLVMConstInt(LLVMTypeOf(both), dtype_info[to].bits, 0);
    out[0] = LLVMBuildTrunc(b, both, emit_type(k, to), "");
    out[1] = LLVMBuildTrunc(b, LLVMBuildLShr(b, both, width, ""), emit_type(k, to), "");
}

void scalar_decode_pair(Kernel *k, DType from, const LLVMValueRef code[2],
                        LLVMValueRef out[2])
{
    LLVMBuilderRef b = k->builder;
    GxNarrow format;
    for (int i = 0; i < 2; i++)
        out[i] = decode_plain(k, code[i], from);
    if (!narrow_of(from, &format))
        return;
    LLVMValueRef both = LLVMGetUndef(LLVMVectorType(emit_type(k, DT_F32), 2));
    for (unsigned i = 0; i < 2; i++)
        both = LLVMBuildInsertElement(b, both, out[i], gx_i32(k, i), "");
    both = gx_decode_pair(k, format, codes_join(k, from, code), both);
    for (unsigned i = 0; i < 2; i++)
        out[i] = LLVMBuildExtractElement(b, both, gx_i32(k, i), "");
}

LLVMValueRef scalar_encode(Kernel *k, LLVMValueRef value, DType to)
{
    LLVMValueRef pair[2] = {value, f_number(value, 0)}, out[2];
    scalar_encode_pair(k, to, pair, out);
    return out[0];
}

LLVMValueRef scalar_decode(Kernel *k, LLVMValueRef code, DType from)
{
    LLVMValueRef pair[2] = {code, LLVMConstNull(LLVMTypeOf(code))}, out[2];
    scalar_decode_pair(k, from, pair, out);
    return out[0];
}
