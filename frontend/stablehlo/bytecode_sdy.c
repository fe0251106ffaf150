/* Shardy's attributes in bytecode, as its text gives them: a mesh is <["a"=2]>, a sharding <@mesh, [{"a"}, {?}]>. */
#include <string.h>

#include "frontend/stablehlo/bytecode.h"

static const MlirAttr *make(Bytecode *b, MlirAttr value)
{
    return arena_copy(b->arena, &value, sizeof value);
}

static const MlirAttr *unit(Bytecode *b)
{
    return make(b, (MlirAttr){.kind = MLIR_UNIT});
}

static const MlirAttr *integer(Bytecode *b, int64_t value)
{
    return make(b, (MlirAttr){.kind = MLIR_INT, .i = value});
}

static const MlirAttr *list_of(Bytecode *b, uint32_t count, const MlirAttr *const *items)
{
    return make(b, (MlirAttr){.kind = MLIR_LIST, .list = {count, items}});
}

static const MlirAttr *dict_of(Bytecode *b, uint32_t count, const MlirEntry *entries)
{
    return make(b, (MlirAttr){.kind = MLIR_DICT, .dict = {count, entries}});
}

/* Attributes by their numbers; NULL after a message. */
static const MlirAttr **take_attrs(Bytecode *b, ByteReader *r, uint32_t *count)
{
    *count = bytes_count(r);
    const MlirAttr **items = ARENA_ARRAY(b->arena, const MlirAttr *, *count + 2u);
    for (uint32_t i = 0; i < *count; i++) {
        items[i] = bytecode_attr(b, bytes_varint(r));
        if (items[i] == NULL)
            return NULL;
    }
    return items;
}

static const MlirAttr *take_list(Bytecode *b, ByteReader *r)
{
    uint32_t count;
    const MlirAttr **items = take_attrs(b, r, &count);
    return items != NULL ? list_of(b, count, items) : NULL;
}

static const char *take_name(Bytecode *b, ByteReader *r)
{
    Bytes name = bytecode_string(b, r);
    return intern_text(b->intern, name.data, strlen(name.data));
}

/* {"a", "b"} */
static const MlirAttr *manual_axes(Bytecode *b, ByteReader *r)
{
    uint32_t count;
    const MlirAttr **names = take_attrs(b, r, &count);
    if (names == NULL)
        return NULL;
    MlirEntry *entries = ARENA_ARRAY(b->arena, MlirEntry, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        if (names[i]->kind != MLIR_STRING)
            return bytecode_error(b, "the name of an axis is no string");
        entries[i] = (MlirEntry){names[i]->text.data, unit(b)};
    }
    return dict_of(b, count, entries);
}

static const MlirAttr *named(Bytecode *b, const char *name, const MlirAttr *value)
{
    MlirEntry *entry = ARENA_NEW(b->arena, MlirEntry);
    *entry = (MlirEntry){name, value};
    return value != NULL ? dict_of(b, 1, entry) : NULL;
}

static const MlirAttr *int_list(Bytecode *b, ByteReader *r, uint32_t count)
{
    const MlirAttr **items = ARENA_ARRAY(b->arena, const MlirAttr *, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        items[i] = integer(b, bytes_signed(r));
    return list_of(b, count, items);
}

static const MlirAttr *struct_of(Bytecode *b, uint32_t count, const MlirEntry *fields)
{
    for (uint32_t i = 0; i < count; i++)
        if (fields[i].value == NULL)
            return NULL;
    return make(b, (MlirAttr){.kind = MLIR_STRUCT,
                              .text = {"", 0},
                              .fields = {count, arena_copy(b->arena, fields,
                                                           count * sizeof *fields)}});
}

static const MlirAttr *mesh(Bytecode *b, ByteReader *r)
{
    MlirEntry fields[2] = {{NULL, take_list(b, r)}, {"device_ids", NULL}};
    uint32_t devices = bytes_count(r);
    fields[1].value = int_list(b, r, devices);
    return struct_of(b, devices != 0 ? 2 : 1, fields);
}

static const MlirAttr *axis_ref(Bytecode *b, ByteReader *r)
{
    const char *name = take_name(b, r);
    bool part;
    uint64_t number = bytes_flagged(r, &part);
    return named(b, name, part ? bytecode_attr(b, number) : unit(b));
}

/* The axes of a list of references as one dictionary, with room for one more; NULL after a message. */
static MlirEntry *take_axes(Bytecode *b, ByteReader *r, uint32_t *count)
{
    const MlirAttr **refs = take_attrs(b, r, count);
    if (refs == NULL)
        return NULL;
    MlirEntry *entries = ARENA_ARRAY(b->arena, MlirEntry, *count + 1u);
    for (uint32_t i = 0; i < *count; i++) {
        if (refs[i]->kind != MLIR_DICT || refs[i]->dict.count != 1)
            return bytecode_error(b, "a reference to an axis is another attribute");
        entries[i] = refs[i]->dict.entries[0];
    }
    return entries;
}

static const MlirAttr *axes(Bytecode *b, ByteReader *r)
{
    uint32_t count;
    const MlirEntry *entries = take_axes(b, r, &count);
    return entries != NULL ? dict_of(b, count, entries) : NULL;
}

static const MlirAttr *dimension(Bytecode *b, ByteReader *r)
{
    uint32_t count;
    MlirEntry *entries = take_axes(b, r, &count);
    if (entries == NULL)
        return NULL;
    if (bytes_byte(r) == 0) /* not closed */
        entries[count++] = (MlirEntry){intern_string(b->intern, "?"), unit(b)};
    return dict_of(b, count, entries);
}

static const MlirAttr *sharding(Bytecode *b, ByteReader *r, bool has_unreduced)
{
    MlirEntry fields[4] = {{NULL, bytecode_attr(b, bytes_varint(r))}};
    if (fields[0].value == NULL)
        return NULL;
    fields[1].value = take_list(b, r);
    fields[2] = (MlirEntry){"replicated", fields[1].value != NULL ? axes(b, r) : NULL};
    if (has_unreduced && fields[2].value != NULL)
        fields[3] = (MlirEntry){"unreduced", axes(b, r)};
    return struct_of(b, has_unreduced ? 4 : 3, fields);
}

const MlirAttr *bytecode_sdy_attr(Bytecode *b, ByteReader *r)
{
    const char *name;
    MlirEntry list;
    uint64_t code = bytes_varint(r);
    switch (code) {
    case 0:
        return manual_axes(b, r);
    case 1:
        name = take_name(b, r);
        return named(b, name, integer(b, bytes_signed(r)));
    case 2:
        return mesh(b, r);
    case 3:
        return int_list(b, r, 2);
    case 4:
        return axis_ref(b, r);
    case 5:
        return dimension(b, r);
    case 6:
    case 15:
    case 17:
        return sharding(b, r, code != 6);
    case 7:
    case 16:
        list = (MlirEntry){NULL, take_list(b, r)};
        return struct_of(b, 1, &list);
    default: /* rules of propagation, parameters of collectives: nothing here asks for them */
        return make(b, (MlirAttr){.kind = MLIR_OPAQUE, .text = {"", 0}});
    }
}
