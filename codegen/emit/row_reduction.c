/* The row reduction emitter: a group of threads - a part of a warp, or several warps - reduces each
 * row, with shuffles and, between warps, shared memory; all of them then know the result, so that what
 * depends on it - later reductions of the row, a result with an element for each column - is made in
 * the same kernel. */
#include "codegen/emit/emitters.h"
#include "codegen/emit/reducer.h"
#include "codegen/emit/threads.h"
#include "ir/analysis/reduction.h"
#include "ir/bug.h"

#define ROW_THREADS 128   /* of a block, where rows take few */
#define ROW_ITEMS 4       /* accesses of a thread in a row, where the row has enough */
#define ROW_LIGHT_CODE 24 /* instructions */
#define ROW_CARRIED 16    /* accumulators in one loop */

typedef struct Rows {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    uint32_t lanes;        /* columns of an access */
    uint32_t group;        /* threads of a row */
    LLVMValueRef thread;   /* index: number in the group */
    LLVMValueRef local;    /* i32: the block's row */
    LLVMValueRef in_range; /* i1: the row exists; NULL: always */
    const IndexExpr *row;
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

/* -- loops over the columns --------------------------------------------------------------------- */

/* Code for `lanes` columns from `column` on; carried: the values so far, then the next ones. */
typedef void ColumnsFn(Rows *r, const void *user, const IndexExpr *column,
                       LLVMValueRef *carried);

static void one_access(Rows *r, const IndexExpr *item, ColumnsFn *body, const void *user,
                       LLVMValueRef *carried)
{
    Emit *e = r->e;
    const IndexExpr *column = ix_add(e->ix, ix_mul(e->ix, item, r->lanes), emit_lane(e));
    body(r, user, column, carried);
}

static void for_columns(Rows *r, ColumnsFn *body, const void *user, LLVMValueRef *carried,
                        unsigned count)
{
    Emit *e = r->e;
    int64_t items = r->plan->columns / r->lanes, whole = items / r->group,
            rest = items % r->group;
    e->lanes = r->lanes;
    if (whole > 0) {
        const IndexExpr *thread =
            emit_variable(e, r->thread, (Range){0, (int64_t)r->group - 1});
        GxLoop loop;
        const IndexExpr *round = ix_const(e->ix, 0);
        if (whole > 1) {
            gx_loop_begin(r->k, &loop, emit_index_constant(e, 0),
                          emit_index_constant(e, whole), emit_index_constant(e, 1),
                          carried, count);
            round = emit_variable(e, loop.index, (Range){0, whole - 1});
        }
        emit_scope_begin(e);
        one_access(r, ix_add(e->ix, ix_mul(e->ix, round, r->group), thread), body, user,
                   carried);
        emit_scope_end(e);
        if (whole > 1) {
            LLVMValueRef next[ROW_CARRIED];
            for (unsigned i = 0; i < count; i++)
                next[i] = carried[i];
            gx_loop_end(r->k, &loop, next);
        }
    }
    if (rest > 0) {
        GxIf guard;
        LLVMValueRef before[ROW_CARRIED];
        for (unsigned i = 0; i < count; i++)
            before[i] = carried[i];
        gx_if_begin(r->k, &guard,
                    LLVMBuildICmp(r->k->builder, LLVMIntULT, r->thread,
                                  emit_index_constant(e, rest), ""));
        emit_scope_begin(e);
        const IndexExpr *thread = emit_variable(e, r->thread, (Range){0, rest - 1});
        one_access(r, ix_add(e->ix, thread, ix_const(e->ix, whole * r->group)), body,
                   user, carried);
        emit_scope_end(e);
        gx_if_else(r->k, &guard, carried, count);
        gx_if_end(r->k, &guard, before, count, carried);
    }
    e->lanes = 1;
}

/* The same, each thread the columns that lie between those of its neighbours: a warp's accesses lie apart,
 * but what the threads find can be put together in the order of the columns. */
static void for_own_columns(Rows *r, ColumnsFn *body, const void *user,
                            LLVMValueRef *carried, unsigned count)
{
    Emit *e = r->e;
    int64_t items = r->plan->columns / r->lanes;
    LLVMValueRef first, end, next[ROW_CARRIED];
    GxLoop loop;
    share_in_order(e, r->thread, r->group, items, &first, &end);
    e->lanes = r->lanes;
    gx_loop_begin(r->k, &loop, first, end, emit_index_constant(e, 1), carried, count);
    emit_scope_begin(e);
    one_access(r, emit_variable(e, loop.index, (Range){0, items - 1}), body, user,
               carried);
    emit_scope_end(e);
    for (unsigned i = 0; i < count; i++)
        next[i] = carried[i];
    gx_loop_end(r->k, &loop, next);
    e->lanes = 1;
}

/* -- reductions ------------------------------------------------------------------------------------ */

typedef struct Stage {
    Reducer *reducers;
    uint32_t count, values; /* reductions; accumulators of all */
    bool needs_order;       /* of the columns: one of them may prefer what comes first */
} Stage;

static void accumulate(Rows *r, const void *user, const IndexExpr *column,
                       LLVMValueRef *carried)
{
    const Stage *s = user;
    Emit *e = r->e;
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
            reducer_combine(reducer, carried, next, carried);
        }
        carried += reducer->count;
    }
}

/* The lane's values stand behind the other's. */
static LLVMValueRef is_behind(Kernel *k, const Reducer *reducer, uint32_t mask,
                              const LLVMValueRef *mine, const LLVMValueRef *other)
{
    LLVMBuilderRef b = k->builder;
    int32_t place = reducer->place;
    if (place >= 0)
        return LLVMBuildICmp(b, LLVMIntUGT, mine[place], other[place], "");
    LLVMValueRef bit = LLVMBuildAnd(b, gx_lane(k), gx_i32(k, mask), "");
    return LLVMBuildICmp(b, LLVMIntNE, bit, gx_i32(k, 0), "");
}

/* Neighbours first, and what comes first in the row stands first: so all lanes find the same. A
 * computation that prefers its first value (the first NaN of an argmax) gets it. Where either order gives
 * the same, nothing is exchanged. */
static void combine_lanes(Rows *r, const Reducer *reducer, uint32_t width,
                          LLVMValueRef *values)
{
    Kernel *k = r->k;
    for (uint32_t mask = 1; mask < width; mask *= 2) {
        LLVMValueRef other[REDUCER_MOST];
        for (uint32_t i = 0; i < reducer->count; i++)
            other[i] =
                shuffle_bfly(r->e, reducer->accumulator[i], values[i], mask, width);
        if (!reducer->is_simple) {
            LLVMValueRef is_later = is_behind(k, reducer, mask, values, other);
            for (uint32_t i = 0; i < reducer->count; i++) {
                LLVMValueRef mine = values[i];
                values[i] = LLVMBuildSelect(k->builder, is_later, other[i], mine, "");
                other[i] = LLVMBuildSelect(k->builder, is_later, mine, other[i], "");
            }
        }
        reducer_combine(reducer, values, other, values);
    }
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
    LLVMValueRef mine =
        LLVMBuildAdd(b, first, LLVMBuildAnd(b, lane, gx_i32(k, warps - 1), ""), "");
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
        combine_lanes(r, reducer, warps, values + n);
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
    /* in one round the threads have the order of the columns already */
    if (s->needs_order && r->plan->columns / r->lanes > r->group)
        for_own_columns(r, accumulate, s, values, s->values);
    else
        for_columns(r, accumulate, s, values, s->values);
    v = values;
    for (uint32_t h = 0; h < s->count; h++) {
        r->k->at = s->reducers[h].inst->name;
        combine_lanes(r, &s->reducers[h], r->group < 32 ? r->group : 32, v);
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
    Stage s = {.reducers = ARENA_ARRAY(r->in->arena, Reducer, p->hero_count)};
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

static void store_full(Rows *r, const void *user, const IndexExpr *column,
                       LLVMValueRef *carried)
{
    (void)user;
    (void)carried;
    const Instruction *fusion = r->in->fusion;
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        FusionResult result = emitter_result(fusion, i);
        const IndexExpr *at[EMIT_MOST_RANK];
        if (!reduction_is_full(r->plan, result.shape))
            continue;
        reduction_result_index(r->e->ix, r->plan, result.shape, r->row, column, at);
        emit_result(r->e, fusion, i, at);
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
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        FusionResult result = emitter_result(fusion, i);
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
    for (uint32_t i = 0; i < emitter_result_count(r->in->fusion); i++)
        has_rows |= !reduction_is_full(r->plan, emitter_result(r->in->fusion, i).shape);
    GxIf exists;
    if (r->in_range != NULL)
        gx_if_begin(r->k, &exists, r->in_range);
    if (r->plan->has_full)
        for_columns(r, store_full, NULL, NULL, 0);
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
    r->thread = to_index(e, LLVMBuildURem(b, tid, group, ""));
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
    reduce_all(&r);
    store_all(&r);
    kernel_finish(r.k);
    return r.k;
}
