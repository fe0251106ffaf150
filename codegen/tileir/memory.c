/* Loads and stores: through a view of the array where it has one (ir/tile/view.h), else by an address for each
 * element. See lower.h. */
#include <string.h>

#include "codegen/kernel/emitters.h"
#include "codegen/tileir/lower.h"
#include "ir/tile/view.h"

/* -- pointers ------------------------------------------------------------------------------------- */

/* Argument of an operation's array, some elements on. */
static const TileIrTile *pointer_to(TileIrLower *l, uint32_t argument, int64_t offset)
{
    const TileIrTile *p = l->arguments[argument];
    if (offset == 0)
        return p;
    TileIrOp *op = bytecode_op(l->m, TILEIR_OFFSET, 1, &p->value->type, NULL);
    bytecode_operand(op, p->value);
    bytecode_operand(op, tileir_bits(l, TILEIR_I64, (uint64_t)offset, 0, NULL)->value);
    bytecode_append(l->at, op);
    return tileir_tile_of(l, op, 0, p->element, 0, NULL);
}

/* A view's tiles; NULL if there are none. */
static const TileIrValue *make_view(TileIrLower *l, const TileView *v,
                                    TileIrScalar element, uint32_t argument)
{
    int64_t extents[TILE_VIEW_MOST_RANK], strides[TILE_VIEW_MOST_RANK],
        tile[TILE_VIEW_MOST_RANK];
    for (uint32_t i = 0; i < v->rank; i++) {
        extents[i] = v->dims[i].extent;
        strides[i] = v->dims[i].stride;
        tile[i] = v->dims[i].tile;
    }
    TileIrBlock *at = l->at;
    l->at = l->blocks[0];
    const TileIrTile *pointer = pointer_to(l, argument, v->offset);
    uint32_t type = bytecode_tensor_view(l->m, element, v->rank, extents, strides);
    TileIrOp *view = bytecode_op_counted(l->m, TILEIR_TENSOR, 1, &type);
    bytecode_operand(view, pointer->value);
    bytecode_operand_count(view, 0);
    bytecode_operand_count(view, 0);
    bytecode_append(l->at, view);
    type = bytecode_partition_view(l->m, type, v->rank, tile);
    TileIrOp *tiles = bytecode_op(l->m, TILEIR_PARTITION, 1, &type, NULL);
    bytecode_operand(tiles, bytecode_result(view, 0));
    bytecode_append(l->at, tiles);
    l->at = at;
    return bytecode_result(tiles, 0);
}

/* Which tile of the view. */
static bool add_position(TileIrLower *l, TileIrOp *op, const TileOp *of,
                         const TileView *v)
{
    static const TileOrder none = {0};
    const TileIrTile *at[TILE_VIEW_MOST_RANK];
    for (uint32_t i = 0; i < v->rank; i++) {
        if (tileir_is_wide(v->dims[i].at)) {
            tileir_lacks(l, "a tile's number needs more than 32 bits");
            return false;
        }
        at[i] = tileir_index(l, v->dims[i].at, of, &none, false);
        if (at[i] == NULL)
            return false;
    }
    bytecode_operand_count(op, v->rank);
    for (uint32_t i = 0; i < v->rank; i++)
        bytecode_operand(op, at[i]->value);
    return true;
}

/* The view's order of the program's dimensions, and its tile's sizes. */
static TileOrder view_order(const TileView *v, int64_t *tile)
{
    TileOrder order = {0};
    for (uint32_t i = 0; i < v->rank; i++) {
        tile[i] = v->dims[i].tile;
        if (v->dims[i].dim != TILE_NO_DIM)
            order.dims[order.rank++] = (uint8_t)v->dims[i].dim;
    }
    return order;
}

static void order_sizes(const TileIrLower *l, const TileOrder *order, int64_t *sizes)
{
    for (uint32_t i = 0; i < order->rank; i++)
        sizes[i] = l->p->dims[order->dims[i]].size;
}

/* The address of each element. */
static const TileIrTile *addresses(TileIrLower *l, const TileOp *op, uint32_t argument,
                                   const TileOrder *order)
{
    int64_t ones[TILE_MOST_DIMS] = {1, 1, 1, 1, 1, 1}, sizes[TILE_MOST_DIMS];
    const IndexExpr *at = index_linear(l->p->ix, op->shape, op->index);
    const TileIrTile *offsets = tileir_index(l, at, op, order, tileir_is_wide(at));
    const TileIrTile *base = l->arguments[argument];
    order_sizes(l, order, sizes);
    offsets = tileir_spread(l, offsets, sizes);
    if (offsets == NULL)
        return NULL;
    uint32_t pointer = bytecode_pointer(l->m, base->element),
             type = bytecode_tile(l->m, pointer, order->rank, ones);
    const TileIrValue *v = base->value;
    for (uint32_t i = 0; i < 2 && order->rank != 0; i++) {
        TileIrOp *spread =
            bytecode_op(l->m, i == 0 ? TILEIR_RESHAPE : TILEIR_BROADCAST, 1, &type, NULL);
        bytecode_operand(spread, v);
        bytecode_append(l->at, spread);
        v = bytecode_result(spread, 0);
        type = bytecode_tile(l->m, pointer, order->rank, sizes);
    }
    TileIrOp *o = bytecode_op(l->m, TILEIR_OFFSET, 1, &type, NULL);
    bytecode_operand(o, v);
    bytecode_operand(o, offsets->value);
    bytecode_append(l->at, o);
    return tileir_tile_of(l, o, 0, base->element, order->rank, sizes);
}

/* -- loads ---------------------------------------------------------------------------------------- */

static uint32_t token_type(TileIrLower *l)
{
    return bytecode_scalar(l->m, TILEIR_TOKEN);
}

/* The view's tile at hand, with all the view's dimensions. */
static const TileIrTile *load_tile(TileIrLower *l, const TileOp *op, const TileView *v,
                                   TileIrScalar element)
{
    int64_t tile[TILE_VIEW_MOST_RANK];
    view_order(v, tile);
    uint32_t types[] = {tileir_type(l, element, v->rank, tile), token_type(l)};
    TileIrOp *load = bytecode_op_counted(l->m, TILEIR_LOAD_VIEW, 2, types);
    bytecode_attribute(load, 0); /* no flags */
    bytecode_attribute(load, 0); /* weak */
    bytecode_operand(load, make_view(l, v, element, op->array));
    if (!add_position(l, load, op, v))
        return NULL;
    bytecode_append(l->at, load);
    return tileir_tile_of(l, load, 0, element, v->rank, tile);
}

static const TileIrTile *load_view(TileIrLower *l, const TileOp *op, const TileView *v,
                                   TileIrScalar element, TileOrder *order)
{
    int64_t tile[TILE_VIEW_MOST_RANK], sizes[TILE_MOST_DIMS];
    *order = view_order(v, tile);
    order_sizes(l, order, sizes);
    return tileir_reshape(l, load_tile(l, op, v, element), order->rank, sizes);
}

static const TileIrTile *load_each(TileIrLower *l, const TileOp *op, TileIrScalar element,
                                   const TileOrder *order)
{
    enum { MASK = 4, PADDING = 8 };
    int64_t sizes[TILE_MOST_DIMS];
    order_sizes(l, order, sizes);
    const TileIrTile *at = addresses(l, op, op->array, order),
                     *ok =
                         tileir_spread(l, tileir_is_there(l, op, order, op->dims), sizes);
    if (at == NULL || l->why != NULL)
        return NULL;
    const TileIrTile *zero =
        ok == NULL ? NULL : tileir_bits(l, element, 0, order->rank, sizes);
    uint32_t types[] = {tileir_type(l, element, order->rank, sizes), token_type(l)};
    TileIrOp *load = bytecode_op(l->m, TILEIR_LOAD_PTR, 2, types, NULL);
    bytecode_attribute(load, ok == NULL ? 0 : MASK | PADDING);
    bytecode_attribute(load, 0); /* weak */
    bytecode_operand(load, at->value);
    if (ok != NULL) {
        bytecode_operand(load, ok->value);
        bytecode_operand(load, zero->value);
    }
    bytecode_append(l->at, load);
    return tileir_tile_of(l, load, 0, element, order->rank, sizes);
}

const TileIrTile *tileir_load_row(TileIrLower *l, const TileOp *op, int64_t size)
{
    TileView v = {.rank = 1};
    TileIrScalar element = TILEIR_I8;
    v.dims[0] = (TileViewDim){.at = ix_const(l->p->ix, 0),
                              .extent = op->shape->dims[0],
                              .stride = 1,
                              .tile = size,
                              .dim = TILE_NO_DIM};
    tileir_type_of(op->shape->dtype, true, &element);
    return load_tile(l, op, &v, element);
}

/* Predicates are bytes in memory. */
static const TileIrTile *from_memory(TileIrLower *l, const TileIrTile *x, DType t)
{
    if (x == NULL || t != DT_PRED)
        return x;
    const TileIrTile *in[] = {x, tileir_bits(l, TILEIR_I8, 0, x->rank, x->sizes)};
    return tileir_make(l, TILEIR_CMPI, TILEIR_I1, "\1\0", 2, in);
}

const TileIrTile *tileir_load(TileIrLower *l, const TileOp *op, const TileOrder *order)
{
    TileIrScalar element;
    TileOrder own = tileir_order(l, op->dims);
    TileView v;
    if (!tileir_type_of(op->dtype, true, &element))
        return tileir_lacks(l, "Tile IR has no such type");
    const TileIrTile *x = tile_view(l->p, op, &v) ? load_view(l, op, &v, element, &own)
                                                  : load_each(l, op, element, &own);
    return tileir_arrange(l, from_memory(l, x, op->dtype), &own, order);
}

/* -- stores --------------------------------------------------------------------------------------- */

static const TileIrTile *to_memory(TileIrLower *l, const TileIrTile *x)
{
    return x == NULL || x->element != TILEIR_I1
               ? x
               : tileir_make(l, TILEIR_EXTI, TILEIR_I8, "\0", 1, &x);
}

static bool store_view(TileIrLower *l, const TileOp *op, const TileView *v,
                       uint32_t argument)
{
    int64_t tile[TILE_VIEW_MOST_RANK];
    TileOrder order = view_order(v, tile);
    const TileIrTile *x = to_memory(l, tileir_value(l, op->operands[0], &order));
    x = tileir_reshape(l, x, v->rank, tile);
    if (x == NULL)
        return false;
    uint32_t type = token_type(l);
    TileIrOp *store = bytecode_op_counted(l->m, TILEIR_STORE_VIEW, 1, &type);
    bytecode_attribute(store, 0); /* no flags */
    bytecode_attribute(store, 0); /* weak */
    bytecode_operand(store, x->value);
    bytecode_operand(store, make_view(l, v, x->element, argument));
    if (!add_position(l, store, op, v))
        return false;
    bytecode_append(l->at, store);
    return true;
}

static bool store_each(TileIrLower *l, const TileOp *op, uint32_t argument)
{
    enum { MASK = 4 };
    TileOrder order = tileir_order(l, op->dims);
    int64_t sizes[TILE_MOST_DIMS];
    order_sizes(l, &order, sizes);
    const TileIrTile *x = to_memory(l, tileir_value(l, op->operands[0], &order)),
                     *at = addresses(l, op, argument, &order),
                     *ok = tileir_spread(l, tileir_is_there(l, op, &order, op->dims),
                                         sizes);
    if (x == NULL || at == NULL || l->why != NULL)
        return false;
    uint32_t type = token_type(l);
    TileIrOp *store = bytecode_op(l->m, TILEIR_STORE_PTR, 1, &type, NULL);
    bytecode_attribute(store, ok == NULL ? 0 : MASK);
    bytecode_attribute(store, 0); /* weak */
    bytecode_operand(store, at->value);
    bytecode_operand(store, x->value);
    if (ok != NULL)
        bytecode_operand(store, ok->value);
    bytecode_append(l->at, store);
    return true;
}

bool tileir_store(TileIrLower *l, const TileOp *op)
{
    uint32_t argument = fusion_result_arg(l->p->fusion, op->array);
    TileIrScalar element;
    TileView v;
    if (!tileir_type_of(op->dtype, true, &element)) {
        tileir_lacks(l, "Tile IR has no such type");
        return false;
    }
    bool is_view = tile_view(l->p, op, &v);
    for (uint32_t d = 0; d < l->p->dim_count && is_view; d++) {
        bool is_in = false;
        for (uint32_t i = 0; i < v.rank; i++)
            is_in |= v.dims[i].dim == (int)d;
        is_view = is_in || (op->operands[0]->dims >> d & 1) == 0 ||
                  !tile_has_coordinate(l->p, d);
    }
    return is_view ? store_view(l, op, &v, argument) : store_each(l, op, argument);
}
