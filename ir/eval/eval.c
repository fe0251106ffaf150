/* The evaluator's entry points: arguments in, all devices run, results out. */
#include "ir/eval/eval.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval/collective.h"
#include "ir/eval/run.h"

#define DEVICES_MOST 4096
#define STEPS_AT_ONCE 256 /* of one device before the next has its turn */

/* -- failures ----------------------------------------------------------------------- */

static GXC_FORMAT(2, 0) void describe(const EvalCall *call, const char *format,
                                      va_list args, char *out, size_t size)
{
    int n = snprintf(out, size, "%%%s = %s: ", call->inst->name,
                     op_info[call->inst->op].name);
    if (n > 0 && (size_t)n < size)
        vsnprintf(out + n, size - (size_t)n, format, args);
}

static GXC_NORETURN void end_at(const EvalCall *call, const char *text)
{
    escape_innermost()->at = call->inst->span;
    escape_throw(ESCAPE_UNSUPPORTED, "%s", text);
}

void eval_fail(const EvalCall *call, const char *format, ...)
{
    char text[1800];
    va_list args;
    va_start(args, format);
    describe(call, format, args, text, sizeof text);
    va_end(args);
    call->eval->unsupported = false;
    end_at(call, text);
}

void eval_unsupported(const EvalCall *call, const char *format, ...)
{
    char text[1800];
    va_list args;
    va_start(args, format);
    describe(call, format, args, text, sizeof text);
    va_end(args);
    call->eval->unsupported = true;
    end_at(call, text);
}

/* -- set-up ------------------------------------------------------------------------- */

int64_t eval_device_count(const Module *m, const EvalOptions *options)
{
    int64_t r = options != NULL && options->replicas > 0 ? options->replicas
                                                         : m->config.replica_count;
    int64_t p = options != NULL && options->partitions > 0 ? options->partitions
                                                           : m->config.num_partitions;
    r = r > 0 ? r : 1;
    p = p > 0 ? p : 1;
    return r <= DEVICES_MOST && p <= DEVICES_MOST && r * p <= DEVICES_MOST ? r * p : 0;
}

static void eval_init(Eval *eval, const Module *m, const EvalOptions *options)
{
    if (options != NULL)
        eval->options = *options;
    int64_t devices = eval_device_count(m, options);
    if (devices == 0)
        escape_throw(ESCAPE_UNSUPPORTED, "evaluation runs on 1 to %d devices",
                     DEVICES_MOST);
    eval->module = m;
    eval->partitions = eval->options.partitions > 0   ? eval->options.partitions
                       : m->config.num_partitions > 0 ? m->config.num_partitions
                                                      : 1;
    eval->replicas = devices / eval->partitions;
    eval->device_count = (uint32_t)devices;
    eval->heap.limit =
        eval->options.memory_limit != 0 ? eval->options.memory_limit : (size_t)16 << 30;
    eval->arena = arena_create();
    eval->scratch = arena_create();
    eval->devices = ARENA_ARRAY(eval->arena, Device, eval->device_count);
    eval->collectives = collective_state_create(eval);
    for (uint32_t i = 0; i < eval->device_count; i++) {
        Device *d = &eval->devices[i];
        d->id = i;
        d->replica = i / eval->partitions;
        d->partition = i % eval->partitions;
        d->counter[0] = eval->options.seed;
    }
}

static void eval_deinit(Eval *eval)
{
    value_heap_clear(&eval->heap);
    arena_destroy(eval->scratch);
    arena_destroy(eval->arena);
}

/* -- running ------------------------------------------------------------------------ */

static void bind_arguments(Eval *eval, Device *device, const EvalDevice *given)
{
    const Computation *entry = eval->module->entry;
    if (given->argument_count != entry->parameter_count)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "the program has %u parameters but device %u got %u "
                     "arguments",
                     entry->parameter_count, device->id, given->argument_count);
    Value **values = ARENA_ARRAY(eval->arena, Value *, given->argument_count);
    for (uint32_t i = 0; i < given->argument_count; i++) {
        const Shape *want = entry->parameters[i]->shape;
        if (!shape_compatible(given->arguments[i]->shape, want))
            escape_throw(
                ESCAPE_UNSUPPORTED,
                "argument %u of device %u is %s but parameter "
                "'%s' is %s",
                i, device->id, shape_text(eval->arena, given->arguments[i]->shape, false),
                entry->parameters[i]->name, shape_text(eval->arena, want, false));
        if (literal_has_elided(given->arguments[i]))
            escape_throw(ESCAPE_UNSUPPORTED, "argument %u of device %u has no data", i,
                         device->id);
        values[i] = value_borrow(&eval->heap, given->arguments[i]);
    }
    device_push(eval, device, entry, given->argument_count, values);
    for (uint32_t i = 0; i < given->argument_count; i++)
        value_release(values[i]);
}

static void fail_deadlock(Eval *eval)
{
    Text t;
    text_init(&t, eval->scratch);
    for (uint32_t i = 0; i < eval->device_count && t.length < 1500; i++) {
        const Frame *f = eval->devices[i].top;
        text_string(&t, i ? "; " : "");
        if (f == NULL) {
            text_printf(&t, "device %u has finished", i);
            continue;
        }
        const Instruction *at = f->plan->order[f->next];
        text_printf(&t, "device %u waits at %%%s = %s in computation %s", i, at->name,
                    op_info[at->op].name, f->plan->comp->name);
        collective_describe_wait(eval, i, &t);
    }
    escape_throw(ESCAPE_UNSUPPORTED, "deadlock: no device can go on: %s", t.data);
}

static void run_all(Eval *eval)
{
    for (;;) {
        bool running = false, moved = false;
        for (uint32_t i = 0; i < eval->device_count; i++) {
            Device *d = &eval->devices[i];
            if (d->top == NULL)
                continue;
            moved = device_step(eval, d,
                                eval->device_count == 1 ? UINT32_MAX : STEPS_AT_ONCE) ||
                    moved;
            running = running || d->top != NULL;
        }
        if (!running) {
            collective_check_finished(eval);
            return;
        }
        if (!moved)
            fail_deadlock(eval);
    }
}

/* Why an early end came, in the words of the interface; bugs go on outwards. */
static EvalStatus early_end(const Escape *e, bool unsupported, Arena *arena,
                            const char **error)
{
    if (e->kind == ESCAPE_BUG)
        escape_throw(e->kind, "%s", e->message);
    if (escape_innermost() != NULL)
        escape_innermost()->at = e->at;
    *error = arena_printf(arena, "%s", e->message);
    return unsupported ? EVAL_UNSUPPORTED : EVAL_ERROR;
}

EvalStatus module_evaluate(const Module *m, const EvalOptions *options,
                           uint32_t device_count, EvalDevice *devices, Arena *arena,
                           const char **error)
{
    Eval *eval = calloc(1, sizeof *eval);
    if (eval == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while evaluating");
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        eval_init(eval, m, options);
        if (eval->device_count != device_count)
            escape_throw(ESCAPE_UNSUPPORTED, "the program runs on %u devices, not on %u",
                         eval->device_count, device_count);
        for (uint32_t i = 0; i < device_count; i++)
            bind_arguments(eval, &eval->devices[i], &devices[i]);
        run_all(eval);
        for (uint32_t i = 0; i < device_count; i++)
            devices[i].result = value_literal(arena, eval->devices[i].result);
    }
    escape_pop(&e);
    eval_deinit(eval);
    bool unsupported = eval->unsupported;
    free(eval);
    return e.kind == ESCAPE_NONE ? EVAL_OK : early_end(&e, unsupported, arena, error);
}

/* -- constants ---------------------------------------------------------------------- */

#define FOLD_MOST 1024 /* instructions that one constant may depend on */

/* Not before the called computations are known to be harmless, too. */
static bool computation_is_constant(const Computation *comp, uint32_t depth);

static bool instruction_is_constant(const Instruction *inst, uint32_t depth)
{
    if (op_is(inst->op, OPF_EFFECT | OPF_COLLECTIVE | OPF_RANDOM | OPF_ASYNC_START |
                            OPF_ASYNC_DONE) ||
        op_info[inst->op].eval == NULL)
        return false;
    if (inst->op == OP_PARTITION_ID || inst->op == OP_REPLICA_ID ||
        inst->op == OP_CUSTOM_CALL || inst->op == OP_AFTER_ALL ||
        inst->op == OP_ASYNC_UPDATE)
        return false;
    if (inst->op == OP_CONSTANT && literal_has_elided(inst->literal))
        return false;
    for (uint32_t i = 0; i < inst_called_count(inst); i++)
        if (!computation_is_constant(inst_called(inst, i), depth + 1))
            return false;
    return true;
}

static bool computation_is_constant(const Computation *comp, uint32_t depth)
{
    if (depth > EVAL_NESTING_MAX)
        return false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        if (!instruction_is_constant(inst, depth))
            return false;
    return true;
}

static bool fits(const Instruction *inst, int64_t max_elements)
{
    for (size_t i = 0, n = shape_leaf_count(inst->shape); i < n; i++) {
        const Shape *s = shape_leaf(inst->shape, i);
        int64_t count = 0;
        if (shape_is_array(s) &&
            (shape_is_dynamic(s) || !shape_element_count(s, &count) ||
             count > max_elements))
            return false;
    }
    return true;
}

/* A computation of its own with copies of the instructions that inst depends on, operands
 * first; NULL if it is no constant. Its size depends on them only, not on the program's. */
static Computation *constant_slice(Arena *a, const Instruction *inst,
                                   int64_t max_elements)
{
    PointerMap copies = {0};
    Instruction **list = ARENA_ARRAY(a, Instruction *, FOLD_MOST);
    const Instruction **stack = ARENA_ARRAY(a, const Instruction *, FOLD_MOST);
    Computation *part = ARENA_NEW(a, Computation);
    *part = *inst->parent;
    part->instructions = list;
    part->instruction_count = part->parameter_count = 0;
    uint32_t depth = 0;
    stack[depth++] = inst;
    while (depth > 0) {
        const Instruction *top = stack[depth - 1];
        uint32_t before = depth;
        if (pointer_map_get(&copies, top) != NULL) {
            depth--;
            continue;
        }
        if (top->op == OP_PARAMETER || !instruction_is_constant(top, 0) ||
            !fits(top, max_elements))
            return NULL;
        for (uint32_t i = 0; i < top->operand_count; i++) {
            if (pointer_map_get(&copies, top->operands[i]) != NULL)
                continue;
            if (depth == FOLD_MOST)
                return NULL;
            stack[depth++] = top->operands[i];
        }
        if (depth > before)
            continue;
        if (part->instruction_count == FOLD_MOST)
            return NULL;
        Instruction *copy = arena_copy(a, top, sizeof *top);
        copy->id = part->instruction_count;
        copy->parent = part;
        copy->control_count = 0;
        copy->operands = ARENA_ARRAY(a, Instruction *, top->operand_count);
        for (uint32_t i = 0; i < top->operand_count; i++)
            copy->operands[i] = pointer_map_get(&copies, top->operands[i]);
        list[part->instruction_count++] = copy;
        pointer_map_set(&copies, a, top, copy);
        depth--;
    }
    part->root = list[part->instruction_count - 1];
    return part;
}

const Literal *evaluate_constant(Arena *arena, const Instruction *inst,
                                 int64_t max_elements, uint64_t max_steps)
{
    const Literal *volatile result = NULL;
    Eval *eval = calloc(1, sizeof *eval);
    if (eval == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while evaluating");
    EvalOptions options = {
        .replicas = 1, .partitions = 1, .step_limit = max_steps, .exact = true};
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        eval_init(eval, inst->parent->module, &options);
        const Computation *part = constant_slice(eval->arena, inst, max_elements);
        if (part != NULL) {
            device_push(eval, &eval->devices[0], part, 0, NULL);
            run_all(eval);
            result = value_literal(arena, eval->devices[0].result);
        }
    }
    escape_pop(&e);
    eval_deinit(eval);
    free(eval);
    if (e.kind == ESCAPE_BUG)
        escape_throw(e.kind, "%s", e.message);
    return e.kind == ESCAPE_NONE ? result : NULL;
}
