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

/* Else --outputs names a folder. */
static bool is_archive(const char *path)
{
    return ends_in(path, ".npz") || ends_in(path, ".safetensors");
}

static int cannot_write(const char *path, int why)
{
    return complain(EXIT_WRONG, "%s: cannot be written: %s", path, strerror(why));
}

/* To be freed. */
static char *folder_file(const char *folder, const char *name)
{
    char *path = allocate(strlen(folder) + strlen(name) + 8, 1);
    sprintf(path, "%s/%s.npy", folder, name);
    return path;
}

static int write_folder(const char *folder, const WrittenArray *arrays, size_t count)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        char error[1024];
        const WrittenArray *a = &arrays[i];
        char *path = folder_file(folder, a->name);
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
    if (is_archive(path)) {
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

/* --- some by order ----------------------------------------------------------------------------- */

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

/* --- before the run ---------------------------------------------------------------------------- */

/* A file that a device writes. */
typedef struct Written {
    char *path; /* to be freed */
    bool of_folder;
    char what[48];
} Written;

static bool is_folder(const Options *o)
{
    return o->all_outputs && !is_archive(o->all_outputs);
}

/* Whether it is a file that results are compared with, which is read when they are written; it may have to be made yet,
 * so before which colon its name ends is not known. */
static bool is_compared(const Options *o, const char *path, uint32_t device)
{
    bool same = false, replaced;
    for (size_t k = 0; k < o->compare_count && !same; k++) {
        char *wanted = feed_path(o->compare[k].file, device, &replaced);
        same = file_would_be_same(wanted, path);
        for (char *colon; !same && (colon = strrchr(wanted, ':')) != NULL;) {
            *colon = 0;
            same = file_would_be_same(wanted, path);
        }
        free(wanted);
    }
    return same;
}

/* It must not replace what is run or compared with, nor one before it. */
static int check_file(const Options *o, const Written *files, size_t i, uint32_t device)
{
    const char *const kept[] = {o->program, o->hlo, o->manifest};
    const Written *w = &files[i];
    int why = file_check_place(w->path);
    if (why) {
        return cannot_write(w->path, why);
    }
    if (is_compared(o, w->path, device)) {
        return complain(EXIT_WRONG,
                        "%s: would be replaced by %s before it is compared "
                        "with; give another",
                        w->path, w->what);
    }
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        if (kept[k] && file_is_same(kept[k], w->path)) {
            return complain(EXIT_WRONG, "%s: would be replaced by %s; give another",
                            w->path, w->what);
        }
    }
    for (size_t k = 0; k < i; k++) { /* names in a folder are different ones */
        bool both = files[k].of_folder && w->of_folder;
        if (!both && file_would_be_same(files[k].path, w->path)) {
            return complain(EXIT_WRONG, "%s: %s and %s would both be written to it",
                            w->path, files[k].what, w->what);
        }
    }
    return EXIT_DONE;
}

/* How many there are of results in `files`, which has room for them. */
static size_t list_results(const Options *o, const Signature *s, uint32_t device,
                           Written *files)
{
    bool replaced;
    for (size_t i = 0; i < o->output_count; i++) {
        files[i].path = feed_path(o->outputs[i].file, device, &replaced);
        snprintf(files[i].what, sizeof files[i].what, "result %zu", i);
    }
    size_t count = o->output_count;
    char *all = o->all_outputs ? feed_path(o->all_outputs, device, &replaced) : NULL;
    char **names = is_folder(o) ? output_names(s) : NULL;
    for (size_t i = 0; names && i < s->result_count; i++) {
        Written *w = &files[count++];
        w->path = folder_file(all, names[i]);
        w->of_folder = true;
        snprintf(w->what, sizeof w->what, "result %zu of --outputs", i);
    }
    if (names) {
        free_arrays((void **)names, s->result_count);
        free(all);
    } else if (all) {
        files[count++] = (Written){all, false, "all results"};
    }
    return count;
}

static int check_device(const Options *o, const Signature *s, uint32_t device)
{
    Written *files = allocate(o->output_count + s->result_count + 3, sizeof *files);
    size_t count = list_results(o, s, device, files);
    if (o->profile && strcmp(o->profile, "-") != 0) {
        files[count++] = (Written){text_copy(o->profile), false, "the profile"};
    }
    if (o->tune) {
        files[count++] = (Written){text_copy(o->tune), false, "what is tuned"};
    }
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        code = check_file(o, files, i, device);
    }
    for (size_t i = 0; i < count; i++) {
        free(files[i].path);
    }
    free(files);
    return code;
}

/* A folder is made if there is none; its parent must be there. */
static int check_folder(const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return cannot_write(path, errno);
    }
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode)
               ? EXIT_DONE
               : complain(EXIT_WRONG,
                          "--outputs=%s: a folder, .npz or .safetensors is expected",
                          path);
}

static int check_folders(const Options *o, const Signature *s)
{
    int code = EXIT_DONE;
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        bool replaced;
        char *path = feed_path(o->all_outputs, s->first + (uint32_t)d, &replaced);
        code = check_folder(path);
        free(path);
    }
    return code;
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

/* Each device has a file of its own. */
static int check_pattern(const char *option, const char *file, const Signature *s)
{
    bool replaced;
    free(feed_path(file, s->first, &replaced));
    return replaced || s->devices <= 1
               ? EXIT_DONE
               : complain(
                     EXIT_WRONG,
                     "--%s%s: %zu devices would write it; put {device} into the name",
                     option, file, s->devices);
}

int data_check_outputs(const Options *o, const Signature *s)
{
    if (o->output_count > s->result_count) {
        return complain(EXIT_WRONG, "%zu outputs were asked for; the program gives %zu",
                        o->output_count, s->result_count);
    }
    int code = EXIT_DONE;
    for (size_t i = 0; i < o->output_count && code == EXIT_DONE; i++) {
        code = check_pattern("output=@", o->outputs[i].file, s);
    }
    if (o->all_outputs) {
        code = code == EXIT_DONE ? check_pattern("outputs=", o->all_outputs, s) : code;
        code = code == EXIT_DONE ? check_types(o, s) : code;
    }
    code = code == EXIT_DONE && is_folder(o) ? check_folders(o, s) : code;
    for (size_t d = 0; d < s->devices && code == EXIT_DONE; d++) {
        code = check_device(o, s, s->first + (uint32_t)d);
    }
    return code;
}

/* --- after it ---------------------------------------------------------------------------------- */

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
