/* The k largest (or smallest) elements of each row of the last dimension, in order, and where they stood;
 * floats in total order, equal elements by position. A block takes a row: shared memory holds the k best so
 * far and the elements that go before the last of them, which are sorted together when they might become too
 * many: in any order of the elements but the worst that is seldom. Where k is too large for that, the operation is
 * expanded into a sort (passes/simplify/expand.c). */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/sort_network.h"
#include "codegen/kernel/threads.h"

/* Elements of a thread that are put behind the k best without asking for room. No number of the configuration: only
 * what is done once more goes by it, after slots ran out, and slots that are left over allow fewer. */
#define MOST_TAKEN 4

typedef struct TopK {
    const EmitterInput *in;
    const Instruction *inst;
    SortOrder order;
    SortNetwork network;
    int64_t size, k, rows;
    uint32_t lanes;   /* elements of a load */
    uint32_t loads;   /* of a thread of a batch */
    uint32_t taken;   /* elements of a thread of a chunk */
    uint32_t limit;   /* slots in use from which on they are sorted again */
    uint32_t counter; /* in shared memory: slots in use */
} TopK;

/* A number whose signed order (unsigned: of unsigned types) is the total order of the type. */
static LLVMValueRef order_key(Emit *e, DType t, LLVMValueRef v)
{
    return dtype_is_float(t) ? scalar_total_key(e->k, v, t) : v;
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
static void index_of_position(Emit *e, const Shape *shape, const IndexExpr *row,
                              const IndexExpr *at, const IndexExpr **out)
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
    index_of_position(e, shape_leaf(t->inst->shape, 0), row, at, index);
    for (uint32_t leaf = 0; leaf < 2; leaf++)
        emit_store(e, fusion_result_arg(t->in->fusion, leaf),
                   shape_leaf(t->inst->shape, leaf), index,
                   leaf == 0 ? &value : &position);
}

/* -- in shared memory --------------------------------------------------------------------------------- */

/* All lanes. */
static void load(TopK *t, const IndexExpr *row, const IndexExpr *at, LLVMValueRef *out)
{
    Emit *e = t->network.e;
    const IndexExpr *index[EMIT_MOST_RANK];
    index_of_position(e, t->inst->operands[0]->shape, row, at, index);
    emit_element(e, t->inst->operands[0], index, out);
    e->k->at = t->inst->name;
}

static LLVMValueRef is_in_row(const TopK *t, LLVMValueRef position)
{
    Kernel *k = t->network.e->k;
    return LLVMBuildICmp(k->builder, LLVMIntULT, position, gx_i32(k, t->network.size),
                         "");
}

/* The element there; any number behind the row's end. */
static LLVMValueRef element(TopK *t, const IndexExpr *row, LLVMValueRef position)
{
    Emit *e = t->network.e;
    GxIf guard;
    LLVMValueRef v, padding = LLVMConstNull(emit_type(e->k, t->order.type[0]));
    emit_if_begin(e, &guard, is_in_row(t, position));
    load(t, row, emit_variable(e, to_index(e, position), (Range){0, t->size - 1}), &v);
    emit_if_end_or(e, &guard, &v, &padding, 1);
    return v;
}

/* The row's first elements into all slots. */
static void load_slots(TopK *t, const IndexExpr *row)
{
    SortNetwork *net = &t->network;
    GxLoop loop;
    sort_each_begin(net, &loop, 0, net->padded);
    LLVMValueRef v = element(t, row, loop.index);
    sort_store(net, loop.index, &v, loop.index);
    sort_each_end(net, &loop);
}

static LLVMValueRef count_offset(const TopK *t)
{
    return gx_i32(t->network.e->k, t->counter);
}

/* By all threads, between barriers. */
static void set_count(const TopK *t, LLVMValueRef count)
{
    Kernel *k = t->network.e->k;
    GxIf first;
    gx_if_begin(k, &first,
                LLVMBuildICmp(k->builder, LLVMIntEQ, gx_tid(k, 0), gx_i32(k, 0), ""));
    gx_store(k, GX_SHARED, count_offset(t), count, 4);
    gx_if_end(k, &first, NULL, 0, NULL);
}

/* The k-th best so far; elements behind it that equal it do not go before it. */
static LLVMValueRef last_best(TopK *t)
{
    LLVMValueRef last, at;
    sort_load(&t->network, gx_i32(t->network.e->k, (uint32_t)t->k - 1), &last, &at);
    return last;
}

/* Puts an element behind the k best, where there is still room for it if that is asked for. */
static void take(TopK *t, LLVMValueRef v, LLVMValueRef position, bool asks)
{
    SortNetwork *net = &t->network;
    Kernel *k = net->e->k;
    GxIf fits;
    LLVMValueRef slot =
        gx_atomic(k, GX_ATOMIC_ADD, GX_SHARED, count_offset(t), gx_i32(k, 1));
    if (asks)
        gx_if_begin(
            k, &fits,
            LLVMBuildICmp(k->builder, LLVMIntULT, slot, gx_i32(k, net->padded), ""));
    sort_store(net, slot, &v, position);
    if (asks)
        gx_if_end(k, &fits, NULL, 0, NULL);
}

/* Elements first, first + 1, ... before `end` that go before the last of the k best so far are put behind those, which
 * have room for all. A barrier at the end. */
static void take_chunk(TopK *t, const IndexExpr *row, LLVMValueRef first,
                       LLVMValueRef end)
{
    Emit *e = t->network.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef v[MOST_TAKEN], positions[MOST_TAKEN], last = last_best(t);
    for (uint32_t i = 0; i < t->taken; i++) {
        positions[i] = LLVMBuildAdd(b, gx_tid(k, 0), gx_i32(k, i * k->block[0]), "");
        positions[i] = LLVMBuildAdd(b, positions[i], first, "");
        v[i] = element(t, row, positions[i]);
    }
    for (uint32_t i = 0; i < t->taken; i++) {
        GxIf takes;
        /* a batch need not be whole chunks: what lies behind it is the next one's */
        LLVMValueRef exists = LLVMBuildICmp(b, LLVMIntULT, positions[i], end, "");
        LLVMValueRef is_better = compare(e, &t->order, &v[i], &last);
        gx_if_begin(k, &takes, LLVMBuildAnd(b, exists, is_better, ""));
        take(t, v[i], positions[i], false);
        gx_if_end(k, &takes, NULL, 0, NULL);
    }
    gx_barrier(k);
}

/* Elements that a block looks at between two barriers. */
static uint32_t batch_size(const TopK *t)
{
    return t->loads * t->lanes * t->network.e->k->block[0];
}

/* What a thread has of a batch. */
typedef struct TopKLoad {
    LLVMValueRef v[TOPK_LANES], better[TOPK_LANES];
    LLVMValueRef first, exists; /* of all lanes */
} TopKLoad;

/* Neighbours from a multiple of the lanes on; behind the row's end those at its beginning, so that no load waits for
 * a branch. */
static void load_neighbours(TopK *t, const IndexExpr *row, LLVMValueRef first,
                            TopKLoad *out)
{
    Emit *e = t->network.e;
    LLVMBuilderRef b = e->k->builder;
    out->first = first;
    out->exists = is_in_row(t, first);
    LLVMValueRef from = LLVMBuildSelect(b, out->exists, first, gx_i32(e->k, 0), "");
    from = LLVMBuildUDiv(b, from, gx_i32(e->k, t->lanes), "");
    const IndexExpr *group =
        emit_variable(e, to_index(e, from), (Range){0, t->size / t->lanes - 1});
    e->lanes = t->lanes;
    const IndexExpr *at = ix_mul(e->ix, group, t->lanes);
    if (t->lanes > 1)
        at = ix_add(e->ix, at, emit_lane(e));
    load(t, row, at, out->v);
    e->lanes = 1;
}

/* A batch from `first` on, or what the row has of it: as take_chunk, but that slots may run out, which their count
 * tells. A barrier at the end. */
static void take_batch(TopK *t, const IndexExpr *row, LLVMValueRef first)
{
    Emit *e = t->network.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    TopKLoad *loads = ARENA_ARRAY(e->arena, TopKLoad, t->loads);
    LLVMValueRef any = NULL, last = last_best(t);
    GxIf some, takes;
    for (uint32_t i = 0; i < t->loads; i++) {
        LLVMValueRef at = LLVMBuildAdd(b, gx_tid(k, 0), gx_i32(k, i * k->block[0]), "");
        at = LLVMBuildMul(b, at, gx_i32(k, t->lanes), "");
        load_neighbours(t, row, LLVMBuildAdd(b, first, at, ""), &loads[i]);
    }
    for (uint32_t i = 0; i < t->loads; i++) {
        for (uint32_t j = 0; j < t->lanes; j++) {
            LLVMValueRef is_better = compare(e, &t->order, &loads[i].v[j], &last);
            loads[i].better[j] = LLVMBuildAnd(b, loads[i].exists, is_better, "");
            any = any == NULL ? loads[i].better[j]
                              : LLVMBuildOr(b, any, loads[i].better[j], "");
        }
    }
    gx_if_begin(k, &some, any); /* seldom */
    for (uint32_t i = 0; i < t->loads; i++) {
        for (uint32_t j = 0; j < t->lanes; j++) {
            gx_if_begin(k, &takes, loads[i].better[j]);
            take(t, loads[i].v[j], LLVMBuildAdd(b, loads[i].first, gx_i32(k, j), ""),
                 true);
            gx_if_end(k, &takes, NULL, 0, NULL);
        }
    }
    gx_if_end(k, &some, NULL, 0, NULL);
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

/* Slots in use, which no thread changes before all know them. */
static LLVMValueRef load_count(const TopK *t)
{
    Kernel *k = t->network.e->k;
    LLVMValueRef count = gx_load(k, GX_SHARED, count_offset(t), gx_int_type(k, 32), 4);
    gx_barrier(k);
    return count;
}

/* Only the k best stay in use. */
static void keep_best(TopK *t, LLVMValueRef count)
{
    Kernel *k = t->network.e->k;
    sort_used(t, count);
    set_count(t, gx_i32(k, (uint32_t)t->k));
    gx_barrier(k);
}

/* A batch for which slots ran out once more, in chunks; `count`: slots in use before it. Slots are sorted when
 * another chunk might not fit. */
static LLVMValueRef retake_batch(TopK *t, const IndexExpr *row, LLVMValueRef first,
                                 LLVMValueRef count)
{
    Emit *e = t->network.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    uint32_t chunk = t->taken * k->block[0];
    LLVMValueRef size = gx_i32(k, t->network.size), end, used;
    GxLoop loop;
    GxIf full;
    set_count(t, count);
    gx_barrier(k);
    end = LLVMBuildAdd(b, first, gx_i32(k, batch_size(t)), "");
    end = gx_intrinsic(k, "umin", (LLVMValueRef[]){end, size}, 2);
    gx_loop_begin(k, &loop, first, end, gx_i32(k, chunk), &count, 1);
    emit_scope_begin(e);
    gx_if_begin(
        k, &full,
        LLVMBuildICmp(b, LLVMIntUGT, count, gx_i32(k, t->network.padded - chunk), ""));
    keep_best(t, count);
    gx_if_end(k, &full, NULL, 0, NULL);
    take_chunk(t, row, loop.index, end);
    used = load_count(t);
    emit_scope_end(e);
    gx_loop_end(k, &loop, &used);
    return count;
}

/* Slots above the limit are sorted; gives how many are in use then. */
static LLVMValueRef compact(TopK *t, const IndexExpr *row, LLVMValueRef first,
                            LLVMValueRef before, LLVMValueRef count)
{
    Kernel *k = t->network.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef all, best = gx_i32(k, (uint32_t)t->k), used;
    GxIf many, lost;
    gx_if_begin(k, &many, LLVMBuildICmp(b, LLVMIntUGT, count, gx_i32(k, t->limit), ""));
    gx_if_begin(k, &lost,
                LLVMBuildICmp(b, LLVMIntUGT, count, gx_i32(k, t->network.padded), ""));
    used = retake_batch(t, row, first, before);
    gx_if_else(k, &lost, &used, 1);
    gx_if_end(k, &lost, &count, 1, &all);
    keep_best(t, all);
    gx_if_else(k, &many, &best, 1);
    gx_if_end(k, &many, &count, 1, &used);
    return used;
}

/* The rest of the row, batch by batch. */
static void take_remaining(TopK *t, const IndexExpr *row)
{
    SortNetwork *net = &t->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    GxLoop loop;
    GxIf unsorted;
    LLVMValueRef best = gx_i32(k, (uint32_t)t->k), count = best, next;
    set_count(t, best);
    gx_barrier(k);
    gx_loop_begin(k, &loop, gx_i32(k, net->padded), gx_i32(k, net->size),
                  gx_i32(k, batch_size(t)), &count, 1);
    emit_scope_begin(e);
    take_batch(t, row, loop.index);
    next = compact(t, row, loop.index, count, load_count(t));
    emit_scope_end(e);
    gx_loop_end(k, &loop, &next);
    gx_if_begin(k, &unsorted, LLVMBuildICmp(k->builder, LLVMIntUGT, count, best, ""));
    sort_used(t, count);
    gx_if_end(k, &unsorted, NULL, 0, NULL);
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
        take_remaining(t, row);
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
              .rows = p->rows,
              .lanes = (uint32_t)in->design->config.lanes.data[0],
              .loads = (uint32_t)in->design->config.unroll,
              .limit = (uint32_t)topk_limit(p, in->design->config.slots)};
    int64_t free_slots = (in->design->config.slots - p->k) / in->design->config.block;
    t.taken = free_slots < MOST_TAKEN ? (uint32_t)free_slots : MOST_TAKEN;
    SortNetwork *net = &t.network;
    while (1u << net->log2 < net->padded)
        net->log2++;
    t.order.largest = largest == NULL || largest->i != 0;
    t.order.type[0] = p->shape->dtype;
    net->order = &t.order;
    net->size = (uint32_t)t.size;
    return topk_shared(&t);
}
