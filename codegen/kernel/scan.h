/* What the kernels of cumulative windows share: the rows of a scan, and how their elements are joined. */
#ifndef GXC_CODEGEN_KERNEL_SCAN_H
#define GXC_CODEGEN_KERNEL_SCAN_H

#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"

typedef struct Scan {
    const EmitterInput *in;
    const Instruction *inst;
    Emit *e;
    Reducer reducer;
    const Shape *shape;
    int64_t along, size, rows;
    uint32_t items; /* elements side by side that a thread takes at a time: e->lanes */
    bool is_reverse;
    /* Elements are walked from the last on by a computation for which the order counts: what comes later in
     * the walk stands first, and the initial value joins only in what is stored. */
    bool is_backward;
} Scan;

/* Of the design; scan_begin completes it. */
Scan scan_of(const EmitterInput *in);
void scan_begin(Scan *s, Emit *e);

/* Index of step `at` in row `row`; rows count as they lie in memory. */
void scan_position(Emit *e, const Scan *s, const IndexExpr *row, const IndexExpr *at,
                   const IndexExpr **out);
/* Elements at an index, as accumulators; out, v: [items][count] */
void scan_load(const Scan *s, const IndexExpr *const *index, LLVMValueRef *out);
void scan_store(const Scan *s, const IndexExpr *const *index, const LLVMValueRef *v);

/* v = condition ? a : v */
void scan_choose(Emit *e, uint32_t count, LLVMValueRef condition, const LLVMValueRef *a,
                 LLVMValueRef *v);
/* What came before in the walk joins v. nothing (i1; NULL: never): but for the initial value
 * nothing did. */
void scan_join(const Scan *s, LLVMValueRef nothing, const LLVMValueRef *before,
               LLVMValueRef *v);
/* v: of each lane becomes that of all lanes up to it. */
void scan_warp(const Scan *s, LLVMValueRef *v);

#endif
