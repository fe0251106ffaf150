/* Streams: which one each asynchronous start runs on.
 *
 * Computations are visited breadth first from the entry, their instructions in schedule order;
 * a start of a collective takes the next communication stream, any other start the next compute
 * stream, round and round. What is started inside of something asynchronous stays on its stream.
 * What calls a library that has one workspace for the whole plan runs on stream 0, where all its calls do.
 * The frontend attribute _xla_stream_annotation="N" asks for compute stream N, "collective" for
 * a communication stream; _xla_send_recv_pipeline="N" for communication stream N + 1. Plan
 * streams are made when they are first taken; stream 0 is the caller's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/plan/variant.h"
#include "ir/analysis/collective.h"
#include "ir/kernel/library.h"

typedef struct Visit {
    const Computation *comp;
    uint32_t
        scope; /* the stream of what runs it, if that is asynchronous; else PLAN_NONE */
} Visit;

typedef struct Walk {
    Variant *v;
    Visit *queue;
    uint32_t count;
    bool *seen; /* [computations] */
    uint32_t turns[PLAN_STREAM_KINDS];
} Walk;

static uint32_t stream_count(const Variant *v, PlanStreamKind kind)
{
    return kind == PLAN_STREAM_COLLECTIVE ? v->options->communication_streams
                                          : v->options->compute_streams;
}

static uint32_t plan_stream(Variant *v, PlanStreamKind kind, uint32_t index)
{
    uint32_t *known = &v->streams_of[kind][index];
    if (*known == 0) {
        PlanStream s = {.kind = kind, .priority = kind == PLAN_STREAM_COLLECTIVE};
        *known = plan_add_streams(&v->plan, &s, 1);
    }
    return *known;
}

/* What is started communicates: it is a collective, or runs one and nothing else. */
static bool is_communication(const Instruction *start)
{
    if (start->op != OP_ASYNC_START)
        return start->op != OP_COPY_START;
    const Computation *comp = inst_called(start, 0);
    return op_is(comp->root->op, OPF_COLLECTIVE);
}

/* The number in an attribute; false after a message. */
static bool read_index(const Variant *v, const Instruction *start, const char *key,
                       const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || n > UINT32_MAX) {
        diag_error(v->module->diag, start->span, "%s=\"%s\" is no stream", key, text);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

/* Whether the computation, or one that it runs, has a call that shares the workspace. */
static bool shares_workspace(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (library_makes(inst))
            return true;
        bool runs = op_is(inst->op, OPF_CONTROL) || inst->op == OP_ASYNC_START;
        for (uint32_t c = 0; runs && c < inst_called_count(inst); c++) {
            if (shares_workspace(inst_called(inst, c)))
                return true;
        }
    }
    return false;
}

static bool choose(Walk *w, const Instruction *start, uint32_t *out)
{
    static const char annotated[] = "_xla_stream_annotation";
    static const char pipelined[] = "_xla_send_recv_pipeline";
    Variant *v = w->v;
    const char *annotation = inst_frontend_attribute(start, annotated);
    const char *pipeline = inst_frontend_attribute(start, pipelined);
    bool to_collectives = annotation != NULL && strcmp(annotation, "collective") == 0;
    PlanStreamKind kind = to_collectives || is_communication(start)
                              ? PLAN_STREAM_COLLECTIVE
                              : PLAN_STREAM_COMPUTE;
    uint32_t count = stream_count(v, kind), index;
    if (annotation != NULL && !to_collectives) {
        if (!read_index(v, start, annotated, annotation, &index))
            return false;
        if (index >= count) {
            diag_error(v->module->diag, start->span,
                       "%s=\"%s\", but there are %u such streams: raise --set=%s",
                       annotated, annotation, count,
                       kind == PLAN_STREAM_COMPUTE ? "num-compute-streams"
                                                   : "num-communication-streams");
            return false;
        }
    } else if (pipeline != NULL && kind == PLAN_STREAM_COLLECTIVE) {
        if (!read_index(v, start, pipelined, pipeline, &index))
            return false;
        index = index >= count - 1 ? count - 1 : index + 1;
    } else {
        index = w->turns[kind]++ % count;
    }
    bool is_shared =
        start->op == OP_ASYNC_START && shares_workspace(inst_called(start, 0));
    *out = is_shared ? 0 : plan_stream(v, kind, index);
    return true;
}

static void enqueue(Walk *w, const Computation *comp, uint32_t scope)
{
    if (comp->is_fused || w->seen[comp->id])
        return;
    w->seen[comp->id] = true;
    w->queue[w->count++] = (Visit){comp, scope};
}

static bool visit(Walk *w, const Visit *at)
{
    Variant *v = w->v;
    const Computation *comp = at->comp;
    uint32_t *of = ARENA_ARRAY(v->arena, uint32_t, (size_t)comp->instruction_count + 1);
    v->start_streams[comp->id] = of;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        uint32_t scope = at->scope;
        if (op_is(inst->op, OPF_ASYNC_START)) {
            if (scope == PLAN_NONE && !choose(w, inst, &scope))
                return false;
            of[inst->id] = scope;
        }
        if (!op_is(inst->op, OPF_CONTROL) && inst->op != OP_ASYNC_START)
            continue;
        for (uint32_t c = 0; c < inst_called_count(inst); c++)
            enqueue(w, inst_called(inst, c), scope);
    }
    return true;
}

bool variant_assign_streams(Variant *v)
{
    const Module *m = v->module;
    Walk w = {.v = v,
              .queue = ARENA_ARRAY(v->arena, Visit, (size_t)m->computation_count + 1),
              .seen = ARENA_ARRAY(v->arena, bool, (size_t)m->computation_count + 1)};
    v->start_streams =
        ARENA_ARRAY(v->arena, uint32_t *, (size_t)m->computation_count + 1);
    for (int kind = 0; kind < PLAN_STREAM_KINDS; kind++)
        v->streams_of[kind] =
            ARENA_ARRAY(v->arena, uint32_t, stream_count(v, (PlanStreamKind)kind) + 1);
    enqueue(&w, m->entry, PLAN_NONE);
    for (uint32_t i = 0; i < w.count; i++) {
        if (!visit(&w, &w.queue[i]))
            return false;
    }
    return true;
}

uint32_t variant_start_stream(const Variant *v, const Instruction *start)
{
    return v->start_streams[start->parent->id][start->id];
}

uint32_t variant_collective_stream(Variant *v)
{
    if (v->stream != 0 || v->plan.streams_count == 1)
        return v->stream;
    return plan_stream(v, PLAN_STREAM_COLLECTIVE, 0);
}
