/* The tile program of an attention: one block goes through the columns for a tile of rows of one head, with
 * the weighted sum of v and what a softmax needs kept up to date as it goes (online softmax, arXiv:1805.02867), so
 * that no score reaches memory:
 *
 *   sums[m,e] = 0, most[m] = unseen, total[m] = 0
 *   for n: x = scores(q[m,d] k[n,d]), in powers of two, or, where a bias is added, of e
 *          next = max(most, max of x over n);  p = 2^(x - next);  old = 2^(most - next)
 *          total = total * old + sum of p over n;  sums = sums * old + p v[n,e];  most = next
 *   o[m,e] = sums * (1 / total)
 *
 * Tiles of columns that a band leaves out for all rows are not looked at. */
#include "ir/kernel/attention/attention.h"
#include "ir/tile/value.h"

enum { DIM_B, DIM_H, DIM_M, DIM_N, DIM_D, DIM_E, DIM_COUNT };

/* What stands for a score that does not count: its power of two is 0 beside any other's. As a power of two itself it is
 * not rounded when it is multiplied, so that a difference of two of them is 0 however it is computed: fused with the
 * multiplication or not. No score has been seen where the maximum is still `unseen`: no more than any of them, a bias of
 * the least number, too. */
static const double least_score = -0x1p100, unseen = -0x1.fffffep127;
/* Factors that keep least_score far from both. */
static const double least_factor = 0x1p-20, most_factor = 0x1p20;
static const double ln_2 = 0.6931471805599453;

typedef struct AttentionBuilder {
    TileBuilder b;
    const Attention *a;
} AttentionBuilder;

static uint32_t bit(uint32_t dim)
{
    return UINT32_C(1) << dim;
}

/* -- arrays ------------------------------------------------------------------------------------ */

/* All elements of an array in the order in which they lie. */
static const Shape *flat_shape(Arena *a, const Shape *of)
{
    Shape *s = ARENA_NEW(a, Shape);
    int64_t *size = ARENA_NEW(a, int64_t);
    *size = shape_elements(of);
    *s = (Shape){
        .dtype = of->dtype, .rank = 1, .dims = size, .layout = index_row_major(a, 1)};
    return s;
}

/* Where [batch, heads, positions, depth] lies. */
static const IndexExpr *offset_of(const AttentionBuilder *c, const AttentionArray *x,
                                  const IndexExpr *const *at)
{
    IndexContext *ix = c->b.p->ix;
    const IndexExpr *sum = ix_const(ix, 0);
    for (uint32_t d = 0; d < ATTENTION_RANK; d++) {
        if (x->dims[d] != 1)
            sum = ix_add(ix, sum, ix_mul(ix, at[d], x->strides[d]));
    }
    return sum;
}

static TileOp *load_array(AttentionBuilder *c, const AttentionArray *x,
                          const IndexExpr *const *at)
{
    const IndexExpr *offset = offset_of(c, x, at);
    TileAccess where = {.shape = flat_shape(c->b.p->arena, x->base->shape),
                        .index_count = 1,
                        .index = &offset};
    TileOp *op = tile_make_at(&c->b, TILE_LOAD, x->base->shape->dtype, NULL, &where);
    if (op != NULL) {
        op->array = (uint32_t)x->base->parameter;
        op->inst = x->base;
    }
    return op;
}

/* -- scores ------------------------------------------------------------------------------------ */

static TileOp *number(AttentionBuilder *c, double value)
{
    return tile_number(&c->b, DT_F32, value);
}

static TileOp *apply(AttentionBuilder *c, OpCode op, TileOp *x, TileOp *y)
{
    if (x == NULL || y == NULL)
        return NULL;
    return tile_apply(&c->b, op, DT_F32, 2, (TileOp *[]){x, y});
}

/* Beside a bias what does not count is the fill itself: a bias may be as low, or lower than least_score, in all columns
 * that do. Not where rows of which no score counts are 0: it is asked whether a row has scores. */
static bool fills_masked(const Attention *a)
{
    return a->bias.base != NULL && !(a->mask_count != 0 && a->empty_is_zero);
}

static double score_of_masked(const Attention *a)
{
    return fills_masked(a) ? a->parts.mask_fill : least_score;
}

/* x where the predicate holds, else the least score. */
static TileOp *masked(AttentionBuilder *c, TileOp *x, TileOp *predicate, bool is_negated)
{
    TileOp *least = number(c, score_of_masked(c->a));
    if (x == NULL || predicate == NULL)
        return NULL;
    return tile_apply(
        &c->b, OP_SELECT, DT_F32, 3,
        (TileOp *[]){predicate, is_negated ? least : x, is_negated ? x : least});
}

static TileOp *banded(AttentionBuilder *c, TileOp *x)
{
    const AttentionBand *band = &c->a->band;
    TileProgram *p = c->b.p;
    if (band->rows == 0)
        return x;
    const IndexExpr *apart = ix_add(p->ix, tile_coordinate(p, DIM_N),
                                    ix_mul(p->ix, tile_coordinate(p, DIM_M), -1));
    IndexConstraint inside = {apart,
                              {band->has_left ? 1 - band->left : apart->range.lo,
                               band->has_right ? band->right : apart->range.hi}};
    TileAccess offset = {.constraint_count = 1, .constraints = &inside};
    return masked(c, x, tile_make_at(&c->b, TILE_IN_RANGE, DT_PRED, NULL, &offset),
                  false);
}

/* The index of an element of a mask, or of what rows have: its dimensions are digits of the number of the result's
 * element, and of the column. */
static const IndexExpr *mask_index(const AttentionBuilder *c, const ElementMap *map,
                                   uint32_t dim)
{
    TileProgram *p = c->b.p;
    IndexContext *ix = p->ix;
    const IndexExpr *at[] = {tile_coordinate(p, DIM_B), tile_coordinate(p, DIM_H),
                             tile_coordinate(p, DIM_M), ix_const(ix, 0)};
    const IndexExpr *row = offset_of(c, &c->a->o, at), *sum = ix_const(ix, 0);
    uint32_t count;
    const ViewPiece *pieces = view_pieces_of(map->pieces, map->count, dim, &count);
    int64_t column = c->a->parts.column_weight;
    for (uint32_t i = 0; i < count; i++) {
        bool is_column = pieces[i].stride >= column;
        const IndexExpr *digit =
            ix_floordiv(ix, is_column ? tile_coordinate(p, DIM_N) : row,
                        is_column ? pieces[i].stride / column : pieces[i].stride);
        digit = ix_mod(ix, digit, pieces[i].size);
        sum = ix_add(ix, ix_mul(ix, sum, pieces[i].size), digit);
    }
    return sum;
}

static TileOp *with_mask(AttentionBuilder *c, TileOp *x, const AttentionMask *mask)
{
    const Instruction *inst = mask->predicate.inst;
    const IndexExpr **at =
        ARENA_ARRAY(c->b.p->arena, const IndexExpr *, (size_t)inst->shape->rank + 1);
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        at[d] = mask_index(c, &mask->predicate.map, d);
    return masked(c, x, tile_value(&c->b, inst, at, NULL), mask->is_negated);
}

static TileOp *with_bias(AttentionBuilder *c, TileOp *x)
{
    TileProgram *p = c->b.p;
    const IndexExpr *at[] = {tile_coordinate(p, DIM_B), tile_coordinate(p, DIM_H),
                             tile_coordinate(p, DIM_M), tile_coordinate(p, DIM_N)};
    if (c->a->bias.base == NULL)
        return x;
    TileOp *bias = load_array(c, &c->a->bias, at);
    return bias == NULL ? NULL : apply(c, OP_ADD, x, tile_convert(&c->b, bias, DT_F32));
}

/* Beside a bias they are in powers of e until the maximum is taken off: one as low as the least number, which masks, has
 * no power of two in f32, and a row of nothing else is the mean of all. */
static bool are_natural(const Attention *a)
{
    return a->bias.base != NULL;
}

/* Times *scale_left they are in powers of two, or of e. A positive factor waits until the maximum is taken off, where it
 * is part of one instruction. */
static TileOp *scores(AttentionBuilder *c, TileOp *dot, double *scale_left)
{
    const Attention *a = c->a;
    TileOp *x = dot;
    double scale = a->scale;
    bool waits = a->cap == 0 && a->bias.base == NULL && scale >= least_factor &&
                 scale <= most_factor;
    bool adds_last =
        a->parts.bias_is_outside && !a->parts.mask_swallows_bias; /* to what masks fill */
    *scale_left = waits ? scale * TILE_LOG2_E : 1;
    if (a->cap != 0) {
        x = apply(c, OP_MULTIPLY, x, number(c, scale / a->cap));
        x = tile_apply(&c->b, OP_TANH, DT_F32, 1, &x);
        scale = a->cap;
    }
    if (are_natural(a))
        x = apply(c, OP_MULTIPLY, x, number(c, scale));
    else if (!waits)
        x = apply(c, OP_MULTIPLY, x, number(c, scale * TILE_LOG2_E));
    if (!adds_last)
        x = with_bias(c, x);
    x = banded(c, x);
    for (uint32_t i = 0; i < a->mask_count; i++)
        x = with_mask(c, x, &a->masks[i]);
    return adds_last ? with_bias(c, x) : x;
}

/* -- the program ------------------------------------------------------------------------------- */

static int64_t power_of_two(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static void add_dims(AttentionBuilder *c, const TileConfig *config)
{
    TileProgram *p = c->b.p;
    const Attention *a = c->a;
    int64_t d = a->q.dims[ATTENTION_DEPTH], e = a->v.dims[ATTENTION_DEPTH];
    p->dim_count = DIM_COUNT;
    p->dims[DIM_B] = (TileDim){"b", TILE_GRID, a->q.dims[ATTENTION_BATCH], 1};
    p->dims[DIM_H] = (TileDim){"h", TILE_GRID, a->q.dims[ATTENTION_HEADS], 1};
    p->dims[DIM_M] = (TileDim){"m", TILE_GRID, a->q.dims[ATTENTION_POSITIONS], config->m};
    p->dims[DIM_N] =
        (TileDim){"n", TILE_SEQUENTIAL, a->k.dims[ATTENTION_POSITIONS], config->n};
    p->dims[DIM_D] = (TileDim){"d", TILE_WHOLE, d, power_of_two(d < 16 ? 16 : d)};
    p->dims[DIM_E] = (TileDim){"e", TILE_WHOLE, e, power_of_two(e < 16 ? 16 : e)};
}

static TileOp *reduced(AttentionBuilder *c, OpCode combine, TileOp *x)
{
    TileOp *op =
        tile_make(&c->b, TILE_REDUCE, DT_F32, x->dims & ~bit(DIM_N), 1, &x, true);
    op->over = bit(DIM_N);
    op->combine = combine;
    return op;
}

static TileOp *dot(AttentionBuilder *c, const Instruction *inst, uint32_t over, TileOp *x,
                   TileOp *y, TileOp *sums)
{
    TileOp *op =
        tile_make(&c->b, TILE_DOT, DT_F32, sums->dims, 3, (TileOp *[]){x, y, sums}, true);
    op->over = bit(over);
    op->inst = inst;
    return op;
}

/* What a score less that maximum is the exponent of. */
static TileOp *weight(AttentionBuilder *c, TileOp *x, TileOp *most)
{
    double powers = c->b.p->most_powers;
    x = apply(c, OP_SUBTRACT, x, most);
    return tile_exp2(&c->b,
                     powers == 1 ? x : apply(c, OP_MULTIPLY, x, number(c, powers)));
}

/* One tile of columns. */
static bool build_step(AttentionBuilder *c, TileOp *loop, TileOp *q)
{
    TileProgram *p = c->b.p;
    const Attention *a = c->a;
    int64_t group = a->q.dims[ATTENTION_HEADS] / a->k.dims[ATTENTION_HEADS];
    const IndexExpr *kv_head = ix_floordiv(p->ix, tile_coordinate(p, DIM_H), group),
                    *batch = tile_coordinate(p, DIM_B), *n = tile_coordinate(p, DIM_N);
    TileOp *sums = tile_carried(&c->b, loop, ATTENTION_SUMS, TILE_CARRIED),
           *most = tile_carried(&c->b, loop, ATTENTION_MOST, TILE_CARRIED),
           *total = tile_carried(&c->b, loop, ATTENTION_TOTAL, TILE_CARRIED);
    TileOp *k = load_array(
        c, &a->k, (const IndexExpr *[]){batch, kv_head, n, tile_coordinate(p, DIM_D)});
    TileOp *v = load_array(
        c, &a->v, (const IndexExpr *[]){batch, kv_head, n, tile_coordinate(p, DIM_E)});
    TileOp *zero = tile_broadcast(&c->b, number(c, 0), bit(DIM_M) | bit(DIM_N));
    double scale_left;
    TileOp *x = scores(c, dot(c, a->parts.scores.inst, DIM_D, q, k, zero), &scale_left);
    if (x == NULL)
        return false;
    TileOp *own = reduced(c, OP_MAXIMUM, x);
    if (scale_left != 1) {
        own = apply(c, OP_MULTIPLY, own, number(c, scale_left));
        x = apply(c, OP_MULTIPLY, x, number(c, scale_left));
    }
    TileOp *next = apply(c, OP_MAXIMUM, most, own);
    TileOp *weights = weight(c, x, next), *old = weight(c, most, next);
    total =
        apply(c, OP_ADD, apply(c, OP_MULTIPLY, total, old), reduced(c, OP_ADD, weights));
    sums = dot(c, a->parts.output, DIM_N,
               tile_convert(&c->b, weights, a->v.base->shape->dtype), v,
               apply(c, OP_MULTIPLY, sums, old));
    loop->next = arena_copy(p->arena, (TileOp *[]){sums, next, total},
                            ATTENTION_CARRIED * sizeof(TileOp *));
    return true;
}

/* Of a row of which no score counts the maximum is least_score, perhaps times a factor: less than this, which is less
 * than any other. */
static const double no_score = -0x1p79;

/* 1, or 0 in a row of which no score counts. */
static TileOp *has_scores(AttentionBuilder *c, TileOp *loop)
{
    TileOp *x =
        apply(c, OP_SUBTRACT, tile_carried(&c->b, loop, ATTENTION_MOST, TILE_FINAL),
              number(c, no_score));
    return apply(c, OP_MINIMUM, apply(c, OP_MAXIMUM, x, number(c, 0)), number(c, 1));
}

/* The index of what rows have, at the program's coordinates. */
static TileOp *row_value(AttentionBuilder *c, const Mapped *x)
{
    const Instruction *inst = x->inst;
    const IndexExpr **at =
        ARENA_ARRAY(c->b.p->arena, const IndexExpr *, (size_t)inst->shape->rank + 1);
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        at[d] = mask_index(c, &x->map, d);
    TileOp *value = tile_value(&c->b, inst, at, NULL);
    return value == NULL ? NULL : tile_convert(&c->b, value, DT_F32);
}

/* 1 / (total + 2^(sink - most)), or, where the sink is larger, the same less that: a sink takes part when all columns are
 * done, so that it is added once. */
static TileOp *share_beside_sink(AttentionBuilder *c, TileOp *total, TileOp *most)
{
    TileOp *sink = row_value(c, &c->a->sink);
    if (sink == NULL)
        return NULL;
    if (!are_natural(c->a))
        sink = apply(c, OP_MULTIPLY, sink, number(c, TILE_LOG2_E));
    TileOp *next = apply(c, OP_MAXIMUM, most, sink), *old = weight(c, most, next),
           *own = weight(c, sink, next);
    return apply(c, OP_DIVIDE, old,
                 apply(c, OP_ADD, apply(c, OP_MULTIPLY, total, old), own));
}

/* One division for each row. */
static bool store_result(AttentionBuilder *c, TileOp *loop, const IndexExpr *const *at)
{
    TileBuilder *b = &c->b;
    const Instruction *base = c->a->o.base;
    TileOp *total = tile_carried(b, loop, ATTENTION_TOTAL, TILE_FINAL);
    TileOp *share =
        c->a->sink.inst == NULL
            ? apply(c, OP_DIVIDE, number(c, 1), total)
            : share_beside_sink(c, total,
                                tile_carried(b, loop, ATTENTION_MOST, TILE_FINAL));
    if (share == NULL)
        return false;
    if (c->a->empty_is_zero)
        share = apply(c, OP_MULTIPLY, share, has_scores(c, loop));
    TileOp *value =
        apply(c, OP_MULTIPLY, tile_carried(b, loop, ATTENTION_SUMS, TILE_FINAL), share);
    value = tile_convert(b, value, base->shape->dtype);
    const IndexExpr *offset = offset_of(c, &c->a->o, at);
    TileAccess where = {.shape = flat_shape(b->p->arena, base->shape),
                        .index_count = 1,
                        .index = &offset};
    TileOp *store = tile_make_at(b, TILE_STORE, value->dtype, value, &where);
    if (store == NULL)
        return false;
    store->inst = base;
    return true;
}

/* log(total) + most, which are of powers of two; or either of them. */
static TileOp *statistic(AttentionBuilder *c, TileOp *loop, uint32_t result)
{
    bool are_apart = c->b.comp->root->operand_count > 2;
    TileOp *total = tile_carried(&c->b, loop, ATTENTION_TOTAL, TILE_FINAL),
           *most = tile_carried(&c->b, loop, ATTENTION_MOST, TILE_FINAL);
    if (!are_natural(c->a))
        most = apply(c, OP_MULTIPLY, most, number(c, ln_2));
    if (are_apart && result == 2)
        return tile_broadcast(&c->b, most, bit(DIM_M));
    total = tile_apply(&c->b, OP_LOG, DT_F32, 1, &total);
    return are_apart ? total : apply(c, OP_ADD, total, most);
}

static bool store_rows(AttentionBuilder *c, TileOp *loop, uint32_t result)
{
    TileBuilder *b = &c->b;
    const Instruction *inst = b->comp->root->operands[result];
    TileOp *value = statistic(c, loop, result);
    const IndexExpr **at =
        ARENA_ARRAY(b->p->arena, const IndexExpr *, (size_t)inst->shape->rank + 1);
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        at[d] = mask_index(c, &c->a->parts.rows.map, d);
    TileAccess where = {
        .shape = inst->shape, .index_count = inst->shape->rank, .index = at};
    TileOp *store = tile_make_at(b, TILE_STORE, DT_F32, value, &where);
    if (store == NULL)
        return false;
    store->inst = inst;
    store->array = result;
    return true;
}

/* A row of which other masks than the band leave nothing is the mean of all columns; one whose scores a bias makes as low
 * as the fill has those that the band leaves out, too; not where that is no number: beside anything its exponential is 0. */
static void set_bounds(AttentionBuilder *c, TileOp *loop, const TileConfig *config)
{
    bool fills = fills_masked(c->a) && c->a->parts.mask_fill >= unseen,
         needs_all = fills || (c->a->mask_count != 0 && !c->a->empty_is_zero);
    tile_set_bounds(c->b.p, loop, DIM_M, &c->a->band, !needs_all || !config->is_shared);
    if (needs_all && !config->is_shared && c->a->band.rows != 0) {
        loop->rest = TILE_REST_AFTER;
        loop->met = ATTENTION_MOST;
        loop->least_met = fills ? c->a->parts.mask_fill / 2 : no_score;
    }
}

static bool build_all(AttentionBuilder *c, const TileConfig *config)
{
    TileBuilder *b = &c->b;
    TileProgram *p = b->p;
    const Instruction *root = b->comp->root;
    const IndexExpr *at[] = {tile_coordinate(p, DIM_B), tile_coordinate(p, DIM_H),
                             tile_coordinate(p, DIM_M), tile_coordinate(p, DIM_D)};
    uint32_t rows = bit(DIM_M), all = rows | bit(DIM_E);
    TileOp *q = load_array(c, &c->a->q, at);
    TileOp *start[] = {tile_broadcast(b, number(c, 0), all),
                       tile_broadcast(b, number(c, unseen), rows),
                       tile_broadcast(b, number(c, 0), rows)};
    TileOp *loop = tile_make(b, TILE_LOOP, DT_F32, all, ATTENTION_CARRIED, start, false);
    loop->dim = DIM_N;
    loop->inst = c->a->o.base;
    b->loop = loop;
    if (q == NULL)
        return false;
    q = tile_broadcast(b, q, rows | bit(DIM_D)); /* of one row its offset says nothing */
    if (!build_step(c, loop, q))
        return false;
    b->loop = NULL;
    set_bounds(c, loop, config);
    /* operations that were put before the loop stand behind it in the list */
    tile_move_last(&p->body, loop);
    at[ATTENTION_DEPTH] = tile_coordinate(p, DIM_E);
    /* what rows have first: it would take registers beside the sums for longer */
    for (uint32_t i = 1; root->op == OP_TUPLE && i < root->operand_count; i++) {
        if (!store_rows(c, loop, i))
            return false;
    }
    return store_result(c, loop, at);
}

TileProgram *tile_build_attention(Arena *a, const Instruction *fusion,
                                  const Attention *attention, const TileConfig *config,
                                  const char **why)
{
    AttentionBuilder c = {.a = attention};
    tile_builder_init(&c.b, tile_program_create(a, fusion));
    c.b.p->most_powers = are_natural(attention) ? TILE_LOG2_E : 1;
    add_dims(&c, config);
    bool done = build_all(&c, config);
    if (done)
        tile_finish(c.b.p);
    *why = done ? NULL : c.b.why;
    return done ? c.b.p : NULL;
}
