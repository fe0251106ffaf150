/* Contractions on tensor cores: a loop over tiles of the sums, in which stages of shared memory are filled some
 * tiles ahead, fragments are loaded and multiplied; behind it the results.
 *
 *   fill stages 0 .. n - 2
 *   for each tile: wait for its stage; barrier; begin to fill the stage that is free; multiply; end filling it
 *
 * The barrier says both that all threads' part of the stage is there and that the stage which is filled next is
 * no longer read. Where products of a step go on while the next one's begin (tile_steps_overlap), so that tensor cores
 * have work all the time, the stage of the step before is still read behind it; that of the one before this is filled:
 *
 *   for each tile: wait for its stage; barrier; begin to multiply; fill the stage that is free; wait for the step before
 */
#include <string.h>

#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

/* Sums of a tile that no loop has run for yet. */
static LLVMValueRef *zero_sums(TileLower *l)
{
    uint32_t count = UINT32_C(1) << l->m->partial.in[LINEAR_REGISTER];
    LLVMValueRef *sums = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = LLVMConstNull(emit_type(l->k, l->m->dot->dtype));
    return sums;
}

/* -- the loop ---------------------------------------------------------------------------------- */

LLVMValueRef tile_next_stage(TileLower *l, LLVMValueRef stage, uint32_t bytes,
                             uint32_t stages)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t all = bytes * stages;
    if (stages == 1)
        return stage;
    LLVMValueRef next = gx_add_natural(l->k, stage, gx_i32(l->k, bytes));
    LLVMValueRef is_over = LLVMBuildICmp(b, LLVMIntEQ, next, gx_i32(l->k, all), "");
    return LLVMBuildSelect(b, is_over, gx_i32(l->k, 0), next, "");
}

LLVMValueRef tile_free_stage(TileLower *l, LLVMValueRef stage, uint32_t bytes,
                             uint32_t stages)
{
    LLVMBuilderRef b = l->k->builder;
    if (stages == 1)
        return stage;
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, stage, gx_i32(l->k, 0), ""),
                 before = LLVMBuildSub(b, stage, gx_i32(l->k, bytes), "");
    return LLVMBuildSelect(b, is_first, gx_i32(l->k, bytes * (stages - 1)), before, "");
}

static LLVMValueRef next_stage(TileLower *l, LLVMValueRef stage)
{
    return tile_next_stage(l, stage, (uint32_t)l->m->stage_bytes, l->m->stages);
}

/* How many tiles the loop runs for. */
static LLVMValueRef loop_end(TileLower *l)
{
    const TileMapping *m = l->m;
    if (m->loop->most == NULL)
        return emit_index_constant(l->e, tile_count(&l->p->dims[m->term]));
    LinearLayout own = linear_projected(&m->sums, 0);
    return to_index(l->e, tile_registers(l, m->loop->most, &own)[0]);
}

/* A loop, and what it carries behind the sums: the stage that is read, the one that is filled, and the words of a
 * factor that is held for the tile that is multiplied. */
typedef struct TileRun {
    TileLower *l;
    TileFill fill;           /* of the factors that are not held */
    const TileFactor *held;  /* NULL: none is */
    TileAhead *ahead;        /* its loads */
    LLVMValueRef begin, end; /* of the tiles; begin NULL: 0 */
    uint32_t sums, words;    /* that are carried */
    int64_t tiles, stages_ahead;
    bool overlap; /* of steps */
} TileRun;

enum {
    CARRIED_STAGES = 2,
    MANY_SUMS = 64, /* a step has so much to do that what addresses cost is nothing */
};

/* Number `i` of the tiles that the loop runs for: the loop's own variable begins so. */
static const IndexExpr *tile_from_first(const TileRun *run, int64_t i)
{
    Emit *e = run->l->e;
    const IndexExpr *add = ix_const(e->ix, i);
    if (run->begin == NULL)
        return add;
    const IndexExpr *first = emit_variable(e, run->begin, (Range){0, run->tiles - 1});
    return ix_add(e->ix, first, add);
}

static LLVMValueRef number_from_first(const TileRun *run, int64_t i)
{
    LLVMValueRef add = emit_index_constant(run->l->e, i);
    return run->begin == NULL ? add
                              : LLVMBuildAdd(run->l->k->builder, run->begin, add, "");
}

/* begin, end: NULL, or which tiles the loop runs for. */
static TileRun begin_run(TileLower *l, LLVMValueRef begin, LLVMValueRef end)
{
    const TileMapping *m = l->m;
    TileRun run = {.l = l,
                   .fill.dim = m->term,
                   .begin = begin,
                   .end = end != NULL ? end : loop_end(l),
                   .sums = UINT32_C(1) << m->partial.in[LINEAR_REGISTER],
                   .tiles = tile_count(&l->p->dims[m->term]),
                   .stages_ahead = tile_stages_ahead(m),
                   .overlap = tile_steps_overlap(m)};
    for (uint32_t i = 0; i < 2; i++) {
        if (m->factors[i].is_held)
            run.held = &m->factors[i];
        else
            run.fill.factors[run.fill.count++] = &m->factors[i];
    }
    return run;
}

/* The first tiles are brought to stages. */
static void fill_first(const TileRun *run)
{
    TileLower *l = run->l;
    const TileMapping *m = l->m;
    for (int64_t i = 0; i < run->stages_ahead; i++) {
        const IndexExpr *tile = tile_from_first(run, i);
        LLVMValueRef stage = gx_i32(l->k, (uint32_t)(i * (int64_t)m->stage_bytes)),
                     is_there =
                         i < run->tiles ? NULL : LLVMConstNull(gx_int_type(l->k, 1));
        if (i < run->tiles && (m->loop->most != NULL || (run->begin != NULL && i > 0)))
            is_there = LLVMBuildICmp(l->k->builder, LLVMIntSGT, run->end,
                                     number_from_first(run, i), "");
        fill_begin(l, &run->fill, tile, stage, is_there);
        fill_end(l, &run->fill, tile, stage, is_there);
    }
}

/* Loads what is held of a tile, if it is one. */
static LLVMValueRef *load_held(TileRun *run, const IndexExpr *tile, LLVMValueRef number)
{
    TileLower *l = run->l;
    if (run->held == NULL)
        return NULL;
    l->tile[run->fill.dim] = tile;
    LLVMValueRef is_there =
        LLVMBuildICmp(l->k->builder, LLVMIntSLT, number, run->end, "");
    tile_load_ahead(l, run->held->value, &run->held->copy, is_there);
    return tile_take_ahead(l, &run->ahead, &run->words);
}

static LLVMValueRef *first_carried(TileRun *run)
{
    TileLower *l = run->l;
    LLVMValueRef *words =
        load_held(run, tile_from_first(run, 0), number_from_first(run, 0));
    uint32_t stages = run->sums, held = run->sums + CARRIED_STAGES;
    LLVMValueRef *carried =
        ARENA_ARRAY(l->k->arena, LLVMValueRef, (size_t)held + run->words);
    memcpy(carried, zero_sums(l), run->sums * sizeof *carried);
    carried[stages] = gx_i32(l->k, 0);
    carried[stages + 1] =
        gx_i32(l->k, (uint32_t)(run->stages_ahead * (int64_t)l->m->stage_bytes));
    if (run->words != 0)
        memcpy(&carried[held], words, run->words * sizeof *words);
    return carried;
}

/* What threads wrote to a stage is there for all of them. */
static void pass_stage(TileLower *l)
{
    if (l->m->by_warpgroup)
        gx_proxy_fence(l->k);
    gx_barrier(l->k);
}

static void multiply(const TileRun *run, LLVMValueRef stage, LLVMValueRef *sums)
{
    TileLower *l = run->l;
    const TileMapping *m = l->m;
    TileSide sides[2];
    for (uint32_t i = 0; i < 2; i++)
        sides[i] = (TileSide){.factor = &m->factors[i],
                              .base = factor_base(l, &m->factors[i], stage)};
    if (run->overlap)
        tile_begin_warpgroup(l, sides, sums);
    else
        tile_multiply(l, sides, sums);
}

/* One tile: what is carried becomes that for the next one. */
static void run_tile(TileRun *run, LLVMValueRef index, LLVMValueRef *carried)
{
    TileLower *l = run->l;
    Emit *e = l->e;
    LLVMBuilderRef b = l->k->builder;
    int64_t ahead = run->stages_ahead;
    LLVMValueRef *stages = &carried[run->sums], *held = &stages[CARRIED_STAGES], *next,
                 more = NULL;
    bool copies = fill_copies(&run->fill);
    const IndexExpr *tile = emit_variable(e, index, (Range){0, run->tiles - 1}),
                    *filled = ix_add(e->ix, tile, ix_const(e->ix, ahead));
    if (ahead != 0)
        more = LLVMBuildICmp(b, LLVMIntSLT, index,
                             LLVMBuildSub(b, run->end, emit_index_constant(e, ahead), ""),
                             "");
    if (copies)
        gx_copy_wait(l->k, (uint32_t)(ahead == 0 ? 0 : ahead - 1));
    pass_stage(l);
    if (run->overlap)
        multiply(run, stages[0], carried);
    fill_begin(l, &run->fill, filled, stages[1], more);
    if (ahead == 0) {
        fill_end(l, &run->fill, filled, stages[1], more);
        if (copies)
            gx_copy_wait(l->k, 0);
        pass_stage(l);
    }
    next = load_held(run, ix_add(e->ix, tile, ix_const(e->ix, 1)),
                     LLVMBuildAdd(b, index, emit_index_constant(e, 1), ""));
    if (run->held != NULL) {
        l->tile[run->fill.dim] = tile;
        tile_give_ahead(l, run->ahead, held);
    }
    if (run->overlap)
        tile_wait_warpgroup(l, 1, carried);
    else
        multiply(run, stages[0], carried);
    if (run->held != NULL)
        tile_forget(l);
    if (ahead != 0)
        fill_end(l, &run->fill, filled, stages[1], more);
    for (uint32_t i = 0; i < CARRIED_STAGES; i++)
        stages[i] = next_stage(l, stages[i]);
    if (next != NULL)
        memcpy(held, next, run->words * sizeof *next);
}

/* The sums, of the layout m->sums, of those tiles of terms (NULL: of all). */
static LLVMValueRef *run_loop(TileLower *l, LLVMValueRef begin, LLVMValueRef end)
{
    TileRun run = begin_run(l, begin, end);
    fill_first(&run);
    LLVMValueRef *carried = first_carried(&run);
    uint32_t count = run.sums + CARRIED_STAGES + run.words;
    GxLoop loop;
    gx_loop_begin(l->k, &loop, number_from_first(&run, 0), run.end,
                  emit_index_constant(l->e, 1), carried, count);
    loop.keeps_addresses = run.sums >= MANY_SUMS;
    emit_scope_begin(l->e);
    run_tile(&run, loop.index, carried);
    emit_scope_end(l->e);
    gx_loop_end(l->k, &loop, arena_copy(l->k->arena, carried, count * sizeof *carried));
    if (run.overlap)
        tile_wait_warpgroup(l, 0, carried);
    if (fill_copies(&run.fill))
        gx_copy_wait(l->k, 0);
    return tile_add_slices(l, carried);
}

/* -- results ----------------------------------------------------------------------------------- */

static void store_lanes(TileLower *l, const TileResult *r, const LLVMValueRef *values,
                        uint32_t first, uint32_t fast)
{
    Emit *e = l->e;
    const TileOp *op = r->store;
    const IndexExpr *at[EMIT_MOST_RANK];
    LLVMValueRef ok = tile_is_there(l, op, &r->layout, op->dims, first);
    GxIf inside;
    e->lanes = UINT32_C(1) << r->vector;
    for (uint32_t d = 0; d < op->shape->rank; d++)
        at[d] = tile_index(l, op, op->index[d], &r->layout, first, fast);
    emit_if_begin(e, &inside, ok);
    emit_store(e, fusion_result_arg(l->in->fusion, op->array), op->shape, at,
               &values[first]);
    emit_if_end(e, &inside, NULL, 0, NULL);
    e->lanes = 1;
}

void tile_store_result(TileLower *l, const TileResult *r)
{
    uint32_t fast = UINT32_MAX, count = UINT32_C(1) << r->layout.in[LINEAR_REGISTER],
             same = ~tile_distinct_bits(&r->layout);
    l->result = r;
    for (uint32_t d = 0; d < r->layout.rank && r->vector != 0; d++) {
        if (r->layout.columns[0] == UINT32_C(1) << linear_shift(&r->layout, d) &&
            r->layout.out[d] != 0)
            fast = d;
    }
    for (uint32_t first = 0; first < count; first = l->until) {
        l->until = first + TILE_WINDOW < count ? first + TILE_WINDOW : count;
        LLVMValueRef *values = tile_registers(l, r->store->operands[0], &r->layout);
        GxIf own;
        l->k->at = r->store->inst->name;
        emit_if_begin(l->e, &own, holds_first(l, &r->layout));
        for (uint32_t i = first; i < l->until; i += UINT32_C(1) << r->vector) {
            if ((i & same) == 0)
                store_lanes(l, r, values, i, fast);
        }
        emit_if_end(l->e, &own, NULL, 0, NULL);
    }
    l->until = 0;
    l->result = NULL;
}

/* -- the kernel -------------------------------------------------------------------------------- */

static LLVMValueRef part_of(TileLower *l, LLVMValueRef *number, int64_t size)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef by = gx_i32(l->k, (uint32_t)size),
                 part = LLVMBuildURem(b, *number, by, "");
    *number = LLVMBuildUDiv(b, *number, by, "");
    return part;
}

static const IndexExpr *tile_number(TileLower *l, LLVMValueRef number, int64_t tiles)
{
    return emit_variable(l->e, to_index(l->e, number), (Range){0, tiles - 1});
}

/* As tile_panels_at has it; what is left is the number of the matrix. */
static LLVMValueRef find_in_panels(TileLower *l, LLVMValueRef number)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    const TilePanels *p = &l->panels;
    int64_t slow = p->tiles[PANEL_SLOW], fast = p->tiles[PANEL_FAST],
            count = tile_panel_count(p), last = tile_last_panel(p);
    bool is_only = tile_blocks(l->p) == slow * fast;
    LLVMValueRef of = is_only ? number : part_of(l, &number, slow * fast),
                 in = part_of(l, &of, p->panel * fast), column = in,
                 row = part_of(l, &column, p->panel), other = in;
    if (last != p->panel) {
        LLVMValueRef own = part_of(l, &other, last),
                     is_last = LLVMBuildICmp(b, LLVMIntEQ, of,
                                             gx_i32(k, (uint32_t)(count - 1)), "");
        row = LLVMBuildSelect(b, is_last, own, row, "");
        column = LLVMBuildSelect(b, is_last, other, column, "");
    }
    if (count > 1) {
        LLVMValueRef odd = LLVMBuildTrunc(b, of, gx_int_type(k, 1), ""),
                     back = LLVMBuildSub(b, gx_i32(k, (uint32_t)(fast - 1)), column, "");
        column = LLVMBuildSelect(b, odd, back, column, "");
        of = LLVMBuildMul(b, of, gx_i32(k, (uint32_t)p->panel), "");
        row = LLVMBuildAdd(b, of, row, "");
    }
    l->tile[p->dims[PANEL_SLOW]] = tile_number(l, row, slow);
    l->tile[p->dims[PANEL_FAST]] = tile_number(l, column, fast);
    return number;
}

/* Along other dimensions, and without panels: the last one is the fastest. */
static void find_tiles(TileLower *l, LLVMValueRef number)
{
    Emit *e = l->e;
    int64_t blocks = tile_blocks(l->p);
    uint32_t left = l->p->dim_count;
    for (uint32_t d = 0; d < l->p->dim_count; d++)
        l->tile[d] = ix_const(e->ix, 0);
    if (l->panels.panel > 1) {
        number = find_in_panels(l, number);
        left = l->panels.dims[PANEL_SLOW];
        blocks /= l->panels.tiles[PANEL_SLOW] * l->panels.tiles[PANEL_FAST];
    }
    const IndexExpr *block = tile_number(l, number, blocks);
    for (uint32_t d = left; d-- > 0;) {
        const TileDim *dim = &l->p->dims[d];
        if (dim->kind != TILE_GRID)
            continue;
        l->tile[d] = ix_mod(e->ix, block, tile_count(dim));
        block = ix_floordiv(e->ix, block, tile_count(dim));
    }
}

static void begin_kernel(TileLower *l, uint64_t shared_bytes)
{
    l->e = emitter_begin(l->in);
    l->e->ix = l->p->ix;
    l->k = l->e->k;
    l->k->is_wide = true;
    LLVMBuilderRef b = l->k->builder;
    l->shared = gx_shared_alloc(l->k, shared_bytes, tile_shared_align(l->m));
    l->lane = gx_lane(l->k);
    l->warp = LLVMBuildLShr(b, gx_tid(l->k, 0), gx_i32(l->k, 5), "");
}

/* The block goes on with tile `number`. */
static void begin_tile(TileLower *l, LLVMValueRef number)
{
    find_tiles(l, number);
    LLVMBasicBlockRef body = gx_block(l->k, "tiles");
    l->entry_end = LLVMBuildBr(l->k->builder, body);
    LLVMPositionBuilderAtEnd(l->k->builder, body);
}

void tile_lower_begin(TileLower *l, uint64_t shared_bytes)
{
    begin_kernel(l, shared_bytes);
    if (l->parts.count > 1)
        parts_begin(l);
    begin_tile(l, l->parts.count > 1 ? l->parts.tile : gx_ctaid(l->k, 0));
}

/* Addresses of results are made of the same numbers as the factors', and so of values that were known before the loop: kept
 * for so long they take registers, which sums need. A number that comes from a shuffle is no known one. Of the lane's, too,
 * ptxas spilled more. */
void tile_begin_results(TileLower *l)
{
    l->warp = gx_shfl(l->k, GX_SHFL_IDX, l->warp, gx_i32(l->k, 0), TARGET_WARP);
    l->coordinates = NULL;
    LLVMBasicBlockRef results = gx_block(l->k, "results");
    l->entry_end = LLVMBuildBr(l->k->builder, results);
    LLVMPositionBuilderAtEnd(l->k->builder, results);
}

static void prepare(TileLower *l)
{
    tile_find_groups(l);
    for (uint32_t i = 0; i < 2; i++)
        factor_prepare(l, &l->m->factors[i]);
}

static void store_results(TileLower *l, LLVMValueRef *sums)
{
    tile_hold(l, l->m->final, &l->m->sums, sums);
    tile_begin_results(l);
    for (uint32_t i = 0; i < l->m->result_count; i++)
        tile_store_result(l, &l->m->results[i]);
}

/* The last steps that the block has left, up to `end`: those of one tile. Gives where they begin. */
static LLVMValueRef run_last_tile(TileLower *l, LLVMValueRef end)
{
    Emit *e = l->e;
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef steps = gx_i32(l->k, (uint32_t)l->stream.of.steps),
                 tile = LLVMBuildSub(b, end, gx_i32(l->k, 1), "");
    tile = LLVMBuildUDiv(b, tile, steps, "");
    LLVMValueRef begin = LLVMBuildMul(b, tile, steps, ""), from = l->stream.begin;
    from = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, from, begin, ""), from, begin,
                           "");
    begin_tile(l, tile);
    prepare(l);
    LLVMValueRef *sums = run_loop(l, to_index(e, LLVMBuildSub(b, from, begin, "")),
                                  to_index(e, LLVMBuildSub(b, end, begin, "")));
    LLVMValueRef behind = LLVMBuildAdd(b, begin, steps, "");
    GxIf has_last;
    emit_if_begin(e, &has_last, LLVMBuildICmp(b, LLVMIntNE, end, behind, ""));
    stream_tell(l, sums);
    emit_if_else(e, &has_last, NULL, 0);
    stream_hear(l, begin, from, sums);
    store_results(l, sums);
    emit_if_end(e, &has_last, NULL, 0, NULL);
    return from;
}

/* Tile by tile of the block's run, from its end on. */
static void run_stream(TileLower *l)
{
    LLVMBuilderRef b = l->k->builder;
    stream_begin(l);
    LLVMValueRef end = l->stream.end;
    GxLoop tiles;
    gx_while_begin(l->k, &tiles, &end, 1);
    gx_while_body(l->k, &tiles, LLVMBuildICmp(b, LLVMIntUGT, end, l->stream.begin, ""));
    emit_scope_begin(l->e);
    LLVMValueRef next = run_last_tile(l, end);
    gx_barrier(l->k); /* shared memory is filled anew */
    emit_scope_end(l->e);
    gx_while_end(l->k, &tiles, &next);
}

Kernel *emitter_tile(const EmitterInput *in)
{
    const char *why;
    const TileMapping *m = kernel_tile_mapping(in->design, in->arena, &why);
    TileLower l = {.in = in,
                   .m = m,
                   .p = m->program,
                   .panels = tile_panels(m->program, in->design->config.panel)};
    l.stream.of = tile_stream(in->design, m);
    if (l.stream.of.blocks != 0) {
        begin_kernel(&l, m->shared_bytes);
        run_stream(&l);
    } else {
        tile_lower_begin(&l, m->shared_bytes);
        prepare(&l);
        store_results(&l, run_loop(&l, NULL, NULL));
    }
    return emitter_finish(in, l.e);
}
