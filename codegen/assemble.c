/* PTX to cubin. Both assemblers get -v, whose lines on registers and spills are read back. */
#include "codegen/assemble.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the log ---- */

/* The number before `what` on the line, 0 if it is not there. */
static uint32_t number_before(const char *line, const char *end, const char *what)
{
    const char *p = strstr(line, what);
    if (!p || p >= end)
        return 0;
    while (p > line && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return (uint32_t)strtoul(p, NULL, 10);
}

static const char *quoted(Arena *a, const char *p)
{
    const char *start = strchr(p, '\'');
    const char *end = start ? strchr(start + 1, '\'') : NULL;
    return end ? arena_text(a, start + 1, (size_t)(end - start - 1)) : "";
}

static void read_log(Arena *a, const char *log, Cubin *out)
{
    KernelUse *uses = NULL, *use = NULL;
    size_t capacity = 0, count = 0;
    for (const char *line = log, *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        const char *entry = strstr(line, "Compiling entry function '");
        if (entry && entry < end) {
            uses = arena_grow(a, uses, &capacity, count + 1, sizeof *uses);
            use = &uses[count++];
            *use = (KernelUse){.name = quoted(a, entry)};
        }
        if (!use)
            continue;
        use->stack += number_before(line, end, " bytes stack frame");
        use->spill_stores += number_before(line, end, " bytes spill stores");
        use->spill_loads += number_before(line, end, " bytes spill loads");
        const char *used = strstr(line, ": Used ");
        if (used && used < end)
            use->registers = (uint32_t)strtoul(used + 7, NULL, 10);
    }
    out->uses = uses;
    out->use_count = count;
}

/* ---- nvJitLink, by our own declarations ---- */

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
        read_log(a, log, out);
    if (!out->data)
        *out_error = "nvJitLink made no cubin";
    return out->data != NULL;
}

static bool assemble_in_process(Arena *a, const Cuda *cuda, const Target *target,
                                const char *ptx, Cubin *out, const char **out_error)
{
    CreateFunction *create;
    DestroyFunction *destroy;
    void *link;
    const char *options[] = {arena_printf(a, "-arch=%s", target->name), "-Xptxas=-v"};
    if (!symbol(cuda->library, "nvJitLinkCreate", &create) ||
        !symbol(cuda->library, "nvJitLinkDestroy", &destroy) ||
        create(&link, 2, options) != 0) {
        *out_error = arena_printf(a, "nvJitLink (%s) does not take %s", cuda->assembler,
                                  options[0]);
        return false;
    }
    bool is_done = link_ptx(a, cuda->library, link, ptx, out, out_error);
    destroy(&link);
    return is_done;
}

/* ---- ptxas ---- */

extern char **environ;

#define SPLIT "-split-compile"

/* From 2 threads on (below, sections come in another order) to what one digit says. */
enum { SPLIT_SINCE = 130, SPLIT_LEAST = 2, SPLIT_MOST = 9 };

static char digit_of(uint32_t threads)
{
    long n = threads ? (long)threads : sysconf(_SC_NPROCESSORS_ONLN);
    n = n < SPLIT_LEAST ? SPLIT_LEAST : n > SPLIT_MOST ? SPLIT_MOST : n;
    return (char)('0' + n);
}

/* ptxas notes its options in the cubin; the number of threads, which changes nothing else, is
 * always noted as the least. */
static void note_least_threads(char *cubin, size_t bytes)
{
    static const char noted[] = SPLIT " ";
    const size_t length = sizeof noted - 1;
    for (char *p = cubin, *end = cubin + bytes; end - p > (ptrdiff_t)length; p++) {
        p = memchr(p, noted[0], (size_t)(end - p) - length);
        if (!p)
            break;
        if (memcmp(p, noted, length) == 0)
            p[length] = '0' + SPLIT_LEAST;
    }
}

/* Runs ptxas with files 3 (PTX) and 4 (cubin), its output in `log`. Returns its exit status,
 * or -1 with errno set. */
static int run_ptxas(const char *path, const char *arch, const char *threads, int ptx,
                     int cubin, int log)
{
    const char *args[] = {"ptxas", "-v",        "-arch", arch,    "/dev/fd/3",
                          "-o",    "/dev/fd/4", SPLIT,   threads, NULL};
    if (!threads)
        args[7] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    /* through high numbers, so that no file is overwritten before it was copied */
    posix_spawn_file_actions_adddup2(&actions, ptx, 63);
    posix_spawn_file_actions_adddup2(&actions, cubin, 64);
    posix_spawn_file_actions_adddup2(&actions, log, 1);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_adddup2(&actions, 63, 3);
    posix_spawn_file_actions_adddup2(&actions, 64, 4);
    pid_t pid;
    char *argv[sizeof args / sizeof *args];
    memcpy(argv, args, sizeof argv); /* posix_spawn changes none of them */
    int failed = posix_spawn(&pid, path, &actions, NULL, argv, environ), status = -1;
    posix_spawn_file_actions_destroy(&actions);
    errno = failed;
    if (failed)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *read_all(Arena *a, FILE *f, size_t *out_bytes)
{
    struct stat info;
    if (fstat(fileno(f), &info) != 0)
        return NULL;
    size_t bytes = (size_t)info.st_size;
    char *data = arena_alloc(a, bytes + 1);
    rewind(f);
    if (fread(data, 1, bytes, f) != bytes)
        return NULL;
    *out_bytes = bytes;
    return data;
}

static bool assemble_by_files(Arena *a, const Cuda *cuda, const Target *target,
                              const char *ptx, uint32_t threads, FILE *files[3],
                              Cubin *out, const char **out_error)
{
    size_t log_bytes = 0;
    const char digit[2] = {digit_of(threads)};
    if (!files[0] || !files[1] || !files[2] || fputs(ptx, files[0]) < 0 ||
        fflush(files[0]) != 0) {
        *out_error = arena_printf(a, "temporary file: %s", strerror(errno));
        return false;
    }
    rewind(files[0]);
    int status =
        run_ptxas(cuda->assembler, target->name, cuda->cuda >= SPLIT_SINCE ? digit : NULL,
                  fileno(files[0]), fileno(files[1]), fileno(files[2]));
    if (status < 0) {
        *out_error =
            arena_printf(a, "cannot run %s: %s", cuda->assembler, strerror(errno));
        return false;
    }
    const char *log = read_all(a, files[2], &log_bytes);
    char *cubin = read_all(a, files[1], &out->bytes);
    out->data = cubin;
    if (status != 0 || !log || !out->data || out->bytes == 0) {
        *out_error = arena_printf(a, "%s: %s", cuda->assembler,
                                  log && *log ? log : "it made no cubin");
        return false;
    }
    note_least_threads(cubin, out->bytes);
    read_log(a, log, out);
    return true;
}

static bool assemble_by_process(Arena *a, const Cuda *cuda, const Target *target,
                                const char *ptx, uint32_t threads, Cubin *out,
                                const char **out_error)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    bool is_done =
        assemble_by_files(a, cuda, target, ptx, threads, files, out, out_error);
    for (int i = 0; i < 3; i++)
        if (files[i])
            fclose(files[i]);
    return is_done;
}

bool assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
              uint32_t threads, Cubin *out, const char **out_error)
{
    *out = (Cubin){0};
    if (cuda->cuda < target->min_cuda) {
        *out_error =
            arena_printf(a, "%s needs CUDA %u.%u; %s is of CUDA %u.%u", target->name,
                         target->min_cuda / 10, target->min_cuda % 10, cuda->assembler,
                         cuda->cuda / 10, cuda->cuda % 10);
        return false;
    }
    if (cuda->kind == ASSEMBLER_NVJITLINK)
        return assemble_in_process(a, cuda, target, ptx, out, out_error);
    return assemble_by_process(a, cuda, target, ptx, threads, out, out_error);
}
