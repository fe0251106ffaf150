/* The column reduction emitter: neighbouring threads make neighbouring results, so that what they read
 * lies side by side; the threads of a block that share results split the columns and meet in shared
 * memory. */
#include "codegen/emit/emitters.h"
#include "codegen/emit/reducer.h"
#include "codegen/emit/threads.h"
#include "ir/analysis/reduction.h"
#include "ir/bug.h"

#define COLUMN_WIDTH 32   /* threads side by side */
#define COLUMN_CARRIED 16 /* accumulators of a thread */

typedef struct Columns {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    Reducer *reducers;     /* [plan->hero_count] */
    uint32_t values;       /* accumulators of one result */
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
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (inst == NULL || inst->op != OP_PARAMETER || shape_elements(inst->shape) == 1)
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

static uint32_t choose_splits(const Columns *c)
{
    uint32_t splits = 1;
    while (splits < 16 && splits * 2 <= c->plan->columns)
        splits *= 2;
    return splits;
}

/* -- accumulating --------------------------------------------------------------------------------- */

/* carried: [values][lanes] */
static void accumulate(Columns *c, const IndexExpr *column, LLVMValueRef *carried)
{
    Emit *e = c->e;
    e->lanes = c->lanes;
    const IndexExpr *row = ix_add(e->ix, c->row, emit_lane(e));
    for (uint32_t h = 0; h < c->plan->hero_count; h++) {
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
            reducer_combine(r, sum, next, sum);
            for (uint32_t i = 0; i < r->count; i++)
                carried[i * c->lanes + v] = sum[i];
        }
        carried += r->count * c->lanes;
    }
    e->lanes = 1;
}

static void accumulate_all(Columns *c, LLVMValueRef *carried)
{
    Emit *e = c->e;
    unsigned count = c->values * c->lanes;
    int64_t whole = c->plan->columns / c->splits, rest = c->plan->columns % c->splits;
    LLVMValueRef y = to_index(e, c->y);
    if (whole > 0) {
        GxLoop loop;
        LLVMValueRef next[COLUMN_CARRIED];
        gx_loop_begin(c->k, &loop, emit_index_constant(e, 0),
                      emit_index_constant(e, whole), emit_index_constant(e, 1), carried,
                      count);
        emit_scope_begin(e);
        const IndexExpr *round = emit_variable(e, loop.index, (Range){0, whole - 1});
        const IndexExpr *split = emit_variable(e, y, (Range){0, (int64_t)c->splits - 1});
        accumulate(c, ix_add(e->ix, ix_mul(e->ix, round, c->splits), split), carried);
        emit_scope_end(e);
        for (unsigned i = 0; i < count; i++)
            next[i] = carried[i];
        gx_loop_end(c->k, &loop, next);
    }
    if (rest > 0) {
        GxIf guard;
        LLVMValueRef before[COLUMN_CARRIED];
        for (unsigned i = 0; i < count; i++)
            before[i] = carried[i];
        gx_if_begin(c->k, &guard,
                    LLVMBuildICmp(c->k->builder, LLVMIntULT, y,
                                  emit_index_constant(e, rest), ""));
        emit_scope_begin(e);
        const IndexExpr *split = emit_variable(e, y, (Range){0, rest - 1});
        accumulate(c, ix_add(e->ix, split, ix_const(e->ix, whole * c->splits)), carried);
        emit_scope_end(e);
        gx_if_else(c->k, &guard, carried, count);
        gx_if_end(c->k, &guard, before, count, carried);
    }
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

static void load_split(Columns *c, const Reducer *r, const uint32_t *room, LLVMValueRef y,
                       uint32_t v, LLVMValueRef *out)
{
    for (uint32_t i = 0; i < r->count; i++) {
        DType t = r->accumulator[i];
        out[i] = shared_load(c->e, t, slot(c, room[i], shared_bytes(t), y, v));
    }
}

/* The first of the threads that share results combines what the others found. */
static void combine_splits(Columns *c, const uint32_t *room, LLVMValueRef *carried)
{
    Kernel *k = c->k;
    unsigned count = c->values * c->lanes;
    GxLoop loop;
    LLVMValueRef next[COLUMN_CARRIED], sum[REDUCER_MOST], other[REDUCER_MOST];
    gx_loop_begin(k, &loop, gx_i32(k, 1), gx_i32(k, c->splits), gx_i32(k, 1), carried,
                  count);
    const LLVMValueRef *from = carried;
    LLVMValueRef *to = next;
    for (uint32_t h = 0; h < c->plan->hero_count; h++) {
        const Reducer *r = &c->reducers[h];
        for (uint32_t v = 0; v < c->lanes; v++) {
            load_split(c, r, room, loop.index, v, other);
            for (uint32_t i = 0; i < r->count; i++)
                sum[i] = from[i * c->lanes + v];
            reducer_combine(r, sum, other, sum);
            for (uint32_t i = 0; i < r->count; i++)
                to[i * c->lanes + v] = sum[i];
        }
        room += r->count;
        from += r->count * c->lanes;
        to += r->count * c->lanes;
    }
    gx_loop_end(k, &loop, next);
}

static void share(Columns *c, uint32_t *room, const LLVMValueRef *carried)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < c->plan->hero_count; h++) {
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

/* -- results ------------------------------------------------------------------------------------------ */

static void store_results(Columns *c, const LLVMValueRef *carried)
{
    Emit *e = c->e;
    const Instruction *fusion = c->in->fusion;
    uint32_t count = emitter_result_count(fusion);
    LLVMValueRef *values =
        ARENA_ARRAY(c->in->arena, LLVMValueRef, (size_t)count * c->lanes);
    for (uint32_t v = 0; v < c->lanes; v++) {
        const LLVMValueRef *from = carried;
        emit_scope_begin(e);
        for (uint32_t h = 0; h < c->plan->hero_count; h++) {
            const Reducer *r = &c->reducers[h];
            LLVMValueRef sum[REDUCER_MOST];
            for (uint32_t i = 0; i < r->count; i++)
                sum[i] = from[i * c->lanes + v];
            reducer_finish(r, sum, sum);
            emit_preset(e, r->inst, sum);
            from += r->count * c->lanes;
        }
        const IndexExpr *row = ix_add(e->ix, c->row, ix_const(e->ix, v));
        for (uint32_t i = 0; i < count; i++) {
            FusionResult result = emitter_result(fusion, i);
            const IndexExpr *at[EMIT_MOST_RANK];
            reduction_result_index(e->ix, c->plan, result.shape, row, NULL, at);
            emit_leaf(e, result.inst, result.inst_leaf, at, &values[i * c->lanes + v]);
        }
        emit_scope_end(e);
    }
    e->lanes = c->lanes;
    const IndexExpr *row = ix_add(e->ix, c->row, emit_lane(e));
    for (uint32_t i = 0; i < count; i++) {
        const Shape *shape = emitter_result(fusion, i).shape;
        const IndexExpr *at[EMIT_MOST_RANK];
        reduction_result_index(e->ix, c->plan, shape, row, NULL, at);
        emit_store(e, fusion_result_arg(fusion, i), shape, at, &values[i * c->lanes]);
    }
    e->lanes = 1;
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
    for (uint32_t h = 0; h < c.plan->hero_count; h++)
        c.values += c.plan->heroes[h]->operand_count / 2;
    if (c.values > COLUMN_CARRIED)
        return emitter_row_reduction(in);
    c.lanes = choose_lanes(&c);
    c.splits = choose_splits(&c);
    int64_t threads = c.plan->rows / c.lanes;
    int64_t blocks = (threads + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED, "%s has %lld results; kernels handle up to 2^36",
                     in->fusion->name, (long long)c.plan->rows);
    begin(&c, blocks, threads);
    LLVMValueRef carried[COLUMN_CARRIED];
    uint32_t room[COLUMN_CARRIED], n = 0;
    c.reducers = ARENA_ARRAY(in->arena, Reducer, c.plan->hero_count);
    for (uint32_t h = 0; h < c.plan->hero_count; h++) {
        LLVMValueRef first[REDUCER_MOST];
        reducer_begin(&c.reducers[h], c.e, c.plan->heroes[h]);
        reducer_start(&c.reducers[h], first);
        for (uint32_t i = 0; i < c.reducers[h].count * c.lanes; i++)
            carried[n++] = first[i / c.lanes];
    }
    accumulate_all(&c, carried);
    LLVMBuilderRef b = c.k->builder;
    LLVMValueRef stores = c.in_range;
    if (c.splits > 1) {
        share(&c, room, carried);
        gx_barrier(c.k);
        LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, c.y, gx_i32(c.k, 0), "");
        stores = stores != NULL ? LLVMBuildAnd(b, stores, is_first, "") : is_first;
    }
    GxIf guard;
    if (stores != NULL)
        gx_if_begin(c.k, &guard, stores);
    emit_scope_begin(c.e);
    if (c.splits > 1)
        combine_splits(&c, room, carried);
    store_results(&c, carried);
    emit_scope_end(c.e);
    if (stores != NULL)
        gx_if_end(c.k, &guard, NULL, 0, NULL);
    kernel_finish(c.k);
    return c.k;
}
