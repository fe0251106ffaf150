/* Loops, instructions and cycles of a kernel that is counted. See work_builder.h. */
#include "ir/kernel/time/work_builder.h"

#include "ir/base/bug.h"
#include "ir/kernel/kind.h"

#define INDEX_BITS INT64_C(0x3fffffff) /* elements up to which indices have 32 bits */

/* -- loops ---------------------------------------------------------------------------------------- */

WorkLoop *work_loop_at(WorkBuilder *b, uint32_t loop)
{
    return &b->loops[loop];
}

uint32_t work_deeper(const WorkBuilder *b, uint32_t x, uint32_t y)
{
    return b->loops[x].depth >= b->loops[y].depth ? x : y;
}

static uint32_t add_loop(WorkBuilder *b, WorkLoop l)
{
    b->loops = arena_grow(b->arena, b->loops, &b->loop_capacity, b->loop_count + 1,
                          sizeof *b->loops);
    b->loops[b->loop_count] = l;
    return (uint32_t)b->loop_count++;
}

static const IndexExpr *add_variable(WorkBuilder *b, WorkVariable v)
{
    b->variables = arena_grow(b->arena, b->variables, &b->variable_capacity,
                              b->variable_count + 1, sizeof *b->variables);
    b->variables[b->variable_count] = v;
    return ix_runtime(b->ix, (uint32_t)b->variable_count++, v.range);
}

static Range below(int64_t size)
{
    return (Range){0, size < 1 ? 0 : size - 1};
}

static WorkCounts counts_difference(const WorkCounts *x, const WorkCounts *y)
{
    WorkCounts d = {.issued = x->issued - y->issued, .shared = x->shared - y->shared};
    for (int u = 0; u < WORK_UNITS; u++)
        d.unit[u] = x->unit[u] - y->unit[u];
    return d;
}

static void counts_add(WorkCounts *to, const WorkCounts *c, double times)
{
    to->issued += c->issued * times;
    to->shared += c->shared * times;
    for (int u = 0; u < WORK_UNITS; u++)
        to->unit[u] += c->unit[u] * times;
}

double work_cycles(const GpuRates *r, const GpuModel *device, const WorkCounts *c,
                   double warps)
{
    const double rate[WORK_UNITS] = {
        [WORK_ALU] = r->alu,           [WORK_FMA] = device->lanes, [WORK_IMUL] = r->imul,
        [WORK_ADD] = r->alu + r->imul, [WORK_MUFU] = r->mufu,      [WORK_F64] = r->f64,
        [WORK_TENSOR] = TARGET_WARP,
    };
    double most = larger(c->issued / costs.schedulers, work_integer_cycles(c, r));
    for (int u = 0; u < WORK_UNITS; u++)
        most = larger(most, c->unit[u] * TARGET_WARP / rate[u]);
    return larger(most, c->shared) * warps;
}

/* Ends what is under way in the innermost loop: it takes as long as its slowest chain, or as long as the
 * block's warps need to issue it. */
static void settle(WorkBuilder *b)
{
    WorkLoop *l = &b->loops[b->loop];
    WorkCounts since = counts_difference(&l->counts, &l->waited);
    double warps = larger(b->warps, costs.schedulers);
    double end = l->now + work_cycles(b->rates, b->device, &since, warps);
    l->now = larger(end, l->path);
    l->path = l->now;
    l->waited = l->counts;
    double words = l->value_words * l->overlap;
    words = words < costs.register_batch ? words : costs.register_batch;
    l->value_words_most = larger(l->value_words_most, words);
    l->value_words = 0;
}

void work_wait(WorkBuilder *b, double cycles)
{
    settle(b);
    b->loops[b->loop].now += cycles;
    b->loops[b->loop].path = b->loops[b->loop].now;
}

const IndexExpr *work_loop_begin(WorkBuilder *b, double trips, int64_t size,
                                 double overlap)
{
    settle(b);
    const WorkLoop *parent = &b->loops[b->loop];
    bool is_unrolled = size <= (int64_t)costs.unrolled_trips;
    uint32_t loop = add_loop(b, (WorkLoop){.parent = b->loop,
                                           .depth = parent->depth + 1,
                                           .trips = trips,
                                           .runs = parent->runs * trips,
                                           .overlap = overlap,
                                           .is_unrolled = is_unrolled,
                                           .step = (uint32_t)b->variable_count});
    b->loop = loop;
    /* compare, branch, count: shared by trips that stand side by side */
    OpCost count = {.alu = 3, .cycles = costs.alu_cycles};
    work_add(b, loop, count, is_unrolled ? 0 : 1 / overlap);
    return add_variable(
        b, (WorkVariable){.kind = WORK_STEP, .range = below(size), .loop = loop});
}

void work_loop_end(WorkBuilder *b, double carried)
{
    settle(b);
    WorkLoop *l = &b->loops[b->loop];
    double warps = larger(b->warps, costs.schedulers);
    double issue = work_cycles(b->rates, b->device, &l->counts, warps);
    double trip = larger(larger(l->now / l->overlap, issue), carried);
    double all = larger(trip * l->trips, l->trips > 0 ? l->now : 0);
    WorkLoop *parent = &b->loops[l->parent];
    parent->now += all;
    parent->path = parent->now;
    if (all * parent->runs > b->serial_cycles && l->trips > 1) {
        b->serial_cycles = all * parent->runs;
        b->serial_steps = l->runs;
    }
    b->loop = l->parent;
}

WorkPart work_part_begin(WorkBuilder *b, double part)
{
    const WorkLoop *l = &b->loops[b->loop];
    WorkPart before = {b->part, b->issued_part, l->now, l->path};
    b->part *= part;
    b->issued_part *= part;
    return before;
}

WorkPart work_predicate_begin(WorkBuilder *b, double part)
{
    WorkPart before = work_part_begin(b, part);
    b->issued_part = before.issued;
    return before;
}

void work_part_end(WorkBuilder *b, WorkPart before)
{
    WorkLoop *l = &b->loops[b->loop];
    double part = b->part / before.part;
    l->now = before.now + (l->now - before.now) * part;
    l->path = before.path + (l->path - before.path) * part;
    l->path = larger(l->path, l->now);
    b->part = before.part;
    b->issued_part = before.issued;
}

void work_ready(WorkBuilder *b, uint32_t loop, double ready)
{
    WorkLoop *l = &b->loops[loop];
    l->path = larger(l->path, ready);
}

/* -- variables -------------------------------------------------------------------------------------- */

const IndexExpr *work_coordinate(WorkBuilder *b, WorkCoordinate c, int64_t size)
{
    return add_variable(
        b,
        (WorkVariable){.kind = WORK_COORDINATE, .range = below(size), .coordinate = c});
}

const IndexExpr *work_thread_number(WorkBuilder *b, int64_t size)
{
    return work_coordinate(
        b, (WorkCoordinate){.block_div = 1, .block_mul = b->threads, .thread_div = 1},
        size);
}

const IndexExpr *work_searched(WorkBuilder *b, const IndexExpr *key, int64_t size)
{
    return add_variable(b, (WorkVariable){.kind = WORK_SEARCHED,
                                          .range = below(size),
                                          .loop = b->loop,
                                          .ready = b->loops[b->loop].path,
                                          .key = key});
}

const IndexExpr *work_data(WorkBuilder *b, const IndexExpr *key, Range range, WorkValue v)
{
    return add_variable(b, (WorkVariable){.kind = WORK_DATA,
                                          .range = range,
                                          .loop = v.loop,
                                          .ready = v.ready,
                                          .key = key});
}

void work_set_lanes(WorkBuilder *b, uint32_t lanes)
{
    b->lanes = lanes;
    if (lanes == 1 || lanes == b->lane_count)
        return;
    b->lane = NULL;
    b->lane_count = lanes;
}

const IndexExpr *work_lane(WorkBuilder *b)
{
    if (b->lanes == 1)
        return ix_const(b->ix, 0);
    if (b->lane == NULL)
        b->lane =
            add_variable(b, (WorkVariable){.kind = WORK_LANE, .range = below(b->lanes)});
    return b->lane;
}

/* -- index expressions ---------------------------------------------------------------------------------- */

static WorkIndex *index_slot(WorkBuilder *b, const IndexExpr *e)
{
    if (e->id >= b->index_capacity) {
        size_t from = b->index_capacity;
        b->index = arena_grow(b->arena, b->index, &b->index_capacity, e->id + 1u,
                              sizeof *b->index);
        for (size_t i = from; i < b->index_capacity; i++)
            b->index[i] = (WorkIndex){0};
    }
    return &b->index[e->id];
}

static WorkIndex of_variable(WorkBuilder *b, const IndexExpr *e)
{
    const WorkVariable *v = &b->variables[e->value];
    WorkIndex w = {.is_known = true};
    switch (v->kind) {
    case WORK_COORDINATE:
        w.has_thread = true;
        break;
    case WORK_STEP:
        w.loop = v->loop;
        w.is_fixed = b->loops[v->loop].is_unrolled;
        break;
    case WORK_LANE:
        w.has_lane = true;
        break;
    case WORK_DATA:
    case WORK_SEARCHED: {
        WorkIndex key = *work_index(b, v->key);
        w.loop = v->loop;
        w.has_thread = key.has_thread;
        w.has_lane = key.has_lane;
        w.is_random =
            v->kind == WORK_DATA && (key.has_thread || key.has_lane || key.loop != 0);
        w.ready = v->ready;
        break;
    }
    }
    return w;
}

WorkIndex *work_index(WorkBuilder *b, const IndexExpr *e)
{
    WorkIndex *slot = index_slot(b, e);
    if (slot->is_known)
        return slot;
    WorkIndex w = {.is_known = true, .is_fixed = true};
    if (e->kind == IX_RUNTIME)
        w = of_variable(b, e);
    else if (e->kind == IX_DIM || e->kind == IX_SYMBOL)
        bug("an index of a kernel has a variable that nobody bound");
    for (int side = 0; side < 2; side++) {
        const IndexExpr *part = side == 0 ? e->a : e->b;
        if (part == NULL)
            continue;
        WorkIndex p = *work_index(b, part);
        uint32_t loop = work_deeper(b, w.loop, p.loop);
        double before = w.loop == loop ? w.ready : 0;
        w.ready = larger(before, p.loop == loop ? p.ready : 0);
        w.loop = loop;
        w.has_lane |= p.has_lane;
        w.has_thread |= p.has_thread;
        w.is_fixed &= p.is_fixed;
        w.is_random |= p.is_random;
    }
    slot = index_slot(b, e);
    *slot = w;
    return slot;
}

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* The instructions of one node by itself. */
static OpCost node_cost(const WorkBuilder *b, const IndexExpr *e)
{
    double half = costs.alu_cycles;
    OpCost c = {0};
    switch (e->kind) {
    case IX_ADD:
        c = b->is_wide ? (OpCost){.alu = 0.5, .imul = 0.5, .cycles = half}
                       : (OpCost){.add = 1, .cycles = half};
        break;
    case IX_MUL:
        c = (OpCost){.imul = 1, .cycles = half};
        break;
    case IX_FLOORDIV:
        c = is_power_of_two(e->value) ? (OpCost){.alu = 1, .cycles = half}
                                      : (OpCost){.alu = 1, .imul = 1, .cycles = 3 * half};
        break;
    case IX_MOD:
        c = is_power_of_two(e->value) ? (OpCost){.alu = 1, .cycles = half}
                                      : (OpCost){.alu = 1, .imul = 2, .cycles = 4 * half};
        break;
    default:
        break;
    }
    double wide = b->is_wide ? 2 : 1;
    return (OpCost){.alu = c.alu * wide,
                    .imul = c.imul * wide,
                    .cycles = c.cycles * wide,
                    .add = c.add};
}

/* No code of its own: a constant; or the value moves by the same step each trip, which is an addition to a
 * pointer, or an offset of the access, and counted there. */
static bool is_folded(WorkBuilder *b, const IndexExpr *e, const WorkIndex *w)
{
    int64_t stride;
    return w->is_fixed ||
           (w->loop != 0 && ix_stride(e, IX_RUNTIME, b->loops[w->loop].step, &stride));
}

double work_count_index(WorkBuilder *b, const IndexExpr *e)
{
    WorkIndex w = *work_index(b, e);
    double ready = w.ready;
    if (w.is_counted)
        return ready;
    index_slot(b, e)->is_counted = true;
    for (int side = 0; side < 2; side++) {
        const IndexExpr *part = side == 0 ? e->a : e->b;
        if (part == NULL)
            continue;
        double at = work_count_index(b, part);
        ready = larger(ready, work_index(b, part)->loop == w.loop ? at : 0);
    }
    if (e->a != NULL && !is_folded(b, e, &w)) {
        OpCost c = node_cost(b, e);
        work_add(b, w.loop, c, w.has_lane ? b->lanes : 1);
        ready = larger(ready, b->loops[w.loop].now) + c.cycles;
    }
    index_slot(b, e)->ready = ready;
    return ready;
}

/* -- instructions -------------------------------------------------------------------------------------- */

void work_add(WorkBuilder *b, uint32_t loop, OpCost c, double times)
{
    WorkCounts *to = &b->loops[loop].counts;
    times *= b->issued_part;
    to->issued += cost_issued(c) * times;
    to->unit[WORK_ALU] += c.alu * times;
    to->unit[WORK_FMA] += c.fma * times;
    to->unit[WORK_IMUL] += c.imul * times;
    to->unit[WORK_ADD] += c.add * times;
    to->unit[WORK_MUFU] += c.mufu * times;
    to->unit[WORK_F64] += c.f64 * times;
    to->unit[WORK_TENSOR] += c.tensor * times;
}

double work_instructions(WorkBuilder *b, OpCost cost, double times)
{
    work_add(b, b->loop, cost, times);
    return cost.cycles * times;
}

/* Loads and stores of a thread, in the innermost loop. */
static void add_accesses(WorkBuilder *b, double count, double cycles)
{
    WorkLoop *l = &b->loops[b->loop];
    l->counts.issued += count * b->issued_part;
    l->counts.shared += cycles * b->part;
}

void work_shared(WorkBuilder *b, double accesses, double bytes, double conflicts)
{
    double moved = larger(bytes, 4) * TARGET_WARP / costs.shared_bytes;
    add_accesses(b, accesses, accesses * moved * conflicts);
    WorkLoop *l = &b->loops[b->loop];
    work_ready(b, b->loop, l->now + costs.shared_cycles);
}

void work_shuffles(WorkBuilder *b, double count, double bytes)
{
    double words = bytes > 4 ? bytes / 4 : 1;
    add_accesses(b, count * words, count * words);
    b->loops[b->loop].path += costs.shuffle_cycles * count;
}

void work_atomics(WorkBuilder *b, double count)
{
    WorkLoop *l = &b->loops[b->loop];
    add_accesses(b, count, count);
    b->atomics += count * b->part * l->runs * b->threads * b->blocks;
}

void work_barrier(WorkBuilder *b)
{
    add_accesses(b, 1, 0);
    work_wait(b, costs.barrier_cycles);
}

void work_registers(WorkBuilder *b, double words)
{
    b->registers += words;
}

void work_registers_apart(WorkBuilder *b, double words)
{
    b->registers_apart = larger(b->registers_apart, words);
}

/* -- beginning and end ------------------------------------------------------------------------------------ */

static bool needs_wide_index(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
            const Shape *s = shape_leaf(inst->shape, leaf);
            if (shape_is_array(s) &&
                (shape_bytes(s) > INDEX_BITS || shape_elements(s) > INDEX_BITS))
                return true;
        }
    }
    return false;
}

WorkBuilder *work_begin(const KernelDesign *d)
{
    Arena *a = d->arena;
    WorkBuilder *b = ARENA_NEW(a, WorkBuilder);
    const KernelGeometry *g = &d->geometry;
    const Computation *comp = inst_called(d->fusion, 0);
    *b = (WorkBuilder){.arena = a,
                       .fusion = d->fusion,
                       .comp = comp,
                       .device = d->target->device,
                       .rates = gpu_rates(d->target->device),
                       .ix = index_context_create(a),
                       .is_wide = needs_wide_index(comp),
                       .blocks = (double)g->grid[0] * g->grid[1] * g->grid[2],
                       .threads = g->block[0] * g->block[1] * g->block[2],
                       .shared_bytes = g->shared_bytes,
                       .lanes = 1,
                       .part = 1,
                       .issued_part = 1,
                       .registers_only = d->registers_only,
                       .product_type = DT_INVALID};
    b->warps = (b->threads + TARGET_WARP - 1) / TARGET_WARP;
    b->maps = ARENA_ARRAY(a, IndexMap *, (size_t)comp->instruction_count + 1);
    b->is_preset = ARENA_ARRAY(a, bool, (size_t)comp->instruction_count + 1);
    add_loop(b, (WorkLoop){.trips = 1, .runs = 1, .overlap = 1});
    /* thread and block numbers, pointers, the end */
    work_add(b, 0, (OpCost){.alu = 6}, 1);
    return b;
}

static uint32_t estimate_registers(const WorkBuilder *b)
{
    double words = 0;
    for (size_t i = 0; i < b->loop_count; i++)
        words = larger(words, b->loops[i].value_words_most);
    words = larger(words, b->registers_apart);
    words += b->registers + costs.register_base;
    double unit = costs.register_unit;
    uint32_t n = (uint32_t)((words + unit - 1) / unit) * (uint32_t)unit;
    return n > TARGET_THREAD_REGISTERS ? TARGET_THREAD_REGISTERS : n;
}

void work_end(WorkBuilder *b, KernelWork *out)
{
    settle(b);
    *out = (KernelWork){.blocks = b->blocks,
                        .threads = b->threads,
                        .shared_bytes = b->shared_bytes,
                        .tensor_columns = b->tensor_columns,
                        .registers = estimate_registers(b),
                        .block_cycles = b->loops[0].now,
                        .serial_cycles = b->serial_cycles,
                        .serial_steps = b->serial_steps,
                        .tail_cycles = b->tail_cycles,
                        .l2_atomics = b->atomics,
                        .operations = b->operations,
                        .product_operations = b->product_operations,
                        .product_type = b->product_type};
    for (size_t i = 0; i < b->loop_count; i++)
        counts_add(&out->counts, &b->loops[i].counts, b->loops[i].runs * b->warps);
    if (!b->registers_only)
        work_traffic(b, kernel_resident(out, b->device), out);
}
