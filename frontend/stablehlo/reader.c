/* Actions of the grammar of MLIR's text, first half: types, attributes and names. */
#include "frontend/stablehlo/reader.h"

#include <stdlib.h>

#include "frontend/stablehlo/mlir.tab.h"
#include "ir/base/text.h"

bool read_deeper(MlirReader *r, Span at)
{
    if (r->depth++ < MLIR_DEPTH)
        return true;
    diag_error(r->diag, at, "brackets are nested deeper than %d levels", MLIR_DEPTH);
    return false;
}

/* -- names and strings --------------------------------------------------------------------- */

static bool is_quoted(const MlirReader *r, Span at)
{
    return at.end - at.begin >= 2 && r->text[at.end - 1] == '"';
}

const char *read_name(MlirReader *r, Span at)
{
    char first = r->text[at.begin];
    if (first == '%' || first == '@' || first == '#' || first == '!')
        at.begin++;
    if (is_quoted(r, at)) {
        Bytes text = read_string(r, at);
        return intern_text(r->intern, text.data, strlen(text.data));
    }
    return intern_text(r->intern, r->text + at.begin, at.end - at.begin);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Bytes read_string(MlirReader *r, Span at)
{
    const char *from = r->text + at.begin + 1, *end = r->text + at.end - 1;
    char *data = arena_alloc(r->arena, (size_t)(end - from) + 1);
    size_t length = 0;
    while (from < end) {
        char c = *from++;
        if (c != '\\') {
            data[length++] = c;
            continue;
        }
        int high = hex_digit(*from), low = end - from > 1 ? hex_digit(from[1]) : -1;
        if (high >= 0 && low >= 0) {
            data[length++] = (char)(high * 16 + low);
            from += 2;
        } else {
            c = *from++;
            data[length++] = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
    }
    return (Bytes){data, length};
}

/* -- types --------------------------------------------------------------------------------- */

static TypeMemo *memo_slot(MlirReader *r, uint32_t hash, const char *text, size_t length)
{
    size_t mask = r->memo_capacity - 1, i = hash & mask;
    for (; r->memo[i].text != NULL; i = (i + 1) & mask)
        if (r->memo[i].hash == hash && r->memo[i].length == length &&
            memcmp(r->memo[i].text, text, length) == 0)
            break;
    return &r->memo[i];
}

static void memo_grow(MlirReader *r)
{
    TypeMemo *old = r->memo;
    size_t capacity = r->memo_capacity;
    r->memo_capacity = capacity == 0 ? 256 : capacity * 2;
    r->memo = ARENA_ARRAY(r->scratch, TypeMemo, r->memo_capacity);
    for (size_t i = 0; i < capacity; i++)
        if (old[i].text != NULL)
            *memo_slot(r, old[i].hash, old[i].text, old[i].length) = old[i];
}

const MlirType *read_type(MlirReader *r, Span at)
{
    const char *text = r->text + at.begin;
    size_t length = at.end - at.begin;
    if (r->memo_count * 2 >= r->memo_capacity)
        memo_grow(r);
    uint32_t hash = text_hash(text, length);
    TypeMemo *slot = memo_slot(r, hash, text, length);
    if (slot->text == NULL) {
        const MlirType *type = mlir_parse_type(r->arena, r->intern, text, length);
        if (type == NULL) {
            static const char *const ours[] = {"tensor<", "complex<", "!quant.uniform"};
            type = mlir_other(r->arena, text, length);
            for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
                if (strncmp(type->text, ours[i], strlen(ours[i])) == 0 &&
                    strncmp(type->text, "tensor<*", 8) != 0)
                    diag_error(r->diag, at, "%s is no type that a program can have",
                               type->text);
        }
        *slot = (TypeMemo){hash, (uint32_t)length, text, type};
        r->memo_count++;
    }
    return slot->type;
}

const MlirType *read_type_alias(MlirReader *r, Span at)
{
    const char *name = read_name(r, at);
    for (size_t i = 0; i < r->type_aliases.count; i++)
        if (r->type_aliases.data[i].name == name)
            return r->type_aliases.data[i].value->type;
    diag_error(r->diag, at, "there is no type alias !%s", name);
    return mlir_other(r->arena, name, strlen(name));
}

/* The last types of the stack, popped: they lie there until the next push. */
static const MlirType *const *pop_types(MlirReader *r, size_t count)
{
    r->types.count -= count;
    return r->types.data + r->types.count;
}

const MlirType *read_tuple(MlirReader *r, size_t count)
{
    return mlir_tuple(r->arena, r->intern, (uint32_t)count, pop_types(r, count));
}

const MlirType *read_function(MlirReader *r, size_t inputs, size_t results)
{
    const MlirType *const *types = pop_types(r, inputs + results);
    return mlir_function(r->arena, (uint32_t)inputs, types, (uint32_t)results,
                         types + inputs);
}

/* -- attributes ---------------------------------------------------------------------------- */

static MlirAttr *attr_new(MlirReader *r, MlirAttrKind kind, Span at)
{
    MlirAttr *a = ARENA_NEW(r->arena, MlirAttr);
    a->kind = kind;
    a->span = at;
    return a;
}

const MlirAttr *read_attr(MlirReader *r, MlirAttrKind kind, Span at)
{
    return attr_new(r, kind, at);
}

const MlirAttr *read_text_attr(MlirReader *r, MlirAttrKind kind, Span at)
{
    MlirAttr *a = attr_new(r, kind, at);
    if (kind == MLIR_STRING && is_quoted(r, at) && r->text[at.begin] == '"') {
        a->text = read_string(r, at);
    } else {
        a->text.data = read_name(r, at);
        a->text.length = strlen(a->text.data);
    }
    return a;
}

const MlirAttr *read_integer(MlirReader *r, Span at, const MlirType *type)
{
    MlirAttr *a = attr_new(r, MLIR_INT, at);
    const char *s = r->text + at.begin;
    bool negative = *s == '-';
    size_t length = at.end - at.begin - negative;
    s += negative;
    bool hex = length > 2 && s[1] == 'x';
    uint64_t value = 0;
    for (size_t i = hex ? 2 : 0; i < length; i++) {
        uint64_t base = hex ? 16 : 10, digit = (uint64_t)hex_digit(s[i]);
        if (value > (UINT64_MAX - digit) / base) {
            diag_error(r->diag, at, "the integer is too large");
            break;
        }
        value = value * base + digit;
    }
    a->i = (int64_t)(negative ? 0 - value : value);
    a->type = type;
    if (type == NULL || type->kind != MLIR_ELEMENT || !dtype_is_float(type->shape->dtype))
        return a;
    a->kind = MLIR_FLOAT; /* 0x7F800000 : f32, 1 : f32 */
    DType t = type->shape->dtype;
    a->f = hex ? number_to_double(t, value) : negative ? -(double)value : (double)value;
    return a;
}

const MlirAttr *read_float(MlirReader *r, Span at, const MlirType *type)
{
    MlirAttr *a = attr_new(r, MLIR_FLOAT, at);
    const char *s = r->text + at.begin;
    size_t length = at.end - at.begin;
    if (*s == '+') {
        s++;
        length--;
    }
    if (!number_parse_double(s, length, &a->f))
        diag_error(r->diag, at, "this is no number");
    a->type = type;
    return a;
}

const MlirAttr *read_bool(MlirReader *r, Span at, bool value)
{
    MlirAttr *a = attr_new(r, MLIR_BOOL, at);
    a->i = value;
    return a;
}

const MlirAttr *read_type_attr(MlirReader *r, Span at, const MlirType *type)
{
    MlirAttr *a = attr_new(r, MLIR_TYPE, at);
    a->type = type;
    return a;
}

const MlirAttr *read_list(MlirReader *r, Span at, size_t count)
{
    MlirAttr *a = attr_new(r, MLIR_LIST, at);
    r->attrs.count -= count;
    a->list.count = (uint32_t)count;
    if (count != 0)
        a->list.items = arena_copy(r->arena, r->attrs.data + r->attrs.count,
                                   count * sizeof(const MlirAttr *));
    return a;
}

const MlirAttr *read_lists(MlirReader *r, Span at, size_t count)
{
    return read_list(r, at, count);
}

const MlirAttr *read_range(MlirReader *r, Span at, Span start, Span limit,
                           const Span *stride)
{
    STACK_PUSH(r, r->attrs, read_integer(r, start, NULL));
    STACK_PUSH(r, r->attrs, read_integer(r, limit, NULL));
    if (stride == NULL)
        return read_list(r, at, 2);
    STACK_PUSH(r, r->attrs, read_integer(r, *stride, NULL));
    return read_list(r, at, 3);
}

static MlirDict pop_entries(MlirReader *r, size_t count)
{
    MlirDict dict = {.count = (uint32_t)count};
    r->entries.count -= count;
    if (count != 0)
        dict.entries = arena_copy(r->arena, r->entries.data + r->entries.count,
                                  count * sizeof(MlirEntry));
    return dict;
}

void read_entry(MlirReader *r, const char *name, const MlirAttr *value)
{
    STACK_PUSH(r, r->entries, ((MlirEntry){name, value}));
}

/* A word alone is a name without a value, which stands for itself. */
const MlirAttr *read_dict(MlirReader *r, Span at, size_t count)
{
    for (size_t i = r->entries.count - count; i < r->entries.count; i++) {
        MlirEntry *e = &r->entries.data[i];
        if (e->name != NULL ||
            (e->value->kind != MLIR_WORD && e->value->kind != MLIR_STRING))
            continue;
        e->name = e->value->text.data;
        e->value = read_attr(r, MLIR_UNIT, e->value->span);
    }
    MlirAttr *a = attr_new(r, MLIR_DICT, at);
    a->dict = pop_entries(r, count);
    return a;
}

const MlirAttr *read_struct(MlirReader *r, Span at, Span name, size_t count)
{
    MlirAttr *a = attr_new(r, MLIR_STRUCT, at);
    a->text.data = name.end != name.begin ? read_name(r, name) : "";
    a->text.length = strlen(a->text.data);
    a->fields = pop_entries(r, count);
    return a;
}

const MlirAttr *read_dense(MlirReader *r, Span at, const MlirType *type)
{
    MlirAttr *a = attr_new(r, MLIR_DENSE, at);
    a->text = (Bytes){r->text + at.begin, at.end - at.begin};
    a->is_source = true;
    a->type = type;
    return a;
}

/* The text of the span, then the attributes of the stack. */
const MlirAttr *read_location(MlirReader *r, Span at, const char *kind, size_t count)
{
    MlirAttr *a = attr_new(r, MLIR_STRUCT, at);
    a->text = (Bytes){kind, strlen(kind)};
    MlirEntry *entries = ARENA_ARRAY(r->arena, MlirEntry, count + 1);
    if (at.end != at.begin)
        entries[a->fields.count++].value = read_text_attr(r, MLIR_STRING, at);
    r->attrs.count -= count;
    for (size_t i = 0; i < count; i++)
        if (r->attrs.data[r->attrs.count + i] != NULL)
            entries[a->fields.count++].value = r->attrs.data[r->attrs.count + i];
    a->fields.entries = entries;
    return a;
}

/* -- what has a name in the whole file ------------------------------------------------------ */

static void check_new(MlirReader *r, Span at, const char *name, size_t count,
                      const MlirEntry *known)
{
    for (size_t i = 0; i < count; i++) {
        if (known[i].name != name)
            continue;
        diag_error(r->diag, at, "redefinition of the alias %s", name);
        return;
    }
}

void read_alias(MlirReader *r, Span name, const MlirAttr *value)
{
    STACK_PUSH(r, r->aliases, ((MlirEntry){read_name(r, name), value}));
}

void read_alias_type(MlirReader *r, Span name, const MlirType *type)
{
    const char *text = read_name(r, name);
    check_new(r, name, text, r->type_aliases.count, r->type_aliases.data);
    STACK_PUSH(r, r->type_aliases, ((MlirEntry){text, read_type_attr(r, name, type)}));
}

/* "0x" and hexadecimal digits: four bytes of alignment, then the data. Other entries of the file's
 * metadata are not for us. */
void read_resource(MlirReader *r, Span name, Span value)
{
    Bytes text = read_string(r, value);
    if (text.length < 10 || memcmp(text.data, "0x", 2) != 0 || text.length % 2 != 0)
        return;
    size_t length = text.length / 2 - 1;
    char *data = arena_alloc(r->arena, length + 1);
    for (size_t i = 0; i < length; i++) {
        int high = hex_digit(text.data[2 * i + 2]), low = hex_digit(text.data[2 * i + 3]);
        if (high < 0 || low < 0) {
            diag_error(r->diag, value, "a resource is \"0x\" and hexadecimal digits");
            return;
        }
        data[i] = (char)(high * 16 + low);
    }
    MlirResource resource = {read_name(r, name), {data + 4, length - 4}};
    STACK_PUSH(r, r->resources, resource);
}

/* -- values -------------------------------------------------------------------------------- */

static MlirName *name_slot(MlirReader *r, uint32_t hash, const char *text, size_t length)
{
    size_t mask = r->name_capacity - 1, i = hash & mask;
    for (; r->names[i].text != NULL; i = (i + 1) & mask)
        if (r->names[i].hash == hash && r->names[i].length == length &&
            memcmp(r->names[i].text, text, length) == 0)
            break;
    return &r->names[i];
}

static void names_grow(MlirReader *r)
{
    MlirName *old = r->names;
    size_t capacity = r->name_capacity;
    r->name_capacity = capacity == 0 ? 1024 : capacity * 2;
    r->names = ARENA_ARRAY(r->scratch, MlirName, r->name_capacity);
    for (size_t i = 0; i < capacity; i++)
        if (old[i].text != NULL)
            *name_slot(r, old[i].hash, old[i].text, old[i].length) = old[i];
}

/* The entry of a name without its #number, made if it is new. */
static MlirName *name_entry(MlirReader *r, const char *text, size_t length)
{
    if (r->name_count * 2 >= r->name_capacity)
        names_grow(r);
    uint32_t hash = text_hash(text, length);
    MlirName *slot = name_slot(r, hash, text, length);
    if (slot->text == NULL) {
        *slot = (MlirName){.hash = hash, .length = (uint32_t)length, .text = text};
        r->name_count++;
    }
    return slot;
}

void read_define(MlirReader *r, Span at, MlirValue *first, uint32_t count)
{
    MlirName *name = name_entry(r, r->text + at.begin, at.end - at.begin);
    if (name->value != NULL)
        diag_error(r->diag, at, "redefinition of value %.*s", (int)name->length,
                   name->text);
    STACK_PUSH(r, r->hidden, *name);
    name->value = first;
    name->value_count = count;
    if (name->text[1] >= '0' && name->text[1] <= '9')
        return;
    for (uint32_t i = 0; i < count; i++)
        first[i].name = read_name(r, at);
}

void read_forget(MlirReader *r, size_t hidden_mark)
{
    while (r->hidden.count > hidden_mark) {
        const MlirName *old = &r->hidden.data[--r->hidden.count];
        *name_slot(r, old->hash, old->text, old->length) = *old;
    }
}

MlirValue *read_value(MlirReader *r, Span at)
{
    const char *text = r->text + at.begin;
    size_t length = at.end - at.begin;
    const char *hash = memchr(text, '#', length);
    uint32_t number = 0;
    for (const char *s = hash;
         s != NULL && ++s < text + length && number < UINT32_MAX / 16;)
        number = number * 10 + (uint32_t)(*s - '0');
    MlirName *name = name_entry(r, text, hash != NULL ? (size_t)(hash - text) : length);
    if (name->value != NULL && number < name->value_count) {
        name->value[number].uses++;
        return &name->value[number];
    }
    if (name->value == NULL)
        op_error(r, at, "use of undeclared value %.*s", (int)length, text);
    else
        diag_error(r->diag, at, "%.*s: the operation has %u results", (int)length, text,
                   name->value_count);
    MlirValue *wrong = ARENA_NEW(r->arena, MlirValue);
    wrong->type = mlir_other(r->arena, "?", 1);
    return wrong;
}
