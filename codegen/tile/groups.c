/* Which group the block's tile belongs to, by the sizes of groups in memory: each warp looks at 32 groups at once,
 * adds up their sizes and tiles by shuffles and takes those of the group that has the tile. See lower.h. */
#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

typedef struct Search {
    TileLower *l;
    const TileOp *op;
    LLVMValueRef tile;                   /* i32 */
    LLVMValueRef values[GROUP_USED + 1]; /* i32 */
    LLVMValueRef start,
        before; /* of the next 32: coordinates and tiles that come before */
} Search;

static LLVMValueRef i32(const Search *s, int64_t value)
{
    return gx_i32(s->l->k, (uint32_t)value);
}

static LLVMValueRef least(const Search *s, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = s->l->k->builder;
    LLVMValueRef is_less = LLVMBuildICmp(builder, LLVMIntSLT, a, b, "");
    return LLVMBuildSelect(builder, is_less, a, b, "");
}

/* The lane's value and those of all lanes before, together `most` at most. */
static LLVMValueRef sum_of_lanes(const Search *s, LLVMValueRef v, int64_t most)
{
    LLVMBuilderRef b = s->l->k->builder;
    for (int64_t step = 1; step < TARGET_WARP; step *= 2) {
        LLVMValueRef other = gx_shfl(s->l->k, GX_SHFL_UP, v, i32(s, step), TARGET_WARP);
        LLVMValueRef has = LLVMBuildICmp(b, LLVMIntSGE, s->l->lane, i32(s, step), "");
        other = LLVMBuildSelect(b, has, other, i32(s, 0), "");
        v = least(s, LLVMBuildAdd(b, v, other, ""), i32(s, most));
    }
    return v;
}

/* The size of group `group`, within what there is; 0 behind the last one. */
static LLVMValueRef size_of(const Search *s, LLVMValueRef group)
{
    TileLower *l = s->l;
    LLVMBuilderRef b = l->k->builder;
    int64_t groups = s->op->shape->dims[0];
    DType t = s->op->shape->dtype;
    LLVMTypeRef i64 = gx_int_type(l->k, 64);
    LLVMValueRef is_one = LLVMBuildICmp(b, LLVMIntSLT, group, i32(s, groups), ""), size,
                 none = LLVMConstNull(emit_type(l->k, t));
    GxIf inside;
    emit_if_begin(l->e, &inside, is_one);
    const IndexExpr *at =
        emit_variable(l->e, to_index(l->e, group), (Range){0, groups - 1});
    emit_load(l->e, s->op->array, s->op->shape, &at, &size);
    emit_if_end_or(l->e, &inside, &size, &none, 1);
    size = LLVMBuildIntCast2(b, size, i64, dtype_is_signed(t), "");
    LLVMValueRef lowest = gx_i64(l->k, 0), highest = gx_i64(l->k, (uint64_t)s->op->among);
    LLVMValueRef is_low = LLVMBuildICmp(b, LLVMIntSLT, size, lowest, "");
    size = LLVMBuildSelect(b, is_low, lowest, size, "");
    LLVMValueRef is_high = LLVMBuildICmp(b, LLVMIntSGT, size, highest, "");
    size = LLVMBuildSelect(b, is_high, highest, size, "");
    return LLVMBuildTrunc(b, size, gx_int_type(l->k, 32), "");
}

static LLVMValueRef tiles_of(const Search *s, LLVMValueRef size)
{
    LLVMBuilderRef b = s->l->k->builder;
    if (s->op->rows == 0)
        return i32(s, 1);
    size = LLVMBuildAdd(b, size, i32(s, s->op->rows - 1), "");
    return LLVMBuildUDiv(b, size, i32(s, s->op->rows), "");
}

/* Where the 32 groups from `first` on lie; if one of them has the tile, it is taken. */
static void search_warp(Search *s, LLVMValueRef first)
{
    TileLower *l = s->l;
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef all = i32(s, s->op->among), group = LLVMBuildAdd(b, first, l->lane, ""),
                 size = size_of(s, group);
    LLVMValueRef end = sum_of_lanes(s, size, s->op->among);
    end = least(s, LLVMBuildAdd(b, end, s->start, ""), all);
    LLVMValueRef start = gx_shfl(l->k, GX_SHFL_UP, end, i32(s, 1), TARGET_WARP);
    LLVMValueRef is_lowest = LLVMBuildICmp(b, LLVMIntEQ, l->lane, i32(s, 0), "");
    start = LLVMBuildSelect(b, is_lowest, s->start, start, "");
    LLVMValueRef tiles = tiles_of(s, LLVMBuildSub(b, end, start, "")),
                 behind =
                     LLVMBuildAdd(b, sum_of_lanes(s, tiles, INT32_MAX), s->before, "");
    LLVMValueRef inside =
        LLVMBuildSub(b, s->tile, LLVMBuildSub(b, behind, tiles, ""), "");
    LLVMValueRef has = LLVMBuildICmp(b, LLVMIntULT, inside, tiles, ""),
                 is_one = LLVMBuildICmp(b, LLVMIntSLT, group,
                                        i32(s, s->op->shape->dims[0]), "");
    LLVMValueRef lanes = gx_ballot(l->k, LLVMBuildAnd(b, has, is_one, ""));
    LLVMValueRef found = LLVMBuildICmp(b, LLVMIntNE, lanes, i32(s, 0), "");
    LLVMValueRef args[] = {lanes, LLVMConstInt(gx_int_type(l->k, 1), 0, 0)};
    LLVMValueRef lane = gx_intrinsic(l->k, "cttz", args, 2);
    inside = LLVMBuildMul(b, inside, i32(s, s->op->rows), "");
    LLVMValueRef own[] = {group, LLVMBuildAdd(b, start, inside, ""), end};
    for (uint32_t i = 0; i < 3; i++) {
        own[i] = gx_shfl(l->k, GX_SHFL_IDX, own[i], lane, TARGET_WARP);
        s->values[i] = LLVMBuildSelect(b, found, own[i], s->values[i], "");
    }
    LLVMValueRef is_used =
        LLVMBuildICmp(b, LLVMIntSLT, own[GROUP_FIRST], own[GROUP_END], "");
    is_used = LLVMBuildZExt(b, is_used, gx_int_type(l->k, 32), "");
    s->values[GROUP_USED] = LLVMBuildSelect(b, found, is_used, s->values[GROUP_USED], "");
    s->start = gx_shfl(l->k, GX_SHFL_IDX, end, i32(s, TARGET_WARP - 1), TARGET_WARP);
    s->before = gx_shfl(l->k, GX_SHFL_IDX, behind, i32(s, TARGET_WARP - 1), TARGET_WARP);
}

/* The tile of none: behind all groups. */
static void take_none(Search *s)
{
    LLVMBuilderRef b = s->l->k->builder;
    LLVMValueRef is_none =
        LLVMBuildICmp(b, LLVMIntSLT, s->values[GROUP_NUMBER], i32(s, 0), "");
    LLVMValueRef inside = LLVMBuildSub(b, s->tile, s->before, "");
    inside = LLVMBuildMul(b, inside, i32(s, s->op->rows), "");
    LLVMValueRef first = LLVMBuildAdd(b, s->start, inside, "");
    first = least(s, first, i32(s, s->op->among));
    LLVMValueRef none[] = {i32(s, s->op->shape->dims[0] - 1), first, i32(s, s->op->among),
                           i32(s, 0)};
    for (uint32_t i = 0; i <= GROUP_USED; i++)
        s->values[i] = LLVMBuildSelect(b, is_none, none[i], s->values[i], "");
}

static void search(Search *s)
{
    TileLower *l = s->l;
    int64_t groups = s->op->shape->dims[0];
    enum { CARRIED = GROUP_USED + 3 };
    LLVMValueRef carried[CARRIED];
    for (uint32_t i = 0; i < CARRIED; i++)
        carried[i] = i32(s, i == GROUP_NUMBER ? -1 : 0);
    GxLoop loop;
    gx_loop_begin(l->k, &loop, i32(s, 0), i32(s, groups), i32(s, TARGET_WARP), carried,
                  CARRIED);
    emit_scope_begin(l->e);
    for (uint32_t i = 0; i <= GROUP_USED; i++)
        s->values[i] = carried[i];
    s->start = carried[GROUP_USED + 1];
    s->before = carried[GROUP_USED + 2];
    search_warp(s, loop.index);
    emit_scope_end(l->e);
    LLVMValueRef next[CARRIED];
    for (uint32_t i = 0; i <= GROUP_USED; i++)
        next[i] = s->values[i];
    next[GROUP_USED + 1] = s->start;
    next[GROUP_USED + 2] = s->before;
    gx_loop_end(l->k, &loop, next);
    for (uint32_t i = 0; i <= GROUP_USED; i++)
        s->values[i] = carried[i];
    s->start = carried[GROUP_USED + 1];
    s->before = carried[GROUP_USED + 2];
    take_none(s);
}

/* Operations of one program differ in the part that they name, not in the groups. */
void tile_find_groups(TileLower *l)
{
    const TileBlock *block = &l->p->body;
    Search s = {.l = l};
    for (uint32_t i = 0; i < block->count; i++) {
        if (block->ops[i]->kind != TILE_GROUP)
            continue;
        const TileOp *op = block->ops[i];
        if (s.op == NULL) {
            s.op = op;
            const IndexExpr *tile =
                ix_substitute(l->e->ix, op->begin, IX_SYMBOL, l->p->dim_count, l->tile);
            s.tile = LLVMBuildIntCast2(l->k->builder, emit_index(l->e, tile, 0),
                                       gx_int_type(l->k, 32), 1, "");
            l->k->at = l->p->fusion->name;
            search(&s);
        }
        l->groups[op->number] = s.values[op->number];
    }
}
