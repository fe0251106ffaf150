/* The state of a running block, shared by engine.c (scheduler), sync.c (barriers and
 * shuffles) and access.c (checked accesses). */
#ifndef GXC_RUNTIME_EMU_ENGINE_PARTS_H
#define GXC_RUNTIME_EMU_ENGINE_PARTS_H

#include "runtime/emu/engine.h"
#include "runtime/emu/fibre.h"

typedef enum {
    THREAD_RUNS, /* or is ready to; meaningless before it started */
    THREAD_AT_BARRIER,
    THREAD_IN_WARP, /* waits for lanes of its warp */
    THREAD_ENDED,
} ThreadState;

typedef struct Thread {
    gxemu_block view; /* first: the kernel's pointer to it is a pointer to the thread */
    Fibre *fibre;
    uint32_t index; /* linear in the block */
    ThreadState state;
    uint32_t site; /* where it waits, with the number of the barrier or shuffle */
    /* The shuffle that it waits in. */
    uint32_t mode;
    uint32_t mask;
    uint32_t value;
    uint32_t operand;
    uint32_t clamp;
    uint32_t result;
} Thread;

typedef struct Engine {
    FibrePool pool;
    Fibre home;
    Thread *threads; /* ENGINE_MOST_THREADS */
    const EngineLaunch *launch;
    Finding *finding;
    bool aborted; /* *finding tells why; no fibre of this launch goes on */
    uint32_t ctaid[3];
    uint32_t thread_count;
    uint32_t next_thread; /* the first one that has not started */
    uint32_t live;        /* threads that have not ended, started or not */
    uint32_t at_barrier;
    uint32_t warp_waiting[RACE_WARPS];   /* lanes that are THREAD_IN_WARP */
    uint32_t ready[ENGINE_MOST_THREADS]; /* a ring */
    uint32_t ready_head;
    uint32_t ready_count;
    unsigned char *shared;
    uint64_t shared_capacity;
    Shadow shared_shadow;
    Race race;
} Engine;

static inline Thread *thread_of(gxemu_block *b)
{
    return (Thread *)(void *)b;
}

static inline Engine *engine_of(const gxemu_block *b)
{
    return b->engine;
}

/* Leaves the running fibre until engine_ready puts its thread back. */
void engine_wait(Engine *e);
void engine_ready(Engine *e, Thread *t);
/* Ends the launch: the finding is set. Called on a fibre. */
void engine_abort(Engine *e) __attribute__((noreturn));
/* Appends "kernel k, instruction i (site s), thread … of block …" to the finding. */
void engine_describe(const Engine *e, const Thread *t, uint32_t site);
/* Without the number of a barrier or shuffle. */
static inline uint32_t site_number(uint32_t site)
{
    return site & ((UINT32_C(1) << EMU_SITE_BITS) - 1);
}
/* The HLO instruction of an access site; "?" if it has none. */
const char *engine_site(const Engine *e, uint32_t site);

/* Whoever waited for this thread need not any more. */
void sync_thread_ended(Engine *e, Thread *t);
/* Some threads live and none can go on. */
void sync_report_deadlock(Engine *e);

#endif
