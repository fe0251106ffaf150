/* Collectives of a session: communicators, calls, and what watches over them.
 *
 * All devices of the world get one communicator; each clique of the plan is split from it, in
 * the plan's order, by every device, members or not: the plans are equal (their hashes are
 * exchanged first), so all ranks split alike and none waits for one that does not come. */
#ifndef GXC_RUNTIME_COLLECTIVE_COLLECTIVE_H
#define GXC_RUNTIME_COLLECTIVE_COLLECTIVE_H

#include "runtime/run/session.h"

/* A device's place in one clique. */
typedef struct Group {
    const int64_t *devices; /* of its group, in rank order; NULL: not a member */
    uint32_t size;
    uint32_t rank;
    ncclComm_t comm;      /* NULL for groups of one */
    bool is_world;        /* comm is the world's */
    uint32_t local;       /* members in this process */
    uint32_t first_local; /* the lowest of them: its index in the session */
    uint64_t calls;       /* that the host has made on it */
    CUevent order;        /* orders calls on different streams; NULL until it is needed */
    uint32_t last_stream; /* plan stream of the last call */
    bool was_called;
    void **registered; /* by allocation: NCCL's handle, or NULL */
} Group;

/* Communicators of all local devices; nothing for plans without collectives. */
gxrt_status collective_create(gxrt_session *s);
/* NCCL's functions for a session that will need them: before its devices are made, which may
 * take memory from it. */
gxrt_status collective_load(gxrt_session *s);
/* Ends them: all ranks of a node have to. Who waits too long for one aborts. */
void collective_destroy(gxrt_session *s);

/* Does `job` for all local devices at once, each on a thread of its own, with its context: for
 * NCCL's calls that may wait for the other ranks of the node. */
void collective_each(gxrt_session *s, void (*job)(Device *));
/* Aborts the communicators of a device: first the world's, from which the others were split. */
void collective_abort(Device *d);

/* Around what queues collectives on all local devices. Two sessions that do so at once on the
 * same devices would come in different orders on different devices, and wait for each other for
 * ever; so one after the other. Nothing for sessions without communicators or with one device. */
void collective_enter(const gxrt_session *s);
void collective_leave(const gxrt_session *s);

/* The status of a NCCL call that failed; the watchdog's report, once it has struck. */
gxrt_status collective_error(Device *d, const char *call, ncclResult_t r,
                             const char *what);
/* A call on a communicator may go on in the background: waits for it. The watchdog ends that
 * by aborting. */
gxrt_status collective_settle(Device *d, ncclComm_t comm, ncclResult_t r,
                              const char *call, const char *what);

/* (type, whether it is reduced) as NCCL moves it: its type, and its elements for one of ours.
 * -1: not possible. Types without a NCCL type move as bytes. */
int collective_type(const char *dtype, bool reduces, uint32_t sm, uint32_t *out_factor);

/* The most channels that a communicator of NCCL may use: `asked` if it is not 0. INT_MIN: NCCL
 * decides. */
int collective_channels(uint32_t sm, int nccl_version, uint32_t asked);

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
