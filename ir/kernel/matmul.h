/* Dots as matrix products of a library: what a dot is in its terms, and the mark that says that a
 * library makes it: backend_config={"library":"cublaslt"}. A marked dot stays alone and becomes a
 * command of the plan. So does a marked fusion (kCustom) of a marked dot and of what the library adds
 * to it: a matrix of the result's shape, a vector along the result's last dimensions, or both, and relu or gelu of
 * the sum; or, of products of f8, of what it multiplies them with - two numbers, or one for each row of either factor -
 * and of a conversion to 16 bits; or of a scaled-dot of f8 with scales of f32 for blocks, which it brings into the order
 * that the program has, and of such a conversion. A second
 * result may be gelu's argument, or what a factor gives when it is added up along k. */
#ifndef GXC_IR_KERNEL_MATMUL_H
#define GXC_IR_KERNEL_MATMUL_H

#include "ir/analysis/target.h"
#include "ir/base/divide.h"
#include "ir/kernel/activation.h"
#include "ir/module.h"

/* The dimension of a dot's result for dimension `dim` of operand `side`; -1: it is summed over. */
int64_t dot_result_dim(const Instruction *dot, uint32_t side, int64_t dim);

enum {
    MATMUL_ALIGNMENT = 16
}; /* bytes, of each matrix: what libgxrt asks of the caller's buffers */

/* How an operand's matrices lie in memory, in elements. */
typedef struct MatmulSide {
    bool k_first; /* rows are of k: [k][m] instead of [m][k], [k][n] instead of [n][k] */
    int64_t ld;   /* from row to row */
    int64_t batch_stride;
} MatmulSide;

/* For each of `batch` products: result [m][n] = sum over k; all results together are a row-major array. Without batch
 * dimensions one operand may lie in pieces of its rows, [piece][k][rows]: each is a product with all of the other one, and
 * where the pieces are of rhs their results stand side by side, as columns of one matrix. */
typedef struct MatmulShape {
    int64_t batch, m, n, k;
    MatmulSide lhs, rhs;
    int64_t result_ld, result_batch_stride;
    bool is_in_pieces;
} MatmulShape;

/* False: the dimensions do not lie as a library wants them. Laid out dots only. */
bool matmul_shape(const Instruction *dot, MatmulShape *out);

/* Whether operand 0 or 1 by itself lies as a library wants it, in one piece. */
bool matmul_side_fits(const Instruction *dot, uint32_t side);

/* The library has products of these types, by this algorithm. */
bool matmul_types_fit(const Instruction *dot);
/* And on this target. */
bool matmul_target_has(const Instruction *dot, const Target *t);

/* How the library multiplies products of f8. */
typedef enum MatmulScale {
    MATMUL_NO_SCALE,
    MATMUL_BY_NUMBER,
    MATMUL_BY_ROWS_OF_RHS, /* one number for each: all products of one of its rows */
    MATMUL_BY_ROWS_OF_LHS
} MatmulScale;
/* `x` is a broadcast of f32 to the result's shape. Those by rows come in pairs, and only some GPUs have them. */
MatmulScale matmul_scale_of(const Instruction *dot, const Instruction *x);
/* Factors of 8 bits: nothing is added to their products. */
bool matmul_is_8_bit(const Instruction *dot);
/* The library adds what this broadcast makes: to a dot without batch, along the last dimensions. */
bool matmul_bias_fits(const Instruction *dot, const Instruction *broadcast);

/* The library computes relu or gelu of the product. */
bool matmul_activation_fits(const Instruction *dot);
/* And stores gelu's argument, too. */
bool matmul_argument_fits(const Instruction *dot);

/* `sum` is what operand `side` of the dot, `factor`, gives when it is added up along k, as the library gives it beside a
 * result of the type. */
bool matmul_sum_fits(const Instruction *dot, uint32_t side, const Instruction *factor,
                     const Instruction *sum, DType type);

/* The second result. */
typedef enum MatmulSecond {
    MATMUL_NO_SECOND,
    MATMUL_ARGUMENT, /* of the activation */
    MATMUL_SUMS_LHS,
    MATMUL_SUMS_RHS
} MatmulSecond;

/* What one scale is of. */
typedef enum MatmulScaling {
    MATMUL_PRODUCT, /* all of it */
    MATMUL_ROWS,    /* one row of a factor */
    MATMUL_PIECES, /* MATMUL_BLOCK values of a row along k: scales lie [k / block][rows] */
    MATMUL_SQUARES /* of so many rows: [rows / block][k / block], padded to a multiple of 4 */
} MatmulScaling;
enum { MATMUL_BLOCK = 128 };

/* Columns of scales of squares as the library reads them. */
static inline int64_t matmul_padded_blocks(int64_t blocks)
{
    enum { MULTIPLE = 4 };
    return ceil_div(blocks, MULTIPLE) * MULTIPLE;
}

/* What a marked instruction computes: the dot, and its and the library's operands as they stand outside
 * of a fusion. */
typedef struct MatmulCall {
    const Instruction *dot;
    const Instruction *lhs, *rhs;
    const Instruction *bias, *addend; /* or NULL */
    const Instruction
        *scales[2]; /* f32 that products of f8 are multiplied with, or NULL */
    MatmulScaling
        scaling[2];        /* what the scales are of: rhs and lhs, or of the products */
    double alpha;          /* a constant, likewise; else 1 */
    Activation activation; /* of all that */
    MatmulSecond second;
    DType type; /* of the result, to which it is rounded once */
} MatmulCall;

/* False: the library does not make it, or cannot: a text may mark anything. */
bool matmul_call_of(const Instruction *inst, MatmulCall *out);
bool matmul_is_library(const Instruction *inst);

/* Operand `operand` of a marked fusion is the matrix that is added, and nothing else: the library may
 * write its first result over it. */
bool matmul_adds_in_place(const Instruction *inst, uint32_t operand);

/* Marks a dot, or a fusion of the form above. */
void matmul_set_library(Instruction *inst);

#endif
