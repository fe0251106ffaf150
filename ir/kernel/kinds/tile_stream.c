/* Products whose last tiles are shared by blocks that each have an equal run of their steps (stream-K), so that no
 * multiprocessor is idle while others make the tiles that a wave has no room for. */
#include "ir/base/divide.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/tile/mapping.h"

#define SUMS_ALIGN 128
#define MOST_PARTS 16      /* of a tile, tried one by one */
#define WORTH_SHARING 0.97 /* of the time without: what counts as less */

TileStream tile_stream(const KernelDesign *d, const TileMapping *m)
{
    const int64_t *of = d->config.stream_k;
    TileStream s = {.blocks = of[1]};
    if (s.blocks == 0)
        return s;
    uint64_t bits = dtype_info[m->dot->dtype].bits;
    s.words = UINT64_C(1) << m->sums.in[LINEAR_REGISTER];
    s.bytes = bits / 8;
    if (bits == 32 && s.words > 1) { /* two at a time */
        s.words /= 2;
        s.bytes *= 2;
    }
    s.steps = tile_count(&m->program->dims[m->term]);
    s.tiles = of[0];
    s.first = tile_blocks(m->program) - s.tiles;
    s.sums = s.words * s.bytes * tile_warps(m) * TARGET_WARP;
    s.cleared = STREAM_TICKET + STREAM_FLAG * (uint64_t)s.blocks;
    s.cleared = (s.cleared + SUMS_ALIGN - 1) / SUMS_ALIGN * SUMS_ALIGN;
    return s;
}

const char *stream_refused(const KernelDesign *d, const TileMapping *m)
{
    TileStream s = tile_stream(d, m);
    if (s.blocks == 0)
        return NULL;
    if (m->loop->most != NULL || d->plan.tile->contraction->ragged.mode != RAGGED_NONE)
        return "\"stream_k\" is for products without groups";
    if (s.first < 0)
        return refuse_text(d, "\"stream_k\" shares %lld tiles; there are %lld",
                           (long long)s.tiles, (long long)(s.first + s.tiles));
    if (s.blocks > s.tiles * s.steps)
        return refuse_text(d, "\"stream_k\" has %lld blocks for %lld steps",
                           (long long)s.blocks, (long long)(s.tiles * s.steps));
    return s.first + s.tiles <= INT32_MAX / s.steps
               ? NULL
               : refuse_text(d, "\"stream_k\": %lld tiles of %lld steps are too many",
                             (long long)(s.first + s.tiles), (long long)s.steps);
}

void geometry_stream(KernelDesign *d, const TileStream *s)
{
    geometry_shared(&d->geometry, STREAM_TICKET, STREAM_TICKET);
    d->geometry.cleared_bytes = s->cleared;
    d->geometry.scratch_bytes = s->cleared + (uint64_t)s->blocks * s->sums;
}

/* -- the choice ------------------------------------------------------------------------------------ */

typedef struct Choice {
    const TileMapping *m;
    const KernelWork *without;
    KernelDesign trial;
    double seconds;
    int64_t best[2];
} Choice;

static void try_stream(Choice *c, int64_t tiles, int64_t blocks)
{
    int64_t all = tile_blocks(c->m->program);
    if (tiles < 1 || tiles > all || blocks <= tiles / 2 ||
        blocks > config_most(KERNEL_KEY_STREAM_K))
        return;
    c->trial.config.stream_k[0] = tiles;
    c->trial.config.stream_k[1] = blocks;
    if (stream_refused(&c->trial, c->m) != NULL)
        return;
    KernelWork work = *c->without;
    work_stream(&c->trial, c->m, &work);
    double seconds = kernel_time(&work, c->trial.target->device).seconds;
    if (seconds < c->seconds) {
        c->seconds = seconds;
        c->best[0] = tiles;
        c->best[1] = blocks;
    }
}

/* By as many blocks as run at once, or by a whole number for each tile. */
static void try_blocks(Choice *c, int64_t tiles, int64_t multiprocessors, int64_t slots)
{
    for (int64_t parts = 2; parts <= MOST_PARTS; parts++)
        try_stream(c, tiles, parts * tiles);
    try_stream(c, tiles, multiprocessors);
    if (slots != multiprocessors)
        try_stream(c, tiles, slots);
}

bool stream_choose(const KernelDesign *d, const TileMapping *m, const KernelWork *without,
                   double *seconds, int64_t best[2])
{
    Choice c = {
        .m = m, .without = without, .trial = *d, .seconds = *seconds * WORTH_SHARING};
    int64_t all = tile_blocks(m->program), count = target_multiprocessors(d->target),
            slots = count * (int64_t)kernel_resident(without, d->target->device);
    if (tile_count(&m->program->dims[m->term]) == 1)
        return false;
    /* what is left of whole waves; that, and a wave */
    const int64_t waves[] = {count, slots};
    for (int i = 0; i < (slots != count) + 1; i++) {
        int64_t left = all % waves[i];
        if (left == 0)
            continue;
        try_blocks(&c, left, count, slots);
        if (left + waves[i] <= all)
            try_blocks(&c, left + waves[i], count, slots);
    }
    if (c.best[1] == 0)
        return false;
    *seconds = c.seconds;
    best[0] = c.best[0];
    best[1] = c.best[1];
    return true;
}
