/* What blocks that share results of a reduction leave in memory for the last of them. */
#ifndef GXC_CODEGEN_KERNEL_PARTIALS_H
#define GXC_CODEGEN_KERNEL_PARTIALS_H

#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "ir/kernel/reduction.h"

/* Values are [accumulators of all reductions][lanes]. Each accumulator has an array of all rows' and blocks' values, with
 * the lanes side by side. */
typedef struct Partials {
    const EmitterInput *in;
    Emit *e;
    const ReductionPlan *plan;
    const Reducer *reducers;      /* [plan->hero_count] */
    uint32_t blocks;              /* that share results */
    LLVMValueRef group, block;    /* i32: of these blocks: which; the number among them */
    const IndexExpr *row;         /* of lane 0 */
    LLVMValueRef in_range;        /* i1: the row exists; NULL: always */
    int64_t row_step, block_step; /* in an accumulator's array */
    uint32_t lanes;               /* results of a thread */
} Partials;

/* By thread 0 of each row. thread: i32. */
void partials_leave(const Partials *p, LLVMValueRef thread, const LLVMValueRef *values);
/* i1: the block is the last one, and all have left what they found. All threads; once. */
LLVMValueRef partials_are_complete(const Partials *p);
/* What block `block` has left. */
void partials_take(const Partials *p, const IndexExpr *block, LLVMValueRef *values);

/* Blocks, whose so many values each a thread takes before it adds them. */
uint32_t partials_unroll(uint32_t values);

#endif
