/* Cumulative windows in one pass. A block has a tile of a row in registers; of what came before in the row it
 * asks the blocks that have it (decoupled look-back: Merrill and Garland, "Single-pass Parallel Prefix Scan with
 * Decoupled Look-back", 2016). What it finds is always put together in the same way, as a tree of tiles, so
 * that rounding does not depend on which block was faster; nobody waits for more than one block of each level. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define SCAN_THREADS 256
#define SCAN_MOST_THREADS 512 /* where a row becomes one tile by it */
#define SCAN_VALUES 16        /* that a thread has in registers */
#define SCAN_LARGE_THREADS 512
#define SCAN_LARGE_WORDS 32

const char *illegal_lookback_scan(FusionFacts *f, KernelKind kind)
{
    return illegal_window_scan(f, kind);
}

bool suits_lookback_scan(FusionFacts *f, KernelKind kind)
{
    KernelDesign d = {.fusion = f->fusion, .arena = f->arena};
    (void)kind;
    plan_scan(&d, f);
    return !scan_walks_rows(d.plan.scan);
}

void plan_lookback_scan(KernelDesign *d, const FusionFacts *f)
{
    plan_scan(d, f);
}

int64_t lookback_tile(const KernelConfig *c)
{
    return c->block * c->items * c->accesses;
}

/* Enough elements that each multiprocessor has several tiles of the largest size: while tiles wait for the ones before,
 * what counts is how much of memory they hold in registers. */
static bool is_large(const KernelDesign *d)
{
    const ScanPlan *p = d->plan.scan;
    int64_t tile = SCAN_LARGE_THREADS * SCAN_LARGE_WORDS;
    return p->size > 4 * tile &&
           p->size / tile * p->rows > 2 * (int64_t)target_multiprocessors(d->target);
}

/* Elements of each array that a thread has. */
static int64_t most_elements(const KernelDesign *d)
{
    const ScanPlan *p = d->plan.scan;
    int64_t words = 0, most = SCAN_VALUES / p->count;
    for (uint32_t i = 0; i < p->count; i++)
        words += (shared_bytes(p->inst->operands[i]->shape->dtype) + 3) / 4;
    bool fits = is_large(d) && SCAN_LARGE_WORDS / words > most;
    return fits ? SCAN_LARGE_WORDS / words : most;
}

void configure_lookback_scan(const KernelDesign *d, KernelConfig *c)
{
    const ScanPlan *p = d->plan.scan;
    if (config_lacks(c, KERNEL_KEY_ITEMS))
        c->items = scan_items(d);
    if (config_lacks(c, KERNEL_KEY_ACCESSES)) {
        c->accesses = 1;
        while (2 * c->accesses * c->items <= most_elements(d) &&
               TARGET_WARP * c->accesses * c->items < p->size)
            c->accesses *= 2;
    }
    if (!config_lacks(c, KERNEL_KEY_BLOCK))
        return;
    c->block = TARGET_WARP;
    while (c->block < SCAN_MOST_THREADS && lookback_tile(c) < p->size)
        c->block *= 2;
    if (lookback_tile(c) < p->size)
        c->block = is_large(d) ? SCAN_LARGE_THREADS : SCAN_THREADS;
}

const char *refuse_lookback_scan(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const ScanPlan *p = d->plan.scan;
    const char *wrong = block_refused(d);
    if (wrong != NULL)
        return wrong;
    if (p->size % c->items != 0 || (c->items & (c->items - 1)) != 0)
        return refuse_text(
            d, "\"items\" %lld must be a power of two that divides the row of %lld",
            (long long)c->items, (long long)p->size);
    if (p->count * c->items * c->accesses > KERNEL_MOST_VALUES)
        return refuse_text(d,
                           "\"items\" %lld times \"accesses\" %lld of %u arrays are "
                           "more than %d values",
                           (long long)c->items, (long long)c->accesses, p->count,
                           KERNEL_MOST_VALUES);
    return NULL;
}

void lookback_tree(const KernelDesign *d, LookbackTree *out)
{
    const ScanPlan *p = d->plan.scan;
    const Computation *comp = inst_called(p->inst, 0);
    int64_t tile = lookback_tile(&d->config);
    *out = (LookbackTree){.tiles = p->size / tile + (p->size % tile != 0)};
    for (uint32_t i = 0; i < p->count; i++) {
        unsigned bytes = shared_bytes(
            computation_accumulator(comp, i, computation_is_simple(comp, p->count)));
        out->words += (bytes + 3) / 4;
    }
    if (out->tiles < 2)
        return;
    out->bytes = LOOKBACK_FIRST;
    for (int64_t n = out->tiles; n > 0; n >>= LOOKBACK_LOG2) {
        out->nodes[out->levels] = n;
        out->offset[out->levels++] = out->bytes;
        out->bytes += (uint64_t)n * (uint64_t)p->rows * out->words * 8;
    }
}

void geometry_lookback_scan(KernelDesign *d)
{
    const ScanPlan *p = d->plan.scan;
    const Computation *comp = inst_called(p->inst, 0);
    LookbackTree tree;
    lookback_tree(d, &tree);
    geometry_blocks(d, p->rows * tree.tiles, d->config.block, 1);
    d->geometry.scratch_bytes = d->geometry.cleared_bytes = tree.bytes;
    d->geometry.has_barriers = true;
    if (tree.levels != 0)
        geometry_shared(&d->geometry, 4, 4); /* the ticket */
    for (uint32_t i = 0; i < p->count; i++) {
        unsigned bytes = shared_bytes(
            computation_accumulator(comp, i, computation_is_simple(comp, p->count)));
        uint64_t warps = (uint64_t)d->config.block / TARGET_WARP;
        geometry_shared(&d->geometry, bytes * (warps + (tree.levels != 0)), bytes);
    }
}
