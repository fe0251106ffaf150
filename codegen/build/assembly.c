/* The assembler is asked once for all kernels of a piece. Those that spill, and those at which it goes on for ever, are
 * assembled again by themselves, so that no other kernel's code depends on them; without nvlink all are. Each call is
 * kept in the cache by itself. See assembly.h. */
#include "codegen/build/assembly.h"

#include <string.h>

#include "codegen/build/ptx.h"
#include "ir/base/clock.h"

enum { ALL_REGISTERS = 240 }; /* from here on ptxas had no choice */

const char *assembly_join(Arena *a, const Build *b, size_t first, size_t count)
{
    const char **texts = ARENA_ARRAY(a, const char *, count);
    for (size_t i = 0; i < count; i++)
        texts[i] = b->codes[first + i].ptx;
    return ptx_join(a, texts, count);
}

static bool call(Assembly *x, const char *ptx, AssembleForm form, Cubin *out,
                 const char **error)
{
    const Build *b = x->build;
    bool has_cache = x->cache->folder != NULL;
    if (has_cache && kernel_cache_find_cubin(x->cache, x->arena, ptx, form, out)) {
        x->counts.cubin_hits++;
        return true;
    }
    double t0 = clock_seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds_now();
    bool is_done = assemble(x->arena, &b->options->cuda, b->target, ptx, form, x->threads,
                            out, error);
    x->seconds += clock_seconds(CLOCK_THREAD_CPUTIME_ID) - t0 + out->seconds;
    x->wall += seconds_now() - wall;
    x->counts.cubin_misses++;
    x->is_lost |= !is_done && out->failure == ASSEMBLER_LOST;
    int failed = has_cache && is_done
                     ? kernel_cache_keep_cubin(x->cache, x->arena, ptx, form, out)
                     : 0;
    x->cache_error = failed != 0 ? failed : x->cache_error;
    return is_done;
}

static bool is_out_of_time(const Cubin *c, bool is_done)
{
    return !is_done && c->failure == ASSEMBLER_OUT_OF_TIME;
}

static void warn(Assembly *x, const char *text)
{
    x->warnings = arena_grow(x->arena, x->warnings, &x->warning_capacity,
                             x->warning_count + 1, sizeof *x->warnings);
    x->warnings[x->warning_count++] = text;
}

/* -- spills ------------------------------------------------------------------------------------- */

static uint64_t spilled_bytes(const Cubin *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->use_count; i++)
        sum += kernel_use_spills(&c->uses[i]);
    return sum;
}

/* Takes what is assembled instead of *out where threads spill less of it: then *is_better. What the assembler refuses,
 * or does not end, was no try; but where it was lost, another time might give another program. */
static bool try_again(Assembly *x, const char *ptx, AssembleForm form, Cubin *out,
                      bool *is_better)
{
    const char *error;
    Cubin again;
    bool is_done = call(x, ptx, form, &again, &error);
    *is_better = is_done && spilled_bytes(&again) < spilled_bytes(out);
    if (*is_better)
        *out = again;
    if (!is_done && again.failure == ASSEMBLER_LOST)
        x->error = error;
    return x->error == NULL;
}

/* ptxas would rather spill a few bytes than have fewer blocks at once, though it has registers left: then it is told
 * that one block will do. Or it spills a few where it has none left, for what it has moved out of loops: then it is told
 * to spare some. */
static bool assemble_again(Assembly *x, const char *ptx, AssembleForm form, Cubin *out)
{
    const char **names = ARENA_ARRAY(x->arena, const char *, out->use_count + 1);
    size_t n = 0;
    for (size_t i = 0; i < out->use_count; i++) {
        const KernelUse *u = &out->uses[i];
        if (kernel_use_spills(u) != 0 && u->registers < ALL_REGISTERS)
            names[n++] = u->name;
    }
    const char *text = ptx_without_limit(x->arena, ptx, names, n);
    bool is_better = false, has_none_left = false;
    if (text != NULL && !try_again(x, text, form, out, &is_better))
        return false;
    for (size_t i = 0; i < out->use_count; i++) {
        const KernelUse *u = &out->uses[i];
        has_none_left |= kernel_use_spills(u) != 0 && u->registers >= ALL_REGISTERS;
    }
    return !has_none_left ||
           try_again(x, is_better ? text : ptx, (AssembleForm)(form | ASSEMBLE_SPARING),
                     out, &is_better);
}

static const KernelUse *use_of(const Cubin *c, const char *name)
{
    for (size_t i = 0; i < c->use_count; i++)
        if (strcmp(c->uses[i].name, name) == 0)
            return &c->uses[i];
    return NULL;
}

/* Kernels of `all` that spill less by themselves, in parts of their own behind that of the others. */
static bool assemble_spilling(Assembly *x, size_t first, size_t count, const Cubin *all)
{
    const Build *b = x->build;
    const char **others = ARENA_ARRAY(x->arena, const char *, count);
    size_t other_count = 0;
    x->part_count = 1;
    for (size_t i = first; i < first + count; i++) {
        const KernelUse *use = use_of(all, b->requests[i].name);
        Cubin own = {.uses = use, .use_count = 1}; /* no data: nothing better yet */
        bool spills = use != NULL && kernel_use_spills(use) != 0;
        if (spills && !assemble_again(x, b->codes[i].ptx, ASSEMBLE_PIECE, &own))
            return false;
        if (own.data != NULL)
            x->parts[x->part_count++] = own;
        else
            others[other_count++] = b->codes[i].ptx;
    }
    x->parts[0] = *all;
    if (x->part_count == 1)
        return true;
    if (other_count != 0)
        return call(x, ptx_join(x->arena, others, other_count), ASSEMBLE_PIECE,
                    &x->parts[0], &x->error);
    x->parts++;
    x->part_count--;
    return true;
}

/* -- without an end ------------------------------------------------------------------------------ */

/* What -O3 did not end. `what` is of it: a kernel's name. */
static bool assemble_simply(Assembly *x, const char *ptx, AssembleForm form,
                            const char *what, Cubin *out)
{
    const Cuda *cuda = &x->build->options->cuda;
    bool is_done = call(x, ptx, (AssembleForm)(form | ASSEMBLE_SIMPLE), out, &x->error);
    if (is_out_of_time(out, is_done))
        x->error =
            arena_printf(x->arena,
                         "%s took more than %u s of processor time for %s, also at -O1, "
                         "and was ended; --max-assembler-seconds=N allows more",
                         cuda->assembler, cuda->most_seconds, what);
    else if (is_done)
        warn(x, arena_printf(x->arena,
                             "%s took more than %u s of processor time for %s and was "
                             "ended: its code is that of -O1, which is slower; "
                             "--max-assembler-seconds=N allows more",
                             cuda->assembler, cuda->most_seconds, what));
    return is_done;
}

static const char *kernel_text(const Assembly *x, size_t i)
{
    return arena_printf(x->arena, "kernel %s", x->build->requests[i].name);
}

/* Each kernel by itself, to find which it is. */
static bool assemble_apart(Assembly *x, size_t first, size_t count)
{
    x->part_count = count;
    for (size_t i = 0; i < count; i++) {
        const char *ptx = x->build->codes[first + i].ptx;
        Cubin *part = &x->parts[i];
        bool is_done = call(x, ptx, ASSEMBLE_PIECE, part, &x->error);
        if (is_out_of_time(part, is_done)) {
            x->error = NULL;
            is_done =
                assemble_simply(x, ptx, ASSEMBLE_PIECE, kernel_text(x, first + i), part);
        } else if (is_done && spilled_bytes(part) != 0)
            is_done = assemble_again(x, ptx, ASSEMBLE_PIECE, part);
        if (!is_done)
            return false;
    }
    return true;
}

/* -- a piece ------------------------------------------------------------------------------------- */

void assembly_run(Assembly *x, size_t first, size_t count, const char *ptx)
{
    const Build *b = x->build;
    AssembleForm form = b->piece_count == 1 ? ASSEMBLE_WHOLE : ASSEMBLE_PIECE;
    bool is_divisible = count > 1 && b->options->cuda.linker != NULL;
    x->parts = ARENA_ARRAY(x->arena, Cubin, count + 1);
    x->part_count = 1;
    bool is_done = call(x, ptx, form, &x->parts[0], &x->error);
    if (is_out_of_time(&x->parts[0], is_done)) {
        x->error = NULL;
        if (is_divisible)
            assemble_apart(x, first, count);
        else
            assemble_simply(x, ptx, form,
                            count == 1
                                ? kernel_text(x, first)
                                : "all kernels, which without nvlink are one text,",
                            &x->parts[0]);
    } else if (is_done && spilled_bytes(&x->parts[0]) != 0) {
        Cubin all = x->parts[0];
        if (is_divisible)
            assemble_spilling(x, first, count, &all);
        else
            assemble_again(x, ptx, form, &x->parts[0]);
    }
}
