/* wgmma of the emulator: products of matrices in shared memory, 64 rows by four warps. Each warp has 16 of the rows
 * and all columns, and makes them by itself: what it reads is there behind a barrier, and is not written before the
 * next one, whenever the other three come. Matrices have 8 rows of 16 bytes, one behind the other (PTX ISA,
 * "Shared Memory Matrix Layout", without swizzling). The left factor may be in registers instead (ibid., "Register
 * Fragments"), as a warp's own rows.
 *
 * One that goes on may read at any time until the warp has waited for it: it reads when it is issued, for what is not
 * there yet to be found, and multiplies in the wait, by what is there then.
 *
 * The 16 terms of a step are summed in f64 and rounded once: see mma.c. */
#include <inttypes.h>
#include <string.h>

#include "ir/number/number.h"
#include "runtime/emu/engine_parts.h"

enum {
    LANES = 32,
    WARPS = 4,
    ROWS = 16,
    MOST_COLUMNS = 256,
    TERMS = 16,
    HALVES = 8, /* of a row of a matrix */
    ROW_BYTES = 16,
    FORM_COLUMNS = 512,
    FORM_TRANSPOSED = 512,
    FORM_F16 = 1024,
    FORM_RIGHT_TRANSPOSED = 2048,
    FORM_REGISTERS = 4096,
    FORM_GOES_ON = 16384,
    FORM_INDEX = 16, /* bits before it */
    FORM_MOST_INDEX = 256,
    FORM_LINE = 24,
    FORM_RIGHT_LINE = 26,
    FORM_LINES = 4,
    FORM_WORDS = PRODUCT_WORDS,
    STEP_WORDS = 4,
    MOST_STEPS = 16 /* of a factor in registers */
};

Matrices matrices_of(const uint32_t *words, bool is_transposed, bool is_f16)
{
    return (Matrices){.offset = words[0],
                      .lead = words[1],
                      .stride = words[2],
                      .is_transposed = is_transposed,
                      .is_f16 = is_f16};
}

static float number_of(const Matrices *m, const unsigned char *row, uint32_t i)
{
    uint16_t code;
    memcpy(&code, row + (size_t)2 * i, sizeof code);
    return m->is_f16 ? number_f16_to_float(code) : number_bf16_to_float(code);
}

/* PTX ISA, "Strides" and "Canonical layouts": where a row of the matrix has its 16 bytes that is number `down` along the
 * side and `across` along the terms, of the step. Of the pieces of a swizzled row which one is that depends on the address:
 * bits 4 and up are xor'ed with bits 7 and up, as many as say which piece it is. */
static uint64_t row_address(const Matrices *m, uint32_t step, uint32_t down,
                            uint32_t across, uint32_t row)
{
    enum { PIECE_BITS = 4, ROW_BITS = 7 };
    uint64_t at = m->offset, pieces = m->line / ROW_BYTES;
    if (m->line == 0)
        return at + down * m->stride + (2 * step + across) * m->lead + row * ROW_BYTES;
    uint64_t term = 2 * step + across, piece = m->is_transposed ? down : term,
             group = m->is_transposed ? term : down;
    at += piece / pieces * m->lead + piece % pieces * ROW_BYTES + row * m->line +
          group * m->stride;
    return at ^ (at >> ROW_BITS & (pieces - 1)) << PIECE_BITS;
}

void matrices_read(Engine *e, Thread *readers, uint32_t apart, const Matrices *m,
                   uint32_t step, uint32_t first, uint32_t count, double *out)
{
    for (uint32_t i = 0; i < count; i += HALVES) {
        for (uint32_t t = 0; t < TERMS; t += HALVES) {
            for (uint32_t row = 0; row < HALVES; row++) {
                uint64_t at = row_address(m, step, (first + i) / HALVES, t / HALVES, row);
                Thread *reader = &readers[row * apart];
                const unsigned char *p = matrix_row(
                    e, reader, at, m->marks != NULL ? ACCESS_LOOK : GXEMU_READ);
                if (reader->view.checks != 0)
                    fence_check(&reader->view, at, ROW_BYTES, reader->site);
                if (m->marks != NULL)
                    m->marks[at / ROW_BYTES] = m->mark;
                for (uint32_t j = 0; j < HALVES; j++) {
                    uint32_t term = t + (m->is_transposed ? row : j),
                             side = i + (m->is_transposed ? j : row);
                    out[term * count + side] = (double)number_of(m, p, j);
                }
            }
        }
    }
}

/* The same of the warp's rows from its lanes' registers: a word has two terms of row lane / 4, of that 8 below it, and of
 * both the terms 8 further. */
static void read_registers(const Thread *warp, bool is_f16, uint32_t step, double *out)
{
    const Matrices m = {.is_f16 = is_f16};
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t *words =
            (const uint32_t *)warp[lane].call.registers + FORM_WORDS + step * STEP_WORDS;
        for (uint32_t i = 0; i < 2 * STEP_WORDS; i++) {
            uint32_t row = lane / 4 + i / 2 % 2 * 8,
                     term = lane % 4 * 2 + i % 2 + i / 4 * HALVES;
            out[term * ROWS + row] =
                (double)number_of(&m, (const unsigned char *)&words[i / 2], i % 2);
        }
    }
}

uint32_t sum_index(uint32_t lane, uint32_t i, uint32_t columns)
{
    uint32_t row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    return row * columns + column;
}

static void complain(Engine *e, const Thread *warp, FindingKind kind, const char *what)
{
    finding_set(e->finding, kind, "%s: ", what);
    engine_describe(e, warp, warp->site);
    e->aborted = true;
}

static bool lanes_agree(Engine *e, const Thread *warp)
{
    for (uint32_t lane = 1; lane < LANES; lane++) {
        if (memcmp(warp[lane].call.registers, warp->call.registers,
                   FORM_WORDS * sizeof(uint32_t)) == 0)
            continue;
        complain(e, &warp[lane], FINDING_SYNC, "lanes name other factors for a wgmma");
        return false;
    }
    return true;
}

/* The lanes' sums as rows, or back. */
static void move_sums(Thread *warp, uint32_t before, uint32_t columns, float *sums,
                      bool is_back)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t *own = (uint32_t *)warp[lane].call.registers + before;
        for (uint32_t i = 0; i < columns / 2; i++) {
            float *sum = &sums[sum_index(lane, i, columns)];
            memcpy(is_back ? (void *)&own[i] : (void *)sum,
                   is_back ? (void *)sum : (void *)&own[i], sizeof(float));
        }
    }
}

static uint32_t index_of(uint32_t form)
{
    return form >> FORM_INDEX & (FORM_MOST_INDEX - 1);
}

/* Bytes of a swizzled row; 0: it is none. */
static uint32_t line_of(uint32_t form, uint32_t bits)
{
    uint32_t number = form >> bits & (FORM_LINES - 1);
    return number == 0 ? 0 : (uint32_t)ROW_BYTES << number;
}

/* false: no such instruction. */
static bool form_is_good(Engine *e, const Thread *warp, uint32_t form, uint32_t steps)
{
    enum { MOST_SUMS = 192 /* of a thread that waits for several */ };
    uint32_t columns = form % FORM_COLUMNS, index = index_of(form);
    bool has_words = (form & FORM_REGISTERS) != 0, goes_on = (form & FORM_GOES_ON) != 0;
    if (columns != 0 && columns % HALVES == 0 && columns <= MOST_COLUMNS &&
        !(has_words && (steps > MOST_STEPS || (form & FORM_TRANSPOSED) != 0)) &&
        (goes_on ? !has_words && index + columns / 2 <= MOST_SUMS : index == 0))
        return true;
    finding_set(e->finding, FINDING_INVALID, "a wgmma of %u columns: ", columns);
    engine_describe(e, warp, warp->site);
    e->aborted = true;
    return false;
}

/* Of the warp's rows and all columns, the terms of a step. */
typedef struct Factors {
    double a[TERMS * ROWS], b[TERMS * MOST_COLUMNS];
} Factors;

static void read_factors(Engine *e, Thread *warp, const uint32_t *words, uint32_t step,
                         Factors *f)
{
    enum { LEFT = 2, RIGHT = 5 /* words */ };
    bool is_f16 = (words[0] & FORM_F16) != 0;
    Matrices x = matrices_of(&words[LEFT], (words[0] & FORM_TRANSPOSED) != 0, is_f16),
             y = matrices_of(&words[RIGHT], (words[0] & FORM_RIGHT_TRANSPOSED) != 0,
                             is_f16);
    x.line = line_of(words[0], FORM_LINE);
    y.line = line_of(words[0], FORM_RIGHT_LINE);
    if ((words[0] & FORM_REGISTERS) != 0)
        read_registers(warp, is_f16, step, f->a);
    else
        matrices_read(e, warp, 1, &x, step, warp->index / LANES % WARPS * ROWS, ROWS,
                      f->a);
    matrices_read(e, warp, 1, &y, step, 0, words[0] % FORM_COLUMNS, f->b);
}

/* Into the sums from word `before` of the lanes' registers on. */
static void multiply(Engine *e, Thread *warp, const uint32_t *words, uint32_t before)
{
    Factors f;
    float sums[ROWS * MOST_COLUMNS];
    uint32_t columns = words[0] % FORM_COLUMNS;
    move_sums(warp, before, columns, sums, false);
    for (uint32_t step = 0; step < words[1]; step++) {
        read_factors(e, warp, words, step, &f);
        for (uint32_t row = 0; row < ROWS; row++) {
            for (uint32_t column = 0; column < columns; column++) {
                double sum = (double)sums[row * columns + column];
                for (uint32_t t = 0; t < TERMS; t++)
                    sum += f.a[t * ROWS + row] * f.b[t * columns + column];
                sums[row * columns + column] = (float)sum;
            }
        }
    }
    move_sums(warp, before, columns, sums, true);
}

static void begin(Engine *e, Thread *warp, const uint32_t *words)
{
    PendingProducts *p = &e->products[warp->index / LANES];
    Factors unused;
    if (p->count == MOST_PRODUCTS) {
        complain(e, warp, FINDING_INVALID, "too many wgmma go on");
        return;
    }
    for (uint32_t step = 0; step < words[1]; step++)
        read_factors(e, warp, words, step, &unused);
    memcpy(p->words[p->count++], words, sizeof *p->words);
}

/* FNV-1a, of words. */
static uint64_t and_then(uint64_t executed, uint32_t word)
{
    return (executed ^ word) * UINT64_C(0x100000001b3);
}

void warp_wgmma(Engine *e, Thread *warp)
{
    const uint32_t *words = warp->call.registers;
    uint32_t steps = words[1];
    uint64_t *executed = &e->products[warp->index / LANES].executed;
    if (!form_is_good(e, warp, words[0], steps) || !lanes_agree(e, warp))
        return;
    *executed = and_then(*executed, warp->site);
    for (uint32_t i = 0; i < FORM_WORDS; i++)
        *executed = and_then(*executed, words[i]);
    if ((words[0] & FORM_GOES_ON) != 0)
        begin(e, warp, words);
    else if (e->products[warp->index / LANES].count != 0)
        complain(e, warp, FINDING_SYNC, "waits for a wgmma where others go on");
    else
        multiply(e, warp, words,
                 FORM_WORDS +
                     ((words[0] & FORM_REGISTERS) != 0 ? steps * STEP_WORDS : 0));
}

void warp_wgmma_wait(Engine *e, Thread *warp)
{
    PendingProducts *p = &e->products[warp->index / LANES];
    uint32_t left = warp->call.number < p->count ? warp->call.number : p->count,
             done = p->count - left;
    for (uint32_t i = 0; i < done; i++)
        multiply(e, warp, p->words[i], index_of(p->words[i][0]));
    memmove(p->words, p->words[done], left * sizeof *p->words);
    p->count = left;
}

/* PTX ISA, wgmma.mma_async, ".aligned": "all threads in the warpgroup must execute the same wgmma.mma_async instruction". */
bool products_meet(Engine *e)
{
    for (uint32_t i = 0; i < RACE_WARPS; i++) {
        uint32_t first = i - i % WARPS;
        if (e->products[i].executed == e->products[first].executed)
            continue;
        finding_set(e->finding, FINDING_SYNC,
                    "kernel %s, block (%u,%u,%u): warps %" PRIu32 " and %" PRIu32
                    ", which are of one group of four, executed different wgmma",
                    e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2], first, i);
        e->aborted = true;
        return false;
    }
    return true;
}

void products_end_block(Engine *e)
{
    if (!products_meet(e))
        return;
    for (uint32_t i = 0; i < RACE_WARPS; i++) {
        if (e->products[i].count == 0)
            continue;
        finding_set(e->finding, FINDING_SYNC,
                    "kernel %s, block (%u,%u,%u) ends with %" PRIu32
                    " wgmma of warp %" PRIu32 " that were not waited for",
                    e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2],
                    e->products[i].count, i);
        e->aborted = true;
        return;
    }
}
