/* The state that lexer, grammar and actions of the MLIR text reader share.
 *
 * flex (mlir.l) makes tokens; what has a syntax of its own and comes often - types, the inside of
 * dense<...> - is one token. The grammar (mlir.y) knows the structure of MLIR and no operation: a pretty
 * form is a sequence of items, from which pretty.c makes the attributes and types of the generic form.
 * Lists lie on stacks, of which the grammar knows the number of entries. */
#ifndef GXC_FRONTEND_STABLEHLO_READER_H
#define GXC_FRONTEND_STABLEHLO_READER_H

#include "frontend/hlo/parser.h"
#include "frontend/stablehlo/mlir.h"

typedef struct MlirReader MlirReader;

/* A part of a pretty form that is not an operand: `name = value`, or a value alone. */
typedef struct MlirItem {
    const char *name; /* NULL: none */
    const MlirAttr *value;
} MlirItem;

/* What a name means. Leaving a region restores what it hid. */
typedef struct MlirName {
    uint32_t hash, length;
    const char *text;     /* in the source, % included; NULL: the slot is free */
    MlirValue *value;     /* NULL: not defined here */
    uint32_t value_count; /* %x:3 */
} MlirName;

/* A region that is being read. */
typedef struct MlirScope {
    size_t hidden_mark, op_mark, argument_mark;
    MlirRegion *region;
    uint32_t block_count;
} MlirScope;

/* An argument that is written before its region begins. */
typedef struct MlirArgument {
    Span name;
    const MlirType *type;
    const MlirAttr *location; /* NULL: not said */
} MlirArgument;

typedef struct TypeMemo {
    uint32_t hash, length;
    const char *text;
    const MlirType *type;
} TypeMemo;

typedef struct MlirResult {
    Span name;
    uint32_t count; /* %x:3 */
} MlirResult;

/* An operation that is being read: where its part of each stack begins. */
typedef struct MlirForm {
    Span name;
    size_t operand_mark, init_mark, item_mark, entry_mark, region_mark, argument_mark,
        result_mark, type_mark, function_mark;
    bool has_types, has_arrow; /* what stands behind ':' */
    bool is_pretty;            /* a name without quotes, in no rule of its own */
    bool after_value;          /* of a pretty form: the last item was a value */
    Span comma;                /* the last one */
    size_t scanned;            /* of a scan: how many inputs stand before its inits */
    uint32_t input_count, type_count; /* of the types: operands', then results' */
} MlirForm;

/* Where the arguments of a region are written. */
typedef enum {
    REGION_LABELLED, /* with a label in it */
    REGION_GIVEN,    /* before it */
    REGION_PAIRS     /* before it, in pairs: a reducer */
} RegionArguments;

struct MlirReader {
    Arena *arena;
    Arena *scratch; /* what the stacks lie in */
    Intern *intern;
    Diag *diag;
    const char *text;
    size_t length;
    void *scanner;     /* flex */
    char *scanned;     /* its copy of the text */
    bool in_name[256]; /* the bytes of words */
    uint32_t depth;
    bool is_refused; /* there is an operation that op_error does not know */
    MlirFile *file;
    TypeMemo *memo; /* open addressing */
    size_t memo_capacity, memo_count;
    MlirName *names; /* open addressing */
    size_t name_capacity, name_count;
    STACK(MlirName) hidden;
    STACK(MlirScope) scopes;
    STACK(MlirForm) forms;
    STACK(MlirValue *) operands;
    STACK(MlirValue *) inits; /* of a reduce's pretty form */
    STACK(MlirItem) items;
    STACK(MlirEntry) entries;
    STACK(const MlirAttr *) attrs;
    STACK(const MlirType *) types;
    STACK(MlirRegion *) regions;
    STACK(MlirArgument) arguments;
    STACK(MlirResult) results;
    STACK(MlirOp *) ops;
    STACK(MlirEntry) aliases;
    STACK(MlirEntry) type_aliases; /* value: an attribute of kind TYPE */
    STACK(MlirResource) resources;
    STACK(const MlirAttr *)
    function_attrs; /* dictionaries of arguments and results; NULL: none */
};

/* -- mlir.l -------------------------------------------------------------------------------- */
void mlir_lexer_open(MlirReader *r);

/* -- reader.c: types, attributes and names ------------------------------------------------- */
const MlirType *read_type(MlirReader *r, Span at); /* of a TYPE token; never NULL */
const MlirType *read_type_alias(MlirReader *r, Span at);
const MlirType *read_tuple(MlirReader *r, size_t count);
const MlirType *read_function(MlirReader *r, size_t inputs, size_t results);
const char *read_name(MlirReader *r, Span at); /* without % @ # ! and quotes */
Bytes read_string(MlirReader *r, Span at);     /* unescaped; its quotes are in the span */
const MlirAttr *read_attr(MlirReader *r, MlirAttrKind kind, Span at);
const MlirAttr *read_text_attr(MlirReader *r, MlirAttrKind kind, Span at);
const MlirAttr *read_integer(MlirReader *r, Span at, const MlirType *type);
const MlirAttr *read_float(MlirReader *r, Span at, const MlirType *type);
const MlirAttr *read_bool(MlirReader *r, Span at, bool value);
const MlirAttr *read_type_attr(MlirReader *r, Span at, const MlirType *type);
const MlirAttr *read_list(MlirReader *r, Span at, size_t count);
const MlirAttr *read_range(MlirReader *r, Span at, Span start, Span limit,
                           const Span *stride);
const MlirAttr *read_dict(MlirReader *r, Span at, size_t count);
const MlirAttr *read_struct(MlirReader *r, Span at, Span name, size_t count);
const MlirAttr *read_lists(MlirReader *r, Span at,
                           size_t count); /* [..] x [..] -> [..] */
const MlirAttr *read_dense(MlirReader *r, Span at, const MlirType *type);
const MlirAttr *read_location(MlirReader *r, Span at, const char *kind, size_t count);
void read_entry(MlirReader *r, const char *name, const MlirAttr *value);
void read_alias(MlirReader *r, Span name, const MlirAttr *value);
void read_alias_type(MlirReader *r, Span name, const MlirType *type);
void read_resource(MlirReader *r, Span name, Span value);
bool read_deeper(MlirReader *r, Span at);      /* false after a message */
MlirValue *read_value(MlirReader *r, Span at); /* a use; never NULL */
void read_define(MlirReader *r, Span at, MlirValue *first, uint32_t count);
void read_forget(MlirReader *r, size_t hidden_mark); /* restores what was hidden since */

/* -- ops.c: operations and regions --------------------------------------------------------- */
void op_begin(MlirReader *r);
void op_name(MlirReader *r, Span name);
void op_pretty(MlirReader *r, Span name);
/* What is wrong with the operation that is being read. Other dialects have pretty forms of their own: of an operation in one
 * that nothing here knows, this says its name instead, and nothing of what comes of that. */
void op_error(MlirReader *r, Span at, const char *format, ...) GXC_FORMAT(3, 4);
void op_item(MlirReader *r, const char *name, const MlirAttr *value);
void op_operand(MlirReader *r, Span at);
void op_separated(MlirReader *r, Span at); /* a value or word: a comma stands before it */
void op_result(MlirReader *r, Span name, Span count);
void op_argument(MlirReader *r, Span name, const MlirType *type,
                 const MlirAttr *location);
void op_loop_argument(MlirReader *r, Span name);
void op_scanned(MlirReader *r); /* the operands so far are a scan's inputs */
void op_scan_inits(MlirReader *r, Span word);
void op_types(MlirReader *r, size_t inputs, size_t results, bool has_arrow);
void op_attributes(MlirReader *r, const MlirAttr *dict); /* entries of it */
void op_end_generic(MlirReader *r, const MlirAttr *location);
void op_end_pretty(MlirReader *r, const MlirAttr *location);
void op_function_type(MlirReader *r, size_t arguments, size_t results);
void op_argument_attrs(MlirReader *r, const MlirAttr *dict); /* NULL: none */
void region_begin(MlirReader *r, Span at, RegionArguments arguments);
void region_block(MlirReader *r, Span label); /* its arguments are on the stack */
void region_end(MlirReader *r);
MlirForm *form_top(MlirReader *r);

/* -- pretty.c ------------------------------------------------------------------------------ */
/* Items of the form become entries on the stack; types that are not written are found. */
void pretty_finish(MlirReader *r);

#endif
