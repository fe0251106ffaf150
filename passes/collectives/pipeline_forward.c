/* Pipelining of collectives forwards: what a step of a loop reduces and stores, the next step
 * reduces and stores, while it computes.
 *
 *   body (p) { x = f(p)  r = all-reduce(x)  b' = dynamic-update-slice(p#1, r, i)  ROOT (.., b') }
 *   ->  step 0 before the loop, without r and b'
 *       body (p) { r = all-reduce(p#x)  b' = dynamic-update-slice(p#1, r, p#i)  x = f(p)
 *                  ROOT (.., b', x, i) }
 *       after the loop:  b = dynamic-update-slice(w#1, all-reduce(w#x), w#i)
 *
 * The stores happen in the order that they had, so nothing is asked of the indices. Between the
 * collective and the store stand only operations that change the form; an opt-barrier there
 * keeps the collective in its step, one around the buffer that is stored into does not matter.
 * Nobody else may look at the buffer; the loop runs a known number of times, at least once.
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. (Wang et al., ASPLOS 2023, do the same with
 * loops over layers.) */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"

enum { CHAIN_MOST = 32 };

/* A collective, what follows it, and the update that stores it. */
typedef struct Stage {
    Instruction *chain[CHAIN_MOST]; /* [0] the collective ... [count - 1] the update */
    uint32_t count;
    uint32_t index;    /* element of the loop that it stores into */
    uint32_t element;  /* first of those added: the operand, then one for each index */
    Instruction *base; /* what is updated: the element, or a barrier around it */
} Stage;

typedef struct Pipeline {
    Module *m;
    Arena *scratch;
    Instruction *loop;
    Computation *body, *condition, *caller;
    Uses uses;
    Stage *stages;
    uint32_t count;
    Instruction **added; /* the values that the body hands on besides */
    uint32_t added_count;
} Pipeline;

static uint32_t user_count(const Pipeline *p, const Instruction *inst)
{
    return p->uses.start[inst->id + 1] - p->uses.start[inst->id];
}

static Instruction *only_user(const Pipeline *p, const Instruction *inst)
{
    return user_count(p, inst) == 1 ? p->uses.list[p->uses.start[inst->id]] : NULL;
}

static bool is_candidate(const Instruction *inst)
{
    return (inst->op == OP_ALL_REDUCE || inst->op == OP_REDUCE_SCATTER) &&
           inst->operand_count == 1 && shape_is_array(inst->shape) &&
           inst->control_count == 0;
}

static bool changes_form(const Instruction *inst)
{
    switch (inst->op) {
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_CONVERT:
    case OP_SLICE:
    case OP_BROADCAST:
        return inst->control_count == 0;
    default:
        return false;
    }
}

static bool is_read_by_condition(const Pipeline *p, uint32_t index)
{
    const Instruction *q = p->condition->parameters[0];
    for (uint32_t i = 0; i < p->condition->instruction_count; i++) {
        const Instruction *inst = p->condition->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++) {
            if (inst->operands[k] == q && (inst->op != OP_GET_TUPLE_ELEMENT ||
                                           inst_int(inst, ATTR_INDEX, 0) == index))
                return true;
        }
    }
    return false;
}

/* The element is read once in the body: by `reader`. */
static bool is_only_reader(const Pipeline *p, uint32_t index, const Instruction *reader)
{
    const Instruction *param = p->body->parameters[0];
    for (uint32_t i = p->uses.start[param->id]; i < p->uses.start[param->id + 1]; i++) {
        const Instruction *e = p->uses.list[i];
        if (e->op != OP_GET_TUPLE_ELEMENT ||
            (inst_int(e, ATTR_INDEX, 0) == index && e != reader))
            return false;
    }
    return true;
}

static bool find_stage(Pipeline *p, Instruction *inst, Stage *s)
{
    *s = (Stage){.chain = {inst}, .count = 1};
    Instruction *next = only_user(p, inst);
    while (next != NULL && changes_form(next) && s->count + 1 < CHAIN_MOST) {
        s->chain[s->count++] = next;
        next = only_user(p, next);
    }
    if (next == NULL || next->op != OP_DYNAMIC_UPDATE_SLICE || next->control_count != 0 ||
        next->operands[1] != s->chain[s->count - 1] ||
        only_user(p, next) != p->body->root)
        return false;
    s->chain[s->count++] = next;
    s->base = next->operands[0];
    const Instruction *element = s->base;
    if (element->op == OP_OPT_BARRIER && only_user(p, element) == next)
        element = element->operands[0];
    if (element->op != OP_GET_TUPLE_ELEMENT ||
        element->operands[0] != p->body->parameters[0] || user_count(p, element) != 1)
        return false;
    s->index = (uint32_t)inst_int(element, ATTR_INDEX, 0);
    return p->body->root->operands[s->index] == next &&
           !is_read_by_condition(p, s->index) && is_only_reader(p, s->index, element);
}

/* The body may be written out once more: it starts no loops and has no effects. */
static bool may_peel(const Computation *body)
{
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const Instruction *inst = body->instructions[i];
        if (inst != NULL && (op_is(inst->op, OPF_CONTROL | OPF_EFFECT | OPF_ASYNC_START |
                                                 OPF_ASYNC_DONE | OPF_RANDOM) ||
                             inst->op == OP_CUSTOM_CALL || inst->control_count != 0))
            return false;
    }
    return body->root->op == OP_TUPLE;
}

/* -- the rewrite ------------------------------------------------------------------------------ */

static Instruction *take_element(Instruction *tuple, uint32_t i)
{
    Instruction *e = computation_add(tuple->parent, OP_GET_TUPLE_ELEMENT,
                                     tuple->shape->elements[i], 1, &tuple, NULL);
    inst_set_int(e, ATTR_INDEX, i);
    return e;
}

static bool is_saved(const Instruction *index)
{
    return index->op != OP_CONSTANT;
}

/* What the next step needs: the operand of each collective and where its result goes. */
static void collect_added(Pipeline *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->count; i++)
        n += 1 + p->stages[i].chain[p->stages[i].count - 1]->operand_count;
    p->added = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        Stage *s = &p->stages[i];
        s->element = p->loop->shape->rank + p->added_count;
        p->added[p->added_count++] = s->chain[0]->operands[0];
        const Instruction *update = s->chain[s->count - 1];
        for (uint32_t k = 2; k < update->operand_count; k++) {
            if (is_saved(update->operands[k]))
                p->added[p->added_count++] = update->operands[k];
        }
    }
}

/* Step 0 in the caller: what each instruction of the body is there, by id. The updates are not
 * made: the buffers stay as they are. */
static Instruction **peel(Pipeline *p)
{
    uint32_t n;
    Instruction **order = computation_post_order(p->body, p->scratch, &n);
    Instruction **made =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->body->instruction_count + 1);
    bool *left_out =
        ARENA_ARRAY(p->scratch, bool, (size_t)p->body->instruction_count + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t k = 0; k < p->stages[i].count; k++)
            left_out[p->stages[i].chain[k]->id] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *from = order[i];
        if (from->op == OP_PARAMETER) {
            made[from->id] = p->loop->operands[0];
        } else if (from == p->body->root) {
            continue;
        } else if (left_out[from->id]) {
            bool stores = from->op == OP_DYNAMIC_UPDATE_SLICE;
            made[from->id] = stores ? made[from->operands[0]->id] : NULL;
        } else {
            Instruction **operands =
                ARENA_ARRAY(p->scratch, Instruction *, (size_t)from->operand_count + 1);
            for (uint32_t k = 0; k < from->operand_count; k++)
                operands[k] = made[from->operands[k]->id];
            made[from->id] = computation_add_like(p->caller, from, from->shape,
                                                  from->operand_count, operands);
        }
    }
    return made;
}

static const Shape *longer_shape(const Pipeline *p)
{
    const Shape *old = p->loop->shape;
    const Shape **shapes =
        ARENA_ARRAY(p->scratch, const Shape *, (size_t)old->rank + p->added_count + 1);
    memcpy(shapes, old->elements, old->rank * sizeof *shapes);
    for (uint32_t i = 0; i < p->added_count; i++)
        shapes[old->rank + i] = p->added[i]->shape;
    return shape_tuple(p->m->intern, old->rank + p->added_count, shapes);
}

/* The loop's new first values: those after step 0. */
static Instruction *first_values(Pipeline *p, const Shape *shape)
{
    Instruction **made = peel(p);
    const Instruction *root = p->body->root;
    Instruction **values =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)shape->rank + 1);
    for (uint32_t i = 0; i < root->operand_count; i++)
        values[i] = made[root->operands[i]->id];
    for (uint32_t i = 0; i < p->added_count; i++)
        values[root->operand_count + i] = made[p->added[i]->id];
    return computation_add(p->caller, OP_TUPLE, shape, shape->rank, values, NULL);
}

/* The stage's store reads its indices from the elements of `tuple`. */
static void take_indices(const Stage *s, const Instruction *old, Instruction *update,
                         Instruction *tuple)
{
    uint32_t at = s->element + 1;
    for (uint32_t k = 2; k < old->operand_count; k++) {
        if (is_saved(old->operands[k]))
            update->operands[k] = take_element(tuple, at++);
    }
}

/* The stage once more, behind the loop. */
static Instruction *finish(Pipeline *p, const Stage *s)
{
    Instruction *x = take_element(p->loop, s->element);
    for (uint32_t k = 0; k + 1 < s->count; k++)
        x = computation_add_like(p->caller, s->chain[k], s->chain[k]->shape, 1, &x);
    const Instruction *old = s->chain[s->count - 1];
    Instruction *base = take_element(p->loop, s->index);
    if (s->base->op == OP_OPT_BARRIER)
        base = computation_add_like(p->caller, s->base, base->shape, 1, &base);
    Instruction **operands =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)old->operand_count + 1);
    operands[0] = base;
    operands[1] = x;
    for (uint32_t k = 2; k < old->operand_count; k++)
        operands[k] =
            is_saved(old->operands[k])
                ? base /* taken below */
                : computation_add_constant(p->caller, old->operands[k]->literal, NULL);
    Instruction *update =
        computation_add_like(p->caller, old, old->shape, old->operand_count, operands);
    take_indices(s, old, update, p->loop);
    return update;
}

static void change_body(Pipeline *p, const Shape *shape)
{
    Computation *body = p->body;
    Instruction *root = body->root, *param = body->parameters[0];
    Instruction **values =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)shape->rank + 1);
    memcpy(values, root->operands, root->operand_count * sizeof *values);
    memcpy(values + root->operand_count, p->added, p->added_count * sizeof *values);
    param->shape = shape;
    p->condition->parameters[0]->shape = shape;
    body->root = computation_add(body, OP_TUPLE, shape, shape->rank, values, NULL);
    computation_remove(body, root);
    for (uint32_t i = 0; i < p->count; i++) {
        Stage *s = &p->stages[i];
        Instruction *update = s->chain[s->count - 1];
        s->chain[0]->operands[0] = take_element(param, s->element);
        Instruction old = *update;
        old.operands = arena_copy(p->scratch, update->operands,
                                  update->operand_count * sizeof *old.operands);
        take_indices(s, &old, update, param);
    }
    computation_sort(body);
}

/* All users of the old loop's value, a tuple of the old shape, read the new one. */
static void replace_loop(Pipeline *p, Instruction *old, uint32_t made)
{
    Instruction **values =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)old->shape->rank + 1);
    for (uint32_t i = 0; i < old->shape->rank; i++) {
        for (uint32_t k = 0; k < p->count && values[i] == NULL; k++)
            values[i] = p->stages[k].index == i ? finish(p, &p->stages[k]) : NULL;
        if (values[i] == NULL)
            values[i] = take_element(p->loop, i);
    }
    Instruction *tuple =
        computation_add(p->caller, OP_TUPLE, old->shape, old->shape->rank, values, NULL);
    Instruction **forward =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->caller->instruction_count + 1);
    for (uint32_t i = 0; i < made; i++) {
        Instruction *inst = p->caller->instructions[i];
        if (inst != NULL && inst->op == OP_GET_TUPLE_ELEMENT && inst->operands[0] == old)
            forward[i] = values[inst_int(inst, ATTR_INDEX, 0)];
    }
    forward[old->id] = tuple;
    computation_replace(p->caller, forward);
    for (uint32_t i = 0; i < made; i++) {
        if (forward[i] != NULL)
            computation_remove(p->caller, p->caller->instructions[i]);
    }
    computation_sort(p->caller);
}

static void rewrite(Pipeline *p, int64_t trips)
{
    Instruction *old = p->loop;
    uint32_t made = p->caller->instruction_count;
    collect_added(p);
    const Shape *shape = longer_shape(p);
    Instruction *init = first_values(p, shape);
    p->loop = computation_add_like(p->caller, old, shape, 1, &init);
    inst_unset(p->loop, ATTR_SHARDING);
    loop_set_known_trip_count(p->loop, trips - 1);
    /* what the body holds is copied behind the loop before it is changed */
    Stage *stages = p->stages;
    replace_loop(p, old, made);
    p->stages = stages;
    change_body(p, shape);
}

static bool visit_loop(Module *m, PassContext *cx, Instruction *loop)
{
    int64_t trips = loop_known_trip_count(loop);
    Pipeline p = {.m = m,
                  .scratch = cx->scratch,
                  .loop = loop,
                  .caller = loop->parent,
                  .condition = inst_called(loop, 0),
                  .body = inst_called(loop, 1)};
    uint32_t candidates = 0;
    for (uint32_t i = 0; i < p.body->instruction_count; i++)
        candidates +=
            p.body->instructions[i] != NULL && is_candidate(p.body->instructions[i]);
    if (trips < 1 || candidates == 0 || loop->control_count != 0 ||
        !shape_is_tuple(loop->shape) || !may_peel(p.body))
        return false;
    p.uses = uses_compute(p.body, cx->scratch);
    p.stages = ARENA_ARRAY(cx->scratch, Stage, (size_t)candidates);
    for (uint32_t i = 0; i < p.body->instruction_count; i++) {
        Instruction *inst = p.body->instructions[i];
        if (inst != NULL && is_candidate(inst) &&
            find_stage(&p, inst, &p.stages[p.count]))
            p.count++;
    }
    if (p.count == 0)
        return false;
    for (uint32_t i = 0; i < p.count; i++)
        cx->counts.bytes_pipelined_forward +=
            (uint64_t)shape_bytes(p.stages[i].chain[0]->operands[0]->shape);
    cx->counts.collectives_pipelined_forward += p.count;
    rewrite(&p, trips);
    return true;
}

bool pass_collective_pipeliner(Module *m, PassContext *cx)
{
    if (!cx->settings->pipeline_collectives)
        return false;
    bool changed = false;
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    for (uint32_t k = 0; k < m->computation_count; k++) {
        Computation *comp = m->computations[k];
        uint32_t count = comp == NULL ? 0 : comp->instruction_count, n = 0;
        Instruction **loops = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + 1);
        for (uint32_t i = 0; i < count; i++) {
            Instruction *inst = comp->instructions[i];
            if (inst != NULL && inst->op == OP_WHILE &&
                calls[inst_called(inst, 0)->id] == 1 &&
                calls[inst_called(inst, 1)->id] == 1)
                loops[n++] = inst;
        }
        for (uint32_t i = 0; i < n; i++)
            changed |= visit_loop(m, cx, loops[i]);
    }
    if (changed)
        module_sort(m);
    return changed;
}
