/* What a program may ask of its schedule: groups of instructions that stand together, so that they
 * overlap, and instructions that come first.
 *
 *   frontend_attributes={_scheduling_group_id="7"}          the group 7; "7:2": of iteration 2
 *   frontend_attributes={_scheduling_group_id="noop"}       no group
 *   backend_config={"force_earliest_schedule":true}         before all else */
#ifndef GXC_PASSES_SCHEDULE_GROUPS_H
#define GXC_PASSES_SCHEDULE_GROUPS_H

#include "ir/module.h"

#define GROUP_ATTRIBUTE "_scheduling_group_id"

/* group[id] = number of the instruction's group, from 1 in order of first appearance; 0: none.
 * Returns how many there are, and their names ("7", "7:2"). The computation is compact. */
uint32_t groups_number(const Computation *comp, Arena *scratch, uint32_t *group,
                       const char *const **out_names);

/* It is worth a place in a group: asynchronous, or about to be, or it holds a product. */
bool groups_may_hold(const Instruction *inst);

/* It is to come as early as it can: it asks for that, or begins a computation beside the program that
 * writes into an array. */
bool groups_is_forced_early(const Instruction *inst);

#endif
