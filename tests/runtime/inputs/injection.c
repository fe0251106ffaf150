/* A tool for NVTX's memory extension: prints what is marked as initialised. */
#include <stdint.h>
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

typedef struct {
    uint16_t compatibility, bytes;
    uint32_t type;
    size_t count, each;
    const void *ranges;
} Batch;

static void marked(nvtxDomainHandle_t domain, void *stream, uint8_t per_thread,
                   const Batch *batch)
{
    const nvtxMemVirtualRangeDesc_t *r = batch->ranges;
    if (batch->compatibility != NVTX_EXT_COMPATID_MEM || batch->bytes != sizeof *batch ||
        batch->type != NVTX_MEM_TYPE_VIRTUAL_ADDRESS || batch->each != sizeof *r)
        printf("a damaged batch\n");
    for (size_t i = 0; i < batch->count; i++)
        printf("initialised: %zu bytes at %s\n", r[i].size,
               r[i].ptr != NULL ? "an address" : "NULL");
    (void)domain, (void)stream, (void)per_thread;
}

__attribute__((visibility("default"))) int
InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    if (module->nvtxVer != NVTX_VERSION || module->structSize != sizeof *module ||
        module->moduleId != NVTX_EXT_MODULEID_MEM ||
        module->compatId != NVTX_EXT_COMPATID_MEM || module->segmentsCount != 1 ||
        module->segments[0].segmentId != 1)
        return 0;
    module->segments[0].functionSlots[NVTX3EXT_CBID_nvtxMemCudaMarkInitialized] =
        (intptr_t)marked;
    return 1;
}
