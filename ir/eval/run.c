/* Frames and devices: the loop that runs computations without recursion. */
#include "ir/eval/run.h"
#include "ir/eval/dense.h"
#include "ir/eval/rounding.h"
#include "ir/infer/infer.h"

#include <stdlib.h>
#include <string.h>

#define DEAD_NEVER UINT32_MAX

/* -- plans -------------------------------------------------------------------------- */

static bool has_effect(Eval *eval, const Instruction *inst);

static bool computation_has_effect(Eval *eval, const Computation *comp)
{
    if (eval->effects == NULL)
        eval->effects =
            ARENA_ARRAY(eval->arena, uint8_t, eval->module->computation_count);
    uint8_t *known = &eval->effects[comp->id];
    if (*known != 0)
        return *known == 2;
    *known = 1; /* while it is looked at */
    for (const Instruction *inst = inst_first(comp); inst && *known == 1;
         inst = inst_next(inst)) {
        if (has_effect(eval, inst))
            *known = 2;
    }
    return *known == 2;
}

/* What must run though nothing that the root needs depends on it. */
static bool has_effect(Eval *eval, const Instruction *inst)
{
    bool effect =
        op_is(inst->op, OPF_EFFECT | OPF_COLLECTIVE | OPF_ASYNC_START | OPF_ASYNC_DONE) ||
        inst->op == OP_CUSTOM_CALL;
    bool runs = op_is(inst->op, OPF_CONTROL) || inst->op == OP_FUSION;
    for (uint32_t i = 0; runs && !effect && i < inst_called_count(inst); i++)
        effect = computation_has_effect(eval, inst_called(inst, i));
    return effect;
}

/* Drops what is not needed for the root or an effect; order is topological. */
static uint32_t drop_dead(Eval *eval, const Computation *comp, Instruction **order,
                          uint32_t n, Arena *scratch)
{
    bool *needed = ARENA_ARRAY(scratch, bool, comp->instruction_count);
    uint32_t kept = 0;
    needed[comp->root->id] = true;
    for (uint32_t i = n; i-- > 0;) {
        const Instruction *inst = order[i];
        needed[inst->id] = needed[inst->id] || has_effect(eval, inst);
        for (uint32_t k = 0; needed[inst->id] && k < inst->operand_count; k++)
            needed[inst->operands[k]->id] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (needed[order[i]->id])
            order[kept++] = order[i];
    return kept;
}

/* Elements of parameters are taken out first, so that the tuple dies early and a loop can
 * update its arrays in place. */
static void plan_order(Eval *eval, Plan *plan, Arena *scratch)
{
    uint32_t n = 0;
    Instruction **order = computation_post_order(plan->comp, scratch, &n);
    n = drop_dead(eval, plan->comp, order, n, scratch);
    plan->count = n;
    plan->order = ARENA_ARRAY(eval->arena, Instruction *, n);
    uint32_t at = 0;
    for (uint32_t group = 0; group < 3; group++) {
        for (uint32_t i = 0; i < n; i++) {
            Instruction *inst = order[i];
            uint32_t mine = 2;
            if (inst->op == OP_PARAMETER)
                mine = 0;
            else if (inst->op == OP_GET_TUPLE_ELEMENT && inst->control_count == 0 &&
                     inst->operands[0]->op == OP_PARAMETER)
                mine = 1;
            if (mine == group)
                plan->order[at++] = inst;
        }
    }
}

static void plan_deaths(Plan *plan, Arena *arena, Arena *scratch)
{
    uint32_t ids = plan->comp->instruction_count;
    uint32_t *last = ARENA_ARRAY(scratch, uint32_t, ids);
    for (uint32_t i = 0; i < plan->count; i++) {
        const Instruction *inst = plan->order[i];
        last[inst->id] = i;
        if (inst->operand_count > plan->most_operands)
            plan->most_operands = inst->operand_count;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            last[inst->operands[k]->id] = i;
    }
    last[plan->comp->root->id] = DEAD_NEVER;
    plan->dead_start = ARENA_ARRAY(arena, uint32_t, plan->count + 1);
    plan->dead = ARENA_ARRAY(arena, uint32_t, plan->count);
    for (uint32_t i = 0; i < plan->count; i++)
        if (last[plan->order[i]->id] != DEAD_NEVER)
            plan->dead_start[last[plan->order[i]->id] + 1]++;
    for (uint32_t i = 0; i < plan->count; i++)
        plan->dead_start[i + 1] += plan->dead_start[i];
    uint32_t *fill = ARENA_ARRAY(scratch, uint32_t, plan->count + 1);
    memcpy(fill, plan->dead_start, (plan->count + 1) * sizeof *fill);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t id = plan->order[i]->id;
        if (last[id] != DEAD_NEVER)
            plan->dead[fill[last[id]]++] = id;
    }
}

static const Plan *eval_plan(Eval *eval, const Computation *comp)
{
    Plan *plan = pointer_map_get(&eval->plans, comp);
    if (plan != NULL)
        return plan;
    plan = ARENA_NEW(eval->arena, Plan);
    plan->comp = comp;
    Arena *scratch = arena_scratch();
    plan_order(eval, plan, scratch);
    plan_deaths(plan, eval->arena, scratch);
    arena_destroy(scratch);
    pointer_map_set(&eval->plans, eval->arena, comp, plan);
    return plan;
}

/* -- frames ------------------------------------------------------------------------- */

static Frame *frame_create(Eval *eval, Device *device, size_t needed)
{
    for (Frame **at = &device->spare; *at != NULL; at = &(*at)->below) {
        Frame *f = *at;
        if (f->capacity < needed)
            continue;
        *at = f->below;
        return f;
    }
    Frame *f = ARENA_NEW(eval->arena, Frame);
    f->capacity = needed + 16;
    f->arguments = ARENA_ARRAY(eval->arena, Value *, f->capacity);
    return f;
}

void device_push(Eval *eval, Device *device, const Computation *comp, uint32_t count,
                 Value *const *arguments)
{
    const Plan *plan = eval_plan(eval, comp);
    Frame *f = frame_create(eval, device, (size_t)count + comp->instruction_count);
    f->plan = plan;
    f->next = f->phase = 0;
    f->state = f->returned = NULL;
    f->argument_count = count;
    f->values = f->arguments + count;
    for (uint32_t i = 0; i < count; i++)
        f->arguments[i] = value_retain(arguments[i]);
    memset(f->values, 0, comp->instruction_count * sizeof *f->values);
    f->below = device->top;
    device->top = f;
}

/* The frame is through: its root's value goes to the frame below, or is the result. */
static void device_pop(Device *device)
{
    Frame *f = device->top;
    uint32_t root = f->plan->comp->root->id;
    Value *result = f->values[root];
    f->values[root] = NULL;
    for (uint32_t i = 0; i < f->argument_count; i++)
        value_release(f->arguments[i]);
    device->top = f->below;
    f->below = device->spare;
    device->spare = f;
    if (device->top != NULL)
        device->top->returned = result;
    else
        device->result = result;
}

static void frame_retire(Frame *f)
{
    const Plan *plan = f->plan;
    for (uint32_t i = plan->dead_start[f->next]; i < plan->dead_start[f->next + 1]; i++) {
        value_release(f->values[plan->dead[i]]);
        f->values[plan->dead[i]] = NULL;
    }
    f->next++;
    f->phase = 0;
}

/* -- steps -------------------------------------------------------------------------- */

static void count_step(EvalCall *call)
{
    Eval *eval = call->eval;
    if (eval->options.step_limit != 0 && eval->steps >= eval->options.step_limit)
        eval_fail(call, "the limit of %llu steps is reached",
                  (unsigned long long)eval->options.step_limit);
    eval->steps++;
}

/* Runs one phase of the top frame's next instruction. False: it waits. */
static bool device_step_once(Eval *eval, Device *device, Value **operands)
{
    Frame *f = device->top;
    const Instruction *inst = f->plan->order[f->next];
    EvalCall call = {.eval = eval,
                     .device = device,
                     .frame = f,
                     .inst = inst,
                     .operands = operands,
                     .phase = f->phase,
                     .state = f->state,
                     .returned = f->returned,
                     .scratch = eval->scratch};
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = f->values[inst->operands[i]->id];
    f->returned = NULL;
    if (call.phase == 0)
        count_step(&call);
    EvalFn *fn = op_info[inst->op].eval;
    if (fn == NULL)
        eval_unsupported(&call, "the evaluator does not know this operation");
    bool has_sizes =
        !op_is(inst->op, OPF_SIZES | OPF_ELEMENTWISE) && dense_has_sizes(&call);
    if (!infer_applies_to_one_type(inst))
        eval_unsupported(&call, "a computation on elements of several float types");
    if (has_sizes && !op_is(inst->op, OPF_DENSE)) /* it would read what is not there */
        eval_unsupported(&call, "an operand of dynamic size");
    struct Temp *mark = value_heap_mark(&eval->heap);
    if (eval->options.rounding != 0)
        rounding_move_operands(&call);
    if (has_sizes)
        dense_run(&call, fn);
    else
        fn(&call);
    value_heap_release(&eval->heap, mark);
    if (eval->options.rounding != 0)
        rounding_move_result(&call, f->values);
    arena_reset(eval->scratch);
    f->phase = call.phase;
    f->state = call.state;
    if (call.parked)
        return false;
    if (call.result != NULL) {
        f->values[inst->id] = call.result;
        frame_retire(f);
    } else if (device->top == f) {
        bug("the evaluator of '%s' gave no value", op_info[inst->op].name);
    }
    return true;
}

bool device_step(Eval *eval, Device *device, uint32_t most)
{
    bool moved = false;
    Value *few[16];
    while (most-- > 0 && device->top != NULL) {
        Frame *f = device->top;
        if (f->next == f->plan->count) {
            device_pop(device);
            moved = true;
            continue;
        }
        uint32_t wanted = f->plan->most_operands;
        Value **operands = few;
        if (wanted > sizeof few / sizeof *few)
            operands = malloc(wanted * sizeof *operands);
        if (operands == NULL)
            escape_throw(ESCAPE_MEMORY, "out of memory while evaluating");
        device->parked = !device_step_once(eval, device, operands);
        if (operands != few)
            free(operands);
        if (device->parked)
            break;
        moved = true;
    }
    return moved;
}

void eval_push(EvalCall *call, const Computation *comp, uint32_t count,
               Value *const *arguments, uint32_t phase)
{
    if (count != comp->parameter_count)
        eval_fail(call,
                  "computation '%s' has %u parameters but is called with %u arguments",
                  comp->name, comp->parameter_count, count);
    call->phase = phase;
    device_push(call->eval, call->device, comp, count, arguments);
}

Value *eval_nested(EvalCall *call, const Computation *comp, uint32_t count,
                   Value *const *arguments)
{
    Eval *eval = call->eval;
    if (eval->nesting >= EVAL_NESTING_MAX)
        eval_unsupported(call, "computations nested more than %d deep", EVAL_NESTING_MAX);
    Device inner = *call->device;
    inner.top = NULL;
    inner.result = NULL;
    Arena *scratch = eval->scratch;
    eval->scratch = arena_create(); /* the caller's is in use */
    eval->nesting++;
    device_push(eval, &inner, comp, count, arguments);
    while (inner.top != NULL) {
        device_step(eval, &inner, UINT32_MAX);
        if (inner.parked)
            eval_fail(call, "computation '%s' must not wait for other devices",
                      comp->name);
    }
    eval->nesting--;
    arena_destroy(eval->scratch);
    eval->scratch = scratch;
    call->device->spare = inner.spare;
    memcpy(call->device->counter, inner.counter, sizeof inner.counter);
    return inner.result;
}
