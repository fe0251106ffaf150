/* MLIR's bytecode: sections of a file and the numbers in them. What the readers share.
 *
 * Everything is read with bounds, each table is as large as its bytes allow, and what refers to a position in a
 * table is looked up there when it is needed. */
#ifndef GXC_FRONTEND_STABLEHLO_BYTECODE_H
#define GXC_FRONTEND_STABLEHLO_BYTECODE_H

#include "frontend/stablehlo/mlir.h"
#include "frontend/stack.h"

typedef struct Bytecode Bytecode;

typedef struct ByteReader {
    const unsigned char *at, *end;
    bool damaged;
} ByteReader;

/* An attribute or a type: its bytes, and what they mean once that was asked for. */
typedef struct BytecodeEntry {
    ByteReader bytes;
    uint32_t dialect;
    bool is_text;      /* written as text, not in the dialect's own encoding */
    bool is_open;      /* being read */
    const void *value; /* MlirAttr or MlirType; NULL: not read yet, or wrong */
} BytecodeEntry;

typedef struct BytecodeOpName {
    const char *name; /* as the converter knows it */
    const char *
        properties; /* names of the attributes that an operation's properties are; "": none */
    bool is_optional; /* those may be absent */
    bool is_unknown;  /* properties of it cannot be read */
} BytecodeOpName;

struct Bytecode {
    Arena *arena, *scratch;
    Intern *intern;
    Diag *diag;
    MlirFile *file;
    const char *data;
    uint64_t version;
    uint32_t string_count, dialect_count, op_name_count, attr_count, type_count,
        property_count, blob_count;
    const Bytes *strings;
    const char **dialects;
    BytecodeOpName *op_names;
    BytecodeEntry *attrs, *types;
    const ByteReader *properties;
    const Bytes *blobs; /* resources of dialects */
    uint32_t depth;
    bool failed;
};

/* -- bytes.c: numbers; after the end, or what is no number, zeros and `damaged` ---------------- */
unsigned char bytes_byte(ByteReader *r);
uint64_t bytes_varint(ByteReader *r);
int64_t bytes_signed(ByteReader *r); /* zigzag */
uint64_t bytes_flagged(ByteReader *r, bool *flag);
ByteReader bytes_take(ByteReader *r, uint64_t count); /* the next ones */
/* A number of things of which each takes a byte at least. */
uint32_t bytes_count(ByteReader *r);
static inline size_t bytes_left(const ByteReader *r)
{
    return (size_t)(r->end - r->at);
}

/* -- bytecode.c ------------------------------------------------------------------------------ */
void *bytecode_error(Bytecode *b, const char *format, ...)
    GXC_FORMAT(2, 3); /* the first counts */
Bytes bytecode_string(Bytecode *b, ByteReader *r);

/* -- bytecode_attr.c: never NULL but after a message ----------------------------------------- */
const MlirAttr *bytecode_attr(Bytecode *b, uint64_t number);
const MlirType *bytecode_type(Bytecode *b, uint64_t number);
const MlirAttr *bytecode_sdy_attr(Bytecode *b, ByteReader *r); /* of the dialect sdy */

#endif
