/* The rendezvous of a communicator's ranks: shared memory with a lock, through which ranks of one process or of
 * several exchange what collectives need. It has a name only until all ranks have entered, so nothing is left
 * behind.
 *
 * A wait ends when the caller's communicator is aborted or the rendezvous has failed. */
#ifndef GXC_RUNTIME_EMU_RENDEZVOUS_H
#define GXC_RUNTIME_EMU_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RENDEZVOUS_NAME_BYTES = 64,
    RENDEZVOUS_TEXT_BYTES = 1000,
    RENDEZVOUS_MOST_RANKS = 64,
    RENDEZVOUS_SLOT_BYTES = 128 * 1024,   /* of each rank, for collectives */
    RENDEZVOUS_MESSAGE_BYTES = 16 * 1024, /* of each ordered pair of ranks */
};

/* What a rank is about to do; all ranks must agree. */
typedef struct RendezvousCall {
    uint64_t number; /* of the call in its communicator, from 1 */
    uint64_t count;
    uint32_t kind;
    uint32_t type;
    uint32_t op;
    uint32_t root;
} RendezvousCall;

typedef struct Rendezvous Rendezvous;

/* One rank's view of the rendezvous. */
typedef struct RendezvousMember {
    Rendezvous *rendezvous;
    size_t bytes;
    char name[RENDEZVOUS_NAME_BYTES];
    uint32_t rank, ranks;
    bool is_aborted; /* guarded by the rendezvous's lock */
} RendezvousMember;

/* Enters as `rank` without waiting for the others. False: `reason` says why. */
bool rendezvous_enter(RendezvousMember *member, const char *name, uint32_t rank,
                      uint32_t ranks, char reason[RENDEZVOUS_TEXT_BYTES]);
void rendezvous_leave(RendezvousMember *member);
void rendezvous_abort(
    RendezvousMember *member); /* wakes the waiting threads of this rank */

bool rendezvous_is_full(RendezvousMember *member);
bool rendezvous_wait_full(RendezvousMember *member);
bool rendezvous_is_aborted(RendezvousMember *member);

/* The rendezvous's failure, or "". Copied. */
void rendezvous_failure(RendezvousMember *member, char text[RENDEZVOUS_TEXT_BYTES]);
/* Fails the rendezvous for all ranks; the first text stays. */
void rendezvous_fail(RendezvousMember *member, const char *text);

/* Waits until all ranks have called it. */
bool rendezvous_barrier(RendezvousMember *member);
/* Which ranks others wait for, at a barrier or for a message; false if none is missing. */
bool rendezvous_missing(RendezvousMember *member, char text[RENDEZVOUS_TEXT_BYTES]);
/* A barrier at which all ranks say what they do; *out_calls is valid until the next one. */
bool rendezvous_announce(RendezvousMember *member, const RendezvousCall *call,
                         const RendezvousCall **out_calls);
unsigned char *rendezvous_slot(RendezvousMember *member,
                               uint32_t rank); /* RENDEZVOUS_SLOT_BYTES */

/* Point to point: a chunk of at most RENDEZVOUS_MESSAGE_BYTES. `number` and `total` (bytes of the whole
 * message) are passed on. The try_ forms do not wait and say whether they did it. */
typedef struct RendezvousMessage {
    uint64_t total;
    uint32_t type;
    uint32_t bytes;
} RendezvousMessage;
bool rendezvous_try_send(RendezvousMember *member, uint32_t to,
                         const RendezvousMessage *message, const void *data);
bool rendezvous_try_receive(RendezvousMember *member, uint32_t from,
                            RendezvousMessage *out, void *data);
uint32_t rendezvous_change(RendezvousMember *member);
/* Waits until something changed since `change` was read with rendezvous_change; waits_for: 1 + the
 * rank with which a message is exchanged, or 0. */
bool rendezvous_wait_change(RendezvousMember *member, uint32_t change,
                            uint32_t waits_for);

/* Split: posts (colour, key) as split number `number` of this rendezvous, waits for all, and gives
 * the rank's index: *out_rank of *out_ranks. colour -1: no group. */
void rendezvous_post_split(RendezvousMember *member, uint64_t number, int32_t colour,
                           int32_t key);
bool rendezvous_wait_split(RendezvousMember *member, uint64_t number, int32_t colour,
                           uint32_t *out_rank, uint32_t *out_ranks);

#endif
