/* See array_file.h. */
#include "runtime/gxrun/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/file.h"
#include "runtime/gxrun/npy.h"

/* 0, or an errno. A pipe is read; a device is not, as it need not end. */
static int map(const char *path, ArrayFile *f, bool *is_device)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int code = fstat(fd, &st) == 0 ? 0 : errno;
    *is_device = code == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode));
    if (*is_device) {
        code = ENODEV;
    } else if (code == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p =
            mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        code = p == MAP_FAILED ? errno : 0;
        if (code == 0) {
            f->bytes = p;
            f->size = (size_t)st.st_size;
            f->is_mapped = true;
        }
    }
    if (code || f->is_mapped) {
        close(fd);
        return code;
    }
    void *data = NULL;
    code = file_read_open(fd, SIZE_MAX, &data, &f->size);
    f->bytes = data;
    return code;
}

/* The length of the header of a .safetensors file stands first, then its text. */
static bool is_safetensors(const ArrayFile *f)
{
    return f->size > 8 && f->bytes[8] == '{' && memcmp(f->bytes, "\x93NUMPY", 6) != 0;
}

bool array_file_add(ArrayFile *f, const char *name, size_t length, StoredArray a)
{
    if ((f->count & (f->count - 1)) == 0) { /* doubles */
        size_t more = f->count ? 2 * f->count : 1;
        StoredArray *arrays = realloc(f->arrays, more * sizeof *arrays);
        if (!arrays) {
            return false;
        }
        f->arrays = arrays;
    }
    a.name = malloc(length + 1);
    if (!a.name) {
        return false;
    }
    memcpy(a.name, name, length);
    a.name[length] = 0;
    f->arrays[f->count++] = a;
    return true;
}

ArrayFile *array_file_open(const char *path, char *error, size_t error_size)
{
    ArrayFile *f = calloc(1, sizeof *f);
    size_t length = strlen(path) + 1;
    if (!f || !(f->path = malloc(length))) {
        free(f);
        snprintf(error, error_size, "%s: no memory", path);
        return NULL;
    }
    memcpy(f->path, path, length);
    bool is_device = false;
    int code = map(path, f, &is_device);
    bool ok = code == 0;
    if (!ok) {
        snprintf(error, error_size, "%s: %s", path,
                 is_device ? "a file or a pipe is expected, not a device"
                           : strerror(code));
    } else if (f->size > 4 && memcmp(f->bytes, "PK", 2) == 0) {
        f->is_archive = true;
        ok = npz_list(f, error, error_size);
    } else if (is_safetensors(f)) {
        f->is_archive = true;
        ok = safetensors_list(f, error, error_size);
    } else {
        StoredArray whole = {.data = f->bytes, .bytes = f->size, .is_npy = true};
        ok = array_file_add(f, "", 0, whole);
        if (!ok) {
            snprintf(error, error_size, "%s: no memory", path);
        }
    }
    if (!ok) {
        array_file_close(f);
    }
    return ok ? f : NULL;
}

void array_file_close(ArrayFile *f)
{
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->count; i++) {
        free(f->arrays[i].name);
    }
    free(f->arrays);
    if (f->is_mapped) {
        munmap(f->bytes, f->size);
    } else {
        free(f->bytes);
    }
    free(f->path);
    free(f);
}

const StoredArray *array_file_find(const ArrayFile *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->arrays[i].name, name) == 0) {
            return &f->arrays[i];
        }
    }
    return NULL;
}

/* Types that numpy lacks may be stored as raw bits. */
static bool is_raw(DType have, DType want)
{
    return dtype_info[want].storage == dtype_info[have].storage &&
           ((have == DT_U8 && dtype_info[want].bits <= 8) ||
            (have == DT_U16 && want == DT_BF16) ||
            (have == DT_S8 && (want == DT_S4 || want == DT_S2)));
}

/* As HLO writes it: f32[2,3]. */
static void shape_text(DType dtype, uint32_t rank, const int64_t *dims, char *out,
                       size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s[", dtype_info[dtype].name);
    for (uint32_t i = 0; i < rank && at + 24 < size; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%" PRId64, i ? "," : "", dims[i]);
    }
    snprintf(out + at, size - at, "]");
}

static bool find_plain(const char *label, const StoredArray *a, DType dtype,
                       uint32_t rank, const int64_t *dims, NpyArray *out, char *error,
                       size_t error_size)
{
    bool same =
        a->rank == rank && (rank == 0 || memcmp(a->dims, dims, rank * sizeof *dims) == 0);
    if (!same || (a->dtype != dtype && !is_raw(a->dtype, dtype))) {
        char have[256];
        char want[256];
        shape_text(a->dtype, a->rank, a->dims, have, sizeof have);
        shape_text(dtype, rank, dims, want, sizeof want);
        snprintf(error, error_size, "%s: the array is %s, the program wants %s", label,
                 have, want);
        return false;
    }
    *out = (NpyArray){a->data, a->bytes, false};
    return npy_check_values(label, dtype, a->data, a->bytes / dtype_info[dtype].storage,
                            error, error_size);
}

bool stored_array_read(const ArrayFile *f, const StoredArray *a, DType dtype,
                       uint32_t rank, const int64_t *dims, void **out, void **out_owned,
                       char *error, size_t error_size)
{
    char label[512];
    snprintf(label, sizeof label, "%s%s%s", f->path, f->is_archive ? ":" : "", a->name);
    *out = *out_owned = NULL;
    if (a->refused) {
        snprintf(error, error_size, "%s: %s", label, a->refused);
        return false;
    }
    if (a->has_crc && npz_crc(0, a->data, a->bytes) != a->crc) {
        snprintf(error, error_size,
                 "%s: the file is damaged: the array has another checksum than is stored",
                 label);
        return false;
    }
    f->arrays[a - f->arrays].has_crc =
        false; /* once: pred that is neither 0 nor 1 becomes 1 in place */
    NpyArray found;
    bool ok = a->is_npy
                  ? npy_find(label, a->data, a->bytes, dtype, rank, dims, &found, error,
                             error_size)
                  : find_plain(label, a, dtype, rank, dims, &found, error, error_size);
    if (!ok) {
        return false;
    }
    size_t alignment = dtype_info[dtype].storage < 8 ? dtype_info[dtype].storage : 8;
    if (!found.fortran && (uintptr_t)found.data % alignment == 0) {
        *out = found.data;
        return true;
    }
    *out = *out_owned = npy_copy(&found, dtype, rank, dims);
    if (!*out) {
        snprintf(error, error_size, "%s: no memory for %zu bytes", label, found.bytes);
    }
    return *out != NULL;
}
