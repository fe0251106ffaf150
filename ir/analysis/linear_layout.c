/* The algebra of linear layouts: products, division, inverses, conversions. See linear_layout.h.
 *
 * All of it is elimination over F2 on columns of at most 32 bits. */
#include "ir/analysis/linear_layout.h"

#include <string.h>

#include "ir/base/bug.h"

/* -- sizes ------------------------------------------------------------------------------------------------ */

uint32_t linear_first(const LinearLayout *l, LinearInput input)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < (uint32_t)input; i++)
        first += l->in[i];
    return first;
}

uint32_t linear_in_bits(const LinearLayout *l)
{
    return linear_first(l, LINEAR_INPUTS);
}

uint32_t linear_shift(const LinearLayout *l, uint32_t dim)
{
    uint32_t shift = 0;
    for (uint32_t d = 0; d < dim; d++)
        shift += l->out[d];
    return shift;
}

uint32_t linear_out_bits(const LinearLayout *l)
{
    return linear_shift(l, l->rank);
}

static void check_sizes(const LinearLayout *l)
{
    if (linear_in_bits(l) > LINEAR_MOST_BITS || linear_out_bits(l) > LINEAR_MOST_BITS)
        bug("a linear layout of %u to %u bits", linear_in_bits(l), linear_out_bits(l));
}

uint32_t linear_coordinate(const LinearLayout *l, uint32_t packed, uint32_t dim)
{
    uint64_t mask = ((uint64_t)1 << l->out[dim]) - 1;
    return (uint32_t)((uint64_t)packed >> linear_shift(l, dim) & mask);
}

uint32_t linear_apply(const LinearLayout *l, uint32_t inputs)
{
    LinearMap m = linear_map(l);
    return map_apply(&m, inputs);
}

bool linear_equal(const LinearLayout *a, const LinearLayout *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool linear_is_surjective(const LinearLayout *l)
{
    LinearMap m = linear_map(l);
    return map_rank(&m) == m.out_bits;
}

bool linear_is_bijective(const LinearLayout *l)
{
    return linear_is_surjective(l) && linear_in_bits(l) == linear_out_bits(l);
}

/* -- making layouts --------------------------------------------------------------------------------------- */

LinearLayout linear_none(uint32_t rank)
{
    if (rank > LINEAR_MOST_RANK)
        bug("a linear layout of %u dimensions", rank);
    return (LinearLayout){.rank = rank};
}

LinearLayout linear_along(uint32_t rank, LinearInput input, uint32_t dim, uint32_t bits)
{
    LinearLayout l = linear_none(rank);
    l.in[input] = l.out[dim] = bits;
    check_sizes(&l);
    for (uint32_t i = 0; i < bits; i++)
        l.columns[i] = UINT32_C(1) << i;
    return l;
}

LinearLayout linear_copies(uint32_t rank, LinearInput input, uint32_t bits)
{
    LinearLayout l = linear_none(rank);
    l.in[input] = bits;
    check_sizes(&l);
    return l;
}

/* How coordinates of one layout become those of another: those of dimension d times 2^up[d]. */
typedef struct Repacking {
    uint32_t rank;
    uint32_t mask[LINEAR_MOST_RANK], from[LINEAR_MOST_RANK], to[LINEAR_MOST_RANK];
} Repacking;

static Repacking repacking(const LinearLayout *from, const LinearLayout *to,
                           const uint32_t *up)
{
    Repacking r = {.rank = from->rank};
    uint32_t first = 0, first_to = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        r.mask[d] = (uint32_t)((UINT64_C(1) << from->out[d]) - 1);
        r.from[d] = first;
        r.to[d] = first_to + (up ? up[d] : 0);
        first += from->out[d];
        first_to += to->out[d];
    }
    return r;
}

static uint32_t repack(const Repacking *r, uint32_t packed)
{
    uint64_t result = 0;
    for (uint32_t d = 0; d < r->rank; d++)
        result |= (uint64_t)((uint64_t)packed >> r->from[d] & r->mask[d]) << r->to[d];
    return (uint32_t)result;
}

LinearLayout linear_product(const LinearLayout *inner, const LinearLayout *outer)
{
    LinearLayout l = linear_none(inner->rank);
    if (inner->rank != outer->rank)
        bug("a product of linear layouts of %u and %u dimensions", inner->rank,
            outer->rank);
    for (uint32_t d = 0; d < l.rank; d++)
        l.out[d] = inner->out[d] + outer->out[d];
    for (uint32_t i = 0; i < LINEAR_INPUTS; i++)
        l.in[i] = inner->in[i] + outer->in[i];
    check_sizes(&l);
    Repacking low = repacking(inner, &l, NULL), high = repacking(outer, &l, inner->out);
    const uint32_t *inners = inner->columns, *outers = outer->columns;
    uint32_t *column = l.columns;
    for (uint32_t i = 0; i < LINEAR_INPUTS; i++) {
        for (uint32_t bit = 0; bit < inner->in[i]; bit++)
            *column++ = repack(&low, *inners++);
        for (uint32_t bit = 0; bit < outer->in[i]; bit++)
            *column++ = repack(&high, *outers++);
    }
    return l;
}

/* What is left of a column of `l` above `inner`, for `rest`; false: it is not all above it. */
static bool divide_column(const LinearLayout *l, uint32_t column,
                          const LinearLayout *inner, const LinearLayout *rest,
                          uint32_t *out)
{
    *out = 0;
    for (uint32_t d = 0; d < l->rank; d++) {
        uint32_t c = linear_coordinate(l, column, d), low = c >> inner->out[d];
        if (low << inner->out[d] != c)
            return false;
        *out |= low << linear_shift(rest, d);
    }
    return true;
}

bool linear_left_divide(const LinearLayout *l, const LinearLayout *inner,
                        LinearLayout *out)
{
    LinearLayout rest = linear_none(l->rank);
    if (l->rank != inner->rank)
        return false;
    for (uint32_t d = 0; d < l->rank; d++) {
        if (l->out[d] < inner->out[d])
            return false;
        rest.out[d] = l->out[d] - inner->out[d];
    }
    Repacking packing = repacking(inner, l, NULL);
    uint32_t *column = rest.columns;
    for (uint32_t i = 0; i < LINEAR_INPUTS; i++) {
        const uint32_t *all = l->columns + linear_first(l, (LinearInput)i);
        const uint32_t *low = inner->columns + linear_first(inner, (LinearInput)i);
        if (l->in[i] < inner->in[i])
            return false;
        rest.in[i] = l->in[i] - inner->in[i];
        for (uint32_t bit = 0; bit < inner->in[i]; bit++) {
            if (all[bit] != repack(&packing, low[bit]))
                return false;
        }
        for (uint32_t bit = inner->in[i]; bit < l->in[i]; bit++) {
            if (!divide_column(l, all[bit], inner, &rest, column++))
                return false;
        }
    }
    *out = rest;
    return true;
}

LinearLayout linear_renamed(const LinearLayout *l, const uint32_t *dims, uint32_t rank)
{
    LinearLayout out = linear_none(rank);
    memcpy(out.in, l->in, sizeof out.in);
    for (uint32_t d = 0; d < l->rank; d++)
        out.out[dims[d]] += l->out[d];
    for (uint32_t i = 0; i < linear_in_bits(l); i++)
        for (uint32_t d = 0; d < l->rank; d++)
            out.columns[i] |= linear_coordinate(l, l->columns[i], d)
                              << linear_shift(&out, dims[d]);
    return out;
}

/* Puts up to *left bits of `input` along dimension `dim`, of which *free bits are not given out. */
static void spread(LinearLayout *l, LinearInput input, uint32_t dim, uint32_t *free,
                   uint32_t *left)
{
    uint32_t bits = *free < *left ? *free : *left;
    LinearLayout part = linear_along(l->rank, input, dim, bits);
    *l = linear_product(l, &part);
    *free -= bits;
    *left -= bits;
}

LinearLayout linear_spread(uint32_t rank, const uint32_t *bits, uint32_t fast,
                           uint32_t vector, uint32_t lane_bits, uint32_t warp_bits)
{
    LinearLayout l = linear_none(rank);
    uint32_t free[LINEAR_MOST_RANK], all = LINEAR_MOST_BITS;
    memcpy(free, bits, rank * sizeof *free);
    spread(&l, LINEAR_REGISTER, fast, &free[fast], &vector);
    static const LinearInput inputs[] = {LINEAR_LANE, LINEAR_WARP};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t left = i == 0 ? lane_bits : warp_bits;
        spread(&l, inputs[i], fast, &free[fast], &left);
        for (uint32_t d = rank; d-- > 0;)
            spread(&l, inputs[i], d, &free[d], &left);
        LinearLayout copies = linear_copies(rank, inputs[i], left);
        l = linear_product(&l, &copies);
    }
    for (uint32_t d = rank; d-- > 0;)
        spread(&l, LINEAR_REGISTER, d, &free[d], &all);
    return l;
}

LinearLayout linear_without(const LinearLayout *l, uint32_t dim)
{
    LinearLayout out = *l;
    uint32_t shift = linear_shift(l, dim);
    uint64_t low = ((uint64_t)1 << shift) - 1;
    out.out[dim] = 0;
    for (uint32_t i = 0; i < linear_in_bits(l); i++) {
        uint64_t high = (uint64_t)l->columns[i] >> (shift + l->out[dim]);
        out.columns[i] = (uint32_t)((l->columns[i] & low) | high << shift);
    }
    return out;
}

LinearLayout linear_projected(const LinearLayout *l, uint32_t dims)
{
    LinearLayout out = *l;
    for (uint32_t d = 0; d < l->rank; d++) {
        if ((dims >> d & 1) == 0)
            out = linear_without(&out, d);
    }
    return out;
}

/* -- maps --------------------------------------------------------------------------------------------------- */

LinearMap linear_map(const LinearLayout *l)
{
    LinearMap m = {linear_in_bits(l), linear_out_bits(l), {0}};
    memcpy(m.columns, l->columns, m.in_bits * sizeof *m.columns);
    return m;
}

uint32_t map_apply(const LinearMap *m, uint32_t in)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < m->in_bits; i++)
        out ^= in >> i & 1 ? m->columns[i] : 0;
    return out;
}

LinearMap map_compose(const LinearMap *outer, const LinearMap *inner)
{
    LinearMap m = {inner->in_bits, outer->out_bits, {0}};
    if (outer->in_bits != inner->out_bits)
        bug("a linear map of %u bits after one to %u", outer->in_bits, inner->out_bits);
    for (uint32_t i = 0; i < inner->in_bits; i++)
        m.columns[i] = map_apply(outer, inner->columns[i]);
    return m;
}

uint32_t basis_reduce(const LinearBasis *b, uint32_t value, uint32_t *input)
{
    for (uint32_t bit = LINEAR_MOST_BITS; bit-- > 0;) {
        if ((value >> bit & 1) == 0 || b->values[bit] == 0)
            continue;
        value ^= b->values[bit];
        *input ^= b->inputs[bit];
    }
    return value;
}

bool basis_spans(const LinearBasis *b, uint32_t value)
{
    uint32_t input = 0;
    return basis_reduce(b, value, &input) == 0;
}

void basis_add(LinearBasis *b, uint32_t value, uint32_t input)
{
    value = basis_reduce(b, value, &input);
    for (uint32_t bit = LINEAR_MOST_BITS; bit-- > 0;) {
        if ((value >> bit & 1) == 0)
            continue;
        b->values[bit] = value;
        b->inputs[bit] = input;
        return;
    }
}

uint32_t map_rank(const LinearMap *m)
{
    LinearBasis b = {{0}, {0}};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < m->in_bits; i++)
        basis_add(&b, m->columns[i], 0);
    for (uint32_t i = 0; i < LINEAR_MOST_BITS; i++)
        rank += b.values[i] != 0;
    return rank;
}

bool map_invert(const LinearMap *m, LinearMap *out)
{
    LinearBasis b = {{0}, {0}};
    *out = (LinearMap){m->out_bits, m->in_bits, {0}};
    for (uint32_t i = 0; i < m->in_bits; i++)
        basis_add(&b, m->columns[i], UINT32_C(1) << i);
    for (uint32_t i = 0; i < m->out_bits; i++) {
        if (basis_reduce(&b, UINT32_C(1) << i, &out->columns[i]) != 0)
            return false;
    }
    return true;
}

/* -- conversions -------------------------------------------------------------------------------------------- */

/* The position in `l` of an element `value` away from the one at 0, if it can be had by changing `own` and inputs up
 * to `last` (registers are the nearest). */
static bool find_position(const LinearLayout *l, uint32_t value, uint32_t own,
                          LinearInput last, uint32_t *out)
{
    LinearBasis b = {{0}, {0}};
    *out = own;
    for (uint32_t i = 0; i < linear_first(l, last) + l->in[last]; i++)
        basis_add(&b, l->columns[i], UINT32_C(1) << i);
    return basis_reduce(&b, value ^ linear_apply(l, own), out) == 0;
}

static uint32_t nearest_position(const LinearLayout *l, uint32_t value, uint32_t own)
{
    uint32_t position;
    for (uint32_t last = LINEAR_REGISTER; last <= LINEAR_WARP; last++) {
        if (find_position(l, value, own, (LinearInput)last, &position))
            return position;
    }
    bug("a linear layout has no position for element %u", value);
}

/* The bits of an input among those of packed inputs. */
static uint32_t input_mask(const LinearLayout *l, LinearInput input)
{
    uint64_t mask = ((uint64_t)1 << l->in[input]) - 1;
    return (uint32_t)(mask << linear_first(l, input));
}

LinearConversion linear_convert(const LinearLayout *from, const LinearLayout *to)
{
    LinearConversion c = {CONVERT_NOTHING,
                          {linear_in_bits(to), linear_in_bits(from), {0}}};
    if (from->rank != to->rank || memcmp(from->out, to->out, sizeof to->out) != 0 ||
        from->in[LINEAR_LANE] != to->in[LINEAR_LANE] ||
        from->in[LINEAR_WARP] != to->in[LINEAR_WARP] || from->in[LINEAR_OFFSET] != 0 ||
        to->in[LINEAR_OFFSET] != 0)
        bug("linear layouts of different tiles, lanes or warps");
    uint32_t lanes = input_mask(from, LINEAR_LANE), warps = input_mask(from, LINEAR_WARP);
    for (uint32_t input = 0, i = 0; input <= LINEAR_WARP; input++) {
        for (uint32_t bit = 0; bit < to->in[input]; bit++, i++) {
            uint32_t own = linear_first(from, (LinearInput)input) + bit;
            uint32_t unit = bit < from->in[input] ? UINT32_C(1) << own : 0;
            uint32_t position = nearest_position(from, to->columns[i], unit);
            ConversionKind kind = ((position ^ unit) & warps) != 0   ? CONVERT_WARPS
                                  : ((position ^ unit) & lanes) != 0 ? CONVERT_LANES
                                  : position != unit                 ? CONVERT_REGISTERS
                                                                     : CONVERT_NOTHING;
            c.from.columns[i] = position;
            c.kind = kind > c.kind ? kind : c.kind;
        }
    }
    if (c.kind == CONVERT_NOTHING && from->in[LINEAR_REGISTER] != to->in[LINEAR_REGISTER])
        c.kind = CONVERT_REGISTERS;
    return c;
}

/* -- text ---------------------------------------------------------------------------------------------------- */

/* One bit of the text, like "m3+k0" or "0", as coordinates' bits: out[dimension]. NULL: it is none. */
static const char *parse_bit(const char *p, const char *dims, uint32_t *out)
{
    memset(out, 0, LINEAR_MOST_RANK * sizeof *out);
    if (*p == '0')
        return p + 1;
    for (;; p++) {
        const char *dim = *p ? strchr(dims, *p) : NULL;
        uint32_t number = 0;
        if (dim == NULL || p[1] < '0' || p[1] > '9')
            return NULL;
        for (p++; *p >= '0' && *p <= '9' && number < LINEAR_MOST_BITS; p++)
            number = number * 10 + (uint32_t)(*p - '0');
        if (number >= LINEAR_MOST_BITS)
            return NULL;
        out[dim - dims] ^= UINT32_C(1) << number;
        if (*p != '+')
            return p;
    }
}

bool linear_parse(const char *text, const char *dims, LinearLayout *out)
{
    uint32_t coordinates[LINEAR_MOST_BITS][LINEAR_MOST_RANK], count = 0, input = 0;
    LinearLayout l = linear_none((uint32_t)strlen(dims));
    for (const char *p = text; *p;) {
        if (*p == ' ' || *p == '-') {
            p++;
        } else if (*p == '|') {
            if (++input == LINEAR_INPUTS)
                return false;
            p++;
        } else {
            if (count == LINEAR_MOST_BITS)
                return false;
            p = parse_bit(p, dims, coordinates[count++]);
            l.in[input]++;
            if (p == NULL || (*p != 0 && *p != ' ' && *p != '|'))
                return false;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < l.rank; d++)
            while ((uint64_t)coordinates[i][d] >> l.out[d] != 0)
                l.out[d]++;
    if (linear_out_bits(&l) > LINEAR_MOST_BITS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < l.rank; d++)
            l.columns[i] |=
                (uint32_t)((uint64_t)coordinates[i][d] << linear_shift(&l, d));
    *out = l;
    return true;
}

static const char *bit_text(Arena *a, const LinearLayout *l, uint32_t column,
                            const char *dims)
{
    const char *text = "";
    for (uint32_t d = 0; d < l->rank; d++) {
        uint32_t c = linear_coordinate(l, column, d);
        for (uint32_t bit = 0; bit < l->out[d]; bit++) {
            if (c >> bit & 1)
                text = arena_printf(a, "%s%s%c%u", text, *text ? "+" : "", dims[d], bit);
        }
    }
    return *text ? text : "0";
}

const char *linear_text(Arena *a, const LinearLayout *l, const char *dims)
{
    const char *text = "";
    uint32_t last = LINEAR_WARP, column = 0;
    if (l->in[LINEAR_OFFSET] != 0)
        last = LINEAR_OFFSET;
    for (uint32_t i = 0; i <= last; i++) {
        text = arena_printf(a, "%s%s", text, i == 0 ? "" : " | ");
        for (uint32_t bit = 0; bit < l->in[i]; bit++)
            text = arena_printf(a, "%s%s%s", text, bit == 0 ? "" : " ",
                                bit_text(a, l, l->columns[column++], dims));
        if (l->in[i] == 0)
            text = arena_printf(a, "%s-", text);
    }
    return text;
}
