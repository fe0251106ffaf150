/* Scalars that depend on nothing but which device computes them. */
#ifndef GXC_IR_ANALYSIS_DEVICE_VALUE_H
#define GXC_IR_ANALYSIS_DEVICE_VALUE_H

#include "ir/module.h"

/* By computation: the while loop whose body it is, if nobody else calls it; else NULL. Made in
 * `scratch`; holds as long as no loop is added or removed. */
const Instruction *const *device_value_loops(const Module *m, Arena *scratch);

/* The value of an integer or pred scalar (or array of one element) on the device of that
 * replica and partition, made of their numbers, constants, arithmetic and lookups in constant
 * tables; what a loop carries unchanged is what it began with. False: it depends on more, or
 * does not fit. `loops`: from device_value_loops. */
bool device_value(const Instruction *inst, const Instruction *const *loops,
                  int64_t replica, int64_t partition, int64_t *out);

#endif
