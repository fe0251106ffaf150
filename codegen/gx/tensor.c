/* Operations of tensor cores: of a warp, and of four warps together. */
#include "codegen/gx/call.h"
#include "codegen/gx/gx.h"
#include "ir/base/bug.h"

static LLVMTypeRef same_types(Kernel *k, LLVMTypeRef type, unsigned count)
{
    LLVMTypeRef types[GX_MOST_OPERANDS];
    for (unsigned i = 0; i < count; i++)
        types[i] = type;
    return LLVMStructTypeInContext(k->context, types, count, 0);
}

static void take_apart(Kernel *k, LLVMValueRef values, unsigned count, LLVMValueRef *out)
{
    for (unsigned i = 0; i < count; i++)
        out[i] = LLVMBuildExtractValue(k->builder, values, i, "");
}

/* The f32 in a word, rounded to nearest as TF32, halves away from zero (cvt.rna.tf32.f32): the instruction leaves out the
 * last 13 bits, which would make all products too small. Infinities are as they are, and so is what is no number: some have
 * all bits set. */
static LLVMValueRef round_tf32(Kernel *k, LLVMValueRef word)
{
    enum { HALF = 1 << 12 };
    LLVMBuilderRef b = k->builder;
    LLVMValueRef magnitude = LLVMBuildAnd(b, word, gx_i32(k, INT32_MAX), ""),
                 is_finite =
                     LLVMBuildICmp(b, LLVMIntULT, magnitude, gx_i32(k, 0x7f800000), "");
    return LLVMBuildSelect(b, is_finite, LLVMBuildAdd(b, word, gx_i32(k, HALF), ""), word,
                           "");
}

void gx_mma(Kernel *k, const TensorCore *t, const LLVMValueRef *a, const LLVMValueRef *b,
            const LLVMValueRef *c, LLVMValueRef *d)
{
    const LLVMValueRef *operands[] = {a, b, c};
    LLVMValueRef args[GX_MOST_OPERANDS] = {gx_i32(k, t->number)};
    unsigned count = 1, sums = tensor_core_registers(t, TENSOR_C);
    for (unsigned operand = 0; operand < TENSOR_OPERANDS; operand++) {
        unsigned registers = tensor_core_registers(t, (TensorOperand)operand);
        bool is_tf32 = operand != TENSOR_C && t->types[operand] == DT_F32;
        for (unsigned i = 0; i < registers; i++)
            args[count++] =
                is_tf32 ? round_tf32(k, operands[operand][i]) : operands[operand][i];
    }
    args[count++] = gx_sync_site(k);
    LLVMValueRef result = gx_call(k, ROW_MMA, NULL, t->name,
                                  same_types(k, LLVMTypeOf(c[0]), sums), args, count);
    take_apart(k, result, sums, d);
}

static const char *const matrices[] = {[1] = "x1", [2] = "x2", [4] = "x4"};

static void check_matrices(Kernel *k, uint32_t count)
{
    if (count != 1 && count != 2 && count != 4)
        bug("kernel %s, %s: %u matrices", k->name, k->at, count);
}

void gx_ldmatrix(Kernel *k, LLVMValueRef offset, uint32_t count, bool is_transposed,
                 LLVMValueRef *out)
{
    check_matrices(k, count);
    LLVMValueRef args[] = {offset, LLVMConstInt(gx_int_type(k, 1), is_transposed, 0),
                           gx_sync_site(k)};
    LLVMValueRef result = gx_call(k, ROW_LDMATRIX, NULL, matrices[count],
                                  same_types(k, gx_int_type(k, 32), count), args, 3);
    take_apart(k, result, count, out);
}

void gx_stmatrix(Kernel *k, LLVMValueRef offset, uint32_t count, bool is_transposed,
                 const LLVMValueRef *values)
{
    check_matrices(k, count);
    LLVMValueRef args[GX_MOST_OPERANDS] = {
        offset, LLVMConstInt(gx_int_type(k, 1), is_transposed, 0)};
    for (uint32_t i = 0; i < count; i++)
        args[2 + i] = values[i];
    args[2 + count] = gx_sync_site(k);
    gx_call(k, ROW_STMATRIX, NULL, matrices[count], LLVMVoidTypeInContext(k->context),
            args, 3 + count);
}

/* 0 to 3: rows of 16 bytes, which need none, 32, 64, 128 */
static uint32_t swizzle_number(const GxMatrices *x)
{
    return x->line == 128 ? 3 : x->line / 32;
}

/* Four warps together. */
static void wgmma(Kernel *k, DType type, uint32_t columns, uint32_t steps,
                  const GxMatrices *a, const GxMatrices *b, uint32_t ends,
                  LLVMValueRef *sums)
{
    enum { MOST_STEPS = 16 /* of a factor in registers */ };
    uint32_t count = columns / 2, form = columns + ends, used = 0;
    if ((type != DT_BF16 && type != DT_F16) || columns % 8 != 0 || columns == 0 ||
        columns > 256)
        bug("kernel %s, %s: wgmma of %u columns", k->name, k->at, columns);
    if (a->words != NULL && (a->is_transposed || steps > MOST_STEPS))
        bug("kernel %s, %s: wgmma of %u steps in registers", k->name, k->at, steps);
    form += (a->is_transposed ? GX_WGMMA_TRANSPOSED : 0) +
            (b->is_transposed ? GX_WGMMA_RIGHT_TRANSPOSED : 0) +
            (type == DT_F16 ? GX_WGMMA_F16 : 0) +
            (a->words != NULL ? GX_WGMMA_REGISTERS : 0) +
            GX_WGMMA_LINE * swizzle_number(a) + GX_WGMMA_RIGHT_LINE * swizzle_number(b);
    LLVMValueRef args[GX_MOST_OPERANDS];
    args[used++] = gx_i32(k, form);
    args[used++] = gx_i32(k, steps);
    for (int i = 0; i < 2; i++) {
        const GxMatrices *x = i == 0 ? a : b;
        args[used++] = x->words != NULL ? gx_i32(k, 0) : x->offset;
        args[used++] = gx_i32(k, x->lead);
        args[used++] = gx_i32(k, x->stride);
    }
    for (uint32_t i = 0; a->words != NULL && i < steps * GX_WGMMA_WORDS; i++)
        args[used++] = a->words[i];
    for (uint32_t i = 0; i < count; i++)
        args[used++] = sums[i];
    args[used++] = gx_sync_site(k);
    const char *name = arena_printf(k->arena, "%s.n%u", dtype_info[type].name, columns);
    if (a->words != NULL)
        name = arena_printf(k->arena, "%s.r%u", name, steps);
    LLVMValueRef result = gx_call(k, ROW_WGMMA, NULL, name,
                                  same_types(k, LLVMTypeOf(sums[0]), count), args, used);
    take_apart(k, result, count, sums);
}

void gx_wgmma(Kernel *k, DType type, uint32_t columns, uint32_t steps,
              const GxMatrices *a, const GxMatrices *b, LLVMValueRef *sums)
{
    wgmma(k, type, columns, steps, a, b, 0, sums);
}

void gx_wgmma_begin(Kernel *k, DType type, uint32_t columns, uint32_t steps,
                    const GxMatrices *a, const GxMatrices *b, uint32_t index,
                    LLVMValueRef *sums)
{
    if (a->words != NULL)
        bug("kernel %s, %s: a wgmma that goes on reads registers", k->name, k->at);
    if (index >= GX_WGMMA_MOST_INDEX)
        bug("kernel %s, %s: a wgmma with sums from index %u on", k->name, k->at, index);
    wgmma(k, type, columns, steps, a, b, GX_WGMMA_GOES_ON + index * GX_WGMMA_INDEX, sums);
}

void gx_wgmma_wait(Kernel *k, uint32_t left, uint32_t count, LLVMValueRef *sums)
{
    enum {
        MOST_LEFT = 7,  /* PTX ISA, wgmma.wait_group */
        MOST_SUMS = 192 /* that the emulator has room for */
    };
    if (left > MOST_LEFT || count > MOST_SUMS)
        bug("kernel %s, %s: a wait for wgmma with %u sums", k->name, k->at, count);
    LLVMValueRef args[GX_MOST_OPERANDS] = {gx_i32(k, left)};
    for (uint32_t i = 0; i < count; i++)
        args[1 + i] = sums[i];
    args[1 + count] = gx_sync_site(k);
    LLVMValueRef result =
        gx_call(k, ROW_WGMMA_WAIT, NULL, arena_printf(k->arena, "n%u", count),
                same_types(k, LLVMTypeOf(sums[0]), count), args, 2 + count);
    take_apart(k, result, count, sums);
}

void gx_proxy_fence(Kernel *k)
{
    LLVMValueRef site = gx_current_site(k);
    gx_call(k, ROW_PROXY_FENCE, NULL, NULL, LLVMVoidTypeInContext(k->context), &site, 1);
}
