/* Products of a stage by wgmma: each four warps that follow each other along the rows multiply 64 of them after the other by
 * their columns. See lower.h. */
#include "codegen/tile/lower.h"

enum { MATRIX_BYTES = 128 };

/* The factor's matrices from coordinate `first` (i32, a multiple of 8) of its side on. */
static GxMatrices matrices_from(TileLower *l, const TileFactor *f, uint32_t side,
                                LLVMValueRef stage, LLVMValueRef first)
{
    const TileDim *dims = l->p->dims;
    /* the matrices that follow each other along what is not fast lie side by side */
    int64_t slow = dims[f->is_transposed ? l->m->term : side].size;
    uint32_t far = (uint32_t)(slow / WARPGROUP_PIECE * MATRIX_BYTES);
    GxMatrices x = {.lead = f->is_transposed ? MATRIX_BYTES : far,
                    .stride = f->is_transposed ? far : MATRIX_BYTES,
                    .is_transposed = f->is_transposed};
    x.offset = gx_add_natural(
        l->k, factor_base(l, f, stage),
        gx_mul_natural(l->k, first, gx_i32(l->k, x.stride / WARPGROUP_PIECE)));
    return x;
}

void tile_multiply_wide(TileLower *l, LLVMValueRef stage, LLVMValueRef *sums)
{
    const TileMapping *m = l->m;
    LLVMBuilderRef b = l->k->builder;
    const TileDim *dims = l->p->dims;
    uint32_t columns = (uint32_t)dims[m->column].size / m->warps[1],
             groups = m->warps[0] >> WARPGROUP_LOG2,
             times = (uint32_t)dims[m->row].size / WARPGROUP_ROWS / groups,
             steps = (uint32_t)dims[m->term].size / WARPGROUP_TERMS;
    LLVMValueRef row_warp = LLVMBuildURem(b, l->warp, gx_i32(l->k, m->warps[0]), ""),
                 group = LLVMBuildLShr(b, row_warp, gx_i32(l->k, WARPGROUP_LOG2), ""),
                 side = LLVMBuildUDiv(b, l->warp, gx_i32(l->k, m->warps[0]), "");
    GxMatrices right = matrices_from(l, &m->factors[1], m->column, stage,
                                     gx_mul_natural(l->k, side, gx_i32(l->k, columns)));
    group = gx_mul_natural(l->k, group, gx_i32(l->k, times * WARPGROUP_ROWS));
    l->k->at = m->dot->inst->name;
    for (uint32_t i = 0; i < times; i++) {
        LLVMValueRef first =
            gx_add_natural(l->k, group, gx_i32(l->k, i * WARPGROUP_ROWS));
        GxMatrices left = matrices_from(l, &m->factors[0], m->row, stage, first);
        gx_wgmma(l->k, m->factors[0].value->dtype, columns, steps, &left, &right,
                 &sums[i * columns / 2]);
    }
}
