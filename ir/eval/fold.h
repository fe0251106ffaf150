/* Folding with a called computation: what reduce, reduce-window, scatter, select-and-scatter
 * and all-reduce have in common. Sums and products of floats are kept in f64 and rounded once
 * at the end; everything else is computed in the types of the computation. */
#ifndef GXC_IR_EVAL_FOLD_H
#define GXC_IR_EVAL_FOLD_H

#include "ir/eval/apply.h"

typedef struct Fold {
    EvalCall *call;
    uint32_t count;     /* values folded together: k of 2k parameters */
    DType *types;       /* [count] of accumulators and inputs */
    SimpleKind *simple; /* [count] SIMPLE_NONE: none of them is */
    ScalarKernel
        *kernels; /* [count] where simple and not SIMPLE_FIRST or SIMPLE_SECOND */
    Apply *apply;
    const void **inputs; /* [2 count] room for apply_run */
} Fold;

/* comp takes count accumulators, then count inputs. Lives in call->scratch. */
void fold_init(Fold *f, EvalCall *call, const Computation *comp, uint32_t count);

/* acc[i] = f(acc[i], x[i]) for n independent elements. */
void fold_run(Fold *f, size_t n, void *const *acc, const void *const *x);

/* n elements of another type as type i of the fold, and back. The first gives the array
 * itself where the type is right already. */
const void *fold_input(Fold *f, uint32_t i, DType from, const void *data, size_t n);
void fold_output(const Fold *f, uint32_t i, DType to, void *out, const void *acc,
                 size_t n);

#endif
