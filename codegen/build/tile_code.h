/* A kernel by way of CUDA Tile IR. */
#ifndef GXC_CODEGEN_BUILD_TILE_CODE_H
#define GXC_CODEGEN_BUILD_TILE_CODE_H

#include "codegen/build/build.h"

/* Its bytecode, a module of this kernel alone, in the arena; false: out->why, static text, says what is in the way. */
bool tile_code_make(Arena *a, const Target *target, const KernelRequest *r,
                    TileCode *out);
/* Its cubin, or out->why. */
void tile_code_assemble(Arena *a, const Cuda *cuda, const Target *target,
                        const char *name, TileCode *out);

#endif
