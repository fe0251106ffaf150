/* Cumulative windows in one pass over memory: see ir/kernel/kinds/lookback_scan.c. Warps have neighbouring parts of the
 * block's tile; a warp takes its part access by access, the lanes side by side. */
#include <string.h>

#include "codegen/kernel/scan.h"
#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"

enum { WARP_LOG2 = 5, WARP_MASK = 31 };

/* What came before something in the walk; `has` (i1) says whether anything did. */
typedef struct Before {
    LLVMValueRef has, v[REDUCER_MOST];
} Before;

typedef struct Lookback {
    Scan s;
    LookbackTree tree;
    uint32_t accesses;
    uint32_t scratch; /* kernel argument */
    uint32_t ticket_base, base[REDUCER_MOST];
    const IndexExpr *row;
    LLVMValueRef row_number; /* of index_type */
    LLVMValueRef tile;       /* of the row, i32 */
    LLVMValueRef warp;       /* i32 */
} Lookback;

static LLVMValueRef i1(Emit *e, bool value)
{
    return LLVMConstInt(gx_int_type(e->k, 1), value, 0);
}

static LLVMValueRef equals(Emit *e, LLVMValueRef a, uint32_t b)
{
    return LLVMBuildICmp(e->k->builder, LLVMIntEQ, a, gx_i32(e->k, b), "");
}

static LLVMValueRef differs(Emit *e, LLVMValueRef a, uint32_t b)
{
    return LLVMBuildNot(e->k->builder, equals(e, a, b), "");
}

/* v, of which there is something, with what came before. */
static void prepend(const Lookback *l, const Before *before, LLVMValueRef *v)
{
    LLVMValueRef joined[REDUCER_MOST];
    uint32_t count = l->s.reducer.count;
    memcpy(joined, v, count * sizeof *v);
    scan_join(&l->s, NULL, before->v, joined);
    scan_choose(l->s.e, count, before->has, joined, v);
}

/* What came before in all, of two parts. */
static void append(const Lookback *l, Before *first, const Before *second)
{
    Before next = *second;
    prepend(l, first, next.v);
    scan_choose(l->s.e, l->s.reducer.count, second->has, next.v, first->v);
    first->has = LLVMBuildOr(l->s.e->k->builder, first->has, second->has, "");
}

/* -- the elements of a thread -------------------------------------------------------------------------------- */

typedef struct Part {
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef exists;
} Part;

/* The elements that the thread takes with access a. */
static void locate(const Lookback *l, uint32_t a, Part *out)
{
    const Scan *s = &l->s;
    Emit *e = s->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t all = s->size / s->items, of_tile = (int64_t)k->block[0] * l->accesses;
    LLVMValueRef in_tile =
        LLVMBuildMul(b, l->warp, gx_i32(k, TARGET_WARP * l->accesses), "");
    in_tile = LLVMBuildAdd(b, in_tile, gx_lane(k), "");
    in_tile = LLVMBuildAdd(b, in_tile, gx_i32(k, a * TARGET_WARP), "");
    LLVMValueRef first =
        LLVMBuildMul(b, to_index(e, l->tile), emit_index_constant(e, of_tile), "");
    LLVMValueRef at = LLVMBuildAdd(b, first, to_index(e, in_tile), "");
    out->exists = LLVMBuildICmp(b, LLVMIntSLT, at, emit_index_constant(e, all), "");
    const IndexExpr *access = emit_variable(e, at, (Range){0, all - 1});
    scan_position(e, s, l->row,
                  ix_add(e->ix, ix_mul(e->ix, access, s->items), emit_lane(e)),
                  out->index);
}

static bool has_tail(const Lookback *l)
{
    int64_t tile = (int64_t)l->s.e->k->block[0] * l->accesses * l->s.items;
    return l->s.size % tile != 0;
}

/* The tile reaches the end of the row at most: i1. */
static LLVMValueRef is_whole(const Lookback *l)
{
    Emit *e = l->s.e;
    int64_t tile = (int64_t)e->k->block[0] * l->accesses * l->s.items;
    return LLVMBuildICmp(e->k->builder, LLVMIntULT, l->tile,
                         gx_i32(e->k, (uint32_t)(l->s.size / tile)), "");
}

/* v: [accesses][items][count] */
static void load_parts(const Lookback *l, bool is_guarded, LLVMValueRef *v)
{
    const Scan *s = &l->s;
    Emit *e = s->e;
    uint32_t values = s->items * s->reducer.count;
    for (uint32_t a = 0; a < l->accesses; a++, v += values) {
        Part p;
        GxIf guard;
        LLVMValueRef behind[REDUCER_MOST]; /* the row: read by nobody */
        for (uint32_t i = 0; i < values; i++)
            behind[i] = s->reducer.initial[i % s->reducer.count];
        locate(l, a, &p);
        if (is_guarded)
            emit_if_begin(e, &guard, p.exists);
        scan_load(s, p.index, v);
        if (is_guarded)
            emit_if_end_or(e, &guard, v, behind, values);
    }
}

static void store_parts(const Lookback *l, bool is_guarded, const LLVMValueRef *v)
{
    const Scan *s = &l->s;
    for (uint32_t a = 0; a < l->accesses; a++, v += s->items * s->reducer.count) {
        Part p;
        GxIf guard;
        locate(l, a, &p);
        if (is_guarded)
            emit_if_begin(s->e, &guard, p.exists);
        scan_store(s, p.index, v);
        if (is_guarded)
            emit_if_end(s->e, &guard, NULL, 0, NULL);
    }
}

/* Tiles that are whole need not ask of each element whether it exists. */
static void load_tile(const Lookback *l, LLVMValueRef *v)
{
    const Scan *s = &l->s;
    uint32_t values = l->accesses * s->items * s->reducer.count;
    LLVMValueRef part[REDUCER_MOST];
    GxIf whole;
    if (!has_tail(l)) {
        load_parts(l, false, v);
        return;
    }
    emit_if_begin(s->e, &whole, is_whole(l));
    load_parts(l, false, v);
    emit_if_else(s->e, &whole, v, values);
    load_parts(l, true, part);
    emit_if_end(s->e, &whole, part, values, v);
}

static void store_tile(const Lookback *l, const LLVMValueRef *v)
{
    Emit *e = l->s.e;
    GxIf whole;
    if (!has_tail(l)) {
        store_parts(l, false, v);
        return;
    }
    emit_if_begin(e, &whole, is_whole(l));
    store_parts(l, false, v);
    emit_if_else(e, &whole, NULL, 0);
    store_parts(l, true, v);
    emit_if_end(e, &whole, NULL, 0, NULL);
}

/* -- in the block ----------------------------------------------------------------------------------------- */

/* Values v of lane `lane`. */
static void take_lane(const Lookback *l, const LLVMValueRef *v, LLVMValueRef lane,
                      LLVMValueRef *out)
{
    for (uint32_t i = 0; i < l->s.reducer.count; i++)
        out[i] = shuffle_from(l->s.e, l->s.reducer.accumulator[i], v[i], lane);
}

/* Elements become what came up to them in their thread; lanes: [accesses][count] what came before the lane in its
 * access; totals: of the warp's accesses up to this one. */
static void scan_accesses(const Lookback *l, LLVMValueRef *v, LLVMValueRef *lanes,
                          LLVMValueRef *totals)
{
    const Scan *s = &l->s;
    const Reducer *r = &s->reducer;
    uint32_t count = r->count;
    for (uint32_t a = 0; a < l->accesses; a++) {
        LLVMValueRef *part = v + a * s->items * count, all[REDUCER_MOST];
        for (uint32_t j = 1; j < s->items; j++)
            scan_join(s, NULL, part + (j - 1) * count, part + j * count);
        memcpy(all, part + (s->items - 1) * count, count * sizeof *all);
        scan_warp(s, all);
        for (uint32_t i = 0; i < count; i++)
            lanes[a * count + i] = shuffle_up(s->e, r->accumulator[i], all[i], 1, 32);
        take_lane(l, all, gx_i32(s->e->k, WARP_MASK), totals + a * count);
        if (a != 0)
            scan_join(s, NULL, totals + (a - 1) * count, totals + a * count);
    }
}

static void put_shared(const Lookback *l, LLVMValueRef position, const LLVMValueRef *v)
{
    Emit *e = l->s.e;
    for (uint32_t i = 0; i < l->s.reducer.count; i++) {
        DType t = l->s.reducer.accumulator[i];
        shared_store(e, t, element_offset(e, l->base[i], position, shared_bytes(t)),
                     v[i]);
    }
}

static void get_shared(const Lookback *l, uint32_t position, LLVMValueRef *out)
{
    Emit *e = l->s.e;
    for (uint32_t i = 0; i < l->s.reducer.count; i++) {
        DType t = l->s.reducer.accumulator[i];
        out[i] = shared_load(
            e, t, element_offset(e, l->base[i], gx_i32(e->k, position), shared_bytes(t)));
    }
}

/* total: of the warp, then of the block; before: of the warps before. */
static void scan_warps(const Lookback *l, LLVMValueRef *total, Before *before)
{
    Emit *e = l->s.e;
    uint32_t count = l->s.reducer.count, warps = e->k->block[0] / TARGET_WARP;
    GxIf first;
    before->has = differs(e, l->warp, 0);
    memcpy(before->v, total, count * sizeof *total);
    if (warps == 1)
        return;
    gx_if_begin(e->k, &first, equals(e, gx_lane(e->k), 0));
    put_shared(l, l->warp, total);
    gx_if_end(e->k, &first, NULL, 0, NULL);
    gx_barrier(e->k);
    get_shared(l, 0, total);
    for (uint32_t w = 1; w < warps; w++) {
        LLVMValueRef next[REDUCER_MOST];
        scan_choose(e, count, equals(e, l->warp, w), total, before->v);
        get_shared(l, w, next);
        scan_join(&l->s, NULL, total, next);
        memcpy(total, next, count * sizeof *next);
    }
}

/* -- between blocks ----------------------------------------------------------------------------------------- */

/* Position of word 0 of a node in scratch memory; node: i32. */
static LLVMValueRef node_position(const Lookback *l, uint32_t level, LLVMValueRef node)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    LLVMValueRef row = LLVMBuildZExtOrBitCast(b, l->row_number, i64, "");
    row = LLVMBuildMul(b, row, gx_i64(k, (uint64_t)l->tree.nodes[level]), "");
    row = LLVMBuildAdd(b, row, LLVMBuildZExt(b, node, i64, ""), "");
    row = LLVMBuildMul(b, row, gx_i64(k, 8 * l->tree.words), "");
    return LLVMBuildAdd(b, row, gx_i64(k, l->tree.offset[level]), "");
}

/* Each word with a mark that it is there, so that nothing else need be in order. */
static void tell(const Lookback *l, uint32_t level, LLVMValueRef node,
                 const LLVMValueRef *v)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef position = node_position(l, level, node), words[4];
    for (uint32_t i = 0; i < l->s.reducer.count; i++) {
        DType t = l->s.reducer.accumulator[i];
        value_to_words(e, t, v[i], words);
        for (uint32_t w = 0; w < (shared_bytes(t) + 3) / 4; w++) {
            LLVMValueRef word = LLVMBuildZExt(b, words[w], gx_int_type(k, 64), "");
            word = LLVMBuildOr(b, word, gx_i64(k, UINT64_C(1) << 32), "");
            gx_atomic_store(k, l->scratch, position, word);
            position = LLVMBuildAdd(b, position, gx_i64(k, 8), "");
        }
    }
}

/* Waits for a word, and takes its lower half. */
static LLVMValueRef ask_word(const Lookback *l, LLVMValueRef position)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    LLVMValueRef word = gx_atomic_load(k, l->scratch, position, i64);
    GxLoop wait;
    gx_while_begin(k, &wait, &word, 1);
    LLVMValueRef mark = LLVMBuildLShr(b, word, gx_i64(k, 32), "");
    gx_while_body(k, &wait, LLVMBuildICmp(b, LLVMIntEQ, mark, gx_i64(k, 0), ""));
    gx_pause(k);
    LLVMValueRef next = gx_atomic_load(k, l->scratch, position, i64);
    gx_while_end(k, &wait, &next);
    return LLVMBuildTrunc(b, word, gx_int_type(k, 32), "");
}

/* Lane i takes node first + i of the level, if i < number; others, 0. */
static void ask(const Lookback *l, uint32_t level, LLVMValueRef first,
                LLVMValueRef number, LLVMValueRef *out)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    uint32_t count = l->s.reducer.count;
    LLVMValueRef words[4], nothing[REDUCER_MOST];
    GxIf takes;
    for (uint32_t i = 0; i < count; i++)
        nothing[i] = LLVMConstNull(emit_type(k, l->s.reducer.accumulator[i]));
    emit_if_begin(e, &takes, LLVMBuildICmp(b, LLVMIntULT, gx_lane(k), number, ""));
    LLVMValueRef position =
        node_position(l, level, LLVMBuildAdd(b, first, gx_lane(k), ""));
    for (uint32_t i = 0; i < count; i++) {
        DType t = l->s.reducer.accumulator[i];
        for (uint32_t w = 0; w < (shared_bytes(t) + 3) / 4; w++) {
            words[w] = ask_word(l, position);
            position = LLVMBuildAdd(b, position, gx_i64(k, 8), "");
        }
        out[i] = value_from_words(e, t, words);
    }
    emit_if_end_or(e, &takes, out, nothing, count);
}

/* The nodes of a level that stand before the tile and belong to no node of the next level that does. */
static Before ask_level(const Lookback *l, uint32_t level, LLVMValueRef *number)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef at = LLVMBuildLShr(b, l->tile, gx_i32(k, level * LOOKBACK_LOG2), "");
    *number = LLVMBuildAnd(b, at, gx_i32(k, WARP_MASK), "");
    Before found = {.has = differs(l->s.e, *number, 0)};
    LLVMValueRef v[REDUCER_MOST];
    ask(l, level, LLVMBuildSub(b, at, *number, ""), *number, v);
    scan_warp(&l->s, v);
    LLVMValueRef last = LLVMBuildSub(b, *number, gx_i32(k, 1), "");
    last = LLVMBuildAnd(b, last, gx_i32(k, WARP_MASK), "");
    take_lane(l, v, last, found.v);
    return found;
}

/* One warp: tells what the tile comes to, asks for what came before it, and tells of the nodes that the tile
 * completes. */
static void look_back(const Lookback *l, LLVMValueRef *own, Before *out)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef completes = equals(e, gx_lane(k), 0), node = l->tile, number;
    Before found[LOOKBACK_LEVELS];
    for (uint32_t level = 0; level < l->tree.levels; level++) {
        GxIf first;
        gx_if_begin(k, &first, completes);
        tell(l, level, node, own);
        gx_if_end(k, &first, NULL, 0, NULL);
        found[level] = ask_level(l, level, &number);
        prepend(l, &found[level], own);
        completes = LLVMBuildAnd(b, completes, equals(e, number, WARP_MASK), "");
        node = LLVMBuildLShr(b, node, gx_i32(k, LOOKBACK_LOG2), "");
    }
    *out = found[l->tree.levels - 1];
    for (uint32_t level = l->tree.levels - 1; level-- > 0;)
        append(l, out, &found[level]);
}

/* What came before the tile, by all threads. */
static void find_before(const Lookback *l, LLVMValueRef *own, Before *out)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    uint32_t last = k->block[0] / TARGET_WARP;
    GxIf asks, first;
    Before found;
    out->has = differs(e, l->tile, 0);
    emit_if_begin(e, &asks, equals(e, l->warp, 0));
    look_back(l, own, &found);
    gx_if_begin(k, &first, equals(e, gx_lane(k), 0));
    put_shared(l, gx_i32(k, last), found.v);
    gx_if_end(k, &first, NULL, 0, NULL);
    emit_if_end(e, &asks, NULL, 0, NULL);
    gx_barrier(k);
    get_shared(l, last, out->v);
    if (!l->s.is_backward) { /* the initial value stands before all */
        Before start = {.has = i1(e, true)};
        reducer_start(&l->s.reducer, start.v);
        append(l, &start, out);
        *out = start;
    }
}

/* -- the kernel ------------------------------------------------------------------------------------------------ */

static void find_tile(Lookback *l)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef number = gx_ctaid(k, 0);
    l->warp = LLVMBuildLShr(b, gx_tid(k, 0), gx_i32(k, WARP_LOG2), "");
    l->tile = gx_i32(k, 0);
    if (l->tree.levels != 0) {
        number = ticket_take(k, l->scratch, l->ticket_base);
        LLVMValueRef tiles = gx_i32(k, (uint32_t)l->tree.tiles);
        l->tile = LLVMBuildURem(b, number, tiles, "");
        number = LLVMBuildUDiv(b, number, tiles, "");
    }
    l->row_number = to_index(e, number);
    l->row = emit_variable(e, l->row_number, (Range){0, l->s.rows - 1});
}

static void allocate(Lookback *l)
{
    Kernel *k = l->s.e->k;
    bool looks_back = l->tree.levels != 0;
    if (looks_back)
        l->ticket_base = gx_shared_alloc(k, 4, 4);
    for (uint32_t i = 0; i < l->s.reducer.count; i++) {
        unsigned bytes = shared_bytes(l->s.reducer.accumulator[i]);
        uint64_t warps = k->block[0] / TARGET_WARP;
        l->base[i] = gx_shared_alloc(k, bytes * (warps + looks_back), bytes);
    }
}

/* Each element with all that came before it. */
static void finish(const Lookback *l, const Before *before, const LLVMValueRef *lanes,
                   const LLVMValueRef *totals, LLVMValueRef *v)
{
    const Scan *s = &l->s;
    Emit *e = s->e;
    uint32_t count = s->reducer.count;
    Before of_lane = {.has = differs(e, gx_lane(e->k), 0)};
    for (uint32_t a = 0; a < l->accesses; a++) {
        Before all = *before, access = {.has = i1(e, true)};
        if (a != 0) {
            memcpy(access.v, totals + (a - 1) * count, count * sizeof *totals);
            append(l, &all, &access);
        }
        memcpy(of_lane.v, lanes + a * count, count * sizeof *lanes);
        append(l, &all, &of_lane);
        for (uint32_t j = 0; j < s->items; j++, v += count)
            prepend(l, &all, v);
    }
}

Kernel *emitter_lookback_scan(const EmitterInput *in)
{
    Lookback l = {.s = scan_of(in), .accesses = (uint32_t)in->design->config.accesses};
    LLVMValueRef v[REDUCER_MOST], lanes[REDUCER_MOST], totals[REDUCER_MOST];
    Before before, warps;
    Emit *e = emitter_begin(in);
    lookback_tree(in->design, &l.tree);
    l.scratch = emitter_scratch_arg(in);
    scan_begin(&l.s, e);
    allocate(&l);
    find_tile(&l);
    e->lanes = l.s.items;
    load_tile(&l, v);
    scan_accesses(&l, v, lanes, totals);
    uint32_t count = l.s.reducer.count;
    LLVMValueRef *total = totals + (l.accesses - 1) * count, own[REDUCER_MOST];
    memcpy(own, total, count * sizeof *own);
    scan_warps(&l, own, &warps);
    if (l.tree.levels != 0) {
        find_before(&l, own, &before);
    } else {
        before = (Before){.has = i1(e, !l.s.is_backward)};
        reducer_start(&l.s.reducer, before.v);
    }
    append(&l, &before, &warps);
    finish(&l, &before, lanes, totals, v);
    store_tile(&l, v);
    e->lanes = 1;
    return emitter_finish(in, e);
}
