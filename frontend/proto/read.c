/* HloModuleProto to HLO text. The message is scanned field by field; an instruction's attributes
 * are printed by its opcode's row, so what the row does not have is not looked at. */
#include <string.h>

#include "frontend/proto/reader.h"
#include "ir/print/value.h"

#define INNER_DEPTH 8 /* modules in the tables of modules */

static void put_module(Reader *r, Wire module);
static void put_recovery_table(Reader *r, Message table);

/* -- instructions, computations, modules ------------------------------------------------------- */

/* The text takes one number for a constant of any shape, so that a few damaged bytes would become
 * very many: the literal has the shape of its instruction here. */
static void put_constant(Reader *r, Message inst)
{
    Message literal = message_part(r, inst, 8);
    Ints have = message_ints(r, message_part(r, literal, 1), 3);
    Ints want = message_ints(r, message_part(r, inst, 3), 3);
    bool same = have.count == want.count;
    for (uint32_t i = 0; same && i < have.count; i++)
        same = have.data[i] == want.data[i];
    if (same)
        reader_put_literal(r, literal, false);
    else
        reader_trouble(r, "a constant and its literal differ in shape");
}

static void put_operands(Reader *r, OpCode op, Message inst)
{
    Text *t = &r->t;
    Bytes text = message_bytes(inst, PROTO_LITERAL);
    Ints operands = message_ints(r, inst, 36);
    if (op == OP_PARAMETER) {
        text_int(t, message_int(inst, 9));
    } else if (op == OP_CONSTANT && text.length != 0) {
        text_add(t, text.data, text.length);
    } else if (op == OP_CONSTANT) {
        put_constant(r, inst);
    } else {
        for (uint32_t i = 0; i < operands.count; i++) {
            text_string(t, i == 0 ? "" : ", ");
            reader_put_name(r, &r->instructions, (uint64_t)operands.data[i]);
        }
    }
}

static void put_instruction(Reader *r, Message inst, bool is_root)
{
    Text *t = &r->t;
    Bytes spelling = message_bytes(inst, 2);
    OpCode op = op_find(spelling.data, spelling.length);
    if (op == OP_COUNT) {
        reader_trouble(r, arena_printf(r->d->arena, "unknown opcode '%.*s'",
                                       (int)spelling.length, spelling.data));
        return;
    }
    text_string(t, is_root ? "  ROOT " : "  ");
    reader_put_name(r, &r->instructions, (uint64_t)message_int(inst, 35));
    text_string(t, " = ");
    reader_put_shape(r, message_part(r, inst, 3));
    text_char(t, ' ');
    text_string(t, op_info[op].name);
    text_char(t, '(');
    put_operands(r, op, inst);
    text_char(t, ')');
    Ints operands = message_ints(r, inst, 36);
    const Named *index =
        op == OP_CONDITIONAL && operands.count != 0
            ? reader_find(r, &r->instructions, (uint64_t)operands.data[0])
            : NULL;
    for (const OpAttr *row = op_info[op].attrs; row->id != ATTR_COUNT; row++)
        reader_put_attribute(r, op, row, inst);
    reader_put_callees(r, op, inst, index != NULL && index->is_pred);
    reader_put_shared(r, inst);
    text_char(t, '\n');
}

static void take_schedule(Reader *r, Message schedule)
{
    for (size_t i = 0; i < schedule.count; i++) {
        if (schedule.fields[i].number != 1 || schedule.fields[i].type != 2)
            continue;
        Message entry = message_scan(r, schedule.fields[i].bytes);
        const Field *sequence = message_find(entry, 2);
        reader_name(r, &r->schedule, (uint64_t)message_int(entry, 1), "", false);
        if (sequence != NULL && sequence->type == 2)
            r->schedule.data[r->schedule.count - 1].sequence = sequence->bytes;
    }
    reader_sort(&r->schedule);
}

/* The instructions of a computation in the order of its schedule, if it has one. */
static Ints find_sequence(Reader *r, uint64_t computation)
{
    const Named *found = reader_lookup(&r->schedule, computation);
    if (found == NULL)
        return (Ints){0};
    return message_ints(r, message_scan(r, found->sequence), 1);
}

static void put_computation(Reader *r, Message comp, bool is_entry)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < comp.count; i++)
        count += comp.fields[i].number == 2;
    Message *all = ARENA_ARRAY(r->a, Message, count);
    r->instructions.count = 0;
    for (size_t i = 0; i < comp.count; i++) {
        if (comp.fields[i].number != 2)
            continue;
        Message inst = all[at++] = message_scan(r, comp.fields[i].bytes);
        Message shape = message_part(r, inst, 3);
        reader_name(r, &r->instructions, (uint64_t)message_int(inst, 35),
                    reader_clean_name(r, message_bytes(inst, 1)),
                    message_int(shape, 2) == 1);
        r->instructions.data[at - 1].position = at - 1;
    }
    reader_sort(&r->instructions);
    text_string(&r->t, is_entry ? "ENTRY %" : "%");
    text_string(&r->t, reader_clean_name(r, message_bytes(comp, 1)));
    text_string(&r->t, " {\n");
    int64_t root = message_int(comp, 6);
    Ints sequence = find_sequence(r, (uint64_t)message_int(comp, 5));
    for (size_t i = 0; i < count && sequence.count != count; i++)
        put_instruction(r, all[i], message_int(all[i], 35) == root);
    for (uint32_t i = 0; i < sequence.count && sequence.count == count; i++) {
        const Named *n = reader_find(r, &r->instructions, (uint64_t)sequence.data[i]);
        if (n != NULL)
            put_instruction(r, all[n->position], sequence.data[i] == root);
    }
    text_char(&r->t, '}');
    Bytes thread = message_bytes(comp, 8);
    if (thread.length != 0) {
        text_string(&r->t, ", execution_thread=");
        escaped_print(&r->t, thread);
    }
    text_string(&r->t, "\n\n");
}

static void put_program_shape(Reader *r, Message program)
{
    bool first = true;
    text_string(&r->t, ", entry_computation_layout={(");
    for (size_t i = 0; i < program.count; i++) {
        if (program.fields[i].number != 1)
            continue;
        text_string(&r->t, first ? "" : ", ");
        first = false;
        reader_put_shape(r, message_scan(r, program.fields[i].bytes));
    }
    text_string(&r->t, ")->");
    reader_put_shape(r, message_part(r, program, 2));
    text_char(&r->t, '}');
}

static void put_donors(Reader *r, Message m)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 1)
            continue;
        Message e = message_scan(r, m.fields[i].bytes);
        text_printf(&r->t, "%s(%lld, {", first ? ", buffer_donor={ " : ", ",
                    (long long)message_int(e, 1));
        reader_put_list(&r->t, message_ints(r, e, 2));
        text_string(&r->t, "})");
        first = false;
    }
    text_string(&r->t, first ? "" : " }");
}

static void put_texts(Reader *r, const char *title, Message m, uint32_t field)
{
    int number = 0;
    text_string(&r->t, title);
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field || m.fields[i].type != 2)
            continue;
        Wire w = m.fields[i].bytes;
        text_printf(&r->t, "%d ", ++number);
        escaped_print(&r->t, (Bytes){(const char *)w.at, (size_t)(w.end - w.at)});
        text_char(&r->t, '\n');
    }
}

static void put_frames(Reader *r, Message m)
{
    if (m.count == 0)
        return;
    int number = 0;
    put_texts(r, "\n\nFileNames\n", m, 1);
    put_texts(r, "\nFunctionNames\n", m, 2);
    text_string(&r->t, "\nFileLocations\n");
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message l = message_scan(r, m.fields[i].bytes);
        text_printf(&r->t,
                    "%d {file_name_id=%lld function_name_id=%lld line=%lld end_line=%lld "
                    "column=%lld end_column=%lld}\n",
                    ++number, (long long)message_int(l, 1), (long long)message_int(l, 2),
                    (long long)message_int(l, 3), (long long)message_int(l, 5),
                    (long long)message_int(l, 4), (long long)message_int(l, 6));
    }
    text_string(&r->t, "\nStackFrames\n");
    number = 0;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 4)
            continue;
        Message f = message_scan(r, m.fields[i].bytes);
        text_printf(&r->t, "%d {file_location_id=%lld parent_frame_id=%lld}\n", ++number,
                    (long long)message_int(f, 1), (long long)message_int(f, 2) + 1);
    }
}

static void put_header(Reader *r, Message m)
{
    text_string(&r->t, "HloModule %");
    text_string(&r->t, reader_clean_name(r, message_bytes(m, 1)));
    const Field *schedule = message_find(m, 7);
    if (schedule != NULL && schedule->type == 2 &&
        schedule->bytes.at < schedule->bytes.end) {
        take_schedule(r, message_scan(r, schedule->bytes));
        text_string(&r->t, ", is_scheduled=true");
    }
    Message aliases = message_part(r, m, 8);
    if (aliases.count != 0) {
        text_string(&r->t, ", input_output_alias={ ");
        reader_put_aliasing(r, aliases, 1, true);
        text_string(&r->t, " }");
    }
    put_donors(r, message_part(r, m, 18));
    if (message_find(m, 4) != NULL)
        put_program_shape(r, message_part(r, m, 4));
    Message attributes = message_part(r, m, 19);
    if (attributes.count != 0) {
        text_string(&r->t, ", frontend_attributes=");
        reader_put_dict(r, attributes);
    }
    put_recovery_table(r, message_part(r, m, 20));
    Bytes extra = message_bytes(m, PROTO_TEXT);
    text_add(&r->t, extra.data, extra.length);
    put_frames(r, message_part(r, m, 17));
    text_string(&r->t, "\n\n");
}

static void take_payloads(Reader *r, Message m)
{
    size_t capacity = 0;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 22 || m.fields[i].type != 2)
            continue;
        Wire w = m.fields[i].bytes;
        r->payloads = arena_grow(r->a, r->payloads, &capacity, r->payload_count + 1,
                                 sizeof *r->payloads);
        r->payloads[r->payload_count++] =
            (Bytes){(const char *)w.at, (size_t)(w.end - w.at)};
    }
}

static void put_module(Reader *r, Wire module)
{
    Message m = message_scan(r, module);
    take_payloads(r, m);
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message comp = message_scan(r, m.fields[i].bytes);
        reader_name(r, &r->computations, (uint64_t)message_int(comp, 5),
                    reader_clean_name(r, message_bytes(comp, 1)), false);
    }
    reader_sort(&r->computations);
    put_header(r, m);
    int64_t entry = message_int(m, 6);
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message comp = message_scan(r, m.fields[i].bytes);
        put_computation(r, comp, message_int(comp, 5) == entry);
    }
}

/* A module inside of an attribute, as a string. */
static void put_inner_module(Reader *r, const Field *f)
{
    Reader inner = {.d = r->d, .a = r->a, .depth = r->depth + 1};
    text_init(&inner.t, r->a);
    if (inner.depth > INNER_DEPTH)
        reader_trouble(&inner, "modules inside of modules are nested too deep");
    else if (f->type == 2)
        put_module(&inner, f->bytes);
    if (inner.trouble != NULL)
        reader_trouble(r, inner.trouble);
    escaped_print(&r->t, (Bytes){inner.t.data, inner.t.length});
}

/* Old and new origins, and the program that makes one of the other. */
static void put_recovery_table(Reader *r, Message table)
{
    if (table.count == 0)
        return;
    text_string(&r->t, ", origin_recovery_table={\n");
    for (size_t i = 0; i < table.count; i++) {
        if (table.fields[i].number != 1 || table.fields[i].type != 2)
            continue;
        Message entry = message_scan(r, table.fields[i].bytes);
        text_char(&r->t, '{');
        reader_put_origin_array(r, message_part(r, entry, 1));
        text_string(&r->t, "} : {");
        reader_put_origin_array(r, message_part(r, entry, 2));
        text_char(&r->t, '}');
        if (message_find(entry, 3) != NULL) {
            text_string(&r->t, ", ");
            put_inner_module(r, message_find(entry, 3));
        }
        text_char(&r->t, '\n');
    }
    text_char(&r->t, '}');
}

static bool has_module_fields(Wire w)
{
    Field f;
    bool computations = false;
    while (wire_next(&w, &f))
        computations = computations || (f.number == 3 && f.type == 2);
    return !w.damaged && computations;
}

/* The module inside of HloProto (its field 1), or of HloSnapshot (field 1 of its field 1), or the bytes
 * themselves. */
static Wire find_module(Wire w, int layers)
{
    Wire scan_at = w;
    Field f;
    while (wire_next(&scan_at, &f)) {
        if (f.number != 1 || f.type != 2)
            continue;
        if (has_module_fields(f.bytes))
            return f.bytes;
        Wire inner = layers > 1 ? find_module(f.bytes, layers - 1) : f.bytes;
        if (inner.at != f.bytes.at)
            return inner;
    }
    return w;
}

bool proto_is(const char *data, size_t length)
{
    Wire w = {(const unsigned char *)data, (const unsigned char *)data + length, false};
    return length > 2 && data[0] == '\n' && has_module_fields(find_module(w, 2));
}

/* A message whose start is one of HloModuleProto - its name, and behind it another field - but
 * that is not whole. */
static bool is_cut_off(const char *data, size_t length)
{
    Wire w = {(const unsigned char *)data, (const unsigned char *)data + length, false};
    Field f;
    if (length < 2 || data[0] != '\n' || !wire_next(&w, &f) || f.type != 2)
        return false;
    for (const unsigned char *c = f.bytes.at; c < f.bytes.end; c++)
        if (*c < ' ' || *c == 0x7f)
            return false; /* no name */
    return w.at == w.end || *w.at == (2 << 3 | 2) || *w.at == (3 << 3 | 2);
}

bool proto_is_cut_off(const char *data, size_t length)
{
    bool text = true;
    for (size_t i = 0; text && i < length && i < 256; i++)
        text = (unsigned char)data[i] >= ' ' || strchr("\t\n\r", data[i]) != NULL;
    return !text && !proto_is(data, length) && is_cut_off(data, length);
}

bool proto_to_text(Diag *d)
{
    const unsigned char *data = (const unsigned char *)d->text;
    Reader r = {.d = d, .a = arena_scratch()};
    text_init(&r.t, d->arena);
    put_module(&r, find_module((Wire){data, data + d->length, false}, 2));
    arena_destroy(r.a);
    d->text = r.t.data;
    d->length = r.t.length;
    if (r.trouble != NULL)
        diag_error(d, (Span){(uint32_t)r.t.length, (uint32_t)r.t.length},
                   "this HloModuleProto cannot be read: %s", r.trouble);
    return r.trouble == NULL;
}
