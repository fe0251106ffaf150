/* What lanes of an emulated warp do together: shuffles here, tensor cores and matrices in mma.c and
 * matrix.c.
 *
 * It takes place when all lanes of its mask that have not ended wait in it; the last lane to
 * arrive computes the results of all, so that no lane sees a later value. */
#include <inttypes.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

enum { LANES = 32 };

/* The lane that shfl.sync reads from (PTX ISA, shfl.sync). */
static uint32_t shuffle_source(const Thread *t)
{
    const WarpCall *s = &t->call;
    uint32_t lane = t->view.lane;
    uint32_t b = s->operand & 31, c = s->clamp & 31, segment = s->clamp >> 8 & 31;
    uint32_t last = (lane & segment) | (c & ~segment & 31);
    bool is_up = s->number == GXEMU_SHFL_UP;
    uint32_t from = is_up                          ? lane - b
                    : s->number == GXEMU_SHFL_BFLY ? lane ^ b
                                                   : (lane & segment) | (b & ~segment);
    bool inside = is_up ? (int32_t)from >= (int32_t)last : from <= last;
    return inside ? from : lane;
}

static void warp_shuffle(Engine *e, Thread *warp, uint32_t lanes)
{
    uint32_t results[LANES], votes = 0;
    for (uint32_t i = 0; i < LANES; i++)
        votes |= (uint32_t)((lanes >> i & 1) != 0 && warp[i].call.value != 0) << i;
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) == 0)
            continue;
        if (warp[i].call.number == GXEMU_BALLOT) {
            results[i] = votes;
            continue;
        }
        uint32_t from = shuffle_source(&warp[i]);
        if ((lanes >> from & 1) == 0) {
            finding_set(e->finding, FINDING_SYNC,
                        "shuffle from a lane that takes no part: ");
            engine_describe(e, &warp[i], warp[i].site);
            finding_add(e->finding, " reads lane %" PRIu32 ", the lanes are 0x%08" PRIx32,
                        from, lanes);
            e->aborted = true;
            return;
        }
        results[i] = warp[from].call.value;
    }
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) != 0)
            warp[i].call.value = results[i];
    }
}

static const struct {
    const char *name;
    void (*compute)(Engine *e, Thread *warp); /* of whole warps */
} operations[] = {
    [WARP_SHUFFLE] = {"a shuffle", NULL},
    [WARP_BARRIER] = {"a barrier of a warp", NULL},
    [WARP_MMA] = {"an mma", warp_mma},
    [WARP_LDMATRIX] = {"an ldmatrix", warp_ldmatrix},
    [WARP_STMATRIX] = {"an stmatrix", warp_stmatrix},
    [WARP_WGMMA] = {"a wgmma", warp_wgmma},
    [WARP_WGMMA_WAIT] = {"a wait for wgmma", warp_wgmma_wait},
    [WARP_TENSOR_ALLOC] = {"an allocation of tensor memory", warp_tensor_alloc},
    [WARP_TENSOR_FREE] = {"a release of tensor memory", warp_tensor_free},
    [WARP_TENSOR_LOAD] = {"a load of tensor memory", warp_tensor_load},
};

const char *warp_operation_name(WarpOperation operation)
{
    return operations[operation].name;
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

static void warp_compute(Engine *e, Thread *warp, const Thread *t, uint32_t lanes)
{
    WarpOperation operation = t->call.operation;
    uint32_t number = t->index / LANES;
    if (operation == WARP_BARRIER) {
        if (e->launch->check_races && lanes == warp_live(e, number)) {
            race_warp_barrier(&e->race, number);
            tensor_meet(e, number * LANES, LANES);
        }
    } else if (operation == WARP_SHUFFLE) {
        warp_shuffle(e, warp, lanes);
    } else if (lanes == UINT32_MAX) {
        operations[operation].compute(e, warp);
    } else {
        finding_set(e->finding, FINDING_SYNC,
                    "%s of a part of a warp: ", operations[operation].name);
        engine_describe(e, t, t->site);
        finding_add(e->finding, ", the lanes are 0x%08" PRIx32, lanes);
        e->aborted = true;
    }
}

void warp_try(Engine *e, const Thread *t, const Thread *self)
{
    uint32_t warp = t->index / LANES;
    uint32_t lanes = t->call.mask & warp_live(e, warp);
    if ((e->warp_waiting[warp] & lanes) != lanes)
        return;
    Thread *w = &e->threads[warp * LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        if ((lanes >> i & 1) == 0)
            continue;
        const WarpCall *c = &w[i].call;
        if (c->operation != t->call.operation || c->number != t->call.number ||
            c->mask != t->call.mask || w[i].site != t->site) {
            sync_report_divergence(e, t, &w[i], "divergent warp");
            return;
        }
    }
    if (lanes == UINT32_MAX)
        banks_meet(e, warp);
    warp_compute(e, w, t, lanes);
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

/* Waits until all lanes are there and it is done. */
static void warp_arrive(gxemu_block *b, uint32_t site, WarpCall call)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    uint32_t bit = UINT32_C(1) << t->view.lane;
    t->site = site;
    t->call = call;
    if ((call.mask & bit) == 0) {
        finding_set(e->finding, FINDING_SYNC, "lane not in its own mask: ");
        engine_describe(e, t, t->site);
        finding_add(e->finding, " is lane %" PRIu32 ", the mask is 0x%08" PRIx32,
                    t->view.lane, call.mask);
        engine_abort(e);
    }
    t->state = THREAD_IN_WARP;
    e->warp_waiting[t->index / LANES] |= bit;
    warp_try(e, t, t);
    if (e->aborted)
        engine_abort(e);
    if (t->state != THREAD_RUNS)
        engine_wait(e);
}

uint32_t gxemu_shfl(gxemu_block *b, uint32_t mode, uint32_t mask, uint32_t value,
                    uint32_t operand, uint32_t clamp, uint32_t site)
{
    warp_arrive(b, site,
                (WarpCall){.operation = WARP_SHUFFLE,
                           .mask = mask,
                           .number = mode,
                           .value = value,
                           .operand = operand,
                           .clamp = clamp});
    return thread_of(b)->call.value;
}

void gxemu_syncwarp(gxemu_block *b, uint32_t mask, uint32_t site)
{
    warp_arrive(b, site, (WarpCall){.operation = WARP_BARRIER, .mask = mask});
}

/* What all lanes do together with registers of theirs. */
static void bring_registers(gxemu_block *b, WarpOperation operation, uint32_t number,
                            uint64_t offset, void *registers, uint32_t site)
{
    warp_arrive(b, site,
                (WarpCall){.operation = operation,
                           .mask = UINT32_MAX,
                           .number = number,
                           .offset = offset,
                           .registers = registers});
}

void gxemu_mma(gxemu_block *b, uint32_t number, void *registers, uint32_t site)
{
    bring_registers(b, WARP_MMA, number, 0, registers, site);
}

void gxemu_wgmma(gxemu_block *b, uint32_t form, void *registers, uint32_t site)
{
    bring_registers(b, WARP_WGMMA, form, 0, registers, site);
}

void gxemu_wgmma_wait(gxemu_block *b, uint32_t left, void *sums, uint32_t site)
{
    bring_registers(b, WARP_WGMMA_WAIT, left, 0, sums, site);
}

void gxemu_tensor_alloc(gxemu_block *b, uint64_t offset, uint32_t columns, uint32_t site)
{
    bring_registers(b, WARP_TENSOR_ALLOC, columns, offset, NULL, site);
}

void gxemu_tensor_free(gxemu_block *b, uint32_t address, uint32_t columns, uint32_t site)
{
    bring_registers(b, WARP_TENSOR_FREE, columns, address, NULL, site);
}

void gxemu_tensor_load(gxemu_block *b, uint32_t columns, uint32_t address,
                       void *registers, uint32_t site)
{
    bring_registers(b, WARP_TENSOR_LOAD, columns, address, registers, site);
}

void gxemu_ldmatrix(gxemu_block *b, uint32_t form, uint64_t offset, void *registers,
                    uint32_t site)
{
    bring_registers(b, WARP_LDMATRIX, form, offset, registers, site);
}

void gxemu_stmatrix(gxemu_block *b, uint32_t form, uint64_t offset, void *registers,
                    uint32_t site)
{
    bring_registers(b, WARP_STMATRIX, form, offset, registers, site);
}
