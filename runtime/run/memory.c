/* Device memory that a session owns: constants, temporary buffers, workspace. */
#include <stdlib.h>
#include <string.h>

#include "runtime/collective/collective.h"
#include "runtime/run/fork.h"
#include "runtime/run/session.h"

gxrt_status memory_take(Device *d, size_t bytes, size_t alignment, void **out)
{
    const gxrt_session *s = d->session;
    const gxrt_allocator *allocator = s->options.allocator;
    *out = NULL;
    if (allocator) {
        if (allocator->allocate(allocator->user, d->ordinal, bytes, alignment, out) !=
            0) {
            *out = NULL;
            return status_set(
                GXRT_OUT_OF_MEMORY,
                "gxrt_session_create: the caller's allocator has no %zu bytes "
                "on device %d",
                bytes, d->ordinal);
        }
        return GXRT_OK;
    }
    CUdeviceptr pointer = 0;
    CUresult r = s->cuda->mem_alloc(&pointer, bytes);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        size_t free_bytes = 0;
        size_t total = 0;
        s->cuda->mem_info(&free_bytes, &total);
        return status_set(
            GXRT_OUT_OF_MEMORY,
            "gxrt_session_create: device %d has no %zu bytes left (%zu of %zu "
            "are free)",
            d->ordinal, bytes, free_bytes, total);
    }
    if (r != CUDA_SUCCESS) {
        return device_error(d, "cuMemAlloc", r, "gxrt_session_create");
    }
    *out = (void *)(uintptr_t)pointer;
    return GXRT_OK;
}

/* Memory for collectives comes from their transport. */
static bool is_transport_memory(const Device *d, uint32_t colour)
{
    const gxrt_session *s = d->session;
    return colour == PLAN_COLLECTIVE_MEMORY && s->transport && !s->options.allocator;
}

static gxrt_status take_host(Device *d, size_t bytes, void **out)
{
    CUresult r = d->session->cuda->host_alloc(out, bytes, 0);
    if (r == CUDA_SUCCESS) {
        return GXRT_OK;
    }
    *out = NULL;
    return r == CUDA_ERROR_OUT_OF_MEMORY
               ? status_set(GXRT_OUT_OF_MEMORY,
                            "gxrt_session_create: the host has no %zu bytes to pin",
                            bytes)
               : device_error(d, "cuMemHostAlloc", r, "gxrt_session_create");
}

static gxrt_status take_coloured(Device *d, uint32_t colour, size_t bytes,
                                 size_t alignment, void **out)
{
    if (colour == PLAN_HOST_MEMORY) {
        return take_host(d, bytes, out); /* whole pages */
    }
    if (!is_transport_memory(d, colour)) {
        return memory_take(d, bytes, alignment, out);
    }
    const gxrt_session *s = d->session;
    TransportResult r = s->transport->allocate(s, bytes, out);
    if (r != TRANSPORT_DONE) {
        *out = NULL;
        return status_set(GXRT_OUT_OF_MEMORY,
                          "gxrt_session_create: %s has no %zu bytes on device %d: %s",
                          s->transport->calls.allocate, bytes, d->ordinal,
                          s->transport->error_text(s, r));
    }
    return GXRT_OK;
}

void memory_give_back(Device *d, void *pointer)
{
    const gxrt_session *s = d->session;
    if (!pointer) {
        return;
    }
    if (s->options.allocator) {
        s->options.allocator->release(s->options.allocator->user, d->ordinal, pointer);
    } else {
        s->cuda->mem_free((CUdeviceptr)(uintptr_t)pointer);
    }
}

/* Uploads .gxc.const from the mapping and waits, so that the file is needed no longer. */
static gxrt_status upload_constants(Device *d)
{
    const gxrt_session *s = d->session;
    const PlanInfo *info = s->plan->info;
    if (info->constant_bytes == 0) {
        return GXRT_OK;
    }
    gxrt_status st =
        memory_take(d, info->constant_bytes, PLAN_CONSTANT_ALIGNMENT, &d->constants);
    if (st != GXRT_OK) {
        return st;
    }
    CUresult r =
        s->cuda->copy_to_device((CUdeviceptr)(uintptr_t)d->constants,
                                s->program->constants.bytes, info->constant_bytes, NULL);
    if (r == CUDA_SUCCESS) {
        r = s->cuda->stream_synchronize(NULL);
    }
    return r == CUDA_SUCCESS
               ? GXRT_OK
               : device_error(d, "cuMemcpyHtoDAsync", r, "uploading constants");
}

/* What a program keeps from run to run begins as zeros. */
static gxrt_status clear_state(Device *d, CUdeviceptr at, uint64_t bytes)
{
    const CudaApi *cuda = d->session->cuda;
    CUresult r = cuda->set_8(at, 0, bytes, NULL);
    r = r == CUDA_SUCCESS ? cuda->stream_synchronize(NULL) : r;
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuMemsetD8Async", r, "clearing state");
}

static bool is_owned(const PlanAllocation *a)
{
    return (a->kind == PLAN_TEMP || a->kind == PLAN_WORKSPACE || a->kind == PLAN_STATE) &&
           a->bytes != 0;
}

gxrt_status memory_create(Device *d)
{
    const Plan *p = d->session->plan;
    gxrt_status st = upload_constants(d);
    for (uint32_t i = 0; i < p->allocations_count && st == GXRT_OK; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->kind == PLAN_CONSTANT) {
            d->base[i] = (CUdeviceptr)(uintptr_t)d->constants + a->offset;
        } else if (is_owned(a)) {
            size_t alignment = a->alignment > 256 ? a->alignment : 256;
            size_t more = d->session->options.allocator ? 0 : alignment - 256;
            st = take_coloured(d, a->colour, a->bytes + more, alignment, &d->owned[i]);
            CUdeviceptr at = (CUdeviceptr)(uintptr_t)d->owned[i];
            d->base[i] = (at + alignment - 1) & ~(CUdeviceptr)(alignment - 1);
            if (st == GXRT_OK && a->kind == PLAN_STATE) {
                st = clear_state(d, d->base[i], a->bytes);
            }
        }
    }
    return st;
}

void memory_destroy(Device *d)
{
    const Plan *p = d->session->plan;
    for (uint32_t i = 0; d->owned && i < p->allocations_count; i++) {
        uint32_t colour = p->allocations[i].colour;
        if (d->owned[i] && colour == PLAN_HOST_MEMORY) {
            d->session->cuda->host_free(d->owned[i]);
        } else if (!d->owned[i] || !is_transport_memory(d, colour)) {
            memory_give_back(d, d->owned[i]);
        } else {
            d->session->transport->release(d->session, d->owned[i]);
        }
    }
    memory_give_back(d, d->constants);
}

/* --- buffers for callers without CUDA ----------------------------------------------------- */

static Device *local_device(gxrt_session *session, size_t device, const char *function)
{
    if (!session || device >= session->device_count) {
        status_set(GXRT_INVALID_ARGUMENT, "%s: no session, or it has no device %zu",
                   function, device);
        return NULL;
    }
    return fork_check(session->generation, function) == GXRT_OK
               ? &session->devices[device]
               : NULL;
}

/* A copy that was refused. A device that still answers was only given a wrong address. */
static gxrt_status copy_error(Device *d, const char *call, CUresult r,
                              const char *function, const void *at, size_t bytes)
{
    const CudaApi *cuda = d->session->cuda;
    bool is_address = r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!is_address || cuda->stream_synchronize(NULL) != CUDA_SUCCESS) {
        return device_error(d, call, r, function);
    }
    return status_set(GXRT_INVALID_ARGUMENT,
                      "%s: %zu bytes at %p are no memory of device %u", function, bytes,
                      at, d->number);
}

gxrt_status gxrt_allocate(gxrt_session *session, size_t device, size_t bytes, void **out)
{
    if (!out) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_allocate: NULL result");
    }
    *out = NULL;
    Device *d = local_device(session, device, "gxrt_allocate");
    if (!d) {
        return GXRT_INVALID_ARGUMENT;
    }
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    CUdeviceptr pointer = 0;
    CUresult r = session->cuda->mem_alloc(&pointer, bytes ? bytes : 1);
    if (r != CUDA_SUCCESS) {
        st = device_error(d, "cuMemAlloc", r, "gxrt_allocate");
    }
    device_leave(d);
    *out = (void *)(uintptr_t)pointer;
    return st;
}

void gxrt_free(gxrt_session *session, size_t device, void *pointer)
{
    Device *d = pointer ? local_device(session, device, "gxrt_free") : NULL;
    if (d && device_enter(d) == GXRT_OK) {
        if (!d->is_late && session->options.max_seconds > 0) {
            wait_executions(d); /* giving back waits for the device, without a limit */
        }
        if (!wait_is_hopeless(d)) {
            session->cuda->mem_free((CUdeviceptr)(uintptr_t)pointer);
        }
        device_leave(d);
    }
}

gxrt_status gxrt_copy_to_device(gxrt_session *session, size_t device, void *to,
                                const void *from, size_t bytes)
{
    Device *d = local_device(session, device, "gxrt_copy_to_device");
    if (!d) {
        return GXRT_INVALID_ARGUMENT;
    }
    if (bytes && (!to || !from)) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_copy_to_device: NULL memory");
    }
    gxrt_status st = bytes ? device_enter(d) : GXRT_OK;
    if (st != GXRT_OK || !bytes) {
        return st;
    }
    const CudaApi *cuda = session->cuda;
    CUresult r = wait_executions(d);
    r = r == CUDA_SUCCESS
            ? cuda->copy_to_device((CUdeviceptr)(uintptr_t)to, from, bytes, NULL)
            : r;
    r = r == CUDA_SUCCESS ? cuda->stream_synchronize(NULL) : r;
    if (r != CUDA_SUCCESS) {
        st = copy_error(d, "cuMemcpyHtoDAsync", r, "gxrt_copy_to_device", to, bytes);
    }
    device_leave(d);
    return st;
}

gxrt_status gxrt_copy_to_host(gxrt_session *session, size_t device, void *to,
                              const void *from, size_t bytes)
{
    Device *d = local_device(session, device, "gxrt_copy_to_host");
    if (!d) {
        return GXRT_INVALID_ARGUMENT;
    }
    if (bytes && (!to || !from)) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_copy_to_host: NULL memory");
    }
    gxrt_status st = bytes ? device_enter(d) : GXRT_OK;
    if (st != GXRT_OK || !bytes) {
        return st;
    }
    const CudaApi *cuda = session->cuda;
    CUresult r = wait_executions(d);
    r = r == CUDA_SUCCESS
            ? cuda->copy_to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, NULL)
            : r;
    r = r == CUDA_SUCCESS ? cuda->stream_synchronize(NULL) : r;
    st = watchdog_verdict(session);
    if (st == GXRT_OK && r != CUDA_SUCCESS) {
        st = copy_error(d, "cuMemcpyDtoHAsync", r, "gxrt_copy_to_host", from, bytes);
    }
    st = st == GXRT_OK ? session_verdict(session, "gxrt_copy_to_host") : st;
    device_leave(d);
    return st;
}

gxrt_status gxrt_synchronize(gxrt_session *session, size_t device)
{
    Device *d = local_device(session, device, "gxrt_synchronize");
    if (!d) {
        return GXRT_INVALID_ARGUMENT;
    }
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    CUresult r = wait_context(d);
    st = watchdog_verdict(session);
    if (st == GXRT_OK && r != CUDA_SUCCESS) {
        st = device_error(d, "cuCtxSynchronize", r, "gxrt_synchronize");
    }
    st = st == GXRT_OK ? session_verdict(session, "gxrt_synchronize") : st;
    device_leave(d);
    return st;
}
