/* One run in which all calls of a kind fail.
 *
 * At the N-th call the process forks. The child's call fails, and it ends as it ends, its errors in
 * a file; then the parent goes on to the next call. The parent writes "N" and waits for a number of
 * run.py: N to fork, for run.py knows now what lies in the folders, or a later one, which it wants
 * next. After the fork it writes the child's status, and waits for the next number, until run.py
 * has put all back. Calls of which nothing is written are left to runs of their own: those of
 * threads and other processes, and where parent and child would share more than folders - memory,
 * pipes, files that are written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"

enum {
    FILES = 64,    /* of the program: what it opens has lower numbers */
    TALK_AT = 500, /* ours have higher ones */
    SECONDS = 20,  /* as in run.py */
    THREAD = 2048, /* bytes of what libc keeps of a thread */
};
static int ask = -1, answer = -1, errors = -1;
static char *stack_end;

static bool is_alone(void)
{
    struct stat tasks;
    siginfo_t none;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3 &&
           syscall(SYS_waitid, P_ALL, 0, &none, WEXITED | WNOHANG | WNOWAIT, NULL) != 0 &&
           errno == ECHILD && mapped_shared == 0;
}

/* Where the files that are read stand; false if there are others. */
static bool find_offsets(off_t offsets[FILES])
{
    for (int fd = STDERR_FILENO + 1; fd < FILES; fd++) {
        struct stat s;
        offsets[fd] = -1;
        if (fstat(fd, &s) != 0 || S_ISCHR(s.st_mode))
            continue;
        if (!S_ISDIR(s.st_mode) && !S_ISREG(s.st_mode))
            return false;
        if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return false;
        offsets[fd] = lseek(fd, 0, SEEK_CUR);
    }
    return true;
}

static unsigned long wanted; /* the next one that run.py wants */
static Shared fork_counts;   /* of a fork in which a call failed */

static void talk(const char *text)
{
    if (syscall(SYS_write, ask, text, strlen(text)) < 0 ||
        syscall(SYS_read, answer, &wanted, sizeof wanted) != sizeof wanted)
        _exit(99); /* run.py has gone */
}

static int wait_for(pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (syscall(SYS_poll, &end, 1, SECONDS * 1000) != 1)
        kill(pid, SIGKILL);
    int status = -1;
    syscall(SYS_wait4, pid, &status, 0, NULL);
    close(end.fd);
    return status;
}

bool fails_in_fork(unsigned long number)
{
    int error = errno;
    off_t offsets[FILES];
    char text[64];
    if (number < wanted || !is_alone() || !find_offsets(offsets)) {
        errno = error;
        return false;
    }
    snprintf(text, sizeof text, "%lu\n", number);
    talk(text);
    pid_t pid = number == wanted ? next_fork() : -1;
    if (pid == 0) {
        shared = &fork_counts; /* the parent's numbers stay; here nothing else fails */
        dup2(errors, STDERR_FILENO);
        dup2(errors, STDOUT_FILENO);
        syscall(SYS_close_range, TALK_AT, ~0U, 0);
        errno = error;
        return true;
    }
    if (pid > 0) {
        snprintf(text, sizeof text, "%d\n", wait_for(pid));
        for (int fd = STDERR_FILENO + 1; fd < FILES; fd++)
            if (offsets[fd] >= 0)
                lseek(fd, offsets[fd], SEEK_SET);
        talk(text);
    }
    errno = error;
    return false;
}

/* The leak sanitizer knows a thread by its number, which is another one in a fork: what stack and
 * data of the thread point to would be leaks. Copies lie where it looks. */
static struct {
    _Alignas(16) char bytes[1 << 18];
    size_t used;
} roots;

static void add_root(const void *at, size_t bytes)
{
    size_t left = sizeof roots.bytes - roots.used;
    bytes = bytes < left ? bytes : left;
    memcpy(roots.bytes + roots.used, at, bytes);
    size_t whole = (bytes + 15) / 16 * 16;
    roots.used += whole < left ? whole : left;
}

static int add_thread_data(struct dl_phdr_info *module, size_t size, void *user)
{
    (void)size, (void)user;
    for (int i = 0; module->dlpi_tls_data && i < module->dlpi_phnum; i++)
        if (module->dlpi_phdr[i].p_type == PT_TLS)
            add_root(module->dlpi_tls_data, module->dlpi_phdr[i].p_memsz);
    return 0;
}

void add_roots(void)
{
    if (getpid() == first_process)
        return;
    char *here = __builtin_frame_address(0);
    add_root((void *)pthread_self(), THREAD);
    dl_iterate_phdr(add_thread_data, NULL);
    add_root(here, (size_t)(stack_end - here));
}

/* libc knows who holds a lock for writing by a thread's number: without this the fork would give back
 * another kind of lock than it has, and wait for itself when it next takes it. */
int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    NEXT(int, pthread_rwlock_unlock, pthread_rwlock_t *);
    if (shared == &fork_counts && lock->__data.__cur_writer == first_process)
        lock->__data.__cur_writer = getpid();
    return next(lock);
}

void __sanitizer_symbolize_pc(void *pc, const char *format, char *out, size_t size)
    __attribute__((weak));

/* The sanitizer reads all names once, of what is loaded then: with the compiler, not in each fork. */
void read_names(const char *path)
{
    char name[64];
    const char *slash = strrchr(path, '/');
    path = slash ? slash + 1 : path;
    if (is_each && __sanitizer_symbolize_pc &&
        (strcmp(path, "gxc") == 0 || strncmp(path, "libgxc.so", 9) == 0)) {
        shared->counts_now = false;
        __sanitizer_symbolize_pc((void *)program, "%f", name, sizeof name);
        shared->counts_now = true;
    }
}

static void read_talk(void)
{
    const char *text = getenv("GXFAULT_TALK");
    int fds[3];
    if (!is_each || !text || sscanf(text, "%d,%d,%d", &fds[0], &fds[1], &fds[2]) != 3)
        return;
    int *const to[] = {&ask, &answer, &errors};
    for (int i = 0; i < 3; i++) {
        *to[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, TALK_AT);
        close(fds[i]);
    }
    unsetenv("GXFAULT_TALK");
}

void fork_begin(char **arguments)
{
    read_talk();
    first_process = getpid();
    stack_end = (char *)arguments;
    read_names(arguments[0]);
    mapped_shared = 0; /* the counts do not count */
}
