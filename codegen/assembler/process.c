/* Runs NVIDIA's programs. See assemblers.h. They die with the thread that waits for them: posix_spawn
 * cannot ask the kernel for that, so this is vfork and what posix_spawn would do. */
#define _DEFAULT_SOURCE /* vfork, wait4 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/assembler/assemblers.h"

extern char **environ;

enum { FIRST_FILE = 3, ARGS_MOST = 4096 };

static double seconds_of(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

/* Files get numbers above all of them first, so that none is overwritten before it was copied. */
static bool redirect_files(const ProcessFiles *f)
{
    int high = f->log;
    for (int i = 0; i < f->file_count; i++)
        high = f->files[i] > high ? f->files[i] : high;
    high = (high > FIRST_FILE + f->file_count ? high : FIRST_FILE + f->file_count) + 1;
    bool ok = true;
    for (int i = 0; i < f->file_count; i++)
        ok = ok && dup2(f->files[i], high + i) >= 0;
    ok = ok && dup2(f->log, 1) >= 0 && dup2(1, 2) >= 0;
    for (int i = 0; i < f->file_count; i++)
        ok = ok && dup2(high + i, FIRST_FILE + i) >= 0;
    if (!ok && errno == EBADF) /* a number above what the limit allows */
        errno = EMFILE;
    return ok;
}

typedef struct Start {
    const char *path;
    char *const *argv;
    const ProcessFiles *files;
    pid_t parent;
    volatile int
        error; /* why the program does not run; the child's memory is the parent's */
} Start;

/* SIGXCPU, without a core; SIGKILL soon after where that is ignored. What it starts has the limit, too, and so ends
 * where it was left behind. */
static bool limit_processor(unsigned most)
{
    enum { MORE = 2 };
    struct rlimit limit, core;
    if (most == 0)
        return true;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || getrlimit(RLIMIT_CORE, &core) != 0)
        return false;
    limit.rlim_cur = limit.rlim_cur < most ? limit.rlim_cur : most;
    rlim_t hard = (rlim_t)most + MORE;
    limit.rlim_max = limit.rlim_max < hard ? limit.rlim_max : hard;
    core.rlim_cur = 0;
    return setrlimit(RLIMIT_CPU, &limit) == 0 && setrlimit(RLIMIT_CORE, &core) == 0;
}

static bool is_out_of_time(int status, double seconds, unsigned most)
{
    struct rlimit own; /* where it is less it was the one that ended it */
    if (most == 0 || !WIFSIGNALED(status) || getrlimit(RLIMIT_CPU, &own) != 0 ||
        own.rlim_cur < most)
        return false;
    return WTERMSIG(status) == SIGXCPU ||
           (WTERMSIG(status) == SIGKILL && seconds >= most);
}

/* What the child does: system calls only. A parent that died before it could be watched is seen by
 * its number. */
static _Noreturn void become(Start *s)
{
    bool ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (ok && getppid() != s->parent)
        _exit(127);
    alarm(s->files->deadline); /* goes on in what is run */
    signal(SIGXFSZ, SIG_DFL);  /* ptxas does not look whether it could write */
    ok = ok && limit_processor(s->files->most_seconds);
    if (ok && redirect_files(s->files))
        execve(s->path, s->argv,
               s->files->environment != NULL ? s->files->environment : environ);
    s->error = errno;
    _exit(127);
}

/* A function of its own: the parent goes on in this frame after the child has used it. */
static pid_t start(Start *s)
{
    pid_t pid = vfork();
    if (pid == 0)
        become(s);
    return pid;
}

/* Others work for it. */
static bool has_children(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    FILE *f = fopen(path, "r");
    bool has = f != NULL && fgetc(f) != EOF;
    if (f != NULL)
        fclose(f);
    return has;
}

/* Waits until it ends, or until it and what it has started have used no processor for `most` seconds.
 * Seconds in which this process stood still, too, are one. False, too, where the kernel cannot tell. */
static bool is_stuck(pid_t pid, unsigned most)
{
    clockid_t clock;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd < 0)
        return false;
    struct timespec last = {0}, now = {0};
    unsigned quiet = 0;
    bool runs = clock_getcpuclockid(pid, &clock) == 0;
    while (runs && quiet < most) {
        int n = poll(&end, 1, 1000);
        runs = n == 0 || (n < 0 && errno == EINTR);
        if (n != 0)
            continue;
        bool worked = clock_gettime(clock, &now) != 0 || now.tv_sec != last.tv_sec ||
                      now.tv_nsec != last.tv_nsec;
        quiet = worked || has_children(pid) ? 0 : quiet + 1;
        last = now;
    }
    close(end.fd);
    return runs;
}

int process_run(const char *path, const char *const *args, const ProcessFiles *files,
                double *seconds)
{
    union {
        const char *const *in;
        char *const *out;
    } argv = {args}; /* execve changes none of them */
    Start s = {path, argv.out, files, getpid(), 0};
    pid_t pid = start(&s);
    if (pid < 0)
        return -1;
    int status = -1;
    struct rusage usage;
    bool stuck = is_stuck(pid, files->idle ? files->idle : PROCESS_IDLE_SECONDS);
    if (stuck)
        kill(pid, SIGKILL);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return -1;
    if (s.error != 0) {
        errno = s.error;
        return -1;
    }
    double used = seconds_of(&usage);
    *seconds += used;
    if (stuck && WIFSIGNALED(status))
        return 128 + SIGALRM;
    if (is_out_of_time(status, used, files->most_seconds))
        return PROCESS_OUT_OF_TIME;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *process_trouble(int status, const char *log, const char *nothing_said)
{
    if (status == 128 + SIGALRM)
        return "it took too long, or waited for something that did not come: is there "
               "memory?";
    if (status == PROCESS_OUT_OF_TIME)
        return "it took more processor time than it may and was ended; "
               "--max-assembler-seconds=N allows more";
    return log && *log ? log : nothing_said;
}

AssembleFailure process_failure(int status)
{
    if (status == PROCESS_OUT_OF_TIME)
        return ASSEMBLER_OUT_OF_TIME;
    bool has_ended_itself = (status >= 0 && status <= 128) || status == 128 + SIGSEGV ||
                            status == 128 + SIGABRT || status == 128 + SIGBUS ||
                            status == 128 + SIGFPE || status == 128 + SIGILL;
    return has_ended_itself ? ASSEMBLER_REFUSED : ASSEMBLER_LOST;
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
