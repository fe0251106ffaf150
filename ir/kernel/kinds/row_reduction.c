/* Row reductions: a group of threads - a part of a warp, or several warps - reduces each row with shuffles and,
 * between warps, shared memory; all of them then know the result. Small rows share a block. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/rows.h"

#define ROW_THREADS 128   /* of a block, where rows take few */
#define ROW_ITEMS 4       /* accesses of a thread in a row, where the row has enough */
#define ROW_LIGHT_CODE 24 /* instructions */
#define ROW_CARRIED 16
#define ROW_LEAST_ACCESSES 8  /* of a row, for those that leave ends */
#define ROW_LARGE_GROUP 512   /* much code needs more registers than larger blocks have */
#define ROW_KEEPING_GROUP 256 /* larger ones wait longer than reading a row again takes */
#define ROW_KEPT_VALUES                                                                  \
    32 /* elements of arrays that a thread keeps in registers from one walk to the next */

const char *illegal_row_reduction(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason == NULL)
        reason = facts_reduction_illegal(f);
    if (reason == NULL && f->reduction->sum_count != 0)
        reason = "it sums columns, too";
    return reason;
}

bool suits_row_reduction(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_row_reduction(KernelDesign *d, const FusionFacts *f)
{
    d->plan.reduction = f->reduction;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

bool rows_are_plain(const Instruction *fusion, const ReductionPlan *p)
{
    Arena *scratch = arena_scratch();
    uint32_t count = 0;
    const Instruction **made =
        ARENA_ARRAY(scratch, const Instruction *, (size_t)p->hero_count + p->sum_count);
    for (uint32_t h = 0; h < p->hero_count; h++)
        made[count++] = p->heroes[h];
    for (uint32_t i = 0; i < p->sum_count; i++)
        made[count++] = p->sums[i];
    bool are_plain = fusion_is_plain(inst_called(fusion, 0), made, count);
    arena_destroy(scratch);
    return are_plain;
}

/* Those of the widest accesses of arrays that have all columns. */
static int64_t widest_lanes(const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const Computation *comp = inst_called(d->fusion, 0);
    const Shape **arrays = ARENA_ARRAY(d->arena, const Shape *, comp->instruction_count);
    uint32_t count = 0;
    if (!p->minor_reduced || p->columns == 0 || !rows_are_plain(d->fusion, p))
        return 1;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!shape_is_array(inst->shape) ||
            (inst->op != OP_PARAMETER && inst != comp->root) ||
            shape_elements(inst->shape) < p->columns)
            continue;
        arrays[count++] = inst->shape;
    }
    return access_lanes(arrays, count);
}

int64_t rows_lanes(const KernelDesign *d)
{
    int64_t lanes = widest_lanes(d);
    while (lanes > 1 && d->plan.reduction->columns % lanes != 0)
        lanes /= 2;
    return lanes;
}

/* Not so many threads that blocks that share rows have no columns for some of them. */
static int64_t shared_group(const KernelConfig *c, int64_t items, int64_t group)
{
    while (c->column_blocks > 1 && group > 1 && group * c->column_blocks > items)
        group /= 2;
    return group;
}

static int64_t choose_group(const KernelDesign *d, const KernelConfig *c)
{
    const ReductionPlan *p = d->plan.reduction;
    int64_t all = reduction_accesses(p, c->lanes.data[0]), items = all / c->column_blocks;
    if (items <= TARGET_WARP)
        return shared_group(c, all, power_of_two(items, 1, TARGET_WARP));
    bool is_few =
        p->rows * c->column_blocks < 2 * (int64_t)target_multiprocessors(d->target);
    bool is_light = inst_called(d->fusion, 0)->instruction_count < ROW_LIGHT_CODE;
    int64_t most = is_few && is_light ? TARGET_BLOCK_THREADS : ROW_LARGE_GROUP;
    int64_t group = power_of_two(is_few ? items : items / ROW_ITEMS, 1, most);
    return shared_group(c, all, group < TARGET_WARP ? TARGET_WARP : group);
}

static int64_t choose_block(const KernelDesign *d, int64_t group)
{
    int64_t rows = d->plan.reduction->rows;
    int64_t block = group > ROW_THREADS ? group : ROW_THREADS;
    while (block > TARGET_WARP && block > group && block / 2 / group >= rows)
        block /= 2;
    return block;
}

int64_t rows_thread_columns(const ReductionPlan *p, int64_t lanes, int64_t group)
{
    return ceil_div(reduction_accesses(p, lanes), group) * lanes +
           ceil_div(reduction_ends(p, lanes), group);
}

/* The columns are walked over more than once, and those of a thread fit into its registers. */
static bool may_keep(const KernelDesign *d, const KernelConfig *c, int64_t group)
{
    const ReductionPlan *p = d->plan.reduction;
    const Computation *comp = inst_called(d->fusion, 0);
    int64_t lanes = c->lanes.data[0], arrays = 0;
    int64_t columns = rows_thread_columns(p, lanes, group * c->column_blocks);
    int64_t values = columns / lanes * lanes; /* an end more does not matter */
    if (p->stage[p->hero_count - 1] == 0 && !p->has_full)
        return false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        arrays += inst->op == OP_PARAMETER &&
                  shape_elements(inst->shape) >= p->rows * p->columns;
    return values * arrays <= ROW_KEPT_VALUES &&
           columns * comp->instruction_count <= ROW_KEPT_CODE &&
           fusion_is_plain(comp, p->heroes, p->hero_count);
}

/* Of twice as many threads, if they can keep a row that is walked over several times. */
static int64_t keeping_group(const KernelDesign *d, const KernelConfig *c, int64_t group)
{
    bool helps = group >= TARGET_WARP && 2 * group <= ROW_KEEPING_GROUP &&
                 !may_keep(d, c, group) && may_keep(d, c, 2 * group);
    return helps ? 2 * group : group;
}

/* What else follows from the lanes. */
static void configure_lanes(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_GROUP))
        c->group = keeping_group(d, c, choose_group(d, c));
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = choose_block(d, c->group);
    if (config_lacks(c, KERNEL_KEY_KEEP_ROW))
        c->keep_row = may_keep(d, c, c->group);
    if (config_lacks(c, KERNEL_KEY_CARRIED))
        c->carried = ROW_CARRIED;
}

/* Rows that the widest accesses do not divide: whether their ends, one by one, cost less than narrower accesses. */
void configure_row_reduction(const KernelDesign *d, KernelConfig *c)
{
    if ((c->set & 1u << KERNEL_KEY_COLUMN_BLOCKS) == 0)
        c->column_blocks = 1;
    bool is_open = config_lacks(c, KERNEL_KEY_LANES);
    int64_t lanes = is_open ? rows_lanes(d) : 0, widest = is_open ? widest_lanes(d) : 0;
    KernelConfig wide = *c;
    double seconds, wide_seconds;
    if (is_open)
        config_set_lanes(d->arena, c, lanes);
    configure_lanes(d, c);
    if (lanes == widest || !reduction_may_have_ends(d->plan.reduction) ||
        reduction_accesses(d->plan.reduction, widest) < ROW_LEAST_ACCESSES)
        return;
    config_set_lanes(d->arena, &wide, widest);
    configure_lanes(d, &wide);
    if (design_seconds(d, c, &seconds) && design_seconds(d, &wide, &wide_seconds) &&
        wide_seconds <= seconds)
        *c = wide;
}

/* -- design --------------------------------------------------------------------------------------- */

static void add_shared(const KernelDesign *d, const Instruction *hero, KernelGeometry *g)
{
    const Computation *comp = inst_called(hero, 0);
    uint32_t count = hero->operand_count / 2;
    bool is_simple = computation_is_simple(comp, count);
    for (uint32_t i = 0; i < count; i++) {
        unsigned bytes = shared_bytes(computation_accumulator(comp, i, is_simple));
        geometry_shared(g, (uint64_t)bytes * (uint64_t)d->config.block / TARGET_WARP,
                        bytes);
    }
}

void rows_shared(const KernelDesign *d, KernelGeometry *g)
{
    const ReductionPlan *p = d->plan.reduction;
    for (uint32_t h = 0; h < p->hero_count && d->config.group > TARGET_WARP; h++)
        add_shared(d, p->heroes[h], g);
}

const char *rows_group_refused(const KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    const char *wrong = lanes_refused(d, 1);
    if (wrong == NULL)
        wrong = block_refused(d);
    if (wrong != NULL)
        return wrong;
    if (p->columns % c->lanes.data[0] != 0 && !reduction_may_have_ends(p))
        return refuse_text(d, "\"lanes\" %lld must divide the %lld columns",
                           (long long)c->lanes.data[0], (long long)p->columns);
    if (reduction_accesses(p, c->lanes.data[0]) < 1)
        return refuse_text(d, "\"lanes\" %lld are too many for %lld columns",
                           (long long)c->lanes.data[0], (long long)p->columns);
    if ((c->group & (c->group - 1)) != 0 || c->block % c->group != 0)
        return refuse_text(d,
                           "\"group\" must be a power of two that divides the block's "
                           "%lld threads, found %lld",
                           (long long)c->block, (long long)c->group);
    return NULL;
}

int64_t rows_kept_code(const KernelDesign *d, int64_t threads)
{
    return rows_thread_columns(d->plan.reduction, d->config.lanes.data[0], threads) *
           inst_called(d->fusion, 0)->instruction_count;
}

/* Several blocks share a row. A result with an element for each column may lie where what is reduced lies: one block
 * would write over what another reads. */
static const char *sharing_refused(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    if (d->plan.reduction->has_full)
        return refuse_text(d,
                           "\"column_blocks\" %lld, and a result has an element for each "
                           "column",
                           (long long)c->column_blocks);
    return column_blocks_refused(d, c->group * c->lanes.data[0]);
}

const char *refuse_row_reduction(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const char *wrong = rows_group_refused(d);
    if (wrong == NULL && c->column_blocks > 1)
        wrong = sharing_refused(d);
    if (wrong != NULL || !c->keep_row)
        return wrong;
    int64_t code = rows_kept_code(d, c->group * c->column_blocks);
    return code <= ROW_KEPT_CODE
               ? NULL
               : refuse_text(d,
                             "\"keep_row\" writes out %lld instructions; %d are the most",
                             (long long)code, ROW_KEPT_CODE);
}

void geometry_row_reduction(KernelDesign *d)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    int64_t groups = ceil_div(p->rows, c->block / c->group);
    geometry_blocks(d, groups * c->column_blocks, c->block, 1);
    rows_shared(d, &d->geometry);
    d->geometry.has_barriers = c->group > 1;
    if (c->column_blocks > 1)
        geometry_column_blocks(d, groups);
}
