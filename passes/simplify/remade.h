/* Values that a loop makes again in each trip for less than it would read them for: masks, and what is chosen by them.
 *
 *   compare(broadcast(s), broadcast(t)), of arrays whose elements are each repeated very often
 *
 * pass_sink takes them into loops, pass_hoist leaves them there. */
#ifndef GXC_PASSES_SIMPLIFY_REMADE_H
#define GXC_PASSES_SIMPLIFY_REMADE_H

#include "ir/module.h"

enum { REMADE_SOURCES = 8 };

typedef struct Remade {
    Instruction *sources[REMADE_SOURCES]; /* small arrays that it is made of */
    uint32_t count;
} Remade;

/* False: its kernel reads more than a small part of what it writes, or does more than compare, choose and count. */
bool remade_find(Instruction *value, Remade *out);
/* Makes the value in `comp`, of these in the sources' stead. */
Instruction *remade_again(Computation *comp, Instruction *value, const Remade *r,
                          Instruction *const *sources, Arena *scratch);

#endif
