/* Barriers of an emulated block, and what is said when threads wait for each other for ever.
 *
 * A barrier opens when all threads of the block that have not ended wait at it. */
#include <inttypes.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

enum { LANES = 32 };

void sync_describe_waiting(const Engine *e, const Thread *t)
{
    finding_add(e->finding, "thread %" PRIu32 " waits at %s of %s (site %" PRIu32,
                t->index,
                t->state == THREAD_AT_BARRIER    ? "a barrier"
                : t->state == THREAD_AT_MBARRIER ? "an mbarrier"
                                                 : warp_operation_name(t->call.operation),
                engine_site(e, t->site), site_number(t->site));
    if (t->state == THREAD_IN_WARP)
        finding_add(e->finding, ", lanes 0x%08" PRIx32, t->call.mask);
    finding_add(e->finding, ")");
}

void sync_report_divergence(Engine *e, const Thread *a, const Thread *b, const char *what)
{
    finding_set(e->finding, FINDING_SYNC, "%s: kernel %s, block (%u,%u,%u): ", what,
                e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2]);
    sync_describe_waiting(e, a);
    finding_add(e->finding, ", ");
    sync_describe_waiting(e, b);
    e->aborted = true;
}

/* Two threads that wait at the same site, for the grouping of a report. */
static bool same_wait(const Thread *a, const Thread *b)
{
    return a->state == b->state && a->site == b->site &&
           (a->state != THREAD_IN_WARP ||
            (a->call.mask == b->call.mask && a->index / LANES == b->index / LANES));
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
            sync_describe_waiting(e, t);
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
            sync_report_divergence(e, first, t, "divergent barrier");
            return;
        }
    }
    if (!products_meet(e))
        return;
    e->at_barrier = 0;
    for (uint32_t i = 0; i < RACE_WARPS; i++)
        banks_meet(e, i);
    if (e->launch->check_races) {
        race_barrier(&e->race);
        tensor_meet(e, 0, e->thread_count);
    }
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
