/* Threads that share out numbered tasks. */
#ifndef GXC_CODEGEN_BUILD_TASKS_H
#define GXC_CODEGEN_BUILD_TASKS_H

#include <stddef.h>
#include <stdint.h>

/* `worker` numbers the thread, below the count that tasks_workers gave. */
typedef void TaskFn(void *user, uint32_t worker, size_t task);

/* How many threads `jobs` means (0: one a processor), at most `tasks` and at least one. */
uint32_t tasks_workers(uint32_t jobs, size_t tasks);

/* Runs tasks 0 … tasks - 1, taken in this order by `workers` threads, of which the caller's is one.
 * Each task has an Escape of its own. Where tasks throw, the rest of those already taken ends, no
 * other is taken, and what the first in order threw is thrown again: the same for any number of
 * threads. */
void tasks_run(uint32_t workers, size_t tasks, TaskFn *run, void *user);

#endif
