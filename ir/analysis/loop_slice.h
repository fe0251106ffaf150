/* Slices that a loop's body takes of an array that the loop leaves alone, at positions that follow from how
 * often it went round: stacked weights by layer.
 *
 *   u = fusion(w, i), of dynamic-slice(w, i, 0, 0)      w: an invariant element; i: 0, 1, 2, ...
 *   v = bitcast(u)
 *   y = dot(x, v), backend_config={"library":"cublaslt"}
 *
 * The library reads v where it lies in w: no kernel runs, u and v have no buffer. Only slices that are whole
 * pieces of memory and that nobody but library products reads. */
#ifndef GXC_IR_ANALYSIS_LOOP_SLICE_H
#define GXC_IR_ANALYSIS_LOOP_SLICE_H

#include "ir/module.h"

#define LOOP_SLICE_TERMS 4
#define LOOP_SLICE_ALIGNMENT 16 /* of every such position: what libraries are promised */

/* clamp(rounds * scale + bias, 0, high) * stride bytes; rounds: finished ones of the loop */
typedef struct LoopSliceTerm {
    int64_t scale, bias, high, stride;
} LoopSliceTerm;

typedef struct LoopSlice {
    const Instruction *inst; /* the fusion, or a bitcast of it */
    const Instruction
        *source; /* the body's parameter; of a transfer: what has the array */
    size_t leaf; /* of its shape: the array */
    const Instruction
        *piece; /* of a transfer: what is taken - inst itself -, or put there */
    const Computation *body; /* of the loop whose rounds count; NULL: none */
    int64_t offset;          /* bytes; the terms come on top */
    uint32_t term_count;
    LoopSliceTerm terms[LOOP_SLICE_TERMS];
} LoopSlice;

typedef struct LoopSlices LoopSlices;

/* Of a module that is laid out and fused; linear in its size. */
const LoopSlices *loop_slices_create(const Module *m, Arena *a);
/* NULL: it is none, or was made later. */
const LoopSlice *loop_slice_of(const LoopSlices *s, const Instruction *inst);
/* A kernel beside the program that only takes such a piece out of an array, or puts it there: NULL: it does
 * more, or the position is not known. */
const LoopSlice *loop_transfer_of(const LoopSlices *s, const Instruction *fusion);
/* The loop with this body has some. */
bool loop_slices_has(const LoopSlices *s, const Computation *body);

/* A number of the body as one of the finished rounds: rounds * scale + bias, which never leaves its type. */
typedef struct LoopIndex {
    int64_t scale, bias;
} LoopIndex;
/* False: it does not follow from how often the loop went round. */
bool loop_index(const Instruction *loop, const Instruction *number, LoopIndex *out);

/* Element `element` of what the loop carries is an array that the body only writes, a piece in each round, and the
 * rounds write all of it: what it is at first does not matter. */
bool loop_fills(const Instruction *loop, uint32_t element);

#endif
