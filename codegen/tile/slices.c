/* Slices: groups of warps that each sum a part of a tile's terms. Behind the loop they give what they have to each
 * other through shared memory, and every slice adds up its own part of the registers, in the order of the slices. See
 * lower.h. */
#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

enum { MOST_BYTES = 16 /* of an access */ };

typedef struct Slices {
    TileLower *l;
    uint32_t warps;           /* of a slice */
    uint32_t registers, each; /* of a thread in the loop; of them, behind it */
    uint32_t vector, bytes;   /* registers of an access; bytes of a value */
    LLVMTypeRef type;         /* of an access */
    LLVMValueRef slice;       /* the thread's */
} Slices;

/* Where registers [0, vector) of a warp lie, by its number; those of other ones follow in rows of all lanes. */
static LLVMValueRef offset_of_warp(const Slices *s, LLVMValueRef warp)
{
    Kernel *k = s->l->k;
    LLVMValueRef at =
        gx_mul_natural(k, warp, gx_i32(k, s->registers * TARGET_WARP * s->bytes));
    LLVMValueRef lane = gx_mul_natural(k, s->l->lane, gx_i32(k, s->vector * s->bytes));
    at = gx_add_natural(k, at, lane);
    return gx_add_natural(k, at, gx_i32(k, s->l->shared));
}

static void give_all(const Slices *s, const LLVMValueRef *partial)
{
    Kernel *k = s->l->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef offset = offset_of_warp(s, s->l->warp);
    for (uint32_t r = 0; r < s->registers; r += s->vector) {
        LLVMValueRef v = partial[r];
        if (s->vector > 1)
            v = LLVMGetUndef(s->type);
        for (uint32_t i = 0; i < s->vector && s->vector > 1; i++)
            v = LLVMBuildInsertElement(b, v, partial[r + i], gx_i32(k, i), "");
        LLVMValueRef at =
            gx_add_natural(k, offset, gx_i32(k, r * TARGET_WARP * s->bytes));
        gx_store(k, GX_SHARED, at, v, s->vector * s->bytes);
    }
}

static void add_part(const Slices *s, LLVMValueRef offset, bool is_first,
                     LLVMValueRef *sums)
{
    Kernel *k = s->l->k;
    LLVMBuilderRef b = k->builder;
    bool is_float = dtype_is_float(s->l->m->dot->dtype);
    for (uint32_t r = 0; r < s->each; r++) {
        LLVMValueRef at = gx_add_natural(
            k, offset, gx_i32(k, r / s->vector * s->vector * TARGET_WARP * s->bytes));
        if (r % s->vector != 0)
            continue;
        LLVMValueRef v = gx_load(k, GX_SHARED, at, s->type, s->vector * s->bytes);
        for (uint32_t i = 0; i < s->vector; i++) {
            LLVMValueRef x =
                s->vector > 1 ? LLVMBuildExtractElement(b, v, gx_i32(k, i), "") : v;
            sums[r + i] = is_first   ? x
                          : is_float ? gx_float_op(k, LLVMFAdd, sums[r + i], x)
                                     : LLVMBuildAdd(b, sums[r + i], x, "");
        }
    }
}

LLVMValueRef *tile_add_slices(TileLower *l, LLVMValueRef *partial)
{
    const TileMapping *m = l->m;
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    DType t = m->dot->dtype;
    if (m->slices == 1)
        return partial;
    Slices s = {.l = l,
                .warps = m->warps[0] * m->warps[1],
                .registers = UINT32_C(1) << m->partial.in[LINEAR_REGISTER],
                .each = UINT32_C(1) << m->sums.in[LINEAR_REGISTER],
                .bytes = dtype_info[t].bits / 8};
    s.vector = s.each * s.bytes < MOST_BYTES ? s.each : MOST_BYTES / s.bytes;
    s.type = emit_type(k, t);
    s.type = s.vector > 1 ? LLVMVectorType(s.type, s.vector) : s.type;
    s.slice = LLVMBuildUDiv(b, l->warp, gx_i32(k, s.warps), "");
    gx_barrier(k); /* the stages' fragments are read */
    give_all(&s, partial);
    gx_barrier(k);
    LLVMValueRef *sums = ARENA_ARRAY(k->arena, LLVMValueRef, s.each);
    LLVMValueRef own = LLVMBuildMul(b, s.slice, gx_i32(k, s.each * TARGET_WARP * s.bytes),
                                    ""),
                 warp = LLVMBuildURem(b, l->warp, gx_i32(k, s.warps), "");
    for (uint32_t i = 0; i < m->slices; i++) {
        LLVMValueRef from = gx_add_natural(k, warp, gx_i32(k, i * s.warps));
        LLVMValueRef offset = gx_add_natural(k, offset_of_warp(&s, from), own);
        add_part(&s, offset, i == 0, sums);
    }
    return sums;
}
