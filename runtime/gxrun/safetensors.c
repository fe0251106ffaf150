/* .safetensors: the length of a header, the header (JSON: name, type, shape and offsets of each array), the arrays. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/file.h"
#include "runtime/gxrun/array_file.h"
#include "runtime/gxrun/json.h"
#include "runtime/gxrun/json_read.h"
#include "runtime/gxrun/npy.h"

enum { MAX_HEADER = 100 << 20 };

static const struct {
    const char *name;
    DType dtype;
} types[] = {{"BOOL", DT_PRED},
             {"U8", DT_U8},
             {"I8", DT_S8},
             {"U16", DT_U16},
             {"I16", DT_S16},
             {"U32", DT_U32},
             {"I32", DT_S32},
             {"U64", DT_U64},
             {"I64", DT_S64},
             {"F16", DT_F16},
             {"BF16", DT_BF16},
             {"F32", DT_F32},
             {"F64", DT_F64},
             {"F8_E4M3", DT_F8E4M3FN},
             {"F8_E5M2", DT_F8E5M2},
             {"F8_E8M0", DT_F8E8M0FNU},
             {"F8_E4M3FNUZ", DT_F8E4M3FNUZ},
             {"F8_E5M2FNUZ", DT_F8E5M2FNUZ},
             {"C64", DT_C64}};
enum { TYPES = sizeof types / sizeof *types };

const char *safetensors_dtype(DType dtype)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return NULL;
}

static DType dtype_of(const JsonValue *name)
{
    for (size_t i = 0; name && name->kind == JSON_STRING && i < TYPES; i++) {
        if (strcmp(types[i].name, name->text) == 0) {
            return types[i].dtype;
        }
    }
    return DT_INVALID;
}

/* What the header says of one array, which must lie within the `size` bytes behind it. */
static const char *read_array(const JsonValue *v, unsigned char *data, size_t size,
                              StoredArray *out)
{
    int64_t offsets[2];
    uint32_t count;
    size_t elements;
    const JsonValue *dtype = json_member(v, "dtype");
    if (!json_sizes(json_member(v, "data_offsets"), 2, offsets, &count) || count != 2 ||
        offsets[0] > offsets[1] || (uint64_t)offsets[1] > size) {
        return "its data_offsets are not within the file";
    }
    if (!json_sizes(json_member(v, "shape"), STORED_MAX_RANK, out->dims, &out->rank)) {
        return "its shape is no list of sizes";
    }
    if (!dtype || dtype->kind != JSON_STRING) {
        return "it has no dtype";
    }
    out->data = data + offsets[0];
    out->bytes = (size_t)(offsets[1] - offsets[0]);
    out->dtype = dtype_of(dtype);
    if (out->dtype == DT_INVALID) {
        out->refused = "not supported: its dtype";
        return NULL;
    }
    if (!npy_elements(out->dtype, out->rank, out->dims, &elements) ||
        elements * dtype_info[out->dtype].storage != out->bytes) {
        return "its data_offsets do not fit its shape and dtype";
    }
    return NULL;
}

bool safetensors_list(ArrayFile *f, char *error, size_t error_size)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | f->bytes[i];
    }
    if (length > f->size - 8 || length > MAX_HEADER) {
        snprintf(error, error_size,
                 "%s: the header of the .safetensors file has %" PRIu64
                 " bytes, the file %zu",
                 f->path, length, f->size);
        return false;
    }
    char why[256];
    Json *json = json_read((const char *)f->bytes + 8, (size_t)length, why, sizeof why);
    if (!json) {
        snprintf(error, error_size, "%s: the header of the .safetensors file: %s",
                 f->path, why);
        return false;
    }
    const char *wrong = NULL;
    const JsonValue *v = json_root(json)->first;
    for (; v && !wrong; v = v->next) {
        StoredArray a = {0};
        if (strcmp(v->key, "__metadata__") == 0) {
            continue;
        }
        wrong = read_array(v, f->bytes + 8 + length, f->size - 8 - (size_t)length, &a);
        if (!wrong && !array_file_add(f, v->key, strlen(v->key), a)) {
            wrong = "no memory";
        }
        if (wrong) {
            snprintf(error, error_size, "%s:%s: %s", f->path, v->key, wrong);
        }
    }
    json_destroy(json);
    return !wrong;
}

/* --- writing ----------------------------------------------------------------------------- */

static void print_header(FILE *out, const WrittenArray *arrays, size_t count)
{
    JsonList list = {0};
    uint64_t at = 0;
    fputc('{', out);
    for (size_t i = 0; i < count; i++) {
        const WrittenArray *a = &arrays[i];
        json_key(out, &list, a->name);
        fprintf(out, "{\"dtype\": \"%s\", \"shape\": [", safetensors_dtype(a->dtype));
        for (uint32_t d = 0; d < a->rank; d++) {
            fprintf(out, "%s%" PRId64, d ? ", " : "", a->dims[d]);
        }
        fprintf(out, "], \"data_offsets\": [%" PRIu64 ", %" PRIu64 "]}", at,
                at + a->bytes);
        at += a->bytes;
    }
    fputc('}', out);
}

int safetensors_write(const char *path, const WrittenArray *arrays, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    FilePart *parts = calloc(count + 2, sizeof *parts);
    int code = ENOMEM;
    if (out && parts) {
        print_header(out, arrays, count);
        for (size_t n = (size_t)ftello(out); n % 8 != 0; n++) {
            fputc(' ', out); /* so that the arrays are aligned */
        }
        bool ok = !ferror(out);
        ok = fclose(out) == 0 && ok;
        out = NULL;
        unsigned char length[8];
        for (int i = 0; i < 8; i++) {
            length[i] = (unsigned char)((uint64_t)size >> 8 * i);
        }
        parts[0] = (FilePart){length, 8};
        parts[1] = (FilePart){text, size};
        for (size_t i = 0; i < count; i++) {
            parts[i + 2] = (FilePart){arrays[i].data, arrays[i].bytes};
        }
        code = ok ? file_write(path, parts, count + 2) : ENOMEM;
    }
    if (out) {
        fclose(out);
    }
    free(text);
    free(parts);
    return code;
}
