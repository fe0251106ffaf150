/* Loading the kernels of a variant. The cubin is code for its GPU; on a newer one the driver's compiler makes code
 * of the variant's PTX, which takes seconds the first time: the driver keeps what it made. Images replace single
 * kernels: cubins beside the cubin, bytecode of CUDA Tile IR beside the PTX. */
#include "runtime/run/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/launch_limits.h"

/* The version of CUDA that the driver is for: 13010 is 13.1; 0: it does not say. */
static int driver_of(const gxrt_session *s)
{
    int driver = 0;
    return s->cuda->driver_version(&driver) == CUDA_SUCCESS ? driver : 0;
}

static const char *words_of(const gxrt_session *s, CUresult r)
{
    const char *words = NULL;
    s->cuda->error_string(r, &words);
    return words ? words : "refused";
}

static gxrt_status load_cubin(Device *d)
{
    const gxrt_session *s = d->session;
    void *image = program_cubin(s->variant);
    if (!image) {
        return status_set(GXRT_OUT_OF_MEMORY,
                          "gxrt_session_create: no memory for the cubin");
    }
    CUresult r = s->cuda->module_load(&d->module, image);
    free(image);
    if (r == CUDA_SUCCESS) {
        return GXRT_OK;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        return device_error(d, "cuModuleLoadData", r, "loading the kernels");
    }
    const PlanInfo *info = s->plan->info;
    int driver = driver_of(s);
    return status_set(GXRT_WRONG_DEVICE,
                      "cuModuleLoadData: %s: the cubin for %s, made for drivers of CUDA "
                      "%u.%u or newer, does not load on device %d (%s; driver for CUDA "
                      "%d.%d): update the driver, or compile for this GPU",
                      words_of(s, r), plan_text(s->plan, info->target),
                      info->min_driver / 1000, info->min_driver % 1000 / 10, d->ordinal,
                      s->device_name, driver / 1000, driver % 1000 / 10);
}

static gxrt_status refuse_ptx(const Device *d, CUresult r, const char *log)
{
    const gxrt_session *s = d->session;
    int driver = driver_of(s);
    return status_set(GXRT_WRONG_DEVICE,
                      "cuModuleLoadDataEx: %s: the compiler of the driver (CUDA %d.%d) "
                      "does not take the PTX for %s on device %d (%s): update the "
                      "driver, or compile for this GPU%s%s",
                      words_of(s, r), driver / 1000, driver % 1000 / 10,
                      plan_text(s->plan, s->plan->info->target), d->ordinal,
                      s->device_name, log[0] ? "; it says:\n" : "", log);
}

/* All kernels from text, by the driver's compiler. */
static gxrt_status load_ptx(Device *d)
{
    const gxrt_session *s = d->session;
    char log[2048] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUresult r = s->cuda->module_compile(
        &d->module, program_image(s->variant, program_ptx(s->variant)), 2, options,
        values);
    if (r == CUDA_SUCCESS) {
        return GXRT_OK;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        return device_error(d, "cuModuleLoadDataEx", r, "compiling the kernels");
    }
    log[sizeof log - 1] = 0;
    for (size_t n = strlen(log); n && log[n - 1] == '\n';) {
        log[--n] = 0;
    }
    return refuse_ptx(d, r, log);
}

static gxrt_status load_object(Device *d)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    GxemuKernel *kernels = calloc(p->kernels_count, sizeof *kernels);
    if (!kernels) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        const PlanKernel *k = &p->kernels[i];
        kernels[i] =
            (GxemuKernel){.name = plan_text(p, k->name),
                          .flags = k->flags & PLAN_KERNEL_BARRIERS ? GXEMU_BARRIERS : 0,
                          .parameter_count = k->parameter_count,
                          .static_shared_bytes = k->static_shared_bytes};
    }
    CUresult r =
        s->cuda->emu_module_load(&d->module, s->variant->emu.bytes, s->variant->emu.size,
                                 kernels, p->kernels_count);
    free(kernels);
    return r == CUDA_SUCCESS
               ? GXRT_OK
               : device_error(d, "gxemuModuleLoad", r, "loading the emulated kernels");
}

static gxrt_status get_function(Device *d, uint32_t i)
{
    const gxrt_session *s = d->session;
    const PlanKernel *k = &s->plan->kernels[i];
    const char *name = plan_text(s->plan, k->name);
    CUresult r = s->cuda->module_function(&d->functions[i], d->module, name);
    if (r == CUDA_ERROR_NOT_FOUND) {
        return status_set(GXRT_INVALID_FILE,
                          "cuModuleGetFunction: the cubin has no kernel %s that its plan "
                          "launches: compile it again",
                          name);
    }
    if (r == CUDA_SUCCESS && k->shared_bytes > LAUNCH_STATIC_SHARED) {
        r = s->cuda->function_set(d->functions[i],
                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  (int)k->shared_bytes);
    }
    if (r == CUDA_SUCCESS &&
        k->cluster[0] * k->cluster[1] * k->cluster[2] > LAUNCH_PORTABLE_CLUSTER) {
        r = s->cuda->function_set(d->functions[i],
                                  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    }
    return r == CUDA_SUCCESS ? GXRT_OK : device_error(d, "cuModuleGetFunction", r, name);
}

/* The kernel as the image has it, where the driver takes it. */
static gxrt_status load_image(Device *d, uint32_t i)
{
    const gxrt_session *s = d->session;
    const PlanImage *m = &s->plan->images[i];
    const char *name = plan_text(s->plan, s->plan->kernels[m->kernel].name);
    CUfunction function = NULL;
    CUresult r = s->cuda->module_load(&d->images[i], program_image(s->variant, m));
    if (r == CUDA_SUCCESS) {
        r = s->cuda->module_function(&function, d->images[i], name);
    } else {
        d->images[i] = NULL;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        return device_error(d, "cuModuleLoadData", r, name);
    }
    if (r == CUDA_SUCCESS) {
        d->functions[m->kernel] = function;
        launch_use_image(d, m);
    }
    return GXRT_OK;
}

/* Whether the session has a use for the image. Drivers before CUDA 13 do not load what tileiras makes; one of 13.0
 * was seen to run it. Those of 13.1 and newer have a compiler for the bytecode, whose version that is. */
static bool takes_image(const gxrt_session *s, const PlanImage *m)
{
    static const int least_driver[PLAN_IMAGE_KINDS] = {
        [PLAN_IMAGE_CUBIN] = 13000, [PLAN_IMAGE_TILEIR] = 13010};
    uint32_t wanted = s->is_from_ptx ? PLAN_IMAGE_TILEIR : PLAN_IMAGE_CUBIN;
    return !s->cuda->emulated && m->kind == wanted &&
           driver_of(s) >= least_driver[m->kind];
}

gxrt_status modules_load(Device *d)
{
    const gxrt_session *s = d->session;
    if (s->plan->kernels_count == 0) {
        return GXRT_OK;
    }
    gxrt_status st = s->cuda->emulated ? load_object(d)
                     : s->is_from_ptx  ? load_ptx(d)
                                       : load_cubin(d);
    for (uint32_t i = 0; i < s->plan->kernels_count && st == GXRT_OK; i++) {
        st = get_function(d, i);
    }
    for (uint32_t i = 0; i < s->plan->images_count && st == GXRT_OK; i++) {
        st = takes_image(s, &s->plan->images[i]) ? load_image(d, i) : GXRT_OK;
    }
    return st;
}

void modules_unload(Device *d)
{
    const CudaApi *cuda = d->session->cuda;
    for (uint32_t i = 0; d->images && i < d->session->plan->images_count; i++) {
        if (d->images[i]) {
            cuda->module_unload(d->images[i]);
        }
    }
    if (d->module) {
        cuda->module_unload(d->module);
    }
}
