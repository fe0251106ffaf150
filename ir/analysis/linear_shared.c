/* Tiles in shared memory: offsets, width of accesses, conflicts of banks, and layouts without them.
 *
 * Shared memory has 32 banks of 4 bytes. The lanes of a warp that access it at once - 32 of them, with more than
 * 4 bytes each as many as take 128 bytes - conflict if two of them want different words of one bank. The offset
 * of an element is made of bits of its vector, of its bank and of the rest (the segment): there is no conflict if
 * no two of those lanes differ in the segment only. */
#include <string.h>

#include "ir/analysis/linear_layout.h"
#include "ir/base/bug.h"

enum { BANKS = 32, BANK_BYTES = 4, BANK_BITS = 5, ROW_BITS = 128 /* of ldmatrix */ };

static uint32_t log2_of(uint32_t n)
{
    uint32_t bits = 0;
    while (n >> (bits + 1) != 0)
        bits++;
    return bits;
}

LinearMap linear_offsets(const LinearLayout *values, const LinearLayout *shared)
{
    LinearMap position = linear_map(shared), offset, element = linear_map(values);
    if (!linear_is_bijective(shared) || !map_invert(&position, &offset))
        bug("a layout of shared memory that is not one to one");
    return map_compose(&offset, &element);
}

/* Whether the lowest `bits` bits of the offset are those of the registers, and no others. */
static bool is_side_by_side(const LinearMap *offsets, uint32_t bits)
{
    uint32_t low = (UINT32_C(1) << bits) - 1;
    for (uint32_t i = 0; i < offsets->in_bits; i++) {
        uint32_t c = offsets->columns[i];
        if (i < bits ? c != UINT32_C(1) << i : (c & low) != 0)
            return false;
    }
    return true;
}

uint32_t linear_vector(const LinearLayout *values, const LinearMap *offsets)
{
    uint32_t bits = values->in[LINEAR_REGISTER];
    while (!is_side_by_side(offsets, bits))
        bits--;
    return UINT32_C(1) << bits;
}

/* How many lanes access shared memory at once, as bits. */
static uint32_t phase_bits(uint32_t access_bytes)
{
    return access_bytes <= BANK_BYTES ? BANK_BITS
                                      : log2_of(BANKS * BANK_BYTES / access_bytes);
}

uint32_t linear_conflicts(const LinearLayout *values, const LinearMap *offsets,
                          uint32_t bits, uint32_t vector)
{
    uint32_t bytes = (vector * bits + 7) / 8, at_once = UINT32_C(1) << phase_bits(bytes);
    uint32_t first = linear_first(values, LINEAR_LANE),
             lanes = UINT32_C(1) << values->in[LINEAR_LANE], extra = 0;
    for (uint32_t phase = 0; phase < lanes; phase += at_once) {
        uint64_t words[BANKS];
        uint32_t count = 0, most = 1, per_bank[BANKS] = {0};
        for (uint32_t lane = phase; lane < phase + at_once && lane < lanes; lane++) {
            uint64_t offset = map_apply(offsets, lane << first);
            uint64_t word = offset * bits / 8 / BANK_BYTES;
            bool is_new = true;
            for (uint32_t i = 0; i < count; i++)
                is_new &= words[i] != word;
            if (!is_new)
                continue;
            words[count++] = word;
            uint32_t here = ++per_bank[word % BANKS];
            most = here > most ? here : most;
        }
        extra += most - 1;
    }
    return extra;
}

/* -- swizzles ------------------------------------------------------------------------------------------------- */

/* A subspace, with the generators that it was made of. */
typedef struct Space {
    LinearBasis basis;
    uint32_t count;
    uint32_t generators[LINEAR_MOST_BITS];
} Space;

/* False: the space has it already. */
static bool space_add(Space *s, uint32_t value)
{
    if (basis_spans(&s->basis, value))
        return false;
    basis_add(&s->basis, value, 0);
    s->generators[s->count++] = value;
    return true;
}

/* A generator of `a` that neither `b` nor `vector` has; 0: there is none. */
static uint32_t space_other(const Space *a, const Space *b, const Space *vector)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (!basis_spans(&b->basis, a->generators[i]) &&
            !basis_spans(&vector->basis, a->generators[i]))
            return a->generators[i];
    }
    return 0;
}

/* A value that neither `a` nor `b` has, made of others than those of `vector`, which stay as they are. 0: there is
 * none. */
static uint32_t outside(const Space *a, const Space *b, const Space *vector,
                        uint32_t bits)
{
    for (uint32_t i = 0; i < bits; i++) {
        uint32_t unit = UINT32_C(1) << i, other;
        bool in_a = basis_spans(&a->basis, unit), in_b = basis_spans(&b->basis, unit);
        if (basis_spans(&vector->basis, unit))
            continue;
        if (!in_a && !in_b)
            return unit;
        if (in_a == in_b)
            continue;
        other = in_a ? space_other(b, a, vector) : space_other(a, b, vector);
        if (other != 0)
            return unit ^ other;
    }
    return 0;
}

/* The first registers of an access, then what its lanes differ in that are done at once. */
static Space access_space(LinearAccess access, uint32_t bits)
{
    Space s = {.count = 0};
    const LinearLayout *l = access.layout;
    uint32_t first = linear_first(l, LINEAR_LANE),
             lanes = phase_bits(((bits << access.vector) + 7) / 8);
    for (uint32_t i = 0; i < access.vector; i++)
        space_add(&s, l->columns[i]);
    for (uint32_t i = 0; i < lanes && i < l->in[LINEAR_LANE]; i++)
        space_add(&s, l->columns[first + i]);
    return s;
}

/* Values that are in neither space, nor are sums of them. */
static Space choose_segment(const Space *write, const Space *read, const Space *vector,
                            uint32_t count, uint32_t bits)
{
    Space a = *write, b = *read, segment = {.count = 0};
    while (segment.count < count) {
        uint32_t value = outside(&a, &b, vector, bits);
        if (value == 0)
            break;
        space_add(&a, value);
        space_add(&b, value);
        space_add(&segment, value);
    }
    return segment;
}

/* Offsets count through a vector, then through what makes up the banks, then through the segment: what no two
 * lanes of an access may differ in. Where a vector has less than a bank's word, the word is filled with values
 * that no lanes differ in either: they would meet in the bank at different words. */
LinearLayout linear_swizzle(LinearAccess write, LinearAccess read, uint32_t bits)
{
    LinearAccess longer = write.vector >= read.vector ? write : read;
    uint32_t all = linear_out_bits(write.layout),
             row = log2_of(8 * BANKS * BANK_BYTES / bits),
             word = bits < 8 * BANK_BYTES ? log2_of(8 * BANK_BYTES / bits) : 0;
    Space a = access_space(write, bits), b = access_space(read, bits),
          order = {.count = 0};
    for (uint32_t i = 0; i < longer.vector; i++)
        space_add(&order, longer.layout->columns[i]);
    uint32_t within = order.count < word ? word - order.count : 0;
    for (uint32_t i = 0; i < order.count && i < word; i++) {
        space_add(&a, order.generators[i]);
        space_add(&b, order.generators[i]);
    }
    Space segment =
        choose_segment(&a, &b, &order, all > row ? all - row + within : within, all);
    Space apart = segment;
    for (uint32_t i = 0; i < within && i < segment.count; i++)
        space_add(&order, segment.generators[i]);
    for (uint32_t i = 0; i < order.count; i++)
        space_add(&apart, order.generators[i]);
    for (uint32_t i = 0; i < a.count; i++) {
        if (space_add(&apart, a.generators[i]))
            space_add(&order, a.generators[i]);
    }
    for (uint32_t i = 0; i < all; i++) {
        if (space_add(&apart, UINT32_C(1) << i))
            space_add(&order, UINT32_C(1) << i);
    }
    for (uint32_t i = 0; i < segment.count; i++)
        space_add(&order, segment.generators[i]);

    LinearLayout l = linear_none(write.layout->rank);
    memcpy(l.out, write.layout->out, sizeof l.out);
    l.in[LINEAR_OFFSET] = order.count;
    memcpy(l.columns, order.generators, order.count * sizeof *l.columns);
    return l;
}

/* -- ldmatrix and stmatrix --------------------------------------------------------------------------------- */

bool linear_matrix_rows(const LinearLayout *values, uint32_t bits, uint32_t matrices,
                        bool is_transposed, LinearLayout *out)
{
    /* of the bits of register and lane: those within a row, then those of its number */
    uint32_t word = log2_of(32 / bits), registers = values->in[LINEAR_REGISTER],
             lane = linear_first(values, LINEAR_LANE), first[LINEAR_MOST_BITS], count = 0;
    if (values->in[LINEAR_LANE] != BANK_BITS || registers < word + matrices ||
        bits > 32 || (is_transposed && bits != 16))
        return false;
    for (uint32_t i = 0; i < word && !is_transposed; i++)
        first[count++] = i;
    for (uint32_t i = 0; i < BANK_BITS; i++) {
        if (is_transposed && i == 3)
            first[count++] = 0;
        first[count++] = lane + (is_transposed ? (i + 2) % BANK_BITS : i);
    }
    LinearLayout l = *values;
    uint32_t in_row = log2_of(ROW_BITS / bits);
    for (uint32_t i = 0; i < matrices; i++)
        first[count++] = word + i;
    /* registers of an instruction's later executions follow those of the row */
    uint32_t later = registers - word - matrices, at = 0;
    l.in[LINEAR_REGISTER] = in_row + later;
    l.in[LINEAR_LANE] = count - in_row;
    for (uint32_t i = 0; i < in_row; i++)
        l.columns[at++] = values->columns[first[i]];
    for (uint32_t i = 0; i < later; i++)
        l.columns[at++] = values->columns[word + matrices + i];
    for (uint32_t i = in_row; i < count; i++)
        l.columns[at++] = values->columns[first[i]];
    *out = l;
    return true;
}
