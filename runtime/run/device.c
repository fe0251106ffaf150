/* One device of a session: context, module, streams, events, scratch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/launch_limits.h"
#include "runtime/run/device.h"
#include "runtime/run/session.h"

gxrt_status device_error(Device *d, const char *call, CUresult result, const char *what)
{
    const CudaApi *cuda = d->session->cuda;
    const char *name = NULL;
    const char *words = NULL;
    cuda->error_name(result, &name);
    cuda->error_string(result, &words);
    char report[1024] = "";
    if (cuda->emulated) {
        cuda->emu_last_error(report, sizeof report);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return status_set(GXRT_OUT_OF_MEMORY, "%s: %s: device %d has too little memory",
                          call, what, d->ordinal);
    }
    d->session->failed = d->session->failed || d->phase == CAPTURE_OFF;
    return status_set(GXRT_DEVICE_FAILED, "%s%s%s: %s (%s) in %s on device %u", report,
                      report[0] ? "\n" : "", call, name ? name : "unknown error",
                      words ? words : "no text", what, d->number);
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

/* --- modules ------------------------------------------------------------------------------ */

static gxrt_status load_cubin(Device *d)
{
    const gxrt_session *s = d->session;
    void *image = program_cubin(s->variant);
    if (!image) {
        return status_set(GXRT_OUT_OF_MEMORY,
                          "gxrt_session_create: no memory for the cubin");
    }
    CUresult r = s->cuda->module_load(&d->module, image);
    free(image);
    if (r == CUDA_SUCCESS) {
        return GXRT_OK;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        return device_error(d, "cuModuleLoadData", r, "loading the kernels");
    }
    const PlanInfo *info = s->plan->info;
    int driver = 0;
    s->cuda->driver_version(&driver);
    const char *words = NULL;
    s->cuda->error_string(r, &words);
    return status_set(GXRT_WRONG_DEVICE,
                      "cuModuleLoadData: %s: the cubin for %s, made for drivers of CUDA "
                      "%u.%u or newer, does not load on device %d (%s; driver for CUDA "
                      "%d.%d): update the driver, or compile for this GPU",
                      words ? words : "refused", plan_text(s->plan, info->target),
                      info->min_driver / 1000, info->min_driver % 1000 / 10, d->ordinal,
                      s->device_name, driver / 1000, driver % 1000 / 10);
}

static gxrt_status load_object(Device *d)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    GxemuKernel *kernels = zeroed(p->kernels_count, sizeof *kernels);
    if (!kernels) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        const PlanKernel *k = &p->kernels[i];
        kernels[i] =
            (GxemuKernel){.name = plan_text(p, k->name),
                          .flags = k->flags & PLAN_KERNEL_BARRIERS ? GXEMU_BARRIERS : 0,
                          .parameter_count = k->parameter_count,
                          .static_shared_bytes = k->static_shared_bytes};
    }
    CUresult r =
        s->cuda->emu_module_load(&d->module, s->variant->emu.bytes, s->variant->emu.size,
                                 kernels, p->kernels_count);
    free(kernels);
    return r == CUDA_SUCCESS
               ? GXRT_OK
               : device_error(d, "gxemuModuleLoad", r, "loading the emulated kernels");
}

static gxrt_status get_function(Device *d, uint32_t i)
{
    const gxrt_session *s = d->session;
    const PlanKernel *k = &s->plan->kernels[i];
    const char *name = plan_text(s->plan, k->name);
    CUresult r = s->cuda->module_function(&d->functions[i], d->module, name);
    if (r == CUDA_ERROR_NOT_FOUND) {
        return status_set(GXRT_INVALID_FILE,
                          "cuModuleGetFunction: the cubin has no kernel %s that its plan "
                          "launches: compile it again",
                          name);
    }
    if (r == CUDA_SUCCESS && k->shared_bytes > LAUNCH_STATIC_SHARED) {
        r = s->cuda->function_set(d->functions[i],
                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  (int)k->shared_bytes);
    }
    if (r == CUDA_SUCCESS &&
        k->cluster[0] * k->cluster[1] * k->cluster[2] > LAUNCH_PORTABLE_CLUSTER) {
        r = s->cuda->function_set(d->functions[i],
                                  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    }
    return r == CUDA_SUCCESS ? GXRT_OK : device_error(d, "cuModuleGetFunction", r, name);
}

/* The kernel as the image has it, where the driver takes it. */
static gxrt_status load_image(Device *d, uint32_t i)
{
    const gxrt_session *s = d->session;
    const PlanImage *m = &s->plan->images[i];
    const char *name = plan_text(s->plan, s->plan->kernels[m->kernel].name);
    CUfunction function = NULL;
    CUresult r = s->cuda->module_load(&d->images[i],
                                      (const char *)s->variant->images.bytes + m->offset);
    if (r == CUDA_SUCCESS) {
        r = s->cuda->module_function(&function, d->images[i], name);
    } else {
        d->images[i] = NULL;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        return device_error(d, "cuModuleLoadData", r, name);
    }
    if (r == CUDA_SUCCESS) {
        d->functions[m->kernel] = function;
        launch_use_image(d, m);
    }
    return GXRT_OK;
}

/* Drivers before CUDA 13 do not load what tileiras makes; one of 13.0 was seen to run it. */
static bool takes_images(const gxrt_session *s)
{
    enum { LEAST_DRIVER = 13000 };
    int driver = 0;
    return !s->cuda->emulated && s->cuda->driver_version(&driver) == CUDA_SUCCESS &&
           driver >= LEAST_DRIVER;
}

static gxrt_status load_kernels(Device *d)
{
    const gxrt_session *s = d->session;
    if (s->plan->kernels_count == 0) {
        return GXRT_OK;
    }
    gxrt_status st = s->cuda->emulated ? load_object(d) : load_cubin(d);
    for (uint32_t i = 0; i < s->plan->kernels_count && st == GXRT_OK; i++) {
        st = get_function(d, i);
    }
    uint32_t images = takes_images(s) ? s->plan->images_count : 0;
    for (uint32_t i = 0; i < images && st == GXRT_OK; i++) {
        st = load_image(d, i);
    }
    return st;
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
    st = load_kernels(d);
    st = st == GXRT_OK ? make_streams(d) : st;
    st = st == GXRT_OK ? memory_create(d) : st;
    st = st == GXRT_OK ? matmul_create(d) : st;
    st = st == GXRT_OK ? graphs_create(d) : st;
    st = st == GXRT_OK ? capture_create(d) : st;
    device_leave(d);
    return st;
}

void device_destroy(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    const Plan *p = d->session->plan;
    if (d->context) {
        bool current = cuda->context_push(d->context) == CUDA_SUCCESS;
        cuda->context_synchronize();
        capture_destroy(d);
        graphs_destroy(d);
        matmul_destroy(d);
        memory_destroy(d);
        if (d->flag) {
            cuda->host_free(d->flag);
        }
        destroy_events(cuda, d->signals, p->info->signal_count);
        destroy_events(cuda, d->async, 2 * (size_t)p->info->async_count);
        destroy_events(cuda, d->joins, p->streams_count);
        destroy_events(cuda, &d->fork, 1);
        for (uint32_t i = 1; i < p->streams_count; i++) {
            destroy_stream(d, i);
        }
        for (uint32_t i = 0; d->images && i < p->images_count; i++) {
            if (d->images[i]) {
                cuda->module_unload(d->images[i]);
            }
        }
        if (d->module) {
            cuda->module_unload(d->module);
        }
        if (current) {
            device_leave(d);
        }
        cuda->context_release(d->device);
    }
    free_tables(d);
}
