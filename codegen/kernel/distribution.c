/* See distribution.h. */
#include "codegen/kernel/distribution.h"

#include "codegen/gx/hoist.h"

/* What the thread's items start with, and how far they lie apart. `threads` of them ask. */
static const IndexExpr *first_item(Emit *e, const Distribution *s, int64_t threads)
{
    const IndexExpr *thread = emit_variable(e, s->thread, (Range){0, threads - 1});
    int64_t each = s->items / s->threads, longer = s->items % s->threads;
    if (!s->in_order || each == 0)
        return thread;
    thread = ix_mul(e->ix, thread, each);
    if (longer == 0)
        return thread;
    LLVMValueRef most = emit_index_constant(e, longer);
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef before = LLVMBuildSelect(
        b, LLVMBuildICmp(b, LLVMIntSLT, s->thread, most, ""), s->thread, most, "");
    return ix_add(e->ix, thread, emit_variable(e, before, (Range){0, longer}));
}

static LLVMValueRef is_not_first(Emit *e, const Distribution *s)
{
    return LLVMBuildICmp(e->k->builder, LLVMIntNE, s->thread, emit_index_constant(e, 0),
                         "");
}

/* Rounds in which every thread has an item: `trips` times `unroll` of them, the first one is round `before`. Those of a
 * trip read before they compute. */
static void whole_rounds(Emit *e, const Distribution *s, int64_t before, int64_t trips,
                         int64_t unroll, DistributionFn *body, const void *user,
                         LLVMValueRef *carried, unsigned count)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef is_start = before == 0 ? is_not_first(e, s) : NULL;
    LLVMValueRef next[EMIT_MOST_LEAVES];
    const IndexExpr *trip = ix_const(e->ix, 0);
    int64_t step = s->in_order ? 1 : s->threads;
    GxLoop loop;
    GxHoist hoist;
    if (trips > 1) {
        LLVMValueRef zero = emit_index_constant(e, 0);
        gx_loop_begin(e->k, &loop, zero, emit_index_constant(e, trips),
                      emit_index_constant(e, 1), carried, count);
        trip = emit_variable(e, loop.index, (Range){0, trips - 1});
        if (is_start != NULL)
            is_start = LLVMBuildAnd(
                b, is_start, LLVMBuildICmp(b, LLVMIntEQ, loop.index, zero, ""), "");
    }
    emit_scope_begin(e);
    const IndexExpr *first =
        ix_add(e->ix, ix_mul(e->ix, trip, unroll * step), first_item(e, s, s->threads));
    if (unroll > 1)
        gx_hoist_begin(e->k, &hoist);
    for (int64_t i = 0; i < unroll; i++) {
        if (unroll > 1)
            gx_hoist_round(e->k, &hoist);
        body(e, user, ix_add(e->ix, first, ix_const(e->ix, (before + i) * step)),
             i == 0 ? is_start : NULL, carried);
    }
    if (unroll > 1)
        gx_hoist_end(e->k, &hoist);
    emit_scope_end(e);
    for (unsigned i = 0; i < count; i++)
        next[i] = carried[i];
    if (trips > 1)
        gx_loop_end(e->k, &loop, next);
}

/* Trips of several rounds, then the rounds that are left. */
static void all_rounds(Emit *e, const Distribution *s, int64_t rounds,
                       DistributionFn *body, const void *user, LLVMValueRef *carried,
                       unsigned count)
{
    int64_t unroll = s->unroll > 1 ? s->unroll : 1, trips = rounds / unroll;
    int64_t left = rounds - trips * unroll;
    if (trips > 0)
        whole_rounds(e, s, 0, trips, unroll, body, user, carried, count);
    if (left > 0)
        whole_rounds(e, s, trips * unroll, left, 1, body, user, carried, count);
}

static void find_kept(Emit *e, const Distribution *s, int64_t tail)
{
    LLVMBuilderRef b = e->k->builder;
    DistributionKept *kept = s->kept;
    kept->thread = emit_variable(e, s->thread, (Range){0, s->threads - 1});
    if (tail == 0)
        return;
    kept->has_tail =
        LLVMBuildICmp(b, LLVMIntULT, s->thread, emit_index_constant(e, tail), "");
    LLVMValueRef number =
        LLVMBuildSelect(b, kept->has_tail, s->thread, emit_index_constant(e, 0), "");
    kept->tail = emit_variable(e, number, (Range){0, tail - 1});
}

/* Threads without a last item compute item 0 of the last round, and drop what it adds. */
static void kept_tail(Emit *e, const Distribution *s, const IndexExpr *item,
                      LLVMValueRef is_start, DistributionFn *body, const void *user,
                      LLVMValueRef *carried, unsigned count)
{
    LLVMValueRef before[EMIT_MOST_LEAVES], has = s->kept->has_tail;
    if (count == 0) {
        GxIf guard;
        emit_if_begin(e, &guard, has);
        body(e, user, item, is_start, carried);
        emit_if_end(e, &guard, NULL, 0, NULL);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        before[i] = carried[i];
    body(e, user, item, is_start, carried);
    for (unsigned i = 0; i < count; i++)
        carried[i] = LLVMBuildSelect(e->k->builder, has, carried[i], before[i], "");
}

static void walk_kept(Emit *e, const Distribution *s, DistributionFn *body,
                      const void *user, LLVMValueRef *carried, unsigned count)
{
    int64_t rounds = s->items / s->threads, tail = s->items % s->threads;
    LLVMValueRef is_start = is_not_first(e, s);
    if (s->kept->thread == NULL)
        find_kept(e, s, tail);
    for (int64_t i = 0; i < rounds; i++)
        body(e, user, ix_add(e->ix, s->kept->thread, ix_const(e->ix, i * s->threads)),
             i == 0 ? is_start : NULL, carried);
    if (tail == 0)
        return;
    const IndexExpr *item =
        ix_add(e->ix, s->kept->tail, ix_const(e->ix, rounds * s->threads));
    kept_tail(e, s, item, rounds == 0 ? is_start : NULL, body, user, carried, count);
}

void distribute_items(Emit *e, const Distribution *s, DistributionFn *body,
                      const void *user, LLVMValueRef *carried, unsigned count)
{
    if (s->kept != NULL) {
        walk_kept(e, s, body, user, carried, count);
        return;
    }
    int64_t rounds = s->items / s->threads, tail = s->items % s->threads;
    int64_t step = s->in_order ? 1 : s->threads;
    if (rounds > 0)
        all_rounds(e, s, rounds, body, user, carried, count);
    if (tail == 0)
        return;
    GxIf guard;
    LLVMValueRef before[EMIT_MOST_LEAVES];
    for (unsigned i = 0; i < count; i++)
        before[i] = carried[i];
    emit_if_begin(e, &guard,
                  LLVMBuildICmp(e->k->builder, LLVMIntULT, s->thread,
                                emit_index_constant(e, tail), ""));
    body(e, user, ix_add(e->ix, first_item(e, s, tail), ix_const(e->ix, rounds * step)),
         rounds == 0 ? is_not_first(e, s) : NULL, carried);
    emit_if_end_or(e, &guard, carried, before, count);
}
