/* Index expressions as operations on tiles of integers. See lower.h. */
#include "codegen/tileir/lower.h"

/* -- expressions ---------------------------------------------------------------------------------- */

static bool fits_32(Range r)
{
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

bool tileir_is_wide(const IndexExpr *e)
{
    if (e == NULL)
        return false;
    return !fits_32(e->range) || tileir_is_wide(e->a) || tileir_is_wide(e->b);
}

static TileIrScalar integer_of(bool is_wide)
{
    return is_wide ? TILEIR_I64 : TILEIR_I32;
}

static const TileIrTile *widened(TileIrLower *l, const TileIrTile *x, bool is_wide,
                                 bool is_signed)
{
    return x == NULL ? NULL : tileir_resize(l, x, integer_of(is_wide), is_signed);
}

static const int64_t ones[TILEIR_MOST_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};

static const TileIrTile *constant(TileIrLower *l, int64_t value, uint32_t rank,
                                  bool is_wide)
{
    return tileir_bits(l, integer_of(is_wide), (uint64_t)value, rank, ones);
}

static const TileIrTile *tile_number(TileIrLower *l, uint32_t dim, uint32_t rank,
                                     bool is_wide)
{
    if (l->tile[dim] == NULL)
        return tileir_lacks(l, "a coordinate is needed outside its loop");
    return tileir_reshape(l, widened(l, l->tile[dim], is_wide, true), rank, ones);
}

/* 0, 1, 2, ... along a dimension. */
static const TileIrTile *positions(TileIrLower *l, uint32_t dim, const TileOrder *order,
                                   bool is_wide)
{
    int64_t size = l->p->dims[dim].size, sizes[TILE_MOST_DIMS];
    uint32_t type = tileir_type(l, TILEIR_I32, 1, &size);
    TileIrOp *op = bytecode_op(l->m, TILEIR_IOTA, 1, &type, NULL);
    bytecode_append(l->at, op);
    const TileIrTile *t = tileir_tile_of(l, op, 0, TILEIR_I32, 1, &size);
    for (uint32_t i = 0; i < order->rank; i++)
        sizes[i] = order->dims[i] == dim ? size : 1;
    return tileir_reshape(l, widened(l, t, is_wide, true), order->rank, sizes);
}

static bool has_dim(const TileOrder *order, uint32_t dim)
{
    for (uint32_t i = 0; i < order->rank; i++) {
        if (order->dims[i] == dim)
            return true;
    }
    return false;
}

/* A dimension that is not in the order: where its tile begins. */
static const TileIrTile *coordinate(TileIrLower *l, uint32_t dim, const TileOrder *order,
                                    bool is_wide)
{
    const TileDim *d = &l->p->dims[dim];
    const TileIrTile *first = NULL;
    if (d->kind != TILE_WHOLE)
        first = tileir_combine(l, TILEIR_MULI, NULL,
                               tile_number(l, dim, order->rank, is_wide),
                               constant(l, d->size, order->rank, is_wide));
    if (!has_dim(order, dim))
        return first != NULL ? first : constant(l, 0, order->rank, is_wide);
    const TileIrTile *x = positions(l, dim, order, is_wide);
    return first == NULL ? x : tileir_combine(l, TILEIR_ADDI, NULL, first, x);
}

static const TileIrTile *runtime(TileIrLower *l, uint32_t id, const TileOrder *order,
                                 bool is_wide)
{
    const TileOp *op = l->ops[id];
    TileOrder own = tileir_order(l, op->dims);
    int64_t sizes[TILE_MOST_DIMS];
    const TileIrTile *x = tileir_value(l, op, &own);
    bool is_signed = dtype_info[op->dtype].class == DTC_SINT;
    x = widened(l, x, is_wide, is_signed);
    TileOrder among = {0};
    for (uint32_t i = 0; i < order->rank; i++) {
        bool is_there = has_dim(&own, order->dims[i]);
        sizes[i] = is_there ? l->p->dims[order->dims[i]].size : 1;
        if (is_there)
            among.dims[among.rank++] = order->dims[i];
    }
    if (among.rank != own.rank)
        return tileir_lacks(l, "an index depends on more than its tile");
    return tileir_reshape(l, tileir_arrange(l, x, &own, &among), order->rank, sizes);
}

static const TileIrTile *divided(TileIrLower *l, const IndexExpr *e, const TileIrTile *x,
                                 const TileIrTile *by)
{
    bool is_positive = e->a->range.lo >= 0;
    return tileir_combine(l, TILEIR_DIVI, is_positive ? "\1\1" : "\1\2", x, by);
}

const TileIrTile *tileir_index(TileIrLower *l, const IndexExpr *e, const TileOp *op,
                               const TileOrder *order, bool is_wide)
{
    const TileIrTile *x = NULL, *y = NULL;
    if (e->a != NULL)
        x = tileir_index(l, e->a, op, order, is_wide);
    if (e->b != NULL)
        y = tileir_index(l, e->b, op, order, is_wide);
    else if (e->a != NULL)
        y = constant(l, e->value, order->rank, is_wide);
    switch (e->kind) {
    case IX_CONST:
        return constant(l, e->value, order->rank, is_wide);
    case IX_DIM:
        return coordinate(l, (uint32_t)e->value, order, is_wide);
    case IX_SYMBOL:
        return tile_number(l, (uint32_t)e->value, order->rank, is_wide);
    case IX_RUNTIME:
        return runtime(l, (uint32_t)e->value, order, is_wide);
    case IX_ADD:
        return tileir_combine(l, TILEIR_ADDI, NULL, x, y);
    case IX_MUL:
        return tileir_combine(l, TILEIR_MULI, NULL, x, y);
    case IX_FLOORDIV:
        return divided(l, e, x, y);
    case IX_MOD:
        break;
    }
    return tileir_combine(l, TILEIR_SUBI, NULL, x,
                          tileir_combine(l, TILEIR_MULI, NULL, divided(l, e, x, y), y));
}

/* -- what is there -------------------------------------------------------------------------------- */

enum { LESS = 2, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL };

static const TileIrTile *compared(TileIrLower *l, const TileIrTile *x, char predicate,
                                  int64_t value)
{
    if (x == NULL)
        return NULL;
    const char attributes[] = {predicate, 1};
    const TileIrTile *in[] = {
        x, tileir_bits(l, x->element, (uint64_t)value, x->rank, x->sizes)};
    return tileir_make(l, TILEIR_CMPI, TILEIR_I1, attributes, 2, in);
}

static const TileIrTile *holds(TileIrLower *l, const TileOp *op, const IndexConstraint *c,
                               const TileOrder *order)
{
    bool is_low = c->expr->range.lo<c->range.lo, is_high = c->expr->range.hi> c->range.hi;
    const TileIrTile *ok = NULL;
    if (!is_low && !is_high)
        return NULL;
    bool is_wide = tileir_is_wide(c->expr) || !fits_32(c->range);
    const TileIrTile *x = tileir_index(l, c->expr, op, order, is_wide);
    if (is_low)
        ok = compared(l, x, GREATER_OR_EQUAL, c->range.lo);
    return is_high ? tileir_both(l, ok, compared(l, x, LESS_OR_EQUAL, c->range.hi)) : ok;
}

const TileIrTile *tileir_is_there(TileIrLower *l, const TileOp *op,
                                  const TileOrder *order, uint32_t dims)
{
    const TileIrTile *ok = NULL;
    for (uint32_t i = 0; i < order->rank; i++) {
        uint32_t dim = order->dims[i];
        const TileDim *d = &l->p->dims[dim];
        if ((dims >> dim & 1) == 0 || d->extent % d->size == 0)
            continue;
        const IndexExpr *at = tile_coordinate(l->p, dim);
        ok = tileir_both(l, ok,
                         compared(l, tileir_index(l, at, op, order, !fits_32(at->range)),
                                  LESS, d->extent));
    }
    for (uint32_t i = 0; i < op->constraint_count; i++)
        ok = tileir_both(l, ok, holds(l, op, &op->constraints[i], order));
    return ok;
}
