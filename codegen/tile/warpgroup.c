/* Products of a stage by wgmma: each four warps that follow each other along the rows multiply 64 of them after the other by
 * their columns. See lower.h. */
#include <string.h>

#include "codegen/tile/lower.h"
#include "ir/base/bug.h"

enum { PIECE_BYTES = 16, NUMBER_BYTES = 2 };

/* Bytes of coordinate `first` (i32, a multiple of `step`) along the side of a factor whose rows lie along it: four warps begin
 * a column of rows, as each has 64 numbers along either side or all of them. */
static LLVMValueRef along_lines(TileLower *l, const GxMatrices *x, LLVMValueRef first,
                                uint32_t step)
{
    uint32_t numbers = x->line / NUMBER_BYTES;
    if (step % numbers != 0)
        bug("kernel %s: wgmma begins within a row of %u bytes", l->k->name, x->line);
    LLVMValueRef column = LLVMBuildUDiv(l->k->builder, first, gx_i32(l->k, numbers), "");
    return gx_mul_natural(l->k, column, gx_i32(l->k, x->lead));
}

/* The factor's matrices from coordinate `first` (i32, a multiple of `step`, a power of two from 8 on) of its side on. */
static GxMatrices matrices_from(TileLower *l, const TileSide *s, uint32_t side,
                                LLVMValueRef first, uint32_t step)
{
    const TileDim *dims = l->p->dims;
    const TileFactor *f = s->factor;
    bool is_transposed = f->is_transposed;
    int64_t slow = dims[is_transposed ? l->m->term : side].size;
    uint32_t line = f->line != 0 ? f->line : PIECE_BYTES,
             far = (uint32_t)slow * line; /* to the next column of rows */
    GxMatrices x = {.lead = far,
                    .stride = line * WARPGROUP_PIECE,
                    .line = f->line,
                    .is_transposed = is_transposed};
    LLVMValueRef bytes;
    if (is_transposed && f->line == 0) {
        x.lead = x.stride;
        x.stride = far;
    }
    if (is_transposed && f->line != 0)
        bytes = along_lines(l, &x, first, step);
    else
        bytes = gx_mul_natural(l->k, first, gx_i32(l->k, x.stride / WARPGROUP_PIECE));
    x.offset = gx_add_natural(l->k, s->base, bytes);
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

/* How many coordinates along `dim` the tile has from `first` (i32) on, at most so many as there are; NULL: all. Where
 * tiles belong to groups the last one of each is short. */
static LLVMValueRef coordinates_left(TileLower *l, uint32_t dim, LLVMValueRef first)
{
    LLVMBuilderRef b = l->k->builder;
    if (!tile_is_grouped(l->p, dim))
        return NULL;
    LLVMValueRef all = LLVMBuildSub(b, l->groups[GROUP_END], l->groups[GROUP_FIRST], "");
    return LLVMBuildSub(b, all, first, "");
}

typedef struct WarpgroupProduct {
    TileLower *l;
    DType type;
    const GxMatrices *left; /* of each piece of 64 rows */
    GxMatrices right;
    LLVMValueRef *rows; /* i1: some of a piece's are there; NULL: all */
    uint32_t times, columns, steps;
    bool goes_on;
} WarpgroupProduct;

/* All pieces by the first so many columns. */
static void multiply_columns(const WarpgroupProduct *p, uint32_t columns,
                             LLVMValueRef *sums)
{
    TileLower *l = p->l;
    for (uint32_t i = 0; i < p->times; i++) {
        LLVMValueRef *own = &sums[i * p->columns / 2],
                     *before = arena_copy(l->k->arena, own, columns / 2 * sizeof *own);
        GxIf some;
        emit_if_begin(l->e, &some, p->rows != NULL ? p->rows[i] : NULL);
        if (p->goes_on)
            gx_wgmma_begin(l->k, p->type, columns, p->steps, &p->left[i], &p->right,
                           i * p->columns / 2, own);
        else
            gx_wgmma(l->k, p->type, columns, p->steps, &p->left[i], &p->right, own);
        emit_if_end_or(l->e, &some, own, before, columns / 2);
    }
}

/* Of a tile that is short along the columns as few as are there: each number has its own instruction. */
static void multiply_left(const WarpgroupProduct *p, LLVMValueRef left,
                          LLVMValueRef *sums)
{
    TileLower *l = p->l;
    LLVMBuilderRef b = l->k->builder;
    uint32_t step = tile_warpgroup_step(l->m, l->m->column),
             all = p->times * p->columns / 2;
    for (uint32_t n = step; n <= p->columns; n += step) {
        LLVMValueRef *before = arena_copy(l->k->arena, sums, all * sizeof *sums),
                     is_more =
                         LLVMBuildICmp(b, LLVMIntSGT, left, gx_i32(l->k, n - step), ""),
                     is_enough = LLVMBuildICmp(b, LLVMIntSLE, left, gx_i32(l->k, n), "");
        GxIf own;
        emit_if_begin(l->e, &own,
                      n == p->columns ? is_more
                                      : LLVMBuildAnd(b, is_more, is_enough, ""));
        multiply_columns(p, n, sums);
        emit_if_end_or(l->e, &own, sums, before, all);
    }
}

static void multiply_sides(TileLower *l, const TileSide sides[2], bool goes_on,
                           LLVMValueRef *sums)
{
    const TileMapping *m = l->m;
    LLVMBuilderRef b = l->k->builder;
    const TileDim *dims = l->p->dims;
    WarpgroupProduct p = {.l = l,
                          .type = m->factors[0].value->dtype,
                          .goes_on = goes_on,
                          .times = tile_warpgroup_times(m),
                          .columns = (uint32_t)dims[m->column].size / m->warps[1],
                          .steps = (uint32_t)dims[m->term].size / WARPGROUP_TERMS};
    LLVMValueRef row_warp = LLVMBuildURem(b, l->warp, gx_i32(l->k, m->warps[0]), ""),
                 group = LLVMBuildLShr(b, row_warp, gx_i32(l->k, WARPGROUP_LOG2), ""),
                 side = LLVMBuildUDiv(b, l->warp, gx_i32(l->k, m->warps[0]), "");
    side = gx_mul_natural(l->k, side, gx_i32(l->k, p.columns));
    p.right = matrices_from(l, &sides[1], m->column, side, p.columns);
    group = gx_mul_natural(l->k, group, gx_i32(l->k, p.times * WARPGROUP_ROWS));
    GxMatrices *left = ARENA_ARRAY(l->k->arena, GxMatrices, p.times);
    l->k->at = m->dot->inst->name;
    for (uint32_t i = 0; i < p.times; i++) {
        LLVMValueRef first =
                         gx_add_natural(l->k, group, gx_i32(l->k, i * WARPGROUP_ROWS)),
                     some = coordinates_left(l, m->row, first);
        left[i] = sides[0].words != NULL
                      ? words_of(l, &sides[0], p.steps, p.times, i)
                      : matrices_from(l, &sides[0], m->row, first, WARPGROUP_ROWS);
        if (some == NULL)
            continue;
        if (p.rows == NULL)
            p.rows = ARENA_ARRAY(l->k->arena, LLVMValueRef, p.times);
        p.rows[i] = LLVMBuildICmp(b, LLVMIntSGT, some, gx_i32(l->k, 0), "");
    }
    p.left = left;
    LLVMValueRef columns = coordinates_left(l, m->column, side);
    if (columns != NULL)
        multiply_left(&p, columns, sums);
    else
        multiply_columns(&p, p.columns, sums);
}

void tile_multiply_warpgroup(TileLower *l, const TileSide sides[2], LLVMValueRef *sums)
{
    multiply_sides(l, sides, false, sums);
}

void tile_begin_warpgroup(TileLower *l, const TileSide sides[2], LLVMValueRef *sums)
{
    multiply_sides(l, sides, true, sums);
}

void tile_wait_warpgroup(TileLower *l, uint32_t steps, LLVMValueRef *sums)
{
    l->k->at = l->m->dot->inst->name;
    gx_wgmma_wait(l->k, steps * tile_warpgroup_times(l->m),
                  UINT32_C(1) << l->m->partial.in[LINEAR_REGISTER], sums);
}
