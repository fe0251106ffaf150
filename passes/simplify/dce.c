/* Dead code: instructions that neither the root nor an effect needs, computations that nothing
 * calls.
 *
 *   a = f32[] add(x, y)
 *   ROOT b = f32[] negate(x)      =>      ROOT b = f32[] negate(x)
 *
 * Of a tuple behind an opt-barrier that is read by elements only those that are read stay.
 *
 * Needs: nothing. Keeps: order, levels. Breaks: ids (computations are compacted).
 * Parameters stay. One backward walk per computation; callees come first, so what a loop or
 * a branch does inside is known. */
#include "passes/simplify/simplify.h"

static bool effects_of(const Effects *e, const Computation *comp)
{
    return comp->id >= e->count || e->of[comp->id];
}

bool simplify_is_pure(const Instruction *inst, const Effects *has_effect)
{
    if (inst->attr_count == 0)
        return !op_is(inst->op, OPF_EFFECT);
    if (op_is(inst->op, OPF_EFFECT) || inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
        return false;
    uint32_t calls = inst_called_count(inst);
    for (uint32_t i = 0; i < calls; i++)
        if (effects_of(has_effect, inst_called(inst, i)))
            return false;
    return true;
}

Effects *simplify_effects(const Module *m, Arena *scratch)
{
    Effects *has_effect = ARENA_NEW(scratch, Effects);
    has_effect->of = ARENA_ARRAY(scratch, bool, m->computation_count);
    has_effect->count = m->computation_count;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        bool *has = &has_effect->of[comp->id];
        *has = comp == m->entry; /* nobody calls it, and it may be large */
        for (const Instruction *inst = inst_first(comp); inst && !*has;
             inst = inst_next(inst))
            *has = !simplify_is_pure(inst, has_effect);
    }
    return has_effect;
}

bool *simplify_awaited(const Computation *comp, Arena *scratch)
{
    bool *is_awaited = NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++) {
            if (is_awaited == NULL)
                is_awaited = ARENA_ARRAY(scratch, bool, comp->instruction_count);
            is_awaited[inst->control[k]->id] = true;
        }
    }
    return is_awaited;
}

/* What of an instruction is needed. */
typedef enum {
    DEAD,
    LIVE,
    LIVE_IN_PARTS, /* its operands are marked by those who read the parts */
} Need;

typedef struct Mark {
    uint8_t *live;       /* Need by id */
    uint32_t below;      /* what has a smaller id is still to be visited */
    Instruction **stack; /* live ones that were visited before they were marked */
    uint32_t top;
    bool *is_narrow; /* by id: barriers that are marked element by element; NULL: none */
} Mark;

static void mark(Mark *k, Instruction *inst)
{
    if (k->live[inst->id] != DEAD)
        return;
    k->live[inst->id] = LIVE;
    if (inst->id >= k->below)
        k->stack[k->top++] = inst;
}

static void mark_controls(Mark *k, const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->control_count; i++)
        mark(k, inst->control[i]);
}

static bool is_element(const Instruction *inst)
{
    return inst->op == OP_GET_TUPLE_ELEMENT;
}

/* A barrier around a tuple that is made for it alone - it is no result -, of which only elements are read. */
static bool is_narrow(const Computation *comp, const Instruction *barrier, Uses uses)
{
    const Instruction *tuple = barrier->operands[0];
    if (tuple->op != OP_TUPLE || tuple->operand_count == 0 || barrier == comp->root ||
        tuple == comp->root || uses.start[tuple->id + 1] - uses.start[tuple->id] != 1)
        return false;
    bool narrow = true;
    for (uint32_t u = uses.start[barrier->id]; u < uses.start[barrier->id + 1]; u++)
        narrow = narrow && is_element(uses.list[u]);
    return narrow;
}

static bool *find_narrow(const Computation *comp, Arena *scratch)
{
    bool *narrow = NULL;
    Uses uses = {0};
    if (!op_set_has(&comp->module->ops, OP_OPT_BARRIER))
        return NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_OPT_BARRIER || !shape_is_tuple(inst->shape))
            continue;
        if (narrow == NULL) {
            uses = uses_compute(comp, scratch);
            narrow = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
        }
        narrow[inst->id] = is_narrow(comp, inst, uses);
    }
    if (narrow == NULL)
        return NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++) {
            /* who waits for the whole keeps the whole */
            narrow[inst->control[k]->id] = false;
        }
    }
    return narrow;
}

/* What an instruction needs; of a narrow barrier only the element that it reads. */
static void mark_needs(Mark *k, Instruction *inst)
{
    mark_controls(k, inst);
    Instruction *barrier = inst->operand_count == 1 ? inst->operands[0] : NULL;
    if (k->is_narrow != NULL && barrier != NULL && is_element(inst) &&
        k->is_narrow[barrier->id]) {
        Instruction *tuple = barrier->operands[0];
        if (!k->live[barrier->id]) {
            k->live[barrier->id] = k->live[tuple->id] = LIVE_IN_PARTS;
            mark_controls(k, barrier);
            mark_controls(k, tuple);
        }
        mark(k, tuple->operands[inst_int(inst, ATTR_INDEX, 0)]);
        return;
    }
    for (uint32_t i = 0; i < inst->operand_count; i++)
        mark(k, inst->operands[i]);
}

/* barrier(tuple(a, b, c)), of which a and c are read  ->  barrier(tuple(a, c)) */
static bool narrow_barriers(Computation *comp, const Mark *k, Arena *scratch)
{
    bool changed = false;
    uint32_t **position = ARENA_ARRAY(scratch, uint32_t *, comp->instruction_count);
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (k->live[inst->id] && is_element(inst) &&
            k->is_narrow[inst->operands[0]->id]) {
            uint32_t b = inst->operands[0]->id;
            if (position[b] == NULL)
                position[b] =
                    ARENA_ARRAY(scratch, uint32_t, inst->operands[0]->shape->rank);
            position[b][inst_int(inst, ATTR_INDEX, 0)] = 1;
        }
    }
    for (Instruction *barrier = inst_first(comp); barrier; barrier = inst_next(barrier)) {
        if (!k->live[barrier->id] || !k->is_narrow[barrier->id] ||
            position[barrier->id] == NULL)
            continue;
        Instruction *tuple = barrier->operands[0];
        const Shape **shapes = ARENA_ARRAY(scratch, const Shape *, tuple->operand_count);
        uint32_t n = 0;
        for (uint32_t e = 0; e < tuple->operand_count; e++) {
            if (position[barrier->id][e] == 0)
                continue;
            shapes[n] = tuple->shape->elements[e];
            tuple->operands[n] = tuple->operands[e];
            position[barrier->id][e] = n++;
        }
        if (n == tuple->operand_count)
            continue;
        tuple->operand_count = n;
        tuple->shape = barrier->shape = shape_tuple(comp->module->intern, n, shapes);
        inst_unset(tuple, ATTR_SHARDING);
        inst_unset(barrier, ATTR_SHARDING);
        inst_unset(tuple, ATTR_ORIGIN);
        inst_unset(barrier, ATTR_ORIGIN);
        changed = true;
    }
    if (!changed)
        return false;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (k->live[inst->id] && is_element(inst) &&
            position[inst->operands[0]->id] != NULL)
            inst_set_int(inst, ATTR_INDEX,
                         position[inst->operands[0]->id][inst_int(inst, ATTR_INDEX, 0)]);
    }
    return true;
}

/* Backwards, as operands mostly have smaller ids than what reads them. */
static void mark_all(Mark *k, const Computation *comp, const Effects *has_effect)
{
    k->below = comp->instruction_count;
    mark(k, comp->root);
    while (k->below > 0) {
        Instruction *inst = comp->instructions[--k->below];
        if (inst == NULL)
            continue;
        if (inst->op == OP_PARAMETER || !simplify_is_pure(inst, has_effect))
            k->live[inst->id] = LIVE;
        if (k->live[inst->id] == LIVE)
            mark_needs(k, inst);
        while (k->top > 0)
            mark_needs(k, k->stack[--k->top]);
    }
}

static bool remove_dead(Computation *comp, const Effects *has_effect, Arena *scratch)
{
    uint32_t n = comp->instruction_count;
    Mark k = {.live = ARENA_ARRAY(scratch, uint8_t, n),
              .stack = ARENA_ARRAY(scratch, Instruction *, n),
              .is_narrow = find_narrow(comp, scratch)};
    mark_all(&k, comp, has_effect);
    bool changed = k.is_narrow != NULL && narrow_barriers(comp, &k, scratch);
    bool has_gaps = false;
    for (uint32_t i = 0; i < n; i++) {
        has_gaps |= !k.live[i];
        if (comp->instructions[i] && !k.live[i]) {
            computation_remove(comp, comp->instructions[i]);
            changed = true;
        }
    }
    if (has_gaps)
        computation_compact(comp);
    return changed;
}

bool pass_dce(Module *m, PassContext *cx)
{
    bool changed = false;
    const Effects *has_effect = simplify_effects(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= remove_dead(comp, has_effect, cx->scratch);
    uint32_t before = m->computation_count;
    module_remove_dead_computations(m);
    return changed || m->computation_count != before;
}
