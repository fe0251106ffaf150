/* Common subexpressions: of equal instructions on equal operands one stays; of equal scalar
 * computations (reducers, comparators) too, so that reductions which call them become equal.
 *
 *   a = f32[] add(x, y)
 *   b = f32[] add(y, x)
 *   c = f32[] multiply(a, b)      =>      c = f32[] multiply(a, a)
 *
 * Needs: nothing. Keeps: order. Breaks: nothing; pass_dce removes what is left over.
 * One sweep in topological order with a hash table. The first occurrence stays. Loops and
 * conditionals are equal if their computations are, instruction by instruction. Effects, random
 * numbers, collectives, calls and boundaries are left alone. */
#include <string.h>

#include "passes/simplify/simplify.h"

enum {
    CSE_AT_ONCE = 16,
    COMPARED_AT_MOST =
        1 << 14, /* instructions of called computations, for two that look equal */
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* What computes the same each time it is asked. */
static bool is_repeatable(const Instruction *inst)
{
    return !op_is(inst->op, OPF_EFFECT | OPF_RANDOM | OPF_COLLECTIVE | OPF_BOUNDARY |
                                OPF_ASYNC_START | OPF_ASYNC_DONE) &&
           inst->op != OP_ASYNC_UPDATE && inst->control_count == 0;
}

static bool has_branches(const Instruction *inst)
{
    return inst->op == OP_WHILE || inst->op == OP_CONDITIONAL;
}

static bool is_candidate(const Instruction *inst)
{
    if (op_is(inst->op, OPF_CONTROL) && !has_branches(inst))
        return false;
    return is_repeatable(inst) && inst->op != OP_PARAMETER && inst->op != OP_FUSION &&
           inst->op != OP_COPY;
}

static bool swaps(const Instruction *inst)
{
    return op_is(inst->op, OPF_COMMUTATIVE) && inst->operand_count == 2;
}

static uint64_t hash_of(const Instruction *inst)
{
    uint64_t h = has_branches(inst) ? mix(inst->op, (uintptr_t)inst->shape)
                                    : inst_operation_hash(inst);
    if (swaps(inst)) {
        uint64_t a = inst->operands[0]->id, b = inst->operands[1]->id;
        return mix(mix(h, a < b ? a : b), a < b ? b : a);
    }
    for (uint32_t i = 0; i < inst->operand_count; i++)
        h = mix(h, inst->operands[i]->id);
    return h;
}

/* Of two computations that are equal so far, equal numbers are equal instructions. */
static bool same_operands(const Instruction *a, const Instruction *b)
{
    bool same = a->operand_count == b->operand_count;
    for (uint32_t k = 0; same && k < a->operand_count; k++)
        same = a->operands[k]->id == b->operands[k]->id;
    return same;
}

/* Whether two computations, and all that they call, are equal and can be run once for both.
 * `budget` bounds the instructions that are looked at: computations may call in a DAG. */
static bool same_work(const Computation *a, const Computation *b, uint32_t *budget)
{
    if (a->instruction_count != b->instruction_count || !a->root || !b->root ||
        a->root->id != b->root->id || a->instruction_count > *budget)
        return false;
    *budget -= a->instruction_count;
    for (uint32_t i = 0; i < a->instruction_count; i++) {
        const Instruction *x = a->instructions[i], *y = b->instructions[i];
        if (!x && !y)
            continue;
        if (!x || !y || !is_repeatable(x) || y->control_count > 0 ||
            !same_operands(x, y) || !inst_same_but_callees(x, y))
            return false;
        for (uint32_t k = 0; k < inst_called_count(x); k++)
            if (!same_work(inst_called(x, k), inst_called(y, k), budget))
                return false;
    }
    return true;
}

static bool same_branches(const Instruction *a, const Instruction *b)
{
    uint32_t budget = COMPARED_AT_MOST;
    bool same = inst_same_but_callees(a, b);
    for (uint32_t k = 0; same && k < inst_called_count(a); k++)
        same = same_work(inst_called(a, k), inst_called(b, k), &budget);
    return same;
}

static bool same_value(const Instruction *a, const Instruction *b)
{
    if (has_branches(a))
        return a->op == b->op && same_operands(a, b) && same_branches(a, b);
    if (a->operand_count != b->operand_count || !inst_same_operation(a, b))
        return false;
    bool same = true;
    for (uint32_t i = 0; same && i < a->operand_count; i++)
        same = a->operands[i] == b->operands[i];
    if (!same && swaps(a))
        same = a->operands[0] == b->operands[1] && a->operands[1] == b->operands[0];
    return same;
}

/* No instruction is looked into to find that a slot is another's. */
typedef struct Slot {
    uint32_t id; /* + 1; 0: empty */
    uint32_t hash;
} Slot;

typedef struct Merge {
    Computation *comp;
    Instruction **forward; /* by id: the instruction that stays */
    Slot *table;
    size_t size; /* of the table, a power of 2 */
    bool changed;
} Merge;

/* Operands become those that stay; whether any was another. */
static bool forward_operands(const Merge *m, Instruction *inst)
{
    bool any = false;
    for (uint32_t k = 0; m->changed && k < inst->operand_count; k++) {
        Instruction *by = m->forward[inst->operands[k]->id];
        inst->operands[k] = by != NULL ? by : inst->operands[k];
        any |= by != NULL;
    }
    return any;
}

static void merge_one(Merge *m, Instruction *inst, uint64_t hash)
{
    Slot own = {inst->id + 1, (uint32_t)(hash >> 32)};
    size_t at = hash & (m->size - 1);
    for (; m->table[at].id != 0; at = (at + 1) & (m->size - 1)) {
        Instruction *first = m->comp->instructions[m->table[at].id - 1];
        if (m->table[at].hash == own.hash && same_value(first, inst)) {
            m->forward[inst->id] = first;
            m->changed = true;
            return;
        }
    }
    m->table[at] = own;
}

/* The table of a large computation is in no cache: the slots of several instructions are asked for
 * at once, before the first is needed. */
static void merge_several(Merge *m, Instruction *const *list, uint32_t n)
{
    uint64_t hash[CSE_AT_ONCE];
    volatile uint32_t seen;
    for (uint32_t i = 0; i < n; i++) {
        forward_operands(m, list[i]);
        hash[i] = is_candidate(list[i]) ? hash_of(list[i]) : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        seen = m->table[hash[i] & (m->size - 1)].id;
    (void)seen;
    for (uint32_t i = 0; i < n; i++) {
        bool is_new = forward_operands(m, list[i]);
        if (is_candidate(list[i]))
            merge_one(m, list[i], is_new ? hash_of(list[i]) : hash[i]);
    }
}

static bool merge_instructions(Computation *comp, Arena *scratch)
{
    uint32_t n;
    Instruction **order = computation_post_order(comp, scratch, &n);
    Merge m = {.comp = comp,
               .forward = ARENA_ARRAY(scratch, Instruction *, comp->instruction_count),
               .size = 16};
    while (m.size < (size_t)n * 2)
        m.size *= 2;
    m.table = ARENA_ARRAY(scratch, Slot, m.size);
    for (uint32_t i = 0; i < n; i += CSE_AT_ONCE)
        merge_several(&m, order + i, n - i < CSE_AT_ONCE ? n - i : CSE_AT_ONCE);
    if (m.changed)
        computation_replace(comp, m.forward);
    return m.changed;
}

/* -- computations ------------------------------------------------------------------------ */

/* Computations that are only applied to scalars by reduce, sort, scatter, ... */
static bool applies_scalars(const Instruction *inst)
{
    return inst_called_count(inst) > 0 &&
           !op_is(inst->op,
                  OPF_CONTROL | OPF_ASYNC_START | OPF_ASYNC_DONE | OPF_BOUNDARY) &&
           inst->op != OP_FUSION && inst->op != OP_ASYNC_UPDATE;
}

static bool same_computation(const Computation *a, const Computation *b)
{
    if (a->instruction_count != b->instruction_count ||
        a->parameter_count != b->parameter_count || !a->root || !b->root ||
        a->root->id != b->root->id)
        return false;
    for (uint32_t i = 0; i < a->instruction_count; i++) {
        const Instruction *x = a->instructions[i], *y = b->instructions[i];
        if (!x || !y || !same_operands(x, y) || x->control_count || y->control_count ||
            !inst_same_operation(x, y))
            return false;
    }
    return true;
}

static uint64_t computation_hash(const Computation *comp)
{
    uint64_t h = comp->instruction_count;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        h = mix(h, inst_operation_hash(inst));
        for (uint32_t k = 0; k < inst->operand_count; k++)
            h = mix(h, inst->operands[k]->id);
    }
    return mix(h, comp->root->id);
}

/* By Computation.id: the first computation that is equal to it. */
static Computation **canonical_computations(const Module *m, Arena *scratch)
{
    uint32_t n = m->computation_count;
    Computation **first = ARENA_ARRAY(scratch, Computation *, n);
    bool *applied = ARENA_ARRAY(scratch, bool, n);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (!applies_scalars(inst))
                continue;
            for (uint32_t k = 0; k < inst_called_count(inst); k++)
                applied[inst_called(inst, k)->id] = true;
        }
    }
    size_t size = 16;
    while (size < (size_t)n * 2)
        size *= 2;
    Computation **table = ARENA_ARRAY(scratch, Computation *, size);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        first[comp->id] = comp;
        if (!applied[comp->id])
            continue;
        size_t at = computation_hash(comp) & (size - 1);
        while (table[at] && !same_computation(table[at], comp))
            at = (at + 1) & (size - 1);
        if (table[at])
            first[comp->id] = table[at];
        else
            table[at] = comp;
    }
    return first;
}

static bool merge_computations(Module *m, Arena *scratch)
{
    Computation **first = canonical_computations(m, scratch);
    bool changed = false;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (!applies_scalars(inst))
                continue;
            for (uint32_t k = 0; k < inst_called_count(inst); k++) {
                Computation *callee = inst_called(inst, k);
                if (first[callee->id] == callee)
                    continue;
                inst_set_called(inst, k, first[callee->id]);
                changed = true;
            }
        }
    }
    return changed;
}

bool pass_cse(Module *m, PassContext *cx)
{
    bool may_merge = m->computation_count > 2; /* the entry is applied to nothing */
    bool changed = may_merge && merge_computations(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= merge_instructions(comp, cx->scratch);
    if (changed)
        pass_dce(m, cx);
    return changed;
}
