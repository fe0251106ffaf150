/* Inputs of gxrun: files, random numbers, device layouts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/feed.h"
#include "runtime/gxrun/npy.h"

/* --- layouts -------------------------------------------------------------------------------- */

static bool is_row_major(const Leaf *leaf, const int64_t *minor_to_major)
{
    bool row_major = true;
    for (uint32_t i = 0; i < leaf->rank; i++) {
        row_major &= minor_to_major[i] == (int64_t)(leaf->rank - 1 - i);
    }
    return row_major;
}

bool data_is_device_form(const Leaf *leaf, const int64_t *minor_to_major)
{
    return dtype_info[leaf->dtype].bits >= 8 && is_row_major(leaf, minor_to_major);
}

static void permute(const Leaf *leaf, const int64_t *minor_to_major, const void *from,
                    void *to, bool to_device)
{
    if (is_row_major(leaf, minor_to_major)) {
        memcpy(to, from, leaf->bytes);
    } else {
        npy_reorder(leaf->rank, leaf->dims, minor_to_major,
                    dtype_info[leaf->dtype].storage, from, to, !to_device);
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

/* `array`, or else the one that is named in `file`, or else its only one. */
static int read_leaf(FileSet *files, const char *file, const char *array,
                     const Leaf *leaf, uint32_t device, void **out, void **owned)
{
    char error[1024];
    char *named;
    const ArrayFile *f = feed_open(files, file, device, &named);
    if (!f) {
        return EXIT_WRONG;
    }
    const char *name = named ? named : array;
    const StoredArray *a =
        name || f->count != 1 ? array_file_find(f, name ? name : "") : &f->arrays[0];
    int code = EXIT_DONE;
    if (!a) {
        code = complain(EXIT_WRONG, "%s: there is no array %s in it (for %s)", f->path,
                        name ? name : "without a name", leaf_label(leaf));
    } else if (!stored_array_read(f, a, leaf->dtype, leaf->rank, leaf->dims, out, owned,
                                  error, sizeof error)) {
        code = complain(EXIT_WRONG, "%s (for %s)", error, leaf_label(leaf));
    }
    free(named);
    return code;
}

int data_inputs(const Options *o, const Signature *s, FileSet *files, void **inputs,
                void **owned)
{
    Source unnamed = {0}; /* what nobody named: random, with the seed given last */
    for (size_t i = 0; i < o->input_count; i++) {
        if (o->inputs[i].has_seed) {
            unnamed.seed = o->inputs[i].seed;
        }
    }
    Feed *feeds = allocate(s->parameter_count, sizeof *feeds);
    int code = feed_assign(o, s, files, feeds);
    for (size_t n = 0; n < s->devices * s->parameter_count && code == EXIT_DONE; n++) {
        size_t i = n % s->parameter_count;
        uint32_t device = s->first + (uint32_t)(n / s->parameter_count);
        const Leaf *leaf = &s->parameters[i];
        const Source *source = feeds[i].source ? feeds[i].source : &unnamed;
        if (source->file) {
            code = read_leaf(files, source->file, feeds[i].array, leaf, device,
                             &inputs[n], &owned[n]);
        } else {
            inputs[n] = owned[n] = allocate(leaf->bytes, 1);
            uint64_t seed = source->seed * 0x10001 + i;
            fill_random(leaf, seed << 20 ^ device, inputs[n]);
        }
    }
    feed_free(feeds, s->parameter_count);
    return code;
}

/* An archive alone has an array for each result, by name; else files are for results by order. */
static int find_archive_of_all(const Options *o, const Signature *s, FileSet *files,
                               bool *all)
{
    *all = false;
    if (o->compare_count != 1) {
        return EXIT_DONE;
    }
    char *array;
    const ArrayFile *f = feed_open(files, o->compare[0].file, s->first, &array);
    *all = f && f->is_archive && !array;
    free(array);
    return f ? EXIT_DONE : EXIT_WRONG;
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
    void **owned = allocate(count, sizeof *owned);
    char **names = output_names(s);
    FileSet files = {0};
    bool all;
    int code = find_archive_of_all(o, s, &files, &all);
    for (size_t n = 0; n < count && code == EXIT_DONE; n++) {
        size_t i = n % s->result_count;
        uint32_t device = s->first + (uint32_t)(n / s->result_count);
        if (all || i < o->compare_count) {
            code = read_leaf(&files, o->compare[all ? 0 : i].file, all ? names[i] : NULL,
                             &s->results[i], device, &wanted[n], &owned[n]);
        }
    }
    if (code == EXIT_DONE && !compare_results(o, s, outputs, wanted, NULL, true)) {
        code = EXIT_WRONG;
    }
    free_arrays((void **)names, s->result_count);
    free_arrays(owned, count);
    free(wanted);
    feed_close(&files);
    return code;
}
