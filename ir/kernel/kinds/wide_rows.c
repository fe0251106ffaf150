/* wide_convolution.c for images of few channels, as the first of a network are. Tensor cores multiply 16 terms at once; three
 * channels of a tap would leave most of them zeros. But the taps of a window's row lie side by side: features last, 7 of 3
 * channels are 21 numbers of one run; features first, 7 numbers of each of three. A block copies the rows of its windows as
 * they are and makes of them what a patch has: for each result and row of its window, the run in pieces of 16 bytes. Runs
 * of neighbouring windows share numbers, but begin at no multiple of 16 bytes, so that each has its own. mma.sync takes
 * words from registers, into which they come from the rows themselves; by tcgen05 the patch may be one by terms. */
#include "ir/base/divide.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"

enum {
    Y,
    X,
    FEATURES = 0,
    ROWS = 1,
    MOST_PIECES = 16,
    MOST_PITCH = 256, /* columns of a product */
    CONTROL = 64      /* bytes beside patch and filter, at most */
};

const char *wide_rows_illegal(const WidePlan *p)
{
    int64_t numbers = wide_tap_numbers(p);
    if (p->channels == 0 || p->channels >= TAPS_STEP)
        return "there are not whole tiles of channels and features";
    if (p->size[X] * numbers % WARPGROUP_PIECE != 0 || p->stride * numbers % 2 != 0)
        return "rows of the image are not whole vectors, or windows begin within words";
    if (p->window[X] > MOST_PIECES * WARPGROUP_PIECE)
        return "windows are too wide";
    WidePlan trial = *p;
    wide_rows_plan(&trial);
    if (trial.pieces > MOST_PIECES)
        return "windows are too wide";
    KernelConfig least = {.tile = {WARPGROUP_ROWS, 1}, .warps = {WARPGROUP_WARPS, 1}};
    WideStorage s = {
        .pitch = p->result_size[X] + 1, .group_rows = 1, .slack = WARPGROUP_PIECE - 1};
    s.columns = round_up(s.pitch, WARPGROUP_PIECE);
    wide_rows_storage(&trial, &least, &s);
    return s.patch_bytes + s.stage_bytes + s.of_rows.bytes <= WIDE_LEAST_SHARED
               ? NULL
               : "the rows of a window have no room in shared memory";
}

void wide_rows_plan(WidePlan *p)
{
    int64_t numbers = wide_tap_numbers(p), runs = wide_runs(p);
    p->spare = p->before[X] * numbers % 2;
    p->pieces = ceil_div((p->spare + p->window[X]) * numbers, WARPGROUP_PIECE) * runs;
    if (p->stride * p->pieces % 2 != 0) /* whole steps, but in the window's last rows */
        p->pieces++;
}

int64_t wide_rows_depth(const WidePlan *p)
{
    return p->stride * p->pieces * WARPGROUP_PIECE;
}

int64_t wide_row_terms(const WidePlan *p)
{
    return p->by_term ? p->window[X] * p->channels : p->pieces * WARPGROUP_PIECE;
}

/* -- terms ---------------------------------------------------------------------------------------
 *
 * In tensor memory each row of results has tiles of its own, so that a matrix of the patch may have a term in each of its
 * eight rows, of eight positions that follow each other. The terms of a window are a run of such rows, from the first one
 * of its first row of the image on: 147 of 7 x 7 x 3, where pieces of a position are 168. The last ones, if they are no
 * eight, stand once more with zeros behind them, so that no number outside a window meets a zero. A thread reads what
 * eight positions have in a row of the image at once, a third of what they read one by one. */

int64_t wide_window_terms(const WidePlan *p)
{
    return p->window[Y] * wide_row_terms(p);
}

int64_t wide_terms_pitch(const WidePlan *p)
{
    return round_up(p->result_size[X], TENSOR_COLUMN_STEP);
}

int64_t wide_terms_parts(const WidePlan *p)
{
    return ceil_div(wide_terms_pitch(p), TENSOR_ROWS);
}

/* Numbers of a row that eight positions read from the first one's first tap on, and those before it in 16 bytes. */
static int64_t numbers_read(const WidePlan *p)
{
    int64_t numbers = wide_tap_numbers(p), before = p->before[X] * numbers,
            skipped = round_up(before, WARPGROUP_PIECE) - before;
    return skipped + ((WARPGROUP_PIECE - 1) * p->stride + p->window[X]) * numbers;
}

int64_t wide_terms_read(const WidePlan *p)
{
    return ceil_div(numbers_read(p), WARPGROUP_PIECE);
}

/* They have rows of the image that follow each other. */
int64_t wide_terms_meet(const WidePlan *p)
{
    int64_t meet = WARPGROUP_PIECE;
    while (wide_row_terms(p) % meet != 0)
        meet /= 2;
    return meet;
}

/* Eight threads that follow each other read 16 bytes of rows that do, and then of the first rows of the next positions:
 * each has banks of its own if rows are an odd number of such pieces, at least `pieces`, and the step to the next
 * positions, too, is as many rows of it as threads lie between. Between, some may have none. */
static int64_t banked_rows(const WidePlan *p, int64_t pieces, WideRows *r)
{
    int64_t step = p->stride * wide_tap_numbers(p) % WARPGROUP_PIECE;
    for (r->turn = r->count;; r->turn++) {
        for (int64_t i = pieces; i < pieces + WARPGROUP_PIECE; i++) {
            if (i % 2 != 0 && r->turn * i % WARPGROUP_PIECE == step)
                return i;
        }
    }
}

static void terms_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t all = wide_window_terms(p), rest = all % TAPS_STEP;
    WideRows *r = &out->of_rows;
    r->terms = round_up(all, TAPS_STEP);
    r->tails = r->count * wide_row_terms(p);
    r->chunk = r->tails;
    if (all % WARPGROUP_PIECE != 0)
        r->chunk += c->tile[ROWS] * WIDE_TAIL_ROWS;
    r->beside = -1;
    if (rest != 0 && rest <= WARPGROUP_PIECE) {
        r->beside = r->chunk;
        r->chunk += WARPGROUP_PIECE;
    }
    /* the next positions follow the last row as the rows follow each other */
    r->chunk = r->tails + round_up(r->chunk - r->tails, WARPGROUP_PIECE);
    out->patch_bytes =
        (uint64_t)(out->pitch / WARPGROUP_PIECE * r->chunk * 2 * WARPGROUP_PIECE);
}

bool wide_terms_reach(const WidePlan *p, const WideStorage *s)
{
    int64_t octets = (wide_terms_parts(p) * TENSOR_ROWS - s->pitch) / WARPGROUP_PIECE,
            bytes = octets * s->of_rows.chunk * 2 * WARPGROUP_PIECE;
    return !p->positions_are_rows || (uint64_t)bytes <= s->of_rows.bytes + s->stage_bytes;
}

void wide_terms_plan(WidePlan *p, uint64_t most_shared)
{
    enum { MOST_NUMBERS = 128, MOST_MEET = 2 };
    WidePlan trial = *p;
    trial.by_term = true;
    trial.spare = 0;
    KernelConfig least = {.tile = {p->positions_are_rows ? p->features : TENSOR_ROWS, 1},
                          .warps = {WARPGROUP_WARPS, 1}};
    WideStorage s = {.pitch = wide_terms_pitch(&trial), .group_rows = 1};
    /* the last terms are of one row; what a thread reads has room in its registers */
    if (numbers_read(&trial) > MOST_NUMBERS || wide_terms_meet(&trial) > MOST_MEET ||
        wide_window_terms(&trial) % WARPGROUP_PIECE > wide_row_terms(&trial))
        return;
    /* with more than a quarter of the rows for nothing, tiles of several rows of results take less */
    if (p->positions_are_rows && 4 * s.pitch < 3 * wide_terms_parts(p) * TENSOR_ROWS)
        return;
    wide_rows_storage(&trial, &least, &s);
    if (s.pitch <= MOST_PITCH && wide_terms_reach(&trial, &s) &&
        s.patch_bytes + s.stage_bytes + s.of_rows.bytes <= most_shared - CONTROL)
        *p = trial;
}

/* By pieces of a position. */
static void patch_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t piece = 2 * WARPGROUP_PIECE, s = p->stride;
    WideRows *r = &out->of_rows;
    if (p->window[Y] % s * p->pieces % 2 != 0)
        r->zeros = (c->warps[ROWS] - 1) * out->group_rows * out->pitch + out->columns;
    r->terms = ceil_div(p->window[Y] * p->pieces, 2) * TAPS_STEP;
    out->rows = ceil_div(r->count, s);
    out->plane = out->rows * out->pitch + out->slack;
    out->chunk = out->plane;
    out->patch_bytes =
        p->takes_words ? 0 : (uint64_t)((s * p->pieces * out->chunk + r->zeros) * piece);
}

/* A copy of a row takes a request for each pair of 128 bytes of the image and of shared memory: the fewest if both begin
 * together. The first row is `before` rows above one that is taken to begin a line. */
enum { LINE = 128 };

static int64_t image_row_bytes(const WidePlan *p)
{
    return p->size[X] * wide_tap_numbers(p) * 2;
}

static int64_t aligned_lead(const WidePlan *p, int64_t lead)
{
    int64_t first = (LINE - p->before[Y] * image_row_bytes(p) % LINE) % LINE;
    while (2 * lead % LINE != first)
        lead += WARPGROUP_PIECE;
    return lead;
}

static int64_t aligned_row_bytes(const WidePlan *p, int64_t bytes)
{
    return bytes + (LINE + image_row_bytes(p) % LINE - bytes % LINE) % LINE;
}

void wide_rows_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t piece = 2 * WARPGROUP_PIECE, numbers = wide_tap_numbers(p), s = p->stride,
            before = (p->before[X] + p->spare) * numbers, runs = wide_runs(p),
            run =
                p->by_term ? p->window[X] * numbers : p->pieces / runs * WARPGROUP_PIECE;
    WideRows *r = &out->of_rows;
    r->count = (c->tile[ROWS] - 1) * s + p->window[Y];
    r->lead = round_up(before, WARPGROUP_PIECE);
    if (p->has_lines)
        r->lead = aligned_lead(p, r->lead);
    int64_t end = r->lead - before + s * (out->pitch - 1) * numbers + run;
    int64_t pieces = ceil_div(end, WARPGROUP_PIECE);
    if (p->by_term)
        pieces = banked_rows(p, pieces, r);
    r->row_bytes = pieces * piece;
    if (p->has_lines)
        r->row_bytes = aligned_row_bytes(p, r->row_bytes);
    r->bytes = (uint64_t)(r->count * r->row_bytes * runs);
    if (p->by_term)
        terms_storage(p, c, out);
    else
        patch_storage(p, c, out);
    out->filter_lead = (uint32_t)(WARPGROUP_PIECE * piece);
    /* rows of 16 bytes, one more than whole banks */
    out->filter_stride = (uint32_t)((r->terms + 1) * piece);
    out->stage_bytes =
        (uint64_t)(c->tile[FEATURES] / WARPGROUP_PIECE) * out->filter_stride;
    if (p->has_lines)
        wide_line_filter(r->terms, c->tile[FEATURES] / WARPGROUP_PIECE, out);
}
