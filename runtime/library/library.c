/* Finding libraries and their functions. */
#include "runtime/library/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One function of a table: where its pointer goes, and its symbol. */
typedef struct Symbol {
    const char *name;
    size_t offset;
    bool is_optional; /* NULL in the table where the library lacks it */
} Symbol;

static const Symbol cuda_symbols[] = {
#define CUDA_FUNCTION(name, symbol, parameters) {#symbol, offsetof(CudaApi, name), false},
#define CUDA_GRAPH_FUNCTION(name, symbol, parameters)                                    \
    {#symbol, offsetof(CudaApi, name), true},
#include "runtime/library/cuda.def"
    {NULL, 0, false}};

static const Symbol emu_symbols[] = {
#define EMU_API_FUNCTION(name, symbol, parameters)                                       \
    {#symbol, offsetof(CudaApi, name), false},
#include "runtime/library/cuda.def"
    {NULL, 0, false}};

static const Symbol cublaslt_symbols[] = {
#define CUBLASLT_FUNCTION(name, symbol, parameters)                                      \
    {#symbol, offsetof(CublasltApi, name), false},
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters)                              \
    {#symbol, offsetof(CublasltApi, name), false},
#include "runtime/library/cublaslt.def"
    {NULL, 0, false}};

static const Symbol cudnn_symbols[] = {
#define CUDNN_FUNCTION(name, symbol, parameters)                                         \
    {#symbol, offsetof(CudnnApi, name), false},
#define CUDNN_VERSION_FUNCTION CUDNN_FUNCTION
#define CUDNN_TEXT_FUNCTION CUDNN_FUNCTION
#define CUDNN_VOID_FUNCTION CUDNN_FUNCTION
#include "runtime/library/cudnn.def"
    {NULL, 0, false}};

static const Symbol cusolver_symbols[] = {
#define CUSOLVER_FUNCTION(name, symbol, parameters)                                      \
    {#symbol, offsetof(CusolverApi, name), false},
#include "runtime/library/cusolver.def"
    {NULL, 0, false}};

static const Symbol nccl_symbols[] = {
#define NCCL_FUNCTION(name, symbol, parameters) {#symbol, offsetof(NcclApi, name), false},
#define NCCL_TEXT_FUNCTION(name, symbol, parameters)                                     \
    {#symbol, offsetof(NcclApi, name), false},
#include "runtime/library/nccl.def"
    {NULL, 0, false}};

/* A library, under the names that it may have. */
typedef struct Library {
    const char *const *names;
    const char *advice;
} Library;

static const char *const cuda_names[] = {"libcuda.so.1", NULL};
static const char *const emu_names[] = {"libgxemu.so", "libgxemu" GXC_SO, NULL};
static const char *const cublaslt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                             NULL};
static const char *const cudnn_names[] = {"libcudnn.so.9", NULL};
static const char *const cusolver_names[] = {"libcusolver.so.12", "libcusolver.so.11",
                                             NULL};
static const char *const nccl_names[] = {"libnccl.so.2", NULL};

static const Library cuda_library = {
    cuda_names, "install NVIDIA's driver, or run on the emulator (device \"emu\")"};
static const Library emu_library = {
    emu_names, "it is installed with gxc; keep it beside the program or in its ../lib"};
static const Library cublaslt_library = {
    cublaslt_names,
    "install CUDA's toolkit, or the wheel nvidia-cublas and put its folder into "
    "LD_LIBRARY_PATH, or compile with --libraries=none"};
static const Library cudnn_library = {
    cudnn_names, "install cuDNN 9.10 or newer (package cudnn9-cuda-13, or the wheel "
                 "nvidia-cudnn-cu13 and its "
                 "folder in LD_LIBRARY_PATH), or compile with --libraries=cublaslt"};
static const Library cusolver_library = {
    cusolver_names,
    "install CUDA's toolkit, or the wheels nvidia-cusolver and nvidia-cublas and put "
    "their "
    "folders into LD_LIBRARY_PATH, or compile with --libraries=cublaslt,cudnn"};
static const Library nccl_library = {
    nccl_names, "install NCCL 2.27 or newer (package libnccl2, or the wheel "
                "nvidia-nccl-cu13 and its folder in LD_LIBRARY_PATH)"};

static void *open_in(const char *folder, const char *suffix, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s/%s", folder, suffix, name);
    if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0) {
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Where an installed static library finds libgxemu; "" before (folder.c). */
extern const char library_folder[];

static void *open_named(const char *folder, const char *name)
{
    void *handle = folder ? open_in(folder, "", name) : NULL;
    char program[PATH_MAX];
    ssize_t n = handle ? -1 : readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        char *slash = strrchr(program, '/');
        if (slash) {
            *slash = 0;
            handle = open_in(program, "", name);
            handle = handle ? handle : open_in(program, "/../lib", name);
        }
    }
    if (!handle && library_folder[0]) {
        handle = open_in(library_folder, "", name);
    }
    return handle ? handle : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *open_library(const Library *l, const char *folder, char *error, size_t size)
{
    char why[256] = "";
    for (const char *const *name = l->names; *name; name++) {
        dlerror();
        void *handle = open_named(folder, *name);
        if (handle) {
            return handle;
        }
        const char *text = dlerror();
        if (!why[0] && text) {
            snprintf(why, sizeof why, "%s", text);
        }
    }
    snprintf(error, size, "%s was not found (%s): %s", l->names[0], why, l->advice);
    return NULL;
}

static bool fill(void *table, const Symbol *symbols, void *handle, const Library *l,
                 char *error, size_t size)
{
    for (const Symbol *s = symbols; s->name; s++) {
        void *function = dlsym(handle, s->name);
        if (!function && !s->is_optional) {
            snprintf(error, size, "%s lacks %s: it is too old; %s", l->names[0], s->name,
                     l->advice);
            return false;
        }
        memcpy((char *)table + s->offset, &function, sizeof function);
    }
    return true;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Fills `table` once; `loaded` remembers that. */
static bool load(void *table, bool *loaded, const Symbol *symbols, const Symbol *more,
                 const Library *l, const char *folder, char *error, size_t size)
{
    pthread_mutex_lock(&mutex);
    if (!*loaded) {
        void *handle = open_library(l, folder, error, size);
        *loaded = handle && fill(table, symbols, handle, l, error, size) &&
                  (!more || fill(table, more, handle, l, error, size));
    }
    bool ok = *loaded;
    pthread_mutex_unlock(&mutex);
    return ok;
}

const CudaApi *library_cuda(bool emulated, const char *folder, char *error,
                            size_t error_size)
{
    static CudaApi tables[2] = {{.emulated = false}, {.emulated = true}};
    static bool loaded[2];
    bool ok = load(&tables[emulated], &loaded[emulated], cuda_symbols,
                   emulated ? emu_symbols : NULL, emulated ? &emu_library : &cuda_library,
                   folder, error, error_size);
    return ok ? &tables[emulated] : NULL;
}

const CublasltApi *library_cublaslt(bool emulated, const char *folder, char *error,
                                    size_t error_size)
{
    static CublasltApi tables[2];
    static bool loaded[2];
    bool ok =
        load(&tables[emulated], &loaded[emulated], cublaslt_symbols, NULL,
             emulated ? &emu_library : &cublaslt_library, folder, error, error_size);
    return ok ? &tables[emulated] : NULL;
}

const CudnnApi *library_cudnn(bool emulated, const char *folder, char *error,
                              size_t error_size)
{
    static CudnnApi tables[2];
    static bool loaded[2];
    bool ok = load(&tables[emulated], &loaded[emulated], cudnn_symbols, NULL,
                   emulated ? &emu_library : &cudnn_library, folder, error, error_size);
    return ok ? &tables[emulated] : NULL;
}

const CusolverApi *library_cusolver(bool emulated, const char *folder, char *error,
                                    size_t error_size)
{
    static CusolverApi tables[2];
    static bool loaded[2];
    bool ok =
        load(&tables[emulated], &loaded[emulated], cusolver_symbols, NULL,
             emulated ? &emu_library : &cusolver_library, folder, error, error_size);
    return ok ? &tables[emulated] : NULL;
}

const NcclApi *library_nccl(bool emulated, const char *folder, char *error,
                            size_t error_size)
{
    static NcclApi tables[2];
    static bool loaded[2];
    bool ok = load(&tables[emulated], &loaded[emulated], nccl_symbols, NULL,
                   emulated ? &emu_library : &nccl_library, folder, error, error_size);
    return ok ? &tables[emulated] : NULL;
}
