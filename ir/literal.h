/* Literals: constant values of any shape.
 *
 * An array holds its elements in logical row-major order whatever the layout of its shape,
 * each in dtype_storage_bytes(dtype) bytes (types narrower than a byte: one value a byte;
 * pred: 0 or 1; complex: real, imaginary). */
#ifndef GXC_IR_LITERAL_H
#define GXC_IR_LITERAL_H

#include "ir/shape.h"

typedef struct Literal Literal;

struct Literal {
    const Shape *shape;
    void *data;         /* arrays; NULL if elided */
    int64_t count;      /* arrays: elements */
    Literal **elements; /* tuples: [shape->rank] */
    bool elided;        /* written {...}: the value is not known */
};

Literal *literal_create(Arena *a, const Shape *shape); /* all zero; tuples: recursively */
Literal *literal_copy(Arena *a, const Literal *l);
size_t literal_bytes(const Literal *l); /* of data; arrays only */
/* Bits, types and sizes, not layouts; an elided one equals only itself. */
bool literal_equal(const Literal *a, const Literal *b);
/* Every element is exactly value: -0 is not 0, NaN is nothing. Tuples, elided: false. */
bool literal_is_all(const Literal *l, double value);
bool literal_has_elided(const Literal *l);

/* Elements by logical row-major number. Integers are sign- or zero-extended. */
int64_t literal_int(const Literal *l, int64_t index);
double literal_double(const Literal *l, int64_t index);
uint64_t literal_bits(const Literal *l, int64_t index); /* types up to 64 bits */
void literal_set_int(Literal *l, int64_t index, int64_t value);
void literal_set_double(Literal *l, int64_t index, double value);
void literal_set_complex(Literal *l, int64_t index, double re, double im);

/* The bytes that device memory holds for the literal in an array of this shape: elements in
 * the order of the shape's layout, types below a byte packed. out: shape_bytes(shape). */
void literal_to_device(const Literal *l, const Shape *shape, void *out);

/* Text in the printed form of the language, section 10.9, one line. */
const char *literal_text(Arena *a, const Literal *l);
void literal_print(Text *t, const Literal *l); /* appends it */

#endif
