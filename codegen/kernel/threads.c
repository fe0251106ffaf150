/* See threads.h. */
#include "codegen/kernel/threads.h"

/* A value as numbers that memory and shuffles take: one, or two of a complex number. */
typedef struct Units {
    unsigned count, bytes; /* bytes of each */
    LLVMTypeRef type;
    LLVMValueRef v[2];
} Units;

static Units units_of(Emit *e, DType t)
{
    unsigned bits = dtype_info[t].bits;
    if (t == DT_PRED || bits < 8)
        return (Units){.count = 1, .bytes = 1, .type = gx_int_type(e->k, 8)};
    if (dtype_is_complex(t))
        return (Units){.count = 2,
                       .bytes = bits / 16,
                       .type = emit_type(e->k, t == DT_C64 ? DT_F32 : DT_F64)};
    return (Units){.count = 1, .bytes = bits / 8, .type = emit_type(e->k, t)};
}

static Units to_units(Emit *e, DType t, LLVMValueRef value)
{
    LLVMBuilderRef b = e->k->builder;
    Units u = units_of(e, t);
    u.v[0] = value;
    if (u.count == 2) {
        u.v[0] = LLVMBuildExtractValue(b, value, 0, "");
        u.v[1] = LLVMBuildExtractValue(b, value, 1, "");
    } else if (LLVMTypeOf(value) != u.type) {
        u.v[0] = LLVMBuildZExt(b, value, u.type, "");
    }
    return u;
}

static LLVMValueRef from_units(Emit *e, DType t, const Units *u)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMTypeRef type = emit_type(e->k, t);
    if (u->count == 2) {
        LLVMValueRef v = LLVMGetUndef(type);
        v = LLVMBuildInsertValue(b, v, u->v[0], 0, "");
        return LLVMBuildInsertValue(b, v, u->v[1], 1, "");
    }
    return u->type != type ? LLVMBuildTrunc(b, u->v[0], type, "") : u->v[0];
}

LLVMValueRef element_offset(Emit *e, uint32_t offset, LLVMValueRef index, unsigned bytes)
{
    LLVMValueRef at = gx_mul_natural(e->k, index, gx_i32(e->k, bytes));
    return offset == 0 ? at : gx_add_natural(e->k, at, gx_i32(e->k, offset));
}

static LLVMValueRef second_half(Emit *e, LLVMValueRef offset, unsigned bytes)
{
    return gx_add_natural(e->k, offset, LLVMConstInt(LLVMTypeOf(offset), bytes, 0));
}

void memory_store(Emit *e, uint32_t arg, DType t, LLVMValueRef offset, LLVMValueRef value)
{
    Units u = to_units(e, t, value);
    gx_store(e->k, arg, offset, u.v[0], u.bytes);
    if (u.count == 2)
        gx_store(e->k, arg, second_half(e, offset, u.bytes), u.v[1], u.bytes);
}

LLVMValueRef memory_load(Emit *e, uint32_t arg, DType t, LLVMValueRef offset)
{
    Units u = units_of(e, t);
    u.v[0] = gx_load(e->k, arg, offset, u.type, u.bytes);
    if (u.count == 2)
        u.v[1] = gx_load(e->k, arg, second_half(e, offset, u.bytes), u.type, u.bytes);
    return from_units(e, t, &u);
}

void shared_store(Emit *e, DType t, LLVMValueRef offset, LLVMValueRef value)
{
    memory_store(e, GX_SHARED, t, offset, value);
}

LLVMValueRef shared_load(Emit *e, DType t, LLVMValueRef offset)
{
    return memory_load(e, GX_SHARED, t, offset);
}

static LLVMValueRef shuffle(Emit *e, DType t, LLVMValueRef value, GxShfl mode,
                            LLVMValueRef operand, unsigned width)
{
    Units u = to_units(e, t, value);
    for (unsigned i = 0; i < u.count; i++)
        u.v[i] = gx_shfl(e->k, mode, u.v[i], operand, width);
    return from_units(e, t, &u);
}

LLVMValueRef shuffle_bfly(Emit *e, DType t, LLVMValueRef value, unsigned mask,
                          unsigned width)
{
    return shuffle(e, t, value, GX_SHFL_BFLY, gx_i32(e->k, mask), width);
}

LLVMValueRef shuffle_up(Emit *e, DType t, LLVMValueRef value, unsigned distance,
                        unsigned width)
{
    return shuffle(e, t, value, GX_SHFL_UP, gx_i32(e->k, distance), width);
}

LLVMValueRef shuffle_from(Emit *e, DType t, LLVMValueRef value, LLVMValueRef lane)
{
    return shuffle(e, t, value, GX_SHFL_IDX, lane, TARGET_WARP);
}

LLVMValueRef narrow_peers(Kernel *k, LLVMValueRef peers, LLVMValueRef number,
                          LLVMValueRef bit)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef own = LLVMBuildAnd(b, number, bit, "");
    LLVMValueRef is_set = LLVMBuildICmp(b, LLVMIntNE, own, gx_i32(k, 0), "");
    LLVMValueRef votes = gx_ballot(k, is_set);
    LLVMValueRef same = LLVMBuildSelect(b, is_set, votes, LLVMBuildNot(b, votes, ""), "");
    return LLVMBuildAnd(b, peers, same, "");
}

LLVMValueRef block_votes(Kernel *k, LLVMValueRef vote, LLVMValueRef shared)
{
    enum { WORD = 4 };
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i32 = gx_int_type(k, 32);
    LLVMValueRef tid = gx_tid(k, 0), zero = gx_i32(k, 0), any = zero,
                 votes = gx_ballot(k, vote),
                 lane = LLVMBuildAnd(b, tid, gx_i32(k, TARGET_WARP - 1), ""),
                 warp = LLVMBuildUDiv(b, tid, gx_i32(k, TARGET_WARP), "");
    GxIf first;
    gx_barrier(k); /* what was there has been read */
    gx_if_begin(k, &first, LLVMBuildICmp(b, LLVMIntEQ, lane, zero, ""));
    LLVMValueRef own = gx_mul_natural(k, warp, gx_i32(k, WORD));
    gx_store(k, GX_SHARED, gx_add_natural(k, shared, own), votes, WORD);
    gx_if_end(k, &first, NULL, 0, NULL);
    gx_barrier(k);
    for (uint32_t i = 0; i < k->block[0] / TARGET_WARP; i++) {
        LLVMValueRef at = gx_add_natural(k, shared, gx_i32(k, i * WORD));
        any = LLVMBuildOr(b, any, gx_load(k, GX_SHARED, at, i32, WORD), "");
    }
    gx_barrier(k);
    return LLVMBuildICmp(b, LLVMIntNE, any, zero, "");
}

void value_to_words(Emit *e, DType t, LLVMValueRef value, LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    Units u = to_units(e, t, value);
    LLVMTypeRef i32 = gx_int_type(e->k, 32);
    for (unsigned i = 0; i < u.count; i++) {
        LLVMValueRef bits =
            LLVMBuildBitCast(b, u.v[i], gx_int_type(e->k, 8 * u.bytes), "");
        if (u.bytes <= 4) {
            *out++ = LLVMBuildZExt(b, bits, i32, "");
            continue;
        }
        *out++ = LLVMBuildTrunc(b, bits, i32, "");
        *out++ = LLVMBuildTrunc(b, LLVMBuildLShr(b, bits, gx_i64(e->k, 32), ""), i32, "");
    }
}

LLVMValueRef value_from_words(Emit *e, DType t, const LLVMValueRef *words)
{
    LLVMBuilderRef b = e->k->builder;
    Units u = units_of(e, t);
    LLVMTypeRef i64 = gx_int_type(e->k, 64), exact = gx_int_type(e->k, 8 * u.bytes);
    for (unsigned i = 0; i < u.count; i++) {
        LLVMValueRef bits = *words++;
        if (u.bytes <= 4) {
            bits = LLVMBuildTrunc(b, bits, exact, "");
        } else {
            LLVMValueRef high = LLVMBuildZExt(b, *words++, i64, "");
            high = LLVMBuildShl(b, high, gx_i64(e->k, 32), "");
            bits = LLVMBuildOr(b, high, LLVMBuildZExt(b, bits, i64, ""), "");
        }
        u.v[i] = LLVMBuildBitCast(b, bits, u.type, "");
    }
    return from_units(e, t, &u);
}

LLVMValueRef to_index(Emit *e, LLVMValueRef value)
{
    return LLVMTypeOf(value) == e->index_type
               ? value
               : LLVMBuildZExt(e->k->builder, value, e->index_type, "");
}
