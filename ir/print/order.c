/* In which order computations and instructions are printed (sections 10.3 and 10.4). */
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/base/bug.h"
#include "ir/print/printer.h"

/* -- sugar ------------------------------------------------------------------------------ */

static const Instruction *start_of(const Instruction *inst)
{
    while ((inst->op == OP_ASYNC_UPDATE || inst->op == OP_ASYNC_DONE) &&
           inst->operand_count != 0)
        inst = inst->operands[0];
    return inst->op == OP_ASYNC_START ? inst : NULL;
}

/* `x-start` must not be an opcode by itself, and x must take the parameters as they come. */
static bool is_one_operation(const Computation *comp)
{
    const Instruction *root = comp->root;
    if (root == NULL || root->op == OP_PARAMETER || root->op == OP_CONSTANT ||
        root->operand_count != comp->parameter_count)
        return false;
    for (uint32_t i = 0; i < root->operand_count; i++) {
        if (root->operands[i] != comp->parameters[i])
            return false;
    }
    uint32_t live = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        live++;
    if (live != comp->parameter_count + 1)
        return false;
    return root->op != OP_ALL_GATHER && root->op != OP_ALL_REDUCE &&
           root->op != OP_COPY && root->op != OP_COLLECTIVE_PERMUTE &&
           root->op != OP_SEND && root->op != OP_RECV;
}

static bool same_frontend_attributes(const Instruction *a, const Instruction *b)
{
    const Attr *x = inst_attr(a, ATTR_FRONTEND_ATTRIBUTES),
               *y = inst_attr(b, ATTR_FRONTEND_ATTRIBUTES);
    return x == NULL || y == NULL ? x == y : attr_equal(x, y);
}

/* In sugar an aliasing of these is the wrapped operation's, and a sharding the start's: the start's
 * own aliasing, and the operation's own sharding, must stay apart. */
static bool keeps_apart(const Instruction *start, const Instruction *root)
{
    bool aliases = root->op == OP_FUSION || root->op == OP_CUSTOM_CALL;
    return (aliases && inst_has(start, ATTR_OUTPUT_TO_OPERAND_ALIASING)) ||
           inst_has(root, ATTR_SHARDING) || !config_same(start, root) ||
           (inst_has(start, ATTR_FRONTEND_ATTRIBUTES) &&
            !same_frontend_attributes(start, root));
}

/* The start gives all operands of the operation: the sugar of one that leaves some to an update
 * does not say what they are. Nor does it say their layouts, if they are not those of the start. */
static bool is_fully_bound(const Instruction *start, const Computation *comp)
{
    const Shape *s = start->shape;
    if (start->operand_count != comp->parameter_count || !shape_is_tuple(s) ||
        s->rank < 2 || !shape_is_tuple(s->elements[0]) ||
        s->elements[0]->rank != comp->parameter_count ||
        s->elements[1] != comp->root->shape)
        return false;
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        if (s->elements[0]->elements[i] != comp->parameters[i]->shape)
            return false;
    return true;
}

const Instruction *print_sugar(const Instruction *inst, PrintForm form)
{
    if (inst->op != OP_ASYNC_START && inst->op != OP_ASYNC_UPDATE &&
        inst->op != OP_ASYNC_DONE)
        return NULL;
    const Instruction *start = start_of(inst);
    if (start == NULL)
        return NULL;
    const Computation *comp = inst_called(start, 0);
    if (!is_one_operation(comp))
        return NULL;
    bool as_xla = form == PRINT_LONG || form == PRINT_SHORT;
    bool exact = is_fully_bound(start, comp) && !keeps_apart(start, comp->root);
    return as_xla || exact ? comp->root : NULL;
}

/* -- instructions ------------------------------------------------------------------------- */

/* By ids, so that who comes back to an instruction looks at small arrays only. */
typedef struct Walk {
    const Computation *comp;
    Instruction **order;
    uint32_t count;
    uint8_t *state; /* 0 unseen, 1 on the way, 2 done */
    uint32_t *stack;
    size_t depth, capacity;
    Arena *scratch;
} Walk;

static void push(Walk *w, uint32_t id)
{
    if (w->state[id] == 2)
        return;
    w->stack =
        arena_grow(w->scratch, w->stack, &w->capacity, w->depth + 1, sizeof *w->stack);
    w->stack[w->depth++] = id;
}

/* Depth first from one instruction without users: control predecessors, the last one first,
 * then operands, the first one first. */
static void walk_from(Walk *w, uint32_t from)
{
    push(w, from);
    while (w->depth != 0) {
        uint32_t id = w->stack[w->depth - 1];
        Instruction *inst = w->comp->instructions[id];
        if (w->state[id] != 0) {
            w->depth--;
            if (w->state[id] == 1) {
                w->state[id] = 2;
                w->order[w->count++] = inst;
            }
            continue;
        }
        w->state[id] = 1;
        for (uint32_t i = inst->operand_count; i-- > 0;)
            push(w, inst->operands[i]->id);
        for (uint32_t i = 0; i < inst->control_count; i++)
            push(w, inst->control[i]->id);
    }
}

static PrintOrder order_of(const Computation *comp, Arena *scratch)
{
    uint32_t n = comp->instruction_count;
    Walk w = {.comp = comp,
              .order = ARENA_ARRAY(scratch, Instruction *, n),
              .state = ARENA_ARRAY(scratch, uint8_t, n),
              .scratch = scratch};
    bool scheduled = comp->module->config.is_scheduled && !comp->is_fused;
    bool *used = scheduled ? NULL : ARENA_ARRAY(scratch, bool, n);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL)
            continue;
        if (scheduled)
            w.order[w.count++] = inst;
        for (uint32_t k = 0; !scheduled && k < inst->operand_count; k++)
            used[inst->operands[k]->id] = true;
    }
    for (uint32_t i = 0; !scheduled && i < n; i++) {
        if (comp->instructions[i] != NULL && !used[i])
            walk_from(&w, i);
    }
    return (PrintOrder){w.order, w.count};
}

Instruction **print_instruction_order(Printer *p, const Computation *comp,
                                      uint32_t *count)
{
    PrintOrder here = {NULL, 0};
    PrintOrder *o = p->orders == NULL ? &here : &p->orders[comp->id];
    if (o->list == NULL)
        *o = order_of(comp, p->scratch);
    *count = o->count;
    return o->list;
}

static bool order_as_printed(Computation *comp, Arena *scratch)
{
    PrintOrder o = order_of(comp, scratch);
    bool changed = false;
    for (uint32_t i = 0; i < o.count; i++)
        changed |= o.list[i] != comp->instructions[i];
    if (changed) {
        memset(comp->instructions, 0, comp->instruction_count * sizeof *o.list);
        memcpy(comp->instructions, o.list, o.count * sizeof *o.list);
        computation_compact(comp);
    }
    return changed;
}

bool module_order_as_printed(Module *m)
{
    bool changed = false;
    Arena *scratch = arena_scratch();
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            changed |= order_as_printed(comp, scratch);
        arena_reset(scratch);
    }
    arena_destroy(scratch);
    return changed;
}

/* -- computations --------------------------------------------------------------------------- */

/* Called computations in the order in which they count: of a while the body comes first. */
static uint32_t called_in_order(const Instruction *inst, uint32_t i, uint32_t count)
{
    return inst->op == OP_WHILE ? count - 1 - i : i;
}

typedef struct Visit {
    const Computation *comp;
    Instruction **order;
    uint32_t count, at; /* next instruction */
    uint32_t callee;    /* next called computation of it */
} Visit;

typedef struct Tour {
    Printer *p;
    const Computation **order;
    uint32_t count;
    bool *seen;
    Visit *stack;
    size_t depth, capacity;
    bool list_order; /* XLA's: instructions as they were added, marked when queued */
} Tour;

static void enter(Tour *tour, const Computation *comp)
{
    Visit v = {
        .comp = comp, .order = comp->instructions, .count = comp->instruction_count};
    if (!tour->list_order)
        v.order = print_instruction_order(tour->p, comp, &v.count);
    tour->stack = arena_grow(tour->p->scratch, tour->stack, &tour->capacity,
                             tour->depth + 1, sizeof *tour->stack);
    tour->stack[tour->depth++] = v;
}

static void leave(Tour *tour)
{
    tour->order[tour->count++] = tour->stack[--tour->depth].comp;
}

/* A true post-order: a computation is marked when it is entered. */
static void tour_exact(Tour *tour, const Computation *root)
{
    tour->seen[root->id] = true;
    enter(tour, root);
    while (tour->depth != 0) {
        Visit *v = &tour->stack[tour->depth - 1];
        if (v->at == v->count) {
            leave(tour);
            continue;
        }
        const Instruction *inst = v->order[v->at];
        uint32_t callees = inst == NULL ? 0 : inst_called_count(inst);
        if (v->callee == callees) {
            v->at++;
            v->callee = 0;
            continue;
        }
        const Computation *callee =
            inst_called(inst, called_in_order(inst, v->callee++, callees));
        if (!tour->seen[callee->id]) {
            tour->seen[callee->id] = true;
            enter(tour, callee);
        }
    }
}

/* XLA's order: the callees of an instruction are marked when they are queued, which can put a
 * computation before one that it calls. */
static void queue_callees(Tour *tour, const Instruction *inst)
{
    uint32_t callees = inst == NULL ? 0 : inst_called_count(inst);
    for (uint32_t i = callees; i-- > 0;) {
        const Computation *callee = inst_called(inst, called_in_order(inst, i, callees));
        if (!tour->seen[callee->id]) {
            tour->seen[callee->id] = true;
            enter(tour, callee);
        }
    }
}

static void tour_queued(Tour *tour, const Computation *root)
{
    tour->seen[root->id] = true;
    for (const Instruction *inst = inst_first(root); inst; inst = inst_next(inst)) {
        queue_callees(tour, inst);
        while (tour->depth != 0) {
            Visit *v = &tour->stack[tour->depth - 1];
            if (v->at == v->count)
                leave(tour);
            else
                queue_callees(tour, v->order[v->at++]);
        }
    }
    tour->order[tour->count++] = root;
}

/* Computations that are printed as part of the instruction that starts them. */
static bool *hidden_computations(Printer *p, const Module *m)
{
    bool *hidden = ARENA_ARRAY(p->scratch, bool, m->computation_count);
    uint32_t *starts = ARENA_ARRAY(p->scratch, uint32_t, m->computation_count);
    uint32_t *calls = module_call_counts(m, p->scratch);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (print_sugar(inst, p->form) == NULL || inst_called_count(inst) == 0)
                continue; /* updates and dones may say once more what was started */
            uint32_t id = inst_called(inst, 0)->id;
            calls[id]--;
            starts[id] += inst->op == OP_ASYNC_START;
        }
    }
    for (uint32_t i = 0; i < m->computation_count; i++)
        hidden[i] = starts[i] == 1 && calls[i] == 0;
    return hidden;
}

const Computation **print_computation_order(Printer *p, const Module *m, uint32_t *count)
{
    Tour tour = {.p = p,
                 .order =
                     ARENA_ARRAY(p->scratch, const Computation *, m->computation_count),
                 .seen = ARENA_ARRAY(p->scratch, bool, m->computation_count),
                 .list_order = p->form == PRINT_LONG || p->form == PRINT_SHORT};
    const uint32_t *calls = module_call_counts(m, p->scratch);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (calls[comp->id] != 0)
            continue;
        if (tour.list_order)
            tour_queued(&tour, comp);
        else
            tour_exact(&tour, comp);
    }
    const bool *hidden = hidden_computations(p, m);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tour.count; i++) {
        if (!hidden[tour.order[i]->id])
            tour.order[kept++] = tour.order[i];
    }
    *count = kept;
    return tour.order;
}
