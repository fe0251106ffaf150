/* Other kernels in the stead of several fused ones, where the model of time likes those better: what the passes that try
 * such have in common. */
#ifndef GXC_PASSES_FUSION_REGROUP_H
#define GXC_PASSES_FUSION_REGROUP_H

#include "passes/fusion/fusion.h"

typedef struct Regroup {
    Module *m;
    Computation *comp;
    PassContext *cx;
    Uses uses;
    const bool *is_awaited; /* something that need not read it waits for it */
    Arena *brief;           /* for one kernel that is tried */
    bool tried;             /* something was made, if only for the model */
} Regroup;

/* Calls `attempt` once for each kernel that is a candidate and still there, in the order of each program, and tidies up
 * behind it. What attempt changes it takes up by regroup_take_graph. */
bool regroup_run(Module *m, PassContext *cx, bool (*is_candidate)(const Instruction *),
                 bool (*attempt)(Regroup *r, Instruction *kernel));
/* As the computation is now. */
void regroup_take_graph(Regroup *r);

/* A kernel of reductions whose numbers are still open. */
bool regroup_is_reduction(const Instruction *inst);
/* Nothing needs the kernel to be there, but for the arrays that it makes. */
bool regroup_may_go(const Regroup *r, const Instruction *kernel);
double regroup_seconds(const Regroup *r, const Instruction *kernel);

/* The same kernel once more, behind all others. */
Instruction *regroup_copy(Computation *comp, const Instruction *kernel);
/* The code of `other` beside that of `kernel`, of which `fusion` is a copy: the results that it would have. */
Instruction *regroup_bring_in(const Regroup *r, Instruction *fusion,
                              const Instruction *kernel, Instruction *other);

#endif
