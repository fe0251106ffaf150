/* Each request is a task: emission, PTX, the emulator's object. See build.h. */
#include "codegen/build/build.h"

#include <string.h>
#include <time.h>

#include "codegen/backend.h"
#include "codegen/build/archive.h"
#include "codegen/build/emission.h"
#include "codegen/build/tasks.h"
#include "ir/bug.h"
#include "ir/text.h"

/* What a thread has to itself. */
typedef struct BuildWorker {
    Arena *arena;
    Backend *backend; /* NULL: none yet, or left behind by an escape out of LLVM */
    double llvm_seconds, emu_seconds;
} BuildWorker;

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void build_kernel(void *user, uint32_t worker, size_t task)
{
    Build *b = user;
    BuildWorker *w = &b->workers[worker];
    const KernelRequest *r = &b->requests[task];
    KernelCode *code = &b->codes[task];
    double t0 = thread_seconds();
    if (w->arena == NULL)
        w->arena = arena_create();
    Backend *backend =
        w->backend != NULL ? w->backend : backend_create(w->arena, b->device);
    w->backend = NULL;
    Kernel *k = emission_run(w->arena, backend_module(backend), r, b->options->contract);
    code->accesses = k->accesses;
    code->ptx = backend_ptx(backend, &k, 1, b->target, b->options->cuda.ptx);
    double t1 = thread_seconds();
    w->llvm_seconds += t1 - t0;
    if (b->options->emu && b->options->stage == STAGE_ARTEFACT)
        code->object =
            backend_host_object(backend, &k, 1, b->target->sm, &code->object_bytes);
    else
        backend_reset(backend);
    w->emu_seconds += thread_seconds() - t1;
    w->backend = backend;
}

static bool open_libdevice(Build *b, const char **out_error)
{
    b->device = libdevice_open(b->arena, b->options->cuda.libdevice, out_error);
    return b->device != NULL;
}

bool build_run(Build *b, const char **out_error)
{
    if (!open_libdevice(b, out_error))
        return false;
    b->codes = ARENA_ARRAY(b->arena, KernelCode, b->count + 1);
    b->worker_count = tasks_workers(b->options->jobs, b->count);
    b->workers = ARENA_ARRAY(b->arena, BuildWorker, b->worker_count);
    tasks_run(b->worker_count, b->count, build_kernel, b);
    for (uint32_t i = 0; i < b->worker_count; i++) {
        b->llvm_seconds += b->workers[i].llvm_seconds;
        b->emu_seconds += b->workers[i].emu_seconds;
    }
    return true;
}

const char *build_text(Build *b, const char **out_error)
{
    if (!open_libdevice(b, out_error))
        return NULL;
    Backend *backend = backend_create(b->arena, b->device);
    for (size_t i = 0; i < b->count; i++)
        emission_run(b->arena, backend_module(backend), &b->requests[i],
                     b->options->contract);
    const char *text = backend_text(backend);
    backend_destroy(backend);
    return text;
}

/* Behind the directives that every module begins with. */
static const char *ptx_body(const char *ptx)
{
    static const char last[] = ".address_size 64\n";
    const char *p = strstr(ptx, last);
    if (p == NULL)
        bug("PTX without an address size");
    return p + sizeof last - 1;
}

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
    Text t;
    text_init(&t, b->arena);
    if (b->count == 0)
        return empty_ptx(b);
    text_string(&t, b->codes[0].ptx);
    for (size_t i = 1; i < b->count; i++)
        text_string(&t, ptx_body(b->codes[i].ptx));
    return t.data;
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
