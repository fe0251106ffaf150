/* Streams: queues of operations that take place in order, and events that order queues. */
#ifndef GXC_RUNTIME_EMU_QUEUE_H
#define GXC_RUNTIME_EMU_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/emu/capture.h"
#include "runtime/emu/context.h"

typedef struct Operation Operation;

typedef enum { OPERATION_WORK, OPERATION_RECORD, OPERATION_WAIT } OperationKind;

/* First member of every operation. */
struct Operation {
    Operation *next;
    OperationKind kind;
    /* WORK: false means that something was found. Called without locks. */
    bool (*run)(Operation *op,
                Finding *out);      /* a captured one runs any number of times */
    void (*destroy)(Operation *op); /* frees op itself, too; NULL: free() */
    /* Of what graphs hold, NULL: nothing to do. bind finds the memory at its addresses, which may
     * be another allocation by now; again makes the same operation with other parameters. */
    bool (*bind)(Operation *op, Finding *out);
    CUresult (*again)(const Operation *op, const CUgraphNodeParams *p, Operation **out);
    bool may_block;  /* waits for other streams: gets a thread of its own */
    CUevent event;   /* RECORD, WAIT */
    uint64_t record; /* RECORD, WAIT: number of the event's recording */
    /* WAIT: where that recording stands; the event may be recorded again, behind the wait. */
    CUstream recorded_in;
    uint64_t recorded_at;
    uint64_t sequence; /* in its context */
};

/* Takes the operation over. stream NULL: the legacy default stream. */
CUresult queue_submit(CUcontext context, CUstream stream, Operation *op);
/* Waits until everything submitted so far is done; returns the context's state. */
CUresult queue_synchronize(CUcontext context, CUstream stream);
CUresult queue_synchronize_all(CUcontext context);
/* Frees an operation that was not submitted, or is done. */
void operation_destroy(Operation *op);
/* Whether a stream is captured; NULL: no stream of the context, or the default one. Under
 * emu_lock, as the next. */
Captured *queue_captured(CUcontext context, CUstream stream);
/* No stream adds to this graph any more. */
void queue_end_capture(CUcontext context, CUgraph graph);
/* Ends all streams of a context. */
void queue_destroy_all(CUcontext context);

#endif
