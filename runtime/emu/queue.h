/* Streams: queues of operations that take place in order, and events that order queues. */
#ifndef GXC_RUNTIME_EMU_QUEUE_H
#define GXC_RUNTIME_EMU_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/emu/context.h"

typedef struct Operation Operation;

typedef enum { OPERATION_WORK, OPERATION_RECORD, OPERATION_WAIT } OperationKind;

/* First member of every operation. */
struct Operation {
    Operation *next;
    OperationKind kind;
    /* WORK: false means that something was found. Called without locks. */
    bool (*run)(Operation *op, Finding *out);
    void (*destroy)(Operation *op); /* frees op itself, too; NULL: free() */
    bool may_block;    /* waits for other streams: gets a thread of its own */
    CUevent event;     /* RECORD, WAIT */
    uint64_t record;   /* RECORD, WAIT: number of the event's recording */
    uint64_t sequence; /* in its context */
};

/* Takes the operation over. stream NULL: the legacy default stream. */
CUresult queue_submit(CUcontext context, CUstream stream, Operation *op);
/* Waits until everything submitted so far is done; returns the context's state. */
CUresult queue_synchronize(CUcontext context, CUstream stream);
CUresult queue_synchronize_all(CUcontext context);
/* Ends all streams of a context. */
void queue_destroy_all(CUcontext context);

#endif
