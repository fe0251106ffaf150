/* The k largest (or smallest) elements of each row of the last dimension, in order, and where they stood;
 * floats in total order, equal elements by position. A block takes a row: shared memory holds the best so
 * far and the next elements, which are sorted together, until all have been seen. Where k is too large for
 * that, the operation is expanded into a sort (passes/simplify/expand.c). */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/sort_network.h"
#include "codegen/kernel/threads.h"

typedef struct TopK {
    const EmitterInput *in;
    const Instruction *inst;
    SortOrder order;
    SortNetwork network;
    int64_t size, k, rows;
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

/* Elements first, first + 1, … of the row into the slots from `slot` on. */
static void load_slots(TopK *t, const IndexExpr *row, uint32_t slot, LLVMValueRef first)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *index[EMIT_MOST_RANK];
    GxLoop loop;
    GxIf guard;
    LLVMValueRef v, padding = LLVMConstNull(emit_type(k, t->order.type[0]));
    sort_each_begin(net, &loop, slot, net->padded);
    LLVMValueRef position =
        LLVMBuildAdd(b, LLVMBuildSub(b, loop.index, gx_i32(k, slot), ""), first, "");
    emit_if_begin(e, &guard,
                  LLVMBuildICmp(b, LLVMIntULT, position, gx_i32(k, net->size), ""));
    const IndexExpr *at =
        emit_variable(e, to_index(e, position), (Range){0, t->size - 1});
    place(e, t->inst->operands[0]->shape, row, at, index);
    emit_element(e, t->inst->operands[0], index, &v);
    k->at = t->inst->name;
    emit_if_end_or(e, &guard, &v, &padding, 1);
    sort_store(net, loop.index, &v, position);
    sort_each_end(net, &loop);
}

static Kernel *topk_shared(TopK *t)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e = emitter_begin(t->in);
    Kernel *k = e->k;
    const IndexExpr *row =
        emit_variable(e, to_index(e, gx_ctaid(k, 0)), (Range){0, t->rows - 1});
    uint32_t half = net->padded / 2;
    sort_allocate(net);
    load_slots(t, row, 0, gx_i32(k, 0));
    sort_rows(net);
    if (net->padded < net->size) {
        GxLoop loop;
        gx_loop_begin(k, &loop, gx_i32(k, net->padded), gx_i32(k, net->size),
                      gx_i32(k, half), NULL, 0);
        emit_scope_begin(e);
        load_slots(t, row, half, loop.index);
        sort_rows(net);
        emit_scope_end(e);
        gx_loop_end(k, &loop, NULL);
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
