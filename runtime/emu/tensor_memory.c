/* tcgen05 of the emulator: tensor memory, 128 lanes by 512 columns of 32 bits, products whose sums lie there, and the
 * mbarriers that say when these are done (PTX ISA, "TensorCore 5th Generation Family Instructions"). Factors are
 * matrices in shared memory, as those of wgmma: warpgroup.c.
 *
 * A product takes place when it is issued, but nobody knows that: until a thread has waited for the mbarrier that it was
 * committed to, or has met one that has, it may not read the sums, nor write what the product reads. With GXEMU_RACE
 * products have numbers, and threads remember up to which one they know that they are done. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

enum {
    LANES = 32,
    QUARTERS = 4, /* of the lanes: a warp reaches one */
    MEMORY_LANES = LANES * QUARTERS,
    HALF =
        16, /* lanes that a load has; of a quarter, those that a product of 64 rows has */
    COLUMNS = 512,
    LEAST_COLUMNS = 32, /* of an allocation */
    MOST_COLUMNS = 256, /* of a product */
    MOST_LOAD = 64,
    LANE_SHIFT = 16,
    TERMS = 16,
    PIECE = 8,
    PIECE_BYTES = 16,
    FORM_COLUMNS = 512,
    FORM_TRANSPOSED = 512,
    FORM_F16 = 1024,
    FORM_RIGHT_TRANSPOSED = 2048,
    FORM_TALL = 8192,
    MBARRIER_BYTES = 8
};

/* Of each column. */
typedef struct Column {
    uint32_t base, count;     /* of its allocation; 0: of none */
    uint32_t warp;            /* that asked for it */
    uint32_t product, issuer; /* the last that writes it; 0: none; its thread */
    uint32_t loaded, loaders; /* the interval of its last load, the warps as bits */
} Column;

struct TensorMemory {
    float words[MEMORY_LANES][COLUMNS];
    Column columns[COLUMNS];
    uint32_t products; /* issued in this block */
    bool is_taken;
    uint32_t
        readers[]; /* of each 16 bytes of shared memory the last product that reads it */
};

/* In shared memory. */
typedef struct Mbarrier {
    uint32_t phase;   /* its number, and MBARRIER_MARK */
    uint32_t product; /* the last one that the phase before it waited for */
} Mbarrier;
enum { MBARRIER_MARK = 0x5ba00000, MBARRIER_PHASES = 0xfffff };

static void complain(Engine *e, FindingKind kind, const Thread *t, const char *what)
{
    finding_set(e->finding, kind, "%s: ", what);
    engine_describe(e, t, t->site);
    engine_abort(e);
}

static TensorMemory *memory_of(Engine *e)
{
    enum { MOST_PIECES = ENGINE_MOST_SHARED / PIECE_BYTES };
    if (e->tensor == NULL)
        e->tensor = calloc(1, sizeof *e->tensor + MOST_PIECES * sizeof(uint32_t));
    if (e->tensor == NULL) {
        finding_set(e->finding, FINDING_MEMORY, "no memory for tensor memory");
        engine_abort(e);
    }
    return e->tensor;
}

void tensor_begin_block(Engine *e)
{
    TensorMemory *m = e->tensor;
    for (uint32_t i = 0; i < e->thread_count; i++)
        e->threads[i].issued = e->threads[i].known = 0;
    if (m == NULL)
        return;
    memset(m->columns, 0, sizeof m->columns);
    if (m->products != 0)
        memset(m->readers, 0,
               (e->launch->shared_bytes + PIECE_BYTES - 1) / PIECE_BYTES *
                   sizeof *m->readers);
    m->products = 0;
    m->is_taken = false;
}

void tensor_end_block(Engine *e)
{
    const TensorMemory *m = e->tensor;
    if (m == NULL || !m->is_taken)
        return;
    for (uint32_t i = 0; i < COLUMNS; i++) {
        if (m->columns[i].count == 0)
            continue;
        finding_set(e->finding, FINDING_SYNC,
                    "kernel %s, block (%u,%u,%u) ends with %" PRIu32
                    " columns of tensor memory, from %" PRIu32
                    " on, that were not given back",
                    e->launch->name, e->ctaid[0], e->ctaid[1], e->ctaid[2],
                    m->columns[i].count, i);
        e->aborted = true;
        return;
    }
}

void tensor_meet(Engine *e, uint32_t first, uint32_t count)
{
    uint32_t known = 0, end = first + count;
    if (e->tensor == NULL || e->tensor->products == 0)
        return;
    end = end < e->thread_count ? end : e->thread_count;
    for (uint32_t i = first; i < end; i++)
        known = e->threads[i].known > known ? e->threads[i].known : known;
    for (uint32_t i = first; i < end; i++)
        e->threads[i].known = known;
}

void tensor_check_write(gxemu_block *b, uint64_t offset, uint32_t bytes, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    const TensorMemory *m = e->tensor;
    if (m == NULL || m->products == t->known || bytes == 0)
        return;
    for (uint64_t i = offset / PIECE_BYTES; i <= (offset + bytes - 1) / PIECE_BYTES;
         i++) {
        if (m->readers[i] <= t->known)
            continue;
        finding_set(e->finding, FINDING_RACE, "race: ");
        engine_describe(e, t, site);
        finding_add(e->finding,
                    " writes byte %" PRIu64 " of shared memory, which a product in "
                    "tensor memory reads that it has not waited for",
                    offset);
        engine_abort(e);
    }
}

/* -- allocation ---------------------------------------------------------------------------------- */

/* All lanes bring the same. */
static void check_lanes(Engine *e, const Thread *warp)
{
    for (uint32_t lane = 1; lane < LANES; lane++) {
        if (warp[lane].call.offset != warp->call.offset)
            complain(e, FINDING_SYNC, &warp[lane],
                     "lanes name different addresses of tensor memory");
    }
}

/* Bytes of shared memory that the thread reads or writes, checked. */
static void *shared_bytes_at(Engine *e, Thread *t, uint64_t offset, uint32_t bytes,
                             uint32_t kind)
{
    uint64_t extent = e->launch->shared_bytes;
    if (offset % bytes != 0)
        gxemu_fault(&t->view, GXEMU_SHARED, offset, bytes, t->site,
                    kind | GXEMU_MISALIGNED);
    if (extent < bytes || offset > extent - bytes)
        gxemu_fault(&t->view, GXEMU_SHARED, offset, bytes, t->site, kind);
    if (t->view.checks != 0)
        access_check(&t->view, GXEMU_SHARED, offset, bytes, t->site, kind);
    return e->shared + offset;
}

/* The last columns: nobody may rely on where they are. gx.tensor.alloc gives the block's right to ask back at once
 * (tcgen05.relinquish_alloc_permit), so that other blocks go on. */
void warp_tensor_alloc(Engine *e, Thread *warp)
{
    TensorMemory *m = memory_of(e);
    uint32_t count = warp->call.number, first = COLUMNS - count;
    check_lanes(e, warp);
    if (count < LEAST_COLUMNS || count > COLUMNS || (count & (count - 1)) != 0)
        complain(e, FINDING_INVALID, warp,
                 "columns of tensor memory are 32, 64, 128, 256 or 512");
    if (m->is_taken)
        complain(e, FINDING_SYNC, warp,
                 "asks for tensor memory once more, which its block has no right to");
    for (uint32_t i = first; i < COLUMNS; i++)
        m->columns[i] =
            (Column){.base = first, .count = count, .warp = warp->index / LANES};
    m->is_taken = true;
    memcpy(shared_bytes_at(e, warp, warp->call.offset, sizeof first, GXEMU_WRITE), &first,
           sizeof first);
}

/* Since the last barrier. */
static bool is_read_by_others(const Engine *e, const Column *c, const Thread *t)
{
    uint32_t own = UINT32_C(1) << t->index / LANES;
    return e->launch->check_races && c->loaded == e->race.barrier &&
           (c->loaders & ~own) != 0;
}

void warp_tensor_free(Engine *e, Thread *warp)
{
    TensorMemory *m = memory_of(e);
    uint32_t first = (uint32_t)warp->call.offset, count = warp->call.number;
    check_lanes(e, warp);
    if (first >= COLUMNS || m->columns[first].base != first ||
        m->columns[first].count != count)
        complain(e, FINDING_INVALID, warp,
                 "gives back tensor memory that nobody has asked for");
    if (m->columns[first].warp != warp->index / LANES)
        complain(e, FINDING_SYNC, warp,
                 "gives back tensor memory that another warp has asked for");
    for (uint32_t i = first; i < first + count; i++) {
        const Column *c = &m->columns[i];
        if (e->launch->check_races && c->product > warp->known)
            complain(e, FINDING_RACE, warp,
                     "race: gives back tensor memory that a product writes that it has "
                     "not waited for");
        if (is_read_by_others(e, c, warp))
            complain(e, FINDING_RACE, warp,
                     "race: gives back tensor memory that another warp reads, with no "
                     "barrier between");
    }
    memset(&m->columns[first], 0, count * sizeof *m->columns);
}

/* The first column of `count` ones that are of one allocation. */
static uint32_t check_columns(Engine *e, const Thread *t, uint32_t address,
                              uint32_t count)
{
    const TensorMemory *m = memory_of(e);
    uint32_t first = address & ((1U << LANE_SHIFT) - 1);
    if (first >= COLUMNS || m->columns[first].count == 0 ||
        first + count > m->columns[first].base + m->columns[first].count) {
        finding_set(e->finding, FINDING_ADDRESS, "out of bounds: ");
        engine_describe(e, t, t->site);
        finding_add(e->finding,
                    " names columns %" PRIu32 " to %" PRIu32
                    " of tensor memory, which it has not asked for",
                    first, first + count - 1);
        engine_abort(e);
    }
    return first;
}

/* -- products ------------------------------------------------------------------------------------ */

typedef struct Product {
    Matrices factors[2];
    uint32_t rows, columns, steps;
    uint32_t first, lane; /* of tensor memory */
    bool adds;
} Product;

/* PTX ISA, "Data path layout organization": D (128 rows) and F (64: half of each warp's lanes). */
static float *sum_of(TensorMemory *m, const Product *p, uint32_t row, uint32_t column)
{
    uint32_t lane = p->rows == MEMORY_LANES ? row : row / HALF * LANES + row % HALF;
    return &m->words[lane + p->lane][p->first + column];
}

static Product product_of(Engine *e, const Thread *t, uint32_t form,
                          const uint32_t *words)
{
    enum { LEFT = 1, RIGHT = 4, ADDRESS = 7, ADDS = 8 };
    uint32_t columns = form % FORM_COLUMNS;
    bool is_tall = (form & FORM_TALL) != 0, is_f16 = (form & FORM_F16) != 0;
    if (columns == 0 || columns > MOST_COLUMNS ||
        columns % (is_tall ? 2 * PIECE : PIECE) != 0)
        complain(e, FINDING_INVALID, t, "a tcgen05.mma of no such columns");
    Product p = {
        .factors = {matrices_of(&words[LEFT], (form & FORM_TRANSPOSED) != 0, is_f16),
                    matrices_of(&words[RIGHT], (form & FORM_RIGHT_TRANSPOSED) != 0,
                                is_f16)},
        .rows = is_tall ? MEMORY_LANES : MEMORY_LANES / 2,
        .columns = columns,
        .steps = words[0],
        .lane = words[ADDRESS] >> LANE_SHIFT,
        .adds = words[ADDS] != 0};
    if (p.lane != 0 && (is_tall || p.lane != HALF))
        complain(e, FINDING_INVALID, t, "a tcgen05.mma whose sums begin at no such lane");
    p.first = check_columns(e, t, words[ADDRESS], columns);
    return p;
}

/* The sums may be written now. */
static void check_sums(Engine *e, const Thread *t, const Product *p)
{
    const TensorMemory *m = e->tensor;
    for (uint32_t i = p->first; i < p->first + p->columns; i++) {
        const Column *c = &m->columns[i];
        if (p->adds && c->product == 0)
            complain(e, FINDING_UNINITIALISED, t,
                     "adds to columns of tensor memory that nobody wrote");
        if (e->launch->check_races && c->product > t->known && c->issuer != t->index)
            complain(e, FINDING_RACE, t,
                     "race: writes columns of tensor memory that another thread's "
                     "product writes, which it has not waited for");
        if (is_read_by_others(e, c, t))
            complain(e, FINDING_RACE, t,
                     "race: writes columns of tensor memory that another warp reads, "
                     "with no barrier between");
    }
}

static void multiply(Engine *e, Thread *t, const Product *p)
{
    double a[TERMS * MEMORY_LANES], b[TERMS * MOST_COLUMNS];
    TensorMemory *m = e->tensor;
    for (uint32_t step = 0; step < p->steps; step++) {
        matrices_read(e, t, 0, &p->factors[0], step, 0, p->rows, a);
        matrices_read(e, t, 0, &p->factors[1], step, 0, p->columns, b);
        for (uint32_t row = 0; row < p->rows; row++) {
            for (uint32_t column = 0; column < p->columns; column++) {
                float *to = sum_of(m, p, row, column);
                double sum = step == 0 && !p->adds ? 0 : (double)*to;
                for (uint32_t i = 0; i < TERMS; i++)
                    sum += a[i * p->rows + row] * b[i * p->columns + column];
                *to = (float)sum;
            }
        }
    }
}

void gxemu_tensor_mma(gxemu_block *b, uint32_t form, void *words, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    TensorMemory *m = memory_of(e);
    t->site = site;
    Product p = product_of(e, t, form, words);
    check_sums(e, t, &p);
    t->issued = ++m->products;
    for (int i = 0; i < 2 && e->launch->check_races; i++) {
        p.factors[i].marks = m->readers;
        p.factors[i].mark = t->issued;
    }
    for (uint32_t i = p.first; i < p.first + p.columns; i++) {
        m->columns[i].product = t->issued;
        m->columns[i].issuer = t->index;
    }
    multiply(e, t, &p);
}

void warp_tensor_load(Engine *e, Thread *warp)
{
    TensorMemory *m = memory_of(e);
    uint32_t address = (uint32_t)warp->call.offset, count = warp->call.number,
             lane = address >> LANE_SHIFT;
    check_lanes(e, warp);
    if (count % PIECE != 0 || count > MOST_LOAD ||
        lane / LANES != warp->index / LANES % QUARTERS || lane % HALF != 0)
        complain(
            e, FINDING_INVALID, warp,
            "a load of tensor memory of no such columns, or not of the warp's own lanes");
    uint32_t first = check_columns(e, warp, address, count);
    for (uint32_t i = first; i < first + count; i++) {
        Column *c = &m->columns[i];
        if (c->product == 0)
            complain(e, FINDING_UNINITIALISED, warp,
                     "reads columns of tensor memory that nobody wrote");
        for (uint32_t j = 0; j < LANES && e->launch->check_races; j++) {
            if (c->product > warp[j].known)
                complain(e, FINDING_RACE, &warp[j],
                         "race: reads columns of tensor memory that a product writes "
                         "that it has not waited for");
        }
        if (c->loaded != e->race.barrier)
            c->loaders = 0;
        c->loaded = e->race.barrier;
        c->loaders |= UINT32_C(1) << warp->index / LANES;
    }
    for (uint32_t i = 0; i < LANES; i++) {
        for (uint32_t j = 0; j < count / 2; j++) {
            uint32_t index = sum_index(i, j, count);
            memcpy(&warp[i].call.registers[j],
                   &m->words[lane + index / count][first + index % count], sizeof(float));
        }
    }
}

/* -- mbarriers ----------------------------------------------------------------------------------- */

static Mbarrier mbarrier_read(Engine *e, Thread *t, uint64_t offset)
{
    Mbarrier m;
    memcpy(&m, shared_bytes_at(e, t, offset, MBARRIER_BYTES, GXEMU_ATOMIC), sizeof m);
    if ((m.phase & ~(uint32_t)MBARRIER_PHASES) != MBARRIER_MARK)
        complain(e, FINDING_UNINITIALISED, t, "what it uses as an mbarrier is none");
    return m;
}

void gxemu_mbarrier_init(gxemu_block *b, uint64_t offset, uint32_t site)
{
    Thread *t = thread_of(b);
    Mbarrier m = {.phase = MBARRIER_MARK};
    t->site = site;
    memcpy(shared_bytes_at(engine_of(b), t, offset, MBARRIER_BYTES, GXEMU_WRITE), &m,
           sizeof m);
}

void gxemu_tensor_commit(gxemu_block *b, uint64_t offset, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    t->site = site;
    Mbarrier m = mbarrier_read(e, t, offset);
    m.phase = MBARRIER_MARK | ((m.phase + 1) & MBARRIER_PHASES);
    m.product = t->issued;
    memcpy(e->shared + offset, &m, sizeof m);
    for (uint32_t i = 0; i < e->next_thread; i++) {
        Thread *other = &e->threads[i];
        if (other->state == THREAD_AT_MBARRIER && other->mbarrier == offset)
            engine_ready(e, other);
    }
}

void gxemu_mbarrier_wait(gxemu_block *b, uint64_t offset, uint32_t parity, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    for (;;) {
        t->site = site;
        Mbarrier m = mbarrier_read(e, t, offset);
        if ((m.phase & 1) != (parity & 1)) {
            t->known = m.product > t->known ? m.product : t->known;
            return;
        }
        t->mbarrier = offset;
        t->state = THREAD_AT_MBARRIER;
        engine_wait(e);
    }
}
