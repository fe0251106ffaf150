/* The row reduction emitter: a group of threads - a part of a warp, or several warps - reduces each
 * row, with shuffles and, between warps, shared memory; all of them then know the result, so that what
 * depends on it - later reductions of the row, a result with an element for each column - is made in
 * the same kernel.
 *
 * Where several blocks share a row, each leaves what it found in memory; the last of them to be done combines all, in
 * the order of the blocks' numbers, and goes on alone. */
#include <string.h>

#include "codegen/kernel/partials.h"
#include "codegen/kernel/rows.h"
#include "codegen/kernel/threads.h"

typedef struct Stage {
    Rows *rows;
    Reducer *reducers;
    uint32_t count, values;      /* reductions; accumulators of all */
    uint32_t base[REDUCER_MOST]; /* [values] shared memory of each, where warps meet */
    bool needs_order; /* of the columns: one of them may prefer what comes first */
} Stage;

/* -- loops over the columns --------------------------------------------------------------------- */

void rows_for_columns(Rows *r, bool in_order, DistributionFn *body, const void *user,
                      LLVMValueRef *carried, unsigned count)
{
    bool keeps = r->keeps && !in_order;
    LLVMValueRef thread = r->thread;
    if (r->blocks > 1) {
        LLVMValueRef before = gx_mul_natural(r->k, r->block, gx_i32(r->k, r->group));
        thread = to_index(r->e, gx_add_natural(r->k, before, r->number));
    }
    Distribution s = {.thread = thread,
                      .threads = (int64_t)r->group * r->blocks,
                      .items = reduction_accesses(r->plan, r->width),
                      .in_order = in_order,
                      .kept = keeps ? &r->kept : NULL};
    r->lanes = r->e->lanes = r->width;
    distribute_items(r->e, &s, body, user, carried, count);
    r->lanes = r->e->lanes = 1;
    s.items = reduction_ends(r->plan, r->width);
    s.kept = keeps ? &r->kept_ends : NULL;
    r->at_ends = true;
    if (s.items != 0)
        distribute_items(r->e, &s, body, user, carried, count);
    r->at_ends = false;
}

const IndexExpr *rows_column(const Rows *r, const IndexExpr *item)
{
    IndexContext *ix = r->e->ix;
    if (r->at_ends)
        return reduction_end_column(ix, r->plan, r->width, r->row, item);
    return ix_add(ix, reduction_access_column(ix, r->plan, r->width, r->row, item),
                  emit_lane(r->e));
}

/* -- reductions ------------------------------------------------------------------------------------ */

/* A computation that is not simple takes the initial value once, before the first column: all threads but the
 * first start with a column. */
static void accumulate(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    const Stage *s = user;
    const Rows *r = s->rows;
    const IndexExpr *column = rows_column(r, item);
    for (uint32_t h = 0; h < s->count; h++) {
        const Reducer *reducer = &s->reducers[h];
        const IndexExpr *at[EMIT_MOST_RANK];
        LLVMValueRef values[REDUCER_MOST][EMIT_MOST_LANES], next[REDUCER_MOST];
        reduction_operand_index(e->ix, reducer->inst, r->row, column, at);
        for (uint32_t i = 0; i < reducer->count; i++)
            emit_element(e, reducer->inst->operands[i], at, values[i]);
        r->k->at = reducer->inst->name;
        for (uint32_t v = 0; v < r->lanes; v++) {
            for (uint32_t i = 0; i < reducer->count; i++)
                next[i] = reducer_widen(reducer, i, values[i][v]);
            reducer_add(reducer, v == 0 ? is_start : NULL, next, carried);
        }
        carried += reducer->count;
    }
}

/* Threads that combine what they found; those from `active` on had no columns. */
typedef struct Team {
    uint32_t threads, active;
    LLVMValueRef thread; /* i32: number in the team; modulo 32 that of its lane */
} Team;

static void exchange(Kernel *k, const Reducer *reducer, LLVMValueRef condition,
                     LLVMValueRef *a, LLVMValueRef *b)
{
    for (uint32_t i = 0; i < reducer->count; i++) {
        LLVMValueRef first = LLVMBuildSelect(k->builder, condition, b[i], a[i], "");
        b[i] = LLVMBuildSelect(k->builder, condition, a[i], b[i], "");
        a[i] = first;
    }
}

/* By a computation that is not simple: what comes first in the row stands first, so all threads find the
 * same, and one that prefers its first value (the first NaN of an argmax) gets it. `other` is of the
 * threads whose number differs by `mask`: where the upper ones had no columns, the lower ones' values stay. */
static void combine_in_order(Kernel *k, const Reducer *reducer, const Team *team,
                             uint32_t mask, LLVMValueRef *values, LLVMValueRef *other)
{
    LLVMBuilderRef b = k->builder;
    int32_t position = reducer->position;
    bool is_partial = team->active < team->threads;
    LLVMValueRef lower[REDUCER_MOST], bits = gx_i32(k, mask);
    if (position < 0 || is_partial) {
        LLVMValueRef bit = LLVMBuildAnd(b, team->thread, bits, "");
        exchange(k, reducer, LLVMBuildICmp(b, LLVMIntNE, bit, gx_i32(k, 0), ""), values,
                 other);
    }
    for (uint32_t i = 0; i < reducer->count; i++)
        lower[i] = values[i];
    if (position >= 0)
        exchange(k, reducer,
                 LLVMBuildICmp(b, LLVMIntUGT, values[position], other[position], ""),
                 values, other);
    reducer_combine(reducer, values, other, values);
    if (!is_partial)
        return;
    LLVMValueRef upper = LLVMBuildAnd(b, LLVMBuildOr(b, team->thread, bits, ""),
                                      gx_i32(k, ~(mask - 1)), "");
    LLVMValueRef has = LLVMBuildICmp(b, LLVMIntULT, upper, gx_i32(k, team->active), "");
    for (uint32_t i = 0; i < reducer->count; i++)
        values[i] = LLVMBuildSelect(b, has, values[i], lower[i], "");
}

/* Neighbours first; all lanes find the same. */
static void combine_lanes(Rows *r, const Reducer *reducer, const Team *team,
                          LLVMValueRef *values)
{
    uint32_t width = team->threads < 32 ? team->threads : 32;
    for (uint32_t mask = 1; mask < width; mask *= 2) {
        LLVMValueRef other[REDUCER_MOST];
        for (uint32_t i = 0; i < reducer->count; i++)
            other[i] =
                shuffle_bfly(r->e, reducer->accumulator[i], values[i], mask, width);
        if (reducer->is_simple)
            reducer_combine(reducer, values, other, values);
        else
            combine_in_order(r->k, reducer, team, mask, values, other);
    }
}

/* Threads of a row in a block that have columns. */
static uint32_t active_threads(const Rows *r)
{
    int64_t items = reduction_accesses(r->plan, r->width);
    return items < r->group ? (uint32_t)items : r->group;
}

static void find_room(const Rows *r, Stage *s)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < s->count && r->group > 32; h++) {
        for (uint32_t i = 0; i < s->reducers[h].count; i++, n++) {
            unsigned bytes = shared_bytes(s->reducers[h].accumulator[i]);
            s->base[n] =
                gx_shared_alloc(r->k, (uint64_t)bytes * r->k->block[0] / 32, bytes);
        }
    }
}

/* Each warp leaves its values in shared memory; each then combines all of them. */
static void combine_warps(Rows *r, const Stage *s, LLVMValueRef *values)
{
    Emit *e = r->e;
    Kernel *k = r->k;
    LLVMBuilderRef b = k->builder;
    uint32_t warps = r->group / 32, n = 0;
    LLVMValueRef thread = gx_tid(k, 0);
    LLVMValueRef warp = LLVMBuildLShr(b, thread, gx_i32(k, 5), ""), lane = gx_lane(k);
    /* values of the group's warps lie side by side */
    LLVMValueRef first = LLVMBuildMul(b, r->local, gx_i32(k, warps), "");
    Team team = {.threads = warps,
                 .active = (active_threads(r) + 31) / 32,
                 .thread = LLVMBuildAnd(b, lane, gx_i32(k, warps - 1), "")};
    LLVMValueRef mine = LLVMBuildAdd(b, first, team.thread, "");
    GxIf leader;
    gx_if_begin(k, &leader, LLVMBuildICmp(b, LLVMIntEQ, lane, gx_i32(k, 0), ""));
    for (uint32_t h = 0; h < s->count; h++) {
        for (uint32_t i = 0; i < s->reducers[h].count; i++, n++) {
            DType t = s->reducers[h].accumulator[i];
            shared_store(e, t, element_offset(e, s->base[n], warp, shared_bytes(t)),
                         values[n]);
        }
    }
    gx_if_end(k, &leader, NULL, 0, NULL);
    gx_barrier(k);
    n = 0;
    for (uint32_t h = 0; h < s->count; h++) {
        const Reducer *reducer = &s->reducers[h];
        for (uint32_t i = 0; i < reducer->count; i++) {
            DType t = reducer->accumulator[i];
            values[n + i] = shared_load(
                e, t, element_offset(e, s->base[n + i], mine, shared_bytes(t)));
        }
        combine_lanes(r, reducer, &team, values + n);
        n += reducer->count;
    }
}

/* The threads of the group combine what they found, in each of them. */
static void meet(Rows *r, const Stage *s, LLVMValueRef *values)
{
    Team team = {.threads = r->group, .active = active_threads(r), .thread = r->number};
    LLVMValueRef *v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        r->k->at = s->reducers[h].inst->name;
        combine_lanes(r, &s->reducers[h], &team, v);
        v += s->reducers[h].count;
    }
    if (r->group > 32)
        combine_warps(r, s, values);
}

/* What the heroes are. */
static void finish(Rows *r, const Stage *s, const LLVMValueRef *values)
{
    for (uint32_t h = 0; h < s->count; h++) {
        LLVMValueRef results[REDUCER_MOST];
        reducer_finish(&s->reducers[h], values, results);
        emit_preset(r->e, s->reducers[h].inst, results);
        values += s->reducers[h].count;
    }
}

/* -- blocks that share rows ----------------------------------------------------------------------- */

/* Those of a row lie side by side. */
static Partials partials_of(const Stage *s)
{
    const Rows *r = s->rows;
    return (Partials){.in = r->in,
                      .e = r->e,
                      .plan = r->plan,
                      .reducers = s->reducers,
                      .blocks = r->blocks,
                      .group = r->block_rows,
                      .block = r->block,
                      .row = r->row,
                      .in_range = r->in_range,
                      .row_step = r->blocks,
                      .block_step = 1,
                      .lanes = 1};
}

/* Adds what a block has left. */
static void take_partials(Emit *e, const void *user, const IndexExpr *block,
                          LLVMValueRef is_start, LLVMValueRef *carried)
{
    const Stage *s = user;
    Partials p = partials_of(s);
    LLVMValueRef found[REDUCER_MOST], *v = found;
    (void)e;
    (void)is_start;
    partials_take(&p, block, found);
    for (uint32_t h = 0; h < s->count; h++) {
        reducer_combine(&s->reducers[h], carried, v, carried);
        carried += s->reducers[h].count;
        v += s->reducers[h].count;
    }
}

/* All that is left to do, by the last block, whose threads share out what all have left. found: by this one; values:
 * nothing yet. */
static void finish_together(Rows *r, const Stage *s, const LLVMValueRef *found,
                            LLVMValueRef *values)
{
    Distribution all = {.thread = r->thread,
                        .threads = r->group,
                        .items = r->blocks,
                        .unroll = partials_unroll(s->values)};
    Partials p = partials_of(s);
    GxIf last;
    partials_leave(&p, r->number, found);
    emit_if_begin(r->e, &last, partials_are_complete(&p));
    distribute_items(r->e, &all, take_partials, s, values, s->values);
    meet(r, s, values);
    finish(r, s, values);
    rows_store(r);
    emit_if_end(r->e, &last, NULL, 0, NULL);
}

/* -- stages ----------------------------------------------------------------------------------------- */

static void reduce(Rows *r, Stage *s)
{
    LLVMValueRef values[REDUCER_MOST], none[REDUCER_MOST], *v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        reducer_start(&s->reducers[h], v);
        v += s->reducers[h].count;
    }
    memcpy(none, values, s->values * sizeof *none);
    rows_for_columns(r, s->needs_order, accumulate, s, values, s->values);
    find_room(r, s);
    meet(r, s, values);
    if (r->blocks > 1)
        finish_together(r, s, values, none);
    else
        finish(r, s, values);
}

/* Heroes of one stage go round one loop, as many as its accumulators allow. */
uint32_t rows_reduce(Rows *r)
{
    const ReductionPlan *p = r->plan;
    uint32_t loops = 0;
    Stage s = {.rows = r, .reducers = ARENA_ARRAY(r->in->arena, Reducer, p->hero_count)};
    for (uint32_t first = 0; first < p->hero_count; first += s.count) {
        s.count = reduction_stage(p, first, r->in->design->config.carried, &s.values);
        s.needs_order = false;
        for (uint32_t h = 0; h < s.count; h++) {
            reducer_begin(&s.reducers[h], r->e, p->heroes[first + h]);
            s.needs_order |= reducer_needs_order(&s.reducers[h]);
        }
        reduce(r, &s);
        loops++;
    }
    return loops;
}

/* -- results ----------------------------------------------------------------------------------------- */

/* A position in the row; NULL: the row as a whole. */
typedef struct RowIndex {
    const Rows *rows;
    const IndexExpr *column;
} RowIndex;

static bool index_in_row(Emit *e, const void *user, const Shape *result,
                         const IndexExpr **index)
{
    const RowIndex *at = user;
    const Rows *r = at->rows;
    if (at->column != NULL ? !reduction_is_full(r->plan, result)
                           : !reduction_is_row(r->plan, result))
        return false;
    reduction_result_index(e->ix, r->plan, result, r->row, at->column, index);
    return true;
}

static void store_full(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)is_start;
    (void)carried;
    const Rows *r = user;
    RowIndex at = {r, rows_column(r, item)};
    emit_results(e, r->in, index_in_row, &at);
}

static void store_rows(Rows *r)
{
    LLVMValueRef is_first = LLVMBuildICmp(r->k->builder, LLVMIntEQ, r->thread,
                                          emit_index_constant(r->e, 0), "");
    RowIndex at = {r, NULL};
    GxIf first;
    gx_if_begin(r->k, &first, is_first);
    emit_scope_begin(r->e);
    emit_results(r->e, r->in, index_in_row, &at);
    emit_scope_end(r->e);
    gx_if_end(r->k, &first, NULL, 0, NULL);
}

void rows_store(Rows *r)
{
    bool has_rows = false;
    for (uint32_t i = 0; i < fusion_result_count(r->in->fusion); i++)
        has_rows |= reduction_is_row(r->plan, fusion_result(r->in->fusion, i).shape);
    GxIf exists;
    if (r->in_range != NULL)
        gx_if_begin(r->k, &exists, r->in_range);
    if (r->plan->has_full)
        rows_for_columns(r, false, store_full, r, NULL, 0);
    if (has_rows)
        store_rows(r);
    if (r->in_range != NULL)
        gx_if_end(r->k, &exists, NULL, 0, NULL);
}

/* -- the kernel --------------------------------------------------------------------------------------- */

Rows rows_begin(const EmitterInput *in)
{
    const KernelConfig *c = &in->design->config;
    Rows r = {.in = in,
              .plan = in->design->plan.reduction,
              .width = (uint32_t)c->lanes.data[0],
              .lanes = 1,
              .group = (uint32_t)c->group,
              .blocks = 1,
              .keeps = c->keep_row};
    r.e = emitter_begin(in);
    r.k = r.e->k;
    LLVMBuilderRef b = r.k->builder;
    LLVMValueRef tid = gx_tid(r.k, 0), group = gx_i32(r.k, r.group);
    r.number = LLVMBuildURem(b, tid, group, "");
    r.thread = to_index(r.e, r.number);
    r.local = LLVMBuildUDiv(b, tid, group, "");
    return r;
}

/* Which row this thread has; blocks that share rows follow one another. Threads behind the last row do it once more,
 * as shuffles and barriers need them, and store nothing. */
static void find_row(Rows *r, uint32_t rows_per_block)
{
    Emit *e = r->e;
    Kernel *k = r->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef block = gx_ctaid(k, 0);
    if (r->blocks > 1) {
        r->block = LLVMBuildURem(b, block, gx_i32(k, r->blocks), "");
        r->block_rows = block = LLVMBuildUDiv(b, block, gx_i32(k, r->blocks), "");
    }
    LLVMValueRef first =
        gx_mul_natural(k, to_index(e, block), emit_index_constant(e, rows_per_block));
    LLVMValueRef row = gx_add_natural(k, first, to_index(e, r->local));
    int64_t rows = r->plan->rows;
    if (rows % rows_per_block != 0) {
        LLVMValueRef last = emit_index_constant(e, rows - 1);
        r->in_range = LLVMBuildICmp(b, LLVMIntSLE, row, last, "");
        row = LLVMBuildSelect(b, r->in_range, row, last, "");
    }
    r->row = emit_variable(e, row, (Range){0, rows - 1});
}

Kernel *emitter_row_reduction(const EmitterInput *in)
{
    const KernelConfig *c = &in->design->config;
    Rows r = rows_begin(in);
    r.blocks = (uint32_t)c->column_blocks;
    find_row(&r, (uint32_t)(c->block / c->group));
    rows_reduce(&r);
    if (r.blocks == 1)
        rows_store(&r);
    return emitter_finish(in, r.e);
}
