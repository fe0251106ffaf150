/* One step of a loop written out at another position: before the loop, after it, or once more in
 * its body. */
#ifndef GXC_PASSES_COLLECTIVES_LOOPS_STEP_H
#define GXC_PASSES_COLLECTIVES_LOOPS_STEP_H

#include "ir/module.h"

/* The next channel and scheduling group that no instruction of the module has. */
typedef struct FreshIds {
    int64_t channel, group;
} FreshIds;

FreshIds fresh_ids(const Module *m);

/* Some of the instructions (NULLs are none) is of a scheduling group with a number. */
bool step_has_groups(Instruction *const *list, uint32_t count);

/* Their groups become others that no instruction has. */
void step_renumber_groups(FreshIds *ids, Instruction *const *list, uint32_t count);

/* The scheduling groups of a copy: others, the same, or none. */
typedef enum { STEP_GROUPS_RENUMBERED, STEP_GROUPS_DROPPED } StepGroups;

typedef struct StepCopy {
    const Computation *from;
    Computation *to;
    Instruction *
        *made; /* by id in `from`: what it is in `to`; what is set is not copied */
    FreshIds *ids;
    StepGroups groups;
    bool
        renews_transfers; /* sends and receives get channels of their own, too, pair by pair */
    int64_t step;         /* which step it is; -1: no single one */
} StepCopy;

/* Copies the instructions, in this order, that have nothing in `made` yet, and sets it. The
 * operands must be in `made` or in the list. Control edges within the list are kept, collectives
 * get channels of their own, called computations that only one may call are cloned. */
void step_copy(StepCopy *c, Instruction *const *list, uint32_t count);

/* Transfers of the copy stay in order with those of the loop: copies of their ends are control
 * predecessors of the loop, or the loop one of the copies of their begins. */
void step_order_before(const StepCopy *c, Instruction *const *list, uint32_t count,
                       Instruction *loop);
void step_order_behind(const StepCopy *c, Instruction *const *list, uint32_t count,
                       Instruction *loop);

/* The intervals of steps in which transfers happen: step i of the new loop is step
 * first + i * stride of the old one, for i < trips. */
void step_set_validation(Instruction *const *list, uint32_t count, int64_t first,
                         int64_t stride, int64_t trips);

/* The body may be written out once more: what has an effect there happens as often, and in the
 * same order. effects: by Computation.id, those with effects; others count as if they had. */
bool step_may_copy(const Computation *body, const bool *effects, uint32_t effect_count);

/* values[id], for the first `count` instructions of the caller: NULL, or what each element of the
 * loop with that id becomes; who wants a whole result gets a tuple. Removes those loops. */
void step_replace_loops(Computation *caller, Instruction **const *values, uint32_t count,
                        Arena *scratch);

#endif
