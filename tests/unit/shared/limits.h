/* Each number of a plan at the last value that is good, and at the first that is not: the reader takes the one and
 * refuses the other, with words about that number; and the reader's verdict on any plan. */
#ifndef GXC_TESTS_UNIT_SHARED_LIMITS_H
#define GXC_TESTS_UNIT_SHARED_LIMITS_H

#include "runtime/plan/builder.h"
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

/* The plan that it makes is read; then limits can be in terms of what `make` noted of it. */
void expect_made(MakePlan *make);

/* Each limit in a plan of its own. */
void check_limits(MakePlan *make, const Limit *limits, size_t count);
#define CHECK_LIMITS(make, limits)                                                       \
    check_limits(make, limits, sizeof(limits) / sizeof *(limits))

/* What the reader says of the plan, until it is asked again; NULL: it takes the plan. */
const char *plan_refusal(const PlanBuilder *b);
void expect_read(const PlanBuilder *b);
void expect_refused(const PlanBuilder *b, const char *says);
/* The one or, with words, the other; "what i" is for the message. */
void expect_verdict(const PlanBuilder *b, const char *what, size_t i, const char *says);

/* The plan as it is read; it lies in the bytes returned, which are the caller's. */
void *read_plan(const PlanBuilder *b, Plan *out);

#endif
