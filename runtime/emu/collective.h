/* Collectives and messages among the ranks of a rendezvous: what an operation of a stream does. */
#ifndef GXC_RUNTIME_EMU_COLLECTIVE_H
#define GXC_RUNTIME_EMU_COLLECTIVE_H

#include "ir/number/number.h"
#include "runtime/emu/finding.h"
#include "runtime/emu/rendezvous.h"

typedef enum {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_SEND,
    COLLECTIVE_RECEIVE,
} CollectiveKind;

typedef enum { REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_AVG } ReduceKind;

typedef struct Collective {
    CollectiveKind kind;
    const unsigned char *send;
    unsigned char *receive;
    uint64_t count; /* as the function of NCCL counts */
    DType type;
    ReduceKind op;
    uint32_t root; /* of a broadcast; peer of a message */
    uint64_t
        number; /* in its communicator: collectives before it, and itself if it is one */
    uint64_t call; /* the same, messages counted too: ranks may send different numbers */
    uint64_t done; /* bytes of a message that have moved */
} Collective;

/* Runs calls that were grouped: messages all at once, behind the other ones. False: the
 * communicator was aborted (no finding) or something is wrong (a finding). */
bool collective_run(RendezvousMember *member, Collective *calls, size_t count,
                    Finding *out);

/* Reduces count elements of `ranks` inputs, rank 0 first; floats in f64, rounded once. */
void collective_reduce(DType type, ReduceKind op, const unsigned char *const *inputs,
                       uint32_t ranks, size_t count, unsigned char *out);

#endif
