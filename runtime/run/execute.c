/* One execution on one device: walk the command tree, queue each command on its stream. No
 * allocation, and no waiting but for predicates and selectors that only the device knows. */
#include <stdlib.h>

#include "runtime/run/annotate.h"
#include "runtime/run/tune.h"

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

int64_t term_value(const Device *d, const PlanTerm *t)
{
    int64_t x =
        (int64_t)(d->counters[t->counter] * (uint64_t)t->scale + (uint64_t)t->bias);
    return clamp(x, t->low, t->high) * t->stride;
}

CUdeviceptr slice_address(const Device *d, uint32_t slice)
{
    const Plan *p = d->session->plan;
    const PlanSlice *s = &p->slices[slice];
    CUdeviceptr at = d->base[s->allocation] + s->offset;
    for (uint32_t i = 0; i < s->term_count; i++) {
        at += (CUdeviceptr)term_value(d, &p->terms[s->terms + i]);
    }
    return at;
}

gxrt_status command_error(Device *d, const PlanCommand *c, const char *call, CUresult r)
{
    const Plan *p = d->session->plan;
    const char *subject = plan_command_subject(p, c);
    char what[512];
    snprintf(what, sizeof what, "command %u (%s%s%s) of HLO instruction %s",
             (unsigned)(c - p->commands), plan_command_name(c->kind),
             subject[0] ? " " : "", subject,
             p->strings[c->name] ? plan_text(p, c->name) : "(unnamed)");
    return device_error(d, call, r, what);
}

gxrt_status library_error(Device *d, const PlanCommand *c, const char *said)
{
    const Plan *p = d->session->plan;
    char report[DEVICE_REPORT];
    device_report(d, report);
    return status_set(GXRT_DEVICE_FAILED,
                      "%s%s in command %u (%s) of HLO instruction %s on device %u",
                      report, said, (unsigned)(c - p->commands),
                      plan_command_name(c->kind), plan_text(p, c->name), d->number);
}

/* --- copies and fills ------------------------------------------------------------------------- */

static bool is_host_slice(const Plan *p, uint32_t slice)
{
    return p->allocations[p->slices[slice].allocation].colour == PLAN_HOST_MEMORY;
}

bool is_device_copy(const Plan *p, const PlanCommand *c)
{
    const PlanArg *args = p->args + c->args;
    return !is_host_slice(p, args[0].index) && !is_host_slice(p, args[1].index);
}

gxrt_status run_copy(Device *d, const PlanCommand *c, CUstream stream)
{
    const Plan *p = d->session->plan;
    const PlanArg *args = p->args + c->args;
    uint64_t bytes = p->slices[args[0].index].bytes;
    CUdeviceptr to = slice_address(d, args[0].index);
    CUdeviceptr from = slice_address(d, args[1].index);
    if (bytes == 0 || to == from) {
        return GXRT_OK;
    }
    const CudaApi *cuda = d->session->cuda;
    bool on_device = is_device_copy(p, c);
    CUresult r = on_device ? cuda->copy_on_device(to, from, bytes, stream)
                           : cuda->copy_anywhere(to, from, bytes, stream);
    const char *call = on_device ? "cuMemcpyDtoDAsync" : "cuMemcpyAsync";
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, call, r);
}

uint32_t fill_pattern(const Device *d, const PlanArg *a)
{
    uint32_t partitions = d->session->plan->info->partitions;
    switch (a->tag) {
    case PLAN_ARG_PARTITION:
        return d->number % partitions;
    case PLAN_ARG_REPLICA:
        return d->number / partitions;
    default:
        return (uint32_t)a->value;
    }
}

gxrt_status run_fill(Device *d, const PlanCommand *c, CUstream stream)
{
    const Plan *p = d->session->plan;
    const CudaApi *cuda = d->session->cuda;
    const PlanArg *args = p->args + c->args;
    uint64_t count = p->slices[args[0].index].bytes / c->count;
    CUdeviceptr to = slice_address(d, args[0].index);
    uint32_t pattern = fill_pattern(d, &args[1]);
    CUresult r = CUDA_SUCCESS;
    if (count == 0) {
        return GXRT_OK;
    }
    if (c->count == 1) {
        r = cuda->set_8(to, (unsigned char)pattern, count, stream);
    } else if (c->count == 2) {
        r = cuda->set_16(to, (unsigned short)pattern, count, stream);
    } else {
        r = cuda->set_32(to, pattern, count, stream);
    }
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuMemsetAsync", r);
}

/* --- streams ------------------------------------------------------------------------------ */

gxrt_status record_event(Device *d, const PlanCommand *c, CUevent event, uint32_t stream)
{
    if (d->phase == CAPTURE_UPDATES) {
        return GXRT_OK;
    }
    CUresult r = d->session->cuda->event_record(event, d->streams[stream]);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuEventRecord", r);
}

gxrt_status wait_event(Device *d, const PlanCommand *c, CUevent event, uint32_t stream)
{
    if (d->phase == CAPTURE_UPDATES) {
        return GXRT_OK;
    }
    CUresult r = d->session->cuda->stream_wait(d->streams[stream], event, 0);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuStreamWaitEvent", r);
}

/* Plan streams that are one stream of CUDA are in order with each other. */
bool is_same_stream(const Device *d, uint32_t a, uint32_t b)
{
    return d->streams[a] == d->streams[b];
}

static gxrt_status wait_signals(Device *d, const PlanCommand *c)
{
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < c->wait_count && st == GXRT_OK; i++) {
        uint32_t slot = d->session->plan->refs[c->waits + i];
        uint32_t from = d->signal_stream[slot]; /* PLAN_NONE: every stream is behind it */
        if (from != PLAN_NONE && !is_same_stream(d, from, c->stream)) {
            st = wait_event(d, c, d->signals[slot], c->stream);
        }
    }
    return st;
}

static gxrt_status give_signal(Device *d, const PlanCommand *c)
{
    if (c->signal == PLAN_NONE) {
        return GXRT_OK;
    }
    d->signal_stream[c->signal] = c->stream;
    return record_event(d, c, d->signals[c->signal], c->stream);
}

/* --- timing ------------------------------------------------------------------------------- */

static gxrt_status start_timing(Device *d, const PlanCommand *c)
{
    const CudaApi *cuda = d->session->cuda;
    if (d->timing_count == d->timing_capacity) {
        size_t capacity = d->timing_capacity ? 2 * d->timing_capacity : 256;
        Timing *larger = realloc(d->timings, capacity * sizeof *larger);
        if (!larger) {
            return status_set(GXRT_OUT_OF_MEMORY, "gxrt_profile: no memory");
        }
        d->timings = larger;
        d->timing_capacity = capacity;
    }
    Timing *t = &d->timings[d->timing_count];
    *t = (Timing){.command = (uint32_t)(c - d->session->plan->commands),
                  .stream = c->stream};
    CUresult r = cuda->event_create(&t->start, CU_EVENT_DEFAULT);
    if (r == CUDA_SUCCESS) {
        d->timing_count++;
        r = cuda->event_create(&t->end, CU_EVENT_DEFAULT);
    }
    if (r == CUDA_SUCCESS) {
        r = cuda->event_record(t->start, d->streams[c->stream]);
    }
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuEventRecord", r);
}

static gxrt_status end_timing(Device *d, const PlanCommand *c)
{
    return record_event(d, c, d->timings[d->timing_count - 1].end, c->stream);
}

/* --- the walk ----------------------------------------------------------------------------- */

static PlanRunCommand *const run_kind[PLAN_COMMAND_KINDS] = {
#define COMMAND(id, name, counts, read, print, subject, order, refusal, node, run)       \
    [PLAN_##id] = run_##run,
#define REGIONS(id, ...)
#include "runtime/plan/commands.def"
};

static PlanStepCommand *const step_kind[PLAN_COMMAND_KINDS] = {
#define REGIONS(id, name, regions, read, print, subject, order, refusal, step)           \
    [PLAN_##id] = step_##step,
#include "runtime/plan/commands.def"
};

gxrt_status run_command(Device *d, const PlanCommand *c, CUstream stream)
{
    return run_kind[c->kind](d, c, stream);
}

gxrt_status step_command(Device *d, const PlanCommand *c, Frame *f)
{
    return step_kind[c->kind](d, c, f);
}

static gxrt_status queue_leaf(Device *d, const PlanCommand *c)
{
    gxrt_status st = wait_signals(d, c);
    if (d->phase != CAPTURE_OFF) {
        st = st == GXRT_OK ? capture_leaf(d, c) : st;
        return st == GXRT_OK ? give_signal(d, c) : st;
    }
    if (st == GXRT_OK && d->tune) {
        st = tune_command(d, c);
    }
    bool timed = d->profiling && plan_command_works(c->kind);
    if (st == GXRT_OK && timed) {
        st = start_timing(d, c);
    }
    st = st == GXRT_OK ? run_command(d, c, d->streams[c->stream]) : st;
    if (st == GXRT_OK && timed) {
        st = end_timing(d, c);
    }
    return st == GXRT_OK ? give_signal(d, c) : st;
}

/* Profilers show the kernels and calls of a range under its name. */
static gxrt_status run_leaf(Device *d, const PlanCommand *c)
{
    bool is_range = plan_command_works(c->kind) &&
                    annotate_begin(plan_text(d->session->plan, c->name));
    gxrt_status st = queue_leaf(d, c);
    if (is_range) {
        annotate_end();
    }
    return st;
}

/* Region f->region is next: its first command. */
static uint32_t enter_region(const Plan *p, const PlanCommand *c, Frame *f)
{
    uint32_t first = f->command + 1;
    for (uint32_t i = 0; i < f->region; i++) {
        first += plan_region_size(p, c, i);
    }
    f->end = first + plan_region_size(p, c, f->region);
    return first;
}

/* A command with regions is reached, or one of its regions has ended. *next: the command that
 * is next; *is_open becomes false when no region is left. */
static gxrt_status step(Device *d, Frame *f, bool reached, uint32_t *next, bool *is_open)
{
    const Plan *p = d->session->plan;
    const PlanCommand *c = &p->commands[f->command];
    gxrt_status st = reached ? wait_signals(d, c) : wait_check(d, plan_text(p, c->name));
    if (st == GXRT_OK) {
        st = d->phase != CAPTURE_OFF ? capture_step(d, c, f) : step_command(d, c, f);
    }
    *is_open = f->region != PLAN_NONE;
    if (*is_open) {
        *next = enter_region(p, c, f);
        return st;
    }
    *next = f->command + c->subtree;
    return st == GXRT_OK ? give_signal(d, c) : st;
}

gxrt_status walk_run(Device *d)
{
    const Plan *p = d->session->plan;
    Frame open[PLAN_MAX_DEPTH + 1]; /* one more: a childless one at the full depth */
    size_t depth = 0;
    uint32_t i = 0;
    gxrt_status st = GXRT_OK;
    while (st == GXRT_OK && (depth > 0 || i < p->commands_count)) {
        bool reached = depth == 0 || open[depth - 1].end != i;
        if (reached && plan_regions(&p->commands[i]) == PLAN_REGIONS_NONE) {
            st = run_leaf(d, &p->commands[i++]);
            continue;
        }
        if (reached) {
            open[depth++] = (Frame){.command = i, .region = PLAN_NONE};
        }
        bool is_open = true;
        st = step(d, &open[depth - 1], reached, &i, &is_open);
        depth -= !is_open;
    }
    return st;
}

static void set_streams(Device *d)
{
    d->streams[0] = d->run->stream;
    for (uint32_t i = 1; i < d->session->plan->streams_count; i++) {
        if (d->is_lacking[i]) {
            d->streams[i] = d->streams[0];
        }
    }
}

gxrt_status fork_streams(Device *d, uint32_t stream)
{
    const gxrt_session *s = d->session;
    CUresult r = CUDA_SUCCESS;
    bool recorded = false;
    for (uint32_t i = 0; i < s->plan->streams_count && r == CUDA_SUCCESS; i++) {
        if (is_same_stream(d, stream, i)) {
            continue;
        }
        r = recorded ? CUDA_SUCCESS : s->cuda->event_record(d->fork, d->streams[stream]);
        r = r == CUDA_SUCCESS ? s->cuda->stream_wait(d->streams[i], d->fork, 0) : r;
        recorded = true;
    }
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuStreamWaitEvent", r, "starting");
}

gxrt_status join_streams(Device *d, uint32_t stream)
{
    const gxrt_session *s = d->session;
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 0; i < s->plan->streams_count && r == CUDA_SUCCESS; i++) {
        if (is_same_stream(d, stream, i)) {
            continue;
        }
        r = s->cuda->event_record(d->joins[i], d->streams[i]);
        r = r == CUDA_SUCCESS ? s->cuda->stream_wait(d->streams[stream], d->joins[i], 0)
                              : r;
    }
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuStreamWaitEvent", r, "ending");
}

/* Temporary memory has no contents at the start: the emulator is told, to find reads of it. */
static gxrt_status undefine_temp(Device *d)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; s->cuda->emulated && i < s->plan->allocations_count; i++) {
        const PlanAllocation *a = &s->plan->allocations[i];
        if ((a->kind == PLAN_TEMP || a->kind == PLAN_WORKSPACE) && a->bytes &&
            a->colour != PLAN_HOST_MEMORY) {
            CUresult r = s->cuda->emu_undefine(d->base[i], a->bytes, d->streams[0]);
            if (r != CUDA_SUCCESS) {
                return device_error(d, "gxemuMemUndefine", r, "starting");
            }
        }
    }
    return GXRT_OK;
}

/* What is done at the end, whether all was well or not. The first failure counts, with its words. */
static gxrt_status finish(Device *d, gxrt_status st, gxrt_status (*ending)(Device *))
{
    char text[STATUS_TEXT];
    if (st == GXRT_OK) {
        return ending(d);
    }
    snprintf(text, sizeof text, "%s", gxrt_last_error());
    ending(d);
    return status_set(st, "%s", text);
}

static gxrt_status join_caller(Device *d)
{
    return join_streams(d, 0);
}

/* The session's own streams start after what the caller has queued, and the caller's stream
 * goes on after them; after a failure, too, which may leave the session good: what is queued
 * already still uses the caller's buffers. */
static gxrt_status queue_commands(Device *d)
{
    const Plan *p = d->session->plan;
    bool is_range = annotate_begin(plan_text(p, p->info->module));
    gxrt_status st = fork_streams(d, 0);
    st = st == GXRT_OK ? walk_run(d) : st;
    st = finish(d, st, join_caller);
    if (is_range) {
        annotate_end();
    }
    return st;
}

gxrt_status execute_run(Device *d)
{
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    set_streams(d);
    wait_begin(d);
    st = bind_run(d);
    bool moved = !d->is_bound;
    if (st == GXRT_OK && moved) {
        launch_bind(d);
        d->is_bound = true;
    }
    st = st == GXRT_OK ? undefine_temp(d) : st;
    bool is_graph = false;
    if (st == GXRT_OK && d->capture) {
        st = capture_execute(d, moved, &is_graph);
    }
    if (st == GXRT_OK && !is_graph) {
        st = queue_commands(d);
    }
    st = finish(d, st, wait_mark);
    d->executions += st == GXRT_OK;
    device_leave(d);
    return st;
}
