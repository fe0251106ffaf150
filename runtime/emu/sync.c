/* Barriers and shuffles of an emulated block.
 *
 * A barrier opens when all threads of the block that have not ended wait at it. A shuffle
 * takes place when all lanes of its mask that have not ended wait in it; the last
 * lane to arrive computes the results of all, so that no lane sees a later value. */
#include <inttypes.h>

#include "runtime/emu/engine_parts.h"

enum { LANES = 32 };

/* Appends "thread 3 waits at a barrier of reduce.1 (site 4)". */
static void describe_waiting(const Engine *e, const Thread *t)
{
    finding_add(e->finding, "thread %" PRIu32 " waits at %s of %s (site %" PRIu32,
                t->index, t->state == THREAD_AT_BARRIER ? "a barrier" : "a shuffle",
                engine_site(e, t->site), site_number(t->site));
    if (t->state == THREAD_IN_WARP)
        finding_add(e->finding, ", lanes 0x%08" PRIx32, t->mask);
    finding_add(e->finding, ")");
}

static void report_divergence(Engine *e, const Thread *a, const Thread *b,
                              const char *what)
{
    finding_set(e->finding, FINDING_SYNC, "%s: kernel %s, block (%u,%u,%u): ", what,
                e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2]);
    describe_waiting(e, a);
    finding_add(e->finding, ", ");
    describe_waiting(e, b);
    e->aborted = true;
}

/* Two threads that wait in the same place, for the grouping of a report. */
static bool same_wait(const Thread *a, const Thread *b)
{
    return a->state == b->state && a->site == b->site &&
           (a->state != THREAD_IN_WARP ||
            (a->mask == b->mask && a->index / LANES == b->index / LANES));
}

void sync_report_deadlock(Engine *e)
{
    finding_set(e->finding, FINDING_DEADLOCK,
                "deadlock: kernel %s, block (%u,%u,%u): no thread can go on",
                e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2]);
    uint32_t ended = 0;
    for (uint32_t i = 0; i < e->thread_count; i++)
        ended += e->threads[i].state == THREAD_ENDED;
    for (uint32_t i = 0; i < e->thread_count;) {
        const Thread *t = &e->threads[i];
        uint32_t last = i;
        while (last + 1 < e->thread_count && same_wait(t, &e->threads[last + 1]))
            last++;
        if (t->state != THREAD_ENDED) {
            finding_add(e->finding, "; ");
            describe_waiting(e, t);
            if (last != i)
                finding_add(e->finding, ", so do the threads up to %" PRIu32, last);
        }
        i = last + 1;
    }
    if (ended != 0)
        finding_add(e->finding, "; %" PRIu32 " threads have ended", ended);
    e->aborted = true;
}

/* Opens the barrier if everybody is there. `self` runs and need not be made ready; NULL
 * when a thread that ended opens it. */
static void barrier_try(Engine *e, const Thread *self)
{
    if (e->at_barrier == 0 || e->at_barrier != e->live)
        return;
    const Thread *first = NULL;
    for (uint32_t i = 0; i < e->thread_count; i++) {
        Thread *t = &e->threads[i];
        if (t->state != THREAD_AT_BARRIER)
            continue;
        if (first == NULL)
            first = t;
        if (t->site != first->site) {
            report_divergence(e, first, t, "divergent barrier");
            return;
        }
    }
    e->at_barrier = 0;
    if (e->launch->check_races)
        race_barrier(&e->race);
    for (uint32_t i = 0; i < e->thread_count; i++) {
        Thread *t = &e->threads[i];
        if (t->state != THREAD_AT_BARRIER)
            continue;
        if (t == self)
            t->state = THREAD_RUNS;
        else
            engine_ready(e, t);
    }
}

void gxemu_barrier(gxemu_block *b, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    t->state = THREAD_AT_BARRIER;
    t->site = site;
    e->at_barrier++;
    barrier_try(e, t);
    if (e->aborted)
        engine_abort(e);
    if (t->state != THREAD_RUNS)
        engine_wait(e);
}

/* Lanes of a warp that exist and have not ended. */
static uint32_t warp_live(const Engine *e, uint32_t warp)
{
    uint32_t live = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t i = warp * LANES + lane;
        if (i < e->thread_count &&
            (i >= e->next_thread || e->threads[i].state != THREAD_ENDED))
            live |= UINT32_C(1) << lane;
    }
    return live;
}

/* The lane that shfl.sync reads from (PTX ISA, shfl.sync). */
static uint32_t shuffle_source(const Thread *t)
{
    uint32_t lane = t->view.lane;
    uint32_t b = t->operand & 31, c = t->clamp & 31, segment = t->clamp >> 8 & 31;
    uint32_t last = (lane & segment) | (c & ~segment & 31);
    bool is_up = t->mode == GXEMU_SHFL_UP;
    uint32_t from = is_up ? lane - b : lane ^ b;
    bool inside = is_up ? (int32_t)from >= (int32_t)last : from <= last;
    return inside ? from : lane;
}

/* Computes the results of all `lanes`, which agree on what they do. */
static void warp_compute(Engine *e, uint32_t warp, uint32_t lanes)
{
    Thread *w = &e->threads[warp * LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) == 0)
            continue;
        Thread *t = &w[i];
        uint32_t from = shuffle_source(t);
        if ((lanes >> from & 1) == 0) {
            finding_set(e->finding, FINDING_SYNC,
                        "shuffle from a lane that takes no part: ");
            engine_describe(e, t, t->site);
            finding_add(e->finding, " reads lane %" PRIu32 ", the lanes are 0x%08" PRIx32,
                        from, lanes);
            e->aborted = true;
            return;
        }
        t->result = w[from].value;
    }
}

/* Carries out the shuffle that `t` waits in if all its lanes are there. */
static void warp_try(Engine *e, const Thread *t, const Thread *self)
{
    uint32_t warp = t->index / LANES;
    uint32_t lanes = t->mask & warp_live(e, warp);
    if ((e->warp_waiting[warp] & lanes) != lanes)
        return;
    Thread *w = &e->threads[warp * LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) == 0)
            continue;
        if (w[i].mode != t->mode || w[i].mask != t->mask || w[i].site != t->site) {
            report_divergence(e, t, &w[i], "divergent shuffle");
            return;
        }
    }
    warp_compute(e, warp, lanes);
    if (e->aborted)
        return;
    e->warp_waiting[warp] &= ~lanes;
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) == 0)
            continue;
        if (&w[i] == self)
            w[i].state = THREAD_RUNS;
        else
            engine_ready(e, &w[i]);
    }
}

/* The fields of the shuffle are set in *t. */
static uint32_t warp_arrive(Engine *e, Thread *t)
{
    uint32_t bit = UINT32_C(1) << t->view.lane;
    if ((t->mask & bit) == 0) {
        finding_set(e->finding, FINDING_SYNC, "lane not in its own mask: ");
        engine_describe(e, t, t->site);
        finding_add(e->finding, " is lane %" PRIu32 ", the mask is 0x%08" PRIx32,
                    t->view.lane, t->mask);
        engine_abort(e);
    }
    t->state = THREAD_IN_WARP;
    e->warp_waiting[t->index / LANES] |= bit;
    warp_try(e, t, t);
    if (e->aborted)
        engine_abort(e);
    if (t->state != THREAD_RUNS)
        engine_wait(e);
    return t->result;
}

uint32_t gxemu_shfl(gxemu_block *b, uint32_t mode, uint32_t mask, uint32_t value,
                    uint32_t operand, uint32_t clamp, uint32_t site)
{
    Thread *t = thread_of(b);
    t->mode = mode;
    t->mask = mask;
    t->value = value;
    t->operand = operand;
    t->clamp = clamp;
    t->site = site;
    return warp_arrive(engine_of(b), t);
}

void sync_thread_ended(Engine *e, Thread *ended)
{
    uint32_t warp = ended->index / LANES;
    uint32_t waiting = e->warp_waiting[warp];
    if (waiting != 0) {
        for (uint32_t i = 0; i < LANES && !e->aborted; i++) {
            Thread *t = &e->threads[warp * LANES + i];
            if ((e->warp_waiting[warp] >> i & 1) != 0 && t->state == THREAD_IN_WARP)
                warp_try(e, t, NULL);
        }
    }
    if (!e->aborted)
        barrier_try(e, NULL);
    if (e->aborted)
        engine_abort(e);
}
