/* A child process that can compute and nothing else. See sandbox.c. */
#ifndef GXC_RUNTIME_GXRUN_SANDBOX_H
#define GXC_RUNTIME_GXRUN_SANDBOX_H

#include <stdint.h>

/* Runs body(context) in a child and gives its exit code, or complains of how it ended. The child
 * dies with this process. */
int sandbox_run(int (*body)(void *context), void *context);

/* In the child: from now on it has no files, no network and no processes; what it can still write
 * to are standard output, standard error and `file` (-1: none). Gives an exit code. */
int sandbox_enter(int file);

/* Memory, zeroed, that this process shares with the children that it will make. Ends the process
 * if there is none. */
void *sandbox_allocate(uint64_t bytes);
void sandbox_free(void *memory, uint64_t bytes);

#endif
