/* Reading and writing .npy files. */
#include "runtime/gxrun/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/file.h"

enum { MAX_HEADER = 1 << 16, MAX_RANK = 64 };

typedef struct Error {
    const char *path;
    char *text;
    size_t size;
} Error;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
fail(const Error *e, const char *format, ...)
{
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(e->text, e->size, "%s: %s", e->path, why);
    return false;
}

bool npy_elements(DType dtype, uint32_t rank, const int64_t *dims, size_t *out_elements)
{
    size_t n = 1;
    size_t limit =
        (size_t)INT64_MAX / (dtype_info[dtype].storage ? dtype_info[dtype].storage : 1);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] && n > limit / (size_t)dims[i])) {
            return false;
        }
        n *= (size_t)dims[i];
    }
    *out_elements = n;
    return true;
}

/* numpy's letter for a type: b i u f c. */
static char kind_of(DType dtype)
{
    switch (dtype_info[dtype].class) {
    case DTC_PRED:
        return 'b';
    case DTC_SINT:
        return 'i';
    case DTC_COMPLEX:
        return 'c';
    case DTC_FLOAT:
        return dtype == DT_F16 || dtype == DT_F32 || dtype == DT_F64 ? 'f' : 'u';
    case DTC_UINT:
    case DTC_OTHER:
        break;
    }
    return 'u';
}

static void shape_text(uint32_t rank, const int64_t *dims, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (uint32_t i = 0; i < rank && at < size; i++) {
        at +=
            (size_t)snprintf(text + at, size - at, "%s%" PRId64, i ? ", " : "", dims[i]);
    }
    if (at < size) {
        snprintf(text + at, size - at, rank == 1 ? ",)" : ")");
    }
}

/* --- the header: a Python dictionary ------------------------------------------------------- */

typedef struct Header {
    char order; /* of bytes: '<', '>', '|' */
    char kind;
    unsigned width; /* bytes of an element */
    bool fortran;
    uint32_t rank;
    int64_t dims[MAX_RANK];
} Header;

static const char *skip(const char *p)
{
    while (isspace((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* The text behind 'key': */
static const char *find_key(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(text, quoted);
    if (!p) {
        snprintf(quoted, sizeof quoted, "\"%s\"", key);
        p = strstr(text, quoted);
    }
    if (!p) {
        return NULL;
    }
    p = skip(p + strlen(quoted));
    return *p == ':' ? skip(p + 1) : NULL;
}

static bool parse_descr(const char *p, Header *h)
{
    if (!p || (*p != '\'' && *p != '"')) {
        return false;
    }
    p++;
    h->order = strchr("<>|=", *p) && *p ? *p++ : '=';
    h->kind = *p ? *p++ : 0;
    char *end;
    unsigned long width = strtoul(p, &end, 10);
    if (end == p || (*end != '\'' && *end != '"') || width > 64) {
        return false;
    }
    h->width = (unsigned)width;
    return true;
}

static bool parse_shape(const char *p, Header *h)
{
    if (!p || *p != '(') {
        return false;
    }
    p = skip(p + 1);
    while (*p != ')') {
        char *end;
        errno = 0;
        long long n = strtoll(p, &end, 10);
        if (end == p || errno || n < 0 || h->rank == MAX_RANK) {
            return false;
        }
        h->dims[h->rank++] = n;
        p = skip(*end == 'L' ? end + 1 : end);
        if (*p == ',') {
            p = skip(p + 1);
        } else if (*p != ')') {
            return false;
        }
    }
    return true;
}

static bool parse_header(const char *text, Header *h)
{
    memset(h, 0, sizeof *h);
    const char *fortran = find_key(text, "fortran_order");
    if (!fortran ||
        (strncmp(fortran, "True", 4) != 0 && strncmp(fortran, "False", 5) != 0)) {
        return false;
    }
    h->fortran = *fortran == 'T';
    return parse_descr(find_key(text, "descr"), h) &&
           parse_shape(find_key(text, "shape"), h);
}

/* Length of the text of the header; `*start` is where it begins. */
static bool find_header(const Error *e, const unsigned char *bytes, size_t size,
                        size_t *start, size_t *length)
{
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return size > 1 && memcmp(bytes, "PK", 2) == 0
                   ? fail(e, "this is a .npz archive: save one array, as .npy")
                   : fail(e, "this is not a .npy file");
    }
    if (bytes[6] < 1 || bytes[6] > 3) {
        return fail(e, "a .npy file of version %d, known are 1 to 3", bytes[6]);
    }
    *start = bytes[6] > 1 ? 12 : 10;
    *length = bytes[8] | (size_t)bytes[9] << 8;
    if (size < *start) {
        return fail(e, "the file is cut off");
    }
    if (bytes[6] > 1) {
        *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    if (*length > MAX_HEADER) {
        return fail(e, "the header of the .npy file has %zu bytes, at most %d are read",
                    *length, MAX_HEADER);
    }
    return *length <= size - *start || fail(e, "the file is cut off");
}

/* `*out_end` is where the elements begin. */
static bool read_header(const Error *e, const unsigned char *bytes, size_t size,
                        Header *h, size_t *out_end)
{
    size_t start = 0;
    size_t length = 0;
    if (!find_header(e, bytes, size, &start, &length)) {
        return false;
    }
    char *text = malloc(length + 1);
    if (!text) {
        return fail(e, "no memory");
    }
    memcpy(text, bytes + start, length);
    text[length] = 0;
    bool ok = strlen(text) == length && parse_header(text, h);
    const char *descr = find_key(text, "descr");
    bool is_record = descr && *descr == '[';
    bool is_object = descr && *descr != 0 && strncmp(descr + 1, "|O", 2) == 0;
    free(text);
    if (is_record || is_object) {
        return fail(e, "the file holds %s: save an array of numbers",
                    is_record ? "records of several fields" : "Python objects");
    }
    *out_end = start + length;
    return ok || fail(e, "the header of the .npy file is damaged");
}

static bool check_type(const Error *e, const Header *h, DType dtype)
{
    const DTypeInfo *info = &dtype_info[dtype];
    char kind = kind_of(dtype);
    /* numpy.save writes types of ml_dtypes as V, but for float8_e5m2 */
    bool is_foreign = (info->class == DTC_FLOAT && kind == 'u') || info->bits < 8;
    bool same = h->kind == kind || (kind == 'b' && h->kind == 'u') ||
                (h->kind == 'V' && is_foreign) || (h->kind == 'f' && dtype == DT_F8E5M2);
    if (!same || h->width != info->storage) {
        return fail(e, "the file holds %c%u, the program wants %s: an array of %c%u%s",
                    h->kind, h->width, info->name, kind, info->storage,
                    info->class == DTC_FLOAT && kind == 'u' ? " (raw bits)" : "");
    }
    if (h->order == '>' && h->width > 1) {
        return fail(e, "the file is big-endian: save it as little-endian");
    }
    return true;
}

static bool check_shape(const Error *e, const Header *h, uint32_t rank,
                        const int64_t *dims)
{
    bool same = h->rank == rank;
    for (uint32_t i = 0; i < rank && same; i++) {
        same = h->dims[i] == dims[i];
    }
    if (!same) {
        char got[256];
        char want[256];
        shape_text(h->rank, h->dims, got, sizeof got);
        shape_text(rank, dims, want, sizeof want);
        return fail(e, "the array has shape %s, the program wants %s", got, want);
    }
    return true;
}

bool npy_check_values(const char *name, DType dtype, unsigned char *data, size_t n,
                      char *error, size_t error_size)
{
    Error e = {name, error, error_size};
    const DTypeInfo *info = &dtype_info[dtype];
    if (dtype == DT_PRED) {
        for (size_t i = 0; i < n; i++) {
            data[i] = data[i] != 0;
        }
        return true;
    }
    for (size_t i = 0; info->bits < 8 && i < n; i++) {
        int value = info->class == DTC_SINT ? (signed char)data[i] : data[i];
        int low = info->class == DTC_SINT ? -(1 << (info->bits - 1)) : 0;
        int high = info->class == DTC_SINT ? -low - 1 : (1 << info->bits) - 1;
        if (value < low || value > high) {
            return fail(&e, "element %zu is %d: no value of %s", i, value, info->name);
        }
    }
    return true;
}

bool npy_find(const char *name, unsigned char *bytes, size_t size, DType dtype,
              uint32_t rank, const int64_t *dims, NpyArray *out, char *error,
              size_t error_size)
{
    Error e = {name, error, error_size};
    Header h;
    size_t n;
    size_t start = 0;
    *out = (NpyArray){0};
    if (!read_header(&e, bytes, size, &h, &start) || !check_type(&e, &h, dtype) ||
        !check_shape(&e, &h, rank, dims)) {
        return false;
    }
    if (!npy_elements(dtype, rank, dims, &n)) {
        return fail(&e, "the array is too large");
    }
    size_t wanted = n * dtype_info[dtype].storage;
    if (size - start != wanted) {
        return size - start > wanted ? fail(&e, "there are bytes behind the array")
                                     : fail(&e, "the file is cut off: %zu bytes of %zu",
                                            size - start, wanted);
    }
    *out = (NpyArray){bytes + start, wanted, h.fortran};
    int unused = 8 - (int)dtype_info[dtype].bits; /* ml_dtypes has no sign there */
    for (size_t i = 0; h.kind == 'V' && kind_of(dtype) == 'i' && unused > 0 && i < n;
         i++) {
        int value = out->data[i] & ((1 << (8 - unused)) - 1);
        out->data[i] =
            (unsigned char)(value >> (7 - unused) ? value - (1 << (8 - unused)) : value);
    }
    return npy_check_values(name, dtype, out->data, n, error, error_size);
}

void npy_reorder(uint32_t rank, const int64_t *dims, const int64_t *minor_to_major,
                 size_t size, const void *from, void *to, bool to_row_major)
{
    int64_t strides[MAX_RANK];
    int64_t index[MAX_RANK] = {0};
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        strides[minor_to_major[i]] = count;
        count *= dims[minor_to_major[i]];
    }
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *source = (const char *)from + (size_t)(to_row_major ? at : i) * size;
        memcpy((char *)to + (size_t)(to_row_major ? i : at) * size, source, size);
        for (uint32_t k = rank; k-- > 0;) {
            at += strides[k];
            if (++index[k] < dims[k]) {
                break;
            }
            at -= strides[k] * index[k];
            index[k] = 0;
        }
    }
}

void *npy_copy(const NpyArray *a, DType dtype, uint32_t rank, const int64_t *dims)
{
    int64_t first_fastest[MAX_RANK];
    void *out = malloc(a->bytes ? a->bytes : 1);
    for (uint32_t i = 0; i < rank; i++) {
        first_fastest[i] = i;
    }
    if (out && a->fortran) {
        npy_reorder(rank, dims, first_fastest, dtype_info[dtype].storage, a->data, out,
                    true);
    } else if (out) {
        memcpy(out, a->data, a->bytes);
    }
    return out;
}

bool npy_read(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
              void **out_data, char *error, size_t error_size)
{
    Error e = {path, error, error_size};
    void *bytes;
    size_t size;
    NpyArray found;
    *out_data = NULL;
    int code = file_read(path, SIZE_MAX, &bytes, &size);
    if (code) {
        return fail(&e, "%s", strerror(code));
    }
    bool ok = npy_find(path, bytes, size, dtype, rank, dims, &found, error, error_size);
    if (ok) {
        *out_data = npy_copy(&found, dtype, rank, dims);
        ok = *out_data || fail(&e, "no memory for %zu bytes", found.bytes);
    }
    free(bytes);
    return ok;
}

/* --- writing -------------------------------------------------------------------------------- */

size_t npy_header(DType dtype, uint32_t rank, const int64_t *dims, char *out, size_t size)
{
    char shape[2048];
    shape_text(rank, dims, shape, sizeof shape);
    unsigned width = dtype_info[dtype].storage;
    int n = snprintf(out + 10, size - 10,
                     "{'descr': '%c%c%u', 'fortran_order': False, 'shape': %s, }",
                     width == 1 ? '|' : '<', kind_of(dtype), width, shape);
    size_t total = (10 + (size_t)n + 1 + 63) & ~(size_t)63;
    memset(out + 10 + n, ' ', total - 10 - (size_t)n - 1);
    out[total - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((total - 10) & 0xff);
    out[9] = (char)((total - 10) >> 8);
    return total;
}

bool npy_write(const char *path, DType dtype, uint32_t rank, const int64_t *dims,
               const void *data, char *error, size_t error_size)
{
    Error e = {path, error, error_size};
    char header[NPY_HEADER + 64];
    size_t n;
    if (!npy_elements(dtype, rank, dims, &n)) {
        return fail(&e, "the array is too large");
    }
    size_t length = npy_header(dtype, rank, dims, header, sizeof header - 64);
    size_t bytes = n * dtype_info[dtype].storage;
    int why = file_write(path, (FilePart[]){{header, length}, {data, bytes}}, 2);
    return why == 0 || fail(&e, "cannot be written: %s", strerror(why));
}
