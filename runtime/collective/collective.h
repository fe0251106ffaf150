/* Collectives of a session: communicators, calls, and what watches over them.
 *
 * All devices of the world get one communicator; each clique of the plan is split from it, in
 * the plan's order, by every device, members or not: the plans are equal (their hashes are
 * exchanged first), so all ranks split alike and none waits for one that does not come. */
#ifndef GXC_RUNTIME_COLLECTIVE_COLLECTIVE_H
#define GXC_RUNTIME_COLLECTIVE_COLLECTIVE_H

#include "runtime/run/session.h"

/* A device in one clique. */
typedef struct Group {
    const int64_t *devices; /* of its group, in rank order; NULL: not a member */
    uint32_t size;
    uint32_t rank;
    int colour;    /* of the group in the clique's split; -1: alone or no member */
    bool is_split; /* some group of the clique has a communicator: all devices split */
    TransportComm *comm;  /* NULL for groups of one */
    bool is_world;        /* comm is the world's */
    uint32_t local;       /* members in this process */
    uint32_t first_local; /* the lowest of them: its index in the session */
    uint64_t calls;       /* that the host has made on it */
    CUevent order;        /* orders calls on different streams; NULL until it is needed */
    uint32_t last_stream; /* plan stream of the last call */
    bool was_called;
    void **enrolled; /* by allocation: the transport's handle, or NULL */
} Group;

/* One call of the transport. */
typedef struct Transfer {
    TransportCall call;
    uint32_t send, receive; /* slices of the plan, or PLAN_NONE */
    uint64_t offset;        /* bytes into both */
} Transfer;

/* Bytes that reach a result without the transport. */
typedef struct LocalMove {
    uint32_t to;
    uint32_t from; /* PLAN_NONE: zeros */
} LocalMove;

/* A collective command on one device, resolved. */
typedef struct CollectiveCall {
    uint32_t clique;
    uint32_t first_move, move_count;
    uint32_t first_transfer, transfer_count;
    bool is_joined;    /* its transfers are one group with those of the next command */
    bool is_continued; /* the command before it has begun that group */
    bool was_made;     /* all local members have made it in some execution */
} CollectiveCall;

typedef struct Collectives {
    CollectiveCall *calls; /* in the order of the commands */
    Transfer *transfers;
    LocalMove *moves;
    uint32_t call_count, transfer_count, move_count;
} Collectives;

/* Fills *all for a device that knows its groups. */
gxrt_status collective_resolve(Device *d, Collectives *all);
void collective_release(Collectives *all);

/* Communicators of all local devices; nothing for plans without collectives. */
gxrt_status collective_create(gxrt_session *s);
/* The transport of a session that will need one: before its devices are made, which may
 * take memory from it. */
gxrt_status collective_load(gxrt_session *s);
/* Ends them: all ranks of a node have to. Who waits too long for one aborts. */
void collective_destroy(gxrt_session *s);

/* Does `job` for all local devices at once, each on a thread of its own, with its context: for
 * calls of the transport that may wait for the other ranks of the node. */
void collective_each(gxrt_session *s, void (*job)(Device *));
/* Aborts the communicators of a device: first the world's, from which the others were split. */
void collective_abort(Device *d);

/* For a session that is kept because a device does not end: stops the watchdog and aborts what it has not. */
void collective_give_up(gxrt_session *s);

/* Around what queues collectives on all local devices. Two sessions that do so at once on the
 * same devices would come in different orders on different devices, and wait for each other for
 * ever; so one after the other. Nothing for sessions without communicators or with one device. */
void collective_enter(const gxrt_session *s);
void collective_leave(const gxrt_session *s);

/* The status of a call of the transport that failed; the watchdog's report, once it has
 * struck. */
gxrt_status collective_error(Device *d, const char *call, TransportResult r,
                             const char *what);
/* A call on a communicator may go on in the background: waits for it. The watchdog ends that
 * by aborting, after which it is not asked any more. Lets go of the device's lock while it waits. */
gxrt_status collective_settle(Device *d, TransportComm *comm, TransportResult r,
                              const char *call, const char *what);

/* --- watchdog.c: a thread that notices when a collective or a host-side wait takes longer
 * than the timeout, says who is late, and aborts the communicators. */
typedef struct Watchdog Watchdog;

gxrt_status watchdog_start(gxrt_session *s);
void watchdog_stop(gxrt_session *s);
/* Around host code that may wait for others; `what` is a literal. */
void watchdog_enter(Device *d, const char *what, const PlanCommand *c);
void watchdog_leave(Device *d);
/* Before and after a collective is queued: events that the watchdog asks later. */
gxrt_status watchdog_before(Device *d, const PlanCommand *c, CUstream stream);
gxrt_status watchdog_after(Device *d, CUstream stream);
/* GXRT_WORLD_FAILED with the watchdog's report, once it has struck; else GXRT_OK. */
gxrt_status watchdog_verdict(gxrt_session *s);

#endif
