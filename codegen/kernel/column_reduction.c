/* The column reduction emitter: neighbouring threads make neighbouring results, so that what they read
 * lies side by side; the threads of a block that share results split the columns and meet in shared
 * memory. All of them then know the results, so that later reductions of the same columns, and results
 * with an element for each column, are made in the same kernel: those that need no reduction on the way, while
 * what they are made of is at hand.
 *
 * Where several blocks share results, each leaves what it found in memory; the last of them to be done combines all,
 * in the order of the blocks' numbers, and goes on alone. */
#include <string.h>

#include "codegen/kernel/distribution.h"
#include "codegen/kernel/partials.h"
#include "codegen/kernel/threads.h"
#include "ir/base/divide.h"
#include "ir/kernel/reduction.h"

typedef struct Columns {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    uint32_t first, count; /* heroes of the stage that is made now */
    Reducer *reducers;     /* [plan->hero_count] */
    uint32_t stage_values; /* accumulators of one result in it */
    uint32_t lanes;        /* results of a thread */
    uint32_t width;        /* threads side by side */
    uint32_t splits;       /* threads that share a result */
    uint32_t unroll;       /* columns that a thread reads at a time */
    uint32_t blocks;       /* that share a result */
    LLVMValueRef x, y;     /* i32: threads */
    LLVMValueRef group,
        block; /* i32: of the blocks that share results: which; the number among them */
    LLVMValueRef in_range; /* i1: the results exist; NULL: always */
    const IndexExpr *row;  /* of lane 0 */
} Columns;

/* -- results of elements --------------------------------------------------------------------------- */

static void store_element(const Columns *c, uint32_t result, const IndexExpr *row,
                          const IndexExpr *column)
{
    const IndexExpr *at[EMIT_MOST_RANK];
    reduction_result_index(c->e->ix, c->plan, fusion_result(c->in->fusion, result).shape,
                           row, column, at);
    emit_result(c->e, c->in->fusion, result, at);
}

/* The last heroes that read what is in memory: an early result may be written over it. */
static bool is_last_reading(const Columns *c)
{
    uint32_t next = c->first + c->count;
    return c->plan->stage[c->first] == 0 &&
           (next == c->plan->hero_count || c->plan->stage[next] != 0);
}

/* What needs no hero. */
static void store_early(const Columns *c, const IndexExpr *row, const IndexExpr *column)
{
    for (uint32_t i = 0; i < fusion_result_count(c->in->fusion); i++) {
        if (c->plan->is_early[i] && is_last_reading(c))
            store_element(c, i, row, column);
    }
}

/* -- accumulating --------------------------------------------------------------------------------- */

/* carried: [stage_values][lanes]. A computation that is not simple takes the initial value once, before the
 * first column: all threads but the first start with a column. */
static void accumulate(Emit *e, const void *user, const IndexExpr *column,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    const Columns *c = user;
    const IndexExpr *row = ix_add(e->ix, c->row, emit_lane(e));
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        const Reducer *r = &c->reducers[h];
        const IndexExpr *at[EMIT_MOST_RANK];
        LLVMValueRef values[REDUCER_MOST][EMIT_MOST_LANES], sum[REDUCER_MOST],
            next[REDUCER_MOST];
        reduction_operand_index(e->ix, r->inst, row, column, at);
        for (uint32_t i = 0; i < r->count; i++)
            emit_element(e, r->inst->operands[i], at, values[i]);
        c->k->at = r->inst->name;
        for (uint32_t v = 0; v < c->lanes; v++) {
            for (uint32_t i = 0; i < r->count; i++) {
                next[i] = reducer_widen(r, i, values[i][v]);
                sum[i] = carried[i * c->lanes + v];
            }
            reducer_add(r, is_start, next, sum);
            for (uint32_t i = 0; i < r->count; i++)
                carried[i * c->lanes + v] = sum[i];
        }
        carried += r->count * c->lanes;
    }
    store_early(c, row, column);
}

static void for_columns(Columns *c, bool in_order, DistributionFn *body,
                        LLVMValueRef *carried, unsigned count)
{
    LLVMValueRef thread = c->y;
    if (c->blocks > 1) {
        LLVMValueRef before = gx_mul_natural(c->k, c->block, gx_i32(c->k, c->splits));
        thread = gx_add_natural(c->k, before, c->y);
    }
    Distribution s = {.thread = to_index(c->e, thread),
                      .threads = (int64_t)c->splits * c->blocks,
                      .items = c->plan->columns,
                      .in_order = in_order,
                      .unroll = c->unroll};
    c->e->lanes = c->lanes;
    distribute_items(c->e, &s, body, c, carried, count);
    c->e->lanes = 1;
}

/* By the threads whose rows exist: one that reads another's could do so after that has stored an early result. */
static void walk_columns(Columns *c, bool in_order, LLVMValueRef *carried, unsigned count)
{
    GxIf exists;
    LLVMValueRef *start = arena_copy(c->in->arena, carried, count * sizeof *carried);
    emit_if_begin(c->e, &exists, c->in_range);
    for_columns(c, in_order, accumulate, carried, count);
    emit_if_end_or(c->e, &exists, carried, start, count);
}

/* -- combining ---------------------------------------------------------------------------------------- */

/* Where thread (x, y) keeps a value of lane v: [values][lanes] arrays of [splits][width]. */
static LLVMValueRef slot(Columns *c, uint32_t base, unsigned bytes, LLVMValueRef y,
                         uint32_t v)
{
    Kernel *k = c->k;
    uint32_t fixed = base + v * c->splits * c->width * bytes;
    LLVMValueRef x =
        gx_mul_natural(k, c->x, gx_i32(k, bytes)); /* the same of all slots */
    LLVMValueRef row = gx_mul_natural(k, y, gx_i32(k, c->width * bytes));
    row = fixed == 0 ? row : gx_add_natural(k, row, gx_i32(k, fixed));
    return gx_add_natural(k, x, row);
}

/* What split y found: [stage_values][lanes]. */
static void load_splits(Columns *c, const uint32_t *base, LLVMValueRef y,
                        LLVMValueRef *out)
{
    uint32_t n = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        for (uint32_t i = 0; i < c->reducers[h].count; i++, n++) {
            DType t = c->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < c->lanes; v++)
                out[n * c->lanes + v] =
                    shared_load(c->e, t, slot(c, base[n], shared_bytes(t), y, v));
        }
    }
}

/* Adds what another split found to the stage's sums. */
static void combine_split(const Columns *c, const LLVMValueRef *found, LLVMValueRef *sums)
{
    LLVMValueRef sum[REDUCER_MOST], other[REDUCER_MOST];
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        const Reducer *r = &c->reducers[h];
        for (uint32_t v = 0; v < c->lanes; v++) {
            for (uint32_t i = 0; i < r->count; i++) {
                sum[i] = sums[i * c->lanes + v];
                other[i] = found[i * c->lanes + v];
            }
            reducer_combine(r, sum, other, sum);
            for (uint32_t i = 0; i < r->count; i++)
                sums[i * c->lanes + v] = sum[i];
        }
        found += r->count * c->lanes;
        sums += r->count * c->lanes;
    }
}

/* Those of `count` splits from `first` on, which are all loaded before the first is added. */
static void combine_some(Columns *c, const uint32_t *base, LLVMValueRef first,
                         uint32_t count, LLVMValueRef *sums)
{
    uint32_t values = c->stage_values * c->lanes;
    LLVMValueRef *found = ARENA_ARRAY(c->in->arena, LLVMValueRef, (size_t)count * values);
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef y = LLVMBuildAdd(c->k->builder, first, gx_i32(c->k, i), "");
        load_splits(c, base, y, &found[(size_t)i * values]);
    }
    for (uint32_t i = 0; i < count; i++)
        combine_split(c, &found[(size_t)i * values], sums);
}

/* Combines what all threads that share results found, in each of them. */
static void combine_splits(Columns *c, const uint32_t *base, LLVMValueRef *carried)
{
    Kernel *k = c->k;
    unsigned count = c->stage_values * c->lanes;
    uint32_t together = reduction_splits_together(c->splits, count);
    load_splits(c, base, gx_i32(k, 0), carried);
    combine_some(c, base, gx_i32(k, 1), together - 1, carried);
    if (c->splits == together)
        return;
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_i32(k, together), gx_i32(k, c->splits),
                  gx_i32(k, together), carried, count);
    LLVMValueRef *next = arena_copy(c->in->arena, carried, count * sizeof *carried);
    combine_some(c, base, loop.index, together, next);
    gx_loop_end(k, &loop, next);
}

/* Shared memory for what the splits find. */
static void find_room(Columns *c, uint32_t *base)
{
    uint32_t n = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        for (uint32_t i = 0; i < c->reducers[h].count; i++, n++) {
            unsigned bytes = shared_bytes(c->reducers[h].accumulator[i]);
            base[n] = gx_shared_alloc(
                c->k, (uint64_t)bytes * c->lanes * c->splits * c->width, bytes);
        }
    }
}

static void share(Columns *c, const uint32_t *base, const LLVMValueRef *carried)
{
    uint32_t n = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        for (uint32_t i = 0; i < c->reducers[h].count; i++, n++) {
            DType t = c->reducers[h].accumulator[i];
            unsigned bytes = shared_bytes(t);
            for (uint32_t v = 0; v < c->lanes; v++)
                shared_store(c->e, t, slot(c, base[n], bytes, c->y, v),
                             carried[n * c->lanes + v]);
        }
    }
}

/* The splits of the block combine what they found. */
static void meet(Columns *c, const uint32_t *base, LLVMValueRef *carried)
{
    if (c->splits == 1)
        return;
    share(c, base, carried);
    gx_barrier(c->k);
    combine_splits(c, base, carried);
}

/* -- blocks that share results -------------------------------------------------------------------------- */

/* Threads side by side have neighbours. */
static Partials partials_of(const Columns *c)
{
    return (Partials){.in = c->in,
                      .e = c->e,
                      .plan = c->plan,
                      .reducers = c->reducers,
                      .blocks = c->blocks,
                      .group = c->group,
                      .block = c->block,
                      .row = c->row,
                      .in_range = c->in_range,
                      .row_step = 1,
                      .block_step = c->plan->rows,
                      .lanes = c->lanes};
}

/* Adds what a block has left. */
static void take_partials(Emit *e, const void *user, const IndexExpr *block,
                          LLVMValueRef is_start, LLVMValueRef *carried)
{
    const Columns *c = user;
    Partials p = partials_of(c);
    LLVMValueRef found[REDUCER_MOST];
    (void)e;
    (void)is_start;
    partials_take(&p, block, found);
    combine_split(c, found, carried);
}

/* By the block that is the last: its splits share out what all have left. */
static void combine_blocks(Columns *c, const uint32_t *base, LLVMValueRef *carried)
{
    Distribution s = {.thread = to_index(c->e, c->y),
                      .threads = c->splits,
                      .items = c->blocks,
                      .unroll = partials_unroll(c->stage_values * c->lanes)};
    GxIf exists;
    uint32_t count = c->stage_values * c->lanes;
    LLVMValueRef *start = arena_copy(c->in->arena, carried, count * sizeof *carried);
    emit_if_begin(c->e, &exists, c->in_range);
    distribute_items(c->e, &s, take_partials, c, carried, count);
    emit_if_end_or(c->e, &exists, carried, start, count);
    meet(c, base, carried);
}

/* -- stages ------------------------------------------------------------------------------------------- */

static void store_results(Columns *c);

/* What the heroes are, and what is made of them. */
static void finish_stage(Columns *c, const LLVMValueRef *from)
{
    Emit *e = c->e;
    e->lanes = c->lanes;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        const Reducer *r = &c->reducers[h];
        LLVMValueRef results[REDUCER_MOST], sum[REDUCER_MOST];
        for (uint32_t v = 0; v < c->lanes; v++) {
            for (uint32_t i = 0; i < r->count; i++)
                sum[i] = from[i * c->lanes + v];
            reducer_finish(r, sum, sum);
            for (uint32_t i = 0; i < r->count; i++)
                results[i * c->lanes + v] = sum[i];
        }
        emit_preset_lanes(e, r->inst, results);
        from += r->count * c->lanes;
    }
    e->lanes = 1;
}

/* All that is left to do, by the last block. carried: what this one found; start: nothing. */
static void finish_together(Columns *c, const uint32_t *base, const LLVMValueRef *carried,
                            LLVMValueRef *start)
{
    Partials p = partials_of(c);
    GxIf last;
    partials_leave(&p, c->y, carried);
    emit_if_begin(c->e, &last, partials_are_complete(&p));
    combine_blocks(c, base, start);
    finish_stage(c, start);
    store_results(c);
    emit_if_end(c->e, &last, NULL, 0, NULL);
}

/* The heroes from c->first on that are of one stage and fit: makes them, and their values known. */
static void reduce_stage(Columns *c)
{
    Emit *e = c->e;
    LLVMValueRef carried[REDUCER_MOST], none[REDUCER_MOST];
    uint32_t base[REDUCER_MOST], n = 0;
    bool needs_order = false; /* a computation may prefer what comes first */
    c->stage_values = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        Reducer *r = &c->reducers[h];
        LLVMValueRef start[REDUCER_MOST];
        reducer_begin(r, e, c->plan->heroes[h]);
        reducer_start(r, start);
        needs_order |= !r->is_simple;
        c->stage_values += r->count;
        for (uint32_t i = 0; i < r->count * c->lanes; i++)
            carried[n++] = start[i / c->lanes];
    }
    memcpy(none, carried, n * sizeof *none);
    walk_columns(c, needs_order, carried, n);
    if (c->splits > 1)
        find_room(c, base);
    meet(c, base, carried);
    if (c->blocks > 1)
        finish_together(c, base, carried, none);
    else
        finish_stage(c, carried);
}

/* -- results ------------------------------------------------------------------------------------------ */

/* The results of one kind: with an element for each column, or one for all. */
static void store(const Columns *c, bool full, const IndexExpr *column)
{
    Emit *e = c->e;
    const Instruction *fusion = c->in->fusion;
    const IndexExpr *row = ix_add(e->ix, c->row, emit_lane(e));
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        bool is_full = reduction_is_full(c->plan, fusion_result(fusion, i).shape);
        if (is_full == full && !c->plan->is_early[i])
            store_element(c, i, row, column);
    }
}

static void store_column(Emit *e, const void *user, const IndexExpr *column,
                         LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)e;
    (void)is_start;
    (void)carried;
    store(user, true, column);
}

static void store_results(Columns *c)
{
    Emit *e = c->e;
    bool has_rows = false;
    for (uint32_t i = 0; i < fusion_result_count(c->in->fusion); i++)
        has_rows |= !reduction_is_full(c->plan, fusion_result(c->in->fusion, i).shape);
    GxIf exists, first;
    if (c->in_range != NULL)
        gx_if_begin(c->k, &exists, c->in_range);
    emit_scope_begin(e);
    if (c->plan->has_late)
        for_columns(c, false, store_column, NULL, 0);
    if (has_rows) {
        gx_if_begin(c->k, &first,
                    LLVMBuildICmp(c->k->builder, LLVMIntEQ, c->y, gx_i32(c->k, 0), ""));
        emit_scope_begin(e);
        e->lanes = c->lanes;
        store(c, false, NULL);
        e->lanes = 1;
        emit_scope_end(e);
        gx_if_end(c->k, &first, NULL, 0, NULL);
    }
    emit_scope_end(e);
    if (c->in_range != NULL)
        gx_if_end(c->k, &exists, NULL, 0, NULL);
}

/* Which results a thread has. Those behind the last ones make them once more, as barriers need them, and store
 * nothing. */
static void find_results(Columns *c)
{
    Emit *e = c->e;
    LLVMBuilderRef b = c->k->builder;
    int64_t threads = c->plan->rows / c->lanes;
    c->x = gx_tid(c->k, 0);
    c->y = gx_tid(c->k, 1);
    LLVMValueRef thread = emit_thread_number(e);
    if (c->blocks > 1) {
        uint32_t groups = (uint32_t)ceil_div(threads, c->width);
        c->group = LLVMBuildURem(b, gx_ctaid(c->k, 0), gx_i32(c->k, groups), "");
        c->block = LLVMBuildUDiv(b, gx_ctaid(c->k, 0), gx_i32(c->k, groups), "");
        thread =
            gx_mul_natural(c->k, to_index(e, c->group), emit_index_constant(e, c->width));
        thread = gx_add_natural(c->k, thread, to_index(e, c->x));
    }
    if (threads % c->width != 0) {
        LLVMValueRef last = emit_index_constant(e, threads - 1);
        c->in_range = LLVMBuildICmp(b, LLVMIntSLE, thread, last, "");
        thread = LLVMBuildSelect(b, c->in_range, thread, last, "");
    }
    c->row = ix_mul(e->ix, emit_variable(e, thread, (Range){0, threads - 1}), c->lanes);
}

Kernel *emitter_column_reduction(const EmitterInput *in)
{
    const KernelConfig *config = &in->design->config;
    Columns c = {.in = in,
                 .plan = in->design->plan.reduction,
                 .lanes = (uint32_t)config->lanes.data[0],
                 .width = (uint32_t)config->width,
                 .splits = (uint32_t)config->splits,
                 .unroll = (uint32_t)config->unroll,
                 .blocks = (uint32_t)config->column_blocks};
    c.e = emitter_begin(in);
    c.k = c.e->k;
    find_results(&c);
    c.reducers = ARENA_ARRAY(in->arena, Reducer, c.plan->hero_count);
    for (c.first = 0; c.first < c.plan->hero_count; c.first += c.count) {
        c.count = reduction_stage(c.plan, c.first, config->carried, &c.stage_values);
        reduce_stage(&c);
    }
    if (c.blocks == 1)
        store_results(&c);
    return emitter_finish(in, c.e);
}
