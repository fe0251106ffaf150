/* What goes wrong in a world, by the emulator's switches and by killing: every process ends in
 * time with an error that says what it was, or with the right results; nothing is left in
 * shared memory. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/shared/emulated.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- one process ---------------------------------------------------------------------------- */

static const char *variable, *value;

static int with_variable(int argument)
{
    (void)argument;
    setenv(variable, value, 1);
    return run_all(NULL, 2, 2, false);
}

static void expect_fault(const char *name, const char *text, int code, const char *says)
{
    variable = name;
    value = text;
    expect_exit(with_variable, code, says);
}

/* A rank that is slow, but comes in time, changes nothing. */
static void test_delayed_rank(void **state)
{
    (void)state;
    expect_fault("GXEMU_DELAY_RANK", "1:60000", 0, NULL);
}

/* rows: collectives.J9 (edge: a slow rank: first a warning, then the end) */
static void test_too_slow(void **state)
{
    (void)state;
    expect_fault("GXEMU_DELAY_RANK", "1:3000000", 1, "was not done within 2 s");
}

/* Whichever call of NCCL fails, no device waits for the one that it failed on. */
static void test_failing_calls(void **state)
{
    (void)state;
    expect_fault("GXEMU_FAIL_CALL", "ncclAllReduce:1", 1,
                 "in command 0 (all-reduce) of HLO instruction all-reduce.1");
    expect_fault("GXEMU_FAIL_CALL", "ncclReduceScatter:3", 1,
                 "in command 2 (reduce-scatter) of HLO instruction reduce-scatter.3");
    expect_fault("GXEMU_FAIL_CALL", "ncclSend:5", 1,
                 "in command 3 (all-to-all) of HLO instruction all-to-all.4");
    expect_fault("GXEMU_FAIL_CALL", "ncclCommInitRankConfig:2", 1,
                 "ncclCommInitRankConfig");
    expect_fault("GXEMU_FAIL_CALL", "ncclCommSplit:3", 1, "ncclCommSplit");
    expect_fault("GXEMU_FAIL_CALL", "cuMemAlloc_v2:7", 1, "cuMemAlloc");
}

static void test_old_version(void **state)
{
    (void)state;
    expect_fault("GXEMU_NCCL_VERSION", "21903", 1,
                 "NCCL 2.19 is too old: install NCCL 2.27 or newer");
}

/* A copy of this program in a folder of its own. The folder "none" there has files by the names of
 * the libraries that are none, so that one which the system has is not found either. */
static char alone[64], none[64];

static int run_alone(int emulated)
{
    setenv("LD_LIBRARY_PATH", none, 1);
    execl(alone, alone, emulated ? "emulator" : "nccl", (char *)NULL);
    return 2;
}

/* What the copy does: a program with a collective among four GPUs of the fake driver. */
static int without_nccl(void)
{
    Maker m;
    maker_init(&m);
    m.b.info[0].partitions = 4;
    PlanClique all = {.name = plan_string(&m.b, "all"),
                      .mode = PLAN_FLATTENED_ID,
                      .group_count = 1,
                      .groups = plan_add_numbers(&m.b, (int64_t[]){4, 0, 1, 2, 3}, 5),
                      .number_count = 5};
    plan_add_cliques(&m.b, &all, 1);
    Program p = open_program(&m, "", 0);
    gxrt_session_options options = {.struct_size = sizeof options};
    gxrt_session *s;
    gxrt_status st = session_create(p.program, &options, &fake_api, NULL, NULL, &s);
    fprintf(stderr, "%s: %s\n", gxrt_status_name(st), gxrt_last_error());
    gxrt_program_destroy(p.program);
    free(p.file);
    return st != GXRT_OK;
}

/* The same on the emulator. */
static int without_emulator(void)
{
    strcpy(emulator_folder, "/nonexistent");
    return run_all(NULL, 1, 2, false);
}

static void copy_program(const char *to)
{
    char block[65536];
    FILE *in = fopen("/proc/self/exe", "rb");
    FILE *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0700), 0);
}

static void write_words(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("this is no library", f);
    assert_int_equal(fclose(f), 0);
}

/* The emulator, or NCCL, is not there: the message says where it belongs or what to install.
 * rows: collectives.J1 (edge: NCCL is not there) */
static void test_missing_library(void **state)
{
    (void)state;
    static const struct {
        const char *file, *says, *advice;
    } rows[] = {
        {"libnccl.so.2",
         "missing library: the program has collectives: libnccl.so.2 was not found (",
         "): install NCCL 2.27 or newer"},
        {"libgxemu.so", "missing library: libgxemu.so was not found (",
         "keep it beside the program or in its ../lib"}};
    char text[4096], folder[48], path[128];
    snprintf(folder, sizeof folder, "/tmp/gxc-alone-%ld", (long)getpid());
    snprintf(alone, sizeof alone, "%s/program", folder);
    snprintf(none, sizeof none, "%s/none", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(none, 0700), 0);
    copy_program(alone);
    for (int i = 0; i < 2; i++) {
        write_words(none, rows[i].file);
        int code = child_finish(child_start(run_alone, i), text, sizeof text);
        if (code != 1 || !strstr(text, rows[i].says) || !strstr(text, rows[i].advice))
            fail_msg("exit %d: %s", code, text);
        snprintf(path, sizeof path, "%s/%s", none, rows[i].file);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(remove(alone), 0);
    assert_int_equal(rmdir(none), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* --- two processes -------------------------------------------------------------------------- */

static char store[64];

/* Rank 0 goes on until it is told that rank 1 is missing. */
static int survivor(int argument)
{
    (void)argument;
    gxrt_world *world;
    if (gxrt_world_create(0, 2, store, &world) != GXRT_OK)
        return 2;
    int wrong = run_all(world, 100000, 2, false);
    gxrt_world_destroy(world);
    return wrong;
}

static int victim(int argument)
{
    gxrt_world *world;
    if (gxrt_world_create(1, 2, store, &world) != GXRT_OK)
        return 2;
    if (argument == 0) /* in the middle of the run */
        alarm(1);
    return run_all(world, argument ? argument : 1000000, 20, false) ? 1 : raise(SIGKILL);
}

typedef struct Names {
    char list[256][256];
    size_t count;
} Names;

static void list_shared(Names *out)
{
    DIR *d = opendir("/dev/shm");
    out->count = 0;
    for (struct dirent *e; d && (e = readdir(d)) && out->count < 256;) {
        if (strncmp(e->d_name, "gxemu-", 6) == 0)
            snprintf(out->list[out->count++], sizeof out->list[0], "%s", e->d_name);
    }
    if (d)
        closedir(d);
}

/* What is new, and still there after a while, was left behind: other tests that run beside this
 * one have their own, which go away. */
static void expect_clean(const Names *before)
{
    Names now;
    list_shared(&now);
    for (size_t i = 0; i < now.count; i++) {
        bool old = false;
        char path[300];
        for (size_t k = 0; k < before->count && !old; k++)
            old = strcmp(before->list[k], now.list[i]) == 0;
        snprintf(path, sizeof path, "/dev/shm/%s", now.list[i]);
        for (int wait = 0; wait < 300 && !old && access(path, F_OK) == 0; wait++)
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (!old && access(path, F_OK) == 0)
            fail_msg("%s was left behind", path);
    }
}

static void kill_one(int after)
{
    char text[4096], other[4096];
    Names before;
    list_shared(&before);
    snprintf(store, sizeof store, "/tmp/gxc-faults-%ld", (long)getpid());
    double start = seconds();
    Child first = child_start(survivor, 0);
    Child second = child_start(victim, after);
    assert_int_equal(child_finish(second, other, sizeof other), 100);
    int code = child_finish(first, text, sizeof text);
    if (code != 1 || !strstr(text, "world failed") ||
        !strstr(text, "rank 1 is missing") || !strstr(text, "; device 0: ") ||
        !strstr(text, ", last done: "))
        fail_msg("exit %d: %s", code, text);
    assert_true(seconds() - start < 20);
    expect_clean(&before);
    assert_int_not_equal(access(store, F_OK), 0); /* the survivor has cleared up */
}

/* rows: collectives.N1 (edge: a rank is killed: the others are told within the timeout)
 * rows: collectives.N4 (the report says who is missing, and what each device has done last) */
static void test_killed_rank(void **state)
{
    (void)state;
    kill_one(3);
    kill_one(0);
}

int main(int count, char **arguments)
{
    if (count == 2)
        return strcmp(arguments[1], "nccl") == 0 ? without_nccl() : without_emulator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delayed_rank),    cmocka_unit_test(test_too_slow),
        cmocka_unit_test(test_failing_calls),   cmocka_unit_test(test_old_version),
        cmocka_unit_test(test_missing_library), cmocka_unit_test(test_killed_rank),
    };
    return cmocka_run_group_tests(tests, find_emulator, NULL);
}
