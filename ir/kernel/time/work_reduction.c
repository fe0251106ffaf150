/* Row and column reductions: walks over the reduced elements, then threads that meet in shuffles and shared
 * memory, then what is made of the results. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/rows.h"
#include "ir/kernel/time/work_kinds.h"

enum { UNROLLED = 4 }; /* trips of a loop that the assembler puts under way at once */

static bool is_narrow_float(DType t)
{
    return dtype_is_float(t) && dtype_info[t].bits < 32;
}

double work_combine(WorkBuilder *b, const Instruction *reduction, double times)
{
    const Computation *comp = inst_called(reduction, 0);
    DType t = reduction->operands[0]->shape->dtype;
    if (is_narrow_float(t)) /* sums of narrow floats are kept in f32 */
        work_instructions(b, convert_cost(t, DT_F32), times);
    return work_computation(b, comp, times);
}

double work_reduction_bytes(const Instruction *reduction)
{
    double bytes = 0;
    for (uint32_t i = 0; i < reduction->operand_count / 2; i++) {
        uint32_t bits = dtype_info[reduction->operands[i]->shape->dtype].bits;
        bytes += bits < 32 ? 4 : bits / 8;
    }
    return bytes;
}

/* -- what both do ------------------------------------------------------------------------------------- */

typedef struct Reduction {
    WorkBuilder *b;
    const ReductionPlan *plan;
    const IndexExpr *row;  /* of lane 0 */
    bool rows_have_lanes;  /* the lanes are rows, else columns */
    uint32_t width, lanes; /* of an access; of what is walked over now */
    bool at_ends;          /* those of a row, not its accesses */
    uint32_t first, count; /* heroes of the stage that is walked */
    bool keeps;            /* walks are written out, and remember what they read */
    uint32_t group;        /* threads that share a row; in one block */
    uint32_t in_block;
    uint32_t overlap;        /* rounds that are under way at once */
    const IndexExpr *thread; /* number in the group */
    const IndexExpr *end;    /* the same of a thread that has an end */
} Reduction;

/* The results with an element for each item; those of columns that need no hero are stored as the first stage is
 * walked. */
static bool is_stored(const Reduction *r, uint32_t result, bool stores)
{
    const Shape *s = fusion_result(r->b->fusion, result).shape;
    bool early = r->rows_have_lanes && r->plan->is_early[result];
    return reduction_is_full(r->plan, s) && (stores ? !early : early && r->first == 0);
}

static const IndexExpr *column_of(const Reduction *r, const IndexExpr *item)
{
    WorkBuilder *b = r->b;
    if (r->at_ends)
        return reduction_end_column(b->ix, r->plan, r->width, r->row, item);
    return ix_add(b->ix, reduction_access_column(b->ix, r->plan, r->width, r->row, item),
                  work_lane(b));
}

/* Item `item` of a walk: what the heroes of the stage read there, and the results that have an element for it and
 * are stored now. Gives the cycles from one item's accumulator to the next's. */
static double walk_item(Reduction *r, const IndexExpr *item, bool stores)
{
    WorkBuilder *b = r->b;
    const IndexExpr *at[KERNEL_MOST_RANK], *row = r->row, *column = item;
    double carried = 0;
    if (r->rows_have_lanes)
        row = ix_add(b->ix, row, work_lane(b));
    else
        column = column_of(r, item);
    for (uint32_t h = r->first; !stores && h < r->first + r->count; h++) {
        const Instruction *hero = r->plan->heroes[h];
        reduction_operand_index(b->ix, hero, row, column, at);
        for (uint32_t i = 0; i < hero->operand_count / 2; i++)
            work_element(b, hero->operands[i], at);
        carried = work_combine(b, hero, r->lanes);
    }
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++) {
        const Shape *s = fusion_result(b->fusion, i).shape;
        if (!is_stored(r, i, stores))
            continue;
        reduction_result_index(b->ix, r->plan, s, row, column, at);
        work_result(b, i, at);
    }
    return r->rows_have_lanes ? carried : carried * r->lanes;
}

/* Items of a row, shared out among the threads of the group. */
static void walk_items(Reduction *r, int64_t items, bool stores)
{
    WorkBuilder *b = r->b;
    int64_t rounds = (items + r->group - 1) / r->group;
    work_set_lanes(b, r->lanes);
    if (r->keeps) {
        b->keeps_values = !stores;
        for (int64_t i = 0; i < rounds; i++)
            walk_item(r, ix_add(b->ix, r->thread, ix_const(b->ix, i * r->group)), stores);
        b->keeps_values = false;
        work_wait(b, 0);
    } else {
        double trips = (double)items / r->group;
        const IndexExpr *step = work_loop_begin(b, trips, rounds, r->overlap);
        const IndexExpr *item = ix_add(b->ix, ix_mul(b->ix, step, r->group), r->thread);
        work_loop_end(b, walk_item(r, item, stores));
    }
    work_set_lanes(b, 1);
}

/* One by one, by the first of the group's threads. */
static void walk_ends(Reduction *r, int64_t ends, bool stores)
{
    WorkBuilder *b = r->b;
    double part = r->group > TARGET_WARP ? (double)TARGET_WARP / r->group : 1;
    bool keeps = r->keeps && !stores;
    WorkPart before = keeps ? work_predicate_begin(b, part) : work_part_begin(b, part);
    b->keeps_values = keeps;
    r->at_ends = true;
    r->lanes = 1;
    for (int64_t i = 0; i < ends; i += r->group)
        walk_item(r, ix_add(b->ix, r->end, ix_const(b->ix, i)), stores);
    r->lanes = r->width;
    r->at_ends = false;
    b->keeps_values = false;
    work_wait(b, 0);
    work_part_end(b, before);
}

/* All items of a row. */
static void walk(Reduction *r, bool stores)
{
    int64_t width = r->rows_have_lanes ? 1 : r->width;
    int64_t ends = reduction_ends(r->plan, width);
    walk_items(r, reduction_accesses(r->plan, width), stores);
    if (ends != 0)
        walk_ends(r, ends, stores);
}

static void store_rows(Reduction *r, double part)
{
    WorkBuilder *b = r->b;
    const IndexExpr *at[KERNEL_MOST_RANK];
    WorkPart before = work_part_begin(b, part);
    work_set_lanes(b, r->rows_have_lanes ? r->lanes : 1);
    const IndexExpr *row =
        r->rows_have_lanes ? ix_add(b->ix, r->row, work_lane(b)) : r->row;
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++) {
        const Shape *s = fusion_result(b->fusion, i).shape;
        if (!reduction_is_row(r->plan, s))
            continue;
        reduction_result_index(b->ix, r->plan, s, row, NULL, at);
        work_result(b, i, at);
    }
    work_set_lanes(b, 1);
    work_part_end(b, before);
}

/* -- blocks that share rows ------------------------------------------------------------------------------ */

/* Blocks that share a row's columns. Each leaves what it found and takes a ticket; the last one loads, `threads` of it
 * for each row, what all have left. Both lie in L2. The others do so while blocks behind them read; that the last one
 * comes to its end is waited for. words: of a row; rows: of a block; step_cycles: of one word of two threads that meet. */
static void meet_in_memory(WorkBuilder *b, const KernelDesign *d, int64_t threads,
                           double words, double rows, double step_cycles)
{
    double blocks = (double)d->config.column_blocks, bytes = 4 * words * rows;
    double rounds = (double)ceil_div(d->config.column_blocks, threads);
    if (d->config.column_blocks == 1)
        return;
    WorkPart before = work_part_begin(b, 1 / (double)threads);
    work_instructions(b, (OpCost){.alu = 2}, words);
    work_part_end(b, before);
    work_atomics(b, 1.0 / b->threads);
    b->torn_l2 += 2 * b->blocks * bytes;
    b->tail_cycles = costs.atomic_cycles + 2 * b->rates->l2_cycles +
                     blocks * bytes / costs.multiprocessor_bytes +
                     rounds * words * costs.alu_cycles +
                     work_log2(threads) * words * step_cycles + 3 * costs.barrier_cycles +
                     2 * costs.shared_cycles;
}

/* -- rows ------------------------------------------------------------------------------------------------ */

/* Lanes exchange by shuffles; warps of a row by shared memory. */
static void meet_in_row(Reduction *r)
{
    WorkBuilder *b = r->b;
    uint32_t warps = r->in_block / TARGET_WARP;
    double steps = work_log2(r->in_block < TARGET_WARP ? r->in_block : TARGET_WARP);
    double more = warps > 1 ? work_log2(warps) : 0;
    for (uint32_t h = r->first; h < r->first + r->count; h++) {
        const Instruction *hero = r->plan->heroes[h];
        double bytes = work_reduction_bytes(hero);
        work_shuffles(b, steps + more, bytes);
        work_wait(b, (steps + more) * work_combine(b, hero, steps + more));
        if (warps > 1)
            work_shared(b, 2 * bytes / 4, 4, 1);
        work_preset(b, hero);
    }
    if (warps > 1)
        work_barrier(b);
}

void work_row_reduction(const KernelDesign *d, KernelWork *out)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    int64_t rows = c->block / c->group, items = reduction_accesses(p, c->lanes.data[0]);
    int64_t group = c->group * c->column_blocks; /* of all blocks that share a row */
    WorkBuilder *b = work_begin(d);
    Reduction r = {.b = b,
                   .plan = p,
                   .width = (uint32_t)c->lanes.data[0],
                   .lanes = (uint32_t)c->lanes.data[0],
                   .keeps = c->keep_row,
                   .overlap = UNROLLED,
                   .group = (uint32_t)group,
                   .in_block = (uint32_t)c->group};
    r.row = work_coordinate(b,
                            (WorkCoordinate){.block_div = c->column_blocks,
                                             .block_mul = rows,
                                             .thread_div = c->group},
                            p->rows);
    WorkCoordinate thread = {.thread_div = 1, .thread_mod = c->group};
    if (c->column_blocks > 1) {
        thread.block_div = 1;
        thread.block_mod = c->column_blocks;
        thread.block_mul = c->group;
    }
    r.thread = work_coordinate(b, thread, items < group ? items : group);
    int64_t ends = reduction_ends(p, r.width);
    r.end = work_coordinate(b, (WorkCoordinate){.thread_div = 1, .thread_mod = c->group},
                            ends < c->group ? ends : c->group);
    work_instructions(b, (OpCost){.alu = 3}, 1);
    double words = 0;
    for (r.first = 0; r.first < p->hero_count; r.first += r.count) {
        uint32_t values;
        r.count = reduction_stage(p, r.first, c->carried, &values);
        walk(&r, false);
        meet_in_row(&r);
        for (uint32_t h = r.first; h < r.first + r.count; h++)
            words += work_reduction_bytes(p->heroes[h]) / 4;
    }
    work_registers(b, words);
    if (p->has_full)
        walk(&r, true);
    meet_in_memory(b, d, c->group, words, (double)(rows < p->rows ? rows : p->rows),
                   costs.shuffle_cycles);
    store_rows(&r, c->group > TARGET_WARP ? (double)TARGET_WARP / (double)group
                                          : 1 / (double)c->column_blocks);
    work_end(b, out);
}

/* -- both ways ---------------------------------------------------------------------------------------------- */

/* Sums of columns of a row: what is added to them is at hand, or read now. */
static void add_columns(Reduction *r)
{
    WorkBuilder *b = r->b;
    const ReductionPlan *p = r->plan;
    int64_t rounds = (p->columns / r->lanes + r->group - 1) / r->group;
    work_set_lanes(b, r->lanes);
    for (int64_t i = 0; i < rounds; i++) {
        const IndexExpr *item = ix_add(b->ix, r->thread, ix_const(b->ix, i * r->group));
        const IndexExpr *at[2] = {r->row, column_of(r, item)};
        for (uint32_t h = 0; h < p->sum_count; h++) {
            work_element(b, p->sums[h]->operands[0], at);
            work_combine(b, p->sums[h], r->lanes);
        }
    }
    work_set_lanes(b, 1);
}

/* A block's sums: of several groups they meet in shared memory. */
static void store_sums(Reduction *r, int64_t groups)
{
    WorkBuilder *b = r->b;
    const ReductionPlan *p = r->plan;
    int64_t blocks = reduction_sum_blocks(p), items = p->columns / r->lanes;
    int64_t rounds = (items + r->group - 1) / r->group;
    const IndexExpr *block =
        work_coordinate(b, (WorkCoordinate){.block_div = 1, .block_mul = 1}, blocks);
    WorkPart before = work_part_begin(b, 1 / (double)groups);
    work_set_lanes(b, r->lanes);
    for (uint32_t h = 0; h < p->sum_count; h++) {
        double words = work_reduction_bytes(p->sums[h]) / 4 * r->lanes * (double)rounds;
        if (groups > 1)
            work_shared(b, words * 2 * (double)groups, 4, 1);
        for (int64_t i = 0; i < rounds; i++) {
            const IndexExpr *item =
                ix_add(b->ix, r->thread, ix_const(b->ix, i * r->group));
            const IndexExpr *at[2] = {
                block, ix_add(b->ix, ix_mul(b->ix, item, r->lanes), work_lane(b))};
            uint32_t array = b->comp->parameter_count + p->sum_results[h];
            work_store(b, array, p->sums[h]->shape, at);
        }
    }
    work_set_lanes(b, 1);
    work_part_end(b, before);
}

void work_two_way_reduction(const KernelDesign *d, KernelWork *out)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    int64_t groups = c->block / c->group, items = p->columns / c->lanes.data[0];
    int64_t trips = (p->sum_rows + groups - 1) / groups;
    WorkBuilder *b = work_begin(d);
    Reduction r = {.b = b,
                   .plan = p,
                   .width = (uint32_t)c->lanes.data[0],
                   .lanes = (uint32_t)c->lanes.data[0],
                   .keeps = true,
                   .overlap = 1,
                   .group = (uint32_t)c->group,
                   .in_block = (uint32_t)c->group};
    const IndexExpr *first = work_coordinate(b,
                                             (WorkCoordinate){.block_div = 1,
                                                              .block_mul = p->sum_rows,
                                                              .thread_div = c->group},
                                             p->rows - (trips - 1) * groups);
    r.thread =
        work_coordinate(b, (WorkCoordinate){.thread_div = 1, .thread_mod = c->group},
                        items < c->group ? items : c->group);
    const IndexExpr *step = work_loop_begin(b, (double)trips, trips, 1);
    b->preset_loop = b->loop;
    r.row = ix_add(b->ix, first, ix_mul(b->ix, step, groups));
    for (r.first = 0; r.first < p->hero_count; r.first += r.count) {
        uint32_t values;
        r.count = reduction_stage(p, r.first, c->carried, &values);
        walk(&r, false);
        meet_in_row(&r);
    }
    add_columns(&r);
    if (p->has_full)
        walk(&r, true);
    store_rows(&r, c->group > TARGET_WARP ? (double)TARGET_WARP / (double)c->group : 1);
    work_loop_end(b, 0);
    store_sums(&r, groups);
    b->registers = (double)two_way_registers(d) - costs.register_base;
    work_end(b, out);
}

/* -- columns ------------------------------------------------------------------------------------------------ */

/* The threads that share results leave theirs in shared memory; each adds up all of them, some loads together. */
static void meet_in_column(Reduction *r, uint32_t splits, uint32_t stage_values)
{
    WorkBuilder *b = r->b;
    double words = 0, chain = 0;
    for (uint32_t h = r->first; h < r->first + r->count; h++) {
        words += work_reduction_bytes(r->plan->heroes[h]) / 4 * r->lanes;
        work_preset(b, r->plan->heroes[h]);
    }
    if (splits == 1)
        return;
    uint32_t together = reduction_splits_together(splits, stage_values * r->lanes),
             trips = splits / together;
    work_shared(b, words, 4, 1);
    work_barrier(b);
    work_loop_begin(b, trips, trips, 1);
    work_shared(b, words * together, 4, 1);
    for (uint32_t h = r->first; h < r->first + r->count; h++) {
        double cycles = work_combine(b, r->plan->heroes[h], (double)r->lanes * together);
        chain = cycles > chain ? cycles : chain;
    }
    work_loop_end(b, costs.shared_cycles + together * chain);
}

void work_column_reduction(const KernelDesign *d, KernelWork *out)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    int64_t threads = p->rows / c->lanes.data[0], groups = ceil_div(threads, c->width);
    WorkBuilder *b = work_begin(d);
    Reduction r = {.b = b,
                   .plan = p,
                   .width = (uint32_t)c->lanes.data[0],
                   .lanes = (uint32_t)c->lanes.data[0],
                   .rows_have_lanes = true,
                   .overlap = c->unroll > 1 ? (uint32_t)c->unroll : UNROLLED,
                   .group = (uint32_t)(c->splits * c->column_blocks)};
    const IndexExpr *x = work_coordinate(b,
                                         (WorkCoordinate){.block_div = 1,
                                                          .block_mod = groups,
                                                          .block_mul = c->width,
                                                          .thread_div = 1,
                                                          .thread_mod = c->width},
                                         threads);
    r.row = ix_mul(b->ix, x, r.lanes);
    r.thread = work_coordinate(b,
                               (WorkCoordinate){.block_div = groups,
                                                .block_mul = c->splits,
                                                .thread_div = c->width},
                               r.group);
    double words = 0;
    for (r.first = 0; r.first < p->hero_count; r.first += r.count) {
        uint32_t values;
        r.count = reduction_stage(p, r.first, c->carried, &values);
        walk(&r, false);
        meet_in_column(&r, (uint32_t)c->splits, values);
        for (uint32_t h = r.first; h < r.first + r.count; h++)
            words += work_reduction_bytes(p->heroes[h]) / 4 * r.lanes;
    }
    work_registers(b, words);
    if (p->has_late)
        walk(&r, true);
    meet_in_memory(b, d, c->splits, words,
                   (double)(threads < c->width ? threads : c->width), costs.alu_cycles);
    store_rows(&r, 1 / (double)r.group);
    work_end(b, out);
}
