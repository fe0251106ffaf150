/* The collective pipeliner: moves collectives of a loop to the step before or behind, so that they
 * run beside the computation of a step that does not need them.
 *
 *   sink      what each step sends and stores is sent once, after the last
 *   forward   what a step reduces and stores, the next step reduces and stores
 *   backward  what a step gathers, the step before gathers
 *
 * The modes of a kind (settings): off, on, default - at -O2 -, explicit - those whose frontend
 * attribute is_pipelineable is "true". A loop qualifies if its trip count is known, at least 1,
 * and no one else has its computations; limits are on bytes that are carried besides and on
 * collectives moved in one loop. What was moved once carries is_pipelined and stays.
 *
 * Needs: plain collectives, trip counts. Keeps: values. Breaks: nothing; peeled steps leave
 * constant instructions behind. Ends: each loop is visited once by each kind. */
#include "passes/collectives/loops/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

int64_t pipeline_mode(const PassSettings *s, OpCode op)
{
    switch (op) {
    case OP_ALL_REDUCE:
        return s->pipeline_all_reduce;
    case OP_ALL_GATHER:
        return s->pipeline_all_gather;
    case OP_REDUCE_SCATTER:
        return s->pipeline_reduce_scatter;
    default:
        return MODE_OFF;
    }
}

bool pipeline_is_candidate(const PipelineLoop *p, const Instruction *inst, int64_t mode)
{
    if (mode == MODE_OFF || (mode == MODE_DEFAULT && p->cx->opt_level < 2) ||
        inst->operand_count != 1 || !shape_is_array(inst->shape) ||
        inst->control_count != 0 || p->has_successor[inst->id] ||
        collective_is_pipelined(inst))
        return false;
    const char *mark =
        mode == MODE_EXPLICIT ? inst_frontend_attribute(inst, "is_pipelineable") : "true";
    return mark != NULL && strcmp(mark, "true") == 0;
}

bool pipeline_take(PipelineLoop *p, int64_t bytes)
{
    const PassSettings *s = p->cx->settings;
    if (p->count >= s->pipeline_max_count || bytes > s->pipeline_max_bytes - p->bytes)
        return false;
    p->count++;
    p->bytes += bytes;
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = (*(Instruction *const *)a)->id, y = (*(Instruction *const *)b)->id;
    return (x > y) - (x < y);
}

void pipeline_sort_members(Instruction **members, uint32_t count)
{
    qsort(members, count, sizeof *members, compare_ids);
}

/* -- the parts of the rewrite ------------------------------------------------------------------ */

void pipeline_renew_loop(PipelineLoop *p, Instruction *init, int64_t first, int64_t trips)
{
    Instruction *old = p->loop.inst;
    Instruction *made = computation_add_like(p->caller, old, init->shape, 1, &init);
    inst_forget_shape_facts(made);
    if (p->induction.trips >= 0) {
        Induction v = p->induction;
        v.init += first * v.step;
        v.trips = trips;
        loop_set_induction(made, &v);
    } else {
        loop_set_known_trip_count(made, trips);
    }
    Computation *both[2] = {p->loop.condition, p->loop.body};
    for (int i = 0; i < 2; i++) {
        both[i]->parameters[0]->shape = init->shape;
        inst_forget_shape_facts(both[i]->parameters[0]);
    }
    step_set_validation(p->loop.body->instructions, p->loop.body->instruction_count,
                        first, 1, trips);
    p->loop.inst = made;
}

Instruction *pipeline_longer_tuple(PipelineLoop *p, Instruction *const *values,
                                   uint32_t count, Instruction *const *added,
                                   uint32_t added_count)
{
    uint32_t n = count + added_count;
    Instruction **all = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1);
    const Shape **shapes = ARENA_ARRAY(p->scratch, const Shape *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = i < count ? values[i] : added[i - count];
        shapes[i] = i < count ? p->loop.inst->shape->elements[i] : all[i]->shape;
    }
    return computation_add(all[0]->parent, OP_TUPLE, shape_tuple(p->m->intern, n, shapes),
                           n, all, NULL);
}

void pipeline_extend_body(PipelineLoop *p, Instruction *const *added, uint32_t count)
{
    Instruction *root = p->loop.body->root;
    p->loop.body->root =
        pipeline_longer_tuple(p, root->operands, root->operand_count, added, count);
    p->loop.body->root->span = root->span;
    computation_remove(p->loop.body, root);
}

Instruction **pipeline_with_elements(PipelineLoop *p, Instruction *const *values)
{
    const Computation *body = p->loop.body;
    Instruction **made =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)body->instruction_count + 1);
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        int64_t element = loop_element(body, inst);
        if (element >= 0)
            made[inst->id] = values[element];
    }
    return made;
}

/* -- loops ------------------------------------------------------------------------------------- */

static void count_readers(PipelineLoop *p)
{
    const Computation *body = p->loop.body, *condition = p->loop.condition;
    p->has_successor = ARENA_ARRAY(p->scratch, bool, (size_t)body->instruction_count + 1);
    p->element_uses = ARENA_ARRAY(p->scratch, uint32_t, (size_t)p->loop.count + 1);
    p->is_tested = ARENA_ARRAY(p->scratch, bool, (size_t)p->loop.count + 1);
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++)
            p->has_successor[inst->control[k]->id] = true;
        int64_t element = loop_element(body, inst);
        if (element >= 0)
            p->element_uses[element] +=
                p->uses.start[inst->id + 1] - p->uses.start[inst->id];
    }
    for (const Instruction *inst = inst_first(condition); inst; inst = inst_next(inst)) {
        int64_t element = loop_element(condition, inst);
        if (element >= 0)
            p->is_tested[element] = true;
    }
}

static bool has_candidates(const Computation *body)
{
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if ((inst->op == OP_ALL_REDUCE || inst->op == OP_ALL_GATHER ||
             inst->op == OP_REDUCE_SCATTER) &&
            !collective_is_pipelined(inst))
            return true;
    }
    return false;
}

static bool visit_loop(PipelineLoop *p, const Effects *effects, PipelineFn *kind)
{
    if (!loop_induction(&p->loop, &p->induction))
        p->induction = (Induction){.trips = -1};
    p->trips = p->induction.trips >= 0 ? p->induction.trips
                                       : loop_known_trip_count(p->loop.inst);
    if (p->trips < 1 || effects->of[p->loop.condition->id] ||
        !step_may_copy(p->loop.body, effects->of, effects->count))
        return false;
    computation_sort(p->loop.body);
    computation_sort(p->loop.condition);
    p->uses = uses_compute(p->loop.body, p->scratch);
    count_readers(p);
    return kind(p);
}

static bool visit_computation(Computation *comp, PassContext *cx, FreshIds *ids,
                              const Effects *effects, const uint32_t *calls,
                              PipelineFn *kind)
{
    uint32_t count = comp->instruction_count;
    Instruction ***values = NULL;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        PipelineLoop p = {.m = comp->module,
                          .cx = cx,
                          .scratch = cx->scratch,
                          .ids = ids,
                          .caller = comp};
        if (inst == NULL || inst->op != OP_WHILE || !loop_analyse(inst, &p.loop) ||
            p.loop.body->id >= effects->count || calls[p.loop.body->id] != 1 ||
            calls[p.loop.condition->id] != 1 || !has_candidates(p.loop.body) ||
            !visit_loop(&p, effects, kind))
            continue;
        if (values == NULL)
            values = ARENA_ARRAY(cx->scratch, Instruction **, (size_t)count + 1);
        values[i] = p.values;
    }
    if (values != NULL)
        step_replace_loops(comp, values, count, cx->scratch);
    return values != NULL;
}

bool pass_collective_pipeliner(Module *m, PassContext *cx)
{
    static PipelineFn *const kinds[] = {pipeline_sink, pipeline_forward,
                                        pipeline_backward};
    if (m->config.is_scheduled)
        return false;
    FreshIds ids = fresh_ids(m);
    bool changed = false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const uint32_t *calls = module_call_counts(m, cx->scratch);
        const Effects *effects = simplify_effects(m, cx->scratch);
        bool here = false;
        for (Computation *comp = comp_first(m); comp && comp->id < effects->count;
             comp = comp_next(comp))
            here |= visit_computation(comp, cx, &ids, effects, calls, kinds[k]);
        if (here)
            module_sort(m);
        changed |= here;
    }
    if (changed)
        pass_dce(m,
                 cx); /* chains that moved, results of peeled steps that nobody wants */
    return changed;
}
