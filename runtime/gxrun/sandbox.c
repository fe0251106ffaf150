/* The sandbox of emulated programs. Their kernels are machine code of a file that may come from
 * anywhere, so they run in a child whose threads have a filter of system calls (seccomp): memory,
 * threads, clocks and the output that is open already. The parent has the inputs and the files; results
 * come back in memory that both share, and are looked at when the child is gone.
 *
 * What the filter does not name fails with EPERM, which the C library takes for an answer. What only
 * code with a purpose of its own calls ends the child. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, SYS_ */
#include "runtime/gxrun/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/file.h"
#include "runtime/gxrun/gxrun.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filter of system calls is for x86-64 and aarch64"
#endif

enum {
    ALLOW = SECCOMP_RET_ALLOW,
    NOT_THERE = SECCOMP_RET_ERRNO | ENOSYS,
    OTHERS = SECCOMP_RET_ERRNO | EPERM,
    ANY = -1,
    X32 = 0x40000000, /* numbers of x86-64's other ABI */
    NEW_SPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    WRITES = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
    RULE_STEPS = 6,
    MOST_RULES = 100,
};
#define END SECCOMP_RET_KILL_PROCESS

/* Applies where (argument & mask) == value, low 32 bits; the first rule that applies counts. */
typedef struct Rule {
    int call;
    int argument; /* ANY: whatever they are */
    uint32_t mask, value;
    uint32_t action;
} Rule;

static const Rule rules[] = {
    /* memory that RLIMIT_DATA counts; no file can be mapped */
    {SYS_mmap, 3, MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB,
     MAP_PRIVATE | MAP_ANONYMOUS, ALLOW},
    {SYS_munmap, ANY, 0, 0, ALLOW},
    {SYS_mremap, ANY, 0, 0, ALLOW},
    {SYS_mprotect, ANY, 0, 0, ALLOW},
    {SYS_madvise, ANY, 0, 0, ALLOW},
    {SYS_brk, ANY, 0, 0, ALLOW},
    /* threads of this process; clone3 hides its flags behind a pointer, clone does as well */
    {SYS_clone3, ANY, 0, 0, NOT_THERE},
    {SYS_clone, 0, CLONE_THREAD | NEW_SPACES, CLONE_THREAD, ALLOW},
    {SYS_set_robust_list, ANY, 0, 0, ALLOW},
    {SYS_rseq, ANY, 0, 0, ALLOW},
    {SYS_futex, ANY, 0, 0, ALLOW},
    {SYS_sched_yield, ANY, 0, 0, ALLOW},
    {SYS_sched_getaffinity, ANY, 0, 0, ALLOW},
    {SYS_getpid, ANY, 0, 0, ALLOW},
    {SYS_gettid, ANY, 0, 0, ALLOW},
    {SYS_exit, ANY, 0, 0, ALLOW},
    {SYS_exit_group, ANY, 0, 0, ALLOW},
    /* signals to itself: abort() */
    {SYS_rt_sigaction, ANY, 0, 0, ALLOW},
    {SYS_rt_sigprocmask, ANY, 0, 0, ALLOW},
    {SYS_rt_sigreturn, ANY, 0, 0, ALLOW},
    {SYS_sigaltstack, ANY, 0, 0, ALLOW},
    /* clocks */
    {SYS_clock_gettime, ANY, 0, 0, ALLOW},
    {SYS_clock_getres, ANY, 0, 0, ALLOW},
    {SYS_clock_nanosleep, ANY, 0, 0, ALLOW},
    {SYS_nanosleep, ANY, 0, 0, ALLOW},
    {SYS_gettimeofday, ANY, 0, 0, ALLOW},
    {SYS_restart_syscall, ANY, 0, 0, ALLOW},
    {SYS_getrandom, ANY, 0, 0, ALLOW},
    /* output */
    {SYS_write, 0, UINT32_MAX, STDOUT_FILENO, ALLOW},
    {SYS_write, 0, UINT32_MAX, STDERR_FILENO, ALLOW},
    {SYS_writev, 0, UINT32_MAX, STDOUT_FILENO, ALLOW},
    {SYS_writev, 0, UINT32_MAX, STDERR_FILENO, ALLOW},
/* what no library calls to find its way */
#ifdef SYS_open
    {SYS_open, 1, WRITES, 0, OTHERS},
    {SYS_open, ANY, 0, 0, END},
    {SYS_creat, ANY, 0, 0, END},
    {SYS_fork, ANY, 0, 0, END},
    {SYS_vfork, ANY, 0, 0, END},
    {SYS_unlink, ANY, 0, 0, END},
    {SYS_rename, ANY, 0, 0, END},
    {SYS_mkdir, ANY, 0, 0, END},
#endif
    {SYS_openat, 2, WRITES, 0, OTHERS},
    {SYS_openat, ANY, 0, 0, END},
    {SYS_unlinkat, ANY, 0, 0, END},
    {SYS_renameat2, ANY, 0, 0, END},
    {SYS_mkdirat, ANY, 0, 0, END},
    {SYS_clone, ANY, 0, 0, END},
    {SYS_execve, ANY, 0, 0, END},
    {SYS_execveat, ANY, 0, 0, END},
    {SYS_socket, ANY, 0, 0, END},
    {SYS_kill, ANY, 0, 0, END},
    {SYS_ptrace, ANY, 0, 0, END},
    {SYS_process_vm_readv, ANY, 0, 0, END},
    {SYS_process_vm_writev, ANY, 0, 0, END},
};
_Static_assert(sizeof rules / sizeof *rules < MOST_RULES - 10, "room for added rules");

typedef struct Filter {
    struct sock_filter steps[MOST_RULES * RULE_STEPS];
    unsigned short count;
} Filter;

static void step(Filter *f, uint16_t code, uint32_t operand, uint8_t if_not)
{
    f->steps[f->count++] = (struct sock_filter){.code = code, .jf = if_not, .k = operand};
}

static void load(Filter *f, size_t offset)
{
    step(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0);
}

/* The low half of an argument; both machines are little-endian. */
static void add_rule(Filter *f, Rule r)
{
    bool any = r.argument == ANY;
    load(f, offsetof(struct seccomp_data, nr));
    step(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r.call, any ? 1 : 4);
    if (!any) {
        load(f, offsetof(struct seccomp_data, args) + (size_t)r.argument * 8);
        step(f, BPF_ALU | BPF_AND | BPF_K, r.mask, 0);
        step(f, BPF_JMP | BPF_JEQ | BPF_K, r.value, 1);
    }
    step(f, BPF_RET | BPF_K, r.action, 0);
}

static void make_filter(Filter *f, int file)
{
    f->count = 0;
    load(f, offsetof(struct seccomp_data, arch));
    step(f, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 2); /* to END */
    load(f, offsetof(struct seccomp_data, nr));
    f->steps[f->count++] = (struct sock_filter){BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32};
    step(f, BPF_RET | BPF_K, END, 0);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        add_rule(f, rules[i]);
    }
    uint32_t self = (uint32_t)getpid();
    add_rule(f, (Rule){SYS_tgkill, 0, UINT32_MAX, self, ALLOW});
    add_rule(f, (Rule){SYS_tgkill, ANY, 0, 0, END});
    if (file >= 0) {
        add_rule(f, (Rule){SYS_write, 0, UINT32_MAX, (uint32_t)file, ALLOW});
        add_rule(f, (Rule){SYS_writev, 0, UINT32_MAX, (uint32_t)file, ALLOW});
    }
    step(f, BPF_RET | BPF_K, OTHERS, 0);
}

/* All private memory that can be written counts, so what is there already is added. */
static bool limit_memory(size_t mib)
{
    unsigned long long data = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bool read = f && fscanf(f, "%*u %*u %*u %*u %*u %llu", &data) == 1;
    if (f) {
        fclose(f);
    }
    rlim_t most = (rlim_t)data * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mib << 20);
    return read && setrlimit(RLIMIT_DATA, &(struct rlimit){most, most}) == 0;
}

int sandbox_enter(int file, size_t mib)
{
    if (!limit_memory(mib)) {
        return complain(EXIT_WRONG, "the emulated program's memory cannot be limited: %s",
                        strerror(errno));
    }
    Filter f;
    make_filter(&f, file);
    struct sock_fprog program = {.len = f.count, .filter = f.steps};
    /* with TSYNC the threads that are there already have it, too */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                &program) == 0) {
        return EXIT_DONE;
    }
    return complain(
        EXIT_WRONG,
        "this system has no filter of system calls (seccomp: %s), without which "
        "the program could do all that you can; --no-sandbox runs it all the same",
        strerror(errno));
}

/* A child that outlives its parent would compute for nobody. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(EXIT_WRONG);
    }
}

/* Waits until all who can write to the pipe are gone, `seconds` at most (0: for ever); false if they
 * are not. */
static bool wait_for_end(int pipe, uint32_t seconds)
{
    struct pollfd p = {.fd = pipe};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + (int64_t)seconds * 1000;
    int64_t left = (int64_t)seconds * 1000;
    while (poll(&p, 1, seconds ? (int)left : -1) <= 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = end - (now.tv_sec * 1000 + now.tv_nsec / 1000000);
        if (seconds && left <= 0) {
            return false;
        }
    }
    return true;
}

#define LATE                                                                             \
    "the program was not done within %u s and was ended; --max-seconds=N allows more"

static int wait_for(pid_t child, int pipe, uint32_t seconds)
{
    int status = 0;
    bool late = !wait_for_end(pipe, seconds);
    if (late) {
        kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return complain(EXIT_WRONG, "waiting for the emulated program: %s",
                            strerror(errno));
        }
    }
    if (late) {
        return complain(EXIT_WRONG, LATE, seconds);
    }
    if (WIFEXITED(status)) {
        int code = WEXITSTATUS(status);
        return code == EXIT_DONE || code == EXIT_NOT_SUPPORTED ? code : EXIT_WRONG;
    }
    int signal = WTERMSIG(status);
    if (signal == SIGSYS) {
        return complain(
            EXIT_WRONG,
            "the program's machine code called the system for what the sandbox "
            "forbids (files, network, processes) and was ended: gxc makes no "
            "such code");
    }
    if (signal == SIGPIPE) {
        return complain(EXIT_WRONG, "cannot write to standard output: %s",
                        strerror(EPIPE));
    }
    return complain(EXIT_WRONG, "the emulated program was ended by signal %d: %s", signal,
                    strsignal(signal));
}

int sandbox_run(int (*body)(void *context), void *context, uint32_t seconds)
{
    pid_t parent = getpid();
    int ends[2] = {-1, -1}; /* the child's end is closed when it has ended, however */
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        int code = complain(EXIT_WRONG, "no process for the emulated program: %s",
                            strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return code;
    }
    if (child == 0) {
        die_with(parent);
        int code = body(context);
        _exit(file_flush_output("gxrun") ? code : EXIT_WRONG);
    }
    close(ends[1]);
    int code = wait_for(child, ends[0], seconds);
    close(ends[0]);
    return code;
}

static char late_text[160];

/* A device that hangs cannot be waited for, so nothing is given back. */
static void end_late(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, late_text, strlen(late_text));
    _exit(written < 0 ? EXIT_BUG : EXIT_WRONG);
}

void sandbox_end_after(uint32_t seconds)
{
    struct sigaction action = {.sa_handler = end_late};
    snprintf(late_text, sizeof late_text, "gxrun: error: " LATE "\n", seconds);
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

void *sandbox_allocate(uint64_t bytes)
{
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        exit(complain(EXIT_WRONG, "no memory for %llu bytes", (unsigned long long)bytes));
    }
    return p;
}

void sandbox_free(void *memory, uint64_t bytes)
{
    munmap(memory, bytes ? bytes : 1);
}
