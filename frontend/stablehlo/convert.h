/* From MLIR's operations to a Module: what the conversions of operations share.
 *
 * ops.def has a row for each operation of StableHLO, MHLO, CHLO: its opcode, its attributes and the
 * function that makes its instructions. A value of MLIR holds the instruction that it became in the
 * computation that is being filled (MlirValue.inst); NULL: it could not be made, which was said. */
#ifndef GXC_FRONTEND_STABLEHLO_CONVERT_H
#define GXC_FRONTEND_STABLEHLO_CONVERT_H

#include "frontend/stablehlo/mlir.h"
#include "frontend/stack.h"
#include "ir/attribute/replica_groups.h"
#include "ir/attribute/sharding.h"

typedef struct Converter Converter;
typedef struct OpRow OpRow;

/* Makes the instructions of an operation and binds its results. */
typedef void ConvertFn(Converter *c, const MlirOp *op, const OpRow *row);

typedef enum {
    FORM_END,
    FORM_INT,
    FORM_BOOL,
    FORM_FLOAT,
    FORM_INTS,
    FORM_DIMS, /* one integer, a list in HLO */
    FORM_ENUM /* its words, in lower case where the language has them so, behind a prefix */
} AttrForm;

typedef struct AttrRow {
    AttrForm form;
    const char *name;
    AttrId id;
    const char *prefix; /* FORM_ENUM */
    bool lower;
} AttrRow;

struct OpRow {
    const char *name;
    OpCode op; /* OP_COUNT: the function says */
    ConvertFn *convert;
    int operands, results, regions; /* -1: any number */
    const AttrRow *attrs;           /* ended by FORM_END */
};

typedef struct Function {
    const char *name;
    const MlirOp *op;
    const MlirType *type;
    Computation *comp; /* NULL: not converted yet */
    enum { FUNCTION_NEW, FUNCTION_OPEN, FUNCTION_DONE } state;
} Function;

typedef struct Rebound {
    MlirValue *value;
    Instruction *inst;
} Rebound;

typedef struct NamedMesh {
    const char *name;
    const Mesh *mesh;
} NamedMesh;

struct Converter {
    const MlirFile *file;
    Arena *arena, *scratch;
    Diag *diag;
    Intern *intern;
    Module *m;
    Computation *comp; /* that is being filled */
    const MlirOp *op;  /* that is being converted */
    uint32_t depth;    /* of regions and calls */
    uint32_t mark;     /* serial of walks over values */
    uint64_t in_place; /* operations that stand in place of calls */
    Function *functions;
    uint32_t function_count;
    NamedMesh *meshes;
    uint32_t mesh_count;
    bool is_manual;            /* main is what one device does */
    const MlirOp *metadata_op; /* of which `metadata` is */
    const Metadata *metadata;
    STACK(Computation *) finished; /* callees before callers */
    STACK(Rebound) rebound;        /* what values of outside were, in the open regions */
};

/* -- convert.c ----------------------------------------------------------------------------- */
void convert_op(Converter *c, const MlirOp *op);
void convert_ops(Converter *c,
                 const MlirRegion *region); /* but for its last one, a return */
/* The row of an operation's name; NULL: there is none. */
const OpRow *op_row(const char *name);

/* Messages at the operation that is being converted. Return NULL. */
void *convert_error(Converter *c, const char *format, ...) GXC_FORMAT(2, 3);
void *convert_unsupported(Converter *c, const char *format, ...) GXC_FORMAT(2, 3);

/* -- make.c: instructions ------------------------------------------------------------------ */
/* The operand's instruction; NULL if it could not be made. */
static inline Instruction *operand_of(const MlirOp *op, uint32_t i)
{
    return op->operands[i]->inst;
}
/* False: an operand could not be made, or is not as the row wants; said. */
bool operands_are_made(const MlirOp *op);
/* An instruction of the operation that is being converted, in the current computation, with its position and
 * metadata. shape NULL: as the opcode's rules say, once make_finish is called. Operands may be NULL: so is
 * the result. */
Instruction *make(Converter *c, OpCode op, const Shape *shape, uint32_t count,
                  Instruction *const *operands);
Instruction *make1(Converter *c, OpCode op, const Shape *shape, Instruction *a);
Instruction *make2(Converter *c, OpCode op, const Shape *shape, Instruction *a,
                   Instruction *b);
/* Attributes are set, the rules of the language checked, the shape found; NULL after a message. */
Instruction *make_finish(Converter *c, Instruction *inst);
Instruction *make_constant(Converter *c, const Literal *l);
Instruction *make_scalar(Converter *c, DType t, double value);
Instruction *make_int_scalar(Converter *c, DType t, int64_t value);
/* A scalar as an array of the shape's sizes. */
Instruction *make_broadcast(Converter *c, Instruction *scalar, const Shape *like);
/* The number in every element of such an array. */
Instruction *make_splat(Converter *c, const Shape *like, double value);
Instruction *make_convert(Converter *c, Instruction *inst,
                          DType t); /* itself if it is one */
Instruction *make_reshape(Converter *c, Instruction *inst, uint32_t rank,
                          const int64_t *dims);
Instruction *make_transpose(Converter *c, Instruction *inst, const int64_t *permutation);
Instruction *make_tuple(Converter *c, uint32_t count, Instruction *const *elements);
Instruction *make_element(Converter *c, Instruction *tuple, uint32_t i);
Instruction *make_call(Converter *c, OpCode op, const Shape *shape, uint32_t count,
                       Instruction *const *operands, AttrId id, Computation *callee);
/* A shape of the same element type, of other sizes. */
const Shape *shape_sized(Converter *c, const Shape *like, uint32_t rank,
                         const int64_t *dims);

/* The result of the operation: its shape, and what it is. */
const Shape *result_shape(const MlirOp *op, uint32_t i);
/* The C library's bind() must not be replaced where libgxc is linked statically. */
#define bind stablehlo_bind
const Shape *results_shape(Converter *c, const MlirOp *op); /* one, or a tuple of them */
void bind(Converter *c, const MlirOp *op,
          Instruction *result); /* of one result, or none */
void bind_elements(Converter *c, const MlirOp *op, Instruction *tuple);

/* -- ask.c: attributes ---------------------------------------------------------------------- */
/* NULL: not there. `group` is the attribute that holds it where it is not one of its own; NULL: none. */
const MlirAttr *ask(Converter *c, const MlirOp *op, const char *group, const char *name);
const MlirAttr *field(Converter *c, const MlirAttr *a,
                      const char *name); /* of a dictionary or struct */
/* false: absent, or wrong (said) */
bool ask_int(Converter *c, const MlirAttr *a, int64_t *out);
int64_t ask_int_or(Converter *c, const MlirOp *op, const char *name, int64_t absent);
bool ask_flag(Converter *c, const MlirOp *op, const char *name); /* a unit or true */
bool ask_ints(Converter *c, const MlirAttr *a, Ints *out);       /* NULL a: no entries */
bool ask_pairs(Converter *c, const MlirAttr *a, IntLists *out); /* dense<[[0, 1], ...]> */
const char *ask_word(Converter *c,
                     const MlirAttr *a); /* of an enumeration or text; NULL: none */
bool attr_ints(Converter *c, const MlirOp *op, const char *group, const char *name,
               Ints *out);
const char *ask_symbol(Converter *c, const MlirOp *op,
                       const char *name); /* NULL after a message */

/* -- region.c ------------------------------------------------------------------------------- */
/* The region as a computation with a parameter for each argument, of its type. Constants of
 * outside that it uses are made in it again. NULL after a message. */
Computation *applied_computation(Converter *c, const MlirOp *op, uint32_t region);
/* A while, if or case: operands and values of outside that its regions use are one tuple (or, alone,
 * that value). */
typedef struct LoopState {
    uint32_t own, count;  /* own: those that are arguments and results */
    MlirValue **captured; /* [count - own] */
    const Shape *shape;
    Instruction *init;
} LoopState;
void loop_state(Converter *c, const MlirOp *op, uint32_t first_operand, LoopState *out);
/* A region of it. gives_state: its results are the state's own values; else they are the region's, one or a
 * tuple. */
Computation *state_computation(Converter *c, const MlirOp *op, uint32_t region,
                               const LoopState *state, bool gives_state);
/* The computation of a function, made at the first call; its result is one value or a tuple. */
Computation *function_computation(Converter *c, const char *symbol);
void check_function(Converter *c, const Function *f);      /* one that nobody calls */
Function *find_function(Converter *c, const char *symbol); /* NULL after a message */

/* -- notes.c: what is said of operations and arguments --------------------------------------- */
const Metadata *metadata_of(Converter *c, const MlirOp *op);
const Metadata *argument_metadata(Converter *c,
                                  const MlirValue *argument); /* NULL: none */
void set_notes(Converter *c, const MlirOp *op,
               Instruction *inst); /* sharding, frontend_attributes */
void set_dict_notes(Converter *c, MlirDict attrs, Instruction *inst);
const Sharding *sdy_sharding(Converter *c, const MlirAttr *a);
const Mesh *
find_mesh(Converter *c,
          const MlirAttr *symbol); /* or the mesh itself; NULL after a message */
bool axis_refs(Converter *c, const Mesh *mesh, const MlirAttr *list, AxisRefs *out);
const ReplicaGroups *ask_groups(Converter *c, const MlirOp *op);
Bytes attribute_text(Converter *c, const MlirAttr *a);         /* as MLIR writes it */
const Dict *frontend_attributes(Converter *c, MlirDict attrs); /* NULL: none */
void add_mesh(Converter *c, const MlirOp *op);
bool is_manual(const MlirRegion *main);

/* -- custom.c ------------------------------------------------------------------------------- */
/* The shape with a layout, a list of dimensions from the fastest; NULL after a message. */
const Shape *shape_of_layout(Converter *c, const Shape *s, const MlirAttr *layout);

/* -- module.c ------------------------------------------------------------------------------- */
/* The module of a file; NULL after messages. Arena: the module's. */
Module *convert_module(const MlirFile *file, Arena *a, Diag *d, Module *m);

#endif
