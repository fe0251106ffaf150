/* Runs NVIDIA's programs. See assemblers.h. */
#define _DEFAULT_SOURCE /* wait4 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "codegen/assembler/assemblers.h"

extern char **environ;

enum { FIRST_FILE = 3, ARGS_MOST = 4096 };

static double seconds_of(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

/* Files get numbers above all of them first, so that none is overwritten before it was copied. */
static void add_files(posix_spawn_file_actions_t *actions, const ProcessFiles *f)
{
    int high = f->log;
    for (int i = 0; i < f->file_count; i++)
        high = f->files[i] > high ? f->files[i] : high;
    high = (high > FIRST_FILE + f->file_count ? high : FIRST_FILE + f->file_count) + 1;
    for (int i = 0; i < f->file_count; i++)
        posix_spawn_file_actions_adddup2(actions, f->files[i], high + i);
    posix_spawn_file_actions_adddup2(actions, f->log, 1);
    posix_spawn_file_actions_adddup2(actions, 1, 2);
    for (int i = 0; i < f->file_count; i++)
        posix_spawn_file_actions_adddup2(actions, high + i, FIRST_FILE + i);
}

int process_run(const char *path, const char *const *args, const ProcessFiles *files,
                double *seconds)
{
    union {
        const char *const *in;
        char *const *out;
    } argv = {args}; /* posix_spawn changes none of them */
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    add_files(&actions, files);
    errno = posix_spawn(&pid, path, &actions, NULL, argv.out, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0)
        return -1;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return -1;
    *seconds += seconds_of(&usage);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *process_read(Arena *a, FILE *f, size_t *out_bytes)
{
    struct stat info;
    if (fstat(fileno(f), &info) != 0)
        return NULL;
    size_t bytes = (size_t)info.st_size;
    char *data = arena_alloc(a, bytes + 1);
    rewind(f);
    if (fread(data, 1, bytes, f) != bytes)
        return NULL;
    *out_bytes = bytes;
    return data;
}
