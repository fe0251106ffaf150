/* See file.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "ir/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* 0, or an errno; so in all of this file. */
static int write_all(int fd, const char *data, size_t size)
{
    while (size != 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Leaves `fd` closed. */
static int write_parts(int fd, const FilePart *parts, size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++)
        error = write_all(fd, parts[i].data, parts[i].size);
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* The number of the open file that the path is the way to; -1: it is none. */
static int open_number(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *digits = path + strlen(folders[i]);
        if (strncmp(path, folders[i], strlen(folders[i])) != 0 || *digits == '\0' ||
            strlen(digits) > 9 || strspn(digits, "0123456789") != strlen(digits))
            continue;
        return atoi(digits);
    }
    return -1;
}

/* To which other output may go too: nothing there is replaced. */
static bool names_open_file(const char *path)
{
    return open_number(path) >= 0;
}

bool file_is_output(const char *path)
{
    return strcmp(path, "-") == 0 || open_number(path) == STDOUT_FILENO;
}

/* What is open has a position, which who writes next goes on from: another opening of the file would have its own, and
 * of a socket there is none. */
static int write_open(int number, const FilePart *parts, size_t count)
{
    if (number == STDOUT_FILENO)
        fflush(stdout);
    int fd = dup(number);
    return fd < 0 ? errno : write_parts(fd, parts, count);
}

/* A new file beside `path`; -1: errno. Names that others left or write to are passed over. The end of
 * a long name is left out: with what is added it would be longer than names may be. */
static int open_temporary(const char *path, char *name, size_t size)
{
    enum { MOST_OF_NAME = 200 };
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    int length = (int)(base - path) + (int)strnlen(base, MOST_OF_NAME), fd = -1;
    for (int i = 0; fd < 0 && (i == 0 || (errno == EEXIST && i < 1000)); i++) {
        snprintf(name, size, "%.*s.tmp%ld-%d", length, path, (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    }
    return fd;
}

/* `old` has the mode that the file keeps; NULL: it is a new one. */
static int write_and_rename(const char *path, const struct stat *old,
                            const FilePart *parts, size_t count)
{
    size_t size = strlen(path) + 48;
    char *temporary = malloc(size);
    if (temporary == NULL)
        return ENOMEM;
    int error = 0, fd = open_temporary(path, temporary, size);
    if (fd < 0) {
        error = errno;
        free(temporary);
        return error;
    }
    if (old != NULL && fchmod(fd, old->st_mode & 0777) != 0)
        error = errno;
    int written = write_parts(fd, parts, count);
    error = error != 0 ? error : written;
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0)
        unlink(temporary);
    free(temporary);
    return error;
}

/* Signals that would leave the temporary file behind wait meanwhile. */
static int write_undisturbed(const char *path, const struct stat *old,
                             const FilePart *parts, size_t count)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ};
    sigset_t blocked, before, pending, own;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&blocked, ends[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    sigpending(&pending);
    int error = write_and_rename(path, old, parts, count);
    sigemptyset(&own); /* EFBIG says it already */
    sigaddset(&own, SIGXFSZ);
    if (error == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&own, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int file_write(const char *path, const FilePart *parts, size_t count)
{
    struct stat st;
    int number = open_number(path);
    if (number >= 0)
        return write_open(number, parts, count);
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) {
        int fd = open(path, O_WRONLY | O_APPEND);
        return fd < 0 ? errno : write_parts(fd, parts, count);
    }
    char *end = exists ? realpath(path, NULL) : NULL; /* of symbolic links, which stay */
    if (exists && end == NULL)
        return errno;
    int error =
        write_undisturbed(end != NULL ? end : path, exists ? &st : NULL, parts, count);
    free(end);
    return error;
}

int file_replace(const char *path, const FilePart *parts, size_t count)
{
    return write_undisturbed(path, NULL, parts, count);
}

/* -- reading ------------------------------------------------------------------------------------ */

/* Up to `most` bytes and one more, which tells that there are too many. */
static int read_stream(FILE *f, size_t expected, size_t most, void **out,
                       size_t *out_size)
{
    size_t capacity = expected > 0 ? expected + 1 : 1 << 16, size = 0;
    char *data = malloc(capacity);
    while (data != NULL) {
        size += fread(data + size, 1, capacity - size, f);
        if (size < capacity || size > most)
            break;
        capacity = capacity > most / 2 ? most + 1 : 2 * capacity;
        char *larger = realloc(data, capacity);
        if (larger == NULL)
            free(data);
        data = larger;
    }
    int error = data == NULL ? ENOMEM : ferror(f) ? errno : size > most ? EFBIG : 0;
    if (error != 0)
        free(data);
    *out = error == 0 ? data : NULL;
    *out_size = error == 0 ? size : 0;
    return error;
}

static int read_file(FILE *f, size_t most, void **out, size_t *out_size)
{
    struct stat info;
    int error = fstat(fileno(f), &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    size_t expected = error == 0 && info.st_size > 0 ? (size_t)info.st_size : 0;
    if (error == 0 && expected > most)
        error = EFBIG;
    return error == 0 ? read_stream(f, expected, most, out, out_size) : error;
}

int file_read(const char *path, size_t most, void **out, size_t *out_size)
{
    bool is_standard = strcmp(path, "-") == 0;
    FILE *f = is_standard ? stdin : fopen(path, "rb");
    *out = NULL;
    *out_size = 0;
    if (f == NULL)
        return errno;
    int error = read_file(f, most, out, out_size);
    if (!is_standard)
        fclose(f);
    return error;
}

int file_read_open(int fd, size_t most, void **out, size_t *out_size)
{
    FILE *f = fdopen(fd, "rb");
    *out = NULL;
    *out_size = 0;
    int error = f == NULL ? errno : read_file(f, most, out, out_size);
    if (f == NULL)
        close(fd);
    else
        fclose(f);
    return error;
}

/* -- names -------------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_is_same(const char *path, const char *other)
{
    struct stat a, b;
    return strcmp(path, "-") != 0 && strcmp(other, "-") != 0 && stat(path, &a) == 0 &&
           stat(other, &b) == 0 && S_ISREG(a.st_mode) && is_same(&a, &b);
}

/* The name, and in `folder` the way to where it is; NULL: that is too long. */
static const char *split(const char *path, char *folder, size_t size)
{
    const char *slash = strrchr(path, '/');
    int length = slash != NULL ? (int)(slash - path) + 1 : 0;
    bool fits = snprintf(folder, size, "%.*s.", length, path) < (int)size;
    return fits ? path + length : NULL;
}

/* Of files that are not there yet. */
static bool will_be_same(const char *path, const char *other)
{
    char a[PATH_MAX], b[PATH_MAX];
    struct stat x, y;
    const char *name = split(path, a, sizeof a), *end = split(other, b, sizeof b);
    return name != NULL && end != NULL && strcmp(name, end) == 0 && stat(a, &x) == 0 &&
           stat(b, &y) == 0 && is_same(&x, &y);
}

bool file_would_be_same(const char *path, const char *other)
{
    struct stat st;
    if (names_open_file(path) || names_open_file(other))
        return false;
    return stat(path, &st) == 0 ? file_is_same(path, other) : will_be_same(path, other);
}

int file_check_place(const char *path)
{
    struct stat st;
    char folder[PATH_MAX];
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return EISDIR;
    if (split(path, folder, sizeof folder) == NULL)
        return ENAMETOOLONG;
    return access(folder, F_OK) == 0 ? 0 : errno;
}

/* -- the process ---------------------------------------------------------------------------------- */

static const char *program;

bool file_flush_output(const char *name)
{
    static bool is_said;
    bool failed = ferror(stdout) != 0; /* errno is then of an earlier call */
    int error = errno;
    if (fflush(stdout) != 0) {
        failed = true;
        error = errno;
    }
    if (failed && !is_said)
        fprintf(stderr, "%s: cannot write to standard output: %s\n", name,
                error != 0 ? strerror(error) : "a write failed");
    is_said |= failed;
    return !failed;
}

static void check_at_exit(void)
{
    if (!file_flush_output(program))
        _exit(1);
}

static void do_nothing(int number)
{
    (void)number;
}

static void open_standard(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDONLY); /* so that writes fail as before */
    if (fd > STDERR_FILENO)
        close(fd);
}

void file_begin_process(const char *name)
{
    program = name;
    open_standard();
    signal(SIGXFSZ, do_nothing);
    signal(SIGCHLD, SIG_DFL); /* ignored by who started it, ends of processes are lost */
    atexit(check_at_exit);
}
