/* What passes share that ask cuDNN for graphs of several instructions. */
#ifndef GXC_PASSES_LIBRARY_GRAPHS_H
#define GXC_PASSES_LIBRARY_GRAPHS_H

#include "ir/module.h"
#include "passes/pass.h"

/* Makes fusions for cuDNN in a computation. True: one of them took the place of what it was made from. Sets *wrapped where
 * it made computations, whether or not cuDNN takes them. */
typedef bool GraphVisit(Computation *comp, PassContext *cx, bool *wrapped);

/* The computation that is visited, as it was before fusions were made. */
typedef struct GraphScope {
    Computation *comp;
    Arena *scratch;
    Uses uses;
    Instruction **order; /* operands before those that read them */
    uint32_t order_count;
    uint32_t count; /* instructions */
} GraphScope;

GraphScope graphs_scope(Computation *comp, PassContext *cx);

/* By id: what stands between `last`, which is one of it, and the arrays it is made of. NULL among those: none. */
bool *graphs_inside(const GraphScope *s, const Instruction *last,
                    const Instruction *const *arrays, uint32_t array_count);

/* It is the computation's result, or something reads it that is not inside. */
bool graphs_is_read_outside(const GraphScope *s, const Instruction *inst,
                            const bool *inside);

/* A fusion of `root` and what is inside, but for scalar constants; the library is set by the caller. */
Instruction *graphs_wrap(const GraphScope *s, Instruction *root, const bool *inside);

/* Visits all that runs as a program, and removes what is left over. */
bool graphs_make(Module *m, PassContext *cx, GraphVisit *visit);

#endif
