/* A tile of a step of a radix sort: its elements are loaded, get their ranks among those of the same digit, and are
 * stored through shared memory, where elements of one digit come to lie side by side. Which digit an element is of, that
 * is stored, says where in its warp's slots digits begin: to lay down each element's digit, too, would be another store
 * to slots that lie anywhere. */
#include "codegen/kernel/radix.h"
#include "codegen/kernel/threads.h"

LLVMValueRef radix_word_at(const Radix *r, uint32_t base, LLVMValueRef index)
{
    return element_offset(r->e, base, index, 4);
}

LLVMValueRef radix_load_word(const Radix *r, uint32_t base, LLVMValueRef index)
{
    Kernel *k = r->e->k;
    return gx_load(k, GX_SHARED, radix_word_at(r, base, index), gx_int_type(k, 32), 4);
}

void radix_store_word(const Radix *r, uint32_t base, LLVMValueRef index, LLVMValueRef v)
{
    gx_store(r->e->k, GX_SHARED, radix_word_at(r, base, index), v, 4);
}

void radix_index(const Radix *r, const IndexExpr *at, const IndexExpr **out)
{
    Emit *e = r->e;
    const IndexExpr *row = r->row;
    const Shape *s = r->plan->shape;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i], size = s->dims[d];
        if (d == r->plan->along) {
            out[d] = at;
            continue;
        }
        out[d] = ix_mod(e->ix, row, size);
        row = ix_floordiv(e->ix, row, size);
    }
}

void radix_set_tile(Radix *r, LLVMValueRef first, LLVMValueRef remaining, bool may_end)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef all = gx_i32(k, (uint32_t)r->tiles.elements);
    r->first = first;
    r->is_whole = may_end ? LLVMBuildICmp(b, LLVMIntUGE, remaining, all, "") : NULL;
    r->valid = may_end ? LLVMBuildSelect(b, r->is_whole, all, remaining, "") : all;
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

static DType type_of(const Radix *r, uint32_t array)
{
    return r->plan->inst->operands[array]->shape->dtype;
}

/* The digit of the element of access a, i32. */
static LLVMValueRef digit_of(const Radix *r, const LLVMValueRef *v, uint32_t a)
{
    LLVMValueRef args[2 * RADIX_MOST];
    for (uint32_t i = 0; i < r->plan->count; i++)
        args[2 * i] = args[2 * i + 1] =
            radix_is_key(r->plan, i) ? v[i * r->accesses + a]
                                     : LLVMConstNull(emit_type(r->e->k, type_of(r, i)));
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef key = emit_inside(r->e, r->plan->key, args);
    LLVMValueRef bits = LLVMBuildIntCast2(b, r->bits, LLVMTypeOf(key), 0, "");
    LLVMValueRef digit = LLVMBuildLShr(b, key, bits, "");
    digit = LLVMBuildIntCast2(b, digit, gx_int_type(k, 32), 0, "");
    return LLVMBuildAnd(b, digit, gx_i32(k, RADIX_DIGITS - 1), "");
}

/* Of the tile, i32: of access a. */
static LLVMValueRef number_of(const Radix *r, uint32_t a)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef n = LLVMBuildMul(b, r->warp, gx_i32(k, TARGET_WARP * r->accesses), "");
    n = LLVMBuildAdd(b, n, gx_lane(k), "");
    return LLVMBuildAdd(b, n, gx_i32(k, a * TARGET_WARP), "");
}

static LLVMValueRef exists(const Radix *r, LLVMValueRef number)
{
    return LLVMBuildICmp(r->e->k->builder, LLVMIntULT, number, r->valid, "");
}

static void load_accesses(const Radix *r, uint32_t array, bool is_guarded,
                          LLVMValueRef *v)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMValueRef behind = LLVMConstNull(emit_type(k, type_of(r, array)));
    for (uint32_t a = 0; a < r->accesses; a++) {
        const IndexExpr *index[EMIT_MOST_RANK];
        GxIf guard;
        LLVMValueRef n = number_of(r, a);
        LLVMValueRef at = LLVMBuildAdd(k->builder, r->first, to_index(e, n), "");
        emit_if_begin(e, &guard, is_guarded ? exists(r, n) : NULL);
        radix_index(r, emit_variable(e, at, (Range){0, r->plan->size - 1}), index);
        emit_element(e, r->plan->inst->operands[array], index, &v[a]);
        k->at = r->plan->inst->name;
        emit_if_end_or(e, &guard, &v[a], &behind, 1);
    }
}

/* Elements of an array; v: [accesses]. Tiles that are whole need not ask of each whether it exists. */
static void load(const Radix *r, uint32_t array, LLVMValueRef *v)
{
    LLVMValueRef part[RADIX_MOST];
    GxIf whole;
    emit_if_begin(r->e, &whole, r->is_whole);
    load_accesses(r, array, false, v);
    if (r->is_whole == NULL)
        return;
    emit_if_else(r->e, &whole, v, r->accesses);
    load_accesses(r, array, true, part);
    emit_if_end(r->e, &whole, part, r->accesses, v);
}

/* What lies behind the row has the last digit, and comes after all others that do. */
static void mark_missing(const Radix *r, LLVMValueRef *digits)
{
    Kernel *k = r->e->k;
    LLVMValueRef last = gx_i32(k, RADIX_DIGITS - 1), marked[RADIX_MOST];
    GxIf part;
    if (r->is_whole == NULL)
        return;
    gx_if_begin(k, &part, LLVMBuildNot(k->builder, r->is_whole, ""));
    for (uint32_t a = 0; a < r->accesses; a++)
        marked[a] =
            LLVMBuildSelect(k->builder, exists(r, number_of(r, a)), digits[a], last, "");
    gx_if_else(k, &part, marked, r->accesses);
    gx_if_end(k, &part, digits, r->accesses, digits);
}

/* v: [count][accesses]. */
static void load_keys(const Radix *r, LLVMValueRef *v, LLVMValueRef *digits)
{
    for (uint32_t i = 0; i < r->plan->count; i++) {
        if (radix_is_key(r->plan, i))
            load(r, i, v + i * r->accesses);
    }
    for (uint32_t a = 0; a < r->accesses; a++)
        digits[a] = digit_of(r, v, a);
    mark_missing(r, digits);
}

/* -- ranks --------------------------------------------------------------------------------------------------------- */

/* The lanes with this lane's digit, as bits, for each access. Bit by bit in a loop: unrolled it would be most of
 * the kernel's code. */
static void find_peers(const Radix *r, const LLVMValueRef *digits, LLVMValueRef *peers)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef next[RADIX_MOST], zero = gx_i32(k, 0), one = gx_i32(k, 1);
    GxLoop loop;
    for (uint32_t a = 0; a < r->accesses; a++)
        peers[a] = gx_i32(k, UINT32_MAX);
    gx_loop_begin(k, &loop, zero, gx_i32(k, RADIX_BITS), one, peers, r->accesses);
    LLVMValueRef bit = LLVMBuildShl(b, one, loop.index, "");
    for (uint32_t a = 0; a < r->accesses; a++)
        next[a] = narrow_peers(k, peers[a], digits[a], bit);
    gx_loop_end(k, &loop, next);
}

static LLVMValueRef count_offset(const Radix *r, LLVMValueRef digit)
{
    LLVMBuilderRef b = r->e->k->builder;
    LLVMValueRef bytes = LLVMBuildMul(b, digit, gx_i32(r->e->k, 4), "");
    return LLVMBuildAdd(b, r->warp_counts, bytes, "");
}

static LLVMValueRef count_bits(Kernel *k, LLVMValueRef v)
{
    return gx_intrinsic(k, "ctpop", &v, 1);
}

void radix_clear_counts(const Radix *r)
{
    Kernel *k = r->e->k;
    LLVMValueRef lane = gx_lane(k);
    for (uint32_t i = 0; i < RADIX_DIGITS; i += TARGET_WARP) {
        LLVMValueRef digit = LLVMBuildAdd(k->builder, lane, gx_i32(k, i), "");
        gx_store(k, GX_SHARED, count_offset(r, digit), gx_i32(k, 0), 4);
    }
    gx_syncwarp(k);
}

/* How many elements of the same digit stand before, in the warp's part of the tile: the warp's own count, read by all
 * of the digit's lanes and written by the last of them. */
static void rank(const Radix *r, const LLVMValueRef *digits, LLVMValueRef *ranks)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i32 = gx_int_type(k, 32);
    LLVMValueRef lane = gx_lane(k), zero = gx_i32(k, 0);
    LLVMValueRef above = LLVMBuildShl(b, gx_i32(k, (uint32_t)-2), lane, "");
    LLVMValueRef below =
        LLVMBuildNot(b, LLVMBuildShl(b, gx_i32(k, UINT32_MAX), lane, ""), "");
    LLVMValueRef peers[RADIX_MOST];
    find_peers(r, digits, peers);
    for (uint32_t a = 0; a < r->accesses; a++) {
        GxIf is_last;
        LLVMValueRef at = count_offset(r, digits[a]);
        LLVMValueRef before = gx_load(k, GX_SHARED, at, i32, 4);
        gx_syncwarp(k);
        ranks[a] = LLVMBuildAdd(b, before,
                                count_bits(k, LLVMBuildAnd(b, peers[a], below, "")), "");
        LLVMValueRef others = LLVMBuildAnd(b, peers[a], above, "");
        gx_if_begin(k, &is_last, LLVMBuildICmp(b, LLVMIntEQ, others, zero, ""));
        gx_store(k, GX_SHARED, at, LLVMBuildAdd(b, ranks[a], gx_i32(k, 1), ""), 4);
        gx_if_end(k, &is_last, NULL, 0, NULL);
        gx_syncwarp(k);
    }
}

void radix_rank_tile(const Radix *r, LLVMValueRef *v, LLVMValueRef *digits,
                     LLVMValueRef *ranks)
{
    load_keys(r, v, digits);
    rank(r, digits, ranks);
    gx_barrier(r->e->k);
    radix_clear_chunks(r);
}

/* -- digits of slots ----------------------------------------------------------------------------------------------- */

static LLVMValueRef chunk_at(const Radix *r, LLVMValueRef chunk, uint32_t further)
{
    return element_offset(r->e, r->chunks + further, chunk, RADIX_CHUNK);
}

/* A thread for each chunk: there are as many as accesses of warps. */
static void begin_chunks(const Radix *r, GxIf *has_chunk)
{
    LLVMValueRef chunks = gx_i32(r->e->k, r->warps * r->accesses);
    gx_if_begin(r->e->k, has_chunk,
                LLVMBuildICmp(r->e->k->builder, LLVMIntULT, r->thread, chunks, ""));
}

void radix_clear_chunks(const Radix *r)
{
    GxIf has_chunk;
    begin_chunks(r, &has_chunk);
    gx_store(r->e->k, GX_SHARED, chunk_at(r, r->thread, 0), gx_i32(r->e->k, 0), 4);
    gx_if_end(r->e->k, &has_chunk, NULL, 0, NULL);
}

void radix_mark_start(const Radix *r, LLVMValueRef slot)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef warp = gx_i32(k, TARGET_WARP);
    LLVMValueRef bit = LLVMBuildURem(b, slot, warp, "");
    bit = LLVMBuildShl(b, gx_i32(k, 1), bit, "");
    gx_atomic(k, GX_ATOMIC_OR, GX_SHARED,
              chunk_at(r, LLVMBuildUDiv(b, slot, warp, ""), 0), bit);
}

/* Each chunk's first slot: the last of the digits that begin up to it, by halving. */
static void find_first_digits(const Radix *r)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef at = gx_i32(k, 0);
    GxIf has_chunk;
    begin_chunks(r, &has_chunk);
    LLVMValueRef slot = LLVMBuildMul(b, r->thread, gx_i32(k, TARGET_WARP), "");
    LLVMValueRef most = LLVMBuildMul(b, slot, gx_i32(k, DIGIT_NUMBERS), "");
    most = LLVMBuildOr(b, most, gx_i32(k, DIGIT_NUMBERS - 1), "");
    for (uint32_t step = RADIX_DIGITS / 2; step > 0; step /= 2) {
        LLVMValueRef next = LLVMBuildAdd(b, at, gx_i32(k, step), "");
        LLVMValueRef start = radix_load_word(r, r->starts, next);
        LLVMValueRef begins = LLVMBuildICmp(b, LLVMIntULE, start, most, "");
        at = LLVMBuildSelect(b, begins, next, at, "");
    }
    LLVMValueRef number = radix_load_word(r, r->starts, at);
    number = LLVMBuildAnd(b, number, gx_i32(k, DIGIT_NUMBERS - 1), "");
    gx_store(k, GX_SHARED, chunk_at(r, r->thread, 4), number, 4);
    gx_if_end(k, &has_chunk, NULL, 0, NULL);
}

/* The number of the digit of access a's slot, the lane's of a chunk. `later`: the bits of slots up to the lane's
 * without the first. */
static LLVMValueRef digit_number(const Radix *r, uint32_t a, LLVMValueRef later)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i32 = gx_int_type(k, 32);
    LLVMValueRef chunk = LLVMBuildAdd(b, r->warp, gx_i32(k, a * r->warps), "");
    LLVMValueRef both =
        gx_load(k, GX_SHARED, chunk_at(r, chunk, 0), gx_int_type(k, 64), RADIX_CHUNK);
    LLVMValueRef starts = LLVMBuildTrunc(b, both, i32, "");
    LLVMValueRef first =
        LLVMBuildTrunc(b, LLVMBuildLShr(b, both, gx_i64(k, 32), ""), i32, "");
    return LLVMBuildAdd(b, first, count_bits(k, LLVMBuildAnd(b, starts, later, "")), "");
}

/* -- storing ------------------------------------------------------------------------------------------------------- */

/* Where elements come to lie in the tile. */
static void find_slots(const Radix *r, const LLVMValueRef *digits,
                       const LLVMValueRef *ranks, LLVMValueRef *slots)
{
    Kernel *k = r->e->k;
    LLVMBuilderRef b = k->builder;
    for (uint32_t a = 0; a < r->accesses; a++) {
        LLVMValueRef begins =
            gx_load(k, GX_SHARED, count_offset(r, digits[a]), gx_int_type(k, 32), 4);
        slots[a] = LLVMBuildAdd(b, begins, ranks[a], "");
    }
}

/* v: [accesses] of an array. */
static void exchange(const Radix *r, uint32_t array, const LLVMValueRef *v,
                     const LLVMValueRef *slots)
{
    DType t = type_of(r, array);
    for (uint32_t a = 0; a < r->accesses; a++)
        shared_store(r->e, t, element_offset(r->e, r->base, slots[a], shared_bytes(t)),
                     v[a]);
}

static void store_accesses(const Radix *r, uint32_t array, bool is_guarded)
{
    Emit *e = r->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    DType t = type_of(r, array);
    LLVMValueRef later =
        LLVMBuildSub(b, LLVMBuildShl(b, gx_i32(k, 2), gx_lane(k), ""), gx_i32(k, 2), "");
    for (uint32_t a = 0; a < r->accesses; a++) {
        const IndexExpr *index[EMIT_MOST_RANK];
        GxIf guard;
        LLVMValueRef slot =
            LLVMBuildAdd(b, r->thread, gx_i32(k, a * TARGET_WARP * r->warps), "");
        emit_if_begin(e, &guard, is_guarded ? exists(r, slot) : NULL);
        LLVMValueRef to = radix_load_word(r, r->shifts, digit_number(r, a, later));
        to = LLVMBuildAdd(b, to, slot, "");
        radix_index(r, emit_variable(e, to_index(e, to), (Range){0, r->plan->size - 1}),
                    index);
        LLVMValueRef v =
            shared_load(e, t, element_offset(e, r->base, slot, shared_bytes(t)));
        emit_store(e, fusion_result_arg(r->in->fusion, array),
                   shape_leaf(r->plan->inst->shape, array), index, &v);
        emit_if_end(e, &guard, NULL, 0, NULL);
    }
}

static void store(const Radix *r, uint32_t array)
{
    GxIf whole;
    emit_if_begin(r->e, &whole, r->is_whole);
    store_accesses(r, array, false);
    if (r->is_whole == NULL)
        return;
    emit_if_else(r->e, &whole, NULL, 0);
    store_accesses(r, array, true);
    emit_if_end(r->e, &whole, NULL, 0, NULL);
}

void radix_move_tile(const Radix *r, LLVMValueRef *v, const LLVMValueRef *digits,
                     const LLVMValueRef *ranks)
{
    LLVMValueRef slots[RADIX_MOST];
    find_slots(r, digits, ranks, slots);
    find_first_digits(r);
    for (uint32_t i = 0; i < r->plan->count; i++) {
        uint32_t next = i + 1;
        LLVMValueRef *own = v + i * r->accesses;
        if (i == 0 && !radix_is_key(r->plan, i))
            load(r, i, own);
        /* on their way while the array before is stored */
        if (next < r->plan->count && !radix_is_key(r->plan, next))
            load(r, next, v + next * r->accesses);
        if (i != 0)
            gx_barrier(r->e->k);
        exchange(r, i, own, slots);
        gx_barrier(r->e->k);
        store(r, i);
    }
}
