/* The k largest (or smallest) elements of each row of the last dimension, in order, and where they stood;
 * floats in total order, equal elements by position. A block takes a row: shared memory holds the k best so
 * far and the elements that go before the last of them, which are sorted together when they might become too
 * many: in any order of the elements but the worst that is seldom. Where k is too large for that, the operation is expanded into a sort (passes/simplify/expand.c). */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/sort_network.h"
#include "codegen/kernel/threads.h"

typedef struct TopK {
    const EmitterInput *in;
    const Instruction *inst;
    SortOrder order;
    SortNetwork network;
    int64_t size, k, rows;
    uint32_t counter; /* in shared memory: slots in use */
} TopK;

/* A number whose signed order (unsigned: of unsigned types) is the total order of the type. */
static LLVMValueRef order_key(Emit *e, DType t, LLVMValueRef v)
{
    LLVMBuilderRef b = e->k->builder;
    unsigned bits = dtype_info[t].bits;
    if (!dtype_is_float(t))
        return v;
    LLVMTypeRef type = gx_int_type(e->k, bits);
    v = LLVMBuildBitCast(b, v, type, "");
    LLVMValueRef sign = LLVMBuildAShr(b, v, LLVMConstInt(type, bits - 1, 0), "");
    return LLVMBuildXor(b, v, LLVMBuildLShr(b, sign, LLVMConstInt(type, 1, 0), ""), "");
}

static LLVMValueRef compare(Emit *e, const SortOrder *order, const LLVMValueRef *a,
                            const LLVMValueRef *b)
{
    DType t = order->type[0];
    bool is_signed = dtype_is_float(t) || dtype_is_signed(t);
    LLVMIntPredicate before = order->largest ? is_signed ? LLVMIntSGT : LLVMIntUGT
                              : is_signed    ? LLVMIntSLT
                                             : LLVMIntULT;
    return LLVMBuildICmp(e->k->builder, before, order_key(e, t, a[0]),
                         order_key(e, t, b[0]), "");
}

/* Index of column `at` in row `row` (rows count in the logical order of the other dimensions). */
static void place(Emit *e, const Shape *shape, const IndexExpr *row, const IndexExpr *at,
                  const IndexExpr **out)
{
    uint32_t last = shape->rank - 1;
    out[last] = at;
    for (uint32_t d = last; d-- > 0;) {
        out[d] = d == 0 ? row : ix_mod(e->ix, row, shape->dims[d]);
        row = ix_floordiv(e->ix, row, shape->dims[d]);
    }
}

static void store(Emit *e, const TopK *t, const IndexExpr *row, const IndexExpr *at,
                  LLVMValueRef value, LLVMValueRef position)
{
    const IndexExpr *index[EMIT_MOST_RANK];
    place(e, shape_leaf(t->inst->shape, 0), row, at, index);
    for (uint32_t leaf = 0; leaf < 2; leaf++)
        emit_store(e, fusion_result_arg(t->in->fusion, leaf),
                   shape_leaf(t->inst->shape, leaf), index,
                   leaf == 0 ? &value : &position);
}

/* -- in shared memory --------------------------------------------------------------------------------- */

static LLVMValueRef element(TopK *t, const IndexExpr *row, LLVMValueRef position)
{
    Emit *e = t->network.e;
    const IndexExpr *index[EMIT_MOST_RANK];
    const IndexExpr *at =
        emit_variable(e, to_index(e, position), (Range){0, t->size - 1});
    LLVMValueRef v;
    place(e, t->inst->operands[0]->shape, row, at, index);
    emit_element(e, t->inst->operands[0], index, &v);
    e->k->at = t->inst->name;
    return v;
}

/* The row's first elements into all slots. */
static void load_slots(TopK *t, const IndexExpr *row)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    GxLoop loop;
    GxIf guard;
    LLVMValueRef v, padding = LLVMConstNull(emit_type(k, t->order.type[0]));
    sort_each_begin(net, &loop, 0, net->padded);
    emit_if_begin(
        e, &guard,
        LLVMBuildICmp(k->builder, LLVMIntULT, loop.index, gx_i32(k, net->size), ""));
    v = element(t, row, loop.index);
    emit_if_end_or(e, &guard, &v, &padding, 1);
    sort_store(net, loop.index, &v, loop.index);
    sort_each_end(net, &loop);
}

static LLVMValueRef count_place(const TopK *t)
{
    return gx_i32(t->network.e->k, t->counter);
}

/* By all threads, between barriers. */
static void set_count(const TopK *t)
{
    Kernel *k = t->network.e->k;
    GxIf first;
    gx_if_begin(k, &first,
                LLVMBuildICmp(k->builder, LLVMIntEQ, gx_tid(k, 0), gx_i32(k, 0), ""));
    gx_store(k, GX_SHARED, count_place(t), gx_i32(k, (uint32_t)t->k), 4);
    gx_if_end(k, &first, NULL, 0, NULL);
}

/* Elements first, first + 1, ... that go before the last of the k best so far - equal ones stood behind it - are
 * put behind those. A barrier at the end. */
static void take_chunk(TopK *t, const IndexExpr *row, LLVMValueRef first)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef v[TOPK_TAKEN], positions[TOPK_TAKEN], last, at;
    LLVMValueRef padding = LLVMConstNull(emit_type(k, t->order.type[0]));
    sort_load(net, gx_i32(k, (uint32_t)t->k - 1), &last, &at);
    for (uint32_t i = 0; i < TOPK_TAKEN; i++) {
        GxIf guard;
        positions[i] = LLVMBuildAdd(b, gx_tid(k, 0), gx_i32(k, i * k->block[0]), "");
        positions[i] = LLVMBuildAdd(b, positions[i], first, "");
        emit_if_begin(
            e, &guard,
            LLVMBuildICmp(b, LLVMIntULT, positions[i], gx_i32(k, net->size), ""));
        v[i] = element(t, row, positions[i]);
        emit_if_end_or(e, &guard, &v[i], &padding, 1);
    }
    for (uint32_t i = 0; i < TOPK_TAKEN; i++) {
        GxIf takes;
        LLVMValueRef exists =
            LLVMBuildICmp(b, LLVMIntULT, positions[i], gx_i32(k, net->size), "");
        LLVMValueRef is_better = compare(e, &t->order, &v[i], &last);
        gx_if_begin(k, &takes, LLVMBuildAnd(b, exists, is_better, ""));
        LLVMValueRef slot =
            gx_atomic(k, GX_ATOMIC_ADD, GX_SHARED, count_place(t), gx_i32(k, 1));
        sort_store(net, slot, &v[i], positions[i]);
        gx_if_end(k, &takes, NULL, 0, NULL);
    }
    gx_barrier(k);
}

/* The k best of the `count` (i32) slots in use. */
static void sort_used(TopK *t, LLVMValueRef count)
{
    SortNetwork *net = &t->network;
    Kernel *k = net->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef one = gx_i32(k, 1), none = gx_i32(k, net->size);
    LLVMValueRef args[2] = {LLVMBuildSub(b, count, one, ""),
                            LLVMConstInt(gx_int_type(k, 1), 0, 0)};
    LLVMValueRef zeros = gx_intrinsic(k, "ctlz", args, 2);
    net->used = LLVMBuildSub(b, gx_i32(k, 32), zeros, "");
    LLVMValueRef padding = LLVMConstNull(emit_type(k, t->order.type[0]));
    GxLoop loop;
    gx_loop_begin(k, &loop, LLVMBuildAdd(b, count, gx_tid(k, 0), ""),
                  LLVMBuildShl(b, one, net->used, ""), gx_i32(k, k->block[0]), NULL, 0);
    sort_store(net, loop.index, &padding, none);
    gx_loop_end(k, &loop, NULL);
    sort_rows(net);
    net->used = NULL;
}

/* The rest of the row, chunk by chunk; slots are sorted when another chunk might not fit. */
static void take_rest(TopK *t, const IndexExpr *row)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i32 = gx_int_type(k, 32);
    uint32_t chunk = TOPK_TAKEN * k->block[0];
    GxLoop loop;
    GxIf full;
    set_count(t);
    gx_barrier(k);
    gx_loop_begin(k, &loop, gx_i32(k, net->padded), gx_i32(k, net->size),
                  gx_i32(k, chunk), NULL, 0);
    emit_scope_begin(e);
    take_chunk(t, row, loop.index);
    LLVMValueRef count = gx_load(k, GX_SHARED, count_place(t), i32, 4);
    gx_barrier(k);
    gx_if_begin(k, &full,
                LLVMBuildICmp(b, LLVMIntUGT, count, gx_i32(k, net->padded - chunk), ""));
    sort_used(t, count);
    set_count(t);
    gx_barrier(k);
    gx_if_end(k, &full, NULL, 0, NULL);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
    sort_used(t, gx_load(k, GX_SHARED, count_place(t), i32, 4));
}

static Kernel *topk_shared(TopK *t)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e = emitter_begin(t->in);
    Kernel *k = e->k;
    const IndexExpr *row =
        emit_variable(e, to_index(e, gx_ctaid(k, 0)), (Range){0, t->rows - 1});
    sort_allocate(net);
    load_slots(t, row);
    sort_rows(net);
    if (net->padded < net->size) {
        t->counter = gx_shared_alloc(k, 4, 4);
        take_rest(t, row);
    }
    GxLoop loop;
    LLVMValueRef v, position;
    sort_each_begin(net, &loop, 0, (uint32_t)t->k);
    sort_load(net, loop.index, &v, &position);
    store(e, t, row, emit_variable(e, to_index(e, loop.index), (Range){0, t->k - 1}), v,
          position);
    sort_each_end(net, &loop);
    return emitter_finish(t->in, e);
}

Kernel *emitter_topk(const EmitterInput *in)
{
    const TopKPlan *p = in->design->plan.topk;
    const Attr *largest = inst_attr(p->inst, ATTR_LARGEST);
    TopK t = {.in = in,
              .inst = p->inst,
              .order = {.compare = compare, .inst = p->inst, .count = 1},
              .network = {.padded = (uint32_t)in->design->config.slots, .rows = 1},
              .size = p->size,
              .k = p->k,
              .rows = p->rows};
    SortNetwork *net = &t.network;
    while (1u << net->log2 < net->padded)
        net->log2++;
    t.order.largest = largest == NULL || largest->i != 0;
    t.order.type[0] = p->shape->dtype;
    net->order = &t.order;
    net->size = (uint32_t)t.size;
    return topk_shared(&t);
}
