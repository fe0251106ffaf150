/* A table of fake CUDA functions: device memory is malloc's, kernels are C functions, everything
 * runs at once. Any call can be told to fail. */
#ifndef GXC_TESTS_UNIT_SHARED_FAKE_DRIVER_H
#define GXC_TESTS_UNIT_SHARED_FAKE_DRIVER_H

#include "runtime/run/session.h"

enum { FAKE_DEVICES = 4 };

extern const CudaApi fake_api;

extern int fake_calls;                    /* so many calls that may fail were made */
extern int fake_fail_at;                  /* this one of them fails; 0: none */
extern int fake_failures;                 /* calls that have failed so */
extern int fake_records;                  /* of events */
extern void (*fake_on_record)(void);      /* called before each; NULL: nothing */
extern void (*fake_on_synchronize)(void); /* called before each wait for an event */
/* called before each wait: what waits, and where its event was recorded; NULL: nothing */
extern void (*fake_on_wait)(CUstream stream, CUstream recorded);
extern int fake_device_records[FAKE_DEVICES]; /* of events on each device */
extern int
    fake_stops[FAKE_DEVICES]; /* the first of them that is not reached; 0: all are */
extern int fake_endless;      /* 1: the next kernel does not end; 2: it runs */
extern int fake_relaxed;      /* threads that mind no capture */
extern int fake_live;         /* contexts, modules, streams, events, memory */
extern uint32_t fake_grid, fake_block; /* of the last launch: blocks, threads of each */
extern int fake_sm, fake_driver;       /* of every device: 90, and CUDA 13.0 */
extern int fake_shared;                /* bytes that a block may have: 232448 */
extern int fake_other_sm;              /* of device 1 alone; 0: as every device */
extern char fake_log[4096];            /* kernels, records and waits, in order */
extern char fake_host_variable;        /* its block of 256 bytes is no device memory */
extern _Thread_local int fake_current; /* device of the current context, or -1 */

#endif
