/* See tuning.h. What a candidate writes lies between two zones in which nothing may change. */
#include <stdlib.h>

#include "runtime/run/tuning.h"

enum {
    ZONE = 4096, /* bytes on each side of what a candidate writes */
    FILL = 0xA5  /* in zones, and in results before they are there */
};

const PlanArg *tuning_arg(const Tuning *t, uint32_t i)
{
    return &t->device->session->plan->args[t->command->args + i];
}

static size_t arg_bytes(const Tuning *t, uint32_t i)
{
    return t->device->session->plan->slices[tuning_arg(t, i)->index].bytes;
}

static Region *find_region(Tuning *t, CUdeviceptr at, size_t bytes, bool *overlaps)
{
    for (size_t i = 0; i < t->region_count; i++) {
        Region *r = &t->regions[i];
        *overlaps |= at < r->at + r->bytes && r->at < at + bytes;
        if (at >= r->at && bytes <= r->bytes && at - r->at <= r->bytes - bytes) {
            return r;
        }
    }
    return NULL;
}

/* False: two results lie in one another, or there are too many. */
static bool add_region(Tuning *t, CUdeviceptr at, size_t bytes, bool is_read)
{
    bool overlaps = false;
    Region *r = find_region(t, at, bytes, &overlaps);
    if (r) {
        r->is_read |= is_read;
        return true;
    }
    if (overlaps || t->region_count == TUNING_REGIONS_MOST) {
        return false;
    }
    t->regions[t->region_count++] =
        (Region){.at = at, .bytes = bytes, .is_read = is_read};
    t->result_bytes += bytes;
    return true;
}

/* Where the launch writes, and which of it it reads. False: an operand lies partly in it. */
bool tuning_find_regions(Tuning *t)
{
    bool good = true;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < t->command->arg_count && good; i++) {
            const PlanArg *a = tuning_arg(t, i);
            bool writes = a->tag == PLAN_ARG_SLICE && (a->access & PLAN_WRITE);
            if (a->tag != PLAN_ARG_SLICE || writes != (pass == 0)) {
                continue;
            }
            CUdeviceptr at = slice_address(t->device, a->index);
            bool overlaps = false;
            if (writes) {
                good = add_region(t, at, arg_bytes(t, i), (a->access & PLAN_READ) != 0);
            } else {
                Region *r = find_region(t, at, arg_bytes(t, i), &overlaps);
                good = r || !overlaps;
                if (r) {
                    r->is_read = true;
                }
            }
        }
    }
    return good;
}

gxrt_status tuning_allocate_regions(Tuning *t)
{
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        Region *r = &t->regions[i];
        tuning_driver_ok(
            t, t->device->session->cuda->mem_alloc(&r->block, r->bytes + 2 * ZONE),
            "cuMemAlloc", &st);
    }
    return st;
}

/* Where the command has its operand i: in the tuner's memory, if it is written. */
uint64_t tuning_address(Tuning *t, uint32_t i)
{
    bool overlaps = false;
    CUdeviceptr at = slice_address(t->device, tuning_arg(t, i)->index);
    const Region *r = find_region(t, at, arg_bytes(t, i), &overlaps);
    return r ? r->block + ZONE + (at - r->at) : at;
}

/* As the launch finds them. */
gxrt_status tuning_fill_regions(const Tuning *t)
{
    const CudaApi *cuda = t->device->session->cuda;
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        const Region *r = &t->regions[i];
        size_t all = r->bytes + 2 * ZONE;
        tuning_driver_ok(t, cuda->set_8(r->block, FILL, all, t->stream),
                         "cuMemsetD8Async", &st);
        if (st == GXRT_OK && r->is_read) {
            tuning_driver_ok(
                t, cuda->copy_on_device(r->block + ZONE, r->at, r->bytes, t->stream),
                "cuMemcpyDtoDAsync", &st);
        }
    }
    return st;
}

static bool is_filled(const unsigned char *zone)
{
    size_t i = 0;
    while (i < ZONE && zone[i] == FILL) {
        i++;
    }
    return i == ZONE;
}

/* The results, and whether the zones are as they were. */
gxrt_status tuning_download(const Tuning *t, Trial *trial)
{
    const CudaApi *cuda = t->device->session->cuda;
    unsigned char *zones = malloc(2 * ZONE);
    trial->results = malloc(t->result_bytes + 1);
    gxrt_status st = zones && trial->results
                         ? GXRT_OK
                         : status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    size_t at = 0;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        const Region *r = &t->regions[i];
        const struct {
            void *to;
            CUdeviceptr from;
            size_t bytes;
        } parts[3] = {{zones, r->block, ZONE},
                      {trial->results + at, r->block + ZONE, r->bytes},
                      {zones + ZONE, r->block + ZONE + r->bytes, ZONE}};
        for (int k = 0; k < 3 && st == GXRT_OK; k++) {
            tuning_driver_ok(
                t,
                cuda->copy_to_host(parts[k].to, parts[k].from, parts[k].bytes, t->stream),
                "cuMemcpyDtoHAsync", &st);
        }
        st = st == GXRT_OK ? tuning_wait(t) : st;
        at += r->bytes;
        if (st == GXRT_OK && (!is_filled(zones) || !is_filled(zones + ZONE))) {
            snprintf(trial->failure, sizeof trial->failure,
                     "it writes outside its results");
        }
    }
    free(zones);
    return st;
}

bool tuning_agrees(const Tuning *t, const Trial *x, const Trial *y)
{
    const Plan *p = t->device->session->plan;
    const gxrt_tuner *tuner = t->device->tune->tuner;
    for (uint32_t i = 0; i < t->command->arg_count; i++) {
        const char *dtype = plan_text(p, p->refs[t->tunable->dtypes + i]);
        size_t at = 0;
        if (!*dtype) {
            continue;
        }
        CUdeviceptr address = slice_address(t->device, tuning_arg(t, i)->index);
        const Region *r = t->regions;
        for (; r < t->regions + t->region_count &&
               !(address >= r->at && address < r->at + r->bytes);
             r++) {
            at += r->bytes;
        }
        if (r == t->regions + t->region_count) {
            continue;
        }
        at += address - r->at;
        if (!tuner->agree(tuner->user, dtype, x->results + at, y->results + at,
                          arg_bytes(t, i))) {
            return false;
        }
    }
    return true;
}
