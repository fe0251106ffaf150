/* Scatters of many updates into few positions: a block takes the positions of one index of the batching dimensions into
 * shared memory, combines all their updates there, and writes them back. Where the order matters a block is one
 * warp: lanes that meet in one position first put theirs together, always in the same way. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/scatter.h"
#include "codegen/kernel/threads.h"
#include "ir/base/divide.h"

typedef struct Positions {
    Emit *e;
    const Scatter *s;
    const ScatterPlan *p;
    const IndexExpr *batch;
    Reducer reducer; /* atomics do not ask it */
    DType type;      /* in shared memory */
    unsigned bytes;
    uint32_t base;
    LLVMValueRef tid; /* i32 */
} Positions;

static LLVMValueRef as_i32(const Positions *a, LLVMValueRef v)
{
    LLVMTypeRef i32 = gx_int_type(a->e->k, 32);
    return LLVMTypeOf(v) == i32 ? v : LLVMBuildTrunc(a->e->k->builder, v, i32, "");
}

/* The index of the array at position `number` of the block's own. */
static void index_of_position(const Positions *a, const IndexExpr *number,
                              const IndexExpr **out)
{
    const ScatterPlan *p = a->p;
    const IndexExpr *update[EMIT_MOST_RANK], *at[EMIT_MOST_RANK];
    uint32_t dims[EMIT_MOST_RANK], count = 0;
    for (uint32_t i = 0; i < p->update->rank; i++)
        update[i] = ix_const(a->e->ix, 0);
    emit_spread(a->e, p->update, p->free_dims, p->free_count, a->batch, update);
    scatter_indices_position(a->s, update, at);
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t batch = ints_find(p->batching, d);
        out[d] = batch >= 0 ? at[p->index_batching.data[batch]] : ix_const(a->e->ix, 0);
        if (ints_find(p->start_map, d) >= 0)
            dims[count++] = d;
    }
    emit_spread(a->e, p->operand, dims, count, number, out);
}

/* All positions between the array and shared memory. What the array holds at first may be computed. */
static void move_positions(const Positions *a, bool stores)
{
    Emit *e = a->e;
    Kernel *k = e->k;
    uint32_t arg = fusion_result_arg(a->s->in->fusion, 0);
    GxLoop loop;
    LLVMValueRef value;
    const IndexExpr *at[EMIT_MOST_RANK];
    gx_loop_begin(k, &loop, a->tid, gx_i32(k, (uint32_t)a->p->positions),
                  gx_i32(k, k->block[0]), NULL, 0);
    emit_scope_begin(e);
    index_of_position(
        a, emit_variable(e, to_index(e, loop.index), (Range){0, a->p->positions - 1}),
        at);
    LLVMValueRef to = element_offset(e, a->base, loop.index, a->bytes);
    e->shares_bytes = true;
    if (stores) {
        value = shared_load(e, a->type, to);
        reducer_finish(&a->reducer, &value, &value);
        emit_store(e, arg, a->p->operand, at, &value);
    } else {
        const Instruction *from = a->p->inst->operands[0];
        if (behind_bitcasts(from)->op == OP_PARAMETER)
            emit_load(e, arg, a->p->operand, at, &value);
        else
            emit_element(e, from, at, &value);
        e->k->at = a->p->inst->name;
        shared_store(e, a->type, to, reducer_widen(&a->reducer, 0, value));
    }
    e->shares_bytes = false;
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

static LLVMValueRef combined(const Positions *a, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef out;
    reducer_combine(&a->reducer, &x, &y, &out);
    return out;
}

/* An update of a thread: where it goes, whether it does. */
typedef struct Update {
    LLVMValueRef position, ok, value;
} Update;

/* The lanes whose updates go where this lane's does, as bits: by each bit of the position. */
static LLVMValueRef find_peers(const Positions *a, const Update *u)
{
    Kernel *k = a->e->k;
    LLVMValueRef peers = gx_ballot(k, u->ok);
    for (uint32_t bit = 1; bit < (uint64_t)a->p->positions; bit *= 2)
        peers = narrow_peers(k, peers, u->position, gx_i32(k, bit));
    return peers;
}

/* Updates of one position are put together by the first lane that has one, in the order of the lanes: seldom many. */
static LLVMValueRef meet(const Positions *a, const Update *u, LLVMValueRef *is_first)
{
    Kernel *k = a->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef zero = gx_i32(k, 0), one = gx_i32(k, 1);
    LLVMValueRef peers = find_peers(a, u);
    LLVMValueRef own = LLVMBuildShl(b, one, gx_lane(k), "");
    LLVMValueRef below = LLVMBuildAnd(b, peers, LLVMBuildSub(b, own, one, ""), "");
    *is_first = LLVMBuildICmp(b, LLVMIntEQ, below, zero, "");
    LLVMValueRef others = LLVMBuildAnd(b, peers, LLVMBuildNot(b, own, ""), "");
    /* the sum, and the lanes that it lacks */
    LLVMValueRef state[2] = {u->value, LLVMBuildSelect(b, *is_first, others, zero, "")},
                 next[2];
    GxLoop loop;
    gx_while_begin(k, &loop, state, 2);
    LLVMValueRef lacks = LLVMBuildICmp(b, LLVMIntNE, state[1], zero, "");
    gx_while_body(k, &loop, LLVMBuildICmp(b, LLVMIntNE, gx_ballot(k, lacks), zero, ""));
    LLVMValueRef args[2] = {state[1], LLVMConstInt(gx_int_type(k, 1), 0, 0)};
    LLVMValueRef from = gx_intrinsic(k, "cttz", args, 2);
    from = LLVMBuildAnd(b, from, gx_i32(k, TARGET_WARP - 1), "");
    LLVMValueRef more = shuffle_from(a->e, a->type, state[0], from);
    next[0] = LLVMBuildSelect(b, lacks, combined(a, state[0], more), state[0], "");
    next[1] = LLVMBuildAnd(b, state[1], LLVMBuildSub(b, state[1], one, ""), "");
    gx_while_end(k, &loop, next);
    return state[0];
}

static void combine_in_warp(const Positions *a, const Update *u)
{
    Emit *e = a->e;
    Kernel *k = e->k;
    LLVMValueRef first;
    LLVMValueRef sum = meet(a, u, &first);
    GxIf writes;
    emit_if_begin(e, &writes, LLVMBuildAnd(k->builder, first, u->ok, ""));
    LLVMValueRef at = element_offset(e, a->base, u->position, a->bytes);
    shared_store(e, a->type, at, combined(a, shared_load(e, a->type, at), sum));
    emit_if_end(e, &writes, NULL, 0, NULL);
    gx_barrier(k);
}

static void combine_by_atomics(const Positions *a, const Update *u)
{
    Emit *e = a->e;
    GxIf fits;
    LLVMValueRef value = u->value;
    emit_if_begin(e, &fits, u->ok);
    if (a->type == DT_PRED)
        value = LLVMBuildZExt(e->k->builder, value, gx_int_type(e->k, 8), "");
    gx_atomic(e->k, scatter_atomic(a->p->operation, a->type), GX_SHARED,
              element_offset(e, a->base, u->position, a->bytes), value);
    emit_if_end(e, &fits, NULL, 0, NULL);
}

/* An update for each thread; `step` (of index_type) may be behind the last one. */
static void read_update(const Positions *a, LLVMValueRef step, Update *out)
{
    const ScatterPlan *p = a->p;
    Emit *e = a->e;
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMValueRef last = emit_index_constant(e, p->steps - 1), ok;
    LLVMValueRef exists = LLVMBuildICmp(b, LLVMIntSLE, step, last, "");
    step = LLVMBuildSelect(b, exists, step, last, "");
    emit_spread(e, p->update, p->free_dims, p->free_count, a->batch, update);
    emit_spread(e, p->update, p->walked, p->walked_count,
                emit_variable(e, step, (Range){0, p->steps - 1}), update);
    scatter_destination(e, a->s, update, to, &bound, &ok);
    out->ok = ok == NULL ? exists : LLVMBuildAnd(b, ok, exists, "");
    emit_element(e, p->inst->operands[2], update, &out->value);
    e->k->at = p->inst->name;
    out->value = reducer_widen(&a->reducer, 0, out->value);
    out->position = as_i32(a, emit_index(e, bound, 0));
}

/* All of them, several of a thread read before the first is put where it goes. */
static void take_updates(const Positions *a)
{
    Emit *e = a->e;
    Kernel *k = e->k;
    int64_t threads = k->block[0], ahead = a->s->in->design->config.unroll;
    Update *updates = ARENA_ARRAY(e->arena, Update, (size_t)ahead);
    int64_t taken = threads * ahead, end = ceil_div(a->p->steps, taken) * taken;
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, end),
                  emit_index_constant(e, taken), NULL, 0);
    emit_scope_begin(e);
    LLVMValueRef first = LLVMBuildAdd(k->builder, loop.index, to_index(e, a->tid), "");
    for (int64_t i = 0; i < ahead; i++) {
        LLVMValueRef further = emit_index_constant(e, i * threads);
        read_update(a, LLVMBuildAdd(k->builder, first, further, ""), &updates[i]);
    }
    for (int64_t i = 0; i < ahead; i++) {
        if (a->p->operation == OP_COUNT)
            combine_in_warp(a, &updates[i]);
        else
            combine_by_atomics(a, &updates[i]);
    }
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

/* The constant that launches pass, if there is one. */
static void take_scalar(Emit *e, const EmitterInput *in)
{
    KernelScalar scalar;
    if (!kernel_scalar(in->fusion, &scalar))
        return;
    const Instruction *inst = scalar.constants[0];
    LLVMValueRef v = gx_scalar(e->k, emitter_scalar_arg(in));
    v = LLVMBuildIntCast2(e->k->builder, v, emit_type(e->k, inst->shape->dtype), 0, "");
    emit_preset(e, inst, &v);
}

Kernel *emit_scatter_shared(const Scatter *s)
{
    const ScatterPlan *p = s->plan;
    Emit *e = emitter_begin(s->in);
    Kernel *k = e->k;
    Positions a = {.e = e, .s = s, .p = p, .type = p->accumulator, .tid = gx_tid(k, 0)};
    reducer_begin_updates(&a.reducer, e, p->inst);
    take_scalar(e, s->in);
    a.bytes = shared_bytes(a.type);
    a.base = gx_shared_alloc(k, (uint64_t)(p->positions * a.bytes), a.bytes);
    a.batch =
        emit_variable(e, to_index(e, gx_ctaid(k, 0)), (Range){0, p->free_positions - 1});
    move_positions(&a, false);
    gx_barrier(k);
    take_updates(&a);
    gx_barrier(k);
    move_positions(&a, true);
    return emitter_finish(s->in, e);
}
