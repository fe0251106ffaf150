/* Prints the values and layouts that runtime/library/cuda_types.h declares; with NVIDIA defined, those
 * of NVIDIA's headers, which must be the same. The tables' functions are then declared a second
 * time, which the compiler refuses where a prototype differs from the header's. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#ifdef NVIDIA
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
#define CUDA_FUNCTION(name, symbol, parameters) CUresult symbol parameters;
#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t symbol parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t symbol parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#include "runtime/library/cublaslt.def"
#include "runtime/library/cuda.def"
#include "runtime/library/nccl.def"
#else
#include "runtime/library/cuda_types.h"
#endif

static void print_size(const char *name, size_t size, size_t alignment)
{
    printf("%s %zu aligned to %zu\n", name, size, alignment);
}

#define SIZE(type) print_size(#type, sizeof(type), _Alignof(type))
#define FIELD(type, field)                                                               \
    printf("%s.%s %zu + %zu\n", #type, #field, offsetof(type, field),                    \
           sizeof((type){0}.field))
#define VALUE(name) printf("%s %lld\n", #name, (long long)(name));

int main(void)
{
#include "abi-values.h" /* VALUE(each enumerator of cuda_types.h) */
    SIZE(CUresult);
    SIZE(CUdevice);
    SIZE(CUdeviceptr);
    SIZE(CUdevice_attribute);
    SIZE(CUlaunchAttribute);
    FIELD(CUlaunchAttribute, id);
    FIELD(CUlaunchAttribute, value);
    FIELD(CUlaunchAttribute, value.cooperative);
    FIELD(CUlaunchAttribute, value.clusterDim.x);
    FIELD(CUlaunchAttribute, value.clusterDim.z);
    SIZE(CUlaunchConfig);
    FIELD(CUlaunchConfig, gridDimX);
    FIELD(CUlaunchConfig, gridDimZ);
    FIELD(CUlaunchConfig, blockDimX);
    FIELD(CUlaunchConfig, blockDimZ);
    FIELD(CUlaunchConfig, sharedMemBytes);
    FIELD(CUlaunchConfig, hStream);
    FIELD(CUlaunchConfig, attrs);
    FIELD(CUlaunchConfig, numAttrs);
    SIZE(CUgraphConditionalHandle);
    SIZE(CUgraphNodeParams);
    FIELD(CUgraphNodeParams, type);
    FIELD(CUgraphNodeParams, kernel.func);
    FIELD(CUgraphNodeParams, kernel.gridDimX);
    FIELD(CUgraphNodeParams, kernel.blockDimZ);
    FIELD(CUgraphNodeParams, kernel.sharedMemBytes);
    FIELD(CUgraphNodeParams, kernel.kernelParams);
    FIELD(CUgraphNodeParams, kernel.ctx);
    FIELD(CUgraphNodeParams, memcpy.copyCtx);
    FIELD(CUgraphNodeParams, memcpy.copyParams.srcMemoryType);
    FIELD(CUgraphNodeParams, memcpy.copyParams.srcDevice);
    FIELD(CUgraphNodeParams, memcpy.copyParams.dstMemoryType);
    FIELD(CUgraphNodeParams, memcpy.copyParams.dstDevice);
    FIELD(CUgraphNodeParams, memcpy.copyParams.WidthInBytes);
    FIELD(CUgraphNodeParams, memcpy.copyParams.Depth);
    FIELD(CUgraphNodeParams, memset.dst);
    FIELD(CUgraphNodeParams, memset.value);
    FIELD(CUgraphNodeParams, memset.elementSize);
    FIELD(CUgraphNodeParams, memset.width);
    FIELD(CUgraphNodeParams, memset.ctx);
    FIELD(CUgraphNodeParams, graph.graph);
    FIELD(CUgraphNodeParams, graph.ownership);
    FIELD(CUgraphNodeParams, conditional.handle);
    FIELD(CUgraphNodeParams, conditional.type);
    FIELD(CUgraphNodeParams, conditional.size);
    FIELD(CUgraphNodeParams, conditional.phGraph_out);
    FIELD(CUgraphNodeParams, conditional.ctx);
    SIZE(cublasStatus_t);
    SIZE(cublasComputeType_t);
    SIZE(cudaDataType_t);
    SIZE(cublasLtMatmulAlgo_t);
    SIZE(cublasLtMatmulHeuristicResult_t);
    FIELD(cublasLtMatmulHeuristicResult_t, algo);
    FIELD(cublasLtMatmulHeuristicResult_t, workspaceSize);
    FIELD(cublasLtMatmulHeuristicResult_t, state);
    FIELD(cublasLtMatmulHeuristicResult_t, wavesCount);
    SIZE(ncclResult_t);
    SIZE(ncclDataType_t);
    SIZE(ncclUniqueId);
    FIELD(ncclConfig_t, size); /* later versions are longer: only the start is the same */
    FIELD(ncclConfig_t, magic);
    FIELD(ncclConfig_t, version);
    FIELD(ncclConfig_t, blocking);
    FIELD(ncclConfig_t, cgaClusterSize);
    FIELD(ncclConfig_t, minCTAs);
    FIELD(ncclConfig_t, maxCTAs);
    FIELD(ncclConfig_t, netName);
    FIELD(ncclConfig_t, splitShare);
    FIELD(ncclConfig_t, trafficClass);
    FIELD(ncclConfig_t, commName);
    FIELD(ncclConfig_t, collnetEnable);
    FIELD(ncclConfig_t, CTAPolicy);
    FIELD(ncclConfig_t, shrinkShare);
    FIELD(ncclConfig_t, nvlsCTAs);
    return 0;
}
