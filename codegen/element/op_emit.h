/* The EMIT column of ops.def: the functions that write an opcode's code. */
#ifndef GXC_CODEGEN_ELEMENT_OP_EMIT_H
#define GXC_CODEGEN_ELEMENT_OP_EMIT_H

#include "codegen/element/emit.h"

typedef void SelectFn(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out);

typedef struct OpEmit {
    ScalarFn *scalar;
    SelectFn *select; /* also for the reduce, contract and index kinds */
} OpEmit;

extern const OpEmit op_emit[OP_COUNT];

/* Whether a select opcode takes the same operand for all lanes at this index; then its function may be
 * called for all of them. */
bool select_is_uniform(Emit *e, const Instruction *inst, const IndexExpr *const *index);
/* Lanes of a reduce or reduce-window are combined at once: neighbours along a dimension that windows do not reach along. */
bool combines_lanes(const Instruction *inst, const IndexExpr *const *index);
/* All leaves of one at one index: of one lane, or of all where combines_lanes says so. */
void combine_elements(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out);

/* bitcast-convert where the widths differ, for which its scalar function is not enough. */
SelectFn element_regrouped;

/* sum + x * y in that type. */
LLVMValueRef multiply_add(Emit *e, DType t, LLVMValueRef x, LLVMValueRef y,
                          LLVMValueRef sum);

#endif
