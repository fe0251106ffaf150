/* Cumulative windows. Where there are many rows that lie side by side, a thread walks along each; else a
 * block takes a row, chunk by chunk: warps scan their elements by shuffles, and shared memory carries
 * what came before. */
#include <string.h>

#include "codegen/kernel/scan.h"
#include "codegen/kernel/threads.h"

/* -- a thread for each row ------------------------------------------------------------------------------ */

static void walk_row(Emit *e, const void *user, const IndexExpr *row)
{
    Scan s = *(const Scan *)user;
    s.items = 1;
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef sum[REDUCER_MOST], v[REDUCER_MOST];
    scan_begin(&s, e);
    reducer_start(&s.reducer, sum);
    GxLoop loop;
    gx_loop_begin(e->k, &loop, emit_index_constant(e, 0), emit_index_constant(e, s.size),
                  emit_index_constant(e, 1), sum, s.reducer.count);
    emit_scope_begin(e);
    scan_position(e, &s, row, emit_variable(e, loop.index, (Range){0, s.size - 1}),
                  index);
    scan_load(&s, index, v);
    scan_join(&s,
              LLVMBuildICmp(e->k->builder, LLVMIntEQ, loop.index,
                            emit_index_constant(e, 0), ""),
              sum, v);
    scan_store(&s, index, v);
    emit_scope_end(e);
    gx_loop_end(e->k, &loop, v);
}

/* -- a block for each row ------------------------------------------------------------------------------- */

/* v: what the lanes found; before: what came before the warp, nothing if *nothing; carried: the sum of everything
 * so far, if this is not the first chunk (i1), then with this chunk. */
static void scan_block(const Scan *s, const uint32_t *base, LLVMValueRef is_first,
                       const LLVMValueRef *v, LLVMValueRef *before, LLVMValueRef *nothing,
                       LLVMValueRef *carried)
{
    Emit *e = s->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const Reducer *r = &s->reducer;
    LLVMValueRef warp = LLVMBuildLShr(b, gx_tid(k, 0), gx_i32(k, 5), "");
    LLVMValueRef total[REDUCER_MOST];
    GxIf last;
    gx_if_begin(k, &last, LLVMBuildICmp(b, LLVMIntEQ, gx_lane(k), gx_i32(k, 31), ""));
    for (uint32_t i = 0; i < r->count; i++) {
        DType t = r->accumulator[i];
        shared_store(e, t, element_offset(e, base[i], warp, shared_bytes(t)), v[i]);
    }
    gx_if_end(k, &last, NULL, 0, NULL);
    gx_barrier(k);
    for (uint32_t i = 0; i < r->count; i++)
        before[i] = carried[i];
    for (uint32_t w = 0; w < k->block[0] / 32; w++) {
        for (uint32_t i = 0; i < r->count; i++) {
            DType t = r->accumulator[i];
            total[i] = shared_load(
                e, t, element_offset(e, base[i], gx_i32(k, w), shared_bytes(t)));
        }
        scan_choose(e, r->count, LLVMBuildICmp(b, LLVMIntEQ, warp, gx_i32(k, w), ""),
                    carried, before);
        scan_join(s, w == 0 ? is_first : NULL, carried, total);
        for (uint32_t i = 0; i < r->count; i++)
            carried[i] = total[i];
    }
    LLVMValueRef leads = LLVMBuildICmp(b, LLVMIntEQ, warp, gx_i32(k, 0), "");
    *nothing = LLVMBuildAnd(b, is_first, leads, "");
    gx_barrier(k);
}

/* v: [items][count], each with those before it in the thread; all: the last one with the lanes before. What those
 * found joins. */
static void join_lanes(const Scan *s, const LLVMValueRef *all, LLVMValueRef *v)
{
    Emit *e = s->e;
    const Reducer *r = &s->reducer;
    LLVMValueRef before[REDUCER_MOST], joined[REDUCER_MOST];
    LLVMValueRef has =
        LLVMBuildICmp(e->k->builder, LLVMIntNE, gx_lane(e->k), gx_i32(e->k, 0), "");
    for (uint32_t i = 0; i < r->count; i++)
        before[i] = shuffle_up(e, r->accumulator[i], all[i], 1, 32);
    for (uint32_t j = 0; j < s->items; j++, v += r->count) {
        for (uint32_t i = 0; i < r->count; i++)
            joined[i] = v[i];
        scan_join(s, NULL, before, joined);
        scan_choose(e, r->count, has, joined, v);
    }
}

static void scan_chunk(const Scan *s, const IndexExpr *row, const uint32_t *base,
                       LLVMValueRef first, LLVMValueRef *carried)
{
    Emit *e = s->e;
    Kernel *k = e->k;
    uint32_t count = s->reducer.count;
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef v[REDUCER_MOST], other[REDUCER_MOST], all[REDUCER_MOST];
    LLVMValueRef before[REDUCER_MOST], nothing;
    int64_t accesses = s->size / s->items;
    LLVMValueRef at = LLVMBuildAdd(k->builder, first, to_index(e, gx_tid(k, 0)), "");
    LLVMValueRef exists =
        LLVMBuildICmp(k->builder, LLVMIntSLT, at, emit_index_constant(e, accesses), "");
    GxIf guard;
    for (uint32_t i = 0; i < count * s->items; i++)
        other[i] = carried[i % count]; /* behind the row: read by nobody */
    e->lanes = s->items;
    const IndexExpr *access = emit_variable(e, at, (Range){0, accesses - 1});
    scan_position(e, s, row, ix_add(e->ix, ix_mul(e->ix, access, s->items), emit_lane(e)),
                  index);
    emit_if_begin(e, &guard, exists);
    scan_load(s, index, v);
    emit_if_end_or(e, &guard, v, other, count * s->items);
    for (uint32_t j = 1; j < s->items; j++)
        scan_join(s, NULL, v + (j - 1) * count, v + j * count);
    for (uint32_t i = 0; i < count; i++)
        all[i] = v[(s->items - 1) * count + i];
    scan_warp(s, all);
    scan_block(s, base,
               LLVMBuildICmp(k->builder, LLVMIntEQ, first, emit_index_constant(e, 0), ""),
               all, before, &nothing, carried);
    if (s->items == 1)
        memcpy(v, all, count * sizeof *v);
    else
        join_lanes(s, all, v);
    for (uint32_t j = 0; j < s->items; j++)
        scan_join(s, nothing, before, v + j * count);
    emit_if_begin(e, &guard, exists);
    scan_store(s, index, v);
    emit_if_end(e, &guard, NULL, 0, NULL);
    e->lanes = 1;
}

static Kernel *scan_rows(Scan *s)
{
    const EmitterInput *in = s->in;
    uint32_t threads = in->design->geometry.block[0], base[REDUCER_MOST];
    Emit *e = emitter_begin(in);
    Kernel *k = e->k;
    Reducer *r = &s->reducer;
    scan_begin(s, e);
    const IndexExpr *row =
        emit_variable(e, to_index(e, gx_ctaid(k, 0)), (Range){0, s->rows - 1});
    LLVMValueRef carried[REDUCER_MOST], next[REDUCER_MOST];
    reducer_start(r, carried);
    for (uint32_t i = 0; i < r->count; i++) {
        unsigned bytes = shared_bytes(r->accumulator[i]);
        base[i] = gx_shared_alloc(k, (uint64_t)bytes * threads / 32, bytes);
    }
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0),
                  emit_index_constant(e, s->size / s->items),
                  emit_index_constant(e, threads), carried, r->count);
    emit_scope_begin(e);
    for (uint32_t i = 0; i < r->count; i++)
        next[i] = carried[i];
    scan_chunk(s, row, base, loop.index, next);
    emit_scope_end(e);
    gx_loop_end(k, &loop, next);
    return emitter_finish(in, e);
}

Kernel *emitter_window_scan(const EmitterInput *in)
{
    Scan s = scan_of(in);
    if (in->design->config.group != 1)
        return scan_rows(&s);
    return emitter_finish(in, emit_for_elements(in, s.rows, 1, walk_row, &s));
}
