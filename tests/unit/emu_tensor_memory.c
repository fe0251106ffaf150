/* Tensor memory of the emulator: what products in it give is tested in codegen_tensor_memory_test.c; here each mistake
 * that is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/emu/engine.h"

#define NUMBERED(number) ((uint32_t)(number) << EMU_SITE_BITS)
enum {
    THREADS = 128,
    ROWS = 64,
    COLUMNS = 8,
    FACTOR = ROWS * 32, /* bytes */
    OTHER = COLUMNS * 32,
    SLOT = FACTOR + OTHER,
    MBARRIER = SLOT + 8,
    SHARED = MBARRIER + 16,
    TAKEN = 32, /* columns */
    LANE = 65536
};

typedef enum {
    GOOD,
    NO_WAIT,        /* for the product, before its sums are read */
    NO_WAIT_WRITES, /* and before its factor is written */
    WRITES_FACTOR,  /* of another thread than the product's, before the wait */
    NO_FENCE,       /* behind the factors */
    NOT_INIT,       /* the mbarrier */
    NOT_COMMITTED,
    KEPT,        /* not given back */
    OTHER_WARP,  /* gives it back */
    OTHER_LANES, /* are read */
    TOO_FAR,     /* columns that are another's */
    ADDS,        /* to nothing */
    NO_PRODUCT,
    EARLY_FREE,  /* while other warps read, */
    LATE_READ,   /* and the one that frees read last */
    ODD_COLUMNS, /* asked for */
    TWICE,
    KINDS
} Mistake;
static Mistake mistake;

static uint32_t column_of(gxemu_block *b)
{
    uint32_t address;
    if (b->checks != 0)
        gxemu_access(b, GXEMU_SHARED, SLOT, 4, 4, NUMBERED(20), GXEMU_READ);
    memcpy(&address, (unsigned char *)b->shared + SLOT, sizeof address);
    return address;
}

static void write_piece(gxemu_block *b, uint32_t at, uint32_t number)
{
    if (b->checks != 0)
        gxemu_access(b, GXEMU_SHARED, at, 16, 16, NUMBERED(number), GXEMU_WRITE);
    memset((unsigned char *)b->shared + at, 0, 16);
}

static void begin(gxemu_block *b)
{
    uint32_t thread = b->tid[0];
    if (thread < 32)
        gxemu_tensor_alloc(b, SLOT, mistake == ODD_COLUMNS ? 48 : TAKEN, NUMBERED(1));
    if (thread < 32 && mistake == TWICE)
        gxemu_tensor_alloc(b, SLOT, TAKEN, NUMBERED(2));
    if (thread == 0 && mistake != NOT_INIT)
        gxemu_mbarrier_init(b, MBARRIER, NUMBERED(3));
    for (uint32_t at = 16 * thread; at < FACTOR + OTHER; at += 16 * THREADS)
        write_piece(b, at, 4);
    if (mistake != NO_FENCE)
        gxemu_proxy_fence(b, NUMBERED(5));
    gxemu_barrier(b, NUMBERED(6));
}

static void multiply(gxemu_block *b)
{
    uint32_t address = column_of(b) + (mistake == TOO_FAR ? TAKEN - COLUMNS / 2 : 0),
             words[] = {1,   0,       FACTOR / 2,     128, FACTOR, OTHER / 2,
                        128, address, mistake == ADDS};
    if (b->tid[0] != 0)
        return;
    if (mistake != NO_PRODUCT)
        gxemu_tensor_mma(b, COLUMNS, words, NUMBERED(7));
    if (mistake != NOT_COMMITTED)
        gxemu_tensor_commit(b, MBARRIER, NUMBERED(8));
}

static void kernel(gxemu_block *b, const void *args)
{
    uint32_t thread = b->tid[0], warp = thread / 32, sums[COLUMNS / 2];
    (void)args;
    begin(b);
    multiply(b);
    if (mistake == WRITES_FACTOR && thread == 40)
        write_piece(b, 16 * thread, 9);
    bool waits = (mistake != NO_WAIT && mistake != NO_WAIT_WRITES) || warp != 0;
    if (waits)
        gxemu_mbarrier_wait(b, MBARRIER, 0, NUMBERED(10));
    if (mistake != NO_WAIT || waits)
        write_piece(b, 16 * thread, 11);
    uint32_t lanes = mistake == OTHER_LANES ? 0 : 32 * warp;
    gxemu_tensor_load(b, COLUMNS, column_of(b) + lanes * LANE, sums, NUMBERED(12));
    uint32_t address = column_of(b);
    if (mistake == LATE_READ && warp == 0)
        gxemu_tensor_load(b, COLUMNS, address, sums, NUMBERED(15));
    if (mistake != EARLY_FREE && mistake != LATE_READ)
        gxemu_barrier(b, NUMBERED(13));
    if (mistake != KEPT && warp == (mistake == OTHER_WARP ? 1 : 0))
        gxemu_tensor_free(b, address, TAKEN, NUMBERED(14));
}

static bool run(Mistake m, bool checks, Finding *finding)
{
    static const char *const names[] = {"dot.1"};
    EngineLaunch launch = {.entry = kernel,
                           .name = "kernel",
                           .sites = names,
                           .site_count = 1,
                           .grid = {2, 1, 1},
                           .block = {THREADS, 1, 1},
                           .shared_bytes = SHARED,
                           .check_written = checks,
                           .check_races = checks};
    mistake = m;
    return engine_run(&launch, finding);
}

static void each_is_found(void **state)
{
    (void)state;
    static const struct {
        Mistake mistake;
        FindingKind kind;
        const char *text;
    } cases[] = {
        {NO_WAIT, FINDING_RACE, "reads columns of tensor memory that a product writes"},
        {NO_WAIT_WRITES, FINDING_RACE,
         "writes byte 0 of shared memory, which a product in tensor memory reads"},
        {WRITES_FACTOR, FINDING_RACE,
         "thread (40,0,0) of block (0,0,0) writes byte 640 of shared memory, which a "
         "product"},
        {NO_FENCE, FINDING_RACE, "with no proxy fence behind it"},
        {NOT_INIT, FINDING_UNINITIALISED, "uninitialised"},
        {NOT_COMMITTED, FINDING_DEADLOCK, "waits at an mbarrier of dot.1"},
        {KEPT, FINDING_SYNC, "ends with 32 columns of tensor memory, from 480 on"},
        {OTHER_WARP, FINDING_SYNC, "that another warp has asked for"},
        {OTHER_LANES, FINDING_INVALID, "not of the warp's own lanes"},
        {TOO_FAR, FINDING_ADDRESS, "names columns 508 to 515 of tensor memory"},
        {ADDS, FINDING_UNINITIALISED, "adds to columns of tensor memory"},
        {NO_PRODUCT, FINDING_UNINITIALISED, "reads columns of tensor memory that nobody"},
        {EARLY_FREE, FINDING_RACE, "another warp reads, with no barrier between"},
        {LATE_READ, FINDING_RACE, "another warp reads, with no barrier between"},
        {ODD_COLUMNS, FINDING_INVALID, "32, 64, 128, 256 or 512"},
        {TWICE, FINDING_SYNC, "asks for tensor memory once more"},
    };
    Finding finding;
    for (int checks = 0; checks < 2; checks++) {
        bool done = run(GOOD, checks != 0, &finding);
        assert_string_equal(finding.text, "");
        assert_true(done);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(run(cases[i].mistake, true, &finding));
        if (finding.kind != cases[i].kind || strstr(finding.text, cases[i].text) == NULL)
            fail_msg("expected '%s' in '%s'", cases[i].text, finding.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
