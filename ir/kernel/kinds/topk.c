/* The k largest (or smallest) elements of each row of the last dimension. A block takes a row: shared memory holds
 * the k best so far and those that go before the last of them. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define TOPK_SLOTS 2048       /* that hold a whole row; a longer one: long_row_slots */
#define TOPK_LOADS 4          /* of a thread between two barriers: "unroll" */
#define TOPK_THREADS 256      /* at most */
#define TOPK_LONG_THREADS 512 /* of a long row: for more bytes under way */

const char *illegal_topk(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    return hero_root_illegal(f->fusion, OP_TOPK);
}

bool suits_topk(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* Neighbours that one load can take. */
static uint32_t most_lanes(const TopKPlan *p)
{
    uint32_t bits = dtype_info[p->shape->dtype].bits, lanes = TOPK_LANES;
    if (bits < 8)
        return 1;
    while (lanes > 1 && (lanes * bits > 128 || p->size % lanes != 0))
        lanes /= 2;
    return lanes;
}

int64_t topk_limit(const TopKPlan *p, int64_t slots)
{
    return p->k + (slots - p->k) / 4;
}

void plan_topk(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *inst = fusion_hero(d->fusion, OP_TOPK);
    TopKPlan *p = ARENA_NEW(d->arena, TopKPlan);
    p->inst = inst;
    p->shape = inst->operands[0]->shape;
    p->size = p->shape->dims[p->shape->rank - 1];
    p->k = inst_int(inst, ATTR_K, 0);
    p->rows = p->size == 0 ? 0 : shape_elements(p->shape) / p->size;
    d->plan.topk = p;
    if (dtype_is_complex(p->shape->dtype))
        d->unsupported = refuse_text(d, "%s compares complex numbers", inst->name);
    else if (p->rows > INT32_MAX || p->size > INT32_MAX / 2)
        d->unsupported = refuse_text(d, "%s takes from %lld rows of %lld elements",
                                     inst->name, (long long)p->rows, (long long)p->size);
}

/* With its position. */
static int64_t slot_bytes(const TopKPlan *p)
{
    return shared_bytes(p->shape->dtype) + 4;
}

/* Fewer are sorted sooner, but what the first batch has that goes before the k best of them must fit behind those. */
static int64_t long_row_slots(const TopKPlan *p, int64_t loads, int64_t lanes)
{
    int64_t batch = loads * lanes * TOPK_LONG_THREADS;
    int64_t slots = 2 * TOPK_LONG_THREADS;
    while (slots < 2 * p->k || slots * slots < batch * p->k)
        slots *= 2;
    return slots;
}

void configure_topk(const KernelDesign *d, KernelConfig *c)
{
    const TopKPlan *p = d->plan.topk;
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, most_lanes(p));
    if (config_lacks(c, KERNEL_KEY_UNROLL))
        c->unroll = TOPK_LOADS;
    int64_t wanted =
        p->size < TOPK_SLOTS ? p->size : long_row_slots(p, c->unroll, c->lanes.data[0]);
    if (config_lacks(c, KERNEL_KEY_SLOTS)) {
        for (c->slots = 2; c->slots < wanted;)
            c->slots *= 2;
    }
    if (config_lacks(c, KERNEL_KEY_BLOCK)) {
        int64_t pairs = c->slots / 2,
                most = c->slots < p->size ? TOPK_LONG_THREADS : TOPK_THREADS;
        c->block = pairs < TARGET_WARP ? TARGET_WARP : pairs < most ? pairs : most;
        /* an element of each thread fits behind the k best */
        while (c->slots < p->size && c->block > TARGET_WARP && c->slots < p->k + c->block)
            c->block /= 2;
    }
}

const char *refuse_topk(const KernelDesign *d)
{
    const TopKPlan *p = d->plan.topk;
    int64_t slots = d->config.slots;
    if ((slots & (slots - 1)) != 0)
        return refuse_text(d, "\"slots\" must be a power of two, found %lld",
                           (long long)slots);
    if (slots < p->size && slots < 2 * p->k)
        return refuse_text(d, "\"slots\" %lld hold neither the row of %lld nor 2 x %lld",
                           (long long)slots, (long long)p->size, (long long)p->k);
    if (slots < p->size && slots < p->k + d->config.block)
        return refuse_text(d,
                           "\"slots\" %lld do not hold %lld elements and one of each of "
                           "the block's %lld threads",
                           (long long)slots, (long long)p->k, (long long)d->config.block);
    const char *wrong = lanes_refused(d, 1);
    if (wrong == NULL && d->config.lanes.data[0] > most_lanes(p))
        wrong =
            refuse_text(d, "\"lanes\" %lld are more than the %u that one load can take",
                        (long long)d->config.lanes.data[0], most_lanes(p));
    if (wrong == NULL)
        wrong = shared_refused(d, (uint64_t)(slots * slot_bytes(p)));
    return wrong != NULL ? wrong : block_refused(d);
}

void geometry_topk(KernelDesign *d)
{
    const TopKPlan *p = d->plan.topk;
    uint64_t slots = (uint64_t)d->config.slots;
    unsigned bytes = shared_bytes(p->shape->dtype);
    geometry_blocks(d, p->rows, d->config.block, 1);
    geometry_shared(&d->geometry, slots * bytes, bytes);
    geometry_shared(&d->geometry, slots * 4, 4);
    if ((int64_t)slots < p->size)
        geometry_shared(&d->geometry, 4, 4); /* how many are in use */
    d->geometry.has_barriers = true;
}
