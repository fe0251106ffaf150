/* Folders that --xla_dump_to fills: which of their files is a module that gxc compiles. XLA writes one before its
 * own passes and one after them, which is for its own back end, and with --xla_dump_hlo_pass_re others between. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/gxc.h"

/* A file of the folder that is a module. */
typedef struct Found {
    char *file;
    size_t
        name; /* length of the module's name, with which the file's begins: module_0001.jit_f */
    int rank; /* the lower, the better */
} Found;

typedef struct Folder {
    Found *data; /* once sorted the best file of each module, by name */
    size_t count, capacity;
} Folder;

static int ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), n = strlen(ending);
    return length >= n && strcmp(name + length - n, ending) == 0;
}

/* Partitioned, but nothing more; as it was given; as the back end gets it. -1: no module. */
static int rank_of(const char *file)
{
    if (!ends_with(file, ".txt") && !ends_with(file, ".hlo") && !ends_with(file, ".pb") &&
        !ends_with(file, ".mlir") && !ends_with(file, ".mlirbc"))
        return -1;
    if (strncmp(file, "module_", 7) != 0)
        return ends_with(file, ".txt") ? -1 : 1;
    if (strstr(file, "after_spmd-partitioning") != NULL)
        return 0;
    if (strstr(file, "before_optimizations") != NULL)
        return 1;
    return ends_with(file, "after_optimizations.txt") ? 2 : -1;
}

/* module_0001.jit_f of module_0001.jit_f.before_optimizations.txt; else the file's name up to its last point. */
static size_t name_length(const char *file)
{
    const char *end = strrchr(file, '.');
    if (strncmp(file, "module_", 7) == 0) {
        const char *first = strchr(file, '.');
        const char *second = first != NULL ? strchr(first + 1, '.') : NULL;
        end = second != NULL ? second : end;
    }
    return (size_t)(end - file);
}

static int name_order(const Found *a, const Found *b)
{
    size_t least = a->name < b->name ? a->name : b->name;
    int order = memcmp(a->file, b->file, least);
    return order != 0 ? order : (a->name > b->name) - (a->name < b->name);
}

/* By name, then by rank, then by the file's name: the order of a folder's entries says nothing. */
static int order(const void *a, const void *b)
{
    const Found *x = a, *y = b;
    int by_name = name_order(x, y), by_rank = (x->rank > y->rank) - (x->rank < y->rank);
    return by_name != 0 ? by_name : by_rank != 0 ? by_rank : strcmp(x->file, y->file);
}

/* False: no memory. */
static bool note(Folder *f, const char *file)
{
    int rank = rank_of(file);
    if (rank < 0)
        return true;
    if (f->count == f->capacity) {
        size_t capacity = f->capacity * 2 + 16;
        Found *grown = realloc(f->data, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        f->data = grown;
        f->capacity = capacity;
    }
    char *copy = strdup(file);
    if (copy != NULL)
        f->data[f->count++] = (Found){copy, name_length(file), rank};
    return copy != NULL;
}

static void keep_best(Folder *f)
{
    size_t kept = 0;
    if (f->count != 0)
        qsort(f->data, f->count, sizeof *f->data, order);
    for (size_t i = 0; i < f->count; i++) {
        if (kept != 0 && name_order(&f->data[kept - 1], &f->data[i]) == 0)
            free(f->data[i].file);
        else
            f->data[kept++] = f->data[i];
    }
    f->count = kept;
}

/* 0, or errno. */
static int read_folder(const char *path, Folder *f)
{
    DIR *d = opendir(path);
    if (d == NULL)
        return errno;
    bool fits = true;
    struct dirent *e;
    while (fits && (errno = 0, e = readdir(d)) != NULL)
        fits = note(f, e->d_name);
    int error = fits ? errno : ENOMEM;
    closedir(d);
    keep_best(f);
    return error;
}

/* Whether the file's name is `name`, of at least so many characters, and more behind a point: a module's name may have
 * points, too, main.5 or SyncTensorsGraph.123. */
static bool begins(const char *file, const char *name, size_t least)
{
    size_t length = strlen(name);
    return length >= least && strncmp(file, name, length) == 0 && file[length] == '.';
}

/* With the number before its name or without. */
static bool is_wanted(const Found *f, const char *module)
{
    const char *point = memchr(f->file, '.', f->name);
    size_t behind = point != NULL ? (size_t)(point + 1 - f->file) : 0;
    return module == NULL || begins(f->file, module, f->name) ||
           (behind != 0 && begins(f->file + behind, module, f->name - behind));
}

/* -- messages -------------------------------------------------------------------------------- */

/* NULL: no memory. */
static char *say(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

/* Those that are wanted, ", " between them. */
static char *list_names(const Folder *f, const char *module)
{
    enum { MOST = 20 };
    size_t shown = 0, length = 0, at = 0;
    for (size_t i = 0; i < f->count; i++)
        length += f->data[i].name + strlen(", ");
    char *text = malloc(length + sizeof ", ...");
    for (size_t i = 0; text != NULL && i < f->count; i++) {
        if (!is_wanted(&f->data[i], module))
            continue;
        if (shown++ == MOST) {
            strcpy(text + at, ", ...");
            break;
        }
        at += (size_t)sprintf(text + at, "%s%.*s", at != 0 ? ", " : "",
                              (int)f->data[i].name, f->data[i].file);
    }
    return text;
}

static char *describe(const char *folder, const Folder *f, const char *module,
                      size_t wanted)
{
    if (f->count == 0)
        return say("%s: no module in this folder", folder);
    char *names = list_names(f, wanted != 0 ? module : NULL), *text = NULL;
    if (names != NULL && wanted == 0)
        text = say("%s: there is no module %s in this folder, but %s", folder, module,
                   names);
    else if (names != NULL)
        text = say("%s: %zu modules%s%s in this folder, choose one by --module=NAME: %s",
                   folder, wanted, module != NULL ? " " : "",
                   module != NULL ? module : "", names);
    free(names);
    return text;
}

static char *find_program(const char *folder, const Folder *f, const char *module,
                          char **message)
{
    const Found *found = NULL;
    size_t wanted = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (is_wanted(&f->data[i], module)) {
            wanted++;
            found = &f->data[i];
        }
    }
    if (wanted == 1)
        return say("%s/%s", folder, found->file);
    *message = describe(folder, f, module, wanted);
    return NULL;
}

char *gxc_folder_program(const char *folder, const char *module, char **message)
{
    char *unread, **said = message != NULL ? message : &unread, *path = NULL;
    Folder f = {0};
    *said = NULL;
    int error = folder != NULL ? read_folder(folder, &f) : 0;
    if (folder == NULL)
        *said = strdup("the folder is NULL");
    else if (error != 0)
        *said = say("cannot read %s: %s", folder, strerror(error));
    else
        path = find_program(folder, &f, module, said);
    for (size_t i = 0; i < f.count; i++)
        free(f.data[i].file);
    free(f.data);
    if (message == NULL)
        free(unread);
    return path;
}
