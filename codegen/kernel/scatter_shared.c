/* Scatters of many updates into few places: a block takes the places of one index of the batching dimensions into
 * shared memory, combines all their updates there, and writes them back. Where the order matters a block is one
 * warp: lanes that meet in one place first put theirs together, always in the same way. */
#include "codegen/kernel/scatter.h"
#include "codegen/kernel/threads.h"

typedef struct Places {
    Emit *e;
    const Scatter *s;
    const ScatterPlan *p;
    const IndexExpr *batch;
    DType type;
    unsigned bytes;
    uint32_t room;
    LLVMValueRef tid; /* i32 */
} Places;

static LLVMValueRef as_i32(const Places *a, LLVMValueRef v)
{
    LLVMTypeRef i32 = gx_int_type(a->e->k, 32);
    return LLVMTypeOf(v) == i32 ? v : LLVMBuildTrunc(a->e->k->builder, v, i32, "");
}

/* The index of the array at place `number` of the block's own. */
static void place_index(const Places *a, const IndexExpr *number, const IndexExpr **out)
{
    const ScatterPlan *p = a->p;
    const IndexExpr *update[EMIT_MOST_RANK], *at[EMIT_MOST_RANK];
    uint32_t dims[EMIT_MOST_RANK], count = 0;
    for (uint32_t i = 0; i < p->update->rank; i++)
        update[i] = ix_const(a->e->ix, 0);
    emit_spread(a->e, p->update, p->free_dims, p->free_count, a->batch, update);
    scatter_indices_place(a->s, update, at);
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t batch = ints_find(p->batching, d);
        out[d] = batch >= 0 ? at[p->index_batching.data[batch]] : ix_const(a->e->ix, 0);
        if (ints_find(p->start_map, d) >= 0)
            dims[count++] = d;
    }
    emit_spread(a->e, p->operand, dims, count, number, out);
}

/* All places between the array and shared memory. */
static void move_places(const Places *a, bool stores)
{
    Emit *e = a->e;
    Kernel *k = e->k;
    uint32_t arg = fusion_result_arg(a->s->in->fusion, 0);
    GxLoop loop;
    LLVMValueRef value;
    const IndexExpr *at[EMIT_MOST_RANK];
    gx_loop_begin(k, &loop, a->tid, gx_i32(k, (uint32_t)a->p->places),
                  gx_i32(k, k->block[0]), NULL, 0);
    emit_scope_begin(e);
    place_index(
        a, emit_variable(e, to_index(e, loop.index), (Range){0, a->p->places - 1}), at);
    LLVMValueRef to = shared_place(e, a->room, loop.index, a->bytes);
    e->shares_bytes = true;
    if (stores) {
        value = shared_load(e, a->type, to);
        emit_store(e, arg, a->p->operand, at, &value);
    } else {
        emit_load(e, arg, a->p->operand, at, &value);
        shared_store(e, a->type, to, value);
    }
    e->shares_bytes = false;
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

static LLVMValueRef combined(const Places *a, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef args[2] = {x, y}, out;
    emit_computation(a->e, inst_called(a->p->inst, 0), args, &out);
    return out;
}

/* Lanes with equal keys put their values together; the first of them has all, and is_first. */
static LLVMValueRef meet(const Places *a, LLVMValueRef key, LLVMValueRef value,
                         LLVMValueRef *is_first)
{
    Kernel *k = a->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef lane = gx_lane(k), sum = value, first = NULL;
    for (uint32_t mask = 1; mask < TARGET_WARP; mask++) {
        LLVMValueRef other = gx_shfl(k, GX_SHFL_BFLY, key, gx_i32(k, mask), TARGET_WARP);
        LLVMValueRef more = shuffle_bfly(a->e, a->type, value, mask, TARGET_WARP);
        LLVMValueRef same = LLVMBuildICmp(b, LLVMIntEQ, key, other, "");
        LLVMValueRef above = LLVMBuildICmp(
            b, LLVMIntUGT, lane, LLVMBuildXor(b, lane, gx_i32(k, mask), ""), "");
        LLVMValueRef later = LLVMBuildAnd(b, same, above, "");
        sum = LLVMBuildSelect(b, same, combined(a, sum, more), sum, "");
        first = first == NULL ? later : LLVMBuildOr(b, first, later, "");
    }
    *is_first = LLVMBuildNot(b, first, "");
    return sum;
}

static void combine_in_warp(const Places *a, LLVMValueRef place, LLVMValueRef ok,
                            LLVMValueRef value)
{
    Emit *e = a->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    /* one that goes nowhere has a key that no other lane has */
    LLVMValueRef nowhere = LLVMBuildNot(b, gx_lane(k), ""), first;
    LLVMValueRef key = LLVMBuildSelect(b, ok, place, nowhere, "");
    LLVMValueRef sum = meet(a, key, value, &first);
    GxIf writes;
    emit_if_begin(e, &writes, LLVMBuildAnd(b, first, ok, ""));
    LLVMValueRef at = shared_place(e, a->room, place, a->bytes);
    shared_store(e, a->type, at, combined(a, shared_load(e, a->type, at), sum));
    emit_if_end(e, &writes, NULL, 0, NULL);
    gx_barrier(k);
}

/* An update for each thread; `step` (of index_type) may be behind the last one. */
static void take_updates(const Places *a, LLVMValueRef step)
{
    const ScatterPlan *p = a->p;
    Emit *e = a->e;
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMValueRef last = emit_index_constant(e, p->steps - 1), ok, value;
    LLVMValueRef exists = LLVMBuildICmp(b, LLVMIntSLE, step, last, "");
    step = LLVMBuildSelect(b, exists, step, last, "");
    emit_spread(e, p->update, p->free_dims, p->free_count, a->batch, update);
    emit_spread(e, p->update, p->walked, p->walked_count,
                emit_variable(e, step, (Range){0, p->steps - 1}), update);
    scatter_destination(e, a->s, update, to, &bound, &ok);
    ok = ok == NULL ? exists : LLVMBuildAnd(b, ok, exists, "");
    emit_element(e, p->inst->operands[2], update, &value);
    e->k->at = p->inst->name;
    LLVMValueRef place = as_i32(a, emit_index(e, bound, 0));
    if (p->operation == OP_COUNT) {
        combine_in_warp(a, place, ok, value);
        return;
    }
    GxIf fits;
    emit_if_begin(e, &fits, ok);
    if (a->type == DT_PRED)
        value = LLVMBuildZExt(b, value, gx_int_type(e->k, 8), "");
    gx_atomic(e->k, scatter_atomic(p->operation, a->type), GX_SHARED,
              shared_place(e, a->room, place, a->bytes), value);
    emit_if_end(e, &fits, NULL, 0, NULL);
}

Kernel *emit_scatter_shared(const Scatter *s)
{
    const ScatterPlan *p = s->plan;
    Emit *e = emitter_begin(s->in);
    Kernel *k = e->k;
    Places a = {.e = e, .s = s, .p = p, .type = p->operand->dtype, .tid = gx_tid(k, 0)};
    int64_t threads = k->block[0];
    a.bytes = shared_bytes(a.type);
    a.room = gx_shared_alloc(k, (uint64_t)(p->places * a.bytes), a.bytes);
    a.batch =
        emit_variable(e, to_index(e, gx_ctaid(k, 0)), (Range){0, p->free_places - 1});
    move_places(&a, false);
    gx_barrier(k);
    GxLoop loop;
    int64_t end = (p->steps + threads - 1) / threads * threads;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, end),
                  emit_index_constant(e, threads), NULL, 0);
    emit_scope_begin(e);
    take_updates(&a, LLVMBuildAdd(k->builder, loop.index, to_index(e, a.tid), ""));
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
    gx_barrier(k);
    move_places(&a, true);
    return emitter_finish(s->in, e);
}
