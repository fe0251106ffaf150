/* Which values of a loop's body are the same on all devices that reduce together. */
#ifndef GXC_IR_ANALYSIS_REPLICATED_H
#define GXC_IR_ANALYSIS_REPLICATED_H

#include "ir/module.h"

/* By id of the body's instructions: in every iteration the value is the same on all devices of
 * each group of `collective`. Linear in body and caller,
 * but for numbers that are computed of the device's own: times devices. Made in `scratch`. The loop carries a
 * tuple. */
const bool *replicated_in_loop(Arena *scratch, const Instruction *loop,
                               const Instruction *collective);

#endif
