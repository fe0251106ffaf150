/* Numbered tasks in several threads: each runs once, and the first error in order is thrown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "codegen/build/tasks.h"
#include "ir/base/bug.h"

enum { TASKS = 200 };

typedef struct Runs {
    atomic_int runs[TASKS];
    atomic_bool is_busy[8];
    size_t bad[4]; /* tasks that throw */
} Runs;

static void run(void *user, uint32_t worker, size_t task)
{
    Runs *r = user;
    if (worker >= 8 || atomic_exchange(&r->is_busy[worker], true))
        bug("two threads are worker %u", worker);
    Arena *scratch = arena_scratch(); /* given back where the task throws */
    memset(arena_alloc(scratch, 100), 1, 100);
    atomic_fetch_add(&r->runs[task], 1);
    atomic_store(&r->is_busy[worker], false);
    for (size_t i = 0; i < 4; i++) {
        if (task != r->bad[i])
            continue;
        escape_innermost()->at = (Span){(uint32_t)task, 1};
        escape_throw(ESCAPE_UNSUPPORTED, "task %zu", task);
    }
    arena_destroy(scratch);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers++) {
        static Runs r;
        memset(&r, 0, sizeof r);
        for (size_t i = 0; i < 4; i++)
            r.bad[i] = TASKS;
        tasks_run(workers, TASKS, run, &r);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(r.runs[i], 1);
    }
}

static void expect_error(uint32_t workers, size_t first)
{
    static Runs r;
    Escape e;
    memset(&r, 0, sizeof r);
    for (size_t i = 0; i < 4; i++)
        r.bad[i] = first + 3 * (3 - i);
    escape_push(&e);
    if (setjmp(e.target) == 0)
        tasks_run(workers, TASKS, run, &r);
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_UNSUPPORTED);
    assert_int_equal(e.at.begin, first);
    char message[32];
    snprintf(message, sizeof message, "task %zu", first);
    assert_string_equal(e.message, message);
    for (size_t i = 0; i <= first; i++)
        assert_int_equal(r.runs[i], 1);
}

static void the_first_error_is_thrown(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 400; round++)
        expect_error(1 + round % 8, 60 + round % 40);
}

static void as_many_workers_as_tasks(void **state)
{
    (void)state;
    assert_int_equal(tasks_workers(8, 3), 3);
    assert_int_equal(tasks_workers(2, 3), 2);
    assert_int_equal(tasks_workers(1, 0), 1);
    assert_true(tasks_workers(0, 100) >= 1);
    tasks_run(tasks_workers(4, 0), 0, run, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(the_first_error_is_thrown),
        cmocka_unit_test(as_many_workers_as_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
