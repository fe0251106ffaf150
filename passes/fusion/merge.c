/* Merging one instruction, or fusion, into a fusion that reads it. See fusion.h. */
#include <string.h>

#include "ir/base/bug.h"
#include "passes/fusion/fusion.h"

/* What is brought into a fusion, and how. */
typedef struct Merge {
    Instruction *fusion;
    const FusionLeaves *own; /* results that may be read inside; NULL: none */
    bool is_moved;           /* the code exists nowhere else afterwards: names stay */
    uint32_t first;          /* id of the first instruction that is added */
    uint32_t *spare;         /* elements of operands and parameters that are free */
    Arena *scratch;
} Merge;

static Instruction **grown(Arena *a, Instruction *const *array, uint32_t count,
                           uint32_t spare)
{
    Instruction **to = ARENA_ARRAY(a, Instruction *, (size_t)count + spare);
    if (count != 0)
        memcpy(to, array, count * sizeof *to);
    return to;
}

/* The parameter of the fused computation for an operand, added where the fusion has none. */
static Instruction *parameter_for(Merge *m, Instruction *operand)
{
    Instruction *fusion = m->fusion;
    Computation *comp = inst_called(fusion, 0);
    for (uint32_t i = 0; i < fusion->operand_count; i++) {
        if (fusion->operands[i] == operand)
            return comp->parameters[i];
    }
    uint32_t number = fusion->operand_count++;
    comp->parameter_count++;
    if (*m->spare == 0) {
        Arena *a = comp->module->arena;
        *m->spare = number / 2 + 4;
        fusion->operands = grown(a, fusion->operands, number, *m->spare);
        comp->parameters = grown(a, comp->parameters, number, *m->spare);
    }
    --*m->spare;
    Instruction *p = computation_append(comp, OP_PARAMETER, operand->shape, 0, NULL);
    p->parameter = number;
    fusion->operands[number] = operand;
    comp->parameters[number] = p;
    return p;
}

/* The instruction of the fused computation that does the same; NULL: none. Nothing that was there
 * reads what has been added since. */
static Instruction *same_inside(const Merge *m, const Instruction *inst,
                                Instruction *const *operands)
{
    const Computation *comp = inst_called(m->fusion, 0);
    uint32_t first = 0;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        if (operands[k]->id >= m->first && operands[k]->id >= first)
            first = operands[k]->id + 1;
    }
    for (uint32_t i = first; i < comp->instruction_count; i++) {
        Instruction *have = comp->instructions[i];
        if (have == NULL || have->op != inst->op || have->shape != inst->shape ||
            have->operand_count != inst->operand_count || have->op == OP_PARAMETER)
            continue;
        bool same = true;
        for (uint32_t k = 0; k < inst->operand_count && same; k++)
            same = have->operands[k] == operands[k];
        if (same && inst_same_operation(have, inst))
            return have;
    }
    return NULL;
}

static Instruction *clone_into(const Merge *m, Instruction *inst,
                               Instruction *const *operands)
{
    Computation *comp = inst_called(m->fusion, 0);
    Instruction *have = same_inside(m, inst, operands);
    if (have != NULL)
        return have;
    return m->is_moved ? computation_add_moved(comp, inst, operands)
                       : computation_add_like(comp, inst, inst->shape,
                                              inst->operand_count, operands);
}

/* The value inside the fusion of an operand of what is brought in: a result of the fusion
 * itself, or a parameter. */
static Instruction *value_inside(Merge *m, Instruction *operand)
{
    for (uint32_t i = 0; m->own != NULL && i < m->own->count; i++) {
        if (m->own->users_see[i] == operand)
            return m->own->inside[i];
    }
    if (operand->op != OP_CONSTANT || operand->shape->rank != 0)
        return parameter_for(m, operand);
    Instruction *c = same_inside(m, operand, NULL);
    if (c != NULL)
        return c;
    c = computation_append(inst_called(m->fusion, 0), OP_CONSTANT, operand->shape, 0,
                           NULL);
    c->literal = operand->literal;
    return c;
}

/* The producer's code inside the fusion: its result there. */
static Instruction *bring_in(Merge *m, Instruction *producer)
{
    Arena *a = m->scratch;
    if (producer->op != OP_FUSION) {
        Instruction **operands =
            ARENA_ARRAY(a, Instruction *, (size_t)producer->operand_count + 1);
        for (uint32_t i = 0; i < producer->operand_count; i++)
            operands[i] = value_inside(m, producer->operands[i]);
        return clone_into(m, producer, operands);
    }
    Computation *comp = inst_called(producer, 0);
    computation_compact(comp);
    uint32_t count;
    Instruction **order = computation_post_order(comp, a, &count);
    Instruction **map =
        ARENA_ARRAY(a, Instruction *, (size_t)comp->instruction_count + 1);
    uint32_t most = 0; /* one operand may be read many times */
    for (uint32_t i = 0; i < count; i++)
        most = order[i]->operand_count > most ? order[i]->operand_count : most;
    Instruction **operands = ARENA_ARRAY(a, Instruction *, (size_t)most + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = order[i];
        if (inst->op == OP_PARAMETER) {
            map[inst->id] = value_inside(m, producer->operands[inst->parameter]);
            continue;
        }
        for (uint32_t k = 0; k < inst->operand_count; k++)
            operands[k] = map[inst->operands[k]->id];
        map[inst->id] = clone_into(m, inst, operands);
    }
    return map[comp->root->id];
}

/* Drops operand and parameter number `number`. */
static void drop_parameter(Instruction *fusion, uint32_t number)
{
    Computation *comp = inst_called(fusion, 0);
    computation_remove(comp, comp->parameters[number]);
    for (uint32_t i = number; i + 1 < fusion->operand_count; i++) {
        fusion->operands[i] = fusion->operands[i + 1];
        comp->parameters[i] = comp->parameters[i + 1];
        comp->parameters[i]->parameter = i;
    }
    fusion->operand_count--;
    comp->parameter_count--;
}

/* Parameters, then what was added behind the first `count` instructions, then the others: mostly
 * those read what was added, and the order need not be found again. */
static void put_in_order(Computation *comp, uint32_t count, Arena *scratch)
{
    uint32_t all = comp->instruction_count, n = 0;
    Instruction **list =
        arena_copy(scratch, comp->instructions, all * sizeof *comp->instructions);
    for (uint32_t i = 0; i < all; i++) {
        if (list[i] != NULL && list[i]->op == OP_PARAMETER)
            comp->instructions[n++] = list[i];
    }
    for (uint32_t k = 0; k < all; k++) {
        Instruction *inst = list[(k + count) % all];
        if (inst != NULL && inst->op != OP_PARAMETER)
            comp->instructions[n++] = inst;
    }
    memset(comp->instructions + n, 0, (all - n) * sizeof *comp->instructions);
    computation_compact(comp);
}

void fusion_merge(Instruction *fusion, Instruction *producer, bool is_moved,
                  uint32_t *spare, Arena *scratch)
{
    Computation *comp = inst_called(fusion, 0);
    Merge m = {
        .fusion = fusion, .is_moved = is_moved, .spare = spare, .scratch = scratch};
    uint32_t count = comp->instruction_count, read_count = 0;
    Instruction **read =
        ARENA_ARRAY(scratch, Instruction *, (size_t)fusion->operand_count + 1);
    for (uint32_t i = fusion->operand_count; i-- > 0;) {
        if (fusion->operands[i] != producer)
            continue;
        read[read_count++] = comp->parameters[i];
        drop_parameter(fusion, i);
    }
    *spare += read_count;
    Instruction *result = bring_in(&m, producer);
    for (uint32_t i = 0; i < read_count; i++)
        computation_replace_one(comp, read[i], result);
    put_in_order(comp, count, scratch);
}

Instruction *fusion_bring_in(Instruction *fusion, const FusionLeaves *own,
                             Instruction *other, bool is_moved, uint32_t *spare,
                             Arena *scratch)
{
    Merge m = {.fusion = fusion,
               .own = own,
               .is_moved = is_moved,
               .first = inst_called(fusion, 0)->instruction_count,
               .spare = spare,
               .scratch = scratch};
    return bring_in(&m, other);
}

bool fusion_is_result_of(const Instruction *value, const Instruction *kernel)
{
    return value == kernel ||
           (value->op == OP_GET_TUPLE_ELEMENT && value->operands[0] == kernel);
}

Instruction *fusion_result_value(Instruction *fusion, uint32_t i)
{
    return shape_is_tuple(fusion->shape) ? computation_add_element(fusion, i) : fusion;
}

bool fusion_leads_around(const Computation *comp, const Instruction *from,
                         const Instruction *to, Arena *scratch)
{
    uint32_t count = comp->instruction_count, top = 0;
    bool *seen = ARENA_ARRAY(scratch, bool, count);
    const Instruction **stack = ARENA_ARRAY(scratch, const Instruction *, count + 1);
    stack[top++] = to;
    while (top > 0) {
        const Instruction *inst = stack[--top];
        for (uint32_t k = 0; k < inst->operand_count + inst->control_count; k++) {
            const Instruction *o = k < inst->operand_count
                                       ? inst->operands[k]
                                       : inst->control[k - inst->operand_count];
            if (inst == to && fusion_is_result_of(o, from))
                continue;
            if (o == from)
                return true;
            /* the computation is in order */
            if (o->id > from->id && !seen[o->id])
                stack[top++] = o;
            seen[o->id] = true;
        }
    }
    return false;
}

void fusion_name_all(Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->name == NULL)
                inst->name = module_unique_name(m, op_info[inst->op].name);
        }
    }
}

void fusion_set_results(Instruction *fusion, Instruction *const *inside, uint32_t count)
{
    Computation *comp = inst_called(fusion, 0);
    Module *m = comp->module;
    if (comp->root->op == OP_TUPLE)
        computation_remove(comp, comp->root);
    comp->root = inside[0];
    if (count == 1)
        return;
    const Shape **shapes = ARENA_ARRAY(m->arena, const Shape *, count);
    for (uint32_t i = 0; i < count; i++)
        shapes[i] = inside[i]->shape;
    comp->root = computation_append(comp, OP_TUPLE, shape_tuple(m->intern, count, shapes),
                                    count, inside);
}

void fusion_drop_unread(Instruction *fusion, Arena *scratch)
{
    Computation *comp = inst_called(fusion, 0);
    computation_compact(comp);
    uint32_t count = comp->instruction_count, top = 0;
    bool *live = ARENA_ARRAY(scratch, bool, count);
    Instruction **stack = ARENA_ARRAY(scratch, Instruction *, count);
    live[comp->root->id] = true;
    stack[top++] = comp->root;
    while (top > 0) {
        const Instruction *inst = stack[--top];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            Instruction *o = inst->operands[k];
            if (!live[o->id])
                stack[top++] = o;
            live[o->id] = true;
        }
    }
    for (uint32_t i = comp->parameter_count; i-- > 0;) {
        if (!live[comp->parameters[i]->id])
            drop_parameter(fusion, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst != NULL && !live[i] && inst->op != OP_PARAMETER)
            computation_remove(comp, inst);
    }
    computation_compact(comp);
}
