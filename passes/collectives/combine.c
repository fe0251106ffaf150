/* Combines collectives of one kind that do not need one another, so that they are one call:
 *
 *   a = f32[10] all-reduce(p), to_apply=add       c = (f32[10], f32[20]) all-reduce(p, q), ...
 *   b = f32[20] all-reduce(q), to_apply=add   =>  a = get-tuple-element(c), index=0
 *                                                 b = get-tuple-element(c), index=1
 *
 * One engine; kinds[] says for each kind what must be equal (its key) and which settings limit
 * it. Groups are formed greedily in topological order: a group takes operations of its key
 * until one depends on a member (found by marking everything that does), or bytes or count
 * reach their limit; that one begins the next group. An operation above the limit, one of
 * several operands, and one with a scheduling group of its own stays alone. A kind with
 * constrain_layout anywhere in the module is left alone altogether.
 *
 * Groups of one key span disjoint stretches of the order, so combining them makes no cycle;
 * the order is made anew for each key.
 *
 * Needs: layouts, for all-gathers and reduce-scatters along different dimensions. Keeps:
 * values, metadata, frontend attributes, control edges. Ends: each key is swept once. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/bug.h"
#include "ir/replica_groups.h"
#include "ir/text.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"

typedef struct Kind Kind;

typedef struct Candidate {
    Instruction *inst;
    const char *key; /* interned; NULL: taken, or none */
    int64_t bytes;
} Candidate;

struct Kind {
    OpCode op;
    void (*key)(Text *t, const Instruction *inst); /* what kinds differ in */
    bool (*may)(const Instruction *inst);
    int64_t (*limit)(const PassSettings *s);
};

typedef struct Combiner {
    Module *m;
    Computation *comp;
    Arena *scratch;
    const Kind *kind;
    int64_t most_bytes, most_count;
} Combiner;

/* -- keys ------------------------------------------------------------------------------------ */

static bool is_pipelined(const Instruction *inst)
{
    Bytes config = inst_bytes(inst, ATTR_BACKEND_CONFIG);
    return config.data != NULL && (strstr(config.data, "\"is_pipelined\":true") != NULL ||
                                   strstr(config.data, "\"is_pipelined\": true") != NULL);
}

static void add_extras(Text *t, const Instruction *inst)
{
    static const char *const keys[] = {"combiner_key", "collective_group_key"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = inst_frontend_attribute(inst, keys[i]);
        text_printf(t, " %s=%s", keys[i], value == NULL ? "" : value);
    }
    text_printf(t, " pipelined=%d", is_pipelined(inst));
}

static void add_groups(Text *t, const Instruction *inst)
{
    text_printf(t, " channel=%d global=%d groups=", inst_has(inst, ATTR_CHANNEL_ID),
                inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS));
    IntLists groups = collective_groups(t->arena, inst);
    for (uint32_t g = 0; g < groups.count; g++) {
        for (uint32_t i = 0; i < groups.data[g].count; i++)
            text_printf(t, "%lld,", (long long)groups.data[g].data[i]);
        text_char(t, ';');
    }
}

static void key_reduction(Text *t, const Instruction *inst)
{
    const Computation *by = inst_called(inst, 0);
    add_groups(t, inst);
    text_printf(t, " by %s %s %s", op_info[by->root->op].name,
                dtype_name(by->root->shape->dtype),
                dtype_name(inst->operands[0]->shape->dtype));
}

static int64_t dimension_of(const Instruction *inst)
{
    return inst_ints(inst, ATTR_DIMENSIONS).data[0];
}

/* Pieces lie one behind the other: the dimension may be moved to the front for nothing. */
static bool is_contiguous(const Instruction *inst)
{
    const Shape *s = inst->operands[0]->shape;
    bool plain = layout_is_default(s->layout) && layout_is_default(inst->shape->layout);
    for (int64_t i = 0; plain && i < dimension_of(inst); i++)
        plain = s->dims[i] == 1;
    return plain;
}

static void key_dimension(Text *t, const Instruction *inst)
{
    text_printf(t, " along %lld",
                is_contiguous(inst) ? -1LL : (long long)dimension_of(inst));
}

static void key_gather(Text *t, const Instruction *inst)
{
    add_groups(t, inst);
    key_dimension(t, inst);
}

static void key_scatter(Text *t, const Instruction *inst)
{
    key_reduction(t, inst);
    key_dimension(t, inst);
}

/* The channel's number does not matter, but whether there is one does: it is the group mode. */
static void key_permute(Text *t, const Instruction *inst)
{
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    text_printf(t, " channel=%d pairs=", inst_has(inst, ATTR_CHANNEL_ID));
    for (uint32_t i = 0; i < pairs.count; i++)
        text_printf(t, "%lld>%lld,", (long long)pairs.data[i].data[0],
                    (long long)pairs.data[i].data[1]);
}

static bool may_permute(const Instruction *inst)
{
    return !inst_has(inst, ATTR_PERMUTE_SLICE_SIZES);
}

static bool may_move(const Instruction *inst)
{
    return inst_frontend_attribute(inst, "_scheduling_group_id") == NULL;
}

static bool may_reduce(const Instruction *inst)
{
    return may_move(inst) && collective_reduction(inst_called(inst, 0)) != OP_COUNT;
}

static int64_t limit_all_gather(const PassSettings *s)
{
    return s->all_gather_combine_threshold_bytes;
}

static int64_t limit_all_reduce(const PassSettings *s)
{
    return s->all_reduce_combine_threshold_bytes;
}

static int64_t limit_reduce_scatter(const PassSettings *s)
{
    return s->reduce_scatter_combine_threshold_bytes;
}

static int64_t limit_permute(const PassSettings *s)
{
    return s->collective_permute_combine_threshold_bytes;
}

static const Kind kinds[] = {
    {OP_ALL_GATHER, key_gather, may_move, limit_all_gather},
    {OP_ALL_REDUCE, key_reduction, may_reduce, limit_all_reduce},
    {OP_REDUCE_SCATTER, key_scatter, may_reduce, limit_reduce_scatter},
    {OP_COLLECTIVE_PERMUTE, key_permute, may_permute, limit_permute},
};

static const Kind *kind_of(OpCode op)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].op == op)
            return &kinds[i];
    }
    bug("%s cannot be combined", op_info[op].name);
}

/* The key of an operation that may be combined; NULL: it may not. */
static const char *key_of(const Combiner *c, const Instruction *inst)
{
    if (inst->op != c->kind->op || inst->operand_count != 1 ||
        !shape_is_array(inst->shape) || !c->kind->may(inst))
        return NULL;
    Text t;
    text_init(&t, c->scratch);
    c->kind->key(&t, inst);
    add_extras(&t, inst);
    return intern_text(c->m->intern, t.data, t.length);
}

/* -- attributes of the combined operation ------------------------------------------------------ */

static size_t common_prefix(Bytes a, Bytes b)
{
    size_t n = 0, slash = 0;
    for (; n < a.length && n < b.length && a.data[n] == b.data[n]; n++) {
        if (a.data[n] == '/')
            slash = n + 1;
    }
    return n == a.length && n == b.length ? n : slash;
}

/* op_name: "net/a" and "net/b" give "net/a,b"; source lines: from the first to the last. */
static void merge_metadata(Instruction *to, Instruction *const *members, uint32_t count)
{
    Arena *a = to->parent->module->arena;
    Metadata *merged = NULL;
    Text names;
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_METADATA);
        if (attr == NULL)
            continue;
        const Metadata *m = attr->metadata;
        if (merged == NULL) {
            merged = arena_copy(a, m, sizeof *m);
            text_init(&names, a);
            text_add(&names, m->op_name.data == NULL ? "" : m->op_name.data,
                     m->op_name.length);
            continue;
        }
        size_t prefix = common_prefix(merged->op_name, m->op_name);
        if (prefix < m->op_name.length) {
            text_string(&names, names.length == 0 ? "" : ",");
            text_add(&names, m->op_name.data + prefix, m->op_name.length - prefix);
        }
        int64_t end =
            m->source_end_line > m->source_line ? m->source_end_line : m->source_line;
        bool same = merged->source_file.length == m->source_file.length &&
                    (m->source_file.length == 0 ||
                     memcmp(merged->source_file.data, m->source_file.data,
                            m->source_file.length) == 0);
        if (same && m->source_line < merged->source_line)
            merged->source_line = m->source_line;
        if (same && end > merged->source_line && end > merged->source_end_line)
            merged->source_end_line = end;
    }
    if (merged == NULL)
        return;
    merged->op_name = (Bytes){names.data, names.length};
    inst_set(to, (Attr){.id = ATTR_METADATA, .metadata = merged});
}

static bool has_value(Bytes list, Bytes value)
{
    for (size_t at = 0; at + value.length <= list.length; at++) {
        bool starts = at == 0 || list.data[at - 1] == ',';
        bool ends =
            at + value.length == list.length || list.data[at + value.length] == ',';
        if (starts && ends && memcmp(list.data + at, value.data, value.length) == 0)
            return true;
    }
    return false;
}

/* Adds an entry to a dict sorted by key; values of one key are joined by commas. */
static void add_entry(Arena *a, DictEntry *entries, uint32_t *count, const DictEntry *e)
{
    uint32_t i = 0;
    while (i < *count && strcmp(entries[i].key, e->key) < 0)
        i++;
    if (i < *count && strcmp(entries[i].key, e->key) == 0) {
        if (has_value(entries[i].value, e->value))
            return;
        const char *both = arena_printf(a, "%s,%s", entries[i].value.data, e->value.data);
        entries[i].value = (Bytes){both, strlen(both)};
        return;
    }
    for (uint32_t k = *count; k > i; k--)
        entries[k] = entries[k - 1];
    entries[i] = *e;
    ++*count;
}

static void merge_frontend(Instruction *to, Instruction *const *members, uint32_t count)
{
    Arena *a = to->parent->module->arena;
    uint32_t most = 0, n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_FRONTEND_ATTRIBUTES);
        most += attr == NULL ? 0 : attr->dict->count;
    }
    if (most == 0)
        return;
    DictEntry *entries = ARENA_ARRAY(a, DictEntry, most);
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_FRONTEND_ATTRIBUTES);
        for (uint32_t k = 0; attr != NULL && k < attr->dict->count; k++)
            add_entry(a, entries, &n, &attr->dict->entries[k]);
    }
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){n, entries};
    inst_set(to, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

static void merge_controls(Instruction *to, Instruction *const *members, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += members[i]->control_count;
    to->control_count = 0;
    to->control = ARENA_ARRAY(to->parent->module->arena, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < members[i]->control_count; k++) {
            Instruction *before = members[i]->control[k];
            bool known = false;
            for (uint32_t j = 0; j < to->control_count && !known; j++)
                known = to->control[j] == before;
            if (!known)
                to->control[to->control_count++] = before;
        }
    }
}

/* -- combining ------------------------------------------------------------------------------------ */

/* The shape with dimension d, behind dimensions of size 1 only, in front. */
static const Shape *fronted(const Combiner *c, const Shape *s, int64_t d)
{
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, (size_t)s->rank + 1);
    dims[0] = s->dims[d];
    for (int64_t i = 0; i < s->rank; i++) {
        if (i != d)
            dims[i < d ? i + 1 : i] = s->dims[i];
    }
    const Shape *front = shape_with_dims(c->m->intern, s, s->rank, dims);
    return shape_with_layout(c->m->intern, front, s->layout);
}

static bool differ_in_dimension(const Combiner *c, Instruction *const *members,
                                uint32_t count)
{
    if (c->kind->op != OP_ALL_GATHER && c->kind->op != OP_REDUCE_SCATTER)
        return false;
    for (uint32_t i = 1; i < count; i++) {
        if (dimension_of(members[i]) != dimension_of(members[0]))
            return true;
    }
    return false;
}

/* forward[] and edges[] by the members' ids: what users and control successors are to name. */
static void combine(Combiner *c, Instruction *const *members, uint32_t count,
                    Instruction **forward, Instruction **edges)
{
    bool moved = differ_in_dimension(c, members, count);
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, count);
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, count);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *x = members[i]->operands[0];
        operands[i] = x;
        shapes[i] = members[i]->shape;
        if (!moved || dimension_of(members[i]) == 0)
            continue;
        int64_t d = dimension_of(members[i]);
        operands[i] =
            computation_add(c->comp, OP_BITCAST, fronted(c, x->shape, d), 1, &x, NULL);
        shapes[i] = fronted(c, members[i]->shape, d);
    }
    Instruction *all = computation_add_like(
        c->comp, members[0], shape_tuple(c->m->intern, count, shapes), count, operands);
    inst_unset(all, ATTR_SHARDING);
    if (moved)
        inst_set_ints(all, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    merge_metadata(all, members, count);
    merge_frontend(all, members, count);
    merge_controls(all, members, count);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *part =
            computation_add(c->comp, OP_GET_TUPLE_ELEMENT, shapes[i], 1, &all, NULL);
        inst_set_int(part, ATTR_INDEX, i);
        if (shapes[i] != members[i]->shape)
            part =
                computation_add(c->comp, OP_BITCAST, members[i]->shape, 1, &part, NULL);
        forward[members[i]->id] = part;
        edges[members[i]->id] = all;
    }
}

typedef struct Sweep {
    Combiner *c;
    uint32_t
        *mark; /* by id: the last group with a member that the instruction depends on */
    uint32_t group;
    Instruction **members;
    uint32_t count;
    int64_t bytes;
    Instruction **forward, **edges;
    bool changed;
} Sweep;

static bool is_marked(const Sweep *s, const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (s->mark[inst->operands[i]->id] == s->group)
            return true;
    }
    for (uint32_t i = 0; i < inst->control_count; i++) {
        if (s->mark[inst->control[i]->id] == s->group)
            return true;
    }
    return false;
}

static void end_group(Sweep *s)
{
    if (s->count >= 2) {
        combine(s->c, s->members, s->count, s->forward, s->edges);
        s->changed = true;
    }
    s->count = 0;
    s->bytes = 0;
    s->group++;
}

static void offer(Sweep *s, Instruction *inst, int64_t bytes)
{
    bool depends = is_marked(s, inst);
    bool full = s->count > 0 &&
                (s->bytes + bytes > s->c->most_bytes || s->count >= s->c->most_count);
    if (depends || full)
        end_group(s);
    s->members[s->count++] = inst;
    s->bytes += bytes;
    s->mark[inst->id] = s->group;
}

/* One key: the instructions in order, those of the key offered to groups. */
static bool sweep(Combiner *c, const char *key, const char *const *key_by_id,
                  uint32_t count)
{
    Computation *comp = c->comp;
    Sweep s = {.c = c, .group = 1};
    s.mark = ARENA_ARRAY(c->scratch, uint32_t, (size_t)comp->instruction_count + 1);
    s.members = ARENA_ARRAY(c->scratch, Instruction *, (size_t)count + 1);
    /* members get one part and, at most, two bitcasts; beyond lies the operation itself */
    size_t room = (size_t)comp->instruction_count + 4 * (size_t)count + 1;
    s.forward = ARENA_ARRAY(c->scratch, Instruction *, room);
    s.edges = ARENA_ARRAY(c->scratch, Instruction *, room);
    uint32_t n;
    Instruction **order = computation_post_order(comp, c->scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        if (key_by_id[inst->id] == key)
            offer(&s, inst, shape_bytes(inst->shape));
        else if (is_marked(&s, inst))
            s.mark[inst->id] = s.group;
    }
    end_group(&s);
    if (!s.changed)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < order[i]->control_count; k++) {
            Instruction **edge = &order[i]->control[k];
            if (s.edges[(*edge)->id] != NULL)
                *edge = s.edges[(*edge)->id];
        }
    }
    computation_replace(comp, s.forward);
    for (uint32_t i = 0; i < n; i++) {
        if (s.forward[order[i]->id] != NULL)
            computation_remove(comp, order[i]);
    }
    return true;
}

typedef struct KeyCount {
    const char *key;
    uint32_t count;
} KeyCount;

/* The keys of the computation's operations, in order of first appearance. */
static KeyCount *find_keys(Combiner *c, const char **key_by_id, uint32_t *out_count)
{
    KeyCount *keys = NULL;
    size_t capacity = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->comp->instruction_count; i++) {
        const Instruction *inst = c->comp->instructions[i];
        if (inst == NULL || inst->op != c->kind->op)
            continue;
        const char *key = key_of(c, inst);
        if (key == NULL || shape_bytes(inst->shape) > c->most_bytes)
            continue;
        key_by_id[i] = key;
        uint32_t k = 0;
        while (k < n && keys[k].key != key)
            k++;
        if (k == n) {
            keys = arena_grow(c->scratch, keys, &capacity, (size_t)n + 1, sizeof *keys);
            keys[n++] = (KeyCount){key, 0};
        }
        keys[k].count++;
    }
    *out_count = n;
    return keys;
}

static bool visit(Combiner *c)
{
    bool changed = false;
    uint32_t count, first = c->comp->instruction_count;
    const char **key_by_id = ARENA_ARRAY(c->scratch, const char *, (size_t)first + 1);
    KeyCount *keys = find_keys(c, key_by_id, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (keys[k].count < 2)
            continue;
        if (!sweep(c, keys[k].key, key_by_id, keys[k].count))
            continue;
        changed = true;
        /* the order is part of the next sweep: ids change, and with them the table */
        computation_sort(c->comp);
        key_by_id =
            ARENA_ARRAY(c->scratch, const char *, (size_t)c->comp->instruction_count + 1);
        uint32_t again;
        find_keys(c, key_by_id, &again);
    }
    return changed;
}

static bool is_constrained(const Module *m, OpCode op)
{
    for (uint32_t k = 0; k < m->computation_count; k++) {
        const Computation *comp = m->computations[k];
        for (uint32_t i = 0; comp != NULL && i < comp->instruction_count; i++) {
            const Instruction *inst = comp->instructions[i];
            if (inst != NULL && inst->op == op && inst_bool(inst, ATTR_CONSTRAIN_LAYOUT))
                return true;
        }
    }
    return false;
}

static bool combine_kind(Module *m, PassContext *cx, OpCode op)
{
    Combiner c = {.m = m, .scratch = cx->scratch, .kind = kind_of(op)};
    c.most_bytes = c.kind->limit(cx->settings);
    c.most_count = cx->settings->combine_threshold_count;
    if (c.most_bytes <= 0 || c.most_count <= 0 || is_constrained(m, op))
        return false;
    const bool *is_program = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t k = 0; k < m->computation_count; k++) {
        c.comp = m->computations[k];
        if (c.comp != NULL && is_program[k] && !c.comp->is_fused)
            changed |= visit(&c);
    }
    return changed;
}

bool pass_all_gather_combiner(Module *m, PassContext *cx)
{
    return combine_kind(m, cx, OP_ALL_GATHER);
}

bool pass_all_reduce_combiner(Module *m, PassContext *cx)
{
    return combine_kind(m, cx, OP_ALL_REDUCE);
}

bool pass_reduce_scatter_combiner(Module *m, PassContext *cx)
{
    return combine_kind(m, cx, OP_REDUCE_SCATTER);
}

bool pass_collective_permute_combiner(Module *m, PassContext *cx)
{
    return combine_kind(m, cx, OP_COLLECTIVE_PERMUTE);
}
