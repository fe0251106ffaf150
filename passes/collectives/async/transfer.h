/* Which sends and recvs of a computation are the two ends of one transfer. */
#ifndef GXC_PASSES_COLLECTIVES_ASYNC_TRANSFER_H
#define GXC_PASSES_COLLECTIVES_ASYNC_TRANSFER_H

#include "ir/analysis/collective.h"

typedef struct Transfers Transfers;

/* In scratch. forward[] is the caller's: by id, not NULL for what has become another operation since. */
Transfers *transfers_find(const Computation *comp, const TransferChannels *channels,
                          Instruction *const *forward, Arena *scratch);

/* The recv that the send can become one operation with, as things stand now. NULL: there is none, or what is sent
 * is computed from what it brings. */
Instruction *transfer_recv(Transfers *t, Instruction *send);

#endif
