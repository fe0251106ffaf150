/* Running a session, on all of its devices: gxrt_execute(), and gxrt_profile(), which also says how long each command
 * took. What one device does is in execute.c. */
#include <stdlib.h>

#include "runtime/collective/collective.h"
#include "runtime/run/device.h"
#include "runtime/run/fork.h"
#include "runtime/run/session.h"

static gxrt_status check_all(gxrt_session *s, size_t n, const gxrt_run *runs)
{
    if (!s || !runs) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_execute: NULL session or runs");
    }
    gxrt_status forked = fork_check(s->generation, "gxrt_execute");
    if (forked != GXRT_OK) {
        return forked;
    }
    if (n != s->device_count) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_execute: %zu runs for a session with %zu devices", n,
                          s->device_count);
    }
    gxrt_status verdict = watchdog_verdict(s);
    if (verdict != GXRT_OK) {
        return verdict;
    }
    verdict = session_verdict(s, "gxrt_execute");
    if (verdict != GXRT_OK) {
        return verdict;
    }
    for (size_t i = 0; i < n; i++) {
        Device *d = &s->devices[i];
        d->run = &runs[i];
        gxrt_status st = device_enter(d);
        if (st != GXRT_OK) {
            return st;
        }
        st = check_run(d);
        device_leave(d);
        if (st != GXRT_OK) {
            return st;
        }
    }
    return GXRT_OK;
}

static gxrt_status execute_all(gxrt_session *s)
{
    collective_enter(s);
    gxrt_status st = session_each(s, execute_run);
    collective_leave(s);
    return st;
}

gxrt_status gxrt_execute(gxrt_session *s, size_t n, const gxrt_run *runs)
{
    gxrt_status st = check_all(s, n, runs);
    return st == GXRT_OK ? execute_all(s) : st;
}

static gxrt_status report_timings(Device *d, void (*event)(void *, const gxrt_event *),
                                  void *user)
{
    const gxrt_session *s = d->session;
    for (size_t i = 0; i < d->timing_count; i++) {
        const Timing *t = &d->timings[i];
        const PlanCommand *c = &s->plan->commands[t->command];
        float start = 0;
        float duration = 0;
        CUresult r = s->cuda->event_elapsed(&start, d->timings[0].start, t->start);
        r = r == CUDA_SUCCESS ? s->cuda->event_elapsed(&duration, t->start, t->end) : r;
        if (r != CUDA_SUCCESS) {
            return device_error(d, "cuEventElapsedTime", r, "gxrt_profile");
        }
        gxrt_event e = {.name = plan_text(s->plan, c->name),
                        .kind = plan_command_name(c->kind),
                        .device = d->number,
                        .stream = t->stream,
                        .start_us = 1000.0 * (double)start,
                        .duration_us = 1000.0 * (double)duration,
                        .command = t->command};
        event(user, &e);
    }
    return GXRT_OK;
}

static gxrt_status finish_profile(Device *d, gxrt_status st,
                                  void (*event)(void *, const gxrt_event *), void *user)
{
    d->profiling = false;
    gxrt_status entered = device_enter(d);
    if (entered != GXRT_OK) { /* the session has failed: its end drops them */
        return st == GXRT_OK ? entered : st;
    }
    CUresult r = wait_context(d);
    if (st == GXRT_OK) {
        st = r == CUDA_SUCCESS ? report_timings(d, event, user)
                               : device_error(d, "cuCtxSynchronize", r, "gxrt_profile");
    }
    device_drop_timings(d);
    device_leave(d);
    return st;
}

gxrt_status gxrt_profile(gxrt_session *s, size_t n, const gxrt_run *runs,
                         void (*event)(void *user, const gxrt_event *event), void *user)
{
    if (!event) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_profile: NULL event");
    }
    gxrt_status st = check_all(s, n, runs);
    if (st != GXRT_OK) {
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        s->devices[i].profiling = true;
    }
    st = execute_all(s);
    for (size_t i = 0; i < n; i++) {
        gxrt_status done = finish_profile(&s->devices[i], st, event, user);
        st = st == GXRT_OK ? done : st;
    }
    return st;
}
