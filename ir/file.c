/* See file.h. */
#include "ir/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int write_parts(const char *path, int flags, const FilePart *parts, size_t count)
{
    int fd = open(path, O_WRONLY | flags, 0666);
    if (fd < 0)
        return errno;
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++)
        error = write_all(fd, parts[i].data, parts[i].size);
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

static int write_and_rename(const char *temporary, const char *path,
                            const FilePart *parts, size_t count)
{
    int error = write_parts(temporary, O_CREAT | O_EXCL, parts, count);
    if (error == EEXIST) /* another one's */
        return error;
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

int file_write(const char *path, const FilePart *parts, size_t count)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return write_parts(path, 0, parts, count);
    size_t size = strlen(path) + 32;
    char *temporary = malloc(size);
    if (temporary == NULL)
        return ENOMEM;
    snprintf(temporary, size, "%s.tmp%ld", path, (long)getpid());
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    int error = write_and_rename(temporary, path, parts, count);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(temporary);
    return error;
}
