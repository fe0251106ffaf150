/* See room.h. */
#define _DEFAULT_SOURCE /* syscall */
#include "runtime/emu/room.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct RoomRank {
    bool is_present;
    uint64_t entered;   /* the barrier at which it was seen last, from 1 */
    uint32_t waits_for; /* a message with this rank - 1; 0: no message */
    RoomCall call;
    /* The last two splits: a rank may post the next one while others still read this one. */
    struct {
        uint64_t number;
        int32_t colour, key;
    } splits[2];
} RoomRank;

typedef struct RoomBox {
    bool is_full;
    RoomMail mail;
} RoomBox;

enum { STATE_FRESH, STATE_MAKING, STATE_READY };

/* Behind it: RoomBox[ranks * ranks], slots, mail data. */
struct Room {
    atomic_uint state; /* fresh shared memory is zeroed */
    pthread_mutex_t lock;
    _Atomic uint32_t change; /* a futex: counts changes */
    uint32_t ranks;
    uint32_t present; /* ranks that have come */
    uint32_t at_barrier;
    uint64_t barriers;
    bool has_failed;
    char failure[ROOM_TEXT_BYTES];
    RoomRank rank[ROOM_MOST_RANKS];
};

static size_t align64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static RoomBox *box_of(RoomSeat *s, uint32_t from, uint32_t to)
{
    RoomBox *boxes =
        (RoomBox *)(void *)((unsigned char *)s->room + align64(sizeof(Room)));
    return &boxes[from * s->ranks + to];
}

static unsigned char *slots_of(RoomSeat *s)
{
    size_t boxes = align64((size_t)s->ranks * s->ranks * sizeof(RoomBox));
    return (unsigned char *)s->room + align64(sizeof(Room)) + boxes;
}

static unsigned char *mail_of(RoomSeat *s, uint32_t from, uint32_t to)
{
    return slots_of(s) + (size_t)s->ranks * ROOM_SLOT_BYTES +
           ((size_t)from * s->ranks + to) * ROOM_MAIL_BYTES;
}

static size_t room_bytes(uint32_t ranks)
{
    size_t n = ranks;
    return align64(sizeof(Room)) + align64(n * n * sizeof(RoomBox)) +
           n * ROOM_SLOT_BYTES + n * n * ROOM_MAIL_BYTES;
}

unsigned char *room_slot(RoomSeat *s, uint32_t rank)
{
    return slots_of(s) + (size_t)rank * ROOM_SLOT_BYTES;
}

/* A process that died with the lock leaves nothing half done that matters to the others. */
static void room_lock(RoomSeat *s)
{
    if (pthread_mutex_lock(&s->room->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&s->room->lock);
}

static void room_unlock(RoomSeat *s)
{
    pthread_mutex_unlock(&s->room->lock);
}

static void room_signal(RoomSeat *s)
{
    s->room->change++;
    syscall(SYS_futex, &s->room->change, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool room_is_broken(const RoomSeat *s)
{
    return s->is_aborted || s->room->has_failed;
}

/* Gives the lock away until something changes. A condition variable would not do: a process
 * that is killed while it waits can leave one in a state in which nobody gets further. */
static void room_sleep(RoomSeat *s)
{
    uint32_t seen = s->room->change;
    room_unlock(s);
    syscall(SYS_futex, &s->room->change, FUTEX_WAIT, seen, NULL, NULL, 0);
    room_lock(s);
}

static bool room_make(Room *r, uint32_t ranks)
{
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    bool made = pthread_mutex_init(&r->lock, &mutex) == 0;
    pthread_mutexattr_destroy(&mutex);
    r->ranks = ranks;
    return made;
}

static bool room_map(RoomSeat *s, char *reason)
{
    int fd = shm_open(s->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        snprintf(reason, ROOM_TEXT_BYTES, "shared memory %s: %s", s->name,
                 strerror(errno));
        return false;
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || (st.st_size != 0 && (size_t)st.st_size != s->bytes) ||
        (st.st_size == 0 && ftruncate(fd, (off_t)s->bytes) != 0)) {
        snprintf(reason, ROOM_TEXT_BYTES,
                 "the ranks of communicator %s do not agree on its size, or there is no "
                 "memory",
                 s->name);
        close(fd);
        return false;
    }
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        snprintf(reason, ROOM_TEXT_BYTES, "no shared memory for a communicator");
        return false;
    }
    s->room = p;
    return true;
}

bool room_enter(RoomSeat *s, const char *name, uint32_t rank, uint32_t ranks,
                char reason[ROOM_TEXT_BYTES])
{
    *s = (RoomSeat){.rank = rank, .ranks = ranks, .bytes = room_bytes(ranks)};
    snprintf(s->name, sizeof s->name, "%s", name);
    if (ranks == 0 || ranks > ROOM_MOST_RANKS || rank >= ranks) {
        snprintf(reason, ROOM_TEXT_BYTES,
                 "rank %u of a communicator of %u ranks (at most %d)", rank, ranks,
                 ROOM_MOST_RANKS);
        return false;
    }
    if (!room_map(s, reason))
        return false;
    unsigned fresh = STATE_FRESH;
    if (atomic_compare_exchange_strong(&s->room->state, &fresh, STATE_MAKING)) {
        room_make(s->room, ranks);
        atomic_store(&s->room->state, STATE_READY);
    }
    while (atomic_load(&s->room->state) != STATE_READY)
        sched_yield();
    room_lock(s);
    bool taken = s->room->rank[rank].is_present;
    if (!taken) {
        s->room->rank[rank].is_present = true;
        if (++s->room->present == ranks)
            shm_unlink(s->name);
        room_signal(s);
    }
    room_unlock(s);
    if (taken) {
        snprintf(reason, ROOM_TEXT_BYTES, "rank %u of communicator %s exists already",
                 rank, name);
        munmap(s->room, s->bytes);
        s->room = NULL;
    }
    return !taken;
}

void room_leave(RoomSeat *s)
{
    if (s->room == NULL)
        return;
    room_lock(s);
    bool was_full = s->room->present == s->ranks;
    room_unlock(s);
    if (!was_full)
        shm_unlink(s->name);
    munmap(s->room, s->bytes);
    s->room = NULL;
}

void room_abort(RoomSeat *s)
{
    room_lock(s);
    s->is_aborted = true;
    room_signal(s);
    room_unlock(s);
}

bool room_is_aborted(RoomSeat *s)
{
    room_lock(s);
    bool aborted = s->is_aborted;
    room_unlock(s);
    return aborted;
}

bool room_is_full(RoomSeat *s)
{
    room_lock(s);
    bool full = s->room->present == s->ranks;
    room_unlock(s);
    return full;
}

bool room_wait_full(RoomSeat *s)
{
    room_lock(s);
    while (s->room->present != s->ranks && !room_is_broken(s))
        room_sleep(s);
    bool full = s->room->present == s->ranks;
    room_unlock(s);
    return full;
}

void room_failure(RoomSeat *s, char text[ROOM_TEXT_BYTES])
{
    room_lock(s);
    memcpy(text, s->room->failure, ROOM_TEXT_BYTES);
    room_unlock(s);
}

void room_fail(RoomSeat *s, const char *text)
{
    room_lock(s);
    if (!s->room->has_failed)
        snprintf(s->room->failure, ROOM_TEXT_BYTES, "%s", text);
    s->room->has_failed = true;
    room_signal(s);
    room_unlock(s);
}

/* Under the lock. */
static bool barrier_pass(RoomSeat *s)
{
    Room *r = s->room;
    uint64_t now = r->barriers;
    if (room_is_broken(s))
        return false;
    r->rank[s->rank].entered = now + 1;
    if (++r->at_barrier == s->ranks) {
        r->at_barrier = 0;
        r->barriers++;
        room_signal(s);
        return true;
    }
    while (r->barriers == now && !room_is_broken(s))
        room_sleep(s);
    return r->barriers != now;
}

/* Somebody waits for this rank, which itself neither is at the barrier nor waits for others. */
static bool is_missing(const Room *r, uint32_t rank, uint32_t ranks)
{
    if (r->rank[rank].waits_for != 0 ||
        (r->at_barrier > 0 && r->rank[rank].entered == r->barriers + 1))
        return false;
    bool waited_for = r->at_barrier > 0;
    for (uint32_t i = 0; i < ranks && !waited_for; i++)
        waited_for = r->rank[i].waits_for == rank + 1;
    return waited_for;
}

bool room_missing(RoomSeat *s, char text[ROOM_TEXT_BYTES])
{
    size_t at = 0;
    text[0] = '\0';
    room_lock(s);
    for (uint32_t i = 0; i < s->ranks && at + 32 < ROOM_TEXT_BYTES; i++) {
        if (is_missing(s->room, i, s->ranks))
            at += (size_t)snprintf(text + at, ROOM_TEXT_BYTES - at, "%srank %" PRIu32,
                                   at > 0 ? ", " : "", i);
    }
    room_unlock(s);
    return at > 0;
}

bool room_barrier(RoomSeat *s)
{
    room_lock(s);
    bool passed = barrier_pass(s);
    room_unlock(s);
    return passed;
}

bool room_announce(RoomSeat *s, const RoomCall *call, const RoomCall **out_calls)
{
    static _Thread_local RoomCall calls[ROOM_MOST_RANKS];
    room_lock(s);
    s->room->rank[s->rank].call = *call;
    bool passed = barrier_pass(s);
    for (uint32_t i = 0; i < s->ranks; i++)
        calls[i] = s->room->rank[i].call;
    room_unlock(s);
    *out_calls = calls;
    return passed;
}

bool room_try_send(RoomSeat *s, uint32_t to, const RoomMail *mail, const void *data)
{
    RoomBox *box = box_of(s, s->rank, to);
    room_lock(s);
    bool sent = !box->is_full;
    if (sent) {
        box->mail = *mail;
        memcpy(mail_of(s, s->rank, to), data, mail->bytes);
        box->is_full = true;
        room_signal(s);
    }
    room_unlock(s);
    return sent;
}

bool room_try_receive(RoomSeat *s, uint32_t from, RoomMail *out, void *data)
{
    RoomBox *box = box_of(s, from, s->rank);
    room_lock(s);
    bool received = box->is_full;
    if (received) {
        *out = box->mail;
        if (out->bytes > ROOM_MAIL_BYTES) /* another process wrote nonsense */
            out->bytes = ROOM_MAIL_BYTES;
        memcpy(data, mail_of(s, from, s->rank), out->bytes);
        box->is_full = false;
        room_signal(s);
    }
    room_unlock(s);
    return received;
}

uint32_t room_change(RoomSeat *s)
{
    room_lock(s);
    uint32_t change = s->room->change;
    room_unlock(s);
    return change;
}

bool room_wait_change(RoomSeat *s, uint32_t change, uint32_t waits_for)
{
    room_lock(s);
    s->room->rank[s->rank].waits_for = waits_for;
    while (s->room->change == change && !room_is_broken(s))
        room_sleep(s);
    if (!room_is_broken(s))
        s->room->rank[s->rank].waits_for = 0;
    bool broken = room_is_broken(s);
    room_unlock(s);
    return !broken;
}

void room_post_split(RoomSeat *s, uint64_t number, int32_t colour, int32_t key)
{
    RoomRank *r = &s->room->rank[s->rank];
    room_lock(s);
    r->splits[number % 2].number = number;
    r->splits[number % 2].colour = colour;
    r->splits[number % 2].key = key;
    room_signal(s);
    room_unlock(s);
}

static bool split_is_complete(const RoomSeat *s, uint64_t number)
{
    for (uint32_t i = 0; i < s->ranks; i++)
        if (s->room->rank[i].splits[number % 2].number < number)
            return false;
    return true;
}

bool room_wait_split(RoomSeat *s, uint64_t number, int32_t colour, uint32_t *out_rank,
                     uint32_t *out_ranks)
{
    uint32_t rank = 0, ranks = 0;
    room_lock(s);
    while (!split_is_complete(s, number) && !room_is_broken(s))
        room_sleep(s);
    bool complete = split_is_complete(s, number);
    int32_t own_key = s->room->rank[s->rank].splits[number % 2].key;
    for (uint32_t i = 0; i < s->ranks; i++) {
        int32_t key = s->room->rank[i].splits[number % 2].key;
        if (s->room->rank[i].splits[number % 2].colour != colour)
            continue;
        ranks++;
        if (key < own_key || (key == own_key && i < s->rank))
            rank++;
    }
    room_unlock(s);
    *out_rank = rank;
    *out_ranks = ranks;
    return complete;
}
