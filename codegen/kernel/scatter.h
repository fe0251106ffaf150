/* What the emitters of scatters share. */
#ifndef GXC_CODEGEN_KERNEL_SCATTER_H
#define GXC_CODEGEN_KERNEL_SCATTER_H

#include "codegen/kernel/emitters.h"

typedef struct Scatter {
    const EmitterInput *in;
    const ScatterPlan *plan;
    int64_t owners; /* threads that share the positions of one walk */
} Scatter;

/* Where the index vector lies, from an update's index: all but the vector's own dimension. */
void scatter_indices_position(const Scatter *s, const IndexExpr *const *update,
                              const IndexExpr **out);
/* Where an update's element goes, and whether its window fits (NULL: always). `bound`: the same of the
 * operand's dimensions that the index vector chooses, as one number. */
void scatter_destination(Emit *e, const Scatter *s, const IndexExpr *const *update,
                         const IndexExpr **out, const IndexExpr **bound,
                         LLVMValueRef *ok);
/* The operation of a combiner whose result has type t. */
GxAtomic scatter_atomic(OpCode op, DType t);

/* The positions that each index of the batching dimensions has, in a block's shared memory. */
Kernel *emit_scatter_shared(const Scatter *s);

#endif
