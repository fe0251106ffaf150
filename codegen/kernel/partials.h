/* What blocks that share results of a reduction leave in memory for the last of them. */
#ifndef GXC_CODEGEN_KERNEL_PARTIALS_H
#define GXC_CODEGEN_KERNEL_PARTIALS_H

#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "ir/kernel/reduction.h"

typedef struct Partials {
    const EmitterInput *in;
    const ReductionPlan *plan;
    const Reducer *reducers; /* [plan->hero_count] */
    uint32_t blocks;         /* that share results */
    uint32_t lanes;          /* results of a thread */
} Partials;

/* values: [accumulators of all reductions][lanes]. Each accumulator has an array of all rows' and blocks' values; `at`
 * is the index of lane 0 there, the other lanes are behind it. */
void partials_store(Emit *e, const Partials *p, const IndexExpr *at,
                    const LLVMValueRef *values);
void partials_load(Emit *e, const Partials *p, const IndexExpr *at, LLVMValueRef *values);

/* Blocks, whose so many values each a thread loads before it adds them. */
uint32_t partials_unroll(uint32_t values);

#endif
