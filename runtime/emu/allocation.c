/* A sorted table of all pieces, live and freed. See allocation.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "runtime/emu/allocation.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { QUARANTINE_BYTES = 64 << 20, QUARANTINE_PIECES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Allocation **table; /* sorted by base */
static size_t count, capacity;
static Allocation *oldest, *youngest; /* the quarantine */
static uint64_t quarantine_bytes, quarantine_pieces, last_number;

/* The number of pieces whose base is at most `address`. */
static size_t table_above(uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Allocation *table_find(uint64_t address)
{
    size_t i = table_above(address);
    if (i == 0 || address - table[i - 1]->base >= table[i - 1]->bytes)
        return NULL;
    return table[i - 1];
}

static void table_remove(size_t i)
{
    free(table[i]);
    memmove(table + i, table + i + 1, (count - i - 1) * sizeof(Allocation *));
    count--;
}

/* Forgets unmapped pieces whose addresses a new mapping has now. */
static void table_forget(uint64_t base, uint64_t mapped)
{
    size_t i = table_above(base);
    if (i > 0 && table[i - 1]->mapped == 0 &&
        base - table[i - 1]->base < table[i - 1]->bytes)
        table_remove(--i);
    while (i < count && table[i]->base < base + mapped)
        table_remove(i);
}

static bool table_insert(Allocation *a)
{
    if (count == capacity) {
        size_t grown = capacity == 0 ? 64 : capacity * 2;
        Allocation **bigger = realloc(table, grown * sizeof(Allocation *));
        if (bigger == NULL)
            return false;
        table = bigger;
        capacity = grown;
    }
    table_forget(a->base, a->mapped);
    size_t i = table_above(a->base);
    memmove(table + i + 1, table + i, (count - i) * sizeof(Allocation *));
    table[i] = a;
    count++;
    return true;
}

static unsigned char *memory_of(const Allocation *a)
{
    return (unsigned char *)(uintptr_t)a->base;
}

static void allocation_unmap(Allocation *a)
{
    munmap(memory_of(a), a->mapped);
    a->mapped = 0;
}

Allocation *allocation_create(int device, uint64_t bytes, bool written, bool race)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return NULL;
    Allocation *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->bytes = bytes;
    a->mapped = (bytes + 4095) / 4096 * 4096;
    a->device = device;
    a->is_live = true;
    void *memory =
        mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        free(a);
        return NULL;
    }
    a->base = (uintptr_t)memory;
    memset(memory, 0xff, a->mapped);
    bool done = shadow_init(&a->shadow, bytes, written, race);
    pthread_mutex_lock(&lock);
    a->number = ++last_number;
    done = done && table_insert(a);
    pthread_mutex_unlock(&lock);
    if (!done) {
        shadow_deinit(&a->shadow);
        allocation_unmap(a);
        free(a);
        return NULL;
    }
    return a;
}

static void quarantine_enter(Allocation *a)
{
    a->is_live = false;
    shadow_deinit(&a->shadow);
    memset(memory_of(a), 0xff, a->mapped < QUARANTINE_BYTES ? a->mapped : 0);
    if (youngest != NULL)
        youngest->younger = a;
    else
        oldest = a;
    youngest = a;
    quarantine_bytes += a->mapped;
    quarantine_pieces++;
    while (oldest != NULL && (quarantine_bytes > QUARANTINE_BYTES ||
                              quarantine_pieces > QUARANTINE_PIECES)) {
        Allocation *leaving = oldest;
        oldest = leaving->younger;
        if (oldest == NULL)
            youngest = NULL;
        quarantine_bytes -= leaving->mapped;
        quarantine_pieces--;
        allocation_unmap(leaving);
    }
}

bool allocation_free(uint64_t base, int device, Finding *out)
{
    pthread_mutex_lock(&lock);
    Allocation *a = table_find(base);
    bool done = false;
    if (a == NULL || a->base != base || a->device != device)
        finding_set(out, FINDING_INVALID,
                    "0x%" PRIx64 " is freed, but it is not the start of an allocation",
                    base);
    else if (!a->is_live)
        finding_set(out, FINDING_INVALID,
                    "0x%" PRIx64 " is freed twice (allocation %" PRIu64 " of %" PRIu64
                    " bytes)",
                    base, a->number, a->bytes);
    else
        done = true;
    if (done)
        quarantine_enter(a);
    pthread_mutex_unlock(&lock);
    return done;
}

Allocation *allocation_find(uint64_t address, uint64_t bytes, const char *what,
                            Finding *out)
{
    pthread_mutex_lock(&lock);
    Allocation *a = table_find(address);
    Allocation *found = NULL;
    if (a == NULL)
        finding_set(out, FINDING_ADDRESS,
                    "%s: 0x%" PRIx64 " is not the memory of any device", what, address);
    else if (!a->is_live)
        finding_set(out, FINDING_ADDRESS,
                    "%s: 0x%" PRIx64 " lies at byte %" PRIu64 " of allocation %" PRIu64
                    " of %" PRIu64 " bytes, which was freed",
                    what, address, address - a->base, a->number, a->bytes);
    else if (bytes > a->bytes - (address - a->base))
        finding_set(out, FINDING_ADDRESS,
                    "%s: %" PRIu64 " bytes at 0x%" PRIx64 ", byte %" PRIu64
                    " of allocation %" PRIu64 ", which has %" PRIu64 " bytes",
                    what, bytes, address, address - a->base, a->number, a->bytes);
    else
        found = a;
    pthread_mutex_unlock(&lock);
    return found;
}

bool allocation_is_aligned(uint64_t address, uint32_t alignment, const char *what,
                           Finding *out)
{
    if (address % alignment == 0)
        return true;
    finding_set(out, FINDING_ADDRESS,
                "misaligned: %s: address 0x%" PRIx64 " is no multiple of %" PRIu32
                " bytes",
                what, address, alignment);
    return false;
}

bool allocation_is_written(const Allocation *a, uint64_t address, uint64_t bytes,
                           const char *what, Finding *out)
{
    uint64_t first, offset = address - a->base;
    if (shadow_is_written(&a->shadow, offset, bytes, &first))
        return true;
    finding_set(out, FINDING_UNINITIALISED,
                "uninitialised: %s: byte %" PRIu64 " (address 0x%" PRIx64
                ") was never written",
                what, first - offset, a->base + first);
    return false;
}

Allocation *allocation_at(uint64_t address)
{
    pthread_mutex_lock(&lock);
    Allocation *a = table_find(address);
    pthread_mutex_unlock(&lock);
    return a != NULL && a->is_live ? a : NULL;
}

uint64_t allocation_used(int device)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (table[i]->is_live && table[i]->device == device)
            bytes += table[i]->bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void allocation_free_all(int device)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (table[i]->is_live && table[i]->device == device)
            quarantine_enter(table[i]);
    pthread_mutex_unlock(&lock);
}
