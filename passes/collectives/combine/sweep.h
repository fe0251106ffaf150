/* What collective-identities and collective-merges share: one sweep over each program that replaces
 * instructions by a rule, and what the rules ask. */
#ifndef GXC_PASSES_COLLECTIVES_COMBINE_SWEEP_H
#define GXC_PASSES_COLLECTIVES_COMBINE_SWEEP_H

#include "passes/pass.h"

typedef struct Sweep {
    Module *m;
    Computation *comp;
    Arena *scratch;
    const PassSettings *settings;
    const Instruction *const *loops; /* as device_value wants them */
    uint32_t *uses;                  /* by id, [count] */
    size_t count, capacity;
} Sweep;

/* What stands for `inst`, whose operands are replaced already; NULL: it stays. */
typedef Instruction *SweepRule(Sweep *s, Instruction *inst);

/* Runs the rule over all programs that have collectives, operands first, and removes collectives that no
 * longer have users. *count grows by what was replaced. True: something was. */
bool sweep_collectives(Module *m, PassContext *cx, SweepRule *rule, uint64_t *count);

bool sweep_is_used_once(const Sweep *s, const Instruction *inst);

/* One array in and out, no control edges, no layout to keep, in no scheduling group. */
bool sweep_is_plain(const Instruction *inst);

/* The dimension of which `slice` takes this device's part, of as many as its group has, and all of the
 * others; -1: it is no such slice. A part is a device's own if its rank, computed for each device, is that
 * of the device in its group. */
int64_t sweep_own_dimension(Sweep *s, const Instruction *slice,
                            const Instruction *collective);

/* The reducer of an all-reduce or reduce-scatter gives the type of the operands. */
bool sweep_reduces_in_its_type(const Instruction *inst);

#endif
