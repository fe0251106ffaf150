/* Every rank puts a chunk into its slot of the rendezvous; after a barrier each takes what it needs;
 * after a second one the slots are free for the next chunk. See collective.h. */
#include "runtime/emu/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter",
                                        "broadcast",  "send",       "receive"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

static const char *reduce_name(uint32_t op)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg"};
    return op < sizeof names / sizeof names[0] ? names[op] : "?";
}

static void call_print(char *out, size_t bytes, const RendezvousCall *c)
{
    const char *type = c->type < DT_COUNT ? dtype_info[c->type].name : "?";
    if (c->kind == COLLECTIVE_ALL_REDUCE || c->kind == COLLECTIVE_REDUCE_SCATTER)
        snprintf(out, bytes, "%s (%s) of %" PRIu64 " %s", kind_name(c->kind),
                 reduce_name(c->op), c->count, type);
    else if (c->kind == COLLECTIVE_BROADCAST)
        snprintf(out, bytes, "%s from rank %" PRIu32 " of %" PRIu64 " %s",
                 kind_name(c->kind), c->root, c->count, type);
    else
        snprintf(out, bytes, "%s of %" PRIu64 " %s", kind_name(c->kind), c->count, type);
}

static bool calls_match(const RendezvousCall *a, const RendezvousCall *b)
{
    return a->number == b->number && a->kind == b->kind && a->count == b->count &&
           a->type == b->type && a->op == b->op && a->root == b->root;
}

/* The reason why waiting ended. */
static bool report_end(RendezvousMember *s, Finding *out)
{
    char text[RENDEZVOUS_TEXT_BYTES];
    rendezvous_failure(s, text);
    if (text[0] != '\0' && !rendezvous_is_aborted(s))
        finding_set(out, FINDING_SYNC, "%s", text);
    return false;
}

/* All ranks say what they do; the first two that differ are named in every rank. */
static bool agree(RendezvousMember *s, const Collective *c, Finding *out)
{
    const RendezvousCall *calls;
    RendezvousCall own = {.number = c->number,
                          .count = c->count,
                          .kind = (uint32_t)c->kind,
                          .type = (uint32_t)c->type,
                          .op = (uint32_t)c->op,
                          .root = c->root};
    if (!rendezvous_announce(s, &own, &calls))
        return report_end(s, out);
    for (uint32_t i = 1; i < s->ranks; i++) {
        if (calls_match(&calls[0], &calls[i]))
            continue;
        char text[RENDEZVOUS_TEXT_BYTES], first[200], second[200];
        call_print(first, sizeof first, &calls[0]);
        call_print(second, sizeof second, &calls[i]);
        snprintf(text, sizeof text,
                 "the ranks of a communicator disagree: call %" PRIu64
                 " of rank 0 is %s, call "
                 "%" PRIu64 " of rank %" PRIu32 " is %s",
                 calls[0].number, first, calls[i].number, i, second);
        rendezvous_fail(s, text);
        return report_end(s, out);
    }
    return true;
}

/* Puts [offset, offset + bytes) of `from` into the own slot and waits for all. */
static bool chunk_put(RendezvousMember *s, const unsigned char *from, size_t bytes)
{
    memcpy(rendezvous_slot(s, s->rank), from, bytes);
    return rendezvous_barrier(s);
}

static void chunk_reduce(RendezvousMember *s, const Collective *c, size_t bytes,
                         unsigned char *to)
{
    const unsigned char *inputs[RENDEZVOUS_MOST_RANKS];
    for (uint32_t i = 0; i < s->ranks; i++)
        inputs[i] = rendezvous_slot(s, i);
    collective_reduce(c->type, c->op, inputs, s->ranks,
                      bytes / dtype_info[c->type].storage, to);
}

static bool all_reduce(RendezvousMember *s, const Collective *c, uint64_t total)
{
    for (uint64_t at = 0; at < total; at += RENDEZVOUS_SLOT_BYTES) {
        size_t n =
            total - at < RENDEZVOUS_SLOT_BYTES ? total - at : RENDEZVOUS_SLOT_BYTES;
        if (!chunk_put(s, c->send + at, n))
            return false;
        chunk_reduce(s, c, n, c->receive + at);
        if (!rendezvous_barrier(s))
            return false;
    }
    return true;
}

static bool all_gather(RendezvousMember *s, const Collective *c, uint64_t total)
{
    for (uint64_t at = 0; at < total; at += RENDEZVOUS_SLOT_BYTES) {
        size_t n =
            total - at < RENDEZVOUS_SLOT_BYTES ? total - at : RENDEZVOUS_SLOT_BYTES;
        if (!chunk_put(s, c->send + at, n))
            return false;
        for (uint32_t i = 0; i < s->ranks; i++)
            memcpy(c->receive + i * total + at, rendezvous_slot(s, i), n);
        if (!rendezvous_barrier(s))
            return false;
    }
    return true;
}

/* `total` bytes for each rank. */
static bool reduce_scatter(RendezvousMember *s, const Collective *c, uint64_t total)
{
    for (uint64_t at = 0; at < total; at += RENDEZVOUS_SLOT_BYTES) {
        size_t n =
            total - at < RENDEZVOUS_SLOT_BYTES ? total - at : RENDEZVOUS_SLOT_BYTES;
        for (uint32_t i = 0; i < s->ranks; i++) {
            if (!chunk_put(s, c->send + i * total + at, n))
                return false;
            if (i == s->rank)
                chunk_reduce(s, c, n, c->receive + at);
            if (!rendezvous_barrier(s))
                return false;
        }
    }
    return true;
}

static bool broadcast(RendezvousMember *s, const Collective *c, uint64_t total)
{
    for (uint64_t at = 0; at < total; at += RENDEZVOUS_SLOT_BYTES) {
        size_t n =
            total - at < RENDEZVOUS_SLOT_BYTES ? total - at : RENDEZVOUS_SLOT_BYTES;
        if (s->rank == c->root)
            memcpy(rendezvous_slot(s, s->rank), c->send + at, n);
        if (!rendezvous_barrier(s))
            return false;
        memcpy(c->receive + at, rendezvous_slot(s, c->root), n);
        if (!rendezvous_barrier(s))
            return false;
    }
    return true;
}

static bool collective_one(RendezvousMember *s, const Collective *c, Finding *out)
{
    uint64_t total = c->count * dtype_info[c->type].storage;
    bool done = false;
    if (!agree(s, c, out))
        return false;
    switch (c->kind) {
    case COLLECTIVE_ALL_REDUCE:
        done = all_reduce(s, c, total);
        break;
    case COLLECTIVE_ALL_GATHER:
        done = all_gather(s, c, total);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        done = reduce_scatter(s, c, total);
        break;
    case COLLECTIVE_BROADCAST:
        done = broadcast(s, c, total);
        break;
    case COLLECTIVE_SEND:
    case COLLECTIVE_RECEIVE:
        break;
    }
    return done || report_end(s, out);
}

static bool message_is_done(const Collective *c)
{
    return c->done == c->count * dtype_info[c->type].storage + 1;
}

/* Moves what can be moved of a message without waiting; messages of 0 bytes take one chunk.
 * `done` ends one above the number of bytes. */
static bool message_step(RendezvousMember *s, Collective *c, Finding *out, bool *moved)
{
    unsigned char data[RENDEZVOUS_MESSAGE_BYTES];
    uint64_t total = c->count * dtype_info[c->type].storage;
    while (!message_is_done(c)) {
        uint64_t left = total - c->done;
        RendezvousMessage message = {.total = total,
                                     .type = (uint32_t)c->type,
                                     .bytes = left < RENDEZVOUS_MESSAGE_BYTES
                                                  ? (uint32_t)left
                                                  : RENDEZVOUS_MESSAGE_BYTES};
        if (c->kind == COLLECTIVE_SEND) {
            if (!rendezvous_try_send(s, c->root, &message, c->send + c->done))
                return true;
        } else {
            uint32_t expected = message.bytes;
            if (!rendezvous_try_receive(s, c->root, &message, data))
                return true;
            if (message.total != total || message.type != (uint32_t)c->type ||
                message.bytes != expected) {
                char text[RENDEZVOUS_TEXT_BYTES];
                snprintf(text, sizeof text,
                         "call %" PRIu64 " of rank %" PRIu32 " receives %" PRIu64
                         " bytes of %s from rank %" PRIu32 ", which sends %" PRIu64
                         " bytes of %s",
                         c->number, s->rank, total, dtype_info[c->type].name, c->root,
                         message.total,
                         message.type < DT_COUNT ? dtype_info[message.type].name : "?");
                rendezvous_fail(s, text);
                return report_end(s, out);
            }
            memcpy(c->receive + c->done, data, message.bytes);
        }
        *moved = true;
        c->done += message.bytes;
        if (c->done == total)
            c->done = total + 1;
    }
    return true;
}

/* Messages of one pair and direction keep their order: a later one waits for the earlier. */
static bool message_is_first(const Collective *calls, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (calls[j].kind == calls[i].kind && calls[j].root == calls[i].root &&
            !message_is_done(&calls[j]))
            return false;
    return true;
}

static bool is_message(const Collective *c)
{
    return c->kind == COLLECTIVE_SEND || c->kind == COLLECTIVE_RECEIVE;
}

static bool messages_run(RendezvousMember *s, Collective *calls, size_t count,
                         Finding *out)
{
    for (;;) {
        bool all_done = true, moved = false;
        uint32_t waits_for = 0;
        uint32_t change = rendezvous_change(s);
        for (size_t i = 0; i < count; i++) {
            if (!is_message(&calls[i]) || message_is_done(&calls[i]))
                continue;
            if (message_is_first(calls, i) && !message_step(s, &calls[i], out, &moved))
                return false;
            if (all_done && !message_is_done(&calls[i]))
                waits_for = calls[i].root + 1;
            all_done = all_done && message_is_done(&calls[i]);
        }
        if (all_done)
            return true;
        if (!moved && !rendezvous_wait_change(s, change, waits_for))
            return report_end(s, out);
    }
}

bool collective_run(RendezvousMember *s, Collective *calls, size_t count, Finding *out)
{
    bool has_messages = false;
    for (size_t i = 0; i < count; i++) {
        if (is_message(&calls[i]))
            has_messages = true;
        else if (!collective_one(s, &calls[i], out))
            return false;
    }
    return !has_messages || messages_run(s, calls, count, out);
}
