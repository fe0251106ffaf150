/* Results of wide_convolution: sums pass through shared memory, from where they are written in the result's order. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/wide.h"

enum { TURNED = 4 /* matrices of sums that go to shared memory at once */ };

LLVMValueRef wide_sum_word(const Wide *w, const LLVMValueRef *sums)
{
    DType t = w->p->inst->shape->dtype;
    LLVMValueRef both = LLVMGetUndef(LLVMVectorType(emit_type(w->k, t), 2));
    for (uint32_t i = 0; i < 2; i++) {
        LLVMValueRef v = scalar_convert_value(w->k, sums[i], DT_F32, t);
        both = LLVMBuildInsertElement(w->b, both, v, number(w->k, i), "");
    }
    return LLVMBuildBitCast(w->b, both, gx_int_type(w->k, 32), "");
}

/* A lane names a row of one of four matrices: two of rows by two of columns. */
void wide_share_block(const Wide *w, bool positions_are_rows, LLVMValueRef position,
                      LLVMValueRef feature, uint32_t count, const LLVMValueRef *sums)
{
    bool is_across =
        positions_are_rows != w->p->result_is_last; /* memory has them as columns */
    LLVMValueRef matrix = w->lane, in = split(w->k, &matrix, WARPGROUP_PIECE),
                 half = matrix, lower = split(w->k, &half, 2),
                 *row = positions_are_rows ? &position : &feature,
                 *column = positions_are_rows ? &feature : &position;
    *row = add(w->k, *row, times(w->k, lower, WARPGROUP_PIECE));
    *column = add(w->k, *column, times(w->k, half, WARPGROUP_PIECE));
    if (is_across)
        *column = add(w->k, *column, in);
    else
        *row = add(w->k, *row, in);
    LLVMValueRef to = wide_sum_at(w, feature, position);
    for (uint32_t i = 0; i < count / WARPGROUP_PIECE; i += 2) {
        LLVMValueRef words[TURNED];
        for (uint32_t j = 0; j < TURNED; j++)
            words[j] = wide_sum_word(w, &sums[i * SUMS + 2 * j]);
        int64_t at =
            (int64_t)i * WARPGROUP_PIECE * (is_across ? w->storage.sum_stride : 1) * 2;
        gx_stmatrix(w->k, add(w->k, to, number(w->k, at)), TURNED, is_across, words);
    }
}

/* The warp's first ones, among those of the block. */
static LLVMValueRef first_feature(const Wide *w)
{
    return add(w->k, times(w->k, w->group[FEATURES], w->p->group_features),
               w->first_feature);
}

static LLVMValueRef first_position(const Wide *w)
{
    return add(w->k, times(w->k, w->group[ROWS], w->storage.columns),
               times(w->k, w->first_octet, WARPGROUP_PIECE));
}

/* Bytes from a sum to the one so many features and positions further on. */
static int64_t sum_offset(const Wide *w, int64_t features, int64_t positions)
{
    int64_t stride = w->storage.sum_stride;
    return 2 * (w->p->result_is_last ? positions * stride + features
                                     : features * stride + positions);
}

/* The tile of sums lies where patch and filters did: rows are features and their numbers positions, or, where features are
 * last, the other way round. A warp has two matrices of features and one for each eight columns. */
static void share_sums(const Wide *w, LLVMValueRef *sums)
{
    bool turned = w->p->result_is_last;
    LLVMValueRef matrix = w->lane, in = split(w->k, &matrix, WARPGROUP_PIECE),
                 half = matrix,
                 lower = split(w->k, &half, 2); /* of features; of columns */
    LLVMValueRef feature =
                     add(w->k, first_feature(w), times(w->k, lower, WARPGROUP_PIECE)),
                 position =
                     add(w->k, first_position(w), times(w->k, half, WARPGROUP_PIECE));
    LLVMValueRef to = turned ? wide_sum_at(w, feature, add(w->k, position, in))
                             : wide_sum_at(w, add(w->k, feature, in), position);
    for (uint32_t i = 0; i < w->blocks * w->octets;) {
        uint32_t octet = i % w->octets,
                 count = octet + 1 < w->octets ? TURNED : TURNED / 2;
        LLVMValueRef words[TURNED];
        for (uint32_t j = 0; j < count; j++)
            words[j] = wide_sum_word(w, &sums[i * SUMS + 2 * j]);
        int64_t at = sum_offset(w, i / w->octets * WARP_ROWS, octet * WARPGROUP_PIECE);
        gx_stmatrix(w->k, add(w->k, to, number(w->k, at)), count, turned, words);
        i += count / 2;
    }
}

/* The same where there is no stmatrix: a lane's own words, or, where features are last, halves of them. */
static void share_words(const Wide *w, LLVMValueRef *sums)
{
    bool turned = w->p->result_is_last;
    LLVMTypeRef half = gx_int_type(w->k, 16);
    LLVMValueRef feature = w->lane,
                 position = times(w->k, split(w->k, &feature, SUMS), 2);
    feature = add(w->k, feature, first_feature(w));
    position = add(w->k, position, first_position(w));
    LLVMValueRef to = wide_sum_at(w, feature, position);
    for (uint32_t i = 0; i < w->sum_count; i += 2) {
        uint32_t block = i / SUMS / w->octets, octet = i / SUMS % w->octets;
        int64_t at = sum_offset(w, block * WARP_ROWS + i / 2 % 2 * WARPGROUP_PIECE,
                                octet * WARPGROUP_PIECE);
        LLVMValueRef word = wide_sum_word(w, &sums[i]),
                     own = add(w->k, to, number(w->k, at));
        if (!turned) {
            gx_store(w->k, GX_SHARED, own, word, 4);
            continue;
        }
        LLVMValueRef upper = LLVMBuildLShr(w->b, word, number(w->k, 16), "");
        gx_store(w->k, GX_SHARED, own, LLVMBuildTrunc(w->b, word, half, ""), 2);
        gx_store(w->k, GX_SHARED, add(w->k, own, number(w->k, 2 * w->storage.sum_stride)),
                 LLVMBuildTrunc(w->b, upper, half, ""), 2);
    }
}

/* Some neighbouring results: eight features of a position, or two positions of a feature. */
typedef struct Item {
    LLVMValueRef offset; /* in shared memory */
    LLVMValueRef row;    /* of the image's result */
    LLVMValueRef linear
        [3]; /* row, column and feature, by the result; what it has several of, in items */
} Item;

static Item find_item(const Wide *w, LLVMValueRef item)
{
    const WidePlan *p = w->p;
    bool turned = p->result_is_last;
    int64_t columns = p->result_size[X], features = w->c->tile[FEATURES];
    LLVMValueRef feature, column, row = item, group, at, along;
    if (turned) {
        along = split(w->k, &row, features / WARPGROUP_PIECE);
        feature = times(w->k, along, WARPGROUP_PIECE);
        column = split(w->k, &row, columns);
    } else {
        along = split(w->k, &row, columns / 2);
        column = times(w->k, along, 2);
        feature = row;
        row = split(w->k, &feature, w->c->tile[ROWS]);
    }
    group = row;
    at = split(w->k, &group, w->storage.group_rows);
    LLVMValueRef position = add(w->k, times(w->k, group, w->storage.columns),
                                add(w->k, times(w->k, at, w->storage.sum_pitch), column));
    Item found = {.offset = wide_sum_at(w, feature, position),
                  .row = add(w->k, w->row, row)};
    int64_t tile = turned ? features / WARPGROUP_PIECE : features;
    found.linear[0] = found.row;
    found.linear[1] = turned ? column : along;
    found.linear[2] =
        add(w->k, times(w->k, w->feature_tile, tile), turned ? along : feature);
    return found;
}

/* The number of the first in the result: that it is a multiple of how many there are can be seen. */
static const IndexExpr *item_number(const Wide *w, const Item *item)
{
    const WidePlan *p = w->p;
    Emit *e = w->e;
    bool turned = p->result_is_last;
    int64_t sizes[] = {p->result_size[Y], p->result_size[X], p->features},
            several[] = {1, turned ? 1 : 2, turned ? WARPGROUP_PIECE : 1};
    static const int last[] = {0, 1, 2}, first[] = {2, 0, 1};
    const int *order = turned ? last : first;
    const IndexExpr *at =
        emit_variable(e, to_index(e, w->image), (Range){0, p->images - 1});
    for (int i = 0; i < 3; i++) {
        int d = order[i];
        const IndexExpr *x = emit_variable(e, to_index(e, item->linear[d]),
                                           (Range){0, sizes[d] / several[d] - 1});
        at = ix_add(e->ix, ix_mul(e->ix, at, sizes[d]), ix_mul(e->ix, x, several[d]));
    }
    return at;
}

/* From shared memory, and what is made of them; `at`: the first one's number in the result. */
static void store_item(const Wide *w, LLVMValueRef offset, const IndexExpr *at)
{
    Emit *e = w->e;
    const Shape *s = w->p->inst->shape;
    uint32_t lanes = w->p->result_is_last ? WARPGROUP_PIECE : 2;
    LLVMTypeRef type = LLVMVectorType(emit_type(w->k, s->dtype), lanes);
    LLVMValueRef values[WARPGROUP_PIECE],
        sums = gx_load(w->k, GX_SHARED, offset, type, 2 * lanes);
    for (uint32_t i = 0; i < lanes; i++)
        values[i] = LLVMBuildExtractElement(w->b, sums, number(w->k, i), "");
    const IndexExpr *index[EMIT_MOST_RANK];
    e->lanes = lanes;
    emit_preset_lanes(e, w->p->inst, values);
    emit_delinear(e, s, ix_add(e->ix, at, emit_lane(e)), index);
    for (uint32_t i = 0; i < fusion_result_count(w->in->fusion); i++)
        emit_result(e, w->in->fusion, i, index);
    e->lanes = 1;
}

static void write_item(const Wide *w, LLVMValueRef number_of_item)
{
    GxIf inside;
    if (w->c->by_positions) {
        WidePositionsItem item;
        const IndexExpr *at = wide_positions_item(w, number_of_item, &item);
        emit_if_begin(w->e, &inside, item.inside);
        store_item(w, item.offset, at);
    } else {
        Item item = find_item(w, number_of_item);
        bool is_cut = w->p->result_size[Y] % w->c->tile[ROWS] != 0;
        emit_if_begin(w->e, &inside,
                      is_cut ? is_below(w->k, item.row, w->p->result_size[Y]) : NULL);
        store_item(w, item.offset, item_number(w, &item));
    }
    emit_if_end(w->e, &inside, NULL, 0, NULL);
}

/* Where all threads have several items, those are loaded together: nothing else of the block is left to do meanwhile. */
static void write_items(const Wide *w, int64_t count)
{
    enum { AT_ONCE = 4 };
    GxLoop loop;
    int64_t threads = w->k->block[0], trips = count / (threads * AT_ONCE),
            done = trips * threads * AT_ONCE;
    if (trips != 0) {
        gx_loop_begin(w->k, &loop, w->thread, number(w->k, done),
                      number(w->k, threads * AT_ONCE), NULL, 0);
        for (int64_t i = 0; i < AT_ONCE; i++) {
            emit_scope_begin(w->e);
            write_item(w, add(w->k, loop.index, number(w->k, i * threads)));
            emit_scope_end(w->e);
        }
        gx_loop_end(w->k, &loop, NULL);
    }
    if (done == count)
        return;
    gx_loop_begin(w->k, &loop, add(w->k, w->thread, number(w->k, done)),
                  number(w->k, count), number(w->k, threads), NULL, 0);
    emit_scope_begin(w->e);
    write_item(w, loop.index);
    emit_scope_end(w->e);
    gx_loop_end(w->k, &loop, NULL);
}

void wide_results(const Wide *w, LLVMValueRef *sums)
{
    int64_t lanes = w->p->result_is_last ? WARPGROUP_PIECE : 2,
            results = w->c->tile[FEATURES] * w->c->tile[ROWS] *
                      (w->c->by_positions ? 1 : w->p->result_size[X]);
    gx_barrier(w->k);
    if (w->p->in_tensor_memory)
        wide_tensor_share(w);
    else if (w->c->by_positions)
        wide_positions_share(w, sums);
    else if (target_has(w->in->design->target, FEATURE_STMATRIX))
        share_sums(w, sums);
    else
        share_words(w, sums);
    gx_barrier(w->k);
    if (w->p->in_tensor_memory)
        wide_tensor_end(w);
    write_items(w, results / lanes);
}
