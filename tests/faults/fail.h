/* What the two halves of the preloaded library share: calls that fail (fail.c), and a run in which each of
 * them fails in a fork of its own (fork.c). Nothing of it is seen by the program. */
#ifndef GXC_FAULTS_FAIL_H
#define GXC_FAULTS_FAIL_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

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

typedef struct Shared {
    atomic_ulong counts[KIND_COUNT];
    atomic_bool counts_now;
} Shared;

extern Shared *shared; /* with forked children */
extern pid_t first_process;
extern bool is_each;             /* every call fails in a fork */
extern atomic_int mapped_shared; /* pieces of memory that a fork would share */
extern pid_t (*next_fork)(void);
extern int (*program)(int, char **, char **);

/* The function that `name` stands for in the program, as `next`. */
#define NEXT(Result, name, ...)                                                          \
    static Result (*next)(__VA_ARGS__);                                                  \
    if (!next)                                                                           \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

/* fork.c: true in the fork that was made for this call, which has to fail there. */
bool fails_in_fork(unsigned long number);
/* Before `program` runs, whose arguments stand where its stack ends. */
void fork_begin(char **arguments);
/* At the end of a fork: what the leak sanitizer would not find. */
void add_roots(void);
/* The sanitizer is to read the names of a library or program that was loaded. */
void read_names(const char *path);

#pragma GCC visibility pop

#endif
