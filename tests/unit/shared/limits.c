/* See limits.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"

const char *plan_refusal(const PlanBuilder *b)
{
    static char error[512];
    void *bytes;
    size_t n;
    Plan plan;
    assert_true(plan_write(b, &bytes, &n));
    error[0] = 0;
    bool good = plan_read(&plan, bytes, n, error, sizeof error);
    free(bytes);
    return good ? NULL : error;
}

void expect_read(const PlanBuilder *b)
{
    const char *why = plan_refusal(b);
    if (why != NULL)
        fail_msg("refused: %s", why);
}

void expect_refused(const PlanBuilder *b, const char *says)
{
    const char *why = plan_refusal(b);
    if (why == NULL)
        fail_msg("read, not refused: %s", says);
    if (strstr(why, says) == NULL)
        fail_msg("'%s' lacks '%s'", why, says);
}

void expect_verdict(const PlanBuilder *b, const char *what, size_t i, const char *says)
{
    const char *why = plan_refusal(b);
    if (says ? !why || !strstr(why, says) : why != NULL)
        fail_msg("%s %zu: expected '%s', got '%s'", what, i, says ? says : "read",
                 why ? why : "read");
}

void *read_plan(const PlanBuilder *b, Plan *out)
{
    char error[512];
    void *bytes;
    size_t n;
    assert_true(plan_write(b, &bytes, &n));
    if (!plan_read(out, bytes, n, error, sizeof error))
        fail_msg("refused: %s", error);
    return bytes;
}

void expect_made(MakePlan *make)
{
    PlanBuilder b;
    make(&b);
    expect_read(&b);
    plan_builder_deinit(&b);
}

static void put(PlanBuilder *b, const Limit *l, uint64_t value)
{
    char *records;
    memcpy(&records, (const char *)b + l->table, sizeof records);
    memcpy(records + l->at, &value, l->width); /* little-endian, as the plan is */
}

static void check(MakePlan *make, const Limit *l, uint64_t value, bool good)
{
    PlanBuilder b;
    make(&b);
    put(&b, l, value);
    const char *why = plan_refusal(&b);
    if ((why == NULL) != good)
        fail_msg("%s: %llu is %s: %s", l->says, (unsigned long long)value,
                 good ? "refused" : "read", good ? why : "");
    if (!good && strstr(why, l->says) == NULL)
        fail_msg("'%s' lacks '%s'", why, l->says);
    plan_builder_deinit(&b);
}

void check_limits(MakePlan *make, const Limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check(make, &limits[i], limits[i].good, true);
        check(make, &limits[i], limits[i].bad, false);
    }
}
