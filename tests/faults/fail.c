/* Preloaded: lets one call of the program fail, and counts them.
 *
 *   GXFAULT=KIND:N   the N-th call of this kind, counted from the start of main, fails as the system
 *                    would let it fail; N 0: none does
 *   GXFAULT=KIND:each    every call of this kind fails, in a fork of its own; see "one run for all"
 *   GXFAULT_TALK=A,B,C   for that: pipes to and from run.py, and the file for errors of the forks
 *   GXFAULT_ONE=1        the machine has one processor: no threads share out the work
 *   GXFAULT_LOG=FILE at the end the counts of all kinds are written there
 *
 * Children that the program forks count on; programs that it starts are left alone. What libc calls
 * inside itself is not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* KIND(name): memory; much of it at once, as arenas take it; reading; writing; names of files; processes; threads and
 * libraries. */
#define KINDS(KIND)                                                                      \
    KIND(memory) KIND(block) KIND(read) KIND(write) KIND(open) KIND(process) KIND(thread)

typedef enum Kind {
#define KIND(name) KIND_##name,
    KINDS(KIND)
#undef KIND
        KIND_COUNT
} Kind;

static const char *const names[] = {
#define KIND(name) #name,
    KINDS(KIND)
#undef KIND
};

typedef struct Shared {
    atomic_ulong counts[KIND_COUNT];
    atomic_bool counts_now;
} Shared;

static Shared *shared; /* with forked children */
static Kind failing_kind = KIND_COUNT;
static unsigned long failing_number;
static pid_t first_process;
static bool is_each; /* every call fails in a fork */
static bool is_one;  /* processor */

static bool fails_in_fork(unsigned long number);

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

#define NEXT(Result, name, ...)                                                          \
    static Result (*next)(__VA_ARGS__);                                                  \
    if (!next)                                                                           \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

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

static atomic_int mapped_shared; /* pieces of memory that a fork would share */

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

static void read_names(const char *path);

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

static pid_t (*next_fork)(void);

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

/* --- one run for all -------------------------------------------------------------------------
 *
 * At the N-th call the process forks. The child's call fails, and it ends as it ends, its errors in
 * a file; then the parent goes on to the next call. The parent writes "N" and waits for a number of
 * run.py: N to fork, for run.py knows now what lies in the folders, or a later one, which it wants
 * next. After the fork it writes the child's status, and waits for the next number, until run.py
 * has put all back. Calls of which nothing is written are left to runs of their own: those of
 * threads and other processes, and where parent and child would share more than folders - memory,
 * pipes, files that are written. */

static int (*program)(int, char **, char **);
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
static bool find_places(off_t places[FILES])
{
    for (int fd = STDERR_FILENO + 1; fd < FILES; fd++) {
        struct stat s;
        places[fd] = -1;
        if (fstat(fd, &s) != 0 || S_ISCHR(s.st_mode))
            continue;
        if (!S_ISDIR(s.st_mode) && !S_ISREG(s.st_mode))
            return false;
        if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return false;
        places[fd] = lseek(fd, 0, SEEK_CUR);
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

static bool fails_in_fork(unsigned long number)
{
    int error = errno;
    off_t places[FILES];
    char text[64];
    if (number < wanted || !is_alone() || !find_places(places)) {
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
            if (places[fd] >= 0)
                lseek(fd, places[fd], SEEK_SET);
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

static void add_roots(void)
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
static void read_names(const char *path)
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
    read_talk();
    first_process = getpid();
    stack_end = (char *)arguments;
    read_names(arguments[0]);
    mapped_shared = 0; /* the counts do not count */
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
