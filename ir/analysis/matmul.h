/* Dots as matrix products of a library: what a dot is in its terms, and the mark that says that a
 * library makes it: backend_config={"library":"cublaslt"}. A marked dot stays alone and becomes a
 * command of the plan. */
#ifndef GXC_IR_ANALYSIS_MATMUL_H
#define GXC_IR_ANALYSIS_MATMUL_H

#include "ir/module.h"

/* For each of `batch` products: result [m][n] = sum over k, all arrays row-major and whole. */
typedef struct MatmulShape {
    int64_t batch, m, n, k;
    bool lhs_k_first; /* stored [k][m] instead of [m][k] */
    bool rhs_k_first; /* stored [k][n] instead of [n][k] */
} MatmulShape;

/* False: the dimensions do not lie as a library wants them. Laid out dots only. */
bool matmul_shape(const Instruction *dot, MatmulShape *out);

bool matmul_is_library(const Instruction *inst);
void matmul_set_library(Instruction *dot);

#endif
