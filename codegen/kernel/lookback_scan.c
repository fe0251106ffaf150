/* Cumulative windows in one pass over memory: see ir/kernel/kinds/lookback_scan.c. Warps have neighbouring parts of the
 * block's tile; a warp takes its part access by access, the lanes side by side. */
#include <string.h>

#include "codegen/kernel/scan.h"
#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"

enum { WARP_LOG2 = 5, WARP_MASK = 31 };
#define MOST_WORDS (4 * REDUCER_MOST) /* of a node */
#define IS_THERE (UINT64_C(1) << 32)  /* of what is told in the lower half */

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

/* Elements become what came up to them in their warp's access; total: of all the warp's accesses. Nothing else is kept
 * while the block waits for those before: registers hold elements. */
static void scan_accesses(const Lookback *l, LLVMValueRef *v, LLVMValueRef *total)
{
    const Scan *s = &l->s;
    const Reducer *r = &s->reducer;
    Before of_lane = {.has = differs(s->e, gx_lane(s->e->k), 0)};
    for (uint32_t a = 0; a < l->accesses; a++) {
        LLVMValueRef *part = v + a * s->items * r->count, all[REDUCER_MOST];
        for (uint32_t j = 1; j < s->items; j++)
            scan_join(s, NULL, part + (j - 1) * r->count, part + j * r->count);
        memcpy(all, part + (s->items - 1) * r->count, r->count * sizeof *all);
        scan_warp(s, all);
        for (uint32_t i = 0; i < r->count; i++)
            of_lane.v[i] = shuffle_up(s->e, r->accumulator[i], all[i], 1, TARGET_WARP);
        for (uint32_t j = 0; j < s->items; j++)
            prepend(l, &of_lane, part + j * r->count);
        take_lane(l, all, gx_i32(s->e->k, WARP_MASK), all);
        if (a != 0)
            scan_join(s, NULL, total, all);
        memcpy(total, all, r->count * sizeof *all);
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

static void get_shared(const Lookback *l, LLVMValueRef position, LLVMValueRef *out)
{
    Emit *e = l->s.e;
    for (uint32_t i = 0; i < l->s.reducer.count; i++) {
        DType t = l->s.reducer.accumulator[i];
        out[i] =
            shared_load(e, t, element_offset(e, l->base[i], position, shared_bytes(t)));
    }
}

static void tell_warps(const Lookback *l, const LLVMValueRef *total)
{
    Kernel *k = l->s.e->k;
    GxIf first;
    gx_if_begin(k, &first, equals(l->s.e, gx_lane(k), 0));
    put_shared(l, l->warp, total);
    gx_if_end(k, &first, NULL, 0, NULL);
    gx_barrier(k);
}

/* What the warps come to, each up to a lane's number (behind the last one: nothing that is asked for). By shuffles: to
 * read those of all warps at once would take as many registers. */
static void join_warps(const Lookback *l, LLVMValueRef *v)
{
    Emit *e = l->s.e;
    LLVMValueRef last = gx_i32(e->k, e->k->block[0] / TARGET_WARP - 1);
    LLVMValueRef lane = gx_lane(e->k);
    LLVMValueRef exists = LLVMBuildICmp(e->k->builder, LLVMIntULT, lane, last, "");
    get_shared(l, LLVMBuildSelect(e->k->builder, exists, lane, last, ""), v);
    scan_warp(&l->s, v);
}

/* Of the warps before this one, if there are any. */
static void find_warps_before(const Lookback *l, LLVMValueRef *out)
{
    LLVMBuilderRef b = l->s.e->k->builder;
    LLVMValueRef lane = LLVMBuildSub(b, l->warp, gx_i32(l->s.e->k, 1), "");
    LLVMValueRef all[REDUCER_MOST];
    join_warps(l, all);
    take_lane(l, all, LLVMBuildAnd(b, lane, gx_i32(l->s.e->k, WARP_MASK), ""), out);
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
            word = LLVMBuildOr(b, word, gx_i64(k, IS_THERE), "");
            gx_atomic_store(k, l->scratch, position, word);
            position = LLVMBuildAdd(b, position, gx_i64(k, 8), "");
        }
    }
}

/* What a lane asks for of one level: its words as they were when it asked first, and where they are (i64). */
typedef struct Question {
    LLVMValueRef number, position, words[MOST_WORDS];
} Question;

/* Lane i asks for one of the nodes of a level that stand before the tile and belong to no node of the next level that
 * does; there are *number (i32), and lanes behind them find words that are there. All that a tile asks for is on its way
 * at one time. */
static Question ask(const Lookback *l, uint32_t level)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    Question q;
    LLVMValueRef at = LLVMBuildLShr(b, l->tile, gx_i32(k, level * LOOKBACK_LOG2), "");
    LLVMValueRef nothing[MOST_WORDS], lane = gx_lane(k);
    GxIf takes;
    q.number = LLVMBuildAnd(b, at, gx_i32(k, WARP_MASK), "");
    LLVMValueRef node = LLVMBuildAdd(b, LLVMBuildSub(b, at, q.number, ""), lane, "");
    q.position = node_position(l, level, node);
    gx_if_begin(k, &takes, LLVMBuildICmp(b, LLVMIntULT, lane, q.number, ""));
    for (uint32_t w = 0; w < l->tree.words; w++) {
        LLVMValueRef position = LLVMBuildAdd(b, q.position, gx_i64(k, 8 * w), "");
        q.words[w] = gx_atomic_load(k, l->scratch, position, i64);
        nothing[w] = gx_i64(k, IS_THERE);
    }
    gx_if_else(k, &takes, q.words, l->tree.words);
    gx_if_end(k, &takes, nothing, l->tree.words, q.words);
    return q;
}

/* Until word w is there; its lower half. */
static LLVMValueRef wait_for(const Lookback *l, const Question *q, uint32_t w)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    LLVMValueRef position = LLVMBuildAdd(b, q->position, gx_i64(k, 8 * w), "");
    LLVMValueRef word = q->words[w];
    GxLoop wait;
    gx_while_begin(k, &wait, &word, 1);
    LLVMValueRef mark = LLVMBuildLShr(b, word, gx_i64(k, 32), "");
    gx_while_body(k, &wait, LLVMBuildICmp(b, LLVMIntEQ, mark, gx_i64(k, 0), ""));
    gx_pause(k);
    LLVMValueRef next = gx_atomic_load(k, l->scratch, position, i64);
    gx_while_end(k, &wait, &next);
    return LLVMBuildTrunc(b, word, gx_int_type(k, 32), "");
}

/* What the nodes come to that were asked for. */
static Before hear(const Lookback *l, const Question *q)
{
    Kernel *k = l->s.e->k;
    LLVMBuilderRef b = k->builder;
    Before found = {.has = differs(l->s.e, q->number, 0)};
    LLVMValueRef words[4], v[REDUCER_MOST];
    for (uint32_t i = 0, next = 0; i < l->s.reducer.count; i++) {
        DType t = l->s.reducer.accumulator[i];
        for (uint32_t w = 0; w < (shared_bytes(t) + 3) / 4; w++)
            words[w] = wait_for(l, q, next++);
        v[i] = value_from_words(l->s.e, t, words);
    }
    scan_warp(&l->s, v);
    LLVMValueRef last = LLVMBuildSub(b, q->number, gx_i32(k, 1), "");
    take_lane(l, v, LLVMBuildAnd(b, last, gx_i32(k, WARP_MASK), ""), found.v);
    return found;
}

/* One warp: tells what the tile comes to, asks for what came before it, and tells of the nodes that the tile
 * completes. */
static void look_back(const Lookback *l, LLVMValueRef *own, Before *out)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef completes = equals(e, gx_lane(k), 0), node = l->tile;
    Before found[LOOKBACK_LEVELS];
    Question questions[LOOKBACK_LEVELS];
    uint32_t asked = 0,
             at_once = l->tree.words <= LOOKBACK_ASKED_WORDS ? l->tree.levels : 1;
    for (uint32_t level = 0; level < l->tree.levels; level++) {
        GxIf first;
        gx_if_begin(k, &first, completes);
        tell(l, level, node, own);
        gx_if_end(k, &first, NULL, 0, NULL);
        for (; asked < level + at_once && asked < l->tree.levels; asked++)
            questions[asked] = ask(l, asked);
        found[level] = hear(l, &questions[level]);
        prepend(l, &found[level], own);
        completes =
            LLVMBuildAnd(b, completes, equals(e, questions[level].number, WARP_MASK), "");
        node = LLVMBuildLShr(b, node, gx_i32(k, LOOKBACK_LOG2), "");
    }
    *out = found[l->tree.levels - 1];
    for (uint32_t level = l->tree.levels - 1; level-- > 0;)
        append(l, out, &found[level]);
}

/* What came before the tile, and of its warps before this one, which they find while the first of them, which has
 * none before it, asks. */
static void find_before(const Lookback *l, const LLVMValueRef *total, Before *out,
                        Before *warps)
{
    Emit *e = l->s.e;
    Kernel *k = e->k;
    uint32_t count = l->s.reducer.count, last = k->block[0] / TARGET_WARP;
    LLVMValueRef own[REDUCER_MOST];
    GxIf asks, first;
    Before found;
    out->has = differs(e, l->tile, 0);
    warps->has = differs(e, l->warp, 0);
    tell_warps(l, total);
    emit_if_begin(e, &asks, equals(e, l->warp, 0));
    join_warps(l, own);
    take_lane(l, own, gx_i32(k, last - 1), own);
    look_back(l, own, &found);
    gx_if_begin(k, &first, equals(e, gx_lane(k), 0));
    put_shared(l, gx_i32(k, last), found.v);
    gx_if_end(k, &first, NULL, 0, NULL);
    emit_if_else(e, &asks, found.v, count);
    find_warps_before(l, warps->v);
    emit_if_end(e, &asks, warps->v, count, warps->v);
    gx_barrier(k);
    get_shared(l, gx_i32(k, last), out->v);
    if (!l->s.is_backward) { /* the initial value stands before all */
        Before start = {.has = i1(e, true)};
        reducer_start(&l->s.reducer, start.v);
        append(l, &start, out);
        *out = start;
    }
}

/* The same of a row that is one tile. */
static void find_before_in_row(const Lookback *l, const LLVMValueRef *total, Before *out,
                               Before *warps)
{
    Emit *e = l->s.e;
    *out = (Before){.has = i1(e, !l->s.is_backward)};
    reducer_start(&l->s.reducer, out->v);
    warps->has = differs(e, l->warp, 0);
    memcpy(warps->v, total, l->s.reducer.count * sizeof *total);
    if (e->k->block[0] == TARGET_WARP)
        return;
    tell_warps(l, total);
    find_warps_before(l, warps->v);
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
static void finish(const Lookback *l, Before *before, LLVMValueRef *v)
{
    const Scan *s = &l->s;
    uint32_t count = s->reducer.count;
    for (uint32_t a = 0; a < l->accesses; a++, v += s->items * count) {
        Before access = {.has = i1(s->e, true)};
        take_lane(l, v + (s->items - 1) * count, gx_i32(s->e->k, WARP_MASK), access.v);
        for (uint32_t j = 0; j < s->items; j++)
            prepend(l, before, v + j * count);
        append(l, before, &access);
    }
}

Kernel *emitter_lookback_scan(const EmitterInput *in)
{
    Lookback l = {.s = scan_of(in), .accesses = (uint32_t)in->design->config.accesses};
    LLVMValueRef v[REDUCER_MOST], total[REDUCER_MOST];
    Before before, warps;
    Emit *e = emitter_begin(in);
    lookback_tree(in->design, &l.tree);
    l.scratch = emitter_scratch_arg(in);
    scan_begin(&l.s, e);
    allocate(&l);
    find_tile(&l);
    e->lanes = l.s.items;
    load_tile(&l, v);
    scan_accesses(&l, v, total);
    if (l.tree.levels != 0)
        find_before(&l, total, &before, &warps);
    else
        find_before_in_row(&l, total, &before, &warps);
    append(&l, &before, &warps);
    finish(&l, &before, v);
    store_tile(&l, v);
    e->lanes = 1;
    return emitter_finish(in, e);
}
