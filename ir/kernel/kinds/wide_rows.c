/* wide_convolution.c for images of few channels, as the first of a network are. Tensor cores multiply 16 terms at once; three
 * channels of a tap would leave most of them zeros. But the taps of a window's row lie side by side: features last, 7 of 3
 * channels are 21 numbers of one run; features first, 7 numbers of each of three. A block copies the rows of its windows as
 * they are and makes of them what a patch has: for each result and row of its window, the run in pieces of 16 bytes. Runs
 * of neighbouring windows share numbers, but begin at no multiple of 16 bytes, so that each has its own. mma.sync takes
 * words from registers, into which they come from the rows themselves. */
#include "ir/base/divide.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"

enum { Y, X, FEATURES = 0, ROWS = 1, MOST_PIECES = 16 };

/* Numbers from one tap of a row to the next. */
static int64_t tap_numbers(const WidePlan *p)
{
    return p->is_last ? p->channels : 1;
}

const char *wide_rows_illegal(const WidePlan *p)
{
    int64_t numbers = tap_numbers(p);
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
    s.columns = ceil_div(s.pitch, WARPGROUP_PIECE) * WARPGROUP_PIECE;
    wide_rows_storage(&trial, &least, &s);
    return s.patch_bytes + s.stage_bytes + s.of_rows.bytes <= WIDE_LEAST_SHARED
               ? NULL
               : "the rows of a window have no room in shared memory";
}

void wide_rows_plan(WidePlan *p)
{
    int64_t numbers = tap_numbers(p), runs = p->is_last ? 1 : p->channels;
    p->spare = p->before[X] * numbers % 2;
    p->pieces = ceil_div((p->spare + p->window[X]) * numbers, WARPGROUP_PIECE) * runs;
    if (p->stride * p->pieces % 2 != 0) /* whole steps, but in the window's last rows */
        p->pieces++;
}

int64_t wide_rows_depth(const WidePlan *p)
{
    return p->stride * p->pieces * WARPGROUP_PIECE;
}

void wide_rows_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t piece = 2 * WARPGROUP_PIECE, numbers = tap_numbers(p), s = p->stride,
            before = (p->before[X] + p->spare) * numbers,
            run = p->pieces / (p->is_last ? 1 : p->channels) * WARPGROUP_PIECE;
    WideRows *r = &out->of_rows;
    r->count = (c->tile[ROWS] - 1) * s + p->window[Y];
    r->lead = ceil_div(before, WARPGROUP_PIECE) * WARPGROUP_PIECE;
    int64_t end = r->lead - before + s * (out->pitch - 1) * numbers + run;
    r->row_bytes = ceil_div(end, WARPGROUP_PIECE) * piece;
    r->bytes = (uint64_t)(r->count * r->row_bytes * (p->is_last ? 1 : p->channels));
    if (p->window[Y] % s * p->pieces % 2 != 0)
        r->zeros = (c->warps[ROWS] - 1) * out->group_rows * out->pitch + out->columns;
    r->terms = ceil_div(p->window[Y] * p->pieces, 2) * TAPS_STEP;
    out->rows = ceil_div(r->count, s);
    out->plane = out->rows * out->pitch + out->slack;
    out->chunk = out->plane;
    out->patch_bytes =
        p->takes_words ? 0 : (uint64_t)((s * p->pieces * out->chunk + r->zeros) * piece);
    out->filter_lead = (uint32_t)(WARPGROUP_PIECE * piece);
    /* rows of 16 bytes, one more than whole banks */
    out->filter_stride = (uint32_t)((r->terms + 1) * piece);
    out->stage_bytes =
        (uint64_t)(c->tile[FEATURES] / WARPGROUP_PIECE) * out->filter_stride;
}
