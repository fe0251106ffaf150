/* nvlink: cubins of pieces to one. It knows files by their suffix, so they lie in a folder of their
 * own for as long as it runs; their names are not in what it writes. */
#define _XOPEN_SOURCE 700 /* P_tmpdir */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/assembler/assemblers.h"

static const char *piece_path(Arena *a, const char *folder, size_t i)
{
    return arena_printf(a, "%s/%zu.cubin", folder, i);
}

static bool write_piece(const char *path, const Cubin *c)
{
    FILE *f = fopen(path, "wb");
    bool done = f != NULL && fwrite(c->data, 1, c->bytes, f) == c->bytes;
    return f != NULL && fclose(f) == 0 && done;
}

/* Sections of code: one for each kernel, at least. 0: it is no whole ELF file. */
static size_t count_code(const Cubin *c)
{
    static const char prefix[] = ".text.";
    const char *data = c->data;
    Elf64_Ehdr h;
    Elf64_Shdr names, s;
    size_t count = 0;
    if (c->bytes < sizeof h)
        return 0;
    memcpy(&h, data, sizeof h);
    if (h.e_shoff > c->bytes || h.e_shnum > (c->bytes - h.e_shoff) / sizeof s ||
        h.e_shstrndx >= h.e_shnum)
        return 0;
    memcpy(&names, data + h.e_shoff + h.e_shstrndx * sizeof s, sizeof names);
    if (names.sh_offset > c->bytes || names.sh_size > c->bytes - names.sh_offset)
        return 0;
    for (size_t i = 0; i < h.e_shnum; i++) {
        memcpy(&s, data + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_name < names.sh_size && names.sh_size - s.sh_name >= sizeof prefix &&
            memcmp(data + names.sh_offset + s.sh_name, prefix, sizeof prefix - 1) == 0)
            count++;
    }
    return count;
}

static bool read_linked(Arena *a, const Cuda *cuda, const char *path, Cubin *out,
                        const char **out_error)
{
    FILE *f = fopen(path, "rb");
    out->data = f != NULL ? process_read(a, f, &out->bytes) : NULL;
    if (f != NULL)
        fclose(f);
    /* a file that it does not know it leaves out without a word */
    if (out->data != NULL && count_code(out) >= out->use_count)
        return true;
    *out_error = arena_printf(a, "%s left out kernels", cuda->linker);
    return false;
}

static bool run_nvlink(Arena *a, const Cuda *cuda, const char *const *args, Cubin *out,
                       const char **out_error)
{
    FILE *log = tmpfile();
    ProcessFiles files = {.log = log != NULL ? fileno(log) : 2,
                          .most_seconds = cuda->most_seconds};
    int status =
        log != NULL ? process_run(cuda->linker, args, &files, &out->seconds) : -1;
    size_t bytes;
    if (status < 0)
        *out_error = arena_printf(a, "cannot run %s: %s", cuda->linker, strerror(errno));
    else if (status != 0)
        *out_error = arena_printf(
            a, "%s: %s", cuda->linker,
            process_trouble(status, process_read(a, log, &bytes), "no word"));
    if (log != NULL)
        fclose(log);
    return status == 0;
}

static bool link_in(Arena *a, const char *folder, const Cuda *cuda, const Target *target,
                    const Cubin *pieces, size_t count, Cubin *out, const char **out_error)
{
    const char *linked = arena_printf(a, "%s/linked", folder);
    const char **args = ARENA_ARRAY(a, const char *, count + 6);
    size_t n = 0;
    args[n++] = "nvlink";
    args[n++] = "-arch";
    args[n++] = target->name;
    args[n++] = "-o";
    args[n++] = linked;
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        args[n++] = piece_path(a, folder, i);
        done = write_piece(args[n - 1], &pieces[i]);
    }
    if (!done)
        *out_error = arena_printf(a, "%s: %s", args[n - 1], strerror(errno));
    done = done && run_nvlink(a, cuda, args, out, out_error) &&
           read_linked(a, cuda, linked, out, out_error);
    for (size_t i = 5; i < n; i++)
        unlink(args[i]);
    unlink(linked);
    return done;
}

bool nvlink_link(Arena *a, const Cuda *cuda, const Target *target, const Cubin *pieces,
                 size_t count, Cubin *out, const char **out_error)
{
    char folder[] = P_tmpdir "/gxc-XXXXXX";
    if (mkdtemp(folder) == NULL) {
        *out_error = arena_printf(a, "%s: %s", folder, strerror(errno));
        return false;
    }
    bool done = link_in(a, folder, cuda, target, pieces, count, out, out_error);
    rmdir(folder);
    return done;
}
