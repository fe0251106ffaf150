/* Modules as HloModuleProto. Field numbers are those of xla/service/hlo.proto and xla_data.proto,
 * as the binaries of jaxlib write them; an attribute without a field goes as text. */
#include "frontend/proto/proto.h"
#include "ir/attribute/config.h"
#include "ir/attribute/replica_groups.h"
#include "ir/attribute/sharding.h"
#include "ir/attribute/stack_frames.h"
#include "ir/dtype.h"
#include "ir/print/print.h"
#include "ir/print/value.h"

typedef struct Writer {
    Arena *arena;
    int64_t *first_id; /* of each computation's instructions */
} Writer;

static Text make(Writer *w)
{
    Text t;
    text_init(&t, w->arena);
    return t;
}

static void put_ints(Text *t, uint32_t field, Ints ints)
{
    wire_ints(t, field, ints.data, ints.count);
}

/* -- shapes and literals ------------------------------------------------------------------ */

static void put_shape(Writer *w, Text *t, uint32_t field, const Shape *s);

static void put_layout(Writer *w, Text *t, const Layout *l)
{
    Text m = make(w);
    wire_ints(&m, 1, l->minor_to_major, l->rank);
    for (uint32_t i = 0; i < l->tile_count; i++) {
        Text tile = make(w);
        wire_ints(&tile, 1, l->tiles[i].dims, l->tiles[i].rank);
        wire_message(&m, 6, &tile);
    }
    if (l->element_bits != 0)
        wire_int(&m, 7, l->element_bits);
    if (l->memory_space != 0)
        wire_int(&m, 8, l->memory_space);
    if (l->index_type != DT_INVALID)
        wire_int(&m, 11, dtype_info[l->index_type].proto);
    if (l->pointer_type != DT_INVALID)
        wire_int(&m, 12, dtype_info[l->pointer_type].proto);
    if (l->metadata_prefix_bytes != 0)
        wire_int(&m, 15, l->metadata_prefix_bytes);
    wire_int(&m, 16, l->tail_padding_alignment);
    for (uint32_t i = 0; i < l->split_count; i++) {
        Text split = make(w);
        if (l->splits[i].dimension != 0)
            wire_int(&split, 1, l->splits[i].dimension);
        wire_ints(&split, 2, l->splits[i].indices, l->splits[i].count);
        wire_message(&m, 17, &split);
    }
    wire_message(t, 5, &m);
}

static int64_t type_number(const Shape *s)
{
    if (s->dtype == DT_TUPLE)
        return 13;
    if (s->dtype == DT_BUFFER)
        return 34;
    int64_t number = dtype_info[s->dtype].proto;
    return number != 0 ? number : PROTO_DTYPE + (int64_t)s->dtype;
}

static void put_shape(Writer *w, Text *t, uint32_t field, const Shape *s)
{
    Text m = make(w);
    wire_int(&m, 2, type_number(s));
    if (shape_is_array(s)) {
        wire_ints(&m, 3, s->dims, s->rank);
        put_layout(w, &m, s->layout);
        int64_t *dynamic = ARENA_ARRAY(w->arena, int64_t, s->rank);
        for (uint32_t i = 0; i < s->rank; i++)
            dynamic[i] = s->dynamic != NULL && s->dynamic[i];
        wire_ints(&m, 6, dynamic, s->rank);
    } else if (s->elements != NULL) {
        for (uint32_t i = 0; i < s->rank; i++)
            put_shape(w, &m, 4, s->elements[i]);
    }
    wire_message(t, field, &m);
}

static void put_elements(Writer *w, Text *t, const Literal *l)
{
    DType dtype = l->shape->dtype;
    uint32_t field = proto_literal_field(dtype);
    size_t size = dtype_info[dtype].storage, count = (size_t)l->count;
    Text data = make(w);
    bool varints =
        dtype == DT_S32 || dtype == DT_S64 || dtype == DT_U32 || dtype == DT_U64;
    if (varints || dtype_is_sub_byte(dtype)) {
        text_reserve(&data, count * 2);
        uint64_t mask =
            dtype_is_sub_byte(dtype) ? (1u << dtype_info[dtype].bits) - 1 : ~UINT64_C(0);
        for (size_t i = 0; i < count; i++) {
            uint64_t value = (uint64_t)literal_int(l, (int64_t)i);
            if (varints)
                wire_varint(&data, value);
            else
                text_char(&data, (char)(literal_bits(l, (int64_t)i) & mask));
        }
        wire_message(t, field, &data);
        return;
    }
    wire_bytes(t, field, l->data, count * size); /* little-endian, as in memory */
}

static bool has_elements_field(const Literal *l)
{
    if (!shape_is_tuple(l->shape))
        return !l->elided && proto_literal_field(l->shape->dtype) != 0;
    for (uint32_t i = 0; i < l->shape->rank; i++) {
        if (!has_elements_field(l->elements[i]))
            return false;
    }
    return true;
}

/* Data in the order of the layout, which the format wants; ours is row-major. */
static void *in_layout_order(Writer *w, const Literal *l)
{
    const Shape *s = l->shape;
    size_t size = dtype_info[s->dtype].storage;
    int64_t *strides = ARENA_ARRAY(w->arena, int64_t, s->rank), stride = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        strides[s->layout->minor_to_major[i]] = stride;
        stride *= s->dims[s->layout->minor_to_major[i]];
    }
    char *to = ARENA_ARRAY(w->arena, char, (size_t)l->count *size);
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = 0, remaining = i;
        for (uint32_t d = s->rank; d-- > 0; remaining /= s->dims[d])
            at += remaining % s->dims[d] * strides[d];
        memcpy(to + (size_t)at * size, (const char *)l->data + (size_t)i * size, size);
    }
    return to;
}

static void put_literal(Writer *w, Text *t, uint32_t field, const Literal *l)
{
    Text m = make(w);
    Layout unpacked;
    Shape shape = *l->shape;
    if (shape.layout !=
        NULL) { /* XLA's literals are not packed, whatever the instruction is */
        unpacked = *shape.layout;
        unpacked.element_bits = 0;
        shape.layout = &unpacked;
    }
    put_shape(w, &m, 1, &shape);
    if (shape_is_tuple(l->shape)) {
        for (uint32_t i = 0; i < l->shape->rank; i++)
            put_literal(w, &m, 10, l->elements[i]);
    } else if (l->count != 0) {
        Literal ordered = *l;
        if (l->shape->rank > 1 && !layout_is_default(l->shape->layout))
            ordered.data = in_layout_order(w, l);
        put_elements(w, &m, &ordered);
    }
    wire_message(t, field, &m);
}

/* -- attributes ----------------------------------------------------------------------------- */

static void put_window(Writer *w, Text *t, const Window *window)
{
    Text m = make(w);
    for (uint32_t i = 0; i < window->rank; i++) {
        const WindowDim *d = &window->dims[i];
        Text dim = make(w);
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
    Text m = make(w);
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
        Text dim = make(w);
        wire_int(&dim, 1, slice->dims[i].start);
        wire_int(&dim, 2, slice->dims[i].limit);
        wire_int(&dim, 3, slice->dims[i].stride);
        wire_message(t, 17, &dim);
    }
}

static void put_padding(Writer *w, Text *t, const Padding *padding)
{
    Text m = make(w);
    for (uint32_t i = 0; i < padding->rank; i++) {
        Text dim = make(w);
        wire_int(&dim, 1, padding->dims[i].low);
        wire_int(&dim, 2, padding->dims[i].high);
        wire_int(&dim, 3, padding->dims[i].interior);
        wire_message(&m, 1, &dim);
    }
    wire_message(t, 21, &m);
}

static bool put_groups(Writer *w, Text *t, const ReplicaGroups *g)
{
    Text m = make(w);
    switch (g->form) {
    case GROUPS_LISTS:
        for (uint32_t i = 0; i < g->lists.count; i++) {
            Text group = make(w);
            put_ints(&group, 1, g->lists.data[i]);
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
        Text pair = make(w);
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
    Text m = make(w);
    wire_int(&m, 1, kinds[s->kind]);
    if (s->kind == SHARDING_MAXIMAL)
        wire_ints(&m, 4, &s->device, 1);
    if (s->kind == SHARDING_TILED) {
        wire_ints(&m, 3, s->dims, s->rank);
        put_ints(&m, 4, s->devices);
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

static void put_number(Text *t, uint32_t field, int64_t value)
{
    if (value != 0)
        wire_int(t, field, value);
}

static bool put_metadata(Writer *w, Text *t, const Metadata *metadata)
{
    if (metadata->payload.length != 0)
        return false;
    Text m = make(w);
    put_text(&m, 1, metadata->op_type);
    put_text(&m, 2, metadata->op_name);
    put_text(&m, 3, metadata->source_file);
    put_number(&m, 4, metadata->source_line);
    put_ints(&m, 5, metadata->profile_types);
    put_text(&m, 12, metadata->deduplicated_name);
    put_number(&m, 15, metadata->stack_frame_id);
    put_text(&m, 16, metadata->scheduling_name);
    put_number(&m, 17, metadata->source_end_line);
    put_number(&m, 18, metadata->source_column);
    put_number(&m, 19, metadata->source_end_column);
    wire_message(t, 7, &m);
    return true;
}

static void put_dict(Writer *w, Text *t, uint32_t field, const Dict *dict)
{
    Text m = make(w);
    for (uint32_t i = 0; i < dict->count; i++) {
        Text entry = make(w);
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
        Text m = make(w);
        put_ints(&m, 1, e->output);
        put_number(&m, 2, e->operand);
        put_ints(&m, 3, e->input);
        wire_message(t, 74, &m);
    }
}

/* Attributes that share a message with others: gathered, and written at the end. */
typedef struct Gathered {
    uint32_t count;
    struct {
        uint32_t number;
        Text text;
    } messages[6];
} Gathered;

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

static bool put_gathered(Writer *w, Gathered *g, const Instruction *inst, const Attr *a)
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
        put_ints(t, field, a->ints);
    else
        wire_int(t, field, a->id == ATTR_ALGORITHM ? algorithms[a->i] : a->i);
    return true;
}

static void put_messages(Writer *w, Text *t, const Instruction *inst, Gathered *g)
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
        put_ints(t, field, a->ints);
    else if (kind == AK_STRING)
        wire_bytes(t, field, a->bytes.data, a->bytes.length);
    else if (kind == AK_CONFIG)
        wire_bytes(t, field, a->config->text.data, a->config->text.length);
    else
        wire_int(t, field, a->i + plus);
    return true;
}

/* True if the format has a field for this attribute. */
static bool put_attribute(Writer *w, Text *t, Gathered *g, const Instruction *inst,
                          const Attr *a)
{
    if (put_simple(t, a) || put_gathered(w, g, inst, a))
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
        put_shape(w, t, 29, a->shape);
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
            put_shape(w, t, 57, a->shapes.data[i]);
        return true;
    case ATTR_PARAMETER_REPLICATION: {
        Text m = make(w);
        put_ints(&m, 1, a->ints);
        wire_message(t, 61, &m);
        return true;
    }
    case ATTR_METADATA:
        return put_metadata(w, t, a->metadata);
    case ATTR_FRONTEND_ATTRIBUTES:
        put_dict(w, t, 68, a->dict);
        return true;
    case ATTR_OUTPUT_TO_OPERAND_ALIASING:
        put_aliasing(w, t, a->aliasing);
        return true;
    default:
        return false;
    }
}

/* -- instructions, computations, modules ------------------------------------------------------ */

static int64_t id_of(const Writer *w, const Instruction *inst)
{
    return w->first_id[inst->parent->id] + inst->id;
}

/* While: body, condition; the others as they count. */
static void put_callees(Text *t, const Instruction *inst)
{
    uint32_t count = inst_called_count(inst);
    int64_t *ids = ARENA_ARRAY(t->arena, int64_t, count);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = inst_called(inst, inst->op == OP_WHILE ? count - 1 - i : i)->id;
    wire_ints(t, 38, ids, count);
}

static void put_instruction(Writer *w, Text *t, const Instruction *inst)
{
    Text m = make(w), extra = make(w);
    Gathered g = {0};
    wire_string(&m, 1, inst->name);
    wire_string(&m, 2, op_info[inst->op].name);
    put_shape(w, &m, 3, inst->shape);
    if (inst->op == OP_PARAMETER)
        put_number(&m, 9, inst->parameter);
    wire_int(&m, 35, id_of(w, inst));
    int64_t *ids =
        ARENA_ARRAY(w->arena, int64_t, (size_t)inst->operand_count + inst->control_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        ids[i] = id_of(w, inst->operands[i]);
    wire_ints(&m, 36, ids, inst->operand_count);
    for (uint32_t i = 0; i < inst->control_count; i++)
        ids[i] = id_of(w, inst->control[i]);
    wire_ints(&m, 37, ids, inst->control_count);
    put_callees(&m, inst);
    if (inst->op == OP_CONSTANT && has_elements_field(inst->literal))
        put_literal(w, &m, 8, inst->literal);
    else if (inst->op == OP_CONSTANT)
        wire_string(&m, PROTO_LITERAL, literal_text(w->arena, inst->literal));
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        const Attr *a = &inst->attrs[i];
        AttrKind kind = attr_info[a->id].kind;
        if (kind == AK_COMPUTATION || kind == AK_COMPUTATIONS ||
            put_attribute(w, &m, &g, inst, a))
            continue;
        text_string(&extra, ", ");
        text_string(&extra, attr_info[a->id].name);
        text_char(&extra, '=');
        value_print(&extra, a, true);
    }
    if (inst->op == OP_TOPK) { /* there absence means false */
        if (!inst_has(inst, ATTR_IS_STABLE))
            wire_int(&m, 60, 1);
        if (!inst_has(inst, ATTR_LARGEST))
            wire_int(&m, 85, 1);
    }
    if (inst->op == OP_CUSTOM_CALL && !inst_has(inst, ATTR_API_VERSION))
        wire_int(&m, 77, 1);
    if (inst->op == OP_OUTFEED && !inst_has(inst, ATTR_OUTFEED_SHAPE))
        put_shape(w, &m, 29, inst->operands[0]->shape);
    if (inst->op == OP_SCAN)
        wire_int(&m, 96, inst_bool(inst, ATTR_IS_ASSOCIATIVE) ? 1 : 2);
    put_messages(w, &m, inst, &g);
    if (extra.length != 0)
        wire_message(&m, PROTO_TEXT, &extra);
    wire_message(t, 2, &m);
}

static void put_program_shape(Writer *w, Text *t, uint32_t count,
                              const Shape *const *parameters, const Shape *result)
{
    Text m = make(w);
    for (uint32_t i = 0; i < count; i++)
        put_shape(w, &m, 1, parameters[i]);
    put_shape(w, &m, 2, result);
    for (uint32_t i = 0; i < count; i++)
        wire_string(&m, 3, arena_printf(w->arena, "p%u", i));
    wire_message(t, 4, &m);
}

static void put_computation(Writer *w, Text *t, const Computation *comp)
{
    Text m = make(w);
    uint32_t count;
    Instruction **order = computation_post_order(comp, w->arena, &count);
    wire_string(&m, 1, comp->name);
    for (uint32_t i = 0; i < count; i++)
        put_instruction(w, &m, order[i]);
    const Shape **shapes = ARENA_ARRAY(w->arena, const Shape *, comp->parameter_count);
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        shapes[i] = comp->parameters[i]->shape;
    put_program_shape(w, &m, comp->parameter_count, shapes, comp->root->shape);
    wire_int(&m, 5, comp->id);
    wire_int(&m, 6, id_of(w, comp->root));
    if (strcmp(comp->execution_thread, "main") != 0)
        wire_string(&m, 8, comp->execution_thread);
    wire_message(t, 3, &m);
}

static void put_schedule(Writer *w, Text *t, const Module *m)
{
    Text schedule = make(w);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        int64_t *ids = ARENA_ARRAY(w->arena, int64_t, comp->instruction_count);
        uint32_t count = 0;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            ids[count++] = id_of(w, inst);
        }
        Text entry = make(w), sequence = make(w);
        wire_int(&entry, 1, comp->id);
        wire_ints(&sequence, 1, ids, count);
        wire_message(&entry, 2, &sequence);
        wire_message(&schedule, 1, &entry);
    }
    wire_message(t, 7, &schedule);
}

static void put_frames(Writer *w, Text *t, const StackFrames *f)
{
    Text m = make(w);
    for (uint32_t i = 0; i < f->file_count; i++)
        wire_bytes(&m, 1, f->files[i].data, f->files[i].length);
    for (uint32_t i = 0; i < f->function_count; i++)
        wire_bytes(&m, 2, f->functions[i].data, f->functions[i].length);
    for (uint32_t i = 0; i < f->location_count; i++) {
        const FileLocation *l = &f->locations[i];
        Text row = make(w);
        wire_int(&row, 1, l->file);
        wire_int(&row, 2, l->function);
        wire_int(&row, 3, l->line);
        wire_int(&row, 4, l->column);
        wire_int(&row, 5, l->end_line);
        wire_int(&row, 6, l->end_column);
        wire_message(&m, 3, &row);
    }
    for (uint32_t i = 0; i < f->frame_count; i++) {
        Text row = make(w);
        wire_int(&row, 1, f->frames[i].location);
        put_number(&row, 2, f->frames[i].parent);
        wire_message(&m, 4, &row);
    }
    wire_message(t, 17, &m);
}

static void put_aliases(Writer *w, Text *t, const ModuleConfig *config)
{
    Text m = make(w);
    for (uint32_t i = 0; i < config->input_output_alias.count; i++) {
        const AliasEntry *e = &config->input_output_alias.entries[i];
        Text entry = make(w);
        put_ints(&entry, 1, e->output);
        put_number(&entry, 2, e->operand);
        put_ints(&entry, 3, e->input);
        wire_int(&entry, 4, e->must ? 2 : 1);
        wire_message(&m, 1, &entry);
    }
    if (m.length != 0)
        wire_message(t, 8, &m);
    Text donors = make(w);
    for (uint32_t i = 0; i < config->donor_count; i++) {
        Text entry = make(w);
        put_number(&entry, 1, config->donors[i].parameter);
        put_ints(&entry, 2, config->donors[i].index);
        wire_message(&donors, 1, &entry);
    }
    if (donors.length != 0)
        wire_message(t, 18, &donors);
}

static void add_bools(Text *t, const char *name, Ints bools)
{
    for (uint32_t i = 0; i < bools.count; i++)
        text_printf(t, "%s%s", i == 0 ? name : ",",
                    bools.data[i] != 0 ? "true" : "false");
    text_string(t, bools.count != 0 ? "}" : "");
}

/* What stands in the header of the text and has no field. */
static void put_header(Writer *w, Text *t, const ModuleConfig *config)
{
    Text extra = make(w);
    if (config->replica_count != 1)
        text_printf(&extra, ", replica_count=%lld", (long long)config->replica_count);
    if (config->num_partitions != 1)
        text_printf(&extra, ", num_partitions=%lld", (long long)config->num_partitions);
    if (config->alias_passthrough_params)
        text_string(&extra, ", alias_passthrough_params=true");
    add_bools(&extra, ", allow_spmd_sharding_propagation_to_parameters={",
              config->propagate_to_parameters);
    add_bools(&extra, ", allow_spmd_sharding_propagation_to_output={",
              config->propagate_to_output);
    if (config->origin_recovery_table.length != 0)
        text_printf(&extra, ", origin_recovery_table={\n%s}",
                    config->origin_recovery_table.data);
    if (config->debug_attributes.length != 0)
        text_printf(&extra, ", debug_attributes={\n%s}", config->debug_attributes.data);
    if (extra.length != 0)
        wire_message(t, PROTO_TEXT, &extra);
}

const char *proto_print(Arena *a, const Module *m, size_t *length)
{
    Arena *scratch = arena_create();
    Writer w = {.arena = scratch};
    Text t;
    text_init(&t, a);
    w.first_id = ARENA_ARRAY(scratch, int64_t, m->computation_count);
    int64_t next = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        w.first_id[comp->id] = next;
        next += comp->instruction_count;
    }
    wire_string(&t, 1, m->name);
    wire_string(&t, 2, m->entry->name);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        put_computation(&w, &t, comp);
    }
    put_program_shape(&w, &t, m->config.entry_parameter_count, m->config.entry_parameters,
                      m->config.entry_result);
    wire_int(&t, 6, m->entry->id);
    if (m->config.is_scheduled)
        put_schedule(&w, &t, m);
    put_aliases(&w, &t, &m->config);
    if (m->config.stack_frames != NULL)
        put_frames(&w, &t, m->config.stack_frames);
    if (m->config.frontend_attributes != NULL)
        put_dict(&w, &t, 19, m->config.frontend_attributes);
    put_header(&w, &t, &m->config);
    arena_destroy(scratch);
    *length = t.length;
    return t.data;
}
