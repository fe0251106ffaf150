/* Attributes of HloModuleProto as text: an opcode's own by its row, and those of all. */
#include <string.h>

#include "frontend/proto/reader.h"
#include "ir/print/value.h"

#define GLOBAL_IDS_FIELD 71 /* use_global_device_ids */

/* -- attributes with messages of their own --------------------------------------------------- */

static void put_window(Reader *r, Message window)
{
    static const struct {
        const char *name;
        uint32_t field, second; /* pad has two */
    } parts[] = {{"size=", 1, 0},        {" stride=", 2, 0},
                 {" pad=", 3, 4},        {" lhs_dilate=", 6, 0},
                 {" rhs_dilate=", 5, 0}, {" rhs_reversal=", 7, 0}};
    Text *t = &r->t;
    text_char(t, '{');
    for (size_t k = 0; window.count != 0 && k < sizeof parts / sizeof *parts; k++) {
        text_string(t, parts[k].name);
        bool first = true;
        for (size_t i = 0; i < window.count; i++) {
            if (window.fields[i].number != 1)
                continue;
            Message dim = message_scan(r, window.fields[i].bytes);
            text_string(t, first ? "" : "x");
            first = false;
            text_int(t, message_int(dim, parts[k].field));
            if (parts[k].second != 0)
                text_printf(t, "_%lld", (long long)message_int(dim, parts[k].second));
        }
    }
    text_char(t, '}');
}

static void put_label(Reader *r, Message m, const char *letters, uint32_t first,
                      uint32_t second, uint32_t spatial)
{
    enum { RANK_MAX = 32 };
    Ints positions = message_ints(r, m, spatial);
    char text[RANK_MAX + 1];
    size_t rank = 0;
    bool fits = positions.count <= 10;
    memset(text, '?', sizeof text); /* a dimension that nothing names */
    for (uint32_t i = 0; fits && i < positions.count + 2; i++) {
        int64_t at = i == 0   ? message_int(m, first)
                     : i == 1 ? message_int(m, second)
                              : positions.data[i - 2];
        fits = at >= 0 && at < RANK_MAX && text[at] == '?';
        if (!fits)
            break;
        text[at] = i < 2 ? letters[i] : "0123456789"[i - 2];
        rank = (size_t)at >= rank ? (size_t)at + 1 : rank;
    }
    if (!fits)
        reader_trouble(r, "the dimension numbers of a convolution are wrong");
    text_add(&r->t, text, rank);
}

static void put_labels(Reader *r, Message m)
{
    put_label(r, m, "bf", 7, 8, 11);
    text_char(&r->t, '_');
    put_label(r, m, "io", 3, 4, 6);
    text_string(&r->t, "->");
    put_label(r, m, "bf", 9, 10, 12);
}

static void put_attribute_name(Reader *r, AttrId id)
{
    text_string(&r->t, ", ");
    text_string(&r->t, attr_info[id].name);
    text_char(&r->t, '=');
}

/* One list after the other, as many numbers each as the result has dimensions. */
static void put_permute_sizes(Reader *r, AttrId id, Message inst)
{
    Ints sizes = message_ints(r, inst, 20);
    Message shape = message_part(r, inst, 3);
    if (message_int(shape, 2) == 13)
        shape = message_part(r, shape, 4);
    uint32_t rank = message_ints(r, shape, 3).count;
    if (sizes.count == 0)
        return;
    if (rank == 0 || sizes.count % rank != 0)
        rank = sizes.count;
    put_attribute_name(r, id);
    for (uint32_t i = 0; i < sizes.count; i += rank) {
        text_string(&r->t, i == 0 ? "{{" : ",{");
        reader_put_list(&r->t, (Ints){sizes.data + i, rank});
        text_char(&r->t, '}');
        if (sizes.count - i <= rank)
            break;
    }
    text_char(&r->t, '}');
}

/* From one leaf of an origin's tree to the next, by their positions; NULL: the begin, the end. */
static void put_origin_step(Reader *r, const Ints *from, const Ints *to)
{
    uint32_t common = 0, up = from != NULL ? from->count : 0,
             down = to != NULL ? to->count : 0;
    if (from != NULL && to != NULL) {
        while (common < up && common < down && from->data[common] == to->data[common])
            common++;
        if (common == up || common == down) {
            reader_trouble(r, "the leaves of an origin are in no order");
            return;
        }
        common++;
    }
    for (; up > common; up--)
        text_char(&r->t, ')');
    text_string(&r->t, from != NULL && to != NULL ? ", " : "");
    for (; down > common; down--)
        text_char(&r->t, '(');
}

void reader_put_origin_array(Reader *r, Message array)
{
    Ints index = message_ints(r, array, 2);
    escaped_print(&r->t, message_bytes(array, 1));
    if (index.count == 0)
        return;
    text_string(&r->t, " {");
    reader_put_list(&r->t, index);
    text_char(&r->t, '}');
}

static void put_origin(Reader *r, Message origin)
{
    Ints last = {0};
    bool first = true;
    if (message_int(origin, 2) != 0) {
        text_string(&r->t, "{[synthetic_call]}");
        return;
    }
    text_char(&r->t, '{');
    for (size_t i = 0; i < origin.count; i++) {
        if (origin.fields[i].number != 1)
            continue;
        Message leaf = message_scan(r, origin.fields[i].bytes),
                array = message_part(r, leaf, 2);
        Ints position = message_ints(r, leaf, 1);
        put_origin_step(r, first ? NULL : &last, &position);
        text_char(&r->t, '{');
        if (message_find(leaf, 2) != NULL)
            reader_put_origin_array(r, array);
        text_char(&r->t, '}');
        last = position;
        first = false;
    }
    if (!first)
        put_origin_step(r, &last, NULL);
    text_char(&r->t, '}');
}

static void put_sparsity_side(Reader *r, Message side, const char *name)
{
    if (side.count != 0)
        text_printf(&r->t, "%s={sparsity=%lldx%lld dimension=%lld stride=%lld} ", name,
                    (long long)message_int(side, 1), (long long)message_int(side, 2),
                    (long long)message_int(side, 3), (long long)message_int(side, 4));
}

static void put_pairs(Reader *r, AttrId id, Message inst)
{
    bool first = true;
    put_attribute_name(r, id);
    text_char(&r->t, '{');
    for (size_t i = 0; i < inst.count; i++) {
        if (inst.fields[i].number != 52)
            continue;
        Message pair = message_scan(r, inst.fields[i].bytes);
        text_printf(&r->t, "%s{%lld,%lld}", first ? "" : ",",
                    (long long)message_int(pair, 1), (long long)message_int(pair, 2));
        first = false;
    }
    text_char(&r->t, '}');
}

static void put_rows(Reader *r, Message m, uint32_t field, const char *open,
                     const char *join, const char *close, const char *format)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        Message row = message_scan(r, m.fields[i].bytes);
        text_string(&r->t, first ? "" : join);
        text_string(&r->t, open);
        for (uint32_t k = 1; k <= 3; k++) {
            text_string(&r->t, k == 1 ? "" : format);
            text_int(&r->t, message_int(row, k));
        }
        text_string(&r->t, close);
        first = false;
    }
}

void reader_put_aliasing(Reader *r, Message m, uint32_t field, bool kinds)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        Message e = message_scan(r, m.fields[i].bytes);
        text_string(&r->t, first ? "{" : ", {");
        reader_put_list(&r->t, message_ints(r, e, 1));
        text_printf(&r->t, "}: (%lld, {", (long long)message_int(e, 2));
        reader_put_list(&r->t, message_ints(r, e, 3));
        text_string(&r->t, !kinds                   ? "})"
                           : message_int(e, 4) == 2 ? "}, must-alias)"
                                                    : "}, may-alias)");
        first = false;
    }
}

void reader_put_dict(Reader *r, Message m)
{
    bool first = true;
    text_char(&r->t, '{');
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 1)
            continue;
        Message entry = message_scan(r, m.fields[i].bytes);
        Bytes key = message_bytes(entry, 1);
        text_string(&r->t, first ? "" : ",");
        text_add(&r->t, key.data, key.length);
        text_char(&r->t, '=');
        config_print(&r->t, message_bytes(entry, 2));
        first = false;
    }
    text_char(&r->t, '}');
}

/* -- attributes by the opcode's row ------------------------------------------------------------ */

static void put_enum(Reader *r, AttrId id, int64_t value)
{
    int64_t count = 0;
    while (attr_info[id].names[count] != NULL)
        count++;
    if (value < 0 || value >= count)
        reader_trouble(r, "an enumeration has an unknown value");
    else
        text_string(&r->t, attr_info[id].names[value]);
}

/* An attribute that is one number, list or string in field `number` of `m`. */
static void put_plain(Reader *r, AttrId id, Message m, uint32_t number, int64_t minus)
{
    put_attribute_name(r, id);
    int64_t value = message_int(m, number) - minus;
    switch (attr_info[id].kind) {
    case AK_BOOL:
        text_string(&r->t, value != 0 ? "true" : "false");
        break;
    case AK_ENUM:
        put_enum(r, id, value);
        break;
    case AK_INTS:
        ints_print(&r->t, message_ints(r, m, number));
        break;
    case AK_ENUMS: {
        Ints values = message_ints(r, m, number);
        for (uint32_t i = 0; i < values.count; i++) {
            text_string(&r->t, i == 0 ? "{" : ",");
            put_enum(r, id, values.data[i]);
        }
        text_string(&r->t, values.count == 0 ? "{}" : "}");
        break;
    }
    case AK_STRING:
        escaped_print(&r->t, message_bytes(m, number));
        break;
    case AK_CONFIG:
        config_print(&r->t, message_bytes(m, number));
        break;
    default:
        text_int(&r->t, value);
        break;
    }
}

static void put_algorithm(Reader *r, Message precision)
{
    static const int64_t ours[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 9};
    int64_t number = message_int(precision, 2);
    if (number < 0 || number > 13)
        reader_trouble(r, "a dot has an unknown algorithm");
    else if (number != 0)
        text_printf(&r->t, ", algorithm=%s",
                    attr_info[ATTR_ALGORITHM].names[ours[number]]);
}

/* Attributes whose field is in a message of several. */
static bool put_nested(Reader *r, OpCode op, const OpAttr *row, Message inst)
{
    uint32_t message, field;
    if (!proto_nested_field(op, row->id, &message, &field))
        return false;
    Message m = message_part(r, inst, message);
    if (message == 90 && field <= 4)
        m = message_part(r, m, 1);
    else if (message == 90)
        field -= 3;
    if (row->id == ATTR_ALGORITHM) {
        put_algorithm(r, m);
        return true;
    }
    if (message_find(m, field) != NULL || row->rule == ATTR_REQUIRED)
        put_plain(r, row->id, m, field, 0);
    return true;
}

/* `name=` and a value that put_x prints, if the message has the field. */
static void put_with(Reader *r, AttrId id, Message inst, uint32_t number,
                     void (*put)(Reader *r, Message m))
{
    if (message_find(inst, number) == NULL)
        return;
    put_attribute_name(r, id);
    put(r, message_part(r, inst, number));
}

/* -- attributes with a form of their own -------------------------------------------------------- */

/* 14 holds the dimensions of several opcodes; these have one. */
static void put_dimension(Reader *r, AttrId id, Message inst)
{
    Ints dims = message_ints(r, inst, 14);
    if (dims.count != 0)
        text_printf(&r->t, ", %s=%lld", attr_info[id].name, (long long)dims.data[0]);
}

static void put_associative(Reader *r, AttrId id, Message inst)
{
    put_attribute_name(r, id);
    text_string(&r->t, message_int(inst, 96) == 1 ? "true" : "false"); /* 2: false */
}

static void put_slice(Reader *r, AttrId id, Message inst)
{
    put_attribute_name(r, id);
    text_char(&r->t, '{');
    put_rows(r, inst, 17, "[", ", ", "]", ":");
    text_char(&r->t, '}');
}

static void put_padding(Reader *r, AttrId id, Message inst)
{
    Message config = message_part(r, inst, 21);
    put_attribute_name(r, id);
    put_rows(r, config, 1, "", "x", "", "_");
    text_string(&r->t, config.count == 0 ? "\"\"" : "");
}

static void put_epsilon(Reader *r, AttrId id, Message inst)
{
    char digits[NUMBER_TEXT_MAX];
    put_attribute_name(r, id);
    text_add(&r->t, digits, number_print_double(message_double(inst, 24), 9, digits));
}

/* An enumeration that stands as its word. */
static void put_word(Reader *r, AttrId id, Message inst)
{
    uint32_t field = id == ATTR_KIND ? 11 : id == ATTR_DIRECTION ? 63 : 72;
    Bytes word = message_bytes(inst, field);
    if (word.length == 0)
        return;
    put_attribute_name(r, id);
    text_add(&r->t, word.data, word.length);
}

static void put_groups(Reader *r, AttrId id, Message inst)
{
    if (message_find(inst, 87) == NULL && message_find(inst, 92) == NULL &&
        message_find(inst, 49) == NULL && message_find(inst, 93) == NULL)
        return;
    put_attribute_name(r, id);
    reader_put_groups(r, inst);
}

static void put_domain(Reader *r, AttrId id, Message inst)
{
    if (message_find(inst, 54) == NULL)
        return;
    put_attribute_name(r, id);
    text_string(&r->t, "{kind=\"sharding\", entry=");
    reader_put_sharding(r, message_part(r, inst, 55));
    text_string(&r->t, ", exit=");
    reader_put_sharding(r, message_part(r, inst, 54));
    text_char(&r->t, '}');
}

static void put_output_aliasing(Reader *r, AttrId id, Message inst)
{
    if (message_find(inst, 74) == NULL)
        return;
    put_attribute_name(r, id);
    text_char(&r->t, '{');
    reader_put_aliasing(r, inst, 74, false);
    text_char(&r->t, '}');
}

static void put_operand_layouts(Reader *r, AttrId id, Message inst)
{
    bool first = true;
    if (message_int(inst, 56) == 0)
        return;
    put_attribute_name(r, id);
    text_char(&r->t, '{');
    for (size_t i = 0; i < inst.count; i++) {
        if (inst.fields[i].number != 57)
            continue;
        text_string(&r->t, first ? "" : ", ");
        first = false;
        reader_put_shape(r, message_scan(r, inst.fields[i].bytes));
    }
    text_char(&r->t, '}');
}

static void put_sparsity(Reader *r, AttrId id, Message inst)
{
    Message m = message_part(r, inst, 98);
    if (m.count == 0)
        return;
    put_attribute_name(r, id);
    text_char(&r->t, '{');
    put_sparsity_side(r, message_part(r, m, 1), "lhs");
    put_sparsity_side(r, message_part(r, m, 2), "rhs");
    text_char(&r->t, '}');
}

static void put_accuracy(Reader *r, AttrId id, Message inst)
{
    Message m = message_part(r, inst, 91), tolerance = message_part(r, m, 2);
    if (message_int(m, 1) == 1) {
        put_attribute_name(r, id);
        text_string(&r->t, "{mode=highest}");
    }
    if (tolerance.count != 0) {
        put_attribute_name(r, id);
        text_printf(&r->t, "{tolerance={atol=%.9g,rtol=%.9g,ulps=%lld}}",
                    message_double(tolerance, 1), message_double(tolerance, 2),
                    (long long)message_int(tolerance, 3));
    }
}

static void put_literal(Reader *r, Message literal)
{
    reader_put_literal(r, literal, true);
}

/* Those that are one message, by its field: put_with. Of the others `whole` prints all. What has no row stands in the extra text, if anywhere. */
static const struct {
    AttrId id;
    uint32_t field;
    void (*part)(Reader *r, Message m);
    void (*whole)(Reader *r, AttrId id, Message inst);
} special[] = {
    {ATTR_WINDOW, 15, put_window, NULL},
    {ATTR_DIM_LABELS, 16, put_labels, NULL},
    {ATTR_OUTFEED_SHAPE, 29, reader_put_shape, NULL},
    {ATTR_LITERAL, 8, put_literal, NULL},
    {ATTR_IOTA_DIMENSION, 0, NULL, put_dimension},
    {ATTR_INFERRED_DIMENSION, 0, NULL, put_dimension},
    {ATTR_IS_ASSOCIATIVE, 0, NULL, put_associative},
    {ATTR_SLICE, 0, NULL, put_slice},
    {ATTR_PADDING, 0, NULL, put_padding},
    {ATTR_EPSILON, 0, NULL, put_epsilon},
    {ATTR_KIND, 0, NULL, put_word},
    {ATTR_DIRECTION, 0, NULL, put_word},
    {ATTR_TYPE, 0, NULL, put_word},
    {ATTR_REPLICA_GROUPS, 0, NULL, put_groups},
    {ATTR_SOURCE_TARGET_PAIRS, 0, NULL, put_pairs},
    {ATTR_DOMAIN, 0, NULL, put_domain},
    {ATTR_OUTPUT_TO_OPERAND_ALIASING, 0, NULL, put_output_aliasing},
    {ATTR_OPERAND_LAYOUT_CONSTRAINTS, 0, NULL, put_operand_layouts},
    {ATTR_PERMUTE_SLICE_SIZES, 0, NULL, put_permute_sizes},
    {ATTR_SPARSITY_CONFIG, 0, NULL, put_sparsity},
    {ATTR_RESULT_ACCURACY, 0, NULL, put_accuracy},
};

static void put_special(Reader *r, AttrId id, Message inst)
{
    size_t i = 0, count = sizeof special / sizeof *special;
    while (i < count && special[i].id != id)
        i++;
    if (i == count)
        return;
    if (special[i].whole != NULL)
        special[i].whole(r, id, inst);
    else
        put_with(r, id, inst, special[i].field, special[i].part);
}

void reader_put_attribute(Reader *r, OpCode op, const OpAttr *row, Message inst)
{
    uint32_t field;
    int64_t plus;
    if (row->rule == ATTR_ACCEPTED || (row->id == ATTR_DIMENSIONS && op == OP_MAP))
        return;
    if (proto_plain_field(row->id, &field, &plus)) {
        bool zero = message_find(inst, field) == NULL;
        if (row->id == ATTR_CONSTRAIN_LAYOUT && op == OP_CUSTOM_CALL)
            return;
        /* channel 0 is not written by others, but global numbers tell that there is one */
        bool implied =
            row->id == ATTR_CHANNEL_ID && message_int(inst, GLOBAL_IDS_FIELD) != 0;
        if (!zero || implied || row->rule == ATTR_REQUIRED || row->rule == ATTR_SHOWN)
            put_plain(r, row->id, inst, field, zero ? 0 : plus);
    } else if (!put_nested(r, op, row, inst)) {
        put_special(r, row->id, inst);
    }
}

void reader_put_callees(Reader *r, OpCode op, Message inst, bool by_pred)
{
    Ints ids = message_ints(r, inst, 38);
    uint32_t next = 0;
    if (op == OP_WHILE && ids.count == 2) {
        text_string(&r->t, ", condition=");
        reader_put_name(r, &r->computations, (uint64_t)ids.data[1]);
        text_string(&r->t, ", body=");
        reader_put_name(r, &r->computations, (uint64_t)ids.data[0]);
        return;
    }
    for (const OpAttr *row = op_info[op].attrs; row->id != ATTR_COUNT; row++) {
        AttrKind kind = attr_info[row->id].kind;
        bool other =
            op == OP_CONDITIONAL && by_pred == (row->id == ATTR_BRANCH_COMPUTATIONS);
        if (row->rule == ATTR_ACCEPTED || other || next >= ids.count)
            continue;
        if (kind == AK_COMPUTATION) {
            put_attribute_name(r, row->id);
            reader_put_name(r, &r->computations, (uint64_t)ids.data[next++]);
        } else if (kind == AK_COMPUTATIONS) {
            put_attribute_name(r, row->id);
            text_char(&r->t, '{');
            for (bool first = true; next < ids.count; first = false) {
                text_string(&r->t, first ? "" : ", ");
                reader_put_name(r, &r->computations, (uint64_t)ids.data[next++]);
            }
            text_char(&r->t, '}');
        }
    }
}

void reader_put_shared(Reader *r, Message inst)
{
    Text *t = &r->t;
    put_with(r, ATTR_SHARDING, inst, 40, reader_put_sharding);
    if (message_part(r, inst, 68).count != 0)
        put_with(r, ATTR_FRONTEND_ATTRIBUTES, inst, 68, reader_put_dict);
    Ints controls = message_ints(r, inst, 37);
    for (uint32_t i = 0; i < controls.count; i++) {
        text_string(t, i == 0 ? ", control-predecessors={" : ", ");
        reader_put_name(r, &r->instructions, (uint64_t)controls.data[i]);
    }
    text_string(t, controls.count != 0 ? "}" : "");
    Ints replication = message_ints(r, message_part(r, inst, 61), 1);
    for (uint32_t i = 0; i < replication.count; i++)
        text_printf(t, "%s%s", i == 0 ? ", parameter_replication={" : ",",
                    replication.data[i] != 0 ? "true" : "false");
    text_string(t, replication.count != 0 ? "}" : "");
    if (message_part(r, inst, 88).count != 0)
        put_with(r, ATTR_ORIGIN, inst, 88, put_origin);
    Metadata metadata = reader_metadata(r, message_part(r, inst, 7));
    if (metadata_is_shown(&metadata)) {
        text_string(t, ", metadata={");
        metadata_print(t, &metadata);
        text_char(t, '}');
    }
    Bytes extra = message_bytes(inst, PROTO_TEXT);
    Bytes config = message_find(inst, 43) != NULL
                       ? message_bytes(inst, 43)
                       : reader_payload(r, message_part(r, inst, 99));
    if (config.length != 0) {
        text_string(t, ", backend_config=");
        config_print(t, config);
    }
    text_add(t, extra.data, extra.length);
}
