/* Discrete Fourier transforms of rows that a block keeps in shared memory: which lengths those are. */
#ifndef GXC_IR_KERNEL_KINDS_FFT_H
#define GXC_IR_KERNEL_KINDS_FFT_H

#include "ir/analysis/target.h"
#include "ir/module.h"

#define FFT_MOST_PASSES 16
#define FFT_LARGEST_RADIX 16
#define FFT_LARGEST_PRIME 13

/* How the row of a transform becomes complex numbers in shared memory. */
typedef struct FftRow {
    int64_t points; /* complex numbers that are transformed */
    bool is_packed; /* two real numbers each: half the length */
    DType part;     /* of them: f32 or f64 */
    unsigned bytes; /* of a complex number */
    uint32_t
        passes; /* 0: a length with larger prime factors, or a longer row, than kernels take */
    uint32_t radix[FFT_MOST_PASSES];
} FftRow;

/* The row of an fft of this type (FFT_FFT, …), length and component type. */
FftRow fft_row(int64_t type, int64_t length, DType part, const Target *t);
/* Complex numbers from row to row in shared memory. */
int64_t fft_stride(int64_t points);
/* The number without its prime factors up to FFT_LARGEST_PRIME. */
int64_t fft_rough_part(int64_t n);

/* Polynomials in x^2, the highest power first, for |x| <= pi / 4: sin x = x + x^3 sine, cos x = 1 - x^2 / 2 +
 * x^4 cosine. */
typedef struct FftPolynomial {
    uint32_t count;
    const double *c;
} FftPolynomial;
FftPolynomial fft_sine(DType part);
FftPolynomial fft_cosine(DType part);

#endif
