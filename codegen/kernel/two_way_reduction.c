/* The two-way reduction emitter: a block walks over rows, which groups of its threads reduce and map as in a row
 * reduction. A thread has the same columns of each of its rows, so it keeps their sums in registers on the way; where
 * a block has several groups, their sums meet in shared memory, always in the same order. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/rows.h"
#include "codegen/kernel/threads.h"
#include "ir/base/divide.h"

typedef struct TwoWay {
    Rows rows;
    uint32_t groups;       /* rows that a block has at a time */
    uint32_t count;        /* sums of columns */
    Reducer *sums;         /* [count] */
    uint32_t items;        /* of a thread in a row, at most */
    uint32_t item;         /* the one that is made now */
    LLVMValueRef *carried; /* [carried_count] the sums */
    uint32_t *base;        /* [count] where groups leave them in shared memory */
} TwoWay;

/* Index of a sum among those of a thread: [items][count][lanes]. */
static uint32_t carried_index(const TwoWay *t, uint32_t item, uint32_t sum)
{
    return (item * t->count + sum) * t->rows.width;
}

static uint32_t carried_count(const TwoWay *t)
{
    return carried_index(t, t->items, 0);
}

static LLVMValueRef to_i32(Emit *e, LLVMValueRef index)
{
    LLVMTypeRef i32 = gx_int_type(e->k, 32);
    return LLVMTypeOf(index) == i32 ? index
                                    : LLVMBuildTrunc(e->k->builder, index, i32, "");
}

/* -- a row ------------------------------------------------------------------------------------------ */

static void add_columns(Emit *e, const void *user, const IndexExpr *item,
                        LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)is_start;
    TwoWay *t = *(TwoWay *const *)user;
    const Rows *r = &t->rows;
    const IndexExpr *at[2] = {r->row, rows_column(r, item)};
    for (uint32_t i = 0; i < t->count; i++) {
        LLVMValueRef values[EMIT_MOST_LANES],
            *sum = carried + carried_index(t, t->item, i);
        emit_element(e, t->sums[i].inst->operands[0], at, values);
        r->k->at = t->sums[i].inst->name;
        for (uint32_t v = 0; v < r->lanes; v++) {
            LLVMValueRef next = reducer_widen(&t->sums[i], 0, values[v]), before = sum[v];
            reducer_add(&t->sums[i], NULL, &next, &sum[v]);
            if (r->in_range != NULL)
                sum[v] = LLVMBuildSelect(r->k->builder, r->in_range, sum[v], before, "");
        }
    }
    t->item++;
}

/* The group's row in trip `step` of the block's loop. Groups behind the block's last row, or the last of all, do that
 * once more, as shuffles and barriers need them, and add and store nothing. */
static void find_row(TwoWay *t, LLVMValueRef step)
{
    Rows *r = &t->rows;
    Emit *e = r->e;
    Kernel *k = r->k;
    LLVMBuilderRef b = k->builder;
    int64_t rows = r->plan->rows, each = r->plan->sum_rows;
    LLVMValueRef last = emit_index_constant(e, rows - 1);
    LLVMValueRef first =
        gx_mul_natural(k, to_index(e, gx_ctaid(k, 0)), emit_index_constant(e, each));
    LLVMValueRef local =
        gx_add_natural(k, gx_mul_natural(k, step, emit_index_constant(e, t->groups)),
                       to_index(e, r->local));
    LLVMValueRef row = gx_add_natural(k, first, local), is_of_block = NULL;
    r->in_range = NULL;
    if (each % t->groups != 0)
        is_of_block =
            LLVMBuildICmp(b, LLVMIntSLT, local, emit_index_constant(e, each), "");
    if (rows % each != 0 || is_of_block != NULL) {
        LLVMValueRef exists = LLVMBuildICmp(b, LLVMIntSLE, row, last, "");
        row = LLVMBuildSelect(b, exists, row, last, "");
        r->in_range =
            is_of_block == NULL ? exists : LLVMBuildAnd(b, exists, is_of_block, "");
    }
    r->row = emit_variable(e, row, (Range){0, rows - 1});
}

static void walk_rows(TwoWay *t, LLVMValueRef *carried)
{
    Rows *r = &t->rows;
    Emit *e = r->e;
    int64_t trips = ceil_div(r->plan->sum_rows, t->groups);
    LLVMValueRef *next = ARENA_ARRAY(r->in->arena, LLVMValueRef, carried_count(t));
    GxLoop loop;
    gx_loop_begin(r->k, &loop, emit_index_constant(e, 0), emit_index_constant(e, trips),
                  emit_index_constant(e, 1), carried, carried_count(t));
    emit_scope_begin(e);
    find_row(t, loop.index);
    r->kept = (DistributionKept){NULL};
    uint32_t loops = rows_reduce(r);
    for (uint32_t i = 0; i < carried_count(t); i++)
        next[i] = carried[i];
    t->item = 0;
    rows_for_columns(r, false, add_columns, &t, next, carried_count(t));
    rows_store(r);
    emit_scope_end(e);
    /* what a row leaves in shared memory was read by all when they meet again, in the next of its loops: if there is
     * one before the next row's first */
    if (loops == 1 && r->group > TARGET_WARP)
        gx_barrier(r->k);
    gx_loop_end(r->k, &loop, next);
}

/* -- sums of columns ---------------------------------------------------------------------------------- */

static void store_sum(const TwoWay *t, uint32_t sum, const IndexExpr *column,
                      const LLVMValueRef *values)
{
    const Rows *r = &t->rows;
    Emit *e = r->e;
    int64_t blocks = reduction_sum_blocks(r->plan);
    LLVMValueRef block = to_index(e, gx_ctaid(r->k, 0)), results[EMIT_MOST_LANES];
    const IndexExpr *at[2] = {emit_variable(e, block, (Range){0, blocks - 1}), column};
    for (uint32_t v = 0; v < e->lanes; v++)
        reducer_finish(&t->sums[sum], &values[v], &results[v]);
    uint32_t arg = fusion_result_arg(r->in->fusion, r->plan->sum_results[sum]);
    emit_store(e, arg, t->sums[sum].inst->shape, at, results);
}

/* One group has a block's rows: its threads have the sums of their columns. */
static void store_item(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)e;
    (void)is_start;
    (void)carried;
    TwoWay *t = *(TwoWay *const *)user;
    for (uint32_t i = 0; i < t->count; i++)
        store_sum(t, i, rows_column(&t->rows, item),
                  &t->carried[carried_index(t, t->item, i)]);
    t->item++;
}

/* Where a group (i32) keeps column `column` of a sum: a row for each group, one behind the other. */
static LLVMValueRef slot(const TwoWay *t, uint32_t sum, LLVMValueRef group,
                         LLVMValueRef column)
{
    Kernel *k = t->rows.k;
    LLVMValueRef columns = gx_i32(k, (uint32_t)t->rows.plan->columns);
    LLVMValueRef at =
        gx_add_natural(k, gx_mul_natural(k, group, columns), to_i32(t->rows.e, column));
    return element_offset(t->rows.e, t->base[sum], at,
                          shared_bytes(t->sums[sum].accumulator[0]));
}

static void share_item(Emit *e, const void *user, const IndexExpr *item,
                       LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)is_start;
    (void)carried;
    TwoWay *t = *(TwoWay *const *)user;
    const IndexExpr *column = rows_column(&t->rows, item);
    for (uint32_t i = 0; i < t->count; i++) {
        for (uint32_t v = 0; v < t->rows.lanes; v++)
            shared_store(e, t->sums[i].accumulator[0],
                         slot(t, i, t->rows.local, emit_index(e, column, v)),
                         t->carried[carried_index(t, t->item, i) + v]);
    }
    t->item++;
}

/* A column of the block, by any of its threads: what the groups found, the first one first. */
static void combine_column(Emit *e, const void *user, const IndexExpr *column,
                           LLVMValueRef is_start, LLVMValueRef *carried)
{
    (void)is_start;
    (void)carried;
    const TwoWay *t = *(TwoWay *const *)user;
    Kernel *k = e->k;
    LLVMValueRef at = emit_index(e, column, 0);
    for (uint32_t i = 0; i < t->count; i++) {
        DType type = t->sums[i].accumulator[0];
        LLVMValueRef sum = shared_load(e, type, slot(t, i, gx_i32(k, 0), at));
        GxLoop loop;
        gx_loop_begin(k, &loop, gx_i32(k, 1), gx_i32(k, t->groups), gx_i32(k, 1), &sum,
                      1);
        LLVMValueRef next = shared_load(e, type, slot(t, i, loop.index, at));
        reducer_combine(&t->sums[i], &sum, &next, &next);
        gx_loop_end(k, &loop, &next);
        store_sum(t, i, column, &sum);
    }
}

static void combine_groups(TwoWay *t)
{
    Rows *r = &t->rows;
    for (uint32_t i = 0; i < t->count; i++) {
        unsigned bytes = shared_bytes(t->sums[i].accumulator[0]);
        t->base[i] = gx_shared_alloc(
            r->k, (uint64_t)bytes * t->groups * (uint64_t)r->plan->columns, bytes);
    }
    rows_for_columns(r, false, share_item, &t, NULL, 0);
    gx_barrier(r->k);
    Distribution s = {.thread = to_index(r->e, gx_tid(r->k, 0)),
                      .threads = (int64_t)r->group * t->groups,
                      .items = r->plan->columns};
    distribute_items(r->e, &s, combine_column, &t, NULL, 0);
}

Kernel *emitter_two_way_reduction(const EmitterInput *in)
{
    const KernelConfig *c = &in->design->config;
    const ReductionPlan *p = in->design->plan.reduction;
    TwoWay two_way = {.rows = rows_begin(in),
                      .groups = (uint32_t)(c->block / c->group),
                      .count = p->sum_count,
                      .sums = ARENA_ARRAY(in->arena, Reducer, p->sum_count)},
           *t = &two_way;
    Rows *r = &t->rows;
    int64_t items = p->columns / r->width;
    t->items = (uint32_t)ceil_div(items, r->group);
    t->base = ARENA_ARRAY(in->arena, uint32_t, p->sum_count);
    t->carried = ARENA_ARRAY(in->arena, LLVMValueRef, carried_count(t));
    r->keeps = true;
    for (uint32_t i = 0; i < t->count; i++) {
        reducer_begin(&t->sums[i], r->e, p->sums[i]);
        for (uint32_t n = 0; n < t->items * r->width; n++)
            reducer_start(&t->sums[i],
                          &t->carried[carried_index(t, n / r->width, i) + n % r->width]);
    }
    walk_rows(t, t->carried);
    r->kept = (DistributionKept){NULL};
    t->item = 0;
    if (t->groups > 1)
        combine_groups(t);
    else
        rows_for_columns(r, false, store_item, &t, NULL, 0);
    return emitter_finish(in, r->e);
}
