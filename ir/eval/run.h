/* The machine of the evaluator: plans, frames, devices. Used by run.c and collective.c. */
#ifndef GXC_IR_EVAL_RUN_H
#define GXC_IR_EVAL_RUN_H

#include "ir/eval/call.h"

/* How a computation is run: its instructions in order, and what dies after each. */
typedef struct Plan {
    const Computation *comp;
    uint32_t count;
    Instruction **order;    /* [count] operands first */
    uint32_t *dead_start;   /* [count + 1] into dead */
    uint32_t *dead;         /* ids of the values that are not used after order[i] */
    uint32_t most_operands; /* of one instruction */
} Plan;

struct Frame {
    Frame *below;
    const Plan *plan;
    uint32_t next;  /* position in plan->order */
    uint32_t phase; /* of that instruction */
    Value *state, *returned;
    uint32_t argument_count;
    Value **arguments; /* NULL once moved into values */
    Value **values;    /* [instruction_count] by id */
    size_t capacity;   /* of arguments and values together */
};

/* Steps a device until it is done, parked or has run `most` instructions. True if it ran at
 * least one phase to its end. */
bool device_step(Eval *eval, Device *device, uint32_t most);

void device_push(Eval *eval, Device *device, const Computation *comp, uint32_t count,
                 Value *const *arguments);

#endif
