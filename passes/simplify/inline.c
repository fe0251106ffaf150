/* Inlining: the body of a called computation takes the place of the call; of a map, applied to
 * arrays instead of scalars; of a fusion that names none of our kinds of kernels.
 *
 *   c = f32[] call(a, b), to_apply=f          c = f32[] add(a, b)
 *   m = f32[8] map(x, y), to_apply=f    =>    m = f32[8] add(x, y)
 *
 * Needs: nothing. Keeps: the order of a scheduled module. Breaks: nothing.
 * What was in a call is named by its path: the call's op_name comes before its own.
 * Callees come before callers, so one sweep leaves no call. A call stays where its frontend
 * attribute inlineable="false" says so, where it is for another stream, or where the callee runs on another thread.
 * A few functions that call each other twice make a module of any size: one that would have more
 * instructions than the setting inline-max-instructions is an error. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/norm.h"
#include "passes/collectives/loops/step.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

static bool may_inline(const Instruction *inst)
{
    const char *inlineable = inst_frontend_attribute(inst, "inlineable");
    if (inst_frontend_attribute(inst, "_xla_stream_annotation") != NULL ||
        inst_frontend_attribute(inst, "_collectives_group") != NULL ||
        (inlineable != NULL &&
         (strcmp(inlineable, "false") == 0 || strcmp(inlineable, "xla_late") == 0)))
        return false;
    const Computation *callee = inst_called(inst, 0);
    if (callee->parameter_count != inst->operand_count)
        return false; /* asynchronous sugar binds the rest later */
    return strcmp(callee->execution_thread, inst->parent->execution_thread) == 0;
}

/* What the root reads, by id; parameters always. The order has operands first. */
static bool *find_read(const Computation *callee, Instruction *const *order, uint32_t n,
                       Arena *scratch)
{
    bool *is_read = ARENA_ARRAY(scratch, bool, callee->instruction_count);
    is_read[callee->root->id] = true;
    instructions_mark_operands(order, n, is_read);
    return is_read;
}

/* Scalar instructions that have a meaning on arrays, element by element. */
static bool is_mappable(const Computation *callee, Arena *scratch)
{
    uint32_t n;
    Instruction **order = computation_post_order(callee, scratch, &n);
    const bool *is_read = find_read(callee, order, n, scratch);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = order[i];
        if (!is_read[inst->id])
            continue;
        bool known = op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_PARAMETER ||
                     inst->op == OP_CONSTANT || inst->op == OP_COPY;
        if (!known || !shape_is_scalar(inst->shape) || inst->control_count > 0)
            return false;
    }
    return true;
}

/* What was in a call and has an effect, and what the call waited for: whoever waited for the call waits for it. */
typedef struct Inside {
    Instruction **list;
    size_t count, capacity;
} Inside;

typedef struct Inliner {
    Computation *comp;
    Arena *scratch;
    Instruction **order; /* the new list of instructions */
    size_t count, capacity;
    Instruction **forward; /* by id of the instructions before this pass */
    const Effects *has_effect;
    Inside *inside; /* by id of the calls before this pass */
    bool waits;     /* some call had an effect, or waited */
    bool
        has_groups; /* scheduling groups stand here already: those of a call are others */
    FreshIds *ids;  /* of the module; group 0: not known yet */
    const uint32_t
        *calls; /* by computation: how many call it, before the pass; [call_count] */
    uint32_t call_count;
    uint64_t most; /* instructions that the module may have */
} Inliner;

static void emit(Inliner *cx, Instruction *inst)
{
    cx->order = arena_grow(cx->scratch, cx->order, &cx->capacity, cx->count + 1,
                           sizeof *cx->order);
    cx->order[cx->count++] = inst;
}

static Instruction *follow(const Inliner *cx, Instruction *inst, uint32_t old_count)
{
    while (inst->id < old_count && cx->forward[inst->id])
        inst = cx->forward[inst->id];
    return inst;
}

/* Dimensions of the map: a constant in it becomes a broadcast of one. */
static Instruction *spread(Inliner *cx, const Instruction *map, Instruction *scalar)
{
    const Shape *s =
        shape_with_dtype(map->parent->module->intern, map->shape, scalar->shape->dtype);
    if (s == scalar->shape)
        return scalar;
    Instruction *b = computation_add(cx->comp, OP_BROADCAST, s, 1, &scalar, NULL);
    inst_set_ints(b, ATTR_DIMENSIONS, NULL, 0);
    emit(cx, b);
    return b;
}

static void copy_controls(Inliner *cx, Instruction *to, const Instruction *from,
                          Instruction *const *made, const Instruction *call)
{
    uint32_t n = from->control_count + call->control_count;
    if (n == 0)
        return;
    to->control = ARENA_ARRAY(cx->comp->module->arena, Instruction *, n);
    for (uint32_t i = 0; i < from->control_count; i++)
        to->control[i] = made[from->control[i]->id];
    for (uint32_t i = 0; i < call->control_count; i++)
        to->control[from->control_count + i] = call->control[i];
    to->control_count = n;
    inst_drop_double_controls(to);
}

/* Scheduling groups are within one computation: those of two calls are not the same. But what is of the call's
 * own group stays so where nobody else calls it: the call stood for an asynchronous operation. */
static void part_groups(Inliner *cx, const Instruction *call, Instruction *const *list,
                        uint32_t count)
{
    if (!step_has_groups(list, count))
        return;
    uint32_t callee = inst_called(call, 0)->id;
    bool is_sole = callee < cx->call_count && cx->calls[callee] == 1;
    const char *own =
        is_sole ? inst_frontend_attribute(call, "_scheduling_group_id") : NULL;
    Instruction **made = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *group = inst_frontend_attribute(list[i], "_scheduling_group_id");
        if (group != NULL && (own == NULL || strcmp(own, group) != 0))
            made[n++] = list[i];
    }
    if (!step_has_groups(made, n))
        return;
    if (!cx->has_groups) {
        cx->has_groups = true;
        return;
    }
    if (cx->ids->group == 0)
        *cx->ids = fresh_ids(cx->comp->module);
    step_renumber_groups(cx->ids, made, n);
}

/* -- names ------------------------------------------------------------------------------------ */

static Bytes op_name_of(const Instruction *inst)
{
    const Attr *attr = inst_attr(inst, ATTR_METADATA);
    return attr != NULL ? attr->metadata->op_name : (Bytes){0};
}

/* The name is the path, or goes on from it. */
static bool has_path(Bytes name, Bytes path)
{
    return name.length >= path.length && memcmp(name.data, path.data, path.length) == 0 &&
           (name.length == path.length || name.data[path.length] == '/');
}

/* "add" in a call "net/layer" is "net/layer/add". */
static void prefix_name(Instruction *inst, Bytes path)
{
    Arena *a = inst->parent->module->arena;
    const Attr *attr = inst_attr(inst, ATTR_METADATA);
    Bytes own = op_name_of(inst);
    if (path.length == 0 || inst->op == OP_PARAMETER || has_path(own, path))
        return;
    Metadata *m = ARENA_NEW(a, Metadata);
    *m = attr != NULL ? *attr->metadata : (Metadata){0};
    m->op_name = path;
    if (own.length != 0) {
        char *text = ARENA_ARRAY(a, char, path.length + own.length + 2);
        memcpy(text, path.data, path.length);
        text[path.length] = '/';
        memcpy(text + path.length + 1, own.data, own.length);
        m->op_name = (Bytes){text, path.length + own.length + 1};
    }
    inst_set(inst, (Attr){.id = ATTR_METADATA, .metadata = m});
}

/* The computations that only this instruction calls: what is in them lies on the call's path, too.
 * Others lie on several. */
static void prefix_called(const Inliner *cx, const Instruction *inst, Bytes path)
{
    for (uint32_t c = 0; c < inst_called_count(inst); c++) {
        const Computation *callee = inst_called(inst, c);
        if (callee->id >= cx->call_count || cx->calls[callee->id] != 1)
            continue;
        for (Instruction *inner = inst_first(callee); inner; inner = inst_next(inner)) {
            prefix_name(inner, path);
            prefix_called(cx, inner, path);
        }
    }
}

/* -- splicing --------------------------------------------------------------------------------- */

static void add_inside(Inliner *cx, const Instruction *call, Instruction *inst)
{
    Inside *in = &cx->inside[call->id];
    in->list =
        arena_grow(cx->scratch, in->list, &in->capacity, in->count + 1, sizeof *in->list);
    in->list[in->count++] = inst;
    cx->waits = true;
}

/* Whoever waits for the call waits for what the call waited for: a parameter, which is all that is left of it, does
 * not. */
static void wait_through(Inliner *cx, const Instruction *call, uint32_t old_count)
{
    for (uint32_t k = 0; k < call->control_count; k++) {
        Instruction *before = call->control[k];
        bool is_call = before->id < old_count && cx->forward[before->id] != NULL;
        add_inside(cx, call, before);
        for (size_t i = 0; is_call && i < cx->inside[before->id].count; i++)
            add_inside(cx, call, cx->inside[before->id].list[i]);
    }
}

/* The callee's instructions, in its order, with the call's operands for its parameters. */
static Instruction *splice(Inliner *cx, Instruction *call, uint32_t old_count)
{
    Computation *callee = inst_called(call, 0);
    bool map = call->op == OP_MAP;
    Bytes path = call->op == OP_CALL ? op_name_of(call) : (Bytes){0};
    uint32_t n;
    Instruction **order = computation_post_order(callee, cx->scratch, &n);
    Instruction **made =
        ARENA_ARRAY(cx->scratch, Instruction *, callee->instruction_count);
    const bool *is_read = find_read(callee, order, n, cx->scratch);
    size_t first = cx->count;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *from = order[i];
        if (map && !is_read[from->id]) /* may have no meaning on arrays */
            continue;
        if (from->op == OP_PARAMETER) {
            made[from->id] = follow(cx, call->operands[from->parameter], old_count);
            continue;
        }
        Instruction **operands =
            ARENA_ARRAY(cx->scratch, Instruction *, from->operand_count);
        for (uint32_t k = 0; k < from->operand_count; k++)
            operands[k] = made[from->operands[k]->id];
        const Shape *shape = from->shape;
        if (map && from->op != OP_CONSTANT)
            shape =
                shape_with_dtype(call->parent->module->intern, call->shape, shape->dtype);
        Instruction *to =
            computation_add_like(cx->comp, from, shape, from->operand_count, operands);
        emit(cx, to);
        prefix_name(to, path);
        if (path.length != 0 && callee->id < cx->call_count && cx->calls[callee->id] == 1)
            prefix_called(cx, from, path);
        if (from->op == OP_FUSION || from->op == OP_ASYNC_START) /* called by one only */
            inst_set_called(to, 0, computation_clone(inst_called(from, 0), NULL));
        copy_controls(cx, to, from, made, call);
        if (!simplify_is_pure(to, cx->has_effect))
            add_inside(cx, call, to);
        made[from->id] = map && from->op == OP_CONSTANT ? spread(cx, call, to) : to;
    }
    if (callee->root->op == OP_PARAMETER)
        wait_through(cx, call, old_count);
    if (call->op == OP_CALL)
        part_groups(cx, call, cx->order + first, (uint32_t)(cx->count - first));
    return made[callee->root->id];
}

static bool is_inlined(const Instruction *inst, Arena *scratch)
{
    if (inst->op == OP_CALL)
        return may_inline(inst);
    if (inst->op ==
        OP_FUSION) /* made for another compiler's kernels: ours are chosen anew */
        return kernel_kind_of(inst) == KERNEL_COUNT && !attention_is_library(inst) &&
               !norm_is_library(inst) &&
               inst_called(inst, 0)->parameter_count <= inst->operand_count;
    return inst->op == OP_MAP && is_mappable(inst_called(inst, 0), scratch);
}

static void wait_for_inside(Inliner *cx, Instruction *inst, uint32_t old_count)
{
    size_t n = inst->control_count;
    for (uint32_t k = 0; k < inst->control_count; k++) {
        const Instruction *o = inst->control[k];
        n += o->id < old_count && cx->forward[o->id] ? cx->inside[o->id].count : 0;
    }
    if (n == inst->control_count)
        return;
    Instruction **control = ARENA_ARRAY(cx->comp->module->arena, Instruction *, n);
    uint32_t at = 0;
    for (uint32_t k = 0; k < inst->control_count; k++) {
        const Instruction *o = inst->control[k];
        control[at++] = inst->control[k];
        const Inside *in =
            o->id < old_count && cx->forward[o->id] ? &cx->inside[o->id] : NULL;
        for (size_t i = 0; in != NULL && i < in->count; i++)
            control[at++] = in->list[i];
    }
    inst->control = control;
    inst->control_count = at;
    inst_drop_double_controls(inst);
}

/* Whether the module may grow by what `call` calls; *total grows with it. An error if not. */
static bool may_grow(const Inliner *cx, const Instruction *call, uint64_t *total)
{
    Diag *d = call->parent->module->diag;
    if (d->error_count != 0)
        return false;
    *total += inst_called(call, 0)->instruction_count;
    if (*total <= cx->most)
        return true;
    diag_error(d, call->span,
               "the module has more than %llu instructions when what is called here is "
               "inlined; --set=inline-max-instructions=N allows more",
               (unsigned long long)cx->most);
    return false;
}

static bool inline_calls(Computation *comp, const Inliner *shared, uint64_t *total)
{
    Arena *scratch = shared->scratch;
    uint32_t old_count = comp->instruction_count;
    bool any = false;
    for (uint32_t i = 0; i < old_count && !any; i++)
        any = comp->instructions[i] && is_inlined(comp->instructions[i], scratch);
    if (!any)
        return false;
    Inliner cx = *shared;
    cx.comp = comp;
    cx.has_groups = step_has_groups(comp->instructions, old_count);
    cx.inside = ARENA_ARRAY(scratch, Inside, (size_t)old_count + 1);
    cx.forward = ARENA_ARRAY(scratch, Instruction *, old_count);
    uint32_t n;
    Instruction **order = computation_post_order(comp, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        if (is_inlined(inst, scratch) && may_grow(&cx, inst, total)) {
            cx.forward[inst->id] = splice(&cx, inst, old_count);
        } else {
            emit(&cx, inst);
        }
    }
    for (size_t i = 0; cx.waits && i < cx.count; i++)
        wait_for_inside(&cx, cx.order[i], old_count);
    Instruction **forward = ARENA_ARRAY(scratch, Instruction *, comp->instruction_count);
    memcpy(forward, cx.forward, old_count * sizeof *forward);
    computation_replace(comp, forward);
    memset(comp->instructions, 0, comp->instruction_count * sizeof *comp->instructions);
    memcpy(comp->instructions, cx.order, cx.count * sizeof *cx.order);
    computation_compact(comp);
    return true;
}

bool pass_inline(Module *m, PassContext *cx)
{
    bool changed = false;
    uint64_t total = 0;
    FreshIds ids = {0};
    const Inliner shared = {.scratch = cx->scratch,
                            .has_effect = simplify_effects(m, cx->scratch),
                            .ids = &ids,
                            .calls = module_call_counts(m, cx->scratch),
                            .call_count = m->computation_count,
                            .most = (uint64_t)cx->settings->inline_max_instructions};
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        total += comp->instruction_count;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= inline_calls(comp, &shared, &total);
    if (changed)
        module_remove_dead_computations(m);
    return changed;
}
