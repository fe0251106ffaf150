/* See sort_network.h. */
#include "codegen/kernel/sort_network.h"

#include "codegen/kernel/threads.h"

/* Element a, whose position is at_a, goes before b: the one that stood behind has to be proved smaller. */
static LLVMValueRef sort_goes_before(Emit *e, const SortOrder *order,
                                     const LLVMValueRef *a, LLVMValueRef at_a,
                                     const LLVMValueRef *b, LLVMValueRef at_b)
{
    LLVMBuilderRef builder = e->k->builder;
    LLVMValueRef x[SORT_MOST], y[SORT_MOST];
    LLVMValueRef a_first = LLVMBuildICmp(builder, LLVMIntULT, at_a, at_b, "");
    for (uint32_t i = 0; i < order->count; i++) {
        x[i] = LLVMBuildSelect(builder, a_first, b[i], a[i], "");
        y[i] = LLVMBuildSelect(builder, a_first, a[i], b[i], "");
    }
    /* x stood behind y */
    return LLVMBuildXor(builder, a_first, order->compare(e, order, x, y), "");
}

void sort_allocate(SortNetwork *s)
{
    uint64_t slots = (uint64_t)s->padded * s->rows;
    for (uint32_t i = 0; i < s->order->count; i++) {
        unsigned bytes = shared_bytes(s->order->type[i]);
        s->base[i] = gx_shared_alloc(s->e->k, slots * bytes, bytes);
    }
    s->positions = gx_shared_alloc(s->e->k, slots * 4, 4);
}

static LLVMValueRef offset_of(SortNetwork *s, uint32_t array, LLVMValueRef slot)
{
    return element_offset(s->e, s->base[array], slot,
                          shared_bytes(s->order->type[array]));
}

void sort_load(SortNetwork *s, LLVMValueRef slot, LLVMValueRef *out,
               LLVMValueRef *position)
{
    Kernel *k = s->e->k;
    for (uint32_t n = 0; n < s->order->count; n++)
        out[n] = shared_load(s->e, s->order->type[n], offset_of(s, n, slot));
    *position = gx_load(k, GX_SHARED, element_offset(s->e, s->positions, slot, 4),
                        gx_int_type(k, 32), 4);
}

void sort_store(SortNetwork *s, LLVMValueRef slot, const LLVMValueRef *v,
                LLVMValueRef position)
{
    for (uint32_t n = 0; n < s->order->count; n++)
        shared_store(s->e, s->order->type[n], offset_of(s, n, slot), v[n]);
    gx_store(s->e->k, GX_SHARED, element_offset(s->e, s->positions, slot, 4), position,
             4);
}

/* Pair number `pair` of a step whose partners lie `1 << log_distance` apart; `log_block`: the blocks that
 * become sorted, in turn up and down. */
static void exchange(SortNetwork *s, LLVMValueRef pair, LLVMValueRef log_block,
                     LLVMValueRef log_distance)
{
    Kernel *k = s->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef one = gx_i32(k, 1), distance = LLVMBuildShl(b, one, log_distance, "");
    LLVMValueRef low = LLVMBuildAnd(b, pair, LLVMBuildSub(b, distance, one, ""), "");
    LLVMValueRef high = LLVMBuildShl(b, LLVMBuildLShr(b, pair, log_distance, ""),
                                     LLVMBuildAdd(b, log_distance, one, ""), "");
    LLVMValueRef i = LLVMBuildOr(b, high, low, ""), j = LLVMBuildOr(b, i, distance, "");
    LLVMValueRef x[SORT_MOST], y[SORT_MOST], at_x, at_y;
    sort_load(s, i, x, &at_x);
    sort_load(s, j, y, &at_y);
    /* padding goes behind all others */
    LLVMValueRef size = gx_i32(k, s->size);
    LLVMValueRef y_padding = LLVMBuildICmp(b, LLVMIntUGE, at_y, size, "");
    LLVMValueRef x_padding = LLVMBuildICmp(b, LLVMIntUGE, at_x, size, "");
    LLVMValueRef before = sort_goes_before(s->e, s->order, x, at_x, y, at_y);
    before = LLVMBuildAnd(b, before, LLVMBuildNot(b, x_padding, ""), "");
    before = LLVMBuildOr(b, before, y_padding, "");
    LLVMValueRef in_row = LLVMBuildAnd(b, i, gx_i32(k, s->padded - 1), "");
    LLVMValueRef turn = LLVMBuildLShr(b, in_row, log_block, "");
    LLVMValueRef is_down = LLVMBuildTrunc(b, turn, gx_int_type(k, 1), "");
    GxIf swap;
    gx_if_begin(k, &swap, LLVMBuildICmp(b, LLVMIntEQ, before, is_down, ""));
    sort_store(s, i, y, at_y);
    sort_store(s, j, x, at_x);
    gx_if_end(k, &swap, NULL, 0, NULL);
}

void sort_each_begin(SortNetwork *s, GxLoop *loop, uint32_t first, uint32_t total)
{
    Kernel *k = s->e->k;
    LLVMValueRef start = gx_tid(k, 0);
    if (first != 0)
        start = LLVMBuildAdd(k->builder, start, gx_i32(k, first), "");
    gx_loop_begin(k, loop, start, gx_i32(k, total), gx_i32(k, k->block[0]), NULL, 0);
    emit_scope_begin(s->e);
}

void sort_each_end(SortNetwork *s, GxLoop *loop)
{
    emit_scope_end(s->e);
    gx_loop_end(s->e->k, loop, NULL);
}

/* Slots of 32 neighbouring pairs whose partners lie up to 32 apart are 64 neighbours: the same warp has them from step to
 * step. Other warps stored them where partners lay further apart, or before the first step. */
static void wait_for_partners(SortNetwork *s, LLVMValueRef log_block,
                              LLVMValueRef log_distance)
{
    Kernel *k = s->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef one = gx_i32(k, 1), distance = LLVMBuildShl(b, one, log_distance, "");
    LLVMValueRef is_far =
        LLVMBuildICmp(b, LLVMIntUGE, distance, gx_i32(k, TARGET_WARP), "");
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, log_block, one, "");
    GxIf all;
    gx_if_begin(k, &all, LLVMBuildOr(b, is_far, is_first, ""));
    gx_barrier(k);
    gx_if_else(k, &all, NULL, 0);
    gx_syncwarp(k);
    gx_if_end(k, &all, NULL, 0, NULL);
}

void sort_rows(SortNetwork *s)
{
    Kernel *k = s->e->k;
    LLVMBuilderRef b = k->builder;
    GxLoop outer, inner, pairs;
    LLVMValueRef one = gx_i32(k, 1), log2 = s->used, total;
    if (log2 == NULL) {
        log2 = gx_i32(k, s->log2);
        total = gx_i32(k, s->rows * s->padded / 2);
    } else {
        total = LLVMBuildLShr(b, LLVMBuildShl(b, one, log2, ""), one, "");
    }
    gx_loop_begin(k, &outer, one, LLVMBuildAdd(b, log2, one, ""), one, NULL, 0);
    gx_loop_begin(k, &inner, gx_i32(k, 0), outer.index, gx_i32(k, 1), NULL, 0);
    LLVMValueRef log_distance =
        LLVMBuildSub(b, LLVMBuildSub(b, outer.index, gx_i32(k, 1), ""), inner.index, "");
    wait_for_partners(s, outer.index, log_distance);
    gx_loop_begin(k, &pairs, gx_tid(k, 0), total, gx_i32(k, k->block[0]), NULL, 0);
    exchange(s, pairs.index, outer.index, log_distance);
    gx_loop_end(k, &pairs, NULL);
    gx_loop_end(k, &inner, NULL);
    gx_loop_end(k, &outer, NULL);
    gx_barrier(k);
}
