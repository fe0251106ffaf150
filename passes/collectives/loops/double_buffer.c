/* Double buffering: a loop with collectives, and a small one that would have to copy what it carries, do two
 * steps at a time.
 *
 *   while n = 5: body (p) { x = all-reduce(p#1)  ROOT (p#0 + 1, x) }
 *   ->  x0 = all-reduce(init#1)                              the first step, as 5 is odd
 *       while n = 2: body (p) { x = all-reduce(p#1)  y = all-reduce(x)  ROOT (p#0 + 2, y) }
 *
 * What a step gives to the next needs no copy between the two halves, and what the second half
 * sends may go while the first computes. A kernel that makes the next value of an array from neighbours of the
 * present one, or from products of it, cannot write it where the present one lies: of two steps the first
 * writes another array, the second the first one again. Where _xla_loop_unroll_strategy says "full", or two or
 * three steps are all, no loop is left; "double-buffer" asks for it in loops without collectives,
 * too.
 *
 * Needs: trip counts; before pairs are made. Keeps: values, control edges within a step. Breaks:
 * nothing; computations stay with one caller. Ends: each loop is visited once. */
#include <string.h>

#include "ir/analysis/carried.h"
#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/loops/step.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

enum { SMALL_BODY = 64 /* instructions, kernels among them */ };

/* -- what a step copies -------------------------------------------------------------------------- */

/* Elements that it makes are made from others of the value than those at their own positions. */
static bool reads_elsewhere(const Instruction *maker, ValueSource value)
{
    for (uint32_t k = 0; k < maker->operand_count; k++) {
        if (!shape_is_array(maker->operands[k]->shape) ||
            !value_source_is(value_source(maker->operands[k], 0), value))
            continue;
        bool is_own_element =
            library_makes(maker)
                ? matmul_adds_in_place(maker, k)
                : maker->op == OP_FUSION &&
                      (kernel_in_place(maker, kernel_kind_of(maker), 0) == (int64_t)k ||
                       kernel_reads_at_results(maker, k, shape_elements(maker->shape)));
        if (!is_own_element)
            return true;
    }
    return false;
}

/* Will be one kernel with a product that it reads element by element. */
static bool joins_product(const Instruction *maker, uint32_t operand)
{
    const Instruction *product = value_source(maker->operands[operand], 0).inst;
    return maker->op == OP_FUSION && !library_makes(maker) &&
           kernel_is(maker, KERNEL_BY_ELEMENT) && product->op == OP_FUSION &&
           !library_makes(product) && kernel_is(product, KERNEL_CONTRACTS) &&
           shape_is_array(product->shape) &&
           shape_elements(product->shape) == shape_elements(maker->shape) &&
           kernel_reads_at_results(maker, operand, shape_elements(maker->shape));
}

/* The next value of an array of more than one element cannot be written where the present one lies. */
static bool needs_copy(ValueSource present, ValueSource next)
{
    const Instruction *maker = next.inst;
    if (present.inst == NULL || !shape_is_array(maker->shape) ||
        shape_elements(maker->shape) < 2 ||
        (maker->op != OP_FUSION && !library_makes(maker)))
        return false;
    if (reads_elsewhere(maker, present))
        return true;
    for (uint32_t k = 0; k < maker->operand_count; k++) {
        if (joins_product(maker, k) &&
            reads_elsewhere(value_source(maker->operands[k], 0).inst, present))
            return true;
    }
    return false;
}

/* Loops and branches inside, or what runs beside the step: of two steps, both would have its arrays. */
static bool has_more(const Computation *body)
{
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (op_is(inst->op, OPF_ASYNC_START | OPF_CONTROL))
            return true;
    }
    return false;
}

static bool copies_carried(const Computation *body, Arena *scratch)
{
    if (body->instruction_count > SMALL_BODY || has_more(body))
        return false;
    const ValueSource *presents = carried_presents(body, true, scratch);
    for (size_t leaf = 0; leaf < shape_leaf_count(body->root->shape); leaf++) {
        if (shape_is_array(shape_leaf(body->root->shape, leaf)) &&
            needs_copy(presents[leaf], value_source(body->root, leaf)))
            return true;
    }
    return false;
}

/* -- steps --------------------------------------------------------------------------------------- */

/* How many steps are to be one; 1: the loop stays. */
static int64_t wanted_factor(const Loop *loop, const PassContext *cx, int64_t trips)
{
    int64_t mode = cx->settings->double_buffer_loops;
    const char *strategy =
        inst_frontend_attribute(loop->inst, "_xla_loop_unroll_strategy");
    bool full = strategy != NULL && strcmp(strategy, "full") == 0;
    bool twice = strategy != NULL && strcmp(strategy, "double-buffer") == 0;
    if (mode == MODE_OFF || trips < 2)
        return 1;
    if (strategy == NULL &&
        (mode == MODE_ON || (mode == MODE_DEFAULT && cx->opt_level >= 2))) {
        for (const Instruction *inst = inst_first(loop->body); inst && !twice;
             inst = inst_next(inst))
            twice = op_is(inst->op, OPF_COLLECTIVE);
    }
    if (strategy == NULL && mode != MODE_EXPLICIT)
        twice = twice || copies_carried(loop->body, cx->scratch);
    int64_t factor = full ? trips : twice ? 2 : 1;
    int64_t most = cx->settings->double_buffer_max_instructions;
    return factor <= most / loop->body->instruction_count ? factor : 1;
}

/* A step over `values` of the elements, in `to`; those become what it gives. */
static void add_step(StepCopy *copy, const Loop *loop, Instruction *const *list,
                     uint32_t count, Instruction **values, Arena *scratch)
{
    uint32_t n = 0;
    Instruction *const *root = list[count - 1]->operands;
    Instruction **part = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    copy->made =
        ARENA_ARRAY(scratch, Instruction *, (size_t)loop->body->instruction_count + 1);
    for (uint32_t i = 0; i + 1 < count; i++) {
        int64_t element = loop_element(loop->body, list[i]);
        if (element >= 0)
            copy->made[list[i]->id] = values[element];
        else if (list[i]->op != OP_PARAMETER)
            part[n++] = list[i];
    }
    step_copy(copy, part, n);
    for (uint32_t i = 0; i < loop->count; i++)
        values[i] = copy->made[root[i]->id];
}

/* The first step, before the loop. */
static void peel(const Loop *loop, Instruction *const *list, uint32_t count,
                 FreshIds *ids, Arena *scratch)
{
    Instruction **values =
        arena_copy(scratch, loop->init->operands, loop->count * sizeof *values);
    StepCopy copy = {.from = loop->body,
                     .to = loop->inst->parent,
                     .ids = ids,
                     .renews_transfers = true,
                     .step = 0};
    add_step(&copy, loop, list, count, values, scratch);
    loop->inst->operands[0] = computation_add(
        loop->inst->parent, OP_TUPLE, loop->init->shape, loop->count, values, NULL);
}

static void repeat_body(const Loop *loop, Instruction *const *list, uint32_t count,
                        int64_t first, int64_t factor, int64_t trips, FreshIds *ids,
                        Arena *scratch)
{
    Instruction *root = loop->body->root;
    Instruction **values =
        arena_copy(scratch, root->operands, loop->count * sizeof *values);
    for (int64_t k = 1; k < factor; k++) {
        StepCopy copy = {.from = loop->body,
                         .to = loop->body,
                         .ids = ids,
                         .renews_transfers = true,
                         .step = -1};
        uint32_t before = loop->body->instruction_count;
        add_step(&copy, loop, list, count, values, scratch);
        step_set_validation(loop->body->instructions + before,
                            loop->body->instruction_count - before, first + k, factor,
                            trips);
    }
    step_set_validation(list, count, first, factor, trips);
    root->operands =
        arena_copy(loop->body->module->arena, values, loop->count * sizeof *values);
    computation_sort(loop->body);
}

static void set_trips(const Loop *loop, const Induction *v, int64_t first, int64_t factor,
                      int64_t trips)
{
    if (v->trips >= 0) {
        Induction new = {.index = v->index,
                         .init = v->init + first * v->step,
                         .step = v->step * factor,
                         .trips = trips};
        loop_set_induction(loop->inst, &new);
    } else {
        loop_set_known_trip_count(loop->inst, trips);
    }
}

/* All steps in the caller: the values behind the last. */
static Instruction **write_out(const Loop *loop, Instruction *const *list, uint32_t count,
                               int64_t trips, FreshIds *ids, Arena *scratch)
{
    Instruction **values =
        arena_copy(scratch, loop->init->operands, loop->count * sizeof *values);
    for (int64_t k = 0; k < trips; k++) {
        StepCopy copy = {.from = loop->body,
                         .to = loop->inst->parent,
                         .ids = ids,
                         .renews_transfers = true,
                         .step = k};
        add_step(&copy, loop, list, count, values, scratch);
    }
    return values;
}

/* Instructions with operands first, the root last. */
static Instruction **list_body(const Computation *body, Arena *scratch, uint32_t *out)
{
    uint32_t count, n = 0;
    Instruction **order = computation_post_order(body, scratch, &count);
    Instruction **list = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] != body->root)
            list[n++] = order[i];
    }
    list[n++] = body->root;
    *out = n;
    return list;
}

/* out_values: set if no loop is left. */
static bool visit_loop(Loop *loop, PassContext *cx, const Effects *effects, FreshIds *ids,
                       Instruction ***out_values)
{
    Induction v;
    if (!loop_induction(loop, &v))
        v.trips = -1;
    int64_t trips = v.trips >= 0 ? v.trips : loop_known_trip_count(loop->inst);
    int64_t factor = wanted_factor(loop, cx, trips);
    if (factor < 2 || effects->of[loop->condition->id] ||
        !step_may_copy(loop->body, effects->of, effects->count))
        return false;
    uint32_t n;
    Instruction **list = list_body(loop->body, cx->scratch, &n);
    int64_t first = trips % factor;
    cx->counts.loops_double_buffered++;
    cx->counts.steps_peeled += (uint64_t)first;
    if (trips / factor == 1) {
        *out_values = write_out(loop, list, n, trips, ids, cx->scratch);
        return true;
    }
    if (first != 0)
        peel(loop, list, n, ids, cx->scratch);
    repeat_body(loop, list, n, first, factor, trips / factor, ids, cx->scratch);
    set_trips(loop, &v, first, factor, trips / factor);
    return true;
}

static bool visit_computation(Computation *comp, PassContext *cx, const Effects *effects,
                              const uint32_t *calls, FreshIds *ids)
{
    uint32_t count = comp->instruction_count;
    Instruction ***values = NULL;
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i], **out = NULL;
        Loop loop;
        if (inst == NULL || inst->op != OP_WHILE || !loop_analyse(inst, &loop) ||
            loop.body->id >= effects->count || calls[loop.body->id] != 1 ||
            calls[loop.condition->id] != 1 || !visit_loop(&loop, cx, effects, ids, &out))
            continue;
        changed = true;
        if (out == NULL)
            continue;
        if (values == NULL)
            values = ARENA_ARRAY(cx->scratch, Instruction **, (size_t)count + 1);
        values[i] = out;
    }
    if (values != NULL)
        step_replace_loops(comp, values, count, cx->scratch);
    else if (changed)
        computation_sort(comp);
    return changed;
}

bool pass_double_buffer(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    FreshIds ids = fresh_ids(m);
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    const Effects *effects = simplify_effects(m, cx->scratch);
    bool changed = false;
    Computations programs = module_programs(m, cx->scratch); /* not loops in kernels */
    for (uint32_t i = 0; i < programs.count; i++)
        changed |= visit_computation(programs.data[i], cx, effects, calls, &ids);
    if (!changed)
        return false;
    module_sort(m);
    module_remove_dead_computations(m);
    return true;
}
