/* Scalars that depend on nothing but which device computes them. */
#ifndef GXC_IR_ANALYSIS_DEVICE_VALUE_H
#define GXC_IR_ANALYSIS_DEVICE_VALUE_H

#include "ir/module.h"

/* The value of an integer or pred scalar (or array of one element) on the device of that
 * replica and partition, made of their numbers, constants, arithmetic and lookups in constant
 * tables. False: it depends on more, or does not fit. */
bool device_value(const Instruction *inst, int64_t replica, int64_t partition,
                  int64_t *out);

#endif
