/* NCCL (2.27 or newer) as the transport of collectives. See transport.h. */
#include <limits.h>
#include <string.h>

#include "ir/number/number.h"
#include "runtime/collective/transport.h"
#include "runtime/run/session.h"

enum { NCCL_OLDEST = 22700 };

/* --- types -------------------------------------------------------------------------------- */

static const size_t type_bytes[] = {
#define NCCL_TYPE(name, value, dtype, bytes) [name] = bytes,
    NCCL_TYPES(NCCL_TYPE)
#undef NCCL_TYPE
};

static const struct {
    DType dtype;
    int type;
    uint32_t parts;
    uint32_t reduced_from;
} rows[] = {
#define NEVER UINT32_MAX
#define COLLECTIVE_TYPE(dtype, carrier, parts, reduced_from)                             \
    {DT_##dtype, nccl##carrier, parts, reduced_from},
#include "ir/attribute/collective_types.def"
#undef NEVER
};

static int reduction_of(PlanReduction reduction)
{
    switch (reduction) {
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

static bool resolve(const char *dtype, PlanReduction reduction, uint32_t sm,
                    TransportType *out)
{
    size_t i = 0;
    size_t count = sizeof rows / sizeof *rows;
    while (i < count && strcmp(dtype_info[rows[i].dtype].name, dtype) != 0) {
        i++;
    }
    if (i == count) {
        return false;
    }
    bool reduces = reduction != PLAN_REDUCE_NONE;
    bool parts_add_up = rows[i].parts == 1 || reduction == PLAN_REDUCE_SUM;
    if (reduces && (sm < rows[i].reduced_from || !parts_add_up)) {
        return false;
    }
    bool as_bytes = rows[i].reduced_from != UINT32_MAX && sm < rows[i].reduced_from;
    int type = as_bytes ? ncclInt8 : rows[i].type;
    *out = (TransportType){type, reduction_of(reduction), type_bytes[type]};
    return true;
}

/* --- communicators ------------------------------------------------------------------------ */

static TransportResult result_of(ncclResult_t r)
{
    return r == ncclInProgress ? TRANSPORT_PENDING : r;
}

/* The state of a new communicator is asked for, whatever the call has returned. */
static TransportResult begun(ncclResult_t r)
{
    return r == ncclSuccess ? TRANSPORT_PENDING : result_of(r);
}

static ncclComm_t nccl_comm(TransportComm *comm)
{
    return (ncclComm_t)(void *)comm;
}

static gxrt_status load(gxrt_session *s)
{
    char error[512];
    int version = 0;
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

int nccl_channels(uint32_t sm, int nccl_version, uint32_t asked)
{
    if (asked) {
        return asked > INT_MAX ? INT_MAX : (int)asked;
    }
    bool is_blackwell = sm / 10 == 10;
    return is_blackwell && nccl_version >= 22800 ? 32 : INT_MIN;
}

/* The parts of a communicator share its resources, and end with it when it is aborted, where its own configuration
 * says so; what their split is given counts for their parts only. */
static ncclConfig_t config_of(const gxrt_session *s)
{
    return (ncclConfig_t){.size = sizeof(ncclConfig_t),
                          .magic = 0xcafebeef,
                          .version = NCCL_OLDEST,
                          .blocking = 0,
                          .cgaClusterSize = INT_MIN,
                          .minCTAs = INT_MIN,
                          .maxCTAs = nccl_channels(s->plan->info->sm, s->nccl_version,
                                                   s->options.max_channels),
                          .splitShare = 1,
                          .trafficClass = INT_MIN,
                          .collnetEnable = INT_MIN,
                          .CTAPolicy = INT_MIN,
                          .shrinkShare = INT_MIN,
                          .nvlsCTAs = INT_MIN};
}

static TransportResult make_id(const gxrt_session *s, TransportId *out)
{
    ncclUniqueId id = {{0}};
    ncclResult_t r = s->nccl->unique_id(&id);
    _Static_assert(sizeof id == sizeof *out, "an id is of 128 bytes");
    memcpy(out, &id, sizeof *out);
    return result_of(r);
}

static TransportResult join(const gxrt_session *s, const TransportId *id, uint32_t ranks,
                            uint32_t rank, TransportComm **out)
{
    ncclUniqueId world;
    ncclConfig_t config = config_of(s);
    memcpy(&world, id, sizeof world);
    return begun(s->nccl->comm_init((ncclComm_t *)(void *)out, (int)ranks, world,
                                    (int)rank, &config));
}

static TransportResult split(const gxrt_session *s, TransportComm *comm, int colour,
                             uint32_t key, TransportComm **out)
{
    ncclConfig_t config = config_of(s);
    return begun(s->nccl->comm_split(nccl_comm(comm), colour, (int)key,
                                     (ncclComm_t *)(void *)out, &config));
}

static TransportResult state(const gxrt_session *s, TransportComm *comm)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = s->nccl->comm_async_error(nccl_comm(comm), &state);
    return result_of(asked != ncclSuccess ? asked : state);
}

static TransportResult finalize(const gxrt_session *s, TransportComm *comm)
{
    return begun(s->nccl->comm_finalize(nccl_comm(comm)));
}

static void destroy(const gxrt_session *s, TransportComm *comm)
{
    s->nccl->comm_destroy(nccl_comm(comm));
}

static void abort_comm(const gxrt_session *s, TransportComm *comm)
{
    s->nccl->comm_abort(nccl_comm(comm));
}

/* --- calls -------------------------------------------------------------------------------- */

static TransportResult begin(const gxrt_session *s)
{
    return result_of(s->nccl->group_start());
}

static TransportResult end(const gxrt_session *s)
{
    return result_of(s->nccl->group_end());
}

static TransportResult call(const gxrt_session *s, TransportComm *comm,
                            const TransportCall *c, const void *send, void *receive,
                            CUstream stream)
{
    const NcclApi *nccl = s->nccl;
    ncclComm_t on = nccl_comm(comm);
    ncclResult_t r = ncclSuccess;
    switch (c->operation) {
    case TRANSPORT_ALL_REDUCE:
        r = nccl->all_reduce(send, receive, c->count, c->type, c->reduction, on, stream);
        break;
    case TRANSPORT_ALL_GATHER:
        r = nccl->all_gather(send, receive, c->count, c->type, on, stream);
        break;
    case TRANSPORT_REDUCE_SCATTER:
        r = nccl->reduce_scatter(send, receive, c->count, c->type, c->reduction, on,
                                 stream);
        break;
    case TRANSPORT_BROADCAST:
        r = nccl->broadcast(send, receive, c->count, c->type, 0, on, stream);
        break;
    case TRANSPORT_SEND:
        r = nccl->send(send, c->count, c->type, c->peer, on, stream);
        break;
    case TRANSPORT_RECEIVE:
        r = nccl->receive(receive, c->count, c->type, c->peer, on, stream);
        break;
    }
    return result_of(r);
}

/* --- memory, errors ----------------------------------------------------------------------- */

static TransportResult allocate(const gxrt_session *s, size_t bytes, void **out)
{
    return result_of(s->nccl->mem_alloc(out, bytes));
}

static void release(const gxrt_session *s, void *memory)
{
    s->nccl->mem_free(memory);
}

static TransportResult enroll(const gxrt_session *s, TransportComm *comm, void *memory,
                              size_t bytes, void **out_handle)
{
    return result_of(s->nccl->comm_register(nccl_comm(comm), memory, bytes, out_handle));
}

static void withdraw(const gxrt_session *s, TransportComm *comm, void *handle)
{
    s->nccl->comm_deregister(nccl_comm(comm), handle);
}

static const char *error_text(const gxrt_session *s, TransportResult r)
{
    return s->nccl->error_string(r == TRANSPORT_PENDING ? ncclInProgress : r);
}

static const char *last_error(const gxrt_session *s, TransportComm *comm)
{
    return s->nccl->last_error(nccl_comm(comm));
}

const Transport transport_nccl = {.name = "NCCL",
                                  .calls = {.make_id = "ncclGetUniqueId",
                                            .join = "ncclCommInitRankConfig",
                                            .split = "ncclCommSplit",
                                            .allocate = "ncclMemAlloc"},
                                  .load = load,
                                  .resolve = resolve,
                                  .make_id = make_id,
                                  .join = join,
                                  .split = split,
                                  .state = state,
                                  .finalize = finalize,
                                  .destroy = destroy,
                                  .abort = abort_comm,
                                  .begin = begin,
                                  .end = end,
                                  .call = call,
                                  .allocate = allocate,
                                  .release = release,
                                  .enroll = enroll,
                                  .withdraw = withdraw,
                                  .error_text = error_text,
                                  .last_error = last_error};
