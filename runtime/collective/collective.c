/* Calls of NCCL while a program runs; communicator.c makes the communicators before. */
#include "runtime/collective/collective.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

gxrt_status collective_error(Device *d, const char *call, ncclResult_t r,
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
gxrt_status collective_settle(Device *d, ncclComm_t comm, ncclResult_t r,
                              const char *call, const char *what)
{
    enum { QUICK = 256 }; /* queueing a call takes some microseconds, a sleep a hundred */
    const NcclApi *nccl = d->session->nccl;
    for (unsigned turn = 0; r == ncclInProgress && !d->session->failed; turn++) {
        if (turn < QUICK) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
        ncclResult_t state = ncclSuccess;
        ncclResult_t asked = nccl->comm_async_error(comm, &state);
        r = asked != ncclSuccess ? asked : state;
    }
    return r == ncclSuccess ? GXRT_OK : collective_error(d, call, r, what);
}

/* Nothing more is to be done: another device has failed, or the watchdog has struck. */
static gxrt_status stopped(Device *d)
{
    gxrt_status verdict = watchdog_verdict(d->session);
    d->is_stopped = true;
    return verdict != GXRT_OK
               ? verdict
               : status_set(GXRT_WORLD_FAILED,
                            "device %u stopped: another device has failed", d->number);
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
    return stopped(d);
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
        if (pairs[2 * i] == (int64_t)d->number) {
            r = nccl->send(pointer(b->from), b->from_bytes / b->unit, b->type,
                           rank_in(g, pairs[2 * i + 1]), g->comm, stream);
        }
        if (r == ncclSuccess && pairs[2 * i + 1] == (int64_t)d->number) {
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
        return permute(d, op, g, b, stream);
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
    bool moves = op->kind == PLAN_COLLECTIVE_PERMUTE;
    if (b->to_bytes == 0) {
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

static bool is_joined(const Device *d, const PlanCommand *c)
{
    const Plan *p = d->session->plan;
    return c->kind == PLAN_COLLECTIVE &&
           (p->collectives[c->index].flags & PLAN_COLLECTIVE_JOINED) != 0;
}

/* The calls of all buffers of one command. */
static gxrt_status issue_buffers(Device *d, const PlanCommand *c, const Group *g,
                                 CUstream stream, ncclResult_t *r)
{
    const PlanCollective *op = &d->session->plan->collectives[c->index];
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < c->arg_count / 2 && *r == ncclSuccess && st == GXRT_OK;
         i++) {
        Buffer b;
        st = get_buffer(d, c, i, &b);
        if (st == GXRT_OK) {
            *r = issue(d, op, g, &b, i, stream);
        }
    }
    return st;
}

/* Queues the NCCL calls of all buffers, of the commands that are joined with it too, as one
 * group. */
static gxrt_status issue_group(Device *d, const PlanCommand *c, Group *g, CUstream stream)
{
    gxrt_session *s = d->session;
    const PlanCollective *op = &s->plan->collectives[c->index];
    char what[512];
    command_text(d, c, what, sizeof what);
    pthread_mutex_lock(&d->nccl_mutex);
    bool open = !s->failed; /* else the communicators are aborted, or soon will be */
    gxrt_status st = open ? GXRT_OK : stopped(d);
    ncclResult_t r = open ? s->nccl->group_start() : ncclSuccess;
    bool more = open;
    for (const PlanCommand *each = c; more && r == ncclSuccess && st == GXRT_OK; each++) {
        st = issue_buffers(d, each, g, stream, &r);
        more = is_joined(d, each);
        if (r != ncclSuccess) { /* of several that are joined, this one has failed */
            command_text(d, each, what, sizeof what);
            op = &s->plan->collectives[each->index];
        }
    }
    if (d->is_aborted) { /* meanwhile, because NCCL kept this thread */
        st = st == GXRT_OK ? stopped(d) : st;
    } else if (open) {
        ncclResult_t end = s->nccl->group_end();
        r = r == ncclSuccess ? end : r;
        g->calls++;
        if (st == GXRT_OK) {
            st = collective_settle(d, g->comm, r, plan_collective_name(op->kind), what);
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

gxrt_status run_collective(Device *d, const PlanCommand *c, CUstream stream)
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
    bool issued = c > d->session->plan->commands && is_joined(d, c - 1);
    if (st != GXRT_OK || !g->comm || issued) {
        return st;
    }
    st = meet(d, op->clique, c);
    st = st == GXRT_OK ? watchdog_before(d, c, stream) : st;
    if (st == GXRT_OK) {
        watchdog_enter(d, "queueing", c);
        st = issue_group(d, c, g, stream);
        watchdog_leave(d);
    }
    st = st == GXRT_OK ? watchdog_after(d, stream) : st;
    return st == GXRT_OK ? meet(d, op->clique, c) : st;
}
