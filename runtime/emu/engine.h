/* Runs a launch of an emulated kernel: block by block, each GPU thread a fibre as soon as one
 * has to wait, a plain loop over the threads as long as none does. Large launches spread
 * their blocks over the machine's cores. Within a block the order is a function of the launch
 * alone, and of several blocks with a finding the first one is reported. */
#ifndef GXC_RUNTIME_EMU_ENGINE_H
#define GXC_RUNTIME_EMU_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/emu/abi.h"
#include "runtime/emu/finding.h"
#include "runtime/emu/shadow.h"

enum { ENGINE_MOST_THREADS = 1024, ENGINE_MOST_SHARED = 256 * 1024 };

typedef struct BankCount BankCount;

/* One parameter of a launch. Immediates have shadow NULL. */
typedef struct EngineArgument {
    Shadow *shadow;  /* of the allocation, NULL: not tracked */
    uint64_t offset; /* of the argument in its allocation */
    bool is_read_only;
} EngineArgument;

typedef struct EngineLaunch {
    gxemu_kernel entry;
    const char *name;
    uint32_t parameters;
    const uint64_t *args;    /* one 8-byte slot for each parameter */
    const uint64_t *extents; /* bytes behind each pointer, 0 for immediates */
    const EngineArgument *arguments;
    const char *const *sites; /* HLO instruction of each access site; may be NULL */
    uint32_t site_count;
    uint32_t grid[3];
    uint32_t block[3];
    uint64_t shared_bytes; /* static and dynamic */
    bool check_written;    /* report bytes that nobody wrote */
    bool check_races;
    bool copies_early; /* asynchronous copies are made when they are issued */
    BankCount *banks;  /* [site_count + 1]: counts (banks.h); NULL: not wanted */
} EngineLaunch;

/* False: *out says what was found; the launch ended there. */
bool engine_run(const EngineLaunch *launch, Finding *out);

#endif
