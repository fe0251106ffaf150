/* The memory of the emulated devices: pieces of host memory with a device, bounds and a
 * shadow. Fresh and freed memory is filled with 0xff bytes (a NaN in every float format).
 * Freed pieces stay known, and unmapped late, so that stale pointers are recognised. */
#ifndef GXC_RUNTIME_EMU_ALLOCATION_H
#define GXC_RUNTIME_EMU_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/emu/finding.h"
#include "runtime/emu/shadow.h"

enum { ALLOCATION_HOST = -1 }; /* as device: pinned memory of the host */

typedef struct Allocation {
    uint64_t base;
    uint64_t bytes;
    uint64_t mapped; /* bytes of the mapping; 0: given back */
    uint64_t number; /* counts allocations of the process, for messages */
    int device;
    bool is_live;
    Shadow shadow;
    struct Allocation *younger; /* next in the quarantine */
} Allocation;

/* NULL: no memory. */
Allocation *allocation_create(int device, uint64_t bytes, bool written, bool race);
/* False, with a finding: not the base of a live allocation of this device. */
bool allocation_free(uint64_t base, int device, Finding *out);
/* The live allocation that holds the range, or NULL with a finding that begins with `what`. */
Allocation *allocation_find(uint64_t address, uint64_t bytes, const char *what,
                            Finding *out);
/* False, with a finding: a byte of the range, which lies in the allocation, was never written. */
bool allocation_is_written(const Allocation *a, uint64_t address, uint64_t bytes,
                           const char *what, Finding *out);
/* False, with a finding: the address is no multiple of `alignment`. */
bool allocation_is_aligned(uint64_t address, uint32_t alignment, const char *what,
                           Finding *out);
/* The live allocation that holds the address, or NULL. */
Allocation *allocation_at(uint64_t address);
uint64_t allocation_used(int device); /* bytes of live allocations */
void allocation_free_all(int device);

#endif
