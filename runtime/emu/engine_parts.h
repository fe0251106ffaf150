/* The state of a running block, shared by engine.c (scheduler), sync.c (barriers), warp.c and its
 * neighbours (what a warp does together), copy.c (asynchronous copies), tensor_memory.c and
 * access.c (checked accesses). */
#ifndef GXC_RUNTIME_EMU_ENGINE_PARTS_H
#define GXC_RUNTIME_EMU_ENGINE_PARTS_H

#include "runtime/emu/engine.h"
#include "runtime/emu/fibre.h"

typedef enum {
    THREAD_RUNS, /* or is ready to; meaningless before it started */
    THREAD_AT_BARRIER,
    THREAD_IN_WARP, /* waits for lanes of its warp */
    THREAD_AT_MBARRIER,
    THREAD_ENDED,
} ThreadState;

typedef enum {
    WARP_SHUFFLE,
    WARP_BARRIER,
    WARP_MMA,
    WARP_LDMATRIX,
    WARP_STMATRIX,
    WARP_WGMMA,
    WARP_WGMMA_WAIT,
    WARP_TENSOR_ALLOC,
    WARP_TENSOR_FREE,
    WARP_TENSOR_LOAD,
} WarpOperation;

/* What a lane brings to something that lanes of a warp do together: see warp.c. */
typedef struct WarpCall {
    WarpOperation operation;
    uint32_t mask;                  /* lanes that take part */
    uint32_t number;                /* the same for all of them: which of the operation */
    uint32_t value, operand, clamp; /* of a shuffle; the value becomes the result */
    uint64_t offset;                /* of a matrix's row in shared memory */
    uint32_t *registers;            /* of instructions that have several */
} WarpCall;

typedef struct PendingCopy PendingCopy;   /* copy.c */
typedef struct TensorMemory TensorMemory; /* tensor_memory.c */
typedef struct BankNote BankNote;         /* banks.c */

typedef struct BankNotes {
    BankNote *notes;
    uint32_t count, capacity;
} BankNotes;

/* Kinds of accesses beside those of GXEMU_READ, …: an asynchronous copy is issued, and is done; a product reads. */
enum { ACCESS_COPY = RACE_COPY, ACCESS_COPIED = RACE_COPIED, ACCESS_LOOK = RACE_LOOK };

/* A warp's wgmma that go on, the oldest first: words as gxemu_wgmma's. */
enum { MOST_PRODUCTS = 16, PRODUCT_WORDS = 8 };
typedef struct PendingProducts {
    uint32_t count;
    uint64_t executed; /* tells apart which wgmma the warp has executed in this block */
    uint32_t words[MOST_PRODUCTS][PRODUCT_WORDS];
} PendingProducts;

typedef struct Thread {
    gxemu_block view; /* first: the kernel's pointer to it is a pointer to the thread */
    Fibre *fibre;
    uint32_t index; /* linear in the block */
    ThreadState state;
    uint32_t site;       /* where it waits, with the number of the barrier or shuffle */
    WarpCall call;       /* THREAD_IN_WARP: what it waits in */
    PendingCopy *copies; /* issued and not waited for, the oldest first */
    uint32_t copy_count, copy_capacity;
    uint32_t copy_group; /* groups committed */
    uint64_t mbarrier;   /* THREAD_AT_MBARRIER: offset in shared memory */
    /* tensor_memory.c: the last product that it issued; up to which one it knows that they are done */
    uint32_t issued, known;
} Thread;

typedef struct Engine {
    FibrePool pool;
    Fibre home;
    Thread *threads; /* ENGINE_MOST_THREADS */
    const EngineLaunch *launch;
    Finding *finding;
    struct Run *run; /* the launch, on all OS threads */
    uint64_t pauses; /* of this launch, by this OS thread */
    bool aborted;    /* *finding tells why; no fibre of this launch goes on */
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
    BankNotes bank_notes[RACE_WARPS];
    TensorMemory *tensor; /* NULL: none was asked for yet */
    PendingProducts products[RACE_WARPS];
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
/* Appends "thread 3 waits at a barrier of reduce.1 (site 4)". */
void sync_describe_waiting(const Engine *e, const Thread *t);
/* Two threads meet that should not: ends the block. */
void sync_report_divergence(Engine *e, const Thread *a, const Thread *b,
                            const char *what);

/* "a shuffle" */
const char *warp_operation_name(WarpOperation operation);
/* Carries out what `t` waits in if all its lanes are there. `self` runs and need not be made ready; NULL
 * when a thread that ended makes it possible. */
void warp_try(Engine *e, const Thread *t, const Thread *self);
/* Results of all `lanes` of the warp, which agree on what they do; mma.c, matrix.c,
 * warpgroup.c. */
void warp_mma(Engine *e, Thread *warp);
void warp_ldmatrix(Engine *e, Thread *warp);
void warp_stmatrix(Engine *e, Thread *warp);
void warp_wgmma(Engine *e, Thread *warp);
void warp_wgmma_wait(Engine *e, Thread *warp);
/* warpgroup.c: all threads have come; false: not all warps of four executed the same wgmma. */
bool products_meet(Engine *e);
/* warpgroup.c: a block has ended. */
void products_end_block(Engine *e);
/* Where a matrix in shared memory has a row of 16 bytes, after the checks of an access by the lane: matrix.c. */
unsigned char *matrix_row(Engine *e, Thread *lane, uint64_t offset, uint32_t kind);

/* A factor of wgmma or tcgen05.mma in shared memory, matrices of 8 rows of 16 bytes: warpgroup.c. */
typedef struct Matrices {
    uint64_t offset, lead, stride;
    uint32_t line; /* bytes of a row whose pieces are swizzled; 0: none */
    bool is_transposed, is_f16;
    uint32_t
        *marks; /* of each 16 bytes of shared memory, in place of who reads; NULL: none */
    uint32_t mark; /* what those that are read get */
} Matrices;
Matrices matrices_of(const uint32_t *words, bool is_transposed, bool is_f16);
/* Terms of one step of `count` rows or columns from `first` on: out[term * count + i]. Row i of a matrix is read by
 * readers[i * apart]. */
void matrices_read(Engine *e, Thread *readers, uint32_t apart, const Matrices *m,
                   uint32_t step, uint32_t first, uint32_t count, double *out);
/* Element i of a lane's sums: rows lane / 4 and 8 below it, two columns side by side. */
uint32_t sum_index(uint32_t lane, uint32_t i, uint32_t columns);

/* tensor_memory.c: what a whole warp does; a block begins, and has ended; all threads, or those of a warp (`first` to
 * `first` + `count` - 1), meet; a write to shared memory. */
void warp_tensor_alloc(Engine *e, Thread *warp);
void warp_tensor_free(Engine *e, Thread *warp);
void warp_tensor_load(Engine *e, Thread *warp);
void tensor_begin_block(Engine *e);
void tensor_end_block(Engine *e);
void tensor_meet(Engine *e, uint32_t first, uint32_t count);
void tensor_check_write(gxemu_block *b, uint64_t offset, uint32_t bytes, uint32_t site);

/* Everything that gxemu_access checks: written state, races, and bounds once more. */
void access_check(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                  uint32_t site, uint32_t kind);
/* Who wrote this shared memory, which access_check has seen, has fenced it for wgmma since. */
void fence_check(gxemu_block *b, uint64_t offset, uint32_t bytes, uint32_t site);

/* Forgets the copies of a thread of an earlier block; gives their memory back. */
void copies_forget(Thread *t);
void copies_deinit(Thread *t);
/* Some threads live and none can go on. */
void sync_report_deadlock(Engine *e);

#endif
