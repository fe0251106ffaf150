/* Folders that --xla_dump_to fills: which of their files is a module that gxc compiles. XLA writes one before its
 * own passes and one after them, which is for its own back end, and with --xla_dump_hlo_pass_re others between. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/gxc.h"

enum { NAME_MAX_LENGTH = 255, MAX_MODULES = 64 };

/* A module of the folder and the best file of it so far. */
typedef struct Found {
    char name[NAME_MAX_LENGTH + 1]; /* module_0001.jit_f */
    char file[NAME_MAX_LENGTH + 1];
    int rank; /* the lower, the better */
} Found;

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
static void module_of(const char *file, char *out)
{
    const char *end = strrchr(file, '.');
    if (strncmp(file, "module_", 7) == 0) {
        const char *first = strchr(file, '.');
        const char *second = first != NULL ? strchr(first + 1, '.') : NULL;
        end = second != NULL ? second : end;
    }
    snprintf(out, NAME_MAX_LENGTH + 1, "%.*s", (int)(end - file), file);
}

static int is_wanted(const char *name, const char *module)
{
    const char *point = strchr(name, '.');
    return module == NULL || strcmp(name, module) == 0 ||
           (point != NULL && strcmp(point + 1, module) == 0);
}

/* By rank, then by name: the order of a folder's entries says nothing. */
static void note(Found *found, size_t *count, const char *file)
{
    int rank = rank_of(file);
    char name[NAME_MAX_LENGTH + 1];
    if (rank < 0 || strlen(file) > NAME_MAX_LENGTH)
        return;
    module_of(file, name);
    size_t i = 0;
    while (i < *count && strcmp(found[i].name, name) != 0)
        i++;
    if (i == MAX_MODULES)
        return;
    if (i < *count && (rank > found[i].rank ||
                       (rank == found[i].rank && strcmp(file, found[i].file) > 0)))
        return;
    *count += i == *count;
    found[i].rank = rank;
    snprintf(found[i].name, sizeof found[i].name, "%s", name);
    snprintf(found[i].file, sizeof found[i].file, "%s", file);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(((const Found *)a)->name, ((const Found *)b)->name);
}

static char *describe(const char *folder, const Found *found, size_t count)
{
    size_t capacity = strlen(folder) + 128 + count * (NAME_MAX_LENGTH + 2), length;
    char *text = malloc(capacity);
    if (text == NULL)
        return NULL;
    if (count == 0) {
        snprintf(text, capacity, "%s: no module in this folder", folder);
        return text;
    }
    snprintf(text, capacity,
             "%s: %zu modules in this folder, choose one by --module=NAME:", folder,
             count);
    for (size_t i = 0; i < count; i++) {
        length = strlen(text);
        snprintf(text + length, capacity - length, "%s %s", i != 0 ? "," : "",
                 found[i].name);
    }
    return text;
}

char *gxc_folder_program(const char *folder, const char *module, char **message)
{
    if (message != NULL)
        *message = NULL;
    if (folder == NULL) {
        if (message != NULL)
            *message = strdup("the folder is NULL");
        return NULL;
    }
    DIR *d = opendir(folder);
    Found *found = calloc(MAX_MODULES, sizeof *found);
    size_t count = 0, wanted = 0, at = 0;
    for (struct dirent *e; d != NULL && found != NULL && (e = readdir(d)) != NULL;)
        note(found, &count, e->d_name);
    if (d != NULL)
        closedir(d);
    if (found != NULL)
        qsort(found, count, sizeof *found, name_order);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(found[i].name, module))
            continue;
        wanted++;
        at = i;
    }
    char *path = NULL;
    size_t size = strlen(folder) + NAME_MAX_LENGTH + 2;
    if (wanted != 1 && message != NULL)
        *message = describe(folder, found, count);
    else if (wanted == 1 && (path = malloc(size)) != NULL)
        snprintf(path, size, "%s/%s", folder, found[at].file);
    free(found);
    return path;
}
