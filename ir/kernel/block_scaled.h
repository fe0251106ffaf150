/* Block-scaled arithmetic by custom calls: which of them an instruction is, and its sizes.
 *
 *   (q, s) = __op$quantize(x)       q[..., K] and s[..., Ks]: a scale for each block of K / Ks
 *   y = __op$dequantize(q, s)
 *   d = __op$block_scaled_dot(lhs[b,M,K], rhs[b,N,K], lhs_scale[b,M',Ks] [, rhs_scale [, factor]])
 *       the batch dimension is in all arrays or in none; a block of scaled elements lies along K.
 *       Without rhs_scale rhs is not scaled; the factor is a scalar of the result's type. Scales
 *       may be padded, M' > M and Ks x block > K, if the backend_config says how large a block
 *       is: {"block_scaled_dot_backend_config":{"block_size":"32"}}
 *   d = __cublaslt$block_scaled_matmul(lhs, rhs, lhs_scale, rhs_scale [, factors])
 *       ours: what cuBLASLt does. M, N are multiples of 128, K of four blocks, the scales lie in
 *       tiles of 128 x 4 (block_scaled_offset) and count without sign; factors, f32[2], are alpha and beta, of which
 *       beta is 0.
 *   d = __cudnn$block_scaled_matmul(...)
 *       ours: the same as a graph of cuDNN's */
#ifndef GXC_IR_KERNEL_BLOCK_SCALED_H
#define GXC_IR_KERNEL_BLOCK_SCALED_H

#include "ir/module.h"

#define BLOCK_SCALED_MATMUL "__cublaslt$block_scaled_matmul"
#define BLOCK_SCALED_GRAPH "__cudnn$block_scaled_matmul"

enum { SCALE_TILE_ROWS = 128, SCALE_TILE_COLUMNS = 4 };

typedef enum {
    BLOCK_NONE, /* another instruction */
    BLOCK_QUANTIZE,
    BLOCK_DEQUANTIZE,
    BLOCK_DOT,
    BLOCK_MATMUL,
} BlockOp;

BlockOp block_op(const Instruction *inst);
/* Of BLOCK_MATMUL: by cuDNN. */
bool block_scaled_is_graph(const Instruction *inst);

typedef struct BlockScaledDot {
    bool has_batch; /* rank 3 */
    int64_t batch, m, n, k;
    int64_t block;  /* elements of K that share a scale */
    int64_t blocks; /* of K that are not all padding */
    bool has_rhs_scale, has_factor;
} BlockScaledDot;

/* NULL, or what is wrong with a custom call of any of these kinds: text in the arena. The
 * verifier does not ask whether a dot's scales fit their operands: a program that is yet to be
 * partitioned may hold pieces of them. */
const char *block_scaled_verify(const Instruction *inst, Arena *a);
/* The same with the scales; *out is filled for BLOCK_DOT and BLOCK_MATMUL. */
const char *block_scaled_check(const Instruction *inst, Arena *a, BlockScaledDot *out);

/* The types that cuBLASLt and cuDNN multiply by blocks: e4m3fn or e5m2, not both e5m2, with e8m0 for 32
 * elements; e2m1 with e4m3fn for 16. */
bool block_scaled_in_library(DType lhs, DType rhs, DType lhs_scale, DType rhs_scale,
                             DType result, int64_t block);

/* Where the scale of (row, column) lies in one matrix of rows x columns scales, both multiples
 * of a tile. */
int64_t block_scaled_offset(int64_t columns, int64_t row, int64_t column);

#endif
