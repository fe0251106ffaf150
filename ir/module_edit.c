/* Changing modules: replacement, removal, order. See module.h. */
#include <string.h>

#include "ir/base/bug.h"
#include "ir/module.h"

void computation_remove(Computation *comp, Instruction *inst)
{
    if (inst->parent != comp || comp->instructions[inst->id] != inst)
        bug("removing %s from a computation it is not in", inst->name);
    comp->instructions[inst->id] = NULL;
}

void computation_remove_from(Computation *comp, uint32_t first)
{
    for (uint32_t i = first; i < comp->instruction_count; i++) {
        if (comp->instructions[i] != NULL)
            computation_remove(comp, comp->instructions[i]);
    }
}

static Instruction *follow(Instruction *const *forward, uint32_t count, Instruction *inst)
{
    uint32_t steps = 0;
    while (inst->id < count && forward[inst->id] != NULL) {
        inst = forward[inst->id];
        if (++steps > count)
            bug("replacements of %s go in a circle", inst->name);
    }
    return inst;
}

/* Where an instruction came from is known of what stands for it, too. */
static void hand_over(Instruction *to, const Instruction *from)
{
    const Attr *metadata = inst_attr(from, ATTR_METADATA);
    if (metadata != NULL && !inst_has(to, ATTR_METADATA) && to->op != OP_PARAMETER &&
        to->op != OP_CONSTANT)
        inst_set(to, *metadata);
    if (to->span.begin == to->span.end)
        to->span = from->span;
}

void inst_drop_double_controls(Instruction *inst)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < inst->control_count; k++) {
        uint32_t same = 0;
        while (same < kept && inst->control[same] != inst->control[k])
            same++;
        if (same == kept)
            inst->control[kept++] = inst->control[k];
    }
    inst->control_count = kept;
}

static void replace(Computation *comp, Instruction *const *forward, uint32_t count)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->id < count && forward[inst->id] != NULL)
            hand_over(follow(forward, count, inst), inst);
        for (uint32_t k = 0; k < inst->operand_count; k++)
            inst->operands[k] = follow(forward, count, inst->operands[k]);
        bool changed = false;
        for (uint32_t k = 0; k < inst->control_count; k++) {
            Instruction *to = follow(forward, count, inst->control[k]);
            changed |= to != inst->control[k];
            inst->control[k] = to;
        }
        if (changed)
            inst_drop_double_controls(inst);
    }
    comp->root = follow(forward, count, comp->root);
}

void computation_replace(Computation *comp, Instruction *const *forward)
{
    replace(comp, forward, comp->instruction_count);
}

void computation_substitute(Computation *comp, Instruction *const *forward,
                            uint32_t count)
{
    replace(comp, forward, count);
    for (uint32_t i = 0; i < count; i++) {
        if (forward[i] != NULL && comp->instructions[i] != NULL)
            computation_remove(comp, comp->instructions[i]);
    }
}

uint32_t computation_replace_each(Computation *comp, RemakeFn *by, void *context,
                                  Arena *scratch)
{
    uint32_t count = comp->instruction_count, replaced = 0;
    Instruction **forward = NULL;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        Instruction *made = inst != NULL ? by(inst, context) : NULL;
        if (made == NULL)
            continue;
        if (forward == NULL)
            forward = ARENA_ARRAY(scratch, Instruction *, count);
        forward[i] = made;
        replaced++;
    }
    if (replaced != 0)
        computation_substitute(comp, forward, count);
    return replaced;
}

uint32_t module_replace_each(Module *m, RemakeFn *by, void *context, Arena *scratch)
{
    Computations programs = module_programs(m, scratch);
    uint32_t replaced = 0;
    for (uint32_t c = 0; c < programs.count; c++)
        replaced += computation_replace_each(programs.data[c], by, context, scratch);
    return replaced;
}

void computation_replace_one(Computation *comp, Instruction *from, Instruction *to)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (inst->operands[k] == from)
                inst->operands[k] = to;
        }
        bool changed = false;
        for (uint32_t k = 0; k < inst->control_count; k++) {
            if (inst->control[k] != from)
                continue;
            inst->control[k] = to;
            changed = true;
        }
        if (changed)
            inst_drop_double_controls(inst);
    }
    if (comp->root == from)
        comp->root = to;
}

void computation_compact(Computation *comp)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL)
            continue;
        if (inst->id !=
            kept) /* mostly it is: memory that is not written need not go back */
            inst->id = kept;
        comp->instructions[kept++] = inst;
    }
    memset(comp->instructions + kept, 0,
           (comp->instruction_count - kept) * sizeof *comp->instructions);
    comp->instruction_count = kept;
}

/* -- order ------------------------------------------------------------------------- */

static bool comes_after(const Instruction *inst, Instruction *const *list, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        if (list[k]->id >= inst->id)
            return false;
    }
    return true;
}

/* Whether the order of the list is a topological one, and that list without NULLs (out NULL:
 * not asked for). */
static bool is_ordered(const Computation *comp, Instruction **out, uint32_t *count)
{
    uint32_t n = 0;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!comes_after(inst, inst->operands, inst->operand_count) ||
            !comes_after(inst, inst->control, inst->control_count))
            return false;
        if (out != NULL)
            out[n++] = inst;
    }
    if (out != NULL)
        *count = n;
    return true;
}

/* Where a walk stands: an instruction and how many of its predecessors it has entered. */
typedef struct Visit {
    Instruction *inst;
    uint32_t next;
} Visit;

/* Depth first from the instructions in list order, so that the list order decides among
 * instructions that do not depend on each other. */
static uint32_t walk(const Computation *comp, Arena *scratch, Instruction **out)
{
    uint32_t count = comp->instruction_count, emitted = 0;
    unsigned char *state =
        ARENA_ARRAY(scratch, unsigned char, count); /* 1 open, 2 done */
    Visit *stack = ARENA_ARRAY(scratch, Visit, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (comp->instructions[i] == NULL || state[i] != 0)
            continue;
        uint32_t depth = 0;
        stack[depth++] = (Visit){comp->instructions[i], 0};
        state[i] = 1;
        while (depth != 0) {
            Visit *top = &stack[depth - 1];
            Instruction *inst = top->inst, *before;
            if (top->next < inst->operand_count)
                before = inst->operands[top->next++];
            else if (top->next < inst->operand_count + inst->control_count)
                before = inst->control[top->next++ - inst->operand_count];
            else {
                state[inst->id] = 2;
                out[emitted++] = inst;
                depth--;
                continue;
            }
            if (state[before->id] == 1)
                bug("instruction %s depends on itself", before->name);
            if (state[before->id] == 0) {
                state[before->id] = 1;
                stack[depth++] = (Visit){before, 0};
            }
        }
    }
    return emitted;
}

void inst_add_control(Instruction *inst, Instruction *before)
{
    for (uint32_t i = 0; i < inst->control_count; i++) {
        if (inst->control[i] == before)
            return;
    }
    Instruction **all = ARENA_ARRAY(inst->parent->module->arena, Instruction *,
                                    (size_t)inst->control_count + 1);
    if (inst->control_count != 0)
        memcpy(all, inst->control, inst->control_count * sizeof *all);
    all[inst->control_count++] = before;
    inst->control = all;
}

void inst_add_controls(Instruction *inst, const Instruction *from)
{
    for (uint32_t i = 0; i < from->control_count; i++) {
        if (from->control[i] != inst)
            inst_add_control(inst, from->control[i]);
    }
}

Instruction **computation_post_order(const Computation *comp, Arena *scratch,
                                     uint32_t *count)
{
    Instruction **out = ARENA_ARRAY(scratch, Instruction *, comp->instruction_count);
    if (!is_ordered(comp, out, count))
        *count = walk(comp, scratch, out);
    return out;
}

void computation_sort(Computation *comp)
{
    if (!is_ordered(comp, NULL, NULL)) {
        Arena *scratch = arena_scratch();
        Instruction **order =
            ARENA_ARRAY(scratch, Instruction *, comp->instruction_count);
        uint32_t n = walk(comp, scratch, order);
        memset(comp->instructions, 0,
               comp->instruction_count * sizeof *comp->instructions);
        memcpy(comp->instructions, order, n * sizeof *order);
        arena_destroy(scratch);
    }
    computation_compact(comp);
}

/* -- computations ------------------------------------------------------------------- */

typedef struct CallVisit {
    Computation *comp;
    uint32_t instruction; /* next one to look at */
    uint32_t called;      /* next computation that it calls */
} CallVisit;

/* The computations that `roots` reach, callees first. */
static uint32_t walk_calls(Module *m, Computation **roots, uint32_t root_count,
                           Computation **out)
{
    Arena *scratch = arena_scratch();
    unsigned char *state = ARENA_ARRAY(scratch, unsigned char, m->computation_count);
    CallVisit *stack = ARENA_ARRAY(scratch, CallVisit, (size_t)m->computation_count + 1);
    uint32_t emitted = 0;
    for (uint32_t r = 0; r < root_count; r++) {
        if (roots[r] == NULL || state[roots[r]->id] != 0)
            continue;
        uint32_t depth = 0;
        stack[depth++] = (CallVisit){roots[r], 0, 0};
        state[roots[r]->id] = 1;
        while (depth != 0) {
            CallVisit *top = &stack[depth - 1];
            if (top->instruction == top->comp->instruction_count) {
                state[top->comp->id] = 2;
                out[emitted++] = top->comp;
                depth--;
                continue;
            }
            Instruction *inst = top->comp->instructions[top->instruction];
            if (inst == NULL || top->called == inst_called_count(inst)) {
                top->instruction++;
                top->called = 0;
                continue;
            }
            Computation *callee = inst_called(inst, top->called++);
            if (state[callee->id] == 1)
                bug("computation %s calls itself", callee->name);
            if (state[callee->id] == 0) {
                state[callee->id] = 1;
                stack[depth++] = (CallVisit){callee, 0, 0};
            }
        }
    }
    arena_destroy(scratch);
    return emitted;
}

static void keep_reached(Module *m, Computation **roots, uint32_t root_count)
{
    Arena *scratch = arena_scratch();
    Computation **order = ARENA_ARRAY(scratch, Computation *, m->computation_count);
    uint32_t n = walk_calls(m, roots, root_count, order);
    for (uint32_t i = 0; i < n; i++) {
        order[i]->id = i;
        m->computations[i] = order[i];
    }
    m->computation_count = n;
    arena_destroy(scratch);
}

void module_remove_dead_computations(Module *m)
{
    if (m->computation_count == 1)
        return;
    keep_reached(m, &m->entry, 1);
}

void module_sort(Module *m)
{
    Arena *scratch = arena_scratch();
    Computation **all = arena_copy(scratch, m->computations,
                                   m->computation_count * sizeof *m->computations);
    keep_reached(m, all, m->computation_count);
    arena_destroy(scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (m->config.is_scheduled && !comp->is_fused)
            computation_compact(comp);
        else
            computation_sort(comp);
    }
}

uint32_t *module_call_counts(const Module *m, Arena *scratch)
{
    uint32_t *counts = ARENA_ARRAY(scratch, uint32_t, m->computation_count);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            uint32_t called = inst_called_count(inst);
            for (uint32_t k = 0; k < called; k++)
                counts[inst_called(inst, k)->id]++;
        }
    }
    return counts;
}

Computations module_programs(const Module *m, Arena *scratch)
{
    bool *is_program = ARENA_ARRAY(scratch, bool, (size_t)m->computation_count + 1);
    is_program[m->entry->id] = true;
    for (const Computation *comp = comp_last(m); comp; comp = comp_previous(comp)) {
        if (!is_program[comp->id])
            continue;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (!op_is(inst->op, OPF_CONTROL | OPF_ASYNC_START))
                continue;
            for (uint32_t k = 0;
                 !op_is(inst->op, OPF_COLLECTIVE) && k < inst_called_count(inst); k++)
                is_program[inst_called(inst, k)->id] = true;
        }
    }
    Computations all = {ARENA_ARRAY(scratch, Computation *, m->computation_count), 0};
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (is_program[comp->id])
            all.data[all.count++] = comp;
    }
    return all;
}

/* -- users ------------------------------------------------------------------------- */

void instructions_mark_operands(Instruction *const *order, uint32_t count,
                                bool *is_marked)
{
    for (uint32_t i = count; i-- > 0;) {
        const Instruction *inst = order[i];
        for (uint32_t k = 0; is_marked[inst->id] && k < inst->operand_count; k++)
            is_marked[inst->operands[k]->id] = true;
    }
}

Uses uses_compute(const Computation *comp, Arena *scratch)
{
    uint32_t count = comp->instruction_count;
    uint32_t *start = ARENA_ARRAY(scratch, uint32_t, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++)
            start[inst->operands[k]->id + 1]++;
    }
    for (uint32_t i = 0; i < count; i++)
        start[i + 1] += start[i];
    uint32_t *fill = arena_copy(scratch, start, count * sizeof *fill);
    Instruction **list = ARENA_ARRAY(scratch, Instruction *, start[count]);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++)
            list[fill[inst->operands[k]->id]++] = inst;
    }
    return (Uses){start, list};
}
