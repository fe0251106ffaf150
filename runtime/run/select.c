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

static gxrt_status capability(const gxrt_session *s, int ordinal, uint32_t *out_sm,
                              char *name, int name_size)
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
        r = s->cuda->device_name(name, name_size, device);
    }
    if (r != CUDA_SUCCESS) {
        const char *words = NULL;
        s->cuda->error_string(r, &words);
        return status_set(GXRT_WRONG_DEVICE, "cuDeviceGet: CUDA device %d: %s", ordinal,
                          words ? words : "unknown error");
    }
    *out_sm = (uint32_t)(major * 10 + minor);
    return GXRT_OK;
}

gxrt_status select_target(const gxrt_session *s, char *target, size_t size)
{
    uint32_t sm = 0;
    char name[256];
    gxrt_status st = capability(s, 0, &sm, name, sizeof name);
    snprintf(target, size, "sm_%u%s", sm,
             sm >= 90 ? "a" : ""); /* since sm_90 all have one */
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

/* The best of the variants whose cubin, or whose PTX, runs on such a GPU. */
static void choose_best(gxrt_session *s, uint32_t sm, bool is_from_ptx)
{
    for (size_t i = 0; i < s->program->variant_count; i++) {
        const Variant *v = &s->program->variants[i];
        const PlanInfo *info = v->plan.info;
        bool runs = is_from_ptx ? program_ptx(v) && select_compiles(info, sm)
                                : select_fits(info, sm);
        if (runs && (!s->variant || rank_of(info) > rank_of(s->plan->info))) {
            s->variant = v;
            s->plan = &v->plan;
            s->is_from_ptx = is_from_ptx;
        }
    }
}

gxrt_status select_variant(gxrt_session *s, const int *ordinals, size_t count)
{
    uint32_t sm = 0;
    char name[256];
    for (size_t i = 0; i < count; i++) {
        uint32_t other = 0;
        gxrt_status st = capability(s, ordinals[i], &other, name, sizeof name);
        if (st != GXRT_OK) {
            return st;
        }
        if (i > 0 && other != sm && !s->cuda->emulated) {
            return status_set(GXRT_WRONG_DEVICE,
                              "the devices differ: CUDA device %d is sm_%u, device %d is "
                              "sm_%u; use equal ones",
                              ordinals[0], sm, ordinals[i], other);
        }
        sm = other;
    }
    snprintf(s->device_name, sizeof s->device_name, "%s", name);
    if (s->cuda->emulated) {
        const char *colon = s->options.device ? strchr(s->options.device, ':') : NULL;
        return select_emulated(s, colon ? colon + 1 : NULL);
    }
    choose_best(s, sm, false);
    if (!s->variant) {
        choose_best(s, sm, true);
    }
    if (!s->variant) {
        char held[512];
        program_targets(s->program, held, sizeof held);
        return status_set(GXRT_WRONG_DEVICE,
                          "%s holds %s, this is sm_%u (%s): compile with --target=sm_%u",
                          file_name(s), held, sm, s->device_name, sm);
    }
    return check_driver(s);
}
