/* CUDA, cuBLASLt, cuDNN, cuSOLVER and NCCL as tables of functions, filled by dlopen: from NVIDIA's libraries
 * or all from libgxemu.so. Libraries stay loaded until the process ends. */
#ifndef GXC_RUNTIME_LIBRARY_LIBRARY_H
#define GXC_RUNTIME_LIBRARY_LIBRARY_H

#include <stdbool.h>

#include "runtime/emu/gxemu.h"
#include "runtime/library/cuda_types.h"
#include "runtime/library/cudnn_types.h"

typedef struct CudaApi {
#define CUDA_FUNCTION(name, symbol, parameters) CUresult(*name) parameters;
#define EMU_API_FUNCTION(name, symbol, parameters) CUresult(*name) parameters;
#include "runtime/library/cuda.def"
    bool emulated; /* the emu_ functions are there */
} CudaApi;

typedef struct CublasltApi {
#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t(*name) parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t(*name) parameters;
#include "runtime/library/cublaslt.def"
} CublasltApi;

typedef struct CudnnApi {
#define CUDNN_FUNCTION(name, symbol, parameters) cudnnStatus_t(*name) parameters;
#define CUDNN_VERSION_FUNCTION(name, symbol, parameters) size_t(*name) parameters;
#define CUDNN_TEXT_FUNCTION(name, symbol, parameters) const char *(*name)parameters;
#define CUDNN_VOID_FUNCTION(name, symbol, parameters) void(*name) parameters;
#include "runtime/library/cudnn.def"
} CudnnApi;

typedef struct CusolverApi {
#define CUSOLVER_FUNCTION(name, symbol, parameters) cusolverStatus_t(*name) parameters;
#define CUSOLVER_TYPED(name, real, complex, parameters)                                  \
    cusolverStatus_t(*name[CUSOLVER_LETTERS]) parameters;
#include "runtime/library/cusolver.def"
} CusolverApi;

typedef struct NcclApi {
#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t(*name) parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *(*name)parameters;
#include "runtime/library/nccl.def"
} NcclApi;

/* The tables, loaded by the first call that asks. `folder` (may be NULL) is searched first,
 * then the folder of the program, its ../lib, then the system's. NULL: `error` says which
 * library or function is missing and how to get it. Any thread. */
const CudaApi *library_cuda(bool emulated, const char *folder, char *error,
                            size_t error_size);
const CublasltApi *library_cublaslt(bool emulated, const char *folder, char *error,
                                    size_t error_size);
const CudnnApi *library_cudnn(bool emulated, const char *folder, char *error,
                              size_t error_size);
const CusolverApi *library_cusolver(bool emulated, const char *folder, char *error,
                                    size_t error_size);
const NcclApi *library_nccl(bool emulated, const char *folder, char *error,
                            size_t error_size);

#endif
