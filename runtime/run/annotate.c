/* The memory extension of NVTX 3, spoken directly: a tool names its library in the environment
 * variable NVTX_INJECTION64_PATH, which is NVTX's own protocol; the library's entry point fills a
 * table of functions. Names and numbers are those of nvtx3/nvToolsExtMem.h. */
#include "runtime/run/annotate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    NVTX_VERSION = 3,
    MODULE_MEMORY = 1,
    COMPATIBILITY = 0x0102,
    SEGMENT = 1,
    SLOTS = 63,
    SLOT_MARK_INITIALIZED = 16,
    TYPE_VIRTUAL_ADDRESS = 1
};

typedef struct Segment {
    size_t id, slot_count;
    intptr_t *slots;
} Segment;

typedef struct Module {
    uint16_t version, bytes, id, compatibility;
    size_t segment_count;
    Segment *segments;
    void *export_function;
    const void *extra;
} Module;

typedef struct Range {
    size_t bytes;
    const void *address;
} Range;

typedef struct Batch {
    uint16_t compatibility, bytes;
    uint32_t type;
    size_t count, range_bytes;
    const void *ranges;
} Batch;

typedef int InitializeFn(Module *module);
typedef void MarkFn(void *domain, CUstream stream, uint8_t is_per_thread,
                    const Batch *batch);

static MarkFn *mark; /* NULL: no tool wants to know */

static void find_tool(void)
{
    static intptr_t slots[SLOTS + 1]; /* NVTX keeps a word before the first */
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *entry = library ? dlsym(library, "InitializeInjectionNvtxExtension") : NULL;
    if (!entry) {
        return;
    }
    InitializeFn *initialize;
    memcpy(&initialize, &entry, sizeof initialize);
    Segment segment = {SEGMENT, SLOTS, slots + 1};
    Module module = {
        .version = NVTX_VERSION,
        .bytes = sizeof module,
        .id = MODULE_MEMORY,
        .compatibility = COMPATIBILITY,
        .segment_count = 1,
        .segments = &segment,
    };
    intptr_t *slot = &slots[1 + SLOT_MARK_INITIALIZED];
    if (initialize(&module) != 0 && *slot != 0) {
        memcpy(&mark, slot, sizeof mark);
    }
}

void annotate_written(CUstream stream, const void *address, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_tool);
    if (!mark) {
        return;
    }
    Range range = {bytes, address};
    Batch batch = {.compatibility = COMPATIBILITY,
                   .bytes = sizeof batch,
                   .type = TYPE_VIRTUAL_ADDRESS,
                   .count = 1,
                   .range_bytes = sizeof range,
                   .ranges = &range};
    mark(NULL, stream, 0, &batch);
}
