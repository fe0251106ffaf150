/* Sorts of rows along one dimension, by any comparator, always stable: elements that the comparator does
 * not tell apart keep their order.
 *
 * Rows that fit are sorted in shared memory by a bitonic network, several short ones in a block; each
 * element carries its first position, which decides between equal ones and stands for padding where it
 * lies behind the row. Longer rows come in steps (ir/kernel/sort.h): runs, then merges, for which each
 * thread searches the other run for the position of its element. If the comparator may contradict itself,
 * each thread searches for the element of its position instead, so that every position gets one of its own. */
#include "ir/kernel/sort.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/sort_network.h"
#include "codegen/kernel/threads.h"

typedef struct Sort {
    const EmitterInput *in;
    const Instruction *inst;
    SortOrder order;
    SortNetwork network;
    const Shape *shape; /* of all arrays */
    int64_t along, size, rows;
    SortStep step;
    int64_t run,
        runs; /* elements that are sorted together; how many such runs a row has */
} Sort;

/* -- positions -------------------------------------------------------------------------------------------- */

/* The index of position `at` in row `row`: rows count through the other dimensions as they lie in memory. */
static void index_of_position(Emit *e, const Sort *s, const IndexExpr *row,
                              const IndexExpr *at, const IndexExpr **out)
{
    for (uint32_t i = 0; i < s->shape->rank; i++) {
        int64_t d = s->shape->layout->minor_to_major[i], size = s->shape->dims[d];
        if (d == s->along) {
            out[d] = at;
            continue;
        }
        out[d] = ix_mod(e->ix, row, size);
        row = ix_floordiv(e->ix, row, size);
    }
}

/* The comparator. */
static LLVMValueRef compare(Emit *e, const SortOrder *order, const LLVMValueRef *a,
                            const LLVMValueRef *b)
{
    LLVMValueRef args[2 * SORT_MOST], out;
    for (uint32_t i = 0; i < order->count; i++) {
        args[2 * i] = a[i];
        args[2 * i + 1] = b[i];
    }
    emit_computation(e, inst_called(order->inst, 0), args, &out);
    return out;
}

/* -- in shared memory ----------------------------------------------------------------------------------- */

/* Row and position of slot `n`, and whether they exist. */
static LLVMValueRef locate(Sort *s, LLVMValueRef n, const IndexExpr **row,
                           const IndexExpr **at)
{
    SortNetwork *net = &s->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef position = LLVMBuildAnd(b, n, gx_i32(k, net->padded - 1), "");
    LLVMValueRef local = LLVMBuildLShr(b, n, gx_i32(k, net->log2), "");
    LLVMValueRef first = LLVMBuildMul(b, to_index(e, gx_ctaid(k, 0)),
                                      emit_index_constant(e, net->rows), "");
    LLVMValueRef number = LLVMBuildAdd(b, first, to_index(e, local), "");
    LLVMValueRef exists =
        LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntULT, position, gx_i32(k, net->size), ""),
                     LLVMBuildICmp(b, LLVMIntULT, number,
                                   emit_index_constant(e, s->rows * s->runs), ""),
                     "");
    const IndexExpr *all = emit_variable(e, number, (Range){0, s->rows * s->runs - 1});
    *row = ix_floordiv(e->ix, all, s->runs);
    *at = emit_variable(e, to_index(e, position), (Range){0, s->run - 1});
    if (s->runs == 1)
        return exists;
    *at = ix_add(e->ix, ix_mul(e->ix, ix_mod(e->ix, all, s->runs), s->run), *at);
    LLVMValueRef in_row = LLVMBuildICmp(b, LLVMIntULT, emit_index(e, *at, 0),
                                        emit_index_constant(e, s->size), "");
    return LLVMBuildAnd(b, exists, in_row, "");
}

static void load_rows(Sort *s)
{
    SortNetwork *net = &s->network;
    Emit *e = net->e;
    Kernel *k = e->k;
    uint32_t count = s->order.count;
    GxLoop loop;
    GxIf guard;
    const IndexExpr *row, *at, *index[EMIT_MOST_RANK];
    LLVMValueRef v[SORT_MOST], padding[SORT_MOST];
    sort_each_begin(net, &loop, 0, net->rows * net->padded);
    LLVMValueRef exists = locate(s, loop.index, &row, &at);
    emit_if_begin(e, &guard, exists);
    index_of_position(e, s, row, at, index);
    for (uint32_t i = 0; i < count; i++) {
        emit_element(e, s->inst->operands[i], index, &v[i]);
        padding[i] = LLVMConstNull(emit_type(k, s->order.type[i]));
    }
    k->at = s->inst->name;
    emit_if_end_or(e, &guard, v, padding, count);
    LLVMValueRef position =
        LLVMBuildAnd(k->builder, loop.index, gx_i32(k, net->padded - 1), "");
    LLVMValueRef behind = LLVMBuildOr(k->builder, position, gx_i32(k, net->padded), "");
    position = LLVMBuildSelect(k->builder, exists, position, behind, "");
    sort_store(net, loop.index, v, position);
    sort_each_end(net, &loop);
}

static void store_rows(Sort *s)
{
    SortNetwork *net = &s->network;
    Emit *e = net->e;
    GxLoop loop;
    GxIf guard;
    const IndexExpr *row, *at, *index[EMIT_MOST_RANK];
    LLVMValueRef v[SORT_MOST], position;
    sort_each_begin(net, &loop, 0, net->rows * net->padded);
    emit_if_begin(e, &guard, locate(s, loop.index, &row, &at));
    index_of_position(e, s, row, at, index);
    sort_load(net, loop.index, v, &position);
    for (uint32_t i = 0; i < fusion_result_count(s->in->fusion); i++) {
        FusionResult r = fusion_result(s->in->fusion, i);
        emit_store(e, fusion_result_arg(s->in->fusion, i), r.shape, index,
                   &v[r.inst_leaf]);
    }
    emit_if_end(e, &guard, NULL, 0, NULL);
    sort_each_end(net, &loop);
}

static Kernel *sort_shared(Sort *s)
{
    SortNetwork *net = &s->network;
    net->e = emitter_begin(s->in);
    sort_allocate(net);
    load_rows(s);
    sort_rows(net);
    store_rows(s);
    return emitter_finish(s->in, net->e);
}

/* -- merging ---------------------------------------------------------------------------------------------- */

static LLVMValueRef minimum(Emit *e, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = e->k->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, x, y, ""), x, y, "");
}

/* How many elements of the other run stand before element `at` of one: the run behind loses against
 * equal elements of the one before. Runs have `half` elements, the row's last one perhaps fewer. */
static LLVMValueRef count_before(Sort *s, Emit *e, const IndexExpr *row,
                                 LLVMValueRef first, LLVMValueRef is_behind,
                                 const LLVMValueRef *x)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t half = s->step.run / 2;
    uint32_t steps = 1;
    while (INT64_C(1) << (steps - 1) < half)
        steps++;
    LLVMValueRef size = emit_index_constant(e, s->size), y[SORT_MOST];
    LLVMValueRef end = LLVMBuildAdd(b, first, emit_index_constant(e, half), "");
    LLVMValueRef bounds[2] = {minimum(e, first, size), minimum(e, end, size)};
    LLVMValueRef from = bounds[0], next[2];
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, steps), gx_i32(k, 1), bounds, 2);
    LLVMValueRef low = bounds[0], high = bounds[1];
    LLVMValueRef open = LLVMBuildICmp(b, LLVMIntULT, low, high, "");
    LLVMValueRef middle =
        LLVMBuildLShr(b, LLVMBuildAdd(b, low, high, ""), emit_index_constant(e, 1), "");
    middle = minimum(e, middle, emit_index_constant(e, s->size - 1));
    const IndexExpr *index[EMIT_MOST_RANK];
    emit_scope_begin(e);
    index_of_position(e, s, row, emit_variable(e, middle, (Range){0, s->size - 1}),
                      index);
    for (uint32_t i = 0; i < s->order.count; i++)
        emit_element(e, s->inst->operands[i], index, &y[i]);
    k->at = s->inst->name;
    LLVMValueRef one[SORT_MOST], other[SORT_MOST];
    for (uint32_t i = 0; i < s->order.count; i++) {
        one[i] = LLVMBuildSelect(b, is_behind, x[i], y[i], "");
        other[i] = LLVMBuildSelect(b, is_behind, y[i], x[i], "");
    }
    LLVMValueRef before =
        LLVMBuildXor(b, compare(e, &s->order, one, other), is_behind, "");
    emit_scope_end(e);
    LLVMValueRef up = LLVMBuildAnd(b, open, before, "");
    LLVMValueRef down = LLVMBuildAnd(b, open, LLVMBuildNot(b, before, ""), "");
    LLVMValueRef more = LLVMBuildAdd(b, middle, emit_index_constant(e, 1), "");
    next[0] = LLVMBuildSelect(b, up, more, low, "");
    next[1] = LLVMBuildSelect(b, down, middle, high, "");
    gx_loop_end(k, &loop, next);
    return LLVMBuildSub(b, low, from, "");
}

/* Each thread finds where its element goes: as far into the merged run as there are elements before it
 * in both. */
static void merge_element(Emit *e, const void *user, const IndexExpr *linear)
{
    Sort s = *(const Sort *)user;
    LLVMBuilderRef b = e->k->builder;
    int64_t half = s.step.run / 2;
    const IndexExpr *row = ix_floordiv(e->ix, linear, s.size);
    const IndexExpr *mine = ix_mod(e->ix, linear, s.size), *index[EMIT_MOST_RANK];
    LLVMValueRef x[SORT_MOST];
    index_of_position(e, &s, row, mine, index);
    for (uint32_t i = 0; i < s.order.count; i++)
        emit_element(e, s.inst->operands[i], index, &x[i]);
    LLVMValueRef at = emit_index(e, mine, 0), width = emit_index_constant(e, half);
    LLVMValueRef is_behind = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, at, width, ""),
                                           emit_index_constant(e, 0), "");
    LLVMValueRef own = LLVMBuildAnd(b, at, emit_index_constant(e, half - 1), "");
    LLVMValueRef start = LLVMBuildAnd(b, at, emit_index_constant(e, -s.step.run), "");
    LLVMValueRef other =
        LLVMBuildSelect(b, is_behind, start, LLVMBuildAdd(b, start, width, ""), "");
    LLVMValueRef rank = count_before(&s, e, row, other, is_behind, x);
    rank = LLVMBuildAdd(b, LLVMBuildAdd(b, start, own, ""), rank, "");
    index_of_position(e, &s, row, emit_variable(e, rank, (Range){0, s.size - 1}), index);
    for (uint32_t i = 0; i < s.order.count; i++)
        emit_store(e, fusion_result_arg(s.in->fusion, i), shape_leaf(s.inst->shape, i),
                   index, &x[i]);
}

/* -- merging what has no order ---------------------------------------------------------------------------- */

/* Of the first `at` elements of two merged runs `a` are of the first. */
typedef struct Cut {
    LLVMValueRef at, a;
} Cut;

/* Two runs: from `first` on, and from `second` on. */
typedef struct Runs {
    Sort *s;
    Emit *e;
    const IndexExpr *row;
    LLVMValueRef first, second;
} Runs;

static LLVMValueRef maximum(Emit *e, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = e->k->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, x, y, ""), x, y, "");
}

/* x - y, but not below 0 */
static LLVMValueRef less_by(Emit *e, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildSub(e->k->builder, maximum(e, x, y), y, "");
}

static void load_position(const Runs *r, LLVMValueRef at, LLVMValueRef *out)
{
    const Sort *s = r->s;
    const IndexExpr *index[EMIT_MOST_RANK];
    at = minimum(r->e, at, emit_index_constant(r->e, s->size - 1));
    index_of_position(r->e, s, r->row, emit_variable(r->e, at, (Range){0, s->size - 1}),
                      index);
    for (uint32_t i = 0; i < s->order.count; i++)
        emit_element(r->e, s->inst->operands[i], index, &out[i]);
    r->e->k->at = s->inst->name;
}

/* How many of the first `middle` elements are of the first run: between those of two cuts around it, so
 * that cuts never cross, whatever the comparator says. */
static LLVMValueRef cut_between(const Runs *r, LLVMValueRef middle, Cut before, Cut after)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    uint32_t steps = 1;
    while (INT64_C(1) << (steps - 1) < r->s->step.run / 2)
        steps++;
    LLVMValueRef after_b = LLVMBuildSub(b, after.at, after.a, "");
    LLVMValueRef before_b = LLVMBuildSub(b, before.at, before.a, "");
    LLVMValueRef bounds[2] = {maximum(e, before.a, less_by(e, middle, after_b)),
                              minimum(e, after.a, LLVMBuildSub(b, middle, before_b, ""))};
    LLVMValueRef x[SORT_MOST], y[SORT_MOST], next[2];
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, steps), gx_i32(k, 1), bounds, 2);
    LLVMValueRef low = bounds[0], high = bounds[1], one = emit_index_constant(e, 1);
    LLVMValueRef open = LLVMBuildICmp(b, LLVMIntULT, low, high, "");
    LLVMValueRef m = LLVMBuildLShr(b, LLVMBuildAdd(b, low, high, ""), one, "");
    LLVMValueRef partner = less_by(e, middle, LLVMBuildAdd(b, m, one, ""));
    emit_scope_begin(e);
    load_position(r, LLVMBuildAdd(b, r->first, m, ""), x);
    load_position(r, LLVMBuildAdd(b, r->second, partner, ""), y);
    LLVMValueRef down = compare(e, &r->s->order, y, x);
    emit_scope_end(e);
    LLVMValueRef up = LLVMBuildAnd(b, open, LLVMBuildNot(b, down, ""), "");
    down = LLVMBuildAnd(b, open, down, "");
    next[0] = LLVMBuildSelect(b, up, LLVMBuildAdd(b, m, one, ""), low, "");
    next[1] = LLVMBuildSelect(b, down, m, high, "");
    gx_loop_end(k, &loop, next);
    return low;
}

/* Each thread finds what comes to its position: the cut before it, by halving the merged run. */
static void merge_position(Emit *e, const void *user, const IndexExpr *linear)
{
    Sort s = *(const Sort *)user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *row = ix_floordiv(e->ix, linear, s.size);
    const IndexExpr *mine = ix_mod(e->ix, linear, s.size), *index[EMIT_MOST_RANK];
    LLVMValueRef size = emit_index_constant(e, s.size), at = emit_index(e, mine, 0);
    LLVMValueRef first = LLVMBuildAnd(b, at, emit_index_constant(e, -s.step.run), "");
    LLVMValueRef half = emit_index_constant(e, s.step.run / 2);
    LLVMValueRef second = minimum(e, LLVMBuildAdd(b, first, half, ""), size);
    LLVMValueRef whole = emit_index_constant(e, s.step.run);
    LLVMValueRef end = minimum(e, LLVMBuildAdd(b, first, whole, ""), size);
    Runs r = {&s, e, row, first, second};
    uint32_t levels = 0;
    while (INT64_C(1) << levels < s.step.run)
        levels++;
    at = LLVMBuildSub(b, at, first, "");
    LLVMValueRef zero = emit_index_constant(e, 0), next[4];
    LLVMValueRef cuts[4] = {zero, zero, LLVMBuildSub(b, end, first, ""),
                            LLVMBuildSub(b, second, first, "")};
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, levels), gx_i32(k, 1), cuts, 4);
    Cut before = {cuts[0], cuts[1]}, after = {cuts[2], cuts[3]};
    LLVMValueRef middle = LLVMBuildLShr(b, LLVMBuildAdd(b, before.at, after.at, ""),
                                        emit_index_constant(e, 1), "");
    Cut cut = {middle, cut_between(&r, middle, before, after)};
    LLVMValueRef is_left = LLVMBuildICmp(b, LLVMIntULT, at, middle, "");
    next[0] = LLVMBuildSelect(b, is_left, before.at, cut.at, "");
    next[1] = LLVMBuildSelect(b, is_left, before.a, cut.a, "");
    next[2] = LLVMBuildSelect(b, is_left, cut.at, after.at, "");
    next[3] = LLVMBuildSelect(b, is_left, cut.a, after.a, "");
    gx_loop_end(k, &loop, next);
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntUGT, cuts[3], cuts[1], ""),
                 x[SORT_MOST];
    LLVMValueRef from = LLVMBuildSelect(
        b, is_first, LLVMBuildAdd(b, first, cuts[1], ""),
        LLVMBuildAdd(b, second, LLVMBuildSub(b, at, cuts[1], ""), ""), "");
    load_position(&r, from, x);
    index_of_position(e, &s, row, mine, index);
    for (uint32_t i = 0; i < s.order.count; i++)
        emit_store(e, fusion_result_arg(s.in->fusion, i), shape_leaf(s.inst->shape, i),
                   index, &x[i]);
}

Kernel *emitter_sort(const EmitterInput *in)
{
    const SortPlan *p = in->design->plan.sort;
    Sort s = {.in = in,
              .inst = p->inst,
              .order = {.compare = compare, .inst = p->inst, .count = p->count},
              .network = {.padded = (uint32_t)p->padded,
                          .rows = (uint32_t)in->design->config.rows},
              .step = p->step,
              .shape = p->shape,
              .along = p->along,
              .size = p->size,
              .rows = p->rows,
              .run = p->run,
              .runs = p->runs};
    for (uint32_t i = 0; i < s.order.count; i++)
        s.order.type[i] = p->inst->operands[i]->shape->dtype;
    if (s.step.merges) {
        ElementsFn *merge = s.step.trusts ? merge_element : merge_position;
        return emitter_finish(in, emit_for_elements(in, s.rows * s.size, 1, merge, &s));
    }
    SortNetwork *net = &s.network;
    while (1u << net->log2 < net->padded)
        net->log2++;
    net->order = &s.order;
    net->size = (uint32_t)s.run;
    return sort_shared(&s);
}
