/* MLIR's bytecode: the sections of a file and its operations. Format: MLIR's documentation, "MLIR Bytecode
 * Format", versions 0 to 6; attributes, types and operations of VHLO, in which portable artefacts are written. */
#include "frontend/stablehlo/bytecode.h"

#include <stdlib.h>
#include <string.h>

/* Versions of the format that changed how something is written. */
enum {
    VERSION_DIALECTS = 1,         /* dialects have versions */
    VERSION_LAZY = 2,             /* isolated regions are sections */
    VERSION_USE_LISTS = 3,        /* orders of uses */
    VERSION_ELIDED_POSITIONS = 4, /* arguments without a location */
    VERSION_PROPERTIES = 5,       /* properties of operations */
    VERSION_NEWEST = 6
};

enum {
    SECTION_STRINGS,
    SECTION_DIALECTS,
    SECTION_ATTRS,
    SECTION_OFFSETS,
    SECTION_IR,
    SECTION_RESOURCES,
    SECTION_RESOURCE_OFFSETS,
    SECTION_VERSIONS,
    SECTION_PROPERTIES,
    SECTION_COUNT
};

enum {
    HAS_ATTRS = 1,
    HAS_RESULTS = 2,
    HAS_OPERANDS = 4,
    HAS_SUCCESSORS = 8,
    HAS_REGIONS = 16,
    HAS_USE_LISTS = 32,
    HAS_PROPERTIES = 64
};

/* -- messages and strings -------------------------------------------------------------------- */

void *bytecode_error(Bytecode *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(b->scratch, format, args);
    va_end(args);
    if (!b->failed)
        diag_error(b->diag, (Span){0, 0}, "this MLIR bytecode is damaged: %s", text);
    b->failed = true;
    return NULL;
}

static void *unsupported(Bytecode *b, const char *name, const char *what)
{
    if (!b->failed)
        diag_unsupported(b->diag, (Span){0, 0}, "%s%s", name, what);
    b->failed = true;
    return NULL;
}

Bytes bytecode_string(Bytecode *b, ByteReader *r)
{
    uint64_t number = bytes_varint(r);
    if (number < b->string_count)
        return b->strings[number];
    bytecode_error(b, "there is no string %llu", (unsigned long long)number);
    return (Bytes){"", 0};
}

/* -- sections -------------------------------------------------------------------------------- */

/* From the file's first byte: what is aligned is aligned to that. */
static void align(Bytecode *b, ByteReader *r, uint64_t alignment)
{
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 1 << 20) {
        r->damaged = true;
        return;
    }
    uint64_t at = (uint64_t)(r->at - (const unsigned char *)b->data);
    bytes_take(r, (alignment - at % alignment) % alignment);
}

static ByteReader take_section(Bytecode *b, ByteReader *r, unsigned *id)
{
    unsigned char first = bytes_byte(r);
    *id = first & 0x7f;
    uint64_t length = bytes_varint(r);
    if ((first & 0x80) != 0)
        align(b, r, bytes_varint(r));
    return bytes_take(r, length);
}

static bool read_strings(Bytecode *b, ByteReader r)
{
    b->string_count = bytes_count(&r);
    uint64_t *sizes = ARENA_ARRAY(b->scratch, uint64_t, b->string_count + 1u);
    for (uint32_t i = b->string_count; i-- > 0;)
        sizes[i] = bytes_varint(&r);
    Bytes *strings = ARENA_ARRAY(b->scratch, Bytes, b->string_count + 1u);
    for (uint32_t i = 0; i < b->string_count; i++) {
        ByteReader part = bytes_take(&r, sizes[i]);
        size_t length = bytes_left(&part);
        if (r.damaged || length == 0 || part.at[length - 1] != '\0')
            return bytecode_error(b, "string %u has no end", i) != NULL;
        strings[i] =
            (Bytes){arena_text(b->arena, (const char *)part.at, length - 1), length - 1};
    }
    b->strings = strings;
    return true;
}

/* -- dialects and names of operations -------------------------------------------------------- */

static const struct {
    const char *name, *properties;
} vhlo_ops[] = {
#define OP(name, properties) {name, properties},
#include "frontend/stablehlo/vhlo.def"
};

static int op_order(const void *name, const void *row)
{
    return strcmp(name, *(const char *const *)row);
}

/* func_v1 is func.func, others are StableHLO's without the version. */
static BytecodeOpName vhlo_name(Bytecode *b, const char *name)
{
    static const char *const functions[][2] = {{"func_v1", "func.func"},
                                               {"call_v1", "func.call"}};
    size_t length = strlen(name), end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    bool versioned =
        end < length && end > 2 && name[end - 1] == 'v' && name[end - 2] == '_';
    const char *const *row = bsearch(name, vhlo_ops, sizeof vhlo_ops / sizeof *vhlo_ops,
                                     sizeof *vhlo_ops, op_order);
    BytecodeOpName op = {.properties = row != NULL ? row[1] : ""};
    op.name = arena_printf(b->scratch, "stablehlo.%.*s",
                           (int)(versioned ? end - 2 : length), name);
    for (size_t i = 0; i < 2; i++)
        if (strcmp(functions[i][0], name) == 0)
            op.name = functions[i][1];
    op.name = intern_string(b->intern, op.name);
    return op;
}

static BytecodeOpName op_name(Bytecode *b, const char *dialect, const char *name)
{
    static const BytecodeOpName own[] = {
        {"builtin.module", "sym_name sym_visibility", true, false},
        {"builtin.unrealized_conversion_cast", "", true, false},
        {"func.return", "", true, false},
        {"sdy.manual_computation", "in_shardings manual_axes out_shardings", false,
         false},
        {"sdy.mesh", "mesh sym_name", false, false},
        {"sdy.reshard", "sharding", false, false},
        {"sdy.return", "", true, false},
        {"sdy.sharding_constraint", "sharding", false, false}};
    if (strcmp(dialect, "vhlo") == 0)
        return vhlo_name(b, name);
    const char *full =
        intern_string(b->intern, arena_printf(b->scratch, "%s.%s", dialect, name));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].name, full) == 0)
            return own[i];
    return (BytecodeOpName){.name = full, .properties = "", .is_unknown = true};
}

static void add_op_name(Bytecode *b, ByteReader *r, uint64_t dialect, size_t *capacity)
{
    bool registered;
    ByteReader copy = *r;
    Bytes name;
    if (b->version >= VERSION_PROPERTIES) {
        uint64_t number = bytes_flagged(r, &registered);
        if (number >= b->string_count) {
            bytecode_error(b, "an operation's name is missing");
            return;
        }
        name = b->strings[number];
    } else {
        name = bytecode_string(b, &copy);
        *r = copy;
    }
    if (dialect >= b->dialect_count) {
        bytecode_error(b, "an operation of dialect %llu, which is missing",
                       (unsigned long long)dialect);
        return;
    }
    b->op_names = arena_grow(b->scratch, b->op_names, capacity, b->op_name_count + 1u,
                             sizeof *b->op_names);
    b->op_names[b->op_name_count++] = op_name(b, b->dialects[dialect], name.data);
}

static bool read_dialects(Bytecode *b, ByteReader r)
{
    b->dialect_count = bytes_count(&r);
    b->dialects = ARENA_ARRAY(b->scratch, const char *, b->dialect_count + 1u);
    for (uint32_t i = 0; i < b->dialect_count && !b->failed; i++) {
        bool versioned = false;
        uint64_t number = b->version >= VERSION_DIALECTS ? bytes_flagged(&r, &versioned)
                                                         : bytes_varint(&r);
        if (number >= b->string_count)
            return bytecode_error(b, "a dialect's name is missing") != NULL;
        b->dialects[i] = b->strings[number].data;
        unsigned id;
        if (versioned)
            take_section(b, &r, &id);
    }
    if (b->version >= VERSION_ELIDED_POSITIONS && bytes_left(&r) != 0)
        bytes_varint(&r); /* how many operations there are */
    size_t capacity = 0;
    while (bytes_left(&r) != 0 && !b->failed) {
        uint64_t dialect = bytes_varint(&r);
        uint32_t count = bytes_count(&r);
        for (uint32_t i = 0; i < count && !b->failed; i++)
            add_op_name(b, &r, dialect, &capacity);
    }
    return !b->failed && !r.damaged;
}

/* -- attributes and types: where they are ----------------------------------------------------- */

static void locate_entries(Bytecode *b, ByteReader *offsets, ByteReader *data,
                           BytecodeEntry *out, uint32_t count)
{
    for (uint32_t done = 0; done < count && !offsets->damaged && !data->damaged;) {
        uint64_t dialect = bytes_varint(offsets);
        uint64_t group = bytes_varint(offsets);
        if (group > count - done) {
            offsets->damaged = true;
            break;
        }
        for (uint64_t i = 0; i < group; i++) {
            bool custom;
            uint64_t size = bytes_flagged(offsets, &custom);
            out[done++] = (BytecodeEntry){
                .bytes = bytes_take(data, size),
                .dialect = dialect < b->dialect_count ? (uint32_t)dialect : UINT32_MAX,
                .is_text = !custom};
        }
    }
}

static bool read_entries(Bytecode *b, ByteReader offsets, ByteReader data)
{
    b->attr_count = bytes_count(&offsets);
    b->type_count = bytes_count(&offsets);
    b->attrs = ARENA_ARRAY(b->scratch, BytecodeEntry, b->attr_count + 1u);
    b->types = ARENA_ARRAY(b->scratch, BytecodeEntry, b->type_count + 1u);
    locate_entries(b, &offsets, &data, b->attrs, b->attr_count);
    locate_entries(b, &offsets, &data, b->types, b->type_count);
    if (offsets.damaged || data.damaged)
        return bytecode_error(b, "the table of attributes and types does not fit") !=
               NULL;
    return true;
}

static bool read_properties(Bytecode *b, ByteReader r)
{
    b->property_count = bytes_count(&r);
    ByteReader *all = ARENA_ARRAY(b->scratch, ByteReader, b->property_count + 1u);
    for (uint32_t i = 0; i < b->property_count; i++)
        all[i] = bytes_take(&r, bytes_varint(&r));
    b->properties = all;
    return !r.damaged ||
           bytecode_error(b, "the table of properties does not fit") != NULL;
}

/* Groups of whom nothing here refers to (external), then those of dialects; blobs only. */
static bool read_resources(Bytecode *b, ByteReader offsets, ByteReader data)
{
    uint64_t external = bytes_varint(&offsets);
    size_t capacity = 0;
    Bytes *blobs = NULL;
    for (uint64_t group = 0; bytes_left(&offsets) != 0 && !offsets.damaged; group++) {
        bytes_varint(&offsets); /* key of the group, or its dialect */
        uint32_t count = bytes_count(&offsets);
        for (uint32_t i = 0; i < count && !offsets.damaged; i++) {
            bytes_varint(&offsets); /* the name */
            uint64_t size = bytes_varint(&offsets);
            bool is_blob = bytes_byte(&offsets) == 0;
            ByteReader entry = bytes_take(&data, size);
            Bytes blob = {"", 0};
            if (is_blob) {
                uint64_t alignment = bytes_varint(&entry), length = bytes_varint(&entry);
                align(b, &entry, alignment);
                ByteReader bytes = bytes_take(&entry, length);
                blob = (Bytes){(const char *)bytes.at, bytes_left(&bytes)};
            }
            if (group < external)
                continue;
            blobs = arena_grow(b->scratch, blobs, &capacity, b->blob_count + 1u,
                               sizeof *blobs);
            blobs[b->blob_count++] = blob;
        }
    }
    b->blobs = blobs;
    return (!offsets.damaged && !data.damaged) ||
           bytecode_error(b, "the table of resources does not fit") != NULL;
}

/* -- operations ------------------------------------------------------------------------------ */

/* Values are numbered in the order of their definitions, from the region that is isolated from above. */
typedef struct Values {
    Arena *scratch;
    STACK(MlirValue *) defined; /* NULL: not yet */
    size_t next; /* number of the next definition of the innermost region */
} Values;

static void skip_use_lists(ByteReader *r, size_t values)
{
    uint32_t count = values > 1 ? bytes_count(r) : 1;
    for (uint32_t i = 0; i < count && !r->damaged; i++) {
        bool pairs;
        if (values > 1)
            bytes_varint(r);
        uint64_t uses = bytes_flagged(r, &pairs);
        for (uint64_t k = 0; k < uses && !r->damaged; k++)
            bytes_varint(r);
    }
}

static void define(Bytecode *b, Values *v, MlirValue *value)
{
    if (v->next >= v->defined.count)
        bytecode_error(b, "a region defines more values than it says");
    else
        v->defined.data[v->next++] = value;
}

static MlirRegion *read_region(Bytecode *b, ByteReader *r, Values *v);

static bool read_operands(Bytecode *b, ByteReader *r, Values *v, MlirOp *op)
{
    op->operand_count = bytes_count(r);
    op->operands = ARENA_ARRAY(b->arena, MlirValue *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        uint64_t number = bytes_varint(r);
        MlirValue *value = number < v->defined.count ? v->defined.data[number] : NULL;
        if (value == NULL)
            return bytecode_error(b, "%s uses a value that is not defined", op->name) !=
                   NULL;
        value->uses++;
        op->operands[i] = value;
    }
    return true;
}

static bool read_results(Bytecode *b, ByteReader *r, MlirOp *op, const MlirRegion *region)
{
    op->result_count = bytes_count(r);
    op->results = ARENA_ARRAY(b->arena, MlirValue, op->result_count + 1u);
    for (uint32_t i = 0; i < op->result_count; i++) {
        const MlirType *type = bytecode_type(b, bytes_varint(r));
        if (type == NULL)
            return false;
        op->results[i] =
            (MlirValue){.type = type, .region = region, .op = op, .index = i};
    }
    return true;
}

typedef STACK(MlirEntry) Entries;

static bool add_dict(Bytecode *b, ByteReader *r, Entries *entries)
{
    const MlirAttr *dict = bytecode_attr(b, bytes_varint(r));
    if (dict == NULL)
        return false;
    if (dict->kind != MLIR_DICT)
        return bytecode_error(b, "an operation's attributes are no dictionary") != NULL;
    for (uint32_t i = 0; i < dict->dict.count; i++)
        STACK_PUSH(b, *entries, dict->dict.entries[i]);
    return true;
}

/* The attributes that the operation's row names, one after the other. */
static bool add_properties(Bytecode *b, uint64_t number, const BytecodeOpName *op,
                           Entries *entries)
{
    if (number >= b->property_count)
        return bytecode_error(b, "the properties of %s are missing", op->name) != NULL;
    if (op->is_unknown)
        return unsupported(b, op->name,
                           " in bytecode that is no portable artefact: write one with "
                           "jax.export, or stablehlo.serialize_portable_artifact") !=
               NULL;
    ByteReader r = b->properties[number];
    for (const char *name = op->properties; *name != '\0';) {
        size_t length = strcspn(name, " ");
        bool there = true;
        uint64_t attr = op->is_optional ? bytes_flagged(&r, &there) : bytes_varint(&r);
        const MlirAttr *value = there ? bytecode_attr(b, attr) : NULL;
        if (r.damaged || (there && value == NULL))
            return bytecode_error(b, "the properties of %s do not fit it", op->name) !=
                   NULL;
        if (there)
            STACK_PUSH(b, *entries,
                       ((MlirEntry){intern_text(b->intern, name, length), value}));
        name += length + (name[length] == ' ');
    }
    return true;
}

static bool read_attributes(Bytecode *b, ByteReader *r, unsigned mask,
                            const BytecodeOpName *name, MlirOp *op)
{
    Entries entries = {0};
    if ((mask & HAS_ATTRS) != 0 && !add_dict(b, r, &entries))
        return false;
    if ((mask & HAS_PROPERTIES) != 0 &&
        !add_properties(b, bytes_varint(r), name, &entries))
        return false;
    op->attrs.count = (uint32_t)entries.count;
    op->attrs.entries =
        arena_copy(b->arena, entries.data, entries.count * sizeof(MlirEntry));
    return true;
}

/* Regions that see nothing of outside number their values anew and may be a section of their own. */
static bool read_regions(Bytecode *b, ByteReader *r, Values *v, MlirOp *op)
{
    bool isolated;
    uint64_t count = bytes_flagged(r, &isolated);
    if (count > bytes_left(r))
        return bytecode_error(b, "%s has more regions than bytes", op->name) != NULL;
    MlirRegion **regions = ARENA_ARRAY(b->arena, MlirRegion *, count + 1);
    Values own = {.scratch = b->scratch};
    ByteReader inner = *r;
    if (isolated && b->version >= VERSION_LAZY) {
        unsigned id;
        inner = take_section(b, r, &id);
        if (id != SECTION_IR || r->damaged)
            return bytecode_error(b, "the regions of %s are missing", op->name) != NULL;
    }
    for (uint64_t i = 0; i < count; i++) {
        regions[i] = read_region(b, &inner, isolated ? &own : v);
        if (regions[i] == NULL)
            return false;
    }
    if (!isolated || b->version < VERSION_LAZY)
        *r = inner;
    op->region_count = (uint32_t)count;
    op->regions = regions;
    return true;
}

/* Between types that are the same here. */
static bool is_cast(const MlirOp *op)
{
    return strcmp(op->name, "builtin.unrealized_conversion_cast") == 0 &&
           op->operand_count == op->result_count;
}

static MlirOp *read_op(Bytecode *b, ByteReader *r, Values *v, const MlirRegion *region)
{
    MlirOp *op = ARENA_NEW(b->arena, MlirOp);
    uint64_t number = bytes_varint(r);
    unsigned mask = bytes_byte(r);
    uint64_t position = bytes_varint(r);
    if (r->damaged || number >= b->op_name_count)
        return bytecode_error(b, "an operation is missing");
    const BytecodeOpName *name = &b->op_names[number];
    op->name = name->name;
    op->location = bytecode_attr(b, position);
    if (op->location == NULL || !read_attributes(b, r, mask, name, op))
        return NULL;
    if ((mask & HAS_RESULTS) != 0 && !read_results(b, r, op, region))
        return NULL;
    if ((mask & HAS_OPERANDS) != 0 && !read_operands(b, r, v, op))
        return NULL;
    if ((mask & HAS_SUCCESSORS) != 0)
        return unsupported(b, op->name, " between blocks");
    if ((mask & HAS_USE_LISTS) != 0)
        skip_use_lists(r, op->result_count);
    bool cast = is_cast(op);
    for (uint32_t i = 0; i < op->result_count; i++)
        define(b, v, cast ? op->operands[i] : &op->results[i]);
    if ((mask & HAS_REGIONS) != 0 && !read_regions(b, r, v, op))
        return NULL;
    return r->damaged || b->failed ? bytecode_error(b, "%s is cut off", op->name) : op;
}

static bool read_arguments(Bytecode *b, ByteReader *r, Values *v, MlirRegion *region)
{
    region->argument_count = bytes_count(r);
    region->arguments = ARENA_ARRAY(b->arena, MlirValue, region->argument_count + 1u);
    for (uint32_t i = 0; i < region->argument_count; i++) {
        bool has_position = true;
        uint64_t type = b->version >= VERSION_ELIDED_POSITIONS
                            ? bytes_flagged(r, &has_position)
                            : bytes_varint(r);
        const MlirAttr *position =
            has_position ? bytecode_attr(b, bytes_varint(r)) : NULL;
        region->arguments[i] = (MlirValue){.type = bytecode_type(b, type),
                                           .location = position,
                                           .region = region,
                                           .index = i};
        if (region->arguments[i].type == NULL || (has_position && position == NULL))
            return false;
        define(b, v, &region->arguments[i]);
    }
    if (b->version >= VERSION_USE_LISTS && bytes_byte(r) != 0)
        skip_use_lists(r, region->argument_count);
    return !b->failed;
}

static bool read_block(Bytecode *b, ByteReader *r, Values *v, MlirRegion *region)
{
    bool arguments;
    uint64_t count = bytes_flagged(r, &arguments);
    if (count > bytes_left(r))
        return bytecode_error(b, "a block has more operations than bytes") != NULL;
    if (arguments && !read_arguments(b, r, v, region))
        return false;
    region->ops = ARENA_ARRAY(b->arena, MlirOp *, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        MlirOp *op = read_op(b, r, v, region);
        if (op == NULL)
            return false;
        region->ops[region->op_count] = op;
        region->op_count += !is_cast(op);
    }
    return true;
}

static MlirRegion *read_region(Bytecode *b, ByteReader *r, Values *v)
{
    MlirRegion *region = ARENA_NEW(b->arena, MlirRegion);
    uint64_t blocks = bytes_varint(r);
    if (blocks == 0)
        return r->damaged ? bytecode_error(b, "a region is cut off") : region;
    if (blocks > 1)
        return unsupported(b, "regions of several blocks", "");
    if (b->depth >= MLIR_DEPTH)
        return bytecode_error(b, "regions are nested deeper than %d levels", MLIR_DEPTH);
    uint32_t values = bytes_count(r);
    size_t outer_next = v->next, outer_count = v->defined.count;
    v->next = outer_count;
    for (uint32_t i = 0; i < values; i++)
        STACK_PUSH(v, v->defined, NULL);
    b->depth++;
    bool right = read_block(b, r, v, region);
    b->depth--;
    v->defined.count = outer_count;
    v->next = outer_next;
    return right ? region : NULL;
}

/* -- the file -------------------------------------------------------------------------------- */

static bool read_sections(Bytecode *b, ByteReader *r, ByteReader *sections)
{
    while (bytes_left(r) != 0) {
        unsigned id;
        ByteReader section = take_section(b, r, &id);
        if (r->damaged || id >= SECTION_COUNT)
            return bytecode_error(b, "a section is cut off") != NULL;
        sections[id] = section;
    }
    for (int id = SECTION_STRINGS; id <= SECTION_IR; id++)
        if (sections[id].at == NULL)
            return bytecode_error(b, "a section is missing") != NULL;
    return true;
}

static bool read_file(Bytecode *b, ByteReader r)
{
    ByteReader sections[SECTION_COUNT] = {{NULL, NULL, false}};
    bytes_take(&r, 4); /* ML\xefR */
    b->version = bytes_varint(&r);
    if (b->version > VERSION_NEWEST) {
        diag_unsupported(b->diag, (Span){0, 0},
                         "version %llu of MLIR's bytecode; gxc reads 0 to %d",
                         (unsigned long long)b->version, VERSION_NEWEST);
        return false;
    }
    while (bytes_left(&r) != 0 && bytes_byte(&r) != '\0')
        continue; /* who wrote it */
    if (!read_sections(b, &r, sections) || !read_strings(b, sections[SECTION_STRINGS]) ||
        !read_dialects(b, sections[SECTION_DIALECTS]) ||
        !read_entries(b, sections[SECTION_OFFSETS], sections[SECTION_ATTRS]))
        return !b->failed ? bytecode_error(b, "the dialects are cut off") != NULL : false;
    if (sections[SECTION_PROPERTIES].at != NULL &&
        !read_properties(b, sections[SECTION_PROPERTIES]))
        return false;
    if (sections[SECTION_RESOURCE_OFFSETS].at != NULL &&
        sections[SECTION_RESOURCES].at != NULL &&
        !read_resources(b, sections[SECTION_RESOURCE_OFFSETS],
                        sections[SECTION_RESOURCES]))
        return false;
    Values values = {.scratch = b->scratch};
    b->file->top = ARENA_NEW(b->arena, MlirRegion);
    return read_block(b, &sections[SECTION_IR], &values, b->file->top);
}

MlirFile *mlir_read_bytecode(Arena *a, Intern *t, Diag *d, const char *data,
                             size_t length)
{
    Arena *scratch = arena_scratch();
    Bytecode *b = ARENA_NEW(scratch, Bytecode);
    *b = (Bytecode){.arena = a, .scratch = scratch, .intern = t, .diag = d, .data = data};
    b->file = ARENA_NEW(a, MlirFile);
    *b->file = (MlirFile){.arena = a, .intern = t, .diag = d};
    MlirFile *file = b->file;
    const unsigned char *bytes = (const unsigned char *)data;
    bool right = read_file(b, (ByteReader){bytes, bytes + length, false});
    arena_destroy(scratch);
    return right ? file : NULL;
}
