/* What a warp of the emulator does together beside shuffles - tensor cores, ldmatrix, stmatrix, barriers -,
 * asynchronous copies, and conflicts of banks: results, and each mistake that is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/kernel/tensor_core.h"
#include "runtime/emu/banks.h"
#include "runtime/emu/engine.h"

enum { ARRAYS = 3, BYTES = 16384, SITES = 2 };
/* sites: an access, something that a warp does, each with a number of its own */
#define NUMBERED(number, site) ((uint32_t)(number) << EMU_SITE_BITS | (site))

static const char *const site_names[SITES] = {"copy.1", "dot.2"};

/* A launch of one block; three arrays, read or written. */
typedef struct Fixture {
    unsigned char arrays[ARRAYS][BYTES];
    uint64_t args[ARRAYS], extents[ARRAYS];
    EngineArgument arguments[ARRAYS];
    Shadow shadows[ARRAYS];
    BankCount banks[SITES + 1];
    EngineLaunch launch;
    Finding finding;
} Fixture;

static Fixture *fixture_create(gxemu_kernel entry, uint32_t threads, bool checks)
{
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (int i = 0; i < ARRAYS; i++) {
        f->args[i] = (uintptr_t)f->arrays[i];
        f->extents[i] = BYTES;
        if (checks) {
            assert_true(shadow_init(&f->shadows[i], BYTES, true, true));
            shadow_set_written(&f->shadows[i], 0, BYTES, true);
            f->arguments[i].shadow = &f->shadows[i];
        }
    }
    f->launch = (EngineLaunch){
        .entry = entry,
        .name = "kernel",
        .parameters = ARRAYS,
        .args = f->args,
        .extents = f->extents,
        .arguments = f->arguments,
        .sites = site_names,
        .site_count = SITES,
        .grid = {1, 1, 1},
        .block = {threads, 1, 1},
        .shared_bytes = 16384,
        .check_written = checks,
        .check_races = checks,
    };
    return f;
}

static void fixture_destroy(Fixture *f)
{
    for (int i = 0; i < ARRAYS; i++)
        shadow_deinit(&f->shadows[i]);
    free(f);
}

static void expect_done(Fixture *f)
{
    bool done = engine_run(&f->launch, &f->finding);
    assert_string_equal(f->finding.text, "");
    assert_true(done);
}

static void expect_finding(Fixture *f, FindingKind kind, const char *text)
{
    assert_false(engine_run(&f->launch, &f->finding));
    assert_int_equal(f->finding.kind, kind);
    if (strstr(f->finding.text, text) == NULL)
        fail_msg("expected '%s' in '%s'", text, f->finding.text);
    fixture_destroy(f);
}

/* As codegen accesses shared memory. */
static unsigned char *shared_at(gxemu_block *b, uint32_t number, uint64_t offset,
                                uint32_t bytes, uint32_t kind)
{
    if (b->checks != 0)
        gxemu_access(b, GXEMU_SHARED, offset, bytes, 1, NUMBERED(number, 0), kind);
    return (unsigned char *)b->shared + offset;
}

/* -- tensor cores --------------------------------------------------------------------------------------------- */

static const TensorCore *core; /* that the kernel uses */

/* The code of element `element` of matrices of bytes, put into packed words. */
static void put_code(uint32_t *words, uint32_t i, uint32_t bits, uint64_t code)
{
    if (bits == 64) {
        memcpy(words + (size_t)2 * i, &code, 8);
        return;
    }
    words[i * bits / 32] |= (uint32_t)code << i * bits % 32;
}

static void load_operand(uint32_t lane, TensorOperand operand, const int8_t *matrix,
                         uint32_t row_dim, uint32_t column_dim, uint32_t *words)
{
    LinearLayout l = tensor_core_layout(core, operand);
    DType type = core->types[operand];
    for (uint32_t i = 0; i < UINT32_C(1) << l.in[LINEAR_REGISTER]; i++) {
        uint32_t at = linear_apply(&l, i | lane << l.in[LINEAR_REGISTER]);
        uint32_t index = linear_coordinate(&l, at, row_dim) << l.out[column_dim] |
                         linear_coordinate(&l, at, column_dim);
        uint64_t code = dtype_info[type].class == DTC_FLOAT
                            ? number_from_double(type, matrix[index])
                            : (uint64_t)matrix[index];
        uint32_t bits = dtype_info[type].bits;
        put_code(words, i, bits, bits == 64 ? code : code & ((UINT64_C(1) << bits) - 1));
    }
}

static void kernel_mma(gxemu_block *b, const void *args)
{
    const uint64_t *slots = args;
    const int8_t *matrices[] = {(const int8_t *)(uintptr_t)slots[0],
                                (const int8_t *)(uintptr_t)slots[1]};
    int32_t *out = (int32_t *)(uintptr_t)slots[2];
    uint32_t words[64] = {0}, at = 0;
    for (uint32_t operand = 0; operand < TENSOR_OPERANDS; operand++) {
        static const uint32_t rows[] = {0, 2, 0}, columns[] = {2, 1, 1};
        load_operand(b->lane, (TensorOperand)operand,
                     operand == TENSOR_C ? matrices[0] : matrices[operand], rows[operand],
                     columns[operand], words + at);
        at += tensor_core_registers(core, (TensorOperand)operand) *
              (core->types[operand] == DT_F64 ? 2 : 1);
    }
    gxemu_mma(b, core->number, words, NUMBERED(1, 1));
    LinearLayout l = tensor_core_layout(core, TENSOR_C);
    uint32_t count = UINT32_C(1) << l.in[LINEAR_REGISTER];
    const uint32_t *sums = words + at - (core->types[2] == DT_F64 ? 2 * count : count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = linear_apply(&l, i | b->lane << l.in[LINEAR_REGISTER]);
        double d;
        float f;
        memcpy(&d, sums + (size_t)2 * i * (core->types[2] == DT_F64), 8);
        memcpy(&f, sums + i, 4);
        out[linear_coordinate(&l, index, 0) * core->n + linear_coordinate(&l, index, 1)] =
            core->types[2] == DT_F64   ? (int32_t)d
            : core->types[2] == DT_S32 ? (int32_t)sums[i]
                                       : (int32_t)f;
    }
}

/* Numbers that the type has exactly. */
static int8_t small_number(DType t, uint32_t seed)
{
    uint32_t r = seed * 2654435761U >> 20;
    if (dtype_info[t].class == DTC_UINT)
        return (int8_t)(r % 16);
    if (dtype_info[t].bits <= 8)
        return (int8_t)((int32_t)(r % 9) - 4);
    return (int8_t)((int32_t)(r % 31) - 15);
}

static void test_mma(void **state)
{
    (void)state;
    for (uint32_t i = 0; (core = tensor_core_row(i)) != NULL; i++) {
        Fixture *f = fixture_create(kernel_mma, 32, false);
        int8_t *a = (int8_t *)f->arrays[0], *b = (int8_t *)f->arrays[1];
        for (uint32_t j = 0; j < core->m * core->k; j++)
            a[j] = small_number(core->types[0], j + 1);
        for (uint32_t j = 0; j < core->k * core->n; j++)
            b[j] = small_number(core->types[1], j + 5000);
        expect_done(f);
        const int32_t *out = (const int32_t *)(const void *)f->arrays[2];
        for (uint32_t m = 0; m < core->m; m++) {
            for (uint32_t n = 0; n < core->n; n++) {
                int32_t sum = a[m * core->n + n]; /* A serves as what is added to */
                for (uint32_t k = 0; k < core->k; k++)
                    sum += a[m * core->k + k] * b[k * core->n + n];
                if (out[m * core->n + n] != sum)
                    fail_msg("%s: [%u][%u] is %d, not %d", core->name, m, n,
                             out[m * core->n + n], sum);
            }
        }
        fixture_destroy(f);
    }
}

/* tf32 does not see the last bits of factors; sums of s32 wrap. */
static void kernel_limits(gxemu_block *b, const void *args)
{
    const uint64_t *slots = args;
    uint32_t *out = (uint32_t *)(uintptr_t)slots[0];
    uint32_t tf32[10] = {0}, ints[10];
    float one = 1, close = 1.00024414F; /* 1 + 2^-12 */
    for (uint32_t i = 0; i < 4; i++)
        memcpy(&tf32[i], &close, 4);
    memcpy(&tf32[4], &one, 4);
    memcpy(&tf32[5], &one, 4);
    gxemu_mma(b, 6, tf32, NUMBERED(1, 1));
    for (uint32_t i = 0; i < 10; i++)
        ints[i] = i < 6 ? UINT32_C(0x80808080) : INT32_MAX;
    gxemu_mma(b, 19, ints, NUMBERED(2, 1));
    out[b->lane] = tf32[6];
    out[32 + b->lane] = ints[6];
}

static void test_limits(void **state)
{
    (void)state;
    Fixture *f = fixture_create(kernel_limits, 32, false);
    expect_done(f);
    const uint32_t *out = (const uint32_t *)(const void *)f->arrays[0];
    float sum;
    memcpy(&sum, out, 4);
    assert_true(sum == 8.0F);
    assert_int_equal(out[32], (uint32_t)INT32_MAX + 32 * 128 * 128);
    fixture_destroy(f);
}

static void kernel_half_mma(gxemu_block *b, const void *args)
{
    uint32_t words[16] = {0};
    (void)args;
    if (b->lane < 16)
        gxemu_mma(b, 4, words, NUMBERED(1, 1));
}

static void kernel_two_mmas(gxemu_block *b, const void *args)
{
    uint32_t words[16] = {0};
    (void)args;
    gxemu_mma(b, b->lane < 16 ? 4 : 2, words, NUMBERED(1, 1));
}

static void kernel_unknown_mma(gxemu_block *b, const void *args)
{
    uint32_t words[16] = {0};
    (void)args;
    gxemu_mma(b, 9999, words, NUMBERED(1, 1));
}

static void test_mma_misused(void **state)
{
    (void)state;
    expect_finding(
        fixture_create(kernel_half_mma, 32, false), FINDING_SYNC,
        "an mma of a part of a warp: kernel kernel, instruction dot.2 (site 1)");
    expect_finding(fixture_create(kernel_two_mmas, 32, false), FINDING_SYNC,
                   "divergent warp: kernel kernel");
    expect_finding(fixture_create(kernel_unknown_mma, 32, false), FINDING_INVALID,
                   "mma number 9999, which this emulator does not know");
    expect_finding(fixture_create(kernel_limits, 48, false), FINDING_SYNC,
                   "an mma of a part of a warp");
}

/* -- matrices ------------------------------------------------------------------------------------------------- */

enum { TRANSPOSED = 8 };
static uint32_t load_form, store_form;
static uint64_t row_stride = 16, row_shift;

/* Four matrices from array 0 to shared memory, loaded, stored again behind them, and out to array 1. */
static void kernel_matrices(gxemu_block *b, const void *args)
{
    const uint64_t *slots = args;
    const unsigned char *in = (const unsigned char *)(uintptr_t)slots[0];
    unsigned char *out = (unsigned char *)(uintptr_t)slots[1];
    uint32_t words[4] = {0};
    memcpy(shared_at(b, 1, b->lane * row_stride, 16, GXEMU_WRITE), in + 16 * b->lane, 16);
    gxemu_barrier(b, NUMBERED(2, 1));
    gxemu_ldmatrix(b, load_form, b->lane * row_stride + row_shift, words, NUMBERED(3, 1));
    gxemu_stmatrix(b, store_form, 8192 + b->lane * row_stride, words, NUMBERED(4, 1));
    gxemu_barrier(b, NUMBERED(5, 1));
    memcpy(out + 16 * b->lane,
           shared_at(b, 6, 8192 + b->lane * row_stride, 16, GXEMU_READ), 16);
    memcpy(out + 4096 + 16 * b->lane, words, 16);
}

static void fill(Fixture *f)
{
    uint16_t *in = (uint16_t *)(void *)f->arrays[0];
    for (uint32_t i = 0; i < BYTES / 2; i++)
        in[i] = (uint16_t)(i * 40503U);
}

static void test_matrices(void **state)
{
    (void)state;
    for (uint32_t turned = 0; turned < 4; turned++) {
        Fixture *f = fixture_create(kernel_matrices, 32, true);
        load_form = 4 | (turned & 1 ? TRANSPOSED : 0);
        store_form = 4 | (turned & 2 ? TRANSPOSED : 0);
        fill(f);
        expect_done(f);
        const uint16_t *in = (const uint16_t *)(const void *)f->arrays[0];
        const uint16_t *out = (const uint16_t *)(const void *)f->arrays[1];
        for (uint32_t matrix = 0; matrix < 4; matrix++) {
            for (uint32_t i = 0; i < 64; i++) {
                uint32_t row = i / 8, column = i % 8;
                bool is_turned = turned == 1 || turned == 2;
                assert_int_equal(
                    out[64 * matrix + i],
                    in[64 * matrix + (is_turned ? 8 * column + row : 8 * row + column)]);
            }
        }
        /* lane 9 has of matrix 2: row 2, columns 2 and 3; transposed: those rows of column 2 */
        const uint16_t *word = out + 2048 + 9 * 8 + 2 * 2;
        bool is_turned = (load_form & TRANSPOSED) != 0;
        assert_int_equal(word[0], in[128 + (is_turned ? 8 * 2 + 2 : 8 * 2 + 2)]);
        assert_int_equal(word[1], in[128 + (is_turned ? 8 * 3 + 2 : 8 * 2 + 3)]);
        fixture_destroy(f);
    }
}

static void test_matrix_mistakes(void **state)
{
    (void)state;
    load_form = store_form = 4;
    row_shift = 8;
    expect_finding(fixture_create(kernel_matrices, 32, false), FINDING_ADDRESS,
                   "misaligned: kernel kernel, instruction dot.2 (site 1)");
    row_shift = 16384 - 16 * 31;
    expect_finding(fixture_create(kernel_matrices, 32, false), FINDING_ADDRESS,
                   "thread (31,0,0) of block (0,0,0) reads 16 bytes at byte 16384 of "
                   "shared memory");
    row_shift = 4096;
    expect_finding(fixture_create(kernel_matrices, 32, true), FINDING_UNINITIALISED,
                   "reads 16 bytes at byte 4096 of shared memory");
    row_shift = 0;
}

/* -- asynchronous copies -------------------------------------------------------------------------------------- */

static struct {
    bool no_wait, no_barrier, reused_early, waits_for_other;
} omit;

/* Array 0 to array 1 in steps of 32 words, two in flight, each read by another lane than the one that copied. */
static void kernel_pipeline(gxemu_block *b, const void *args)
{
    const uint64_t *slots = args;
    unsigned char *out = (unsigned char *)(uintptr_t)slots[1];
    enum { STEPS = 8 };
    for (uint32_t step = 0; step < STEPS + 1; step++) {
        if (step < STEPS)
            gxemu_copy_async(b, 0, 128 * step + 4 * b->lane,
                             128 * (step % 2) + 4 * b->lane, 4, step == 5 ? 0 : 4,
                             NUMBERED(1, 0));
        gxemu_copy_commit(b, NUMBERED(2, 1));
        if (step == 0)
            continue;
        if (!omit.no_wait)
            gxemu_copy_wait(b, omit.waits_for_other ? 2 : 1, NUMBERED(3, 1));
        if (!omit.no_barrier)
            gxemu_barrier(b, NUMBERED(4, 1));
        uint32_t from = 128 * ((step - 1) % 2) + 4 * (31 - b->lane);
        memcpy(out + 128 * (step - 1) + 4 * b->lane, shared_at(b, 5, from, 4, GXEMU_READ),
               4);
        if (!omit.reused_early)
            gxemu_barrier(b, NUMBERED(6, 1));
    }
}

static bool pipeline_is_right(const Fixture *f)
{
    for (uint32_t i = 0; i < 8 * 32; i++) {
        uint32_t from = i / 32 * 32 + 31 - i % 32, value = 0;
        if (i / 32 != 5)
            memcpy(&value, f->arrays[0] + 4 * (size_t)from, 4);
        if (memcmp(f->arrays[1] + 4 * (size_t)i, &value, 4) != 0)
            return false;
    }
    return true;
}

static void test_copies(void **state)
{
    (void)state;
    memset(&omit, 0, sizeof omit);
    for (int mode = 0; mode < 4; mode++) {
        Fixture *f = fixture_create(kernel_pipeline, 32, (mode & 1) != 0);
        f->launch.copies_early = (mode & 2) != 0;
        fill(f);
        expect_done(f);
        assert_true(pipeline_is_right(f));
        fixture_destroy(f);
    }
}

/* Without checks a mistake is a wrong result of one of the two times at least. */
static bool differs(void)
{
    bool is_wrong = false;
    for (int early = 0; early < 2; early++) {
        Fixture *f = fixture_create(kernel_pipeline, 32, false);
        f->launch.copies_early = early != 0;
        fill(f);
        expect_done(f);
        is_wrong |= !pipeline_is_right(f);
        fixture_destroy(f);
    }
    return is_wrong;
}

static void test_copy_mistakes(void **state)
{
    (void)state;
    static const char *const late = "by an asynchronous copy that was not waited for";
    memset(&omit, 0, sizeof omit);
    for (int early = 0; early < 2; early++) {
        Fixture *f[4];
        for (int i = 0; i < 4; i++) {
            f[i] = fixture_create(kernel_pipeline, 32, true);
            f[i]->launch.copies_early = early != 0;
            f[i]->launch.check_written = false;
        }
        omit.no_wait = true;
        expect_finding(f[0], FINDING_RACE, late);
        omit.no_wait = false;
        omit.waits_for_other = true;
        expect_finding(f[1], FINDING_RACE, late);
        omit.waits_for_other = false;
        omit.no_barrier = true;
        expect_finding(f[2], FINDING_RACE, "race: kernel kernel, instruction copy.1");
        omit.no_barrier = false;
        omit.reused_early = true;
        expect_finding(f[3], FINDING_RACE, late);
        omit.reused_early = false;
    }
    omit.no_wait = true;
    assert_true(differs());
    omit.no_wait = false;
    assert_false(differs());
    Fixture *f = fixture_create(kernel_pipeline, 32, true);
    omit.no_wait = true;
    f->launch.check_races = false;
    expect_finding(f, FINDING_UNINITIALISED, "reads 4 bytes at byte 0 of shared memory");
    omit.no_wait = false;
    f = fixture_create(kernel_pipeline, 32, false);
    f->extents[0] = 900;
    expect_finding(f, FINDING_ADDRESS, "which has 900 bytes");
}

static void kernel_bad_copy(gxemu_block *b, const void *args)
{
    (void)args;
    gxemu_copy_async(b, 0, 8, 16, 16, 16, NUMBERED(1, 0));
}

static void test_copy_alignment(void **state)
{
    (void)state;
    expect_finding(fixture_create(kernel_bad_copy, 32, false), FINDING_ADDRESS,
                   "misaligned: kernel kernel, instruction copy.1 (site 0), thread "
                   "(0,0,0) of block (0,0,0) reads 16 bytes at byte 8 of argument 0");
}

/* -- fences before wgmma -------------------------------------------------------------------------------------- */

typedef enum { NO_FENCE, FENCE, BARRIER_FENCE, FENCE_FIRST, FENCE_BETWEEN } FenceOrder;
static struct {
    FenceOrder order;
    bool copies;
} fenced;

/* Rows of 16 bytes: 64 rows of 16 terms, and 8 columns of them. */
enum { WGMMA_THREADS = 128, WGMMA_BYTES = 2048 + 256 };

static void write_factors(gxemu_block *b)
{
    for (uint32_t at = 16 * b->tid[0]; at < WGMMA_BYTES; at += 16 * WGMMA_THREADS) {
        if (fenced.copies)
            gxemu_copy_async(b, 0, at, at, 16, 16, NUMBERED(1, 0));
        else
            memset(shared_at(b, 1, at, 16, GXEMU_WRITE), 0, 16);
    }
    gxemu_copy_commit(b, NUMBERED(2, 1));
}

static void kernel_wgmma(gxemu_block *b, const void *args)
{
    enum { COLUMNS = 8 };
    uint32_t words[8 + COLUMNS / 2] = {COLUMNS, 1, 0, 1024, 128, 2048, 128, 128};
    (void)args;
    if (fenced.order == FENCE_FIRST)
        gxemu_proxy_fence(b, NUMBERED(3, 1));
    write_factors(b);
    if (fenced.order == FENCE_BETWEEN)
        gxemu_proxy_fence(b, NUMBERED(3, 1));
    if (fenced.order == FENCE_BETWEEN && !fenced.copies)
        write_factors(b);
    gxemu_copy_wait(b, 0, NUMBERED(4, 1));
    if (fenced.order == BARRIER_FENCE)
        gxemu_barrier(b, NUMBERED(5, 1));
    if (fenced.order == FENCE || fenced.order == BARRIER_FENCE)
        gxemu_proxy_fence(b, NUMBERED(3, 1));
    gxemu_barrier(b, NUMBERED(6, 1));
    gxemu_wgmma(b, COLUMNS, words, NUMBERED(7, 1));
}

static void test_fences(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        fenced.order = (FenceOrder)(i / 2);
        fenced.copies = i % 2 != 0;
        Fixture *f = fixture_create(kernel_wgmma, WGMMA_THREADS, true);
        if (fenced.order != FENCE && fenced.order != BARRIER_FENCE) {
            expect_finding(f, FINDING_RACE,
                           "(thread 0) with no proxy fence behind it, in instruction "
                           "copy.1 (site 0)");
            continue;
        }
        expect_done(f);
        fixture_destroy(f);
    }
}

/* -- wgmma that go on ------------------------------------------------------------------------------------------- */

typedef enum {
    WAITS,
    NEVER_WAITS,
    WAITS_FOR_FIRST,
    TAKES_TURNS,
    WRITES_BEFORE,
    WRITES_BEHIND,
    BEGINS_MANY
} Going;
static struct {
    Going what;
    float sums[2][4]; /* of thread 0 */
} going;

static void write_ones(gxemu_block *b)
{
    static const uint16_t one = 0x3f80;
    for (uint32_t at = 2 * b->tid[0]; at < WGMMA_BYTES; at += 2 * WGMMA_THREADS)
        memcpy(shared_at(b, 1, at, 2, GXEMU_WRITE), &one, sizeof one);
    gxemu_proxy_fence(b, NUMBERED(3, 1));
    gxemu_barrier(b, NUMBERED(2, 1));
}

static void copy_behind_barrier(gxemu_block *b)
{
    gxemu_barrier(b, NUMBERED(7, 1));
    if (b->tid[0] == 0)
        gxemu_copy_async(b, 0, 0, 0, 16, 16, NUMBERED(1, 0));
}

/* Two products of 16 terms, each for sums of its own. */
static void kernel_going(gxemu_block *b, const void *args)
{
    enum { COLUMNS = 8, GOES_ON = 16384, INDEX = 65536, SUMS = COLUMNS / 2 };
    uint32_t words[8 + SUMS] = {0, 1, 0, 1024, 128, 2048, 128, 128};
    float sums[2][SUMS] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    int begun = going.what == BEGINS_MANY ? 17 : 2;
    (void)args;
    write_ones(b);
    for (int i = 0; i < begun; i++) {
        words[0] = COLUMNS + GOES_ON + (uint32_t)(i % 2 * SUMS) * INDEX;
        gxemu_wgmma(b, words[0], words, NUMBERED(10 + i, 1));
    }
    if (going.what == TAKES_TURNS) {
        words[0] = COLUMNS;
        gxemu_wgmma(b, words[0], words, NUMBERED(6, 1));
    }
    if (going.what == WRITES_BEFORE) {
        copy_behind_barrier(b);
    }
    if (going.what != NEVER_WAITS)
        gxemu_wgmma_wait(b, going.what == WAITS_FOR_FIRST, sums, NUMBERED(8, 1));
    if (going.what == WRITES_BEHIND) {
        copy_behind_barrier(b);
    }
    if (b->tid[0] == 0)
        memcpy(going.sums, sums, sizeof going.sums);
}

static Fixture *begin_going(Going what)
{
    going.what = what;
    Fixture *f = fixture_create(kernel_going, WGMMA_THREADS, true);
    f->launch.check_written = false;
    return f;
}

static void test_going(void **state)
{
    static const float wanted[2][4] = {{17, 18, 19, 20}, {21, 22, 23, 24}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        Fixture *f = begin_going(i == 0 ? WAITS : WRITES_BEHIND);
        expect_done(f);
        assert_memory_equal(going.sums, wanted, sizeof wanted);
        fixture_destroy(f);
    }
    expect_finding(begin_going(NEVER_WAITS), FINDING_SYNC,
                   "ends with 2 wgmma of warp 0 that were not waited for");
    expect_finding(begin_going(WAITS_FOR_FIRST), FINDING_SYNC,
                   "ends with 1 wgmma of warp 0 that were not waited for");
    assert_memory_equal(going.sums[0], wanted[0], sizeof wanted[0]);
    assert_float_equal(going.sums[1][0], 5, 0);
    expect_finding(begin_going(TAKES_TURNS), FINDING_SYNC,
                   "waits for a wgmma where others go on");
    expect_finding(begin_going(WRITES_BEFORE), FINDING_RACE,
                   "by an asynchronous copy that was not waited for");
    expect_finding(begin_going(BEGINS_MANY), FINDING_INVALID, "too many wgmma go on");
}

/* -- groups of four warps ---------------------------------------------------------------------------------------- */

static enum { OTHER_SITE, OTHER_FACTOR, LEFT_OUT, BEHIND_BARRIER } apart;

/* Warp 2 does not what the others do. */
static void kernel_apart(gxemu_block *b, const void *args)
{
    enum { COLUMNS = 8, ODD = 2 };
    bool is_odd = b->tid[0] / 32 == ODD;
    uint32_t words[8 + COLUMNS / 2] = {COLUMNS, 1, 0, 1024, 128, 2048, 128, 128};
    (void)args;
    write_ones(b);
    words[2] = apart == OTHER_FACTOR && is_odd ? 16 : 0;
    if (!is_odd || apart == OTHER_FACTOR)
        gxemu_wgmma(b, COLUMNS, words, NUMBERED(7, 1));
    else if (apart == OTHER_SITE)
        gxemu_wgmma(b, COLUMNS, words, NUMBERED(8, 1));
    if (apart == BEHIND_BARRIER)
        gxemu_barrier(b, NUMBERED(9, 1));
    if (is_odd && apart == BEHIND_BARRIER)
        gxemu_wgmma(b, COLUMNS, words, NUMBERED(7, 1));
}

static void test_warpgroups(void **state)
{
    (void)state;
    for (int i = OTHER_SITE; i <= BEHIND_BARRIER; i++) {
        apart = i;
        Fixture *f = fixture_create(kernel_apart, WGMMA_THREADS, false);
        expect_finding(f, FINDING_SYNC,
                       "warps 0 and 2, which are of one group of four, executed "
                       "different wgmma");
    }
}

/* -- barriers of warps ------------------------------------------------------------------------------------------ */

static struct {
    bool first, second, own_words;
} ordered;

/* Groups of four lanes count together: all read, the last one writes, all read again. Warp 1 may look at warp 0's words. */
static void kernel_warp_counts(gxemu_block *b, const void *args)
{
    const uint64_t *slots = args;
    uint32_t thread = b->tid[0], at = thread / 4 * 4, count = 0;
    memcpy(shared_at(b, 1, 4 * (uint64_t)thread, 4, GXEMU_WRITE), &count, 4);
    gxemu_barrier(b, NUMBERED(2, 1));
    for (uint32_t step = 0; step < 3; step++) {
        memcpy(&count, shared_at(b, 3, at, 4, GXEMU_READ), 4);
        if (ordered.first)
            gxemu_syncwarp(b, UINT32_MAX, NUMBERED(4, 1));
        count += 4;
        if (thread % 4 == 3)
            memcpy(shared_at(b, 5, at, 4, GXEMU_WRITE), &count, 4);
        if (ordered.second)
            gxemu_syncwarp(b, UINT32_MAX, NUMBERED(6, 1));
    }
    if (!ordered.own_words && thread >= 32)
        memcpy(&count, shared_at(b, 7, at - 32, 4, GXEMU_READ), 4);
    memcpy((unsigned char *)(uintptr_t)slots[1] + 4 * (uint64_t)thread, &count, 4);
}

static void test_warp_barriers(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        Fixture *f = fixture_create(kernel_warp_counts, 64, checks != 0);
        ordered.first = ordered.second = ordered.own_words = true;
        expect_done(f);
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(f->arrays[1][4 * i], 12);
        fixture_destroy(f);
    }
    ordered.own_words = false;
    expect_finding(fixture_create(kernel_warp_counts, 64, true), FINDING_RACE,
                   "race: kernel kernel, instruction copy.1");
    ordered.own_words = true;
    ordered.first = false;
    expect_finding(fixture_create(kernel_warp_counts, 64, true), FINDING_RACE,
                   "with no barrier between");
    ordered.first = true;
    ordered.second = false;
    expect_finding(fixture_create(kernel_warp_counts, 64, true), FINDING_RACE,
                   "with no barrier between");
}

/* Warps' intervals are numbered with those of barriers: more than there are numbers. */
static void kernel_many_intervals(gxemu_block *b, const void *args)
{
    (void)args;
    uint64_t at = 4 * (uint64_t)(b->tid[0] / 32 * 32);
    for (uint32_t i = 0; i < 70000; i++) {
        if (b->lane == i % 32)
            shared_at(b, 1, at, 4, GXEMU_WRITE);
        gxemu_syncwarp(b, UINT32_MAX, NUMBERED(2, 1));
    }
    if (!ordered.second)
        shared_at(b, 3, at, 4, GXEMU_WRITE);
}

static void test_many_warp_barriers(void **state)
{
    (void)state;
    Fixture *f = fixture_create(kernel_many_intervals, 64, true);
    ordered.second = true;
    expect_done(f);
    fixture_destroy(f);
    ordered.second = false;
    expect_finding(fixture_create(kernel_many_intervals, 64, true), FINDING_RACE,
                   "race: kernel kernel, instruction copy.1");
}

/* -- banks ---------------------------------------------------------------------------------------------------- */

static uint64_t lane_stride, access_bytes;

static void kernel_strided(gxemu_block *b, const void *args)
{
    (void)args;
    for (int i = 0; i < 3; i++) /* lanes diverge: some come back later */
        if (b->lane % 2 == 0 || i < 2)
            memset(shared_at(b, 1, b->lane * lane_stride, (uint32_t)access_bytes,
                             GXEMU_WRITE),
                   0, access_bytes);
    gxemu_barrier(b, NUMBERED(2, 1));
}

static void expect_banks(uint64_t stride, uint64_t bytes, uint64_t phases,
                         uint64_t conflicts)
{
    Fixture *f = fixture_create(kernel_strided, 64, false);
    lane_stride = stride;
    access_bytes = bytes;
    f->launch.banks = f->banks;
    expect_done(f);
    assert_int_equal(f->banks[0].phases, 2 * phases);
    assert_int_equal(f->banks[0].conflicts, 2 * conflicts);
    fixture_destroy(f);
}

static void test_banks(void **state)
{
    (void)state;
    expect_banks(4, 4, 3, 0);
    expect_banks(8, 4, 3, 1 + 1 + 1); /* the third time every second lane is there */
    expect_banks(128, 4, 3, 31 + 31 + 15);
    expect_banks(0, 4, 3, 0); /* one word for all */
    expect_banks(1, 1, 3, 0); /* four lanes a word */
    expect_banks(16, 16, 4 + 4 + 4, 0);
    expect_banks(128, 16, 4 + 4 + 4, 4 * 7 + 4 * 7 + 4 * 3);
    expect_banks(8, 8, 2 + 2 + 2, 0);
    Fixture *f = fixture_create(kernel_matrices, 32, false);
    load_form = store_form = 4;
    f->launch.banks = f->banks;
    expect_done(f);
    assert_int_equal(f->banks[1].phases, 8);
    assert_int_equal(f->banks[1].conflicts, 0);
    fixture_destroy(f);
    f = fixture_create(kernel_matrices, 32, false);
    row_stride = 64; /* two rows of eight share their banks */
    f->launch.banks = f->banks;
    expect_done(f);
    assert_int_equal(f->banks[1].conflicts, 8 * 3);
    row_stride = 16;
    fixture_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mma_misused),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_matrix_mistakes),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copy_mistakes),
        cmocka_unit_test(test_copy_alignment),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_going),
        cmocka_unit_test(test_warpgroups),
        cmocka_unit_test(test_warp_barriers),
        cmocka_unit_test(test_many_warp_barriers),
        cmocka_unit_test(test_banks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
