/* The functions of nccl.def: communicators, groups, and collectives as operations of streams. */
#define _DEFAULT_SOURCE /* getentropy */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/collective.h"
#include "runtime/emu/context.h"
#include "runtime/emu/queue.h"

#pragma GCC visibility push(default)
#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t symbol parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#include "runtime/library/nccl.def"
#pragma GCC visibility pop

enum { /* of ncclResult_t, beside those of cuda_types.h */
       NCCL_UNHANDLED_CUDA_ERROR = 1,
       NCCL_SYSTEM_ERROR = 2,
       NCCL_INVALID_ARGUMENT = 4,
       NCCL_INVALID_USAGE = 5,
       NCCL_REMOTE_ERROR = 6,
       NCCL_AVG = 4, /* ncclRedOp_t */
};

struct ncclComm {
    RendezvousMember member;
    CUcontext context;
    uint32_t world_rank; /* in the communicator that this one was split from first */
    bool is_ready;       /* all ranks have come */
    bool is_lost;        /* GXEMU_LOSE_RANK has struck here */
    uint64_t calls, collectives, splits;
    unsigned users; /* operations under way, and the owner; guarded by emu_lock */
    ncclResult_t error;
    char text[FINDING_TEXT_BYTES];
};

/* A call that waits for the end of its group. */
typedef struct Pending {
    struct Pending *next;
    ncclComm_t comm;
    enum { PENDING_CALL, PENDING_INIT, PENDING_SPLIT } kind;
    CUstream stream;
    Collective call;
    int32_t colour; /* PENDING_SPLIT */
    uint64_t split;
    ncclComm_t *out, part; /* what it made is held */
} Pending;

static _Thread_local int group_depth;
static _Thread_local Pending *group_first, *group_last;
static _Thread_local ncclResult_t group_error;
static _Thread_local char last_text[FINDING_TEXT_BYTES];

/* The first error of a group is its own. */
static ncclResult_t group_fail(ncclResult_t result)
{
    if (group_depth > 0 && group_error == ncclSuccess)
        group_error = result;
    return result;
}

static ncclResult_t refuse(ncclResult_t result, const char *text)
{
    snprintf(last_text, sizeof last_text, "%s", text);
    emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s", text);
    return group_fail(result);
}

/* emu_enter of a call; one that fails is an error of its group, which would wait for it. */
static bool call_enter(const char *function, CUcontext *out)
{
    bool enters = emu_enter(function, out) == CUDA_SUCCESS;
    if (!enters)
        group_fail(NCCL_UNHANDLED_CUDA_ERROR);
    return enters;
}

static void comm_release(ncclComm_t c)
{
    pthread_mutex_lock(&emu_lock);
    bool last = --c->users == 0;
    pthread_mutex_unlock(&emu_lock);
    if (last) {
        rendezvous_leave(&c->member);
        free(c);
    }
}

/* While a call uses it, an abort by another thread does not take it away. */
static void comm_use(ncclComm_t c)
{
    pthread_mutex_lock(&emu_lock);
    c->users++;
    pthread_mutex_unlock(&emu_lock);
}

static void comm_fail(ncclComm_t c, ncclResult_t error, const char *text)
{
    pthread_mutex_lock(&emu_lock);
    if (c->error == ncclSuccess) {
        c->error = error;
        snprintf(c->text, sizeof c->text, "%s", text);
    }
    pthread_mutex_unlock(&emu_lock);
}

ncclResult_t ncclGetVersion(int *version)
{
    if (version == NULL)
        return NCCL_INVALID_ARGUMENT;
    *version = emu_config()->nccl_version;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "operation in progress"};
    bool known = result >= 0 && (size_t)result < sizeof texts / sizeof texts[0];
    return known ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    if (comm != NULL) {
        pthread_mutex_lock(&emu_lock);
        ncclResult_t error = comm->error;
        if (error != ncclSuccess)
            snprintf(last_text, sizeof last_text, "%s", comm->text);
        pthread_mutex_unlock(&emu_lock);
        char missing[RENDEZVOUS_TEXT_BYTES];
        if (error == ncclSuccess && rendezvous_missing(&comm->member, missing))
            snprintf(last_text, sizeof last_text,
                     "%.900s of this communicator did not come", missing);
        else if (error == ncclSuccess)
            last_text[0] = '\0';
    }
    return last_text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    unsigned char random[16];
    if (out == NULL)
        return refuse(NCCL_INVALID_ARGUMENT, "ncclGetUniqueId: NULL");
    if (getentropy(random, sizeof random) != 0)
        return refuse(NCCL_SYSTEM_ERROR, "ncclGetUniqueId: no random numbers");
    memset(out, 0, sizeof *out);
    int at = snprintf(out->internal, sizeof out->internal, "/gxemu-");
    for (size_t i = 0; i < sizeof random; i++)
        at += snprintf(out->internal + at, sizeof out->internal - (size_t)at, "%02x",
                       random[i]);
    return ncclSuccess;
}

static ncclComm_t comm_create(CUcontext context)
{
    ncclComm_t c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->context = context;
        c->users = 1;
    }
    return c;
}

/* Waits for the other ranks. */
static ncclResult_t comm_wait(ncclComm_t c)
{
    if (!rendezvous_wait_full(&c->member))
        return refuse(NCCL_REMOTE_ERROR,
                      "a communicator was aborted before all ranks came");
    c->is_ready = true;
    return ncclSuccess;
}

/* Holds the communicator: its owner may give it back within the group. */
static Pending *pending_add(ncclComm_t comm)
{
    Pending *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    comm_use(comm);
    p->comm = comm;
    if (group_last != NULL)
        group_last->next = p;
    else
        group_first = p;
    group_last = p;
    return p;
}

static void pending_free(Pending *p)
{
    comm_release(p->comm);
    if (p->part != NULL)
        comm_release(p->part);
    free(p);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    CUcontext context;
    char reason[RENDEZVOUS_TEXT_BYTES] = "";
    if (!call_enter("ncclCommInitRankConfig", &context))
        return NCCL_UNHANDLED_CUDA_ERROR;
    id.internal[sizeof id.internal - 1] = '\0';
    if (out == NULL || ranks < 1 || rank < 0 || strncmp(id.internal, "/gxemu-", 7) != 0 ||
        strlen(id.internal) >= RENDEZVOUS_NAME_BYTES ||
        strchr(id.internal + 1, '/') != NULL)
        return refuse(
            NCCL_INVALID_ARGUMENT,
            "ncclCommInitRankConfig: a bad rank, or an id that is not the emulator's");
    *out = NULL;
    ncclComm_t c = comm_create(context);
    if (c == NULL)
        return refuse(NCCL_SYSTEM_ERROR, "no memory");
    c->world_rank = (uint32_t)rank;
    if (!rendezvous_enter(&c->member, id.internal, (uint32_t)rank, (uint32_t)ranks,
                          reason)) {
        free(c);
        return refuse(NCCL_INVALID_USAGE, reason);
    }
    if (group_depth == 0 && (config == NULL || config->blocking != 0)) {
        comm_use(c);
        *out = c;
        ncclResult_t r = comm_wait(c);
        comm_release(c);
        return r;
    }
    *out = c;
    if (config != NULL && config->blocking == 0)
        return ncclInProgress;
    Pending *p = pending_add(c);
    if (p == NULL)
        return refuse(NCCL_SYSTEM_ERROR, "no memory");
    p->kind = PENDING_INIT;
    return ncclSuccess;
}

/* The name of a part of a rendezvous: the same in all its ranks. */
static void split_name(char out[RENDEZVOUS_NAME_BYTES], const char *parent,
                       uint64_t number, int32_t colour)
{
    char text[RENDEZVOUS_NAME_BYTES + 48];
    uint64_t hash[2] = {UINT64_C(14695981039346656037), UINT64_C(0x9e3779b97f4a7c15)};
    snprintf(text, sizeof text, "%s:%" PRIu64 ":%" PRId32, parent, number, colour);
    for (const char *p = text; *p != '\0'; p++)
        for (int i = 0; i < 2; i++)
            hash[i] = (hash[i] ^ (unsigned char)*p) * UINT64_C(1099511628211);
    snprintf(out, RENDEZVOUS_NAME_BYTES, "/gxemu-%016" PRIx64 "%016" PRIx64, hash[0],
             hash[1]);
}

/* The part of a split that waits for the posts of others; enters the new rendezvous. The caller holds the new communicator,
 * which stays NULL if there is none: whoever sees it in *out may abort it at once. */
static ncclResult_t split_enter(ncclComm_t parent, uint64_t number, int32_t colour,
                                ncclComm_t *out, ncclComm_t *held)
{
    uint32_t rank, ranks;
    char name[RENDEZVOUS_NAME_BYTES], reason[RENDEZVOUS_TEXT_BYTES] = "";
    if (!rendezvous_wait_split(&parent->member, number, colour, &rank, &ranks))
        return refuse(NCCL_REMOTE_ERROR, "ncclCommSplit: the communicator was aborted");
    if (colour < 0)
        return ncclSuccess;
    ncclComm_t c = comm_create(parent->context);
    if (c == NULL)
        return refuse(NCCL_SYSTEM_ERROR, "no memory");
    c->world_rank = parent->world_rank;
    split_name(name, parent->member.name, number, colour);
    if (!rendezvous_enter(&c->member, name, rank, ranks, reason)) {
        free(c);
        return refuse(NCCL_SYSTEM_ERROR, reason);
    }
    comm_use(c);
    *out = *held = c;
    if (rendezvous_is_aborted(&parent->member)) /* before anybody could see the part */
        rendezvous_abort(&c->member);
    return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    CUcontext context;
    (void)config;
    if (!call_enter("ncclCommSplit", &context))
        return NCCL_UNHANDLED_CUDA_ERROR;
    if (comm == NULL || out == NULL || colour < -1)
        return refuse(NCCL_INVALID_ARGUMENT, "ncclCommSplit: NULL, or a colour below -1");
    *out = NULL;
    if (!rendezvous_is_full(&comm->member)) /* the rest may never come */
        return refuse(NCCL_INVALID_ARGUMENT, "ncclCommSplit: the communicator is not "
                                             "ready: not all of its ranks have come");
    uint64_t number = ++comm->splits;
    rendezvous_post_split(&comm->member, number, colour, key);
    if (group_depth == 0) {
        ncclComm_t part = NULL;
        comm_use(comm);
        ncclResult_t r = split_enter(comm, number, colour, out, &part);
        if (part != NULL) {
            r = comm_wait(part);
            comm_release(part);
        }
        comm_release(comm);
        return r;
    }
    Pending *p = pending_add(comm);
    if (p == NULL)
        return refuse(NCCL_SYSTEM_ERROR, "no memory");
    p->kind = PENDING_SPLIT;
    p->split = number;
    p->colour = colour;
    p->out = out;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm == NULL ? NCCL_INVALID_ARGUMENT : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm != NULL)
        comm_release(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    rendezvous_abort(&comm->member);
    comm_release(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (comm == NULL || error == NULL)
        return NCCL_INVALID_ARGUMENT;
    if (!comm->is_ready)
        comm->is_ready = rendezvous_is_full(&comm->member);
    pthread_mutex_lock(&emu_lock);
    *error = comm->error != ncclSuccess ? comm->error
             : comm->is_ready           ? ncclSuccess
                                        : ncclInProgress;
    pthread_mutex_unlock(&emu_lock);
    return ncclSuccess;
}

/* Calls of one communicator and stream that were grouped. */
typedef struct Batch {
    Operation operation;
    ncclComm_t comm;
    size_t count;
    Collective calls[];
} Batch;

static uint64_t send_bytes(const Collective *c, uint32_t ranks)
{
    uint64_t bytes = c->count * dtype_info[c->type].storage;
    return c->kind == COLLECTIVE_RECEIVE          ? 0
           : c->kind == COLLECTIVE_REDUCE_SCATTER ? bytes * ranks
                                                  : bytes;
}

static uint64_t receive_bytes(const Collective *c, uint32_t ranks)
{
    uint64_t bytes = c->count * dtype_info[c->type].storage;
    return c->kind == COLLECTIVE_SEND         ? 0
           : c->kind == COLLECTIVE_ALL_GATHER ? bytes * ranks
                                              : bytes;
}

/* What a rank reads must have been written. */
static bool sends_check(const Batch *b, Finding *out)
{
    const RendezvousMember *s = &b->comm->member;
    for (size_t i = 0; i < b->count; i++) {
        const Collective *c = &b->calls[i];
        uint64_t bytes = send_bytes(c, s->ranks), first;
        if (bytes == 0 || (c->kind == COLLECTIVE_BROADCAST && c->root != s->rank))
            continue;
        Allocation *a = allocation_find((uintptr_t)c->send, bytes, "send buffer", out);
        if (a == NULL)
            return false;
        uint64_t offset = (uintptr_t)c->send - a->base;
        if (!shadow_is_written(&a->shadow, offset, bytes, &first)) {
            finding_set(out, FINDING_UNINITIALISED,
                        "uninitialised: call %" PRIu64 " of rank %" PRIu32
                        " of a communicator sends byte %" PRIu64 " (address 0x%" PRIx64
                        "), which nobody wrote",
                        c->number, s->rank, first - offset, a->base + first);
            return false;
        }
    }
    return true;
}

static void receives_note(const Batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const Collective *c = &b->calls[i];
        uint64_t bytes = receive_bytes(c, b->comm->member.ranks);
        Allocation *a = bytes == 0 ? NULL : allocation_at((uintptr_t)c->receive);
        if (a != NULL && bytes <= a->bytes - ((uintptr_t)c->receive - a->base))
            shadow_set_written(&a->shadow, (uintptr_t)c->receive - a->base, bytes, true);
    }
}

/* The first communicator on which the rank comes so far is where it stays; later ones, made
 * after the error, work. */
static bool is_lost(const Batch *b)
{
    static bool has_struck; /* guarded by emu_lock */
    const EmuConfig *c = emu_config();
    if (c->lose_call == 0 || (uint32_t)c->lose_rank != b->comm->world_rank ||
        b->calls[b->count - 1].call < c->lose_call)
        return false;
    pthread_mutex_lock(&emu_lock);
    b->comm->is_lost = b->comm->is_lost || !has_struck;
    has_struck = true;
    bool lost = b->comm->is_lost;
    pthread_mutex_unlock(&emu_lock);
    return lost;
}

/* In short sleeps: an abort ends the delay, too. */
static void rank_delay(Batch *b)
{
    enum { STEP = 5000 }; /* microseconds */
    const EmuConfig *c = emu_config();
    if ((uint32_t)c->delay_rank != b->comm->world_rank)
        return;
    for (uint32_t left = c->delay_rank_time; left > 0;) {
        uint32_t now = left < STEP ? left : STEP;
        struct timespec t = {.tv_nsec = (long)now * 1000};
        nanosleep(&t, NULL);
        left = rendezvous_is_aborted(&b->comm->member) ? 0 : left - now;
    }
}

static bool batch_run(Operation *op, Finding *out)
{
    Batch *b = (Batch *)(void *)op;
    rank_delay(b);
    if (is_lost(b)) {
        while (rendezvous_wait_change(&b->comm->member,
                                      rendezvous_change(&b->comm->member), 0)) {
        }
        return true;
    }
    if (!sends_check(b, out))
        return false;
    if (collective_run(&b->comm->member, b->calls, b->count, out)) {
        receives_note(b);
        return true;
    }
    comm_fail(b->comm, out->kind != FINDING_NONE ? NCCL_INVALID_USAGE : NCCL_REMOTE_ERROR,
              out->kind != FINDING_NONE ? out->text : "the communicator was aborted");
    return out->kind == FINDING_NONE; /* an abort is no fault of the device */
}

static void batch_destroy(Operation *op)
{
    Batch *b = (Batch *)(void *)op;
    ncclComm_t c = b->comm;
    bool last = --c->users == 0; /* the caller holds emu_lock */
    if (last) {
        rendezvous_leave(&c->member);
        free(c);
    }
    free(b);
}

/* Submits the calls of the group that belong to the first one's communicator and stream, and
 * takes them out of the list. */
static ncclResult_t batch_submit(Pending **list)
{
    ncclComm_t comm = (*list)->comm;
    CUstream stream = (*list)->stream;
    size_t count = 0;
    comm_use(comm); /* the batch does */
    for (Pending *p = *list; p != NULL; p = p->next)
        count += p->kind == PENDING_CALL && p->comm == comm && p->stream == stream;
    Batch *b = calloc(1, sizeof *b + count * sizeof b->calls[0]);
    for (Pending **p = list; *p != NULL;) {
        Pending *q = *p;
        if (q->comm != comm || q->stream != stream) {
            p = &q->next;
            continue;
        }
        if (b != NULL)
            b->calls[b->count++] = q->call;
        *p = q->next;
        pending_free(q);
    }
    if (b == NULL) {
        comm_release(comm);
        return refuse(NCCL_SYSTEM_ERROR, "no memory");
    }
    b->comm = comm;
    b->operation.run = batch_run;
    b->operation.destroy = batch_destroy;
    b->operation.may_block = true;
    return queue_submit(comm->context, stream, &b->operation) == CUDA_SUCCESS
               ? ncclSuccess
               : NCCL_UNHANDLED_CUDA_ERROR;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

static ncclResult_t group_splits(Pending *list)
{
    ncclResult_t first = ncclSuccess;
    for (Pending *p = list; p != NULL; p = p->next) {
        ncclResult_t r = ncclSuccess;
        if (p->kind == PENDING_SPLIT)
            r = split_enter(p->comm, p->split, p->colour, p->out, &p->part);
        first = first != ncclSuccess ? first : r;
    }
    /* the rest of a group, one of which failed, would wait for that one */
    for (Pending *p = list; p != NULL && first == ncclSuccess; p = p->next) {
        if (p->part != NULL)
            first = comm_wait(p->part);
        if (p->kind == PENDING_INIT)
            first = comm_wait(p->comm);
    }
    return first;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0)
        return refuse(NCCL_INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    if (--group_depth > 0)
        return ncclSuccess;
    Pending *list = group_first;
    ncclResult_t result = group_error;
    group_first = group_last = NULL;
    group_error = ncclSuccess;
    if (result == ncclSuccess)
        result = group_splits(list);
    for (Pending **p = &list; *p != NULL;) {
        Pending *q = *p;
        if (q->kind == PENDING_CALL && result == ncclSuccess) {
            p = &q->next;
            continue;
        }
        *p = q->next;
        pending_free(q);
    }
    while (list != NULL) {
        ncclResult_t r = batch_submit(&list);
        result = result != ncclSuccess ? result : r;
    }
    return result;
}

static DType type_find(ncclDataType_t type)
{
    static const DType types[] = {
#define NCCL_TYPE(name, value, dtype, bytes) [name] = DT_##dtype,
        NCCL_TYPES(NCCL_TYPE)
#undef NCCL_TYPE
    };
    return type >= 0 && (size_t)type < sizeof types / sizeof types[0] ? types[type]
                                                                      : DT_INVALID;
}

static ncclResult_t call_check(const Collective *c, ncclComm_t comm)
{
    uint32_t ranks = comm->member.ranks;
    Finding finding = {0};
    if (c->type == DT_INVALID || c->op > REDUCE_AVG || c->root >= ranks ||
        c->count > UINT64_MAX / 16 / ranks)
        return refuse(NCCL_INVALID_ARGUMENT,
                      "a type, reduction, root, peer or count is wrong");
    uint64_t sends = send_bytes(c, ranks), receives = receive_bytes(c, ranks);
    bool reads = c->kind != COLLECTIVE_BROADCAST || c->root == comm->member.rank;
    if (sends != 0 && reads &&
        allocation_find((uintptr_t)c->send, sends, "send buffer of a collective",
                        &finding) == NULL)
        return refuse(NCCL_INVALID_ARGUMENT, finding.text);
    if (receives != 0 &&
        allocation_find((uintptr_t)c->receive, receives, "receive buffer of a collective",
                        &finding) == NULL)
        return refuse(NCCL_INVALID_ARGUMENT, finding.text);
    return ncclSuccess;
}

static ncclResult_t call_add(const char *function, Collective call, ncclDataType_t type,
                             ncclComm_t comm, CUstream stream)
{
    CUcontext context;
    call.type = type_find(type);
    if (!call_enter(function, &context))
        return NCCL_UNHANDLED_CUDA_ERROR;
    if (comm == NULL)
        return refuse(NCCL_INVALID_ARGUMENT, "the communicator is NULL");
    if (!comm->is_ready && !(comm->is_ready = rendezvous_is_full(&comm->member)))
        return refuse(NCCL_INVALID_USAGE,
                      "the communicator is not ready: ranks are missing");
    ncclResult_t r = call_check(&call, comm);
    if (r != ncclSuccess || call.count == 0)
        return r;
    bool is_message = call.kind == COLLECTIVE_SEND || call.kind == COLLECTIVE_RECEIVE;
    call.number = comm->collectives += !is_message;
    call.call = ++comm->calls;
    group_depth++; /* a call by itself is a group */
    Pending *p = pending_add(comm);
    if (p == NULL)
        refuse(NCCL_SYSTEM_ERROR, "no memory");
    else
        *p =
            (Pending){.comm = comm, .kind = PENDING_CALL, .stream = stream, .call = call};
    return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           CUstream stream)
{
    Collective c = {.kind = COLLECTIVE_ALL_REDUCE,
                    .send = send,
                    .receive = receive,
                    .count = count,
                    .op = (ReduceKind)op};
    return call_add("ncclAllReduce", c, type, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclComm_t comm, CUstream stream)
{
    Collective c = {
        .kind = COLLECTIVE_ALL_GATHER, .send = send, .receive = receive, .count = count};
    return call_add("ncclAllGather", c, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               CUstream stream)
{
    Collective c = {.kind = COLLECTIVE_REDUCE_SCATTER,
                    .send = send,
                    .receive = receive,
                    .count = count,
                    .op = (ReduceKind)op};
    return call_add("ncclReduceScatter", c, type, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           CUstream stream)
{
    Collective c = {.kind = COLLECTIVE_BROADCAST,
                    .send = send,
                    .receive = receive,
                    .count = count,
                    .root = (uint32_t)root};
    return call_add("ncclBroadcast", c, type, comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream stream)
{
    Collective c = {
        .kind = COLLECTIVE_SEND, .send = send, .count = count, .root = (uint32_t)peer};
    return call_add("ncclSend", c, type, comm, stream);
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream stream)
{
    Collective c = {.kind = COLLECTIVE_RECEIVE,
                    .receive = receive,
                    .count = count,
                    .root = (uint32_t)peer};
    return call_add("ncclRecv", c, type, comm, stream);
}

ncclResult_t ncclMemAlloc(void **out, size_t bytes)
{
    CUdeviceptr p = 0;
    if (out == NULL)
        return NCCL_INVALID_ARGUMENT;
    *out = NULL;
    if (cuMemAlloc_v2(&p, bytes) != CUDA_SUCCESS)
        return NCCL_UNHANDLED_CUDA_ERROR;
    *out = (void *)(uintptr_t)p;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *pointer)
{
    return cuMemFree_v2((uintptr_t)pointer) == CUDA_SUCCESS ? ncclSuccess
                                                            : NCCL_UNHANDLED_CUDA_ERROR;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes,
                              void **out_handle)
{
    Finding finding = {0};
    if (comm == NULL || out_handle == NULL)
        return refuse(NCCL_INVALID_ARGUMENT, "ncclCommRegister: NULL");
    if (allocation_find((uintptr_t)buffer, bytes, "a registered buffer", &finding) ==
        NULL)
        return refuse(NCCL_INVALID_ARGUMENT, finding.text);
    *out_handle = buffer;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    return comm == NULL || handle == NULL ? NCCL_INVALID_ARGUMENT : ncclSuccess;
}
