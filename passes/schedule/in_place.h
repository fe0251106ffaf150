/* Where the buffer of a value began: what updates an array in place - a kernel, or a computation that runs
 * beside the program -, a loop, or a custom call that says so makes its result where an operand lies. */
#ifndef GXC_PASSES_SCHEDULE_IN_PLACE_H
#define GXC_PASSES_SCHEDULE_IN_PLACE_H

#include "ir/analysis/carried.h"

/* The operand's value that this one lies in the place of, by an update or a declaration; itself. */
bool in_place_operand(ValueSource value, ValueSource *out);
/* The argument that a computation updates in place to make this leaf of its result; false: none. */
bool in_place_argument(const Computation *comp, size_t leaf, ValueSource *out);
/* Follows that backwards to the end; `through_loops`: from a loop's result to its initial value, too. */
ValueSource in_place_origin(ValueSource value, bool through_loops);

#endif
