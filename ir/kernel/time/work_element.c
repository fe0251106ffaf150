/* Elements of a fused computation, counted as codegen/element makes them: through the index maps of each
 * instruction, once for each index that they are asked for at. */
#include "ir/kernel/time/work_builder.h"

#include <string.h>

#include "ir/kernel/element.h"

enum { MEMO_FIRST = 256 };

/* Several results are computed together, at one index. */
static uint32_t rank_of(const Instruction *inst)
{
    return shape_leaf(inst->shape, 0)->rank;
}

/* -- what is known already --------------------------------------------------------------------------- */

static WorkMemo *memo_slot(WorkMemo *memo, size_t capacity, const Instruction *inst,
                           const IndexExpr *const *index, uint32_t lanes)
{
    uint32_t rank = rank_of(inst);
    uint64_t h = ((uint64_t)inst->id + lanes) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 0; i < rank; i++)
        h = (h ^ index[i]->id) * UINT64_C(0xbf58476d1ce4e5b9);
    size_t at = (size_t)(h ^ (h >> 32)) & (capacity - 1);
    for (;; at = (at + 1) & (capacity - 1)) {
        WorkMemo *m = &memo[at];
        if (m->inst == NULL ||
            (m->inst == inst && m->lanes == lanes &&
             (rank == 0 || memcmp(m->index, index, rank * sizeof *index) == 0)))
            return m;
    }
}

static void memo_grow(WorkBuilder *b)
{
    if (b->memo_count * 2 < b->memo_capacity)
        return;
    size_t capacity = b->memo_capacity == 0 ? MEMO_FIRST : b->memo_capacity * 2;
    WorkMemo *memo = ARENA_ARRAY(b->arena, WorkMemo, capacity);
    for (size_t i = 0; i < b->memo_capacity; i++) {
        const WorkMemo *m = &b->memo[i];
        if (m->inst != NULL)
            *memo_slot(memo, capacity, m->inst, m->index, m->lanes) = *m;
    }
    b->memo = memo;
    b->memo_capacity = capacity;
}

static void remember(WorkBuilder *b, const Instruction *inst,
                     const IndexExpr *const *index, WorkValue v)
{
    memo_grow(b);
    WorkMemo *m = memo_slot(b->memo, b->memo_capacity, inst, index, b->lanes);
    b->memo_count += m->inst == NULL;
    uint32_t rank = rank_of(inst);
    const IndexExpr *const *kept = arena_copy(b->arena, index, rank * sizeof *index);
    *m = (WorkMemo){.inst = inst, .index = kept, .lanes = b->lanes, .value = v};
}

/* Nothing that takes time: a constant, a value in registers. */
static WorkValue at_hand(void)
{
    return (WorkValue){0};
}

static WorkValue joined(const WorkBuilder *b, WorkValue x, WorkValue y)
{
    uint32_t loop = work_deeper(b, x.loop, y.loop);
    double at = x.loop == loop ? x.ready : 0, of = y.loop == loop ? y.ready : 0;
    return (WorkValue){loop, larger(at, of), x.has_lane || y.has_lane};
}

/* Instructions on values, in their loop. */
static WorkValue computed(WorkBuilder *b, WorkValue v, OpCost cost, double times)
{
    work_add(b, v.loop, cost, times * (v.has_lane ? b->lanes : 1));
    v.ready = larger(v.ready, work_loop_at(b, v.loop)->now) + cost.cycles;
    work_ready(b, v.loop, v.ready);
    return v;
}

static WorkValue of_index(WorkBuilder *b, const IndexExpr *e)
{
    double ready = work_count_index(b, e);
    WorkIndex w = *work_index(b, e);
    return (WorkValue){w.loop, ready, w.has_lane};
}

/* -- maps -------------------------------------------------------------------------------------------------- */

const IndexMap *work_map(WorkBuilder *b, const Instruction *inst, uint32_t operand)
{
    if (b->maps[inst->id] == NULL)
        b->maps[inst->id] = index_maps(b->ix, inst, 0);
    return &b->maps[inst->id][operand];
}

/* The value that a map reads, clamped: equal for equal positions. */
static const IndexExpr *bind_runtime(WorkBuilder *b, const IndexRuntime *r,
                                     const IndexExpr *const *at)
{
    uint32_t lanes = b->lanes;
    WorkValue v = work_element(b, r->source, at);
    b->lanes = lanes;
    OpCost clamp = {.alu = 2, .cycles = 2 * costs.alu_cycles};
    v = computed(b, v, clamp, 1);
    const IndexExpr *key = index_linear(b->ix, r->source->shape, at);
    if (r->range.lo == r->range.hi)
        return ix_const(b->ix, r->range.lo);
    return work_data(b, key, r->range, v);
}

void work_apply(WorkBuilder *b, const Instruction *inst, uint32_t operand,
                const IndexExpr *const *index, const IndexExpr *const *symbols,
                const IndexExpr **results, const IndexExpr **constraints)
{
    IndexContext *ix = b->ix;
    const IndexMap *map = work_map(b, inst, operand);
    const IndexExpr **runtimes =
        ARENA_ARRAY(b->arena, const IndexExpr *, (size_t)map->runtime_count + 1);
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        const IndexRuntime *r = &map->runtimes[i];
        const IndexExpr *at[KERNEL_MOST_RANK];
        for (uint32_t d = 0; d < r->source->shape->rank; d++) {
            at[d] = ix_substitute(ix, r->index[d], IX_DIM, map->dim_count, index);
            at[d] = ix_substitute(ix, at[d], IX_SYMBOL, map->symbol_count, symbols);
        }
        runtimes[i] = bind_runtime(b, r, at);
    }
    index_map_apply(ix, map, index, symbols, runtimes, results, constraints);
}

WorkValue work_check(WorkBuilder *b, const IndexMap *map,
                     const IndexExpr *const *constraints)
{
    WorkValue all = at_hand();
    for (uint32_t i = 0; i < map->constraint_count; i++) {
        Range r = map->constraints[i].range, x = constraints[i]->range;
        if (x.lo >= r.lo && x.hi <= r.hi)
            continue;
        OpCost test = {.alu = 2, .cycles = 3 * costs.alu_cycles};
        all = joined(b, all, computed(b, of_index(b, constraints[i]), test, 1));
    }
    return all;
}

/* -- elements ------------------------------------------------------------------------------------------------ */

/* A bitcast between widths: one element of several, or a piece of one. */
static WorkValue regrouped(WorkBuilder *b, const Instruction *inst,
                           const IndexExpr *const *index)
{
    const IndexMap *map = work_map(b, inst, 0);
    const IndexExpr *at[KERNEL_MOST_RANK], *symbols[KERNEL_MOST_RANK];
    double pieces = 1;
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        Range r = map->symbols[i];
        symbols[i] = ix_const(b->ix, r.lo);
        pieces *= (double)(r.hi - r.lo + 1);
    }
    WorkPart part = work_part_begin(b, pieces);
    work_apply(b, inst, 0, index, symbols, at, NULL);
    WorkValue v = work_element(b, inst->operands[0], at);
    v = computed(b, v, (OpCost){.alu = 2, .cycles = 2 * costs.alu_cycles}, 1);
    work_part_end(b, part);
    return v;
}

/* x of (x << c) | (x >> 32 - c), one instruction of the machine (SHF; in the SASS of threefry, sm_90a, a rotation,
 * an addition and an exclusive or are the whole of a round); NULL: it is no rotation. */
static const Instruction *rotated(const Instruction *inst)
{
    if (inst->op != OP_OR || dtype_info[inst->shape->dtype].bits != 32)
        return NULL;
    bool is_swapped = inst->operands[0]->op != OP_SHIFT_LEFT;
    const Instruction *left = inst->operands[is_swapped],
                      *right = inst->operands[!is_swapped];
    if (left->op != OP_SHIFT_LEFT || right->op != OP_SHIFT_RIGHT_LOGICAL ||
        left->operands[0] != right->operands[0])
        return NULL;
    for (int by = 1; by < 32; by++) {
        if (inst_is_constant_scalar(left->operands[1], by))
            return inst_is_constant_scalar(right->operands[1], 32 - by)
                       ? left->operands[0]
                       : NULL;
    }
    return NULL;
}

/* How many instructions an element takes of those that one would: products of 16 bits, and their factors made of the
 * digits of integers, are made two at a time where the builder says so. */
static double share_of_pair(const WorkBuilder *b, const Instruction *inst)
{
    DType t = inst->shape->dtype;
    if (!b->is_paired || !dtype_is_half(t))
        return 1;
    if (inst->op == OP_MULTIPLY)
        return 0.5;
    DType from = inst->operands[0]->shape->dtype;
    bool fits = dtype_is_integer(from) &&
                dtype_info[from].bits <= (uint32_t)dtype_info[t].mantissa_bits;
    return inst->op == OP_CONVERT && fits ? 0.5 : 1;
}

/* By a constant an integer is divided by a product and shifts (as LLVM writes it), or by shifts alone. */
static OpCost scalar_cost(const Instruction *inst, DType type)
{
    bool divides = inst->op == OP_DIVIDE || inst->op == OP_REMAINDER;
    if (!divides || !dtype_is_integer(type) || dtype_info[type].bits > 32)
        return op_cost(inst->op, type);
    const Instruction *by = inst->operands[1];
    if (by->op == OP_BROADCAST)
        by = by->operands[0];
    return by->op == OP_CONSTANT && shape_elements(by->shape) == 1
               ? (OpCost){.alu = 3, .imul = 2, .cycles = 5 * costs.alu_cycles}
               : op_cost(inst->op, type);
}

static WorkValue scalar(WorkBuilder *b, const Instruction *inst,
                        const IndexExpr *const *index)
{
    WorkValue v = at_hand();
    const IndexExpr *at[KERNEL_MOST_RANK];
    const Instruction *turned = rotated(inst);
    if (turned != NULL)
        return computed(b, work_element(b, turned, index),
                        op_cost(OP_OR, inst->shape->dtype), 1);
    if (inst->operand_count == 1 && work_map(b, inst, 0)->symbol_count != 0)
        return regrouped(b, inst, index);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        work_apply(b, inst, i, index, NULL, at, NULL);
        v = joined(b, v, work_element(b, inst->operands[i], at));
    }
    DType from = inst->operand_count != 0 ? inst->operands[0]->shape->dtype : DT_INVALID;
    double share = inst->operand_count != 0 ? share_of_pair(b, inst) : 1;
    if (inst->op == OP_CONVERT)
        return computed(b, v, convert_cost(from, inst->shape->dtype), share);
    if (inst->op == OP_BITCAST_CONVERT)
        return v;
    /* select's first operand only chooses */
    DType type = inst->op == OP_SELECT || from == DT_INVALID ? inst->shape->dtype : from;
    WorkLoop *l = work_loop_at(b, v.loop);
    b->operations +=
        l->runs * b->part * (v.has_lane ? b->lanes : 1) * b->threads * b->blocks;
    return computed(b, v, scalar_cost(inst, type), share);
}

static WorkValue moved(WorkBuilder *b, const Instruction *inst,
                       const IndexExpr *const *index)
{
    const IndexExpr *at[KERNEL_MOST_RANK];
    work_apply(b, inst, 0, index, NULL, at, NULL);
    return work_element(b, inst->operands[0], at);
}

/* How often n operands are halved until one is left. */
static uint32_t halvings(uint32_t n)
{
    uint32_t steps = 0;
    while (steps < 31 && UINT32_C(1) << steps < n)
        steps++;
    return steps;
}

/* One of several operands, each at as many positions as it has elements; of a concatenation's it is found by halves. */
static WorkValue selected(WorkBuilder *b, const Instruction *inst,
                          const IndexExpr *const *index)
{
    WorkValue v = at_hand();
    double all = (double)shape_elements(inst->shape);
    const IndexExpr *at[KERNEL_MOST_RANK], *constraints[2 * KERNEL_MOST_RANK];
    uint32_t arrays = inst->op == OP_CONCATENATE ? inst->operand_count : 2;
    uint32_t checks = inst->op == OP_CONCATENATE ? halvings(arrays) : arrays;
    for (uint32_t i = 0; i < arrays; i++) {
        const Instruction *x = inst->operands[i];
        double own = (double)shape_elements(x->shape);
        bool is_padding = inst->op == OP_PAD && i == 1;
        const IndexMap *map = work_map(b, inst, i);
        if (is_padding || map->results == NULL) {
            v = joined(b, v, work_element(b, x, NULL));
            continue;
        }
        work_apply(b, inst, i, index, NULL, at, constraints);
        if (i < checks)
            v = joined(b, v, work_check(b, map, constraints));
        WorkPart part = work_part_begin(b, own < all ? own / all : 1);
        v = joined(b, v, work_element(b, x, at));
        work_part_end(b, part);
    }
    return v;
}

/* Loops over the symbols of a map, those of one value left out. */
static uint32_t open_symbols(WorkBuilder *b, const IndexMap *map,
                             const IndexExpr **symbols)
{
    uint32_t opened = 0;
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        Range r = map->symbols[i];
        symbols[i] = ix_const(b->ix, r.lo);
        if (r.lo >= r.hi)
            continue;
        int64_t size = r.hi - r.lo + 1;
        symbols[i] = work_loop_begin(b, (double)size, size, 4);
        opened++;
    }
    return opened;
}

static void close_symbols(WorkBuilder *b, uint32_t opened, double carried)
{
    while (opened-- > 0)
        work_loop_end(b, carried);
}

/* The lanes as they were before. */
typedef struct Lanes {
    WorkPart part;
    uint32_t lanes, lane_count;
    const IndexExpr *lane;
} Lanes;

/* One lane after the other, so that what is counted is done so often; or all at once. */
static Lanes begin_lanes(WorkBuilder *b, bool at_once, const Instruction *inst,
                         const IndexExpr *const *index, const IndexExpr **at)
{
    Lanes before = {.lanes = b->lanes, .lane_count = b->lane_count, .lane = b->lane};
    for (uint32_t d = 0; d < rank_of(inst); d++)
        at[d] = at_once || b->lanes == 1 || b->lane == NULL
                    ? index[d]
                    : ix_replace(b->ix, index[d], IX_RUNTIME, (uint32_t)b->lane->value,
                                 ix_const(b->ix, 0));
    if (!at_once)
        work_set_lanes(b, 1);
    before.part = work_part_begin(b, at_once ? 1 : before.lanes);
    return before;
}

static void end_lanes(WorkBuilder *b, Lanes before)
{
    work_part_end(b, before.part);
    b->lanes = before.lanes;
    b->lane_count = before.lane_count;
    b->lane = before.lane;
}

static WorkValue reduced(WorkBuilder *b, const Instruction *inst,
                         const IndexExpr *const *index)
{
    const IndexMap *map = work_map(b, inst, 0);
    const IndexExpr *from[KERNEL_MOST_RANK], *at[KERNEL_MOST_RANK],
        *symbols[KERNEL_MOST_RANK], *constraints[2 * KERNEL_MOST_RANK];
    uint32_t half = inst->operand_count / 2;
    bool at_once = reduced_neighbours(inst) != UINT32_MAX;
    Lanes lanes = begin_lanes(b, at_once, inst, index, from);
    uint32_t opened = open_symbols(b, map, symbols);
    work_apply(b, inst, 0, from, symbols, at, constraints);
    work_check(b, map, constraints);
    for (uint32_t i = 0; i < half; i++)
        work_element(b, inst->operands[i], at);
    double carried = work_computation(b, inst_called(inst, 0), b->lanes);
    close_symbols(b, opened, carried);
    end_lanes(b, lanes);
    return (WorkValue){b->loop, work_loop_at(b, b->loop)->now, b->lanes > 1};
}

/* The type that products are summed in. */
static OpCost multiply_add_cost(const Instruction *inst)
{
    DType t = inst->shape->dtype;
    OpCost product = op_cost(OP_MULTIPLY, t), sum = op_cost(OP_ADD, t);
    if (dtype_is_complex(t))
        return (OpCost){.fma = t == DT_C64 ? 4 : 0,
                        .f64 = t == DT_C64 ? 0 : 4,
                        .cycles = 2 * sum.cycles};
    if (dtype_is_float(t) || t == DT_S32 || t == DT_U32)
        product.alu = 0; /* one instruction does both */
    return product;
}

static WorkValue contracted(WorkBuilder *b, const Instruction *inst,
                            const IndexExpr *const *index)
{
    const IndexExpr *from[KERNEL_MOST_RANK], *at[KERNEL_MOST_RANK],
        *symbols[KERNEL_MOST_RANK], *constraints[2 * KERNEL_MOST_RANK];
    Lanes lanes = begin_lanes(b, false, inst, index, from);
    uint32_t opened = open_symbols(b, work_map(b, inst, 0), symbols);
    WorkValue v = at_hand();
    for (uint32_t i = 0; i < 2; i++) {
        work_apply(b, inst, i, from, symbols, at, constraints);
        v = joined(b, v, work_check(b, work_map(b, inst, i), constraints));
        v = joined(b, v, work_element(b, inst->operands[i], at));
    }
    OpCost fma = multiply_add_cost(inst);
    work_instructions(b, fma, 1);
    work_ready(b, b->loop, v.ready + fma.cycles);
    double runs = work_loop_at(b, b->loop)->runs * b->part * b->threads * b->blocks;
    b->operations += 2 * runs;
    b->product_operations += 2 * runs;
    b->product_type = inst->operands[0]->shape->dtype;
    close_symbols(b, opened, fma.cycles);
    end_lanes(b, lanes);
    return (WorkValue){b->loop, work_loop_at(b, b->loop)->now, b->lanes > 1};
}

static WorkValue element(WorkBuilder *b, const Instruction *inst,
                         const IndexExpr *const *index)
{
    switch (element_kind[inst->op]) {
    case ELEMENT_SCALAR:
        return scalar(b, inst, index);
    case ELEMENT_MOVE:
        return moved(b, inst, index);
    case ELEMENT_SELECT:
        return selected(b, inst, index);
    case ELEMENT_INDEX:
        return of_index(b, index[inst_int(inst, ATTR_IOTA_DIMENSION, 0)]);
    case ELEMENT_REDUCE:
        return reduced(b, inst, index);
    case ELEMENT_CONTRACT:
        return contracted(b, inst, index);
    case ELEMENT_NOTHING:
        return inst->op == OP_PARAMETER
                   ? work_load(b, (uint32_t)inst->parameter, inst->shape, index)
                   : at_hand();
    case ELEMENT_ALIAS:
        if (b->leaf_arrays != NULL && inst->op == OP_GET_TUPLE_ELEMENT)
            return work_load(b, b->leaf_arrays[inst_int(inst, ATTR_INDEX, 0)],
                             inst->shape, index);
        return inst->operand_count == 0 ? at_hand()
                                        : work_element(b, inst->operands[0], index);
    default:
        return at_hand();
    }
}

/* A row's sum is one value for all lanes that are columns. */
static bool differs_by_lane(WorkBuilder *b, const Instruction *inst,
                            const IndexExpr *const *index)
{
    bool differs = false;
    for (uint32_t i = 0; b->lanes > 1 && i < rank_of(inst); i++)
        differs = differs || work_index(b, index[i])->has_lane;
    return differs;
}

WorkValue work_element(WorkBuilder *b, const Instruction *inst,
                       const IndexExpr *const *index)
{
    if (b->is_preset[inst->id]) {
        /* of a loop's body: another value in each trip */
        uint32_t loop = b->leaf_arrays != NULL ? b->loop : b->preset_loop;
        return (WorkValue){.loop = loop, .has_lane = differs_by_lane(b, inst, index)};
    }
    if (!shape_is_array(inst->shape) && inst->op != OP_REDUCE &&
        inst->op != OP_REDUCE_WINDOW)
        return at_hand();
    memo_grow(b);
    const WorkMemo *m = memo_slot(b->memo, b->memo_capacity, inst, index, b->lanes);
    if (m->inst != NULL)
        return m->value;
    WorkValue v = element(b, inst, index);
    remember(b, inst, index, v);
    return v;
}

void work_enter(WorkBuilder *b, const Computation *body, const uint32_t *leaf_arrays)
{
    b->comp = body;
    b->leaf_arrays = leaf_arrays;
    b->maps = ARENA_ARRAY(b->arena, IndexMap *, (size_t)body->instruction_count + 1);
    b->is_preset = ARENA_ARRAY(b->arena, bool, (size_t)body->instruction_count + 1);
}

void work_preset(WorkBuilder *b, const Instruction *inst)
{
    b->is_preset[inst->id] = true;
}

void work_result(WorkBuilder *b, uint32_t leaf, const IndexExpr *const *index)
{
    FusionResult r = fusion_result(b->fusion, leaf);
    WorkValue v = work_element(b, r.inst, index);
    work_ready(b, v.loop, v.ready);
    work_store(b, b->comp->parameter_count + leaf, r.shape, index);
}

/* -- computations on scalars --------------------------------------------------------------------------- */

/* Of an instruction on scalars. */
static OpCost step_cost(const Instruction *inst)
{
    DType type = inst->operand_count != 0 ? inst->operands[0]->shape->dtype : DT_INVALID;
    if (inst->op == OP_CONVERT)
        return convert_cost(type, inst->shape->dtype);
    if (element_kind[inst->op] != ELEMENT_SCALAR || !shape_is_array(inst->shape) ||
        inst->op == OP_BITCAST_CONVERT)
        return (OpCost){0};
    return op_cost(inst->op, inst->op == OP_SELECT ? inst->shape->dtype : type);
}

double work_computation(WorkBuilder *b, const Computation *comp, double times)
{
    uint32_t count;
    Instruction **order = computation_post_order(comp, b->arena, &count);
    double *ready = ARENA_ARRAY(b->arena, double, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = order[i];
        OpCost c = step_cost(inst);
        for (uint32_t k = 0; k < inst->operand_count; k++)
            ready[inst->id] = larger(ready[inst->id], ready[inst->operands[k]->id]);
        for (uint32_t k = 0; op_is(inst->op, OPF_CONTROL) && k < inst_called_count(inst);
             k++)
            c.cycles += work_computation(b, inst_called(inst, k), times);
        ready[inst->id] += c.cycles;
        work_add(b, b->loop, c, times);
        if (c.cycles != 0)
            b->operations +=
                times * work_loop_at(b, b->loop)->runs * b->part * b->threads * b->blocks;
    }
    return ready[comp->root->id];
}
