/* Sorts, and the k largest of rows. */
#include "ir/kernel/time/work_kinds.h"

uint32_t work_log2(int64_t n)
{
    uint32_t log = 0;
    while (n > INT64_C(1) << log)
        log++;
    return log;
}

void work_position(WorkBuilder *b, const Shape *s, int64_t along, const IndexExpr *row,
                   const IndexExpr *at, const IndexExpr **out)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i], size = s->dims[d];
        if (d == along) {
            out[d] = at;
            continue;
        }
        out[d] = ix_mod(b->ix, row, size);
        row = ix_floordiv(b->ix, row, size);
    }
}

/* -- networks in shared memory ----------------------------------------------------------------------------- */

/* What the threads of a block sort together. */
typedef struct Network {
    int64_t slots;                 /* of a row, a power of two */
    int64_t rows;                  /* side by side */
    uint32_t count;                /* arrays; their positions come on top */
    double bytes;                  /* of a slot, all arrays */
    const Computation *comparator; /* NULL: of keys as numbers */
} Network;

/* Cycles of one comparison. */
static double compare(WorkBuilder *b, const Network *n, double times)
{
    OpCost key = {.alu = 4, .cycles = costs.alu_cycles};
    return n->comparator != NULL ? work_computation(b, n->comparator, times)
                                 : work_instructions(b, key, times);
}

/* One step of one pair: both slots, the order, an exchange for half of them. */
static double exchange(WorkBuilder *b, const Network *n)
{
    double accesses = n->count + 1.0, bytes = n->bytes / accesses;
    work_shared(b, 2 * accesses, bytes, 1);
    /* slots of the pair, padding, stable order, direction */
    OpCost code = {.alu = 1, .cycles = costs.alu_cycles};
    work_instructions(b, code, 18 + 2.0 * n->count);
    double cycles = compare(b, n, 1);
    work_shared(b, accesses, bytes, 2); /* partners below 32 apart share banks */
    return costs.shared_cycles + cycles + 8 * costs.alu_cycles;
}

/* So many steps of a network, each behind a barrier of all warps, or of its own. */
static void sort_steps(WorkBuilder *b, const Network *n, double steps, bool by_all)
{
    double pairs = (double)(n->slots * n->rows) / 2 / b->threads;
    work_loop_begin(b, steps, (int64_t)steps, 1);
    if (by_all)
        work_barrier(b);
    else
        work_instructions(b, (OpCost){.alu = 1}, 1); /* bar.warp.sync */
    work_loop_begin(b, pairs > 1 ? pairs : 1, (int64_t)pairs + 1, 2);
    WorkPart before = work_part_begin(b, pairs < 1 ? pairs : 1);
    exchange(b, n);
    work_part_end(b, before);
    work_loop_end(b, 0);
    work_loop_end(b, 0);
}

/* A bitonic network: log2(n) * (log2(n) + 1) / 2 steps. Barriers stand before those of partners at least 32 apart. */
static void sort_rows(WorkBuilder *b, const Network *n)
{
    double log = work_log2(n->slots), lanes = work_log2(TARGET_WARP), far = log - lanes;
    double all = log * (log + 1) / 2, between = far > 0 ? far * (far + 1) / 2 : 0;
    if (between > 0)
        sort_steps(b, n, between, true);
    sort_steps(b, n, all - between, false);
    work_barrier(b);
}

/* Loads or stores of `count` slots by all threads; row and position of a thread's slot in *row, *at. */
static void begin_slots(WorkBuilder *b, const Network *n, double slots, int64_t rows,
                        int64_t size, const IndexExpr **row, const IndexExpr **at)
{
    double trips = slots / b->threads;
    const IndexExpr *step =
        work_loop_begin(b, trips > 1 ? trips : 1, trips > 1 ? (int64_t)trips : 1, 4);
    WorkCoordinate in_row = {.thread_div = 1, .thread_mod = n->slots};
    WorkCoordinate of_block = {
        .block_div = 1, .block_mul = n->rows, .thread_div = n->rows > 1 ? n->slots : 0};
    *row = work_coordinate(b, of_block, rows);
    *at = ix_add(b->ix, work_coordinate(b, in_row, size < n->slots ? size : n->slots),
                 ix_mul(b->ix, step, b->threads));
    work_instructions(b, (OpCost){.alu = 6, .cycles = costs.alu_cycles}, 1);
}

/* -- sorts --------------------------------------------------------------------------------------------------- */

static double values_bytes(const Instruction *inst, uint32_t count)
{
    double bytes = 4; /* the position */
    for (uint32_t i = 0; i < count; i++)
        bytes += shared_bytes(inst->operands[i]->shape->dtype);
    return bytes;
}

static void sort_shared(WorkBuilder *b, const SortPlan *p, int64_t rows)
{
    const IndexExpr *row, *at, *index[KERNEL_MOST_RANK];
    Network n = {.slots = p->padded,
                 .rows = rows,
                 .count = p->count,
                 .bytes = values_bytes(p->inst, p->count),
                 .comparator = inst_called(p->inst, 0)};
    double slots = (double)(n.slots * n.rows);
    uint32_t results = (uint32_t)shape_leaf_count(b->comp->root->shape);
    for (int stores = 0; stores < 2; stores++) {
        begin_slots(b, &n, slots, p->rows * p->runs, p->run, &row, &at);
        at = ix_add(b->ix, at, ix_mul(b->ix, ix_mod(b->ix, row, p->runs), p->run));
        work_position(b, p->shape, p->along, ix_floordiv(b->ix, row, p->runs), at, index);
        for (uint32_t i = 0; i < (stores != 0 ? results : p->count); i++) {
            if (stores != 0)
                work_store(b, b->comp->parameter_count + i, p->shape, index);
            else
                work_element(b, p->inst->operands[i], index);
        }
        work_shared(b, n.count + 1.0, n.bytes / (n.count + 1.0), 1);
        work_loop_end(b, 0);
        if (stores == 0)
            sort_rows(b, &n);
    }
}

/* A search by halving: each step waits for the element that it looks at. */
static void search(WorkBuilder *b, const SortPlan *p, const IndexExpr *row,
                   const IndexExpr *from, double steps, uint32_t runs)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const IndexExpr *step = work_loop_begin(b, steps, (int64_t)steps, 1);
    for (uint32_t r = 0; r < runs; r++) {
        /* halves lie far apart; threads side by side look at neighbours */
        const IndexExpr *key = ix_add(
            b->ix, from, ix_mul(b->ix, step, p->step.run / 2 / (int64_t)steps + r + 1));
        work_position(b, p->shape, p->along, row, work_searched(b, key, p->size), index);
        for (uint32_t i = 0; i < p->count; i++)
            work_element(b, p->inst->operands[i], index);
    }
    work_wait(b, 0);
    OpCost code = {.alu = 1, .cycles = costs.alu_cycles};
    work_instructions(b, code, 12 + 2.0 * p->count);
    work_wait(b, work_computation(b, inst_called(p->inst, 0), 1) + 6 * code.cycles);
    work_loop_end(b, 0);
}

/* A thread for each element of the merged runs. */
static void merge(WorkBuilder *b, const SortPlan *p)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const IndexExpr *linear = work_elements_of_thread(b, p->rows * p->size, 1);
    const IndexExpr *row = ix_floordiv(b->ix, linear, p->size);
    const IndexExpr *mine = ix_mod(b->ix, linear, p->size);
    int64_t half = p->step.run / 2;
    double steps = work_log2(half) + 1.0;
    if (p->step.trusts) {
        work_position(b, p->shape, p->along, row, mine, index);
        for (uint32_t i = 0; i < p->count; i++)
            work_element(b, p->inst->operands[i], index);
        search(b, p, row, mine, steps, 1);
    } else { /* cuts within cuts */
        double levels = work_log2(p->step.run);
        work_loop_begin(b, levels, (int64_t)levels, 1);
        search(b, p, row, mine, (steps + 1) / 2, 2);
        work_loop_end(b, 0);
    }
    work_instructions(b, (OpCost){.alu = 12, .cycles = costs.alu_cycles}, 1);
    work_position(b, p->shape, p->along, row, work_searched(b, mine, p->size), index);
    for (uint32_t i = 0; i < p->count; i++)
        work_store(b, b->comp->parameter_count + i, p->shape, index);
}

void work_sort(const KernelDesign *d, KernelWork *out)
{
    const SortPlan *p = d->plan.sort;
    WorkBuilder *b = work_begin(d);
    work_registers(b, values_bytes(p->inst, p->count) / 2);
    if (p->step.merges)
        merge(b, p);
    else
        sort_shared(b, p, d->config.rows);
    work_end(b, out);
}

/* -- the k largest ----------------------------------------------------------------------------------------------- */

/* The rest of the row, chunk by chunk. In a random order the j-th element is one of the k best so far with
 * probability k / j: k * ln(size / slots) in all are taken, k for each time that the rest doubles, less a third. */
static void take_remaining(WorkBuilder *b, const KernelDesign *d, const Network *first)
{
    const TopKPlan *p = d->plan.topk;
    const IndexExpr *index[KERNEL_MOST_RANK];
    int64_t last = p->shape->rank - 1, slots = first->slots,
            lanes = d->config.lanes.data[0], part = (int64_t)b->threads * lanes,
            loads = d->config.unroll, batch = loads * part;
    double remaining = (double)(p->size - slots), trips = remaining / (double)batch;
    double taken = 0.7 * (double)p->k * work_log2(p->size / slots + 1);
    double free_slots = (double)(topk_limit(p, slots) - p->k);
    WorkCoordinate of_row = {.block_div = 1, .block_mul = 1};
    WorkCoordinate of_thread = {.thread_div = 1};
    const IndexExpr *row = work_coordinate(b, of_row, p->rows);
    const IndexExpr *thread = work_coordinate(b, of_thread, b->threads);
    work_set_lanes(b, (uint32_t)lanes);
    const IndexExpr *trip =
        work_loop_begin(b, trips > 1 ? trips : 1, trips > 1 ? (int64_t)trips : 1, 1);
    const IndexExpr *step = work_loop_begin(b, (double)loads, loads, (double)loads);
    const IndexExpr *at =
        ix_add(b->ix, ix_mul(b->ix, trip, batch), ix_mul(b->ix, step, part));
    at = ix_add(b->ix, at, ix_mul(b->ix, thread, lanes));
    if (lanes > 1)
        at = ix_add(b->ix, at, work_lane(b));
    work_position(b, p->shape, last, row, at, index);
    work_element(b, p->inst->operands[0], index);
    work_instructions(b, (OpCost){.alu = 5, .cycles = costs.alu_cycles}, (double)lanes);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
    WorkPart before = work_part_begin(b, taken / remaining * TARGET_WARP);
    work_shared(b, 4, first->bytes / 2, 1);
    work_part_end(b, before);
    work_barrier(b);
    work_shared(b, 3, 4, 1);
    work_barrier(b);
    work_loop_end(b, 0);
    Network n = *first;
    for (n.slots = 2; (double)n.slots < free_slots + (double)p->k && n.slots < slots;)
        n.slots *= 2;
    double sorts = taken / free_slots + 1;
    work_loop_begin(b, sorts, (int64_t)sorts, 1);
    sort_rows(b, &n);
    work_loop_end(b, 0);
}

void work_topk(const KernelDesign *d, KernelWork *out)
{
    const TopKPlan *p = d->plan.topk;
    const IndexExpr *row, *at, *index[KERNEL_MOST_RANK];
    WorkBuilder *b = work_begin(d);
    int64_t last = p->shape->rank - 1;
    Network n = {.slots = d->config.slots,
                 .rows = 1,
                 .count = 1,
                 .bytes = values_bytes(p->inst, 1)};
    begin_slots(b, &n, (double)n.slots, p->rows, p->size, &row, &at);
    work_position(b, p->shape, last, row, at, index);
    work_element(b, p->inst->operands[0], index);
    work_shared(b, 2, n.bytes / 2, 1);
    work_loop_end(b, 0);
    sort_rows(b, &n);
    if (p->size > n.slots)
        take_remaining(b, d, &n);
    begin_slots(b, &n, (double)p->k, p->rows, p->k, &row, &at);
    work_position(b, shape_leaf(p->inst->shape, 0), last, row, at, index);
    for (uint32_t leaf = 0; leaf < 2; leaf++)
        work_store(b, b->comp->parameter_count + leaf, shape_leaf(p->inst->shape, leaf),
                   index);
    work_loop_end(b, 0);
    work_end(b, out);
}
