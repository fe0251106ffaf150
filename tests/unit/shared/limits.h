/* Each number of a plan at the last value that is good, and at the first that is not: the reader takes the one and
 * refuses the other, with words about that place. */
#ifndef GXC_TESTS_UNIT_SHARED_LIMITS_H
#define GXC_TESTS_UNIT_SHARED_LIMITS_H

#include "runtime/plan/plan.h"

typedef struct Limit {
    size_t table; /* of the builder: where the pointer to its records is */
    size_t at, width;
    uint64_t good, bad;
    const char *says;
} Limit;

/* The first three members: member of record i of a table. */
#define AT(table, Record, i, member)                                                     \
    offsetof(PlanBuilder, table), (i) * sizeof(Record) + offsetof(Record, member),       \
        sizeof(((Record *)0)->member)
/* The same of a table of numbers. */
#define NUMBER(table, Type, i)                                                           \
    offsetof(PlanBuilder, table), (i) * sizeof(Type), sizeof(Type)

typedef void MakePlan(PlanBuilder *b);

/* Each limit in a plan of its own. */
void check_limits(MakePlan *make, const Limit *limits, size_t count);

/* The reader's verdict on the plan; its words in `error`. */
bool plan_is_read(const PlanBuilder *b, char *error, size_t size);
void expect_read(const PlanBuilder *b);
void expect_refused(const PlanBuilder *b, const char *says);

#endif
