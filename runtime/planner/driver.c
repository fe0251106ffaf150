/* libgxc-nodriver.so: stands in for CUDA's driver while cuDNN plans graphs for a device that is only
 * described, so that plans do not depend on whether this machine has a GPU. Its soname is
 * libcuda.so.1: where it is loaded, no other one is. There is one device; modules can be loaded
 * and their kernels asked for, and nothing else can be done. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SUCCESS = 0, NOT_FOUND = 500, REFUSED = 801 /* CUDA_ERROR_NOT_SUPPORTED */ };

#pragma GCC visibility push(default)

/* Exported, as some are looked for by name: all of these are refused. */
#define REFUSE(name)                                                                     \
    int name(void);                                                                      \
    int name(void)                                                                       \
    {                                                                                    \
        return REFUSED;                                                                  \
    }
/* clang-format off */
REFUSE(cuCtxCreate) REFUSE(cuCtxCreate_v2) REFUSE(cuCtxDestroy) REFUSE(cuCtxGetCurrent)
REFUSE(cuCtxGetDevice) REFUSE(cuCtxGetLimit) REFUSE(cuCtxPopCurrent)
REFUSE(cuCtxPopCurrent_v2) REFUSE(cuCtxPushCurrent) REFUSE(cuCtxPushCurrent_v2)
REFUSE(cuCtxSetCurrent) REFUSE(cuDeviceGet) REFUSE(cuDeviceGetAttribute)
REFUSE(cuDevicePrimaryCtxRetain) REFUSE(cuFuncGetAttribute) REFUSE(cuFuncSetAttribute)
REFUSE(cuGetExportTable) REFUSE(cuKernelGetAttribute) REFUSE(cuKernelGetFunction)
REFUSE(cuKernelSetAttribute) REFUSE(cuLaunchCooperativeKernel) REFUSE(cuLaunchKernel)
REFUSE(cuLaunchKernelEx) REFUSE(cuLibraryGetModule) REFUSE(cuLibraryLoadFromFile)
REFUSE(cuLinkAddData) REFUSE(cuLinkComplete) REFUSE(cuLinkCreate) REFUSE(cuLinkDestroy)
REFUSE(cuModuleGetFunction) REFUSE(cuModuleLoadData) REFUSE(cuModuleLoadDataEx)
REFUSE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSE(cuOccupancyMaxPotentialClusterSize) REFUSE(cuStreamGetCtx)
REFUSE(cuStreamIsCapturing) REFUSE(cuTensorMapEncodeTiled)
    /* clang-format on */

    int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

int cuDriverGetVersion(int *out);
int cuDriverGetVersion(int *out)
{
    *out = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *out);
int cuDeviceGetCount(int *out)
{
    *out = 1;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **out);
int cuGetErrorName(int error, const char **out)
{
    (void)error;
    *out = "CUDA_ERROR_NOT_SUPPORTED";
    return SUCCESS;
}

int cuGetErrorString(int error, const char **out);
int cuGetErrorString(int error, const char **out)
{
    (void)error;
    *out = "graphs are planned without a device";
    return SUCCESS;
}

static char something; /* what handles point to */

int cuLibraryLoadData(void **out);
int cuLibraryLoadData(void **out)
{
    *out = &something;
    return SUCCESS;
}

int cuLibraryGetKernel(void **out);
int cuLibraryGetKernel(void **out)
{
    *out = &something;
    return SUCCESS;
}

int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library)
{
    (void)library;
    return SUCCESS;
}

typedef void Function(void);
#define FUNCTION(f)                                                                      \
    {                                                                                    \
#f, (Function *)(f)                                                              \
    }

static const struct {
    const char *name;
    Function *function;
} functions[] = {FUNCTION(cuInit),
                 FUNCTION(cuDriverGetVersion),
                 FUNCTION(cuDeviceGetCount),
                 FUNCTION(cuGetErrorName),
                 FUNCTION(cuGetErrorString),
                 FUNCTION(cuLibraryLoadData),
                 FUNCTION(cuLibraryGetKernel),
                 FUNCTION(cuLibraryUnload)};

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                        int *status);

/* The runtime library asks for hundreds; it minds only those that are not there. */
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                        int *status)
{
    Function *found = (Function *)cuLaunchKernel;
    (void)version;
    (void)flags;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i].name) == 0)
            found = functions[i].function;
    if (strcmp(name, "cuGetProcAddress") == 0)
        found = (Function *)cuGetProcAddress_v2;
    memcpy(out, &found, sizeof *out);
    if (status != NULL)
        *status = 0;
    return SUCCESS;
}

int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}

#pragma GCC visibility pop
