/* Tiles on their way through shared memory. See lower.h. */
#include "codegen/tile/lower.h"

SharedOffsets shared_offsets(TileLower *l, const LinearLayout *layout,
                             const LinearLayout *shared, DType t, LLVMValueRef base)
{
    SharedOffsets p = {.registers = layout->in[LINEAR_REGISTER],
                       .bytes = dtype_info[t].bits / 8,
                       .offsets = linear_offsets(layout, shared)};
    uint32_t own = 0;
    for (uint32_t i = 0; i < p.offsets.in_bits; i++) {
        p.offsets.columns[i] *= p.bytes;
        *(i < p.registers ? &own : &p.joined) |= p.offsets.columns[i];
    }
    p.at = offset_of_thread(l, layout, &p.offsets);
    if ((own & p.joined) < TILE_SHARED_ALIGN)
        p.at = gx_add_natural(l->k, p.at, base);
    else
        p.base = base;
    return p;
}

void shared_step(TileLower *l, SharedOffsets *p, uint32_t bits, LLVMValueRef step)
{
    LinearMap joined = p->offsets, apart = p->offsets;
    for (uint32_t i = p->registers - bits; i < p->registers; i++) {
        joined.columns[i] &= p->joined;
        apart.columns[i] &= ~p->joined;
    }
    p->at = offset_of_bits(l, &joined, p->registers - bits, bits, step, p->at);
    p->apart = offset_of_bits(l, &apart, p->registers - bits, bits, step, NULL);
}

LLVMValueRef shared_offset(TileLower *l, const SharedOffsets *p, uint32_t r)
{
    uint32_t own = map_apply(&p->offsets, r), joined = own & p->joined,
             apart = own & ~p->joined;
    LLVMValueRef at = p->at;
    if (joined != 0)
        at = LLVMBuildXor(l->k->builder, at, gx_i32(l->k, joined), "");
    if (p->base != NULL)
        at = gx_add_natural(l->k, at, p->base);
    if (p->apart != NULL)
        at = gx_add_natural(l->k, at, p->apart);
    return apart == 0 ? at : gx_add_natural(l->k, at, gx_i32(l->k, apart));
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
    SharedOffsets offsets = shared_offsets(l, layout, shared, t, base);
    LLVMValueRef first = holds_first(l, layout);
    uint32_t lanes = UINT32_C(1) << vector, same = 0;
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
        gx_store(l->k, GX_SHARED, shared_offset(l, &offsets, r), v,
                 lanes * offsets.bytes);
    }
    emit_if_end(l->e, &own, NULL, 0, NULL);
}

void tile_from_shared(TileLower *l, DType t, const SharedOffsets *offsets,
                      uint32_t vector, uint32_t first, uint32_t count,
                      LLVMValueRef *registers)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t lanes = UINT32_C(1) << vector;
    LLVMTypeRef type = unit_type(l, t);
    type = lanes > 1 ? LLVMVectorType(type, lanes) : type;
    for (uint32_t r = first; r < first + count; r += lanes) {
        LLVMValueRef at = shared_offset(l, offsets, r);
        LLVMValueRef v = gx_load(l->k, GX_SHARED, at, type, lanes * offsets->bytes);
        for (uint32_t i = 0; i < lanes; i++) {
            LLVMValueRef one =
                lanes > 1 ? LLVMBuildExtractElement(b, v, gx_i32(l->k, i), "") : v;
            registers[r - first + i] = from_unit(l, t, one);
        }
    }
}
