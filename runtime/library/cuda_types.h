/* The types of CUDA's driver, cuBLASLt, cuSOLVER and NCCL that the tables (*.def) name, as NVIDIA
 * publishes them: their layout and values are those libraries' binary interface, so nothing
 * here may be changed. No NVIDIA header is needed to build. */
#ifndef GXC_RUNTIME_LIBRARY_CUDA_TYPES_H
#define GXC_RUNTIME_LIBRARY_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/plan/cublaslt.h"
#include "runtime/plan/cusolver.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef int CUdevice_attribute; /* enums, as is each `int` type below */
typedef int CUfunction_attribute;
typedef int CUjit_option;
typedef int CUpointer_attribute;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

enum { /* CUresult, as far as they are told apart */
       CUDA_SUCCESS = 0,
       CUDA_ERROR_INVALID_VALUE = 1,
       CUDA_ERROR_OUT_OF_MEMORY = 2,
       CUDA_ERROR_NOT_INITIALIZED = 3,
       CUDA_ERROR_NO_DEVICE = 100,
       CUDA_ERROR_INVALID_DEVICE = 101,
       CUDA_ERROR_INVALID_IMAGE = 200,
       CUDA_ERROR_INVALID_CONTEXT = 201,
       CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
       CUDA_ERROR_INVALID_PTX = 218,
       CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
       CUDA_ERROR_INVALID_SOURCE = 300,
       CUDA_ERROR_INVALID_HANDLE = 400,
       CUDA_ERROR_NOT_FOUND = 500,
       CUDA_ERROR_NOT_READY = 600,
       CUDA_ERROR_ILLEGAL_ADDRESS = 700,
       CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
       CUDA_ERROR_LAUNCH_TIMEOUT = 702,
       CUDA_ERROR_ASSERT = 710,
       CUDA_ERROR_LAUNCH_FAILED = 719,
       CUDA_ERROR_NOT_SUPPORTED = 801,
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
       CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
       CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
       CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
       CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
       CUDA_ERROR_CAPTURED_EVENT = 907,
       CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
       CUDA_ERROR_UNKNOWN = 999
};

enum { /* CUdevice_attribute, CUfunction_attribute, CUjit_option, CUpointer_attribute, flags */
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
       CU_JIT_ERROR_LOG_BUFFER = 5,
       CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
       CU_STREAM_NON_BLOCKING = 1,
       CU_STREAM_CAPTURE_MODE_RELAXED = 2,
       CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
       CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1,
       CU_EVENT_DEFAULT = 0,
       CU_EVENT_DISABLE_TIMING = 2,
       CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
       CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
};

#define CU_STREAM_PER_THREAD ((CUstream)2) /* each thread's own default stream */

typedef union CUlaunchAttributeValue {
    char pad[64];
    int cooperative;
    struct {
        unsigned x, y, z;
    } clusterDim;
    void *align;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* --- graphs of CUDA ---------------------------------------------------------------------- */

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef cuuint64_t CUgraphConditionalHandle;
typedef struct CUgraphEdgeData_st CUgraphEdgeData; /* NULL: plain dependencies */

enum { /* CUgraphNodeType, CUgraphConditionalNodeType, CUmemorytype */
       CU_GRAPH_NODE_TYPE_KERNEL = 0,
       CU_GRAPH_NODE_TYPE_MEMCPY = 1,
       CU_GRAPH_NODE_TYPE_MEMSET = 2,
       CU_GRAPH_NODE_TYPE_GRAPH = 4,
       CU_GRAPH_NODE_TYPE_CONDITIONAL = 13,
       CU_GRAPH_COND_TYPE_IF = 0,
       CU_GRAPH_COND_TYPE_WHILE = 1,
       CU_MEMORYTYPE_DEVICE = 2,
       CU_MEMORYTYPE_UNIFIED = 4
};

typedef struct CUDA_KERNEL_NODE_PARAMS_v3 {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    struct CUkern_st *kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v3;

typedef struct CUDA_MEMCPY3D {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    struct CUarray_st *srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    struct CUarray_st *dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY_NODE_PARAMS {
    int flags;
    int reserved;
    CUcontext copyCtx;
    CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_v2 {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value;
    unsigned elementSize;
    size_t width, height; /* elements of a row, rows */
    CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    CUgraph graph;
    int ownership; /* 0: the node gets a copy */
} CUDA_CHILD_GRAPH_NODE_PARAMS;

typedef struct CUDA_CONDITIONAL_NODE_PARAMS {
    CUgraphConditionalHandle handle;
    int type;
    unsigned size; /* graphs of the body */
    CUgraph *phGraph_out;
    CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;

typedef struct CUgraphNodeParams {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS_v3 kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS_v2 memset;
        CUDA_CHILD_GRAPH_NODE_PARAMS graph;
        CUDA_CONDITIONAL_NODE_PARAMS conditional;
    };
    long long reserved2;
} CUgraphNodeParams;

/* --- cuBLASLt ---------------------------------------------------------------------------- */

typedef int cublasStatus_t; /* 0 success, 15 not supported */
typedef int cublasComputeType_t;
typedef int cudaDataType_t;
typedef int cublasLtMatmulDescAttributes_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;

/* --- cuSOLVER ---------------------------------------------------------------------------- */

typedef int cusolverStatus_t; /* 0 success, 9 not supported */
typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct cusolverDnParams *cusolverDnParams_t;
enum { CUSOLVER_S, CUSOLVER_D, CUSOLVER_C, CUSOLVER_Z, CUSOLVER_LETTERS }; /* by type */

enum { /* attributes of cublasLtMatrixLayout, MatmulDesc and MatmulPreference */
       CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
       CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
       CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
       CUBLASLT_MATRIX_LAYOUT_COLS = 3,
       CUBLASLT_MATRIX_LAYOUT_LD = 4,
       CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
       CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
       CUBLASLT_MATMUL_DESC_TRANSA = 3,
       CUBLASLT_MATMUL_DESC_TRANSB = 4,
       CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
       CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
       CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
       CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
       CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
       CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
       CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,
       CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
       CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
       CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31,
       CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 32,
       CUBLASLT_MATMUL_DESC_C_SCALE_MODE = 33,
       CUBLASLT_MATMUL_DESC_D_SCALE_MODE = 34,
       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

/* --- NCCL -------------------------------------------------------------------------------- */

typedef int ncclResult_t; /* 0 success, 7 in progress */
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;

/* ncclDataType_t: NCCL_TYPE(name, value, HLO's type as in ir/dtypes.def, bytes). */
/* clang-format off */
#define NCCL_TYPES(NCCL_TYPE)                    \
    NCCL_TYPE(ncclInt8,       0, S8,       1)    \
    NCCL_TYPE(ncclUint8,      1, U8,       1)    \
    NCCL_TYPE(ncclInt32,      2, S32,      4)    \
    NCCL_TYPE(ncclUint32,     3, U32,      4)    \
    NCCL_TYPE(ncclInt64,      4, S64,      8)    \
    NCCL_TYPE(ncclUint64,     5, U64,      8)    \
    NCCL_TYPE(ncclFloat16,    6, F16,      2)    \
    NCCL_TYPE(ncclFloat32,    7, F32,      4)    \
    NCCL_TYPE(ncclFloat64,    8, F64,      8)    \
    NCCL_TYPE(ncclBfloat16,   9, BF16,     2)    \
    NCCL_TYPE(ncclFloat8e4m3, 10, F8E4M3FN, 1)   \
    NCCL_TYPE(ncclFloat8e5m2, 11, F8E5M2,  1)
/* clang-format on */

enum { /* ncclDataType_t */
#define NCCL_TYPE(name, value, dtype, bytes) name = value,
       NCCL_TYPES(NCCL_TYPE)
#undef NCCL_TYPE
};

enum {
    ncclSuccess = 0,
    ncclInProgress = 7,
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3
};

/* ncclConfig_t of NCCL 2.27: every field but the first three is "unset" when INT_MIN or NULL. */
typedef struct {
    size_t size;
    unsigned magic; /* 0xcafebeef */
    unsigned version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
} ncclConfig_t;

#endif
