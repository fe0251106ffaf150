/* ptxas: PTX to cubin in a process of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codegen/assembler/assemblers.h"

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

static int run_ptxas(const Cuda *cuda, const Target *target, AssembleForm form,
                     uint32_t threads, const ProcessFiles *files, double *seconds)
{
    const char digit[2] = {digit_of(threads)};
    const char *args[16] = {"ptxas",     "-v", "-arch",    target->name,
                            "/dev/fd/3", "-o", "/dev/fd/4"};
    size_t n = 7;
    if (cuda->line_info)
        args[n++] = "-lineinfo";
    if ((form & ASSEMBLE_SPARING) != 0) {
        args[n++] = "-regUsageLevel";
        args[n++] = SPARING_LEVEL;
    }
    if ((form & ASSEMBLE_SIMPLE) != 0)
        args[n++] = "-O1";
    if ((form & ASSEMBLE_PIECE) != 0) /* whole-program code, but a relocatable file */
        args[n++] = "-ewp";
    /* pieces are made side by side already: threads would only take longer together */
    if (cuda->cuda >= SPLIT_SINCE && (form & ASSEMBLE_PIECE) == 0) {
        args[n++] = SPLIT;
        args[n++] = digit;
    }
    return process_run(cuda->assembler, args, files, seconds);
}

static bool assemble_by_files(Arena *a, const Cuda *cuda, const Target *target,
                              const char *ptx, AssembleForm form, uint32_t threads,
                              FILE *files[3], Cubin *out, const char **out_error)
{
    size_t log_bytes = 0;
    if (!files[0] || !files[1] || !files[2] || fputs(ptx, files[0]) < 0 ||
        fflush(files[0]) != 0) {
        *out_error = arena_printf(a, "temporary file: %s", strerror(errno));
        out->failure = ASSEMBLER_LOST;
        return false;
    }
    rewind(files[0]);
    ProcessFiles numbers = {.log = fileno(files[2]),
                            .files = {fileno(files[0]), fileno(files[1])},
                            .file_count = 2,
                            .most_seconds = cuda->most_seconds};
    int status = run_ptxas(cuda, target, form, threads, &numbers, &out->seconds);
    out->failure = process_failure(status);
    if (status < 0) {
        *out_error =
            arena_printf(a, "cannot run %s: %s", cuda->assembler, strerror(errno));
        return false;
    }
    const char *log = process_read(a, files[2], &log_bytes);
    char *cubin = process_read(a, files[1], &out->bytes);
    out->data = cubin;
    if (status != 0 || !log || !out->data || out->bytes == 0) {
        *out_error = arena_printf(a, "%s: %s", cuda->assembler,
                                  process_trouble(status, log, "it made no cubin"));
        if (!log || !out->data)
            out->failure = ASSEMBLER_LOST;
        return false;
    }
    note_least_threads(cubin, out->bytes);
    assembler_read_log(a, log, out);
    return true;
}

bool ptxas_assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
                    AssembleForm form, uint32_t threads, Cubin *out,
                    const char **out_error)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    bool is_done =
        assemble_by_files(a, cuda, target, ptx, form, threads, files, out, out_error);
    for (int i = 0; i < 3; i++)
        if (files[i])
            fclose(files[i]);
    return is_done;
}
