/* Sorts of long rows: runs that fit into shared memory are sorted first, then merged two by two.
 * Each step is a sort instruction of its own that says how far it goes; what it leaves to the next
 * ones the evaluator, which knows no such steps, does at once. */
#ifndef GXC_IR_KERNEL_SORT_H
#define GXC_IR_KERNEL_SORT_H

#include "ir/module.h"

/* Most elements of a row, a power of two, that so many bytes of shared memory hold, with their
 * positions. */
int64_t sort_slots(const Instruction *sort, uint64_t bytes);

/* Whether a block of so much shared memory sorts whole rows: it reads and writes each element once. */
bool sort_fits(const Instruction *sort, uint64_t bytes);

/* Whether the comparator surely orders elements: first by one key, then by another, ... Where it
 * may say anything - x before y before z before x - places found by halving are no places: two
 * elements may get the same one. NaN is not looked at. */
bool sort_has_order(const Instruction *sort);

/* Where the comparator is f(x) < g(y) or f(x) > g(y): f and g, and true: > (or with x and y the other way round). */
bool sort_compares(const Instruction *sort, const Instruction **first,
                   const Instruction **second, bool *is_greater);

typedef struct SortStep {
    int64_t run; /* sorts or makes runs of so many elements; 0: whole rows at once */
    bool merges; /* two runs of half as many, sorted already, each time */
    bool trusts; /* merges: the comparator orders elements */
} SortStep;

SortStep sort_step(const Instruction *sort);
void sort_set_step(Instruction *sort, SortStep step);

#endif
