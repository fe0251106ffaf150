/* Small discrete Fourier transforms in registers, and roots of unity: what a pass of a long transform is made
 * of. Of kernel/fft.c. */
#ifndef GXC_CODEGEN_KERNEL_FFT_BUTTERFLY_H
#define GXC_CODEGEN_KERNEL_FFT_BUTTERFLY_H

#include "codegen/gx/gx.h"
#include "ir/dtype.h"

typedef struct FftValue {
    LLVMValueRef re, im;
} FftValue;

FftValue fft_add(Kernel *k, FftValue a, FftValue b);
FftValue fft_subtract(Kernel *k, FftValue a, FftValue b);
FftValue fft_multiply(Kernel *k, FftValue a, FftValue b);
FftValue fft_conjugate(Kernel *k, FftValue a);
FftValue fft_times_i(Kernel *k, FftValue a);

/* x[k] = sum over j of x[j] e^(-2 pi i j k / radix), with + for the inverse. The radix is a power of two up to 16
 * or an odd prime up to 13. */
void fft_small(Kernel *k, bool is_inverse, uint32_t radix, FftValue *x);

/* e^(-2 pi i at / n), with + for the inverse; `at` is an i32 from 0 to `most`, most < n. Within two units in the
 * last place. */
FftValue fft_root(Kernel *k, DType part, bool is_inverse, LLVMValueRef at, int64_t most,
                  int64_t n);

#endif
