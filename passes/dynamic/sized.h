/* Values of the pass static-shapes and its rules. */
#ifndef GXC_PASSES_DYNAMIC_SIZED_H
#define GXC_PASSES_DYNAMIC_SIZED_H

#include "passes/dynamic/dynamic.h"

/* What an instruction has become. */
typedef struct Sized {
    const Shape *shape; /* as the language has it: which dimensions are dynamic */
    Instruction
        *inst; /* arrays: the elements at the bounds; what lies beyond the sizes is
                           never read. Tuples: see sized_form */
    Instruction **sizes; /* arrays: [rank] s32[], NULL where static; NULL: all static */
} Sized;

typedef struct Statics {
    Rewriter r;
    Sized **values; /* by id, of the computation's own instructions */
} Statics;

/* Makes the leaves of the result (inst and sizes) from its operands; false: there is no way. */
typedef bool SizedRule(Statics *st, const Instruction *inst, Sized *const *x, Sized *out);

/* NULL: only arrays of fixed size will do. */
SizedRule *sized_rule(const Instruction *inst);

/* The run-time size of a dimension, s32[]. */
Instruction *sized_size(Statics *st, const Sized *x, uint32_t d);
/* A size that the program sets, s32[], between 0 and the bound: others, which have no meaning, must not
 * send the caller, or what is moved by sizes, beyond the bounds. */
Instruction *sized_within(Statics *st, Instruction *size, int64_t bound);
static inline bool sized_has(const Sized *x, uint32_t d)
{
    return x->sizes != NULL && x->sizes[d] != NULL;
}

Instruction **sized_scratch(Statics *st, uint32_t n); /* scratch, all NULL */
/* Which elements of x lie within its sizes; only the dimensions of the list count, NULL: all.
 * NULL: every element does. */
Instruction *sized_mask(Statics *st, const Sized *x, const Ints *dims);
/* x with `fill`, a scalar, beyond its sizes. */
Instruction *sized_masked(Statics *st, const Sized *x, const Ints *dims,
                          Instruction *fill);
/* The operation on the elements at the bounds. */
Instruction *sized_again(Statics *st, const Instruction *inst, Sized *const *x);

/* Element k of what gives several arrays; what gives one itself. */
Instruction *sized_element(Statics *st, Instruction *all, uint32_t k);

/* 0 of the array's type, a scalar. */
Instruction *sized_zero(Statics *st, const Shape *s);
/* The number of windows over `size` elements. */
Instruction *sized_window_count(Statics *st, Instruction *size, const WindowDim *w);

SizedRule sized_reduce, sized_reduce_window, sized_sort, sized_gather, sized_scatter,
    sized_bitcast, sized_reshape, sized_dynamic_reshape;
SizedRule sized_batch_norm, sized_cholesky, sized_convolution, sized_fft,
    sized_triangular_solve;
SizedRule sized_scan, sized_select_and_scatter, sized_topk;

#endif
