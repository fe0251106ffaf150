/* Calls of functions of the caller, by name: the session's options have them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/session.h"

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
        if (!first || first->struct_size < offsetof(gxrt_host_call, described) ||
            first->struct_size % sizeof(size_t) != 0) {
            return status_set(
                GXRT_INVALID_ARGUMENT,
                "gxrt_session_create: host_calls is NULL, or struct_size of "
                "its elements is not set to their size: %zu",
                first ? first->struct_size : 0);
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

/* Of several with one name, the first; NULL: there is none. */
static const gxrt_host_call *find_host_call(const gxrt_session *s, const char *name)
{
    size_t i = 0;
    while (i < s->options.host_call_count &&
           strcmp(host_call_at(s, i)->name, name) != 0) {
        i++;
    }
    return i < s->options.host_call_count ? host_call_at(s, i) : NULL;
}

gxrt_status host_calls_resolve(gxrt_session *s)
{
    const Plan *p = s->plan;
    for (uint32_t i = 0; i < p->commands_count; i++) {
        if (p->commands[i].kind != PLAN_HOST_CALL) {
            continue;
        }
        if (!s->host_calls) {
            s->host_calls = calloc(p->commands_count, sizeof *s->host_calls);
        }
        if (!s->host_calls) {
            return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
        }
        s->host_calls[i] = find_host_call(s, plan_text(p, p->commands[i].index));
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

gxrt_status run_host_call(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    const char *name = plan_text(p, c->index);
    const gxrt_host_call *h = s->host_calls[c - p->commands];
    void *buffers[PLAN_MAX_HOST_BUFFERS];
    uint64_t bytes[PLAN_MAX_HOST_BUFFERS];
    if (h == NULL) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "HLO instruction %s calls the host function %s: give it in the "
                          "session's options",
                          plan_text(p, c->name), name);
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        buffers[i] = (void *)(uintptr_t)slice_address(d, a->index);
        bytes[i] = p->slices[a->index].bytes;
    }
    gxrt_host_arguments a = {.struct_size = sizeof a,
                             .stream = stream,
                             .buffer_count = c->arg_count,
                             .buffers = buffers,
                             .bytes = bytes,
                             .instruction = plan_text(p, c->name)};
    int r = call_function(h, &a, plan_text(p, c->count));
    if (r == 0) {
        return note_written(d, c, stream);
    }
    return status_set(GXRT_HOST_CALL_FAILED,
                      "host call %s of HLO instruction %s returned %d", name,
                      plan_text(p, c->name), r);
}
