/* What threads of a kernel do on the emulator: accesses, barriers, shuffles, tensor cores, asynchronous copies. The
 * kernel is here: every thread carries out the input's instructions, as the code that gxc makes would call for them.
 * Each launch ends with a result or a finding that has words, and ends so again.
 *
 * An input is a launch (LaunchByte), then instructions of INSTRUCTION_BYTES (InstructionByte). */
#include "runtime/emu/banks.h"
#include "runtime/emu/config.h"
#include "runtime/emu/engine.h"
#include "tests/fuzz/fuzz.h"

typedef enum LaunchByte {
    LAUNCH_THREADS,
    LAUNCH_BLOCKS,
    LAUNCH_CHECKS, /* CheckBits */
    LAUNCH_SHARED,
    LAUNCH_EXTENTS, /* of the arrays, and which of them are read only */
    LAUNCH_BYTES
} LaunchByte;

typedef enum CheckBits {
    CHECK_WRITTEN = 1,
    CHECK_RACES = 2,
    CHECK_EARLY = 4, /* asynchronous copies are made at once */
    CHECK_BANKS = 8,
    CHECK_NO_SITES = 16,
    CHECK_FRESH = 32 /* nobody wrote the arrays before */
} CheckBits;

typedef enum InstructionByte {
    AT_KIND,
    AT_WHO, /* does it */
    AT_ARGUMENT,
    AT_OFFSET,
    AT_STEP, /* from thread to thread */
    AT_BYTES,
    AT_MASK,
    AT_SITE,
    INSTRUCTION_BYTES
} InstructionByte;

typedef enum Kind {
    DO_READ,
    DO_WRITE,
    DO_ATOMIC,
    DO_BARRIER,
    DO_WARP_BARRIER,
    DO_SHUFFLE,
    DO_MMA,
    DO_WGMMA,
    DO_LOAD_MATRIX,
    DO_STORE_MATRIX,
    DO_COPY,
    DO_COMMIT,
    DO_WAIT,
    DO_PAUSE,
    DO_PROMISE, /* too much of an argument */
    DO_RETURN,
    DO_BESIDE, /* what runs beside threads: a fence before it, tensor memory, mbarriers */
    KINDS
} Kind;

enum {
    INSTRUCTIONS_MOST = 40,
    ARRAYS = 3,
    ARRAY_BYTES = 4096,
    SITES = 4,
    WORDS = 8 + 64 + 128, /* of the widest instruction */
    SECONDS = 10
};

static struct {
    const uint8_t *instructions;
    size_t count;
} program;

/* --- a thread ------------------------------------------------------------------------------ */

static bool takes_part(const gxemu_block *b, uint8_t who)
{
    uint32_t warp = b->tid[0] / 32;
    switch (who % 8) {
    case 1:
        return b->lane < who / 8u;
    case 2:
        return b->lane % 2 == who / 8u % 2;
    case 3:
        return warp == who / 8u % 4;
    case 4:
        return b->tid[0] != who / 8u;
    case 5:
        return b->ctaid[0] == who / 8u % 4;
    default:
        return true;
    }
}

static uint32_t site_of(const uint8_t *at)
{
    return (uint32_t)(at[AT_SITE] / 8) << EMU_SITE_BITS | at[AT_SITE] % 8 % (SITES + 1);
}

static uint64_t offset_of(const gxemu_block *b, const uint8_t *at)
{
    uint64_t index = b->tid[0] + (at[AT_WHO] >= 128 ? b->ctaid[0] * b->ntid[0] : 0);
    uint64_t offset = (uint64_t)at[AT_OFFSET] * 4 + index * (at[AT_STEP] % 65);
    return at[AT_OFFSET] == 255 ? UINT64_MAX - 7 : offset;
}

/* As gxc writes an access: a call where it is not good, and in checking modes. */
static void access_memory(gxemu_block *b, const void *args, const uint8_t *at,
                          uint32_t kind)
{
    const uint64_t *extents = b->extents;
    uint32_t argument = at[AT_ARGUMENT] % 8 < 4 ? GXEMU_SHARED : at[AT_ARGUMENT] % ARRAYS;
    uint32_t bytes = 1u << at[AT_BYTES] % 5, align = at[AT_BYTES] & 64 ? 1 : bytes;
    uint64_t offset = offset_of(b, at),
             extent = argument == GXEMU_SHARED ? b->shared_bytes : extents[argument];
    unsigned char *const *slots = args;
    unsigned char *base = argument == GXEMU_SHARED ? b->shared : slots[argument];
    bool is_good = bytes <= extent && offset <= extent - bytes &&
                   ((uintptr_t)base + offset) % align == 0;
    if (!is_good || b->checks != 0)
        gxemu_access(b, argument, offset, bytes, align, site_of(at), kind);
    if (kind == GXEMU_READ)
        return;
    if (kind == GXEMU_ATOMIC) /* of blocks on several threads, too */
        __atomic_fetch_add(base + offset, 1, __ATOMIC_RELAXED);
    else
        __atomic_store_n(base + offset, at[AT_MASK], __ATOMIC_RELAXED);
}

static uint32_t mask_of(const gxemu_block *b, uint8_t which)
{
    static const uint32_t masks[] = {UINT32_MAX, 0xffff,     0x55555555, 0,
                                     1,          0xaaaaaaaa, 0xffff0000, 0x7fffffff};
    uint32_t mask = masks[which % 8];
    return which & 8 ? mask | UINT32_C(1) << b->lane : mask;
}

static void move_words(gxemu_block *b, const uint8_t *at)
{
    static const uint16_t columns[] = {8, 16, 64, 256, 0, 12, 264, 504};
    uint32_t registers[WORDS] = {0}, site = site_of(at);
    for (uint32_t i = 0; i < WORDS; i++)
        registers[i] = (i + b->lane) * UINT32_C(2654435761) * at[AT_MASK];
    if (at[AT_KIND] % KINDS == DO_MMA) {
        gxemu_mma(b, at[AT_OFFSET] % 40, registers, site);
    } else if (at[AT_KIND] % KINDS == DO_WGMMA) {
        uint32_t form = columns[at[AT_BYTES] % 8] + at[AT_BYTES] / 8 % 16 * 512u;
        const uint32_t head[] = {form,
                                 at[AT_STEP] % 3,
                                 at[AT_OFFSET] * 16u,
                                 at[AT_ARGUMENT] % 16 * 8u,
                                 at[AT_ARGUMENT] / 16 * 16u,
                                 at[AT_STEP] * 16u,
                                 at[AT_STEP] / 3 * 16u,
                                 at[AT_OFFSET] & 128 ? b->lane : 128u};
        memcpy(registers, head, sizeof head);
        if (at[AT_MASK] & 1) /* it goes on */
            registers[0] += 16384 + at[AT_MASK] / 4u % 32 * 65536;
        gxemu_wgmma(b, registers[0], registers, site);
        if (at[AT_MASK] & 2)
            gxemu_wgmma_wait(b, at[AT_STEP] / 2u % 4, registers, site);
    } else {
        uint32_t form = (1u << at[AT_BYTES] % 3) | (at[AT_BYTES] & 8);
        bool loads = at[AT_KIND] % KINDS == DO_LOAD_MATRIX;
        (loads ? gxemu_ldmatrix : gxemu_stmatrix)(b, form, offset_of(b, at), registers,
                                                  site);
    }
}

static void copy_async(gxemu_block *b, const uint8_t *at)
{
    uint32_t bytes = 4u << at[AT_BYTES] % 3, valid = at[AT_BYTES] & 8 ? bytes / 2 : bytes;
    gxemu_copy_async(b, at[AT_ARGUMENT] % (ARRAYS + 1), offset_of(b, at),
                     at[AT_MASK] * 4u + (uint64_t)b->tid[0] * (at[AT_STEP] % 65), bytes,
                     at[AT_BYTES] & 16 ? 0 : valid, site_of(at));
}

static void multiply_beside(gxemu_block *b, const uint8_t *at)
{
    static const uint16_t columns[] = {8, 16, 64, 256, 0, 12, 264, 504};
    uint32_t form = columns[at[AT_ARGUMENT] % 8] + at[AT_MASK] % 32 * 512u;
    uint32_t words[] = {at[AT_STEP] % 3,
                        at[AT_OFFSET] * 16u,
                        at[AT_STEP] * 8u,
                        128,
                        at[AT_MASK] * 16u,
                        at[AT_STEP] / 3 * 16u,
                        at[AT_MASK] & 64 ? 64 : 128,
                        448u + at[AT_OFFSET] / 16 * 8u + (at[AT_MASK] & 32) * 32768u,
                        at[AT_MASK] >> 7};
    gxemu_tensor_mma(b, form, words, site_of(at));
}

static void run_beside(gxemu_block *b, const uint8_t *at)
{
    enum { FENCE, ALLOC, FREE, MULTIPLY, COMMIT, LOAD, MAKE, WAIT, WHICH };
    static const uint16_t columns[] = {64, 32, 512, 48};
    uint32_t words[WORDS], address = 512u - columns[at[AT_ARGUMENT] % 4];
    switch (at[AT_BYTES] % WHICH) {
    case ALLOC:
        gxemu_tensor_alloc(b, offset_of(b, at), columns[at[AT_ARGUMENT] % 4],
                           site_of(at));
        return;
    case FREE:
        gxemu_tensor_free(b, address, columns[at[AT_MASK] % 4], site_of(at));
        return;
    case MULTIPLY:
        multiply_beside(b, at);
        return;
    case COMMIT:
        gxemu_tensor_commit(b, offset_of(b, at), site_of(at));
        return;
    case LOAD:
        gxemu_tensor_load(b, 8u << at[AT_MASK] % 5,
                          address + (b->tid[0] / 32 * 2 + at[AT_OFFSET] % 3) * 16 * 65536,
                          words, site_of(at));
        return;
    case MAKE:
        gxemu_mbarrier_init(b, offset_of(b, at), site_of(at));
        return;
    case WAIT:
        gxemu_mbarrier_wait(b, offset_of(b, at), at[AT_MASK] % 2, site_of(at));
        return;
    default:
        gxemu_proxy_fence(b, site_of(at));
    }
}

/* False: the thread ends. */
static bool carry_out(gxemu_block *b, const void *args, const uint8_t *at)
{
    static const uint32_t clamps[] = {31, 0, 0x1c1f, 0x101f, 7, 0x1f};
    switch ((Kind)(at[AT_KIND] % KINDS)) {
    case DO_READ:
    case DO_WRITE:
    case DO_ATOMIC:
        access_memory(b, args, at, at[AT_KIND] % KINDS - DO_READ + GXEMU_READ);
        return true;
    case DO_BARRIER:
        gxemu_barrier(b, site_of(at));
        return true;
    case DO_WARP_BARRIER:
        gxemu_syncwarp(b, mask_of(b, at[AT_MASK]), site_of(at));
        return true;
    case DO_SHUFFLE:
        gxemu_shfl(b, at[AT_BYTES] % 4, mask_of(b, at[AT_MASK]), b->tid[0] % 3,
                   at[AT_OFFSET], clamps[at[AT_STEP] % 6], site_of(at));
        return true;
    case DO_MMA:
    case DO_WGMMA:
    case DO_LOAD_MATRIX:
    case DO_STORE_MATRIX:
        move_words(b, at);
        return true;
    case DO_COPY:
        copy_async(b, at);
        return true;
    case DO_COMMIT:
        gxemu_copy_commit(b, site_of(at));
        return true;
    case DO_WAIT:
        gxemu_copy_wait(b, at[AT_BYTES] % 4, site_of(at));
        return true;
    case DO_PAUSE:
        for (int i = 0; i < 4 << at[AT_BYTES] % 10; i++)
            gxemu_pause(b, site_of(at));
        return true;
    case DO_BESIDE:
        run_beside(b, at);
        return true;
    case DO_PROMISE:
        gxemu_fault(b, at[AT_ARGUMENT] % (ARRAYS + 2), offset_of(b, at), 0, site_of(at),
                    at[AT_BYTES] % 3 | (at[AT_BYTES] & GXEMU_MISALIGNED));
    case DO_RETURN:
    case KINDS:
        break;
    }
    return false;
}

static void kernel(gxemu_block *b, const void *args)
{
    for (size_t i = 0; i < program.count; i++) {
        const uint8_t *at = program.instructions + i * INSTRUCTION_BYTES;
        if (takes_part(b, at[AT_WHO]) && !carry_out(b, args, at))
            return;
    }
}

/* --- a launch ------------------------------------------------------------------------------ */

typedef struct Arrays {
    unsigned char *bytes[ARRAYS];
    uint64_t args[ARRAYS], extents[ARRAYS];
    EngineArgument arguments[ARRAYS];
    Shadow shadows[ARRAYS];
    BankCount banks[SITES + 1];
} Arrays;

static void make_arrays(Arrays *a, const uint8_t *data)
{
    static const uint64_t extents[] = {ARRAY_BYTES, 1024, 100, 0};
    *a = (Arrays){0};
    for (int i = 0; i < ARRAYS; i++) {
        a->bytes[i] = aligned_alloc(64, ARRAY_BYTES);
        PROMISE(a->bytes[i] != NULL && shadow_init(&a->shadows[i], ARRAY_BYTES,
                                                   data[LAUNCH_CHECKS] & CHECK_WRITTEN,
                                                   data[LAUNCH_CHECKS] & CHECK_RACES),
                "no memory");
        memset(a->bytes[i], 0, ARRAY_BYTES);
        shadow_set_written(&a->shadows[i], 0, ARRAY_BYTES,
                           !(data[LAUNCH_CHECKS] & CHECK_FRESH));
        a->args[i] = (uintptr_t)a->bytes[i];
        a->extents[i] = extents[data[LAUNCH_EXTENTS] >> 2 * i & 3];
        a->arguments[i] = (EngineArgument){
            .shadow = &a->shadows[i], .is_read_only = i == 0 && data[LAUNCH_SHARED] & 1};
    }
}

static void free_arrays(Arrays *a)
{
    for (int i = 0; i < ARRAYS; i++) {
        shadow_deinit(&a->shadows[i]);
        free(a->bytes[i]);
    }
}

static bool launch(Arrays *a, const uint8_t *data, Finding *out)
{
    static const char *const sites[SITES] = {"param.1", "reduce.2", "dot.3", "copy.4"};
    static const uint32_t threads[] = {32, 64, 128, 1, 33, 100, 256, 1024};
    static const uint64_t shared[] = {4096, 16384, 0, 100, 65536, 262144, 262145, 1024};
    uint8_t checks = data[LAUNCH_CHECKS];
    uint32_t blocks = 1 + data[LAUNCH_BLOCKS] % 4, n = threads[data[LAUNCH_THREADS] % 8];
    EngineLaunch l = {.entry = kernel,
                      .name = "kernel",
                      .parameters = ARRAYS,
                      .args = a->args,
                      .extents = a->extents,
                      .arguments = a->arguments,
                      .sites = checks & CHECK_NO_SITES ? NULL : sites,
                      .site_count = checks & CHECK_NO_SITES ? 0 : SITES,
                      .grid = {blocks, 1, 1},
                      .block = {n, data[LAUNCH_BLOCKS] & 64 ? 2 : 1, 1},
                      .shared_bytes = shared[data[LAUNCH_SHARED] / 2 % 8],
                      .check_written = checks & CHECK_WRITTEN,
                      .check_races = checks & CHECK_RACES,
                      .copies_early = checks & CHECK_EARLY,
                      .banks = checks & CHECK_BANKS ? a->banks : NULL};
    return engine_run(&l, out);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static Finding first, second;
    Arrays a;
    if (size < LAUNCH_BYTES)
        return;
    fuzz_allow(SECONDS);
    program.instructions = data + LAUNCH_BYTES;
    program.count = (size - LAUNCH_BYTES) / INSTRUCTION_BYTES;
    program.count = program.count < INSTRUCTIONS_MOST ? program.count : INSTRUCTIONS_MOST;
    emu_config()->workers = 1 + data[LAUNCH_BLOCKS] / 128;
    Finding *found[] = {&first, &second};
    for (int i = 0; i < 2; i++) {
        make_arrays(&a, data);
        bool done = launch(&a, data, found[i]);
        PROMISE(done == (found[i]->kind == FINDING_NONE) &&
                    done == (found[i]->text[0] == '\0'),
                "a finding without words: %s", found[i]->text);
        free_arrays(&a);
    }
    /* addresses differ, as do blocks beside each other */
    PROMISE(data[LAUNCH_BLOCKS] >= 128 || first.kind == second.kind,
            "another finding: %s; %s", first.text, second.text);
}
