/* A program of collectives on four emulated devices, run in processes of their own, because the
 * emulator reads its environment once. */
#ifndef GXC_TESTS_UNIT_SHARED_EMULATED_H
#define GXC_TESTS_UNIT_SHARED_EMULATED_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/gxrt.h"

extern char emulator_folder[512]; /* where libgxemu.so is */
int find_emulator(void **state);  /* sets it: a group's set-up */

/* Opens a session, runs `times` times, checks the results; 0, or 1 after printing the error.
 * `other`: another program. */
int run_all(gxrt_world *world, int times, double timeout, bool other);

typedef struct Child {
    pid_t pid;
    int out;
} Child;

/* A process that does body(argument), at most 60 s. */
Child child_start(int (*body)(int), int argument);
/* Its exit code, 100 if it was killed, and what it has said. */
int child_finish(Child c, char *text, size_t size);
/* body(0) ends with `code` and has said `says` (may be NULL). */
void expect_exit(int (*body)(int), int code, const char *says);

#endif
