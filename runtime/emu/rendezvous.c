/* See rendezvous.h. */
#define _DEFAULT_SOURCE /* syscall */
#include "runtime/emu/rendezvous.h"

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

typedef struct RendezvousRank {
    bool is_present;
    uint64_t entered;   /* the barrier at which it was seen last, from 1 */
    uint32_t waits_for; /* a message with this rank - 1; 0: no message */
    RendezvousCall call;
    /* The last two splits: a rank may post the next one while others still read this one. */
    struct {
        uint64_t number;
        int32_t colour, key;
    } splits[2];
} RendezvousRank;

typedef struct RendezvousBox {
    bool is_full;
    RendezvousMessage message;
} RendezvousBox;

enum { STATE_FRESH, STATE_MAKING, STATE_READY };

/* Behind it: RendezvousBox[ranks * ranks], slots, message data. */
struct Rendezvous {
    atomic_uint state; /* fresh shared memory is zeroed */
    pthread_mutex_t lock;
    _Atomic uint32_t change; /* a futex: counts changes */
    uint32_t ranks;
    uint32_t present; /* ranks that have come */
    uint32_t at_barrier;
    uint64_t barriers;
    bool has_failed;
    char failure[RENDEZVOUS_TEXT_BYTES];
    RendezvousRank rank[RENDEZVOUS_MOST_RANKS];
};

static size_t align64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static RendezvousBox *box_of(RendezvousMember *s, uint32_t from, uint32_t to)
{
    RendezvousBox *boxes = (RendezvousBox *)(void *)((unsigned char *)s->rendezvous +
                                                     align64(sizeof(Rendezvous)));
    return &boxes[from * s->ranks + to];
}

static unsigned char *slots_of(RendezvousMember *s)
{
    size_t boxes = align64((size_t)s->ranks * s->ranks * sizeof(RendezvousBox));
    return (unsigned char *)s->rendezvous + align64(sizeof(Rendezvous)) + boxes;
}

static unsigned char *message_of(RendezvousMember *s, uint32_t from, uint32_t to)
{
    return slots_of(s) + (size_t)s->ranks * RENDEZVOUS_SLOT_BYTES +
           ((size_t)from * s->ranks + to) * RENDEZVOUS_MESSAGE_BYTES;
}

static size_t rendezvous_bytes(uint32_t ranks)
{
    size_t n = ranks;
    return align64(sizeof(Rendezvous)) + align64(n * n * sizeof(RendezvousBox)) +
           n * RENDEZVOUS_SLOT_BYTES + n * n * RENDEZVOUS_MESSAGE_BYTES;
}

unsigned char *rendezvous_slot(RendezvousMember *s, uint32_t rank)
{
    return slots_of(s) + (size_t)rank * RENDEZVOUS_SLOT_BYTES;
}

/* A process that died with the lock leaves nothing half done that matters to the others. */
static void rendezvous_lock(RendezvousMember *s)
{
    if (pthread_mutex_lock(&s->rendezvous->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&s->rendezvous->lock);
}

static void rendezvous_unlock(RendezvousMember *s)
{
    pthread_mutex_unlock(&s->rendezvous->lock);
}

static void rendezvous_signal(RendezvousMember *s)
{
    s->rendezvous->change++;
    syscall(SYS_futex, &s->rendezvous->change, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool rendezvous_is_broken(const RendezvousMember *s)
{
    return s->is_aborted || s->rendezvous->has_failed;
}

/* Gives the lock away until something changes. A condition variable would not do: a process
 * that is killed while it waits can leave one in a state in which nobody gets further. */
static void rendezvous_sleep(RendezvousMember *s)
{
    uint32_t seen = s->rendezvous->change;
    rendezvous_unlock(s);
    syscall(SYS_futex, &s->rendezvous->change, FUTEX_WAIT, seen, NULL, NULL, 0);
    rendezvous_lock(s);
}

static bool rendezvous_make(Rendezvous *r, uint32_t ranks)
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

static bool rendezvous_map(RendezvousMember *s, char *reason)
{
    int fd = shm_open(s->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        snprintf(reason, RENDEZVOUS_TEXT_BYTES, "shared memory %s: %s", s->name,
                 strerror(errno));
        return false;
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || (st.st_size != 0 && (size_t)st.st_size != s->bytes) ||
        (st.st_size == 0 && ftruncate(fd, (off_t)s->bytes) != 0)) {
        snprintf(reason, RENDEZVOUS_TEXT_BYTES,
                 "the ranks of communicator %s do not agree on its size, or there is no "
                 "memory",
                 s->name);
        close(fd);
        return false;
    }
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        snprintf(reason, RENDEZVOUS_TEXT_BYTES, "no shared memory for a communicator");
        return false;
    }
    s->rendezvous = p;
    return true;
}

bool rendezvous_enter(RendezvousMember *s, const char *name, uint32_t rank,
                      uint32_t ranks, char reason[RENDEZVOUS_TEXT_BYTES])
{
    *s = (RendezvousMember){
        .rank = rank, .ranks = ranks, .bytes = rendezvous_bytes(ranks)};
    snprintf(s->name, sizeof s->name, "%s", name);
    if (ranks == 0 || ranks > RENDEZVOUS_MOST_RANKS || rank >= ranks) {
        snprintf(reason, RENDEZVOUS_TEXT_BYTES,
                 "rank %u of a communicator of %u ranks (at most %d)", rank, ranks,
                 RENDEZVOUS_MOST_RANKS);
        return false;
    }
    if (!rendezvous_map(s, reason))
        return false;
    unsigned fresh = STATE_FRESH;
    if (atomic_compare_exchange_strong(&s->rendezvous->state, &fresh, STATE_MAKING)) {
        rendezvous_make(s->rendezvous, ranks);
        atomic_store(&s->rendezvous->state, STATE_READY);
    }
    while (atomic_load(&s->rendezvous->state) != STATE_READY)
        sched_yield();
    rendezvous_lock(s);
    bool taken = s->rendezvous->rank[rank].is_present;
    if (!taken) {
        s->rendezvous->rank[rank].is_present = true;
        if (++s->rendezvous->present == ranks)
            shm_unlink(s->name);
        rendezvous_signal(s);
    }
    rendezvous_unlock(s);
    if (taken) {
        snprintf(reason, RENDEZVOUS_TEXT_BYTES,
                 "rank %u of communicator %s exists already", rank, name);
        munmap(s->rendezvous, s->bytes);
        s->rendezvous = NULL;
    }
    return !taken;
}

void rendezvous_leave(RendezvousMember *s)
{
    if (s->rendezvous == NULL)
        return;
    rendezvous_lock(s);
    bool was_full = s->rendezvous->present == s->ranks;
    rendezvous_unlock(s);
    if (!was_full)
        shm_unlink(s->name);
    munmap(s->rendezvous, s->bytes);
    s->rendezvous = NULL;
}

void rendezvous_abort(RendezvousMember *s)
{
    rendezvous_lock(s);
    s->is_aborted = true;
    rendezvous_signal(s);
    rendezvous_unlock(s);
}

bool rendezvous_is_aborted(RendezvousMember *s)
{
    rendezvous_lock(s);
    bool aborted = s->is_aborted;
    rendezvous_unlock(s);
    return aborted;
}

bool rendezvous_is_full(RendezvousMember *s)
{
    rendezvous_lock(s);
    bool full = s->rendezvous->present == s->ranks;
    rendezvous_unlock(s);
    return full;
}

bool rendezvous_wait_full(RendezvousMember *s)
{
    rendezvous_lock(s);
    while (s->rendezvous->present != s->ranks && !rendezvous_is_broken(s))
        rendezvous_sleep(s);
    bool full = s->rendezvous->present == s->ranks;
    rendezvous_unlock(s);
    return full;
}

void rendezvous_failure(RendezvousMember *s, char text[RENDEZVOUS_TEXT_BYTES])
{
    rendezvous_lock(s);
    memcpy(text, s->rendezvous->failure, RENDEZVOUS_TEXT_BYTES);
    rendezvous_unlock(s);
}

void rendezvous_fail(RendezvousMember *s, const char *text)
{
    rendezvous_lock(s);
    if (!s->rendezvous->has_failed)
        snprintf(s->rendezvous->failure, RENDEZVOUS_TEXT_BYTES, "%s", text);
    s->rendezvous->has_failed = true;
    rendezvous_signal(s);
    rendezvous_unlock(s);
}

/* Under the lock. */
static bool barrier_pass(RendezvousMember *s)
{
    Rendezvous *r = s->rendezvous;
    uint64_t now = r->barriers;
    if (rendezvous_is_broken(s))
        return false;
    r->rank[s->rank].entered = now + 1;
    if (++r->at_barrier == s->ranks) {
        r->at_barrier = 0;
        r->barriers++;
        rendezvous_signal(s);
        return true;
    }
    while (r->barriers == now && !rendezvous_is_broken(s))
        rendezvous_sleep(s);
    return r->barriers != now;
}

/* Somebody waits for this rank, which itself neither is at the barrier nor waits for others. */
static bool is_missing(const Rendezvous *r, uint32_t rank, uint32_t ranks)
{
    if (r->rank[rank].waits_for != 0 ||
        (r->at_barrier > 0 && r->rank[rank].entered == r->barriers + 1))
        return false;
    bool waited_for = r->at_barrier > 0;
    for (uint32_t i = 0; i < ranks && !waited_for; i++)
        waited_for = r->rank[i].waits_for == rank + 1;
    return waited_for;
}

bool rendezvous_missing(RendezvousMember *s, char text[RENDEZVOUS_TEXT_BYTES])
{
    size_t at = 0;
    text[0] = '\0';
    rendezvous_lock(s);
    for (uint32_t i = 0; i < s->ranks && at + 32 < RENDEZVOUS_TEXT_BYTES; i++) {
        if (is_missing(s->rendezvous, i, s->ranks))
            at += (size_t)snprintf(text + at, RENDEZVOUS_TEXT_BYTES - at,
                                   "%srank %" PRIu32, at > 0 ? ", " : "", i);
    }
    rendezvous_unlock(s);
    return at > 0;
}

bool rendezvous_barrier(RendezvousMember *s)
{
    rendezvous_lock(s);
    bool passed = barrier_pass(s);
    rendezvous_unlock(s);
    return passed;
}

bool rendezvous_announce(RendezvousMember *s, const RendezvousCall *call,
                         const RendezvousCall **out_calls)
{
    static _Thread_local RendezvousCall calls[RENDEZVOUS_MOST_RANKS];
    rendezvous_lock(s);
    if (!rendezvous_is_broken(
            s)) /* else ranks that have just passed still read the call before */
        s->rendezvous->rank[s->rank].call = *call;
    bool passed = barrier_pass(s);
    for (uint32_t i = 0; i < s->ranks; i++)
        calls[i] = s->rendezvous->rank[i].call;
    rendezvous_unlock(s);
    *out_calls = calls;
    return passed;
}

bool rendezvous_try_send(RendezvousMember *s, uint32_t to,
                         const RendezvousMessage *message, const void *data)
{
    RendezvousBox *box = box_of(s, s->rank, to);
    rendezvous_lock(s);
    bool sent = !box->is_full;
    if (sent) {
        box->message = *message;
        memcpy(message_of(s, s->rank, to), data, message->bytes);
        box->is_full = true;
        rendezvous_signal(s);
    }
    rendezvous_unlock(s);
    return sent;
}

bool rendezvous_try_receive(RendezvousMember *s, uint32_t from, RendezvousMessage *out,
                            void *data)
{
    RendezvousBox *box = box_of(s, from, s->rank);
    rendezvous_lock(s);
    bool received = box->is_full;
    if (received) {
        *out = box->message;
        if (out->bytes > RENDEZVOUS_MESSAGE_BYTES) /* another process wrote nonsense */
            out->bytes = RENDEZVOUS_MESSAGE_BYTES;
        memcpy(data, message_of(s, from, s->rank), out->bytes);
        box->is_full = false;
        rendezvous_signal(s);
    }
    rendezvous_unlock(s);
    return received;
}

uint32_t rendezvous_change(RendezvousMember *s)
{
    rendezvous_lock(s);
    uint32_t change = s->rendezvous->change;
    rendezvous_unlock(s);
    return change;
}

bool rendezvous_wait_change(RendezvousMember *s, uint32_t change, uint32_t waits_for)
{
    rendezvous_lock(s);
    s->rendezvous->rank[s->rank].waits_for = waits_for;
    while (s->rendezvous->change == change && !rendezvous_is_broken(s))
        rendezvous_sleep(s);
    if (!rendezvous_is_broken(s))
        s->rendezvous->rank[s->rank].waits_for = 0;
    bool broken = rendezvous_is_broken(s);
    rendezvous_unlock(s);
    return !broken;
}

void rendezvous_post_split(RendezvousMember *s, uint64_t number, int32_t colour,
                           int32_t key)
{
    RendezvousRank *r = &s->rendezvous->rank[s->rank];
    rendezvous_lock(s);
    r->splits[number % 2].number = number;
    r->splits[number % 2].colour = colour;
    r->splits[number % 2].key = key;
    rendezvous_signal(s);
    rendezvous_unlock(s);
}

static bool split_is_complete(const RendezvousMember *s, uint64_t number)
{
    for (uint32_t i = 0; i < s->ranks; i++)
        if (s->rendezvous->rank[i].splits[number % 2].number < number)
            return false;
    return true;
}

bool rendezvous_wait_split(RendezvousMember *s, uint64_t number, int32_t colour,
                           uint32_t *out_rank, uint32_t *out_ranks)
{
    uint32_t rank = 0, ranks = 0;
    rendezvous_lock(s);
    while (!split_is_complete(s, number) && !rendezvous_is_broken(s))
        rendezvous_sleep(s);
    bool complete = split_is_complete(s, number);
    int32_t own_key = s->rendezvous->rank[s->rank].splits[number % 2].key;
    for (uint32_t i = 0; i < s->ranks; i++) {
        int32_t key = s->rendezvous->rank[i].splits[number % 2].key;
        if (s->rendezvous->rank[i].splits[number % 2].colour != colour)
            continue;
        ranks++;
        if (key < own_key || (key == own_key && i < s->rank))
            rank++;
    }
    rendezvous_unlock(s);
    *out_rank = rank;
    *out_ranks = ranks;
    return complete;
}
