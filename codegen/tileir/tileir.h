/* Tile programs as kernels of CUDA Tile IR, which NVIDIA's tileiras lays out for a GPU: what a block does as
 * operations on whole tiles, no threads, no shared memory. */
#ifndef GXC_CODEGEN_TILEIR_TILEIR_H
#define GXC_CODEGEN_TILEIR_TILEIR_H

#include "codegen/request.h"
#include "codegen/tileir/bytecode.h"
#include "ir/tile/tile.h"

/* Adds the kernel of a program to a module: arguments as the request has them, one block for each of the grid
 * (x only). `piece`, or NULL: the same program with smaller tiles along one dimension, by which what stands behind the
 * loop is made, a part of the tile after the other. False: *why, static text, says what Tile IR or this lowering lacks;
 * the module is of no use then. */
bool tileir_lower(TileIrModule *m, const TileProgram *p, const TileProgram *piece,
                  const KernelRequest *r, const Target *target, const TileIrHints *hints,
                  const char **why);

#endif
