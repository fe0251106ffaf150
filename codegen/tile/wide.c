/* Products of a stage by wgmma: each four warps that follow each other along the rows multiply 64 of them after the other by
 * their columns. See lower.h. */
#include <string.h>

#include "codegen/tile/lower.h"

enum { MATRIX_BYTES = 128 };

/* The factor's matrices from coordinate `first` (i32, a multiple of 8) of its side on. */
static GxMatrices matrices_from(TileLower *l, const TileSide *s, uint32_t side,
                                LLVMValueRef first)
{
    const TileDim *dims = l->p->dims;
    bool is_transposed = s->factor->is_transposed;
    /* the matrices that follow each other along what is not fast lie side by side */
    int64_t slow = dims[is_transposed ? l->m->term : side].size;
    uint32_t far = (uint32_t)(slow / WARPGROUP_PIECE * MATRIX_BYTES);
    GxMatrices x = {.lead = is_transposed ? MATRIX_BYTES : far,
                    .stride = is_transposed ? far : MATRIX_BYTES,
                    .is_transposed = is_transposed};
    x.offset = gx_add_natural(
        l->k, s->base,
        gx_mul_natural(l->k, first, gx_i32(l->k, x.stride / WARPGROUP_PIECE)));
    return x;
}

/* Of `times` pieces of 64 rows the words of the one with this number, which are mixed with the others' step by step. */
static GxMatrices words_of(TileLower *l, const TileSide *s, uint32_t steps,
                           uint32_t times, uint32_t number)
{
    LLVMValueRef *words =
        ARENA_ARRAY(l->k->arena, LLVMValueRef, (size_t)steps * GX_WGMMA_WORDS);
    for (uint32_t i = 0; i < steps; i++)
        memcpy(&words[i * GX_WGMMA_WORDS],
               &s->words[(i * times + number) * GX_WGMMA_WORDS],
               GX_WGMMA_WORDS * sizeof *words);
    return (GxMatrices){.words = words};
}

void tile_multiply_wide(TileLower *l, const TileSide sides[2], LLVMValueRef *sums)
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
    GxMatrices right = matrices_from(l, &sides[1], m->column,
                                     gx_mul_natural(l->k, side, gx_i32(l->k, columns)));
    group = gx_mul_natural(l->k, group, gx_i32(l->k, times * WARPGROUP_ROWS));
    l->k->at = m->dot->inst->name;
    for (uint32_t i = 0; i < times; i++) {
        LLVMValueRef first =
            gx_add_natural(l->k, group, gx_i32(l->k, i * WARPGROUP_ROWS));
        GxMatrices left = sides[0].words != NULL
                              ? words_of(l, &sides[0], steps, times, i)
                              : matrices_from(l, &sides[0], m->row, first);
        gx_wgmma(l->k, m->factors[0].value->dtype, columns, steps, &left, &right,
                 &sums[i * columns / 2]);
    }
}
