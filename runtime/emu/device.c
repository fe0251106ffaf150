/* What the emulated devices say about themselves, and the driver's error texts. */
#include <stdio.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/context.h"
#include "runtime/emu/device.h"

/* Rows of targets.def: which model stands for a compute capability, and what it has. The first
 * target of one counts; what is in no row is taken for the plainest that has all. */
static const struct {
    int capability;
    const char *model;
} targets[] = {
#define TARGET(sm, variant, ptx, cuda, features, model) {sm, model},
#include "ir/analysis/targets.def"
    {90, "h100"},
};

typedef struct Model {
    const char *name;
    int multiprocessors;
    int block_shared; /* bytes of shared memory of a block at most, opted in */
} Model;

static const Model models[] = {
#define MODEL(name, sm, variant, text, sms, lanes, mhz, gbs, l2, block_shared, ...)      \
    {name, sms, block_shared},
#include "ir/analysis/targets.def"
};

static const Model *model_find(void)
{
    const EmuConfig *c = emu_config();
    size_t target = 0;
    size_t last = sizeof targets / sizeof *targets - 1;
    while (target < last && targets[target].capability != c->major * 10 + c->minor)
        target++;
    const Model *m = models;
    while (strcmp(m->name, targets[target].model) != 0)
        m++;
    return m;
}

int device_most_shared(void)
{
    return model_find()->block_shared;
}

CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = emu_config()->driver_version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult r = emu_enter("cuDeviceGetCount", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult r = emu_enter("cuDeviceGet", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (device == NULL || device_context(ordinal) == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_DEVICE,
                          "device %d of the emulator: it has %d (GXEMU_DEVICES)", ordinal,
                          device_count());
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult r = emu_enter("cuDeviceGetName", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (name == NULL || length <= 0 || device_context(device) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "gxc emulator");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    CUresult r = emu_enter("cuDeviceGetAttribute", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (value == NULL || device_context(device) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = model_find()->multiprocessors;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = emu_config()->major;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = emu_config()->minor;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = device_most_shared();
        return CUDA_SUCCESS;
    default:
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "the emulator does not know device attribute %d", attribute);
    }
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult r = emu_enter("cuDeviceTotalMem_v2", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (bytes == NULL || device_context(device) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = emu_config()->memory;
    return CUDA_SUCCESS;
}

typedef struct ErrorText {
    CUresult error;
    const char *name;
    const char *text;
} ErrorText;

static const ErrorText errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const ErrorText *error_find(CUresult error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return &errors[i];
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    const ErrorText *found = error_find(error);
    if (text == NULL || found == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *text = found->name;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    const ErrorText *found = error_find(error);
    if (text == NULL || found == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *text = found->text;
    return CUDA_SUCCESS;
}
