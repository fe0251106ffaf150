/* Memory of the driver: allocations, copies, fills. Copies carry the written state along; a
 * copy to the host of bytes that nobody wrote is a finding. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/context.h"
#include "runtime/emu/queue.h"

static CUresult memory_create(int device, size_t bytes, uint64_t *out)
{
    const EmuConfig *c = emu_config();
    if (bytes == 0)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    bool is_host = device == ALLOCATION_HOST;
    uint64_t used = is_host ? 0 : allocation_used(device);
    if (!is_host && (used > c->memory || bytes > c->memory - used))
        return emu_refuse(CUDA_ERROR_OUT_OF_MEMORY,
                          "%zu bytes do not fit: device %d has %" PRIu64
                          " bytes, %" PRIu64 " of them in use (GXEMU_MEMORY)",
                          bytes, device, c->memory, used);
    Allocation *a =
        allocation_create(device, bytes, c->shadow && !is_host, c->race && !is_host);
    if (a == NULL)
        return emu_refuse(CUDA_ERROR_OUT_OF_MEMORY, "this machine has no %zu bytes left",
                          bytes);
    *out = a->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    CUcontext c;
    uint64_t base;
    CUresult r = emu_enter("cuMemAlloc_v2", &c);
    if (r != CUDA_SUCCESS || out == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    r = memory_create(c->device, bytes, &base);
    if (r == CUDA_SUCCESS)
        *out = base;
    return r;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CUcontext c;
    uint64_t base;
    (void)flags; /* portable, mapped and write-combined are all the same here */
    CUresult r = emu_enter("cuMemHostAlloc", &c);
    if (r != CUDA_SUCCESS || out == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    r = memory_create(ALLOCATION_HOST, bytes, &base);
    if (r == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)base;
    return r;
}

/* Freeing waits for the device, and works in a failed context, too. */
static CUresult memory_destroy(const char *function, uint64_t base, bool is_host)
{
    CUcontext c = NULL;
    Finding finding = {0};
    CUresult r = emu_enter(function, &c);
    if (c == NULL || base == 0)
        return r;
    queue_synchronize_all(c);
    if (!allocation_free(base, is_host ? ALLOCATION_HOST : c->device, &finding))
        return emu_refuse_finding(&finding);
    return r;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return memory_destroy("cuMemFree_v2", pointer, false);
}

CUresult cuMemFreeHost(void *pointer)
{
    return memory_destroy("cuMemFreeHost", (uintptr_t)pointer, true);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUcontext c;
    CUresult r = emu_enter("cuMemGetInfo_v2", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (free_bytes == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t memory = emu_config()->memory, used = allocation_used(c->device);
    *total = memory;
    *free_bytes = used < memory ? memory - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
    CUresult r = emu_enter("cuPointerGetAttribute", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (data == NULL || attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "the emulator does not know pointer attribute %d", attribute);
    Finding finding = {0};
    Allocation *a = allocation_find(pointer, 1, "the pointer", &finding);
    if (a == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s", finding.text);
    int device = a->device == ALLOCATION_HOST ? 0 : a->device;
    memcpy(data, &device, sizeof device);
    return CUDA_SUCCESS;
}

/* A copy between two of: device memory (with an allocation) and host memory (without). */
typedef struct Copy {
    Operation operation;
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
    Allocation *to_allocation, *from_allocation;
    unsigned char staged[]; /* the bytes, if they were taken at once */
} Copy;

static uint64_t offset_in(const Allocation *a, const unsigned char *p)
{
    return (uintptr_t)p - a->base;
}

static bool copy_run(Operation *op, Finding *out)
{
    Copy *c = (Copy *)(void *)op;
    Allocation *to = c->to_allocation, *from = c->from_allocation;
    memmove(c->to, c->from, c->bytes);
    if (to != NULL && from != NULL) {
        shadow_copy(&to->shadow, offset_in(to, c->to), &from->shadow,
                    offset_in(from, c->from), c->bytes);
    } else if (to != NULL) {
        shadow_set_written(&to->shadow, offset_in(to, c->to), c->bytes, true);
    } else {
        uint64_t first;
        uint64_t offset = offset_in(from, c->from);
        if (!shadow_is_written(&from->shadow, offset, c->bytes, &first)) {
            finding_set(
                out, FINDING_UNINITIALISED,
                "uninitialised: a copy of %zu bytes to the host reads byte %" PRIu64
                " (address 0x%" PRIx64 "), which nobody wrote",
                c->bytes, first - offset, from->base + first);
            return false;
        }
    }
    return true;
}

static bool copy_bind(Operation *op, Finding *out)
{
    Copy *c = (Copy *)(void *)op;
    bool has_to = c->to_allocation != NULL, has_from = c->from_allocation != NULL;
    if (has_to)
        c->to_allocation =
            allocation_find((uintptr_t)c->to, c->bytes, "target of a copy", out);
    if (has_from && out->kind == FINDING_NONE)
        c->from_allocation =
            allocation_find((uintptr_t)c->from, c->bytes, "source of a copy", out);
    return out->kind == FINDING_NONE;
}

/* Only what copies on the device and to or from pinned memory are: one row of bytes. */
static CUresult copy_again(const Operation *old, const CUgraphNodeParams *p,
                           Operation **out)
{
    const CUDA_MEMCPY3D *m = &p->memcpy.copyParams;
    const Copy *before = (const Copy *)(const void *)old;
    Finding finding = {0};
    if (p->type != CU_GRAPH_NODE_TYPE_MEMCPY || m->Height != 1 || m->Depth != 1 ||
        m->WidthInBytes == 0 || before->to_allocation == NULL ||
        before->from_allocation == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "a node of a graph becomes another kind of operation");
    Copy *c = malloc(sizeof *c);
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = *before;
    c->operation.next = NULL;
    c->to = (unsigned char *)(uintptr_t)m->dstDevice;
    c->from = (const unsigned char *)(uintptr_t)m->srcDevice;
    c->bytes = m->WidthInBytes;
    if (!copy_bind(&c->operation, &finding)) {
        free(c);
        return emu_refuse_finding(&finding);
    }
    *out = &c->operation;
    return CUDA_SUCCESS;
}

static CUresult copy_submit(CUcontext context, Copy model, bool take_now, CUstream stream)
{
    size_t staged = take_now ? model.bytes : 0;
    Copy *c = malloc(sizeof *c + staged);
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = model;
    c->operation = (Operation){.run = copy_run, .bind = copy_bind, .again = copy_again};
    if (take_now) {
        memcpy(c->staged, model.from, staged);
        c->from = c->staged;
    }
    return queue_submit(context, stream, &c->operation);
}

static bool is_pinned(const void *p)
{
    Allocation *a = allocation_at((uintptr_t)p);
    return a != NULL && a->device == ALLOCATION_HOST;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream)
{
    CUcontext c;
    Finding finding = {0};
    CUresult r = emu_enter("cuMemcpyHtoDAsync_v2", &c);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    Allocation *a = allocation_find(to, bytes, "copy to the device", &finding);
    if (a == NULL || from == NULL)
        return emu_refuse_finding(&finding);
    Copy copy = {.to = (unsigned char *)(uintptr_t)to,
                 .from = from,
                 .bytes = bytes,
                 .to_allocation = a};
    /* What is not pinned may change as soon as the call returns. */
    bool is_lazy = emu_config()->schedule == SCHEDULE_LAZY, pinned = is_pinned(from);
    r = copy_submit(c, copy, is_lazy && !pinned, stream);
    if (r == CUDA_SUCCESS && !is_lazy && !pinned)
        r = queue_synchronize(c, stream);
    return r;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUcontext c;
    Finding finding = {0};
    CUresult r = emu_enter("cuMemcpyDtoHAsync_v2", &c);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    Allocation *a = allocation_find(from, bytes, "copy to the host", &finding);
    if (a == NULL || to == NULL)
        return emu_refuse_finding(&finding);
    Copy copy = {.to = to,
                 .from = (const unsigned char *)(uintptr_t)from,
                 .bytes = bytes,
                 .from_allocation = a};
    r = copy_submit(c, copy, false, stream);
    if (r == CUDA_SUCCESS && !is_pinned(to))
        r = queue_synchronize(c, stream);
    return r;
}

/* Between memories of devices, and pinned ones of the host. */
static CUresult copy_known(const char *function, CUdeviceptr to, CUdeviceptr from,
                           size_t bytes, CUstream stream)
{
    CUcontext c;
    Finding finding = {0};
    CUresult r = emu_enter(function, &c);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    Allocation *a = allocation_find(to, bytes, "target of a copy", &finding);
    Allocation *b =
        a == NULL ? NULL : allocation_find(from, bytes, "source of a copy", &finding);
    if (b == NULL)
        return emu_refuse_finding(&finding);
    Copy copy = {.to = (unsigned char *)(uintptr_t)to,
                 .from = (const unsigned char *)(uintptr_t)from,
                 .bytes = bytes,
                 .to_allocation = a,
                 .from_allocation = b};
    return copy_submit(c, copy, false, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream)
{
    return copy_known("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_known("cuMemcpyAsync", to, from, bytes, stream);
}

typedef struct Fill {
    Operation operation;
    Allocation *allocation;
    unsigned char *to;
    size_t count;
    unsigned
        width; /* bytes of an element; 0: mark as written (value 1) or never written */
    uint32_t value;
} Fill;

static bool fill_run(Operation *op, Finding *out)
{
    (void)out;
    Fill *f = (Fill *)(void *)op;
    uint64_t offset = offset_in(f->allocation, f->to);
    if (f->width == 0) {
        if (f->value == 0)
            memset(f->to, 0xff, f->count);
        shadow_set_written(&f->allocation->shadow, offset, f->count, f->value != 0);
        return true;
    }
    for (size_t i = 0; f->width > 1 && i < f->count; i++)
        memcpy(f->to + i * f->width, &f->value, f->width); /* the low bytes come first */
    if (f->width == 1)
        memset(f->to, (int)f->value, f->count);
    shadow_set_written(&f->allocation->shadow, offset, f->count * f->width, true);
    return true;
}

static bool fill_bind(Operation *op, Finding *out)
{
    Fill *f = (Fill *)(void *)op;
    size_t bytes = f->width == 0 ? f->count : f->count * f->width;
    f->allocation = allocation_find((uintptr_t)f->to, bytes, "a fill", out);
    return f->allocation != NULL;
}

static CUresult fill_again(const Operation *old, const CUgraphNodeParams *p,
                           Operation **out)
{
    const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;
    Finding finding = {0};
    bool fits = p->type == CU_GRAPH_NODE_TYPE_MEMSET && m->height == 1 && m->width != 0 &&
                (m->elementSize == 1 || m->elementSize == 2 || m->elementSize == 4) &&
                m->width <= SIZE_MAX / m->elementSize && m->dst % m->elementSize == 0;
    if (!fits)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "a node of a graph becomes another kind of operation");
    Fill *f = malloc(sizeof *f);
    if (f == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *f = *(const Fill *)(const void *)old;
    f->operation.next = NULL;
    f->to = (unsigned char *)(uintptr_t)m->dst;
    f->count = m->width;
    f->width = m->elementSize;
    f->value = m->value;
    if (!fill_bind(&f->operation, &finding)) {
        free(f);
        return emu_refuse_finding(&finding);
    }
    *out = &f->operation;
    return CUDA_SUCCESS;
}

static CUresult fill_submit(const char *function, CUdeviceptr to, uint32_t value,
                            unsigned width, size_t count, CUstream stream)
{
    CUcontext c;
    Finding finding = {0};
    CUresult r = emu_enter(function, &c);
    if (r != CUDA_SUCCESS || count == 0)
        return r;
    if (width != 0 && (count > SIZE_MAX / width || to % width != 0))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s: 0x%llx is not aligned", function,
                          to);
    size_t bytes = width == 0 ? count : count * width;
    Allocation *a = allocation_find(to, bytes, "a fill", &finding);
    if (a == NULL)
        return emu_refuse_finding(&finding);
    Fill *f = calloc(1, sizeof *f);
    if (f == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (Fill){.operation = {.run = fill_run, .bind = fill_bind, .again = fill_again},
                .allocation = a,
                .to = (unsigned char *)(uintptr_t)to,
                .count = count,
                .width = width,
                .value = value};
    return queue_submit(c, stream, &f->operation);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream)
{
    return fill_submit("cuMemsetD8Async", to, value, 1, count, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                          CUstream stream)
{
    return fill_submit("cuMemsetD16Async", to, value, 2, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    return fill_submit("cuMemsetD32Async", to, value, 4, count, stream);
}

CUresult gxemuMemUndefine(CUdeviceptr pointer, size_t bytes, CUstream stream)
{
    return fill_submit("gxemuMemUndefine", pointer, 0, 0, bytes, stream);
}

CUresult gxemuMemDefine(CUdeviceptr pointer, size_t bytes, CUstream stream)
{
    return fill_submit("gxemuMemDefine", pointer, 1, 0, bytes, stream);
}
