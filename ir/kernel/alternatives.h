/* Other kernels for a fusion than the one that its text names: what a tuner measures beside it. */
#ifndef GXC_IR_KERNEL_ALTERNATIVES_H
#define GXC_IR_KERNEL_ALTERNATIVES_H

#include "ir/kernel/kernel.h"

typedef struct Alternative {
    const Instruction
        *fusion; /* in a module of its own, with operands of the same shapes */
    const KernelDesign *design;
    const char *config; /* as its text has it */
    double seconds;     /* by the model of time */
} Alternative;

typedef struct Alternatives {
    const Alternative *data; /* the fastest first */
    size_t count;
    double own_seconds; /* of the fusion as it is */
} Alternatives;

/* At most `most` of the kind that the fusion names, with its configuration changed in one or two numbers, and one
 * of each other kind that can be it where its buffers are: if `shares_buffers`, a result lies where an operand did.
 * The fusion's own configuration is complete and not among them. All is made in `a`. */
Alternatives kernel_alternatives(const Instruction *fusion, const Target *t,
                                 bool shares_buffers, size_t most, Arena *a);

#endif
