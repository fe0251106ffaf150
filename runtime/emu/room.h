/* The meeting place of a communicator's ranks: a piece of shared memory with a lock, in which
 * ranks of one process or of several meet. It has a name only until all ranks have come, so
 * nothing is left behind.
 *
 * Waiting ends when the caller's communicator is aborted or the room has failed. */
#ifndef GXC_RUNTIME_EMU_ROOM_H
#define GXC_RUNTIME_EMU_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROOM_NAME_BYTES = 64,
    ROOM_TEXT_BYTES = 1000,
    ROOM_MOST_RANKS = 64,
    ROOM_SLOT_BYTES = 128 * 1024, /* of each rank, for collectives */
    ROOM_MAIL_BYTES = 16 * 1024,  /* of each ordered pair of ranks */
};

/* What a rank is about to do; all ranks must agree. */
typedef struct RoomCall {
    uint64_t number; /* of the call in its communicator, from 1 */
    uint64_t count;
    uint32_t kind;
    uint32_t type;
    uint32_t op;
    uint32_t root;
} RoomCall;

typedef struct Room Room;

/* One rank's view of the room. */
typedef struct RoomSeat {
    Room *room;
    size_t bytes;
    char name[ROOM_NAME_BYTES];
    uint32_t rank, ranks;
    bool is_aborted; /* guarded by the room's lock */
} RoomSeat;

/* Takes a seat without waiting for others. False: `reason` says why. */
bool room_enter(RoomSeat *seat, const char *name, uint32_t rank, uint32_t ranks,
                char reason[ROOM_TEXT_BYTES]);
void room_leave(RoomSeat *seat);
void room_abort(RoomSeat *seat); /* wakes the waiting threads of this rank */

bool room_is_full(RoomSeat *seat);
bool room_wait_full(RoomSeat *seat);
bool room_is_aborted(RoomSeat *seat);

/* The room's failure, or "". Copied. */
void room_failure(RoomSeat *seat, char text[ROOM_TEXT_BYTES]);
/* Fails the room for all ranks; the first text stays. */
void room_fail(RoomSeat *seat, const char *text);

/* Waits until all ranks have called it. */
bool room_barrier(RoomSeat *seat);
/* Which ranks others wait for, at a barrier or for a message; false if none is missing. */
bool room_missing(RoomSeat *seat, char text[ROOM_TEXT_BYTES]);
/* A barrier at which all ranks say what they do; *out_calls is valid until the next one. */
bool room_announce(RoomSeat *seat, const RoomCall *call, const RoomCall **out_calls);
unsigned char *room_slot(RoomSeat *seat, uint32_t rank); /* ROOM_SLOT_BYTES */

/* Point to point: a chunk of at most ROOM_MAIL_BYTES. `number` and `total` (bytes of the whole
 * message) are handed on. The try_ forms do not wait and say whether they did it. */
typedef struct RoomMail {
    uint64_t total;
    uint32_t type;
    uint32_t bytes;
} RoomMail;
bool room_try_send(RoomSeat *seat, uint32_t to, const RoomMail *mail, const void *data);
bool room_try_receive(RoomSeat *seat, uint32_t from, RoomMail *out, void *data);
uint32_t room_change(RoomSeat *seat);
/* Waits until something changed since `change` was read with room_change; waits_for: 1 + the
 * rank with which a message is exchanged, or 0. */
bool room_wait_change(RoomSeat *seat, uint32_t change, uint32_t waits_for);

/* Split: posts (colour, key) as split number `number` of this room, waits for all, and gives
 * the rank's place: *out_rank of *out_ranks. colour -1: no group. */
void room_post_split(RoomSeat *seat, uint64_t number, int32_t colour, int32_t key);
bool room_wait_split(RoomSeat *seat, uint64_t number, int32_t colour, uint32_t *out_rank,
                     uint32_t *out_ranks);

#endif
