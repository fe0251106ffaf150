/* Stream-K (Osama et al. 2023, arXiv:2301.03598): blocks that share the last tiles each have an equal run of their steps.
 * A block goes through its run from the end, so that what it gives to another block, the sums of the tile whose first
 * steps are its last ones, is there before it waits for anybody. It makes the tiles whose last step it has: sums of the
 * steps that it lacks come of blocks before it, the nearest first, always in that order. These have lower tickets, so
 * they run or have run, and wait for nobody before they have given them. Threads of all blocks have the same elements of
 * their tile, and hand over registers. See lower.h. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"
#include "codegen/tile/lower.h"

static LLVMValueRef i32(TileLower *l, int64_t value)
{
    return gx_i32(l->k, (uint32_t)value);
}

static LLVMValueRef smaller(TileLower *l, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = l->k->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, x, y, ""), x, y, "");
}

/* Where the run of block `number` of those that share begins. */
static LLVMValueRef run_begin(TileLower *l, LLVMValueRef number)
{
    LLVMBuilderRef b = l->k->builder;
    const TileStream *s = &l->stream.of;
    int64_t steps = s->tiles * s->steps, each = steps / s->blocks,
            more = steps % s->blocks;
    LLVMValueRef at = LLVMBuildMul(b, number, i32(l, each), "");
    at = LLVMBuildAdd(b, at, smaller(l, number, i32(l, more)), "");
    return LLVMBuildAdd(b, at, i32(l, s->first * s->steps), "");
}

void stream_begin(TileLower *l)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    const TileStream *s = &l->stream.of;
    uint32_t arg = emitter_scratch_arg(l->in),
             shared = gx_shared_alloc(k, STREAM_TICKET, STREAM_TICKET);
    LLVMValueRef block = gx_ctaid(k, 0), one = i32(l, 1);
    if (s->first == 0) {
        l->stream.number = ticket_take(k, arg, shared);
        l->stream.begin = run_begin(l, l->stream.number);
        l->stream.end = run_begin(l, LLVMBuildAdd(b, l->stream.number, one, ""));
        return;
    }
    GxIf shares;
    LLVMValueRef own[3], other[3];
    gx_if_begin(k, &shares, LLVMBuildICmp(b, LLVMIntUGE, block, i32(l, s->first), ""));
    own[0] = ticket_take(k, arg, shared);
    own[1] = run_begin(l, own[0]);
    own[2] = run_begin(l, LLVMBuildAdd(b, own[0], one, ""));
    gx_if_else(k, &shares, own, 3);
    other[0] = i32(l, 0);
    other[1] = LLVMBuildMul(b, block, i32(l, s->steps), "");
    other[2] = LLVMBuildAdd(b, other[1], i32(l, s->steps), "");
    gx_if_end(k, &shares, other, 3, own);
    l->stream.number = own[0];
    l->stream.begin = own[1];
    l->stream.end = own[2];
}

/* -- what blocks give each other --------------------------------------------------------------------- */

static LLVMValueRef flag_offset(TileLower *l, LLVMValueRef number)
{
    LLVMValueRef at = gx_mul_natural(l->k, number, i32(l, STREAM_FLAG));
    return gx_add_natural(l->k, at, i32(l, STREAM_TICKET));
}

/* Of the thread's first word of block `number`: 64 bits, in bytes. */
static LLVMValueRef sums_offset(TileLower *l, LLVMValueRef number)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMTypeRef i64 = gx_int_type(l->k, 64);
    const TileStream *s = &l->stream.of;
    LLVMValueRef at =
        LLVMBuildMul(b, LLVMBuildZExt(b, number, i64, ""), gx_i64(l->k, s->sums), "");
    LLVMValueRef thread = LLVMBuildMul(b, LLVMBuildZExt(b, gx_tid(l->k, 0), i64, ""),
                                       gx_i64(l->k, s->bytes), "");
    return LLVMBuildAdd(b, LLVMBuildAdd(b, at, thread, ""), gx_i64(l->k, s->cleared), "");
}

static LLVMValueRef word_offset(TileLower *l, LLVMValueRef first, uint64_t word)
{
    uint64_t row = l->stream.of.bytes * l->k->block[0];
    return LLVMBuildAdd(l->k->builder, first, gx_i64(l->k, word * row), "");
}

/* Sums of a word. */
static uint32_t sums_in_word(TileLower *l)
{
    return (uint32_t)l->stream.of.bytes / (dtype_info[l->m->dot->dtype].bits / 8);
}

static LLVMTypeRef word_type(TileLower *l)
{
    return gx_int_type(l->k, (uint32_t)l->stream.of.bytes * 8);
}

static LLVMValueRef is_first_thread(TileLower *l)
{
    return LLVMBuildICmp(l->k->builder, LLVMIntEQ, gx_tid(l->k, 0), i32(l, 0), "");
}

void stream_tell(TileLower *l, const LLVMValueRef *sums)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    uint32_t each = sums_in_word(l), arg = emitter_scratch_arg(l->in);
    LLVMTypeRef pair = LLVMVectorType(emit_type(k, l->m->dot->dtype), each);
    LLVMValueRef first = sums_offset(l, l->stream.number);
    for (uint64_t w = 0; w < l->stream.of.words; w++) {
        LLVMValueRef v = each > 1 ? LLVMGetUndef(pair) : sums[w];
        for (uint32_t i = 0; i < each && each > 1; i++)
            v = LLVMBuildInsertElement(b, v, sums[w * each + i], i32(l, i), "");
        gx_atomic_store(k, arg, word_offset(l, first, w),
                        LLVMBuildBitCast(b, v, word_type(l), ""));
    }
    gx_barrier(k);
    GxIf one;
    gx_if_begin(k, &one, is_first_thread(l));
    gx_fence(k);
    gx_atomic_store(k, arg, flag_offset(l, l->stream.number), i32(l, 1));
    gx_if_end(k, &one, NULL, 0, NULL);
}

/* Until the sums of block `number` are there. */
static void wait_for(TileLower *l, LLVMValueRef number)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    uint32_t arg = emitter_scratch_arg(l->in);
    LLVMValueRef at = flag_offset(l, number), next;
    LLVMTypeRef type = gx_int_type(k, 32);
    GxIf one;
    GxLoop wait;
    gx_if_begin(k, &one, is_first_thread(l));
    LLVMValueRef flag = gx_atomic_load(k, arg, at, type);
    gx_while_begin(k, &wait, &flag, 1);
    gx_while_body(k, &wait, LLVMBuildICmp(b, LLVMIntEQ, flag, i32(l, 0), ""));
    gx_pause(k);
    next = gx_atomic_load(k, arg, at, type);
    gx_while_end(k, &wait, &next);
    gx_fence(k);
    gx_if_end(k, &one, NULL, 0, NULL);
    gx_barrier(k);
}

/* Adds what block `number` has. So many words are on their way at once as registers have room for. */
static void add_sums(TileLower *l, LLVMValueRef number, LLVMValueRef *sums)
{
    enum { AT_ONCE = 16 };
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    DType t = l->m->dot->dtype;
    uint32_t each = sums_in_word(l), arg = emitter_scratch_arg(l->in);
    LLVMTypeRef type = emit_type(k, t), pair = LLVMVectorType(type, each);
    LLVMValueRef first = sums_offset(l, number), words[AT_ONCE];
    for (uint64_t w = 0; w < l->stream.of.words; w += AT_ONCE) {
        uint64_t left = l->stream.of.words - w, count = left < AT_ONCE ? left : AT_ONCE;
        for (uint64_t i = 0; i < count; i++)
            words[i] = gx_atomic_load(k, arg, word_offset(l, first, w + i), word_type(l));
        for (uint64_t i = 0; i < count * each; i++) {
            LLVMValueRef v = LLVMBuildBitCast(b, words[i / each], each > 1 ? pair : type,
                                              ""),
                         *sum = &sums[w * each + i];
            if (each > 1)
                v = LLVMBuildExtractElement(b, v, i32(l, (int64_t)(i % each)), "");
            *sum = dtype_is_float(t) ? gx_float_op(k, LLVMFAdd, *sum, v)
                                     : LLVMBuildAdd(b, *sum, v, "");
        }
    }
}

void stream_hear(TileLower *l, LLVMValueRef tile_begin, LLVMValueRef from,
                 LLVMValueRef *sums)
{
    Kernel *k = l->k;
    LLVMBuilderRef b = k->builder;
    uint32_t count = (uint32_t)l->stream.of.words * sums_in_word(l), more = count + 2;
    LLVMValueRef *carried = ARENA_ARRAY(k->arena, LLVMValueRef, more),
                 *next = ARENA_ARRAY(k->arena, LLVMValueRef, more);
    for (uint32_t i = 0; i < count; i++)
        carried[i] = sums[i];
    carried[count] = from;
    carried[count + 1] = l->stream.number;
    GxLoop others;
    gx_while_begin(k, &others, carried, more);
    gx_while_body(k, &others,
                  LLVMBuildICmp(b, LLVMIntUGT, carried[count], tile_begin, ""));
    LLVMValueRef number = LLVMBuildSub(b, carried[count + 1], i32(l, 1), "");
    wait_for(l, number);
    for (uint32_t i = 0; i < count; i++)
        next[i] = carried[i];
    add_sums(l, number, next);
    next[count] = run_begin(l, number);
    next[count + 1] = number;
    gx_while_end(k, &others, next);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = carried[i];
}
