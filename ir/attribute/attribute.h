/* Attributes of instructions: what stands behind the operands, `name=value`.
 *
 * attrs.def is the only list of them; an attribute has one kind, and everything generic over
 * attributes (parser, printer, comparison, hash, copy) goes by the kind. */
#ifndef GXC_IR_ATTRIBUTE_ATTRIBUTE_H
#define GXC_IR_ATTRIBUTE_ATTRIBUTE_H

#include "ir/base/diag.h"
#include "ir/literal.h"
#include "ir/shape.h"

typedef struct Computation Computation;
typedef struct Instruction Instruction;
typedef struct Sharding Sharding;           /* ir/attribute/sharding.h */
typedef struct ReplicaGroups ReplicaGroups; /* ir/attribute/replica_groups.h */
typedef struct Origin Origin;               /* ir/attribute/origin.h */
typedef struct Config Config;               /* ir/attribute/config.h */

typedef enum {
#define ATTR(id, ...) ATTR_##id,
#include "ir/attribute/attrs.def"
    ATTR_COUNT
} AttrId;

typedef enum {
    AK_INT,    /* int64_t i */
    AK_BOOL,   /* int64_t i: 0 or 1 */
    AK_FLOAT,  /* double f */
    AK_STRING, /* Bytes bytes */
    AK_CONFIG, /* const Config *config: STRING or JSON dict, unescaped if it was a string */
    AK_ENUM,   /* int64_t i: index in the attribute's list of names */
    AK_INTS,   /* Ints ints */
    AK_INTSS,        /* IntLists lists */
    AK_BOOLS,        /* Ints ints: 0 or 1 each */
    AK_ENUMS,        /* Ints ints: operand_precision */
    AK_COMPUTATION,  /* Computations computations (1) */
    AK_COMPUTATIONS, /* Computations computations */
    AK_INSTRUCTIONS, /* control-predecessors: kept in Instruction.control, never stored */
    AK_WINDOW,       /* const Window *window */
    AK_DIM_LABELS,   /* const DimLabels *labels */
    AK_PADDING,      /* const Padding *padding */
    AK_SLICE,        /* const SliceSpec *slice */
    AK_ALIASING,     /* const Aliasing *aliasing: output_to_operand_aliasing */
    AK_SHAPE,        /* const Shape *shape */
    AK_SHAPES,       /* Shapes shapes */
    AK_LITERAL,      /* const Literal *literal */
    AK_SHARDING,     /* const Sharding *sharding */
    AK_REPLICA_GROUPS, /* const ReplicaGroups *groups */
    AK_DOMAIN,         /* const Domain *domain */
    AK_SPARSITY,       /* const Sparsity *sparsity */
    AK_METADATA,       /* const Metadata *metadata */
    AK_DICT,           /* const Dict *dict: frontend_attributes, sorted by key */
    AK_STATISTICS,     /* const Statistics *statistics */
    AK_ACCURACY,       /* const Accuracy *accuracy */
    AK_ORIGIN,         /* const Origin *origin */
} AttrKind;

typedef struct Bytes {
    const char *data; /* NUL-terminated behind length, may hold NULs */
    size_t length;
} Bytes;
typedef struct Ints {
    const int64_t *data;
    uint32_t count;
} Ints;

/* Where it first stands; -1: nowhere. */
static inline int64_t ints_find(Ints list, int64_t x)
{
    for (uint32_t i = 0; i < list.count; i++) {
        if (list.data[i] == x)
            return i;
    }
    return -1;
}

static inline bool ints_contain(Ints list, int64_t x)
{
    return ints_find(list, x) >= 0;
}

/* Each is greater than the one before. */
static inline bool ints_ascend(Ints list)
{
    for (uint32_t i = 1; i < list.count; i++) {
        if (list.data[i] <= list.data[i - 1])
            return false;
    }
    return true;
}

bool ints_equal(Ints a, Ints b);
/* The part of a shape that an index path names; NULL if there is none. */
const Shape *shape_part(const Shape *s, Ints index);

typedef struct IntLists {
    const Ints *data;
    uint32_t count;
} IntLists;
typedef struct Shapes {
    const Shape *const *data;
    uint32_t count;
} Shapes;
typedef struct Computations {
    Computation **data;
    uint32_t count;
} Computations;

typedef struct WindowDim {
    int64_t size, stride, pad_low, pad_high, base_dilation, window_dilation;
    bool reversal;
} WindowDim;
typedef struct Window {
    uint32_t rank;
    const WindowDim *dims;
} Window;

/* Dimension numbers of a convolution. spatial[i] is the dimension that holds spatial i. */
typedef struct DimLabels {
    uint32_t spatial_rank;
    int64_t lhs_batch, lhs_feature;
    int64_t rhs_input, rhs_output;
    int64_t out_batch, out_feature;
    const int64_t *lhs_spatial, *rhs_spatial, *out_spatial; /* [spatial_rank] */
    /* The three parts as written, `?` included (they print back): "b01f" "01io" "b01f". */
    const char *lhs_text, *rhs_text, *out_text;
} DimLabels;

typedef struct PaddingDim {
    int64_t low, high, interior;
} PaddingDim;
typedef struct Padding {
    uint32_t rank;
    const PaddingDim *dims;
} Padding;

typedef struct SliceDim {
    int64_t start, limit, stride;
} SliceDim;
typedef struct SliceSpec {
    uint32_t rank;
    const SliceDim *dims;
} SliceSpec;

/* The first elements of each dimension, without gaps. */
static inline bool slice_is_first(const SliceSpec *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dims[i].start != 0 || s->dims[i].stride != 1)
            return false;
    }
    return true;
}

typedef struct AliasEntry {
    Ints output;     /* shape index in the result */
    int64_t operand; /* operand, or parameter number in a module's header */
    Ints input;      /* shape index in it */
    bool must;       /* header only: must-alias */
} AliasEntry;
typedef struct Aliasing {
    uint32_t count;
    const AliasEntry *entries;
} Aliasing;

typedef struct Domain {
    const Sharding *entry, *exit;
} Domain;

typedef struct SparsitySide {
    bool present;
    int64_t n, m, dimension, stride;
} SparsitySide;
typedef struct Sparsity {
    SparsitySide lhs, rhs;
} Sparsity;

typedef struct Metadata {
    Bytes op_type, op_name, source_file, deduplicated_name, scheduling_name, payload;
    int64_t source_line, source_end_line, source_column, source_end_column,
        stack_frame_id;
    Ints profile_types;
} Metadata;

typedef struct DictEntry {
    const char *key;
    Bytes value;
    bool json; /* printed raw, not quoted */
} DictEntry;
typedef struct Dict {
    uint32_t count;
    const DictEntry *entries;
} Dict;

typedef struct StatisticEntry {
    const char *name;
    double value;
} StatisticEntry;
typedef struct Statistics {
    int64_t visualizing_index;
    uint32_t count;
    const StatisticEntry *entries;
} Statistics;

typedef struct Accuracy {
    bool tolerance; /* else mode */
    bool highest;   /* mode=highest */
    double atol, rtol;
    int64_t ulps;
} Accuracy;

typedef struct Attr {
    AttrId id;
    Span span; /* of the name in the source */
    union {
        int64_t i;
        double f;
        Bytes bytes;
        Ints ints;
        IntLists lists;
        Shapes shapes;
        Computations computations;
        const Window *window;
        const DimLabels *labels;
        const Padding *padding;
        const SliceSpec *slice;
        const Aliasing *aliasing;
        const Shape *shape;
        const Literal *literal;
        const Sharding *sharding;
        const ReplicaGroups *groups;
        const Domain *domain;
        const Sparsity *sparsity;
        const Metadata *metadata;
        const Dict *dict;
        const Statistics *statistics;
        const Accuracy *accuracy;
        const Origin *origin;
        const Config *config;
    };
} Attr;

typedef struct AttrInfo {
    const char *name;
    AttrKind kind;
    bool shared;              /* every opcode may have it (section 8.4) */
    const char *const *names; /* AK_ENUM, AK_ENUMS: spellings, NULL-terminated */
    const char *doc;
} AttrInfo;

extern const AttrInfo attr_info[ATTR_COUNT];

/* The number of an enum's spelling; false if the attribute has no such value. */
bool attr_enum_find(AttrId id, const char *text, size_t length, int64_t *out);

/* The value is what absence means: parsers leave it out, the printer does not show it. */
bool attr_is_default(const Instruction *inst, const Attr *a);
bool attr_equal(const Attr *a, const Attr *b); /* spans ignored */
uint64_t attr_hash(const Attr *a);

/* Values of AK_ENUM attributes, in the order of their name lists in attrs.def. */
enum {
    DIRECTION_EQ,
    DIRECTION_NE,
    DIRECTION_GE,
    DIRECTION_GT,
    DIRECTION_LE,
    DIRECTION_LT
};
enum { COMPARE_FLOAT, COMPARE_TOTALORDER, COMPARE_SIGNED, COMPARE_UNSIGNED };
enum { FUSION_LOOP, FUSION_INPUT, FUSION_OUTPUT, FUSION_CUSTOM };
enum { FFT_FFT, FFT_IFFT, FFT_RFFT, FFT_IRFFT };
enum { RNG_INVALID, RNG_UNIFORM, RNG_NORMAL };
#define RNG_OWN_KEY UINT64_C(0x9e3779b97f4a7c15) /* of the Philox that rng draws from */
enum { RNG_DEFAULT, RNG_THREE_FRY, RNG_PHILOX };
enum { TRANSPOSE_INVALID, TRANSPOSE_NO, TRANSPOSE_YES, TRANSPOSE_ADJOINT };
enum {
    CONVOLUTION_KIND_UNSET,
    CONVOLUTION_KIND_FPROP,
    CONVOLUTION_KIND_WGRAD,
    CONVOLUTION_KIND_DGRAD
};
enum { PRECISION_DEFAULT, PRECISION_HIGH, PRECISION_HIGHEST };
enum {
    ALGORITHM_UNSET,
    ALGORITHM_ANY_F8_ANY_F8_F32,
    ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM,
    ALGORITHM_F16_F16_F16,
    ALGORITHM_F16_F16_F32,
    ALGORITHM_BF16_BF16_BF16,
    ALGORITHM_BF16_BF16_F32,
    ALGORITHM_BF16_BF16_F32_X3,
    ALGORITHM_BF16_BF16_F32_X6,
    ALGORITHM_BF16_BF16_F32_X9,
    ALGORITHM_TF32_TF32_F32,
    ALGORITHM_TF32_TF32_F32_X3,
    ALGORITHM_F32_F32_F32,
    ALGORITHM_F64_F64_F64
};

#endif
