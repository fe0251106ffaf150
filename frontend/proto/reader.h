/* What the files that read HloModuleProto share: messages as lists of fields, the text that is
 * made, ids and names. Private to the readers of this folder. */
#ifndef GXC_FRONTEND_PROTO_READER_H
#define GXC_FRONTEND_PROTO_READER_H

#include "frontend/proto/proto.h"
#include "ir/attribute/sharding.h"
#include "ir/op.h"

#define PROTO_DEPTH 512 /* of shapes, literals and modules inside each other */

/* All fields of one message. */
typedef struct Message {
    const Field *fields;
    size_t count;
} Message;

typedef struct Named {
    uint64_t id;
    const char *name;
    bool is_pred;    /* of an instruction: its shape is pred[] */
    Wire sequence;   /* of a computation in the schedule */
    size_t position; /* of an instruction in its computation */
} Named;

typedef struct Names {
    Named *data;
    size_t count, capacity;
} Names;

typedef struct Reader {
    Diag *d;
    Arena *a;
    Text t;
    Names computations, instructions, schedule; /* ascending by id */
    Bytes *payloads;                            /* of the module, named by number */
    size_t payload_count;
    const char *trouble; /* the first: what cannot be read */
    uint32_t depth;
} Reader;

/* -- message.c ----------------------------------------------------------------------- */
bool reader_trouble(Reader *r, const char *what); /* always false; the first one counts */
Message message_scan(Reader *r, Wire w);
const Field *message_find(Message m, uint32_t number);       /* the last; NULL: none */
int64_t message_int(Message m, uint32_t number);             /* 0: none */
Bytes message_bytes(Message m, uint32_t number);             /* length 0: none */
Message message_part(Reader *r, Message m, uint32_t number); /* no fields: none */
Ints message_ints(Reader *r, Message m, uint32_t number);    /* packed or not */
double message_double(Message m, uint32_t number);

/* Ids: names are added, then sorted, then found (NULL after a trouble). */
void reader_name(Reader *r, Names *n, uint64_t id, const char *name, bool is_pred);
void reader_sort(Names *n);
const Named *reader_lookup(const Names *n, uint64_t id); /* NULL: none */
const Named *reader_find(Reader *r, const Names *n, uint64_t id);
void reader_put_name(Reader *r, const Names *n, uint64_t id);
const char *reader_clean_name(Reader *r, Bytes name); /* as the language can write it */
/* A text, or the number of one that the module holds. */
Bytes reader_payload(Reader *r, Message payload);
Metadata reader_metadata(Reader *r, Message m);

/* -- read_shape.c -------------------------------------------------------------------- */
void reader_put_list(Text *t, Ints ints);
void reader_put_shape(Reader *r, Message shape);
/* `typed`: every array behind its shape, as in the literal of a custom-call. */
void reader_put_literal(Reader *r, Message literal, bool typed);

/* -- read_sharding.c ----------------------------------------------------------------- */
void reader_put_sharding(Reader *r, Message s);
void reader_put_groups(Reader *r, Message inst);

/* -- mesh.c -------------------------------------------------------------------------- */
/* NULL after a trouble. */
const Sharding *reader_named_sharding(Reader *r, Message named);
const ReplicaGroups *reader_mesh_groups(Reader *r, Message groups);

/* -- read_attribute.c ---------------------------------------------------------------- */
void reader_put_attribute(Reader *r, OpCode op, const OpAttr *row, Message inst);
void reader_put_callees(Reader *r, OpCode op, Message inst, bool by_pred);
void reader_put_shared(Reader *r, Message inst);
void reader_put_aliasing(Reader *r, Message m, uint32_t field, bool kinds);
void reader_put_origin_array(Reader *r, Message array); /* "name" {1,2} */
void reader_put_dict(Reader *r, Message m);

#endif
