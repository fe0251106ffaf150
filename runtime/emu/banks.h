/* Conflicts of banks, counted (GXEMU_BANKS). Shared memory has 32 banks of 4 bytes; an access of a warp is
 * served in phases of 128 bytes - 32 lanes of up to 4 bytes, 16 of 8, 8 of 16 - and a phase takes as many turns as
 * there are different words in its busiest bank. What is more than one turn is a conflict. */
#ifndef GXC_RUNTIME_EMU_BANKS_H
#define GXC_RUNTIME_EMU_BANKS_H

#include <stdatomic.h>

#include "runtime/emu/engine_parts.h"

/* Of one launch and access site; blocks on several threads add to them. */
struct BankCount {
    atomic_uint_least64_t phases, conflicts;
};

/* An access of a thread to shared memory. Lanes run one after the other, so what they do together is put
 * together later: by the access's number in the kernel, and how often the lane has been there. */
void banks_note(Engine *e, Thread *t, uint32_t site, uint64_t offset, uint32_t bytes);
/* All lanes of the warp have come to one access: what they noted is counted. */
void banks_meet(Engine *e, uint32_t warp);
/* Counts one phase of an access: `lanes` offsets. */
void banks_count(Engine *e, uint32_t site, const uint64_t *offsets, uint32_t lanes,
                 uint32_t bytes);
void banks_deinit(Engine *e);

#endif
