/* PTX to cubin. All assemblers get -v, whose lines on registers and spills are read back. */
#include "codegen/assembler/assemble.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/assembler/assemblers.h"

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

uint32_t kernel_use_spills(const KernelUse *use)
{
    return use->spill_stores + use->spill_loads;
}

typedef struct Uses {
    Arena *arena;
    KernelUse *data;
    size_t capacity, count;
} Uses;

static KernelUse *add_use(Uses *u, const char *name)
{
    u->data = arena_grow(u->arena, u->data, &u->capacity, u->count + 1, sizeof *u->data);
    u->data[u->count] = (KernelUse){.name = name};
    return &u->data[u->count++];
}

/* ptxas info : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ... in the
 * function 'name', before or behind what else it says of the kernel. */
static void read_losses(Uses *u, const char *log)
{
    static const char loss[] = "Potential Performance Loss: ",
                      of[] = " in the function '";
    for (const char *line = log, *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        const char *what = strstr(line, loss), *where = what ? strstr(what, of) : NULL;
        if (what == NULL || what >= end)
            continue;
        bool is_named = where != NULL && where < end;
        const char *name = is_named ? quoted(u->arena, where) : "", *stop = end;
        if (is_named)
            stop = where;
        what += sizeof loss - 1;
        const char *text = arena_text(u->arena, what, (size_t)(stop - what));
        KernelUse *use = NULL;
        for (size_t i = 0; i < u->count; i++) {
            if (!is_named || strcmp(u->data[i].name, name) == 0) {
                use = &u->data[i];
                use->loss = text;
            }
        }
        if (use == NULL)
            add_use(u, name)->loss = text;
    }
}

void assembler_read_log(Arena *a, const char *log, Cubin *out)
{
    Uses all = {.arena = a};
    KernelUse *use = NULL;
    for (const char *line = log, *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        const char *entry = strstr(line, "Compiling entry function '");
        if (entry && entry < end)
            use = add_use(&all, quoted(a, entry));
        if (!use)
            continue;
        use->stack += number_before(line, end, " bytes stack frame");
        use->spill_stores += number_before(line, end, " bytes spill stores");
        use->spill_loads += number_before(line, end, " bytes spill loads");
        const char *used = strstr(line, ": Used ");
        if (used && used < end)
            use->registers = (uint32_t)strtoul(used + 7, NULL, 10);
    }
    read_losses(&all, log);
    out->uses = all.data;
    out->use_count = all.count;
}

bool assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
              AssembleForm form, uint32_t threads, Cubin *out, const char **out_error)
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
        return nvjitlink_assemble(a, cuda, target, ptx, form, out, out_error);
    return ptxas_assemble(a, cuda, target, ptx, form, threads, out, out_error);
}

/* The kernels' uses, in the order of the pieces. */
static void join_uses(Arena *a, const Cubin *pieces, size_t count, Cubin *out)
{
    size_t uses = 0;
    for (size_t i = 0; i < count; i++)
        uses += pieces[i].use_count;
    KernelUse *joined = ARENA_ARRAY(a, KernelUse, uses + 1);
    out->uses = joined;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].use_count != 0)
            memcpy(joined + out->use_count, pieces[i].uses,
                   pieces[i].use_count * sizeof *joined);
        out->use_count += pieces[i].use_count;
    }
}

bool assemble_link(Arena *a, const Cuda *cuda, const Target *target, const Cubin *pieces,
                   size_t count, Cubin *out, const char **out_error)
{
    *out = (Cubin){0};
    join_uses(a, pieces, count, out);
    return nvlink_link(a, cuda, target, pieces, count, out, out_error);
}
