/* A step of a radix sort. Instructions as in the SASS of its kernels (nvdisasm, sm_90a, sm_100a). */
#include <math.h>

#include "ir/kernel/time/work_kinds.h"

/* Where elements of a tile lie: of its warps as they are loaded; of its threads as they are stored. */
typedef struct RadixWork {
    WorkBuilder *b;
    const RadixPlan *p;
    const IndexExpr *row, *tile, *of_warp, *of_thread;
    int64_t accesses;
} RadixWork;

/* Elements of the tile: loaded, ranked among equal digits of the warp by votes. */
static void load_tile(const RadixWork *w)
{
    WorkBuilder *b = w->b;
    const RadixPlan *p = w->p;
    double n = (double)w->accesses;
    const IndexExpr *index[KERNEL_MOST_RANK];
    work_shared(b, RADIX_DIGITS / TARGET_WARP, 4, 1); /* counts are cleared */
    const IndexExpr *step = work_loop_begin(b, n, w->accesses, n);
    const IndexExpr *at = ix_add(b->ix, ix_add(b->ix, w->tile, w->of_warp),
                                 ix_mul(b->ix, step, TARGET_WARP));
    work_position(b, p->shape, p->along, w->row, at, index);
    for (uint32_t i = 0; i < p->count; i++)
        work_element(b, p->inst->operands[i], index);
    work_loop_end(b, 0);
    work_wait(b, 0);
    work_loop_begin(b, n, w->accesses, 1);
    /* both elements of the comparator: one of them */
    double key = work_computation(b, inst_called(p->inst, 0), 0.5);
    OpCost bit = {.alu = 4, .cycles = 3 * costs.alu_cycles};
    OpCost rank = {.alu = 3, .add = 2, .mufu = 1, .cycles = costs.alu_cycles};
    work_instructions(b, bit, RADIX_BITS);
    work_instructions(b, rank, 1);
    work_shared(b, 2, 4, costs.random_banks); /* of a warp's counts: read, written */
    work_wait(b, key / 4 + costs.shared_cycles + costs.mufu_cycles);
    work_loop_end(b, 0);
    work_barrier(b);
}

/* A thread for each digit: where its elements of each warp begin in the tile. */
static void find_starts(const RadixWork *w)
{
    WorkBuilder *b = w->b;
    WorkPart before = work_part_begin(b, (double)RADIX_DIGITS / b->threads);
    work_shared(b, 3.0 * b->warps + 1, 4, 1);
    work_shared(b, 3, 4, costs.random_banks); /* its bit: read, written; its number */
    work_instructions(b, (OpCost){.add = 2, .cycles = costs.alu_cycles}, b->warps);
    work_shuffles(b, 5, 4);
    work_instructions(b, (OpCost){.alu = 1, .add = 1, .cycles = 2 * costs.alu_cycles}, 5);
    work_part_end(b, before);
    work_barrier(b);
    work_shared(b, RADIX_DIGITS / TARGET_WARP / 4.0, 16, 1);
    work_instructions(b, (OpCost){.alu = 1, .add = 1, .cycles = costs.alu_cycles},
                      RADIX_DIGITS / TARGET_WARP);
    work_barrier(b);
}

/* Part of the lines that L2 gives up before the next tile's elements of the digit fill them: what all blocks at work read
 * and write meanwhile. A range has lines of its own for each digit; tiles that look back share theirs. */
static double part_lost(const RadixWork *w)
{
    const WorkBuilder *b = w->b;
    const RadixPlan *p = w->p;
    double elements = (double)w->accesses * b->threads, bytes = 0;
    double at_work = (double)(RADIX_THREADS / b->threads) * b->device->multiprocessors;
    at_work = at_work < b->blocks ? at_work : b->blocks;
    for (uint32_t i = 0; i < p->count; i++) {
        double size = shared_bytes(p->inst->operands[i]->shape->dtype),
               written = elements * size;
        if (p->ranges != 0)
            written += RADIX_DIGITS * (costs.line_bytes - size);
        bytes += elements * size + written;
    }
    double kept = b->device->l2_kib * 1024.0 * costs.l2_kept;
    return at_work * bytes > kept ? 1 - kept / (at_work * bytes) : 0;
}

/* A tile's elements of a digit begin and end anywhere in a sector and in a line. A sector that is written in parts is read
 * as well, if L2 gives it up between them: U.S. patent 9,110,809 (NVIDIA), "Reducing memory traffic in DRAM ECC mode". */
static void tear_sectors(const RadixWork *w, uint32_t array, double tiles)
{
    WorkBuilder *b = w->b;
    double size = shared_bytes(w->p->inst->operands[array]->shape->dtype),
           elements = (double)w->accesses * b->threads,
           runs = elements < RADIX_DIGITS ? elements : RADIX_DIGITS,
           pieces = 1 + (TARGET_WARP - 1) * runs / elements; /* of a warp's elements */
    WorkLoop *l = work_loop_at(b, b->loop);
    l->counts.shared += pieces * (costs.line_bytes - size) / costs.line_bytes;
    double all = tiles * b->blocks, torn = costs.sector_bytes - size;
    if (torn <= 0)
        return;
    b->torn_l2 += all * pieces * torn * elements / TARGET_WARP;
    b->torn_written += all * runs * torn * part_lost(w);
    b->torn_read += all * runs * 2 * torn * part_lost(w);
}

/* A thread for each access of a warp: which digit its first slot has, by halving. */
static void find_first_digits(const RadixWork *w)
{
    WorkBuilder *b = w->b;
    OpCost half = {.alu = 2, .add = 1, .cycles = 2 * costs.alu_cycles};
    WorkPart before = work_part_begin(b, (double)w->accesses / TARGET_WARP);
    work_shared(b, RADIX_BITS + 1, 4, costs.random_banks);
    work_shared(b, 2, 4, 2); /* cleared; the number */
    work_instructions(b, half, RADIX_BITS);
    work_part_end(b, before);
    work_wait(b, RADIX_BITS * (costs.shared_cycles + half.cycles));
}

/* Elements through shared memory, and to where their digits begin. */
static void store_tile(const RadixWork *w, double tiles)
{
    WorkBuilder *b = w->b;
    const RadixPlan *p = w->p;
    const IndexExpr *index[KERNEL_MOST_RANK];
    double words = 0, n = (double)w->accesses;
    for (uint32_t i = 0; i < p->count; i++)
        words += (shared_bytes(p->inst->operands[i]->shape->dtype) + 3) / 4;
    /* slots of a warp's lanes lie anywhere: of its counts, of elements */
    work_shared(b, n * (1 + words), 4, costs.random_banks);
    work_instructions(b, (OpCost){.alu = 1, .add = 1, .cycles = costs.alu_cycles}, n);
    find_first_digits(w);
    work_barrier(b);
    const IndexExpr *step = work_loop_begin(b, n, w->accesses, n);
    /* digits of a warp's slots, how much further on digits begin, elements */
    OpCost to = {.alu = 2, .add = 2, .mufu = 1, .cycles = 3 * costs.alu_cycles};
    work_shared(b, p->count * 2 + words, 4, 1);
    work_instructions(b, to, p->count);
    const IndexExpr *at = ix_add(b->ix, ix_add(b->ix, w->tile, w->of_thread),
                                 ix_mul(b->ix, step, b->threads));
    work_position(b, p->shape, p->along, w->row, at, index);
    for (uint32_t i = 0; i < p->count; i++) {
        if (i != 0)
            work_barrier(b);
        work_store(b, b->comp->parameter_count + i, shape_leaf(p->inst->shape, i), index);
        tear_sectors(w, i, tiles);
    }
    work_loop_end(b, 0);
}

/* Tiles that a block asks, one after the other, until one knows of all before. Let all that are at work tell what they
 * have at one time, and f(i) be how many hops tile i needs. It meets what tile i - f(i) found out, which knows it
 * after as many hops: f(i) = f(i - f(i)) + 1, so f(i) is about the square root of 2 i. Measured: docs/measured.md,
 * "Radix sorts". */
static double lookback_hops(const RadixWork *w, int64_t tiles)
{
    double resident = (double)(RADIX_THREADS / w->b->threads);
    double at_work = resident * w->b->device->multiprocessors;
    at_work = at_work < (double)tiles ? at_work : (double)tiles;
    return sqrt(2 * at_work);
}

/* A block takes a tile, and asks those before it where its digits go. */
static void work_tiles(RadixWork *w, const RadixTiles *t)
{
    WorkBuilder *b = w->b;
    WorkCoordinate of_row = {.block_div = t->tiles, .block_mul = 1};
    WorkCoordinate of_tile = {
        .block_div = 1, .block_mod = t->tiles, .block_mul = t->elements};
    w->row = work_coordinate(b, of_row, w->p->rows);
    w->tile = work_coordinate(b, of_tile, w->p->size);
    work_atomics(b, 1); /* the ticket */
    work_wait(b, costs.atomic_cycles);
    work_shared(b, 1, 4, 1);
    work_barrier(b);
    load_tile(w);
    find_starts(w);
    double hops = lookback_hops(w, t->tiles);
    OpCost hop = {.alu = 8, .add = 4, .cycles = 12 * costs.alu_cycles};
    WorkPart before = work_part_begin(b, (double)RADIX_DIGITS / b->threads);
    work_instructions(b, hop, hops);
    work_part_end(b, before);
    work_wait(b, hops * (b->rates->l2_cycles + hop.cycles));
    store_tile(w, 1);
}

/* A block takes a range, tile by tile; counts say where its digits begin. */
static void work_ranges(RadixWork *w, const RadixTiles *t)
{
    WorkBuilder *b = w->b;
    const RadixPlan *p = w->p;
    const Instruction *counts = b->comp->parameters[p->histogram];
    WorkCoordinate of_row = {.block_div = p->ranges, .block_mul = 1};
    WorkCoordinate of_range = {
        .block_div = 1, .block_mod = p->ranges, .block_mul = p->range};
    WorkCoordinate number = {.block_div = 1, .block_mod = p->ranges, .block_mul = 1};
    w->row = work_coordinate(b, of_row, p->rows);
    const IndexExpr *digit = work_coordinate(b, (WorkCoordinate){.thread_div = 1},
                                             RADIX_DIGITS),
                    *range = work_coordinate(b, number, p->ranges),
                    *index[KERNEL_MOST_RANK];
    for (uint32_t i = 0; i < 2; i++) {
        const IndexExpr *up_to = i == 0 ? ix_const(b->ix, p->ranges - 1) : range;
        const IndexExpr *at = ix_add(b->ix, ix_mul(b->ix, digit, p->ranges), up_to);
        at = ix_add(b->ix, at, ix_mul(b->ix, w->row, RADIX_DIGITS * p->ranges));
        index_delinear(b->ix, counts->shape, at, index);
        work_element(b, counts, index);
    }
    work_wait(b, 0);
    find_starts(w);
    const IndexExpr *step = work_loop_begin(b, (double)t->tiles, t->tiles, 1);
    w->tile = ix_add(b->ix, work_coordinate(b, of_range, p->size),
                     ix_mul(b->ix, step, t->elements));
    load_tile(w);
    find_starts(w);
    store_tile(w, (double)t->tiles);
    work_loop_end(b, 0);
}

void work_radix_sort(const KernelDesign *d, KernelWork *out)
{
    RadixWork w = {.b = work_begin(d), .p = d->plan.radix};
    WorkBuilder *b = w.b;
    RadixTiles t;
    radix_tiles(d, &t);
    w.accesses = d->config.accesses;
    work_registers(b, (double)(w.p->live_words * w.accesses));
    WorkCoordinate of_warp = {.thread_div = TARGET_WARP};
    WorkCoordinate of_lane = {.thread_div = 1, .thread_mod = TARGET_WARP};
    const IndexExpr *warp = work_coordinate(b, of_warp, b->warps);
    w.of_warp = ix_add(b->ix, ix_mul(b->ix, warp, TARGET_WARP * w.accesses),
                       work_coordinate(b, of_lane, TARGET_WARP));
    w.of_thread = work_coordinate(b, (WorkCoordinate){.thread_div = 1}, b->threads);
    if (w.p->ranges != 0)
        work_ranges(&w, &t);
    else
        work_tiles(&w, &t);
    work_end(b, out);
}
