/* Chains of dots, attentions among them: a loop over tiles of columns with inner and outer products, between which
 * the scores stay in registers, as the inner products' results lie as the outer ones' factor does.
 *
 *   bring what stays, as q; fill stages 0 .. n - 2 with the other factors, as k and v
 *   for each tile: wait for its stage; barrier; begin to fill the stage that is free; scores; what is made of
 *                  them; sums; end filling it
 *
 * Where tiles are left out only if each row has met something without them, all of that is done twice: for the tiles
 * of the band, and for the others or none. */
#include <string.h>

#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

typedef struct ChainLower {
    TileLower l;
    const TileChainMapping *m;
    TileFill fill;
    LLVMValueRef begin, end; /* tiles of the loop: i32 */
    LLVMValueRef inside_begin,
        inside_end; /* those of which predicates are known: i32; NULL: from begin, to end */
    LLVMValueRef *kept[TILE_CHAIN_DOTS]; /* words of what stays; NULL: not in registers */
} ChainLower;

enum {
    WORD_BYTES = 4,
    LANE_BITS = 5,
    TILES_AT_ONCE = 8,
    MOST_WORDS_AT_ONCE = 8 /* of rows: two accesses of 16 bytes */
};

static uint32_t registers_of(const LinearLayout *layout)
{
    return UINT32_C(1) << layout->in[LINEAR_REGISTER];
}

/* The loop is gone through twice. */
static bool has_rounds(const TileChainMapping *m)
{
    return m->loop->rest == TILE_REST_AFTER;
}

/* -- the loop's bounds ------------------------------------------------------------------------- */

/* An expression over numbers of tiles. */
static LLVMValueRef bound(ChainLower *a, const IndexExpr *e)
{
    TileLower *l = &a->l;
    e = ix_substitute(l->e->ix, e, IX_SYMBOL, l->p->dim_count, l->tile);
    return emit_index(l->e, e, 0);
}

/* Tiles of the loop in all. */
static uint32_t count_tiles(const ChainLower *a)
{
    return (uint32_t)tile_count(&a->l.p->dims[a->m->loop->dim]);
}

static const IndexExpr *number_of_tile(ChainLower *a, LLVMValueRef number)
{
    TileLower *l = &a->l;
    if (l->e->index_type != LLVMTypeOf(number))
        number = LLVMBuildZExt(l->k->builder, number, l->e->index_type, "");
    return emit_variable(l->e, number, (Range){0, (int64_t)count_tiles(a) - 1});
}

/* The number of a tile: their numbers are small, and each 64-bit one would take another register. */
static LLVMValueRef narrow_bound(ChainLower *a, const IndexExpr *e)
{
    return LLVMBuildTrunc(a->l.k->builder, bound(a, e), gx_int_type(a->l.k, 32), "");
}

/* None or all tiles instead of fewer than none and more than there are. */
static LLVMValueRef clamped(ChainLower *a, LLVMValueRef v, Range range, LLVMValueRef none,
                            LLVMValueRef all)
{
    LLVMBuilderRef b = a->l.k->builder;
    int64_t count = count_tiles(a);
    if (range.lo < 0)
        v = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, v, none, ""), none, v, "");
    if (range.hi > count)
        v = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, v, all, ""), v, all, "");
    return v;
}

/* Behind the last tile the first ones follow. */
static LLVMValueRef wrapped(ChainLower *a, LLVMValueRef number)
{
    LLVMBuilderRef b = a->l.k->builder;
    LLVMValueRef all = gx_i32(a->l.k, count_tiles(a)),
                 is_behind = LLVMBuildICmp(b, LLVMIntSGE, number, all, "");
    return LLVMBuildSelect(b, is_behind, LLVMBuildSub(b, number, all, ""), number, "");
}

/* i1: one of the thread's elements is not at least what the loop asks for. */
static LLVMValueRef misses_some(ChainLower *a, const TileOp *op,
                                const LinearLayout *layout, LLVMValueRef *registers)
{
    TileLower *l = &a->l;
    LLVMBuilderRef b = l->k->builder;
    uint32_t same = ~tile_distinct_bits(layout);
    LLVMValueRef misses = LLVMConstInt(gx_int_type(l->k, 1), 0, 0);
    for (uint32_t r = 0; r < registers_of(layout); r++) {
        if ((r & same) != 0)
            continue;
        LLVMValueRef least =
                         LLVMConstReal(LLVMTypeOf(registers[r]), a->m->loop->least_met),
                     is_below = LLVMBuildFCmp(b, LLVMRealULT, registers[r], least, ""),
                     ok = tile_is_there(l, op, layout, op->dims, r);
        if (ok != NULL)
            is_below = LLVMBuildAnd(b, is_below, ok, "");
        misses = LLVMBuildOr(b, misses, is_below, "");
    }
    return misses;
}

/* The same of the block. The stages are free, and free again when this returns. */
static LLVMValueRef block_misses(ChainLower *a, LLVMValueRef misses)
{
    uint32_t free = a->l.shared + (uint32_t)a->m->stage_offset;
    return block_votes(a->l.k, misses, gx_i32(a->l.k, free));
}

/* Of the tile at hand of what the loop asks for first. */
static LLVMValueRef misses_of_tile(ChainLower *a)
{
    TileLower *l = &a->l;
    const TileOp *load = a->m->loop->met_load;
    uint32_t bits[TILE_MOST_DIMS] = {0}, warp_bits = 0, dim = 0;
    while ((load->dims >> dim & 1) == 0)
        dim++;
    while (INT64_C(1) << bits[dim] < l->p->dims[dim].size)
        bits[dim]++;
    while ((UINT32_C(1) << (LANE_BITS + warp_bits)) < l->k->block[0])
        warp_bits++;
    LinearLayout layout =
        linear_spread(l->p->dim_count, bits, dim, 0, LANE_BITS, warp_bits);
    return misses_some(a, load, &layout, tile_registers(l, load, &layout));
}

/* The same of the tiles outside of the loop's bounds, several at a time: each load waits for memory. */
static LLVMValueRef misses_outside(ChainLower *a)
{
    TileLower *l = &a->l;
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef misses = LLVMConstInt(gx_int_type(k, 1), 0, 0),
                 end = LLVMBuildAdd(b, a->begin, gx_i32(k, count_tiles(a)), "");
    struct LoweredTile *before = l->memo;
    uint32_t dim = a->m->loop->dim;
    const IndexExpr *tile = l->tile[dim];
    GxLoop tiles;
    gx_loop_begin(k, &tiles, a->end, end, gx_i32(k, TILES_AT_ONCE), &misses, 1);
    emit_scope_begin(l->e);
    for (uint32_t i = 0; i < TILES_AT_ONCE; i++) {
        LLVMValueRef number = LLVMBuildAdd(b, tiles.index, gx_i32(k, i), ""),
                     is_one = LLVMBuildICmp(b, LLVMIntSLT, number, end, "");
        number = LLVMBuildSelect(b, is_one, number, tiles.index, "");
        l->tile[dim] = number_of_tile(a, wrapped(a, number));
        tile_forget(l);
        misses = LLVMBuildOr(b, misses, misses_of_tile(a), "");
    }
    emit_scope_end(l->e);
    l->memo = before;
    l->tile[dim] = tile;
    gx_loop_end(k, &tiles, &misses);
    return tiles.carried[0];
}

/* All tiles where one is missed. */
static void ask_first(ChainLower *a)
{
    TileLower *l = &a->l;
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    const TileOp *loop = a->m->loop;
    bool is_along = loop->met_load->dims >> loop->dim & 1;
    LLVMValueRef misses = is_along ? misses_outside(a) : misses_of_tile(a);
    misses = block_misses(a, misses);
    a->begin = LLVMBuildSelect(b, misses, gx_i32(k, 0), a->begin, "");
    a->end = LLVMBuildSelect(b, misses, gx_i32(k, count_tiles(a)), a->end, "");
}

static void find_bounds(ChainLower *a)
{
    TileLower *l = &a->l;
    const TileOp *loop = a->m->loop;
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef none = emit_index_constant(l->e, 0),
                 all = emit_index_constant(l->e, count_tiles(a));
    a->begin = bound(a, loop->begin);
    a->end = bound(a, loop->end);
    a->begin = clamped(a, a->begin, loop->begin->range, none, all);
    a->end = clamped(a, a->end, loop->end->range, none, all);
    if (l->parts.count > 1)
        parts_bounds(l, &a->begin, &a->end);
    if (a->m->has_edges &&
        (loop->rest != TILE_REST_NONE || loop->inside_begin != loop->begin))
        a->inside_begin = narrow_bound(a, loop->inside_begin);
    if (a->m->has_edges &&
        (loop->rest != TILE_REST_NONE || loop->inside_end != loop->end))
        a->inside_end = narrow_bound(a, loop->inside_end);
    a->begin = LLVMBuildTrunc(b, a->begin, gx_int_type(l->k, 32), "");
    a->end = LLVMBuildTrunc(b, a->end, gx_int_type(l->k, 32), "");
    if (loop->rest == TILE_REST_FIRST)
        ask_first(a);
}

/* -- what stays ---------------------------------------------------------------------------------- */

/* Of the inner product's factor that stays, which l->m is. */
static TileSide kept_side(ChainLower *a, uint32_t dot)
{
    TileLower *l = &a->l;
    const TileFactor *f = &a->m->inner[dot].factors[0];
    return (TileSide){
        .factor = f, .base = factor_base(l, f, gx_i32(l->k, 0)), .words = a->kept[dot]};
}

static TileFill kept_fill(const ChainLower *a)
{
    TileFill fill = {.count = a->m->inner_count, .dim = a->m->loop->dim};
    for (uint32_t i = 0; i < fill.count; i++)
        fill.factors[i] = &a->m->inner[i].factors[0];
    return fill;
}

/* Once, before everything else. */
static void bring_kept(ChainLower *a)
{
    TileLower *l = &a->l;
    const TileFill fill = kept_fill(a);
    const IndexExpr *none = ix_const(l->e->ix, 0);
    fill_begin(l, &fill, none, gx_i32(l->k, 0), NULL);
    fill_end(l, &fill, none, gx_i32(l->k, 0), NULL);
}

/* What threads wrote to shared memory is there for all of them. */
static void pass_stage(ChainLower *a)
{
    if (a->m->inner[0].by_warpgroup)
        gx_proxy_fence(a->l.k);
    gx_barrier(a->l.k);
}

/* Some need not be loaded for each tile of columns. Where no stage is being copied yet, it waits for all there is. */
static void keep(ChainLower *a)
{
    TileLower *l = &a->l;
    const TileFill fill = kept_fill(a);
    bool is_any = false, is_staged = fill_copies(&a->fill) && !has_rounds(a->m);
    for (uint32_t i = 0; i < fill.count; i++)
        is_any |= fill.factors[i]->is_kept;
    if (fill_copies(&fill) && (is_any || !is_staged))
        gx_copy_wait(l->k, is_staged ? a->m->stages - 1 : 0);
    if (!is_any)
        return;
    gx_barrier(l->k);
    for (uint32_t i = 0; i < fill.count; i++) {
        if (!fill.factors[i]->is_kept)
            continue;
        l->m = &a->m->inner[i];
        TileSide side = kept_side(a, i);
        a->kept[i] = tile_words_of_steps(l, &side);
    }
}

/* -- products ------------------------------------------------------------------------------------ */

static void multiply_inner(ChainLower *a, uint32_t dot, LLVMValueRef stage)
{
    TileLower *l = &a->l;
    const TileMapping *m = &a->m->inner[dot];
    const TileFactor *k = &m->factors[1];
    uint32_t count = registers_of(&m->sums);
    l->m = m;
    LLVMValueRef *sums = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    memcpy(sums, tile_registers(l, m->dot->operands[2], &m->sums), count * sizeof *sums);
    TileSide sides[] = {kept_side(a, dot),
                        {.factor = k, .base = factor_base(l, k, stage)}};
    tile_multiply(l, sides, sums);
    tile_hold(l, m->dot, &m->sums, sums);
}

/* The weights as an outer product's factor, in words: zeros where there are no columns. */
static LLVMValueRef *weight_words(ChainLower *a, const TileMapping *m)
{
    TileLower *l = &a->l;
    LLVMBuilderRef b = l->k->builder;
    const TileOp *op = m->dot->operands[0];
    const LinearLayout *from = &a->m->inner[0].sums, *to = &m->factors[0].fragment;
    uint32_t n = registers_of(from), per_word = 32 / dtype_info[op->dtype].bits;
    LLVMValueRef *values = ARENA_ARRAY(l->k->arena, LLVMValueRef, n);
    memcpy(values, tile_registers(l, op, from), n * sizeof *values);
    for (uint32_t r = 0; r < n; r++) {
        LLVMValueRef ok = tile_is_there(l, m->dot, from, m->dot->over, r);
        if (ok != NULL)
            values[r] = LLVMBuildSelect(b, ok, values[r],
                                        LLVMConstNull(LLVMTypeOf(values[r])), "");
    }
    values = tile_renamed(l, from, values, to);
    LLVMValueRef *words = ARENA_ARRAY(l->k->arena, LLVMValueRef, n / per_word);
    LLVMTypeRef pair = LLVMVectorType(LLVMTypeOf(values[0]), per_word);
    for (uint32_t i = 0; i < n / per_word; i++) {
        LLVMValueRef v = LLVMGetUndef(pair);
        for (uint32_t j = 0; j < per_word; j++)
            v = LLVMBuildInsertElement(b, v, values[i * per_word + j], gx_i32(l->k, j),
                                       "");
        words[i] = LLVMBuildBitCast(b, v, gx_int_type(l->k, 32), "");
    }
    return words;
}

static void multiply_outer(ChainLower *a, uint32_t dot, LLVMValueRef stage)
{
    TileLower *l = &a->l;
    const TileMapping *m = &a->m->outer[dot];
    const TileFactor *v = &m->factors[1];
    uint32_t count = registers_of(&m->sums);
    LLVMValueRef *sums = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    TileSide sides[] = {{.factor = &m->factors[0], .words = weight_words(a, m)},
                        {.factor = v, .base = factor_base(l, v, stage)}};
    l->m = m;
    memcpy(sums, tile_registers(l, m->dot->operands[2], &m->sums), count * sizeof *sums);
    tile_multiply(l, sides, sums);
    tile_hold(l, m->dot, &m->sums, sums);
}

/* -- what goes round the loop -------------------------------------------------------------------- */

/* Registers that only repeat others are not carried. */
uint32_t chain_pack(const TileChainMapping *m, const TileOp *op, LLVMValueRef *registers,
                    LLVMValueRef *out)
{
    const LinearLayout *layout = tile_carried_layout(m, op);
    uint32_t bits = tile_distinct_bits(layout), n = 0;
    for (uint32_t r = 0; r < registers_of(layout); r++) {
        if ((r & ~bits) == 0)
            out[n++] = registers[r];
    }
    return n;
}

LLVMValueRef *chain_unpack(TileLower *l, const TileChainMapping *m, const TileOp *op,
                           LLVMValueRef *carried, uint32_t *at)
{
    const LinearLayout *layout = tile_carried_layout(m, op);
    uint32_t count = registers_of(layout), bits = tile_distinct_bits(layout);
    LLVMValueRef *registers = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    for (uint32_t r = 0; r < count; r++)
        registers[r] = (r & ~bits) == 0 ? carried[(*at)++] : registers[r & bits];
    return registers;
}

/* Holds operands first .. end - 1: in the loop as CARRIED, behind it as FINAL. */
static void hold_carried(ChainLower *a, const TileBlock *block, TileKind kind,
                         uint32_t first, uint32_t end, LLVMValueRef *carried)
{
    TileLower *l = &a->l;
    const TileOp *loop = a->m->loop;
    uint32_t at = 0;
    for (uint32_t i = first; i < end; i++) {
        const LinearLayout *layout = tile_carried_layout(a->m, loop->operands[i]);
        LLVMValueRef *registers = chain_unpack(l, a->m, loop->operands[i], carried, &at);
        for (uint32_t j = 0; j < block->count; j++) {
            const TileOp *op = block->ops[j];
            if (op->kind == kind && op->loop == loop && op->number == i)
                tile_hold(l, op, layout, registers);
        }
    }
}

/* -- rows in shared memory ------------------------------------------------------------------------ */

/* How many of the operands go round in registers. */
static uint32_t in_registers(const TileChainMapping *m)
{
    return m->loop->operand_count - m->shares_rows;
}

/* A thread's own words, side by side. */
static LLVMValueRef rows_offset(ChainLower *a)
{
    TileLower *l = &a->l;
    uint32_t bytes = tile_row_registers(a->m) * WORD_BYTES;
    LLVMValueRef own = gx_mul_natural(l->k, gx_tid(l->k, 0), gx_i32(l->k, bytes));
    return gx_add_natural(l->k, own,
                          gx_i32(l->k, l->shared + (uint32_t)a->m->rows_offset));
}

/* Words of one access; a thread with more of them makes several. */
static uint32_t words_at_once(ChainLower *a)
{
    uint32_t count = tile_row_registers(a->m);
    return count < MOST_WORDS_AT_ONCE ? count : MOST_WORDS_AT_ONCE;
}

static LLVMTypeRef rows_type(ChainLower *a)
{
    return LLVMVectorType(emit_type(a->l.k, DT_F32), words_at_once(a));
}

static LLVMValueRef offset_of_word(ChainLower *a, LLVMValueRef rows, uint32_t word)
{
    Kernel *k = a->l.k;
    return word == 0 ? rows : gx_add_natural(k, rows, gx_i32(k, word * WORD_BYTES));
}

static void store_rows(ChainLower *a, const TileOp *op)
{
    TileLower *l = &a->l;
    uint32_t count = tile_row_registers(a->m), step = words_at_once(a);
    LLVMValueRef *rows = ARENA_ARRAY(l->k->arena, LLVMValueRef, count),
                 offset = rows_offset(a);
    chain_pack(a->m, op, tile_registers(l, op, &a->m->rows), rows);
    for (uint32_t at = 0; at < count; at += step) {
        LLVMValueRef v = LLVMGetUndef(rows_type(a));
        for (uint32_t i = 0; i < step; i++)
            v = LLVMBuildInsertElement(l->k->builder, v, rows[at + i], gx_i32(l->k, i),
                                       "");
        gx_store(l->k, GX_SHARED, offset_of_word(a, offset, at), v, step * WORD_BYTES);
    }
}

static LLVMValueRef *load_rows(ChainLower *a, LLVMValueRef *rows)
{
    TileLower *l = &a->l;
    uint32_t count = tile_row_registers(a->m), step = words_at_once(a);
    LLVMValueRef offset = rows_offset(a);
    for (uint32_t at = 0; at < count; at += step) {
        LLVMValueRef v = gx_load(l->k, GX_SHARED, offset_of_word(a, offset, at),
                                 rows_type(a), step * WORD_BYTES);
        for (uint32_t i = 0; i < step; i++)
            rows[at + i] = LLVMBuildExtractElement(l->k->builder, v, gx_i32(l->k, i), "");
    }
    return rows;
}

static void hold_rows(ChainLower *a)
{
    const TileOp *loop = a->m->loop;
    LLVMValueRef *rows =
        ARENA_ARRAY(a->l.k->arena, LLVMValueRef, tile_row_registers(a->m));
    hold_carried(a, &loop->body, TILE_CARRIED, in_registers(a->m), loop->operand_count,
                 load_rows(a, rows));
}

/* -- the loop ---------------------------------------------------------------------------------- */

typedef struct ChainLoop {
    GxLoop loop;
    LLVMValueRef *carried; /* sums, rows; the stage that is read */
    uint32_t count;
} ChainLoop;

/* The tile that is done in the loop's step `number`. */
static LLVMValueRef tile_of_step(ChainLower *a, LLVMValueRef number)
{
    bool may_wrap = has_rounds(a->m) && a->m->loop->begin->kind != IX_CONST;
    return may_wrap ? wrapped(a, number) : number;
}

static const IndexExpr *tile_at(ChainLower *a, LLVMValueRef number)
{
    return number_of_tile(a, tile_of_step(a, number));
}

static LLVMValueRef is_tile(ChainLower *a, LLVMValueRef number)
{
    return LLVMBuildICmp(a->l.k->builder, LLVMIntSLT, number, a->end, "");
}

static void start_stages(ChainLower *a)
{
    TileLower *l = &a->l;
    for (uint32_t i = 0; i + 1 < a->m->stages; i++) {
        LLVMValueRef number = LLVMBuildAdd(l->k->builder, a->begin, gx_i32(l->k, i), "");
        LLVMValueRef stage =
            gx_i32(l->k, (uint32_t)(a->m->stage_offset + i * a->m->stage_bytes));
        const IndexExpr *tile = tile_at(a, number);
        fill_begin(l, &a->fill, tile, stage, is_tile(a, number));
        fill_end(l, &a->fill, tile, stage, is_tile(a, number));
    }
}

/* What is carried first. */
static void begin_carried(ChainLower *a, ChainLoop *s)
{
    TileLower *l = &a->l;
    const TileChainMapping *m = a->m;
    const TileOp *loop = m->loop;
    size_t most = 1; /* the stage */
    for (uint32_t i = 0; i < loop->operand_count; i++)
        most += registers_of(tile_carried_layout(m, loop->operands[i]));
    s->count = 0;
    s->carried = ARENA_ARRAY(l->k->arena, LLVMValueRef, most);
    for (uint32_t i = 0; i < in_registers(m); i++) {
        const TileOp *op = loop->operands[i];
        s->count += chain_pack(m, op, tile_registers(l, op, tile_carried_layout(m, op)),
                               &s->carried[s->count]);
    }
    if (m->shares_rows)
        store_rows(a, loop->operands[in_registers(m)]);
}

static void start_loop(ChainLower *a, ChainLoop *s)
{
    TileLower *l = &a->l;
    s->carried[s->count++] = gx_i32(l->k, 0);
    gx_loop_begin(l->k, &s->loop, a->begin, a->end, gx_i32(l->k, 1), s->carried,
                  s->count);
    s->loop.keeps_addresses = true;
    emit_scope_begin(l->e);
}

static LLVMValueRef stage_offset(ChainLower *a, LLVMValueRef stage)
{
    return gx_add_natural(a->l.k, stage, gx_i32(a->l.k, (uint32_t)a->m->stage_offset));
}

/* Predicates are known of the tile at hand. */
static LLVMValueRef is_inside(ChainLower *a, LLVMValueRef number)
{
    LLVMBuilderRef b = a->l.k->builder;
    LLVMValueRef after = NULL, before = NULL;
    if (a->inside_begin != NULL)
        after = LLVMBuildICmp(b, LLVMIntSGE, number, a->inside_begin, "");
    if (a->inside_end != NULL)
        before = LLVMBuildICmp(b, LLVMIntSLT, number, a->inside_end, "");
    return after == NULL    ? before
           : before == NULL ? after
                            : LLVMBuildAnd(b, after, before, "");
}

/* One tile of columns: what it makes of what is carried goes to `next`. */
static void run_step(ChainLower *a, const ChainLoop *s, LLVMValueRef *next)
{
    TileLower *l = &a->l;
    const TileOp *loop = a->m->loop;
    LLVMValueRef stage = stage_offset(a, s->carried[s->count - 1]);
    uint32_t n = 0;
    l->tile[loop->dim] = tile_at(a, s->loop.index);
    l->inside = is_inside(a, tile_of_step(a, s->loop.index));
    tile_forget(l);
    hold_carried(a, &loop->body, TILE_CARRIED, 0, in_registers(a->m), s->carried);
    for (uint32_t i = 0; i < a->m->inner_count; i++)
        multiply_inner(a, i, stage);
    if (a->m->shares_rows) {
        hold_rows(a);
        store_rows(a, loop->next[in_registers(a->m)]);
    }
    for (uint32_t i = 0; i < a->m->outer_count; i++)
        multiply_outer(a, i, stage);
    for (uint32_t i = 0; i < in_registers(a->m); i++) {
        const TileOp *op = loop->next[i];
        n += chain_pack(a->m, op, tile_registers(l, op, tile_carried_layout(a->m, op)),
                        &next[n]);
    }
}

/* Tiles begin .. end - 1, whose first ones are on their way. */
static void run_tiles(ChainLower *a, ChainLoop *s)
{
    TileLower *l = &a->l;
    const TileChainMapping *m = a->m;
    uint32_t ahead = m->stages - 1, bytes = (uint32_t)m->stage_bytes;
    start_loop(a, s);
    LLVMValueRef *next = ARENA_ARRAY(l->k->arena, LLVMValueRef, s->count),
                 later =
                     LLVMBuildAdd(l->k->builder, s->loop.index, gx_i32(l->k, ahead), "");
    LLVMValueRef stage = s->carried[s->count - 1],
                 free_stage =
                     stage_offset(a, tile_free_stage(l, stage, bytes, m->stages)),
                 more = is_tile(a, later);
    bool copies = fill_copies(&a->fill);
    if (copies)
        gx_copy_wait(l->k, ahead == 0 ? 0 : ahead - 1);
    pass_stage(a);
    fill_begin(l, &a->fill, tile_at(a, later), free_stage, more);
    if (ahead == 0) {
        fill_end(l, &a->fill, tile_at(a, later), free_stage, more);
        if (copies)
            gx_copy_wait(l->k, 0);
        pass_stage(a);
    }
    struct LoweredTile *loaded = l->memo; /* for the stage that is filled */
    run_step(a, s, next);
    l->inside = NULL;
    l->memo = loaded;
    if (ahead != 0)
        fill_end(l, &a->fill, tile_at(a, later), free_stage, more);
    next[s->count - 1] = tile_next_stage(l, stage, bytes, m->stages);
    emit_scope_end(l->e);
    gx_loop_end(l->k, &s->loop, next);
    tile_forget(l);
    if (copies)
        gx_copy_wait(l->k, 0);
    s->count--; /* the stage */
}

/* i1: one of the block's rows has not met enough in what is carried so far, in registers. */
static LLVMValueRef misses_after(ChainLower *a, LLVMValueRef *carried)
{
    const TileOp *loop = a->m->loop, *met = loop->operands[loop->met];
    LLVMValueRef *registers = NULL;
    for (uint32_t i = 0, at = 0; i <= loop->met; i++)
        registers = chain_unpack(&a->l, a->m, loop->operands[i], carried, &at);
    return block_misses(a,
                        misses_some(a, met, tile_carried_layout(a->m, met), registers));
}

/* The tiles of the band, and then the others or none. */
static void run_rounds(ChainLower *a, ChainLoop *s)
{
    TileLower *l = &a->l;
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef begin = a->begin, end = a->end,
                 rest = LLVMBuildAdd(b, begin, gx_i32(k, count_tiles(a)), "");
    GxLoop rounds;
    gx_loop_begin(k, &rounds, gx_i32(k, 0), gx_i32(k, 2), gx_i32(k, 1), s->carried,
                  s->count);
    emit_scope_begin(l->e);
    tile_forget(l);
    LLVMValueRef is_second = LLVMBuildICmp(b, LLVMIntEQ, rounds.index, gx_i32(k, 1), ""),
                 misses = misses_after(a, s->carried);
    a->begin = LLVMBuildSelect(b, is_second, end, begin, "");
    a->end = LLVMBuildSelect(b, LLVMBuildAnd(b, is_second, misses, ""), rest, end, "");
    LLVMValueRef *carried = s->carried;
    s->carried = ARENA_ARRAY(k->arena, LLVMValueRef, (size_t)s->count + 1);
    memcpy(s->carried, carried, s->count * sizeof *carried);
    start_stages(a);
    run_tiles(a, s);
    emit_scope_end(l->e);
    gx_loop_end(k, &rounds, s->carried);
    tile_forget(l);
    s->carried = carried;
}

/* What it carries in the end. */
static LLVMValueRef *run_loop(ChainLower *a)
{
    ChainLoop s;
    begin_carried(a, &s);
    if (has_rounds(a->m))
        run_rounds(a, &s);
    else
        run_tiles(a, &s);
    if (a->m->shares_rows)
        load_rows(a, &s.carried[s.count]);
    return s.carried;
}

/* -- the kernel -------------------------------------------------------------------------------- */

static void store_results(ChainLower *a, LLVMValueRef *carried)
{
    TileLower *l = &a->l;
    const TileChainMapping *m = a->m;
    hold_carried(a, &l->p->body, TILE_FINAL, 0, m->loop->operand_count, carried);
    for (uint32_t i = 0; i < m->result_count; i++) {
        l->m = m->results[i].sums != NULL ? m->results[i].sums : &m->outer[0];
        tile_store_result(l, &m->results[i]);
    }
}

/* parts: blocks that share the columns. */
static Kernel *emit_chain(const EmitterInput *in, const TileChainMapping *m,
                          uint32_t parts)
{
    ChainLower a = {.m = m};
    TileLower *l = &a.l;
    l->in = in;
    l->m = &m->inner[0];
    l->p = m->program;
    l->reduced = m->inner[0].sums;
    l->parts.count = parts;
    a.fill = (TileFill){.count = m->staged_count, .dim = m->loop->dim};
    memcpy(a.fill.factors, m->staged, m->staged_count * sizeof *m->staged);
    tile_lower_begin(l, m->shared_bytes);
    find_bounds(&a);
    for (uint32_t i = 0; i < m->inner_count; i++)
        factor_prepare(l, &m->inner[i].factors[0]);
    for (uint32_t i = 0; i < m->staged_count; i++)
        factor_prepare(l, m->staged[i]);
    for (uint32_t i = 0; i < m->outer_count; i++)
        tile_prepare(l, m->outer[i].dot->operands[0], &m->inner[0].sums);
    bring_kept(&a);
    if (!has_rounds(m))
        start_stages(&a);
    keep(&a);
    LLVMValueRef *carried = run_loop(&a);
    if (parts > 1) {
        GxIf last;
        emit_if_begin(l->e, &last, parts_merge(l, m, carried));
        store_results(&a, carried);
        emit_if_end(l->e, &last, NULL, 0, NULL);
    } else { /* what is loaded of other blocks' sums leaves no room for more */
        tile_begin_results(l);
        store_results(&a, carried);
    }
    return emitter_finish(in, l->e);
}

Kernel *emitter_attention(const EmitterInput *in)
{
    const char *why;
    return emit_chain(in, kernel_attention_mapping(in->design, in->arena, &why),
                      (uint32_t)in->design->config.column_blocks);
}

Kernel *emitter_dot_chain(const EmitterInput *in)
{
    const char *why;
    return emit_chain(in, kernel_chain_mapping(in->design, in->arena, &why), 1);
}
