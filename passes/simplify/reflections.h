/* Reflections h = 1 - t v v^H, in HLO: what qr and its like are made of. */
#ifndef GXC_PASSES_SIMPLIFY_REFLECTIONS_H
#define GXC_PASSES_SIMPLIFY_REFLECTIONS_H

#include "passes/simplify/columns.h"

/* What a step makes of its column: the element that is left, v and t. */
typedef struct Reflection {
    Instruction *diagonal, *v, *t;
} Reflection;

/* h^H makes the column zero below row c->i: h = 1, t = 0, where it is already. */
Reflection reflection_of(Columns *c, Instruction *column);
/* What of a column is v: all below row c->i; 1 in that row, 0 above, where the column holds other things. */
Instruction *reflection_vector(Columns *c, Instruction *column);
/* a - t v (v^H a) */
Instruction *reflection_apply(Columns *c, Instruction *a, Instruction *v, Instruction *t);

#endif
