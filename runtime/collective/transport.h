/* What carries collectives between devices: NCCL (nccl.c). Those who make communicators and
 * those who run commands call it through this table and know none of its types; another
 * library would be another file with such a table. */
#ifndef GXC_RUNTIME_COLLECTIVE_TRANSPORT_H
#define GXC_RUNTIME_COLLECTIVE_TRANSPORT_H

#include "runtime/library/cuda_types.h"
#include "runtime/plan/plan.h"
#include "runtime/run/status.h"

typedef struct TransportComm TransportComm; /* a communicator, the transport's own */

/* Names a world before it exists: one rank makes it, all join with it. */
typedef struct TransportId {
    char bytes[128];
} TransportId;

/* TRANSPORT_DONE; TRANSPORT_PENDING: it goes on in the background, `state` tells how it ends;
 * anything else is an error of the library, which error_text() puts into words. */
typedef int TransportResult;
enum { TRANSPORT_DONE = 0, TRANSPORT_PENDING = -1 };

/* An element type and a reduction, as the transport numbers them. */
typedef struct TransportType {
    int type;
    int reduction;
    size_t bytes; /* of one of its elements: there may be several in one of HLO's */
} TransportType;

typedef enum TransportOperation {
    TRANSPORT_ALL_REDUCE,
    TRANSPORT_ALL_GATHER,
    TRANSPORT_REDUCE_SCATTER,
    TRANSPORT_BROADCAST, /* from rank 0 */
    TRANSPORT_SEND,
    TRANSPORT_RECEIVE
} TransportOperation;

/* One call, resolved: all but the addresses. */
typedef struct TransportCall {
    TransportOperation operation;
    int type, reduction;
    int peer;     /* of send and receive: its rank */
    size_t count; /* elements that are sent; of a reduce-scatter, that are received */
} TransportCall;

typedef struct Transport {
    const char *name;
    struct { /* the library's functions, for messages */
        const char *make_id, *join, *split, *allocate;
    } calls;
    /* Loads the library for the session, and checks its version. */
    gxrt_status (*load)(gxrt_session *s);
    /* False: it cannot move elements of this type, or not reduce them so. */
    bool (*resolve)(const char *dtype, PlanReduction reduction, uint32_t sm,
                    TransportType *out);

    TransportResult (*make_id)(const gxrt_session *s, TransportId *out);
    TransportResult (*join)(const gxrt_session *s, const TransportId *id, uint32_t ranks,
                            uint32_t rank, TransportComm **out);
    /* Parts of a communicator by colour, -1: of none. *out may be set at any time until the
     * state of `comm` is TRANSPORT_DONE, so it must live that long. */
    TransportResult (*split)(const gxrt_session *s, TransportComm *comm, int colour,
                             uint32_t key, TransportComm **out);
    TransportResult (*state)(const gxrt_session *s, TransportComm *comm);
    TransportResult (*finalize)(const gxrt_session *s, TransportComm *comm);
    void (*destroy)(const gxrt_session *s, TransportComm *comm);
    void (*abort)(const gxrt_session *s, TransportComm *comm);

    /* Calls between begin and end are one; TRANSPORT_PENDING as above. */
    TransportResult (*begin)(const gxrt_session *s);
    TransportResult (*end)(const gxrt_session *s);
    TransportResult (*call)(const gxrt_session *s, TransportComm *comm,
                            const TransportCall *call, const void *send, void *receive,
                            CUstream stream);

    /* Memory that it works best in; and memory made known to a communicator. */
    TransportResult (*allocate)(const gxrt_session *s, size_t bytes, void **out);
    void (*release)(const gxrt_session *s, void *memory);
    TransportResult (*enroll)(const gxrt_session *s, TransportComm *comm, void *memory,
                              size_t bytes, void **out_handle);
    void (*withdraw)(const gxrt_session *s, TransportComm *comm, void *handle);

    const char *(*error_text)(const gxrt_session *s, TransportResult r);
    /* What it knows beyond that, of a communicator or of this thread (NULL); may be "". */
    const char *(*last_error)(const gxrt_session *s, TransportComm *comm);
} Transport;

extern const Transport transport_nccl;

/* The most channels that a communicator of NCCL may use: `asked` if it is not 0. INT_MIN: NCCL
 * decides. */
int nccl_channels(uint32_t sm, int nccl_version, uint32_t asked);

#endif
