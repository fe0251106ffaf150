/* What must come before what in one computation, and which values live how long: what all orders
 * of execution are made from.
 *
 * Edges: operands and control predecessors first; who reads a value that is replaced in place - by
 * an update, or by the next step of a loop or the donated result - before that happens, where this
 * is possible at all. Positions are the leaves of instructions' shapes, numbered throughout; values that
 * lie in one buffer - updates in place, loops - count where that begins, results of the computation
 * where its caller does. */
#ifndef GXC_PASSES_SCHEDULE_GRAPH_H
#define GXC_PASSES_SCHEDULE_GRAPH_H

#include "ir/analysis/loop_slice.h"
#include "ir/module.h"

typedef struct Edges {
    uint32_t *list;
    uint32_t count;
    size_t capacity;
} Edges;

void edges_add(Arena *a, Edges *e, uint32_t x);

typedef struct Graph {
    Arena *scratch;
    Computation *comp;        /* compact, in a topological order */
    bool is_body;             /* of a loop */
    const LoopSlices *slices; /* values without a buffer; NULL: there are none */
    uint32_t count;
    Edges *after;         /* [count] what must come after it, each once or more often */
    Edges *before;        /* [count] the other end of those edges */
    uint32_t *waiting;    /* [count] how many edges lead to it */
    uint32_t *first_leaf; /* [count] number of leaf 0 */
    uint32_t leaf_count;
    uint32_t *buffer;  /* [leaves] the leaf whose buffer it lies in */
    int64_t *bytes;    /* [leaves] of buffers that begin here; 0: not ours */
    Edges *sources;    /* [count] buffers that it reads */
    Edges *reading;    /* [buffers] what reads it */
    uint32_t *readers; /* [buffers] instructions that read it; the root counts twice */
    uint32_t *last_reader; /* [leaves] of those that were looked at so far: id + 1 */
    int64_t *called;       /* [computations] bytes that run inside a call of it */
    uint32_t *stamp;       /* [count] of the search that has seen it */
    uint32_t *rank;        /* [count] a topological order */
    Edges led, leading;    /* what two searches have found */
    uint32_t search;
    uint32_t steps,
        most_steps; /* of all searches for circles: with more there may be one */
    const uint32_t *
        group; /* [count] scheduling groups, from 1 on, that stand together; 0: none. NULL:
                              there are none */
    Edges *members; /* [groups] */
} Graph;

enum { GRAPH_STEPS = 1 << 22 }; /* the most of a compile */

/* Fills all from scratch, comp, is_body, slices, called, most_steps, group and members. */
void graph_make(Graph *s);

/* Bytes that appear when instruction i runs, and those that nobody needs afterwards: `readers` are
 * what still has to read each leaf. */
int64_t graph_bytes_made(const Graph *s, uint32_t i);
int64_t graph_bytes_freed(const Graph *s, uint32_t i, const uint32_t *readers);
/* Of what it makes, bytes that nobody ever needs. */
int64_t graph_bytes_unread(const Graph *s, uint32_t i);
/* Bytes that live inside what it calls, at most. */
int64_t graph_bytes_inside(const Graph *s, const Instruction *inst);
/* The leaf where the buffer of a leaf of a value begins. */
uint32_t graph_buffer(const Graph *s, Instruction *value, size_t leaf);
/* Adds the buffer that holds a leaf of a value to those that live. */
void graph_revive(const Graph *s, Instruction *value, size_t leaf, bool *is_live,
                  int64_t *live);

#endif
