/* What MLIR text and MLIR bytecode give: operations with operands, regions, attributes and types.
 *
 * Both readers make the same form, in which the names of VHLO's versions are gone and the pretty
 * forms of text are the attributes of the generic form; convert.h makes a Module of it. Types carry
 * the shape that they are in HLO. Everything lives in the reader's arena and is not changed later,
 * but for MlirValue.inst, which the converter writes. A region has one block: control flow between
 * blocks has no HLO. */
#ifndef GXC_FRONTEND_STABLEHLO_MLIR_H
#define GXC_FRONTEND_STABLEHLO_MLIR_H

#include <stdarg.h>

#include "ir/module.h"

#define MLIR_DEPTH 256 /* of regions, of attributes and types in each other */

typedef struct MlirType MlirType;
typedef struct MlirAttr MlirAttr;
typedef struct MlirOp MlirOp;
typedef struct MlirRegion MlirRegion;

/* -- types --------------------------------------------------------------------------------- */

typedef enum {
    MLIR_TENSOR,
    MLIR_ELEMENT, /* f32, i64, index: of attributes */
    MLIR_TUPLE,
    MLIR_TOKEN,
    MLIR_FUNCTION,
    MLIR_OTHER /* without meaning in HLO */
} MlirTypeKind;

/* real = scale * (stored - zero_point), the stored numbers are min to max. */
typedef struct Quantized {
    DType storage, expressed;
    int64_t min, max;
    int64_t axis; /* -1: one scale for all */
    uint32_t count;
    const double *scales;
    const int64_t *zero_points;
} Quantized;

struct MlirType {
    MlirTypeKind kind;
    bool is_index;
    const Shape *
        shape; /* tensors, elements (scalars), tuples and tokens; quantised: of storage */
    const Quantized *quantized;         /* of a tensor or an element; NULL: it is not */
    uint32_t input_count, result_count; /* functions; tuples: inputs are the elements */
    const MlirType *const *inputs, *const *results;
    const char *text; /* MLIR_OTHER: as written */
};

bool mlir_type_equal(const MlirType *a, const MlirType *b);
/* As StableHLO writes it, such as tensor<2x?xf32>. */
const char *mlir_type_text(Arena *a, const MlirType *t);

/* The reader's side: makes types; equal names need not be the same pointer. */
const MlirType *mlir_element(Arena *a, Intern *t, DType dtype, bool is_index);
/* Sizes may be DIM_UNBOUNDED, then bounds (NULL, or one a dimension, DIM_UNBOUNDED where none). NULL:
 * this element type has no tensors. */
const MlirType *mlir_tensor(Arena *a, Intern *t, const MlirType *element, uint32_t rank,
                            const int64_t *dims, const int64_t *bounds);
const MlirType *mlir_tuple(Arena *a, Intern *t, uint32_t count,
                           const MlirType *const *elements);
const MlirType *mlir_function(Arena *a, uint32_t input_count,
                              const MlirType *const *inputs, uint32_t result_count,
                              const MlirType *const *results);
const MlirType *mlir_token(Arena *a, Intern *t);
const MlirType *mlir_other(Arena *a, const char *text, size_t length);
/* An element type's name in MLIR (i32, f8E4M3FN, index, ...); DT_INVALID: it is none of HLO. */
DType mlir_dtype(const char *name, size_t length, bool *is_index);
/* Reads the whole of `text` as a type that is written without names of others: tensors, elements,
 * quantised ones, tokens. NULL: it is no such type. quantized.c, types.c. */
const MlirType *mlir_parse_type(Arena *a, Intern *t, const char *text, size_t length);
/* What stands in !quant.uniform<...>; NULL: that is no quantised type. */
const Quantized *mlir_parse_quantized(Arena *a, const char *text, size_t length);
const MlirType *mlir_quantized(Arena *a, Intern *t, const Quantized *q);
/* The numbers that a quantised type's storage holds; false: nothing is stored in this type. */
bool mlir_storage_range(DType storage, int64_t *least, int64_t *most);

/* -- attributes ---------------------------------------------------------------------------- */

typedef enum {
    MLIR_UNIT,
    MLIR_BOOL,   /* i */
    MLIR_INT,    /* i, type may be NULL */
    MLIR_FLOAT,  /* f, type may be NULL */
    MLIR_STRING, /* text */
    MLIR_SYMBOL, /* text, without @ */
    MLIR_WORD,   /* text: a keyword, the value of an enumeration */
    MLIR_TYPE,   /* type */
    MLIR_LIST,   /* list */
    MLIR_DICT,   /* dict */
    MLIR_STRUCT, /* of a dialect: text its name, dict what is written in it, names may be NULL */
    MLIR_DENSE, /* type, and in `text` the source or, in bytecode, the bytes: mlir_literal */
    MLIR_ALIAS, /* text: name of an attribute that stands elsewhere, resolved by mlir_resolve */
    MLIR_OPAQUE /* of a dialect that means nothing here: text */
} MlirAttrKind;

typedef struct MlirEntry {
    const char *name; /* NULL: a value without one */
    const MlirAttr *value;
} MlirEntry;

typedef struct MlirDict {
    uint32_t count;
    const MlirEntry *entries;
} MlirDict;

struct MlirAttr {
    MlirAttrKind kind;
    Span span;
    const MlirType *type;
    union {
        int64_t i;
        double f;
        Bytes text;
        MlirDict dict;
        struct {
            uint32_t count;
            const MlirAttr *const *items;
        } list;
    };
    MlirDict fields; /* MLIR_STRUCT */
    bool is_source;  /* MLIR_DENSE: written as text */
};

const MlirAttr *mlir_find(MlirDict dict, const char *name); /* NULL: not there */
bool mlir_is_text(const MlirAttr *a, const char *text);     /* a string, word or symbol */

/* -- operations ---------------------------------------------------------------------------- */

typedef struct MlirValue {
    const MlirType *type;
    const char *name; /* as written, without %; NULL: none */
    Instruction *inst;
    const MlirRegion *region; /* that it is defined in; NULL: nowhere */
    const MlirOp *op;         /* that gives it; NULL: an argument */
    const MlirAttr *location; /* of an argument; NULL: not said */
    uint32_t index;           /* among the results or arguments */
    uint32_t uses;
    uint32_t mark;        /* of the converter's walks */
    const MlirType *part; /* of one device, in a program of manual computations */
} MlirValue;

struct MlirRegion {
    uint32_t argument_count, op_count;
    MlirValue *arguments;
    MlirOp **ops;
    Span span;
    bool is_open; /* the converter is in it, or in a region of it */
};

struct MlirOp {
    const char *name; /* "stablehlo.add" */
    Span span;
    uint32_t operand_count, result_count, region_count;
    MlirValue **operands;
    MlirValue *results;
    MlirRegion *const *regions;
    MlirDict attrs;
    const MlirAttr *location;
};

/* A blob that attributes refer to by name. */
typedef struct MlirResource {
    const char *name;
    Bytes data; /* without the alignment that it begins with */
} MlirResource;

typedef struct MlirFile {
    Arena *arena;
    Intern *intern;
    Diag *diag;
    MlirRegion *top;
    uint32_t alias_capacity; /* 0: it has none */
    MlirEntry *aliases;      /* [alias_capacity] hashed by name: of MLIR_ALIAS */
    uint32_t resource_count;
    const MlirResource *resources;
    bool is_text; /* spans are positions in the text of `diag` */
} MlirFile;

/* Follows aliases; NULL: there is no attribute of this name, or it is an alias of itself. */
const MlirAttr *mlir_resolve(const MlirFile *file, const MlirAttr *a);
void mlir_set_aliases(MlirFile *file, size_t count,
                      const MlirEntry *aliases); /* names interned */
/* The elements of a dense attribute, in `a`; NULL after a message. */
const Literal *mlir_literal(const MlirFile *file, Arena *a, const MlirAttr *dense);
/* The one element that stands for all of several; NULL: they are written one by one, or wrong. */
const Literal *mlir_splat(const MlirFile *file, Arena *a, const MlirAttr *dense);
/* Raw bytes - elements little-endian one after the other, those below a byte one in each, i1 packed
 * or one in each - as a literal; one element alone stands for all. NULL: the size is wrong. */
Literal *mlir_literal_of_bytes(Arena *a, const Shape *shape, const char *data,
                               size_t length);

/* -- readers ------------------------------------------------------------------------------- */

/* NULL after a message. The file and all it holds are in `a`; shapes are in `t`. */
MlirFile *mlir_read_text(Arena *a, Intern *t, Diag *d);
/* One attribute as text, without names of others; NULL: it is none, or means nothing here. */
const MlirAttr *mlir_read_attribute(Arena *a, Intern *t, Bytes text);
MlirFile *mlir_read_bytecode(Arena *a, Intern *t, Diag *d, const char *data,
                             size_t length);

#endif
