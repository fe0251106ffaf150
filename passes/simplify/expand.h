/* Expansions by family; expand.c runs them all. */
#ifndef GXC_PASSES_SIMPLIFY_EXPAND_H
#define GXC_PASSES_SIMPLIFY_EXPAND_H

#include "ir/custom_call/lapack.h"
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

/* qr in so many steps: r and the vectors v, with the factors t, [.., steps, 1]; the product of the reflections. */
Instruction *expand_qr(Rewriter *r, Instruction *a, int64_t steps, Instruction **out_t);
Instruction *expand_reflections(Rewriter *r, Instruction *v, Instruction *t);
/* l and u in so many steps, with the pivots, s32[.., steps, 1], counted from 1. */
Instruction *expand_lu(Rewriter *r, Instruction *a, int64_t steps,
                       Instruction **out_pivots);
/* info of factors by whose pivots, or elements of a diagonal, `direction` says that they are good (against 0): the number
 * of the first that is not, or 0. */
Instruction *expand_info(Rewriter *r, Instruction *factors, const Shape *info,
                         int64_t direction);

/* info of a pred for each element, or each row, of a matrix: the number of the first row where it is true, or 0. */
Instruction *expand_first_bad(Rewriter *r, Instruction *is_bad, const Shape *info);

/* Of matrices, three dimensions: by which each row is multiplied, so that its product with one fixed vector is
 * positive. */
Instruction *expand_phases(Rewriter *r, Instruction *x);

/* A custom call of ir/custom_call/lapack.def, of matrices with elements. */
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    Instruction *expand_##function(Rewriter *r, Instruction *inst, const LapackCall *how);
#include "ir/custom_call/lapack.def"

#endif
