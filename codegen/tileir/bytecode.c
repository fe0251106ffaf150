/* Writing: tables of distinct texts - strings, types, constants - that everything names by number, and functions as
 * one text each. See bytecode.h. */
#include "codegen/tileir/bytecode.h"

#include <string.h>

#include "ir/base/text.h"

static const struct {
    uint32_t opcode;
    const char *attributes;
    size_t count;
} operations[] = {
#define TILEIR(id, opcode, attributes) {opcode, attributes, sizeof(attributes) - 1},
#include "codegen/tileir/operations.def"
};

enum {
    TAG_POINTER = 12,
    TAG_TILE = 13,
    TAG_TENSOR_VIEW = 14,
    TAG_PARTITION_VIEW = 15,
    TAG_FUNCTION = 16,
    ATTRIBUTE_INTEGER = 1,
    ATTRIBUTE_DICTIONARY = 10,
    ATTRIBUTE_HINTS = 11,
    FUNCTION_KERNEL = 2,
    FUNCTION_HINTS = 4,
};

/* Distinct byte strings, numbered. */
typedef struct Table {
    Text *items;
    uint32_t count;
    size_t capacity;
} Table;

typedef struct Function {
    uint32_t name, type;
    TileIrHints hints;
    const char *gpu;
    TileIrBlock body;
} Function;

struct TileIrModule {
    Arena *arena;
    Table strings, types, constants;
    Function **functions;
    uint32_t function_count;
    size_t function_capacity;
};

/* An operand, or how many follow. */
typedef struct Item {
    const TileIrValue *value; /* NULL: `count` */
    uint32_t count;
} Item;

struct TileIrOp {
    TileIrOp *next;
    TileIrModule *module;
    Text head; /* opcode, result types, attributes */
    Item *items;
    uint32_t item_count;
    size_t item_capacity;
    TileIrBlock *body;
    uint32_t result_count;
    TileIrValue *results;
};

/* -- primitives ----------------------------------------------------------------------------------- */

static void add_number(Text *t, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        text_char(t, (char)(value | 0x80));
    text_char(t, (char)value);
}

static void add_fixed(Text *t, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        text_char(t, (char)(value >> 8 * i));
}

/* A list of numbers of `bytes` bytes each. */
static void add_list(Text *t, uint32_t count, const int64_t *values, uint32_t bytes)
{
    add_number(t, count);
    for (uint32_t i = 0; i < count; i++)
        add_fixed(t, (uint64_t)values[i], bytes);
}

static void add_numbers(Text *t, uint32_t count, const uint32_t *values)
{
    add_number(t, count);
    for (uint32_t i = 0; i < count; i++)
        add_number(t, values[i]);
}

static void pad(Text *t, size_t alignment)
{
    while (t->length % alignment != 0)
        text_char(t, (char)0xcb);
}

static uint32_t table_add(TileIrModule *m, Table *table, const Text *item)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->items[i].length == item->length &&
            memcmp(table->items[i].data, item->data, item->length) == 0)
            return i;
    }
    table->items = arena_grow(m->arena, table->items, &table->capacity,
                              (size_t)table->count + 1, sizeof *table->items);
    table->items[table->count] = *item;
    return table->count++;
}

/* How many, where each begins, all of them. */
static void add_table(Text *t, const Table *table, uint32_t index_bytes)
{
    size_t offset = 0;
    add_number(t, table->count);
    pad(t, index_bytes);
    for (uint32_t i = 0; i < table->count; i++) {
        add_fixed(t, offset, index_bytes);
        offset += table->items[i].length;
    }
    for (uint32_t i = 0; i < table->count; i++)
        text_add(t, table->items[i].data, table->items[i].length);
}

static uint32_t add_string(TileIrModule *m, const char *s)
{
    Text t;
    text_init(&t, m->arena);
    text_string(&t, s);
    return table_add(m, &m->strings, &t);
}

/* -- types ---------------------------------------------------------------------------------------- */

static Text type_text(TileIrModule *m, uint32_t tag)
{
    Text t;
    text_init(&t, m->arena);
    add_number(&t, tag);
    return t;
}

uint32_t bytecode_scalar(TileIrModule *m, TileIrScalar scalar)
{
    Text t = type_text(m, scalar);
    return table_add(m, &m->types, &t);
}

uint32_t bytecode_pointer(TileIrModule *m, TileIrScalar to)
{
    Text t = type_text(m, TAG_POINTER);
    add_number(&t, bytecode_scalar(m, to));
    return table_add(m, &m->types, &t);
}

uint32_t bytecode_tile(TileIrModule *m, uint32_t element, uint32_t rank,
                       const int64_t *sizes)
{
    Text t = type_text(m, TAG_TILE);
    add_number(&t, element);
    add_list(&t, rank, sizes, 8);
    return table_add(m, &m->types, &t);
}

uint32_t bytecode_tensor_view(TileIrModule *m, TileIrScalar element, uint32_t rank,
                              const int64_t *sizes, const int64_t *strides)
{
    Text t = type_text(m, TAG_TENSOR_VIEW);
    add_number(&t, bytecode_scalar(m, element));
    add_list(&t, rank, sizes, 8);
    add_list(&t, rank, strides, 8);
    return table_add(m, &m->types, &t);
}

uint32_t bytecode_partition_view(TileIrModule *m, uint32_t view, uint32_t rank,
                                 const int64_t *tile)
{
    static const int64_t dims[TILEIR_MOST_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    Text t = type_text(m, TAG_PARTITION_VIEW);
    add_list(&t, rank, tile, 4);
    add_number(&t, view);
    add_list(&t, rank, dims, 4);
    add_number(&t, 1); /* it says what is read behind the sizes: */
    add_number(&t, 0); /* zeros */
    return table_add(m, &m->types, &t);
}

static uint32_t function_type(TileIrModule *m, uint32_t count, const uint32_t *types)
{
    Text t = type_text(m, TAG_FUNCTION);
    add_numbers(&t, count, types);
    add_number(&t, 0);
    return table_add(m, &m->types, &t);
}

uint32_t bytecode_constant(TileIrModule *m, const void *data, size_t bytes)
{
    Text t;
    text_init(&t, m->arena);
    add_number(&t, bytes);
    text_add(&t, data, bytes);
    return table_add(m, &m->constants, &t);
}

/* -- operations ----------------------------------------------------------------------------------- */

static TileIrOp *create_op(TileIrModule *m, TileIrOpcode op, uint32_t result_count,
                           const uint32_t *types)
{
    TileIrOp *o = ARENA_NEW(m->arena, TileIrOp);
    o->module = m;
    o->result_count = result_count;
    o->results = ARENA_ARRAY(m->arena, TileIrValue, (size_t)result_count + 1);
    for (uint32_t i = 0; i < result_count; i++)
        o->results[i].type = types[i];
    text_init(&o->head, m->arena);
    add_number(&o->head, operations[op].opcode);
    return o;
}

TileIrOp *bytecode_op(TileIrModule *m, TileIrOpcode op, uint32_t result_count,
                      const uint32_t *types, const char *attributes)
{
    TileIrOp *o = create_op(m, op, result_count, types);
    for (uint32_t i = 0; i < result_count; i++)
        add_number(&o->head, types[i]);
    text_add(&o->head, attributes != NULL ? attributes : operations[op].attributes,
             operations[op].count);
    return o;
}

TileIrOp *bytecode_op_counted(TileIrModule *m, TileIrOpcode op, uint32_t result_count,
                              const uint32_t *types)
{
    TileIrOp *o = create_op(m, op, result_count, types);
    add_numbers(&o->head, result_count, types);
    text_add(&o->head, operations[op].attributes, operations[op].count);
    return o;
}

void bytecode_attribute(TileIrOp *op, uint64_t value)
{
    add_number(&op->head, value);
}

void bytecode_attribute_bytes(TileIrOp *op, const void *bytes, size_t count)
{
    text_add(&op->head, bytes, count);
}

static void add_item(TileIrOp *op, Item item)
{
    op->items = arena_grow(op->module->arena, op->items, &op->item_capacity,
                           (size_t)op->item_count + 1, sizeof *op->items);
    op->items[op->item_count++] = item;
}

void bytecode_operand(TileIrOp *op, const TileIrValue *v)
{
    add_item(op, (Item){v, 0});
}

void bytecode_operand_count(TileIrOp *op, uint32_t count)
{
    add_item(op, (Item){NULL, count});
}

static void block_init(TileIrModule *m, TileIrBlock *b, uint32_t count,
                       const uint32_t *types)
{
    b->argument_count = count;
    b->arguments = ARENA_ARRAY(m->arena, TileIrValue, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        b->arguments[i].type = types[i];
}

TileIrBlock *bytecode_body(TileIrOp *op, uint32_t argument_count, const uint32_t *types)
{
    op->body = ARENA_NEW(op->module->arena, TileIrBlock);
    block_init(op->module, op->body, argument_count, types);
    return op->body;
}

TileIrBlock *bytecode_loop_body(const TileIrOp *op)
{
    return op->body;
}

void bytecode_append(TileIrBlock *b, TileIrOp *op)
{
    if (b->last == NULL)
        b->first = op;
    else
        b->last->next = op;
    b->last = op;
    b->count++;
}

TileIrValue *bytecode_result(const TileIrOp *op, uint32_t i)
{
    return &op->results[i];
}

/* -- kernels -------------------------------------------------------------------------------------- */

TileIrModule *bytecode_create(Arena *a)
{
    TileIrModule *m = ARENA_NEW(a, TileIrModule);
    m->arena = a;
    bytecode_scalar(m, TILEIR_I1); /* the format wants these two first */
    bytecode_scalar(m, TILEIR_I32);
    return m;
}

TileIrBlock *bytecode_kernel(TileIrModule *m, const char *name, uint32_t parameter_count,
                             const uint32_t *types, const TileIrHints *hints,
                             const char *gpu)
{
    Function *f = ARENA_NEW(m->arena, Function);
    f->name = add_string(m, name);
    f->type = function_type(m, parameter_count, types);
    f->hints = *hints;
    f->gpu = gpu;
    block_init(m, &f->body, parameter_count, types);
    m->functions = arena_grow(m->arena, m->functions, &m->function_capacity,
                              (size_t)m->function_count + 1, sizeof *m->functions);
    m->functions[m->function_count++] = f;
    return &f->body;
}

/* Operations of a block; `next`: the number of the next value. Returns how many there are, inside others, too. */
static uint32_t add_block(Text *t, TileIrBlock *b, uint32_t next);

static uint32_t add_operation(Text *t, TileIrOp *op, uint32_t next)
{
    uint32_t inside = 0;
    text_add(t, op->head.data, op->head.length);
    for (uint32_t i = 0; i < op->item_count; i++)
        add_number(t, op->items[i].value != NULL ? op->items[i].value->number
                                                 : op->items[i].count);
    if (op->body != NULL) {
        uint32_t *types = ARENA_ARRAY(op->module->arena, uint32_t,
                                      (size_t)op->body->argument_count + 1);
        for (uint32_t i = 0; i < op->body->argument_count; i++)
            types[i] = op->body->arguments[i].type;
        add_number(t, 1); /* region */
        add_number(t, 1); /* block */
        add_numbers(t, op->body->argument_count, types);
        add_number(t, op->body->count);
        inside = add_block(t, op->body, next);
    }
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].number = next + i;
    return inside + 1;
}

static uint32_t add_block(Text *t, TileIrBlock *b, uint32_t next)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->argument_count; i++)
        b->arguments[i].number = next++;
    for (TileIrOp *op = b->first; op != NULL; op = op->next) {
        count += add_operation(t, op, next);
        next += op->result_count;
    }
    return count;
}

static bool has_hints(const Function *f)
{
    return f->hints.warps != 0 || f->hints.blocks > 1;
}

static void add_hint(TileIrModule *m, Text *t, const char *name, uint32_t value)
{
    add_number(t, add_string(m, name));
    add_number(t, ATTRIBUTE_INTEGER);
    add_number(t, bytecode_scalar(m, TILEIR_I32));
    add_number(t, value);
}

static void add_hints(TileIrModule *m, Text *t, const Function *f)
{
    bool has_warps = f->hints.warps != 0, has_blocks = f->hints.blocks > 1;
    add_number(t, ATTRIBUTE_HINTS);
    add_number(t, 1);
    add_number(t, add_string(m, f->gpu));
    add_number(t, ATTRIBUTE_DICTIONARY);
    add_number(t, (uint64_t)has_warps + has_blocks);
    if (has_blocks)
        add_hint(m, t, "num_cta_in_cga", f->hints.blocks);
    if (has_warps)
        add_hint(m, t, "num_worker_warps_per_cta", f->hints.warps);
}

/* All functions; ops[i]: how many operations. */
static void add_functions(TileIrModule *m, Text *t, uint32_t *ops)
{
    add_number(t, m->function_count);
    for (uint32_t i = 0; i < m->function_count; i++) {
        Function *f = m->functions[i];
        Text body;
        text_init(&body, m->arena);
        ops[i] = add_block(&body, &f->body, 0);
        add_number(t, f->name);
        add_number(t, f->type);
        add_number(t, FUNCTION_KERNEL | (has_hints(f) ? FUNCTION_HINTS : 0));
        add_number(t, i + 1); /* of what is known about lines: nothing */
        if (has_hints(f))
            add_hints(m, t, f);
        add_number(t, body.length);
        text_add(t, body.data, body.length);
    }
}

/* Which line each operation is from, and of its function: of none. */
static void add_lines(Text *t, const TileIrModule *m, const uint32_t *ops)
{
    uint32_t all = 0;
    add_number(t, m->function_count);
    pad(t, 4);
    for (uint32_t i = 0; i < m->function_count; i++) {
        add_fixed(t, all, 4);
        all += ops[i] + 1;
    }
    add_number(t, all);
    pad(t, 8);
    for (uint32_t i = 0; i < all; i++)
        add_fixed(t, 0, 8);
    add_number(t, 1); /* a table of one unknown line */
    pad(t, 4);
    add_fixed(t, 0, 4);
    text_char(t, 0);
}

static void add_section(Text *t, uint32_t id, uint32_t alignment, const Text *section)
{
    text_char(t, (char)(id | 0x80)); /* with an alignment */
    add_number(t, section->length);
    add_number(t, alignment);
    pad(t, alignment);
    text_add(t, section->data, section->length);
}

const void *bytecode_write(TileIrModule *m, size_t *out_bytes)
{
    enum { STRINGS = 1, FUNCTIONS, LINES, CONSTANTS, TYPES };
    static const char header[] = {0x7f, 'T', 'i', 'l', 'e', 'I', 'R', 0, 13, 1, 0, 0};
    uint32_t *ops = ARENA_ARRAY(m->arena, uint32_t, (size_t)m->function_count + 1);
    Text all, sections[TYPES + 1];
    text_init(&all, m->arena);
    for (uint32_t i = STRINGS; i <= TYPES; i++)
        text_init(&sections[i], m->arena);
    add_functions(m, &sections[FUNCTIONS], ops);
    add_table(&sections[CONSTANTS], &m->constants, 8);
    add_lines(&sections[LINES], m, ops);
    add_table(&sections[TYPES], &m->types, 4);
    add_table(&sections[STRINGS], &m->strings, 4);
    text_add(&all, header, sizeof header);
    add_section(&all, FUNCTIONS, 8, &sections[FUNCTIONS]);
    add_section(&all, CONSTANTS, 8, &sections[CONSTANTS]);
    add_section(&all, LINES, 8, &sections[LINES]);
    add_section(&all, TYPES, 4, &sections[TYPES]);
    add_section(&all, STRINGS, 4, &sections[STRINGS]);
    text_char(&all, 0);
    *out_bytes = all.length;
    return all.data;
}
