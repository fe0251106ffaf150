/* OS threads that share the work of a launch. */
#ifndef GXC_RUNTIME_EMU_WORKERS_H
#define GXC_RUNTIME_EMU_WORKERS_H

/* Calls body(argument) on this thread, and on helpers that are free at the same time; returns
 * when all have returned. The number of helpers is GXEMU_WORKERS less one. */
void workers_run(void (*body)(void *), void *argument);

#endif
