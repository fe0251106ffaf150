/* Two ranks of NCCL, each on its device: collectives and messages in groups, splits, aborts. */
#include <string.h>

#include "ir/base/clock.h"
#include "tests/fuzz/emulator/told.h"

#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t symbol parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#include "runtime/library/nccl.def"

enum { RANKS = 2, CALLS = 3 };

typedef struct Rank {
    CUcontext context;
    CUstream stream;
    CUdeviceptr memory;
    ncclComm_t comm, part;
} Rank;

static void on(const Rank *r)
{
    DONE(cuCtxPushCurrent_v2(r->context));
}

static void off(void)
{
    DONE(cuCtxPopCurrent_v2(NULL));
}

static bool make_second(Rank *r)
{
    if (!DONE(cuDevicePrimaryCtxRetain(&r->context, 1)))
        return false;
    on(r);
    bool ok = DONE(cuStreamCreateWithPriority(&r->stream, CU_STREAM_NON_BLOCKING, 0)) &&
              DONE(cuMemAlloc_v2(&r->memory, TOLD_MEMORY)) &&
              DONE(cuMemsetD32Async(r->memory, 1, TOLD_MEMORY / 4, r->stream));
    off();
    return ok;
}

/* False: nobody has a communicator. */
static bool join(Rank *ranks)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    if (!DONE(ncclGetUniqueId(told(1) ? &id : NULL)))
        return false;
    bool waits = told_choice(2); /* who waits in a group is not given anything wrong */
    ncclConfig_t config = {.size = sizeof config, .blocking = waits};
    if (waits)
        told_calm();
    else
        id.internal[1] = (char)told(id.internal[1]);
    DONE(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        on(&ranks[i]);
        ncclResult_t r =
            ncclCommInitRankConfig(&ranks[i].comm, waits ? RANKS : (int)told(RANKS), id,
                                   waits ? i : (int)told(i), &config);
        DONE(r == ncclInProgress ? ncclSuccess : r);
        off();
    }
    /* one that is alone would wait for ever */
    for (int i = 0; i < RANKS; i++) {
        if (ranks[i].comm == NULL || ranks[1 - i].comm == NULL) {
            DONE(ncclCommAbort(ranks[i].comm));
            ranks[i].comm = NULL;
        }
    }
    return ranks[0].comm != NULL;
}

static void call(Rank *r, int rank, unsigned what)
{
    static const int types[] = {ncclFloat32, ncclInt32,  ncclFloat16,    ncclBfloat16,
                                ncclFloat64, ncclUint8,  ncclInt64,      ncclUint64,
                                ncclInt8,    ncclUint32, ncclFloat8e4m3, ncclFloat8e5m2};
    void *send = (void *)told_pointer((void *)(uintptr_t)r->memory);
    void *receive = told_pointer((void *)(uintptr_t)(r->memory + 32768));
    int type = (int)told(types[what / 8 % 12]), op = (int)told(what / 96 % 5);
    size_t count = (size_t)told(what & 1 ? 4096 : 16);
    ncclComm_t comm = told(1) ? r->comm : NULL;
    switch (what % 8) {
    case 0:
    case 1:
        DONE(ncclAllReduce(send, receive, count, type, op, comm, r->stream));
        break;
    case 2:
        DONE(ncclAllGather(send, receive, count, type, comm, r->stream));
        break;
    case 3:
        DONE(ncclReduceScatter(send, receive, count / RANKS, type, op, comm, r->stream));
        break;
    case 4:
        DONE(ncclBroadcast(send, receive, count, type, (int)told(0), comm, r->stream));
        break;
    case 5:
    case 6:
        DONE(ncclSend(send, count, type, (int)told(1 - rank), comm, r->stream));
        DONE(ncclRecv(receive, count, type, (int)told(1 - rank), comm, r->stream));
        break;
    default:
        DONE(ncclCommRegister(comm, send, count, told(1) ? &send : NULL));
        DONE(ncclCommDeregister(comm, told(1) ? send : NULL));
    }
}

static void split(Rank *ranks)
{
    told_calm(); /* as in join */
    DONE(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        on(&ranks[i]);
        int colour = (int)told(told_choice(2) ? i : 0);
        DONE(ncclCommSplit(told(1) ? ranks[i].comm : NULL, colour < -1 ? -2 : colour,
                           (int)told(i), &ranks[i].part, NULL));
        off();
    }
}

/* Until both are done, or one has waited too long for the other. */
static void wait_for(Rank *ranks)
{
    double end = seconds_now() + 0.05;
    for (int i = 0; i < RANKS; i++) {
        on(&ranks[i]);
        while (cuStreamQuery(ranks[i].stream) == CUDA_ERROR_NOT_READY &&
               seconds_now() < end) {
        }
        off();
    }
}

static void finish(Rank *ranks)
{
    for (int i = 0; i < RANKS; i++) {
        ncclResult_t error = ncclSuccess;
        ncclGetErrorString(ncclCommGetAsyncError(ranks[i].comm, told(1) ? &error : NULL));
        ncclGetErrorString(error);
        ncclGetLastError(ranks[i].comm);
        ncclGetLastError(NULL);
        bool aborts = told_choice(2) || told(0);
        if (!aborts)
            ncclCommFinalize(told(1) ? ranks[i].comm : NULL);
    }
    told_calm();
    for (int i = 0; i < RANKS; i++) {
        ncclCommAbort(ranks[i].part);
        ncclCommAbort(ranks[i].comm);
    }
}

void tell_ranks(const Told *t)
{
    Rank ranks[RANKS] = {
        {.context = t->context, .stream = t->stream, .memory = t->memory}};
    int version = 0;
    void *memory = NULL;
    DONE(ncclGetVersion(told(1) ? &version : NULL));
    if (DONE(ncclMemAlloc(told(1) ? &memory : NULL, (size_t)told(256))))
        DONE(ncclMemFree(told_pointer(memory)));
    if (told(0)) /* without a start */
        DONE(ncclGroupEnd());
    bool ok = make_second(&ranks[1]);
    if (ok) {
        ok = join(ranks);
        ncclResult_t r = ncclGroupEnd();
        DONE(ok ? r : ncclSuccess);
        for (int i = 0; ok && r == ncclSuccess && i < CALLS; i++) {
            unsigned what = told_choice(255);
            bool splits = i == 1 && told_choice(4) == 3;
            if (splits)
                split(ranks);
            else
                DONE(ncclGroupStart());
            for (int rank = 0; rank < RANKS && !splits; rank++) {
                on(&ranks[rank]);
                call(&ranks[rank], rank, what);
                off();
            }
            r = ncclGroupEnd();
            DONE(r);
        }
        if (ok)
            wait_for(ranks);
    }
    finish(ranks);
    for (int i = 0; i < RANKS && ranks[i].stream != NULL; i++) {
        on(&ranks[i]);
        DONE(cuStreamSynchronize(ranks[i].stream));
        off();
    }
    if (ranks[1].context != NULL)
        DONE(cuDevicePrimaryCtxRelease_v2(1));
}
