/* What capture.c and condition.c share: a plan of one device while it becomes a graph. */
#ifndef GXC_RUNTIME_RUN_CAPTURE_H
#define GXC_RUNTIME_RUN_CAPTURE_H

#include "runtime/run/session.h"

/* The body of a conditional node while it is recorded: all streams of the plan are one. */
typedef struct CapturedBody {
    CUstream stream;
    CUstream *outer; /* by plan stream: what they are outside */
    CUgraphConditionalHandle handle;
} CapturedBody;

struct Capture {
    bool is_refused;   /* the driver could not make it */
    bool is_stale;     /* buffers have moved since it was made or changed */
    CUstream stream;   /* captured for the plan's stream 0 */
    CUstream side;     /* for calls of libraries, whose nodes nobody knows */
    CUstream *streams; /* by plan stream: the execution's own */
    CUgraph graph;
    CUgraphExec exec; /* NULL: not made yet */
    CUgraphNode
        *nodes; /* of commands that work, in the order of the walk; NULL: nothing to do */
    size_t node_count, node_capacity;
    size_t next;       /* node of an update */
    CUdeviceptr *base; /* by allocation: what the nodes' addresses were computed from */
    CapturedBody bodies[PLAN_MAX_DEPTH];
    size_t depth;
    CUgraphConditionalHandle *handles; /* of the branches that are open */
    size_t handle_count, handle_capacity;
    CUmodule module; /* of the kernel that sets conditions; NULL on the emulator */
    CUfunction setter;
};

/* The graph that a stream is captured into and the nodes that its next one follows. */
typedef struct CaptureEnd {
    CUgraph graph;
    const CUgraphNode *nodes; /* until the stream's next operation */
    size_t count;
} CaptureEnd;
CUresult capture_end_of(const Device *d, CUstream stream, CaptureEnd *out);
/* Adds a node to the stream's graph, as if the stream had been given its work. */
CUresult capture_add(const Device *d, CUstream stream, CUgraphNodeParams *params,
                     CUgraphNode *out);
/* All bytes but the type are zero, as the driver demands of those past the member in use: an
 * initializer leaves them as they are. */
CUgraphNodeParams capture_params(int type);
/* Whether an arg of c lies in an allocation that has moved. */
bool capture_has_moved(const Device *d, const PlanCommand *c);

/* condition.c */
CUresult condition_create(Device *d);
void condition_destroy(Device *d);
gxrt_status condition_step(Device *d, const PlanCommand *c, Frame *f);
/* Ends the captures of bodies that a failure left open. */
void condition_abandon(Device *d);

#endif
