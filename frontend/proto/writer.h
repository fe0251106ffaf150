/* What the files that write HloModuleProto share. Private to the writers of this folder. What they make on the way
 * lives in the writer's arena. */
#ifndef GXC_FRONTEND_PROTO_WRITER_H
#define GXC_FRONTEND_PROTO_WRITER_H

#include "frontend/proto/proto.h"

typedef struct Writer {
    Arena *arena;
    int64_t *first_id; /* of each computation's instructions */
} Writer;

/* Attributes that share a message with others: gathered, and written at the end. */
typedef struct Gathered {
    uint32_t count;
    struct {
        uint32_t number;
        Text text;
    } messages[6];
} Gathered;

/* -- write.c ------------------------------------------------------------------------- */
Text writer_message(Writer *w); /* an empty one */
void writer_put_ints(Text *t, uint32_t field, Ints ints);
void writer_put_number(Text *t, uint32_t field, int64_t value); /* nothing if 0 */

/* -- write_shape.c ------------------------------------------------------------------- */
void writer_put_shape(Writer *w, Text *t, uint32_t field, const Shape *s);
/* The format has fields for its elements, all of them. */
bool writer_takes_literal(const Literal *l);
void writer_put_literal(Writer *w, Text *t, uint32_t field, const Literal *l);

/* -- write_attribute.c --------------------------------------------------------------- */
/* False: the format has no field for this attribute. What shares a message is gathered in g. */
bool writer_put_attribute(Writer *w, Text *t, Gathered *g, const Instruction *inst,
                          const Attr *a);
void writer_put_gathered(Writer *w, Text *t, const Instruction *inst, Gathered *g);
void writer_put_dict(Writer *w, Text *t, uint32_t field, const Dict *dict);

#endif
