/* The functions of cudnn.def. A descriptor is a list of the attributes that were set; a table says
 * which each kind takes, of which type. Finalizing an operation graph makes a program of it
 * (dnn.h), executing a plan queues that on the handle's stream. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/config.h"
#include "runtime/emu/context.h"
#include "runtime/emu/dnn_descriptor.h"
#include "runtime/emu/queue.h"
#include "runtime/emu/steps.h"

#pragma GCC visibility push(default)
#define CUDNN_FUNCTION(name, symbol, parameters) cudnnStatus_t symbol parameters;
#define CUDNN_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#define CUDNN_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#define CUDNN_VOID_FUNCTION(name, symbol, parameters) void symbol parameters;
#include "runtime/library/cudnn.def"
#pragma GCC visibility pop

struct cudnnContext {
    CUcontext context;
    CUstream stream;
};

static _Thread_local char last_error[FINDING_TEXT_BYTES];

cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    emu_refuse(CUDA_ERROR_INVALID_VALUE, "cuDNN: %s", text);
    return status;
}

size_t cudnnGetVersion(void)
{
    return (size_t)emu_config()->cudnn_version;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    static char other[40];
    switch (status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        snprintf(other, sizeof other, "cudnnStatus_t %d", status);
        return other;
    }
}

void cudnnGetLastErrorString(char *text, size_t bytes)
{
    if (text != NULL && bytes > 0)
        snprintf(text, bytes, "%s", last_error);
    last_error[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    CUcontext c;
    if (emu_enter("cudnnCreate", &c) != CUDA_SUCCESS)
        return CUDNN_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    (*out)->context = c;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream)
{
    if (handle == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is NULL");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *out)
{
    if (out == NULL)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the result is NULL");
    *out = dnn_descriptor_create(type);
    return *out != NULL ? CUDNN_STATUS_SUCCESS
                        : dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                                     "the emulator has no descriptors of this type");
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    dnn_descriptor_destroy(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int attribute,
                                       int type, int64_t count, const void *elements)
{
    return dnn_descriptor_set(descriptor, attribute, type, count, elements);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       int attribute, int type, int64_t requested,
                                       int64_t *count, void *elements)
{
    return dnn_descriptor_get(descriptor, attribute, type, requested, count, elements);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    return dnn_descriptor_finalize(descriptor);
}

/* -- execution ------------------------------------------------------------------------------ */

typedef struct DnnOperation {
    Operation operation;
    DnnProgram program;
    DnnRun run;
    double scalars[DNN_TENSORS]; /* 8 bytes each: as the tensor's type has them */
    unsigned char *workspace;
    uint64_t workspace_bytes; /* that the plan wants */
} DnnOperation;

/* Bytes of lines along the last dimension, which lie side by side where its stride is 1. */
static bool range_check(const DnnTensor *t, const unsigned char *p, bool is_read,
                        Finding *out)
{
    char text[80];
    uint64_t bytes = dnn_bytes(t);
    snprintf(text, sizeof text, "cudnnBackendExecute, tensor %" PRId64, t->id);
    Allocation *a = allocation_find((uintptr_t)p, bytes, text, out);
    uint32_t element = dtype_info[t->type].storage;
    uint32_t alignment = t->alignment > element ? t->alignment : element;
    if (a == NULL || !allocation_is_aligned((uintptr_t)p, alignment, text, out))
        return false;
    if (bytes != (uint64_t)dnn_elements(t) * dtype_info[t->type].bits / 8)
        return true;
    if (is_read)
        return allocation_is_written(a, (uintptr_t)p, bytes, text, out);
    shadow_set_written(&a->shadow, (uintptr_t)p - a->base, bytes, true);
    return true;
}

/* What a plan needs it also overwrites. */
static bool workspace_check(unsigned char *p, uint64_t bytes, Finding *out)
{
    if (bytes == 0)
        return true;
    Allocation *a =
        allocation_find((uintptr_t)p, bytes, "cudnnBackendExecute, workspace", out);
    if (a == NULL)
        return false;
    memset(p, 0xff, (size_t)bytes);
    return true;
}

static uint64_t elements_made(const DnnProgram *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->tensor_count; i++)
        sum += p->tensors[i].is_written ? (uint64_t)dnn_elements(&p->tensors[i]) : 0;
    return sum;
}

static bool operation_run(Operation *operation, Finding *out)
{
    DnnOperation *op = (DnnOperation *)(void *)operation;
    const DnnProgram *p = &op->program;
    op->run.program = p;
    if (!workspace_check(op->workspace, op->workspace_bytes, out))
        return false;
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const DnnTensor *t = &p->tensors[i];
        if (t->is_scalar)
            op->run.data[i] = (unsigned char *)&op->scalars[i];
        else if (!t->is_virtual && !range_check(t, op->run.data[i], !t->is_written, out))
            return false;
    }
    if (!steps_take(elements_made(p), "cudnnBackendExecute", out))
        return false;
    if (!dnn_compute(&op->run))
        finding_set(out, FINDING_MEMORY, "cudnnBackendExecute: no memory");
    return out->kind == FINDING_NONE;
}

/* The address of each tensor that has one, by the ids of the pack. */
static cudnnStatus_t bind(DnnOperation *op, const DnnDescriptor *pack)
{
    const DnnAttribute *ids = dnn_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const DnnAttribute *data = dnn_attribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    memcpy(&op->workspace, dnn_attribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->data,
           sizeof op->workspace);
    for (uint32_t i = 0; i < op->program.tensor_count; i++) {
        const DnnTensor *t = &op->program.tensors[i];
        unsigned char *address = NULL;
        for (int64_t k = 0; k < ids->count && !t->is_virtual; k++) {
            int64_t id;
            memcpy(&id, ids->data + k * (int64_t)sizeof id, sizeof id);
            if (id == t->id)
                memcpy(&address, data->data + k * (int64_t)sizeof address,
                       sizeof address);
        }
        if (address == NULL && !t->is_virtual)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM,
                              "a tensor of the graph has no address in the pack");
        if (t->is_scalar)
            memcpy(&op->scalars[i], address, dtype_info[t->type].storage);
        op->run.data[i] = address;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    CUcontext context;
    if (emu_enter("cudnnBackendExecute", &context) != CUDA_SUCCESS)
        return CUDNN_STATUS_EXECUTION_FAILED;
    const DnnDescriptor *p = plan, *v = pack;
    if (handle == NULL || p == NULL || v == NULL ||
        p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !p->is_final ||
        v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !v->is_final)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                          "a handle, a finalized plan and a finalized pack are needed");
    if (handle->context != context)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM,
                          "the handle is of another context than the current one");
    DnnOperation *op = calloc(1, sizeof *op);
    if (op == NULL)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    op->program = *p->program;
    op->workspace_bytes = dnn_workspace_bytes(p);
    op->operation.run = operation_run;
    cudnnStatus_t status = bind(op, v);
    if (status != CUDNN_STATUS_SUCCESS) {
        free(op);
        return status;
    }
    return queue_submit(context, handle->stream, &op->operation) == CUDA_SUCCESS
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}
