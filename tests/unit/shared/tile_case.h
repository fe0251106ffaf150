/* A tile program run tile by tile against the evaluator. */
#ifndef GXC_TESTS_UNIT_SHARED_TILE_CASE_H
#define GXC_TESTS_UNIT_SHARED_TILE_CASE_H

#include "ir/tile/tile.h"

/* Fails the test where they differ too much. */
typedef void TileCaseCompare(const char *name, const Literal *got, const Literal *want);

/* Fails the test unless the program, which was made of the fusion (kernel_case_fusion), keeps the rules and gives each
 * result as `compare` wants it. p is NULL where none was made: `why` then says why. */
void tile_case_check(Arena *a, const char *name, const Instruction *fusion,
                     const TileProgram *p, const char *why,
                     const Literal *const *arguments, TileCaseCompare *compare);

#endif
