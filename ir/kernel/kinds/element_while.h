/* Loops whose every element goes its own way: an element of what is carried depends on the same element of the trip
 * before, on scalars, and on arrays that stay as they are. Such a loop is one kernel, in which a thread makes all trips
 * for an element. */
#ifndef GXC_IR_KERNEL_KINDS_ELEMENT_WHILE_H
#define GXC_IR_KERNEL_KINDS_ELEMENT_WHILE_H

#include "ir/module.h"

typedef enum {
    WHILE_UNCHANGED, /* an array of any shape; read at any index */
    WHILE_ELEMENT,   /* of the loop's shape; a thread knows its own element */
    WHILE_SCALAR,    /* every thread computes it by itself */
} WhileRole;

typedef struct WhilePlan {
    const Instruction *loop; /* a while, whose operand is a tuple */
    const Computation *body;
    const Shape *shape; /* of the elements, layout included */
    int64_t trips;
    uint32_t count;         /* of carried values */
    const WhileRole *roles; /* [count] */
} WhilePlan;

/* NULL, or why the loop is none: static text. */
const char *while_plan(const Instruction *loop, Arena *a, WhilePlan *out);

#endif
