/* Kernels with a thread for every few elements of something: loop, update_slice, select_and_scatter, rng. */
#include "ir/analysis/loop.h"
#include "ir/kernel/time/work_kinds.h"

const IndexExpr *work_elements_of_thread(WorkBuilder *b, int64_t elements, uint32_t lanes)
{
    int64_t threads = (elements + lanes - 1) / lanes;
    work_set_lanes(b, lanes);
    const IndexExpr *thread = work_thread_number(b, threads);
    work_instructions(b, (OpCost){.alu = 2, .cycles = costs.alu_cycles}, 1);
    return ix_add(b->ix, ix_mul(b->ix, thread, lanes), work_lane(b));
}

/* Part of the warps that threads 0 to `threads` - 1 are. */
static double part_of_threads(const WorkBuilder *b, double threads)
{
    double part = threads / (b->blocks * b->threads);
    double warp = TARGET_WARP / (b->blocks * b->threads);
    return part > 1 ? 1 : part > warp ? part : warp;
}

/* -- loop ------------------------------------------------------------------------------------------ */

static void results_of_size(WorkBuilder *b, int64_t size, const IndexExpr *linear)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++) {
        const Shape *s = fusion_result(b->fusion, i).shape;
        if (shape_elements(s) != size)
            continue;
        index_delinear(b->ix, s, linear, index);
        work_result(b, i, index);
    }
}

/* Results of one size share threads; there are as many as the size that needs most asks for. */
void work_loop(const KernelDesign *d, KernelWork *out)
{
    const LoopPlan *p = d->plan.loop;
    WorkBuilder *b = work_begin(d);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t lanes = (uint32_t)d->config.lanes.data[i];
        double threads = (double)p->sizes[i] / lanes;
        WorkPart part = work_part_begin(b, part_of_threads(b, threads));
        results_of_size(b, p->sizes[i], work_elements_of_thread(b, p->sizes[i], lanes));
        work_part_end(b, part);
    }
    work_end(b, out);
}

/* -- updates ---------------------------------------------------------------------------------------- */

/* An update's element, and where it goes: the start is minus what the map sends index 0 to. */
static void store_update(WorkBuilder *b, const Instruction *inst, uint32_t array,
                         const IndexExpr *const *from)
{
    const IndexExpr *to[KERNEL_MOST_RANK], *zero[KERNEL_MOST_RANK];
    work_element(b, inst->operands[1], from);
    for (uint32_t i = 0; i < inst->shape->rank; i++)
        zero[i] = ix_const(b->ix, 0);
    work_apply(b, inst, 1, zero, NULL, to, NULL);
    for (uint32_t i = 0; i < inst->shape->rank; i++)
        to[i] = ix_add(b->ix, from[i], ix_mul(b->ix, to[i], -1));
    work_store(b, array, inst->shape, to);
}

/* -- element_while --------------------------------------------------------------------------------- */

/* Elements of `from`, a tuple of what is carried; gives when the last of them is ready. */
static double carried_elements(WorkBuilder *b, const WhilePlan *p,
                               const Instruction *from, const IndexExpr *const *own)
{
    const IndexExpr *zero[KERNEL_MOST_RANK];
    double ready = 0;
    for (uint32_t d = 0; d < KERNEL_MOST_RANK; d++)
        zero[d] = ix_const(b->ix, 0);
    for (uint32_t i = 0; i < p->count; i++) {
        if (!while_carries(p, i))
            continue;
        WorkValue v =
            work_element(b, from->operands[i], p->roles[i] == WHILE_ELEMENT ? own : zero);
        work_ready(b, v.loop, v.ready);
        ready = v.loop == b->loop && v.ready > ready ? v.ready : ready;
    }
    return ready;
}

/* What stays as it is lies in memory; the rest in registers. */
static void enter_body(WorkBuilder *b, const WhilePlan *p)
{
    uint32_t *arrays = ARENA_ARRAY(b->arena, uint32_t, (size_t)p->count + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        const Shape *s = p->loop->shape->elements[i];
        const Instruction *x = p->loop->operands[0]->operands[i];
        if (p->roles[i] == WHILE_UNCHANGED && x->op == OP_PARAMETER)
            arrays[i] = (uint32_t)x->parameter;
        else if (while_carries(p, i))
            work_registers(b, (shared_bytes(s->dtype) + 3) / 4);
    }
    work_enter(b, p->body, arrays);
    for (const Instruction *inst = inst_first(p->body); inst; inst = inst_next(inst)) {
        int64_t i = loop_element(p->body, inst);
        if (i >= 0 && while_carries(p, i))
            work_preset(b, inst);
    }
}

/* What a trip writes of the arrays that the loop fills. */
static void store_pieces(WorkBuilder *b, const WhilePlan *p, uint32_t parameters,
                         const IndexExpr *const *own)
{
    const IndexExpr *from[KERNEL_MOST_RANK];
    for (uint32_t r = 0; r < fusion_result_count(b->fusion); r++) {
        FusionResult result = fusion_result(b->fusion, r);
        if (p->roles[result.inst_leaf] != WHILE_FILLED)
            continue;
        while_piece_index(b->ix, p, result.inst_leaf, own, from);
        store_update(b, while_update(p, result.inst_leaf), parameters + r, from);
    }
}

/* A trip waits for what the one before made. */
void work_element_while(const KernelDesign *d, KernelWork *out)
{
    const WhilePlan *p = d->plan.element_while;
    const IndexExpr *own[KERNEL_MOST_RANK];
    WorkBuilder *b = work_begin(d);
    uint32_t parameters = b->comp->parameter_count;
    index_delinear(b->ix, p->shape,
                   work_elements_of_thread(b, shape_elements(p->shape), 1), own);
    carried_elements(b, p, p->loop->operands[0], own);
    work_wait(b, 0);
    int64_t trips =
        p->trips < 0 ? 1 : p->trips; /* as of all loops that nobody has counted */
    work_loop_begin(b, (double)trips, trips, 1);
    enter_body(b, p);
    double ready = carried_elements(b, p, p->body->root, own);
    store_pieces(b, p, parameters, own);
    work_loop_end(b, ready);
    for (uint32_t i = 0; i < fusion_result_count(d->fusion); i++) {
        FusionResult r = fusion_result(d->fusion, i);
        if (p->roles[r.inst_leaf] == WHILE_ELEMENT)
            work_store(b, parameters + i, r.shape, own);
    }
    work_end(b, out);
}

/* -- stencil --------------------------------------------------------------------------------------- */

void work_stencil(const KernelDesign *d, KernelWork *out)
{
    const StencilPlan *p = d->plan.stencil;
    const KernelConfig *c = &d->config;
    const IndexExpr *index[KERNEL_MOST_RANK], *whole, *part;
    StencilGrid g;
    stencil_grid(d, &g);
    WorkBuilder *b = work_begin(d);
    work_set_lanes(b, (uint32_t)g.lanes);
    int64_t div = g.pieces;
    whole = work_coordinate(b, (WorkCoordinate){1, g.pieces, g.width, 1, g.width},
                            p->inner / g.lanes);
    whole = ix_add(b->ix, ix_mul(b->ix, whole, g.lanes), work_lane(b));
    part =
        work_coordinate(b, (WorkCoordinate){div, g.groups, c->rows, g.width, 0}, p->rows);
    whole = ix_add(b->ix, whole, ix_mul(b->ix, part, p->inner));
    div *= g.groups;
    int64_t stride = p->inner * p->rows;
    part = work_coordinate(b, (WorkCoordinate){div, p->between, 1, 0, 0}, p->between);
    whole = ix_add(b->ix, whole, ix_mul(b->ix, part, stride));
    div *= p->between;
    stride *= p->between;
    part = work_coordinate(b, (WorkCoordinate){div, g.walks, c->items, 0, 0}, p->steps);
    whole = ix_add(b->ix, whole, ix_mul(b->ix, part, stride));
    part = work_coordinate(b, (WorkCoordinate){div * g.walks, 0, 1, 0, 0}, p->outer);
    whole = ix_add(b->ix, whole, ix_mul(b->ix, part, stride * p->steps));
    const IndexExpr *step = work_loop_begin(b, (double)c->items, c->items, 4);
    whole = ix_add(b->ix, whole, ix_mul(b->ix, step, stride));
    index_delinear(b->ix, p->shape, whole, index);
    work_result(b, 0, index);
    work_loop_end(b, 0);
    work_end(b, out);
}

/* -- update_slice ------------------------------------------------------------------------------------ */

void work_update_slice(const KernelDesign *d, KernelWork *out)
{
    WorkBuilder *b = work_begin(d);
    const IndexExpr *index[KERNEL_MOST_RANK];
    uint32_t lanes = (uint32_t)d->config.lanes.data[0];
    const IndexExpr *linear = work_elements_of_thread(b, d->plan.update->elements, lanes);
    for (uint32_t i = 0; i < fusion_result_count(d->fusion); i++) {
        const Instruction *update = fusion_update(d->fusion, i);
        if (update != NULL) {
            index_delinear(b->ix, update->operands[1]->shape, linear, index);
            store_update(b, update, b->comp->parameter_count + i, index);
            continue;
        }
        index_delinear(b->ix, fusion_result(d->fusion, i).shape, linear, index);
        work_result(b, i, index);
    }
    work_end(b, out);
}

/* -- select_and_scatter -------------------------------------------------------------------------------- */

static WindowDim window_dim(const Instruction *inst, uint32_t d)
{
    const Window *w = inst_window(inst);
    if (d < w->rank)
        return w->dims[d];
    return (WindowDim){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
}

/* Windows that can hold one position along a dimension. */
static int64_t windows_of_position(const WindowDim *w)
{
    int64_t span = (w->size - 1) * w->window_dilation + 1;
    return (span + w->stride - 1) / w->stride;
}

/* The walk over the elements of a window, for the one that it selects. */
static void select_element(WorkBuilder *b, const Instruction *inst,
                           const IndexExpr *const *window, int64_t positions)
{
    const Instruction *operand = inst->operands[0];
    const IndexExpr *at[KERNEL_MOST_RANK];
    const IndexExpr *left = work_loop_begin(b, (double)positions, positions, 1);
    for (uint32_t d = operand->shape->rank; d-- > 0;) {
        WindowDim w = window_dim(inst, d);
        const IndexExpr *offset =
            ix_mul(b->ix, ix_mod(b->ix, left, w.size), w.window_dilation);
        left = ix_floordiv(b->ix, left, w.size);
        at[d] = ix_add(b->ix, ix_add(b->ix, ix_mul(b->ix, window[d], w.stride), offset),
                       ix_const(b->ix, -w.pad_low));
    }
    work_element(b, operand, at);
    /* bounds of the window's dimensions, the first or a better one, its number */
    OpCost checks = {.alu = 1, .cycles = costs.alu_cycles};
    double wide = 0;
    for (uint32_t d = 0; d < operand->shape->rank; d++)
        wide += window_dim(inst, d).size > 1;
    work_instructions(b, checks, wide + 3);
    work_loop_end(b, work_computation(b, inst_called(inst, 0), 1) + 2 * checks.cycles);
}

void work_select_and_scatter(const KernelDesign *d, KernelWork *out)
{
    WorkBuilder *b = work_begin(d);
    const Instruction *inst = fusion_hero(d->fusion, OP_SELECT_AND_SCATTER);
    const Shape *s = inst->operands[0]->shape;
    const IndexExpr *at[KERNEL_MOST_RANK], *window[KERNEL_MOST_RANK];
    int64_t windows = 1, positions = 1;
    const IndexExpr *linear = work_elements_of_thread(b, shape_elements(s), 1);
    index_delinear(b->ix, s, linear, at);
    for (uint32_t i = 0; i < s->rank; i++) {
        WindowDim w = window_dim(inst, i);
        windows *= windows_of_position(&w);
        positions *= w.size;
    }
    const IndexExpr *left = work_loop_begin(b, (double)windows, windows, 1);
    for (uint32_t i = s->rank; i-- > 0;) {
        WindowDim w = window_dim(inst, i);
        int64_t n = windows_of_position(&w);
        const IndexExpr *last = ix_floordiv(
            b->ix, ix_add(b->ix, at[i], ix_const(b->ix, w.pad_low)), w.stride);
        const IndexExpr *back =
            ix_add(b->ix, ix_mod(b->ix, left, n), ix_const(b->ix, 1 - n));
        left = ix_floordiv(b->ix, left, n);
        window[i] = ix_add(b->ix, last, back);
    }
    select_element(b, inst, window, positions);
    work_element(b, inst->operands[1], window);
    work_loop_end(b, work_computation(b, inst_called(inst, 1), 1));
    work_store(b, b->comp->parameter_count, s, at);
    work_end(b, out);
}

/* -- rng -------------------------------------------------------------------------------------------------- */

enum { THREEFRY_ROUNDS = 20, THREEFRY_KEYS = 5, PHILOX_ROUNDS = 10 };

void work_rng(const KernelDesign *d, KernelWork *out)
{
    const RngPlan *p = d->plan.rng;
    WorkBuilder *b = work_begin(d);
    uint32_t lanes = d->config.lanes.count != 0 ? (uint32_t)d->config.lanes.data[0] : 1;
    const IndexExpr *at[KERNEL_MOST_RANK];
    const IndexExpr *linear = work_elements_of_thread(b, p->elements, lanes);
    OpCost alu = {.alu = 1, .cycles = costs.alu_cycles};
    OpCost add = {.add = 1, .cycles = costs.alu_cycles};
    OpCost wide = {.alu = 6, .imul = 4, .cycles = 4 * costs.alu_cycles};
    /* add, rotate, xor; keys after every fourth round */
    double cycles =
        p->is_threefry
            ? work_instructions(b, alu, 2 * THREEFRY_ROUNDS) +
                  work_instructions(b, add, THREEFRY_ROUNDS + 3 * THREEFRY_KEYS)
            : work_instructions(b, wide, PHILOX_ROUNDS);
    work_wait(b, cycles);
    if (p->inst != NULL && shape_elements(p->bits) != 0) {
        const Shape *state = p->inst->operands[0]->shape;
        for (uint32_t i = 0; i < state->rank; i++)
            at[i] = ix_const(b->ix, 0);
        work_set_lanes(b, 1);
        work_element(b, p->inst->operands[0], at);
        work_set_lanes(b, lanes);
        linear = work_elements_of_thread(b, p->elements, lanes);
        index_delinear(b->ix, p->bits, linear, at);
        work_store(b, b->comp->parameter_count + p->bits_leaf, p->bits, at);
    }
    work_end(b, out);
}
