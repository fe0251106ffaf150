/* Discrete Fourier transforms of rows: a block takes some rows into shared memory, or one; passes of small
 * transforms in registers follow one another (Stockham 1966), with a barrier between them. The first pass
 * computes its elements from the operand's, the last one stores them, transposed if the fusion says so. */
#include "ir/kernel/kinds/fft.h"

#include "ir/base/divide.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define BLOCK_BYTES 65536 /* that the threads of a block hold in registers */
#define LEAST_ITEMS 8     /* complex numbers of a thread */
#define MOST_ITEM_BYTES 512
#define FEW_THREADS 128
#define LINE_BYTES 128 /* rows that lie side by side in memory are read together */
#define SECTOR_BYTES 32
/* Registers of a thread besides its numbers: for addresses and, in f32 and f64, for roots. */
#define OTHER_REGISTERS 32
#define OTHER_WIDE_REGISTERS 40

/* -- lengths --------------------------------------------------------------------------------- */

int64_t fft_rough_part(int64_t n)
{
    for (int64_t p = 2; p <= FFT_LARGEST_PRIME; p++) {
        while (n > 1 && n % p == 0)
            n /= p;
    }
    return n;
}

/* 16 needs 32 registers of 32 bits in f32, and as many as there are in f64; no more passes of 8 are taken for it. */
static uint32_t radix_of_two(uint32_t log2, DType part)
{
    if (log2 <= 3)
        return 1u << log2;
    if (part == DT_F64)
        return log2 == 4 ? 4 : 8;
    return log2 == 5 || log2 == 6 || log2 == 9 ? 8 : 16;
}

static void find_radices(FftRow *row)
{
    int64_t n = row->points;
    uint32_t log2 = 0;
    for (; n % 2 == 0; n /= 2)
        log2++;
    while (log2 > 0) {
        uint32_t radix = radix_of_two(log2, row->part);
        row->radix[row->passes++] = radix;
        for (; radix > 1; radix /= 2)
            log2--;
    }
    for (uint32_t p = 3; p <= FFT_LARGEST_PRIME; p += 2) {
        for (; n % p == 0; n /= p)
            row->radix[row->passes++] = p;
    }
}

int64_t fft_stride(int64_t points)
{
    return (points + points / 16) | 1;
}

FftRow fft_row(int64_t type, int64_t length, DType part, const Target *t)
{
    bool is_real = type == FFT_RFFT || type == FFT_IRFFT;
    FftRow row = {.part = part, .bytes = part == DT_F64 ? 16 : 8};
    row.is_packed = is_real && length % 2 == 0 && length >= 4;
    row.points = row.is_packed ? length / 2 : length;
    uint64_t most = target_block_shared(t);
    most = most < BLOCK_BYTES ? most : BLOCK_BYTES;
    if (row.points < 2 || row.points > (int64_t)(most / row.bytes) ||
        (uint64_t)fft_stride(row.points) * row.bytes > target_block_shared(t) ||
        fft_rough_part(row.points) > 1)
        return row;
    find_radices(&row);
    return row;
}

/* -- roots ----------------------------------------------------------------------------------- */

/* S. L. Moshier, Cephes. */
static const double sine_32[] = {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1};
static const double cosine_32[] = {2.443315711809948e-5, -1.388731625493765e-3,
                                   4.166664568298827e-2};
static const double sine_64[] = {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                                 2.75573136213857245213e-6,  -1.98412698295895385996e-4,
                                 8.33333333332211858878e-3,  -1.66666666666666307295e-1};
static const double cosine_64[] = {
    -1.13585365213876817300e-11, 2.08757008419747316778e-9,  -2.75573141792967388112e-7,
    2.48015872888517045348e-5,   -1.38888888888730564116e-3, 4.16666666666665929218e-2};

FftPolynomial fft_sine(DType part)
{
    return part == DT_F64 ? (FftPolynomial){6, sine_64} : (FftPolynomial){3, sine_32};
}

FftPolynomial fft_cosine(DType part)
{
    return part == DT_F64 ? (FftPolynomial){6, cosine_64} : (FftPolynomial){3, cosine_32};
}

/* -- legality -------------------------------------------------------------------------------- */

static bool keeps_index(const Instruction *inst, const Instruction *operand)
{
    return (op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_COPY) &&
           shape_is_array(inst->shape) && shape_is_array(operand->shape) &&
           shape_same_dims(inst->shape, operand->shape);
}

/* The hero's dimension d at `inst`, whose operand has it at from[d]; NULL: it does not only move. */
static const uint32_t *moved(Arena *a, const Instruction *inst,
                             const Instruction *operand, const uint32_t *from)
{
    if (keeps_index(inst, operand))
        return from;
    if (inst->op != OP_TRANSPOSE)
        return NULL;
    uint32_t rank = inst->shape->rank, *position = ARENA_ARRAY(a, uint32_t, rank + 1);
    Ints order = inst_ints(inst, ATTR_DIMENSIONS);
    for (uint32_t d = 0; d < rank; d++) {
        for (uint32_t i = 0; i < rank; i++) {
            if (order.data[i] == from[d])
                position[d] = i;
        }
    }
    return position;
}

static bool same_positions(const uint32_t *x, const uint32_t *y, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (x[d] != y[d])
            return false;
    }
    return true;
}

/* The dimension of the fusion's result that each of the hero's is: transposed, and computed with element by
 * element. NULL: *why says why it is not. */
static const uint32_t *result_positions(Arena *a, const Instruction *fusion,
                                        const Instruction *hero, const char **why)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t rank = hero->shape->rank, *own = ARENA_ARRAY(a, uint32_t, rank + 1);
    const uint32_t **positions =
        ARENA_ARRAY(a, const uint32_t *, (size_t)comp->instruction_count + 1);
    for (uint32_t d = 0; d < rank; d++)
        own[d] = d;
    positions[hero->id] = own;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t i = 0; i < inst->operand_count; i++) {
            const uint32_t *from = positions[inst->operands[i]->id];
            if (from == NULL)
                continue;
            const uint32_t *to = moved(a, inst, inst->operands[i], from);
            const uint32_t *before = positions[inst->id];
            if (to == NULL || (before != NULL && !same_positions(before, to, rank))) {
                *why = "what follows its transform does more than transpose and compute "
                       "element by element";
                return NULL;
            }
            positions[inst->id] = to;
        }
    }
    if (positions[comp->root->id] == NULL)
        *why = "its result is not made of its transform";
    return positions[comp->root->id];
}

const char *illegal_fft(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const Instruction *hero = fusion_hero(f->fusion, OP_FFT);
    if (hero == NULL)
        return "it has more than one transform";
    if (!shape_is_array(f->fusion->shape) || shape_is_tuple(f->fusion->shape))
        return "it has several results";
    if (inst_ints(hero, ATTR_FFT_LENGTH).count != 1)
        return "its transform is of several dimensions";
    const char *why = body_illegal(f->fusion, hero);
    if (why == NULL)
        result_positions(f->arena, f->fusion, hero, &why);
    return why;
}

bool suits_fft(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* -- plan ------------------------------------------------------------------------------------ */

/* The fastest dimension in memory that has more than one element. */
static uint32_t fastest(const Shape *s)
{
    uint32_t i = 0;
    while (i + 1 < s->rank && s->dims[s->layout->minor_to_major[i]] == 1)
        i++;
    return (uint32_t)s->layout->minor_to_major[i];
}

/* The dimension of x along which what it is made of is contiguous: through transposes and what is computed by
 * element. */
static uint32_t fastest_read(Arena *a, const Instruction *x)
{
    uint32_t rank = x->shape->rank, *at = ARENA_ARRAY(a, uint32_t, rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        at[d] = d;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t i = 0; i < x->operand_count && !goes_on; i++) {
            const Instruction *operand = x->operands[i];
            if (x->op == OP_TRANSPOSE) {
                Ints order = inst_ints(x, ATTR_DIMENSIONS);
                for (uint32_t d = 0; d < rank; d++)
                    at[d] = (uint32_t)order.data[at[d]];
            } else if (!keeps_index(x, operand) || operand->op == OP_BROADCAST) {
                continue;
            }
            x = operand;
            goes_on = true;
        }
    }
    uint32_t minor = fastest(x->shape);
    for (uint32_t d = 0; d < rank; d++) {
        if (at[d] == minor)
            return d;
    }
    return rank - 1;
}

/* The hero's dimension that is contiguous in the result. */
static uint32_t fastest_written(const FftPlan *p, const Shape *result)
{
    uint32_t minor = fastest(result), last = p->inst->shape->rank - 1;
    for (uint32_t d = 0; d <= last; d++) {
        if (p->position[d] == minor)
            return d;
    }
    return last;
}

void plan_fft(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *inst = fusion_hero(d->fusion, OP_FFT);
    const Shape *in = inst->operands[0]->shape;
    FftPlan *p = ARENA_NEW(d->arena, FftPlan);
    const char *why = NULL;
    p->inst = inst;
    p->type = inst_int(inst, ATTR_FFT_TYPE, FFT_FFT);
    p->length = inst_ints(inst, ATTR_FFT_LENGTH).data[0];
    p->is_inverse = p->type == FFT_IFFT || p->type == FFT_IRFFT;
    p->position = result_positions(d->arena, d->fusion, inst, &why);
    d->plan.fft = p;
    bool is_wide = dtype_info[inst->shape->dtype].bits ==
                   (dtype_is_complex(inst->shape->dtype) ? 128 : 64);
    p->row = fft_row(p->type, p->length, is_wide ? DT_F64 : DT_F32, d->target);
    uint32_t last = in->rank - 1;
    p->rows = in->dims[last] == 0 ? 0 : shape_elements(in) / in->dims[last];
    if (p->row.passes == 0)
        d->unsupported = refuse_text(d, "%s: a transform of length %lld in one kernel",
                                     inst->name, (long long)p->length);
    else if (p->rows == 0)
        d->unsupported = refuse_text(d, "%s transforms no rows", inst->name);
    if (d->unsupported != NULL)
        return;
    uint32_t read = fastest_read(d->arena, inst->operands[0]),
             written = fastest_written(p, d->fusion->shape), n = 0;
    p->reads_along = read == last || in->dims[read] == 1;
    p->writes_along = written == last || in->dims[written] == 1;
    uint32_t first = !p->reads_along ? read : written;
    p->order = ARENA_ARRAY(d->arena, uint32_t, last + 1);
    if (first != last)
        p->order[n++] = first;
    for (uint32_t i = last; i-- > 0;) {
        if (i != first)
            p->order[n++] = i;
    }
}

/* -- numbers --------------------------------------------------------------------------------- */

static int64_t items_of_thread(const FftRow *row)
{
    int64_t most = 2;
    for (uint32_t i = 0; i < row->passes; i++)
        most = row->radix[i] > most ? row->radix[i] : most;
    return most < LEAST_ITEMS - 1 ? LEAST_ITEMS : most; /* 8 of sevens would be 14 */
}

static int64_t threads_of_row(const FftRow *row)
{
    return ceil_div(row->points, items_of_thread(row));
}

/* Numbers that a thread has at once: of all its transforms of a pass. */
static int64_t most_items(const FftRow *row)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < row->passes; i++) {
        int64_t radix = row->radix[i],
                items = ceil_div(row->points / radix, threads_of_row(row)) * radix;
        most = items > most ? items : most;
    }
    return most;
}

static bool is_along(const FftPlan *p)
{
    return p->reads_along && p->writes_along;
}

static int64_t registers_of_thread(const FftPlan *p)
{
    const FftRow *row = &p->row;
    return most_items(row) * row->bytes / 4 +
           (row->part == DT_F64 ? OTHER_WIDE_REGISTERS : OTHER_REGISTERS);
}

/* Blocks of so many threads that a multiprocessor has registers for. */
static int64_t blocks_by_registers(const FftPlan *p, int64_t threads)
{
    return TARGET_REGISTERS / (threads * registers_of_thread(p));
}

/* Rows of a block: so many that they are read by whole lines, or that it has enough threads; fewer where that
 * leaves multiprocessors idle, or where one block would take most of the registers. */
static int64_t rows_of_block(const KernelDesign *d, int64_t threads)
{
    const FftPlan *p = d->plan.fft;
    const FftRow *row = &p->row;
    int64_t least = is_along(p) ? 1 : SECTOR_BYTES / row->bytes;
    int64_t rows = is_along(p) ? 1 : LINE_BYTES / row->bytes;
    int64_t stride = fft_stride(row->points) * row->bytes;
    int64_t capacity = (int64_t)target_block_shared(d->target);
    while (rows * threads < FEW_THREADS)
        rows *= 2;
    while (rows > 1 && (rows * row->points * row->bytes > BLOCK_BYTES ||
                        rows * stride > capacity || rows / 2 >= p->rows))
        rows /= 2;
    while (rows > least && (p->rows / rows < target_multiprocessors(d->target) ||
                            blocks_by_registers(p, rows * threads) < 2))
        rows /= 2;
    return rows;
}

void configure_fft(const KernelDesign *d, KernelConfig *c)
{
    const FftRow *row = &d->plan.fft->row;
    int64_t threads = threads_of_row(row);
    if (config_lacks(c, KERNEL_KEY_ROWS))
        c->rows = rows_of_block(d, threads);
    if (config_lacks(c, KERNEL_KEY_BLOCK)) {
        int64_t all = ceil_div(c->rows * threads, TARGET_WARP) * TARGET_WARP;
        c->block = all < 1024 ? all : 1024;
    }
}

static uint64_t shared_of(const KernelDesign *d)
{
    const FftRow *row = &d->plan.fft->row;
    if (row->passes == 1 && !row->is_packed)
        return 0; /* nothing is exchanged */
    return (uint64_t)(d->config.rows * fft_stride(row->points)) * row->bytes;
}

const char *refuse_fft(const KernelDesign *d)
{
    const FftRow *row = &d->plan.fft->row;
    const char *wrong = block_refused(d);
    if (wrong == NULL)
        wrong = shared_refused(d, shared_of(d));
    int64_t least = d->config.rows * row->points * row->bytes / MOST_ITEM_BYTES;
    if (wrong == NULL && d->config.block < least)
        wrong = refuse_text(d, "\"rows\" %lld of %lld points need at least %lld threads",
                            (long long)d->config.rows, (long long)row->points,
                            (long long)least);
    return wrong;
}

void geometry_fft(KernelDesign *d)
{
    const FftPlan *p = d->plan.fft;
    int64_t resident = blocks_by_registers(p, d->config.block);
    geometry_blocks(d, ceil_div(p->rows, d->config.rows), d->config.block, 1);
    if (resident > 1) /* one alone would leave too few threads: rather it spills */
        d->geometry.resident_blocks = (uint32_t)resident;
    if (shared_of(d) == 0)
        return;
    geometry_shared(&d->geometry, shared_of(d), p->row.bytes);
    d->geometry.has_barriers = true;
}
