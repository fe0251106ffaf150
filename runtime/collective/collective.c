/* Running collectives: local moves, then the calls of the transport, as one group. resolve.c has
 * made the calls, communicator.c the communicators. */
#include "runtime/collective/collective.h"

#include <sched.h>
#include <stdatomic.h>

#include "ir/base/clock.h"

/* --- errors and waiting --------------------------------------------------------------------- */

gxrt_status collective_error(Device *d, const char *call, TransportResult r,
                             const char *what)
{
    gxrt_session *s = d->session;
    gxrt_status verdict = watchdog_verdict(s);
    if (verdict != GXRT_OK) {
        return verdict;
    }
    d->is_stopped = atomic_exchange(&s->failed, true);
    return status_set(GXRT_WORLD_FAILED, "%s: %s (%s) in %s on device %u", call,
                      s->transport->error_text(s, r), s->transport->last_error(s, NULL),
                      what, d->number);
}

static void command_text(const Device *d, const PlanCommand *c, char *text, size_t size)
{
    const Plan *p = d->session->plan;
    snprintf(text, size, "command %u (%s) of HLO instruction %s",
             (unsigned)(c - p->commands),
             plan_collective_name(p->collectives[c->index].kind), plan_text(p, c->name));
}

/* The communicator is gone once the watchdog has aborted it, for which it needs the lock. */
gxrt_status collective_settle(Device *d, TransportComm *comm, TransportResult r,
                              const char *call, const char *what)
{
    enum { QUICK = 256 }; /* queueing a call takes some microseconds, a sleep a hundred */
    const gxrt_session *s = d->session;
    for (unsigned turn = 0; r == TRANSPORT_PENDING && !s->failed; turn++) {
        pthread_mutex_unlock(&d->comm_mutex);
        if (turn < QUICK) {
            sched_yield();
        } else {
            sleep_seconds(0.00005);
        }
        pthread_mutex_lock(&d->comm_mutex);
        r = s->failed ? r : s->transport->state(s, comm);
    }
    return r == TRANSPORT_DONE ? GXRT_OK : collective_error(d, call, r, what);
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

/* --- what is done for the first time: a rendezvous of local members around the collective --- */

/* Loading a kernel lazily may wait for the device while a peer's collective already spins, so in
 * the first execution nobody goes ahead. Nor around a call that is made for the first time later,
 * in a branch not taken before: NCCL connects the ranks when it first needs to, and allocates. */
static gxrt_status rendezvous(Device *d, const CollectiveCall *call, const PlanCommand *c)
{
    gxrt_session *s = d->session;
    const Group *g = &d->groups[call->clique];
    if ((d->executions > 0 && call->was_made) || g->local < 2) {
        return GXRT_OK;
    }
    Rendezvous *m = &s->rendezvous[call->clique * s->device_count + g->first_local];
    watchdog_enter(d, "waiting for the other local devices", c);
    pthread_mutex_lock(&s->mutex);
    uint64_t round = m->rounds;
    if (++m->present == g->local) {
        m->present = 0;
        m->rounds++;
        pthread_cond_broadcast(&s->round_over);
    }
    while (m->rounds == round && !s->failed) {
        condition_wait(&s->round_over, &s->mutex, 0.05);
    }
    bool together = m->rounds != round;
    pthread_mutex_unlock(&s->mutex);
    watchdog_leave(d);
    if (together) {
        return GXRT_OK;
    }
    return stopped(d);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void *address(const Device *d, uint32_t slice, uint64_t offset)
{
    return slice == PLAN_NONE ? NULL
                              : (void *)(uintptr_t)(slice_address(d, slice) + offset);
}

static TransportResult issue(Device *d, const CollectiveCall *call, TransportComm *comm,
                             CUstream stream)
{
    const gxrt_session *s = d->session;
    const Transfer *t = d->collectives->transfers + call->first_transfer;
    TransportResult r = TRANSPORT_DONE;
    for (uint32_t i = 0; i < call->transfer_count && r == TRANSPORT_DONE; i++) {
        r = s->transport->call(s, comm, &t[i].call, address(d, t[i].send, t[i].offset),
                               address(d, t[i].receive, t[i].offset), stream);
    }
    return r;
}

/* Queues the calls of a command, and of those that are joined with it, as one group. */
static gxrt_status issue_group(Device *d, const PlanCommand *c,
                               const CollectiveCall *call, Group *g, CUstream stream)
{
    gxrt_session *s = d->session;
    pthread_mutex_lock(&d->comm_mutex);
    bool open = !s->failed; /* else the communicators are aborted, or soon will be */
    gxrt_status st = open ? GXRT_OK : stopped(d);
    TransportResult r = open ? s->transport->begin(s) : TRANSPORT_DONE;
    bool more = open && r == TRANSPORT_DONE;
    while (more) {
        r = issue(d, call, g->comm, stream);
        more = r == TRANSPORT_DONE && call->is_joined;
        call += more;
        c += more; /* of several that are joined, c is the one that has failed */
    }
    if (d->is_aborted) { /* meanwhile, because the transport kept this thread */
        st = st == GXRT_OK ? stopped(d) : st;
    } else if (open) {
        char what[512];
        TransportResult end = s->transport->end(s);
        r = r == TRANSPORT_DONE ? end : r;
        g->calls++;
        command_text(d, c, what, sizeof what);
        st = collective_settle(d, g->comm, r,
                               plan_collective_name(s->plan->collectives[c->index].kind),
                               what);
    }
    pthread_mutex_unlock(&d->comm_mutex);
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

static CUresult move_locally(const Device *d, const LocalMove *m, CUstream stream)
{
    const CudaApi *cuda = d->session->cuda;
    uint64_t bytes = d->session->plan->slices[m->to].bytes;
    CUdeviceptr to = slice_address(d, m->to);
    if (m->from == PLAN_NONE) {
        return cuda->set_8(to, 0, bytes, stream);
    }
    CUdeviceptr from = slice_address(d, m->from);
    return from == to ? CUDA_SUCCESS : cuda->copy_on_device(to, from, bytes, stream);
}

gxrt_status run_collective(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    CollectiveCall *call = &d->collectives->calls[s->calls[c - s->plan->commands]];
    Group *g = &d->groups[call->clique];
    gxrt_status st = order_calls(d, c, g);
    for (uint32_t i = 0; i < call->move_count && st == GXRT_OK; i++) {
        CUresult r =
            move_locally(d, &d->collectives->moves[call->first_move + i], stream);
        if (r != CUDA_SUCCESS) {
            char what[512];
            command_text(d, c, what, sizeof what);
            st = device_error(d, "cuMemcpyDtoDAsync", r, what);
        }
    }
    if (st != GXRT_OK || !g->comm || call->is_continued) {
        return st;
    }
    st = rendezvous(d, call, c);
    st = st == GXRT_OK ? watchdog_before(d, c, stream) : st;
    if (st == GXRT_OK) {
        watchdog_enter(d, "queueing", c);
        st = issue_group(d, c, call, g, stream);
        watchdog_leave(d);
    }
    st = st == GXRT_OK ? watchdog_after(d, stream) : st;
    st = st == GXRT_OK ? rendezvous(d, call, c) : st;
    call->was_made |= st == GXRT_OK;
    return st;
}
