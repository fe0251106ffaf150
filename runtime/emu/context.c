/* See context.h. */
#include "runtime/emu/context.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/queue.h"

enum { STACK_MOST = 32 };

pthread_mutex_t emu_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t emu_changed = PTHREAD_COND_INITIALIZER;

static struct CUctx_st contexts[CONFIG_MOST_DEVICES];
/* Held while a context comes to life or dies: another session must not get one that is being
 * emptied. Taken before emu_lock. */
static pthread_mutex_t lifetime = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_initialised; /* read by every call, without the lock */
static int devices_set;            /* by gxemuSetDeviceCount; 0: not */

static _Thread_local CUcontext stack[STACK_MOST];
static _Thread_local int stack_size;
static _Thread_local char reason[2000];

int device_count(void)
{
    return devices_set != 0 ? devices_set : emu_config()->devices;
}

CUcontext device_context(int device)
{
    return device >= 0 && device < device_count() ? &contexts[device] : NULL;
}

CUcontext context_current(void)
{
    return stack_size > 0 ? stack[stack_size - 1] : NULL;
}

CUresult emu_refuse(CUresult error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return error;
}

static CUresult finding_result(FindingKind kind)
{
    switch (kind) {
    case FINDING_NONE:
        return CUDA_SUCCESS;
    case FINDING_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FINDING_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case FINDING_LIMIT:
        return CUDA_ERROR_LAUNCH_FAILED;
    case FINDING_INVALID:
        return CUDA_ERROR_INVALID_VALUE;
    case FINDING_UNINITIALISED:
    case FINDING_RACE:
    case FINDING_DEADLOCK:
    case FINDING_SYNC:
        return CUDA_ERROR_ASSERT;
    }
    return CUDA_ERROR_UNKNOWN;
}

CUresult emu_refuse_finding(const Finding *f)
{
    return emu_refuse(finding_result(f->kind), "%s", f->text);
}

void context_fail(CUcontext context, const Finding *f)
{
    pthread_mutex_lock(&emu_lock);
    if (context->failed == CUDA_SUCCESS) {
        context->failed = finding_result(f->kind);
        context->last = *f;
    }
    pthread_mutex_unlock(&emu_lock);
}

/* Is this the call that GXEMU_FAIL_CALL names? */
static bool call_fails(const char *function)
{
    EmuConfig *c = emu_config();
    if (atomic_load(&c->fail_call) <= 0 ||
        (c->fail_name[0] != '\0' && strcmp(c->fail_name, function) != 0))
        return false;
    return atomic_fetch_sub(&c->fail_call, 1) == 1;
}

/* NULL: none is live. *failed: what it has failed with. */
static CUcontext live_context(CUresult *failed)
{
    CUcontext context = context_current();
    pthread_mutex_lock(&emu_lock);
    bool is_live = context != NULL && context->retained != 0;
    *failed = is_live ? context->failed : CUDA_SUCCESS;
    pthread_mutex_unlock(&emu_lock);
    return is_live ? context : NULL;
}

CUresult emu_enter(const char *function, CUcontext *out_context)
{
    CUresult failed = CUDA_SUCCESS;
    reason[0] = '\0';
    if (out_context != NULL)
        *out_context = live_context(&failed);
    if (call_fails(function))
        return emu_refuse(strcmp(function, "cuMemAlloc_v2") == 0
                              ? CUDA_ERROR_OUT_OF_MEMORY
                              : CUDA_ERROR_UNKNOWN,
                          "%s fails because GXEMU_FAIL_CALL says so", function);
    if (!is_initialised && strcmp(function, "cuInit") != 0)
        return emu_refuse(CUDA_ERROR_NOT_INITIALIZED, "%s is called before cuInit",
                          function);
    if (out_context != NULL && *out_context == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_CONTEXT,
                          "%s is called without a current context", function);
    return failed;
}

CUresult cuInit(unsigned flags)
{
    CUresult r = emu_enter("cuInit", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags != 0)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags");
    if (emu_config()->problem[0] != '\0')
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s", emu_config()->problem);
    pthread_mutex_lock(&emu_lock);
    if (!is_initialised) {
        for (int i = 0; i < CONFIG_MOST_DEVICES; i++) {
            contexts[i].device = i;
            pthread_mutex_init(&contexts[i].launching, NULL);
        }
        is_initialised = true;
    }
    pthread_mutex_unlock(&emu_lock);
    return CUDA_SUCCESS;
}

CUresult gxemuSetDeviceCount(int count, int force)
{
    if (count < 1 || count > CONFIG_MOST_DEVICES)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "an emulator has 1 to %d devices, not %d", CONFIG_MOST_DEVICES,
                          count);
    pthread_mutex_lock(&emu_lock);
    if (force != 0 || (!emu_config()->devices_given && count > device_count()))
        devices_set = count;
    pthread_mutex_unlock(&emu_lock);
    return CUDA_SUCCESS;
}

CUresult gxemuFailCall(long number)
{
    atomic_store(&emu_config()->fail_call, number);
    return CUDA_SUCCESS;
}

CUresult gxemuGetLastError(char *text, size_t text_bytes)
{
    if (text == NULL || text_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = context_current();
    pthread_mutex_lock(&emu_lock);
    bool failed = context != NULL && context->failed != CUDA_SUCCESS;
    snprintf(text, text_bytes, "%s", failed ? context->last.text : reason);
    pthread_mutex_unlock(&emu_lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult r = emu_enter("cuDevicePrimaryCtxRetain", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    CUcontext context = device_context(device);
    if (out == NULL || context == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lifetime);
    pthread_mutex_lock(&emu_lock);
    context->retained++;
    pthread_mutex_unlock(&emu_lock);
    pthread_mutex_unlock(&lifetime);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult r = emu_enter("cuDevicePrimaryCtxRelease_v2", NULL);
    CUcontext context = device_context(device);
    if (context == NULL)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lifetime);
    pthread_mutex_lock(&emu_lock);
    bool was_live = context->retained != 0;
    bool last = was_live && --context->retained == 0;
    pthread_mutex_unlock(&emu_lock);
    if (last) {
        queue_destroy_all(context);
        allocation_free_all(context->device);
        pthread_mutex_lock(&emu_lock);
        context->failed = CUDA_SUCCESS;
        context->last = (Finding){0};
        pthread_mutex_unlock(&emu_lock);
    }
    pthread_mutex_unlock(&lifetime);
    return r == CUDA_SUCCESS && !was_live ? CUDA_ERROR_INVALID_DEVICE : r;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult r = emu_enter("cuCtxPushCurrent_v2", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&emu_lock);
    bool is_live = context != NULL && context->retained != 0;
    pthread_mutex_unlock(&emu_lock);
    if (!is_live)
        return emu_refuse(CUDA_ERROR_INVALID_CONTEXT,
                          "the pushed context does not exist");
    if (stack_size == STACK_MOST)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "more than %d contexts are pushed",
                          STACK_MOST);
    stack[stack_size++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CUresult r = emu_enter("cuCtxPopCurrent_v2", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (stack_size == 0)
        return emu_refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is pushed");
    stack_size--;
    if (out != NULL)
        *out = stack[stack_size];
    return CUDA_SUCCESS;
}
