/* nvJitLink, by our own declarations: PTX to cubin in this process. */
#include <dlfcn.h>
#include <string.h>

#include "codegen/assembler/assemblers.h"

typedef int CreateFunction(void **handle, uint32_t count, const char **options);
typedef int DestroyFunction(void **handle);
typedef int AddFunction(void *handle, int kind, const void *data, size_t bytes,
                        const char *name);
typedef int CompleteFunction(void *handle);
typedef int SizeFunction(void *handle, size_t *out);
typedef int GetFunction(void *handle, void *out);
enum { INPUT_PTX = 2 };

/* A function of the library, stored through `out`; C has no cast from void * to functions. */
static bool symbol(void *library, const char *name, void *out)
{
    void *p = dlsym(library, name);
    memcpy(out, &p, sizeof p);
    return p != NULL;
}

static char *get_text(Arena *a, void *library, void *link, const char *size_name,
                      const char *get_name, size_t *out_bytes)
{
    SizeFunction *size;
    GetFunction *get;
    size_t bytes = 0;
    if (!symbol(library, size_name, &size) || !symbol(library, get_name, &get) ||
        size(link, &bytes) != 0)
        return NULL;
    char *data = arena_alloc(a, bytes + 1);
    if (get(link, data) != 0)
        return NULL;
    if (out_bytes)
        *out_bytes = bytes;
    return data;
}

static bool link_ptx(Arena *a, void *library, void *link, const char *ptx, Cubin *out,
                     const char **out_error)
{
    AddFunction *add;
    CompleteFunction *complete;
    bool is_done = symbol(library, "nvJitLinkAddData", &add) &&
                   symbol(library, "nvJitLinkComplete", &complete) &&
                   add(link, INPUT_PTX, ptx, strlen(ptx) + 1, "gxc") == 0 &&
                   complete(link) == 0;
    if (!is_done) {
        const char *log = get_text(a, library, link, "nvJitLinkGetErrorLogSize",
                                   "nvJitLinkGetErrorLog", NULL);
        *out_error = arena_printf(a, "nvJitLink: %s", log && *log ? log : "it failed");
        return false;
    }
    out->data = get_text(a, library, link, "nvJitLinkGetLinkedCubinSize",
                         "nvJitLinkGetLinkedCubin", &out->bytes);
    const char *log = get_text(a, library, link, "nvJitLinkGetInfoLogSize",
                               "nvJitLinkGetInfoLog", NULL);
    if (log)
        assembler_read_log(a, log, out);
    if (!out->data)
        *out_error = "nvJitLink made no cubin";
    return out->data != NULL;
}

bool nvjitlink_assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
                        AssembleForm form, Cubin *out, const char **out_error)
{
    CreateFunction *create;
    DestroyFunction *destroy;
    void *link;
    const char *options[4] = {arena_printf(a, "-arch=%s", target->name), "-Xptxas=-v"};
    uint32_t count = 2;
    if (cuda->line_info)
        options[count++] = "-lineinfo";
    if ((form & ASSEMBLE_SPARING) != 0)
        options[count++] = "-Xptxas=-regUsageLevel=" SPARING_LEVEL;
    if (!symbol(cuda->library, "nvJitLinkCreate", &create) ||
        !symbol(cuda->library, "nvJitLinkDestroy", &destroy) ||
        create(&link, count, options) != 0) {
        *out_error = arena_printf(a, "nvJitLink (%s) does not take %s", cuda->assembler,
                                  options[0]);
        return false;
    }
    bool is_done = link_ptx(a, cuda->library, link, ptx, out, out_error);
    destroy(&link);
    return is_done;
}
