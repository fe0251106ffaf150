/* The store as a folder: a key is a file that appears at once, by rename. */
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

#include "runtime/store_kind.h"

#define PREFIX "gxrt." /* of our files: the folder may hold others */

typedef struct FileStore {
    Store store;
    bool seated;
    char folder[];
} FileStore;

static bool path_of(const FileStore *s, const char *key, const char *suffix,
                    char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/" PREFIX "%s%s", s->folder, key, suffix);
    return n > 0 && n < PATH_MAX;
}

static gxrt_status store_error(const FileStore *s, const char *what, int error)
{
    return status_set(GXRT_WORLD_FAILED, "the store %s: %s: %s", s->folder, what,
                      strerror(error));
}

/* Says that this rank is here; another run, or another process with this rank, left its mark. */
static gxrt_status take_seat(FileStore *s)
{
    char key[STORE_MOST_KEY];
    char path[PATH_MAX];
    snprintf(key, sizeof key, "rank.%u", s->store.rank);
    if (!path_of(s, key, "", path)) {
        return store_error(s, "its name is too long", ENAMETOOLONG);
    }
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s has a rank %u already: give every run a fresh folder, "
            "and every process its own rank",
            s->folder, s->store.rank);
    }
    if (file < 0) {
        return store_error(s, "cannot be written", errno);
    }
    close(file);
    s->seated = true;
    return GXRT_OK;
}

/* A rank that is slow may still read what the others have put, so all of it stays until
 * everybody has left. */
static bool all_have_left(const FileStore *s)
{
    for (uint32_t i = 0; i < s->store.ranks; i++) {
        char key[STORE_MOST_KEY];
        char path[PATH_MAX];
        snprintf(key, sizeof key, "left.%u", i);
        if (!path_of(s, key, "", path) || access(path, F_OK) != 0) {
            return false;
        }
    }
    return true;
}

static void remove_all(const FileStore *s)
{
    DIR *folder = opendir(s->folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char path[PATH_MAX];
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            path_of(s, e->d_name + strlen(PREFIX), "", path)) {
            unlink(path);
        }
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(s->folder);
}

static gxrt_status file_put(Store *store, const char *key, const void *bytes, size_t size,
                            double seconds)
{
    const FileStore *s = (const FileStore *)store;
    (void)seconds;
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%u.tmp", s->store.rank);
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

static gxrt_status file_get(Store *store, const char *key, void *bytes, size_t size,
                            double seconds)
{
    const FileStore *s = (const FileStore *)store;
    char path[PATH_MAX];
    if (!path_of(s, key, "", path)) {
        return store_error(s, "its name is too long", ENAMETOOLONG);
    }
    double end = store_now() + seconds;
    for (;;) {
        FILE *file = fopen(path, "rb");
        if (file) {
            size_t n = fread(bytes, 1, size, file);
            fclose(file);
            return n == size ? GXRT_OK : store_error(s, "a key is damaged", EIO);
        }
        if (store_now() > end) {
            return status_set(GXRT_WORLD_FAILED,
                              "the store %s: nobody has put %s within %.0f s", s->folder,
                              key, seconds);
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void file_close(Store *store)
{
    FileStore *s = (FileStore *)store;
    char key[STORE_MOST_KEY];
    snprintf(key, sizeof key, "left.%u", store->rank);
    if (s->seated && file_put(store, key, "", 0, 0) == GXRT_OK && all_have_left(s)) {
        remove_all(s);
    }
    free(s);
}

static const StoreKind file_kind = {file_put, file_get, file_close};

gxrt_status store_file_open(const char *folder, uint32_t rank, uint32_t ranks,
                            Store **out)
{
    FileStore *s = calloc(1, sizeof *s + strlen(folder) + 1);
    if (!s) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_create: no memory");
    }
    strcpy(s->folder, folder);
    s->store = (Store){&file_kind, rank, ranks};
    gxrt_status st = GXRT_OK;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        st = store_error(s, "cannot be made", errno);
    }
    st = st == GXRT_OK ? take_seat(s) : st;
    if (st != GXRT_OK) {
        store_close(&s->store);
        return st;
    }
    *out = &s->store;
    return GXRT_OK;
}
