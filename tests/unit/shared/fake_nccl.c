/* See fake_nccl.h. */
#include "tests/unit/shared/fake_nccl.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/shared/fake_driver.h"

struct ncclComm {
    int ranks, rank;
    struct Hall *hall;            /* of its ranks, to split it */
    bool is_finalizing, is_final; /* all ranks have said that they are done */
    struct ncclComm *part,
        **part_out; /* a split under way, and where it goes in the end */
    int asked;      /* so often was its state asked for since */
    bool shares;    /* its parts are of its family */
    int family;     /* ends as a whole when one of it is aborted */
    int device;
    struct ncclComm *next; /* of those that are open */
};

/* Where the ranks of one communicator meet to make parts of it. */
typedef struct Hall {
    int ranks, here, turn, users;
    int colours[FAKE_RANKS], keys[FAKE_RANKS];
    struct Hall *parts[FAKE_RANKS]; /* by colour, of this turn */
} Hall;

int fake_nccl_version = 22707;
char fake_nccl_log[FAKE_RANKS][2048];
int fake_nccl_groups[FAKE_RANKS];
int fake_nccl_failing = -1, fake_nccl_broken = -1;
void (*fake_on_abort)(void);
bool fake_nccl_talks;
int fake_comms, fake_nccl_lonely, fake_nccl_apart;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Hall *world;      /* that communicators are being made for */
static ncclComm_t first; /* of those that are open */
static int families;

static void note(const char *format, ...)
{
    char *text = fake_nccl_log[fake_current];
    size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, sizeof fake_nccl_log[0] - at, format, args);
    va_end(args);
}

/* Waits until all ranks are here, at most 5 s; the mutex is held. */
static bool gather(Hall *h)
{
    int turn = h->turn;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 5;
    if (++h->here == h->ranks) {
        h->here = 0;
        h->turn++;
        pthread_cond_broadcast(&changed);
    }
    while (h->turn == turn) {
        if (pthread_cond_timedwait(&changed, &mutex, &end) != 0)
            return false;
    }
    return true;
}

/* What its configuration says of parts is for those that are made of it. */
static ncclComm_t new_comm(Hall *h, int rank, const ncclComm_t parent,
                           const ncclConfig_t *config)
{
    ncclComm_t c = calloc(1, sizeof *c);
    *c = (struct ncclComm){.ranks = h->ranks,
                           .rank = rank,
                           .hall = h,
                           .shares = config->splitShare == 1,
                           .family =
                               parent && parent->shares ? parent->family : ++families,
                           .device = fake_current,
                           .next = first};
    first = c;
    h->users++;
    fake_comms++;
    return c;
}

static ncclResult_t version(int *out)
{
    *out = fake_nccl_version;
    return ncclSuccess;
}

static const char *error_string(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "the fake NCCL's error";
}

static const char *last_error(ncclComm_t comm)
{
    static _Thread_local char text[32];
    text[0] = 0;
    if (comm && fake_nccl_talks)
        snprintf(text, sizeof text, "rank %d of %d", comm->rank, comm->ranks);
    return text;
}

static ncclResult_t unique_id(ncclUniqueId *out)
{
    memset(out, 7, sizeof *out);
    return ncclSuccess;
}

static void note_config(const ncclConfig_t *c)
{
    if (c->maxCTAs != INT_MIN)
        note(" channels=%d", c->maxCTAs);
    if (c->splitShare != INT_MIN)
        note(" share=%d", c->splitShare);
    note("%s; ", c->blocking == 0 ? "" : " blocking");
}

static ncclResult_t comm_init(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                              ncclConfig_t *config)
{
    pthread_mutex_lock(&mutex);
    note("init %d of %d", rank, ranks);
    note_config(config);
    if (!world) {
        world = calloc(1, sizeof *world);
        world->ranks = ranks;
    }
    Hall *h = world;
    bool ok = id.internal[0] == 7 && gather(h);
    *out = ok ? new_comm(h, rank, NULL, config) : NULL;
    world = NULL;
    pthread_mutex_unlock(&mutex);
    return ok ? ncclSuccess : 3;
}

static ncclResult_t comm_split(ncclComm_t comm, int colour, int key, ncclComm_t *out,
                               ncclConfig_t *config)
{
    Hall *h = comm->hall;
    *out = NULL;
    pthread_mutex_lock(&mutex);
    note("split %d key %d", colour, key);
    note_config(config);
    h->colours[comm->rank] = colour;
    h->keys[comm->rank] = key;
    bool ok = gather(h);
    if (ok && colour >= 0) {
        int ranks = 0;
        for (int i = 0; i < h->ranks; i++)
            ranks += h->colours[i] == colour;
        if (!h->parts[colour] || h->parts[colour]->users == ranks) {
            h->parts[colour] = calloc(1, sizeof *h);
            h->parts[colour]->ranks = ranks;
        }
        comm->part = new_comm(h->parts[colour], key, comm, config);
        comm->part_out = out;
        comm->asked = 0;
    }
    ok = ok && gather(h); /* nobody splits again before all have read */
    pthread_mutex_unlock(&mutex);
    return ok ? ncclInProgress : 3;
}

static ncclResult_t comm_finalize(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    comm->is_finalizing = gather(comm->hall);
    comm->asked = 0;
    pthread_mutex_unlock(&mutex);
    return comm->is_finalizing ? ncclInProgress : 3;
}

static ncclResult_t comm_close(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    fake_nccl_lonely += !comm->is_final;
    ncclComm_t *at = &first;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    if (--comm->hall->users == 0)
        free(comm->hall);
    fake_comms--;
    free(comm);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

/* Gives memory back, which waits for the device: for ever, if one of another family has a kernel there that nobody
 * has told to end. */
static ncclResult_t comm_abort(ncclComm_t comm)
{
    if (fake_on_abort)
        fake_on_abort();
    pthread_mutex_lock(&mutex);
    for (ncclComm_t c = first; c; c = c->next)
        fake_nccl_apart += c->device == comm->device && c->family != comm->family;
    pthread_mutex_unlock(&mutex);
    return comm_close(comm);
}

/* A split is there when the state of what was split has become success, not before; what is finalized is closed then. */
static ncclResult_t comm_async_error(ncclComm_t comm, ncclResult_t *error)
{
    bool broken = __atomic_load_n(&fake_nccl_broken, __ATOMIC_SEQ_CST) == comm->rank;
    *error = broken ? 3 : ncclSuccess;
    if ((comm->part_out || comm->is_finalizing) && comm->asked++ < 3) {
        *error = ncclInProgress;
    } else if (comm->is_finalizing) {
        comm->is_final = true;
    } else if (comm->part_out) {
        *comm->part_out = comm->part;
        comm->part_out = NULL;
    }
    return ncclSuccess;
}

static ncclResult_t group(void)
{
    return ncclSuccess;
}

static ncclResult_t group_end(void)
{
    fake_nccl_groups[fake_current]++;
    return ncclSuccess;
}

static ncclResult_t all_reduce(const void *send, void *receive, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               CUstream stream)
{
    (void)send, (void)receive, (void)stream;
    note("all-reduce %zu type %d op %d of %d; ", count, type, op, comm->ranks);
    return fake_current == fake_nccl_failing ? 3 : ncclSuccess;
}

static ncclResult_t all_gather(const void *send, void *receive, size_t count,
                               ncclDataType_t type, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)receive, (void)stream;
    note("all-gather %zu type %d of %d; ", count, type, comm->ranks);
    return ncclSuccess;
}

static ncclResult_t reduce_scatter(const void *send, void *receive, size_t count,
                                   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                   CUstream stream)
{
    (void)send, (void)receive, (void)stream;
    note("reduce-scatter %zu type %d op %d of %d; ", count, type, op, comm->ranks);
    return ncclSuccess;
}

static ncclResult_t broadcast(const void *send, void *receive, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              CUstream stream)
{
    (void)send, (void)receive, (void)stream;
    note("broadcast %zu type %d from %d of %d; ", count, type, root, comm->ranks);
    return ncclSuccess;
}

static ncclResult_t send_to(const void *send, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t comm, CUstream stream)
{
    (void)send, (void)comm, (void)stream;
    note("send %zu type %d to %d; ", count, type, peer);
    return ncclSuccess;
}

static ncclResult_t receive_from(void *receive, size_t count, ncclDataType_t type,
                                 int peer, ncclComm_t comm, CUstream stream)
{
    (void)receive, (void)comm, (void)stream;
    note("receive %zu type %d from %d; ", count, type, peer);
    return ncclSuccess;
}

static ncclResult_t mem_alloc(void **out, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    note("memory %zu; ", bytes);
    fake_comms++; /* counted with them */
    pthread_mutex_unlock(&mutex);
    *out = calloc(1, bytes);
    return ncclSuccess;
}

static ncclResult_t mem_free(void *pointer)
{
    pthread_mutex_lock(&mutex);
    fake_comms--;
    pthread_mutex_unlock(&mutex);
    free(pointer);
    return ncclSuccess;
}

static ncclResult_t comm_register(ncclComm_t comm, void *buffer, size_t bytes,
                                  void **out_handle)
{
    pthread_mutex_lock(&mutex);
    note("register %zu of %d; ", bytes, comm->ranks);
    fake_comms++;
    pthread_mutex_unlock(&mutex);
    *out_handle = buffer;
    return ncclSuccess;
}

static ncclResult_t comm_deregister(ncclComm_t comm, void *handle)
{
    (void)comm, (void)handle;
    pthread_mutex_lock(&mutex);
    fake_comms--;
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

const NcclApi fake_nccl = {
    .version = version,
    .error_string = error_string,
    .last_error = last_error,
    .unique_id = unique_id,
    .comm_init = comm_init,
    .comm_split = comm_split,
    .comm_finalize = comm_finalize,
    .comm_destroy = comm_close,
    .comm_abort = comm_abort,
    .comm_async_error = comm_async_error,
    .group_start = group,
    .group_end = group_end,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .broadcast = broadcast,
    .send = send_to,
    .receive = receive_from,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .comm_register = comm_register,
    .comm_deregister = comm_deregister,
};
