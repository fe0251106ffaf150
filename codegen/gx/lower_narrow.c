/* Conversions of floats of 8 bits and less in hardware. Its results saturate: a number that is too
 * large becomes the largest one. HLO's become infinity, or NaN where a format has none; so the
 * result is mended by looking at the number. The emulator saturates what plain code computed, and
 * mends it by the same instructions. */
#include "codegen/gx/lower.h"

#include "ir/base/bug.h"

typedef struct Format {
    double limit;    /* magnitudes beyond it do not fit; 0: saturation is right */
    bool is_open;    /* the limit itself does not fit either */
    unsigned bits;   /* of a code */
    uint32_t most;   /* code of the largest number */
    uint32_t beyond; /* of what does not fit, without sign */
    uint32_t nan;
    bool nan_has_sign;
    uint32_t nan_in_hardware; /* what NaN becomes */
} Format;

static Format format_of(GxRow row)
{
    switch (row) {
    case ROW_ENCODE_E4M3:
        return (Format){464, false, 8, 0x7e, 0x7f, 0x7f, true, 0x7f};
    case ROW_ENCODE_E5M2:
        return (Format){61440, true, 8, 0x7b, 0x7c, 0x7e, true, 0x7f};
    case ROW_ENCODE_E2M1:
        return (Format){0, false, 4, 0x7, 0x7, 0x8, false, 0x7};
    default:
        bug("%s encodes nothing", gx_info[row].name);
    }
}

/* ---- encoding ---- */

typedef struct Build {
    LLVMBuilderRef b;
    LLVMTypeRef i16, i32;
} Build;

static LLVMValueRef number(const Build *x, uint32_t value)
{
    return LLVMConstInt(x->i16, value, 0);
}

static Build build_of(const GxCall *c)
{
    return (Build){c->builder, LLVMInt16TypeInContext(c->context),
                   LLVMInt32TypeInContext(c->context)};
}

/* Code i of a pair as an i16. */
static LLVMValueRef code_at(const Build *x, LLVMValueRef codes, unsigned bits, unsigned i)
{
    LLVMValueRef v = LLVMBuildLShr(x->b, codes, number(x, i * bits), "");
    return LLVMBuildAnd(x->b, v, number(x, (1u << bits) - 1), "");
}

static LLVMValueRef pair_of(const Build *x, const LLVMValueRef code[2], unsigned bits)
{
    return LLVMBuildOr(x->b, code[0], LLVMBuildShl(x->b, code[1], number(x, bits), ""),
                       "");
}

static LLVMValueRef is_nan(const Build *x, LLVMValueRef value)
{
    return LLVMBuildFCmp(x->b, LLVMRealUNO, value, value, "");
}

/* The number's sign where the code has it. */
static LLVMValueRef sign_of(const Build *x, LLVMValueRef value, unsigned bits)
{
    LLVMValueRef u = LLVMBuildBitCast(x->b, value, x->i32, "");
    u = LLVMBuildLShr(x->b, u, LLVMConstInt(x->i32, 32 - bits, 0), "");
    u = LLVMBuildTrunc(x->b, u, x->i16, "");
    return LLVMBuildAnd(x->b, u, number(x, 1u << (bits - 1)), "");
}

static LLVMValueRef mend(const GxCall *c, const Build *x, const Format *f,
                         LLVMValueRef value, LLVMValueRef code)
{
    LLVMValueRef nan = number(x, f->nan), special = nan;
    if (f->nan_has_sign) {
        LLVMValueRef sign = sign_of(x, value, f->bits);
        nan = LLVMBuildOr(x->b, nan, sign, "");
        special = LLVMBuildOr(x->b, number(x, f->beyond), sign, "");
    }
    if (f->limit == 0)
        return LLVMBuildSelect(x->b, is_nan(x, value), nan, code, "");
    LLVMValueRef size = lower_math(x->b, c->module, "llvm.fabs", &value, 1);
    LLVMValueRef limit = LLVMConstReal(LLVMTypeOf(value), f->limit);
    LLVMValueRef fits = LLVMBuildFCmp(x->b, f->is_open ? LLVMRealOLT : LLVMRealOLE, size,
                                      limit, ""); /* false for NaN */
    if (f->nan != f->beyond)
        special = LLVMBuildSelect(x->b, is_nan(x, value), nan, special, "");
    return LLVMBuildSelect(x->b, fits, code, special, "");
}

LLVMValueRef narrow_encode(const GxCall *c, LLVMValueRef saturated)
{
    Build x = build_of(c);
    Format f = format_of(c->row);
    LLVMValueRef code[2];
    for (unsigned i = 0; i < 2; i++)
        code[i] = mend(c, &x, &f, gx_operand(c, i), code_at(&x, saturated, f.bits, i));
    return pair_of(&x, code, f.bits);
}

LLVMValueRef narrow_encode_emulated(const GxCall *c)
{
    Build x = build_of(c);
    Format f = format_of(c->row);
    uint32_t top = 1u << (f.bits - 1);
    LLVMValueRef code[2];
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef exact = code_at(&x, gx_operand(c, 2), f.bits, i);
        LLVMValueRef sign = LLVMBuildAnd(x.b, exact, number(&x, top), "");
        LLVMValueRef size = LLVMBuildAnd(x.b, exact, number(&x, top - 1), "");
        LLVMValueRef over = LLVMBuildICmp(x.b, LLVMIntUGT, size, number(&x, f.most), "");
        LLVMValueRef most = LLVMBuildOr(x.b, number(&x, f.most), sign, "");
        code[i] = LLVMBuildSelect(x.b, over, most, exact, "");
        code[i] = LLVMBuildSelect(x.b, is_nan(&x, gx_operand(c, i)),
                                  number(&x, f.nan_in_hardware), code[i], "");
    }
    return narrow_encode(c, pair_of(&x, code, f.bits));
}

/* ---- decoding ---- */

LLVMValueRef narrow_decode(const GxCall *c, LLVMValueRef halves)
{
    return LLVMBuildFPExt(c->builder, halves, LLVMTypeOf(c->call), "");
}
