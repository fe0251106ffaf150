/* Preloaded: lets one call of the program fail, and counts them.
 *
 *   GXFAULT=KIND:N   the N-th call of this kind, counted from the start of main, fails as the system
 *                    would let it fail; N 0: none does
 *   GXFAULT=KIND:each    every call of this kind fails, in a fork of its own; see fork.c
 *   GXFAULT_TALK=A,B,C   for that: pipes to and from run.py, and the file for errors of the forks
 *   GXFAULT_ONE=1        the machine has one processor: no threads share out the work
 *   GXFAULT_LOG=FILE at the end the counts of all kinds are written there
 *
 * Children that the program forks count on; programs that it starts are left alone. What libc calls
 * inside itself is not seen. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"

static const char *const names[] = {
#define KIND(name) #name,
    KINDS(KIND)
#undef KIND
};

Shared *shared;
pid_t first_process;
bool is_each;
atomic_int mapped_shared;
pid_t (*next_fork)(void);
int (*program)(int, char **, char **);
static Kind failing_kind = KIND_COUNT;
static unsigned long failing_number;
static bool is_one; /* processor */

/* True: this call has to fail. */
static bool fails(Kind kind)
{
    if (!shared || !shared->counts_now)
        return false;
    unsigned long number = atomic_fetch_add(&shared->counts[kind], 1) + 1;
    if (kind != failing_kind)
        return false;
    return is_each ? fails_in_fork(number) : number == failing_number;
}

/* --- memory: of the leak sanitizer if that is preloaded behind this, else glibc's ----------
 *
 * The sanitizer tells by its caller what the dynamic linker has allocated, which is no leak: these
 * must end in jumps (-O2), not in calls. */

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

enum { BLOCK = 8192 };

static bool lacks(size_t bytes)
{
    bool block = bytes >= BLOCK && fails(KIND_block);
    return fails(KIND_memory) || block;
}

void *malloc(size_t n)
{
    NEXT(void *, malloc, size_t);
    return lacks(n) ? no_memory() : next(n);
}

void *calloc(size_t n, size_t size)
{
    NEXT(void *, calloc, size_t, size_t);
    return lacks(n * size) ? no_memory() : next(n, size);
}

void *realloc(void *p, size_t n)
{
    NEXT(void *, realloc, void *, size_t);
    return n && lacks(n) ? no_memory() : next(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    NEXT(void *, aligned_alloc, size_t, size_t);
    return lacks(n) ? no_memory() : next(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    NEXT(void *, aligned_alloc, size_t, size_t);
    void *p = lacks(n) ? NULL : next(alignment, n);
    if (p)
        *out = p;
    return p ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (lacks(bytes)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *p = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
    if (p != MAP_FAILED && flags & MAP_SHARED && protection & PROT_WRITE)
        mapped_shared++;
    return p;
}

/* --- files ----------------------------------------------------------------------------------- */

/* REPLACE(kind, error, result when it fails, result, name, (parameters), (arguments)) */
#define REPLACE(kind, error, failed, Result, name, parameters, arguments)                \
    Result name parameters                                                               \
    {                                                                                    \
        static Result(*next) parameters;                                                 \
        if (!next)                                                                       \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                   \
        if (fails(KIND_##kind)) {                                                        \
            errno = error;                                                               \
            return failed;                                                               \
        }                                                                                \
        return next arguments;                                                           \
    }

REPLACE(open, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode),
        (path, mode))
REPLACE(open, EMFILE, NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
REPLACE(open, EMFILE, NULL, FILE *, tmpfile, (void), ())
REPLACE(open, ENOSPC, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
REPLACE(open, ENOSPC, -1, int, mkstemp, (char *path), (path))
REPLACE(open, ENOSPC, NULL, char *, mkdtemp, (char *path), (path))
REPLACE(open, EIO, -1, int, rename, (const char *from, const char *to), (from, to))
REPLACE(open, EMFILE, -1, int, shm_open, (const char *name, int flags, mode_t mode),
        (name, flags, mode))
REPLACE(read, EIO, -1, ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
REPLACE(read, EIO, -1, ssize_t, pread, (int fd, void *to, size_t n, off_t at),
        (fd, to, n, at))
REPLACE(read, EIO, -1, ssize_t, readlink, (const char *path, char *to, size_t n),
        (path, to, n))
REPLACE(write, ENOSPC, -1, ssize_t, write, (int fd, const void *from, size_t n),
        (fd, from, n))
REPLACE(write, ENOSPC, -1, int, ftruncate, (int fd, off_t n), (fd, n))
REPLACE(write, EIO, -1, int, fsync, (int fd), (fd))
REPLACE(process, ENOMEM, -1, int, execv, (const char *path, char *const *a), (path, a))
REPLACE(process, ENOMEM, -1, int, execve,
        (const char *path, char *const *a, char *const *e), (path, a, e))
REPLACE(process, EMFILE, -1, int, pipe, (int ends[2]), (ends))
REPLACE(thread, EAGAIN, EAGAIN, int, pthread_create,
        (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *user),
        (t, a, run, user))

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
    va_end(list);
    if (fails(KIND_open)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

void *dlopen(const char *path, int mode)
{
    NEXT(void *, dlopen, const char *, int);
    if (fails(KIND_thread)) {
        errno = ENOMEM;
        return NULL;
    }
    void *library = next(path, mode);
    if (library && path)
        read_names(path);
    return library;
}

pid_t fork(void)
{
    if (fails(KIND_process)) {
        errno = EAGAIN;
        return -1;
    }
    pid_t pid = next_fork();
    if (pid == 0)
        is_each =
            false; /* it counts on, and cannot be forked again: it may be in a sandbox */
    return pid;
}

/* A stream that fails stays marked. */
#define MARK(f) ((f)->_flags |= 0x20)

size_t fread(void *to, size_t size, size_t n, FILE *f)
{
    NEXT(size_t, fread, void *, size_t, size_t, FILE *);
    if (fails(KIND_read)) {
        MARK(f);
        errno = EIO;
        return 0;
    }
    return next(to, size, n, f);
}

size_t fwrite(const void *from, size_t size, size_t n, FILE *f)
{
    NEXT(size_t, fwrite, const void *, size_t, size_t, FILE *);
    if (f != stderr && fails(KIND_write)) {
        MARK(f);
        errno = ENOSPC;
        return 0;
    }
    return next(from, size, n, f);
}

int fflush(FILE *f)
{
    NEXT(int, fflush, FILE *);
    if (f != stderr && fails(KIND_write)) {
        if (f)
            MARK(f);
        errno = ENOSPC;
        return EOF;
    }
    return next(f);
}

int fclose(FILE *f)
{
    NEXT(int, fclose, FILE *);
    bool failed = fails(KIND_write);
    int result = next(f);
    if (failed)
        errno = ENOSPC;
    return failed ? EOF : result;
}

long sysconf(int name)
{
    NEXT(long, sysconf, int);
    return is_one && name == _SC_NPROCESSORS_ONLN ? 1 : next(name);
}

/* --- start and end --------------------------------------------------------------------------- */

static void write_counts(void)
{
    const char *path = getenv("GXFAULT_LOG");
    shared->counts_now = false;
    FILE *f = path && getpid() == first_process ? fopen(path, "w") : NULL;
    for (int i = 0; f && i < KIND_COUNT; i++)
        fprintf(f, "%s %lu\n", names[i], (unsigned long)shared->counts[i]);
    if (f)
        fclose(f);
}

static void read_fault(void)
{
    const char *text = getenv("GXFAULT");
    const char *colon = text ? strchr(text, ':') : NULL;
    is_one = getenv("GXFAULT_ONE") != NULL;
    for (int i = 0; colon && i < KIND_COUNT; i++) {
        if (strncmp(text, names[i], (size_t)(colon - text)) == 0) {
            failing_kind = (Kind)i;
            failing_number = strtoul(colon + 1, NULL, 10);
            is_each = strcmp(colon + 1, "each") == 0;
        }
    }
}

static int counted_main(int n, char **arguments, char **environment)
{
    unsetenv("LD_PRELOAD");
    read_fault();
    fork_begin(arguments);
    atexit(add_roots);
    atexit(write_counts);
    shared->counts_now = true;
    return program(n, arguments, environment);
}

/* Later the linker may be at work when it allocates: dlerror() does not bear a dlsym() inside. */
static void find_allocators(void)
{
    void *volatile p[] = {realloc(malloc(1), 2), calloc(1, 1), aligned_alloc(16, 16)};
    for (int i = 0; i < 3; i++)
        free(p[i]);
}

typedef int Main(int, char **, char **);
int __libc_start_main(Main *run, int n, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack);

int __libc_start_main(Main *run, int n, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*rtld)(void), void *stack)
{
    NEXT(int, __libc_start_main, Main *, int, char **, void (*)(void), void (*)(void),
         void (*)(void), void *);
    find_allocators();
    *(void **)&next_fork = dlsym(RTLD_NEXT, "fork");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    program = run;
    return next(counted_main, n, arguments, init, fini, rtld, stack);
}
