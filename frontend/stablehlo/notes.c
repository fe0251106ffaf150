/* What is said of operations besides what they compute: where they come from, how values are spread over
 * devices, attributes of the program that wrote them. */
#include <math.h>
#include <string.h>

#include "frontend/hlo/fragment.h"
#include "frontend/stablehlo/functions.h"
#include "ir/base/text.h"
#include "ir/dtype.h"

/* -- locations ------------------------------------------------------------------------------ */

static const MlirAttr *part(Converter *c, const MlirAttr *a, uint32_t i)
{
    return i < a->fields.count ? mlir_resolve(c->file, a->fields.entries[i].value) : NULL;
}

/* A line or column; HLO has 32 bits for it, what does not fit is unknown. */
static int64_t read_position(Converter *c, const MlirAttr *a)
{
    int64_t n = 0;
    return ask_int(c, a, &n) && n >= 0 && n <= INT32_MAX ? n : 0;
}

/* Names outermost first, the innermost file: "f"(callsite("g"("x.py":3:1) at ...)) is f of x.py:3. */
static void read_location(Converter *c, const MlirAttr *a, Metadata *out, uint32_t depth)
{
    a = mlir_resolve(c->file, a);
    if (a == NULL || a->kind != MLIR_STRUCT || depth > 64)
        return;
    const MlirAttr *first = part(c, a, 0);
    if (strcmp(a->text.data, "file") == 0) {
        if (out->source_file.length != 0 || first == NULL || first->kind != MLIR_STRING)
            return;
        out->source_file = first->text;
        out->source_line = read_position(c, part(c, a, 1));
        out->source_column = read_position(c, part(c, a, 2));
    } else if (strcmp(a->text.data, "name") == 0) {
        if (out->op_name.length == 0 && first != NULL && first->kind == MLIR_STRING)
            out->op_name = first->text;
        read_location(c, part(c, a, 1), out, depth + 1);
    } else { /* callsite: the callee; fused: the first that says something */
        for (uint32_t i = 0; i < a->fields.count && out->source_file.length == 0; i++)
            read_location(c, part(c, a, i), out, depth + 1);
    }
}

static bool is_printable(Bytes text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < 0x20)
            return false;
    return true;
}

/* An argument's location is its name in the user's program. */
const Metadata *argument_metadata(Converter *c, const MlirValue *argument)
{
    Metadata m = {0};
    if (argument->location != NULL)
        read_location(c, argument->location, &m, 0);
    if (m.op_name.length == 0 || !is_printable(m.op_name))
        return NULL;
    Metadata *out = ARENA_NEW(c->arena, Metadata);
    out->op_name = m.op_name;
    return out;
}

const Metadata *metadata_of(Converter *c, const MlirOp *op)
{
    if (op == c->metadata_op)
        return c->metadata;
    Metadata m = {0};
    read_location(c, op->location, &m, 0);
    c->metadata_op = op;
    c->metadata = NULL;
    if (!is_printable(m.op_name) || !is_printable(m.source_file) ||
        (m.op_name.length == 0 && m.source_file.length == 0))
        return NULL;
    const char *dot = strchr(op->name, '.');
    const char *type = dot != NULL ? dot + 1 : op->name;
    m.op_type = (Bytes){type, strlen(type)};
    c->metadata = arena_copy(c->arena, &m, sizeof m);
    return c->metadata;
}

/* -- frontend attributes -------------------------------------------------------------------- */

static void put_text(Converter *c, Text *t, const MlirAttr *a, uint32_t depth);

static void put_dict(Converter *c, Text *t, MlirDict dict, uint32_t depth)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < dict.count; i++) {
        text_printf(t, "%s%s = ", i != 0 ? ", " : "",
                    dict.entries[i].name != NULL ? dict.entries[i].name : "");
        put_text(c, t, dict.entries[i].value, depth + 1);
    }
    text_char(t, '}');
}

/* With a '.', and so that the same number is read; what is none as its bits. */
static void put_number(Text *t, const MlirAttr *a)
{
    bool typed = a->type != NULL && a->type->kind == MLIR_ELEMENT;
    DType type = typed ? a->type->shape->dtype : DT_F64;
    if (!isfinite(a->f)) {
        text_printf(t, "0x%0*llX", (int)(dtype_info[type].bits + 3) / 4,
                    (unsigned long long)number_from_double(type, a->f));
        return;
    }
    char digits[64];
    number_print_double(a->f, type == DT_F64 ? 17 : 9, digits);
    size_t whole = strcspn(digits, ".e");
    text_add(t, digits, whole);
    if (digits[whole] != '.')
        text_string(t, ".0");
    text_string(t, digits + whole);
}

static void put_string(Text *t, Bytes s)
{
    text_char(t, '"');
    for (size_t i = 0; i < s.length; i++) {
        unsigned char ch = (unsigned char)s.data[i];
        if (ch == '\\')
            text_string(t, "\\\\");
        else if (ch < 0x20 || ch >= 0x7f || ch == '"')
            text_printf(t, "\\%02X", ch);
        else
            text_char(t, (char)ch);
    }
    text_char(t, '"');
}

/* As MLIR writes it. */
static void put_text(Converter *c, Text *t, const MlirAttr *a, uint32_t depth)
{
    a = mlir_resolve(c->file, a);
    if (a == NULL || depth > MLIR_DEPTH)
        return;
    switch (a->kind) {
    case MLIR_UNIT:
        text_string(t, "unit");
        break;
    case MLIR_BOOL:
        text_string(t, a->i != 0 ? "true" : "false");
        break;
    case MLIR_INT:
        text_int(t, a->i);
        break;
    case MLIR_FLOAT:
        put_number(t, a);
        break;
    case MLIR_STRING:
        put_string(t, a->text);
        break;
    case MLIR_SYMBOL:
        text_printf(t, "@%s", a->text.data);
        break;
    case MLIR_TYPE:
        text_string(t, mlir_type_text(c->scratch, a->type));
        break;
    case MLIR_LIST:
        text_char(t, '[');
        for (uint32_t i = 0; i < a->list.count; i++) {
            text_string(t, i != 0 ? ", " : "");
            put_text(c, t, a->list.items[i], depth + 1);
        }
        text_char(t, ']');
        break;
    case MLIR_DICT:
        put_dict(c, t, a->dict, depth);
        break;
    case MLIR_DENSE:
        if (a->is_source)
            text_add(t, a->text.data, a->text.length);
        if (a->is_source && a->type != NULL)
            text_printf(t, " : %s", mlir_type_text(c->scratch, a->type));
        break;
    case MLIR_WORD:
    case MLIR_STRUCT:
    case MLIR_ALIAS:
    case MLIR_OPAQUE:
        text_add(t, a->text.data, a->text.length);
        break;
    }
    if ((a->kind == MLIR_INT || a->kind == MLIR_FLOAT) && a->type != NULL)
        text_printf(t, " : %s", mlir_type_text(c->scratch, a->type));
}

Bytes attribute_text(Converter *c, const MlirAttr *a)
{
    Text t;
    text_init(&t, c->arena);
    put_text(c, &t, a, 0);
    return (Bytes){t.data, t.length};
}

static void sort_entries(DictEntry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && strcmp(entries[k - 1].key, entries[k].key) > 0;
             k--) {
            DictEntry swap = entries[k];
            entries[k] = entries[k - 1];
            entries[k - 1] = swap;
        }
}

/* HLO writes a key without quotes. */
static bool is_key(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                            "0123456789.-");
    return n != 0 && text[n] == '\0' && strchr("0123456789.-", text[0]) == NULL;
}

static const Dict *make_dict(Converter *c, MlirDict from)
{
    DictEntry *entries = ARENA_ARRAY(c->arena, DictEntry, from.count + 1u);
    uint32_t count = 0;
    for (uint32_t i = 0; i < from.count; i++) {
        const MlirAttr *value = mlir_resolve(c->file, from.entries[i].value);
        if (from.entries[i].name == NULL || value == NULL)
            continue;
        if (!is_key(from.entries[i].name))
            convert_error(c,
                          "the frontend attribute \"%s\": HLO has names of letters, "
                          "digits, '_', '.' and '-'",
                          from.entries[i].name);
        Bytes bytes = value->kind == MLIR_STRING ? value->text : attribute_text(c, value);
        entries[count++] = (DictEntry){.key = from.entries[i].name, .value = bytes};
    }
    sort_entries(entries, count);
    Dict *dict = ARENA_NEW(c->arena, Dict);
    *dict = (Dict){count, entries};
    return dict;
}

const Dict *frontend_attributes(Converter *c, MlirDict attrs)
{
    const MlirAttr *a =
        mlir_resolve(c->file, mlir_find(attrs, "mhlo.frontend_attributes"));
    return a != NULL && a->kind == MLIR_DICT && a->dict.count != 0 ? make_dict(c, a->dict)
                                                                   : NULL;
}

/* A call of what a composite stands for: HLO keeps its name, attributes and version as text. */
void set_composite(Converter *c, const MlirOp *op, Instruction *call)
{
    const MlirAttr *attrs = ask(c, op, NULL, "composite_attributes");
    Text t;
    text_init(&t, c->arena);
    put_dict(c, &t,
             attrs != NULL && attrs->kind == MLIR_DICT ? attrs->dict : (MlirDict){0}, 0);
    const char *name = ask_symbol(c, op, "name");
    if (name == NULL || *name == '\0')
        return;
    const char *version =
        arena_printf(c->arena, "%lld", (long long)ask_int_or(c, op, "version", 0));
    DictEntry *entries = ARENA_ARRAY(c->arena, DictEntry, 3);
    entries[0] = (DictEntry){.key = "composite.attributes", .value = {t.data, t.length}};
    entries[1] = (DictEntry){.key = "composite.name", .value = {name, strlen(name)}};
    entries[2] =
        (DictEntry){.key = "composite.version", .value = {version, strlen(version)}};
    Dict *dict = ARENA_NEW(c->arena, Dict);
    *dict = (Dict){3, entries};
    inst_set(call, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
    inst_set_int(call, ATTR_IS_COMPOSITE, 1);
}

void add_frontend_attribute(Converter *c, Instruction *inst, const char *key, Bytes value)
{
    const Attr *a = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    uint32_t count = a != NULL ? a->dict->count : 0;
    DictEntry *entries = ARENA_ARRAY(c->arena, DictEntry, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = a->dict->entries[i];
        if (strcmp(entries[i].key, key) == 0)
            return;
    }
    entries[count] = (DictEntry){.key = key, .value = value};
    sort_entries(entries, count + 1);
    Dict *dict = ARENA_NEW(c->arena, Dict);
    *dict = (Dict){count + 1, entries};
    inst_set(inst, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

/* -- shardings ------------------------------------------------------------------------------ */

static const Sharding *sharding_of(Converter *c, MlirDict attrs)
{
    const MlirAttr *sdy = mlir_resolve(c->file, mlir_find(attrs, "sdy.sharding"));
    if (sdy != NULL)
        return sdy_sharding(c, sdy);
    const MlirAttr *a = mlir_resolve(c->file, mlir_find(attrs, "mhlo.sharding"));
    if (a == NULL || a->kind != MLIR_STRING || a->text.length == 0)
        return NULL;
    const char *wrong;
    const Sharding *s = fragment_sharding(c->arena, a->text, &wrong);
    if (s == NULL)
        convert_error(c, "mhlo.sharding \"%s\": %s", a->text.data, wrong);
    return s;
}

/* Those of the first, and of the second what the first does not have. */
static const Dict *joined(Converter *c, const Dict *first, const Dict *second)
{
    DictEntry *entries =
        ARENA_ARRAY(c->arena, DictEntry, (size_t)first->count + second->count + 1u);
    uint32_t count = first->count;
    for (uint32_t i = 0; i < first->count; i++)
        entries[i] = first->entries[i];
    for (uint32_t i = 0; i < second->count; i++) {
        bool has = false;
        for (uint32_t k = 0; k < first->count; k++)
            has |= strcmp(first->entries[k].key, second->entries[i].key) == 0;
        if (!has)
            entries[count++] = second->entries[i];
    }
    sort_entries(entries, count);
    Dict *dict = ARENA_NEW(c->arena, Dict);
    *dict = (Dict){count, entries};
    return dict;
}

void set_dict_notes(Converter *c, MlirDict attrs, Instruction *inst)
{
    if (attrs.count == 0 || inst == NULL)
        return;
    const Sharding *s = sharding_of(c, attrs);
    if (s != NULL && shape_is_tuple(inst->shape))
        s = sharding_for_leaves(c->arena, s, shape_leaf_count(inst->shape));
    if (s != NULL)
        inst_set(inst, (Attr){.id = ATTR_SHARDING, .sharding = s});
    const Dict *dict = frontend_attributes(c, attrs);
    const Attr *has = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    if (dict != NULL && has != NULL)
        dict = joined(c, has->dict, dict);
    if (dict != NULL)
        inst_set(inst, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

void set_notes(Converter *c, const MlirOp *op, Instruction *inst)
{
    set_dict_notes(c, op->attrs, inst);
}
