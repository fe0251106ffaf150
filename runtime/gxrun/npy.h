/* .npy files, the part that gxrun needs: one C-ordered array of an HLO element type.
 *
 * Types that numpy lacks are raw bits: bf16 in uint16, 8-bit floats in uint8, types below 8
 * bits one value per byte (s4 in int8, u4 and f4 in uint8). Data in memory is in storage form
 * (ir/number.h), row-major. */
#ifndef GXC_RUNTIME_GXRUN_NPY_H
#define GXC_RUNTIME_GXRUN_NPY_H

#include <stdbool.h>

#include "ir/number.h"

/* Reads an array of just this type and shape; *out_data is the caller's to free. False:
 * `error` says what is wrong and with which file. */
bool npy_read(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
              void **out_data, char *error, size_t error_size);

/* Writes to a temporary name beside `path` and renames, so that there is never a part of a
 * file. */
bool npy_write(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
               const void *data, char *error, size_t error_size);

/* Whether npy_write() could begin now: said before a long run, not behind it. */
bool npy_can_write(const char *path, char *error, size_t error_size);

/* Elements of a shape; false if their bytes overflow. */
bool npy_elements(DType dtype, uint32_t rank, const int64_t *dims, size_t *out_elements);

#endif
