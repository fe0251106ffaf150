/* Prints the values that runtime/library/cudnn_types.h declares; with NVIDIA defined, those of
 * NVIDIA's headers, which must be the same. The table's functions are then declared a second time,
 * which the compiler refuses where a prototype differs from the header's. */
#include <stdint.h>
#include <stdio.h>
#ifdef NVIDIA
#include <cuda.h>
#include <cudnn_graph.h>
#define CUDNN_FUNCTION(name, symbol, parameters) cudnnStatus_t symbol parameters;
#define CUDNN_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#define CUDNN_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#define CUDNN_VOID_FUNCTION(name, symbol, parameters) void symbol parameters;
#include "runtime/library/cudnn.def"
#else
#include "runtime/library/cuda_types.h"
#include "runtime/library/cudnn_types.h"
#endif

#define VALUE(name) printf("%s %lld\n", #name, (long long)(name));

int main(void)
{
#include "abi-values.h" /* VALUE(each enumerator of cudnn_types.h and plan/cudnn.h) */
    printf("cudnnHandle_t %zu, cudnnBackendDescriptor_t %zu, cudnnStatus_t %zu\n",
           sizeof(cudnnHandle_t), sizeof(cudnnBackendDescriptor_t),
           sizeof(cudnnStatus_t));
    return 0;
}
