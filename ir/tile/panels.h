/* The order in which blocks take the tiles of a matrix. Those that run together find in L2 what they have in common
 * of both factors, if their tiles lie near one another: the slower dimension is cut into panels of so many tiles, the last
 * one narrower. Blocks go down a panel's column, then to the next column, and back in the next panel (planar snake), so
 * that its first columns are those that the one before read last. One tile a panel: row after row, each from its
 * beginning; all of them: column after column. */
#ifndef GXC_IR_TILE_PANELS_H
#define GXC_IR_TILE_PANELS_H

#include "ir/tile/tile.h"

enum { PANEL_SLOW, PANEL_FAST, PANEL_SIDES };

typedef struct TilePanels {
    uint32_t dims[PANEL_SIDES]; /* of the program */
    int64_t tiles[PANEL_SIDES]; /* along them; 0: the program has no such matrix */
    int64_t panel;              /* tiles along the slower one; 1, 0: row after row */
} TilePanels;

/* Of the last two dimensions of the program's grid, if tiles have several coordinates along both. */
TilePanels tile_panels(const TileProgram *p, int64_t panel);
/* Panels of a matrix; tiles of the last one along the slower dimension. */
int64_t tile_panel_count(const TilePanels *p);
int64_t tile_last_panel(const TilePanels *p);
/* Tile `number` of a matrix: which one it is along both dimensions. */
void tile_panels_at(const TilePanels *p, int64_t number, int64_t at[PANEL_SIDES]);
/* How many different ones of both dimensions `count` blocks have, from block `first` of a matrix on. */
void tile_panels_span(const TilePanels *p, int64_t first, int64_t count,
                      int64_t different[PANEL_SIDES]);

#endif
