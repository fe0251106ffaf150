/* Files of arrays: .npy (one, without a name), .npz and .safetensors (many, by name). Which it is shows in the first
 * bytes. A file is mapped; its arrays are used where they are if they lie well, else copied. */
#ifndef GXC_RUNTIME_GXRUN_ARRAY_FILE_H
#define GXC_RUNTIME_GXRUN_ARRAY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/number/number.h"

enum { STORED_MAX_RANK = 64 };

typedef struct StoredArray {
    char *name;          /* "" of a .npy */
    unsigned char *data; /* in the file, all of it within */
    size_t bytes;
    const char *refused; /* why it cannot be used, or NULL */
    bool has_crc;        /* `crc` is that of `data`, if the file is whole */
    uint32_t crc;
    bool is_npy; /* `data` is a .npy file; what follows is not set */
    DType dtype;
    uint32_t rank;
    int64_t dims[STORED_MAX_RANK];
} StoredArray;

typedef struct ArrayFile {
    char *path;
    unsigned char *bytes; /* private: what is written there does not reach the file */
    size_t size;
    bool is_mapped;
    bool is_archive; /* arrays have names */
    StoredArray *arrays;
    size_t count;
} ArrayFile;

/* NULL: `error` says what is wrong, with which file. */
ArrayFile *array_file_open(const char *path, char *error, size_t error_size);
void array_file_close(ArrayFile *file); /* NULL is fine */
/* NULL: it has no such array. */
const StoredArray *array_file_find(const ArrayFile *file, const char *name);

/* The array in storage form, row-major, if it has just this type and shape. `*out_owned` is NULL where `*out` lies in
 * the file, else what is to be freed. */
bool stored_array_read(const ArrayFile *file, const StoredArray *a, DType dtype,
                       uint32_t rank, const int64_t *dims, void **out, void **out_owned,
                       char *error, size_t error_size);

/* The readers of the two archives: they add arrays to an open file. */
bool npz_list(ArrayFile *file, char *error, size_t error_size);
bool safetensors_list(ArrayFile *file, char *error, size_t error_size);
/* CRC-32 of what has the sum `crc` (0: of nothing) and these bytes behind it (APPNOTE 6.3, 4.4.7). For one thread at a time. */
uint32_t npz_crc(uint32_t crc, const void *data, size_t bytes);
/* False: no memory. `name` is copied. */
bool array_file_add(ArrayFile *file, const char *name, size_t length, StoredArray a);

/* What a .safetensors file calls the type; NULL: it has no such type. */
const char *safetensors_dtype(DType dtype);

/* Writing, whole or not at all; 0 or an errno. */
typedef struct WrittenArray {
    const char *name;
    DType dtype;
    uint32_t rank;
    const int64_t *dims;
    const void *data; /* row-major, in storage form */
    size_t bytes;
} WrittenArray;
int npz_write(const char *path, const WrittenArray *arrays, size_t count);
int safetensors_write(const char *path, const WrittenArray *arrays, size_t count);

#endif
