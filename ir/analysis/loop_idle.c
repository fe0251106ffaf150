/* See loop_idle.h. Of each body what is needed is marked from those that do more than make a number, and from
 * the elements that are read behind the loop; the rest is idle. */
#include "ir/analysis/loop_idle.h"

#include "ir/analysis/loop.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"

struct LoopIdle {
    const bool **bodies; /* [computation id][instruction id]; NULL: nothing is idle */
    uint32_t count;
};

/* One loop that is looked at. */
typedef struct Marking {
    const LoopSlices *slices;
    const Computation *body;
    bool *is_needed;   /* [instruction id] */
    bool *is_read;     /* [element] of the tuple */
    uint32_t elements; /* of the tuple */
    const Instruction **work;
    uint32_t work_count;
} Marking;

/* The kernel of one number, without effects. */
static bool makes_number(const Instruction *inst)
{
    return inst->op == OP_FUSION && shape_is_array(inst->shape) &&
           shape_elements(inst->shape) == 1 && !library_makes(inst) &&
           fusion_hero(inst, OP_RNG_GET_AND_UPDATE_STATE) == NULL;
}

/* Is needed only if somebody needs what it gives. */
static bool may_be_idle(const Instruction *inst)
{
    return makes_number(inst) || inst->op == OP_PARAMETER || inst->op == OP_BITCAST ||
           inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_TUPLE;
}

static void need(Marking *m, const Instruction *inst)
{
    if (m->is_needed[inst->id])
        return;
    m->is_needed[inst->id] = true;
    m->work[m->work_count++] = inst;
}

static void need_element(Marking *m, uint32_t element)
{
    if (m->is_read[element])
        return;
    m->is_read[element] = true;
    need(m, m->body->root->operands[element]);
}

/* A library finds such a slice by the round, not by the body's numbers. */
static bool reads_for_position(const Marking *m, const Instruction *inst,
                               uint32_t operand)
{
    return loop_slice_of(m->slices, inst) != NULL &&
           shape_elements(inst->operands[operand]->shape) == 1;
}

static void follow(Marking *m, const Instruction *inst)
{
    bool is_element =
        inst->op == OP_GET_TUPLE_ELEMENT && inst->operands[0] == m->body->parameters[0];
    if (is_element) {
        need_element(m, (uint32_t)inst_int(inst, ATTR_INDEX, 0));
        return;
    }
    for (uint32_t e = 0; inst->op == OP_PARAMETER && e < m->elements; e++)
        need_element(m, e); /* as a whole */
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!reads_for_position(m, inst, i))
            need(m, inst->operands[i]);
    }
}

static void mark_read_behind(Marking *m, const Instruction *loop)
{
    const Computation *comp = loop->parent;
    bool as_whole = comp->root == loop;
    for (const Instruction *user = inst_first(comp); user; user = inst_next(user)) {
        for (uint32_t i = 0; i < user->operand_count; i++) {
            if (user->operands[i] != loop)
                continue;
            if (user->op == OP_GET_TUPLE_ELEMENT)
                need_element(m, (uint32_t)inst_int(user, ATTR_INDEX, 0));
            else
                as_whole = true;
        }
    }
    for (uint32_t e = 0; as_whole && e < m->elements; e++)
        need_element(m, e);
}

static bool has_number(const Computation *body)
{
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (makes_number(inst))
            return true;
    }
    return false;
}

/* By instruction; NULL: nothing is idle. */
static const bool *find_idle(const Instruction *loop, const LoopSlices *slices, Arena *a)
{
    const Computation *body = inst_called(loop, 1);
    if (loop_known_trip_count(loop) < 0 || body->root->op != OP_TUPLE ||
        !has_number(body))
        return NULL;
    uint32_t count = body->instruction_count;
    Marking m = {.slices = slices,
                 .body = body,
                 .is_needed = ARENA_ARRAY(a, bool, count + 1u),
                 .is_read = ARENA_ARRAY(a, bool, body->root->operand_count + 1u),
                 .elements = body->root->operand_count,
                 .work = ARENA_ARRAY(a, const Instruction *, count + 1u)};
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (!may_be_idle(inst))
            need(&m, inst);
    }
    mark_read_behind(&m, loop);
    while (m.work_count > 0)
        follow(&m, m.work[--m.work_count]);
    bool *is_idle = ARENA_ARRAY(a, bool, count + 1u);
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst))
        is_idle[inst->id] = makes_number(inst) && !m.is_needed[inst->id];
    return is_idle;
}

const LoopIdle *loop_idle_create(const Module *m, const LoopSlices *slices, Arena *a)
{
    LoopIdle *idle = ARENA_NEW(a, LoopIdle);
    idle->count = m->computation_count;
    idle->bodies = ARENA_ARRAY(a, const bool *, idle->count + 1u);
    Computations programs = module_programs(m, a);
    const uint32_t *callers = module_call_counts(m, a);
    for (uint32_t c = 0; c < programs.count; c++) {
        for (const Instruction *inst = inst_first(programs.data[c]); inst;
             inst = inst_next(inst)) {
            if (inst->op == OP_WHILE && callers[inst_called(inst, 1)->id] == 1)
                idle->bodies[inst_called(inst, 1)->id] = find_idle(inst, slices, a);
        }
    }
    return idle;
}

bool loop_idle_has(const LoopIdle *idle, const Instruction *inst)
{
    uint32_t comp = inst->parent->id;
    return comp < idle->count && idle->bodies[comp] != NULL &&
           idle->bodies[comp][inst->id];
}
