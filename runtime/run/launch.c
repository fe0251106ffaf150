/* Kernel launches. What a launch passes changes only when the caller's buffers do, or when a
 * loop counter is in it: so parameters are computed once for the whole plan (launch_bind), and
 * a launch in the steady state is hardly more than the driver's call. */
#include <stdlib.h>

#include "runtime/run/session.h"

/* Computes parameter `i` of the plan's args. */
static void set_parameter(Device *d, uint32_t i)
{
    const Plan *p = d->session->plan;
    const PlanArg *a = &p->args[i];
    switch ((PlanArgTag)a->tag) {
    case PLAN_ARG_SLICE:
        d->slots[i] = slice_address(d, a->index);
        break;
    case PLAN_ARG_IMMEDIATE:
        d->slots[i] = a->value;
        break;
    case PLAN_ARG_PARTITION:
        d->slots[i] = d->number % p->info->partitions;
        break;
    case PLAN_ARG_REPLICA:
        d->slots[i] = d->number / p->info->partitions;
        break;
    case PLAN_ARG_NONE:
    case PLAN_ARG_TAGS:
        break;
    }
}

static void set_parameters(Device *d, const PlanCommand *c)
{
    for (uint32_t i = 0; i < c->arg_count; i++) {
        set_parameter(d, c->args + i);
    }
}

void launch_bind(Device *d)
{
    const Plan *p = d->session->plan;
    for (uint32_t i = 0; i < p->commands_count; i++) {
        if (p->commands[i].kind == PLAN_LAUNCH && !d->has_counters[i]) {
            set_parameters(d, &p->commands[i]);
        }
    }
}

CUlaunchConfig *launch_prepare(Device *d, const PlanCommand *c)
{
    if (d->has_counters[c - d->session->plan->commands]) {
        set_parameters(d, c);
    }
    return &d->launches[c->index].config;
}

gxrt_status run_launch(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    CUlaunchConfig *config = launch_prepare(d, c);
    config->hStream = stream;
    if (!s->cuda->emulated) {
        CUresult r = s->cuda->launch(config, d->functions[c->index],
                                     d->parameters + c->args, NULL);
        return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuLaunchKernelEx", r);
    }
    GxemuLaunch note = {plan_text(s->plan, c->name), d->emu_parameters + c->args,
                        c->arg_count};
    CUresult r = s->cuda->emu_launch(config, d->functions[c->index],
                                     d->parameters + c->args, &note);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "gxemuLaunchKernel", r);
}

/* --- tables -------------------------------------------------------------------------------- */

static void set_config(const PlanKernel *k, Launch *l)
{
    CUlaunchAttribute *attributes = l->attributes;
    unsigned n = 0;
    if (k->cluster[0] * k->cluster[1] * k->cluster[2] > 1) {
        attributes[n].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[n].value.clusterDim.x = k->cluster[0];
        attributes[n].value.clusterDim.y = k->cluster[1];
        attributes[n++].value.clusterDim.z = k->cluster[2];
    }
    if (k->flags & PLAN_KERNEL_COOPERATIVE) {
        attributes[n].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[n++].value.cooperative = 1;
    }
    l->config = (CUlaunchConfig){.gridDimX = k->grid[0],
                                 .gridDimY = k->grid[1],
                                 .gridDimZ = k->grid[2],
                                 .blockDimX = k->block[0],
                                 .blockDimY = k->block[1],
                                 .blockDimZ = k->block[2],
                                 .sharedMemBytes = k->shared_bytes,
                                 .attrs = attributes,
                                 .numAttrs = n};
}

void launch_use_image(Device *d, const PlanImage *m)
{
    Launch *l = &d->launches[m->kernel];
    l->config = (CUlaunchConfig){.gridDimX = m->blocks,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .attrs = l->attributes};
}

/* The address of the parameter's value, and for the emulator what the kernel may touch. */
static void init_parameter(Device *d, uint32_t i)
{
    const Plan *p = d->session->plan;
    const PlanArg *a = &p->args[i];
    GxemuParameter touch = {.kind = GXEMU_IMMEDIATE, .access = a->access};
    d->parameters[i] = &d->slots[i];
    if (a->tag == PLAN_ARG_SLICE) {
        touch.kind = GXEMU_POINTER;
        touch.bytes = p->slices[a->index].bytes;
    }
    if (d->emu_parameters) {
        d->emu_parameters[i] = touch;
    }
}

static bool depends_on_counters(const Plan *p, const PlanArg *a)
{
    return a->tag == PLAN_ARG_SLICE && p->slices[a->index].term_count;
}

static void *zeroed(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

bool launch_create(Device *d)
{
    const Plan *p = d->session->plan;
    d->slots = zeroed(p->args_count, sizeof *d->slots);
    d->parameters = zeroed(p->args_count, sizeof *d->parameters);
    d->has_counters = zeroed(p->commands_count, sizeof *d->has_counters);
    d->launches = zeroed(p->kernels_count, sizeof *d->launches);
    bool ok = d->slots && d->parameters && d->has_counters && d->launches;
    if (ok && d->session->cuda->emulated) {
        d->emu_parameters = zeroed(p->args_count, sizeof *d->emu_parameters);
        ok = d->emu_parameters != NULL;
    }
    if (!ok) {
        return false;
    }
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        set_config(&p->kernels[i], &d->launches[i]);
    }
    for (uint32_t i = 0; i < p->commands_count; i++) {
        const PlanCommand *c = &p->commands[i];
        for (uint32_t k = 0; c->kind == PLAN_LAUNCH && k < c->arg_count; k++) {
            init_parameter(d, c->args + k);
            d->has_counters[i] |= depends_on_counters(p, &p->args[c->args + k]);
        }
    }
    return true;
}

void launch_destroy(Device *d)
{
    free(d->slots);
    free(d->parameters);
    free(d->has_counters);
    free(d->launches);
    free(d->emu_parameters);
}
