/* Column reductions: neighbouring threads make neighbouring results, so that what they read lies side by side; the
 * threads of a block that share results split the columns and meet in shared memory. Several blocks may share them,
 * too: the last of these to be done combines what all have left in memory. */
#include "ir/base/divide.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define COLUMN_WIDTH 32
#define COLUMN_CARRIED 16 /* accumulators of a thread */
#define COLUMN_LANES 4
#define COLUMN_SPLITS 16
#define COLUMN_FLIGHT 64 /* bytes that a thread asks for before it waits */
#define COLUMN_UNROLL 8
#define COLUMN_HELD 44 /* elements that it then holds, with its sums */
/* and with what is broadcast, of rows or columns: in 64 registers, in 128 */
#define COLUMN_HELD_VECTORS 50
#define COLUMN_HELD_WIDE 100
#define COLUMN_ROWS 16 /* fewer do not fill a warp's accesses */

const char *illegal_column_reduction(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason == NULL)
        reason = facts_reduction_illegal(f);
    if (reason == NULL && f->reduction->minor_reduced)
        reason = "neighbours in memory are not in different rows";
    return reason;
}

bool suits_column_reduction(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    return f->reduction->rows >= COLUMN_ROWS;
}

void plan_column_reduction(KernelDesign *d, const FusionFacts *f)
{
    d->plan.reduction = f->reduction;
}

/* -- stages --------------------------------------------------------------------------------------- */

/* The most accumulators of one result in any stage. */
static int64_t stage_values(const KernelDesign *d, const KernelConfig *c)
{
    const ReductionPlan *p = d->plan.reduction;
    int64_t most = 0;
    for (uint32_t h = 0; h < p->hero_count;) {
        uint32_t values;
        h += reduction_stage(p, h, c->carried, &values);
        most = values > most ? values : most;
    }
    return most;
}

/* Shared memory that all reductions take for a thread and a lane. */
static uint64_t lane_bytes(const ReductionPlan *p)
{
    uint64_t bytes = 0;
    for (uint32_t h = 0; h < p->hero_count; h++) {
        const Instruction *hero = p->heroes[h];
        for (uint32_t i = 0; i < hero->operand_count / 2; i++) {
            unsigned one = shared_bytes(hero->operands[i]->shape->dtype);
            bytes += one < 4 ? 4 : one; /* small ones may accumulate in f32 */
        }
    }
    return bytes;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

static int64_t choose_splits(const KernelDesign *d, const KernelConfig *c)
{
    const ReductionPlan *p = d->plan.reduction;
    uint64_t bytes = lane_bytes(p) * (uint64_t)(c->lanes.data[0] * c->width);
    int64_t splits = 1;
    while (splits < COLUMN_SPLITS && splits * 2 * c->column_blocks <= p->columns &&
           splits * 2 * c->width <= TARGET_BLOCK_THREADS &&
           (uint64_t)splits * 2 * bytes <= TARGET_STATIC_SHARED)
        splits *= 2;
    return splits;
}

/* What a thread reads, counted in elements. What has one for each row is read once, and what has fewer than there are
 * columns is often the same for the next column. */
typedef struct ColumnReads {
    int64_t bytes, elements; /* of whole arrays, for a column */
    int64_t vectors;         /* of others, for a column */
    int64_t rows;            /* of others, for all columns: held all the while */
    int64_t arrays;
} ColumnReads;

static ColumnReads reads_of(const KernelDesign *d, int64_t lanes)
{
    const ReductionPlan *p = d->plan.reduction;
    const Computation *comp = inst_called(d->fusion, 0);
    ColumnReads r = {0};
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER)
            continue;
        int64_t size = shape_elements(inst->shape);
        r.arrays++;
        if (size >= p->rows * p->columns) {
            r.elements += lanes;
            r.bytes += lanes * dtype_info[inst->shape->dtype].bits / 8;
        } else if (size == p->columns || (size > p->columns && size != p->rows)) {
            r.vectors++;
        } else if (size > 1) {
            r.rows += lanes;
        }
    }
    return r;
}

/* So many columns at a time that memory has enough to do: blocks that meet in shared memory are large, and few on a
 * multiprocessor. What they hold meanwhile fits into registers: all loads stand in front. */
static int64_t unroll_of(const KernelDesign *d, const KernelConfig *c, int64_t splits,
                         const ColumnReads *r, int64_t lanes)
{
    const ReductionPlan *p = d->plan.reduction;
    int64_t sums = stage_values(d, c) * lanes;
    int64_t rounds = p->columns / (splits * c->column_blocks), unroll = 1;
    int64_t accesses = r->arrays + 1; /* and at least one result */
    int64_t most =
        accesses > KERNEL_FEW_ACCESSES ? COLUMN_HELD_WIDE : COLUMN_HELD_VECTORS;
    if (r->bytes == 0 ||
        !fusion_is_plain(inst_called(d->fusion, 0), p->heroes, p->hero_count))
        return 1;
    while (unroll < COLUMN_UNROLL && 2 * unroll <= rounds &&
           unroll * r->bytes < COLUMN_FLIGHT &&
           2 * unroll * r->elements + sums <= COLUMN_HELD &&
           2 * unroll * r->elements + sums + r->rows <= most &&
           2 * unroll * (r->elements + r->vectors) + sums <= most)
        unroll *= 2;
    return unroll;
}

static int64_t widest_lanes(const KernelDesign *d, const KernelConfig *c)
{
    const ReductionPlan *p = d->plan.reduction;
    const Computation *comp = inst_called(d->fusion, 0);
    int64_t enough =
        ceil_div(c->width * (int64_t)target_multiprocessors(d->target), c->column_blocks);
    int64_t values = stage_values(d, c);
    unsigned widest = 1;
    if (!fusion_is_plain(comp, p->heroes, p->hero_count))
        return 1;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER || shape_elements(inst->shape) == 1)
            continue;
        unsigned bytes = dtype_info[inst->shape->dtype].bits / 8;
        widest = bytes > widest ? bytes : widest;
    }
    int64_t lanes = 16 / widest;
    if (lanes > COLUMN_LANES)
        lanes = COLUMN_LANES;
    while (lanes > 1 && (p->rows % lanes != 0 || lanes * values > c->carried ||
                         p->rows / lanes < enough))
        lanes /= 2;
    return lanes == 0 ? 1 : lanes;
}

static int64_t flight_of(const KernelDesign *d, const KernelConfig *c, int64_t splits,
                         int64_t lanes)
{
    ColumnReads r = reads_of(d, lanes);
    return unroll_of(d, c, splits, &r, lanes) * r.bytes;
}

/* Of the widest accesses, narrower ones where sums and what is held for the rows would leave registers for so few that
 * memory is idle meanwhile. */
static int64_t choose_lanes(const KernelDesign *d, const KernelConfig *c)
{
    bool is_open = (c->set & 1u << KERNEL_KEY_SPLITS) == 0;
    int64_t splits = is_open ? COLUMN_SPLITS : c->splits;
    int64_t lanes = widest_lanes(d, c), flight = flight_of(d, c, splits, lanes);
    while (lanes > 1 && 2 * flight < COLUMN_FLIGHT) {
        int64_t narrow = flight_of(d, c, splits, lanes / 2);
        if (narrow <= flight)
            break;
        flight = narrow;
        lanes /= 2;
    }
    return lanes;
}

void configure_column_reduction(const KernelDesign *d, KernelConfig *c)
{
    if ((c->set & 1u << KERNEL_KEY_COLUMN_BLOCKS) == 0)
        c->column_blocks = 1;
    if (config_lacks(c, KERNEL_KEY_WIDTH))
        c->width = COLUMN_WIDTH;
    if (config_lacks(c, KERNEL_KEY_CARRIED))
        c->carried = COLUMN_CARRIED;
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, choose_lanes(d, c));
    if (config_lacks(c, KERNEL_KEY_SPLITS))
        c->splits = choose_splits(d, c);
    if (config_lacks(c, KERNEL_KEY_UNROLL)) {
        ColumnReads r = reads_of(d, c->lanes.data[0]);
        c->unroll = unroll_of(d, c, c->splits, &r, c->lanes.data[0]);
    }
}

/* -- design --------------------------------------------------------------------------------------- */

/* What threads leave for one another, stage after stage. */
static void add_shared(KernelGeometry *g, const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    for (uint32_t h = 0; h < p->hero_count && c->splits > 1; h++) {
        const Computation *comp = inst_called(p->heroes[h], 0);
        uint32_t count = p->heroes[h]->operand_count / 2;
        bool is_simple = computation_is_simple(comp, count);
        for (uint32_t i = 0; i < count; i++) {
            unsigned bytes = shared_bytes(computation_accumulator(comp, i, is_simple));
            geometry_shared(
                g, (uint64_t)(bytes * c->lanes.data[0] * c->splits * c->width), bytes);
        }
    }
}

/* The blocks that make other results. */
static int64_t groups_of(const KernelDesign *d)
{
    int64_t threads = d->plan.reduction->rows / d->config.lanes.data[0];
    return ceil_div(threads, d->config.width);
}

const char *refuse_column_reduction(const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    const char *wrong = lanes_refused(d, 1);
    if (wrong != NULL)
        return wrong;
    int64_t lanes = c->lanes.data[0], threads = c->width * c->splits;
    if (p->rows % lanes != 0)
        return refuse_text(d, "\"lanes\" %lld must divide the %lld rows",
                           (long long)lanes, (long long)p->rows);
    if (lanes * stage_values(d, c) > KERNEL_MOST_VALUES)
        return refuse_text(d, "\"lanes\" %lld of %lld values are more than %d",
                           (long long)lanes, (long long)stage_values(d, c),
                           KERNEL_MOST_VALUES);
    if (c->splits > p->columns)
        return refuse_text(d, "\"splits\" %lld are more than the %lld columns",
                           (long long)c->splits, (long long)p->columns);
    if (threads % TARGET_WARP != 0 || threads > TARGET_BLOCK_THREADS)
        return refuse_text(d,
                           "\"width\" and \"splits\" ask for %lld threads; a block has a "
                           "multiple of %d, %d at most",
                           (long long)threads, TARGET_WARP, TARGET_BLOCK_THREADS);
    if (c->column_blocks > 1) {
        wrong = column_blocks_refused(d, c->splits);
        if (wrong != NULL)
            return wrong;
    }
    KernelGeometry g = {.shared_bytes = 0};
    add_shared(&g, d);
    return shared_refused(d, g.shared_bytes);
}

void geometry_column_reduction(KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    geometry_blocks(d, groups_of(d) * c->column_blocks, c->width, c->splits);
    add_shared(&d->geometry, d);
    d->geometry.has_barriers = c->splits > 1;
    if (c->column_blocks > 1)
        geometry_column_blocks(d, groups_of(d));
}
