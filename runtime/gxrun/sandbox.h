/* A child process that can compute and nothing else. See sandbox.c. */
#ifndef GXC_RUNTIME_GXRUN_SANDBOX_H
#define GXC_RUNTIME_GXRUN_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

/* Runs body(context) in a child and gives its exit code, or complains of how it ended. The child
 * dies with this process, and is ended after `seconds` (0: never). */
int sandbox_run(int (*body)(void *context), void *context, uint32_t seconds);

/* In the child: from now on it has no files, no network and no processes; what it can still write
 * to are standard output, standard error and `file` (-1: none). `mib`: how much memory it may
 * take besides what it has. Gives an exit code. */
int sandbox_enter(int file, size_t mib);

/* From now on this process ends itself after `seconds`, where nobody else can; 0: it goes on. */
void sandbox_end_after(uint32_t seconds);

/* Memory, zeroed, that this process shares with the children that it will make. Ends the process
 * if there is none. */
void *sandbox_allocate(uint64_t bytes);
void sandbox_free(void *memory, uint64_t bytes);

#endif
