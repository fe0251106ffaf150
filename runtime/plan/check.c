/* Proving that a plan's streams are in order: what two commands touch, one of them writing, is
 * touched in a fixed order.
 *
 * The commands are followed as the runtime queues them. Every stream logs its accesses; a
 * vector clock says how much of every other stream's log a stream has waited for. A new access
 * is compared with what the others have logged and its stream does not know: in a plan whose
 * starts and dones come in pairs that is little, so the proof is about linear. A loop's body is
 * followed twice, because an iteration also runs beside the one before it. Vector clocks:
 * Fidge 1988, Mattern 1989. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/plan.h"
#include "runtime/plan/read.h"

enum {
    TWICE_MOST = 8
}; /* nested loops that are followed twice; those around them once */

typedef struct Access {
    uint32_t command;
    uint32_t allocation;
    bool writes;
    uint64_t begin, end;
} Access;

typedef struct Log {
    Access *list;
    uint32_t count, capacity;
} Log;

/* Accesses of branches that do not run when this one does: [begin[s], end[s]) of stream s. */
typedef struct Skip {
    const uint32_t *begin, *end;
    const struct Skip *outer;
} Skip;

typedef struct Check {
    const Plan *p;
    char *error;
    size_t error_size;
    uint32_t streams;
    Log *logs;         /* by stream */
    uint32_t *clock;   /* [stream][other]: so much of the other's log comes before */
    uint32_t *signals; /* [slot][stream]: the clock that was given with it */
    uint32_t *async;   /* [slot][stream]: when what was started ends */
    uint32_t *last;    /* by clique: the stream of its last collective, or PLAN_NONE */
    const Skip *skips; /* NULL: not in a branch */
    uint32_t depth;    /* of loops */
} Check;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
fail(Check *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(k->error, k->error_size, format, args);
    va_end(args);
    return false;
}

/* --- clocks --------------------------------------------------------------------------------- */

static uint32_t *clock_of(Check *k, uint32_t stream)
{
    return k->clock + (size_t)stream * k->streams;
}

static void join(const Check *k, uint32_t *clock, const uint32_t *other)
{
    for (uint32_t i = 0; i < k->streams; i++) {
        clock[i] = other[i] > clock[i] ? other[i] : clock[i];
    }
}

/* What comes before the next command of a stream, its own commands included. */
static void snapshot(Check *k, uint32_t stream, uint32_t *out)
{
    memcpy(out, clock_of(k, stream), k->streams * sizeof *out);
    out[stream] = k->logs[stream].count;
}

static void join_stream(Check *k, uint32_t stream, uint32_t other)
{
    if (stream != other) {
        join(k, clock_of(k, stream), clock_of(k, other));
        clock_of(k, stream)[other] = k->logs[other].count;
    }
}

/* The host has waited for a stream: so have all commands that it queues from now on. */
static void join_host(Check *k, uint32_t waited)
{
    for (uint32_t s = 0; s < k->streams; s++) {
        join_stream(k, s, waited);
    }
}

/* --- accesses ------------------------------------------------------------------------------- */

static const char *name_of(const Check *k, uint32_t command)
{
    return plan_text(k->p, k->p->commands[command].name);
}

static bool conflicts(const Access *a, const Access *b)
{
    return a->allocation == b->allocation && (a->writes || b->writes) &&
           a->begin < b->end && b->begin < a->end;
}

static bool is_skipped(const Check *k, uint32_t stream, uint32_t index)
{
    for (const Skip *skip = k->skips; skip; skip = skip->outer) {
        if (index >= skip->begin[stream] && index < skip->end[stream]) {
            return true;
        }
    }
    return false;
}

static bool log_access(Check *k, uint32_t stream, const Access *a)
{
    Log *own = &k->logs[stream];
    for (uint32_t s = 0; s < k->streams; s++) {
        const Log *other = &k->logs[s];
        for (uint32_t i = clock_of(k, stream)[s]; s != stream && i < other->count; i++) {
            const Access *b = &other->list[i];
            if (conflicts(a, b) && !is_skipped(k, s, i)) {
                return fail(k,
                            "command %u (%s) on stream %u %s bytes [%llu, %llu) of "
                            "allocation %u, which command %u (%s) on stream %u %s: "
                            "nothing says which comes first",
                            a->command, name_of(k, a->command), stream,
                            a->writes ? "writes" : "reads", (unsigned long long)a->begin,
                            (unsigned long long)a->end, a->allocation, b->command,
                            name_of(k, b->command), s, b->writes ? "writes" : "reads");
            }
        }
    }
    if (own->count == own->capacity) {
        uint32_t capacity = own->capacity ? 2 * own->capacity : 256;
        Access *larger = realloc(own->list, capacity * sizeof *larger);
        if (!larger) {
            return fail(k, PLAN_NO_MEMORY " to check the plan");
        }
        own->list = larger;
        own->capacity = capacity;
    }
    own->list[own->count++] = *a;
    return true;
}

/* All bytes that a slice may be, whatever the loop counters are. */
static Access access_of(const Check *k, uint32_t command, uint32_t slice, bool writes)
{
    const PlanSlice *s = &k->p->slices[slice];
    Access a = {.command = command,
                .allocation = s->allocation,
                .writes = writes,
                .begin = s->offset,
                .end = s->offset + s->bytes};
    for (uint32_t i = 0; i < s->term_count; i++) {
        const PlanTerm *t = &k->p->terms[s->terms + i];
        int64_t x = t->low * t->stride;
        int64_t y = t->high * t->stride;
        a.begin += (uint64_t)(x < y ? x : y);
        a.end += (uint64_t)(x < y ? y : x);
    }
    return a;
}

static bool order_accesses(Check *k, uint32_t command)
{
    const Plan *p = k->p;
    const PlanCommand *c = &p->commands[command];
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *arg = &p->args[c->args + i];
        if (arg->tag != PLAN_ARG_SLICE) {
            continue;
        }
        Access a = access_of(k, command, arg->index, (arg->access & PLAN_WRITE) != 0);
        if (!log_access(k, c->stream, &a)) {
            return false;
        }
    }
    return true;
}

/* The runtime makes a collective wait for the one before it on the same communicator, when
 * that is on another stream. */
static bool order_collective(Check *k, uint32_t command)
{
    const PlanCommand *c = &k->p->commands[command];
    uint32_t *last = &k->last[k->p->collectives[c->index].clique];
    if (*last != PLAN_NONE) {
        join_stream(k, c->stream, *last);
    }
    *last = c->stream;
    return order_accesses(k, command);
}

/* --- the walk ------------------------------------------------------------------------------- */

static bool walk(Check *k, uint32_t first, uint32_t end);

static bool is_on_one_stream(const Plan *p, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (p->commands[i].stream != p->commands[first].stream) {
            return false;
        }
    }
    return true;
}

/* The host reads the predicate or selector of a command, and waits for it. */
static bool read_back(Check *k, uint32_t command)
{
    bool ok = order_accesses(k, command);
    join_host(k, k->p->commands[command].stream);
    return ok;
}

static bool order_while(Check *k, uint32_t command)
{
    const PlanCommand *c = &k->p->commands[command];
    const PlanLoop *l = &k->p->loops[c->index];
    uint32_t body = command + 1 + l->condition_commands;
    uint32_t end = body + l->body_commands;
    bool asks = l->trip_count < 0;
    bool alone = is_on_one_stream(k->p, command, end);
    int times = l->trip_count == 0 ? 0 : 1;
    if ((asks || l->trip_count > 1) && !alone && k->depth < TWICE_MOST) {
        times = 2;
    }
    bool ok = true;
    k->depth += !alone;
    for (int i = 0; i < times && ok; i++) {
        ok = (!asks || (walk(k, command + 1, body) && read_back(k, command))) &&
             walk(k, body, end);
    }
    k->depth -= !alone;
    return ok && (!asks || (walk(k, command + 1, body) && read_back(k, command)));
}

/* Nobody outside a branch may rely on what was signalled or started in it. */
static void forget_slots(Check *k, uint32_t first, uint32_t end)
{
    size_t bytes = k->streams * sizeof(uint32_t);
    for (uint32_t i = first; i < end; i++) {
        const PlanCommand *c = &k->p->commands[i];
        if (c->signal != PLAN_NONE) {
            memset(k->signals + (size_t)c->signal * k->streams, 0, bytes);
        }
        if (c->kind == PLAN_ASYNC_START) {
            memset(k->async + (size_t)c->index * k->streams, 0, bytes);
        }
    }
}

/* What the streams know if this branch ran joins what they know if one of those before did. A
 * stream that knows all of another's log would also know what the other branches log. */
static void leave_branch(Check *k, uint32_t *known)
{
    for (uint32_t s = 0; s < k->streams; s++) {
        for (uint32_t o = 0; o < k->streams; o++) {
            uint32_t *cell = &known[(size_t)s * k->streams + o];
            uint32_t here = clock_of(k, s)[o];
            here = s == o || here == k->logs[o].count ? UINT32_MAX : here;
            *cell = here < *cell ? here : *cell;
        }
    }
}

static void note_counts(const Check *k, uint32_t *out)
{
    for (uint32_t s = 0; s < k->streams; s++) {
        out[s] = k->logs[s].count;
    }
}

/* Each branch starts from the state before the conditional, and skips what those before it
 * have logged. `scratch`: two clocks and two rows of counts. */
static bool walk_branches(Check *k, uint32_t command, uint32_t *scratch)
{
    const PlanCommand *c = &k->p->commands[command];
    size_t cells = (size_t)k->streams * k->streams;
    uint32_t *before = scratch;
    uint32_t *known = scratch + cells;
    Skip skip = {known + cells, known + cells + k->streams, k->skips};
    uint32_t at = command + 1;
    bool ok = true;
    memcpy(before, k->clock, cells * sizeof *before);
    memset(known, 0xff, cells * sizeof *known);
    note_counts(k, scratch + 2 * cells);
    for (uint32_t i = 0; i < c->count && ok; i++) {
        uint32_t end = at + plan_region_size(k->p, c, i);
        note_counts(k, scratch + 2 * cells + k->streams);
        for (size_t j = 0; j < cells;
             j++) { /* who knows all that was before skips, too */
            uint32_t o = (uint32_t)(j % k->streams);
            k->clock[j] = before[j] >= skip.begin[o] ? skip.end[o] : before[j];
        }
        k->skips = &skip;
        ok = walk(k, at, end);
        k->skips = skip.outer;
        leave_branch(k, known);
        forget_slots(k, at, end);
        at = end;
    }
    for (size_t i = 0; i < cells; i++) {
        uint32_t all = k->logs[i % k->streams].count;
        k->clock[i] = known[i] < all ? known[i] : all;
    }
    return ok;
}

static bool order_conditional(Check *k, uint32_t command)
{
    if (!read_back(k, command)) {
        return false;
    }
    size_t cells = (size_t)k->streams * k->streams;
    uint32_t *scratch = malloc((2 * cells + 2 * k->streams) * sizeof *scratch);
    bool ok = scratch ? walk_branches(k, command, scratch)
                      : fail(k, PLAN_NO_MEMORY " to check the plan");
    free(scratch);
    return ok;
}

static bool order_async_start(Check *k, uint32_t command)
{
    const PlanCommand *c = &k->p->commands[command];
    uint32_t stream = c->subtree > 1 ? c[1].stream : c->stream;
    join_stream(k, stream, c->stream);
    bool ok = walk(k, command + 1, command + c->subtree);
    snapshot(k, stream, k->async + (size_t)c->index * k->streams);
    return ok;
}

static bool order_async_done(Check *k, uint32_t command)
{
    const PlanCommand *c = &k->p->commands[command];
    join(k, clock_of(k, c->stream), k->async + (size_t)c->index * k->streams);
    return true;
}

static bool order_call(Check *k, uint32_t command)
{
    return walk(k, command + 1, command + k->p->commands[command].subtree);
}

static bool (*const order_kind[])(Check *, uint32_t command) = {
#define COMMAND(id, name, counts, read, print, subject, order, ...)                      \
    [PLAN_##id] = order_##order,
#include "runtime/plan/commands.def"
};

static bool walk_command(Check *k, uint32_t i)
{
    const PlanCommand *c = &k->p->commands[i];
    for (uint32_t w = 0; w < c->wait_count; w++) {
        uint32_t slot = k->p->refs[c->waits + w];
        join(k, clock_of(k, c->stream), k->signals + (size_t)slot * k->streams);
    }
    bool ok = order_kind[c->kind](k, i);
    if (ok && c->signal != PLAN_NONE) {
        snapshot(k, c->stream, k->signals + (size_t)c->signal * k->streams);
    }
    return ok;
}

/* Recursion is bounded: the reader refuses plans nested deeper than PLAN_MAX_DEPTH. */
static bool walk(Check *k, uint32_t first, uint32_t end)
{
    bool ok = true;
    for (uint32_t i = first; i < end && ok; i += k->p->commands[i].subtree) {
        ok = walk_command(k, i);
    }
    return ok;
}

bool plan_check(const Plan *p, char *error, size_t error_size)
{
    size_t streams = p->streams_count;
    if (streams == 1) {
        return true;
    }
    Check k = {
        .p = p,
        .error = error,
        .error_size = error_size,
        .streams = p->streams_count,
        .logs = calloc(streams, sizeof *k.logs),
        .clock = calloc(streams * streams, sizeof *k.clock),
        .signals = calloc((size_t)p->info->signal_count + 1, streams * sizeof *k.signals),
        .async = calloc((size_t)p->info->async_count + 1, streams * sizeof *k.async),
        .last = malloc(((size_t)p->cliques_count + 1) * sizeof *k.last)};
    bool ok = k.logs && k.clock && k.signals && k.async && k.last;
    for (uint32_t i = 0; i < p->cliques_count && ok; i++) {
        k.last[i] = PLAN_NONE;
    }
    ok = ok ? walk(&k, 0, p->commands_count)
            : fail(&k, PLAN_NO_MEMORY " to check the plan");
    for (size_t s = 0; k.logs && s < streams; s++) {
        free(k.logs[s].list);
    }
    free(k.logs);
    free(k.clock);
    free(k.signals);
    free(k.async);
    free(k.last);
    return ok;
}
