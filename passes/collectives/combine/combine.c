/* Combines collectives of one kind that do not need one another, so that they are one call:
 *
 *   a = f32[10] all-reduce(p), to_apply=add       c = (f32[10], f32[20]) all-reduce(p, q), ...
 *   b = f32[20] all-reduce(q), to_apply=add   =>  a = get-tuple-element(c), index=0
 *                                                 b = get-tuple-element(c), index=1
 *
 * kinds[] says for each kind what must be equal (its key) and which settings limit it;
 * independent.c finds the groups. An operation of several operands, and one with a scheduling
 * group of its own, which it would lose, stays alone. A kind with constrain_layout anywhere in
 * the module is left alone altogether.
 *
 * Pieces that lie one behind the other in memory may be gathered (scattered) along different
 * dimensions: a bitcast brings each to the one that most of them have.
 *
 * Needs: layouts, for those. Keeps: values, metadata, frontend attributes, control edges.
 * Ends: each key is swept once. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/replica_groups.h"
#include "ir/base/bug.h"
#include "ir/base/text.h"
#include "passes/collectives/combine/independent.h"
#include "passes/collectives/combine/merged_attributes.h"
#include "passes/settings.h"

typedef struct Kind {
    OpCode op;
    void (*key)(Text *t, const Instruction *inst); /* what kinds differ in */
    bool (*may)(const Instruction *inst);
    int64_t (*limit)(const PassSettings *s);
    bool (*by_dimension)(const PassSettings *s);
} Kind;

/* Of a run: the kind, and whether operations along different dimensions stay apart. */
typedef struct Combiner {
    const Kind *kind;
    bool by_dimension;
} Combiner;

/* -- keys ------------------------------------------------------------------------------------ */

static void add_extras(Text *t, const Instruction *inst)
{
    for (const char *const *key = collective_keys; *key != NULL; key++) {
        const char *value = inst_frontend_attribute(inst, *key);
        text_printf(t, " %s=%s", *key, value == NULL ? "" : value);
    }
    text_printf(t, " pipelined=%d", collective_is_pipelined(inst));
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

/* Dimension d is the slowest of those that are not of size 1: the parts along it lie one
 * behind the other, and a bitcast can give it any other number. */
static bool is_slowest(const Shape *s, int64_t d)
{
    if (s->dynamic != NULL || s->layout->tile_count != 0)
        return false;
    for (uint32_t i = s->rank; i-- > 0;) {
        int64_t at = s->layout->minor_to_major[i];
        if (at == d)
            return true;
        if (s->dims[at] != 1)
            return false;
    }
    return false;
}

/* Any dimension is as good as another. */
static bool is_free(const Instruction *inst)
{
    int64_t d = dimension_of(inst);
    return is_slowest(inst->operands[0]->shape, d) && is_slowest(inst->shape, d);
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

static bool may_move(const Instruction *inst)
{
    return inst_frontend_attribute(inst, "_scheduling_group_id") == NULL;
}

static bool may_permute(const Instruction *inst)
{
    return may_move(inst) && !inst_has(inst, ATTR_PERMUTE_SLICE_SIZES);
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

static bool gather_by_dimension(const PassSettings *s)
{
    return s->all_gather_combine_by_dim != 0;
}

static bool scatter_by_dimension(const PassSettings *s)
{
    return s->reduce_scatter_combine_by_dim != 0;
}

static const Kind kinds[] = {
    {OP_ALL_GATHER, add_groups, may_move, limit_all_gather, gather_by_dimension},
    {OP_ALL_REDUCE, key_reduction, may_reduce, limit_all_reduce, NULL},
    {OP_REDUCE_SCATTER, key_reduction, may_reduce, limit_reduce_scatter,
     scatter_by_dimension},
    {OP_COLLECTIVE_PERMUTE, key_permute, may_permute, limit_permute, NULL},
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
static const char *key_of(const Join *j, const Instruction *inst)
{
    const Combiner *c = j->kind;
    if (inst->op != c->kind->op || inst->operand_count != 1 ||
        !shape_is_array(inst->shape) || !c->kind->may(inst))
        return NULL;
    Text t;
    text_init(&t, j->scratch);
    c->kind->key(&t, inst);
    add_extras(&t, inst);
    if (c->kind->by_dimension != NULL && (c->by_dimension || !is_free(inst)))
        text_printf(&t, " along %lld", (long long)dimension_of(inst));
    return intern_text(j->m->intern, t.data, t.length);
}

/* -- combining ------------------------------------------------------------------------------------ */

/* Where size 1 alone breaks the usual order, the usual order says the same. */
static void tidy_order(uint32_t rank, const int64_t *dims, int64_t *minor_to_major)
{
    int64_t last = rank;
    for (uint32_t k = 0; k < rank; k++) {
        if (dims[minor_to_major[k]] == 1)
            continue;
        if (minor_to_major[k] > last)
            return;
        last = minor_to_major[k];
    }
    for (uint32_t k = 0; k < rank; k++)
        minor_to_major[k] = rank - 1 - k;
}

/* The shape with dimension `from` at position `to`, the others in order, the bytes as they are. */
static const Shape *moved(const Join *j, const Shape *s, uint32_t from, uint32_t to)
{
    int64_t *dims = ARENA_ARRAY(j->scratch, int64_t, (size_t)s->rank + 1);
    int64_t *order = ARENA_ARRAY(j->scratch, int64_t, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++) {
        uint32_t position = i - (i > from);
        position = i == from ? to : position + (position >= to);
        dims[position] = s->dims[i];
        for (uint32_t k = 0; k < s->rank; k++) {
            if (s->layout->minor_to_major[k] == i)
                order[k] = position;
        }
    }
    tidy_order(s->rank, dims, order);
    Layout layout = *s->layout;
    layout.minor_to_major = order;
    const Shape *made = shape_with_dims(j->m->intern, s, s->rank, dims);
    return shape_with_layout(j->m->intern, made, intern_layout(j->m->intern, &layout));
}

/* The dimension that most members go along, and that all of them have; -1: they need not go
 * along the same. */
static int64_t common_dimension(const Join *j, Instruction *const *members,
                                uint32_t count)
{
    const Combiner *c = j->kind;
    if (c->kind->by_dimension == NULL)
        return -1;
    uint32_t rank = members[0]->shape->rank;
    for (uint32_t i = 0; i < count; i++)
        rank = members[i]->shape->rank < rank ? members[i]->shape->rank : rank;
    uint32_t *times = ARENA_ARRAY(j->scratch, uint32_t, (size_t)rank + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (dimension_of(members[i]) < rank)
            times[dimension_of(members[i])]++;
    }
    uint32_t best = 0;
    for (uint32_t d = 1; d < rank; d++)
        best = times[d] > times[best] ? d : best;
    return best;
}

static Instruction *bitcast(Instruction *x, const Shape *s, const Instruction *like)
{
    if (x->shape == s)
        return x;
    Instruction *b = computation_add(x->parent, OP_BITCAST, s, 1, &x, NULL);
    b->span = like->span;
    return b;
}

static void combine(Join *j, Instruction *const *members, uint32_t count,
                    Instruction **forward, Instruction **edges)
{
    int64_t along = common_dimension(j, members, count);
    Instruction **operands = ARENA_ARRAY(j->scratch, Instruction *, count);
    const Shape **shapes = ARENA_ARRAY(j->scratch, const Shape *, count);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *x = members[i]->operands[0];
        operands[i] = x;
        shapes[i] = members[i]->shape;
        if (along >= 0 && dimension_of(members[i]) != along) {
            uint32_t from = (uint32_t)dimension_of(members[i]), to = (uint32_t)along;
            operands[i] = bitcast(x, moved(j, x->shape, from, to), members[i]);
            shapes[i] = moved(j, shapes[i], from, to);
        }
        j->counts->bytes_combined += shape_bytes(shapes[i]);
    }
    Instruction *all = computation_add_like(
        j->comp, members[0], shape_tuple(j->m->intern, count, shapes), count, operands);
    inst_unset(all, ATTR_SHARDING);
    if (along >= 0)
        inst_set_ints(all, ATTR_DIMENSIONS, &along, 1);
    merge_attributes(all, members, count);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *part = computation_add_element(all, i);
        part->span = members[i]->span;
        forward[members[i]->id] = bitcast(part, members[i]->shape, members[i]);
        edges[members[i]->id] = all;
    }
    j->counts->collectives_combined += count;
    j->counts->combined_collectives++;
}

static bool is_constrained(const Module *m, OpCode op)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == op && inst_bool(inst, ATTR_CONSTRAIN_LAYOUT))
                return true;
        }
    }
    return false;
}

static bool combine_kind(Module *m, PassContext *cx, OpCode op)
{
    Combiner c = {.kind = kind_of(op)};
    c.by_dimension = c.kind->by_dimension != NULL && c.kind->by_dimension(cx->settings);
    Join j = {.m = m,
              .scratch = cx->scratch,
              .most_bytes = c.kind->limit(cx->settings),
              .most_count = cx->settings->combine_threshold_count,
              .key = key_of,
              .join = combine,
              .kind = &c,
              .counts = &cx->counts};
    if (j.most_bytes <= 0 || j.most_count <= 0 || is_constrained(m, op))
        return false;
    return independent_join(&j);
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
