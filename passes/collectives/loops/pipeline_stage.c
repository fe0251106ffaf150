/* See pipeline_stage.h. */
#include "passes/collectives/loops/pipeline_stage.h"

#include "ir/analysis/loop.h"

enum { SMALL_ELEMENTS = 1024 }; /* a collective of fewer may be reduced behind */

void stages_init(Stages *f, PipelineLoop *p, uint32_t updates_most)
{
    const Computation *body = p->loop.body;
    uint32_t candidates = 0;
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst))
        candidates += op_is(inst->op, OPF_COLLECTIVE);
    *f = (Stages){
        .p = p,
        .updates_most = updates_most,
        .stage_of =
            ARENA_ARRAY(p->scratch, uint32_t, (size_t)body->instruction_count + 1),
        .stages = ARENA_ARRAY(p->scratch, Stage, (size_t)candidates + 1),
    };
}

uint32_t stage_element(const Instruction *update)
{
    const Instruction *base = update->operands[0];
    return (uint32_t)inst_int(base->op == OP_OPT_BARRIER ? base->operands[0] : base,
                              ATTR_INDEX, 0);
}

bool stage_is_update(const Stage *s, const Instruction *inst)
{
    bool is = false;
    for (uint32_t i = 0; i < s->update_count && !is; i++)
        is = s->updates[i] == inst;
    return is;
}

static bool is_reduction_of(const Instruction *inst, const Instruction *collective)
{
    int64_t elements = shape_elements(collective->operands[0]->shape);
    return shape_is_array(inst->shape) &&
           (shape_elements(inst->shape) == elements || elements < SMALL_ELEMENTS);
}

static bool may_follow(const Instruction *inst, const Instruction *collective)
{
    if (inst->control_count != 0)
        return false;
    switch (inst->op) {
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_PAD:
    case OP_COLLECTIVE_PERMUTE:
    case OP_CONVERT:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_ALL_GATHER:
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER:
    case OP_CONCATENATE:
    case OP_GET_TUPLE_ELEMENT:
        return true;
    case OP_CUSTOM_CALL:
        return !inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT);
    case OP_REDUCE:
        return is_reduction_of(inst, collective);
    default:
        return op_is(inst->op, OPF_ELEMENTWISE);
    }
}

/* An update of what an element of the loop holds, seen by nobody but the next step: a store of a
 * stage. */
static bool is_last_store(const Stages *f, const Instruction *update)
{
    const PipelineLoop *p = f->p;
    const Uses *uses = &p->uses;
    if (update->control_count != 0 ||
        uses->start[update->id + 1] - uses->start[update->id] != 1 ||
        uses->list[uses->start[update->id]] != p->loop.body->root)
        return false;
    const Instruction *base = update->operands[0];
    if (base->op == OP_OPT_BARRIER && shape_is_array(base->shape) &&
        base->control_count == 0 &&
        uses->start[base->id + 1] - uses->start[base->id] == 1)
        base = base->operands[0];
    int64_t element = loop_element(p->loop.body, base);
    return element >= 0 && p->loop.body->root->operands[element] == update &&
           p->element_uses[element] == 1 && !p->is_tested[element];
}

static bool add_member(Stages *f, Instruction *inst)
{
    if (f->found_count == STAGE_MEMBERS_MOST || f->p->has_successor[inst->id])
        return false;
    f->stage_of[inst->id] = f->count + 1;
    f->found[f->found_count++] = inst;
    return true;
}

/* A user of a member: false if the stage cannot move because of it. */
static bool follow(Stages *f, Stage *s, const Instruction *member, Instruction *user)
{
    bool stores = user->op == OP_DYNAMIC_UPDATE_SLICE;
    for (uint32_t k = 0; stores && k < user->operand_count; k++) {
        if (k != 1 && user->operands[k] == member)
            return false;
    }
    if (f->stage_of[user->id] == f->count + 1)
        return true;
    if (f->stage_of[user->id] != 0)
        return false;
    if (!stores)
        return user != f->p->loop.body->root && may_follow(user, s->collective) &&
               add_member(f, user);
    if (s->update_count == f->updates_most || !is_last_store(f, user))
        return false;
    s->updates[s->update_count++] = user;
    return add_member(f, user);
}

static bool grow_stage(Stages *f, Stage *s)
{
    const Uses *uses = &f->p->uses;
    if (!add_member(f, s->collective))
        return false;
    for (uint32_t next = 0; next < f->found_count; next++) {
        Instruction *member = f->found[next];
        if (stage_is_update(s, member))
            continue;
        if (uses->start[member->id] == uses->start[member->id + 1])
            return false;
        for (uint32_t u = uses->start[member->id]; u < uses->start[member->id + 1]; u++) {
            if (!follow(f, s, member, uses->list[u]))
                return false;
        }
    }
    return s->update_count != 0;
}

bool stages_find(Stages *f, Instruction *collective, Stage *out)
{
    Arena *scratch = f->p->scratch;
    *out = (Stage){.collective = collective};
    f->found_count = 0;
    if (f->stage_of[collective->id] != 0)
        return false;
    out->updates = ARENA_ARRAY(scratch, Instruction *, (size_t)f->updates_most + 1);
    if (!grow_stage(f, out)) {
        stages_drop(f);
        return false;
    }
    out->count = f->found_count;
    out->members = arena_copy(scratch, f->found, out->count * sizeof *out->members);
    pipeline_sort_members(out->members, out->count);
    return true;
}

void stages_keep(Stages *f, const Stage *s)
{
    f->stages[f->count++] = *s;
}

void stages_drop(Stages *f)
{
    for (uint32_t i = 0; i < f->found_count; i++) {
        if (f->stage_of[f->found[i]->id] == f->count + 1)
            f->stage_of[f->found[i]->id] = 0;
    }
    f->found_count = 0;
}
