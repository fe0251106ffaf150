/* One step of a radix sort: rows are sorted, stable, by a digit of 8 bits of a key. Blocks have tiles of a row; how
 * many elements of each digit stand in the tiles before, they tell each other while they run (Adinets and
 * Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022). A parameter that the sort does
 * not read says how often each digit comes in the row.
 *
 * Or that parameter says how often each digit comes in the ranges that the row is cut into; a block takes a range, tile
 * by tile, and waits for nobody (Merrill and Grimshaw, "High Performance and Scalable Radix Sorting", 2011). */
#include "ir/base/divide.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"

#define WORD_ACCESSES 12 /* of arrays of words: one, or two by ranges */
#define ACCESSES 8
#define MOST_BYTES (36 << 10)        /* of the tile of a block of RADIX_DIGITS threads */
#define MOST_SIZE (INT64_C(1) << 30) /* two bits of a count say what it is of */
#define RANGE_UNIT 32                /* elements: ranges begin at lines of memory */

static bool is_constant(const Instruction *inst, int64_t *out)
{
    if (inst->op != OP_CONSTANT || !shape_is_array(inst->shape) ||
        inst->shape->rank != 0 || inst->literal->elided)
        return false;
    *out = literal_int(inst->literal, 0);
    return true;
}

/* What a scalar was spread from. */
static const Instruction *spread_from(const Instruction *inst)
{
    return inst->op == OP_BROADCAST ? inst->operands[0] : inst;
}

/* key >> bits & 255: the bits; NULL: it is no digit. */
static const Instruction *bits_of(const Instruction *digit)
{
    int64_t mask;
    if (digit->op != OP_AND || digit->operands[0]->op != OP_SHIFT_RIGHT_LOGICAL ||
        !is_constant(spread_from(digit->operands[1]), &mask) || mask != RADIX_DIGITS - 1)
        return NULL;
    return digit->operands[0]->operands[1];
}

/* key >> (8 * step) & 255: the step; -1: the digit is none. */
static int64_t step_of(const Instruction *digit)
{
    const Instruction *by = bits_of(digit);
    int64_t bits;
    if (!dtype_is_unsigned(digit->shape->dtype) || by == NULL ||
        !is_constant(by, &bits) || bits < 0 || bits % RADIX_BITS != 0 ||
        bits >= dtype_info[digit->shape->dtype].bits)
        return -1;
    return bits / RADIX_BITS;
}

/* The last parameter, if nothing reads it. */
static const Instruction *unread(const Computation *comp)
{
    const Instruction *last =
        comp->parameter_count == 0 ? NULL : comp->parameters[comp->parameter_count - 1];
    for (const Instruction *i = inst_first(comp); i && last != NULL; i = inst_next(i)) {
        for (uint32_t k = 0; k < i->operand_count; k++) {
            if (i->operands[k] == last)
                return NULL;
        }
    }
    return last;
}

int64_t radix_range(int64_t size, int64_t ranges)
{
    int64_t least = ceil_div(size, ranges);
    return ceil_div(least, RANGE_UNIT) * RANGE_UNIT;
}

/* Counts of the row's digits for this step among others. */
static bool counts_rows(const Shape *counts, int64_t rows, int64_t step)
{
    int64_t of_step = rows * RADIX_DIGITS;
    return counts->rank == 1 && counts->dims[0] % of_step == 0 &&
           counts->dims[0] / of_step > step;
}

/* Counts by the rows' dimensions, digit, range. */
static bool counts_ranges(const Shape *counts, const Shape *s, int64_t along)
{
    uint32_t rank = s->rank + 1, next = 0;
    if (counts->rank != rank || rank < 2 || !shape_is_row_major(counts))
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != along && counts->dims[next++] != s->dims[i])
            return false;
    }
    int64_t ranges = counts->dims[rank - 1], size = s->dims[along];
    return counts->dims[rank - 2] == RADIX_DIGITS && ranges > 0 &&
           (ranges - 1) * radix_range(size, ranges) < size;
}

const char *illegal_radix_sort(FusionFacts *f, KernelKind kind)
{
    const Instruction *digit, *other;
    bool is_greater;
    const char *reason = hero_root_illegal(f->fusion, OP_SORT);
    (void)kind;
    if (reason != NULL)
        return reason;
    const Instruction *sort = fusion_hero(f->fusion, OP_SORT);
    if (sort_step(sort).run != 0 || !sort_compares(sort, &digit, &other, &is_greater) ||
        is_greater || step_of(digit) < 0)
        return "the comparator does not ask for a digit";
    const Shape *s = sort->operands[0]->shape;
    int64_t along = inst_ints(sort, ATTR_DIMENSIONS).data[0], size = s->dims[along];
    const Instruction *counts = unread(inst_called(f->fusion, 0));
    if (size == 0 || shape_elements(s) == 0 || size >= MOST_SIZE)
        return "a row is empty or too long";
    if (counts == NULL || counts->shape->dtype != DT_U32 ||
        (!counts_rows(counts->shape, shape_elements(s) / size, step_of(digit)) &&
         !counts_ranges(counts->shape, s, along)))
        return "the counts of digits are not at hand";
    return sort->operand_count > KERNEL_MOST_VALUES ? "too many arrays are sorted" : NULL;
}

bool suits_radix_sort(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

static uint32_t count_uses(const Instruction *inst)
{
    uint32_t uses = 0;
    for (const Instruction *i = inst_first(inst->parent); i; i = inst_next(i)) {
        for (uint32_t k = 0; k < i->operand_count; k++)
            uses += i->operands[k] == inst;
    }
    return uses;
}

bool radix_scalar(const Instruction *fusion, KernelScalar *out)
{
    const Instruction *sort = fusion_hero(fusion, OP_SORT), *digits[2];
    bool is_greater;
    *out = (KernelScalar){.count = 0};
    if (sort == NULL || !sort_compares(sort, &digits[0], &digits[1], &is_greater) ||
        step_of(digits[0]) < 0)
        return false;
    out->value = (uint64_t)(step_of(digits[0]) * RADIX_BITS);
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *bits = digits[i]->operands[0]->operands[1];
        if (count_uses(bits) == 1)
            out->constants[out->count++] = bits;
    }
    return true;
}

bool radix_count_scalar(const Instruction *fusion, KernelScalar *out)
{
    const Instruction *scatter = fusion_hero(fusion, OP_SCATTER);
    int64_t shift;
    *out = (KernelScalar){.count = 0};
    if (scatter == NULL || scatter->operand_count != 3 ||
        scatter->operands[0]->op != OP_BROADCAST)
        return false;
    const Instruction *digit = scatter->operands[1];
    while (digit->op == OP_RESHAPE || digit->op == OP_PAD || digit->op == OP_CONVERT)
        digit = digit->operands[0];
    const Instruction *by = bits_of(digit);
    if (by == NULL)
        return false;
    const Instruction *bits = spread_from(by);
    if (!is_constant(bits, &shift) || shift < 0 || bits == by || count_uses(bits) != 1)
        return false;
    *out = (KernelScalar){.constants = {bits}, .count = 1, .value = (uint64_t)shift};
    return true;
}

bool radix_is_key(const RadixPlan *p, uint32_t array)
{
    return (p->keys >> array & 1) != 0;
}

/* The arrays on which the digit depends, as bits. */
static uint64_t find_keys(const RadixPlan *p, Arena *a)
{
    const Computation *comp = inst_called(p->inst, 0);
    uint32_t count;
    Instruction **order = computation_post_order(comp, a, &count);
    bool *is_read = ARENA_ARRAY(a, bool, (size_t)comp->instruction_count + 1);
    uint64_t keys = 0;
    is_read[p->key->id] = true;
    instructions_mark_operands(order, count, is_read);
    for (uint32_t i = 0; i < 2 * p->count; i++)
        keys |= (uint64_t)is_read[comp->parameters[i]->id] << i / 2;
    return keys;
}

/* What a thread holds of the arrays, and what shared memory holds of them. */
static void measure_arrays(RadixPlan *p)
{
    p->live_words = 1; /* digit and rank */
    p->widest = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        unsigned bytes = shared_bytes(p->inst->operands[i]->shape->dtype);
        p->widest = bytes > p->widest ? bytes : p->widest;
        p->live_words += radix_is_key(p, i) ? (bytes + 3) / 4 : 0;
    }
}

void plan_radix_sort(KernelDesign *d, const FusionFacts *f)
{
    const Computation *comp = inst_called(d->fusion, 0);
    const Instruction *inst = fusion_hero(d->fusion, OP_SORT), *digit, *other;
    RadixPlan *p = ARENA_NEW(d->arena, RadixPlan);
    bool is_greater;
    (void)f;
    *p = (RadixPlan){.inst = inst,
                     .shape = inst->operands[0]->shape,
                     .along = inst_ints(inst, ATTR_DIMENSIONS).data[0],
                     .count = inst->operand_count,
                     .histogram = comp->parameter_count - 1};
    sort_compares(inst, &digit, &other, &is_greater);
    p->key = digit->operands[0]->operands[0];
    p->size = p->shape->dims[p->along];
    p->rows = shape_elements(p->shape) / p->size;
    const Shape *counts = comp->parameters[p->histogram]->shape;
    if (counts->rank == 1)
        p->steps = counts->dims[0] / (p->rows * RADIX_DIGITS);
    else
        p->ranges = counts->dims[counts->rank - 1];
    p->range = p->ranges != 0 ? radix_range(p->size, p->ranges) : 0;
    p->keys = find_keys(p, d->arena);
    measure_arrays(p);
    d->plan.radix = p;
}

/* Of shared memory: elements of an array, and what says which digits they have. */
static uint64_t tile_bytes(const RadixPlan *p, int64_t elements)
{
    return (uint64_t)elements * p->widest +
           (uint64_t)elements / TARGET_WARP * RADIX_CHUNK;
}

void radix_tiles(const KernelDesign *d, RadixTiles *out)
{
    const RadixPlan *p = d->plan.radix;
    out->elements = d->config.block * d->config.accesses;
    out->tiles = ceil_div(p->ranges != 0 ? p->range : p->size, out->elements);
    out->shared_bytes = tile_bytes(p, out->elements);
}

/* Of shared memory, beside the elements. */
static uint64_t count_bytes(int64_t block)
{
    uint64_t warps = (uint64_t)block / TARGET_WARP;
    return 4 * RADIX_DIGITS * (warps + 2) + 2 * 4 * warps + 4;
}

/* Accesses of a thread, of each array. */
static int64_t choose_accesses(const RadixPlan *p)
{
    bool is_few = p->count == 1 || (p->count == 2 && p->ranges != 0);
    int64_t n = is_few && p->widest <= 4 ? WORD_ACCESSES : ACCESSES;
    while (n > 1 && (tile_bytes(p, RADIX_DIGITS * n) > MOST_BYTES ||
                     p->live_words * n > RADIX_LIVE_WORDS ||
                     (int64_t)p->count * n > KERNEL_MOST_VALUES))
        n /= 2;
    return n;
}

/* All ranges at one time, with as many threads as a multiprocessor has registers for: the fewer ranges, the larger are
 * tiles, and what they store of a digit. */
static int64_t choose_block(const KernelDesign *d)
{
    const RadixPlan *p = d->plan.radix;
    int64_t block = RADIX_DIGITS, ranges = p->rows * p->ranges,
            accesses = choose_accesses(p);
    if (p->ranges == 0 || d->target == NULL)
        return block;
    int64_t threads = (int64_t)target_multiprocessors(d->target) * RADIX_THREADS;
    uint64_t shared = d->target->device->multiprocessor_shared;
    for (int64_t next = 2 * block; next <= RADIX_THREADS; next *= 2) {
        uint64_t all =
            tile_bytes(p, next * accesses) + count_bytes(next) + TARGET_RESERVED_SHARED;
        if (next * ranges > threads || p->range < next * accesses ||
            all * (uint64_t)(RADIX_THREADS / next) > shared)
            break;
        block = next;
    }
    return block;
}

/* Of tiles of equal sizes. */
static int64_t even_accesses(const RadixPlan *p, int64_t block, int64_t most)
{
    int64_t tiles = p->ranges != 0 ? ceil_div(p->range, block * most) : 0;
    return tiles != 0 ? ceil_div(p->range, tiles * block) : most;
}

static double seconds_of(const KernelDesign *d, const KernelConfig *c, int64_t accesses)
{
    KernelWork work;
    KernelDesign trial = *d;
    trial.arena = arena_scratch();
    trial.config = *c;
    trial.config.accesses = accesses;
    geometry_radix_sort(&trial);
    work_radix_sort(&trial, &work);
    arena_destroy(trial.arena);
    return kernel_time(&work, d->target->device).seconds;
}

void configure_radix_sort(const KernelDesign *d, KernelConfig *c)
{
    const RadixPlan *p = d->plan.radix;
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = choose_block(d);
    if (!config_lacks(c, KERNEL_KEY_ACCESSES))
        return;
    c->accesses = choose_accesses(p);
    while (c->accesses > 1 && c->block > RADIX_DIGITS &&
           tile_bytes(p, c->block * c->accesses) + count_bytes(c->block) >
               target_block_shared(d->target))
        c->accesses /= 2;
    c->accesses = even_accesses(p, c->block, c->accesses);
    if (p->ranges == 0 || p->count == 1 || c->accesses <= ACCESSES || d->target == NULL)
        return;
    /* longer runs of digits, but more to hold for L2 */
    int64_t fewer = even_accesses(p, c->block, ACCESSES);
    if (seconds_of(d, c, fewer) < seconds_of(d, c, c->accesses))
        c->accesses = fewer;
}

const char *refuse_radix_sort(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    RadixTiles t;
    radix_tiles(d, &t);
    if (c->block % RADIX_DIGITS != 0)
        return refuse_text(
            d, "\"block\" must be a multiple of %d, a thread for each digit, found %lld",
            RADIX_DIGITS, (long long)c->block);
    if ((int64_t)d->plan.radix->count * c->accesses > KERNEL_MOST_VALUES)
        return refuse_text(d, "\"accesses\" %lld of %u arrays are more than %d values",
                           (long long)c->accesses, d->plan.radix->count,
                           KERNEL_MOST_VALUES);
    return shared_refused(d, t.shared_bytes + count_bytes(c->block));
}

void geometry_radix_sort(KernelDesign *d)
{
    const RadixPlan *p = d->plan.radix;
    KernelGeometry *g = &d->geometry;
    RadixTiles t;
    radix_tiles(d, &t);
    geometry_blocks(d, p->rows * (p->ranges != 0 ? p->ranges : t.tiles), d->config.block,
                    1);
    geometry_shared(g, (uint64_t)t.elements * p->widest, p->widest);
    geometry_shared(g, (uint64_t)t.elements / TARGET_WARP * RADIX_CHUNK, RADIX_CHUNK);
    uint64_t warps = (uint64_t)d->config.block / TARGET_WARP;
    geometry_shared(g, 4 * RADIX_DIGITS * warps, 4); /* counts of the warps */
    geometry_shared(g, 4 * RADIX_DIGITS, 4);         /* where digits begin in the tile */
    geometry_shared(g, 4 * RADIX_DIGITS, 4); /* how much further on they do in the row */
    geometry_shared(g, 2 * 4 * warps, 4);
    g->has_barriers = true;
    if (p->ranges != 0)
        return;
    geometry_shared(g, 4, 4); /* the ticket */
    g->scratch_bytes = 128 + 4 * RADIX_DIGITS * (uint64_t)(p->rows * t.tiles);
    g->cleared_bytes = g->scratch_bytes;
}
