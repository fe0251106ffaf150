/* Linear layouts: every operation is compared with its definition, over all maps of a few bits or all inputs
 * of random ones; swizzles and ldmatrix with the machine's rules, address by address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/analysis/linear_layout.h"

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state =
        random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static LinearLayout parse(const char *text, const char *dims)
{
    LinearLayout l;
    if (!linear_parse(text, dims, &l))
        fail_msg("not a layout: %s", text);
    return l;
}

/* A layout of the given sizes; with `is_whole`, one that has every element. */
static LinearLayout random_layout(const uint32_t *in, uint32_t out0, uint32_t out1,
                                  bool is_whole)
{
    LinearLayout l = linear_none(2);
    memcpy(l.in, in, sizeof l.in);
    l.out[0] = out0;
    l.out[1] = out1;
    do {
        for (uint32_t i = 0; i < linear_in_bits(&l); i++)
            l.columns[i] = random_below(UINT32_C(1) << (out0 + out1));
    } while (is_whole && !linear_is_surjective(&l));
    return l;
}

/* -- products --------------------------------------------------------------------------------------------- */

static uint32_t input_of(const LinearLayout *l, uint32_t packed, uint32_t input)
{
    return packed >> linear_first(l, (LinearInput)input) &
           ((UINT32_C(1) << l->in[input]) - 1);
}

static void check_product(const LinearLayout *a, const LinearLayout *b,
                          const LinearLayout *p)
{
    for (uint32_t x = 0; x < UINT32_C(1) << linear_in_bits(p); x++) {
        uint32_t low = 0, high = 0;
        for (uint32_t i = 0; i < LINEAR_INPUTS; i++) {
            uint32_t value = input_of(p, x, i);
            low |= (value & ((UINT32_C(1) << a->in[i]) - 1))
                   << linear_first(a, (LinearInput)i);
            high |= value >> a->in[i] << linear_first(b, (LinearInput)i);
        }
        low = linear_apply(a, low);
        high = linear_apply(b, high);
        for (uint32_t d = 0; d < p->rank; d++)
            assert_int_equal(linear_coordinate(p, linear_apply(p, x), d),
                             linear_coordinate(a, low, d) | linear_coordinate(b, high, d)
                                                                << a->out[d]);
    }
}

static void product_is_inner_below_outer(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 500; n++) {
        uint32_t in_a[] = {random_below(3), random_below(3), random_below(2),
                           random_below(2)};
        uint32_t in_b[] = {random_below(3), random_below(2), random_below(2), 0};
        LinearLayout a = random_layout(in_a, random_below(3), random_below(3), false);
        LinearLayout b = random_layout(in_b, random_below(3), random_below(3), false);
        LinearLayout p = linear_product(&a, &b), rest;
        check_product(&a, &b, &p);
        assert_true(linear_left_divide(&p, &a, &rest));
        assert_true(linear_equal(&rest, &b));
    }
}

/* All maps of 3 to 3 bits by all of 1 to 1 and of 2 to 2: what divides is a product, what does not is none. */
static void division_is_the_inverse_of_products(void **state)
{
    (void)state;
    uint32_t divided[3] = {0};
    for (uint32_t matrix = 0; matrix < 512; matrix++) {
        LinearLayout l = linear_along(1, LINEAR_LANE, 0, 3);
        for (uint32_t i = 0; i < 3; i++)
            l.columns[i] = matrix >> 3 * i & 7;
        for (uint32_t bits = 1; bits <= 2; bits++) {
            for (uint32_t small = 0; small < UINT32_C(1) << bits * bits; small++) {
                LinearLayout inner = linear_along(1, LINEAR_LANE, 0, bits), rest;
                LinearLayout outer = linear_along(1, LINEAR_LANE, 0, 3 - bits);
                for (uint32_t i = 0; i < bits; i++)
                    inner.columns[i] = small >> bits * i & ((UINT32_C(1) << bits) - 1);
                bool is_product = false, divides = linear_left_divide(&l, &inner, &rest);
                for (uint32_t big = 0; big < UINT32_C(1) << (3 - bits) * (3 - bits);
                     big++) {
                    for (uint32_t i = 0; i < 3 - bits; i++)
                        outer.columns[i] =
                            big >> (3 - bits) * i & ((UINT32_C(1) << (3 - bits)) - 1);
                    LinearLayout p = linear_product(&inner, &outer);
                    if (!linear_equal(&p, &l))
                        continue;
                    is_product = true;
                    assert_true(divides && linear_equal(&rest, &outer));
                }
                assert_int_equal(divides, is_product);
                divided[bits] += divides;
            }
        }
    }
    assert_int_equal(divided[1], 2 * 16);
    assert_int_equal(divided[2], 16 * 2);
}

static void without_a_dimension_the_others_stay(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 200; n++) {
        uint32_t in[] = {2, 3, 1, 0};
        LinearLayout l = random_layout(in, 1 + random_below(3), random_below(4), false);
        for (uint32_t d = 0; d < 2; d++) {
            LinearLayout w = linear_without(&l, d);
            assert_int_equal(w.out[d], 0);
            for (uint32_t x = 0; x < 64; x++)
                assert_int_equal(linear_coordinate(&w, linear_apply(&w, x), 1 - d),
                                 linear_coordinate(&l, linear_apply(&l, x), 1 - d));
            LinearLayout kept = linear_projected(&l, UINT32_C(1) << (1 - d)),
                         all = linear_projected(&l, 3),
                         none = linear_projected(&w, UINT32_C(1) << d);
            assert_true(linear_equal(&kept, &w));
            assert_true(linear_equal(&all, &l));
            assert_int_equal(linear_out_bits(&none), 0);
        }
    }
}

/* -- maps ------------------------------------------------------------------------------------------------- */

static void check_inverse(const LinearMap *m, uint32_t *invertible)
{
    LinearMap inverse;
    uint32_t seen = 0, values = UINT32_C(1) << m->out_bits;
    uint64_t has = 0;
    for (uint32_t x = 0; x < UINT32_C(1) << m->in_bits; x++)
        has |= UINT64_C(1) << map_apply(m, x);
    for (uint32_t v = 0; v < values; v++)
        seen += (has >> v & 1) != 0;
    assert_int_equal(seen, UINT32_C(1) << map_rank(m));
    bool ok = map_invert(m, &inverse);
    assert_int_equal(ok, seen == values);
    if (!ok)
        return;
    ++*invertible;
    LinearMap same = map_compose(m, &inverse);
    for (uint32_t v = 0; v < values; v++) {
        assert_int_equal(map_apply(m, map_apply(&inverse, v)), v);
        assert_int_equal(map_apply(&same, v), v);
    }
}

static void inverses_of_all_maps(void **state)
{
    (void)state;
    uint32_t square = 0, wide = 0;
    for (uint32_t matrix = 0; matrix < 65536; matrix++) {
        LinearMap m = {4, 4, {0}};
        for (uint32_t i = 0; i < 4; i++)
            m.columns[i] = matrix >> 4 * i & 15;
        check_inverse(&m, &square);
    }
    assert_int_equal(square, 20160); /* (16-1)(16-2)(16-4)(16-8) */
    for (uint32_t matrix = 0; matrix < 32768; matrix++) {
        LinearMap m = {5, 3, {0}};
        for (uint32_t i = 0; i < 5; i++)
            m.columns[i] = matrix >> 3 * i & 7;
        check_inverse(&m, &wide);
    }
    assert_int_equal(wide, 31 * 30 * 28); /* rows that are independent */
}

/* -- conversions ------------------------------------------------------------------------------------------ */

/* Whether each element of `to` is in `from` where only inputs below `free` bits of the packed ones differ. */
static bool stays_within(const LinearLayout *from, const LinearLayout *to, uint32_t free)
{
    for (uint32_t x = 0; x < UINT32_C(1) << linear_in_bits(to); x++) {
        bool found = false;
        for (uint32_t y = 0; y < UINT32_C(1) << free && !found; y++)
            found = linear_apply(from, x >> free << free | y) == linear_apply(to, x);
        if (!found)
            return false;
    }
    return true;
}

static void conversions_take_the_nearest(void **state)
{
    (void)state;
    uint32_t kinds[CONVERT_WARPS + 1] = {0};
    for (uint32_t n = 0; n < 4000; n++) {
        uint32_t in[] = {2, 2, 1, 0}, out0 = random_below(3), out1 = 1 + random_below(2);
        LinearLayout from = random_layout(in, out0, out1, true);
        LinearLayout to = n % 2 ? from : random_layout(in, out0, out1, false);
        if (n % 2) /* changed a little */
            to.columns[random_below(n % 4 == 1 ? 2 : 4)] = from.columns[random_below(4)];
        LinearConversion c = linear_convert(&from, &to);
        bool same = true;
        for (uint32_t x = 0; x < 32; x++) {
            assert_int_equal(linear_apply(&from, map_apply(&c.from, x)),
                             linear_apply(&to, x));
            same &= map_apply(&c.from, x) == x;
        }
        ConversionKind least = stays_within(&from, &to, 0)   ? CONVERT_NOTHING
                               : stays_within(&from, &to, 2) ? CONVERT_REGISTERS
                               : stays_within(&from, &to, 4) ? CONVERT_LANES
                                                             : CONVERT_WARPS;
        assert_int_equal(c.kind, least);
        assert_true(same == (c.kind == CONVERT_NOTHING));
        kinds[c.kind]++;
    }
    for (uint32_t i = 0; i <= CONVERT_WARPS; i++)
        assert_true(kinds[i] > 50);
}

/* What a product of tensor cores leaves is what the next one takes: attention needs no shuffle. */
static void accumulators_become_operands(void **state)
{
    (void)state;
    LinearLayout sums = parse("k0 m3 k3 | k1 k2 m0 m1 m2 | m4", "mk");
    LinearLayout operand = parse("k0 m3 k3 | k1 k2 m0 m1 m2 | m4", "mk");
    assert_int_equal(linear_convert(&sums, &operand).kind, CONVERT_NOTHING);
    LinearLayout turned = parse("k0 k3 m3 | k1 k2 m0 m1 m2 | m4", "mk");
    assert_int_equal(linear_convert(&sums, &turned).kind, CONVERT_REGISTERS);
}

/* -- shared memory ---------------------------------------------------------------------------------------- */

/* Times that a warp's access goes to the banks, beyond the least: all addresses, one by one. */
static uint32_t simulate_banks(const LinearLayout *l, const LinearMap *offsets,
                               uint32_t bits, uint32_t vector, uint32_t rest)
{
    uint32_t bytes = (vector * bits + 7) / 8, extra = 0;
    uint32_t group = bytes <= 4 ? 32 : 128 / bytes;
    for (uint32_t first = 0; first < UINT32_C(1) << l->in[LINEAR_LANE]; first += group) {
        uint32_t most = 0;
        for (uint32_t bank = 0; bank < 32; bank++) {
            uint64_t words[32];
            uint32_t count = 0;
            for (uint32_t i = 0; i < group * bytes; i++) {
                uint32_t lane = first + i / bytes;
                uint32_t in = lane << linear_first(l, LINEAR_LANE) | rest;
                uint64_t byte = (uint64_t)map_apply(offsets, in) * bits / 8 + i % bytes;
                bool is_new = byte / 4 % 32 == bank;
                for (uint32_t j = 0; j < count; j++)
                    is_new &= words[j] != byte / 4;
                if (is_new)
                    words[count++] = byte / 4;
            }
            most = count > most ? count : most;
        }
        extra += most - 1;
    }
    return extra;
}

/* A tile of rows of 2^columns elements, written as it comes from memory: vectors, lanes along the row, … */
static LinearLayout rows_of(uint32_t rows, uint32_t columns, uint32_t vector)
{
    vector = vector < columns ? vector : columns;
    LinearLayout l = linear_along(2, LINEAR_REGISTER, 1, vector);
    uint32_t across = columns - vector < 5 ? columns - vector : 5;
    uint32_t down = rows < 5 - across ? rows : 5 - across;
    LinearLayout part = linear_along(2, LINEAR_LANE, 1, across);
    l = linear_product(&l, &part);
    part = linear_along(2, LINEAR_LANE, 0, down);
    l = linear_product(&l, &part);
    part = linear_copies(2, LINEAR_LANE, 5 - across - down);
    l = linear_product(&l, &part);
    part = linear_along(2, LINEAR_REGISTER, 1, columns - vector - across);
    l = linear_product(&l, &part);
    part = linear_along(2, LINEAR_REGISTER, 0, rows - down);
    return linear_product(&l, &part);
}

static uint32_t swizzled_tiles;

/* Both accesses find their vectors side by side, and are free of conflicts. */
static void check_swizzle(LinearAccess write, LinearAccess read, uint32_t bits)
{
    LinearLayout shared = linear_swizzle(write, read, bits);
    const LinearAccess both[] = {write, read};
    assert_true(linear_is_bijective(&shared));
    for (uint32_t i = 0; i < 2; i++) {
        const LinearLayout *l = both[i].layout;
        LinearMap offsets = linear_offsets(l, &shared);
        uint32_t vector = UINT32_C(1) << both[i].vector;
        for (uint32_t x = 0; x < UINT32_C(1) << offsets.in_bits; x += 7)
            assert_int_equal(linear_apply(&shared, map_apply(&offsets, x)),
                             linear_apply(l, x));
        assert_true(linear_vector(l, &offsets) >= vector);
        uint32_t extra = linear_conflicts(l, &offsets, bits, vector);
        uint32_t registers = UINT32_C(1) << l->in[LINEAR_REGISTER];
        for (uint32_t r = 0; r < registers && r < 4 * vector; r += vector)
            assert_int_equal(simulate_banks(l, &offsets, bits, vector, r), extra);
        assert_int_equal(extra, 0);
        swizzled_tiles++;
    }
}

/* 8 rows of 16 bytes, as ldmatrix reads them. */
static LinearLayout matrix_rows(uint32_t rows, uint32_t columns, uint32_t vector)
{
    LinearLayout l = linear_along(2, LINEAR_REGISTER, 1, vector), part;
    part = linear_along(2, LINEAR_LANE, 0, 3);
    l = linear_product(&l, &part);
    part = linear_copies(2, LINEAR_LANE, 2);
    l = linear_product(&l, &part);
    part = linear_along(2, LINEAR_REGISTER, 1, columns - vector);
    l = linear_product(&l, &part);
    part = linear_along(2, LINEAR_REGISTER, 0, rows - 3);
    return linear_product(&l, &part);
}

static void swizzles_have_no_conflicts(void **state)
{
    (void)state;
    for (uint32_t log_bits = 3; log_bits <= 6; log_bits++) {
        uint32_t bits = UINT32_C(1) << log_bits, vector = 7 - log_bits;
        for (uint32_t rows = 3; rows <= 6; rows++) {
            for (uint32_t columns = vector; columns <= 7; columns++) {
                LinearLayout x = rows_of(rows, columns, vector),
                             y = matrix_rows(rows, columns, vector);
                LinearAccess write = {&x, vector}, read = {&y, vector};
                check_swizzle(write, read, bits);
                check_swizzle(read, write, bits);
                check_swizzle(write, write, bits);
            }
        }
    }
    assert_true(swizzled_tiles > 300);
}

/* A tile is turned: rows are written, in vectors of up to 4 bytes, columns are read, element by element. */
static void turned_tiles_have_no_conflicts(void **state)
{
    (void)state;
    for (uint32_t log_bits = 3; log_bits <= 6; log_bits++) {
        LinearLayout read = linear_along(2, LINEAR_LANE, 0, 5);
        LinearLayout part = linear_along(2, LINEAR_REGISTER, 0, 1);
        read = linear_product(&read, &part);
        part = linear_along(2, LINEAR_REGISTER, 1, 6);
        read = linear_product(&read, &part);
        for (uint32_t vector = 0; vector == 0 || vector + log_bits <= 5; vector++) {
            LinearLayout write = rows_of(6, 6, vector);
            check_swizzle((LinearAccess){&write, vector}, (LinearAccess){&read, 0},
                          UINT32_C(1) << log_bits);
            check_swizzle((LinearAccess){&read, 0}, (LinearAccess){&write, vector},
                          UINT32_C(1) << log_bits);
        }
    }
}

/* Sums of tensor cores, two side by side, become rows of 16 bytes; factors of 4 bytes are read one by one, of rows
 * that lie along what is not summed over. */
static void tensor_cores_have_no_conflicts(void **state)
{
    (void)state;
    LinearLayout sums = parse("k0 m3 k3 k4 k5 m4 m5 | k1 k2 m0 m1 m2 | m6 k6", "mk");
    for (uint32_t log_bits = 4; log_bits <= 5; log_bits++) {
        uint32_t bits = UINT32_C(1) << log_bits, vector = 7 - log_bits;
        LinearLayout rows = linear_spread(2, (const uint32_t[]){7, 7}, 1, vector, 5, 2);
        check_swizzle((LinearAccess){&sums, 1}, (LinearAccess){&rows, vector}, bits);
    }
    LinearLayout factor = parse("m3 k2 m4 m5 k3 k4 | k0 k1 m0 m1 m2 | m6", "mk");
    LinearLayout along = linear_spread(2, (const uint32_t[]){7, 5}, 0, 2, 5, 1);
    check_swizzle((LinearAccess){&along, 2}, (LinearAccess){&factor, 0}, 32);
}

static void spreads_cover_tiles(void **state)
{
    Arena *a = *state;
    LinearLayout l = linear_spread(2, (const uint32_t[]){4, 6}, 1, 3, 5, 2);
    assert_string_equal(linear_text(a, &l, "mk"), "k0 k1 k2 | k3 k4 k5 m0 m1 | m2 m3");
    l = linear_spread(2, (const uint32_t[]){2, 3}, 0, 1, 5, 1);
    assert_string_equal(linear_text(a, &l, "mk"), "m0 | m1 k0 k1 k2 0 | 0");
    l = linear_spread(2, (const uint32_t[]){7, 7}, 0, 2, 5, 1);
    assert_string_equal(linear_text(a, &l, "mk"),
                        "m0 m1 k1 k2 k3 k4 k5 k6 | m2 m3 m4 m5 m6 | k0");
    LinearLayout core = parse("n0 m3 | n1 n2 m0 m1 m2", "mn");
    l = linear_renamed(&core, (const uint32_t[]){2, 0}, 3);
    assert_string_equal(linear_text(a, &l, "abc"), "a0 c3 | a1 a2 c0 c1 c2 | -");
}

/* Rows or columns of a tile side by side. */
static LinearLayout plain_memory(const LinearLayout *like, uint32_t fastest)
{
    LinearLayout l = linear_along(2, LINEAR_OFFSET, fastest, like->out[fastest]);
    LinearLayout rest =
        linear_along(2, LINEAR_OFFSET, 1 - fastest, like->out[1 - fastest]);
    return linear_product(&l, &rest);
}

/* The offset of what an ldmatrix leaves in part `part` of word `matrix` of a lane: lane 8 j + i names the address of
 * row i of matrix j. */
static uint32_t matrix_element(const LinearLayout *rows, const LinearMap *offsets,
                               uint32_t registers, uint32_t lane, uint32_t matrix,
                               uint32_t part, uint32_t word, bool is_transposed)
{
    uint32_t row = is_transposed ? lane % 4 * 2 + part : lane / 4;
    uint32_t at = is_transposed ? lane / 4 : lane % 4 * word + part;
    uint32_t named = (8 * matrix + row) << linear_first(rows, LINEAR_LANE);
    return map_apply(offsets, registers | named) + at;
}

/* As many matrices at once as there can be, as bits. */
static uint32_t matrices_of(const LinearLayout *values, uint32_t bits)
{
    uint32_t registers = values->in[LINEAR_REGISTER];
    for (uint32_t word = 32 / bits; word > 1; word /= 2)
        registers--;
    return registers < 2 ? registers : 2;
}

/* The values of a fragment, fetched by ldmatrix from the rows that linear_matrix_rows names. */
static void check_matrix(const char *text, uint32_t bits, bool is_transposed, bool fits)
{
    LinearLayout values = parse(text, "mk"), rows;
    assert_true(linear_matrix_rows(&values, bits, matrices_of(&values, bits),
                                   is_transposed, &rows));
    LinearLayout memory = plain_memory(&values, is_transposed ? 0 : 1);
    LinearMap offsets = linear_offsets(&rows, &memory),
              wanted = linear_offsets(&values, &memory);
    assert_int_equal(linear_vector(&rows, &offsets) >= 128 / bits, fits);
    if (!fits)
        return;
    uint32_t word = 32 / bits, matrices = UINT32_C(1) << (rows.in[LINEAR_LANE] - 3);
    for (uint32_t r = 0; r < UINT32_C(1) << values.in[LINEAR_REGISTER]; r++) {
        uint32_t executions = r / (matrices * word);
        for (uint32_t lane = 0; lane < 32; lane++) {
            uint32_t got =
                matrix_element(&rows, &offsets, executions * (128 / bits), lane,
                               r / word % matrices, r % word, word, is_transposed);
            uint32_t in = r | lane << linear_first(&values, LINEAR_LANE);
            assert_int_equal(got, map_apply(&wanted, in));
        }
    }
}

static void matrices_are_loaded_as_fragments_need(void **state)
{
    (void)state;
    check_matrix("k0 m3 k3 | k1 k2 m0 m1 m2", 16, false, true); /* A of m16n8k16 */
    check_matrix("k0 m3 k3 m4 k4 | k1 k2 m0 m1 m2", 16, false, true);
    check_matrix("k0 k3 | k1 k2 m0 m1 m2", 16, false, true);      /* B, by columns */
    check_matrix("k0 k1 m3 k4 | k2 k3 m0 m1 m2", 8, false, true); /* A of m16n8k32 */
    check_matrix("m3 k2 | k0 k1 m0 m1 m2", 32, false, true);      /* A of m16n8k8 */
    check_matrix("k0 m3 k3 | k1 k2 m0 m1 m2", 16, true, true);    /* A by columns */
    check_matrix("k0 k3 m3 m4 | k1 k2 m0 m1 m2", 16, true, true);
    check_matrix("k0 m3 k3 | m0 m1 m2 k1 k2", 16, false, false);
    check_matrix("m0 m3 k3 | m1 m2 k0 k1 k2", 16, false, false);
    LinearLayout few = parse("k0 | k1 m0", "mk"), rows;
    assert_false(linear_matrix_rows(&few, 16, 0, false, &rows));
}

/* -- text ------------------------------------------------------------------------------------------------- */

static void text_comes_back(void **state)
{
    Arena *a = *state;
    static const char *const texts[] = {
        "k0 m3 k3 | k1 k2 m0 m1 m2 | -",
        "k0 | k1 0 m0 | m1 0",
        "- | - | - | k0 k1 m0+k1 m1+k0",
        "m0+k0 0 | - | m1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        LinearLayout l = parse(texts[i], "mk");
        assert_string_equal(linear_text(a, &l, "mk"), texts[i]);
    }
    static const char *const wrong[] = {"x0",  "m",    "m40",           "m0 n0",
                                        "m0+", "m0m1", "m0 | | | | k0", "m31 k31"};
    LinearLayout l;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(linear_parse(wrong[i], "mk", &l));
}

static int setup(void **state)
{
    *state = arena_create();
    return 0;
}

static int teardown(void **state)
{
    arena_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_is_inner_below_outer),
        cmocka_unit_test(division_is_the_inverse_of_products),
        cmocka_unit_test(without_a_dimension_the_others_stay),
        cmocka_unit_test(inverses_of_all_maps),
        cmocka_unit_test(conversions_take_the_nearest),
        cmocka_unit_test(accumulators_become_operands),
        cmocka_unit_test(swizzles_have_no_conflicts),
        cmocka_unit_test(turned_tiles_have_no_conflicts),
        cmocka_unit_test(tensor_cores_have_no_conflicts),
        cmocka_unit_test(spreads_cover_tiles),
        cmocka_unit_test(matrices_are_loaded_as_fragments_need),
        cmocka_unit_test(text_comes_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
