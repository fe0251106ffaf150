/* Building a plan record by record, and writing it as bytes. */
#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

static size_t align16(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* Room for `count` more records; the address of the first new one, or NULL without memory. */
static void *grow(PlanBuilder *b, void **array, uint32_t *used, uint32_t *capacity,
                  size_t count, size_t record)
{
    if (b->failed || count > PLAN_NONE - 1 - *used) {
        b->failed = true;
        return NULL;
    }
    uint32_t needed = *used + (uint32_t)count;
    if (needed > *capacity || !*array) {
        size_t larger = *capacity < 16 ? 16 : (size_t)*capacity + *capacity / 2;
        if (larger < needed) {
            larger = needed;
        }
        if (larger > PLAN_NONE - 1) {
            larger = PLAN_NONE - 1;
        }
        void *moved =
            larger > SIZE_MAX / record ? NULL : realloc(*array, larger * record);
        if (!moved) {
            b->failed = true;
            return NULL;
        }
        *array = moved;
        *capacity = (uint32_t)larger;
    }
    void *first = (char *)*array + (size_t)*used * record;
    *used = needed;
    return first;
}

#define PLAN_SECTION(id, name, Record)                                                   \
    uint32_t plan_add_##name(PlanBuilder *b, const Record *records, size_t count)        \
    {                                                                                    \
        uint32_t index = b->name##_count;                                                \
        void *array = b->name;                                                           \
        void *to = grow(b, &array, &b->name##_count, &b->name##_capacity, count,         \
                        sizeof(Record));                                                 \
        b->name = array;                                                                 \
        if (to && records && count) {                                                    \
            memcpy(to, records, count * sizeof(Record));                                 \
        } else if (to) {                                                                 \
            memset(to, 0, count * sizeof(Record));                                       \
        }                                                                                \
        return index;                                                                    \
    }
PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION

void plan_builder_init(PlanBuilder *b)
{
    memset(b, 0, sizeof *b);
    plan_add_strings(b, "", 1);
    plan_add_info(b, &(PlanInfo){.replicas = 1, .partitions = 1}, 1);
    plan_add_streams(b, &(PlanStream){.kind = PLAN_STREAM_COMPUTE}, 1);
}

void plan_builder_deinit(PlanBuilder *b)
{
#define PLAN_SECTION(id, name, Record) free(b->name);
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    free(b->string_table);
    memset(b, 0, sizeof *b);
}

static bool grow_table(PlanBuilder *b)
{
    uint32_t slots = b->string_slots ? b->string_slots * 2 : 256;
    uint32_t *table = slots ? calloc(slots, sizeof *table) : NULL;
    if (!table) {
        return false;
    }
    for (uint32_t i = 0; i < b->string_slots; i++) {
        if (b->string_table[i]) {
            uint32_t at = hash_text(b->strings + b->string_table[i]) & (slots - 1);
            while (table[at]) {
                at = (at + 1) & (slots - 1);
            }
            table[at] = b->string_table[i];
        }
    }
    free(b->string_table);
    b->string_table = table;
    b->string_slots = slots;
    return true;
}

uint32_t plan_string(PlanBuilder *b, const char *text)
{
    if (!text || !*text || b->failed) {
        return 0;
    }
    if (b->string_used >= b->string_slots / 2 && !grow_table(b)) {
        b->failed = true;
        return 0;
    }
    uint32_t at = hash_text(text) & (b->string_slots - 1);
    for (; b->string_table[at]; at = (at + 1) & (b->string_slots - 1)) {
        if (strcmp(b->strings + b->string_table[at], text) == 0) {
            return b->string_table[at];
        }
    }
    uint32_t offset = plan_add_strings(b, text, strlen(text) + 1);
    if (b->failed) {
        return 0;
    }
    b->string_table[at] = offset;
    b->string_used++;
    return offset;
}

uint32_t plan_command(PlanBuilder *b, const PlanCommand *command, const PlanArg *args,
                      uint32_t arg_count)
{
    PlanCommand c = *command;
    c.subtree = 1;
    c.args = plan_add_args(b, args, arg_count);
    c.arg_count = arg_count;
    return plan_add_commands(b, &c, 1);
}

void plan_close(PlanBuilder *b, uint32_t command)
{
    if (!b->failed) {
        b->commands[command].subtree = b->commands_count - command;
    }
}

bool plan_write(const PlanBuilder *b, void **out_bytes, size_t *out_size)
{
    *out_bytes = NULL;
    *out_size = 0;
    if (b->failed) {
        return false;
    }
    PlanSection table[PLAN_SECTION_COUNT];
    const void *data[PLAN_SECTION_COUNT];
    memset(table, 0, sizeof table);
    size_t end = sizeof(PlanHeader) + sizeof table;
    PlanSection *s = table;
#define PLAN_SECTION(section, name, Record)                                              \
    end = align16(end);                                                                  \
    s->id = PLAN_SECTION_##section;                                                      \
    s->optional = s->id >= PLAN_SECTION_OPTIONAL;                                        \
    s->record_bytes = sizeof(Record);                                                    \
    s->offset = end;                                                                     \
    s->bytes = (uint64_t)b->name##_count * sizeof(Record);                               \
    data[s - table] = b->name;                                                           \
    end += s->bytes;                                                                     \
    s++;
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    end = align16(end);
    char *bytes = calloc(1, end);
    if (!bytes) {
        return false;
    }
    for (int i = 0; i < PLAN_SECTION_COUNT; i++) {
        if (table[i].bytes) {
            memcpy(bytes + table[i].offset, data[i], table[i].bytes);
        }
        plan_hash(bytes + table[i].offset, table[i].bytes, table[i].hash);
    }
    PlanHeader header = {.magic = PLAN_MAGIC,
                         .major = PLAN_MAJOR,
                         .minor = PLAN_MINOR,
                         .section_count = PLAN_SECTION_COUNT,
                         .total_bytes = end};
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, table, sizeof table);
    plan_hash(bytes, sizeof header + sizeof table, header.hash);
    memcpy(bytes, &header, sizeof header);
    *out_bytes = bytes;
    *out_size = end;
    return true;
}
