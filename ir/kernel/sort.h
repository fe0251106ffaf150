/* Sorts of long rows: runs that fit into shared memory are sorted first, then merged two by two.
 * Each step is a sort instruction of its own that says how far it goes; what it leaves to the next
 * ones the evaluator, which knows no such steps, does at once. */
#ifndef GXC_IR_KERNEL_SORT_H
#define GXC_IR_KERNEL_SORT_H

#include "ir/analysis/target.h"
#include "ir/module.h"

/* Most elements of a row, a power of two, that so many bytes of shared memory hold, with their
 * positions. */
int64_t sort_slots(const Instruction *sort, uint64_t bytes);

/* More elements of a row a block's threads sort one after the other, in n log^2 n steps. */
#define SORT_MOST_RUN 4096

/* Whether a block sorts each row: it reads and writes each element once. Not where shared memory does not hold a row,
 * nor where rows are long and too few to keep the multiprocessors busy: many blocks sort those sooner. */
bool sort_is_in_block(const Instruction *sort, const Target *t);

/* Whether the comparator surely orders elements: first by one key, then by another, ... Where it
 * may say anything - x before y before z before x - positions found by halving are no positions: two
 * elements may get the same one. NaN is not looked at. */
bool sort_has_order(const Instruction *sort);

/* The comparisons by one key after the other, each of those that are equal by the ones before: how many, or 0 if it
 * orders in another way or by more than `most` keys. */
uint32_t sort_comparisons(const Instruction *sort, const Instruction **less,
                          uint32_t most);

/* Where the comparator is f(x) < g(y) or f(x) > g(y): f and g, and true: > (or with x and y the other way round). */
bool sort_compares(const Instruction *sort, const Instruction **first,
                   const Instruction **second, bool *is_greater);

/* Each element is its number along the dimension: the indices of rows that are sorted. */
bool sort_is_indices(const Instruction *x, int64_t along);

typedef struct SortStep {
    int64_t run; /* sorts or makes runs of so many elements; 0: whole rows at once */
    bool merges; /* two runs of half as many, sorted already, each time */
    bool trusts; /* merges: the comparator orders elements */
} SortStep;

SortStep sort_step(const Instruction *sort);
void sort_set_step(Instruction *sort, SortStep step);

#endif
