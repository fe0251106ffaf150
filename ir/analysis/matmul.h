/* Dots as matrix products of a library: what a dot is in its terms, and the mark that says that a
 * library makes it: backend_config={"library":"cublaslt"}. A marked dot stays alone and becomes a
 * command of the plan. */
#ifndef GXC_IR_ANALYSIS_MATMUL_H
#define GXC_IR_ANALYSIS_MATMUL_H

#include "ir/module.h"

/* How an operand's matrices lie in memory, in elements. */
typedef struct MatmulSide {
    bool k_first; /* rows are of k: [k][m] instead of [m][k], [k][n] instead of [n][k] */
    int64_t ld;   /* from row to row */
    int64_t batch_stride;
} MatmulSide;

/* For each of `batch` products: result [m][n] = sum over k; the result is row-major and whole. */
typedef struct MatmulShape {
    int64_t batch, m, n, k;
    MatmulSide lhs, rhs;
} MatmulShape;

/* False: the dimensions do not lie as a library wants them. Laid out dots only. */
bool matmul_shape(const Instruction *dot, MatmulShape *out);

/* Whether operand 0 or 1 by itself lies as a library wants it. */
bool matmul_side_fits(const Instruction *dot, uint32_t side);

bool matmul_is_library(const Instruction *inst);
void matmul_set_library(Instruction *dot);

#endif
