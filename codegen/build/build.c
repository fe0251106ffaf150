/* Tasks: emission, PTX and objects of a few kernels; a piece's assembly once its kernels are there. See
 * build.h. */
#include "codegen/build/build.h"

#include <pthread.h>
#include <string.h>

#include "codegen/backend.h"
#include "codegen/build/archive.h"
#include "codegen/build/assembly.h"
#include "codegen/build/emission.h"
#include "codegen/build/pieces.h"
#include "codegen/build/ptx.h"
#include "codegen/build/tasks.h"
#include "codegen/build/tile_code.h"
#include "codegen/scalar/scalar.h"
#include "ir/base/bug.h"
#include "ir/base/clock.h"
#include "ir/kernel/kind.h"

/* Kernels of a task: LLVM's module begins and ends once for them. More than the least where each thread has several
 * tasks of them. */
enum { BATCH_LEAST = 8, BATCH_MOST = 32, TASKS_OF_A_THREAD = 2 };

/* What a thread has to itself. */
typedef struct BuildWorker {
    Arena *arena;
    Backend *backend; /* NULL: none yet, or left behind by an escape out of LLVM */
    double llvm_seconds, emu_seconds, assembler_seconds, assembler_wall;
    CacheCounts cache;
    int cache_error;
} BuildWorker;

typedef struct Piece {
    size_t first, count; /* kernels */
    size_t made;         /* of them */
    bool has_failed;     /* one of them did */
    Assembly assembly;
} Piece;

typedef enum { TASK_KERNEL, TASK_ASSEMBLY, TASK_TILE } TaskKind;

typedef struct Task {
    TaskKind kind;
    uint32_t piece;
    size_t kernel, count; /* the first; at most BATCH_MOST */
} Task;

typedef struct Schedule {
    Build *build;
    Task *tasks;
    size_t count;
    uint32_t threads; /* of an assembler */
    KernelCache cache;
    size_t made, assembled; /* kernels, pieces */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* `made` or `has_failed` of a piece */
} Schedule;

static double thread_seconds(void)
{
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* -- PTX ---------------------------------------------------------------------------------------- */

/* A program without kernels is a cubin all the same. */
static const char *empty_ptx(Build *b)
{
    Backend *backend = backend_create(b->arena, b->device);
    const char *ptx = backend_ptx(backend, NULL, 0, b->target, b->options->cuda.ptx);
    backend_destroy(backend);
    return ptx;
}

const char *build_ptx(Build *b)
{
    return b->count == 0 ? empty_ptx(b) : assembly_join(b->arena, b, 0, b->count);
}

/* -- tasks -------------------------------------------------------------------------------------- */

/* For a module of `count` kernels. */
static Backend *take_backend(Build *b, BuildWorker *w, size_t count)
{
    Backend *backend =
        w->backend != NULL ? w->backend : backend_create(w->arena, b->device);
    w->backend = NULL;
    backend_expect_no_other(backend, count == b->count && !build_has_objects(b));
    return backend;
}

static Kernel *emit_kernel(Build *b, BuildWorker *w, Backend *backend, size_t i)
{
    Kernel *k = emission_run(w->arena, backend_module(backend), &b->requests[i],
                             b->options->contract, b->lines);
    b->codes[i].accesses = k->accesses;
    return k;
}

static void make_kernel(Build *b, BuildWorker *w, size_t i)
{
    KernelCode *code = &b->codes[i];
    double t0 = thread_seconds();
    Backend *backend = take_backend(b, w, 1);
    Kernel *k = emit_kernel(b, w, backend, i);
    bool has_object = build_has_objects(b);
    code->ptx = (has_object ? backend_ptx : backend_last_ptx)(backend, &k, 1, b->target,
                                                              b->options->cuda.ptx);
    double t1 = thread_seconds();
    w->llvm_seconds += t1 - t0;
    if (has_object)
        code->object =
            backend_host_object(backend, &k, 1, b->target->sm, &code->object_bytes);
    w->emu_seconds += thread_seconds() - t1;
    w->backend = backend;
}

/* Sines and their like reduce large arguments by a function and a table, which kernels of a module would share. */
static bool is_made_alone(const KernelRequest *r)
{
    const Computation *comp = inst_called(r->fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_SINE || inst->op == OP_COSINE || inst->op == OP_TAN)
            return true;
    }
    return false;
}

/* Several kernels in one module of LLVM, whose beginning and end cost as much as a small kernel. Their texts are
 * those of kernels made alone. */
static bool make_together(Build *b, BuildWorker *w, const size_t *list, size_t count)
{
    Kernel *kernels[BATCH_MOST];
    const char *names[BATCH_MOST], *texts[BATCH_MOST];
    double t0 = thread_seconds();
    Backend *backend = take_backend(b, w, count);
    for (size_t i = 0; i < count; i++) {
        kernels[i] = emit_kernel(b, w, backend, list[i]);
        names[i] = kernels[i]->name;
    }
    const char *all =
        backend_last_ptx(backend, kernels, count, b->target, b->options->cuda.ptx);
    bool done = ptx_split(w->arena, all, names, count, texts);
    for (size_t i = 0; i < count && done; i++)
        b->codes[list[i]].ptx = texts[i];
    w->llvm_seconds += thread_seconds() - t0;
    w->backend = backend;
    return done;
}

static void make_kernels(Build *b, BuildWorker *w, const size_t *list, size_t count)
{
    size_t together[BATCH_MOST], n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!build_has_objects(b) && b->lines == NULL &&
            !is_made_alone(&b->requests[list[i]]))
            together[n++] = list[i];
        else
            make_kernel(b, w, list[i]);
    }
    if (n > 1 && make_together(b, w, together, n))
        return;
    for (size_t i = 0; i < n; i++)
        make_kernel(b, w, together[i]);
}

/* Those that the cache lacks are made. */
static void find_or_make_kernels(Schedule *s, BuildWorker *w, const Task *task)
{
    Build *b = s->build;
    size_t missing[BATCH_MOST], count = 0;
    bool has_cache = s->cache.folder != NULL;
    for (size_t i = task->kernel; i < task->kernel + task->count; i++) {
        if (!has_cache ||
            !kernel_cache_find(&s->cache, w->arena, &b->requests[i], &b->codes[i]))
            missing[count++] = i;
    }
    make_kernels(b, w, missing, count);
    w->cache.kernel_hits += has_cache ? task->count - count : 0;
    w->cache.kernel_misses += count;
    for (size_t i = 0; i < count && has_cache; i++) {
        size_t at = missing[i];
        int error =
            kernel_cache_keep(&s->cache, w->arena, &b->requests[at], &b->codes[at]);
        w->cache_error = error != 0 ? error : w->cache_error;
    }
}

/* One more of so many; the mutex is held. */
static void tell(Schedule *s, const char *what, size_t *done, size_t of)
{
    const CodegenOptions *o = s->build->options;
    ++*done;
    if (o->progress != NULL)
        o->progress(o->progress_user, what, *done, of);
}

static void note_kernels(Schedule *s, Piece *p, size_t count, bool has_failed)
{
    pthread_mutex_lock(&s->mutex);
    p->made += count;
    for (size_t i = 0; i < count; i++)
        tell(s, "kernel", &s->made, s->build->count);
    p->has_failed |= has_failed;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void kernel_task(Schedule *s, BuildWorker *w, const Task *task)
{
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        find_or_make_kernels(s, w, task);
    escape_pop(&e);
    note_kernels(s, &s->build->pieces[task->piece], task->count, e.kind != ESCAPE_NONE);
    if (e.kind == ESCAPE_NONE)
        return;
    escape_innermost()->at = e.at;
    escape_throw(e.kind, "%s", e.message);
}

/* Its kernels come before it in the list, so other threads have them; each ends. */
static bool wait_for_kernels(Schedule *s, const Piece *p)
{
    pthread_mutex_lock(&s->mutex);
    while (p->made < p->count)
        pthread_cond_wait(&s->changed, &s->mutex);
    tell(s, "assembler", &s->assembled, s->build->piece_count);
    bool has_failed = p->has_failed;
    pthread_mutex_unlock(&s->mutex);
    return !has_failed;
}

static void assembly_task(Schedule *s, BuildWorker *w, const Task *task)
{
    Build *b = s->build;
    Piece *p = &b->pieces[task->piece];
    if (!wait_for_kernels(s, p))
        return;
    Assembly *x = &p->assembly;
    *x = (Assembly){
        .build = b, .cache = &s->cache, .arena = w->arena, .threads = s->threads};
    assembly_run(x, p->first, p->count,
                 p->count == 0 ? empty_ptx(b)
                               : assembly_join(w->arena, b, p->first, p->count));
    w->assembler_seconds += x->seconds;
    w->assembler_wall += x->wall;
    w->cache.cubin_hits += x->counts.cubin_hits;
    w->cache.cubin_misses += x->counts.cubin_misses;
    w->cache_error = x->cache_error != 0 ? x->cache_error : w->cache_error;
}

/* The cubin of a kernel's bytecode, from the cache where it is there. */
static void assemble_tile(Schedule *s, BuildWorker *w, const KernelRequest *r,
                          TileCode *code)
{
    const Build *b = s->build;
    bool has_cache = s->cache.folder != NULL;
    if (has_cache &&
        kernel_cache_find_tileir(&s->cache, w->arena, code->bytecode,
                                 code->bytecode_bytes, &code->cubin) &&
        cubin_kernel(w->arena, &code->cubin, r->name, &code->kernel)) {
        w->cache.cubin_hits++;
        return;
    }
    double wall = seconds_now();
    tile_code_assemble(w->arena, &b->options->cuda, b->target, r->name, code);
    w->assembler_wall += seconds_now() - wall;
    w->cache.cubin_misses++;
    int error = has_cache && code->cubin.data != NULL
                    ? kernel_cache_keep_tileir(&s->cache, w->arena, code->bytecode,
                                               code->bytecode_bytes, &code->cubin)
                    : 0;
    w->cache_error = error != 0 ? error : w->cache_error;
}

static void tile_task(Schedule *s, BuildWorker *w, const Task *task)
{
    const Build *b = s->build;
    const KernelRequest *r = &b->requests[task->kernel];
    TileCode *code = &b->tiles[task->kernel];
    double t0 = thread_seconds();
    if (tile_code_make(w->arena, b->target, r, code))
        assemble_tile(s, w, r, code);
    w->assembler_seconds += thread_seconds() - t0 + code->cubin.seconds;
}

static void run_task(void *user, uint32_t worker, size_t number)
{
    static void (*const run[])(Schedule *, BuildWorker *,
                               const Task *) = {[TASK_KERNEL] = kernel_task,
                                                [TASK_ASSEMBLY] = assembly_task,
                                                [TASK_TILE] = tile_task};
    Schedule *s = user;
    BuildWorker *w = &s->build->workers[worker];
    const Task *task = &s->tasks[number];
    if (w->arena == NULL)
        w->arena = arena_create();
    run[task->kind](s, w, task);
}

/* -- the whole ---------------------------------------------------------------------------------- */

static void cut_pieces(Build *b)
{
    const Cuda *cuda = &b->options->cuda;
    Pieces cut = pieces_cut(b->arena, b->requests, b->count, cuda->linker != NULL);
    b->piece_count = cut.count;
    b->pieces = ARENA_ARRAY(b->arena, Piece, cut.count);
    for (size_t i = 0; i < cut.count; i++)
        b->pieces[i] =
            (Piece){.first = cut.first[i], .count = cut.first[i + 1] - cut.first[i]};
}

/* CUDA Tile IR makes it besides. */
static bool has_tile_code(const Build *b, size_t i)
{
    return b->options->stage == STAGE_ARTEFACT && kernel_by_tileir(b->requests[i].design);
}

static size_t batch_size(const Build *b)
{
    size_t n = b->count / TASKS_OF_A_THREAD / tasks_workers(b->options->jobs, SIZE_MAX);
    return n < BATCH_LEAST ? BATCH_LEAST : n < BATCH_MOST ? n : BATCH_MOST;
}

/* What takes longest first; kernels in order; the assembly of a piece behind the next one's kernels, when its own are most
 * likely there. */
static void list_tasks(Schedule *s)
{
    Build *b = s->build;
    bool assembles = b->options->stage != STAGE_PTX;
    size_t batch = batch_size(b);
    s->tasks = ARENA_ARRAY(b->arena, Task, 2 * b->count + b->piece_count);
    for (size_t k = 0; k < b->count; k++)
        if (has_tile_code(b, k))
            s->tasks[s->count++] = (Task){.kind = TASK_TILE, .kernel = k};
    for (uint32_t i = 0; i <= b->piece_count; i++) {
        size_t first = i < b->piece_count ? b->pieces[i].first : b->count;
        size_t end = i < b->piece_count ? first + b->pieces[i].count : b->count;
        for (size_t k = first; k < end; k += batch)
            s->tasks[s->count++] = (Task){
                .piece = i, .kernel = k, .count = end - k < batch ? end - k : batch};
        if (assembles && i > 0)
            s->tasks[s->count++] = (Task){.kind = TASK_ASSEMBLY, .piece = i - 1};
    }
}

/* Text of the pieces goes where it outlives them. */
static void add_warnings(Build *b)
{
    size_t count = 0;
    for (size_t i = 0; i < b->piece_count; i++)
        count += b->pieces[i].assembly.warning_count;
    b->warnings = ARENA_ARRAY(b->arena, const char *, count + 1);
    for (size_t i = 0; i < b->piece_count; i++) {
        const Assembly *x = &b->pieces[i].assembly;
        for (size_t k = 0; k < x->warning_count; k++)
            b->warnings[b->warning_count++] =
                arena_text(b->arena, x->warnings[k], strlen(x->warnings[k]));
    }
}

static bool link_pieces(Build *b, const char **out_error)
{
    size_t count = 0;
    for (size_t i = 0; i < b->piece_count; i++) {
        const Assembly *x = &b->pieces[i].assembly;
        count += x->part_count;
        if (x->error != NULL) {
            if (x->is_lost)
                escape_throw(ESCAPE_MEMORY, "%s", x->error);
            *out_error = x->error;
            return false;
        }
    }
    Cubin *cubins = ARENA_ARRAY(b->arena, Cubin, count);
    for (size_t i = 0, n = 0; i < b->piece_count; i++) {
        const Assembly *x = &b->pieces[i].assembly;
        memcpy(cubins + n, x->parts, x->part_count * sizeof *cubins);
        n += x->part_count;
    }
    add_warnings(b);
    b->cubin = cubins[0];
    if (count == 1)
        return true;
    double wall = seconds_now();
    bool done = assemble_link(b->arena, &b->options->cuda, b->target, cubins, count,
                              &b->cubin, out_error);
    b->assembler_seconds += b->cubin.seconds;
    b->assembler_wall += seconds_now() - wall;
    return done;
}

static void run_schedule(Build *b)
{
    Schedule s = {.build = b};
    b->cache_error = kernel_cache_open(&s.cache, b);
    list_tasks(&s);
    uint32_t most = tasks_workers(b->options->jobs, SIZE_MAX);
    b->worker_count = tasks_workers(b->options->jobs, s.count);
    b->workers = ARENA_ARRAY(b->arena, BuildWorker, b->worker_count);
    s.threads = (uint32_t)((most + b->piece_count - 1) / b->piece_count);
    pthread_mutex_init(&s.mutex, NULL);
    pthread_cond_init(&s.changed, NULL);
    tasks_run(b->worker_count, s.count, run_task, &s);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.mutex);
}

/* Functions that kernels call, without those of reducers and complex numbers. */
static void expect_functions(Build *b, const Computation *comp)
{
    bool has_sine = false, has_cosine = false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        const char *name = scalar_function_name(inst->op);
        if (name == NULL || !dtype_is_float(inst->shape->dtype))
            continue;
        bool is_wide = inst->shape->dtype == DT_F64;
        libdevice_expect(b->device, is_wide ? name : arena_printf(b->arena, "%sf", name));
        has_sine |= !is_wide && inst->op == OP_SINE;
        has_cosine |= !is_wide && inst->op == OP_COSINE;
    }
    if (has_sine && has_cosine)
        libdevice_expect(b->device, "sincosf"); /* see gx_join_sines */
}

static bool open_libdevice(Build *b, const char **out_error)
{
    b->device = libdevice_open(b->arena, b->options->cuda.libdevice, out_error);
    for (size_t i = 0; b->device != NULL && i < b->count; i++)
        expect_functions(b, inst_called(b->requests[i].fusion, 0));
    return b->device != NULL;
}

static void add_worker(Build *b, const BuildWorker *w)
{
    b->llvm_seconds += w->llvm_seconds;
    b->emu_seconds += w->emu_seconds;
    b->assembler_seconds += w->assembler_seconds;
    b->assembler_wall += w->assembler_wall;
    b->cache.kernel_hits += w->cache.kernel_hits;
    b->cache.kernel_misses += w->cache.kernel_misses;
    b->cache.cubin_hits += w->cache.cubin_hits;
    b->cache.cubin_misses += w->cache.cubin_misses;
    if (b->cache_error == 0)
        b->cache_error = w->cache_error;
}

bool build_run(Build *b, const char **out_error)
{
    if (!open_libdevice(b, out_error))
        return false;
    b->codes = ARENA_ARRAY(b->arena, KernelCode, b->count + 1);
    b->tiles = ARENA_ARRAY(b->arena, TileCode, b->count + 1);
    cut_pieces(b);
    run_schedule(b);
    for (uint32_t i = 0; i < b->worker_count; i++)
        add_worker(b, &b->workers[i]);
    return b->options->stage == STAGE_PTX || link_pieces(b, out_error);
}

const char *build_text(Build *b, const char **out_error)
{
    if (!open_libdevice(b, out_error))
        return NULL;
    Backend *backend = backend_create(b->arena, b->device);
    for (size_t i = 0; i < b->count; i++)
        emission_run(b->arena, backend_module(backend), &b->requests[i],
                     b->options->contract, b->lines);
    const char *text = backend_text(backend);
    backend_destroy(backend);
    return text;
}

const void *build_objects(Build *b, size_t *out_bytes)
{
    ArchiveMember *members = ARENA_ARRAY(b->arena, ArchiveMember, b->count + 1);
    for (size_t i = 0; i < b->count; i++)
        members[i] = (ArchiveMember){b->codes[i].object, b->codes[i].object_bytes};
    return archive_make(b->arena, members, b->count, out_bytes);
}

void build_destroy(Build *b)
{
    for (uint32_t i = 0; i < b->worker_count; i++) {
        backend_destroy(b->workers[i].backend);
        arena_destroy(b->workers[i].arena);
    }
    libdevice_close(b->device);
}
