/* Arrays that a tile program reads or writes as views: where the elements of a tile lie at a sum of strides times the
 * program's coordinates, a block's tile is one of a regular grid of tiles, which tensor memory accelerators
 * understand:
 *
 *   load 0 at [(m floordiv 512), k, (m mod 512)] of f[8,64,512]
 *     view of 8 x 64 x 512, tiles of 1 x 64 x 128, at [tile(m) floordiv 4, tile(k), tile(m) mod 4] */
#ifndef GXC_IR_TILE_VIEW_H
#define GXC_IR_TILE_VIEW_H

#include "ir/tile/tile.h"

enum { TILE_NO_DIM = -1, TILE_VIEW_MOST_RANK = 8 };

typedef struct TileViewDim {
    const IndexExpr *at; /* number of the tile, over SYMBOLs */
    int64_t extent, stride, tile;
    int dim; /* of the program; TILE_NO_DIM: tiles of one */
} TileViewDim;

typedef struct TileView {
    uint32_t rank;
    TileViewDim dims[TILE_VIEW_MOST_RANK]; /* the largest stride first */
    int64_t offset;                        /* of the first element */
} TileView;

/* Of a load's or a store's array; false: it has none. */
bool tile_view(const TileProgram *p, const TileOp *op, TileView *out);

#endif
