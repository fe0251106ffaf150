/* How much the emulator does before it gives up (GXEMU_STEPS): operations of streams, nodes and trips of graphs,
 * threads of kernels and elements of what cuBLASLt, cuDNN and cuSOLVER compute. Counted for the process, before each
 * of them, so a loop without an end has one, and a grid that is too large is not begun. What a thread does by itself,
 * or an element takes, is not counted. */
#ifndef GXC_RUNTIME_EMU_STEPS_H
#define GXC_RUNTIME_EMU_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/emu/finding.h"

/* False, with a finding: `count` more are more than are allowed. */
bool steps_take(uint64_t count, const char *what, Finding *out);
/* So many were, by this process. */
uint64_t steps_taken(void);
/* The threads of a grid. */
bool steps_take_threads(const uint32_t grid[3], const uint32_t block[3], const char *what,
                        Finding *out);

#endif
