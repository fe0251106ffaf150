/* The store as a folder: a key is a file that appears at once, by rename.
 *
 * Who is there is told by locks, which the kernel takes back from a process that is killed: every
 * rank keeps the file of its claim locked. The first to come clears away what an earlier run has
 * left, the last to go removes everything; both hold the folder's lock meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/file.h"
#include "runtime/collective/store_kind.h"

#define PREFIX "gxrt." /* of our files: the folder may hold others */
#define CLAIM "rank."  /* by rank: locked by who lives */
#define FOLDER_LOCK "lock"
#define MOST_FOLDER (PATH_MAX - NAME_MAX - 2) /* bytes of its name */
#define MOST_WAIT 10.0 /* seconds that another process may hold the folder's lock */

typedef struct FileStore {
    Store store;
    int claim; /* open and locked, or -1 */
    char folder[];
} FileStore;

/* The folder's name leaves room for that of any file. */
static void path_of(const FileStore *s, const char *key, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/" PREFIX "%s", s->folder, key);
}

static gxrt_status store_error(const FileStore *s, const char *what, int error)
{
    return status_set(GXRT_WORLD_FAILED, "the store %s: %s: %s", s->folder, what,
                      strerror(error));
}

/* 1: locked, 0: somebody else has it, -1: an error, in errno. */
static int try_lock(int file)
{
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR) {
            return errno == EWOULDBLOCK ? 0 : -1;
        }
    }
    return 1;
}

/* Whether the open file is still the one of that name: the last to go removes it. */
static bool is_there(int file, const char *path)
{
    struct stat mine, named;
    return fstat(file, &mine) == 0 && stat(path, &named) == 0 &&
           mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

/* Makes the folder if need be and locks it; *out is the lock's file. */
static gxrt_status lock_folder(const FileStore *s, int *out)
{
    char path[PATH_MAX];
    path_of(s, FOLDER_LOCK, path);
    for (double end = seconds_now() + MOST_WAIT; seconds_now() < end;) {
        if (mkdir(s->folder, 0700) != 0 && errno != EEXIST) {
            return store_error(s, "cannot be made", errno);
        }
        *out = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (*out < 0 && errno != ENOENT) {
            return store_error(s, "cannot be written", errno);
        }
        int locked = *out < 0 ? 0 : try_lock(*out);
        if (locked < 0) {
            int error = errno;
            close(*out);
            return store_error(s, "its file system has no locks; use tcp://HOST:PORT",
                               error);
        }
        if (locked && is_there(*out, path)) {
            return GXRT_OK;
        }
        if (*out >= 0) {
            close(*out);
        }
        sleep_seconds(0.001);
    }
    return store_error(s, "another process holds its lock", ETIMEDOUT);
}

/* The claim of somebody who lives. */
typedef struct Neighbour {
    unsigned rank, ranks;
    char process[128]; /* "7 on HOST" */
} Neighbour;

/* Whether the owner of the claim file of this name lives. */
static bool lives(const FileStore *s, const char *name, Neighbour *out)
{
    char path[PATH_MAX];
    char text[256] = "";
    if (sscanf(name, PREFIX CLAIM "%u", &out->rank) != 1) {
        return false;
    }
    path_of(s, name + strlen(PREFIX), path);
    int file = open(path, O_RDWR | O_CLOEXEC);
    bool alive = file >= 0 && try_lock(file) == 0;
    if (alive && read(file, text, sizeof text - 1) > 0) {
        sscanf(text, "%u ranks, process %127[^\n]", &out->ranks, out->process);
    }
    if (file >= 0) {
        close(file);
    }
    return alive;
}

/* Anybody who lives; by preference who has the rank that this one wants. */
static bool find_neighbour(const FileStore *s, Neighbour *out)
{
    bool found = false;
    DIR *folder = opendir(s->folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        Neighbour n = {0};
        if (lives(s, e->d_name, &n) && (!found || n.rank == s->store.rank)) {
            *out = n;
            found = true;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

/* Everything of ours but the lock, which goes last: who waits for it then starts again. */
static void remove_all(const FileStore *s)
{
    char path[PATH_MAX];
    DIR *folder = opendir(s->folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            strcmp(e->d_name, PREFIX FOLDER_LOCK) != 0) {
            path_of(s, e->d_name + strlen(PREFIX), path);
            unlink(path);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

static void remove_folder(const FileStore *s)
{
    char path[PATH_MAX];
    remove_all(s);
    path_of(s, FOLDER_LOCK, path);
    unlink(path);
    rmdir(s->folder); /* stays if it holds what is not ours */
}

/* Says that this rank is here, with the folder locked and its rank free. */
static gxrt_status write_claim(FileStore *s)
{
    char key[STORE_MOST_KEY];
    char path[PATH_MAX];
    char host[64] = "?";
    char text[256];
    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, CLAIM "%u", s->store.rank);
    snprintf(text, sizeof text, "%u ranks, process %ld on %s\n", s->store.ranks,
             (long)getpid(), host);
    path_of(s, key, path);
    s->claim = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (s->claim < 0 || try_lock(s->claim) != 1 ||
        write(s->claim, text, strlen(text)) != (ssize_t)strlen(text)) {
        return store_error(s, "cannot be written", errno);
    }
    return GXRT_OK;
}

/* The folder is locked. Nobody lives in it: what is there is of an earlier run, and goes. */
static gxrt_status claim_rank(FileStore *s)
{
    char key[STORE_MOST_KEY];
    char path[PATH_MAX];
    Neighbour n;
    if (!find_neighbour(s, &n)) {
        remove_all(s);
        return write_claim(s);
    }
    snprintf(key, sizeof key, CLAIM "%u", s->store.rank);
    if (n.rank == s->store.rank) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s has a rank %u already (process %s): give every run a fresh "
            "folder, and every process its own rank",
            s->folder, n.rank, n.process);
    }
    if (n.ranks != s->store.ranks) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s is of a world of %u ranks (rank %u is process %s), not of %u",
            s->folder, n.ranks, n.rank, n.process, s->store.ranks);
    }
    path_of(s, key, path);
    if (access(path, F_OK) == 0) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s: rank %u of the run there has ended, but rank %u (process %s) "
            "has not: end it, or give this run a fresh folder",
            s->folder, s->store.rank, n.rank, n.process);
    }
    return write_claim(s);
}

static gxrt_status file_put(Store *store, const char *key, const void *bytes, size_t size,
                            double seconds)
{
    const FileStore *s = (const FileStore *)store;
    (void)seconds;
    char path[PATH_MAX];
    path_of(s, key, path);
    int error = file_write(path, &(FilePart){bytes, size}, 1);
    return error == 0 ? GXRT_OK : store_error(s, "cannot be written", error);
}

static gxrt_status file_get(Store *store, const char *key, void *bytes, size_t size,
                            double seconds)
{
    const FileStore *s = (const FileStore *)store;
    char path[PATH_MAX];
    path_of(s, key, path);
    double end = seconds_now() + seconds;
    for (;;) {
        FILE *file = fopen(path, "rb");
        if (file) {
            bool whole = fread(bytes, 1, size, file) == size && fgetc(file) == EOF;
            fclose(file);
            return whole ? GXRT_OK : store_error(s, "a key is damaged", EIO);
        }
        if (seconds_now() > end) {
            return status_set(GXRT_WORLD_FAILED,
                              "the store %s: nobody has put %s within %.0f s", s->folder,
                              key, seconds);
        }
        sleep_seconds(0.002);
    }
}

/* A rank that is slow may still read what the others have put: the last to go removes it. */
static void file_close(Store *store)
{
    FileStore *s = (FileStore *)store;
    int folder = -1;
    bool locked = s->claim >= 0 && lock_folder(s, &folder) == GXRT_OK;
    if (s->claim >= 0) {
        close(s->claim);
    }
    if (locked) {
        Neighbour n;
        if (!find_neighbour(s, &n)) {
            remove_folder(s);
        }
        close(folder);
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
    s->claim = -1;
    int lock = -1;
    gxrt_status st =
        strlen(folder) <= MOST_FOLDER
            ? lock_folder(s, &lock)
            : status_set(GXRT_WORLD_FAILED,
                         "the store's folder has a name of %zu bytes, at most %d may be",
                         strlen(folder), MOST_FOLDER);
    if (st == GXRT_OK) {
        st = claim_rank(s);
        close(lock);
    }
    if (st != GXRT_OK) {
        store_close(&s->store);
        return st;
    }
    *out = &s->store;
    return GXRT_OK;
}
