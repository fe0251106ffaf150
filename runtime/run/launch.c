/* Kernel launches. What a launch passes changes only when the caller's buffers do, or when a
 * loop counter is in it: so parameters are computed once for the whole plan (launch_bind), and
 * a launch in the steady state is hardly more than the driver's call. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/session.h"

static gxrt_status encode_map(Device *d, const PlanCommand *c, uint32_t index)
{
    const Plan *p = d->session->plan;
    const PlanTensorMap *t = &p->tensor_maps[index];
    TensorMap *m = &d->tensor_maps[index];
    CUdeviceptr at = slice_address(d, t->slice);
    if (m->address == at) {
        return GXRT_OK;
    }
    const int64_t *n = p->numbers + t->numbers;
    cuuint64_t sizes[5];
    cuuint64_t strides[5] = {0};
    cuuint32_t box[5];
    cuuint32_t steps[5];
    for (uint32_t i = 0; i < t->rank; i++) {
        sizes[i] = (cuuint64_t)n[i];
        box[i] = (cuuint32_t)n[2 * t->rank - 1 + i];
        steps[i] = (cuuint32_t)n[3 * t->rank - 1 + i];
    }
    for (uint32_t i = 0; i + 1 < t->rank; i++) {
        strides[i] = (cuuint64_t)n[t->rank + i];
    }
    CUresult r = d->session->cuda->tensor_map_encode(
        &m->map, (int)t->data_type, t->rank, (void *)(uintptr_t)at, sizes, strides, box,
        steps, (int)t->interleave, (int)t->swizzle, (int)t->l2_promotion,
        (int)t->oob_fill);
    m->address = r == CUDA_SUCCESS ? at : 0;
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuTensorMapEncodeTiled", r);
}

/* Computes one parameter: args number `i` of the plan. */
static gxrt_status set_parameter(Device *d, const PlanCommand *c, uint32_t i)
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
    case PLAN_ARG_TENSOR_MAP:
        return encode_map(d, c, a->index);
    case PLAN_ARG_COUNTER:
        d->slots[i] = (uint64_t)term_value(d, &p->terms[a->index]);
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
    return GXRT_OK;
}

static gxrt_status set_parameters(Device *d, const PlanCommand *c)
{
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < c->arg_count && st == GXRT_OK; i++) {
        st = set_parameter(d, c, c->args + i);
    }
    return st;
}

gxrt_status launch_bind(Device *d)
{
    const Plan *p = d->session->plan;
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < p->commands_count && st == GXRT_OK; i++) {
        if (p->commands[i].kind == PLAN_LAUNCH && !d->has_counters[i]) {
            st = set_parameters(d, &p->commands[i]);
        }
    }
    return st;
}

gxrt_status run_launch(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    if (d->has_counters[c - s->plan->commands]) {
        gxrt_status st = set_parameters(d, c);
        if (st != GXRT_OK) {
            return st;
        }
    }
    CUlaunchConfig *config = &d->launches[c->index].config;
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
    if (k->flags & PLAN_KERNEL_DEPENDENT) {
        attributes[n].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[n++].value.programmaticStreamSerializationAllowed = 1;
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

/* Where the parameter is found, and for the emulator what it may touch. */
static void set_place(Device *d, uint32_t i)
{
    const Plan *p = d->session->plan;
    const PlanArg *a = &p->args[i];
    GxemuParameter touch = {.kind = GXEMU_IMMEDIATE, .access = a->access};
    d->parameters[i] = &d->slots[i];
    if (a->tag == PLAN_ARG_SLICE) {
        touch.kind = GXEMU_POINTER;
        touch.bytes = p->slices[a->index].bytes;
    } else if (a->tag == PLAN_ARG_TENSOR_MAP) {
        CUtensorMap *map = &d->tensor_maps[a->index].map;
        touch.kind = GXEMU_TENSOR_MAP;
        touch.bytes = p->slices[p->tensor_maps[a->index].slice].bytes;
        d->slots[i] = (uintptr_t)map;
        /* the driver copies the 128 bytes, the emulator takes the slot */
        d->parameters[i] = d->emu_parameters ? (void *)&d->slots[i] : (void *)map;
    }
    if (d->emu_parameters) {
        d->emu_parameters[i] = touch;
    }
}

static bool depends_on_counters(const Plan *p, const PlanArg *a)
{
    return a->tag == PLAN_ARG_COUNTER ||
           (a->tag == PLAN_ARG_SLICE && p->slices[a->index].term_count) ||
           (a->tag == PLAN_ARG_TENSOR_MAP &&
            p->slices[p->tensor_maps[a->index].slice].term_count);
}

static void *zeroed(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

bool launch_create(Device *d)
{
    const Plan *p = d->session->plan;
    size_t maps = p->tensor_maps_count * sizeof *d->tensor_maps;
    d->slots = zeroed(p->args_count, sizeof *d->slots);
    d->parameters = zeroed(p->args_count, sizeof *d->parameters);
    d->has_counters = zeroed(p->commands_count, sizeof *d->has_counters);
    d->launches = zeroed(p->kernels_count, sizeof *d->launches);
    d->tensor_maps = aligned_alloc(_Alignof(TensorMap), maps ? maps : sizeof(TensorMap));
    bool ok =
        d->slots && d->parameters && d->has_counters && d->launches && d->tensor_maps;
    if (ok && d->session->cuda->emulated) {
        d->emu_parameters = zeroed(p->args_count, sizeof *d->emu_parameters);
        ok = d->emu_parameters != NULL;
    }
    if (!ok) {
        return false;
    }
    memset(d->tensor_maps, 0, maps);
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        set_config(&p->kernels[i], &d->launches[i]);
    }
    for (uint32_t i = 0; i < p->commands_count; i++) {
        const PlanCommand *c = &p->commands[i];
        for (uint32_t k = 0; c->kind == PLAN_LAUNCH && k < c->arg_count; k++) {
            set_place(d, c->args + k);
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
    free(d->tensor_maps);
    free(d->emu_parameters);
}
