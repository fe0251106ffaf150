/* Groups of independent collectives.
 *
 *   c0   c1   c2 = f(c1)   c3 = f(c2)   c4        levels 0 0 1 2 0: c0, c1, c4 are joined
 *
 * The level of an operation is how many of its key lie one behind the other before it, by data
 * and control. Two of one level cannot need one another, and whatever is joined of one level
 * needs lower levels only: all levels of a key are joined at once and no cycle arises. A group
 * takes the operations of a level in topological order until bytes or count reach their limit;
 * that one begins the next group. One larger than the limit stays alone. Levels are made anew
 * for each key, because what was joined before ties the program together.
 *
 * The schedule keeps the members of a scheduling group together, so each is behind whatever one of them
 * needs: else what is joined might have to run between two of them.
 *
 * Time: keys that occur twice times instructions. */
#include "passes/collectives/combine/independent.h"

#include "passes/schedule/groups.h"

enum { ROUNDS_MOST = 64 }; /* more only where scheduling groups wait for each other */

typedef struct Member {
    Instruction *inst;
    uint32_t level, next; /* next: of its level; 0: none, else index + 1 */
} Member;

typedef struct Sweep {
    Join *j;
    Member *members; /* [count] in topological order */
    uint32_t count, levels;
    uint32_t *first, *last;         /* [levels] into members, index + 1 */
    Instruction **forward, **edges; /* by id of before */
    bool changed;
} Sweep;

/* The members of the key with their levels. group: by id, the number of the scheduling group; base: by that, the
 * highest level of what its members need, 0 for those in none. True: one has risen. */
static bool find_levels_over(Sweep *s, Instruction **order, uint32_t n, const char *key,
                             const char *const *key_by_id, const uint32_t *group,
                             uint32_t *base, uint32_t *level)
{
    bool risen = false;
    s->count = s->levels = 0;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        uint32_t g = group[inst->id], at = base[g];
        for (uint32_t k = 0; k < inst->operand_count + inst->control_count; k++) {
            const Instruction *before = k < inst->operand_count
                                            ? inst->operands[k]
                                            : inst->control[k - inst->operand_count];
            at = level[before->id] > at ? level[before->id] : at;
            if (g == 0 || group[before->id] == g || level[before->id] <= base[g])
                continue;
            base[g] = level[before->id];
            risen = true;
        }
        bool own = key_by_id[inst->id] == key;
        level[inst->id] = at + own; /* of what needs it */
        if (own)
            s->members[s->count++] = (Member){inst, at, 0};
        s->levels = own && at >= s->levels ? at + 1 : s->levels;
    }
    return risen;
}

/* Leaves the groups that there will be: what is not worth one is no member, and without anything asynchronous
 * there is none. */
static void drop_unkept(const Computation *comp, uint32_t *group, uint32_t groups,
                        Arena *scratch)
{
    bool *overlaps = ARENA_ARRAY(scratch, bool, (size_t)groups + 1);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (group[inst->id] != 0 && !groups_may_hold(inst))
            group[inst->id] = 0;
        overlaps[group[inst->id]] |=
            inst->op == OP_CALL ||
            op_is(inst->op, OPF_COLLECTIVE | OPF_ASYNC_START | OPF_ASYNC_DONE);
    }
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!overlaps[group[inst->id]])
            group[inst->id] = 0;
    }
}

static void find_levels(Sweep *s, Instruction **order, uint32_t n, const char *key,
                        const char *const *key_by_id)
{
    const Computation *comp = s->j->comp;
    Arena *scratch = s->j->scratch;
    const char *const *names;
    uint32_t *group = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1);
    uint32_t groups = groups_number(comp, scratch, group, &names), rounds = 0;
    uint32_t *base = ARENA_ARRAY(scratch, uint32_t, (size_t)groups + 1);
    if (groups != 0)
        drop_unkept(comp, group, groups, scratch);
    uint32_t *level = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1);
    while (find_levels_over(s, order, n, key, key_by_id, group, base, level) &&
           rounds < ROUNDS_MOST)
        rounds++;
}

static void chain_levels(Sweep *s)
{
    s->first = ARENA_ARRAY(s->j->scratch, uint32_t, (size_t)s->levels + 1);
    s->last = ARENA_ARRAY(s->j->scratch, uint32_t, (size_t)s->levels + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t level = s->members[i].level;
        if (s->first[level] == 0)
            s->first[level] = i + 1;
        else
            s->members[s->last[level] - 1].next = i + 1;
        s->last[level] = i + 1;
    }
}

static void end_group(Sweep *s, Instruction *const *group, uint32_t count)
{
    if (count < 2)
        return;
    s->j->join(s->j, group, count, s->forward, s->edges);
    s->changed = true;
}

static void join_level(Sweep *s, uint32_t level, Instruction **group)
{
    uint32_t count = 0;
    int64_t bytes = 0;
    for (uint32_t i = s->first[level]; i != 0; i = s->members[i - 1].next) {
        Instruction *inst = s->members[i - 1].inst;
        int64_t own = shape_bytes(inst->shape);
        if (count > 0 && (bytes > s->j->most_bytes - own || count >= s->j->most_count)) {
            end_group(s, group, count);
            count = 0;
            bytes = 0;
        }
        group[count++] = inst;
        bytes += own;
    }
    end_group(s, group, count);
}

static void replace_members(Sweep *s, Instruction **order, uint32_t n)
{
    Computation *comp = s->j->comp;
    Instruction **forward =
        ARENA_ARRAY(s->j->scratch, Instruction *, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < n; i++) {
        forward[order[i]->id] = s->forward[order[i]->id];
        for (uint32_t k = 0; k < order[i]->control_count; k++) {
            Instruction **edge = &order[i]->control[k];
            if (s->edges[(*edge)->id] != NULL)
                *edge = s->edges[(*edge)->id];
        }
    }
    computation_substitute(comp, forward, comp->instruction_count);
}

/* Joins the operations of one key. */
static bool sweep(Join *j, const char *key, const char *const *key_by_id, uint32_t count)
{
    uint32_t n;
    Instruction **order = computation_post_order(j->comp, j->scratch, &n);
    size_t size = (size_t)j->comp->instruction_count + 1;
    Sweep s = {.j = j,
               .members = ARENA_ARRAY(j->scratch, Member, (size_t)count + 1),
               .forward = ARENA_ARRAY(j->scratch, Instruction *, size),
               .edges = ARENA_ARRAY(j->scratch, Instruction *, size)};
    find_levels(&s, order, n, key, key_by_id);
    if (s.levels == s.count)
        return false; /* one behind the other */
    chain_levels(&s);
    Instruction **group = ARENA_ARRAY(j->scratch, Instruction *, (size_t)count + 1);
    for (uint32_t level = 0; level < s.levels; level++)
        join_level(&s, level, group);
    if (s.changed)
        replace_members(&s, order, n);
    return s.changed;
}

typedef struct KeyCount {
    const char *key;
    uint32_t count;
} KeyCount;

/* The keys of the computation's operations, in order of first appearance. */
static KeyCount *find_keys(Join *j, const char **key_by_id, uint32_t *out_count)
{
    KeyCount *keys = NULL;
    size_t capacity = 0;
    uint32_t n = 0;
    for (const Instruction *inst = inst_first(j->comp); inst; inst = inst_next(inst)) {
        if (!op_is(inst->op, OPF_COLLECTIVE))
            continue;
        const char *key = j->key(j, inst);
        if (key == NULL || shape_bytes(inst->shape) > j->most_bytes)
            continue;
        key_by_id[inst->id] = key;
        uint32_t k = 0;
        while (k < n && keys[k].key != key)
            k++;
        if (k == n) {
            keys = arena_grow(j->scratch, keys, &capacity, (size_t)n + 1, sizeof *keys);
            keys[n++] = (KeyCount){key, 0};
        }
        keys[k].count++;
    }
    *out_count = n;
    return keys;
}

static bool visit(Join *j)
{
    bool changed = false;
    uint32_t count, n = j->comp->instruction_count;
    const char **key_by_id = ARENA_ARRAY(j->scratch, const char *, (size_t)n + 1);
    KeyCount *keys = find_keys(j, key_by_id, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (keys[k].count < 2 || !sweep(j, keys[k].key, key_by_id, keys[k].count))
            continue;
        changed = true;
        /* the order is part of the next sweep: ids change, and with them the table */
        computation_sort(j->comp);
        n = j->comp->instruction_count;
        key_by_id = ARENA_ARRAY(j->scratch, const char *, (size_t)n + 1);
        uint32_t again;
        find_keys(j, key_by_id, &again);
    }
    return changed;
}

bool independent_join(Join *j)
{
    Computations programs = module_programs(j->m, j->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        j->comp = programs.data[c];
        if (!j->comp->is_async_wrapped)
            changed |= visit(j);
    }
    return changed;
}
