/* See steps.h. */
#include "runtime/emu/steps.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "runtime/emu/config.h"
#include "runtime/plan/read.h"

static atomic_uint_least64_t taken;

bool steps_take(uint64_t count, const char *what, Finding *out)
{
    uint64_t most = emu_config()->steps;
    if (most == 0)
        return true;
    uint64_t before = atomic_fetch_add(&taken, count < most ? count : most);
    if (before <= most && count <= most - before)
        return true;
    finding_set(out, FINDING_LIMIT,
                "%s: it would be more than the %" PRIu64
                " threads and operations that the emulator may run; GXEMU_STEPS=N or "
                "gxrun's --max-steps=N allows more",
                what, most);
    return false;
}

uint64_t steps_taken(void)
{
    return taken;
}

bool steps_take_threads(const uint32_t grid[3], const uint32_t block[3], const char *what,
                        Finding *out)
{
    uint64_t count = 1;
    for (int i = 0; i < 3; i++)
        count = plan_multiply(count, plan_multiply(grid[i], block[i]));
    return steps_take(count, what, out);
}
