/* Loads in front of what waits for them. Several rounds of a loop that are written one behind the other read one
 * behind the other, too, and a square root or a division is a branch for the assembler, which moves no load across
 * it: a thread then has a single access under way, and memory waits. */
#ifndef GXC_CODEGEN_GX_HOIST_H
#define GXC_CODEGEN_GX_HOIST_H

#include "codegen/gx/gx.h"

enum { GX_HOIST_ROUNDS = 16 }; /* that may begin behind a branch */

typedef struct GxHoist {
    LLVMBasicBlockRef loads, code[GX_HOIST_ROUNDS];
    unsigned count;
} GxHoist;

/* Between the two nothing may store to what is read. What is written in a branch stays there. */
void gx_hoist_begin(Kernel *k, GxHoist *h);
/* Another round begins: what runs then runs in any case, whatever branches stand before it. */
void gx_hoist_round(Kernel *k, GxHoist *h);
/* Moves the loads of arguments, and what their addresses are computed from, in front of all else. */
void gx_hoist_end(Kernel *k, const GxHoist *h);

#endif
