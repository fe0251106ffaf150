/* Carried values: who made a value, seen through everything that only hands it on, and which
 * value of one step of a loop - or of one run of a program with donated arguments - must lie
 * where the present one lies. What copy insertion, the schedule and fusion agree on. */
#ifndef GXC_IR_ANALYSIS_CARRIED_H
#define GXC_IR_ANALYSIS_CARRIED_H

#include "ir/module.h"

/* The instruction that makes a value, and the leaf of its result that it is. */
typedef struct ValueSource {
    Instruction *inst;
    size_t leaf;
} ValueSource;

/* Looks through tuples, bitcasts, barriers and leaves that a loop hands on unchanged. */
ValueSource value_source(Instruction *inst, size_t leaf);
bool value_source_is(ValueSource a, ValueSource b);

/* The body of the loop gives this leaf back as it got it. */
bool loop_hands_on(const Instruction *loop, size_t leaf);

/* By Computation.id: bodies of while loops. */
bool *module_loop_bodies(const Module *m, Arena *scratch);

/* For each leaf of the root the parameter's leaf whose buffer it takes: the same leaf in the body of
 * a loop, the aliased one in the entry; inst NULL: none. */
ValueSource *carried_presents(const Computation *comp, bool is_body, Arena *scratch);

#endif
