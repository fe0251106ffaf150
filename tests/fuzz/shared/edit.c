/* See edit.h. */
#include "tests/fuzz/shared/edit.h"

#include <string.h>

typedef enum EditKind {
    EDIT_SET,    /* the number itself, with its sign */
    EDIT_ADD,    /* the number to what stands there */
    EDIT_EDGE,   /* one of the numbers where things end */
    EDIT_FIELD,  /* the same field of another record */
    EDIT_RECORD, /* all of another record */
    EDIT_MORE,   /* a copy of the record behind the last */
    EDIT_FEWER,  /* the last records go */
    EDIT_SWAP,   /* with another record */
    EDIT_KINDS
} EditKind;

/* One section of the builder. */
typedef struct Part {
    unsigned char *records;
    uint32_t *count;
    size_t record_bytes;
} Part;

void edit_open(PlanBuilder *b, const Plan *plan)
{
    plan_builder_init(b);
#define PLAN_SECTION(id, name, Record)                                                   \
    b->name##_count = 0;                                                                 \
    plan_add_##name(b, plan->name, plan->name##_count);
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
}

/* Space for one record more is made first: the records move. */
static Part part_of(PlanBuilder *b, uint32_t section, bool more)
{
    uint32_t i = 0;
#define PLAN_SECTION(id, name, Record)                                                   \
    if (i++ == section) {                                                                \
        if (more && b->name##_count != 0)                                                \
            plan_add_##name(b, NULL, 1);                                                 \
        return (Part){(unsigned char *)b->name, &b->name##_count, sizeof(Record)};       \
    }
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    return (Part){NULL, NULL, 0};
}

static uint64_t edge(uint16_t which)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     7,
                                     255,
                                     256,
                                     4096,
                                     65535,
                                     65536,
                                     INT32_MAX,
                                     UINT64_C(1) << 31,
                                     UINT32_MAX,
                                     UINT64_C(1) << 32,
                                     INT64_MAX,
                                     UINT64_C(1) << 63,
                                     UINT64_MAX};
    return edges[which % (sizeof edges / sizeof *edges)];
}

static void change_field(Part p, size_t record, size_t at, size_t width, EditKind kind,
                         uint16_t number)
{
    unsigned char *field = p.records + record * p.record_bytes + at;
    uint64_t value = 0;
    memcpy(&value, field, width); /* little-endian, as the plan is */
    if (kind == EDIT_SET)
        value = (uint64_t)(int64_t)(int16_t)number;
    else if (kind == EDIT_ADD)
        value += (uint64_t)(int64_t)(int16_t)number;
    else if (kind == EDIT_EDGE)
        value = edge(number);
    else
        memcpy(&value, p.records + number % *p.count * p.record_bytes + at, width);
    memcpy(field, &value, width);
}

static void change_records(Part p, size_t record, EditKind kind, uint16_t number)
{
    unsigned char kept[1024];
    unsigned char *here = p.records + record * p.record_bytes;
    unsigned char *there = p.records + number % *p.count * p.record_bytes;
    if (kind == EDIT_FEWER)
        *p.count -= 1 + number % *p.count;
    else if (kind == EDIT_MORE)
        memcpy(p.records + (*p.count - 1) * p.record_bytes, here, p.record_bytes);
    else if (kind == EDIT_RECORD)
        memmove(here, there, p.record_bytes);
    else if (p.record_bytes <= sizeof kept) {
        memcpy(kept, here, p.record_bytes);
        memmove(here, there, p.record_bytes);
        memcpy(there, kept, p.record_bytes);
    }
}

static void edit_one(PlanBuilder *b, const uint8_t data[EDIT_BYTES])
{
    EditKind kind = (EditKind)(data[3] % EDIT_KINDS);
    size_t width = (size_t)1 << data[3] / EDIT_KINDS % 4;
    uint16_t number = (uint16_t)(data[4] | data[5] << 8);
    Part p = part_of(b, data[0] % PLAN_SECTION_COUNT, kind == EDIT_MORE);
    if (b->failed || *p.count == 0)
        return;
    size_t record = data[1] % *p.count;
    width = width < p.record_bytes ? width : p.record_bytes;
    size_t at = data[2] * width % (p.record_bytes - p.record_bytes % width);
    if (kind <= EDIT_FIELD)
        change_field(p, record, at, width, kind, number);
    else
        change_records(p, record, kind, number);
}

void edit_apply(PlanBuilder *b, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + EDIT_BYTES <= size && !b->failed; at += EDIT_BYTES)
        edit_one(b, data + at);
}
