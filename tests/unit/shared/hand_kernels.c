/* See hand_kernels.h. */
#include "tests/unit/shared/hand_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/backend.h"
#include "ir/base/bug.h"
#include "runtime/emu/object.h"

bool hand_kernels_open(HandKernels *h)
{
    const char *error = NULL;
    *h = (HandKernels){.arena = arena_create()};
    if (!cuda_find(h->arena, NULL, ASSEMBLER_ANY, &h->cuda, &error)) {
        print_error("%s\n", error);
        return false;
    }
    h->device = libdevice_open(h->arena, h->cuda.libdevice, &error);
    if (h->device == NULL) {
        print_error("%s\n", error);
        return false;
    }
    h->backend = backend_create(h->arena, h->device);
    return true;
}

void hand_kernels_close(HandKernels *h)
{
    backend_destroy(h->backend);
    libdevice_close(h->device);
    arena_destroy(h->arena);
}

int hand_kernels_set_up(void **state)
{
    static HandKernels h;
    *state = &h;
    return hand_kernels_open(&h) ? 0 : 1;
}

int hand_kernels_tear_down(void **state)
{
    hand_kernels_close(*state);
    return 0;
}

const char *hand_kernels_assemble(HandKernels *h, Kernel *const *kernels, uint32_t count,
                                  const char *gpu, Cubin *out)
{
    Target target;
    const char *error = NULL;
    assert_true(target_find(gpu, &target));
    const char *ptx = backend_ptx(h->backend, kernels, count, &target, h->cuda.ptx);
    if (!assemble(h->arena, &h->cuda, &target, ptx, ASSEMBLE_WHOLE, 1, out, &error))
        fail_msg("%s: %s", gpu, error);
    return ptx;
}

const char *hand_kernels_refusal(HandKernels *h, Kernel *k, const char *gpu)
{
    Target target;
    Escape e;
    assert_true(target_find(gpu, &target));
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        backend_ptx(h->backend, &k, 1, &target, h->cuda.ptx);
        fail();
    }
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_UNSUPPORTED);
    return arena_printf(h->arena, "%s", e.message);
}

bool hand_kernels_run(HandKernels *h, Kernel *k, unsigned sm, const HandRun *run,
                      Finding *finding)
{
    char reason[OBJECT_REASON_BYTES];
    size_t size;
    const void *data = backend_host_object(h->backend, &k, 1, sm, &size);
    Object *object = object_load(data, size, reason);
    if (!object)
        fail_msg("%s", reason);
    const EngineArgument *arguments = ARENA_ARRAY(h->arena, EngineArgument, run->count);
    EngineLaunch launch = {.entry = object_kernel(object, k->name),
                           .name = k->name,
                           .parameters = run->count,
                           .args = run->args,
                           .extents = run->extents,
                           .arguments = arguments,
                           .sites = k->sites,
                           .site_count = (uint32_t)k->site_count,
                           .shared_bytes = k->shared_bytes,
                           .check_races = run->check_races,
                           .check_written = run->check_written,
                           .copies_early = run->copies_early};
    memcpy(launch.grid, k->grid, sizeof launch.grid);
    memcpy(launch.block, k->block, sizeof launch.block);
    assert_non_null(launch.entry);
    bool is_good = engine_run(&launch, finding);
    object_unload(object);
    return is_good;
}

void hand_kernels_run_well(HandKernels *h, Kernel *k, unsigned sm, HandRun run)
{
    Finding finding;
    run.check_races = run.check_written = true;
    bool is_good = hand_kernels_run(h, k, sm, &run, &finding);
    assert_string_equal(finding.text, "");
    assert_true(is_good);
}
