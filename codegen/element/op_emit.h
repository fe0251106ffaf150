/* The EMIT column of ops.def: what kind of code an opcode becomes inside a kernel. */
#ifndef GXC_CODEGEN_ELEMENT_OP_EMIT_H
#define GXC_CODEGEN_ELEMENT_OP_EMIT_H

#include "codegen/element/emit.h"

typedef enum {
    EMIT_NOTHING, /* parameter, after-all */
    EMIT_SCALAR,  /* a function of one element of each operand */
    EMIT_MOVE,    /* the operand's element at the mapped index */
    EMIT_SELECT,  /* one of the operands' elements, by the maps' constraints */
    EMIT_INDEX,   /* a function of the index: iota */
    EMIT_CONSTANT,
    EMIT_ALIAS,    /* no code: tuples, barriers */
    EMIT_REDUCE,   /* combines over the maps' symbols with a computation */
    EMIT_CONTRACT, /* sums products over the maps' symbols */
    EMIT_KERNEL,   /* has a kernel of its own kind only */
    EMIT_CONTROL,  /* a command of the plan */
    EMIT_COLLECTIVE,
    EMIT_ASYNC,
    EMIT_CUSTOM,
    EMIT_FUSION,
    EMIT_DEVICE_ID,   /* an argument of the kernel */
    EMIT_EXPAND,      /* a pass writes it as simpler operations */
    EMIT_UNSUPPORTED, /* not supported in kernels yet */
} EmitKind;

typedef void SelectFn(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out);

typedef struct OpEmit {
    EmitKind kind;
    ScalarFn *scalar;
    SelectFn *select; /* also for the reduce, contract and index kinds */
} OpEmit;

extern const OpEmit op_emit[OP_COUNT];

/* Whether a select opcode takes the same operand for all lanes at this index; then its function may be
 * called for all of them. */
bool select_is_uniform(Emit *e, const Instruction *inst, const IndexExpr *const *index);
/* All leaves of a reduce or reduce-window at one index. One lane. */
void combine_elements(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out);

/* bitcast-convert where the widths differ, for which its scalar function is not enough. */
SelectFn element_regrouped;

/* The type that products of a dot or convolution are summed in: f32 for narrower floats, f64 and complex
 * their own, integers the result's, but floats that give an integer as floats. */
DType contract_accumulator(const Instruction *inst);
/* sum + x * y in that type. */
LLVMValueRef multiply_add(Emit *e, DType t, LLVMValueRef x, LLVMValueRef y,
                          LLVMValueRef sum);

#endif
