/* A thread that watches the collectives of a session.
 *
 * Each device notes every collective between two events: one when its stream has reached it,
 * one when it is done. When the oldest one does not get done in time, or host code waits too
 * long for others, the watchdog writes down who is where, asks the other processes through
 * the store, and aborts all communicators: everybody who waits returns with an error. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/store.h"

enum {
    TRACKED = 64,
    REPORT = STATUS_TEXT,
    ANSWER = 512,
    ANSWER_SECONDS = 3,
    ASK_EVERY = 7
};

/* A collective on its way. */
typedef struct Track {
    CUevent reached, done;
    uint32_t command;
} Track;

typedef struct DeviceTracks {
    Track ring[TRACKED];
    atomic_uint head; /* the device's thread adds here */
    /* the watchdog takes away here; the device's thread when it is full */
    atomic_uint tail;
    pthread_mutex_t taking; /* guards tail and stalled */
    bool has_taking;
    double stalled; /* seconds that the stream has been in the oldest, at the tail */
    atomic_uint last_done;       /* command, or PLAN_NONE */
    _Atomic(const char *) waits; /* what host code waits for, or NULL */
    atomic_uint waits_command;
    atomic_uint waits_number; /* counts them */
    unsigned waits_seen;      /* the watchdog's copy at its last look */
    double waited;            /* seconds since then */
    bool is_slow;             /* half of the time is over */
} DeviceTracks;

struct Watchdog {
    gxrt_session *session;
    DeviceTracks *tracks; /* by local device */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool has_thread, has_mutex, has_wake;
    bool stop;
    unsigned looks;  /* counts when the transport is asked */
    bool has_warned; /* of this wait */
    atomic_bool struck;
    char report[REPORT]; /* written before `struck` */
};

static DeviceTracks *tracks_of(Device *d)
{
    Watchdog *w = d->session->watchdog;
    return w ? &w->tracks[d - d->session->devices] : NULL;
}

gxrt_status watchdog_verdict(gxrt_session *s)
{
    if (!s->watchdog || !s->watchdog->struck) {
        return GXRT_OK;
    }
    return status_set(GXRT_WORLD_FAILED, "%s", s->watchdog->report);
}

void watchdog_enter(Device *d, const char *what, const PlanCommand *c)
{
    DeviceTracks *t = tracks_of(d);
    if (t) {
        t->waits_command = c ? (unsigned)(c - d->session->plan->commands) : PLAN_NONE;
        t->waits_number++;
        t->waits = what;
    }
}

void watchdog_leave(Device *d)
{
    DeviceTracks *t = tracks_of(d);
    if (t) {
        t->waits = NULL;
    }
}

/* Seconds that a device may wait for others, which may have more kernels to try than it has. */
static double limit_of(const gxrt_session *s)
{
    enum { TUNING = 3600 };
    double seconds = s->options.timeout_seconds;
    return s->is_tuning && seconds < TUNING ? TUNING : seconds;
}

static bool event_done(const gxrt_session *s, CUevent event)
{
    return s->cuda->event_query(event) != CUDA_ERROR_NOT_READY;
}

/* Takes away what is done. `step`: seconds since the last time; gives the seconds that the stream
 * has been in the oldest one that is left. */
static double take_away(const gxrt_session *s, DeviceTracks *t, double step)
{
    pthread_mutex_lock(&t->taking);
    while (t->tail != t->head && event_done(s, t->ring[t->tail % TRACKED].done)) {
        t->last_done = t->ring[t->tail % TRACKED].command;
        t->tail++;
        t->stalled = 0;
    }
    /* before its stream has come there, kernels may take their time */
    if (t->tail != t->head && event_done(s, t->ring[t->tail % TRACKED].reached)) {
        t->stalled += step;
    }
    double stalled = t->stalled;
    pthread_mutex_unlock(&t->taking);
    return stalled;
}

/* None goes unnoted: with so many of them queued, the host waits for the oldest. */
static CUresult wait_for_slot(Device *d, DeviceTracks *t)
{
    const gxrt_session *s = d->session;
    CUresult r = CUDA_SUCCESS;
    while (t->head - t->tail == TRACKED && r == CUDA_SUCCESS) {
        r = s->cuda->event_synchronize(t->ring[t->tail % TRACKED].done);
        take_away(s, t, 0);
    }
    return r;
}

gxrt_status watchdog_before(Device *d, const PlanCommand *c, CUstream stream)
{
    DeviceTracks *t = &d->session->watchdog->tracks[d - d->session->devices];
    CUresult r = wait_for_slot(d, t);
    Track *k = &t->ring[t->head % TRACKED];
    k->command = (uint32_t)(c - d->session->plan->commands);
    r = r == CUDA_SUCCESS ? d->session->cuda->event_record(k->reached, stream) : r;
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuEventRecord", r, "a collective");
}

gxrt_status watchdog_after(Device *d, CUstream stream)
{
    DeviceTracks *t = &d->session->watchdog->tracks[d - d->session->devices];
    CUresult r = d->session->cuda->event_record(t->ring[t->head % TRACKED].done, stream);
    if (r != CUDA_SUCCESS) {
        return device_error(d, "cuEventRecord", r, "a collective");
    }
    t->head++;
    return GXRT_OK;
}

/* --- the report ----------------------------------------------------------------------------- */

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
append(char *text, size_t size, const char *format, ...)
{
    size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - at, format, args);
    va_end(args);
}

static void append_command(const gxrt_session *s, char *text, size_t size,
                           uint32_t command)
{
    const Plan *p = s->plan;
    if (command == PLAN_NONE) {
        append(text, size, "none yet");
        return;
    }
    const PlanCommand *c = &p->commands[command];
    append(text, size, "%s %s (command %u)",
           c->kind == PLAN_COLLECTIVE
               ? plan_collective_name(p->collectives[c->index].kind)
               : plan_command_name(c->kind),
           plan_text(p, c->name), command);
}

/* Where one device is. */
static void describe(const gxrt_session *s, size_t i, char *text, size_t size)
{
    DeviceTracks *t = &s->watchdog->tracks[i];
    const char *waits = t->waits;
    append(text, size, "; device %u: ", s->devices[i].number);
    if (t->tail != t->head) {
        const Track *k = &t->ring[t->tail % TRACKED];
        append(text, size, "%s ",
               event_done(s, k->reached) ? "waits in" : "has not reached");
        append_command(s, text, size, k->command);
        if (t->head - t->tail > 1) {
            append(text, size, ", %u more behind it up to ", t->head - t->tail - 1);
            append_command(s, text, size, t->ring[(t->head - 1) % TRACKED].command);
        }
    } else if (waits) {
        append(text, size, "%s", waits);
        if (t->waits_command != PLAN_NONE) {
            append(text, size, " at ");
            append_command(s, text, size, t->waits_command);
        }
    } else {
        append(text, size, "has nothing queued");
    }
    append(text, size, ", last done: ");
    append_command(s, text, size, t->last_done);
}

/* What the other processes say; who says nothing has ended or is stopped. */
static void ask_others(const gxrt_session *s, const char *mine, char *text, size_t size)
{
    gxrt_world *w = s->options.world;
    if (!w || w->size < 2 || !w->store) {
        return;
    }
    char key[64];
    char answer[ANSWER] = "";
    append(answer, sizeof answer, "%s", mine);
    snprintf(key, sizeof key, "late.%u.%u", w->sessions, w->rank);
    double end =
        seconds_now() + ANSWER_SECONDS; /* for all: who waits is not kept much longer */
    if (store_put(w->store, key, answer, sizeof answer, ANSWER_SECONDS) != GXRT_OK) {
        append(text, size, "; the other ranks cannot be asked: %s", gxrt_last_error());
        return;
    }
    for (uint32_t i = 0; i < w->size; i++) {
        snprintf(key, sizeof key, "late.%u.%u", w->sessions, i);
        if (i == w->rank) {
            continue;
        }
        double left = end - seconds_now();
        if (store_get(w->store, key, answer, sizeof answer, left > 0 ? left : 0) ==
            GXRT_OK) {
            answer[sizeof answer - 1] = 0;
            append(text, size, "; rank %u%s", i, answer);
        } else {
            append(text, size,
                   "; rank %u is missing: it gives no answer, so it has ended or "
                   "is stopped",
                   i);
        }
    }
}

static void abort_device(Device *d)
{
    /* a thread inside the transport keeps the lock, and only the abort gets it out */
    int locked = -1;
    for (int tries = 0; tries < 20 && locked != 0; tries++) {
        locked = pthread_mutex_trylock(&d->comm_mutex);
        if (locked != 0) {
            sleep_seconds(0.01);
        }
    }
    collective_abort(d);
    if (locked == 0) {
        pthread_mutex_unlock(&d->comm_mutex);
    }
}

/* What the transport itself knows of the communicator on which the device waits. */
static void ask_transport(const gxrt_session *s, size_t i, char *text, size_t size)
{
    DeviceTracks *t = &s->watchdog->tracks[i];
    const Device *d = &s->devices[i];
    TransportComm *comm = d->world_comm;
    if (t->tail != t->head) {
        uint32_t command = t->ring[t->tail % TRACKED].command;
        const PlanCommand *c = &s->plan->commands[command];
        comm = d->groups[s->plan->collectives[c->index].clique].comm;
    }
    const char *words = comm ? s->transport->last_error(s, comm) : NULL;
    if (words && *words) {
        append(text, size, " (%s: %s)", s->transport->name, words);
    }
}

/* Of all local devices the one that is furthest behind: what it waits for came first. */
static size_t furthest_behind(const gxrt_session *s, size_t device)
{
    const DeviceTracks *tracks = s->watchdog->tracks;
    for (size_t i = 0; i < s->device_count; i++) {
        bool pending = tracks[i].tail != tracks[i].head;
        bool later = tracks[device].tail == tracks[device].head ||
                     tracks[i].tail < tracks[device].tail;
        device = pending && later ? i : device;
    }
    return device;
}

/* " among devices 0, 1, 2, 3": who takes part in a collective on this device. */
static void append_group(const gxrt_session *s, size_t device, uint32_t command,
                         char *text, size_t size)
{
    enum { MOST = 16 };
    const PlanCommand *c = &s->plan->commands[command];
    const Group *g = &s->devices[device].groups[s->plan->collectives[c->index].clique];
    for (uint32_t k = 0; k < g->size && k < MOST; k++) {
        append(text, size, "%s%lld", k ? ", " : " among devices ",
               (long long)g->devices[k]);
    }
    append(text, size, "%s", g->size > MOST ? ", ..." : "");
}

/* "device 1: all-reduce sum.2 (command 7)": what this device waits for. */
static void append_wait(const gxrt_session *s, size_t device, char *text, size_t size)
{
    DeviceTracks *t = &s->watchdog->tracks[device];
    const char *waits = t->waits;
    append(text, size, "device %u: ", s->devices[device].number);
    if (t->tail != t->head) {
        uint32_t command = t->ring[t->tail % TRACKED].command;
        append_command(s, text, size, command);
        append_group(s, device, command, text, size);
    } else {
        append(text, size, "%s", waits ? waits : "waiting");
    }
}

/* Half of the time is over: says so, and who is where. */
static void warn(const gxrt_session *s, size_t device)
{
    char text[REPORT] = "";
    append_wait(s, device, text, sizeof text);
    append(text, sizeof text, " is not done after %.3g s, waiting %.3g s more",
           limit_of(s) / 2, limit_of(s) / 2);
    ask_transport(s, device, text, sizeof text);
    for (size_t i = 0; i < s->device_count; i++) {
        describe(s, i, text, sizeof text);
    }
    session_log(s, 1, "%s", text);
}

/* Reports, and ends all waiting. `failure`: what the transport has found; NULL: the time is over. */
static void strike(gxrt_session *s, size_t device, const char *failure)
{
    Watchdog *w = s->watchdog;
    char states[REPORT] = "";
    for (size_t i = 0; i < s->device_count; i++) {
        describe(s, i, states, sizeof states);
    }
    device = failure ? device : furthest_behind(s, device);
    w->report[0] = 0;
    append_wait(s, device, w->report, sizeof w->report);
    if (failure) {
        append(w->report, sizeof w->report, " has failed: %s", failure);
    } else {
        append(w->report, sizeof w->report, " was not done within %.3g s", limit_of(s));
    }
    ask_transport(s, device, w->report, sizeof w->report);
    append(w->report, sizeof w->report, "%s", states);
    ask_others(s, states, w->report, sizeof w->report);
    append(w->report, sizeof w->report,
           "; the communicators were aborted: end or restart all ranks");
    w->struck = true;
    s->failed = true;
    collective_each(s, abort_device);
}

/* --- watching --------------------------------------------------------------------------------- */

/* Whether the device has waited too long. `step`: seconds since the last look, as far as they
 * count: a process that was stopped for a while has not been waiting. */
static bool look(gxrt_session *s, size_t i, double step)
{
    DeviceTracks *t = &s->watchdog->tracks[i];
    Device *d = &s->devices[i];
    if (s->cuda->context_push(d->context) != CUDA_SUCCESS) {
        return false;
    }
    double longest = take_away(s, t, step);
    device_leave(d);
    const char *waits = t->waits;
    unsigned number = t->waits_number;
    t->waited = waits && number == t->waits_seen ? t->waited + step : 0;
    t->waits_seen = number;
    double limit = limit_of(s);
    longest = waits && t->waited > longest ? t->waited : longest;
    t->is_slow = longest > limit / 2;
    return longest > limit;
}

/* What the transport has found on the device's communicators by itself; NULL: nothing, or
 * another thread is just calling them. */
static const char *failure_of(const gxrt_session *s, Device *d)
{
    TransportResult state = TRANSPORT_DONE;
    if (pthread_mutex_trylock(&d->comm_mutex) != 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < s->plan->cliques_count && state == TRANSPORT_DONE; i++) {
        if (d->groups[i].comm) {
            state = s->transport->state(s, d->groups[i].comm);
        }
        state = state == TRANSPORT_PENDING ? TRANSPORT_DONE : state;
    }
    pthread_mutex_unlock(&d->comm_mutex);
    return state == TRANSPORT_DONE ? NULL : s->transport->error_text(s, state);
}

/* Looks at every device; true if all waiting was ended. */
static bool look_at_all(gxrt_session *s, double step)
{
    size_t late = s->device_count;
    if (s->failed) { /* a call has failed on one device, and it says why: nobody waits for it */
        collective_each(s, abort_device);
        return true;
    }
    for (size_t i = 0; i < s->device_count; i++) {
        bool is_late = look(s, i, step);
        late = is_late && late == s->device_count ? i : late;
    }
    if (late < s->device_count) {
        strike(s, late, NULL);
        return true;
    }
    size_t slow = 0;
    while (slow < s->device_count && !s->watchdog->tracks[slow].is_slow) {
        slow++;
    }
    if (slow < s->device_count && !s->watchdog->has_warned) {
        warn(s, furthest_behind(s, slow));
    }
    s->watchdog->has_warned = slow < s->device_count;
    bool asks = s->watchdog->looks++ % ASK_EVERY == 0;
    for (size_t i = 0; i < s->device_count && asks; i++) {
        const char *failure = failure_of(s, &s->devices[i]);
        if (failure) {
            strike(s, i, failure);
            return true;
        }
    }
    return false;
}

static void *watch(void *argument)
{
    Watchdog *w = argument;
    gxrt_session *s = w->session;
    bool struck = false;
    double before = seconds_now();
    /* asking for events must not end what the caller's threads capture meanwhile */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    s->cuda->capture_mode(&mode);
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        condition_wait(&w->wake, &w->mutex, 0.05);
        pthread_mutex_unlock(&w->mutex);
        double step = seconds_now() - before;
        before += step;
        struck = struck || look_at_all(s, step < 0.2 ? step : 0.2);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static gxrt_status make_events(gxrt_session *s, size_t i)
{
    Device *d = &s->devices[i];
    DeviceTracks *t = &s->watchdog->tracks[i];
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    CUresult r = CUDA_SUCCESS;
    for (int k = 0; k < TRACKED && r == CUDA_SUCCESS; k++) {
        r = s->cuda->event_create(&t->ring[k].reached, CU_EVENT_DISABLE_TIMING);
        r = r == CUDA_SUCCESS
                ? s->cuda->event_create(&t->ring[k].done, CU_EVENT_DISABLE_TIMING)
                : r;
    }
    device_leave(d);
    t->last_done = PLAN_NONE;
    t->has_taking = pthread_mutex_init(&t->taking, NULL) == 0;
    if (!t->has_taking) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    return r == CUDA_SUCCESS ? GXRT_OK
                             : device_error(d, "cuEventCreate", r, "gxrt_session_create");
}

gxrt_status watchdog_start(gxrt_session *s)
{
    Watchdog *w = calloc(1, sizeof *w);
    s->watchdog = w;
    if (w) {
        w->session = s;
        w->tracks = calloc(s->device_count, sizeof *w->tracks);
    }
    if (!w || !w->tracks) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (size_t i = 0; i < s->device_count; i++) {
        gxrt_status st = make_events(s, i);
        if (st != GXRT_OK) {
            return st;
        }
    }
    w->has_mutex = pthread_mutex_init(&w->mutex, NULL) == 0;
    w->has_wake = w->has_mutex && pthread_cond_init(&w->wake, NULL) == 0;
    w->has_thread = w->has_wake && pthread_create(&w->thread, NULL, watch, w) == 0;
    return w->has_thread ? GXRT_OK
                         : status_set(GXRT_OUT_OF_MEMORY,
                                      "gxrt_session_create: no thread can be made");
}

static void destroy_events(gxrt_session *s, size_t i)
{
    Device *d = &s->devices[i];
    bool current = d->context && s->cuda->context_push(d->context) == CUDA_SUCCESS;
    for (int k = 0; k < TRACKED; k++) {
        Track *t = &s->watchdog->tracks[i].ring[k];
        if (t->reached) {
            s->cuda->event_destroy(t->reached);
        }
        if (t->done) {
            s->cuda->event_destroy(t->done);
        }
    }
    if (current) {
        device_leave(d);
    }
    if (s->watchdog->tracks[i].has_taking) {
        pthread_mutex_destroy(&s->watchdog->tracks[i].taking);
    }
}

void watchdog_stop(gxrt_session *s)
{
    Watchdog *w = s->watchdog;
    if (!w) {
        return;
    }
    if (w->has_thread) {
        pthread_mutex_lock(&w->mutex);
        w->stop = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->mutex);
        pthread_join(w->thread, NULL);
    }
    for (size_t i = 0; w->tracks && i < s->device_count; i++) {
        destroy_events(s, i);
    }
    if (w->has_wake) {
        pthread_cond_destroy(&w->wake);
    }
    if (w->has_mutex) {
        pthread_mutex_destroy(&w->mutex);
    }
    free(w->tracks);
    free(w);
    s->watchdog = NULL;
}
