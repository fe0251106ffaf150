/* The row reduction emitter: a group of threads - a part of a warp, or several warps - reduces each
 * row, with shuffles and, between warps, shared memory; all of them then know the result, so that what
 * depends on it - later reductions of the row, a result with an element for each column - is made in
 * the same kernel. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/share.h"
#include "codegen/kernel/threads.h"
#include "ir/bug.h"
#include "ir/kernel/reduction.h"

#define ROW_THREADS 128   /* of a block, where rows take few */
#define ROW_ITEMS 4       /* accesses of a thread in a row, where the row has enough */
#define ROW_LIGHT_CODE 24 /* instructions */
#define ROW_CARRIED 16    /* accumulators in one loop */
#define ROW_KEPT_VALUES                                                                  \
    32 /* elements of arrays that a thread keeps in registers from one walk to the next */
#define ROW_KEPT_CODE 1500 /* instructions of a walk, written out for that */

typedef struct Rows {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    uint32_t lanes;        /* columns of an access */
    uint32_t group;        /* threads of a row */
    LLVMValueRef thread;   /* index: number in the group */
    LLVMValueRef number;   /* i32: the same */
    LLVMValueRef local;    /* i32: the block's row */
    LLVMValueRef in_range; /* i1: the row exists; NULL: always */
    const IndexExpr *row;
    bool keeps; /* what it reads of the row, in registers */
    ShareKept kept;
} Rows;

static uint32_t power_of_two_above(int64_t n, uint32_t most)
{
    uint32_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* Columns that a thread takes at once, for wide accesses of the arrays that have all columns. */
static uint32_t choose_lanes(const Instruction *fusion, const ReductionPlan *p,
                             Arena *arena)
{
    const Computation *comp = inst_called(fusion, 0);
    const Shape **arrays = ARENA_ARRAY(arena, const Shape *, comp->instruction_count);
    uint32_t count = 0;
    if (!p->minor_reduced || p->columns == 0 ||
        !fusion_is_plain(comp, p->heroes, p->hero_count))
        return 1;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!shape_is_array(inst->shape) ||
            (inst->op != OP_PARAMETER && inst != comp->root) ||
            shape_elements(inst->shape) < p->columns)
            continue;
        arrays[count++] = inst->shape;
    }
    uint32_t lanes = emit_access_lanes(arrays, count);
    while (lanes > 1 && p->columns % lanes != 0)
        lanes /= 2;
    return lanes;
}

static uint32_t choose_group(const Rows *r)
{
    int64_t items = r->plan->columns / r->lanes;
    if (items <= 32)
        return power_of_two_above(items, 32);
    const GpuModel *device = r->in->target != NULL ? r->in->target->device : NULL;
    uint32_t multiprocessors = device != NULL ? device->multiprocessors : 100;
    bool is_few = r->plan->rows < 2 * (int64_t)multiprocessors;
    /* much code needs more registers than a block of the largest size has */
    bool is_light = inst_called(r->in->fusion, 0)->instruction_count < ROW_LIGHT_CODE;
    uint32_t group = power_of_two_above(is_few ? items : items / ROW_ITEMS,
                                        is_few && is_light ? 1024 : 512);
    return group < 32 ? 32 : group;
}

/* The columns are walked over more than once, and those of a thread fit into its registers. */
static bool keeps_row(const Rows *r)
{
    const ReductionPlan *p = r->plan;
    const Computation *comp = inst_called(r->in->fusion, 0);
    int64_t columns = (p->columns / r->lanes + r->group - 1) / r->group * r->lanes;
    int64_t arrays = 0;
    if (p->stage[p->hero_count - 1] == 0 && !p->has_full)
        return false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        arrays += inst->op == OP_PARAMETER &&
                  shape_elements(inst->shape) >= p->rows * p->columns;
    return columns * arrays <= ROW_KEPT_VALUES &&
           columns * comp->instruction_count <= ROW_KEPT_CODE &&
           fusion_is_plain(comp, p->heroes, p->hero_count);
}

typedef struct Stage {
    Rows *rows;
    Reducer *reducers;
    uint32_t count, values; /* reductions; accumulators of all */
    bool needs_order;       /* of the columns: one of them may prefer what comes first */
} Stage;

/* -- loops over the columns --------------------------------------------------------------------- */

/* Accesses of `lanes` columns, one item each. user is body's. */
static void for_columns(Rows *r, bool in_order, ShareFn *body, const void *user,
                        LLVMValueRef *carried, unsigned count)
{
    Share s = {.thread = r->thread,
               .threads = r->group,
               .items = r->plan->columns / r->lanes,
               .in_order = in_order,
               .kept = r->keeps && !in_order ? &r->kept : NULL};
    r->e->lanes = r->lanes;
    share_items(r->e, &s, body, user, carried, count);
    r->e->lanes = 1;
}

static const IndexExpr *column_of(const Rows *r, const IndexExpr *item)
{
    return ix_add(r->e->ix, ix_mul(r->e->ix, item, r->lanes), emit_lane(r->e));
}

/* -- reductions ------------------------------------------------------------------------------------ */

/* A computation that is not simple takes the initial value once, before the first column: all threads but the
 * first start with a column. */
static void accumulate(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    const Stage *s = user;
    const Rows *r = s->rows;
    const IndexExpr *column = column_of(r, item);
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
    int32_t place = reducer->place;
    bool is_partial = team->active < team->threads;
    LLVMValueRef lower[REDUCER_MOST], bits = gx_i32(k, mask);
    if (place < 0 || is_partial) {
        LLVMValueRef bit = LLVMBuildAnd(b, team->thread, bits, "");
        exchange(k, reducer, LLVMBuildICmp(b, LLVMIntNE, bit, gx_i32(k, 0), ""), values,
                 other);
    }
    for (uint32_t i = 0; i < reducer->count; i++)
        lower[i] = values[i];
    if (place >= 0)
        exchange(k, reducer,
                 LLVMBuildICmp(b, LLVMIntUGT, values[place], other[place], ""), values,
                 other);
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

/* Threads of a row that have columns. */
static uint32_t active_threads(const Rows *r)
{
    int64_t items = r->plan->columns / r->lanes;
    return items < r->group ? (uint32_t)items : r->group;
}

/* Each warp leaves its values in shared memory; each then combines all of them. */
static void combine_warps(Rows *r, const Stage *s, LLVMValueRef *values)
{
    Emit *e = r->e;
    Kernel *k = r->k;
    LLVMBuilderRef b = k->builder;
    uint32_t warps = r->group / 32, room[ROW_CARRIED], n = 0;
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
            unsigned bytes = shared_bytes(t);
            room[n] = gx_shared_alloc(k, (uint64_t)bytes * k->block[0] / 32, bytes);
            shared_store(e, t, shared_place(e, room[n], warp, bytes), values[n]);
        }
    }
    gx_if_end(k, &leader, NULL, 0, NULL);
    gx_barrier(k);
    n = 0;
    for (uint32_t h = 0; h < s->count; h++) {
        const Reducer *reducer = &s->reducers[h];
        for (uint32_t i = 0; i < reducer->count; i++) {
            DType t = reducer->accumulator[i];
            values[n + i] =
                shared_load(e, t, shared_place(e, room[n + i], mine, shared_bytes(t)));
        }
        combine_lanes(r, reducer, &team, values + n);
        n += reducer->count;
    }
}

static void reduce(Rows *r, const Stage *s)
{
    LLVMValueRef values[ROW_CARRIED], *v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        reducer_start(&s->reducers[h], v);
        v += s->reducers[h].count;
    }
    for_columns(r, s->needs_order, accumulate, s, values, s->values);
    Team team = {.threads = r->group, .active = active_threads(r), .thread = r->number};
    v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        r->k->at = s->reducers[h].inst->name;
        combine_lanes(r, &s->reducers[h], &team, v);
        v += s->reducers[h].count;
    }
    if (r->group > 32)
        combine_warps(r, s, values);
    v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        LLVMValueRef results[REDUCER_MOST];
        reducer_finish(&s->reducers[h], v, results);
        emit_preset(r->e, s->reducers[h].inst, results);
        v += s->reducers[h].count;
    }
}

/* Heroes of one stage go round one loop, as many as its accumulators allow. */
static void reduce_all(Rows *r)
{
    const ReductionPlan *p = r->plan;
    Stage s = {.rows = r, .reducers = ARENA_ARRAY(r->in->arena, Reducer, p->hero_count)};
    for (uint32_t h = 0; h < p->hero_count; h++) {
        uint32_t values = p->heroes[h]->operand_count / 2;
        if (s.count > 0 &&
            (p->stage[h] != p->stage[h - 1] || s.values + values > ROW_CARRIED)) {
            reduce(r, &s);
            s.count = s.values = 0;
            s.needs_order = false;
        }
        reducer_begin(&s.reducers[s.count], r->e, p->heroes[h]);
        s.needs_order |= reducer_needs_order(&s.reducers[s.count++]);
        s.values += values;
    }
    reduce(r, &s);
}

/* -- results ----------------------------------------------------------------------------------------- */

static void store_full(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)is_start;
    (void)carried;
    const Rows *r = user;
    const IndexExpr *column = column_of(r, item);
    const Instruction *fusion = r->in->fusion;
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        FusionResult result = fusion_result(fusion, i);
        const IndexExpr *at[EMIT_MOST_RANK];
        if (!reduction_is_full(r->plan, result.shape))
            continue;
        reduction_result_index(e->ix, r->plan, result.shape, r->row, column, at);
        emit_result(e, fusion, i, at);
    }
}

static void store_rows(Rows *r)
{
    LLVMBuilderRef b = r->k->builder;
    const Instruction *fusion = r->in->fusion;
    LLVMValueRef is_first =
        LLVMBuildICmp(b, LLVMIntEQ, r->thread, emit_index_constant(r->e, 0), "");
    GxIf first;
    gx_if_begin(r->k, &first, is_first);
    emit_scope_begin(r->e);
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        FusionResult result = fusion_result(fusion, i);
        const IndexExpr *at[EMIT_MOST_RANK];
        if (reduction_is_full(r->plan, result.shape))
            continue;
        reduction_result_index(r->e->ix, r->plan, result.shape, r->row, NULL, at);
        emit_result(r->e, fusion, i, at);
    }
    emit_scope_end(r->e);
    gx_if_end(r->k, &first, NULL, 0, NULL);
}

static void store_all(Rows *r)
{
    bool has_rows = false;
    for (uint32_t i = 0; i < fusion_result_count(r->in->fusion); i++)
        has_rows |= !reduction_is_full(r->plan, fusion_result(r->in->fusion, i).shape);
    GxIf exists;
    if (r->in_range != NULL)
        gx_if_begin(r->k, &exists, r->in_range);
    if (r->plan->has_full)
        for_columns(r, false, store_full, r, NULL, 0);
    if (has_rows)
        store_rows(r);
    if (r->in_range != NULL)
        gx_if_end(r->k, &exists, NULL, 0, NULL);
}

/* Which row and which of its threads this thread is. Threads behind the last row do it once more, as
 * shuffles and barriers need them, and store nothing. */
static void find_row(Rows *r, uint32_t rows_per_block)
{
    Emit *e = r->e;
    Kernel *k = r->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef tid = gx_tid(k, 0), group = gx_i32(k, r->group);
    r->number = LLVMBuildURem(b, tid, group, "");
    r->thread = to_index(e, r->number);
    r->local = LLVMBuildUDiv(b, tid, group, "");
    LLVMValueRef first = LLVMBuildNSWMul(b, to_index(e, gx_ctaid(k, 0)),
                                         emit_index_constant(e, rows_per_block), "");
    LLVMValueRef row = LLVMBuildNSWAdd(b, first, to_index(e, r->local), "");
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
    const char *why;
    Rows r = {.in = in, .plan = reduction_plan(in->fusion, in->arena, &why)};
    if (r.plan == NULL)
        bug("%s is no row reduction: %s", in->fusion->name, why);
    r.lanes = choose_lanes(in->fusion, r.plan, in->arena);
    r.group = choose_group(&r);
    uint32_t threads = r.group > ROW_THREADS ? r.group : ROW_THREADS;
    while (threads > 32 && threads > r.group && threads / 2 / r.group >= r.plan->rows)
        threads /= 2;
    uint32_t per_block = threads / r.group;
    int64_t blocks = (r.plan->rows + per_block - 1) / per_block;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED, "%s has %lld rows; kernels handle up to 2^31",
                     in->fusion->name, (long long)r.plan->rows);
    r.k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                        (uint32_t[3]){threads, 1, 1},
                        (uint32_t[3]){(uint32_t)blocks, 1, 1});
    r.e = emitter_begin(in, r.k, 1);
    find_row(&r, per_block);
    r.keeps = keeps_row(&r);
    reduce_all(&r);
    store_all(&r);
    kernel_finish(r.k);
    return r.k;
}
