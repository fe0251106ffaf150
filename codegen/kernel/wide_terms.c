/* Patches by terms (WidePlan.by_term): see ir/kernel/kinds/wide_rows.c. A thread takes a row of the image and the windows of
 * eight positions: all numbers that these have in that row, from which it makes a row of a matrix for each tap and
 * channel. */
#include "codegen/kernel/wide.h"

static int64_t octets_of(const Wide *w)
{
    return w->storage.pitch / WARPGROUP_PIECE;
}

/* Row `at` of the matrices of eight positions, which begin with row `first`. */
static void store_row(const Wide *w, LLVMValueRef first, LLVMValueRef at,
                      LLVMValueRef value)
{
    LLVMValueRef to = times(w->k, add(w->k, first, at), PIECE_BYTES);
    gx_store(w->k, GX_SHARED, add(w->k, to, number(w->k, w->shared)), value, PIECE_BYTES);
}

/* What stands behind the terms of the rows: of each result's last ones is written what are none. And the row between eight
 * features of the filter and the next, which products may read for positions that are none. */
void wide_terms_zeros(const Wide *w, uint32_t filter)
{
    const WideStorage *s = &w->storage;
    const WideRows *rows = &s->of_rows;
    int64_t behind = rows->chunk - rows->tails;
    LLVMValueRef zero = LLVMConstNull(piece_type(w->k));
    GxLoop loop;
    if (behind != 0) {
        LLVMValueRef octet = each_begin(w, &loop, octets_of(w) * behind),
                     at = split(w->k, &octet, behind);
        store_row(w, times(w->k, octet, rows->chunk),
                  add(w->k, at, number(w->k, rows->tails)), zero);
        gx_loop_end(w->k, &loop, NULL);
    }
    LLVMValueRef octet = each_begin(w, &loop, w->c->tile[FEATURES] / WARPGROUP_PIECE),
                 last = number(w->k, filter + rows->terms * PIECE_BYTES);
    gx_store(w->k, GX_SHARED, add(w->k, times(w->k, octet, s->filter_stride), last), zero,
             PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- rows of matrices ---------------------------------------------------------------------------- */

/* Number `i` of words. */
static LLVMValueRef number_at(const Wide *w, const LLVMValueRef *words, int64_t i)
{
    LLVMTypeRef pair = LLVMVectorType(gx_int_type(w->k, 16), 2);
    LLVMValueRef both = LLVMBuildBitCast(w->b, words[i / 2], pair, "");
    return LLVMBuildExtractElement(w->b, both, number(w->k, i % 2), "");
}

/* Numbers first + i * step, of eight positions. */
static LLVMValueRef row_of(const Wide *w, const LLVMValueRef *words, int64_t first,
                           int64_t step)
{
    LLVMTypeRef half = gx_int_type(w->k, 16);
    LLVMValueRef row = LLVMGetUndef(LLVMVectorType(half, WARPGROUP_PIECE));
    for (int64_t i = 0; i < WARPGROUP_PIECE; i++)
        row = LLVMBuildInsertElement(w->b, row, number_at(w, words, first + i * step),
                                     number(w->k, i), "");
    return LLVMBuildBitCast(w->b, row, piece_type(w->k), "");
}

/* What is read of a row, or of a channel's, from `from` on. */
static void load_words(const Wide *w, LLVMValueRef from, LLVMValueRef *words)
{
    for (int64_t i = 0; i < wide_terms_read(w->p); i++) {
        LLVMValueRef piece =
            gx_load(w->k, GX_SHARED, add(w->k, from, number(w->k, i * PIECE_BYTES)),
                    piece_type(w->k), PIECE_BYTES);
        for (int64_t j = 0; j < PIECE_WORDS; j++)
            words[i * PIECE_WORDS + j] =
                LLVMBuildExtractElement(w->b, piece, number(w->k, j), "");
    }
}

/* A window's last terms once more, if row `in` is the last one of its rows: from the first one of a rest of its terms by
 * eight on. */
static void store_tail(const Wide *w, LLVMValueRef first, LLVMValueRef in,
                       const LLVMValueRef *terms)
{
    const WidePlan *p = w->p;
    int64_t rest = wide_window_terms(p) % WARPGROUP_PIECE, all = wide_row_terms(p);
    if (rest == 0)
        return;
    GxIf there;
    LLVMValueRef result = LLVMBuildSub(w->b, in, number(w->k, p->window[Y] - 1), ""),
                 between = split(w->k, &result, p->stride);
    LLVMValueRef is_last = LLVMBuildICmp(w->b, LLVMIntEQ, between, number(w->k, 0), "");
    is_last = LLVMBuildAnd(w->b, is_last, is_below(w->k, result, w->c->tile[ROWS]), "");
    gx_if_begin(w->k, &there, is_last);
    LLVMValueRef at = add(w->k, times(w->k, result, WIDE_TAIL_ROWS),
                          number(w->k, w->storage.of_rows.tails));
    for (int64_t i = 0; i < rest; i++)
        store_row(w, first, add(w->k, at, number(w->k, i)), terms[all - rest + i]);
    gx_if_end(w->k, &there, NULL, 0, NULL);
}

/* Threads that follow each other take rows that do: they write rows of matrices in different banks, as they read. */
void wide_terms_make(const Wide *w, uint32_t rows_at)
{
    const WidePlan *p = w->p;
    const WideRows *rows = &w->storage.of_rows;
    Arena *arena = w->k->arena;
    int64_t all = wide_row_terms(p), numbers = wide_tap_numbers(p),
            step = p->stride * numbers, skipped = rows->lead - p->before[X] * numbers,
            groups = wide_runs(p);
    LLVMValueRef *terms = ARENA_ARRAY(arena, LLVMValueRef, (size_t)all),
                 *words = ARENA_ARRAY(arena, LLVMValueRef,
                                      (size_t)(wide_terms_read(p) * PIECE_WORDS));
    GxLoop loop;
    LLVMValueRef octet = each_begin(w, &loop, octets_of(w) * rows->turn),
                 in = split(w->k, &octet, rows->turn);
    GxIf there;
    bool is_idle = rows->turn != rows->count;
    if (is_idle)
        gx_if_begin(w->k, &there, is_below(w->k, in, rows->count));
    LLVMValueRef from = add(w->k, times(w->k, in, rows->row_bytes),
                            times(w->k, octet, step * PIECE_BYTES)),
                 first = times(w->k, octet, rows->chunk), at = times(w->k, in, all);
    from = add(w->k, from, number(w->k, rows_at));
    for (int64_t i = 0; i < all; i++) {
        int64_t of_group = all / groups, group = i / of_group;
        if (i % of_group == 0)
            load_words(
                w, add(w->k, from, number(w->k, group * rows->count * rows->row_bytes)),
                words);
        terms[i] = row_of(w, words, skipped + i % of_group, step);
        store_row(w, first, add(w->k, at, number(w->k, i)), terms[i]);
    }
    store_tail(w, first, in, terms);
    if (is_idle)
        gx_if_end(w->k, &there, NULL, 0, NULL);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- products ------------------------------------------------------------------------------------ */

/* Of 16 terms each, `steps` of them, from row `at` of the patch's matrices and term `term` of the filter on; behind the
 * first eight the patch has the others `lead` rows further on. */
static void multiply(const Wide *w, int64_t tile, GxMatrices filter, int64_t at,
                     int64_t lead, int64_t term, int64_t steps)
{
    const WideTensor *t = &w->storage.tensor;
    bool turned = w->p->positions_are_rows;
    if (steps == 0)
        return;
    filter.offset = add(w->k, filter.offset, number(w->k, term * PIECE_BYTES));
    GxMatrices patch = {.offset = number(w->k, w->shared + at * PIECE_BYTES),
                        .lead = (uint32_t)(lead * PIECE_BYTES),
                        .stride = (uint32_t)(w->storage.of_rows.chunk * PIECE_BYTES),
                        .is_transposed = true};
    gx_tensor_mma(w->k, w->p->inst->operands[0]->shape->dtype, (uint32_t)t->rows,
                  (uint32_t)t->columns, (uint32_t)steps, turned ? &patch : &filter,
                  turned ? &filter : &patch,
                  add(w->k, w->address, number(w->k, tile * t->columns)),
                  number(w->k, term != 0));
}

/* All terms of a tile: whole steps, then one of the eight and the rest that are left. */
static void multiply_tile(const Wide *w, int64_t tile, GxMatrices filter)
{
    const WidePlan *p = w->p;
    const WideTensor *t = &w->storage.tensor;
    const WideRows *rows = &w->storage.of_rows;
    int64_t row = tile % t->across / t->parts, part = tile % t->parts,
            octets = part * (TENSOR_ROWS / WARPGROUP_PIECE) * rows->chunk,
            all = wide_window_terms(p), whole = all - all % TAPS_STEP, rest = all - whole,
            first = octets + row * p->stride * wide_row_terms(p),
            tail = octets + rows->tails + row * WIDE_TAIL_ROWS;
    multiply(w, tile, filter, first, WARPGROUP_PIECE, 0, whole / TAPS_STEP);
    if (rest == 0)
        return;
    int64_t low = rest >= WARPGROUP_PIECE ? first + whole : tail,
            high = rest > WARPGROUP_PIECE ? tail : octets + rows->beside;
    multiply(w, tile, filter, low, high - low, whole, 1);
}

void wide_terms_multiply(const Wide *w, uint32_t filter)
{
    const WideTensor *t = &w->storage.tensor;
    for (int64_t i = 0; i < t->tiles; i++) {
        int64_t feature = i / t->across * (TENSOR_ROWS / WARPGROUP_PIECE);
        GxMatrices from = {.offset =
                               number(w->k, filter + feature * w->storage.filter_stride),
                           .lead = w->storage.filter_lead,
                           .stride = w->storage.filter_stride,
                           .is_transposed = true};
        multiply_tile(w, i, from);
    }
}
