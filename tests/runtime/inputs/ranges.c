/* A tool for NVTX's ranges: prints them as they begin and end. */
#include <stdint.h>
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

static int depth;

static int NVTX_API push(const char *name)
{
    printf("%*srange %s\n", 2 * depth, "", name);
    return depth++;
}

static int NVTX_API pop(void)
{
    printf("%*send\n", 2 * --depth, "");
    return depth;
}

/* The name that NVTX looks for. */
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    const NvtxExportTableVersionInfo *version = get_table(NVTX_ETID_VERSIONINFO);
    NvtxFunctionTable table = NULL;
    unsigned int count = 0;
    if (callbacks == NULL || callbacks->struct_size != sizeof *callbacks ||
        version == NULL || version->struct_size != sizeof *version ||
        version->version != NVTX_VERSION || get_table(NVTX_ETID_RESERVED0) != NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_SYNC, &table, &count) ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count) ||
        count != NVTX_CBID_CORE_SIZE)
        return 0;
    version->SetInjectionNvtxVersion(NVTX_VERSION);
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
