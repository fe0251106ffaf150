/* What the direction of a comparison says. */
#ifndef GXC_IR_ATTRIBUTE_DIRECTION_H
#define GXC_IR_ATTRIBUTE_DIRECTION_H

#include <stdbool.h>
#include <stdint.h>

/* Whether x and y, as floating-point numbers, compare so. */
bool direction_holds(int64_t direction, double x, double y);

#endif
