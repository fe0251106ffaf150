/* See view.h. */
#include "ir/tile/view.h"

#include "ir/base/bug.h"

static const TileOp *runtime_of(const TileOp *op, int64_t id)
{
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (op->operands[i]->id == id)
            return op->operands[i];
    }
    bug("an access depends on operation %lld, which is no operand", (long long)id);
}

static bool is_scalar(const TileProgram *p, const TileOp *op)
{
    return tile_elements(p, op->dims) == 1;
}

static const IndexExpr *tile_symbol(const TileProgram *p, uint32_t dim)
{
    return ix_symbol(p->ix, dim, (Range){0, tile_count(&p->dims[dim]) - 1});
}

/* The same for all elements of a tile: coordinates are only divided, by multiples of the tile. */
static bool is_even(const TileProgram *p, const TileOp *op, const IndexExpr *e)
{
    if (e == NULL)
        return true;
    if (e->kind == IX_DIM)
        return !tile_has_coordinate(p, (uint32_t)e->value);
    if (e->kind == IX_RUNTIME)
        return is_scalar(p, runtime_of(op, e->value));
    if (e->kind == IX_FLOORDIV && e->a->kind == IX_DIM)
        return is_even(p, op, e->a) || e->value % p->dims[e->a->value].size == 0;
    return is_even(p, op, e->a) && is_even(p, op, e->b);
}

/* Where the tile begins, over SYMBOLs. */
static const IndexExpr *at_first(const TileProgram *p, const IndexExpr *e)
{
    const IndexExpr *firsts[TILE_MOST_DIMS];
    for (uint32_t d = 0; d < p->dim_count; d++)
        firsts[d] = p->dims[d].kind == TILE_WHOLE
                        ? ix_const(p->ix, 0)
                        : ix_mul(p->ix, tile_symbol(p, d), p->dims[d].size);
    return ix_substitute(p->ix, e, IX_DIM, p->dim_count, firsts);
}

/* A coordinate, or what is left of it by a multiple of its tile's size. */
static bool is_along_tile(const TileProgram *p, const IndexExpr *e, TileViewDim *out)
{
    const IndexExpr *of = e->kind == IX_MOD ? e->a : e;
    if (of->kind != IX_DIM || !tile_has_coordinate(p, (uint32_t)of->value))
        return false;
    uint32_t dim = (uint32_t)of->value;
    const TileDim *d = &p->dims[dim];
    out->dim = (int)dim;
    out->tile = d->size;
    out->at = d->kind == TILE_WHOLE ? ix_const(p->ix, 0) : tile_symbol(p, dim);
    out->extent = d->extent;
    if (e->kind != IX_MOD)
        return true;
    if (e->value % d->size != 0 || d->extent % e->value != 0)
        return false;
    out->extent = e->value;
    out->at = ix_mod(p->ix, out->at, e->value / d->size);
    return true;
}

static bool add_dim(const TileProgram *p, const TileOp *op, TileView *v,
                    const IndexExpr *e, int64_t stride)
{
    TileViewDim d = {.stride = stride, .dim = TILE_NO_DIM, .tile = 1};
    if (v->rank == TILE_VIEW_MOST_RANK || stride <= 0 || e->range.lo < 0)
        return false;
    if (is_even(p, op, e)) {
        d.at = at_first(p, e);
        d.extent = e->range.hi + 1;
    } else if (!is_along_tile(p, e, &d)) {
        return false;
    }
    for (uint32_t i = 0; i < v->rank; i++) {
        if (d.dim != TILE_NO_DIM && v->dims[i].dim == d.dim)
            return false;
    }
    uint32_t at = v->rank++;
    for (; at > 0 && v->dims[at - 1].stride < stride; at--)
        v->dims[at] = v->dims[at - 1];
    v->dims[at] = d;
    return true;
}

/* Sums of so many terms at most are views. */
typedef struct Terms {
    const IndexExpr *expr[2 * TILE_VIEW_MOST_RANK];
    int64_t stride[2 * TILE_VIEW_MOST_RANK];
    uint32_t count;
} Terms;

/* e * stride as terms, constants as the view's offset. */
static bool add_terms(TileView *v, Terms *t, const IndexExpr *e, int64_t stride)
{
    if (e->kind == IX_CONST) {
        v->offset += e->value * stride;
        return true;
    }
    if (e->kind == IX_ADD)
        return add_terms(v, t, e->a, stride) && add_terms(v, t, e->b, stride);
    if (e->kind == IX_MUL)
        return add_terms(v, t, e->a, stride * e->value);
    if (t->count == sizeof t->expr / sizeof *t->expr)
        return false;
    t->expr[t->count] = e;
    t->stride[t->count++] = stride;
    return true;
}

/* x mod c + c ((x floordiv c) mod d) -> x mod (c d): two dimensions of an array that a tile goes through as one. */
static void join_remainders(const TileProgram *p, Terms *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        for (uint32_t k = 0; k < t->count; k++) {
            const IndexExpr *low = t->expr[i], *high = t->expr[k];
            if (low->kind != IX_MOD || high->kind != IX_MOD ||
                t->stride[k] != t->stride[i] * low->value ||
                high->a != ix_floordiv(p->ix, low->a, low->value))
                continue;
            t->expr[i] = ix_mod(p->ix, low->a, low->value * high->value);
            t->count--;
            t->expr[k] = t->expr[t->count];
            t->stride[k] = t->stride[t->count];
            join_remainders(p, t);
            return;
        }
    }
}

/* What is left out behind an extent is all that the constraints leave out: it shrinks. */
static bool take_constraints(TileView *v, const TileOp *op)
{
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        const IndexConstraint *c = &op->constraints[i];
        TileViewDim *d = NULL;
        if (c->range.lo <= c->expr->range.lo && c->range.hi >= c->expr->range.hi)
            continue;
        for (uint32_t k = 0; k < v->rank && c->expr->kind == IX_DIM; k++) {
            if (v->dims[k].dim == (int)c->expr->value)
                d = &v->dims[k];
        }
        if (d == NULL || c->range.lo > 0 || c->range.hi < 0 ||
            d->extent != c->expr->range.hi + 1)
            return false;
        if (c->range.hi + 1 < d->extent)
            d->extent = c->range.hi + 1;
    }
    return true;
}

bool tile_view(const TileProgram *p, const TileOp *op, TileView *out)
{
    Terms terms = {.count = 0};
    *out = (TileView){0};
    const IndexExpr *at = index_linear(p->ix, op->shape, op->index);
    if (!add_terms(out, &terms, at, 1))
        return false;
    join_remainders(p, &terms);
    for (uint32_t i = 0; i < terms.count; i++) {
        if (!add_dim(p, op, out, terms.expr[i], terms.stride[i]))
            return false;
    }
    return take_constraints(out, op) && out->rank != 0 && out->offset >= 0;
}
