/* NVTX 3, spoken directly: a tool names its library in the environment variable
 * NVTX_INJECTION64_PATH, which is NVTX's own protocol; the library's entry points fill tables of
 * functions. Names and numbers are those of nvtx3/nvToolsExtMem.h for memory and of
 * nvtx3/nvtxDetail/nvtxTypes.h for ranges. */
#include "runtime/run/annotate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
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

/* --- ranges --------------------------------------------------------------------------------- */

enum {
    TABLE_CALLBACKS = 1,
    TABLE_VERSION = 3,
    CALLBACKS_CORE = 1,
    CORE_PUSH = 9,
    CORE_POP = 11,
    CORE_FUNCTIONS = 16
};

typedef void AnyFn(void);
typedef int PushFn(const char *name);
typedef int PopFn(void);

typedef struct Callbacks {
    size_t bytes;
    int (*table)(int module, AnyFn ****out, unsigned *out_count);
} Callbacks;

typedef struct VersionInfo {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
} VersionInfo;

typedef const void *ExportFn(uint32_t table);
typedef int InitializeRangesFn(ExportFn *get_table);

static AnyFn *core[CORE_FUNCTIONS]; /* what the tool wants to be called */

static int core_table(int module, AnyFn ****out, unsigned *out_count)
{
    static AnyFn **slots[CORE_FUNCTIONS + 1]; /* 0 is no function; NULL at the end */
    for (size_t i = 1; i < CORE_FUNCTIONS; i++) {
        slots[i] = &core[i];
    }
    if (module != CALLBACKS_CORE) {
        return 0;
    }
    *out = slots;
    *out_count = CORE_FUNCTIONS;
    return 1;
}

static void ignore_version(uint32_t version)
{
    (void)version;
}

static const void *export_table(uint32_t table)
{
    static const Callbacks callbacks = {sizeof callbacks, core_table};
    static const VersionInfo info = {sizeof info, NVTX_VERSION, 0, ignore_version};
    return table == TABLE_CALLBACKS ? (const void *)&callbacks
           : table == TABLE_VERSION ? (const void *)&info
                                    : NULL;
}

static void find_range_tool(void *library)
{
    void *entry = dlsym(library, "InitializeInjectionNvtx2");
    InitializeRangesFn *initialize;
    memcpy(&initialize, &entry, sizeof initialize);
    if (!entry || initialize(export_table) == 0 || !core[CORE_POP]) {
        core[CORE_PUSH] = NULL;
    }
}

/* --- memory --------------------------------------------------------------------------------- */

static void find_memory_tool(void *library)
{
    static intptr_t slots[SLOTS + 1]; /* NVTX keeps a word before the first */
    void *entry = dlsym(library, "InitializeInjectionNvtxExtension");
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

static void find_tool(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic bool is_done;
    if (is_done) {
        return;
    }
    pthread_mutex_lock(&mutex);
    const char *path = is_done ? NULL : getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (library) {
        find_memory_tool(library);
        find_range_tool(library);
    }
    is_done = true;
    pthread_mutex_unlock(&mutex);
}

bool annotate_begin(const char *name)
{
    find_tool();
    if (!core[CORE_PUSH]) {
        return false;
    }
    PushFn *push;
    memcpy(&push, &core[CORE_PUSH], sizeof push);
    push(name);
    return true;
}

void annotate_end(void)
{
    PopFn *pop;
    memcpy(&pop, &core[CORE_POP], sizeof pop);
    pop();
}

void annotate_written(CUstream stream, const void *address, size_t bytes)
{
    find_tool();
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
