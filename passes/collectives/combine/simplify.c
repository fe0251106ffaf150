/* Fewer collectives.
 *
 * collective-identities removes those that do nothing:
 *   all-reduce(x) in groups of one           -> x          (all-gather, reduce-scatter, ... too)
 *   all-reduce(the same everywhere), maximum -> x          add, in groups of n -> x * n
 *   dynamic-slice(all-gather(x), own part)   -> x
 *
 * collective-merges makes one of two:
 *   add(all-reduce(x), all-reduce(y))        -> all-reduce(add(x, y))    reduce-scatters too
 *   f(all-gather(x), all-gather(y))          -> all-gather(f(x, y))      f elementwise
 *   all-reduce(all-reduce(x, G), H)          -> all-reduce(x, G x H)     no device twice
 *   dynamic-slice(all-reduce(x), own part)   -> reduce-scatter(x)
 *
 * What is replaced has one user and no control edges, keeps no layout and is in no scheduling
 * group. A part is a device's own if its place, computed for each device, is that of the device
 * in its group.
 *
 * Needs: nothing. Keeps: values, up to the order of additions; names and attributes. Ends: each
 * rule leaves fewer collectives, or smaller ones; one sweep, operands first. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/analysis/device_value.h"
#include "ir/replica_groups.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/combine/merge.h"
#include "passes/settings.h"

typedef struct Sweep {
    Module *m;
    Computation *comp;
    Arena *scratch;
    uint32_t *uses; /* by id, [count] */
    size_t count, capacity;
} Sweep;

typedef Instruction *Rule(Sweep *s, Instruction *inst);

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

static bool is_used_once(const Sweep *s, const Instruction *inst)
{
    return s->uses[inst->id] == 1;
}

static bool is_plain(const Instruction *inst)
{
    return inst->operand_count == 1 && shape_is_array(inst->shape) &&
           inst->shape->dynamic == NULL && inst->control_count == 0 &&
           !inst_bool(inst, ATTR_CONSTRAIN_LAYOUT) &&
           inst_frontend_attribute(inst, "_scheduling_group_id") == NULL;
}

static bool reduces_in_its_type(const Instruction *inst)
{
    return inst_called(inst, 0)->root->shape->dtype == inst->operands[0]->shape->dtype;
}

static bool same_way(const Sweep *s, const Instruction *a, const Instruction *b)
{
    return a->op == b->op && collective_mode(a) == collective_mode(b) &&
           collective_groups_equal(collective_groups(s->scratch, a),
                                   collective_groups(s->scratch, b));
}

/* -- own parts ---------------------------------------------------------------------------------- */

/* The dimension of which `slice` takes this device's part, of as many as its group has, and all
 * of the others; -1: it is no such slice. */
static int64_t own_dimension(Sweep *s, const Instruction *slice,
                             const Instruction *collective)
{
    const Shape *whole = slice->operands[0]->shape, *part = slice->shape;
    IntLists groups = collective_groups(s->scratch, collective);
    int64_t partitions = s->m->config.num_partitions, along = -1;
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
            if (!device_value(slice->operands[1 + along], ids.data[i] / partitions,
                              ids.data[i] % partitions, &at) ||
                at != i * part->dims[along])
                return -1;
        }
    }
    return along;
}

/* -- identities ----------------------------------------------------------------------------------- */

static bool in_groups_of_one(Sweep *s, const Instruction *inst)
{
    IntLists groups = collective_groups(s->scratch, inst);
    for (uint32_t g = 0; g < groups.count; g++) {
        if (groups.data[g].count != 1)
            return false;
    }
    return true;
}

static bool permutes_nothing(Sweep *s, const Instruction *inst)
{
    const ModuleConfig *c = &s->m->config;
    IntLists pairs = collective_pairs(s->scratch, inst);
    for (uint32_t i = 0; i < pairs.count; i++) {
        if (pairs.data[i].data[0] != pairs.data[i].data[1])
            return false;
    }
    return pairs.count == c->replica_count * c->num_partitions;
}

/* The same bytes on every device: made of a constant. */
static bool is_the_same_everywhere(const Instruction *x)
{
    for (int depth = 0; depth < 8 && x->operand_count == 1; depth++) {
        if (x->op != OP_BROADCAST && x->op != OP_RESHAPE && x->op != OP_CONVERT &&
            x->op != OP_COPY && x->op != OP_TRANSPOSE && x->op != OP_SLICE)
            return false;
        x = x->operands[0];
    }
    return x->op == OP_CONSTANT || x->op == OP_IOTA;
}

/* The all-reduce of equal values: n times the value, or the value. */
static Instruction *reduce_equal(Sweep *s, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    IntLists groups = collective_groups(s->scratch, inst);
    OpCode op = collective_reduction(inst_called(inst, 0));
    if (op == OP_MINIMUM || op == OP_MAXIMUM || op == OP_AND || op == OP_OR)
        return x;
    for (uint32_t g = 1; g < groups.count; g++) {
        if (groups.data[g].count != groups.data[0].count)
            return NULL;
    }
    if (op != OP_ADD || dtype_is_complex(x->shape->dtype) || groups.count == 0 ||
        dtype_info[x->shape->dtype].bits < 16)
        return NULL; /* the number might not fit the type */
    Instruction *n =
        computation_add_scalar(s->comp, x->shape->dtype, (double)groups.data[0].count);
    if (x->shape->rank != 0) {
        n = computation_add(s->comp, OP_BROADCAST, x->shape, 1, &n, NULL);
        inst_set_ints(n, ATTR_DIMENSIONS, NULL, 0);
    }
    Instruction *operands[2] = {x, n};
    return computation_add(s->comp, OP_MULTIPLY, x->shape, 2, operands, NULL);
}

static Instruction *identity(Sweep *s, Instruction *inst)
{
    if (inst->op == OP_DYNAMIC_SLICE) {
        Instruction *gather = inst->operands[0];
        bool own =
            gather->op == OP_ALL_GATHER && is_plain(gather) && inst->control_count == 0 &&
            shape_compatible(gather->operands[0]->shape, inst->shape) &&
            own_dimension(s, inst, gather) == inst_ints(gather, ATTR_DIMENSIONS).data[0];
        return own ? gather->operands[0] : NULL;
    }
    if (!op_is(inst->op, OPF_COLLECTIVE) || !is_plain(inst))
        return NULL;
    Instruction *x = inst->operands[0];
    switch (inst->op) {
    case OP_ALL_REDUCE:
        if (!reduces_in_its_type(inst))
            return NULL;
        if (in_groups_of_one(s, inst))
            return x;
        return is_the_same_everywhere(x) ? reduce_equal(s, inst) : NULL;
    case OP_REDUCE_SCATTER:
        return reduces_in_its_type(inst) && in_groups_of_one(s, inst) ? x : NULL;
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
        return in_groups_of_one(s, inst) && shape_compatible(x->shape, inst->shape)
                   ? x
                   : NULL;
    case OP_COLLECTIVE_PERMUTE:
        return permutes_nothing(s, inst) ? x : NULL;
    default:
        return NULL;
    }
}

/* -- merges ------------------------------------------------------------------------------------- */

static bool may_merge(const Sweep *s, const Instruction *a, const Instruction *b)
{
    return a != b && is_plain(a) && is_plain(b) && is_used_once(s, a) &&
           is_used_once(s, b) && same_way(s, a, b) &&
           a->operands[0]->shape == b->operands[0]->shape && a->shape == b->shape;
}

static bool same_dimension(const Instruction *a, const Instruction *b)
{
    return inst_ints(a, ATTR_DIMENSIONS).data[0] == inst_ints(b, ATTR_DIMENSIONS).data[0];
}

/* f(collective(x), collective(y)) -> collective(f(x, y)) */
static Instruction *merge_pair(Sweep *s, Instruction *inst)
{
    if (inst->operand_count != 2 || inst->control_count != 0 ||
        !op_is(inst->op, OPF_ELEMENTWISE) || op_is(inst->op, OPF_RANDOM | OPF_EFFECT))
        return NULL;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (a->op != b->op || !may_merge(s, a, b))
        return NULL;
    bool fits = false;
    if (a->op == OP_ALL_GATHER)
        fits = same_dimension(a, b);
    else if (a->op == OP_ALL_REDUCE || a->op == OP_REDUCE_SCATTER)
        fits = reduces_in_its_type(a) && reduces_in_its_type(b) &&
               inst->op == inst_called(a, 0)->root->op &&
               collective_reduction(inst_called(a, 0)) != OP_COUNT &&
               collective_reduction(inst_called(a, 0)) ==
                   collective_reduction(inst_called(b, 0)) &&
               (a->op == OP_ALL_REDUCE || same_dimension(a, b));
    if (!fits)
        return NULL;
    Instruction *x[2] = {a->operands[0], b->operands[0]};
    const Shape *shape = shape_with_dtype(s->m->intern, x[0]->shape, inst->shape->dtype);
    Instruction *inner = computation_add_like(s->comp, inst, shape, 2, x);
    Instruction *made = computation_add_like(s->comp, a, inst->shape, 1, &inner);
    Instruction *members[2] = {a, b};
    inst_unset(made, ATTR_SHARDING);
    merge_attributes(made, members, 2);
    return made;
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
    if (inner == NULL || inner->op != OP_ALL_REDUCE || !is_plain(inst) ||
        !is_plain(inner) || !is_used_once(s, inner) || own == NULL ||
        !inst_has(inner, ATTR_REPLICA_GROUPS) ||
        collective_mode(inst) != collective_mode(inner) || !reduces_in_its_type(inst) ||
        !reduces_in_its_type(inner) ||
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
    if (sum == NULL || sum->op != OP_ALL_REDUCE || !is_plain(sum) ||
        !is_used_once(s, sum) || inst->control_count != 0)
        return NULL;
    int64_t along = own_dimension(s, inst, sum);
    if (along < 0)
        return NULL;
    Instruction *made = computation_add(s->comp, OP_REDUCE_SCATTER, inst->shape, 1,
                                        sum->operands, sum->name);
    for (uint32_t i = 0; i < sum->attr_count; i++)
        inst_set(made, sum->attrs[i]);
    inst_unset(made, ATTR_SHARDING);
    inst_set_ints(made, ATTR_DIMENSIONS, &along, 1);
    made->span = sum->span;
    return made;
}

static Instruction *merge(Sweep *s, Instruction *inst)
{
    Instruction *made = merge_pair(s, inst);
    made = made != NULL ? made : fold_reduces(s, inst);
    return made != NULL ? made : scatter_sum(s, inst);
}

/* -- the passes ---------------------------------------------------------------------------------- */

static bool sweep(Sweep *s, Rule *rule, uint64_t *count)
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
    computation_supersede(s->comp, forward, before);
    return true;
}

/* What no longer has users: collectives have no effect but their value. */
static void remove_unused(Sweep *s)
{
    uint32_t n;
    computation_sort(s->comp);
    count_uses(s);
    Instruction **order = computation_post_order(s->comp, s->scratch, &n);
    for (uint32_t i = n; i-- > 0;) {
        Instruction *inst = order[i];
        if (s->uses[inst->id] != 0 || !op_is(inst->op, OPF_COLLECTIVE) ||
            op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE) || inst->op == OP_SEND ||
            inst->op == OP_RECV)
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

static bool run(Module *m, PassContext *cx, Rule *rule, uint64_t *count)
{
    if (!cx->settings->simplify_collectives)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        Computation *comp = programs.data[c];
        Sweep s = {.m = m, .comp = comp, .scratch = cx->scratch};
        if (comp->is_async_wrapped || !has_collectives(comp) || !sweep(&s, rule, count))
            continue;
        remove_unused(&s);
        changed = true;
    }
    return changed;
}

bool pass_collective_identities(Module *m, PassContext *cx)
{
    return run(m, cx, identity, &cx->counts.collectives_removed);
}

bool pass_collective_merges(Module *m, PassContext *cx)
{
    return run(m, cx, merge, &cx->counts.collectives_merged);
}
