/* Graphs of operations, conditional nodes included, and their executable form.
 *
 * A graph is shared by all that name it: its owner, executable graphs, nodes, captures. Once
 * instantiated it does not change; what cuGraphExecNodeSetParams sets stands in the executable
 * graph. */
#ifndef GXC_RUNTIME_EMU_GRAPH_H
#define GXC_RUNTIME_EMU_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/emu/queue.h"

/* An operation that several executable graphs may run. */
typedef struct Work {
    Operation *operation;
    unsigned users;
} Work;

/* What a node runs: an operation; the graph `inner` once, or as its condition says. */
typedef enum { NODE_WORK, NODE_CHILD, NODE_IF, NODE_WHILE } NodeKind;

typedef struct Condition {
    struct Condition *next; /* of all there are */
    unsigned value;
    bool has_node;
} Condition;

struct CUgraphNode_st {
    CUgraph graph;
    uint32_t index;  /* in its graph */
    uint32_t number; /* in the graph and all that its conditional nodes hold */
    NodeKind kind;
    bool is_followed;
    CUgraphNode *before; /* this many nodes come first */
    size_t before_count;
    Work *work;
    CUgraph inner;
    Condition *condition;
};

struct CUgraph_st {
    unsigned users;
    CUcontext context;
    CUgraph root;     /* whose conditional nodes hold this graph; itself */
    uint32_t numbers; /* of a root: nodes numbered so far */
    bool is_open;     /* a capture adds to it */
    bool is_instantiated;
    CUgraphNode *nodes; /* each after those that come before it */
    size_t count, capacity;
    Condition **conditions; /* of a root: its own */
    size_t condition_count;
};

/* All under emu_lock. NULL: no memory. */
CUgraph graph_create(CUcontext context);
void graph_release(CUgraph g); /* NULL is fine */
CUgraphNode graph_add_node(CUgraph g, NodeKind kind, const CUgraphNode *before,
                           size_t count);
/* Whether what no member of the node's type uses is zero, as the driver demands. */
bool graph_params_fit(const CUgraphNodeParams *p);
/* The operation is the work's; NULL: no memory, and the operation is freed. */
Work *work_create(Operation *op);
void work_release(Work *w);

#endif
