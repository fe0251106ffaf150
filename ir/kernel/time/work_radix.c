/* A step of a radix sort. */
#include "ir/kernel/time/work_kinds.h"

/* Elements of the tile: loaded, ranked among equal digits of the warp by votes. */
static void load_tile(WorkBuilder *b, const RadixPlan *p, const IndexExpr *row,
                      const IndexExpr *first, int64_t accesses)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const IndexExpr *step =
        work_loop_begin(b, (double)accesses, accesses, (double)accesses);
    const IndexExpr *at = ix_add(b->ix, first, ix_mul(b->ix, step, TARGET_WARP));
    work_place(b, p->shape, p->along, row, at, index);
    for (uint32_t i = 0; i < p->count; i++)
        work_element(b, p->inst->operands[i], index);
    work_loop_end(b, 0);
    work_wait(b, 0);
    work_loop_begin(b, (double)accesses, accesses, 1);
    /* both elements of the comparator: one of them */
    double key = work_computation(b, inst_called(p->inst, 0), 0.5);
    OpCost bit = {.alu = 4, .cycles = 3 * costs.alu_cycles};
    work_instructions(b, bit, RADIX_BITS);
    work_instructions(b, (OpCost){.alu = 10, .cycles = costs.alu_cycles}, 1);
    work_shared(b, 2, 4, 1); /* an atomic */
    work_shuffles(b, 1, 4);
    work_wait(b, key / 4 + costs.shared_cycles + costs.shuffle_cycles);
    work_loop_end(b, 0);
    work_barrier(b);
}

/* A thread for each digit. */
static void find_starts(WorkBuilder *b)
{
    enum { ASKED = 4 }; /* tiles, until one knows of all before */
    work_shared(b, 3.0 * b->warps, 4, 1);
    work_instructions(b, (OpCost){.alu = 4, .cycles = costs.alu_cycles}, b->warps);
    work_shuffles(b, 10, 4);
    work_instructions(b, (OpCost){.alu = 2, .cycles = costs.alu_cycles}, 20);
    work_barrier(b);
    work_instructions(b, (OpCost){.alu = 12, .cycles = costs.alu_cycles}, ASKED);
    work_wait(b, 2 * costs.atomic_cycles);
    work_barrier(b);
}

/* Elements through shared memory, and to where their digits begin. */
static void store_tile(WorkBuilder *b, const RadixPlan *p, const IndexExpr *row,
                       const IndexExpr *sorted, int64_t accesses)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    double words = 0;
    for (uint32_t i = 0; i < p->count; i++)
        words += (shared_bytes(p->inst->operands[i]->shape->dtype) + 3) / 4;
    double n = (double)accesses;
    work_shared(b, n * 3, 4, 1);
    work_shared(b, n * words, 4, 2); /* slots of a warp's lanes lie anywhere */
    work_instructions(b, (OpCost){.alu = 6, .cycles = costs.alu_cycles}, n);
    work_barrier(b);
    const IndexExpr *step = work_loop_begin(b, n, accesses, n);
    work_shared(b, 2 + words, 4, 1);
    work_instructions(b, (OpCost){.alu = 8, .cycles = costs.alu_cycles}, 1);
    const IndexExpr *at = ix_add(b->ix, sorted, ix_mul(b->ix, step, b->threads));
    work_place(b, p->shape, p->along, row, at, index);
    for (uint32_t i = 0; i < p->count; i++)
        work_store(b, b->comp->parameter_count + i, shape_leaf(p->inst->shape, i), index);
    work_loop_end(b, 0);
}

void work_radix_sort(const KernelDesign *d, KernelWork *out)
{
    const RadixPlan *p = d->plan.radix;
    WorkBuilder *b = work_begin(d);
    int64_t accesses = d->config.accesses;
    RadixTiles t;
    radix_tiles(d, &t);
    work_registers(b, (double)(p->live_words * accesses));
    WorkCoordinate of_row = {.block_div = t.tiles, .block_mul = 1};
    WorkCoordinate of_tile = {
        .block_div = 1, .block_mod = t.tiles, .block_mul = t.elements};
    WorkCoordinate of_warp = {.thread_div = TARGET_WARP};
    WorkCoordinate of_lane = {.thread_div = 1, .thread_mod = TARGET_WARP};
    WorkCoordinate of_thread = {.thread_div = 1};
    const IndexExpr *row = work_coordinate(b, of_row, p->rows);
    const IndexExpr *tile = work_coordinate(b, of_tile, p->size);
    const IndexExpr *warp =
        ix_mul(b->ix, work_coordinate(b, of_warp, b->warps), TARGET_WARP * accesses);
    const IndexExpr *lane = work_coordinate(b, of_lane, TARGET_WARP);
    work_atomics(b, 1);
    work_wait(b, costs.atomic_cycles);
    work_shared(b, b->warps, 4, 1);
    work_barrier(b);
    load_tile(b, p, row, ix_add(b->ix, tile, ix_add(b->ix, warp, lane)), accesses);
    find_starts(b);
    store_tile(b, p, row, ix_add(b->ix, tile, work_coordinate(b, of_thread, b->threads)),
               accesses);
    work_end(b, out);
}
