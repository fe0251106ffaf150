/* Attributes of instructions as fields of HloInstructionProto. */
#include <string.h>

#include "frontend/proto/writer.h"
#include "ir/attribute/config.h"
#include "ir/attribute/replica_groups.h"
#include "ir/attribute/sharding.h"

static void put_window(Writer *w, Text *t, const Window *window)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < window->rank; i++) {
        const WindowDim *d = &window->dims[i];
        Text dim = writer_message(w);
        wire_int(&dim, 1, d->size);
        wire_int(&dim, 2, d->stride);
        wire_int(&dim, 3, d->pad_low);
        wire_int(&dim, 4, d->pad_high);
        wire_int(&dim, 5, d->window_dilation);
        wire_int(&dim, 6, d->base_dilation);
        wire_flag(&dim, 7, d->reversal);
        wire_message(&m, 1, &dim);
    }
    wire_message(t, 15, &m);
}

static bool put_labels(Writer *w, Text *t, const DimLabels *l)
{
    if (strchr(l->lhs_text, '?') != NULL || strchr(l->rhs_text, '?') != NULL ||
        strchr(l->out_text, '?') != NULL)
        return false;
    Text m = writer_message(w);
    wire_int(&m, 3, l->rhs_input);
    wire_int(&m, 4, l->rhs_output);
    wire_ints(&m, 6, l->rhs_spatial, l->spatial_rank);
    wire_int(&m, 7, l->lhs_batch);
    wire_int(&m, 8, l->lhs_feature);
    wire_int(&m, 9, l->out_batch);
    wire_int(&m, 10, l->out_feature);
    wire_ints(&m, 11, l->lhs_spatial, l->spatial_rank);
    wire_ints(&m, 12, l->out_spatial, l->spatial_rank);
    wire_message(t, 16, &m);
    return true;
}

static void put_slice(Writer *w, Text *t, const SliceSpec *slice)
{
    for (uint32_t i = 0; i < slice->rank; i++) {
        Text dim = writer_message(w);
        wire_int(&dim, 1, slice->dims[i].start);
        wire_int(&dim, 2, slice->dims[i].limit);
        wire_int(&dim, 3, slice->dims[i].stride);
        wire_message(t, 17, &dim);
    }
}

static void put_padding(Writer *w, Text *t, const Padding *padding)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < padding->rank; i++) {
        Text dim = writer_message(w);
        wire_int(&dim, 1, padding->dims[i].low);
        wire_int(&dim, 2, padding->dims[i].high);
        wire_int(&dim, 3, padding->dims[i].interior);
        wire_message(&m, 1, &dim);
    }
    wire_message(t, 21, &m);
}

static bool put_groups(Writer *w, Text *t, const ReplicaGroups *g)
{
    Text m = writer_message(w);
    switch (g->form) {
    case GROUPS_LISTS:
        for (uint32_t i = 0; i < g->lists.count; i++) {
            Text group = writer_message(w);
            writer_put_ints(&group, 1, g->lists.data[i]);
            wire_message(&m, 1, &group);
        }
        wire_message(t, 87, &m);
        return true;
    case GROUPS_IOTA:
        wire_int(&m, 1, g->count);
        wire_int(&m, 2, g->size);
        wire_ints(&m, 3, g->iota.dims, g->iota.rank);
        wire_ints(&m, 4, g->iota.order, g->iota.rank);
        wire_message(t, 92, &m);
        return true;
    case GROUPS_MESH:
        proto_put_mesh_groups(t, 93, g);
        return true;
    }
    return false;
}

static void put_pairs(Writer *w, Text *t, IntLists pairs)
{
    for (uint32_t i = 0; i < pairs.count; i++) {
        Text pair = writer_message(w);
        for (uint32_t k = 0; k < pairs.data[i].count && k < 2; k++)
            wire_int(&pair, k + 1, pairs.data[i].data[k]);
        wire_message(t, 52, &pair);
    }
}

static bool plain_sharding(const Sharding *s)
{
    for (uint32_t i = 0; i < s->element_count; i++) {
        if (!plain_sharding(s->elements[i]))
            return false;
    }
    for (uint32_t i = 0; i < s->subgroup_count; i++) {
        if (s->subgroups[i] == SUBGROUP_MAXIMAL)
            return false;
    }
    return s->metadata_count == 0;
}

static void put_sharding(Writer *w, Text *t, uint32_t field, const Sharding *s)
{
    static const int64_t kinds[] = {
        [SHARDING_REPLICATED] = 0, [SHARDING_MANUAL] = 4,  [SHARDING_UNKNOWN] = 5,
        [SHARDING_UNREDUCED] = 6,  [SHARDING_MAXIMAL] = 1, [SHARDING_TILED] = 3,
        [SHARDING_NAMED] = 3,      [SHARDING_TUPLE] = 2};
    static const int64_t groups[] = {[SUBGROUP_MANUAL] = 4,
                                     [SUBGROUP_UNREDUCED] = 6,
                                     [SUBGROUP_REPLICATED] = 0,
                                     [SUBGROUP_MAXIMAL] = 1};
    Text m = writer_message(w);
    wire_int(&m, 1, kinds[s->kind]);
    if (s->kind == SHARDING_MAXIMAL)
        wire_ints(&m, 4, &s->device, 1);
    if (s->kind == SHARDING_TILED) {
        wire_ints(&m, 3, s->dims, s->rank);
        writer_put_ints(&m, 4, s->devices);
        wire_flag(&m, 6, s->replicate_last);
        int64_t *kind = ARENA_ARRAY(w->arena, int64_t, s->subgroup_count);
        for (uint32_t i = 0; i < s->subgroup_count; i++)
            kind[i] = groups[s->subgroups[i]];
        wire_ints(&m, 8, kind, s->subgroup_count);
        wire_ints(&m, 9, s->iota.dims, s->iota.rank);
        wire_ints(&m, 10, s->iota.order, s->iota.rank);
    }
    if (s->kind == SHARDING_NAMED)
        proto_put_named_sharding(&m, 14, s);
    for (uint32_t i = 0; i < s->element_count; i++)
        put_sharding(w, &m, 5, s->elements[i]);
    if (s->shard_as >= 0 || s->shard_like >= 0) {
        wire_int(&m, 11, 1);
        wire_int(&m, 12, s->shard_as >= 0 ? s->shard_as : s->shard_like);
        wire_int(&m, 13, s->shard_as < 0);
    }
    wire_message(t, field, &m);
}

static void put_text(Text *t, uint32_t field, Bytes bytes)
{
    if (bytes.length != 0)
        wire_bytes(t, field, bytes.data, bytes.length);
}

static bool put_metadata(Writer *w, Text *t, const Metadata *metadata)
{
    if (metadata->payload.length != 0)
        return false;
    Text m = writer_message(w);
    put_text(&m, 1, metadata->op_type);
    put_text(&m, 2, metadata->op_name);
    put_text(&m, 3, metadata->source_file);
    writer_put_number(&m, 4, metadata->source_line);
    writer_put_ints(&m, 5, metadata->profile_types);
    put_text(&m, 12, metadata->deduplicated_name);
    writer_put_number(&m, 15, metadata->stack_frame_id);
    put_text(&m, 16, metadata->scheduling_name);
    writer_put_number(&m, 17, metadata->source_end_line);
    writer_put_number(&m, 18, metadata->source_column);
    writer_put_number(&m, 19, metadata->source_end_column);
    wire_message(t, 7, &m);
    return true;
}

void writer_put_dict(Writer *w, Text *t, uint32_t field, const Dict *dict)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < dict->count; i++) {
        Text entry = writer_message(w);
        wire_string(&entry, 1, dict->entries[i].key);
        wire_bytes(&entry, 2, dict->entries[i].value.data, dict->entries[i].value.length);
        wire_message(&m, 1, &entry);
    }
    wire_message(t, field, &m);
}

static void put_aliasing(Writer *w, Text *t, const Aliasing *aliasing)
{
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const AliasEntry *e = &aliasing->entries[i];
        Text m = writer_message(w);
        writer_put_ints(&m, 1, e->output);
        writer_put_number(&m, 2, e->operand);
        writer_put_ints(&m, 3, e->input);
        wire_message(t, 74, &m);
    }
}

static Text *gathered(Gathered *g, Arena *a, uint32_t number)
{
    uint32_t i = 0;
    while (i < g->count && g->messages[i].number != number)
        i++;
    if (i == g->count) {
        g->messages[i].number = number;
        text_init(&g->messages[i].text, a);
        g->count++;
    }
    return &g->messages[i].text;
}

static bool gather(Writer *w, Gathered *g, const Instruction *inst, const Attr *a)
{
    /* PrecisionConfig.Algorithm by the number of our name list */
    static const int64_t algorithms[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 9, 10, 11, 12};
    uint32_t message, field;
    if (!proto_nested_field(inst->op, a->id, &message, &field))
        return false;
    /* ragged-dot: fields 1 to 4 are those of a dot message inside, 5 and 6 its own 2 and 3 */
    bool inner = message == 90 && field <= 4;
    Text *t = gathered(g, w->arena, inner ? 30 : message);
    if (message == 90 && !inner)
        field -= 3;
    if (attr_info[a->id].kind == AK_INTS || attr_info[a->id].kind == AK_ENUMS)
        writer_put_ints(t, field, a->ints);
    else
        wire_int(t, field, a->id == ATTR_ALGORITHM ? algorithms[a->i] : a->i);
    return true;
}

void writer_put_gathered(Writer *w, Text *t, const Instruction *inst, Gathered *g)
{
    if (inst->op == OP_RAGGED_DOT) {
        Text *dot = gathered(g, w->arena, 30), *own = gathered(g, w->arena, 90);
        wire_message(own, 1, dot);
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (inst->op != OP_RAGGED_DOT || g->messages[i].number != 30)
            wire_message(t, g->messages[i].number, &g->messages[i].text);
    }
}

/* Attributes that are one integer, flag, string or list under a number of their own. */
static bool put_simple(Text *t, const Attr *a)
{
    uint32_t field;
    int64_t plus;
    if (!proto_plain_field(a->id, &field, &plus))
        return false;
    AttrKind kind = attr_info[a->id].kind;
    if (kind == AK_INTS)
        writer_put_ints(t, field, a->ints);
    else if (kind == AK_STRING)
        wire_bytes(t, field, a->bytes.data, a->bytes.length);
    else if (kind == AK_CONFIG)
        wire_bytes(t, field, a->config->text.data, a->config->text.length);
    else
        wire_int(t, field, a->i + plus);
    return true;
}

bool writer_put_attribute(Writer *w, Text *t, Gathered *g, const Instruction *inst,
                          const Attr *a)
{
    if (put_simple(t, a) || gather(w, g, inst, a))
        return true;
    switch (a->id) {
    case ATTR_IS_ASSOCIATIVE: /* written with the scan */
        return true;
    case ATTR_IOTA_DIMENSION:
    case ATTR_INFERRED_DIMENSION:
        wire_ints(t, 14, &a->i, 1);
        return true;
    case ATTR_WINDOW:
        put_window(w, t, a->window);
        return true;
    case ATTR_DIM_LABELS:
        return put_labels(w, t, a->labels);
    case ATTR_SLICE:
        put_slice(w, t, a->slice);
        return true;
    case ATTR_PADDING:
        put_padding(w, t, a->padding);
        return true;
    case ATTR_EPSILON:
        wire_float(t, 24, (float)a->f);
        return true;
    case ATTR_OUTFEED_SHAPE:
        writer_put_shape(w, t, 29, a->shape);
        return true;
    case ATTR_KIND:
        wire_string(t, 11, attr_info[a->id].names[a->i]);
        return true;
    case ATTR_DIRECTION:
        wire_string(t, 63, attr_info[a->id].names[a->i]);
        return true;
    case ATTR_TYPE:
        wire_string(t, 72, attr_info[a->id].names[a->i]);
        return true;
    case ATTR_REPLICA_GROUPS:
        return put_groups(w, t, a->groups);
    case ATTR_SOURCE_TARGET_PAIRS:
        put_pairs(w, t, a->lists);
        return true;
    case ATTR_SHARDING:
        if (!plain_sharding(a->sharding))
            return false;
        put_sharding(w, t, 40, a->sharding);
        return true;
    case ATTR_DOMAIN:
        if (!plain_sharding(a->domain->entry) || !plain_sharding(a->domain->exit))
            return false;
        put_sharding(w, t, 55, a->domain->entry);
        put_sharding(w, t, 54, a->domain->exit);
        return true;
    case ATTR_OPERAND_LAYOUT_CONSTRAINTS:
        wire_int(t, 56, 1);
        for (uint32_t i = 0; i < a->shapes.count; i++)
            writer_put_shape(w, t, 57, a->shapes.data[i]);
        return true;
    case ATTR_PARAMETER_REPLICATION: {
        Text m = writer_message(w);
        writer_put_ints(&m, 1, a->ints);
        wire_message(t, 61, &m);
        return true;
    }
    case ATTR_METADATA:
        return put_metadata(w, t, a->metadata);
    case ATTR_FRONTEND_ATTRIBUTES:
        writer_put_dict(w, t, 68, a->dict);
        return true;
    case ATTR_OUTPUT_TO_OPERAND_ALIASING:
        put_aliasing(w, t, a->aliasing);
        return true;
    default:
        return false;
    }
}
