/* Coordinates of registers. A layout's coordinates are a part that the thread has, which is computed once, and
 * one of the register, which is a constant: their bits are different ones. See lower.h. */
#include <string.h>

#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

LLVMValueRef offset_of_bits(TileLower *l, const LinearMap *map, uint32_t first,
                            uint32_t count, LLVMValueRef number, LLVMValueRef sum)
{
    LLVMBuilderRef b = l->k->builder;
    for (uint32_t i = 0; i < count;) {
        uint32_t column = map->columns[first + i], run = 1;
        while (i + run < count && column != 0 &&
               (uint64_t)column << run == map->columns[first + i + run])
            run++;
        if (column == 0) {
            i++;
            continue;
        }
        /* columns that double: the bits keep their order */
        LLVMValueRef bits =
            i == 0 ? number : LLVMBuildLShr(b, number, gx_i32(l->k, i), "");
        bits = LLVMBuildAnd(b, bits, gx_i32(l->k, (UINT32_C(1) << run) - 1), "");
        bool is_shift = (column & (column - 1)) == 0;
        if (is_shift) {
            bits = column == 1 ? bits : gx_mul_natural(l->k, bits, gx_i32(l->k, column));
        } else { /* several positions: one bit after the other */
            LLVMValueRef all = gx_i32(l->k, 0);
            for (uint32_t bit = 0; bit < LINEAR_MOST_BITS; bit++) {
                if (column >> bit & 1)
                    all = LLVMBuildXor(b, all,
                                       LLVMBuildShl(b, bits, gx_i32(l->k, bit), ""), "");
            }
            bits = all;
        }
        sum = sum == NULL ? bits : LLVMBuildXor(b, sum, bits, "");
        i += run;
    }
    return sum;
}

LLVMValueRef offset_of_thread(TileLower *l, const LinearLayout *layout,
                              const LinearMap *map)
{
    LLVMValueRef sum = offset_of_bits(l, map, linear_first(layout, LINEAR_LANE),
                                      layout->in[LINEAR_LANE], l->lane, NULL);
    sum = offset_of_bits(l, map, linear_first(layout, LINEAR_WARP),
                         layout->in[LINEAR_WARP], l->warp, sum);
    return sum == NULL ? gx_i32(l->k, 0) : sum;
}

/* The columns' bits along one dimension. */
static LinearMap along_dim(const LinearLayout *layout, uint32_t dim)
{
    LinearMap map = linear_map(layout);
    for (uint32_t i = 0; i < map.in_bits; i++)
        map.columns[i] = linear_coordinate(layout, map.columns[i], dim);
    return map;
}

/* The thread's part of a coordinate: a multiple of what its lowest bit is. */
static const IndexExpr *thread_coordinate(TileLower *l, const LinearLayout *layout,
                                          uint32_t dim)
{
    Emit *e = l->e;
    LinearMap map = along_dim(layout, dim);
    uint32_t all = 0, first = layout->in[LINEAR_REGISTER];
    for (uint32_t i = first; i < map.in_bits; i++)
        all |= map.columns[i];
    if (all == 0)
        return ix_const(e->ix, 0);
    uint32_t unit = all & (0 - all);
    for (uint32_t i = 0; i < map.in_bits; i++)
        map.columns[i] /= i < first ? 1 : unit;
    LLVMValueRef v = to_index(e, offset_of_thread(l, layout, &map));
    return ix_mul(e->ix, emit_variable(e, v, (Range){0, all / unit}), unit);
}

/* Coordinates of a layout that was met before. */
typedef struct KnownCoordinates {
    struct KnownCoordinates *next;
    LinearLayout layout;
    const IndexExpr *dims[TILE_MOST_DIMS];
} KnownCoordinates;

/* They are made where the kernel begins, so that every later use has them. */
static const KnownCoordinates *known_coordinates(TileLower *l, const LinearLayout *layout)
{
    for (KnownCoordinates *known = l->coordinates; known != NULL; known = known->next) {
        if (linear_equal(&known->layout, layout))
            return known;
    }
    KnownCoordinates *known = ARENA_NEW(l->k->arena, KnownCoordinates);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->k->builder);
    LLVMPositionBuilderBefore(l->k->builder, l->entry_end);
    known->layout = *layout;
    for (uint32_t d = 0; d < layout->rank; d++)
        known->dims[d] = thread_coordinate(l, layout, d);
    LLVMPositionBuilderAtEnd(l->k->builder, here);
    known->next = l->coordinates;
    l->coordinates = known;
    return known;
}

const IndexExpr *register_coordinate(TileLower *l, const LinearLayout *layout,
                                     uint32_t dim, uint32_t r)
{
    IndexContext *ix = l->e->ix;
    const IndexExpr *e = ix_mul(ix, l->tile[dim], l->p->dims[dim].size);
    if (!tile_has_coordinate(l->p, dim))
        return e;
    uint32_t own = linear_coordinate(layout, linear_apply(layout, r), dim);
    e = ix_add(ix, e, known_coordinates(l, layout)->dims[dim]);
    return ix_add(ix, e, ix_const(ix, own));
}

/* A RUNTIME of the operation's expressions: the register of the operation that it names. */
static const IndexExpr *runtime_coordinate(TileLower *l, const TileOp *runtime,
                                           const LinearLayout *layout, const Range *range,
                                           uint32_t r)
{
    LinearLayout own = linear_projected(layout, runtime->dims);
    LLVMValueRef v = tile_registers(l, runtime, &own)[r];
    LLVMTypeRef wanted = l->e->index_type;
    if (LLVMGetIntTypeWidth(LLVMTypeOf(v)) < LLVMGetIntTypeWidth(wanted))
        v = LLVMBuildSExt(l->k->builder, v, wanted, "");
    else if (LLVMTypeOf(v) != wanted)
        v = LLVMBuildTrunc(l->k->builder, v, wanted, "");
    return emit_variable(l->e, v, *range);
}

/* Replaces the RUNTIMEs; their ranges stand in the expression. */
static const IndexExpr *with_runtimes(TileLower *l, const TileOp *op,
                                      const IndexExpr *root, const IndexExpr *e,
                                      const LinearLayout *layout, uint32_t r)
{
    if (e->kind == IX_RUNTIME) {
        for (uint32_t i = 0; i < op->operand_count; i++) {
            if (op->operands[i]->id == e->value)
                return ix_replace(
                    l->e->ix, root, IX_RUNTIME, (uint32_t)e->value,
                    runtime_coordinate(l, op->operands[i], layout, &e->range, r));
        }
        return root;
    }
    if (e->a != NULL)
        root = with_runtimes(l, op, root, e->a, layout, r);
    return e->b != NULL ? with_runtimes(l, op, root, e->b, layout, r) : root;
}

const IndexExpr *tile_index(TileLower *l, const TileOp *op, const IndexExpr *expr,
                            const LinearLayout *layout, uint32_t r, uint32_t fast)
{
    IndexContext *ix = l->e->ix;
    const IndexExpr *by[TILE_MOST_DIMS];
    for (uint32_t d = 0; d < l->p->dim_count; d++) {
        by[d] = register_coordinate(l, layout, d, r);
        if (d == fast)
            by[d] = ix_add(ix, by[d], emit_lane(l->e));
    }
    const IndexExpr *e = with_runtimes(l, op, expr, expr, layout, r);
    return ix_substitute(ix, e, IX_DIM, l->p->dim_count, by);
}

static void also(TileLower *l, LLVMValueRef *ok, LLVMValueRef condition)
{
    *ok = *ok == NULL ? condition : LLVMBuildAnd(l->k->builder, *ok, condition, "");
}

LLVMValueRef tile_is_there(TileLower *l, const TileOp *op, const LinearLayout *layout,
                           uint32_t dims, uint32_t r)
{
    LLVMValueRef ok = NULL;
    for (uint32_t d = 0; d < l->p->dim_count; d++) {
        const TileDim *dim = &l->p->dims[d];
        if ((dims >> d & 1) == 0 || dim->extent % dim->size == 0)
            continue;
        const IndexExpr *at = register_coordinate(l, layout, d, r);
        also(l, &ok, emit_in_range(l->e, at, (Range){0, dim->extent - 1}, 0));
    }
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        const IndexExpr *e =
            tile_index(l, op, op->constraints[i].expr, layout, r, UINT32_MAX);
        Range range = op->constraints[i].range;
        if (e->range.lo < range.lo || e->range.hi > range.hi)
            also(l, &ok, emit_in_range(l->e, e, range, 0));
    }
    return ok;
}

LLVMValueRef holds_first(TileLower *l, const LinearLayout *layout)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef numbers[] = {l->lane, l->warp}, ok = NULL;
    static const LinearInput inputs[] = {LINEAR_LANE, LINEAR_WARP};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t first = linear_first(layout, inputs[i]), same = 0;
        for (uint32_t bit = 0; bit < layout->in[inputs[i]]; bit++)
            same |= layout->columns[first + bit] == 0 ? UINT32_C(1) << bit : 0;
        if (same == 0)
            continue;
        LLVMValueRef low = LLVMBuildAnd(b, numbers[i], gx_i32(l->k, same), "");
        also(l, &ok, LLVMBuildICmp(b, LLVMIntEQ, low, gx_i32(l->k, 0), ""));
    }
    return ok;
}
