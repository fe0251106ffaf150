/* Inputs and outputs of gxrun: files, random numbers, device layouts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"
#include "runtime/gxrun/npy.h"

/* --- layouts -------------------------------------------------------------------------------- */

/* Copies elements of `size` bytes; element i of the row-major array is at[i] of the other. */
static void permute(const Leaf *leaf, const int64_t *minor_to_major, const char *from,
                    char *to, bool to_device)
{
    int64_t strides[64];
    int64_t index[64] = {0};
    int64_t stride = 1;
    size_t size = dtype_info[leaf->dtype].storage;
    bool row_major = true;
    for (uint32_t i = 0; i < leaf->rank; i++) {
        row_major &= minor_to_major[i] == (int64_t)(leaf->rank - 1 - i);
        strides[minor_to_major[i]] = stride;
        stride *= leaf->dims[minor_to_major[i]];
    }
    if (row_major) {
        memcpy(to, from, leaf->bytes);
        return;
    }
    int64_t at = 0;
    for (size_t i = 0; i < leaf->elements; i++) {
        size_t device = (size_t)at * size;
        memcpy(to + (to_device ? device : i * size),
               from + (to_device ? i * size : device), size);
        for (uint32_t k = leaf->rank; k-- > 0;) {
            at += strides[k];
            if (++index[k] < leaf->dims[k]) {
                break;
            }
            at -= strides[k] * index[k];
            index[k] = 0;
        }
    }
}

void data_to_device(const Leaf *leaf, const int64_t *minor_to_major, const void *from,
                    void *to)
{
    if (dtype_info[leaf->dtype].bits >= 8) {
        permute(leaf, minor_to_major, from, to, true);
        return;
    }
    void *elements = allocate(leaf->bytes, 1);
    permute(leaf, minor_to_major, from, elements, true);
    number_pack(leaf->dtype, to, elements, leaf->elements);
    free(elements);
}

void data_from_device(const Leaf *leaf, const int64_t *minor_to_major, const void *from,
                      void *to)
{
    if (dtype_info[leaf->dtype].bits >= 8) {
        permute(leaf, minor_to_major, from, to, false);
        return;
    }
    void *elements = allocate(leaf->bytes, 1);
    number_unpack(leaf->dtype, elements, from, leaf->elements);
    permute(leaf, minor_to_major, elements, to, false);
    free(elements);
}

/* --- random numbers -------------------------------------------------------------------------- */

static uint64_t mix(uint64_t *state) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double unit(uint64_t *state) /* [-1, 1) */
{
    return (double)(int64_t)(mix(state) >> 11) * 0x1p-52 - 1.0;
}

/* Floats in [-1, 1); integers small enough to index most things and to sum without wrapping. */
static void fill_random(const Leaf *leaf, uint64_t seed, void *data)
{
    const DTypeInfo *info = &dtype_info[leaf->dtype];
    char *at = data;
    for (size_t i = 0; i < leaf->elements; i++, at += info->storage) {
        switch (info->class) {
        case DTC_PRED:
            *at = (char)(mix(&seed) & 1);
            break;
        case DTC_SINT:
            number_set_int(leaf->dtype, at,
                           info->bits < 4 ? -(int64_t)(mix(&seed) & 1)
                                          : (int64_t)(mix(&seed) & 15) - 8);
            break;
        case DTC_UINT:
            number_set_int(leaf->dtype, at,
                           (int64_t)(mix(&seed) & (info->bits < 4 ? 1 : 15)));
            break;
        case DTC_FLOAT: {
            double x = unit(&seed);
            number_set_double(leaf->dtype, at,
                              info->special == SPECIAL_E8M0 ? 1 + (x < 0) : x);
            break;
        }
        case DTC_COMPLEX: {
            double re = unit(&seed);
            number_set_complex(leaf->dtype, at, re, unit(&seed));
            break;
        }
        case DTC_OTHER:
            break;
        }
    }
}

/* --- files ----------------------------------------------------------------------------------- */

/* `text` with every {device} replaced; to be freed. */
static char *device_name(const char *text, uint32_t device, bool *out_replaced)
{
    static const char mark[] = "{device}";
    char *out = allocate(strlen(text) * 2 + 16, 1);
    char *to = out;
    *out_replaced = false;
    while (*text) {
        if (strncmp(text, mark, sizeof mark - 1) == 0) {
            to += sprintf(to, "%u", device);
            text += sizeof mark - 1;
            *out_replaced = true;
        } else {
            *to++ = *text++;
        }
    }
    *to = 0;
    return out;
}

static int read_leaf(const Signature *s, const char *file, const Leaf *leaf,
                     size_t device, void **out)
{
    char error[1024];
    bool replaced;
    char *path = device_name(file, s->first + (uint32_t)device, &replaced);
    bool ok =
        npy_read(path, leaf->dtype, leaf->rank, leaf->dims, out, error, sizeof error);
    free(path);
    return ok ? EXIT_DONE : complain(EXIT_WRONG, "%s (for %s)", error, leaf->name);
}

static const Source *source_of(const Source **by_leaf, size_t leaf,
                               const Source *otherwise)
{
    return by_leaf[leaf] ? by_leaf[leaf] : otherwise;
}

/* "x, y, z, ..." */
static const char *names_of(const Signature *s)
{
    static char text[256];
    size_t at =
        (size_t)snprintf(text, sizeof text, "%s", s->parameter_count ? "" : "none");
    for (size_t i = 0; i < s->parameter_count; i++) {
        const char *name = s->parameters[i].name;
        if (at + strlen(name) + 8 > sizeof text) {
            snprintf(text + at, sizeof text - at, ", ...");
            break;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "", name);
    }
    return text;
}

/* Which --input feeds which parameter: named ones first, the others by order. */
static int assign_inputs(const Options *o, const Signature *s, const Source **by_leaf)
{
    for (size_t i = 0; i < o->input_count; i++) {
        const char *name = o->inputs[i].name;
        size_t leaf = 0;
        while (name && leaf < s->parameter_count &&
               strcmp(s->parameters[leaf].name, name) != 0) {
            leaf++;
        }
        if (name && leaf == s->parameter_count) {
            return complain(EXIT_WRONG,
                            "--input=%s=...: the program has no parameter %s, but %s",
                            name, name, names_of(s));
        }
        if (name && by_leaf[leaf]) {
            return complain(EXIT_WRONG, "--input=%s=...: given twice", name);
        }
        if (name) {
            by_leaf[leaf] = &o->inputs[i];
        }
    }
    size_t next = 0;
    for (size_t i = 0; i < o->input_count; i++) {
        if (o->inputs[i].name) {
            continue;
        }
        while (next < s->parameter_count && by_leaf[next]) {
            next++;
        }
        if (next == s->parameter_count) {
            return complain(EXIT_WRONG, "%zu inputs were given; the program takes %zu",
                            o->input_count, s->parameter_count);
        }
        by_leaf[next] = &o->inputs[i];
    }
    return EXIT_DONE;
}

int data_inputs(const Options *o, const Signature *s, void **inputs)
{
    Source rest = {0}; /* what nobody named: random, with the seed given last */
    for (size_t i = 0; i < o->input_count; i++) {
        if (o->inputs[i].has_seed) {
            rest.seed = o->inputs[i].seed;
        }
    }
    const Source **by_leaf = allocate(s->parameter_count, sizeof *by_leaf);
    int code = assign_inputs(o, s, by_leaf);
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        for (size_t i = 0; i < s->parameter_count && code == EXIT_DONE; i++) {
            const Leaf *leaf = &s->parameters[i];
            const Source *source = source_of(by_leaf, i, &rest);
            void **to = &inputs[d * s->parameter_count + i];
            if (source->file) {
                code = read_leaf(s, source->file, leaf, d, to);
            } else {
                *to = allocate(leaf->bytes, 1);
                uint64_t seed = source->seed * 0x10001 + i;
                fill_random(leaf, seed << 20 ^ (s->first + d), *to);
            }
        }
    }
    free(by_leaf);
    return code;
}

int data_check_outputs(const Options *o, const Signature *s)
{
    if (o->output_count > s->result_count) {
        return complain(EXIT_WRONG, "%zu outputs were asked for; the program gives %zu",
                        o->output_count, s->result_count);
    }
    for (size_t i = 0; i < o->output_count; i++) {
        bool replaced;
        char error[1024];
        char *path = device_name(o->outputs[i].file, s->first, &replaced);
        bool ok = npy_can_write(path, error, sizeof error);
        free(path);
        if (!ok) {
            return complain(EXIT_WRONG, "%s", error);
        }
        if (!replaced && s->devices > 1) {
            return complain(EXIT_WRONG,
                            "--output=@%s: %zu devices would write it; put {device} into "
                            "the name",
                            o->outputs[i].file, s->devices);
        }
    }
    return EXIT_DONE;
}

int data_outputs(const Options *o, const Signature *s, void *const *outputs)
{
    for (size_t d = 0; d < s->devices; d++) {
        for (size_t i = 0; i < o->output_count; i++) {
            const Leaf *leaf = &s->results[i];
            char error[1024];
            bool replaced;
            char *path =
                device_name(o->outputs[i].file, s->first + (uint32_t)d, &replaced);
            bool ok = npy_write(path, leaf->dtype, leaf->rank, leaf->dims,
                                outputs[d * s->result_count + i], error, sizeof error);
            free(path);
            if (!ok) {
                return complain(EXIT_WRONG, "%s", error);
            }
        }
    }
    return EXIT_DONE;
}

int compare_files(const Options *o, const Signature *s, void *const *outputs)
{
    if (o->compare_count > s->result_count) {
        return complain(EXIT_WRONG,
                        "%zu files to compare with; the program gives %zu results",
                        o->compare_count, s->result_count);
    }
    size_t count = s->devices * s->result_count;
    void **wanted = allocate(count, sizeof *wanted);
    int code = EXIT_DONE;
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        for (size_t i = 0; i < o->compare_count && code == EXIT_DONE; i++) {
            code = read_leaf(s, o->compare[i].file, &s->results[i], d,
                             &wanted[d * s->result_count + i]);
        }
    }
    if (code == EXIT_DONE && !compare_results(o, s, outputs, wanted, NULL, true)) {
        code = EXIT_WRONG;
    }
    free_arrays(wanted, count);
    return code;
}
