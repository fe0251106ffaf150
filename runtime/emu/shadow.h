/* What is known about the bytes of one piece of memory beside their values.
 *
 * Written state: one byte per byte, 0xff once something was written (GXEMU_SHADOW).
 * Race state: one cell per 4 bytes (per 2 or 1 where a kernel makes smaller
 * accesses): who wrote last and who has read since (GXEMU_RACE). It is valid for one launch
 * (for shared memory: one block); a page of another serial number is cleared when touched.
 *
 * Order. Every barrier interval of every block of a launch has a number; they only grow. Two
 * accesses of one block are ordered if they are one thread's, or if a barrier of the block lies
 * between them, or if they are one warp's and a barrier of the warp does. What a block does before a barrier and a device
 * fence behind it, by any thread, is ordered with what a later block does behind a device fence of its own: by the
 * same thread, or behind a barrier. (That an atomic told it so is not looked at.) Other accesses of two blocks are
 * never ordered. What an asynchronous copy writes is not
 * ordered with anything between its issue and its end, not even with its own thread. What wgmma reads must also stand
 * before a proxy fence of the thread that wrote it (PTX ISA, "Async Proxy"). */
#ifndef GXC_RUNTIME_EMU_SHADOW_H
#define GXC_RUNTIME_EMU_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHADOW_PAGE_SHIFT = 10,
    SHADOW_PAGE_BYTES = 1 << SHADOW_PAGE_SHIFT,
    RACE_WARPS = 32,
    RACE_THREADS = 1024,
    /* kinds of accesses beside those of abi.h: an asynchronous copy that goes on until it is done */
    RACE_COPY = 8,
    RACE_COPIED = 9,
    RACE_LOOK = 10, /* a read whose end nobody sees by a barrier: see tensor_memory.c */
    RACE_NO_SITE = UINT16_MAX,
};

/* Who touched a few bytes: see shadow.c. */
typedef struct RaceCell {
    uint64_t stamps;
    uint16_t writer_site,
        reader_site; /* of the last one: RACE_NO_SITE if the number is larger */
} RaceCell;

typedef struct ShadowPage {
    RaceCell *cells;
    uint64_t serial;
    uint32_t shift; /* a cell covers 1 << shift bytes: 2, 1 or 0 */
} ShadowPage;

typedef struct Shadow {
    uint64_t bytes;
    uint8_t *written;  /* NULL: not tracked */
    ShadowPage *pages; /* NULL: not tracked */
    RaceCell *cells;   /* those of pages with shift 2 */
} Shadow;

/* Modes: what to track. False: no memory. */
bool shadow_init(Shadow *s, uint64_t bytes, bool written, bool race);
void shadow_deinit(Shadow *s);

void shadow_set_written(Shadow *s, uint64_t offset, uint64_t bytes, bool written);
/* Copies the written state; a side that does not track counts as written. */
void shadow_copy(Shadow *to, uint64_t to_offset, const Shadow *from, uint64_t from_offset,
                 uint64_t bytes);
/* True if all bytes were written. Otherwise *out_first is the first one that was not. */
bool shadow_is_written(const Shadow *s, uint64_t offset, uint64_t bytes,
                       uint64_t *out_first);

/* The intervals of the block that runs. */
typedef struct Race {
    uint64_t serial;            /* of the launch, for global memory */
    uint64_t block_serial;      /* of the block, for shared memory */
    uint32_t counter;           /* the last number given out in this launch */
    uint32_t block_first;       /* first interval of this block */
    uint32_t barrier;           /* first interval after its last barrier */
    uint32_t warps[RACE_WARPS]; /* after the last barrier of the warp, if that is later */
    /* up to here (this one, too) the thread's writes to shared memory stand before its last proxy fence */
    uint32_t fences[RACE_THREADS];
    /* Of the block's last device fence: its thread and interval (0: it had none yet), and how many entries of the
     * list stood there before. */
    uint32_t device_thread, device_fence, acquired;
    uint32_t *released; /* pairs of intervals, ascending: first and one behind the last */
    uint32_t released_count, released_capacity; /* pairs */
} Race;

/* Zero at first. */
void race_begin_launch(Race *r);
void race_deinit(Race *r);
void race_begin_block(Race *r);
void race_barrier(Race *r);
void race_warp_barrier(Race *r, uint32_t warp);
/* The thread's proxy fence; the thread writes to shared memory. */
void race_fence(Race *r, uint32_t thread);
void race_shared_written(Race *r, uint32_t thread);
/* The thread's device fence. False: no memory. */
bool race_device_fence(Race *r, uint32_t thread);

typedef enum {
    RACE_NONE,
    RACE_WITH_WRITE,
    RACE_WITH_READ,
    RACE_NOT_FENCED,
    RACE_NO_MEMORY, /* for finer cells */
} RaceKind;

typedef struct RaceConflict {
    RaceKind kind;
    uint32_t thread; /* the other one, linear in its block */
    uint32_t site;   /* of the other access, or RACE_NO_SITE */
    bool same_block;
    bool is_copy;    /* an asynchronous copy of that thread, not waited for */
    uint64_t offset; /* first byte of the cell in conflict */
} RaceConflict;

/* Checks and notes an access of `thread` (linear in its block). kind: GXEMU_READ, … `site`:
 * its number in the kernel. The range must lie in the shadow. `serial` is one of the two of `r`. */
RaceKind race_access(Shadow *s, const Race *r, uint64_t serial, uint32_t thread,
                     uint64_t offset, uint32_t bytes, uint32_t site, uint32_t kind,
                     RaceConflict *out);
/* The same for wgmma's reads of shared memory, which race_access has seen: RACE_NOT_FENCED, or nothing. */
RaceKind race_fenced(const Shadow *s, const Race *r, uint64_t offset, uint32_t bytes,
                     RaceConflict *out);

#endif
