/* See limits.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"

bool plan_is_read(const PlanBuilder *b, char *error, size_t size)
{
    void *bytes;
    size_t n;
    Plan plan;
    assert_true(plan_write(b, &bytes, &n));
    bool good = plan_read(&plan, bytes, n, error, size);
    free(bytes);
    return good;
}

void expect_read(const PlanBuilder *b)
{
    char error[512] = "";
    if (!plan_is_read(b, error, sizeof error))
        fail_msg("refused: %s", error);
}

void expect_refused(const PlanBuilder *b, const char *says)
{
    char error[512] = "";
    if (plan_is_read(b, error, sizeof error))
        fail_msg("read, not refused: %s", says);
    if (strstr(error, says) == NULL)
        fail_msg("'%s' lacks '%s'", error, says);
}

static void put(PlanBuilder *b, const Limit *l, uint64_t value)
{
    char *records;
    memcpy(&records, (const char *)b + l->table, sizeof records);
    memcpy(records + l->at, &value, l->width); /* little-endian, as the plan is */
}

static void check(MakePlan *make, const Limit *l, uint64_t value, bool good)
{
    char error[512] = "";
    PlanBuilder b;
    make(&b);
    put(&b, l, value);
    if (plan_is_read(&b, error, sizeof error) != good)
        fail_msg("%s: %llu is %s: %s", l->says, (unsigned long long)value,
                 good ? "refused" : "read", error);
    if (!good && strstr(error, l->says) == NULL)
        fail_msg("'%s' lacks '%s'", error, l->says);
    plan_builder_deinit(&b);
}

void check_limits(MakePlan *make, const Limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check(make, &limits[i], limits[i].good, true);
        check(make, &limits[i], limits[i].bad, false);
    }
}
