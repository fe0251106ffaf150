/* The plan's collectives for one device: who its peers are, how many elements of which type go
 * where. Done once, when a session is made; what runs later only adds addresses. */
#include <stdlib.h>

#include "runtime/collective/collective.h"

/* Adds a zeroed element to an array; NULL: no memory. */
static void *append(void **array, uint32_t *count, size_t bytes)
{
    if ((*count & (*count - 1)) == 0) { /* full at every power of two */
        size_t capacity = *count ? 2 * (size_t)*count : 1;
        void *larger = realloc(*array, capacity * bytes);
        if (!larger) {
            return NULL;
        }
        *array = larger;
    }
    return (char *)*array + bytes * (*count)++;
}

static bool add_move(Collectives *all, uint32_t to, uint32_t from)
{
    void *array = all->moves;
    LocalMove *m = append(&array, &all->move_count, sizeof *m);
    all->moves = array;
    if (m) {
        *m = (LocalMove){.to = to, .from = from};
    }
    return m != NULL;
}

static bool add_transfer(Collectives *all, const Transfer *t)
{
    void *array = all->transfers;
    Transfer *added = append(&array, &all->transfer_count, sizeof *added);
    all->transfers = array;
    if (added) {
        *added = *t;
    }
    return added != NULL;
}

/* One operand with its result, on one device. */
typedef struct Buffer {
    const Plan *plan;
    const PlanCollective *op;
    const Group *group;
    uint32_t device;         /* its number */
    uint32_t send, receive;  /* slices, or PLAN_NONE */
    uint64_t sent, received; /* bytes */
    uint32_t index;          /* among the buffers of the command */
    TransportType type;      /* for groups of two and more */
} Buffer;

static bool is_received(const Buffer *b)
{
    const int64_t *pairs = b->plan->numbers + b->op->pairs;
    for (uint32_t i = 0; i < b->op->pair_count; i++) {
        if (pairs[2 * i + 1] == (int64_t)b->device) {
            return true;
        }
    }
    return false;
}

/* What needs no other device: groups of one copy, and a device that no pair of a permute sends
 * to gets zeros. Who receives bytes sends some, says the plan's reader. */
static bool add_local(Collectives *all, const Buffer *b)
{
    if (b->received == 0) {
        return true;
    }
    if (b->op->kind == PLAN_COLLECTIVE_PERMUTE && !is_received(b)) {
        return add_move(all, b->receive, PLAN_NONE);
    }
    return b->group->size >= 2 || add_move(all, b->receive, b->send);
}

/* A call of `bytes` bytes, `offset` bytes into operand and result. */
static Transfer transfer_of(const Buffer *b, TransportOperation operation, uint64_t bytes,
                            uint64_t offset, int peer)
{
    return (Transfer){.call = {.operation = operation,
                               .type = b->type.type,
                               .reduction = b->type.reduction,
                               .peer = peer,
                               .count = bytes / b->type.bytes},
                      .send = b->send,
                      .receive = b->receive,
                      .offset = offset};
}

static bool add_whole(Collectives *all, const Buffer *b, TransportOperation operation)
{
    bool scatters = operation == TRANSPORT_REDUCE_SCATTER;
    Transfer t = transfer_of(b, operation, scatters ? b->received : b->sent, 0, 0);
    return add_transfer(all, &t);
}

static bool add_part(Collectives *all, const Buffer *b, TransportOperation operation,
                     uint64_t bytes, uint64_t offset, int peer)
{
    Transfer t = transfer_of(b, operation, bytes, offset, peer);
    return add_transfer(all, &t);
}

/* Piece k of the operand goes to rank k, piece k of the result comes from it. A tuple's pieces
 * are its buffers: buffer k is rank k's. */
static bool add_all_to_all(Collectives *all, const Buffer *b)
{
    bool is_tuple = b->op->flags & PLAN_COLLECTIVE_TUPLE;
    uint32_t first = is_tuple ? b->index : 0;
    uint32_t end = is_tuple ? b->index + 1 : b->group->size;
    uint64_t bytes = b->sent / (is_tuple ? 1 : b->group->size);
    for (uint32_t k = first; k < end; k++) {
        uint64_t offset = is_tuple ? 0 : k * bytes;
        if (!add_part(all, b, TRANSPORT_SEND, bytes, offset, (int)k) ||
            !add_part(all, b, TRANSPORT_RECEIVE, bytes, offset, (int)k)) {
            return false;
        }
    }
    return true;
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

static bool add_permute(Collectives *all, const Buffer *b)
{
    const int64_t *pairs = b->plan->numbers + b->op->pairs;
    for (uint32_t i = 0; i < b->op->pair_count; i++) {
        int64_t from = pairs[2 * i];
        int64_t to = pairs[2 * i + 1];
        if (from == (int64_t)b->device &&
            !add_part(all, b, TRANSPORT_SEND, b->sent, 0, rank_in(b->group, to))) {
            return false;
        }
        if (to == (int64_t)b->device && !add_part(all, b, TRANSPORT_RECEIVE, b->received,
                                                  0, rank_in(b->group, from))) {
            return false;
        }
    }
    return true;
}

static bool add_transfers(Collectives *all, const Buffer *b)
{
    switch ((PlanCollectiveKind)b->op->kind) {
    case PLAN_ALL_REDUCE:
        return add_whole(all, b, TRANSPORT_ALL_REDUCE);
    case PLAN_ALL_GATHER:
        return add_whole(all, b, TRANSPORT_ALL_GATHER);
    case PLAN_REDUCE_SCATTER:
        return add_whole(all, b, TRANSPORT_REDUCE_SCATTER);
    case PLAN_BROADCAST:
        return add_whole(all, b, TRANSPORT_BROADCAST);
    case PLAN_ALL_TO_ALL:
        return add_all_to_all(all, b);
    case PLAN_COLLECTIVE_PERMUTE:
        return add_permute(all, b);
    case PLAN_COLLECTIVE_KINDS:
        break;
    }
    return true;
}

static gxrt_status resolve_buffer(const Device *d, const PlanCommand *c, uint32_t index,
                                  Collectives *all)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    const PlanCollective *op = &p->collectives[c->index];
    const PlanArg *args = p->args + c->args + 2 * index;
    Buffer b = {.plan = p,
                .op = op,
                .group = &d->groups[op->clique],
                .device = d->number,
                .send = args[0].tag ? args[0].index : PLAN_NONE,
                .receive = args[1].tag ? args[1].index : PLAN_NONE,
                .sent = args[0].tag ? p->slices[args[0].index].bytes : 0,
                .received = args[1].tag ? p->slices[args[1].index].bytes : 0,
                .index = index};
    bool ok = add_local(all, &b);
    if (ok && b.group->size >= 2) {
        uint32_t name = op->dtypes == PLAN_NONE ? op->dtype : p->refs[op->dtypes + index];
        if (!s->transport->resolve(plan_text(p, name), (PlanReduction)op->reduction,
                                   p->info->sm, &b.type)) {
            return status_set(GXRT_UNSUPPORTED, "not supported: %s of %s by %s (%s)",
                              plan_collective_name(op->kind), plan_text(p, name),
                              s->transport->name, plan_text(p, c->name));
        }
        ok = add_transfers(all, &b);
    }
    return ok ? GXRT_OK
              : status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
}

static bool is_joined(const Plan *p, const PlanCommand *c)
{
    return c->kind == PLAN_COLLECTIVE &&
           (p->collectives[c->index].flags & PLAN_COLLECTIVE_JOINED) != 0;
}

gxrt_status collective_resolve(Device *d, Collectives *all)
{
    const Plan *p = d->session->plan;
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < p->commands_count && st == GXRT_OK; i++) {
        const PlanCommand *c = &p->commands[i];
        if (c->kind != PLAN_COLLECTIVE) {
            continue;
        }
        void *array = all->calls;
        CollectiveCall *call = append(&array, &all->call_count, sizeof *call);
        all->calls = array;
        if (!call) {
            return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
        }
        *call = (CollectiveCall){.clique = p->collectives[c->index].clique,
                                 .first_move = all->move_count,
                                 .first_transfer = all->transfer_count,
                                 .is_joined = is_joined(p, c),
                                 .is_continued = i > 0 && is_joined(p, c - 1)};
        for (uint32_t k = 0; k < c->arg_count / 2 && st == GXRT_OK; k++) {
            st = resolve_buffer(d, c, k, all);
        }
        call->move_count = all->move_count - call->first_move;
        call->transfer_count = all->transfer_count - call->first_transfer;
    }
    return st;
}

void collective_release(Collectives *all)
{
    free(all->calls);
    free(all->transfers);
    free(all->moves);
    *all = (Collectives){0};
}
