/* Sinking of collectives behind their loop: what each step sends and stores is stored first, and sent
 * at once after the last step, with one dimension more.
 *
 *   while n: body (p) { x = f(p)  r = all-reduce(x)  b' = dynamic-update-slice(p#1, r, i) }
 *   ->  while n: body (p) { x = f(p)  x' = dynamic-update-slice(p#x, x, i) }
 *       b = all-reduce(w#x)                                       of n times the size
 *
 * The counter runs from 0 by 1 and each store is one row of as many as there are steps: together
 * they are the whole result, whatever it held before. A stage, which may store several times, may
 * hold what means the same with a first dimension more: element-wise operations, changes of form,
 * and collectives. What else it reads is constant, unchanged by the loop, or kept step by step, too.
 *
 * Needs, keeps, ends: pipeline.c. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "passes/collectives/loops/pipeline_stage.h"
#include "passes/settings.h"

enum { UPDATES_MOST = 16 };

typedef struct Sink {
    PipelineLoop *p;
    Stages stages;
    Instruction **kept; /* the values of each step */
    uint32_t kept_count;
    uint32_t *position; /* by id: where it stands in `kept`, + 1 */
} Sink;

static bool is_zero(const Instruction *inst)
{
    return inst_is_constant_scalar(inst, 0);
}

/* Row i of n rows, all of it. */
static bool stores_row(const PipelineLoop *p, const Instruction *update)
{
    const Shape *all = update->shape, *row = update->operands[1]->shape;
    if (update->operands[0]->op == OP_OPT_BARRIER || all->rank == 0 ||
        !inst_has_scalar_starts(update) || all->dims[0] != p->trips ||
        row->dims[0] != 1 ||
        loop_element(p->loop.body, update->operands[2]) != p->induction.index)
        return false;
    bool whole = true;
    for (uint32_t i = 1; i < all->rank; i++)
        whole = whole && row->dims[i] == all->dims[i] && is_zero(update->operands[2 + i]);
    return whole;
}

static bool same_dims(const Shape *a, const Shape *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* It means the same with a first dimension more. */
static bool may_sink(const Instruction *inst)
{
    if (!shape_is_array(inst->shape) || inst->shape->dynamic != NULL)
        return false;
    switch (inst->op) {
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_SLICE:
        return true;
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_COLLECTIVE_PERMUTE:
        return inst->operand_count == 1 && !inst_has(inst, ATTR_CONSTRAIN_LAYOUT);
    default:
        break;
    }
    bool same = op_is(inst->op, OPF_ELEMENTWISE);
    for (uint32_t k = 0; k < inst->operand_count; k++)
        same = same && same_dims(inst->operands[k]->shape, inst->shape);
    return same;
}

static bool is_sinkable(const PipelineLoop *p, const Stage *s)
{
    bool may = true;
    for (uint32_t i = 0; may && i < s->count; i++) {
        const Instruction *inst = s->members[i];
        may = stage_is_update(s, inst) ? stores_row(p, inst) : may_sink(inst);
    }
    return may;
}

static bool is_constant_in_loop(const PipelineLoop *p, const Instruction *inst)
{
    int64_t element = loop_element(p->loop.body, inst);
    return inst->op == OP_CONSTANT ||
           (element >= 0 && loop_is_invariant(&p->loop, (uint32_t)element));
}

/* What of each step the stage reads. */
static bool keep_operands(Sink *f, const Stage *s)
{
    uint32_t first = f->kept_count;
    int64_t bytes = 0;
    bool may = true;
    for (uint32_t i = 0; may && i < s->count; i++) {
        const Instruction *inst = s->members[i];
        bool stores = stage_is_update(s, inst);
        for (uint32_t k = stores ? 1 : 0; k < (stores ? 2 : inst->operand_count); k++) {
            Instruction *x = inst->operands[k];
            if (f->stages.stage_of[x->id] == f->stages.count + 1 ||
                f->position[x->id] != 0 || is_constant_in_loop(f->p, x))
                continue;
            may = may && shape_is_array(x->shape) && x->shape->dynamic == NULL;
            f->kept[f->kept_count++] = x;
            f->position[x->id] = f->kept_count;
            bytes += may ? shape_bytes(x->shape) * f->p->trips : 0;
        }
    }
    if (may && pipeline_take(f->p, bytes))
        return true;
    while (f->kept_count > first)
        f->position[f->kept[--f->kept_count]->id] = 0;
    return false;
}

/* -- the rewrite ------------------------------------------------------------------------------- */

/* [n, dims] */
static const Shape *with_steps(const PipelineLoop *p, const Shape *s, int64_t n)
{
    int64_t *dims = ARENA_ARRAY(p->scratch, int64_t, (size_t)s->rank + 1);
    dims[0] = n;
    if (s->rank != 0)
        memcpy(dims + 1, s->dims, s->rank * sizeof *dims);
    return shape_array(p->m->intern, s->dtype, s->rank + 1, dims, NULL, NULL);
}

/* `count` numbers: 0 if `leads`, then those of the list + 1. */
static void set_shifted(const PipelineLoop *p, Instruction *inst, AttrId id, Ints list,
                        bool leads)
{
    int64_t *moved = ARENA_ARRAY(p->m->arena, int64_t, (size_t)list.count + 1);
    for (uint32_t i = 0; i < list.count; i++)
        moved[leads + i] = list.data[i] + 1;
    inst_set_ints(inst, id, moved, list.count + leads);
}

/* x for each step: n times the same. */
static Instruction *spread_steps(const PipelineLoop *p, Instruction *x)
{
    Instruction *all = computation_add(x->parent, OP_BROADCAST,
                                       with_steps(p, x->shape, p->trips), 1, &x, NULL);
    int64_t *dims = ARENA_ARRAY(p->scratch, int64_t, (size_t)x->shape->rank + 1);
    for (uint32_t i = 0; i < x->shape->rank; i++)
        dims[i] = i + 1;
    inst_set_ints(all, ATTR_DIMENSIONS, dims, x->shape->rank);
    return all;
}

static void slice_all_steps(const PipelineLoop *p, Instruction *inst, const SliceSpec *of)
{
    SliceDim *dims = ARENA_ARRAY(p->m->arena, SliceDim, (size_t)of->rank + 1);
    dims[0] = (SliceDim){0, p->trips, 1};
    if (of->rank != 0)
        memcpy(dims + 1, of->dims, of->rank * sizeof *dims);
    inst_set_slice(inst, dims, of->rank + 1);
}

/* A member for all steps at once. */
static Instruction *add_for_all(Sink *f, const Instruction *from,
                                Instruction *const *operands)
{
    PipelineLoop *p = f->p;
    Instruction *to =
        computation_add_like(p->caller, from, with_steps(p, from->shape, p->trips),
                             from->operand_count, operands);
    inst_set_frontend_attribute(to, "_scheduling_group_id", NULL);
    switch (from->op) {
    case OP_TRANSPOSE:
    case OP_BROADCAST: {
        Ints dims = inst_ints(from, ATTR_DIMENSIONS);
        set_shifted(p, to, ATTR_DIMENSIONS, dims, true);
        break;
    }
    case OP_SLICE:
        slice_all_steps(p, to, inst_attr(from, ATTR_SLICE)->slice);
        break;
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
        set_shifted(p, to, ATTR_DIMENSIONS, inst_ints(from, ATTR_DIMENSIONS), false);
        break;
    default:
        break;
    }
    if (op_is(from->op, OPF_COLLECTIVE) && inst_has(from, ATTR_CHANNEL_ID))
        inst_set_int(to, ATTR_CHANNEL_ID, p->ids->channel++);
    return to;
}

/* An operand from outside the stage, for all steps. */
static Instruction *operand_for_all(Sink *f, Instruction *x)
{
    PipelineLoop *p = f->p;
    if (f->position[x->id] != 0)
        return computation_add_element(p->loop.inst,
                                       p->loop.count + f->position[x->id] - 1);
    int64_t element = loop_element(p->loop.body, x);
    return spread_steps(p, element >= 0
                               ? computation_add_element(p->loop.inst, (uint32_t)element)
                               : computation_add_constant(p->caller, x->literal, NULL));
}

static void finish_stage(Sink *f, uint32_t number, Instruction **made)
{
    PipelineLoop *p = f->p;
    const Stage *s = &f->stages.stages[number];
    for (uint32_t i = 0; i < s->count; i++) {
        const Instruction *inst = s->members[i];
        bool stores = stage_is_update(s, inst);
        Instruction **operands =
            ARENA_ARRAY(p->scratch, Instruction *, (size_t)inst->operand_count + 1);
        for (uint32_t k = stores ? 1 : 0; k < (stores ? 2 : inst->operand_count); k++) {
            Instruction *x = inst->operands[k];
            if (made[x->id] == NULL)
                made[x->id] = operand_for_all(f, x);
            operands[k] = made[x->id];
        }
        if (stores)
            p->values[stage_element(inst)] = computation_add(
                p->caller, OP_RESHAPE, inst->shape, 1, &operands[1], NULL);
        else
            made[inst->id] = add_for_all(f, inst, operands);
    }
    collective_set_pipelined(made[s->collective->id]);
}

/* The loop with a buffer for each kept value; those that the stages stored into stay as they were. */
static void renew_loop(Sink *f)
{
    PipelineLoop *p = f->p;
    Instruction **buffers =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)f->kept_count + 1);
    for (uint32_t i = 0; i < f->kept_count; i++) {
        const Shape *s = f->kept[i]->shape;
        Instruction *zero = computation_add_scalar(p->caller, s->dtype, 0);
        buffers[i] = computation_add(p->caller, OP_BROADCAST, with_steps(p, s, p->trips),
                                     1, &zero, NULL);
        inst_set_ints(buffers[i], ATTR_DIMENSIONS, NULL, 0);
    }
    pipeline_renew_loop(p,
                        pipeline_longer_tuple(p, p->loop.init->operands, p->loop.count,
                                              buffers, f->kept_count),
                        0, p->trips);
}

/* Instead of the stages the body stores what they read. */
static void change_body(Sink *f)
{
    PipelineLoop *p = f->p;
    Computation *body = p->loop.body;
    Instruction *counter =
        computation_add_element(body->parameters[0], p->induction.index);
    Instruction *zero = computation_add_scalar(body, counter->shape->dtype, 0);
    for (uint32_t i = 0; i < f->stages.count; i++) {
        for (uint32_t u = 0; u < f->stages.stages[i].update_count; u++) {
            Instruction *update = f->stages.stages[i].updates[u];
            body->root->operands[stage_element(update)] = update->operands[0];
        }
    }
    for (uint32_t i = 0; i < f->kept_count; i++) {
        Instruction *x = f->kept[i];
        Instruction *base =
            computation_add_element(body->parameters[0], p->loop.count + i);
        uint32_t rank = base->shape->rank;
        Instruction **operands = ARENA_ARRAY(p->scratch, Instruction *, (size_t)rank + 2);
        operands[0] = base;
        operands[1] =
            computation_add(body, OP_RESHAPE, with_steps(p, x->shape, 1), 1, &x, NULL);
        for (uint32_t k = 0; k < rank; k++)
            operands[2 + k] = k == 0 ? counter : zero;
        f->kept[i] = computation_add(body, OP_DYNAMIC_UPDATE_SLICE, base->shape, rank + 2,
                                     operands, NULL);
    }
    pipeline_extend_body(p, f->kept, f->kept_count);
    computation_sort(body);
}

bool pipeline_sink(PipelineLoop *p)
{
    const Computation *body = p->loop.body;
    uint32_t n = body->instruction_count;
    int64_t mode = p->cx->settings->pipeline_sink;
    if (mode == MODE_OFF || p->induction.trips < 1 || p->induction.init != 0 ||
        p->induction.step != 1)
        return false;
    Sink f = {
        .p = p,
        .position = ARENA_ARRAY(p->scratch, uint32_t, (size_t)n + 1),
        .kept = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1),
    };
    stages_init(&f.stages, p, UPDATES_MOST);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = body->instructions[i];
        Stage s;
        if ((inst->op != OP_ALL_REDUCE && inst->op != OP_REDUCE_SCATTER &&
             inst->op != OP_ALL_GATHER) ||
            !pipeline_is_candidate(p, inst, mode) || !stages_find(&f.stages, inst, &s))
            continue;
        if (is_sinkable(p, &s) && keep_operands(&f, &s))
            stages_keep(&f.stages, &s);
        else
            stages_drop(&f.stages);
    }
    if (f.stages.count == 0)
        return false;
    p->cx->counts.collectives_sunk += f.stages.count;
    p->cx->counts.bytes_sunk += (uint64_t)p->bytes;
    renew_loop(&f);
    p->values = ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->loop.count + 1);
    Instruction **made = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < f.stages.count; i++)
        finish_stage(&f, i, made);
    for (uint32_t i = 0; i < p->loop.count; i++) {
        if (p->values[i] == NULL)
            p->values[i] = computation_add_element(p->loop.inst, i);
    }
    change_body(&f);
    return true;
}
