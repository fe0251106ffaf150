/* Bounds of a loop over tiles of a score's columns: those that a band leaves out for all rows of a tile are not
 * looked at. */
#include "ir/kernel/attention/attention.h"
#include "ir/tile/value.h"

void tile_set_bounds(const TileProgram *p, TileOp *loop, uint32_t rows,
                     const AttentionBand *band)
{
    IndexContext *ix = p->ix;
    const TileDim *m = &p->dims[rows], *n = &p->dims[loop->dim];
    const IndexExpr *first =
        ix_mul(ix, ix_symbol(ix, rows, (Range){0, tile_count(m) - 1}), m->size);
    loop->begin = ix_const(ix, 0);
    loop->end = ix_const(ix, tile_count(n));
    if (band->rows == 0)
        return;
    if (band->has_right)
        loop->end = ix_floordiv(
            ix, ix_add(ix, first, ix_const(ix, m->size + band->right + n->size - 1)),
            n->size);
    if (band->has_left)
        loop->begin =
            ix_floordiv(ix, ix_add(ix, first, ix_const(ix, 1 - band->left)), n->size);
}
