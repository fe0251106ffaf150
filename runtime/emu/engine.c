/* The block scheduler. See engine.h.
 *
 * A fibre takes threads that have not started one after the other, so threads that never
 * wait need one fibre and no switch. A thread that waits leaves its fibre to itself, and
 * the next thread that can go on is resumed, or one that has not started gets a fresh
 * fibre. When nobody can go on, the home stack decides: all done, or a deadlock. */
#include "runtime/emu/engine_parts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/workers.h"

enum { ENGINE_PARALLEL_THREADS = 16384 }; /* fewer GPU threads run on one OS thread */

static pthread_key_t engine_key;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void engine_destroy(void *p)
{
    Engine *e = p;
    if (e == NULL)
        return;
    fibre_pool_deinit(&e->pool);
    shadow_deinit(&e->shared_shadow);
    race_deinit(&e->race);
    banks_deinit(e);
    free(e->tensor);
    for (uint32_t i = 0; i < ENGINE_MOST_THREADS; i++)
        copies_deinit(&e->threads[i]);
    free(e->shared);
    free(e->threads);
    free(e);
}

static void engine_key_create(void)
{
    pthread_key_create(&engine_key, engine_destroy);
}

const char *engine_site(const Engine *e, uint32_t site)
{
    const EngineLaunch *l = e->launch;
    site = site_number(site);
    if (l->sites == NULL || site >= l->site_count || l->sites[site] == NULL)
        return "?";
    return l->sites[site];
}

void engine_describe(const Engine *e, const Thread *t, uint32_t site)
{
    const EngineLaunch *l = e->launch;
    finding_add(
        e->finding,
        "kernel %s, instruction %s (site %u), thread (%u,%u,%u) of block (%u,%u,%u)",
        l->name, engine_site(e, site), site_number(site), t->view.tid[0], t->view.tid[1],
        t->view.tid[2], e->ctaid[0], e->ctaid[1], e->ctaid[2]);
}

void engine_abort(Engine *e)
{
    e->aborted = true;
    fibre_switch(&e->pool, &e->home);
    abort(); /* the home stack never comes back to an aborted block */
}

/* The fibre of the thread that goes on now, or home. */
static Fibre *engine_next(Engine *e)
{
    if (e->ready_count != 0) {
        Thread *t = &e->threads[e->ready[e->ready_head]];
        e->ready_head = (e->ready_head + 1) % ENGINE_MOST_THREADS;
        e->ready_count--;
        return t->fibre;
    }
    if (e->next_thread < e->thread_count) {
        Fibre *f = fibre_acquire(&e->pool);
        if (f != NULL)
            return f;
        finding_set(e->finding, FINDING_MEMORY,
                    "kernel %s: no memory for %u thread stacks", e->launch->name,
                    e->thread_count);
        e->aborted = true;
    }
    return &e->home;
}

void engine_wait(Engine *e)
{
    fibre_switch(&e->pool, engine_next(e));
}

void engine_ready(Engine *e, Thread *t)
{
    t->state = THREAD_RUNS;
    e->ready[(e->ready_head + e->ready_count) % ENGINE_MOST_THREADS] = t->index;
    e->ready_count++;
}

static void thread_run(Engine *e, Thread *t)
{
    t->fibre = e->pool.running;
    t->state = THREAD_RUNS;
    memcpy(t->view.ctaid, e->ctaid, sizeof e->ctaid);
    e->launch->entry(&t->view, e->launch->args);
    t->state = THREAD_ENDED;
    e->live--;
    sync_thread_ended(e, t);
}

static void engine_fibre(void *argument)
{
    Engine *e = argument;
    for (;;) {
        while (e->ready_count == 0 && e->next_thread < e->thread_count)
            thread_run(e, &e->threads[e->next_thread++]);
        Fibre *self = e->pool.running;
        Fibre *next = engine_next(e);
        fibre_release(&e->pool, self);
        fibre_switch(&e->pool, next);
    }
}

static Engine *engine_create(void)
{
    Engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->threads = calloc(ENGINE_MOST_THREADS, sizeof *e->threads);
    if (e->threads == NULL) {
        free(e);
        return NULL;
    }
    fibre_pool_init(&e->pool, &e->home, engine_fibre, e);
    return e;
}

static Engine *engine_of_os_thread(void)
{
    pthread_once(&engine_once, engine_key_create);
    Engine *e = pthread_getspecific(engine_key);
    if (e != NULL)
        return e;
    e = engine_create();
    if (e != NULL && pthread_setspecific(engine_key, e) != 0) {
        engine_destroy(e);
        return NULL;
    }
    return e;
}

/* Shared memory of the right size, and its shadow where a mode asks for it. */
static bool shared_prepare(Engine *e, const EngineLaunch *l)
{
    uint64_t bytes = l->shared_bytes;
    if (bytes > e->shared_capacity || e->shared == NULL) {
        free(e->shared);
        e->shared_capacity = 0;
        uint64_t capacity = bytes < 4096 ? 4096 : (bytes + 4095) / 4096 * 4096;
        e->shared = aligned_alloc(1024, capacity);
        if (e->shared == NULL)
            return false;
        e->shared_capacity = capacity;
    }
    bool written = l->check_written, race = l->check_races;
    bool fits = e->shared_shadow.bytes >= bytes &&
                (!written || e->shared_shadow.written != NULL) &&
                (!race || e->shared_shadow.pages != NULL);
    if (fits)
        return true;
    shadow_deinit(&e->shared_shadow);
    return shadow_init(&e->shared_shadow, e->shared_capacity, written, race);
}

static void views_prepare(Engine *e, const EngineLaunch *l)
{
    for (uint32_t i = 0; i < e->thread_count; i++) {
        Thread *t = &e->threads[i];
        uint64_t extents = (uintptr_t)l->extents;
        t->index = i;
        t->state = THREAD_RUNS;
        t->view = (gxemu_block){
            .tid = {i % l->block[0], i / l->block[0] % l->block[1],
                    i / l->block[0] / l->block[1]},
            .checks = l->check_written || l->check_races || l->banks != NULL,
            .lane = i % 32,
            .shared = e->shared,
            .shared_bytes = l->shared_bytes,
            .extents = (void *)(uintptr_t)extents,
            .engine = e,
        };
        memcpy(t->view.ntid, l->block, sizeof l->block);
        memcpy(t->view.nctaid, l->grid, sizeof l->grid);
    }
}

static void block_prepare(Engine *e)
{
    const EngineLaunch *l = e->launch;
    e->next_thread = 0;
    e->live = e->thread_count;
    e->ready_head = e->ready_count = 0;
    e->at_barrier = 0;
    memset(e->warp_waiting, 0, sizeof e->warp_waiting);
    for (uint32_t i = 0; i < e->thread_count; i++)
        copies_forget(&e->threads[i]);
    for (uint32_t i = 0; i < RACE_WARPS; i++) {
        e->bank_notes[i].count = e->products[i].count = 0;
        e->products[i].executed = 0;
    }
    if (l->shared_bytes != 0)
        memset(e->shared, 0xff, l->shared_bytes);
    if (l->check_written)
        shadow_set_written(&e->shared_shadow, 0, l->shared_bytes, false);
    if (l->check_races)
        race_begin_block(&e->race);
    tensor_begin_block(e);
}

static bool block_run(Engine *e)
{
    block_prepare(e);
    Fibre *first = engine_next(e);
    if (first != &e->home)
        fibre_switch(&e->pool, first);
    if (!e->aborted && e->live != 0)
        sync_report_deadlock(e);
    for (uint32_t i = 0; i < RACE_WARPS && !e->aborted; i++)
        banks_meet(e, i);
    if (!e->aborted)
        tensor_end_block(e);
    if (!e->aborted)
        products_end_block(e);
    if (e->finding->kind == FINDING_NONE)
        return true;
    fibre_reset_all(&e->pool);
    return false;
}

/* A launch under way, on one OS thread or on several. */
typedef struct Run {
    const EngineLaunch *launch;
    uint64_t blocks;
    atomic_uint_least64_t next; /* block to be run */
    pthread_mutex_t lock;
    bool is_serial;  /* one OS thread runs all blocks */
    uint64_t failed; /* the first block with a finding; `blocks`: none */
    Finding *out;    /* its finding */
} Run;

static void run_fail(Run *r, uint64_t block, const Finding *f)
{
    pthread_mutex_lock(&r->lock);
    if (block < r->failed) {
        r->failed = block;
        *r->out = *f;
    }
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->next, r->blocks); /* blocks before this one have been taken */
}

/* Blocks are taken in their order, each by an OS thread that runs it to its end: whoever waits for an earlier one
 * need only wait, unless that one failed. Where blocks run one after the other nobody is left to wait for. */
void gxemu_pause(gxemu_block *b, uint32_t site)
{
    enum { MOST_PAUSES = 1000 };
    Engine *e = engine_of(b);
    Run *r = e->run;
    pthread_mutex_lock(&r->lock);
    bool failed = r->failed != r->blocks;
    pthread_mutex_unlock(&r->lock);
    if (failed || (r->is_serial && ++e->pauses > MOST_PAUSES)) {
        finding_set(e->finding, FINDING_SYNC, "waits for ever: ");
        engine_describe(e, thread_of(b), site);
        finding_add(e->finding, ", and no earlier block is left that could help");
        engine_abort(e);
    }
    sched_yield();
}

static bool engine_prepare(Engine *e, const EngineLaunch *l, Finding *finding)
{
    if (e == NULL || !shared_prepare(e, l)) {
        finding_set(finding, FINDING_MEMORY, "kernel %s: no memory to run it", l->name);
        return false;
    }
    e->launch = l;
    e->finding = finding;
    e->aborted = false;
    e->thread_count = l->block[0] * l->block[1] * l->block[2];
    views_prepare(e, l);
    if (l->check_races)
        race_begin_launch(&e->race);
    return true;
}

/* Runs blocks until none is left. */
static void run_work(void *argument)
{
    Run *r = argument;
    const EngineLaunch *l = r->launch;
    Engine *e = engine_of_os_thread();
    Finding finding = {0};
    uint64_t block = 0;
    bool done = engine_prepare(e, l, &finding);
    if (e != NULL) {
        e->run = r;
        e->pauses = 0;
    }
    while (done && (block = atomic_fetch_add(&r->next, 1)) < r->blocks) {
        e->ctaid[0] = (uint32_t)(block % l->grid[0]);
        e->ctaid[1] = (uint32_t)(block / l->grid[0] % l->grid[1]);
        e->ctaid[2] = (uint32_t)(block / l->grid[0] / l->grid[1]);
        done = block_run(e);
    }
    if (!done)
        run_fail(r, block, &finding);
}

bool engine_run(const EngineLaunch *l, Finding *out)
{
    *out = (Finding){0};
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (l->block[1] > ENGINE_MOST_THREADS || l->block[2] > ENGINE_MOST_THREADS ||
        threads == 0 || threads > ENGINE_MOST_THREADS ||
        l->shared_bytes > ENGINE_MOST_SHARED) {
        finding_set(
            out, FINDING_INVALID,
            "kernel %s: a block of %ux%ux%u threads with %llu bytes of shared memory "
            "cannot be launched",
            l->name, l->block[0], l->block[1], l->block[2],
            (unsigned long long)l->shared_bytes);
        return false;
    }
    Run r = {.launch = l, .out = out};
    r.blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    r.failed = r.blocks;
    pthread_mutex_init(&r.lock, NULL);
    /* The race detector's numbers are for blocks one after the other. */
    r.is_serial =
        l->check_races || r.blocks < 2 || r.blocks * threads < ENGINE_PARALLEL_THREADS;
    if (r.is_serial)
        run_work(&r);
    else
        workers_run(run_work, &r);
    pthread_mutex_destroy(&r.lock);
    return out->kind == FINDING_NONE;
}
