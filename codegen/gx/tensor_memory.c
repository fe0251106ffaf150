/* Operations of tensor memory, and of mbarriers, which say when they are done. */
#include "codegen/gx/call.h"
#include "codegen/gx/gx.h"
#include "ir/base/bug.h"

static void call(Kernel *k, GxRow row, LLVMValueRef *args, unsigned count)
{
    gx_call(k, row, NULL, NULL, LLVMVoidTypeInContext(k->context), args, count);
}

void gx_tensor_alloc(Kernel *k, LLVMValueRef slot, uint32_t columns)
{
    LLVMValueRef args[] = {slot, gx_i32(k, columns), gx_sync_site(k)};
    call(k, ROW_TENSOR_ALLOC, args, 3);
}

void gx_tensor_free(Kernel *k, LLVMValueRef address, uint32_t columns)
{
    LLVMValueRef args[] = {address, gx_i32(k, columns), gx_sync_site(k)};
    call(k, ROW_TENSOR_FREE, args, 3);
}

void gx_tensor_mma(Kernel *k, DType type, uint32_t rows, uint32_t columns, uint32_t steps,
                   const GxMatrices *a, const GxMatrices *b, LLVMValueRef address,
                   LLVMValueRef adds)
{
    enum { MOST_COLUMNS = 256, TALL = 128 };
    bool is_tall = rows == TALL;
    if ((type != DT_BF16 && type != DT_F16) || (!is_tall && rows != TALL / 2) ||
        columns % (is_tall ? 16 : 8) != 0 || columns == 0 || columns > MOST_COLUMNS ||
        a->words != NULL || b->words != NULL)
        bug("kernel %s, %s: tcgen05.mma of %u rows and %u columns", k->name, k->at, rows,
            columns);
    uint32_t form = columns + (a->is_transposed ? GX_WGMMA_TRANSPOSED : 0) +
                    (b->is_transposed ? GX_WGMMA_RIGHT_TRANSPOSED : 0) +
                    (type == DT_F16 ? GX_WGMMA_F16 : 0) + (is_tall ? GX_TENSOR_TALL : 0);
    LLVMValueRef args[] = {gx_i32(k, form),
                           gx_i32(k, steps),
                           a->offset,
                           gx_i32(k, a->lead),
                           gx_i32(k, a->stride),
                           b->offset,
                           gx_i32(k, b->lead),
                           gx_i32(k, b->stride),
                           address,
                           adds,
                           gx_current_site(k)};
    call(k, ROW_TENSOR_MMA, args, sizeof args / sizeof *args);
}

void gx_tensor_commit(Kernel *k, LLVMValueRef mbarrier)
{
    LLVMValueRef args[] = {mbarrier, gx_current_site(k)};
    call(k, ROW_TENSOR_COMMIT, args, 2);
}

void gx_tensor_load(Kernel *k, LLVMValueRef address, uint32_t columns, LLVMValueRef *sums)
{
    enum { MOST_COLUMNS = 64, PIECE = 8 };
    LLVMTypeRef types[MOST_COLUMNS / 2];
    if (columns < PIECE || columns > MOST_COLUMNS || (columns & (columns - 1)) != 0)
        bug("kernel %s, %s: a load of %u columns", k->name, k->at, columns);
    for (uint32_t i = 0; i < columns / 2; i++)
        types[i] = LLVMFloatTypeInContext(k->context);
    LLVMValueRef args[] = {address, gx_sync_site(k)};
    LLVMValueRef all =
        gx_call(k, ROW_TENSOR_LOAD, NULL, arena_printf(k->arena, "n%u", columns),
                LLVMStructTypeInContext(k->context, types, columns / 2, 0), args, 2);
    for (uint32_t i = 0; i < columns / 2; i++)
        sums[i] = LLVMBuildExtractValue(k->builder, all, i, "");
}

void gx_mbarrier_init(Kernel *k, LLVMValueRef offset)
{
    LLVMValueRef args[] = {offset, gx_current_site(k)};
    call(k, ROW_MBARRIER_INIT, args, 2);
}

void gx_mbarrier_wait(Kernel *k, LLVMValueRef offset, LLVMValueRef parity)
{
    LLVMValueRef args[] = {offset, parity, gx_current_site(k)};
    call(k, ROW_MBARRIER_WAIT, args, 3);
}
