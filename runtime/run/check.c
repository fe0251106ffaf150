/* The caller's buffers: checked before anything is queued, then bound to allocations. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/run/session.h"

static gxrt_status bad(const Device *d, const char *what, uint32_t i, const PlanValue *v,
                       const char *why)
{
    const Plan *p = d->session->plan;
    return status_set(GXRT_INVALID_ARGUMENT,
                      "gxrt_execute: device %u, %s %u (%s, %s): %s", d->number, what, i,
                      plan_text(p, v->name), plan_text(p, v->dtype), why);
}

static gxrt_status check_shape(const Device *d, const char *what, uint32_t i,
                               const PlanValue *v, const gxrt_buffer *b)
{
    const Plan *p = d->session->plan;
    char why[256];
    if (b->dtype && strcmp(b->dtype, plan_text(p, v->dtype)) != 0) {
        snprintf(why, sizeof why, "the buffer holds %s", b->dtype);
        return bad(d, what, i, v, why);
    }
    if (!b->dims) {
        return GXRT_OK;
    }
    if (b->rank != v->rank) {
        snprintf(why, sizeof why, "the buffer has rank %u, not %u", b->rank, v->rank);
        return bad(d, what, i, v, why);
    }
    for (uint32_t j = 0; j < v->rank; j++) {
        if (b->dims[j] != p->numbers[v->dims + j]) {
            snprintf(why, sizeof why,
                     "dimension %u of the buffer is %" PRId64 ", not %" PRId64, j,
                     b->dims[j], p->numbers[v->dims + j]);
            return bad(d, what, i, v, why);
        }
    }
    return GXRT_OK;
}

static gxrt_status check_buffer(const Device *d, const char *what, uint32_t i,
                                const PlanValue *v, const gxrt_buffer *b)
{
    const Plan *p = d->session->plan;
    char why[256];
    if (b->struct_size < sizeof *b) {
        return bad(d, what, i, v, "struct_size of its gxrt_buffer is not set");
    }
    if (b->bytes < v->bytes) {
        snprintf(why, sizeof why,
                 "the buffer has %" PRIu64 " bytes, %" PRIu64 " are needed", b->bytes,
                 v->bytes);
        return bad(d, what, i, v, why);
    }
    if (v->bytes == 0) {
        return check_shape(d, what, i, v, b);
    }
    const PlanAllocation *a = &p->allocations[p->slices[v->slice].allocation];
    if (!b->data || (uintptr_t)b->data % a->alignment != 0) {
        snprintf(why, sizeof why, "the buffer is at %p; it must be aligned to %u bytes",
                 b->data, a->alignment);
        return bad(d, what, i, v, why);
    }
    int ordinal = -1;
    CUresult r = d->session->cuda->pointer_attribute(
        &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)b->data);
    if (r != CUDA_SUCCESS) {
        snprintf(
            why, sizeof why,
            "%p is no memory of a device (other memory must be copied first, or pinned "
            "where the type says S(5))",
            b->data);
        return bad(d, what, i, v, why);
    }
    /* of memory of the host the driver names the device that was current when it was pinned */
    if (ordinal != d->ordinal && a->colour != PLAN_HOST_MEMORY) {
        snprintf(why, sizeof why, "the buffer is on CUDA device %d, the run on %d",
                 ordinal, d->ordinal);
        return bad(d, what, i, v, why);
    }
    return check_shape(d, what, i, v, b);
}

static int by_start(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0] ? 1 : x[2] < y[2] ? -1 : x[2] > y[2];
}

/* Whether the buffers with these interval numbers (arguments, then results) may overlap. */
static bool may_overlap(const Plan *p, uint64_t a, uint64_t b)
{
    uint64_t low = a < b ? a : b;
    uint64_t high = a < b ? b : a;
    if (high < p->arguments_count) { /* two that are only read may be the same */
        const PlanValue *x = &p->arguments[low];
        const PlanValue *y = &p->arguments[high];
        return !x->donated && !y->donated && x->alias == PLAN_NONE &&
               y->alias == PLAN_NONE;
    }
    return low < p->arguments_count &&
           p->arguments[low].alias == high - p->arguments_count;
}

/* No result may share bytes with another buffer, but for an alias and its whole partner. */
static gxrt_status check_overlaps(const Device *d)
{
    const Plan *p = d->session->plan;
    const gxrt_run *run = d->run;
    size_t n = 0;
    for (uint32_t i = 0; i < p->arguments_count + p->results_count; i++) {
        bool is_result = i >= p->arguments_count;
        uint32_t k = is_result ? i - p->arguments_count : i;
        const PlanValue *v = is_result ? &p->results[k] : &p->arguments[k];
        const gxrt_buffer *b = is_result ? &run->results[k] : &run->arguments[k];
        if (v->bytes) {
            uint64_t *interval = &d->intervals[3 * n++];
            interval[0] = (uintptr_t)b->data;
            interval[1] = interval[0] + v->bytes;
            interval[2] = i;
        }
    }
    qsort(d->intervals, n, 3 * sizeof(uint64_t), by_start);
    /* `widest` reaches furthest of all before i: if i is clear of it, it is clear of all */
    for (size_t i = 1, widest = 0; i < n; i++) {
        const uint64_t *a = &d->intervals[3 * widest];
        const uint64_t *b = &d->intervals[3 * i];
        bool whole = a[0] == b[0] && a[1] == b[1];
        bool read_only = a[2] < p->arguments_count && b[2] < p->arguments_count;
        if (b[0] < a[1] && (!may_overlap(p, a[2], b[2]) || !(whole || read_only))) {
            return status_set(
                GXRT_INVALID_ARGUMENT,
                "gxrt_execute: device %u: the buffers of %s %u and %s %u "
                "overlap",
                d->number, a[2] < p->arguments_count ? "argument" : "result",
                (unsigned)(a[2] - (a[2] < p->arguments_count ? 0 : p->arguments_count)),
                b[2] < p->arguments_count ? "argument" : "result",
                (unsigned)(b[2] - (b[2] < p->arguments_count ? 0 : p->arguments_count)));
        }
        if (b[1] > a[1]) {
            widest = i;
        }
    }
    return GXRT_OK;
}

static gxrt_status check_must_alias(const Device *d)
{
    const Plan *p = d->session->plan;
    for (uint32_t i = 0; i < p->results_count; i++) {
        const PlanValue *v = &p->results[i];
        if (v->alias_kind == PLAN_ALIAS_MUST &&
            d->run->results[i].data != d->run->arguments[v->alias].data) {
            return bad(d, "result", i, v,
                       "it must be given the buffer of the argument that it aliases");
        }
    }
    return GXRT_OK;
}

/* The same buffers as in the last execution were checked then. */
static bool same_as_before(const Device *d)
{
    const Plan *p = d->session->plan;
    const gxrt_run *run = d->run;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        const gxrt_buffer *b = &run->arguments[i];
        if (b->struct_size < sizeof *b || b->dtype || b->dims ||
            b->bytes < p->arguments[i].bytes ||
            d->checked[i] != (CUdeviceptr)(uintptr_t)b->data) {
            return false;
        }
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        const gxrt_buffer *b = &run->results[i];
        if (b->struct_size < sizeof *b || b->dtype || b->dims ||
            b->bytes < p->results[i].bytes ||
            d->checked[p->arguments_count + i] != (CUdeviceptr)(uintptr_t)b->data) {
            return false;
        }
    }
    return true;
}

/* The handle stands for another stream in each thread: in those of the session's devices, and in the transport's,
 * not for the caller's. */
static bool is_stream_of_others(const gxrt_session *s, const gxrt_run *run)
{
    return run->stream == CU_STREAM_PER_THREAD && (s->device_count > 1 || s->transport);
}

gxrt_status check_run(Device *d)
{
    const Plan *p = d->session->plan;
    const gxrt_run *run = d->run;
    if (run->struct_size < sizeof *run) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_execute: struct_size of the gxrt_run is not set");
    }
    if (is_stream_of_others(d->session, run)) {
        return status_set(
            GXRT_INVALID_ARGUMENT,
            "gxrt_execute: device %u: CU_STREAM_PER_THREAD is another stream "
            "in the threads of a session with several devices or collectives: give a "
            "stream that you have made",
            d->number);
    }
    if (run->argument_count != p->arguments_count ||
        run->result_count != p->results_count) {
        return status_set(
            GXRT_INVALID_ARGUMENT,
            "gxrt_execute: %zu arguments and %zu results were given; %s takes "
            "%u and gives %u",
            run->argument_count, run->result_count, plan_text(p, p->info->module),
            p->arguments_count, p->results_count);
    }
    if ((p->arguments_count && !run->arguments) || (p->results_count && !run->results)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_execute: the gxrt_run has %s, but a count of %u",
                          run->arguments ? "no results" : "no arguments",
                          run->arguments ? p->results_count : p->arguments_count);
    }
    if (same_as_before(d)) {
        return GXRT_OK;
    }
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < p->arguments_count && st == GXRT_OK; i++) {
        st = check_buffer(d, "argument", i, &p->arguments[i], &run->arguments[i]);
    }
    for (uint32_t i = 0; i < p->results_count && st == GXRT_OK; i++) {
        st = check_buffer(d, "result", i, &p->results[i], &run->results[i]);
    }
    st = st == GXRT_OK ? check_must_alias(d) : st;
    st = st == GXRT_OK ? check_overlaps(d) : st;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        d->checked[i] = st == GXRT_OK ? (CUdeviceptr)(uintptr_t)run->arguments[i].data
                                      : ~(CUdeviceptr)0;
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        d->checked[p->arguments_count + i] =
            st == GXRT_OK ? (CUdeviceptr)(uintptr_t)run->results[i].data
                          : ~(CUdeviceptr)0;
    }
    return st;
}

static void bind(Device *d, const PlanValue *v, CUdeviceptr to)
{
    CUdeviceptr *base = &d->base[d->session->plan->slices[v->slice].allocation];
    if (*base != to) {
        *base = to;
        d->is_bound = false;
    }
}

/* An argument whose alias was given another buffer is copied there first, and so kept. */
gxrt_status bind_run(Device *d)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        const PlanValue *v = &p->arguments[i];
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)d->run->arguments[i].data;
        CUdeviceptr to = v->alias == PLAN_NONE
                             ? at
                             : (CUdeviceptr)(uintptr_t)d->run->results[v->alias].data;
        bind(d, v, to);
        if (to != at && v->bytes) {
            CUresult r = s->cuda->copy_anywhere(to, at, v->bytes, d->streams[0]);
            if (r != CUDA_SUCCESS) {
                return device_error(d, "cuMemcpyAsync", r,
                                    "copying an argument that was not donated");
            }
        }
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        const PlanValue *v = &p->results[i];
        if (v->alias == PLAN_NONE) {
            bind(d, v, (CUdeviceptr)(uintptr_t)d->run->results[i].data);
        }
    }
    return GXRT_OK;
}
