/* Finding collectives of one key that do not need one another, for passes that make one of
 * several: combiners, and groups that the program asks for. */
#ifndef GXC_PASSES_COLLECTIVES_COMBINE_INDEPENDENT_H
#define GXC_PASSES_COLLECTIVES_COMBINE_INDEPENDENT_H

#include "passes/collectives/collectives.h"

typedef struct Join Join;

struct Join {
    Module *m;
    Computation *comp; /* the one that is looked at */
    Arena *scratch;
    int64_t most_bytes, most_count; /* of one group, by the bytes of results */
    /* What must be equal, interned; NULL: the instruction stays alone. */
    const char *(*key)(const Join *j, const Instruction *inst);
    /* Makes one of `count` >= 2 members, adding instructions to comp. forward[member's id] is
     * what its users, edges[member's id] what its control successors are to name. */
    void (*join)(Join *j, Instruction *const *members, uint32_t count,
                 Instruction **forward, Instruction **edges);
    const void *kind; /* what key and join know besides */
    PassCounts *counts;
};

/* Groups and joins what it can in every program of the module. True: something was joined. */
bool independent_join(Join *j);

#endif
