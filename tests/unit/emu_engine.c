/* Emulated kernels, written in C against abi.def: barriers and shuffles, and each kind of
 * finding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "runtime/emu/config.h"
#include "runtime/emu/engine.h"

enum { THREADS = 256, SITE_READ = 0, SITE_WRITE = 1, SITE_BARRIER = 2, SITE_SHUFFLE = 3 };

static const char *const site_names[] = {"param.1", "reduce.2", "barrier.3", "shuffle.4"};

/* What codegen writes for an access: a call where it is not good and in checking modes, the plain
 * access. */
static unsigned char *address(gxemu_block *b, const void *args, uint32_t argument,
                              uint64_t offset, uint32_t bytes, uint32_t site,
                              uint32_t kind)
{
    const uint64_t *extents = b->extents;
    uint64_t extent = argument == GXEMU_SHARED ? b->shared_bytes : extents[argument];
    if (bytes > extent || offset > extent - bytes || b->checks != 0)
        gxemu_access(b, argument, offset, bytes, 1, site, kind);
    if (argument == GXEMU_SHARED)
        return (unsigned char *)b->shared + offset;
    unsigned char *const *slots = args;
    return slots[argument] + offset;
}

static float load(gxemu_block *b, const void *args, uint32_t argument, uint64_t index)
{
    float value;
    memcpy(&value, address(b, args, argument, index * 4, 4, SITE_READ, GXEMU_READ), 4);
    return value;
}

static void store(gxemu_block *b, const void *args, uint32_t argument, uint64_t index,
                  float value)
{
    memcpy(address(b, args, argument, index * 4, 4, SITE_WRITE, GXEMU_WRITE), &value, 4);
}

/* Argument 0: f32[n], 1: f32[blocks], 2: n. */
static void sum_blocks(gxemu_block *b, const void *args, bool with_barrier)
{
    const uint64_t *slots = args;
    uint64_t n = slots[2];
    uint64_t step = (uint64_t)b->nctaid[0] * THREADS;
    float sum = 0;
    for (uint64_t i = (uint64_t)b->ctaid[0] * THREADS + b->tid[0]; i < n; i += step)
        sum += load(b, args, 0, i);
    for (uint32_t d = 16; d != 0; d /= 2) {
        uint32_t bits;
        memcpy(&bits, &sum, 4);
        bits = gxemu_shfl(b, GXEMU_SHFL_BFLY, UINT32_MAX, bits, d, 31, SITE_SHUFFLE);
        float other;
        memcpy(&other, &bits, 4);
        sum += other;
    }
    if (b->lane == 0)
        store(b, args, GXEMU_SHARED, b->tid[0] / 32, sum);
    if (with_barrier)
        gxemu_barrier(b, SITE_BARRIER);
    if (b->tid[0] == 0) {
        sum = 0;
        for (uint64_t i = 0; i < THREADS / 32; i++)
            sum += load(b, args, GXEMU_SHARED, i);
        store(b, args, 1, b->ctaid[0], sum);
    }
}

static void kernel_sum(gxemu_block *b, const void *args)
{
    sum_blocks(b, args, true);
}

static void kernel_sum_racy(gxemu_block *b, const void *args)
{
    sum_blocks(b, args, false);
}

static void kernel_add_one(gxemu_block *b, const void *args)
{
    uint64_t i = (uint64_t)b->ctaid[0] * b->ntid[0] + b->tid[0];
    store(b, args, 1, i, load(b, args, 0, i) + 1.0F);
}

static void kernel_all_write_first(gxemu_block *b, const void *args)
{
    store(b, args, 1, 0, 1.0F);
}

static void kernel_half_barrier(gxemu_block *b, const void *args)
{
    (void)args;
    if (b->tid[0] < 32)
        gxemu_shfl(b, GXEMU_SHFL_BFLY, UINT32_MAX, 0, 1, 31, 7);
    else if (b->tid[0] != 40)
        gxemu_barrier(b, SITE_BARRIER);
    else
        gxemu_shfl(b, GXEMU_SHFL_BFLY, UINT32_MAX, 0, 0, 31, SITE_SHUFFLE);
}

static void kernel_two_barriers(gxemu_block *b, const void *args)
{
    (void)args;
    gxemu_barrier(b, b->tid[0] < 32 ? SITE_BARRIER : SITE_SHUFFLE);
}

/* Halves of one word are different bytes: no race. */
static void kernel_bytes(gxemu_block *b, const void *args)
{
    *address(b, args, 1, b->tid[0], 1, SITE_WRITE, GXEMU_WRITE) =
        (unsigned char)b->tid[0];
}

/* Exchange through shared memory. */
static void kernel_exchange(gxemu_block *b, const void *args)
{
    store(b, args, GXEMU_SHARED, b->tid[0], (float)b->tid[0]);
    gxemu_barrier(b, SITE_BARRIER);
    store(b, args, 1, b->tid[0], load(b, args, GXEMU_SHARED, b->tid[0] ^ 1));
}

typedef struct Fixture {
    float *in, *out;
    uint64_t count, blocks;
    uint64_t args[3], extents[3];
    Shadow shadows[2];
    EngineArgument arguments[3];
    EngineLaunch launch;
} Fixture;

static void fixture_init(Fixture *f, gxemu_kernel entry, uint64_t count, uint32_t blocks,
                         bool checks)
{
    memset(f, 0, sizeof *f);
    f->count = count;
    f->in = malloc(count * 4);
    f->out = malloc((size_t)blocks * THREADS * 4);
    assert_non_null(f->in);
    assert_non_null(f->out);
    for (uint64_t i = 0; i < count; i++)
        f->in[i] = (float)(i % 7);
    f->args[0] = (uintptr_t)f->in;
    f->args[1] = (uintptr_t)f->out;
    f->args[2] = count;
    f->extents[0] = count * 4;
    f->extents[1] = (uint64_t)blocks * THREADS * 4;
    assert_true(shadow_init(&f->shadows[0], f->extents[0], checks, checks));
    assert_true(shadow_init(&f->shadows[1], f->extents[1], checks, checks));
    shadow_set_written(&f->shadows[0], 0, f->extents[0], true);
    for (int i = 0; i < 2; i++)
        f->arguments[i] = (EngineArgument){.shadow = &f->shadows[i]};
    f->launch = (EngineLaunch){
        .entry = entry,
        .name = "kernel",
        .parameters = 3,
        .args = f->args,
        .extents = f->extents,
        .arguments = f->arguments,
        .sites = site_names,
        .site_count = 4,
        .grid = {blocks, 1, 1},
        .block = {THREADS, 1, 1},
        .shared_bytes = THREADS * 4,
        .check_written = checks,
        .check_races = checks,
    };
}

static void fixture_deinit(Fixture *f)
{
    shadow_deinit(&f->shadows[0]);
    shadow_deinit(&f->shadows[1]);
    free(f->in);
    free(f->out);
}

/* Runs one kernel with the checks on and expects this finding, its text to hold `words`. */
static void expect_finding(gxemu_kernel entry, uint64_t count, FindingKind kind,
                           const char *words)
{
    Fixture f;
    Finding finding;
    fixture_init(&f, entry, count, 2, true);
    f.launch.check_written = kind != FINDING_RACE;
    assert_false(engine_run(&f.launch, &finding));
    if (strstr(finding.text, words) == NULL)
        fail_msg("'%s' lacks '%s'", finding.text, words);
    assert_int_equal(finding.kind, kind);
    fixture_deinit(&f);
}

static void test_plain(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        Fixture f;
        Finding finding;
        fixture_init(&f, kernel_add_one, 8 * THREADS, 8, checks != 0);
        assert_true(engine_run(&f.launch, &finding));
        for (uint64_t i = 0; i < f.count; i++)
            assert_true(f.out[i] == f.in[i] + 1.0F);
        fixture_deinit(&f);
    }
}

static void test_sum(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        Fixture f;
        Finding finding;
        fixture_init(&f, kernel_sum, 100003, 16, checks != 0);
        bool done = engine_run(&f.launch, &finding);
        assert_string_equal(finding.text, "");
        assert_true(done);
        double sum = 0, expected = 0;
        for (uint64_t i = 0; i < f.count; i++)
            expected += (double)f.in[i];
        for (int i = 0; i < 16; i++)
            sum += (double)f.out[i];
        assert_true(sum == expected);
        fixture_deinit(&f);
    }
}

static void test_no_false_race(void **state)
{
    (void)state;
    static const gxemu_kernel kernels[] = {kernel_bytes, kernel_exchange};
    for (int i = 0; i < 2; i++) {
        Fixture f;
        Finding finding;
        fixture_init(&f, kernels[i], 1, 1, true);
        bool done = engine_run(&f.launch, &finding);
        assert_string_equal(finding.text, "");
        assert_true(done);
        fixture_deinit(&f);
    }
}

static void test_race(void **state)
{
    (void)state;
    expect_finding(
        kernel_sum_racy, 1000, FINDING_RACE,
        "race: kernel kernel, instruction reduce.2 (site 1), thread (32,0,0) of "
        "block (0,0,0) writes 4 bytes at byte 4 of shared memory");
    expect_finding(kernel_all_write_first, 1000, FINDING_RACE,
                   "which another thread of the block wrote (thread 0) with no barrier "
                   "between, in instruction reduce.2 (site 1)");
}

static void test_uninitialised(void **state)
{
    (void)state;
    Fixture f;
    Finding finding;
    fixture_init(&f, kernel_add_one, 2 * THREADS, 2, true);
    shadow_set_written(&f.shadows[0], 301 * 4 + 2, 1, false);
    assert_false(engine_run(&f.launch, &finding));
    assert_int_equal(finding.kind, FINDING_UNINITIALISED);
    assert_non_null(strstr(finding.text,
                           "thread (45,0,0) of block (1,0,0) reads 4 bytes at "
                           "byte 1204 of argument 0"));
    assert_non_null(strstr(finding.text, "nobody wrote the byte at +2"));
    fixture_deinit(&f);
}

/* Many blocks run side by side; the first one with a finding is named all the same. */
static void test_parallel(void **state)
{
    (void)state;
    Fixture f;
    Finding finding;
    fixture_init(&f, kernel_add_one, 200 * THREADS, 200, true);
    f.launch.check_races = false;
    emu_config()->workers = 3;
    for (int i = 0; i < 20; i++)
        assert_true(engine_run(&f.launch, &finding));
    for (uint64_t i = 0; i < f.count; i++)
        assert_true(f.out[i] == f.in[i] + 1.0F);
    f.extents[0] = 70 * THREADS * 4 + 12;
    for (int i = 0; i < 20; i++) {
        assert_false(engine_run(&f.launch, &finding));
        assert_non_null(strstr(finding.text, "thread (3,0,0) of block (70,0,0)"));
    }
    fixture_deinit(&f);
}

static void test_bounds(void **state)
{
    (void)state;
    expect_finding(
        kernel_add_one, THREADS + 5, FINDING_ADDRESS,
        "thread (5,0,0) of block (1,0,0) reads 4 bytes at byte 1044 of argument 0");
}

static void test_sync(void **state)
{
    (void)state;
    expect_finding(
        kernel_half_barrier, 1, FINDING_DEADLOCK,
        "thread 40 waits at a shuffle of shuffle.4 (site 3, lanes 0xffffffff)");
    expect_finding(kernel_two_barriers, 1, FINDING_SYNC,
                   "divergent barrier: kernel kernel, block (0,0,0): thread 0 waits at a "
                   "barrier of barrier.3 (site 2), thread 32 waits");
    test_sum(state); /* the fibres of aborted blocks work again */
}

/* `emu_engine --bench`: a reduction over 10^7 elements, checked accesses per second. */
static int bench(void)
{
    for (int modes = 0; modes < 4; modes++) {
        Fixture f;
        Finding finding;
        struct timespec start, end;
        fixture_init(&f, kernel_sum, 10000000, 512, true);
        emu_config()->workers = 1;
        f.launch.check_written = (modes & 1) != 0;
        f.launch.check_races = (modes & 2) != 0;
        engine_run(&f.launch, &finding); /* touches all memory once */
        clock_gettime(CLOCK_MONOTONIC, &start);
        assert_true(engine_run(&f.launch, &finding));
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds = (double)(end.tv_sec - start.tv_sec) +
                         (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
        printf("emulated reduction, shadow %d, race %d: %.1f M accesses/s\n", modes & 1,
               modes >> 1, 10 / seconds);
        fixture_deinit(&f);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--bench") == 0)
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_sum),
        cmocka_unit_test(test_no_false_race), cmocka_unit_test(test_race),
        cmocka_unit_test(test_uninitialised), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_parallel),      cmocka_unit_test(test_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
