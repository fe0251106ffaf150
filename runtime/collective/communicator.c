/* Communicators of NCCL: made when a session is made, closed with it. See collective.h. */
#include "runtime/collective/collective.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/collective/store.h"

enum { NCCL_OLDEST = 22700, NO_COLOUR = -1 };

int collective_channels(uint32_t sm, int nccl_version, uint32_t asked)
{
    if (asked) {
        return asked > INT_MAX ? INT_MAX : (int)asked;
    }
    bool is_blackwell = sm / 10 == 10;
    return is_blackwell && nccl_version >= 22800 ? 32 : INT_MIN;
}

static ncclConfig_t config_of(const Device *d, bool is_split)
{
    const gxrt_session *s = d->session;
    return (ncclConfig_t){.size = sizeof(ncclConfig_t),
                          .magic = 0xcafebeef,
                          .version = NCCL_OLDEST,
                          .blocking = 0,
                          .cgaClusterSize = INT_MIN,
                          .minCTAs = INT_MIN,
                          .maxCTAs =
                              collective_channels(s->plan->info->sm, s->nccl_version,
                                                  s->options.max_channels),
                          .splitShare = is_split ? 1 : INT_MIN,
                          .trafficClass = INT_MIN,
                          .collnetEnable = INT_MIN,
                          .CTAPolicy = INT_MIN,
                          .shrinkShare = INT_MIN,
                          .nvlsCTAs = INT_MIN};
}

static bool is_local(const gxrt_session *s, int64_t device)
{
    uint32_t first = s->devices[0].number;
    return device >= first && device < first + (int64_t)s->device_count;
}

/* Finds the device's group in a clique; true if any group of the clique has two members. */
static bool find_group(const Device *d, const PlanClique *c, Group *g, int *out_colour)
{
    const int64_t *numbers = d->session->plan->numbers + c->groups;
    bool needed = false;
    *out_colour = NO_COLOUR;
    for (uint32_t i = 0, at = 0; i < c->group_count; i++) {
        uint32_t size = (uint32_t)numbers[at];
        const int64_t *devices = numbers + at + 1;
        needed |= size > 1;
        for (uint32_t k = 0; k < size; k++) {
            if (devices[k] == (int64_t)d->number) {
                *g = (Group){.devices = devices, .size = size, .rank = k};
                *out_colour = size > 1 ? (int)i : NO_COLOUR;
            }
        }
        at += size + 1;
    }
    g->first_local = UINT32_MAX;
    for (uint32_t k = 0; k < g->size; k++) {
        if (is_local(d->session, g->devices[k])) {
            uint32_t index = (uint32_t)(g->devices[k] - d->session->devices[0].number);
            g->first_local = index < g->first_local ? index : g->first_local;
            g->local++;
        }
    }
    return needed;
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

/* The state of a new communicator is asked for, whatever the call has returned. */
static ncclResult_t begun(ncclResult_t r)
{
    return r == ncclSuccess ? ncclInProgress : r;
}

/* NCCL may set the new communicator at any time until the world's state is success: so g, which
 * outlives that, takes it. One that does not come about is aborted from there. */
static gxrt_status split(Device *d, const PlanClique *c, Group *g, int colour)
{
    const gxrt_session *s = d->session;
    const char *name = plan_text(s->plan, c->name);
    ncclConfig_t config = config_of(d, true);
    ncclResult_t r =
        s->nccl->comm_split(d->world_comm, colour, (int)g->rank, &g->comm, &config);
    gxrt_status st = collective_settle(d, d->world_comm, begun(r), "ncclCommSplit", name);
    return st == GXRT_OK && g->comm
               ? collective_settle(d, g->comm, ncclInProgress, "ncclCommSplit", name)
               : st;
}

static gxrt_status join_world(Device *d)
{
    const gxrt_session *s = d->session;
    ncclConfig_t config = config_of(d, false);
    ncclResult_t r = s->nccl->comm_init(&d->world_comm, (int)s->world_devices,
                                        s->unique_id, (int)d->number, &config);
    if (r != ncclSuccess && r != ncclInProgress) {
        return collective_error(d, "ncclCommInitRankConfig", r, "joining the world");
    }
    return collective_settle(d, d->world_comm, begun(r), "ncclCommInitRankConfig",
                             "joining the world");
}

/* Memory for collectives is made known to each communicator that may work in it. What NCCL
 * does not want to know about works all the same. */
static gxrt_status register_memory(Device *d, Group *g)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    if (!g->comm || s->options.allocator) {
        return GXRT_OK;
    }
    g->registered = calloc((size_t)p->allocations_count + 1, sizeof *g->registered);
    if (!g->registered) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->colour != 1 || !d->owned[i]) {
            continue;
        }
        ncclResult_t r =
            s->nccl->comm_register(g->comm, d->owned[i], a->bytes, &g->registered[i]);
        if (r != ncclSuccess) {
            g->registered[i] = NULL;
            session_log(s, 1, "ncclCommRegister: %s: collectives copy their buffers",
                        s->nccl->error_string(r));
        }
    }
    return GXRT_OK;
}

static void deregister_memory(Device *d, Group *g)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; g->registered && i < s->plan->allocations_count; i++) {
        if (g->registered[i] && !d->is_aborted) {
            s->nccl->comm_deregister(g->comm, g->registered[i]);
        }
    }
    free(g->registered);
}

static gxrt_status join_cliques(Device *d)
{
    const Plan *p = d->session->plan;
    gxrt_status st = device_enter(d);
    if (st != GXRT_OK) {
        return st;
    }
    watchdog_enter(d, "ncclCommInitRankConfig: waiting for all devices", NULL);
    pthread_mutex_lock(&d->nccl_mutex);
    CUresult r =
        d->session->cuda->context_synchronize(); /* NCCL may wait for the device */
    st = r == CUDA_SUCCESS ? join_world(d)
                           : device_error(d, "cuCtxSynchronize", r, "joining the world");
    for (uint32_t i = 0; i < p->cliques_count && st == GXRT_OK; i++) {
        int colour;
        Group *g = &d->groups[i];
        bool needed = find_group(d, &p->cliques[i], g, &colour);
        if (needed && is_world(d->session, &p->cliques[i])) {
            g->comm = d->world_comm;
            g->is_world = true;
        } else if (needed) {
            st = split(d, &p->cliques[i], g, colour);
        }
        st = st == GXRT_OK ? register_memory(d, g) : st;
    }
    pthread_mutex_unlock(&d->nccl_mutex);
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
    snprintf(key, sizeof key, "nccl.%u", generation);
    if (st == GXRT_OK && w->rank == 0) {
        ncclResult_t r = s->nccl->unique_id(&s->unique_id);
        st = r == ncclSuccess
                 ? store_put(w->store, key, &s->unique_id, sizeof s->unique_id, timeout)
                 : collective_error(&s->devices[0], "ncclGetUniqueId", r, "starting");
    } else if (st == GXRT_OK) {
        st = store_get(w->store, key, &s->unique_id, sizeof s->unique_id, timeout);
    }
    return st;
}

gxrt_status collective_load(gxrt_session *s)
{
    char error[512];
    int version = 0;
    if (s->plan->cliques_count == 0 || s->world_devices == 1) {
        s->nccl = NULL;
        return GXRT_OK;
    }
    if (!s->nccl) {
        s->nccl =
            library_nccl(s->cuda->emulated, s->options.library_path, error, sizeof error);
    }
    if (!s->nccl) {
        return status_set(GXRT_MISSING_LIBRARY, "the program has collectives: %s", error);
    }
    if (s->nccl->version(&version) != ncclSuccess || version < NCCL_OLDEST) {
        return status_set(GXRT_MISSING_LIBRARY,
                          "NCCL %d.%d is too old: install NCCL 2.27 or newer",
                          version / 10000, version / 100 % 100);
    }
    s->nccl_version = version;
    return GXRT_OK;
}

static gxrt_status make_tables(gxrt_session *s)
{
    s->meetings = calloc(s->plan->cliques_count * s->device_count, sizeof *s->meetings);
    bool ok = s->meetings != NULL;
    for (size_t i = 0; i < s->device_count && ok; i++) {
        Device *d = &s->devices[i];
        d->groups = calloc(s->plan->cliques_count, sizeof *d->groups);
        d->has_nccl_mutex = pthread_mutex_init(&d->nccl_mutex, NULL) == 0;
        ok = d->groups && d->has_nccl_mutex;
    }
    return ok ? GXRT_OK
              : status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
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
    if (st == GXRT_OK && s->world_devices == 1) {
        int colour;
        for (uint32_t i = 0; i < s->plan->cliques_count; i++) {
            find_group(&s->devices[0], &s->plan->cliques[i], &s->devices[0].groups[i],
                       &colour);
        }
        return GXRT_OK;
    }
    st = st == GXRT_OK ? watchdog_start(s) : st;
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
        ncclResult_t r = s->nccl->unique_id(&s->unique_id);
        st = r == ncclSuccess
                 ? GXRT_OK
                 : collective_error(&s->devices[0], "ncclGetUniqueId", r, "starting");
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
        s->nccl->comm_abort(d->world_comm);
    }
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        if (d->groups[i].comm && !d->groups[i].is_world) {
            s->nccl->comm_abort(d->groups[i].comm);
        }
    }
}

/* Waits for the other ranks; false if they do not come in time, or something has failed. */
static bool finalize(const gxrt_session *s, ncclComm_t comm)
{
    double end = seconds_now() + s->options.timeout_seconds;
    ncclResult_t r = s->nccl->comm_finalize(comm);
    ncclResult_t state = ncclInProgress;
    while ((r == ncclSuccess || r == ncclInProgress) && state == ncclInProgress) {
        r = s->nccl->comm_async_error(comm, &state);
        if (state == ncclInProgress && seconds_now() > end) {
            return false;
        }
        if (state == ncclInProgress) {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
    }
    return r == ncclSuccess && state == ncclSuccess;
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
            s->nccl->comm_destroy(d->groups[i].comm);
        }
    }
    if (d->world_comm) {
        s->nccl->comm_destroy(d->world_comm);
    }
}

static void leave_cliques(Device *d)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        if (d->groups[i].order) {
            s->cuda->event_destroy(d->groups[i].order);
        }
        deregister_memory(d, &d->groups[i]);
    }
    if (!d->is_aborted && d->world_comm) {
        finalize_all(d) ? destroy_all(d) : collective_abort(d);
    }
    free(d->groups);
    if (d->has_nccl_mutex) {
        pthread_mutex_destroy(&d->nccl_mutex);
    }
}

void collective_destroy(gxrt_session *s)
{
    watchdog_stop(s);
    collective_each(s, leave_cliques);
    free(s->meetings);
}
