/* Rows that groups of threads reduce, each of them in registers of its group: row_reduction.c and
 * two_way_reduction.c. */
#ifndef GXC_CODEGEN_KERNEL_ROWS_H
#define GXC_CODEGEN_KERNEL_ROWS_H

#include "codegen/kernel/distribution.h"
#include "codegen/kernel/emitters.h"
#include "ir/kernel/reduction.h"

typedef struct Rows {
    const EmitterInput *in;
    const ReductionPlan *plan;
    Kernel *k;
    Emit *e;
    uint32_t width;          /* columns of an access */
    uint32_t lanes;          /* of what is walked over now: `width`, or 1 */
    uint32_t group;          /* threads of a row */
    LLVMValueRef thread;     /* index: number in the group */
    LLVMValueRef number;     /* i32: the same */
    LLVMValueRef local;      /* i32: number of the group */
    uint32_t blocks;         /* that share a row */
    LLVMValueRef block;      /* i32: number among them; NULL: there is one */
    LLVMValueRef block_rows; /* i32: of the blocks that share rows: which */
    LLVMValueRef in_range;   /* i1: the row exists; NULL: always */
    const IndexExpr *row;
    bool keeps;   /* what it reads of the row, in registers */
    bool at_ends; /* those of the row are walked over now, not its accesses */
    DistributionKept kept, kept_ends;
} Rows;

/* The kernel without code, and this thread's index in its group; the row is not set yet. */
Rows rows_begin(const EmitterInput *in);
/* Accesses of `lanes` columns, one item each. user is body's. */
void rows_for_columns(Rows *r, bool in_order, DistributionFn *body, const void *user,
                      LLVMValueRef *carried, unsigned count);
/* The columns of an item: of emit_lane. */
const IndexExpr *rows_column(const Rows *r, const IndexExpr *item);
/* Makes all heroes and their values known, in so many loops. Each loop has shared memory of its own. Where blocks share
 * rows, the last one of them does that, and stores the results. */
uint32_t rows_reduce(Rows *r);
/* Stores the results of the row, and of its elements: the last code of a scope. */
void rows_store(Rows *r);

#endif
