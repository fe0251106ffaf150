/* See fake_driver.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/fake_driver.h"

int fake_calls, fake_fail_at, fake_failures, fake_live, fake_records, fake_relaxed,
    fake_endless;
int fake_device_records[FAKE_DEVICES], fake_stops[FAKE_DEVICES];
void (*fake_on_record)(void), (*fake_on_synchronize)(void);
void (*fake_on_wait)(CUstream, CUstream);
uint32_t fake_grid, fake_block;
int fake_sm = 90, fake_driver = 13000, fake_other_sm, fake_shared = 232448;
char fake_log[4096];
_Thread_local int fake_current = -1;

static bool fails(void)
{
    bool now = __atomic_add_fetch(&fake_calls, 1, __ATOMIC_SEQ_CST) == fake_fail_at;
    if (now)
        __atomic_add_fetch(&fake_failures, 1, __ATOMIC_SEQ_CST);
    return now;
}

/* A kernel runs, and never ends. */
static bool is_endless(void)
{
    return __atomic_load_n(&fake_endless, __ATOMIC_SEQ_CST) > 1;
}

static pthread_mutex_t note_mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *format, ...)
{
    pthread_mutex_lock(&note_mutex);
    size_t at = strlen(fake_log);
    va_list args;
    va_start(args, format);
    vsnprintf(fake_log + at, sizeof fake_log - at, format, args);
    va_end(args);
    pthread_mutex_unlock(&note_mutex);
}

/* What the driver would answer with CUDA_ERROR_INVALID_CONTEXT. */
static void need_context(void)
{
    assert_int_not_equal(fake_current, -1);
}

static void count_live(int change)
{
    __atomic_add_fetch(&fake_live, change, __ATOMIC_SEQ_CST);
}

static CUresult fake_init(unsigned flags)
{
    (void)flags;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_driver_version(int *version)
{
    *version = fake_driver;
    return CUDA_SUCCESS;
}

static CUresult fake_text(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_UNKNOWN ? "the fake failure" : "some error";
    return CUDA_SUCCESS;
}

static CUresult fake_device_count(int *count)
{
    *count = FAKE_DEVICES;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_name(char *name, int length, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_device_attribute(int *value, int attribute, CUdevice device)
{
    int sm = device == 1 && fake_other_sm ? fake_other_sm : fake_sm;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? sm / 10
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? sm % 10
                                                                         : fake_shared;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_context_retain(CUcontext *context, CUdevice device)
{
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    *context = (CUcontext)(uintptr_t)(device + 1);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_context_release(CUdevice device)
{
    (void)device;
    count_live(-1);
    return CUDA_SUCCESS;
}

static CUresult fake_context_push(CUcontext context)
{
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    assert_int_equal(fake_current, -1);
    fake_current = (int)(uintptr_t)context - 1;
    return CUDA_SUCCESS;
}

static CUresult fake_context_pop(CUcontext *context)
{
    *context = NULL;
    fake_current = -1;
    return CUDA_SUCCESS;
}

static CUresult fake_synchronize(void)
{
    need_context();
    assert_false(is_endless());
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_priorities(int *least, int *greatest)
{
    need_context();
    *least = 0;
    *greatest = -5;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Each knows its device; an event, what was recorded last. */
typedef struct Object {
    int device;
    int record; /* the number of the record among those of the device, from 1 */
    CUstream stream;
} Object;

static CUresult fake_object(void **out)
{
    need_context();
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    Object *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->device = fake_current;
    *out = object;
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_forget(void *object)
{
    need_context();
    free(object);
    count_live(-1);
    return CUDA_SUCCESS;
}

static CUresult fake_module_load(CUmodule *module, const void *image)
{
    bool is_bytecode = memcmp(image, PLAN_TILEIR_MAGIC, sizeof PLAN_TILEIR_MAGIC) == 0;
    if (!is_bytecode) {
        assert_memory_equal((const char *)image + 1, "ELF", 3);
        assert_int_equal(((const unsigned char *)image)[60],
                         2); /* sections of the original */
    }
    void *object = NULL;
    CUresult r = fake_object(&object);
    *module = object;
    return r;
}

/* Its compiler takes text that says nothing of "wrong". */
static CUresult fake_module_compile(CUmodule *module, const void *image, unsigned count,
                                    CUjit_option *options, void **values)
{
    assert_memory_equal(image, ".version", 8);
    assert_int_equal(count, 2);
    assert_int_equal(options[0], CU_JIT_ERROR_LOG_BUFFER);
    assert_int_equal(options[1], CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    if (strstr(image, "wrong") != NULL) {
        snprintf(values[0], (size_t)(uintptr_t)values[1],
                 "ptxas: line 2: no such word\n");
        return CUDA_ERROR_INVALID_PTX;
    }
    void *object = NULL;
    CUresult r = fake_object(&object);
    *module = object;
    return r;
}

static CUresult fake_module_unload(CUmodule module)
{
    return fake_forget(module);
}

static CUresult fake_function_set(CUfunction function, int attribute, int value)
{
    need_context();
    assert_non_null(function);
    assert_true(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    assert_true(value > 0);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
        value > fake_shared)
        return CUDA_ERROR_INVALID_VALUE;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_mem_alloc(CUdeviceptr *out, size_t bytes)
{
    need_context();
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* a header that tells the device, and alignment to 256 */
    char *p = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
    *(int *)(void *)p = fake_current;
    *out = (CUdeviceptr)(uintptr_t)(p + 256);
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_mem_free(CUdeviceptr pointer)
{
    return fake_forget((void *)(uintptr_t)(pointer - 256));
}

static CUresult fake_mem_info(size_t *free_bytes, size_t *total)
{
    need_context();
    *free_bytes = 5;
    *total = 10;
    return CUDA_SUCCESS;
}

char fake_host_variable;

static CUresult fake_pointer_attribute(void *data, int attribute, CUdeviceptr pointer)
{
    (void)attribute;
    if (pointer == ((uintptr_t)&fake_host_variable & ~(uintptr_t)255))
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)data = *(int *)(uintptr_t)(pointer - 256);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_host_alloc(void **out, size_t bytes, unsigned flags)
{
    need_context();
    (void)flags;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = malloc(bytes);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    count_live(1);
    return CUDA_SUCCESS;
}

static CUresult fake_copy_to_device(CUdeviceptr to, const void *from, size_t bytes,
                                    CUstream stream)
{
    need_context();
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_copy_to_host(void *to, CUdeviceptr from, size_t bytes,
                                  CUstream stream)
{
    need_context();
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                    CUstream stream)
{
    need_context();
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_8(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    need_context();
    (void)stream;
    memset((void *)(uintptr_t)to, value, n);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_16(CUdeviceptr to, unsigned short value, size_t n,
                            CUstream stream)
{
    need_context();
    (void)stream;
    for (size_t i = 0; i < n; i++)
        ((unsigned short *)(uintptr_t)to)[i] = value;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_set_32(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
    need_context();
    (void)stream;
    for (size_t i = 0; i < n; i++)
        ((unsigned *)(uintptr_t)to)[i] = value;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_create(CUstream *out, unsigned flags, int priority)
{
    assert_true(flags == CU_STREAM_NON_BLOCKING && priority <= 0 && priority >= -5);
    void *object = NULL;
    CUresult r = fake_object(&object);
    *out = object;
    return r;
}

static CUresult fake_stream_destroy(CUstream stream)
{
    return fake_forget(stream);
}

/* A wait for a kernel that does not end would not return. */
static CUresult fake_stream_call(CUstream stream)
{
    (void)stream;
    assert_false(is_endless());
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_query(CUstream stream)
{
    (void)stream;
    if (is_endless())
        return CUDA_ERROR_NOT_READY;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_stream_wait(CUstream stream, CUevent event, unsigned flags)
{
    need_context();
    (void)flags;
    if (fake_on_wait)
        fake_on_wait(stream, ((const Object *)event)->stream);
    note("wait ");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_event_create(CUevent *out, unsigned flags)
{
    assert_true(flags == CU_EVENT_DEFAULT || flags == CU_EVENT_DISABLE_TIMING);
    void *object = NULL;
    CUresult r = fake_object(&object);
    *out = object;
    return r;
}

static CUresult fake_event_destroy(CUevent event)
{
    return fake_forget(event);
}

static CUresult fake_event_record(CUevent event, CUstream stream)
{
    need_context();
    Object *e = (Object *)event;
    assert_int_equal(e->device, fake_current);
    if (fake_on_record)
        fake_on_record();
    e->stream = stream;
    e->record =
        __atomic_add_fetch(&fake_device_records[fake_current], 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&fake_records, 1, __ATOMIC_SEQ_CST);
    note("record ");
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_event_synchronize(CUevent event)
{
    (void)event;
    if (fake_on_synchronize)
        fake_on_synchronize();
    return CUDA_SUCCESS;
}

static CUresult fake_event_query(CUevent event)
{
    const Object *e = (const Object *)event;
    int stops = __atomic_load_n(&fake_stops[e->device], __ATOMIC_SEQ_CST);
    bool behind = stops > 0 && e->record >= stops;
    return behind || is_endless() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult fake_event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
    (void)start;
    (void)end;
    *milliseconds = 1;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_capture_mode(CUstreamCaptureMode *mode)
{
    __atomic_add_fetch(&fake_relaxed, *mode == CU_STREAM_CAPTURE_MODE_RELAXED,
                       __ATOMIC_SEQ_CST);
    *mode = 0;
    return CUDA_SUCCESS;
}

/* Kernels. Each parameter is an 8-byte slot. */
static void add_kernel(void **p) /* in, out, n, number */
{
    const int32_t *in = *(int32_t **)p[0];
    int32_t *out = *(int32_t **)p[1];
    for (uint64_t i = 0; i < *(uint64_t *)p[2]; i++)
        out[i] = in[i] + (int32_t) * (uint64_t *)p[3];
}

static void less_kernel(void **p) /* in, out, limit: out = in[0] < limit */
{
    *(*(uint8_t **)p[1]) = (*(int32_t **)p[0])[0] < (int32_t) * (uint64_t *)p[2];
}

static const struct {
    const char *name;
    void (*run)(void **);
} kernels[] = {{"add", add_kernel}, {"less", less_kernel}};

static CUresult fake_module_function(CUfunction *function, CUmodule module,
                                     const char *name)
{
    need_context();
    (void)module;
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            *function = (CUfunction)(uintptr_t)(i + 1);
    }
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_launch(const CUlaunchConfig *config, CUfunction function,
                            void **parameters, void **extra)
{
    need_context();
    const CUlaunchConfig *c = config;
    int armed = 1;
    __atomic_compare_exchange_n(&fake_endless, &armed, 2, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    assert_true(c->gridDimX && c->gridDimY && c->gridDimZ && !extra);
    assert_in_range(c->blockDimX * c->blockDimY * c->blockDimZ, 1, 1024);
    assert_true(c->numAttrs == 0 || c->attrs);
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    uint32_t grid = c->gridDimX * c->gridDimY * c->gridDimZ;
    __atomic_store_n(&fake_grid, grid, __ATOMIC_RELAXED);
    uint32_t block = c->blockDimX * c->blockDimY * c->blockDimZ;
    __atomic_store_n(&fake_block, block, __ATOMIC_RELAXED);
    kernels[(uintptr_t)function - 1].run(parameters);
    note("%s ", kernels[(uintptr_t)function - 1].name);
    return CUDA_SUCCESS;
}

const CudaApi fake_api = {
    .init = fake_init,
    .driver_version = fake_driver_version,
    .error_name = fake_text,
    .error_string = fake_text,
    .device_count = fake_device_count,
    .device_get = fake_device_get,
    .device_name = fake_device_name,
    .device_attribute = fake_device_attribute,
    .context_retain = fake_context_retain,
    .context_release = fake_context_release,
    .context_push = fake_context_push,
    .context_pop = fake_context_pop,
    .context_synchronize = fake_synchronize,
    .stream_priorities = fake_stream_priorities,
    .module_load = fake_module_load,
    .module_compile = fake_module_compile,
    .module_unload = fake_module_unload,
    .module_function = fake_module_function,
    .function_set = fake_function_set,
    .launch = fake_launch,
    .mem_alloc = fake_mem_alloc,
    .mem_free = fake_mem_free,
    .mem_info = fake_mem_info,
    .pointer_attribute = fake_pointer_attribute,
    .host_alloc = fake_host_alloc,
    .host_free = fake_forget,
    .copy_to_device = fake_copy_to_device,
    .copy_to_host = fake_copy_to_host,
    .copy_on_device = fake_copy_on_device,
    .copy_anywhere = fake_copy_on_device,
    .set_8 = fake_set_8,
    .set_16 = fake_set_16,
    .set_32 = fake_set_32,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_synchronize = fake_stream_call,
    .stream_query = fake_stream_query,
    .stream_wait = fake_stream_wait,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_query = fake_event_query,
    .event_synchronize = fake_event_synchronize,
    .event_elapsed = fake_event_elapsed,
    .capture_mode = fake_capture_mode,
};
