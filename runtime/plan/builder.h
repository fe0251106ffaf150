/* Making a plan: growing arrays of its records, which become its bytes. */
#ifndef GXC_RUNTIME_PLAN_BUILDER_H
#define GXC_RUNTIME_PLAN_BUILDER_H

#include "runtime/plan/plan.h"

/* Growing arrays of the records of plan.h. When memory runs out `failed` is set, indices are
 * meaningless from then on, and plan_write() answers false. */
typedef struct PlanBuilder {
    bool failed;
#define PLAN_SECTION(id, name, Record)                                                   \
    Record *name;                                                                        \
    uint32_t name##_count;                                                               \
    uint32_t name##_capacity;
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    uint32_t *string_table; /* open addressing: offsets into strings, 0 empty */
    uint32_t string_slots;
    uint32_t string_used;
} PlanBuilder;

/* Makes an empty plan with one PlanInfo (1 replica, 1 partition) at b->info[0], one stream
 * (the caller's), and the string "". */
void plan_builder_init(PlanBuilder *b);
void plan_builder_deinit(PlanBuilder *b);

/* plan_add_kernels(b, records, count) and its like append `count` records and return the
 * index of the first. `records` NULL appends zeroed ones, to be filled in place. */
#define PLAN_SECTION(id, name, Record)                                                   \
    uint32_t plan_add_##name(PlanBuilder *b, const Record *records, size_t count);
PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION

uint32_t plan_string(PlanBuilder *b, const char *text); /* interned; NULL is "" */

/* Appends a command with its args; subtree is 1. A command with children: open it, add the
 * children, close it: that sets subtree. */
uint32_t plan_command(PlanBuilder *b, const PlanCommand *command, const PlanArg *args,
                      uint32_t arg_count);
void plan_close(PlanBuilder *b, uint32_t command);

/* The plan as bytes, to be freed by the caller. False only when memory ran out. The same
 * calls give the same bytes. The result is not checked: read it back. */
bool plan_write(const PlanBuilder *b, void **out_bytes, size_t *out_size);

#endif
