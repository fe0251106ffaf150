/* One device of a session: context, module, streams, events, scratch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/device.h"
#include "runtime/run/modules.h"
#include "runtime/run/session.h"

void device_report(const Device *d, char report[DEVICE_REPORT])
{
    const CudaApi *cuda = d->session->cuda;
    report[0] = '\0';
    if (cuda->emulated) {
        cuda->emu_last_error(report, DEVICE_REPORT - 1);
    }
    if (report[0]) {
        strcat(report, "\n");
    }
}

gxrt_status device_error(Device *d, const char *call, CUresult result, const char *what)
{
    const CudaApi *cuda = d->session->cuda;
    const char *name = NULL;
    const char *words = NULL;
    cuda->error_name(result, &name);
    cuda->error_string(result, &words);
    char report[DEVICE_REPORT];
    device_report(d, report);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return status_set(GXRT_OUT_OF_MEMORY, "%s: %s: device %d has too little memory",
                          call, what, d->ordinal);
    }
    d->session->failed = d->session->failed || d->phase == CAPTURE_OFF;
    if (result == CUDA_ERROR_LAUNCH_TIMEOUT && d->is_late) {
        return status_set(GXRT_DEVICE_FAILED,
                          "%s: device %u was not done within %g s; max_seconds of "
                          "gxrt_session_options allows more",
                          what, d->number, d->session->options.max_seconds);
    }
    return status_set(GXRT_DEVICE_FAILED, "%s%s: %s (%s) in %s on device %u", report,
                      call, name ? name : "unknown error", words ? words : "no text",
                      what, d->number);
}

gxrt_status device_enter(Device *d)
{
    CUresult r = d->session->cuda->context_push(d->context);
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuCtxPushCurrent", r, "entering");
}

void device_leave(Device *d)
{
    CUcontext old;
    d->session->cuda->context_pop(&old);
}

static void *zeroed(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

static bool allocate_tables(Device *d)
{
    const Plan *p = d->session->plan;
    size_t values = (size_t)p->arguments_count + p->results_count;
    d->functions = zeroed(p->kernels_count, sizeof *d->functions);
    d->images = zeroed(p->images_count, sizeof *d->images);
    d->base = zeroed(p->allocations_count, sizeof *d->base);
    d->owned = zeroed(p->allocations_count, sizeof *d->owned);
    d->streams = zeroed(p->streams_count, sizeof *d->streams);
    d->is_lacking = zeroed(p->streams_count, sizeof *d->is_lacking);
    d->joins = zeroed(p->streams_count, sizeof *d->joins);
    d->signals = zeroed(p->info->signal_count, sizeof *d->signals);
    d->signal_stream = zeroed(p->info->signal_count, sizeof *d->signal_stream);
    d->async = zeroed(2 * (size_t)p->info->async_count, sizeof *d->async);
    d->async_stream = zeroed(p->info->async_count, sizeof *d->async_stream);
    d->counters = zeroed(p->info->counter_count, sizeof *d->counters);
    d->checked = zeroed(values, sizeof *d->checked);
    d->intervals = zeroed(3 * values, sizeof *d->intervals);
    bool ok = d->functions && d->images && d->base && d->owned && d->streams &&
              d->is_lacking && d->joins && d->signals && d->signal_stream && d->async &&
              d->async_stream && d->counters && d->checked && d->intervals;
    if (ok) {
        memset(d->checked, 0xff,
               values * sizeof *d->checked); /* nothing is checked yet */
    }
    return ok && launch_create(d);
}

static void free_tables(Device *d)
{
    free(d->functions);
    free(d->images);
    free(d->base);
    free(d->owned);
    free(d->streams);
    free(d->is_lacking);
    free(d->joins);
    free(d->signals);
    free(d->signal_stream);
    free(d->async);
    free(d->async_stream);
    free(d->counters);
    launch_destroy(d);
    free(d->checked);
    free(d->intervals);
}

/* --- streams and events ------------------------------------------------------------------- */

static CUresult make_events(const CudaApi *cuda, CUevent *events, size_t count)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        r = cuda->event_create(&events[i], CU_EVENT_DISABLE_TIMING);
    }
    return r;
}

static void destroy_events(const CudaApi *cuda, CUevent *events, size_t count)
{
    for (size_t i = 0; events && i < count; i++) {
        if (events[i]) {
            cuda->event_destroy(events[i]);
        }
    }
}

static CUresult make_stream(Device *d, uint32_t i, int priority)
{
    const gxrt_streams *lender = d->session->options.streams;
    if (!lender) {
        return d->session->cuda->stream_create(&d->streams[i], CU_STREAM_NON_BLOCKING,
                                               priority);
    }
    void *lent = NULL;
    d->is_lacking[i] =
        lender->borrow(lender->user, d->ordinal,
                       d->session->plan->streams[i].priority != 0, &lent) != 0 ||
        !lent;
    d->streams[i] = d->is_lacking[i] ? NULL : lent;
    return CUDA_SUCCESS;
}

static void destroy_stream(Device *d, uint32_t i)
{
    const gxrt_streams *lender = d->session->options.streams;
    if (d->is_lacking[i] || !d->streams[i]) {
        return;
    }
    if (lender) {
        lender->give_back(lender->user, d->ordinal, d->streams[i]);
    } else {
        d->session->cuda->stream_destroy(d->streams[i]);
    }
}

static gxrt_status make_streams(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    const Plan *p = d->session->plan;
    int least = 0;
    int greatest = 0;
    CUresult r = CUDA_SUCCESS;
    if (p->streams_count > 1) {
        r = cuda->stream_priorities(&least, &greatest);
    }
    for (uint32_t i = 1; i < p->streams_count && r == CUDA_SUCCESS; i++) {
        r = make_stream(d, i, p->streams[i].priority ? greatest : least);
    }
    if (r == CUDA_SUCCESS && p->streams_count > 1) {
        r = make_events(cuda, d->joins, p->streams_count);
    }
    if (r == CUDA_SUCCESS && p->streams_count > 1) {
        r = make_events(cuda, &d->fork, 1);
    }
    if (r == CUDA_SUCCESS && d->session->options.max_seconds > 0) {
        r = make_events(cuda, &d->done, 1);
    }
    r = r == CUDA_SUCCESS ? make_events(cuda, d->signals, p->info->signal_count) : r;
    r = r == CUDA_SUCCESS ? make_events(cuda, d->async, 2 * (size_t)p->info->async_count)
                          : r;
    void *flag = NULL;
    r = r == CUDA_SUCCESS ? cuda->host_alloc(&flag, 64, 0) : r;
    d->flag = flag;
    return r == CUDA_SUCCESS
               ? GXRT_OK
               : device_error(d, "cuStreamCreate", r, "gxrt_session_create");
}

gxrt_status device_create(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    if (!allocate_tables(d)) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    CUresult r = cuda->device_get(&d->device, d->ordinal);
    r = r == CUDA_SUCCESS ? cuda->context_retain(&d->context, d->device) : r;
    if (r != CUDA_SUCCESS) {
        d->context = NULL;
        return device_error(d, "cuDevicePrimaryCtxRetain", r, "gxrt_session_create");
    }
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    st = modules_load(d);
    st = st == GXRT_OK ? make_streams(d) : st;
    st = st == GXRT_OK ? memory_create(d) : st;
    st = st == GXRT_OK ? matmul_create(d) : st;
    st = st == GXRT_OK ? graphs_create(d) : st;
    st = st == GXRT_OK ? solvers_create(d) : st;
    st = st == GXRT_OK ? capture_create(d) : st;
    device_leave(d);
    return st;
}

void device_drop_timings(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    for (size_t i = 0; i < d->timing_count; i++) {
        cuda->event_destroy(d->timings[i].start);
        if (d->timings[i].end) {
            cuda->event_destroy(d->timings[i].end);
        }
    }
    free(d->timings);
    d->timings = NULL;
    d->timing_count = 0;
    d->timing_capacity = 0;
}

void device_destroy(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    const Plan *p = d->session->plan;
    if (d->context) {
        bool current = cuda->context_push(d->context) == CUDA_SUCCESS;
        cuda->context_synchronize();
        capture_destroy(d);
        solvers_destroy(d);
        graphs_destroy(d);
        matmul_destroy(d);
        memory_destroy(d);
        if (d->flag) {
            cuda->host_free(d->flag);
        }
        device_drop_timings(d);
        destroy_events(cuda, d->signals, p->info->signal_count);
        destroy_events(cuda, d->async, 2 * (size_t)p->info->async_count);
        destroy_events(cuda, d->joins, p->streams_count);
        destroy_events(cuda, &d->fork, 1);
        destroy_events(cuda, &d->done, 1);
        for (uint32_t i = 1; i < p->streams_count; i++) {
            destroy_stream(d, i);
        }
        modules_unload(d);
        if (current) {
            device_leave(d);
        }
        cuda->context_release(d->device);
    }
    free_tables(d);
}
