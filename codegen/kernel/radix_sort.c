/* One step of a radix sort: see ir/kernel/kinds/radix_sort.c. A block has a tile of a row, or one after the other:
 * warps have neighbouring parts of it and count their digits access by access, which gives each element its rank among
 * equal ones; through shared memory elements of one digit come to lie side by side, so that what is stored is. */
#include "codegen/kernel/radix.h"
#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"

enum {
    STATES = 128,    /* where the tiles' counts begin in scratch memory */
    COUNT_BITS = 30, /* of a tile's count: above them is what it is of */
    OF_TILE = 1,     /* the tile alone */
    OF_ALL = 2,      /* all tiles up to this one */
};

/* -- digits: a thread for each ------------------------------------------------------------------------------------- */

static LLVMValueRef sum_counts(const Radix *r)
{
    LLVMValueRef sum = gx_i32(r->e->k, 0);
    for (uint32_t w = 0; w < r->warps; w++)
        sum = LLVMBuildAdd(
            r->e->k->builder, sum,
            radix_load_word(r, r->counts + w * 4 * RADIX_DIGITS, r->thread), "");
    return sum;
}

/* Counts of warps become the slots where their elements of the digit begin, of `own` in all, from `start` on;
 * `begins`: where those of the tile do in the row. */
static void begin_counts(const Radix *r, LLVMValueRef own, LLVMValueRef start,
                         LLVMValueRef begins)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef number = LLVMBuildAnd(b, start, gx_i32(k, DIGIT_NUMBERS - 1), "");
    LLVMValueRef slot = LLVMBuildUDiv(b, start, gx_i32(k, DIGIT_NUMBERS), "");
    GxIf there;
    radix_store_word(r, r->starts, r->thread, start);
    gx_if_begin(k, &there, LLVMBuildICmp(b, LLVMIntNE, own, gx_i32(k, 0), ""));
    radix_mark_start(r, slot);
    radix_store_word(r, r->shifts, number, LLVMBuildSub(b, begins, slot, ""));
    gx_if_end(k, &there, NULL, 0, NULL);
    for (uint32_t w = 0; w < r->warps; w++) {
        uint32_t base = r->counts + w * 4 * RADIX_DIGITS;
        LLVMValueRef of_warp = radix_load_word(r, base, r->thread);
        radix_store_word(r, base, r->thread, slot);
        slot = LLVMBuildAdd(b, slot, of_warp, "");
    }
}

/* An element of the parameter that has the counts. */
static LLVMValueRef load_count(const Radix *r, const IndexExpr *const *index)
{
    const RadixPlan *p = r->plan;
    LLVMValueRef v;
    emit_element(r->e, inst_called(r->in->fusion, 0)->parameters[p->histogram], index,
                 &v);
    r->e->k->at = p->inst->name;
    return v;
}

static const IndexExpr *digit_of_thread(const Radix *r)
{
    return emit_variable(r->e, to_index(r->e, r->thread), (Range){0, RADIX_DIGITS - 1});
}

/* What the digits before have, of counts that threads hold. Sums of warps go through shared memory; a barrier
 * inside. */
static LLVMValueRef scan_digits(const Radix *r, uint32_t sums, LLVMValueRef own)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef lane = gx_lane(k), zero = gx_i32(k, 0), count = own;
    GxIf last;
    for (uint32_t distance = 1; distance < TARGET_WARP; distance *= 2) {
        LLVMValueRef other =
            gx_shfl(k, GX_SHFL_UP, count, gx_i32(k, distance), TARGET_WARP);
        LLVMValueRef has = LLVMBuildICmp(b, LLVMIntUGE, lane, gx_i32(k, distance), "");
        count = LLVMBuildAdd(b, count, LLVMBuildSelect(b, has, other, zero, ""), "");
    }
    gx_if_begin(k, &last,
                LLVMBuildICmp(b, LLVMIntEQ, lane, gx_i32(k, TARGET_WARP - 1), ""));
    radix_store_word(r, sums, r->warp, count);
    gx_if_end(k, &last, NULL, 0, NULL);
    gx_barrier(k);
    count = LLVMBuildSub(b, count, own, "");
    for (uint32_t w = 0; w + 1 < RADIX_DIGITS / TARGET_WARP; w++) {
        LLVMValueRef sum = radix_load_word(r, sums, gx_i32(k, w));
        LLVMValueRef before = LLVMBuildICmp(b, LLVMIntULT, gx_i32(k, w), r->warp, "");
        count = LLVMBuildAdd(b, count, LLVMBuildSelect(b, before, sum, zero, ""), "");
    }
    return count;
}

/* As Radix.starts has it, of digits of which threads hold how many elements the tile has; a barrier inside. */
static LLVMValueRef find_start(const Radix *r, LLVMValueRef own)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef is_there = LLVMBuildICmp(b, LLVMIntNE, own, gx_i32(k, 0), "");
    LLVMValueRef both = LLVMBuildMul(b, own, gx_i32(k, DIGIT_NUMBERS), "");
    both = LLVMBuildOr(b, both, LLVMBuildZExt(b, is_there, gx_int_type(k, 32), ""), "");
    return scan_digits(r, r->sums, both);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Item n (i32) of all rows, `of_row` in each: the row is set; gives the item's number in it, i32. */
static LLVMValueRef set_row(Radix *r, LLVMValueRef n, int64_t of_row)
{
    LLVMBuilderRef b = r->e->k->builder;
    LLVMValueRef count = gx_i32(r->e->k, (uint32_t)of_row);
    LLVMValueRef number = LLVMBuildURem(b, n, count, "");
    r->row_number = to_index(r->e, LLVMBuildUDiv(b, n, count, ""));
    r->row = emit_variable(r->e, r->row_number, (Range){0, r->plan->rows - 1});
    return number;
}

/* -- look-back: a block takes one tile ----------------------------------------------------------------------------- */

/* Position of the digit's count of a tile of the row (i32) in scratch memory. */
static LLVMValueRef state_position(const Radix *r, LLVMValueRef tile)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    LLVMValueRef n = LLVMBuildZExtOrBitCast(b, r->row_number, i64, "");
    n = LLVMBuildMul(b, n, gx_i64(k, (uint64_t)r->tiles.tiles), "");
    n = LLVMBuildAdd(b, n, LLVMBuildZExt(b, tile, i64, ""), "");
    n = LLVMBuildMul(b, n, gx_i64(k, RADIX_DIGITS), "");
    n = LLVMBuildAdd(b, n, LLVMBuildZExt(b, r->thread, i64, ""), "");
    n = LLVMBuildMul(b, n, gx_i64(k, 4), "");
    return LLVMBuildAdd(b, n, gx_i64(k, STATES), "");
}

static void tell(const Radix *r, uint32_t what, LLVMValueRef count)
{
    Kernel *k = r->e->k;
    LLVMValueRef v = LLVMBuildOr(k->builder, count, gx_i32(k, what << COUNT_BITS), "");
    gx_atomic_store(k, r->scratch, state_position(r, r->tile), v);
}

/* Where the tile's elements of the digit go: `known` if it is the first one; else back until a tile knows. */
static LLVMValueRef look_back(const Radix *r, LLVMValueRef is_first, LLVMValueRef known)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i32 = gx_int_type(k, 32);
    LLVMValueRef one = gx_i32(k, 1), zero = gx_i32(k, 0), all = gx_i32(k, OF_ALL);
    /* the tile that is asked, what was found, whether that is all */
    LLVMValueRef state[3] = {r->tile, known, LLVMBuildZExt(b, is_first, i32, "")},
                 next[3];
    GxLoop loop;
    gx_while_begin(k, &loop, state, 3);
    LLVMValueRef is_open = LLVMBuildICmp(b, LLVMIntEQ, state[2], zero, "");
    gx_while_body(k, &loop, is_open);
    LLVMValueRef before = LLVMBuildSub(b, state[0], one, "");
    LLVMValueRef word = gx_atomic_load(k, r->scratch, state_position(r, before), i32);
    LLVMValueRef what = LLVMBuildLShr(b, word, gx_i32(k, COUNT_BITS), "");
    LLVMValueRef is_known = LLVMBuildICmp(b, LLVMIntNE, what, zero, "");
    LLVMValueRef count = LLVMBuildAnd(b, word, gx_i32(k, (1u << COUNT_BITS) - 1), "");
    GxIf waits;
    gx_if_begin(k, &waits, LLVMBuildNot(b, is_known, ""));
    gx_pause(k);
    gx_if_end(k, &waits, NULL, 0, NULL);
    next[0] = LLVMBuildSelect(b, is_known, before, state[0], "");
    next[1] = LLVMBuildAdd(b, state[1], count, ""); /* 0 if it is not known */
    next[2] = LLVMBuildZExt(b, LLVMBuildICmp(b, LLVMIntEQ, what, all, ""), i32, "");
    gx_while_end(k, &loop, next);
    return state[1];
}

/* How often the digit comes in the whole row: look-back. */
static LLVMValueRef count_of_row(const Radix *r)
{
    Emit *e = r->e;
    const RadixPlan *p = r->plan;
    const IndexExpr *bits =
        emit_variable(e, to_index(e, r->bits), (Range){0, (p->steps - 1) * RADIX_BITS});
    const IndexExpr *index[1] = {
        ix_add(e->ix, ix_mul(e->ix, r->row, p->steps * RADIX_DIGITS),
               ix_add(e->ix, digit_of_thread(r),
                      ix_mul(e->ix, bits, RADIX_DIGITS / RADIX_BITS)))};
    return load_count(r, index);
}

/* Where the digit begins in the row, which the row's first tile finds: what it tells is of all tiles up to it. */
static LLVMValueRef begin_row(const Radix *r, LLVMValueRef is_first)
{
    Kernel *k = r->e->k;
    LLVMValueRef zero = gx_i32(k, 0), count, begins;
    GxIf first, has_digit;
    gx_if_begin(k, &first, is_first);
    gx_if_begin(k, &has_digit, r->has_digit);
    count = count_of_row(r);
    gx_if_else(k, &has_digit, &count, 1);
    gx_if_end(k, &has_digit, &zero, 1, &count);
    begins = scan_digits(r, r->sums + 4 * r->warps, count);
    gx_if_else(k, &first, &begins, 1);
    gx_if_end(k, &first, &zero, 1, &begins);
    return begins;
}

/* Where each warp's elements of each digit begin in the tile, and how much further on in the row. */
static void find_starts(const Radix *r)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef zero = gx_i32(k, 0), own;
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, r->tile, zero, "");
    LLVMValueRef begins = begin_row(r, is_first);
    LLVMValueRef what =
        LLVMBuildSelect(b, is_first, gx_i32(k, (uint32_t)OF_ALL << COUNT_BITS),
                        gx_i32(k, OF_TILE << COUNT_BITS), "");
    GxIf has_digit, later;
    gx_if_begin(k, &has_digit, r->has_digit);
    own = sum_counts(r);
    gx_atomic_store(k, r->scratch, state_position(r, r->tile),
                    LLVMBuildOr(b, LLVMBuildAdd(b, begins, own, ""), what, ""));
    gx_if_else(k, &has_digit, &own, 1);
    gx_if_end(k, &has_digit, &zero, 1, &own);
    LLVMValueRef start = find_start(r, own);
    gx_if_begin(k, &has_digit, r->has_digit);
    LLVMValueRef before = look_back(r, is_first, begins);
    gx_if_begin(k, &later, LLVMBuildNot(b, is_first, ""));
    tell(r, OF_ALL, LLVMBuildAdd(b, before, own, ""));
    gx_if_end(k, &later, NULL, 0, NULL);
    begin_counts(r, own, start, before);
    gx_if_end(k, &has_digit, NULL, 0, NULL);
}

static void find_tile(Radix *r)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    r->tile = set_row(r, ticket_take(k, r->scratch, r->ticket), r->tiles.tiles);
    LLVMValueRef of_tile = emit_index_constant(e, r->tiles.elements);
    LLVMValueRef first = LLVMBuildMul(b, to_index(e, r->tile), of_tile, "");
    LLVMValueRef before =
        LLVMBuildMul(b, r->tile, gx_i32(k, (uint32_t)r->tiles.elements), "");
    radix_set_tile(r, first,
                   LLVMBuildSub(b, gx_i32(k, (uint32_t)r->plan->size), before, ""),
                   r->plan->size % r->tiles.elements != 0);
}

static void emit_tile(Radix *r)
{
    LLVMValueRef v[RADIX_MOST], digits[RADIX_MOST], ranks[RADIX_MOST];
    radix_clear_counts(r);
    find_tile(r);
    radix_rank_tile(r, v, digits, ranks);
    find_starts(r);
    gx_barrier(r->e->k);
    radix_move_tile(r, v, digits, ranks);
}

/* -- a block takes a range ----------------------------------------------------------------------------------------- */

/* How often it comes in the row's ranges up to this one. */
static LLVMValueRef count_up_to(const Radix *r, LLVMValueRef range)
{
    Emit *e = r->e;
    const RadixPlan *p = r->plan;
    uint32_t rank = p->shape->rank, next = 0;
    const IndexExpr *of_row[EMIT_MOST_RANK], *index[EMIT_MOST_RANK];
    radix_index(r, ix_const(e->ix, 0), of_row);
    for (uint32_t d = 0; d < rank; d++) {
        if (d != p->along)
            index[next++] = of_row[d];
    }
    index[next++] = digit_of_thread(r);
    index[next] = emit_variable(e, range, (Range){0, p->ranges - 1});
    return load_count(r, index);
}

/* Where the range's elements of the digit begin in the row; by threads without a digit: 0. */
static LLVMValueRef begin_range(const Radix *r)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMValueRef zero = gx_i32(k, 0), counts[2], none[2] = {zero, zero};
    GxIf has_digit, later;
    emit_if_begin(e, &has_digit, r->has_digit);
    counts[0] = count_up_to(r, emit_index_constant(e, r->plan->ranges - 1));
    emit_if_begin(
        e, &later,
        LLVMBuildICmp(k->builder, LLVMIntNE, r->range, emit_index_constant(e, 0), ""));
    counts[1] =
        count_up_to(r, LLVMBuildSub(k->builder, r->range, emit_index_constant(e, 1), ""));
    emit_if_end_or(e, &later, &counts[1], &zero, 1);
    emit_if_end_or(e, &has_digit, counts, none, 2);
    return LLVMBuildAdd(k->builder, scan_digits(r, r->sums + 4 * r->warps, counts[0]),
                        counts[1], "");
}

/* As find_starts, but `begins` says where the tile's elements of the digit go. Gives where those of the range's next
 * tile do. */
static LLVMValueRef digit_positions(const Radix *r, LLVMValueRef begins)
{
    Kernel *k = r->e->k;
    LLVMValueRef zero = gx_i32(k, 0), own;
    GxIf has_digit;
    gx_if_begin(k, &has_digit, r->has_digit);
    own = sum_counts(r);
    gx_if_else(k, &has_digit, &own, 1);
    gx_if_end(k, &has_digit, &zero, 1, &own);
    LLVMValueRef start = find_start(r, own);
    gx_if_begin(k, &has_digit, r->has_digit);
    begin_counts(r, own, start, begins);
    gx_if_end(k, &has_digit, NULL, 0, NULL);
    return LLVMBuildAdd(k->builder, begins, own, "");
}

/* Gives where it begins in the row, of index_type; *size: its elements, i32. */
static LLVMValueRef find_range(Radix *r, LLVMValueRef *size)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const RadixPlan *p = r->plan;
    LLVMValueRef range = set_row(r, gx_ctaid(k, 0), p->ranges);
    r->range = to_index(e, range);
    LLVMValueRef all = gx_i32(k, (uint32_t)p->range);
    LLVMValueRef remaining = LLVMBuildSub(b, gx_i32(k, (uint32_t)p->size),
                                          LLVMBuildMul(b, range, all, ""), "");
    LLVMValueRef is_whole = LLVMBuildICmp(b, LLVMIntUGE, remaining, all, "");
    *size = LLVMBuildSelect(b, is_whole, all, remaining, "");
    return LLVMBuildMul(b, r->range, emit_index_constant(e, p->range), "");
}

static void emit_range(Radix *r)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef v[RADIX_MOST], digits[RADIX_MOST], ranks[RADIX_MOST], size;
    uint32_t elements = (uint32_t)r->tiles.elements;
    GxLoop loop;
    LLVMValueRef first = find_range(r, &size);
    LLVMValueRef begins = begin_range(r);
    gx_loop_begin(k, &loop, gx_i32(k, 0), size, gx_i32(k, elements), &begins, 1);
    loop.keeps_addresses = true;
    emit_scope_begin(e);
    radix_set_tile(r, LLVMBuildAdd(b, first, to_index(e, loop.index), ""),
                   LLVMBuildSub(b, size, loop.index, ""),
                   r->plan->size % elements != 0 || r->plan->range % elements != 0);
    radix_clear_counts(r);
    radix_rank_tile(r, v, digits, ranks);
    LLVMValueRef next = digit_positions(r, begins);
    gx_barrier(k);
    radix_move_tile(r, v, digits, ranks);
    emit_scope_end(e);
    gx_loop_end(k, &loop, &next);
}

/* -- the kernel ---------------------------------------------------------------------------------------------------- */

static void allocate(Radix *r)
{
    Kernel *k = r->e->k;
    uint64_t elements = (uint64_t)r->tiles.elements;
    unsigned widest = r->plan->widest;
    r->base = gx_shared_alloc(k, elements * widest, widest);
    r->chunks = gx_shared_alloc(k, elements / TARGET_WARP * RADIX_CHUNK, RADIX_CHUNK);
    r->counts = gx_shared_alloc(k, (uint64_t)4 * RADIX_DIGITS * r->warps, 4);
    r->starts = gx_shared_alloc(k, 4 * RADIX_DIGITS, 4);
    r->shifts = gx_shared_alloc(k, 4 * RADIX_DIGITS, 4);
    r->sums = gx_shared_alloc(k, (uint64_t)2 * 4 * r->warps, 4);
    if (r->plan->ranges == 0)
        r->ticket = gx_shared_alloc(k, 4, 4);
}

static void find_thread(Radix *r)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    r->thread = gx_tid(k, 0);
    r->warp = LLVMBuildLShr(b, r->thread, gx_i32(k, 5), "");
    r->warp_counts = radix_word_at(r, r->counts,
                                   LLVMBuildMul(b, r->warp, gx_i32(k, RADIX_DIGITS), ""));
    r->has_digit = LLVMBuildICmp(b, LLVMIntULT, r->thread, gx_i32(k, RADIX_DIGITS), "");
}

Kernel *emitter_radix_sort(const EmitterInput *in)
{
    Radix r = {.in = in,
               .plan = in->design->plan.radix,
               .accesses = (uint32_t)in->design->config.accesses,
               .warps = (uint32_t)in->design->config.block / TARGET_WARP};
    radix_tiles(in->design, &r.tiles);
    r.e = emitter_begin(in);
    r.bits = LLVMBuildTrunc(r.e->k->builder, gx_scalar(r.e->k, emitter_scalar_arg(in)),
                            gx_int_type(r.e->k, 32), "");
    r.e->k->is_wide = r.plan->live_words * r.accesses > RADIX_LIVE_WORDS;
    if (!r.e->k->is_wide)
        r.e->k->resident_blocks = RADIX_THREADS / (TARGET_WARP * r.warps);
    allocate(&r);
    find_thread(&r);
    if (r.plan->ranges != 0) {
        emit_range(&r);
    } else {
        r.scratch = emitter_scratch_arg(in);
        emit_tile(&r);
    }
    return emitter_finish(in, r.e);
}
