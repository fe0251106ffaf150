/* Choosing a variant, and saying what is wrong when none fits. */
#include "runtime/run/select.h"

#include <stdio.h>
#include <string.h>

bool select_fits(const PlanInfo *target, uint32_t sm)
{
    if (target->suffix == 'a') {
        return target->sm == sm;
    }
    return target->sm / 10 == sm / 10 && target->sm <= sm;
}

bool select_compiles(const PlanInfo *target, uint32_t sm)
{
    return target->suffix == 0 && target->sm <= sm;
}

/* Higher is better: the nearest architecture, then the most special variant of it. */
static uint32_t rank_of(const PlanInfo *target)
{
    return target->sm * 4 + (target->suffix == 'a' ? 2 : target->suffix == 'f' ? 1 : 0);
}

static const char *file_name(const gxrt_session *s)
{
    return s->program->path[0] ? s->program->path : "the program";
}

/* What decides which variant runs on a GPU. */
typedef struct Gpu {
    uint32_t sm;
    int block_shared; /* bytes of shared memory that a block may have */
    char name[256];
} Gpu;

static gxrt_status describe(const gxrt_session *s, int ordinal, Gpu *out)
{
    CUdevice device;
    int major = 0;
    int minor = 0;
    CUresult r = s->cuda->device_get(&device, ordinal);
    if (r == CUDA_SUCCESS) {
        r = s->cuda->device_attribute(
            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    }
    if (r == CUDA_SUCCESS) {
        r = s->cuda->device_attribute(
            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    if (r == CUDA_SUCCESS) {
        r = s->cuda->device_attribute(
            &out->block_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            device);
    }
    if (r == CUDA_SUCCESS) {
        r = s->cuda->device_name(out->name, sizeof out->name, device);
    }
    if (r != CUDA_SUCCESS) {
        const char *words = NULL;
        s->cuda->error_string(r, &words);
        return status_set(GXRT_WRONG_DEVICE, "cuDeviceGet: CUDA device %d: %s", ordinal,
                          words ? words : "unknown error");
    }
    out->sm = (uint32_t)(major * 10 + minor);
    return GXRT_OK;
}

gxrt_status select_target(const gxrt_session *s, char *target, size_t size)
{
    Gpu gpu = {.sm = 0};
    gxrt_status st = describe(s, 0, &gpu);
    snprintf(target, size, "sm_%u%s", gpu.sm,
             gpu.sm >= 90 ? "a" : ""); /* since sm_90 all have one */
    return st;
}

static gxrt_status select_emulated(gxrt_session *s, const char *target)
{
    char held[512];
    program_targets(s->program, held, sizeof held);
    for (size_t i = 0; i < s->program->variant_count; i++) {
        const Variant *v = &s->program->variants[i];
        const char *name = plan_text(&v->plan, v->plan.info->target);
        if ((!target || strcmp(name, target) == 0) &&
            (v->emu.bytes || v->plan.kernels_count == 0)) {
            s->variant = v;
            s->plan = &v->plan;
            return GXRT_OK;
        }
    }
    return status_set(GXRT_WRONG_DEVICE,
                      "%s holds %s, but nothing for the emulator%s%s: compile with "
                      "--target=emu besides",
                      file_name(s), held, target ? " of " : "", target ? target : "");
}

static gxrt_status check_driver(const gxrt_session *s)
{
    int driver = 0;
    uint32_t needed = s->plan->info->min_driver;
    if (s->cuda->driver_version(&driver) != CUDA_SUCCESS || driver >= (int)needed) {
        return GXRT_OK;
    }
    return status_set(GXRT_WRONG_DEVICE,
                      "%s needs a driver for CUDA %u.%u or newer; this one is for CUDA "
                      "%d.%d: update NVIDIA's driver",
                      file_name(s), needed / 1000, needed % 1000 / 10, driver / 1000,
                      driver % 1000 / 10);
}

/* What the kernel that wants most of it wants: sm_86 and sm_89 have less than sm_80, whose code they run, and sm_120 has
 * less than sm_90, of whose PTX the driver makes code for it. */
static uint32_t most_shared(const Plan *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        uint32_t bytes = p->kernels[i].shared_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The best of the variants whose cubin, or whose PTX, runs on such a GPU. *lacking: the shared memory that one of them
 * wants and the GPU does not have; else 0. */
static void choose_best(gxrt_session *s, const Gpu *gpu, bool is_from_ptx,
                        uint32_t *lacking)
{
    for (size_t i = 0; i < s->program->variant_count; i++) {
        const Variant *v = &s->program->variants[i];
        const PlanInfo *info = v->plan.info;
        bool runs = is_from_ptx ? program_ptx(v) && select_compiles(info, gpu->sm)
                                : select_fits(info, gpu->sm);
        uint32_t shared = most_shared(&v->plan);
        if (runs && (int64_t)shared > gpu->block_shared) {
            *lacking = shared;
        } else if (runs && (!s->variant || rank_of(info) > rank_of(s->plan->info))) {
            s->variant = v;
            s->plan = &v->plan;
            s->is_from_ptx = is_from_ptx;
        }
    }
}

static gxrt_status refuse(const gxrt_session *s, const Gpu *gpu, uint32_t lacking)
{
    char held[512], why[128] = "";
    program_targets(s->program, held, sizeof held);
    if (lacking) {
        snprintf(why, sizeof why,
                 ", whose blocks have %d bytes of shared memory and not %u",
                 gpu->block_shared, lacking);
    }
    return status_set(GXRT_WRONG_DEVICE,
                      "%s holds %s, this is sm_%u (%s)%s: compile with --target=sm_%u",
                      file_name(s), held, gpu->sm, gpu->name, why, gpu->sm);
}

gxrt_status select_variant(gxrt_session *s, const int *ordinals, size_t count)
{
    Gpu gpu = {.sm = 0};
    uint32_t lacking = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t before = gpu.sm;
        gxrt_status st = describe(s, ordinals[i], &gpu);
        if (st != GXRT_OK) {
            return st;
        }
        if (i > 0 && gpu.sm != before && !s->cuda->emulated) {
            return status_set(GXRT_WRONG_DEVICE,
                              "the devices differ: CUDA device %d is sm_%u, device %d is "
                              "sm_%u; use equal ones",
                              ordinals[0], before, ordinals[i], gpu.sm);
        }
    }
    snprintf(s->device_name, sizeof s->device_name, "%s", gpu.name);
    if (s->cuda->emulated) {
        const char *colon = s->options.device ? strchr(s->options.device, ':') : NULL;
        return select_emulated(s, colon ? colon + 1 : NULL);
    }
    choose_best(s, &gpu, false, &lacking);
    if (!s->variant) {
        choose_best(s, &gpu, true, &lacking);
    }
    return s->variant ? check_driver(s) : refuse(s, &gpu, lacking);
}
