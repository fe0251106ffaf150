/* Contexts of the emulated devices, and what every function of the driver begins with. */
#ifndef GXC_RUNTIME_EMU_CONTEXT_H
#define GXC_RUNTIME_EMU_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#pragma GCC visibility push(default)
#include "runtime/emu/gxemu.h"
#pragma GCC visibility pop

#include "runtime/emu/config.h"
#include "runtime/emu/finding.h"

/* A device's primary context. Lives as long as the process; its content ends with the last
 * release. */
struct CUctx_st {
    int device;
    _Atomic unsigned retained;
    CUresult failed; /* what every call returns since a finding, or CUDA_SUCCESS */
    Finding last;
    struct CUstream_st *streams; /* all, the legacy default stream among them */
    struct CUstream_st *legacy;
    uint64_t sequence;         /* of the last submitted operation */
    pthread_mutex_t launching; /* one checked launch at a time */
};

/* Guards contexts, streams and events; `emu_changed` is signalled whenever an operation ends. */
extern pthread_mutex_t emu_lock;
extern pthread_cond_t emu_changed;

/* Counts the call and says whether it may go on: CUDA_SUCCESS, or the error that it has to
 * return. `out_context`, if not NULL, gets the current context, which must exist then (NULL, and an error, if it does
 * not): what is destroyed is gone, whatever other error there is. */
CUresult emu_enter(const char *function, CUcontext *out_context);

/* The reason of a call that fails, for gxemuGetLastError on this thread. */
CUresult emu_refuse(CUresult error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with a finding's text; the context is not affected. */
CUresult emu_refuse_finding(const Finding *f);

/* A finding of an operation: the context fails from now on. The first one stays. */
void context_fail(CUcontext context, const Finding *f);

int device_count(void);
CUcontext device_context(int device); /* NULL: no such device */
CUcontext context_current(void);

#endif
