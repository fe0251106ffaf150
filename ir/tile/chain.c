/* The tile program of a chain of dots (ir/kernel/dot_chain.h): a block goes through the columns for a tile of rows,
 * computes a tile of each inner dot, of these the weights, and adds their products with the other factors:
 *
 *   sums[m,e] = 0
 *   for n: s = x[m,d] y[n,d];  ...;  w = f(s, ...);  sums += w z[n,e]
 *   o[m,e] = epilogue(sums)
 *
 * What a band of scores (a causal mask) leaves out for a whole tile is not looked at. */
#include <math.h>

#include "ir/kernel/dot_chain.h"
#include "ir/tile/value.h"

enum { DIM_B, DIM_M, DIM_N, DIM_WHOLE, LEAST_WHOLE = 16 };

typedef struct ChainDot {
    const IndexExpr *const *index; /* of the result */
    uint32_t depth;                /* the program's dimension of its own */
    double scale;                  /* of all weights: the sums are multiplied by it */
} ChainDot;

typedef struct ChainBuilder {
    TileBuilder b;
    const DotChain *chain;
    ChainDot dots[DOT_CHAIN_MOST];
    TileOp *loop;
    uint32_t inner_count;
} ChainBuilder;

static uint32_t bit(uint32_t dim)
{
    return UINT32_C(1) << dim;
}

/* -- indices ------------------------------------------------------------------------------------- */

/* The dimension that a tile has all of; equal sizes are one. 0: there are too many. */
static uint32_t whole_dim(TileBuilder *b, int64_t extent)
{
    static const char *const names[] = {"d", "e", "f"};
    TileProgram *p = b->p;
    int64_t size = LEAST_WHOLE;
    uint32_t d = DIM_WHOLE;
    while (d < p->dim_count && p->dims[d].extent != extent)
        d++;
    if (d == TILE_MOST_DIMS)
        return 0;
    while (size < extent)
        size *= 2;
    if (d == p->dim_count) {
        p->dims[d] = (TileDim){names[d - DIM_WHOLE], TILE_WHOLE, extent, size};
        p->dim_count++;
    }
    return d;
}

/* The index of an operand that a dot's result at `index` needs for its term `number`. */
static const IndexExpr *const *operand_index(TileBuilder *b, const Instruction *dot,
                                             uint32_t operand,
                                             const IndexExpr *const *index,
                                             const IndexExpr *number)
{
    IndexContext *ix = b->p->ix;
    Arena *a = b->p->arena;
    const IndexMap *map = &index_maps(ix, dot, 0)[operand];
    const IndexExpr **symbols =
        ARENA_ARRAY(a, const IndexExpr *, (size_t)map->symbol_count + 1);
    const IndexExpr **at =
        ARENA_ARRAY(a, const IndexExpr *, (size_t)map->result_count + 1);
    uint32_t *dims = ARENA_ARRAY(a, uint32_t, (size_t)map->symbol_count + 1);
    int64_t *sizes = ARENA_ARRAY(a, int64_t, (size_t)map->symbol_count + 1);
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        dims[i] = i;
        sizes[i] = map->symbols[i].hi + 1;
    }
    tile_spread(b->p, sizes, dims, map->symbol_count, -1, number, symbols);
    for (uint32_t i = 0; i < map->result_count; i++) {
        at[i] = ix_substitute(ix, map->results[i], IX_DIM, map->dim_count, index);
        at[i] = ix_substitute(ix, at[i], IX_SYMBOL, map->symbol_count, symbols);
    }
    return at;
}

/* Of an outer dot: batch dimensions count through b, the weights' through m, the others are all in a tile. */
static void index_result(ChainBuilder *c, uint32_t i)
{
    TileProgram *p = c->b.p;
    const Instruction *dot = c->chain->dots[i];
    uint32_t batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS).count, n[3] = {0},
             rank = dot->shape->rank;
    uint32_t lhs_end =
        dot->operands[0]->shape->rank - inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS).count;
    uint32_t *dims[3];
    const IndexExpr **index = ARENA_ARRAY(p->arena, const IndexExpr *, (size_t)rank + 1);
    for (uint32_t k = 0; k < 3; k++)
        dims[k] = ARENA_ARRAY(p->arena, uint32_t, (size_t)rank + 1);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t of = d < batch ? 0 : (d >= lhs_end) == c->chain->weights[i] ? 1 : 2;
        dims[of][n[of]++] = d;
    }
    const uint32_t to[3] = {DIM_B, DIM_M, c->dots[i].depth};
    for (uint32_t k = 0; k < 3; k++)
        tile_spread(p, dot->shape->dims, dims[k], n[k], -1, tile_coordinate(p, to[k]),
                    index);
    c->dots[i].index = index;
}

/* -- dots ---------------------------------------------------------------------------------------- */

/* Without the constant that all of its elements are multiplied by, if it is the kernel that rounds them. In f16 it may
 * be what keeps them finite. */
static const Instruction *without_scale(const Instruction *x, DType t, double *scale)
{
    uint32_t operand;
    double by;
    if (t != DT_BF16 || x->shape->dtype != DT_F32 || !attention_scaling(x, &operand, &by))
        return x;
    *scale = by;
    return x->operands[operand];
}

/* A factor over a side and the terms; scale: a constant that is taken out of it, NULL: none is. */
static TileOp *factor(TileBuilder *b, DType t, const Instruction *dot, uint32_t operand,
                      const IndexExpr *const *index, uint32_t term, double *scale)
{
    const IndexExpr *const *at =
        operand_index(b, dot, operand, index, tile_coordinate(b->p, term));
    const Instruction *x = dot_chain_factor(dot->operands[operand], t);
    TileOp *v = tile_value(b, scale != NULL ? without_scale(x, t, scale) : x, at, NULL);
    return v == NULL ? NULL : tile_convert(b, v, t);
}

static TileOp *multiply(TileBuilder *b, const Instruction *dot, uint32_t over, TileOp *x,
                        TileOp *y, TileOp *sums)
{
    TileOp *op =
        tile_make(b, TILE_DOT, DT_F32, sums->dims, 3, (TileOp *[]){x, y, sums}, true);
    op->over = bit(over);
    op->inst = dot;
    return op;
}

static TileOp *inner_dot(TileBuilder *b, const Instruction *dot,
                         const IndexExpr *const *index)
{
    ChainBuilder *c = (ChainBuilder *)b;
    uint32_t depth = whole_dim(b, dot_sizes(dot).depth);
    TileOp *sides[2];
    if (depth == 0)
        return tile_refuse(b, "its dots have too many depths");
    if (c->inner_count++ == DOT_CHAIN_MOST)
        return tile_refuse(b, "inner dots are needed at several indices");
    for (uint32_t i = 0; i < 2; i++) {
        sides[i] = factor(b, c->chain->factor, dot, i, index, depth, NULL);
        if (sides[i] == NULL)
            return NULL;
    }
    uint32_t rows = (sides[0]->dims & bit(DIM_N)) != 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t dims = bit(i == rows ? DIM_M : DIM_N) | bit(depth);
        if ((sides[i]->dims & ~dims) != 0)
            return tile_refuse(b, "an inner dot is of other rows and columns");
        sides[i] = tile_broadcast(b, sides[i], dims);
    }
    TileOp *zero = tile_broadcast(b, tile_number(b, DT_F32, 0), bit(DIM_M) | bit(DIM_N));
    return tile_convert(b, multiply(b, dot, depth, sides[rows], sides[!rows], zero),
                        dot->shape->dtype);
}

static bool outer_dot(ChainBuilder *c, uint32_t i, TileOp *sums, TileOp **next)
{
    TileBuilder *b = &c->b;
    const Instruction *dot = c->chain->dots[i];
    DType t = c->chain->factor;
    uint32_t w = c->chain->weights[i];
    TileOp *weights = factor(b, t, dot, w, c->dots[i].index, DIM_N, &c->dots[i].scale),
           *other = weights == NULL
                        ? NULL
                        : factor(b, t, dot, !w, c->dots[i].index, DIM_N, NULL);
    uint32_t rows = bit(DIM_M) | bit(DIM_N), columns = bit(DIM_N) | bit(c->dots[i].depth);
    if (other == NULL)
        return false;
    if ((weights->dims & ~rows) != 0 || (other->dims & ~columns) != 0) {
        tile_refuse(b, "a factor depends on what its side does not have");
        return false;
    }
    *next = multiply(b, dot, DIM_N, tile_broadcast(b, weights, rows),
                     tile_broadcast(b, other, columns), sums);
    return true;
}

/* -- the program --------------------------------------------------------------------------------- */

static void add_dims(ChainBuilder *c, const TileConfig *config)
{
    TileProgram *p = c->b.p;
    const DotChain *chain = c->chain;
    DotSizes s = dot_sizes(chain->dots[0]);
    p->dim_count = DIM_WHOLE;
    p->dims[DIM_B] = (TileDim){"b", TILE_GRID, s.batch, 1};
    p->dims[DIM_M] = (TileDim){"m", TILE_GRID, s.sides[chain->weights[0]], config->m};
    p->dims[DIM_N] = (TileDim){"n", TILE_SEQUENTIAL, s.depth, config->n};
    for (uint32_t i = 0; i < chain->count; i++) {
        c->dots[i].scale = 1;
        c->dots[i].depth =
            whole_dim(&c->b, dot_sizes(chain->dots[i]).sides[!chain->weights[i]]);
        index_result(c, i);
    }
}

static bool build_loop(ChainBuilder *c)
{
    TileBuilder *b = &c->b;
    TileProgram *p = b->p;
    uint32_t count = c->chain->count;
    TileOp *start[DOT_CHAIN_MOST], *sums[DOT_CHAIN_MOST], *next[DOT_CHAIN_MOST];
    for (uint32_t i = 0; i < count; i++)
        start[i] = tile_broadcast(b, tile_number(b, DT_F32, 0),
                                  bit(DIM_M) | bit(c->dots[i].depth));
    TileOp *loop = c->loop =
        tile_make(b, TILE_LOOP, DT_F32, start[0]->dims, count, start, false);
    loop->dim = DIM_N;
    loop->inst = c->chain->dots[0];
    b->loop = loop;
    for (uint32_t i = 0; i < count; i++)
        sums[i] = tile_carried(b, loop, i, TILE_CARRIED);
    for (uint32_t i = 0; i < count; i++) {
        if (!outer_dot(c, i, sums[i], &next[i]))
            return false;
    }
    loop->next = arena_copy(p->arena, next, count * sizeof *next);
    b->loop = NULL;
    /* operations that were put before the loop stand behind it in the list */
    tile_move_last(&p->body, loop);
    b->given_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *dot = c->chain->dots[i];
        TileOp *final = tile_carried(b, loop, i, TILE_FINAL);
        if (c->dots[i].scale != 1)
            final =
                tile_apply(b, OP_MULTIPLY, DT_F32, 2,
                           (TileOp *[]){final, tile_number(b, DT_F32, c->dots[i].scale)});
        b->given[i] = (TileGiven){.inst = dot,
                                  .index = c->dots[i].index,
                                  .value = tile_convert(b, final, dot->shape->dtype)};
    }
    return true;
}

/* -- bounds -------------------------------------------------------------------------------------- */

static int64_t dim_of(const ChainBuilder *c, const Instruction *inst, uint32_t dim)
{
    const IndexExpr *const *index = tile_index_of(&c->b, inst);
    for (uint32_t d = 0; index != NULL && d < inst->shape->rank; d++) {
        if (index[d] == tile_coordinate(c->b.p, dim))
            return d;
    }
    return -1;
}

static const Instruction *past_conversions(const Instruction *x)
{
    while (x->op == OP_CONVERT)
        x = x->operands[0];
    return x;
}

/* What the exponents are less of, logarithms of sums aside, if each of the side's own has one; NULL: it has not. */
static const Instruction *statistics_of(const ChainBuilder *c,
                                        const Instruction *exponential, uint32_t dim)
{
    const Instruction *x = past_conversions(exponential->operands[0]);
    if (x->op != OP_SUBTRACT)
        return NULL;
    const Instruction *inner = past_conversions(x->operands[0]);
    x = inner->op == OP_SUBTRACT ? inner->operands[1] : x->operands[1];
    while (x->op == OP_BROADCAST || x->op == OP_RESHAPE || x->op == OP_CONVERT)
        x = x->operands[0];
    return x->op == OP_PARAMETER && dim_of(c, x, dim) >= 0 ? x : NULL;
}

/* A load of a number for each coordinate along `dim`, by that coordinate itself. */
static bool is_load_along(const ChainBuilder *c, const TileOp *op,
                          const Instruction *array, uint32_t dim)
{
    if (op->kind != TILE_LOAD || op->array != array->parameter || op->dtype != DT_F32 ||
        op->dims != bit(dim) || op->operand_count != 0 || op->constraint_count != 0)
        return false;
    for (uint32_t i = 0; i < op->shape->rank; i++) {
        if (op->index[i] != tile_coordinate(c->b.p, dim) &&
            (ix_depends(op->index[i], IX_SYMBOL, dim) ||
             ix_depends(op->index[i], IX_DIM, dim)))
            return false;
    }
    return true;
}

/* NULL: there is none. */
static TileOp *load_along(const ChainBuilder *c, const Instruction *array, uint32_t dim)
{
    const TileBlock *blocks[] = {&c->b.p->body, &c->loop->body};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < blocks[i]->count; k++) {
            if (is_load_along(c, blocks[i]->ops[k], array, dim))
                return blocks[i]->ops[k];
        }
    }
    return NULL;
}

typedef struct ChainBand {
    AttentionBand band;            /* n <= m + right, n + left > m */
    const Instruction *statistics; /* of dimension `dim` */
    uint32_t dim;
    double least; /* rows whose statistic is below it have weights outside of the band */
} ChainBand;

static const double infinite = -0x1.fffffep127; /* more than -inf */

/* All weights are 0 where this exponential is, but in rows below the band's `least`. */
static bool is_in_all(const ChainBuilder *c, const Instruction *exponential,
                      ChainBand *band)
{
    band->least = -INFINITY;
    for (uint32_t i = 0; i < c->chain->count; i++) {
        const Instruction *dot = c->chain->dots[i];
        if (!dot_chain_keeps_zero(dot->operands[c->chain->weights[i]], exponential,
                                  band->statistics, &band->least))
            return false;
    }
    return true;
}

/* A row of which other masks than the band leave nothing has a statistic like their fill. */
static void add_fill(ChainBand *band, double fill)
{
    double least = fill / 2 < infinite ? infinite : fill / 2;
    if (fill != 0 && band->least < least)
        band->least = least;
}

static bool find_band(const ChainBuilder *c, const Instruction *exponential,
                      ChainBand *out)
{
    int64_t m = dim_of(c, exponential, DIM_M), n = dim_of(c, exponential, DIM_N);
    double fill;
    if (m < 0 || n < 0)
        return false;
    out->dim = DIM_M;
    out->statistics = statistics_of(c, exponential, DIM_M);
    bool is_turned = out->statistics == NULL;
    if (is_turned) {
        out->dim = DIM_N;
        out->statistics = statistics_of(c, exponential, DIM_N);
        int64_t columns = m;
        m = n;
        n = columns;
    }
    if (out->statistics == NULL || !is_in_all(c, exponential, out) ||
        !dot_chain_band(exponential, (uint32_t)m, (uint32_t)n, &out->band, &fill))
        return false;
    add_fill(out, fill);
    const AttentionBand turned = out->band;
    if (is_turned)
        out->band = (AttentionBand){.has_right = turned.has_left,
                                    .right = turned.left - 1,
                                    .has_left = turned.has_right,
                                    .left = turned.right + 1,
                                    .rows = turned.rows};
    return true;
}

static void set_bounds(ChainBuilder *c)
{
    ChainBand found;
    const Instruction *inst = inst_first(c->b.comp);
    while (inst != NULL && (inst->op != OP_EXPONENTIAL || !find_band(c, inst, &found)))
        inst = inst_next(inst);
    if (inst == NULL)
        found = (ChainBand){.least = -INFINITY};
    bool asks = found.least != -INFINITY;
    TileOp *met = asks ? load_along(c, found.statistics, found.dim) : NULL;
    tile_set_bounds(c->b.p, c->loop, DIM_M, &found.band, !asks || met != NULL);
    if (met != NULL) {
        c->loop->rest = TILE_REST_FIRST;
        c->loop->met_load = met;
        c->loop->least_met = found.least;
    }
}

TileProgram *tile_build_chain(Arena *a, const Instruction *fusion, const DotChain *chain,
                              const TileConfig *config, const char **why)
{
    ChainBuilder c = {.chain = chain};
    tile_builder_init(&c.b, tile_program_create(a, fusion));
    c.b.dot = inner_dot;
    c.b.has_powers = true;
    add_dims(&c, config);
    bool done = build_loop(&c) && tile_store_results(&c.b);
    if (done) {
        set_bounds(&c);
        tile_finish(c.b.p);
    }
    *why = done ? NULL : c.b.why;
    return done ? c.b.p : NULL;
}
