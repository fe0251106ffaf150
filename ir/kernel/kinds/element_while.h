/* Loops whose every element goes its own way: an element of what is carried depends on the same element of the trip
 * before, on scalars, and on arrays that stay as they are; each trip may write a piece of a larger array, as scans do.
 * Such a loop is one kernel, in which a thread makes all trips for an element. */
#ifndef GXC_IR_KERNEL_KINDS_ELEMENT_WHILE_H
#define GXC_IR_KERNEL_KINDS_ELEMENT_WHILE_H

#include "ir/analysis/index_map.h"

typedef enum {
    WHILE_UNCHANGED, /* an array of any shape; read at any index */
    WHILE_ELEMENT, /* of the loop's shape, or of its first dimensions; a thread knows its own element */
    WHILE_SCALAR, /* every thread computes it by itself */
    WHILE_FILLED, /* an array of which each trip writes a piece of the loop's shape */
} WhileRole;

typedef struct WhilePlan {
    const Instruction *loop; /* a while, whose operand is a tuple */
    const Computation *body;
    const Shape *shape; /* of the elements, layout included */
    int64_t trips;      /* -1: while `more` holds */
    const Instruction *
        more; /* of the condition: one for all threads, or, as WHILE_ELEMENT, one for each element */
    bool
        ends_alone; /* the second: an element stays as it is when its own value no longer holds */
    uint32_t count;         /* of carried values */
    const WhileRole *roles; /* [count] */
} WhilePlan;

/* NULL, or why the loop is none: static text. */
const char *while_plan(const Instruction *loop, Arena *a, WhilePlan *out);
/* How a loop ends whose trips are not known, by p->more and p->ends_alone; p has its roles. NULL, or why no thread can know
 * that: static text. Whether p->more is of elements remains to be seen. */
const char *while_find_end(WhilePlan *p, Arena *a);
/* What decides whether an element changes, where p->ends_alone. */
const Instruction *while_asks(const WhilePlan *p, uint32_t element);
/* Row-major, of the loop's shape or of its first dimensions: of several threads' elements then, each of which has it. */
bool while_is_rows(const WhilePlan *p, const Shape *s);
/* The value is in registers from trip to trip. */
bool while_carries(const WhilePlan *p, int64_t element);
/* The body computes with it, more than that it hands it on, or the condition that is asked does. */
bool while_reads(const WhilePlan *p, int64_t element);
/* What is written of a WHILE_FILLED array: dynamic-update-slice. */
const Instruction *while_update(const WhilePlan *p, uint32_t element);
/* In its piece, the index of the loop's element at index `own`. */
void while_piece_index(IndexContext *ix, const WhilePlan *p, uint32_t element,
                       const IndexExpr *const *own, const IndexExpr **out);

#endif
