/* Two-way reductions: rows, reduced and mapped as by a row reduction, and sums of their columns. A block walks over as
 * many rows as the partial sums are of; a thread has the same columns of all of them, so their sums stay in its
 * registers. Where groups of threads have rows of their own, those meet in shared memory at the end. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/rows.h"

#define TWO_WAY_CARRIED 16
#define TWO_WAY_BLOCK 256    /* threads, where rows take few */
#define TWO_WAY_REGISTERS 40 /* of a thread, for addresses and what is made of the rest */

const char *illegal_two_way_reduction(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason == NULL)
        reason = facts_reduction_illegal(f);
    if (reason == NULL && f->reduction->sum_count == 0)
        reason = "it sums no columns";
    if (reason == NULL && !rows_are_plain(f->fusion, f->reduction))
        reason = "what it reduces takes more than a few instructions an element";
    return reason;
}

bool suits_two_way_reduction(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_two_way_reduction(KernelDesign *d, const FusionFacts *f)
{
    d->plan.reduction = f->reduction;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

static int64_t block_of(const KernelDesign *d, int64_t group)
{
    int64_t block = group > TWO_WAY_BLOCK ? group : TWO_WAY_BLOCK;
    while (block > TARGET_WARP && block > group &&
           block / 2 / group >= d->plan.reduction->sum_rows)
        block /= 2;
    return block;
}

/* The group of which the model says that it takes the shortest time. More threads have fewer sums each, and wait longer
 * for one another. */
static void choose_group(const KernelDesign *d, KernelConfig *c)
{
    const ReductionPlan *p = d->plan.reduction;
    bool is_open = config_lacks(c, KERNEL_KEY_BLOCK);
    int64_t most = is_open ? TARGET_BLOCK_THREADS : c->block;
    most = power_of_two(p->columns / c->lanes.data[0], 1, most);
    KernelConfig trial = *c;
    double best = 0;
    c->group = most;
    for (int64_t group = most; group > 0; group /= 2) {
        double seconds;
        trial.group = group;
        trial.block = is_open ? block_of(d, group) : c->block;
        if (!design_seconds(d, &trial, &seconds) || (best != 0 && seconds >= best))
            continue;
        best = seconds;
        c->group = group;
    }
    if (is_open)
        c->block = block_of(d, c->group);
}

void configure_two_way_reduction(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, rows_lanes(d));
    if (config_lacks(c, KERNEL_KEY_CARRIED))
        c->carried = TWO_WAY_CARRIED;
    if (config_lacks(c, KERNEL_KEY_GROUP))
        choose_group(d, c);
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = block_of(d, c->group);
}

/* -- design --------------------------------------------------------------------------------------- */

/* Sums of columns that a thread keeps. */
static int64_t sums_of_thread(const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    return p->sum_count *
           rows_thread_columns(p, d->config.lanes.data[0], d->config.group);
}

int64_t two_way_registers(const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const Computation *comp = inst_called(d->fusion, 0);
    int64_t columns = rows_thread_columns(p, d->config.lanes.data[0], d->config.group);
    int64_t arrays = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        arrays += inst->op == OP_PARAMETER &&
                  shape_elements(inst->shape) >= p->rows * p->columns;
    return TWO_WAY_REGISTERS + columns * (p->sum_count + arrays);
}

/* Groups of a block leave each other their sums of all columns. */
static void add_shared(const KernelDesign *d, KernelGeometry *g)
{
    const ReductionPlan *p = d->plan.reduction;
    int64_t groups = d->config.block / d->config.group;
    rows_shared(d, g);
    for (uint32_t i = 0; i < p->sum_count && groups > 1; i++) {
        const Computation *comp = inst_called(p->sums[i], 0);
        unsigned bytes = shared_bytes(computation_accumulator(comp, 0, true));
        geometry_shared(g, (uint64_t)(bytes * groups * p->columns), bytes);
    }
}

const char *refuse_two_way_reduction(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const char *wrong = rows_group_refused(d);
    if (wrong != NULL)
        return wrong;
    if (rows_kept_code(d, d->config.group) > ROW_KEPT_CODE)
        return refuse_text(d,
                           "a row by a \"group\" of %lld threads is %lld instructions of "
                           "each, written out; %d are the most",
                           (long long)c->group,
                           (long long)rows_kept_code(d, d->config.group), ROW_KEPT_CODE);
    if (sums_of_thread(d) > KERNEL_MOST_VALUES)
        return refuse_text(
            d,
            "a \"group\" of %lld threads leaves each %lld sums of columns; "
            "%d are the most",
            (long long)c->group, (long long)sums_of_thread(d), KERNEL_MOST_VALUES);
    KernelGeometry g = {.shared_bytes = 0};
    add_shared(d, &g);
    return shared_refused(d, g.shared_bytes);
}

/* As many as the grid gives a multiprocessor, and as registers allow: minctasm must not make the assembler spill. */
static uint32_t resident_blocks(const KernelDesign *d)
{
    int64_t multiprocessors = target_multiprocessors(d->target),
            blocks = reduction_sum_blocks(d->plan.reduction);
    int64_t wanted = ceil_div(blocks, multiprocessors),
            most = TARGET_REGISTERS / (d->config.block * two_way_registers(d));
    if (most > TARGET_BLOCK_THREADS / d->config.block)
        most = TARGET_BLOCK_THREADS / d->config.block;
    wanted = wanted < most ? wanted : most;
    return wanted < 1 ? 1 : (uint32_t)wanted;
}

void geometry_two_way_reduction(KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    geometry_blocks(d, reduction_sum_blocks(d->plan.reduction), c->block, 1);
    d->geometry.resident_blocks = resident_blocks(d);
    add_shared(d, &d->geometry);
    d->geometry.has_barriers = true;
}
