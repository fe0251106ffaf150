/* Captures: what is submitted to a stream becomes nodes of a graph (graph.h) instead of running.
 * An event that such a stream records takes other streams into the capture. */
#ifndef GXC_RUNTIME_EMU_CAPTURE_H
#define GXC_RUNTIME_EMU_CAPTURE_H

#include <stddef.h>

#include "runtime/emu/context.h"

struct Operation;

/* Of a stream: what the next node follows. Of an event: what its recording stands for. */
typedef struct Captured {
    CUgraph graph; /* NULL: not in a capture */
    CUgraphNode *last;
    size_t count;
} Captured;

/* All under emu_lock. A new node after c's last ones; takes the operation over. */
CUresult captured_add(Captured *c, struct Operation *op);
/* What follows in `stream` follows the event, too. */
CUresult captured_join(Captured *stream, const Captured *event);
CUresult captured_copy(Captured *to, const Captured *from);
void captured_clear(Captured *c);

#endif
