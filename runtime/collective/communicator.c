/* Communicators of the transport: made when a session is made, closed with it. See collective.h. */
#include "runtime/collective/collective.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/collective/store.h"

enum { NO_COLOUR = -1 };

static bool is_local(const gxrt_session *s, int64_t device)
{
    uint32_t first = s->devices[0].number;
    return device >= first && device < first + (int64_t)s->device_count;
}

/* The device's group in a clique. */
static void find_group(const Device *d, const PlanClique *c, Group *g)
{
    const int64_t *numbers = d->session->plan->numbers + c->groups;
    bool is_split = false;
    *g = (Group){.colour = NO_COLOUR};
    for (uint32_t i = 0, at = 0; i < c->group_count; i++) {
        uint32_t size = (uint32_t)numbers[at];
        const int64_t *devices = numbers + at + 1;
        is_split |= size > 1;
        for (uint32_t k = 0; k < size; k++) {
            if (devices[k] == (int64_t)d->number) {
                *g = (Group){.devices = devices, .size = size, .rank = k};
                g->colour = size > 1 ? (int)i : NO_COLOUR;
            }
        }
        at += size + 1;
    }
    g->is_split = is_split;
    g->first_local = UINT32_MAX;
    for (uint32_t k = 0; k < g->size; k++) {
        if (is_local(d->session, g->devices[k])) {
            uint32_t index = (uint32_t)(g->devices[k] - d->session->devices[0].number);
            g->first_local = index < g->first_local ? index : g->first_local;
            g->local++;
        }
    }
}

/* One group of all devices in order: the world's communicator serves. */
static bool is_world(const gxrt_session *s, const PlanClique *c)
{
    const int64_t *numbers = s->plan->numbers + c->groups;
    bool same = c->group_count == 1 && numbers[0] == (int64_t)s->world_devices;
    for (uint32_t k = 0; same && k < s->world_devices; k++) {
        same = numbers[k + 1] == k;
    }
    return same;
}

/* The new communicator may be set at any time until the world's state says so: so g, which
 * outlives that, takes it. One that does not come about is aborted from there. */
static gxrt_status split(Device *d, const PlanClique *c, Group *g)
{
    const gxrt_session *s = d->session;
    const char *name = plan_text(s->plan, c->name);
    const char *call = s->transport->calls.split;
    TransportResult r =
        s->transport->split(s, d->world_comm, g->colour, g->rank, &g->comm);
    gxrt_status st = collective_settle(d, d->world_comm, r, call, name);
    return st == GXRT_OK && g->comm
               ? collective_settle(d, g->comm, TRANSPORT_PENDING, call, name)
               : st;
}

static gxrt_status join_world(Device *d)
{
    const gxrt_session *s = d->session;
    const char *call = s->transport->calls.join;
    TransportResult r =
        s->transport->join(s, &s->world_id, s->world_devices, d->number, &d->world_comm);
    return r == TRANSPORT_PENDING
               ? collective_settle(d, d->world_comm, r, call, "joining the world")
               : collective_error(d, call, r, "joining the world");
}

/* Memory for collectives is made known to each communicator that may work in it. What the
 * transport does not want to know about works all the same. */
static gxrt_status enroll_memory(Device *d, Group *g)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    if (!g->comm || s->options.allocator) {
        return GXRT_OK;
    }
    g->enrolled = calloc((size_t)p->allocations_count + 1, sizeof *g->enrolled);
    if (!g->enrolled) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->colour != 1 || !d->owned[i]) {
            continue;
        }
        TransportResult r =
            s->transport->enroll(s, g->comm, d->owned[i], a->bytes, &g->enrolled[i]);
        if (r != TRANSPORT_DONE) {
            g->enrolled[i] = NULL;
            session_log(s, 1,
                        "%s does not register memory: %s: collectives copy their "
                        "buffers",
                        s->transport->name, s->transport->error_text(s, r));
        }
    }
    return GXRT_OK;
}

static void withdraw_memory(Device *d, Group *g)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; g->enrolled && i < s->plan->allocations_count; i++) {
        if (g->enrolled[i] && !d->is_aborted) {
            s->transport->withdraw(s, g->comm, g->enrolled[i]);
        }
    }
    free(g->enrolled);
}

static gxrt_status join_cliques(Device *d)
{
    const Plan *p = d->session->plan;
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    watchdog_enter(d, "making communicators: waiting for all devices", NULL);
    pthread_mutex_lock(&d->comm_mutex);
    CUresult r =
        d->session->cuda->context_synchronize(); /* NCCL may wait for the device */
    st = r == CUDA_SUCCESS ? join_world(d)
                           : device_error(d, "cuCtxSynchronize", r, "joining the world");
    for (uint32_t i = 0; i < p->cliques_count && st == GXRT_OK; i++) {
        Group *g = &d->groups[i];
        if (g->is_split && is_world(d->session, &p->cliques[i])) {
            g->comm = d->world_comm;
            g->is_world = true;
        } else if (g->is_split) {
            st = split(d, &p->cliques[i], g);
        }
        st = st == GXRT_OK ? enroll_memory(d, g) : st;
    }
    pthread_mutex_unlock(&d->comm_mutex);
    watchdog_leave(d);
    device_leave(d);
    return st;
}

/* What each rank says of itself. */
typedef struct Card {
    uint8_t plan[16]; /* hash */
    uint32_t ranks;
} Card;

static gxrt_status compare(const gxrt_world *w, const Card *mine, uint32_t rank,
                           const Card *other)
{
    if (other->ranks != mine->ranks) {
        return status_set(GXRT_WORLD_FAILED,
                          "rank %u is one of %u ranks, rank %u one of %u: give all ranks "
                          "the same world size, and every run its own store",
                          rank, other->ranks, w->rank, mine->ranks);
    }
    return memcmp(mine->plan, other->plan, sizeof mine->plan) == 0
               ? GXRT_OK
               : status_set(GXRT_WORLD_FAILED,
                            "rank %u runs another program than rank %u: give all ranks "
                            "the same cubin and the same kind of GPU",
                            rank, w->rank);
}

static gxrt_status make_id(gxrt_session *s)
{
    TransportResult r = s->transport->make_id(s, &s->world_id);
    return r == TRANSPORT_DONE
               ? GXRT_OK
               : collective_error(&s->devices[0], s->transport->calls.make_id, r,
                                  "starting");
}

/* All processes must be of one world and run the same plan; the store tells before anybody can
 * hang. */
static gxrt_status exchange(gxrt_session *s)
{
    gxrt_world *w = s->options.world;
    char key[64];
    Card mine = {.ranks = w->size};
    double timeout = s->options.timeout_seconds;
    unsigned generation = w->sessions++;
    plan_hash(s->plan->bytes, s->plan->size, mine.plan);
    snprintf(key, sizeof key, "plan.%u.%u", generation, w->rank);
    gxrt_status st = store_put(w->store, key, &mine, sizeof mine, timeout);
    for (uint32_t i = 0; i < w->size && st == GXRT_OK; i++) {
        Card other;
        snprintf(key, sizeof key, "plan.%u.%u", generation, i);
        st = store_get(w->store, key, &other, sizeof other, timeout);
        st = st == GXRT_OK
                 ? compare(w, &mine, i, &other)
                 : status_set(
                       GXRT_WORLD_FAILED,
                       "rank %u of %u did not come within %.0f s: is it running? (%s)", i,
                       w->size, timeout, gxrt_last_error());
    }
    snprintf(key, sizeof key, "world.%u", generation);
    if (st == GXRT_OK && w->rank == 0) {
        st = make_id(s);
        st = st == GXRT_OK
                 ? store_put(w->store, key, &s->world_id, sizeof s->world_id, timeout)
                 : st;
    } else if (st == GXRT_OK) {
        st = store_get(w->store, key, &s->world_id, sizeof s->world_id, timeout);
    }
    return st;
}

gxrt_status collective_load(gxrt_session *s)
{
    if (s->plan->cliques_count == 0 || s->world_devices == 1) {
        return GXRT_OK;
    }
    s->transport = &transport_nccl;
    return s->transport->load(s);
}

/* All devices have the same commands. */
static gxrt_status number_calls(gxrt_session *s)
{
    const Plan *p = s->plan;
    s->calls = calloc((size_t)p->commands_count + 1, sizeof *s->calls);
    for (uint32_t i = 0, n = 0; s->calls && i < p->commands_count; i++) {
        s->calls[i] = n;
        n += p->commands[i].kind == PLAN_COLLECTIVE;
    }
    return s->calls ? GXRT_OK
                    : status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
}

static gxrt_status make_tables(gxrt_session *s)
{
    const Plan *p = s->plan;
    s->rendezvous = calloc(p->cliques_count * s->device_count, sizeof *s->rendezvous);
    bool ok = s->rendezvous != NULL;
    for (size_t i = 0; i < s->device_count && ok; i++) {
        Device *d = &s->devices[i];
        d->groups = calloc(p->cliques_count, sizeof *d->groups);
        d->collectives = calloc(1, sizeof *d->collectives);
        d->has_comm_mutex = pthread_mutex_init(&d->comm_mutex, NULL) == 0;
        ok = d->groups && d->collectives && d->has_comm_mutex;
    }
    gxrt_status st =
        ok ? number_calls(s)
           : status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    for (size_t i = 0; i < s->device_count && st == GXRT_OK; i++) {
        Device *d = &s->devices[i];
        for (uint32_t k = 0; k < p->cliques_count; k++) {
            find_group(d, &p->cliques[k], &d->groups[k]);
        }
        st = collective_resolve(d, d->collectives);
    }
    return st;
}

static pthread_mutex_t queueing = PTHREAD_MUTEX_INITIALIZER;

void collective_enter(const gxrt_session *s)
{
    if (s->watchdog && s->device_count > 1) {
        pthread_mutex_lock(&queueing);
    }
}

void collective_leave(const gxrt_session *s)
{
    if (s->watchdog && s->device_count > 1) {
        pthread_mutex_unlock(&queueing);
    }
}

gxrt_status collective_create(gxrt_session *s)
{
    if (s->plan->cliques_count == 0) {
        return GXRT_OK;
    }
    gxrt_status st = make_tables(s);
    if (st != GXRT_OK || !s->transport) {
        return st;
    }
    st = watchdog_start(s);
    if (st == GXRT_OK && s->options.world && s->options.world->size > 1) {
        st = s->options.world->store
                 ? exchange(s)
                 : status_set(
                       GXRT_INVALID_ARGUMENT,
                       "a world of %u processes with collectives needs a store: "
                       "set GXRT_STORE=file:FOLDER, a folder that all ranks share, or "
                       "GXRT_STORE=tcp://HOST:PORT, where rank 0 can listen",
                       s->options.world->size);
    } else if (st == GXRT_OK) {
        st = make_id(s);
    }
    if (st == GXRT_OK) {
        collective_enter(s);
        st = session_each(s, join_cliques);
        collective_leave(s);
    }
    return st;
}

/* --- the end -------------------------------------------------------------------------------- */

typedef struct Errand {
    void (*job)(Device *);
    Device *device;
    pthread_t thread;
    bool is_running;
} Errand;

static void *run_errand(void *argument)
{
    Errand *e = argument;
    const CudaApi *cuda = e->device->session->cuda;
    bool current =
        e->device->context && cuda->context_push(e->device->context) == CUDA_SUCCESS;
    e->job(e->device);
    if (current) {
        device_leave(e->device);
    }
    return NULL;
}

void collective_each(gxrt_session *s, void (*job)(Device *))
{
    Errand *errands = calloc(s->device_count, sizeof *errands);
    for (size_t i = 1; errands && i < s->device_count; i++) {
        Errand *e = &errands[i];
        *e = (Errand){.job = job, .device = &s->devices[i]};
        e->is_running = pthread_create(&e->thread, NULL, run_errand, e) == 0;
    }
    for (size_t i = 0; i < s->device_count; i++) {
        if (!errands || !errands[i].is_running) {
            run_errand(&(Errand){.job = job, .device = &s->devices[i]});
        }
    }
    for (size_t i = 1; errands && i < s->device_count; i++) {
        if (errands[i].is_running) {
            pthread_join(errands[i].thread, NULL);
        }
    }
    free(errands);
}

void collective_abort(Device *d)
{
    const gxrt_session *s = d->session;
    d->is_aborted = true;
    if (d->world_comm) {
        s->transport->abort(s, d->world_comm);
    }
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        if (d->groups[i].comm && !d->groups[i].is_world) {
            s->transport->abort(s, d->groups[i].comm);
        }
    }
}

/* Waits for the other ranks; false if they do not come in time, or something has failed. */
static bool finalize(const gxrt_session *s, TransportComm *comm)
{
    double end = seconds_now() + s->options.timeout_seconds;
    TransportResult r = s->transport->finalize(s, comm);
    while (r == TRANSPORT_PENDING) {
        r = s->transport->state(s, comm);
        if (r == TRANSPORT_PENDING && seconds_now() > end) {
            return false;
        }
        if (r == TRANSPORT_PENDING) {
            sleep_seconds(0.00005);
        }
    }
    return r == TRANSPORT_DONE;
}

static bool finalize_all(const Device *d)
{
    const gxrt_session *s = d->session;
    bool ok = !s->failed;
    for (uint32_t i = 0; d->groups && ok && i < s->plan->cliques_count; i++) {
        const Group *g = &d->groups[i];
        ok = !g->comm || g->is_world || finalize(s, g->comm);
    }
    return ok && (!d->world_comm || finalize(s, d->world_comm));
}

static void destroy_all(Device *d)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        if (d->groups[i].comm && !d->groups[i].is_world) {
            s->transport->destroy(s, d->groups[i].comm);
        }
    }
    if (d->world_comm) {
        s->transport->destroy(s, d->world_comm);
    }
}

static void leave_cliques(Device *d)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        if (d->groups[i].order) {
            s->cuda->event_destroy(d->groups[i].order);
        }
        withdraw_memory(d, &d->groups[i]);
    }
    if (!d->is_aborted) {
        finalize_all(d) ? destroy_all(d) : collective_abort(d);
    }
    free(d->groups);
    if (d->collectives) {
        collective_release(d->collectives);
        free(d->collectives);
    }
    if (d->has_comm_mutex) {
        pthread_mutex_destroy(&d->comm_mutex);
    }
}

static void abort_once(Device *d)
{
    if (!d->is_aborted) {
        collective_abort(d);
    }
}

void collective_give_up(gxrt_session *s)
{
    watchdog_stop(s);
    collective_each(s, abort_once);
}

void collective_destroy(gxrt_session *s)
{
    watchdog_stop(s);
    collective_each(s, leave_cliques);
    free(s->rendezvous);
    free(s->calls);
}
