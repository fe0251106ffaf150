/* Scatters: a thread for each element of the updates, or owners of positions that walk over all updates. */
#include "ir/analysis/collective.h"
#include "ir/base/divide.h"
#include "ir/kernel/time/work_kinds.h"

/* Where the index vector lies, from an update's index: all but the vector's own dimension. */
static void indices_position(const ScatterPlan *p, const IndexExpr *const *update,
                             const IndexExpr **out)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < p->update->rank; i++) {
        if (ints_find(p->window_dims, i) >= 0)
            continue;
        if (next == p->vector_dim)
            next++;
        out[next++] = update[i];
    }
}

/* A component of the index vector, and the test that the window fits. */
static const IndexExpr *start_of(WorkBuilder *b, const ScatterPlan *p,
                                 const IndexExpr *const *position, int64_t component,
                                 int64_t most)
{
    const IndexExpr *at[KERNEL_MOST_RANK];
    const Shape *s = p->indices->shape;
    for (uint32_t i = 0; i < s->rank; i++)
        at[i] = i == p->vector_dim ? ix_const(b->ix, component) : position[i];
    WorkValue v = work_element(b, p->indices, at);
    OpCost test = {.alu = 2, .cycles = 2 * costs.alu_cycles};
    work_add(b, v.loop, test, 1);
    v.ready += test.cycles;
    work_ready(b, v.loop, v.ready);
    if (most <= 0)
        return ix_const(b->ix, 0);
    return work_data(b, index_linear(b->ix, s, at), (Range){0, most}, v);
}

/* Where an update's element goes. */
static void destination(WorkBuilder *b, const ScatterPlan *p,
                        const IndexExpr *const *update, const IndexExpr **out)
{
    const IndexExpr *position[KERNEL_MOST_RANK];
    indices_position(p, update, position);
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t update_dim, size = scatter_window_size(p, d, &update_dim);
        int64_t component = ints_find(p->start_map, d), batch = ints_find(p->batching, d);
        out[d] = update_dim >= 0 ? update[update_dim] : ix_const(b->ix, 0);
        if (batch >= 0)
            out[d] = position[p->index_batching.data[batch]];
        else if (component >= 0)
            out[d] =
                ix_add(b->ix, out[d],
                       start_of(b, p, position, component, p->operand->dims[d] - size));
    }
}

/* The updates of all arrays, combined into their positions. */
static double combine(WorkBuilder *b, const ScatterPlan *p,
                      const IndexExpr *const *update, const IndexExpr *const *to)
{
    uint32_t results = b->comp->parameter_count;
    for (uint32_t i = 0; i < p->count; i++)
        work_element(b, p->inst->operands[p->count + 1 + i], update);
    if (p->strategy == SCATTER_ATOMIC) {
        work_atomics(b, 1);
        work_count_index(b, index_linear(b->ix, p->operand, to));
        return 0;
    }
    for (uint32_t i = 0; i < p->count; i++)
        work_load(b, results + i, p->operand, to);
    double cycles = work_computation(b, inst_called(p->inst, 0), 1);
    for (uint32_t i = 0; i < p->count; i++)
        work_store(b, results + i, p->operand, to);
    return cycles;
}

/* A thread for each update. Of unique ones no more than there are positions lead to one; the others end at the test. */
static void scatter_elements(WorkBuilder *b, const ScatterPlan *p)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    double updates = (double)shape_elements(p->update),
           positions = (double)shape_elements(p->operand);
    bool is_unique = p->strategy == SCATTER_UNIQUE;
    const IndexExpr *linear = work_elements_of_thread(b, shape_elements(p->update), 1);
    index_delinear(b->ix, p->update, linear, update);
    destination(b, p, update, to);
    for (uint32_t i = 0; i < p->count; i++) /* some of nearly every sector */
        work_element(b, p->inst->operands[p->count + 1 + i], update);
    WorkPart before =
        work_part_begin(b, is_unique && positions < updates ? positions / updates : 1);
    combine(b, p, update, to);
    work_part_end(b, before);
}

/* Part of the warps that own a position: those with a thread of its owner. */
static double part_of_owner(const ScatterPlan *p, int64_t owners)
{
    double warps = (double)p->free_positions / TARGET_WARP;
    return (warps > 1 ? warps : 1) /
           ((warps * (double)owners > 1) ? warps * (double)owners : 1);
}

/* Threads of one owner lie side by side: one for each position that the indices do not choose. */
static void walk_updates(WorkBuilder *b, const ScatterPlan *p, int64_t owners)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    const IndexExpr *linear = work_elements_of_thread(b, p->free_positions * owners, 1);
    work_spread(b, p->update, p->free_dims, p->free_count,
                ix_mod(b->ix, linear, p->free_positions), update);
    const IndexExpr *step = work_loop_begin(b, (double)p->steps, p->steps, 1);
    work_spread(b, p->update, p->walked, p->walked_count, step, update);
    destination(b, p, update, to);
    OpCost own = {.alu = 2, .cycles = 2 * costs.alu_cycles};
    work_instructions(b, own, owners > 1 ? 1 : 0);
    WorkPart before = work_predicate_begin(b, part_of_owner(p, owners));
    combine(b, p, update, to);
    work_part_end(b, before);
    work_loop_end(b, 0);
}

/* A thread for each update and each position that the indices do not choose: it looks at all others. */
static void walk_others(WorkBuilder *b, const ScatterPlan *p)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    const IndexExpr *linear = work_elements_of_thread(b, p->free_positions * p->steps, 1);
    work_spread(b, p->update, p->free_dims, p->free_count,
                ix_mod(b->ix, linear, p->free_positions), update);
    const IndexExpr *step = work_loop_begin(b, (double)p->steps, p->steps, 1);
    work_spread(b, p->update, p->walked, p->walked_count, step, update);
    destination(b, p, update, to);
    work_instructions(b, (OpCost){.alu = 4, .cycles = 2 * costs.alu_cycles}, 1);
    work_loop_end(b, 0);
    work_spread(b, p->update, p->walked, p->walked_count,
                ix_floordiv(b->ix, linear, p->free_positions), update);
    destination(b, p, update, to);
    combine(b, p, update, to);
}

/* Updates of one position that stand side by side: where they were not cut, all that it has. */
static double run_length(const ScatterPlan *p)
{
    OpCode op = collective_reduction(inst_called(p->inst, 0));
    double positions = (double)shape_elements(p->operand) / (double)p->free_positions,
           most = op == OP_ADD || op == OP_MULTIPLY ? 2 * SCATTER_PIECE - 1
                                                    : (double)p->steps,
           run = (double)p->steps / positions;
    run = run < most ? run : most;
    return run > 1 ? run : 1;
}

/* Threads begin with a few updates each, and go on until the last run that began there is over. */
static void walk_runs(WorkBuilder *b, const ScatterPlan *p, int64_t items, int64_t lanes)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    int64_t shares = ceil_div(p->steps, items);
    double run = run_length(p);
    int64_t parts = p->free_positions / lanes;
    const IndexExpr *linear = work_elements_of_thread(b, parts * shares, 1);
    const IndexExpr *first = ix_mul(b->ix, ix_floordiv(b->ix, linear, parts), items);
    const IndexExpr *part = ix_mul(b->ix, ix_mod(b->ix, linear, parts), lanes);
    uint32_t results = b->comp->parameter_count;
    work_spread(b, p->update, p->free_dims, p->free_count, part, update);
    const IndexExpr *ahead =
        work_loop_begin(b, (double)items + run - 1, items, (double)items);
    work_spread(b, p->update, p->walked, p->walked_count, ix_add(b->ix, first, ahead),
                update);
    destination(b, p, update, to);
    work_instructions(b, (OpCost){.alu = 6, .cycles = 3 * costs.alu_cycles}, 1);
    work_loop_end(b, 0);
    /* each update is one thread's */
    work_set_lanes(b, (uint32_t)lanes);
    if (lanes > 1)
        work_spread(b, p->update, p->free_dims, p->free_count,
                    ix_add(b->ix, part, work_lane(b)), update);
    const IndexExpr *step = work_loop_begin(b, (double)items, items, (double)items);
    work_spread(b, p->update, p->walked, p->walked_count, ix_add(b->ix, first, step),
                update);
    destination(b, p, update, to);
    for (uint32_t i = 0; i < p->count; i++)
        work_element(b, p->inst->operands[p->count + 1 + i], update);
    double cycles = work_computation(b, inst_called(p->inst, 0), (double)lanes);
    WorkPart before = work_part_begin(b, 1 / run);
    for (uint32_t i = 0; i < p->count; i++) {
        work_load(b, results + i, p->operand, to);
        work_store(b, results + i, p->operand, to);
    }
    work_part_end(b, before);
    work_loop_end(b, cycles);
    work_set_lanes(b, 1);
}

/* The index of the array at position `number` of a batch. */
static void batch_position(WorkBuilder *b, const ScatterPlan *p, const IndexExpr *batch,
                           const IndexExpr *number, const IndexExpr **out)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *at[KERNEL_MOST_RANK];
    uint32_t dims[KERNEL_MOST_RANK], count = 0;
    for (uint32_t i = 0; i < p->update->rank; i++)
        update[i] = ix_const(b->ix, 0);
    work_spread(b, p->update, p->free_dims, p->free_count, batch, update);
    indices_position(p, update, at);
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t i = ints_find(p->batching, d);
        out[d] = i >= 0 ? at[p->index_batching.data[i]] : ix_const(b->ix, 0);
        if (ints_find(p->start_map, d) >= 0)
            dims[count++] = d;
    }
    work_spread(b, p->operand, dims, count, number, out);
}

/* All positions of a batch between the array and shared memory. */
static void move_positions(WorkBuilder *b, const ScatterPlan *p, int64_t block,
                           const IndexExpr *batch, const IndexExpr *thread, bool stores)
{
    const IndexExpr *at[KERNEL_MOST_RANK];
    const Instruction *from = p->inst->operands[0];
    int64_t trips = ceil_div(p->positions, block);
    const IndexExpr *step = work_loop_begin(b, (double)trips, trips, 1);
    const IndexExpr *number = ix_add(b->ix, ix_mul(b->ix, step, block), thread);
    batch_position(b, p, batch, number, at);
    if (stores)
        work_store(b, b->comp->parameter_count, p->operand, at);
    else if (behind_bitcasts(from)->op != OP_PARAMETER)
        work_element(b, from, at);
    else
        work_load(b, b->comp->parameter_count, p->operand, at);
    work_shared(b, 1, shared_bytes(p->accumulator), 1);
    work_loop_end(b, 0);
}

/* Lanes that meet in one position: as many pairs as 32 lanes make, if positions are chosen at random. */
static double combine_in_warp(WorkBuilder *b, const ScatterPlan *p, unsigned bytes)
{
    double bits = work_log2(p->positions), most = TARGET_WARP - 1;
    double pairs = TARGET_WARP * most / 2 / (double)p->positions;
    double others = pairs < most ? pairs : most;
    OpCost bit = {.alu = 4, .cycles = 3 * costs.alu_cycles};
    work_instructions(b, bit, bits);
    work_instructions(b, (OpCost){.alu = 12, .cycles = costs.alu_cycles}, 1);
    work_shuffles(b, others, bytes);
    work_instructions(b, (OpCost){.alu = 6, .cycles = costs.alu_cycles}, others);
    work_computation(b, inst_called(p->inst, 0), others + 1);
    work_shared(b, 2, bytes, 1);
    work_barrier(b);
    return bits * bit.cycles + (others + 1) * 4 * costs.alu_cycles +
           others * costs.shuffle_cycles + costs.shared_cycles;
}

static void walk_shared(WorkBuilder *b, const ScatterPlan *p, const KernelConfig *c)
{
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    unsigned bytes = shared_bytes(p->accumulator);
    int64_t block = c->block, ahead = c->unroll, taken = ahead * block;
    int64_t trips = ceil_div(p->steps, taken);
    const IndexExpr *batch = work_coordinate(
        b, (WorkCoordinate){.block_div = 1, .block_mul = 1}, p->free_positions);
    const IndexExpr *thread =
        work_coordinate(b, (WorkCoordinate){.thread_div = 1}, block);
    move_positions(b, p, block, batch, thread, false);
    work_barrier(b);
    const IndexExpr *trip = work_loop_begin(b, (double)trips, trips, 1);
    const IndexExpr *one = work_loop_begin(b, (double)ahead, ahead, (double)ahead);
    const IndexExpr *step = ix_add(b->ix, ix_mul(b->ix, trip, taken),
                                   ix_add(b->ix, ix_mul(b->ix, one, block), thread));
    work_spread(b, p->update, p->free_dims, p->free_count, batch, update);
    work_spread(b, p->update, p->walked, p->walked_count, step, update);
    destination(b, p, update, to);
    work_element(b, p->inst->operands[2], update);
    work_loop_end(b, 0);
    work_loop_begin(b, (double)ahead, ahead, 1);
    bool waits = p->operation == OP_COUNT; /* each update for the one before */
    double cycles = costs.shared_cycles;
    if (waits)
        cycles += combine_in_warp(b, p, bytes);
    else
        work_shared(b, 2, bytes, 2); /* read, added to, written; some lanes meet */
    work_loop_end(b, waits ? cycles : 0);
    work_loop_end(b, waits ? 0 : cycles);
    work_barrier(b);
    move_positions(b, p, block, batch, thread, true);
}

void work_histogram(const KernelDesign *d, KernelWork *out)
{
    const ScatterPlan *p = d->plan.scatter;
    const IndexExpr *update[KERNEL_MOST_RANK], *to[KERNEL_MOST_RANK];
    WorkBuilder *b = work_begin(d);
    int64_t groups = shape_elements(p->update) / d->config.accesses;
    int64_t threads = (int64_t)b->threads * (int64_t)b->blocks;
    double trips = (double)groups / (double)threads;
    double positions = (double)shape_elements(p->operand) / b->threads;
    unsigned bytes = dtype_info[p->operand->dtype].bits / 8;
    const IndexExpr *step =
        work_loop_begin(b, trips > 1 ? trips : 1, trips > 1 ? (int64_t)trips + 1 : 1, 4);
    const IndexExpr *group =
        ix_add(b->ix, ix_mul(b->ix, step, threads), work_thread_number(b, groups));
    for (int64_t a = 0; a < d->config.accesses; a++) {
        const IndexExpr *linear =
            histogram_takes_neighbours(p->update)
                ? ix_add(b->ix, ix_mul(b->ix, group, d->config.accesses),
                         ix_const(b->ix, a))
                : ix_add(b->ix, group, ix_const(b->ix, a * groups));
        index_delinear(b->ix, p->update, linear, update);
        destination(b, p, update, to);
        work_element(b, p->inst->operands[2], update);
        work_count_index(b, index_linear(b->ix, p->operand, to));
        work_shared(b, 2, bytes, 2); /* read, added to, written; some lanes meet */
    }
    work_loop_end(b, 0);
    work_barrier(b);
    work_shared(b, 2 * positions, bytes, 1);
    work_atomics(b, positions < 1 ? 1 : positions);
    work_end(b, out);
}

void work_scatter(const KernelDesign *d, KernelWork *out)
{
    const ScatterPlan *p = d->plan.scatter;
    WorkBuilder *b = work_begin(d);
    if (p->strategy == SCATTER_OWNERS) {
        walk_updates(b, p, d->config.owners);
    } else if (p->strategy == SCATTER_SHARED) {
        walk_shared(b, p, &d->config);
    } else if (p->strategy == SCATTER_RUNS) {
        walk_runs(b, p, d->config.items, d->config.lanes.data[0]);
    } else if (p->strategy == SCATTER_FIRST) {
        walk_others(b, p);
    } else if (p->strategy != SCATTER_NOTHING) {
        scatter_elements(b, p);
    }
    work_end(b, out);
}
