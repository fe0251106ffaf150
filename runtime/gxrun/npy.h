/* .npy files, the part that gxrun needs: one array of an HLO element type, in C or Fortran order.
 *
 * Types that numpy lacks are raw bits: bf16 in uint16, 8-bit floats in uint8, types below 8
 * bits one value per byte (s4 in int8, u4 and f4 in uint8). Data in memory is in storage form
 * (ir/number/number.h), row-major. */
#ifndef GXC_RUNTIME_GXRUN_NPY_H
#define GXC_RUNTIME_GXRUN_NPY_H

#include <stdbool.h>

#include "ir/number/number.h"

/* Reads an array of just this type and shape; *out_data is the caller's to free. False:
 * `error` says what is wrong and with which file. */
bool npy_read(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
              void **out_data, char *error, size_t error_size);

/* Where the elements of a .npy file are that is in memory. */
typedef struct NpyArray {
    unsigned char *data;
    size_t bytes;
    bool fortran; /* the first dimension varies fastest */
} NpyArray;

/* The same for a file in memory, which `name` stands for in errors. Values of pred become 0 or 1 in place. */
bool npy_find(const char *name, unsigned char *bytes, size_t size, DType dtype,
              uint32_t rank, const int64_t *dims, NpyArray *out, char *error,
              size_t error_size);
/* Whether all elements are values of the type; those of pred become 0 or 1. */
bool npy_check_values(const char *name, DType dtype, unsigned char *data, size_t n,
                      char *error, size_t error_size);
/* A row-major copy, the caller's to free; NULL: no memory. */
void *npy_copy(const NpyArray *a, DType dtype, uint32_t rank, const int64_t *dims);

/* Copies an array of elements of `size` bytes from row-major order to the one of these
 * dimensions, the fastest varying first, or back. */
void npy_reorder(uint32_t rank, const int64_t *dims, const int64_t *minor_to_major,
                 size_t size, const void *from, void *to, bool to_row_major);

enum { NPY_HEADER = 4032 }; /* bytes, at most */
/* What stands before the elements in a .npy file; gives its size. */
size_t npy_header(DType dtype, uint32_t rank, const int64_t *dims, char *out,
                  size_t size);

/* Writes to a temporary name beside `path` and renames, so that there is never a part of a
 * file. */
bool npy_write(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
               const void *data, char *error, size_t error_size);

/* Elements of a shape; false if their bytes overflow. */
bool npy_elements(DType dtype, uint32_t rank, const int64_t *dims, size_t *out_elements);

#endif
