/* Expansions by family; expand.c runs them all. */
#ifndef GXC_PASSES_SIMPLIFY_EXPAND_H
#define GXC_PASSES_SIMPLIFY_EXPAND_H

#include "passes/simplify/rewrite.h"

extern const Rule rules_expand_scan[], rules_expand_ragged[], rules_expand_fft[],
    rules_expand_linalg[], rules_expand_lapack[], rules_expand_select[];

/* An associative scan as cumulative windows; NULL: it is not of their form. */
Instruction *scan_as_window(Rewriter *r, Instruction *inst);

/* A batch-norm-*, where mask (pred, of x's dimensions; NULL: all) says which elements are there, `count` of
 * them for each feature (a scalar of the type that is computed in). A tuple is a tuple instruction. */
Instruction *expand_batch_norm(Rewriter *r, Instruction *inst, Instruction *mask,
                               Instruction *count);

/* A select-and-scatter, where masks (pred, of the operand's and the source's dimensions; NULL: all) say which
 * elements, and which windows, are there. */
Instruction *expand_select_and_scatter(Rewriter *r, Instruction *inst, Instruction *mask,
                                       Instruction *windows_mask);

/* LAPACK's factorisations (LapackKind in ir/custom_call.h) in so many steps: l and u, or r and the vectors v,
 * with the pivots (s32[.., steps, 1]) or the factors t; the product of the reflections. */
Instruction *expand_lu(Rewriter *r, Instruction *a, int64_t steps,
                       Instruction **out_pivots);
Instruction *expand_qr(Rewriter *r, Instruction *a, int64_t steps, Instruction **out_t);
Instruction *expand_reflections(Rewriter *r, Instruction *v, Instruction *t);

#endif
