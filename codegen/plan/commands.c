/* The command tree: one walk over the schedule; every fusion becomes a launch, loops and
 * branches become commands with children. See runtime/plan/plan.h for the records. */
#include <string.h>

#include "codegen/library/cublaslt.h"
#include "codegen/library/cudnn.h"
#include "codegen/library/cusolver.h"
#include "ir/analysis/loop.h"
#include "ir/attribute/config.h"
#include "ir/base/bug.h"
#include "ir/custom_call/custom_call.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/solver.h"

#define NESTING_MOST 64 /* of loops and branches, as libgxrt allows */

/* Bytes of parameter p that a fusion reads: all of it, unless everything that reads it takes
 * slices. */
static uint64_t bytes_read(Variant *v, const Instruction *fusion, uint32_t p)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *parameter = comp->parameters[p];
    Uses uses = uses_compute(comp, v->arena);
    uint64_t whole = (uint64_t)shape_bytes(parameter->shape), sum = 0;
    for (uint32_t i = uses.start[parameter->id]; i < uses.start[parameter->id + 1]; i++) {
        const Instruction *user = uses.list[i];
        bool slices = (user->op == OP_DYNAMIC_SLICE || user->op == OP_GATHER ||
                       user->op == OP_SLICE) &&
                      user->operands[0] == parameter;
        bool updates = user->op == OP_DYNAMIC_UPDATE_SLICE &&
                       user->operands[0] == parameter &&
                       kernel_is(fusion, KERNEL_UPDATES);
        if (slices)
            sum += (uint64_t)shape_bytes(user->shape);
        else if (!updates)
            return whole;
    }
    return sum < whole ? sum : whole;
}

/* Bytes of result leaf r that a fusion writes: an in-place update writes its slice only. */
static uint64_t bytes_written(const Variant *v, const Instruction *fusion, uint32_t r)
{
    const Instruction *root = inst_called(fusion, 0)->root;
    if (root->op == OP_TUPLE)
        root = root->operands[r];
    uint64_t whole = (uint64_t)shape_bytes(root->shape);
    const Instruction *target =
        root->op == OP_DYNAMIC_UPDATE_SLICE ? root->operands[0] : NULL;
    if (target == NULL || target->op != OP_PARAMETER)
        return whole;
    const Instruction *operand = fusion->operands[target->parameter];
    bool in_place = alias_set(v->aliases, operand, 0) == alias_set(v->aliases, fusion, r);
    return in_place ? (uint64_t)shape_bytes(root->operands[1]->shape) : whole;
}

enum {
    WIDE_BYTES = 16,       /* of the widest access */
    WIDE_ARRAY_BYTES = 512 /* a warp of those: smaller arrays are not counted */
};

/* Its rows in memory begin at multiples of the widest access. */
static bool allows_wide(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i];
        if (s->dims[d] != 1)
            return s->dims[d] * dtype_info[s->dtype].bits % (8 * WIDE_BYTES) == 0;
    }
    return false;
}

/* Adds to the request what a launch moves of arrays that allow the widest access. */
static void count_moved(Variant *v, const Instruction *fusion, const uint64_t *bytes,
                        KernelRequest *r)
{
    uint32_t n = fusion->operand_count,
             results = (uint32_t)shape_leaf_count(fusion->shape);
    for (uint32_t i = 0; i < n + results; i++) {
        const Shape *s =
            i < n ? fusion->operands[i]->shape : shape_leaf(fusion->shape, i - n);
        if (bytes[i] >= WIDE_ARRAY_BYTES && allows_wide(s))
            r->moved[i] += v->times * bytes[i];
    }
}

/* Memory for one launch, whose beginning is filled with zeros first. */
static PlanArg add_scratch(Variant *v, const Instruction *fusion, const KernelGeometry *g)
{
    uint32_t slice = variant_scratch_slice(v, g->cleared_bytes);
    PlanArg fill[2] = {
        {.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE, .index = slice},
        {.tag = PLAN_ARG_IMMEDIATE},
    };
    uint32_t c = variant_command(v, PLAN_FILL, fusion, 0, fill, 2);
    v->plan.commands[c].count = 4;
    if (g->scratch_bytes != g->cleared_bytes)
        slice = variant_scratch_slice(v, g->scratch_bytes);
    return (PlanArg){
        .tag = PLAN_ARG_SLICE, .access = PLAN_READ | PLAN_WRITE, .index = slice};
}

static PlanArg kernel_argument(Variant *v, const Instruction *fusion,
                               const PieceLaunch *launch, uint32_t p)
{
    const Instruction *operand = fusion->operands[p];
    if (launch->offsets == NULL || launch->offsets[p] < 0)
        return variant_slice_arg(v, operand, 0, PLAN_READ);
    return variant_part_arg(v, operand, (uint64_t)launch->offsets[p], launch->bytes[p],
                            PLAN_READ);
}

/* Bytes of an operand that the launch hands to its kernel. */
static uint64_t bytes_given(const Instruction *fusion, const PieceLaunch *launch,
                            uint32_t p)
{
    return launch->offsets == NULL ? (uint64_t)shape_bytes(fusion->operands[p]->shape)
                                   : launch->bytes[p];
}

static bool add_launch(Variant *v, const Instruction *fusion)
{
    uint32_t results = (uint32_t)shape_leaf_count(fusion->shape);
    bool empty = true;
    for (uint32_t r = 0; r < results; r++)
        empty &= shape_elements(shape_leaf(fusion->shape, r)) == 0;
    if (empty)
        return true;
    PieceLaunch launch = variant_pieces(v, fusion);
    uint32_t kernel = variant_kernel(v, fusion, &launch), n = fusion->operand_count;
    if (kernel == PLAN_NONE)
        return false;
    PlanArg *args = ARENA_ARRAY(v->arena, PlanArg, (size_t)n + results + 5);
    uint64_t *bytes = ARENA_ARRAY(v->arena, uint64_t, (size_t)n + results);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = kernel_argument(v, fusion, &launch, i);
        uint64_t has = bytes_given(fusion, &launch, i), read = bytes_read(v, fusion, i);
        bytes[i] = read = read < has ? read : has;
        if (read != has)
            args[i].value = read == 0 ? 1 : read;
    }
    for (uint32_t r = 0; r < results; r++) {
        args[n + r] = variant_slice_arg(v, fusion, r, PLAN_WRITE);
        uint64_t written = bytes[n + r] = bytes_written(v, fusion, r);
        if (written != (uint64_t)shape_bytes(shape_leaf(fusion->shape, r)))
            args[n + r].value = written;
    }
    count_moved(v, fusion, bytes, &v->requests[kernel]);
    n += results;
    if (fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL)
        args[n++] = (PlanArg){.tag = PLAN_ARG_SLICE,
                              .access = PLAN_READ | PLAN_WRITE,
                              .index = variant_state_slice(v)};
    KernelScalar scalar;
    if (kernel_scalar(fusion, &scalar))
        args[n++] = (PlanArg){.tag = PLAN_ARG_IMMEDIATE, .value = scalar.value};
    const KernelGeometry *g = &v->requests[kernel].design->geometry;
    if (g->scratch_bytes != 0)
        args[n++] = add_scratch(v, fusion, g);
    if (g->partial_bytes != 0)
        args[n++] = (PlanArg){.tag = PLAN_ARG_SLICE,
                              .access = PLAN_WRITE,
                              .index = variant_scratch_slice(v, g->partial_bytes)};
    if (g->ticket_bytes != 0)
        args[n++] = (PlanArg){.tag = PLAN_ARG_SLICE,
                              .access = PLAN_READ | PLAN_WRITE,
                              .index = variant_ticket_slice(v, g->ticket_bytes)};
    uint32_t command = variant_command(v, PLAN_LAUNCH, fusion, kernel, args, n);
    if (v->options->candidates != 0)
        variant_add_candidates(v, fusion, &launch, command);
    return true;
}

static bool is_on_host(const Variant *v, const Instruction *value)
{
    return v->buffers->sets[alias_set(v->aliases, value, 0)].colour == PLAN_HOST_MEMORY;
}

/* Between device and host a piece of an array goes by a copy, which takes no multiprocessor. */
static bool add_transfer(Variant *v, const Instruction *fusion)
{
    const LoopSlice *t = loop_transfer_of(v->loop_slices, fusion);
    if (t == NULL || !is_on_host(v, t->source))
        return false;
    bool puts = t->piece != fusion;
    uint64_t bytes = (uint64_t)shape_bytes(t->piece->shape);
    PlanArg part = variant_piece_arg(v, t, bytes, puts ? PLAN_WRITE : PLAN_READ);
    PlanArg piece = variant_slice_arg(v, t->piece, 0, puts ? PLAN_READ : PLAN_WRITE);
    PlanArg args[2] = {puts ? part : piece, puts ? piece : part};
    variant_command(v, PLAN_COPY, fusion, 0, args, 2);
    return true;
}

static void add_copy(Variant *v, const Instruction *inst)
{
    size_t leaves = shape_leaf_count(inst->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        const Shape *s = shape_leaf(inst->shape, leaf);
        if (!shape_is_array(s) || shape_bytes(s) == 0)
            continue;
        PlanArg args[2] = {variant_slice_arg(v, inst, leaf, PLAN_WRITE),
                           variant_slice_arg(v, inst->operands[0], leaf, PLAN_READ)};
        variant_command(v, PLAN_COPY, inst, 0, args, 2);
    }
}

static bool add_while(Variant *v, const Instruction *inst)
{
    const Computation *condition = inst_called(inst, 0), *body = inst_called(inst, 1);
    PlanLoop loop = {.trip_count = loop_known_trip_count(inst), .counter = PLAN_NONE};
    bool known = loop.trip_count >= 0;
    PlanArg predicate = {.tag = PLAN_ARG_NONE};
    if (!known) {
        predicate = variant_slice_arg(v, condition->root, 0, PLAN_READ);
        v->plan.info[0].host_syncs++;
    }
    if (loop_slices_has(v->loop_slices, body))
        loop.counter = v->counters[body->id] = v->plan.info[0].counter_count++;
    uint32_t index = plan_add_loops(&v->plan, &loop, 1);
    uint32_t c = variant_command(v, PLAN_WHILE, inst, index, &predicate, known ? 0 : 1);
    uint32_t first = v->plan.commands_count;
    if (!known && !variant_add_computation(v, condition))
        return false;
    v->plan.loops[index].condition_commands = v->plan.commands_count - first;
    first = v->plan.commands_count;
    uint64_t times = v->times;
    if (known)
        v->times *= (uint64_t)loop.trip_count;
    if (!variant_add_computation(v, body))
        return false;
    v->times = times;
    v->plan.loops[index].body_commands = v->plan.commands_count - first;
    plan_close(&v->plan, c);
    return true;
}

static bool add_conditional(Variant *v, const Instruction *inst)
{
    uint32_t n = inst_called_count(inst);
    PlanArg selector = variant_slice_arg(v, inst->operands[0], 0, PLAN_READ);
    uint32_t c = variant_command(v, PLAN_CONDITIONAL, inst, 0, &selector, 1);
    v->plan.info[0].host_syncs++;
    uint32_t *counts = ARENA_ARRAY(v->arena, uint32_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = v->plan.commands_count;
        if (!variant_add_computation(v, inst_called(inst, i)))
            return false;
        counts[i] = v->plan.commands_count - first;
    }
    uint32_t refs = plan_add_refs(&v->plan, counts, n);
    v->plan.commands[c].index = refs;
    v->plan.commands[c].count = n;
    plan_close(&v->plan, c);
    return true;
}

static void add_device_id(Variant *v, const Instruction *inst)
{
    PlanArg args[2] = {
        variant_slice_arg(v, inst, 0, PLAN_WRITE),
        {.tag = inst->op == OP_PARTITION_ID ? PLAN_ARG_PARTITION : PLAN_ARG_REPLICA}};
    uint32_t c = variant_command(v, PLAN_FILL, inst, 0, args, 2);
    v->plan.commands[c].count = 4;
}

/* "(f32[8]{0}, s32[]) -> f32[4]{0}", a line feed, the attributes. */
static const char *describe_call(Arena *a, const Instruction *inst)
{
    const char *text = "(";
    for (uint32_t i = 0; i < inst->operand_count; i++)
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "",
                            shape_text(a, inst->operands[i]->shape, true));
    Bytes attributes = config_text(inst);
    return arena_printf(a, "%s) -> %s\n%.*s", text, shape_text(a, inst->shape, true),
                        (int)attributes.length, attributes.data ? attributes.data : "");
}

/* A custom call becomes a call by name, of a function that the caller registers with libgxrt:
 * the leaves of its operands, then those of its result. */
static bool add_host_call(Variant *v, const Instruction *inst)
{
    size_t n = 0, results = shape_leaf_count(inst->shape);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        n += shape_leaf_count(inst->operands[i]->shape);
    PlanArg *args = ARENA_ARRAY(v->arena, PlanArg, n + results + 1);
    uint32_t count = 0;
    const char *target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET).data;
    if (n + results > PLAN_MAX_HOST_BUFFERS || *target == '\0') {
        diag_unsupported(v->module->diag, inst->span,
                         "a custom call to \"%s\" with %zu buffers", target, n + results);
        return false;
    }
    for (uint32_t i = 0; i <= inst->operand_count; i++) {
        bool is_result = i == inst->operand_count;
        const Instruction *value = is_result ? inst : inst->operands[i];
        for (size_t leaf = 0; leaf < shape_leaf_count(value->shape); leaf++) {
            if (!shape_is_array(shape_leaf(value->shape, leaf)))
                continue;
            args[count++] =
                variant_slice_arg(v, value, leaf, is_result ? PLAN_WRITE : PLAN_READ);
        }
    }
    diag_warning(
        v->module->diag, inst->span,
        "%s calls \"%s\": whoever runs the program must register a function of that "
        "name; a call that JAX made for its own kernels goes away when the program is "
        "lowered for the CPU",
        inst->name, target);
    uint32_t at = variant_command(v, PLAN_HOST_CALL, inst, plan_string(&v->plan, target),
                                  args, count);
    v->plan.commands[at].count = plan_string(&v->plan, describe_call(v->arena, inst));
    return true;
}

static bool add_custom_call(Variant *v, const Instruction *inst)
{
    BlockScaledDot d;
    if (custom_call_is_new_buffer(inst))
        return true; /* whatever lies there */
    const char *error = block_scaled_check(inst, v->arena, &d);
    if (error != NULL) {
        diag_error(v->module->diag, inst->span, "%s (%s): %s", inst->name,
                   op_info[inst->op].name, error);
        return false;
    }
    if (block_op(inst) != BLOCK_MATMUL)
        return add_host_call(v, inst);
    cublaslt_add_block_scaled(v, inst);
    return true;
}

/* What a start starts. */
static bool add_started(Variant *v, const Instruction *start)
{
    if (start->op != OP_ASYNC_START)
        return variant_collective_command(v, start);
    const Instruction *outer = v->started;
    v->started = start;
    bool ok = variant_add_computation(v, inst_called(start, 0));
    v->started = outer;
    return ok;
}

static bool add_instruction(Variant *v, const Instruction *inst)
{
    Diag *d = v->module->diag;
    if (op_is(inst->op, OPF_ASYNC_START))
        return variant_add_async_start(v, inst, add_started);
    if (op_is(inst->op, OPF_COLLECTIVE))
        return variant_add_collective(v, inst);
    if (library_is_graph(inst))
        return cudnn_add_graph(v, inst);
    if (matmul_is_library(inst)) {
        cublaslt_add_matmul(v, inst);
        return true;
    }
    if (solver_is_library(inst))
        return cusolver_add(v, inst);
    switch (inst->op) {
    case OP_FUSION:
        return loop_slice_of(v->loop_slices, inst) != NULL ||
               loop_idle_has(v->loop_idle, inst) || add_transfer(v, inst) ||
               add_launch(v, inst);
    case OP_COPY:
        add_copy(v, inst);
        return true;
    case OP_WHILE:
        return add_while(v, inst);
    case OP_CONDITIONAL:
        return add_conditional(v, inst);
    case OP_CALL:
        return variant_add_computation(v, inst_called(inst, 0));
    case OP_ALL_REDUCE_DONE:
    case OP_ALL_GATHER_DONE:
    case OP_COLLECTIVE_PERMUTE_DONE:
    case OP_ASYNC_DONE:
        variant_add_async_done(v, inst);
        return true;
    case OP_CUSTOM_CALL:
        return add_custom_call(v, inst);
    case OP_PARTITION_ID:
    case OP_REPLICA_ID:
        add_device_id(v, inst);
        return true;
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_AFTER_ALL:
        return true;
    default:
        if (!alias_defines(inst))
            return true;
        diag_unsupported(d, inst->span, "%s in compiled programs",
                         op_info[inst->op].name);
        return false;
    }
}

bool variant_add_computation(Variant *v, const Computation *comp)
{
    if (++v->nesting > NESTING_MOST) {
        diag_unsupported(v->module->diag, comp->span,
                         "loops and branches nested more than %d deep", NESTING_MOST);
        return false;
    }
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!add_instruction(v, inst))
            return false;
    }
    v->nesting--;
    return true;
}

bool variant_make_commands(Variant *v)
{
    v->times = 1;
    v->slices = ARENA_ARRAY(v->arena, uint32_t, (size_t)v->buffers->set_count + 1);
    memset(v->slices, 0xff, ((size_t)v->buffers->set_count + 1) * sizeof *v->slices);
    v->counters = ARENA_ARRAY(v->arena, uint32_t, v->module->computation_count + 1u);
    for (uint32_t c = 0; c < BUFFER_COLOURS; c++)
        v->temp_allocation[c] = PLAN_NONE;
    v->workspace_slice = v->state_slice = v->ticket_allocation = PLAN_NONE;
    variant_add_signature(v);
    return variant_assign_streams(v) && variant_add_computation(v, v->module->entry);
}
