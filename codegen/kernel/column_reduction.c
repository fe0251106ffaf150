/* The column reduction emitter: neighbouring threads make neighbouring results, so that what they read
 * lies side by side; the threads of a block that share results split the columns and meet in shared
 * memory. All of them then know the results, so that later reductions of the same columns, and results
 * with an element for each column, are made in the same kernel. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/share.h"
#include "codegen/kernel/threads.h"
#include "ir/bug.h"
#include "ir/kernel/reduction.h"

#define COLUMN_WIDTH 32   /* threads side by side */
#define COLUMN_CARRIED 16 /* accumulators of a thread */

typedef struct Columns {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    uint32_t first, count; /* heroes of the stage that is made now */
    Reducer *reducers;     /* [plan->hero_count] */
    uint32_t values;       /* accumulators of one result: the most of any stage */
    uint32_t stage_values; /* of this one */
    uint32_t lanes;        /* results of a thread */
    uint32_t splits;       /* threads that share a result */
    LLVMValueRef x, y;     /* i32: threads */
    LLVMValueRef in_range; /* i1: the results exist; NULL: always */
    const IndexExpr *row;  /* of lane 0 */
} Columns;

static uint32_t choose_lanes(const Columns *c)
{
    const Computation *comp = inst_called(c->in->fusion, 0);
    const GpuModel *device = c->in->target != NULL ? c->in->target->device : NULL;
    int64_t enough = COLUMN_WIDTH * (device != NULL ? device->multiprocessors : 100);
    unsigned widest = 1;
    if (!fusion_is_plain(comp, c->plan->heroes, c->plan->hero_count))
        return 1;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER || shape_elements(inst->shape) == 1)
            continue;
        unsigned bytes = dtype_info[inst->shape->dtype].bits / 8;
        widest = bytes > widest ? bytes : widest;
    }
    uint32_t lanes = 16 / widest;
    if (lanes > 4)
        lanes = 4;
    while (lanes > 1 &&
           (c->plan->rows % lanes != 0 || lanes * c->values > COLUMN_CARRIED ||
            c->plan->rows / lanes < enough))
        lanes /= 2;
    return lanes == 0 ? 1 : lanes;
}

/* Shared memory that all reductions take for a thread. */
static uint64_t thread_bytes(const Columns *c)
{
    uint64_t bytes = 0;
    for (uint32_t h = 0; h < c->plan->hero_count; h++) {
        const Instruction *hero = c->plan->heroes[h];
        for (uint32_t i = 0; i < hero->operand_count / 2; i++) {
            unsigned one = shared_bytes(hero->operands[i]->shape->dtype);
            bytes += one < 4 ? 4 : one; /* small ones may accumulate in f32 */
        }
    }
    return bytes * c->lanes;
}

static uint32_t choose_splits(const Columns *c)
{
    uint32_t splits = 1;
    while (splits < 16 && splits * 2 <= c->plan->columns &&
           splits * 2 * COLUMN_WIDTH * thread_bytes(c) <= TARGET_STATIC_SHARED)
        splits *= 2;
    return splits;
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
}

static void for_columns(Columns *c, bool in_order, ShareFn *body, LLVMValueRef *carried,
                        unsigned count)
{
    Share s = {.thread = to_index(c->e, c->y),
               .threads = c->splits,
               .items = c->plan->columns,
               .in_order = in_order};
    c->e->lanes = c->lanes;
    share_items(c->e, &s, body, c, carried, count);
    c->e->lanes = 1;
}

/* -- meeting ---------------------------------------------------------------------------------------- */

/* Where thread (x, y) keeps a value of lane v: [values][lanes] arrays of [splits][width]. */
static LLVMValueRef slot(Columns *c, uint32_t room, unsigned bytes, LLVMValueRef y,
                         uint32_t v)
{
    LLVMBuilderRef b = c->k->builder;
    LLVMValueRef at =
        LLVMBuildAdd(b, LLVMBuildMul(b, y, gx_i32(c->k, COLUMN_WIDTH), ""), c->x, "");
    uint32_t lane = v * c->splits * COLUMN_WIDTH * bytes;
    return shared_place(c->e, room + lane, at, bytes);
}

/* What split y found: [stage_values][lanes]. */
static void load_splits(Columns *c, const uint32_t *room, LLVMValueRef y,
                        LLVMValueRef *out)
{
    uint32_t n = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        for (uint32_t i = 0; i < c->reducers[h].count; i++, n++) {
            DType t = c->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < c->lanes; v++)
                out[n * c->lanes + v] =
                    shared_load(c->e, t, slot(c, room[n], shared_bytes(t), y, v));
        }
    }
}

/* Combines what all threads that share results found, in each of them. */
static void combine_splits(Columns *c, const uint32_t *room, LLVMValueRef *carried)
{
    Kernel *k = c->k;
    unsigned count = c->stage_values * c->lanes;
    GxLoop loop;
    LLVMValueRef next[REDUCER_MOST], sum[REDUCER_MOST], other[REDUCER_MOST];
    load_splits(c, room, gx_i32(k, 0), carried);
    gx_loop_begin(k, &loop, gx_i32(k, 1), gx_i32(k, c->splits), gx_i32(k, 1), carried,
                  count);
    load_splits(c, room, loop.index, next);
    const LLVMValueRef *from = carried;
    LLVMValueRef *to = next;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        const Reducer *r = &c->reducers[h];
        for (uint32_t v = 0; v < c->lanes; v++) {
            for (uint32_t i = 0; i < r->count; i++) {
                sum[i] = from[i * c->lanes + v];
                other[i] = to[i * c->lanes + v];
            }
            reducer_combine(r, sum, other, sum);
            for (uint32_t i = 0; i < r->count; i++)
                to[i * c->lanes + v] = sum[i];
        }
        from += r->count * c->lanes;
        to += r->count * c->lanes;
    }
    gx_loop_end(k, &loop, next);
}

static void share(Columns *c, uint32_t *room, const LLVMValueRef *carried)
{
    uint32_t n = 0;
    for (uint32_t h = c->first; h < c->first + c->count; h++) {
        for (uint32_t i = 0; i < c->reducers[h].count; i++, n++) {
            DType t = c->reducers[h].accumulator[i];
            unsigned bytes = shared_bytes(t);
            room[n] = gx_shared_alloc(
                c->k, (uint64_t)bytes * c->lanes * c->splits * COLUMN_WIDTH, bytes);
            for (uint32_t v = 0; v < c->lanes; v++)
                shared_store(c->e, t, slot(c, room[n], bytes, c->y, v),
                             carried[n * c->lanes + v]);
        }
    }
}

/* -- stages ------------------------------------------------------------------------------------------- */

/* The heroes from c->first on that are of one stage and fit: makes them, and their values known. */
static void reduce_stage(Columns *c)
{
    Emit *e = c->e;
    LLVMValueRef carried[REDUCER_MOST];
    uint32_t room[REDUCER_MOST], n = 0;
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
    for_columns(c, needs_order, accumulate, carried, n);
    if (c->splits > 1) {
        share(c, room, carried);
        gx_barrier(c->k);
        combine_splits(c, room, carried);
    }
    const LLVMValueRef *from = carried;
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

/* How many heroes from `first` on go round one loop; their accumulators in *values. */
static uint32_t stage_heroes(const ReductionPlan *p, uint32_t first, uint32_t *values)
{
    uint32_t n = 0;
    *values = 0;
    while (first + n < p->hero_count && p->stage[first + n] == p->stage[first]) {
        uint32_t more = p->heroes[first + n]->operand_count / 2;
        if (n > 0 && *values + more > COLUMN_CARRIED)
            break;
        *values += more;
        n++;
    }
    return n;
}

/* -- results ------------------------------------------------------------------------------------------ */

/* The results of one kind: with an element for each column, or one for all. */
static void store(const Columns *c, bool full, const IndexExpr *column)
{
    Emit *e = c->e;
    const Instruction *fusion = c->in->fusion;
    const IndexExpr *row = ix_add(e->ix, c->row, emit_lane(e));
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Shape *shape = fusion_result(fusion, i).shape;
        const IndexExpr *at[EMIT_MOST_RANK];
        if (reduction_is_full(c->plan, shape) != full)
            continue;
        reduction_result_index(e->ix, c->plan, shape, row, column, at);
        emit_result(e, fusion, i, at);
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
    if (c->plan->has_full)
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

static void begin(Columns *c, int64_t blocks, int64_t threads)
{
    const EmitterInput *in = c->in;
    c->k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                         (uint32_t[3]){COLUMN_WIDTH, c->splits, 1},
                         (uint32_t[3]){(uint32_t)blocks, 1, 1});
    c->e = emitter_begin(in, c->k, 1);
    Emit *e = c->e;
    LLVMBuilderRef b = c->k->builder;
    c->x = gx_tid(c->k, 0);
    c->y = gx_tid(c->k, 1);
    LLVMValueRef thread = emit_thread_number(e);
    if (threads % COLUMN_WIDTH != 0) {
        LLVMValueRef last = emit_index_constant(e, threads - 1);
        c->in_range = LLVMBuildICmp(b, LLVMIntSLE, thread, last, "");
        thread = LLVMBuildSelect(b, c->in_range, thread, last, "");
    }
    c->row = ix_mul(e->ix, emit_variable(e, thread, (Range){0, threads - 1}), c->lanes);
}

Kernel *emitter_column_reduction(const EmitterInput *in)
{
    const char *why;
    Columns c = {.in = in, .plan = reduction_plan(in->fusion, in->arena, &why)};
    if (c.plan == NULL)
        bug("%s is no column reduction: %s", in->fusion->name, why);
    for (uint32_t h = 0; h < c.plan->hero_count; h += c.count) {
        uint32_t values;
        c.count = stage_heroes(c.plan, h, &values);
        c.values = values > c.values ? values : c.values;
    }
    c.lanes = choose_lanes(&c);
    c.splits = choose_splits(&c);
    int64_t threads = c.plan->rows / c.lanes;
    int64_t blocks = (threads + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED, "%s has %lld results; kernels handle up to 2^36",
                     in->fusion->name, (long long)c.plan->rows);
    begin(&c, blocks, threads);
    c.reducers = ARENA_ARRAY(in->arena, Reducer, c.plan->hero_count);
    for (c.first = 0; c.first < c.plan->hero_count; c.first += c.count) {
        c.count = stage_heroes(c.plan, c.first, &c.stage_values);
        reduce_stage(&c);
    }
    store_results(&c);
    kernel_finish(c.k);
    return c.k;
}
