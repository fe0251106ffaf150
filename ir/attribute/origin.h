/* Which values of the original program an instruction's result holds: a tree of the shape's
 * structure with a name and a tuple index at the leaves. Read, copied and printed. */
#ifndef GXC_IR_ATTRIBUTE_ORIGIN_H
#define GXC_IR_ATTRIBUTE_ORIGIN_H

#include "ir/attribute/attribute.h"
#include "ir/base/text.h"

typedef enum {
    ORIGIN_EMPTY,
    ORIGIN_LEAF,
    ORIGIN_TUPLE,
    ORIGIN_SYNTHETIC_CALL
} OriginKind;

struct Origin {
    OriginKind kind;
    Bytes name; /* LEAF */
    Ints index; /* LEAF: may be empty */
    uint32_t count;
    const Origin *const *elements; /* TUPLE */
};

size_t origin_leaf_count(const Origin *o);
void origin_print(Text *t, const Origin *o); /* `{...}` with its braces */

#endif
