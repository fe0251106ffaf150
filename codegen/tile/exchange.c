/* Tiles on their way through shared memory. See lower.h. */
#include "codegen/tile/lower.h"

LLVMValueRef shared_offset(TileLower *l, const LinearLayout *layout,
                           const LinearMap *offsets, uint32_t bits, LLVMValueRef thread,
                           uint32_t r, LLVMValueRef base)
{
    uint32_t own = map_apply(offsets, r), threads = 0;
    for (uint32_t i = layout->in[LINEAR_REGISTER]; i < offsets->in_bits; i++)
        threads |= offsets->columns[i];
    LLVMValueRef bytes = gx_i32(l->k, bits / 8), at = thread;
    /* where a swizzle joins them, bits are xored; the register's other bits are added last, to be a constant of the
     * access: few places are different ones */
    uint32_t joined = own & threads, apart = own & ~threads;
    if (joined != 0)
        at = LLVMBuildXor(l->k->builder, at, gx_i32(l->k, joined), "");
    at = gx_add_natural(l->k, gx_mul_natural(l->k, at, bytes), base);
    return apart == 0 ? at : gx_add_natural(l->k, at, gx_i32(l->k, apart * bits / 8));
}

/* The type that a value of the type has in shared memory. */
static LLVMTypeRef unit_type(TileLower *l, DType t)
{
    return t == DT_PRED ? gx_int_type(l->k, 8) : emit_type(l->k, t);
}

static LLVMValueRef to_unit(TileLower *l, DType t, LLVMValueRef v)
{
    return t == DT_PRED ? LLVMBuildZExt(l->k->builder, v, gx_int_type(l->k, 8), "") : v;
}

static LLVMValueRef from_unit(TileLower *l, DType t, LLVMValueRef v)
{
    return t == DT_PRED ? LLVMBuildTrunc(l->k->builder, v, gx_int_type(l->k, 1), "") : v;
}

void tile_to_shared(TileLower *l, const LLVMValueRef *registers, DType t,
                    const LinearLayout *layout, const LinearLayout *shared,
                    uint32_t vector, LLVMValueRef base, uint32_t start, uint32_t count)
{
    LLVMBuilderRef b = l->k->builder;
    LinearMap offsets = linear_offsets(layout, shared);
    LLVMValueRef thread = place_of_thread(l, layout, &offsets),
                 first = holds_first(l, layout);
    uint32_t lanes = UINT32_C(1) << vector, bits = dtype_info[t].bits, same = 0;
    for (uint32_t i = 0; i < layout->in[LINEAR_REGISTER]; i++)
        same |= layout->columns[i] == 0 ? UINT32_C(1) << i : 0;
    GxIf own;
    emit_if_begin(l->e, &own, first);
    for (uint32_t r = start; r < start + count; r += lanes) {
        if ((r & same) != 0)
            continue;
        LLVMValueRef v = to_unit(l, t, registers[r]);
        if (lanes > 1) {
            v = LLVMGetUndef(LLVMVectorType(unit_type(l, t), lanes));
            for (uint32_t i = 0; i < lanes; i++)
                v = LLVMBuildInsertElement(b, v, to_unit(l, t, registers[r + i]),
                                           gx_i32(l->k, i), "");
        }
        gx_store(l->k, GX_SHARED,
                 shared_offset(l, layout, &offsets, bits, thread, r, base), v,
                 lanes * bits / 8);
    }
    emit_if_end(l->e, &own, NULL, 0, NULL);
}

void tile_from_shared(TileLower *l, DType t, const LinearLayout *layout,
                      const LinearLayout *shared, uint32_t vector, LLVMValueRef base,
                      uint32_t first, uint32_t count, LLVMValueRef *registers)
{
    LLVMBuilderRef b = l->k->builder;
    LinearMap offsets = linear_offsets(layout, shared);
    LLVMValueRef thread = place_of_thread(l, layout, &offsets);
    uint32_t lanes = UINT32_C(1) << vector, bits = dtype_info[t].bits;
    LLVMTypeRef type = unit_type(l, t);
    type = lanes > 1 ? LLVMVectorType(type, lanes) : type;
    for (uint32_t r = first; r < first + count; r += lanes) {
        LLVMValueRef at = shared_offset(l, layout, &offsets, bits, thread, r, base);
        LLVMValueRef v = gx_load(l->k, GX_SHARED, at, type, lanes * bits / 8);
        for (uint32_t i = 0; i < lanes; i++) {
            LLVMValueRef one =
                lanes > 1 ? LLVMBuildExtractElement(b, v, gx_i32(l->k, i), "") : v;
            registers[r - first + i] = from_unit(l, t, one);
        }
    }
}
