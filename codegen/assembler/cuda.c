/* Finds CUDA's parts. A folder is one of a toolkit, of NVIDIA's wheels, or of the parts that
 * `make setup` fetched: they differ in where the libraries are. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/assembler/assemblers.h"
#include "ir/base/bug.h"

static const char *const ptxas_paths[] = {"bin/ptxas", "nvidia/cu13/bin/ptxas",
                                          "nvidia/cuda_nvcc/bin/ptxas", NULL};
static const char *const libdevice_paths[] = {
    "nvvm/libdevice/libdevice.10.bc", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
    "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc", NULL};
static const char *const nvjitlink_paths[] = {
    "lib64/libnvJitLink.so.13",
    "lib/libnvJitLink.so.13",
    "targets/x86_64-linux/lib/libnvJitLink.so.13",
    "targets/sbsa-linux/lib/libnvJitLink.so.13",
    "nvidia/cu13/lib/libnvJitLink.so.13",
    "lib64/libnvJitLink.so.12",
    "lib/libnvJitLink.so.12",
    "nvidia/nvjitlink/lib/libnvJitLink.so.12",
    NULL,
};

/* The first of the paths below `folder` that exists, or NULL. */
static const char *find_in(Arena *a, const char *folder, const char *const *paths)
{
    for (; *paths; paths++) {
        const char *path = arena_printf(a, "%s/%s", folder, *paths);
        if (access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

/* The folder two levels above the real file behind `path`: …/bin/ptxas gives …. NULL: none. */
static const char *folder_above(Arena *a, const char *path, int levels)
{
    char *real = realpath(path, NULL);
    if (!real)
        return NULL;
    char *folder = arena_text(a, real, strlen(real));
    free(real);
    for (; levels > 0; levels--) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return NULL;
        *slash = 0;
    }
    return folder;
}

/* Where the ptxas on PATH lies. */
static const char *folder_of_path(Arena *a)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        const char *file = arena_printf(a, "%.*s/ptxas", (int)length, path);
        if (length > 0 && access(file, X_OK) == 0)
            return folder_above(a, file, 2);
        path += length + (path[length] == ':');
    }
    return NULL;
}

const char *cuda_own_folder(Arena *a)
{
    static const char here;
    Dl_info info;
    if (dladdr(&here, &info) && info.dli_fname && strstr(info.dli_fname, ".so"))
        return folder_above(a, info.dli_fname, 1);
    return folder_above(a, "/proc/self/exe", 1);
}

/* ---- versions ---- */

static bool version_of_nvjitlink(Arena *a, Cuda *out)
{
    int (*version)(unsigned *major, unsigned *minor);
    unsigned major, minor;
    out->library = dlopen(out->assembler, RTLD_NOW | RTLD_LOCAL);
    void *p = out->library ? dlsym(out->library, "nvJitLinkVersion") : NULL;
    memcpy(&version, &p, sizeof p);
    if (!p || version(&major, &minor) != 0)
        return false;
    out->cuda = major * 10 + minor;
    out->version = arena_printf(a, "nvJitLink %u.%u", major, minor);
    return true;
}

/* Says nothing of the program, so another must not take its place: the same input would give other
 * bytes. */
static _Noreturn void ask_failed(const char *path)
{
    escape_throw(ESCAPE_MEMORY, "%s cannot be asked for its version: %s", path,
                 strerror(errno));
}

static bool is_no_program(int error)
{
    return error == ENOENT || error == ENOEXEC || error == EACCES || error == ENOTDIR;
}

/* What the loader of programs says where it had no file number or no memory. */
static bool lacks_system(const char *log)
{
    return strstr(log, ": Error 24") || strstr(log, "Too many open files") ||
           strstr(log, ": Error 12") || strstr(log, "Cannot allocate memory") ||
           strstr(log, "failed to map segment");
}

/* What `ptxas --version` or that of another of NVIDIA's programs prints; NULL if it does not run. */
static const char *ask_version(Arena *a, const char *path)
{
    FILE *f = tmpfile();
    if (!f)
        ask_failed(path);
    static const char *const args[] = {"version", "--version", NULL};
    const ProcessFiles files = {.log = fileno(f), .most_seconds = ASSEMBLER_SECONDS};
    double seconds = 0;
    int status = process_run(path, args, &files, &seconds);
    bool has_failed = status < 0 && !is_no_program(errno);
    char *text = arena_alloc(a, 1024);
    if (!has_failed)
        rewind(f);
    size_t n = has_failed ? 0 : fread(text, 1, 1023, f);
    text[n] = '\0';
    has_failed |= ferror(f) != 0;
    int error = errno;
    if (status > 0 && (lacks_system(text) || process_failure(status) == ASSEMBLER_LOST)) {
        has_failed = true;
        error = EAGAIN;
    }
    fclose(f);
    errno = error;
    if (has_failed)
        ask_failed(path);
    return status == 0 && n > 0 ? text : NULL;
}

/* The three numbers of its version; false: it does not run, or prints something else. */
static bool find_version(Arena *a, const char *path, unsigned version[3])
{
    const char *text = ask_version(a, path), *v = text ? strstr(text, ", V") : NULL;
    return v && sscanf(v, ", V%u.%u.%u", &version[0], &version[1], &version[2]) == 3;
}

/* nvlink comes with ptxas, of the same version. */
static const char *linker_beside(Arena *a, const char *ptxas)
{
    const char *path =
        arena_printf(a, "%.*snvlink", (int)(strrchr(ptxas, '/') + 1 - ptxas), ptxas);
    return access(path, X_OK) == 0 ? path : NULL;
}

static bool version_of_ptxas(Arena *a, Cuda *out)
{
    unsigned v[3];
    if (!find_version(a, out->assembler, v))
        return false;
    out->cuda = v[0] * 10 + v[1];
    out->linker = linker_beside(a, out->assembler);
    out->version = arena_printf(a, "ptxas %u.%u.%u%s", v[0], v[1], v[2],
                                out->linker ? " with nvlink" : "");
    return true;
}

/* ---- finding ---- */

/* ptxas is asked first where both will do: for one program it takes less processor time than
 * loading nvJitLink does. */
static bool take_assembler(Arena *a, const char *folder, AssemblerKind wanted, Cuda *out)
{
    if (wanted != ASSEMBLER_NVJITLINK) {
        out->kind = ASSEMBLER_PTXAS;
        out->assembler = find_in(a, folder, ptxas_paths);
        if (out->assembler && version_of_ptxas(a, out))
            return true;
    }
    if (wanted != ASSEMBLER_PTXAS) {
        out->kind = ASSEMBLER_NVJITLINK;
        out->assembler = find_in(a, folder, nvjitlink_paths);
        if (out->assembler && version_of_nvjitlink(a, out))
            return true;
    }
    return false;
}

/* NULL when `folder` has everything, else what it lacks. */
static const char *take_folder(Arena *a, const char *folder, AssemblerKind wanted,
                               Cuda *out)
{
    out->libdevice = find_in(a, folder, libdevice_paths);
    if (!out->libdevice)
        return "libdevice.10.bc";
    if (!take_assembler(a, folder, wanted, out))
        return wanted == ASSEMBLER_PTXAS       ? "ptxas"
               : wanted == ASSEMBLER_NVJITLINK ? "libnvJitLink.so"
                                               : "ptxas and libnvJitLink.so";
    out->ptx = target_ptx_of_cuda(out->cuda);
    return NULL;
}

/* The folders where CUDA's parts are looked for unless --cuda names one: `name` as `make setup` calls those that it
 * fetched. NULL where there is none. */
static void list_folders(Arena *a, const char *name, const char *folders[4])
{
    const char *own = cuda_own_folder(a);
    folders[0] = folder_of_path(a);
    folders[1] = own ? arena_printf(a, "%s/%s", own, name) : NULL;
    folders[2] = own ? arena_printf(a, "%s/../%s", own, name) : NULL;
    folders[3] = own ? arena_printf(a, "%s/../lib/gxc/%s", own, name) : NULL;
}

static bool take_tileiras(Arena *a, const char *folder, Cuda *out)
{
    const char *in[] = {folder, arena_printf(a, "%s/nvidia/cu13", folder)};
    for (int i = 0; i < 2; i++) {
        const char *path = arena_printf(a, "%s/bin/tileiras", in[i]);
        if (access(path, X_OK) != 0)
            continue;
        out->tileiras = path;
        out->tileir_home = in[i];
        return true;
    }
    return false;
}

void cuda_find_tileir(Arena *a, const char *folder, Cuda *out)
{
    const char *folders[4];
    list_folders(a, "tileir", folders);
    out->tileiras = NULL;
    if (folder && take_tileiras(a, folder, out))
        return;
    for (int i = 0; i < 4; i++)
        if (folders[i] && take_tileiras(a, folders[i], out))
            return;
}

const char *cuda_tileir_version(Arena *a, const Cuda *cuda)
{
    unsigned v[3];
    return find_version(a, cuda->tileiras, v)
               ? arena_printf(a, "tileiras %u.%u.%u", v[0], v[1], v[2])
               : NULL;
}

bool cuda_find(Arena *a, const char *folder, AssemblerKind wanted, Cuda *out,
               const char **out_error)
{
    *out = (Cuda){0};
    if (folder) {
        const char *lacks = take_folder(a, folder, wanted, out);
        if (lacks)
            *out_error = arena_printf(a, "no %s in %s (--cuda)", lacks, folder);
        return lacks == NULL;
    }
    const char *folders[4], *tried = "";
    list_folders(a, "cuda", folders);
    for (int i = 0; i < 4; i++) {
        if (!folders[i])
            continue;
        const char *lacks = take_folder(a, folders[i], wanted, out);
        if (!lacks)
            return true;
        tried = arena_printf(a, "%s\n  no %s in %s", tried, lacks, folders[i]);
    }
    *out_error =
        arena_printf(a,
                     "no CUDA toolkit found: gxc needs its libdevice and ptxas or "
                     "nvJitLink; put ptxas on PATH, give --cuda=DIR, or run `make "
                     "setup`%s",
                     tried);
    return false;
}
