/* collective-merges: one collective of two.
 *
 *   f(collective(x), collective(y))          -> collective(f(x, y))      reassociate.c
 *   all-reduce(all-reduce(x, G), H)          -> all-reduce(x, G x H)     no device twice
 *   dynamic-slice(all-reduce(x), own part)   -> reduce-scatter(x)
 *
 * What is replaced has one user and no control edges, keeps no layout and is in no scheduling
 * group; both have the same keys (collective_group_key and its like).
 *
 * Needs: nothing. Keeps: values, up to the order of additions; names and attributes. Ends: each
 * rule leaves fewer collectives, or smaller ones; one sweep, operands first. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/replica_groups.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/combine/merges.h"

bool merges_same_group(const Sweep *s, const Instruction *a, const Instruction *b)
{
    return collective_mode(a) == collective_mode(b) && collective_same_keys(a, b) &&
           collective_groups_equal(collective_groups(s->scratch, a),
                                   collective_groups(s->scratch, b));
}

/* The devices of the group of G that device `id` is in, added to `out`. False: one comes twice. */
static bool add_group_of(IntLists groups, int64_t id, bool *in, int64_t *out,
                         uint32_t *count)
{
    for (uint32_t g = 0; g < groups.count; g++) {
        bool here = false;
        for (uint32_t i = 0; i < groups.data[g].count; i++)
            here |= groups.data[g].data[i] == id;
        for (uint32_t i = 0; here && i < groups.data[g].count; i++) {
            int64_t member = groups.data[g].data[i];
            if (in[member])
                return false;
            in[member] = true;
            out[(*count)++] = member;
        }
        if (here)
            return true;
    }
    return false;
}

/* Whose values each group of the outer all-reduce adds up, if the members of what is added up
 * are just those that get the sum. */
static bool compose(Sweep *s, IntLists inner, IntLists outer, uint32_t devices,
                    IntLists *out)
{
    Ints *made = ARENA_ARRAY(s->m->arena, Ints, (size_t)devices + 1);
    bool *done = ARENA_ARRAY(s->scratch, bool, (size_t)devices + 1);
    uint32_t groups = 0;
    for (uint32_t g = 0; g < outer.count; g++) {
        int64_t *ids = ARENA_ARRAY(s->m->arena, int64_t, (size_t)devices + 1);
        bool *in = ARENA_ARRAY(s->scratch, bool, (size_t)devices + 1);
        uint32_t n = 0;
        for (uint32_t i = 0; i < outer.data[g].count; i++) {
            if (!add_group_of(inner, outer.data[g].data[i], in, ids, &n))
                return false;
        }
        n = 0;
        for (uint32_t d = 0; d < devices; d++) {
            if (in[d])
                ids[n++] = d;
        }
        uint32_t k = 0;
        while (k < groups &&
               (made[k].count != n || memcmp(made[k].data, ids, n * sizeof *ids) != 0))
            k++;
        if (k < groups)
            continue; /* the sum that another group has, too */
        for (uint32_t i = 0; i < n; i++) {
            if (done[ids[i]])
                return false;
            done[ids[i]] = true;
        }
        made[groups++] = (Ints){ids, n};
    }
    *out = (IntLists){made, groups};
    return true;
}

/* all-reduce(all-reduce(x)) over rows, then columns -> one over all */
static Instruction *fold_reduces(Sweep *s, Instruction *inst)
{
    Instruction *inner = inst->op == OP_ALL_REDUCE ? inst->operands[0] : NULL;
    const ModuleConfig *c = &s->m->config;
    const Attr *own = inst_attr(inst, ATTR_REPLICA_GROUPS);
    if (inner == NULL || inner->op != OP_ALL_REDUCE || !sweep_is_plain(inst) ||
        !sweep_is_plain(inner) || !sweep_is_used_once(s, inner) || own == NULL ||
        !inst_has(inner, ATTR_REPLICA_GROUPS) ||
        collective_mode(inst) != collective_mode(inner) ||
        !collective_same_keys(inst, inner) || !sweep_reduces_in_its_type(inst) ||
        !sweep_reduces_in_its_type(inner) ||
        collective_reduction(inst_called(inst, 0)) == OP_COUNT ||
        collective_reduction(inst_called(inst, 0)) !=
            collective_reduction(inst_called(inner, 0)))
        return NULL;
    bool by_device =
        collective_mode(inst) == COLLECTIVE_FLATTENED_ID ||
        (collective_mode(inst) == COLLECTIVE_CROSS_REPLICA && c->num_partitions == 1);
    int64_t devices = c->replica_count * c->num_partitions;
    IntLists outer = collective_groups(s->scratch, inst), made;
    if (!by_device || devices > 4096 ||
        collective_last_id(s->scratch, inst) >= devices || /* the header may not say */
        collective_last_id(s->scratch, inner) >= devices ||
        !compose(s, collective_groups(s->scratch, inner), outer, (uint32_t)devices,
                 &made))
        return NULL;
    Instruction *all =
        computation_add_like(s->comp, inst, inst->shape, 1, &inner->operands[0]);
    ReplicaGroups *groups = ARENA_NEW(s->m->arena, ReplicaGroups);
    *groups = (ReplicaGroups){.form = GROUPS_LISTS, .lists = made};
    inst_set(all, (Attr){.id = ATTR_REPLICA_GROUPS, .groups = groups});
    Instruction *members[2] = {inst, inner};
    merge_attributes(all, members, 2);
    return all;
}

/* dynamic-slice(all-reduce(x), own part) -> reduce-scatter(x) */
static Instruction *scatter_sum(Sweep *s, Instruction *inst)
{
    Instruction *sum = inst->op == OP_DYNAMIC_SLICE ? inst->operands[0] : NULL;
    if (sum == NULL || sum->op != OP_ALL_REDUCE || !sweep_is_plain(sum) ||
        !sweep_is_used_once(s, sum) || inst->control_count != 0)
        return NULL;
    int64_t along = sweep_own_dimension(s, inst, sum);
    if (along < 0)
        return NULL;
    Instruction *made = computation_add(s->comp, OP_REDUCE_SCATTER, inst->shape, 1,
                                        sum->operands, sum->name);
    for (uint32_t i = 0; i < sum->attr_count; i++)
        inst_set(made, sum->attrs[i]);
    inst_unset(made, ATTR_SHARDING);
    inst_take_origin(made, inst);
    inst_set_ints(made, ATTR_DIMENSIONS, &along, 1);
    made->span = sum->span;
    return made;
}

static Instruction *merge(Sweep *s, Instruction *inst)
{
    Instruction *made = merge_reassociated(s, inst);
    made = made != NULL ? made : fold_reduces(s, inst);
    return made != NULL ? made : scatter_sum(s, inst);
}

bool pass_collective_merges(Module *m, PassContext *cx)
{
    return sweep_collectives(m, cx, merge, &cx->counts.collectives_merged);
}
