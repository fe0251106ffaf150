/* What every GPU allows a launch, by the CUDA programming guide: the plan's reader refuses more, and
 * so does the emulator. */
#ifndef GXC_RUNTIME_PLAN_LAUNCH_LIMITS_H
#define GXC_RUNTIME_PLAN_LAUNCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LAUNCH_MAX_THREADS = 1024,       /* of a block */
    LAUNCH_MAX_CLUSTER = 16,         /* blocks, where the kernel asks for more than 8 */
    LAUNCH_PORTABLE_CLUSTER = 8,     /* that need not be asked for */
    LAUNCH_MAX_SHARED = 227 * 1024,  /* bytes of a block, opted in, of the largest GPUs */
    LAUNCH_STATIC_SHARED = 48 * 1024 /* without opting in */
};

static inline bool launch_sizes_fit(const uint32_t grid[3], const uint32_t block[3])
{
    static const uint32_t grid_most[3] = {INT32_MAX, 65535, 65535};
    static const uint32_t block_most[3] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || grid[i] > grid_most[i] || block[i] == 0 ||
            block[i] > block_most[i]) {
            return false;
        }
        threads *= block[i];
    }
    return threads <= LAUNCH_MAX_THREADS;
}

#endif
