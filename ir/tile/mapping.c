/* See mapping.h. */
#include "ir/tile/mapping_parts.h"

#include <string.h>

enum {
    MOST_HELD = 40, /* words of a factor that a thread holds */
    MOST_HELD_VECTOR = 4,
    LANE_BITS = 5,
    WARPGROUP_LEAST_COLUMNS = 64 /* of wgmma: fewer are not worth reading 64 rows for */
};

/* -- what lies side by side -------------------------------------------------------------------- */

bool tile_is_vector(const TileProgram *p, const TileOp *op, uint32_t dim, uint32_t vector)
{
    IndexContext *ix = p->ix;
    int64_t size = INT64_C(1) << vector, extent = p->dims[dim].extent, stride;
    const IndexExpr *at[64], *lane = ix_symbol(ix, 0, (Range){0, size - 1}),
                             *many = ix_dim(ix, dim, (Range){0, extent / size - 1});
    const IndexExpr *position = ix_add(ix, ix_mul(ix, many, size), lane);
    if (extent % size != 0 || op->shape->rank > sizeof at / sizeof *at)
        return false;
    for (uint32_t i = op->kind == TILE_STORE; i < op->operand_count; i++) {
        if (op->operands[i]->dims >> dim & 1)
            return false;
    }
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        const IndexExpr *e =
            ix_replace(ix, op->constraints[i].expr, IX_DIM, dim, position);
        if (ix_depends(e, IX_SYMBOL, 0))
            return false;
    }
    for (uint32_t i = 0; i < op->shape->rank; i++)
        at[i] = ix_replace(ix, op->index[i], IX_DIM, dim, position);
    const IndexExpr *linear = index_linear(ix, op->shape, at);
    if (vector == 0)
        return true;
    if (!ix_stride(linear, IX_SYMBOL, 0, &stride) || stride != 1)
        return false;
    return ix_is_multiple(ix_replace(ix, linear, IX_SYMBOL, 0, ix_const(ix, 0)), size);
}

uint32_t tile_same_run(const TileProgram *p, const TileOp *op, uint32_t dim,
                       uint32_t most)
{
    IndexContext *ix = p->ix;
    int64_t extent = p->dims[dim].extent;
    for (uint32_t i = op->kind == TILE_STORE; i < op->operand_count; i++) {
        if (op->operands[i]->dims >> dim & 1)
            return 0;
    }
    for (; most != 0; most--) {
        int64_t size = INT64_C(1) << most;
        const IndexExpr *lane = ix_symbol(ix, 0, (Range){0, size - 1}),
                        *many = ix_dim(ix, dim, (Range){0, extent / size - 1}), *position;
        bool depends = extent % size != 0;
        position = ix_add(ix, ix_mul(ix, many, size), lane);
        for (uint32_t i = 0; i < op->constraint_count && !depends; i++)
            depends =
                ix_depends(ix_replace(ix, op->constraints[i].expr, IX_DIM, dim, position),
                           IX_SYMBOL, 0);
        for (uint32_t i = 0; i < op->shape->rank && !depends; i++)
            depends = ix_depends(ix_replace(ix, op->index[i], IX_DIM, dim, position),
                                 IX_SYMBOL, 0);
        if (!depends)
            break;
    }
    return most;
}

/* The longest such vector of at most 2^most; *dim is the dimension, the first of `dims` where none is better. */
static uint32_t longest_vector(const TileProgram *p, const TileOp *op,
                               const uint32_t *dims, uint32_t count, uint32_t most,
                               uint32_t *dim)
{
    uint32_t best = 0;
    *dim = dims[0];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t vector = most, size = tile_log2(p->dims[dims[i]].size);
        vector = vector < size ? vector : size;
        while (vector > best && !tile_is_vector(p, op, dims[i], vector))
            vector--;
        if (vector > best) {
            best = vector;
            *dim = dims[i];
        }
    }
    return best;
}

/* -- the instruction and its fragments --------------------------------------------------------- */

static LinearLayout times(LinearLayout inner, LinearLayout outer)
{
    return linear_product(&inner, &outer);
}

static LinearLayout along(const TileMapping *m, LinearInput input, uint32_t dim,
                          uint32_t bits)
{
    return linear_along(m->program->dim_count, input, dim, bits);
}

static LinearLayout copies(const TileMapping *m, uint32_t bits)
{
    return linear_copies(m->program->dim_count, LINEAR_WARP, bits);
}

/* Instructions of a warp along a dimension, as bits. */
static uint32_t repeats(const TileMapping *m, uint32_t dim, uint32_t of_core,
                        uint32_t warps)
{
    return tile_log2(m->program->dims[dim].size / of_core / warps);
}

static LinearLayout core_layout(const TileMapping *m, TensorOperand operand)
{
    LinearLayout l = tensor_core_layout(m->core, operand);
    return linear_renamed(&l, (const uint32_t[]){m->row, m->column, m->term},
                          m->program->dim_count);
}

uint32_t tile_warps(const TileMapping *m)
{
    return m->warps[0] * m->warps[1] * m->slices;
}

uint32_t tile_core_steps(const TileMapping *m)
{
    return (uint32_t)m->program->dims[m->term].size / m->core->k / m->slices;
}

LinearLayout tile_read_layout(const TileFactor *f)
{
    return linear_projected(&f->fragment, f->value->dims);
}

void tile_lay_out(TileMapping *m)
{
    uint32_t rows = repeats(m, m->row, m->core->m, m->warps[0]),
             columns = repeats(m, m->column, m->core->n, m->warps[1]),
             terms = tile_log2(tile_core_steps(m));
    uint32_t row_warps = tile_log2(m->warps[0]), column_warps = tile_log2(m->warps[1]),
             slices = tile_log2(m->slices), group = m->by_warpgroup ? WARPGROUP_LOG2 : 0;
    LinearLayout c = core_layout(m, TENSOR_C), a = core_layout(m, TENSOR_A),
                 b = core_layout(m, TENSOR_B);
    c = times(c, along(m, LINEAR_REGISTER, m->column, columns));
    c = times(c, along(m, LINEAR_WARP, m->row, group));
    c = times(c, along(m, LINEAR_REGISTER, m->row, rows));
    c = times(c, along(m, LINEAR_WARP, m->row, row_warps - group));
    c = times(c, along(m, LINEAR_WARP, m->column, column_warps));
    m->partial = times(c, copies(m, slices));
    m->sums = m->partial;
    a = times(a, along(m, LINEAR_WARP, m->row, group));
    a = times(a, along(m, LINEAR_REGISTER, m->row, rows));
    a = times(a, along(m, LINEAR_REGISTER, m->term, terms));
    a = times(a, along(m, LINEAR_WARP, m->row, row_warps - group));
    a = times(a, copies(m, column_warps));
    m->factors[0].fragment = times(a, along(m, LINEAR_WARP, m->term, slices));
    b = times(b, along(m, LINEAR_REGISTER, m->column, columns));
    b = times(b, along(m, LINEAR_REGISTER, m->term, terms));
    b = times(b, copies(m, row_warps));
    b = times(b, along(m, LINEAR_WARP, m->column, column_warps));
    m->factors[1].fragment = times(b, along(m, LINEAR_WARP, m->term, slices));
}

uint32_t tile_only_dim(uint32_t dims)
{
    return tile_log2(dims);
}

/* What a factor repeats along its side, as the vector of a vector times a matrix; else the factor. */
static TileOp *repeated_vector(TileOp *factor, uint32_t over)
{
    bool is_repeated =
        factor->kind == TILE_BROADCAST && (factor->operands[0]->dims & over) != 0;
    return is_repeated ? factor->operands[0] : factor;
}

bool tile_is_repeated(const TileMapping *m, const TileFactor *f)
{
    return (f->value->dims & ~m->dot->over) == 0;
}

/* Which of the program's sides is the instruction's rows. */
static void take_sides(TileMapping *m, const uint32_t *warps, uint32_t swap,
                       const Target *target)
{
    TileOp *const *factors = m->dot->operands;
    uint32_t over = m->dot->over;
    uint32_t y = tile_only_dim(factors[0]->dims & ~over),
             x = tile_only_dim(factors[1]->dims & ~over);
    m->term = tile_only_dim(over);
    m->row = swap ? x : y;
    m->column = swap ? y : x;
    m->factors[0] = (TileFactor){.value = repeated_vector(factors[swap], over)};
    m->factors[1] = (TileFactor){.value = repeated_vector(factors[1 - swap], over)};
    m->warps[0] = warps[swap];
    m->warps[1] = warps[1 - swap];
    m->core = tensor_core_find(m->factors[0].value->dtype, m->factors[1].value->dtype,
                               m->dot->dtype, target, UINT32_MAX);
}

/* The instruction, and its rows: it has at least 16, and 8 columns. */
static bool choose_core(TileMapping *m, const uint32_t *warps, const Target *target)
{
    const TileProgram *p = m->program;
    for (uint32_t swap = 0; swap < 2; swap++) {
        take_sides(m, warps, swap, target);
        if (m->core != NULL && p->dims[m->row].size >= m->core->m * m->warps[0] &&
            p->dims[m->column].size >= m->core->n * m->warps[1] &&
            p->dims[m->term].size >= (int64_t)m->core->k * m->slices)
            return true;
    }
    return false;
}

/* -- factors ----------------------------------------------------------------------------------- */

static bool has_all(const TileOp *load, uint32_t dims)
{
    return (load->dims & dims) == dims;
}

/* Of the loads over all dimensions of a value that of the widest type, which is most of its bytes, or of the narrowest. */
static const TileOp *find_load(const TileProgram *p, const TileOp *value, bool is_narrow)
{
    const TileOp **loads, *best = NULL;
    uint32_t count = tile_loads(p, value, &loads);
    for (uint32_t i = 0; i < count; i++) {
        if (has_all(loads[i], value->dims) &&
            (best == NULL || (is_narrow ? tile_bits(loads[i]) < tile_bits(best)
                                        : tile_bits(loads[i]) > tile_bits(best))))
            best = loads[i];
    }
    return best;
}

void tile_choose_way(TileMapping *m, TileFactor *f, const Target *target)
{
    const TileProgram *p = m->program;
    uint32_t other = tile_only_dim(f->value->dims & ~m->dot->over),
             dims[] = {m->term, other}, bits = tile_bits(f->value);
    uint32_t most = bits <= TILE_MOST_VECTOR ? tile_log2(TILE_MOST_VECTOR / bits) : 0;
    const TileOp *load = find_load(p, f->value, false);
    f->fast = m->term;
    if (load != NULL)
        f->vector =
            longest_vector(p, load, dims, tile_is_repeated(m, f) ? 1 : 2, most, &f->fast);
    f->is_copied = f->value->kind == TILE_LOAD && target_has(target, FEATURE_CP_ASYNC) &&
                   bits >= 8 && bits << f->vector >= 32;
}

/* -- factors of wgmma --------------------------------------------------------------------------- */

/* Both factors are copied in pieces of 16 bytes, 8 numbers. */
static bool is_warpgroup_factor(TileMapping *m, TileFactor *f, const Target *target)
{
    tile_choose_way(m, f, target);
    return f->is_copied && !tile_is_repeated(m, f) && tile_bits(f->value) == 16 &&
           f->vector == WARPGROUP_PIECE_LOG2;
}

/* Whether four warps along the rows can multiply together, either side being the rows; if not, the sides are to be taken
 * again. */
static bool choose_warpgroups(TileMapping *m, const uint32_t *warps, const Target *target)
{
    const TileProgram *p = m->program;
    if (!target_has(target, FEATURE_WARPGROUP) || m->slices != 1)
        return false;
    for (uint32_t swap = 0; swap < 2; swap++) {
        take_sides(m, warps, swap, target);
        int64_t columns = p->dims[m->column].size / m->warps[1];
        m->by_warpgroup =
            m->core != NULL && m->dot->dtype == DT_F32 &&
            m->warps[0] % WARPGROUP_WARPS == 0 &&
            p->dims[m->row].size >= WARPGROUP_ROWS * (m->warps[0] / WARPGROUP_WARPS) &&
            columns >= WARPGROUP_LEAST_COLUMNS && columns <= WARPGROUP_COLUMNS &&
            p->dims[m->term].size >= WARPGROUP_TERMS &&
            is_warpgroup_factor(m, &m->factors[0], target) &&
            is_warpgroup_factor(m, &m->factors[1], target);
        if (m->by_warpgroup)
            return true;
    }
    return false;
}

uint32_t tile_shared_align(const TileMapping *m)
{
    return m->by_warpgroup ? TILE_SWIZZLE_ALIGN : TILE_SHARED_ALIGN;
}

uint32_t tile_warpgroup_times(const TileMapping *m)
{
    return (uint32_t)m->program->dims[m->row].size / WARPGROUP_ROWS /
           (m->warps[0] / WARPGROUP_WARPS);
}

/* A wait counts what was begun, so each step begins as many. */
bool tile_steps_overlap(const TileMapping *m)
{
    enum { LEAST_STAGES = 3 /* read by two steps, filled */ };
    return m->by_warpgroup && m->stages >= LEAST_STAGES &&
           (tile_warpgroup_times(m) == 1 || !tile_is_grouped(m->program, m->row));
}

uint32_t tile_stages_ahead(const TileMapping *m)
{
    return m->stages - (tile_steps_overlap(m) ? 2 : 1);
}

uint32_t tile_warpgroup_step(const TileMapping *m, uint32_t dim)
{
    enum { STEPS = 8, LEAST = 16 }; /* each number of columns has its own instruction */
    uint32_t columns = (uint32_t)m->program->dims[m->column].size / m->warps[1];
    if (dim == m->row)
        return WARPGROUP_ROWS;
    return columns / STEPS < LEAST ? LEAST : columns / STEPS;
}

/* The next bits of dimension `dim`, of which *from have a position; `most` at most. */
static void spread_bits(const TileMapping *m, LinearLayout *l, LinearInput input,
                        uint32_t dim, uint32_t *from, uint32_t all, uint32_t *most)
{
    uint32_t bits = all - *from < *most ? all - *from : *most;
    *l = times(*l, along(m, input, dim, bits));
    *from += bits;
    *most -= bits;
}

/* Rows of up to 128 bytes, one below the other, whose pieces are xor'ed with the row's number as wgmma's swizzle of that
 * width has it, so that pieces of a row lie in different banks, and so do pieces of 8 rows above each other; what is
 * longer lies in several such columns. */
static void lay_out_lines(TileMapping *m, TileFactor *f, uint32_t slow)
{
    enum { ROWS_LOG2 = 3 /* of a matrix; pieces of the widest row */ };
    const TileDim *dims = m->program->dims;
    uint32_t all = tile_log2(dims[f->fast].size) - WARPGROUP_PIECE_LOG2,
             pieces = all < ROWS_LOG2 ? all : ROWS_LOG2,
             turned = WARPGROUP_PIECE_LOG2 + ROWS_LOG2; /* of an offset, by 128 bytes */
    LinearLayout l = along(m, LINEAR_OFFSET, f->fast, WARPGROUP_PIECE_LOG2 + pieces);
    l = times(l, along(m, LINEAR_OFFSET, slow, tile_log2(dims[slow].size)));
    l = times(l, along(m, LINEAR_OFFSET, f->fast, all - pieces));
    uint32_t piece = linear_shift(&l, f->fast) + WARPGROUP_PIECE_LOG2;
    for (uint32_t i = 0; i < pieces; i++)
        l.columns[turned + i] |= UINT32_C(1) << (piece + i);
    f->shared = l;
    f->line = pieces == 0 ? 0 : UINT32_C(16) << pieces;
}

/* Lanes that follow each other bring the pieces of a row: a whole line of device memory, which copies store at once where
 * its pieces meet in no bank. */
void tile_lay_out_warpgroup(TileMapping *m, TileFactor *f)
{
    const TileProgram *p = m->program;
    uint32_t fast = f->fast,
             slow = tile_only_dim(f->value->dims & ~(UINT32_C(1) << fast)),
             fast_bits = tile_log2(p->dims[fast].size),
             slow_bits = tile_log2(p->dims[slow].size), across = WARPGROUP_PIECE_LOG2,
             down = 0, lanes = WARPGROUP_PIECE_LOG2, warps = tile_log2(tile_warps(m)),
             most = LINEAR_MOST_BITS;
    lay_out_lines(m, f, slow);
    LinearLayout l = along(m, LINEAR_REGISTER, fast, WARPGROUP_PIECE_LOG2);
    spread_bits(m, &l, LINEAR_LANE, fast, &across, fast_bits, &lanes);
    lanes += LANE_BITS - WARPGROUP_PIECE_LOG2;
    spread_bits(m, &l, LINEAR_LANE, slow, &down, slow_bits, &lanes);
    spread_bits(m, &l, LINEAR_LANE, fast, &across, fast_bits, &lanes);
    spread_bits(m, &l, LINEAR_WARP, slow, &down, slow_bits, &warps);
    spread_bits(m, &l, LINEAR_WARP, fast, &across, fast_bits, &warps);
    l = times(l, copies(m, warps));
    spread_bits(m, &l, LINEAR_REGISTER, fast, &across, fast_bits, &most);
    spread_bits(m, &l, LINEAR_REGISTER, slow, &down, slow_bits, &most);
    f->copy = l;
    f->bytes = (uint64_t)tile_elements(p, f->value->dims) * tile_bits(f->value) / 8;
    f->is_transposed = fast != m->term;
}

void tile_lay_out_factor(TileMapping *m, TileFactor *f)
{
    const TileProgram *p = m->program;
    uint32_t bits = tile_bits(f->value), sizes[TILE_MOST_DIMS] = {0};
    uint32_t warp_bits = tile_log2(tile_warps(m));
    for (uint32_t d = 0; d < p->dim_count; d++)
        sizes[d] = f->value->dims >> d & 1 ? tile_log2(p->dims[d].size) : 0;
    f->copy =
        linear_spread(p->dim_count, sizes, f->fast, f->vector, LANE_BITS, warp_bits);
    f->bytes = (uint64_t)tile_elements(p, f->value->dims) * bits / 8;
    LinearAccess write = {&f->copy, f->vector};
    LinearLayout read = tile_read_layout(f), rows;
    f->is_transposed = f->fast != m->term;
    if (linear_matrix_rows(&read, bits, 0, f->is_transposed, &rows)) {
        uint32_t row = tile_log2(TILE_MOST_VECTOR / bits);
        f->shared = linear_swizzle(write, (LinearAccess){&rows, row}, bits);
        LinearMap offsets = linear_offsets(&rows, &f->shared);
        f->is_matrix = linear_vector(&rows, &offsets) >= UINT32_C(1) << row;
    }
    if (!f->is_matrix)
        f->shared = linear_swizzle(write, (LinearAccess){&read, 0}, bits);
}

/* -- factors that registers hold ---------------------------------------------------------------- */

/* Bits of a thread's elements that loads bring, of those that differ along the terms. */
static uint32_t loaded_bits(const TileMapping *m, const TileOp *value, uint32_t elements)
{
    const TileOp **loads;
    uint32_t sum = 0, terms = tile_log2(elements),
             count = tile_loads(m->program, value, &loads);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = tile_same_run(m->program, loads[i], m->term, terms);
        sum += loads[i]->depth == 0 ? 0 : (elements >> same) * tile_bits(loads[i]);
    }
    return sum;
}

/* A factor that is narrower in memory is read by the one warp that needs it, along its side; the other one is
 * copied, so that nothing else waits in registers. */
static bool can_hold(const TileMapping *m, uint32_t number)
{
    const TileFactor *f = &m->factors[number];
    const TileOp *load = find_load(m->program, f->value, true);
    uint32_t side = number == 0 ? m->row : m->column, dims[] = {m->term, side}, fast,
             elements = (uint32_t)(tile_elements(m->program, f->value->dims) /
                                   (tile_warps(m) * TARGET_WARP));
    return load != NULL && tile_bits(f->value) == 16 && tile_bits(load) < 16 &&
           m->factors[1 - number].is_copied && m->warps[1 - number] == 1 &&
           longest_vector(m->program, load, dims, 2, MOST_HELD_VECTOR, &fast) != 0 &&
           fast == side && loaded_bits(m, f->value, elements) / 32 <= MOST_HELD;
}

void tile_renumber(LinearLayout *l, uint32_t dim, const uint32_t *position)
{
    uint32_t shift = linear_shift(l, dim), all = (UINT32_C(1) << l->out[dim]) - 1;
    for (uint32_t i = 0; i < linear_in_bits(l); i++) {
        uint32_t from = linear_coordinate(l, l->columns[i], dim), to = 0;
        for (uint32_t bit = 0; bit < l->out[dim]; bit++)
            to |= (from >> bit & 1) << position[bit];
        l->columns[i] = (l->columns[i] & ~(all << shift)) | to << shift;
    }
}

/* Coordinates along the factor's side are renumbered so that those of a thread come first: they lie side by side in
 * memory. */
static void renumber_side(TileMapping *m, const LinearLayout *held, uint32_t dim)
{
    uint32_t position[LINEAR_MOST_BITS], next = 0, met = 0;
    for (uint32_t i = 0; i < linear_in_bits(held); i++) {
        uint32_t at = linear_coordinate(held, held->columns[i], dim);
        if ((at & ~met) != 0)
            position[tile_log2(at)] = next++;
        met |= at;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (m->factors[i].value->dims >> dim & 1)
            tile_renumber(&m->factors[i].fragment, dim, position);
    }
    tile_renumber(&m->partial, dim, position);
    m->sums = m->partial;
}

/* The fragment, with registers along the factor's side first. */
static LinearLayout held_layout(const LinearLayout *fragment, uint32_t dim,
                                uint32_t *along_side)
{
    LinearLayout l = *fragment;
    uint32_t n = 0;
    for (uint32_t is_along = 2; is_along-- > 0;) {
        for (uint32_t i = 0; i < l.in[LINEAR_REGISTER]; i++) {
            uint32_t column = fragment->columns[i];
            if ((linear_coordinate(fragment, column, dim) != 0) == is_along)
                l.columns[n++] = column;
        }
        if (is_along)
            *along_side = n;
    }
    return l;
}

static void hold_factor(TileMapping *m, uint32_t number)
{
    TileFactor *f = &m->factors[number];
    const TileOp *load = find_load(m->program, f->value, true);
    uint32_t dim = number == 0 ? m->row : m->column, own,
             most = tile_log2(TILE_MOST_VECTOR / tile_bits(load));
    f->is_held = true;
    renumber_side(m, &f->fragment, dim);
    f->copy = held_layout(&f->fragment, dim, &own);
    most = most < own ? most : own;
    most = most < MOST_HELD_VECTOR ? most : MOST_HELD_VECTOR;
    f->vector = longest_vector(m->program, load, &dim, 1, most, &f->fast);
}

/* -- slices ------------------------------------------------------------------------------------- */

/* Behind the loop each slice adds up what all of them have in its part of the registers, the highest bits of
 * their numbers; false: there are too few. */
static bool divide_sums(TileMapping *m)
{
    LinearLayout *l = &m->sums;
    uint32_t slices = tile_log2(m->slices), left = l->in[LINEAR_REGISTER] - slices,
             end = linear_in_bits(l), moved[LINEAR_MOST_BITS];
    if (l->in[LINEAR_REGISTER] < slices)
        return false;
    memcpy(moved, l->columns + left, slices * sizeof *moved);
    memmove(l->columns + left, l->columns + left + slices,
            (end - left - slices) * sizeof *moved);
    l->in[LINEAR_REGISTER] = left;
    end -=
        slices; /* the warps' last columns, which were copies, are behind those of the tile */
    memcpy(l->columns + end - slices, moved, slices * sizeof *moved);
    memset(l->columns + end, 0, slices * sizeof *moved);
    m->shared_bytes = m->slices == 1
                          ? 0
                          : (uint64_t)tile_warps(m) * TARGET_WARP *
                                (UINT32_C(1) << m->partial.in[LINEAR_REGISTER]) *
                                tile_bits(m->dot) / 8;
    return true;
}

/* -- results ----------------------------------------------------------------------------------- */

/* Whether a value is made of an array with an element for each of its own. */
static bool reads_all(const TileProgram *p, const TileOp *value, uint32_t dims)
{
    const TileOp **loads;
    uint32_t count = tile_loads(p, value, &loads);
    while (count > 0 && !has_all(loads[count - 1], dims))
        count--;
    return count > 0;
}

/* What becomes of the sums at once: a conversion that is their only use, else they themselves. */
static TileOp *converted_sums(const TileMapping *m)
{
    TileOp *user = NULL;
    const TileBlock *block = &m->program->body;
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = 0; j < block->ops[i]->operand_count; j++) {
            if (block->ops[i]->operands[j] != m->final)
                continue;
            if (user != NULL)
                return m->final;
            user = block->ops[i];
        }
    }
    bool is_conversion =
        user != NULL && user->kind == TILE_APPLY && user->inst->op == OP_CONVERT;
    return is_conversion && tile_bits(user) < tile_bits(m->final) ? user : m->final;
}

/* The registers that two layouts begin with alike. */
static uint32_t common_vector(const LinearLayout *a, const LinearLayout *b, uint32_t most)
{
    uint32_t bits = 0;
    while (bits < most && bits < a->in[LINEAR_REGISTER] &&
           bits < b->in[LINEAR_REGISTER] && a->columns[bits] == b->columns[bits])
        bits++;
    return bits;
}

void tile_lay_out_result(const TileMapping *m, TileResult *r, uint64_t most_shared)
{
    const TileProgram *p = m->program;
    const TileOp *value = r->store->operands[0];
    uint32_t dims[] = {m->column, m->row}, sizes[TILE_MOST_DIMS] = {0}, fast,
             bits = tile_bits(value), warp_bits = tile_log2(tile_warps(m));
    uint32_t most = bits < TILE_MOST_VECTOR ? tile_log2(TILE_MOST_VECTOR / bits) : 0;
    r->vector = longest_vector(p, r->store, dims, 2, most, &fast);
    sizes[m->row] = tile_log2(p->dims[m->row].size);
    sizes[m->column] = tile_log2(p->dims[m->column].size);
    uint32_t each = sizes[m->row] + sizes[m->column] - LANE_BITS - warp_bits;
    r->vector = r->vector < each ? r->vector : each;
    r->layout = linear_spread(p->dim_count, sizes, fast, r->vector, LANE_BITS, warp_bits);
    r->exchange = m->final != NULL && reads_all(m->program, value, value->dims)
                      ? converted_sums(m)
                      : r->store->operands[0];
    bits = tile_bits(r->exchange);
    r->bytes = (uint64_t)tile_elements(p, r->exchange->dims) * bits / 8;
    if (bits < 8 || r->bytes > most_shared) {
        r->exchange = NULL;
        r->layout = m->sums;
        r->vector = common_vector(&m->sums, &r->layout, 0);
        r->bytes = 0;
        return;
    }
    uint32_t both =
        common_vector(&m->sums, &r->layout, tile_log2(TILE_MOST_VECTOR / bits));
    r->shared = linear_swizzle((LinearAccess){&m->sums, both},
                               (LinearAccess){&r->layout, r->vector}, bits);
}

/* -- all together ------------------------------------------------------------------------------ */

/* The loop, its dot and the sums behind it; false: the program is another one. */
static bool find_parts(TileMapping *m)
{
    const TileBlock *block = &m->program->body;
    for (uint32_t i = 0; i < block->count; i++) {
        TileOp *op = block->ops[i];
        if (op->kind == TILE_LOOP && m->loop != NULL)
            return false;
        m->loop = op->kind == TILE_LOOP ? op : m->loop;
        m->final = op->kind == TILE_FINAL ? op : m->final;
        m->result_count += op->kind == TILE_STORE;
    }
    for (uint32_t i = 0; m->loop != NULL && i < m->loop->body.count; i++) {
        if (m->loop->body.ops[i]->kind == TILE_DOT)
            m->dot = m->loop->body.ops[i];
    }
    return m->dot != NULL && m->final != NULL;
}

static void lay_out_factors(TileMapping *m, const Target *target)
{
    for (uint32_t i = 0; i < 2 && m->by_warpgroup; i++)
        tile_lay_out_warpgroup(m, &m->factors[i]);
    if (m->by_warpgroup)
        return;
    for (uint32_t i = 0; i < 2; i++)
        tile_choose_way(m, &m->factors[i], target);
    for (uint32_t i = 0; i < 2; i++) {
        if (can_hold(m, i))
            hold_factor(m, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!m->factors[i].is_held)
            tile_lay_out_factor(m, &m->factors[i]);
    }
}

static void lay_out_stage(TileMapping *m)
{
    for (uint32_t i = 0; i < 2; i++) {
        TileFactor *f = &m->factors[i];
        if (f->is_held)
            continue;
        f->offset = m->stage_bytes;
        m->stage_bytes += tile_aligned(m, f->bytes);
    }
    if (m->shared_bytes < m->stages * m->stage_bytes)
        m->shared_bytes = m->stages * m->stage_bytes;
}

TileMapping *tile_map(Arena *a, const TileProgram *p, const uint32_t warps[3],
                      uint32_t stages, const Target *target, const char **why)
{
    TileMapping *m = ARENA_NEW(a, TileMapping);
    m->program = p;
    m->stages = stages;
    m->slices = warps[2];
    *why = "it is no loop of products";
    if (!find_parts(m))
        return NULL;
    *why = "the target has no tensor cores for these types, or the tile is too small";
    if (!choose_warpgroups(m, warps, target) && !choose_core(m, warps, target))
        return NULL;
    tile_lay_out(m);
    lay_out_factors(m, target);
    *why = "there are more slices than sums of a thread";
    if (!divide_sums(m))
        return NULL;
    lay_out_stage(m);
    uint64_t most = target->device->block_shared;
    m->results = ARENA_ARRAY(a, TileResult, m->result_count);
    for (uint32_t i = 0, n = 0; i < p->body.count; i++) {
        if (p->body.ops[i]->kind != TILE_STORE)
            continue;
        m->results[n].store = p->body.ops[i];
        tile_lay_out_result(m, &m->results[n], most);
        uint64_t bytes = m->results[n++].bytes;
        m->shared_bytes = bytes > m->shared_bytes ? bytes : m->shared_bytes;
    }
    *why = NULL;
    return m;
}
