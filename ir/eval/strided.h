/* Copies between arrays in memory that are walked with different strides: what broadcast,
 * transpose, slice, pad, reverse, concatenate and gather come down to. */
#ifndef GXC_IR_EVAL_STRIDED_H
#define GXC_IR_EVAL_STRIDED_H

#include <stddef.h>
#include <stdint.h>

/* Row-major strides in elements: strides[rank - 1] = 1. */
void strides_row_major(uint32_t rank, const int64_t *dims, int64_t *strides);

/* out[sum i_d * out_strides[d]] = in[sum i_d * in_strides[d]] for all i in dims. Strides count
 * elements of `size` bytes (1, 2, 4, 8 or 16) and may be 0 or negative; out and in point to
 * the element of index 0. They must not overlap. */
void strided_copy(size_t size, uint32_t rank, const int64_t *dims, void *out,
                  const int64_t *out_strides, const void *in, const int64_t *in_strides);

/* Fills n elements of `size` bytes with the one at value. */
void strided_fill(size_t size, void *out, const void *value, int64_t n);

/* Steps a multi-index in row-major order; false when it wrapped round to all zero. */
static inline int index_next(uint32_t rank, const int64_t *dims, int64_t *index)
{
    for (uint32_t d = rank; d-- > 0;) {
        if (++index[d] < dims[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

#endif
