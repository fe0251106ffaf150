/* Memory of the host: what a program moves there lies there.
 *
 *   h = custom-call(x), "MoveToHost"   s = dynamic-update-slice(stack, reshape(h), i, 0)      in one loop
 *   d = custom-call(dynamic-slice(stack, i, 0)), "MoveToDevice"                               in another
 *   ->  stack is f32[32,8]{1,0:S(5)}; s = call(stack, x, i), d = call(stack, i), each beside the program
 *
 * A value is in memory of the host from where it is moved there to where it is moved back: through tuples, loops and
 * branches, as an array that is updated piece by piece and read piece by piece. The transfers become calls with
 * _xla_stream_annotation, which the schedule starts early and waits for late; the numbers that say which piece are
 * computed inside, so that codegen sees them. Arrays with other readers or writers stay on the device, with a warning:
 * where a value lies changes no result.
 *
 * Needs: laid out. Keeps: values. Yields: no MoveToHost, no MoveToDevice. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/collective.h"
#include "ir/analysis/memory_colour.h"
#include "ir/custom_call/custom_call.h"
#include "passes/memory/memory.h"
#include "passes/simplify/simplify.h"

#define INDEX_DEPTH 16

/* A number outside, as it is computed inside the call that was made last for it. */
typedef struct Number {
    Instruction *by;
    size_t call; /* from 1 */
} Number;

typedef struct Host {
    Module *m;
    PassContext *cx;
    const AliasSets *sets;
    uint32_t *parent; /* [sets] of those that are one array, updates included */
    bool *wanted; /* [sets] by the first of them: something is moved to the host there */
    const Instruction *
        *why;    /* [sets] what cannot be with memory of the host; NULL: nothing */
    bool **kept; /* [computations][instructions] MoveToHost that gets memory of its own */
    Number *numbers; /* by id, in the computation that is looked at */
    size_t number_capacity, calls;
} Host;

static bool is_to_host(const Instruction *inst)
{
    return custom_call_move(inst) == MOVE_TO_HOST;
}

static bool is_to_device(const Instruction *inst)
{
    return custom_call_move(inst) == MOVE_TO_DEVICE;
}

/* -- arrays ----------------------------------------------------------------------------------- */

static uint32_t array_of(const Host *h, const Instruction *value, size_t leaf)
{
    uint32_t set = alias_set(h->sets, value, leaf);
    while (h->parent[set] != set)
        set = h->parent[set] = h->parent[h->parent[set]];
    return set;
}

static bool is_on_host(const Host *h, const Instruction *value, size_t leaf)
{
    uint32_t array = array_of(h, value, leaf);
    return h->wanted[array] && h->why[array] == NULL;
}

static void join_updates(Host *h, Computations programs)
{
    uint32_t n = alias_set_count(h->sets);
    for (uint32_t i = 0; i < n; i++)
        h->parent[i] = i;
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_DYNAMIC_UPDATE_SLICE)
                continue;
            uint32_t a = array_of(h, inst, 0), b = array_of(h, inst->operands[0], 0);
            h->parent[a < b ? b : a] = a < b ? a : b;
        }
    }
}

/* Marks the arrays that pieces of this value are written to; true: it is used otherwise, too. */
static bool mark_updated(Host *h, const Uses *uses, const Instruction *value)
{
    bool other = value->parent->root == value;
    for (uint32_t i = uses->start[value->id]; i < uses->start[value->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        if (user->op == OP_RESHAPE || user->op == OP_BITCAST)
            other |= mark_updated(h, uses, user);
        else if (user->op == OP_DYNAMIC_UPDATE_SLICE && user->operands[0] != value)
            h->wanted[array_of(h, user, 0)] = true;
        else
            other = true;
    }
    return other;
}

static void find_wanted(Host *h, const Computation *comp)
{
    Arena *scratch = h->cx->scratch;
    Uses uses = {0};
    bool *kept = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    h->kept[comp->id] = kept;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!is_to_host(inst))
            continue;
        if (uses.start == NULL)
            uses = uses_compute(comp, scratch);
        kept[inst->id] = mark_updated(h, &uses, inst);
        if (kept[inst->id])
            h->wanted[array_of(h, inst, 0)] = true;
    }
}

static bool may_make(const Host *h, const Instruction *inst)
{
    switch (inst->op) {
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_BROADCAST:
        return true;
    case OP_PARAMETER:
        return inst->parent != h->m->entry ||
               inst->shape->layout->memory_space == MEMORY_HOST;
    default:
        return is_to_host(inst) || custom_call_is_new_buffer(inst);
    }
}

static bool may_read(const Instruction *inst, uint32_t operand)
{
    switch (inst->op) {
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_SLICE:
        return operand == 0;
    default:
        return is_to_device(inst) || op_is(inst->op, OPF_CONTROL) || !alias_defines(inst);
    }
}

static void refuse(Host *h, const Instruction *value, size_t leaf, const Instruction *why)
{
    uint32_t array = array_of(h, value, leaf);
    if (h->why[array] == NULL && shape_is_array(shape_leaf(value->shape, leaf)))
        h->why[array] = why;
}

static void check(Host *h, const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        bool makes =
            !alias_defines(inst) || (shape_is_array(inst->shape) && may_make(h, inst));
        if (inst->op == OP_PARAMETER && inst->parent != h->m->entry)
            makes = true;
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape) && !makes; leaf++)
            refuse(h, inst, leaf, inst);
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            const Instruction *o = inst->operands[k];
            for (size_t leaf = 0; leaf < shape_leaf_count(o->shape) && !may_read(inst, k);
                 leaf++)
                refuse(h, o, leaf, inst);
        }
    }
    const Instruction *root = comp->root;
    for (size_t leaf = 0; comp == h->m->entry && leaf < shape_leaf_count(root->shape);
         leaf++) {
        const Shape *s = shape_leaf(root->shape, leaf);
        if (shape_is_array(s) && s->layout->memory_space != MEMORY_HOST)
            refuse(h, root, leaf, root);
    }
}

static void warn(const Host *h)
{
    uint32_t n = alias_set_count(h->sets);
    for (uint32_t i = 0; i < n; i++) {
        if (h->wanted[i] && h->why[i] != NULL)
            diag_warning(
                h->m->diag, h->why[i]->span,
                "an array that is moved to memory of the host stays on the device: %s "
                "(%s) works on it",
                h->why[i]->name, op_info[h->why[i]->op].name);
    }
}

/* -- shapes ------------------------------------------------------------------------------------- */

static const Shape *on_host(const Host *h, const Instruction *inst, const Shape *s,
                            size_t *leaf)
{
    Intern *t = h->m->intern;
    if (!shape_is_tuple(s)) {
        size_t at = (*leaf)++;
        if (!shape_is_array(s) || !is_on_host(h, inst, at))
            return s;
        Layout l = *s->layout;
        l.memory_space = MEMORY_HOST;
        return shape_with_layout(t, s, intern_layout(t, &l));
    }
    const Shape **elements =
        ARENA_ARRAY(h->cx->scratch, const Shape *, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = on_host(h, inst, s->elements[i], leaf);
    return shape_tuple(t, s->rank, elements);
}

static void set_memories(const Host *h, const Computation *comp)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        size_t leaf = 0;
        inst->shape = on_host(h, inst, inst->shape, &leaf);
    }
}

/* -- transfers ---------------------------------------------------------------------------------- */

typedef struct Outline {
    Computation *comp;
    Instruction **operands; /* of the call */
    uint32_t count;
    size_t capacity;
    Number *numbers; /* by id outside */
    size_t call;
    Arena *scratch;
} Outline;

static Instruction *outside(Outline *o, Instruction *value)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->operands[i] == value)
            return o->comp->parameters[i];
    }
    o->operands = arena_grow(o->scratch, o->operands, &o->capacity, (size_t)o->count + 1,
                             sizeof *o->operands);
    o->operands[o->count] = value;
    return computation_add_parameter(o->comp, o->count++, value->shape, NULL);
}

static bool is_index_arithmetic(const Instruction *inst)
{
    switch (inst->op) {
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_COMPARE:
    case OP_SELECT:
        return shape_is_scalar(inst->shape) && inst->control_count == 0;
    default:
        return false;
    }
}

/* A number that says which piece, computed inside from what is not. */
static Instruction *index_inside(Outline *o, Instruction *index, int depth)
{
    if (index->op == OP_CONSTANT)
        return computation_add_constant(o->comp, index->literal, NULL);
    Number *number = &o->numbers[index->id];
    if (number->call == o->call)
        return number->by;
    if (!is_index_arithmetic(index) || depth > INDEX_DEPTH)
        return outside(o, index);
    Instruction *operands[3];
    for (uint32_t i = 0; i < index->operand_count; i++)
        operands[i] = index_inside(o, index->operands[i], depth + 1);
    *number = (Number){computation_add_like(o->comp, index, index->shape,
                                            index->operand_count, operands),
                       o->call};
    return number->by;
}

/* A call, beside the program, of what `inst` does, or of a copy. */
static Instruction *transfer(Host *h, Instruction *inst, OpCode op)
{
    Module *m = h->m;
    Outline o = {.comp = module_add_computation(m, "host_transfer"),
                 .call = ++h->calls,
                 .scratch = h->cx->scratch};
    h->numbers = arena_grow(h->cx->scratch, h->numbers, &h->number_capacity,
                            inst->parent->instruction_count, sizeof *h->numbers);
    o.numbers = h->numbers;
    o.comp->execution_thread = inst->parent->execution_thread;
    uint32_t arrays = op == OP_DYNAMIC_UPDATE_SLICE ? 2 : 1;
    Instruction **operands =
        ARENA_ARRAY(h->cx->scratch, Instruction *, (size_t)inst->operand_count + 1);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = i < arrays ? outside(&o, inst->operands[i])
                                 : index_inside(&o, inst->operands[i], 0);
    o.comp->root = op == OP_COPY
                       ? computation_add(o.comp, OP_COPY, inst->shape, 1, operands, NULL)
                       : computation_add_like(o.comp, inst, inst->shape,
                                              inst->operand_count, operands);
    Instruction *call = computation_add(inst->parent, OP_CALL, inst->shape, o.count,
                                        o.operands, inst->name);
    inst_set_computation(call, ATTR_TO_APPLY, o.comp);
    inst_set_frontend_attribute(call, "_xla_stream_annotation", "parallel");
    inst_set_frontend_attribute(call, "inlineable", "false");
    inst_add_controls(call, inst);
    call->span = inst->span;
    h->cx->counts.host_transfers++;
    return call;
}

static Instruction *transferred(Instruction *inst, void *context)
{
    Host *h = context;
    Instruction *from = inst->operand_count != 0 ? inst->operands[0] : NULL;
    if (is_to_device(inst))
        return is_on_host(h, from, 0) ? transfer(h, inst, OP_COPY) : from;
    if (is_to_host(inst)) {
        bool moves = h->kept[inst->parent->id][inst->id] && is_on_host(h, inst, 0);
        return moves ? transfer(h, inst, OP_COPY) : from;
    }
    bool reads = inst->op == OP_DYNAMIC_SLICE || inst->op == OP_SLICE ||
                 inst->op == OP_DYNAMIC_UPDATE_SLICE;
    return reads && is_on_host(h, from, 0) ? transfer(h, inst, (OpCode)inst->op) : NULL;
}

/* -- the pass ----------------------------------------------------------------------------------- */

static bool has_moves(Computations programs)
{
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (is_to_host(inst) || is_to_device(inst))
                return true;
        }
    }
    return false;
}

bool pass_host_memory(Module *m, PassContext *cx)
{
    Computations programs = module_programs(m, cx->scratch);
    if (!has_moves(programs))
        return false;
    Host h = {.m = m, .cx = cx, .sets = alias_sets_create(m, cx->scratch)};
    size_t n = (size_t)alias_set_count(h.sets) + 1;
    h.parent = ARENA_ARRAY(cx->scratch, uint32_t, n);
    h.wanted = ARENA_ARRAY(cx->scratch, bool, n);
    h.why = ARENA_ARRAY(cx->scratch, const Instruction *, n);
    h.kept = ARENA_ARRAY(cx->scratch, bool *, (size_t)m->computation_count + 1);
    join_updates(&h, programs);
    for (uint32_t c = 0; c < programs.count; c++)
        find_wanted(&h, programs.data[c]);
    for (uint32_t c = 0; c < programs.count; c++)
        check(&h, programs.data[c]);
    warn(&h);
    for (uint32_t c = 0; c < programs.count; c++)
        set_memories(&h, programs.data[c]);
    for (uint32_t c = 0; c < programs.count; c++)
        computation_replace_each(programs.data[c], transferred, &h, cx->scratch);
    pass_dce(m, cx);
    module_sort(m);
    return true;
}
