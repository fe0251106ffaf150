/* What passes share that ask cuDNN for graphs of several instructions. */
#ifndef GXC_PASSES_LIBRARY_GRAPHS_H
#define GXC_PASSES_LIBRARY_GRAPHS_H

#include "passes/pass.h"

/* Makes fusions for cuDNN in a computation. True: one of them took the place of what it was made from. Sets *wrapped where
 * it made computations, whether or not cuDNN takes them. */
typedef bool GraphVisit(Computation *comp, PassContext *cx, bool *wrapped);

/* Visits all that runs as a program, and removes what is left over. */
bool graphs_make(Module *m, PassContext *cx, GraphVisit *visit);

#endif
