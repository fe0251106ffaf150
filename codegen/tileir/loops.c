/* Loops over tiles: the band that a loop is about, and what is left beside it. See lower.h. */
#include "codegen/tileir/lower.h"

enum { SECTIONS = 3 /* of a loop: the tiles inside, and those before and behind them */ };

/* i32: 1 where one of these elements along one dimension is not at least what the loop asks for, else 0. */
static const TileIrTile *misses_some(TileIrLower *l, const TileOp *op,
                                     const TileIrTile *x, const TileOrder *order)
{
    static const char not_at_least[] = {2, 0}; /* less, or no number */
    const TileOp none = {.kind = TILE_IN_RANGE};
    if (x == NULL || order->rank != 1)
        return tileir_lacks(l, "a loop that asks for what more than rows have");
    const TileIrTile *in[] = {x, tileir_number(l, op->least_met, x)},
                     *is_below =
                         tileir_make(l, TILEIR_CMPF, TILEIR_I1, not_at_least, 2, in),
                     *ok =
                         tileir_is_there(l, &none, order, UINT32_C(1) << order->dims[0]);
    if (ok != NULL)
        is_below = tileir_both(l, is_below, tileir_spread(l, ok, x->sizes));
    const TileIrTile *choice[] = {is_below, tileir_bits(l, TILEIR_I32, 1, 1, x->sizes),
                                  tileir_bits(l, TILEIR_I32, 0, 1, x->sizes)};
    x = tileir_make(l, TILEIR_SELECT, TILEIR_I32, NULL, 3, choice);
    return tileir_combined(l, TILEIR_REDUCE, OP_MAXIMUM, x, 0);
}

/* The same of what it asks for first: of the loop's dimension all, as one tile. */
static const TileIrTile *misses_first(TileIrLower *l, const TileOp *op)
{
    enum { MOST_AT_ONCE = 1 << 14 };
    const TileOp *load = op->met_load;
    TileOrder order = tileir_order(l, load->dims);
    const TileProgram *p = l->p;
    if ((load->dims >> op->dim & 1) == 0)
        return misses_some(l, op, tileir_value(l, load, &order), &order);
    if (p->dims[op->dim].extent > MOST_AT_ONCE)
        return tileir_lacks(l, "a loop that asks for more than a tile can have");
    TileProgram whole = *p;
    while (whole.dims[op->dim].size < p->dims[op->dim].extent)
        whole.dims[op->dim].size *= 2;
    l->p = &whole;
    l->tile[op->dim] = tileir_bits(l, TILEIR_I32, 0, 0, NULL);
    const TileIrTile *misses = misses_some(l, op, tileir_load(l, load, &order), &order);
    l->tile[op->dim] = NULL;
    l->p = p;
    return misses;
}

/* All tiles where one is missed. */
static bool ask_first(TileIrLower *l, const TileOp *op, const TileIrTile **begin,
                      const TileIrTile **end)
{
    int64_t count = tile_count(&l->p->dims[op->dim]);
    const TileIrTile *misses = misses_first(l, op),
                     *all = tileir_bits(l, TILEIR_I32, (uint64_t)count, 0, NULL),
                     *behind = tileir_binary(l, TILEIR_SUBI, all, *end);
    if (misses == NULL)
        return false;
    *begin = tileir_binary(l, TILEIR_SUBI, *begin,
                           tileir_binary(l, TILEIR_MULI, *begin, misses));
    *end = tileir_binary(l, TILEIR_ADDI, *end,
                         tileir_binary(l, TILEIR_MULI, behind, misses));
    return true;
}

/* e, but at least and at most these. */
static const TileIrTile *between(TileIrLower *l, const TileOp *op, const IndexExpr *e,
                                 const TileIrTile *least, const TileIrTile *most)
{
    static const TileOrder none = {0};
    const TileIrTile *x = tileir_index(l, e, op, &none, false);
    return tileir_binary(l, TILEIR_MINI, tileir_binary(l, TILEIR_MAXI, x, least), most);
}

/* The sections' bounds, [SECTIONS + 1]; a section that the loop has not begins and ends with the same tile. False:
 * something is in the way. */
static bool find_bounds(TileIrLower *l, const TileOp *op, const TileIrTile **bounds)
{
    static const TileOrder none = {0};
    /* they may reach over the tiles that there are */
    const TileIrTile *count =
                         tileir_bits(l, TILEIR_I32,
                                     (uint64_t)tile_count(&l->p->dims[op->dim]), 0, NULL),
                     *zero = tileir_bits(l, TILEIR_I32, 0, 0, NULL),
                     *begin = tileir_index(l, op->begin, op, &none, false),
                     *first = tileir_binary(l, TILEIR_MAXI, begin, zero),
                     *end = tileir_index(l, op->end, op, &none, false);
    end = tileir_binary(l, TILEIR_MINI, end, count);
    if (op->most != NULL)
        end = tileir_binary(l, TILEIR_MINI, end, tileir_value(l, op->most, &none));
    if (op->rest == TILE_REST_FIRST && !ask_first(l, op, &first, &end))
        return false;
    bounds[0] = bounds[1] = first;
    bounds[2] = bounds[SECTIONS] = end;
    if (op->inside_begin != NULL && op->inside_begin != op->begin)
        bounds[1] = between(l, op, op->inside_begin, first, end);
    if (op->inside_end != NULL && op->inside_end != op->end)
        bounds[2] = between(l, op, op->inside_end, bounds[1], end);
    return bounds[1] != NULL && bounds[2] != NULL; /* made of the others, or the same */
}

static TileIrOp *begin_loop(TileIrLower *l, const TileOp *op, const TileIrTile *begin,
                            const TileIrTile *end, const TileIrTile *const *starts)
{
    const TileIrTile *limits[] = {begin, end, tileir_bits(l, TILEIR_I32, 1, 0, NULL)};
    uint32_t *types = ARENA_ARRAY(l->arena, uint32_t, (size_t)op->operand_count + 1);
    types[0] = tileir_type(l, TILEIR_I32, 0, NULL);
    for (uint32_t i = 0; i < op->operand_count; i++)
        types[i + 1] = starts[i]->value->type;
    TileIrOp *out = bytecode_op_counted(l->m, TILEIR_FOR, op->operand_count, types + 1);
    bytecode_operand_count(out, 3 + op->operand_count);
    for (uint32_t i = 0; i < 3; i++)
        bytecode_operand(out, limits[i]->value);
    for (uint32_t i = 0; i < op->operand_count; i++)
        bytecode_operand(out, starts[i]->value);
    bytecode_body(out, op->operand_count + 1, types);
    return out;
}

/* What the loop carries is known by its CARRIED or FINAL operations. */
static void name_carried(TileIrLower *l, const TileOp *loop, TileKind kind,
                         const TileIrTile *const *tiles)
{
    for (uint32_t i = 0; i < l->p->op_count; i++) {
        const TileOp *op = l->ops[i];
        if (op == NULL || op->kind != kind || op->loop != loop)
            continue;
        TileOrder order = tileir_order(l, loop->operands[op->number]->dims);
        tileir_remember(l, op, &order, tiles[op->number]);
    }
}

static bool make_body(TileIrLower *l, const TileOp *op, TileIrBlock *body)
{
    TileIrOp *next = bytecode_op_counted(l->m, TILEIR_CONTINUE, 0, NULL);
    bytecode_operand_count(next, op->operand_count);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        TileOrder order = tileir_order(l, op->operands[i]->dims);
        const TileIrTile *t = tileir_value(l, op->next[i], &order);
        if (t == NULL)
            return false;
        bytecode_operand(next, t->value);
    }
    bytecode_append(body, next);
    return true;
}

/* Tiles begin .. end - 1; `carried` goes in and comes out. */
static bool make_section(TileIrLower *l, const TileOp *op, const TileIrTile *begin,
                         const TileIrTile *end, const TileIrTile **carried)
{
    uint32_t count = op->operand_count;
    const TileIrTile **inside = ARENA_ARRAY(l->arena, const TileIrTile *, count + 1);
    TileIrOp *loop = begin_loop(l, op, begin, end, carried);
    TileIrBlock *at = l->at, *body = bytecode_loop_body(loop);
    TileIrTile *number = ARENA_NEW(l->arena, TileIrTile);
    *number = (TileIrTile){.value = &body->arguments[0], .element = TILEIR_I32};
    for (uint32_t i = 0; i < count; i++) {
        TileIrTile *t = ARENA_NEW(l->arena, TileIrTile);
        *t = *carried[i];
        t->value = &body->arguments[i + 1];
        inside[i] = t;
    }
    for (uint32_t i = 0; i < l->p->op_count; i++) { /* of the section before */
        if (l->ops[i] != NULL && l->ops[i]->depth > op->depth)
            l->memo[i] = NULL;
    }
    l->tile[op->dim] = number;
    l->blocks[op->depth + 1] = l->at = body;
    name_carried(l, op, TILE_CARRIED, inside);
    if (!make_body(l, op, body))
        return false;
    l->tile[op->dim] = NULL;
    l->at = at;
    bytecode_append(at, loop);
    for (uint32_t i = 0; i < count; i++)
        carried[i] = tileir_tile_of(l, loop, i, carried[i]->element, carried[i]->rank,
                                    carried[i]->sizes);
    return true;
}

/* The tiles behind and before begin .. end - 1, if they are needed. */
static bool make_rest(TileIrLower *l, const TileOp *op, const TileIrTile *begin,
                      const TileIrTile *end, const TileIrTile **carried)
{
    int64_t count = tile_count(&l->p->dims[op->dim]);
    TileOrder order = tileir_order(l, op->operands[op->met]->dims);
    const TileIrTile *misses = misses_some(l, op, carried[op->met], &order),
                     *zero = tileir_bits(l, TILEIR_I32, 0, 0, NULL),
                     *all = tileir_bits(l, TILEIR_I32, (uint64_t)count, 0, NULL),
                     *behind = tileir_binary(l, TILEIR_SUBI, all, end);
    if (misses == NULL)
        return false;
    behind = tileir_binary(l, TILEIR_MULI, behind, misses);
    if (!make_section(l, op, end, tileir_binary(l, TILEIR_ADDI, end, behind), carried))
        return false;
    return op->begin->kind == IX_CONST ||
           make_section(l, op, zero, tileir_binary(l, TILEIR_MULI, begin, misses),
                        carried);
}

/* A loop for each section: predicates that are known inside are not computed there. */
bool tileir_loop(TileIrLower *l, const TileOp *op)
{
    const TileIrTile *bounds[SECTIONS + 1],
        **carried =
            ARENA_ARRAY(l->arena, const TileIrTile *, (size_t)op->operand_count + 1);
    if (op->depth + 1 > TILE_MOST_DIMS || !find_bounds(l, op, bounds))
        return false;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        TileOrder order = tileir_order(l, op->operands[i]->dims);
        carried[i] = tileir_value(l, op->operands[i], &order);
        if (carried[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; i < SECTIONS; i++) {
        l->is_inside = i == 1 && op->inside_begin != NULL;
        if (bounds[i] != bounds[i + 1] &&
            !make_section(l, op, bounds[i], bounds[i + 1], carried))
            return false;
    }
    l->is_inside = false;
    if (op->rest == TILE_REST_AFTER &&
        !make_rest(l, op, bounds[0], bounds[SECTIONS], carried))
        return false;
    name_carried(l, op, TILE_FINAL, carried);
    return true;
}
