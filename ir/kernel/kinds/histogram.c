/* Integers summed up in few positions: blocks have the positions in shared memory, each takes its share of the updates,
 * and what they found is added to the result by atomic operations, whose order means nothing for integers. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define MOST_BYTES 32768 /* of a block's positions */
#define LEAST_UPDATES 4096
#define MULTIPROCESSOR_BLOCKS 4
#define THREADS 256
#define MOST_NEIGHBOURS 8
#define FAR_ACCESSES 4 /* loads under way at once */

static const ScatterPlan *plan_of(FusionFacts *f)
{
    KernelDesign d = {.fusion = f->fusion, .arena = f->arena};
    plan_scatter(&d, f);
    return d.plan.scatter;
}

const char *illegal_histogram(FusionFacts *f, KernelKind kind)
{
    const char *reason = illegal_scatter(f, kind);
    if (reason != NULL)
        return reason;
    const ScatterPlan *p = plan_of(f);
    uint32_t bits = dtype_info[p->operand->dtype].bits;
    if (p->strategy != SCATTER_ATOMIC || p->operation != OP_ADD ||
        !dtype_is_integer(p->operand->dtype) || (bits != 32 && bits != 64))
        return "it is no sum of integers";
    if (p->window_dims.count != 0 || p->batching.count != 0)
        return "an update is more than one position";
    return shape_elements(p->operand) > MOST_BYTES / (bits / 8)
               ? "a block's shared memory does not hold the positions"
               : NULL;
}

bool suits_histogram(FusionFacts *f, KernelKind kind)
{
    const ScatterPlan *p = plan_of(f);
    (void)kind;
    return shape_elements(p->update) >= LEAST_UPDATES &&
           shape_elements(p->update) >= 4 * shape_elements(p->operand);
}

void plan_histogram(KernelDesign *d, const FusionFacts *f)
{
    plan_scatter(d, f);
}

static int64_t inner_size(const Shape *updates)
{
    return updates->rank == 0 ? 1 : updates->dims[updates->layout->minor_to_major[0]];
}

bool histogram_takes_neighbours(const Shape *updates)
{
    return inner_size(updates) <= MOST_NEIGHBOURS;
}

void configure_histogram(const KernelDesign *d, KernelConfig *c)
{
    const Shape *s = d->plan.scatter->update;
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = THREADS;
    if (config_lacks(c, KERNEL_KEY_BLOCKS_PER_MULTIPROCESSOR))
        c->blocks_per_multiprocessor = MULTIPROCESSOR_BLOCKS;
    if (!config_lacks(c, KERNEL_KEY_ACCESSES))
        return;
    c->accesses = histogram_takes_neighbours(s) ? inner_size(s) : FAR_ACCESSES;
    while (shape_elements(s) % c->accesses != 0)
        c->accesses /= 2;
}

const char *refuse_histogram(const KernelDesign *d)
{
    int64_t updates = shape_elements(d->plan.scatter->update);
    return updates % d->config.accesses == 0
               ? block_refused(d)
               : refuse_text(d, "\"accesses\" %lld must divide the %lld updates",
                             (long long)d->config.accesses, (long long)updates);
}

void geometry_histogram(KernelDesign *d)
{
    const ScatterPlan *p = d->plan.scatter;
    int64_t taken = d->config.block * d->config.accesses;
    int64_t updates = shape_elements(p->update),
            bytes = dtype_info[p->operand->dtype].bits / 8;
    int64_t most =
        (int64_t)target_multiprocessors(d->target) * d->config.blocks_per_multiprocessor;
    int64_t blocks = updates / taken + (updates % taken != 0);
    geometry_blocks(d, blocks < most ? blocks : most, d->config.block, 1);
    geometry_shared(&d->geometry, (uint64_t)(shape_elements(p->operand) * bytes),
                    (unsigned)bytes);
    d->geometry.has_barriers = true;
}
