/* Commands with regions: which region is next. The walk (execute.c) asks when it reaches the
 * command and each time a region has ended. The host waits for the device only where a
 * predicate or selector decides. */
#include "runtime/run/session.h"

/* Bytes of a small slice, when the device has come so far. */
static gxrt_status read_back(Device *d, const PlanCommand *c, uint64_t *out_bytes)
{
    const gxrt_session *s = d->session;
    uint32_t slice = s->plan->args[c->args].index;
    CUstream stream = d->streams[c->stream];
    *out_bytes = s->plan->slices[slice].bytes;
    *d->flag = 0;
    CUresult r = wait_stream(d, stream);
    r = r == CUDA_SUCCESS
            ? s->cuda->copy_to_host(d->flag, slice_address(d, slice), *out_bytes, stream)
            : r;
    r = r == CUDA_SUCCESS ? s->cuda->stream_synchronize(stream) : r;
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuMemcpyDtoHAsync", r);
}

/* Before the first region: the counter is 0 and, if the trip count is known, the body is next. */
static void start_while(Device *d, const PlanLoop *l, Frame *f)
{
    if (l->counter != PLAN_NONE) {
        d->counters[l->counter] = 0;
    }
    if (l->trip_count < 0) {
        f->region = PLAN_LOOP_CONDITION;
    } else if (l->trip_count > 0 && l->body_commands > 0) {
        f->region = PLAN_LOOP_BODY;
    }
}

static void end_iteration(Device *d, const PlanLoop *l, Frame *f)
{
    f->iteration++;
    if (l->counter != PLAN_NONE) {
        d->counters[l->counter] = f->iteration;
    }
    if (l->trip_count < 0) {
        f->region = PLAN_LOOP_CONDITION;
    } else if (f->iteration >= (uint64_t)l->trip_count) {
        f->region = PLAN_NONE;
    }
}

gxrt_status step_while(Device *d, const PlanCommand *c, Frame *f)
{
    const PlanLoop *l = &d->session->plan->loops[c->index];
    if (f->region == PLAN_NONE) {
        start_while(d, l, f);
    } else if (f->region == PLAN_LOOP_BODY) {
        end_iteration(d, l, f);
    } else {
        uint64_t bytes;
        gxrt_status st = read_back(d, c, &bytes);
        bool goes_on = st == GXRT_OK && *(const unsigned char *)d->flag != 0;
        f->region = goes_on ? PLAN_LOOP_BODY : PLAN_NONE;
        return st;
    }
    return GXRT_OK;
}

gxrt_status step_conditional(Device *d, const PlanCommand *c, Frame *f)
{
    if (f->region != PLAN_NONE) {
        f->region = PLAN_NONE;
        return GXRT_OK;
    }
    uint64_t bytes;
    gxrt_status st = read_back(d, c, &bytes);
    if (bytes == 1) {
        f->region = *(const unsigned char *)d->flag ? 0 : 1;
    } else {
        f->region = *d->flag < 0 || (uint32_t)*d->flag >= c->count ? c->count - 1
                                                                   : (uint32_t)*d->flag;
    }
    return st;
}

gxrt_status step_call(Device *d, const PlanCommand *c, Frame *f)
{
    (void)d;
    (void)c;
    f->region = f->region == PLAN_NONE ? 0 : PLAN_NONE;
    return GXRT_OK;
}

/* The stream of the children waits for what the starting stream has queued so far; when they
 * are queued, an event says so to whoever is done with them. */
gxrt_status step_async_start(Device *d, const PlanCommand *c, Frame *f)
{
    CUevent started = d->async[2 * c->index], ended = d->async[2 * c->index + 1];
    bool at_start = f->region == PLAN_NONE;
    f->region = at_start ? 0 : PLAN_NONE;
    if (at_start) {
        d->async_stream[c->index] = c->subtree > 1 ? c[1].stream : c->stream;
    }
    uint32_t stream = d->async_stream[c->index];
    if (is_same_stream(d, stream, c->stream)) {
        return GXRT_OK;
    }
    if (!at_start) {
        return record_event(d, c, ended, stream);
    }
    gxrt_status st = record_event(d, c, started, c->stream);
    return st == GXRT_OK ? wait_event(d, c, started, stream) : st;
}

gxrt_status run_async_done(Device *d, const PlanCommand *c, CUstream stream)
{
    (void)stream;
    return is_same_stream(d, d->async_stream[c->index], c->stream)
               ? GXRT_OK
               : wait_event(d, c, d->async[2 * c->index + 1], c->stream);
}
