/* Loops whose elements go their own ways become kernels: a thread makes all trips for an element, where each trip was a
 * launch that read and wrote what is carried.
 *
 *   i, x, y = while(0, a, a), body: i + 1, x, y - (y * y - x) / (2 * y)
 *   ->  y = fusion(a), calls={the while}, backend_config={"emitter":"element_while"}
 *
 * Needs: layouts, trip counts. Keeps: values. Breaks: nothing. Ends: one sweep; a loop inside another may be one where
 * the outer one is not. */
#include "ir/analysis/loop.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/kinds/element_while.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

/* The elements that something reads become results; false: more than elements are read. */
static bool find_results(const WhilePlan *p, const Uses *uses, bool *is_result)
{
    const Instruction *loop = p->loop;
    for (uint32_t i = uses->start[loop->id]; i < uses->start[loop->id + 1]; i++) {
        const Instruction *read = uses->list[i];
        if (read->op != OP_GET_TUPLE_ELEMENT || read->control_count > 0)
            return false;
        int64_t element = inst_int(read, ATTR_INDEX, 0);
        if (p->roles[element] == WHILE_SCALAR)
            return false;
        is_result[element] = p->roles[element] != WHILE_UNCHANGED;
    }
    return loop->parent->root != loop && loop->control_count == 0;
}

/* Values that cost a thread nothing are made inside: scalar constants, everywhere or not, and numbers in a row. */
static Instruction *made_inside(Computation *fused, const Instruction *x)
{
    if (x->op == OP_CONSTANT && x->shape->rank == 0)
        return computation_add_constant(fused, x->literal, NULL);
    if (x->op == OP_IOTA)
        return computation_add_like(fused, x, x->shape, 0, NULL);
    if (x->op != OP_BROADCAST || x->operands[0]->op != OP_CONSTANT ||
        x->operands[0]->shape->rank != 0)
        return NULL;
    Instruction *scalar = computation_add_constant(fused, x->operands[0]->literal, NULL);
    return computation_add_like(fused, x, x->shape, 1, &scalar);
}

/* Where a loop fills an array nobody reads what it is at first. */
static Instruction *anything(Computation *fused, const Shape *s)
{
    Instruction *zero = computation_add_scalar(fused, s->dtype, 0);
    Instruction *all = computation_add(fused, OP_BROADCAST, s, 1, &zero, NULL);
    inst_set_ints(all, ATTR_DIMENSIONS, NULL, 0);
    return all;
}

/* The loop's tuple inside, and the fusion's operands: each array once. */
static Instruction *tuple_inside(Computation *fused, const WhilePlan *p,
                                 Instruction **operands, uint32_t *count)
{
    const Instruction *init = p->loop->operands[0];
    Arena *a = fused->module->arena;
    Instruction **inside = ARENA_ARRAY(a, Instruction *, (size_t)p->count + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t k = 0;
        if (p->roles[i] == WHILE_FILLED)
            inside[i] = anything(fused, init->operands[i]->shape);
        else if (p->roles[i] != WHILE_UNCHANGED || !while_reads(p, i)) /* bounds, too */
            inside[i] = made_inside(fused, init->operands[i]);
        while (inside[i] == NULL && k < *count && operands[k] != init->operands[i])
            k++;
        if (inside[i] == NULL && k == *count) {
            computation_add_parameter(fused, k, init->operands[i]->shape, NULL);
            operands[(*count)++] = init->operands[i];
        }
        if (inside[i] == NULL)
            inside[i] = fused->parameters[k];
    }
    return computation_add_like(fused, init, init->shape, p->count, inside);
}

/* The results inside, one behind the other; sets where each element went. */
static void set_results(Computation *fused, const WhilePlan *p, Instruction *loop,
                        const bool *is_result, uint32_t *result_of)
{
    Module *m = fused->module;
    Instruction **results = ARENA_ARRAY(m->arena, Instruction *, (size_t)p->count + 1);
    const Shape **shapes = ARENA_ARRAY(m->arena, const Shape *, (size_t)p->count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!is_result[i])
            continue;
        shapes[count] = loop->shape->elements[i];
        results[count] =
            computation_add(fused, OP_GET_TUPLE_ELEMENT, shapes[count], 1, &loop, NULL);
        inst_set_int(results[count], ATTR_INDEX, i);
        result_of[i] = count++;
    }
    fused->root = count == 1 ? results[0]
                             : computation_add(fused, OP_TUPLE,
                                               shape_tuple(m->intern, count, shapes),
                                               count, results, NULL);
}

static Instruction *outline(Instruction *loop, const WhilePlan *p, const bool *is_result,
                            uint32_t *result_of)
{
    Computation *comp = loop->parent;
    Module *m = comp->module;
    Computation *fused = module_add_computation(m, "fused");
    fused->is_fused = true;
    Instruction **operands = ARENA_ARRAY(m->arena, Instruction *, (size_t)p->count + 1);
    uint32_t count = 0;
    Instruction *tuple = tuple_inside(fused, p, operands, &count);
    Instruction *inside = computation_add_like(fused, loop, loop->shape, 1, &tuple);
    set_results(fused, p, inside, is_result, result_of);
    Instruction *fusion =
        computation_add(comp, OP_FUSION, fused->root->shape, count, operands, loop->name);
    fusion->span = loop->span;
    const Attr *metadata = inst_attr(loop, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(fusion, *metadata);
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    kernel_kind_set(fusion, kernel_kind_find("element_while", 13));
    return fusion;
}

/* Reads of the loop become reads of the fusion, or of what went into it. */
static void forward_reads(Instruction *loop, const WhilePlan *p, const Uses *uses,
                          Instruction *fusion, const uint32_t *result_of)
{
    for (uint32_t i = uses->start[loop->id]; i < uses->start[loop->id + 1]; i++) {
        Instruction *read = uses->list[i];
        int64_t element = inst_int(read, ATTR_INDEX, 0);
        Instruction *by = fusion;
        if (p->roles[element] == WHILE_UNCHANGED)
            by = loop->operands[0]->operands[element];
        else if (shape_is_tuple(fusion->shape)) {
            read->operands[0] = fusion;
            inst_set_int(read, ATTR_INDEX, result_of[element]);
            continue;
        }
        computation_replace_one(loop->parent, read, by);
        computation_remove(loop->parent, read);
    }
    computation_remove(loop->parent, loop);
}

static bool visit(Instruction *loop, PassContext *cx)
{
    WhilePlan p;
    if (while_plan(loop, cx->scratch, &p) != NULL)
        return false;
    Uses uses = uses_compute(loop->parent, cx->scratch);
    bool *is_result = ARENA_ARRAY(cx->scratch, bool, (size_t)p.count + 1);
    uint32_t *result_of = ARENA_ARRAY(cx->scratch, uint32_t, (size_t)p.count + 1);
    bool any = false;
    if (!find_results(&p, &uses, is_result))
        return false;
    for (uint32_t i = 0; i < p.count; i++)
        any |= is_result[i];
    if (!any)
        return false;
    Instruction *fusion = outline(loop, &p, is_result, result_of);
    forward_reads(loop, &p, &uses, fusion, result_of);
    cx->counts.element_whiles++;
    return true;
}

static bool visit_program(Computation *comp, PassContext *cx)
{
    uint32_t count = comp->instruction_count;
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst != NULL && inst->op == OP_WHILE)
            changed |= visit(inst, cx);
    }
    if (changed)
        computation_sort(comp);
    return changed;
}

bool pass_element_whiles(Module *m, PassContext *cx)
{
    return !m->config.is_scheduled && rewrite_programs(m, cx, visit_program);
}
