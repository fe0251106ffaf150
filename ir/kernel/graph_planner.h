/* Who knows which graphs cuDNN can do on a GPU. Passes ask before they mark what becomes one;
 * codegen answers them, by a process that it starts when it is asked for the first time. */
#ifndef GXC_IR_KERNEL_GRAPH_PLANNER_H
#define GXC_IR_KERNEL_GRAPH_PLANNER_H

#include "ir/analysis/target.h"
#include "ir/module.h"

typedef struct GraphPlanner GraphPlanner;
struct GraphPlanner {
    /* Sets possible[i]: cuDNN has kernels for marked[i], an instruction that is marked for it. Asking for
     * many at once is quicker; what was asked before is known. */
    void (*ask)(GraphPlanner *p, const Target *target, Instruction *const *marked,
                size_t count, bool *possible);
    /* There is a cuDNN that can be asked. */
    bool (*is_there)(GraphPlanner *p);
};

#endif
