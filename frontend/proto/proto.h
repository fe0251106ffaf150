/* HloModuleProto (and HloProto around it), the binary form that XLA and JAX write.
 *
 * Reading turns it into HLO text, which the parser reads like any other; so positions in
 * messages are positions in that text. Writing is direct. What the format has no field for
 * stands as text in the fields PROTO_TEXT and PROTO_LITERAL, which others skip. */
#ifndef GXC_FRONTEND_PROTO_PROTO_H
#define GXC_FRONTEND_PROTO_PROTO_H

#include "ir/base/text.h"
#include "ir/module.h"

enum {
    PROTO_TEXT =
        1000, /* of an instruction or module: further attributes, ", name=value" */
    PROTO_LITERAL = 1001, /* of an instruction: its constant as text */
    PROTO_DTYPE = 1000,   /* element types without a number of their own: this + DType */
};

/* Are these bytes a message of top-level fields of HloModuleProto or HloProto? */
bool proto_is(const char *data, size_t length);
/* They are not, but they begin as one: a part is missing, or damaged. */
bool proto_is_cut_off(const char *data, size_t length);
/* Replaces the text of `d` by the HLO text of the module; false after a message. */
bool proto_to_text(Diag *d);
/* The module as HloModuleProto. */
const char *proto_print(Arena *a, const Module *m, size_t *length);

/* -- wire format ----------------------------------------------------------------------- */

typedef struct Wire {
    const unsigned char *at, *end;
    bool damaged;
} Wire;

typedef struct Field {
    uint32_t number;
    uint32_t type;  /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value; /* types 0, 1, 5 */
    Wire bytes;     /* type 2 */
} Field;

bool wire_next(Wire *w,
               Field *out); /* false at the end, or when the message is damaged */
uint64_t wire_take_varint(Wire *w);

void wire_varint(Text *t, uint64_t value);
void wire_int(Text *t, uint32_t field, int64_t value);
void wire_flag(Text *t, uint32_t field, bool value); /* nothing if false */
void wire_bytes(Text *t, uint32_t field, const char *data, size_t length);
void wire_string(Text *t, uint32_t field, const char *s);
void wire_message(Text *t, uint32_t field, const Text *message);
void wire_float(Text *t, uint32_t field, float value);
void wire_ints(Text *t, uint32_t field, const int64_t *data, size_t count); /* packed */

/* The element type of a literal's data field in LiteralProto; 0 = it has none. */
uint32_t proto_literal_field(DType t);
/* Where an attribute stands in HloInstructionProto: a field of its own (an enum's number there
 * is ours plus `plus`), or a field of a message. Of ragged-dot's message 90, fields 1 to 4 stand
 * for those of the dot's message in its field 1; 5 and 6 for its own 2 and 3. */
bool proto_plain_field(AttrId id, uint32_t *field, int64_t *plus);
bool proto_nested_field(OpCode op, AttrId id, uint32_t *message, uint32_t *field);

/* mesh.c: NamedShardingProto, MeshAxesReplicaGroupListProto. */
void proto_put_named_sharding(Text *t, uint32_t field, const Sharding *s);
void proto_put_mesh_groups(Text *t, uint32_t field, const ReplicaGroups *g);

#endif
