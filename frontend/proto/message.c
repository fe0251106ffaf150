/* Messages of the wire format, read field by field; ids, names, payloads and metadata of HloModuleProto. */
#include <stdlib.h>
#include <string.h>

#include "frontend/proto/reader.h"

bool reader_trouble(Reader *r, const char *what)
{
    if (r->trouble == NULL)
        r->trouble = what;
    return false;
}

/* -- messages ---------------------------------------------------------------------------- */

Message message_scan(Reader *r, Wire w)
{
    Field *fields = NULL;
    size_t count = 0, capacity = 0;
    Field f;
    while (wire_next(&w, &f)) {
        fields = arena_grow(r->a, fields, &capacity, count + 1, sizeof *fields);
        fields[count++] = f;
    }
    if (w.damaged)
        reader_trouble(r, "a message of the file is damaged");
    return (Message){fields, count};
}

const Field *message_find(Message m, uint32_t number)
{
    for (size_t i = m.count; i-- > 0;) {
        if (m.fields[i].number == number)
            return &m.fields[i];
    }
    return NULL;
}

int64_t message_int(Message m, uint32_t number)
{
    const Field *f = message_find(m, number);
    return f == NULL ? 0 : (int64_t)f->value;
}

Bytes message_bytes(Message m, uint32_t number)
{
    const Field *f = message_find(m, number);
    if (f == NULL || f->type != 2)
        return (Bytes){"", 0};
    return (Bytes){(const char *)f->bytes.at, (size_t)(f->bytes.end - f->bytes.at)};
}

Message message_part(Reader *r, Message m, uint32_t number)
{
    const Field *f = message_find(m, number);
    return f == NULL || f->type != 2 ? (Message){0} : message_scan(r, f->bytes);
}

/* A repeated integer, packed or not. */
Ints message_ints(Reader *r, Message m, uint32_t number)
{
    int64_t *data = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != number)
            continue;
        Wire w = m.fields[i].bytes;
        if (m.fields[i].type != 2) {
            data = arena_grow(r->a, data, &capacity, count + 1, sizeof *data);
            data[count++] = (int64_t)m.fields[i].value;
        }
        while (m.fields[i].type == 2 && w.at < w.end && !w.damaged) {
            data = arena_grow(r->a, data, &capacity, count + 1, sizeof *data);
            data[count++] = (int64_t)wire_take_varint(&w);
        }
        if (w.damaged)
            reader_trouble(r, "a list of numbers is damaged");
    }
    return (Ints){data, (uint32_t)count};
}

double message_double(Message m, uint32_t number)
{
    const Field *f = message_find(m, number);
    double value = 0;
    float narrow;
    uint32_t bits = f == NULL ? 0 : (uint32_t)f->value;
    if (f != NULL && f->type == 1) {
        memcpy(&value, &f->value, sizeof value);
    } else if (f != NULL) {
        memcpy(&narrow, &bits, sizeof narrow);
        value = (double)narrow;
    }
    return value;
}

/* -- names ------------------------------------------------------------------------------- */

void reader_name(Reader *r, Names *n, uint64_t id, const char *name, bool is_pred)
{
    n->data = arena_grow(r->a, n->data, &n->capacity, n->count + 1, sizeof *n->data);
    n->data[n->count++] = (Named){.id = id, .name = name, .is_pred = is_pred};
}

static int compare_named(const void *a, const void *b)
{
    const Named *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

void reader_sort(Names *n)
{
    if (n->count != 0)
        qsort(n->data, n->count, sizeof *n->data, compare_named);
}

const Named *reader_lookup(const Names *n, uint64_t id)
{
    Named key = {.id = id};
    return n->count == 0
               ? NULL
               : bsearch(&key, n->data, n->count, sizeof *n->data, compare_named);
}

const Named *reader_find(Reader *r, const Names *n, uint64_t id)
{
    const Named *found = reader_lookup(n, id);
    if (found == NULL)
        reader_trouble(r, "an id refers to nothing");
    return found;
}

void reader_put_name(Reader *r, const Names *n, uint64_t id)
{
    const Named *found = reader_find(r, n, id);
    text_char(&r->t, '%');
    text_string(&r->t, found == NULL ? "missing" : found->name);
}

/* A name that the language can write. */
const char *reader_clean_name(Reader *r, Bytes name)
{
    char *out = arena_text(r->a, name.data, name.length);
    for (size_t i = 0; i < name.length; i++) {
        char c = out[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i != 0 && ((c >= '0' && c <= '9') || c == '.' || c == '-')))
            out[i] = '_';
    }
    return name.length == 0 ? "_" : out;
}

/* -- payloads and metadata ------------------------------------------------------------------- */

Bytes reader_payload(Reader *r, Message payload)
{
    uint64_t number = (uint64_t)message_int(payload, 2);
    if (message_find(payload, 2) == NULL)
        return message_bytes(payload, 1);
    if (number < r->payload_count)
        return r->payloads[number];
    reader_trouble(r, "a payload has a number that the module does not know");
    return (Bytes){"", 0};
}

Metadata reader_metadata(Reader *r, Message m)
{
    return (Metadata){.payload = reader_payload(r, message_part(r, m, 20)),
                      .op_type = message_bytes(m, 1),
                      .op_name = message_bytes(m, 2),
                      .source_file = message_bytes(m, 3),
                      .source_line = message_int(m, 4),
                      .profile_types = message_ints(r, m, 5),
                      .deduplicated_name = message_bytes(m, 12),
                      .stack_frame_id = message_int(m, 15),
                      .scheduling_name = message_bytes(m, 16),
                      .source_end_line = message_int(m, 17),
                      .source_column = message_int(m, 18),
                      .source_end_column = message_int(m, 19)};
}
