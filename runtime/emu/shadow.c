/* The cells of the race detector and the written state. See shadow.h.
 *
 * A cell is two stamps, the writer's in the low half and the readers' in the high one. A
 * stamp is (interval << STAMP_SHIFT | flags | thread); 0 means nobody. When several threads read, or
 * update atomically, the stamp names the last one and the flags tell about the others. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/emu/shadow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/emu/abi.h"

enum {
    STAMP_THREAD = (1 << 10) - 1,
    STAMP_MANY = 1 << 10,   /* other warps since the last barrier, too */
    STAMP_BLOCKS = 1 << 11, /* other blocks, too */
    STAMP_ATOMIC = 1 << 12, /* of a writer */
    STAMP_COPY = 1 << 13,   /* of a writer: an asynchronous copy under way */
    STAMP_LANES = 1 << 14,  /* other threads of the warp since its last barrier, too */
    STAMP_SHIFT = 15,
    WARP_THREADS = 32,
};
#define STAMP_LAST ((UINT32_C(1) << (32 - STAMP_SHIFT)) - 1)

static void *pages_map(uint64_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t page_count(uint64_t bytes)
{
    return (bytes + SHADOW_PAGE_BYTES - 1) >> SHADOW_PAGE_SHIFT;
}

static uint64_t cells_bytes(uint64_t bytes)
{
    return page_count(bytes) * (SHADOW_PAGE_BYTES / 4) * sizeof(RaceCell);
}

bool shadow_init(Shadow *s, uint64_t bytes, bool written, bool race)
{
    *s = (Shadow){.bytes = bytes};
    if (bytes == 0)
        return true;
    if (written && (s->written = pages_map(bytes)) == NULL)
        return false;
    if (!race)
        return true;
    s->cells = pages_map(cells_bytes(bytes));
    s->pages = pages_map(page_count(bytes) * sizeof *s->pages);
    if (s->cells == NULL || s->pages == NULL) {
        shadow_deinit(s);
        return false;
    }
    return true;
}

void shadow_deinit(Shadow *s)
{
    if (s->written != NULL)
        munmap(s->written, s->bytes);
    if (s->pages != NULL) {
        for (uint64_t i = 0; i < page_count(s->bytes); i++)
            if (s->pages[i].serial != 0 && s->pages[i].shift < 2)
                free(s->pages[i].cells);
        munmap(s->pages, page_count(s->bytes) * sizeof *s->pages);
    }
    if (s->cells != NULL)
        munmap(s->cells, cells_bytes(s->bytes));
    *s = (Shadow){0};
}

void shadow_set_written(Shadow *s, uint64_t offset, uint64_t bytes, bool written)
{
    if (s->written != NULL && bytes != 0)
        memset(s->written + offset, written ? 0xff : 0, bytes);
}

void shadow_copy(Shadow *to, uint64_t to_offset, const Shadow *from, uint64_t from_offset,
                 uint64_t bytes)
{
    if (to->written == NULL || bytes == 0)
        return;
    if (from->written == NULL)
        memset(to->written + to_offset, 0xff, bytes);
    else
        memmove(to->written + to_offset, from->written + from_offset, bytes);
}

bool shadow_is_written(const Shadow *s, uint64_t offset, uint64_t bytes,
                       uint64_t *out_first)
{
    if (s->written == NULL)
        return true;
    const uint8_t *p = s->written + offset;
    for (uint64_t i = 0; i < bytes; i++) {
        if (p[i] == 0) {
            *out_first = offset + i;
            return false;
        }
    }
    return true;
}

/* Serial numbers are unique in the process, so that cells never look like another launch's. */
static uint64_t serials_take(uint64_t count)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t last;
    pthread_mutex_lock(&lock);
    uint64_t first = last + 1;
    last += count;
    pthread_mutex_unlock(&lock);
    return first;
}

void race_begin_launch(Race *r)
{
    *r = (Race){.serial = serials_take(1),
                .released = r->released,
                .released_capacity = r->released_capacity};
}

void race_deinit(Race *r)
{
    free(r->released);
}

static uint32_t race_next(Race *r)
{
    if (r->counter == STAMP_LAST) {
        /* Numbers are used up: what happened so far in this launch is forgotten. */
        r->serial = serials_take(1);
        r->block_serial = serials_take(1);
        r->counter = 0;
        r->block_first = r->barrier = 1;
        memset(r->warps, 0, sizeof r->warps);
        memset(r->fences, 0, sizeof r->fences);
        r->released_count = r->device_fence = 0;
    }
    return ++r->counter;
}

void race_begin_block(Race *r)
{
    r->block_serial = serials_take(1);
    r->block_first = r->barrier = race_next(r);
    r->device_fence = 0;
}

void race_barrier(Race *r)
{
    r->barrier = race_next(r);
}

void race_warp_barrier(Race *r, uint32_t warp)
{
    r->warps[warp] = race_next(r);
}

/* The interval in which a thread is. */
static uint32_t race_interval(const Race *r, uint32_t thread)
{
    uint32_t of_warp = r->warps[thread / WARP_THREADS];
    return of_warp > r->barrier ? of_warp : r->barrier;
}

void race_fence(Race *r, uint32_t thread)
{
    r->fences[thread] = race_interval(r, thread);
}

/* What it wrote in this interval before the fence counts as not fenced, too: kernels fence before barriers. */
void race_shared_written(Race *r, uint32_t thread)
{
    uint32_t now = race_interval(r, thread);
    if (r->fences[thread] == now)
        r->fences[thread] = now - 1;
}

/* The block's entry is the last one: a later fence of its releases more. */
bool race_device_fence(Race *r, uint32_t thread)
{
    uint32_t *last =
        r->released_count != 0 ? &r->released[2 * r->released_count - 2] : NULL;
    bool is_own = last != NULL && last[0] == r->block_first;
    r->device_thread = thread;
    r->device_fence = race_interval(r, thread);
    r->acquired = r->released_count - is_own;
    if (r->barrier == r->block_first)
        return true;
    if (is_own) {
        last[1] = r->barrier;
        return true;
    }
    if (r->released_count == r->released_capacity) {
        uint32_t capacity = r->released_capacity == 0 ? 64 : 2 * r->released_capacity;
        uint32_t *more = realloc(r->released, 2 * sizeof *more * capacity);
        if (more == NULL)
            return false;
        r->released = more;
        r->released_capacity = capacity;
    }
    last = &r->released[2 * r->released_count++];
    last[0] = r->block_first;
    last[1] = r->barrier;
    return true;
}

/* Another block released what it did in this interval, and the thread knows. */
static bool is_acquired(const Race *r, uint32_t interval, uint32_t thread)
{
    if (r->device_fence == 0 ||
        (thread != r->device_thread && r->barrier <= r->device_fence))
        return false;
    uint32_t low = 0, high = r->acquired;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->released[2 * middle + 1] <= interval)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->acquired && r->released[2 * low] <= interval;
}

/* Was the stamp left before the last barrier of the thread's warp, by that warp? */
static bool stamp_before_warp(const Race *r, uint32_t stamp, uint32_t thread)
{
    return (stamp & STAMP_THREAD) / WARP_THREADS == thread / WARP_THREADS &&
           stamp >> STAMP_SHIFT < r->warps[thread / WARP_THREADS];
}

/* Is an access that left this stamp unordered with one that `thread` makes now? */
static bool stamp_conflicts(const Race *r, uint32_t stamp, uint32_t thread)
{
    uint32_t interval = stamp >> STAMP_SHIFT;
    uint32_t other = stamp & STAMP_THREAD;
    if ((stamp & (STAMP_BLOCKS | STAMP_COPY)) != 0)
        return true;
    if (interval < r->block_first)
        return !is_acquired(r, interval, thread);
    if (interval < r->barrier)
        return false;
    if ((stamp & STAMP_MANY) != 0)
        return true;
    if (stamp_before_warp(r, stamp, thread))
        return false;
    return other != thread || (stamp & STAMP_LANES) != 0;
}

/* The stamp after `thread`, which has the stamp `own`, joined those that `stamp` tells of. */
static uint32_t stamp_join(const Race *r, uint32_t stamp, uint32_t own, uint32_t thread)
{
    if (stamp == 0)
        return own;
    uint32_t interval = stamp >> STAMP_SHIFT;
    uint32_t other = stamp & STAMP_THREAD;
    if (interval < r->block_first)
        return own | STAMP_BLOCKS;
    uint32_t flags = stamp & STAMP_BLOCKS;
    if (interval < r->barrier)
        return own | flags;
    flags |= stamp & STAMP_MANY;
    if (other / WARP_THREADS != thread / WARP_THREADS)
        return own | flags | STAMP_MANY;
    if (stamp_before_warp(r, stamp, thread))
        return own | flags;
    if (other != thread)
        flags |= STAMP_LANES;
    return own | flags | (stamp & STAMP_LANES);
}

/* Makes the cells of a page cover 1 << shift bytes each, keeping what they say. */
static bool page_refine(ShadowPage *page, uint32_t shift)
{
    uint32_t count = SHADOW_PAGE_BYTES >> shift;
    RaceCell *cells = malloc(count * sizeof *cells);
    if (cells == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        cells[i] = page->cells[i >> (page->shift - shift)];
    if (page->shift < 2)
        free(page->cells);
    page->cells = cells;
    page->shift = shift;
    return true;
}

static void page_renew(Shadow *s, uint64_t index, uint64_t serial)
{
    ShadowPage *page = &s->pages[index];
    if (page->serial == 0) {
        page->cells = s->cells + index * (SHADOW_PAGE_BYTES / 4);
        page->shift = 2;
    }
    memset(page->cells, 0,
           ((size_t)SHADOW_PAGE_BYTES >> page->shift) * sizeof *page->cells);
    page->serial = serial;
}

static inline RaceKind cell_read(RaceCell *cell, const Race *r, uint32_t own,
                                 uint32_t thread, uint16_t site)
{
    uint32_t writer = (uint32_t)cell->stamps, reader = (uint32_t)(cell->stamps >> 32);
    if (writer != 0 && writer != own && stamp_conflicts(r, writer, thread))
        return RACE_WITH_WRITE;
    if (reader != own)
        cell->stamps = (uint64_t)stamp_join(r, reader, own, thread) << 32 | writer;
    cell->reader_site = site;
    return RACE_NONE;
}

/* Not noted. */
static inline RaceKind cell_look(RaceCell *cell, const Race *r, uint32_t own,
                                 uint32_t thread)
{
    uint32_t writer = (uint32_t)cell->stamps;
    return writer != 0 && writer != own && stamp_conflicts(r, writer, thread)
               ? RACE_WITH_WRITE
               : RACE_NONE;
}

static inline RaceKind cell_write(RaceCell *cell, const Race *r, uint32_t own,
                                  uint32_t thread, uint16_t site)
{
    uint32_t writer = (uint32_t)cell->stamps, reader = (uint32_t)(cell->stamps >> 32);
    if (writer != 0 && writer != own && stamp_conflicts(r, writer, thread))
        return RACE_WITH_WRITE;
    if (reader != 0 && reader != own && stamp_conflicts(r, reader, thread))
        return RACE_WITH_READ;
    cell->stamps = own;
    cell->writer_site = site;
    return RACE_NONE;
}

/* The copy is issued: it writes, and goes on. */
static inline RaceKind cell_copy(RaceCell *cell, const Race *r, uint32_t own,
                                 uint32_t thread, uint16_t site)
{
    RaceKind found = cell_write(cell, r, own, thread, site);
    if (found == RACE_NONE)
        cell->stamps = own | STAMP_COPY;
    return found;
}

/* The copy is done: its thread wrote, now. */
static inline RaceKind cell_copied(RaceCell *cell, const Race *r, uint32_t own,
                                   uint32_t thread, uint16_t site)
{
    (void)r;
    (void)thread;
    cell->stamps = own;
    cell->writer_site = site;
    return RACE_NONE;
}

static inline RaceKind cell_update(RaceCell *cell, const Race *r, uint32_t own,
                                   uint32_t thread, uint16_t site)
{
    uint32_t writer = (uint32_t)cell->stamps, reader = (uint32_t)(cell->stamps >> 32);
    if (writer != 0 && (writer & STAMP_ATOMIC) == 0 && stamp_conflicts(r, writer, thread))
        return RACE_WITH_WRITE;
    if (reader != 0 && reader != own && stamp_conflicts(r, reader, thread))
        return RACE_WITH_READ;
    uint32_t join =
        (writer & STAMP_ATOMIC) != 0 ? stamp_join(r, writer, own, thread) : own;
    cell->stamps = (cell->stamps >> 32) << 32 | join | STAMP_ATOMIC;
    cell->writer_site = site;
    return RACE_NONE;
}

static RaceKind race_found(RaceKind kind, const RaceCell *cell, const Race *r,
                           uint64_t offset, RaceConflict *out)
{
    bool wrote = kind != RACE_WITH_READ;
    uint32_t stamp = (uint32_t)(wrote ? cell->stamps : cell->stamps >> 32);
    *out = (RaceConflict){
        .kind = kind,
        .thread = stamp & STAMP_THREAD,
        .site = wrote ? cell->writer_site : cell->reader_site,
        .same_block =
            (stamp & STAMP_BLOCKS) == 0 && stamp >> STAMP_SHIFT >= r->block_first,
        .is_copy = (stamp & STAMP_COPY) != 0,
        .offset = offset,
    };
    return kind;
}

RaceKind race_access(Shadow *s, const Race *r, uint64_t serial, uint32_t thread,
                     uint64_t offset, uint32_t bytes, uint32_t site, uint32_t kind,
                     RaceConflict *out)
{
    uint32_t own = race_interval(r, thread) << STAMP_SHIFT | thread;
    uint16_t at = site < RACE_NO_SITE ? (uint16_t)site : RACE_NO_SITE;
    uint64_t end = offset + bytes;
    while (offset < end) {
        uint64_t index = offset >> SHADOW_PAGE_SHIFT;
        ShadowPage *page = &s->pages[index];
        if (page->serial != serial)
            page_renew(s, index, serial);
        uint64_t base = index << SHADOW_PAGE_SHIFT;
        uint64_t stop = base + SHADOW_PAGE_BYTES < end ? base + SHADOW_PAGE_BYTES : end;
        uint32_t low = (uint32_t)(offset | stop);
        if ((low & ((1U << page->shift) - 1)) != 0 &&
            !page_refine(page, (low & 1) != 0 ? 0 : 1)) {
            *out = (RaceConflict){.kind = RACE_NO_MEMORY, .offset = offset};
            return RACE_NO_MEMORY;
        }
        uint32_t shift = page->shift;
        RaceCell *cell = page->cells + ((offset - base) >> shift);
        RaceCell *last = page->cells + ((stop - 1 - base) >> shift);
        RaceKind found = RACE_NONE;
        switch (kind) {
        case GXEMU_READ:
            while (cell <= last &&
                   (found = cell_read(cell, r, own, thread, at)) == RACE_NONE)
                cell++;
            break;
        case RACE_LOOK:
            while (cell <= last && (found = cell_look(cell, r, own, thread)) == RACE_NONE)
                cell++;
            break;
        case GXEMU_WRITE:
            while (cell <= last &&
                   (found = cell_write(cell, r, own, thread, at)) == RACE_NONE)
                cell++;
            break;
        case RACE_COPY:
            while (cell <= last &&
                   (found = cell_copy(cell, r, own, thread, at)) == RACE_NONE)
                cell++;
            break;
        case RACE_COPIED:
            while (cell <= last &&
                   (found = cell_copied(cell, r, own, thread, at)) == RACE_NONE)
                cell++;
            break;
        default:
            while (cell <= last &&
                   (found = cell_update(cell, r, own, thread, at)) == RACE_NONE)
                cell++;
        }
        if (found != RACE_NONE) {
            uint64_t cell_offset = base + ((uint64_t)(cell - page->cells) << shift);
            return race_found(found, cell, r, cell_offset, out);
        }
        offset = stop;
    }
    return RACE_NONE;
}

RaceKind race_fenced(const Shadow *s, const Race *r, uint64_t offset, uint32_t bytes,
                     RaceConflict *out)
{
    for (uint64_t end = offset + bytes; offset < end;) {
        const ShadowPage *page = &s->pages[offset >> SHADOW_PAGE_SHIFT];
        uint64_t base = offset >> SHADOW_PAGE_SHIFT << SHADOW_PAGE_SHIFT;
        const RaceCell *cell = &page->cells[(offset - base) >> page->shift];
        uint32_t writer = (uint32_t)cell->stamps, interval = writer >> STAMP_SHIFT;
        if (interval >= r->block_first && r->fences[writer & STAMP_THREAD] < interval)
            return race_found(RACE_NOT_FENCED, cell, r, offset, out);
        offset += UINT64_C(1) << page->shift;
    }
    return RACE_NONE;
}
