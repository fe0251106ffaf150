/* wide_convolution with positions as wgmma's rows: see ir/kernel/kinds/wide_positions.c. A lane names the row of the
 * patch that it loads of its warp's 16 positions once, for all taps. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/wide.h"

enum { WARP_POSITIONS = TENSOR_CORE_ROWS };

/* Of all images. */
static int64_t position_count(const WidePlan *p)
{
    return p->images * p->result_size[Y] * p->result_size[X];
}

/* Which row of all planes the window of a position begins in, and its column. */
static LLVMValueRef row_of(const Wide *w, LLVMValueRef position, LLVMValueRef *column)
{
    LLVMValueRef image = position, y;
    *column = split(w->k, &image, w->p->result_size[X]);
    y = split(w->k, &image, w->p->result_size[Y]);
    return add(w->k, times(w->k, image, w->storage.image_rows), y);
}

/* Behind the last position: that one. */
static LLVMValueRef existing(const Wide *w, LLVMValueRef position)
{
    int64_t count = position_count(w->p);
    if (count % w->c->tile[ROWS] == 0)
        return position;
    return LLVMBuildSelect(w->b, is_below(w->k, position, count), position,
                           number(w->k, count - 1), "");
}

/* Of the part with this number: what four warps multiply at once. */
static LLVMValueRef first_position(const Wide *w, uint32_t part)
{
    LLVMValueRef position = times(w->k, w->group[ROWS], w->storage.columns);
    position = add(w->k, position, times(w->k, w->warp, WARP_POSITIONS));
    return add(w->k, position, number(w->k, (int64_t)part * WARPGROUP_ROWS));
}

static uint32_t parts_of(const Wide *w)
{
    return (uint32_t)wide_positions_parts(w->c);
}

static uint32_t part_sums(const Wide *w)
{
    return (uint32_t)w->c->tile[FEATURES] / 2;
}

uint32_t wide_positions_sums(const Wide *w)
{
    return parts_of(w) * part_sums(w);
}

LLVMValueRef wide_positions_apart(const Wide *w, LLVMValueRef image)
{
    LLVMValueRef images = LLVMBuildSub(w->b, image, w->image, "");
    return times(w->k, images, w->storage.image_apart);
}

/* The image of a position. */
static LLVMValueRef image_of(const Wide *w, LLVMValueRef position)
{
    int64_t plane = w->p->result_size[Y] * w->p->result_size[X];
    return LLVMBuildUDiv(w->b, position, number(w->k, plane), "");
}

/* Of the warp's four matrices, two of positions and two of channels, the lane names a row. */
static LLVMValueRef lane_row(const Wide *w, uint32_t part)
{
    LLVMValueRef position =
                     LLVMBuildAnd(w->b, w->lane, number(w->k, WARP_POSITIONS - 1), ""),
                 half = LLVMBuildUDiv(w->b, w->lane, number(w->k, WARP_POSITIONS), ""),
                 row, column;
    position = add(w->k, w->position, add(w->k, first_position(w, part), position));
    position = existing(w, position);
    row = LLVMBuildSub(w->b, row_of(w, position, &column), w->row, "");
    row = add(w->k, times(w->k, row, w->storage.pitch), column);
    if (w->storage.image_apart != 0)
        row = add(w->k, row, wide_positions_apart(w, image_of(w, position)));
    if (w->storage.patch_line != 0)
        return times(w->k, row, w->storage.patch_line);
    row = add(w->k, row, times(w->k, half, w->storage.chunk));
    return times(w->k, row, PIECE_BYTES);
}

/* Where the lane finds the channels of step 0 to those of a line; others of it by an xor. */
static LLVMValueRef line_row(const Wide *w, LLVMValueRef at)
{
    LLVMValueRef half = LLVMBuildUDiv(w->b, w->lane, number(w->k, WARP_POSITIONS), "");
    return LLVMBuildXor(w->b, swizzled(w, at, w->storage.patch_line),
                        times(w->k, half, PIECE_BYTES), "");
}

static LLVMValueRef step_row(const Wide *w, LLVMValueRef row, int64_t step)
{
    int64_t line = w->storage.patch_line, at = step * 2 * PIECE_BYTES;
    if (line == 0)
        return add(w->k, row, number(w->k, 2 * step * w->storage.chunk * PIECE_BYTES));
    row = LLVMBuildXor(w->b, row, number(w->k, at % line), "");
    return add(w->k, row, number(w->k, at / line * patch_apart(w)));
}

void wide_positions_find(Wide *w, LLVMValueRef tile)
{
    LLVMValueRef column;
    w->position = times(w->k, tile, w->c->tile[ROWS]);
    w->row = row_of(w, w->position, &column);
    w->image = image_of(w, w->position);
    LLVMValueRef last = add(w->k, w->position, number(w->k, w->c->tile[ROWS] - 1)),
                 row = row_of(w, existing(w, last), &column);
    w->row_count = add(w->k, LLVMBuildSub(w->b, row, w->row, ""),
                       number(w->k, (w->p->window[Y] - 1) / w->p->stride + 1));
    w->lane_rows = ARENA_ARRAY(w->k->arena, LLVMValueRef, parts_of(w));
    for (uint32_t i = 0; i < parts_of(w); i++)
        w->lane_rows[i] = lane_row(w, i);
}

static LLVMValueRef *load_positions(const Wide *w, LLVMValueRef patch, uint32_t part,
                                    uint32_t steps)
{
    LLVMValueRef *words = ARENA_ARRAY(w->k->arena, LLVMValueRef,
                                      (size_t)steps * GX_WGMMA_WORDS),
                 row = add(w->k, patch, w->lane_rows[part]);
    if (w->storage.patch_line != 0)
        row = line_row(w, row);
    for (uint32_t step = 0; step < steps; step++)
        gx_ldmatrix(w->k, step_row(w, row, step), GX_WGMMA_WORDS, false,
                    &words[step * GX_WGMMA_WORDS]);
    return words;
}

/* A part's positions are loaded before those of the part before are multiplied. */
void wide_positions_multiply(const Wide *w, LLVMValueRef patch, const GxMatrices *filter,
                             uint32_t steps, LLVMValueRef *sums)
{
    DType type = w->p->inst->operands[0]->shape->dtype;
    uint32_t parts = parts_of(w);
    LLVMValueRef *words = load_positions(w, patch, 0, steps);
    for (uint32_t i = 0; i < parts; i++) {
        GxMatrices positions = {.words = words};
        if (i + 1 < parts)
            words = load_positions(w, patch, i + 1, steps);
        gx_wgmma(w->k, type, (uint32_t)w->c->tile[FEATURES], steps, &positions, filter,
                 &sums[i * part_sums(w)]);
    }
}

void wide_positions_share(const Wide *w, const LLVMValueRef *sums)
{
    for (uint32_t i = 0; i < parts_of(w); i++)
        wide_share_block(w, true, first_position(w, i), number(w->k, 0),
                         (uint32_t)w->c->tile[FEATURES], &sums[i * part_sums(w)]);
}

/* Eight features of a position, or two positions of a feature. */
const IndexExpr *wide_positions_item(const Wide *w, LLVMValueRef item,
                                     WidePositionsItem *out)
{
    const WidePlan *p = w->p;
    Emit *e = w->e;
    bool turned = p->result_is_last;
    int64_t lanes = turned ? WARPGROUP_PIECE : 2, count = position_count(p),
            plane = p->result_size[Y] * p->result_size[X],
            features = w->c->tile[FEATURES],
            across = (turned ? features : w->c->tile[ROWS]) / lanes;
    LLVMValueRef down = item, along = split(w->k, &down, across),
                 position = turned ? down : times(w->k, along, lanes),
                 first = times(w->k, w->feature_tile, features),
                 feature = turned ? along : down;
    out->offset = wide_sum_at(w, turned ? times(w->k, along, lanes) : feature, position);
    position = add(w->k, w->position, position);
    out->inside = count % w->c->tile[ROWS] != 0 ? is_below(w->k, position, count) : NULL;
    /* in items, so that their first one's number is seen to be a multiple */
    int64_t several[2] = {turned ? 1 : lanes, turned ? lanes : 1};
    position = LLVMBuildUDiv(w->b, position, number(w->k, several[0]), "");
    first = LLVMBuildUDiv(w->b, first, number(w->k, several[1]), "");
    const IndexExpr *at = emit_variable(e, to_index(e, position),
                                        (Range){0, count / several[0] - 1}),
                    *of = emit_variable(e, to_index(e, add(w->k, first, feature)),
                                        (Range){0, p->features / several[1] - 1});
    if (turned)
        return ix_add(e->ix, ix_mul(e->ix, at, p->features), ix_mul(e->ix, of, lanes));
    const IndexExpr *image = ix_floordiv(e->ix, at, plane / lanes),
                    *in = ix_mod(e->ix, at, plane / lanes);
    image = ix_add(e->ix, ix_mul(e->ix, image, p->features), of);
    return ix_add(e->ix, ix_mul(e->ix, image, plane), ix_mul(e->ix, in, lanes));
}
