/* Numbers of 16 bits two at a time: of a factor that is held, which instructions take in words of two neighbouring
 * terms. Registers whose numbers differ in the bit TileLower.pair alone are such a word. See lower.h. */
#include "codegen/tile/lower.h"

static LLVMTypeRef pair_type(TileLower *l, DType t)
{
    return LLVMVectorType(emit_type(l->k, t), 2);
}

static void split_pair(TileLower *l, LLVMValueRef pair, uint32_t r, LLVMValueRef *out)
{
    for (uint32_t i = 0; i < 2; i++)
        out[i == 0 ? r : r | l->pair] =
            LLVMBuildExtractElement(l->k->builder, pair, gx_i32(l->k, i), "");
}

static LLVMValueRef join_pair(TileLower *l, DType t, uint32_t r,
                              const LLVMValueRef *values)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef v = LLVMGetUndef(pair_type(l, t));
    v = LLVMBuildInsertElement(b, v, values[r], gx_i32(l->k, 0), "");
    return LLVMBuildInsertElement(b, v, values[r | l->pair], gx_i32(l->k, 1), "");
}

/* The products of 16-bit floats are exact in f32: rounded once, as the scalar ones are. */
static bool multiplies(const TileOp *op)
{
    return op->inst->op == OP_MULTIPLY && dtype_is_half(op->dtype);
}

/* Whether the integers are the last digits of a power of two in the float: of 128 in bf16, of 1024 in f16. */
static bool fits_digits(DType from, DType to)
{
    bool is_half = dtype_is_half(to);
    return is_half && dtype_is_integer(from) &&
           dtype_info[from].bits <= (uint32_t)dtype_info[to].mantissa_bits &&
           (dtype_info[from].bits == 4 || dtype_info[from].bits == 8);
}

/* The number `at` of both words: digits of a power of two, of which that is taken away again. A signed one is counted
 * from its least. */
static LLVMValueRef convert_digits(TileLower *l, DType from, DType to,
                                   LLVMValueRef halves, uint32_t at)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t bits = dtype_info[from].bits, mask = (UINT32_C(1) << bits) - 1,
             least = dtype_is_signed(from) ? UINT32_C(1) << (bits - 1) : 0,
             power = to == DT_BF16 ? 0x4300 : 0x6400, both = 0x10001;
    double taken = (to == DT_BF16 ? 128 : 1024) + (double)least;
    LLVMValueRef v = LLVMBuildLShr(b, halves, gx_i32(l->k, at * bits), "");
    v = LLVMBuildAnd(b, v, gx_i32(l->k, mask * both), "");
    v = LLVMBuildXor(b, v, gx_i32(l->k, (power | least) * both), "");
    v = LLVMBuildBitCast(b, v, pair_type(l, to), "");
    LLVMValueRef one = LLVMConstReal(emit_type(l->k, to), taken);
    return LLVMBuildFSub(b, v, LLVMConstVector((LLVMValueRef[]){one, one}, 2), "");
}

/* The lower or the upper halves of two words. */
static LLVMValueRef halves_of(TileLower *l, LLVMValueRef x, LLVMValueRef y,
                              uint32_t which)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMTypeRef type = LLVMVectorType(gx_int_type(l->k, 16), 2);
    LLVMValueRef mask[] = {gx_i32(l->k, which), gx_i32(l->k, 2 + which)};
    x = LLVMBuildBitCast(b, x, type, "");
    y = LLVMBuildBitCast(b, y, type, "");
    x = LLVMBuildShuffleVector(b, x, y, LLVMConstVector(mask, 2), "");
    return LLVMBuildBitCast(b, x, gx_int_type(l->k, 32), "");
}

static void convert_words(TileLower *l, DType from, DType to, const LLVMValueRef *words,
                          uint32_t count, LLVMValueRef *out)
{
    uint32_t each = 32 / dtype_info[from].bits, half = each / 2;
    for (uint32_t r = 0; r < count; r += half) {
        if ((r & l->pair) != 0)
            continue;
        LLVMValueRef halves =
            halves_of(l, words[r / each], words[(r | l->pair) / each], r % each / half);
        for (uint32_t i = 0; i < half; i++)
            split_pair(l, convert_digits(l, from, to, halves, i), r + i, out);
    }
}

static void multiply_pairs(TileLower *l, const TileOp *op, uint32_t count,
                           LLVMValueRef *const operands[2], LLVMValueRef *out)
{
    for (uint32_t r = 0; r < count; r++) {
        if ((r & l->pair) != 0)
            continue;
        LLVMValueRef x = join_pair(l, op->dtype, r, operands[0]),
                     y = join_pair(l, op->dtype, r, operands[1]);
        split_pair(l, LLVMBuildFMul(l->k->builder, x, y, ""), r, out);
    }
}

bool pairs_apply(TileLower *l, const TileOp *op, const LinearLayout *layout,
                 LLVMValueRef *out)
{
    uint32_t count = UINT32_C(1) << layout->in[LINEAR_REGISTER];
    const TileOp *x = op->operands[0];
    if (l->pair == 0)
        return false;
    for (uint32_t i = 0; i < layout->in[LINEAR_REGISTER]; i++) {
        if (layout->columns[i] == 0)
            return false;
    }
    if (op->inst->op == OP_CONVERT && fits_digits(x->dtype, op->dtype) &&
        32 / dtype_info[x->dtype].bits <= l->pair) {
        const LLVMValueRef *words = tile_words(l, x, layout);
        if (words != NULL)
            convert_words(l, x->dtype, op->dtype, words, count, out);
        return words != NULL;
    }
    if (!multiplies(op))
        return false;
    LLVMValueRef *const operands[] = {tile_registers(l, x, layout),
                                      tile_registers(l, op->operands[1], layout)};
    multiply_pairs(l, op, count, operands, out);
    return true;
}
