/* Convolutions from few channels (WidePlan.pieces): no tap has a step's terms, but a row of a window's taps is
 * one run of the image's numbers, or one for each channel.
 *
 *   rows of the image are asked for with zeros around them, and the filter
 *   each position of the patch gets the runs of its window's row
 *   for every `stride` rows of the window: multiply
 *
 * By mma.sync the runs are taken from the rows without a patch, words of a column by the lane that multiplies them.
 * Numbers of a piece that are no taps are zeros in the patch and in the filter, so that none that is infinite meets a
 * zero. */
#include "codegen/kernel/wide.h"
#include "ir/base/divide.h"

typedef struct Run {
    const Wide *w;
    const WidePlan *p;
    uint32_t filter, rows; /* bytes of shared memory: where they begin */
    int64_t parts;         /* pieces of a run */
} Run;

/* -- what is asked for ------------------------------------------------------------------------- */

/* Each thread takes one of `across`, and of `down` every `parts`-th from its own on: what depends on the first is found
 * once. Loop `inner` counts the second in `down`; threads that have none are left out by `there`. */
typedef struct Walk {
    GxLoop outer, inner;
    GxIf there;
    LLVMValueRef across, down;
} Walk;

static void walk_begin(const Wide *w, Walk *walk, int64_t across, int64_t down)
{
    int64_t threads = w->k->block[0], parts = across < threads ? threads / across : 1;
    parts = parts < down ? parts : down;
    LLVMValueRef item = each_begin(w, &walk->outer, round_up(across * parts, threads));
    gx_if_begin(w->k, &walk->there, is_below(w->k, item, across * parts));
    walk->across = split(w->k, &item, across);
    gx_loop_begin(w->k, &walk->inner, item, number(w->k, down), number(w->k, parts), NULL,
                  0);
    walk->down = walk->inner.index;
}

static void walk_end(const Wide *w, Walk *walk)
{
    gx_loop_end(w->k, &walk->inner, NULL);
    gx_if_end(w->k, &walk->there, NULL, 0, NULL);
    gx_loop_end(w->k, &walk->outer, NULL);
}

/* Sixteen bytes from number `from` of an operand on, or, where `inside` is false, zeros. */
static void ask(const Wide *w, uint32_t operand, LLVMValueRef inside, LLVMValueRef from,
                LLVMValueRef to)
{
    uint32_t arg = wide_argument(w, operand);
    from = LLVMBuildSelect(w->b, inside, byte_of(w, from), gx_i64(w->k, 0), "");
    gx_copy_async(
        w->k, arg, from, to, PIECE_BYTES,
        LLVMBuildSelect(w->b, inside, number(w->k, PIECE_BYTES), number(w->k, 0), ""));
}

/* Rows of the image, those of a channel one behind the other where features are first. */
static void ask_rows(const Run *r)
{
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    const WideRows *rows = &w->storage.of_rows;
    Walk walk;
    int64_t numbers = wide_tap_numbers(p), planes = wide_runs(p);
    walk_begin(w, &walk, rows->row_bytes / PIECE_BYTES, rows->count * planes);
    LLVMValueRef channel = walk.down, in = split(w->k, &channel, rows->count),
                 y = add(w->k, times(w->k, w->row, p->stride), in),
                 x = times(w->k, walk.across, WARPGROUP_PIECE);
    y = LLVMBuildSub(w->b, y, number(w->k, p->before[Y]), "");
    x = LLVMBuildSub(w->b, x, number(w->k, rows->lead), "");
    LLVMValueRef inside = LLVMBuildAnd(w->b, is_below(w->k, y, p->size[Y]),
                                       is_below(w->k, x, p->size[X] * numbers), ""),
                 from = wide_sum(w, widened(w, w->image), planes, channel),
                 to = add(w->k, times(w->k, walk.down, rows->row_bytes),
                          times(w->k, walk.across, PIECE_BYTES));
    from = wide_sum(w, from, p->size[Y], y);
    ask(w, 0, inside, wide_sum(w, from, p->size[X] * numbers, x),
        add(w->k, to, number(w->k, r->rows)));
    walk_end(w, &walk);
}

/* Eight features of each term, zeros of those that are no tap. */
static void ask_filter(const Run *r)
{
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    Walk walk;
    int64_t pieces = w->c->tile[FEATURES] / WARPGROUP_PIECE, depth = wide_row_terms(p);
    walk_begin(w, &walk, pieces * depth, ceil_div(w->storage.of_rows.terms, depth));
    LLVMValueRef at = walk.across, piece = split(w->k, &at, pieces), y = walk.down, x,
                 channel;
    LLVMValueRef term = add(w->k, times(w->k, y, depth), at);
    if (p->is_last) {
        x = LLVMBuildSub(w->b, at, number(w->k, p->spare * p->channels), "");
        channel = split(w->k, &x, p->channels);
    } else {
        channel = at;
        x = split(w->k, &channel, p->by_term ? p->window[X] : r->parts * WARPGROUP_PIECE);
        x = LLVMBuildSub(w->b, x, number(w->k, p->spare), "");
    }
    LLVMValueRef is_tap = LLVMBuildAnd(w->b, is_below(w->k, x, p->window[X]),
                                       is_below(w->k, y, p->window[Y]), ""),
                 tap = add(w->k, times(w->k, y, p->window[X]), x);
    if (p->is_reversed)
        tap = LLVMBuildSub(w->b, number(w->k, (int64_t)w->taps - 1), tap, "");
    LLVMValueRef feature = add(w->k, times(w->k, w->feature_tile, w->c->tile[FEATURES]),
                               times(w->k, piece, WARPGROUP_PIECE)),
                 from = add(w->k, times(w->k, tap, p->tap_step),
                            add(w->k, times(w->k, channel, p->channel_step), feature)),
                 to = wide_filter_offset(w, number(w->k, r->filter), term, piece);
    GxIf there; /* the last row may be half of one */
    gx_if_begin(w->k, &there, is_below(w->k, term, w->storage.of_rows.terms));
    ask(w, 1, is_tap, widened(w, from), to);
    gx_if_end(w->k, &there, NULL, 0, NULL);
    walk_end(w, &walk);
}

/* -- the patch --------------------------------------------------------------------------------- */

/* Number `i` of a run is a tap's. */
static bool is_tap(const WidePlan *p, int64_t i)
{
    int64_t numbers = wide_tap_numbers(p), first = p->spare * numbers;
    return i >= first && i < first + p->window[X] * numbers;
}

/* The bits of numbers `i` and `i` + 1 that are taps'. */
static uint32_t tap_bits(const WidePlan *p, int64_t i)
{
    return (is_tap(p, i) ? 0xffffu : 0) | (is_tap(p, i + 1) ? 0xffff0000u : 0);
}

/* Numbers 8 `part` to 8 `part` + 7 of the run that begins at `from` in shared memory. */
static LLVMValueRef load_part(const Run *r, LLVMValueRef from, int64_t part)
{
    const Wide *w = r->w;
    LLVMTypeRef word = gx_int_type(w->k, 32);
    LLVMValueRef piece = LLVMConstNull(piece_type(w->k));
    for (uint32_t i = 0; i < PIECE_WORDS; i++) {
        int64_t first = part * WARPGROUP_PIECE + 2 * i;
        uint32_t mask = tap_bits(r->p, first);
        if (mask == 0)
            continue;
        LLVMValueRef x =
            gx_load(w->k, GX_SHARED, add(w->k, from, number(w->k, 2 * first)), word, 4);
        if (mask != UINT32_MAX)
            x = LLVMBuildAnd(w->b, x, gx_i32(w->k, mask), "");
        piece = LLVMBuildInsertElement(w->b, piece, x, number(w->k, i), "");
    }
    return piece;
}

/* Each position of a plane is the window's row of a result; those behind the last result's are what else has been read. */
static void make_patch(const Run *r)
{
    enum { AT_ONCE = 4 /* pieces that are loaded before the first is stored */ };
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    const WideRows *rows = &w->storage.of_rows;
    Walk walk;
    int64_t numbers = wide_tap_numbers(p), step = p->stride * numbers * 2,
            before = (p->before[X] + p->spare) * numbers;
    walk_begin(w, &walk, w->storage.pitch, rows->count);
    LLVMValueRef row = walk.down, plane = split(w->k, &row, p->stride),
                 position = add(w->k, times(w->k, row, w->storage.pitch), walk.across),
                 from = add(w->k, times(w->k, walk.down, rows->row_bytes),
                            times(w->k, walk.across, step));
    from = add(w->k, from, number(w->k, r->rows + 2 * (rows->lead - before)));
    LLVMValueRef first = times(w->k, plane, p->pieces), parts[AT_ONCE];
    for (int64_t i = 0; i < p->pieces; i += AT_ONCE) {
        int64_t left = p->pieces - i, count = left < AT_ONCE ? left : AT_ONCE;
        for (int64_t j = 0; j < count; j++) {
            int64_t channel = (i + j) / r->parts,
                    apart = channel * rows->count * rows->row_bytes;
            parts[j] =
                load_part(r, add(w->k, from, number(w->k, apart)), (i + j) % r->parts);
        }
        for (int64_t j = 0; j < count; j++)
            gx_store(w->k, GX_SHARED,
                     patch_offset(w, position, add(w->k, first, number(w->k, i + j))),
                     parts[j], PIECE_BYTES);
    }
    walk_end(w, &walk);
}

/* What is read beside an odd piece, and behind the last row of a plane by columns that no result has. */
static void make_zeros(const Run *r)
{
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    GxLoop loop;
    int64_t begin = p->stride * p->pieces * w->storage.chunk, behind = w->storage.slack;
    LLVMValueRef zero = LLVMConstNull(piece_type(w->k)), none = number(w->k, 0),
                 at = each_begin(w, &loop, w->storage.of_rows.zeros);
    gx_store(w->k, GX_SHARED, patch_offset(w, add(w->k, at, number(w->k, begin)), none),
             zero, PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
    LLVMValueRef chunk = each_begin(w, &loop, p->stride * p->pieces * behind),
                 position = split(w->k, &chunk, behind),
                 plane = LLVMBuildUDiv(w->b, chunk, number(w->k, p->pieces), ""), rows;
    /* rows stride * i + plane of those that there are */
    rows = LLVMBuildSub(w->b, number(w->k, w->storage.of_rows.count + p->stride - 1),
                        plane, "");
    rows = LLVMBuildUDiv(w->b, rows, number(w->k, p->stride), "");
    position = add(w->k, position, times(w->k, rows, w->storage.pitch));
    gx_store(w->k, GX_SHARED, patch_offset(w, position, chunk), zero, PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
}

/* The filter from term `term`, a multiple of 8, on. */
static GxMatrices filter_from(const Run *r, int64_t term)
{
    const Wide *w = r->w;
    int64_t line = w->storage.filter_line, row = line != 0 ? line : PIECE_BYTES;
    return wide_filter(w, number(w->k, r->filter + term * row), true);
}

/* -- words -------------------------------------------------------------------------------------- */

/* Which bits of a lane's word of part `part` of a run are taps'; NULL: all. */
static LLVMValueRef tap_mask(const Run *r, int64_t part)
{
    const Wide *w = r->w;
    LLVMValueRef word = LLVMBuildAnd(w->b, w->lane, number(w->k, PIECE_WORDS - 1), ""),
                 mask = number(w->k, 0);
    bool all = true;
    for (int64_t i = 0; i < PIECE_WORDS; i++) {
        uint32_t bits = tap_bits(r->p, part * WARPGROUP_PIECE + 2 * i);
        LLVMValueRef is_word = LLVMBuildICmp(w->b, LLVMIntEQ, word, number(w->k, i), "");
        mask = LLVMBuildSelect(w->b, is_word, gx_i32(w->k, bits), mask, "");
        all &= bits == UINT32_MAX;
    }
    return all ? NULL : mask;
}

/* Where the lane's word of the first piece of a column's window is: mma.sync has column lane / 4 of eight. */
static LLVMValueRef word_offset(const Run *r, uint32_t octet)
{
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    const WideRows *rows = &w->storage.of_rows;
    int64_t numbers = wide_tap_numbers(p), before = (p->before[X] + p->spare) * numbers;
    LLVMValueRef column = w->lane, word = split(w->k, &column, PIECE_WORDS), row, x;
    LLVMValueRef first = add(w->k, w->first_octet, number(w->k, octet));
    wide_mma_position(w, add(w->k, times(w->k, first, WARPGROUP_PIECE), column), &row,
                      &x);
    row = add(w->k, row, times(w->k, w->group[ROWS], w->storage.group_rows));
    LLVMValueRef at = add(w->k, times(w->k, row, p->stride * rows->row_bytes),
                          times(w->k, x, 2 * p->stride * numbers));
    at = add(w->k, at, times(w->k, word, PIECE_BYTES / PIECE_WORDS));
    return add(w->k, at, number(w->k, r->rows + 2 * (rows->lead - before)));
}

/* All rows of the window, word by word. */
static void multiply_words(const Run *r, LLVMValueRef *sums)
{
    const Wide *w = r->w;
    const WidePlan *p = r->p;
    const WideRows *rows = &w->storage.of_rows;
    Arena *arena = w->k->arena;
    uint32_t pieces = (uint32_t)(p->window[Y] * p->pieces);
    WideWords words = {.row = ARENA_ARRAY(arena, LLVMValueRef, w->octets),
                       .offset = ARENA_ARRAY(arena, int64_t, pieces),
                       .mask = ARENA_ARRAY(arena, LLVMValueRef, pieces)};
    for (uint32_t i = 0; i < w->octets; i++)
        words.row[i] = word_offset(r, i);
    for (uint32_t i = 0; i < pieces; i++) {
        int64_t y = i / p->pieces, piece = i % p->pieces,
                row = y + piece / r->parts * rows->count;
        words.offset[i] = row * rows->row_bytes + piece % r->parts * PIECE_BYTES;
        words.mask[i] =
            y == 0 ? tap_mask(r, piece % r->parts) : words.mask[i - p->pieces];
    }
    GxMatrices a = filter_from(r, 0);
    wide_mma_words(w, &a, &words, pieces, sums);
}

/* -- products ---------------------------------------------------------------------------------- */

/* Rows `stride` * `row` of the window and those behind it within one stride. An odd piece has zeros beside it. */
static void multiply_rows(Wide *w, const Run *r, int64_t row, LLVMValueRef *sums)
{
    const WidePlan *p = r->p;
    int64_t left = p->window[Y] - p->stride * row,
            chunks = (left < p->stride ? left : p->stride) * p->pieces;
    LLVMValueRef below = times(w->k, w->group[ROWS],
                               w->storage.group_rows * w->storage.pitch),
                 position = add(w->k, below, number(w->k, row * w->storage.pitch));
    int64_t term = p->stride * row * p->pieces * WARPGROUP_PIECE;
    GxMatrices a = filter_from(r, term),
               b = {.offset = patch_offset(w, position, number(w->k, 0)),
                    .lead = (uint32_t)(w->storage.chunk * PIECE_BYTES),
                    .stride = WARPGROUP_PIECE * PIECE_BYTES};
    if (chunks >= 2)
        wide_multiply_on(w, &a, &b, (uint32_t)(chunks / 2), 0, w->sum_count, sums);
    if (chunks % 2 == 0)
        return;
    int64_t zeros = p->stride * p->pieces * w->storage.chunk,
            last = (chunks - 1) * w->storage.chunk + row * w->storage.pitch;
    a = filter_from(r, term + (chunks - 1) * WARPGROUP_PIECE);
    b.offset = patch_offset(w, position, number(w->k, chunks - 1));
    b.lead = (uint32_t)((zeros - last) * PIECE_BYTES);
    wide_multiply_on(w, &a, &b, 1, 0, w->sum_count, sums);
}

/* Nothing is written meanwhile: products of some rows go on at once. */
static void multiply_window(Wide *w, const Run *r, LLVMValueRef *sums)
{
    enum { AT_ONCE = 4 };
    int64_t count = ceil_div(r->p->window[Y], r->p->stride);
    for (int64_t row = 0; row < count; row++) {
        multiply_rows(w, r, row, sums);
        if (wide_goes_on(w, w->sum_count) &&
            (row % AT_ONCE == AT_ONCE - 1 || row == count - 1))
            gx_wgmma_wait(w->k, 0, w->sum_count, sums);
    }
}

static Run run_of(const Wide *w)
{
    const WidePlan *p = w->p;
    Run r = {.w = w, .p = p, .parts = p->pieces / wide_runs(p)};
    r.filter = w->shared + (uint32_t)w->storage.patch_bytes;
    r.rows = r.filter + (uint32_t)w->storage.stage_bytes;
    if (p->by_term) { /* tiles read behind the patch: wide_terms_reach */
        r.rows = r.filter;
        r.filter += (uint32_t)w->storage.of_rows.bytes;
    }
    return r;
}

void wide_rows_ask(const Wide *w)
{
    Run r = run_of(w);
    ask_rows(&r);
}

void wide_rows_make(const Wide *w)
{
    Run r = run_of(w);
    make_patch(&r);
}

LLVMValueRef *wide_rows_run(Wide *w)
{
    const WidePlan *p = w->p;
    Run r = run_of(w);
    ask_rows(&r);
    ask_filter(&r);
    gx_copy_commit(w->k);
    if (p->by_term)
        wide_terms_zeros(w, r.filter);
    else if (!p->takes_words)
        make_zeros(&r);
    gx_copy_wait(w->k, 0);
    gx_barrier(w->k);
    LLVMValueRef *sums = ARENA_ARRAY(w->k->arena, LLVMValueRef, w->sum_count);
    for (uint32_t i = 0; i < w->sum_count; i++)
        sums[i] = LLVMConstNull(emit_type(w->k, DT_F32));
    if (p->takes_words) {
        multiply_words(&r, sums);
        return sums;
    }
    if (p->by_term)
        wide_terms_make(w, r.rows);
    else
        make_patch(&r);
    gx_proxy_fence(w->k);
    gx_barrier(w->k);
    GxIf one;
    if (p->in_tensor_memory)
        wide_tensor_issue_begin(w, &one);
    if (p->by_term)
        wide_terms_multiply(w, r.filter);
    else
        multiply_window(w, &r, sums);
    if (p->in_tensor_memory) {
        wide_tensor_issue_end(w, &one, number(w->k, 0));
        wide_tensor_finish(w, number(w->k, 0));
    }
    return sums;
}
