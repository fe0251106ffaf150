/* Blocks that share the columns of an attention, where there are too few tiles of rows for all multiprocessors, as for
 * one new token (Dao et al. 2023, "Flash-Decoding"). Each goes through its part of the columns. Part p then takes up
 * those before it that no other one has, and gives what it has of 2^i of them, itself the last, to part p + 2^i, if the
 * bit i of p is not set: a tree, in a fixed order, at whose end the last part has all. A block waits only for those
 * with a lower ticket, which run or have run. Every word carries a mark that it is there, so nothing else need be in
 * order. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"
#include "codegen/tile/lower.h"
#include "ir/kernel/plans.h"

void parts_begin(TileLower *l)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef count = gx_i32(l->k, l->parts.count),
                 number = ticket_take(l->k, emitter_scratch_arg(l->in),
                                      gx_shared_alloc(l->k, 4, 4));
    l->parts.tile = LLVMBuildUDiv(b, number, count, "");
    l->parts.number = LLVMBuildURem(b, number, count, "");
}

void parts_bounds(TileLower *l, LLVMValueRef *begin, LLVMValueRef *end)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef more = LLVMBuildSub(b, *end, *begin, ""),
                 each = LLVMBuildAdd(b, more,
                                     emit_index_constant(l->e, l->parts.count - 1), "");
    each = LLVMBuildSDiv(b, each, emit_index_constant(l->e, l->parts.count), "");
    *begin = LLVMBuildAdd(b, *begin,
                          LLVMBuildMul(b, each, to_index(l->e, l->parts.number), ""), "");
    LLVMValueRef own = LLVMBuildAdd(b, *begin, each, "");
    *end = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, own, *end, ""), own, *end, "");
}

/* -- words in scratch memory ----------------------------------------------------------------------- */

/* Of a thread's first word of a part of the tile: its offset in bytes. */
static LLVMValueRef offset_of(TileLower *l, LLVMValueRef part, uint32_t words)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMTypeRef i64 = gx_int_type(l->k, 64);
    uint32_t threads = l->k->block[0];
    LLVMValueRef v = LLVMBuildMul(b, l->parts.tile, gx_i32(l->k, l->parts.count - 1), "");
    v = LLVMBuildZExt(b, LLVMBuildAdd(b, v, part, ""), i64, "");
    v = LLVMBuildMul(b, v, gx_i64(l->k, (uint64_t)words * threads), "");
    v = LLVMBuildAdd(b, v, LLVMBuildZExt(b, gx_tid(l->k, 0), i64, ""), "");
    v = LLVMBuildMul(b, v, gx_i64(l->k, ATTENTION_WORD), "");
    return LLVMBuildAdd(b, v, gx_i64(l->k, ATTENTION_FIRST), "");
}

static LLVMValueRef word_offset(TileLower *l, LLVMValueRef first, uint32_t i)
{
    uint64_t bytes = (uint64_t)i * l->k->block[0] * ATTENTION_WORD;
    return LLVMBuildAdd(l->k->builder, first, gx_i64(l->k, bytes), "");
}

static void tell(TileLower *l, const LLVMValueRef *values, uint32_t count)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMValueRef first = offset_of(l, l->parts.number, count);
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef v = LLVMBuildBitCast(b, values[i], gx_int_type(l->k, 32), "");
        v = LLVMBuildZExt(b, v, gx_int_type(l->k, 64), "");
        v = LLVMBuildOr(b, v, gx_i64(l->k, UINT64_C(1) << 32), "");
        gx_atomic_store(l->k, emitter_scratch_arg(l->in), word_offset(l, first, i), v);
    }
}

static void load_words(TileLower *l, LLVMValueRef first, uint32_t count,
                       LLVMValueRef *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = gx_atomic_load(l->k, emitter_scratch_arg(l->in),
                                word_offset(l, first, i), gx_int_type(l->k, 64));
}

/* Words begin .. begin + count - 1 of a part whose first one is at `first`: waits until they are there. */
static LLVMValueRef *ask(TileLower *l, LLVMValueRef first, uint32_t begin, uint32_t count)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef *words = ARENA_ARRAY(k->arena, LLVMValueRef, count),
                 *next = ARENA_ARRAY(k->arena, LLVMValueRef, count);
    GxLoop wait;
    first = word_offset(l, first, begin);
    load_words(l, first, count, words);
    gx_while_begin(k, &wait, words, count);
    LLVMValueRef all = words[0];
    for (uint32_t i = 1; i < count; i++)
        all = LLVMBuildAnd(b, all, words[i], "");
    all = LLVMBuildLShr(b, all, gx_i64(k, 32), "");
    gx_while_body(k, &wait, LLVMBuildICmp(b, LLVMIntEQ, all, gx_i64(k, 0), ""));
    gx_pause(k);
    load_words(l, first, count, next);
    gx_while_end(k, &wait, next);
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef v = LLVMBuildTrunc(b, words[i], gx_int_type(k, 32), "");
        words[i] = LLVMBuildBitCast(b, v, emit_type(k, DT_F32), "");
    }
    return words;
}

/* -- two parts as one -------------------------------------------------------------------------------- */

typedef struct Softmax {
    LLVMValueRef *sums, *most, *total; /* all registers of each */
} Softmax;

static Softmax unpack(TileLower *l, const TileChainMapping *m, LLVMValueRef *carried)
{
    uint32_t at = 0;
    TileOp *const *of = m->loop->operands;
    Softmax s;
    s.sums = chain_unpack(l, m, of[ATTENTION_SUMS], carried, &at);
    s.most = chain_unpack(l, m, of[ATTENTION_MOST], carried, &at);
    s.total = chain_unpack(l, m, of[ATTENTION_TOTAL], carried, &at);
    return s;
}

static LLVMValueRef weighted(TileLower *l, LLVMValueRef x, LLVMValueRef weight_x,
                             LLVMValueRef y, LLVMValueRef weight_y)
{
    return gx_float_op(l->k, LLVMFAdd, gx_float_op(l->k, LLVMFMul, x, weight_x),
                       gx_float_op(l->k, LLVMFMul, y, weight_y));
}

/* Of what was summed up beside `own`, the maximum of a part, beside that of both. */
static LLVMValueRef weight(TileLower *l, const TileChainMapping *m, LLVMValueRef own,
                           LLVMValueRef most)
{
    double powers = m->program->most_powers;
    LLVMValueRef x = gx_float_op(l->k, LLVMFSub, own, most);
    if (powers != 1)
        x = gx_float_op(l->k, LLVMFMul, x, LLVMConstReal(LLVMTypeOf(x), powers));
    return gx_power_of_two(l->k, x);
}

/* The rows of x become those of both. weights: what the sums of each are multiplied by, as they lie. */
static void merge_rows(TileLower *l, const TileChainMapping *m, Softmax *x,
                       const Softmax *y, LLVMValueRef *weights[2])
{
    const LinearLayout *sums = tile_carried_layout(m, m->loop->operands[ATTENTION_SUMS]);
    LinearLayout rows = linear_without(sums, m->outer[0].column);
    uint32_t row_count = UINT32_C(1) << m->rows.in[LINEAR_REGISTER];
    for (uint32_t i = 0; i < 2; i++)
        weights[i] = ARENA_ARRAY(l->k->arena, LLVMValueRef, row_count);
    for (uint32_t r = 0; r < row_count; r++) {
        LLVMValueRef both[] = {x->most[r], y->most[r]},
                     most = gx_intrinsic(l->k, "maxnum", both, 2);
        for (uint32_t i = 0; i < 2; i++)
            weights[i][r] = weight(l, m, both[i], most);
        x->most[r] = most;
        x->total[r] = weighted(l, x->total[r], weights[0][r], y->total[r], weights[1][r]);
    }
    for (uint32_t i = 0; i < 2; i++)
        weights[i] = tile_renamed(l, &m->rows, weights[i], &rows);
}

/* How many sums are asked for at once: those of both, which are marked words of 64 bits, lie in registers. */
static uint32_t sums_at_once(uint32_t sums)
{
    enum { ROOM = 200, LEAST = 16 /* each time waits for memory */ };
    return sums + 2 * LEAST < ROOM ? (ROOM - sums) / 2 : LEAST;
}

/* Part `part` is taken up to `carried`, which has `count` words. */
static void take_up(TileLower *l, const TileChainMapping *m, LLVMValueRef part,
                    LLVMValueRef *carried, uint32_t count, LLVMValueRef *out)
{
    TileOp *const *of = m->loop->operands;
    Softmax own = unpack(l, m, carried), other;
    uint32_t sums = chain_pack(m, of[ATTENTION_SUMS], own.sums, out),
             step = sums_at_once(sums), at = 0;
    LLVMValueRef *weights[2], *packed[2], first = offset_of(l, part, count),
                                          *rows = ask(l, first, sums, count - sums);
    other.most = chain_unpack(l, m, of[ATTENTION_MOST], rows, &at);
    other.total = chain_unpack(l, m, of[ATTENTION_TOTAL], rows, &at);
    merge_rows(l, m, &own, &other, weights);
    for (uint32_t i = 0; i < 2; i++) {
        packed[i] = ARENA_ARRAY(l->k->arena, LLVMValueRef, sums);
        chain_pack(m, of[ATTENTION_SUMS], weights[i], packed[i]);
    }
    for (uint32_t begin = 0; begin < sums; begin += step) {
        uint32_t n = sums - begin < step ? sums - begin : step;
        LLVMValueRef *words = ask(l, first, begin, n);
        for (uint32_t i = 0; i < n; i++)
            out[begin + i] = weighted(l, carried[begin + i], packed[0][begin + i],
                                      words[i], packed[1][begin + i]);
    }
    out += sums;
    out += chain_pack(m, of[ATTENTION_MOST], own.most, out);
    chain_pack(m, of[ATTENTION_TOTAL], own.total, out);
}

LLVMValueRef parts_merge(TileLower *l, const TileChainMapping *m, LLVMValueRef *carried)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    uint32_t count = tile_carried_registers(m);
    LLVMValueRef *all = ARENA_ARRAY(k->arena, LLVMValueRef, count + 1),
                 *next = ARENA_ARRAY(k->arena, LLVMValueRef, count + 1),
                 one = gx_i32(k, 1);
    for (uint32_t i = 0; i < count; i++)
        all[i] = carried[i];
    all[count] = one; /* parts that it has */
    GxLoop tree;
    gx_while_begin(k, &tree, all, count + 1);
    LLVMValueRef has = all[count], bit = LLVMBuildAnd(b, l->parts.number, has, "");
    gx_while_body(k, &tree, LLVMBuildICmp(b, LLVMIntNE, bit, gx_i32(k, 0), ""));
    emit_scope_begin(l->e);
    take_up(l, m, LLVMBuildSub(b, l->parts.number, has, ""), all, count, next);
    next[count] = LLVMBuildShl(b, has, one, "");
    emit_scope_end(l->e);
    gx_while_end(k, &tree, next);
    LLVMValueRef is_last =
        LLVMBuildICmp(b, LLVMIntEQ, all[count], gx_i32(k, l->parts.count), "");
    GxIf others;
    emit_if_begin(l->e, &others, LLVMBuildNot(b, is_last, ""));
    tell(l, all, count);
    emit_if_end(l->e, &others, NULL, 0, NULL);
    for (uint32_t i = 0; i < count; i++)
        carried[i] = all[i];
    return is_last;
}
