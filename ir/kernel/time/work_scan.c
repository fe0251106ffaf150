/* Cumulative windows. */
#include "ir/kernel/time/work_kinds.h"

static void scan_load(WorkBuilder *b, const ScanPlan *p, const IndexExpr *const *index)
{
    for (uint32_t i = 0; i < p->count; i++)
        work_element(b, p->inst->operands[i], index);
}

static void scan_store(WorkBuilder *b, const IndexExpr *const *index)
{
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++)
        work_store(b, b->comp->parameter_count + i, fusion_result(b->fusion, i).shape,
                   index);
}

/* A thread for each row. */
static void walk_rows(WorkBuilder *b, const ScanPlan *p)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const IndexExpr *row = work_elements_of_thread(b, p->rows, 1);
    const IndexExpr *step = work_loop_begin(b, (double)p->size, p->size, 4);
    work_position(b, p->shape, p->along, row, step, index);
    scan_load(b, p, index);
    double cycles = work_combine(b, p->inst, 1);
    scan_store(b, index);
    work_loop_end(b, cycles);
}

/* A block for each row, chunk by chunk: lanes, then warps, then the chunk before. */
static void scan_rows(WorkBuilder *b, const ScanPlan *p, uint32_t items)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const IndexExpr *row =
        work_coordinate(b, (WorkCoordinate){.block_div = 1, .block_mul = 1}, p->rows);
    const IndexExpr *thread =
        work_coordinate(b, (WorkCoordinate){.thread_div = 1}, b->threads);
    double chunks = (double)p->size / items / b->threads;
    int64_t whole = p->size / items / b->threads;
    double bytes = work_reduction_bytes(p->inst), warps = b->warps;
    work_set_lanes(b, items);
    const IndexExpr *step =
        work_loop_begin(b, chunks > 1 ? chunks : 1, whole < 1 ? 1 : whole + 1, 1);
    const IndexExpr *access = ix_add(b->ix, ix_mul(b->ix, step, b->threads), thread);
    work_position(b, p->shape, p->along, row,
                  ix_add(b->ix, ix_mul(b->ix, access, items), work_lane(b)), index);
    scan_load(b, p, index);
    work_wait(b, 0);
    double one = work_combine(b, p->inst, 2.0 * items);
    work_shuffles(b, 5, bytes);
    work_wait(b, items * one + 5 * work_combine(b, p->inst, 5));
    work_shared(b, bytes / 4, 4, 1);
    work_barrier(b);
    work_loop_begin(b, warps, b->warps, 2);
    work_shared(b, bytes / 4, 4, 1);
    work_instructions(b, (OpCost){.alu = 2, .cycles = costs.alu_cycles}, 1);
    work_loop_end(b, work_combine(b, p->inst, 1) + costs.alu_cycles);
    work_barrier(b);
    scan_store(b, index);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

/* Blocks ask for nodes of all levels, at once where they have few words; what is told was on its way to L2 and back. */
static void look_back(WorkBuilder *b, const KernelDesign *d, double one)
{
    LookbackTree tree;
    lookback_tree(d, &tree);
    if (tree.levels == 0)
        return;
    double bytes = work_reduction_bytes(d->plan.scan->inst);
    double asks = tree.words <= LOOKBACK_ASKED_WORDS ? 1 : tree.levels;
    work_atomics(b, 1); /* the ticket */
    work_wait(b, costs.atomic_cycles);
    work_barrier(b);
    WorkPart before = work_part_begin(b, 1.0 / b->warps);
    work_loop_begin(b, tree.levels, tree.levels, 1);
    work_instructions(b, (OpCost){.alu = 12, .cycles = costs.alu_cycles}, tree.words);
    work_shuffles(b, 6, bytes);
    work_combine(b, d->plan.scan->inst, 7);
    work_wait(b, 2 * costs.atomic_cycles * asks / tree.levels + 6 * costs.shuffle_cycles +
                     6 * one);
    work_loop_end(b, 0);
    work_part_end(b, before);
    work_barrier(b);
}

/* Number of the thread's first access in its row: warps lie `accesses` warps apart. */
static const IndexExpr *first_access(WorkBuilder *b, const KernelDesign *d, int64_t all,
                                     int64_t tiles)
{
    int64_t accesses = d->config.accesses, tile = d->config.block * accesses;
    WorkCoordinate of_tile = {.block_div = 1, .block_mod = tiles, .block_mul = tile};
    WorkCoordinate of_warp = {.thread_div = TARGET_WARP};
    WorkCoordinate of_lane = {.thread_div = 1, .thread_mod = TARGET_WARP};
    const IndexExpr *warp =
        ix_mul(b->ix, work_coordinate(b, of_warp, b->warps), TARGET_WARP * accesses);
    return ix_add(b->ix, work_coordinate(b, of_tile, all),
                  ix_add(b->ix, warp, work_coordinate(b, of_lane, TARGET_WARP)));
}

/* Lanes of all accesses, then warps. Gives the cycles of one joining. */
static double scan_tile(WorkBuilder *b, const KernelDesign *d)
{
    const Instruction *inst = d->plan.scan->inst;
    double items = (double)d->config.items, accesses = (double)d->config.accesses;
    double bytes = work_reduction_bytes(inst);
    work_loop_begin(b, accesses, d->config.accesses, accesses);
    double one = work_combine(b, inst, 2 * items + 6);
    work_shuffles(b, 7, bytes);
    work_loop_end(b, 0);
    work_wait(b, (items + accesses) * one + 5 * (one + costs.shuffle_cycles));
    work_shared(b, 3 * bytes / 4, 4, 1);
    work_barrier(b);
    work_shuffles(b, 6, bytes);
    work_combine(b, inst, 5);
    work_wait(b, costs.shared_cycles + 5 * one + 6 * costs.shuffle_cycles);
    return one;
}

void work_lookback_scan(const KernelDesign *d, KernelWork *out)
{
    const ScanPlan *p = d->plan.scan;
    WorkBuilder *b = work_begin(d);
    const IndexExpr *index[KERNEL_MOST_RANK];
    int64_t items = d->config.items, accesses = d->config.accesses, all = p->size / items,
            tile = d->config.block * accesses, tiles = all / tile + (all % tile != 0);
    double used = (double)all / ((double)tiles * (double)tile);
    work_registers(b, work_reduction_bytes(p->inst) / 4 * (double)(items * accesses));
    WorkCoordinate of_row = {.block_div = tiles, .block_mul = 1};
    const IndexExpr *row = work_coordinate(b, of_row, p->rows);
    const IndexExpr *first = first_access(b, d, all, tiles);
    for (int stores = 0; stores < 2; stores++) {
        work_set_lanes(b, (uint32_t)items);
        const IndexExpr *step =
            work_loop_begin(b, (double)accesses * used, accesses, (double)accesses);
        const IndexExpr *at = ix_add(b->ix, first, ix_mul(b->ix, step, TARGET_WARP));
        work_position(b, p->shape, p->along, row,
                      ix_add(b->ix, ix_mul(b->ix, at, items), work_lane(b)), index);
        if (stores == 0) {
            scan_load(b, p, index);
        } else {
            work_combine(b, p->inst, (double)items + 1);
            work_shuffles(b, 1, work_reduction_bytes(p->inst));
            scan_store(b, index);
        }
        work_loop_end(b, 0);
        work_set_lanes(b, 1);
        if (stores == 0)
            look_back(b, d, scan_tile(b, d));
    }
    work_end(b, out);
}

void work_window_scan(const KernelDesign *d, KernelWork *out)
{
    WorkBuilder *b = work_begin(d);
    if (d->config.group == 1)
        walk_rows(b, d->plan.scan);
    else
        scan_rows(b, d->plan.scan, (uint32_t)d->config.items);
    work_end(b, out);
}
