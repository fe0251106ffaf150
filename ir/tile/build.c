/* The tile program of a fusion of one dot or convolution.
 *
 * Its result has three kinds of dimensions: those of a batch (a convolution's groups), and of two sides, each of
 * which one operand has (ContractionPlan). A side's dimensions are counted through as one dimension of the program, n
 * for the side along which the result is contiguous and m for the other; so are what is summed over, k, and the
 * batch, b. A block makes a tile of m x n for one b, in a loop over k:
 *
 *   sums = 0;  for k: sums += rows[m,k] * columns[n,k];  result[m,n] = epilogue(sums) */
#include "ir/kernel/plans.h"
#include "ir/tile/value.h"

enum { DIM_B, DIM_M, DIM_N, DIM_K, DIM_COUNT };

typedef struct Contraction {
    TileBuilder b;
    const Instruction *hero;
    const IndexMap *maps;
    const ContractionPlan *plan;
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
    const IndexExpr *symbols[KERNEL_MOST_RANK],
        *k = tile_coordinate(b->p, DIM_K), *const *index = b->given[0].index;
    for (uint32_t i = c->plan->symbol_count; i-- > 0;) {
        int64_t size = map->symbols[c->plan->symbols[i]].hi + 1;
        symbols[c->plan->symbols[i]] = ix_mod(ix, k, size);
        k = ix_floordiv(ix, k, size);
    }
    const IndexExpr **at =
        ARENA_ARRAY(b->p->arena, const IndexExpr *, (size_t)map->result_count + 1);
    IndexConstraint *constraints =
        ARENA_ARRAY(b->p->arena, IndexConstraint, (size_t)map->constraint_count + 1);
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
    return tile_padded(b, c->hero->operands[s->operand], at, constraints,
                       map->constraint_count);
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

static const Instruction *find_hero(const Instruction *fusion)
{
    const Instruction *dot = fusion_hero(fusion, OP_DOT),
                      *convolution = fusion_hero(fusion, OP_CONVOLUTION);
    return dot != NULL && convolution != NULL ? NULL : dot != NULL ? dot : convolution;
}

TileProgram *tile_build(Arena *a, const Instruction *fusion, const TileConfig *config,
                        const char **why)
{
    Contraction c = {.hero = find_hero(fusion)};
    *why = "it needs exactly one dot or convolution";
    if (c.hero == NULL)
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
    c.b.given[0] = (TileGiven){.inst = c.hero, .index = result_index(&c)};
    bool done = build_loop(&c, config->factor) && tile_store_results(&c.b);
    *why = done ? NULL : c.b.why;
    return done ? c.b.p : NULL;
}
