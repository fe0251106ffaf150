/* Collectives by NCCL: communicators when a session is made, calls while it runs. */
#include "runtime/collective.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/store.h"

enum { NCCL_OLDEST = 22700, NO_COLOUR = -1 };

/* --- types --------------------------------------------------------------------------------- */

typedef struct TypeRow {
    const char *dtype;
    int moved;   /* type for collectives that only move */
    int reduced; /* for those that reduce; -1: NCCL cannot */
    uint32_t factor;
    bool native_from_sm90; /* moved by its own type there, as bytes before */
} TypeRow;

static const TypeRow types[] = {
    {"pred", ncclUint8, ncclUint8, 1, false},
    {"s8", ncclInt8, ncclInt8, 1, false},
    {"u8", ncclUint8, ncclUint8, 1, false},
    {"s16", ncclFloat16, -1, 1, false},
    {"u16", ncclFloat16, -1, 1, false},
    {"s32", ncclInt32, ncclInt32, 1, false},
    {"u32", ncclUint32, ncclUint32, 1, false},
    {"s64", ncclInt64, ncclInt64, 1, false},
    {"u64", ncclUint64, ncclUint64, 1, false},
    {"f16", ncclFloat16, ncclFloat16, 1, false},
    {"bf16", ncclBfloat16, ncclBfloat16, 1, false},
    {"f32", ncclFloat32, ncclFloat32, 1, false},
    {"f64", ncclFloat64, ncclFloat64, 1, false},
    {"c64", ncclFloat32, ncclFloat32, 2, false},
    {"c128", ncclFloat64, ncclFloat64, 2, false},
    {"f8e5m2", ncclFloat8e5m2, ncclFloat8e5m2, 1, true},
    {"f8e4m3fn", ncclFloat8e4m3, ncclFloat8e4m3, 1, true},
    {"f8e5m2fnuz", ncclInt8, -1, 1, false},
    {"f8e4m3fnuz", ncclInt8, -1, 1, false},
    {"f8e4m3b11fnuz", ncclInt8, -1, 1, false},
    {"f8e4m3", ncclInt8, -1, 1, false},
    {"f8e3m4", ncclInt8, -1, 1, false},
    {"f8e8m0fnu", ncclInt8, -1, 1, false},
};

static const size_t type_bytes[] = {
    [ncclInt8] = 1,    [ncclUint8] = 1,    [ncclInt32] = 4,      [ncclUint32] = 4,
    [ncclInt64] = 8,   [ncclUint64] = 8,   [ncclFloat16] = 2,    [ncclFloat32] = 4,
    [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
};

int collective_type(const char *dtype, bool reduces, uint32_t sm, uint32_t *out_factor)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].dtype, dtype) == 0) {
            *out_factor = types[i].factor;
            bool as_bytes = !reduces && types[i].native_from_sm90 && sm < 90;
            return reduces ? types[i].reduced : as_bytes ? ncclInt8 : types[i].moved;
        }
    }
    return -1;
}

static bool is_reducing(uint32_t kind)
{
    return kind == PLAN_ALL_REDUCE || kind == PLAN_REDUCE_SCATTER;
}

/* --- errors and waiting --------------------------------------------------------------------- */

static gxrt_status nccl_error(Device *d, const char *call, ncclResult_t r,
                              const char *what)
{
    gxrt_session *s = d->session;
    gxrt_status verdict = watchdog_verdict(s);
    if (verdict != GXRT_OK) {
        return verdict;
    }
    d->is_stopped = atomic_exchange(&s->failed, true);
    return status_set(GXRT_WORLD_FAILED, "%s: %s (%s) in %s on device %u", call,
                      s->nccl->error_string(r), s->nccl->last_error(NULL), what,
                      d->number);
}

static void command_text(const Device *d, const PlanCommand *c, char *text, size_t size)
{
    const Plan *p = d->session->plan;
    snprintf(text, size, "command %u (%s) of HLO instruction %s",
             (unsigned)(c - p->commands),
             plan_collective_name(p->collectives[c->index].kind), plan_text(p, c->name));
}

/* A call on a communicator may go on in the background: waits for it. The watchdog ends that
 * by aborting. */
static gxrt_status settle(Device *d, ncclComm_t comm, ncclResult_t r, const char *call,
                          const char *what)
{
    const NcclApi *nccl = d->session->nccl;
    while (r == ncclInProgress && !d->session->failed) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        ncclResult_t state = ncclSuccess;
        ncclResult_t asked = nccl->comm_async_error(comm, &state);
        r = asked != ncclSuccess ? asked : state;
    }
    return r == ncclSuccess ? GXRT_OK : nccl_error(d, call, r, what);
}

/* --- communicators -------------------------------------------------------------------------- */

int collective_channels(uint32_t sm, int nccl_version, uint32_t asked,
                        uint32_t communication)
{
    if (asked) {
        return asked > INT_MAX ? INT_MAX : (int)asked;
    }
    bool is_blackwell = sm / 10 == 10;
    return is_blackwell && nccl_version >= 22800 && communication == 0 ? 32 : INT_MIN;
}

static ncclConfig_t config_of(const Device *d, uint32_t communication, bool is_split)
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
                                                  s->options.max_channels, communication),
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
    bool same = c->group_count == 1 && c->communication == 0 &&
                numbers[0] == (int64_t)s->world_devices;
    for (uint32_t k = 0; same && k < s->world_devices; k++) {
        same = numbers[k + 1] == k;
    }
    return same;
}

static gxrt_status split(Device *d, const PlanClique *c, Group *g, int colour)
{
    const gxrt_session *s = d->session;
    ncclConfig_t config = config_of(d, c->communication, true);
    ncclComm_t out = NULL;
    ncclResult_t r =
        s->nccl->comm_split(d->world_comm, colour, (int)g->rank, &out, &config);
    gxrt_status st =
        settle(d, d->world_comm, r, "ncclCommSplit", plan_text(s->plan, c->name));
    if (st == GXRT_OK && out) {
        g->comm = out;
        ncclResult_t state = ncclSuccess;
        s->nccl->comm_async_error(out, &state);
        st = settle(d, out, state, "ncclCommSplit", plan_text(s->plan, c->name));
    }
    return st;
}

static gxrt_status join_world(Device *d)
{
    const gxrt_session *s = d->session;
    ncclConfig_t config = config_of(d, 0, false);
    ncclResult_t r = s->nccl->comm_init(&d->world_comm, (int)s->world_devices,
                                        s->unique_id, (int)d->number, &config);
    if (r != ncclSuccess && r != ncclInProgress) {
        return nccl_error(d, "ncclCommInitRankConfig", r, "joining the world");
    }
    return settle(d, d->world_comm, r, "ncclCommInitRankConfig", "joining the world");
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

/* All processes must run the same plan; the store tells before anybody can hang. */
static gxrt_status exchange(gxrt_session *s)
{
    gxrt_world *w = s->options.world;
    char key[64];
    uint8_t mine[16];
    double timeout = s->options.timeout_seconds;
    unsigned generation = w->sessions++;
    plan_hash(s->plan->bytes, s->plan->size, mine);
    snprintf(key, sizeof key, "plan.%u.%u", generation, w->rank);
    gxrt_status st = store_put(w->store, key, mine, sizeof mine, timeout);
    for (uint32_t i = 0; i < w->size && st == GXRT_OK; i++) {
        uint8_t other[16];
        snprintf(key, sizeof key, "plan.%u.%u", generation, i);
        st = store_get(w->store, key, other, sizeof other, timeout);
        if (st != GXRT_OK) {
            st = status_set(
                GXRT_WORLD_FAILED,
                "rank %u of %u did not come within %.0f s: is it running? (%s)", i,
                w->size, timeout, gxrt_last_error());
        } else if (memcmp(mine, other, sizeof mine) != 0) {
            st = status_set(
                GXRT_WORLD_FAILED,
                "rank %u runs another program than rank %u: give all ranks the "
                "same cubin and the same kind of GPU",
                i, w->rank);
        }
    }
    snprintf(key, sizeof key, "nccl.%u", generation);
    if (st == GXRT_OK && w->rank == 0) {
        ncclResult_t r = s->nccl->unique_id(&s->unique_id);
        st = r == ncclSuccess
                 ? store_put(w->store, key, &s->unique_id, sizeof s->unique_id, timeout)
                 : nccl_error(&s->devices[0], "ncclGetUniqueId", r, "starting");
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
                 : nccl_error(&s->devices[0], "ncclGetUniqueId", r, "starting");
    }
    if (st == GXRT_OK) {
        collective_enter(s);
        st = session_each(s, join_cliques);
        collective_leave(s);
    }
    return st;
}

static void leave_cliques(Device *d)
{
    const gxrt_session *s = d->session;
    for (uint32_t i = 0; d->groups && i < s->plan->cliques_count; i++) {
        Group *g = &d->groups[i];
        if (g->order) {
            s->cuda->event_destroy(g->order);
        }
        deregister_memory(d, g);
        if (g->comm && !g->is_world && !d->is_aborted) {
            s->failed ? s->nccl->comm_abort(g->comm) : s->nccl->comm_destroy(g->comm);
        }
    }
    if (d->world_comm && !d->is_aborted) {
        s->failed ? s->nccl->comm_abort(d->world_comm)
                  : s->nccl->comm_destroy(d->world_comm);
    }
    free(d->groups);
    if (d->has_nccl_mutex) {
        pthread_mutex_destroy(&d->nccl_mutex);
    }
}

void collective_destroy(gxrt_session *s)
{
    watchdog_stop(s);
    for (size_t i = 0; i < s->device_count; i++) {
        Device *d = &s->devices[i];
        bool current = d->context && s->cuda->context_push(d->context) == CUDA_SUCCESS;
        leave_cliques(d);
        if (current) {
            device_leave(d);
        }
    }
    free(s->meetings);
}

/* --- the first execution: local members meet before and after each collective -------------- */

/* Loading a kernel lazily may wait for the device while a peer already spins in NCCL, so in
 * the first execution nobody goes ahead. */
static gxrt_status meet(Device *d, uint32_t clique, const PlanCommand *c)
{
    gxrt_session *s = d->session;
    const Group *g = &d->groups[clique];
    if (d->executions > 0 || g->local < 2) {
        return GXRT_OK;
    }
    Meeting *m = &s->meetings[clique * s->device_count + g->first_local];
    watchdog_enter(d, "waiting for the other local devices", c);
    pthread_mutex_lock(&s->mutex);
    uint64_t turn = m->turns;
    if (++m->present == g->local) {
        m->present = 0;
        m->turns++;
        pthread_cond_broadcast(&s->met);
    }
    while (m->turns == turn && !s->failed) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 50000000;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->met, &s->mutex, &t);
    }
    bool together = m->turns != turn;
    pthread_mutex_unlock(&s->mutex);
    watchdog_leave(d);
    if (together) {
        return GXRT_OK;
    }
    gxrt_status verdict = watchdog_verdict(s);
    d->is_stopped = true;
    return verdict != GXRT_OK
               ? verdict
               : status_set(GXRT_WORLD_FAILED,
                            "device %u stopped: another device has failed", d->number);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* One buffer of a collective. */
typedef struct Buffer {
    CUdeviceptr from, to;
    uint64_t from_bytes, to_bytes;
    ncclDataType_t type;
    size_t unit; /* bytes of one NCCL element */
} Buffer;

static gxrt_status get_buffer(Device *d, const PlanCommand *c, uint32_t pair, Buffer *out)
{
    const Plan *p = d->session->plan;
    const PlanCollective *op = &p->collectives[c->index];
    const PlanArg *args = p->args + c->args + 2 * pair;
    uint32_t name = op->dtypes == PLAN_NONE ? op->dtype : p->refs[op->dtypes + pair];
    uint32_t factor = 1;
    int type =
        collective_type(plan_text(p, name), is_reducing(op->kind), p->info->sm, &factor);
    if (type < 0 ||
        (factor > 1 && is_reducing(op->kind) && op->reduction != PLAN_REDUCE_SUM)) {
        return status_set(GXRT_UNSUPPORTED, "not supported: %s of %s (%s)",
                          plan_collective_name(op->kind), plan_text(p, name),
                          plan_text(p, c->name));
    }
    *out = (Buffer){.type = type, .unit = type_bytes[type]};
    if (args[0].tag == PLAN_ARG_SLICE) {
        out->from = slice_address(d, args[0].index);
        out->from_bytes = p->slices[args[0].index].bytes;
    }
    if (args[1].tag == PLAN_ARG_SLICE) {
        out->to = slice_address(d, args[1].index);
        out->to_bytes = p->slices[args[1].index].bytes;
    }
    return GXRT_OK;
}

static ncclRedOp_t reduction_of(uint32_t reduction)
{
    switch ((PlanReduction)reduction) {
    case PLAN_REDUCE_PRODUCT:
        return ncclProd;
    case PLAN_REDUCE_MIN:
        return ncclMin;
    case PLAN_REDUCE_MAX:
        return ncclMax;
    case PLAN_REDUCE_NONE:
    case PLAN_REDUCE_SUM:
    case PLAN_REDUCTIONS:
        break;
    }
    return ncclSum;
}

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}

/* Piece k of the operand goes to rank k, piece k of the result comes from it. A tuple's pieces
 * are its buffers: buffer k is rank k's. */
static ncclResult_t all_to_all(Device *d, const Group *g, const Buffer *b, uint32_t pair,
                               bool is_tuple, CUstream stream)
{
    const NcclApi *nccl = d->session->nccl;
    ncclResult_t r = ncclSuccess;
    uint32_t first = is_tuple ? pair : 0;
    uint32_t end = is_tuple ? pair + 1 : g->size;
    uint64_t bytes = b->from_bytes / (is_tuple ? 1 : g->size);
    for (uint32_t k = first; k < end && r == ncclSuccess; k++) {
        uint64_t at = is_tuple ? 0 : k * bytes;
        r = nccl->send(pointer(b->from + at), bytes / b->unit, b->type, (int)k, g->comm,
                       stream);
        if (r == ncclSuccess) {
            r = nccl->receive(pointer(b->to + at), bytes / b->unit, b->type, (int)k,
                              g->comm, stream);
        }
    }
    return r;
}

static int rank_in(const Group *g, int64_t device)
{
    for (uint32_t k = 0; k < g->size; k++) {
        if (g->devices[k] == device) {
            return (int)k;
        }
    }
    return -1;
}

/* Sends along the pairs; who is nobody's target gets zeros (before: outside the group). */
static ncclResult_t permute(Device *d, const PlanCollective *op, const Group *g,
                            const Buffer *b, CUstream stream)
{
    const NcclApi *nccl = d->session->nccl;
    const int64_t *pairs = d->session->plan->numbers + op->pairs;
    ncclResult_t r = ncclSuccess;
    for (uint32_t i = 0; i < op->pair_count && r == ncclSuccess; i++) {
        if (pairs[2 * i] == (int64_t)d->number && op->kind != PLAN_RECEIVE) {
            r = nccl->send(pointer(b->from), b->from_bytes / b->unit, b->type,
                           rank_in(g, pairs[2 * i + 1]), g->comm, stream);
        }
        if (r == ncclSuccess && pairs[2 * i + 1] == (int64_t)d->number &&
            op->kind != PLAN_SEND) {
            r = nccl->receive(pointer(b->to), b->to_bytes / b->unit, b->type,
                              rank_in(g, pairs[2 * i]), g->comm, stream);
        }
    }
    return r;
}

static ncclResult_t issue(Device *d, const PlanCollective *op, const Group *g,
                          const Buffer *b, uint32_t pair, CUstream stream)
{
    const NcclApi *nccl = d->session->nccl;
    size_t sent = b->from_bytes / b->unit;
    switch ((PlanCollectiveKind)op->kind) {
    case PLAN_ALL_REDUCE:
        return nccl->all_reduce(pointer(b->from), pointer(b->to), sent, b->type,
                                reduction_of(op->reduction), g->comm, stream);
    case PLAN_ALL_GATHER:
        return nccl->all_gather(pointer(b->from), pointer(b->to), sent, b->type, g->comm,
                                stream);
    case PLAN_REDUCE_SCATTER:
        return nccl->reduce_scatter(pointer(b->from), pointer(b->to),
                                    b->to_bytes / b->unit, b->type,
                                    reduction_of(op->reduction), g->comm, stream);
    case PLAN_BROADCAST:
        return nccl->broadcast(pointer(b->from), pointer(b->to), sent, b->type, 0,
                               g->comm, stream);
    case PLAN_ALL_TO_ALL:
        return all_to_all(d, g, b, pair, op->flags & PLAN_COLLECTIVE_TUPLE, stream);
    case PLAN_COLLECTIVE_PERMUTE:
    case PLAN_SEND:
    case PLAN_RECEIVE:
        return permute(d, op, g, b, stream);
    case PLAN_RAGGED_ALL_TO_ALL:
    case PLAN_BARRIER:
    case PLAN_COLLECTIVE_KINDS:
        break;
    }
    return ncclSuccess;
}

static bool receives(const Device *d, const PlanCollective *op)
{
    const int64_t *pairs = d->session->plan->numbers + op->pairs;
    for (uint32_t i = 0; i < op->pair_count; i++) {
        if (pairs[2 * i + 1] == (int64_t)d->number) {
            return true;
        }
    }
    return false;
}

/* What happens without NCCL: groups of one copy, and a device that no pair of a permute sends
 * to gets zeros. */
static CUresult alone(Device *d, const PlanCollective *op, const Group *g,
                      const Buffer *b, CUstream stream)
{
    const CudaApi *cuda = d->session->cuda;
    bool moves = op->kind == PLAN_COLLECTIVE_PERMUTE || op->kind == PLAN_RECEIVE;
    if (op->kind == PLAN_SEND || b->to_bytes == 0) {
        return CUDA_SUCCESS;
    }
    if (moves && !receives(d, op)) {
        return cuda->set_8(b->to, 0, b->to_bytes, stream);
    }
    if (g->size < 2 && b->from && b->from != b->to) {
        return cuda->copy_on_device(b->to, b->from, b->to_bytes, stream);
    }
    return CUDA_SUCCESS;
}

/* Queues the NCCL calls of all buffers as one group. */
static gxrt_status issue_group(Device *d, const PlanCommand *c, Group *g, CUstream stream)
{
    gxrt_session *s = d->session;
    const PlanCollective *op = &s->plan->collectives[c->index];
    char what[512];
    command_text(d, c, what, sizeof what);
    pthread_mutex_lock(&d->nccl_mutex);
    gxrt_status st = watchdog_verdict(s);
    ncclResult_t r = st == GXRT_OK ? s->nccl->group_start() : ncclSuccess;
    for (uint32_t i = 0; i < c->arg_count / 2 && r == ncclSuccess && st == GXRT_OK; i++) {
        Buffer b;
        st = get_buffer(d, c, i, &b);
        if (st == GXRT_OK) {
            r = issue(d, op, g, &b, i, stream);
        }
    }
    if (watchdog_verdict(s) == GXRT_OK) {
        ncclResult_t end = s->nccl->group_end();
        r = r == ncclSuccess ? end : r;
        g->calls++;
        if (st == GXRT_OK) {
            st = settle(d, g->comm, r, plan_collective_name(op->kind), what);
        }
    }
    pthread_mutex_unlock(&d->nccl_mutex);
    return st;
}

/* Calls on one communicator come in the order of the plan, on whatever streams they are: two
 * ranks that met in different orders would wait for each other. */
static gxrt_status order_calls(Device *d, const PlanCommand *c, Group *g)
{
    const CudaApi *cuda = d->session->cuda;
    uint32_t last = g->last_stream;
    CUresult r = CUDA_SUCCESS;
    g->last_stream = c->stream;
    if (d->streams[last] == d->streams[c->stream] || !g->was_called) {
        g->was_called = true;
        return GXRT_OK;
    }
    if (!g->order) {
        r = cuda->event_create(&g->order, CU_EVENT_DISABLE_TIMING);
    }
    r = r == CUDA_SUCCESS ? cuda->event_record(g->order, d->streams[last]) : r;
    r = r == CUDA_SUCCESS ? cuda->stream_wait(d->streams[c->stream], g->order, 0) : r;
    return r == CUDA_SUCCESS ? GXRT_OK : command_error(d, c, "cuStreamWaitEvent", r);
}

gxrt_status collective_call(Device *d, const PlanCommand *c, CUstream stream)
{
    const PlanCollective *op = &d->session->plan->collectives[c->index];
    Group *g = &d->groups[op->clique];
    gxrt_status st = order_calls(d, c, g);
    for (uint32_t i = 0; i < c->arg_count / 2 && st == GXRT_OK; i++) {
        Buffer b;
        st = get_buffer(d, c, i, &b);
        CUresult r = st == GXRT_OK ? alone(d, op, g, &b, stream) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS) {
            char what[512];
            command_text(d, c, what, sizeof what);
            st = device_error(d, "cuMemcpyDtoDAsync", r, what);
        }
    }
    if (st != GXRT_OK || !g->comm) {
        return st;
    }
    bool tracked = false;
    st = meet(d, op->clique, c);
    st = st == GXRT_OK ? watchdog_before(d, c, stream, &tracked) : st;
    if (st == GXRT_OK) {
        watchdog_enter(d, "queueing", c);
        st = issue_group(d, c, g, stream);
        watchdog_leave(d);
    }
    if (st == GXRT_OK && tracked) {
        st = watchdog_after(d, stream);
    }
    return st == GXRT_OK ? meet(d, op->clique, c) : st;
}
