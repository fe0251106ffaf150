/* Pipelining of collectives forwards: what a step of a loop reduces and stores, the next step
 * reduces and stores, while it computes.
 *
 *   body (p) { x = f(p)  r = all-reduce(x)  b' = dynamic-update-slice(p#1, r, i)  ROOT (.., b') }
 *   ->  step 0 before the loop, without r and b'
 *       body (p) { r = all-reduce(p#x)  b' = dynamic-update-slice(p#1, r, p#i)  x = f(p)
 *                  ROOT (.., b', x, i) }
 *       after the loop:  b = dynamic-update-slice(w#1, all-reduce(w#x), w#i)
 *
 * The stores happen in the order that they had, so nothing is asked of the indices. What lies
 * between the collective and the store, the stage, only changes the form or is made element by
 * element; whatever it reads besides is carried to the next step, too. An opt-barrier in a stage
 * keeps the collective in its step; one around the buffer that is stored into does not matter,
 * it stays around it. Nobody else may look at the buffer.
 *
 * Needs, keeps, ends: pipeline.c. (Wang et al., ASPLOS 2023, do the same with loops over
 * layers.) */
#include <string.h>

#include "ir/analysis/collective.h"
#include "passes/collectives/loops/pipeline_stage.h"

typedef struct Forward {
    PipelineLoop *p;
    Stages stages;
    Instruction **carried; /* the values that the body hands on besides */
    uint32_t carried_count;
    uint32_t *position; /* by id: where it stands in `carried`, + 1 */
} Forward;

/* Cheaper to make again than to carry: constants and values spread out of one; elements that the
 * loop does not change. */
static bool is_made_again(const Forward *f, const Instruction *inst)
{
    if (inst->op == OP_BROADCAST)
        inst = inst->operands[0];
    if (inst->op == OP_CONSTANT)
        return true;
    int64_t element = loop_element(f->p->loop.body, inst);
    return element >= 0 && loop_is_invariant(&f->p->loop, (uint32_t)element);
}

/* What the next step needs of this one; false if that is more than may be carried. */
static bool carry_operands(Forward *f, const Stage *s)
{
    uint32_t first = f->carried_count;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->members[i];
        for (uint32_t k = inst == s->updates[0] ? 1 : 0; k < inst->operand_count; k++) {
            Instruction *x = inst->operands[k];
            if (f->stages.stage_of[x->id] == f->stages.count + 1 ||
                f->position[x->id] != 0 || is_made_again(f, x))
                continue;
            f->carried[f->carried_count++] = x;
            f->position[x->id] = f->carried_count;
            bytes += shape_bytes(x->shape);
        }
    }
    if (pipeline_take(f->p, bytes))
        return true;
    while (f->carried_count > first)
        f->position[f->carried[--f->carried_count]->id] = 0;
    return false;
}

/* -- the rewrite ------------------------------------------------------------------------------- */

/* Step 0, without the stages, and the loop from there on. */
static void peel_first(Forward *f)
{
    PipelineLoop *p = f->p;
    const Computation *body = p->loop.body;
    Instruction **made = pipeline_with_elements(p, p->loop.init->operands);
    if (p->induction.trips >= 0) /* a constant, for whoever looks at the loop next */
        made[body->root->operands[p->induction.index]->id] = computation_add_scalar(
            p->caller, p->loop.init->operands[p->induction.index]->shape->dtype,
            (double)(p->induction.init + p->induction.step));
    Instruction **list =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)body->instruction_count + 1);
    uint32_t n = 0;
    for (Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (inst != body->root && inst->op != OP_PARAMETER &&
            f->stages.stage_of[inst->id] == 0)
            list[n++] = inst;
    }
    StepCopy copy = {.from = body,
                     .to = p->caller,
                     .made = made,
                     .ids = p->ids,
                     .groups = STEP_GROUPS_RENUMBERED,
                     .step = 0};
    step_copy(&copy, list, n);
    for (uint32_t i = 0; i < f->stages.count; i++)
        made[f->stages.stages[i].updates[0]->id] =
            p->loop.init->operands[stage_element(f->stages.stages[i].updates[0])];
    Instruction **values =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->loop.count + 1);
    for (uint32_t i = 0; i < p->loop.count; i++)
        values[i] = made[body->root->operands[i]->id];
    for (uint32_t i = 0; i < f->carried_count; i++)
        f->carried[i] = made[f->carried[i]->id];
    pipeline_renew_loop(
        p, pipeline_longer_tuple(p, values, p->loop.count, f->carried, f->carried_count),
        1, p->trips - 1);
    step_order_before(&copy, list, n, p->loop.inst);
}

/* Behind the loop: what made_again gives there for an operand. */
static void make_operand(const Forward *f, StepCopy *copy, Instruction *x)
{
    if (copy->made[x->id] != NULL)
        return;
    int64_t element = loop_element(f->p->loop.body, x);
    if (f->position[x->id] != 0)
        copy->made[x->id] = computation_add_element(
            f->p->loop.inst, f->p->loop.count + f->position[x->id] - 1);
    else if (element >= 0)
        copy->made[x->id] = computation_add_element(f->p->loop.inst, (uint32_t)element);
    else if (x->op == OP_BROADCAST || x->op == OP_OPT_BARRIER) {
        make_operand(f, copy, x->operands[0]);
        step_copy(copy, &x, 1);
    } else
        step_copy(copy, &x, 1);
}

/* The stages once more, behind the loop. */
static void finish(Forward *f)
{
    PipelineLoop *p = f->p;
    Instruction **made = ARENA_ARRAY(p->scratch, Instruction *,
                                     (size_t)p->loop.body->instruction_count + 1);
    StepCopy copy = {.from = p->loop.body,
                     .to = p->caller,
                     .made = made,
                     .ids = p->ids,
                     .groups = STEP_GROUPS_DROPPED,
                     .step = p->trips - 1};
    p->values = ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->loop.count + 1);
    for (uint32_t i = 0; i < f->stages.count; i++) {
        const Stage *s = &f->stages.stages[i];
        for (uint32_t m = 0; m < s->count; m++) {
            for (uint32_t k = 0; k < s->members[m]->operand_count; k++) {
                Instruction *x = s->members[m]->operands[k];
                if (f->stages.stage_of[x->id] != i + 1)
                    make_operand(f, &copy, x);
            }
        }
        step_copy(&copy, s->members, s->count);
        collective_set_pipelined(made[s->collective->id]);
        p->values[stage_element(s->updates[0])] = made[s->updates[0]->id];
    }
    for (uint32_t i = 0; i < p->loop.count; i++) {
        if (p->values[i] == NULL)
            p->values[i] = computation_add_element(p->loop.inst, i);
    }
}

/* The stages read what the step before handed on. */
static void change_body(Forward *f, Instruction *const *carried)
{
    PipelineLoop *p = f->p;
    Computation *body = p->loop.body;
    Instruction **before =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)f->carried_count + 1);
    for (uint32_t i = 0; i < f->stages.count; i++) {
        const Stage *s = &f->stages.stages[i];
        collective_set_pipelined(s->collective);
        for (uint32_t m = 0; m < s->count; m++) {
            Instruction *inst = s->members[m];
            for (uint32_t k = inst == s->updates[0] ? 1 : 0; k < inst->operand_count;
                 k++) {
                uint32_t position = f->position[inst->operands[k]->id];
                if (position == 0 || f->stages.stage_of[inst->operands[k]->id] == i + 1)
                    continue;
                if (before[position - 1] == NULL)
                    before[position - 1] = computation_add_element(
                        body->parameters[0], p->loop.count + position - 1);
                inst->operands[k] = before[position - 1];
            }
        }
    }
    pipeline_extend_body(p, carried, f->carried_count);
    computation_sort(body);
}

bool pipeline_forward(PipelineLoop *p)
{
    const Computation *body = p->loop.body;
    uint32_t n = body->instruction_count;
    Forward f = {
        .p = p,
        .position = ARENA_ARRAY(p->scratch, uint32_t, (size_t)n + 1),
        .carried = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1),
    };
    stages_init(&f.stages, p, 1);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = body->instructions[i];
        Stage s;
        if ((inst->op != OP_ALL_REDUCE && inst->op != OP_REDUCE_SCATTER) ||
            !pipeline_is_candidate(p, inst, pipeline_mode(p->cx->settings, inst->op)) ||
            !stages_find(&f.stages, inst, &s))
            continue;
        if (carry_operands(&f, &s))
            stages_keep(&f.stages, &s);
        else
            stages_drop(&f.stages);
    }
    if (f.stages.count == 0)
        return false;
    p->cx->counts.collectives_pipelined_forward += f.stages.count;
    p->cx->counts.bytes_pipelined_forward += (uint64_t)p->bytes;
    Instruction **carried =
        arena_copy(p->scratch, f.carried, f.carried_count * sizeof *carried);
    peel_first(&f);
    finish(&f);
    change_body(&f, carried);
    return true;
}
