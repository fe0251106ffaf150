/* The tile program of a fusion of one dot, ragged dot or convolution.
 *
 * Its result has three kinds of dimensions: those of a batch (a convolution's groups), and of two sides, each of
 * which one operand has (ContractionPlan). A side's dimensions are counted through as one dimension of the program, n
 * for the side along which the result is contiguous and m for the other; so are what is summed over, k, and the
 * batch, b. A block makes a tile of m x n for one b, in a loop over k:
 *
 *   sums = 0;  for k: sums += rows[m,k] * columns[n,k];  result[m,n] = epilogue(sums)
 *
 * A ragged dot's block asks the sizes of the groups which one its tile is in (TILE_GROUP). Of groups of rows it takes
 * the matrix of that one, and rows up to the group's end; of groups of terms, b, it sums those of the group. */
#include "ir/kernel/plans.h"
#include "ir/tile/value.h"

enum { DIM_B, DIM_M, DIM_N, DIM_K, DIM_COUNT };

typedef struct Contraction {
    TileBuilder b;
    const Instruction *hero;
    const IndexMap *maps;
    const ContractionPlan *plan;
    /* of a ragged dot: */
    TileOp *group[GROUP_USED + 1];
    const IndexExpr *of_group[GROUP_USED + 1]; /* the same as expressions */
    uint32_t ragged_dim;                       /* FREE: that of the rows in groups */
} Contraction;

/* The dimension along which the operand is contiguous, if there is one: it becomes the fastest of its side. */
static int64_t contiguous_dim(const Contraction *c, const ContractionSide *s)
{
    const Shape *shape = c->hero->operands[s->operand]->shape;
    const IndexExpr *linear =
        index_linear(c->b.p->ix, shape, c->maps[s->operand].results);
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t stride;
        if (c->hero->shape->dims[s->dims[i]] != 1 &&
            ix_stride(linear, IX_DIM, s->dims[i], &stride) && stride == 1)
            return s->dims[i];
    }
    return -1;
}

/* -- groups ------------------------------------------------------------------------------------ */

static TileOp *group_of_tile(Contraction *c, TileGroup part, const IndexExpr *tile,
                             int64_t rows)
{
    const Instruction *sizes = c->hero->operands[2];
    TileOp *op = tile_make(&c->b, TILE_GROUP, DT_S32, 0, 0, NULL, false);
    op->array = (uint32_t)sizes->parameter;
    op->shape = sizes->shape;
    op->begin = tile;
    op->rows = rows;
    op->among = c->plan->ragged.extent;
    op->number = part;
    return op;
}

static bool find_groups(Contraction *c)
{
    const TileProgram *p = c->b.p;
    IndexContext *ix = p->ix;
    const RaggedForm *g = &c->plan->ragged;
    const int64_t highest[] = {g->groups - 1, g->extent, g->extent, 1};
    bool is_free = g->mode == RAGGED_FREE;
    if (g->mode == RAGGED_NONE)
        return true;
    if (c->hero->operands[2]->op != OP_PARAMETER) {
        c->b.why = "the sizes of groups are not read from memory";
        return false;
    }
    c->ragged_dim = c->plan->y.operand == 0 ? DIM_M : DIM_N;
    uint32_t dim = is_free ? c->ragged_dim : DIM_B;
    const TileDim *d = &p->dims[dim];
    const IndexExpr *tile = ix_symbol(ix, dim, (Range){0, tile_count(d) - 1});
    if (!is_free) /* the groups are the first of the dimensions that b counts through */
        tile = ix_floordiv(ix, tile, c->plan->batch_size / g->groups);
    for (uint32_t i = 0; i <= GROUP_USED; i++) {
        c->group[i] = group_of_tile(c, i, tile, is_free ? d->size : 0);
        c->of_group[i] = ix_runtime(ix, c->group[i]->id, (Range){0, highest[i]});
    }
    return true;
}

/* `expr`, a coordinate along the ragged dimension, lies before the group's end. */
static IndexConstraint before_end(const Contraction *c, const IndexExpr *expr)
{
    IndexContext *ix = c->b.p->ix;
    const IndexExpr *end = ix_mul(ix, c->of_group[GROUP_END], -1);
    return (IndexConstraint){ix_add(ix, expr, end),
                             {-c->plan->ragged.extent - c->b.p->dims[DIM_M].size -
                                  c->b.p->dims[DIM_N].size - c->b.p->dims[DIM_K].extent,
                              -1}};
}

/* A coordinate of the tile along the ragged dimension. */
static const IndexExpr *row_of_group(const Contraction *c)
{
    const TileProgram *p = c->b.p;
    uint32_t dim = c->ragged_dim;
    return ix_add(p->ix, c->of_group[GROUP_FIRST],
                  ix_mod(p->ix, tile_coordinate(p, dim), p->dims[dim].size));
}

/* Tiles of the sums that the block has. */
static TileOp *steps_of_group(Contraction *c)
{
    IndexContext *ix = c->b.p->ix;
    const TileDim *k = &c->b.p->dims[DIM_K];
    const IndexExpr *steps = ix_mul(ix, c->of_group[GROUP_USED], tile_count(k));
    if (c->plan->ragged.mode == RAGGED_SUMMED) {
        const IndexExpr *terms =
            ix_add(ix, c->of_group[GROUP_END], ix_mul(ix, c->of_group[GROUP_FIRST], -1));
        terms = ix_add(ix, terms, ix_const(ix, k->size - 1));
        steps = ix_floordiv(ix, terms, k->size);
    }
    TileAccess access = {.index_count = 1, .index = &steps};
    return tile_make_at(&c->b, TILE_INDEX, DT_S32, NULL, &access);
}

/* -- indices ----------------------------------------------------------------------------------- */

static void spread_side(const Contraction *c, const ContractionSide *s, uint32_t dim,
                        const IndexExpr **index)
{
    const TileProgram *p = c->b.p;
    int64_t feature = c->plan->feature_dim;
    if (feature >= 0 && s->operand == 1)
        index[feature] =
            ix_add(p->ix, tile_coordinate(p, dim),
                   ix_mul(p->ix, tile_coordinate(p, DIM_B), c->plan->per_group));
    else
        tile_spread(p, c->hero->shape->dims, s->dims, s->count, contiguous_dim(c, s),
                    tile_coordinate(p, dim), index);
}

static const IndexExpr *const *result_index(const Contraction *c)
{
    const TileProgram *p = c->b.p;
    const IndexExpr **index =
        ARENA_ARRAY(p->arena, const IndexExpr *, (size_t)c->hero->shape->rank + 1);
    tile_spread(p, c->hero->shape->dims, c->plan->batch_dims, c->plan->batch_count, -1,
                tile_coordinate(p, DIM_B), index);
    spread_side(c, &c->plan->y, DIM_M, index);
    spread_side(c, &c->plan->x, DIM_N, index);
    if (c->plan->ragged.mode == RAGGED_FREE)
        index[c->plan->ragged.result_dim] = row_of_group(c);
    return index;
}

/* -- operands ---------------------------------------------------------------------------------- */

/* A tile of an operand: at the result's index and the symbols that k stands for. In place of a convolution's
 * padding zeros. */
static TileOp *side_value(Contraction *c, const ContractionSide *s)
{
    TileBuilder *b = &c->b;
    IndexContext *ix = b->p->ix;
    const IndexMap *map = &c->maps[s->operand];
    RaggedMode ragged = c->plan->ragged.mode;
    const IndexExpr *symbols[KERNEL_MOST_RANK + 1],
        *k = tile_coordinate(b->p, DIM_K), *const *index = b->given[0].index;
    if (ragged == RAGGED_SUMMED)
        k = ix_add(ix, c->of_group[GROUP_FIRST], k);
    if (ragged == RAGGED_FREE && s->operand == 1)
        symbols[map->symbol_count - 1] = c->of_group[GROUP_NUMBER];
    for (uint32_t i = c->plan->symbol_count; i-- > 0;) {
        int64_t size = map->symbols[c->plan->symbols[i]].hi + 1;
        bool is_all = ragged == RAGGED_SUMMED; /* within the group, there is no other */
        symbols[c->plan->symbols[i]] = is_all ? k : ix_mod(ix, k, size);
        k = ix_floordiv(ix, k, size);
    }
    const IndexExpr **at =
        ARENA_ARRAY(b->p->arena, const IndexExpr *, (size_t)map->result_count + 1);
    IndexConstraint *constraints =
        ARENA_ARRAY(b->p->arena, IndexConstraint, (size_t)map->constraint_count + 1);
    uint32_t count = map->constraint_count;
    for (uint32_t i = 0; i < map->result_count + map->constraint_count; i++) {
        const IndexExpr *x = i < map->result_count
                                 ? map->results[i]
                                 : map->constraints[i - map->result_count].expr;
        x = ix_substitute(ix, x, IX_DIM, map->dim_count, index);
        x = ix_substitute(ix, x, IX_SYMBOL, map->symbol_count, symbols);
        if (i < map->result_count)
            at[i] = x;
        else
            constraints[i - map->result_count] =
                (IndexConstraint){x, map->constraints[i - map->result_count].range};
    }
    if (ragged == RAGGED_SUMMED || (ragged == RAGGED_FREE && s->operand == 0))
        constraints[count++] = before_end(
            c, ragged == RAGGED_SUMMED ? symbols[c->plan->symbols[0]] : row_of_group(c));
    return tile_padded(b, c->hero->operands[s->operand], at, constraints, count);
}

/* A tile of both sides, over m and k, k and n. */
static bool side_values(Contraction *c, DType factor, TileOp **rows, TileOp **columns)
{
    const ContractionSide *sides[] = {&c->plan->y, &c->plan->x};
    TileOp **out[] = {rows, columns};
    for (uint32_t i = 0; i < 2; i++) {
        TileOp *v = side_value(c, sides[i]);
        if (v != NULL && factor != DT_INVALID)
            v = tile_convert(&c->b, v, factor);
        if (v == NULL)
            return false;
        uint32_t all = UINT32_C(1) << DIM_K | UINT32_C(1) << (DIM_M + i);
        if ((v->dims & ~all) != 0) {
            c->b.why = "an operand depends on what its side does not have";
            return false;
        }
        *out[i] = tile_broadcast(&c->b, v, all);
    }
    return true;
}

/* -- the program ------------------------------------------------------------------------------- */

static void add_dims(Contraction *c, const TileConfig *config)
{
    TileProgram *p = c->b.p;
    p->dim_count = DIM_COUNT;
    p->dims[DIM_B] = (TileDim){"b", TILE_GRID, c->plan->batch_size, 1};
    p->dims[DIM_M] = (TileDim){"m", TILE_GRID, c->plan->y.size, config->m};
    p->dims[DIM_N] = (TileDim){"n", TILE_GRID, c->plan->x.size, config->n};
    if (c->plan->ragged.mode == RAGGED_FREE) {
        bool is_y = c->plan->y.operand == 0;
        const ContractionSide *s = is_y ? &c->plan->y : &c->plan->x;
        TileDim *d = &p->dims[is_y ? DIM_M : DIM_N];
        d->extent = contraction_tiles(c->plan, s, d->size) * d->size;
    }
    p->dims[DIM_K] = (TileDim){"k", TILE_SEQUENTIAL, c->plan->depth, config->k};
}

/* The loop over k; behind it the sums are what is given. */
static bool build_loop(Contraction *c, DType factor)
{
    TileBuilder *b = &c->b;
    TileProgram *p = b->p;
    DType sum = c->plan->type;
    uint32_t dims = UINT32_C(1) << DIM_M | UINT32_C(1) << DIM_N;
    TileOp *zero = tile_broadcast(b, tile_number(b, sum, 0), dims), *rows, *columns;
    TileOp *loop = tile_make(b, TILE_LOOP, sum, dims, 1, &zero, false);
    loop->dim = DIM_K;
    loop->begin = ix_const(p->ix, 0);
    loop->end = ix_const(p->ix, tile_count(&p->dims[DIM_K]));
    if (c->plan->ragged.mode != RAGGED_NONE)
        loop->most = steps_of_group(c);
    loop->inst = c->hero;
    b->loop = loop;
    TileOp *carried = tile_make(b, TILE_CARRIED, sum, dims, 0, NULL, true);
    carried->loop = loop;
    if (!side_values(c, factor, &rows, &columns))
        return false;
    TileOp *dot =
        tile_make(b, TILE_DOT, sum, dims, 3, (TileOp *[]){rows, columns, carried}, true);
    dot->over = UINT32_C(1) << DIM_K;
    dot->inst = c->hero;
    loop->next = arena_copy(p->arena, &dot, sizeof(TileOp *));
    b->loop = NULL;
    /* operations that were put before the loop stand behind it in the list */
    tile_move_last(&p->body, loop);
    TileOp *final = tile_make(b, TILE_FINAL, sum, dims, 0, NULL, false);
    final->loop = loop;
    b->given[0].value = tile_convert(b, final, c->hero->shape->dtype);
    return true;
}

TileProgram *tile_build(Arena *a, const Instruction *fusion, const TileConfig *config,
                        const char **why)
{
    Contraction c = {.hero = contraction_hero(fusion)};
    RaggedForm form;
    *why = "it needs exactly one dot or convolution";
    if (c.hero == NULL)
        return NULL;
    *why = "a ragged dot of this form has no kernel";
    if (c.hero->op == OP_RAGGED_DOT && !ragged_form(c.hero, &form))
        return NULL;
    c.plan = contraction_plan(a, c.hero);
    *why = "there are no sums";
    if (shape_elements(c.hero->shape) == 0 || c.plan->depth == 0 ||
        dtype_is_complex(c.plan->type))
        return NULL;
    tile_builder_init(&c.b, tile_program_create(a, fusion));
    c.maps = index_maps(c.b.p->ix, c.hero, 0);
    add_dims(&c, config);
    c.b.given_count = 1;
    c.b.given[0].inst = c.hero;
    if (!find_groups(&c)) {
        *why = c.b.why;
        return NULL;
    }
    c.b.given[0].index = result_index(&c);
    IndexConstraint end;
    TileGuard inside = {NULL, 1, &end};
    if (c.plan->ragged.mode == RAGGED_FREE) {
        end = before_end(&c, row_of_group(&c));
        c.b.stored = &inside;
    }
    bool done = build_loop(&c, config->factor) && tile_store_results(&c.b);
    *why = done ? NULL : c.b.why;
    return done ? c.b.p : NULL;
}
