/* See sweep.h. */
#include "passes/collectives/combine/sweep.h"

#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/device_value.h"
#include "passes/settings.h"

static void count_uses(Sweep *s)
{
    s->count = s->comp->instruction_count;
    s->capacity = 0;
    s->uses = arena_grow(s->scratch, NULL, &s->capacity, s->count + 1, sizeof *s->uses);
    memset(s->uses, 0, (s->count + 1) * sizeof *s->uses);
    for (const Instruction *inst = inst_first(s->comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++)
            s->uses[inst->operands[k]->id]++;
        for (uint32_t k = 0; k < inst->control_count; k++)
            s->uses[inst->control[k]->id] += 2; /* waited for: not ours to remove */
    }
    s->uses[s->comp->root->id]++;
}

/* What stands for `inst` has its users, what else was made with it has one. */
static void hand_users_over(Sweep *s, const Instruction *inst, const Instruction *made)
{
    size_t count = s->comp->instruction_count;
    bool is_new = made->id >= s->count;
    s->uses = arena_grow(s->scratch, s->uses, &s->capacity, count, sizeof *s->uses);
    for (; s->count < count; s->count++)
        s->uses[s->count] = 1;
    s->uses[made->id] = s->uses[inst->id] + (is_new ? 0 : s->uses[made->id]);
}

bool sweep_is_used_once(const Sweep *s, const Instruction *inst)
{
    return s->uses[inst->id] == 1;
}

bool sweep_is_plain(const Instruction *inst)
{
    return inst->operand_count == 1 && shape_is_array(inst->shape) &&
           inst->shape->dynamic == NULL && inst->control_count == 0 &&
           !inst_bool(inst, ATTR_CONSTRAIN_LAYOUT) &&
           inst_frontend_attribute(inst, "_scheduling_group_id") == NULL;
}

bool sweep_reduces_in_its_type(const Instruction *inst)
{
    return inst_called(inst, 0)->root->shape->dtype == inst->operands[0]->shape->dtype;
}

int64_t sweep_own_dimension(Sweep *s, const Instruction *slice,
                            const Instruction *collective)
{
    const Shape *whole = slice->operands[0]->shape, *part = slice->shape;
    IntLists groups = collective_groups(s->scratch, collective);
    int64_t partitions = s->m->config.num_partitions, along = -1;
    if (!inst_has_scalar_starts(slice))
        return -1;
    for (uint32_t d = 0; d < whole->rank; d++) {
        if (whole->dims[d] == part->dims[d])
            continue; /* wherever it begins, it is moved to the start */
        if (along >= 0)
            return -1;
        along = d;
    }
    for (uint32_t g = 0; along >= 0 && g < groups.count; g++) {
        Ints ids = groups.data[g];
        if (part->dims[along] * ids.count != whole->dims[along])
            return -1;
        for (uint32_t i = 0; i < ids.count; i++) {
            int64_t at;
            if (!device_value(slice->operands[1 + along], s->loops,
                              ids.data[i] / partitions, ids.data[i] % partitions, &at) ||
                at != i * part->dims[along])
                return -1;
        }
    }
    return along;
}

static bool sweep(Sweep *s, SweepRule *rule, uint64_t *count)
{
    uint32_t n, before = s->comp->instruction_count;
    count_uses(s);
    Instruction **order = computation_post_order(s->comp, s->scratch, &n);
    Instruction **forward = ARENA_ARRAY(s->scratch, Instruction *, (size_t)before + 1);
    bool changed = false;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            Instruction *x = inst->operands[k];
            if (x->id < before && forward[x->id] != NULL)
                inst->operands[k] = forward[x->id];
        }
        forward[inst->id] = rule(s, inst);
        if (forward[inst->id] == NULL)
            continue;
        hand_users_over(s, inst, forward[inst->id]);
        changed = true;
        ++*count;
    }
    if (!changed)
        return false;
    computation_substitute(s->comp, forward, before);
    return true;
}

/* What the rules leave without users: collectives have no effect but their value, nor has what
 * stood between two that were merged. */
static bool is_left_over(const Instruction *inst)
{
    switch (inst->op) {
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_TRANSPOSE:
    case OP_COPY:
    case OP_PAD:
    case OP_CONVERT:
    case OP_DYNAMIC_SLICE:
        return true;
    case OP_SEND:
    case OP_RECV:
        return false;
    default:
        return op_is(inst->op, OPF_COLLECTIVE) &&
               !op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE);
    }
}

static void remove_unused(Sweep *s)
{
    uint32_t n;
    computation_sort(s->comp);
    count_uses(s);
    Instruction **order = computation_post_order(s->comp, s->scratch, &n);
    for (uint32_t i = n; i-- > 0;) {
        Instruction *inst = order[i];
        if (s->uses[inst->id] != 0 || !is_left_over(inst) || inst->control_count != 0)
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            s->uses[inst->operands[k]->id]--;
        computation_remove(s->comp, inst);
    }
    computation_sort(s->comp);
}

static bool has_collectives(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (op_is(inst->op, OPF_COLLECTIVE))
            return true;
    }
    return false;
}

bool sweep_collectives(Module *m, PassContext *cx, SweepRule *rule, uint64_t *count)
{
    if (!cx->settings->simplify_collectives)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    const Instruction *const *loops = device_value_loops(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        Computation *comp = programs.data[c];
        Sweep s = {.m = m,
                   .comp = comp,
                   .scratch = cx->scratch,
                   .settings = cx->settings,
                   .loops = loops};
        if (comp->is_async_wrapped || !has_collectives(comp) || !sweep(&s, rule, count))
            continue;
        remove_unused(&s);
        changed = true;
    }
    return changed;
}
