/* tileiras: bytecode of CUDA Tile IR to cubin in a process of its own. It finds libnvvm and ptxas of its version
 * by CUDA_HOME; another version's do not do. */
#define _GNU_SOURCE /* environ */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codegen/assembler/assemblers.h"

enum { DEADLINE_SECONDS = 600 };

/* The environment with another CUDA_HOME. */
static char **environment_of(Arena *a, const char *home)
{
    size_t count = 0, n = 0;
    while (environ[count] != NULL)
        count++;
    char **out = ARENA_ARRAY(a, char *, count + 2);
    for (size_t i = 0; i < count; i++) {
        bool is_other = strncmp(environ[i], "CUDA_HOME=", 10) != 0 &&
                        strncmp(environ[i], "CUDA_PATH=", 10) != 0;
        if (is_other)
            out[n++] = environ[i];
    }
    out[n] = arena_printf(a, "CUDA_HOME=%s", home);
    return out;
}

static int run_tileiras(Arena *a, const Cuda *cuda, const Target *target,
                        FILE *const files[3], double *seconds)
{
    const char *gpu = arena_printf(a, "sm_%u", target->sm);
    const char *const args[] = {"tileiras",  "--gpu-name", gpu, "-o",
                                "/dev/fd/4", "/dev/fd/3",  NULL};
    const ProcessFiles f = {.log = fileno(files[2]),
                            .files = {fileno(files[0]), fileno(files[1])},
                            .file_count = 2,
                            .environment = environment_of(a, cuda->tileir_home),
                            .deadline = DEADLINE_SECONDS,
                            .most_seconds = cuda->most_seconds};
    return process_run(cuda->tileiras, args, &f, seconds);
}

static bool assemble_by_files(Arena *a, const Cuda *cuda, const Target *target,
                              const void *bytecode, size_t bytes, FILE *const files[3],
                              Cubin *out, const char **out_error)
{
    if (!files[0] || !files[1] || !files[2] ||
        fwrite(bytecode, 1, bytes, files[0]) != bytes || fflush(files[0]) != 0) {
        *out_error = arena_printf(a, "temporary file: %s", strerror(errno));
        return false;
    }
    int status = run_tileiras(a, cuda, target, files, &out->seconds);
    if (status < 0) {
        *out_error =
            arena_printf(a, "cannot run %s: %s", cuda->tileiras, strerror(errno));
        return false;
    }
    size_t log_bytes = 0;
    const char *log = process_read(a, files[2], &log_bytes);
    out->data = process_read(a, files[1], &out->bytes);
    if (status == 0 && out->data && out->bytes != 0) {
        if (log != NULL)
            assembler_read_log(a, log, out);
        return true;
    }
    *out_error = arena_printf(a, "%s: %s", cuda->tileiras,
                              process_trouble(status, log, "it made no cubin"));
    return false;
}

bool assemble_tileir(Arena *a, const Cuda *cuda, const Target *target,
                     const void *bytecode, size_t bytes, Cubin *out,
                     const char **out_error)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    *out = (Cubin){0};
    bool is_done =
        assemble_by_files(a, cuda, target, bytecode, bytes, files, out, out_error);
    for (int i = 0; i < 3; i++)
        if (files[i])
            fclose(files[i]);
    return is_done;
}
