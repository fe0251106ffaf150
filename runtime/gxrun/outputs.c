/* Writing results: by order into files of their own, or all of them by name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/base/file.h"
#include "runtime/gxrun/feed.h"
#include "runtime/gxrun/names.h"
#include "runtime/gxrun/npy.h"

/* --- all by name ------------------------------------------------------------------------------ */

static bool is_taken(char **names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

char **output_names(const Signature *s)
{
    char **names = allocate(s->result_count, sizeof *names);
    for (size_t i = 0; i < s->result_count; i++) {
        const Leaf *leaf = &s->results[i];
        char *words = name_words(leaf_label(leaf));
        size_t size = strlen(words) + 24;
        names[i] = allocate(size, 1);
        snprintf(names[i], size, "%s", *words ? words : "result");
        if (is_taken(names, i, names[i])) { /* keys that differ only in signs */
            snprintf(names[i], size, "%s.%zu", *words ? words : "result", i);
        }
        free(words);
    }
    return names;
}

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path);
    return length > strlen(end) && strcmp(path + length - strlen(end), end) == 0;
}

static int cannot_write(const char *path, int why)
{
    return complain(EXIT_WRONG, "%s: cannot be written: %s", path, strerror(why));
}

static int write_folder(const char *folder, const WrittenArray *arrays, size_t count)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        char error[1024];
        const WrittenArray *a = &arrays[i];
        char *path = allocate(strlen(folder) + strlen(a->name) + 8, 1);
        sprintf(path, "%s/%s.npy", folder, a->name);
        if (!npy_write(path, a->dtype, a->rank, a->dims, a->data, error, sizeof error)) {
            code = complain(EXIT_WRONG, "%s", error);
        }
        free(path);
    }
    return code;
}

/* The results of one device. */
static int write_all(const char *path, const Signature *s, void *const *outputs)
{
    char **names = output_names(s);
    WrittenArray *arrays = allocate(s->result_count, sizeof *arrays);
    for (size_t i = 0; i < s->result_count; i++) {
        const Leaf *leaf = &s->results[i];
        arrays[i] = (WrittenArray){names[i],   leaf->dtype, leaf->rank,
                                   leaf->dims, outputs[i],  leaf->bytes};
    }
    int code = EXIT_DONE;
    if (ends_in(path, ".npz") || ends_in(path, ".safetensors")) {
        int why = ends_in(path, ".npz")
                      ? npz_write(path, arrays, s->result_count)
                      : safetensors_write(path, arrays, s->result_count);
        code = why ? cannot_write(path, why) : EXIT_DONE;
    } else {
        code = write_folder(path, arrays, s->result_count);
    }
    free_arrays((void **)names, s->result_count);
    free(arrays);
    return code;
}

/* A folder is made if there is none; its parent must be there. */
static int check_path(const char *path)
{
    char error[1024];
    struct stat st;
    if (ends_in(path, ".npz") || ends_in(path, ".safetensors")) {
        return npy_can_write(path, error, sizeof error)
                   ? EXIT_DONE
                   : complain(EXIT_WRONG, "%s", error);
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return cannot_write(path, errno);
    }
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode)
               ? EXIT_DONE
               : complain(EXIT_WRONG,
                          "--outputs=%s: a folder, .npz or .safetensors is expected",
                          path);
}

static int check_types(const Options *o, const Signature *s)
{
    for (size_t i = 0; i < s->result_count && ends_in(o->all_outputs, ".safetensors");
         i++) {
        if (!safetensors_dtype(s->results[i].dtype)) {
            return complain(EXIT_WRONG,
                            "--outputs=%s: .safetensors has no type for result %zu, %s; "
                            "use a .npz",
                            o->all_outputs, i, dtype_info[s->results[i].dtype].name);
        }
    }
    return EXIT_DONE;
}

static int many_devices(const char *option, const char *file, size_t devices)
{
    return complain(EXIT_WRONG,
                    "--%s%s: %zu devices would write it; put {device} into the name",
                    option, file, devices);
}

/* What is written must not replace what is run. */
static int check_replaced(const Options *o, const char *path)
{
    const char *const kept[] = {o->program, o->hlo, o->manifest};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i] && file_is_same(kept[i], path)) {
            return complain(EXIT_WRONG, "%s: would be replaced by a result; give another",
                            path);
        }
    }
    return EXIT_DONE;
}

/* Two results for one file; what is no plain file, such as /dev/null, takes all. */
static int check_twice(const Options *o, size_t number, const char *path)
{
    struct stat st;
    bool is_plain = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    for (size_t i = 0; i < number && is_plain; i++) {
        if (strcmp(o->outputs[i].file, o->outputs[number].file) == 0 ||
            file_is_same(o->outputs[i].file, path)) {
            return complain(EXIT_WRONG,
                            "--output=@%s: results %zu and %zu would write it",
                            o->outputs[number].file, i, number);
        }
    }
    return EXIT_DONE;
}

static int check_all(const Options *o, const Signature *s)
{
    int code = check_types(o, s);
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        bool replaced;
        char *path = feed_path(o->all_outputs, s->first + (uint32_t)d, &replaced);
        code = !replaced && s->devices > 1
                   ? many_devices("outputs=", o->all_outputs, s->devices)
                   : check_path(path);
        code = code == EXIT_DONE ? check_replaced(o, path) : code;
        free(path);
    }
    return code;
}

/* --- some by order ----------------------------------------------------------------------------- */

int data_check_outputs(const Options *o, const Signature *s)
{
    if (o->output_count > s->result_count) {
        return complain(EXIT_WRONG, "%zu outputs were asked for; the program gives %zu",
                        o->output_count, s->result_count);
    }
    for (size_t i = 0; i < o->output_count; i++) {
        bool replaced;
        char error[1024];
        char *path = feed_path(o->outputs[i].file, s->first, &replaced);
        int code = npy_can_write(path, error, sizeof error)
                       ? check_replaced(o, path)
                       : complain(EXIT_WRONG, "%s", error);
        code = code == EXIT_DONE ? check_twice(o, i, path) : code;
        free(path);
        if (code != EXIT_DONE) {
            return code;
        }
        if (!replaced && s->devices > 1) {
            return many_devices("output=@", o->outputs[i].file, s->devices);
        }
    }
    return o->all_outputs ? check_all(o, s) : EXIT_DONE;
}

static int write_some(const Options *o, const Signature *s, uint32_t device,
                      void *const *outputs)
{
    for (size_t i = 0; i < o->output_count; i++) {
        const Leaf *leaf = &s->results[i];
        char error[1024];
        bool replaced;
        char *path = feed_path(o->outputs[i].file, device, &replaced);
        bool ok = npy_write(path, leaf->dtype, leaf->rank, leaf->dims, outputs[i], error,
                            sizeof error);
        free(path);
        if (!ok) {
            return complain(EXIT_WRONG, "%s", error);
        }
    }
    return EXIT_DONE;
}

int data_outputs(const Options *o, const Signature *s, void *const *outputs)
{
    int code = EXIT_DONE;
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        uint32_t device = s->first + (uint32_t)d;
        code = write_some(o, s, device, outputs + d * s->result_count);
        if (code == EXIT_DONE && o->all_outputs) {
            bool replaced;
            char *path = feed_path(o->all_outputs, device, &replaced);
            code = write_all(path, s, outputs + d * s->result_count);
            free(path);
        }
    }
    return code;
}
