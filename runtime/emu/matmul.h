/* Matrix products on the CPU, as cublasLtMatmul defines them:
 *   D = scale_d * epilogue(alpha * scale_a * scale_b * op(A) op(B) + beta * scale_c * C + bias)
 * Sums run over k upwards, in f64 for f64 and integer results, else in f32. So do those of a factor along k. */
#ifndef GXC_RUNTIME_EMU_MATMUL_H
#define GXC_RUNTIME_EMU_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/number/number.h"

/* How the scales of a factor lie. A line is a row of op(A) or a column of op(B). */
typedef enum MatmulScaleOrder {
    SCALES_NONE,
    SCALES_IN_TILES, /* of 128 lines and 4 scales, as tensor cores read them; no sign: e4m3's is not looked at */
    SCALES_OF_LINES, /* one for each */
    SCALES_BY_BLOCKS, /* those of all lines for a block along k side by side */
    SCALES_OF_SQUARES /* one for `block` lines, those along k side by side, a multiple of 4 */
} MatmulScaleOrder;

/* One scale for `block` values along k. */
typedef struct MatmulScales {
    MatmulScaleOrder order;
    const unsigned char *data;
    DType type;
    uint32_t block;
} MatmulScales;

typedef struct MatmulMatrix {
    DType type;
    bool is_row_major;
    bool is_transposed; /* of op(): A and B only */
    uint64_t rows, columns;
    int64_t ld;
    int64_t batch_stride; /* elements */
    unsigned char
        *data; /* 4-bit types: two elements in a byte, the first in the low bits */
    MatmulScales scales; /* A and B only */
} MatmulMatrix;

typedef struct Matmul {
    MatmulMatrix a, b, c, d; /* c.data NULL: beta is 0 */
    uint64_t batches;
    double alpha, beta; /* scales of A, B and C included */
    double scale_d;
    DType
        rounds_to; /* factors of f32 lose bits to it, or to DT_F32: TF32; DT_INVALID: they do not */
    bool has_relu, has_gelu;
    DType bias_type;
    const unsigned char *bias; /* one for each row of D, or NULL */
    unsigned char *sums[2];    /* of bias_type: get op(A)'s or op(B)'s along k, or NULL */
    DType aux_type;
    unsigned char *aux; /* column-major, gets what GELU is applied to; or NULL */
    int64_t aux_ld, aux_batch_stride;
    float *amax; /* gets the greatest |D| before scale_d, or NULL */
} Matmul;

/* Bytes of n elements in device memory. */
uint64_t matrix_elements_bytes(DType t, uint64_t n);
/* Bytes of the scales of one batch. */
uint64_t matmul_scales_bytes(const MatmulScales *s, uint64_t lines, uint64_t k);

/* Element index of (row, column) in one matrix of a batch. */
int64_t matrix_index(const MatmulMatrix *x, uint64_t row, uint64_t column);

/* False: no memory. */
bool matmul_run(const Matmul *m);

#endif
