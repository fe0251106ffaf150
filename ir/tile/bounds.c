/* Bounds of a loop over tiles of a score's columns: those that a band leaves out for all rows of a tile are not looked
 * at, and of those that it leaves out nothing of, its predicates are known. */
#include "ir/kernel/attention/attention.h"
#include "ir/tile/value.h"

/* The first row of the block's tile. */
static const IndexExpr *first_row(const TileProgram *p, uint32_t rows)
{
    const TileDim *m = &p->dims[rows];
    return ix_mul(p->ix, ix_symbol(p->ix, rows, (Range){0, tile_count(m) - 1}), m->size);
}

/* (row + offset) / columns of a tile, rounded down */
static const IndexExpr *tile_at(const TileProgram *p, const IndexExpr *row,
                                int64_t offset, const TileDim *n)
{
    return ix_floordiv(p->ix, ix_add(p->ix, row, ix_const(p->ix, offset)), n->size);
}

/* -- predicates ----------------------------------------------------------------------------------- */

/* A value of 32 bits as an expression; NULL: it is none. */
static const IndexExpr *expression(const TileProgram *p, const TileOp *op)
{
    const IndexExpr *x, *y;
    switch (op->kind) {
    case TILE_BROADCAST:
        return expression(p, op->operands[0]);
    case TILE_INDEX:
        return op->index[0];
    case TILE_CONSTANT:
        return op->dtype == DT_S32 ? ix_const(p->ix, literal_int(op->literal, 0)) : NULL;
    case TILE_APPLY:
        if (op->dtype != DT_S32 ||
            (op->inst->op != OP_ADD && op->inst->op != OP_SUBTRACT))
            return NULL;
        x = expression(p, op->operands[0]);
        y = expression(p, op->operands[1]);
        if (x == NULL || y == NULL)
            return NULL;
        return ix_add(p->ix, x, op->inst->op == OP_ADD ? y : ix_mul(p->ix, y, -1));
    default:
        return NULL;
    }
}

/* Tiles all of whose scores the band keeps: columns less rows are in `apart`. */
typedef struct InsideBand {
    uint32_t rows, columns; /* dimensions */
    Range apart;
} InsideBand;

/* The range of `difference` in those tiles; false: it is not the columns less the rows, or the other way round, and a
 * constant. */
static bool known_range(const TileProgram *p, const InsideBand *s,
                        const IndexExpr *difference, Range *out)
{
    IndexContext *ix = p->ix;
    Range apart = s->apart;
    const IndexExpr *m = tile_coordinate(p, s->rows), *n = tile_coordinate(p, s->columns),
                    *turned = ix_add(ix, m, ix_mul(ix, n, -1)),
                    *more = ix_add(ix, difference, turned),
                    *less = ix_add(ix, difference, ix_mul(ix, turned, -1));
    if (more->kind == IX_CONST)
        *out = (Range){apart.lo + more->value, apart.hi + more->value};
    else if (less->kind == IX_CONST)
        *out = (Range){less->value - apart.hi, less->value - apart.lo};
    else
        return false;
    return true;
}

/* 1: all of the range are less, -1: none is, 0: some are. */
static int is_less(Range x, int64_t than)
{
    return x.hi < than ? 1 : x.lo >= than ? -1 : 0;
}

static int known_compare(const TileProgram *p, const TileOp *op, const InsideBand *s)
{
    const IndexExpr *x = expression(p, op->operands[0]),
                    *y = expression(p, op->operands[1]);
    Range r;
    if (x == NULL || y == NULL ||
        !known_range(p, s, ix_add(p->ix, x, ix_mul(p->ix, y, -1)), &r))
        return 0;
    switch (inst_int(op->inst, ATTR_DIRECTION, DIRECTION_EQ)) {
    case DIRECTION_LT:
        return is_less(r, 0);
    case DIRECTION_LE:
        return is_less(r, 1);
    case DIRECTION_GT:
        return -is_less(r, 1);
    case DIRECTION_GE:
        return -is_less(r, 0);
    default:
        return 0;
    }
}

/* Of coordinates within the extents. */
static int known_constraints(const TileProgram *p, const TileOp *op, const InsideBand *s)
{
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        Range r, all = op->constraints[i].range, may = op->constraints[i].expr->range;
        if (!known_range(p, s, op->constraints[i].expr, &r) ||
            (r.lo < all.lo && may.lo < all.lo) || (r.hi > all.hi && may.hi > all.hi))
            return 0;
    }
    return 1;
}

/* What is known of it inside; what is known of its operands stands there. */
static int known_predicate(const TileProgram *p, const TileOp *op, const InsideBand *s)
{
    if (op->dtype != DT_PRED)
        return 0;
    if (op->kind == TILE_IN_RANGE)
        return known_constraints(p, op, s);
    if (op->kind == TILE_BROADCAST)
        return op->operands[0]->known;
    if (op->kind != TILE_APPLY)
        return 0;
    int x = op->operands[0]->known,
        y = op->operand_count > 1 ? op->operands[1]->known : 0;
    switch (op->inst->op) {
    case OP_COMPARE:
        return known_compare(p, op, s);
    case OP_NOT:
        return -x;
    case OP_AND:
        return x < 0 || y < 0 ? -1 : x > 0 && y > 0;
    case OP_OR:
        return x > 0 || y > 0 ? 1 : -(x < 0 && y < 0);
    default:
        return 0;
    }
}

/* -- bounds --------------------------------------------------------------------------------------- */

/* Tiles all of whose scores the band keeps: columns from last row - left + 1 to first row + right. */
static void set_inside(const TileProgram *p, TileOp *loop, uint32_t rows,
                       const AttentionBand *band)
{
    const IndexExpr *first = first_row(p, rows);
    const TileDim *m = &p->dims[rows], *n = &p->dims[loop->dim];
    int64_t far = m->extent + n->extent;
    InsideBand inside = {.rows = rows,
                         .columns = loop->dim,
                         .apart = {band->has_left ? 1 - band->left : -far,
                                   band->has_right ? band->right : far}};
    bool is_any = false;
    for (uint32_t i = 0; i < loop->body.count; i++) {
        TileOp *op = loop->body.ops[i];
        op->known = (int8_t)known_predicate(p, op, &inside);
        is_any |= op->known != 0;
    }
    if (!is_any)
        return;
    loop->inside_begin = band->has_left
                             ? tile_at(p, first, m->size - 1 - band->left + n->size, n)
                             : loop->begin;
    loop->inside_end =
        band->has_right ? tile_at(p, first, band->right + 1, n) : loop->end;
}

void tile_set_bounds(const TileProgram *p, TileOp *loop, uint32_t rows,
                     const AttentionBand *band, bool skips)
{
    const IndexExpr *first = first_row(p, rows);
    const TileDim *m = &p->dims[rows], *n = &p->dims[loop->dim];
    loop->begin = ix_const(p->ix, 0);
    loop->end = ix_const(p->ix, tile_count(n));
    if (band->rows == 0)
        return;
    if (band->has_right && skips)
        loop->end = tile_at(p, first, m->size + band->right + n->size - 1, n);
    if (band->has_left && skips)
        loop->begin = tile_at(p, first, 1 - band->left, n);
    set_inside(p, loop, rows, band);
}

const TileOp *tile_known_choice(const TileOp *op)
{
    if (op->kind != TILE_APPLY || op->inst->op != OP_SELECT ||
        op->operands[0]->known == 0)
        return NULL;
    return op->operands[op->operands[0]->known > 0 ? 1 : 2];
}
