/* Copies values of attributes - all that is immutable behind an instruction - from one arena into
 * another. What was shared stays shared, equal lists and texts become one, shapes are interned in
 * the new table, large literals are handed over as they lie. */
#ifndef GXC_IR_ATTRIBUTE_COPIER_H
#define GXC_IR_ATTRIBUTE_COPIER_H

#include "ir/module.h"

typedef struct CopierSlot {
    uint64_t key; /* address, or hash of the content */
    size_t bytes;
    const void *copy; /* NULL: free */
} CopierSlot;

typedef struct CopierTable {
    CopierSlot *slots;
    size_t capacity, count;
} CopierTable;

typedef struct Copier {
    Arena *from, *to;
    Arena *scratch;                   /* for the tables */
    Intern *intern;                   /* in `to` */
    Computation *const *computations; /* by id: what stands for each in the copy */
    CopierTable objects, contents;
} Copier;

/* NULL gives NULL, everywhere. */
Ints copy_ints(Copier *c, Ints ints);
Bytes copy_bytes(Copier *c, Bytes bytes);
const char *copy_text(Copier *c, const char *text);
const Shape *copy_shape(Copier *c, const Shape *s);
Shapes copy_shapes(Copier *c, Shapes shapes);
const Literal *copy_literal(Copier *c, const Literal *l);
const Dict *copy_dict(Copier *c, const Dict *d);
Aliasing copy_aliasing(Copier *c, Aliasing a);
/* An array without pointers in it. */
const void *copy_array(Copier *c, const void *data, size_t count, size_t size);
/* Of an Attr that was copied as it is: its value. */
void copy_attr_value(Copier *c, Attr *a);

#endif
