/* Matrix products on the CPU, as cublasLtMatmul defines them:
 *   D = scale_d * epilogue(alpha * scale_a * scale_b * op(A) op(B) + beta * scale_c * C + bias)
 * Sums run over k upwards, in f64 for f64 and integer results, else in f32. So do those of a factor along k. */
#ifndef GXC_RUNTIME_EMU_MATMUL_H
#define GXC_RUNTIME_EMU_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/number/number.h"

/* One scale for `block` values along k, in the order that tensor cores read: tiles of 128 rows
 * and 4 scales. Scales have no sign: e4m3's is not looked at. */
typedef struct MatmulScales {
    const unsigned char *data; /* NULL: none */
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
/* Bytes of the scales of one batch: lines are padded to 128, scales of a line to 4. */
uint64_t matmul_scales_bytes(uint64_t lines, uint64_t scales);

/* Element index of (row, column) in one matrix of a batch. */
int64_t matrix_index(const MatmulMatrix *x, uint64_t row, uint64_t column);

/* False: no memory. */
bool matmul_run(const Matmul *m);

#endif
