/* One execution on one device: walk the command tree, queue each command on its stream. No
 * allocation, and no waiting but for predicates and selectors that only the device knows. */
#include <stdlib.h>
#include <string.h>

#include "runtime/collective/collective.h"
#include "runtime/run/session.h"

/* A command with children that is open: region `region` ends before command `end`. */
typedef struct Open {
    uint32_t command;
    uint32_t region;
    uint32_t end;
    uint64_t iteration; /* of a while: finished ones */
} Open;

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
    char what[512];
    snprintf(what, sizeof what, "command %u (%s%s%s) of HLO instruction %s",
             (unsigned)(c - p->commands), plan_command_name(c->kind),
             c->kind == PLAN_LAUNCH ? " " : "",
             c->kind == PLAN_LAUNCH ? plan_text(p, p->kernels[c->index].name) : "",
             p->strings[c->name] ? plan_text(p, c->name) : "(unnamed)");
    return device_error(d, call, r, what);
}

/* --- leaves ------------------------------------------------------------------------------- */

static gxrt_status copy(Device *d, const PlanCommand *c, CUstream stream)
{
    const Plan *p = d->session->plan;
    const PlanArg *args = p->args + c->args;
    uint64_t bytes = p->slices[args[0].index].bytes;
    CUdeviceptr to = slice_address(d, args[0].index);
    CUdeviceptr from = slice_address(d, args[1].index);
    if (bytes == 0 || to == from) {
        return GXRT_OK;
    }
    CUresult r = d->session->cuda->copy_on_device(to, from, bytes, stream);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuMemcpyDtoDAsync", r);
}

static uint32_t fill_pattern(const Device *d, const PlanArg *a)
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

static gxrt_status fill(Device *d, const PlanCommand *c, CUstream stream)
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

/* `text`: shapes, a line feed, attributes. */
static int call_described(const gxrt_host_call *h, gxrt_host_arguments *a,
                          const char *text)
{
    const char *end = strchr(text, '\n');
    size_t length = end ? (size_t)(end - text) : strlen(text);
    char *shapes = malloc(length + 1);
    if (!shapes) {
        return -1;
    }
    memcpy(shapes, text, length);
    shapes[length] = 0;
    a->shapes = shapes;
    a->attributes = end ? end + 1 : "";
    int r = h->described(h->user, a);
    free(shapes);
    return r;
}

/* The caller's structs may be older and shorter ones, each as long as the first. */
static const gxrt_host_call *host_call_at(const gxrt_session *s, size_t i)
{
    const gxrt_host_call *first = s->options.host_calls;
    return (const gxrt_host_call *)((const char *)first + i * first->struct_size);
}

static bool can_describe(const gxrt_host_call *h)
{
    return h->struct_size >= offsetof(gxrt_host_call, described) + sizeof h->described &&
           h->described;
}

gxrt_status check_host_calls(const gxrt_session *s)
{
    for (size_t i = 0; i < s->options.host_call_count; i++) {
        const gxrt_host_call *first = s->options.host_calls;
        if (!first || first->struct_size < offsetof(gxrt_host_call, described)) {
            return status_set(
                GXRT_INVALID_ARGUMENT,
                "gxrt_session_create: host_calls is NULL, or struct_size of "
                "its elements is not set");
        }
        const gxrt_host_call *h = host_call_at(s, i);
        if (h->struct_size != first->struct_size || !h->name ||
            (!h->function && !can_describe(h))) {
            return status_set(GXRT_INVALID_ARGUMENT,
                              "gxrt_session_create: host call %zu lacks its name, its "
                              "function or its struct_size",
                              i);
        }
    }
    return GXRT_OK;
}

static int call_function(const gxrt_host_call *h, gxrt_host_arguments *a,
                         const char *text)
{
    if (h->function) {
        return h->function(h->user, a->stream, a->buffer_count, a->buffers, a->bytes);
    }
    return call_described(h, a, text);
}

/* What a function of the host has written: the emulator does not see it. */
static gxrt_status note_written(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    for (uint32_t i = 0; s->cuda->emulated && i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        uint64_t bytes = p->slices[a->index].bytes;
        if ((a->access & PLAN_WRITE) == 0 || bytes == 0) {
            continue;
        }
        CUresult r = s->cuda->emu_define(slice_address(d, a->index), bytes, stream);
        if (r != CUDA_SUCCESS) {
            return command_error(d, c, "gxemuMemDefine", r);
        }
    }
    return GXRT_OK;
}

static gxrt_status host_call(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    const char *name = plan_text(p, c->index);
    void *buffers[PLAN_MAX_HOST_BUFFERS];
    uint64_t bytes[PLAN_MAX_HOST_BUFFERS];
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        buffers[i] = (void *)(uintptr_t)slice_address(d, a->index);
        bytes[i] = p->slices[a->index].bytes;
    }
    for (size_t i = 0; i < s->options.host_call_count; i++) {
        const gxrt_host_call *h = host_call_at(s, i);
        if (strcmp(h->name, name) == 0) {
            gxrt_host_arguments a = {.struct_size = sizeof a,
                                     .stream = stream,
                                     .buffer_count = c->arg_count,
                                     .buffers = buffers,
                                     .bytes = bytes,
                                     .instruction = plan_text(p, c->name)};
            int r = call_function(h, &a, plan_text(p, c->count));
            return r == 0 ? note_written(d, c, stream)
                          : status_set(GXRT_HOST_CALL_FAILED,
                                       "host call %s of HLO instruction %s returned %d",
                                       name, plan_text(p, c->name), r);
        }
    }
    return status_set(GXRT_INVALID_ARGUMENT,
                      "HLO instruction %s calls the host function %s: give it in the "
                      "session's options",
                      plan_text(p, c->name), name);
}

/* Bytes of a small slice, when the device has come so far. */
static gxrt_status read_back(Device *d, const PlanCommand *c, uint64_t *out_bytes)
{
    const gxrt_session *s = d->session;
    uint32_t slice = s->plan->args[c->args].index;
    CUstream stream = d->streams[c->stream];
    *out_bytes = s->plan->slices[slice].bytes;
    *d->flag = 0;
    CUresult r =
        s->cuda->copy_to_host(d->flag, slice_address(d, slice), *out_bytes, stream);
    r = r == CUDA_SUCCESS ? s->cuda->stream_synchronize(stream) : r;
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuMemcpyDtoHAsync", r);
}

/* --- streams ------------------------------------------------------------------------------ */

static gxrt_status record(Device *d, const PlanCommand *c, CUevent event, uint32_t stream)
{
    CUresult r = d->session->cuda->event_record(event, d->streams[stream]);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuEventRecord", r);
}

static gxrt_status wait_for(Device *d, const PlanCommand *c, CUevent event,
                            uint32_t stream)
{
    CUresult r = d->session->cuda->stream_wait(d->streams[stream], event, 0);
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuStreamWaitEvent", r);
}

/* Plan streams that are one stream of CUDA are in order with each other. */
static bool is_one(const Device *d, uint32_t a, uint32_t b)
{
    return d->streams[a] == d->streams[b];
}

static gxrt_status wait_signals(Device *d, const PlanCommand *c)
{
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < c->wait_count && st == GXRT_OK; i++) {
        uint32_t slot = d->session->plan->refs[c->waits + i];
        if (!is_one(d, d->signal_stream[slot], c->stream)) {
            st = wait_for(d, c, d->signals[slot], c->stream);
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
    return record(d, c, d->signals[c->signal], c->stream);
}

/* The stream of the async commands waits for what the starting stream has queued so far. */
static gxrt_status async_start(Device *d, const PlanCommand *c)
{
    uint32_t stream = c->subtree > 1 ? c[1].stream : c->stream;
    d->async_stream[c->index] = stream;
    if (is_one(d, stream, c->stream)) {
        return GXRT_OK;
    }
    gxrt_status st = record(d, c, d->async[2 * c->index], c->stream);
    return st == GXRT_OK ? wait_for(d, c, d->async[2 * c->index], stream) : st;
}

static gxrt_status async_started(Device *d, const PlanCommand *c)
{
    return is_one(d, d->async_stream[c->index], c->stream)
               ? GXRT_OK
               : record(d, c, d->async[2 * c->index + 1], d->async_stream[c->index]);
}

static gxrt_status async_done(Device *d, const PlanCommand *c)
{
    return is_one(d, d->async_stream[c->index], c->stream)
               ? GXRT_OK
               : wait_for(d, c, d->async[2 * c->index + 1], c->stream);
}

/* --- timing ------------------------------------------------------------------------------- */

static gxrt_status timing_start(Device *d, const PlanCommand *c)
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

static gxrt_status timing_end(Device *d, const PlanCommand *c)
{
    return record(d, c, d->timings[d->timing_count - 1].end, c->stream);
}

/* --- the walk ----------------------------------------------------------------------------- */

static gxrt_status leaf(Device *d, const PlanCommand *c)
{
    CUstream stream = d->streams[c->stream];
    switch ((PlanCommandKind)c->kind) {
    case PLAN_LAUNCH:
        return launch_call(d, c, stream);
    case PLAN_COPY:
        return copy(d, c, stream);
    case PLAN_FILL:
        return fill(d, c, stream);
    case PLAN_MATMUL:
        return matmul_call(d, c, stream);
    case PLAN_HOST_CALL:
        return host_call(d, c, stream);
    case PLAN_ASYNC_DONE:
        return async_done(d, c);
    case PLAN_COLLECTIVE:
        return collective_call(d, c, stream);
    case PLAN_WHILE:
    case PLAN_CONDITIONAL:
    case PLAN_CALL:
    case PLAN_ASYNC_START:
    case PLAN_COMMAND_KINDS:
        break;
    }
    return GXRT_OK;
}

static gxrt_status run_leaf(Device *d, const PlanCommand *c)
{
    gxrt_status st = wait_signals(d, c);
    bool timed = d->profiling && c->kind != PLAN_ASYNC_DONE;
    if (st == GXRT_OK && timed) {
        st = timing_start(d, c);
    }
    st = st == GXRT_OK ? leaf(d, c) : st;
    if (st == GXRT_OK && timed) {
        st = timing_end(d, c);
    }
    return st == GXRT_OK ? give_signal(d, c) : st;
}

/* Sets the region of an open command, and *next to its first command. */
static void enter_region(Device *d, Open *o, uint32_t region, uint32_t *next)
{
    const Plan *p = d->session->plan;
    const PlanCommand *c = &p->commands[o->command];
    *next = o->command + 1;
    for (uint32_t i = 0; i < region; i++) {
        *next += plan_region_size(p, c, i);
    }
    o->region = region;
    o->end = *next + plan_region_size(p, c, region);
}

static void set_counter(Device *d, const PlanLoop *l, uint64_t value)
{
    if (l->counter != PLAN_NONE) {
        d->counters[l->counter] = value;
    }
}

/* Opens a while: false when its body never runs. */
static bool open_while(Device *d, Open *o, uint32_t *next)
{
    const PlanLoop *l =
        &d->session->plan->loops[d->session->plan->commands[o->command].index];
    set_counter(d, l, 0);
    if (l->trip_count < 0) {
        enter_region(d, o, 0, next);
        return true;
    }
    enter_region(d, o, 1, next);
    return l->trip_count > 0 && l->body_commands > 0;
}

/* The end of a condition or of an iteration; *open becomes false when the loop is done. */
static gxrt_status step_while(Device *d, Open *o, uint32_t *next, bool *open)
{
    const PlanCommand *c = &d->session->plan->commands[o->command];
    const PlanLoop *l = &d->session->plan->loops[c->index];
    *open = true;
    if (o->region == 0) {
        uint64_t bytes;
        gxrt_status st = read_back(d, c, &bytes);
        *open = st == GXRT_OK && *(const unsigned char *)d->flag != 0;
        enter_region(d, o, 1, next);
        return st;
    }
    set_counter(d, l, ++o->iteration);
    if (l->trip_count < 0) {
        enter_region(d, o, 0, next);
    } else {
        enter_region(d, o, 1, next);
        *open = o->iteration < (uint64_t)l->trip_count;
    }
    return GXRT_OK;
}

static gxrt_status open_conditional(Device *d, Open *o, uint32_t *next)
{
    const PlanCommand *c = &d->session->plan->commands[o->command];
    uint64_t bytes;
    gxrt_status st = read_back(d, c, &bytes);
    uint32_t branch = 0;
    if (bytes == 1) {
        branch = *(const unsigned char *)d->flag ? 0 : 1;
    } else {
        branch = *d->flag < 0 || (uint32_t)*d->flag >= c->count ? c->count - 1
                                                                : (uint32_t)*d->flag;
    }
    enter_region(d, o, branch, next);
    return st;
}

/* Opens a command with regions. *open: false when none of them is to run. */
static gxrt_status open_command(Device *d, Open *o, uint32_t *next, bool *open)
{
    const PlanCommand *c = &d->session->plan->commands[o->command];
    gxrt_status st = wait_signals(d, c);
    *open = true;
    if (st != GXRT_OK) {
        return st;
    }
    if (c->kind == PLAN_WHILE) {
        *open = open_while(d, o, next);
        return GXRT_OK;
    }
    if (c->kind == PLAN_CONDITIONAL) {
        return open_conditional(d, o, next);
    }
    enter_region(d, o, 0, next);
    return c->kind == PLAN_ASYNC_START ? async_start(d, c) : GXRT_OK;
}

static gxrt_status close_command(Device *d, const PlanCommand *c)
{
    gxrt_status st = c->kind == PLAN_ASYNC_START ? async_started(d, c) : GXRT_OK;
    return st == GXRT_OK ? give_signal(d, c) : st;
}

static bool has_regions(const PlanCommand *c)
{
    return c->kind == PLAN_WHILE || c->kind == PLAN_CONDITIONAL || c->kind == PLAN_CALL ||
           c->kind == PLAN_ASYNC_START;
}

static gxrt_status walk(Device *d)
{
    const Plan *p = d->session->plan;
    Open open[PLAN_MAX_DEPTH + 1]; /* one more: a childless one at the full depth */
    size_t depth = 0;
    uint32_t i = 0;
    gxrt_status st = GXRT_OK;
    while (st == GXRT_OK && (depth > 0 || i < p->commands_count)) {
        bool goes_on = true;
        if (depth > 0 && open[depth - 1].end == i) {
            Open *o = &open[depth - 1];
            goes_on = false;
            if (p->commands[o->command].kind == PLAN_WHILE) {
                st = step_while(d, o, &i, &goes_on);
            }
        } else if (has_regions(&p->commands[i])) {
            open[depth] = (Open){.command = i};
            st = open_command(d, &open[depth++], &i, &goes_on);
        } else {
            st = run_leaf(d, &p->commands[i]);
            i++;
        }
        if (!goes_on && st == GXRT_OK) {
            const PlanCommand *c = &p->commands[open[--depth].command];
            i = open[depth].command + c->subtree;
            st = close_command(d, c);
        }
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

/* The session's own streams start after what the caller has queued, and the caller's stream
 * goes on after them. */
static gxrt_status fork_streams(Device *d)
{
    const gxrt_session *s = d->session;
    CUresult r = CUDA_SUCCESS;
    bool recorded = false;
    for (uint32_t i = 1; i < s->plan->streams_count && r == CUDA_SUCCESS; i++) {
        if (is_one(d, 0, i)) {
            continue;
        }
        r = recorded ? CUDA_SUCCESS : s->cuda->event_record(d->fork, d->streams[0]);
        r = r == CUDA_SUCCESS ? s->cuda->stream_wait(d->streams[i], d->fork, 0) : r;
        recorded = true;
    }
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuStreamWaitEvent", r, "starting");
}

static gxrt_status join_streams(Device *d)
{
    const gxrt_session *s = d->session;
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 1; i < s->plan->streams_count && r == CUDA_SUCCESS; i++) {
        if (is_one(d, 0, i)) {
            continue;
        }
        r = s->cuda->event_record(d->joins[i], d->streams[i]);
        r = r == CUDA_SUCCESS ? s->cuda->stream_wait(d->streams[0], d->joins[i], 0) : r;
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
        if ((a->kind == PLAN_TEMP || a->kind == PLAN_WORKSPACE) && a->bytes) {
            CUresult r = s->cuda->emu_undefine(d->base[i], a->bytes, d->streams[0]);
            if (r != CUDA_SUCCESS) {
                return device_error(d, "gxemuMemUndefine", r, "starting");
            }
        }
    }
    return GXRT_OK;
}

gxrt_status execute_run(Device *d)
{
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    set_streams(d);
    st = bind_run(d);
    if (st == GXRT_OK && !d->is_bound) {
        st = launch_bind(d);
        d->is_bound = st == GXRT_OK;
    }
    st = st == GXRT_OK ? undefine_temp(d) : st;
    st = st == GXRT_OK ? fork_streams(d) : st;
    st = st == GXRT_OK ? walk(d) : st;
    st = st == GXRT_OK ? join_streams(d) : st;
    d->executions += st == GXRT_OK;
    device_leave(d);
    return st;
}
