/* Stages of shared memory: bringing tiles of factors there, ahead of their use. See lower.h. */
#include "codegen/tile/lower.h"

static bool some_factor(const TileFill *f, bool is_copied)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->factors[i]->is_copied == is_copied)
            return true;
    }
    return false;
}

bool fill_copies(const TileFill *f)
{
    return some_factor(f, true);
}

LLVMValueRef factor_base(TileLower *l, const TileFactor *f, LLVMValueRef stage)
{
    return gx_add_natural(l->k, stage, gx_i32(l->k, l->shared + (uint32_t)f->offset));
}

void fill_begin(TileLower *l, const TileFill *f, const IndexExpr *tile,
                LLVMValueRef stage, LLVMValueRef condition)
{
    l->tile[f->dim] = tile;
    tile_forget(l);
    if (fill_copies(f)) {
        GxIf more;
        struct LoweredTile *before = l->memo;
        emit_if_begin(l->e, &more, condition);
        for (uint32_t i = 0; i < f->count; i++) {
            if (f->factors[i]->is_copied)
                factor_copy(l, f->factors[i], factor_base(l, f->factors[i], stage));
        }
        emit_if_end(l->e, &more, NULL, 0, NULL);
        if (condition != NULL)
            l->memo = before; /* what an index reads was made there, and is there only */
        gx_copy_commit(l->k);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        if (!f->factors[i]->is_copied)
            tile_load_ahead(l, f->factors[i]->value, &f->factors[i]->copy, condition);
    }
}

void fill_end(TileLower *l, const TileFill *f, const IndexExpr *tile, LLVMValueRef stage,
              LLVMValueRef condition)
{
    if (!some_factor(f, false))
        return;
    GxIf more;
    l->tile[f->dim] = tile;
    emit_if_begin(l->e, &more, condition);
    for (uint32_t i = 0; i < f->count; i++) {
        const TileFactor *x = f->factors[i];
        if (x->is_copied)
            continue;
        LLVMValueRef *values = factor_values(l, x);
        tile_to_shared(l, values, x->value->dtype, &x->copy, &x->shared, x->vector,
                       factor_base(l, x, stage), 0,
                       UINT32_C(1) << x->copy.in[LINEAR_REGISTER]);
    }
    emit_if_end(l->e, &more, NULL, 0, NULL);
    tile_forget(l);
}
