/* Running the evaluator on the caller's arrays. */
#ifndef GXC_FRONTEND_EVALUATE_H
#define GXC_FRONTEND_EVALUATE_H

#include "frontend/result.h"
#include "ir/eval/eval.h"

/* Leaves of the parameters in order, device by device. */
typedef struct Inputs {
    const gxc_array *arrays;
    size_t devices, parameters;
} Inputs;

/* Fills r->outputs, whose memory is the arena's; the signature of `r` is there. false: a message
 * has been written. */
bool evaluate_module(const Module *m, const EvalOptions *options, const Inputs *inputs,
                     Arena *arena, gxc_result *r);

#endif
