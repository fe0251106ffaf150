/* The store as a folder: a key is a file that appears at once, by rename. */
#include "runtime/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_KEY = 64 };

struct Store {
    uint32_t rank, ranks;
    bool seated;
    char folder[];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool path_of(const Store *s, const char *key, const char *suffix,
                    char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/%s%s", s->folder, key, suffix);
    return n > 0 && n < PATH_MAX;
}

static gxrt_status store_error(const Store *s, const char *what, int error)
{
    return status_set(GXRT_WORLD_FAILED, "the store %s: %s: %s", s->folder, what,
                      strerror(error));
}

/* Says that this rank is here; another run, or another process with this rank, left its mark. */
static gxrt_status take_seat(Store *s)
{
    char key[MAX_KEY];
    char path[PATH_MAX];
    snprintf(key, sizeof key, "rank.%u", s->rank);
    if (!path_of(s, key, "", path)) {
        return store_error(s, "its name is too long", ENAMETOOLONG);
    }
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s has a rank %u already: give every run a fresh folder, "
            "and every process its own rank",
            s->folder, s->rank);
    }
    if (file < 0) {
        return store_error(s, "cannot be written", errno);
    }
    close(file);
    s->seated = true;
    return GXRT_OK;
}

gxrt_status store_open(const char *where, uint32_t rank, uint32_t ranks, Store **out)
{
    *out = NULL;
    const char *folder = strncmp(where, "file:", 5) == 0 ? where + 5 : where;
    if (strncmp(where, "tcp:", 4) == 0 || !*folder) {
        return status_set(
            GXRT_UNSUPPORTED,
            "not supported: the store \"%s\"; give file:FOLDER, a folder that "
            "all ranks share",
            where);
    }
    Store *s = calloc(1, sizeof *s + strlen(folder) + 1);
    if (!s) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_create: no memory");
    }
    strcpy(s->folder, folder);
    s->rank = rank;
    s->ranks = ranks;
    gxrt_status st = GXRT_OK;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        st = store_error(s, "cannot be made", errno);
    }
    st = st == GXRT_OK ? take_seat(s) : st;
    if (st != GXRT_OK) {
        store_close(s);
        return st;
    }
    *out = s;
    return GXRT_OK;
}

/* A rank that is slow may still read what the others have put, so all of it stays until
 * everybody has left. */
static bool all_have_left(const Store *s)
{
    for (uint32_t i = 0; i < s->ranks; i++) {
        char key[MAX_KEY];
        char path[PATH_MAX];
        snprintf(key, sizeof key, "left.%u", i);
        if (!path_of(s, key, "", path) || access(path, F_OK) != 0) {
            return false;
        }
    }
    return true;
}

static void remove_all(const Store *s)
{
    DIR *folder = opendir(s->folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char path[PATH_MAX];
        if (e->d_name[0] != '.' && path_of(s, e->d_name, "", path)) {
            unlink(path);
        }
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(s->folder);
}

void store_close(Store *s)
{
    if (!s) {
        return;
    }
    char key[MAX_KEY];
    snprintf(key, sizeof key, "left.%u", s->rank);
    if (s->seated && store_put(s, key, "", 0) == GXRT_OK && all_have_left(s)) {
        remove_all(s);
    }
    free(s);
}

gxrt_status store_put(Store *s, const char *key, const void *bytes, size_t size)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%u.tmp", s->rank);
    if (!path_of(s, key, "", path) || !path_of(s, key, suffix, temporary)) {
        return store_error(s, "its name is too long", ENAMETOOLONG);
    }
    FILE *file = fopen(temporary, "wb");
    bool ok = file && fwrite(bytes, 1, size, file) == size;
    int error = errno;
    if (file && fclose(file) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(temporary, path) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        unlink(temporary);
        return store_error(s, "cannot be written", error);
    }
    return GXRT_OK;
}

gxrt_status store_get(Store *s, const char *key, void *bytes, size_t size, double seconds)
{
    char path[PATH_MAX];
    if (!path_of(s, key, "", path)) {
        return store_error(s, "its name is too long", ENAMETOOLONG);
    }
    double end = now() + seconds;
    for (;;) {
        FILE *file = fopen(path, "rb");
        if (file) {
            size_t n = fread(bytes, 1, size, file);
            fclose(file);
            return n == size ? GXRT_OK : store_error(s, "a key is damaged", EIO);
        }
        if (now() > end) {
            return status_set(GXRT_WORLD_FAILED,
                              "the store %s: nobody has put %s within %.0f s", s->folder,
                              key, seconds);
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}
