/* The driver: memory and copies; streams and events. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/emulator/told.h"

enum { CALLS = 10, STREAMS = 3, EVENTS = 2, HOST = 4096 };

/* --- memory -------------------------------------------------------------------------------- */

static void ask(const Told *t)
{
    static const int attributes[] = {
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN};
    char name[40];
    const char *text = NULL;
    int number = 0, least = 0;
    size_t bytes = 0, total = 0;
    CUdevice device = 0;
    DONE(cuDriverGetVersion(told(1) ? &number : NULL));
    DONE(cuDeviceGetCount(told(1) ? &number : NULL));
    DONE(cuDeviceGet(told(1) ? &device : NULL, (int)told(0)));
    DONE(cuDeviceGetName(told(1) ? name : NULL, (int)told(40) % 41, (int)told(0)));
    DONE(cuDeviceGetAttribute(told(1) ? &number : NULL,
                              (int)told(attributes[told_choice(4)]), (int)told(0)));
    DONE(cuDeviceTotalMem_v2(told(1) ? &bytes : NULL, (int)told(0)));
    DONE(cuMemGetInfo_v2(told(1) ? &bytes : NULL, &total));
    DONE(cuCtxGetStreamPriorityRange(&least, &number));
    DONE(cuPointerGetAttribute(&number, (int)told(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
                               told_address(t->memory)));
    DONE(cuGetErrorName((int)told(0), told(1) ? &text : NULL));
    DONE(cuGetErrorString((int)told(0), told(1) ? &text : NULL));
    DONE(cuInit((unsigned)told(0)));
}

static size_t limited(int64_t bytes)
{
    return bytes < 0 || bytes > HOST ? HOST : (size_t)bytes;
}

static void copy(const Told *t, unsigned what, CUdeviceptr own)
{
    static unsigned char host[HOST];
    CUdeviceptr to = told_address(own), from = told_address(t->memory);
    size_t bytes = (size_t)told(256);
    switch (what % 9) {
    case 0:
        DONE(cuMemcpyHtoDAsync_v2(to, host, limited(told(64)), t->stream));
        break;
    case 1:
        DONE(cuMemcpyDtoHAsync_v2(told(1) ? host : NULL, from, limited(told(64)),
                                  t->stream));
        break;
    case 2:
        DONE(cuMemcpyDtoDAsync_v2(to, from, bytes, t->stream));
        break;
    case 3:
        DONE(cuMemcpyAsync(to, from, limited(told(64)), t->stream));
        break;
    case 4:
        DONE(cuMemsetD8Async(to, 7, bytes, t->stream));
        break;
    case 5:
        DONE(cuMemsetD16Async(to, 7, bytes / 2, t->stream));
        break;
    case 6:
        DONE(cuMemsetD32Async(to, 7, bytes / 4, t->stream));
        break;
    case 7:
        DONE(gxemuMemUndefine(to, bytes, t->stream));
        break;
    default:
        DONE(gxemuMemDefine(to, bytes, t->stream));
    }
}

void tell_memory(const Told *t)
{
    CUdeviceptr own = 0;
    void *pinned = NULL;
    ask(t);
    bool has_own = DONE(cuMemAlloc_v2(told(1) ? &own : NULL, (size_t)told(4096)));
    bool has_pinned = DONE(
        cuMemHostAlloc(told(1) ? &pinned : NULL, limited(told(64)), (unsigned)told(0)));
    for (int i = 0; i < CALLS; i++) {
        copy(t, told_choice(9), has_own ? own : t->memory);
        if (has_pinned && told(0))
            DONE(cuMemcpyAsync((uintptr_t)pinned, t->memory, 4, t->stream));
    }
    DONE(cuCtxSynchronize());
    told_calm();
    if (has_own)
        DONE(cuMemFree_v2(told_address(own)));
    DONE(cuMemFree_v2(told(0) ? own : 0));
    if (has_pinned)
        DONE(cuMemFreeHost(told_pointer(pinned)));
}

/* --- streams and events -------------------------------------------------------------------- */

typedef struct Handles {
    CUstream streams[STREAMS]; /* the last one may be gone */
    CUevent events[EVENTS];
    CUdeviceptr memory;
    size_t streams_made;
} Handles;

static void act(const Told *t, Handles *h, unsigned what)
{
    CUstream s = h->streams[(unsigned)told(what / 8 % 2) % STREAMS];
    CUevent e = h->events[(unsigned)told(what / 16 % 2) % EVENTS];
    float milliseconds = 0;
    CUstreamCaptureMode mode = (int)told(CU_STREAM_CAPTURE_MODE_RELAXED);
    int status;
    switch (what % 8) {
    case 0:
        DONE(cuEventRecord(e, s));
        break;
    case 1:
        DONE(cuStreamWaitEvent(s, e, (unsigned)told(0)));
        break;
    case 2:
        DONE(cuMemcpyDtoDAsync_v2(t->memory, t->memory + 4096, (size_t)told(4096), s));
        break;
    case 3: /* not ready is no mistake */
        status = cuStreamQuery(s);
        DONE(status == CUDA_ERROR_NOT_READY ? 0 : status);
        status = cuEventQuery(e);
        DONE(status == CUDA_ERROR_NOT_READY ? 0 : status);
        break;
    case 4:
        DONE(cuStreamSynchronize(s));
        break;
    case 5:
        DONE(cuEventSynchronize(e));
        break;
    case 6:
        DONE(cuEventRecord(h->events[0], s));
        DONE(cuEventRecord(h->events[1], s));
        DONE(cuStreamSynchronize(s));
        DONE(cuEventElapsedTime(told(1) ? &milliseconds : NULL, h->events[0],
                                h->events[(unsigned)told(1) % 2]));
        break;
    default:
        DONE(cuThreadExchangeStreamCaptureMode(told(1) ? &mode : NULL));
    }
}

void tell_streams(const Told *t)
{
    Handles h = {.streams = {t->stream}};
    CUcontext other = NULL, popped = NULL;
    for (int i = 1; i < STREAMS; i++)
        DONE(cuStreamCreateWithPriority(told(1) ? &h.streams[i] : NULL,
                                        (unsigned)told(CU_STREAM_NON_BLOCKING),
                                        (int)told(0)));
    for (int i = 0; i < EVENTS; i++)
        DONE(cuEventCreate(told(1) ? &h.events[i] : NULL,
                           (unsigned)told(CU_EVENT_DEFAULT)));
    for (int i = 0; i < CALLS; i++) {
        unsigned what = told_choice(256);
        act(t, &h, what);
        if (told(0) && h.events[1] != NULL) { /* while it may be waited for */
            DONE(cuEventDestroy_v2(h.events[1]));
            h.events[1] = NULL;
        }
        if (told(0) && h.streams[STREAMS - 1] != NULL) {
            DONE(cuStreamDestroy_v2(h.streams[STREAMS - 1]));
            h.streams[STREAMS - 1] = NULL;
        }
    }
    int device = (int)told(1);
    if (DONE(cuDevicePrimaryCtxRetain(told(1) ? &other : NULL, device))) {
        if (DONE(cuCtxPushCurrent_v2(told(1) ? other : NULL)))
            DONE(cuCtxPopCurrent_v2(told(1) ? &popped : NULL));
        told_calm();
        DONE(cuDevicePrimaryCtxRelease_v2(device));
    }
    told_calm();
    for (int i = 0; i < EVENTS; i++) {
        if (h.events[i] != NULL)
            DONE(cuEventDestroy_v2(h.events[i]));
    }
    for (int i = 1; i < STREAMS; i++) {
        if (h.streams[i] != NULL)
            DONE(cuStreamDestroy_v2(h.streams[i]));
    }
}
