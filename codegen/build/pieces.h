/* How a program's kernels are divided for the assembler. Starting it costs as much as a third of a
 * kernel, so it gets several kernels at a time; the pieces are linked. Where a piece ends is decided by the
 * kernels' own keys, so that a kernel more or less in a program changes its own piece only. */
#ifndef GXC_CODEGEN_BUILD_PIECES_H
#define GXC_CODEGEN_BUILD_PIECES_H

#include "codegen/request.h"
#include "ir/base/arena.h"

typedef struct Pieces {
    size_t
        *first;   /* [count + 1] first kernel of each piece, then the number of kernels */
    size_t count; /* at least 1 */
} Pieces;

/* One piece, which need not be linked, of few kernels and unless `is_linkable`. */
Pieces pieces_cut(Arena *a, const KernelRequest *requests, size_t count,
                  bool is_linkable);

#endif
