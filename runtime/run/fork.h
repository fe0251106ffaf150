/* Who uses devices, across fork(). */
#ifndef GXC_RUNTIME_RUN_FORK_H
#define GXC_RUNTIME_RUN_FORK_H

#include "runtime/gxrt.h"

/* Another number in a forked process. */
unsigned fork_generation(void);

/* Refuses a call for what was made in the process of another generation. */
gxrt_status fork_check(unsigned made_in, const char *function);

/* This process is about to use devices; refused if one that it was forked from has. */
gxrt_status fork_use_devices(void);

#endif
