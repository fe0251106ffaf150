/* Cumulative windows. Where there are many rows that lie side by side, a thread walks along each (group 1);
 * else a block takes a row, chunk by chunk. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define SCAN_THREADS 256
#define SCAN_ITEMS 4 /* where a chunk's accesses gain by it */
#define SCAN_MANY_ROWS 4096
#define SCAN_SHORT 32 /* rows of so few elements need no block */
#define SCAN_ARRAYS 8

int64_t kernel_scan_dimension(const Instruction *inst, bool *is_reverse)
{
    const Shape *from = inst->operands[0]->shape;
    const Window *window = inst_window(inst);
    int64_t along = -1;
    for (uint32_t d = 0; d < from->rank && d < window->rank; d++) {
        const WindowDim *w = &window->dims[d];
        if (w->stride != 1 || w->base_dilation != 1 || w->window_dilation != 1)
            return -1;
        if (w->size == 1 && w->pad_low == 0 && w->pad_high == 0)
            continue;
        bool is_forward = w->pad_low == w->size - 1 && w->pad_high == 0;
        bool is_backward = w->pad_high == w->size - 1 && w->pad_low == 0;
        if (along >= 0 || w->size != from->dims[d] || (!is_forward && !is_backward))
            return -1;
        *is_reverse = is_backward;
        along = d;
    }
    return along;
}

const char *illegal_window_scan(FusionFacts *f, KernelKind kind)
{
    bool is_reverse;
    const char *reason = hero_leaves_illegal(f->fusion, OP_REDUCE_WINDOW);
    (void)kind;
    if (reason != NULL)
        return reason;
    const Instruction *hero = fusion_hero(f->fusion, OP_REDUCE_WINDOW);
    if (hero->operand_count / 2 > SCAN_ARRAYS)
        return "too many arrays are reduced together";
    return kernel_scan_dimension(hero, &is_reverse) < 0 ? "the windows are not cumulative"
                                                        : NULL;
}

bool suits_window_scan(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* -- design --------------------------------------------------------------------------------------- */

void plan_scan(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    ScanPlan *p = ARENA_NEW(d->arena, ScanPlan);
    p->inst = fusion_hero(d->fusion, OP_REDUCE_WINDOW);
    p->shape = p->inst->operands[0]->shape;
    p->along = kernel_scan_dimension(p->inst, &p->is_reverse);
    p->size = p->shape->dims[p->along];
    p->rows = p->size == 0 ? 0 : shape_elements(p->shape) / p->size;
    p->count = p->inst->operand_count / 2;
    d->plan.scan = p;
}

void plan_window_scan(KernelDesign *d, const FusionFacts *f)
{
    plan_scan(d, f);
}

static bool lies_side_by_side(const ScanPlan *p)
{
    for (uint32_t i = 0; i < p->shape->rank; i++) {
        int64_t dim = p->shape->layout->minor_to_major[i];
        if (p->shape->dims[dim] != 1)
            return dim != p->along;
    }
    return false;
}

bool scan_walks_rows(const ScanPlan *p)
{
    return p->size <= SCAN_SHORT || (lies_side_by_side(p) && p->rows >= SCAN_MANY_ROWS);
}

int64_t scan_items(const KernelDesign *d)
{
    const ScanPlan *p = d->plan.scan;
    bool is_minor = p->shape->layout->minor_to_major[0] == p->along;
    return is_minor && fusion_is_plain(inst_called(d->fusion, 0), &p->inst, 1) &&
                   p->size % SCAN_ITEMS == 0 && p->size > SCAN_THREADS &&
                   p->count * SCAN_ITEMS <= KERNEL_MOST_LANES
               ? SCAN_ITEMS
               : 1;
}

void configure_window_scan(const KernelDesign *d, KernelConfig *c)
{
    const ScanPlan *p = d->plan.scan;
    bool is_open = config_lacks(c, KERNEL_KEY_GROUP);
    bool walks = is_open ? scan_walks_rows(p) : c->group == 1;
    if (config_lacks(c, KERNEL_KEY_ITEMS))
        c->items = walks ? 1 : scan_items(d);
    if (walks) {
        c->group = 1;
        configure_threads(c, p->rows);
        return;
    }
    int64_t threads = is_open ? TARGET_WARP : c->group;
    while (is_open && threads < p->size / c->items && threads < SCAN_THREADS)
        threads *= 2;
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = threads;
    if (is_open)
        c->group = c->block;
}

const char *refuse_window_scan(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const ScanPlan *p = d->plan.scan;
    const char *wrong = block_refused(d);
    if (wrong != NULL)
        return wrong;
    if (c->group != 1 && c->group != c->block)
        return refuse_text(d,
                           "\"group\" must be 1 or the block's %lld threads, found %lld",
                           (long long)c->block, (long long)c->group);
    if (c->group == 1 && c->items != 1)
        return "\"items\" must be 1 where a thread walks along a row";
    if (p->size % c->items != 0 || (c->items & (c->items - 1)) != 0)
        return refuse_text(
            d, "\"items\" %lld must be a power of two that divides the row of %lld",
            (long long)c->items, (long long)p->size);
    if (p->count * c->items > KERNEL_MOST_VALUES)
        return refuse_text(d, "\"items\" %lld of %u arrays are more than %d values",
                           (long long)c->items, p->count, KERNEL_MOST_VALUES);
    return NULL;
}

void geometry_window_scan(KernelDesign *d)
{
    const ScanPlan *p = d->plan.scan;
    const Computation *comp = inst_called(p->inst, 0);
    bool is_simple = computation_is_simple(comp, p->count);
    if (d->config.group == 1) {
        geometry_threads(d, p->rows);
        return;
    }
    geometry_blocks(d, p->rows, d->config.block, 1);
    for (uint32_t i = 0; i < p->count; i++) {
        unsigned bytes = shared_bytes(computation_accumulator(comp, i, is_simple));
        geometry_shared(&d->geometry,
                        (uint64_t)bytes * (uint64_t)d->config.block / TARGET_WARP, bytes);
    }
    d->geometry.has_barriers = true;
}
