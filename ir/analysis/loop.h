/* What is known of while loops: their form, and how often they run. */
#ifndef GXC_IR_ANALYSIS_LOOP_H
#define GXC_IR_ANALYSIS_LOOP_H

#include "ir/module.h"

/* It only computes its result; a program that it calls might do more. */
bool computation_is_pure(const Computation *comp);

/* A while over a tuple whose condition and body read single elements only. */
typedef struct Loop {
    Instruction *inst; /* the while */
    Instruction *init; /* its operand, a tuple instruction */
    Computation *condition, *body;
    uint32_t count; /* of carried values */
} Loop;

/* False: the loop has another form. */
bool loop_analyse(Instruction *inst, Loop *out);
/* The body passes element i on as it is. */
bool loop_is_invariant(const Loop *loop, uint32_t i);
/* The element of the loop's tuple that inst, of its condition or body, reads; -1: none. */
int64_t loop_element(const Computation *comp, const Instruction *inst);

/* The element that counts: init, init + step, ... for as long as the condition compares it with
 * a constant, which it does `trips` times. Nobody needs to run such a condition, so one with effects
 * counts nothing. No value on the way leaves the element's type, the one that ends the loop included. */
typedef struct Induction {
    uint32_t index;
    int64_t init, step, trips;
} Induction;

/* The body adds a constant to the element, from whatever it starts. */
bool loop_counts(const Loop *loop, uint32_t element);
/* Finds it through additions of constants in the body, and to what the condition compares;
 * false: there is none, or how often the loop runs is not known. */
bool loop_induction(const Loop *loop, Induction *out);
/* Records it in the loop's backend_config. */
void loop_set_induction(Instruction *loop, const Induction *v);

/* The trip count that the loop's backend_config records, {"known_trip_count":{"n":"5"}}; -1
 * if it records none, or the condition has effects and has to run. */
int64_t loop_known_trip_count(const Instruction *loop);
/* That follows from the loop itself, too. */
bool loop_counts_as_known(const Instruction *loop);
void loop_set_known_trip_count(Instruction *loop, int64_t count);
/* The backend_config says nothing of how the loop counts any more. */
void loop_forget_induction(Instruction *loop);

#endif
