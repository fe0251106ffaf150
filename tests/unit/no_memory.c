/* Where memory runs out in the runtime: each allocation of a piece of work fails once. It is told, nothing half made
 * comes out, and nothing is left. The linker puts the functions below in place of the allocators (tests.mk). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/collective/collective.h"
#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/collective_program.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/fake_nccl.h"
#include "tests/unit/shared/program.h"

/* --- the allocators --------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *p);

static atomic_long alive; /* arrays that nobody has freed */
static _Thread_local unsigned long
    left;                      /* this thread's allocation that fails; 0: none does */
static atomic_bool has_failed; /* in any thread */

static bool fails(void)
{
    bool now = left == 1;
    if (now)
        has_failed = true;
    left -= left != 0;
    return now;
}

static void *counted(void *p)
{
    alive += p != NULL;
    return p;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    void *p = fails() ? NULL : __real_realloc(old, bytes);
    alive += p != NULL && old == NULL;
    return p;
}

void __wrap_free(void *p)
{
    alive -= p != NULL;
    __real_free(p);
}

/* Does the work with its 1st, 2nd, ... allocation failing, until none is left to fail. It says whether all went well,
 * and gives back what it has made. */
static void each_fails(bool (*work)(void))
{
    unsigned long n = 0;
    do {
        long before = alive;
        left = ++n;
        has_failed = false;
        bool well = work();
        left = 0;
        if (well == has_failed)
            fail_msg("allocation %lu: %s", n,
                     well ? "nobody has noticed" : gxrt_last_error());
        if (alive != before)
            fail_msg("allocation %lu: %ld arrays are left", n, alive - before);
    } while (has_failed);
    assert_true(n > 1);
}

static bool lacks_memory(gxrt_status st)
{
    if (st != GXRT_OK)
        left = 0;
    if (st != GXRT_OK && st != GXRT_OUT_OF_MEMORY)
        fail_msg("%s: %s", gxrt_status_name(st), gxrt_last_error());
    return st != GXRT_OK;
}

/* --- plans ------------------------------------------------------------------------------------ */

/* Strings and records enough that tables grow. */
static bool write_plan(void)
{
    PlanBuilder b;
    char text[16];
    void *bytes = text;
    size_t size = 7;
    plan_builder_init(&b);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "name %d", i);
        plan_add_numbers(&b, &(int64_t){plan_string(&b, text)}, 1);
    }
    bool well = plan_write(&b, &bytes, &size);
    assert_true(well ? bytes != NULL && size != 0 : bytes == NULL && size == 0);
    free(bytes);
    plan_builder_deinit(&b);
    return well;
}

static void test_write(void **state)
{
    (void)state;
    each_fails(write_plan);
}

/* --- programs --------------------------------------------------------------------------------- */

static char *file; /* of a program; one byte too far, so that its plan has to be copied */
static size_t file_size;

static void make_file(Maker *m)
{
    void *made = artefact_make(&m->b, NULL, 0, &file_size);
    file = malloc(file_size + 1);
    memcpy(file + 1, made, file_size);
    free(made);
}

static void add_value_and_sum(Maker *m)
{
    uint32_t in = maker_value(m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(m, in, out, 4, immediate(3));
}

static bool open_file(void)
{
    gxrt_program *program;
    if (lacks_memory(gxrt_program_open_memory(file + 1, file_size, &program))) {
        assert_null(program);
        return false;
    }
    gxrt_program_destroy(program);
    return true;
}

static char path[64];

static bool open_path(void)
{
    gxrt_program *program;
    if (lacks_memory(gxrt_program_open(path, &program)))
        return false;
    gxrt_program_destroy(program);
    return true;
}

static void test_open(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    add_value_and_sum(&m);
    make_file(&m);
    each_fails(open_file);
    snprintf(path, sizeof path, "/tmp/gxc-no-memory-%ld", (long)getpid());
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file + 1, 1, file_size, f), file_size);
    assert_int_equal(fclose(f), 0);
    each_fails(open_path);
    assert_int_equal(remove(path), 0);
    free(file);
}

/* --- sessions --------------------------------------------------------------------------------- */

static gxrt_program *program;
static const NcclApi *nccl;

static bool make_session(void)
{
    gxrt_session *s;
    int before = fake_live;
    bool well = !lacks_memory(session_create(program, NULL, &fake_api, NULL, nccl, &s));
    left = 0;
    gxrt_session_destroy(s);
    if (fake_live != before)
        fail_msg("%d objects are left: %s", fake_live - before, gxrt_last_error());
    assert_int_equal(fake_comms, 0);
    return well;
}

static void test_session(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    add_value_and_sum(&m);
    make_file(&m);
    assert_int_equal(gxrt_program_open_memory(file + 1, file_size, &program), GXRT_OK);
    nccl = NULL;
    each_fails(make_session);
    gxrt_program_destroy(program);
    free(file);
}

/* Collectives of every kind, so many that their tables grow. */
static void test_collectives(void **state)
{
    (void)state;
    CollectiveMaker m;
    void *collectives_file;
    collectives_init(&m, "all", FAKE_RANKS, 4);
    uint32_t all = collectives_clique(&m, "all", 1, (int64_t[]){4, 0, 1, 2, 3}, 5);
    for (int i = 0; i < 3; i++) {
        collectives_add(&m, PLAN_ALL_REDUCE, "sum", all, 4);
        collectives_add(&m, PLAN_ALL_TO_ALL, "exchange", all, 4);
        PlanCollective *c = collectives_add(&m, PLAN_COLLECTIVE_PERMUTE, "shift", all, 4);
        c->pairs = plan_add_numbers(&m.b, (int64_t[]){0, 1, 1, 2, 2, 3, 3, 0}, 8);
        c->pair_count = 4;
    }
    program = collectives_open(&m, &collectives_file);
    nccl = &fake_nccl;
    each_fails(make_session);
    gxrt_program_destroy(program);
    free(collectives_file);
}

/* --- worlds ----------------------------------------------------------------------------------- */

static char store[64];

static bool make_world(void)
{
    gxrt_world *world;
    if (lacks_memory(gxrt_world_create(0, 2, store, &world))) {
        assert_null(world);
        return false;
    }
    left = 0;
    gxrt_world_destroy(world);
    return true;
}

static bool world_of_environment(void)
{
    gxrt_world *world;
    if (lacks_memory(gxrt_world_from_environment(&world)))
        return false;
    left = 0;
    gxrt_world_destroy(world);
    return true;
}

static void take_one(void *user, uint32_t rank, const void *bytes, size_t size)
{
    (void)user, (void)bytes;
    assert_int_equal(rank, 0);
    assert_int_equal(size, 1);
}

/* The other rank does not come. */
static bool gather(void)
{
    unsigned long later = left;
    gxrt_world *world;
    left = 0;
    assert_int_equal(gxrt_world_create(0, 2, store, &world), GXRT_OK);
    left = later;
    gxrt_status st = gxrt_world_gather(world, "x", 1, 0, take_one, NULL);
    left = 0;
    bool has_memory = st == GXRT_WORLD_FAILED &&
                      strstr(gxrt_last_error(), "Cannot allocate memory") == NULL;
    if (has_memory)
        assert_non_null(strstr(gxrt_last_error(), "gather-0-1-0"));
    else
        assert_true(st == GXRT_WORLD_FAILED || lacks_memory(st));
    gxrt_world_destroy(world);
    return has_memory;
}

static void test_worlds(void **state)
{
    (void)state;
    snprintf(store, sizeof store, "file:/tmp/gxc-no-memory-%ld", (long)getpid());
    each_fails(make_world);
    each_fails(gather);
    assert_int_not_equal(access(store + 5, F_OK), 0);
    setenv("GXRT_RANK", "0", 1);
    setenv("GXRT_WORLD_SIZE", "2", 1);
    setenv("GXRT_STORE", store, 1);
    each_fails(world_of_environment);
    setenv("GXRT_RANK", "1", 1); /* who connects when it first asks */
    setenv("GXRT_STORE", "tcp://127.0.0.1:29500", 1);
    setenv("GXRT_SECRET", "a secret", 1);
    each_fails(world_of_environment);
    unsetenv("GXRT_SECRET");
    unsetenv("GXRT_STORE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write),   cmocka_unit_test(test_open),
        cmocka_unit_test(test_session), cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
